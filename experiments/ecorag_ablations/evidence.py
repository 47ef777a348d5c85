"""Evidence as the reader has it: labels of sentences, how well a score finds what people marked, what the reader makes of what is kept.

labels = mined(reader, questions, passages, closed=..., read=...)
answers = read(reader, questions, {"all documents": kept, ...}, closed=..., prompt=...)
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from experiments.asking import CLOSED
from experiments.benchmarks import sample
from experiments.ecorag_ablations import compressors
from experiments.ecorag_ablations.compressors import Kept, Retrieved, Score, pieces, shown
from rag_utils import answers, data, ecorag, retrieve
from rag_utils.corpora import manifest
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel
from rag_utils.prompts import Prompt, prompt_text

OWN = ("hotpotqa", "musique")  # benchmarks whose questions come with their paragraphs


def retrieved(questions: Sequence[Question], pool: retrieve.Pool, *, k: int) -> dict[str, list[Passage]]:
    """The k best passages of each question by BM25, best first; those that share no word with it come last, in the pool's order."""
    run = retrieve.bm25(questions, pool, k=k)
    found = {}
    for question in questions:
        own = list(pool(question) if callable(pool) else pool)
        by_id = {passage.id: passage for passage in own}
        best = [by_id[name] for name in retrieve.ranking(run[question.id])]
        rest = [passage for passage in own if passage.id not in run[question.id]]
        found[question.id] = [*best, *rest][:k]
    return found


def mined(
    reader: LanguageModel,
    questions: Sequence[Question],
    passages: Retrieved,
    *,
    closed: Prompt,
    read: Prompt,
    max_new_tokens: int = 16,
) -> pd.DataFrame:
    """The label of every sentence of every question's passages, by exact match of the reader's greedy answers, and two other labels.

    returns : columns id, rank (of the sentence, 1 ..), passage, place, closed (right without any), label (ecorag.LABELS), answer (the
              sentence contains one), gold (the source marks it), whole (right with all passages), needed (right with all passages, wrong
              without this sentence's; 0 where wrong with all)
    source  : ECoRAG, section 3.1.1; answerability and leave-one-out as in section 5.1. The latter is about whole passages there and here
    """

    def right(asked: Sequence[tuple[Question, tuple[str, ...]]]) -> list[bool]:
        texts = [
            prompt_text(reader, read, question, [Passage("", "", text) for text in some])
            if some
            else prompt_text(reader, closed, question, None)
            for question, some in asked
        ]
        replies = reader.generate(texts, max_new_tokens=max_new_tokens) if texts else []
        return [
            bool(answers.exact_match(reply.text, question.answers))
            for (question, _), [reply] in zip(asked, replies, strict=True)
        ]

    own = [pieces(passages[question.id]) for question in questions]
    closed_book = right([(question, ()) for question in questions])
    by_id = {question.id: question for question in questions}
    labels = ecorag.mine(
        list(by_id),
        [[piece.text for piece in some] for some in own],
        closed_book=lambda asked: closed_book,
        with_sentence=lambda asked: right([(by_id[name], (text,)) for name, text in asked]),
        strong_with_sentence=lambda asked: right([(by_id[name], (strong, text)) for name, strong, text in asked]),
    )
    lists = [tuple(shown(passage) for passage in passages[question.id]) for question in questions]
    whole = right(list(zip(questions, lists, strict=True)))
    without = [
        (place, i, (*texts[:i], *texts[i + 1 :]))
        for place, texts in enumerate(lists)
        if whole[place]
        for i in range(len(texts))
    ]
    still = right([(questions[place], texts) for place, _, texts in without])
    needed = {
        (place, passages[questions[place].id][i].id): not ok for (place, i, _), ok in zip(without, still, strict=True)
    }
    return pd.DataFrame(
        {
            "id": question.id,
            "rank": rank,
            "passage": piece.passage,
            "place": piece.place,
            "closed": int(closed_book[place]),
            "label": label,
            "answer": int(answers.contains_answer(piece.text, question.answers)),
            "gold": int(piece.id in gold_ids(question)),
            "whole": int(whole[place]),
            "needed": int(needed.get((place, piece.passage), False)),
        }
        for place, (question, some, said) in enumerate(zip(questions, own, labels, strict=True))
        for rank, (piece, label) in enumerate(zip(some, said, strict=True), 1)
    )


def gold_ids(question: Question) -> set[str]:
    """The ids of the sentences that the source marks as needed, as `Piece.id`; all of the gold passages where it marks none."""
    marked = question.gold_sentences or [range(len(compressors.cut(passage))) for passage in question.gold]
    return {f"{passage.id}:{place}" for passage, places in zip(question.gold, marked, strict=True) for place in places}


def alignment(
    questions: Sequence[Question], passages: Retrieved, scores: Mapping[str, Score], *, whole: bool = False
) -> pd.DataFrame:
    """How high each score puts what people marked: NDCG of the sentences, or of whole passages by their best sentence.

    whole   : rank passages, for a source that marks no sentences
    returns : columns id, condition (name of the score), ndcg_1, ndcg_10, r20 (an answer is in the 20 best sentences)
    source  : ECoRAG, Table 2, and R20 of Table 3. What was not retrieved counts as missed
    """
    table = []
    for name, score in scores.items():
        best = compressors.ranked(questions, passages, score)
        run, judged = {}, {}
        for question in questions:
            ids = [piece.passage if whole else piece.id for piece in best[question.id]]
            ids = list(dict.fromkeys(ids))
            run[question.id] = {one: float(-place) for place, one in enumerate(ids)}
            gold = {passage.id for passage in question.gold} if whole else gold_ids(question)
            judged[question.id] = dict.fromkeys(gold, 1)
        found = retrieve.evaluate(run, judged, ["nDCG@1", "nDCG@10"])
        for question in questions:
            top = [piece.text for piece in best[question.id][:20]]
            table.append(
                {
                    "id": question.id,
                    "condition": name,
                    "ndcg_1": found["nDCG@1"][question.id],
                    "ndcg_10": found["nDCG@10"][question.id],
                    "r20": float(any(answers.contains_answer(text, question.answers) for text in top)),
                }
            )
    return pd.DataFrame(table)


