"""Wrong solutions that students hand in: (function, words that a failing test must say, the function as they write it)."""

from itertools import combinations

import lab
import numpy as np


def comparing(right):
    """A label by right(the reply, an answer), both normalized."""
    return lambda reply, answers: float(any(right(lab.normalize(reply), lab.normalize(a)) for a in answers))


def words_in_common(reply, answer):
    return bool(set(reply.split()) & set(answer.split()))


def as_sets(reply, answer):
    return set(reply.split()) == set(answer.split())


def as_they_stand(reply, answers):
    return float(reply in answers)


def only_the_reply(reply, answers):
    return float(lab.normalize(reply) in answers)


def only_the_answers(reply, answers):
    return float(reply in [lab.normalize(answer) for answer in answers])


def annotating(shown, *, label=lab.label):
    """An annotate that shows the reader shown(documents, place)."""

    def annotate(ask, documents, answers):
        return [label(ask(shown(documents, place)), answers) for place in range(len(documents))]

    return annotate


def per_distinct(ask, documents, answers):
    return [lab.label(ask([document]), answers) for document in dict.fromkeys(documents)]


def first_time_only(ask, documents, answers):
    labels = []
    for place, document in enumerate(documents):
        labels.append(0.0 if document in documents[:place] else lab.label(ask([document]), answers))
    return labels


def as_a_set(ask, documents, answers):
    labels = {document: lab.label(ask([document]), answers) for document in sorted(set(documents))}
    return [labels[document] for document in documents]


def as_a_dict(ask, documents, answers):
    return {document: lab.label(ask([document]), answers) for document in documents}


def replies(ask, documents, answers):
    return [ask([document]) for document in documents]


def mean_label(ask, documents, answers):
    return float(np.mean(lab.annotate(ask, documents, answers)))


def sorted_labels(ask, documents, answers):
    return sorted(lab.annotate(ask, documents, answers), reverse=True)


def from_zero(labels):
    places = np.flatnonzero(labels)
    return float(1 / places[0]) if len(places) else 0.0


def by_argmax(labels):
    return float(1 / (np.argmax(labels) + 1))


def infinite(labels):
    return float(np.divide(1.0, np.argmax(labels))) if not labels.any() else lab.reciprocal_rank(labels)


def precisions(labels):
    return np.cumsum(labels) / np.arange(1, len(labels) + 1)


def at_ones(labels, value):
    """The mean of value(rank, number of ones up to there) over the ones; 0.0 without any."""
    ranks = np.flatnonzero(labels) + 1
    values = [value(rank, number) for number, rank in enumerate(ranks, 1)]
    return float(np.mean(values)) if values else 0.0


def unguarded(labels):
    ranks = np.flatnonzero(labels) + 1
    return float(np.sum(np.arange(1, len(ranks) + 1) / ranks) / np.float64(len(ranks)))


def gain(labels, discount=lambda rank: 1 / np.log2(rank + 1)):
    return float(sum(label * discount(rank) for rank, label in enumerate(labels, 1)))


def normalised(discount, *, best=lambda labels: sorted(labels, reverse=True)):
    """An nDCG with another discount, or another best order."""

    def ndcg(labels):
        return gain(labels, discount) / gain(best(labels), discount) if np.any(labels) else 0.0

    return ndcg


def usual(rank):
    return 1 / np.log2(rank + 1)


def sorted_in_place(labels):
    value = lab.ndcg(labels)
    labels.sort()
    return value


def sorted_first(labels):
    return lab.ndcg(np.sort(labels)[::-1])


def not_guarded(labels):
    return np.float64(gain(labels)) / np.float64(gain(sorted(labels, reverse=True)))


def counts(x, y):
    """C, D, Tx, Ty, and the number of pairs tied in both."""
    c = d = tx = ty = both = 0
    for left, right in combinations(range(len(x)), 2):
        of_x, of_y = np.sign(x[left] - x[right]), np.sign(y[left] - y[right])
        c, d = c + (of_x * of_y > 0), d + (of_x * of_y < 0)
        tx, ty, both = tx + (of_x == 0 != of_y), ty + (of_y == 0 != of_x), both + (of_x == 0 == of_y)
    return np.array([c, d, tx, ty, both], dtype=float)


def of_counts(value):
    """A tau by value(C, D, Tx, Ty, tied in both)."""
    return lambda x, y: float(value(*counts(x, y)))


