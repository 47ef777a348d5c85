"""How should a document be cut? Into pieces of a fixed size, or between sentences that have little in common.

A chunk is a list of consecutive sentences (or words) of one document; join it with spaces. Lengths are sums of the token counts of the
parts, as in DENSE, Algorithm 2; the count of the joined text can differ by a token per seam.
"""

import re
from numbers import Integral, Real

import numpy as np

ROUNDING = 1e-9  # cosines this near to the threshold count as equal to it

# A sentence may end after . ! ? and closing quotes or brackets, before a capital, a digit or something opening.
SENTENCE_END = re.compile(r"[.!?][\"'”’)\]]*(?=\s+[\"'“‘(\[]*[A-Z0-9À-ÖØ-Þ])")
# ... but not after these words, nor after a single capital (J. R. R. Tolkien, U.S. Navy).
ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Mt|Ft|Gen|Col|Capt|Lt|Sgt|Rev|Hon|No|vs|ca|cf|approx|e\.g|i\.e)|\b[A-Z])\.$"
)


def merge_sentences(sentences, embeddings, *, count_tokens, threshold=0.6, max_tokens=512, strict=False):
    """Cut one document wherever two neighbouring sentences are unlike each other or the chunk would grow too long.

    sentences    : list of n strings, in the order of the document
    embeddings   : (n, d) float, one row per sentence, of any length but 0
    count_tokens : sentence -> whole number of 0 and above; called once per sentence
    threshold    : least cosine of a sentence with the one before it to join its chunk, -1 .. 1
    max_tokens   : most tokens in a chunk. A sentence that is longer by itself is a chunk by itself, uncut
    strict       : whether a cosine equal to the threshold cuts (True, Algorithm 2) or joins (False, eq. 7)
    returns      : list of chunks, each a list of sentences; all sentences in their order
    raises       : ValueError if there are no sentences, embeddings do not fit, hold NaN or a row of zeros, a count is not such a number,
                   threshold is not in -1 .. 1, max_tokens is below 1 or strict is not True or False
    source       : DENSE, eq. 7 and Algorithm 2. Only neighbours are compared: a chunk may drift far from its first sentence

    >>> sentences, embeddings = ["A cat.", "A kitten.", "A tax."], [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]   # cosines 0.8, 0.6
    >>> words = lambda sentence: len(sentence.split())
    >>> merge_sentences(sentences, embeddings, count_tokens=words, strict=True)
    [['A cat.', 'A kitten.'], ['A tax.']]
    >>> merge_sentences(sentences, embeddings, count_tokens=words, max_tokens=4)
    [['A cat.', 'A kitten.'], ['A tax.']]
    """
    if not isinstance(threshold, Real) or not -1 <= threshold <= 1:
        raise ValueError(f"threshold must be a cosine, a number from -1 to 1; got {threshold!r}")
    if not isinstance(strict, bool):
        raise ValueError(f"strict must be True or False; got {strict!r}")
    _check_whole("max_tokens", max_tokens, least=1)
    lengths = _token_counts("sentences", sentences, count_tokens)
    units = unit_rows(embeddings)
    if len(units) != len(sentences):
        raise ValueError(f"embeddings must have one row per sentence; got {len(units)} for {len(sentences)} sentences")
    cosines = (units[:-1] * units[1:]).sum(axis=1)
    alike = cosines > threshold + ROUNDING if strict else cosines >= threshold - ROUNDING

    chunks, tokens = [[sentences[0]]], lengths[0]
    for sentence, length, joins in zip(sentences[1:], lengths[1:], alike, strict=True):
        if joins and tokens + length <= max_tokens:
            chunks[-1].append(sentence)
            tokens += length
        else:
            chunks.append([sentence])
            tokens = length
    return chunks


