"""How sure is a number? Intervals, paired comparisons, correlations, and how well an uncertainty ranks the errors.

Rows of one question are not independent. Wherever `groups`, (n,) question ids, is given, the bootstrap draws whole questions. `n` of a
result always counts rows. An interval and the p beside it are one method, so that p is below 0.05 where the interval leaves out 0: the
paired t test of two means, else the bootstrap, inverted (to within one resample).

The defaults are 2000 resamples, percentile intervals at level 0.95 and seed 0. `rng` is a seed or a numpy Generator; the same seed gives
the same interval. A resample on which a statistic does not exist (a correlation of constants, an AUROC of one class) is left out and
counted in `.undefined`. ValueError is raised for NaN, infinity, lists of another shape, fewer than 2 rows or questions, and if more than
half of the resamples are left out.
"""

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from scipy import stats

from rag_utils.base import checks

LEVEL = 0.95  # of every interval
RESAMPLES = 2000
MOST = 10_000_000  # resamples
FEWEST = 40  # resamples, so that both tails beyond the interval hold one
BLOCK = 2_000_000  # numbers held at once while resampling
SUMMABLE = {"low": -1e300, "high": 1e300}  # sums of some millions of them are still numbers
PAIR_ROWS = 2000  # rows up to which a bootstrap holds Kendall's pairs as a matrix; beyond, scipy row by row


@dataclass(frozen=True)
class Estimate:
    """A number with its interval and the count of rows behind it.

    raises : ValueError if a number is not finite, low exceeds high, or n is below 1

    >>> estimate = Estimate(0.2712, 0.19, 0.3551, 80)
    >>> print(estimate)
    0.27 [0.19, 0.36]
    >>> f"{estimate:.3f}", f"{estimate:.0%}"
    ('0.271 [0.190, 0.355]', '27% [19%, 36%]')
    """

    value: float
    low: float
    high: float
    n: int  # rows
    undefined: int = field(default=0, kw_only=True)  # resamples left out because the statistic does not exist there

    def __post_init__(self):
        checks.ordered(self.value, self.low, self.high)
        checks.whole("n", self.n, least=1)
        checks.whole("undefined", self.undefined, least=0)

    def __format__(self, spec):
        """`value [low, high]`, each number in this format, two decimals if none is given."""
        spec = spec or "z.2f"
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"

    def __str__(self):
        return format(self)


@dataclass(frozen=True)
class Difference(Estimate):
    """A mean difference with its interval, the count of rows, and the two-sided p value of "no difference"."""

    p_value: float

    def __post_init__(self):
        super().__post_init__()
        checks.number("p_value", self.p_value, low=0, high=1)


class Correlation(Difference):
    """A correlation coefficient, how far it is from none, with the two-sided p value of "not related"."""


def mean_interval(values, *, groups=None, resamples=RESAMPLES, rng=0):
    """The mean of the values with its percentile bootstrap interval.

    values  : (n,) numbers, n >= 2
    returns : Estimate
    raises  : ValueError if the shape is wrong, a number is not finite, or rows or questions are fewer than 2
    source  : Efron and Tibshirani 1993, chapter 13; whole clusters: Davison and Hinkley 1997, section 3.8. Where all values
              are equal, resampling has no width and would claim certainty: if all are 0, or all 1, it is the interval of
              `proportion_interval`, one trial per question, which holds for any quantity from 0 to 1; of others it stays so

    >>> print(mean_interval([0, 1, 1, 0, 1, 0, 1, 1]))
    0.62 [0.25, 0.88]
    >>> print(mean_interval([0, 0, 0, 0, 0, 0, 0, 0]))
    0.00 [0.00, 0.37]
    """
    values = checks.numbers("values", values, least=2, **SUMMABLE)
    codes = _questions(groups, len(values))
    draws = [counts @ values / counts.sum(axis=1) for counts in row_counts(codes, resamples=resamples, rng=rng)]
    if values[0] in (0, 1) and (values == values[0]).all():
        trials = codes.max() + 1
        return replace(proportion_interval(int(values[0]) * trials, trials), n=len(values))
    return estimate_of(values.mean(), np.concatenate(draws), len(values))


