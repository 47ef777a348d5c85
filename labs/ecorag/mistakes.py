"""Wrong solutions that students hand in: (function, words that a failing test must say, the function as they write it)."""

import lab
import numpy as np


def beliefs(contexts, belief=lab.belief):
    return {context["name"]: belief(context["token_log_likelihood"]) for context in contexts}


def losing(value, *, keep=False, belief=lab.belief):
    """A `lost` whose values are value(the sentence's belief, the context's)."""

    def lost(contexts):
        every = beliefs(contexts, belief)
        best = every[lab.ALONE] if keep else every.pop(lab.ALONE)
        return {name: value(best, other) for name, other in every.items()}

    return lost


def against_the_first(contexts):
    every = beliefs(contexts)
    best = every.pop(contexts[0]["name"])
    return {name: best - other for name, other in every.items()}


def without_closed_book(closed_book, with_sentence, strong_with_sentence):
    return lab.evidentiality(False, with_sentence, strong_with_sentence)


def helpful_twice(closed_book, with_sentence, strong_with_sentence):
    if with_sentence and not closed_book and strong_with_sentence is not False:
        return "strong"
    return lab.evidentiality(closed_book, False, strong_with_sentence)


def exchanged(closed_book, with_sentence, strong_with_sentence):
    label = lab.evidentiality(closed_book, with_sentence, strong_with_sentence)
    return {"weak": "distractor", "distractor": "weak"}.get(label, label)


def breaking_is_a_distractor(closed_book, with_sentence, strong_with_sentence):
    if closed_book and with_sentence is False:
        return "distractor"
    return lab.evidentiality(closed_book, with_sentence, strong_with_sentence)


def idle_is_a_distractor(closed_book, with_sentence, strong_with_sentence):
    label = lab.evidentiality(closed_book, with_sentence, strong_with_sentence)
    return "distractor" if label == "weak" else label


def none_is(value):
    return lambda closed, alone, beside: lab.evidentiality(closed, alone, value if beside is None else beside)


def undefined_first(closed_book, with_sentence, strong_with_sentence):
    if strong_with_sentence is None:
        return "undefined"
    return lab.evidentiality(closed_book, with_sentence, strong_with_sentence)


def counted(questions, evidentiality=lab.evidentiality):
    return [
        [
            evidentiality(question["closed"], *answers)
            for answers in zip(question["alone"], question["beside"], strict=True)
        ]
        for question in questions
    ]


def both_swapped(questions):
    return lab.label_counts([row | {"alone": row["beside"], "beside": row["alone"]} for row in questions])


def harmless_if_known(closed_book, with_sentence, strong_with_sentence):
    if closed_book and with_sentence:
        return "weak"
    return lab.evidentiality(closed_book, with_sentence, strong_with_sentence)


def totals(labels):
    return {label: sum(own.count(label) for own in labels) for label in lab.LABELS}


def only_what_occurs(questions):
    return {label: count for label, count in lab.label_counts(questions).items() if count}


def questions_with(questions):
    return {label: sum(label in own for own in counted(questions)) for label in lab.LABELS}


def unknown_only(questions):
    return lab.label_counts([question for question in questions if not question["closed"]])


def logits(positive, negatives, temperature=1.0):
    return np.array([positive, *negatives]) / temperature


def nce(positive, negatives, temperature=1.0, *, log=np.log, below=np.sum, sign=-1):
    weights = np.exp(logits(positive, negatives, temperature))
    return sign * log(weights[0] / below(weights))


def no_positive_below(positive, negatives, temperature=1.0):
    weights = np.exp(logits(positive, negatives, temperature))
    return -np.log(weights[0] / weights[1:].sum())


def pairwise(positive, negatives, temperature=1.0):
    return sum(lab.info_nce(positive, [negative], temperature) for negative in negatives)


def mean_of_negatives(positive, negatives, temperature=1.0):
    weights = np.exp(logits(positive, negatives, temperature))
    return -np.log(weights[0] / (weights[0] + weights[1:].mean()))


def added_inside(positive, negatives, temperature=1.0):
    values = logits(positive, negatives, temperature)
    weights = np.exp(values - values.max())
    return -np.log(weights[0] / weights.sum() + 1e-12)


def added_to_each(positive, negatives, temperature=1.0):
    values = (np.array([positive]) + negatives) / temperature
    return float(values.max() + np.log(np.sum(np.exp(values - values.max()))) - values[0])


def above(number, *, again=True):
    """An `info_nce` that subtracts number(similarities) before exp, and adds it again or not."""

    def info_nce(positive, negatives, temperature=1.0):
        values = logits(positive, negatives, temperature)
        top = number(values)
        return float(again * top + np.log(np.sum(np.exp(values - top))) - values[0])

    return info_nce


