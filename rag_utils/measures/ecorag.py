"""ECoRAG asked of a reader: which retrieved sentences are evidence, which of them are kept, and what is answered with these.

labels = mine(reader, questions, passages, closed=..., read=...)
score = dot_products(encode, load_head("evidentiality"))
kept = adaptive(score, small_evaluator(score))(questions, passages)
table = answered(reader, questions, {"closed book": None, "ECoRAG": kept}, closed=..., read=...)
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load_file

from rag_utils import answers, ecorag
from rag_utils.base import checks
from rag_utils.base.cache import ROOT
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel
from rag_utils.measures import by_id
from rag_utils.prompts import Prompt, prompt_text
from rag_utils.retrieve import DECIMALS, Encoder, remembering

Retrieved = Mapping[str, Sequence[Passage]]  # question id -> passages, best first
Compressed = dict[str, list[str]]  # question id -> texts to show, in the order of the prompt
Compressor = Callable[[Sequence[Question], Retrieved], Compressed]
Asked = Sequence[tuple[Question, Sequence[str]]]  # questions, each with the texts that it is shown, possibly none
Score = Callable[[Sequence[str], Sequence[Sequence[str]]], list[np.ndarray]]  # questions, texts of each -> (n,) each
Head = Mapping[str, np.ndarray]  # PARTS: what training adds to a frozen encoder; an embedding e becomes e + e down up
Evaluator = Callable[[Sequence[str], Sequence[Sequence[str]]], np.ndarray]  # questions, texts kept -> P(sufficient)

FOLDER = ROOT / "data" / "compressor"
HEADS = ("evidentiality", "answerability", "leave-one-out")
PARTS = ("question.down", "question.up", "sentence.down", "sentence.up")  # (d, r) and (r, d)
FEATURES = ("similarity", "words", "number wanted", "number there")
STEP, LIMIT = 4, 20  # ECoRAG, appendix B.1
THRESHOLD = 0.5
NUMBER_WORDS = {"when", "year", "many", "much", "long", "old", "tall", "high", "far", "deep", "century", "date"}
EMPTY_WORDS = {
    "what", "who", "which", "where", "when", "how", "why", "is", "are", "was", "were", "do", "does", "did", "in", "on", "at", "of", "to",
    "for", "from", "by", "with", "and", "or", "that", "this", "it", "its", "as", "be", "been", "has", "have", "had", "name", "many", "much",
}  # fmt: skip


class Sentence(NamedTuple):
    """A sentence of a retrieved passage: its text as it is shown, its passage's id, and its number there."""

    text: str
    passage: str
    place: int


def titled(passage: Passage, text: str | None = None) -> str:
    """A text of the passage, by default all of it, after the passage's title, if there is one, which says what it is about."""
    text = passage.text if text is None else text
    return f"{passage.title}: {text}" if passage.title.strip() else text


def sentences(passages: Sequence[Passage]) -> list[Sentence]:
    """The sentences of at least one passage, in their order."""
    return [
        Sentence(titled(passage, text), passage.id, place)
        for passage in checks.listed("passages", passages)
        for place, text in enumerate(passage.cut())
    ]


def mine(reader: LanguageModel, questions: Sequence[Question], passages: Retrieved, **asking) -> pd.DataFrame:
    """What every sentence of the passages is to the reader, by whether its greedy answers are exactly right.

    asking  : closed, read and max_new_tokens, as in `replies`
    returns : columns id, rank (of the sentence, 1 ..), passage, place, closed (1: right without any), label (one of ecorag.LABELS)
    source  : ECoRAG, section 3.1.1; see `ecorag.mine`
    """
    asked = by_id(questions)
    cut = [sentences(checks.keyed("passages", passages, asked)[name]) for name in asked]

    def said(shown: Sequence[tuple[str, ...]]) -> list[bool]:  # id, texts
        return right(reader, [(asked[name], texts) for name, *texts in shown], **asking)

    known = dict(zip(asked, said([(name,) for name in asked]), strict=True))
    each = {"closed_book": partial(map, known.get), "with_sentence": said, "strong_with_sentence": said}
    labels = ecorag.mine(list(asked), [[sentence.text for sentence in own] for own in cut], **each)
    rows = [
        (name, rank, sentence.passage, sentence.place, int(known[name]), label)
        for name, own, labels_of in zip(asked, cut, labels, strict=True)
        for rank, (sentence, label) in enumerate(zip(own, labels_of, strict=True), 1)
    ]
    return pd.DataFrame(rows, columns=["id", "rank", "passage", "place", "closed", "label"])


