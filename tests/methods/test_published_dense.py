"""The numbers typed from the DENSE paper, checked against themselves, their neighbours and the prose."""

import math

import numpy as np
import pandas as pd
import pytest
from looped import each
from scipy import stats

from rag_utils.page import report

DATASETS = ["TriviaQA", "NQ", "AmbigNQ", "2WikiQA"]
MEASURES = ["Discrete Semantic Entropy", "U_eigv", "U_deg", "KLE heat", "KLE deberta matern"]


def published(number):
    return report.published(f"dense_table{number}")


@each(
    ("number", "rows", "total"),  # totals added up from the printed rows, apart from the CSV
    [
        (1, 112, 7948.45),
        (2, 40, 1713.33),
        (3, 25, 1568.3),
        (4, 40, 2217.7),
        (5, 20, 903.3),
        (6, 8, 776.12),
        (7, 12, 51_586),
        (8, 192, 11_319.11),
        (9, 60, 2828.8),
        (10, 11, 907.82),
        (11, 51, 3057.7),
    ],
)
def test_every_table_is_complete(number, rows, total):
    found = published(number)
    assert len(found) == rows
    assert found["value"].sum() == pytest.approx(total, abs=1e-6)
    assert found["source"].str.fullmatch(rf"DENSE, Table {number}(, .+)?").all()
    if "dataset" in found:
        assert set(found["dataset"]) == set(DATASETS)


def test_cells_word_for_word():
    for number, keys, printed in (
        (1, {"decoding": "temperature=0.50", "measure": "U_deg", "dataset": "AmbigNQ", "metric": "AURAC"}, 77.89),
        (2, {"backbone": "Qwen-3 8B", "refinement": "yes", "dataset": "2WikiQA"}, 44.35),
        (3, {"method": "ERM4", "dataset": "NQ"}, 52.7),
        (4, {"chunking": "Full semantic", "questions": "certain", "dataset": "AmbigNQ"}, 68.2),
        (5, {"refinement": "only removing chunks", "dataset": "AmbigNQ"}, 39.5),
        (6, {"judge": "Deberta-as-a-judge", "dataset": "NQ"}, 98.28),
        (7, {"dataset": "2WikiQA", "questions": "uncertain"}, 4913),
        (8, {"decoding": "temperature=5.0", "measure": "DENSE_llm", "dataset": "NQ", "metric": "AUROC"}, 62.25),
        (9, {"backbone": "Llama-3.1 70B", "dataset": "NQ", "questions": "certain"}, 62.5),
        (10, {"dense_from": "0.4", "dense_below": "0.5"}, 86.29),
        (11, {"method": "Collab-RAG", "generator": "Llama-3.1 8B"}, 67.2),
    ):
        found = published(number)
        for column, text in keys.items():
            found = found[found[column] == text]
        assert found["value"].tolist() == [printed], (number, keys)


@pytest.fixture(scope="module")
def sizes():
    return published(7).pivot(index="dataset", columns="questions", values="value").astype(int)


@pytest.fixture(scope="module")
def components():
    return published(2).pivot(index=["backbone", "dataset"], columns="refinement", values="value")


@pytest.fixture(scope="module")
def backbones():
    return published(9).pivot(index=["backbone", "dense", "dataset"], columns="questions", values="value")


@pytest.fixture(scope="module")
def chunking():
    return published(4).pivot(index=["questions", "dataset"], columns="chunking", values="value")


# ------------------------------------------------------------ Tables 1 and 8


@pytest.fixture(scope="module")
def curves():
    """One row per decoding, data set and metric, one column per measure."""
    both = pd.concat([published(1), published(8)])
    return both.pivot(index=["decoding", "dataset", "metric"], columns="measure", values="value")


