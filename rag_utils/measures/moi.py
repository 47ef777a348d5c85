"""MoI asked of a reader: passages in several orders, how likely each order makes the question, and what passages and places are worth.

    orders = propose(ids, 5, {"pruned": 3, "cyclic": 5}, drawn=12)         # by name, per question id
    table = saliencies(reader, questions, shown, orders, prompt=prompt)    # one row per question, set of orders and order
    fits = fitted(table, "pruned", size=5)                                 # moi.fit to each question: its ranking and its position
    said = answered(reader, questions, shown, {"MoI": ranked(fits)}, prompt=prompt)

Passages of a question are numbered 0 .. N - 1 in the retriever's order, and an order is written "2-0-1".
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from rag_utils import answers, moi
from rag_utils.base import checks
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel
from rag_utils.measures import by_id
from rag_utils.measures.erag import SCORES
from rag_utils.prompts import Prompt
from rag_utils.retrieve import Run, ranking

Shown = Mapping[str, Sequence[Passage]]  # question id -> its passages, in the retriever's order
Orders = Mapping[str, Sequence[Sequence[int]]]  # question id -> orders, which may be of different lengths
Sets = Mapping[str, Orders]  # sets of orders by name; in a table the name is the condition
Problem = tuple[np.ndarray, np.ndarray]  # orders (m, L) and scores (m,) of one question, as `moi.fit` takes them
ALONE, PRUNED, FULL = "alone", "pruned", "full"
CYCLIC, SHORT, VARIABLE = "cyclic", "cyclic pruned", "cyclic variable"


def candidates(questions: Sequence[Question], run: Run, passages: Mapping[str, Passage], *, size: int) -> Shown:
    """All gold passages and the best others (ours), in the order of the run, then of their ids; ValueError if `size` are not there."""
    shown = {}
    for question in questions:
        ranked = list(dict.fromkeys([*ranking(run[question.id]), *sorted(passages)]))
        gold = {passage.id for passage in question.gold} & set(passages)
        kept = gold | set([name for name in ranked if name not in gold][: size - len(gold)])
        if len(kept) != size:
            raise ValueError(f"question {question.id} has {len(kept)} passages to show, wanted {size}")
        shown[question.id] = tuple(passages[name] for name in ranked if name in kept)
    return shown


def gold_places(question: Question, shown: Shown) -> list[int]:
    """Numbers of the question's gold passages among those shown."""
    wanted = {passage.id for passage in question.gold}
    return [number for number, passage in enumerate(shown[question.id]) if passage.id in wanted]


def propose(ids: Sequence[str], size: int, lengths: Mapping[str, int | Mapping[str, int]], *, drawn=0, seed=0) -> Sets:
    """Sets of orders of each question, by name: MoI, sections 3.2 and 3.3.1.

    lengths : name -> how many passages an order shows, one number or one per question id. Names that begin with "pruned" or "full" are
              random orders, those with "cyclic" and "alone" cyclic ones. Random sets begin alike, so that all together cost little more
    drawn   : random orders of a question, its own, from the seed and its place in `ids`
    """
    sets = {}
    for name, length in lengths.items():
        kind = checks.one_of("set of orders", name.split(" ")[0], (ALONE, PRUNED, FULL, CYCLIC))
        cut = length if isinstance(length, Mapping) else dict.fromkeys(ids, length)
        if kind in (ALONE, CYCLIC):
            sets[name] = {key: moi.cyclic_orders(size, prefix=cut[key]) for key in ids}
        else:
            seeded = {key: [seed, number] for number, key in enumerate(ids)}
            sets[name] = {key: moi.random_orders(size, drawn, prefix=cut[key], rng=rng) for key, rng in seeded.items()}
    return sets


def label(order: Sequence[int]) -> str:
    """An order as text, such as "2-0-1"."""
    return "-".join(map(str, order))


def parse(text: str) -> list[int]:
    """The order that `label` wrote; ValueError if the text is none.

    >>> parse("2-0-1")
    [2, 0, 1]
    """
    if not isinstance(text, str) or not re.fullmatch(r"\d+(-\d+)*", text):
        raise ValueError(f"wanted an order such as '2-0-1', got {text!r}")
    return [int(place) for place in text.split("-")]


