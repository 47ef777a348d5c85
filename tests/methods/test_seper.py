"""SePer: clusters, soft and hard belief, utility; cases by hand, properties, the authors' code, wrong formulas that must fail."""

import conformance
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from looped import each

from rag_utils.seper import cluster, cluster_weights, hard, sample_weights, soft, utility

repeatable = settings(deadline=None, derandomize=True, max_examples=60)
OFFICIAL = conformance.beside("seper")
CLUSTERED = conformance.cases("semantic_entropy", "seper.cluster")
each_official = each(("name", "said"), OFFICIAL.items())
WEIGHTINGS = ["likelihood", "frequency"]


# --- cluster -------------------------------------------------------------------------------------

agreement = st.integers(1, 7).flatmap(lambda n: arrays.arrays(bool, (n, n)))


def same(*pairs, n):
    """Who entails whom: everyone itself, and the pairs in both directions."""
    entails = np.eye(n, dtype=bool)
    for left, right in pairs:
        entails[left, right] = entails[right, left] = True
    return entails


@each(
    ("entails", "expected"),
    [
        (same(n=1), [0]),
        (same(n=3), [0, 1, 2]),
        (same((0, 1), (2, 3), n=4), [0, 0, 1, 1]),
        (same((0, 2), (1, 3), n=4), [0, 1, 0, 1]),
        (same((0, 1), (1, 2), n=4), [0, 0, 1, 2]),  # 2 agrees with a member, not with the first
        (same((0, 3), (1, 3), n=4), [0, 1, 2, 0]),  # 3 agrees with two first members: the earlier one
        (np.array([[True, True], [False, True]]), [0, 1]),  # one way only
        (np.array([[1, 1], [1, 1]]), [0, 0]),
    ],
)
def test_cluster_by_hand(entails, expected):
    found = cluster(entails)
    assert found.tolist() == expected
    assert found.dtype.kind == "i"


def connected(entails):
    """The wrong rule: a sample joins whoever agrees with any member."""
    reach = np.linalg.matrix_power((entails & entails.T) | np.eye(len(entails), dtype=bool), len(entails)).astype(bool)
    return np.unique(np.argmax(reach, axis=1), return_inverse=True)[1]


def moved(entails):
    """The rule of the authors' code: every later first member takes over all that agree with it."""
    both, ids = entails & entails.T, np.full(len(entails), -1)
    for first in range(len(entails)):
        if ids[first] == -1:
            ids[first] = new = ids.max() + 1
            ids[first + 1 :][both[first, first + 1 :]] = new
    return ids


def test_connected_groups_and_moved_samples_are_wrong():
    chain, contested = same((0, 1), (1, 2), n=3), same((0, 2), (1, 2), n=3)
    assert connected(chain).tolist() == [0, 0, 0] != cluster(chain).tolist()
    assert moved(contested).tolist() == [0, 1, 1] != cluster(contested).tolist()
    with pytest.raises(ValueError, match="join"):
        cluster(chain, join="lates")


@each("case", CLUSTERED, ids=lambda case: case["name"])
def test_clusters_are_those_of_the_reference_code_but_for_moved_samples(case):
    entails = np.array(case["inputs"]["entails"])
    assert moved(entails).tolist() == cluster(entails, join="latest").tolist()
    contested = "contested" in case["name"] and not case["options"]
    assert (moved(entails).tolist() == case["expected"]) != contested


@repeatable
@given(agreement)
def test_cluster_follows_its_rule(entails):
    ids, both = cluster(entails), entails & entails.T
    assert np.array_equal(cluster(entails, join="latest"), moved(entails))
    firsts = [int(np.argmax(ids == k)) for k in range(ids.max() + 1)]
    assert firsts == sorted(firsts) and set(ids) == set(range(len(firsts)))
    for sample, own in enumerate(ids):
        agreeing = [k for k, first in enumerate(firsts) if first < sample and both[first, sample]]
        assert own == (agreeing[0] if agreeing else ids[:sample].max(initial=-1) + 1)
    assert np.array_equal(cluster(entails.T), ids)
    assert np.array_equal(cluster(entails ^ np.eye(len(entails), dtype=bool)), ids)  # the diagonal is not looked at


