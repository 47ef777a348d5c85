"""What chapter 8 keeps as numbers: a teacher's and an agent's scores, costs, rankings, a student's scores, HotpotQA, how kappa varies."""

import hashlib
from functools import cache

import numpy as np
import pandas as pd

from experiments import asking, benchmarks
from experiments.moi_cheaper import savings
from experiments.moi_cheaper.preference import load_student, passage_scores, vectors
from experiments.orders import companion_passages, lengths
from experiments.table import FOLDER, kept, table
from rag_utils import data, judge, kappa, prompts, retrieve
from rag_utils.data import Question
from rag_utils.measures.moi import ALONE, CYCLIC, PRUNED, SHORT, Orders, Shown, answered, propose, ranked, saliencies
from rag_utils.retrieve import Run

CHAPTER = "08_moi_cheaper"
WEIGHTS = FOLDER / CHAPTER / "student.safetensors"


@cache
def corpus(size: int) -> tuple[dict[str, list[Question]], Shown, Run]:
    """Questions of the corpus by split, but for those answered yes or no; what each is shown; BM25's scores."""
    questions = [question for question in data.load("companion") if question.type != "yes_no"]
    parts = {split: [q for q in questions if q.split == split] for split in ("train", "dev", "test")}
    return parts, *companion_passages(questions, size)


def test_orders(*, size: int, prefix: int, temperature: float, seed: int) -> tuple[dict[str, Orders], dict[str, int]]:
    """The orders of the test questions, as `savings.proposed`, and the length of each question's variable ones, below size."""
    parts, shown, run = corpus(size)
    asked = {question.id: shown[question.id] for question in parts["test"]}
    short = {name: min(size - 1, length) for name, length in lengths(asked, run, temperature=temperature).items()}
    return savings.proposed(list(asked), size, prefix=prefix, lengths=short, seed=seed), short


def scored(*, mode, profile, prompt, sets, size, prefix, seed, few=None) -> tuple[pd.DataFrame, dict]:
    """A reader's scores of 3 N random orders of the dev questions, "pruned LENGTH", and of `prefix` passages of the train ones, "train"."""
    parts, shown, _ = corpus(size)
    train, dev = ([question.id for question in parts[split]][:few] for split in ("train", "dev"))
    of_dev = {name: int(name.split()[1]) for name in sets if name != "train"}
    orders = propose(dev, size, of_dev, drawn=3 * size, seed=seed + 2)
    if "train" in sets:
        orders["train"] = propose(train, size, {PRUNED: prefix}, drawn=3 * size, seed=seed + 1)[PRUNED]
    reader, asked = asking.reader(profile, mode), parts["train"] + parts["dev"]
    rows = saliencies(reader, asked, shown, orders, prompt=prompts.load(prompt), prior=False)
    return rows[["id", "condition", "run", "order", "query"]], asking.facts(reader=reader)


def teaching(*, mode, profiles, prompt, size, prefix, seed) -> tuple[dict[str, pd.DataFrame], dict[str, dict]]:
    """The tables of `scored` of the reader, "teacher", and of the agent, and the position that each gives to orders of each length."""
    wanted = {"reader": list(range(2, size)), "agent": [prefix]}
    how = {"mode": mode, "prompt": prompt, "size": size, "prefix": prefix, "seed": seed}
    tables, positions = {}, {}
    for who, of in wanted.items():
        sets = [f"{PRUNED} {length}" for length in of] + ["train"] * (who == "reader")
        name = "teacher" if who == "reader" else who
        tables[name] = table(CHAPTER, name, scored, profile=profiles[who], sets=sets, **how)
        positions[who] = savings.calibration(tables[name], of, size=size)
    return tables, positions


def costs(*, mode, profile, prompt, size, prefix, temperature, seed) -> tuple[pd.DataFrame, dict]:
    """`savings.costs` of the orders of the test questions."""
    parts, shown, _ = corpus(size)
    sets, _ = test_orders(size=size, prefix=prefix, temperature=temperature, seed=seed)
    reader = asking.reader(profile, mode, CHAPTER)
    return savings.costs(reader, parts["test"], shown, sets, prompt=prompts.load(prompt)), asking.facts(reader=reader)


def rankings(*, mode, profiles, prompt, size, prefix, temperature, seed) -> tuple[pd.DataFrame, dict]:
    """`savings.rankings` of the test questions by the reader and, as "agent WAY", by the agent; profiles: {"reader", "agent"}."""
    parts, shown, _ = corpus(size)
    positions = teaching(mode=mode, profiles=profiles, prompt=prompt, size=size, prefix=prefix, seed=seed)[1]
    sets, _ = test_orders(size=size, prefix=prefix, temperature=temperature, seed=seed)
    readers = {who: asking.reader(profile, mode, CHAPTER) for who, profile in profiles.items()}
    rows = _ranked(readers, parts["test"], shown, sets, positions, prompts.load(prompt), size, seed)
    return rows[rows["condition"] != "agent fixed"].reset_index(drop=True), asking.facts(**readers)


