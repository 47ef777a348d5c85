"""A choice against one made at random: all choices enumerated, no difference seen where there is none, one seen where there is."""

from itertools import product

import numpy as np
import pytest

from rag_utils import stats
from rag_utils.score import against_chance


def test_the_larger_p_of_all_choices_and_of_the_questions():
    others = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]], float)
    chosen = np.array([1, 1, 1, 0, 1, 1, 1, 0], float)
    means = np.array([others[range(8), list(picks)].mean() for picks in product(range(3), repeat=8)])
    gap, asked = against_chance(chosen, others, draws=40_000), stats.paired_difference(chosen, others.mean(axis=1))
    exact = 2 * np.mean(means >= chosen.mean() - 1e-12)
    assert gap.value == asked.value and exact != pytest.approx(asked.p_value, abs=0.005)
    assert gap.p_value == pytest.approx(max(exact, asked.p_value), abs=0.003)
    assert gap.low <= asked.low < asked.high <= gap.high
    level = np.where([[1] * 4] * 8, others[:, :1], 0)  # whatever is chosen comes to the same: draws see no spread, questions do
    better = np.minimum(level[:, 0] + [1, 0, 0, 1, 0, 0, 0, 0], 1)
    assert against_chance(better, level).p_value == stats.paired_difference(better, level[:, 0]).p_value > 0.05


def test_a_choice_at_random_is_seldom_told_from_chance_and_a_good_one_is():
    rng, below, found = np.random.default_rng(0), 0, 0
    for number in range(200):
        others = (rng.random((30, 5)) < rng.choice([0.1, 0.9], size=(30, 1))).astype(float)  # easy and hard questions: skewed
        gap = against_chance(others[range(30), rng.integers(5, size=30)], others, draws=399, rng=number)
        below += gap.p_value <= 0.05
        assert (gap.low > 0 or gap.high < 0) == (gap.p_value <= 0.05) or abs(gap.p_value - 0.05) <= 0.006
        found += against_chance(others.max(axis=1), others, draws=399, rng=number).p_value <= 0.05
    assert below <= 14 and found >= 190  # 10 at most are to be expected


@pytest.mark.parametrize(
    ("chosen", "others", "said"),
    [([1.0], [[1.0]], "chosen"), ([1, 0], [1, 0], "others"), ([1, 0], [[1, 0]], "length"), ([1, np.nan], [[1], [0]], "chosen")],
)
def test_other_shapes_are_refused(chosen, others, said):
    with pytest.raises(ValueError, match=said):
        against_chance(chosen, others)