def below(c, d, tx, ty):
    return np.sqrt((c + d + tx) * (c + d + ty))


def with_itself(x, y):
    c, d, *_ = counts(x, y)
    return float(2 * (c - d) / len(x) ** 2)


def neighbours(x, y):
    signs = np.sign(np.diff(x)) * np.sign(np.diff(y))
    return float(signs.sum() / len(signs))


def pearson(x, y):
    return float(np.corrcoef(x, y)[0, 1])


def in_place(x, y):
    x.sort()
    y.sort()
    return lab.kendall(x, y)


def measuring(*, labelled=None, shown=None, labels_of=None, retriever=None, how=lab.kendall, depth=None):
    """A taus with one thing wrong.

    labelled : how many labels are measured in place of k; shown: what the reader sees of (list, k); depth: in place of k
    """

    def taus(questions, named, k, given=lab.by_reader):
        k, right, values = depth or k, [], []
        for question in questions:
            documents = question["lists"][retriever or named]
            own = shown(documents, k) if shown else documents[:k]
            right.append(lab.label(lab.recorded(question)(own), question["answers"]))
            measured = documents[: labelled or k]
            values.append(lab.measure((labels_of or given)(question, measured), labelled or k))
        return {name: how([value[name] for value in values], right) for name in lab.METRICS}

    return taus


def cumulative(question, documents):
    ask = lab.recorded(question)
    return [lab.label(ask(documents[: place + 1]), question["answers"]) for place in range(len(documents))]


def members(groups):
    places = {}
    for place, group in enumerate(groups):
        places.setdefault(group, []).append(place)
    return places


def shuffling(order):
    """An among_equals by order(places of a group, rng)."""

    def among_equals(groups, rng):
        chosen = np.arange(len(groups))
        for places in members(groups).values():
            chosen[places] = order(places, rng)
        return chosen

    return among_equals


def within_the_group(groups, rng):
    return shuffling(lambda places, rng: rng.permutation(len(places)))(groups, rng)


def joined(groups, rng):
    return np.concatenate([rng.permutation(places) for places in members(groups).values()])


def by_nobody(places, rng):
    """A random order in which nobody stays, of more than one."""
    order = rng.permutation(places)
    while len(places) > 1 and np.any(order == places):
        order = rng.permutation(places)
    return order


def seeded(groups, rng):
    return lab.among_equals(groups, np.random.default_rng(0))


def unseeded(groups, rng):
    return lab.among_equals(groups, np.random.default_rng())


def shuffled_itself(groups, rng):
    chosen = lab.among_equals(groups, rng)
    groups.sort()
    return chosen


def by(kind, order=list):
    """An among_equals whose groups are those with the same kind(key), taken in an order of their own."""

    def among_equals(groups, rng):
        kinds = [kind(group) for group in groups]
        chosen = np.arange(len(groups))
        for one in order(dict.fromkeys(kinds)):
            places = [place for place, other in enumerate(kinds) if other == one]
            chosen[places] = rng.permutation(places)
        return chosen

    return among_equals


def without_singles(groups, rng):
    return np.array([each for each in lab.among_equals(groups, rng) if groups.count(groups[each]) > 1])


