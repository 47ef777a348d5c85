"""eRAG asked of a reader: what it makes of each retrieved document alone and of every beginning of the list, and other labels beside.

One row per question, retriever and rank. `erag_...` is the score of the reader's reply with this document alone (`erag.annotate`),
`whole_...` that with the documents of ranks 1 to this one. `per_question` turns a column of labels into metrics (`erag.rank_metrics`).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain, product

import numpy as np
import pandas as pd

from rag_utils import answers, erag, similarity
from rag_utils.base.checks import keyed, one_of
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel, word_log_likelihoods
from rag_utils.measures import by_id
from rag_utils.prompts import Prompt, prompt_text
from rag_utils.retrieve import Run, ranking

SCORES = {**answers.METRICS, "rouge_l": similarity.rouge_l}  # name -> score(reply, references)


def ask(
    reader: LanguageModel,
    questions: Sequence[Question],
    runs: Mapping[str, Run],
    passages: Mapping[str, Passage],
    *,
    prompt: Prompt,
    max_new_tokens: int = 24,
    again: int | None = None,
) -> pd.DataFrame:
    """Every label of every document of every list, and the end-to-end score of every beginning of the list.

    runs     : per retriever the scores of its passages, by question id; a list may be empty
    passages : by id
    again    : seed of a sample at temperature 1 by which each document is labelled a second time; None labels once
    returns  : columns id, condition (the retriever), rank (1 ..), document, answer (its text holds one; the title is not shown) and
               provenance (0 or 1), and for each of SCORES erag_, again_ (if asked for) and whole_
    raises   : ValueError as `erag.annotate`, if two questions have one id, and if a run lacks a question or `passages` what it found
    source   : eRAG, eq. 1 and section 3.1. Documents alone and lists are shown in the same form, so that at rank 1 erag_ is whole_
    """

    def show(question: str, *documents: str) -> str:
        return prompt_text(reader, prompt, question, documents)

    ids = by_id(questions)
    for name, run in runs.items():
        keyed(f"the run of {name}", run, ids)
        keyed("passages", passages, [document for question in ids for document in run[question]])
    lists = [(question, name, ranking(run[question.id])) for name, run in runs.items() for question in questions]
    asked, references = ([getattr(question, part) for question, _, _ in lists] for part in ("text", "answers"))
    texts = [[passages[name].text for name in ranks] for _, _, ranks in lists]
    pairs = list(zip(asked, texts, strict=True))
    alone = [show(question, text) for question, own in pairs for text in own]
    beginnings = [[show(question, *own[:depth]) for depth in range(1, len(own) + 1)] for question, own in pairs]
    # in one call, so that what all prompts share is read once
    said = {"erag": _replies(reader, chain(alone, *beginnings), max_new_tokens=max_new_tokens)}
    if again is not None:
        said["again"] = _replies(reader, alone, max_new_tokens=max_new_tokens, temperature=1.0, seed=again)
    scores = {name: cache(score) for name, score in SCORES.items()}  # most replies come several times
    table = pd.DataFrame(
        {"id": question.id, "condition": retriever, "rank": rank, "document": document}
        | {"answer": answers.contains_answer(passages[document].text, question.answers)}
        | {"provenance": float(document in {passage.id for passage in question.gold})}
        for question, retriever, ranks in lists
        for rank, document in enumerate(ranks, 1)
    )
    for (way, replies), (name, score) in product(said.items(), scores.items()):
        how = {"generate": partial(map, replies.get), "score": score, "prompt": show}
        table[f"{way}_{name}"] = list(chain(*erag.annotate(asked, texts, references, **how)))
    for name, score in scores.items():
        wholes = zip(beginnings, references, strict=True)
        table[f"whole_{name}"] = [score(said["erag"][shown], right) for own, right in wholes for shown in own]
    return table


def _replies(reader: LanguageModel, prompts: Iterable[str], **options) -> dict[str, str]:
    prompts = list(dict.fromkeys(prompts))
    replies = reader.generate(prompts, **options) if prompts else []
    return {prompt: reply.text.strip() for prompt, [reply] in zip(prompts, replies, strict=True)}


def relevance(
    judge: LanguageModel, table: pd.DataFrame, questions: Sequence[Question], passages: Mapping[str, Passage], prompt
) -> np.ndarray:
    """Whether a language model calls each document of `ask`'s table relevant: 1 if "Yes" is likelier than "No" after it, else 0."""
    known = by_id(questions)
    rows = zip(table["id"], table["document"], strict=True)
    shown = [prompt_text(judge, prompt, known[name], [passages[document].text]) for name, document in rows]
    places, distinct_texts = pd.factorize(np.array(shown, dtype=object))
    said = word_log_likelihoods(judge, list(distinct_texts), ("Yes", "No"))
    return (said[:, 0] > said[:, 1]).astype(float)[places]


def per_question(table: pd.DataFrame, column: str, *, k: int) -> pd.DataFrame:
    """Each metric of the first k documents, for every question and retriever, by the labels in one column.

    returns : columns id, condition and the metrics; only P and Success where a label of the column is not 0 or 1
    raises  : ValueError for an unknown column or a k that no list reaches
    source  : eRAG, section 2, which decides for a whole column whether labels are binary. A list shorter than k goes on with labels of 0
    """
    one_of("column", column, table.columns)
    top = first(table, k).sort_values("rank", kind="stable")
    metrics = erag.METRICS if top[column].isin((0, 1)).all() else erag.OF_SCORES
    full_name = {name: f"{name}@{k}" if erag.METRICS[name] else name for name in metrics}
    measure = cache(lambda labels: erag.rank_metrics(labels, list(full_name.values())))  # equal lists are measured once
    labels = top.groupby(["id", "condition"], sort=False)[column].agg(tuple)
    return pd.DataFrame(map(measure, labels), index=labels.index).set_axis(list(full_name), axis=1).reset_index()


def end_to_end(table: pd.DataFrame, score: str, *, k: int) -> pd.Series:
    """The reader's score with the first k documents in its prompt, or all of a shorter list, by (id, condition)."""
    one_of("score", score, SCORES)
    last = first(table, k).groupby(["id", "condition"], sort=False)["rank"].idxmax()
    return table.loc[last].set_index(["id", "condition"])[f"whole_{score}"]


def first(table: pd.DataFrame, k: int) -> pd.DataFrame:
    """The rows of ranks 1 to k; raises ValueError for a k that no list reaches."""
    if not 1 <= k <= table["rank"].max():
        raise ValueError(f"k = {k}, but the longest list holds {table['rank'].max()} documents; want 1 to that many")
    return table[table["rank"] <= k]
