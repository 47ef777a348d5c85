"""The numbers typed from the papers, checked against themselves and against counts."""

import json
import math
import re
from types import SimpleNamespace

import pandas as pd
import pytest
from looped import each
from scipy import stats

from rag_utils.page import report

COUNTS = report.ROOT / "data" / "results" / "01_data_and_models" / "evouna_tq_counts.csv"
PAIR = ["evaluator", "dataset", "system"]
SWAPPED = ("Lexical Match", "TriviaQA", "DPR-FiD")
SUSPECTS = {("BERTScore", "TriviaQA", "GPT-4"), ("Human", "TriviaQA", "GPT-4")}
TOO_MANY_NEGATIVES = ("Human", "Natural Questions", "ChatGPT")
SLACK = 0.17
# answers of each system that the benchmark's annotators judge right and wrong
JUDGED = {
    ("Natural Questions", "DPR-FiD"): (2082, 938),
    ("Natural Questions", "InstructGPT"): (1978, 1042),
    ("Natural Questions", "ChatGPT"): (2204, 816),
    ("Natural Questions", "GPT-4"): (2381, 639),
    ("Natural Questions", "BingChat"): (2413, 606),
    ("TriviaQA", "DPR-FiD"): (1580, 358),
    ("TriviaQA", "InstructGPT"): (1520, 418),
    ("TriviaQA", "ChatGPT"): (1636, 302),
    ("TriviaQA", "GPT-4"): (1748, 190),
    ("TriviaQA", "BingChat"): (1737, 201),
}


@pytest.fixture(scope="module")
def table():
    return report.published("seper_table1")


@pytest.fixture(scope="module")
def pairs(table):
    return table.pivot(index=PAIR, columns="metric", values="value")


@pytest.fixture(scope="module")
def counts():
    return pd.read_csv(COUNTS, index_col="id")


def f1(c):
    return 100 * 2 * c.tp / (2 * c.tp + c.fp + c.fn)


def accuracy(c):
    return 100 * (c.tp + c.tn) / (c.tp + c.tn + c.fp + c.fn)


def test_seper_table1_is_complete(table):
    assert len(table) == 140
    assert (table.groupby("evaluator").size() == 20).all()
    assert (table.groupby(["dataset", "system", "metric"]).size() == 7).all()
    assert table.groupby("group", sort=False)["evaluator"].unique().map(list).to_dict() == {
        "Matching-based": ["Lexical Match", "BERTScore", "Entail (SePer)"],
        "LLM-as-a-Judge": ["Auto-J", "Prometheus"],
        "Human-level": ["GPT-4", "Human"],
    }
    assert table["value"].between(50, 100).all()
    assert (table["value"] == table["value"].round(1)).all()
    assert (table["source"] == "SePer, Table 1, " + table["group"] + ", " + table["evaluator"]).all()


def test_row_sums_are_those_of_the_papers_rows(table):
    # added up from the printed rows apart from the CSV, against slips in later edits
    sums = table.groupby("evaluator")["value"].sum().round(1)
    assert sums.to_dict() == {
        "Auto-J": 1417.5,
        "BERTScore": 1587.3,
        "Entail (SePer)": 1880.8,
        "GPT-4": 1910.9,
        "Human": 1963.3,
        "Lexical Match": 1789.8,
        "Prometheus": 1718.4,
    }


def test_three_rows_word_for_word(pairs):
    for cell, printed in {
        ("Lexical Match", "Natural Questions", "DPR-FiD"): (92.0, 89.7),
        ("Entail (SePer)", "Natural Questions", "BingChat"): (91.4, 87.0),
        ("Human", "TriviaQA", "BingChat"): (99.9, 99.8),
        ("Auto-J", "Natural Questions", "DPR-FiD"): (57.8, 54.2),
        SWAPPED: (91.8, 94.7),
    }.items():
        assert (pairs.loc[cell, "F1"], pairs.loc[cell, "accuracy"]) == printed


