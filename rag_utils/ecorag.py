"""ECoRAG: which sentences are evidence, how a compressor learns to put them first, and how many of them to keep.

A sentence is strong evidence if it turns a wrong answer into a right one, weak evidence if it does no harm beside a strong sentence, and a
distractor if it does. `mine` finds these labels with a reader, `compressor_loss` is what a compressor learns from them, and `compress`
adds the best sentences until an evaluator finds them sufficient.

Q questions, n sentences; similarities are plain numbers, losses are in nats. There is no public code: everything is from the paper.
"""

import math
from collections import Counter
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from rag_utils.base.names import check_name

LABELS = ("strong", "weak", "distractor", "undefined")


# --- labels --------------------------------------------------------------------------------------


def evidentiality(closed_book, with_sentence, strong_with_sentence):
    """What a sentence is to a reader, from whether three of its answers are right.

    closed_book          : True or False, without any sentence
    with_sentence        : True or False, with the sentence alone
    strong_with_sentence : True or False, with a strong sentence and this one; None if the question has no strong sentence
    returns              : "strong" | "weak" | "distractor" | "undefined"
    raises               : ValueError if one is not True or False (1 and 0 will do), the first two not even None
    source               : ECoRAG, section 3.1.1, conditions 1 and 2. Two consequences: a question that the reader answers by heart has no
                           strong sentence; and a sentence that says nothing is weak evidence, because it breaks nothing. "undefined" is
                           ours: the paper does not say what the sentences of a question without strong evidence are

    >>> evidentiality(False, True, None), evidentiality(True, True, None)   # known by heart: nothing can be shown
    ('strong', 'undefined')
    >>> evidentiality(False, False, True), evidentiality(False, False, False)
    ('weak', 'distractor')
    """
    closed_book, with_sentence = _flag("closed_book", closed_book), _flag("with_sentence", with_sentence)
    if strong_with_sentence is not None:
        strong_with_sentence = _flag("strong_with_sentence", strong_with_sentence)
    if with_sentence and not closed_book:
        return "strong"
    if strong_with_sentence is None:
        return "undefined"
    return "weak" if strong_with_sentence else "distractor"


def mine(questions, sentences, *, closed_book, with_sentence, strong_with_sentence):
    """The label of every sentence, by asking a reader no more than is needed.

    questions            : Q texts or ids
    sentences            : Q lists of at least one sentence each
    closed_book          : list of questions -> as many True and False, whether the answers are right
    with_sentence        : list of (question, sentence) -> as many True and False
    strong_with_sentence : list of (question, strong sentence, sentence) -> as many True and False
    returns              : Q lists of labels, in the order of the sentences
    raises               : ValueError for no questions, lists of different length, a text where a list of texts is wanted, a question
                           without sentences, and if a function does not answer True or False to each that it is asked
    source               : ECoRAG, section 3.1.1. Deviation: which strong sentence stands for "the evidence" if there are several is not
                           said; here it is the first of them. Each function is called once at most, with every distinct question, pair or
                           triple once: pairs only where the reader does not know the answer, triples only where there is a strong sentence

    >>> said = {("q", "a"): True, ("q", "b"): False, ("q", "a", "b"): True}
    >>> reader = lambda asked: [said[one] for one in asked]
    >>> mine(["q"], [["a", "b"]], closed_book=lambda asked: [False], with_sentence=reader, strong_with_sentence=reader)
    [['strong', 'weak']]
    """
    questions = _listed("questions", questions)
    sentences = [_listed("the sentences of a question", own) for own in _listed("sentences", sentences)]
    if len(questions) != len(sentences):
        raise ValueError(
            f"sentences must be one list per question; got {len(sentences)} for {len(questions)} questions"
        )
    rows = list(zip(questions, sentences, strict=True))
    known = _ask("closed_book", closed_book, questions)
    pairs = [(question, sentence) for question, own in rows if not known[question] for sentence in own]
    alone = _ask("with_sentence", with_sentence, pairs)
    firsts = [next((sentence for sentence in own if alone.get((question, sentence))), None) for question, own in rows]
    triples = [
        (question, first, sentence)
        for (question, own), first in zip(rows, firsts, strict=True)
        if first is not None
        for sentence in own
        if not alone[question, sentence]
    ]
    beside = _ask("strong_with_sentence", strong_with_sentence, triples)
    return [
        [
            evidentiality(
                known[question], alone.get((question, sentence), False), beside.get((question, first, sentence))
            )
            for sentence in own
        ]
        for (question, own), first in zip(rows, firsts, strict=True)
    ]


