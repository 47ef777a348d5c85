"""How unsure is a reader? From the log-likelihoods of its samples, from their clusters, or from how much they agree.

In nats unless "returns" says else; none looks at a reference answer. n samples of one question; an affinity says how far two agree.
"""

import math

import numpy as np
from scipy.special import entr, logsumexp

from rag_utils.base import checks
from rag_utils.seper import cluster_weights

ROUNDING = 1e-6  # by which a diagonal may miss its ones


def predictive_entropy(log_likelihood):
    """Mean negative log-likelihood of the samples: how surprising the reader finds what it says itself.

    log_likelihood : (n,) nats, one per sample: summed over its tokens, or the mean per token for the length-normalised form
    returns        : float, nats, 0 and above
    raises         : ValueError if not one-dimensional, empty, not finite or above 0
    source         : Kuhn et al. 2023; "Entropy" in SePer, Table 2. A Monte Carlo estimate of the entropy over texts

    >>> round(predictive_entropy([-0.2, -0.5, -1.0, -0.1]), 4)
    0.45
    """
    return -float(checks.log_likelihoods("log_likelihood", log_likelihood).mean())


def perplexity(token_log_likelihood):
    """How many tokens the reader hesitates between on average, along one text.

    token_log_likelihood : (tokens,) nats
    returns              : float, 1 (certain of every token) and above
    raises               : ValueError if not one-dimensional, empty, not finite or above 0, or if the mean is below -700
    source               : exp of the mean negative log-likelihood of a token; "Perplexity" in SePer, Table 2. Not semantic perplexity

    >>> round(perplexity(np.log([0.5, 0.125])), 4)   # the geometric mean of 2 and 8
    4.0
    """
    surprise = -float(checks.log_likelihoods("token_log_likelihood", token_log_likelihood).mean())
    if surprise > 700:
        raise ValueError(f"token_log_likelihood must have a mean above -700 nats; got {-surprise}")
    return math.exp(surprise)


def semantic_entropy(log_likelihood, clusters):
    """Entropy over meanings: 0 if all samples mean the same, log K if K meanings weigh the same.

    log_likelihood : (n,) nats, as in `seper.sample_weights`: -inf is a sample that cannot happen, and a wrong sign is not seen
    clusters       : (n,) int, ids of 0 and above
    returns        : float, nats, 0 .. log K
    raises         : ValueError as `seper.cluster_weights`
    source         : Farquhar et al. 2024: -sum p(C) log p(C), normalised over the samples. Not `monte_carlo_semantic_entropy`

    >>> round(semantic_entropy(np.log([0.5, 0.3, 0.2]), [0, 1, 0]), 4)   # weights 0.7 and 0.3
    0.6109
    """
    return _entropy(cluster_weights(log_likelihood, clusters))


def monte_carlo_semantic_entropy(log_likelihood, clusters):
    """Entropy over meanings as a mean over the samples: minus the logarithm of what the members of a sample's cluster add up to.

    log_likelihood : (n,) nats, of whole replies and not normalised
    clusters       : (n,) int, ids of 0 and above
    returns        : float, nats, -log n and above; below 0 where a likely reply was drawn, and so counted, several times
    raises         : ValueError as `predictive_entropy`, and if clusters is not (n,), not whole or negative
    source         : Kuhn et al. 2023, as lm-polygraph has it by default. In SePer, eq. 5 the sum is over clusters, not samples

    >>> round(monte_carlo_semantic_entropy(np.log([0.5, 0.2, 0.1]), [0, 1, 0]), 4)   # -(2 log 0.6 + log 0.2) / 3
    0.877
    """
    clusters, nats = checks.wholes("clusters", clusters), checks.log_likelihoods("log_likelihood", log_likelihood)
    checks.same_length(clusters=clusters, samples=nats)
    return -float(np.mean([logsumexp(nats[clusters == own]) for own in clusters]))


def discrete_semantic_entropy(clusters):
    """Entropy over meanings, each weighing its share of the samples; needs no log-likelihood.

    clusters : (n,) int, ids of 0 and above
    returns  : float, nats, 0 .. log K
    raises   : ValueError as `seper.cluster_weights`
    source   : Farquhar et al. 2024, discrete variant

    >>> round(discrete_semantic_entropy([0, 0, 1, 1]), 4)
    0.6931
    """
    return _entropy(cluster_weights(np.zeros(np.size(clusters)), clusters, weighting="frequency"))


