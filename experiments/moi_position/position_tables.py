"""Answers by order as tables: one column per way of ordering, its mean, and what it gains over the average order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.moi_position.permutations import CYCLIC, parse
from rag_utils import answers, stats
from rag_utils.page import report

AVERAGE, ORACLE, VOTES = "average order", "oracle", "self-consistency"
NOWHERE = "nowhere"


def by_question(said: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """One row per question, one column per way of ordering its passages.

    said     : columns id, condition, order and `quantity`, as `positions.answered` and `positions.votes` return them
    returns  : the mean over the orders of a way; the cyclic orders, which put each passage in each place once, are called "average
               order". In the last column, "oracle", the best of all orders that the question was asked with

    >>> said = pd.DataFrame({"id": ["q", "q", "q"], "condition": ["MoI", "cyclic", "cyclic"], "order": ["0-1", "0-1", "1-0"]})
    >>> by_question(said.assign(exact_match=[1.0, 1.0, 0.0]), "exact_match").loc["q"].to_dict()
    {'MoI': 1.0, 'average order': 0.5, 'oracle': 1.0}
    """
    ways = list(dict.fromkeys(said["condition"]))
    wide = said.groupby(["id", "condition"], sort=False)[quantity].mean().unstack("condition")[ways]
    best = said[said["condition"] != VOTES].groupby("id", sort=False)[quantity].max()
    return wide.rename(columns={CYCLIC: AVERAGE}).assign(**{ORACLE: best}).rename_axis(columns=None)


def compared(
    said: pd.DataFrame, metrics: Mapping[str, str], *, resamples: int = stats.RESAMPLES, seed: int = 0
) -> pd.DataFrame:
    """Every way of ordering beside the average order, questions paired, the best first.

    metrics : column of `said` -> title; the first is the one that is compared
    returns : one row per way; columns gold (mean reciprocal rank of the first gold passage), one per metric (mean and interval over
              questions), difference (of the first metric to the average order, with interval), Holm (p of the difference, adjusted for
              the ways; the oracle looks at the answers and is not tested) and n
    """
    first = next(iter(metrics))
    tables = {metric: by_question(said, metric) for metric in metrics}
    base, again = tables[first][AVERAGE], {"resamples": resamples, "rng": seed}
    gold = by_question(said, "gold").mean()
    gaps = {way: stats.paired_difference(tables[first][way], base, **again) for way in tables[first]}
    tested = [way for way in gaps if way not in (AVERAGE, ORACLE)]
    adjusted = dict(zip(tested, stats.holm([gaps[way].p_value for way in tested]), strict=True))
    found = {}
    for way in tables[first].mean().sort_values(ascending=False, kind="stable").index:
        row = {"gold": "–" if way in (VOTES, ORACLE) else f"{gold[way]:.2f}"}
        row |= {title: f"{stats.mean_interval(tables[metric][way], **again)}" for metric, title in metrics.items()}
        row |= {"difference": "–" if way == AVERAGE else f"{gaps[way]:+.2f}"}
        found[way] = row | {"Holm": f"{adjusted[way]:.3f}" if way in adjusted else "–", "n": gaps[way].n}
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("order by")


def by_place(said: pd.DataFrame, ids: Sequence[str], quantity: str, *, resamples: int, seed: int = 0) -> pd.DataFrame:
    """The mean of a quantity by the place of the only gold passage, each order of a question counted once.

    ids     : questions with one gold passage
    returns : rows place 1, 2, ...; columns value, low, high, n (orders). The interval draws questions
    """
    placed = said[said["id"].isin(set(ids)) & (said["gold"] > 0)].drop_duplicates(["id", "order"])
    places = (1 / placed["gold"]).round().astype(int)
    found = {}
    for place, part in placed.groupby(places):
        mean = stats.mean_interval(part[quantity], groups=part["id"], resamples=resamples, rng=seed)
        found[place] = {"value": mean.value, "low": mean.low, "high": mean.high, "n": mean.n}
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("place of gold")


def same_replies(said: pd.DataFrame) -> pd.DataFrame:
    """How often two orders of a question get the same reply, by the one place in which they agree and the passage that they show there.

    said    : columns id, condition, order and reply, as `positions.answered` returns them; an order of a question counts once
    returns : rows (id, passage), columns 1, 2, ...: the share of same replies, in normalised form, among the pairs of orders that show this
              passage in that place and agree in no other; column "nowhere": among those that agree in none, whatever the passage. NaN where
              there is no such pair
    raises  : ValueError if orders differ in length
    source  : ours, beside MoI, eq. 11: of replies nothing is left out, of first tokens those without a name are. The passage is held equal
              since rankings put the gold passage first, and orders may be alike for that

    >>> said = pd.DataFrame({"id": "q", "condition": "MoI", "order": ["0-1-2", "0-2-1", "2-0-1"], "reply": ["Rome", "rome.", "Bonn"]})
    >>> same_replies(said).loc[("q", 0)].to_dict()
    {'nowhere': 0.0, 1: 1.0, 2: nan, 3: nan}
    """
    each = said[said["condition"] != VOTES].drop_duplicates(["id", "order"])
    if len(lengths := {len(parse(order)) for order in each["order"]}) != 1:
        raise ValueError(f"orders must be of one length, got lengths {sorted(lengths)}")
    found = {}
    for name, part in each.groupby("id", sort=False):
        orders, replies = np.array([parse(order) for order in part["order"]]), part["reply"].map(answers.normalize)
        one, other = np.triu_indices(len(orders), 1)
        agree, equal = orders[one] == orders[other], replies.to_numpy()[one] == replies.to_numpy()[other]
        once = agree.sum(axis=1) == 1
        for passage in range(orders.shape[1]):
            here = agree & once[:, None] & (orders[one] == passage)
            groups = {NOWHERE: ~agree.any(axis=1), **dict(enumerate(here.T, 1))}
            found[name, passage] = {at: equal[rows].mean() if rows.any() else np.nan for at, rows in groups.items()}
    return pd.DataFrame.from_dict(found, orient="index").rename_axis(["id", "passage"])


def claims(
    gaps: Mapping[str, stats.Difference], published: Mapping[str, str | None], *, unparsed: int | None = None
) -> pd.DataFrame:
    """Differences that the paper says are above 0, beside what it prints, each with its verdict.

    gaps      : title -> A - B on a scale of 0 to 1, shown in points
    published : title -> what is printed, None where nothing is; such a row has no verdict
    unparsed  : empty replies behind the table, None if no reply had to be read
    returns   : as `report.comparison_table`. The verdicts stand on p values adjusted by Holm for the rows that have one
    raises    : ValueError if the titles differ
    """
    if set(gaps) != set(published):
        raise ValueError(f"differences and printed values must have the same titles, got {set(gaps) ^ set(published)}")
    tested = [title for title in gaps if published[title] is not None]
    adjusted = dict(zip(tested, stats.holm([gaps[title].p_value for title in tested]), strict=True)) if tested else {}
    rows = []
    for title, gap in gaps.items():
        verdict = None
        if title in adjusted:
            gap = replace(gap, p_value=float(adjusted[title]))
            verdict = report.claim_verdict(gap, direction="+", same_model=False, same_data=False)
        estimate = {"estimate": gap, "published": published[title], "verdict": verdict, "unparsed": unparsed}
        rows.append(report.Comparison(title, **estimate, scale=100, digits=1))
    return report.comparison_table(rows)
