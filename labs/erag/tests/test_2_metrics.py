"""Steps 3 to 5: precision, reciprocal rank, average precision and nDCG of a list of labels."""

import adapters
import numpy as np
from check import expect

NAN, INF = np.nan, np.inf


def array(*labels):
    return np.array(labels, dtype=float)


def d(rank):
    """The discount of a rank."""
    return 1 / np.log2(rank + 1)


def test_precision_by_hand():
    expect(
        adapters.precision(array(0, 1, 1, 1, 0, 0, 1), 3),
        2 / 3,
        asked="precision([0, 1, 1, 1, 0, 0, 1], k=3)",
        equation="section 2, P@k: labels of 1 among the first k, over k, 2 / 3",
        mistakes={
            "divided by the length of the list, not by k": 2 / 7,
            "k was not used: this is the mean of all labels": 4 / 7,
            "all labels were summed: take the first k": 4 / 3,
            "a count; divide it by k": 2.0,
            "the label at rank k is missing: labels[:k] are the first k": 1 / 3,
            "one label too many: labels[:k] are the first k": 3 / 3,
            "divided by the number of all labels of 1: that is recall": 2 / 4,
        },
    )


def test_precision_of_a_short_list():
    expect(
        adapters.precision(array(1, 0, 1), 10),
        0.2,
        asked="precision([1, 0, 1], k=10)",
        equation="section 2, P@k, the docstring: a shorter list goes on with labels of 0, 2 / 10",
        mistakes={
            "the mean of the three labels that are there: divide by k": 2 / 3,
            "nothing was counted, as the list is shorter than k": 0.0,
        },
    )


def test_reciprocal_rank_by_hand():
    expect(
        adapters.reciprocal_rank(array(0, 0, 1, 0, 1)),
        1 / 3,
        asked="reciprocal_rank([0, 0, 1, 0, 1])",
        equation="section 2, MRR of one list: 1 over the rank of the first label of 1, 1 / 3",
        mistakes={
            "ranks are counted from 1, Python counts from 0": 1 / 2,
            "ranks are counted from 1; one was added too often": 1 / 4,
            "this is the rank: take 1 over it": 3.0,
            "this is the place of the first, counted from 0: take 1 over its rank": 2.0,
            "the last label of 1 was taken": 1 / 5,
            "the mean over all labels of 1; only the first counts": (1 / 3 + 1 / 5) / 2,
            "the sum over all labels of 1; only the first counts": 1 / 3 + 1 / 5,
            "the mean over all ranks; only the first label of 1 counts": (1 / 3 + 1 / 5) / 5,
        },
    )


def test_reciprocal_rank_without_a_label_of_1():
    with np.errstate(all="ignore"):
        came = adapters.reciprocal_rank(array(0, 0, 0))
    expect(
        came,
        0.0,
        asked="reciprocal_rank([0, 0, 0])",
        equation="section 2, MRR of one list: 0 if no label is 1",
        mistakes={
            "np.argmax of a list of zeros is 0, and so was taken for a hit at rank 1": 1.0,
            "np.argmax of a list of zeros is 0, and 1 / 0 is infinite": INF,
            "the rank after the last was taken; there is no hit": 1 / 4,
            "the last rank was taken; there is no hit": 1 / 3,
            "NaN would make the mean over questions NaN: return 0.0": NAN,
        },
    )


def test_average_precision_by_hand():
    expect(
        adapters.average_precision(array(1, 0, 1, 1, 0)),
        (1 + 2 / 3 + 3 / 4) / 3,
        asked="average_precision([1, 0, 1, 1, 0])",
        equation="section 2, MAP of one list: P@1, P@3 and P@4, averaged: (1 + 2/3 + 3/4) / 3",
        mistakes={
            "divided by the length of the list: divide by the number of labels of 1": (1 + 2 / 3 + 3 / 4) / 5,
            "averaged over all ranks: only those with a label of 1 count": (1 + 1 / 2 + 2 / 3 + 3 / 4 + 3 / 5) / 5,
            "each rank of a 1 counted as 1 / rank: how many are 1 up to there?": (1 + 1 / 3 + 1 / 4) / 3,
            "a sum: divide by the number of labels of 1": 1 + 2 / 3 + 3 / 4,
            "the label at the rank itself is missing: labels[:rank] ends at it": (0 + 1 / 3 + 2 / 4) / 3,
            "only the precision at the last label of 1": 3 / 4,
            "this is the precision of the whole list": 3 / 5,
            "ranks are counted from 1; here from 2": (1 / 2 + 2 / 4 + 3 / 5) / 3,
            "the best precision (max for mean)": 1.0,
        },
    )


