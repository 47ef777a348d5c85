"""Orders of passages on public benchmarks: the questions, what they are shown, and the measurement as numbers per question."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from experiments.benchmarks import sample
from experiments.moi_position.permutations import (
    ALONE,
    CYCLIC,
    PRUNED,
    Shown,
    gold_places,
    propose,
    reversed_orders,
    with_gold,
)
from experiments.moi_position.position_fits import rankings
from experiments.moi_position.positions import answered, saliencies, votes
from rag_utils import data, moi, retrieve
from rag_utils.corpora import manifest, rows
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel
from rag_utils.prompts import Prompt
from rag_utils.retrieve import ranking


class _KeyValues(rows.Row):
    ordered_kv_records: rows.Some[list[rows.Text]]
    key: rows.Text
    value: rows.Text


def key_values(n: int, size: int, *, seed: int = 0) -> tuple[list[Question], Shown]:
    """Questions for the value of a key among `size` keys, the wanted one at a random place.

    source : the key-value retrieval of Liu et al. 2024; each record becomes a passage of its own
    """
    questions, shown = [], {}
    for number, (where, row) in enumerate(rows.lines(manifest.locate("kv_retrieval"))):
        if number == n:
            break
        item = rows.check(_KeyValues, row, where)
        rng = np.random.default_rng([seed, number])
        records = [record for record in item.ordered_kv_records if record[0] != item.key][: size - 1]
        name = data.question_id(item.key)
        gold, *others = [
            Passage(f"{name}-{i}", "", f"Key {key} has the value {value}.")
            for i, (key, value) in enumerate([(item.key, item.value), *records])
        ]
        text = f"which value has key {item.key}"
        questions.append(Question(name, text, (item.value,), "kv_retrieval", (gold,), tuple(others)))
        shown[name] = tuple(np.array([gold, *others], dtype=object)[rng.permutation(size)])
    return questions, shown


def benchmark_passages(name: str, n: int, size: int, *, seed: int = 0) -> tuple[list[Question], Shown]:
    """The first questions of a benchmark and what they are shown: their own paragraphs for HotpotQA, gold and hard negatives for NQ.

    returns : questions with `size` passages each in BM25's order. HotpotQA's with more paragraphs of their own are left out, those with
              fewer get hard negatives too
    """
    if name == "kv_retrieval":
        return key_values(n, size, seed=seed)
    if name == "hotpotqa":
        every = sample(name, len(data.load(name)))
        questions = [q for q in every if len(retrieve.own_passages(q)) <= size][:n]
        own = filled_up(questions, data.passages(name), size)
    else:
        questions = sample(name, n)
        negatives = retrieve.hard_negatives(questions, data.passages(name), k=size - 1)
        own = {q.id: (*q.gold[:1], *negatives[q.id]) for q in questions}
    run = retrieve.bm25(questions, lambda question: own[question.id], k=size)
    shown = {}
    for question in questions:
        by_id = {passage.id: passage for passage in own[question.id]}
        ranked = ranking(run[question.id])
        rest = sorted(set(by_id) - set(ranked))
        shown[question.id] = tuple(by_id[one] for one in [*ranked, *rest])
    return questions, shown


def filled_up(questions: Sequence[Question], pool: Sequence[Passage], size: int) -> dict[str, tuple[Passage, ...]]:
    """The passages that come with each question and, where these are fewer than `size`, BM25's best of the pool that hold no answer.

    returns : per question id `size` passages, its own first
    raises  : ValueError if the pool has too few others, or as `retrieve.hard_negatives`
    source  : ours. HotpotQA's distractor setting has ten paragraphs a question, our copy of it five
    """
    own = {question.id: retrieve.own_passages(question) for question in questions}
    short = [question for question in questions if len(own[question.id]) < size]
    if not short:
        return own

    def others(question: Question) -> list[Passage]:
        known = {passage.id for passage in own[question.id]}
        return [passage for passage in pool if passage.id not in known]

    most = size - min(len(own[question.id]) for question in short)
    negatives = retrieve.hard_negatives(short, others, k=most)
    return {name: (*passages, *negatives.get(name, ()))[:size] for name, passages in own.items()}


def benchmark(
    reader: LanguageModel,
    name: str,
    n: int,
    *,
    prompt: Prompt,
    size: int = 5,
    prefix: int = 3,
    orders: int = 12,
    answer: bool = False,
    max_new_tokens: int = 24,
    seed: int = 0,
) -> tuple[pd.DataFrame, dict]:
    """Saliencies on a public benchmark and, with `answer`, the answers to each method's order: numbers per question only.

    returns : (rows as of `saliencies` and of `answered`, the latter with condition "answer METHOD" and without the reply; what they were
              measured with). The answers to cyclic orders stand for the average order
    """
    questions, shown = benchmark_passages(name, n, size, seed=seed)
    ids = [question.id for question in questions]
    sets = propose(ids, size, (ALONE, PRUNED), prefix=prefix, orders=orders, seed=seed)
    table = saliencies(reader, questions, shown, sets, prompt=prompt)
    gold = {question.id: gold_places(question, shown) for question in questions}
    if answer:
        ranked = rankings(table, size=size, seed=seed)
        ranked |= {f"{way}, reversed": reversed_orders(ranked[way]) for way in ("retriever", "MoI")}
        for where in ("first", "middle", "last"):
            ranked[f"gold {where}"] = {one: [with_gold(size, places, where)] for one, places in gold.items()}
        ranked[CYCLIC] = {one: moi.cyclic_orders(size).tolist() for one in gold}
        said = answered(reader, questions, shown, ranked, prompt=prompt, max_new_tokens=max_new_tokens)
        said = pd.concat([said, votes(said, questions)], ignore_index=True).drop(columns="reply")
        said["condition"] = "answer " + said["condition"].str.replace(",", "")
        table = pd.concat([table, said], ignore_index=True)
    entry = manifest.entries()[name]
    facts = {"reader": reader.name, "fingerprint": reader.fingerprint, "prompts": {prompt.name: prompt.digest}}
    facts |= {"size": size, "prefix": prefix, "orders": orders, "seed": seed, "questions": len(questions)}
    return table, facts | {"source": entry.source, "sha256": entry.sha256}