def test_where_dense_is_above_every_baseline(curves):
    lead = (curves["DENSE_llm"] > curves[MEASURES].max(axis=1)).drop("greedy decoding")
    assert lead.groupby(level="decoding").sum().to_dict() == {
        "temperature=0.25": 8,
        "temperature=0.50": 6,
        "temperature=1.0": 3,
        "temperature=3.0": 0,
        "temperature=5.0": 5,
        "temperature=7.0": 7,
    }
    lost = lead.loc["temperature=0.50"]
    assert set(lost.index[~lost]) == {("NQ", "AUROC"), ("NQ", "AURAC")}
    noted = published(1).query("measure == 'DENSE_llm' and note != ''")
    assert noted[["decoding", "dataset", "metric"]].values.tolist() == [
        ["temperature=0.50", "NQ", "AUROC"],
        ["temperature=0.50", "NQ", "AURAC"],
    ]
    for row in noted.itertuples():
        cells = curves.loc[(row.decoding, row.dataset, row.metric)]
        assert {name for name in MEASURES if cells[name] > row.value} == {n for n in MEASURES if n in row.note}


def test_a_baseline_at_temperature_1_is_above_greedy_dense(curves):
    best = curves.loc["temperature=1.0", MEASURES].max(axis=1)
    greedy = curves.loc["greedy decoding", "DENSE_llm"]
    assert (best > greedy).all() and len(greedy) == 8
    assert best.xs("AUROC", level="metric")[DATASETS].tolist() == [81.75, 75.12, 75.50, 68.01]
    assert greedy.xs("AUROC", level="metric")[DATASETS].tolist() == [75.49, 67.26, 68.20, 65.02]


def test_auroc_rises_from_temperature_1_to_3_more_often_than_it_falls(curves):
    auroc = curves.xs("AUROC", level="metric")[[*MEASURES, "DENSE_llm"]]
    rises = auroc.loc["temperature=3.0"] > auroc.loc["temperature=1.0"]
    assert rises.to_numpy().sum() == 16 and rises.size == 24
    assert rises[["Discrete Semantic Entropy", "KLE heat"]].all().all() and not rises["KLE deberta matern"].any()


def test_the_supervised_judge_is_lower_in_every_column(curves):
    gap = (curves["DENSE_llm"] - curves["DENSE_deberta"]).dropna().unstack("metric").droplevel("decoding")
    assert gap.min().round(1).to_dict() == {"AUROC": 7.8, "AURAC": 1.7}
    assert gap.max().to_dict() == pytest.approx({"AUROC": 11.53, "AURAC": 4.85}, abs=1e-9)


def largest_area(accuracy, auroc):
    """The most that the area under accuracy against kept share can be, both in (0, 1).

    A share `auroc` of the right replies ranks first, the rest of them last, the wrong ones between.
    """
    first, last = accuracy * auroc, 1 - accuracy * (1 - auroc)
    return first * (1 - math.log(first)) + 1 - last * (1 - math.log(last))


def area_and_auroc(right):
    """Of right (1) and wrong (0) replies, the most certain first."""
    kept = np.cumsum(right) / np.arange(1, len(right) + 1)
    return kept.mean(), stats.mannwhitneyu(-np.flatnonzero(right), -np.flatnonzero(1 - right)).statistic / (
        right.sum() * (1 - right).sum()
    )


def test_largest_area_is_met_by_its_order_and_by_no_other():
    best = np.repeat([1, 0, 1], [3000, 4000, 3000])
    area, auroc = area_and_auroc(best)
    assert auroc == pytest.approx(0.5) and area == pytest.approx(largest_area(0.6, auroc), abs=0.001)
    generator = np.random.default_rng(0)
    for steepness in (-2, 0, 2, 5):
        chance = 1 / (1 + np.exp(-steepness * (0.5 - np.linspace(0, 1, 10_000))))
        right = (generator.random(10_000) < chance).astype(int)
        area, auroc = area_and_auroc(right)
        accuracy = right.mean()
        assert area < largest_area(accuracy, auroc) < accuracy * (1 - math.log(accuracy))  # the last: perfect order


