"""The tables of chapter 2: samples to the questions of a data set, measured in each of the ways that the chapter compares.

All take the same settings. `dataset` is "companion" or a benchmark, `questions` how many of its first (of the companion corpus, where
`among` is given, evenly from its first `among`), `profiles` who reads, judges and is asked {"reader", "judge", "asker"}, `prompts` by name
{"closed", "read", ...}, and `how` they are sampled: {"samples", "max_new_tokens", "seed"}, and what a table adds to them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from experiments import asking, benchmarks
from experiments.seper_validity import compared, variants
from rag_utils import data, retrieve
from rag_utils.data import Question
from rag_utils.judge import Judge, load_judge
from rag_utils.lm import LanguageModel
from rag_utils.measures import CLOSED, seper
from rag_utils.measures.seper import Agreed, Drawn, Shown
from rag_utils.prompts import load as load_prompt

CHAPTER = "02_seper_validity"
CORPUS, AGAIN, UNRELATED = "companion", "asked again", "unrelated"
Rows = tuple[pd.DataFrame, dict]


def corpus_contexts(questions: Sequence[Question], *, seed: int) -> Shown:
    """What questions of the companion corpus are shown: as `contexts`, and a passage of another article, drawn by seed."""
    pool, rng, unrelated = data.passages(CORPUS), np.random.default_rng(seed), {}
    for question in questions:
        near = {passage.title for passage in (*question.gold, *question.distractors)}
        far = [passage for passage in pool if passage.title not in near]
        unrelated[question.id] = (far[rng.integers(len(far))],)
    return seper.contexts(questions, retrieve.hard_negatives(questions, pool), unrelated=unrelated)


def measured(*, mode, dataset, questions, profiles, prompts, how, few=None) -> Rows:
    """Each measure of METHODS and VARIANTS on every question and context; `prompts` holds what the asker is asked under "judge"."""
    sampled = _sampled(mode, _asked(dataset, questions, how["seed"]), profiles, prompts, how, few=few)
    table, asks = compared.rows(sampled.judge, sampled.questions, sampled.drawn), load_prompt(prompts["judge"])
    said = compared.asked_judge(sampled.asker, sampled.questions, sampled.drawn, asks)
    return table.assign(lm_judge=said), sampled.facts


def again(*, mode, questions, profiles, prompts, how, few=None) -> Rows:
    """The companion corpus closed book only, as the condition "asked again"; all measures but the asked judge."""
    sampled = _sampled(mode, _asked(CORPUS, questions, how["seed"], only=[CLOSED]), profiles, prompts, how, few=few)
    table = compared.rows(sampled.judge, sampled.questions, sampled.drawn)
    return table.assign(condition=AGAIN), sampled.facts


def runs(*, mode, dataset, questions, profiles, prompts, how, few=None) -> Rows:
    """SePer in several disjoint runs of several sizes, `how` holds "times" and "sizes" in the place of "samples"."""
    many = {"sizes": how["sizes"], "times": how["times"]}
    how = how | {"samples": max(many["sizes"]) * many["times"]}
    sampled = _sampled(mode, _asked(dataset, questions, how["seed"]), profiles, prompts, how, few=few)
    return seper.repeated(sampled.judge, sampled.questions, sampled.drawn, **many), sampled.facts


def by_code(*, mode, dataset, questions, among, profiles, prompts, how, few=None) -> Rows:
    """As the authors' code has it; see `variants.by_code`."""
    sampled = _sampled(mode, _asked(dataset, questions, how["seed"], among=among), profiles, prompts, how, few=few)
    return variants.by_code(sampled.drawn, sampled.agreed), sampled.facts


def warped(*, mode, dataset, questions, among, profiles, prompts, how, few=None) -> Rows:
    """The same samples under warped distributions; `how` holds "warps", see `variants.warped`."""
    sampled = _sampled(mode, _asked(dataset, questions, how["seed"], among=among), profiles, prompts, how, few=few)
    texts = seper.prompts_of(sampled.reader, sampled.questions, sampled.shown, **_reading(prompts))
    return variants.warped(sampled.reader, texts, sampled.drawn, sampled.agreed, how["warps"]), sampled.facts


def directed(*, mode, dataset, questions, among, profiles, prompts, how, few=None) -> Rows:
    """Judged by the asker, which is asked what follows from what by the prompt "entails"; see `variants.directed`."""
    sampled = _sampled(mode, _asked(dataset, questions, how["seed"], among=among), profiles, prompts, how, few=few)
    asks = load_prompt(prompts["entails"])
    return variants.directed(sampled.asker, sampled.questions, sampled.drawn, sampled.agreed, asks), sampled.facts


@dataclass(frozen=True)
class Sampled:
    """Questions with what they were shown, the samples to them, and who says what these mean."""

    reader: LanguageModel
    asker: LanguageModel | None
    judge: Judge
    questions: list[Question]
    shown: Shown
    drawn: Drawn
    facts: dict

    @property
    def agreed(self) -> Agreed:
        return seper.agreements(self.judge, self.questions, self.drawn)


@dataclass(frozen=True)
class Asked:
    """Questions of a data set and what each is shown; `facts` say where they come from."""

    dataset: str
    questions: list[Question]
    shown: Shown
    facts: dict


def _asked(dataset, questions, seed, *, among=None, only=None) -> Asked:
    """`among` leaves out the unrelated passage, `only` every context that it does not name."""
    if dataset == CORPUS:
        first = data.load(CORPUS)[: among or questions]
        asked, facts = first[:: max(1, len(first) // questions)][:questions], {"questions": questions}
        shown = corpus_contexts(first, seed=seed)
    else:
        data_set = benchmarks.load(dataset, questions)
        asked, facts = list(data_set.questions), data_set.facts
        shown = seper.contexts(asked, data_set.negatives())
    only = only or [name for name in shown if not (among and name == UNRELATED)]
    return Asked(dataset, asked, {name: part for name, part in shown.items() if name in only}, facts)


def _sampled(mode, asked: Asked, profiles, prompts, how, *, few=None) -> Sampled:
    """`few` are the first questions, shown what they are shown among all."""
    questions = asked.questions[:few]
    options = {"n": how["samples"], "max_new_tokens": how["max_new_tokens"], "seed": how["seed"]}
    chapter = CHAPTER if asked.dataset == CORPUS else None  # calls with text of a benchmark belong to nobody
    reader, *others = (asking.reader(profiles[who], mode, chapter) for who in ("reader", "asker") if who in profiles)
    asker = others[0] if others else None
    drawn = seper.draw(reader, questions, asked.shown, **_reading(prompts), **options)
    facts = asked.facts | asking.facts(reader=reader, asker=asker)
    return Sampled(reader, asker, load_judge(profiles["judge"]), questions, asked.shown, drawn, facts)


def _reading(names: dict[str, str]) -> dict:
    return {name: load_prompt(names[name]) for name in ("closed", "read")}
