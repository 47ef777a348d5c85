"""Steps 6 to 9: Kendall's tau, its ceiling, 240 questions and the control. The numbers of the corpus are the book's own."""

import json
from functools import cache
from pathlib import Path

import adapters
import numpy as np
from check import expect

HERE = Path(__file__).resolve().parent
NUMBERS = json.loads((HERE / "snapshots.json").read_text(encoding="utf-8"))["taus"]
TAU = "tau-b, (C - D) / root of (C + D + Tx)(C + D + Ty)"
CONTROL = "the docstring: a random order within each group"
VARIES = "not the same in each draw"
LETTERS = "abacba"
KEYS = {"a": ("x", -1), "b": ("x", -2), "c": ("y", -1)}  # a and b have one hash, for hash(-1) is -2
GROUPS = [KEYS[letter] for letter in LETTERS]


@cache
def questions():
    return json.loads((HERE.parent / "data" / "corpus.json").read_text(encoding="utf-8"))["questions"]


def test_kendall_without_ties():
    expect(
        adapters.kendall([1, 2, 3, 4, 5], [3, 1, 2, 4, 5]),
        6 / 10,
        asked="kendall([1, 2, 3, 4, 5], [3, 1, 2, 4, 5])",
        equation=f"{TAU}: C = 8, D = 2, no ties",
        mistakes={
            "this is Pearson's or Spearman's correlation: tau counts pairs": 0.7,
            "the share of pairs that are ordered alike: subtract D too": 8 / 10,
            "a count: divide it by the root": 6.0,
            "the sign: C minus D": -6 / 10,
            "the root is missing below": 6 / 100,
            "each pair counts twice above the line and once below": 12 / 10,
            "each pair counts twice below the line and once above": 6 / 20,
            "each question was paired with itself too, below the line": 12 / 25,
            "only neighbours were paired: take every two questions": 2 / 4,
        },
    )


def test_kendall_with_ties_of_y():
    expect(
        adapters.kendall([1, 2, 3, 4, 5], [0, 1, 0, 1, 1]),
        4 / np.sqrt(6 * 10),
        asked="kendall([1, 2, 3, 4, 5], [0, 1, 0, 1, 1])",
        equation=f"{TAU}: C = 5, D = 1, Tx = 0, Ty = 4",
        mistakes={
            "pairs tied in y are left out altogether (gamma): they stay in the second factor": 4 / 6,
            "divided by all pairs, which is tau-a: those tied in y are not in the first factor": 4 / 10,
            "ties in y were counted as ordered oppositely": 0.0,
            "ties in y were counted as ordered alike (<= for <)": 8 / 10,
            "the root is missing: the product of the two counts": 4 / 60,
            "this is Pearson's correlation: tau counts pairs": 2 / np.sqrt(12),
            "only neighbours were paired, every two questions are wanted": 1 / 4,
        },
    )


def test_kendall_with_ties_of_both():
    expect(
        adapters.kendall([2, 1, 3, 1, 2], [1, 0, 1, 0, 0]),
        5 / np.sqrt(6 * 8),
        asked="kendall([2, 1, 3, 1, 2], [1, 0, 1, 0, 0])",
        equation=f"{TAU}: C = 5, D = 0, Tx = 1, Ty = 3, and a pair that is tied in both counts nowhere",
        mistakes={
            "the pair tied in both is in Tx and Ty; it counts nowhere": 5 / np.sqrt(7 * 9),
            "the pair tied in both is in Tx; it counts nowhere": 5 / np.sqrt(7 * 8),
            "the pair tied in both is in Ty; it counts nowhere": 5 / np.sqrt(6 * 9),
            "the pair tied in both was counted as ordered alike": 6 / np.sqrt(7 * 9),
            "divided by all pairs, which is tau-a: Tx and Ty are in one factor each": 5 / 10,
            "ties left out altogether, which is gamma: Tx and Ty each stay in one factor": 1.0,
            "Tx is missing: the first factor is C + D + Tx": 5 / np.sqrt(5 * 8),
            "Ty is missing: the second factor is C + D + Ty": 5 / np.sqrt(6 * 5),
            "all ties are in both factors": 5 / 9,
        },
    )