@each(
    ("entails", "message"),
    [
        (np.ones((2, 3), bool), r"entails must be an \(n, n\) matrix; got shape \(2, 3\)"),
        (np.ones(3, bool), r"got shape \(3,\)"),
        (np.zeros((0, 0), bool), r"got shape \(0, 0\)"),
        ([], r"got shape \(0,\)"),
        ([[1.0, 0.9], [0.9, 1.0]], r"entails must be 0 or 1; got 0\.9"),
        ([[1, np.nan], [1, 1]], "s must be 0 or 1; got nan"),
        ([["a", "b"], ["c", "d"]], "must be numbers"),
        ([[True], [True, False]], "ragged"),
    ],
)
def test_cluster_refuses(entails, message):
    with pytest.raises(ValueError, match=message):
        cluster(entails)


# --- weights -------------------------------------------------------------------------------------

log_likelihoods = st.lists(st.floats(-60, 0), min_size=1, max_size=6).map(np.array)


@repeatable
@given(log_likelihoods, st.floats(-1e4, 1e4))
def test_weights_sum_to_one_and_ignore_a_common_factor(log_likelihood, constant):
    weights = sample_weights(log_likelihood)
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all()
    assert np.allclose(weights, np.exp(log_likelihood) / np.exp(log_likelihood).sum())
    assert np.allclose(sample_weights(log_likelihood + constant), weights, atol=1e-9)
    assert sample_weights(log_likelihood, weighting="frequency").tolist() == [1 / len(weights)] * len(weights)


@each(
    ("log_likelihood", "expected"),
    [
        ([-3.0], [1.0]),
        ([-1e300], [1.0]),
        ([-900.0, -900.0 + np.log(3)], [0.25, 0.75]),  # exp(-900) is 0, so weights by exp alone would be 0 / 0
        ([-np.inf, -2.0, -2.0], [0.0, 0.5, 0.5]),
        ([0, -1000], [1.0, 0.0]),
    ],
)
def test_weights_of_extreme_samples(log_likelihood, expected):
    assert sample_weights(log_likelihood).tolist() == pytest.approx(expected)


def test_samples_that_cannot_happen_have_a_frequency_but_no_likelihood():
    assert sample_weights([-np.inf, -np.inf], weighting="frequency").tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="-inf only"):
        sample_weights([-np.inf, -np.inf])


