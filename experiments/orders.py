"""Ways of ordering the passages of a question beside each other, for chapters 7 and 8: quality, gains, what is kept of them, claims."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from experiments.asking import p_text
from rag_utils import data, moi, retrieve, stats
from rag_utils.data import Question
from rag_utils.measures.moi import CYCLIC, Shown, candidates
from rag_utils.page import report
from rag_utils.retrieve import Run
from rag_utils.score import against_chance, enough

AVERAGE, ORACLE, VOTES = "average order", "oracle", "self-consistency"
Tables = Mapping[str, pd.DataFrame]  # metric -> as `by_way`
Gaps = Mapping[Hashable, stats.Difference]  # by the title of each, or what else names it


def companion_passages(questions: Sequence[Question], size: int) -> tuple[Shown, Run]:
    """What questions of the corpus are shown: BM25's best with every gold passage among them; and BM25's scores."""
    pool = data.passages("companion")
    run = retrieve.bm25(questions, pool, k=30)
    return candidates(questions, run, {passage.id: passage for passage in pool}, size=size), run


def lengths(shown: Shown, run: Run, *, temperature: float) -> dict[str, int]:
    """Per question id how many passages to show, by `moi.prefix_length` of the retriever's scores."""
    scores = {name: [run[name].get(passage.id, 0.0) for passage in passages] for name, passages in shown.items()}
    return {name: moi.prefix_length(each, temperature=temperature) for name, each in scores.items()}


def tau(order: Sequence[int], other: Sequence[int]) -> float:
    """Kendall's tau of two rankings of the same passages: 1 if equal, -1 if order is the other from the last to the first."""
    return float(kendalltau(np.argsort(order), np.argsort(other)).statistic)


