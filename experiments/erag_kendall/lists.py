"""Ranked lists as their reader sees them: what four annotations say of each document, and what the reader makes of the list.

One row per question, retriever and rank. `whole_...` is the reader's score with the documents of ranks 1 to this one in its prompt,
`erag_...` its score with this document alone.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd

from experiments.benchmarks import sample
from rag_utils import answers, data, erag, retrieve, similarity
from rag_utils.base.names import check_name
from rag_utils.corpora import manifest
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel, word_log_likelihoods
from rag_utils.prompts import Prompt, prompt_text
from rag_utils.retrieve import Run, ranking
from rag_utils.stats import correlation, correlation_difference, holm

SCORES = {**answers.METRICS, "rouge_l": similarity.rouge_l}  # name -> score(reply, references)
ANNOTATIONS = {
    "containing the answer": "answer",
    "provenance": "provenance",
    "relevance by the LM": "relevance",
    "eRAG": "erag",
}  # title as in eRAG, Table 1 -> column; eRAG has one column per score, erag_...
METRICS = ("AP", "RR", "nDCG", "P", "R", "Success")


def retrieved(questions: Sequence[Question], pool, *, k: int = 10) -> dict[str, Run]:
    """The k best passages by BM25 and by MiniLM embeddings."""
    return {"BM25": retrieve.bm25(questions, pool, k=k), "dense": retrieve.dense(questions, pool, k=k)}


def digest_of(pool: Sequence[Passage]) -> str:
    """12 hex digits that tell one pool of passages from another."""
    texts = json.dumps([[passage.id, passage.title, passage.text] for passage in pool])
    return hashlib.sha256(texts.encode()).hexdigest()[:12]


def retrieved_rows(questions: Sequence[Question], pool: Sequence[Passage], *, k: int = 10) -> tuple[pd.DataFrame, dict]:
    """`retrieved` as rows that can be kept, so that nothing has to be embedded again.

    returns : (columns id, condition (the retriever), rank (1 ..) and document; what they were found in)
    """
    rows = [
        {"id": name, "condition": retriever, "rank": rank, "document": document}
        for retriever, run in retrieved(questions, pool, k=k).items()
        for name, scores in run.items()
        for rank, document in enumerate(ranking(scores), 1)
    ]
    facts = {"k": k, "questions": len(questions), "passages": len(pool), "pool": digest_of(pool)}
    return pd.DataFrame(rows), facts | {"encoder": "all-MiniLM-L6-v2"}


def runs_of(rows: pd.DataFrame, questions: Sequence[Question], *, k: int) -> dict[str, Run]:
    """The first k documents of each question in rows of `retrieved_rows`; the score of a document is 1 / rank.

    returns : Run per retriever; the list of a question without rows is empty
    raises  : ValueError for a k that no list reaches
    """
    runs: dict[str, Run] = {}
    for retriever, part in _first(rows, k).groupby("condition", sort=False):
        runs[retriever] = {question.id: {} for question in questions}
        for name, document, rank in zip(part["id"], part["document"], part["rank"], strict=True):
            if name in runs[retriever]:
                runs[retriever][name][document] = 1 / rank
    return runs


def ask(
    reader: LanguageModel,
    questions: Sequence[Question],
    runs: Mapping[str, Run],
    passages: Mapping[str, Passage],
    *,
    prompt: Prompt,
    max_new_tokens: int = 24,
    again: bool = True,
    seed: int = 0,
) -> pd.DataFrame:
    """Every annotation of every document of every list, and the end-to-end score of every beginning of the list.

    runs      : per retriever the scores of its passages, by question id
    passages  : by id
    again     : label each document a second time, by a sample at temperature 1 instead of the greedy reply
    returns   : columns id, condition (the retriever), rank (1 ..), document, answer and provenance (0 or 1), and for each of SCORES erag_,
                again_ (if asked for) and whole_
    source    : eRAG, eq. 1 and section 3.1. Documents alone and lists are shown in the same form, so that at rank 1 erag_ is whole_
    """
    ranked = {(q.id, name): ranking(run[q.id]) for name, run in runs.items() for q in questions}
    by_id = {question.id: question for question in questions}
    score = cache(lambda reply, name: _scores(reply, by_id[name]))  # most replies come several times
    pairs = list(dict.fromkeys((name, one) for (name, _), found in ranked.items() for one in found))
    beginnings = [(name, *found[:depth]) for (name, _), found in ranked.items() for depth in range(1, len(found) + 1)]

    def said(shown: Sequence[tuple[str, ...]], **options) -> dict[tuple[str, ...], dict[str, float]]:
        texts = [
            prompt_text(reader, prompt, by_id[name], [passages[one] for one in documents]) for name, *documents in shown
        ]
        replies = reader.generate(texts, max_new_tokens=max_new_tokens, **options)
        return {key: score(reply.text, key[0]) for key, [reply] in zip(shown, replies, strict=True)}

    whole = said(list(dict.fromkeys([*pairs, *beginnings])))  # one call, so that what prompts share is read once
    labels = {"erag": whole} | ({"again": said(pairs, temperature=1.0, seed=seed)} if again else {})
    return pd.DataFrame(
        {
            "id": name,
            "condition": retriever,
            "rank": rank,
            "document": one,
            "answer": answers.contains_answer(passages[one].title + " " + passages[one].text, by_id[name].answers),
            "provenance": float(one in {passage.id for passage in by_id[name].gold}),
        }
        | {f"{kind}_{score}": value for kind in labels for score, value in labels[kind][name, one].items()}
        | {f"whole_{score}": value for score, value in whole[(name, *found[:rank])].items()}
        for (name, retriever), found in ranked.items()
        for rank, one in enumerate(found, 1)
    )


def relevance(
    asker: LanguageModel,
    table: pd.DataFrame,
    questions: Sequence[Question],
    passages: Mapping[str, Passage],
    prompt: Prompt,
) -> np.ndarray:
    """Whether a language model calls each document of `ask`'s table relevant: 1 if "Yes" is likelier than "No", else 0.

    prompt : with the slots question and documents
    """
    by_id = {question.id: question for question in questions}
    distinct = list(dict.fromkeys(zip(table["id"], table["document"], strict=True)))
    texts = [prompt_text(asker, prompt, by_id[name], [passages[one]]) for name, one in distinct]
    said = word_log_likelihoods(asker, texts, ("Yes", "No"))
    label = dict(zip(distinct, (said[:, 0] > said[:, 1]).astype(float).tolist(), strict=True))
    return np.array([label[pair] for pair in zip(table["id"], table["document"], strict=True)])


def per_question(table: pd.DataFrame, column: str, *, k: int, metrics: Sequence[str] = METRICS) -> pd.DataFrame:
    """Each metric of the first k documents, for every question and retriever, by the labels in one column.

    returns : columns id, condition and the metrics; only P and Success where a label of the column is not 0 or 1
    raises  : ValueError for an unknown column or a k that no list reaches
    source  : eRAG, section 2. Whether labels are binary is decided for the whole column, as there. A list that is shorter than k is as good
              as one that goes on with labels of 0
    """
    check_name("column", column, table.columns)
    top = _first(table, k).sort_values("rank")
    names = list(metrics) if top[column].isin((0, 1)).all() else [name for name in metrics if name in ("P", "Success")]
    asked = {name: name if name in ("AP", "RR", "nDCG") else f"{name}@{k}" for name in names}
    found, rows = {}, []  # equal labels are measured once
    for (name, condition), labels in top.groupby(["id", "condition"], sort=False)[column]:
        key = tuple(labels)
        if key not in found:
            found[key] = erag.rank_metrics(list(key), list(asked.values()))
        rows.append({"id": name, "condition": condition} | {name: found[key][full] for name, full in asked.items()})
    return pd.DataFrame(rows)


def end_to_end(table: pd.DataFrame, score: str, *, k: int) -> pd.Series:
    """The reader's score with the first k documents in its prompt, or all of a shorter list, by (id, condition)."""
    check_name("score", score, SCORES)
    last = _first(table, k).groupby(["id", "condition"], sort=False)["rank"].idxmax()
    return table.loc[last].set_index(["id", "condition"])[f"whole_{score}"]


