"""The only place where the tests reach your functions. Call something otherwise, or order its arguments otherwise? Say so here."""

import lab


def saliency(query, passages=None):
    return lab.saliency(query, passages)


def design(orders, position, n):
    return lab.design(orders, position, n)


def objective(orders, scores, position, utility):
    return lab.objective(orders, scores, position, utility)


def best_utility(orders, scores, position, n):
    return lab.best_utility(orders, scores, position, n)


def best_position(orders, scores, utility):
    return lab.best_position(orders, scores, utility)


def fit(orders, scores, start, n, rounds=50):
    return lab.fit(orders, scores, start, n, rounds)


def stretched(position, utility, c):
    return lab.stretched(position, utility, c)


def freedom(orders, position, utility):
    return lab.freedom(orders, position, utility)


def rerank(utility):
    return lab.rerank(utility)


def measured(questions, orders_of):
    return lab.measured(questions, orders_of)
