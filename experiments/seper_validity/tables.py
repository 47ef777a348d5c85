"""The tables of chapter 2: samples to the questions of a data set, measured in each of the ways that the chapter compares.

All take the same settings. `dataset` is "companion" or a benchmark, `questions` how many of its first (of the companion corpus, where
`among` is given, evenly from its first `among`), `profiles` who reads, judges and is asked {"reader", "judge", "asker"}, `prompts` by name
{"closed", "read", ...}, and `how` they are sampled: {"samples", "max_new_tokens", "seed"}, and what a table adds to them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments import asking, benchmarks
from experiments.seper_validity import compared, variants
from rag_utils import data, retrieve
from rag_utils.data import Question
from rag_utils.judge import Judge
from rag_utils.measures import CLOSED, seper
from rag_utils.measures.seper import Drawn, Shown
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
    samples, _, models, facts = _sampled(mode, dataset, questions, profiles, prompts, how, few=few)
    said = compared.asked_judge(models["asker"], samples.questions, samples.drawn, load_prompt(prompts["judge"]))
    return compared.rows(*samples).assign(lm_judge=said), facts


def again(*, mode, questions, profiles, prompts, how, few=None) -> Rows:
    """The companion corpus closed book only, as the condition "asked again"; all measures but the asked judge."""
    samples, _, _, facts = _sampled(mode, CORPUS, questions, profiles, prompts, how | {"only": [CLOSED]}, few=few)
    return compared.rows(*samples).assign(condition=AGAIN), facts


def runs(*, mode, dataset, questions, profiles, prompts, how, few=None) -> Rows:
    """SePer in several disjoint runs of several sizes, `how` holds "times" and "sizes" in the place of "samples"."""
    many = {"sizes": how["sizes"], "times": how["times"]}
    how = how | {"samples": max(many["sizes"]) * many["times"]}
    samples, _, _, facts = _sampled(mode, dataset, questions, profiles, prompts, how, few=few)
    return seper.repeated(*samples, **many), facts


def by_code(*, mode, dataset, questions, among, profiles, prompts, how, few=None) -> Rows:
    """As the authors' code has it; see `variants.by_code`."""
    samples, _, _, facts = _sampled(mode, dataset, questions, profiles, prompts, how, among, few)
    return variants.by_code(samples.drawn, seper.agreements(*samples)), facts


def warped(*, mode, dataset, questions, among, profiles, prompts, how, few=None) -> Rows:
    """The same samples under warped distributions; `how` holds "warps", see `variants.warped`."""
    samples, asked, models, facts = _sampled(mode, dataset, questions, profiles, prompts, how, among, few)
    agreed = seper.agreements(*samples)
    return variants.warped(models["reader"], asked, samples.drawn, agreed, how["warps"]), facts


def judged(*, mode, dataset, questions, profiles, prompts, how, few=None) -> Rows:
    """By other judges and to the letter, `prompts` holds what the asker is asked under "judge"; see `variants.by_judge`."""
    samples, _, models, facts = _sampled(mode, dataset, questions, profiles, prompts, how, few=few)
    agreed, prompt = seper.agreements(*samples), load_prompt(prompts["judge"])
    return variants.by_judge(models["asker"], samples.questions, samples.drawn, agreed, prompt), facts


class Samples(NamedTuple):
    """Who says what samples mean, the questions, and the samples: what `seper.agreements`, `seper.repeated` and `compared.rows` take."""

    judge: Judge
    questions: list[Question]
    drawn: Drawn


def _sampled(mode, dataset, questions, profiles, prompts, how, among=None, few=None):
    """Samples, the prompts that they answer, the models, and facts. Where `among` is given, no unrelated passage is shown.

    how["only"] : the contexts that are asked about, all unless told
    few         : the first questions only, shown what they are shown among all
    """
    if dataset == CORPUS:
        first = data.load(CORPUS)[: among or questions]
        chosen, facts = first[:: max(1, len(first) // questions)][:questions], {"questions": questions}
        shown = corpus_contexts(first, seed=how["seed"])
    else:
        data_set = benchmarks.load(dataset, questions)
        chosen, facts = list(data_set.questions), data_set.facts
        shown = seper.contexts(chosen, data_set.negatives())
    only = how.get("only", [name for name in shown if not (among and name == UNRELATED)])
    chapter = CHAPTER if dataset == CORPUS else None  # calls with text of a benchmark belong to nobody
    models = {who: asking.reader(profiles[who], mode, chapter) for who in ("reader", "asker") if who in profiles}
    forms = {name: load_prompt(prompts[name]) for name in ("closed", "read")}
    asked = seper.prompts_of(models["reader"], chosen[:few], {name: shown[name] for name in only}, **forms)
    lengths = {name: how[name] for name in ("max_new_tokens", "seed")}
    drawn = seper.draw(models["reader"], asked, n=how["samples"], **lengths)
    judge = asking.judge(profiles["judge"], mode=mode, chapter=chapter)
    return Samples(judge, chosen[:few], drawn), asked, models, facts | asking.facts(**models, judge=judge)