def test_pairs_of_nq_need_more_right_replies_than_exact_matches(curves, sizes, backbones):
    most = {}
    for dataset in DATASETS:
        n = sizes.loc[dataset]
        rows = backbones.loc["Llama-3.1 8B"].xs(dataset, level="dataset") + 0.05  # the most that rounds to the printed
        most[dataset] = ((n["certain"] * rows["certain"] + n["uncertain"] * rows["uncertain"]) / n["all"]).max()
    assert most["NQ"] == pytest.approx(56.2, abs=0.05)
    pairs = (curves.stack().unstack("metric") / 100).reset_index()
    usual = pairs["decoding"].isin(["greedy decoding", "temperature=0.25", "temperature=0.50", "temperature=1.0"])
    ceiling = [largest_area(most[row.dataset] / 100, row.AUROC + 0.00005) for row in pairs.itertuples()]
    beyond = pairs[usual & (pairs["AURAC"] - 0.00005 > ceiling)]
    assert set(beyond["dataset"]) == {"NQ"}
    assert ("greedy decoding", "DENSE_deberta") in set(zip(beyond["decoding"], beyond["measure"], strict=True))
    for decoding, measure, least in (
        ("greedy decoding", "DENSE_deberta", 0.573),
        ("temperature=1.0", "KLE heat", 0.594),
    ):
        pair = pairs[(pairs["decoding"] == decoding) & (pairs["measure"] == measure) & (pairs["dataset"] == "NQ")]
        auroc, aurac = pair[["AUROC", "AURAC"]].values[0]
        assert largest_area(least - 0.001, auroc) < aurac < largest_area(least + 0.001, auroc)


def test_deberta_split_alone_is_above_its_whole_score(curves, sizes, backbones):
    """The AUROC of certain against uncertain, from replies that are drawn up one by one."""
    whole = curves.xs("AUROC", level="metric").loc["greedy decoding"]
    for row, measure, alone, within in (
        ("DENSE_eval", "DENSE_llm", [71.8, 61.2, 66.0, 62.7], None),
        ("DENSE_deberta", "DENSE_deberta", [71.5, 61.2, 65.7, 62.5], [0.41, 0.47, 0.36, 0.31]),
    ):
        for place, dataset in enumerate(DATASETS):
            printed = backbones.loc[("Llama-3.1 8B", row, dataset)]
            hits = {side: round(printed[side] * sizes.loc[dataset, side] / 100) for side in ("certain", "uncertain")}
            misses = {side: sizes.loc[dataset, side] - hits[side] for side in hits}
            right = np.repeat([0, 1], list(hits.values()))  # 1: uncertain
            wrong = np.repeat([0, 1], list(misses.values()))
            auroc = stats.mannwhitneyu(wrong, right).statistic / (len(right) * len(wrong))
            assert 100 * auroc == pytest.approx(alone[place], abs=0.06)
            assert (100 * auroc < whole.loc[dataset, measure]) == (row == "DENSE_eval")
            if within:
                sure = hits["certain"] * misses["uncertain"] / (len(right) * len(wrong))
                order = (whole.loc[dataset, measure] / 100 - sure) / (2 * (auroc - sure))
                assert order == pytest.approx(within[place], abs=0.006)


# ------------------------------------------------------------ Tables 2, 4, 5, 7 and 9


def test_table7_adds_up_and_more_than_20_per_cent_are_uncertain(sizes):
    assert (sizes["certain"] + sizes["uncertain"] == sizes["all"]).all()
    share = 100 * sizes["uncertain"] / sizes["all"]
    assert share[DATASETS].round(1).tolist() == [15.2, 27.4, 22.0, 39.1]
    assert 100 * sizes["uncertain"].sum() / sizes["all"].sum() == pytest.approx(29.1, abs=0.05)


def distance_from_a_share(percent, questions):
    """How far a percentage is from the nearest one that so many questions can give."""
    return abs(percent - 100 * round(percent * questions / 100) / questions)