def ranked(rows: pd.DataFrame) -> dict[str, list[list[int]]]:
    """Per question id its order, in a list as `answered` takes it, from the columns id and order."""
    return {name: [parse(order)] for name, order in zip(rows["id"], rows["order"], strict=True)}


def saliencies(
    reader: LanguageModel, questions: Sequence[Question], shown: Shown, sets: Sets, *, prompt: Prompt, prior=True
) -> pd.DataFrame:
    """How likely each order makes the question, and how likely its passages are; all asked in one call.

    prior   : whether to look at the passages too; then each has its log-likelihood given those before it
    returns : columns id, condition (the set), run (0 .. in the set), order; the factors of MoI's eq. 3, query and passages (nats, sums over
              tokens; NaN without `prior`); and information (sum of p log p over the question's tokens, for LongLLMLingua)
    """
    rows, pairs = [], []
    for row, question, passages in _asked(questions, shown, sets):
        lines = [f"Document: {' '.join(passage.text.split())}\n" for passage in passages] if prior else []
        rows.append((row, len(lines)))
        pairs.append((question_context(prompt, passages), " " + question.text))
        pairs += [("".join(lines[:place]), line) for place, line in enumerate(lines)]
    nats = iter(reader.log_likelihood(*map(list, zip(*pairs, strict=True))))
    for row, steps in rows:
        query = next(nats)
        row |= {"query": query.sum(), "passages": sum(next(nats).sum() for _ in range(steps)) if prior else np.nan}
        row["information"] = float(np.sum(np.exp(query) * query))
    return pd.DataFrame(row for row, _ in rows)


def question_context(prompt: Prompt, passages: Sequence[Passage]) -> str:
    """The prompt up to where the question begins; ValueError for a chat message, or without its documents before the question."""
    before, slot, _ = prompt.template.partition("$question")
    if prompt.chat or not slot or "$documents" not in before:
        raise ValueError(f"prompt {prompt.name!r} must have $documents before $question and be no chat message")
    return Prompt(prompt.name, before, chat=False).fill(documents=[passage.text for passage in passages]).rstrip(" ")


def answered(
    reader: LanguageModel, questions: Sequence[Question], shown: Shown, sets: Sets, *, prompt: Prompt, max_new_tokens=24
) -> pd.DataFrame:
    """The reader's greedy answer to each order, and what it is worth.

    returns : columns id, condition, run, order, gold (reciprocal rank of the first gold passage), reply, unparsable, and each of SCORES
    """
    rows, texts = [], []
    for row, question, passages in _asked(questions, shown, sets):
        gold = {passage.id for passage in question.gold}
        ranks = [1 / place for place, passage in enumerate(passages, 1) if passage.id in gold]
        rows.append((row | {"gold": max(ranks, default=0.0)}, question))
        texts.append(prompt.fill(question=question.text, documents=[passage.text for passage in passages]))
    replies = reader.generate(texts, max_new_tokens=max_new_tokens)
    both = zip(rows, replies, strict=True)
    return pd.DataFrame(row | judged(reply.text.strip(), question) for (row, question), [reply] in both)


def judged(reply: str, question: Question) -> dict:
    """A reply, whether nothing is left of it after normalisation, and its SCORES."""
    scores = {name: float(score(reply, list(question.answers))) for name, score in SCORES.items()}
    return {"reply": reply, "unparsable": int(not answers.normalize(reply))} | scores


def _asked(questions: Sequence[Question], shown: Shown, sets: Sets):
    """Of every order the columns that name it, its question, and the passages as it puts them; ValueError if any of these is missing."""
    asked = by_id(list(dict.fromkeys(questions)))
    for condition, orders in sets.items():
        checks.keyed(f"questions of {condition}", asked, orders), checks.keyed("shown", shown, orders)
        for name, every in orders.items():
            for run, order in enumerate(every):
                row = {"id": name, "condition": condition, "run": run, "order": label(order)}
                yield row, asked[name], [shown[name][place] for place in order]


def problems(table: pd.DataFrame, condition: str, *, prior: bool = False, form: str = "log") -> dict[str, Problem]:
    """Orders and scores of each question under one condition, from the rows of `saliencies`; prior and form as in `moi.saliency`."""
    checks.one_of("condition", condition, table["condition"].unique())
    how = {"prior": prior, "form": form}
    return {
        name: (np.array([*map(parse, part["order"])]), moi.saliency(part["query"], part.get("passages"), **how))
        for name, part in table[table["condition"] == condition].groupby("id", sort=False)
    }


