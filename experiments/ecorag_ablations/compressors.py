"""Compressors: what of the retrieved passages the reader is shown, by a dozen rules with one interface.

    kept = adaptive(similarity(encode), evaluator)(questions, passages)

A compressor is a function (questions, passages by question id, best first) -> texts to show by question id, in the order of the prompt.
Sentences are shown best first with the title of their passage before them; without it a sentence does not say what it is about.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import softmax

from rag_utils import ecorag
from rag_utils.answers import normalize
from rag_utils.base.cache import ROOT
from rag_utils.base.names import check_name
from rag_utils.corpora.sentences import split_sentences
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel, word_log_likelihoods
from rag_utils.prompts import Prompt, prompt_text
from rag_utils.retrieve import DECIMALS, Encoder, ranking, remembering

Retrieved = Mapping[str, Sequence[Passage]]  # question id -> passages, best first
Kept = dict[str, list[str]]  # question id -> texts to show, in the order of the prompt
Compressor = Callable[[Sequence[Question], Retrieved], Kept]
Score = Callable[[Sequence[str], Sequence[Sequence[str]]], list[np.ndarray]]  # questions, texts of each -> (n,) each
Evaluator = Callable[
    [Sequence[str], Sequence[Sequence[str]]], np.ndarray
]  # questions, kept texts of each -> P(sufficient)

FOLDER = ROOT / "data" / "compressor"
LAST_EPOCH = FOLDER / "last_epoch"  # the head for evidentiality with no choice of the epoch
NQ_FOLDER = ROOT / "_build" / "compressor_nq"  # trained on NQ: measured, not shipped
WHOLE_FOLDER = ROOT / "_build" / "compressor_whole"  # all weights of the encoder: measured, not shipped
HEADS = ("evidentiality", "answerability", "leave-one-out")
FEATURES = ("similarity", "words", "number wanted", "number there")
STEP, LIMIT = 4, 20  # ECoRAG, appendix B.1
THRESHOLD = 0.5
VERDICTS = (
    "<EVI>",
    "<NOT>",
)  # what an encoder-decoder says of evidence that suffices, and of what does not; ECoRAG, section 3.2.1
NUMBER_WORDS = {"when", "year", "many", "much", "long", "old", "tall", "high", "far", "deep", "century", "date"}
EMPTY_WORDS = {
    "what", "who", "which", "where", "when", "how", "why", "is", "are", "was", "were", "do", "does", "did", "in",
    "on", "at", "of", "to", "for", "from", "by", "with", "and", "or", "that", "this", "it", "its", "as", "be",
    "been", "has", "have", "had", "name", "many", "much",
}  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """A sentence of a retrieved passage: what the reader is shown of it, its passage's id, and its number there."""

    text: str
    passage: str
    place: int

    @property
    def id(self) -> str:
        return f"{self.passage}:{self.place}"


def shown(passage: Passage, text: str | None = None) -> str:
    """A text of the passage, by default all of it, as the reader is shown it: after the title, if there is one.

    >>> shown(Passage("p1", "Hamlet", "A play. By Shakespeare."), "A play.")
    'Hamlet: A play.'
    """
    text = passage.text if text is None else text
    return f"{passage.title}: {text}" if passage.title.strip() else text


def pieces(passages: Sequence[Passage]) -> list[Piece]:
    """The sentences of the passages in their order; those of a source that does not cut its text are found by punctuation.

    raises : ValueError if there are no passages
    """
    if not passages:
        raise ValueError("got no passages to cut into sentences, wanted at least one")
    return [
        Piece(shown(passage, sentence), passage.id, place)
        for passage in passages
        for place, sentence in enumerate(passage.sentences or split_sentences(passage.text))
    ]


# --- how good a sentence is ----------------------------------------------------------------------


@dataclass(frozen=True)
class Head:
    """What training adds to a frozen encoder: a low-rank step on the side of the question and one on the side of the sentence.

    question, sentence : pairs of (d, r) and (r, d) matrices; an embedding e becomes e + e down up
    """

    question: tuple[np.ndarray, np.ndarray]
    sentence: tuple[np.ndarray, np.ndarray]


