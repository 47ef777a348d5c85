"""Ways beside each other: what is kept of a gain, and which ways are not beaten."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.moi_cheaper import savings_tables

few = settings(deadline=None, derandomize=True, max_examples=40)
numbers = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8)


def test_the_share_of_a_gain_by_hand():
    """Gains of 0.6 and 0.3 over the base keep a half; the mean of the questions' own ratios would be another number."""
    base, whole, part = np.zeros(4), np.array([1.0, 0.8, 0.4, 0.2]), np.array([0.2, 0.2, 0.4, 0.4])
    found = savings_tables.retained(part, whole, base, resamples=200)
    assert found.share.value == pytest.approx(0.5) != pytest.approx(np.mean(part / whole))
    assert found.whole.value == pytest.approx(0.6) and found.share.low <= 0.5 <= found.share.high


def test_without_a_gain_there_is_nothing_to_keep():
    found = savings_tables.retained([1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1])
    assert found.share is None and str(found) == "undefined"
    assert str(savings_tables.retained([0, 0], [0, 0], [1, 1])) == "undefined"


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
    return savings_tables.wide(pd.DataFrame(rows), ["gold", "exact_match"])


METRICS = {"gold": "gold", "exact_match": "EM"}


def test_the_average_order_is_the_mean_of_the_cyclic_ones(tables):
    assert list(tables["exact_match"]) == ["average order", "dear", "cheap"]
    assert set(tables["exact_match"]["average order"]) <= {0.0, 0.5, 1.0}


def test_ways_are_compared_in_the_order_given_and_the_base_is_not_tested(tables):
    price = {"average order": 0.0, "dear": 2000.0, "cheap": 500.0, "absent": 1.0}
    found = savings_tables.compared(tables, METRICS, list(price), price, resamples=100)
    assert list(found.index) == ["average order", "dear", "cheap"] and list(found["n"]) == [20] * 3
    assert found.loc["average order", "Holm"] == "–" == found.loc["average order", "EM gain"]
    assert found.loc["dear", "k tokens"] == "2.00" and float(found.loc["dear", "Holm"]) < 0.05


def test_differences_and_shares_leave_out_ways_that_are_absent(tables):
    found = savings_tables.differences(tables, METRICS, [("dear", "cheap"), ("dear", "absent")], resamples=100)
    assert list(found.index) == [("dear", "cheap")] and list(found) == ["gold", "Holm, gold", "EM", "Holm, EM"]
    gaps = savings_tables.claims({"a": tables, "b": tables}, [("x", "dear", "cheap"), ("y", "absent", "cheap")], "gold")
    assert list(gaps) == ["x, a", "x, b"]
    alone = savings_tables.claims({"a": tables}, [("x", "dear", "cheap")], "gold")["x, a"]
    assert gaps["x, a"].value == alone.value and gaps["x, a"].p_value == pytest.approx(min(1, 2 * alone.p_value))
    kept = savings_tables.shares(tables, METRICS, [("half", "cheap", "dear"), ("none", "absent", "dear")])
    assert list(kept.index) == ["half"] and kept.loc["half", "kept, EM"] != "undefined"
