"""What chapter 7 keeps as numbers: orders read and answered, fits, one-by-one rankings, simulations; and its tables of answers by order."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from experiments import asking, benchmarks
from experiments.moi_position.rerankers import from_saliencies, reversed_orders, votes, with_gold
from experiments.orders import VOTES, companion_passages
from experiments.table import table
from rag_utils import answers, data, moi, prompts
from rag_utils.data import Question
from rag_utils.lm import LanguageModel, word_log_likelihoods
from rag_utils.measures import moi as measure
from rag_utils.measures.moi import ALONE, CYCLIC, PRUNED, Orders, Shown, parse
from rag_utils.prompts import Prompt
from rag_utils.score.one_by_one import sequential

CHAPTER = "07_moi_position"
SIZE, PREFIX = 5, 3  # passages of a simulated problem, and those that a pruned order shows
# of random orders there are 3 N, N of "too few"; "equal" are the utilities
KINDS = ("random full", "cyclic", "cyclic pruned", "pruned", "pruned too few", "pruned equal")
SPLITS = {"single": ("test",), "bridge": ("test", "train"), "comparison": ("test", "train")}


def chosen(kind: str, n: int, splits: Sequence[str] | None = None) -> list[Question]:
    """Questions of the corpus of one type, half of the n about real things and half about invented ones."""
    every = [q for split in splits or SPLITS[kind] for q in data.load("companion") if (q.type, q.split) == (kind, split)]
    return [q for about in ("real", "invented") for q in [q for q in every if q.kind == about][: n // 2]]


def spread(questions: Sequence[Question], n: int) -> list[Question]:
    """n of the questions, evenly spaced."""
    return list(questions[:: max(1, len(questions) // n)][:n])


def shown_of(dataset: str, questions, orders: Mapping, few: int | None = None) -> tuple[list[Question], Shown]:
    """The questions and their passages; arguments as in `orders_read`."""
    if dataset != "companion":
        asked, shown = benchmarks.benchmark_passages(dataset, questions, orders["size"], seed=orders["seed"])
        return asked[:few], shown
    asked = [question for kind in SPLITS if kind in questions for question in chosen(kind, questions[kind])]
    asked = spread(asked, questions.get("spread", len(asked)))
    return asked[:few], companion_passages(asked, orders["size"])[0]


def orders_read(*, mode, profile, prompt, dataset, questions, orders, max_new_tokens=None, few=None) -> tuple[pd.DataFrame, dict]:
    """Saliencies of each passage alone and of pruned random orders and, with `max_new_tokens`, the answers to each method's order.

    dataset : as in `benchmarks.benchmark_passages`, with the number of questions; "companion" with {type: number} and, for fewer, "spread"
    orders  : {"size", "prefix", "drawn", "seed"}
    returns : rows as of `saliencies` and of `answered`, the latter with condition "answer METHOD" and without the reply
    """
    reader, template, size, seed = asking.reader(profile, mode), prompts.load(prompt), orders["size"], orders["seed"]
    asked, shown = shown_of(dataset, questions, orders, few)
    ids = [question.id for question in asked]
    sets = measure.propose(ids, size, {ALONE: 1, PRUNED: orders["prefix"]}, drawn=orders["drawn"], seed=seed)
    rows = measure.saliencies(reader, asked, shown, sets, prompt=template)
    if max_new_tokens is not None:
        ways = from_saliencies(rows, size=size, seed=seed)
        ways |= {f"{way} reversed": reversed_orders(ways[way]) for way in ("retriever", "MoI")}
        for place in ("first", "middle", "last"):
            ways[f"gold {place}"] = {q.id: [with_gold(size, measure.gold_places(q, shown), place)] for q in asked}
        ways[CYCLIC] = dict.fromkeys(ids, moi.cyclic_orders(size))
        said = measure.answered(reader, asked, shown, ways, prompt=template, max_new_tokens=max_new_tokens)
        said = pd.concat([said, votes(said, asked)], ignore_index=True).drop(columns="reply")
        said["condition"] = "answer " + said["condition"].str.replace(",", "")
        rows = pd.concat([rows, said], ignore_index=True)
    return rows, asking.facts(reader=reader) | {"questions": len(asked)} | benchmarks.source(dataset)


def rows_of(entry: Mapping, *, mode: str, profile: str, prompt: str) -> pd.DataFrame:
    """The rows of `orders_read` with the settings of an entry: the table that it names, or the recordings where it names none."""
    settings = {key: entry[key] for key in entry if key not in ("title", "table")} | {"mode": mode, "profile": profile, "prompt": prompt}
    return table(CHAPTER, entry["table"], orders_read, **settings) if "table" in entry else orders_read(**settings)[0]


def fits(*, mode, profile, prompt, entries, starts, seed) -> tuple[pd.DataFrame, dict]:
    """Every question of every entry, as in `rows_of`, fitted twice: without the passages' factor (run 0) and with it (run 1)."""
    rows = []
    for entry in entries:
        read, size = rows_of(entry, mode=mode, profile=profile, prompt=prompt), entry["orders"]["size"]
        for prior in (False, True):
            fit = measure.fitted(read, PRUNED, size=size, prior=prior, starts=starts, seed=seed)
            rows.append(fit.assign(condition=entry["title"], run=int(prior)))
    return pd.concat(rows, ignore_index=True), asking.facts(reader=asking.reader(profile, mode))


