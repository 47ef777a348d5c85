"""DENSE asked of a reader: passages in other words, the replies to them, how far these agree; and DENSE-RAG on many questions at once.

other = dict(zip(texts, rephrase(asker, texts, prompt), strict=True))
said = replies_under_edits(reader, supplies, other, prompt=read)
outcomes = refined(supplies, {"full": {}}, ask_with(questions, reader, judge, settings, other=other, asker=asker))
"""

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from rag_utils import dense, seper, uncertainty
from rag_utils.base import checks
from rag_utils.data import Passage, Question
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import Generation, LanguageModel, word_log_likelihoods
from rag_utils.measures import Case, by_id
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
    said = judge.equivalent(["What is said?"] * len(texts), texts, rephrased)
    return checks.numbers("what the judge's equivalent returns", said, least=0, low=0, high=1)


def accepted(other: Mapping[str, str], same: Mapping[str, float]) -> dict[str, str]:
    """text -> its other words where `faithful` says that they surely mean the same; the others stand for themselves."""
    return {text: words if same[text] >= THRESHOLD else text for text, words in other.items()}


def edits(context: Context, other: Mapping[str, str]) -> list[list[str]]:
    """`dense.single_edit_contexts` of a context; ValueError names how many of its passages have no other words."""
    if missing := sum(text not in other for text in context):
        raise ValueError(f"{missing} passages that are shown have no other words; rephrase them first")
    return dense.single_edit_contexts(list(context), [other[text] for text in context])


def replies_under_edits(
    reader: LanguageModel, supplies: Sequence[Supply], other: Mapping[str, str], *, prompt: Prompt, **how
) -> list[list[Generation]]:
    """The reply to each first context and, per passage, the reply when that passage alone is in other words; all in one call.

    how     : temperature, max_new_tokens and seed, as in `LanguageModel.generate`
    returns : per supply k + 1 replies, the one to the original context first; ValueError as `edits`
    source  : DENSE, eq. 4
    """
    contexts = [(supply.question, edits(supply.texts(), other)) for supply in supplies]
    texts = [prompt_text(reader, prompt, question, context) for question, own in contexts for context in own]
    replies = iter(reader.generate(texts, **how))
    return [[next(replies)[0] for _ in own] for _, own in contexts]


def entailment(model: LanguageModel, prompt: Prompt, questions, premises, hypotheses) -> np.ndarray:
    """How likely the model finds each verdict on whether a premise entails a hypothesis: (n, 3) nats, in the order of VERDICTS.

    prompt : with the slots question, premise and hypothesis, asks for one of VERDICTS
    source : DENSE, eq. 5 and appendix B.2, where the word that is generated counts
    """
    triples = zip(questions, premises, hypotheses, strict=True)
    texts = [prompt_text(model, prompt, asked, premise=left, hypothesis=right) for asked, left, right in triples]
    return word_log_likelihoods(model, texts, VERDICTS)


def agreements(entails: Entails, questions: Sequence[Question], drawn: Drawn) -> dict[Case, np.ndarray]:
    """Per case how far each reply entails each other one, (n, n) in [0, 1], row = premise; equal texts entail each other. In one call."""
    same = _judged(entails, by_id(questions))
    texts = {case: [reply.text.strip() for reply in replies] for case, replies in drawn.items()}
    agreed = together({case: _agreement(same, case[0], own) for case, own in texts.items()})
    return {case: agreed[case] for case in drawn}


