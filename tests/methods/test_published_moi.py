"""What the text of MoI says in numbers and signs, checked against itself and against what the method allows."""

import numpy as np
import pytest
from looped import each

from rag_utils import moi
from rag_utils.page import report


@pytest.fixture(scope="module")
def prose():
    return report.published("moi_prose")


def printed(prose, item, beginning):
    """The value of the one statement on that item that begins so."""
    rows = prose[(prose["item"] == item) & prose["statement"].str.startswith(beginning)]
    assert len(rows) == 1, f"{item}: {beginning}"
    return rows["value"].iloc[0]


def test_prose_is_complete(prose):
    assert len(prose) == 50
    counts = prose.groupby("item").size().to_dict()
    assert counts == {
        "Fig. 1": 4,
        "Fig. 6": 1,
        "Fig. 7": 1,
        "Table 1": 9,
        "Table 2": 2,
        "Table 3": 2,
        "Table 4": 2,
        "Table 5": 12,
        "Table 6": 4,
        "Table 7": 1,
        "Table 8": 2,
        "Table 9": 1,
        "Table 10": 2,
        "Table 11": 2,
        "Table 12": 2,
        "text": 3,
    }


def test_every_source_is_prose(prose):
    """The text has no cell of any table: sections, appendices, the abstract and captions only."""
    places = r"MoI, (abstract|section \d(\.\d){0,2}|appendix [A-F]|caption of (Table|Fig\.) \d+)"
    assert prose["source"].str.fullmatch(places).all()
    of_captions = prose[prose["source"].str.contains("caption")]
    assert (of_captions["source"] == "MoI, caption of " + of_captions["item"]).all()


def test_signs_are_signs_and_shares_are_shares(prose):
    signs = prose[prose["metric"].str.startswith("sign")]
    assert len(signs) == 14 and signs["value"].isin((-1, 1)).all()
    assert prose.loc[prose["metric"] == "share", "value"].between(0, 1).all()
    per_cent = prose.loc[prose["metric"].str.startswith("per cent"), "value"]
    assert len(per_cent) == 9 and per_cent.between(1, 100).all()


def test_values_by_hand(prose):
    for (item, beginning), value in {
        ("Fig. 1", "MoI against"): 6,
        ("Table 1", "gain of MoI on HotpotQA"): 7,
        ("Table 4", "gain over"): 80,
        ("Table 5", "learning rate"): 1e-4,
        ("Table 6", "cost saved"): 90,
        ("Table 8", "EM lost when the order of MoI"): 18,
        ("Table 8", "EM lost when the order of RankGPT"): 5,
        ("Table 12", "winning cases"): 79,
        ("Fig. 6", "position coefficient"): -1,
    }.items():
        assert printed(prose, item, beginning) == value
    # added up from the sentences apart from the CSV: signs, and everything else but the number of training questions
    signs = prose["metric"].str.startswith("sign")
    assert prose.loc[signs, "value"].sum() == -2
    rest = prose[~signs & (prose["metric"] != "questions")]
    assert rest["value"].sum() == pytest.approx(
        (6 + 10) + (7 + 7 + 3 + 30 + 3 + 2) + 5 + (80 + 50) + (70 + 100 + 40 + 30 + 8 + 32 + 0.1 + 1e-4 + 4 + 5 + 0.01)
        + (90 + 50 + 1) + (18 + 5) + (3 + 100) + 0.25 + (79 + 10) + (3 + 2 + 2)
    )  # fmt: skip


def test_statements_agree_with_each_other(prose):
    assert printed(prose, "Table 8", "EM lost when the order of MoI") > printed(
        prose, "Table 8", "EM lost when the order of RankGPT"
    )
    retained = [
        printed(prose, "Table 5", f"gain over the average order retained after distillation, {one}")
        for one in ("first", "second")
    ]
    assert sorted(retained) == retained
    assert printed(prose, "Table 1", "orders of self") == printed(prose, "Table 5", "orders per training question")


@each("n", [5, 10])
def test_unknowns_and_orders_as_the_paper_counts_them(prose, n):
    """3N orders are more than 2N unknowns, but full-length orders settle 2N - 2 of the 2N - 1 at most."""
    orders = int(printed(prose, "Table 1", "random orders")) * n
    unknowns = int(printed(prose, "Table 1", "unknowns")) * n
    rng = np.random.default_rng(n)
    shown = moi.random_orders(n, 4 * orders, rng=rng)
    rank = moi.jacobian_rank(shown, rng.dirichlet(np.ones(n)), rng.normal(size=n))
    assert orders > unknowns - 1 > rank == unknowns - 2
    note = prose.loc[prose["statement"].str.startswith("unknowns"), "note"].iloc[0]
    assert "2N - 1" in note and "2N - 2" in note


def test_items_cover_every_table_and_figure():
    items = report.published("moi_items")
    assert list(dict.fromkeys(items["item"])) == [f"Table {i}" for i in range(1, 14)] + [
        f"Fig. {i}" for i in range(1, 8)
    ]
    assert set(items["status"]) <= {"measured here", "not run here"}
    assert (items["caption"] != "").all()
    assert items["caption"].str.split().map(len).max() <= 15  # our own few words
    assert items["reason"].str.split().map(len).max() <= 20


def test_prose_speaks_of_items_that_exist(prose):
    items = set(report.published("moi_items")["item"])
    assert set(prose["item"]) - {"text"} <= items
