"""DENSE asked of a reader: passages in other words, the replies to them, how far these agree; and DENSE-RAG on many questions at once.

    other = dict(zip(texts, rephrase(asker, texts, prompt), strict=True))
    said = replies_under_edits(reader, supplies, other, prompt=read)
    outcomes = refined(supplies, {"full": {}}, ask_with(questions, reader, judge, settings, other=other, asker=asker))

`dense.refine` is written for one question whose reader answers at once. Here many questions advance together: each says what it wants to
know next, all of that is asked in one call, and the answers go back.
"""

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from rag_utils import dense, seper, uncertainty
from rag_utils.data import Passage, Question
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import Generation, LanguageModel, word_log_likelihoods
from rag_utils.measures import Case
from rag_utils.measures.seper import Drawn
from rag_utils.prompts import Prompt, prompt_text

VERDICTS = ("entailment", "contradiction", "neutral")
Context = tuple[str, ...]  # the texts of the chunks, best first
# questions, premises, hypotheses -> how far each premise entails its hypothesis, 0 .. 1; for example `judge.equivalent`
Entails = Callable[[Sequence[str], Sequence[str], Sequence[str]], Sequence[float]]


@dataclass(frozen=True)
class Supply:
    """A question, the chunks that it may use, nearest first, and the numbers of those that it begins with, all of them unless told."""

    question: Question
    chunks: tuple[Passage, ...]
    first: tuple[int, ...] = ()
    embeddings: np.ndarray | None = field(default=None, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "first", self.first or tuple(range(len(self.chunks))))

    def texts(self, numbers: Sequence[int] | None = None) -> Context:
        """The texts of chunks, those of the first context unless told."""
        return tuple(self.chunks[number].text for number in (self.first if numbers is None else numbers))


# --- other words -----------------------------------------------------------------------------------


def rephrase(asker: LanguageModel, texts: Sequence[str], prompt: Prompt, *, max_new_tokens: int = 128) -> list[str]:
    """Each text in other words, greedily, up to the first line break; where nothing is said the text itself, an edit that changes nothing.

    prompt : with the slot text
    source : DENSE, eq. 3. A small model leaves things out, and nothing here checks that: see `faithful`
    """
    asked = [prompt_text(asker, prompt, text=text) for text in texts]
    replies = asker.generate(asked, max_new_tokens=max_new_tokens)
    return [samples[0].text.strip() or text for text, samples in zip(texts, replies, strict=True)]


def faithful(judge: Judge, texts: Sequence[str], rephrased: Sequence[str]) -> np.ndarray:
    """P(the text in other words still says the same), (n,) in [0, 1], by a judge of answers: DENSE, appendix D and Table 6."""
    return judge.equivalent(["What is said?"] * len(texts), texts, rephrased)


def accepted(other: Mapping[str, str], same: Mapping[str, float], *, least: float = THRESHOLD) -> dict[str, str]:
    """text -> its other words where they surely mean the same, to at least `least` by `faithful`; the others stand for themselves."""
    return {text: words if same[text] >= least else text for text, words in other.items()}


def edits(context: Context, other: Mapping[str, str]) -> list[list[str]]:
    """`dense.single_edit_contexts` of a context; ValueError names how many of its passages have no other words."""
    if missing := sum(text not in other for text in context):
        raise ValueError(f"{missing} passages that are shown have no other words; rephrase them first")
    return dense.single_edit_contexts(list(context), [other[text] for text in context])


# --- replies and how far they agree ----------------------------------------------------------------


