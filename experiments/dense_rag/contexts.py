"""What a question may be shown: documents, cut in several ways, and the chunks that are nearest to it."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from experiments import benchmarks
from rag_utils import answers, retrieve
from rag_utils.base import checks
from rag_utils.data import Passage, Question
from rag_utils.measures.dense import Supply

FIXED = {"fixed 128": (128, 16), "fixed 64": (64, 8), "fixed 32": (32, 4)}  # tokens and overlap: a quarter of DENSE, Table 4
WHOLE, SEMANTIC = "fixed 128", "semantic"  # what a question is certain or uncertain with, and what uncertain ones get


def documents_of(questions: Sequence[Question], pool: Sequence[Passage]) -> dict[str, list[Passage]]:
    """The documents that the questions' own passages are from: title -> its passages, in their order."""
    titles = {passage.title for question in questions for passage in retrieve.own_passages(question)}
    documents = defaultdict(list)
    for passage in pool:
        if passage.title in titles:
            documents[passage.title].append(passage)
    return dict(documents)


def own_chunks(chunks: Sequence[Passage], question: Question) -> list[Passage]:
    """The chunks of the documents that the question's own passages are from."""
    return [chunk for own in documents_of([question], chunks).values() for chunk in own]


def supplies(questions: Sequence[Question], chunks: retrieve.Pool, *, k: int, encode: retrieve.Encoder, reserve: int = 20) -> list[Supply]:
    """The nearest chunks of each question, by the cosine of embeddings of title and text.

    k, reserve : chunks to begin with, and chunks that may be used at all, the k among them or ValueError; where there are fewer, all
    """
    checks.whole("reserve", reserve, least=k)
    ranked, supplied = benchmarks.nearest(questions, chunks, reserve, encoder=encode), []
    for question in questions:
        near = ranked[question.id]
        vectors = encode([f"{chunk.title} {chunk.text}" for chunk in near])
        supplied.append(Supply(question, near, tuple(range(min(k, len(near)))), vectors))
    return supplied


def holds(supplied: Sequence[Supply]) -> dict[str, float]:
    """Question id -> whether its first context holds an answer, as a string; "yes" and "no" are not looked for: NaN."""
    return {
        supply.question.id: np.nan
        if set(map(str.lower, supply.question.answers)) & {"yes", "no"}
        else float(any(answers.contains_answer(text, list(supply.question.answers)) for text in supply.texts()))
        for supply in supplied
    }
