"""The teaching page: the labs, chapters, targets and parameters that it names are there."""

import re

from scripts import script

from rag_utils.base.cache import ROOT
from rag_utils.page import chapters

PAGE = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")


def test_every_lab_has_a_place_in_the_plans():
    for name in script("build", folder="labs").names():
        assert PAGE.count(f"`{name}`") >= 3, f"{name}: in the list, the five and the ten sessions"


def test_what_one_types_is_there():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(re.findall(r"(?:`|&& )make ([a-z]+)", PAGE)) <= set(targets)
    runs = re.findall(r"rag-companion run (\S+) --mode (\S+) -p (\w+)=(\S+)$", PAGE, flags=re.MULTILINE)
    assert len(runs) == PAGE.count("rag-companion run ") >= 2
    for chapter, mode, name, value in runs:
        kind = type(chapters.parameters(chapter)[name])
        assert chapters.checked(chapter, {"mode": mode, name: kind(value)})


def test_the_minutes_of_one_session():
    section = PAGE.split("## One session")[1].split("\n## ")[0]
    assert sum(map(int, re.findall(r"^\| (\d+) \|", section, flags=re.MULTILINE))) == 90
