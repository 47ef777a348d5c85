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
from rag_utils.engine import tree
from rag_utils.lm import LanguageModel
from rag_utils.measures import moi as measure
from rag_utils.measures.moi import ALONE, CYCLIC, FULL, PRUNED, SHORT, VARIABLE, Sets, Shown
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
) -> Sets:
    """The sets of orders of MoI's Table 6 (sections 3.2 and 3.3.1), by name; of random orders there are 3 N.

    lengths : per question id how many passages its "cyclic variable" orders show, see `moi.prefix_length`; None leaves them out
    """
    shown = {FULL: size, PRUNED: prefix, CYCLIC: size, SHORT: prefix, ALONE: 1} | (
        {VARIABLE: lengths} if lengths else {}
    )
    return measure.propose(ids, size, shown, drawn=3 * size, seed=seed)


def calibration(table: pd.DataFrame, lengths: Sequence[int], *, size: int) -> dict[int, np.ndarray]:
    """One position for orders of each length, from the scores of the sets "pruned LENGTH", all questions together.

    raises : ValueError if a length is not below size, where the scores leave the position open
    """
    known = {checks.whole("lengths", n, most=size - 1): measure.problems(table, f"{PRUNED} {n}") for n in lengths}
    return {length: measure.pooled_position(list(scores.values()), size)[0] for length, scores in known.items()}


def rankings(table: pd.DataFrame, positions: Mapping[int, np.ndarray], *, size: int, seed: int = 0) -> pd.DataFrame:
    """The ranking of each question by each of WAYS whose orders are in the table: columns id, condition (the way), order, identified.

    table     : as `measures.moi.saliencies` returns it; the factor of the passages is left out
    positions : by length of the orders, for the calibrated ways
    """
    parts, known = [], {1: np.ones(1), **positions}
    for way, (name, how) in WAYS.items():
        if (table["condition"] == name).any():
            if how == "fit":
                part = measure.fitted(table, name, size=size, starts=4, seed=seed)
            else:
                part = measure.calibrated(table, name, known, size=size)
            parts.append(part.assign(condition=way)[["id", "condition", "order", "identified"]])
    return pd.concat(parts, ignore_index=True)


def by_score(scores: pd.DataFrame) -> pd.DataFrame:
    """Columns id, condition, order: the ranking of each question by scores of its passages, equal ones in the retriever's order.

    scores : columns id, condition (who gives them), rank (number of the passage) and score
    """
    return pd.DataFrame(
        {"id": name, "condition": way, "order": measure.label(moi.rerank(part.sort_values("rank")["score"].to_numpy()))}
        for (way, name), part in scores.groupby(["condition", "id"], sort=False)
    )


def costs(
    reader: LanguageModel, questions: Sequence[Question], shown: Shown, sets: Sets, *, prompt: Prompt
) -> pd.DataFrame:
    """What reading the orders of each set costs, without running the model; the paper does not say what a cost is.

    returns : columns id, condition (the set), calls (orders), tokens (of all calls, each read from its beginning) and distinct (tokens
              that are left if calls which begin alike share the work)
    """
    asked = {question.id: reader.encode(" " + question.text, context=False) for question in questions}
    rows = []
    for condition, orders in sets.items():
        for name, every in orders.items():
            contexts = [measure.question_context(prompt, [shown[name][place] for place in order]) for order in every]
            texts = [(*reader.encode(context), *asked[name]) for context in contexts]
            row = {"id": name, "condition": condition, "calls": len(texts), "tokens": sum(map(len, texts))}
            rows.append(row | {"distinct": tree.size(tree.prefix_tree(list(dict.fromkeys(texts))))})
    return pd.DataFrame(rows)


def set_of(condition: str) -> str | None:
    """The set of orders behind a way, None where no order was read to find it."""
    return WAYS.get(condition.removeprefix("agent "), (None,))[0]