def eigenvalue_sum(affinity):
    """U_eigv, a continuous count of meanings: k if the samples fall into k groups that agree fully within and not at all across.

    affinity : (n, n) symmetric, in [0, 1], ones on the diagonal
    returns  : float, 1 .. n; the sum of max(0, 1 - eigenvalue) over the eigenvalues of I - D^-1/2 W D^-1/2
    raises   : ValueError if not such a matrix
    source   : Lin et al. 2024 (UQ-NLG). D are the row sums with the diagonal

    >>> round(eigenvalue_sum(np.kron(np.eye(2), np.ones((3, 3)))), 4)
    2.0
    """
    affinity = checked_affinity(affinity)
    degree = affinity.sum(axis=1)
    laplacian = np.eye(len(affinity)) - affinity / np.sqrt(np.outer(degree, degree))
    return float(np.maximum(0, 1 - np.linalg.eigvalsh(laplacian)).sum())


def degree_uncertainty(affinity):
    """U_deg: how little two samples agree on average, a sample with itself included: trace(n I - D) / n^2.

    affinity : (n, n) symmetric, in [0, 1], ones on the diagonal
    returns  : float, 0 (all agree) .. 1 - 1/n (none do)
    raises   : ValueError if not such a matrix
    source   : Lin et al. 2024 (UQ-NLG), D with the diagonal of W. Deviation: their code divides by n, so its values are n times these

    >>> degree_uncertainty(np.kron(np.eye(2), np.ones((3, 3))))
    0.5
    """
    affinity = checked_affinity(affinity)
    n = len(affinity)
    return float((n - affinity.sum(axis=1)).sum() / n**2)


def kernel_language_entropy(weights, *, kernel="heat", t=0.3, kappa=1.0, nu=1.0, scaled=False):
    """Von Neumann entropy of a graph kernel over the samples: the more they agree, the lower; how low, t or kappa and nu decide.

    weights        : (n, n) symmetric, 0 and above, edge weights of the graph; the diagonal plays no part
    kernel         : "heat": exp(-t L), or "matern": (2 nu / kappa^2 I + L)^-nu, with L = D - W
    t, kappa, nu   : above 0; t for "heat" only, kappa and nu for "matern" only. DENSE, Tables 1 and 8 have t = 0.1, kappa = nu = 3
    scaled         : divide by log n, so that 1 is the most
    returns        : float, nats, 0 .. log n (0 .. 1 if scaled)
    raises         : ValueError if weights is not such a matrix, a parameter is not above 0, the name is unknown, or n = 1 is to be scaled
    source         : Nikitin et al. 2024, eqs. for K_heat and K_matern; the kernel is scaled to a unit diagonal and divided by n. How the
                     weights come about is not decided here: the authors' code builds a complete graph in its unweighted mode

    >>> round(kernel_language_entropy(np.zeros((4, 4)), scaled=True), 4)   # nobody agrees
    1.0
    >>> [round(kernel_language_entropy(np.ones((4, 4)), t=t, scaled=True), 4) for t in (0.1, 50.0)]   # all agree, short and long diffusion
    [0.9878, 0.0]
    """
    checks.one_of("kernel", kernel, ("heat", "matern"))
    for name, value in (("t", t), ("kappa", kappa), ("nu", nu)):
        checks.number(name, value, above=0, low=1e-50, high=1e50)
    weights = checks.square("weights", weights, mirrored=True, low=0, high=1e100)
    n = len(weights)
    if checks.flag("scaled", scaled) and n == 1:
        raise ValueError("weights must cover at least two samples to be scaled by log n; got one")
    eigenvalues, vectors = np.linalg.eigh(np.diag(weights.sum(axis=1)) - weights)
    eigenvalues = np.maximum(0, eigenvalues)
    # both 1 at eigenvalue 0: the unit diagonal takes out any factor
    spectrum = np.exp(-t * eigenvalues) if kernel == "heat" else (1 + eigenvalues * kappa**2 / (2 * nu)) ** -nu
    matrix = (vectors * spectrum) @ vectors.T
    diagonal = np.sqrt(np.diag(matrix))
    entropy = _entropy(np.maximum(0, np.linalg.eigvalsh(matrix / np.outer(diagonal, diagonal) / n)))
    return entropy / math.log(n) if scaled else entropy


def _entropy(shares):
    """-sum p log p in nats, 0 log 0 = 0; rounding must not carry it below 0 or above log n."""
    return min(math.log(len(shares)), max(0.0, float(entr(shares).sum())))


def checked_affinity(matrix, *, name="affinity"):
    """The matrix as floats; ValueError if it is not (n, n), symmetric, in [0, 1], with ones on the diagonal."""
    matrix = checks.square(name, matrix, mirrored=True, low=0, high=1)
    if not np.allclose(np.diag(matrix), 1, rtol=0, atol=ROUNDING):
        raise ValueError(f"{name} must have ones on the diagonal; got {np.diag(matrix).min()}")
    return matrix
