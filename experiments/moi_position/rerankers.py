"""Rankings of passages that a model gives in words or several times over: reading one reply, and joining many rankings into one.

Passages are numbered 0 .. N - 1 in the retriever's order; a ranking lists them best first. Wherever two are equally good the retriever's
order decides.
"""

import math
import operator
import re
from dataclasses import dataclass

import numpy as np

MOST_FOR_KEMENY = 14  # passages; the search goes through every subset of them


@dataclass(frozen=True)
class ListwiseReply:
    """The ranking that a reply gives, completed, and what had to be repaired.

    order        : tuple of int, every passage once, best first
    missing      : int, passages that the reply does not name; they follow in the retriever's order
    repeated     : int, times that a passage was named again; the first time counts
    out_of_range : int, numbers that name no passage; they are left out
    """

    order: tuple[int, ...]
    missing: int
    repeated: int
    out_of_range: int

    @property
    def repairs(self):
        """How many entries were added or left out; 0 for a reply that ranks every passage once."""
        return self.missing + self.repeated + self.out_of_range


def parse_listwise(reply, n):
    """The ranking in a reply such as "[2] > [3] > [1]", completed in the retriever's order where it falls short.

    reply   : str; passages are numbered from 1. If it has a number in square brackets, only such numbers count, else every whole number
    n       : int, passages, 1 or more
    returns : ListwiseReply, numbered from 0
    raises  : ValueError if reply is not a string or n is not such a number
    source  : the prompt and the rules of RankGPT (Sun et al. 2023): repetitions and numbers out of range go, passages left out are appended
              in their first order. Deviation: there every digit of the reply counts, that of "the 3 passages" too

    >>> parse_listwise("Of the 3 passages: [2] > [3] > [1]", 3).order
    (1, 2, 0)
    >>> bad = parse_listwise("[3] > [7] > [3]", 4)
    >>> bad.order, bad.missing, bad.repeated, bad.out_of_range, bad.repairs
    ((2, 0, 1, 3), 3, 1, 1, 5)
    """
    if not isinstance(reply, str):
        raise ValueError(f"reply must be a string; got {reply!r}")
    n = _whole("n", n, 1)
    digits = re.findall(r"\[\s*([0-9]+)\s*\]", reply) or re.findall(r"[0-9]+", reply)
    numbers = [int(text) if len(text) < 10 else 0 for text in digits]  # 0 names no passage
    valid = [number - 1 for number in numbers if 1 <= number <= n]
    named = list(dict.fromkeys(valid))
    rest = [passage for passage in range(n) if passage not in named]
    return ListwiseReply(
        order=(*named, *rest),
        missing=len(rest),
        repeated=len(valid) - len(named),
        out_of_range=len(numbers) - len(valid),
    )


def kemeny(rankings):
    """The ranking that disagrees with the given ones on the fewest pairs of passages, exactly.

    rankings : (m, n) int, each row a permutation of 0 .. n - 1, best first; n at most 14
    returns  : (n,) int, best first; of several such rankings the first in dictionary order, so that ties fall to the retriever
    raises   : ValueError if rankings are not such
    source   : permutation self-consistency (Tang et al. 2024), whose centre of the rankings is Kemeny's (1959). Exact by dynamic
               programming over subsets, 2^n n steps

    >>> kemeny([[0, 1, 2], [1, 2, 0], [1, 0, 2]])
    array([1, 0, 2])
    """
    rankings = _rankings(rankings)
    n = rankings.shape[1]
    if n > MOST_FOR_KEMENY:
        raise ValueError(f"rankings must be of at most {MOST_FOR_KEMENY} passages to be searched exactly; got {n}")
    places = np.argsort(rankings, axis=1)
    against = (places[:, :, None] > places[:, None, :]).sum(axis=0).tolist()  # [p][q]: rankings with q before p
    cost, first = (
        [0] * 2**n,
        [0] * 2**n,
    )  # of a set of passages: pairs in which it must disagree, and which passage then leads it
    for held in range(1, 2**n):
        members = [passage for passage in range(n) if held >> passage & 1]
        costs = [cost[held & ~(1 << one)] + sum(against[one][other] for other in members) for one in members]
        cost[held] = min(costs)
        first[held] = members[costs.index(cost[held])]
    order, held = [], 2**n - 1
    while held:
        order.append(first[held])
        held &= ~(1 << first[held])
    return np.array(order)


def borda(rankings):
    """The passages by their mean place in the rankings.

    rankings : (m, n) int, as in `kemeny`, any n
    returns  : (n,) int, best first; equal ones in the retriever's order
    raises   : ValueError if rankings are not such
    source   : Borda's count: a passage gets one point from each ranking for each passage behind it

    >>> borda([[0, 1, 2], [1, 2, 0], [1, 0, 2]])   # places from 0 add up to 3, 1 and 5
    array([1, 0, 2])
    """
    return np.argsort(np.argsort(_rankings(rankings), axis=1).sum(axis=0), kind="stable")


def reciprocal_rank_fusion(rankings, *, k=60):
    """The passages by the sum of 1 / (k + place) over the rankings, places from 1.

    rankings : (m, n) int, as in `kemeny`, any n
    k        : 0 and above; the larger, the less the first places count for
    returns  : (n,) int, best first; equal ones in the retriever's order
    raises   : ValueError if rankings are not such or k is not a finite number of 0 and above
    source   : Cormack et al. 2009. Sums are rounded once, so that passages with the same places tie whatever the order of the rankings

    >>> reciprocal_rank_fusion([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    array([0, 1, 2])
    """
    if not 0 <= k < math.inf:
        raise ValueError(f"k must be a finite number of 0 and above; got {k}")
    places = 1 + np.argsort(_rankings(rankings), axis=1)
    sums = np.array([math.fsum(column) for column in (1 / (k + places)).T])
    return np.argsort(-sums, kind="stable")


def _whole(name, value, least):
    try:
        number = operator.index(value)
    except TypeError as error:
        raise ValueError(f"{name} must be an integer; got {value!r}") from error
    if number < least:
        raise ValueError(f"{name} must be at least {least}; got {number}")
    return number


def _rankings(rankings):
    """Rankings as an (m, n) int array of permutations."""
    try:
        rankings = np.asarray(rankings)
    except ValueError as error:
        raise ValueError("rankings must be rows of equal length; got a ragged list") from error
    if rankings.ndim != 2 or not rankings.size or rankings.dtype.kind not in "iu":
        raise ValueError(f"rankings must be (m, n) whole numbers; got shape {rankings.shape} of {rankings.dtype}")
    wrong = (np.sort(rankings, axis=1) != np.arange(rankings.shape[1])).any(axis=1)
    if wrong.any():
        raise ValueError(
            f"rankings must each hold 0 to {rankings.shape[1] - 1} once; got {rankings[wrong][0].tolist()}"
        )
    return rankings.astype(int)
