"""Parameters: out of range is said before a kernel starts; none of any chapter does nothing without a word."""

import math

import pytest
import replayed

from rag_utils.page import chapters, parameters

DEFAULT = {
    "mode": "replay",
    "profile": "embedded",
    "read_prompt": "read_plain",
    "metric": "exact_match",
    "questions": 240,
    "share": 0.5,
    "sizes": [3, 5],
    "sets": ["nq"],
    "many": {"nq": 80},
    "prefix": 3,
    "size": 5,
    "only": False,
    "examples": ["q031", "q032"],
}
MAY = {
    "metric": {"of": "metrics"},
    "questions": {"from": 20, "to": 240},
    "share": {"from": 0.0, "to": 1.0},
    "sizes": {"from": 2, "to": 8},
    "sets": {"of": ["nq", "squad"], "least": 0},
    "many": {"nq": {"from": 20, "to": 90}, "squad": {"from": 20, "to": 90}},
    "prefix": {"from": 2, "to": 9, "below": "size"},
    "size": {"from": 3, "to": 10},
    "examples": {"of": "questions", "least": 2, "most": 2},
}
WRONG = {
    "mode": {"love": "did you mean 'live'"},
    "profile": {"embeded": "did you mean 'embedded'"},
    "read_prompt": {"read_plan": "did you mean 'read_plain'", "no/such.txt": "cannot be read"},
    "metric": {"f1": "unknown parameter metric of 01 'f1'"},
    "questions": {value: "must be from 20 to 240" for value in (-5, 0, 12, 241, 10**400)}
    | {True: "of type int", 30.0: "of type int", "30": "of type int"},
    "share": {value: "must be from 0.0 to 1.0" for value in (-0.1, 1.5, math.nan, math.inf)},
    "sizes": {
        (): "at least 1",
        (3, 3): "each value once",
        (3, 1): "must be from 2 to 8",
        (3, 4.5): "whole number",
        ("a",): "from 2",
    },
    "sets": {("nq", "trec"): "unknown parameter sets of 01 'trec'", ("nq", "nq"): "each value once"},
    "many": {(): "at least 1", (("nq", 12),): "many of 01, nq, must be from 20 to 90", (("trec", 50),): "'trec'"},
    "prefix": {5: "must be below size"},
    "size": {3: "prefix of 01 must be below size"},
    "only": {0: "of type bool"},
    "examples": {("q031",): "2 to 2", ("q031", "q999"): "'q999'"},
}  # parameter -> {value: words of the message}; lists and mappings written as tuples


def test_what_a_parameter_may_not_be_is_said():
    for name, cases in WRONG.items():
        for value, words in cases.items():
            value = type(DEFAULT[name])(value) if isinstance(value, tuple) else value
            with pytest.raises(ValueError) as caught:
                parameters.checked("01", {name: value}, DEFAULT, MAY)
            assert words in str(caught.value) and name in str(caught.value), (name, value)
    with pytest.raises(ValueError, match="unknown parameter of 01 'qestions'; did you mean 'questions'"):
        parameters.checked("01", {"qestions": 3}, DEFAULT, MAY)


def test_what_it_may_be_passes(tmp_path, monkeypatch):
    right = {"questions": 20, "share": 1, "sizes": [8], "sets": [], "prefix": 4, "only": True}
    right["many"] = {"squad": 20, "nq": 90}
    assert parameters.checked("01", right, DEFAULT, MAY) == right
    assert parameters.checked("01", DEFAULT, DEFAULT, MAY) == DEFAULT
    assert parameters.checked("01", {"prefix": 6, "size": 7}, DEFAULT, MAY) == {"prefix": 6, "size": 7}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("$documents $question")
    mine = parameters.checked("01", {"read_prompt": "mine.txt"}, DEFAULT, MAY)
    assert mine == {"read_prompt": str(tmp_path / "mine.txt")}


# --- the chapters ----------------------------------------------------------------------------------


def test_every_parameter_says_what_it_may_be():
    wrong = []
    for chapter in chapters.names():
        default, may = chapters.parameters(chapter), chapters.ranges(chapter)
        assert chapters.checked(chapter, default) == default
        wrong += [
            f"{chapter}: {name} is in parameters.toml and not in the notebook" for name in may if name not in default
        ]
        for name, value in default.items():
            named = name == "mode" or name.endswith(("profile", "prompt")) or isinstance(value, bool)
            if not named and name not in may:
                wrong.append(f"{chapter}: {name} is in the notebook and not in parameters.toml")
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("chapter", chapters.names())
def test_no_parameter_does_nothing(chapter):
    """Another value changes the page, or a cell stops in words; `python tests/replayed.py CHAPTER` shows each."""
    changes = replayed.others(chapter)
    seen = replayed.outcomes(chapter, changes)
    wrong = [
        f"{name}={value} is {outcome.kind}: cell {outcome.cell}, {outcome.said}"
        for (name, value), outcome in seen.items()
        if outcome.kind not in ("changed", "refused") or not name
    ]
    assert wrong == [] and len(seen) == len(changes)
