"""Steps 1 to 3: the sentence of Port Sennick, the label of a sentence, and the labels of 87 questions."""

import json
from pathlib import Path

import adapters
import numpy as np
from check import expect

HERE = Path(__file__).resolve().parent
NUMBERS = json.loads((HERE / "snapshots.json").read_text(encoding="utf-8"))
CONDITIONS = "section 3.1.1, conditions 1 and 2"


def questions(name):
    return json.loads((HERE.parent / "data" / f"{name}.json").read_text(encoding="utf-8"))["questions"]


def test_belief_by_hand():
    p = np.array([0.5, 0.8, 0.9])
    expect(
        adapters.belief(np.log(p)),
        0.36,
        asked="belief(log of [0.5, 0.8, 0.9])",
        equation="the chain rule, 0.5 x 0.8 x 0.9",
        mistakes={
            "the mean of the logarithms: that is what one token is worth, not the answer. Sum them": 0.36 ** (1 / 3),
            "a logarithm: take exp of the sum": np.log(0.36),
            "the logarithms were multiplied. A product of probabilities is a sum of logarithms": np.prod(np.log(p)),
            "the probabilities were added. An answer needs all its tokens": 2.2,
            "the mean of the probabilities. An answer needs all its tokens": 2.2 / 3,
            "10 ** the sum; these logarithms are natural, so exp": 10 ** np.log(0.36),
            "only the first token. An answer needs all its tokens": 0.5,
            "only the last token. An answer needs all its tokens": 0.9,
        },
    )


def test_lost_by_hand():
    parts = {"noise": [0.1], "the sentence": [0.8], "short": [0.5, 0.9], "better": [0.9]}
    contexts = [{"name": name, "token_log_likelihood": np.log(p).tolist()} for name, p in parts.items()]
    expect(
        adapters.lost(contexts),
        {"noise": 0.7, "short": 0.35, "better": -0.1},
        asked='lost(contexts "noise", "the sentence", "short", "better" with beliefs 0.1, 0.8, 0.45, 0.9)',
        equation="the belief after the sentence minus the belief after the context, 0.8 - 0.1, 0.8 - 0.45, 0.8 - 0.9",
        mistakes={
            "compared with the context that comes first; look for the one named ALONE": {
                "the sentence": -0.7,
                "short": -0.35,
                "better": -0.8,
            },
            "compared with the first, which need not be the sentence": {
                "noise": 0.0,
                "the sentence": -0.7,
                "short": -0.35,
                "better": -0.8,
            },
            "the sign: the sentence comes first, so that a loss is above 0": {
                "noise": -0.7,
                "short": -0.35,
                "better": 0.1,
            },
            "the sentence itself is among the results: leave it out": {
                "noise": 0.7,
                "the sentence": 0.0,
                "short": 0.35,
                "better": -0.1,
            },
            "cut off at 0; a context can be better than the sentence": {"noise": 0.7, "short": 0.35, "better": 0.0},
            "the sign was thrown away; a better context is below 0": {"noise": 0.7, "short": 0.35, "better": 0.1},
            "a list; a dict is asked for, name -> number": [0.7, 0.35, -0.1],
        },
    )


def test_lost_of_the_salt():
    salt = NUMBERS["lost"]
    expect(
        adapters.lost(questions("salt")[0]["contexts"]),
        salt["right"],
        asked='lost(load("salt")[0]["contexts"])',
        equation="the belief after the sentence minus the belief after the context",
        mistakes={
            "these are the beliefs; subtract each from that of the sentence": salt["beliefs"],
            "a share of what the sentence gives; the plain difference is asked for": salt["shares"],
            "a ratio; a difference is asked for": salt["ratios"],
            "a difference of logarithms; the beliefs themselves are subtracted": salt["nats"],
            "the mean over the tokens was taken on the way: use your belief": salt["token means"],
            "subtracted from 1, not from the belief after the sentence": salt["from one"],
        },
        within=1e-4,
    )


def labels(*cases):
    """The labels of several cases, None as soon as nothing is returned."""
    said = [adapters.evidentiality(*case) for case in cases]
    return None if None in said else said


def test_evidentiality_of_strong_sentences():
    expect(
        labels((False, True, True), (False, True, False)),
        ["strong", "strong"],
        asked="evidentiality(False, True, True), evidentiality(False, True, False)",
        equation=CONDITIONS + ": without it wrong, with it right. Condition 2 is for those that are not strong",
        mistakes={
            "strong was asked to be right beside another strong sentence too": ["strong", "distractor"],
            "only the answer beside a strong sentence was looked at; condition 1 comes first": ["weak", "distractor"],
        },
    )