def _ranked(readers, questions, shown, sets, positions, prompt, size, seed) -> pd.DataFrame:
    parts = []
    for who, reader in readers.items():
        chosen = sets if who == "reader" else {name: sets[name] for name in (PRUNED, SHORT, ALONE)}
        rows = saliencies(reader, questions, shown, chosen, prompt=prompt, prior=False)
        rows = savings.rankings(rows, positions[who], size=size, seed=seed)
        parts.append(rows.assign(condition=("" if who == "reader" else "agent ") + rows["condition"]))
    return pd.concat(parts, ignore_index=True)


def student(*, mode, size, rank, epochs, seed) -> tuple[pd.DataFrame, dict]:
    """`preference.passage_scores` of the test questions by the weights of `training/student.py`; ValueError if they have other settings."""
    taught, facts = load_student(WEIGHTS)
    for name, wanted in {"size": size, "rank": rank, "epochs": epochs, "seed": seed}.items():
        if facts[name] != wanted:
            how = f"python training/student.py --rank {rank} --epochs {epochs} --seed {seed}"
            was = f"{WEIGHTS.name} was trained with {name} = {facts[name]}"
            raise ValueError(f"{was}, not {wanted}; train it anew: {how}")
    parts, shown, _ = corpus(size)
    rows = passage_scores(vectors(retrieve.encoder(), parts["test"], shown), taught)
    return rows, facts | {"files": {WEIGHTS.name: hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()}}


def hotpotqa(*, mode, profiles, prompt, questions, orders, max_new_tokens, few=None) -> tuple[pd.DataFrame, dict]:
    """Every way on HotpotQA: rankings, what they cost, and the reader's answers; none of variable length, as BM25's scale is another.

    orders  : {"size", "prefix", "seed"}
    returns : columns id, condition, run, order, gold, the answer's scores, unparsable, identified, calls, tokens, distinct
    """
    size, template = orders["size"], prompts.load(prompt)
    positions = teaching(mode="replay" if few else mode, profiles=profiles, prompt=prompt, **orders)[1]
    readers = {who: asking.reader(profile, mode) for who, profile in profiles.items()}
    every, shown = benchmarks.benchmark_passages("hotpotqa", questions, size, seed=orders["seed"])
    asked = every[:few]
    sets = savings.proposed([question.id for question in asked], size, prefix=orders["prefix"], seed=orders["seed"])
    scores = passage_scores(vectors(retrieve.encoder(), asked, shown), shipped_student())
    by_reader = _ranked(readers, asked, shown, sets, positions, template, size, orders["seed"])
    rows = pd.concat([by_reader, savings.by_score(scores)], ignore_index=True)
    ways = {way: ranked(part) for way, part in rows.groupby("condition", sort=False)}
    ways |= {savings.RETRIEVER: {one.id: [list(range(size))] for one in asked}, CYCLIC: sets[CYCLIC]}
    said = answered(readers["reader"], asked, shown, ways, prompt=template, max_new_tokens=max_new_tokens)
    said = said.drop(columns="reply").merge(rows.drop(columns="order"), on=["id", "condition"], how="left")
    price = savings.costs(readers["reader"], asked, shown, sets, prompt=template).rename(columns={"condition": "set"})
    said = said.assign(set=said["condition"].map(savings.set_of)).merge(price, on=["id", "set"], how="left")
    facts = asking.facts(**readers) | {"questions": len(asked), **benchmarks.source("hotpotqa")}
    return said.drop(columns="set"), facts


def shipped_student():
    """The student whose scores are committed."""
    return load_student(WEIGHTS, kept(CHAPTER, "student").facts["files"][WEIGHTS.name])[0]


def verdicts() -> pd.DataFrame:
    """The answers of EVOUNA-NQ as a person (NaN where a mark is missing), the judge ("judged_SYSTEM") and lexical match see them."""
    says = pd.read_csv(judge.COEFFICIENTS.with_name("evouna_nq.csv"))
    for system in benchmarks.SYSTEM_TITLES:
        marks = says[[f"judge_{system}", f"verdict_{system}", f"lexical_{system}"]]
        says.loc[marks.isna().any(axis=1), [f"verdict_{system}"]] = np.nan
        says[f"judged_{system}"] = (says[f"judge_{system}"] >= judge.THRESHOLD).astype(int)
    return says


def kappa_coverage(*, mode, judged, seed) -> pd.DataFrame:
    """`coverage` of the judge's kappa for ChatGPT, from samples of all answers and of those that all other systems got right."""
    says, system, parts = verdicts(), "chatgpt", []
    others = says[[f"verdict_{name}" for name in benchmarks.SYSTEM_TITLES if name != system]].min(axis=1)
    for title, chosen in (("all", others.notna()), ("easy", others == 1)):
        rows = says[chosen & says[f"verdict_{system}"].notna()]
        pair = (rows[f"{rater}_{system}"].astype(int) for rater in ("verdict", "judged"))
        part = kappa.coverage(*pair, judged, seed=seed)
        parts.append(part.assign(id=title + "-" + part["id"], condition=title))
    return pd.concat(parts, ignore_index=True)
