"""How well does an uncertainty tell right replies from wrong ones? AUROC and AURAC with intervals, and differences between two of them.

uncertainty and correct are (n,) as `stats.auroc` takes them, area is "AUROC" or "AURAC", how is resamples and seed. For either area
resamples with right or with wrong replies only are left out; if these are more than half, a ValueError is raised.
"""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd

from rag_utils import stats
from rag_utils.base import checks
from rag_utils.stats import Difference, Estimate

AREAS = {"AUROC": stats.auroc, "AURAC": stats.aurac}
COLUMNS = ["measure", "area", "value", "low", "high", "n", "p_value", "p_holm"]  # of `ahead`


def area_interval(uncertainty, correct, *, area="AUROC", resamples=1000, seed=0) -> Estimate:
    """The area with its bootstrap interval: the numbers of `stats.statistic_interval`, but fast; ValueError as `stats.auroc`."""
    uncertainty, correct = np.asarray(uncertainty, dtype=float), np.asarray(correct, dtype=float)
    stats.auroc(uncertainty, correct)  # raises where there are right or wrong replies only
    [value], [draws] = _drawn([uncertainty], correct, area, resamples, seed)
    return stats.estimate_of(value, draws, len(correct))


def area_difference(a, b, correct, *, area="AUROC", groups=None, resamples=1000, seed=0) -> Difference:
    """How much better uncertainty a tells right from wrong replies than b does, over the same rows; ValueError as `area_interval`.

    groups : (n,) names of parts, such as data sets, that are ranked and resampled apart: the area is then the mean over parts
    """
    rng, columns = np.random.default_rng(seed), np.array([a, b, correct], dtype=float)
    codes = np.zeros(len(a), int) if groups is None else pd.factorize(np.asarray(groups))[0]
    parts = [columns[:, codes == code] for code in range(codes.max() + 1)]
    if any(np.ptp(part[2]) == 0 for part in parts):
        raise ValueError("correct must hold right and wrong replies in every part; one holds one kind only")
    drawn = (_drawn(part[:2], part[2], area, resamples, rng) for part in parts)
    gaps, draws = zip(*([np.subtract(*both) for both in part] for part in drawn), strict=True)
    return stats.difference_of(np.mean(gaps), np.mean(draws, axis=0), len(a))


def areas(table: pd.DataFrame, *, measures: Mapping[str, str], score="exact_match", **how) -> pd.DataFrame:
    """AUROC and AURAC of each measure, with intervals: the cells of DENSE, Tables 1 and 8.

    table   : one row per question; score: a column of 0 and 1; measures: title -> column
    returns : index the titles, columns AUROC and AURAC, cells stats.Estimate; None where every reply is right or none is
    """
    varies = table[score].nunique() > 1
    cells = [
        [area_interval(table[column], table[score], area=area, **how) if varies else None for area in AREAS] for column in measures.values()
    ]
    return pd.DataFrame(cells, index=list(measures), columns=list(AREAS), dtype=object)


def ahead(table: pd.DataFrame, *, first, others: Mapping[str, str], score="exact_match", groups=None, areas=AREAS, **how) -> pd.DataFrame:
    """The column first minus each other measure, in AUROC and AURAC, on the same questions.

    table   : one row per question, or several data sets below one another with a column `groups` that names them; others: title -> column
    returns : COLUMNS, p_holm adjusted for all rows; no rows where every reply is right or none is
    """
    if table[score].nunique() < 2:
        return pd.DataFrame(columns=COLUMNS)
    rows, how = [], how | {"groups": None if groups is None else table[groups]}
    for (title, column), area in product(others.items(), areas):
        gap = area_difference(table[first], table[column], table[score], area=area, **how)
        rows.append({"measure": title, "area": area} | vars(gap))
    gaps = pd.DataFrame(rows)
    return gaps.assign(p_holm=stats.holm(gaps["p_value"], of=gaps[["value", "low", "high"]]))[COLUMNS]


def _drawn(columns, correct, area, resamples, rng) -> tuple[list[float], np.ndarray]:
    """The area of each column, and on the same resamples, (columns, resamples)."""
    values = [AREAS[checks.one_of("area", area, AREAS)](column, correct) for column in columns]
    blocks = stats.row_counts(np.arange(len(correct)), resamples=resamples, rng=rng)
    draws = [[area_draws(column, correct, counts, area=area) for column in columns] for counts in blocks]
    return values, np.hstack(draws)


def area_draws(uncertainty, correct, counts, *, area="AUROC") -> np.ndarray:
    """The area of many resamples at once, as `stats.auroc` and `stats.aurac` have it for one.

    counts  : (resamples, n) whole numbers, how often each resample holds each row
    returns : (resamples,); NaN where a resample has right or wrong replies only
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