def load_head(name: str, folder: Path = FOLDER) -> Head:
    """The shipped head that was trained on these labels, one of HEADS.

    raises : ValueError for an unknown name, or if the file is absent or damaged
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = Path(folder) / f"{check_name('head', name, HEADS)}.safetensors"
    try:
        found = {key: value.astype(np.float32) for key, value in load_file(path).items()}
        return Head(*((found[f"{side}.down"], found[f"{side}.up"]) for side in ("question", "sentence")))
    except (OSError, KeyError, SafetensorError) as error:
        raise ValueError(
            f"{path.name} is absent or damaged ({type(error).__name__}); training/evidence.py makes it"
        ) from error


def similarity(encode: Encoder, head: Head | None = None, *, asked: Encoder | None = None) -> Score:
    """Dot products of a question's and its sentences' embeddings, with a trained head or as the encoder has them.

    encode  : texts -> (n, d) rows; each distinct text is embedded once, by several scores too if it is `remembering`
    asked   : the same for questions, by default `encode`; a `dual_encoder` has two
    returns : a function; its numbers are rounded to six decimals, so that a processor's last digits decide nothing
    source  : ECoRAG, section 3.1.2: sim(q, d) = E_Q(q) . E_D(d). Without a head, RECOMP's extractive compressor with an encoder that is
              not trained for it
    """
    vectors = remembering(encode)
    question_vectors = vectors if asked is None else remembering(asked)

    def moved(rows: np.ndarray, step: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
        return rows if step is None else rows + rows @ step[0] @ step[1]

    def score(questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[np.ndarray]:
        vectors([text for own in texts for text in own])  # all in one call
        sought = moved(question_vectors(questions), head and head.question)
        return [
            np.round((moved(vectors(own), head and head.sentence) @ one).astype(float), DECIMALS)
            for one, own in zip(sought, texts, strict=True)
        ]

    return score


def question_likelihood(reader: LanguageModel, *, appended: str = "") -> Score:
    """How likely the reader finds the question after each text alone.

    appended : what is scored with the question, behind it
    returns  : a function; its numbers are mean nats per token, each text read once for all questions, rounded to six decimals
    source   : query generation, UPR (Sachan et al. 2022). Deviation: no instruction to write a question stands between text and question,
               which are put as this reader is asked
    """

    def score(questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[np.ndarray]:
        pairs = [(text, asked) for asked, own in zip(questions, texts, strict=True) for text in own]
        said = reader.log_likelihood(
            [f"Document: {text}\nQuestion:" for text, _ in pairs], [f" {asked}{appended}" for _, asked in pairs]
        )
        means = iter([round(float(tokens.mean()), DECIMALS) for tokens in said])
        return [np.array([next(means) for _ in own]) for own in texts]

    return score


def reranked(first: Score, second: Score, *, pool: int) -> Score:
    """Retrieve, then rerank: the `pool` best texts by one score in the order of a second, before the rest in the order of the first.

    second  : is asked about these texts only; where it finds two equal, the first decides
    returns : a function; its numbers are places counted from the end, n - 1 for the best of n texts down to 0, since the scores that made
              them have no common unit
    raises  : ValueError if pool is not a whole number of at least 1

    >>> length = lambda questions, texts: [np.array([len(text) for text in own]) for own in texts]
    >>> vowels = lambda questions, texts: [np.array([sum(map(text.count, "aeiou")) for text in own]) for own in texts]
    >>> reranked(length, vowels, pool=2)(["q"], [["aeiou", "strengths", "sequoia"]])   # the shortest is not looked at again
    [array([0., 1., 2.])]
    """
    if isinstance(pool, bool) or not isinstance(pool, int) or pool < 1:
        raise ValueError(f"pool must be a whole number of at least 1; got {pool!r}")

    def score(questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[np.ndarray]:
        orders = [np.argsort(-values, kind="stable") for values in first(questions, texts)]
        best = [[own[place] for place in order[:pool]] for own, order in zip(texts, orders, strict=True)]
        found = []
        for order, values in zip(orders, second(questions, best), strict=True):
            again = np.argsort(-values, kind="stable")
            places = np.empty(len(order))
            places[[*order[:pool][again], *order[pool:]]] = np.arange(len(order))[::-1]
            found.append(places)
        return found

    return score


def ranked(questions: Sequence[Question], passages: Retrieved, score: Score) -> dict[str, list[Piece]]:
    """The sentences of each question's passages, best first; equal scores in the order of the passages."""
    cut = [pieces(passages[question.id]) for question in questions]
    scores = score([question.text for question in questions], [[piece.text for piece in own] for own in cut])
    return {
        question.id: [own[place] for place in np.argsort(-values, kind="stable")]
        for question, own, values in zip(questions, cut, scores, strict=True)
    }


