"""The rows that the judge is trained on: from invented answers by hand, balanced, and far from the pairs that it is tested on."""

import gzip
import json
import random
from collections import Counter

import numpy as np
import pairs
import pytest

from rag_utils import data
from rag_utils.data import SYSTEMS, Contrast, Judged, JudgedAnswer, Question
from rag_utils.engine import wording
from rag_utils.engine.wording import words

NAMES = ("Ada Quill", "Bo Roe", "Cy Fox", "Di Lund", "Ed Marsh", "Flo Stone")
TOWNS = ("Kelford", "Tamsted", "Brenholm", "Ostdale")


def judged_as(number, question, golds, *said):
    """said : an answer and what people found of it (True, False or None), the first by the system with short answers."""
    texts = [JudgedAnswer(system, *answer) for system, answer in zip(SYSTEMS, said, strict=False)]
    return Judged(f"e{number}", question, golds, tuple(texts))


BUILDER = (("Bo Roe", False), ("it was Ada Quill the elder", True), ("Ada Quill", True))
OPENING = (("July 1777", False), ("in the year of grace 1776", True), ("", False), ("no", None))
JUDGED = [
    judged_as(0, "who built the mill", ("Ada Quill", "A. Quill"), *BUILDER),
    judged_as(1, "when did it open", ("4 July 1776",), *OPENING),
    judged_as(2, "how many arches", ("12",), ("it has forty arches in all", False)),
    *(judged_as(3 + i, f"who was mayor number {i}", (name,), ("nobody knows that", False)) for i, name in enumerate(NAMES)),
    *(judged_as(20 + i, f"where is the mill of year {i}", (town,)) for i, town in enumerate(TOWNS)),
]


def contrast(number, question, left, right, equivalent, split="train"):
    return Contrast(f"c{number}", question, left, right, equivalent, "entity", split)


CONTRAST = [
    contrast(0, "who came first", "Ann Lee", "Miss Lee", True),
    contrast(1, "who came first", "Ann Lee", "Ann's sister", False),
    contrast(2, "who came first", "Ann Lee", "A. Lee", True),
    contrast(3, "who came first", "Ann Lee", "a stranger", False),
    contrast(4, "which stone is in the crown", "a ruby", "the red one, a ruby", True, "test"),
    contrast(5, "what does the bridge cross", "the river Tam", "a road that is beside the river", False, "test"),
]
COMPANION = [
    Question("q0", "What feeds the mill?", ("the brook", "a brook of the hills"), "companion"),
    Question("q1", "What covers the roof?", ("slate",), "companion"),
    Question("q2", "What is on the tower?", ("a golden cock",), "companion"),
    Question("q3", "What is in the cellar?", ("a brook",), "companion"),  # shares a word with the first
    Question("q4", "Is it open?", ("yes",), "companion"),
]


@pytest.fixture
def here(monkeypatch):
    """The invented data in the place of the benchmarks."""
    for name, items in (("load_judged", JUDGED), ("load_contrast", CONTRAST), ("load", COMPANION)):
        monkeypatch.setattr(data, name, lambda *_, items=items: items)


def made(left, right, same, *, question="who was it", kind="k"):
    return pairs.row(question, left, right, same, kind, 1.0)


def gap(rows):
    """How much more words the pairs share that mean the same."""
    shares = [[pairs.overlap(row["a"], row["b"]) for row in rows if row["y"] == label] for label in (1, 0)]
    return np.mean(shares[0]) - np.mean(shares[1])


# --- what people judged or wrote -------------------------------------------------------------------------------------


def test_overlap_is_a_token_f1():
    assert pairs.overlap("Ada Quill", "it was Ada Quill") == pytest.approx(2 * 2 / (2 + 4))
    assert pairs.overlap("12", "twelve") == 1 and pairs.overlap("a mill", "the barn") == 0


def test_a_right_answer_goes_with_its_gold_and_a_wrong_one_with_all():
    rows = pairs.answers(JUDGED[:2])
    assert [(row["a"], row["b"], row["y"], row["w"]) for row in rows] == [
        ("Ada Quill", "Bo Roe", 0, 0.707),
        ("A. Quill", "Bo Roe", 0, 0.707),
        ("Ada Quill", "it was Ada Quill the elder", 1, 1.0),  # the third answer is the gold, word for word
        ("4 July 1776", "July 1777", 0, 1.0),
        ("4 July 1776", "in the year of grace 1776", 1, 1.0),  # neither the blank answer nor the one without a verdict
    ]
    many = judged_as(9, "who", tuple(f"gold {i}" for i in range(6)), ("gold leaf", False))
    assert [row["w"] for row in pairs.answers([many])] == [0.5] * 4


def test_contrast_pairs_and_what_follows_of_two():
    rows = pairs.contrasts(CONTRAST)
    assert [row["y"] for row in rows if row["kind"] == "contrast"] == [1, 0, 1, 0]
    crossed = {(row["a"], row["b"]): row["y"] for row in rows if row["kind"] == "contrast_cross"}
    assert crossed["Miss Lee", "A. Lee"] == 1 and crossed["Miss Lee", "Ann's sister"] == 0
    assert ("Ann's sister", "a stranger") not in crossed  # two that are not Ann Lee may be one person
    assert not any("ruby" in row["a"] for row in rows)


