"""Ways of ordering the passages of a question beside each other, for chapters 7 and 8: quality with intervals, gains, claims.

tables = {metric: by_way(said, metric) for metric in METRICS}      # said: as `measures.moi.answered` returns it
compared(tables, METRICS, {"k tokens": price}, ways=ways)
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

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
    return {name: moi.prefix_length(some, temperature=temperature) for name, some in scores.items()}


def tau(one: Sequence[int], other: Sequence[int]) -> float:
    """Kendall's tau of two rankings of the same passages: 1 if equal, -1 if one is the other from the last to the first.

    >>> tau([0, 1, 2], [2, 1, 0]), round(tau([0, 1, 2], [0, 2, 1]), 2)
    (-1.0, 0.33)
    """
    places = [[order.index(passage) for passage in range(len(order))] for order in (list(one), list(other))]
    return float(kendalltau(*places).statistic)


def by_way(said: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row per question, one column per way of ordering its passages.

    said    : columns id, condition (the way) and the metric
    returns : the mean over the orders of a way; the cyclic orders, which put each passage in each place once, are called "average
              order". In the last column, "oracle", the best of all orders that the question was asked with

    >>> said = pd.DataFrame({"id": ["q", "q", "q"], "condition": ["MoI", "cyclic", "cyclic"], "exact_match": [0.5, 1.0, 0.0]})
    >>> by_way(said, "exact_match").loc["q"].to_dict()
    {'MoI': 0.5, 'average order': 0.5, 'oracle': 1.0}
    """
    ways = list(dict.fromkeys(said["condition"]))
    wide = said.groupby(["id", "condition"], sort=False)[metric].mean().unstack("condition")[ways]
    best = said[said["condition"] != VOTES].groupby("id", sort=False)[metric].max()
    return wide.rename(columns={CYCLIC: AVERAGE}).assign(**{ORACLE: best}).rename_axis(columns=None)


def compared(
    tables: Tables,
    metrics: Mapping[str, str],
    first: Mapping[str, Mapping[str, str]],
    *,
    ways: Sequence[str],
    against: str = "exact_match",
    gain: str = "EM gain",
    resamples: int = stats.RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Quality of each way, and its gain over the average order, questions paired.

    metrics : metric -> title of its column
    first   : title -> way -> what is shown before them
    against : the metric whose gain is tested; gain: the title of that column
    returns : one row per way that is in the tables, columns as named, Holm (p of the gain, adjusted for the ways; the oracle looks at
              the answers and is not tested) and n
    """
    again = {"resamples": resamples, "rng": seed}
    base = tables[against][AVERAGE]
    gaps = {way: stats.paired_difference(tables[against][way], base, **again) for way in ways if way in tables[against]}
    adjusted = holm({way: gap for way, gap in gaps.items() if way not in (AVERAGE, ORACLE)})
    rows = {}
    for way, gap in gaps.items():
        row = {title: shown.get(way, "–") for title, shown in first.items()}
        row |= {title: f"{stats.mean_interval(tables[metric][way], **again)}" for metric, title in metrics.items()}
        row[gain] = "–" if way == AVERAGE else f"{gap:+.2f}"
        rows[way] = row | {"Holm": f"{adjusted[way].p_value:.3f}" if way in adjusted else "–", "n": gap.n}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("order by")


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
    told = holm({title: gap for title, gap in gaps.items() if published[title] is not None})
    rows = []
    for title, gap in (gaps | told).items():
        how = {"direction": "+", "same_model": False, "same_data": False}
        verdict = report.claim_verdict(gap, **how) if title in told else None
        shown = {"published": published[title], "verdict": verdict, "unparsed": unparsed}
        rows.append(report.Comparison(title, estimate=gap, **shown, scale=100, digits=1))
    return report.comparison_table(rows)


def holm(gaps: Mapping[str, stats.Difference]) -> dict[str, stats.Difference]:
    """The same differences with p values adjusted for all of them."""
    adjusted = stats.holm([gap.p_value for gap in gaps.values()]) if gaps else []
    return {title: replace(gap, p_value=float(p)) for (title, gap), p in zip(gaps.items(), adjusted, strict=True)}
