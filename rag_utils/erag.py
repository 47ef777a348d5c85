"""eRAG: a retrieved document is worth what the reader makes of it alone, and a list what a ranking metric makes of those labels.

`annotate` lets the reader answer each question from each of its documents alone and scores the replies: one label per document, in
rank order. `rank_metrics` turns the labels of one list into AP, RR, nDCG, P, R and Success.
"""

import re
from numbers import Real

import ir_measures
import numpy as np

from rag_utils.base.names import check_name

METRICS = {"AP": False, "RR": False, "nDCG": False, "P": True, "R": True, "Success": True}  # True: always has a cutoff
OF_SCORES = ("P", "Success")  # what is defined for labels between 0 and 1


def rank_metrics(labels, metrics):
    """The value of each metric for one ranked list.

    labels  : (n,) numbers from 0 to 1, best rank first; what `annotate` returns for one question
    metrics : list of names as in ir-measures, with or without a cutoff: "AP", "RR", "nDCG@10", "P@5", "R@5", "Success@5". P, R and
              Success without "@k" take the whole list, k = n
    returns : dict, name as given -> float, 0 .. 1. All labels 0: every metric is 0
    raises  : ValueError if labels is empty, not one-dimensional, NaN or outside [0, 1]; for no metrics and unknown names; for
              another metric than P and Success if a label is not 0 or 1
    source  : eRAG, section 2; ir-measures (trec_eval). Relevant are documents of this list only, so R of the whole list is Success.
              Labels between 0 and 1: P@k is the sum of the first k over k, Success@k the largest of them. A list that is shorter
              than k is as good as one that goes on with labels of 0. The public package `erag` differs: P_k of such labels divides
              by k too, but stops with a KeyError at a list shorter than k; one label between 0 and 1 in any list takes AP, RR, nDCG
              and R from all lists, here from that list only; a list without documents vanishes from its mean, here it raises

    >>> rank_metrics([0, 1, 0, 1, 0], ["P@5", "RR", "AP"])
    {'P@5': 0.4, 'RR': 0.5, 'AP': 0.5}
    >>> rank_metrics([0.25, 1.0, 0.25], ["P", "Success@1"])
    {'P': 0.5, 'Success@1': 0.25}
    """
    labels = _labels(labels)
    if not isinstance(metrics, list | tuple) or not metrics:
        raise ValueError(f"metrics must be a list of at least one name, as ['P@5', 'AP']; got {metrics!r}")
    asked = {name: _name_and_cutoff(name, len(labels)) for name in metrics}
    if np.isin(labels, (0, 1)).all():
        return _of_relevance(labels, asked)
    return {name: _of_scores(labels, base, cutoff) for name, (base, cutoff) in asked.items()}


def question_after_document(question, document):
    """The prompt that asks for a short answer from one document.

    >>> question_after_document("sky?", "the sky is blue")
    'Document: the sky is blue\\nQuestion: sky?\\nAnswer:'
    """
    return f"Document: {document}\nQuestion: {question}\nAnswer:"


def annotate(questions, documents, references, *, generate, score, prompt=question_after_document):
    """The label of every document: the score of the reader's reply when it is given that document alone.

    questions  : list of Q texts; a text may come twice, with other documents or references
    documents  : Q lists of texts, best rank first; a list may be empty, and a text may come twice in it
    references : one per question, handed to `score` as it is: a list of right answers, a long answer, ...
    generate   : list of prompts -> list of replies, in their order. Called once, with one prompt for each distinct (question, document),
                 in the order in which they first occur; not called if there is no document at all
    prompt     : (question, document) -> the text that the reader is given
    score      : (reply, reference) -> number from 0 to 1, such as `answers.exact_match`
    returns    : Q lists of float, one label per document, in the order given. An empty list of documents gives an empty list, so that
                 the caller sees and counts it
    raises     : ValueError if there are no questions, if lengths differ, if a text is not a string, if `generate` returns another number
                 of replies, and for scores that are NaN or outside [0, 1]
    source     : eRAG, eq. 1. The public package `erag` calls the reader once per rank and with repeated pairs again, keeps one of several
                 equal questions (its input is a dict), leaves questions without documents out of the result, and lets NaN through

    >>> from rag_utils.answers import exact_match
    >>> def last_word(prompts):
    ...     return [prompt.splitlines()[0].split()[-1] for prompt in prompts]
    >>> documents = [["the sky is blue", "the sky is grey"], []]
    >>> annotate(["sky?", "sea?"], documents, [["blue"], ["green"]], generate=last_word, score=exact_match)
    [[1.0, 0.0], []]
    """
    _check_lists(questions, documents, references)
    pairs = list(
        dict.fromkeys(
            (question, document) for question, own in zip(questions, documents, strict=True) for document in own
        )
    )
    replies = generate([prompt(question, document) for question, document in pairs]) if pairs else []
    if not isinstance(replies, list | tuple) or len(replies) != len(pairs):
        got = len(replies) if isinstance(replies, list | tuple) else type(replies).__name__
        raise ValueError(
            f"generate must return a list of {len(pairs)} replies, one per (question, document); got {got}"
        )
    reply_to = dict(zip(pairs, replies, strict=True))
    return [
        [_label(score(reply_to[question, document], reference)) for document in own]
        for question, own, reference in zip(questions, documents, references, strict=True)
    ]


