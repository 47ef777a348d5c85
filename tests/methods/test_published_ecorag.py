"""The numbers typed from ECoRAG, checked against themselves: sums, copies between tables, and what does not fit."""

import math

import numpy as np
import pytest
from looped import each
from statsmodels.stats.proportion import proportions_ztest

from rag_utils.page import report

COMPRESSORS = (1, 12, 13, 14)  # one table per reader: GPT-4o-mini, Flan-UL2, Gemma2, Llama3
ORDER = [
    "closed-book",
    "standard RAG",
    "LLMLingua",
    "LLMLingua-2",
    "LongLLMLingua",
    "RECOMP (extractive)",
    "RECOMP (abstractive)",
    "CompAct",
    "ECoRAG",
]
ROUNDING = 0.005  # of a value printed with two digits


def published(number):
    return report.published(f"ecorag_table{number}")


def cells(number):
    """(method, data set, metric) -> value of a table of compressors."""
    return published(number).set_index(["method", "dataset", "metric"])["value"].to_dict()


def noted(number):
    found = published(number).query("note != ''")
    return set(found[["method", "dataset", "metric"]].itertuples(index=False, name=None))


@each(
    ("number", "rows", "total"),  # totals added up from the printed rows, apart from the CSV
    [
        (1, 81, 57_895.35),
        (2, 6, 455.94),
        (3, 14, 828.17),
        (4, 18, 81.47),
        (6, 12, 129_408.93),
        (7, 33, 7_013.82),
        (8, 10, 2.1813),
        (9, 6, 8_884.96),
        (10, 7, 24.28),
        (12, 75, 65_381.44),
        (13, 74, 44_447.22),
        (14, 81, 58_224.47),
        (15, 27, 19_284.69),
        (16, 16, 11_249.43),
        (17, 27, 19_709.92),
        (18, 6, 222.76),
        (19, 8, 590.34),
    ],
)
def test_every_table_is_complete(number, rows, total):
    found = published(number)
    assert len(found) == rows
    assert found["value"].sum() == pytest.approx(total, abs=1e-6)
    assert found["source"].str.startswith(f"ECoRAG, Table {number}, ").all()


@each("number", [*COMPRESSORS, 15, 17])
def test_tables_of_compressors_have_the_same_rows(number):
    found = published(number)
    assert list(dict.fromkeys(found["method"])) == ORDER
    assert set(found["metric"]) == {"tokens", "EM", "F1"}
    wide = found.pivot(index=["method", "dataset"], columns="metric", values="value")
    assert (wide["tokens"].dropna() % 1 == 0).all() and (wide.loc["closed-book", "tokens"] == 0).all()
    assert (wide["EM"].dropna() < wide["F1"].dropna()).all() and (wide["F1"].dropna() < 100).all()


def test_some_rows_word_for_word():
    row = [cells(1)["ECoRAG", dataset, metric] for dataset in ("NQ", "TQA", "WQ") for metric in ("tokens", "EM", "F1")]
    assert row == [632, 36.48, 49.81, 441, 65.34, 75.37, 560, 30.17, 46.13]
    assert [cells(17)["CompAct", "HotpotQA", metric] for metric in ("tokens", "EM", "F1")] == [74, 31.21, 42.42]
    assert published(18)["value"].tolist() == [49.76, 23.91, 49.12, 23.08, 52.29, 24.60]
    assert published(9)["value"].tolist() == [110, 0.70, 770, 0.03, 8000, 4.23]


# ------------------------------------------------------------ cells that are printed twice


def test_what_tables_7_15_and_16_repeat():
    first, fifteen = cells(1), cells(15)
    seven = published(7).query("method == 'ECoRAG'").set_index(["dataset", "metric"])["value"]
    assert seven.to_dict() == {cell[1:]: value for cell, value in first.items() if cell[0] == "ECoRAG"}
    assert all(fifteen["closed-book", "NQ", metric] == first["closed-book", "NQ", metric] for metric in ("EM", "F1"))
    sixteen = published(16).query("method == 'ECoRAG'").set_index(["retriever", "metric"])["value"].to_dict()
    for metric in ("tokens", "EM"):
        assert sixteen["DPR", metric] == first["ECoRAG", "NQ", metric]
        assert sixteen["Contriever", metric] == fifteen["ECoRAG", "NQ", metric]


@pytest.fixture(scope="module")
def ablation():
    return published(3).set_index(["row", "dataset", "metric"])["value"].to_dict()


