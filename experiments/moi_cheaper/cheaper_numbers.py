"""MoI made cheaper, in chapter 8: fewer orders, shorter orders, another agent, a student. How each ranks, what it costs, what is kept."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd

from experiments import asking, benchmarks
from experiments.moi_cheaper.preference import load_student, passage_scores, vectors
from experiments.orders import companion_passages, lengths
from experiments.table import FOLDER, kept, table
from rag_utils import data, judge, moi, prompts, retrieve
from rag_utils.base import checks
from rag_utils.data import Question
from rag_utils.engine import tree
from rag_utils.lm import LanguageModel
from rag_utils.measures import moi as measure
from rag_utils.measures.moi import ALONE, CYCLIC, FULL, PRUNED, SHORT, VARIABLE, Sets, Shown
from rag_utils.prompts import Prompt
from rag_utils.retrieve import Run

CHAPTER = "08_moi_cheaper"
WEIGHTS = FOLDER / CHAPTER / "student.safetensors"
WAYS = {  # name -> (set of orders, how utilities are found from their scores)
    "3N random": (FULL, "fit"),
    "N cyclic": (CYCLIC, "fit"),
    "fixed": (SHORT, "fit"),
    "variable": (VARIABLE, "fit"),
    "3N pruned": (PRUNED, "fit"),
    "fixed calibrated": (SHORT, "calibrated"),
    "variable calibrated": (VARIABLE, "calibrated"),
    "QG": (ALONE, "calibrated"),
}


def proposed(ids: Sequence[str], size: int, *, prefix: int, lengths: Mapping | None = None, seed: int = 0) -> Sets:
    """The sets of orders of MoI's Table 6 (sections 3.2 and 3.3.1), by name; of random orders there are 3 N.

    lengths : per question id how many passages its "cyclic variable" orders show, see `moi.prefix_length`; None leaves them out
    """
    shown = {FULL: size, PRUNED: prefix, CYCLIC: size, SHORT: prefix, ALONE: 1}
    return measure.propose(ids, size, shown | ({VARIABLE: lengths} if lengths else {}), drawn=3 * size, seed=seed)


def set_of(condition: str) -> str | None:
    """The set of orders behind a way, None where no order was read to find it."""
    return WAYS.get(condition.removeprefix("agent "), (None,))[0]


def calibration(scores: pd.DataFrame, lengths: Sequence[int], *, size: int) -> dict[int, np.ndarray]:
    """One position for all questions by length of the orders, which is below size, from the scores of the sets "pruned LENGTH"."""
    known = {checks.whole("lengths", n, most=size - 1): measure.problems(scores, f"{PRUNED} {n}") for n in lengths}
    return {length: measure.pooled_position(list(each.values()), size)[0] for length, each in known.items()}


def each_way(scores: pd.DataFrame, positions: Mapping[int, np.ndarray], *, size: int, seed: int = 0) -> pd.DataFrame:
    """The ranking of each question by each of WAYS whose orders were read: columns id, condition (the way), order, identified.

    scores    : as `measures.moi.saliencies` returns them; the factor of the passages is left out
    positions : by length of the orders, for the calibrated ways
    """
    parts, known = [], {1: np.ones(1), **positions}
    for way, (name, how) in WAYS.items():
        if (scores["condition"] == name).any():
            if how == "fit":
                part = measure.fitted(scores, name, size=size, starts=4, seed=seed)
            else:
                part = measure.calibrated(scores, name, known, size=size)
            parts.append(part.assign(condition=way)[["id", "condition", "order", "identified"]])
    return pd.concat(parts, ignore_index=True)


def by_score(scores: pd.DataFrame) -> pd.DataFrame:
    """Columns id, condition, order: the rankings that `preference.passage_scores` give, equal ones in the retriever's order."""
    each = scores.sort_values("rank", kind="stable").groupby(["id", "condition"], sort=False)["score"]
    return each.agg(lambda part: measure.label(moi.rerank(part))).rename("order").reset_index()


def tokens_read(reader: LanguageModel, questions: Sequence[Question], shown: Shown, sets: Sets, *, prompt: Prompt) -> pd.DataFrame:
    """What reading the orders of each set costs, without running the model; the paper does not say what a cost is.

    returns : columns id, condition (the set), calls (orders), tokens (of all calls in full) and distinct (common beginnings read once)
    """
    rows, asked = [], {question.id: reader.encode(" " + question.text, context=False) for question in questions}
    for condition, orders in sets.items():
        for name, every in orders.items():
            contexts = [measure.question_context(prompt, [shown[name][place] for place in order]) for order in every]
            texts = [(*reader.encode(context), *asked[name]) for context in contexts]
            row = {"id": name, "condition": condition, "calls": len(texts), "tokens": sum(map(len, texts))}
            rows.append(row | {"distinct": tree.size(tree.prefix_tree(list(dict.fromkeys(texts))))})
    return pd.DataFrame(rows)


