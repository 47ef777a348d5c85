"""What chapter 7 keeps as numbers: orders read and answered on benchmarks and with ten passages, fits, one-by-one rankings, simulations."""

from collections.abc import Mapping, Sequence
from itertools import product

import pandas as pd

from experiments import asking, benchmarks
from experiments.moi_position import position_simulation
from experiments.moi_position.position_tables import reversed_orders, with_gold
from experiments.moi_position.rerankers import from_saliencies, sequential, votes
from experiments.orders import companion_passages
from experiments.table import table
from rag_utils import data, moi, prompts
from rag_utils.data import Question
from rag_utils.lm import LanguageModel
from rag_utils.measures.moi import ALONE, CYCLIC, PRUNED, answered, fitted, gold_places, label, propose, saliencies

CHAPTER = "07_moi_position"
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
    sets = propose(ids, size, {ALONE: 1, PRUNED: orders["prefix"]}, drawn=orders["drawn"], seed=seed)
    rows = saliencies(reader, asked, shown, sets, prompt=template)
    if max_new_tokens is not None:
        ways = from_saliencies(rows, size=size, seed=seed)
        ways |= {f"{way} reversed": reversed_orders(ways[way]) for way in ("retriever", "MoI")}
        for place in ("first", "middle", "last"):
            ways[f"gold {place}"] = {q.id: [with_gold(size, gold_places(q, shown), place)] for q in asked}
        ways[CYCLIC] = dict.fromkeys(ids, moi.cyclic_orders(size))
        said = answered(reader, asked, shown, ways, prompt=template, max_new_tokens=max_new_tokens)
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
        for prior in (0, 1):
            fit = fitted(read, PRUNED, size=entry["orders"]["size"], prior=bool(prior), starts=starts, seed=seed)
            rows.append(fit.assign(condition=entry["title"], run=prior))
    return pd.concat(rows, ignore_index=True), asking.facts(reader=asking.reader(profile, mode, CHAPTER))


def one_by_one(*, mode, profile, prompt, questions, size, few=None) -> tuple[pd.DataFrame, dict]:
    """The order of each question that `rerankers.sequential` finds; questions as in `orders_read` for the corpus."""
    reader = asking.reader(profile, mode)
    asked = [question for kind in SPLITS for question in chosen(kind, questions[kind])][:few]
    orders = sequential(reader, asked, companion_passages(asked, size)[0], prompt=prompts.load(prompt))
    rows = pd.DataFrame({"id": name, "order": label(order)} for name, [order] in orders.items())
    return rows, asking.facts(reader=reader)


def without_noise(*, mode, times, seed) -> pd.DataFrame:
    """`position_simulation.tried` of every kind of orders; `mode` changes nothing."""
    kinds = [position_simulation.tried(kind, times=times, seed=seed) for kind in position_simulation.KINDS]
    return pd.concat(kinds, ignore_index=True)


def with_noise(*, mode, noises, times, seed) -> pd.DataFrame:
    """`position_simulation.recovered` at each noise, the position falling and rising; `mode` changes nothing."""
    parts = [
        position_simulation.recovered(noise, rising=rising, times=times, seed=seed).assign(
            noise=noise, rising=int(rising), run=run
        )
        for run, (noise, rising) in enumerate(product(noises, (False, True)))
    ]
    return pd.concat(parts, ignore_index=True)
