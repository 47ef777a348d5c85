"""The only place where the tests reach your functions. Call something otherwise, or order its arguments otherwise? Say so here."""

import lab


def label(reply, answers):
    return lab.label(reply, answers)


def annotate(ask, documents, answers):
    return lab.annotate(ask, documents, answers)


def precision(labels, k):
    return lab.precision(labels, k)


def reciprocal_rank(labels):
    return lab.reciprocal_rank(labels)


def average_precision(labels):
    return lab.average_precision(labels)


def ndcg(labels):
    return lab.ndcg(labels)


def kendall(x, y):
    return lab.kendall(x, y)


def ceiling(x, y):
    return lab.ceiling(x, y)


def taus(questions, retriever, k, *labels_of):
    return lab.taus(questions, retriever, k, *labels_of)


def among_equals(groups, rng):
    return lab.among_equals(groups, rng)