def test_table2_counts_the_uncertain_questions_of_table7(sizes):
    table = published(2)
    off = [distance_from_a_share(row.value, sizes.loc[row.dataset, "uncertain"]) for row in table.itertuples()]
    assert max(off) < 0.01 and sum(distance > 0.0050001 for distance in off) == 6
    for dataset in ("TriviaQA", "NQ", "AmbigNQ"):
        values = table.loc[table["dataset"] == dataset, "value"]
        fits = (n for n in range(200, 5000) if all(distance_from_a_share(value, n) < 0.01 for value in values))
        assert next(fits) == sizes.loc[dataset, "uncertain"]


def test_shares_that_no_number_of_questions_gives(sizes):
    for number, noted in ((4, {31.7}), (5, set()), (9, {32.8, 59.6})):
        rows = published(number)
        if "questions" not in rows:
            rows = rows.assign(questions="uncertain")
        rows = rows[rows["questions"].isin(["certain", "uncertain"])]
        off = [distance_from_a_share(row.value, sizes.loc[row.dataset, row.questions]) for row in rows.itertuples()]
        odd = rows[np.array(off) > 0.0500001]
        assert set(odd["value"]) == noted and (odd["note"].str.contains("220")).all()


def test_first_rows_of_table2_are_not_the_same_thing(components, backbones, chunking):
    before = components["no"]
    for backbone in ("Qwen-2.5 1.5B", "Llama-3.1 70B"):
        plain = backbones.loc[(backbone, ""), "uncertain"]
        assert ((before.loc[backbone] - plain).abs() <= 0.0500001).all()
    ours = before.loc["Llama-3.1 8B"]
    assert ((ours - chunking.loc["uncertain", "Adaptive"]).abs() <= 0.0500001).all()
    assert (ours - backbones.loc[("Llama-3.1 8B", ""), "uncertain"] > 2).all()
    noted = published(2).query("note == 'equals RAG without DENSE in Table 9'")
    assert set(noted["backbone"]) == {"Qwen-2.5 1.5B", "Llama-3.1 70B"} and set(noted["refinement"]) == {"no"}
    other = before.loc["Llama-3 8B"]
    assert ((other - chunking.loc["uncertain", "512/64"]).abs() < 1).all()
    assert (ours - other).min() == pytest.approx(1.77) and (ours - other).max() == pytest.approx(9.81)


def test_one_component_of_20_loses(components):
    gain = components["yes"] - components["no"]
    assert gain.index[gain <= 0].tolist() == [("Qwen-2.5 1.5B", "2WikiQA")]
    assert gain["Qwen-2.5 1.5B", "2WikiQA"] == pytest.approx(-0.2)
    assert gain["Llama-3.1 70B", "AmbigNQ"] == pytest.approx(100 / 220, abs=0.01)


def test_drops_of_table9_but_one_are_right(backbones):
    off = backbones["certain less uncertain"] - (backbones["certain"] - backbones["uncertain"])
    wrong = off[off.abs() > 0.01]
    assert wrong.index.tolist() == [("Llama-3.1 8B", "DENSE_eval", "NQ")] and wrong.iloc[0] == pytest.approx(-1)
    mean = backbones.xs("", level="dense").groupby(level="backbone")["certain less uncertain"].mean()
    assert mean.to_dict() == pytest.approx({"Qwen-2.5 1.5B": 28.85, "Llama-3.1 8B": 36.225, "Llama-3.1 70B": 18.725})


def test_rows_of_llama_8b_in_tables_4_and_9(backbones, chunking):
    parts = ["certain", "uncertain"]
    plain, by_reader, by_deberta = (
        backbones.loc[("Llama-3.1 8B", dense), parts] for dense in ("", "DENSE_eval", "DENSE_deberta")
    )
    for part in parts:
        assert chunking.loc[part, "512/64"].equals(by_reader[part].rename("512/64"))
    shift = by_reader - plain
    assert (shift.min().min(), shift.max().max()) == pytest.approx((-0.5, 0.7))
    shift = by_deberta - by_reader
    assert (shift.min().min(), shift.max().max()) == pytest.approx((-0.1, 0.9))


