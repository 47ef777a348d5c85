"""Ways of ordering beside each other: paired differences, what is kept of a gain, and which ways are not beaten."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from experiments.orders import AVERAGE, Tables, holm
from rag_utils import stats


def differences(tables: Tables, metrics: Mapping[str, str], pairs: Sequence[tuple[str, str]], **again) -> pd.DataFrame:
    """Paired differences of two ways in every metric, p values adjusted for all of them together.

    pairs : (first, second), the index of the result; those with a way that is in no table are left out
    again : resamples and rng of the intervals
    """
    gaps = {
        (*pair, title): stats.paired_difference(*(tables[metric][way] for way in pair), **again)
        for pair in pairs
        for metric, title in metrics.items()
        if all(way in tables[metric] for way in pair)
    }
    rows: dict[tuple, dict] = {}
    for (*pair, title), gap in holm(gaps).items():
        rows.setdefault(tuple(pair), {}).update({title: f"{gap:+.2f}", f"Holm, {title}": f"{gap.p_value:.3f}"})
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["first", "second"])


def retained(part, whole, base, **again) -> tuple[stats.Difference, stats.Estimate | None]:
    """The gain of `whole` over `base`, and how much of it is kept by `part`: the ratio of the two mean gains (MoI, Tables 4, 5 and 6).

    part, whole, base : (n,) numbers about the same questions, higher is better
    returns           : the share may be below 0 or above 1; None, as nothing is to keep, where the gain's interval is not above 0

    >>> gain, share = retained([0.5, 0.5, 0.5, 0.5], [1.0, 1.0, 0.5, 1.0], [0.0, 0.0, 0.0, 0.5])
    >>> round(share.value, 2), retained([1, 0], [1, 0], [0, 1])[1]
    (0.5, None)
    """
    part, whole, base = (np.asarray(values, dtype=float) for values in (part, whole, base))
    gain = stats.paired_difference(whole, base, **again)
    if gain.low <= 0:
        return gain, None
    return gain, stats.statistic_interval(lambda a, b: a.mean() / b.mean(), part - base, whole - base, **again)


def shares(tables: Tables, metrics: Mapping[str, str], kept: Sequence[tuple[str, str, str]], **again) -> pd.DataFrame:
    """`retained` of several ways over the average order in every metric, as text after the whole gain.

    kept : (title, part, whole); those with a way that is in no table are left out
    """
    rows: dict[str, dict] = {}
    for title, part, whole in kept:
        for metric, name in metrics.items():
            if part in tables[metric] and whole in tables[metric]:
                gain, share = retained(*(tables[metric][way] for way in (part, whole, AVERAGE)), **again)
                shown = {f"gain, {name}": f"{gain:+.2f}", f"kept, {name}": "undefined" if share is None else f"{share}"}
                rows.setdefault(title, {}).update(shown)
    return pd.DataFrame.from_dict(rows, orient="index")


def not_dominated(cost: Sequence[float], quality: Sequence[float]) -> list[bool]:
    """Which ways are on the frontier: no other is at least as good and at most as costly, and better in one of the two.

    >>> not_dominated([1, 2, 3, 3], [0.5, 0.4, 0.7, 0.6])
    [True, False, True, False]
    """
    points = list(zip(cost, quality, strict=True))
    return [not any(c <= a and q >= b and (c, q) != (a, b) for c, q in points) for a, b in points]
