"""What chapter 7 keeps as numbers: orders read and answered on benchmarks and with ten passages, fits, one-by-one rankings, simulations."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from experiments import asking, benchmarks
from experiments.moi_position.position_tables import reversed_orders, with_gold
from experiments.moi_position.rerankers import from_saliencies, sequential, votes
from experiments.orders import companion_passages
from experiments.table import table
from rag_utils import data, moi, prompts
from rag_utils.data import Question
from rag_utils.lm import LanguageModel
from rag_utils.measures import moi as measure
from rag_utils.measures.moi import ALONE, CYCLIC, PRUNED

CHAPTER = "07_moi_position"
SIZE, PREFIX = 5, 3  # passages of a simulated problem, and those that a pruned order shows
KINDS = ("random full", "cyclic", "cyclic pruned", "pruned", "pruned, too few", "pruned, equal")
SPLITS = {"single": ("test",), "bridge": ("test", "train"), "comparison": ("test", "train")}


def chosen(kind: str, n: int, splits: Sequence[str] | None = None) -> list[Question]:
    """Questions of the corpus of one type, half of the n about real things and half about invented ones."""
    every = [
        q for split in splits or SPLITS[kind] for q in data.load("companion") if (q.type, q.split) == (kind, split)
    ]
    return [q for about in ("real", "invented") for q in [q for q in every if q.kind == about][: n // 2]]


def spread(questions: Sequence[Question], n: int) -> list[Question]:
    """n of the questions, evenly spaced."""
    return list(questions[:: max(1, len(questions) // n)][:n])


def orders_read(
    *, mode, profile, prompt, dataset, questions, orders, max_new_tokens=None, few=None
) -> tuple[pd.DataFrame, dict]:
    """Saliencies of each passage alone and of pruned random orders and, with `max_new_tokens`, the answers to each method's order.

    dataset   : as in `benchmarks.benchmark_passages`, with the number of questions; "companion" with {type: number}, "spread" among them if
                only so many of them are asked
    orders    : {"size", "prefix", "drawn", "seed"}
    returns   : rows as of `saliencies` and of `answered`, the latter with condition "answer METHOD" and without the reply. The answers to
                cyclic orders stand for the average order
    """
    return _read(asking.reader(profile, mode), prompt, dataset, questions, orders, max_new_tokens, few)


def _read(reader: LanguageModel, prompt: str, dataset: str, questions, orders: Mapping, max_new_tokens=None, few=None):
    size, seed, template = orders["size"], orders["seed"], prompts.load(prompt)
    if dataset == "companion":
        asked = [question for kind in SPLITS if kind in questions for question in chosen(kind, questions[kind])]
        asked = spread(asked, questions.get("spread", len(asked)))
        shown = companion_passages(asked, size)[0]
    else:
        asked, shown = benchmarks.benchmark_passages(dataset, questions, size, seed=seed)
    asked = asked[:few]
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
    """The rows of `orders_read` with the settings of an entry: the table that it names, or the chapter's recordings where it names none."""
    settings = {key: value for key, value in entry.items() if key not in ("title", "table")}
    if "table" not in entry:
        return _read(asking.reader(profile, mode, CHAPTER), prompt, **settings)[0]
    return table(CHAPTER, entry["table"], orders_read, mode=mode, profile=profile, prompt=prompt, **settings)


def fits(*, mode, profile, prompt, entries, starts, seed) -> tuple[pd.DataFrame, dict]:
    """Every question of every entry fitted twice, without the passages' factor (run 0) and with it (run 1).

    entries : list of {"title", "table"} and further settings, as in `rows_of`
    """
    rows = []
    for entry in entries:
        read = rows_of(entry, mode=mode, profile=profile, prompt=prompt)
        how = {"size": entry["orders"]["size"], "starts": starts, "seed": seed}
        for prior in (False, True):
            fit = measure.fitted(read, PRUNED, prior=prior, **how)
            rows.append(fit.assign(condition=entry["title"], run=int(prior)))
    return pd.concat(rows, ignore_index=True), asking.facts(reader=asking.reader(profile, mode, CHAPTER))


def one_by_one(*, mode, profile, prompt, questions, size, few=None) -> tuple[pd.DataFrame, dict]:
    """The order of each question that `rerankers.sequential` finds; questions as in `orders_read` for the corpus."""
    reader = asking.reader(profile, mode)
    asked = [question for kind in SPLITS for question in chosen(kind, questions[kind])][:few]
    orders = sequential(reader, asked, companion_passages(asked, size)[0], prompt=prompts.load(prompt))
    rows = pd.DataFrame({"id": name, "order": measure.label(order)} for name, [order] in orders.items())
    return rows, asking.facts(reader=reader)


# --- problems with known truth ---------------------------------------------------------------------


