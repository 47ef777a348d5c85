"""The only place where the tests reach your functions. Call something otherwise, or order its arguments otherwise? Say so here."""

import lab


def edits(chunks, other_words):
    return lab.edits(chunks, other_words)


def adjacency(entails):
    return lab.adjacency(entails)


def degree_entropy(links):
    return lab.degree_entropy(links)


def moves_allowed(k, threshold=0.2):
    return lab.moves_allowed(k, threshold)


def entropies(questions):
    return lab.entropies(questions)


def auroc(uncertainty, right):
    return lab.auroc(uncertainty, right)


def split(uncertainty, right, threshold=0.2):
    return lab.split(uncertainty, right, threshold)


def measured(questions, threshold=0.2):
    return lab.measured(questions, threshold)


def roles(links, agrees_without):
    return lab.roles(links, agrees_without)


def next_context(context, of_chunks, cosines, seen):
    return lab.next_context(context, of_chunks, cosines, seen)
