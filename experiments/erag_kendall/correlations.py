"""eRAG, Table 1 and Figs. 1 and 2: how far metrics made of a document's labels go with what the reader makes of the whole list."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd

from experiments.erag_kendall.annotations import labels_of
from rag_utils import erag, stats
from rag_utils.measures import erag as measure


def pairs(table: pd.DataFrame, score: str, *, k: int, columns: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Per annotation, question and retriever of `measures.erag.ask`'s table the metrics of the list, and the reader's score with all of it.

    columns : title -> column of labels; by default `labels_of(score)`
    returns : columns annotation, id, condition, the metrics that the labels allow (else NaN), whole
    """
    columns = labels_of(score) if columns is None else columns
    metrics = {title: measure.per_question(table, column, k=k) for title, column in columns.items()}
    whole = measure.end_to_end(table, score, k=k).rename("whole")
    paired = pd.concat(metrics, names=["annotation"]).join(whole, on=["id", "condition"])
    return paired.reset_index("annotation").reset_index(drop=True)


def grid(paired: pd.DataFrame, *, method: str = "kendall", resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Correlation over questions of each metric under each annotation with the reader's score: the cells of eRAG's Table 1.

    returns : index (annotation, metric), a column per retriever; Correlation, None where a column is constant, NaN where there is no metric
    """
    options, cells = {"method": method, "resamples": resamples, "rng": seed}, {}
    for (title, condition), part in paired.groupby(["annotation", "condition"], sort=False):
        for metric in part[[*erag.METRICS]].dropna(axis="columns"):
            both = part[metric], part["whole"]
            cells[title, metric, condition] = stats.correlation(*both, **options) if _varied(*both) else None
    return pd.Series(cells, dtype=object).rename_axis(["annotation", "metric", "condition"]).unstack(sort=False)


def _varied(*columns: pd.Series) -> bool:
    return all(column.notna().all() and column.nunique() > 1 for column in columns)


def ahead(paired: pd.DataFrame, *, metrics: Sequence[str] = ("P", "Success"), resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """How much closer eRAG's labels are to the reader's score than each other annotation, by Kendall's tau, questions paired.

    returns : columns condition, metric, annotation (the other one), value, low, high, n, p_value, p_holm (adjusted for all rows); pairs of
              which one is constant are left out
    """
    options, rows = {"method": "kendall", "resamples": resamples, "rng": seed}, []
    for condition, part in paired.groupby("condition", sort=False):
        wide = part.pivot(index="id", columns="annotation", values=[*metrics, "whole"])
        for metric, title in product(metrics, part["annotation"].unique()):
            compared = wide[metric, "eRAG"], wide[metric, title], wide["whole", title]
            if title != "eRAG" and _varied(*compared):
                gap = stats.correlation_difference(*compared, **options)
                rows.append({"condition": condition, "metric": metric, "annotation": title} | vars(gap))
    table = pd.DataFrame(rows).drop(columns="undefined")
    return table.assign(p_holm=stats.holm(table["p_value"], of=table[["value", "low", "high"]]))


def ceilings(paired: pd.DataFrame, *, metrics: Sequence[str]) -> dict[str, str]:
    """Kendall's tau of each metric that varies "of" the largest that the ties allow, of one retriever and one annotation.

    returns : metric -> text, and A -> the AUROC of precision where the reader is right or wrong
    """
    whole, cells = paired["whole"], {}
    for metric in metrics:
        if _varied(paired[metric], whole):
            tau = stats.correlation(paired[metric], whole, method="kendall", resamples=40).value
            cells[metric] = f"{tau:.2f} of {stats.largest_kendall(paired[metric], whole):.2f}"
    if whole.isin((0, 1)).all():
        cells["A"] = f"{stats.auroc(-paired['P'], whole):.2f}"
    return cells


def shuffled_among_equals(table: pd.DataFrame, column: str, same: Mapping, rng: np.random.Generator) -> pd.DataFrame:
    """The table with a column `moved`: the labels of another question of the same group by id; a shorter list goes on with 0.

    Groups must be made without the labels: a control whose groups hold a measure of theirs keeps that measure by construction.
    """
    table = table.sort_values(["id", "rank"])
    values = table.pivot(index="id", columns="rank", values=column).fillna(0.0)
    for group in values.groupby(values.index.map(same)).groups.values():
        values.loc[group] = values.loc[rng.permutation(group)].to_numpy()
    return table.join(values.stack().rename("moved"), on=["id", "rank"])


def within_questions(paired: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Do labels prefer, of two lists for the same question, the one that the reader does better with? Both face the same difficulty.

    paired  : as of `pairs`, one annotation
    returns : index metric; the mean of +1 (they prefer that list), 0 (neither) and -1 over the questions that the reader answers better
              with one list, as Somers' D has it: value, low, high, n, p_value and p_holm. ValueError without two lists of each question
    """
    lists = [part.set_index("id") for _, part in paired.groupby("condition", sort=False)]
    if len(lists) != 2 or not lists[0].index.equals(lists[1].index):
        raise ValueError(f"wanted two lists of each question, got {[len(part) for part in lists]} rows of lists")
    gaps = lists[1][[*metrics, "whole"]] - lists[0][[*metrics, "whole"]]
    agrees = np.sign(gaps[gaps["whole"] != 0]).mul(np.sign(gaps["whole"]), axis=0).dropna()
    rows = [stats.paired_difference(agrees[metric], 0 * agrees[metric]) for metric in metrics]
    table = pd.DataFrame(map(vars, rows), pd.Index(metrics, name="metric"))
    return table.drop(columns="undefined").assign(p_holm=stats.holm(table["p_value"], of=rows))
