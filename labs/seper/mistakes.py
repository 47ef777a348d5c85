"""Wrong solutions that students hand in: (function, words that a failing test must say, the function as they write it)."""

from itertools import pairwise
from math import comb

import lab
import numpy as np


def loss(tokens):
    return -float(np.sum(tokens))


def softmax_of_probabilities(log_likelihood):
    p = np.exp(np.exp(log_likelihood))
    return p / p.sum()


def underflowing(log_likelihood):
    p = np.exp(log_likelihood)
    return p / p.sum()


def less(number):
    """`sample_weights` that subtracts number(log-likelihoods) before exp."""

    def weights(log_likelihood):
        p = np.exp(log_likelihood - number(log_likelihood))
        return p / p.sum()

    return weights


def guarded(log_likelihood):
    p = np.exp(log_likelihood)
    return p / (p.sum() + 1e-300)


def one_hot(log_likelihood):
    return np.eye(len(log_likelihood))[np.argmax(log_likelihood)]


def upside_down(log_likelihood):
    return lab.sample_weights(-np.asarray(log_likelihood))


def cut(log_likelihood, kernel):
    return lab.soft(log_likelihood, np.asarray(kernel) >= 0.5)


def largest_belief(log_likelihood, kernel):
    return float(np.max(lab.sample_weights(log_likelihood) @ kernel))


def summed_beliefs(log_likelihood, kernel):
    return float(np.sum(lab.sample_weights(log_likelihood) @ kernel))


def mixed_up(log_likelihood, kernel):
    n, a = np.shape(kernel)
    return float(np.mean(lab.sample_weights(log_likelihood) @ np.reshape(kernel, (a, n)).T))


def divided_again(log_likelihood, kernel):
    return float(np.mean(lab.sample_weights(log_likelihood)[:, None] * kernel))


def not_normalised(log_likelihood, kernel):
    return float(np.mean(np.exp(log_likelihood) @ kernel))


def clustering(joins, *, latest=False, start=0):
    """A greedy clustering; joins(entails, sample, members) says whether a sample joins a cluster."""

    def cluster(entails):
        clusters, ids = [], []
        for sample in range(len(entails)):
            fitting = [number for number, members in enumerate(clusters) if joins(entails, sample, members)]
            number = (fitting[-1] if latest else fitting[0]) if fitting else len(clusters)
            if number == len(clusters):
                clusters.append([])
            clusters[number].append(sample)
            ids.append(number + start)
        return np.array(ids)

    return cluster


def both(entails, x, y):
    return entails[x, y] and entails[y, x]


def stolen(entails):
    ids = np.full(len(entails), -1)
    for sample in range(len(entails)):
        if ids[sample] < 0:
            ids[sample] = ids.max() + 1
            for later in range(sample + 1, len(entails)):
                if both(entails, sample, later):
                    ids[later] = ids[sample]
    return ids


def first_members(entails):
    ids = lab.cluster(entails)
    _, firsts = np.unique(ids, return_index=True)
    return firsts[ids]


def by_cluster(of_members):
    """A hard score in which a cluster weighs of_members(the weights of its members, N, K)."""

    def hard(log_likelihood, clusters, matches):
        weights, k = lab.sample_weights(log_likelihood), len(matches)
        of_clusters = [of_members(weights[np.asarray(clusters) == number], len(weights), k) for number in range(k)]
        return float(np.mean(np.array(of_clusters) @ np.asarray(matches, dtype=float)))

    return hard


def any_answer(log_likelihood, clusters, matches):
    return lab.hard(log_likelihood, clusters, np.any(matches, axis=1, keepdims=True))


def by_row(log_likelihood, clusters, matches):
    return float(np.mean(lab.sample_weights(log_likelihood)[: len(matches)] @ np.asarray(matches, dtype=float)))


def beliefs(contexts, *, of_tokens=np.sum, measure=lab.soft):
    return {
        context["name"]: measure([of_tokens(tokens) for tokens in context["token_log_likelihood"]], context["kernel"])
        for context in contexts
    }


def without_before(contexts):
    values = beliefs(contexts)
    values.pop(lab.CLOSED)
    return values


def in_place(contexts):
    values = beliefs(contexts)
    for name in values:
        values[name] -= values[lab.CLOSED]
    return values


def against(contexts, **how):
    values = beliefs(contexts, **how)
    before = values.pop(lab.CLOSED)
    return {name: after - before for name, after in values.items()}


def first_is_closed(contexts, measure=lab.soft):
    renamed = [contexts[0] | {"name": lab.CLOSED}, *contexts[1:]]
    return lab.worths(renamed, measure)


def step_by_step(contexts):
    values = list(beliefs(contexts).items())
    return {name: after - before for (_, before), (name, after) in pairwise(values)}


def expectation(belief, *, ways=comb, more=1):
    """An expectation over k of belief(k, n, p)."""

    def expected_belief(p, n):
        return sum(ways(n, k) * p**k * (1 - p) ** (n - k) * belief(k, n, p) for k in range(n + more))

    return expected_belief


def right_belief(k, n, p):
    return k * p / (k * p + (n - k) * (1 - p))


def at_the_mean(p, n):
    return right_belief(n * p, n, p)


def correlated(values, *, drop=lab.known, how=np.corrcoef):
    """An agreement of values(contexts) with the marks."""

    def agreement(questions):
        kept = [question["contexts"] for question in questions if not drop(question["contexts"])]
        pairs = [(value, name == lab.GOLD) for contexts in kept for name, value in values(contexts).items()]
        return float(how(*np.array(pairs, dtype=float).T)[0, 1])

    return agreement


