"""Agreement beyond chance: worked by hand, equal to statsmodels and scikit-learn, and what prevalence does to it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import aggregate_raters, cohens_kappa, fleiss_kappa

from rag_utils.score import kappa

few = settings(deadline=None, derandomize=True, max_examples=30)
labels = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=4, max_size=40).filter(
    lambda pairs: len({one for pair in pairs for one in pair}) == 2
)


def test_ten_answers_by_hand():
    """Five times both right, three times both wrong, each right six times: (0.8 - 0.52) / 0.48."""
    human, machine = [1, 1, 1, 1, 0, 0, 1, 0, 1, 0], [1, 1, 1, 0, 0, 0, 1, 1, 1, 0]
    found = kappa.cohen(human, machine, resamples=100)
    assert (found.observed, found.expected, found.kappa.n) == (0.8, pytest.approx(0.52), 10)
    assert found.kappa.value == pytest.approx(0.28 / 0.48) != pytest.approx(2 * 0.8 - 1)


@few
@given(labels)
def test_cohen_is_that_of_two_other_packages(pairs):
    a, b = np.array(pairs, dtype=int).T
    found = kappa.cohen(a, b, resamples=40)
    assert found.kappa.value == pytest.approx(cohen_kappa_score(a, b))
    table = np.histogram2d(a, b, bins=2, range=[[0, 1], [0, 1]])[0]
    with np.errstate(invalid="ignore"):  # a test that statsmodels adds
        assert found.asymptotic[0] == pytest.approx(cohens_kappa(table).kappa_low, nan_ok=True)


@few
@given(st.integers(0, 2**31))
def test_fleiss_is_that_of_statsmodels_and_its_bootstrap_uses_the_same_formula(seed):
    ratings = np.random.default_rng(seed).integers(0, 2, size=(30, 4))
    found = kappa.fleiss(ratings, resamples=40)
    assert found.value == pytest.approx(fleiss_kappa(aggregate_raters(ratings)[0]))
    drawn = np.random.default_rng(0).integers(30, size=(400, 30))
    draws = [fleiss_kappa(np.column_stack([r.sum(1), 4 - r.sum(1)])) for r in ratings[drawn]]
    low, high = np.quantile(draws, [0.025, 0.975])
    assert found.low == pytest.approx(low, abs=0.12) and found.high == pytest.approx(high, abs=0.12)


def test_raters_of_whom_one_contradicts_the_other_two():
    """Two raters agree on all of four items, the third never: P = 1/3 each, chance 1/2, kappa (1/3 - 1/2) / (1/2)."""
    ratings = [[1, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 1]]
    assert kappa.fleiss(ratings, resamples=100).value == pytest.approx(-1 / 3)


@few
@given(st.floats(0.02, 0.98), st.floats(0.55, 0.99), st.floats(0.55, 0.99))
def test_kappa_at_is_kappa_of_many_such_answers(prevalence, sensitivity, specificity):
    n = 100_000
    right = np.arange(n) < round(prevalence * n)
    said = np.zeros(n, dtype=int)
    said[: round(right.sum() * sensitivity)] = 1
    said[n - round((~right).sum() * (1 - specificity)) :] = 1
    assert kappa.kappa_at(prevalence, sensitivity, specificity) == pytest.approx(
        cohen_kappa_score(right.astype(int), said), abs=2e-3
    )


def test_kappa_falls_as_nearly_all_are_right_although_the_raters_err_alike():
    curve = kappa.kappa_at(np.array([0.5, 0.9, 0.99]), 0.95, 0.95)
    assert curve[0] > curve[1] > curve[2] > 0
    agree = np.full(3, 0.95)  # the plausible wrong formula, agreement alone, does not move
    assert np.ptp(agree) == 0 < np.ptp(curve)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([1, 0], [1, 0, 1], "lengths must be equal; got 2 a, 3 b"),
        ([1, 2], [1, 0], r"a must be 0 or 1; got 2\.0"),
        ([1, 1], [1, 1], "not defined where all 4 labels are 1"),
        ([1], [1], "at least 2 labels"),
    ],
)
def test_what_is_no_pair_of_raters_is_refused(a, b, words):
    with pytest.raises(ValueError, match=words):
        kappa.cohen(a, b)


def test_what_is_no_table_of_raters_is_refused():
    with pytest.raises(ValueError, match=r"ratings must be \(items, raters\) with at least 2 of both; got shape \(2,"):
        kappa.fleiss([[1], [0]])
    with pytest.raises(ValueError, match="all 4 labels are 1"):
        kappa.fleiss([[1, 1], [1, 1]])
    with pytest.raises(ValueError, match=r"prevalence must be from 0 to 1; got 1\.2"):
        kappa.kappa_at(1.2, 0.9, 0.9)
    with pytest.raises(ValueError, match="always say the same"):
        kappa.kappa_at(1.0, 1.0, 1.0)
