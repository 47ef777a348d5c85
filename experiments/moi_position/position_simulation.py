"""Problems with known truth: which fits and which orders find the worth of the passages, and which say that they cannot."""

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from rag_utils import moi
from rag_utils.base.names import check_name
from rag_utils.measures.moi import pooled_position

KINDS = ("random full", "cyclic", "cyclic pruned", "pruned", "pruned, too few", "pruned, equal")


def tried(
    kind: str, *, size: int = 5, prefix: int = 3, times: int = 12, starts: int = 4, seed: int = 0
) -> pd.DataFrame:
    """Problems without noise and with known truth: does a fit find the ranking, and does it say whether it could?

    kind    : of KINDS. Of random orders there are 3 N, N of "too few"; "equal" are the utilities
    returns : columns id, condition (the kind), identified, right and opposite (0 or 1: the ranking is the true one, is its reverse)
    """
    check_name("kind", kind, KINDS)
    rows = []
    for number in range(times):
        rng = np.random.default_rng([seed, number])
        utility = np.ones(size) if kind == "pruned, equal" else rng.normal(size=size)
        short = None if kind in ("random full", "cyclic") else prefix
        if kind.startswith("cyclic"):
            orders = moi.cyclic_orders(size, prefix=short)
        else:
            orders = moi.random_orders(size, size if "few" in kind else 3 * size, prefix=short, rng=rng)
        position = rng.dirichlet(np.full(orders.shape[1], 3.0))
        fit = moi.fit(orders, moi.predict(orders, position, utility), size, starts=starts, rng=rng)
        tau = _tau(fit.utility, utility)
        row = {"id": f"p{number}", "condition": kind.replace(",", ""), "identified": int(fit.identified)}
        rows.append(row | {"right": int(tau > 0.999), "opposite": int(tau < -0.999)})
    return pd.DataFrame(rows)


def recovered(
    noise: float, *, rising: bool, size: int = 5, prefix: int = 3, dev: int = 14, times: int = 12, seed: int = 0
) -> pd.DataFrame:
    """Problems with noise and known truth: Kendall's tau of each way's utilities with the true ones.

    noise   : standard deviation of the error of a score, in standard deviations of the scores without it
    rising  : whether the position coefficients rise toward the question or fall
    returns : columns id, condition (the way) and tau; 12 orders, but for "calibrated" N pruned cyclic ones and a position from `dev` other
              problems with 12 pruned random orders each. How often a fit begins anew hangs on rounding, so that no problem is drawn by the
              generator of a fit
    """
    rng = np.random.default_rng([seed, int(rising), int(1000 * noise)])
    slope = np.linspace(1, 3, size) if rising else np.linspace(3, 1, size)
    long, short = slope / slope.sum(), np.interp(np.linspace(0, size - 1, prefix), np.arange(size), slope)
    short = short / short.sum()

    def observed(orders, position):
        utility = rng.normal(size=size)
        scores = moi.predict(orders, position, utility)
        return utility, scores + rng.normal(scale=noise * scores.std(), size=len(scores))

    others = []
    for _ in range(dev):
        orders = moi.random_orders(size, 12, prefix=prefix, rng=rng)
        others.append((orders, observed(orders, short)[1]))
    position, _ = pooled_position(others, size, seed=seed)
    rows = []
    for number in range(times):
        full, pruned = moi.random_orders(size, 12, rng=rng), moi.random_orders(size, 12, prefix=prefix, rng=rng)
        cyclic = moi.cyclic_orders(size, prefix=prefix)
        utility, scores = observed(full, long)
        alone = utility + rng.normal(scale=1.0, size=size)
        signs = {"free": {}, "decreasing": {"sign": "decreasing position"}}
        signs["pointwise"] = {"sign": "pointwise prior", "pointwise": alone}
        tau = {}
        for way, how in signs.items():
            tau[f"full {way}"] = _tau(moi.fit(full, scores, size, **how, starts=2, rng=[seed, number]).utility, utility)
        utility, scores = observed(pruned, short)
        tau["pruned"] = _tau(moi.fit(pruned, scores, size, starts=4, rng=[seed, number]).utility, utility)
        utility, scores = observed(cyclic, short)
        tau["calibrated"] = _tau(moi.solve_utility(cyclic, scores, size, position), utility)
        rows += [{"id": f"p{number}", "condition": way, "tau": value} for way, value in tau.items()]
    return pd.DataFrame(rows)


def _tau(guess: np.ndarray, truth: np.ndarray) -> float:
    """Kendall's tau, 0 where one of them is constant."""
    constant = np.ptp(guess) < 1e-9 or np.ptp(truth) < 1e-9
    return 0.0 if constant else float(kendalltau(guess, truth).statistic)
