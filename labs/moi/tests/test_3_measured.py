"""Steps 7 to 9: another fit as good, what the orders leave open, the ranking and what it is good for. The numbers are the book's own."""

import json
from pathlib import Path

import adapters
import numpy as np
from check import expect

HERE = Path(__file__).resolve().parent
NUMBERS = json.loads((HERE / "snapshots.json").read_text(encoding="utf-8"))
OPEN, LINE_3 = NUMBERS["freedom"], "from eq. 4: a_j - 1/N times c, u_p - v divided by c, v the mean utility"
UTILITY, LONG, SHORT = [0.1, 0.9, 0.4, 0.3, 0.2], [0.3, 0.25, 0.2, 0.15, 0.1], [0.5, 0.3, 0.2]
AVERAGE, PRUNED = "average order", "3N pruned orders"


def questions(name):
    return json.loads((HERE.parent / "data" / f"{name}.json").read_text(encoding="utf-8"))["questions"]


def parts(came):
    """What `stretched` returns, by name; anything but a pair as it came."""
    if isinstance(came, tuple | list) and len(came) == 2:
        return dict(zip(("position", "utility"), came, strict=True))
    return came


def pair(position, utility):
    return {"position": np.asarray(position), "utility": np.asarray(utility)}


def test_stretched_to_half():
    a, u = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.9, 0.2])
    half = 1 / 3 + 0.5 * (a - 1 / 3)
    expect(
        parts(adapters.stretched(a, u, 0.5)),
        pair(half, [-0.2, 1.4, 0.0]),
        asked="stretched(position [0.5, 0.3, 0.2], utility [0.1, 0.9, 0.2], c=0.5)",
        equation=LINE_3,
        mistakes={
            "the utilities were stretched by c too: divide by c": pair(half, 0.4 + (u - 0.4) / 2),
            "the utilities were left as they are: divide by c": pair(half, u),
            "the position was left as it is": pair(a, [-0.2, 1.4, 0.0]),
            "the position was multiplied as it is, so that it does not sum to 1": pair(a / 2, [-0.2, 1.4, 0.0]),
            "both were taken as they are, not as distances from their means": pair(a / 2, 2 * u),
            "the utilities were divided as they are: divide their distance from the mean": pair(half, 2 * u),
            "c and 1 / c are swapped: c multiplies the position": pair(2 * a - 1 / 3, 0.4 + (u - 0.4) / 2),
            "the utilities lack their mean: add it again": pair(half, [-0.6, 1.0, -0.4]),
            "the position lacks its mean 1/N: add it again": pair(half - 1 / 3, [-0.2, 1.4, 0.0]),
            "the median of the utilities was taken for their mean": pair(half, [0.0, 1.6, 0.2]),
            "utility and position are swapped: return the position first": pair([-0.2, 1.4, 0.0], half),
        },
    )


def test_stretched_and_turned_round():
    a, u = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.9, 0.2])
    expect(
        parts(adapters.stretched(a, u, -1.0)),
        pair(2 / 3 - a, 0.8 - u),
        asked="stretched(position [0.5, 0.3, 0.2], utility [0.1, 0.9, 0.2], c=-1)",
        equation=f"{LINE_3}; below 0 a fall becomes a rise and the ranking is turned round",
        mistakes={
            "the sign of c was lost": pair(a, u),
            "both were read from the end: turning round is of values, not of places": pair(a[::-1], u[::-1]),
            "the signs of both were turned: turn the distance from the mean": pair(-a, -u),
        },
    )


def test_freedom_of_pruned_orders():
    expect(
        adapters.freedom(questions("corpus")[0]["pruned"]["orders"], SHORT, UTILITY),
        OPEN["pruned"],
        asked="freedom(12 pruned orders of a question, 3 of 5 passages, at a position and utilities)",
        equation="eq. 4, differentiated: 5 + 3 - 1 unknowns, and the scores move in 7 independent ways",
        mistakes={
            "this is the rank: subtract it from the number of unknowns": 7,
            "the position keeps its sum: that is one unknown and one way to move less": 1,
            "the rank of the design alone was subtracted: the position moves too": 2,
            "5: either the orders were counted, or the slopes of the utilities are missing": 5,
            "less than nothing: the unknowns are N + L - 1": -1,
        },
    )
    expect(
        adapters.freedom([[0, 1], [2, 3]] * 3, [0.7, 0.3], [0.1, 0.9, 0.4, 0.3]),
        3,
        asked="freedom(orders [0, 1] and [2, 3], three times each, position [0.7, 0.3], utility [0.1, 0.9, 0.4, 0.3])",
        equation="eq. 4, differentiated: 4 + 2 - 1 unknowns; equal orders move together, so there are 2 ways",
        mistakes={
            "six orders were counted, of which only two differ: take the rank": 0,
            "less than nothing: six orders were counted, of which only two differ": -1,
            "this is the rank: subtract it from the number of unknowns": 2,
            "the position keeps its sum: that is one unknown and one way to move less": 4,
        },
    )


def test_freedom_of_full_orders():
    expect(
        adapters.freedom(questions("corpus")[0]["full"]["orders"], LONG, UTILITY),
        OPEN["full"],
        asked="freedom(15 full orders of a question, 5 of 5 passages, at a position and utilities)",
        equation="eq. 4, differentiated: 5 + 5 - 1 unknowns, and the scores move in 8 ways only",
        mistakes={
            "this is the rank: subtract it from the number of unknowns": 8,
            "the rank of the design alone was subtracted: the position moves too": 4,
            "only the design and the utilities were counted: the position moves too": 0,
            "the position keeps its sum: that is one unknown and one way to move less": 2,
            "the orders were counted: subtract the rank from the unknowns, not from the orders": 7,
            "the rank of the position's slopes alone: the utilities move too": 5,
        },
    )
    orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    expect(
        adapters.freedom(orders, [1 / 3] * 3, [0.1, 0.9, 0.4]),
        2,
        asked="freedom(all six orders of three passages, position [1/3, 1/3, 1/3], utility [0.1, 0.9, 0.4])",
        equation="eq. 4, differentiated: 3 + 3 - 1 unknowns; at equal places the scores feel the mean utility alone",
        mistakes={
            "1, as for other positions: take the rank of the slopes at this position": 1,
            "this is the rank: subtract it from the number of unknowns": 3,
            "the rank of the design alone was subtracted: the position moves too": 4,
        },
    )


