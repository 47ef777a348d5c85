"""SePer, semantic perplexity: how much of a reader's belief lies on the right answer, and what a passage adds to it.

A question is asked N times. Each sample has a weight; samples that mean the same form a cluster.
N samples, A reference answers, K clusters; log-likelihoods in nats, of the model's own distribution, not of the one at a temperature.
"""

import numpy as np

from rag_utils.base import checks

WEIGHTINGS = ("likelihood", "frequency")


def cluster(entails, *, join="earliest"):
    """The cluster of each sample: it joins the earliest one whose first member it entails and is entailed by.

    entails : (N, N) bool, row = premise, column = hypothesis; the diagonal, True or False, changes nothing
    join    : "earliest", or "latest": a later first member takes over samples that are in an earlier cluster
    returns : (N,) int, ids 0, 1, ... in the order of each cluster's first member
    raises  : ValueError if not square, empty or not True and False; unknown names
    source  : SePer, Definition 2 and eq. 4; Kuhn et al. 2023. Two members need not entail each other. "latest" is the authors' code

    >>> cluster([[True, True, False], [True, True, True], [False, True, True]])   # 2 agrees with 1, not with 0, who leads
    array([0, 0, 1])
    >>> cluster([[True, False, True], [False, True, True], [True, True, True]], join="latest")   # 2 agrees with 0 and with 1
    array([0, 1, 1])
    """
    checks.one_of("join", join, ("earliest", "latest"))
    entails = checks.square("entails", checks.flags("entails", entails, dimensions=2)).astype(bool)
    both = entails & entails.T
    first_members, ids = [], []
    for sample, agrees in enumerate(both):
        agreed = np.flatnonzero(agrees[first_members])
        ids.append(agreed[0 if join == "earliest" else -1] if agreed.size else len(first_members))
        if not agreed.size:
            first_members.append(sample)
    return np.array(ids)


def sample_weights(log_likelihood, *, weighting="likelihood"):
    """The weight of each sample.

    log_likelihood : (N,) nats; -inf is a sample that cannot happen. A constant added to all changes nothing: a wrong sign is not seen here
    weighting      : "likelihood": the softmax of log_likelihood over the samples; "frequency": 1/N each
    returns        : (N,) float, 0 .. 1, sum 1
    raises         : ValueError if not one-dimensional, empty, NaN or +inf, if the name is unknown, and for "likelihood" if all are -inf
    source         : SePer, eq. 7, divided by the sum over the samples, as in the authors' code; eqs. 6 and 9 and Algorithm 1 do not divide.
                     A sum over the tokens gives the paper's product, a mean the authors' code. By likelihood a likely text counts twice
                     over: it is drawn often, each time with a high weight. Only "frequency" is the unbiased estimate of eq. 9

    >>> sample_weights(np.log([0.3, 0.2, 0.1])).round(4)
    array([0.5   , 0.3333, 0.1667])
    >>> sample_weights([-1000.0, -1000.0, -np.inf])
    array([0.5, 0.5, 0. ])
    """
    checks.one_of("weighting", weighting, WEIGHTINGS)
    log_likelihood = checks.numbers("log_likelihood", log_likelihood, finite=False)
    if np.isnan(log_likelihood).any() or np.isposinf(log_likelihood).any():
        raise ValueError("log_likelihood must not hold NaN or +inf")
    if weighting == "frequency":
        return np.full(len(log_likelihood), 1 / len(log_likelihood))
    if np.isneginf(log_likelihood.max()):
        raise ValueError("log_likelihood must hold at least one sample that can happen; got -inf only")
    with np.errstate(over="ignore"):  # what is less likely by more than a float can hold has no weight
        weights = np.exp(log_likelihood - log_likelihood.max())
    return weights / weights.sum()


def cluster_weights(log_likelihood, clusters, *, weighting="likelihood"):
    """The weight of each cluster: the sum over its members, p(C | q).

    log_likelihood : (N,) nats, as in `sample_weights`, and so is weighting
    clusters       : (N,) int, ids of 0 and above
    returns        : (K,) float in the order of the ids that occur, sum 1
    raises         : ValueError as `sample_weights`, and if clusters is not (N,), not whole or negative
    source         : SePer, eq. 6, inner sum

    >>> cluster_weights(np.log([0.5, 0.3, 0.2]), [0, 1, 0]).round(4)
    array([0.7, 0.3])
    """
    clusters, weights = checks.wholes("clusters", clusters), sample_weights(log_likelihood, weighting=weighting)
    checks.same_length(clusters=clusters, samples=weights)
    _, places = np.unique(clusters, return_inverse=True)
    return np.bincount(places, weights=weights)