# --- whether what is kept suffices ---------------------------------------------------------------


def features(questions: Sequence[str], kept: Sequence[Sequence[str]], score: Score) -> np.ndarray:
    """What the small evaluator looks at, one row per question, one column per name in FEATURES.

    similarity : of the question and the best text kept
    words      : largest share of the question's content words in one text
    number     : whether the question asks for one (when, how many, ...), and whether it does and a text holds one that is not in it
    returns    : (n, 4) float. No number falls when a text is added
    raises     : ValueError if nothing is kept for a question
    """
    if not all(len(own) for own in kept):
        raise ValueError("kept must hold at least one text per question")
    rows = []
    for question, own, scores in zip(questions, kept, score(questions, kept), strict=True):
        words = set(normalize(question).split())
        wanted, content = bool(words & NUMBER_WORDS), words - EMPTY_WORDS
        said = [set(normalize(text).split()) for text in own]
        cover = max(len(content & one) for one in said) / len(content) if content else 1.0
        number = wanted and any(word[:1].isdigit() for one in said for word in one - words)
        rows.append([float(max(scores)), cover, float(wanted), float(number)])
    return np.array(rows)


def small_evaluator(score: Score, coefficients: Mapping | None = None) -> Evaluator:
    """The probability that what is kept is evidence enough, by a logistic regression on `features`.

    coefficients : "intercept" and "coefficients" by feature; by default those that ship
    source       : ECoRAG, eq. 5. Deviation: the paper's evaluator is Flan-T5-large that says <EVI> or <NOT>
    """
    fitted = load_evaluator() if coefficients is None else coefficients
    weights = np.array([fitted["coefficients"][name] for name in FEATURES])

    def probability(questions: Sequence[str], kept: Sequence[Sequence[str]]) -> np.ndarray:
        logit = fitted["intercept"] + features(questions, kept, score) @ weights
        return np.round(1 / (1 + np.exp(-logit)), DECIMALS)

    return probability


def load_evaluator(folder: Path = FOLDER) -> dict:
    """The shipped coefficients of `small_evaluator`.

    raises : ValueError if the file is absent or damaged
    """
    path = Path(folder) / "evaluator.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {"intercept": float(found["intercept"]), "coefficients": {n: found["coefficients"][n] for n in FEATURES}}
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path.name} is absent or damaged ({type(error).__name__}); training/evidence.py makes it"
        ) from error


def asked_evaluator(
    reader: LanguageModel, prompt: Prompt, *, verdicts: Sequence[str] = (" [Evidential]", " [Non-Evidential]")
) -> Evaluator:
    """A language model as evaluator: the probability of the first verdict against the second. For Flan-T5, a profile that names it.

    prompt : with the slots question and documents
    source : ECoRAG, section 5.2 and Fig. 7, with our words; there the model's reply is read, here its probabilities
    """

    def probability(questions: Sequence[str], kept: Sequence[Sequence[str]]) -> np.ndarray:
        pairs = zip(questions, kept, strict=True)
        texts = [prompt_text(reader, prompt, question=one, documents=own) for one, own in pairs]
        said = word_log_likelihoods(reader, texts, verdicts)
        return softmax(said, axis=1)[:, 0].round(DECIMALS)

    return probability


# --- compressors ---------------------------------------------------------------------------------


