"""Kappa: how far raters agree beyond chance. Cohen's for two, Fleiss' for several, each with its interval.

Labels are 0 or 1. What is agreed on by chance is what raters who label at random, each as often as before, would reach; kappa is the share
of the rest that is agreed on. Kappa falls where nearly all items have one label, however good the raters are (`kappa_at`).
"""

from dataclasses import dataclass

import numpy as np
from statsmodels.stats.inter_rater import cohens_kappa

from rag_utils import stats
from rag_utils.base import checks


@dataclass(frozen=True)
class Kappa:
    """What two raters agree on; kappa, -1 .. 1, is (observed - expected) / (1 - expected), with its bootstrap over items."""

    observed: float  # share of items with the same label, 0 .. 1
    expected: float  # share of chance, 0 .. 1
    kappa: stats.Estimate
    asymptotic: tuple[float, float]  # by the large-sample variance of Fleiss, Cohen and Everitt 1969; may leave -1 .. 1


def cohen(a, b, *, resamples: int = 1000, seed: int = 0) -> Kappa:
    """Cohen's kappa of two raters, whose chance is the product of their shares.

    a, b    : (n,) 0/1 or bool, row i of both about the same item, n >= 2
    returns : Kappa
    raises  : ValueError if shapes differ, a label is not 0 or 1, or both raters always say the same one thing: kappa is 0 / 0 then
    source  : Cohen 1960; asymptotic interval by statsmodels

    >>> raters = cohen([1, 1, 1, 1, 0, 0, 1, 0, 1, 0], [1, 1, 1, 0, 0, 0, 1, 1, 1, 0])
    >>> round(raters.observed, 2), round(raters.expected, 2), round(raters.kappa.value, 3)
    (0.8, 0.52, 0.583)
    """
    labels = _pair(a, b)
    observed, expected, kappa = _kappa(labels, lambda shares: _chance(*shares.T), resamples, seed)
    with np.errstate(invalid="ignore"):  # a test that statsmodels adds, and that is not used
        known = cohens_kappa(np.bincount(labels @ (2, 1), minlength=4).reshape(2, 2))
    return Kappa(observed, expected, kappa, (float(known.kappa_low), float(known.kappa_upp)))


def fleiss(ratings, *, resamples: int = 1000, seed: int = 0) -> stats.Estimate:
    """Fleiss' kappa of several raters, whose chance is that of the pooled labels, with its bootstrap interval over items.

    ratings : (n, raters) 0/1 or bool, n >= 2, at least 2 raters
    returns : stats.Estimate, -1 .. 1
    raises  : ValueError if the shape is wrong, a label is not 0 or 1, or all labels are one
    source  : Fleiss 1971

    >>> round(fleiss([[1, 1, 1], [1, 1, 0], [0, 0, 0], [0, 0, 1]], resamples=100).value, 3)
    0.333
    """
    labels = checks.flags("ratings", ratings, dimensions=2).astype(int)
    if min(labels.shape) < 2:
        raise ValueError(f"ratings must be (items, raters) with at least 2 of both; got shape {labels.shape}")
    *_, kappa = _kappa(labels, lambda shares: _chance(shares.mean(axis=1), shares.mean(axis=1)), resamples, seed)
    return kappa


def kappa_at(prevalence, sensitivity: float, specificity: float):
    """Cohen's kappa of a rater with a fixed error rate against the truth, by the share of items whose true label is 1.

    prevalence               : number or array, 0 .. 1
    sensitivity, specificity : share of the true 1 and of the true 0 that the rater labels so
    returns                  : the same shape; 0 at a prevalence of 0 or 1, unless the rater makes no error
    raises                   : ValueError if a number is not 0 .. 1, or kappa is 0 / 0
    source                   : Feinstein and Cicchetti 1990, the first paradox

    >>> kappa_at(np.array([0.5, 0.9]), 0.9, 0.9).round(2)
    array([0.8 , 0.59])
    """
    p = checks.numbers("prevalence", np.atleast_1d(prevalence), low=0, high=1).reshape(np.shape(prevalence))
    sensitivity = checks.number("sensitivity", sensitivity, low=0, high=1)
    specificity = checks.number("specificity", specificity, low=0, high=1)
    observed = p * sensitivity + (1 - p) * specificity
    expected = _chance(p, p * sensitivity + (1 - p) * (1 - specificity))
    if (expected == 1).any():
        raise ValueError("kappa is not defined where truth and rater always say the same one thing")
    return (observed - expected) / (1 - expected)


def _pair(a, b):
    """The labels of two raters, (n, 2)."""
    a, b = checks.flags("a", a).astype(int), checks.flags("b", b).astype(int)
    if checks.same_length(a=a, b=b) < 2:
        raise ValueError(f"a and b must hold at least 2 labels; got {len(a)}")
    return np.column_stack([a, b])


def _kappa(labels, chance, resamples, seed):
    """Observed agreement, that of chance and kappa of (n, raters) labels; chance is a function of the (block, raters) shares of 1."""
    if labels.min() == labels.max():
        raise ValueError(f"kappa is not defined where all {labels.size} labels are {labels.min()}")
    (n, raters), right = labels.shape, labels.sum(axis=1)
    same = (right * (right - 1) + (raters - right) * (raters - right - 1)) / (raters * (raters - 1))

    def agreement(counts):
        return counts @ same / n, chance(counts @ labels / n)

    (observed,), (expected,) = agreement(np.ones((1, n), int))
    resampled = map(agreement, stats.row_counts(np.arange(n), resamples=resamples, rng=seed))
    with np.errstate(invalid="ignore", divide="ignore"):
        draws = np.concatenate([(agreed - by_chance) / (1 - by_chance) for agreed, by_chance in resampled])
    return float(observed), float(expected), stats.estimate_of((observed - expected) / (1 - expected), draws, n)


def _chance(share, other):
    """Agreement of two raters who say 1 at random, each as often as said."""
    return share * other + (1 - share) * (1 - other)