@each(
    ("log_likelihood", "message"),
    [
        ([], r"log_likelihood must hold at least 1 number\(s\); got shape \(0,\)"),
        (-1.0, r"log_likelihood must be a list of numbers; got -1\.0"),
        ([[-1.0, -2.0]], r"log_likelihood must have 1 dimension\(s\); got shape \(1, 2\)"),
        ([-1.0, np.nan], "NaN"),
        ([-1.0, np.inf], r"\+inf"),
        ([-1.0, None], "must be numbers"),
        (["-1"], "must be numbers"),
        ([[-1.0], [-1.0, -2.0]], "ragged"),
    ],
)
@each("weighting", WEIGHTINGS)
def test_every_measure_refuses_bad_log_likelihoods(log_likelihood, message, weighting):
    for call in (
        lambda: sample_weights(log_likelihood, weighting=weighting),
        lambda: soft(log_likelihood, [[0.5], [0.5]], weighting=weighting),
        lambda: hard(log_likelihood, [0, 0], [[True]], weighting=weighting),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_weights_of_clusters_by_hand():
    log_likelihood = np.log([0.4, 0.3, 0.2, 0.1])
    assert cluster_weights(log_likelihood, [0, 1, 1, 0]).tolist() == pytest.approx([0.5, 0.5])
    assert cluster_weights(log_likelihood, [0, 1, 2, 0], weighting="frequency").tolist() == [0.5, 0.25, 0.25]


@each(
    ("clusters", "message"),
    [
        ([0, 1], "lengths must be equal; got 2 clusters, 3 samples"),
        ([0.0, 1.0, 0.0], "clusters must be whole numbers; got float64"),
        ([0, -1, 0], r"clusters must be from 0 to 9007199254740992; got -1\.0"),
        ([True, False, True], "got bool"),
        ([[0, 1, 0]], r"got shape \(1, 3\)"),
        ([], r"clusters must hold at least 1 number\(s\); got shape \(0,\)"),
    ],
)
def test_bad_clusters_are_refused(clusters, message):
    with pytest.raises(ValueError, match=message):
        cluster_weights([-1.0, -2.0, -3.0], clusters)
    with pytest.raises(ValueError, match=message):
        hard([-1.0, -2.0, -3.0], clusters, [[True], [False]])


# --- soft ----------------------------------------------------------------------------------------


@each(
    ("options", "expected"),
    [
        ({}, (0.65 + 0.2) / 2),
        ({"over_answers": "max"}, 0.65),
        ({"weighting": "frequency"}, (1.5 / 3 + 1 / 3) / 2),
        ({"over_answers": "max", "weighting": "frequency"}, 0.5),
    ],
)
def test_soft_by_hand(options, expected):
    log_likelihood = np.log([0.5, 0.3, 0.2]) - 7.0
    kernel = [[1.0, 0.0], [0.5, 0.0], [0.0, 1.0]]  # beliefs 0.65 and 0.2
    assert soft(log_likelihood, kernel, **options) == pytest.approx(expected)


@each_official
def test_soft_equals_the_authors_code_where_that_is_right(name, said):
    log_likelihood, kernel = conformance.given("seper", f"soft: {name}")
    largest = soft(log_likelihood, kernel, over_answers="max")
    scrambled = kernel.T.reshape(kernel.shape)  # answer-major numbers read as response-major
    assert soft(log_likelihood, scrambled, over_answers="max") == pytest.approx(said["official_soft"])
    assert (largest == pytest.approx(said["official_soft"])) == (kernel.shape[1] == 1)


def test_the_best_answer_per_sample_is_wrong():
    weights, kernel = np.array([0.5, 0.3, 0.2]), np.array([[1.0, 0.0], [0.5, 0.0], [0.0, 1.0]])
    wrong = weights @ kernel.max(axis=1)
    assert wrong == pytest.approx(0.85)
    assert soft(np.log(weights), kernel, over_answers="max") == pytest.approx(0.65)


def test_unnormalised_likelihoods_are_wrong():
    """Algorithm 1 adds up likelihoods as they are; with few samples of long texts that sum is nowhere near a belief."""
    likelihoods, kernel = np.exp([-20.0, -21.0]), [[1.0], [1.0]]
    assert float((likelihoods @ kernel)[0]) < 1e-8
    assert soft([-20.0, -21.0], kernel) == 1.0


@st.composite
def sampled(draw):
    """Log-likelihoods, a kernel, clusters and matches of one question."""
    n, answers = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    log_likelihood = draw(arrays.arrays(float, n, elements=st.floats(-800, 0)))
    kernel = draw(arrays.arrays(float, (n, answers), elements=st.floats(0, 1)))
    clusters = cluster(draw(arrays.arrays(bool, (n, n))))
    matches = draw(arrays.arrays(bool, (int(clusters.max()) + 1, answers)))
    return log_likelihood, kernel, clusters, matches


@repeatable
@given(sampled(), st.sampled_from(WEIGHTINGS), st.randoms(use_true_random=False))
def test_bounds_order_and_permutations(drawn, weighting, random):
    log_likelihood, kernel, clusters, matches = drawn
    n, answers = kernel.shape
    samples, columns = random.sample(range(n), n), random.sample(range(answers), answers)
    ids = np.array(random.sample(range(len(matches)), len(matches)))  # old id -> new id
    for over_answers in ("mean", "max"):
        options = {"over_answers": over_answers, "weighting": weighting}
        belief, mass = soft(log_likelihood, kernel, **options), hard(log_likelihood, clusters, matches, **options)
        assert type(belief) is float and type(mass) is float
        assert kernel.min() - 1e-12 <= belief <= kernel.max() + 1e-12 and 0 <= belief <= 1 and 0 <= mass <= 1
        shuffled = kernel[samples][:, columns]
        assert soft(log_likelihood[samples], shuffled, **options) == pytest.approx(belief)
        renamed = matches[np.argsort(ids)][:, columns]
        assert hard(log_likelihood[samples], ids[clusters][samples], renamed, **options) == pytest.approx(mass)
        # an indicator of the cluster as kernel makes soft and hard the same
        assert soft(log_likelihood, matches[clusters], **options) == pytest.approx(mass)
    mean, most, anything = (
        hard(log_likelihood, clusters, matches, over_answers=how, weighting=weighting) for how in ("mean", "max", "any")
    )
    assert mean <= most + 1e-12 and most <= anything + 1e-12
    assert (
        soft(log_likelihood, kernel, weighting=weighting)
        <= soft(log_likelihood, kernel, over_answers="max", weighting=weighting) + 1e-12
    )


@repeatable
@given(sampled())
def test_a_sample_that_cannot_happen_changes_nothing_but_the_frequency(drawn):
    log_likelihood, kernel, clusters, matches = drawn
    longer, rows = np.append(log_likelihood, -np.inf), np.vstack([kernel, 1 - kernel[:1]])
    assert soft(longer, rows) == pytest.approx(soft(log_likelihood, kernel))
    more = np.append(clusters, len(matches)), np.vstack([matches, ~matches[:1]])
    assert hard(longer, *more) == pytest.approx(hard(log_likelihood, clusters, matches))
    n, frequency = len(kernel), {"weighting": "frequency"}
    expected = (n * soft(log_likelihood, kernel, **frequency) + (1 - kernel[0]).mean()) / (n + 1)
    assert soft(longer, rows, **frequency) == pytest.approx(expected)


@each("weighting", WEIGHTINGS)
def test_one_sample_is_believed_entirely(weighting):
    assert soft([-50.0], [[0.3, 0.5]], weighting=weighting) == pytest.approx(0.4)
    assert hard([-50.0], [0], [[True, False]], weighting=weighting) == 0.5
    assert hard([-50.0], [0], [[True, False]], over_answers="any", weighting=weighting) == 1.0


@each(
    ("kernel", "options", "message"),
    [
        ([0.5, 0.5], {}, r"kernel must have 2 dimension\(s\); got shape \(2,\)"),
        ([[0.5]], {}, "lengths must be equal; got 1 kernel, 2 samples"),
        ([[0.5, 0.5]], {}, "lengths must be equal; got 1 kernel, 2 samples"),
        ([[], []], {}, r"got shape \(2, 0\)"),
        ([[0.5], [1.1]], {}, r"kernel must be from 0 to 1; got 1\.1"),
        ([[-0.1], [1.0]], {}, r"kernel must be from 0 to 1; got -0\.1"),
        ([[0.5], [np.nan]], {}, "kernel must be finite; got 1 NaN or infinite of 2"),
        ([["0.5"], ["1"]], {}, "must be numbers"),
        ([[0.5], [0.5, 0.1]], {}, "ragged"),
        ([[0.5], [0.5]], {"over_answers": "any"}, "unknown over_answers 'any'"),
        ([[0.5], [0.5]], {"over_answers": "maximum"}, "unknown over_answers 'maximum'"),
        ([[0.5], [0.5]], {"weighting": "frequencies"}, "did you mean 'frequency'"),
    ],
)
def test_soft_refuses(kernel, options, message):
    with pytest.raises(ValueError, match=message):
        soft([-1.0, -2.0], kernel, **options)


# --- hard ----------------------------------------------------------------------------------------


@each(
    ("options", "expected"),
    [
        ({}, (0.6 + 0.4 + 0.6) / 3),
        ({"over_answers": "max"}, 0.6),
        ({"over_answers": "any"}, 1.0),
        ({"weighting": "frequency"}, (2 / 4 + 2 / 4 + 2 / 4) / 3),
    ],
)
def test_hard_by_hand(options, expected):
    log_likelihood = np.log([0.4, 0.3, 0.2, 0.1])  # clusters weigh 0.6, 0.3 and 0.1
    matches = [[True, False, True], [False, True, False], [False, True, False]]
    assert hard(log_likelihood, [0, 1, 0, 2], matches, **options) == pytest.approx(expected)


@each_official
def test_hard_equals_the_authors_code_where_that_is_right(name, said):
    log_likelihood, clusters, matches = conformance.given("seper", f"hard: {name}")
    ours = hard(log_likelihood, clusters, matches, over_answers="any")
    scrambled = matches.T.reshape(matches.shape)  # answer-major flags read as cluster-major
    assert hard(log_likelihood, clusters, scrambled, over_answers="any") == pytest.approx(said["official_hard"])
    if matches[1].any() or matches.shape[1] == 1:
        assert ours == pytest.approx(said["official_hard"])
    else:  # no answer fits the last response, yet the code counts it
        assert said["official_hard"] == 1.0 and ours == pytest.approx(sum(sample_weights(log_likelihood)[:2]))


@each(
    ("clusters", "matches", "options", "message"),
    [
        ([0, 1], [[True]], {}, r"got shape \(1, 1\) for 2 clusters with ids up to 1"),
        ([0, 0], [[True], [False]], {}, r"got shape \(2, 1\) for 1 clusters"),
        ([0, 2], [[True], [True], [True]], {}, "for 2 clusters with ids up to 2"),
        ([1, 2], [[True], [True]], {}, "for 2 clusters with ids up to 2"),
        ([0, 1], [True, False], {}, r"got shape \(2,\)"),
        ([0, 1], [[], []], {}, r"got shape \(2, 0\)"),
        ([0, 1], [[0.8], [0.1]], {}, r"matches must be 0 or 1; got 0\.8"),
        ([0, 1], [[np.nan], [1.0]], {}, "s must be 0 or 1; got nan"),
        ([0, 1], [[True], [False]], {"over_answers": "all"}, "unknown over_answers 'all'"),
        ([0, 1], [[True], [False]], {"weighting": "uniform"}, "unknown weighting 'uniform'"),
    ],
)
def test_hard_refuses(clusters, matches, options, message):
    with pytest.raises(ValueError, match=message):
        hard([-1.0, -2.0], clusters, matches, **options)


# --- utility -------------------------------------------------------------------------------------


def test_utility_is_after_minus_before():
    assert utility(0.75, 0.5) == 0.25
    assert utility(0.0, 1.0) == -1.0
    assert utility(np.float32(1), 0) == 1.0
    assert utility(0.3, 0.3) == 0.0  # what is known already, or changes nothing, is worth nothing


def test_a_difference_of_logarithms_is_wrong():
    """Perplexity would be compared by its logarithm; that makes 0.02 over 0.01 worth more than 0.9 over 0.5."""
    assert np.log(0.02 / 0.01) > np.log(0.9 / 0.5)
    assert utility(0.02, 0.01) < utility(0.9, 0.5)


def test_the_papers_worked_cases_by_frequency():
    """Table 6: ten of ten right with the document, none without. Table 7: seven of ten right with both."""
    matches, weights = [[True], [False]], {"weighting": "frequency"}

    def belief(right):
        clusters = cluster(np.equal.outer(np.arange(10) < right, np.arange(10) < right))
        found = [[True]] if right == 10 else [[False]] if right == 0 else matches
        return hard(np.zeros(10), clusters, found, **weights)

    assert [utility(belief(right), belief(0)) for right in (10, 7)] == pytest.approx([1.0, 0.7])
    # one document of two: 3 and 2 of 10 are right, which is 0.3 and 0.2; printed are 0.15 and 0.1
    assert [utility(belief(right), belief(0)) for right in (3, 2)] == pytest.approx([0.3, 0.2])


@each("wrong", [np.nan, np.inf, -0.1, 1.1, None, "0.5", [0.5]])
def test_utility_refuses(wrong):
    with pytest.raises(ValueError, match="after must be"):
        utility(wrong, 0.5)
    with pytest.raises(ValueError, match="before must be"):
        utility(0.5, wrong)
