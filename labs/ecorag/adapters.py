"""The only place where the tests reach your functions. Call something otherwise, or order its arguments otherwise? Say so here."""

import lab


def belief(token_log_likelihood):
    return lab.belief(token_log_likelihood)


def lost(contexts):
    return lab.lost(contexts)


def evidentiality(closed_book, with_sentence, strong_with_sentence):
    return lab.evidentiality(closed_book, with_sentence, strong_with_sentence)


def label_counts(questions):
    return lab.label_counts(questions)


def info_nce(positive, negatives, temperature=1.0):
    return lab.info_nce(positive, negatives, temperature)


def compressor_loss(scores, labels, temperature=1.0):
    return lab.compressor_loss(scores, labels, temperature)


def numerical_gradient(function, x, h=1e-5):
    return lab.numerical_gradient(function, x, h)


def gradient(positive, negatives, temperature=1.0):
    return lab.gradient(positive, negatives, temperature)


def compress(sentences, scores, is_sufficient, step=4, limit=20):
    return lab.compress(sentences, scores, is_sufficient, step, limit)


def token_ratio(tokens, kept, whole):
    return lab.token_ratio(tokens, kept, whole)


def measured(questions, limit=20, threshold=0.5):
    return lab.measured(questions, limit, threshold)
