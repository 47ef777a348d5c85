"""Many rankings of the same passages joined into one: by the fewest pairs against it, by mean place, by reciprocal rank.

A ranking lists the numbers of the passages best first.
"""

import math
from itertools import permutations

import numpy as np

from rag_utils.base import checks


def kemeny(rankings) -> np.ndarray:
    """The ranking that disagrees with the given ones on the fewest pairs of passages; of several the first in dictionary order.

    rankings : (m, n) int, each row a permutation of 0 .. n - 1, best first; n at most 8, as all rankings are tried
    source   : Kemeny (1959), the centre of permutation self-consistency (Tang et al. 2024)
    """
    places = _places(rankings)
    n = checks.whole("passages to be searched", places.shape[1], most=8)
    against = (places[:, :, None] > places[:, None, :]).sum(axis=0)  # [p, q]: rankings with q before p
    every = np.array(list(permutations(range(n))))
    first, second = np.triu_indices(n, 1)
    return every[against[every[:, first], every[:, second]].sum(axis=1).argmin()]


def borda(rankings) -> np.ndarray:
    """The passages by their mean place in the rankings, which are as in `kemeny`, of any n."""
    return np.argsort(_places(rankings).sum(axis=0), kind="stable")


def reciprocal_rank_fusion(rankings, *, k: float = 60) -> np.ndarray:
    """The passages by the sum of 1 / (k + place) over the rankings, places from 1 (Cormack et al. 2009); rankings as in `kemeny`, of any n.

    k : 0 and above; the larger, the less the first places count for. Sums are rounded once: ties are ties in any order of the rankings
    """
    shares = 1 / (checks.number("k", k, low=0) + 1 + _places(rankings))
    return np.argsort([-math.fsum(column) for column in shares.T], kind="stable")


def _places(rankings) -> np.ndarray:
    """(m, n): the place from 0 of each passage in each ranking; ValueError if a row is no permutation."""
    rankings = checks.numbers("rankings", rankings, dimensions=2)
    wrong = rankings[(np.sort(rankings, axis=1) != np.arange(rankings.shape[1])).any(axis=1)]
    if len(wrong):
        raise ValueError(f"rankings must each hold 0 to {rankings.shape[1] - 1} once; got {wrong[0].tolist()}")
    return np.argsort(rankings, axis=1)
