"""How well does an uncertainty tell right replies from wrong ones? AUROC and AURAC with intervals, and differences between two of them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rag_utils import stats
from rag_utils.base.names import check_name
from rag_utils.stats import Difference, Estimate

AREAS = {"AUROC": stats.auroc, "AURAC": stats.aurac}


def area_interval(
    uncertainty: Sequence[float], correct: Sequence[float], *, area: str = "AUROC", resamples: int = 1000, seed: int = 0
) -> Estimate:
    """How well an uncertainty tells right from wrong replies, with its bootstrap interval: `stats.statistic_interval`, but fast.

    uncertainty, correct : (n,) as `stats.auroc` takes them
    area                 : "AUROC" or "AURAC"; resamples with right or with wrong replies only are left out, for either
    raises               : ValueError as `stats.auroc`, for either area, and if more than half of the resamples are left out
    """
    function = AREAS[check_name("area", area, AREAS)]
    uncertainty, correct = np.asarray(uncertainty, dtype=float), np.asarray(correct, dtype=float)
    stats.auroc(uncertainty, correct)  # raises where there are right or wrong replies only
    blocks = stats.row_counts(len(correct), resamples=resamples, rng=seed)
    draws = np.concatenate([area_draws(uncertainty, correct, counts, area=area) for counts in blocks])
    return stats.estimate_of(function(uncertainty, correct), draws, len(correct))


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

    a, b, correct : (n,) as `stats.auroc` takes them; area, resamples, seed as in `area_interval`
    groups        : (n,) names of parts that are ranked apart, such as data sets: the area is then the mean over parts, and each part is
                    resampled in itself
    raises        : ValueError as `area_interval`, and if a part holds right or wrong replies only
    """
    function, rng = AREAS[check_name("area", area, AREAS)], np.random.default_rng(seed)
    a, b, correct = (np.asarray(values, dtype=float) for values in (a, b, correct))
    codes = np.zeros(len(a), int) if groups is None else pd.factorize(np.asarray(groups))[0]
    parts = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    if any(np.ptp(correct[rows]) == 0 for rows in parts):
        raise ValueError("correct must hold right and wrong replies in every part; one holds one kind only")
    gaps, draws = [], []
    for rows in parts:
        blocks = list(stats.row_counts(len(rows), resamples=resamples, rng=rng))
        of_a, of_b = (
            np.concatenate([area_draws(values[rows], correct[rows], counts, area=area) for counts in blocks])
            for values in (a, b)
        )
        gaps.append(function(a[rows], correct[rows]) - function(b[rows], correct[rows]))
        draws.append(of_a - of_b)
    return stats.difference_of(np.mean(gaps), np.mean(draws, axis=0), len(a))


def areas(table: pd.DataFrame, *, measures: Mapping[str, str], score: str = "exact_match", **how) -> pd.DataFrame:
    """AUROC and AURAC of each measure, with intervals: the cells of DENSE, Tables 1 and 8.

    table    : one row per question; score: a column of 0 and 1
    measures : title -> column
    how      : resamples and seed, as in `area_interval`
    returns  : index the titles, columns AUROC and AURAC, cells stats.Estimate; None where every reply is right or none is
    """
    varies = table[score].nunique() > 1
    cells = {
        title: {
            area: area_interval(table[column], table[score], area=area, **how) if varies else None for area in AREAS
        }
        for title, column in measures.items()
    }
    return pd.DataFrame(cells, dtype=object).T


def ahead(
    table: pd.DataFrame,
    *,
    first: str,
    others: Mapping[str, str],
    score: str = "exact_match",
    groups: str | None = None,
    areas: Sequence[str] = tuple(AREAS),
    **how,
) -> pd.DataFrame:
    """The column first minus each other measure, in AUROC and AURAC, on the same questions.

    table   : one row per question, or several data sets below one another with a column `groups` that names them
    others  : title -> column
    how     : resamples and seed, as in `area_interval`
    returns : columns measure, area, value, low, high, n, p_value, p_holm (adjusted for all rows); no rows where every reply is right or
              none is
    """
    if table[score].nunique() < 2:
        return pd.DataFrame(columns=["measure", "area", "value", "low", "high", "n", "p_value", "p_holm"])
    how = how | {"groups": None if groups is None else table[groups]}
    rows = [
        {"measure": title, "area": area}
        | vars(area_difference(table[first], table[column], table[score], area=area, **how))
        for title, column in others.items()
        for area in areas
    ]
    gaps = pd.DataFrame(rows).drop(columns="undefined")
    return gaps.assign(p_holm=stats.holm(gaps["p_value"]))


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
            draws = ((size - hit) * (hit_before + hit / 2)).sum(axis=1) / (hits * (n - hits))
        else:  # accuracy on the first m, m = 1 .. n: within equal values it moves evenly, and the sum over 1/m is a harmonic number
            harmonic = np.concatenate([[0.0], (1 / np.arange(1, int(n.max()) + 1)).cumsum()])
            share = np.where(size > 0, hit / size, 0.0)
            between = harmonic[(before + size).astype(int)] - harmonic[before.astype(int)]
            draws = ((hit_before - share * before) * between + share * size).sum(axis=1) / n
    return np.where((hits > 0) & (hits < n), draws, np.nan)
