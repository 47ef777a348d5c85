"""Documents cut into chunks: at fixed lengths, or where neighbouring sentences are not alike."""

from collections.abc import Iterable, Mapping, Sequence

from semantic_text_splitter import TextSplitter

from rag_utils.corpora.sentences import split_sentences
from rag_utils.data import Passage
from rag_utils.dense import merge_sentences

Documents = Mapping[str, Sequence[Passage]]  # title -> paragraphs


def sentences_of(parts: Sequence[Passage]) -> list[str]:
    """The sentences of a document: those that its passages come with, else by punctuation."""
    return [sentence for part in parts for sentence in part.sentences or split_sentences(part.text)]


def recursive_chunks(whole: Documents, *, size: int, overlap: int, count_tokens) -> list[Passage]:
    """The chunks of all documents, of at most `size` tokens: whole paragraphs as long as they fit, else sentences, else words.

    overlap : most tokens of a chunk that the next one of its document repeats
    source  : DENSE, appendix H, which names recursive splitting by LangChain; semantic-text-splitter cuts at the same places
    """
    splitter = TextSplitter.from_callback(count_tokens, size, overlap=overlap)
    texts = {title: splitter.chunks("\n\n".join(part.text for part in parts)) for title, parts in whole.items()}
    return _numbered({title: map(str.split, own) for title, own in texts.items()})


def semantic_chunks(whole: Documents, *, threshold: float, max_tokens: int, count_tokens, encode) -> list[Passage]:
    """Neighbouring sentences of a document that are alike, together: `dense.merge_sentences` on each document.

    threshold : least cosine of two neighbours. It belongs to the encoder: 0.6 with the paper's hardly joins any with ours
    source    : DENSE, eq. 7 and Algorithm 2
    """
    how = {"count_tokens": count_tokens, "threshold": threshold, "max_tokens": max_tokens}
    cut = {title: sentences_of(parts) for title, parts in whole.items()}
    return _numbered({title: merge_sentences(own, encode(own), **how) for title, own in cut.items()})


def _numbered(chunks: Mapping[str, Iterable[Sequence[str]]]) -> list[Passage]:
    return [
        Passage(f"d{number:03}c{place:03}", title, " ".join(parts))
        for number, (title, own) in enumerate(chunks.items(), 1)
        for place, parts in enumerate(own, 1)
    ]
