"""What tables of saliencies say: the worth of passages and places question by question, one position for all, and who ranks how.

table = saliencies(reader, questions, shown, {"pruned": orders}, prompt=prompt)   # experiments.moi_position.positions
fitted(table, "pruned", size=5)                                                   # a ranking and a position of each question
position, left = pooled_position(list(problems(table, "pruned").values()), 5)     # one position for all of them
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from experiments.moi_position.permutations import ALONE, PRUNED, SHORT, Orders, label, parse
from rag_utils import moi
from rag_utils.base.names import check_name


def problems(
    table: pd.DataFrame, *conditions: str, prior: bool = False, form: str = "log"
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Orders and scores of each question, from the rows of some conditions: what `moi.fit` takes.

    table : as `saliencies` returns it
    prior : whether the factor of the passages counts; form: as in `moi.saliency`
    """
    for condition in conditions:
        check_name("condition", condition, table["condition"].unique())
    found = {}
    for name, part in table[table["condition"].isin(conditions)].groupby("id", sort=False):
        orders = np.array([parse(order) for order in part["order"]])
        found[name] = (orders, moi.saliency(part["query"], part["passages"] if prior else None, prior=prior, form=form))
    return found


def fitted(
    table: pd.DataFrame,
    *conditions: str,
    size: int,
    prior: bool = False,
    form: str = "log",
    sign: str = "free",
    starts: int = 8,
    seed: int = 0,
) -> pd.DataFrame:
    """`moi.fit` to each question: one row each.

    sign    : "pointwise prior" takes the log-likelihood of the question after each passage alone, from the rows "alone"
    returns : columns id, order (the ranking), a1, a2, ... (position coefficients), residual, identified (0 or 1), jacobian (its rank)
              and rankings (how many different ones fitted equally well)
    """
    alone = {name: scores for name, (_, scores) in problems(table, ALONE).items()}
    found = []
    for name, (orders, scores) in problems(table, *conditions, prior=prior, form=form).items():
        pointwise = alone[name] if sign == "pointwise prior" else None
        fit = moi.fit(orders, scores, size, sign=sign, pointwise=pointwise, starts=starts, rng=seed)
        row = {"id": name, "order": label(moi.rerank(fit.utility))}
        row |= {f"a{place}": float(value) for place, value in enumerate(fit.position, 1)}
        row |= {"residual": fit.residual, "identified": int(fit.identified), "jacobian": fit.rank}
        found.append(row | {"rankings": fit.rankings})
    return pd.DataFrame(found)


def pooled_position(
    problems: Sequence[tuple[np.ndarray, np.ndarray]], size: int, *, starts: int = 4, seed: int = 0
) -> tuple[np.ndarray, float]:
    """One position for all questions, each with utilities of its own: (position, root mean square of what is left).

    problems : per question orders (m, L) and scores (m,), m and L the same for all
    raises   : ValueError if there are none or their shapes differ
    source   : ours; `moi.fit` with passages numbered through finds the same, slower
    """
    orders, scores = _stacked(problems)
    length = orders.shape[2]

    def left(position: np.ndarray) -> np.ndarray:
        return np.append(_left(orders, scores, size, position)[0], position.sum() - 1)

    def slope(position: np.ndarray) -> np.ndarray:
        return np.vstack([_left(orders, scores, size, position)[1], np.ones(length)])

    begins = [np.full(length, 1 / length), *np.random.default_rng(seed).dirichlet(np.ones(length), starts - 1)]
    ends = [least_squares(left, begin, slope, bounds=(0, np.inf)).x for begin in begins]
    best = min((end / end.sum() for end in ends), key=lambda end: left_over(problems, size, end))
    return best, left_over(problems, size, best)


def left_over(problems: Sequence[tuple[np.ndarray, np.ndarray]], size: int, position: np.ndarray) -> float:
    """Root mean square of the scores that this position leaves unexplained, each question with its best utilities."""
    return float(np.sqrt(np.mean(_left(*_stacked(problems), size, np.asarray(position))[0] ** 2)))


def calibrated(
    table: pd.DataFrame, position: np.ndarray, *, size: int, condition: str = SHORT, prior: bool = False
) -> dict[str, list[list[int]]]:
    """The ranking by the utilities that a known position gives to the cyclic orders of each question; one order in a list."""
    return {
        name: [moi.rerank(moi.solve_utility(orders, scores, size, position)).tolist()]
        for name, (orders, scores) in problems(table, condition, prior=prior).items()
    }


