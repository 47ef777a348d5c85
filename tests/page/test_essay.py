"""What essays are furnished with: the card of claims, its picture, diagrams, replies as dots; and the pages made of other pages."""

import json
from types import SimpleNamespace

import matplotlib
import pytest

matplotlib.use("Agg")

from book import essay, results
from rag_utils.page import report

FOUND = SimpleNamespace(value=0.12, low=0.05, high=0.2, n=40)
SAYS = report.Verdict("same direction", "another model")


def claim(words="a < b", measured=FOUND, **other):
    rest = {"section": "here", "record": "record/x.html#there", "printed": "by 0.3", "aim": 0.3, "limits": "one set"}
    verdict = SAYS if measured else report.Verdict("not run here", "no model")
    return essay.Claim(claim=words, measured=measured, verdict=verdict, **rest | other)


def test_a_card_says_the_same_in_text_and_in_html():
    card = essay.card([claim(), claim("c", None, aim=None)])
    assert repr(card).splitlines()[1:] == [
        "a < b | by 0.3 | 0.12 [0.05, 0.20], n = 40 | same direction | one set",
        "c | by 0.3 | not run | not run here | one set",
    ]
    html = card._repr_html_()
    assert '<a href="#here">a &lt; b</a>' in html and '<a href="record/x.html#there">same direction</a>' in html


def test_a_card_holds_one_to_five_claims_each_once():
    for wrong, said in (
        ([], "claims"),
        ([claim(), claim()], "claims"),
        ([claim(str(n)) for n in range(6)], "at most five claims, got 6"),
    ):
        with pytest.raises(ValueError, match=said):
            essay.card(wrong)


def test_an_inventory_leads_to_what_was_measured_and_says_why_the_rest_was_not():
    every, own = essay.inventory("dense"), essay.inventory("dense", "Table 3", "Table 1")
    assert len(every.rows) == len(report.published("dense_items")) and list(own.rows["item"]) == ["Table 1", "Table 3"]
    assert repr(own).splitlines()[2].startswith("Table 3 | exact match against published systems | not run here | generators of")
    html = own._repr_html_()
    assert html.count("<a href=") == 1 and '<a href="04_dense_thresholds.html#dense-against' in html
    assert any(item.startswith("Fig. 4, ") for item, *_ in every.cells())
    with pytest.raises(ValueError, match="unknown table or figure of dense 'Table 99'"):
        essay.inventory("dense", "Table 99")


def test_the_picture_of_a_card_shows_what_was_run_and_what_is_printed():
    ax = essay.forest(
        [claim(), claim("c", None), claim("d", aim=None)], ["one", "two", "three"], quantity="gap", unit="-1 to 1"
    )
    assert [text.get_text() for text in ax.get_yticklabels()] == ["one", "three"]
    diamonds = [line.get_xydata().tolist() for line in ax.get_lines() if line.get_marker() == "D"]
    assert diamonds == [[[0.3, 0]]]


def test_a_diagram_has_its_boxes_and_arrows():
    ax = essay.flow({"a": (0, 0, "text"), "b": (1, 0, "model")}, [("a", "b", "then")])
    assert {text.get_text() for text in ax.texts} >= {"a", "b", "then"}
    with pytest.raises(ValueError, match="kind of a box"):
        essay.flow({"a": (0, 0, "cloud")}, [])
    with pytest.raises(KeyError):
        essay.flow({"a": (0, 0, "text")}, [("a", "z")])


def test_replies_are_one_dot_each():
    ax = essay.replies({"nothing": [("1830", 3, "other")], "passage": [("1829", 2, "right"), ("1729", 1, "lent")]})
    dots = {
        (line.get_marker(), y): len(x) for line in ax.get_lines() for x, y in [(line.get_xdata(), line.get_ydata()[0])]
    }
    assert dots == {("s", 0): 3, ("o", 1): 2, ("^", 1): 1}
    with pytest.raises(ValueError, match="kind of a reply"):
        essay.replies({"x": [("1829", 1, "wrong")]})


def test_a_moving_picture_is_whole_in_the_page():
    moving = essay.Moving("weights", {}, shown="as text")
    html = moving._repr_html_()
    assert repr(moving) == "as text" and "<svg" in html and "<script>" in html
    assert "http" not in html and "NUMBERS" not in html


def test_results_are_read_from_cards_and_comparison_tables(tmp_path, monkeypatch):
    compared = report.comparison_table([
        report.Comparison("DENSE: A, tau", estimate=FOUND, unparsed=None, published=0.5, verdict=SAYS),
        report.Comparison("B, tau", estimate=FOUND, unparsed=None, published=None, verdict=None),
    ])  # fmt: skip
    html = [
        essay.card([claim()])._repr_html_(),
        compared._repr_html_(),
        "<table><tbody><tr><td>1</td></tr></tbody></table>",
    ]
    code = {"cell_type": "code", "source": "", "metadata": {"compared": "tau (Table 1)"}}
    cells = [code | {"outputs": [{"output_type": "display_data", "data": {"text/html": [each]}}]} for each in html]
    heads = [{"cell_type": "markdown", "metadata": {}, "source": source} for source in ("# A page", "Said.\n\n## One's part")]
    (tmp_path / "book/record").mkdir(parents=True)
    (tmp_path / "book/03_x.ipynb").write_text(json.dumps({"cells": [heads[0], cells[0], cells[2]]}))
    (tmp_path / "book/record/09_y.ipynb").write_text(json.dumps({"cells": [*heads, cells[1]]}))
    monkeypatch.setattr(results, "ROOT", tmp_path)
    both = {"here": "0.12 [0.05, 0.20], n = 40", "verdict": "same direction"}
    of_claim = both | {"printed": "by 0.3", "why": claim().limits, "where": "03_x.html", "title": "A page"}
    of_row = both | {"printed": "0.50", "why": SAYS.why, "where": "record/09_y.html#one-s-part", "title": "One's part"}
    assert results.compared() == [
        results.Row(paper="eRAG", what="a < b", of="", **of_claim),
        results.Row(paper="DENSE", what="A, tau", of="tau (Table 1)", **of_row),
    ]
    html = results.results_html()
    assert html.count("<tr>") == 3 + 3  # a head and two rows; in the tally a head, eRAG and all
    assert "<td>eRAG</td>" in html and f"<b>same direction</b><br><small>{SAYS.why}</small>" in html
    assert '<td data-label="same direction"><a href="#rows" data-paper="eRAG" data-verdict="same direction">1</a></td>' in html
    del cells[1]["metadata"]["compared"]
    (tmp_path / "book/record/09_y.ipynb").write_text(json.dumps({"cells": [*heads, cells[1]]}))
    with pytest.raises(KeyError, match="compared"):
        results.compared()


def test_the_inventory_and_the_status_hold_what_is_there():
    assert results.inventory_html().count("<tr>") > 100
    status = results.status_html()
    assert "torch 2.13.0" in status and "recorded calls computed again" in status