def _first(table: pd.DataFrame, k: int) -> pd.DataFrame:
    if not 1 <= k <= table["rank"].max():
        raise ValueError(f"k = {k}, but the longest list holds {table['rank'].max()} documents; want 1 to that many")
    return table[table["rank"] <= k]


def labels_of(score: str) -> dict[str, str]:
    """Title of each annotation -> column; eRAG labels a document with the reader's score."""
    check_name("score", score, SCORES)
    return {title: f"erag_{score}" if column == "erag" else column for title, column in ANNOTATIONS.items()}


def pairs(table: pd.DataFrame, score: str, *, k: int, columns: Mapping[str, str] | None = None) -> pd.DataFrame:
    """What is correlated: per question, retriever and annotation the metrics of the list, and the reader's score with the whole list.

    columns : title -> column of labels; by default `labels_of(score)`
    returns : columns id, condition, annotation, the metrics that the labels allow (else NaN), whole
    """
    whole = end_to_end(table, score, k=k)
    found = []
    for title, column in (labels_of(score) if columns is None else columns).items():
        part = per_question(table, column, k=k)
        part.insert(2, "annotation", title)
        found.append(part.assign(whole=whole.loc[pd.MultiIndex.from_frame(part[["id", "condition"]])].to_numpy()))
    return pd.concat(found, ignore_index=True)