@dataclass(frozen=True)
class LabelStatistics:
    """How often each label occurs. Made by `label_statistics`.

    counts      : (Q, 4) int, one row per question, columns in the order of LABELS
    total       : dict label -> int, over all questions
    questions   : int, Q
    with_strong : int, questions with at least one strong sentence; no other can teach a compressor anything
    """

    counts: np.ndarray
    total: dict
    questions: int
    with_strong: int


def label_statistics(labels):
    """Counts of the four labels, per question and together.

    labels  : Q lists of labels, as `mine` returns them
    returns : LabelStatistics
    raises  : ValueError for no questions, a question without labels, an unknown label
    source  : ours; the paper prints no counts

    >>> found = label_statistics([["strong", "weak", "weak"], ["undefined"]])
    >>> found.total, found.with_strong, found.questions
    ({'strong': 1, 'weak': 2, 'distractor': 0, 'undefined': 1}, 1, 2)
    """
    counted = [Counter(_labels(own)) for own in _listed("labels", labels)]
    counts = np.array([[one[label] for label in LABELS] for one in counted])
    total = dict(zip(LABELS, counts.sum(axis=0).tolist(), strict=True))
    return LabelStatistics(counts, total, len(counts), int((counts[:, LABELS.index("strong")] > 0).sum()))


# --- losses --------------------------------------------------------------------------------------


def info_nce(positive, negatives, *, temperature=1.0):
    """Surprise at picking the positive out of itself and the negatives, each with weight exp(similarity / temperature).

    positive    : similarity of question and positive sentence
    negatives   : (m,) similarities of the question and the negatives; may be empty
    temperature : above 0
    returns     : float, nats, 0 and above; 0 without negatives, log(1 + m) if all similarities are equal
    raises      : ValueError if a number is NaN or infinite, if negatives is not a flat list of numbers, if temperature is 0 or less, and
                  if the loss is too large for a float
    source      : ECoRAG, eqs. 2 and 3: -log(exp(s/t) / (exp(s/t) + sum_j exp(s_j/t))). Computed from the differences s_j - s, so that
                  large similarities neither overflow nor vanish

    >>> round(info_nce(0.7, [0.1, -0.2, 0.4]), 4)
    0.9918
    >>> info_nce(0.0, [1000.0]), info_nce(0.7, [])
    (1000.0, 0.0)
    """
    positive, temperature = _finite("positive", positive), _temperature(temperature)
    negatives = _numbers("negatives", negatives)
    with np.errstate(over="ignore"):
        gaps = (negatives - positive) / temperature
    loss = float(np.logaddexp.reduce(gaps, initial=0.0))
    if not math.isfinite(loss):
        raise ValueError(f"similarities must not lie so far apart; at temperature {temperature} the loss is {loss}")
    return loss


def strong_loss(scores, labels, *, temperature=1.0):
    """Mean loss of a question's strong sentences, each against all that are weak or distractors.

    scores      : (n,) similarities of the question and its sentences
    labels      : (n,) of LABELS; undefined sentences count nowhere
    temperature : above 0
    returns     : float, nats, 0 and above; 0 without strong sentences
    raises      : ValueError as `info_nce`, for no sentences, lists of different length, an unknown label
    source      : ECoRAG, eq. 3. The paper gives the loss of one strong sentence; the mean over several is ours, and so is to take all
                  negatives, where appendix B.1 draws them (15 per cent weak, 85 per cent distractors)

    >>> round(strong_loss([1.2, 0.1, -0.2, 0.4, 0.7], ["strong", *["distractor"] * 3, "weak"]), 4)
    0.969
    """
    return _contrast(scores, labels, "strong", ("weak", "distractor"), temperature)


def weak_loss(scores, labels, *, temperature=1.0):
    """Mean loss of a question's weak sentences, each against all distractors; arguments and errors as in `strong_loss`.

    returns : float, nats, 0 and above; 0 without weak sentences
    source  : ECoRAG, eq. 2; strong sentences are no part of it

    >>> round(weak_loss([1.2, 0.1, -0.2, 0.4, 0.7], ["strong", *["distractor"] * 3, "weak"]), 4)
    0.9918
    """
    return _contrast(scores, labels, "weak", ("distractor",), temperature)


