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
NOISY = np.array([[1, 0], [0, 1], [2, 0], [2, 1], [1, 2]])  # this and its scores are as in tests/test_2_fit.py
NOISY_SCORES = np.array([0.5, 0.2, 0.9, 1.0, 0.6])


def snapshots() -> dict:
    [salt], corpus, cheaper = questions("salt"), questions("corpus"), questions("cheaper")
    numbers = {"salt": salt_fit(salt), "corpus": pooled(corpus), "freedom": freedoms(corpus)}
    numbers |= {"rankings": rankings(corpus), "utilities": utilities(corpus), "measured": measurements(cheaper)}
    numbers |= {"best utility": best_utilities(), "best position": best_positions(), "one round": one_round()}
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
        "one round": alternated(orders, scores, level, SIZE, 1),
        "ranking": moi.rerank(fit.utility).tolist(),
        "residual": fit.residual,
    }


def best_position(orders: np.ndarray, scores: np.ndarray, utility: np.ndarray) -> np.ndarray:
    """The best position that sums to 1, for these utilities, by Lagrange's multiplier; the lab finds it by elimination."""
    shown = utility[orders]
    ones = np.ones((1, shown.shape[1]))
    conditions = np.block([[shown.T @ shown, ones.T], [ones, np.zeros((1, 1))]])
    return np.linalg.solve(conditions, np.append(shown.T @ scores, 1.0))[:-1]


def alternated(orders: np.ndarray, scores: np.ndarray, start, n: int, rounds: int) -> dict[str, list]:
    """Position and utilities by alternating least squares."""
    position = np.array(start)
    for _ in range(rounds):
        position = best_position(orders, scores, moi.solve_utility(orders, scores, n, position))
    return {"position": position.tolist(), "utility": moi.solve_utility(orders, scores, n, position).tolist()}


def best_utilities() -> dict[str, list]:
    """Utilities of five noisy orders by `moi.solve_utility`, and the same with mistakes."""
    orders, scores, position = NOISY, NOISY_SCORES, [0.75, 0.25]
    matrix = np.array([[1, 3, 0], [3, 1, 0], [1, 0, 3], [0, 1, 3], [0, 3, 1]]) / 4
    sums, constant = matrix.T @ scores, np.hstack([matrix, np.ones((len(matrix), 1))])
    values = {
        "right": moi.solve_utility(orders, scores, 3, position),
        "first orders": moi.solve_utility(orders[:3], scores[:3], 3, position),
        "ridge": np.linalg.solve(matrix.T @ matrix + np.eye(3), sums),
        "weighted means": sums / matrix.sum(axis=0),
        "one by one": sums / (matrix**2).sum(axis=0),
        "mean subtracted": moi.solve_utility(orders, scores - scores.mean(), 3, position),
        "with constant": np.linalg.lstsq(constant, scores, rcond=None)[0][:-1],
    }
    return {name: value.tolist() for name, value in values.items()}


def best_positions() -> dict[str, list]:
    """Positions of three places for utilities and scores that stand in the tests, and the same with mistakes."""
    orders = np.array([[0, 1, 2], [1, 2, 3], [3, 0, 1], [2, 3, 0], [1, 0, 3], [3, 2, 1]])
    utility, scores = np.array([0.1, 0.9, 0.4, 0.3]), np.array([0.45, 0.6, 0.35, 0.2, 0.7, 0.5])
    shown = utility[orders]
    free = np.linalg.lstsq(shown, scores, rcond=None)[0]
    neighbour = np.linalg.lstsq(shown[:, :-1] - shown[:, 1:], scores - shown[:, -1], rcond=None)[0]
    each = (shown * scores[:, None]).sum(axis=0) / (shown**2).sum(axis=0)
    values = {
        "right": best_position(orders, scores, utility),
        "free": free,
        "divided": free / free.sum(),
        "shifted": free + (1 - free.sum()) / 3,
        "neighbour": np.append(neighbour, 1 - neighbour.sum()),
        "one by one": each / each.sum(),
    }
    return {name: value.tolist() for name, value in values.items()}


def one_round() -> dict[str, dict]:
    """One round of a fit of five noisy orders, and the same with mistakes."""
    start, problem = [0.75, 0.25], (NOISY, NOISY_SCORES)
    right = alternated(*problem, start, 3, 1)
    before = moi.solve_utility(*problem, 3, start).tolist()
    return {
        "right": right,
        "stale": right | {"utility": before},
        "start": {"position": start, "utility": before},
        "two": alternated(*problem, start, 3, 2),
        "level": alternated(*problem, [0.5, 0.5], 3, 1),
        "fifty": alternated(*problem, start, 3, 50),
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


def utilities(corpus: list[dict]) -> list[list[float]]:
    """The best utilities of each question for the position where the book's search ended; 0 for a passage nobody was shown."""
    found = []
    for question in corpus:
        orders, scores = problem(question["pruned"])
        matrix = np.zeros((len(orders), SIZE))
        np.put_along_axis(matrix, orders, np.broadcast_to(question["position"], orders.shape), axis=1)
        found.append(np.linalg.lstsq(matrix, scores, rcond=None)[0].tolist())
    return found


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
