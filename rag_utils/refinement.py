"""DENSE-RAG on many questions: cut the documents, ask, and where the replies move, cut otherwise and exchange chunks.

`dense.refine` is written for one question whose reader answers at once. Here whatever it looks up is looked up in a table. What the
table does not hold ends the attempt; it is asked together with what all other questions miss, and the attempt is made again.

    tables = ask_with(questions, reader, judge, settings, other=rephrased, weigh=sufficiency(asker, questions, prompt))
    found = refined(cases(questions, chunks, k=5, encode=retrieve.encoder()), VARIANTS, tables)
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pandas as pd
from semantic_text_splitter import TextSplitter

from rag_utils import answers, data, dense, manifest, retrieve
from rag_utils.chunking import merge_sentences, split_sentences
from rag_utils.data import Passage, Question
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import LanguageModel
from rag_utils.measure import sample
from rag_utils.prompts import Prompt
from rag_utils.tree import prefix_tree, size
from rag_utils.understanding import faithful, rephrase

FIXED = {
    "fixed 128": (128, 16),
    "fixed 64": (64, 8),
    "fixed 32": (32, 4),
}  # a quarter of DENSE, Table 4: tokens and overlap
WHOLE, SEMANTIC = "fixed 128", "semantic"  # what a question is certain or uncertain with, and what uncertain ones get
VARIANTS = {
    "only removing": {"refill": "none"},
    "no self-evaluation": {"enough": None},
    "refill on certain": {"refill": "certain"},
    "refill at random": {"shuffled": True},
    "full": {},
}  # of the refinement -> what differs from the full one: DENSE, Table 5, and a control that adds any chunk in place of a near one

Context = tuple[str, ...]  # the texts of the chunks, best first


@dataclass(frozen=True)
class Settings:
    """What the method is run with.

    k             : chunks to begin with
    threshold     : nats of DENSE up to which a question is certain
    tau           : least cosine of neighbouring sentences of one chunk
    max_tokens    : most tokens of a semantic chunk
    only_faithful : leave a chunk as it is where the judge does not find its other words the same
    """

    read: Prompt
    closed: Prompt
    rephrase: Prompt
    sufficient: Prompt
    k: int = 5
    threshold: float = 0.2
    tau: float = 0.2
    max_tokens: int = 128
    only_faithful: bool = True
    max_new_tokens: int = 24


# --- cutting ---------------------------------------------------------------------------------------


def documents(pool: Sequence[Passage]) -> dict[str, tuple[Passage, ...]]:
    """The passages of each title, in their order: the documents that are cut."""
    found = defaultdict(list)
    for passage in pool:
        found[passage.title].append(passage)
    return {title: tuple(some) for title, some in found.items()}


def recursive_chunks(
    some: Mapping[str, Sequence[Passage]], *, size: int, overlap: int, count_tokens: Callable[[str], int]
) -> list[Passage]:
    """Chunks of at most `size` tokens: whole paragraphs as long as they fit, else sentences, else words.

    some    : documents, each a list of paragraphs
    overlap : most tokens of a chunk that the next one of its document repeats
    returns : the chunks of all documents, in their order
    source  : DENSE, appendix H, which names recursive splitting by LangChain; here by semantic-text-splitter, which cuts at the same
              places and needs no other package
    """
    splitter = TextSplitter.from_callback(count_tokens, size, overlap=overlap)
    texts = {title: splitter.chunks("\n\n".join(part.text for part in parts)) for title, parts in some.items()}
    return _numbered({title: [" ".join(text.split()) for text in found] for title, found in texts.items()})


def semantic_chunks(
    some: Mapping[str, Sequence[Passage]],
    *,
    threshold: float,
    max_tokens: int,
    count_tokens: Callable[[str], int],
    encode: retrieve.Encoder,
) -> list[Passage]:
    """Neighbouring sentences of a document that are alike, together: `chunking.merge_sentences` on each document.

    threshold : least cosine of two neighbours. It belongs to the encoder: 0.6 with the paper's hardly joins any with ours
    source    : DENSE, eq. 7 and Algorithm 2
    """
    found = {}
    for title, parts in some.items():
        sentences = [one for part in parts for one in part.sentences or split_sentences(part.text)]
        how = {"count_tokens": count_tokens, "threshold": threshold, "max_tokens": max_tokens}
        found[title] = [" ".join(chunk) for chunk in merge_sentences(sentences, encode(sentences), **how)]
    return _numbered(found)


def _numbered(texts: Mapping[str, Sequence[str]]) -> list[Passage]:
    return [
        Passage(f"d{number:03}c{place:03}", title, text)
        for number, (title, found) in enumerate(texts.items(), 1)
        for place, text in enumerate(found, 1)
    ]


@dataclass(frozen=True)
class Case:
    """A question, the chunks that it may use, and the k of them that it begins with, best first."""

    question: Question
    chunks: tuple[Passage, ...]
    first: tuple[int, ...]
    embeddings: np.ndarray = field(compare=False)

    def texts(self, numbers: Sequence[int]) -> Context:
        return tuple(self.chunks[number].text for number in numbers)


def cases(
    questions: Sequence[Question],
    chunks: Sequence[Passage] | Callable[[Question], Sequence[Passage]],
    *,
    k: int,
    encode: retrieve.Encoder,
) -> list[Case]:
    """The k nearest chunks of each question, by the cosine of embeddings of title and text.

    chunks : the same for all questions, or a function of the question; fewer than k are all taken
    """
    pools = {question.id: tuple(chunks(question) if callable(chunks) else chunks) for question in questions}
    run = retrieve.dense(questions, chunks, k=k, encoder=encode)
    every = {chunk.id: chunk for pool in pools.values() for chunk in pool}
    vectors = dict(zip(every, encode([f"{chunk.title} {chunk.text}" for chunk in every.values()]), strict=True))
    found = []
    for question in questions:
        pool = pools[question.id]
        place = {chunk.id: number for number, chunk in enumerate(pool)}
        first = tuple(place[name] for name in retrieve.ranking(run[question.id]))
        found.append(Case(question, pool, first, np.array([vectors[chunk.id] for chunk in pool])))
    return found


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
    other: Mapping[str, str] | Callable[[list[str]], Sequence[str]],
    weigh: Callable[[list[tuple[str, Context]]], Sequence[float]] | None = None,
) -> Tables:
    """Tables that ask this reader and this judge.

    other : text -> the same in other words, for every chunk that may be looked up, or what to ask for those
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

    words = (other, {}) if callable(other) else (nobody, other)
    return Tables(Asked(*words), Asked(reply), Asked(agree), Asked(weigh or nobody))


