"""Correlations of invented labels with invented scores: known answers, ties, and labels that move among equals."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from experiments.erag_kendall import correlations
from rag_utils.stats import largest_kendall


def invented(labels, whole, column="answer"):
    """A table of one retriever with these labels, (questions, ranks), and reader's scores."""
    rows = [
        {"id": f"q{i:03}", "condition": "BM25", "rank": rank, column: float(label), "whole_exact_match": float(score)}
        for i, (own, scores) in enumerate(zip(labels, whole, strict=True))
        for rank, (label, score) in enumerate(zip(own, scores, strict=True), 1)
    ]
    return pd.DataFrame(rows)


def test_labels_that_decide_the_score_correlate_and_others_do_not():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, size=(80, 3))
    whole = np.repeat(labels.max(axis=1, keepdims=True), 3, axis=1)
    table = invented(labels, whole, "erag_exact_match")
    table["answer"], table["provenance"] = rng.integers(0, 2, size=(2, 240))
    table["relevance"] = 1.0
    paired = correlations.pairs(table, "exact_match", k=3)
    assert paired.groupby("annotation")["whole"].apply(list).map(tuple).nunique() == 1
    grid = correlations.grid(paired, resamples=40)
    assert grid.loc[("eRAG", "Success"), "BM25"].value == pytest.approx(1)
    assert abs(grid.loc[("containing the answer", "Success"), "BM25"].value) < 0.4
    assert grid.loc[("relevance by the LM", "P"), "BM25"] is None  # every document is relevant
    gaps = correlations.ahead(paired, resamples=200).set_index(["metric", "annotation"])
    assert set(gaps.index.get_level_values("annotation")) == {"containing the answer", "provenance"}
    assert (gaps.loc["Success", "low"] > 0).all() and (gaps["p_holm"] >= gaps["p_value"]).all()
    of_questions = paired.sample(frac=1, random_state=1)
    mixed = correlations.grid(of_questions, resamples=40).loc[("eRAG", "AP"), "BM25"]
    assert mixed.value == pytest.approx(grid.loc[("eRAG", "AP"), "BM25"].value)


def test_labels_that_are_not_binary_have_precision_and_success_only():
    rng = np.random.default_rng(1)
    labels = rng.random((30, 2))
    table = invented(labels, labels.cumsum(axis=1) / 3, "erag_exact_match")
    table = table.assign(answer=1.0, provenance=0.0, relevance=0.0)
    grid = correlations.grid(correlations.pairs(table, "exact_match", k=2), resamples=40)["BM25"]
    assert grid["eRAG", "P"].value == pytest.approx(1)
    assert list(grid["eRAG"].index) == ["P", "Success"]
    with pytest.raises(ValueError, match="unknown score 'exactmatch'"):
        correlations.labels_of("exactmatch")


def test_the_ceiling_of_ties_is_the_best_order():
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 3, 7), rng.integers(0, 2, 7)
    x[:2], y[:2] = (0, 2), (0, 1)
    best = max(kendalltau(x, order).statistic for order in set(permutations(y)))
    assert largest_kendall(x, y) == pytest.approx(best)
    with pytest.raises(ValueError, match="constant"):
        largest_kendall([1, 1, 1], [1, 2, 3])
    paired = pd.DataFrame({"P": x / 2, "AP": 1.0, "RR": np.nan, "whole": y.astype(float)})
    cells = correlations.ceilings(paired, metrics=("AP", "RR", "P"))
    assert cells["P"] == f"{kendalltau(x, y).statistic:.2f} of {best:.2f}" and list(cells) == ["P", "A"]
    right, wrong = x[y == 1][:, None], x[y == 0][None]
    assert cells["A"] == f"{((right > wrong) + (right == wrong) / 2).mean():.2f}"
    assert "A" not in correlations.ceilings(paired.assign(whole=x / 4), metrics=("P",))


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.booleans(), min_size=1, max_size=3)), min_size=1, max_size=8))
def test_shuffled_labels_stay_among_questions_of_one_group(lists):
    table = pd.DataFrame(
        {"id": f"q{i}", "condition": "BM25", "rank": rank, "label": float(label)}
        for i, (_, own) in enumerate(lists)
        for rank, label in enumerate(own, 1)
    )
    same = {f"q{i}": group for i, (group, _) in enumerate(lists)}
    longest = table["rank"].max()

    def labels(column):
        each = shuffled.sort_values("rank").groupby("id")[column].agg(tuple)
        return {name: own + (0.0,) * (longest - len(own)) for name, own in each.items()}

    shuffled = correlations.shuffled_among_equals(
        table.sample(frac=1, random_state=0), "label", same, np.random.default_rng(3)
    )
    before, after = labels("label"), labels("moved")
    assert len(shuffled) == len(table)
    for group in range(3):
        own = [name for name, of in same.items() if of == group]
        if len(own) == 1 or len({len(part) for _, part in lists}) == 1:  # a short list shows only the beginning of what it got
            assert sorted(before[name] for name in own) == sorted(after[name] for name in own)


def test_shuffling_does_not_keep_success_where_labels_say_who_succeeds():
    """The control that was here before made its groups of the labels themselves, so that their largest could not change."""
    table = pd.DataFrame({"id": [f"q{i}" for i in range(40)], "rank": 1, "label": [1.0, 0.0] * 20})
    moved = correlations.shuffled_among_equals(table, "label", dict.fromkeys(table["id"], 0), np.random.default_rng(0))
    assert (moved["moved"] != moved["label"]).sum() > 10


def two_lists(metric, whole):
    sides = [("BM25", 0), ("dense", 1)]
    rows = [(f"q{i}", name, p[at], w[at]) for i, (p, w) in enumerate(zip(metric, whole, strict=True)) for name, at in sides]
    return pd.DataFrame(rows, columns=["id", "condition", "P", "whole"]).assign(annotation="eRAG")


def test_within_questions_by_hand():
    """Four questions: preferred rightly twice, wrongly once, no preference once; the fifth is answered alike with both lists."""
    metric = [(0.1, 0.2), (0.5, 0.1), (0.2, 0.1), (0.3, 0.3), (0.9, 0.1)]
    whole = [(0, 1), (1, 0), (0, 1), (1, 0), (1, 1)]
    row = correlations.within_questions(two_lists(metric, whole), ["P"]).loc["P"]
    assert (row["value"], row["n"]) == (0.25, 4)


def test_within_questions_sees_nothing_where_labels_only_know_what_is_difficult():
    """Labels that are the question's own difficulty go with the reader over questions and say nothing between its two lists."""
    rng = np.random.default_rng(0)
    ease = rng.uniform(size=300)
    whole = [tuple((rng.uniform(size=2) < each).astype(int)) for each in ease]
    row = correlations.within_questions(two_lists([(each, each) for each in ease], whole), ["P"]).iloc[0]
    assert row["value"] == 0 and row["p_value"] == 1
    with pytest.raises(ValueError, match="two lists of each question"):
        correlations.within_questions(two_lists([(0, 1)], [(0, 1)])[:1], ["P"])
