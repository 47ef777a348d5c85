"""MoI made cheaper: fewer orders, shorter orders, another agent. What each way costs and how it ranks.

sets = proposed(ids, 5, prefix=3, lengths=lengths)
table = saliencies(reader, questions, shown, sets, prompt=prompt, prior=False)     # rag_utils.measures.moi
rankings(table, {3: a}, size=5)                                                    # one ranking per question and way
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rag_utils import moi
from rag_utils.base import checks
from rag_utils.data import Question
from rag_utils.engine.tree import prefix_tree
from rag_utils.engine.tree import size as tree_size
from rag_utils.lm import LanguageModel
from rag_utils.measures import moi as measure
from rag_utils.measures.moi import ALONE, CYCLIC, FULL, PRUNED, SHORT, VARIABLE, Orders, Shown
from rag_utils.prompts import Prompt

RETRIEVER = "retriever"
WAYS = {  # name -> (set of orders, how utilities are found from their scores)
    "3N random": (FULL, "fit"),
    "N cyclic": (CYCLIC, "fit"),
    "fixed": (SHORT, "fit"),
    "variable": (VARIABLE, "fit"),
    "3N pruned": (PRUNED, "fit"),
    "fixed calibrated": (SHORT, "calibrated"),
    "variable calibrated": (VARIABLE, "calibrated"),
    "QG": (ALONE, "calibrated"),
}


def proposed(
    ids: Sequence[str], size: int, *, prefix: int, lengths: Mapping[str, int] | None = None, seed: int = 0
) -> dict[str, Orders]:
    """The sets of orders of Table 6, by name: random, random pruned, cyclic, pruned to one length, pruned to each question's length, alone.

    lengths : per question id how many passages its "cyclic variable" orders show, see `moi.prefix_length`; None leaves them out
    source  : MoI, sections 3.2 and 3.3.1; 3 N random orders
    """
    shown = {FULL: size, PRUNED: prefix, CYCLIC: size, SHORT: prefix, VARIABLE: lengths, ALONE: 1}
    return measure.propose(
        ids, size, {name: n for name, n in shown.items() if n is not None}, drawn=3 * size, seed=seed
    )


def calibration(table: pd.DataFrame, lengths: Sequence[int], *, size: int) -> dict[int, np.ndarray]:
    """One position for orders of each length, from the scores of the sets "pruned LENGTH", all questions together.

    raises : ValueError if a length is not below size, where the scores leave the position open
    """
    lengths = [checks.whole("lengths", length, most=size - 1) for length in lengths]
    return {
        length: measure.pooled_position(list(measure.problems(table, f"{PRUNED} {length}").values()), size)[0]
        for length in lengths
    }


def rankings(table: pd.DataFrame, positions: Mapping[int, np.ndarray], *, size: int, seed: int = 0) -> pd.DataFrame:
    """The ranking of each question by each of WAYS whose orders are in the table.

    table     : as `measures.moi.saliencies` returns it; the factor of the passages is left out
    positions : by length of the orders, for the calibrated ways
    returns   : columns id, condition (the way), order (the ranking) and identified (0 or 1), as `measures.moi.fitted` and `calibrated` say
    """
    parts, known = [], {1: np.ones(1), **positions}
    for way, (name, how) in WAYS.items():
        if (table["condition"] == name).any():
            fits = how == "fit"
            part = (
                measure.fitted(table, name, size=size, starts=4, seed=seed)
                if fits
                else measure.calibrated(table, name, known, size=size)
            )
            parts.append(part.assign(condition=way)[["id", "condition", "order", "identified"]])
    return pd.concat(parts, ignore_index=True)


def by_score(scores: pd.DataFrame) -> pd.DataFrame:
    """The ranking of each question by given scores of its passages.

    scores  : columns id, condition (who gives them), rank (number of the passage) and score
    returns : columns id, condition, order; equal scores in the retriever's order
    """
    return pd.DataFrame(
        {"id": name, "condition": way, "order": measure.label(moi.rerank(part.sort_values("rank")["score"].to_numpy()))}
        for (way, name), part in scores.groupby(["condition", "id"], sort=False)
    )


def costs(
    reader: LanguageModel, questions: Sequence[Question], shown: Shown, sets: Mapping[str, Orders], *, prompt: Prompt
) -> pd.DataFrame:
    """What reading the orders of each set costs, without running the model.

    returns : columns id, condition (the set), calls (orders), tokens (of all calls, each read from its beginning) and distinct (tokens
              that are left if calls which begin alike share the work)
    source  : the paper counts in per cent of the cost of 3 N full orders and does not say what a cost is
    """
    asked = {question.id: reader.encode(" " + question.text, context=False) for question in questions}
    rows = []
    for condition, orders in sets.items():
        for name, every in orders.items():
            contexts = [measure.question_context(prompt, [shown[name][place] for place in order]) for order in every]
            texts = [[*reader.encode(context), *asked[name]] for context in contexts]
            row = {"id": name, "condition": condition, "calls": len(texts), "tokens": sum(map(len, texts))}
            distinct = [list(text) for text in dict.fromkeys(map(tuple, texts))]
            rows.append(row | {"distinct": tree_size(prefix_tree(distinct))})
    return pd.DataFrame(rows)


def set_of(condition: str) -> str | None:
    """The set of orders behind a way, None where no order was read to find it."""
    return WAYS.get(condition.removeprefix("agent "), (None,))[0]
