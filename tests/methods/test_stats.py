"""Intervals, tests and rankings: cases by hand, properties, second implementations, wrong formulas that must differ."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from looped import each
from scipy import stats as scipy_stats
from sklearn.metrics import roc_auc_score
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from rag_utils import stats
from rag_utils.stats import (
    Correlation,
    Difference,
    Estimate,
    aurac,
    auroc,
    correlation,
    correlation_difference,
    holm,
    mean_interval,
    paired_difference,
    proportion_interval,
    statistic_interval,
    unpaired_difference,
)

repeatable = settings(deadline=None, derandomize=True, max_examples=40)
METHODS = {"pearson": scipy_stats.pearsonr, "spearman": scipy_stats.spearmanr, "kendall": scipy_stats.kendalltau}
numbers = st.integers(-6, 6).map(lambda i: i / 4)  # coarse, so that ties are common
few = {"resamples": 60}


def clustered(rng, questions=30, rows=8, shared=1.0, own=0.5):
    """Rows that share most of their variation with the other rows of their question."""
    groups = np.repeat(np.arange(questions), rows)
    return shared * rng.normal(size=questions)[groups] + own * rng.normal(size=len(groups)), groups


# --- Estimate ------------------------------------------------------------------------------------


def width(estimate):
    return estimate.high - estimate.low


def test_estimate_prints_short_and_with_chosen_digits():
    estimate = Estimate(0.2712, 0.1949, 0.3551, 80)
    assert str(estimate) == "0.27 [0.19, 0.36]"
    assert f"{estimate:.3f}" == "0.271 [0.195, 0.355]"
    assert f"{estimate:.0%}" == "27% [19%, 36%]"
    assert str(Estimate(-0.001, -0.1, 0.1, 3)) == "0.00 [-0.10, 0.10]"
    assert estimate.undefined == 0
    with pytest.raises(AttributeError):
        estimate.value = 1.0


@each(
    ("fields", "message"),
    [
        ((np.nan, 0, 1, 5), r"must be (one )?finite|correct must be 0 or 1; got (nan|inf)"),
        ((0.5, 0, np.inf, 5), r"must be (one )?finite|correct must be 0 or 1; got (nan|inf)"),
        ((0.5, 0.6, 0.4, 5), "wanted low <= high, got 0.6 and 0.4"),
        ((0.5, 0.4, 0.6, 0), "n must be a whole number"),
    ],
)
def test_estimate_refuses_what_is_no_interval(fields, message):
    with pytest.raises(ValueError, match=message):
        Estimate(*fields)


@each("p_value", [np.nan, -0.1, 1.1])
def test_tested_results_refuse_a_bad_p(p_value):
    for kind in (Difference, Correlation):
        with pytest.raises(ValueError, match="p_value"):
            kind(0.1, 0.0, 0.2, 5, p_value)


# --- means, shares, any statistic ----------------------------------------------------------------


def test_mean_interval_equals_scipy():
    values = np.random.default_rng(5).gamma(2, size=60)
    ours = mean_interval(values, resamples=10_000)
    theirs = scipy_stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=1
    ).confidence_interval
    assert ours.value == pytest.approx(values.mean()) and ours.n == 60
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.03)


def test_mean_interval_of_two_values_by_hand(monkeypatch):
    # resamples of (0, 4): mean 0 with 1/4, 2 with 1/2, 4 with 1/4
    assert mean_interval([0, 4]) == Estimate(2.0, 0.0, 4.0, 2)
    monkeypatch.setattr(stats, "LEVEL", 0.4)
    assert mean_interval([0, 4]) == Estimate(2.0, 2.0, 2.0, 2)


def test_groups_are_drawn_whole(monkeypatch):
    # two questions with sums 3 and 0 over 3 and 1 rows: resamples have mean 1, 3/4 or 0, never 1/4
    result = mean_interval([1, 0, 1, 1], groups=["a", "b", "a", "a"])
    assert result == Estimate(0.75, 0.0, 1.0, 4)
    monkeypatch.setattr(stats, "LEVEL", 0.4)
    assert mean_interval([1, 0, 1, 1], groups=["a", "b", "a", "a"]) == Estimate(0.75, 0.75, 0.75, 4)


def test_groups_of_one_row_change_nothing_and_ids_may_be_anything():
    values = np.random.default_rng(2).normal(size=25)
    plain = mean_interval(values)
    assert mean_interval(values, groups=np.arange(25)) == plain
    assert mean_interval(pd.Series(values), groups=[f"q{i}" for i in range(25)]) == plain
    assert mean_interval(list(values), groups=[(i, "x") for i in range(25)]) == plain


@repeatable
@given(st.lists(numbers, min_size=2, max_size=20), st.data())
def test_statistic_interval_of_the_mean_is_mean_interval(values, data):
    groups = data.draw(st.none() | st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values)))
    assume(groups is None or len(set(groups)) > 1)
    assume(len(set(values)) > 1)
    fast = mean_interval(values, groups=groups, resamples=60, rng=3)
    slow = statistic_interval(np.mean, values, groups=groups, resamples=60, rng=3)
    assert (fast.value, fast.low, fast.high) == pytest.approx((slow.value, slow.low, slow.high), abs=1e-12)
    assert min(values) <= fast.low <= fast.high <= max(values)


@repeatable
@given(st.lists(numbers, min_size=2, max_size=20), st.floats(-3, 3), st.floats(0.1, 5))
def test_mean_interval_moves_with_shift_and_scale(values, shift, scale):
    assume(len(set(values)) > 1)
    plain = mean_interval(values, resamples=60)
    moved = mean_interval(np.array(values) * scale + shift, resamples=60)
    expected = np.array([plain.value, plain.low, plain.high]) * scale + shift
    assert (moved.value, moved.low, moved.high) == pytest.approx(tuple(expected), abs=1e-9)


def test_all_wrong_or_all_right_is_not_certain():
    assert mean_interval([0.0] * 40) == Estimate(0.0, 0.0, proportion_interval(0, 40).high, 40)
    right = mean_interval([True] * 40)
    assert right.high == 1.0 and right.low == pytest.approx(0.025 ** (1 / 40))
    by_question = mean_interval([0] * 40, groups=np.arange(40) // 4)
    assert by_question.high == proportion_interval(0, 10).high and by_question.n == 40
    assert width(mean_interval([0.3, 0.3, 0.3])) == pytest.approx(0)


def test_row_bootstrap_is_too_narrow_on_clustered_rows():
    rng = np.random.default_rng(0)
    held = {"questions": 0, "rows": 0}
    for _ in range(200):
        values, groups = clustered(rng)
        whole = mean_interval(values, groups=groups, resamples=200, rng=rng)
        rows = mean_interval(values, resamples=200, rng=rng)
        held["questions"] += whole.low <= 0 <= whole.high
        held["rows"] += rows.low <= 0 <= rows.high
    assert 0.88 <= held["questions"] / 200 <= 0.99
    assert held["rows"] / 200 < 0.7


def test_mean_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        result = mean_interval(rng.normal(size=40), resamples=300, rng=rng)
        held += result.low <= 0 <= result.high
    assert 0.91 <= held / 400 <= 0.98


def test_seed_or_generator():
    values = np.random.default_rng(2).normal(size=30)
    assert mean_interval(values) == mean_interval(values, rng=0) == mean_interval(values, rng=np.random.default_rng(0))
    assert mean_interval(values) != mean_interval(values, rng=1)


def test_results_do_not_depend_on_the_block_size(monkeypatch):
    rng = np.random.default_rng(8)
    x, y, groups = rng.normal(size=40), rng.integers(0, 3, 40), np.arange(40) // 2

    def everything():
        return (
            mean_interval(x, groups=groups, resamples=90),
            correlation(x, y, method="spearman", groups=groups, resamples=90),
        )

    before = everything()
    monkeypatch.setattr(stats, "BLOCK", 333)
    for one, other in zip(before, everything(), strict=True):
        assert (one.low, one.high, one.p_value if hasattr(one, "p_value") else 0) == pytest.approx(
            (other.low, other.high, other.p_value if hasattr(other, "p_value") else 0)
        )


@repeatable
@given(st.integers(1, 200), st.data())
def test_proportion_interval_equals_statsmodels_and_is_symmetric(n, data):
    successes = data.draw(st.integers(0, n))
    result = proportion_interval(successes, n)
    low, high = proportion_confint(successes, n, method="beta")
    assert (result.low, result.high) == pytest.approx((low, high), abs=1e-9)
    assert 0 <= result.low <= result.value <= result.high <= 1
    other = proportion_interval(n - successes, n)
    assert (other.low, other.high) == pytest.approx((1 - result.high, 1 - result.low), abs=1e-9)


def test_proportion_interval_at_the_ends_by_hand():
    assert proportion_interval(0, 40).high == pytest.approx(1 - 0.025 ** (1 / 40))
    assert proportion_interval(3, 3).low == pytest.approx(0.025 ** (1 / 3))
    assert proportion_interval(np.int64(3), np.int64(3)).high == 1.0


def f1_score(human, judge):
    return 2 * np.sum(human & judge) / (np.sum(human) + np.sum(judge))


# counts of lexical match against the human verdict on EVOUNA's NQ part, F1 and accuracy as SePer Table 1 prints them
@each(
    ("counts", "f1", "accuracy", "printed"),
    [
        ((1779, 7, 303, 931), 91.99, 89.74, (92.0, 89.7)),
        ((1924, 48, 489, 558), 87.75, 82.21, (87.8, 82.2)),
    ],
)
def test_judge_scores_of_published_counts(counts, f1, accuracy, printed):
    judge = np.repeat([True, True, False, False], counts)
    human = np.repeat([True, False, True, False], counts)
    result = statistic_interval(f1_score, human, judge, resamples=400)
    assert 100 * result.value == pytest.approx(f1, abs=0.005)
    assert 100 * result.low < printed[0] < 100 * result.high and width(result) < 0.03
    agree = mean_interval(human == judge, resamples=400)
    assert 100 * agree.value == pytest.approx(accuracy, abs=0.005)
    assert 100 * agree.low < printed[1] < 100 * agree.high


def test_columns_stay_row_by_row():
    x = np.arange(20.0)
    assert statistic_interval(lambda a, b: np.max(np.abs(a - b)), x, x, resamples=60) == Estimate(0.0, 0.0, 0.0, 20)
    names = np.array([f"q{i}" for i in range(20)])
    assert statistic_interval(lambda a, b: float((b == [f"q{i:.0f}" for i in a]).all()), x, names).low == 1.0


def test_resamples_without_a_value_are_counted():
    uncertainty, correct = [0.1, 0.2, 0.3, 0.4, 0.9], [1, 1, 1, 1, 0]
    result = statistic_interval(auroc, uncertainty, correct, rng=4)
    assert result.value == 1.0
    assert result.undefined / 2000 == pytest.approx(0.8**5 + 0.2**5, abs=0.03)


def test_more_than_half_without_a_value_raises():
    def defined_on_all_rows_only(values):
        return 1.0 if len(set(values)) == len(values) else np.nan

    with pytest.raises(ValueError, match=r"does not exist on \d+ of 2000 resamples"):
        statistic_interval(defined_on_all_rows_only, np.arange(20))


@each(
    "statistic",
    [
        lambda x: np.nan,
        lambda x: np.inf,
        lambda x: 1 / 0,
        lambda x: x,
        lambda x: None,
        lambda x: "0.5",
    ],
)
def test_a_statistic_that_gives_no_number_raises(statistic):
    with pytest.raises(ValueError, match="one finite number"):
        statistic_interval(statistic, [1.0, 2.0, 3.0])


# --- paired differences --------------------------------------------------------------------------


def test_paired_difference_by_hand():
    # seven differences of 1 and one of 0: mean 7/8, standard error sqrt(1/8 / 8) = 1/8, so t = 7 with 7 degrees of freedom; of the 2^7
    # ways to give signs to those that differ two are as extreme
    result = paired_difference([1] * 8, [0] * 7 + [1])
    assert (result.value, result.n, result.p_value) == (0.875, 8, 2 / 2**7) and isinstance(result, Difference)
    assert (result.low, result.high) == pytest.approx((0.875 - 2.36462 / 8, 0.875 + 2.36462 / 8), abs=1e-5)
    less = paired_difference([1, 1, 0, 1, 1, 1, 0, 0], [0] * 8)  # t = 0.625 / 0.183 = 3.416, p = 0.011, but five signs may agree by chance
    assert less.p_value == 2 / 2**5 and less.low == 0 < less.value


def test_paired_difference_equals_scipy():
    a, b = np.random.default_rng(3).normal([[0.5], [0]], size=(2, 10))
    theirs, ours = scipy_stats.ttest_rel(a, b), paired_difference(a, b)
    assert ours.p_value == pytest.approx(theirs.pvalue)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval()))


def test_rows_of_a_question_count_together():
    a, b = np.random.default_rng(5).normal(size=(2, 24))
    groups = np.repeat(list("stuvwxyz"), 3)
    theirs, ours = scipy_stats.ttest_rel(*(side.reshape(8, 3).mean(axis=1) for side in (a, b))), paired_difference(a, b, groups=groups)
    assert (ours.p_value, ours.n) == (pytest.approx(theirs.pvalue), 24)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval()))
    twice, alike = paired_difference(np.tile(a, 2), np.tile(b, 2), groups=[*range(24)] * 2), paired_difference(a, b)
    assert (twice.low, twice.high) == pytest.approx((alike.low, alike.high))  # a row said twice is no more evidence


@each(("questions", "p_value"), [(2, 0.5), (6, 1 / 32), (40, 2.0**-39)])
def test_differences_that_are_all_the_same_have_the_p_of_their_signs(questions, p_value):
    result = paired_difference(np.ones(questions), np.zeros(questions))
    assert (result.low, result.high, result.p_value) == (0.0 if questions < 6 else 1.0, 1.0, p_value)
    rows = paired_difference(np.full(4 * questions, 0.3), np.zeros(4 * questions), groups=np.arange(questions).repeat(4))
    assert rows.p_value == p_value  # not of the rows


def test_no_difference_at_all():
    result = paired_difference([1, 0, 1], [1, 0, 1])
    assert (result.value, result.low, result.high, result.p_value) == (0.0, 0.0, 0.0, 1.0)
    cancels = paired_difference([1, 0, 0, 1], [0, 1, 1, 0], groups=["q1", "q1", "q2", "q2"])
    assert (cancels.value, cancels.p_value) == (0.0, 1.0)


def test_pairing_gives_a_shorter_interval_than_two_means():
    rng = np.random.default_rng(6)
    question = rng.normal(size=80)
    a, b = question + rng.normal(0.2, 0.1, 80), question + rng.normal(0, 0.1, 80)
    paired = paired_difference(a, b)
    assert paired.low > 0 and paired.p_value < 0.01
    assert width(paired) < width(mean_interval(a)) / 3


@repeatable
@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=16), st.data())
def test_paired_difference_is_antisymmetric_and_its_interval_and_p_agree(rows, data):
    a, b = np.array(rows).T
    groups = data.draw(st.none() | st.lists(st.integers(0, 3), min_size=len(a), max_size=len(a)))
    assume(groups is None or len(set(groups)) > 1)
    one, other = paired_difference(a, b, groups=groups), paired_difference(b, a, groups=groups)
    assert (other.value, other.low, other.high) == pytest.approx((-one.value, -one.high, -one.low), abs=1e-12)
    assert one.p_value == other.p_value and 0 < one.p_value <= 1
    if abs(one.p_value - 0.05) > 1e-9:
        assert (one.low > 0 or one.high < 0) == (one.p_value < 0.05)


@each("share", [0, 0.7])  # of the questions that do not differ at all, as where a reply is right or wrong
def test_paired_difference_rejects_as_often_as_it_says(share):
    rng = np.random.default_rng(7)
    apart = rng.choice([-1, 1], size=(600, 40)) * (rng.random((600, 40)) >= share)
    rejected = sum(paired_difference(each, 0 * each).p_value <= 0.05 for each in apart)
    assert 0.02 <= rejected / 600 <= 0.08


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])


def test_equal_tests_count_once_in_holm():
    gaps = [Difference(0.2, 0.1, 0.3, 40, 0.01), Difference(0.2, 0.1, 0.3, 40, 0.01), Difference(0.3, 0.0, 0.6, 40, 0.04)]
    assert holm([gap.p_value for gap in gaps], of=gaps) == pytest.approx([0.02, 0.02, 0.04])
    table = pd.DataFrame(map(vars, gaps))
    assert holm(table["p_value"], of=table[["value", "low"]]).tolist() == holm(table["p_value"], of=gaps).tolist()
    assert holm([0.01, 0.01], of=["a", "b"]) == pytest.approx([0.02, 0.02])  # as likely, but two tests
    with pytest.raises(ValueError, match="lengths must be equal"):
        holm([0.01, 0.02], of=["a"])


@each("seed", [0, 1])
def test_holm_lies_between_the_p_values_and_bonferroni(seed):
    p_values = np.random.default_rng(seed).random(9) ** 3
    adjusted = holm(p_values)
    assert (adjusted >= p_values).all() and (adjusted <= np.minimum(1, 9 * p_values)).all()
    assert adjusted.min() == pytest.approx(9 * p_values.min())
    assert (np.diff(adjusted[np.argsort(p_values)]) >= 0).all()
    assert holm(p_values[::-1])[::-1] == pytest.approx(adjusted)
    assert adjusted.tolist() == multipletests(p_values, method="holm")[1].tolist()


# --- correlations --------------------------------------------------------------------------------


def test_kendall_by_hand():
    # 10 pairs: 8 concordant, 2 discordant
    assert correlation([1, 2, 3, 4, 5], [1, 3, 2, 5, 4], method="kendall").value == pytest.approx(0.6)
    # ties: pairs (1, 2), (1, 3) and (2, 3); one tied in x: 2 concordant / sqrt(2 * 3)
    assert correlation([1, 1, 2], [1, 2, 3], method="kendall").value == pytest.approx(2 / np.sqrt(6))


@each("method", METHODS)
def test_no_p_of_a_correlation_is_below_what_so_few_questions_allow(method):
    three, turned = (correlation([1, 2, 3], y, method=method) for y in ([1, 2, 3], [3, 2, 1]))
    assert three.p_value == turned.p_value == 2 / 2**2  # two rows without the commonest value
    assert (three.low, three.high) == pytest.approx((0, 1)) and (turned.low, turned.high) == pytest.approx((-1, 0))
    for n in (8, 40, 200):  # one odd row of so many, in x or in y, with rows that are questions or stand in one
        odd, other = np.arange(n) == n - 1, np.arange(n)
        for x, y in ((odd, other), (other, odd)):
            for groups in (None, np.arange(n)):
                result = correlation(x, y, method=method, groups=groups)
                assert result.p_value == 1 and result.low == 0 and result.undefined > 0
        again = correlation(np.repeat(odd, 3), np.repeat(other, 3), method=method, groups=np.repeat(other, 3))
        assert again.p_value == 1 and again.low == 0
    six = correlation(np.r_[np.ones(6), np.zeros(54)], np.r_[np.full(6, 100.0), np.arange(54)], method=method)
    assert six.p_value == 2 / 2**6 and six.low > 0
    seven = correlation(np.arange(7), np.arange(7), method=method)
    assert seven.p_value == 2 / 2**6 and seven.low == pytest.approx(1)


def test_a_question_whose_rows_differ_counts_as_one():
    x = np.r_[np.zeros(40), 0, 1.0]
    assert stats._differing(x, np.repeat(np.arange(21), 2)) == 1 == stats._differing(x, np.arange(42))
    assert stats._differing([1, 2, 1, 2, 1, 2], np.repeat(np.arange(3), 2)) == 2


@each("method", METHODS)
def test_correlation_equals_scipy(method):
    rng = np.random.default_rng(9)
    x = rng.normal(size=80)
    y = np.round(x + 6 * rng.normal(size=80))
    ours, theirs = correlation(x, y, method=method), METHODS[method](x, y)
    assert ours.value == pytest.approx(theirs.statistic)
    assert ours.p_value == pytest.approx(theirs.pvalue, abs=0.06) and 0.05 < theirs.pvalue < 0.9
    assert ours.n == 80 and ours.undefined == 0


@each("method", METHODS)
@each("questions", [None, 8])
def test_correlation_difference_is_the_bootstrap_of_the_difference(method, questions):
    rng = np.random.default_rng(20)
    target = rng.normal(size=24)
    a, b = target + rng.normal(size=24), target + 3 * rng.normal(size=24)
    groups = None if questions is None else rng.integers(0, questions, 24)
    ours = correlation_difference(a, b, target, method=method, groups=groups, resamples=200)

    def gap(a, b, target):
        return METHODS[method](a, target).statistic - METHODS[method](b, target).statistic

    theirs = statistic_interval(gap, a, b, target, groups=groups, resamples=200)
    assert (ours.value, ours.low, ours.high) == pytest.approx((theirs.value, theirs.low, theirs.high), abs=1e-6)
    other = correlation_difference(b, a, target, method=method, groups=groups, resamples=200)
    assert (other.value, other.low, other.high) == pytest.approx((-ours.value, -ours.high, -ours.low))
    assert other.p_value == ours.p_value and (ours.p_value < 0.05) == (ours.low > 0 or ours.high < 0)


def test_unpaired_difference_is_the_bootstrap_of_the_two_means():
    rng = np.random.default_rng(3)
    values, second = rng.normal(size=40), np.arange(40) % 3 == 0
    ours = unpaired_difference(values, second, resamples=200)
    theirs = statistic_interval(lambda of, x: x[~of].mean() - x[of].mean(), second, values, resamples=200)
    assert [ours.value, ours.low, ours.high] == pytest.approx([theirs.value, theirs.low, theirs.high])
    assert (ours.p_value < 0.05 + 2 / 201) >= (ours.low > 0 or ours.high < 0) >= (ours.p_value < 0.05) and ours.n == 40
    apart = unpaired_difference(values + 3 * ~second, second, resamples=200)
    turned = unpaired_difference(values + 3 * ~second, ~second, resamples=200)
    assert apart.p_value == turned.p_value == pytest.approx(2 / 201)
    assert (turned.value, turned.low, turned.high) == pytest.approx((-apart.value, -apart.high, -apart.low))


def test_unpaired_difference_of_a_side_without_spread_keeps_a_width():
    values, second = np.r_[[1.0] * 6 + [0.0] * 4, [0.0] * 8], np.r_[[False] * 10, [True] * 8]
    gap, none = unpaired_difference(values, second), proportion_interval(0, 8)
    assert gap.value == 0.6 and gap.low < 0.6 - none.high + 1e-12 and gap.p_value < 0.05 < gap.low + 0.05
    turned = unpaired_difference(values, ~second)
    assert (turned.value, turned.low, turned.high) == pytest.approx((-gap.value, -gap.high, -gap.low)) and turned.p_value == gap.p_value
    few = unpaired_difference(np.r_[1.0, 0, 0, 0, 0], [0, 0, 1, 1, 1])
    assert few.low < 0 and few.p_value >= 2 / 2**2
    level = unpaired_difference([2.0, 2, 2, 2], [0, 0, 1, 1])
    assert (level.value, level.low, level.high, level.p_value) == (0, 0, 0, 1)
    apart = unpaired_difference([2.0, 2, 3, 3], [0, 0, 1, 1])
    assert (apart.value, apart.low, apart.high, apart.p_value) == (-1, -1, 0, 2 / 2**2)
    two = unpaired_difference(np.r_[[0.9, 1.0], np.arange(18) / 100], np.arange(20) > 1)
    assert two.undefined > 0 and two.low == 0 and two.p_value == 2 / 2**2


def test_correlation_difference_claims_nothing_from_few_right_answers():
    rng = np.random.default_rng(22)
    noise, better, few = rng.normal(size=40), np.arange(40.0), (np.arange(40) > 37).astype(float)
    by_two = correlation_difference(better, noise, few, method="kendall", resamples=200)
    assert by_two.p_value == 2 / 2**2 and by_two.low == 0
    many = correlation_difference(better, few, np.arange(40) > 19, method="kendall", resamples=200)
    assert many.p_value < 0.05 < many.low, "a measure of few values may be beaten by one of many"


def test_correlation_difference_of_a_measure_with_itself_is_nothing():
    rng = np.random.default_rng(21)
    x, target = rng.normal(size=(2, 30))
    same = correlation_difference(x, 2 * x + 1, target, method="pearson", resamples=100)
    assert same.value == pytest.approx(0) and same.p_value > 0.9
    with pytest.raises(ValueError, match="resamples must be a whole number from 40"):
        correlation_difference(x, target, x, method="pearson", resamples=20)


@each("method", METHODS)
@each("questions", [None, 6])
def test_fast_bootstrap_is_the_slow_one(method, questions):
    rng = np.random.default_rng(10)
    x, y = rng.integers(0, 4, size=(2, 20)).astype(float)
    groups = None if questions is None else rng.integers(0, questions, 20)
    ours = correlation(x, y, method=method, groups=groups, resamples=300)

    def slow(x, y):
        return METHODS[method](x, y).statistic if min(np.ptp(x), np.ptp(y)) > 0 else np.nan

    theirs = statistic_interval(slow, x, y, groups=groups, resamples=300)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert ours.undefined == theirs.undefined


def test_kendall_beyond_the_pair_matrix_is_the_same(monkeypatch):
    rng = np.random.default_rng(11)
    x, y = rng.integers(0, 5, size=(2, 24))
    groups = np.arange(24) // 4
    before = correlation(x, y, method="kendall", groups=groups, **few)
    monkeypatch.setattr(stats, "PAIR_ROWS", 3)
    after = correlation(x, y, method="kendall", groups=groups, **few)
    assert (after.low, after.high, after.p_value) == pytest.approx((before.low, before.high, before.p_value))


@each("method", METHODS)
def test_rows_of_one_question_are_not_independent(method):
    rng = np.random.default_rng(13)
    groups = np.tile(np.arange(25), 4)
    level = 3 * rng.normal(size=25)[groups]
    x, y = level + rng.normal(size=100), rng.normal(size=25)[groups] + 0.1 * rng.normal(size=100)
    by_rows, by_questions = (correlation(x, y, method=method, groups=g) for g in (None, groups))
    assert by_questions.value == by_rows.value
    assert width(by_questions) > 1.5 * width(by_rows)
    assert by_questions.p_value > by_rows.p_value


@each("method", METHODS)
@each("questions", [None, 12])
def test_p_and_interval_of_a_correlation_say_the_same(method, questions):
    rng = np.random.default_rng(14)
    for strength in np.linspace(0, 1, 12):
        x = rng.normal(size=48)
        y = strength * x + rng.normal(size=48)
        result = correlation(x, y, method=method, groups=None if questions is None else np.arange(48) % questions, resamples=399)
        assert (result.p_value < 0.05 + 2 / 400) >= (result.low > 0 or result.high < 0) >= (result.p_value < 0.05)


@each("method", METHODS)
@each(("n", "drawn"), [(30, "normal"), (30, "skewed"), (30, "two-valued"), (60, "two odd"), (200, "three odd")])
def test_chance_is_taken_for_a_relation_as_often_as_p_says(method, n, drawn):
    rng = np.random.default_rng(15)
    draw = {
        "normal": lambda: rng.normal(size=n),
        "skewed": lambda: rng.exponential(size=n) ** 2,
        "two-valued": lambda: 1.0 * (rng.random(n) < 0.3),
        "two odd": lambda: 1.0 * (np.arange(n) < 2),
        "three odd": lambda: 1.0 * (np.arange(n) < 3),
    }[drawn]
    told = [correlation(rng.normal(size=n), draw(), method=method, resamples=200, rng=rng).p_value <= 0.05 for _ in range(200)]
    assert (0 if "odd" in drawn else 0.01) <= np.mean(told) <= 0.1


@each("sizes", [(4, 4), (2, 58), (20, 30)])
def test_chance_is_taken_for_a_difference_as_often_as_p_says(sizes):
    rng, second = np.random.default_rng(16), np.repeat([False, True], sizes)
    told = [unpaired_difference(rng.normal(size=sum(sizes)), second, resamples=200, rng=rng).p_value <= 0.05 for _ in range(300)]
    assert np.mean(told) <= 0.1


@each(("method", "true"), [("pearson", 0.6), ("kendall", 2 / np.pi * np.arcsin(0.6))])
def test_correlation_interval_covers_the_truth(method, true):
    rng = np.random.default_rng(16)
    held = 0
    for _ in range(120):
        x = rng.normal(size=50)
        y = 0.6 * x + 0.8 * rng.normal(size=50)
        result = correlation(x, y, method=method, resamples=300, rng=rng)
        held += result.low <= true <= result.high
    assert 0.89 <= held / 120 <= 0.99


def test_constant_resamples_are_left_out_and_counted():
    x, y = [0.1] * 7 + [0.7], [0.3, 0.1, 0.2, 0.2, 0.1, 0.3, 0.1, 0.9]  # the mean of 0.1, 0.1, ... is not always 0.1
    for method in METHODS:
        result = correlation(x, y, method=method)
        assert result.undefined / 2000 == pytest.approx((7 / 8) ** 8, abs=0.04)
        assert 0 == result.low <= result.high <= 1 and result.p_value == 1


def test_too_many_constant_resamples_raise():
    x = np.repeat([1.0, 0.0, 0.0, 0.0], 3)  # x differs in one question of four: nearly a third of resamples lack it
    y = np.arange(12.0)
    groups = np.arange(12) // 3
    assert correlation(x, y, method="spearman", groups=groups, **few).undefined > 0
    x, y = np.eye(12)[:2]  # one row tells x apart and another y: 0.4 of the resamples hold both
    for method in METHODS:
        with pytest.raises(ValueError, match="does not exist on"):
            correlation(x, y, method=method)


@repeatable
@given(st.lists(st.tuples(numbers, numbers), min_size=6, max_size=16), st.sampled_from(sorted(METHODS)))
def test_correlation_bounds_and_symmetry(rows, method):
    x, y = np.array(rows).T
    assume(min(len(set(x)), len(set(y))) > 2)
    result = correlation(x, y, method=method, **few)
    assert -1 <= result.low <= result.high <= 1 and 0 < result.p_value <= 1
    assert -1 - 1e-12 <= result.value <= 1 + 1e-12
    swapped = correlation(y, x, method=method, **few)
    assert (swapped.value, swapped.low, swapped.high) == pytest.approx(
        (result.value, result.low, result.high), abs=1e-9
    )
    turned = correlation(-x, y, method=method, **few)
    expected = (-result.value, -result.high, -result.low, result.p_value)
    assert (turned.value, turned.low, turned.high, turned.p_value) == pytest.approx(expected, abs=1e-9)
    if method != "pearson":
        bent = correlation(np.exp(x), y, method=method, **few)
        assert (bent.value, bent.low, bent.high) == pytest.approx((result.value, result.low, result.high), abs=1e-9)
    order = np.random.default_rng(0).permutation(len(x))
    assert correlation(x[order], y[order], method=method, **few).value == pytest.approx(result.value)


# --- uncertainty against correctness -------------------------------------------------------------

replies = st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=25)


def test_auroc_by_hand():
    assert auroc([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0]) == 1.0
    assert auroc([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]) == 0.0
    assert auroc([0.5, 0.5, 0.5], [1, 0, 1]) == 0.5
    assert auroc([1, 2, 2, 3], [1, 1, 0, 0]) == 3.5 / 4


@repeatable
@given(replies)
def test_auroc_equals_scikit_learn(rows):
    uncertainty, correct = (np.array(column) for column in zip(*rows, strict=True))
    assume(0 < correct.sum() < len(correct))
    assert auroc(uncertainty, correct) == pytest.approx(roc_auc_score(~correct, uncertainty))
    assert auroc(-uncertainty, correct) == pytest.approx(1 - auroc(uncertainty, correct))
    assert auroc(np.exp(uncertainty), correct) == pytest.approx(auroc(uncertainty, correct))
    assert auroc(uncertainty[::-1], correct[::-1]) == pytest.approx(auroc(uncertainty, correct))


def test_uncertainty_taken_for_confidence_is_wrong():
    uncertainty, correct = np.array([0.1, 0.2, 0.7, 0.9, 0.3]), np.array([1, 1, 0, 0, 1])
    assert auroc(uncertainty, correct) == 1.0 != roc_auc_score(correct, uncertainty)


def test_aurac_by_hand():
    assert aurac([0.1, 0.2, 0.3], [1, 0, 1]) == pytest.approx((1 + 1 / 2 + 2 / 3) / 3)
    assert aurac([0.3, 0.2, 0.1], [0, 0, 1]) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert aurac([5, 5], [1, 0]) == pytest.approx(0.5)  # orders give (1 + 1/2) / 2 and (0 + 1/2) / 2
    assert aurac([0.7], [True]) == 1.0


@repeatable
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=5))
def test_aurac_of_ties_is_the_mean_over_all_orders(rows):
    areas = []
    for order in permutations(rows):
        correct = [right for _, right in sorted(order, key=lambda row: row[0])]
        areas.append(np.mean([np.mean(correct[: j + 1]) for j in range(len(correct))]))
    uncertainty, correct = zip(*rows, strict=True)
    assert aurac(uncertainty, correct) == pytest.approx(np.mean(areas))


def test_aurac_in_file_order_depends_on_the_order_of_ties():
    uncertainty, correct = np.array([1, 1, 1, 2]), np.array([1, 0, 0, 1])

    def in_file_order(uncertainty, correct):
        correct = correct[np.argsort(uncertainty, kind="stable")]
        return np.mean(np.cumsum(correct) / np.arange(1, len(correct) + 1))

    assert in_file_order(uncertainty, correct) != in_file_order(uncertainty[::-1], correct[::-1])
    assert aurac(uncertainty, correct) == pytest.approx(aurac(uncertainty[::-1], correct[::-1]))


def test_aurac_is_not_the_sum_over_twenty_thresholds():
    thresholds = np.linspace(0.1, 1, 20)
    assert len(thresholds) * (thresholds[1] - thresholds[0]) == pytest.approx(0.947, abs=0.001)
    assert aurac(np.arange(50), np.ones(50)) == 1.0


@repeatable
@given(replies)
def test_aurac_bounds_and_limits(rows):
    uncertainty, correct = (np.array(column) for column in zip(*rows, strict=True))
    area, accuracy = aurac(uncertainty, correct), correct.mean()
    assert 0 <= area <= 1 + 1e-12
    assert aurac(np.zeros(len(rows)), correct) == pytest.approx(accuracy)
    assert aurac(~correct, correct) >= area - 1e-12
    assert aurac(correct, correct) <= area + 1e-12
    assert aurac(np.exp(uncertainty), correct) == pytest.approx(area)


# --- bad input -----------------------------------------------------------------------------------

GOOD = [0.0, 1.0, 0.5, 0.25]
BAD_NUMBERS = [
    ([], "at least"),
    (1.0, r"list of numbers; got 1\.0|1 dimension\(s\); got shape \(2, 2\)"),
    ([[0.0, 1.0], [1.0, 0.0]], r"list of numbers; got 1\.0|1 dimension\(s\); got shape \(2, 2\)"),
    ([[0.0, 1.0], [1.0]], "ragged"),
    ([0.0, np.nan, 1.0, 2.0], r"must be (one )?finite|correct must be 0 or 1; got (nan|inf)"),
    ([0.0, np.inf, 1.0, 2.0], r"must be (one )?finite|correct must be 0 or 1; got (nan|inf)"),
    (["0", "1", "2", "3"], "must be numbers"),
    ([0.0, None, 1.0, 2.0], "must be numbers"),
]
CALLS = {
    "mean_interval": lambda x: mean_interval(x),
    "paired_difference, a": lambda x: paired_difference(x, GOOD),
    "paired_difference, b": lambda x: paired_difference(GOOD, x),
    "holm": lambda x: holm(x),
    "correlation, x": lambda x: correlation(x, GOOD, method="pearson"),
    "correlation, y": lambda x: correlation(GOOD, x, method="kendall"),
    "correlation_difference, a": lambda x: correlation_difference(x, GOOD, [1, 2, 3, 5], method="pearson"),
    "correlation_difference, b": lambda x: correlation_difference(GOOD, x, [1, 2, 3, 5], method="pearson"),
    "auroc, uncertainty": lambda x: auroc(x, [1, 0, 1, 0]),
    "auroc, correct": lambda x: auroc(GOOD, x),
    "aurac, uncertainty": lambda x: aurac(x, [1, 0, 1, 0]),
    "aurac, correct": lambda x: aurac(GOOD, x),
}


@each("call", CALLS.values(), ids=CALLS)
@each(("values", "message"), BAD_NUMBERS)
def test_bad_numbers_raise(call, values, message):
    with pytest.raises(ValueError, match=message):
        call(values)


WITH_INTERVAL = {
    "mean_interval": lambda **options: mean_interval(GOOD, **options),
    "statistic_interval": lambda **options: statistic_interval(np.mean, GOOD, **options),
    "correlation": lambda **options: correlation(GOOD, [1, 2, 3, 5], method="spearman", **options),
}


@each("call", WITH_INTERVAL.values(), ids=WITH_INTERVAL)
@each(
    ("options", "message"),
    [
        ({"resamples": 0}, "resamples must be a whole number from 40 to 10000000; got 0"),
        ({"resamples": 10.5}, r"resamples must be a whole number; got 10\.5"),
        ({"resamples": 39}, "from 40"),
        ({"rng": None}, "rng"),
        ({"rng": "zero"}, "rng"),
        ({"rng": -1}, "rng"),
        ({"groups": [1, 2]}, "one id per row; got 2 for 4"),
        ({"groups": [1, 1, 1, 1]}, "at least 2 different ids; got 1"),
        ({"groups": [1, 2, None, 2]}, "missing"),
        ({"groups": [1.0, 2.0, np.nan, 2.0]}, "missing"),
        ({"groups": [[1], [2], [3], [4]]}, "groups must be ids"),
    ],
)
def test_bad_options_raise(call, options, message):
    with pytest.raises(ValueError, match=message):
        call(**options)


@each(
    ("call", "message"),
    [
        (lambda: mean_interval([1.0]), "at least 2"),
        (lambda: paired_difference([1.0, 2.0], [1.0, 2.0, 3.0]), "lengths must be equal"),
        (lambda: paired_difference(GOOD, GOOD, groups=[1, 1, 1, 1]), "at least 2 different ids"),
        (lambda: correlation([1, 2], [1, 2], method="pearson"), "at least 3"),
        (lambda: correlation([1, 2, 3], [1, 2, 3, 4], method="pearson"), "lengths must be equal"),
        (lambda: correlation([1, 2, 3], [1, 2, 3], method="kendal"), "did you mean 'kendall'"),
        (lambda: correlation([1, 2, 3], [1, 2, 3], method=None), "unknown correlation method"),
        (lambda: correlation([2, 2, 2, 2], GOOD, method="pearson"), "x must not be constant"),
        (lambda: correlation(GOOD, [0, 0, 0, 0], method="kendall"), "y must not be constant"),
        (lambda: correlation([0.3, 0.1 + 0.2, 0.3, 0.3], GOOD, method="spearman"), "x must not be constant"),
        (lambda: unpaired_difference([1, 2, 3, 4], [0, 0, 0, 1]), "2 rows on either side; got 3 and 1"),
        (lambda: unpaired_difference([1, 2, 3, 4], [0, 0, 1]), "lengths must be equal"),
        (lambda: unpaired_difference([1, 2, 3, 4], [0, 0, 1, 2]), "second must be 0 or 1; got 2"),
        (lambda: statistic_interval(np.mean), "columns must hold at least 1; got none"),
        (lambda: statistic_interval(np.mean, [1.0]), "at least 2 rows"),
        (lambda: statistic_interval(np.mean, 1.0), "at least 2 rows"),
        (lambda: statistic_interval(np.mean, [[1.0], [1.0, 2.0]]), "ragged"),
        (lambda: statistic_interval(np.mean, [1.0, np.nan]), "NaN"),
        (lambda: statistic_interval(f1_score, [True, False], [True, None]), "missing"),
        (lambda: statistic_interval(f1_score, [True, False], [True, False, True]), "lengths must be equal"),
        (lambda: statistic_interval(auroc, GOOD, [1, 1, 1, 1]), "right and wrong"),
        (lambda: auroc(GOOD, [1, 1, 1, 1]), "4 right and 0 wrong"),
        (lambda: auroc(GOOD, [False] * 4), "0 right and 4 wrong"),
        (lambda: auroc(GOOD, [1, 0, 1]), "lengths must be equal"),
        (lambda: auroc(GOOD, [1, 0, 0.5, 0]), "correct must be 0 or 1; got 0.5"),
        (lambda: aurac(GOOD, [1, 0, 2, 0]), "correct must be 0 or 1; got 2"),
        (lambda: holm([0.5, 1.2]), "p_values must be from 0 to 1; got"),
        (lambda: holm([-0.1]), "p_values must be from 0 to 1; got"),
        (lambda: proportion_interval(5, 4), "successes must be a whole number from 0 to 4; got 5"),
        (lambda: proportion_interval(-1, 4), "successes must be a whole number from 0 to 4; got -1"),
        (lambda: proportion_interval(0, 0), "n must be a whole number"),
        (lambda: proportion_interval(0.5, 4), "successes must be a whole number; got"),
        (lambda: proportion_interval(np.nan, 4), "successes must be a whole number; got"),
    ],
)
def test_other_bad_input_raises(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- what was silent -----------------------------------------------------------------------------


def test_correlations_do_not_change_with_the_size_of_the_numbers():
    """Times 1e160 it was 0.89 [0.0, 0.0]: squares that no float holds."""
    x, y = np.array(GOOD * 3) + np.arange(3 * len(GOOD)), np.arange(3 * len(GOOD))[::-1] % 5
    for method in ("pearson", "spearman", "kendall"):
        plain = correlation(x, y, method=method, resamples=80)
        for factor in (2.0**500, 2.0**-500, 2.0**900):
            assert correlation(x * factor, y, method=method, resamples=80) == plain
            assert correlation(x, y * factor, method=method, resamples=80) == plain
        large = correlation(x * 1e160, y, method=method, resamples=80)
        assert (large.value, large.low, large.high) == pytest.approx((plain.value, plain.low, plain.high), abs=1e-12)


def test_an_estimate_counts_whole_rows_and_sums_are_numbers():
    for n in (np.nan, 2.5, "3", None, True, 0):
        with pytest.raises(ValueError, match="n must be a whole number"):
            Estimate(0.5, 0.4, 0.6, n)
    for values in ([1e308, 1e308], [10**400, 1.0], [1e301, 0.0]):
        with pytest.raises(ValueError, match="values must be"):
            mean_interval(values)
    with pytest.raises(ValueError, match="resamples must be a whole number from 40 to 10000000"):
        mean_interval(GOOD, resamples=10**400)