def test_one_cell_with_two_values(ablation):
    """65.34 in Tables 1 and 7 and the gain of section 4.2; 65.43 in Table 3 and the gaps of section 5.3."""
    table1, table3 = cells(1)["ECoRAG", "TQA", "EM"], ablation["(A)", "TQA", "EM"]
    assert (table1, table3) == (65.34, 65.43)
    assert cells(1)["ECoRAG", "NQ", "EM"] == ablation["(A)", "NQ", "EM"]
    assert table1 - cells(1)["CompAct", "TQA", "EM"] == pytest.approx(1.38)
    assert table3 - ablation["(C)", "TQA", "EM"] == pytest.approx(0.53)
    assert table3 - ablation["(D)", "TQA", "EM"] == pytest.approx(1.80)
    assert ("ECoRAG", "TQA", "EM") in noted(1)
    assert set(published(3).query("note.str.contains('65.34')")["row"]) == {"(A)"}


def test_the_ablation_without_evaluator_is_compact(ablation):
    assert ablation["(D)", "NQ", "EM"] == cells(1)["CompAct", "NQ", "EM"] == 35.71


def test_table6_has_the_closed_book_row_of_another_reader():
    pairs = {n: tuple(cells(n)["closed-book", "NQ", metric] for metric in ("EM", "F1")) for n in (1, 6, 12, 13, 14, 15)}
    assert pairs[6] == pairs[12] == (21.33, 28.71)
    assert all(pairs[6] != pairs[n] for n in (1, 13, 14, 15))
    assert {("closed-book", "NQ", "EM"), ("closed-book", "NQ", "F1")} <= noted(6) & noted(12)


# ------------------------------------------------------------ times


def times(number):
    return (
        published(number)
        .pivot(index="method", columns="metric", values="value")
        .rename(columns=lambda name: name.split()[0])
    )


def questions(number):
    """From and to how many questions the printed times and throughputs allow, per method."""
    found = times(number)
    seconds = 3600 * found["total"]
    half = 3600 * ROUNDING
    low = (seconds - half) * (found["throughput"] - ROUNDING)
    return low, (seconds + half) * (found["throughput"] + ROUNDING)


def test_times_add_up():
    for number in (4, 10):
        found = times(number)
        gap = found["compression"].fillna(0) + found["inference"] - found["total"]
        assert gap.abs().max() <= 3 * ROUNDING
        assert list(gap.index[gap.abs() > 1e-9]) == (["CompAct"] if number == 4 else [])
    parts = published(9).query("metric == 'latency (h)'").set_index("part")["value"]
    ours = times(4).loc["ECoRAG"]
    assert parts["compressor"] + parts["evaluator"] == pytest.approx(ours["compression"])
    assert parts["reader"] == ours["inference"]
    assert times(4).loc["standard RAG", "total"] - ours["total"] == pytest.approx(7.32)


def test_throughputs_of_table_10_are_for_fewer_questions():
    low, high = questions(4)
    assert (math.ceil(low.max()), math.floor(high.min())) == (3520, 3620)
    low, high = questions(10)
    assert (high < 3520).all()
    assert low.round().to_dict() == {"ECoRAG": 2418, "standard RAG": 2307}
    assert high.round().to_dict() == {"ECoRAG": 2550, "standard RAG": 2618}
    seconds = 3600 * times(10)["total"]
    assert (3520 / seconds).round(2).tolist() == [0.28, 0.11]  # what would be printed for all of them, at the least


def test_the_worst_case_costs_what_the_average_costs():
    """All times of Table 10 are 0.69 to 0.70 of those of Table 4, throughputs are the same."""
    worst, usual = times(10), times(4).loc[["ECoRAG", "standard RAG"]]
    assert (worst["throughput"] == usual["throughput"]).all()
    columns = ["compression", "inference", "total"]
    low = ((worst[columns] - ROUNDING) / (usual[columns] + ROUNDING)).max(axis=None)
    high = ((worst[columns] + ROUNDING) / (usual[columns] - ROUNDING)).min(axis=None)
    assert low < high and (round(low, 3), round(high, 3)) == (0.696, 0.697)  # one factor fits all five


def test_the_reader_of_table_4_has_no_such_row_in_table_12():
    assert ("standard RAG", "NQ", "EM") not in cells(12)
    assert set(published(4).query("note != ''")["method"]) == {"standard RAG", "CompAct"}


