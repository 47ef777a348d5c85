"""AUROC and AURAC with intervals: equal to `stats`, ties and parts included."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.dense_thresholds import discrimination
from rag_utils import stats

OTHERS = {"second": "second", "third": "third"}


def ranked(n=60, seed=0):
    rng = np.random.default_rng(seed)
    correct = rng.integers(0, 2, n).astype(float)
    table = pd.DataFrame({"id": [f"q{i}" for i in range(n)], "exact_match": correct})
    for number, column in enumerate(("first", *OTHERS)):
        table[column] = rng.normal(size=n) * number - correct
    return table


def test_areas_are_those_of_stats_and_the_measure_that_knows_leads():
    table = ranked()
    cells = discrimination.areas(table, measures={"first": "first"} | OTHERS, resamples=60)
    assert cells.loc["first", "AUROC"].value == 1  # no noise
    assert cells.loc["third", "AURAC"].value == stats.aurac(table["third"], table["exact_match"])
    gaps = discrimination.ahead(table, first="first", others=OTHERS, resamples=200).set_index(["measure", "area"])
    assert len(gaps) == 4 and (gaps["p_holm"] >= gaps["p_value"]).all()
    assert gaps.loc[("third", "AUROC"), "value"] == pytest.approx(1 - stats.auroc(table["third"], table["exact_match"]))
    assert gaps.loc[("third", "AUROC"), "low"] > 0
    right = table.assign(exact_match=1.0)
    assert discrimination.areas(right, measures=OTHERS, resamples=60).isna().all(axis=None)
    assert discrimination.ahead(right, first="first", others=OTHERS, resamples=60).empty


def test_the_interval_is_that_of_the_slow_bootstrap():
    """Not near to it: the same resamples are drawn, so both ends are the same numbers."""
    table = ranked(40, seed=3)
    columns = table["third"], table["exact_match"]
    for area, function in discrimination.AREAS.items():
        fast = discrimination.area_interval(*columns, area=area, resamples=300, seed=1)
        slow = stats.statistic_interval(function, *columns, resamples=300, rng=1)
        assert (fast.value, fast.n) == (slow.value, 40)
        assert (fast.low, fast.high) == pytest.approx((slow.low, slow.high), abs=1e-12)
    with pytest.raises(ValueError, match="right and wrong replies"):
        discrimination.area_interval([1, 2], [1, 1], area="AURAC")
    with pytest.raises(ValueError, match="unknown area"):
        discrimination.area_interval([1, 2], [1, 0], area="AUPRC")


def test_an_area_that_hardly_exists_has_no_interval():
    """Of two rows, one right and one wrong, half of the resamples have an area; with a second such part only a quarter have."""
    twice = ([1, 2, 1, 2], [2, 1, 1, 2], [1, 0, 1, 0])
    with pytest.raises(ValueError, match=r"does not exist on \d+ of 400 resamples"):
        discrimination.area_difference(*twice, groups=list("aabb"), resamples=400)
    with pytest.raises(ValueError, match="resamples must be a whole number from 40"):
        discrimination.area_difference(*twice, resamples=30)


def test_a_difference_between_parts_is_the_mean_of_their_differences():
    one, two = ranked(seed=1), ranked(30, seed=2)
    both = pd.concat([one.assign(part="one"), two.assign(part="two")])
    values = [
        stats.auroc(part["second"], part["exact_match"]) - stats.auroc(part["third"], part["exact_match"])
        for part in (one, two)
    ]
    columns = both["second"], both["third"], both["exact_match"]
    found = discrimination.area_difference(*columns, groups=both["part"], resamples=60)
    assert found.value == pytest.approx(np.mean(values)) and found.n == 90
    pooled = discrimination.area_difference(*columns, resamples=60)
    assert pooled.value != pytest.approx(np.mean(values))
    same = discrimination.area_difference(both["third"], both["third"], both["exact_match"], resamples=60)
    assert (same.value, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    with pytest.raises(ValueError, match="one kind only"):
        discrimination.area_difference([1, 2], [2, 1], [1, 1], area="AURAC")
    with pytest.raises(ValueError, match="unknown area"):
        discrimination.area_difference([1, 2], [2, 1], [1, 0], area="AUPRC")


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_the_area_of_a_resample_is_that_of_the_rows_it_holds(seed):
    rng = np.random.default_rng(seed)
    uncertainty, correct = rng.integers(0, 4, 9) / 7, rng.integers(0, 2, 9).astype(float)
    counts = rng.multinomial(9, np.full(9, 1 / 9), size=5)
    for area, function in discrimination.AREAS.items():
        found = discrimination.area_draws(uncertainty, correct, counts, area=area)
        for value, count in zip(found, counts, strict=True):
            rows = np.repeat(np.arange(9), count)
            if np.ptp(correct[rows]) == 0:
                assert np.isnan(value)
            else:
                assert value == pytest.approx(function(uncertainty[rows], correct[rows]))