MISTAKES = [
    ("label", "the texts were compared as they stand", as_they_stand),
    ("label", "only the reply was normalized", only_the_reply),
    ("label", "only the answers were normalized", only_the_answers),
    ("label", "the answer was looked for inside the reply", comparing(lambda reply, answer: answer in reply)),
    ("label", "the reply was looked for inside the answer", comparing(lambda reply, answer: reply in answer)),
    ("label", "the words were compared as sets", comparing(as_sets)),
    ("label", "a word in common was enough", comparing(words_in_common)),
    ("label", "only the first answer", lambda reply, answers: lab.label(reply, answers[:1])),
    ("label", "mean for max", lambda reply, answers: float(np.mean([lab.label(reply, [each]) for each in answers]))),
    ("label", "all for any", lambda reply, answers: float(all(lab.label(reply, [each]) for each in answers))),
    ("label", "1 is for a right reply", lambda *given: 1 - lab.label(*given)),
    ("annotate", "the whole list was shown, or its beginning", annotating(lambda documents, place: documents)),
    ("annotate", "all documents up to this one", annotating(lambda documents, place: documents[: place + 1])),
    ("annotate", "the text itself was handed over", annotating(lambda documents, place: documents[place])),
    ("annotate", "a document that comes twice has its label twice", per_distinct),
    ("annotate", "the second time a document was taken for wrong", first_time_only),
    ("annotate", "asked anew each time it comes", annotating(lambda documents, place: [documents[place]])),
    ("annotate", "or a set: ask in the order of the list", as_a_set),
    ("annotate", "a dict; the labels are wanted", as_a_dict),
    ("annotate", "these are the replies", replies),
    ("annotate", "the mean for the list", mean_label),
    ("annotate", "the labels were sorted;", sorted_labels),
    (
        "annotate",
        "use your `label`",
        annotating(lambda documents, place: [documents[place]], label=as_they_stand),
    ),
    ("precision", "divided by the length of the list", lambda labels, k: float(np.sum(labels[:k]) / len(labels))),
    ("precision", "the mean of all labels", lambda labels, k: float(np.mean(labels))),
    ("precision", "all labels were summed", lambda labels, k: float(np.sum(labels) / k)),
    ("precision", "a count; divide it by k", lambda labels, k: float(np.sum(labels[:k]))),
    ("precision", "the label at rank k is missing", lambda labels, k: float(np.sum(labels[: k - 1]) / k)),
    ("precision", "one label too many", lambda labels, k: float(np.sum(labels[: k + 1]) / k)),
    ("precision", "that is recall", lambda labels, k: float(np.sum(labels[:k]) / np.sum(labels))),
    ("precision", "the three labels that are there", lambda labels, k: float(np.mean(labels[:k]))),
    ("reciprocal_rank", "Python counts from 0", from_zero),
    ("reciprocal_rank", "this is the rank: take 1 over it", lambda labels: float(np.argmax(labels) + 1)),
    ("reciprocal_rank", "the last label of 1 was taken", lambda labels: float(1 / (np.flatnonzero([1, *labels])[-1]))),
    ("reciprocal_rank", "so was taken for a hit", by_argmax),
    ("reciprocal_rank", "1 / 0 is infinite", infinite),
    ("reciprocal_rank", "the mean over all labels of 1", lambda labels: at_ones(labels, lambda r, i: 1 / r)),
    (
        "average_precision",
        "divided by the length",
        lambda labels: float(np.sum(precisions(labels) * labels) / len(labels)),
    ),
    ("average_precision", "averaged over all ranks", lambda labels: float(np.mean(precisions(labels)))),
    ("average_precision", "counted as 1 / rank", lambda labels: at_ones(labels, lambda r, i: 1 / r)),
    ("average_precision", "the label at the rank itself", lambda labels: at_ones(labels, lambda r, i: (i - 1) / r)),
    ("average_precision", "here from 2", lambda labels: at_ones(labels, lambda r, i: i / (r + 1))),
    ("average_precision", "a sum: divide", lambda labels: float(np.sum(precisions(labels) * labels))),
    ("average_precision", "the precision of the whole list", lambda labels: float(np.mean(labels))),
    ("average_precision", "the list was sorted", lambda labels: float(np.any(labels))),
    ("average_precision", "read from its end", lambda labels: lab.average_precision(labels[::-1])),
    ("average_precision", "the mean of nothing is NaN", unguarded),
    ("ndcg", "this is DCG", gain),
    ("ndcg", "as if all labels were 1", normalised(usual, best=np.ones_like)),
    ("ndcg", "divided by the number of labels", lambda labels: gain(labels) / max(1, np.sum(labels))),
    ("ndcg", "the discount is 1 / rank", normalised(lambda rank: 1 / rank)),
    ("ndcg", "with rank 1 not discounted", normalised(lambda rank: 1 / max(1, np.log2(rank)))),
    ("ndcg", "was 2 added to a rank", normalised(lambda rank: 1 / np.log2(rank + 2))),
    ("ndcg", "sort downwards", normalised(usual, best=sorted)),
    ("ndcg", "sorted to the front before the sum", sorted_first),
    ("ndcg", "the labels were sorted in place: sort a copy", sorted_in_place),
    ("ndcg", "0/0: the best order", not_guarded),
    ("ndcg", "no discount", lambda labels: float(np.mean(labels))),
    ("kendall", "tau counts pairs", pearson),
    ("kendall", "the share of pairs that are ordered alike", of_counts(lambda c, d, tx, ty, both: c / (c + d))),
    ("kendall", "the sign: C minus D", of_counts(lambda c, d, tx, ty, both: (d - c) / below(c, d, tx, ty))),
    ("kendall", "the root is missing", of_counts(lambda c, d, tx, ty, both: (c - d) / below(c, d, tx, ty) ** 2)),
    ("kendall", "twice above the line", of_counts(lambda c, d, tx, ty, both: 2 * (c - d) / below(c, d, tx, ty))),
    ("kendall", "twice below the line", of_counts(lambda c, d, tx, ty, both: (c - d) / 2 / below(c, d, tx, ty))),
    ("kendall", "paired with itself", with_itself),
    ("kendall", "only neighbours were paired", neighbours),
    ("kendall", "which is gamma", of_counts(lambda c, d, tx, ty, both: (c - d) / (c + d))),
    ("kendall", "which is tau-a", of_counts(lambda c, d, tx, ty, both: (c - d) / (c + d + tx + ty + both))),
    (
        "kendall",
        "counted as ordered oppositely",
        of_counts(lambda c, d, tx, ty, both: (c - d - ty) / (c + d + tx + ty)),
    ),
    ("kendall", "<= for <", of_counts(lambda c, d, tx, ty, both: (c - d + tx + ty) / (c + d + tx + ty))),
    ("kendall", "is in Tx and Ty", of_counts(lambda c, d, tx, ty, both: (c - d) / below(c, d, tx + both, ty + both))),
    ("kendall", "tied in both is in Tx;", of_counts(lambda c, d, tx, ty, both: (c - d) / below(c, d, tx + both, ty))),
    ("kendall", "tied in both is in Ty;", of_counts(lambda c, d, tx, ty, both: (c - d) / below(c, d, tx, ty + both))),
    ("kendall", "Tx is missing", of_counts(lambda c, d, tx, ty, both: (c - d) / below(c, d, 0, ty))),
    ("kendall", "Ty is missing", of_counts(lambda c, d, tx, ty, both: (c - d) / below(c, d, tx, 0))),
    ("kendall", "an absolute value", lambda x, y: abs(lab.kendall(x, y))),
    ("ceiling", "this is tau as they stand", lab.kendall),
    ("ceiling", "two questions tied in y differ in x", lambda x, y: 1.0),
    ("ceiling", "paired with the largest", lambda x, y: lab.kendall(sorted(x), sorted(y, reverse=True))),
    ("ceiling", "only x was sorted: sort both", lambda x, y: lab.kendall(sorted(x), y)),
    ("ceiling", "both were sorted in place", in_place),
    ("taus", "but ten labels were measured", measuring(labelled=10)),
    ("taus", "but the reader saw ten passages", measuring(shown=lambda documents, k: documents)),
    ("taus", "the reader saw the first passage alone", measuring(shown=lambda documents, k: documents[:1])),
    ("taus", "the reader saw the k-th passage alone", measuring(shown=lambda documents, k: documents[:k][-1:])),
    ("taus", "k was not used", measuring(depth=10)),
    ("taus", "these are the dense lists", measuring(retriever="dense")),
    ("taus", "these are the lists of BM25", measuring(retriever="BM25")),
    ("taus", "each label is of the list up to it", measuring(labels_of=cumulative)),
    ("taus", "`labels_of` was not used", measuring(labels_of=lab.by_reader)),
    ("taus", "Pearson's correlation: use", measuring(how=pearson)),
    ("among_equals", "(with replacement)", shuffling(lambda places, rng: rng.choice(places, len(places)))),
    ("among_equals", "these are places within the group", within_the_group),
    ("among_equals", "the labels of the first of the group", shuffling(lambda places, rng: places[0])),
    ("among_equals", "a group of one was left out", without_singles),
    ("among_equals", "labels came from other groups", lambda groups, rng: rng.permutation(len(groups))),
    ("among_equals", "shuffle within each group only", by(hash)),
    ("among_equals", "group after group was joined", joined),
    ("among_equals", "the same order each time", seeded),
    ("among_equals", "with the same seed other orders came", unseeded),
    ("among_equals", "the groups come from a set", by(lambda group: group, set)),
    ("among_equals", "nobody was given their own labels", shuffling(by_nobody)),
    ("among_equals", "moved round", shuffling(lambda places, rng: np.roll(places, rng.integers(len(places))))),
    ("among_equals", "the list that was handed in", shuffled_itself),
]
