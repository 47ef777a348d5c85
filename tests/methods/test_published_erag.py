"""The numbers typed from the eRAG paper, checked against themselves."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from rag_utils.page import report

CELL = ["annotation", "retriever", "dataset", "ranking_metric"]
ANSWER, PROVENANCE, RELEVANCE, ERAG = (
    "Containing the Answer",
    "KILT Provenance",
    "Relevance Annotation with LLM",
    "eRAG Annotations",
)
MISFIT = (RELEVANCE, "Contriever", "TriviaQA", "R")
HALF = 0.0005  # of the last printed digit
WITHOUT_TIES = math.sqrt(1.5)


@pytest.fixture(scope="module")
def table():
    return report.published("erag_table1")


@pytest.fixture(scope="module")
def pairs(table):
    wide = table.pivot(index=CELL, columns="metric", values="value")
    return wide.rename(columns={"Kendall's tau": "tau", "Spearman's rho": "rho"})


@pytest.fixture(scope="module")
def tau(pairs):
    """One column per annotation."""
    return pairs["tau"].unstack("annotation")


@pytest.fixture(scope="module")
def costs():
    return report.published("erag_table2").pivot(index="dataset", columns=["metric", "approach"], values="value")


# --- Table 1 -------------------------------------------------------------------------------------


def test_table1_is_complete(table):
    assert len(table) == 416 and table["value"].sum() == pytest.approx(95.428)
    assert table.groupby("annotation").size().to_dict() == {ANSWER: 72, PROVENANCE: 120, RELEVANCE: 120, ERAG: 104}
    assert (table.groupby(["annotation", "ranking_metric", "metric"]).size().isin([6, 8, 10])).all()
    assert (table["value"] == table["value"].round(3)).all()
    assert table["value"].between(-0.05, 0.75).all()
    assert (table["source"] == "eRAG, Table 1, " + table["annotation"] + ", " + table["ranking_metric"]).all()


def test_the_printed_dashes_are_left_out(table):
    there = set(table[CELL[0::2]].itertuples(index=False, name=None))
    assert {(ANSWER, "FEVER"), (ANSWER, "WoW")}.isdisjoint(there)
    assert len(there) == 4 * 5 - 2
    of_wow = table.query("annotation == @ERAG and dataset == 'WoW'")
    assert set(of_wow["ranking_metric"]) == {"P", "Hit Ratio"} and len(of_wow) == 8


def test_table1_row_sums(pairs):
    # added up from the printed rows, apart from the CSV
    sums = pairs["tau"].groupby(["annotation", "ranking_metric"]).sum().round(3)
    assert sums[ANSWER, "MAP"] == 1.953  # 0.349 + 0.298 + 0.359 + 0.303 + 0.265 + 0.379
    assert sums[PROVENANCE, "MRR"] == 0.978
    assert sums[RELEVANCE, "P"] == 0.335
    assert sums[ERAG, "P"] == 4.986
    assert sums[ERAG, "Hit Ratio"] == 4.495


def test_some_cells_word_for_word(pairs):
    for cell, printed in {
        (ERAG, "BM25", "NQ", "P"): (0.529, 0.598),
        (ERAG, "BM25", "FEVER", "MRR"): (0.592, 0.611),
        (ERAG, "Contriever", "WoW", "P"): (0.540, 0.712),
        (ERAG, "Contriever", "HotpotQA", "NDCG"): (0.635, 0.705),
        (ANSWER, "BM25", "NQ", "MRR"): (0.361, 0.417),
        (ANSWER, "Contriever", "HotpotQA", "P"): (0.406, 0.449),
        (PROVENANCE, "Contriever", "WoW", "Hit Ratio"): (0.056, 0.068),
        (RELEVANCE, "BM25", "WoW", "MRR"): (-0.008, -0.011),
        (RELEVANCE, "Contriever", "WoW", "NDCG"): (0.0, 0.0),
        MISFIT: (0.030, 0.039),
    }.items():
        assert tuple(pairs.loc[cell]) == printed


def test_damaged_cells_are_named_with_their_reading(table):
    read = table["note"].str.extract(r'^our text has "0(\d{3})", read as ([\d.]+)$').dropna()
    assert len(read) == 149
    assert (("0." + read[0]) == read[1]).all() and (read[1].astype(float) == table.loc[read.index, "value"]).all()
    lost = table[table["note"].str.contains("lost a digit")]
    assert lost["value"].tolist() == [0.39, 0.19, 0.488]
    other = table[(table["note"] != "") & ~table.index.isin([*read.index, *lost.index])]
    assert other[CELL].to_numpy().tolist() == [list(MISFIT)]


def test_recall_is_the_hit_ratio_but_for_one_cell(pairs):
    wide = pairs.unstack("ranking_metric")
    both = 0
    for coefficient in ("tau", "rho"):
        recall = wide[coefficient]["R"].dropna()
        off = recall.index[recall != wide[coefficient]["Hit Ratio"].loc[recall.index]]
        assert list(off) == ([MISFIT[:3]] if coefficient == "tau" else [])
        both += len(recall)
    assert both == 68


def test_tau_is_rho_between_two_binary_columns_but_for_one_cell(pairs):
    two_values = pairs[
        pairs.index.get_level_values("ranking_metric").isin(["R", "Hit Ratio"])
        & (pairs.index.get_level_values("dataset") != "WoW")
    ]
    assert len(two_values) == 60
    assert list(two_values.index[two_values["tau"] != two_values["rho"]]) == [MISFIT]
    of_wow = pairs.xs("WoW", level="dataset").query("ranking_metric == 'Hit Ratio' and tau > 0.01")
    assert (of_wow["rho"] > of_wow["tau"]).all()  # its score is no binary one


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=3, max_size=40))
def test_with_a_binary_score_rho_over_tau_depends_on_the_ties_of_the_metric_alone(rows):
    metric, score = np.array(rows).T
    assume(np.ptp(metric) and np.ptp(score))
    tau, rho = stats.kendalltau(metric, score).statistic, stats.spearmanr(metric, score).statistic
    assume(abs(tau) > 1e-9)
    share = np.unique(metric, return_counts=True)[1] / len(metric)
    ratio = math.sqrt(1.5 * (1 - (share**2).sum()) / (1 - (share**3).sum()))
    assert rho / tau == pytest.approx(ratio)
    assert 1 - 1e-9 <= ratio < WITHOUT_TIES


def test_rho_over_tau_keeps_its_bounds_but_for_one_cell(pairs):
    size = pairs[pairs.index.get_level_values("dataset") != "WoW"].abs()
    least, most = (size["rho"] - HALF) / (size["tau"] + HALF), (size["rho"] + HALF) / (size["tau"] - HALF).clip(lower=0)
    assert len(size) == 180
    assert list(size.index[(least > WITHOUT_TIES) | (most < 1)]) == [MISFIT]
    assert least[MISFIT] == pytest.approx(1.26, abs=0.005)
    assert (pairs["tau"] * pairs["rho"] >= 0).all()


def test_the_lost_digits_in_the_same_bounds(pairs):
    """rho of 0.190 to 0.197 and tau of 0.390 to 0.399 would do."""
    assert 0.197 < (pairs.loc[(PROVENANCE, "Contriever", "NQ", "MAP"), "tau"] + HALF) * WITHOUT_TIES < 0.198
    assert pairs.loc[(ANSWER, "BM25", "HotpotQA", "P"), "rho"] / 0.39 < WITHOUT_TIES


def test_the_gains_of_the_abstract(tau):
    best = tau.groupby(["retriever", "dataset"]).max()
    gain = (best[ERAG] - best.drop(columns=ERAG).max(axis=1)).round(3)
    prose = report.published("erag_prose").query("source == 'eRAG, abstract' and item == 'Table 1'")["value"].tolist()
    assert prose == [0.168, 0.494]
    assert (gain.idxmin(), gain.min()) == (("BM25", "NQ"), prose[0])
    assert (gain.idxmax(), gain.max()) == (("BM25", "FEVER"), 0.542)
    assert gain["Contriever", "FEVER"] == 0.436 and gain.max() > prose[1]
    columns = tau.groupby(["retriever", "dataset"])
    differences = [
        ours - other
        for _, part in columns
        for ours in part[ERAG].dropna()
        for other in part.drop(columns=ERAG).stack().dropna()
    ]
    assert prose[1] not in np.round(differences, 3) and prose[0] in np.round(differences, 3)


def test_what_the_readme_says_of_the_order(tau, pairs):
    gain = (tau[ERAG] - tau.drop(columns=ERAG).max(axis=1)).dropna().round(3)
    assert (len(gain), gain.min(), gain.max()) == (52, 0.142, 0.556)
    answered = tau.dropna(subset=ANSWER)
    assert len(answered) == 36
    assert (answered[ANSWER] > answered[[PROVENANCE, RELEVANCE]].max(axis=1)).all()
    relevance_ahead = tau[RELEVANCE] > tau[PROVENANCE]
    assert relevance_ahead.groupby("dataset").sum().to_dict() == {
        "FEVER": 0,
        "HotpotQA": 2,
        "NQ": 0,
        "TriviaQA": 7,
        "WoW": 0,
    }
    assert (len(tau), (tau[RELEVANCE] < 0).sum()) == (60, 15) and (pairs["tau"] < 0).sum() == 15


# --- Table 2 -------------------------------------------------------------------------------------


def test_table2_is_complete():
    found = report.published("erag_table2")
    assert len(found) == 25 and found["value"].sum() == pytest.approx(12_421 + 288.0 + 26.4 + 7.5)
    assert (found["source"] == "eRAG, Table 2, " + found["dataset"]).all()
    noted = found[found["note"] != ""]
    assert noted["value"].tolist() == [4.9, 4.1] and 'our text has "49"' in noted["note"].iloc[0]


def prose(statement):
    found = report.published("erag_prose").set_index("statement")
    return found.loc[statement, "value"]


def test_the_speed_ups_of_the_text(costs):
    faster = costs["runtime (s)"]["end to end"] / costs["runtime (s)"]["eRAG"]
    name = "how much faster eRAG is than end to end, "
    assert faster.mean().round(3) == prose(name + "mean of the data sets")
    assert (faster.idxmin(), faster.min().round(3)) == ("WoW", prose(name + "least"))
    assert (faster.idxmax(), faster.max().round(3)) == ("FEVER", prose(name + "most"))


def test_the_memory_of_the_text(costs):
    memory = costs["memory (GB)"]
    per_query, per_document = (memory["end to end"] / memory[f"eRAG per {what}"] for what in ("query", "document"))
    name = "memory of end to end over eRAG"
    assert (per_query.idxmin(), per_query.min().round(1)) == ("WoW", 7.4)
    assert (per_query.idxmax(), per_query.max().round(1)) == ("FEVER", 16.2)
    assert per_query["NQ"].round(1) == 15.3  # with "49" read as 4.9
    assert (prose(name + " per query, least"), prose(name + " per query, most")) == (7, 15)
    assert (per_document.idxmin(), per_document.min().round(1)) == ("TriviaQA", 30.8)
    assert (per_document.idxmax(), per_document.max()) == ("NQ", 50)
    assert per_document.max() == prose(name + ", at most") > prose(name + " per document, most") == 48


# --- prose and items -----------------------------------------------------------------------------


def test_prose_names_its_place():
    found = report.published("erag_prose")
    assert set(found["item"]) == {"Table 1", "Table 2", "Fig. 1", "Fig. 2", "Fig. 3", "training", "text"}
    assert found["source"].str.fullmatch(r"eRAG, (abstract|section [\d.]+|caption of (Fig\.|Table) \d)").all()
    assert found.loc[found["metric"].str.startswith("sign"), "value"].isin([-1, 1]).all()


def test_items_cover_every_table_and_figure():
    items = report.published("erag_items")
    assert list(dict.fromkeys(items["item"])) == ["Table 1", "Table 2", "Fig. 1", "Fig. 2", "Fig. 3"]
    assert (items["caption"] != "").all() and items["caption"].str.split().map(len).max() <= 15
