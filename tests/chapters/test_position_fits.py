"""Fits and rankings of invented saliencies."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.moi_position import permutations, position_fits
from rag_utils import moi

few = settings(deadline=None, derandomize=True, max_examples=60)


def invented(position, utilities, sets, noise=0.0, seed=0):
    """A table of saliencies that follow the model, with a constant of each question."""
    rng, found = np.random.default_rng(seed), []
    for condition, orders in sets.items():
        for name, some in orders.items():
            weights_ = position[: len(some[0])] / np.sum(position[: len(some[0])])
            scores = moi.predict(some, weights_, utilities[name]) - 50 + noise * rng.normal(size=len(some))
            for run, (order, score) in enumerate(zip(some, scores, strict=True)):
                row = {"id": name, "condition": condition, "run": run, "order": permutations.label(order)}
                found.append(row | {"query": score, "passages": -300.0 + run, "information": score / 10})
    return pd.DataFrame(found)


def made(position, noise=0.0, questions=3):
    utilities = {f"q{i}": np.random.default_rng(i).normal(size=5) for i in range(questions)}
    sets = permutations.propose(list(utilities), 5, permutations.SETS, prefix=3, orders=15)
    return invented(np.array(position), utilities, sets, noise), utilities


def test_pruned_orders_give_ranking_and_position_back():
    table, utilities = made([0.5, 0.3, 0.2, 0.4, 0.1])
    fits = position_fits.fitted(table, "pruned", size=5, starts=4)
    assert fits["identified"].tolist() == [1, 1, 1]
    assert fits[["a1", "a2", "a3"]].to_numpy() == pytest.approx(np.tile([0.5, 0.3, 0.2], (3, 1)), abs=1e-3)
    assert fits["order"].tolist() == [permutations.label(moi.rerank(u)) for u in utilities.values()]
    found = position_fits.rankings(table, size=5)
    assert [permutations.label(order) for [order] in found["MoI"].values()] == fits["order"].tolist()
    for name, [order] in found["QG"].items():  # alone, without noise, the utilities themselves
        assert order == moi.rerank(utilities[name]).tolist()
    # the invented prior of "alone" grows with the passage's number by more than the utilities differ
    assert found["retriever"]["q0"] == [[0, 1, 2, 3, 4]] and found["MoI, prior"] != found["MoI"]
    assert permutations.reversed_orders(found["QG"])["q0"] == [found["QG"]["q0"][0][::-1]]


def test_pooled_position_is_that_of_the_fit_with_passages_numbered_through():
    table, _ = made([0.2, 0.3, 0.5, 0.1, 0.1], noise=0.1)
    asked = list(position_fits.problems(table, "pruned").values())
    position, left = position_fits.pooled_position(asked, 5)
    orders = np.vstack([orders + 5 * i for i, (orders, _) in enumerate(asked)])
    whole = moi.fit(orders, np.concatenate([scores for _, scores in asked]), 15, starts=2)
    assert position == pytest.approx(whole.position, abs=1e-3)
    assert left == pytest.approx(whole.residual, abs=1e-4)
    assert position != pytest.approx(np.full(3, 1 / 3), abs=0.05)


def test_calibrated_position_reads_cyclic_orders():
    table, utilities = made([0.5, 0.3, 0.2, 0.4, 0.1])
    position, left = position_fits.pooled_position(list(position_fits.problems(table, "pruned").values()), 5)
    assert left < 1e-6
    found = position_fits.calibrated(table, position, size=5)
    assert {name: order for name, [order] in found.items()} == {
        name: moi.rerank(u).tolist() for name, u in utilities.items()
    }
    wrong = position_fits.calibrated(table, np.array([0.1, 0.2, 0.7]), size=5)  # a position that is not the reader's
    assert wrong != found


def test_pooling_full_orders_leaves_scale_and_sign_open():
    """All c of 1/N + c (a - 1/N) leave nothing, so that no pooling can tell them apart; pruned orders can."""
    utility, rng = np.array([0.1, 0.9, 0.4, 0.3, 0.2]), np.random.default_rng(0)
    a, full, pruned = np.array([0.3, 0.25, 0.2, 0.15, 0.1]), [], []
    for _ in range(3):
        orders = moi.random_orders(5, 15, rng=rng)
        full.append((orders, moi.predict(orders, a, utility)))
        orders = moi.random_orders(5, 15, prefix=3, rng=rng)
        pruned.append((orders, moi.predict(orders, [0.5, 0.3, 0.2], utility)))
    for c in (-1.0, 0.5, 1.0):
        other = 0.2 + c * (a - 0.2)
        assert position_fits.left_over(full, 5, other) == pytest.approx(0, abs=1e-9)
    assert position_fits.left_over(pruned, 5, np.array([0.5, 0.3, 0.2])) == pytest.approx(0, abs=1e-9)
    assert position_fits.left_over(pruned, 5, 1 / 3 - (np.array([0.5, 0.3, 0.2]) - 1 / 3)) > 0.01


def test_rankings_of_fits_at_hand_are_those_fitted_anew():
    table, _ = made([0.5, 0.3, 0.2, 0.4, 0.1], noise=0.2, questions=2)
    how = {"size": 5, "starts": 4, "seed": 0}
    fits = {"MoI": position_fits.fitted(table, "pruned", **how)}
    fits["MoI, prior"] = position_fits.fitted(table, "pruned", prior=True, **how)
    anew = position_fits.rankings(table, size=5)
    assert position_fits.rankings(table, size=5, fits=fits) == anew
    assert list(anew)[:2] == ["retriever", "random"]
    assert all(sorted(order) == list(range(5)) for [order] in anew["random"].values())


def test_problems_of_several_shapes_are_not_pooled():
    table, _ = made([0.5, 0.3, 0.2, 0.4, 0.1], questions=2)
    some = list(position_fits.problems(table, "pruned").values()) + list(
        position_fits.problems(table, "cyclic").values()
    )
    with pytest.raises(ValueError, match="of one shape, got 2 shapes"):
        position_fits.pooled_position(some, 5)


def test_distances_by_hand():
    orders = {"q": [[0, 1, 2], [0, 2, 1], [1, 0, 2], [0, 1, 2]]}
    shares = {"q": np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8], [0.5, 0.3, 0.2]])}
    table = position_fits.distances(shares, orders)
    assert len(table) == 5  # the first order and the last are one
    same = table[table["same_first"]]
    assert same["distance"].tolist() == pytest.approx([0.2, 0.2])
    other = table[~table["same_first"]]
    assert other["distance"].tolist() == pytest.approx([1.2, 1.2, 1.2])
    assert table["known"].iloc[0] == pytest.approx(0.8)
    assert same["at_most"].tolist() == pytest.approx([0.6, 0.6])  # unnamed 0.2 and 0.2: as much again may differ
    assert other["at_most"].tolist() == pytest.approx([1.6, 1.6, 1.6])


@few
@given(st.integers(3, 8), st.integers(1, 7), st.integers(0, 10**6))
def test_the_distance_over_all_tokens_lies_between_the_bounds(tokens, named, seed):
    """Whatever the unnamed tokens do; and taking their two rests for the truth alone would be wrong."""
    named = min(named, tokens - 1)
    rows = np.random.default_rng(seed).dirichlet(np.full(tokens, 0.4), size=2)
    truth = np.abs(rows[0] - rows[1]).sum()
    lumped = np.hstack([rows[:, :named], rows[:, named:].sum(axis=1, keepdims=True)])
    found = position_fits.distances({"q": lumped}, {"q": [[0, 1], [1, 0]]}).iloc[0]
    assert found["distance"] - 1e-9 <= truth <= found["at_most"] + 1e-9
    assert 0 <= found["distance"] <= found["at_most"] <= 2 + 1e-9
    if tokens - named == 1:
        assert found["distance"] == pytest.approx(truth)  # one token without a name is known too