def replies_under_edits(
    reader: LanguageModel,
    supplies: Sequence[Supply],
    other: Mapping[str, str],
    *,
    prompt: Prompt,
    temperature: float = 0.0,
    max_new_tokens: int = 24,
    seed: int = 0,
) -> list[list[Generation]]:
    """The reply to each first context and, per passage, the reply when that passage alone is in other words; all in one call.

    other       : text of a passage -> the same in other words
    temperature : 0 is greedy; else one sample from each context
    returns     : per supply k + 1 replies, the one to the original context first
    raises      : ValueError as `edits` and `LanguageModel.generate`
    source      : DENSE, eq. 4
    """
    contexts = [(supply.question, edits(supply.texts(), other)) for supply in supplies]
    texts = [prompt_text(reader, prompt, question, context) for question, own in contexts for context in own]
    replies = iter(reader.generate(texts, temperature=temperature, max_new_tokens=max_new_tokens, seed=seed))
    return [[next(replies)[0] for _ in own] for _, own in contexts]


def entailment(
    model: LanguageModel, prompt: Prompt, questions: Sequence[str], premises: Sequence[str], hypotheses: Sequence[str]
) -> np.ndarray:
    """How likely the model finds each verdict on whether a premise entails a hypothesis.

    prompt  : with the slots question, premise and hypothesis, asks for one of VERDICTS
    returns : (n, 3) nats, in the order of VERDICTS
    source  : DENSE, eq. 5 and appendix B.2, where the word that is generated counts
    """
    triples = zip(questions, premises, hypotheses, strict=True)
    texts = [prompt_text(model, prompt, question, premise=one, hypothesis=other) for question, one, other in triples]
    return word_log_likelihoods(model, texts, VERDICTS)


def agreements(entails: Entails, questions: Sequence[Question], drawn: Drawn) -> dict[Case, np.ndarray]:
    """How far each reply entails each other one: asked in one call about each distinct pair of different texts, both ways.

    drawn   : per case n replies
    returns : per case (n, n) in [0, 1], row = premise; equal texts entail each other
    """
    same = _judged(entails, questions)
    texts = {case: [reply.text.strip() for reply in replies] for case, replies in drawn.items()}
    agreed = together({case: _agreement(same, case[0], own) for case, own in texts.items()})
    return {case: agreed[case] for case in drawn}


def measures(agreement: np.ndarray, log_likelihood: np.ndarray) -> dict[str, float]:
    """DENSE and the measures that it is compared with, all on the same n replies.

    agreement      : (n, n) in [0, 1], row = premise
    log_likelihood : (n,) nats, sum over the tokens of each reply
    returns        : dense, by entailment yes or no (0, 0.5, 1), DENSE's eqs. 5 and 6; semantic_entropy, likelihood-weighted, and
                     discrete_semantic_entropy, over clusters that entail both ways (Farquhar et al. 2024); u_eigv and u_deg, on the
                     agreement as a number, mean of both ways (Lin et al. 2024); kle_heat, t = 0.1, on the graph of yes and no, and
                     kle_matern, kappa = nu = 3, on the agreement as a number (Nikitin et al. 2024, parameters of DENSE, Table 1)
    """
    entails = np.asarray(agreement) >= THRESHOLD
    links = dense.adjacency(entails)
    affinity = (np.asarray(agreement) + np.asarray(agreement).T) / 2
    np.fill_diagonal(affinity, 1.0)
    clusters = seper.cluster(entails | np.eye(len(entails), dtype=bool))
    return {
        "dense": dense.degree_entropy(links),
        "semantic_entropy": uncertainty.semantic_entropy(log_likelihood, clusters),
        "discrete_semantic_entropy": uncertainty.discrete_semantic_entropy(clusters),
        "u_eigv": uncertainty.eigenvalue_sum(affinity),
        "u_deg": uncertainty.degree_uncertainty(affinity),
        "kle_heat": uncertainty.kernel_language_entropy(links, kernel="heat", t=0.1),
        "kle_matern": uncertainty.kernel_language_entropy(affinity, kernel="matern", kappa=3.0, nu=3.0),
    }


# --- many questions together -----------------------------------------------------------------------


