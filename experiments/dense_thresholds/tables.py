"""The experiments of the chapter: what the reader says of the corpus and of benchmarks when a passage is put in other words.

Each takes `prompts` (names, by what they are for) and `how`: every (take every n-th question of the corpus), k (passages), max_new_tokens
(of a reply), rephrase_tokens (of other words) and seed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from experiments import asking, benchmarks
from experiments.dense_thresholds import understanding
from experiments.dense_thresholds.understanding import filtered, rows
from rag_utils import data, judge, prompts, retrieve
from rag_utils.data import Question
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import Generation, LanguageModel
from rag_utils.measures import Case
from rag_utils.measures.dense import Supply, agreements, faithful, rephrase, replies_under_edits
from rag_utils.measures.seper import Drawn
from rag_utils.prompts import Prompt

CHAPTER, COMPANION = "04_dense_thresholds", "companion"


@dataclass(frozen=True)
class Setup:
    """A data set, who is asked about it and how; `n`: questions of a benchmark, `few`: ask the first ones only."""

    mode: str
    profile: str
    weaker: str
    prompts: Mapping[str, str]
    how: Mapping[str, int]
    dataset: str = COMPANION
    n: int | None = None
    few: int | None = None

    @property
    def reader(self) -> LanguageModel:
        """Who answers; what it says of the corpus is recorded with the chapter."""
        return asking.reader(self.profile, self.mode, CHAPTER if self.dataset == COMPANION else None)

    @property
    def rephraser(self) -> LanguageModel:
        if self.dataset == COMPANION:
            return asking.reader(self.weaker, self.mode, CHAPTER)
        return asking.reader(self.weaker, "fresh")

    @property
    def facts(self) -> dict:
        return asking.facts(reader=self.reader, rephraser=self.rephraser) | {"questions": len(self.questions)}

    @cached_property
    def judge(self) -> Judge:
        return judge.load_judge(self.profile)

    def prompt(self, name: str) -> Prompt:
        return prompts.load(self.prompts[name])

    @property
    def asked(self) -> dict:
        """How the reader is asked."""
        return {"prompt": self.prompt("read")} | {key: self.how[key] for key in ("max_new_tokens", "seed")}

    @cached_property
    def questions(self) -> list[Question]:
        if self.dataset == COMPANION:
            return data.load(COMPANION)[:: self.how["every"]]
        return list(benchmarks.load(self.dataset, self.n).questions)

    @cached_property
    def pool(self) -> retrieve.Pool:
        return data.passages(COMPANION) if self.dataset == COMPANION else benchmarks.Benchmark(self.dataset, ()).pool

    def supplies(self, k: int | None = None, *, few: bool = True) -> list[Supply]:
        """The questions with the k passages that are nearest to them; those for which fewer are found are left out."""
        return nearest(self.questions, self.pool, k or self.how["k"])[: self.few if few else None]

    def words(self, texts: Iterable[str]) -> "Words":
        """Passages in other words, of a benchmark no longer than its longest passage."""
        texts, most = list(dict.fromkeys(texts)), self.how["rephrase_tokens"]
        if self.dataset != COMPANION:
            most = min(most, max(map(self.rephraser.count_tokens, texts_of(self.supplies(few=False)))))
        other = rephrase(self.rephraser, texts, self.prompt("rephrase"), max_new_tokens=most)
        same = faithful(self.judge, texts, other)
        return Words(dict(zip(texts, other, strict=True)), dict(zip(texts, map(float, same), strict=True)))

    def edited(self, supplies: Sequence[Supply], words: "Words") -> list[list[Generation]]:
        return replies_under_edits(self.reader, supplies, words.other, **self.asked)


@dataclass(frozen=True)
class Words:
    """text -> the same in other words, and how surely the judge takes these to say the same."""

    other: dict[str, str]
    faithful: dict[str, float]

    @property
    def unfaithful(self) -> set[str]:
        return {text for text, p in self.faithful.items() if p < THRESHOLD}


def texts_of(supplies: Iterable[Supply]) -> list[str]:
    return list(dict.fromkeys(text for supply in supplies for text in supply.texts()))


def nearest(questions: Sequence[Question], pool: retrieve.Pool, k: int) -> list[Supply]:
    """Questions with the k passages whose embeddings are nearest to them; those for which fewer are found are left out."""
    run, supplies = retrieve.dense(questions, pool, k=k), []
    for question in questions:
        by_id = {passage.id: passage for passage in (pool(question) if callable(pool) else pool)}
        if len(run[question.id]) == k:
            supplies.append(Supply(question, tuple(by_id[name] for name in retrieve.ranking(run[question.id]))))
    return supplies


def under(condition: str, supplies: Sequence[Supply], said: Sequence[list[Generation]]) -> Drawn:
    """Replies by question and condition."""
    return {Case(one.question.id, condition): replies for one, replies in zip(supplies, said, strict=True)}


# --- the corpus ------------------------------------------------------------------------------------


def rephrasings(*, mode, profile, weaker, prompts, rephrase_tokens):
    """How surely the judge takes each passage and its other words to say the same, and, as a control, a passage and the one before."""
    setup = Setup(mode, profile, weaker, prompts, {"rephrase_tokens": rephrase_tokens, "every": 1})
    texts = [passage.text for passage in setup.pool]
    same = setup.words(texts).faithful
    table = pd.DataFrame({"id": [passage.id for passage in setup.pool], "faithful": [same[text] for text in texts]})
    table["control"] = faithful(setup.judge, texts, list(np.roll(texts, 1)))
    return table, asking.facts(rephraser=setup.rephraser)


def companion(*, mode, profile, weaker, prompts, how, other_k, other_k_questions):
    """`rows` of replies under edits, greedy: conditions as in `filtered`, and "k 3" for the first questions with three passages."""
    setup = Setup(mode, profile, weaker, prompts, how)
    supplies = setup.supplies()
    by_k = {k: setup.supplies(k)[:other_k_questions] for k in other_k if k != how["k"]}
    words = setup.words(texts_of([*supplies, *(supply for part in by_k.values() for supply in part)]))
    drawn = filtered(supplies, setup.edited(supplies, words), words.other, words.unfaithful)
    for k, part in by_k.items():
        drawn |= under(f"k {k}", part, setup.edited(part, words))
    return rows(setup.questions, drawn, by=setup.judge), setup.facts


def edits(*, mode, profile, weaker, prompts, how):
    """`edit_rows` of the corpus."""
    setup = Setup(mode, profile, weaker, prompts, how)
    supplies = setup.supplies()
    words = setup.words(texts_of(supplies))
    said = setup.edited(supplies, words)
    agreed = agreements(setup.judge.equivalent, setup.questions, under("edits", supplies, said))
    return understanding.edit_rows(supplies, words.other, said, list(agreed.values()), words.faithful), setup.facts


def pairs(*, mode, profile):
    """How surely the judge takes the two answers of each pair of the corpus to mean the same; no reader is asked."""
    contrast = data.load_contrast()
    asked, left, right = zip(*[(pair.question, pair.left, pair.right) for pair in contrast], strict=True)
    same = judge.load_judge(profile).equivalent(asked, left, right)
    return pd.DataFrame({"id": [pair.id for pair in contrast], "embedded": same}), {}


def sampled(*, mode, profile, weaker, prompts, how, drawn, few=None):
    """`rows` of replies at a temperature; not recorded.

    drawn : sampled_questions, the first of the corpus; temperature; samples to the original context ("samples"); edits: whether one reply
            is drawn to each context under edits too ("edits")
    """
    setup = Setup(mode, profile, weaker, prompts, how, few=few)
    supplies, temperature = setup.supplies()[: drawn["sampled_questions"]], drawn["temperature"]
    reader = asking.reader(profile, mode)
    options, cases = setup.asked | {"temperature": temperature}, {}
    if drawn["edits"]:
        other = setup.words(texts_of(supplies)).other
        cases |= under("edits", supplies, replies_under_edits(reader, supplies, other, **options))
    cases |= under("samples", supplies, understanding.samples(reader, supplies, n=drawn["samples"], **options))
    facts = asking.facts(reader=reader, rephraser=setup.rephraser) | {"questions": len(supplies)}
    return rows(setup.questions, cases, by=setup.judge), facts


def long_answers(*, mode, profile, weaker, prompts, how, few=None):
    """`rows` for the corpus's questions with long answers, told by the weaker model, not recorded; words per reply, `overlap_entropy`."""
    setup = Setup(mode, profile, weaker, prompts, how)
    supplies = nearest(data.load("companion_long"), setup.pool, how["k"])[:few]
    asker = asking.reader(weaker, "fresh")
    said = replies_under_edits(asker, supplies, setup.words(texts_of(supplies)).other, **setup.asked)
    table = rows([supply.question for supply in supplies], under("edits", supplies, said), by=setup.judge)
    table["words"] = [np.mean([len(reply.text.split()) for reply in replies]) for replies in said]
    table["by_words"] = [understanding.overlap_entropy(replies) for replies in said]
    return table, asking.facts(reader=asker)


