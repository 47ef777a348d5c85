"""Is a choice better than one made at random? For orders, lists or rankers of which each question has several that are answered."""

import numpy as np

from rag_utils import stats
from rag_utils.base import checks

DRAWS = 4999


def against_chance(chosen, others, *, resamples=stats.RESAMPLES, draws=DRAWS, rng=0) -> stats.Difference:
    """The mean of `chosen` less what one of the others gives on average, with a test that lets each question be as skewed as it is.

    chosen  : (n,) numbers, what the choice under test is worth on each question, n >= 2
    others  : (n, m) numbers, what each of the m alternatives is worth on the same question
    returns : Difference; its interval draws questions; p: how far out its mean is among those of alternatives taken at random, one a
              question: twice the smaller tail, (1 + count) / (1 + draws)
    raises  : ValueError for other shapes, what is no finite number, and as `stats.mean_interval`
    source  : ours. A right answer, 0 or 1, less a mean over orders is not symmetric, which a test by signs would have to take it for

    >>> gap = against_chance([1, 1, 1, 1, 1], [[1, 0, 0]] * 5)
    >>> f"{gap:.2f}", gap.p_value
    ('0.67 [0.67, 0.67]', 0.0112)
    """
    chosen, others = checks.numbers("chosen", chosen, least=2), checks.numbers("others", others, dimensions=2)
    checks.same_length(chosen=chosen, others=others)
    draws, rng = checks.whole("draws", draws, least=1, most=10**6), checks.generator(rng)
    estimate = stats.mean_interval(chosen - others.mean(axis=1), resamples=resamples, rng=rng)
    rows = np.arange(len(others))
    means = np.array([others[rows, rng.integers(others.shape[1], size=len(others))].mean() for _ in range(draws)])
    tails = [(means >= chosen.mean() - 1e-12).sum(), (means <= chosen.mean() + 1e-12).sum()]
    return stats.Difference(**vars(estimate), p_value=float(min(1.0, 2 * (1 + min(tails)) / (1 + draws))))
