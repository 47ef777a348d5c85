"""Steps 7 to 9: the salt of Port Sennick, the belief counted twice, and sixty questions. The numbers are the book's own."""

import json
from pathlib import Path

import adapters
import numpy as np
from check import expect

HERE = Path(__file__).resolve().parent
NUMBERS = json.loads((HERE / "snapshots.json").read_text(encoding="utf-8"))


def questions(name):
    return json.loads((HERE.parent / "data" / f"{name}.json").read_text(encoding="utf-8"))["questions"]


def shares(log_likelihood, kernel):
    return float(np.mean(kernel))


def test_worths_of_the_salt():
    salt = NUMBERS["worths"]
    expect(
        adapters.worths(questions("salt")[0]["contexts"]),
        salt["soft"],
        asked='worths(load("salt")[0]["contexts"])',
        equation="eq. 11, each context's belief minus that of the closed book",
        mistakes={
            "the belief with the passage, without subtracting the one before it": salt["after"],
            "the belief of the closed book was 0 when the others were compared: keep it apart": salt["before lost"],
            "before minus after": {name: -value for name, value in salt["soft"].items()},
            "the context without a passage is among the results: leave it out": salt["with closed"],
            "the mean over a reply's tokens, not its sum: use your reply_log_likelihood": salt["token means"],
            "every sample with the weight 1/N. That is `shares`; `measure` is `soft` by default": salt["shares"],
            "compared with the one before it in the list, not with the closed book": salt["step by step"],
        },
        within=1e-4,
    )
    contexts = questions("salt")[0]["contexts"]
    expect(
        adapters.worths(contexts, measure=shares),
        salt["shares"],
        asked='worths(load("salt")[0]["contexts"], measure=shares)',
        equation="eq. 11, each belief measured by `measure`",
        mistakes={"`measure` was not used: soft was called by its name": salt["soft"]},
        within=1e-4,
    )
    expect(
        adapters.worths(contexts[::-1]),
        salt["soft"],
        asked='worths of the same contexts, the last one first',
        equation="eq. 11; the closed book is among the contexts, not always the first",
        within=1e-4,
    )


def test_expected_belief_of_one_sample():
    expect(
        adapters.expected_belief(0.7, 1),
        0.7,
        asked="expected_belief(p=0.7, n=1)",
        equation="eq. 9 as an expectation: right with probability 0.7, and then the belief is 1",
        mistakes={
            "k = n is missing: range(n) ends at n - 1": 0.0,
            "the belief at the expected number of right samples. Take the expectation of the beliefs": 0.49 / 0.58,
            "the beliefs of all k were summed, not weighed by how probable k is": 1.0,
        },
    )


def test_expected_belief_of_two_samples():
    expect(
        adapters.expected_belief(0.7, 2),
        0.784,
        asked="expected_belief(p=0.7, n=2)",
        equation="eq. 9 as an expectation: 0.49 x 1 + 0.42 x 0.7 + 0.09 x 0",
        mistakes={
            "the share of right samples k/n in the place of soft. That one is unbiased, which is the point of comparing": 0.7,
            "the number of ways is missing: one right sample of two can come in comb(2, 1) ways": 0.637,
            "k = n is missing: range(n) ends at n - 1": 0.294,
            "the belief at the expected number of right samples. Take the expectation of the beliefs": 0.49 / 0.58,
            "the mean of the beliefs over k, as if every k were equally probable": 1.7 / 3,
            "p and 1 - p went into soft without the logarithm": 0.49 + 0.42 / (1 + 2.718281828459045**-0.4),
        },
    )


def test_expected_belief_of_many_samples():
    expect(
        adapters.expected_belief(0.7, 100),
        NUMBERS["expected_belief"]["100"],
        asked="expected_belief(p=0.7, n=100)",
        equation="eq. 9 as an expectation; it comes near 0.49 / 0.58, not near 0.7",
        mistakes={
            "the share of right samples k/n in the place of soft. That one is unbiased, which is the point of comparing": 0.7,
            "the belief at the expected number of right samples. Take the expectation of the beliefs": 0.49 / 0.58,
        },
    )


def test_agreement_on_the_corpus():
    numbers = NUMBERS["agreement"]
    expect(
        adapters.agreement(questions("corpus")),
        numbers["soft"],
        asked='agreement(load("corpus"))',
        equation="section 4.1.2, Pearson's correlation of the change with the mark 1 or 0",
        mistakes={
            "questions that the reader knows without a passage are still in; `known` says which": numbers["known kept"],
            "the questions that are known were kept, and the others left out": numbers["only known"],
            "the sign: the other passage was marked 1, or before minus after was taken": -numbers["soft"],
            "the belief with the passage was correlated, not what the passage changes": numbers["after"],
            "ranks were correlated (Spearman). The paper takes Pearson's correlation of the values": numbers["ranks"],
            "this is a covariance: divide by both standard deviations": numbers["covariance"],
            "the square of the correlation": numbers["soft"] ** 2,
            "every sample with the weight 1/N. That is `shares`; `measure` is `soft` by default": numbers["shares"],
            "the mean over a reply's tokens, not its sum: use your reply_log_likelihood": numbers["token means"],
            "a correlation per question, then their mean. Pool all passages first": numbers["mean of questions"],
        },
        within=1e-4,
    )
    expect(
        adapters.agreement(questions("corpus"), measure=shares),
        numbers["shares"],
        asked='agreement(load("corpus"), measure=shares)',
        equation="section 4.1.2, with the change of what `measure` measures",
        mistakes={"`measure` was not handed on to worths": numbers["soft"]},
        within=1e-4,
    )
