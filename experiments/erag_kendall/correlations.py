"""eRAG, Table 1 and Figs. 1 and 2: how far metrics made of a document's labels go with what the reader makes of the whole list."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from experiments.erag_kendall.annotations import labels_of
from rag_utils import erag, stats
from rag_utils.measures import erag as measure


def pairs(table: pd.DataFrame, score: str, *, k: int, columns: Mapping[str, str] | None = None) -> pd.DataFrame:
    """What is correlated: per question, retriever and annotation the metrics of the list, and the reader's score with the whole list.

    table   : as `measures.erag.ask` returns it
    columns : title -> column of labels; by default `labels_of(score)`
    returns : columns id, condition, annotation, the metrics that the labels allow (else NaN), whole
    """
    whole = measure.end_to_end(table, score, k=k)
    parts = []
    for title, column in (labels_of(score) if columns is None else columns).items():
        part = measure.per_question(table, column, k=k)
        part.insert(2, "annotation", title)
        parts.append(part.assign(whole=whole.loc[pd.MultiIndex.from_frame(part[["id", "condition"]])].to_numpy()))
    return pd.concat(parts, ignore_index=True)


def grid(
    paired: pd.DataFrame, *, method: str = "kendall", resamples: int = 1000, permutations: int = 199, seed: int = 0
) -> pd.DataFrame:
    """Correlation over questions of each metric under each annotation with the reader's score: the cells of eRAG's Table 1.

    paired       : as `pairs` returns it
    permutations : behind the p value of fewer than 30 questions
    returns      : index (annotation, metric), a column per retriever, cells Correlation; None where a column is constant, NaN where the
                   metric does not exist
    """
    options = {"method": method, "resamples": resamples, "permutations": permutations, "rng": seed}
    cells = {}
    for (title, condition), part in paired.groupby(["annotation", "condition"], sort=False):
        for metric in erag.METRICS:
            if part[metric].notna().all():
                varies = part[metric].nunique() > 1 and part["whole"].nunique() > 1
                correlation = stats.correlation(part[metric], part["whole"], **options) if varies else None
                cells[title, metric, condition] = correlation
    index = pd.MultiIndex.from_tuples(cells, names=["annotation", "metric", "condition"])
    return pd.Series(list(cells.values()), index=index, dtype=object).unstack("condition", sort=False)


def ahead(
    paired: pd.DataFrame,
    *,
    metrics: Sequence[str] = ("P", "Success"),
    method: str = "kendall",
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """How much closer eRAG's labels are to the reader's score than each other annotation, by the same metric, questions paired.

    returns : columns condition, metric, annotation (the other one), value, low, high, n, p_value, p_holm (adjusted for all rows); pairs of
              which one is constant are left out
    """
    rows = []
    for condition, part in paired.groupby("condition", sort=False):
        wide = part.pivot(index="id", columns="annotation", values=list(metrics))
        whole = part.drop_duplicates("id").set_index("id")["whole"].loc[wide.index]
        for metric in metrics:
            columns = wide[metric].dropna(axis="columns")
            columns = columns.loc[:, columns.nunique() > 1]
            if "eRAG" not in columns or whole.nunique() < 2:
                continue
            for title in (title for title in part["annotation"].unique() if title in columns and title != "eRAG"):
                options = {"method": method, "resamples": resamples, "rng": seed}
                gap = stats.correlation_difference(columns["eRAG"], columns[title], whole, **options)
                rows.append({"condition": condition, "metric": metric, "annotation": title} | vars(gap))
    table = pd.DataFrame(rows).drop(columns="undefined")
    return table.assign(p_holm=stats.holm(table["p_value"]))


def ceilings(paired: pd.DataFrame, *, metrics: Sequence[str]) -> dict[str, str]:
    """Kendall's tau of each metric "of" the largest that the ties allow, and A, the AUROC of precision where the reader is right or wrong.

    paired  : of one retriever and one annotation
    returns : metric -> text; a metric that is not defined or constant is left out
    """
    whole, cells = paired["whole"], {}
    for metric in metrics:
        values = paired[metric]
        if values.notna().all() and values.nunique() > 1 and whole.nunique() > 1:
            tau = stats.correlation(values, whole, method="kendall", resamples=40).value
            cells[metric] = f"{tau:.2f} of {stats.largest_kendall(values, whole):.2f}"
    if whole.isin((0, 1)).all():
        cells["A"] = f"{stats.auroc(-paired['P'], whole):.2f}"
    return cells


def shuffled_among_equals(table: pd.DataFrame, column: str, rng: np.random.Generator) -> pd.DataFrame:
    """The table with a column `moved`: each question has the labels of another question that is as difficult.

    Equally difficult are questions with a needed document in the list and the label 1 on one such, with one and without that label, and
    without one in the list. A shorter list of labels goes on with 0.
    """
    table = table.sort_values(["id", "rank"])
    needed = table["provenance"] == 1
    right = (table[column] * needed).groupby(table["id"]).max()
    level = needed.groupby(table["id"]).max().astype(int) + right
    values = table.pivot(index="id", columns="rank", values=column).fillna(0.0)
    for same in values.index.groupby(level.loc[values.index]).values():
        values.loc[same] = values.loc[rng.permutation(same)].to_numpy()
    rows = values.index.get_indexer(table["id"])
    return table.assign(moved=values.to_numpy()[rows, table["rank"] - 1])


def power(values: np.ndarray, n: int, rng: np.random.Generator, times: int = 1000) -> float:
    """Share of bootstrap samples of n questions whose mean difference is more than 1.97 standard errors (t test, 5 %, n = 240) from 0."""
    drawn = values[rng.integers(len(values), size=(times, n))]
    error = drawn.std(axis=1, ddof=1) / np.sqrt(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.mean(np.abs(drawn.mean(axis=1) / error) > 1.97)
