"""Figures: the same bytes twice, labelled axes, marks that differ, what is drawn is what was given."""

import struct
from io import BytesIO
from itertools import combinations
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from looped import each
from matplotlib.colors import to_rgb

from book import essay
from rag_utils.engine import tree
from rag_utils.page import plots

FAMILIES = plots.CONDITIONS, plots.METHODS, plots.WAYS, plots.UNCERTAINTIES, plots.PIPELINES, plots.KEPT, plots.SIDES
VALUE = {"quantity": "F1", "unit": "0-1", "better": "higher"}


@pytest.fixture(autouse=True)
def fresh_figures():
    with matplotlib.rc_context():
        yield
    plt.close("all")


def png(figure):
    out = BytesIO()
    figure.savefig(out, format="png", dpi=160, metadata={"Software": None})
    return out.getvalue()


def estimate(value, low, high):
    return SimpleNamespace(value=value, low=low, high=high, n=100)


def dots():
    rows = [estimate(0.5, 0.4, 0.7), estimate(0.3, 0.2, 0.35)]
    return plots.dot_interval(plots.new_axes(2.5), rows, ["gold", "some variant"], rows="condition", **VALUE)


def grouped_table():
    rows = [(group, mark, 0.5, 0.4, 0.6) for group in ("NQ", "HotpotQA") for mark in ("closed book", "gold")]
    return pd.DataFrame(rows, columns=["group", "mark", "value", "low", "high"])


def groups(table=None):
    table = grouped_table() if table is None else table
    return plots.grouped_intervals(plots.new_axes(), table, rows="data set", **VALUE)


def lines_table():
    rows = [(n, mark, 0.5, 0.4, 0.6) for mark in ("SePer soft", "exact match") for n in (1, 5, 10)]
    return pd.DataFrame(rows, columns=["samples", "mark", "value", "low", "high"])


def lines(table=None, x_label="samples per question", **options):
    table = lines_table() if table is None else table
    return plots.interval_lines(plots.new_axes(), table, x="samples", x_label=x_label, **VALUE, **options)


TEXTS = [[1, 2, 3, 4], [1, 2, 3, 5, 6], [1, 2, 7]]


def tree_of(texts=TEXTS, name=lambda node: f"from {node.start}"):
    return essay.prefix_tree(plots.new_axes(), tree.prefix_tree(texts), name)


def drawn(ax):
    """Points that have a marker, as (x, y, colour, marker)."""
    return [
        (*line.get_xydata()[0], line.get_color(), line.get_marker())
        for line in ax.get_lines()
        if line.get_marker() not in ("None", "", None)
    ]


@each("draw", [dots, groups, lines, tree_of])
def test_two_renders_are_the_same_bytes(draw):
    one, two = png(draw().figure), png(draw().figure)
    assert one == two
    assert one.startswith(b"\x89PNG")
    for chunk in (b"tIME", b"tEXt", b"iTXt", b"zTXt"):  # no date, no program
        assert chunk not in one


@each("draw", [dots, groups, lines])
def test_every_figure_has_labels_and_no_ground_of_its_own(draw):
    ax = draw()
    assert ax.get_xlabel() and ax.get_ylabel()
    assert "F1 (0-1), higher is better" in (ax.get_xlabel(), ax.get_ylabel())
    assert ax.figure.get_facecolor()[3] == ax.get_facecolor()[3] == 0


@each("draw", [dots, groups, lines, tree_of])
def test_nothing_is_cut_off_and_type_reads_on_a_phone(draw):
    ax = draw()
    data = png(ax.figure)
    width, _ = struct.unpack(">II", data[16:24])
    assert width == round(5.2 * 160)
    page, box = ax.figure.bbox, ax.get_tightbbox()
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= page.x1 and box.y1 <= page.y1
    for text in [ax.xaxis.label, ax.yaxis.label, *ax.get_xticklabels(), *ax.get_yticklabels()]:
        assert text.get_fontsize() / 72 * 400 / 5.2 >= 11  # pixels when the figure is 400 wide


def test_dots_are_where_they_should_be():
    ax = dots()
    assert [(x, y) for x, y, _, _ in drawn(ax)] == [(0.5, 0), (0.3, 1)]
    assert [part[2:] for part in drawn(ax)] == [plots.MARKS["gold"], plots.NEUTRAL]
    spans = [tuple(line.get_xdata()) for line in ax.get_lines() if len(line.get_xdata()) == 2]
    assert spans == [(0.4, 0.7), (0.2, 0.35)]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["gold", "some variant"]
    bottom, top = ax.get_ylim()
    assert bottom > top  # the first row is on top
    assert ax.get_legend() is None


def test_grouped_intervals_keep_order_and_do_not_overlap():
    ax = groups()
    places = [y for _, y, _, _ in drawn(ax)]
    assert places == sorted(places) and min(np.diff(places)) > 0.2
    assert [round(place) for place in places] == [0, 0, 1, 1]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["closed book", "gold"]


def test_lines_show_all_points_with_their_intervals():
    ax = lines()
    assert [len(line.get_xdata()) for line in ax.get_lines()] == [3, 3]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "5", "10"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["SePer soft", "exact match"]
    assert sum(len(collection.get_segments()) for collection in ax.collections) == 6


def test_on_a_logarithmic_axis_equal_ratios_are_equal_distances():
    ax = lines(lines_table().assign(low=0.05, high=5.0), logarithmic=True)
    low, middle, high = ax.transData.transform([(0, 0.1), (0, 1), (0, 10)])[:, 1]
    assert high - middle == pytest.approx(middle - low)
    assert {text.get_text() for text in ax.get_yticklabels()} >= {"0.2", "0.5", "1"}
    with pytest.raises(ValueError, match="above 0, got 0"):
        lines(lines_table().assign(low=0.0), logarithmic=True)