def cost(*, mode, profile, weaker, prompts, how, sizes):
    """`cost_rows` of the corpus for several numbers of passages, "k 1" and so on."""
    setup = Setup(mode, profile, weaker, prompts, how)
    by_k = {k: setup.supplies(k) for k in sizes}
    other = setup.words(text for part in by_k.values() for text in texts_of(part)).other
    asked = {"prompt": setup.prompt("read"), "rephrase": setup.prompt("rephrase")}
    tables = [
        understanding.cost_rows(setup.reader, part, other, **asked).assign(condition=f"k {k}")
        for k, part in by_k.items()
    ]
    return pd.concat(tables), setup.facts


# --- benchmarks ------------------------------------------------------------------------------------


def on_benchmark(*, mode, profile, weaker, prompts, how, dataset, questions, few=None):
    """`rows` on a public benchmark, greedy under edits as in `filtered`, and sampled under the original context ("samples").

    how     : also temperature and samples, of the latter
    returns : (rows, with the columns unfaithful and lost, how many passages of the context were rephrased so that the judge does not
              accept it or that an answer is gone; facts, with the passages that were rephrased, and those that were accepted)
    """
    setup = Setup(mode, profile, weaker, prompts, how, dataset, questions, few)
    supplies = setup.supplies()
    words = setup.words(texts_of(supplies))
    drawn = filtered(supplies, setup.edited(supplies, words), words.other, words.unfaithful)
    how = setup.asked | {"n": how["samples"], "temperature": how["temperature"]}
    drawn |= under("samples", supplies, understanding.samples(setup.reader, supplies, **how))
    table = rows(setup.questions, drawn, by=setup.judge)
    refused = {one.question.id: sum(text in words.unfaithful for text in one.texts()) for one in supplies}
    gone = {one.question.id: len(understanding.lost(one, words.other)) for one in supplies}
    table["unfaithful"], table["lost"] = table["id"].map(refused), table["id"].map(gone)
    facts = setup.facts | {
        "questions": len(supplies),
        "left_out": len(setup.questions) - len(setup.supplies(few=False)),
    }
    facts |= {"passages": len(words.other), "accepted": len(words.other) - len(words.unfaithful)}
    return table, facts | benchmarks.source(dataset)