def one_by_one(*, mode, profile, prompt, questions, size, few=None) -> tuple[pd.DataFrame, dict]:
    """The order of each question that `sequential` finds; questions as in `orders_read` for the corpus."""
    reader = asking.reader(profile, mode)
    orders = sequential(reader, *shown_of("companion", questions, {"size": size}, few), prompt=prompts.load(prompt))
    rows = pd.DataFrame({"id": name, "order": measure.label(order)} for name, [order] in orders.items())
    return rows, asking.facts(reader=reader)


def without_noise(*, mode, times, seed) -> pd.DataFrame:
    """Problems without noise: does a fit find the ranking, and does it say whether it could? `mode` changes nothing.

    returns : columns id, condition (one of KINDS), identified, right and opposite (0 or 1: the ranking is the true one, is its reverse)
    """
    rows = []
    for kind, number in product(KINDS, range(times)):
        rng = np.random.default_rng([seed, number])
        utility = np.ones(SIZE) if "equal" in kind else rng.normal(size=SIZE)
        prefix = PREFIX if "pruned" in kind else None
        if "cyclic" in kind:
            orders = moi.cyclic_orders(SIZE, prefix=prefix)
        else:
            orders = moi.random_orders(SIZE, SIZE if "few" in kind else 3 * SIZE, prefix=prefix, rng=rng)
        position = rng.dirichlet(np.full(orders.shape[1], 3.0))
        fit = moi.fit(orders, moi.predict(orders, position, utility), SIZE, starts=4, rng=rng)
        tau = _tau(fit.utility, utility)
        row = {"id": f"p{number}", "condition": kind, "identified": int(fit.identified)}
        rows.append(row | {"right": int(tau > 0.999), "opposite": int(tau < -0.999)})
    return pd.DataFrame(rows)


def with_noise(*, mode, noises, times, seed) -> pd.DataFrame:
    """Problems with noise, the position falling and rising: Kendall's tau of each way's utilities with the true ones.

    noises  : standard deviations of the error of a score, in standard deviations of the scores without it
    returns : columns id, condition (the way), tau, noise, rising (0 or 1) and run; 12 orders, for "calibrated" N pruned cyclic ones
    """
    return pd.DataFrame(
        {"id": f"p{number}", "condition": way, "tau": tau, "noise": noise, "rising": rising, "run": run}
        for run, (noise, rising) in enumerate(product(noises, (0, 1)))
        for number, taus in enumerate(_recovered(noise, rising, times, seed))
        for way, tau in taus.items()
    )


def _recovered(noise: float, rising: int, times: int, seed: int) -> Iterator[dict[str, float]]:
    """Tau by way, problem after problem. How often a fit begins anew hangs on rounding, so fits have a generator of their own."""
    rng = np.random.default_rng([seed, rising, int(1000 * noise)])
    slope = np.linspace(1, 3, SIZE) if rising else np.linspace(3, 1, SIZE)
    short = np.interp(np.linspace(0, SIZE - 1, PREFIX), np.arange(SIZE), slope)
    long, short = slope / slope.sum(), short / short.sum()

    def observed(orders, position):
        utility = rng.normal(size=SIZE)
        scores = moi.predict(orders, position, utility)
        return utility, scores + rng.normal(scale=noise * scores.std(), size=len(scores))

    others = (moi.random_orders(SIZE, 12, prefix=PREFIX, rng=rng) for _ in range(14))  # problems for the position
    position, _ = measure.pooled_position([(orders, observed(orders, short)[1]) for orders in others], SIZE, seed=seed)
    cyclic = moi.cyclic_orders(SIZE, prefix=PREFIX)
    for number in range(times):
        full, pruned = moi.random_orders(SIZE, 12, rng=rng), moi.random_orders(SIZE, 12, prefix=PREFIX, rng=rng)
        utility, scores = observed(full, long)
        alone, taus, begin = utility + rng.normal(size=SIZE), {}, [seed, number]
        for sign in moi.SIGNS:
            pointwise = alone if sign == "pointwise prior" else None
            fit = moi.fit(full, scores, SIZE, sign=sign, pointwise=pointwise, starts=2, rng=begin)
            taus[f"full {sign.split()[0]}"] = _tau(fit.utility, utility)
        utility, scores = observed(pruned, short)
        taus["pruned"] = _tau(moi.fit(pruned, scores, SIZE, starts=4, rng=begin).utility, utility)
        utility, scores = observed(cyclic, short)
        yield taus | {"calibrated": _tau(moi.solve_utility(cyclic, scores, SIZE, position), utility)}