def test_a_prefix_tree_has_a_bar_for_every_segment_and_says_what_it_saves():
    ax = tree_of()
    bars = {(bar.get_x(), bar.get_width(), bar.get_y() + bar.get_height() / 2) for bar in ax.patches}
    # rows: 1 2 3 4, then 1 2 3 5 6, then 1 2 7; a shared segment stands between the rows that continue it
    assert bars == {(3, 1, 0), (3, 2, 1), (2, 1, 2), (2, 1, 0.5), (0, 2, 1.25)}
    said = [text.get_text() for text in ax.texts]
    assert sorted(said) == ["1  from 2", "1  from 3", "1 × 2", "2  from 3", "2 × 3", "from 0", "from 2"]
    saved = sum(int(n) * (int(k) - 1) for n, k in (text.split(" × ") for text in said if "×" in text))
    assert saved == sum(map(len, TEXTS)) - tree.size(tree.prefix_tree(TEXTS)) == 5
    assert ax.get_xlabel() and ax.get_ylabel()


def test_a_prefix_tree_that_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="text 0 is the beginning of another"):
        tree_of([[1, 2], [1, 2, 3]])
    with pytest.raises(ValueError, match="must hold at least one word; got ' '"):
        tree_of(name=lambda node: " ")


def linear(colour):
    return np.array([c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)])


def test_marks_are_distinct_and_stand_out_from_white():
    assert len(set(plots.MARKS.values())) == len(plots.MARKS) == sum(map(len, FAMILIES))
    beside = {name: plots.METHODS[name] for name in ("DENSE", "semantic entropy")}
    kept = plots.KEPT | {"ECoRAG": plots.METHODS["ECoRAG"]}
    for family in (*FAMILIES, plots.UNCERTAINTIES | beside, kept):
        markers = [marker for _, marker in family.values()]
        assert len(set(markers)) == len(markers)  # never colour alone
    assert len({colour for colour, _ in plots.CONDITIONS.values()}) == len(plots.CONDITIONS)
    for colour, _ in [*plots.MARKS.values(), plots.NEUTRAL]:
        assert 1.05 / (linear(colour) @ [0.2126, 0.7152, 0.0722] + 0.05) >= 3  # WCAG 2.1, 1.4.11


def least_distance(colours):
    """Smallest CIE 1976 distance of two colours, as seen with full colour vision, protanopia and deuteranopia.

    Simulation by the matrices of Machado, Oliveira and Fernandes 2009 at full severity, on linear RGB.
    """
    protan = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    deutan = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])

    def lab(matrix, colour):
        xyz = to_xyz @ np.clip(np.array(matrix) @ linear(colour), 0, 1) / [0.9505, 1, 1.089]
        x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    return min(
        np.linalg.norm(lab(matrix, a) - lab(matrix, b))
        for matrix in (np.eye(3), protan, deutan)
        for a, b in combinations(colours, 2)
    )


def test_colours_differ_for_colour_blind_eyes():
    okabe_ito = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
    ours = sorted({colour for colour, _ in plots.MARKS.values()})
    assert len(ours) == 6
    assert least_distance(ours) >= least_distance(okabe_ito) > 17
    assert least_distance(["#D55E00", "#A66F00"]) < 1  # a darker orange, which also has the contrast, would not do


def test_mark_names():
    assert plots.mark("gold") == plots.MARKS["gold"]
    with pytest.raises(ValueError, match="did you mean 'hard negative'"):
        plots.mark("hard negativ")


@each(
    "options",
    [
        {"quantity": ""},
        {"unit": " "},
        {"unit": None},
        {"better": "more"},
        {"rows": ""},
        {"labels": ["a"]},
        {"labels": ["a", "a"]},
        {"estimates": [], "labels": []},
        {"estimates": [estimate(0.5, 0.6, 0.4)] * 2},
        {"estimates": [estimate(float("nan"), 0.4, 0.6)] * 2},
        {"estimates": [None, "0.5"]},
    ],
)
def test_dot_interval_refuses(options):
    given = {"estimates": [estimate(0.5, 0.4, 0.6)] * 2, "labels": ["a", "b"], "rows": "r", **VALUE, **options}
    with pytest.raises(ValueError, match=r"got|wanted|unknown"):
        plots.dot_interval(plots.new_axes(), given.pop("estimates"), given.pop("labels"), **given)


@each(("draw", "table"), [(groups, grouped_table), (lines, lines_table)])
def test_tables_are_checked(draw, table):
    good = table()
    for bad in (
        good.drop(columns="low"),
        good.iloc[:0],
        pd.concat([good, good]),
        good.assign(value=np.nan),
        good.assign(low=0.9),
        good.assign(mark="no such method"),
    ):
        with pytest.raises(ValueError):
            draw(bad)


def test_axes_are_required():
    ax = plots.new_axes()
    with pytest.raises(TypeError):
        plots.dot_interval(ax, [estimate(0.5, 0.4, 0.6)], ["a"])
    with pytest.raises(ValueError, match="x_label"):
        lines(x_label="")
    for height in (0, 40, float("nan"), "3"):
        with pytest.raises(ValueError, match="height"):
            plots.new_axes(height)


def test_long_axis_label_gives_the_direction_its_own_line():
    ax = plots.new_axes()
    value = {"quantity": "correlation with the human label", "unit": "Pearson r", "better": "higher"}
    plots.dot_interval(ax, [estimate(0.5, 0.4, 0.6)], ["a"], rows="variant", **value)
    assert ax.get_xlabel().splitlines()[-1] == "higher is better"
    assert plots.axis_label("latency", "seconds", "lower") == "latency (seconds), lower is better"
    assert plots.axis_label("position", "rank", "neither") == "position (rank)"