def test_changed_golds_weigh_by_kind_and_coarser_dates_are_left_out():
    rows = pairs.changed_golds(JUDGED)
    weights = {row["kind"]: row["w"] for row in rows if not row["y"]}
    assert weights == {"changed/date": 0.6, "changed/number": 1.0, "changed/name": 0.3}
    assert {(row["b"], row["w"]) for row in rows if row["y"]} <= {("July 4, 1776", 2.0)}
    assert not any(row["b"] in ("1776", "July 1776") for row in rows)


# --- built from real questions ---------------------------------------------------------------------------------------


def test_a_gold_date_is_spelt_otherwise_or_changed():
    texts = set()
    for seed in range(30):
        for row in pairs.gold_dates(JUDGED[1], "4 July 1776", random.Random(seed)):
            assert (wording.dates(words(row["b"])) == {("1776", "july", "4")}) == row["y"]
            texts.add(row["b"])
    assert len(texts) > 30
    assert pairs.gold_dates(JUDGED[1], "July 1776", random.Random(0)) == []  # not a full date
    allowed = judged_as(0, "when", ("4 July 1776", "July 1776", "1776"))
    for seed in range(30):  # another day of that month is allowed by a gold, and so is not made
        rows = pairs.gold_dates(allowed, "4 July 1776", random.Random(seed))
        assert all("1776" not in row["b"] for row in rows if not row["y"])


def test_a_gold_number_is_said_otherwise_or_changed():
    rows = pairs.gold_numbers(JUDGED[2], "12", random.Random(0))
    assert [row["y"] for row in rows] == [1, 0] * 3 and rows[0]["b"] == "twelve" and rows[2]["b"] == "There are twelve."
    assert all(words(row["b"])[-1] != "12" for row in rows if not row["y"])
    two = judged_as(0, "how many", ("12", "a dozen"))
    assert pairs.gold_numbers(two, "12", random.Random(0)) == [] == pairs.gold_numbers(JUDGED[2], "1", random.Random(0))


def test_one_of_two_differs_in_the_places_of_the_names_alone():
    for seed in range(30):
        right, wrong = pairs.one_of_two("who", "Ada Quill", "Bo Roe", "k", random.Random(seed))
        assert (right["y"], wrong["y"]) == (1, 0) and Counter(words(right["b"])) == Counter(words(wrong["b"]))
        assert right["b"].replace("Ada Quill", "X").replace("Bo Roe", "Y") == wrong["b"].replace("Bo Roe", "X").replace("Ada Quill", "Y")


def test_a_wrong_answer_shares_no_word_with_the_gold():
    rng = random.Random(0)
    assert pairs.wrong_answer(JUDGED[0], "Ada Quill", [*NAMES], [], rng) == "Bo Roe"
    assert {pairs.foreign("Ada Quill", ["Ada Roe", "Cy Fox"], rng) for _ in range(20)} == {"Cy Fox"}
    assert pairs.foreign("Ada Quill", ["Ada Roe"], rng) is None
    near = judged_as(0, "who", ("Ada Quill",), ("Ada Quill senior", False))
    assert {pairs.wrong_answer(near, "Ada Quill", ["Cy Fox"], [], rng) for _ in range(30)} == {"Cy Fox", None}


def test_nothing_is_built_from_a_question_of_the_test():
    questions = {row["q"] for row in pairs.from_judged(JUDGED, set(), random.Random(0))}
    assert {"who built the mill", "when did it open", "how many arches"} <= questions
    avoid = {pairs.question_key("Who built the mill?")}
    assert {row["q"] for row in pairs.from_judged(JUDGED, avoid, random.Random(0))} == questions - {"who built the mill"}


def test_accepted_answers_of_the_companion_mean_the_same_and_those_of_another_question_do_not():
    rows = pairs.from_companion(COMPANION, set(), random.Random(0))
    assert ("the brook", "a brook of the hills", 1) in {(row["a"], row["b"], row["y"]) for row in rows}
    unlike = [row["b"].lower() for row in rows if row["a"] == "the brook" and not row["y"]]
    assert unlike and all("slate" in text or "golden cock" in text for text in unlike)
    assert all("yes" not in words(row["a"]) for row in rows)
    avoid = {pairs.question_key(COMPANION[0].text)}
    assert "What feeds the mill?" not in {row["q"] for row in pairs.from_companion(COMPANION, avoid, random.Random(0))}


# --- balance ---------------------------------------------------------------------------------------------------------


def leaning():
    """Rows of two kinds of which those that mean the same share more words."""
    rng, rows = random.Random(0), []
    for number in range(1200):
        same = number % 2
        shared = rng.choice((0, 1, 2, 3, 3, 3) if same else (0, 0, 0, 1, 2, 3))
        left, right = ([f"{side}{number}x{i}" for i in range(4 - shared)] + [f"w{i}" for i in range(shared)] for side in "ab")
        rows.append(made(" ".join(map(letters, left)), " ".join(map(letters, right)), same, kind=f"k{number % 3}"))
    return rows