def test_kendall_of_opposites():
    expect(
        adapters.kendall([1, 2, 3], [3, 2, 1]),
        -1.0,
        asked="kendall([1, 2, 3], [3, 2, 1])",
        equation=f"{TAU}: C = 0, D = 3",
        mistakes={
            "an absolute value, or D - C: opposite orders have tau -1": 1.0,
            "D was not subtracted": 0.0,
            "each pair counts twice above the line and once below": -2.0,
        },
    )


def test_ceiling_by_hand():
    expect(
        adapters.ceiling(np.array([3, 1, 2, 4]), np.array([0, 1, 0, 1])),
        4 / np.sqrt(6 * 4),
        asked="ceiling([3, 1, 2, 4], [0, 1, 0, 1])",
        equation=f"{TAU}, of the best pairing: 1, 2 with 0 and 3, 4 with 1",
        mistakes={
            "this is tau as they stand: pair the smallest with the smallest": 0.0,
            "1, as if ties could be broken: two questions tied in y differ in x": 1.0,
            "the smallest were paired with the largest": -4 / np.sqrt(6 * 4),
            "only x was sorted: sort both": 2 / np.sqrt(6 * 4),
        },
    )


def test_ceiling_of_success():
    expect(
        adapters.ceiling(np.array([1, 1, 1, 1, 0, 1, 1, 1, 1, 1]), np.array([0, 1] * 5)),
        1 / 3,
        asked="ceiling(nine times 1 and once 0, five times 0 and five times 1)",
        equation=f"{TAU}, of the best pairing: C = 5, Tx = 20, Ty = 4",
        mistakes={
            "1, as if ties could be broken": 1.0,
            "only x was sorted: the one 0 is then paired with a 0 by chance": -1 / 3,
            "divided by all pairs, which is tau-a": 5 / 45,
        },
    )


def test_ceiling_leaves_its_numbers_alone():
    x, y = np.array([3, 1, 2]), np.array([1, 0, 1])
    came = adapters.ceiling(x, y)
    expect(
        None if came is None else [*x, *y],
        [3, 1, 2, 1, 0, 1],
        asked="x and y after ceiling(x = [3, 1, 2], y = [1, 0, 1])",
        equation="the docstring; whoever called needs the pairs again",
        mistakes={
            "both were sorted in place: sort copies, `sorted(x)`": [1, 2, 3, 0, 1, 1],
            "x was sorted in place: sort a copy, `sorted(x)`": [1, 2, 3, 1, 0, 1],
            "y was sorted in place: sort a copy, `sorted(y)`": [3, 1, 2, 0, 1, 1],
        },
    )


def test_taus_of_five_passages():
    expect(
        adapters.taus(questions(), "BM25", 5),
        NUMBERS["five"],
        asked='taus(load("corpus"), BM25, k=5)',
        equation="Table 1, tau over 240 questions",
        mistakes={
            "the reader saw five passages, but ten labels were measured": NUMBERS["ten labels"],
            "five labels were measured, but the reader saw ten passages": NUMBERS["reader of ten"],
            "the reader saw the first passage alone: show it the first k": NUMBERS["reader of one"],
            "the reader saw the k-th passage alone: show it the first k": NUMBERS["reader of the last"],
            "both are of ten passages: k was not used": NUMBERS["ten"],
            "these are the dense lists: `retriever` says which": NUMBERS["dense"],
            "each label is of the list up to it; `labels_of` shows one document at a time": NUMBERS["from the first"],
            "labels by string: `labels_of` is `by_reader` by default": NUMBERS["by string"],
            "Pearson's correlation: use your `kendall`": NUMBERS["pearson"],
            "Spearman's correlation: use your `kendall`": NUMBERS["spearman"],
            "the sign is turned": {name: -value for name, value in NUMBERS["five"].items()},
        },
        within=1e-4,
    )


def test_taus_with_labels_by_string():
    def by_string(question, documents):
        return [float(document in question["holds"]) for document in documents]

    expect(
        adapters.taus(questions(), "BM25", 10, by_string),
        NUMBERS["string, ten"],
        asked='taus(load("corpus"), BM25, k=10, labels_of=by_string)',
        equation="Table 1, tau over 240 questions",
        mistakes={
            "`labels_of` was not used: these are the reader's labels": NUMBERS["ten"],
            "the sign is turned": {name: -value for name, value in NUMBERS["string, ten"].items()},
        },
        within=1e-4,
    )