def measures(agreement: np.ndarray, log_likelihood: np.ndarray) -> dict[str, float]:
    """DENSE and the measures that it is compared with, all on the same n replies.

    agreement : (n, n) in [0, 1], row = premise; log_likelihood: (n,) nats, sum over the tokens of each reply
    returns   : dense and kle_heat (t = 0.1) on the graph of yes and no; semantic_entropy by likelihood, discrete_semantic_entropy by share,
                over clusters that entail both ways; u_eigv, u_deg and kle_matern (kappa = nu = 3) on the agreement as a number
    source    : DENSE, eqs. 5, 6 and Table 1; Farquhar et al. 2024 (semantic entropy), Lin et al. 2024 (U), Nikitin et al. 2024 (KLE)
    """
    entails = agreement >= THRESHOLD
    links, clusters = dense.adjacency(entails), seper.cluster(entails | np.eye(len(entails), dtype=bool))
    affinity = np.where(np.eye(len(entails)), 1.0, (agreement + agreement.T) / 2)  # as a number, mean of both ways
    return {
        "dense": dense.degree_entropy(links),
        "semantic_entropy": uncertainty.semantic_entropy(log_likelihood, clusters),
        "discrete_semantic_entropy": uncertainty.discrete_semantic_entropy(clusters),
        "u_eigv": uncertainty.eigenvalue_sum(affinity),
        "u_deg": uncertainty.degree_uncertainty(affinity),
        "kle_heat": uncertainty.kernel_language_entropy(links, kernel="heat", t=0.1),
        "kle_matern": uncertainty.kernel_language_entropy(affinity, kernel="matern", kappa=3.0, nu=3.0),
    }


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
    results, waiting = {}, {}

    def advance(name: Hashable, values: list | None) -> None:
        try:
            table, keys = jobs[name].send(values)
            while all(key in table for key in keys):
                table, keys = jobs[name].send([table[key] for key in keys])
            waiting[name] = table, keys
        except StopIteration as end:
            results[name] = end.value

    for name in jobs:
        advance(name, None)
    while waiting:
        for table in {id(table): table for table, _ in waiting.values()}.values():
            table.fill([key for other, keys in waiting.values() if other is table for key in keys])
        for name, (table, keys) in [(name, waiting.pop(name)) for name in list(waiting)]:
            advance(name, [table[key] for key in keys])
    return results


def _judged(entails: Entails, known: Mapping[str, Question]) -> Asked:
    """(question id, reply, reply) -> how far the first reply entails the second, 0 .. 1."""

    def ask(keys):
        names, premises, hypotheses = map(list, zip(*keys, strict=True))
        return [float(p) for p in entails([known[name].text for name in names], premises, hypotheses)]

    return Asked(ask)


def _entailed(same: Asked, name: str, pairs: Sequence[tuple[str, str]]) -> Generator:
    """A job: how far the first reply of each pair entails the second, (n,); equal ones do, without being asked about."""
    different = [pair for pair in pairs if pair[0] != pair[1]]
    said = yield same, [(name, *pair) for pair in different]
    known = dict(zip(different, said, strict=True))
    return np.array([known.get(pair, 1.0) for pair in pairs])


def _agreement(same: Asked, name: str, texts: Sequence[str]) -> Generator:
    """A job: how far each of a question's replies entails each other one, (n, n)."""
    return (yield from _entailed(same, name, list(product(texts, repeat=2)))).reshape(len(texts), -1)


@dataclass(frozen=True)
class Settings:
    """How the reader is asked, with documents and without any, and what is asked of who says whether a context is enough."""

    read: Prompt
    closed: Prompt
    sufficient: Prompt
    max_new_tokens: int = 24  # of a reply

    def shown(self, reader: LanguageModel, question: str, context: Context) -> str:
        """What the reader is shown: the question with the context's chunks, or, of one chunk left out, without any."""
        return prompt_text(reader, self.read if context else self.closed, question, context or None)


@dataclass(frozen=True)
class Tables:
    """What is known of the reader, the judge and the model that is asked whether a context is enough."""

    other: Mapping[str, str]  # text -> the same in other words, for every chunk that may be looked up
    replies: Asked  # (question id, context) -> the reader's reply
    same: Asked  # (question id, reply, reply) -> how far the first entails the second, 0 .. 1
    enough: Asked  # (question id, context) -> nats, above 0 where the asked model says that the context is enough


