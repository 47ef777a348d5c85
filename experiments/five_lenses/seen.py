"""Chapter 9's rows: the same passages of the same questions seen by five measures, by the retriever, by people, and by what is lost without them.

Fixed before the first call: BM25's best five passages of a question; the 240 questions of the corpus, 40 of NQ and of SQuAD, all 29 of HotpotQA
and 20 of MuSiQue; every lens with the settings of its own chapter.
"""

import pandas as pd

from experiments import asking, benchmarks
from rag_utils import data, dense, retrieve, score
from rag_utils.answers import contains_answer, exact_match
from rag_utils.score.measured import Once, Settings, Task

CHAPTER = "09_five_lenses"
MEASURES = ("seper", "erag", "dense", "ecorag", "moi")
PASSAGE = ("rank", "seper", "erag", "dense_role", "ecorag", "moi")
QUESTION = ("right_before", "right_with_list", "seper_list", "dense_entropy", "right_compressed", "right_reordered")


def records(dataset: str, questions: int, k: int) -> tuple[list[data.Question], list[score.Record], retrieve.Run]:
    """Questions of a data set with BM25's best k passages: of their own paragraphs where they have some, else of all; and its scores."""
    if dataset == "companion":
        asked, pool = data.load(dataset)[:questions], data.passages(dataset)
    else:
        asked, pool = (benchmark := benchmarks.load(dataset, questions)).questions, benchmark.pool
    run, made = retrieve.bm25(asked, pool, k=k), []
    for each in asked:
        by_id = {passage.id: passage for passage in (pool(each) if callable(pool) else pool)}
        ranked = [by_id[name] for name in retrieve.ranking(run[each.id])]
        shown = [{"id": passage.id, "title": passage.title, "text": passage.text} for passage in ranked]
        made.append({"id": each.id, "question": each.text, "answers": list(each.answers), "passages": shown})
    return list(asked), [score.Record.model_validate(row) for row in made], run


def seen(*, mode, profile, weaker, dataset, questions, k, samples, seed, few=None) -> tuple[pd.DataFrame, dict]:
    """One row per question and passage: PASSAGE, retriever (BM25's score), gold and holds (0 or 1), without (the list lacks it and the reply
    is right, 0 or 1), and QUESTION of its question."""
    asked, lists, run = records(dataset, questions, k)
    asked, lists = asked[:few], lists[:few]
    reader, settings = asking.reader(profile, mode), Settings(asker=weaker, judge=profile, samples=samples)
    scores = score.run(lists, measures=MEASURES, reader=reader, top=k, seed=seed, mode=mode, settings=settings)
    task = Task(lists, Once(reader), None, settings, k, seed)
    shorter = [(q, texts) for q in asked for texts in dense.contexts_without_one(task.texts(q))]
    replies = task.say([task.prompt(q, texts) for q, texts in shorter])
    rows = scores.passages.merge(scores.questions[["id", *QUESTION]], left_on="question", right_on="id")
    by_id = {question.id: question for question in asked}
    gold = {q.id: {passage.id for passage in q.gold} for q in asked}
    places = list(zip(rows["question"], rows["passage"], rows["text"], strict=True))
    rows["retriever"] = [run[name][passage] for name, passage, _ in places]
    rows["gold"] = [int(passage in gold[name]) for name, passage, _ in places]
    rows["holds"] = [int(contains_answer(text, list(by_id[name].answers))) for name, _, text in places]
    rows["without"] = [
        int(exact_match(reply, q.answers)) for (q, _), reply in zip(shorter, replies, strict=True)
    ]
    facts = asking.facts(reader=reader, asker=asking.reader(weaker, mode)) | {"asked": scores.settings["asked"]}
    kept = rows[["id", *PASSAGE, "retriever", "gold", "holds", "without", *QUESTION]]
    return kept, facts | {"questions": len(asked)} | benchmarks.source(dataset)
