"""The only place where the tests reach your functions. Call something otherwise, or order its arguments otherwise? Say so here."""

import lab


def reply_log_likelihood(token_log_likelihood):
    return lab.reply_log_likelihood(token_log_likelihood)


def sample_weights(log_likelihood):
    return lab.sample_weights(log_likelihood)


def soft(log_likelihood, kernel):
    return lab.soft(log_likelihood, kernel)


def cluster(entails):
    return lab.cluster(entails)


def hard(log_likelihood, clusters, matches):
    return lab.hard(log_likelihood, clusters, matches)


def utility(after, before):
    return lab.utility(after, before)


def worths(contexts, **measure):
    return lab.worths(contexts, **measure)


def expected_belief(p, n):
    return lab.expected_belief(p, n)


def agreement(questions, **measure):
    return lab.agreement(questions, **measure)