def test_accuracy_exceeds_f1_only_in_the_noted_cells(table, pairs):
    odd = set(pairs.index[pairs["F1"] < pairs["accuracy"]])
    assert odd == {SWAPPED} | SUSPECTS
    noted = set(table.loc[table["note"] != "", PAIR].itertuples(index=False, name=None))
    assert noted == odd | {TOO_MANY_NEGATIVES}


def fits(f1, accuracy, right, wrong):
    """Is there a table of counts with these margins that rounds to the printed pair?

    Both printed values may be off by `SLACK`: rounding is 0.05, and the recomputed Lexical Match values lie up to 0.16
    from the printed ones.
    """
    n = right + wrong
    for tp in range(right + 1):
        least = max(0, math.ceil((accuracy - SLACK) / 100 * n - tp))
        for tn in range(least, min(wrong, math.floor((accuracy + SLACK) / 100 * n - tp)) + 1):
            if abs(200 * tp / (2 * tp + n - tp - tn) - f1) <= SLACK:
                return True
    return False


def test_every_pair_but_the_noted_ones_fits_the_labels(pairs):
    unfit = {cell for cell, pair in pairs.iterrows() if not fits(pair["F1"], pair["accuracy"], *JUDGED[cell[1:]])}
    assert unfit == {SWAPPED, TOO_MANY_NEGATIVES} | SUSPECTS


def test_what_would_fit_instead():
    assert fits(94.7, 91.8, *JUDGED[SWAPPED[1:]])
    assert fits(90.5, 83.5, *JUDGED["TriviaQA", "GPT-4"])
    assert fits(99.9, 99.8, *JUDGED["TriviaQA", "GPT-4"])
    assert not fits(99.8, 99.2, *JUDGED["TriviaQA", "GPT-4"])  # that one is not a mere swap


def test_counts_add_up_to_the_labels(counts):
    assert list(counts.columns) == ["tp", "fp", "fn", "tn"]
    for system, c in counts.iterrows():
        assert (c.tp + c.fn, c.fp + c.tn) == JUDGED["TriviaQA", system]
        assert c.sum() == 1938
    facts = json.loads(COUNTS.with_suffix(".json").read_text(encoding="utf-8"))["facts"]
    assert "EVOUNA/TQ.json" in facts["source"]


def test_printed_values_are_those_of_the_counts_after_one_swap(counts, pairs):
    for system, c in counts.iterrows():
        printed = pairs.loc["Lexical Match", "TriviaQA", system]
        pair = (printed["F1"], printed["accuracy"])
        if system == "DPR-FiD":
            assert pair != pytest.approx((f1(c), accuracy(c)), abs=0.1)
            pair = pair[::-1]
        assert pair == pytest.approx((f1(c), accuracy(c)), abs=0.1)


def test_the_swapped_cell_in_verdicts(counts, pairs):
    c, printed = counts.loc["DPR-FiD"], pairs.loc[SWAPPED]
    ours = estimate(f1(c) / 100, int(c.sum()))
    options = {"scale": 100, "same_model": True, "same_data": True, "exact_within": 0.1}
    assert report.value_verdict(ours, printed["F1"], **options).verdict == "differs"
    assert report.value_verdict(ours, printed["accuracy"], **options).verdict == "reproduced"


def estimate(value, n):
    return SimpleNamespace(value=value, low=value - 0.01, high=value + 0.01, n=n)


# ------------------------------------------------------------ SePer, Tables 2 to 12


def published(number):
    return report.published(f"seper_table{number}")


@each(
    ("number", "rows", "total"),  # totals added up from the printed rows, apart from the CSV
    [
        (2, 77, 29.23),
        (3, 15, 231_502),
        (4, 16, 0.362),
        (5, 7, 0.0),
        (6, 6, 22.0),
        (7, 16, 42.95),
        (8, 34, 109.0793),
        (9, 22, 12_047),
        (10, 420, 201.979),
        (11, 420, 72.08),
        (12, 162, 70.034),
    ],
)
def test_every_table_is_complete(number, rows, total):
    found = published(number)
    assert len(found) == rows
    assert found["value"].sum() == pytest.approx(total, abs=1e-6)
    assert found["source"].str.startswith(f"SePer, Table {number}, ").all()


