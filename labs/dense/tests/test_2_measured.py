"""Steps 6 and 7: does DENSE tell wrong replies from right ones? The numbers of the corpus are the book's own."""

import json
from pathlib import Path

import adapters
import numpy as np
from check import expect

HERE = Path(__file__).resolve().parent
NUMBERS = json.loads((HERE / "snapshots.json").read_text(encoding="utf-8"))
AREA, SIDES = "Table 1, pairs of a wrong and a right reply", "section 5, certain is DENSE <= threshold"


def questions(name):
    return json.loads((HERE.parent / "data" / f"{name}.json").read_text(encoding="utf-8"))["questions"]


def test_auroc_without_ties():
    expect(
        adapters.auroc(np.array([0.3, 0.1, 0.9, 0.6, 0.7]), np.array([1, 1, 0, 0, 1])),
        5 / 6,
        asked="auroc([0.3, 0.1, 0.9, 0.6, 0.7], right [1, 1, 0, 0, 1])",
        equation=f"{AREA}: in 5 of 6 the wrong one is more uncertain",
        mistakes={
            "turned round: the wrong reply should be the more uncertain one": 1 / 6,
            "the pairs were counted and not divided by their number": 5.0,
            "divided by all pairs of questions, not by those of a wrong and a right one": 0.5,
            "~ of 1 and 0 is -2 and -1, which are places: make True and False of them first": 1.0,
            "a correlation; count pairs": float(-np.corrcoef([0.3, 0.1, 0.9, 0.6, 0.7], [1, 1, 0, 0, 1])[0, 1]),
            "the difference of the means; count pairs": 0.75 - 1.1 / 3,
        },
    )


def test_auroc_with_ties():
    expect(
        adapters.auroc(np.array([0.0, 0.4, 0.4, 0.0, 0.9, 0.0]), np.array([1, 1, 0, 0, 0, 1])),
        6.5 / 9,
        asked="auroc([0, 0.4, 0.4, 0, 0.9, 0], right [1, 1, 0, 0, 0, 1])",
        equation=f"{AREA}: 5 of 9, and 3 ties that count one half",
        mistakes={
            "a tie was counted as lost (>): it counts one half": 5 / 9,
            "a tie was counted as won (>=): it counts one half": 8 / 9,
            "ties were left out of the pairs: they count one half": 5 / 6,
            "turned round: the wrong reply should be the more uncertain one": 2.5 / 9,
            "ranks by place: equal values need equal ranks, the mean of their places": 7 / 9,
        },
    )


def test_auroc_of_what_says_nothing():
    expect(
        adapters.auroc(np.full(5, 0.3), np.array([1, 0, 0, 1, 0])),
        0.5,
        asked="auroc([0.3, 0.3, 0.3, 0.3, 0.3], right [1, 0, 0, 1, 0])",
        equation=f"{AREA}, all of them ties",
        mistakes={
            "a tie was counted as lost (>): it counts one half": 0.0,
            "a tie was counted as won (>=): it counts one half": 1.0,
            "0/0: ties were left out of the pairs": np.nan,
        },
    )


def test_auroc_of_the_corpus():
    areas, right = NUMBERS["auroc"], np.array([question["right"][0] for question in questions("corpus")])
    expect(
        adapters.auroc(np.array(NUMBERS["dense"]), right),
        areas["right"],
        asked="auroc of DENSE of the corpus, of which 135 of 240 values are 0",
        equation=AREA,
        mistakes={
            "a tie was counted as lost (>): it counts one half": areas["ties lost"],
            "a tie was counted as won (>=): it counts one half": areas["ties won"],
            "ties were left out of the pairs: they count one half": areas["ties left out"],
            "ranks by place: equal values need equal ranks, the mean of their places": areas["by place"],
            "turned round: the wrong reply should be the more uncertain one": areas["turned"],
        },
        within=1e-4,
    )


