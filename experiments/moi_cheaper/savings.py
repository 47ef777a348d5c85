"""MoI made cheaper: fewer orders, shorter orders, another agent. What each way costs and how it ranks.

sets = proposed(ids, 5, prefix=3, lengths=lengths)
table = saliencies(reader, questions, shown, sets, prompt=prompt, prior=False)     # experiments.moi_position.positions
ranked(table, size=5, positions={3: a})                                            # one ranking per question and way
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from experiments.moi_cheaper.preference import Preference, Student
from experiments.moi_position.permutations import ALONE, CYCLIC, FULL, PRUNED, SHORT, Orders, Shown, label, parse
from experiments.moi_position.position_benchmarks import benchmark_passages
from experiments.moi_position.position_fits import fitted, pooled_position, problems
from experiments.moi_position.positions import answered, question_context, saliencies
from rag_utils import moi
from rag_utils.corpora import manifest
from rag_utils.data import Question
from rag_utils.engine.tree import prefix_tree, size
from rag_utils.lm import LanguageModel
from rag_utils.prompts import Prompt
from rag_utils.retrieve import Encoder

VARIABLE = "cyclic variable"
RETRIEVER = "retriever"
WAYS = {  # name -> (set of orders, how utilities are found from their scores)
    "3N random": (FULL, "fit"),
    "N cyclic": (CYCLIC, "fit"),
    "fixed": (SHORT, "fit"),
    "variable": (VARIABLE, "fit"),
    "3N pruned": (PRUNED, "fit"),
    "fixed calibrated": (SHORT, "calibrated"),
    "variable calibrated": (VARIABLE, "calibrated"),
    "QG": (ALONE, "alone"),
}
PRINTED = ("3N random", "N cyclic", "fixed", "variable")  # the ways of the paper's Table 6


def proposed(
    ids: Sequence[str], n: int, *, prefix: int, lengths: Mapping[str, int], per_passage: int = 3, seed: int = 0
) -> dict[str, Orders]:
    """The sets of orders of Table 6, by name: random, random pruned, cyclic, pruned to one length, pruned to each question's length, alone.

    ids         : questions; each has random orders of its own, drawn from the seed and its place
    n           : passages of a question
    prefix      : passages that a pruned order shows
    lengths     : per question id how many passages its "cyclic variable" orders show, see `moi.prefix_length`
    per_passage : random orders per passage; the pruned random ones begin like the full ones, so that both together cost little more
    source      : MoI, sections 3.2 and 3.3.1
    """
    sets: dict[str, Orders] = {name: {} for name in (FULL, PRUNED, CYCLIC, SHORT, VARIABLE, ALONE)}
    for name, orders in random_orders(ids, n, per_passage=per_passage, seed=seed).items():
        sets[FULL][name], sets[PRUNED][name] = orders, orders[:, :prefix]
        for one, length in ((CYCLIC, n), (SHORT, prefix), (VARIABLE, lengths[name]), (ALONE, 1)):
            sets[one][name] = moi.cyclic_orders(n, prefix=length)
    return sets


def random_orders(ids: Sequence[str], n: int, *, per_passage: int = 3, seed: int = 0) -> dict[str, np.ndarray]:
    """Full random orders of each question, `per_passage` times its passages, from the seed and its place in `ids`."""
    return {name: moi.random_orders(n, per_passage * n, rng=[seed, number]) for number, name in enumerate(ids)}


def pruned_sets(orders: Orders, lengths: Sequence[int]) -> dict[str, Orders]:
    """The same orders cut to each of the lengths, under the names "pruned 2", "pruned 3", ..."""
    return {f"{PRUNED} {length}": {name: some[:, :length] for name, some in orders.items()} for length in lengths}


def calibration(table: pd.DataFrame, lengths: Sequence[int], *, n: int) -> dict[int, np.ndarray]:
    """One position for orders of each length, from the scores of `pruned_sets`, all questions together.

    raises : ValueError if the table has no such orders, or a length is not below n, where the scores leave the position open
    """
    if max(lengths) >= n:
        raise ValueError(f"lengths must be below the number of passages, {n}; got {max(lengths)}")
    return {length: pooled_position(list(problems(table, f"{PRUNED} {length}").values()), n)[0] for length in lengths}


def ranked(
    table: pd.DataFrame, *, n: int, positions: Mapping[int, np.ndarray] | None = None, starts: int = 4, seed: int = 0
) -> pd.DataFrame:
    """The ranking of each question by each of WAYS whose orders are in the table.

    table     : as `positions.saliencies` returns it, the orders "alone" among them; the factor of the passages is left out
    positions : by length of the orders, for the calibrated ways, which are left out without it
    returns   : columns id, condition (the way), order (the ranking) and identified (0 or 1; by calibration 1 where the position settles
                all utilities. Where it does not, the retriever's order is taken)
    """
    there, found = set(table["condition"]), []
    for way, (name, how) in WAYS.items():
        if name not in there or (how == "calibrated" and positions is None):
            continue
        if how == "fit":
            part = fitted(table, name, size=n, starts=starts, seed=seed)
            found.append(part[["id", "order", "identified"]].assign(condition=way))
            continue
        for one, (orders, scores) in problems(table, name).items():
            utility, known = _utility(orders, scores, n, how, positions)
            row = {"id": one, "order": label(moi.rerank(utility)), "identified": int(known), "condition": way}
            found.append(pd.DataFrame([row]))
    return pd.concat(found, ignore_index=True)[["id", "condition", "order", "identified"]]


def by_score(scores: pd.DataFrame) -> pd.DataFrame:
    """The ranking of each question by given scores of its passages.

    scores  : columns id, condition (who gives them), rank (number of the passage) and score
    returns : columns id, condition, order; equal scores in the retriever's order
    """
    rows = [
        {"id": name, "condition": way, "order": label(moi.rerank(part.sort_values("rank")["score"].to_numpy()))}
        for (way, name), part in scores.groupby(["condition", "id"], sort=False)
    ]
    return pd.DataFrame(rows)


def as_orders(rows: pd.DataFrame) -> dict[str, dict[str, list[list[int]]]]:
    """Rankings as `positions.answered` takes them: condition -> id -> one order in a list."""
    return {
        way: {row.id: [parse(row.order)] for row in part.itertuples()}
        for way, part in rows.groupby("condition", sort=False)
    }


def costs(
    reader: LanguageModel, questions: Sequence[Question], shown: Shown, sets: Mapping[str, Orders], *, prompt: Prompt
) -> pd.DataFrame:
    """What reading the orders of each set costs, without running the model.

    returns : columns id, condition (the set), calls (orders), tokens (of all calls, each read from its beginning) and distinct (tokens
              that are left if calls which begin alike share the work)
    source  : the paper counts in per cent of the cost of 3 N full orders and does not say what a cost is
    """
    by_id, rows = {question.id: question for question in questions}, []
    for condition, orders in sets.items():
        for name, some in orders.items():
            asked = reader.encode(" " + by_id[name].text, context=False)
            contexts = [question_context(prompt, [shown[name][place] for place in order]) for order in some]
            texts = [[*reader.encode(context), *asked] for context in contexts]
            row = {"id": name, "condition": condition, "calls": len(texts), "tokens": sum(map(len, texts))}
            rows.append(
                row | {"distinct": size(prefix_tree([list(text) for text in dict.fromkeys(map(tuple, texts))]))}
            )
    return pd.DataFrame(rows)


def vectors(encode: Encoder, questions: Sequence[Question], shown: Shown) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Per question id the embedding of the question, (d,), and of its passages, (N, d); every distinct text is embedded once."""
    texts = [question.text for question in questions]
    texts += [passage.text for question in questions for passage in shown[question.id]]
    distinct = list(dict.fromkeys(texts))
    at = dict(zip(distinct, np.asarray(encode(distinct)), strict=True))
    return {q.id: (at[q.text], np.array([at[passage.text] for passage in shown[q.id]])) for q in questions}


def passage_scores(embedded: Mapping[str, tuple[np.ndarray, np.ndarray]], student: Student) -> pd.DataFrame:
    """What the encoder's own cosine and a student make of each passage, from `vectors`.

    returns : columns id, condition ("cosine" or "student"), rank (number of the passage) and score
    """
    rows = [
        {"id": name, "condition": who, "rank": place, "score": float(score)}
        for name, (asked, passages) in embedded.items()
        for who, scores in (("cosine", passages @ asked), ("student", student.scores(asked, passages)))
        for place, score in enumerate(scores)
    ]
    return pd.DataFrame(rows)


def preferences(
    table: pd.DataFrame, condition: str, embedded: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> list[Preference]:
    """What a teacher's scores under one name say, for a student that sees embeddings: one `Preference` per question."""
    found = problems(table, condition)
    return [Preference(*embedded[name], orders, scores) for name, (orders, scores) in found.items()]


def benchmark(
    reader: LanguageModel,
    agent: LanguageModel,
    name: str,
    n: int,
    *,
    prompt: Prompt,
    positions: Mapping[str, Mapping[int, np.ndarray]],
    score,
    passages: int = 5,
    prefix: int = 3,
    max_new_tokens: int = 24,
    seed: int = 0,
) -> tuple[pd.DataFrame, dict]:
    """Every way on a public benchmark: rankings, what they cost, and the reader's answers, as numbers per question.

    agent     : another model that scores the orders; its ways are called "agent WAY"
    positions : "reader" and "agent", each by length of the orders
    score     : (questions, shown) -> rows as `by_score` takes them
    returns   : (rows id, condition, run, order, gold, the answer's scores, unparsable, identified, calls, tokens, distinct; what they were
                measured with). The rows "cyclic" are the answers to the cyclic orders
    """
    questions, shown = benchmark_passages(name, n, passages, seed=seed)
    ids = [question.id for question in questions]
    sets = proposed(ids, passages, prefix=prefix, lengths=dict.fromkeys(ids, prefix), seed=seed)
    del sets[VARIABLE]  # BM25 scores of a handful of paragraphs are on another scale
    few = {one: sets[one] for one in (PRUNED, SHORT, ALONE)}
    rankings = []
    for who, model, some in (("reader", reader, sets), ("agent", agent, few)):
        table = saliencies(model, questions, shown, some, prompt=prompt, prior=False)
        rows = ranked(table, n=passages, positions=positions[who], seed=seed)
        rankings.append(rows if who == "reader" else rows.assign(condition="agent " + rows["condition"]))
    rankings = pd.concat([*rankings, by_score(score(questions, shown))], ignore_index=True)
    asked = as_orders(rankings)
    asked |= {RETRIEVER: {one: [list(range(passages))] for one in ids}, CYCLIC: sets[CYCLIC]}
    said = answered(reader, questions, shown, asked, prompt=prompt, max_new_tokens=max_new_tokens).drop(columns="reply")
    price = costs(reader, questions, shown, sets, prompt=prompt)
    said = said.merge(rankings.drop(columns="order"), on=["id", "condition"], how="left")
    said = said.assign(set=said["condition"].map(set_of)).merge(
        price.rename(columns={"condition": "set"}), on=["id", "set"], how="left"
    )
    entry = manifest.entries()[name]
    facts = {"reader": reader.name, "fingerprint": reader.fingerprint, "agent": agent.fingerprint}
    facts |= {"prompts": {prompt.name: prompt.digest}, "questions": len(questions), "seed": seed, "prefix": prefix}
    return said.drop(columns="set"), facts | {"source": entry.source, "sha256": entry.sha256}


def set_of(condition: str) -> str | None:
    """The set of orders behind a way, None where no order was read to find it."""
    return WAYS.get(condition.removeprefix("agent "), (None,))[0]


def _utility(orders, scores, n: int, how: str, positions) -> tuple[np.ndarray, bool]:
    """Utilities of the passages of one question, and whether the scores settle them."""
    if how == ALONE:
        return scores[np.argsort(orders[:, 0])], True
    try:
        return moi.solve_utility(orders, scores, n, positions[orders.shape[1]]), True
    except ValueError:
        return np.zeros(n), False
