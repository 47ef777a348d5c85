"""MoI, mixture of intervention: what a passage is worth apart from its place in the prompt, and a place apart from what stands there.

The passages are shown in several orders and each order gets a score, `saliency`. `fit` explains score i as sum_j a_j u_pi_i[j]: the
utility u of the passage at place j, weighed by the position coefficient a_j; a is at least 0 and sums to 1. N passages, of which an
order shows the first L. Passages are numbered 0 .. N - 1 in the retriever's order, places from the beginning of the prompt.

What scores without noise can tell. With v the mean utility, a score is v + sum_j a_j (u_pi[j] - v).

* L < N: all orders together fix v and every product a_j (u_p - v). Summed over j these give u_p - v, as a sums to 1. So u is
  fixed, value by value, and with it a, unless all utilities are equal: then any a will do.
* L = N: every order shows every passage, so a score is also v + sum_j (a_j - 1/N) (u_pi[j] - v). Then 1/N + c (a - 1/N) and
  v + (u - v) / c fit as well, for every c that leaves a at least 0; c below 0 turns the ranking round. A uniform a says nothing of u.
* N cyclic orders, pruned or not: N scores, which some u meets exactly for every a whose circulant matrix can be inverted.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.special import log_softmax, softmax

from rag_utils.base import checks

SIGNS = ("free", "decreasing position", "pointwise prior")
ROUNDING = 1e-9  # share of the largest number below which a difference is that of floating point
SINGULAR = 1e-7  # share of the largest singular value below which another counts as 0
REACHED = 3  # starts that must arrive at the least residual before it is believed to be the least
BOUNDS = {"low": -1e100, "high": 1e100}  # of a score; its square must still be a number
MOST_PASSAGES = 10_000
MOST_NUMBERS = 10**8  # in the orders drawn at once
MOST_ROUNDS = 8  # rounds of starts after which the search for it ends
SAME = 1e-3  # by which two solutions may differ and still count as one; position 0 .. 1, utility in shares of its range


@dataclass(frozen=True, eq=False)
class Fit:
    """What the scores of the orders of one question say."""

    utility: np.ndarray  # (N,) in the unit of the scores
    position: np.ndarray  # (L,) 0 .. 1, sum 1
    residual: float  # root mean square of score minus model, in the unit of the scores
    identified: bool  # whether the tests of `fit` find no other utility and position that fit as well: evidence, not proof
    rank: int  # of the Jacobian at this solution; N + L - 1 if no small change leaves all scores as they are
    rankings: int  # different rankings among the equally good fits that were found; may be 1 where not identified


def cyclic_orders(n, *, prefix=None):
    """The N orders that begin with each passage in turn and go round.

    n       : int, passages, 1 .. 10,000
    prefix  : int, 1 .. n, how many passages of each order are shown; None is all
    returns : (n, L) int, row k is k, k + 1, ...; ValueError if n or prefix is not such a number
    source  : MoI, eqs. 5 to 9

    >>> cyclic_orders(4, prefix=3)
    array([[0, 1, 2],
           [1, 2, 3],
           [2, 3, 0],
           [3, 0, 1]])
    """
    n, length = _sizes(n, prefix)
    return (np.arange(n)[:, None] + np.arange(length)) % n


def random_orders(n, m, *, prefix=None, rng):
    """m orders drawn at random, each independent of the others, so that an order may come twice.

    n, prefix : as in `cyclic_orders`
    m         : int, orders, 1 .. 10**8 / n; the paper takes 3 n
    rng       : seed or numpy Generator
    returns   : (m, L) int
    raises    : ValueError if n, m or prefix is not such a number, or rng is None or no seed
    source    : MoI, section 3.2.1
    """
    n, length = _sizes(n, prefix)
    m = checks.whole("m", m, least=1, most=MOST_NUMBERS // n)
    return checks.generator(rng).permuted(np.tile(np.arange(n), (m, 1)), axis=1)[:, :length]


def prefix_length(scores, *, share=0.9, temperature=1.0, least=2):
    """How many passages to show, by what the retriever thinks of them: the fewest whose softmax weights reach the share.

    scores      : (N,) retriever scores, higher is better
    share       : above 0, at most 1
    temperature : 1e-100 and above; the scores are divided by it. Cosines need one of about 0.05, BM25 scores one of some units
    least       : int, 1 .. N, the shortest length to return; with 1 passage there is no position to speak of
    returns     : int, least .. N
    raises      : ValueError if scores are not finite or a parameter is out of range
    source      : ours; MoI, Table 6 and section 4.3, name variable pruning with retriever scores and do not define it. One length for
                  all orders of a question, so that every place has one coefficient

    >>> prefix_length([5.0, 4.0, 1.0, 0.0]), prefix_length([1.0, 1.0, 1.0, 1.0])
    (2, 4)
    """
    scores = _scores("scores", scores)
    least = checks.whole("least", least, least=1, most=len(scores))
    checks.number("share", share, above=0, high=1)
    checks.number("temperature", temperature, low=1e-100)
    reached = np.cumsum(np.sort(softmax(scores / temperature))[::-1])
    return min(len(scores), max(least, 1 + int((reached < share - ROUNDING).sum())))


def saliency(query, passages=None, *, prior=True, form="log"):
    """The score of each order of one question, from how likely the reader finds the question and the passages.

    query    : (m,) nats, log P(question | passages in this order), summed over the tokens
    passages : (m,) nats, log P(passages in this order), summed over the tokens; may be None without `prior`
    prior    : whether the second factor counts
    form     : "log": the logarithm of the product, minus its mean over the orders; "probability": the product, divided by its sum
    returns  : (m,) float; nats of sum 0 for "log", 0 .. 1 of sum 1 for "probability"
    raises   : ValueError if an array is no list of finite numbers of at most 0, lengths differ, passages is missing, the name is unknown
    source   : MoI, eq. 3, without `prior` the QG variant. The bare product would underflow. To subtract the mean or to divide by the sum
               changes no fit's position or ranking; which of the two forms is taken changes both

    >>> saliency([-10.0, -12.0], [-900.0, -899.0])
    array([ 0.5, -0.5])
    >>> saliency(np.log([0.3, 0.1]), prior=False, form="probability").round(4)
    array([0.75, 0.25])
    """
    checks.one_of("form", form, ("log", "probability"))
    product = checks.log_likelihoods("query", query)
    if checks.flag("prior", prior):
        passages = checks.log_likelihoods("passages", passages)
        checks.same_length(query=product, passages=passages)
        product = product + passages
    return product - product.mean() if form == "log" else np.exp(log_softmax(product))


def predict(orders, position, utility):
    """The model's score of each order: sum_j a_j u_pi[j].

    orders   : (m, L) int, row i is the passages of order i from the first place on
    position : (L,) float
    utility  : (N,) float
    returns  : (m,) float
    raises   : ValueError if the shapes do not fit, a number is not finite or a passage comes twice in an order
    source   : MoI, eq. 4

    >>> predict([[1, 0, 2], [2, 1, 0]], [0.5, 0.5, 0.0], [0.2, 0.4, 0.9])
    array([0.3 , 0.65])
    """
    orders, position, utility = _model(orders, position, utility)
    return utility[orders] @ position


def fit(orders, scores, n, *, sign="free", pointwise=None, starts=24, rng=0):
    """Utility of the passages and coefficients of the places that explain the scores with the least squared error.

    orders    : (m, L) int, passages 0 .. n - 1 from the first place on, none twice in a row
    scores    : (m,) float
    n         : int, passages
    sign      : which of several equally good fits. "free": any. "decreasing position": only a_1 >= a_2 >= ... is allowed. "pointwise
                prior": the one whose utility correlates most with `pointwise`
    pointwise : (n,) float, score of each passage alone; for "pointwise prior" only
    starts    : int, 1 .. 10,000, positions in a round; 8 rounds, one where (2) fails, fewer once 3 arrive at the least residual
    rng       : seed or numpy Generator, for the starts
    returns   : Fit. Utilities are rounded to 1e-10 of the spread of the scores. A passage that is in no order gets the mean score
    raises    : ValueError if orders, scores or n are not such, an option is out of range, the name is unknown or pointwise is missing
    source    : MoI, section 3.1, which names no solver. For a given position the best utility is a linear least-squares solution, so
                only the position is searched (variable projection)

    A fit counts as identified if (1) the Jacobian has rank n + L - 1, so that there is nothing to move along; (2) of the orders n + L are
    linearly independent, one more than there are unknowns, or as many as there can be; (3) at least 3 starts reach the least residual
    that any found, and all that do arrive at the same utility and position. Scores without noise from L (n - 1) + 1 independent orders, as
    many as there can be for L < n, have one solution by linear algebra; with fewer the starts are evidence: all may have missed a better
    fit, so take more where a residual stays. Noise is not looked at: equal passages, each with an error of its own, pass for identified.

    To share the position among questions, number their passages through: question 2 has passages n .. 2 n - 1, and so on.

    >>> true_position, true_utility = [0.5, 0.3, 0.2], [0.1, 0.9, 0.4, 0.3, 0.2]
    >>> orders = random_orders(5, 15, prefix=3, rng=1)
    >>> fitted = fit(orders, predict(orders, true_position, true_utility), 5)
    >>> fitted.identified, fitted.position.round(4), fitted.utility.round(4)
    (True, array([0.5, 0.3, 0.2]), array([0.1, 0.9, 0.4, 0.3, 0.2]))
    >>> cyclic = cyclic_orders(5)
    >>> fit(cyclic, predict(cyclic, [0.4, 0.25, 0.15, 0.12, 0.08], true_utility), 5).identified
    False
    """
    checks.one_of("sign", sign, SIGNS)
    (orders, scores, n), starts = _problem(orders, scores, n), checks.whole("starts", starts, least=1, most=10_000)
    pointwise, rng = _pointwise(pointwise, n, sign), checks.generator(rng)
    middle, spread = scores.mean(), scores.std()
    if spread <= ROUNDING * np.abs(scores).max():
        middle, spread = scores[0], 0.0
    target = (scores - middle) / spread if spread else np.zeros(len(scores))
    length = orders.shape[1]
    one_hot = (orders[:, :, None] == np.arange(n)).reshape(len(orders), -1)  # which passage is at which place
    independent = np.linalg.matrix_rank(one_hot.astype(float))
    enough = independent > n + length - 1 or independent == length * (n - 1) + 1
    best = _search(orders, target, n, sign, starts * (MOST_ROUNDS if enough else 1), starts, rng)
    if sign == "pointwise prior":
        best.sort(key=lambda pair: -_correlation(pair[1], pointwise))
    position, utility = best[0]

    rank = jacobian_rank(orders, position, utility)
    agree = len(best) >= REACHED and all(_same(best[0], other) for other in best)
    utility = middle + spread * utility.round(10)
    return Fit(
        utility=utility,
        position=position,
        residual=float(np.sqrt(np.mean((predict(orders, position, utility) - scores) ** 2))),
        identified=bool(rank == n + length - 1 and enough and agree),
        rank=rank,
        rankings=len({_comparisons(utility).tobytes() for _, utility in best}),
    )


def solve_utility(orders, scores, n, position):
    """The utilities for a position that is known already: a linear least-squares solution.

    orders, scores, n : as in `fit`; n cyclic orders will do
    position          : (L,) float, 0 .. 1, sum 1, for instance of a `fit` to other questions
    returns           : (n,) float, in the unit of the scores
    raises            : ValueError also if the orders under this position leave utilities open
    source            : ours ("calibrated position"): with `position` fixed, eq. 4 is linear and the N cyclic scores settle it

    >>> solve_utility(cyclic_orders(3, prefix=2), [0.7, 0.375, 0.425], 3, [0.75, 0.25]).round(4)
    array([0.8, 0.4, 0.3])
    """
    orders, scores, n = _problem(orders, scores, n)
    position = _scores("position", position, places=orders[0])
    if (least := position.min()) < -ROUNDING or abs(position.sum() - 1) > 1e-6:
        raise ValueError(f"position must be at least 0 and sum to 1; got least {least} and sum {position.sum()}")
    utility, _, rank, _ = np.linalg.lstsq(_weights(orders, position, n), scores, rcond=SINGULAR)
    if rank < n:
        raise ValueError(f"orders under this position must settle {n} utilities; they settle {rank}")
    return utility


def rerank(utility):
    """The passages from the highest utility to the lowest, equal ones in the retriever's order.

    utility : (n,) float
    returns : (n,) int; ValueError if utility is not a filled list of finite numbers
    source  : MoI, section 3.1

    >>> rerank([0.2, 0.9, 0.2, 0.5])
    array([1, 3, 0, 2])
    """
    return np.argsort(-checks.numbers("utility", utility), kind="stable")


def jacobian_rank(orders, position, utility):
    """In how many independent ways the scores move when utility and position move a little, position keeping its sum.

    orders, position, utility : as in `predict`, which raises
    returns                   : int, at most n + L - 1; if less, some change of utility and position leaves all scores as they are
    source                    : ours. The limits 0 and 1 of the position are not looked at

    >>> jacobian_rank(cyclic_orders(4), [0.4, 0.3, 0.2, 0.1], [0.3, 0.1, 0.8, 0.2])   # of 4 + 4 - 1
    4
    """
    orders, position, utility = _model(orders, position, utility)
    apart = utility - utility.mean()
    width = np.abs(apart).max()
    apart = apart / width if width > ROUNDING * np.abs(utility).max() else np.zeros(len(apart))
    by_position = apart[orders[:, :-1]] - apart[orders[:, -1:]]  # the last coefficient pays for the others
    jacobian = np.hstack([by_position, _weights(orders, position, len(utility))])
    return int(np.linalg.matrix_rank(jacobian, tol=SINGULAR * np.linalg.norm(jacobian, 2)))


def _search(orders, target, n, sign, most, starts, rng):
    """(position, utility) of the starts that arrived at the least error; `starts` at a time, until enough have or `most` were tried."""
    length, tried, best = orders.shape[1], [], []
    shape = np.eye(length)
    if sign == "decreasing position":  # the mixtures of a share for the first place only, for the first two, ...
        shape = np.triu(np.ones((length, length)) / np.arange(1, length + 1))
    while len(best) < REACHED and len(tried) < most:
        mixtures = rng.dirichlet(np.ones(length), starts)
        if not tried:
            mixtures[0] = 1 / length
        tried += [_descend(orders, target, n, shape, start) for start in mixtures]
        least = min(error for error, _, _ in tried)
        best = [(position, utility) for error, position, utility in tried if error <= least * (1 + 1e-6) + ROUNDING]
    return best


def _descend(orders, target, n, shape, start):
    """The nearest minimum from one start, (root mean square error, position, utility); the position is a mixture of shape's columns."""

    def linear(mixture):
        weights = _weights(orders, shape @ mixture, n)
        return weights, np.linalg.lstsq(weights, target, rcond=SINGULAR)[0]

    def error(mixture):  # the utility takes up any factor, so the last entry only fixes one
        weights, utility = linear(mixture)
        return np.append(weights @ utility - target, mixture.sum() - 1)

    def slope(mixture):  # Kaufman's: what the best utility for this position cannot follow
        weights, utility = linear(mixture)
        moved = utility[orders] @ shape
        moved -= weights @ np.linalg.lstsq(weights, moved, rcond=SINGULAR)[0]
        return np.vstack([moved, np.ones(len(mixture))])

    tight = {"ftol": 1e-13, "xtol": 1e-13, "gtol": 1e-14, "max_nfev": 80}
    mixture = least_squares(error, start, slope, bounds=(0, np.inf), method="dogbox", **tight).x
    mixture = mixture / mixture.sum()
    weights, utility = linear(mixture)
    return float(np.sqrt(np.mean((weights @ utility - target) ** 2))), shape @ mixture, utility