def test_freedom_of_cyclic_orders():
    expect(
        adapters.freedom(questions("corpus")[0]["cyclic"]["orders"], LONG, UTILITY),
        OPEN["cyclic"],
        asked="freedom(5 full cyclic orders of a question, at a position and utilities)",
        equation="eq. 4, differentiated: nine unknowns and five scores",
        mistakes={
            "this is the rank: subtract it from the number of unknowns": 5,
            "only the design and the utilities were counted: the position moves too": 0,
            "unknowns minus orders was taken for full orders too: take the rank": -6,
        },
    )


def test_rerank_by_hand():
    utility = [0.2, 0.9, 0.2, 0.5]
    expect(
        adapters.rerank(utility),
        [1, 3, 0, 2],
        asked="rerank(utility [0.2, 0.9, 0.2, 0.5])",
        equation="section 3.1, from the highest utility to the lowest",
        mistakes={
            "the lowest comes first: sort downwards": [0, 2, 3, 1],
            "the place of each passage: a ranking lists passages": [2, 0, 3, 1],
            "equal ones come out last first: sort -utility, kind='stable'": [1, 3, 2, 0],
            "utilities came, sorted: a ranking lists passages": [0.9, 0.5, 0.2, 0.2],
            "passages begin at 0, not at 1": [2, 4, 1, 3],
            "only the best passage came": 1,
        },
    )


def test_rerank_of_the_corpus():
    ranked = []
    for utility in NUMBERS["utilities"]:
        came = adapters.rerank(np.array(utility))
        ranked.append(came if came is None else "-".join(map(str, np.atleast_1d(came))))
    kept = NUMBERS["rankings"]
    same = sum(order == other for order, other in zip(ranked, kept, strict=True))
    turned = sum(other[::-1] == order for order, other in zip(kept, kept, strict=True))
    expect(
        None if ranked[0] is None else same,
        71,
        asked="rerank of the utilities of 71 questions: how many rankings are those of the book",
        equation="section 3.1, from the highest utility to the lowest",
        mistakes={"none: look at the test by hand first": turned},
    )


TOY = [
    {
        "gold": [2],
        "right": {"0-1-2-3": 0, "2-0-1-3": 1, "1-2-0-3": 1, "3-2-1-0": 0},
        "shown": [[0, 1, 2, 3], [2, 0, 1, 3], [1, 2, 0, 3]],
    },
    {"gold": [3, 1, 0], "right": {"2-1-3-0": 0, "0-1-2-3": 1}, "shown": [[2, 1, 3, 0]]},
]


def test_measured_by_hand():
    right = 1 / 3
    expect(
        adapters.measured(TOY, lambda question: question["shown"]),
        {"right": right, "rank": 5 / 9},
        asked="measured(gold 2 in 0-1-2-3 (wrong), 2-0-1-3 (right), 1-2-0-3 (right); gold 3, 1 and 0 in 2-1-3-0 (wrong))",
        equation="Tables 1 and 7: right (2/3 + 0) / 2, rank ((1/3 + 1 + 1/2) / 3 + 1/2) / 2",
        mistakes={
            "all orders were pooled: take the mean of each question first": {"right": 0.5, "rank": 7 / 12},
            "the best order of each question: take the mean over its orders": {"right": 0.5, "rank": 0.75},
            "only the first order of each question": {"right": 0.0, "rank": 5 / 12},
            "only the last order of each question": {"right": 0.5, "rank": 0.5},
            "sums over the questions: divide by their number": {"right": 2 / 3, "rank": 10 / 9},
            "the last gold passage of an order was looked at: take the first": {"right": right, "rank": 31 / 72},
            "the one that `gold` names first was looked at": {"right": right, "rank": 17 / 36},
            "the place itself: its reciprocal is asked for": {"right": right, "rank": 2.0},
            "the first place counts as 2: places are counted from 1": {"right": right, "rank": 25 / 72},
            "1 over the mean place: take the mean of the reciprocals": {"right": right, "rank": 0.5},
            "order[gold] is a passage: ask where the gold one is": {"right": right, "rank": 29 / 36},
        },
    )


def test_measured_on_the_average_order():
    numbers = NUMBERS["measured"]
    expect(
        adapters.measured(questions("cheaper"), lambda question: question["orders"][AVERAGE]),
        numbers[AVERAGE],
        asked='measured(load("cheaper"), the five cyclic orders of each question)',
        equation="Table 1, the average order: every passage is in every place once",
        mistakes={
            "the best of the five orders: that looks at the answers. Take the mean": numbers["best"],
            "only the first of the five orders": numbers["first order"],
        },
        within=1e-4,
    )


def test_measured_on_pruned_orders():
    expect(
        adapters.measured(questions("cheaper"), lambda question: question["orders"][PRUNED]),
        NUMBERS["measured"][PRUNED],
        asked='measured(load("cheaper"), the ranking by utility from pruned orders)',
        equation="Tables 1 and 7",
        mistakes={"the average order came: use orders_of": NUMBERS["measured"][AVERAGE]},
        within=1e-4,
    )