@cache
def corpus(size: int) -> tuple[dict[str, list[Question]], Shown, Run]:
    """Questions of the corpus by split, but for those answered yes or no; what each is shown; BM25's scores."""
    questions = [question for question in data.load("companion") if question.type != "yes_no"]
    parts = {split: [q for q in questions if q.split == split] for split in ("train", "dev", "test")}
    return parts, *companion_passages(questions, size)


def test_orders(*, size: int, prefix: int, temperature: float, seed: int) -> tuple[Sets, dict[str, int]]:
    """The orders of the test questions, as `proposed`, and the length of each question's variable ones, below size."""
    parts, shown, run = corpus(size)
    asked = {question.id: shown[question.id] for question in parts["test"]}
    short = {name: min(size - 1, length) for name, length in lengths(asked, run, temperature=temperature).items()}
    return proposed(list(asked), size, prefix=prefix, lengths=short, seed=seed), short


def scored(*, mode, profile, prompt, sets, size, prefix, seed, few=None) -> tuple[pd.DataFrame, dict]:
    """A reader's scores of 3 N random orders of the dev questions, "pruned LENGTH", and of `prefix` passages of the train ones, "train"."""
    parts, shown, _ = corpus(size)
    train, dev = ([question.id for question in parts[split]][:few] for split in ("train", "dev"))
    pruned = {name: int(name.split()[1]) for name in sets if name != "train"}
    orders = measure.propose(dev, size, pruned, drawn=3 * size, seed=seed + 2)
    if "train" in sets:
        orders["train"] = measure.propose(train, size, {PRUNED: prefix}, drawn=3 * size, seed=seed + 1)[PRUNED]
    reader, asked = asking.reader(profile, mode), parts["train"] + parts["dev"]
    rows = measure.saliencies(reader, asked, shown, orders, prompt=prompts.load(prompt), prior=False)
    return rows[["id", "condition", "run", "order", "query"]], asking.facts(reader=reader)


def teaching(*, mode, profiles, prompt, size, prefix, seed) -> tuple[dict[str, pd.DataFrame], dict[str, dict]]:
    """The tables of `scored` of the reader, "teacher", and of the agent, and the position that each gives to orders of each length."""
    how, tables, positions = {"prompt": prompt, "size": size, "prefix": prefix, "seed": seed}, {}, {}
    for who, name, pruned in (("reader", "teacher", range(2, size)), ("agent", "agent", [prefix])):
        sets = [f"{PRUNED} {length}" for length in pruned] + ["train"] * (who == "reader")
        tables[name] = table(CHAPTER, name, scored, mode=mode, profile=profiles[who], sets=sets, **how)
        positions[who] = calibration(tables[name], pruned, size=size)
    return tables, positions


def costs(*, mode, profile, prompt, size, prefix, temperature, seed) -> tuple[pd.DataFrame, dict]:
    """`tokens_read` of the orders of the test questions."""
    parts, shown, _ = corpus(size)
    sets, _ = test_orders(size=size, prefix=prefix, temperature=temperature, seed=seed)
    reader = asking.reader(profile, mode, CHAPTER)
    return tokens_read(reader, parts["test"], shown, sets, prompt=prompts.load(prompt)), asking.facts(reader=reader)


def rankings(*, mode, profiles, prompt, size, prefix, temperature, seed) -> tuple[pd.DataFrame, dict]:
    """The test questions ranked `each_way` by the reader and, as "agent WAY", by the agent; profiles: {"reader", "agent"}."""
    parts, shown, _ = corpus(size)
    positions = teaching(mode=mode, profiles=profiles, prompt=prompt, size=size, prefix=prefix, seed=seed)[1]
    sets, _ = test_orders(size=size, prefix=prefix, temperature=temperature, seed=seed)
    readers = {who: asking.reader(profile, mode, CHAPTER) for who, profile in profiles.items()}
    rows = _ranked(readers, parts["test"], shown, sets, positions, prompts.load(prompt), {"size": size, "seed": seed})
    return rows[rows["condition"] != "agent fixed"].reset_index(drop=True), asking.facts(**readers)


