"""Steps 4 to 6: clusters of what means the same, the hard belief, and what a passage is worth."""

import adapters
import numpy as np
from check import expect

T, F = True, False
DEFINITION = "Definition 2 and eq. 4"


def test_cluster_of_two_that_agree():
    expect(
        adapters.cluster(np.array([[T, T, F], [T, T, F], [F, F, T]])),
        [0, 0, 1],
        asked="cluster of three samples, the first two mean the same",
        equation=DEFINITION,
        mistakes={
            "the ids begin at 0, not at 1": [1, 1, 2],
            "these are the first members. Number the clusters 0, 1, 2, ... as they begin": [0, 0, 2],
            "every sample got a cluster of its own: look at those that are there first": [0, 1, 2],
            "all went into one cluster": [0, 0, 0],
        },
    )


def test_cluster_needs_both_directions():
    expect(
        adapters.cluster(np.array([[T, T, F], [F, T, F], [T, F, T]])),
        [0, 1, 2],
        asked="cluster, where sample 0 entails 1 and sample 2 entails 0, and neither the other way round",
        equation=DEFINITION + ": x and y mean the same if x entails y AND y entails x",
        mistakes={
            "only whether the first member entails the sample was asked. Both directions count": [0, 0, 1],
            "only whether the sample entails the first member was asked. Both directions count": [0, 1, 0],
            "one direction was enough (or for and)": [0, 0, 0],
        },
    )


def test_cluster_compares_with_the_first_member():
    expect(
        adapters.cluster(np.array([[T, T, F], [T, T, T], [F, T, T]])),
        [0, 0, 1],
        asked="cluster, where 1 means the same as 0 and 2 the same as 1, but 2 not the same as 0",
        equation=DEFINITION + ", by the first member",
        mistakes={
            "transitive: 2 joined because it agrees with some member. Ask the first member only": [0, 0, 0],
            "the samples were taken from the last to the first": [1, 0, 0],
        },
    )


def test_cluster_looks_at_no_member_but_the_first():
    expect(
        adapters.cluster(np.array([[T, T, T], [T, T, F], [T, F, T]])),
        [0, 0, 0],
        asked="cluster, where 1 and 2 both mean the same as 0, but not the same as each other",
        equation=DEFINITION + ", by the first member",
        mistakes={
            "2 had to agree with every member. Eq. 4 reads so; here the first member decides": [0, 0, 1],
            "2 was compared with the sample before it, not with the first member": [0, 0, 2],
        },
    )


def test_cluster_moves_nobody_later():
    expect(
        adapters.cluster(np.array([[T, F, T], [F, T, T], [T, T, T]])),
        [0, 1, 0],
        asked="cluster, where 2 means the same as 0 and as 1, but 0 and 1 do not mean the same",
        equation=DEFINITION + ", the earliest cluster that fits",
        mistakes={
            "2 joined the latest cluster that fits or was moved there later, as in the authors' code": [0, 1, 1],
            "two clusters were joined because 2 agrees with both. The earliest takes it": [0, 0, 0],
            "2 fits two clusters and got a new one": [0, 1, 2],
        },
    )


def test_cluster_does_not_need_the_diagonal():
    expect(
        adapters.cluster(np.array([[F, T], [T, F]])),
        [0, 0],
        asked="cluster, where 0 and 1 mean the same and the diagonal is False",
        equation=DEFINITION + "; whether a sample entails itself is not asked",
        mistakes={"the diagonal was looked at": [0, 1]},
    )


def test_cluster_returns_an_array():
    clusters = adapters.cluster(np.array([[T, T, F], [T, T, F], [F, F, T]]))
    expect(
        None if clusters is None else (clusters == 0) + np.zeros(3),
        [1, 1, 0],
        asked="cluster(...) == 0, of three samples, the first two mean the same",
        equation="the docstring, (N,) int",
        mistakes={}
        if isinstance(clusters, np.ndarray)
        else {"a list is never == 0, so that a hard belief would be 0: return np.array(...)": [0, 0, 0]},
    )


def test_hard_of_one_answer():
    weights, clusters = np.array([0.3, 0.05, 0.1, 0.2, 0.05, 0.3]), np.array([0, 0, 1, 2, 1, 1])
    expect(
        adapters.hard(np.log(weights / 2), clusters, np.array([[F], [T], [F]])),
        0.45,
        asked="hard(samples that weigh 0.3, 0.05, 0.1, 0.2, 0.05, 0.3, in clusters 0, 0, 1, 2, 1, 1, of which 1 matches)",
        equation="eqs. 6 and 8, the weights of all samples of the matching cluster: 0.1 + 0.05 + 0.3",
        mistakes={
            "the number of samples in the cluster over N. Sum their weights": 0.5,
            "one matching cluster of three: clusters do not weigh alike": 1 / 3,
            "only the heaviest member of the cluster (max for sum)": 0.3,
            "only the first member of the cluster. It decides who joins; all members count": 0.1,
            "the mean of the members' weights. A cluster weighs as much as all its members together": 0.15,
            "1 as soon as a cluster matches: that is whether the answer came, not how much is believed": 1.0,
            "the likelihoods were not divided by their sum: use your sample_weights": 0.225,
            "the rows of matches were taken for samples; row k belongs to cluster k": 0.05,
        },
    )


def test_hard_of_two_answers():
    expect(
        adapters.hard(np.log([0.5, 0.25, 0.15, 0.1]), np.array([0, 1, 1, 2]), np.array([[T, T], [F, T], [T, F]])),
        0.75,
        asked="hard(clusters that weigh 0.5, 0.4, 0.1; 0 matches both answers, 1 the second, 2 the first)",
        equation="eq. 10, the mean of the beliefs in the two answers, 0.6 and 0.9",
        mistakes={
            "the larger of the two beliefs (max for mean). Eq. 10 is a mean over the answers": 0.9,
            "the clusters that match any answer. That is the authors' code; eq. 10 is a mean over the answers": 1.0,
            "the beliefs in the answers were summed: divide by the number of answers A": 1.5,
            "only the first answer was looked at": 0.6,
            "the clusters that match every answer": 0.5,
        },
    )


def test_utility_of_a_good_passage():
    expect(
        adapters.utility(0.9, 0.25),
        0.65,
        asked="utility(after=0.9, before=0.25)",
        equation="eq. 11, after minus before",
        mistakes={
            "the sign: before minus after": -0.65,
            "a ratio; eq. 11 is a difference": 3.6,
            "a difference of logarithms; eq. 11 subtracts the beliefs themselves": np.log(3.6),
            "relative to what was there before; eq. 11 is the plain difference": 2.6,
            "relative to what was missing before; eq. 11 is the plain difference": 0.65 / 0.75,
            "the belief before does not enter": 0.9,
        },
    )


def test_utility_of_a_passage_that_misleads():
    expect(
        adapters.utility(0.2, 0.5),
        -0.3,
        asked="utility(after=0.2, before=0.5)",
        equation="eq. 11, after minus before; a passage may mislead",
        mistakes={
            "cut off at 0: then a passage that misleads looks like one that says nothing": 0.0,
            "positive: an absolute value, or before minus after": 0.3,
        },
    )