def compressor_loss(scores, labels, *, temperature=1.0):
    """What the compressor makes small: `strong_loss` plus `weak_loss`, with their arguments and errors.

    returns : float, nats, 0 and above
    source  : ECoRAG, eq. 4
    """
    strong = strong_loss(scores, labels, temperature=temperature)
    return strong + weak_loss(scores, labels, temperature=temperature)


def _contrast(scores, labels, higher, lower, temperature):
    """Mean over the sentences labelled `higher` of their `info_nce` against those labelled one of `lower`."""
    scores, labels, temperature = _numbers("scores", scores), np.array(_labels(labels)), _temperature(temperature)
    if len(scores) != len(labels):
        raise ValueError(f"scores must be one per label; got {len(scores)} for {len(labels)} labels")
    negatives = scores[np.isin(labels, lower)]
    losses = [info_nce(score, negatives, temperature=temperature) for score in scores[labels == higher]]
    return float(np.mean(losses)) if losses else 0.0


# --- compression ---------------------------------------------------------------------------------


def compress(sentences, scores, is_sufficient, *, step=4, limit=20):
    """Which sentences to keep: the best ones, as many as the evaluator needs.

    sentences     : n sentences
    scores        : (n,) one per sentence, the higher the better
    is_sufficient : list of the sentences kept so far, best first -> True or False
    step          : how many are added at a time, 1 and above; the last time fewer, if `limit` or n asks for it
    limit         : most sentences kept, 1 and above
    returns       : list of int, places in `sentences`, best score first, equal scores in the order of the sentences
    raises        : ValueError for no sentences, a text instead of a list, scores that are not n finite numbers, step or limit that is not a
                    whole number of 1 or more, and an evaluator that does not say True or False (a probability needs a threshold)
    source        : ECoRAG, section 3.2.2 and appendix B.1. Section 3.2 adds one sentence at a time (step=1), the appendix four, up to 20;
                    section 3.2.2 speaks of a limit in tokens, the appendix of one in sentences. The evaluator is asked once after each
                    addition, after the last one too, where its answer changes nothing

    >>> compress(["noise", "the bridge", "opened in 1894", "more noise"], [0.1, 0.7, 0.9, 0.0], lambda kept: len(kept) == 2, step=1)
    [2, 1]
    """
    sentences, scores = _listed("sentences", sentences), _numbers("scores", scores)
    if len(scores) != len(sentences):
        raise ValueError(f"scores must be one per sentence; got {len(scores)} for {len(sentences)} sentences")
    for name, value in (("step", step), ("limit", limit)):
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")
    best_first = np.argsort(-scores, kind="stable").tolist()[:limit]
    for count in range(step, len(best_first) + step, step):
        kept = best_first[:count]
        if _flag("the evaluator's reply", is_sufficient([sentences[place] for place in kept])):
            break
    return kept


# --- shared --------------------------------------------------------------------------------------


def _ask(name, correct, asked):
    """What a function of the reader says about every distinct thing, in one call; none if there is nothing to ask."""
    asked = list(dict.fromkeys(asked))
    replies = list(correct(asked)) if asked else []
    if len(replies) != len(asked):
        raise ValueError(
            f"{name} must return one True or False for each that it is asked; got {len(replies)} for {len(asked)}"
        )
    return {one: _flag(f"a reply of {name}", reply) for one, reply in zip(asked, replies, strict=True)}


def _flag(name, value):
    if not isinstance(value, Real | np.bool_) or value not in (0, 1):
        raise ValueError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def _finite(name, value):
    if not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be one finite number; got {value!r}")
    return float(value)


def _temperature(value):
    if _finite("temperature", value) <= 0:
        raise ValueError(f"temperature must be above 0; got {value!r}")
    return float(value)


def _listed(name, values):
    """Values as a list with something in it; a text is none."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name} must be a list; got {type(values).__name__}")
    values = list(values)
    if not values:
        raise ValueError(f"{name} must not be empty")
    return values


def _labels(values):
    return [check_name("label", label, LABELS) for label in _listed("labels", values)]


def _numbers(name, values):
    """Values as an (m,) float array, finite; may be empty."""
    try:
        values = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a flat list of numbers; got a ragged one") from error
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iuf"):
        raise ValueError(f"{name} must be a flat list of numbers; got shape {values.shape} of {values.dtype}")
    if not np.isfinite(values.astype(float)).all():
        raise ValueError(
            f"{name} must be finite; got {int((~np.isfinite(values.astype(float))).sum())} NaN or infinite"
        )
    return values.astype(float)