# ------------------------------------------------------------ tokens


def test_ratios_of_table_8_against_the_tokens_of_table_1():
    ratio = published(8).set_index(["dataset", "metric"])["value"]
    for dataset, tokens, of_means in (("NQ", 558, 0.0455), ("TQA", 378, 0.0311)):
        every, kept = (cells(1)[method, dataset, "tokens"] for method in ("standard RAG", "ECoRAG"))
        mean, spread = (ratio[dataset, f"compression ratio, {what}"] for what in ("mean", "standard deviation"))
        assert round(mean * every) == tokens < kept and round(kept / every, 4) == of_means
        # mean(ratio x length) / mean(length) - mean(ratio) = correlation x spread of ratio x spread of length / mean length
        assert 0.19 < (of_means - mean) / spread < 0.23
    assert (ratio.xs("compression ratio, maximum", level="metric") == 1).all()


def test_at_most_two_questions_can_have_a_ratio_of_one():
    ratio = published(8).query("dataset == 'NQ'").set_index("metric")["value"]
    mean, spread = ratio["compression ratio, mean"], ratio["compression ratio, standard deviation"]
    for n in (3520, 3620):
        assert math.floor(n * (spread + 5e-5) ** 2 / (1 - mean) ** 2) == 2


def test_how_many_sentences_are_kept():
    """If a sentence is as long as one of the reranked top 20."""
    reranked = (
        published(7)
        .query("method == 'BGE-M3' and sentences == '20' and metric == 'tokens'")
        .set_index("dataset")["value"]
    )
    kept = {dataset: 20 * cells(1)["ECoRAG", dataset, "tokens"] / tokens for dataset, tokens in reranked.items()}
    assert {dataset: round(value, 1) for dataset, value in kept.items()} == {"NQ": 18.9, "TQA": 11.8, "WQ": 17.4}
    other = published(7).query("method == 'BGE-reranker' and sentences == '20' and metric == 'tokens'")
    assert other["dataset"].tolist() == ["NQ"]
    assert 20 * cells(1)["ECoRAG", "NQ", "tokens"] / other["value"].item() == pytest.approx(15.1, abs=0.05)


def test_on_tqa_no_baseline_reaches_the_closed_book():
    exact = published(1).query("dataset == 'TQA' and metric == 'EM'").set_index("method")["value"]
    others = exact.drop(["closed-book", "ECoRAG"])
    assert others.idxmax() == "CompAct" and others.max() == 63.96 < exact["closed-book"] == 64.78
    assert exact["ECoRAG"] - exact["closed-book"] == pytest.approx(0.56)


def test_the_evaluator_takes_little_however_often_it_is_asked():
    hours = published(9).query("metric == 'latency (h)'").set_index("part")["value"]
    assert hours.to_dict() == {"compressor": 0.70, "evaluator": 0.03, "reader": 4.23}
    for needed in range(1, 21):  # sentences until the evaluator is content
        assert needed <= 4 * math.ceil(needed / 4)
    assert 4 * hours["evaluator"] == pytest.approx(0.12)


def test_tokens_of_the_same_texts_under_four_tokenizers():
    """Compressed texts do not depend on the reader, so their tokens go with those of all documents; what does not is noted."""
    first, off = cells(1), {}
    for number in COMPRESSORS[1:]:
        here = cells(number)
        ratios = {
            dataset: here["standard RAG", dataset, "tokens"] / first["standard RAG", dataset, "tokens"]
            for dataset in ("NQ", "TQA", "WQ")
            if ("standard RAG", dataset, "tokens") in here
        }
        for method in ORDER[2:]:
            for dataset in ("NQ", "TQA", "WQ"):
                expected = first[method, dataset, "tokens"] * ratios.get(dataset, ratios["NQ"])
                if abs(here[method, dataset, "tokens"] - expected) > max(10, 0.1 * expected):
                    off[number, method, dataset] = round(expected)
    said = {
        (number, row.method, row.dataset): int(row.note.split(" gives ")[1].split(";")[0])
        for number in COMPRESSORS
        for row in published(number).query("note.str.contains(' gives ')").itertuples()
    }
    assert off == said and len(off) == 13
    by_table = {number: sum(cell[0] == number for cell in off) for number in COMPRESSORS}
    assert by_table == {1: 0, 12: 7, 13: 3, 14: 3}
    more = {
        cell[1:]: cells(12)[cell[1], cell[2], "tokens"] - expected for cell, expected in off.items() if cell[0] == 12
    }
    del more["LLMLingua-2", "WQ"]  # where Table 1 is off
    assert (min(more.values()), max(more.values())) == (132, 161)  # as if one text more were counted


