"""Kappa: how far raters agree beyond chance. Cohen's for two, Fleiss' for several, each with its interval.

Labels are 0 or 1. What is agreed on by chance is what raters who label at random, each as often as before, would reach; kappa is the share
of the rest that is agreed on. Kappa falls where nearly all items have one label, however good the raters are (`kappa_at`).
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from rag_utils import stats
from rag_utils.base import checks


@dataclass(frozen=True)
class Kappa:
    """What two raters agree on. Made by `cohen`.

    observed   : share of items with the same label, 0 .. 1
    expected   : share of chance, 0 .. 1
    kappa      : stats.Estimate, -1 .. 1, percentile bootstrap over items
    asymptotic : (low, high) of kappa by the large-sample variance of Fleiss, Cohen and Everitt 1969; may leave -1 .. 1
    """

    observed: float
    expected: float
    kappa: stats.Estimate
    asymptotic: tuple[float, float]


def cohen(a, b, *, resamples: int = 1000, seed: int = 0) -> Kappa:
    """Cohen's kappa of two raters.

    a, b    : (n,) 0/1 or bool, row i of both about the same item, n >= 2
    returns : Kappa
    raises  : ValueError if shapes differ, a label is not 0 or 1, or both raters always say the same one thing: kappa is 0 / 0 then
    source  : Cohen 1960; value and asymptotic interval by statsmodels

    >>> raters = cohen([1, 1, 1, 1, 0, 0, 1, 0, 1, 0], [1, 1, 1, 0, 0, 0, 1, 1, 1, 0])
    >>> round(raters.observed, 2), round(raters.expected, 2), round(raters.kappa.value, 3)
    (0.8, 0.52, 0.583)
    """
    a, b = _labels("a", a), _labels("b", b)
    checks.same_length(a=a, b=b)
    table = np.bincount(2 * a + b, minlength=4).reshape(2, 2)
    expected = float((table.sum(axis=0) / len(a)) @ (table.sum(axis=1) / len(a)))
    if expected == 1:
        raise ValueError(f"kappa is not defined where both raters give all {len(a)} items one label")
    with np.errstate(invalid="ignore"):  # a test that statsmodels adds, and that is not used
        counted = cohens_kappa(table)

    def kappa(a, b):  # statsmodels' value for two labels, some ten times as fast
        of_a, of_b = a.mean(), b.mean()
        chance = of_a * of_b + (1 - of_a) * (1 - of_b)
        return (np.mean(a == b) - chance) / (1 - chance)

    interval = replace(stats.statistic_interval(kappa, a, b, resamples=resamples, rng=seed), value=float(counted.kappa))
    low, high = (float(end) for end in (counted.kappa_low, counted.kappa_upp))
    return Kappa(float(np.mean(a == b)), expected, interval, (low, high))


def fleiss(ratings, *, resamples: int = 1000, seed: int = 0) -> stats.Estimate:
    """Fleiss' kappa of several raters, with its bootstrap interval over items.

    ratings : (n, raters) 0/1 or bool, n >= 2, at least 2 raters
    returns : stats.Estimate
    raises  : ValueError if the shape is wrong, a label is not 0 or 1, or all labels are one
    source  : Fleiss 1971, by statsmodels, which gives no interval. Unlike Cohen's, chance is that of the pooled labels

    >>> round(fleiss([[1, 1, 1], [1, 1, 0], [0, 0, 0], [0, 0, 1]], resamples=100).value, 3)
    0.333
    """
    labels = checks.flags("ratings", ratings, dimensions=2).astype(int)
    if min(labels.shape) < 2:
        raise ValueError(f"ratings must be (items, raters) with at least 2 of both; got shape {labels.shape}")
    if labels.min() == labels.max():
        raise ValueError(f"kappa is not defined where all {labels.size} labels are {labels.min()}")
    raters, right = labels.shape[1], labels.sum(axis=1)

    def kappa(right):  # statsmodels' value for two labels, some ten times as fast
        same = (right * (right - 1) + (raters - right) * (raters - right - 1)) / (raters * (raters - 1))
        share = right.mean() / raters
        chance = share**2 + (1 - share) ** 2
        return (same.mean() - chance) / (1 - chance)

    value = float(fleiss_kappa(np.column_stack([right, raters - right])))
    return replace(stats.statistic_interval(kappa, right, resamples=resamples, rng=seed), value=value)


def kappa_at(prevalence, sensitivity: float, specificity: float):
    """Cohen's kappa of a rater with a fixed error rate against the truth, by the share of items whose true label is 1.

    prevalence               : number or array, 0 .. 1
    sensitivity, specificity : share of the true 1 and of the true 0 that the rater labels so
    returns                  : the same shape; 0 at a prevalence of 0 or 1, unless the rater makes no error: then NaN is refused
    raises                   : ValueError if a number is not 0 .. 1, or kappa is 0 / 0
    source                   : Feinstein and Cicchetti 1990, the first paradox

    >>> kappa_at(np.array([0.5, 0.9]), 0.9, 0.9).round(2)
    array([0.8 , 0.59])
    """
    p = checks.numbers("prevalence", np.atleast_1d(prevalence), low=0, high=1).reshape(np.shape(prevalence))
    sensitivity = checks.number("sensitivity", sensitivity, low=0, high=1)
    specificity = checks.number("specificity", specificity, low=0, high=1)
    observed = p * sensitivity + (1 - p) * specificity
    said = p * sensitivity + (1 - p) * (1 - specificity)
    expected = p * said + (1 - p) * (1 - said)
    if (expected == 1).any():
        raise ValueError("kappa is not defined where truth and rater always say the same one thing")
    return (observed - expected) / (1 - expected)


def coverage(a, b, n: int, *, times: int = 200, resamples: int = 200, seed: int = 0) -> pd.DataFrame:
    """How often the two intervals of kappa from n items hold the kappa of all items, of which the n are drawn.

    a, b    : (items,) 0/1, as in `cohen`
    n       : items of a sample, drawn with replacement
    returns : one row per sample: id, defined (0 or 1) and, NaN where it is not, bootstrap and asymptotic (0 or 1: the interval holds kappa)
    """
    a, b = _labels("a", a), _labels("b", b)
    n, times = checks.whole("n", n, least=2, most=10**7), checks.whole("times", times, least=1, most=10**6)
    truth, rng, rows = cohen(a, b, resamples=40).kappa.value, np.random.default_rng(seed), []
    for number in range(times):
        drawn = rng.integers(len(a), size=n)
        row = {"id": f"sample-{number}", "defined": 1, "bootstrap": np.nan, "asymptotic": np.nan}
        try:
            sample = cohen(a[drawn], b[drawn], resamples=resamples, seed=number)
            ends = {"bootstrap": (sample.kappa.low, sample.kappa.high), "asymptotic": sample.asymptotic}
            row |= {name: int(low <= truth <= high) for name, (low, high) in ends.items()}
        except ValueError:
            row["defined"] = 0
        rows.append(row)
    return pd.DataFrame(rows)


def _labels(name: str, values) -> np.ndarray:
    labels = checks.flags(name, values).astype(int)
    if len(labels) < 2:
        raise ValueError(f"{name} must hold at least 2 labels; got {len(labels)}")
    return labels