@pytest.fixture(scope="module")
def correlations():
    return published(2).pivot(index="method", columns="dataset", values="value")


def test_table2_row_sums_and_cells(correlations):
    assert correlations.sum(axis=1).round(3).to_dict() == {
        "Auto-J": 1.54,
        "BERTScore": 2.879,
        "BLEU": 1.531,
        "Delta-SePer_H": 4.35,
        "Delta-SePer_S": 4.471,
        "Entropy": 2.127,
        "Exact Match": 2.373,
        "Perplexity": 0.075,
        "Prometheus": 3.51,
        "ROUGE": 3.89,
        "Semantic Entropy": 2.484,
    }
    assert correlations.loc["Exact Match", ["NQ", "MuSiQue"]].tolist() == [0.454, 0.298]
    assert correlations.loc["Delta-SePer_S", ["MS MARCO", "IIRC"]].tolist() == [0.533, 0.461]


def test_table2_says_what_its_readme_says(correlations):
    ours = correlations.loc[["Delta-SePer_H", "Delta-SePer_S"]]
    gap = ours.loc["Delta-SePer_S"] - ours.loc["Delta-SePer_H"]
    assert (gap.min().round(3), gap.max().round(3)) == (0.001, 0.026)
    assert (ours.loc["Delta-SePer_H"] > correlations.drop(ours.index).max()).all()
    assert (ours > 0.5).to_numpy().sum() == 12 and (ours["IIRC"] < 0.5).all()
    means = published(2).groupby(["method", "group"])["value"].mean().unstack()
    fall = 1 - means["Reasoning"] / means["Simple"]
    assert fall["Delta-SePer_S"] == pytest.approx(0.23, abs=0.005) and (fall > 0.085).all()


def p_value(r, n):
    """Two-sided p of a Pearson correlation, as in section 4.1.2."""
    return 2 * stats.t.sf(r * math.sqrt((n - 2) / (1 - r**2)), n - 2)


def test_coefficients_that_cannot_all_be_significant():
    noted = published(2).query("note != ''")
    assert set(noted["method"]) == {"Perplexity", "Auto-J"} and len(noted) == 8
    for row in noted.itertuples():
        rows = int(re.search(r"more than ([\d,]+) rows", row.note)[1].replace(",", ""))
        assert p_value(row.value + 0.0005, rows) > 0.01 > p_value(row.value + 0.0005, rows + 200)
    assert published(2).query("note == ''")["value"].min() > 0.09


def test_table5_fixes_the_number_of_rows(correlations):
    printed = published(5).set_index("dataset")
    for dataset, method, n in (
        ("SQuAD", "Delta-SePer_S", 555),
        ("SQuAD", "Delta-SePer_H", 558),
        ("IIRC", "Delta-SePer_S", 4165),
        ("IIRC", "Delta-SePer_H", 4487),
    ):
        r, p = correlations.loc[method, dataset], printed.loc[dataset, "value"]
        assert p_value(r, n) <= p < p_value(r, n - 1)
        if method == "Delta-SePer_S":
            assert f"about {n}" in printed.loc[dataset, "note"]
    assert p_value(correlations.loc["Perplexity", "SQuAD"], 555) == pytest.approx(0.57, abs=0.01)
    assert (printed.drop(["SQuAD", "IIRC"])["value"] == 0).all()


def test_table3_lacks_a_data_set_of_table2(correlations):
    assert set(correlations.columns) - set(published(3)["dataset"]) == {"IIRC"}


def test_table4_asks_for_means_above_one(correlations):
    wide = published(4).pivot(index="dataset", columns="metric", values="value")
    half = 0.0005  # of the last printed digit

    def least_mean(what):
        return (wide[f"standard deviation of {what}"] - half) / (wide[f"coefficient of variation of {what}"] + half)

    def largest_mean(what):
        return (wide[f"standard deviation of {what}"] + half) / (wide[f"coefficient of variation of {what}"] - half)

    impossible = set(wide.index[least_mean("SePer") > 1])
    assert impossible == {"NQ", "MS MARCO", "HotpotQA"} == set(published(4).query("note != ''")["dataset"])
    ours = correlations.loc[["Delta-SePer_H", "Delta-SePer_S"], wide.index]
    assert ((ours >= least_mean("the correlation")) & (ours <= largest_mean("the correlation"))).any().all()


