"""Who ranks the passages how: from the scores of single passages, one by one, in words; and many rankings joined into one.

A ranking lists the numbers of the passages best first, equal ones in the retriever's order; of questions it is per id one order in a list,
as `measures.moi.answered` takes it.
"""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import permutations
from statistics import mode

import numpy as np
import pandas as pd

from experiments.orders import VOTES
from rag_utils import answers, moi
from rag_utils.base import checks
from rag_utils.data import Question
from rag_utils.lm import LanguageModel
from rag_utils.measures import moi as measure
from rag_utils.measures.moi import ALONE, CYCLIC, PRUNED, Orders, Sets, Shown
from rag_utils.prompts import Prompt, prompt_text


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


def sequential(reader: LanguageModel, questions: Sequence[Question], shown: Shown, *, prompt: Prompt) -> Orders:
    """Bayes saliency +: the next passage is the one that, after those already chosen, makes question and passages together likeliest.

    source : MoI, eq. 2 and appendix C (Merth et al. 2024), where the second factor is given all N passages; here those chosen before
    """
    size = len(shown[questions[0].id])
    chosen: dict[str, list[int]] = {question.id: [] for question in questions}
    for _ in range(size - 1):
        tried = {name: [[*order, p] for p in range(size) if p not in order] for name, order in chosen.items()}
        table = measure.saliencies(reader, questions, shown, {"next": tried}, prompt=prompt)
        best = (table["query"] + table["passages"]).groupby(table["id"], sort=False).idxmax()
        chosen = {name: measure.parse(table["order"][row]) for name, row in best.items()}
    return {name: [[*order, *(p for p in range(size) if p not in order)]] for name, order in chosen.items()}


def listwise(asker: LanguageModel, questions: Sequence[Question], shown: Shown, orders: Orders, *, prompt: Prompt) -> pd.DataFrame:
    """The rankings that a model writes when it is shown the passages with numbers, in each of the orders.

    prompt  : with the slots question and passages
    returns : columns id, run, order (in the retriever's numbers) and the repairs of `parse_listwise`
    source  : RankGPT (Sun et al. 2023), in our words; several orders: permutation self-consistency (Tang et al. 2024)
    """
    texts, rows = [], []
    asked = [(question, run, order) for question in questions for run, order in enumerate(orders[question.id])]
    for question, _, order in asked:
        lines = [f"[{i}] {' '.join(shown[question.id][place].text.split())}" for i, place in enumerate(order, 1)]
        texts.append(prompt_text(asker, prompt, question, passages="\n".join(lines)))
    for (question, run, order), [said] in zip(asked, asker.generate(texts, max_new_tokens=30), strict=True):
        places, repairs = parse_listwise(said.text, len(order))
        rows.append({"id": question.id, "run": run, "order": measure.label(order[p] for p in places)} | repairs)
    return pd.DataFrame(rows)


def parse_listwise(reply: str, n: int) -> tuple[list[int], dict[str, int]]:
    """The ranking in a reply such as "[2] > [3] > [1]" of n passages, numbered from 1, and what had to be repaired in it.

    returns : every passage once, best first; how many are "missing" (put last), "repeated" (the first counts), "out_of_range" (left out)
    source  : RankGPT (Sun et al. 2023). Deviation: of a reply with a number in square brackets only such numbers count; there every digit
    """
    reply, n = checks.text("reply", reply), checks.whole("n", n, least=1)
    digits = re.findall(r"\[\s*([0-9]+)\s*\]", reply) or re.findall(r"[0-9]+", reply)
    numbers = [int(text) if len(text) < 10 else 0 for text in digits]  # 0 names no passage
    valid = [number - 1 for number in numbers if 1 <= number <= n]
    named = list(dict.fromkeys(valid))
    rest = [passage for passage in range(n) if passage not in named]
    repairs = {"missing": len(rest), "repeated": len(valid) - len(named), "out_of_range": len(numbers) - len(valid)}
    return named + rest, repairs


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


def _places(rankings) -> np.ndarray:
    """(m, n): the place from 0 of each passage in each ranking; ValueError if a row is no permutation."""
    rankings = checks.numbers("rankings", rankings, dimensions=2)
    wrong = rankings[(np.sort(rankings, axis=1) != np.arange(rankings.shape[1])).any(axis=1)]
    if len(wrong):
        raise ValueError(f"rankings must each hold 0 to {rankings.shape[1] - 1} once; got {wrong[0].tolist()}")
    return np.argsort(rankings, axis=1)
