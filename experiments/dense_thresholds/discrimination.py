"""How well does an uncertainty tell right replies from wrong ones?

AUROC and AURAC with intervals, and differences between two uncertainties of the same replies.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rag_utils.base.names import check_name
from rag_utils.stats import Difference, Estimate, aurac, auroc, holm

AREAS = {"AUROC": auroc, "AURAC": aurac}


def area_interval(
    uncertainty: Sequence[float], correct: Sequence[float], *, area: str = "AUROC", resamples: int = 1000, seed: int = 0
) -> Estimate:
    """How well an uncertainty tells right from wrong replies, with its bootstrap interval.

    uncertainty, correct : (n,) as `stats.auroc` takes them
    area                 : "AUROC" or "AURAC"
    returns              : Estimate. Resamples with right or with wrong replies only are left out and counted
    raises               : ValueError as `stats.auroc`, for either area
    """
    function = AREAS[check_name("area", area, AREAS)]
    uncertainty, correct = np.asarray(uncertainty, dtype=float), np.asarray(correct, dtype=float)
    auroc(uncertainty, correct)  # raises where there are right or wrong replies only
    counts = _counts(len(correct), resamples, np.random.default_rng(seed))
    draws = area_draws(uncertainty, correct, counts, area=area)
    draws = draws[np.isfinite(draws)]
    low, high = np.quantile(draws, [0.025, 0.975])
    value = function(uncertainty, correct)
    return Estimate(value, float(low), float(high), len(correct), undefined=resamples - len(draws))


def areas(
    table: pd.DataFrame,
    *,
    measures: Mapping[str, str],
    score: str = "exact_match",
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """AUROC and AURAC of each measure, with intervals: the cells of DENSE, Tables 1 and 8.

    table    : one row per question; score: a column of 0 and 1
    measures : title -> column
    returns  : index the titles, columns AUROC and AURAC, cells stats.Estimate; None where every reply is right or none is
    """
    varies = table[score].nunique() > 1
    how = {"resamples": resamples, "seed": seed}
    cells = {
        title: {
            area: area_interval(table[column], table[score], area=area, **how) if varies else None for area in AREAS
        }
        for title, column in measures.items()
    }
    return pd.DataFrame(cells, dtype=object).T


def area_difference(
    a: Sequence[float],
    b: Sequence[float],
    correct: Sequence[float],
    *,
    area: str = "AUROC",
    groups: Sequence[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Difference:
    """How much better uncertainty a tells right from wrong replies than b does, over the same rows.

    a, b, correct : (n,) as `stats.auroc` takes them
    area          : "AUROC" or "AURAC"
    groups        : (n,) names of parts that are ranked apart, such as data sets: the area is then the mean over parts, and each part is
                    resampled in itself
    returns       : Difference; p two-sided, by inverting the bootstrap interval
    raises        : ValueError as `stats.auroc`, and if a part holds right or wrong replies only
    source        : Efron and Tibshirani 1993, section 15.4. Resamples with right or with wrong replies only are left out
    """
    function = AREAS[check_name("area", area, AREAS)]
    a, b, correct = (np.asarray(values, dtype=float) for values in (a, b, correct))
    codes = np.zeros(len(a), int) if groups is None else pd.factorize(np.asarray(groups))[0]
    parts = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    if any(np.ptp(correct[some]) == 0 for some in parts):
        raise ValueError("correct must hold right and wrong replies in every part; one holds one kind only")
    rng, gaps, draws = np.random.default_rng(seed), [], []
    for some in parts:
        counts = _counts(len(some), resamples, rng)
        of_a, of_b = (area_draws(values[some], correct[some], counts, area=area) for values in (a, b))
        gaps.append(function(a[some], correct[some]) - function(b[some], correct[some]))
        draws.append(of_a - of_b)
    draws = np.mean(draws, axis=0)
    draws = draws[np.isfinite(draws)]
    low, high = np.quantile(draws, [0.025, 0.975])
    tail = min(np.sum(draws <= 0), np.sum(draws >= 0))
    p_value = min(1.0, 2 * (1 + int(tail)) / (1 + len(draws)))
    return Difference(float(np.mean(gaps)), float(low), float(high), len(a), p_value, undefined=resamples - len(draws))


def ahead(
    table: pd.DataFrame,
    *,
    first: str,
    others: Mapping[str, str],
    score: str = "exact_match",
    groups: str | None = None,
    areas: Sequence[str] = tuple(AREAS),
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """The column first minus each other measure, in AUROC and AURAC, on the same questions.

    table   : one row per question, or several data sets below one another with a column `groups` that names them
    others  : title -> column
    returns : columns measure, area, value, low, high, n, p_value, p_holm (adjusted for all rows); no rows where every reply is right or
              none is
    """
    if table[score].nunique() < 2:
        return pd.DataFrame(columns=["measure", "area", "value", "low", "high", "n", "p_value", "p_holm"])
    how = {"groups": None if groups is None else table[groups], "resamples": resamples, "seed": seed}
    found = [
        {"measure": title, "area": area}
        | vars(area_difference(table[first], table[column], table[score], area=area, **how))
        for title, column in others.items()
        for area in areas
    ]
    gaps = pd.DataFrame(found).drop(columns="undefined")
    return gaps.assign(p_holm=holm(gaps["p_value"]))


def area_draws(uncertainty: np.ndarray, correct: np.ndarray, counts: np.ndarray, *, area: str = "AUROC") -> np.ndarray:
    """The area of many resamples at once, as `stats.auroc` and `stats.aurac` have it for one.

    uncertainty, correct : (n,)
    counts               : (resamples, n) whole numbers, how often each resample holds each row
    returns              : (resamples,); NaN where a resample has right or wrong replies only, for either area
    """
    order = np.argsort(uncertainty, kind="stable")
    value, right, counts = uncertainty[order], correct[order].astype(float), counts[:, order].astype(float)
    starts = np.flatnonzero(np.diff(value, prepend=np.nan) != 0)  # of equal values
    size, hit = (np.add.reduceat(part, starts, axis=1) for part in (counts, counts * right))
    n, hits = size.sum(axis=1), hit.sum(axis=1)
    before, hit_before = size.cumsum(axis=1) - size, hit.cumsum(axis=1) - hit
    with np.errstate(divide="ignore", invalid="ignore"):
        if area == "AUROC":  # pairs of a right reply and a more uncertain wrong one, ties one half
            found = ((size - hit) * (hit_before + hit / 2)).sum(axis=1) / (hits * (n - hits))
        else:  # accuracy on the first m, m = 1 .. n: within equal values it moves evenly, and the sum over 1/m is a harmonic number
            harmonic = np.concatenate([[0.0], (1 / np.arange(1, int(n.max()) + 1)).cumsum()])
            share = np.where(size > 0, hit / size, 0.0)
            between = harmonic[(before + size).astype(int)] - harmonic[before.astype(int)]
            found = ((hit_before - share * before) * between + share * size).sum(axis=1) / n
    return np.where((hits > 0) & (hits < n), found, np.nan)


def _counts(n: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """How often each of n rows is in each resample, (resamples, n)."""
    return np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(resamples)])
