"""Steps 1 to 5: contexts with one edit, the graph of replies, its entropy, what a threshold lets through, and Port Sennick."""

import json
from pathlib import Path

import adapters
import numpy as np
from check import expect

T, F = True, False
HERE = Path(__file__).resolve().parent
NUMBERS = json.loads((HERE / "snapshots.json").read_text(encoding="utf-8"))
EDIT, LINK, ENTROPY = "eqs. 3 and 4, one chunk at a time", "eq. 5, half the sum of both directions", "eq. 6"
CERTAIN = "eq. 6 and section 5, certain is DENSE <= threshold"


def questions(name):
    return json.loads((HERE.parent / "data" / f"{name}.json").read_text(encoding="utf-8"))["questions"]


def test_edits_of_three_chunks():
    a, b, c = ["A", "b", "c"], ["a", "B", "c"], ["a", "b", "C"]
    expect(
        adapters.edits(["a", "b", "c"], ["A", "B", "C"]),
        [["a", "b", "c"], a, b, c],
        asked='edits(["a", "b", "c"], ["A", "B", "C"])',
        equation=EDIT,
        mistakes={
            "the context as it is is missing: it comes first, k + 1 in all": [a, b, c],
            "the context as it is comes last; reply 0 is the one to it": [a, b, c, ["a", "b", "c"]],
            "edits pile up: begin each context from the chunks as they are": [
                ["a", "b", "c"],
                a,
                ["A", "B", "c"],
                ["A", "B", "C"],
            ],
            "one list was changed again and again and put in four times: copy it": [["A", "B", "C"]] * 4,
            "nothing was exchanged": [["a", "b", "c"]] * 4,
            "all chunks but one are in other words; it is the other way round": [
                ["a", "b", "c"],
                ["a", "B", "C"],
                ["A", "b", "C"],
                ["A", "B", "c"],
            ],
            "the chunk was left out; that is eq. 9. Put its other words in its place": [
                ["a", "b", "c"],
                ["b", "c"],
                ["a", "c"],
                ["a", "b"],
            ],
            "the other words stand at the end; a chunk keeps its place": [
                ["a", "b", "c"],
                ["b", "c", "A"],
                ["a", "c", "B"],
                ["a", "b", "C"],
            ],
            "all chunks in other words at once: then nobody knows which one moved the reply": [
                ["a", "b", "c"],
                ["A", "B", "C"],
            ],
        },
    )


def test_edits_changes_nothing_that_comes_in():
    chunks, other_words = ["a", "b"], ["A", "B"]
    came = adapters.edits(chunks, other_words)
    expect(
        None if came is None else [chunks, other_words],
        [["a", "b"], ["A", "B"]],
        asked="the chunks and their other words after edits(chunks, other_words)",
        equation=f"{EDIT}; the caller's lists stay as they are",
        mistakes={
            "the caller's chunks were changed in place: copy them with list(chunks)": [["A", "B"], ["A", "B"]],
            "the last of the caller's chunks was changed in place": [["a", "B"], ["A", "B"]],
        },
    )


def test_adjacency_of_both_directions():
    entails = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]])
    upper, lower = np.triu(entails) + np.triu(entails, 1).T, np.tril(entails) + np.tril(entails, -1).T
    right = np.array([[1, 0.5, 0, 0.5], [0.5, 1, 1, 0], [0, 1, 1, 0], [0.5, 0, 0, 1]])
    expect(
        adapters.adjacency(entails.copy()),
        right,
        asked="adjacency, where 1 and 2 entail each other, 0 entails 1, and 3 entails 0",
        equation=LINK,
        mistakes={
            "only one direction was looked at: add the transpose": entails.astype(float),
            "only the other direction was looked at: add the matrix itself": entails.T.astype(float),
            "one direction was enough for a full link (or, max); it is worth 0.5": np.ceil(right),
            "one direction was worth nothing (and, min, a product); it is worth 0.5": np.floor(right),
            "both directions were added and not halved": entails + entails.T + 0.0,
            "added and not halved, but for the diagonal": entails + entails.T - np.eye(4),
            "no reply agrees with itself: the diagonal is 1": right - np.eye(4),
            "multiplied as matrices (@); the transpose is added": entails @ entails.T + 0.0,
            "only the upper half of the matrix was looked at": upper + 0.0,
            "only the lower half of the matrix was looked at": lower + 0.0,
        },
    )


def test_adjacency_sets_the_diagonal():
    expect(
        adapters.adjacency(np.array([[0, 1], [0, 0]])),
        [[1, 0.5], [0.5, 1]],
        asked="adjacency([[0, 1], [0, 0]])",
        equation=f"{LINK}; a reply agrees with itself, whatever the judge says",
        mistakes={
            "the diagonal was taken from the judge: set it to 1, or a degree may be 0": [[0, 0.5], [0.5, 0]],
            "1 was added to the whole matrix": [[1, 1.5], [1.5, 1]],
        },
    )


