"""Uncertainty from likelihoods, clusters and agreement: cases by hand, properties, reference code, wrong formulas that must fail."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from looped import each
from scipy import linalg

from rag_utils.uncertainty import (
    degree_uncertainty,
    discrete_semantic_entropy,
    eigenvalue_sum,
    kernel_language_entropy,
    monte_carlo_semantic_entropy,
    perplexity,
    predictive_entropy,
    semantic_entropy,
)

repeatable = settings(deadline=None, derandomize=True, max_examples=60)
surprises = st.lists(st.floats(0, 60), min_size=1, max_size=8).map(np.array)


def groups(*sizes):
    """Affinity of samples that agree fully within groups of these sizes and not at all across."""
    return linalg.block_diag(*(np.ones((size, size)) for size in sizes))


@st.composite
def affinities(draw):
    n = draw(st.integers(1, 6))
    upper = np.triu(draw(arrays.arrays(float, (n, n), elements=st.floats(0, 1))), 1)
    return upper + upper.T + np.eye(n)


# --- from log-likelihoods ------------------------------------------------------------------------


@repeatable
@given(surprises)
def test_predictive_entropy_and_perplexity(surprise):
    mean = predictive_entropy(-surprise)
    assert surprise.min() - 1e-12 <= mean <= surprise.max() + 1e-12
    assert perplexity(-surprise) == pytest.approx(np.prod(np.exp(surprise / len(surprise))))
    assert perplexity(-surprise) >= 1 and predictive_entropy(-surprise[::-1]) == pytest.approx(mean)


def test_a_mean_of_probabilities_is_wrong():
    tokens = np.log([0.5, 0.125])
    assert perplexity(tokens) == pytest.approx(4)
    assert 1 / np.exp(tokens).mean() == pytest.approx(3.2)
    assert 2 ** -tokens.mean() == pytest.approx(2.61, abs=0.01)  # the base must be that of the logarithm


def test_values_at_the_edge_of_rounding():
    assert perplexity([0.0]) == 1.0 and predictive_entropy([5e-7, -1.0]) == 0.5
    assert perplexity([-699.0]) == pytest.approx(math.exp(699))
    with pytest.raises(ValueError, match="mean above -700"):
        perplexity([-701.0])


@each("measure", [predictive_entropy, perplexity])
@each(
    ("values", "message"),
    [
        ([], r"must hold at least 1 number\(s\); got shape \(0,\)"),
        ([[-1.0]], r"got shape \(1, 1\)"),
        (-1.0, r"log_likelihood must be a list of numbers; got -1\.0"),
        ([None], "must be numbers; got None"),
        ([-1.0, np.nan], "finite; got 1 NaN or infinite"),
        ([-1.0, -np.inf], "finite"),
        ([-1.0, 0.5], "at most 0; got 0.5: is the sign right"),
    ],
)
def test_bad_log_likelihoods_are_refused(measure, values, message):
    with pytest.raises(ValueError, match=message):
        measure(values)


# --- from clusters -------------------------------------------------------------------------------


def test_semantic_entropy_by_hand():
    log_likelihood = np.log([0.5, 0.25, 0.125, 0.125])
    assert semantic_entropy(log_likelihood, [0, 1, 2, 2]) == pytest.approx(1.5 * math.log(2))
    assert discrete_semantic_entropy([0, 1, 2, 2]) == pytest.approx(1.5 * math.log(2))
    assert semantic_entropy(log_likelihood - 900, [0, 0, 0, 0]) == 0.0
    assert semantic_entropy([-3.0], [0]) == discrete_semantic_entropy([7]) == 0.0
    assert semantic_entropy([-1.0, -1.0, -np.inf], [0, 1, 2]) == pytest.approx(math.log(2))


def test_the_mean_surprise_of_clusters_and_log_likelihoods_without_normalising_are_wrong():
    log_likelihood, clusters = np.log([0.03, 0.01]), [0, 1]
    right = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert semantic_entropy(log_likelihood, clusters) == pytest.approx(right)
    assert -np.mean(np.log([0.75, 0.25])) > right + 0.2  # the earlier Monte Carlo form
    assert -np.sum(np.exp(log_likelihood) * log_likelihood) < right - 0.3  # likelihoods as they are


@repeatable
@given(st.lists(st.tuples(st.floats(0, 300), st.integers(0, 3)), min_size=1, max_size=8), st.floats(-1e3, 1e3))
def test_bounds_and_merging_of_clusters(samples, constant):
    log_likelihood, clusters = -np.array([s for s, _ in samples]), np.array([c for _, c in samples])
    entropy, most = semantic_entropy(log_likelihood, clusters), math.log(len(set(clusters.tolist())))
    assert 0 <= entropy <= most and 0 <= discrete_semantic_entropy(clusters) <= most
    assert semantic_entropy(log_likelihood + constant, clusters) == pytest.approx(entropy, abs=1e-9)
    assert semantic_entropy(log_likelihood, 9 - clusters) == pytest.approx(entropy, abs=1e-9)
    assert semantic_entropy(log_likelihood, clusters // 2) <= entropy + 1e-9
    assert semantic_entropy(np.full(len(samples), -5.0), clusters) == pytest.approx(discrete_semantic_entropy(clusters))


def test_monte_carlo_semantic_entropy_by_hand():
    log_likelihood = np.log([0.5, 0.25, 0.125])
    assert monte_carlo_semantic_entropy(log_likelihood, [0, 1, 2]) == pytest.approx((1 + 2 + 3) / 3 * math.log(2))
    assert monte_carlo_semantic_entropy(log_likelihood, [3, 0, 0]) == pytest.approx(
        -(math.log(0.5) + 2 * math.log(0.375)) / 3
    )
    assert monte_carlo_semantic_entropy(np.log([0.9, 0.9]), [0, 0]) == pytest.approx(-math.log(1.8))  # below 0
    assert monte_carlo_semantic_entropy([-2000.0, -1.0], [0, 1]) == 1000.5  # no likelihood is rounded to 0


def test_other_readings_of_the_monte_carlo_form_are_wrong():
    log_likelihood, clusters = np.log([0.3, 0.2, 0.1, 0.05]), [0, 0, 0, 1]
    right = monte_carlo_semantic_entropy(log_likelihood, clusters)
    assert right == pytest.approx(-(3 * math.log(0.6) + math.log(0.05)) / 4)
    assert abs(-np.mean(np.log([0.6, 0.05])) - right) > 0.5  # a mean over clusters
    assert abs(right - semantic_entropy(log_likelihood, clusters)) > 0.5  # normalised over the samples
    assert abs(-np.mean(np.log([0.2, 0.2, 0.2, 0.05])) - right) > 0.5  # the mean of a cluster's members


@repeatable
@given(st.lists(st.tuples(st.floats(0, 300), st.integers(0, 3)), min_size=1, max_size=8), st.floats(0, 1e3))
def test_monte_carlo_semantic_entropy_moves_with_the_likelihoods(samples, less):
    log_likelihood, clusters = -np.array([s for s, _ in samples]), np.array([c for _, c in samples])
    entropy = monte_carlo_semantic_entropy(log_likelihood, clusters)
    assert -math.log(len(samples)) - 1e-9 <= entropy <= predictive_entropy(log_likelihood) + 1e-9
    assert monte_carlo_semantic_entropy(log_likelihood - less, clusters) == pytest.approx(entropy + less, abs=1e-9)
    assert monte_carlo_semantic_entropy(log_likelihood, clusters // 2) <= entropy + 1e-9
    alone = monte_carlo_semantic_entropy(log_likelihood, np.arange(len(samples)))
    assert alone == pytest.approx(predictive_entropy(log_likelihood))


@each(
    ("clusters", "message"),
    [
        ([], r"clusters must hold at least 1 number\(s\); got shape \(0,\)"),
        ([[0, 1]], r"clusters must have 1 dimension\(s\); got shape \(1, 2\)"),
        ([0, -1], r"clusters must be from 0 to 9007199254740992; got -1\.0"),
        ([0.0, 1.0], "whole numbers"),
        ([0, None], "must be numbers"),
    ],
)
def test_bad_clusters_are_refused(clusters, message):
    with pytest.raises(ValueError, match=message):
        discrete_semantic_entropy(clusters)
    with pytest.raises(ValueError, match=message):
        semantic_entropy([-1.0, -2.0], clusters)
    with pytest.raises(ValueError, match=message):
        monte_carlo_semantic_entropy([-1.0, -2.0], clusters)


def test_semantic_entropy_refuses_what_does_not_fit_together():
    with pytest.raises(ValueError, match="lengths must be equal; got 3 clusters, 2 samples"):
        semantic_entropy([-1.0, -2.0], [0, 1, 2])
    with pytest.raises(ValueError, match="-inf only"):
        semantic_entropy([-np.inf], [0])
    with pytest.raises(ValueError, match="lengths must be equal; got 3 clusters, 2 samples"):
        monte_carlo_semantic_entropy([-1.0, -2.0], [0, 1, 2])
    for nats, message in (([-np.inf], "finite"), ([0.5], "at most 0; got 0.5: is the sign right")):
        with pytest.raises(ValueError, match=message):
            monte_carlo_semantic_entropy(nats, [0])


# --- from agreement ------------------------------------------------------------------------------


@each(("sizes", "count"), [((1,), 1), ((4,), 1), ((2, 2), 2), ((3, 1, 2), 3), ((1, 1, 1), 3)])
def test_graph_measures_by_hand(sizes, count):
    affinity, n = groups(*sizes), sum(sizes)
    assert eigenvalue_sum(affinity) == pytest.approx(count)
    assert degree_uncertainty(affinity) == pytest.approx(1 - sum(size**2 for size in sizes) / n**2)
    # no edge is left between the groups, so a long diffusion leaves one direction per group
    long = kernel_language_entropy(affinity, t=200.0)
    assert long == pytest.approx(-sum(size / n * math.log(size / n) for size in sizes), abs=1e-9)


def test_two_samples_that_half_agree():
    affinity = np.array([[1.0, 0.5], [0.5, 1.0]])  # D = 1.5; eigenvalues of D^-1/2 W D^-1/2 are 1 and 1/3
    assert eigenvalue_sum(affinity) == pytest.approx(4 / 3)
    assert degree_uncertainty(affinity) == pytest.approx(1 / 4)
    # L has eigenvalues 0 and 1; exp(-t L) with unit diagonal has the off-diagonal tanh(t / 2)
    shares = np.array([1 + math.tanh(0.15), 1 - math.tanh(0.15)]) / 2
    assert kernel_language_entropy(affinity) == pytest.approx(-(shares * np.log(shares)).sum())
    # (2 I + L)^-1 is [[2.5, .5], [.5, 2.5]] / 6
    shares = np.array([1.2, 0.8]) / 2
    assert kernel_language_entropy(affinity, kernel="matern") == pytest.approx(-(shares * np.log(shares)).sum())


def test_wrong_degrees_kernels_and_divisors():
    affinity = np.array([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 1.0]])
    without = affinity - np.eye(3)
    degree = without.sum(axis=1)
    wrong = np.eye(3) - without / np.sqrt(np.outer(degree, degree))
    assert abs(np.maximum(0, 1 - np.linalg.eigvalsh(wrong)).sum() - eigenvalue_sum(affinity)) > 0.5
    assert abs(without.sum() / 9 - degree_uncertainty(affinity)) > 0.1
    heat = linalg.expm(-0.3 * (np.diag(affinity.sum(axis=1)) - affinity))
    by_trace = np.linalg.eigvalsh(heat / np.trace(heat))  # divided by the trace, but without the unit diagonal
    assert abs(-(by_trace * np.log(by_trace)).sum() - kernel_language_entropy(affinity)) > 1e-4


@repeatable
@given(affinities(), st.randoms(use_true_random=False))
def test_graph_measures_have_bounds_and_no_order(affinity, random):
    n = len(affinity)
    order = random.sample(range(n), n)
    shuffled = affinity[np.ix_(order, order)]
    assert 1 - 1e-9 <= eigenvalue_sum(affinity) <= n + 1e-9
    assert -1e-12 <= degree_uncertainty(affinity) <= 1 - 1 / n + 1e-12
    assert degree_uncertainty(affinity) == pytest.approx(1 - affinity.mean())
    for options in ({}, {"t": 5.0}, {"kernel": "matern"}, {"kernel": "matern", "kappa": 3.0, "nu": 3.0}):
        entropy = kernel_language_entropy(affinity, **options)
        assert 0 <= entropy <= math.log(n)
        assert kernel_language_entropy(shuffled, **options) == pytest.approx(entropy, abs=1e-9)
        if n > 1:
            scaled = kernel_language_entropy(affinity, scaled=True, **options)
            assert scaled == pytest.approx(entropy / math.log(n))
    for measure in (eigenvalue_sum, degree_uncertainty):
        assert measure(shuffled) == pytest.approx(measure(affinity), abs=1e-9)


@repeatable
@given(affinities(), st.floats(0.05, 3), st.floats(0.2, 4), st.floats(0.5, 4))
def test_kernel_language_entropy_equals_a_second_implementation(affinity, t, kappa, nu):
    n = len(affinity)
    assume(n > 1)
    laplacian = np.diag(affinity.sum(axis=1)) - affinity
    matern = np.real(linalg.fractional_matrix_power(2 * nu / kappa**2 * np.eye(n) + laplacian, -nu))
    for found, matrix in (
        (kernel_language_entropy(affinity, t=t), linalg.expm(-t * laplacian)),
        (kernel_language_entropy(affinity, kernel="matern", kappa=kappa, nu=nu), matern),
    ):
        state = matrix / np.sqrt(np.outer(np.diag(matrix), np.diag(matrix))) / n
        eigenvalues = np.linalg.eigvalsh(state).clip(1e-15)
        assert found == pytest.approx(-(eigenvalues * np.log(eigenvalues)).sum(), abs=1e-6)


@repeatable
@given(affinities(), arrays.arrays(float, 6, elements=st.floats(0, 5)))
def test_self_loops_play_no_part_in_the_kernel(affinity, loops):
    changed = affinity + np.diag(loops[: len(affinity)])
    assert kernel_language_entropy(changed) == pytest.approx(kernel_language_entropy(affinity), abs=1e-9)


@each("measure", [eigenvalue_sum, degree_uncertainty, kernel_language_entropy])
@each(
    ("matrix", "message"),
    [
        ([[1.0, 0.5]], r"must be an \(n, n\) matrix; got shape \(1, 2\)"),
        ([1.0], r"got shape \(1,\)"),
        ([], r"got shape \(0,\)"),
        (np.zeros((0, 0)), r"got shape \(0, 0\)"),
        ([["a"]], "must be numbers; got 'a'"),
        ([[1.0, np.nan], [np.nan, 1.0]], "finite; got 2"),
        ([[1.0, 0.2], [0.3, 1.0]], "symmetric; got values that differ by up to 0.0999"),
        ([[1.0, -0.2], [-0.2, 1.0]], "-0.2"),
    ],
)
def test_bad_matrices_are_refused(measure, matrix, message):
    with pytest.raises(ValueError, match=message):
        measure(matrix)


@each("measure", [eigenvalue_sum, degree_uncertainty])
def test_an_affinity_has_ones_on_the_diagonal_and_nothing_above(measure):
    with pytest.raises(ValueError, match=r"ones on the diagonal; got 0\.0"):
        measure([[0.0, 0.5], [0.5, 1.0]])
    with pytest.raises(ValueError, match=r"affinity must be from 0 to 1; got 1\.5"):
        measure([[1.0, 1.5], [1.5, 1.0]])


@each(
    ("options", "message"),
    [
        ({"kernel": "heats"}, "did you mean 'heat'"),
        ({"t": 0}, "t must be above 0; got 0"),
        ({"t": np.nan}, "t must be one finite number; got nan"),
        ({"kappa": -1.0}, "kappa must be"),
        ({"nu": np.inf}, "nu must be"),
        ({"nu": "1"}, "nu must be"),
    ],
)
def test_kernel_parameters_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        kernel_language_entropy(np.ones((2, 2)), **options)


def test_one_sample_has_no_uncertainty_and_no_scale():
    one = [[1.0]]
    assert (eigenvalue_sum(one), degree_uncertainty(one), kernel_language_entropy(one)) == (1.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="at least two samples to be scaled"):
        kernel_language_entropy(one, scaled=True)
