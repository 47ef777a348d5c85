"""ECoRAG, evidentiality-guided compression: which sentences are evidence, how to learn to put them first, and how many to keep.

A sentence is strong evidence if it turns a wrong answer into a right one, weak evidence if it does no harm beside a strong sentence, and a
distractor if it does.

Q questions, n sentences; similarities are plain numbers, losses are in nats. The repository that the paper names held no code when we
looked: everything is from the paper.
"""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from rag_utils.base import checks

LABELS = ("strong", "weak", "distractor", "undefined")
NEGATIVES = {"strong": ("weak", "distractor"), "weak": ("distractor",)}  # what a positive is told from


def evidentiality(closed_book, with_sentence, strong_with_sentence):
    """What a sentence is to a reader, from whether three of its answers are right.

    closed_book          : True or False, without any sentence
    with_sentence        : True or False, with the sentence alone
    strong_with_sentence : True or False, with a strong sentence and this one; None if the question has no strong sentence
    returns              : "strong" | "weak" | "distractor" | "undefined"
    raises               : ValueError if one is not True or False
    source               : ECoRAG, section 3.1.1, conditions 1 and 2. So a question that the reader answers by heart has no strong sentence,
                           and a sentence that says nothing is weak evidence. "undefined" is ours: the paper does not say what the
                           sentences of a question without strong evidence are. Where closed_book is True the third answer can only be
                           None; another is taken as said, by condition 2

    >>> evidentiality(False, True, None), evidentiality(True, True, None)   # known by heart: nothing can be shown
    ('strong', 'undefined')
    >>> evidentiality(False, False, True), evidentiality(False, False, False)
    ('weak', 'distractor')
    """
    closed_book, with_sentence = checks.flag("closed_book", closed_book), checks.flag("with_sentence", with_sentence)
    if strong_with_sentence is not None:
        strong_with_sentence = checks.flag("strong_with_sentence", strong_with_sentence)
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
    raises               : ValueError for no such lists, and if a function does not answer True or False to each that it is asked
    source               : ECoRAG, section 3.1.1; "the evidence" is here the first of several strong sentences, which the paper leaves open.
                           Each function is called once at most, with every distinct question, pair or triple once: pairs only where the
                           reader does not know the answer, triples only where there is a strong sentence

    >>> said = {("q", "a"): True, ("q", "b"): False, ("q", "a", "b"): True}
    >>> reader = lambda asked: [said[what] for what in asked]
    >>> mine(["q"], [["a", "b"]], closed_book=lambda asked: [False], with_sentence=reader, strong_with_sentence=reader)
    [['strong', 'weak']]
    """
    questions = checks.listed("questions", questions)
    sentences = [checks.listed("the sentences of a question", own) for own in checks.listed("sentences", sentences)]
    checks.same_length(sentences=sentences, questions=questions)
    rows = list(zip(questions, sentences, strict=True))
    known = _ask("closed_book", closed_book, questions)
    pairs = [(question, sentence) for question, own in rows if not known[question] for sentence in own]
    alone = _ask("with_sentence", with_sentence, pairs)
    firsts = [next((sentence for sentence in own if alone.get((question, sentence))), None) for question, own in rows]
    with_firsts = zip(rows, firsts, strict=True)
    triples = [[(question, first, sentence) for sentence in own] for (question, own), first in with_firsts]
    unsure = [(q, first, s) for own in triples for q, first, s in own if first is not None and not alone[q, s]]
    beside = _ask("strong_with_sentence", strong_with_sentence, unsure)
    return [[evidentiality(known[q], alone.get((q, s), False), beside.get((q, first, s))) for q, first, s in own] for own in triples]


@dataclass(frozen=True)
class LabelStatistics:
    """How often each label occurs. Made by `label_statistics`."""

    counts: np.ndarray  # (Q, 4) one row per question, columns in the order of LABELS
    total: dict  # label -> int, over all questions
    questions: int
    with_strong: int  # questions with at least one strong sentence; no other can teach a compressor anything


def label_statistics(labels):
    """Counts of the four labels, per question and together.

    labels  : Q lists of labels, as `mine` returns them
    returns : LabelStatistics
    raises  : ValueError for no questions, a question without labels, an unknown label
    source  : ours; the paper prints no counts

    >>> counted = label_statistics([["strong", "weak", "weak"], ["undefined"]])
    >>> counted.total, counted.with_strong, counted.questions
    ({'strong': 1, 'weak': 2, 'distractor': 0, 'undefined': 1}, 1, 2)
    """
    counted = [Counter(_labels(own)) for own in checks.listed("labels", labels)]
    counts = np.array([[own[label] for label in LABELS] for own in counted])
    total = dict(zip(LABELS, counts.sum(axis=0).tolist(), strict=True))
    return LabelStatistics(counts, total, len(counts), int((counts[:, LABELS.index("strong")] > 0).sum()))


def info_nce(positive, negatives, *, temperature=1.0):
    """Surprise at picking the positive out of itself and the negatives, each with weight exp(similarity / temperature).

    positive    : similarity of question and positive sentence
    negatives   : (m,) similarities of the question and the negatives, m >= 1: without any the loss is 0 whatever the similarity
    temperature : above 0
    returns     : float, nats, 0 and above; log(1 + m) if all similarities are equal
    raises      : ValueError for other numbers than said, and if the loss is too large for a float
    source      : ECoRAG, eqs. 2 and 3: -log(exp(s/t) / (exp(s/t) + sum_j exp(s_j/t))), computed from the differences s_j - s

    >>> round(info_nce(0.7, [0.1, -0.2, 0.4]), 4)
    0.9918
    >>> info_nce(0.0, [1000.0])
    1000.0
    """
    positive, temperature = checks.number("positive", positive), checks.number("temperature", temperature, above=0)
    negatives = checks.numbers("negatives", negatives)
    with np.errstate(over="ignore", under="ignore"):
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
    returns     : float, nats, 0 and above
    raises      : ValueError as `info_nce`, for no sentences, lists of different length, an unknown label, and where no sentence is strong
                  or none is a negative: 0 would look like a compressor that has learnt to tell them apart
    source      : ECoRAG, eq. 3, for one strong sentence; the mean over several is ours, and so is to take all negatives, where appendix
                  B.1 draws them (15 per cent weak, 85 per cent distractors)

    >>> round(strong_loss([1.2, 0.1, -0.2, 0.4, 0.7], ["strong", *["distractor"] * 3, "weak"]), 4)
    0.969
    """
    return _contrast(scores, labels, "strong", temperature)