def test_taus_of_dense_lists():
    expect(
        adapters.taus(questions(), "dense", 10),
        NUMBERS["dense, ten"],
        asked='taus(load("corpus"), DENSE, k=10)',
        equation="Table 1, tau over 240 questions",
        mistakes={"these are the lists of BM25: `retriever` says which": NUMBERS["ten"]},
        within=1e-4,
    )


class Key(tuple):
    """A key whose place in a set can be chosen; that of a text changes whenever Python is started."""

    def __hash__(self):
        return self.place


def keys_in_a_set(order):
    """GROUPS, as keys that stand in a set in the order of these letters."""
    keys = [Key(group) for group in GROUPS]
    for key, letter in zip(keys, LETTERS, strict=True):
        key.place = order.index(letter)
    return keys


def drawn(groups=GROUPS):
    """(200, 6) places for the groups, drawn from one generator; None if nothing is returned."""
    rng = np.random.default_rng(1)
    came = [adapters.among_equals(list(groups), rng) for _ in range(200)]
    return None if any(each is None for each in came) else [[int(place) for place in each] for each in came]


def in_each(rows):
    """What is the same in each draw."""
    return rows[0] if all(row == rows[0] for row in rows) else VARIES


def test_among_equals_gives_each_away_once():
    came = drawn()
    expect(
        came and in_each([sorted(places) for places in came]),
        [0, 1, 2, 3, 4, 5],
        asked="the places that among_equals(keys of six questions, rng) gives away, sorted",
        equation=CONTROL,
        mistakes={
            "each was drawn for itself (with replacement): order the members anew, rng.permutation": VARIES,
            "these are places within the group; places in the list of all six are wanted": [0, 0, 0, 1, 1, 2],
            "everybody was given the labels of the first of the group": [0, 0, 0, 1, 1, 3],
            "everybody was given the labels of the last of the group": [3, 4, 4, 5, 5, 5],
            "a group of one was left out; it keeps its own labels": [0, 1, 2, 4, 5],
            "places begin at 0": [1, 2, 3, 4, 5, 6],
        },
    )


def test_among_equals_stays_in_the_group():
    came = drawn()
    expect(
        came and in_each([[LETTERS[place % 6] for place in places] for places in came]),
        ["a", "b", "a", "c", "b", "a"],
        asked="whose labels among_equals gives to questions of the groups a, b, a, c, b, a",
        equation=CONTROL,
        mistakes={
            "labels came from other groups: shuffle within each group only": VARIES,
            "group after group was joined; each member must go to a place of its group": ["a", "a", "a", "b", "b", "c"],
        },
    )


def test_among_equals_draws_any_order():
    came = drawn()
    expect(
        came and len({tuple(places) for places in came}),
        12,
        asked="how many different orders come in 200 draws, for groups of three, two and one",
        equation=CONTROL + ": 3! x 2! x 1! orders",
        mistakes={
            "the same order each time: take all chance from `rng`, in each call anew": 1,
            "nobody was given their own labels; a random order may leave a question where it is": 2,
            "members were moved round by some steps; any order may come": 6,
        },
    )


def test_among_equals_takes_all_chance_from_rng():
    came, again = drawn(), drawn()
    expect(
        came and "equal" if came == again else "not equal",
        "equal",
        asked="the orders of 200 draws, and those of 200 more from a generator with the same seed",
        equation=CONTROL,
        mistakes={"with the same seed other orders came: draw from the `rng` that is handed in": "not equal"},
    )
    came, again = drawn(keys_in_a_set("abc")), drawn(keys_in_a_set("cba"))
    expect(
        came and "equal" if came == again else "not equal",
        "equal",
        asked="the orders of 200 draws, and the same for keys that stand in another order in a set",
        equation=CONTROL,
        mistakes={"the groups come from a set, whose order changes from run to run: use a dict": "not equal"},
    )


def test_among_equals_leaves_the_groups_alone():
    groups = list(GROUPS)
    came = adapters.among_equals(groups, np.random.default_rng(1))
    expect(
        None if came is None else "as before" if groups == GROUPS else "changed",
        "as before",
        asked="the keys after among_equals(keys, rng)",
        equation="the docstring; whoever called draws again with them",
        mistakes={"the list that was handed in was shuffled or sorted itself: work on a copy": "changed"},
    )
