"""Evidence as people marked it and as the reader has it: other labels, rankings held against the marks, verdicts against the reader."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from experiments.ecorag_ablations.compressors import marked
from rag_utils import answers, data, retrieve
from rag_utils.base import checks
from rag_utils.base.cache import ROOT
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel
from rag_utils.measures.ecorag import Retrieved, Score, mine, ranked, right, titled


def train_questions(source: str) -> list[Question]:
    """The questions to mine, in the order of the hash of their text: those of the companion to train on, none answered yes or no; those of
    NQ by which the reader's training measured its loss, none of the held-out quarter and none on a passage of it."""
    questions = sorted(data.load(source), key=lambda question: data.question_id(question.text))
    if source == "companion":
        return [question for question in questions if question.split == "train" and question.type != "yes_no"]
    unseen = {passage.id for question in questions if data.held_out(question.text) for passage in question.gold}
    usable = [
        question
        for question in questions
        if not data.held_out(question.text) and not unseen & {passage.id for passage in question.gold}
    ]
    facts = json.loads((ROOT / "data" / "reader" / "training.json").read_text(encoding="utf-8"))
    return usable[: facts["development_questions"]]


def unseen_questions(n: int | None = None) -> list[Question]:
    """The companion's questions that nothing was trained on, without those to be answered yes or no.

    n : then the first n // 2 about real things, and after them as many about invented ones
    """
    questions = [one for one in data.load("companion") if one.split != "train" and one.type != "yes_no"]
    if n is None:
        return questions
    return [one for kind in ("real", "invented") for one in [q for q in questions if q.kind == kind][: n // 2]]


def retrieved(questions: Sequence[Question], pool: retrieve.Pool, *, k: int) -> dict[str, list[Passage]]:
    """The k best passages of each question by BM25, best first; those that share no word with it come last, in the pool's order."""
    run = retrieve.bm25(questions, pool, k=k)
    lists = {}
    for question in questions:
        own = list(pool(question) if callable(pool) else pool)
        by_id = {passage.id: passage for passage in own}
        best = [by_id[name] for name in retrieve.ranking(run[question.id])]
        rest = [passage for passage in own if passage.id not in run[question.id]]
        lists[question.id] = [*best, *rest][:k]
    return lists


def labelled(reader: LanguageModel, questions: Sequence[Question], passages: Retrieved, **asking) -> pd.DataFrame:
    """The label of every sentence, and the labels that the paper holds it against.

    asking  : as in `measures.ecorag.mine`
    returns : its columns, and answer (the sentence contains one), gold (the source marks it), whole (right with all passages), needed (so,
              and wrong without this sentence's passage)
    source  : ECoRAG, section 5.1: answerability and leave-one-out. The latter is about whole passages there and here
    """
    table = mine(reader, questions, passages, **asking)
    by_id = {question.id: question for question in questions}
    gold = {(question.id, *where) for question in questions for where in marked(question)}
    texts = {
        (name, passage.id, place): titled(passage, text)
        for name in by_id
        for passage in passages[name]
        for place, text in enumerate(passage.cut())
    }
    keys = list(zip(table["id"], table["passage"], table["place"], strict=True))
    table["answer"] = [int(answers.contains_answer(texts[key], by_id[key[0]].answers)) for key in keys]
    table["gold"] = [int(key in gold) for key in keys]
    whole, needed = leave_one_out(reader, questions, passages, **asking)
    table["whole"] = [int(whole[name]) for name, *_ in keys]
    table["needed"] = [int(needed.get((name, passage), False)) for name, passage, _ in keys]
    return table


def leave_one_out(
    reader: LanguageModel, questions: Sequence[Question], passages: Retrieved, **asking
) -> tuple[dict[str, bool], dict[tuple[str, str], bool]]:
    """By question id whether the reader is right with all passages; where it is, by question and passage id whether it needs this one."""
    lists = {question.id: [titled(passage) for passage in passages[question.id]] for question in questions}
    whole = right(reader, [(question, lists[question.id]) for question in questions], **asking)
    cases = [
        (question, place)
        for question, well in zip(questions, whole, strict=True)
        if well
        for place in range(len(lists[question.id]))
    ]
    others = [(one, [text for i, text in enumerate(lists[one.id]) if i != place]) for one, place in cases]
    still = right(reader, others, **asking)
    needed = {(one.id, passages[one.id][place].id): not ok for (one, place), ok in zip(cases, still, strict=True)}
    return {question.id: well for question, well in zip(questions, whole, strict=True)}, needed


def alignment(
    questions: Sequence[Question], passages: Retrieved, scores: Mapping[str, Score], *, whole: bool = False
) -> pd.DataFrame:
    """How high each score puts what people marked: NDCG of the sentences, or of whole passages by their best sentence.

    whole   : rank passages, for a source that marks no sentences
    returns : columns id, condition (name of the score), ndcg_1, ndcg_10, r20 (an answer is in the 20 best sentences)
    source  : ECoRAG, Table 2, and R20 of Table 3. What was not retrieved counts as missed
    """
    rows = []
    for name, score in scores.items():
        best = ranked(questions, passages, score)
        run, judged = {}, {}
        for question in questions:
            names = [one.passage if whole else f"{one.passage}:{one.place}" for one in best[question.id]]
            run[question.id] = {one: float(-place) for place, one in enumerate(dict.fromkeys(names))}
            gold = [f"{passage}:{place}" for passage, place in marked(question)]
            judged[question.id] = dict.fromkeys([passage.id for passage in question.gold] if whole else gold, 1)
        values = retrieve.evaluate(run, judged, ["nDCG@1", "nDCG@10"])
        for question in questions:
            row = {"id": question.id, "condition": name}
            row |= {f"ndcg_{k}": values[f"nDCG@{k}"][question.id] for k in (1, 10)}
            top = [sentence.text for sentence in best[question.id][:20]]
            rows.append(row | {"r20": float(any(answers.contains_answer(text, question.answers) for text in top))})
    return pd.DataFrame(rows)


def verdict_scores(said: Sequence[bool], well: Sequence[bool]) -> dict[str, float]:
    """Accuracy, precision, recall and F1 of an evaluator against what the reader could do; NaN where a share has no cases.

    said, well : whether the evaluator calls what is kept sufficient, and whether the reader answers rightly with it
    source     : ECoRAG, Fig. 4

    >>> verdict_scores([True, True, False, False], [True, False, True, False])
    {'accuracy': 0.5, 'precision': 0.5, 'recall': 0.5, 'F1': 0.5}
    """
    said, well = checks.flags("said", said), checks.flags("well", well)
    checks.same_length(said=said, well=well)
    both, accuracy = int((said & well).sum()), float(np.mean(said == well))
    parts = {"precision": (both, said.sum()), "recall": (both, well.sum()), "F1": (2 * both, said.sum() + well.sum())}
    return {"accuracy": accuracy} | {
        name: float(part / total) if total else float("nan") for name, (part, total) in parts.items()
    }
