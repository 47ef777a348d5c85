"""How many questions a gap takes: drawn samples show it as often as is said, and nothing is promised that cannot be had."""

import os

import numpy as np
import pytest
from scipy import stats as scipy_stats

from experiments import benchmarks
from rag_utils import stats
from rag_utils.page.report import VERDICTS, Verdict
from rag_utils.score import questions_needed
from rag_utils.score.enough import HELD_OUT, NOT_TESTABLE, attainable, planned, questions_by_width, smallest_effect

SPREAD = np.random.default_rng(0).normal(size=20)


def test_the_smallest_effect_is_seen_four_times_in_five():
    rng = np.random.default_rng(0)
    spread = rng.normal(size=20)
    least = smallest_effect(spread) / spread.std(ddof=1)
    drawn = rng.normal(least, 1, size=(20_000, 20))
    assert np.mean(scipy_stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05) == pytest.approx(0.8, abs=0.01)
    assert least > (1.96 + 0.84) / 20**0.5  # the normal distribution's, too small for 20 pairs
    assert np.isnan(smallest_effect([0.5, 0.5, 0.5]))


def test_the_smallest_effect_shrinks_with_the_number_of_pairs():
    """The library's solver gives an array for 73, 87 and 92 pairs, and a negative number in the first."""
    least = [smallest_effect([1, -1] * (n // 2) + [0] * (n % 2)) for n in range(70, 95)]
    assert least == sorted(least, reverse=True) and least[3] == pytest.approx(0.33, abs=0.01)


def test_as_many_questions_as_are_said_show_the_gap_and_one_in_ten_fewer_do_not():
    for gap in (0.3, 1.0, -2.0):
        n = questions_needed(gap * 0.5 + SPREAD, gap)  # what the first differences show plays no part, only how they are spread
        assert n == questions_needed(SPREAD, gap)
        drawn = np.random.default_rng(1).normal(gap, SPREAD.std(ddof=1), size=(20_000, n))
        assert np.mean(scipy_stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05) >= 0.79
    assert questions_needed([0, 1e-9], 1) == 2


def test_the_width_of_an_interval_tells_as_many_as_the_differences_behind_it():
    many = np.random.default_rng(2).normal(size=400)
    interval = stats.mean_interval(many, rng=0)
    assert questions_by_width(interval, 0.2, questions=400) == pytest.approx(questions_needed(many, 0.2), rel=0.1)
    assert questions_by_width(interval, -0.1, questions=400) == pytest.approx(4 * questions_by_width(interval, 0.2, questions=400), abs=4)
    for odd in ({"gap": 0, "questions": 9}, {"gap": 0.1, "questions": 0}):
        with pytest.raises(ValueError, match=r"gap|questions"):
            questions_by_width(interval, **odd)


@pytest.mark.parametrize(("differences", "gap", "how"), [([1, 1], 0.1, {}), ([0, 1], 0, {}), ([1], 1, {}), ([0, 1], 1, {"power": 1})])
def test_what_has_no_answer_is_refused(differences, gap, how):
    with pytest.raises(ValueError, match=r"differences|power"):
        questions_needed(differences, gap, **how)


def test_a_plan_and_the_verdict_that_goes_with_it():
    apart = [1, -1] * 20
    table = planned([("small", 0.28, apart, 40, 40), ("there", 0.28, apart, 40, 200), ("large", -0.5, apart, 40, 40)])
    assert table["needed"].tolist() == [105, 105, 35] and table["asked"].tolist() == [40] * 3
    assert table["shown four times in five"].tolist() == [NOT_TESTABLE, "no", "yes"] and NOT_TESTABLE in VERDICTS
    undecided, settled = Verdict("undecided", "holds 0"), Verdict("contradicted", "the other sign")
    assert attainable(undecided, 0.28, apart, 40).verdict == NOT_TESTABLE
    assert attainable(undecided, 0.28, apart, 105) == undecided and attainable(settled, 0.28, apart, 40) == settled
    assert attainable(undecided, 0.28, [0.5, 0.5], 2) == undecided
    assert planned([("alike", 0.1, [0, 0], 2, 9)])["shown four times in five"].tolist() == ["unknown"]


@pytest.mark.skipif("RAG_COMPANION_DATA" not in os.environ, reason="not run: RAG_COMPANION_DATA names no benchmarks")
def test_so_many_questions_of_a_benchmark_can_be_had():
    for name, count in HELD_OUT.items():
        assert len(benchmarks.load(name.lower(), 10_000).questions) == count, name