# ------------------------------------------------------------ claims against cells


def test_who_is_ahead():
    """Cells in which another row beats ECoRAG: all of them, then compressors only."""
    ahead = {}
    for number in (*COMPRESSORS, 6, 15, 17):
        found = cells(number)
        ahead[number] = {
            (method, dataset, metric)
            for (method, dataset, metric), value in found.items()
            if metric != "tokens" and value > found["ECoRAG", dataset, metric]
        }
    assert ahead == {
        1: {("standard RAG", "NQ", "F1")},
        6: set(),
        12: {("RECOMP (abstractive)", "WQ", "EM")},
        13: {("LongLLMLingua", "WQ", "F1")},
        14: {("closed-book", "TQA", "EM"), ("closed-book", "WQ", "EM"), ("closed-book", "WQ", "F1")},
        15: set(),
        17: set(),
    }


def test_the_suspect_cell_of_table_12():
    wide = published(12).pivot(index=["method", "dataset"], columns="metric", values="value").dropna()
    gap = (wide["F1"] - wide["EM"]).round(2)
    odd = gap.xs("WQ", level="dataset")
    assert odd["RECOMP (abstractive)"] == 0.41 and odd.drop("RECOMP (abstractive)").between(9.3, 12.5).all()
    assert gap.drop(("RECOMP (abstractive)", "WQ")).min() > 5
    assert 9.3 < odd["RECOMP (abstractive)"] + 10 < 12.5  # with 28.15


def test_fewer_tokens_than_the_others_does_not_hold_everywhere():
    others = ORDER[2:6]
    more = {}
    for number in (*COMPRESSORS, 15, 17):
        found = cells(number)
        more[number] = {
            (method, dataset)
            for (method, dataset, metric), value in found.items()
            if metric == "tokens" and method in others and value < found["ECoRAG", dataset, metric]
        }
    assert more == {
        1: set(),
        12: set(),
        13: {("LLMLingua", "NQ"), ("RECOMP (extractive)", "NQ")},
        14: {("RECOMP (extractive)", "NQ")},
        15: set(),
        17: {("LLMLingua", "HotpotQA")},
    }


def test_the_first_five_documents_beat_most_compressors():
    few = published(16).set_index(["documents", "retriever", "metric"])["value"]
    ahead = [m for m in ORDER[2:] if cells(1)[m, "NQ", "EM"] > few["5", "DPR", "EM"]]
    assert ahead == ["CompAct", "ECoRAG"]
    assert few["20", "DPR", "EM"] > cells(1)["standard RAG", "NQ", "EM"]
    contriever_behind = [k for k in ("5", "10", "20") if few[k, "Contriever", "EM"] < few[k, "DPR", "EM"]]
    assert contriever_behind == ["5", "10"]
    assert published(16).query("note != ''")["documents"].tolist() == contriever_behind
    gains = [cells(n)["ECoRAG", "NQ", "EM"] - cells(n)["standard RAG", "NQ", "EM"] for n in (1, 15)]
    assert np.round(gains, 2).tolist() == [0.39, 4.32]


# ------------------------------------------------------------ Table 19


@pytest.fixture(scope="module")
def subsets():
    return published(19).pivot(index="subset", columns="metric", values="value")


def f1(precision, recall):
    return 2 * precision * recall / (precision + recall)


def test_the_f1_of_the_exposed_subset_does_not_follow(subsets):
    exposed, other = subsets.loc["exposed"], subsets.loc["non-exposed"]
    assert f1(other["precision"], other["recall"]) == pytest.approx(other["F1"], abs=2 * ROUNDING)
    assert f1(exposed["precision"], exposed["recall"]) == pytest.approx(71.79, abs=ROUNDING)
    assert exposed["F1"] - 71.79 > 0.3
    assert f1(exposed["precision"], 64.71) == pytest.approx(exposed["F1"], abs=ROUNDING)
    assert (exposed["recall"], exposed["F1"]) == (64.17, 72.13)
    assert set(published(19).query("note != ''")["metric"]) == {"recall", "F1"}


def p_value(first, second, *n):
    """p of the two-proportion z-test, two-sided; per cent, and the number behind each."""
    counts = [share * size / 100 for share, size in zip((first, second), n, strict=True)]
    return proportions_ztest(counts, n)[1]


