"""Which passages lend the reader a wrong answer, and how often it is a year."""

import re

from experiments import asking, benchmarks
from rag_utils import retrieve, score
from rag_utils.score.measured import Settings

YEAR = re.compile(r"\b(?:1\d|20)\d\d\b")


def replies(*, mode, profile, prompts, dataset, questions, k, few=None):
    """`score.lent` of BM25's best k passages: a row per question and condition, "none", the passage's rank, or "all"; 0 or 1 each.

    gold : the passage shown, of all the one that the reply stands in, was marked; held: the reply stands in one; year: it has one in it
    """
    chosen, reader = benchmarks.load(dataset, questions), asking.reader(profile, mode)
    run, asked = retrieve.bm25(chosen.questions, chosen.pool, k=k), chosen.questions[:few]
    shown = {each.id: retrieve.ranking(run[each.id]) for each in asked}
    records = [score.Record.of(each, [chosen.passages[name] for name in shown[each.id]]) for each in asked]
    rows = score.lent(records, reader=reader, mode=mode, settings=Settings(**prompts)).rename(columns={"question": "id"})
    kinds, gold = {"no passage": "none", "all passages": "all"}, {(each.id, passage.id) for each in asked for passage in each.gold}
    rows["condition"] = [kinds.get(what) or str(shown[name].index(what) + 1) for name, what in zip(rows["id"], rows["shown"], strict=True)]
    stands = rows["source"].where(rows["condition"] == "all", rows["shown"])
    rows["gold"] = [int(pair in gold) for pair in zip(rows["id"], stands, strict=True)]
    rows["held"], rows["year"] = rows["source"].notna().astype(int), rows["reply"].str.contains(YEAR).astype(int)
    return rows[["id", "condition", "gold", "right", "held", "year", "said_before"]], asking.facts(reader=reader) | chosen.facts
