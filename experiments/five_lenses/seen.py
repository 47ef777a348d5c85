"""Chapter 9: the same passages seen by five measures, by the retriever, by people, and by what is lost without them.

Fixed before the first call: BM25's best five passages; the 240 questions of the corpus, NQ 40, SQuAD 40, HotpotQA 29, MuSiQue 20.
"""

import pandas as pd

from experiments import asking, benchmarks
from rag_utils import dense, retrieve, score
from rag_utils.answers import contains_answer, exact_match
from rag_utils.score.measured import Settings, Task

MEASURES = ("seper", "erag", "dense", "ecorag", "moi")
K = 5
PASSAGE = ["id", "rank", "seper", "erag", "dense_role", "ecorag", "moi", "retriever", "gold", "holds", "without"]
QUESTION = ["right_before", "right_with_list", "seper_list", "dense_entropy", "right_compressed", "right_reordered"]


def seen(*, mode, profile, weaker, prompts, dataset, questions, seed, few=None):
    """PASSAGE and QUESTION of each of the best K passages of the first questions, columns as in `score.columns`; and facts.

    Of a passage retriever is BM25's score; gold, holds (an answer stands in it) and without (the list without it is answered right) 0 or 1.
    """
    chosen, reader, rows = benchmarks.load(dataset, questions), asking.reader(profile, mode), {}
    run, asked = retrieve.bm25(chosen.questions, chosen.pool, k=K), chosen.questions[:few]
    shown = {each.id: [chosen.passages[name] for name in retrieve.ranking(run[each.id])] for each in asked}
    lists = [score.Record.of(each, shown[each.id]) for each in asked]
    given = {"reader": reader, "top": K, "seed": seed, "settings": Settings(asker=weaker, judge=profile, **prompts)}
    scores, task = score.run(lists, measures=MEASURES, mode=mode, **given), Task(lists, judge=None, **given)
    shorter = {each.id: dense.contexts_without_one(task.texts(each)) for each in asked}
    said = iter(task.say([task.prompt(each, texts) for each in asked for texts in shorter[each.id]]))
    for each in asked:
        for passage in shown[each.id]:
            own = {"retriever": run[each.id][passage.id], "gold": int(passage in each.gold)}
            own["holds"] = int(contains_answer(passage.text, list(each.answers)))
            rows[each.id, passage.id] = own | {"without": int(exact_match(next(said), each.answers))}
    table = scores.passages.join(pd.DataFrame.from_dict(rows, orient="index"), on=["question", "passage"])
    table = table.merge(scores.questions, left_on="question", right_on="id", suffixes=("", "_of"))
    facts = asking.facts(reader=reader, asker=asking.reader(weaker, mode), judge=asking.judge(profile, mode=mode)) | chosen.facts
    return table[PASSAGE + QUESTION], facts | {"questions": len(asked)}