def test_worked_cases_by_the_share_of_samples():
    one = published(6).pivot(index="document", columns="metric", values="value")
    assert one.loc["gold", "samples right"] / 10 == one.loc["gold", "Delta-SePer"] == 1
    two = published(7).pivot(index=["first_document", "second_document"], columns="metric", values="value")
    assert (two["samples right"] + two["samples wrong"] == 10).all()
    share = two["samples right"] / 10
    assert share[two["amount of information"] != 0.5].tolist() == [0, 0.7]
    assert (two["Delta-SePer"] / share)[two["amount of information"] == 0.5].tolist() == pytest.approx([0.5, 0.5])
    assert two.loc[("yes", "yes"), "Delta-SePer"] == 0.7


def test_worked_cases_are_the_share_times_the_amount_of_information():
    rows = pd.concat([published(6), published(7)]).pivot(index="source", columns="metric", values="value").fillna(0)
    right, wrong = rows["samples right"], rows["samples wrong"]
    assert (right / (right + wrong) * rows["amount of information"]).tolist() == pytest.approx(rows["Delta-SePer"].tolist())
    weighted = (right**2 / (right**2 + wrong**2)).round(3)
    assert sorted(weighted) == [0, 0, 0.059, 0.155, 0.845, 1]


def test_table8_two_calls_cost_no_less_than_one():
    wide = published(8).pivot(index="model", columns=["setting", "metric"], values="value")
    no_less = wide["reduction"] >= wide["direct"]
    assert no_less["time (s)"].all() and no_less["cost ($)"].drop("SePer and Delta-SePer").all()


CELL = ["dataset", "retriever", "generator", "top_k"]
COPIED = {10: ("TriviaQA", "70B", "10"), 11: ("TriviaQA", "7B", "10")}


def test_tables_10_and_11_print_the_same_recall():
    first, second = (published(n).query("metric == 'retrieval recall'").set_index(CELL)["value"] for n in (10, 11))
    assert len(first) == 105 and first.to_dict() == second.to_dict()


def test_copied_columns_of_tables_10_and_11():
    seper = published(10).set_index(["metric", "dataset", "generator", "top_k", "retriever"])["value"].sort_index()
    delta = published(11).set_index(["metric", "dataset", "generator", "top_k", "retriever"])["value"].sort_index()
    assert seper.loc["SePer", "TriviaQA", "70B", "10"].equals(seper.loc["SePer", "TriviaQA", "70B", "5"])
    assert delta.loc["Delta-SePer", "TriviaQA", "7B", "10"].equals(
        delta.loc["Delta-SePer", "2WikiMultihopQA", "7B", "10"]
    )


def test_seper_without_documents_is_one_number_but_for_the_noted_cells():
    """SePer minus Delta-SePer may not depend on retriever or number of passages."""
    tables = {n: published(n).query("generator != ''").set_index(CELL) for n in (10, 11)}
    before = (tables[10]["value"] - tables[11]["value"]).rename("before").reset_index()
    middle = before.groupby(["dataset", "generator"])["before"].transform("median")
    off = before[(before["before"] - middle).abs() > 0.0015]
    assert len(before) == 315 and len(off) == 17
    suspects = {n: set(table.index[table["note"].str.contains("suspect|two digits")]) for n, table in tables.items()}
    assert set(off[CELL].itertuples(index=False, name=None)) == suspects[10] | suspects[11]
    for n, (dataset, generator, top_k) in COPIED.items():
        copied = {cell for cell in suspects[n] if (cell[0], *cell[2:]) == (dataset, generator, top_k)}
        assert len(copied) == 7
    # a lost digit that would fit
    for cell, digits in ((("TriviaQA", "dpr", "13B", "10"), 0.709), (("PopQA", "dpr", "13B", "5"), 0.409)):
        same = before[(before["dataset"] == cell[0]) & (before["generator"] == "13B")]["before"].median()
        assert tables[10].loc[cell, "value"] == math.floor(100 * digits) / 100
        assert digits - tables[11].loc[cell, "value"] == pytest.approx(same, abs=0.0015)


