"""Questions of the public benchmarks as the chapters measure on them, and what each of them may be shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from rag_utils import answers, data, retrieve
from rag_utils.base import checks
from rag_utils.corpora import manifest
from rag_utils.data import SYSTEMS, Judged, Passage, Question

OWN = ("hotpotqa", "musique")  # data sets whose questions come with their paragraphs
SYSTEM_TITLES = dict(zip(SYSTEMS, ("DPR-FiD", "InstructGPT", "ChatGPT", "GPT-4", "BingChat"), strict=True))  # as SePer's Table 1


@dataclass(frozen=True)
class Benchmark:
    """Questions of a data set, in the order of the hash of their text, and what is searched for them."""

    name: str  # as in `data.load`
    questions: tuple[Question, ...]

    @property
    def pool(self) -> retrieve.Pool:
        """What is searched: the question's own paragraphs where it has some, otherwise all passages of the data set."""
        return retrieve.own_passages if self.name in OWN else data.passages(self.name)

    @cached_property
    def passages(self) -> Mapping[str, Passage]:
        """Every passage that may be shown, by id."""
        pools = map(self.pool, self.questions) if callable(self.pool) else [self.pool]
        return {passage.id: passage for pool in pools for passage in pool}

    def negatives(self) -> dict[str, tuple[Passage, ...]]:
        """Per question the passage that looks right and holds no answer, by BM25; none where there is none."""
        pool = (lambda question: question.distractors) if self.name in OWN else self.pool
        return retrieve.hard_negatives(self.questions, pool, short="keep")

    @property
    def facts(self) -> dict:
        """How many the questions are, and where they come from."""
        return {"questions": len(self.questions)} | source(self.name)


def load(name: str, n: int) -> Benchmark:
    """The first n questions of a data set in the order of the hash of their text, or all that there are to measure on."""
    return Benchmark(name, tuple(_by_hash(name)[: checks.whole("questions", n, least=1)]))


def _by_hash(name: str) -> list[Question]:
    """All questions to measure on: of NQ the held-out quarter only."""
    questions = (question for question in data.load(name) if name != "nq" or data.held_out(question.text))
    return sorted(questions, key=lambda question: data.question_id(question.text))


def source(name: str) -> dict:
    """Address and SHA-256 of a data set's file, as the manifest has them; nothing for the corpus, which is part of the repository."""
    entry = manifest.entries().get(name)
    return {"source": entry.source, "sha256": entry.sha256} if entry else {}


def evouna(*, mode: str = "replay", few: int | None = None) -> tuple[pd.DataFrame, dict]:
    """`lexical_match` on EVOUNA-NQ, and where that file comes from. No model is asked, so `mode` changes nothing."""
    return lexical_match(data.load_judged("evouna_nq")[:few]), source("evouna_nq")


def nearest(questions: Sequence[Question], pool: retrieve.Pool, k: int, *, search=retrieve.dense, **how) -> dict[str, tuple[Passage, ...]]:
    """Question id -> the k best passages, best first, by embeddings or another search; what that leaves out is last, in pool order."""
    run, near = search(questions, pool, k=k, **how), {}
    for question in questions:
        by_id = {passage.id: passage for passage in (pool(question) if callable(pool) else pool)}
        ranked = dict.fromkeys([*retrieve.ranking(run[question.id]), *by_id])
        near[question.id] = tuple(by_id[name] for name in ranked)[:k]
    return near


def confusion(*, dataset: str, mode: str = "replay") -> tuple[pd.DataFrame, dict]:
    """`lexical_match` against people, system by system: column id (its title), and how many answers are tp, fp, fn and tn."""
    each, counts = lexical_match(data.load_judged(dataset)), []
    for name, title in SYSTEM_TITLES.items():
        match, right = each[[f"match_{name}", f"verdict_{name}"]].dropna().astype(bool).to_numpy().T
        kinds = {"tp": match & right, "fp": match & ~right, "fn": ~match & right, "tn": ~match & ~right}
        counts.append({"id": title} | {kind: int(held.sum()) for kind, held in kinds.items()})
    return pd.DataFrame(counts), source(dataset)


def lexical_match(judged: Sequence[Judged]) -> pd.DataFrame:
    """For every judged answer whether it contains a gold ("Lexical Match" in SePer, Table 1), and whether a person found it right.

    returns : column id, and for each system match_SYSTEM and verdict_SYSTEM (0 or 1; empty where there is no verdict)
    """
    rows = []
    for question in judged:
        row = {"id": question.id}
        for answer in question.answers:
            row[f"match_{answer.system}"] = int(answers.contains_answer(answer.text, list(question.golds)))
            row[f"verdict_{answer.system}"] = None if answer.verdict is None else int(answer.verdict)
        rows.append(row)
    return pd.DataFrame(rows, columns=["id", *(f"{kind}_{name}" for name in SYSTEMS for kind in ("match", "verdict"))])


def benchmark_passages(name: str, n: int, size: int, *, seed: int = 0) -> tuple[list[Question], dict[str, tuple[Passage, ...]]]:
    """The first questions of a data set and what they are shown: their own paragraphs for HotpotQA, gold and hard negatives for NQ.

    returns : questions with `size` passages each in BM25's order. HotpotQA's with more paragraphs of their own are left out, those with
              fewer get hard negatives too; "kv_retrieval" as `data.load_key_values`
    """
    if name == "kv_retrieval":
        return data.load_key_values(n, size, seed=seed)
    if name == "hotpotqa":
        questions = [question for question in _by_hash(name) if len(retrieve.own_passages(question)) <= size][:n]
        own = filled_up(questions, data.passages(name), size)
    else:
        questions = list(load(name, n).questions)
        negatives = retrieve.hard_negatives(questions, data.passages(name), k=size - 1)
        own = {question.id: (*question.gold[:1], *negatives[question.id]) for question in questions}
    pools = {name: sorted(passages, key=lambda passage: passage.id) for name, passages in own.items()}
    return questions, nearest(questions, lambda question: pools[question.id], size, search=retrieve.bm25)


def filled_up(questions: Sequence[Question], pool: Sequence[Passage], size: int) -> dict[str, tuple[Passage, ...]]:
    """The passages that come with each question and, where these are fewer than `size`, BM25's best of the pool that hold no answer.

    returns : per question id `size` passages, its own first
    raises  : ValueError if the pool has too few others, or as `retrieve.hard_negatives`
    source  : ours. HotpotQA's distractor setting has ten paragraphs a question, our copy of it five
    """
    own = {question.id: retrieve.own_passages(question) for question in questions}
    short = [question for question in questions if len(own[question.id]) < size]
    if not short:
        return own
    most = size - min(len(own[question.id]) for question in short)
    negatives = retrieve.hard_negatives(short, lambda question: [p for p in pool if p not in own[question.id]], k=most)
    return {name: (*passages, *negatives.get(name, ()))[:size] for name, passages in own.items()}
