"""What chapter 7 keeps as numbers: orders read and answered, one-by-one rankings, a simulation; and its tables of answers by order.

Fixed before any call of "MoI as printed": N = 5, M = 15 full orders, 12 pruned ones beside (and 15, as in chapter 8); the answer to each
ranking against the mean of the N cyclic orders, exact match (token F1 for key-value retrieval), one test per data set. Of the place: the
first against the last, and against all others, N = 3, 5, 6, exact match and probability.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from experiments import asking, benchmarks
from experiments.moi_position import rerankers
from experiments.orders import VOTES, companion_passages
from rag_utils import answers, data, moi, prompts
from rag_utils.data import Question
from rag_utils.lm import LanguageModel
from rag_utils.measures import moi as measure
from rag_utils.measures.moi import ALONE, CYCLIC, FULL, PRUNED, Shown, parse
from rag_utils.prompts import Prompt

CHAPTER = "07_moi_position"
SIZE, PREFIX = 5, 3  # passages of a simulated problem, and those that a pruned order shows
# of random orders there are 3 N, N of "too few"; "equal" are the utilities
KINDS = ("random full", "cyclic", "cyclic pruned", "pruned", "pruned too few", "pruned equal")
SPLITS = {"single": ("test",), "bridge": ("test", "train"), "comparison": ("test", "train")}


def chosen(kind: str, n: int, splits: Sequence[str] | None = None) -> list[Question]:
    """Questions of the corpus of one type, half of the n about real things and half about invented ones."""
    parts = [(kind, split) for split in splits or SPLITS[kind]]
    every = [q for part in parts for q in data.load("companion") if (q.type, q.split) == part]
    return [q for about in ("real", "invented") for q in [q for q in every if q.kind == about][: n // 2]]


def spread(questions: Sequence[Question], n: int) -> list[Question]:
    """n of the questions, evenly spaced."""
    return list(questions[:: max(1, len(questions) // n)][:n])


def orders_read(
    *, mode, profile, prompt, dataset, questions, orders, max_new_tokens=None, few=None
) -> tuple[pd.DataFrame, dict]:
    """Saliencies of each passage alone and of random orders and, with `max_new_tokens`, the answers to each method's order.

    dataset : as in `benchmarks.benchmark_passages`, with the number of questions; "companion" with {type: number} and, for fewer, "spread"
    orders  : {"size", "prefix", "drawn", "seed"}: `drawn` pruned orders and the ways of `from_saliencies`. With "full", the same and `full`
              orders of all passages, as many pruned ones, and `printed_ways`. {"size", "seed"} alone: nothing is ranked
    returns : rows as of `saliencies` and of `answered`, the latter with condition "answer METHOD" and without the reply; but for the first
              form the cyclic orders also have "probability", that of the first gold answer. Calls about the corpus are the chapter's
    """
    own = dataset == "companion"
    reader = asking.reader(profile, mode, CHAPTER if own else None)
    template, size, seed = prompts.load(prompt), orders["size"], orders["seed"]
    if own:
        asked = [question for kind in SPLITS if kind in questions for question in chosen(kind, questions[kind])]
        asked = spread(asked, questions.get("spread", len(asked)))
        shown = companion_passages(asked, size)[0]
    else:
        asked, shown = benchmarks.benchmark_passages(dataset, questions, size, seed=seed)
    asked = asked[:few]
    ids, rows, ways = [question.id for question in asked], pd.DataFrame(), {}
    if ranks := "prefix" in orders:
        lengths = {ALONE: 1, PRUNED: orders["prefix"]} | ({FULL: size} if "full" in orders else {})
        sets = measure.propose(ids, size, lengths, drawn=orders.get("full", orders["drawn"]), seed=seed)
        rows = measure.saliencies(reader, asked, shown, sets, prompt=template)
    if max_new_tokens is not None:
        if "full" in orders:
            ways = rerankers.printed_ways(rows, size=size, drawn=orders["drawn"], seed=seed)
        elif ranks:
            ways = rerankers.from_saliencies(rows, size=size, seed=seed)
            ways |= {f"{way} reversed": rerankers.reversed_orders(ways[way]) for way in ("retriever", "MoI")}
            gold = {question.id: measure.gold_places(question, shown) for question in asked}
            for at in ("first", "middle", "last"):
                ways[f"gold {at}"] = {name: [rerankers.with_gold(size, gold[name], at)] for name in ids}
        ways[CYCLIC] = dict.fromkeys(ids, moi.cyclic_orders(size))
        said = measure.answered(reader, asked, shown, ways, prompt=template, max_new_tokens=max_new_tokens)
        if "full" in orders or not ranks:
            said = believed(reader, asked, shown, said, prompt=template)
        said = pd.concat([said, rerankers.votes(said, asked)], ignore_index=True).drop(columns="reply")
        said["condition"] = "answer " + said["condition"].str.replace(",", "")
        rows = pd.concat([rows, said], ignore_index=True)
    return rows, asking.facts(reader=reader) | {"questions": len(asked)} | benchmarks.source(dataset)


def believed(
    reader: LanguageModel, questions: Sequence[Question], shown: Shown, said: pd.DataFrame, *, prompt: Prompt
) -> pd.DataFrame:
    """Rows of `measures.moi.answered`, those of cyclic orders with "probability": that of the first gold answer after the prompt."""
    by_id, rows = {question.id: question for question in questions}, said[said["condition"] == CYCLIC]
    texts = [
        prompt.fill(question=by_id[name].text, documents=[shown[name][place].text for place in parse(order)])
        for name, order in zip(rows["id"], rows["order"], strict=True)
    ]
    nats = reader.log_likelihood(texts, [f" {by_id[name].answers[0]}" for name in rows["id"]])
    return said.assign(probability=pd.Series([float(np.exp(each.sum())) for each in nats], index=rows.index))


def one_by_one(*, mode, profile, prompt, questions, size, few=None) -> tuple[pd.DataFrame, dict]:
    """The order of each question that `rerankers.sequential` finds; questions as in `orders_read` for the corpus."""
    reader = asking.reader(profile, mode)
    asked = [question for kind in SPLITS for question in chosen(kind, questions[kind])][:few]
    orders = rerankers.sequential(reader, asked, companion_passages(asked, size)[0], prompt=prompts.load(prompt))
    rows = pd.DataFrame({"id": name, "order": measure.label(order)} for name, [order] in orders.items())
    return rows, asking.facts(reader=reader)


# --- problems with known truth ---------------------------------------------------------------------


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
        tau = np.nan_to_num(kendalltau(fit.utility, utility).statistic)  # 0 where one is constant
        row = {"id": f"p{number}", "condition": kind, "identified": int(fit.identified)}
        rows.append(row | {"right": int(tau > 0.999), "opposite": int(tau < -0.999)})
    return pd.DataFrame(rows)


# --- answers by order ------------------------------------------------------------------------------


def by_place(said: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row per question, one column per place 1, 2, ...: the mean of a metric over the N cyclic orders that show a gold passage there.

    Every passage is in every place once, so that nothing but the place differs; each gold passage counts by itself. Order k begins with k
    """
    means = {}
    for name, part in said[said["condition"] == CYCLIC].sort_values("run").groupby("id", sort=False):
        gold, values = np.flatnonzero(part["gold"] == 1), part[metric].to_numpy()
        means[name] = {place + 1: values[(gold - place) % len(values)].mean() for place in range(len(values))}
    return pd.DataFrame.from_dict(means, orient="index").rename_axis("id")


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