def test_from_how_many_questions_on_the_subsets_differ(subsets):
    for metric, n in (("accuracy", 1524), ("recall", 111)):
        pair = subsets[metric].tolist()
        assert p_value(*pair, n, n) <= 0.05 < p_value(*pair, n - 1, n - 1), metric


def whole(low, high):
    return range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)


def fewest_positives(accuracy, precision, recall):
    """(questions that are sufficient, all questions) of the smallest counts that round to the printed values."""
    half = ROUNDING + 1e-4
    for positives in range(1, 2000):
        for tp in whole(positives * (recall - half) / 100, positives * (recall + half) / 100):
            for predicted in whole(100 * tp / (precision + half), 100 * tp / (precision - half)):
                wrong = predicted - tp + positives - tp
                sizes = whole(wrong / (1 - (accuracy - half) / 100), wrong / (1 - (accuracy + half) / 100))
                if tp and sizes and sizes[-1] >= positives + predicted - tp:
                    return positives, sizes[0]
    raise AssertionError("no counts fit")


def test_table_19_is_of_too_many_questions_for_its_test(subsets):
    """The printed digits need counts so large that the recalls differ significantly, whatever the true n."""
    columns = ["accuracy", "precision", "recall"]
    exposed, other = (fewest_positives(*subsets.loc[name, columns]) for name in ("exposed", "non-exposed"))
    assert (exposed, other) == ((829, 1328), (879, 1385))
    assert p_value(*subsets["recall"], exposed[0], other[0]) < 1e-7
    corrected = fewest_positives(*subsets.loc["exposed", columns[:2]], 64.71)
    assert corrected == (1434, 2278)
    assert p_value(64.71, subsets.loc["non-exposed", "recall"], corrected[0], other[0]) < 1e-7
    assert p_value(*subsets["accuracy"], exposed[1], other[1]) > 0.05  # the accuracies need not differ


# ------------------------------------------------------------ prose, list


def test_prose_against_the_tables(ablation):
    prose = report.published("ecorag_prose")
    assert set(prose["item"]) >= {"Fig. 1", "Fig. 4", "Fig. 5"}
    assert prose["source"].str.fullmatch(r"ECoRAG, (section|appendix) [A-Z]?[\d.]+").all()
    value = prose.set_index(["item", "statement"])["value"]
    ranks = published(2).set_index(["labels", "metric"])["value"]
    for metric in ("NDCG@1", "NDCG@10"):
        gain = ranks["ECoRAG", metric] - ranks["leave-one-out", metric]
        assert gain == pytest.approx(value["Table 2", f"ECoRAG against leave-one-out, {metric}"])
    for dataset in ("NQ", "TQA", "WQ"):
        found = {method: cells(1)[method, dataset, "EM"] for method in ORDER[2:]}
        assert found.pop("ECoRAG") - max(found.values()) == pytest.approx(
            value["Table 1", f"ECoRAG against the strongest compressor, {dataset}"]
        )
    for row in "CD":
        for dataset in ("NQ", "TQA"):
            gap = ablation["(A)", dataset, "EM"] - ablation[f"({row})", dataset, "EM"]
            assert gap == pytest.approx(value["Table 3", f"(A) against ({row}), {dataset}"])
    parts = published(9).query("metric != 'latency (h)'").set_index("part")["value"]
    assert parts["compressor"] + parts["evaluator"] == value["Table 9", "what compressor and evaluator add, VRAM"]
    hotpot = cells(17)
    best = max(hotpot[method, "HotpotQA", "EM"] for method in ORDER[2:-1])
    assert best < hotpot["standard RAG", "HotpotQA", "EM"] < hotpot["ECoRAG", "HotpotQA", "EM"]


def test_items_cover_every_table_and_figure():
    items = report.published("ecorag_items")
    assert list(dict.fromkeys(items["item"])) == [f"Table {i}" for i in range(1, 20)] + [
        f"Fig. {i}" for i in range(1, 8)
    ]
    assert set(items["status"]) == {"measured here", "not run here"}
    assert (items["caption"] != "").all() and items["caption"].str.split().map(len).max() <= 15  # our own few words
    typed = {path.stem.removeprefix("ecorag_table") for path in report.PUBLISHED.glob("ecorag_table*.csv")}
    without_numbers = {"5", "11"}
    assert typed == {str(i) for i in range(1, 20)} - without_numbers
