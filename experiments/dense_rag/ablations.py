"""DENSE-RAG taken apart: every way of cutting, every variant of the refinement, other settings, and what each costs.

One row per question, way or variant ("condition") and rule by which the loop ends ("run").
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from experiments import asking, benchmarks
from experiments.dense_rag import contexts
from experiments.dense_rag.contexts import SEMANTIC, WHOLE
from rag_utils import answers, data, retrieve
from rag_utils.base import checks
from rag_utils.data import Passage, Question
from rag_utils.engine.tree import prefix_tree, size
from rag_utils.measures import dense as measure
from rag_utils.measures.dense import Asked, Outcome, Settings, Supply, Tables
from rag_utils.prompts import load as load_prompt
from rag_utils.score import chunking

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
    returns   : "word" ends when the replies agree or the asked model says that the context is enough; "half" when they agree or it is as
                sure of that as for half of the first contexts; "and" only if both (DENSE, Algorithm 3, line 13); "no limit" is "half" with
                contexts of any length (line 39); "printed" is Algorithm 3 in all of this, lines 8 to 12 too. Repetitions are left out
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
    keys = [(supply.question.id, supply.texts()) for supply in supplied]
    table.fill(keys)
    return {name: table[name, context] for name, context in keys}


def rows(supplied: Sequence[Supply], replies: Asked, condition: str) -> pd.DataFrame:
    """What the reply to each first context is worth: columns id, condition, one per answer metric, unparsable (nothing is left of it)."""
    said = of_first(replies, supplied)
    return pd.DataFrame(_worth(supply.question, said[supply.question.id], condition) for supply in supplied)


def _worth(question: Question, reply: str, condition: str) -> dict:
    scores = {name: metric(reply, list(question.answers)) for name, metric in answers.METRICS.items()}
    return {"id": question.id, "condition": condition} | scores | {"unparsable": int(not answers.normalize(reply))}


def cost(material, supply: Supply, outcome: Outcome) -> dict[str, int]:
    """What a question asked of a model: DENSE, appendix L."""
    steps, reader = outcome.refinement.rounds, material.reader
    texts = [material.settings.shown(reader, supply.question.text, context) for context in outcome.read]
    encoded = [reader.encode(text) for text in texts]
    left_out = sum(role != "certain" for step in steps for role in step.roles)
    return {
        "k": len(supply.first),
        "rounds": len(steps),
        "rephrasings": len({number for step in steps for number in step.context}),
        "replies": len(encoded),
        # both ways: all pairs of every DENSE, and one pair for each chunk left out
        "entailments": sum(len(step.context) * (len(step.context) + 1) for step in steps) + 2 * left_out,
        "tokens": sum(map(len, encoded)),  # every context read in full
        "distinct": size(prefix_tree(encoded)),  # common beginnings read once
        "alone": len(encoded[0]),  # the first context only
    }


def of_outcomes(material, supplied: Sequence[Supply], outcomes: Mapping[str, Outcome], condition: str) -> pd.DataFrame:
    """What the reply to each supplied question is worth, as in `rows`; what became of its context; and `cost`."""
    table = []
    for supply in supplied:
        outcome = outcomes[supply.question.id]
        way, start = outcome.refinement, outcome.refinement.rounds[0]
        row = _worth(supply.question, outcome.reply, condition)
        row |= {"dense": start.entropy, "after": way.rounds[way.best].entropy}  # nats
        row |= {"added": len({*way.context} - {*start.context}), "chunks": len(way.context), "ended": way.ended}
        table.append(row | cost(material, supply, outcome))
    return pd.DataFrame(table)


def tabulated(material, tables: Tables, *, only: Sequence[str] | None = None) -> pd.DataFrame:
    """Every way of cutting a `Material`, and every variant of the refinement for the questions that are uncertain with WHOLE.

    only    : the `rules` to run; None: all
    returns : `of_outcomes` for WHOLE, SEMANTIC and every variant, `rows` for other ways, with the columns run (the rule; "none": nothing is
              refined), uncertain (0 or 1), for ways of cutting holds (an answer is in the first context) and length (its tokens), for
              uncertain questions with SEMANTIC nats, by which the asked model finds the first context enough
    """
    cut, threshold, parts = material.cut, material.how["threshold"], []
    first = {way: measure.understood(cut[way], tables) for way in (WHOLE, SEMANTIC)}
    entropy = {name: outcome.refinement.rounds[0].entropy for name, outcome in first[WHOLE].items()}
    unsure = [supply for supply in cut[SEMANTIC] if entropy[supply.question.id] > threshold]
    nats = of_first(tables.enough, unsure)
    for way, every in cut.items():
        supplied, known = every[: material.few], way in first
        part = of_outcomes(material, supplied, first[way], way) if known else rows(supplied, tables.replies, way)
        lengths = {supply.question.id: sum(map(material.reader.count_tokens, supply.texts())) for supply in supplied}
        part["holds"], part["length"] = part["id"].map(contexts.holds(supplied)), part["id"].map(lengths)
        if way == SEMANTIC:
            part["nats"] = part["id"].map(nats)
        parts.append(part.assign(run="none"))
    half = float(np.median(list(nats.values()) or [0]))
    unsure = [supply for supply in unsure if supply.question.id in set(parts[0]["id"])]
    for rule, variants in rules(half, threshold=threshold, doubling=material.dataset != COMPANION).items():
        if unsure and (only is None or rule in only):
            outcomes = measure.refined(unsure, variants, tables)
            for variant in variants:
                of = {name: outcome for (name, other), outcome in outcomes.items() if other == variant}
                parts.append(of_outcomes(material, unsure, of, variant).assign(run=rule))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(uncertain=(table["id"].map(entropy) > threshold).astype(int))


class Material:
    """A data set, who is asked about it, and its documents, cut in every way.

    dataset : "companion", whose questions share one pool of articles, or a benchmark, whose questions each have documents of their own
    prompts : read, closed, rephrase and sufficient, by name
    how     : k (chunks to begin with), threshold (nats of DENSE up to which a question is certain), tau (least cosine of neighbouring
              sentences of a chunk), max_tokens (of a semantic chunk), max_new_tokens (of a reply)
    few     : refine the first questions only; when a context is enough is decided on all
    """

    def __init__(self, mode, profile, weaker, dataset, n, prompts, how, few=None):
        self.dataset, self.how, self.few = dataset, how, few
        chapter = CHAPTER if dataset == COMPANION else None
        self.reader, self.writer = asking.reader(profile, mode, chapter), asking.reader(weaker, mode, chapter)
        self.asker = asking.reader(weaker, "fresh")  # says whether a context is enough; not recorded
        self.questions = data.load(dataset)[:n] if chapter else list(benchmarks.load(dataset, n).questions)
        self.documents = contexts.documents_of(self.questions, data.passages(dataset))
        self.encode, count = retrieve.encoder(profile), self.writer.count_tokens
        self.ways = {
            way: chunking.recursive_chunks(self.documents, size=length, overlap=overlap, count_tokens=count)
            for way, (length, overlap) in contexts.FIXED.items()
        }
        self.ways[SEMANTIC] = self.semantic(how["tau"])
        self.cut = {way: self.supplied(own, how["k"], self.questions) for way, own in self.ways.items()}
        self.judge, texts = asking.judge(profile, mode=mode, chapter=chapter), list(dict.fromkeys(editable(self.cut, few=few)))
        asked = {name: load_prompt(prompt) for name, prompt in prompts.items()}
        words = measure.rephrase(self.writer, texts, asked.pop("rephrase"), max_new_tokens=how["max_tokens"])
        self.other = dict(zip(texts, words, strict=True))
        self.faithful = dict(zip(texts, map(float, measure.faithful(self.judge, texts, words)), strict=True))
        self.settings = Settings(**asked, max_new_tokens=how["max_new_tokens"])
        who = {"asker": self.asker, "other": measure.accepted(self.other, self.faithful)}
        self.tables = measure.ask_with(self.questions, self.reader, self.judge, self.settings, **who)

    def semantic(self, tau: float) -> list[Passage]:
        how = {"max_tokens": self.how["max_tokens"], "count_tokens": self.writer.count_tokens}
        return chunking.semantic_chunks(self.documents, threshold=tau, encode=self.encode, **how)

    def supplied(self, chunks: Sequence[Passage], k: int, questions: Sequence[Question]) -> list[Supply]:
        """The questions with the chunks that they may use: on the companion those of all documents, on a benchmark of their own."""
        pool = chunks if self.dataset == COMPANION else partial(contexts.own_chunks, chunks)
        return contexts.supplies(questions, pool, k=k, encode=self.encode)

    @property
    def facts(self) -> dict:
        facts = {"questions": len(self.questions), "documents": len(self.documents)}
        return facts | asking.facts(reader=self.reader, asker=self.asker, judge=self.judge) | benchmarks.source(self.dataset)


def editable(cut: Mapping[str, Sequence[Supply]], *, few: int | None = None) -> list[str]:
    """The chunks of first contexts that may be edited, and all that the first few questions may use of SEMANTIC."""
    first = [text for way in (WHOLE, SEMANTIC) for supply in cut[way] for text in supply.texts()]
    return first + [chunk.text for supply in cut[SEMANTIC][:few] for chunk in supply.chunks]


def cut_rows(material) -> pd.DataFrame:
    """The tokens of each chunk, and how surely its other words mean the same, if it has any; the cosines of neighbouring sentences."""
    count, faithful = material.writer.count_tokens, material.faithful
    rows = [
        {"id": chunk.id, "condition": way, "tokens": count(chunk.text), "faithful": faithful.get(chunk.text)}
        for way, own in material.ways.items()
        for chunk in own
    ]
    for number, parts in enumerate(material.documents.values(), 1):
        units = checks.directions("embeddings", material.encode(chunking.sentences_of(parts)))
        for place, cosine in enumerate((units[:-1] * units[1:]).sum(axis=1), 1):
            rows.append({"id": f"d{number:03}s{place:03}", "condition": "neighbours", "cosine": cosine})
    return pd.DataFrame(rows)


def refinements(*, mode, profile, weaker, dataset, questions, prompts, how):
    """`tabulated`, and once more with all other words, whether the judge takes them to mean the same or not; settings as in `Material`."""
    return live_refinements(mode, profile, weaker, dataset, questions, prompts, how)


def live_refinements(mode, profile, weaker, dataset, questions, prompts, how, few=None):
    """`refinements` on a benchmark, of which nothing is recorded."""
    material = Material(mode, profile, weaker, dataset, questions, prompts, how, few)
    table = tabulated(material, material.tables)
    rest = tabulated(material, replace(material.tables, other=material.other), only=("half",))
    rest = rest[rest["condition"].isin([WHOLE, SEMANTIC, *VARIANTS])]
    rest = rest.assign(run=rest["run"] + " unfiltered")
    return pd.concat([table, rest], ignore_index=True), material.facts


def chunks(*, mode, profile, weaker, dataset, questions, prompts, how):
    """`cut_rows`: what cutting makes of the documents; settings as in `Material`."""
    return live_chunks(mode, profile, weaker, dataset, questions, prompts, how)


def live_chunks(mode, profile, weaker, dataset, questions, prompts, how, few=None):
    """`chunks` of a benchmark, of which nothing is recorded; of a few questions only chunks that are shown to no other one."""
    material = Material(mode, profile, weaker, dataset, questions, prompts, how, few)
    others = {*editable(material.cut)} - {*material.other}  # have other words, but not for these questions
    apart = [chunk.id for own in material.ways.values() for chunk in own if chunk.text in others]
    return cut_rows(material).set_index("id").drop(apart).reset_index(), material.facts


def sweeps(*, mode, profile, weaker, dataset, questions, prompts, how, swept):
    """The uncertain questions with other merging thresholds, and with other numbers of chunks: DENSE, Figs. 7 and 8.

    swept   : taus; numbers; few, how many of the uncertain questions are asked with other numbers, the first ones
    returns : `rows`; condition "tau", run the threshold, and length, the mean tokens of its chunks; with the number of chunks as run
              "plain", of WHOLE, and "DENSE-RAG", semantic ones refined without self-evaluation, as `of_outcomes`
    """
    material = Material(mode, profile, weaker, dataset, questions, prompts, how)
    reader, tables, parts = material.reader, material.tables, []
    first = measure.understood(material.cut[WHOLE], tables)
    unsure = {name for name, outcome in first.items() if outcome.refinement.rounds[0].entropy > how["threshold"]}
    asked = [question for question in material.questions if question.id in unsure]
    for tau in swept["taus"]:
        supplied = material.supplied(material.semantic(tau), how["k"], asked)
        length = np.mean([reader.count_tokens(text) for supply in supplied for text in supply.texts()])
        parts.append(rows(supplied, tables.replies, "tau").assign(run=tau, length=length))
    asked, nobody = asked[: swept["few"]], {"enough": None, "threshold": how["threshold"]}
    for number in swept["numbers"]:
        plain, supplied = (material.supplied(material.ways[way], number, asked) for way in (WHOLE, SEMANTIC))
        parts.append(rows(plain, tables.replies, "plain").assign(run=number))
        outcomes = {name: outcome for (name, _), outcome in measure.refined(supplied, {"full": nobody}, tables).items()}
        parts.append(of_outcomes(material, supplied, outcomes, "DENSE-RAG").assign(run=number))
    return pd.concat(parts, ignore_index=True), material.facts