def _of_relevance(labels, asked):
    """Metrics of labels that are 0 or 1."""
    if not labels.any():
        return dict.fromkeys(asked, 0.0)
    measures = {
        name: ir_measures.parse_measure(base if cutoff is None else f"{base}@{cutoff}")
        for name, (base, cutoff) in asked.items()
    }
    relevant = {"list": {str(i): int(label) for i, label in enumerate(labels)}}
    run = {"list": {str(i): float(-i) for i in range(len(labels))}}
    distinct = list(dict.fromkeys(measures.values()))
    values = {found.measure: float(found.value) for found in ir_measures.iter_calc(distinct, relevant, run)}
    return {name: values[measure] for name, measure in measures.items()}


def _of_scores(labels, base, cutoff):
    """One metric of labels of which some lie between 0 and 1."""
    if base not in OF_SCORES:
        between = labels[(labels > 0) & (labels < 1)][0]
        raise ValueError(f"{base} needs labels that are 0 or 1, got {between}; wanted P or Success for such labels")
    first = labels[:cutoff]
    return float(first.sum() / cutoff if base == "P" else first.max())


def _name_and_cutoff(name, length):
    """("P", 5) of "P@5"; the cutoff is None for the whole list, or its length for metrics that always have one."""
    base, at, cutoff = str(name).partition("@")
    check_name("metric", base, METRICS)
    if not at:
        return base, length if METRICS[base] else None
    if not re.fullmatch(r"[1-9][0-9]*", cutoff):
        raise ValueError(f"got the metric {name!r}, wanted {base}@k with k a whole number of at least 1")
    return base, int(cutoff)


def _labels(labels):
    """Labels as a one-dimensional array of float."""
    try:
        values = np.asarray(labels)
    except ValueError as error:
        raise ValueError("labels must be one list of numbers; got a ragged list") from error
    if values.ndim != 1 or not values.size:
        raise ValueError(f"labels must be one list of at least one number; got shape {values.shape}")
    if values.dtype.kind not in "biuf":
        raise ValueError(f"labels must be numbers; got {values.dtype}")
    return np.array([_label(value) for value in values.tolist()])


def _label(value):
    """One label as float."""
    if not isinstance(value, Real) or not 0 <= value <= 1:  # NaN is not
        raise ValueError(f"a label must be a number from 0 to 1; got {value!r}")
    return float(value)


def _check_lists(questions, documents, references):
    for name, values in (("questions", questions), ("documents", documents), ("references", references)):
        if not isinstance(values, list | tuple):
            raise ValueError(f"{name} must be a list with one entry per question; got {type(values).__name__}")
    if not questions or not len(questions) == len(documents) == len(references):
        raise ValueError(
            "wanted at least one question, and documents and references for each; got "
            f"{len(questions)} questions, {len(documents)} lists of documents, {len(references)} references"
        )
    for place, own in enumerate(documents):
        if not isinstance(own, list | tuple):
            raise ValueError(f"documents[{place}] must be a list of texts; got {type(own).__name__}")
    for text in [*questions, *(document for own in documents for document in own)]:
        if not isinstance(text, str):
            raise ValueError(f"questions and documents must be texts; got one of type {type(text).__name__}")