def _weights(orders, position, n):
    """(m, n): what each passage counts for in each score."""
    weights = np.zeros((len(orders), n))
    np.put_along_axis(weights, orders, np.broadcast_to(position, orders.shape), axis=1)
    return weights


def _same(fitted, other):
    """Whether two pairs of position and utility are the same but for what a descent leaves."""
    scale = max(1.0, np.ptp(fitted[1]))
    return bool(np.abs(fitted[0] - other[0]).max() < SAME and np.abs(fitted[1] - other[1]).max() < SAME * scale)


def _comparisons(utility):
    """(n, n) of -1, 0 and 1: which of two passages is better."""
    apart = np.subtract.outer(utility, utility) / (np.ptp(utility) or 1.0)
    return np.sign(apart.round(6)) + 0.0


def _correlation(x, y):
    """Pearson correlation; 0 if one of them is constant."""
    x, y = x - x.mean(), y - y.mean()
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y) or 1.0))


def _sizes(n, prefix=None):
    n = checks.whole("n", n, least=1, most=MOST_PASSAGES)
    return n, n if prefix is None else checks.whole("prefix", prefix, least=1, most=n)


def _orders(orders, n):
    """Orders as an (m, L) int array of different passages below n."""
    orders = checks.wholes("orders", orders, dimensions=2, high=n - 1)
    twice = (np.diff(np.sort(orders, axis=1)) == 0).any(axis=1)
    if twice.any():
        raise ValueError(f"orders must not hold a passage twice; got {orders[twice][0].tolist()}")
    return orders


def _problem(orders, scores, n):
    n, _ = _sizes(n)
    orders, scores = _orders(orders, n), _scores("scores", scores)
    checks.same_length(orders=orders, scores=scores)
    return orders, scores, n


def _scores(name, values, **alike):
    """Finite numbers, as many as there are of what is alike."""
    values = checks.numbers(name, values, **BOUNDS)
    checks.same_length(**{name: values}, **alike)
    return values


def _model(orders, position, utility):
    utility = _scores("utility", utility)
    orders = _orders(orders, len(utility))
    return orders, _scores("position", position, places=orders[0]), utility


def _pointwise(pointwise, n, sign):
    if (pointwise is None) == (sign == "pointwise prior"):
        got = "None" if pointwise is None else "scores"
        raise ValueError(f'pointwise must be given for sign "pointwise prior" and for it only; got {got} with {sign!r}')
    return None if pointwise is None else _scores("pointwise", pointwise, passages=range(n))
