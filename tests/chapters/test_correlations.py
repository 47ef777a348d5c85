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


@given(st.lists(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=3), min_size=1, max_size=8))
def test_shuffled_labels_stay_among_questions_of_one_difficulty(lists):
    table = pd.DataFrame(
        {"id": f"q{i}", "condition": "BM25", "rank": rank, "label": float(label), "provenance": float(needed)}
        for i, own in enumerate(lists)
        for rank, (label, needed) in enumerate(own, 1)
    )

    def levels(column):
        """Per question 0 without a needed document, 1 with one, 2 if it is labelled 1; and the labels, filled with 0."""
        return {
            name: (
                int(part["provenance"].any()) + int((part["label"] * part["provenance"]).any()),
                tuple(part.sort_values("rank")[column]) + (0.0,) * (table["rank"].max() - len(part)),
            )
            for name, part in shuffled.groupby("id")
        }

    table = table.sample(frac=1, random_state=0)
    shuffled = correlations.shuffled_among_equals(table, "label", np.random.default_rng(3))
    before, after = levels("label"), levels("moved")
    assert len(shuffled) == len(table)
    same_length = len({len(own) for own in lists}) == 1
    for level in range(3):
        own = sorted(labels for at, labels in before.values() if at == level)
        if len(own) == 1 or same_length:  # a short list shows only the beginning of the labels that it got
            assert sorted(labels for at, labels in after.values() if at == level) == own


def test_power_is_the_share_of_samples_that_tell_two_apart():
    rng = np.random.default_rng
    assert correlations.power(np.array([0.9, 1.0, 1.1] * 20), 60, rng(0)) == 1.0
    assert correlations.power(np.zeros(60), 60, rng(0)) == 0.0
    chance = correlations.power(rng(1).normal(size=4000), 240, rng(0), times=4000)
    assert 0.03 < chance < 0.09
    weak = np.array([1.0] * 30 + [-1.0] * 20 + [0.0] * 50)
    shares = [correlations.power(weak, n, rng(0)) for n in (20, 120, 480)]
    assert shares == sorted(shares) and shares[-1] > 2 * shares[0]
