"""Writes tests/snapshots.json: what the book's own functions say of this lab's data, and what they say with the usual mistakes.

usage: python labs/moi/make_snapshots.py
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from rag_utils import moi
from rag_utils.base.cache import ROOT
from rag_utils.measures import moi as measure

LAB = Path(__file__).resolve().parent
FITS = ROOT / "data" / "results" / "07_moi_position" / "fits.csv"
DECIMALS, SIZE = 6, 5
AVERAGE, PRUNED = "average order", "3N pruned orders"


def snapshots() -> dict:
    [salt], corpus, cheaper = questions("salt"), questions("corpus"), questions("cheaper")
    numbers = {"salt": salt_fit(salt), "corpus": pooled(corpus), "freedom": freedoms(corpus)}
    numbers |= {"rankings": rankings(corpus), "measured": measurements(cheaper)}
    return json.loads(json.dumps(numbers), parse_float=lambda text: round(float(text), DECIMALS))


def questions(name: str) -> list[dict]:
    return json.loads((LAB / "data" / f"{name}.json").read_text(encoding="utf-8"))["questions"]


def problem(part: dict) -> tuple[np.ndarray, np.ndarray]:
    """Orders and scores, the passages' factor left out."""
    return np.array(part["orders"]), moi.saliency(part["query"], prior=False)


def salt_fit(salt: dict) -> dict[str, list]:
    """Position and utilities of q031 by `moi.fit`, and the same with mistakes."""
    orders, scores = problem(salt)
    fit = moi.fit(orders, scores, SIZE)
    level = np.full(orders.shape[1], 1 / orders.shape[1])
    means = [scores[(orders == passage).any(axis=1)].mean() for passage in range(SIZE)]
    return {
        "position": fit.position.tolist(),
        "utility": fit.utility.tolist(),
        "level": moi.solve_utility(orders, scores, SIZE, level).tolist(),
        "means": [float(value) for value in means],
        "ranking": moi.rerank(fit.utility).tolist(),
        "residual": fit.residual,
    }


def pooled(corpus: list[dict]) -> dict[str, list]:
    """One position for all questions, from their pruned orders."""
    position, left = measure.pooled_position([problem(question["pruned"]) for question in corpus], SIZE)
    return {"position": position.tolist(), "residual": left}


def freedoms(corpus: list[dict]) -> dict[str, int]:
    """What the orders of the first question leave open, at a position and utilities that stand in the tests."""
    first, utility = corpus[0], np.array([0.1, 0.9, 0.4, 0.3, 0.2])
    positions = {5: np.array([0.3, 0.25, 0.2, 0.15, 0.1]), 3: np.array([0.5, 0.3, 0.2])}
    left = {}
    for name in ("pruned", "full", "cyclic", "cyclic pruned"):
        orders = np.array(first[name]["orders"])
        length = orders.shape[1]
        left[name] = SIZE + length - 1 - moi.jacobian_rank(orders, positions[length], utility)
    return left


def rankings(corpus: list[dict]) -> list[str]:
    """The ranking by utility of each question that chapter 7 kept."""
    fits = pd.read_csv(FITS)
    fits = fits[(fits["condition"] == "companion") & (fits["run"] == 0)].set_index("id")
    return fits.loc[[question["id"] for question in corpus], "order"].tolist()


def measurements(rows: list[dict]) -> dict[str, dict]:
    """The average order and the ranking of pruned orders, and what they come out as with mistakes."""
    return {
        AVERAGE: averaged(rows, AVERAGE),
        PRUNED: averaged(rows, PRUNED),
        "best": averaged(rows, AVERAGE, of=np.max),
        "first order": averaged(rows, AVERAGE, of=lambda values: values[0]),
    }


def averaged(rows: list[dict], way: str, of=np.mean) -> dict[str, float]:
    right, rank = [], []
    for question in rows:
        orders = question["orders"][way]
        right.append(of([question["right"][measure.label(order)] for order in orders]))
        rank.append(of([1 / (1 + min(map(order.index, question["gold"]))) for order in orders]))
    return {"right": float(np.mean(right)), "rank": float(np.mean(rank))}


if __name__ == "__main__":
    (LAB / "tests" / "snapshots.json").write_text(json.dumps(snapshots(), indent=1) + "\n", encoding="utf-8")
