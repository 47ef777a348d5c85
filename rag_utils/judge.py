"""Do two answers to a question mean the same? The book's judges need no hub; any MNLI checkpoint can take their place.

    judge = load_judge("embedded")  # or "quick": the first of its two witnesses alone
    judge.equivalent(["who wrote hamlet"], ["Shakespeare"], ["It is a play by William Shakespeare."])

`training/judge.py` fits the quick judge to the verdicts of people; its coefficients are in `data/judge/embedded.json`.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, FiniteFloat
from scipy.special import expit, logit

from rag_utils import lm, prompts, retrieve
from rag_utils.answers import normalize
from rag_utils.base import checks
from rag_utils.base.cache import ROOT
from rag_utils.base.progress import track
from rag_utils.corpora.rows import Form, document
from rag_utils.engine import profiles, weights
from rag_utils.engine.tree import batches
from rag_utils.engine.wording import COMPARED, compare, words

FEATURES = (*COMPARED, "cosine_in_context", "cosine_beyond_question")
COEFFICIENTS = ROOT / "data" / "judge" / "embedded.json"
FOLDS = 5
THRESHOLD = 0.5
DECIMALS = 4  # of a probability: the digits that every machine agrees on
WORDS = (" Yes", " No")  # of a reader that judges
LABELS = ("contradiction", "neutral", "entailment")
Texts = Sequence[str]
BATCH_TOKENS = 8192  # of an entailment model, padding included
MAX_TOKENS = 512  # of premise and hypothesis together, unless the model reads fewer


class JudgeError(ValueError):
    """The coefficients of the embedded judge are absent or damaged, or a checkpoint is not an entailment model."""


class Judge(ABC):
    """What says whether two answers mean the same."""

    @abstractmethod
    def equivalent(self, questions: Texts, left: Texts, right: Texts) -> np.ndarray:
        """P(the two answers mean the same) of n pairs, (n,) floats, symmetric in left and right; `THRESHOLD` parts yes from no.

        raises : ValueError if one is no filled list of strings, or the lengths differ
        """


def load_judge(profile: str | profiles.Profile | Judge = "embedded", *, mode: str = "live", chapter: str | None = None) -> Judge:
    """The profile's judge: an entailment model or a reader, if it names one; else, or for "quick", the quick one; a judge as it is.

    mode, chapter : of a reader that judges, as in `lm.load`
    raises        : ValueError for an unknown profile; JudgeError; WeightsError if the weights cannot be had
    """
    if isinstance(profile, Judge):
        return profile
    if profile == "quick" or (profile := profiles.get(profile, beside=("quick",))).judge is None:
        return EmbeddedJudge()
    if profile.judge in profiles.PROFILES:
        return ReaderJudge(lm.load(profile.judge, mode=mode, chapter=chapter))
    loaded = weights.load(profile, task="nli")
    return NliJudge(loaded.model, loaded.tokenizer, batch_tokens=profile.batch_tokens or BATCH_TOKENS)


class Fit(Form):
    """One fitted logistic regression: logit = intercept + coefficients . features."""

    intercept: FiniteFloat
    coefficients: tuple[(FiniteFloat,) * len(FEATURES)]
    same: Annotated[float, Field(ge=0.9, lt=1)]  # share of right answers among those with the same words as the gold


class Coefficients(Form):
    """What `training/judge.py` writes: a fit on everything, and per fold a fit on all other folds."""

    features: tuple[tuple(Literal[name] for name in FEATURES)]
    scale: tuple[(Annotated[FiniteFloat, Field(gt=0)],) * len(FEATURES)]  # standard deviation of each feature
    everything: Fit
    folds: tuple[(Fit,) * FOLDS]
    questions: frozenset[Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]]  # `question_key` of all that it was fitted to
    provenance: dict


def question_key(question: str) -> str:
    """A question's name in the coefficients: 8 hex digits, the same however it is punctuated and capitalised.

    >>> question_key("Who wrote Hamlet?") == question_key("who wrote hamlet")
    True
    """
    return hashlib.sha256(normalize(question).encode()).hexdigest()[:8]


def fold(question: str) -> int:
    """The fold, 0 to 4, that a question belongs to in cross-validation."""
    return int(question_key(question), 16) % FOLDS


def load_coefficients(path: Path = COEFFICIENTS) -> Coefficients:
    """The coefficients in that file; JudgeError names file and field if it is absent, cut short or not for these features."""
    return document(path, Coefficients, mend="get it back with git, or write it with training/judge.py", error=JudgeError)


def design(questions: Texts, left: Texts, right: Texts, *, encode: retrieve.Encoder) -> np.ndarray:
    """The numbers that the regression sees, one row per pair of answers, one column per name in `FEATURES`.

    The last two are cosines of embeddings: of "question? answer", left against right; and of the two answers with what they owe to the
    question taken out (the partial correlation of two vectors given a third).

    encode  : list of texts -> (n, d) rows of length 1; called with each distinct text once
    returns : (n, 18) float
    raises  : ValueError if an answer is blank, or for embeddings that are not finite or not one per text
    """
    lexical = [list(compare(*pair).values()) for pair in zip(questions, left, right, strict=True)]
    asked = [f"{question.rstrip('?').strip()}?" for question in questions]
    in_context = [[f"{question} {text}" for question, text in zip(asked, side, strict=True)] for side in (left, right)]
    distinct = sorted({*questions, *left, *right, *in_context[0], *in_context[1]}, key=lambda text: (len(text), text))
    parts = track([distinct[i : i + 1024] for i in range(0, len(distinct), 1024)], what="embedding answers", total=len(distinct))
    vectors = np.concatenate([*map(retrieve.remembering(encode), parts)]).astype(float)
    place = {text: row for row, text in enumerate(distinct)}

    def cosine(*sides: Texts) -> np.ndarray:
        rows = np.array([[place[text] for text in side] for side in sides])
        return np.concatenate([np.einsum("ij,ij->i", *vectors[part]) for part in np.array_split(rows, 1 + len(left) // 1024, axis=1)])

    between, first, second = cosine(left, right), cosine(questions, left), cosine(questions, right)
    partial = (between - first * second) / np.sqrt(np.maximum((1 - first**2) * (1 - second**2), 1e-4))
    return np.column_stack([lexical, cosine(*in_context), np.clip(partial, -1, 1)])


class EmbeddedJudge(Judge):
    """MiniLM cosines and what words say (which they share, whether numbers, dates and negations agree), weighed by a logistic regression.

    encode : texts -> embeddings; by default all-MiniLM-L6-v2, loaded at the first call that needs it
    """

    def __init__(self, coefficients: Coefficients | None = None, *, encode: retrieve.Encoder | None = None):
        self.coefficients = coefficients or load_coefficients()
        self._encode = encode

    def equivalent(self, questions: Texts, left: Texts, right: Texts) -> np.ndarray:
        """P(the two answers mean the same), to four decimals, exactly symmetric; each distinct pair is computed once.

        Answers with the same words (`words`) have one probability, the share that people found right; a blank one and
        one that is not have 0. A question that the regression was fitted to is judged by the fit without its fold.
        """
        _check(questions=questions, left=left, right=right)
        pairs = [(question, *sorted(pair)) for question, *pair in zip(questions, left, right, strict=True)]
        fits = {question: self._fit(question) for question in {*questions}}
        known = {pair: self._obvious(fits[pair[0]], *pair[1:]) for pair in sorted(set(pairs))}
        if open_pairs := [pair for pair, probability in known.items() if probability is None]:
            encode = self._encode or retrieve.encoder()
            table = design(*zip(*open_pairs, strict=True), encode=encode)
            for pair, row in zip(open_pairs, table, strict=True):
                fit = fits[pair[0]]
                known[pair] = float(expit(fit.intercept + float(row @ fit.coefficients)))
        return np.round([known[pair] for pair in pairs], DECIMALS)

    def _obvious(self, fit: Fit, left: str, right: str) -> float | None:
        if words(left) == words(right):
            return fit.same
        return None if left.strip() and right.strip() else 0.0

    def _fit(self, question: str) -> Fit:
        seen = question_key(question) in self.coefficients.questions
        return self.coefficients.folds[fold(question)] if seen else self.coefficients.everything


class ReaderJudge(Judge):
    """The quick judge and a reader that was trained to judge (`training/judge_reader.py`), as two witnesses; several times as slow.

    reader : says Yes or No to the prompt `same_answer`; its calls are recorded
    """

    def __init__(self, reader: lm.LanguageModel, beside: Judge | None = None):
        self.reader, self._beside, self._prompt = reader, beside or EmbeddedJudge(), prompts.load("same_answer")

    def equivalent(self, questions: Texts, left: Texts, right: Texts) -> np.ndarray:
        """Both log-odds added, the reader's the mean of both orders; answers with the same words and blank ones are not read."""
        shares, pairs = self._beside.equivalent(questions, left, right), [*zip(questions, left, right, strict=True)]
        rows = [row for row, (_, a, b) in enumerate(pairs) if words(a) != words(b) and a.strip() and b.strip()]
        if texts := [self._prompt.fill(question=q, left=a, right=b) for q, *ab in map(pairs.__getitem__, rows) for a, b in (ab, ab[::-1])]:
            said = lm.word_log_likelihoods(self.reader, texts, WORDS)
            odds = (said[:, 0] - said[:, 1]).reshape(-1, 2).mean(axis=1)
            shares[rows] = expit(logit(shares[rows].clip(0.1**DECIMALS, 1 - 0.1**DECIMALS)) + odds)
        return np.round(shares, DECIMALS)