def fitted(table: pd.DataFrame, condition: str, *, size: int, prior=False, sign="free", starts=8, seed=0) -> pd.DataFrame:
    """`moi.fit` to each question: one row each.

    sign    : "pointwise prior" takes the log-likelihood of the question after each passage alone, from the rows "alone"
    returns : columns id, order (the ranking), a1, a2, ... (position coefficients), residual, identified (0 or 1), jacobian (its rank)
              and rankings (how many different ones fitted equally well)
    """
    alone, rows = problems(table, ALONE) if sign == "pointwise prior" else {}, []
    for name, (orders, scores) in problems(table, condition, prior=prior).items():
        pointwise = alone[name][1] if alone else None
        fit = moi.fit(orders, scores, size, sign=sign, pointwise=pointwise, starts=starts, rng=seed)
        row = {"id": name, "order": label(moi.rerank(fit.utility))}
        row |= {f"a{place}": float(value) for place, value in enumerate(fit.position, 1)} | {"residual": fit.residual}
        rows.append(row | {"identified": int(fit.identified), "jacobian": fit.rank, "rankings": fit.rankings})
    return pd.DataFrame(rows)


def calibrated(table: pd.DataFrame, condition: str, positions: Mapping[int, np.ndarray], *, size: int) -> pd.DataFrame:
    """The ranking of each question by the utilities that a known position gives to its orders, by `moi.solve_utility`.

    positions : by length of the orders, for instance of `pooled_position` of other questions
    returns   : columns id, order and identified (0 or 1; where the position leaves utilities open the retriever's order is taken)
    """
    rows = []
    for name, (orders, scores) in problems(table, condition).items():
        row = {"id": name, "order": label(range(size)), "identified": 0}
        with suppress(ValueError):
            utility = moi.solve_utility(orders, scores, size, positions[orders.shape[1]])
            row |= {"order": label(moi.rerank(utility)), "identified": 1}
        rows.append(row)
    return pd.DataFrame(rows)


def pooled_position(problems: Sequence[Problem], size: int, *, seed: int = 0) -> tuple[np.ndarray, float]:
    """One position for all questions, each with utilities of its own: (position, root mean square of what is left).

    source : ours, from 4 beginnings; `moi.fit` with passages numbered through finds the same, slower. The problems must be of one shape
    """
    length, left = np.shape(checks.listed("problems", problems)[0][0])[1], partial(_left, problems, size)
    begins = [np.full(length, 1 / length), *np.random.default_rng(seed).dirichlet(np.ones(length), 3)]
    fits = [least_squares(lambda a: left(a)[0], begin, lambda a: left(a)[1], bounds=(0, np.inf)) for begin in begins]
    best = min((fit.x / fit.x.sum() for fit in fits), key=lambda end: left_over(problems, size, end))
    return best, left_over(problems, size, best)


def left_over(problems: Sequence[Problem], size: int, position: np.ndarray) -> float:
    """Root mean square of the scores that this position leaves unexplained, each question with its best utilities."""
    return float(np.sqrt(np.mean(_left(problems, size, np.asarray(position))[0][:-1] ** 2)))


def _left(problems: Sequence[Problem], size: int, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Model minus score of every order, each question with its best utilities, then sum(position) - 1; and the slope (Kaufman's)."""
    shapes = {(np.shape(orders), np.shape(scores)) for orders, scores in problems}
    if len(shapes) != 1:
        raise ValueError(f"problems must be of one shape, got {len(shapes)} shapes: {sorted(shapes)}")
    orders, scores = (np.array(part) for part in zip(*problems, strict=True))
    weights = np.einsum("l,qmln->qmn", position, np.eye(size)[orders])
    inverse = np.linalg.pinv(weights, rcond=1e-7)
    utility = inverse @ scores[:, :, None]
    moved = np.take_along_axis(utility[:, None, :, 0], orders, axis=2)
    moved -= weights @ (inverse @ moved)
    apart = (weights @ utility)[:, :, 0].ravel() - scores.ravel()
    return np.append(apart, position.sum() - 1), np.vstack([moved.reshape(-1, len(position)), np.ones(len(position))])