def weak_loss(scores, labels, *, temperature=1.0):
    """Mean loss of a question's weak sentences, each against all distractors; arguments and errors as in `strong_loss`.

    source  : ECoRAG, eq. 2; strong sentences are no part of it

    >>> round(weak_loss([1.2, 0.1, -0.2, 0.4, 0.7], ["strong", *["distractor"] * 3, "weak"]), 4)
    0.9918
    """
    return _contrast(scores, labels, "weak", temperature)


def compressor_loss(scores, labels, *, temperature=1.0):
    """What the compressor makes small: `strong_loss` plus `weak_loss`, or the one of the two that the labels define.

    returns : float, nats, 0 and above
    raises  : ValueError as `strong_loss`; for labels that define neither
    source  : ECoRAG, eq. 4, which does not say what a question adds that has, say, no weak sentence: here the other part alone
    """
    names = set(_labels(labels))
    parts = [kind for kind, lower in NEGATIVES.items() if kind in names and names & set(lower)] or ["strong"]
    return sum(_contrast(scores, labels, kind, temperature) for kind in parts)


def _contrast(scores, labels, kind, temperature):
    """Mean over the sentences of that label of their `info_nce` against their negatives."""
    scores, labels = checks.numbers("scores", scores), np.array(_labels(labels))
    checks.same_length(scores=scores, labels=labels)
    positives, negatives = scores[labels == kind], scores[np.isin(labels, NEGATIVES[kind])]
    if not len(positives) or not len(negatives):
        got = ", ".join(f"{number} {name}" for name, number in Counter(labels.tolist()).items())
        raise ValueError(f"labels must hold {kind} and one of {', '.join(NEGATIVES[kind])}; got {got}")
    return float(np.mean([info_nce(score, negatives, temperature=temperature) for score in positives]))


def compress(sentences, scores, is_sufficient, *, step=4, limit=20):
    """Which sentences to keep: the best ones, as many as the evaluator needs.

    sentences     : n sentences
    scores        : (n,) one per sentence, the higher the better
    is_sufficient : list of the sentences kept so far, best first -> True or False
    step          : how many are added at a time, 1 and above; the last time fewer, if `limit` or n asks for it
    limit         : most sentences kept, 1 and above
    returns       : list of int, places in `sentences`, best score first, equal scores in the order of the sentences
    raises        : ValueError for other values than said; the evaluator's reply must be True or False, a probability needs a threshold
    source        : ECoRAG, section 3.2.2 and appendix B.1. Section 3.2 adds one sentence at a time (step=1), the appendix four, up to 20;
                    section 3.2.2 limits tokens, the appendix sentences. The evaluator is asked after each addition, the last one too

    >>> compress(["noise", "the bridge", "opened in 1894", "more noise"], [0.1, 0.7, 0.9, 0.0], lambda kept: len(kept) == 2, step=1)
    [2, 1]
    """
    sentences, scores = checks.listed("sentences", sentences), checks.numbers("scores", scores)
    checks.same_length(scores=scores, sentences=sentences)
    step, limit = checks.whole("step", step, least=1), checks.whole("limit", limit, least=1)
    checks.function("is_sufficient", is_sufficient)
    best_first = np.argsort(-scores, kind="stable").tolist()[:limit]
    for count in range(step, len(best_first) + step, step):
        kept = best_first[:count]
        if checks.flag("the evaluator's reply", is_sufficient([sentences[place] for place in kept])):
            break
    return kept


def _ask(name, correct, asked):
    """What a function of the reader says about every distinct thing, in one call; none if there is nothing to ask."""
    try:
        asked = list(dict.fromkeys(asked))
    except TypeError:
        raise ValueError("questions and sentences must be texts or ids; got what cannot be told apart") from None
    replies = checks.listed(f"what {name} returns", checks.function(name, correct)(asked), least=0) if asked else []
    checks.same_length(replies=replies, asked=asked)
    return {what: checks.flag(f"a reply of {name}", reply) for what, reply in zip(asked, replies, strict=True)}


def _labels(values):
    return [checks.one_of("label", label, LABELS) for label in checks.listed("labels", values)]
