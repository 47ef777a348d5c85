"""SePer's findings: what lists are worth by how many passages, found by whom, reranked how, and found again after a first reply.

Fixed before the first call: k = 1, 5, 10; ten to rerank; three rounds; all of the corpus, of the others what chapter 9 has, of NQ 150 too.
"""

from dataclasses import replace

from experiments import asking, benchmarks
from experiments.table import kept
from rag_utils import retrieve
from rag_utils.moi import rerank
from rag_utils.score.in_words import listwise
from rag_utils.score.lists import cut, found_again, reranked, worth
from rag_utils.score.measured import Settings
from rag_utils.score.records import Record

LENGTHS, K = (1, 5, 10), 5
COLUMNS = ["id", "condition", "before", "seper", "right_before", "right", "recall", "tokens", "confidence"]


def lists(*, mode, profile, prompts, dataset, questions, ways, seed, few=None):
    """COLUMNS of each question under each list that `ways` name; recall: share of the gold passages in the list; and facts.

    ways : of "BM25" and "dense" (each with LENGTHS), "BM25 5", "reranked" (the ten of BM25 by the question's likelihood, K of them and 1),
           "MoI" (BM25's K by the utilities of chapter 9), and "again" (ITER-RETGEN: K for the question and the last reply, rounds 2 and 3)
    """
    chosen, reader, made = benchmarks.load(dataset, questions), asking.reader(profile, mode), {}
    asked, how = chosen.questions[:few], {"reader": reader, "settings": Settings(judge="embedded", **prompts)}
    for way, search in (("dense", retrieve.dense), ("BM25", retrieve.bm25)):
        best = _best(chosen, search, k=max(LENGTHS))
        ten = [Record.of(each, best[each.id]) for each in asked]
        made |= {f"{way} {k}": cut(ten, k) for k in LENGTHS if {way, f"{way} {k}"} & {*ways}}
    if "reranked" in ways:
        made |= {f"reranked {k}": cut(reranked(ten, **how), k) for k in (1, K)}
    if "MoI" in ways:
        rows = kept("09_five_lenses", dataset).rows.dropna(subset=["moi"])
        order = rows.groupby("id")["moi"].apply(lambda own: rerank(own.to_numpy()).tolist())
        made["MoI 5"] = [Record.of(each, [best[each.id][place] for place in order[each.id]]) for each in asked if each.id in order]
    for turn in (2, 3) if "again" in ways else ():
        last = made.get(f"round {turn - 1}", cut(ten, K))
        made[f"round {turn}"] = found_again(last, lambda texts: _best(chosen, retrieve.bm25, texts, k=K), **how)
    facts = asking.facts(reader=reader, judge=asking.judge("embedded", mode=mode)) | chosen.facts
    return _worth(made, asked, seed=seed, mode=mode, **how), facts | {"questions": len(asked)}


def in_words(*, mode, profile, asker, prompts, dataset, questions, seed, few=None):
    """COLUMNS of the first 1 and K of BM25's ten as `asker` orders them when it is shown all (prompt "order"); moved: places changed."""
    chosen, reader, ranks = benchmarks.load(dataset, questions), asking.reader(profile, mode), asking.reader(asker, mode)
    asked, best = chosen.questions[:few], _best(chosen, retrieve.bm25, k=max(LENGTHS))
    ten = [Record.of(each, best[each.id]) for each in asked]
    new = listwise(ten, reader=ranks, prompt=prompts["order"])
    moved = {a.id: sum(p != q for p, q in zip(a.passages, b.passages, strict=True)) for a, b in zip(ten, new, strict=True)}
    how = {"reader": reader, "settings": Settings(judge="embedded", closed=prompts["closed"], read=prompts["read"])}
    table = _worth({f"listwise {k}": cut(new, k) for k in (1, K)}, asked, seed=seed, mode=mode, **how)
    facts = asking.facts(reader=reader, asker=ranks, judge=asking.judge("embedded", mode=mode)) | chosen.facts
    return table.assign(moved=table["id"].map(moved)), facts | {"questions": len(asked)}


def _best(chosen, search, texts=(), *, k):
    """Question id -> the k passages that are found by the text, of ids that are not in `texts` by the question."""
    run = search([replace(each, text=dict(texts).get(each.id, each.text)) for each in chosen.questions], chosen.pool, k=k)
    return {each.id: [chosen.passages[name] for name in retrieve.ranking(run[each.id])] for each in chosen.questions}


def _worth(made, asked, **how):
    table = worth(made, **how).rename(columns={"question": "id", "list": "condition"})
    gold = {each.id: {passage.id for passage in each.gold} for each in asked}
    held = {(r.id, way): len(gold[r.id] & {p.id for p in r.passages}) / len(gold[r.id]) for way, own in made.items() for r in own}
    return table.assign(recall=[held[pair] for pair in zip(table["id"], table["condition"], strict=True)])[COLUMNS]