def proportion_interval(successes, n):
    """The share of successes with its exact interval, which has a width at 0 and at n successes too.

    successes, n : int, 0 <= successes <= n, n >= 1; trials must be independent: one per question
    returns      : Estimate
    raises       : ValueError for other counts
    source       : Clopper and Pearson 1934; covers at least 95 %, often more

    >>> print(proportion_interval(0, 40))
    0.00 [0.00, 0.09]
    """
    n = checks.whole("n", n, least=1, most=2**53)
    successes = checks.whole("successes", successes, least=0, most=n)
    interval = stats.binomtest(successes, n).proportion_ci(LEVEL, method="exact")
    return Estimate(successes / n, float(interval.low), float(interval.high), n)


def statistic_interval(statistic, *columns, groups=None, resamples=RESAMPLES, rng=0):
    """Any statistic of the rows with its percentile bootstrap interval: an F1, an accuracy, an AUROC.

    statistic : function of as many arrays as there are columns; returns one number
    columns   : arrays with n rows each, n >= 2; they are resampled together, row by row
    returns   : Estimate, without width where every resample gives the same value
    raises    : ValueError if it is not one finite number of all rows; on a resample it does not exist then, nor where
                it raises ValueError or divides by zero
    source    : as `mean_interval`

    >>> human, judge = np.array([1, 1, 0, 1, 0, 0, 1, 0] * 5), np.array([1, 1, 1, 1, 0, 0, 0, 0] * 5)
    >>> def f1(human, judge):
    ...     return 2 * np.sum(human * judge) / (np.sum(human) + np.sum(judge))
    >>> print(statistic_interval(f1, human, judge))
    0.75 [0.56, 0.88]
    """
    checks.function("statistic", statistic)
    columns = {f"column {i}": _column(f"column {i}", own) for i, own in enumerate(checks.listed("columns", columns))}
    n = checks.same_length(**columns)
    codes, rows = _questions(groups, n), np.arange(n)
    try:
        with np.errstate(all="ignore"):
            value = statistic(*columns.values())
    except ArithmeticError as error:
        value = error
    value = checks.number("the statistic of all rows", int(value) if isinstance(value, bool | np.bool_) else value)

    def resampled(count):
        chosen = np.repeat(rows, count)
        try:
            return float(statistic(*(column[chosen] for column in columns.values())))
        except (ValueError, ArithmeticError):
            return np.nan

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = [resampled(count) for counts in row_counts(codes, resamples=resamples, rng=rng) for count in counts]
    return estimate_of(value, draws, n)


def paired_difference(a, b, *, groups=None):
    """The mean of a - b over the same rows, with the interval and the p of the paired t test: 0 is outside where p is below 0.05.

    a, b    : (n,) numbers, row i of both about the same item by its place (an index is not looked at), n >= 2
    returns : Difference. Rows of one question count together: the standard error is that of their sums, the degrees of freedom are the
              questions less one. No p is below 2 / 2^m, that of m questions that differ and agree in sign; with m of at most 5 the interval
              reaches 0. With no difference anywhere p is 1 and the interval [0, 0]; `proportion_interval(0, n)` bounds how often the two
              may differ elsewhere
    raises  : ValueError if shapes are wrong or differ, a number is not finite, or rows or questions are fewer than 2
    source  : Student 1908; Urbano, Lima and Hanjalic 2019 compare tests of two runs on the same questions. Against a mean over choices,
              which is more skewed: `score.against_chance`

    >>> result = paired_difference([1, 1, 1, 1, 0, 1, 1], [0, 0, 1, 0, 0, 0, 0])
    >>> print(result, round(result.p_value, 4))
    0.71 [0.00, 1.17] 0.0625
    """
    a, b = (checks.numbers(name, values, least=2, **SUMMABLE) for name, values in {"a": a, "b": b}.items())
    codes = _questions(groups, checks.same_length(a=a, b=b))
    gaps, units = a - b, int(codes.max()) + 1
    value, sums = float(gaps.mean()), np.bincount(codes, weights=gaps)
    differ = int(np.sum(np.abs(sums) > 1e-12 * np.abs(gaps).max()))  # less is the rounding of equal sums
    apart = sums - value * np.bincount(codes)
    error = float(np.sqrt(units / (units - 1)) * np.linalg.norm(apart)) / len(gaps)
    low, high = value + error * stats.t.ppf([(1 - LEVEL) / 2, (1 + LEVEL) / 2], units - 1)
    p_value = 2 * stats.t.sf(abs(value) / error, units - 1) if error > 1e-12 * np.abs(gaps).max() else 0.0
    return _floored(Difference(value, float(low), float(high), len(gaps), float(p_value)), differ)