def by_way(said: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row per question, one column per way of ordering its passages (the condition): the mean of the metric over the way's orders.

    Cyclic orders, which put each passage in each place once, are the "average order"; "oracle" is the best of all orders of the question.
    """
    ways = list(dict.fromkeys(said["condition"]))
    wide = said.groupby(["id", "condition"], sort=False)[metric].mean().unstack("condition")[ways]
    best = said[said["condition"] != VOTES].groupby("id", sort=False)[metric].max()
    return wide.rename(columns={CYCLIC: AVERAGE}).assign(**{ORACLE: best}).rename_axis(columns=None)


def gap(said: pd.DataFrame, way: str, other: str = AVERAGE, metric: str = "exact_match") -> stats.Difference:
    """What one way has more than another, questions paired; than the average order: by `score.against_chance`, cyclic ones at random."""
    table = by_way(said, metric)
    if other != AVERAGE:
        return stats.paired_difference(table[way], table[other])
    turns = said[said["condition"] == CYCLIC].pivot(index="id", columns="run", values=metric)
    return against_chance(table[way], turns.loc[table.index])


def compared(said: pd.DataFrame, metrics: Mapping, first: Mapping, *, ways, gain="EM gain", **again) -> pd.DataFrame:
    """Quality of each way that was asked, and its gain over the average order in exact match.

    metrics : metric -> title of its column; first: title -> way -> what is shown before them
    again   : resamples and rng of the intervals
    returns : one row per way, columns as named, `gain`, its p by Holm (not of the oracle, which looks at the answers) and n
    """
    tables, rows = {metric: by_way(said, metric) for metric in {**metrics, "exact_match": ""}}, {}
    ways = [way for way in ways if way in tables["exact_match"]]
    gaps = {way: gap(said, way) for way in ways if way != AVERAGE}
    adjusted = holm({way: each for way, each in gaps.items() if way != ORACLE})
    for way in ways:
        row = {title: shown.get(way, "–") for title, shown in first.items()}
        row |= {title: f"{stats.mean_interval(tables[metric][way], **again)}" for metric, title in metrics.items()}
        row[gain] = f"{gaps[way]:+.2f}" if way in gaps else "–"
        rows[way] = row | {"Holm": p_text(adjusted[way].p_value) if way in adjusted else "–", "n": len(tables["exact_match"])}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("order by")


def best_first(said: pd.DataFrame, metrics: Mapping[str, str], **again) -> pd.DataFrame:
    """`compared` of all ways, the best in exact match first, after the mean reciprocal rank of gold."""
    ways = by_way(said, "exact_match").mean().sort_values(ascending=False, kind="stable").index
    ranks = by_way(said, "gold").mean().drop([VOTES, ORACLE], errors="ignore").map("{:.2f}".format)
    return compared(said, metrics, {"gold": ranks}, ways=ways, gain="difference", **again)


def differences(tables: Tables, metrics: Mapping, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Paired differences of two ways in every metric, p values adjusted for all together; pairs with a way in no table are left out."""
    gaps = {
        (pair, title): stats.paired_difference(*(tables[metric][way] for way in pair))
        for pair, (metric, title) in product(pairs, metrics.items())
        if set(pair) <= set(tables[metric])
    }
    rows = defaultdict(dict)
    for (pair, title), gap in holm(gaps).items():
        rows[pair] |= {title: f"{gap:+.2f}", f"Holm, {title}": p_text(gap.p_value)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["first", "second"])


def retained(part, whole, base, **again) -> tuple[stats.Difference, stats.Estimate | None]:
    """The mean gain of `whole` over `base`, and how much of it `part` keeps (MoI, Tables 4 to 6); None for it if the interval holds 0."""
    gain = stats.paired_difference(whole, base)
    if gain.low <= 0:
        return gain, None
    return gain, stats.statistic_interval(lambda a, b: a.mean() / b.mean(), part - base, whole - base, **again)


def shares(tables: Tables, metrics: Mapping, kept: Sequence[tuple[str, str, str]], **again) -> pd.DataFrame:
    """`retained` over the average order in every metric, by (title, part, whole); those with a way in no table are left out."""
    rows = defaultdict(dict)
    for (title, part, whole), (metric, name) in product(kept, metrics.items()):
        if {part, whole} <= set(tables[metric]):
            gain, share = retained(*(tables[metric][way] for way in (part, whole, AVERAGE)), **again)
            rows[title][f"gain, {name}"] = f"{gain:+.2f}"
            rows[title][f"kept, {name}"] = "undefined" if share is None else f"{share}"
    return pd.DataFrame.from_dict(rows, orient="index")


def claims(gaps: Gaps, published: Mapping, *, needs: Mapping | tuple = (), unparsed: int | None = None) -> pd.DataFrame:
    """Differences that the paper says are above 0, in points, beside what it prints; ValueError if the titles differ.

    published : title -> what is printed; None: no verdict. Verdicts stand on p values adjusted by Holm for the rows that have one
    needs     : title -> (gap that is to be shown, paired differences, questions that there are), for `enough.attainable`
    unparsed  : empty replies behind the table, None if no reply had to be read
    """
    if odd := set(gaps) ^ set(published):
        raise ValueError(f"differences and printed values must have the same titles, got {odd}")
    told = holm({title: gap for title, gap in gaps.items() if published[title] is not None})
    how, rows = {"direction": "+", "same_model": False, "same_data": False}, []
    for title, gap in {**gaps, **told}.items():
        verdict = report.claim_verdict(gap, **how) if title in told else None
        verdict = enough.attainable(verdict, *needs[title]) if title in needs else verdict
        shown = {"published": published[title], "verdict": verdict, "unparsed": unparsed, "scale": 100, "digits": 1}
        rows.append(report.Comparison(title, estimate=gap, **shown))
    return report.comparison_table(rows)


def holm(gaps: Gaps) -> Gaps:
    """The same differences with p values adjusted for all of them; equal ones, as of two ways with the same order, count once."""
    adjusted = stats.holm([gap.p_value for gap in gaps.values()], of=gaps.values()) if gaps else []
    return {title: replace(gap, p_value=float(p)) for (title, gap), p in zip(gaps.items(), adjusted, strict=True)}