class Asked(dict):
    """Values by what was asked; `ask` is called with a list of keys that are not known, each once, and returns their values."""

    def __init__(self, ask: Callable[[list], Sequence]):
        super().__init__()
        self.ask = ask

    def fill(self, keys: Sequence[Hashable]) -> None:
        if missing := [key for key in dict.fromkeys(keys) if key not in self]:
            self.update(zip(missing, self.ask(missing), strict=True))


def together(jobs: Mapping[Hashable, Generator]) -> dict:
    """The results of all jobs, in the order in which they come: generators that yield (Asked, keys) and are sent the values.

    Each goes on as far as it can; then what all of them wait for is asked, in one call of each `Asked`.
    """
    results, waiting = {}, dict.fromkeys(jobs, (Asked(list), ()))
    answers: dict[Hashable, list | None] = dict.fromkeys(jobs)
    while waiting:
        for name in list(waiting):
            try:
                table, keys = jobs[name].send(answers[name])
                while all(key in table for key in keys):
                    table, keys = jobs[name].send([table[key] for key in keys])
                waiting[name] = table, keys
            except StopIteration as end:
                results[name] = end.value
                del waiting[name]
        for table in {id(table): table for table, _ in waiting.values()}.values():
            table.fill([key for other, keys in waiting.values() if other is table for key in keys])
        answers = {name: [table[key] for key in keys] for name, (table, keys) in waiting.items()}
    return results


def _judged(entails: Entails, questions: Sequence[Question]) -> Asked:
    """(question id, reply, reply) -> how far the first reply entails the second, 0 .. 1."""
    text_of = {question.id: question.text for question in questions}

    def ask(keys):
        names, premises, hypotheses = map(list, zip(*keys, strict=True))
        return [float(p) for p in entails([text_of[name] for name in names], premises, hypotheses)]

    return Asked(ask)


def _agreement(same: Asked, name: str, texts: Sequence[str]) -> Generator:
    """A job: how far each of a question's replies entails each other one, (n, n); equal ones do without being asked about."""
    pairs = list(permutations(dict.fromkeys(texts), 2))
    agreed = dict(zip(pairs, (yield same, [(name, *pair) for pair in pairs]), strict=True))
    return np.array([[1.0 if a == b else agreed[a, b] for b in texts] for a in texts])


# --- DENSE-RAG -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """What the method is run with: k chunks to begin with, nats of DENSE up to which a question is certain, most tokens of a reply."""

    read: Prompt
    closed: Prompt
    sufficient: Prompt
    k: int = 5
    threshold: float = 0.2
    max_new_tokens: int = 24


@dataclass(frozen=True)
class Tables:
    """What is known of the reader, the judge and the model that is asked whether a context is enough.

    other   : text -> the same in other words, for every chunk that may be looked up
    replies : (question id, context) -> the reader's reply
    same    : (question id, reply, reply) -> how far the first entails the second, 0 .. 1
    enough  : (question id, context) -> nats, above 0 where the asked model says that the context is enough
    """

    other: Mapping[str, str]
    replies: Asked
    same: Asked
    enough: Asked


def ask_with(
    questions: Sequence[Question],
    reader: LanguageModel,
    judge: Judge,
    settings: Settings,
    *,
    other: Mapping[str, str],
    asker: LanguageModel | None = None,
) -> Tables:
    """Tables that ask this reader and this judge.

    asker  : says how much likelier "Yes" than "No" is to it when asked whether a context is enough; None: looking there is a ValueError
    source : DENSE, appendix B.3. There the word that is generated counts; here its likelihood, so that every reply can be parsed
    """
    text_of = {question.id: question.text for question in questions}

    def reply(keys):
        asked = [shown(reader, settings, text_of[name], context) for name, context in keys]
        return [samples[0].text.strip() for samples in reader.generate(asked, max_new_tokens=settings.max_new_tokens)]

    def weigh(keys):
        if asker is None:
            raise ValueError(f"{len(keys)} contexts are to be weighed and nobody is there to ask; give an asker")
        asked = [prompt_text(asker, settings.sufficient, text_of[name], context) for name, context in keys]
        nats = word_log_likelihoods(asker, asked, ("Yes", "No"))
        return (nats[:, 0] - nats[:, 1]).tolist()

    return Tables(other, Asked(reply), _judged(judge.equivalent, questions), Asked(weigh))


