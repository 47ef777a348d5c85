"""Questions of the public benchmarks as the chapters measure on them, and what each of them may be shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from rag_utils import answers, data, retrieve
from rag_utils.corpora import manifest
from rag_utils.data import SYSTEMS, Judged, Passage, Question

OWN = ("hotpotqa", "musique")  # data sets whose questions come with their paragraphs
SYSTEM_TITLES = dict(
    zip(SYSTEMS, ("DPR-FiD", "InstructGPT", "ChatGPT", "GPT-4", "BingChat"), strict=True)
)  # as in SePer, Table 1


@dataclass(frozen=True)
class Benchmark:
    """Questions of a data set, in the order of the hash of their text.

    name      : as in `data.load`
    questions : those to measure on
    """

    name: str
    questions: tuple[Question, ...]

    @property
    def pool(self) -> retrieve.Pool:
        """What is searched: the question's own paragraphs where it has some, otherwise all passages of NQ and SQuAD."""
        return retrieve.own_passages if self.name in OWN else data.passages(self.name)

    @cached_property
    def passages(self) -> Mapping[str, Passage]:
        """Every passage that may be shown, by id."""
        pools = [self.pool(question) for question in self.questions] if callable(self.pool) else [self.pool]
        return {passage.id: passage for pool in pools for passage in pool}

    def negatives(self) -> dict[str, list[Passage]]:
        """Per question the passages that look right and hold no answer, by BM25; none where there is none."""
        pool = retrieve.own_distractors if self.name in OWN else self.pool
        return retrieve.hard_negatives(self.questions, pool, short="keep")

    @property
    def facts(self) -> dict:
        """Where the questions come from, how many they are and how they were chosen."""
        return {"questions": len(self.questions), **source(self.name)}


def load(name: str, n: int, *, few: int | None = None) -> Benchmark:
    """The first n questions of a data set, or all where it has fewer.

    few : take the first `few` of them only, to check a measurement
    """
    questions = sample(name, min(n, len(data.load(name))))
    return Benchmark(name, tuple(questions[:few]))


def sample(name: str, n: int) -> list[Question]:
    """The first n questions of a benchmark in the order of the hash of their text, of NQ only the held-out quarter.

    raises : ValueError if the benchmark has fewer
    """
    questions = [question for question in data.load(name) if name != "nq" or data.held_out(question.text)]
    if not 1 <= n <= len(questions):
        raise ValueError(f"{name} has {len(questions)} questions to measure on, asked for {n}")
    return sorted(questions, key=lambda question: data.question_id(question.text))[:n]


def source(name: str) -> dict:
    """Address and SHA-256 of a data set's file, as the manifest has them."""
    entry = manifest.entries()[name]
    return {"source": entry.source, "sha256": entry.sha256}


def evouna(*, mode: str = "replay") -> tuple[pd.DataFrame, dict]:
    """`lexical_match` on EVOUNA-NQ, and where that file comes from. No model is asked, so `mode` changes nothing."""
    return lexical_match(data.load_judged("evouna_nq")), source("evouna_nq")


def lexical_match(judged: Sequence[Judged]) -> pd.DataFrame:
    """For every judged answer whether it contains a gold, and whether a person found it right.

    returns : column id, and for each system match_SYSTEM and verdict_SYSTEM (0 or 1; empty where there is no verdict)
    source  : the "Lexical Match" row of SePer, Table 1
    """
    rows = []
    for question in judged:
        row = {"id": question.id}
        for answer in question.answers:
            row[f"match_{answer.system}"] = int(answers.contains_answer(answer.text, list(question.golds)))
            row[f"verdict_{answer.system}"] = None if answer.verdict is None else int(answer.verdict)
        rows.append(row)
    return pd.DataFrame(rows, columns=["id", *(f"{kind}_{name}" for name in SYSTEMS for kind in ("match", "verdict"))])
