"""How many questions a gap takes, and which gap so many questions show: the power of the paired t test, for planning before a run."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy.stats import norm
from statsmodels.stats.power import TTestPower

from rag_utils.base import checks
from rag_utils.page.report import Verdict

POWER, LEVEL = 0.8, 0.05
NOT_TESTABLE = "not testable here"
HELD_OUT = {"NQ": 672, "SQuAD": 1190, "HotpotQA": 29, "MuSiQue": 20}  # questions of a benchmark that the reader was not trained on


def questions_needed(differences, gap: float, *, power: float = POWER, level: float = LEVEL) -> int:
    """The number of questions with which a true mean difference of this size is shown so often.

    differences : (n,) paired differences, n >= 2, from which the spread is taken
    gap         : in their unit, not 0; its sign plays no part
    power       : how often it shall be shown, above `level` and below 1
    raises      : ValueError for anything else, and for differences that are all equal, whose spread is not known
    source      : the power of the paired t test, two-sided; about (2.8 spread / gap)^2 for 0.8 and 0.05

    >>> questions_needed([1, -1] * 50, 0.28)
    104
    """
    differences, gap = checks.numbers("differences", differences, least=2), checks.number("gap", gap)
    level = checks.number("level", level, low=0, high=1)
    power = checks.number("power", power, low=level, high=1)
    spread = float(differences.std(ddof=1))
    if not spread or not gap or power in (level, 1):
        wanted = "differences that differ, a gap other than 0 and a power between level and 1"
        raise ValueError(f"wanted {wanted}, got a spread of {spread:g}, {gap:g} and {power:g}")
    few = {"effect_size": abs(gap) / spread, "alpha": level}
    if TTestPower().power(nobs=2, **few) >= power:
        return 2
    return int(np.ceil(TTestPower().solve_power(power=power, **few)))


def questions_by_width(estimate, gap: float, *, questions: int) -> int:
    """As `questions_needed`, for a statistic that is no mean, by the interval that so many questions left: four times as many halve it.

    estimate  : .low and .high of a 95 % interval, for a difference of two correlations, say
    gap       : in its unit, not 0; its sign plays no part
    questions : behind the interval; where a question has several rows, questions and not rows
    raises    : ValueError for anything else
    source    : the power of the normal test, two-sided, 0.8 at 0.05

    >>> from types import SimpleNamespace
    >>> questions_by_width(SimpleNamespace(value=0.1, low=-0.1, high=0.3), 0.2, questions=50)
    103
    """
    _, low, high = checks.ordered(estimate.value, estimate.low, estimate.high, of="estimate.")
    gap, questions = checks.number("gap", gap), checks.whole("questions", questions, least=1)
    if not gap:
        raise ValueError("wanted a gap other than 0, got 0")
    half_widths = (norm.ppf(1 - LEVEL / 2) + norm.ppf(POWER)) / norm.ppf(1 - LEVEL / 2)
    return max(2, int(np.ceil(questions * (half_widths * (high - low) / 2 / gap) ** 2)))


def smallest_effect(differences) -> float:
    """The mean difference that as many pairs, as spread as these, would show with power 0.8 at 0.05; NaN where they are all equal.

    >>> round(smallest_effect([1, -1] * 50), 2)
    0.28
    """
    differences = checks.numbers("differences", differences, least=2)
    spread = float(differences.std(ddof=1))
    if not spread:
        return np.nan
    effect = TTestPower().solve_power(nobs=len(differences), alpha=LEVEL, power=POWER)
    return spread * abs(np.asarray(effect).item())  # for some n it comes as an array, and for one (73) with the other sign


def planned(steps: Iterable[tuple[str, float, object, int, int]]) -> pd.DataFrame:
    """A table of how many questions each step takes.

    steps   : (name, gap that is to be shown, paired differences of the first questions, questions asked in all, questions that there are)
    returns : index step; columns gap, spread, needed, asked, there are, and shown four times in five: "yes" if as many were asked, "no" if
              they are there and were not asked, "not testable here" if they are not there; "unknown" and 0 where all differences are equal
    """
    rows = []
    for name, gap, differences, asked, most in steps:
        differences = np.asarray(differences, float)
        spread = float(differences.std(ddof=1))
        needed = questions_needed(differences, gap) if spread else 0
        word = "unknown" if not spread else "yes" if needed <= asked else "no" if needed <= most else NOT_TESTABLE
        rows.append((checks.filled("step", name), gap, spread, needed, asked, most, word))
    columns = ["step", "gap", "spread", "needed", "asked", "there are", "shown four times in five"]
    return pd.DataFrame(rows, columns=columns).set_index("step")


def attainable(verdict: Verdict, gap: float, differences, most: int) -> Verdict:
    """The verdict, unless it is "undecided" and no number of questions that can be had would show the gap: then "not testable here".

    gap, differences : as in `questions_needed`, but where they are all equal the verdict stays; most: how many questions there are

    >>> attainable(Verdict("undecided", "the interval holds 0"), 0.28, [1, -1] * 20, 40).why
    'to show 0.28 four times in five takes 105 questions, there are 40'
    """
    checks.whole("most", most, least=1)
    if verdict.verdict != "undecided" or not np.ptp(np.asarray(differences, float)):
        return verdict
    if (needed := questions_needed(differences, gap)) <= most:
        return verdict
    return Verdict(NOT_TESTABLE, f"to show {abs(gap):g} four times in five takes {needed:,} questions, there are {most:,}")