def filled(reader: LanguageModel, settings: Settings, question: str, context: Context) -> str:
    """What the reader is shown: the question with the context's chunks, or, of one chunk left out, without any."""
    if not context:
        return _chat(reader, settings.closed, settings.closed.fill(question=question))
    return _chat(reader, settings.read, settings.read.fill(question=question, documents=list(context)))


def _chat(model: LanguageModel, prompt: Prompt, text: str) -> str:
    return model.chat(text) if prompt.chat else text


def sufficiency(asker: LanguageModel, questions: Sequence[Question], prompt: Prompt) -> Callable:
    """What `Tables.enough` asks: how much likelier the asker says "Yes" than "No" when asked whether a context is enough.

    source : DENSE, appendix B.3. There the word that is generated counts; here its likelihood, so that every reply can be parsed
    """
    text_of = {question.id: question.text for question in questions}

    def weigh(keys: list[tuple[str, Context]]) -> list[float]:
        texts = [prompt.fill(question=text_of[name], documents=list(context)) for name, context in keys]
        asked = [_chat(asker, prompt, text) for text in texts]
        said = asker.log_likelihood([text for text in asked for _ in range(2)], ["Yes", "No"] * len(asked))
        return [float(yes.sum() - no.sum()) for yes, no in zip(said[::2], said[1::2], strict=True)]

    return weigh


def accepted(judge: Judge, other: Mapping[str, str], *, least: float = THRESHOLD) -> dict[str, str]:
    """The other words that the judge takes to mean the same; a text that was rephrased badly stands for itself.

    Such an edit changes nothing, so its chunk is certain without being tested.
    """
    same = faithful(judge, list(other), list(other.values()))
    return {text: words if p >= least else text for (text, words), p in zip(other.items(), same, strict=True)}


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


def refined(
    some: Sequence[Case], variants: Mapping[str, Mapping], tables: Tables, *, limit: int | None = None
) -> dict[tuple[str, str], Outcome]:
    """`dense.refine` for every question and every variant, each with the same results as alone; all advance together.

    variants : name -> options of `dense.refine`, and `enough`: the nats that a context must exceed to be sufficient, 0 unless told;
               None: nobody asks; `shuffled`: True gives each chunk the embedding of another one, so that what is added is random
    limit    : most chunks in a context; None: as many as the question begins with
    returns  : (question id, variant) -> Outcome
    source   : DENSE, section 5.2 and Table 5
    """

    def job(case: Case, options: Mapping):
        options = dict(options)
        least, embeddings = options.pop("enough", 0.0), case.embeddings
        if options.pop("shuffled", False):
            embeddings = np.random.default_rng(0).permutation(embeddings)
        look = _Look(case, tables, least=0.0 if least is None else least)
        asks = {"agree": look.agree, "agree_without": look.without}
        asks["is_sufficient"] = None if least is None else look.sufficient
        found = dense.refine(case.first, embeddings, **asks, limit=limit or len(case.first), **options)
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


