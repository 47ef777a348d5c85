"""Who ranks the passages how: from the scores of single passages or of orders, one by one, in words; as the paper prints it and otherwise.

A ranking lists the numbers of the passages best first, equal ones in the retriever's order; of questions it is per id one order in a list,
as `measures.moi.answered` takes it.
"""

import re
from collections.abc import Mapping, Sequence
from statistics import mode

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from experiments.orders import VOTES
from rag_utils import answers, moi
from rag_utils.base import checks
from rag_utils.data import Question
from rag_utils.lm import LanguageModel
from rag_utils.measures import moi as measure
from rag_utils.measures.moi import ALONE, CYCLIC, FULL, PRUNED, Orders, Sets, Shown
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


def printed_ways(table: pd.DataFrame, *, size: int, drawn: int, seed=0) -> Sets:
    """MoI's own ranking (sections 3.1 and 3.2.1), its likes that fit as well, and those of orders that settle it, by name.

    table   : as `saliencies` returns it, with `prior`; conditions "full" and "pruned", of which the first `drawn` count as well
    returns : "printed" (eq. 3, a product of probabilities over its sum) and "printed log", from one start; each "mirrored"; "printed
              falling a"; "pruned M" of M orders without the passages' factor; "level a", mean scores of the `drawn`; "retriever"
    """
    how, ways = {"size": size, "starts": 4, "seed": seed}, {}
    for way, form in (("printed", "probability"), ("printed log", "log")):
        each = enumerate(measure.problems(table, FULL, prior=True, form=form).items())
        fits = {name: printed_fit(*problem, size, rng=[seed, i])[0] for i, (name, problem) in each}
        ways[way] = {name: [moi.rerank(utility).tolist()] for name, utility in fits.items()}
        ways[f"{way} mirrored"] = reversed_orders(ways[way])
    sign = {"prior": True, "form": "probability", "sign": "decreasing position"}
    ways["printed falling a"] = measure.ranked(measure.fitted(table, FULL, **sign, **how))
    pruned = table[table["condition"] == PRUNED]
    for part in (few := pruned[pruned["run"] < drawn], pruned):
        ways[f"pruned {part['run'].nunique()}"] = measure.ranked(measure.fitted(part, PRUNED, **how))
    ways["level a"] = {}
    for name, (orders, scores) in measure.problems(few, PRUNED).items():
        total, times = (np.bincount(orders.ravel(), of, size) for of in (scores.repeat(orders.shape[1]), None))
        ways["level a"][name] = [moi.rerank(total / np.maximum(times, 1)).tolist()]
    return ways | {"retriever": {name: [list(range(size))] for name in pruned["id"].unique()}}


def printed_fit(orders, scores, n: int, *, jitter=1e-3, rng=0) -> tuple[np.ndarray, np.ndarray]:
    """Utility and position of one run of a solver from one start: MoI's programme (section 3.1) as one would type it.

    jitter : how far the start is from a = 1 / L, where the gradient is 0 and a solver stays. It decides between two mirror images
    source : scores are brought to mean 0 and deviation 1 for the solver, which changes neither a nor the ranking
    """
    shown, spread = np.eye(n)[np.asarray(orders)], np.std(scores) or 1.0  # (orders, places, passages)
    length, wanted = shown.shape[1], (scores - np.mean(scores)) / spread

    def loss(both):
        a, u = both[:length], both[length:]
        left = a @ shown @ u - wanted
        return left @ left, 2 * np.concatenate([left @ (shown @ u), left @ (a @ shown)])

    start = np.concatenate([1 / length + jitter * np.random.default_rng(rng).normal(size=length), np.zeros(n)])
    bounds = [(0, 1)] * length + [(None, None)] * n
    sums = {"type": "eq", "fun": lambda both: both[:length].sum() - 1}
    how = {"method": "SLSQP", "bounds": bounds, "constraints": sums, "options": {"ftol": 1e-12, "maxiter": 500}}
    end = minimize(loss, start, jac=True, **how).x
    return np.mean(scores) + spread * end[length:], end[:length]


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


def listwise(
    asker: LanguageModel, questions: Sequence[Question], shown: Shown, orders: Orders, *, prompt: Prompt
) -> pd.DataFrame:
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