def test_adjacency_of_true_and_false():
    expect(
        adapters.adjacency(np.array([[T, T, F], [F, T, T], [F, T, T]])),
        [[1, 0.5, 0], [0.5, 1, 1], [0, 1, 1]],
        asked="adjacency of True and False, where 0 entails 1, and 1 and 2 entail each other",
        equation=LINK,
        mistakes={
            "True + True is True to numpy, half of it 0.5: make numbers of them first": [
                [1, 0.5, 0],
                [0.5, 1, 0.5],
                [0, 0.5, 1],
            ],
            "the result holds True and False: it must be able to hold 0.5": [[1, 1, 0], [1, 1, 1], [0, 1, 1]],
        },
    )


def test_adjacency_changes_nothing_that_comes_in():
    entails = np.array([[0.0, 1.0], [0.0, 0.0]])
    came = adapters.adjacency(entails)
    expect(
        None if came is None else entails,
        [[0, 1], [0, 0]],
        asked="the matrix after adjacency(matrix), [[0, 1], [0, 0]] before",
        equation="the docstring, it stays as it is",
        mistakes={
            "its diagonal was filled in place: fill that of the result": [[1, 1], [0, 1]],
            "it was changed in place (+=, out=, or a result that is the same array)": [[1, 0.5], [0.5, 1]],
        },
    )


def test_degree_entropy_when_one_reply_moves():
    links = np.ones((6, 6))
    links[3], links[:, 3], links[3, 3] = 0, 0, 1
    expect(
        adapters.degree_entropy(links),
        (5 * np.log(6 / 5) + np.log(6)) / 6,
        asked="degree_entropy of six replies, of which one agrees with none of the others",
        equation=f"{ENTROPY}: (5 log(6/5) + log 6) / 6",
        mistakes={
            "the logarithm is missing, or 1 - x was taken for -log x": 10 / 36,
            "minus the logarithm of the mean share. Take the logarithm of each, then the mean": -np.log(26 / 36),
            "the sum over the replies: take the mean": 5 * np.log(6 / 5) + np.log(6),
            "the sign: a surprise is -log, and not below 0": -(5 * np.log(6 / 5) + np.log(6)) / 6,
            "the logarithm has base 2; nats are natural": (5 * np.log2(6 / 5) + np.log2(6)) / 6,
            "only reply 0 was looked at, or the median was taken": np.log(6 / 5),
            "the largest surprise (max for mean)": np.log(6),
            "divided by k in the place of k + 1 replies, outside the logarithm": (5 * np.log(6 / 5) + np.log(6)) / 5,
        },
    )


def test_degree_entropy_of_half_links():
    links = np.array([[1, 1, 0.5, 0], [1, 1, 1, 0], [0.5, 1, 1, 0.5], [0, 0, 0.5, 1]])
    d = np.array([2.5, 3, 3, 1.5])
    p = d / 10
    expect(
        adapters.degree_entropy(links),
        np.log(4**4 / (2.5 * 3 * 3 * 1.5)) / 4,
        asked="degree_entropy of four replies with the degrees 2.5, 3, 3 and 1.5",
        equation=f"{ENTROPY}, with D_i the sum of row i: mean of log(4 / D_i)",
        mistakes={
            "a half link was counted as a whole one: sum the links, do not count them": np.mean(
                np.log([4 / 3, 4 / 3, 1, 2])
            ),
            "a half link was not counted: sum the links": np.mean(np.log([2, 4 / 3, 2, 4])),
            "each reply itself was left out of its degree; it is one of the n": np.mean(np.log(4 / (d - 1))),
            "itself was left out of degree and number": np.mean(np.log(3 / (d - 1))),
            "the degree was divided by k, not by the number of replies k + 1": np.mean(np.log(3 / d)),
            "the degree was not divided by the number of replies": -np.mean(np.log(d)),
            "divided by the sum of all degrees, not by the number of replies": np.mean(np.log(10 / d)),
            "the entropy -sum p log p of shares of all degrees. Eq. 6 is a plain mean": -np.sum(p * np.log(p)),
            "each surprise was weighed by its degree; eq. 6 is a plain mean": np.sum(d / 4 * np.log(4 / d)),
        },
    )


def test_degree_entropy_of_no_agreement():
    expect(
        adapters.degree_entropy(np.eye(4)),
        np.log(4),
        asked="degree_entropy of four replies that all differ",
        equation=f"{ENTROPY}: log n",
        mistakes={
            "log D and not log(D / n): the degree was not divided by the number of replies": 0.0,
            "each reply itself was left out, so that a degree is 0": np.inf,
            "1: it was scaled by log n. Eq. 6 is not": 1.0,
        },
    )