def test_evidentiality_of_what_is_known():
    expect(
        labels((True, True, None), (True, False, None), (True, None, None)),
        ["undefined", "undefined", "undefined"],
        asked="evidentiality(True, True, None), evidentiality(True, False, None), evidentiality(True, None, None)",
        equation=CONDITIONS + ": who knows the answer shows nothing by giving it",
        mistakes={
            "right with the sentence was enough: the closed book has to be wrong (condition 1)": [
                "strong",
                "undefined",
                "undefined",
            ],
            "right with the sentence was enough, and None was taken for False": ["strong", "distractor", "distractor"],
            "weak: what the reader knows was taken for harmless": ["weak", "weak", "weak"],
            "weak: right without it and with it was taken for harmless; condition 2 asks that": [
                "weak",
                "undefined",
                "undefined",
            ],
            "a sentence that breaks what is known was called a distractor": ["undefined", "distractor", "undefined"],
            "a sentence that breaks what is known was called a distractor, one that leaves it weak": [
                "weak",
                "distractor",
                "distractor",
            ],
        },
    )


def test_evidentiality_of_the_others():
    expect(
        labels((False, False, True), (False, False, False)),
        ["weak", "distractor"],
        asked="evidentiality(False, False, True), evidentiality(False, False, False)",
        equation=CONDITIONS + ": weak if it leaves the strong sentence's answer right, else a distractor",
        mistakes={
            "weak and distractor are exchanged: right beside a strong sentence means that it does no harm": [
                "distractor",
                "weak",
            ],
            "what does not help alone was called a distractor; a distractor does harm": ["distractor", "distractor"],
            "what does not help alone was called undefined; condition 2 decides": ["undefined", "undefined"],
            "right beside a strong sentence is not strong: that answer is the other sentence's doing": [
                "strong",
                "distractor",
            ],
        },
    )


def test_evidentiality_without_a_strong_sentence():
    expect(
        labels((False, False, None), (False, True, None)),
        ["undefined", "strong"],
        asked="evidentiality(False, False, None), evidentiality(False, True, None)",
        equation=CONDITIONS + ": with nothing strong to interfere with, condition 2 cannot be asked",
        mistakes={
            "None was taken for False: nothing was asked, so nothing was broken": ["distractor", "strong"],
            "None was taken for True: nothing was asked, so nothing was spared": ["weak", "strong"],
            "undefined was decided first; condition 1 needs no other sentence": ["undefined", "undefined"],
        },
    )
    expect(
        labels((False, None, None), (False, None, True)),
        ["undefined", "weak"],
        asked="evidentiality(False, None, None), evidentiality(False, None, True)",
        equation=CONDITIONS + ": what was not asked makes nothing strong, and condition 2 stands by itself",
        mistakes={
            "None with the sentence was taken for right": ["strong", "strong"],
            "None with the sentence made it undefined": ["undefined", "undefined"],
        },
    )


def test_label_counts_by_hand():
    asked = [
        {"closed": False, "alone": [True, False, False], "beside": [True, True, True]},
        {"closed": True, "alone": [None, None], "beside": [None, None]},
    ]
    expect(
        adapters.label_counts(asked),
        {"strong": 1, "weak": 2, "distractor": 0, "undefined": 2},
        asked="label_counts(one question with a strong and two weak sentences, one that is known, with two)",
        equation="section 3.1.1, counted; all four labels are there",
        mistakes={
            "a label that does not occur is missing: begin with all of LABELS at 0": {
                "strong": 1,
                "weak": 2,
                "undefined": 2,
            },
            "the known question was left out; its sentences are undefined": {
                "strong": 1,
                "weak": 2,
                "distractor": 0,
                "undefined": 0,
            },
            "`alone` and `beside` are exchanged": {"strong": 3, "weak": 0, "distractor": 0, "undefined": 2},
            "only the last question was counted": {"strong": 0, "weak": 0, "distractor": 0, "undefined": 2},
        },
    )


def test_label_counts_of_the_corpus():
    counts = NUMBERS["label_counts"]
    expect(
        adapters.label_counts(questions("labels")),
        counts["right"],
        asked='label_counts(load("labels"))',
        equation="section 3.1.1, counted over 1,299 sentences",
        mistakes={
            "questions that have a label were counted, not sentences": counts["questions"],
            "shares; numbers are asked for": counts["shares"],
            "means per question; totals are asked for": counts["mean"],
            "the questions that are known were left out; their sentences are undefined": counts["known left out"],
            "questions without a strong sentence were left out; their sentences are undefined": counts[
                "only with strong"
            ],
            "None beside a strong sentence became weak": counts["as weak"],
            "None beside a strong sentence became a distractor": counts["as distractor"],
        },
    )