def losses(
    scores, labels, temperature=1.0, *, of=np.mean, strong=("weak", "distractor"), weak=("distractor",), itself=True
):
    """The two parts of a compressor loss; `strong` and `weak` are the labels of their negatives."""
    scores, labels, parts = np.asarray(scores, dtype=float), np.asarray(labels), []
    for kind, lower in (("strong", strong), ("weak", weak)):
        every = []
        for place in np.flatnonzero(labels == kind):
            negatives = scores[np.isin(labels, lower) & (np.arange(len(scores)) != place)]
            if len(negatives):
                every.append(lab.info_nce(scores[place], negatives, temperature))
        parts.append(of(every) if every else 0.0)
    return parts


def all_together(scores, labels, temperature=1.0):
    every = losses(scores, labels, temperature, of=list)
    return float(np.mean([loss for part in every if part for loss in part]))


def mean_of_none(scores, labels, temperature=1.0):
    return float(sum(losses(scores, labels, temperature, of=np.mean)) + (0.0 if "weak" in labels else np.nan))


def forward(function, x, h=1e-5):
    return np.array([(function(x + move) - function(x)) / h for move in h * np.eye(len(x))])


def over_h(function, x, h=1e-5):
    return 2 * lab.numerical_gradient(function, x, h)


def without_brackets(function, x, h=1e-5):
    return lab.numerical_gradient(function, x, h) * h * h


def one_array(function, x, h=1e-5):
    slope, x = [], np.array(x, dtype=float)
    for place in range(len(x)):
        up = down = x
        up[place] += h
        down[place] -= h
        slope.append((function(up) - function(down)) / (2 * h))
    return np.array(slope)


def at_once(function, x, h=1e-5):
    return np.full(len(x), (function(x + h) - function(x - h)) / (2 * h))


def in_place(function, x, h=1e-5):
    slope = []
    for place in range(len(x)):
        x[place] += h
        above = function(x)
        x[place] -= 2 * h
        slope.append((above - function(x)) / (2 * h))
    return np.array(slope)


def probabilities(positive, negatives, temperature=1.0):
    values = logits(positive, negatives, temperature)
    weights = np.exp(values - values.max())
    return weights / weights.sum()


def sloping(slope):
    """A gradient from the probabilities, slope(p, which is the positive, temperature)."""

    def gradient(positive, negatives, temperature=1.0):
        p = probabilities(positive, negatives, temperature)
        return slope(p, np.arange(len(p)) == 0, temperature)

    return gradient


def overflowing(positive, negatives, temperature=1.0):
    weights = np.exp(logits(positive, negatives, temperature))
    slope = weights / weights.sum()
    slope[0] -= 1
    return slope / temperature


def compressing(
    *,
    order=lambda scores: np.argsort(-np.asarray(scores, dtype=float), kind="stable"),
    first=None,
    more=0,
    cut=True,
    whole=False,
    shown=None,
):
    """A `compress` with one thing wrong.

    order : of the places; first: number kept before anything is asked; more: sentences added after the stop; cut: whether the limit cuts
    whole : whether only whole steps are added; shown: what the evaluator sees of (sentences, kept, new)
    """

    def compress(sentences, scores, is_sufficient, step=4, limit=20):
        places = np.asarray(order(scores)).tolist()
        most = min(len(places), limit) if cut else len(places)
        kept = []
        while len(kept) < most:
            size = len(kept) + step
            if whole and size > most:
                break
            new = places[len(kept) : size if not cut else min(size, most)]
            kept = kept + new
            seen = shown(sentences, kept, new) if shown else [sentences[place] for place in kept]
            if is_sufficient(seen):
                return places[: len(kept) + more]
        return kept

    return compress


def beyond(sentences, scores, is_sufficient, step=4, limit=20):
    order = np.argsort(-np.asarray(scores), kind="stable").tolist()
    kept = []
    while len(kept) < min(limit, len(order)):
        kept = order[: len(kept) + step]
        if is_sufficient([sentences[place] for place in kept]):
            break
    return kept


def endless(sentences, scores, is_sufficient, step=4, limit=20):
    order, kept = np.argsort(-np.asarray(scores), kind="stable").tolist(), []
    while len(kept) < limit:
        kept = order[: min(len(kept) + step, limit)]
        if is_sufficient([sentences[place] for place in kept]):
            break
    return kept