def test_average_precision_that_begins_late():
    expect(
        adapters.average_precision(array(0, 0, 1, 0, 1)),
        (1 / 3 + 2 / 5) / 2,
        asked="average_precision([0, 0, 1, 0, 1])",
        equation="section 2, MAP of one list: P@3 and P@5, averaged: (1/3 + 2/5) / 2",
        mistakes={
            "the order was not looked at, or the list was sorted: the two stand at ranks 3 and 5": 1.0,
            "the list was read from its end: best first": (1 + 2 / 3) / 2,
            "divided by the length of the list: divide by the number of labels of 1": (1 / 3 + 2 / 5) / 5,
            "ranks were counted from 0": (1 / 2 + 2 / 4) / 2,
        },
    )


def test_average_precision_without_a_label_of_1():
    with np.errstate(all="ignore"):
        came = adapters.average_precision(array(0, 0, 0))
    expect(
        came,
        0.0,
        asked="average_precision([0, 0, 0])",
        equation="section 2, MAP of one list: 0 if no label is 1",
        mistakes={"the mean of nothing is NaN: look whether there are any": NAN, "1 for nothing to find": 1.0},
    )


def test_ndcg_by_hand():
    came, best = d(2) + d(4), d(1) + d(2)
    expect(
        adapters.ndcg(array(0, 1, 0, 1, 0)),
        came / best,
        asked="ndcg([0, 1, 0, 1, 0])",
        equation="section 2, NDCG: (1/log2(3) + 1/log2(5)) / (1/log2(2) + 1/log2(3))",
        mistakes={
            "this is DCG: divide by what the same labels would give, ones first": came,
            "divided by the discounts of all ranks, as if all labels were 1": came / sum(map(d, range(1, 6))),
            "divided by the number of labels of 1": came / 2,
            "divided by the length of the list": came / 5,
            "the discount is 1 / rank; nDCG has 1 / log2(rank + 1)": (1 / 2 + 1 / 4) / (1 + 1 / 2),
            "log2(rank), with rank 1 not discounted: nDCG has log2(rank + 1)": (1 + 1 / 2) / (1 + 1),
            "log2(rank + 2): was 2 added to a rank that begins at 1?": (d(3) + d(5)) / (d(2) + d(3)),
            "the best order has the ones first: sort downwards": came / (d(4) + d(5)),
            "the ones were sorted to the front before the sum": 1.0,
            "upside down: divide by the best order": best / came,
            "no discount: early is better": 0.4,
        },
    )


def test_ndcg_leaves_the_labels_alone():
    labels = array(0, 1, 1, 0)
    came = adapters.ndcg(labels)
    expect(
        None if came is None else labels,
        [0, 1, 1, 0],
        asked="labels after ndcg(labels = [0, 1, 1, 0])",
        equation="section 2, NDCG, the docstring; whoever called needs the order again",
        mistakes={
            "the labels were sorted in place: sort a copy, `sorted(labels)`": [0, 0, 1, 1],
            "the labels were sorted in place, ones first: sort a copy, `sorted(labels)`": [1, 1, 0, 0],
            "the labels were changed in place into their discounted values": [0, d(2), d(3), 0],
        },
    )


def test_ndcg_without_a_label_of_1():
    with np.errstate(all="ignore"):
        came = adapters.ndcg(array(0, 0, 0))
    expect(
        came,
        0.0,
        asked="ndcg([0, 0, 0])",
        equation="section 2, NDCG: 0 if no label is 1",
        mistakes={"0/0: the best order of no ones is 0 too": NAN, "1, as no order would be better": 1.0},
    )
