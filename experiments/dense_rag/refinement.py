"""DENSE-RAG on many questions: ask, and where the replies move, exchange chunks until they agree.

`dense.refine` is written for one question whose reader answers at once. Here whatever it looks up is looked up in a table. What the
table does not hold ends the attempt; it is asked together with what all other questions miss, and the attempt is made again.

    tables = ask_with(questions, reader, judge, settings, other=rephrased, weigh=sufficiency(asker, questions, prompt))
    found = refined(contexts.cases(questions, chunks, k=5, encode=retrieve.encoder()), {"full": {}}, tables)
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from experiments.dense_rag.contexts import Case, Context
from rag_utils import dense
from rag_utils.data import Question
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import LanguageModel, word_log_likelihoods
from rag_utils.prompts import Prompt, prompt_text


@dataclass(frozen=True)
class Settings:
    """What the method is run with.

    k          : chunks to begin with
    threshold  : nats of DENSE up to which a question is certain
    tau        : least cosine of neighbouring sentences of one chunk
    max_tokens : most tokens of a semantic chunk
    """

    read: Prompt
    closed: Prompt
    rephrase: Prompt
    sufficient: Prompt
    k: int = 5
    threshold: float = 0.2
    tau: float = 0.2
    max_tokens: int = 128
    max_new_tokens: int = 24


# --- tables ----------------------------------------------------------------------------------------


class _Unknown(Exception):
    """Something was looked up that has not been asked yet."""


class Asked(dict):
    """Replies by what was asked. What is looked up and not there is noted, and asked with everything else that is noted.

    ask : list of keys -> their values
    """

    def __init__(self, ask: Callable[[list], Sequence], known: Mapping | None = None):
        super().__init__(known or {})
        self.ask, self.noted = ask, {}

    def of(self, keys: Sequence[Hashable]) -> list:
        """The values of keys. raises : an exception that `together` understands if one is not known"""
        missing = [key for key in keys if key not in self]
        if missing:
            self.noted.update(dict.fromkeys(missing))
            raise _Unknown
        return [self[key] for key in keys]

    def settle(self) -> int:
        """Ask what is noted, in one call, and return how much it was."""
        keys, self.noted = list(self.noted), {}
        if keys:
            self.update(zip(keys, self.ask(keys), strict=True))
        return len(keys)


@dataclass(frozen=True)
class Tables:
    """What is known of the reader, the rephraser and the judge.

    other   : text -> the same in other words
    replies : (question id, context) -> the reader's reply
    same    : (question id, reply, reply) -> how far the first agrees with the second, 0 .. 1
    enough  : (question id, context) -> nats, above 0 where the asked model says that the context is enough
    """

    other: Asked
    replies: Asked
    same: Asked
    enough: Asked

    def settle(self) -> int:
        return sum(table.settle() for table in (self.other, self.replies, self.same, self.enough))


def together(jobs: Mapping[Hashable, Callable], tables: Tables) -> dict:
    """The results of all jobs, functions without arguments that look up what they need; whatever they miss is asked at once.

    A job is called again from its beginning after each round of asking, so it must do nothing but look up and compute.

    returns : the results under the jobs' names
    raises  : RuntimeError if jobs are left that wait for nothing
    """
    results = {}
    while waiting := [name for name in jobs if name not in results]:
        for name in waiting:
            try:
                results[name] = jobs[name]()
            except _Unknown:
                pass
        if not tables.settle() and any(name not in results for name in jobs):
            raise RuntimeError("jobs look up what no table was asked for; give them the tables that are settled")
    return results


def ask_with(
    questions: Sequence[Question],
    reader: LanguageModel,
    judge: Judge,
    settings: Settings,
    *,
    other: Mapping[str, str],
    weigh: Callable[[list[tuple[str, Context]]], Sequence[float]] | None = None,
) -> Tables:
    """Tables that ask this reader and this judge.

    other : text -> the same in other words, for every chunk that may be looked up
    weigh : for `Tables.enough`, as `sufficiency` makes it; None: looking there is a ValueError
    """
    text_of = {question.id: question.text for question in questions}

    def reply(keys):
        asked = [filled(reader, settings, text_of[name], context) for name, context in keys]
        return [said[0].text.strip() for said in reader.generate(asked, max_new_tokens=settings.max_new_tokens)]

    def agree(keys):
        names, left, right = zip(*keys, strict=True)
        return [float(p) for p in judge.equivalent([text_of[name] for name in names], left, right)]

    def nobody(keys):
        raise ValueError(
            f"{len(keys)} values are looked up and nobody is there to ask; give all of them, or whom to ask"
        )

    return Tables(Asked(nobody, other), Asked(reply), Asked(agree), Asked(weigh or nobody))


def filled(reader: LanguageModel, settings: Settings, question: str, context: Context) -> str:
    """What the reader is shown: the question with the context's chunks, or, of one chunk left out, without any."""
    if not context:
        return prompt_text(reader, settings.closed, question=question)
    return prompt_text(reader, settings.read, question=question, documents=list(context))


def sufficiency(asker: LanguageModel, questions: Sequence[Question], prompt: Prompt) -> Callable:
    """What `Tables.enough` asks: how much likelier the asker says "Yes" than "No" when asked whether a context is enough.

    source : DENSE, appendix B.3. There the word that is generated counts; here its likelihood, so that every reply can be parsed
    """
    text_of = {question.id: question.text for question in questions}

    def weigh(keys: list[tuple[str, Context]]) -> list[float]:
        texts = [prompt_text(asker, prompt, question=text_of[name], documents=list(own)) for name, own in keys]
        found = word_log_likelihoods(asker, texts, ("Yes", "No"))
        return (found[:, 0] - found[:, 1]).tolist()

    return weigh


