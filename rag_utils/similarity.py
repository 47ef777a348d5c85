"""How alike are a prediction and the reference answers? ROUGE-L, BLEU and BERTScore, each best over the references, 0 to 1."""

from functools import cache

import numpy as np

from rag_utils.answers import checked
from rag_utils.base import checks


def rouge_l(prediction, references):
    """F1 of the longest common subsequence of words, best over the references.

    prediction : str
    references : list of at least one str
    returns    : float, 0 (no word in common) .. 1 (the same words in the same order); 0 where a text has no a-z or 0-9
    raises     : ValueError if prediction is not a string; if references is one string, empty or holds a non-string
    source     : Lin 2004; package rouge-score, without stemming. Words are runs of a-z and 0-9 after lower case, so letters with
                 accents cut a word in two. SePer, Table 2 does not say which ROUGE it is

    >>> round(rouge_l("born in Paris, France", ["Paris France"]), 4)   # precision 2/4, recall 2/2
    0.6667
    """
    references = checked(prediction, references, names="references")
    return float(max(_rouge().score(reference, prediction)["rougeL"].fmeasure for reference in references))


def bleu(prediction, references):
    """Geometric mean of the precisions of 1- to 4-grams times a penalty for brevity, best over the references.

    prediction, references : as in `rouge_l`
    returns                : float, 0 (no word in common) .. 1 (the same text); 0 of an empty text, even with itself
    raises                 : ValueError as `rouge_l`
    source                 : Papineni et al. 2002; package sacrebleu, sentence_bleu: tokens of 13a, upper and lower case differ, exponential
                             smoothing, and n-grams no longer than the prediction (effective order), so that fewer than four words can
                             reach 1. Deviation: one reference at a time, not all of them pooled; SePer, Table 2 does not say

    >>> round(bleu("Paris", ["Rome", "Paris"]), 4)
    1.0
    >>> round(bleu("Paris", ["Paris France"]), 4)   # precision 1, brevity exp(1 - 2/1)
    0.3679
    """
    from sacrebleu import sentence_bleu

    references = checked(prediction, references, names="references")
    scores = (sentence_bleu(prediction, [reference], use_effective_order=True).score for reference in references)
    return min(1.0, max(scores) / 100)


def bertscores(predictions, references, *, encoder):
    """BERTScore F1 of many predictions; every distinct text is encoded once.

    predictions : list of n str
    references  : n lists of at least one str
    encoder     : texts -> one (tokens, d) array each, such as `retrieve.token_encoder()`: all-MiniLM-L6-v2, last layer
    returns     : (n,) float, 0 .. 1: 1 for the same tokens, 0 where one text has no token
    raises      : ValueError if lengths differ, a text is not a string, references are missing, or an embedding is not such
    source      : Zhang et al. 2020: precision is the mean over the prediction's tokens of the cosine with the closest token of the
                  reference, recall the reverse. No idf, no rescaling. Deviations from their package: a smaller encoder; its start and end
                  tokens do not take part; precision and recall below 0 count as 0

    >>> letters = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.6, 0.8]}
    >>> toy = lambda texts: [np.array([letters[word] for word in text.split()]) for text in texts]
    >>> bertscores(["a b", "a"], [["a b"], ["b", "c a"]], encoder=toy).round(4)   # second: precision 1, recall 0.8
    array([1.    , 0.8889])
    """
    predictions = checks.texts("predictions", predictions, least=0)
    references = [checks.texts("references", answers) for answers in checks.listed("references", references, least=0)]
    checks.same_length(predictions=predictions, references=references)
    texts = list(dict.fromkeys([*predictions, *(answer for answers in references for answer in answers)]))
    if not texts:
        return np.zeros(0)
    units = dict(zip(texts, _directions(texts, checks.function("encoder", encoder)), strict=True))
    pairs = zip(predictions, references, strict=True)
    return np.array([max(_greedy_f1(units[text], units[answer]) for answer in answers) for text, answers in pairs])


def _directions(texts, encode):
    """Per text its token embeddings, (tokens, d) rows of length 1; (0, 0) where it has none."""
    embedded = checks.listed("what encoder returns", encode(texts), least=0)
    checks.same_length(embeddings=embedded, texts=texts)
    units = [
        checks.directions("embeddings", tokens) if checks.as_array("embeddings", tokens).size else np.zeros((0, 0)) for tokens in embedded
    ]
    if len(widths := {own.shape[1] for own in units if own.size}) > 1:
        raise ValueError(f"embeddings must be of one length; got {sorted(widths)}")
    return units


def _greedy_f1(prediction, reference):
    if not len(prediction) or not len(reference):
        return 0.0
    cosines = prediction @ reference.T
    precision, recall = max(0.0, cosines.max(axis=1).mean()), max(0.0, cosines.max(axis=0).mean())
    return min(1.0, 2 * precision * recall / (precision + recall)) if precision + recall else 0.0


@cache
def _rouge():
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], use_stemmer=False)