def asked_before(sentences, scores, is_sufficient, step=4, limit=20):
    order, kept = lab.compress(sentences, scores, lambda own: False, step, limit), []
    while len(kept) < len(order) and not is_sufficient([sentences[place] for place in kept]):
        kept = order[: len(kept) + step]
    return kept


def the_sentences(sentences, *given):
    return [sentences[place] for place in lab.compress(sentences, *given)]


def one_by_one(sentences, scores, is_sufficient, step=4, limit=20):
    return lab.compress(sentences, scores, is_sufficient, 1, limit)


def asked_about_nothing(sentences, scores, is_sufficient, step=4, limit=20):
    is_sufficient([])
    return lab.compress(sentences, scores, is_sufficient, step, limit)


def not_asked_at_the_end(sentences, scores, is_sufficient, step=4, limit=20):
    most = min(limit, len(sentences))
    return lab.compress(sentences, scores, lambda kept: len(kept) < most and is_sufficient(kept), step, limit)


def sorted_places(sentences, scores, is_sufficient, step=4, limit=20):
    return sorted(lab.compress(sentences, scores, is_sufficient, step, limit))


def measuring(
    *, right=None, ratio=lab.token_ratio, tokens=None, of=np.mean, hand_on=True, stop=lambda enough: enough, most=None
):
    """A `measured` with one thing wrong."""

    def measured(questions, limit=20, threshold=0.5):
        rows = []
        for question in questions:
            enough = lab.evaluator(question, threshold if hand_on else 0.5)
            size = most or limit
            kept = lab.compress(
                question["sentences"], question["scores"], lambda own, e=enough: stop(e(own)), limit=size
            )
            counted = range(len(kept)) if tokens else kept
            number = sum(question["tokens"][place] for place in counted)
            share = ratio(question["tokens"], counted, question["tokens_of_all"])
            rows.append((question["right"][right or str(len(kept))], number, share))
        return dict(zip(("right", "tokens", "ratio"), of(rows, axis=0).tolist(), strict=True))

    return measured


def ratio_of_means(questions, limit=20, threshold=0.5):
    row = lab.measured(questions, limit, threshold)
    return row | {"ratio": row["tokens"] / np.mean([question["tokens_of_all"] for question in questions])}


def changed(value):
    """A `measured` of which value(row, questions, limit) is returned."""

    def measured(questions, limit=20, threshold=0.5):
        return value(lab.measured(questions, limit, threshold), questions, limit)

    return measured


def sizes(questions, limit):
    return [len(lab.compress(q["sentences"], q["scores"], lab.evaluator(q), limit=limit)) for q in questions]


def averages(x):
    return float(np.exp(np.mean(x)))


def unstable(sentences, scores, is_sufficient, step=4, limit=20):
    """`compress` whose equal scores come in the order that numpy's default sort leaves, from 17 sentences on."""
    order = np.argsort(-np.asarray(scores, dtype=float)).tolist()
    shuffled = [order.index(place) for place in range(len(order))]
    return lab.compress(sentences, [-float(place) for place in shuffled], is_sufficient, step, limit)