def _tau(guess: np.ndarray, truth: np.ndarray) -> float:
    """Kendall's tau, 0 where one of them is constant."""
    return float(np.nan_to_num(kendalltau(guess, truth).statistic))


def same_replies(said: pd.DataFrame) -> pd.DataFrame:
    """How often two orders of a question get the same reply, by the one place in which they agree and the passage that they show there.

    said    : rows of `measures.moi.answered`, of orders of one length or ValueError; an order of a question counts once
    returns : rows (id, passage), columns 1, 2, ...: the share of same replies, in normalised form, among the pairs of orders that show this
              passage in that place and agree in no other; "nowhere": of those that agree in none. NaN where there is no pair
    source  : ours, beside MoI, eq. 11. The passage is held equal since rankings put the gold one first, and orders may be alike for that
    """
    each = said[said["condition"] != VOTES].drop_duplicates(["id", "order"])
    if len(lengths := {len(parse(order)) for order in each["order"]}) != 1:
        raise ValueError(f"orders must be of one length, got lengths {sorted(lengths)}")
    shares = {}
    for name, part in each.groupby("id", sort=False):
        orders, replies = np.array([*map(parse, part["order"])]), part["reply"].map(answers.normalize).to_numpy()
        left, right = np.triu_indices(len(orders), 1)
        agree, equal = orders[left] == orders[right], replies[left] == replies[right]
        once = agree & (agree.sum(axis=1, keepdims=True) == 1)
        for passage in range(orders.shape[1]):
            here = once & (orders[left] == passage)
            groups = {"nowhere": ~agree.any(axis=1), **dict(enumerate(here.T, 1))}
            shares[name, passage] = {at: equal[rows].mean() if rows.any() else np.nan for at, rows in groups.items()}
    return pd.DataFrame.from_dict(shares, orient="index").rename_axis(["id", "passage"])


def first_tokens(
    reader: LanguageModel, questions: Sequence[Question], shown: Shown, orders: Orders, replies: dict, *, prompt: Prompt
) -> dict[str, np.ndarray]:
    """How likely each order makes the first tokens of some replies (MoI, appendix B and eq. 11: of the whole vocabulary).

    returns : per question id (orders, tokens + 1), rows of sum 1; the last column is what is left for all other tokens
    """
    tables = {}
    for question in questions:
        tokens = dict.fromkeys(reader.encode(" " + said, context=False)[0] for said in replies[question.id] if said)
        passages = [[shown[question.id][place].text for place in order] for order in orders[question.id]]
        texts = [prompt.fill(question=question.text, documents=documents) for documents in passages]
        known = np.exp(word_log_likelihoods(reader, texts, [reader.tokenizer.decode([token]) for token in tokens]))
        tables[question.id] = np.hstack([known, np.maximum(0, 1 - known.sum(axis=1, keepdims=True))])
    return tables


def distances(probabilities: Mapping[str, np.ndarray], orders: Orders) -> pd.DataFrame:
    """The L1 distance of the `first_tokens` of every two different orders of a question (MoI, eq. 11 and Fig. 7), by bounds of ours.

    returns : columns id, same_first (both begin alike), distance (0 .. 2, unnamed tokens as one) and at_most (0 .. 2, none of them shared)
    """
    rows = []
    for name, shares in probabilities.items():
        ranked = [list(order) for order in orders[name]]
        for i, k in product(range(len(ranked)), repeat=2):
            if k < i and ranked[i] != ranked[k]:
                distance, rest = float(np.abs(shares[i] - shares[k]).sum()), float(shares[[i, k], -1].min())
                row = {"id": name, "same_first": ranked[i][0] == ranked[k][0], "distance": distance}
                rows.append(row | {"at_most": distance + 2 * rest})
    return pd.DataFrame(rows)