def unpaired_difference(values, second, *, resamples=RESAMPLES, rng=0):
    """The mean of some rows less that of the others, with its bootstrap interval and the p of the same resamples.

    values  : (n,) numbers, a row for each question
    second  : (n,) bool or 0/1: whether a row belongs to the mean that is taken off; at least 2 rows on either side
    returns : Difference; p as in `difference_of`, not below 2 / 2^m with m rows on the smaller side; up to m = 5 the interval reaches 0.
              Rows are drawn together; a resample without one side is left out. Where a side's rows are all equal, `mean_interval`'s two are
              joined and p is a normal distribution's, of the width towards 0; a side all equal but not 0 or 1 adds none
    raises  : ValueError if shapes differ, a number is not finite, or a side has fewer than 2 rows
    source  : Efron and Tibshirani 1993; the joining as in Newcombe 1998, method 10 (there of Wilson's intervals)

    >>> print(unpaired_difference([1, 1, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]))
    0.75 [-0.03, 1.00]
    """
    values, second = checks.numbers("values", values, least=4, **SUMMABLE), checks.flags("second", second)
    checks.same_length(values=values, second=second)
    sides = values[~second], values[second]
    if (fewest := min(map(len, sides))) < 2:
        raise ValueError(f"second must leave 2 rows on either side; got {len(sides[0])} and {len(sides[1])}")
    gap = sides[0].mean() - sides[1].mean()
    if all(np.ptp(side) for side in sides):
        blocks = row_counts(np.arange(len(values)), resamples=resamples, rng=rng)
        with np.errstate(invalid="ignore"):  # of a resample without one side
            draws = [counts @ (values * ~second) / (counts @ ~second) - counts @ (values * second) / (counts @ second) for counts in blocks]
        return _floored(difference_of(gap, np.concatenate(draws), len(values)), fewest)
    a, b = (mean_interval(side, resamples=resamples, rng=rng) for side in sides)
    down, up = np.hypot(a.value - a.low, b.high - b.value), np.hypot(a.high - a.value, b.value - b.low)
    width = down if gap > 0 else up
    p_value = 2 * stats.norm.sf(stats.norm.ppf((1 + LEVEL) / 2) * abs(gap) / width) if width else float(gap == 0)
    return _floored(Difference(float(gap), float(gap - down), float(gap + up), len(values), float(p_value)), fewest)


def holm(p_values, *, of=None):
    """The p values adjusted for their number: rejecting up to alpha makes any error with a chance of at most alpha.

    p_values : (m,) in [0, 1]
    of       : (m,) what each is the p of, such as its Difference, or a table with a row for each; equal tests are one, counted once
    returns  : (m,) float in [0, 1], in the order given; ValueError if p_values are empty or not such, or as many are not in `of`
    source   : Holm 1979; equal to statsmodels, which collects garbage at every call: 0.4 s with a model in memory

    >>> holm([0.01, 0.04, 0.03]).round(4).tolist()
    [0.03, 0.06, 0.06]
    >>> holm([0.01, 0.04, 0.04], of=["a", "b", "b"]).round(4).tolist()
    [0.02, 0.04, 0.04]
    """
    p_values = checks.numbers("p_values", p_values, low=0, high=1)
    told = range(len(p_values)) if of is None else list(of.itertuples(index=False) if isinstance(of, pd.DataFrame) else of)
    checks.same_length(p_values=p_values, of=told)
    tests = list(zip(p_values.tolist(), told, strict=True))
    different = sorted(dict.fromkeys(tests), key=lambda test: test[0])
    stepped = np.maximum.accumulate([p for p, _ in different] * np.arange(len(different), 0, -1)).clip(max=1)
    adjusted = dict(zip(different, stepped, strict=True))
    return np.array([adjusted[test] for test in tests])