def _ranked(readers, questions, shown, sets, positions, prompt, orders, ways=None) -> pd.DataFrame:
    parts, of_agent = [pd.DataFrame()], {name: sets[name] for name in (PRUNED, SHORT, ALONE)}
    for who, own, before in (("reader", sets, ""), ("agent", of_agent, "agent ")):
        used = own if ways is None else {WAYS[way][0] for way in WAYS if before + way in ways}
        if used:
            rows = measure.saliencies(readers[who], questions, shown, {name: own[name] for name in used}, prompt=prompt, prior=False)
            rows = each_way(rows, positions[who], size=orders["size"], seed=orders["seed"])
            parts.append(rows.assign(condition=before + rows["condition"]))
    return pd.concat(parts, ignore_index=True)


def student(*, mode, size, rank, epochs, seed) -> tuple[pd.DataFrame, dict]:
    """`preference.passage_scores` of the test questions by the weights of `training/student.py`; ValueError if they have other settings."""
    taught, facts = load_student(WEIGHTS)
    how = f"train it anew: python training/student.py --rank {rank} --epochs {epochs} --seed {seed}"
    for name, wanted in {"size": size, "rank": rank, "epochs": epochs, "seed": seed}.items():
        if facts[name] != wanted:
            raise ValueError(f"{WEIGHTS.name} was trained with {name} = {facts[name]}, not {wanted}; {how}")
    parts, shown, _ = corpus(size)
    rows = passage_scores(vectors(retrieve.encoder(), parts["test"], shown), taught)
    return rows, facts | {"files": {WEIGHTS.name: hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()}}


def shipped_student():
    """The student whose scores are committed."""
    return load_student(WEIGHTS, kept(CHAPTER, "student").facts["files"][WEIGHTS.name])[0]


def on_benchmark(*, mode, profiles, prompt, sample, orders, max_new_tokens, few=None) -> tuple[pd.DataFrame, dict]:
    """Ways on a benchmark: rankings, what they cost, and the reader's answers; none of variable length, as BM25's scale is another.

    sample  : {"dataset", "questions" (how many), "ways" (those asked beside the average order; all if None)}
    orders  : {"size", "prefix", "seed"}
    returns : columns id, condition, run, order, gold, the answer's scores, unparsable, identified, calls, tokens, distinct
    """
    size, seed, ways, template = orders["size"], orders["seed"], sample["ways"], prompts.load(prompt)
    positions = teaching(mode="replay" if few else mode, profiles=profiles, prompt=prompt, **orders)[1]
    readers = {who: asking.reader(profile, mode) for who, profile in profiles.items()}
    every, shown = benchmarks.benchmark_passages(sample["dataset"], sample["questions"], size, seed=seed)
    asked = every[:few]
    sets = proposed([question.id for question in asked], size, prefix=orders["prefix"], seed=seed)
    scores = passage_scores(vectors(retrieve.encoder(), asked, shown), shipped_student())
    by_reader = _ranked(readers, asked, shown, sets, positions, template, orders, ways)
    rows = pd.concat([by_reader, by_score(scores)], ignore_index=True)
    ranked = {way: measure.ranked(part) for way, part in rows.groupby("condition", sort=False)}
    ranked |= {"retriever": {question.id: [list(range(size))] for question in asked}, CYCLIC: sets[CYCLIC]}
    to_ask = {way: ranked[way] for way in (ranked if ways is None else (*ways, CYCLIC))}
    said = measure.answered(readers["reader"], asked, shown, to_ask, prompt=template, max_new_tokens=max_new_tokens)
    said = said.drop(columns="reply").merge(rows.drop(columns="order"), on=["id", "condition"], how="left")
    price = tokens_read(readers["reader"], asked, shown, sets, prompt=template).rename(columns={"condition": "set"})
    said = said.assign(set=said["condition"].map(set_of)).merge(price, on=["id", "set"], how="left")
    return said.drop(columns="set"), asking.facts(**readers) | {"questions": len(asked), **benchmarks.source(sample["dataset"])}


def verdicts() -> pd.DataFrame:
    """The answers of EVOUNA-NQ as a person (NaN where a mark is missing), the judge ("judged_SYSTEM") and lexical match see them."""
    says = pd.read_csv(judge.COEFFICIENTS.with_name("evouna_nq.csv"))
    for system in benchmarks.SYSTEM_TITLES:
        marks = says[[f"judge_{system}", f"verdict_{system}", f"lexical_{system}"]]
        says.loc[marks.isna().any(axis=1), f"verdict_{system}"] = np.nan
        says[f"judged_{system}"] = (says[f"judge_{system}"] >= judge.THRESHOLD).astype(int)
    return says
