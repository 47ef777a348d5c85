"""Who ranks the passages how: from the scores of single passages, of orders, and by hand.

A ranking lists the numbers of the passages best first, equal ones in the retriever's order; of questions it is per id a list of one order.
"""

from collections.abc import Mapping, Sequence
from statistics import mode

import pandas as pd

from experiments.orders import VOTES
from rag_utils import answers, moi
from rag_utils.base import checks
from rag_utils.data import Question
from rag_utils.measures import moi as measure
from rag_utils.measures.moi import ALONE, CYCLIC, PRUNED, Orders, Sets


def from_saliencies(table: pd.DataFrame, *, size: int, fits: Mapping[str, pd.DataFrame] | None = None, seed=0) -> Sets:
    """The rankings that saliencies give, by name: MoI, eq. 1, section 3.1 and appendix C.

    table   : as `saliencies` returns it, with `prior`, conditions "alone" and "pruned"
    fits    : "MoI" and "MoI, prior", as `fitted` returns them for the pruned orders; None fits them here
    returns : "retriever"; "random", from the seed and the question's place in the table; pointwise "QG" (question given the passage),
              "Bayes saliency" (times the passage's own probability) and "LongLLMLingua"; the fits
    """
    alone = table[table["condition"] == ALONE].set_index("id")
    scores = {"QG": alone["query"], "Bayes saliency": alone["query"] + alone["passages"]}
    scores["LongLLMLingua"], ids = alone["information"], alone.index.unique()
    random = {name: moi.random_orders(size, 1, rng=[seed, i, 2]).tolist() for i, name in enumerate(ids)}
    ways = {"retriever": {name: [list(range(size))] for name in ids}, "random": random}
    ways |= {way: {name: [moi.rerank(each[name]).tolist()] for name in ids} for way, each in scores.items()}
    if fits is None:
        how = {"size": size, "starts": 4, "seed": seed}
        fits = {way: measure.fitted(table, PRUNED, prior=way != "MoI", **how) for way in ("MoI", "MoI, prior")}
    return ways | {way: measure.ranked(fit) for way, fit in fits.items()}


def with_gold(size: int, gold: Sequence[int], where: str) -> list[int]:
    """The retriever's order with the gold passages moved together: "first", "middle" or "last"."""
    checks.one_of("place", where, ("first", "middle", "last"))
    others = [place for place in range(size) if place not in set(gold)]
    before = {"first": 0, "middle": len(others) // 2, "last": len(others)}[where]
    return [*others[:before], *sorted(gold), *others[before:]]


def reversed_orders(orders: Orders) -> dict[str, list[list[int]]]:
    """The same orders from the last passage to the first."""
    return {name: [order[::-1] for order in every] for name, every in orders.items()}


def votes(table: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
    """Self-consistency (Wang et al. 2023): the reply that most cyclic orders give in normalised form, of equals the earliest.

    table : as `measures.moi.answered` returns it; the result has its form, with order "votes" and gold 0. MoI takes 30 random orders
    """
    by_id, rows = {question.id: question for question in questions}, []
    for name, part in table[table["condition"] == CYCLIC].sort_values("run").groupby("id", sort=False):
        plain = part["reply"].map(answers.normalize)
        first = part["reply"][plain == mode(plain)].iloc[0]  # of equal counts `mode` takes the first met
        row = {"id": name, "condition": VOTES, "run": 0, "order": "votes", "gold": 0.0}
        rows.append(row | measure.judged(first, by_id[name]))
    return pd.DataFrame(rows)