class NliJudge(Judge):
    """A sequence classifier trained on MNLI; premise and hypothesis are both "question answer", as in SePer's code.

    batch_tokens : how many tokens, padding included, one batch may hold
    raises       : JudgeError if the labels in the model's configuration are not those of MNLI
    """

    def __init__(self, model, tokenizer, *, batch_tokens: int = BATCH_TOKENS):
        self.model, self.tokenizer, self.batch_tokens = model, tokenizer, batch_tokens
        self.columns = label_columns(model.config.id2label)

    def entailment(self, questions: Texts, premises: Texts, hypotheses: Texts) -> np.ndarray:
        """P(contradiction), P(neutral), P(entailment), (n, 3), of the hypothesis given the premise, both as answers.

        Each distinct case is computed once; of texts too long together the longer is cut first. Raises as `Judge.equivalent`.
        """
        import torch

        _check(questions=questions, premises=premises, hypotheses=hypotheses)
        calls = [(f"{q} {premise}", f"{q} {hypothesis}") for q, premise, hypothesis in zip(questions, premises, hypotheses, strict=True)]
        distinct = sorted(set(calls))
        positions = getattr(self.model.config, "max_position_embeddings", MAX_TOKENS)
        limit = min(self.tokenizer.model_max_length, positions, MAX_TOKENS)

        def encoded(rows: Sequence[int], **options):
            sides = [[distinct[row][side] for row in rows] for side in (0, 1)]
            return self.tokenizer(*sides, truncation="longest_first", max_length=limit, **options)

        lengths = [len(tokens) for tokens in encoded(range(len(distinct)))["input_ids"]]
        shares = np.empty((len(distinct), 3))
        for rows in track(batches(lengths, self.batch_tokens), what="entailment", total=len(distinct)):
            inputs = encoded(rows, padding=True, return_tensors="pt").to(self.model.device)
            with torch.inference_mode():
                logits = self.model(**inputs).logits.double()
            shares[rows] = logits.softmax(dim=-1)[:, self.columns].cpu().numpy()
        if not np.isfinite(shares).all():
            raise JudgeError("the model's probabilities must be finite; got NaN, as of damaged weights")
        place = {call: row for row, call in enumerate(distinct)}
        return shares[[place[call] for call in calls]]

    def equivalent(self, questions: Texts, left: Texts, right: Texts) -> np.ndarray:
        """P(entailment) of the two answers, the larger of the two ways of reading, as SePer's code has it."""
        _check(questions=questions, left=left, right=right)
        both = self.entailment([*questions, *questions], [*left, *right], [*right, *left])[:, 2]
        return np.maximum(both[: len(questions)], both[len(questions) :])


def label_columns(id2label: dict[int, str]) -> list[int]:
    """The columns of a model's output that hold contradiction, neutral and entailment; JudgeError if it has other labels."""
    column = {str(label).lower(): int(number) for number, label in id2label.items()}
    if sorted(column) != sorted(LABELS) or len(id2label) != len(LABELS):
        got, wanted = ", ".join(map(str, id2label.values())), ", ".join(LABELS)
        raise JudgeError(f"got a model with the labels {got}; wanted {wanted} in any order, as MNLI's id2label")
    return [column[label] for label in LABELS]


def _check(**lists: Sequence[str]) -> None:
    checks.same_length(**{name: checks.texts(name, texts) for name, texts in lists.items()})