def test_split_at_the_default():
    uncertainty = np.array([0.0, 0.2, 0.3, 0.1, 0.5, 0.6, 0.2])
    expect(
        adapters.split(uncertainty, np.array([1, 0, 1, 1, 0, 0, 1])),
        {"certain": 3 / 4, "uncertain": 1 / 3},
        asked="split([0, 0.2, 0.3, 0.1, 0.5, 0.6, 0.2], right [1, 0, 1, 1, 0, 0, 1])",
        equation=f"{SIDES}: 0, 0.2, 0.1 and 0.2",
        mistakes={
            "0.2 itself was called uncertain; at most the threshold is certain (<= and not <)": {
                "certain": 1.0,
                "uncertain": 2 / 5,
            },
            "the sides are exchanged": {"certain": 1 / 3, "uncertain": 3 / 4},
            "the share of wrong replies": {"certain": 1 / 4, "uncertain": 2 / 3},
            "numbers of right replies: divide by the questions of that side": {"certain": 3, "uncertain": 1},
            "divided by all questions, not by those of that side": {"certain": 3 / 7, "uncertain": 1 / 7},
            "of the right replies the share on each side. Of each side the share that is right": {
                "certain": 3 / 4,
                "uncertain": 1 / 4,
            },
            "how large the sides are, not how many of them are right": {"certain": 4 / 7, "uncertain": 3 / 7},
        },
    )


def test_split_at_another_threshold():
    uncertainty = np.array([0.0, 0.2, 0.3, 0.1, 0.5, 0.6, 0.2])
    expect(
        adapters.split(uncertainty, np.array([1, 0, 1, 1, 0, 0, 1]), 0.5),
        {"certain": 2 / 3, "uncertain": 0.0},
        asked="split(the same, threshold=0.5)",
        equation=SIDES,
        mistakes={"the threshold was not looked at; 0.2 is only the default": {"certain": 3 / 4, "uncertain": 1 / 3}},
    )


def test_split_with_an_empty_side():
    with np.errstate(all="ignore"):
        came = adapters.split(np.array([0.0, 0.1]), np.array([1, 0]))
    expect(
        came,
        {"certain": 0.5, "uncertain": np.nan},
        asked="split([0, 0.1], right [1, 0]), where none is uncertain",
        equation=f"{SIDES}; of no questions no share is right",
        mistakes={
            "0 says that all are wrong; there are none: NaN": {"certain": 0.5, "uncertain": 0.0},
            "1 says that all are right; there are none: NaN": {"certain": 0.5, "uncertain": 1.0},
            "the empty side is missing: NaN is asked for": {"certain": 0.5},
            "None for the empty side: NaN is asked for": {"certain": 0.5, "uncertain": None},
        },
    )


def test_measured_on_the_corpus():
    rows = NUMBERS["measured"]
    expect(
        adapters.measured(questions("corpus")),
        rows["right"],
        asked='measured(load("corpus"))',
        equation="Table 1 and Fig. 4, reply 0 of 240 questions",
        mistakes={
            "right only if all six replies are; reply 0 is the one that is given": rows["all"],
            "right if any of the six replies is; reply 0 is the one that is given": rows["any"],
            "right by majority; reply 0 is the one that is given": rows["most"],
            "the last reply was looked at; reply 0 is the one to the context as it is": rows["last"],
            "wrong was taken for right": rows["wrong"],
            "texts were compared. Whether they mean the same is in `entails`": rows["texts"],
            "a tie was counted as lost (>): it counts one half": rows["right"]
            | {"AUROC": NUMBERS["auroc"]["ties lost"]},
            "a tie was counted as won (>=): it counts one half": rows["right"]
            | {"AUROC": NUMBERS["auroc"]["ties won"]},
            "AUROC is missing": {side: rows["right"][side] for side in ("certain", "uncertain")},
        },
        within=1e-4,
    )


def test_measured_with_a_threshold():
    rows = NUMBERS["measured"]
    expect(
        adapters.measured(questions("corpus"), 0.5),
        rows["half"],
        asked='measured(load("corpus"), threshold=0.5)',
        equation="Table 1 and Fig. 5; AUROC needs no threshold",
        mistakes={"the threshold was not handed on to split": rows["right"]},
        within=1e-4,
    )