def without_noise(*, mode, times, seed) -> pd.DataFrame:
    """Problems without noise: does a fit find the ranking, and does it say whether it could? `mode` changes nothing.

    returns : columns id, condition (one of KINDS; of random orders there are 3 N, N of "too few"; "equal" are the utilities), identified,
              right and opposite (0 or 1: the ranking is the true one, is its reverse)
    """
    rows = []
    for kind, number in product(KINDS, range(times)):
        rng = np.random.default_rng([seed, number])
        utility = np.ones(SIZE) if kind == "pruned, equal" else rng.normal(size=SIZE)
        prefix = None if kind in ("random full", "cyclic") else PREFIX
        if kind.startswith("cyclic"):
            orders = moi.cyclic_orders(SIZE, prefix=prefix)
        else:
            orders = moi.random_orders(SIZE, SIZE if "few" in kind else 3 * SIZE, prefix=prefix, rng=rng)
        position = rng.dirichlet(np.full(orders.shape[1], 3.0))
        fit = moi.fit(orders, moi.predict(orders, position, utility), SIZE, starts=4, rng=rng)
        tau = _tau(fit.utility, utility)
        row = {"id": f"p{number}", "condition": kind.replace(",", ""), "identified": int(fit.identified)}
        rows.append(row | {"right": int(tau > 0.999), "opposite": int(tau < -0.999)})
    return pd.DataFrame(rows)


def with_noise(*, mode, noises, times, seed) -> pd.DataFrame:
    """`recovered` at each noise, the position falling and rising; `mode` changes nothing."""
    parts = []
    for run, (noise, rising) in enumerate(product(noises, (False, True))):
        rows = recovered(noise, rising=rising, times=times, seed=seed)
        parts.append(rows.assign(noise=noise, rising=int(rising), run=run))
    return pd.concat(parts, ignore_index=True)


def recovered(noise: float, *, rising: bool, dev: int = 14, times: int = 12, seed: int = 0) -> pd.DataFrame:
    """Problems with noise and known truth: Kendall's tau of each way's utilities with the true ones.

    noise   : standard deviation of the error of a score, in standard deviations of the scores without it
    rising  : whether the position coefficients rise toward the question or fall
    returns : columns id, condition (the way) and tau; 12 orders, but for "calibrated" N pruned cyclic ones and a position from `dev` other
              problems with 12 pruned random orders each. How often a fit begins anew hangs on rounding: it draws no problem
    """
    rng = np.random.default_rng([seed, int(rising), int(1000 * noise)])
    slope = np.linspace(1, 3, SIZE) if rising else np.linspace(3, 1, SIZE)
    long, short = slope / slope.sum(), np.interp(np.linspace(0, SIZE - 1, PREFIX), np.arange(SIZE), slope)
    short = short / short.sum()

    def observed(orders, position):
        utility = rng.normal(size=SIZE)
        scores = moi.predict(orders, position, utility)
        return utility, scores + rng.normal(scale=noise * scores.std(), size=len(scores))

    others = (moi.random_orders(SIZE, 12, prefix=PREFIX, rng=rng) for _ in range(dev))
    position, _ = measure.pooled_position([(orders, observed(orders, short)[1]) for orders in others], SIZE, seed=seed)
    rows = []
    for number in range(times):
        full, pruned = moi.random_orders(SIZE, 12, rng=rng), moi.random_orders(SIZE, 12, prefix=PREFIX, rng=rng)
        cyclic, tau = moi.cyclic_orders(SIZE, prefix=PREFIX), {}
        utility, scores = observed(full, long)
        alone = utility + rng.normal(scale=1.0, size=SIZE)
        how = {"starts": 2, "rng": [seed, number]}
        for way, sign in (("free", "free"), ("decreasing", "decreasing position"), ("pointwise", "pointwise prior")):
            pointwise = alone if way == "pointwise" else None
            fit = moi.fit(full, scores, SIZE, sign=sign, pointwise=pointwise, **how)
            tau[f"full {way}"] = _tau(fit.utility, utility)
        utility, scores = observed(pruned, short)
        tau["pruned"] = _tau(moi.fit(pruned, scores, SIZE, **how | {"starts": 4}).utility, utility)
        utility, scores = observed(cyclic, short)
        tau["calibrated"] = _tau(moi.solve_utility(cyclic, scores, SIZE, position), utility)
        rows += [{"id": f"p{number}", "condition": way, "tau": value} for way, value in tau.items()]
    return pd.DataFrame(rows)


def _tau(guess: np.ndarray, truth: np.ndarray) -> float:
    """Kendall's tau, 0 where one of them is constant."""
    constant = np.ptp(guess) < 1e-9 or np.ptp(truth) < 1e-9
    return 0.0 if constant else float(kendalltau(guess, truth).statistic)
