"""Steps 1 to 3: the score of an order, what each passage counts in it, and how badly utilities and position explain it."""

import adapters
import numpy as np
from check import expect

ORDERS, POSITION, UTILITY = [[1, 0], [2, 1], [0, 2]], [0.75, 0.25], [0.4, 0.8, 0.2]


def test_saliency_by_hand():
    query = np.array([-10.0, -12.0, -11.6])
    p = np.exp(query)
    expect(
        adapters.saliency(query.copy()),
        [1.2, -0.8, -0.4],
        asked="saliency(query=[-10, -12, -11.6])",
        equation="eq. 3 without its second factor, in logarithms, minus their mean, -11.2",
        mistakes={
            "the mean was not subtracted": query,
            "these are probabilities: no exp here, they would be 0 for a long question": p,
            "probabilities that sum to 1. Keep the logarithms and subtract their mean": p / p.sum(),
            "logarithms, but of shares: the log of the sum was subtracted, not the mean": query - np.log(p.sum()),
            "the largest was subtracted, not the mean": query + 10,
            "the median was subtracted, not the mean": query + 11.6,
            "divided by the mean: subtract it, a factor would change the unit": query / query.mean(),
            "divided by the spread too. Scores keep their unit, nats": (query + 11.2) / query.std(),
            "the sign: a likelier question is a better order": [-1.2, 0.8, 0.4],
        },
    )


def test_saliency_of_both_factors():
    query, passages = [-10.0, -12.0], [-900.0, -899.0]
    expect(
        adapters.saliency(query, passages),
        [0.5, -0.5],
        asked="saliency(query=[-10, -12], passages=[-900, -899])",
        equation="eq. 3, a product of two probabilities: the logarithms are added, [-910, -911]",
        mistakes={
            "two lists joined by +, as lists are: make arrays of them first": np.array([*query, *passages]) + 455.25,
            "the second factor was left out, though it is given": [1.0, -1.0],
            "the first factor was left out": [-0.5, 0.5],
            "the logarithms were multiplied. A product of probabilities is a sum of logarithms": [-894.0, 894.0],
            "the second factor was divided by: eq. 3 multiplies": [1.5, -1.5],
            "the mean of the two factors. Eq. 3 is their product": [0.25, -0.25],
        },
    )


def test_saliency_leaves_what_came_in():
    query, passages = np.array([-10.0, -12.0]), np.array([-900.0, -899.0])
    came = adapters.saliency(query, passages)
    expect(
        None if came is None else query,
        [-10.0, -12.0],
        asked="query, after saliency(query, passages)",
        equation="the docstring, what comes in is as before afterwards",
        mistakes={
            "query was changed in place (+= or -= on an array). Make a new one": [0.5, -0.5],
            "query was changed in place (+= on an array): the passages were added to it": [-910.0, -911.0],
        },
    )
    expect(
        passages,
        [-900.0, -899.0],
        asked="passages, after saliency(query, passages)",
        equation="the docstring, what comes in is as before afterwards",
        mistakes={
            "passages was changed in place (+= or -= on an array). Make a new one": [0.5, -0.5],
            "passages was changed in place (+= on an array): the query was added to it": [-910.0, -911.0],
        },
    )


def test_design_of_pruned_orders():
    orders, a = [[2, 0], [1, 3], [3, 2]], [0.7, 0.3]
    right = np.array([[0.3, 0, 0.7, 0], [0, 0.7, 0, 0.3], [0, 0, 0.3, 0.7]])
    turned = np.where(right > 0, 1 - right, 0)
    expect(
        adapters.design(orders, a, 4),
        right,
        asked="design(orders [[2, 0], [1, 3], [3, 2]], position [0.7, 0.3], n=4)",
        equation="eq. 4 as a matrix: in order 2-0 passage 2 counts 0.7 and passage 0 counts 0.3",
        mistakes={
            "a 1 where a passage is shown: put the coefficient of its place there": right > 0,
            "the places are turned round: the first place of an order has the first coefficient": turned,
            "a row per passage came: make a row per order": right.T,
            "a column per place came: make a column per passage": np.tile(a, (3, 1)),
            "the passages were counted from 1: passage 0 has column 0": np.roll(right, -1, axis=1),
            "all orders went into every row: row i gets order i alone": np.tile([0.3, 0.7, 0.3, 0.7], (3, 1)),
            "only the first place was filled in": np.where(right == 0.7, 0.7, 0),
            "the last place of each order is missing, or was written over": np.where(right == 0.3, 0.3, 0),
            "the columns of an order are where its passages come in the sorted order": [[0.3, 0.7], [0.7, 0.3]] * 2,
        },
    )


def test_design_of_a_full_order():
    expect(
        adapters.design([[1, 2, 0]], [0.6, 0.3, 0.1], 3),
        [[0.1, 0.6, 0.3]],
        asked="design(orders [[1, 2, 0]], position [0.6, 0.3, 0.1], n=3)",
        equation="eq. 4 as a matrix: passage 1 stands first and counts 0.6, passage 2 counts 0.3, passage 0 counts 0.1",
        mistakes={
            "passage p got coefficient number order[p]. Column order[j] gets coefficient j": [[0.3, 0.1, 0.6]],
            "the coefficients stand as the places do: put each into the column of its passage": [[0.6, 0.3, 0.1]],
            "every passage counts alike: use the position": [[1 / 3] * 3],
        },
    )


def test_objective_by_hand():
    scores = np.array([0.9, 0.25, 0.15])
    apart = np.array([0.7, 0.35, 0.35]) - scores
    by_place = np.full(3, 0.5) - scores
    turned = np.array([0.5, 0.65, 0.25]) - scores
    level = np.array([0.6, 0.5, 0.3]) - scores
    expect(
        adapters.objective(ORDERS, scores, POSITION, UTILITY),
        0.09,
        asked="objective(orders [[1, 0], [2, 1], [0, 2]], scores [0.9, 0.25, 0.15], position [0.75, 0.25], utility [0.4, 0.8, 0.2])",
        equation="section 3.1: the scores by eq. 4 are 0.7, 0.35, 0.35; errors -0.2, 0.1, 0.2, squared and summed",
        mistakes={
            "the mean of the squared errors: the programme sums them": np.mean(apart**2),
            "the square root was taken: the programme sums the squares": 0.3,
            "the root of the mean: the programme sums the squares": np.sqrt(np.mean(apart**2)),
            "errors without a square, signs dropped: square them": np.abs(apart).sum(),
            "errors without a square, so that they cancel: square them": apart.sum(),
            "the errors were summed before squaring": apart.sum() ** 2,
            "half of it: there is no 1/2 in the programme": 0.045,
            "utilities were taken by place: place j shows passage order[j]": (by_place**2).sum(),
            "the places are turned round: the first place has the first coefficient": (turned**2).sum(),
            "every place counted alike: use the position": (level**2).sum(),
            "the largest squared error alone: sum them": 0.04,
            "the squares of the scores themselves: subtract what utility and position explain": (scores**2).sum(),
        },
    )
