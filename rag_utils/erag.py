"""eRAG: a retrieved document is worth what the reader makes of it alone, and a list what a ranking metric makes of those labels."""

import re

import ir_measures
import numpy as np

from rag_utils.base import checks

METRICS = {"AP": False, "RR": False, "nDCG": False, "P": True, "R": True, "Success": True}  # True: always has a cutoff
MOST_RANKS = 10**6  # of a cutoff; trec_eval counts in whole numbers of a machine
OF_SCORES = ("P", "Success")  # what is defined for labels between 0 and 1


def rank_metrics(labels, metrics):
    """The value of each metric for one ranked list.

    labels  : (n,) numbers from 0 to 1, best rank first, n >= 1; what `annotate` returns for one question with documents
    metrics : list of names as in ir-measures, with or without a cutoff: "AP" (the paper's MAP, of one list), "RR" (MRR), "nDCG@10", "P@5",
              "R@5", "Success@5" (hit ratio). P, R and Success without "@k" take the whole list, k = n
    returns : dict, name as given -> float, 0 .. 1, rounded to 12 decimals. All labels 0: every metric is 0
    raises  : ValueError if labels is no such list; for no or unknown metrics; for others than P and Success if a label is not 0 or 1
    source  : eRAG, section 2; ir-measures (trec_eval). Relevant are documents of this list only, so R of the whole list is Success.
              Labels between 0 and 1: P@k is the sum of the first k over k, Success@k the largest of them. A list that is shorter
              than k is as good as one that goes on with labels of 0. In the public package `erag` one label between 0 and 1 takes AP,
              RR, nDCG and R from all its lists and stops a list shorter than k with a KeyError; a list without documents leaves the mean

    >>> rank_metrics([0, 1, 0, 1, 0], ["P@5", "RR", "AP"])
    {'P@5': 0.4, 'RR': 0.5, 'AP': 0.5}
    >>> rank_metrics([0.25, 1.0, 0.25], ["P", "Success@1"])
    {'P': 0.5, 'Success@1': 0.25}
    """
    labels = checks.numbers("labels", labels, low=0, high=1)
    asked = {}
    for name in checks.texts("metrics", metrics):
        base, cutoff = name_and_cutoff(name)
        asked[name] = base, len(labels) if cutoff is None and METRICS[base] else cutoff
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
    generate   : list of prompts -> list of replies. Called once, with one prompt for each distinct (question, document) in the order of
                 their first occurrence; not called if there is no document at all
    prompt     : (question, document) -> the text that the reader is given
    score      : (reply, reference) -> number from 0 to 1, such as `answers.exact_match`
    returns    : Q lists of float, one label per document, in the order given
    raises     : ValueError if there are no questions, lengths differ, a text is not a string, or a score is not from 0 to 1
    source     : eRAG, eq. 1. The public package `erag` calls the reader once per rank, keeps one of several equal questions, leaves out
                 questions without documents, and lets NaN through

    >>> from rag_utils.answers import exact_match
    >>> def last_word(prompts):
    ...     return [prompt.splitlines()[0].split()[-1] for prompt in prompts]
    >>> documents = [["the sky is blue", "the sky is grey"], []]
    >>> annotate(["sky?", "sea?"], documents, [["blue"], ["green"]], generate=last_word, score=exact_match)
    [[1.0, 0.0], []]
    """
    questions, references = checks.texts("questions", questions), checks.listed("references", references)
    documents = checks.listed("documents", documents)
    checks.same_length(questions=questions, documents=documents, references=references)
    documents = [checks.texts(f"documents[{i}]", own, least=0) for i, own in enumerate(documents)]
    for name, function in (("generate", generate), ("score", score), ("prompt", prompt)):
        checks.function(name, function)
    rows = zip(questions, documents, strict=True)
    pairs = list(dict.fromkeys((question, document) for question, own in rows for document in own))
    prompts = checks.texts("what prompt returns", [prompt(question, document) for question, document in pairs], least=0)
    replies = generate(prompts) if pairs else []
    replies = checks.listed("what generate returns", replies, least=0)
    checks.same_length(replies=replies, prompts=pairs)
    reply_to, labels = dict(zip(pairs, replies, strict=True)), []
    for question, own, reference in zip(questions, documents, references, strict=True):
        scores = [score(reply_to[question, text], reference) for text in own]
        labels.append(checks.numbers("labels", scores, least=0, low=0, high=1).tolist())
    return labels


def _of_relevance(labels, asked):
    """Metrics of labels that are 0 or 1."""
    if not labels.any():
        return dict.fromkeys(asked, 0.0)
    in_full = {name: base if cutoff is None else f"{base}@{cutoff}" for name, (base, cutoff) in asked.items()}
    measures = {name: ir_measures.parse_measure(text) for name, text in in_full.items()}
    relevant = {"list": {str(i): int(label) for i, label in enumerate(labels)}}
    run = {"list": {str(i): float(-i) for i in range(len(labels))}}
    values = ir_measures.calc_aggregate(list(dict.fromkeys(measures.values())), relevant, run)
    return {name: round(float(values[measure]), 12) for name, measure in measures.items()}  # so that equal lists tie


def _of_scores(labels, base, cutoff):
    """One metric of labels of which some lie between 0 and 1."""
    if base not in OF_SCORES:
        between = labels[(labels > 0) & (labels < 1)][0]
        raise ValueError(f"{base} needs labels that are 0 or 1, got {between}; wanted P or Success for such labels")
    first = labels[:cutoff]
    return float(first.sum() / cutoff if base == "P" else first.max())


def name_and_cutoff(name):
    """("P", 5) of "P@5", ("P", None) of "P"; ValueError for an unknown metric or no cutoff from 1 to a million."""
    base, at, cutoff = checks.text("metric", name).partition("@")
    checks.one_of("metric", base, METRICS)
    if not at:
        return base, None
    if not re.fullmatch(r"[1-9][0-9]{0,6}", cutoff) or int(cutoff) > MOST_RANKS:
        raise ValueError(f"got the metric {name!r:.60}, wanted {base}@k with k a whole number from 1 to {MOST_RANKS:,}")
    return base, int(cutoff)
