"""Ways of ordering beside each other: quality with intervals, paired differences, what is kept of a gain, and which ways are not beaten.

tables = wide(said, ("gold", "exact_match"))      # one column per way; the mean of the cyclic orders is called "average order"
compared(tables, {"gold": "gold", "exact_match": "EM"}, ways, price)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from experiments.moi_position.permutations import CYCLIC
from rag_utils import stats

AVERAGE = "average order"
Tables = Mapping[str, pd.DataFrame]  # metric -> one row per question, one column per way


@dataclass(frozen=True)
class Retained:
    """How much of a gain is kept.

    whole, part : stats.Difference, the gain to keep and the gain that is left, both over the same base
    share       : stats.Estimate of part / whole; None where the whole gain is not above 0, as there is then nothing to keep
    """

    whole: stats.Difference
    part: stats.Difference
    share: stats.Estimate | None

    def __str__(self) -> str:
        return "undefined" if self.share is None else f"{self.share}"


def wide(said: pd.DataFrame, metrics: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Per metric one row per question and one column per way: the mean over the orders of a way.

    said : columns id, condition and the metrics, as `positions.answered` returns them

    >>> said = pd.DataFrame({"id": ["q", "q"], "condition": ["cyclic", "cyclic"], "exact_match": [1.0, 0.0]})
    >>> wide(said, ["exact_match"])["exact_match"].loc["q"].to_dict()
    {'average order': 0.5}
    """
    mean = said.groupby(["id", "condition"], sort=False)[list(metrics)].mean()
    return {metric: mean[metric].unstack("condition").rename(columns={CYCLIC: AVERAGE}) for metric in metrics}


def compared(
    tables: Tables,
    metrics: Mapping[str, str],
    ways: Sequence[str],
    price: Mapping[str, float],
    *,
    against: str = "exact_match",
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Cost and quality of each way, and its gain over the average order, questions paired.

    metrics : metric -> title of its column
    ways    : rows, in this order; those that are in no table are left out
    price   : tokens per question by way
    against : the metric whose gain is tested; p values are adjusted for the rows
    returns : columns k tokens, one per metric ("value [low, high]"), gain, Holm and n
    """
    rows, p_values, base = {}, {}, tables[against][AVERAGE]
    again = {"resamples": resamples, "rng": seed}
    for way in [way for way in ways if way in tables[against]]:
        row = {"k tokens": f"{price[way] / 1000:.2f}"}
        row |= {title: f"{stats.mean_interval(tables[metric][way], **again)}" for metric, title in metrics.items()}
        gap = stats.paired_difference(tables[against][way], base, **again)
        rows[way] = row | {f"{metrics[against]} gain": f"{gap:+.2f}", "Holm": "–", "n": gap.n}
        p_values[way] = gap.p_value
    rows[AVERAGE][f"{metrics[against]} gain"] = "–"
    tested = [way for way in rows if way != AVERAGE]
    for way, p_value in zip(tested, stats.holm([p_values[way] for way in tested]), strict=True):
        rows[way]["Holm"] = f"{p_value:.3f}"
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("order by")


def differences(
    tables: Tables,
    metrics: Mapping[str, str],
    pairs: Sequence[tuple[str, str]],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Paired differences of two ways in every metric, p values adjusted for all of them together.

    pairs   : (first, second); those with a way that is in no table are left out
    returns : index first, second; per metric its difference and the adjusted p
    """
    rows, p_values = {}, {}
    for first, second in pairs:
        if any(way not in tables[metric] for way in (first, second) for metric in metrics):
            continue
        for metric, title in metrics.items():
            one, other = tables[metric][first], tables[metric][second]
            gap = stats.paired_difference(one, other, resamples=resamples, rng=seed)
            rows.setdefault((first, second), {})[title] = f"{gap:+.2f}"
            p_values[first, second, title] = gap.p_value
    for (first, second, title), p_value in zip(p_values, stats.holm(list(p_values.values())), strict=True):
        rows[first, second][f"Holm, {title}"] = f"{p_value:.3f}"
    columns = [name for title in metrics.values() for name in (title, f"Holm, {title}")]
    index = pd.MultiIndex.from_tuples(rows, names=["first", "second"])
    return pd.DataFrame(list(rows.values()), index=index, columns=columns)


def retained(part, whole, base, *, resamples: int = 1000, seed: int = 0) -> Retained:
    """How much of the gain of `whole` over `base` is kept by `part`: the ratio of the two mean gains.

    part, whole, base : (n,) numbers about the same questions, higher is better
    returns           : Retained. The share, which may be below 0 or above 1, has an interval over questions; it is given only where
                        the interval of the whole gain lies above 0
    source            : MoI, Tables 4, 5 and 6, which give it without an interval

    >>> found = retained([0.5, 0.5, 0.5, 0.5], [1.0, 1.0, 0.5, 1.0], [0.0, 0.0, 0.0, 0.5])
    >>> round(found.share.value, 2), str(retained([1, 0], [1, 0], [0, 1]))
    (0.5, 'undefined')
    """
    part, whole, base = (np.asarray(values, dtype=float) for values in (part, whole, base))
    gains = [stats.paired_difference(one, base, resamples=resamples, rng=seed) for one in (whole, part)]
    if gains[0].low <= 0:
        return Retained(*gains, None)

    def share(part, whole):
        return part.mean() / whole.mean()

    found = stats.statistic_interval(share, part - base, whole - base, resamples=resamples, rng=seed)
    return Retained(*gains, found)


def claims(
    data: Mapping[str, Tables],
    wanted: Sequence[tuple[str, str, str]],
    metric: str,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, stats.Difference]:
    """Paired differences on several data sets in one metric, p values adjusted for all of them together.

    data    : name -> tables
    wanted  : (title, first, second); those with a way that is in no table are left out
    returns : "TITLE, NAME" -> first minus second
    """
    gaps = {
        f"{title}, {name}": stats.paired_difference(
            tables[metric][first], tables[metric][second], resamples=resamples, rng=seed
        )
        for name, tables in data.items()
        for title, first, second in wanted
        if first in tables[metric] and second in tables[metric]
    }
    adjusted = stats.holm([gap.p_value for gap in gaps.values()])
    return {title: replace(gap, p_value=float(p)) for (title, gap), p in zip(gaps.items(), adjusted, strict=True)}


def shares(
    tables: Tables, metrics: Mapping[str, str], kept: Sequence[tuple[str, str, str]], *, seed: int = 0
) -> pd.DataFrame:
    """`retained` of several ways in every metric.

    kept    : (title, part, whole); those with a way that is in no table are left out
    returns : index title; per metric the whole gain and what is kept of it, as text
    """
    rows: dict[str, dict] = {}
    for title, part, whole in kept:
        for metric, name in metrics.items():
            table = tables[metric]
            if part in table and whole in table:
                found = retained(table[part], table[whole], table[AVERAGE], seed=seed)
                rows.setdefault(title, {})
                rows[title] |= {f"gain, {name}": f"{found.whole:+.2f}", f"kept, {name}": f"{found}"}
    return pd.DataFrame.from_dict(rows, orient="index")


def not_dominated(cost: Sequence[float], quality: Sequence[float]) -> list[bool]:
    """Which ways are on the frontier: no other is at least as good and at most as costly, and better in one of the two.

    >>> not_dominated([1, 2, 3, 3], [0.5, 0.4, 0.7, 0.6])
    [True, False, True, False]
    """
    points = list(zip(cost, quality, strict=True))
    return [not any(c <= a and q >= b and (c, q) != (a, b) for c, q in points) for a, b in points]