def correlation(x, y, *, method, groups=None, resamples=RESAMPLES, rng=0):
    """How far y rises with x, -1 .. 1, with its bootstrap interval and the p of the same resamples.

    x, y    : (n,) numbers, n >= 3, neither constant
    method  : "pearson" | "spearman" | "kendall" (tau-b: pairs in order less reversed, over the root of those untied in x times those in y)
    returns : Correlation; p as in `difference_of`, not below 2 / 2^m, of m rows (with groups, questions) without the commonest value of x,
              or of y if fewer; up to m = 5 the interval reaches 0. Little above, or with some ten questions, chance passes in up to 0.14
              of cases. A level shared by a question's rows counts; not so in `score.agree.within`
    raises  : ValueError also if x or y is constant but for rounding
    source  : Kendall 1945 (tau-b); eRAG, Table 1; Efron and Tibshirani 1993, section 15.4

    >>> round(correlation([1, 2, 3, 4, 5], [1, 3, 2, 5, 4], method="kendall").value, 4)
    0.6
    """
    checks.one_of("correlation method", method, _METHODS)
    x, y = _varied(3, x=x, y=y)
    codes = _questions(groups, len(x))
    test, draw = _METHODS[method]
    draws = [draw(counts, x, y) for counts in row_counts(codes, resamples=resamples, rng=rng)]
    result = difference_of(test(x, y).statistic, np.concatenate(draws), len(x))
    return Correlation(**vars(_floored(result, min(_differing(column, codes) for column in (x, y)))))


def largest_kendall(x, y):
    """The largest tau-b that any pairing of these values allows: below 1 if one has ties that the other has not.

    x, y    : (n,) numbers, n >= 2, neither constant; their order plays no part
    returns : float, 0 .. 1: tau-b of both sorted, which leaves no pair in the wrong order and the fewest ties; raises as `correlation`

    >>> round(largest_kendall([0, 0, 1, 1], [1, 2, 3, 4]), 4)   # 4 pairs in order / sqrt(4 * 6)
    0.8165
    """
    x, y = _varied(2, x=x, y=y)
    return float(stats.kendalltau(np.sort(x), np.sort(y)).statistic)


def correlation_difference(a, b, target, *, method, groups=None, resamples=10_000, rng=0):
    """How much better a goes with the target than b does: the difference of the two correlations, over the same rows.

    a, b, target : (n,) numbers, n >= 3, none constant
    method       : as in `correlation`
    resamples    : 10,000 unless told, since p cannot be below 2 / (1 + resamples)
    returns      : Difference, -2 .. 2; raises as `correlation`; p as there, m by the target, or by a or b, whichever varies more, if fewer.
                   The other, where all but one to three rows are equal, passes by chance in 0.27 to 0.11 of cases
    source       : Efron and Tibshirani 1993, section 15.4

    >>> target, noise = np.arange(30), np.random.default_rng(0).normal(size=30)
    >>> gap = correlation_difference(target + noise, target + 30 * noise, target, method="pearson", resamples=999)
    >>> gap.low > 0, gap.p_value
    (True, 0.002)
    """
    checks.one_of("correlation method", method, _METHODS)
    a, b, target = _varied(3, a=a, b=b, target=target)
    codes = _questions(groups, len(a))
    test, draw = _METHODS[method]
    value = test(a, target).statistic - test(b, target).statistic
    blocks = row_counts(codes, resamples=resamples, rng=rng)
    draws = np.concatenate([draw(counts, a, target) - draw(counts, b, target) for counts in blocks])
    of_a, of_b, of_target = (_differing(column, codes) for column in (a, b, target))
    return _floored(difference_of(value, draws, len(a)), min(of_target, max(of_a, of_b)))


def auroc(uncertainty, correct):
    """The chance that a wrong reply is more uncertain than a right one: 1 if all are, 0.5 if uncertainty says nothing.

    uncertainty : (n,) numbers, any scale
    correct     : (n,) bool or 0/1, both values present
    returns     : float, 0 .. 1; a tie counts one half
    raises      : ValueError if shapes are wrong or differ, a number is not finite, correct is not 0/1 or has one value
    source      : DENSE, Tables 1 and 8; Mann-Whitney U over the number of pairs: scikit-learn's value, 20 times as fast

    >>> auroc([0.1, 0.2, 0.9, 0.2], [True, True, False, False])
    0.875
    """
    uncertainty, correct = _uncertainty(uncertainty, correct)
    right, wrong = int(correct.sum()), int((~correct).sum())
    if not right or not wrong:
        raise ValueError(f"correct must hold right and wrong replies; got {right} right and {wrong} wrong")
    ranks = stats.rankdata(uncertainty)
    return float((ranks[~correct].sum() - wrong * (wrong + 1) / 2) / (right * wrong))