def test_damaged_cells_are_named_with_their_reading():
    rows = pd.concat([published(10), published(11)], ignore_index=True)
    damaged = rows[rows["note"].str.startswith("our text")]
    readings = damaged["note"].str.extract(r'has "(.+)", (read|read upside down) as ([\d.]+)$').dropna()
    assert len(damaged) == 20 and readings[1].value_counts().to_dict() == {"read upside down": 16, "read": 2}
    assert (readings[2].astype(float) == damaged.loc[readings.index, "value"]).all()


def test_table12_is_the_seper_of_table_10_where_both_print_it():
    naive = published(12).query("workflow == 'Naive' and dataset != 'MuSiQue'")
    seper = published(10).query("retriever == 'e5' and metric == 'SePer'")
    both = naive.merge(seper, on=["dataset", "generator", "top_k"], suffixes=("", "_10"))
    assert len(both) == 30 and (both["value"] == both["value_10"]).all()
    delta = published(11).query("retriever == 'e5'").merge(naive, on=["dataset", "generator", "top_k"])
    assert ((delta["value_x"] - delta["value_y"]).abs() > 0.1).all()
    assert naive["note"].str.contains("Table 10").all()


def test_the_smallest_model_gains_most_in_table_11():
    wide = (
        published(11)
        .query("generator != ''")
        .pivot(index=["dataset", "retriever", "top_k"], columns="generator", values="value")
    )
    assert wide.idxmax(axis=1).value_counts().to_dict() == {"7B": 57, "13B": 38, "70B": 10}


def test_who_gains_most_with_the_copied_column_rebuilt():
    cell = ["dataset", "retriever", "generator"]
    seper = published(10).query("metric == 'SePer'").pivot(index=cell, columns="top_k", values="value")
    gain = published(11).query("metric == 'Delta-SePer'").pivot(index=cell, columns="top_k", values="value")
    before = seper["5"] - gain["5"]
    copied = (gain.index.get_level_values("dataset") == "TriviaQA") & (gain.index.get_level_values("generator") == "7B")
    gain.loc[copied, "10"] = (seper["10"] - before)[copied]
    wide = gain.stack().unstack("generator").round(3)
    most = {size: int((wide[size] > wide.drop(columns=size).max(axis=1)).sum()) for size in wide}
    assert most == {"7B": 64, "13B": 28, "70B": 9}
    assert report.published("seper_prose").query("statement.str.contains('medium size')")["note"].str.contains("64 of 105.*28.* 9").all()
    known = before.groupby(["dataset", "generator"]).median().unstack()
    assert (known["13B"] > known["7B"]).sum() == 4 and len(known) == 5


def test_single_passages_often_harm_the_largest_model():
    alone = published(11).query("metric == 'Delta-SePer' and top_k == '1'")
    harm = (alone["value"] < 0).groupby(alone["generator"]).agg(["sum", "size"])
    assert harm.T.to_dict("list") == {"7B": [9, 35], "13B": [13, 35], "70B": [23, 35]}


def test_of_two_trained_judges_one_is_ahead_of_a_traditional_method(table):
    score = table.pivot(index=["dataset", "system", "metric"], columns="evaluator", values="value")
    ahead = {
        (judge, method): (score[judge] > score[method]).groupby("metric").sum().to_dict()
        for judge in ("Prometheus", "Auto-J")
        for method in ("BERTScore", "Lexical Match")
    }
    assert ahead == {
        ("Prometheus", "BERTScore"): {"F1": 10, "accuracy": 9},
        ("Prometheus", "Lexical Match"): {"F1": 4, "accuracy": 1},
        ("Auto-J", "BERTScore"): {"F1": 1, "accuracy": 1},
        ("Auto-J", "Lexical Match"): {"F1": 0, "accuracy": 0},
    }
    behind = score.index[score["Prometheus"] < score["BERTScore"]]
    assert [("BERTScore", *cell[:2]) for cell in behind] == [("BERTScore", "TriviaQA", "GPT-4")]
    assert ("BERTScore", "TriviaQA", "GPT-4") in SUSPECTS