def ranks(values, marks):
    def ranked(x):
        return [np.mean((x < value) + ((x <= value) - 0.0)) for value in x]

    return np.corrcoef(ranked(values), ranked(marks))


def per_question(questions):
    kept = [question for question in questions if not lab.known(question["contexts"])]
    return float(np.mean([correlated(lab.worths, drop=lambda _: False)([question]) for question in kept]))


MISTAKES = [
    ("reply_log_likelihood", "the mean over the tokens", lambda tokens: float(np.mean(tokens))),
    ("reply_log_likelihood", "the logarithms were multiplied", lambda tokens: float(np.prod(tokens))),
    ("reply_log_likelihood", "no exp here", lambda tokens: float(np.exp(np.sum(tokens)))),
    ("reply_log_likelihood", "the sign", loss),
    ("reply_log_likelihood", "the first token is missing", lambda tokens: float(np.sum(tokens[1:]))),
    ("sample_weights", "every sample got 1/N", lambda values: np.full(len(values), 1 / len(values))),
    ("sample_weights", "the softmax was taken over probabilities", softmax_of_probabilities),
    ("sample_weights", "take exp first", lambda values: np.asarray(values) / np.sum(values)),
    ("sample_weights", "not yet divided by their sum", np.exp),
    ("sample_weights", "the least likely sample weighs most", upside_down),
    ("sample_weights", "all the weight went to the likeliest sample", one_hot),
    ("sample_weights", "0/0: exp(-1000) is 0", underflowing),
    ("sample_weights", "and something was added to it", guarded),
    ("sample_weights", "the first or the least was subtracted", less(lambda values: values[0])),
    ("sample_weights", "the mean was subtracted", less(np.mean)),
    ("soft", "the plain mean of the kernel", lambda log_likelihood, kernel: float(np.mean(kernel))),
    ("soft", "the kernel was cut at 0.5", cut),
    ("soft", "the larger of the two beliefs", largest_belief),
    ("soft", "the beliefs in the answers were summed", summed_beliefs),
    ("soft", "mixed up by a reshape", mixed_up),
    ("soft", "divided by N once more", divided_again),
    ("soft", "the likelihoods were not divided by their sum", not_normalised),
    ("cluster", "the ids begin at 0", clustering(lambda e, x, members: both(e, x, members[0]), start=1)),
    ("cluster", "only whether the first member entails the sample", clustering(lambda e, x, m: e[m[0], x])),
    ("cluster", "only whether the sample entails the first member", clustering(lambda e, x, m: e[x, m[0]])),
    ("cluster", "one direction was enough", clustering(lambda e, x, m: e[x, m[0]] or e[m[0], x])),
    ("cluster", "transitive", clustering(lambda e, x, members: any(both(e, x, member) for member in members))),
    ("cluster", "agree with every member", clustering(lambda e, x, members: all(both(e, x, y) for y in members))),
    ("cluster", "joined the latest cluster", clustering(lambda e, x, m: both(e, x, m[0]), latest=True)),
    ("cluster", "was moved there later", stolen),
    ("cluster", "these are the first members", first_members),
    ("cluster", "a list is never == 0", lambda entails: lab.cluster(entails).tolist()),
    ("hard", "the number of samples in the cluster over N", by_cluster(lambda own, n, k: len(own) / n)),
    ("hard", "clusters do not weigh alike", by_cluster(lambda own, n, k: 1 / k)),
    ("hard", "max for sum", by_cluster(lambda own, n, k: own.max())),
    ("hard", "the mean of the members' weights", by_cluster(lambda own, n, k: own.mean())),
    ("hard", "the clusters that match any answer", any_answer),
    ("hard", "row k belongs to cluster k", by_row),
    ("utility", "the sign: before minus after", lambda after, before: before - after),
    ("utility", "a ratio", lambda after, before: after / before),
    ("utility", "a difference of logarithms", lambda after, before: np.log(after / before)),
    ("utility", "an absolute value", lambda after, before: abs(after - before)),
    ("utility", "cut off at 0", lambda after, before: max(0.0, after - before)),
    ("worths", "without subtracting the one before it", without_before),
    ("worths", "keep it apart", in_place),
    ("worths", "leave it out", lambda contexts: {lab.CLOSED: 0.0} | against(contexts)),
    ("worths", "the mean over a reply's tokens", lambda contexts: against(contexts, of_tokens=np.mean)),
    ("worths", "That is `shares`", lambda contexts: against(contexts, measure=lab.shares)),
    ("worths", "compared with the one before it in the list", step_by_step),
    ("worths", "soft was called by its name", lambda contexts, measure=None: lab.worths(contexts)),
    ("worths", "not always the first", first_is_closed),
    ("expected_belief", "the share of right samples k/n", expectation(lambda k, n, p: k / n)),
    ("expected_belief", "the number of ways is missing", expectation(right_belief, ways=lambda n, k: 1)),
    ("expected_belief", "range(n) ends at n - 1", expectation(right_belief, more=0)),
    ("expected_belief", "the belief at the expected number", at_the_mean),
    ("agreement", "`known` says which", correlated(lab.worths, drop=lambda contexts: False)),
    ("agreement", "the others left out", correlated(lab.worths, drop=lambda contexts: not lab.known(contexts))),
    ("agreement", "not what the passage changes", correlated(without_before)),
    ("agreement", "ranks were correlated", correlated(lab.worths, how=ranks)),
    ("agreement", "this is a covariance", correlated(lab.worths, how=np.cov)),
    ("agreement", "a correlation per question", per_question),
    ("agreement", "not handed on to worths", lambda questions, measure=None: lab.agreement(questions)),
]