def read(
    reader: LanguageModel,
    questions: Sequence[Question],
    kept: Mapping[str, Kept | None],
    *,
    closed: Prompt,
    prompt: Prompt,
    max_new_tokens: int = 16,
) -> pd.DataFrame:
    """The reader's answers with what each compressor keeps; all prompts in one call, so that what they share is read once.

    kept    : name -> texts by question id; None asks without any
    returns : columns id, condition, exact_match, token_f1, tokens (of the texts kept), texts (their number), unparsable
    raises  : ValueError if a compressor kept nothing for a question
    """
    calls = {}
    for name, texts in kept.items():
        for question in questions:
            if texts is not None and not texts[question.id]:
                raise ValueError(f"{name} kept nothing for question {question.id!r}, wanted at least one text")
            some = None if texts is None else [Passage("", "", text) for text in texts[question.id]]
            calls[question.id, name] = prompt_text(reader, closed if some is None else prompt, question, some)
    replies = reader.generate(list(calls.values()), max_new_tokens=max_new_tokens)
    by_id = {question.id: question for question in questions}
    distinct = {text for texts in kept.values() if texts for own in texts.values() for text in own}
    length = {text: reader.count_tokens(text) for text in distinct}
    table = []
    for (one, name), [reply] in zip(calls, replies, strict=True):
        texts = kept[name][one] if kept[name] is not None else []
        table.append(
            {
                "id": one,
                "condition": name,
                "exact_match": answers.exact_match(reply.text, by_id[one].answers),
                "token_f1": answers.token_f1(reply.text, by_id[one].answers),
                "tokens": sum(length[text] for text in texts),
                "texts": len(texts),
                "unparsable": int(not answers.normalize(reply.text)),
            }
        )
    return pd.DataFrame(table)


def as_passages(kept: Kept) -> dict[str, list[Passage]]:
    """Kept texts in the form in which other measures take passages."""
    return {name: [Passage(str(i), "", text) for i, text in enumerate(texts)] for name, texts in kept.items()}


def agreement(said: Sequence[bool], right: Sequence[bool]) -> dict[str, float]:
    """Accuracy, precision, recall and F1 of an evaluator against what the reader could do; NaN where a share has no cases.

    source : ECoRAG, Fig. 4: right is whether the reader answers rightly with what is kept, said whether the evaluator calls it sufficient

    >>> agreement([True, True, False, False], [True, False, True, False])
    {'accuracy': 0.5, 'precision': 0.5, 'recall': 0.5, 'F1': 0.5}
    """
    said, right = np.asarray(said, dtype=bool), np.asarray(right, dtype=bool)
    if said.shape != right.shape or said.ndim != 1 or not said.size:
        raise ValueError(f"said and right must be as many, at least one; got shapes {said.shape} and {right.shape}")

    def share(part: int, whole: int) -> float:
        return float(part / whole) if whole else float("nan")

    both = int((said & right).sum())
    return {
        "accuracy": float(np.mean(said == right)),
        "precision": share(both, int(said.sum())),
        "recall": share(both, int(right.sum())),
        "F1": share(2 * both, int(said.sum() + right.sum())),
    }


def benchmark_questions(name: str, n: int, *, k: int) -> tuple[list[Question], dict[str, list[Passage]]]:
    """n questions of a benchmark and k passages each: by BM25 from the passages of all, or of the question's own paragraphs."""
    questions = sample(name, min(n, len(data.load(name))))
    return questions, retrieved(questions, retrieve.own_passages if name in OWN else data.passages(name), k=k)


def benchmark(
    reader: LanguageModel,
    name: str,
    n: int,
    *,
    compress: Mapping[str, compressors.Compressor],
    k: int,
    closed: Prompt,
    prompt: Prompt,
    max_new_tokens: int = 16,
) -> tuple[pd.DataFrame, dict]:
    """`read` on a public benchmark, closed book and with each compressor: numbers per question only."""
    questions, passages = benchmark_questions(name, n, k=k)
    kept = {CLOSED: None} | {title: one(questions, passages) for title, one in compress.items()}
    table = read(reader, questions, kept, closed=closed, prompt=prompt, max_new_tokens=max_new_tokens)
    return table, facts(name, len(questions), k) | {
        "reader": reader.name,
        "fingerprint": reader.fingerprint,
        "prompts": {one.name: one.digest for one in (closed, prompt)},
        "max_new_tokens": max_new_tokens,
    }


def aligned_benchmark(name: str, n: int, *, scores: Mapping[str, Score], k: int) -> tuple[pd.DataFrame, dict]:
    """`alignment` of whole passages on a public benchmark; no reader is needed."""
    questions, passages = benchmark_questions(name, n, k=k)
    return alignment(questions, passages, scores, whole=True), facts(name, len(questions), k)


def facts(name: str, n: int, k: int) -> dict:
    """Where the questions of a benchmark come from."""
    entry = manifest.entries()[name]
    return {"source": entry.source, "sha256": entry.sha256, "questions": n, "passages": k}