def test_adaptive_is_not_the_halves_it_is_made_of(chunking):
    certain = chunking.loc["certain", "Adaptive"] - chunking.loc["certain", "512/64"]
    uncertain = chunking.loc["uncertain", "Adaptive"] - chunking.loc["uncertain", "Full semantic"]
    assert certain[DATASETS].round(1).tolist() == [-0.1, -0.3, -0.1, 0.0]
    assert uncertain[DATASETS].round(1).tolist() == [-0.6, 0.0, 1.0, 0.8]


def test_smaller_chunks_help_uncertain_questions_on_two_data_sets(chunking):
    change = chunking[["256/32", "128/16"]].sub(chunking["512/64"], axis=0)
    helped = (change.loc["uncertain"] > 0).all(axis=1)
    assert set(helped.index[helped]) == {"TriviaQA", "2WikiQA"}
    assert not (change.loc["uncertain"].loc[["NQ", "AmbigNQ"]] > 0).any().any()
    assert (change.loc["certain"] < 0).all().all()
    semantic = chunking["Full semantic"] - chunking["512/64"]
    assert (semantic["uncertain"] > 0).all() and (semantic["certain"] < 0).all()
    assert chunking.loc[("certain", "AmbigNQ"), "128/16"] == chunking.loc[("certain", "NQ"), "128/16"]
    step = (chunking["256/32"] - chunking["128/16"])["certain"].round(1)
    assert step["AmbigNQ"] == 14.7 and (step.drop("AmbigNQ").min(), step.drop("AmbigNQ").max()) == (0.6, 4.0)


def test_table5_starts_and_ends_in_its_neighbours(components, chunking):
    wide = published(5).pivot(index="dataset", columns="refinement", values="value")
    assert wide["w/o refine"].to_dict() == chunking.loc["uncertain", "Adaptive"].to_dict()
    assert ((wide["Context-refiner"] - components.loc["Llama-3.1 8B", "yes"]).abs() <= 0.0500001).all()
    second = wide["refill on certain chunks"]
    rest = wide.drop(columns=["Context-refiner", "refill on certain chunks"])
    assert (second > rest.max(axis=1)).all()
    assert wide.index[second == wide["Context-refiner"]].tolist() == ["AmbigNQ"]
    removing = wide["only removing chunks"] - wide["w/o refine"]
    assert removing[DATASETS].round(1).tolist() == [2.1, -0.7, -1.0, 1.0]
    assert (wide["w/o self-evaluation"] < wide["Context-refiner"]).all()


# ------------------------------------------------------------ Tables 3, 6, 10 and 11


def test_table3_is_part_of_table11_but_for_one_cell():
    keys = ["method", "generator", "retriever_tuned", "generator_tuned", "dataset"]
    both = published(3).merge(published(11), on=keys, suffixes=("", "_11"))
    assert len(both) == 25
    odd = both[both["value"] != both["value_11"]]
    assert odd[["method", "generator", "dataset", "value", "value_11"]].values.tolist() == [
        ["RankRAG", "Llama-3 70B", "TriviaQA", 85.6, 86.5]
    ]
    assert odd["note"].item() == "86.5 in Table 11" and odd["note_11"].item() == "85.6 in Table 3"
    assert published(11).query("value == 85.6")["method"].tolist() == ["ChatQA-1.5"]