def grid(
    found: pd.DataFrame, *, method: str = "kendall", resamples: int = 1000, permutations: int = 199, seed: int = 0
) -> pd.DataFrame:
    """Correlation over questions of each metric under each annotation with the reader's score: the cells of eRAG's Table 1.

    found        : as `pairs` returns it
    permutations : behind the p value of fewer than 30 questions
    returns      : index (annotation, metric), a column per retriever, cells Correlation; None where a column is constant, NaN where the
                   metric does not exist
    """
    cells = {}
    for (title, condition), part in found.groupby(["annotation", "condition"], sort=False):
        for metric in METRICS:
            values = part[metric]
            if values.notna().all():
                varies = np.ptp(values.to_numpy()) > 0 and np.ptp(part["whole"].to_numpy()) > 0
                options = {"method": method, "resamples": resamples, "permutations": permutations, "rng": seed}
                cells[title, metric, condition] = correlation(values, part["whole"], **options) if varies else None
    index = pd.MultiIndex.from_tuples(cells, names=["annotation", "metric", "condition"])
    return pd.Series(list(cells.values()), index=index, dtype=object).unstack("condition", sort=False)


def ahead(
    found: pd.DataFrame,
    *,
    metrics: Sequence[str] = ("P", "Success"),
    method: str = "kendall",
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """How much closer eRAG's labels are to the reader's score than each other annotation, by the same metric, questions paired.

    returns : columns condition, metric, annotation (the other one), value, low, high, n, p_value, p_holm (adjusted for all rows); pairs of
              which one is constant are left out
    """
    rows = []
    for condition, part in found.groupby("condition", sort=False):
        wide = part.pivot(index="id", columns="annotation", values=list(metrics))
        whole = part.drop_duplicates("id").set_index("id")["whole"].loc[wide.index]
        for metric in metrics:
            columns = wide[metric].dropna(axis="columns")
            columns = columns.loc[:, np.ptp(columns.to_numpy(), axis=0) > 0]
            if "eRAG" not in columns or not np.ptp(whole.to_numpy()):
                continue
            for title in (title for title in part["annotation"].unique() if title in columns and title != "eRAG"):
                options = {"method": method, "resamples": resamples, "rng": seed}
                gap = correlation_difference(columns["eRAG"], columns[title], whole, **options)
                rows.append({"condition": condition, "metric": metric, "annotation": title} | vars(gap))
    table = pd.DataFrame(rows).drop(columns="undefined")
    return table.assign(p_holm=holm(table["p_value"]))


def benchmark(
    reader: LanguageModel,
    name: str,
    n: int,
    *,
    prompt: Prompt,
    asker: LanguageModel | None = None,
    relevance_prompt: Prompt | None = None,
    k: int = 10,
    max_new_tokens: int = 24,
) -> tuple[pd.DataFrame, dict]:
    """`ask` on a public benchmark, and `relevance` if there is someone to ask: numbers and passage ids only.

    n : questions; a benchmark with fewer is taken whole. Documents are labelled once
    """
    questions = sample(name, min(n, len(data.load(name))))
    own = name in ("hotpotqa", "musique")
    pool = retrieve.own_passages if own else data.passages(name)
    held = [passage for q in questions for passage in retrieve.own_passages(q)] if own else pool
    passages = {passage.id: passage for passage in held}
    runs = retrieved(questions, pool, k=k)
    table = ask(reader, questions, runs, passages, prompt=prompt, max_new_tokens=max_new_tokens, again=False)
    facts = {"reader": reader.name, "fingerprint": reader.fingerprint, "dtype": reader.profile.dtype}
    facts["prompts"] = {prompt.name: prompt.digest}
    if asker is not None:
        table["relevance"] = relevance(asker, table, questions, passages, relevance_prompt)
        facts["asker"] = asker.fingerprint
        facts["prompts"][relevance_prompt.name] = relevance_prompt.digest
    facts |= {"k": k, "max_new_tokens": max_new_tokens, "questions": len(questions)}
    entry = manifest.entries()[name]
    return table, facts | {"source": entry.source, "sha256": entry.sha256}


def _scores(reply: str, question: Question) -> dict[str, float]:
    return {name: float(score(reply.strip(), list(question.answers))) for name, score in SCORES.items()}