def first_documents(k: int | None = None) -> Compressor:
    """The first k passages whole, all of them without k."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise ValueError(f"k must be a whole number of at least 1, or None for all; got {k!r}")
    return lambda questions, passages: {q.id: [shown(passage) for passage in passages[q.id][:k]] for q in questions}


def shortened_documents(room: int, count_tokens: Callable[[str], int]) -> Compressor:
    """All passages, the last ones by their first sentence alone: as few of these as it takes for all to fit into `room` tokens.

    raises : ValueError if not even the first sentences of all passages fit
    """

    def compress(questions: Sequence[Question], passages: Retrieved) -> Kept:
        short = {p.id: shown(p, cut(p)[0]) for p in _distinct(questions, passages)}
        whole = {p.id: shown(p) for p in _distinct(questions, passages)}
        length = {text: count_tokens(text) for text in {*short.values(), *whole.values()}}
        kept = {}
        for question in questions:
            texts = [whole[passage.id] for passage in passages[question.id]]
            place, spent = len(texts), sum(length[text] for text in texts)
            while spent > room and place:
                place -= 1
                first = short[passages[question.id][place].id]
                spent += length[first] - length[texts[place]]
                texts[place] = first
            if spent > room:
                raise ValueError(
                    f"the first sentences of question {question.id!r} have {spent} tokens, more than {room}"
                )
            kept[question.id] = texts
        return kept

    return compress


def extractive(score: Score, *, keep: int = LIMIT) -> Compressor:
    """The best `keep` sentences by a score, all where there are fewer: RECOMP's extractive compressor, or a reranker of sentences."""
    return lambda questions, passages: {
        name: [piece.text for piece in own[:keep]] for name, own in ranked(questions, passages, score).items()
    }


def adaptive(
    score: Score, evaluator: Evaluator, *, step: int = STEP, limit: int = LIMIT, threshold: float = THRESHOLD
) -> Compressor:
    """ECoRAG: the best sentences by a score, `step` more at a time, until the evaluator finds them sufficient.

    threshold : least probability that suffices
    source    : ECoRAG, section 3.2.2 and appendix B.1; see `ecorag.compress`
    """

    def compress(questions: Sequence[Question], passages: Retrieved) -> Kept:
        kept = {}
        by_id = {question.id: question.text for question in questions}
        for name, own in ranked(questions, passages, score).items():
            texts = [piece.text for piece in own]

            def sufficient(some: list[str], asked: str = by_id[name]) -> bool:
                return bool(evaluator([asked], [some])[0] >= threshold)

            best_first = -np.arange(len(texts), dtype=float)
            kept[name] = [texts[i] for i in ecorag.compress(texts, best_first, sufficient, step=step, limit=limit)]
        return kept

    return compress


def gold_sentences(questions: Sequence[Question], passages: Retrieved) -> Kept:
    """The oracle: the sentences that the source marks as needed, all of the gold passages where it marks none, found or not."""
    kept = {}
    for question in questions:
        marked = question.gold_sentences or [range(len(cut(passage))) for passage in question.gold]
        kept[question.id] = [
            shown(passage, cut(passage)[place])
            for passage, places in zip(question.gold, marked, strict=True)
            for place in places
        ]
    return kept


def at_random(budget: Mapping[str, int], count_tokens: Callable[[str], int], *, seed: int = 0) -> Compressor:
    """Sentences in a random order, as many as the budget (tokens by question id) holds, one at least."""

    def compress(questions: Sequence[Question], passages: Retrieved) -> Kept:
        rng, kept = np.random.default_rng(seed), {}
        for question in questions:
            texts = [piece.text for piece in pieces(passages[question.id])]
            order = [texts[place] for place in rng.permutation(len(texts))]
            kept[question.id] = fill(order, budget[question.id], count_tokens)
        return kept

    return compress


def likely_documents(reader: LanguageModel, budget: Mapping[str, int]) -> Compressor:
    """LongLLMLingua's documents: those under which the question is most probable, best first, as many as the budget holds.

    source : LongLLMLingua (Jiang et al. 2024), eq. 3: the mean log-likelihood of the question's tokens given the document, of a sentence
             appended to it too, and the document order of section 4.2. Its tokens are not pruned here
    """
    score = question_likelihood(reader, appended=" We can get the answer to this question in the given documents.")

    def compress(questions: Sequence[Question], passages: Retrieved) -> Kept:
        lists = [[shown(passage) for passage in passages[question.id]] for question in questions]
        likely, kept = score([question.text for question in questions], lists), {}
        for question, texts, values in zip(questions, lists, likely, strict=True):
            ids = [passage.id for passage in passages[question.id]]
            by_id = dict(zip(ids, texts, strict=True))
            best = [by_id[name] for name in ranking(dict(zip(ids, values.tolist(), strict=True)))]
            kept[question.id] = fill(best, budget[question.id], reader.count_tokens)
        return kept

    return compress