MISTAKES = [
    ("belief", "what one token is worth, not the answer", averages),
    ("belief", "take exp of the sum", lambda x: float(np.sum(x))),
    ("belief", "the probabilities were added", lambda x: float(np.sum(np.exp(x)))),
    ("belief", "is a sum of logarithms", lambda x: float(np.prod(x))),
    ("belief", "these logarithms are natural", lambda x: float(10 ** np.sum(x))),
    ("lost", "cut off at 0", losing(lambda best, value: max(best - value, 0.0))),
    ("lost", "the sign was thrown away", losing(lambda best, value: abs(best - value))),
    ("lost", "a list; a dict is asked for", lambda contexts: [*lab.lost(contexts).values()]),
    ("lost", "look for the one named ALONE", against_the_first),
    ("lost", "the sign: the sentence comes first", losing(lambda best, value: value - best)),
    ("lost", "leave it out", losing(lambda best, value: best - value, keep=True)),
    ("lost", "these are the beliefs", losing(lambda best, value: value)),
    ("lost", "a ratio; a difference is asked for", losing(lambda best, value: value / best)),
    ("lost", "a difference of logarithms", losing(lambda best, value: np.log(best) - np.log(value))),
    (
        "lost",
        "the mean over the tokens was taken on the way",
        losing(lambda best, value: best - value, belief=averages),
    ),
    ("evidentiality", "the closed book has to be wrong", without_closed_book),
    ("evidentiality", "condition 2 asks that", harmless_if_known),
    ("evidentiality", "right beside another strong sentence too", helpful_twice),
    ("evidentiality", "weak and distractor are exchanged", exchanged),
    ("evidentiality", "a distractor does harm", idle_is_a_distractor),
    ("evidentiality", "a sentence that breaks what is known", breaking_is_a_distractor),
    ("evidentiality", "None was taken for False: nothing was asked", none_is(False)),
    ("evidentiality", "None was taken for True", none_is(True)),
    ("evidentiality", "undefined was decided first", undefined_first),
    ("evidentiality", "None with the sentence was taken for right", lambda a, b, c: lab.evidentiality(a, b is not False, c)),
    ("label_counts", "a label that does not occur is missing", only_what_occurs),
    ("label_counts", "the known question was left out", unknown_only),
    ("label_counts", "not sentences", questions_with),
    ("label_counts", "are exchanged", both_swapped),
    (
        "label_counts",
        "None beside a strong sentence became a distractor",
        lambda rows: totals(counted(rows, none_is(False))),
    ),
    ("label_counts", "None beside a strong sentence became weak", lambda rows: totals(counted(rows, none_is(True)))),
    (
        "label_counts",
        "shares; numbers are asked for",
        lambda rows: {k: v / 1299 for k, v in lab.label_counts(rows).items()},
    ),
    ("info_nce", "the positive is missing in the sum", no_positive_below),
    ("info_nce", "a surprise is -log p", lambda *given: nce(*given, sign=1)),
    ("info_nce", "this is the probability", lambda *given: nce(*given, log=lambda p: p, sign=1)),
    ("info_nce", "the logarithm has base 2", lambda *given: nce(*given, log=np.log2)),
    ("info_nce", "only the hardest negative was counted", lambda s, others, t=1.0: lab.info_nce(s, [max(others)], t)),
    ("info_nce", "the mean over the negatives", mean_of_negatives),
    ("info_nce", "pair by pair", pairwise),
    ("info_nce", "the temperature was not used", lambda s, others, t=1.0: lab.info_nce(s, others)),
    ("info_nce", "a low one makes differences larger", lambda s, others, t=1.0: lab.info_nce(s, others, 1 / t)),
    ("info_nce", "not the similarities", lambda s, others, t=1.0: lab.info_nce(s, others) / t),
    ("info_nce", "inf/inf: exp(1000)", nce),
    ("info_nce", "adds the positive to each number", added_to_each),
    ("info_nce", "added again after the log", above(np.max, again=False)),
    ("info_nce", "the positive can be larger still", above(lambda values: values[1:].max())),
    ("info_nce", "the mean was subtracted", above(np.mean)),
    ("info_nce", "log of 0", above(lambda values: values[0])),
    ("info_nce", "added inside the log", added_inside),
    ("compressor_loss", "the weak one is missing", lambda *given: losses(*given)[0]),
    ("compressor_loss", "the strong one is missing", lambda *given: losses(*given)[1]),
    ("compressor_loss", "eq. 3 has both", lambda *given: sum(losses(*given, strong=("distractor",)))),
    (
        "compressor_loss",
        "Eq. 2 has distractors only",
        lambda *given: sum(losses(*given, weak=("strong", "distractor"))),
    ),
    ("compressor_loss", "the mean of the two losses", lambda *given: sum(losses(*given)) / 2),
    ("compressor_loss", "take the mean of each", lambda *given: sum(losses(*given, of=np.sum))),
    ("compressor_loss", "the mean of all four losses together", all_together),
    (
        "compressor_loss",
        "the undefined sentence is among the negatives",
        lambda *given: sum(
            losses(*given, strong=("weak", "distractor", "undefined"), weak=("distractor", "undefined"))
        ),
    ),
    (
        "compressor_loss",
        "the other strong sentence is among the negatives",
        lambda *given: sum(losses(*given, strong=("strong", "weak", "distractor"))),
    ),
    ("compressor_loss", "the largest loss of each kind", lambda *given: sum(losses(*given, of=np.max))),
    ("compressor_loss", "the mean of no losses is NaN", mean_of_none),
    ("compressor_loss", "the mean of no weak losses is NaN", mean_of_none),
    (
        "compressor_loss",
        "the others of the same label",
        lambda *given: sum(losses(*given, strong=("strong", "weak", "distractor"), weak=("weak", "distractor"))),
    ),
    ("compressor_loss", "not handed to info_nce", lambda s, labels, t=1.0: lab.compressor_loss(s, labels)),
    ("numerical_gradient", "a forward difference", forward),
    ("numerical_gradient", "from x - h to x + h it is 2h", over_h),
    ("numerical_gradient", "moved at once", at_once),
    ("numerical_gradient", "moved down in place", in_place),
    ("numerical_gradient", "write / (2 * h)", without_brackets),
    ("numerical_gradient", "Move a copy", one_array),
    ("numerical_gradient", "h was not used", lambda f, x, h=1e-5: lab.numerical_gradient(f, x)),
    ("gradient", "a higher similarity of the positive", lambda *given: -lab.gradient(*given)),
    ("gradient", "1 goes off at the positive", probabilities),
    ("gradient", "1 was taken from all", sloping(lambda p, first, t: (p - 1) / t)),
    ("gradient", "its slope is p - 1", sloping(lambda p, first, t: np.where(first, -1, p) / t)),
    ("gradient", "comes first", lambda *given: np.roll(lab.gradient(*given), -1)),
    ("gradient", "the chain rule's 1 / temperature is missing", sloping(lambda p, first, t: p - first)),
    ("gradient", "the chain rule divides", sloping(lambda p, first, t: (p - first) * t)),
    ("gradient", "not after it", sloping(lambda p, first, t: p / t - first)),
    (
        "gradient",
        "are of the negatives alone",
        sloping(lambda p, first, t: np.where(first, -1, p / p[1:].sum()) / t),
    ),
    ("gradient", "missing in the weights", lambda s, others, t=1.0: lab.gradient(s, others) / t),
    ("gradient", "inf/inf in the weights", overflowing),
    ("compress", "sorted by their place", sorted_places),
    ("compress", "the worst first", compressing(order=np.argsort)),
    ("compress", "the scores were not looked at", compressing(order=lambda scores: np.arange(len(scores)))),
    ("compress", "one too many", compressing(more=1)),
    ("compress", "one too few", compressing(more=-1)),
    ("compress", "not after each step", one_by_one),
    ("compress", "beyond the limit", beyond),
    ("compress", "the limit was not used", compressing(cut=False)),
    ("compress", "not whole was left out", compressing(whole=True)),
    (
        "compress",
        "an ascending order was reversed",
        compressing(order=lambda scores: np.argsort(scores, kind="stable")[::-1]),
    ),
    (
        "compress",
        "only the new sentence was shown",
        compressing(shown=lambda sentences, kept, new: [sentences[p] for p in new]),
    ),
    ("compress", "places were shown", compressing(shown=lambda sentences, kept, new: kept)),
    ("compress", "not asked after the last addition", not_asked_at_the_end),
    ("compress", "asked about nothing first", asked_about_nothing),
    ("compress", "before each addition", asked_before),
    ("compress", "their places are asked for", the_sentences),
    ("compress", "what ends the loop is never reached", endless),
    ("compress", "which kind='stable' holds", unstable),
    ("token_ratio", "sentences were counted", lambda tokens, kept, whole: len(kept) / len(tokens)),
    ("token_ratio", "how many times smaller", lambda *given: 1 / lab.token_ratio(*given)),
    ("token_ratio", "the share that was saved", lambda *given: 1 - lab.token_ratio(*given)),
    ("token_ratio", "not by `whole`", lambda tokens, kept, whole: lab.token_ratio(tokens, kept, sum(tokens))),
    ("token_ratio", "the first two sentences", lambda tokens, kept, whole: sum(tokens[: len(kept)]) / whole),
    ("measured", "is the evaluator asked", measuring(stop=lambda enough: False)),
    ("measured", "reply looked at", measuring(stop=lambda enough: True)),
    ("measured", "was turned round", measuring(stop=lambda enough: not enough)),
    ("measured", "the tokens of the first sentences", measuring(tokens=True)),
    ("measured", "take each question's ratio first", ratio_of_means),
    ("measured", "of the sentences' tokens", measuring(ratio=lambda t, kept, whole: lab.token_ratio(t, kept, sum(t)))),
    ("measured", "sums over the questions", measuring(of=np.sum)),
    ("measured", "without any sentence was looked up", measuring(right="closed book")),
    ("measured", "the limit was not handed on", measuring(most=20)),
    (
        "measured",
        "the number of right answers",
        changed(lambda row, questions, limit: row | {"right": row["right"] * len(questions)}),
    ),
    (
        "measured",
        "says how long each is",
        changed(lambda row, questions, limit: row | {"tokens": np.mean(sizes(questions, limit))}),
    ),
    (
        "measured",
        "not with those kept",
        changed(lambda row, questions, limit: row | {"right": np.mean([q["right"][str(limit)] for q in questions])}),
    ),
    ("measured", "a tuple or list", changed(lambda row, questions, limit: tuple(row.values()))),
    ("measured", "not handed on to the evaluator", measuring(hand_on=False)),
]
