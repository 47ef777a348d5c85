"""Is a choice better than one made at random? For orders, lists or rankers of which each question has several that are answered."""

import numpy as np

from rag_utils import stats
from rag_utils.base import checks

DRAWS = 4999


def against_chance(chosen, others, *, draws=DRAWS, rng=0) -> stats.Difference:
    """The mean of `chosen` less what one of the others gives on average, sure only as far as other questions and other choices let it be.

    chosen  : (n,) numbers, what the choice under test is worth on each question, n >= 2
    others  : (n, m) numbers, what each of the m alternatives is worth on the same question
    returns : Difference: of two tests the larger p and the wider interval, which leaves out 0 where that p is below 0.05. Questions:
              `stats.paired_difference` of `chosen` and the means of the others. Choices: alternatives are taken at random, one a question,
              `draws` times; p is how far out the mean of `chosen` is among theirs, twice the smaller tail, (1 + count) / (1 + draws), and
              the interval the difference less their spread about their mean
    raises  : ValueError for other shapes and what is no finite number
    source  : ours. A right answer, 0 or 1, less a mean over orders is skewed, which a t test does not allow for; and draws know nothing of
              questions that were not asked

    >>> gap = against_chance([1, 1, 1, 1, 1, 1, 0], [[1, 0, 0]] * 7)
    >>> f"{gap:.2f}", round(gap.p_value, 4)
    ('0.52 [0.14, 0.87]', 0.0156)
    """
    chosen, others = checks.numbers("chosen", chosen, least=2), checks.numbers("others", others, dimensions=2)
    checks.same_length(chosen=chosen, others=others)
    draws, rng = checks.whole("draws", draws, least=1, most=10**6), checks.generator(rng)
    asked, rows = stats.paired_difference(chosen, others.mean(axis=1)), np.arange(len(others))
    means = np.array([others[rows, rng.integers(others.shape[1], size=len(others))].mean() for _ in range(draws)])
    ends = np.quantile(means - others.mean(), [(1 + stats.LEVEL) / 2, (1 - stats.LEVEL) / 2])
    low, high = np.round(asked.value - ends, 12)  # an end that is 0 but for rounding holds 0
    tails = [(means >= chosen.mean() - 1e-12).sum(), (means <= chosen.mean() + 1e-12).sum()]
    p_value = max(asked.p_value, min(1.0, 2 * (1 + min(tails)) / (1 + draws)))
    return stats.Difference(asked.value, float(min(low, asked.low)), float(max(high, asked.high)), len(chosen), float(p_value))
