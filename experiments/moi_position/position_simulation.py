"""Problems with known truth: which fits and which orders find the worth of the passages, and which say that they cannot."""

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from rag_utils import moi
from rag_utils.base.names import check_name
from rag_utils.measures.moi import pooled_position

SIZE, PREFIX = 5, 3  # passages of a problem, and those that a pruned order shows
KINDS = ("random full", "cyclic", "cyclic pruned", "pruned", "pruned, too few", "pruned, equal")


def tried(kind: str, *, times: int = 12, seed: int = 0) -> pd.DataFrame:
    """Problems without noise and with known truth: does a fit find the ranking, and does it say whether it could?

    kind    : of KINDS. Of random orders there are 3 N, N of "too few"; "equal" are the utilities
    returns : columns id, condition (the kind), identified, right and opposite (0 or 1: the ranking is the true one, is its reverse)
    """
    check_name("kind", kind, KINDS)
    rows = []
    for number in range(times):
        rng = np.random.default_rng([seed, number])
        utility = np.ones(SIZE) if kind == "pruned, equal" else rng.normal(size=SIZE)
        prefix = None if kind in ("random full", "cyclic") else PREFIX
        if kind.startswith("cyclic"):
            orders = moi.cyclic_orders(SIZE, prefix=prefix)
        else:
            orders = moi.random_orders(SIZE, SIZE if "few" in kind else 3 * SIZE, prefix=prefix, rng=rng)
        position = rng.dirichlet(np.full(orders.shape[1], 3.0))
        fit = moi.fit(orders, moi.predict(orders, position, utility), SIZE, starts=4, rng=rng)
        tau = _tau(fit.utility, utility)
        row = {"id": f"p{number}", "condition": kind.replace(",", ""), "identified": int(fit.identified)}
        rows.append(row | {"right": int(tau > 0.999), "opposite": int(tau < -0.999)})
    return pd.DataFrame(rows)


def recovered(noise: float, *, rising: bool, dev: int = 14, times: int = 12, seed: int = 0) -> pd.DataFrame:
    """Problems with noise and known truth: Kendall's tau of each way's utilities with the true ones.

    noise   : standard deviation of the error of a score, in standard deviations of the scores without it
    rising  : whether the position coefficients rise toward the question or fall
    returns : columns id, condition (the way) and tau; 12 orders, but for "calibrated" N pruned cyclic ones and a position from `dev` other
              problems with 12 pruned random orders each. How often a fit begins anew hangs on rounding, so that no problem is drawn by the
              generator of a fit
    """
    rng = np.random.default_rng([seed, int(rising), int(1000 * noise)])
    slope = np.linspace(1, 3, SIZE) if rising else np.linspace(3, 1, SIZE)
    long, short = slope / slope.sum(), np.interp(np.linspace(0, SIZE - 1, PREFIX), np.arange(SIZE), slope)
    short = short / short.sum()

    def observed(orders, position):
        utility = rng.normal(size=SIZE)
        scores = moi.predict(orders, position, utility)
        return utility, scores + rng.normal(scale=noise * scores.std(), size=len(scores))

    others = (moi.random_orders(SIZE, 12, prefix=PREFIX, rng=rng) for _ in range(dev))
    position, _ = pooled_position([(orders, observed(orders, short)[1]) for orders in others], SIZE, seed=seed)
    rows = []
    for number in range(times):
        full, pruned = moi.random_orders(SIZE, 12, rng=rng), moi.random_orders(SIZE, 12, prefix=PREFIX, rng=rng)
        cyclic, tau = moi.cyclic_orders(SIZE, prefix=PREFIX), {}
        utility, scores = observed(full, long)
        alone = utility + rng.normal(scale=1.0, size=SIZE)
        how = {"starts": 2, "rng": [seed, number]}
        for way, sign in (("free", "free"), ("decreasing", "decreasing position"), ("pointwise", "pointwise prior")):
            pointwise = alone if way == "pointwise" else None
            fit = moi.fit(full, scores, SIZE, sign=sign, pointwise=pointwise, **how)
            tau[f"full {way}"] = _tau(fit.utility, utility)
        utility, scores = observed(pruned, short)
        tau["pruned"] = _tau(moi.fit(pruned, scores, SIZE, **how | {"starts": 4}).utility, utility)
        utility, scores = observed(cyclic, short)
        tau["calibrated"] = _tau(moi.solve_utility(cyclic, scores, SIZE, position), utility)
        rows += [{"id": f"p{number}", "condition": way, "tau": value} for way, value in tau.items()]
    return pd.DataFrame(rows)


def _tau(guess: np.ndarray, truth: np.ndarray) -> float:
    """Kendall's tau, 0 where one of them is constant."""
    constant = np.ptp(guess) < 1e-9 or np.ptp(truth) < 1e-9
    return 0.0 if constant else float(kendalltau(guess, truth).statistic)
