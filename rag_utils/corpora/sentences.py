"""Where does a sentence end? By its punctuation, in running English prose."""

import re

from rag_utils.base import checks

# A sentence may end after . ! ? and closing quotes or brackets, before a capital, a digit or something opening.
SENTENCE_END = re.compile(r"[.!?][\"'”’)\]]*(?=\s+[\"'“‘(\[]*[A-Z0-9À-ÖØ-Þ])")
# ... but not after these words, nor after a single capital (J. R. R. Tolkien, U.S. Navy).
ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Mt|Ft|Gen|Col|Capt|Lt|Sgt|Rev|Hon|No|vs|ca|cf|approx|e\.g|i\.e)|\b[A-Z])\.$")


def split_sentences(text):
    """The sentences of a text, by its punctuation.

    text    : string
    returns : list of strings without line breaks; joined by spaces they are the text with its white space squeezed
    raises  : ValueError if text is not a string or blank
    source  : DENSE, Algorithm 2, line 3, which does not say how. An abbreviation before a capital that is not in the short list here
              cuts, a sentence that ends in an initial ("by Franklin D.") does not

    >>> split_sentences("Dr. Ada J. Hill left in 1901. Why? Nobody knows.")
    ['Dr. Ada J. Hill left in 1901.', 'Why?', 'Nobody knows.']
    """
    text, sentences, start = " ".join(checks.text("text", text).split()), [], 0
    checks.text("text without its white space", text, empty=False)
    for end in SENTENCE_END.finditer(text):
        if not ABBREVIATION.search(text, start, end.end()):
            sentences.append(text[start : end.end()])
            start = end.end() + 1
    return [*sentences, text[start:]]