def soft(log_likelihood, kernel, *, over_answers="mean", weighting="likelihood"):
    """SePer_S: the reader's belief in the answer, each sample counted as far as it agrees with it.

    log_likelihood : (N,) nats, as in `sample_weights`, and so is weighting
    kernel         : (N, A) in [0, 1], how far sample i entails answer a; the authors' code takes the larger of both directions
    over_answers   : "mean" of the per-answer beliefs, or "max", the largest
    returns        : float, 0 .. 1
    raises         : ValueError as `sample_weights`, and if kernel is not (N, A), A of 1 or more, or not in [0, 1]; unknown names
    source         : SePer, eqs. 9 and 10, Algorithm 1 (SePer_S): per sample; eq. 9: per cluster. "max": their code, which mixes up the axes

    >>> likelihoods = [0.5, 0.3, 0.2]
    >>> round(soft(np.log(likelihoods), [[1.0], [0.5], [0.0]]), 4)   # 0.5 + 0.3 / 2
    0.65
    >>> two_answers = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]           # beliefs 0.5 and 0.5
    >>> round(soft(np.log(likelihoods), two_answers, over_answers="max"), 4)
    0.5
    """
    checks.one_of("over_answers", over_answers, ("mean", "max"))
    weights = sample_weights(log_likelihood, weighting=weighting)
    kernel = checks.numbers("kernel", kernel, dimensions=2, low=0, high=1)
    checks.same_length(kernel=kernel, samples=weights)
    return _over_answers(weights @ kernel, over_answers)


def hard(log_likelihood, clusters, matches, *, over_answers="mean", weighting="likelihood"):
    """SePer_H: the reader's belief in the answer, the weight of the clusters that mean the same as it.

    log_likelihood : (N,) nats, as in `sample_weights`, and so is weighting
    clusters       : (N,) int, as `cluster` returns them
    matches        : (K, A) bool, whether cluster k means answer a: all its members (Algorithm 1), or its first one (the authors' code)
    over_answers   : "mean" or "max" of the per-answer beliefs, or "any": the weight of the clusters that match at least one answer
    returns        : float, 0 .. 1; "max" <= "any", but for rounding
    raises         : ValueError as `cluster_weights`, if an id of 0 .. K - 1 does not occur, if matches is not such; unknown names
    source         : SePer, eqs. 8 to 10, Algorithm 1 (SePer_H). "any" is what the authors' code means to do; it stops with a NameError

    >>> log_likelihood, clusters = np.log([0.5, 0.3, 0.2]), [0, 1, 0]    # clusters weigh 0.7 and 0.3
    >>> matches = [[True, False], [False, True]]
    >>> [round(hard(log_likelihood, clusters, matches, over_answers=how), 4) for how in ("mean", "max", "any")]
    [0.5, 0.7, 1.0]
    """
    checks.one_of("over_answers", over_answers, ("mean", "max", "any"))
    weights = cluster_weights(log_likelihood, clusters, weighting=weighting)
    matches = checks.flags("matches", matches, dimensions=2)
    if not len(matches) == len(weights) == np.max(clusters) + 1:
        got = f"shape {matches.shape} for {len(weights)} clusters with ids up to {np.max(clusters)}"
        raise ValueError(f"matches must be (K, A) and each id 0 .. K - 1 must occur; got {got}")
    if over_answers == "any":
        matches = matches.any(axis=1, keepdims=True)
    return _over_answers(weights @ matches, over_answers)


def utility(after, before):
    """Delta-SePer: how much belief in the answer the passages add; below 0 if they mislead.

    after, before : SePer with and without the passages, 0 .. 1
    returns       : float, -1 .. 1
    raises        : ValueError if one is not a number from 0 to 1
    source        : SePer, eqs. 1 and 11, Algorithm 1. The paper calls this difference of probabilities a reduction of perplexity

    >>> utility(1.0, 0.25)
    0.75
    """
    return checks.number("after", after, low=0, high=1) - checks.number("before", before, low=0, high=1)


def _over_answers(beliefs, how):
    """One belief from one per answer; a sum of weights may exceed 1 in the last digit."""
    return min(1.0, float(beliefs.mean() if how == "mean" else beliefs.max()))
