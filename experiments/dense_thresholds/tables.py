"""The experiments of the chapter: what the reader says of the corpus and of benchmarks when a passage is put in other words.

Each takes `prompts` (names, by what they are for) and `how`: every (take every n-th question of the corpus), k (passages), max_new_tokens
(of a reply), rephrase_tokens (of other words) and seed.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import pandas as pd

from experiments import asking, benchmarks
from experiments.dense_thresholds import understanding
from experiments.dense_thresholds.understanding import filtered, rows
from rag_utils import data, retrieve
from rag_utils.data import Question
from rag_utils.judge import THRESHOLD, load_judge
from rag_utils.lm import Generation
from rag_utils.measures import Case
from rag_utils.measures.dense import Supply, agreements, faithful, rephrase, replies_under_edits
from rag_utils.measures.seper import Drawn
from rag_utils.prompts import load as load_prompt

CHAPTER, COMPANION = "04_dense_thresholds", "companion"


class Setup:
    """A data set, of a benchmark the first n questions, who is asked about it and how."""

    def __init__(self, mode, profile, weaker, prompts, how, dataset=COMPANION, n=None):
        corpus = dataset == COMPANION
        self.how, self.prompts = how, {name: load_prompt(prompt) for name, prompt in prompts.items()}
        self.reader = asking.reader(profile, mode, CHAPTER if corpus else None)
        self.rephraser = asking.reader(weaker, mode, CHAPTER) if corpus else asking.reader(weaker, "fresh")
        self.judge = load_judge(profile)
        self.questions = data.load(dataset)[:: how["every"]] if corpus else benchmarks.load(dataset, n).questions
        self.pool = benchmarks.Benchmark(dataset, ()).pool
        self.asked = {"prompt": self.prompts["read"], "max_new_tokens": how["max_new_tokens"], "seed": how["seed"]}
        self.facts = asking.facts(reader=self.reader, rephraser=self.rephraser) | {"questions": len(self.questions)}

    def supplies(self, k: int | None = None) -> list[Supply]:
        return nearest(self.questions, self.pool, k or self.how["k"])

    def words(self, supplies: Iterable[Supply], *, most: int | None = None) -> tuple[dict[str, str], dict[str, float]]:
        """Text of a passage -> the same in other words, at most so many tokens, and -> how surely the judge takes these to say the same."""
        texts = list(dict.fromkeys(text for supply in supplies for text in supply.texts()))
        most = most or self.how["rephrase_tokens"]
        other = rephrase(self.rephraser, texts, self.prompts["rephrase"], max_new_tokens=most)
        same = map(float, faithful(self.judge, texts, other))
        return dict(zip(texts, other, strict=True)), dict(zip(texts, same, strict=True))

    def edited(self, supplies: Sequence[Supply], other: dict[str, str]) -> list[list[Generation]]:
        return replies_under_edits(self.reader, supplies, other, **self.asked)


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


def rephrasings(*, mode, profile, weaker, prompts, rephrase_tokens):
    """How surely the judge takes each passage and its other words to say the same, and, as a control, a passage and the one before."""
    rephraser, judge, pool = asking.reader(weaker, mode, CHAPTER), load_judge(profile), data.passages(COMPANION)
    texts = [passage.text for passage in pool]
    other = rephrase(rephraser, texts, load_prompt(prompts["rephrase"]), max_new_tokens=rephrase_tokens)
    table = pd.DataFrame({"id": [passage.id for passage in pool], "faithful": faithful(judge, texts, other)})
    table["control"] = faithful(judge, texts, list(np.roll(texts, 1)))
    return table, asking.facts(rephraser=rephraser)


def companion(*, mode, profile, weaker, prompts, how, other_k, other_k_questions):
    """`rows` of replies under edits, greedy: conditions as in `filtered`, and "k 3" for the first questions with three passages."""
    setup = Setup(mode, profile, weaker, prompts, how)
    supplies = setup.supplies()
    by_k = {k: setup.supplies(k)[:other_k_questions] for k in other_k if k != how["k"]}
    other, same = setup.words(chain(supplies, *by_k.values()))
    drawn = filtered(supplies, setup.edited(supplies, other), other, same)
    for k, part in by_k.items():
        drawn |= under(f"k {k}", part, setup.edited(part, other))
    return rows(setup.questions, drawn, by=setup.judge), setup.facts


def edits(*, mode, profile, weaker, prompts, how):
    """`edit_rows` of the corpus."""
    setup = Setup(mode, profile, weaker, prompts, how)
    supplies = setup.supplies()
    other, same = setup.words(supplies)
    said = setup.edited(supplies, other)
    agreed = agreements(setup.judge.equivalent, setup.questions, under("edits", supplies, said))
    return understanding.edit_rows(supplies, other, said, list(agreed.values()), same), setup.facts


def pairs(*, mode, profile):
    """How surely the judge takes the two answers of each pair of the corpus to mean the same; no reader is asked."""
    contrast = data.load_contrast()
    asked, left, right = zip(*[(pair.question, pair.left, pair.right) for pair in contrast], strict=True)
    same = load_judge(profile).equivalent(asked, left, right)
    return pd.DataFrame({"id": [pair.id for pair in contrast], "embedded": same}), {}


def sampled(*, mode, profile, weaker, prompts, how, drawn, few=None):
    """`rows` of replies at a temperature; not recorded.

    drawn : sampled_questions, the first of the corpus; temperature; samples to the original context ("samples"); edits: whether one reply
            is drawn to each context under edits too ("edits")
    """
    setup = Setup(mode, profile, weaker, prompts, how)
    supplies, cases = setup.supplies()[:few][: drawn["sampled_questions"]], {}
    reader, options = asking.reader(profile, mode), setup.asked | {"temperature": drawn["temperature"]}
    if drawn["edits"]:
        other, _ = setup.words(supplies)
        cases |= under("edits", supplies, replies_under_edits(reader, supplies, other, **options))
    cases |= under("samples", supplies, understanding.samples(reader, supplies, n=drawn["samples"], **options))
    facts = asking.facts(reader=reader, rephraser=setup.rephraser) | {"questions": len(supplies)}
    return rows(setup.questions, cases, by=setup.judge), facts


def long_answers(*, mode, profile, weaker, prompts, how, few=None):
    """`rows` for the corpus's questions with long answers, told by the weaker model, not recorded; words per reply, `overlap_entropy`."""
    setup, asker = Setup(mode, profile, weaker, prompts, how), asking.reader(weaker, "fresh")
    supplies = nearest(data.load("companion_long"), setup.pool, how["k"])[:few]
    other, _ = setup.words(supplies)
    said = replies_under_edits(asker, supplies, other, **setup.asked)
    table = rows([supply.question for supply in supplies], under("edits", supplies, said), by=setup.judge)
    table["words"] = [np.mean([len(reply.text.split()) for reply in replies]) for replies in said]
    table["by_words"] = [understanding.overlap_entropy(replies) for replies in said]
    return table, asking.facts(reader=asker)


