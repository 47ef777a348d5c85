"""Ways beside each other: what is kept of a gain, and which ways are not beaten."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.moi_cheaper import savings_tables
from experiments.orders import by_way
from rag_utils import stats

few = settings(deadline=None, derandomize=True, max_examples=40)
numbers = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8)


def test_the_share_of_a_gain_by_hand():
    """Gains of 0.6 and 0.3 over the base keep a half; the mean of the questions' own ratios would be another number."""
    base, whole, part = np.zeros(4), np.array([1.0, 0.8, 0.4, 0.2]), np.array([0.2, 0.2, 0.4, 0.4])
    gain, share = savings_tables.retained(part, whole, base, resamples=200, rng=0)
    assert share.value == pytest.approx(0.5) != pytest.approx(np.mean(part / whole))
    assert gain.value == pytest.approx(0.6) and share.low <= 0.5 <= share.high


def test_without_a_gain_there_is_nothing_to_keep():
    for part, whole, base in (([1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]), ([0, 0], [0, 0], [1, 1])):
        assert savings_tables.retained(part, whole, base)[1] is None


@few
@given(numbers)
def test_the_frontier_is_what_no_other_way_beats(points):
    cost, quality = zip(*points, strict=True)
    kept = savings_tables.not_dominated(cost, quality)
    assert any(kept)
    for (c, q), there in zip(points, kept, strict=True):
        beaten = any(a <= c and b >= q and (a < c or b > q) for a, b in points)
        assert there is not beaten
    best = [max(q for c, q in points if c <= one) for one in cost]
    assert all(q == b for q, b, there in zip(quality, best, kept, strict=True) if there)


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    rows = [
        {"id": f"q{i}", "condition": way, "exact_match": float(rng.random() < share), "gold": float(rng.random())}
        for i in range(20)
        for way, share in (("cyclic", 0.3), ("cyclic", 0.3), ("dear", 0.9), ("cheap", 0.6))
    ]
    return {metric: by_way(pd.DataFrame(rows), metric) for metric in ("gold", "exact_match")}


METRICS = {"gold": "gold", "exact_match": "EM"}


def test_differences_are_paired_and_adjusted_together(tables):
    pairs = [("dear", "cheap"), ("dear", "absent"), ("cheap", "average order")]
    found = savings_tables.differences(tables, METRICS, pairs, resamples=100, rng=0)
    assert list(found.index) == [("dear", "cheap"), ("cheap", "average order")]
    assert list(found) == ["gold", "Holm, gold", "EM", "Holm, EM"]
    gaps = [
        stats.paired_difference(tables[metric][a], tables[metric][b], resamples=100, rng=0)
        for a, b in found.index
        for metric in METRICS
    ]
    adjusted = [f"{p:.3f}" for p in stats.holm([gap.p_value for gap in gaps])]
    assert found[["Holm, gold", "Holm, EM"]].to_numpy().ravel().tolist() == adjusted
    assert found.loc[("dear", "cheap"), "EM"] == f"{gaps[1]:+.2f}"


def test_shares_leave_out_ways_that_are_absent(tables):
    kept = savings_tables.shares(tables, METRICS, [("half", "cheap", "dear"), ("none", "absent", "dear")], rng=0)
    assert list(kept.index) == ["half"] and kept.loc["half", "kept, EM"] != "undefined"
    _, share = savings_tables.retained(
        *(tables["exact_match"][way] for way in ("cheap", "dear", "average order")), rng=0
    )
    assert kept.loc["half", "kept, EM"] == f"{share}" and kept.loc["half", "kept, gold"] == "undefined"
