"""eRAG, chapter 3: the lists that the retrievers return, and how their documents are annotated on the public benchmarks."""

import hashlib
import json
from collections.abc import Mapping, Sequence

import pandas as pd

from experiments import asking, benchmarks
from rag_utils import data, retrieve
from rag_utils.base.names import check_name
from rag_utils.data import Passage, Question
from rag_utils.measures import erag as measure
from rag_utils.prompts import load as load_prompt
from rag_utils.retrieve import Run, ranking

ANNOTATIONS = {
    "containing the answer": "answer",
    "provenance": "provenance",
    "relevance by the LM": "relevance",
    "eRAG": "erag",
}  # title as in eRAG, Table 1 -> column; eRAG has one column per score, erag_...


def labels_of(score: str) -> dict[str, str]:
    """Title of each annotation -> column; eRAG labels a document with the reader's score."""
    check_name("score", score, measure.SCORES)
    return {title: f"erag_{score}" if column == "erag" else column for title, column in ANNOTATIONS.items()}


def digest_of(pool: Sequence[Passage]) -> str:
    """12 hex digits that tell one pool of passages from another."""
    texts = json.dumps([[passage.id, passage.title, passage.text] for passage in pool])
    return hashlib.sha256(texts.encode()).hexdigest()[:12]


def retrieved(questions: Sequence[Question], pool, *, k: int = 10) -> dict[str, Run]:
    """The k best passages by BM25 and by MiniLM embeddings."""
    return {"BM25": retrieve.bm25(questions, pool, k=k), "dense": retrieve.dense(questions, pool, k=k)}


def retrieved_rows(
    *, mode: str, datasets: Sequence[str], passages: str, digest: str, k: int, few: int | None = None
) -> tuple[pd.DataFrame, dict]:
    """`retrieved` as rows that can be kept, so that nothing has to be embedded again. No reader is asked, so `mode` changes nothing.

    passages : the data set whose passages are searched
    digest   : `digest_of` these
    few      : searches for the first questions only
    returns  : (columns id, condition (the retriever), rank (1 ..) and document; what they were found in)
    raises   : ValueError if the passages are not those of the digest
    """
    pool = data.passages(passages)
    if digest_of(pool) != digest:
        raise ValueError(f"the passages of {passages} must be those with the digest {digest}; got {digest_of(pool)}")
    questions = [question for name in datasets for question in data.load(name)][:few]
    rows = [
        {"id": name, "condition": retriever, "rank": rank, "document": document}
        for retriever, run in retrieved(questions, pool, k=k).items()
        for name, scores in run.items()
        for rank, document in enumerate(ranking(scores), 1)
    ]
    return pd.DataFrame(rows), {"questions": len(questions), "passages": len(pool), "encoder": "all-MiniLM-L6-v2"}


def runs_of(rows: pd.DataFrame, questions: Sequence[Question], *, k: int) -> dict[str, Run]:
    """The first k documents of each question in rows of `retrieved_rows`; the score of a document is 1 / rank.

    returns : Run per retriever; the list of a question without rows is empty
    raises  : ValueError for a k that no list reaches
    """
    runs: dict[str, Run] = {}
    for retriever, part in measure.first(rows, k).groupby("condition", sort=False):
        runs[retriever] = {question.id: {} for question in questions}
        for name, document, rank in zip(part["id"], part["document"], part["rank"], strict=True):
            if name in runs[retriever]:
                runs[retriever][name][document] = 1 / rank
    return runs


def on_benchmark(
    *,
    mode: str,
    dataset: str,
    questions: int,
    profiles: Mapping[str, str],
    prompts: Mapping[str, str],
    k: int,
    max_new_tokens: int,
    few: int | None = None,
) -> tuple[pd.DataFrame, dict]:
    """The annotations of a public benchmark, each document labelled once: numbers and ids of passages only.

    questions : how many; a benchmark with fewer is taken whole
    profiles  : "reader" and "judge", who is asked what is relevant
    prompts   : names of those with which these two are asked, under the same keys
    few       : asks about the first questions only
    """
    chosen = benchmarks.load(dataset, questions)
    reader, judge = (asking.reader(profiles[role], mode) for role in ("reader", "judge"))
    ask, relevant = (load_prompt(prompts[role]) for role in ("reader", "judge"))
    # of all questions, since BM25 weighs a word by the paragraphs of all
    runs = retrieved(chosen.questions, chosen.pool, k=k)
    asked, passages = chosen.questions[:few], chosen.passages
    table = measure.ask(reader, asked, runs, passages, prompt=ask, max_new_tokens=max_new_tokens)
    table["relevance"] = measure.relevance(judge, table, asked, passages, relevant)
    return table, asking.facts(reader=reader, judge=judge) | chosen.facts