def contexts_of(outcomes: Mapping[tuple[str, str], Outcome], some: Sequence[Case]) -> list[tuple[str, Context]]:
    """Every (question id, context) that some refinement tried, once: what `Tables.enough` may be asked for."""
    by_id = {case.question.id: case for case in some}
    tried = (
        (name, by_id[name].texts(step.context))
        for (name, _), outcome in outcomes.items()
        for step in outcome.refinement.rounds
    )
    return list(dict.fromkeys(tried))


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


def holds(some: Sequence[Case]) -> dict[str, float]:
    """Question id -> whether its first context holds an answer, as a string; "yes" and "no" are not looked for: NaN."""
    return {
        case.question.id: np.nan
        if set(map(str.lower, case.question.answers)) & {"yes", "no"}
        else float(any(answers.contains_answer(text, list(case.question.answers)) for text in case.texts(case.first)))
        for case in some
    }


def cost(
    reader: LanguageModel,
    some: Sequence[Case],
    outcomes: Mapping[str, Outcome],
    settings: Settings,
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


# --- on a benchmark, and with other settings -------------------------------------------------------


def cuts(
    some: Mapping[str, Sequence[Passage]],
    settings: Settings,
    *,
    count_tokens: Callable[[str], int],
    encode: retrieve.Encoder,
) -> dict[str, list[Passage]]:
    """The chunks of all documents, cut in every way: the sizes of FIXED, and SEMANTIC."""
    found = {
        name: recursive_chunks(some, size=length, overlap=overlap, count_tokens=count_tokens)
        for name, (length, overlap) in FIXED.items()
    }
    how = {"threshold": settings.tau, "max_tokens": settings.max_tokens, "count_tokens": count_tokens, "encode": encode}
    return found | {SEMANTIC: semantic_chunks(some, **how)}


def own_chunks(chunks: Sequence[Passage]) -> Callable[[Question], list[Passage]]:
    """For `cases`: a question may use the chunks of the documents that its own passages are from."""

    def pool(question: Question) -> list[Passage]:
        titles = {passage.title for passage in retrieve.own_passages(question)}
        return [chunk for chunk in chunks if chunk.title in titles]

    return pool


def in_other_words(asker: LanguageModel, judge: Judge, settings: Settings) -> Callable[[list[str]], list[str]]:
    """What `Tables.other` asks: each text rephrased, or itself where only faithful words count and the judge finds them not to be."""

    def words(texts: list[str]) -> list[str]:
        longest = max(map(asker.count_tokens, texts))
        other = dict(zip(texts, rephrase(asker, texts, settings.rephrase, max_new_tokens=longest), strict=True))
        return list((accepted(judge, other) if settings.only_faithful else other).values())

    return words


def halves(tables: Tables, some: Sequence[Case]) -> float:
    """The nats of `Tables.enough` that half of the first contexts exceed: a decision that needs no label."""
    keys = [(case.question.id, case.texts(case.first)) for case in some]
    return float(np.median(together({"all": lambda: tables.enough.of(keys)}, tables)["all"]))


def tabulated(
    questions: Sequence[Question], cut: Mapping[str, Sequence[Case]], tables: Tables, settings: Settings
) -> tuple[pd.DataFrame, dict[tuple[str, str, str], Outcome]]:
    """Every way of cutting, and every variant of the refinement for the questions that are uncertain with WHOLE.

    cut     : way of cutting -> cases; WHOLE and SEMANTIC among them
    returns : (as `rows`, with the columns run ("word": enough is what the asker says, "half": what half of the first contexts are,
              "none": nothing is refined), uncertain (0 or 1), dense (of the first context, for WHOLE and SEMANTIC), holds (an answer is in
              it), rounds and added (chunks of the last context that were not in the first); (question id, run, variant) -> Outcome)
    """
    first = {way: understood(cut[way], tables) for way in (WHOLE, SEMANTIC)}
    uncertain = {name for name, outcome in first[WHOLE].items() if outcome.entropy > settings.threshold}
    parts, outcomes = [], {}
    for way, held in cut.items():
        part = rows(questions, {way: replied(held, tables)}).assign(run="none")
        part["holds"] = part["id"].map(holds(held))
        if way in first:
            part["dense"] = part["id"].map({name: outcome.entropy for name, outcome in first[way].items()})
        parts.append(part)
    again = [case for case in cut[SEMANTIC] if case.question.id in uncertain]
    for run, least in {"word": 0.0, "half": halves(tables, again)}.items() if again else ():
        found = refined(again, with_enough(VARIANTS, least), tables)
        outcomes |= {(name, run, variant): outcome for (name, variant), outcome in found.items()}
        for variant in VARIANTS:
            of = {name: outcome for (name, other), outcome in found.items() if other == variant}
            part = rows(questions, {variant: {name: outcome.reply for name, outcome in of.items()}}).assign(run=run)
            part["rounds"] = part["id"].map({name: len(outcome.refinement.rounds) for name, outcome in of.items()})
            part["added"] = part["id"].map({name: len(outcome.added) for name, outcome in of.items()})
            parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    table["uncertain"] = table["id"].isin(uncertain).astype(int)
    return table, outcomes


def benchmark(
    reader: LanguageModel, asker: LanguageModel, judge: Judge, name: str, n: int, settings: Settings
) -> tuple[pd.DataFrame, dict]:
    """Every way of cutting, and every variant of the refinement for the uncertain questions: numbers only.

    name    : a benchmark whose questions come with documents of several paragraphs under one title, such as SQuAD
    returns : (as `tabulated`, what they were measured with)
    """
    questions = sample(name, min(n, len(data.load(name))))
    titles = {passage.title for question in questions for passage in retrieve.own_passages(question)}
    some = {title: parts for title, parts in documents(data.passages(name)).items() if title in titles}
    encode = retrieve.encoder()
    ways = cuts(some, settings, count_tokens=reader.count_tokens, encode=encode)
    cut = {way: cases(questions, own_chunks(chunks), k=settings.k, encode=encode) for way, chunks in ways.items()}
    weigh = sufficiency(asker, questions, settings.sufficient)
    tables = ask_with(questions, reader, judge, settings, other=in_other_words(asker, judge, settings), weigh=weigh)
    table = tabulated(questions, cut, tables, settings)[0]
    entry = manifest.entries()[name]
    facts = facts_of(reader, asker, settings) | {"questions": len(questions), "documents": len(some)}
    return table, facts | {"source": entry.source, "sha256": entry.sha256}


def with_enough(variants: Mapping[str, Mapping], least: float) -> dict[str, dict]:
    """The variants with another number of nats from which on a context counts as sufficient, where anybody is asked."""
    return {name: {"enough": least} | dict(options) for name, options in variants.items()}


def sweeps(
    reader: LanguageModel,
    asker: LanguageModel,
    judge: Judge,
    questions: Sequence[Question],
    some: Mapping[str, Sequence[Passage]],
    settings: Settings,
    *,
    taus: Sequence[float],
    numbers: Sequence[int],
    enough: float | None = 0.0,
) -> tuple[pd.DataFrame, dict]:
    """The same questions with other merging thresholds, and with other numbers of chunks: DENSE, Figs. 7 and 8.

    some    : documents; every question may use all of them
    returns : (as `rows`; condition "tau" with the threshold as run; "plain", the fixed chunks, and "DENSE-RAG", semantic chunks refined,
              with their number as run, and for the latter what `cost` counts; what they were measured with)
    """
    encode, count = retrieve.encoder(), reader.count_tokens
    weigh = sufficiency(asker, questions, settings.sufficient)
    tables = ask_with(questions, reader, judge, settings, other=in_other_words(asker, judge, settings), weigh=weigh)
    parts = []
    for tau in taus:
        how = {"threshold": tau, "max_tokens": settings.max_tokens, "count_tokens": count, "encode": encode}
        held = cases(questions, semantic_chunks(some, **how), k=settings.k, encode=encode)
        lengths = np.mean([count(text) for case in held for text in case.texts(case.first)])
        parts.append(rows(questions, {"tau": replied(held, tables)}).assign(run=tau, length=lengths))
    ways = cuts(some, settings, count_tokens=count, encode=encode)
    for number in numbers:
        plain = cases(questions, ways[WHOLE], k=number, encode=encode)
        parts.append(rows(questions, {"plain": replied(plain, tables)}).assign(run=number))
        held = cases(questions, ways[SEMANTIC], k=number, encode=encode)
        found = {name: outcome for (name, _), outcome in refined(held, {"full": {"enough": enough}}, tables).items()}
        part = rows(questions, {"DENSE-RAG": {name: outcome.reply for name, outcome in found.items()}}).assign(
            run=number
        )
        parts.append(part.merge(cost(reader, held, found, settings), on="id"))
    return pd.concat(parts, ignore_index=True), facts_of(reader, asker, settings)


def facts_of(reader: LanguageModel, asker: LanguageModel, settings: Settings) -> dict:
    """What numbers were measured with."""
    asked = (settings.read, settings.closed, settings.rephrase, settings.sufficient)
    facts = {"reader": reader.name, "fingerprint": reader.fingerprint, "asker": asker.fingerprint}
    facts |= {"dtype": reader.profile.dtype, "prompts": {prompt.name: prompt.digest for prompt in asked}}
    names = ("k", "threshold", "tau", "max_tokens", "only_faithful", "max_new_tokens")
    return facts | {name: getattr(settings, name) for name in names}