def fixed_chunks(pieces, *, size, count_tokens, overlap=0):
    """Cut one document into chunks as long as fit into `size`, whatever it says; each repeats the end of the one before.

    pieces       : list of strings that are never cut: its sentences, or its words
    size         : most tokens in a chunk, 1 and above. A piece that is longer by itself is a chunk by itself
    count_tokens : piece -> whole number of 0 and above; called once per piece
    overlap      : most tokens of the last chunk to begin the next one with, 0 .. size - 1; fewer where the next piece would not fit
    returns      : list of chunks, each a list of pieces
    raises       : ValueError if there are no pieces, a count is not such a number, or size or overlap is out of range
    source       : DENSE, Table 4 and appendix H: 512/64, 256/32 and 128/16 tokens. The paper splits recursively, at blank lines, then
                   lines, then words: within a paragraph, that is this with words as pieces

    >>> fixed_chunks(["a", "b", "c", "d", "e"], size=3, overlap=1, count_tokens=len)
    [['a', 'b', 'c'], ['c', 'd', 'e']]
    """
    _check_whole("size", size, least=1)
    _check_whole("overlap", overlap, least=0)
    if overlap >= size:
        raise ValueError(f"overlap must be below size; got {overlap} and {size}")
    lengths = _token_counts("pieces", pieces, count_tokens)
    chunks, first, tokens = [], 0, 0  # the chunk that is being filled: pieces from `first` on
    for place, length in enumerate(lengths):
        if place > first and tokens + length > size:
            chunks.append(list(pieces[first:place]))
            while first < place and (tokens > overlap or tokens + length > size):
                tokens -= lengths[first]
                first += 1
        tokens += length
    return [*chunks, list(pieces[first:])]


def split_sentences(text):
    """The sentences of a text, by its punctuation.

    text    : string
    returns : list of strings without line breaks; joined by spaces they are the text with its white space squeezed
    raises  : ValueError if text is not a string or blank
    source  : DENSE, Algorithm 2, line 3, which does not say how. For running English prose; an abbreviation before a capital that is
              not in the short list here cuts, a sentence that ends in an initial ("by Franklin D.") does not

    >>> split_sentences("Dr. Ada J. Hill left in 1901. Why? Nobody knows.")
    ['Dr. Ada J. Hill left in 1901.', 'Why?', 'Nobody knows.']
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"text must be a string that is not blank; got {text!r:.40}")
    text, sentences, start = " ".join(text.split()), [], 0
    for end in SENTENCE_END.finditer(text):
        if not ABBREVIATION.search(text, start, end.end()):
            sentences.append(text[start : end.end()])
            start = end.end() + 1
    return [*sentences, text[start:]]


def unit_rows(embeddings):
    """The embeddings with rows of length 1, so that a product of two rows is their cosine.

    embeddings : (n, d) numbers
    returns    : (n, d) float
    raises     : ValueError if not two-dimensional, empty, NaN or infinite, or if a row is all zero
    """
    try:
        embeddings = np.asarray(embeddings)
    except ValueError as error:
        raise ValueError("embeddings must be rows of equal length; got a ragged list") from error
    if embeddings.ndim != 2 or not embeddings.size or embeddings.dtype.kind not in "iuf":
        raise ValueError(f"embeddings must be (n, d) numbers; got shape {embeddings.shape} of {embeddings.dtype}")
    lengths = np.linalg.norm(embeddings.astype(float), axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise ValueError("embeddings must be finite, and no row all zero: it has no direction")
    return embeddings / lengths


def _token_counts(name, pieces, count_tokens):
    """Per piece its number of tokens."""
    if not isinstance(pieces, list | tuple) or not pieces or not all(isinstance(piece, str) for piece in pieces):
        raise ValueError(f"{name} must be a list of at least one string; got {pieces!r:.40}")
    counts = [count_tokens(piece) for piece in pieces]
    for count in counts:
        _check_whole("count_tokens", count, least=0)
    return counts


def _check_whole(name, number, *, least):
    if not isinstance(number, Integral) or isinstance(number, bool) or number < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {number!r}")