def cost(*, mode, profile, weaker, prompts, how, sizes):
    """`cost_rows` of the corpus for several numbers of passages, "k 1" and so on."""
    setup = Setup(mode, profile, weaker, prompts, how)
    by_k = {k: setup.supplies(k) for k in sizes}
    other, _ = setup.words(chain(*by_k.values()))
    asked = {"prompt": setup.prompts["read"], "rephrase": setup.prompts["rephrase"]}
    tables = {k: understanding.cost_rows(setup.reader, part, other, **asked) for k, part in by_k.items()}
    return pd.concat(table.assign(condition=f"k {k}") for k, table in tables.items()), setup.facts


def on_benchmark(*, mode, profile, weaker, prompts, how, dataset, questions, few=None):
    """`rows` on a public benchmark, greedy under edits as in `filtered`, and sampled under the original context ("samples").

    how     : also temperature and samples, of the latter
    returns : (rows, with the columns unfaithful and lost, how many passages of the context were rephrased so that the judge does not
              accept it or that an answer is gone; facts, with the passages that were rephrased, and those that were accepted)
    """
    setup = Setup(mode, profile, weaker, prompts, how, dataset, questions)
    every = setup.supplies()
    supplies = every[:few]
    longest = max(setup.rephraser.count_tokens(text) for supply in every for text in supply.texts())
    other, same = setup.words(supplies, most=min(how["rephrase_tokens"], longest))
    drawn = filtered(supplies, setup.edited(supplies, other), other, same)
    options = setup.asked | {"n": how["samples"], "temperature": how["temperature"]}
    drawn |= under("samples", supplies, understanding.samples(setup.reader, supplies, **options))
    table = rows(setup.questions, drawn, by=setup.judge)
    unfaithful = {text for text, p in same.items() if p < THRESHOLD}
    refused = {one.question.id: sum(text in unfaithful for text in one.texts()) for one in supplies}
    gone = {one.question.id: len(understanding.lost(one, other)) for one in supplies}
    table["unfaithful"], table["lost"] = table["id"].map(refused), table["id"].map(gone)
    facts = setup.facts | {"questions": len(supplies), "left_out": len(setup.questions) - len(every)}
    facts |= {"passages": len(other), "accepted": len(other) - len(unfaithful)}
    return table, facts | benchmarks.source(dataset)