def test_table11_against_the_parts_it_is_made_of(components, backbones, sizes):
    """EM of all questions = certain (Table 9) and uncertain (Table 2), weighted by Table 7."""
    table = published(11).query("method == 'DENSE-RAG'").set_index(["generator", "dataset"])
    closest = {}
    for (backbone, _, dataset), row in backbones.iterrows():
        n = sizes.loc[dataset]
        parts = (n["certain"] * row["certain"] + n["uncertain"] * components.loc[(backbone, dataset), "yes"]) / n["all"]
        off = table.loc[(backbone, dataset), "value"] - parts
        closest[backbone, dataset] = min(off, closest.get((backbone, dataset), math.inf), key=abs)
    odd = {cell for cell, off in closest.items() if abs(off) > 0.1}
    assert len(closest) == 12 and len(odd) == 8
    assert odd == set(table.index[table["note"] != ""])
    assert min(closest.values()) == pytest.approx(-0.28, abs=0.005)
    assert closest["Qwen-2.5 1.5B", "AmbigNQ"] == max(closest.values()) == pytest.approx(1.61, abs=0.005)
    assert closest["Llama-3.1 70B", "2WikiQA"] == pytest.approx(1.34, abs=0.005)
    assert table.loc[("Llama-3.1 70B", "2WikiQA"), "note"].endswith("give 67.96")


def test_one_entailment_ratio_is_below_95():
    low = published(6).query("value < 95")
    assert low[["judge", "dataset", "value"]].values.tolist() == [["LLM-as-a-judge", "2WikiQA", 93.24]]


def test_table10_falls_but_not_in_every_step():
    table = published(10)
    assert table["dense_from"].tolist()[1:] == table["dense_below"].tolist()[:-1]
    values = table["value"].to_numpy()
    assert (np.diff(values) < 0).sum() == 7
    assert stats.spearmanr(np.arange(11), values).statistic == pytest.approx(-0.89, abs=0.005)


# ------------------------------------------------------------ prose and lists


def test_dense_prose_has_sources_and_signs():
    prose = report.published("dense_prose")
    assert set(prose["item"]) >= {f"Fig. {i}" for i in range(3, 9)} | {f"Table {i}" for i in range(1, 12)}
    assert prose["source"].str.fullmatch(r"DENSE, (section|appendix|Figure) [\w.]+(, caption)?").all()
    assert prose.loc[prose["metric"].str.startswith("sign"), "value"].isin([-1, 0, 1]).all()


def test_sections_and_algorithms_that_differ():
    prose = report.published("dense_prose").query("item == 'text'")
    twice = prose[prose["statement"].duplicated(keep=False)].groupby("statement")["value"].apply(list)
    assert twice.to_dict() == {
        "replies, beyond the number of chunks": [2, 0],
        "conditions of two that must hold for the refinement to stop": [1, 2],
        "a score equal to the threshold of DENSE counts as certain": [1, 0],
        "a similarity equal to the merging threshold joins two sentences": [1, 0],
    }
    agreement = prose[prose["statement"].str.startswith("agreement of the reply")].set_index("source")["value"]
    assert agreement["DENSE, section 5.2"] < 0.5 < agreement["DENSE, appendix F.3"]  # so one half is judged in two ways
    power = prose[prose["metric"] == "exponent"]["value"].tolist()
    assert power == [2, 2, 2]
    assert -5 / 6 * math.log(5 / 6) == pytest.approx(0.152, abs=5e-4)  # five replies that agree, and an empty row left out


def test_dense_items_cover_every_table_and_figure():
    items = report.published("dense_items")
    assert list(dict.fromkeys(items["item"])) == [f"Table {i}" for i in range(1, 16)] + [
        f"Fig. {i}" for i in range(1, 9)
    ]
    here = items[items["status"] != "not run here"]
    assert {f"Table {i}" for i in (1, 2, 4, 5, 6, 7, 8, 9, 10)} <= set(here["item"])
    assert {f"Fig. {i}" for i in (3, 4, 5, 6, 7, 8)} <= set(here["item"])
    assert (items["reason"] != "").all()
    assert (items["caption"] != "").all()
    assert items["caption"].str.split().map(len).max() <= 15  # our own few words
