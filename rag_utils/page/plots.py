"""Figures with one look: a colour and a marker per method or condition, and intervals.

Every function draws on an Axes and returns it; in a notebook write `_ = dot_interval(...)`. Nothing is told by colour
alone. The same input gives the same bytes.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from textwrap import fill

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from rag_utils.base import checks

STYLE = Path(__file__).with_name("companion.mplstyle")
# Okabe and Ito, with brown for their orange, yellow and sky blue, which are below 3 to 1 on white
BLACK, BLUE, VERMILLION, GREEN, PURPLE, BROWN = "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6B3A00"
NEUTRAL = ("#444444", "o")
DASHES = {"color": "#222222", "linestyle": (0, (3, 1.5)), "linewidth": 1.5}  # what a value is compared with
SIZES = {"*": 13, "X": 9.5, "P": 9.5, "p": 9, "h": 9, "8": 8} | dict.fromkeys("^v<>", 8.5)  # to look alike; else 7.5

CONDITIONS = {
    "closed book": (BLACK, "X"),
    "gold": (BLUE, "o"),
    "hard negative": (VERMILLION, "s"),
    "random passage": (PURPLE, "v"),
    "retrieved": (GREEN, "D"),
    "full context": (BROWN, "P"),
}
METHODS = {
    "human": (BLACK, "*"),
    "exact match": (VERMILLION, "X"),
    "token F1": (BROWN, "s"),
    "lexical match": (GREEN, "v"),
    "ROUGE-L": (BROWN, "8"),
    "entailment": (PURPLE, "P"),
    "judge": (PURPLE, "h"),
    "semantic entropy": (GREEN, "<"),
    "perplexity": (BROWN, ">"),
    "SePer soft": (BLUE, "D"),
    "SePer hard": (BLACK, "d"),
    "eRAG": (VERMILLION, "^"),
    "DENSE": (GREEN, "p"),
    "ECoRAG": (BROWN, "o"),
    "MoI": (BLUE, (4, 1, 0)),  # a star of four points
}
WAYS = {"ours": (BLUE, "s"), "usual way": (VERMILLION, "o")}  # to compute the same
UNCERTAINTIES = {  # drawn beside DENSE and semantic entropy
    "discrete semantic entropy": (PURPLE, "8"),
    "U_eigv": (BLUE, "h"),
    "U_deg": (VERMILLION, "D"),
    "KLE heat": (BROWN, "*"),
    "KLE Matern": (BLACK, "^"),
}
PIPELINES = {"plain RAG": (BLACK, "s"), "DENSE-RAG": (GREEN, "8")}
KEPT = {"all documents": (VERMILLION, "P"), "ten sentences": (GREEN, "h")}  # drawn beside ECoRAG
SIDES = {"certain": (BLUE, "^"), "uncertain": (VERMILLION, "v")}  # of a threshold
MARKS = CONDITIONS | METHODS | WAYS | UNCERTAINTIES | PIPELINES | KEPT | SIDES  # name -> (colour, marker); no two share both

BETTER = {"higher": ", higher is better", "lower": ", lower is better", "neither": ""}
TABLE_COLUMNS = ("group", "mark", "value", "low", "high")


def use_style() -> None:
    """Set the look of every figure that follows; once, after the imports of a notebook."""
    plt.style.use(STYLE)


def new_axes(height: float = 3.2, *, width: float = 5.2) -> Axes:
    """An empty Axes of 1 to 12 inches, in a figure of its own in the book's style; reads at 400 pixels if `width` stays."""
    size = checks.number("width", width, low=1, high=12), checks.number("height", height, low=1, high=12)
    use_style()
    return plt.subplots(figsize=size)[1]


def mark(name: str) -> tuple[str, str | tuple]:
    """Colour and marker of a method or condition; ValueError with near names if it has none."""
    return MARKS[checks.one_of("method or condition", name, MARKS)]


def axis_label(quantity: str, unit: str, better: str) -> str:
    """Text of a value axis: what, in which unit ("0-1", "nats"), and which way is good, "higher", "lower" or "neither"."""
    return f"{checks.filled('quantity', quantity)} ({checks.filled('unit', unit)}){BETTER[checks.one_of('better', better, BETTER)]}"


def dot_interval(ax: Axes, estimates: Sequence, labels: Sequence[str], *, quantity: str, unit: str, better: str, rows: str) -> Axes:
    """One row per estimate, the first on top: a dot and its interval.

    estimates : each with .value .low .high
    labels    : one text per estimate, all different; those that are in MARKS have their own mark, others the neutral dot
    rows      : what the rows are, the label of the other axis; for the value axis see `axis_label`
    raises    : ValueError for no rows, unequal lengths, labels that occur twice, values that are not finite
    """
    estimates, labels = checks.listed("estimates", estimates), checks.distinct("labels", checks.texts("labels", labels))
    checks.same_length(estimates=estimates, labels=labels)
    for row, (estimate, label) in enumerate(zip(estimates, labels, strict=True)):
        numbers = (getattr(estimate, part, None) for part in ("value", "low", "high"))
        _interval(ax, row, *numbers, MARKS.get(label, NEUTRAL))
    _rows(ax, labels, axis_label(quantity, unit, better), rows)
    return ax