def aurac(uncertainty, correct):
    """Accuracy on the least uncertain replies, averaged over how many of them are kept: 1, 2, ..., all.

    given   : as for `auroc`; one value of correct will do
    returns : float, 0 .. 1, expected over random orders of replies of equal uncertainty; 1 if all are right
    raises  : ValueError if shapes are wrong or differ, a number is not finite or correct is not 0/1
    source  : DENSE, Tables 1 and 8 (area under the rejection-accuracy curve). Deviation: the reference code of semantic
              entropy sums the accuracy at 20 thresholds, 10 % to 100 % kept, times their distance: 20 * 0.9 / 19 =
              0.947 where all are right. Here every reply is a step

    >>> round(aurac([0.1, 0.2, 0.3], [True, False, True]), 4)   # (1 + 1/2 + 2/3) / 3
    0.7222
    """
    uncertainty, correct = _uncertainty(uncertainty, correct)
    _, tied, sizes = np.unique(uncertainty, return_inverse=True, return_counts=True)
    expected = np.bincount(tied, weights=correct) / sizes  # accuracy within each tie, least uncertain first
    return float((np.repeat(expected, sizes).cumsum() / np.arange(1, len(correct) + 1)).mean())


def row_counts(codes, *, resamples=RESAMPLES, rng=0):
    """How often each resample holds each row, in blocks of (block, n), for a statistic of many resamples at once; at least FEWEST.

    codes  : (n,) question of each row, numbered from 0; np.arange(n) where every row is drawn for itself
    """
    resamples, rng = checks.whole("resamples", resamples, least=FEWEST, most=MOST), checks.generator(rng)
    units = codes.max() + 1
    for block in _blocks(resamples, len(codes)):
        drawn = rng.integers(units, size=(block, units)) + units * np.arange(block)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=block * units).reshape(block, units)
        yield counts[:, codes]


def estimate_of(value, draws, n):
    """A number of n rows with the percentile interval of its resamples; those without a value, NaN, are counted."""
    draws = np.asarray(draws)
    defined = draws[np.isfinite(draws)]
    undefined = len(draws) - len(defined)
    if 2 * undefined > len(draws):
        raise ValueError(
            f"the statistic does not exist on {undefined} of {len(draws)} resamples, so there is no interval; "
            "more rows or questions are needed, or values that vary more"
        )
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high), n, undefined=undefined)


def difference_of(value, draws, n):
    """`estimate_of` a difference, with a two-sided p by inverting the interval: below 0.05 where it leaves out 0.

    p is twice the smaller share of resamples on one side of 0, 2 (1 + count) / (1 + resamples that have a value), ties on both sides.
    """
    estimate = estimate_of(value, draws, n)
    tail = min(np.sum(draws <= 0), np.sum(draws >= 0))
    p_value = min(1.0, 2 * (1 + int(tail)) / (1 + len(draws) - estimate.undefined))
    return Difference(**vars(estimate), p_value=p_value)


def _floored(result, m):
    """With no p below 2 / 2^m, what m questions that agree in sign allow; where that is above 0.05, the interval reaches 0."""
    least = min(1.0, 2.0 ** (1 - m))
    reach = {"low": min(result.low, 0.0), "high": max(result.high, 0.0)} if least > 1 - LEVEL else {}
    return replace(result, p_value=max(result.p_value, least), **reach)


def _differing(values, codes):
    """How many questions do not hold the commonest value; one whose rows differ counts as a value of its own."""
    ends = pd.Series(values).groupby(codes).agg(["min", "max"])
    level = ends["min"].where(ends["min"] == ends["max"])  # NaN, which is not counted, where the rows differ
    return len(ends) - max([1, *level.value_counts()])