def test_prose_against_the_tables(pairs):
    prose = report.published("seper_prose")
    assert set(prose["item"]) >= {"Fig. 3", "Fig. 4", "Fig. 5 (a)", "Fig. 6", "Fig. 7"}
    assert prose["source"].str.fullmatch(r"SePer, (section|appendix) [\w.]+").all()
    f1_scores = pairs["F1"].unstack(["dataset", "system"])
    gain = f1_scores.loc["Entail (SePer)"] - f1_scores.loc[["Lexical Match", "BERTScore"]]
    assert (gain.loc["BERTScore"].min().round(1), gain.loc["BERTScore"].max().round(1)) == (7.9, 22.5)
    assert (gain.loc["Lexical Match"].min().round(1), gain.loc["Lexical Match"].max().round(1)) == (2.1, 6.2)
    spread = published(4)
    assert (spread["value"] < 0.1).all()
    assert (spread[spread["metric"].str.contains("the correlation")]["value"] < 0.01).all()


# ------------------------------------------------------------ lists and files


def test_seper_items_cover_every_table_and_figure():
    items = report.published("seper_items")
    assert list(dict.fromkeys(items["item"])) == [f"Table {i}" for i in range(1, 14)] + [
        f"Fig. {i}" for i in range(1, 8)
    ]
    here = items[items["status"] == "measured here"]
    assert list(dict.fromkeys(here["item"])) == [f"Table {i}" for i in (1, 2, 4, 5, 6, 7, 10, 11, 12)] + [
        f"Fig. {i}" for i in (3, 5, 6, 7)
    ]
    assert set(items["status"]) == {"measured here", "not run here"}
    assert (items["caption"] != "").all()
    assert items["caption"].str.split().map(len).max() <= 15  # our own few words


def test_every_published_file_can_be_read_and_is_listed():
    readme = (report.PUBLISHED / "README.md").read_text(encoding="utf-8")
    for path in report.PUBLISHED.glob("*.csv"):
        report.published(path.stem)
        assert f"`{path.name}`" in readme


def test_unknown_table_names_the_near_ones():
    with pytest.raises(ValueError, match=r"unknown published table 'seper_tabel1'; did you mean 'seper_table1'"):
        report.published("seper_tabel1")
    with pytest.raises(ValueError, match="unknown published table"):
        report.published("../README")


@each(
    ("name", "text", "message"),
    [
        ("x.csv", "metric,value,source\nF1,1.0,T\n", "wanted .*note"),
        ("x.csv", "metric,value,source,note\n", "got 0 rows"),
        ("x.csv", "metric,value,source,note\nF1,n/a,T,\n", "line 2"),
        ("x.csv", "metric,value,source,note\nF1,1.0,T,\nacc,inf,T,\n", "line 3"),
        ("x.csv", "metric,value,source,note\nF1,1.0,,\n", "line 2"),
        ("x.csv", "metric,value,source,note\nF1,1.0,T,\nF1,2.0,T,\n", "line 3 names the same cell"),
        ("x_items.csv", "item,part,caption,status,reason,where\nFig. 1,,c,someday,r,\n", "unknown status"),
        ("x_items.csv", "item,part,caption,status,reason,where\nFig. 1,,c,not run here,,\n", "reason, .* 'Fig. 1'"),
        ("x_items.csv", "item,part,caption,status,reason,where\nFig. 1,,c,not run here,r,p#a\n", "only then, .* 'Fig. 1'"),
        ("x_items.csv", "item,part,caption,status,reason,where\nFig. 1,,c,measured here,r,\n", "where it is .* 'Fig. 1'"),
        (
            "x_items.csv",
            "item,part,caption,status,reason,where\nFig. 1,,c,measured here,r,p#a\nFig. 1,,d,measured here,r,p#a\n",
            "line 3",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path, monkeypatch, name, text, message):
    monkeypatch.setattr(report, "PUBLISHED", tmp_path)
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        report.published(name.removesuffix(".csv"))
