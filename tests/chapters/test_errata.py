"""The page on errors in the papers: its picture, its table and its entries agree."""

import itertools
import json
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "notebooks" / "12_errata.ipynb"
LETTERS = {"certain": "c", "very likely": "l", "a suspicion": "s"}


@pytest.fixture(scope="module")
def page():
    return json.loads(PAGE.read_text(encoding="utf-8"))["cells"]


def text(cell):
    return "".join(cell["source"])


@pytest.fixture(scope="module")
def entries(page):
    """Per paper a letter for each entry, a capital where it stands open, and each entry's text."""
    letters, texts, paper = {}, [], None
    for cell in page:
        if cell["cell_type"] != "markdown":
            continue
        words = text(cell)
        if heading := re.search(r"^## (.+)", words, re.M):
            paper = heading[1]
        elif folded := re.match(r"```\{dropdown\} .+ \((.+)\)\n:name: errata-[\w-]+\n\n", words):
            letters[paper] = letters.get(paper, "") + LETTERS[folded[1]]
            texts.append(words)
        elif words.startswith("### "):
            sure = re.search(r"How\s+sure:\s+\*([^*]+)\*", words)
            letters[paper] = letters.get(paper, "") + LETTERS[sure[1]].upper()
            texts.append(words)
    return letters, texts


def test_the_picture_shows_the_entries_of_the_page(page, entries):
    letters, texts = entries
    drawn = next(cell for cell in page if "ENTRIES = {" in text(cell))
    assert dict(re.findall(r'^    "(\w+)": "([cls]+)",$', text(drawn), re.M | re.I)) == letters
    alt = drawn["metadata"]["mystnb"]["image"]["alt"]
    big = sum(letter.isupper() for own in letters.values() for letter in own)
    counted = ", ".join(f"{paper} {len(own)}" for paper, own in letters.items())
    assert f"{len(texts)} entries: {counted}; {big} of them" in alt


def test_the_table_counts_the_entries_of_the_page(page, entries):
    rows = {f"[{paper}](#errata-{paper.lower()})": own.lower() for paper, own in entries[0].items()}
    rows["all"] = "".join(rows.values())
    table = next(text(cell) for cell in page if "| paper | entries |" in text(cell))
    for name, own in rows.items():
        counts = " | ".join(str(own.count(letter)) for letter in "cls")
        assert f"| {name} | {len(own)} | {counts} |" in table


def test_what_stands_open_comes_first(entries):
    for paper, own in entries[0].items():
        assert re.fullmatch("[CLS]+[cls]+", own), paper


def test_every_entry_says_how_sure_and_goes_on(entries):
    """What a reader should do comes after it."""
    for words in entries[1]:
        after = re.search(r"How\s+sure:\s+\*[a-z\s]+\*(.*)", words, re.S)
        assert after and len(after[1].split()) > 3, words[:80]


def test_every_entry_is_followed_by_a_check(page):
    for cell, after in itertools.pairwise(page):
        if cell["cell_type"] == "markdown" and text(cell).startswith(("```{dropdown}", "### ")):
            assert after["cell_type"] == "code" and "print(" in text(after), text(cell)[:80]
