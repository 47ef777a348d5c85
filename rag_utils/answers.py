"""Is the answer right? String comparison of a prediction with reference answers, after SQuAD normalisation."""

import re
import string
from collections import Counter

from rag_utils.base import checks

PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize(text):
    """The text in lower case, without ASCII punctuation and the words a, an, the, single spaces between words.

    text    : str
    returns : str, empty where nothing is left ("A+", "*", "the")
    raises  : ValueError if text is not a string
    source  : Rajpurkar et al. 2016 (SQuAD), evaluation script; same order of steps, so "A+" loses its plus, then its a,
              and "U.S." becomes "us"

    >>> normalize("  The Beatles' 1st   album! ")
    'beatles 1st album'
    """
    return " ".join(ARTICLES.sub(" ", checks.text("text", text).lower().translate(PUNCTUATION)).split())


def exact_match(prediction, answers):
    """1.0 if the prediction equals one of the answers after normalisation, else 0.0.

    prediction : str
    answers    : list of at least one str
    returns    : float, 0.0 or 1.0, best over answers
    raises     : ValueError if prediction is not a string; if answers is one string, empty or holds a non-string
    source     : SQuAD evaluation script. Deviation: where both sides normalise to nothing the script calls them equal, so that an empty
                 prediction is right about "A+". Here the texts themselves must then be equal but for case and surrounding space.

    >>> exact_match("The Beatles.", ["Wings", "Beatles"])
    1.0
    >>> exact_match("A+", ["a+"]), exact_match("", ["A+"])
    (1.0, 0.0)
    """
    return max(_same(prediction, answer) for answer in checked(prediction, answers))


def token_f1(prediction, answers):
    """Harmonic mean of precision and recall of the prediction's words, best over the answers.

    prediction, answers : as in `exact_match`
    returns             : float, 0 (no word in common) .. 1 (the same words as often, in any order)
    raises              : ValueError as `exact_match`
    source              : SQuAD evaluation script: words after normalisation, a word counts as often as it occurs on
                          both sides. Where both sides normalise to nothing: as in `exact_match`

    >>> round(token_f1("born in Paris, France", ["Paris"]), 4)
    0.4
    """
    return max(_f1(prediction, answer) for answer in checked(prediction, answers))


def contains_answer(text, answers):
    """1.0 if one of the answers, normalised, is a substring of the normalised text, else 0.0.

    text, answers : str, a reply or a passage; as in `exact_match`
    returns       : float, 0.0 or 1.0, best over answers
    raises        : ValueError as `exact_match`
    source        : "lexical match" of SePer, "containing the answer" of ECoRAG. Characters, not words: "art" is in
                    "party". An answer that normalises to nothing ("A+", "*") is in every text, so it never matches.

    >>> contains_answer("It was sung by the Beatles in 1965.", ["The Beatles"])
    1.0
    >>> contains_answer("Her grade was A+.", ["A+"])
    0.0
    """
    answers = [normalize(answer) for answer in checked(text, answers, name="text")]
    text = normalize(text)
    return float(any(answer in text for answer in answers if answer))


METRICS = {metric.__name__: metric for metric in (exact_match, token_f1, contains_answer)}


def checked(prediction, references, *, name="prediction", names="answers"):
    """The references, if they are a list of strings and the prediction is a string; the names are those of an error."""
    checks.text(name, prediction)
    return checks.texts(names, references)


def _same(prediction, answer):
    left, right = normalize(prediction), normalize(answer)
    if not left and not right:
        left, right = prediction.strip().lower(), answer.strip().lower()
    return float(left == right)


def _f1(prediction, answer):
    left, right = normalize(prediction).split(), normalize(answer).split()
    if not left or not right:
        return _same(prediction, answer)
    common = sum((Counter(left) & Counter(right)).values())
    return 2 * common / (len(left) + len(right))