def ask_with(questions, reader, judge: Judge, settings: Settings, *, other: Mapping[str, str], asker=None) -> Tables:
    """Tables that ask this reader and this judge.

    asker  : says how much likelier "Yes" than "No" is to it when asked whether a context is enough; None: looking there is a ValueError
    source : DENSE, appendix B.3. There the word that is generated counts; here its likelihood, so that every reply can be parsed
    """
    known = by_id(questions)

    def reply(keys):
        asked = [settings.shown(reader, known[name].text, context) for name, context in keys]
        return [samples[0].text.strip() for samples in reader.generate(asked, max_new_tokens=settings.max_new_tokens)]

    def weigh(keys):
        if asker is None:
            raise ValueError(f"{len(keys)} contexts are to be weighed and nobody is there to ask; give an asker")
        asked = [prompt_text(asker, settings.sufficient, known[name], context) for name, context in keys]
        yes, no = word_log_likelihoods(asker, asked, ("Yes", "No")).T
        return (yes - no).tolist()

    return Tables(other, Asked(reply), _judged(judge.equivalent, known), Asked(weigh))


@dataclass(frozen=True)
class Outcome:
    """What became of a question."""

    refinement: dense.Refinement
    reply: str  # to the context that it ends with
    read: tuple[Context, ...]  # every context that the reader was shown for it
    links: tuple[np.ndarray, np.ndarray] = field(compare=False)  # (n, n) agreement of replies, first and last context


def refined(supplies: Sequence[Supply], variants: Mapping[str, Mapping], tables: Tables) -> dict[Case, Outcome]:
    """`dense.refine` for every question and every variant, each as alone, but all advance together and are asked about in one call.

    variants : name -> options of `dense.refine`, where `limit` is the length of the first context unless told; `enough`, the nats that a
               context must exceed to be sufficient, 0 unless told, None: nobody asks; `shuffled`, True gives each chunk the embedding of
               another one, so that what is added is random
    source   : DENSE, section 5.2 and Table 5
    """
    by_id([supply.question for supply in supplies])
    pairs = product(supplies, variants.items())
    return together({Case(supply.question.id, name): _outcome(supply, tables, **how) for supply, (name, how) in pairs})


def understood(supplies: Sequence[Supply], tables: Tables) -> dict[str, Outcome]:
    """DENSE of the context that each question begins with, and nothing more: a refinement that stops at once."""
    stop = {"stop": {"enough": None, "threshold": float(2**20)}}
    return {name: outcome for (name, _), outcome in refined(supplies, stop, tables).items()}


def _outcome(supply: Supply, tables: Tables, *, enough=0.0, shuffled=False, **options) -> Generator:
    """A job: the Outcome of one question, whose refinement is answered from tables."""
    name, read = supply.question.id, {}
    embeddings = np.random.default_rng(0).permutation(supply.embeddings) if shuffled else supply.embeddings

    def replies(contexts):
        read.update(dict.fromkeys(map(tuple, contexts)))
        return (yield tables.replies, [(name, tuple(context)) for context in contexts])

    def agree(numbers):
        said = yield from replies(edits(supply.texts(numbers), tables.other))
        return dense.adjacency((yield from _agreement(tables.same, name, said)) >= THRESHOLD)

    def agree_without(numbers, places):
        context = list(supply.texts(numbers))
        left = dense.contexts_without_one(context)
        original, *shorter = yield from replies([context, *(left[place] for place in places)])
        pairs = [pair for reply in shorter for pair in ((original, reply), (reply, original))]
        entailed = yield from _entailed(tables.same, name, pairs)
        return (entailed >= THRESHOLD).reshape(-1, 2).mean(axis=1)

    def is_sufficient(numbers):
        [nats] = yield tables.enough, [(name, supply.texts(numbers))]
        return nats > enough

    def refinement():
        options_of = {"limit": len(supply.first)} | options
        steps, answer = dense.refining(supply.first, embeddings, evaluated=enough is not None, **options_of), None
        while True:
            try:
                function, *about = steps.send(answer)
            except StopIteration as end:
                return end.value
            answer = yield from asks[function](*about)

    asks = {"agree": agree, "agree_without": agree_without, "is_sufficient": is_sufficient}
    refined = yield from refinement()
    [reply] = yield from replies([supply.texts(refined.context)])
    first, last = (yield from agree(supply.first)), (yield from agree(refined.context))
    return Outcome(refined, reply, tuple(read), (first, last))
