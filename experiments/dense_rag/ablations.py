"""DENSE-RAG taken apart: every way of cutting, every variant of the refinement, other settings, and what each costs.

One row per question, way or variant ("condition") and rule by which the loop ends ("run"); numbers only.

    some = material("squad", 60, settings, count_tokens=reader.count_tokens, encode=retrieve.encoder())
    tables, facts = measured(reader, asker, judge, some, other_words(asker, editable(some.cut), settings), settings)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from experiments.benchmarks import sample
from experiments.dense_rag.contexts import (
    SEMANTIC,
    WHOLE,
    Case,
    cases,
    cut_rows,
    cuts,
    documents_of,
    holds,
    own_chunks,
    semantic_chunks,
)
from experiments.dense_rag.refinement import (
    Asked,
    Outcome,
    Settings,
    Tables,
    accepted,
    ask_with,
    filled,
    refined,
    replied,
    sufficiency,
    together,
    understood,
)
from experiments.dense_thresholds.rephrasing import faithful, rephrase
from rag_utils import answers, data, retrieve
from rag_utils.corpora import manifest
from rag_utils.data import Passage, Question
from rag_utils.engine.tree import prefix_tree, size
from rag_utils.judge import Judge
from rag_utils.lm import LanguageModel

VARIANTS = {
    "only removing": {"refill": "none"},
    "no self-evaluation": {"enough": None},
    "refill on certain": {"refill": "certain"},
    "refill at random": {"shuffled": True},
    "full": {},
}  # of the refinement -> what differs from the full one: DENSE, Table 5, and a control that adds any chunk in place of a near one
UNFILTERED = "half unfiltered"  # the rule "half" where other words count that the judge does not take to mean the same


def rules(half: float, *, threshold: float = 0.2, doubling: bool = False) -> dict[str, dict[str, dict]]:
    """Ways to end the loop -> variants -> options of `refinement.refined`.

    half      : nats that half of the first contexts exceed, see `halves`
    threshold : nats of DENSE below which the replies agree
    doubling  : whether certain chunks are refilled without limit too, which up to doubles the context in each round
    returns   : "word" ends when the replies agree or the asked model says that the context is enough; "half" when they agree or the
              model is as sure of that as for half of the first contexts; "and" only if both (DENSE, Algorithm 3, line 13); "no limit" is
              "half" with contexts of any length (line 39); "printed" is Algorithm 3 in all of this, lines 8 to 12 too. What would be the
              same as under another rule is left out
    """

    def some(*names: str, **options) -> dict[str, dict]:
        return {name: {"threshold": threshold} | options | VARIANTS[name] for name in names}

    guided = [name for name in VARIANTS if name != "no self-evaluation"]
    longer = [name for name in VARIANTS if name != "only removing" and (doubling or name != "refill on certain")]
    return {
        "word": some(*VARIANTS),
        "half": some(*VARIANTS, enough=half),
        "and": some(*guided, enough=half, stop_when="and"),
        "no limit": some(*longer, enough=half, limit=None),
        "printed": some("full", enough=half, limit=None, stop_when="and", fallback="guarded"),
    }


def halves(tables: Tables, some: Sequence[Case]) -> float:
    """The nats of `Tables.enough` that half of the first contexts exceed: a decision that needs no label."""
    return float(np.median(list(_opinions(tables, some).values())))


def _opinions(tables: Tables, some: Sequence[Case]) -> dict[str, float]:
    """Question id -> `Tables.enough` of its first context."""
    keys = [(case.question.id, case.texts(case.first)) for case in some]
    nats = together({"all": lambda: tables.enough.of(keys)}, tables)["all"]
    return {name: value for (name, _), value in zip(keys, nats, strict=True)}


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
    reader: LanguageModel, some: Sequence[Case], outcomes: Mapping[str, Outcome], settings: Settings
) -> pd.DataFrame:
    """What each question asked of a model.

    outcomes : question id -> Outcome
    returns  : columns id, k, rounds, rephrasings (distinct chunks), replies (distinct contexts), entailments (both ways, all pairs of every
               DENSE and one pair for each chunk left out), tokens (every context read in full), distinct (common beginnings read once),
               alone (the first context only)
    source   : DENSE, appendix L
    """
    by_id, table = {case.question.id: case for case in some}, []
    for name, outcome in outcomes.items():
        case, steps = by_id[name], outcome.refinement.rounds
        texts = [filled(reader, settings, case.question.text, context) for context in outcome.read]
        encoded = [reader.encode(text) for text in texts]
        left_out = sum(role != "certain" for step in steps for role in step.roles)
        row = {"id": name, "k": len(case.first), "rounds": len(steps)}
        row |= {"rephrasings": len({number for step in steps for number in step.context}), "replies": len(encoded)}
        row["entailments"] = sum(len(step.context) * (len(step.context) + 1) for step in steps) + 2 * left_out
        row |= {"tokens": sum(map(len, encoded)), "distinct": size(prefix_tree(encoded)), "alone": len(encoded[0])}
        table.append(row)
    return pd.DataFrame(table)


def of_outcomes(
    reader: LanguageModel, some: Sequence[Case], outcomes: Mapping[str, Outcome], settings: Settings, *, condition: str
) -> pd.DataFrame:
    """`rows` and `cost` of outcomes, and what became of each context.

    returns : further columns dense (nats, of the first context), after (of the one that was used), added (chunks in it that were not in
              the first), chunks (in it), ended (as in `dense.Refinement`)
    """
    questions = [case.question for case in some]
    part = rows(questions, {condition: {name: outcome.reply for name, outcome in outcomes.items()}})
    found = {name: outcome.refinement for name, outcome in outcomes.items()}
    part["dense"] = part["id"].map({name: one.rounds[0].entropy for name, one in found.items()})
    part["after"] = part["id"].map({name: one.rounds[one.best].entropy for name, one in found.items()})
    part["added"] = part["id"].map({name: len(outcome.added) for name, outcome in outcomes.items()})
    part["chunks"] = part["id"].map({name: len(one.context) for name, one in found.items()})
    part["ended"] = part["id"].map({name: one.ended for name, one in found.items()})
    return part.merge(cost(reader, some, outcomes, settings), on="id")


# --- everything on one data set --------------------------------------------------------------------


@dataclass(frozen=True)
class Material:
    """Questions of a data set, the documents that they are about, the chunks of these and the cases, by way of cutting."""

    name: str
    questions: tuple[Question, ...]
    documents: Mapping[str, Sequence[Passage]]
    ways: Mapping[str, Sequence[Passage]]
    cut: Mapping[str, Sequence[Case]]
    encode: retrieve.Encoder

    def pool(self, chunks: Sequence[Passage]) -> Sequence[Passage] | Callable[[Question], Sequence[Passage]]:
        """What a question may use: on the companion the chunks of all documents, on a benchmark those of its own."""
        return chunks if self.name == "companion" else own_chunks(chunks)

    def cases(self, way: str, k: int) -> list[Case]:
        return cases(self.questions, self.pool(self.ways[way]), k=k, encode=self.encode)


def material(
    name: str, n: int, settings: Settings, *, count_tokens: Callable[[str], int], encode: retrieve.Encoder
) -> Material:
    """The first n questions of a data set and their documents, cut in every way.

    name : "companion", whose questions share one pool of articles, or a benchmark, whose questions each have documents of their own
    """
    every = data.load(name)
    questions = tuple(every[:n]) if name == "companion" else tuple(sample(name, min(n, len(every))))
    some = documents_of(questions, data.passages(name))
    how = {"tau": settings.tau, "max_tokens": settings.max_tokens, "count_tokens": count_tokens, "encode": encode}
    found = Material(name, questions, some, cuts(some, **how), {}, encode)
    return replace(found, cut={way: found.cases(way, settings.k) for way in found.ways})


def editable(cut: Mapping[str, Sequence[Case]]) -> list[str]:
    """The chunks that may be edited: those of the first contexts of WHOLE, and all that may be used of SEMANTIC."""
    texts = [text for case in cut[WHOLE] for text in case.texts(case.first)]
    return list(dict.fromkeys(texts + [chunk.text for case in cut[SEMANTIC] for chunk in case.chunks]))


def other_words(asker: LanguageModel, texts: Sequence[str], settings: Settings) -> dict[str, str]:
    """Each text in other words, of at most as many tokens as a chunk may have."""
    words = rephrase(asker, texts, settings.rephrase, max_new_tokens=settings.max_tokens)
    return dict(zip(texts, words, strict=True))


def tabulated(
    reader: LanguageModel,
    questions: Sequence[Question],
    cut: Mapping[str, Sequence[Case]],
    tables: Tables,
    settings: Settings,
    *,
    only: Sequence[str] | None = None,
    doubling: bool = False,
) -> tuple[pd.DataFrame, dict[tuple[str, str, str], Outcome]]:
    """Every way of cutting, and every variant of the refinement for the questions that are uncertain with WHOLE.

    cut      : way of cutting -> cases; WHOLE and SEMANTIC among them
    only     : the `rules` to run; None: all
    doubling : as in `rules`
    returns  : (`of_outcomes` for WHOLE, SEMANTIC and every variant, `rows` for other ways, with the columns run (the rule; "none":
               nothing is refined), uncertain (0 or 1), and, for ways of cutting, holds (an answer is in the first context) and length
               (its tokens), and for SEMANTIC and uncertain questions nats (`Tables.enough` of the first context); (question id, rule,
               variant) -> Outcome)
    """
    first = {way: understood(cut[way], tables) for way in (WHOLE, SEMANTIC)}
    uncertain = {name for name, outcome in first[WHOLE].items() if outcome.entropy > settings.threshold}
    again = [case for case in cut[SEMANTIC] if case.question.id in uncertain]
    parts, outcomes = [], {}
    for way, held in cut.items():
        if way in first:
            part = of_outcomes(reader, held, first[way], settings, condition=way)
        else:
            part = rows(questions, {way: replied(held, tables)})
        part["holds"] = part["id"].map(holds(held))
        lengths = {case.question.id: sum(map(reader.count_tokens, case.texts(case.first))) for case in held}
        part["length"] = part["id"].map(lengths)
        if way == SEMANTIC:
            part["nats"] = part["id"].map(_opinions(tables, again))
        parts.append(part.assign(run="none"))
    how = {"threshold": settings.threshold, "doubling": doubling}
    for rule, variants in rules(halves(tables, again), **how).items() if again else ():
        if only is not None and rule not in only:
            continue
        found = refined(again, variants, tables)
        outcomes |= {(name, rule, variant): outcome for (name, variant), outcome in found.items()}
        for variant in variants:
            of = {name: outcome for (name, other), outcome in found.items() if other == variant}
            parts.append(of_outcomes(reader, again, of, settings, condition=variant).assign(run=rule))
    table = pd.concat(parts, ignore_index=True)
    table["uncertain"] = table["id"].isin(uncertain).astype(int)
    return table, outcomes


def sweeps(
    reader: LanguageModel,
    some: Material,
    tables: Tables,
    settings: Settings,
    *,
    taus: Sequence[float] = (),
    numbers: Sequence[int] = (),
    few: int | None = None,
) -> pd.DataFrame:
    """The same questions with other merging thresholds, and with other numbers of chunks: DENSE, Figs. 7 and 8.

    few     : questions for `numbers`, the first ones; None: all
    returns : `rows`; condition "tau" with the threshold as run, and length, the mean tokens of its chunks; "plain", chunks of WHOLE, with
              their number as run; "DENSE-RAG", semantic chunks refined without self-evaluation, as `of_outcomes`
    """
    parts = []
    if not some.questions:
        taus = numbers = ()
    for tau in taus:
        how = {"threshold": tau, "max_tokens": settings.max_tokens, "count_tokens": reader.count_tokens}
        chunks = semantic_chunks(some.documents, encode=some.encode, **how)
        held = cases(some.questions, some.pool(chunks), k=settings.k, encode=some.encode)
        lengths = np.mean([reader.count_tokens(text) for case in held for text in case.texts(case.first)])
        parts.append(rows(some.questions, {"tau": replied(held, tables)}).assign(run=tau, length=lengths))
    some, nobody = replace(some, questions=some.questions[:few]), {"enough": None, "threshold": settings.threshold}
    for number in numbers:
        plain = replied(some.cases(WHOLE, number), tables)
        parts.append(rows(some.questions, {"plain": plain}).assign(run=number))
        held = some.cases(SEMANTIC, number)
        found = {name: one for (name, _), one in refined(held, {"full": nobody}, tables).items()}
        parts.append(of_outcomes(reader, held, found, settings, condition="DENSE-RAG").assign(run=number))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["id", "condition", "run"])


def measured(
    reader: LanguageModel,
    asker: LanguageModel,
    judge: Judge,
    some: Material,
    other: Mapping[str, str],
    settings: Settings,
    *,
    taus: Sequence[float] = (),
    numbers: Sequence[int] = (),
    few: int | None = None,
    doubling: bool = False,
) -> tuple[dict[str, pd.DataFrame], dict]:
    """Everything that the chapter says about one data set.

    other              : as `other_words` returns it for what is `editable`
    taus, numbers, few : of `sweeps`, for the questions that are uncertain
    doubling           : as in `rules`
    returns            : ({"rows": `tabulated`, with the rule UNFILTERED too; "cuts": `contexts.cut_rows`; "sweeps": `sweeps`}, what they
                         were measured with)
    """
    same = dict(zip(other, map(float, faithful(judge, list(other), list(other.values()))), strict=True))
    weigh = sufficiency(asker, some.questions, settings.sufficient)
    tables = ask_with(some.questions, reader, judge, settings, other=accepted(other, same), weigh=weigh)
    table, _ = tabulated(reader, some.questions, some.cut, tables, settings, doubling=doubling)
    everything = replace(tables, other=Asked(tables.other.ask, other))
    rest, _ = tabulated(reader, some.questions, some.cut, everything, settings, only=("half",))
    rest = rest[rest["condition"].isin([WHOLE, SEMANTIC, *VARIANTS])]
    rest = rest.assign(run=rest["run"].map({"none": "none unfiltered", "half": UNFILTERED}))
    unsure = set(table.query("uncertain == 1")["id"])
    fewer = replace(some, questions=tuple(question for question in some.questions if question.id in unsure))
    swept = sweeps(reader, fewer, tables, settings, taus=taus, numbers=numbers, few=few)
    how = {"count_tokens": reader.count_tokens, "encode": some.encode, "faithful": same}
    found = {"rows": pd.concat([table, rest], ignore_index=True), "sweeps": swept}
    found["cuts"] = cut_rows(some.documents, some.ways, **how)
    return found, facts_of(reader, asker, some, settings)


def facts_of(reader: LanguageModel, asker: LanguageModel, some: Material, settings: Settings) -> dict:
    """What numbers were measured with."""
    asked = (settings.read, settings.closed, settings.rephrase, settings.sufficient)
    facts = {"reader": reader.name, "fingerprint": reader.fingerprint, "asker": asker.fingerprint}
    facts |= {"dtype": reader.profile.dtype, "prompts": {prompt.name: prompt.digest for prompt in asked}}
    facts |= {name: getattr(settings, name) for name in ("k", "threshold", "tau", "max_tokens", "max_new_tokens")}
    facts |= {"questions": len(some.questions), "documents": len(some.documents)}
    if some.name == "companion":
        return facts
    entry = manifest.entries()[some.name]
    return facts | {"source": entry.source, "sha256": entry.sha256}