def _blocks(total, width):
    """Sizes that sum to total, each at most BLOCK / width."""
    size = max(1, BLOCK // width)
    return [min(size, total - start) for start in range(0, total, size)]


def _pearson_draws(counts, x, y):
    exists = _varies(counts, x) & _varies(counts, y)
    size = counts.sum(axis=1)
    x = x - (np.sum(counts * x, axis=1) / size)[:, None]
    y = y - (np.sum(counts * y, axis=1) / size)[:, None]
    scale = np.sqrt(np.sum(counts * x * x, axis=1) * np.sum(counts * y * y, axis=1))
    return _ratio(np.sum(counts * x * y, axis=1), scale * exists)


def _kendall_draws(counts, x, y):
    if len(x) > PAIR_ROWS:
        chosen = (np.repeat(np.arange(len(x)), count) for count in counts)
        return np.array([stats.kendalltau(x[rows], y[rows]).statistic for rows in chosen])
    counts, x, y = counts.astype(np.float32), _signs(x), _signs(y)
    pairs = [np.sum((counts @ signs) * counts, axis=1, dtype=np.float64) for signs in (x * y, abs(x), abs(y))]
    return _ratio(pairs[0], np.sqrt(pairs[1] * pairs[2]))


_METHODS = {  # scipy's value and test, and the draws
    "pearson": (stats.pearsonr, _pearson_draws),
    "spearman": (stats.spearmanr, lambda counts, x, y: _pearson_draws(counts, _ranks(counts, x), _ranks(counts, y))),
    "kendall": (stats.kendalltau, _kendall_draws),
}


def _ratio(over, under):
    """Correlations, NaN where what they are divided by is 0."""
    return np.divide(over, under, out=np.full(len(over), np.nan), where=under > 0).clip(-1, 1)


def _signs(values):
    """Sign of the difference of every pair, (n, n) float32: whole numbers, so sums below 2^24 are exact."""
    return np.sign(np.subtract.outer(values, values)).astype(np.float32)


def _varies(counts, values):
    """Whether a resample holds two different values; exact, where a variance would be rounded."""
    held = counts > 0
    return np.where(held, values, -np.inf).max(axis=1) > np.where(held, values, np.inf).min(axis=1)


def _ranks(counts, values):
    """Rank of each row's value among the values of each resample, ties at their mean rank."""
    _, inverse = np.unique(values, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    starts = np.flatnonzero(np.diff(inverse[order], prepend=-1))
    tied = np.add.reduceat(counts[:, order], starts, axis=1)
    return (tied.cumsum(axis=1) - (tied - 1) / 2)[:, inverse]


def _column(name, values):
    """Values as an array with rows, none of them NaN or infinite."""
    values = checks.as_array(name, values)
    if values.ndim == 0 or len(values) < 2:
        raise ValueError(f"{name} must have at least 2 rows; got shape {values.shape}")
    missing = pd.isna(values) if values.dtype.kind not in "fc" else ~np.isfinite(values)
    if missing.any():
        raise ValueError(f"{name} must not hold NaN, infinity or missing values; got {int(missing.sum())}")
    return values


def _varied(least, **columns):
    """Columns of one length, none constant, each by a power of 2 brought to where its squares are numbers."""
    varied = []
    for name, values in columns.items():
        values = checks.numbers(name, values, least=least)
        largest = np.abs(values).max()
        if largest and not 1e-60 < largest < 1e60:
            values = np.ldexp(values, -int(np.frexp(largest)[1]))
        if np.ptp(values) <= 1e-13 * np.abs(values).max():
            raise ValueError(f"{name} must not be constant; got {len(values)} times {values[0]}")
        varied.append(values)
    checks.same_length(**dict(zip(columns, varied, strict=True)))
    return varied


def _questions(groups, n):
    """The number of each row's question, from 0; every row its own if there are no groups."""
    if groups is None:
        return np.arange(n)
    groups = checks.listed("groups", groups, least=0)
    if len(groups) != n:
        raise ValueError(f"groups must have one id per row; got {len(groups)} for {n} rows")
    try:
        codes, ids = pd.factorize(pd.Series(groups, dtype=object))
    except (TypeError, ValueError) as error:
        raise ValueError(f"groups must be ids, such as strings or integers; got {groups[0]!r:.60}, ...") from error
    if (codes < 0).any():
        raise ValueError(f"groups must not be missing; got {int((codes < 0).sum())} NaN or None")
    if len(ids) < 2:
        raise ValueError(f"groups must hold at least 2 different ids; got {len(ids)}")
    return codes


def _uncertainty(uncertainty, correct):
    uncertainty, correct = checks.numbers("uncertainty", uncertainty), checks.flags("correct", correct)
    checks.same_length(uncertainty=uncertainty, correct=correct)
    return uncertainty, correct