def informative_sentences(reader: LanguageModel, budget: Mapping[str, int]) -> Compressor:
    """Selective-Context: the sentences whose tokens the reader expects least, in the order of the text; it does not see the question.

    source : Selective-Context (Li et al. 2023), with sentences as units and the mean over their tokens; a unit there is a phrase
    """

    def compress(questions: Sequence[Question], passages: Retrieved) -> Kept:
        said, kept = word_information(reader, _distinct(questions, passages)), {}
        for question in questions:
            units = []
            for passage in passages[question.id]:
                words = iter(said[passage.id])
                for sentence in cut(passage):
                    own = [next(words) for _ in sentence.split()]
                    units.append((shown(passage, sentence), _mean(own)))
            order = np.argsort([-information for _, information in units], kind="stable")
            chosen = set(fill([units[i][0] for i in order], budget[question.id], reader.count_tokens))
            kept[question.id] = [text for text, _ in units if text in chosen]
        return kept

    return compress


def informative_words(reader: LanguageModel, budget: Mapping[str, int]) -> Compressor:
    """LLMLingua's pruning: of all passages the words that the reader expects least, in the order of the text.

    source : LLMLingua (Jiang et al. 2023), section 4.2: tokens of a conditional perplexity above a threshold are kept. Here words, not
             tokens, whole passages read at once and not in segments, one threshold for all passages of a question so that the budget is
             met, titles kept only where words of their passage are, and no coarse step before
    """

    def compress(questions: Sequence[Question], passages: Retrieved) -> Kept:
        said, kept = word_information(reader, _distinct(questions, passages)), {}
        for question in questions:
            own = passages[question.id]
            words = [(i, word, *said[p.id][j]) for i, p in enumerate(own) for j, word in enumerate(p.text.split())]
            order = np.argsort([-total / tokens for *_, total, tokens in words], kind="stable")
            spent = np.cumsum([words[place][3] for place in order])
            chosen = sorted(order[: max(1, int((spent <= budget[question.id]).sum()))])
            by_passage: dict[int, list[str]] = {}
            for place in chosen:
                by_passage.setdefault(words[place][0], []).append(words[place][1])
            kept[question.id] = [shown(own[i], " ".join(some)) for i, some in by_passage.items()]
        return kept

    return compress


# --- shared --------------------------------------------------------------------------------------


def cut(passage: Passage) -> list[str]:
    """The sentences of a passage, found by punctuation where the source does not cut it."""
    return list(passage.sentences) or split_sentences(passage.text)


def fill(texts: Sequence[str], budget: int, count_tokens: Callable[[str], int]) -> list[str]:
    """The texts from the first on that fit into so many tokens; the first in any case.

    >>> fill(["one two", "three", "four five"], 3, lambda text: len(text.split()))
    ['one two', 'three']
    """
    spent, kept = 0, []
    for text in texts:
        spent += count_tokens(text)
        if kept and spent > budget:
            break
        kept.append(text)
    return kept


def word_information(reader: LanguageModel, passages: Sequence[Passage]) -> dict[str, list[tuple[float, int]]]:
    """Per passage and word of its text, how little the reader expected it: nats over its tokens, and how many tokens it has.

    raises : ValueError if the reader's tokens cross the spaces between words
    """
    texts = [" ".join(passage.text.split()) for passage in passages]
    said = reader.log_likelihood([""] * len(texts), texts)
    spaced = [[f" {word}" if place else word for place, word in enumerate(text.split())] for text in texts]
    length = {word: len(reader.encode(word, context=False)) for word in {word for own in spaced for word in own}}
    found = {}
    for passage, own, tokens in zip(passages, spaced, said, strict=True):
        lengths = [length[word] for word in own]
        if sum(lengths) != len(tokens):
            raise ValueError(f"passage {passage.id!r}: its words have {sum(lengths)} tokens, its text {len(tokens)}")
        starts = np.cumsum([0, *lengths[:-1]])
        totals = -np.add.reduceat(tokens, starts)
        found[passage.id] = list(zip(totals.tolist(), lengths, strict=True))
    return found


def _distinct(questions: Sequence[Question], passages: Retrieved) -> list[Passage]:
    return list({passage.id: passage for question in questions for passage in passages[question.id]}.values())


def _mean(words: Sequence[tuple[float, int]]) -> float:
    return sum(total for total, _ in words) / sum(tokens for _, tokens in words)