def right(reader: LanguageModel, asked: Asked, **asking) -> list[bool]:
    """Whether the reader's greedy answer to each question with its texts is exactly right; arguments as in `replies`."""
    said = zip(asked, replies(reader, asked, **asking), strict=True)
    return [bool(answers.exact_match(reply, question.answers)) for (question, _), reply in said]


def replies(reader: LanguageModel, asked: Asked, *, closed: Prompt, read: Prompt, max_new_tokens: int = 16) -> list[str]:
    """The reader's greedy answer to each question with its texts, by the prompt `read`, or without any, by `closed`."""
    prompts = [prompt_text(reader, read if texts else closed, question, texts or None) for question, texts in asked]
    return [reply.text for [reply] in reader.generate(prompts, max_new_tokens=max_new_tokens)] if prompts else []


def load_head(name: str, folder: Path = FOLDER) -> Head:
    """The head that was trained on these labels, one of HEADS; ValueError if its file is absent or damaged."""
    with _intact(Path(folder) / f"{checks.one_of('head', name, HEADS)}.safetensors") as path:
        tensors = load_file(path)
        head = {part: checks.numbers(part, tensors[part], dimensions=2).astype(np.float32) for part in PARTS}
        if any(head[f"{side}.down"].shape != head[f"{side}.up"].shape[::-1] for side in ("question", "sentence")):
            raise ValueError("down and up that do not fit")
        return head


def load_evaluator(folder: Path = FOLDER) -> dict:
    """{"intercept": number, "coefficients": {feature: number}} of `small_evaluator`; ValueError if the file is absent or damaged."""
    with _intact(Path(folder) / "evaluator.json") as path:
        fitted = json.loads(path.read_text(encoding="utf-8"))
        coefficients = {name: checks.number(name, fitted["coefficients"][name]) for name in FEATURES}
        return {"intercept": checks.number("intercept", fitted["intercept"]), "coefficients": coefficients}


@contextmanager
def _intact(path: Path) -> Iterator[Path]:
    try:
        yield path
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
        what = f"{path} is absent or damaged ({type(error).__name__})"
        raise ValueError(f"{what}; training/evidence.py makes it") from error


