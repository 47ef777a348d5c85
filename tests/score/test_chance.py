"""A choice against one made at random: all choices enumerated, no difference seen where there is none, one seen where there is."""

from itertools import product

import numpy as np
import pytest

from rag_utils.score import against_chance


def test_the_tail_is_that_of_all_choices():
    others = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]], float)
    chosen = np.array([1, 1, 1, 1], float)
    means = [others[range(4), list(picks)].mean() for picks in product(range(3), repeat=4)]
    exact = 2 * np.mean(np.array(means) >= chosen.mean())
    gap = against_chance(chosen, others, draws=40_000)
    assert gap.p_value == pytest.approx(exact, abs=0.01) and gap.value == pytest.approx(1 - others.mean())
    worse = against_chance(0 * chosen, others, draws=40_000)
    assert worse.value < 0 and worse.p_value == pytest.approx(2 * np.mean(np.array(means) <= 0), abs=0.01)


def test_a_choice_at_random_is_seldom_told_from_chance_and_a_good_one_is():
    rng, below, found = np.random.default_rng(0), 0, 0
    for number in range(200):
        others = (rng.random((30, 5)) < rng.choice([0.1, 0.9], size=(30, 1))).astype(float)  # easy and hard questions: skewed
        chosen = others[range(30), rng.integers(5, size=30)]
        below += against_chance(chosen, others, resamples=40, draws=399, rng=number).p_value <= 0.05
        found += against_chance(others.max(axis=1), others, resamples=40, draws=399, rng=number).p_value <= 0.05
    assert below <= 18 and found >= 190  # 10 are to be expected


@pytest.mark.parametrize(
    ("chosen", "others", "said"),
    [([1.0], [[1.0]], "chosen"), ([1, 0], [1, 0], "others"), ([1, 0], [[1, 0]], "length"), ([1, np.nan], [[1], [0]], "chosen")],
)
def test_other_shapes_are_refused(chosen, others, said):
    with pytest.raises(ValueError, match=said):
        against_chance(chosen, others)
