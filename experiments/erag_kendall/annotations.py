"""eRAG, chapter 3: the lists that the retrievers return, and how their documents are annotated on the public benchmarks."""

import json
from collections.abc import Sequence

import pandas as pd

from experiments import asking, benchmarks
from rag_utils import data, retrieve
from rag_utils.base import checks, sealed
from rag_utils.data import Passage, Question
from rag_utils.measures import erag as measure
from rag_utils.prompts import load as load_prompt
from rag_utils.retrieve import Run, ranking

# title as in eRAG, Table 1 -> column; eRAG has one column per score, erag_...
ANNOTATIONS = {"containing the answer": "answer", "provenance": "provenance", "relevance by the LM": "relevance"}
ANNOTATIONS["eRAG"] = "erag"
Rows = tuple[pd.DataFrame, dict]


def labels_of(score: str) -> dict[str, str]:
    """Title of each annotation -> column; eRAG labels a document with the reader's score."""
    return ANNOTATIONS | {"eRAG": f"erag_{checks.one_of('score', score, measure.SCORES)}"}


def digest_of(pool: Sequence[Passage]) -> str:
    """12 hex digits that tell one pool of passages from another."""
    return sealed.sha256(json.dumps([[passage.id, passage.title, passage.text] for passage in pool]))[:12]


def retrieved(questions: Sequence[Question], pool, *, k: int = 10) -> dict[str, Run]:
    """The k best passages by BM25 and by MiniLM embeddings."""
    return {"BM25": retrieve.bm25(questions, pool, k=k), "dense": retrieve.dense(questions, pool, k=k)}


def retrieved_rows(*, mode, datasets, passages, digest, k, few=None) -> Rows:
    """`retrieved` as rows that can be kept, so that nothing has to be embedded again. No reader is asked, so `mode` changes nothing.

    passages : the data set whose passages are searched; ValueError if they are not those of the `digest_of` that is given
    returns  : (columns id, condition (the retriever), rank (1 ..) and document; what they were found in)
    """
    if digest_of(pool := data.passages(passages)) != digest:
        raise ValueError(f"the passages of {passages} must be those with the digest {digest}; got {digest_of(pool)}")
    questions = [question for name in datasets for question in data.load(name)][:few]
    rows = [
        (name, retriever, rank, document)
        for retriever, run in retrieved(questions, pool, k=k).items()
        for name, scores in run.items()
        for rank, document in enumerate(ranking(scores), 1)
    ]
    table = pd.DataFrame(rows, columns=["id", "condition", "rank", "document"])
    return table, {"questions": len(questions), "passages": len(pool), "encoder": "all-MiniLM-L6-v2"}


def runs_of(rows: pd.DataFrame, questions: Sequence[Question], *, k: int) -> dict[str, Run]:
    """Run per retriever: the first k of each question in `retrieved_rows`, if any, scored 1 / rank; ValueError for a k no list reaches."""
    first = measure.first(rows, k)
    runs = {name: {question.id: {} for question in questions} for name in first["condition"].unique()}
    for row in first[first["id"].isin({question.id for question in questions})].itertuples():
        runs[row.condition][row.id][row.document] = 1 / row.rank
    return runs


def on_benchmark(*, mode, dataset, questions, profiles, prompts, k, max_new_tokens, few=None) -> Rows:
    """The annotations of a public benchmark, each document labelled once: numbers and ids of passages only.

    profiles : "reader" and "judge", who is asked what is relevant; prompts: with which these two are asked, under the same keys
    """
    chosen = benchmarks.load(dataset, questions)
    reader, judge = (asking.reader(profiles[role], mode) for role in ("reader", "judge"))
    ask, relevant = (load_prompt(prompts[role]) for role in ("reader", "judge"))
    runs = retrieved(chosen.questions, chosen.pool, k=k)  # of all questions: BM25 weighs a word by the paragraphs of all
    asked, passages = chosen.questions[:few], chosen.passages
    table = measure.ask(reader, asked, runs, passages, prompt=ask, max_new_tokens=max_new_tokens)
    table["relevance"] = measure.relevance(judge, table, asked, passages, relevant)
    return table, asking.facts(reader=reader, judge=judge) | chosen.facts