def shown(reader: LanguageModel, settings: Settings, question: str, context: Context) -> str:
    """What the reader is shown: the question with the context's chunks, or, of one chunk left out, without any."""
    return prompt_text(reader, settings.read if context else settings.closed, question, context or None)


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


def refined(supplies: Sequence[Supply], variants: Mapping[str, Mapping], tables: Tables) -> dict[Case, Outcome]:
    """`dense.refine` for every question and every variant, each with the same results as alone; all advance together.

    variants : name -> options of `dense.refine`, and `enough`: the nats that a context must exceed to be sufficient, 0 unless told;
               None: nobody asks; `shuffled`: True gives each chunk the embedding of another one, so that what is added is random;
               `limit`: most chunks in a context, as many as the question begins with unless told; None: no limit
    returns  : (question id, variant) -> Outcome
    source   : DENSE, section 5.2 and Table 5
    """
    cases = {Case(supply.question.id, name): (supply, variants[name]) for supply in supplies for name in variants}
    return together({case: _Asking(supply, tables, options).outcome() for case, (supply, options) in cases.items()})


def understood(supplies: Sequence[Supply], tables: Tables) -> dict[str, Outcome]:
    """DENSE of the context that each question begins with, and nothing more: a refinement that stops at once."""
    stop = {"stop": {"enough": None, "threshold": float(2**20)}}
    return {name: outcome for (name, _), outcome in refined(supplies, stop, tables).items()}


class _Asking:
    """What the refinement of one question asks, answered from tables; each method is a job, or a part of one."""

    def __init__(self, supply: Supply, tables: Tables, options: Mapping):
        self.supply, self.tables, self.name = supply, tables, supply.question.id
        self.options = {"limit": len(supply.first)} | dict(options)
        self.least, self.embeddings = self.options.pop("enough", 0.0), supply.embeddings
        if self.options.pop("shuffled", False):
            self.embeddings = np.random.default_rng(0).permutation(supply.embeddings)
        self.read: dict[Context, None] = {}

    def replies(self, contexts):
        self.read.update(dict.fromkeys(map(tuple, contexts)))
        return (yield self.tables.replies, [(self.name, tuple(context)) for context in contexts])

    def links(self, said):
        return dense.adjacency((yield from _agreement(self.tables.same, self.name, said)) >= THRESHOLD)

    def agree(self, numbers):
        said = yield from self.replies(edits(self.supply.texts(numbers), self.tables.other))
        return (yield from self.links(said))

    def agree_without(self, numbers, places):
        texts = self.supply.texts(numbers)
        left = dense.contexts_without_one(list(texts))
        original, *shorter = yield from self.replies([texts, *(left[place] for place in places)])
        pairs = [pair for reply in shorter if reply != original for pair in ((original, reply), (reply, original))]
        yield self.tables.same, [(self.name, *pair) for pair in pairs]  # all at once
        agreed = []
        for reply in shorter:
            agreed.append((yield from self.links([original, reply]))[0, 1])
        return agreed

    def is_sufficient(self, numbers):
        [nats] = yield self.tables.enough, [(self.name, self.supply.texts(numbers))]
        return nats > self.least

    def outcome(self):
        steps = dense.refining(self.supply.first, self.embeddings, evaluated=self.least is not None, **self.options)
        answer, refinement = None, None
        while refinement is None:
            try:
                function, *about = steps.send(answer)
                answer = yield from getattr(self, function)(*about)
            except StopIteration as end:
                refinement = end.value
        [reply] = yield from self.replies([self.supply.texts(refinement.context)])
        first, last = (yield from self.agree(self.supply.first)), (yield from self.agree(refinement.context))
        return Outcome(refinement, reply, tuple(self.read), (first, last))