def accepted(other: Mapping[str, str], same: Mapping[str, float], *, least: float = THRESHOLD) -> dict[str, str]:
    """The other words that mean the same; a text that was rephrased badly stands for itself.

    Such an edit changes nothing, so its chunk is certain without being tested.

    other : text -> the same in other words
    same  : text -> how surely the judge takes them to mean the same, 0 .. 1
    """
    return {text: words if same[text] >= least else text for text, words in other.items()}


# --- one question ----------------------------------------------------------------------------------


@dataclass
class _Look:
    """One attempt at a question: what `dense.refine` asks, answered from the tables, and which contexts were read for it."""

    case: Case
    tables: Tables
    least: float = 0.0
    read: dict[Context, None] = field(default_factory=dict)

    def replies(self, contexts: Sequence[Sequence[str]]) -> list[str]:
        keys = [(self.case.question.id, tuple(context)) for context in contexts]
        self.read.update(dict.fromkeys(context for _, context in keys))
        return self.tables.replies.of(keys)

    def links(self, said: Sequence[str]) -> np.ndarray:
        """`dense.adjacency` of replies; equal ones entail each other without being asked about."""
        name = self.case.question.id
        pairs = [(a, b) for a, b in combinations(dict.fromkeys(said), 2)]
        pairs += [(b, a) for a, b in pairs]
        agreed = dict(zip(pairs, self.tables.same.of([(name, *pair) for pair in pairs]), strict=True))
        return dense.adjacency([[a == b or agreed[a, b] >= THRESHOLD for b in said] for a in said])

    def agree(self, numbers: Sequence[int]) -> np.ndarray:
        texts = self.case.texts(numbers)
        edits = dense.single_edit_contexts(list(texts), self.tables.other.of(texts))
        return self.links(self.replies(edits))

    def without(self, numbers: Sequence[int], places: Sequence[int]) -> list[float]:
        texts = self.case.texts(numbers)
        left = dense.contexts_without_one(list(texts))
        original, *shorter = self.replies([texts, *(left[place] for place in places)])
        name, changed = self.case.question.id, [reply for reply in dict.fromkeys(shorter) if reply != original]
        ways = [pair for reply in changed for pair in ((name, original, reply), (name, reply, original))]
        self.tables.same.of(ways)  # all at once
        return [float(self.links([original, reply])[0, 1]) for reply in shorter]

    def sufficient(self, numbers: Sequence[int]) -> bool:
        [nats] = self.tables.enough.of([(self.case.question.id, self.case.texts(numbers))])
        return nats > self.least


@dataclass(frozen=True)
class Outcome:
    """What became of a question.

    refinement : as `dense.refine` returns it
    reply      : to the context that it ends with
    read       : every context that the reader was shown for it
    links      : (n, n) agreement of the replies, for the first context and for the last
    """

    refinement: dense.Refinement
    reply: str
    read: tuple[Context, ...]
    links: tuple[np.ndarray, np.ndarray] = field(compare=False)

    @property
    def entropy(self) -> float:
        """DENSE of the first context, nats."""
        return self.refinement.rounds[0].entropy

    @property
    def added(self) -> set[int]:
        """Chunks of the last context that were not in the first."""
        return set(self.refinement.context) - set(self.refinement.rounds[0].context)


def refined(some: Sequence[Case], variants: Mapping[str, Mapping], tables: Tables) -> dict[tuple[str, str], Outcome]:
    """`dense.refine` for every question and every variant, each with the same results as alone; all advance together.

    variants : name -> options of `dense.refine`, and `enough`: the nats that a context must exceed to be sufficient, 0 unless told;
               None: nobody asks; `shuffled`: True gives each chunk the embedding of another one, so that what is added is random;
               `limit`: most chunks in a context, as many as the question begins with unless told; None: no limit
    returns  : (question id, variant) -> Outcome
    source   : DENSE, section 5.2 and Table 5
    """

    def job(case: Case, options: Mapping):
        options = {"limit": len(case.first)} | dict(options)
        least, embeddings = options.pop("enough", 0.0), case.embeddings
        if options.pop("shuffled", False):
            embeddings = np.random.default_rng(0).permutation(embeddings)
        look = _Look(case, tables, least=0.0 if least is None else least)
        asks = {"agree": look.agree, "agree_without": look.without}
        asks["is_sufficient"] = None if least is None else look.sufficient
        found = dense.refine(case.first, embeddings, **asks, **options)
        [reply] = look.replies([case.texts(found.context)])
        return Outcome(found, reply, tuple(look.read), (look.agree(case.first), look.agree(found.context)))

    jobs = {
        (case.question.id, name): (lambda case=case, options=options: job(case, options))
        for case in some
        for name, options in variants.items()
    }
    return together(jobs, tables)


def understood(some: Sequence[Case], tables: Tables) -> dict[str, Outcome]:
    """DENSE of the context that each question begins with, and nothing more: a refinement that stops at once."""
    stop = {"stop": {"enough": None, "threshold": float(2**20)}}
    return {name: outcome for (name, _), outcome in refined(some, stop, tables).items()}


def replied(some: Sequence[Case], tables: Tables) -> dict[str, str]:
    """The reply to the context that each question begins with."""
    jobs = {
        case.question.id: (lambda case=case: _Look(case, tables).replies([case.texts(case.first)])[0]) for case in some
    }
    return together(jobs, tables)