def grouped_intervals(ax: Axes, table: pd.DataFrame, *, quantity: str, unit: str, better: str, rows: str) -> Axes:
    """Several conditions on several data sets: a row per group, in it one dot and interval per mark.

    table  : columns group, mark (a name from MARKS), value, low, high, in the unit of the axis; groups and marks are
             drawn in the order of their first row
    raises : ValueError for missing columns, no rows, a group and mark that occur twice, values that are not finite
    """
    _check_table(table, TABLE_COLUMNS)
    groups, names = list(dict.fromkeys(table["group"])), list(dict.fromkeys(table["mark"]))
    step = 0.72 / len(names)
    for group, name, *numbers in table[list(TABLE_COLUMNS)].itertuples(index=False):
        row = groups.index(group) + step * (names.index(name) - (len(names) - 1) / 2)
        _interval(ax, row, *numbers, mark(name))
    for border in range(1, len(groups)):
        ax.axhline(border - 0.5, color="#BBBBBB", linewidth=0.8, zorder=1)
    _legend(ax, [Line2D([], [], **_point(*mark(name)), label=name) for name in names])
    _rows(ax, groups, axis_label(quantity, unit, better), rows)
    return ax


def interval_lines(
    ax: Axes, table: pd.DataFrame, *, x: str, x_label: str, quantity: str, unit: str, better: str, logarithmic=False
) -> Axes:
    """One line per mark over a number (samples, list length, position), with its interval at every point.

    table       : columns `x` (numbers), mark, value, low, high, in the unit of the axis
    logarithmic : equal ratios are equal distances on the vertical axis
    raises      : ValueError as in `grouped_intervals`, for an empty x_label, and for values <= 0 on a logarithmic axis
    """
    _check_table(table, (x, *TABLE_COLUMNS[1:]))
    if logarithmic and (table["low"] <= 0).any():
        raise ValueError(f"a logarithmic axis wants values above 0, got {table['low'].min()}")
    names = list(dict.fromkeys(table["mark"]))
    places = sorted({checks.number(x, place) for place in table[x]})
    nearest = min((b - a for a, b in pairwise(places)), default=1.0)
    for number, name in enumerate(names):
        shift = 0.12 * nearest * (number - (len(names) - 1) / 2) / max(1, len(names) - 1)  # keeps intervals apart
        part = table[table["mark"] == name].sort_values(x)
        for numbers in part[["value", "low", "high"]].itertuples(index=False):
            checks.ordered(*numbers)
        at = part[x].astype(float) + shift
        ax.plot(at, part["value"], **_point(*mark(name)), zorder=3)
        ax.vlines(at, part["low"], part["high"], color=mark(name)[0], linewidth=2, zorder=2)
    ax.set(xlabel=checks.filled("x_label", x_label), ylabel=_wrap_axis(axis_label(quantity, unit, better), 32))
    ax.set_xticks(places, [f"{place:g}" for place in places])
    if logarithmic:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_locator(NullLocator())
    _legend(ax, [Line2D([], [], **_point(*mark(name)), label=name) for name in names])
    return ax


def _rows(ax: Axes, labels: Sequence[str], values: str, rows: str) -> None:
    ax.set(xlabel=_wrap_axis(values, 40), ylabel=checks.filled("rows", rows))
    ax.set_yticks(range(len(labels)), [fill(label, 18, break_long_words=False) for label in map(str, labels)])
    ax.set_ylim(len(labels) - 0.45, -0.55)  # the first row on top
    ax.grid(axis="y", visible=False)


def _interval(ax: Axes, row: float, value: float, low: float, high: float, look: tuple) -> None:
    checks.ordered(value, low, high)
    ax.plot([low, high], [row, row], color=look[0], linewidth=2, solid_capstyle="butt", zorder=2)
    ax.plot([value], [row], **_point(*look), zorder=3)


def _point(colour: str, marker: str | tuple) -> dict:
    edge = {"markeredgecolor": "white", "markeredgewidth": 0.6}
    return {"color": colour, "marker": marker, "markersize": SIZES.get(marker, 7.5), **edge}


def _legend(ax: Axes, handles: Iterable[Line2D]) -> None:
    ax.legend(handles=list(handles), loc="lower right", bbox_to_anchor=(1, 1.01), ncols=2, borderaxespad=0)


def _wrap_axis(text: str, width: int) -> str:
    """The label of a value axis; where it does not fit on one line, the good direction has a line of its own."""
    what, _, way = text.rpartition(", ") if text.endswith(" is better") else (text, "", "")
    return text if len(text) <= width else "\n".join(filter(None, (fill(what, width, break_long_words=False), way)))


def _check_table(table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Whether a table has rows with these columns, and the first two, which name a row, never twice the same."""
    if table.empty or not {*columns} <= {*table.columns}:
        raise ValueError(f"wanted rows with columns {columns}, got {len(table)} rows, {list(table.columns)}")
    keys = list(columns[:2])
    if (double := table[table.duplicated(keys)]).size:
        raise ValueError(f"wanted each {' and '.join(keys)} once, got {double[keys].iloc[0].to_dict()} twice")
