"""What a reader meets on an essay, counted; and that its card says what its record says."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDS = sorted((ROOT / "book/record").glob("*.ipynb"))
WITH_RECORD = [ROOT / "book" / path.name for path in RECORDS]
ESSAYS = [*WITH_RECORD, *(ROOT / f"book/{name}.ipynb" for name in ("10_costs", "11_reader", "13_your_own_run"))]
FOLDED, GONE = {"hide-input", "hide-cell"}, {"hide-cell"}
BLOCK = re.compile(r"^(`{3,})\{?(exercise|solution|admonition|note)[^\n]*\n.*?^\1\s*$", re.MULTILINE | re.DOTALL)
DRAWN = re.compile(r"!\[|\{figure\}|<img |<svg")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
HERE = 2  # column of the card


def cells(path: Path) -> list[tuple[str, str, set, list]]:
    """(kind, source, tags, outputs) of each cell."""
    read = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"]), {*cell["metadata"].get("tags", [])}, cell.get("outputs", [])) for cell in read]


def words(text: str) -> int:
    """Words of running text: no exercises, fenced blocks, mathematics and tables."""
    text = re.sub(r"^(`{3,}).*?^\1\s*$", "", BLOCK.sub("", text), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$|^\|.*$", " ", text, flags=re.DOTALL | re.MULTILINE)
    return len(re.findall(r"[A-Za-zÀ-ÿ0-9][\w'’.,-]*", text))


def html_of(output: dict) -> str:
    return "".join(output.get("data", {}).get("text/html", ""))


def met(path: Path) -> dict:
    """Words, pictures, words before the first picture, tables, columns of the widest, visible lines of code and the longest."""
    page = {"words": 0, "pictures": 0, "first": None, "tables": 0, "columns": 0, "lines": 0, "longest": 0}
    for kind, source, tags, outputs in cells(path):
        pictures = rows = ()
        if kind == "markdown":
            page["words"] += words(source)
            pictures = DRAWN.findall(source)
            rows = [line.count("|") - 1 for line in BLOCK.sub("", source).splitlines() if line.startswith("|")]
            page["tables"] += len(re.findall(r"^\|[\s:|-]+\|\s*$", BLOCK.sub("", source), flags=re.MULTILINE))
        elif kind == "code":
            shown = [] if tags & FOLDED else [line for line in source.splitlines() if line.strip()]
            page["lines"] += len(shown)
            page["longest"] = max([page["longest"], *map(len, shown)])
            seen = [] if tags & GONE else outputs
            pictures = [1 for one in seen if "image/png" in one.get("data", {}) or DRAWN.search(html_of(one))]
            tables = [html for one in seen if "<table" in (html := html_of(one))]
            page["tables"] += len(tables)
            rows = [len(re.findall("<t[dh]", row)) for html in tables for row in re.findall("<tr.*?</tr>", html, re.DOTALL)]
        page["columns"] = max([page["columns"], *rows])
        if pictures and page["first"] is None:
            page["first"] = page["words"]
        page["pictures"] += len(pictures)
    return page


@pytest.mark.parametrize("path", ESSAYS, ids=lambda path: path.stem)
def test_an_essay_is_short_and_drawn(path):
    page = met(path)
    assert page["words"] <= 2500 and page["lines"] <= 120 and page["longest"] <= 80, page
    assert page["tables"] <= 6 and page["columns"] <= 6, page
    assert page["first"] <= 250 and 1000 * page["pictures"] / page["words"] >= 2.5, page


def card(path: Path) -> list[list[str]]:
    """The rows of an essay's card, without its head."""
    said = ["".join(one["data"]["text/plain"]) for *_, outputs in cells(path) for one in outputs if "claims" in html_of(one)]
    [text] = [text for text in said if text.startswith("the paper's claim")]
    return [row.split(" | ") for row in text.splitlines()[1:]]


def printed(path: Path) -> str:
    """What the cells of a page put out, as text."""
    outputs = [one for *_, each in cells(path) for one in each]
    texts = ("".join(one.get("text", "")) + "".join(one.get("data", {}).get("text/plain", "")) + html_of(one) for one in outputs)
    return " ".join(texts)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_numbers_of_a_card_stand_in_its_record(path):
    recorded = {float(number) for number in NUMBER.findall(printed(path))}
    rounded = {digits: {round(number, digits) for number in recorded} for digits in range(4)}
    for row in card(ROOT / "book" / path.name):
        for number in NUMBER.findall(row[HERE].split(", n = ")[0]):
            digits = len(number.partition(".")[2])
            shares = {round(100 * one, digits) for one in recorded} if digits < 2 else set()
            assert float(number) in rounded[digits] | shares, f"{row[0]}: {number} is not in the record"


THREE, FOUR, SIX = "record/03_erag_kendall", "record/04_dense_thresholds", "record/06_ecorag_ablations"
BORROWED = [  # a page, its words on what another page has, that page, how it prints the number, and what is taken from it
    ("09_five_lenses", r"in chapter 3 of ten: (0\.\d\d)", THREE, r"BM25 .*\n +provenance +(0\.\d+) \[.*", 0.0),
    ("09_five_lenses", r"all other words: (0\.\d\d)", FOUR, r"companion edits +240 +\S+ +(0\.\d\d) \[", 0.5),
    ("04_dense_thresholds", r"by a hair with 100 questions \(p = (0\.\d+), corr", FOUR, r"NQ +\S+ \[.*?\], 100 +(0\.\d+) +same dir", 0.0),
    ("06_ecorag_ablations", r"kept and read, there (a twenty-second)", SIX, r"(one in 22)\n", None),
    ("10_costs", r"a hundred and (a twenty-second) there", SIX, r"(one in 22)\n", None),
    ("13_your_own_run", r"shows in the answers \(−(0\.\d+) ", THREE, r"the reader, all documents right +-(0\.\d+) \[", 0.0),
    ("13_your_own_run", r"p = (0\.\d+) before any", THREE, r"eRAG +P +-0\.015 \[-0\.029, 0\.000\] +240 +(0\.\d+) ", 0.0),
    (THREE, r"those against the judge, (10) of the corpus's 19", THREE, r"19 of 29 .*, (10) of them of the", 0.0),
]


@pytest.mark.parametrize(("page", "words_there", "source", "number", "less"), BORROWED)
def test_a_number_of_another_page_is_the_one_that_stands_there(page, words_there, source, number, less):
    prose = "".join(text for _, text, *_ in cells(ROOT / f"book/{page}.ipynb"))
    said, stands = re.search(words_there, prose), re.search(number, printed(ROOT / f"book/{source}.ipynb"))
    assert said and stands
    if less is not None:
        assert float(said[1]) == round(float(stands[1]) - less, len(said[1].partition(".")[2]))


def test_what_is_counted(tmp_path):
    page = {"cells": [
        {"cell_type": "markdown", "source": "two words $x$\n\n```{exercise}\nnot counted\n```\n| a | b |\n|---|---|\n", "metadata": {}},
        {"cell_type": "code", "source": "x = 1\n\ny = 2", "metadata": {},
         "outputs": [{"data": {"image/png": "", "text/html": "<table><tr><td>1<td>2<td>3</tr></table>"}}]},
        {"cell_type": "code", "source": "folded()", "metadata": {"tags": ["hide-cell"]}, "outputs": [{"data": {"image/png": ""}}]},
    ]}  # fmt: skip
    (tmp_path / "page.ipynb").write_text(json.dumps(page))
    expected = {"words": 2, "pictures": 1, "first": 2, "tables": 2, "columns": 3, "lines": 2, "longest": 5}
    assert met(tmp_path / "page.ipynb") == expected