def letters(text):
    """The text with letters for digits, so that it is one word."""
    return text.translate(str.maketrans("0123456789", "cdefghijkl"))


def test_balance_takes_from_overlap_what_it_says():
    rows = leaning()
    assert gap(rows) > 0.2
    kept = pairs.balanced(rows, random.Random(0))
    assert abs(gap(kept)) < 0.05 and len(kept) > 0.4 * len(rows)
    for kind in ("k0", "k1", "k2"):
        assert abs(np.mean([row["y"] for row in kept if row["kind"] == kind]) - 0.5) < 0.02
    assert all(row in rows for row in kept) and kept == pairs.balanced(rows, random.Random(0))
    by_kind = pairs.by_label(rows, lambda row: row["kind"]).values()  # balanced by kind alone, overlap still tells
    assert gap([row for both in by_kind for row in pairs.trimmed(both, lambda least: least, random.Random(0))]) > 0.2


def test_the_longer_side_is_drawn_down():
    both = ([made("a", f"b{i}", False) for i in range(20)], [made("a", f"c{i}", True) for i in range(10)])
    kept = list(pairs.trimmed(both, lambda least: least + 2, random.Random(0)))
    assert Counter(row["y"] for row in kept) == {0: 12, 1: 10}


# --- distance from the test ------------------------------------------------------------------------------------------

TEST = [pair for pair in CONTRAST if pair.split == "test"]
PLANTED = {
    "its question": made("anything", "whatever", True, question="What does the bridge cross?"),
    "its answers in another sentence": made("the river Tam", "beside the river", False),
    "its answers the other way round": made("that is beside the river", "river Tam", False),
    "most of its words": made("red ruby", "one ruby", True, question="stone in the crown"),
}


def test_a_planted_pair_is_dropped_and_others_stay():
    innocent = [made("the river Ost", "beside the lake", False), made("a ruby", "a garnet", False), made("yes", "no", False)]
    for name, row in PLANTED.items():
        assert pairs.unlike([row, *innocent], TEST) == innocent, name
    by_question = [row for row in PLANTED.values() if row["q"] not in {pair.question for pair in TEST}]
    assert len(by_question) == len(PLANTED)  # a filter by the question as it is written would drop none


def test_aliases_that_the_test_holds_are_not_built_from():
    aliases = [("thing", ["a lift", "an elevator"], ["stairs"]), ("stuff", ["ruby", "red corundum"], ["garnet"])]
    test = [contrast(0, "which stone", "a ruby", "red corundum, of course", True, "test")]
    assert pairs.unknown_aliases(test, aliases) == aliases[:1]
    assert pairs.unknown_aliases([contrast(0, "which", "a ruby", "a garnet", False, "test")], aliases) == aliases


# --- all together ----------------------------------------------------------------------------------------------------


def test_all_rows_by_the_seed(here):
    rows = pairs.rows(total=3000, seed=1)
    assert rows == pairs.rows(total=3000, seed=1) != pairs.rows(total=3000, seed=2)
    kinds = Counter(row["kind"] for row in rows)
    assert {"evouna", "contrast", "contrast_cross", "changed/date", "built/yes_no", "built/companion", "built/real selected"} <= set(kinds)
    assert [row["kind"] for row in rows] != sorted(row["kind"] for row in rows)
    assert all(row["a"].strip() and row["b"].strip() and row["y"] in (0, 1) and 0 <= row["fold"] < 5 and row["w"] > 0 for row in rows)
    built = [row for row in rows if row["kind"].startswith("built/")]
    assert abs(gap(built)) < 0.03 and abs(np.mean([row["y"] for row in built]) - 0.5) < 0.02
    assert all(words(row["a"]) != words(row["b"]) for row in built)


def test_a_built_pair_that_is_in_the_test_is_not_in_the_rows(here, monkeypatch):
    rows = pairs.rows(total=600, seed=1)
    row = next(row for row in rows if row["kind"] == "built/negation/group")
    planted = contrast(6, row["q"], row["a"], row["b"], bool(row["y"]), "test")
    monkeypatch.setattr(data, "load_contrast", lambda: [*CONTRAST, planted])
    again = pairs.rows(total=600, seed=1)
    assert row in rows and row["q"] not in {each["q"] for each in again}


def test_the_file_is_the_same_at_every_call(here, tmp_path, capsys):
    for name in ("one", "two"):
        pairs.main(["--built", "300", "--out", str(tmp_path / name)])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    rows = [json.loads(line) for line in gzip.open(tmp_path / "one", "rt", encoding="utf-8")]
    assert rows == pairs.rows(total=300) and list(rows[0]) == ["q", "a", "b", "y", "fold", "kind", "w"]
    assert "built/yes_no" in capsys.readouterr().out
