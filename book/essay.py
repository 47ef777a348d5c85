"""What an essay is furnished with: a card of claims and its picture, a diagram, replies as dots, a picture that moves."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from rag_utils.base import checks
from rag_utils.engine.tree import Node
from rag_utils.page import plots, report

INK, RIGHT, LENT, OTHER = "#222222", plots.BLUE, plots.VERMILLION, "#8A8F98"
KINDS = {
    "right": (RIGHT, "o"),
    "lent": (LENT, "^"),
    "other": (OTHER, "s"),
}  # of a reply: right, another passage's, anything else
FILLS = {"text": "none", "model": "#0072B233", "number": "#009E7333"}  # of the boxes of a diagram


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of the paper, in words that it would accept, and what became of it here.

    section  : anchor of the section of this page that shows it
    record   : page and anchor of its record, such as "record/02_seper_validity.html#table-2"
    printed  : what the paper prints, in words; `aim` is the number in it that `measured` can be held against, if there is one
    measured    : .value .low .high .n, above 0 where the claim holds, or None where nothing was run
    """

    claim: str
    section: str
    record: str
    printed: str
    measured: object
    verdict: report.Verdict
    limits: str
    aim: float | None = None
    scale: float = 1
    digits: int = 2


def table(head: tuple[str, ...], rows: Iterable[Iterable[str]], kind: str = "claims") -> str:
    """Rows of cells that are HTML themselves; where the page is narrow a cell, the first aside, is shown behind its column's name."""
    titles = "".join(f'<th scope="col">{title}</th>' for title in head)
    body = ""
    for first, *others in rows:
        body += f"<tr><td>{first}</td>"
        body += "".join(f'<td data-label="{title}">{cell}</td>' for title, cell in zip(head[1:], others, strict=True)) + "</tr>"
    return f'<table class="{kind}"><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>'


def breakable(text: str) -> str:
    """As HTML, with a place for a new line behind each underscore: a table of long names fits its column."""
    return escape(text).replace("_", "_<wbr>")


class Shown:
    """A table on a page that is printed with a line for a row."""

    def __repr__(self):
        return "\n".join(" | ".join(row) for row in (self.HEAD, *self.cells()))


class Card(Shown):
    """The table on top of an essay; see `card`."""

    HEAD = ("the paper's claim", "printed", "here", "verdict", "what limits it")

    def __init__(self, claims: Sequence[Claim]):
        self.claims = claims

    def cells(self) -> list[tuple[str, ...]]:
        rows = []
        for each in self.claims:
            here = "not run" if each.measured is None else report.interval_text(each.measured, each.digits, scale=each.scale)
            here += "" if each.measured is None else f", n = {each.measured.n}"
            rows.append((each.claim, each.printed, here, each.verdict.verdict, each.limits))
        return rows

    def _repr_html_(self):
        rows = []
        for each, (claim, printed, here, verdict, why) in zip(self.claims, self.cells(), strict=True):
            linked = f'<a href="#{each.section}">{escape(claim)}</a>', f'<a href="{each.record}">{verdict}</a>'
            rows.append((linked[0], escape(printed), escape(here), linked[1], escape(why)))
        return table(self.HEAD, rows)


def card(claims: Sequence[Claim]) -> Card:
    """The claims as the table on top of an essay; ValueError for none, more than five, or one that occurs twice."""
    checks.distinct("claims", [each.claim for each in checks.listed("claims", claims, of=Claim)])
    if len(claims) > 5:
        raise ValueError(f"a card holds at most five claims, got {len(claims)}; the others belong to the record")
    return Card(claims)


class Inventory(Shown):
    """What became of a paper's tables and figures; see `inventory`."""

    HEAD = ("item", "what", "status", "how, or why not")

    def __init__(self, rows: pd.DataFrame):
        self.rows = rows

    def cells(self) -> list[tuple[str, ...]]:
        rows = self.rows.itertuples()
        return [(f"{row.item}, {row.part}" if row.part else row.item, row.caption, row.status, row.reason) for row in rows]

    def _repr_html_(self):
        rows = []
        for (item, what, status, why), where in zip(self.cells(), self.rows["where"], strict=True):
            page, _, anchor = where.removeprefix("record/").partition("#")
            status = f'<a href="{page}.html#{anchor}">{status}</a>' if page else escape(status)
            rows.append((escape(item), escape(what), status, breakable(why)))
        return table(self.HEAD, rows, "inventory claims")


