"""Ways of ordering the passages of a question beside each other, for chapters 7 and 8: quality with intervals, gains, claims.

tables = {metric: by_way(said, metric) for metric in METRICS}      # said: as `measures.moi.answered` returns it
compared(tables, METRICS, {"k tokens": price}, ways=ways)
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from rag_utils import data, moi, retrieve, stats
from rag_utils.data import Question
from rag_utils.measures.moi import CYCLIC, Shown, candidates
from rag_utils.page import report
from rag_utils.retrieve import Run

AVERAGE, ORACLE, VOTES = "average order", "oracle", "self-consistency"
Tables = Mapping[str, pd.DataFrame]  # metric -> as `by_way`


def companion_passages(questions: Sequence[Question], size: int) -> tuple[Shown, Run]:
    """What questions of the corpus are shown: BM25's best with every gold passage among them; and BM25's scores."""
    pool = data.passages("companion")
    run = retrieve.bm25(questions, pool, k=30)
    return candidates(questions, run, {passage.id: passage for passage in pool}, size=size), run


def lengths(shown: Shown, run: Run, *, temperature: float) -> dict[str, int]:
    """Per question id how many passages to show, by `moi.prefix_length` of the retriever's scores."""
    scores = {name: [run[name].get(one.id, 0.0) for one in passages] for name, passages in shown.items()}
    return {name: moi.prefix_length(each, temperature=temperature) for name, each in scores.items()}


def tau(one: Sequence[int], other: Sequence[int]) -> float:
    """Kendall's tau of two rankings of the same passages: 1 if equal, -1 if one is the other from the last to the first.

    >>> tau([0, 1, 2], [2, 1, 0]), round(tau([0, 1, 2], [0, 2, 1]), 2)
    (-1.0, 0.33)
    """
    return float(kendalltau(np.argsort(one), np.argsort(other)).statistic)


def by_way(said: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row per question, one column per way of ordering its passages (the condition): the mean of the metric over the way's orders.

    The cyclic orders, which put each passage in each place once, are called "average order"; the last column, "oracle", is the best of all
    orders that the question was asked with.

    >>> said = pd.DataFrame({"id": ["q", "q", "q"], "condition": ["MoI", "cyclic", "cyclic"], "exact_match": [0.5, 1.0, 0.0]})
    >>> by_way(said, "exact_match").loc["q"].to_dict()
    {'MoI': 0.5, 'average order': 0.5, 'oracle': 1.0}
    """
    ways = list(dict.fromkeys(said["condition"]))
    wide = said.groupby(["id", "condition"], sort=False)[metric].mean().unstack("condition")[ways]
    best = said[said["condition"] != VOTES].groupby("id", sort=False)[metric].max()
    return wide.rename(columns={CYCLIC: AVERAGE}).assign(**{ORACLE: best}).rename_axis(columns=None)


def compared(
    tables: Tables, metrics: Mapping, first: Mapping, *, ways: Sequence[str], against="exact_match", seed=0, **resamples
) -> pd.DataFrame:
    """Quality of each way that is in the tables, and its gain over the average order in the metric `against`, questions paired.

    metrics : metric -> title of its column
    first   : title -> way -> what is shown before them
    returns : one row per way, columns as named, "TITLE gain", Holm (p of the gain, adjusted for the ways; the oracle looks at the answers
              and is not tested) and n
    """
    table, again = tables[against], {"rng": seed, **resamples}
    gaps = {way: stats.paired_difference(table[way], table[AVERAGE], **again) for way in ways if way in table}
    adjusted = holm({way: gap for way, gap in gaps.items() if way not in (AVERAGE, ORACLE)})
    rows = {}
    for way, gap in gaps.items():
        row = {title: shown.get(way, "–") for title, shown in first.items()}
        row |= {title: f"{stats.mean_interval(tables[metric][way], **again)}" for metric, title in metrics.items()}
        row[f"{metrics[against]} gain"] = "–" if way == AVERAGE else f"{gap:+.2f}"
        rows[way] = row | {"Holm": f"{adjusted[way].p_value:.3f}" if way in adjusted else "–", "n": gap.n}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("order by")


def claims(
    gaps: Mapping[str, stats.Difference], published: Mapping[str, str | None], *, unparsed: int | None = None
) -> pd.DataFrame:
    """Differences that the paper says are above 0, in points, beside what it prints; ValueError if the titles differ.

    published : title -> what is printed; a row with None has no verdict. Verdicts stand on p values adjusted by Holm for the others
    unparsed  : empty replies behind the table, None if no reply had to be read
    """
    if set(gaps) != set(published):
        raise ValueError(f"differences and printed values must have the same titles, got {set(gaps) ^ set(published)}")
    told = holm({title: gap for title, gap in gaps.items() if published[title] is not None})
    how, rows = {"direction": "+", "same_model": False, "same_data": False}, []
    for title, gap in (gaps | told).items():
        verdict = report.claim_verdict(gap, **how) if title in told else None
        shown = {"published": published[title], "verdict": verdict, "unparsed": unparsed, "scale": 100, "digits": 1}
        rows.append(report.Comparison(title, estimate=gap, **shown))
    return report.comparison_table(rows)


def holm(gaps: Mapping[str, stats.Difference]) -> dict[str, stats.Difference]:
    """The same differences with p values adjusted for all of them."""
    adjusted = stats.holm([gap.p_value for gap in gaps.values()]) if gaps else []
    return {title: replace(gap, p_value=float(p)) for (title, gap), p in zip(gaps.items(), adjusted, strict=True)}
