"""Evidence as people marked it and as the reader has it: other labels, rankings held against the marks, verdicts against the reader."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_fscore_support

from experiments.ecorag_ablations.compressors import marked
from rag_utils import answers, data, retrieve
from rag_utils.base import checks
from rag_utils.base.cache import ROOT
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel
from rag_utils.measures.ecorag import Retrieved, Score, mine, ranked, right, sentences, titled


def train_questions(source: str) -> list[Question]:
    """The questions to mine, in the order of the hash of their text: those of the companion to train on, none answered yes or no; those of
    NQ by which the reader's training measured its loss, none of the held-out quarter and none on a passage of it."""
    questions = sorted(data.load(source), key=lambda question: data.question_id(question.text))
    if source == "companion":
        return [question for question in questions if question.split == "train" and question.type != "yes_no"]
    unseen = {passage.id for question in questions if data.held_out(question.text) for passage in question.gold}
    usable = [q for q in questions if not data.held_out(q.text) and unseen.isdisjoint(p.id for p in q.gold)]
    facts = json.loads((ROOT / "data" / "reader" / "training.json").read_text(encoding="utf-8"))
    return usable[: facts["development_questions"]]


def unseen_questions(n: int | None = None) -> list[Question]:
    """The companion's questions that nothing was trained on, without those to be answered yes or no.

    n : then the first n // 2 about real things, and after them as many about invented ones
    """
    unseen = [q for q in data.load("companion") if q.split != "train" and q.type != "yes_no"]
    if n is None:
        return unseen
    return [q for kind in ("real", "invented") for q in [q for q in unseen if q.kind == kind][: n // 2]]


def retrieved(questions: Sequence[Question], pool: retrieve.Pool, *, k: int) -> dict[str, list[Passage]]:
    """The k best passages of each question by BM25, best first; those that share no word with it come last, in the pool's order."""
    run, lists = retrieve.bm25(questions, pool, k=k), {}
    for question in questions:
        by_id = {passage.id: passage for passage in (pool(question) if callable(pool) else pool)}
        best = retrieve.ranking(run[question.id])
        lists[question.id] = [by_id[name] for name in dict.fromkeys([*best, *by_id])][:k]
    return lists


def labelled(reader: LanguageModel, questions: Sequence[Question], passages: Retrieved, **asking) -> pd.DataFrame:
    """The label of every sentence, and the labels that the paper holds it against.

    asking  : as in `measures.ecorag.mine`
    returns : its columns, and answer (the sentence contains one), gold (the source marks it), whole (right with all passages), needed (so,
              and wrong without this sentence's passage)
    source  : ECoRAG, section 5.1: answerability and leave-one-out. The latter is about whole passages there and here
    """
    table = mine(reader, questions, passages, **asking)
    rows = [(question, sentence) for question in questions for sentence in sentences(passages[question.id])]
    table["answer"] = [int(answers.contains_answer(sentence.text, question.answers)) for question, sentence in rows]
    gold = {(question.id, one.passage, one.place) for question in questions for one in marked(question)}
    table["gold"] = [int((question.id, sentence.passage, sentence.place) in gold) for question, sentence in rows]
    lists = {question.id: {passage.id: titled(passage) for passage in passages[question.id]} for question in questions}
    whole = dict(zip(lists, right(reader, [(q, [*lists[q.id].values()]) for q in questions], **asking), strict=True))
    left = [(question, name) for question in questions if whole[question.id] for name in lists[question.id]]
    others = [(q, [text for other, text in lists[q.id].items() if other != name]) for q, name in left]
    still = dict(zip(((q.id, name) for q, name in left), right(reader, others, **asking), strict=True))
    table["whole"] = [int(whole[question.id]) for question, _ in rows]
    table["needed"] = [int(not still.get((question.id, sentence.passage), True)) for question, sentence in rows]
    return table


def alignment(
    questions: Sequence[Question], passages: Retrieved, scores: Mapping[str, Score], *, whole: bool = False
) -> pd.DataFrame:
    """How high each score puts what people marked: NDCG of the sentences, or of whole passages by their best sentence.

    whole   : rank passages, for a source that marks no sentences
    returns : columns id, condition (name of the score), ndcg_1, ndcg_10, r20 (an answer is in the 20 best sentences)
    source  : ECoRAG, Table 2, and R20 of Table 3. What was not retrieved counts as missed
    """
    rows = []
    for condition, score in scores.items():
        best, run, judged = ranked(questions, passages, score), {}, {}
        for question in questions:
            names = [one.passage if whole else f"{one.passage}:{one.place}" for one in best[question.id]]
            run[question.id] = {name: float(-place) for place, name in enumerate(dict.fromkeys(names))}
            gold = [f"{one.passage}:{one.place}" for one in marked(question)]
            judged[question.id] = dict.fromkeys([passage.id for passage in question.gold] if whole else gold, 1)
        ndcg_1, ndcg_10 = retrieve.evaluate(run, judged, ["nDCG@1", "nDCG@10"]).values()
        for question in questions:
            top = [sentence.text for sentence in best[question.id][:20]]
            r20 = float(any(answers.contains_answer(text, question.answers) for text in top))
            rows.append((question.id, condition, ndcg_1[question.id], ndcg_10[question.id], r20))
    return pd.DataFrame(rows, columns=["id", "condition", "ndcg_1", "ndcg_10", "r20"])


def verdict_scores(said: Sequence[bool], well: Sequence[bool]) -> dict[str, float]:
    """Accuracy, precision, recall and F1 of an evaluator against what the reader could do, as in Fig. 4; NaN where a share has no cases.

    said, well : whether the evaluator calls what is kept sufficient, and whether the reader answers rightly with it

    >>> verdict_scores([True, True, False, False], [True, False, True, False])
    {'accuracy': 0.5, 'precision': 0.5, 'recall': 0.5, 'F1': 0.5}
    """
    said, well = checks.flags("said", said), checks.flags("well", well)
    checks.same_length(said=said, well=well)
    scores = precision_recall_fscore_support(well, said, average="binary", zero_division=np.nan)
    named = zip(("accuracy", "precision", "recall", "F1"), (np.mean(said == well), *scores[:3]), strict=True)
    return {name: float(score) for name, score in named}