def test_moves_allowed_at_nineteen():
    expect(
        adapters.moves_allowed(19),
        1,
        asked="moves_allowed(k=19)",
        equation=f"{CERTAIN}: one reply that moves costs 0.198 of 20, 0.206 of 19",
        mistakes={
            "k replies were taken; k chunks give k + 1": 0,
            "the first m that is too many. The one before it is still allowed": 2,
            "those that moved agree with each other and all others do not; it is the other way round": 19,
        },
    )


def test_moves_allowed_of_several():
    expect(
        adapters.moves_allowed(5, 0.9),
        2,
        asked="moves_allowed(k=5, threshold=0.9)",
        equation=f"{CERTAIN}: one costs 0.451, two 0.868, three 1.242",
        mistakes={
            "those that moved were left in agreement with each other; each goes its own way": 5,
            "the threshold was not used; 0.2 is only the default": 0,
            "the first m that is too many. The one before it is still allowed": 3,
            "whether a reply may move, not how many": 1,
        },
    )


def test_moves_allowed_at_the_threshold():
    expect(
        adapters.moves_allowed(1, np.log(2)),
        1,
        asked="moves_allowed(k=1, threshold=log 2): of two replies one moves, DENSE is just log 2",
        equation=CERTAIN,
        mistakes={"at most is enough (<= and not <); if another test fails too, look at that one first": 0},
    )


def test_moves_allowed_of_all():
    expect(
        adapters.moves_allowed(5, 2.0),
        5,
        asked="moves_allowed(k=5, threshold=2), above log 6",
        equation=f"{CERTAIN}; the docstring, 0 .. k",
        mistakes={
            "m = k is missing: range(k) ends at k - 1": 4,
            "all six moved: one is left, with which the others disagree, m is at most k": 6,
            "0 is what 0.2 allows: use the threshold that comes in": 0,
        },
    )


def test_entropies_of_the_salt():
    values = NUMBERS["salt"]
    expect(
        adapters.entropies(questions("salt")),
        values,
        asked='entropies(load("salt")), with five, three and eight passages',
        equation="eqs. 5 and 6, question by question",
        mistakes={
            "log n - DENSE, or the wrong sign somewhere": [
                float(np.log(n)) - v for n, v in zip((6, 4, 9), values, strict=True)
            ],
            "divided by log n. Eq. 6 does not": [v / float(np.log(n)) for n, v in zip((6, 4, 9), values, strict=True)],
            "in the order of their values; keep that of the questions": sorted(values),
        },
        within=1e-5,
    )


def test_entropies_of_a_question_on_which_the_judge_is_at_odds():
    at_odds = NUMBERS["at odds"]
    expect(
        adapters.entropies([question for question in questions("corpus") if question["id"] == "q150"]),
        [at_odds["right"]],
        asked='entropies of q150 of load("corpus"), where 0 agrees with 1 and with 5, but 1 not with 5',
        equation="eqs. 5 and 6; not every agreement is transitive",
        mistakes={
            "replies were put in clusters (semantic entropy). Eq. 6 takes the graph as it is": [at_odds["clusters"]],
            "texts were compared. Whether they mean the same is in `entails`": [at_odds["texts"]],
            "the reply to the context as it is was left out": [at_odds["without reply 0"]],
            "one number came; one per question is asked for": at_odds["right"],
        },
        within=1e-5,
    )


def test_entropies_of_equal_questions_are_equal():
    came = adapters.entropies(questions("corpus"))
    values = np.unique([] if came is None else came)
    rounded = len(np.unique(np.round(values, 9)))
    expect(
        None if came is None else len(values),
        NUMBERS["different"],
        asked='how many different values entropies(load("corpus")) has',
        equation="the docstring, rounded to nine decimals",
        mistakes={"sums in another order differ in the last digit, and ties are none: np.round(..., 9)": len(values)}
        if rounded == NUMBERS["different"] < len(values)
        else None,
    )


def test_entropies_looks_both_ways():
    entails = [[1, 1, 1], [0, 1, 0], [0, 0, 1]]
    expect(
        adapters.entropies([{"entails": entails}]),
        [np.mean(np.log([3 / 2, 2, 2]))],
        asked="entropies of a question whose reply 0 entails 1 and 2, and neither the other way round",
        equation="eqs. 5 and 6, with `adjacency` on the way",
        mistakes={
            "`entails` itself was taken for the links, row by row: use your adjacency": [np.mean(np.log([1, 3, 3]))],
            "`entails` itself was taken for the links, by columns: use your adjacency": [
                np.mean(np.log([3, 3 / 2, 3 / 2]))
            ],
        },
    )