def inventory(paper: str, *items: str) -> Inventory:
    """The paper's tables and figures, each with what became of it, as the table that closes a record.

    paper : as in data/published; items : of these only, in the file's order; ValueError for an unknown one
    """
    rows = report.published(f"{paper}_items")
    for item in items:
        checks.one_of(f"table or figure of {paper}", item, rows["item"])
    return Inventory(rows[rows["item"].isin(items)] if items else rows)


def forest(claims: Sequence[Claim], short: Sequence[str], *, quantity: str, unit: str) -> Axes:
    """The claims that were run, each a dot with its interval; right of the dashed line is what the paper says, an open diamond its number.

    short : a few words for each claim
    """
    pairs = [(each, words) for each, words in zip(claims, short, strict=True) if each.measured is not None]
    ax = plots.new_axes(0.9 + 0.55 * len(pairs))
    ax.axvline(0, **plots.DASHES)
    axis = {"quantity": quantity, "unit": unit, "better": "neither", "rows": "claim"}
    plots.dot_interval(ax, [each.measured for each, _ in pairs], [words for _, words in pairs], **axis)
    ax.locator_params(axis="x", nbins=6)
    for row, (each, _) in enumerate(pairs):
        if each.aim is not None:
            ax.plot(
                [each.aim],
                [row],
                marker="D",
                markersize=9,
                color=INK,
                markerfacecolor="none",
                linestyle="none",
                zorder=4,
            )
    return ax


def flow(boxes: dict[str, tuple], arrows: Sequence[tuple], *, width: float = 5.2, height: float = 2.4) -> Axes:
    """A diagram of boxes and arrows.

    boxes  : text -> (column, row, kind), kind a key of FILLS; columns count from the left, rows from the top, both may be fractions
    arrows : (text of a box, text of another) or, with words beside it, (one, other, words)
    """
    ax = plots.new_axes(height, width=width)
    ax.axis("off")
    columns, rows = ([place[axis] for place in boxes.values()] for axis in (0, 1))
    ax.set(xlim=(min(columns) - 0.5, max(columns) + 0.5), ylim=(max(rows) + 0.5, min(rows) - 0.5))
    drawn = {}
    for text, (column, row, kind) in boxes.items():
        look = {
            "boxstyle": "round,pad=0.45",
            "facecolor": FILLS[checks.one_of("kind of a box", kind, FILLS)],
            "edgecolor": INK,
        }
        drawn[text] = ax.text(column, row, text, ha="center", va="center", fontsize=9.5, bbox=look, zorder=3)
    for source, target, *words in arrows:
        ends = {
            "arrowstyle": "-|>",
            "color": INK,
            "patchA": drawn[source].get_bbox_patch(),
            "patchB": drawn[target].get_bbox_patch(),
        }
        start, stop = boxes[source][:2], boxes[target][:2]
        ax.annotate("", stop, start, arrowprops=ends | {"shrinkA": 2, "shrinkB": 2}, zorder=4)  # after the boxes, whose edges it ends at
        for word in words:
            middle = [(a + b) / 2 for a, b in zip(start, stop, strict=True)]
            upright = start[0] == stop[0]
            beside = {"ha": "left", "va": "center"} if upright else {"ha": "center", "va": "bottom"}
            ax.annotate(word, middle, (5 * upright, 0), textcoords="offset points", fontsize=8.5, zorder=5, **beside)
    return ax


