"""DENSE-RAG taken apart: every way of cutting, every variant of the refinement, other settings, and what each costs.

One row per question, way or variant ("condition") and rule by which the loop ends ("run"); numbers only. The experiments of the chapter
are `refinements`, `chunks` and `sweeps`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from experiments import asking, benchmarks
from experiments.dense_rag import contexts
from experiments.dense_rag.contexts import SEMANTIC, WHOLE
from rag_utils import answers, data, judge, prompts, retrieve
from rag_utils.data import Passage, Question
from rag_utils.engine.tree import prefix_tree, size
from rag_utils.lm import LanguageModel
from rag_utils.measures import dense as measure
from rag_utils.measures.dense import Asked, Outcome, Settings, Supply, Tables

CHAPTER, COMPANION = "05_dense_rag", "companion"
VARIANTS = {
    "only removing": {"refill": "none"},
    "no self-evaluation": {"enough": None},
    "refill on certain": {"refill": "certain"},
    "refill at random": {"shuffled": True},
    "full": {},
}  # of the refinement -> what differs from the full one: DENSE, Table 5, and a control that adds any chunk in place of a near one
UNFILTERED = "half unfiltered"  # the rule "half" where other words count that the judge does not take to mean the same


def rules(half: float, *, threshold: float = 0.2, doubling: bool = False) -> dict[str, dict[str, dict]]:
    """Ways to end the loop -> variants -> options of `measures.dense.refined`.

    half      : nats that half of the first contexts exceed: a decision that needs no label
    threshold : nats of DENSE below which the replies agree
    doubling  : whether certain chunks are refilled without limit too, which up to doubles the context in each round
    returns   : "word" ends when the replies agree or the asked model says that the context is enough; "half" when they agree or the
              model is as sure of that as for half of the first contexts; "and" only if both (DENSE, Algorithm 3, line 13); "no limit" is
              "half" with contexts of any length (line 39); "printed" is Algorithm 3 in all of this, lines 8 to 12 too. What would be the
              same as under another rule is left out
    """

    def of(*names: str, **options) -> dict[str, dict]:
        return {name: {"threshold": threshold} | options | VARIANTS[name] for name in names}

    guided = [name for name in VARIANTS if name != "no self-evaluation"]
    longer = [name for name in VARIANTS if name != "only removing" and (doubling or name != "refill on certain")]
    return {
        "word": of(*VARIANTS),
        "half": of(*VARIANTS, enough=half),
        "and": of(*guided, enough=half, stop_when="and"),
        "no limit": of(*longer, enough=half, limit=None),
        "printed": of("full", enough=half, limit=None, stop_when="and", fallback="guarded"),
    }


def of_first(table: Asked, supplied: Sequence[Supply]) -> dict:
    """Question id -> what one of the `Tables` says of its first context."""
    keys = {supply.question.id: (supply.question.id, supply.texts()) for supply in supplied}
    table.fill(list(keys.values()))
    return {name: table[key] for name, key in keys.items()}


# --- what it is worth and what it costs ------------------------------------------------------------


def rows(questions: Sequence[Question], said: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    """What each reply is worth.

    said    : condition -> question id -> reply
    returns : columns id, condition, one per answer metric (0 .. 1), unparsable (1 if nothing is left of the reply)
    """
    by_id = {question.id: question for question in questions}
    return pd.DataFrame(
        {"id": name, "condition": condition}
        | {score: metric(reply, list(by_id[name].answers)) for score, metric in answers.METRICS.items()}
        | {"unparsable": int(not answers.normalize(reply))}
        for condition, replies in said.items()
        for name, reply in replies.items()
    )


def cost(
    reader: LanguageModel, supplied: Sequence[Supply], outcomes: Mapping[str, Outcome], settings: Settings
) -> pd.DataFrame:
    """What each question asked of a model.

    outcomes : question id -> Outcome
    returns  : columns id, k, rounds, rephrasings (distinct chunks), replies (distinct contexts), entailments (both ways, all pairs of every
               DENSE and one pair for each chunk left out), tokens (every context read in full), distinct (common beginnings read once),
               alone (the first context only)
    source   : DENSE, appendix L
    """
    by_id, table = {supply.question.id: supply for supply in supplied}, []
    for name, outcome in outcomes.items():
        supply, steps = by_id[name], outcome.refinement.rounds
        encoded = [
            reader.encode(measure.shown(reader, settings, supply.question.text, context)) for context in outcome.read
        ]
        left_out = sum(role != "certain" for step in steps for role in step.roles)
        row = {"id": name, "k": len(supply.first), "rounds": len(steps)}
        row |= {"rephrasings": len({number for step in steps for number in step.context}), "replies": len(encoded)}
        row["entailments"] = sum(len(step.context) * (len(step.context) + 1) for step in steps) + 2 * left_out
        row |= {"tokens": sum(map(len, encoded)), "distinct": size(prefix_tree(encoded)), "alone": len(encoded[0])}
        table.append(row)
    return pd.DataFrame(table)


def of_outcomes(
    reader: LanguageModel,
    supplied: Sequence[Supply],
    outcomes: Mapping[str, Outcome],
    settings: Settings,
    *,
    condition: str,
) -> pd.DataFrame:
    """`rows` and `cost` of outcomes, and what became of each context.

    returns : further columns dense (nats, of the first context), after (of the one that was used), added (chunks in it that were not in
              the first), chunks (in it), ended (as in `dense.Refinement`)
    """
    questions = [supply.question for supply in supplied]
    part = rows(questions, {condition: {name: outcome.reply for name, outcome in outcomes.items()}})
    ways = [outcomes[name].refinement for name in part["id"]]
    part["dense"] = [way.rounds[0].entropy for way in ways]
    part["after"] = [way.rounds[way.best].entropy for way in ways]
    part["added"] = [len({*way.context} - {*way.rounds[0].context}) for way in ways]
    part["chunks"] = [len(way.context) for way in ways]
    part["ended"] = [way.ended for way in ways]
    return part.merge(cost(reader, supplied, outcomes, settings), on="id")


def tabulated(
    reader: LanguageModel,
    cut: Mapping[str, Sequence[Supply]],
    tables: Tables,
    settings: Settings,
    *,
    only: Sequence[str] | None = None,
    doubling: bool = False,
    few: int | None = None,
) -> pd.DataFrame:
    """Every way of cutting, and every variant of the refinement for the questions that are uncertain with WHOLE.

    cut      : way of cutting -> the questions with their chunks; WHOLE and SEMANTIC among them
    only     : the `rules` to run; None: all
    doubling : as in `rules`
    few      : rows of the first questions only; when a context is enough is decided on all
    returns  : `of_outcomes` for WHOLE, SEMANTIC and every variant, `rows` for other ways, with the columns run (the rule; "none": nothing
               is refined), uncertain (0 or 1), and, for ways of cutting, holds (an answer is in the first context) and length (its tokens),
               and for SEMANTIC and uncertain questions nats, by which the asked model finds the first context enough
    """
    first = {way: measure.understood(cut[way], tables) for way in (WHOLE, SEMANTIC)}
    entropy = {name: outcome.refinement.rounds[0].entropy for name, outcome in first[WHOLE].items()}
    again = [supply for supply in cut[SEMANTIC] if entropy[supply.question.id] > settings.threshold]
    nats, parts = of_first(tables.enough, again), []
    ids = {supply.question.id for supply in cut[WHOLE][:few]}
    for way, supplied in cut.items():
        supplied = supplied[:few]
        if way in first:
            outcomes = {name: outcome for name, outcome in first[way].items() if name in ids}
            part = of_outcomes(reader, supplied, outcomes, settings, condition=way)
        else:
            part = rows([supply.question for supply in supplied], {way: of_first(tables.replies, supplied)})
        part["holds"] = part["id"].map(contexts.holds(supplied))
        lengths = {supply.question.id: sum(map(reader.count_tokens, supply.texts())) for supply in supplied}
        part["length"] = part["id"].map(lengths)
        if way == SEMANTIC:
            part["nats"] = part["id"].map(nats)
        parts.append(part.assign(run="none"))
    half = float(np.median(list(nats.values()) or [0]))
    again = [supply for supply in again if supply.question.id in ids]
    for rule, variants in rules(half, threshold=settings.threshold, doubling=doubling).items():
        if not again or (only is not None and rule not in only):
            continue
        outcomes = measure.refined(again, variants, tables)
        for variant in variants:
            of = {name: outcome for (name, other), outcome in outcomes.items() if other == variant}
            parts.append(of_outcomes(reader, again, of, settings, condition=variant).assign(run=rule))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(uncertain=table["id"].map(lambda name: int(entropy[name] > settings.threshold)))


# --- experiments -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Material:
    """A data set, who is asked about it, and its documents, cut in every way.

    dataset : "companion", whose questions share one pool of articles, or a benchmark, whose questions each have documents of their own
    prompts : read, closed, rephrase and sufficient, by name
    how     : k, threshold, tau, max_tokens and max_new_tokens: chunks to begin with, nats of DENSE up to which a question is certain,
              least cosine of neighbouring sentences of a chunk, most tokens of a semantic chunk and of a reply
    few     : refine the first questions only
    """

    mode: str
    profile: str
    weaker: str
    dataset: str
    n: int
    prompts: Mapping[str, str]
    how: Mapping[str, float]
    few: int | None = None

    @cached_property
    def settings(self) -> Settings:
        asked = {name: prompts.load(prompt) for name, prompt in self.prompts.items() if name != "rephrase"}
        return Settings(**asked, **{name: self.how[name] for name in ("k", "threshold", "max_new_tokens")})

    @cached_property
    def reader(self) -> LanguageModel:
        return asking.reader(self.profile, self.mode, CHAPTER if self.dataset == COMPANION else None)

    @cached_property
    def writer(self) -> LanguageModel:
        return asking.reader(self.weaker, self.mode, CHAPTER if self.dataset == COMPANION else None)

    @cached_property
    def asker(self) -> LanguageModel:
        """Says whether a context is enough; its replies are not recorded."""
        return asking.reader(self.weaker, "fresh")

    @cached_property
    def questions(self) -> list[Question]:
        if self.dataset == COMPANION:
            return data.load(self.dataset)[: self.n]
        return list(benchmarks.load(self.dataset, self.n).questions)

    @cached_property
    def documents(self) -> dict[str, tuple[Passage, ...]]:
        return contexts.documents_of(self.questions, data.passages(self.dataset))

    @cached_property
    def encode(self) -> retrieve.Encoder:
        return retrieve.encoder()

    @cached_property
    def ways(self) -> dict[str, list[Passage]]:
        """Way of cutting -> the chunks of all documents."""
        return contexts.cuts(self.documents, tau=self.how["tau"], **self.cutting)

    @property
    def cutting(self) -> dict:
        how = {"max_tokens": self.how["max_tokens"], "count_tokens": self.writer.count_tokens}
        return how | {"encode": self.encode}

    def supplied(self, chunks: Sequence[Passage], k: int, questions: Sequence[Question]) -> list[Supply]:
        """The questions with the chunks that they may use: on the companion those of all documents, on a benchmark of their own."""
        pool = chunks if self.dataset == COMPANION else contexts.own_chunks(chunks)
        return contexts.supplies(questions, pool, k=k, encode=self.encode)

    @cached_property
    def cut(self) -> dict[str, list[Supply]]:
        """Way of cutting -> the questions with their chunks."""
        return {way: self.supplied(own, self.settings.k, self.questions) for way, own in self.ways.items()}

    @cached_property
    def other(self) -> dict[str, str]:
        """In other words: what is `editable`."""
        texts = editable(self.cut, few=self.few)
        prompt = prompts.load(self.prompts["rephrase"])
        words = measure.rephrase(self.writer, texts, prompt, max_new_tokens=self.how["max_tokens"])
        return dict(zip(texts, words, strict=True))

    @cached_property
    def faithful(self) -> dict[str, float]:
        probability = measure.faithful(judge.load_judge(self.profile), list(self.other), list(self.other.values()))
        return dict(zip(self.other, map(float, probability), strict=True))

    @cached_property
    def tables(self) -> Tables:
        models = self.reader, judge.load_judge(self.profile), self.settings
        return measure.ask_with(
            self.questions, *models, other=measure.accepted(self.other, self.faithful), asker=self.asker
        )

    @property
    def facts(self) -> dict:
        computed = sum(model.count.computed for model in (self.writer, self.reader, self.asker))
        facts = {"questions": len(self.questions), "documents": len(self.documents), "computed_tokens": computed}
        facts |= asking.facts(reader=self.reader, asker=self.asker)
        return facts if self.dataset == COMPANION else facts | benchmarks.source(self.dataset)


def editable(cut: Mapping[str, Sequence[Supply]], *, few: int | None = None) -> list[str]:
    """The chunks that may be edited: those of the first contexts of WHOLE, and all that may be used of SEMANTIC.

    few : of all but the first questions only those of the first contexts
    """
    texts = [text for supply in cut[WHOLE] for text in supply.texts()]
    texts += [chunk.text for supply in cut[SEMANTIC][:few] for chunk in supply.chunks]
    return list(dict.fromkeys(texts + [text for supply in cut[SEMANTIC] for text in supply.texts()]))


def refinements(*, mode, profile, weaker, dataset, questions, prompts, how):
    """`tabulated`, and once more with all other words, whether the judge takes them to mean the same or not; settings as in `Material`."""
    return _refinements(Material(mode, profile, weaker, dataset, questions, prompts, how))


def live_refinements(*, mode, profile, weaker, dataset, questions, prompts, how, few=None):
    """`refinements` on a benchmark, of which nothing is recorded."""
    return _refinements(Material(mode, profile, weaker, dataset, questions, prompts, how, few))


def _refinements(material: Material) -> tuple[pd.DataFrame, dict]:
    models = {"reader": material.reader, "cut": material.cut, "settings": material.settings, "few": material.few}
    table = tabulated(**models, tables=material.tables, doubling=material.dataset != COMPANION)
    every_word = replace(material.tables, other=material.other)
    rest = tabulated(**models, tables=every_word, only=("half",))
    rest = rest[rest["condition"].isin([WHOLE, SEMANTIC, *VARIANTS])]
    rest = rest.assign(run=rest["run"].map({"none": "none unfiltered", "half": UNFILTERED}))
    return pd.concat([table, rest], ignore_index=True), material.facts


def chunks(*, mode, profile, weaker, dataset, questions, prompts, how):
    """`contexts.cut_rows`: what cutting makes of the documents; settings as in `Material`."""
    return _chunks(Material(mode, profile, weaker, dataset, questions, prompts, how))


def live_chunks(*, mode, profile, weaker, dataset, questions, prompts, how, few=None):
    """`chunks` of a benchmark, of which nothing is recorded; of a few questions only chunks that are shown to no other one."""
    return _chunks(Material(mode, profile, weaker, dataset, questions, prompts, how, few))


def _chunks(material: Material) -> tuple[pd.DataFrame, dict]:
    how = {"count_tokens": material.writer.count_tokens, "encode": material.encode}
    table = contexts.cut_rows(material.documents, material.ways, faithful=material.faithful, **how)
    others = {*editable(material.cut)} - {*material.other}  # have other words, but not for these questions
    apart = {chunk.id for own in material.ways.values() for chunk in own if chunk.text in others}
    return table[~table["id"].isin(apart)], material.facts


def sweeps(*, mode, profile, weaker, dataset, questions, prompts, how, swept):
    """The uncertain questions with other merging thresholds, and with other numbers of chunks: DENSE, Figs. 7 and 8.

    swept   : taus; numbers; few, how many of the uncertain questions are asked with other numbers, the first ones
    returns : `rows`; condition "tau" with the threshold as run, and length, the mean tokens of its chunks; "plain", chunks of WHOLE, with
              their number as run; "DENSE-RAG", semantic chunks refined without self-evaluation, as `of_outcomes`
    """
    material = Material(mode, profile, weaker, dataset, questions, prompts, how)
    reader, settings, tables = material.reader, material.settings, material.tables
    first = measure.understood(material.cut[WHOLE], tables)
    unsure = {name for name, one in first.items() if one.refinement.rounds[0].entropy > settings.threshold}
    asked = [question for question in material.questions if question.id in unsure]
    parts = []
    for tau in swept["taus"]:
        cut = contexts.semantic_chunks(material.documents, threshold=tau, **material.cutting)
        supplied = material.supplied(cut, settings.k, asked)
        length = np.mean([reader.count_tokens(text) for supply in supplied for text in supply.texts()])
        said = {"tau": of_first(tables.replies, supplied)}
        parts.append(rows(asked, said).assign(run=tau, length=length))
    asked, nobody = asked[: swept["few"]], {"enough": None, "threshold": settings.threshold}
    for number in swept["numbers"]:
        plain = of_first(tables.replies, material.supplied(material.ways[WHOLE], number, asked))
        parts.append(rows(asked, {"plain": plain}).assign(run=number))
        supplied = material.supplied(material.ways[SEMANTIC], number, asked)
        outcomes = {name: one for (name, _), one in measure.refined(supplied, {"full": nobody}, tables).items()}
        parts.append(of_outcomes(reader, supplied, outcomes, settings, condition="DENSE-RAG").assign(run=number))
    return pd.concat(parts, ignore_index=True), material.facts