def rankings(
    table: pd.DataFrame, *, size: int, fits: Mapping[str, pd.DataFrame] | None = None, seed: int = 0
) -> dict[str, dict[str, list[list[int]]]]:
    """Who ranks how, from the saliencies: each method's order of each question, in a list.

    table   : as `saliencies` returns it, with `prior`, conditions "alone" and "pruned"
    fits    : "MoI" and "MoI, prior", as `fitted` returns them for the pruned orders; None fits them here
    returns : "retriever"; "random" (one order, drawn from the seed and the question's place in the table); pointwise "QG" (question
              given the passage), "Bayes saliency" (times the passage's own probability) and "LongLLMLingua"; "MoI" (the fit to random
              prefixes, without the prior) and "MoI, prior"
    source  : MoI, eq. 1, section 3.1 and appendix C
    """
    alone = table[table["condition"] == ALONE]
    found: dict[str, dict] = {name: {} for name in ("retriever", "random", "QG", "Bayes saliency", "LongLLMLingua")}
    for number, (name, part) in enumerate(alone.groupby("id", sort=False)):
        query, passages = part["query"].to_numpy(), part["passages"].to_numpy()
        information = part["information"].to_numpy()
        found["retriever"][name] = [list(range(size))]
        found["random"][name] = moi.random_orders(size, 1, rng=[seed, number, 2]).tolist()
        for method, scores in {"QG": query, "Bayes saliency": query + passages, "LongLLMLingua": information}.items():
            found[method][name] = [moi.rerank(scores).tolist()]
    if fits is None:
        how = {"size": size, "starts": 4, "seed": seed}
        fits = {"MoI": fitted(table, PRUNED, **how), "MoI, prior": fitted(table, PRUNED, prior=True, **how)}
    return found | {method: ranked(fit) for method, fit in fits.items()}


def ranked(fit: pd.DataFrame) -> dict[str, list[list[int]]]:
    """The order of each question by its fit, in a list; `fit` as `fitted` returns it."""
    return {name: [parse(order)] for name, order in zip(fit["id"], fit["order"], strict=True)}


def distances(probabilities: Mapping[str, np.ndarray], orders: Orders) -> pd.DataFrame:
    """The L1 distance of every two different orders of a question, and whether they begin with the same passage.

    probabilities : per question id (orders, tokens + 1), rows of sum 1, the last column for all tokens that have no name
    returns       : columns id, run (the pair), same_first (bool), distance (0 .. 2, the unnamed tokens as one), at_most (0 .. 2) and known
                    (share of probability in the named tokens). Over all tokens the distance is `distance` if each unnamed one changes in
                    the same direction, `at_most` if none is likely under both orders, and between the two otherwise
    source        : MoI, eq. 11 and Fig. 7; the bounds are ours

    >>> table = distances({"q": np.array([[0.5, 0.5], [0.25, 0.75]])}, {"q": [[0, 1], [1, 0]]})
    >>> table["distance"].item(), table["at_most"].item()
    (0.5, 1.5)
    """
    found = []
    for name, table in probabilities.items():
        some = [list(order) for order in orders[name]]
        pairs = [(i, k) for i in range(len(some)) for k in range(i) if some[i] != some[k]]
        for run, (i, k) in enumerate(pairs):
            row = {"id": name, "run": run, "same_first": some[i][0] == some[k][0]}
            row["distance"] = float(np.abs(table[i] - table[k]).sum())
            row["at_most"] = row["distance"] + 2 * float(min(table[i, -1], table[k, -1]))
            found.append(row | {"known": float(1 - (table[i, -1] + table[k, -1]) / 2)})
    return pd.DataFrame(found)


def _stacked(problems) -> tuple[np.ndarray, np.ndarray]:
    """Orders (q, m, L) and scores (q, m) of all questions."""
    shapes = {(np.shape(orders), np.shape(scores)) for orders, scores in problems}
    if len(shapes) != 1:
        raise ValueError(
            f"problems must have orders and scores of one shape, got {len(shapes)} shapes: {sorted(shapes)}"
        )
    return np.array([orders for orders, _ in problems]), np.array([scores for _, scores in problems], dtype=float)


def _left(orders: np.ndarray, scores: np.ndarray, size: int, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Model minus score of every order, each question with its best utilities, and its slope by the position (Kaufman's)."""
    weights = np.einsum("l,qmln->qmn", position, np.eye(size)[orders])
    inverse = np.linalg.pinv(weights, rcond=1e-7)
    utility = inverse @ scores[:, :, None]
    moved = np.take_along_axis(utility[:, None, :, 0], orders, axis=2)
    moved -= weights @ (inverse @ moved)
    return (weights @ utility)[:, :, 0].ravel() - scores.ravel(), moved.reshape(-1, orders.shape[2])