def replies(rows: dict[str, Sequence[tuple[str, int, str]]], *, ax: Axes | None = None) -> Axes:
    """Replies to one question as dots, a row for each thing that was shown to the reader.

    rows : what was shown -> groups of replies as (what they say, how many, kind), kind a key of KINDS
    """
    ax = ax or plots.new_axes(0.62 * len(rows) + 0.5)
    for row, groups in enumerate(rows.values()):
        begin = 0
        for text, count, kind in groups:
            colour, marker = KINDS[checks.one_of("kind of a reply", kind, KINDS)]
            ax.plot(range(begin, begin + count), [row] * count, marker=marker, color=colour, markersize=10, linestyle="none")
            ax.text(begin + (count - 1) / 2, row - 0.3, text, ha="center", va="bottom", fontsize=8.5)
            begin += count
    ax.set(
        xlim=(-0.6, max(sum(g[1] for g in groups) for groups in rows.values()) - 0.4),
        ylim=(len(rows) - 0.6, -0.9),
        xticks=[],
    )
    ax.set_yticks(range(len(rows)), list(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.grid(visible=False)
    return ax


def grid(values: pd.DataFrame, best: Sequence[str] = (), *, ax: Axes | None = None) -> Axes:
    """Rows seen through several measures: a dot for each value, its area the share of the largest in its column, the number below it.

    values : a column per measure, NaN where it says nothing; blue is above 0, an open orange ring below
    best   : rows whose names are set in bold
    """
    ax = ax or plots.new_axes(0.62 * len(values) + 0.7)
    for column, name in enumerate(values):
        largest = values[name].abs().max()
        for row, value in enumerate(values[name]):
            if value == value and largest:
                colours = {"facecolor": RIGHT, "edgecolor": RIGHT} if value > 0 else {"facecolor": "none", "edgecolor": LENT}
                ax.scatter([column], [row - 0.12], s=240 * abs(value) / largest, linewidth=1.6, zorder=3, **colours)
            digits = 2 if largest < 2 and (values[name].dropna() % 1).any() else 0
            words = f"{value:z.{digits}f}" if value == value else "–"
            ax.text(column, row + 0.24, words, ha="center", va="top", fontsize=9)
    ax.set(xlim=(-0.6, values.shape[1] - 0.4), ylim=(len(values) - 0.35, -0.6))
    ax.set_xticks(range(values.shape[1]), list(values))
    ax.set_yticks(range(len(values)), list(values.index))
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    for label in ax.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() in best else "normal")
    ax.spines[:].set_visible(False)
    ax.grid(visible=False)
    return ax


class Moving:
    """A picture that one can move: a file of `book/moving` with numbers put into it. It asks no host for anything."""

    def __init__(self, name: str, numbers: dict, *, shown: str):
        self.name, self.numbers, self.shown = name, numbers, shown

    def __repr__(self):
        return self.shown

    def _repr_html_(self):
        template = Path(__file__).with_name("moving").joinpath(f"{self.name}.html").read_text(encoding="utf-8")
        return template.replace("NUMBERS", json.dumps(self.numbers))


def prefix_tree(ax: Axes, root: Node, name: Callable[[Node], str]) -> Axes:
    """A bar for every segment of a prefix tree, at its place in the texts, and a row for every text.

    name   : what a segment is called. Above a segment that texts share stands its name and in it tokens x texts, so that the tokens
             saved are tokens x (texts - 1); at the end of a row its tokens and its name
    raises : ValueError if a name is empty or a text ends where another goes on, which would have no row of its own
    """
    for node in root.walk():
        if node.children and node.ends:
            raise ValueError(f"texts must have ends of their own; text {node.ends[0]} is the beginning of another")
        checks.filled(f"the name of the segment from token {node.start} on", name(node))
    leaves = [node for node in root.walk() if not node.children]
    shared = [node for node in root.walk() if node.children]
    longest = max(node.stop for node in leaves)

    def row(node: Node) -> float:
        """A leaf's number, or the middle of what continues the segment."""
        return (row(node.children[0]) + row(node.children[-1])) / 2 if node.children else leaves.index(node)

    for node in [*leaves, *reversed(shared)]:
        at, tokens, colours = (
            row(node),
            len(node.tokens),
            [plots.BLUE, "white"] if node.children else ["white", plots.BLUE],
        )
        ax.barh(at, tokens, 0.6, node.start, color=colours[0], edgecolor=colours[1], linewidth=1.4, zorder=3)
        if node.children:
            ends = (row(node.children[i]) for i in (0, -1))
            ax.vlines(node.stop, *ends, color=plots.NEUTRAL[0], linewidth=1.2, zorder=2)
            middle, texts = node.start + tokens / 2, sum(len(below.ends) for below in node.walk())
            ax.text(middle, at, f"{tokens} × {texts}", ha="center", va="center_baseline", color="white", zorder=4)
            ax.text(middle, at - 0.36, name(node), ha="center", va="bottom")
        else:
            ax.text(node.stop + longest / 60, at, f"{tokens}  {name(node)}", va="center")
    ax.set(xlim=(0, 1.42 * longest), ylim=(len(leaves) - 0.4, -0.8), yticks=[])
    ax.set(xlabel="place in the text (tokens)", ylabel="texts")
    ax.set_xticks([place for place in ax.get_xticks() if place <= longest])
    ax.grid(axis="y", visible=False)
    handles = [Patch(facecolor=fill, edgecolor=plots.BLUE, label=label)
               for label, fill in {"shared": plots.BLUE, "of one text": "white"}.items()]  # fmt: skip
    ax.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1.01), ncols=2, borderaxespad=0)
    return ax