def dot_products(encode: Encoder, head: Head | None = None, *, asked: Encoder | None = None) -> Score:
    """Dot products of a question's and its sentences' embeddings, with a trained head or as the encoder has them.

    encode  : each distinct text is embedded once, by several scores too if it is `remembering`; asked: the same for questions
    returns : a function; its numbers are rounded to six decimals, so that a processor's last digits decide nothing
    source  : ECoRAG, section 3.1.2. Without a head, RECOMP's extractive compressor with an encoder that is not trained for it
    """
    vectors = remembering(encode)
    question_vectors = vectors if asked is None else remembering(asked)

    def moved(rows: np.ndarray, side: str) -> np.ndarray:
        return rows if head is None else rows + rows @ head[f"{side}.down"] @ head[f"{side}.up"]

    def score(questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[np.ndarray]:
        vectors([text for own in texts for text in own])  # all in one call
        sought = moved(question_vectors(questions), "question")
        values = (moved(vectors(own), "sentence") @ query for query, own in zip(sought, texts, strict=True))
        return [np.round(own.astype(float), DECIMALS) for own in values]

    return score


def ranked(questions: Sequence[Question], passages: Retrieved, score: Score) -> dict[str, list[Sentence]]:
    """The sentences of each question's passages, best first; equal scores in the order of the passages."""
    asked = by_id(questions)
    cut = [sentences(checks.keyed("passages", passages, asked)[name]) for name in asked]
    scores = score([question.text for question in questions], [[sentence.text for sentence in own] for own in cut])
    return {
        question.id: [own[place] for place in np.argsort(-values, kind="stable")]
        for question, own, values in zip(questions, cut, scores, strict=True)
    }


def features(questions: Sequence[str], kept: Sequence[Sequence[str]], score: Score) -> np.ndarray:
    """What the small evaluator looks at, (n, 4): per question one number for each name in FEATURES. None falls when a text is added.

    similarity : of the question and the best text kept, at least one
    words      : largest share of the question's content words in one text
    number     : whether the question asks for one (when, how many, ...), and whether it does and a text holds one that is not in it
    """
    rows, kept = [], [checks.listed("texts kept for a question", own) for own in kept]
    for question, own, scores in zip(questions, kept, score(questions, kept), strict=True):
        words = set(answers.normalize(question).split())
        wanted, content = bool(words & NUMBER_WORDS), words - EMPTY_WORDS
        said = [set(answers.normalize(text).split()) for text in own]
        cover = max(len(content & text) for text in said) / len(content) if content else 1.0
        number = wanted and any(word[:1].isdigit() for text in said for word in text - words)
        rows.append([float(max(scores)), cover, float(wanted), float(number)])
    return np.array(rows)


def small_evaluator(score: Score, coefficients: Mapping | None = None) -> Evaluator:
    """The probability that what is kept is evidence enough, by a logistic regression on `features`; by default the one that ships.

    source : ECoRAG, eq. 5. Deviation: the paper's evaluator is Flan-T5-large that says <EVI> or <NOT>
    """
    fitted = load_evaluator() if coefficients is None else coefficients
    weights = np.array([fitted["coefficients"][name] for name in FEATURES])

    def probability(questions: Sequence[str], kept: Sequence[Sequence[str]]) -> np.ndarray:
        logit = fitted["intercept"] + features(questions, kept, score) @ weights
        return np.round(1 / (1 + np.exp(-logit)), DECIMALS)

    return probability


def adaptive(score: Score, evaluator: Evaluator, *, step: int = STEP, limit: int = LIMIT, threshold: float = THRESHOLD) -> Compressor:
    """ECoRAG: the best sentences, `step` more at a time, until the evaluator finds them sufficient with a probability of `threshold`.

    source : ECoRAG, section 3.2.2 and appendix B.1; see `ecorag.compress`
    """

    def compress(questions: Sequence[Question], passages: Retrieved) -> Compressed:
        order, kept = ranked(questions, passages, score), {}
        for question in questions:
            texts = [sentence.text for sentence in order[question.id]]

            def sufficient(shown: list[str], asked: str = question.text) -> bool:
                return bool(evaluator([asked], [shown])[0] >= threshold)

            places = ecorag.compress(texts, -np.arange(len(texts)), sufficient, step=step, limit=limit)
            kept[question.id] = [texts[place] for place in places]
        return kept

    return compress


def answered(reader: LanguageModel, questions: Sequence[Question], kept: Mapping[str, Compressed | None], **asking) -> pd.DataFrame:
    """The reader's answers with what each compressor keeps; all prompts in one call, so that what they share is read once.

    kept    : condition -> texts by question id; None asks without any
    asking  : closed, read and max_new_tokens, as in `replies`
    returns : columns id, condition, exact_match, token_f1, tokens (of the texts kept), texts (their number), unparsable
    raises  : ValueError if nothing was kept for a question
    """
    cases = [(name, question, own and own[question.id]) for name, own in kept.items() for question in questions]
    for name, question, texts in cases:
        if texts is not None and not texts:
            raise ValueError(f"{name} kept nothing for question {question.id!r}, wanted at least one text")
    said = replies(reader, [(question, texts) for _, question, texts in cases], **asking)
    count, rows = cache(reader.count_tokens), []
    for (name, question, texts), reply in zip(cases, said, strict=True):
        scores = {score: answers.METRICS[score](reply, question.answers) for score in ("exact_match", "token_f1")}
        size = {"tokens": sum(map(count, texts or ())), "texts": len(texts or ())}
        unparsable = int(not answers.normalize(reply))
        rows.append({"id": question.id, "condition": name} | scores | size | {"unparsable": unparsable})
    return pd.DataFrame(rows)
