"""Wrong solutions that students hand in: (function, words that a failing test must say, the function as they write it)."""

import lab
import numpy as np


def piling_up(chunks, other_words):
    context, contexts = list(chunks), [list(chunks)]
    for place, words in enumerate(other_words):
        context = [*context[:place], words, *context[place + 1 :]]
        contexts.append(context)
    return contexts


def the_same_list(chunks, other_words):
    context = list(chunks)
    contexts = [context]
    for place, words in enumerate(other_words):
        context[place] = words
        contexts.append(context)
    return contexts


def in_the_callers_list(chunks, other_words):
    contexts = [list(chunks)]
    for place, words in enumerate(other_words):
        before, chunks[place] = chunks[place], words
        contexts.append(list(chunks))
        if place < len(other_words) - 1:
            chunks[place] = before
    return contexts


def left_out(chunks, other_words):
    return [list(chunks), *([*chunks[:i], *chunks[i + 1 :]] for i in range(len(chunks)))]


def at_the_end(chunks, other_words):
    return [list(chunks), *([*chunks[:i], *chunks[i + 1 :], words] for i, words in enumerate(other_words))]


def linking(link, *, diagonal=True):
    """An adjacency whose links are link(entails, entails turned)."""

    def adjacency(entails):
        entails = np.asarray(entails, dtype=float)
        links = np.array(link(entails, entails.T), dtype=float)
        if diagonal is not None:
            np.fill_diagonal(links, float(diagonal))
        return links

    return adjacency


def of_booleans(entails):
    entails = np.asarray(entails)
    links = (entails + entails.T) / 2
    np.fill_diagonal(links, 1)
    return links


def of_booleans_kept(entails):
    entails = np.asarray(entails)
    links = lab.adjacency(entails)
    return links > 0 if entails.dtype == bool else links


def diagonal_in_place(entails):
    np.fill_diagonal(entails, 1)
    return lab.adjacency(entails)


def result_in_place(entails):
    entails[...] = lab.adjacency(entails)
    return entails


def surprise(of_degree, of_all=np.mean):
    """A degree entropy of_all(of_degree(degrees, n))."""

    def degree_entropy(links):
        degree = np.sum(links, axis=1)
        with np.errstate(all="ignore"):
            return float(of_all(of_degree(degree, len(degree))))

    return degree_entropy


def nats(degree, n):
    return np.log(n / degree)


def of_shares(links):
    degree = np.sum(links, axis=1)
    shares = degree / degree.sum()
    return float(-np.sum(shares * np.log(shares)))


def counted_links(least):
    return lambda links: lab.degree_entropy((np.asarray(links) >= least).astype(float))


def graph(m, n, *, agree=False):
    links = np.eye(n)
    links[m:, m:] = 1.0
    if agree:
        links[:m, :m] = 1.0
    return links


def moving(*, links=graph, fits=lambda value, threshold: value <= threshold, n=1, more=1):
    """A `moves_allowed` with one thing wrong: the graph, the comparison, the number of replies, or the largest m."""

    def moves_allowed(k, threshold=0.2):
        values = [lab.degree_entropy(links(m, k + n)) for m in range(k + more)]
        return max((m for m, value in enumerate(values) if fits(value, threshold)), default=0)

    return moves_allowed


def one_too_many(k, threshold=0.2):
    return next((m for m in range(k + 1) if lab.degree_entropy(graph(m, k + 1)) > threshold), k)


def whether(k, threshold=0.2):
    return int(lab.moves_allowed(k, threshold) > 0)


def of_clusters(questions):
    values = []
    for question in questions:
        links, ids = lab.adjacency(question["entails"]), []
        for reply in range(len(links)):
            firsts = [ids.index(number) for number in range(max(ids, default=-1) + 1)]
            fitting = [number for number, first in enumerate(firsts) if links[first, reply] == 1]
            ids.append(fitting[0] if fitting else len(firsts))
        values.append(lab.degree_entropy(np.equal.outer(ids, ids)))
    return np.round(values, 9)


def of_texts(questions):
    return np.round([lab.degree_entropy(equal(q["replies"])) for q in questions if "replies" in q], 9)


def equal(texts):
    return np.array([[float(left == right) for right in texts] for left in texts])


def unrounded(questions):
    return np.array([lab.degree_entropy(lab.adjacency(question["entails"])) for question in questions])


def rounded_to_one(questions):
    return np.round(unrounded(questions), 1)


def of_rows(questions):
    return np.array([lab.degree_entropy(question["entails"]) for question in questions])


def without_first(questions):
    return np.array(
        [lab.degree_entropy(lab.adjacency(np.array(question["entails"])[1:, 1:])) for question in questions]
    )


def area(win):
    """An AUROC that adds up win(difference of a wrong and a right reply)."""

    def auroc(uncertainty, right):
        uncertainty, right = np.asarray(uncertainty, dtype=float), np.asarray(right, dtype=bool)
        with np.errstate(all="ignore"):
            return float(win(uncertainty[~right][:, None] - uncertainty[right][None, :]))

    return auroc


def of_all_pairs(uncertainty, right):
    n, wrong = len(right), len(right) - np.sum(right)
    return lab.auroc(uncertainty, right) * wrong * (n - wrong) / (n * (n - 1) / 2)


def by_place(uncertainty, right):
    return lab.auroc(np.argsort(np.argsort(uncertainty, kind="stable")), right)


def not_of_numbers(uncertainty, right):
    gaps = uncertainty[~right][:, None] - uncertainty[right][None, :]
    return float(np.mean((gaps > 0) + 0.5 * (gaps == 0)))


def correlated(uncertainty, right):
    return float(-np.corrcoef(uncertainty, right)[0, 1]) if np.std(uncertainty) else 0.0


def sides(of_side, *, is_certain=lambda value, threshold: value <= threshold, empty=np.nan):
    """A `split` that gives of_side(right of that side, right of all)."""

    def split(uncertainty, right, threshold=0.2):
        right, certain = np.asarray(right, dtype=float), is_certain(np.asarray(uncertainty), threshold)
        both = {"certain": right[certain], "uncertain": right[~certain]}
        return {side: of_side(own, right) if len(own) else empty for side, own in both.items()}

    return split


def mean(own, right):
    return float(np.mean(own))


def only_what_occurs(uncertainty, right, threshold=0.2):
    return {side: value for side, value in lab.split(uncertainty, right, threshold).items() if not np.isnan(value)}


def measuring(*, right=lambda own: own[0], of=lab.entropies, area=lab.auroc, hand_on=True):
    """A `measured` with one thing wrong; right says whether a question is, from its list of replies."""

    def measured(questions, threshold=0.2):
        uncertainty, own = of(questions), [right(question["right"]) for question in questions]
        return {"AUROC": area(uncertainty, own)} | lab.split(uncertainty, own, threshold if hand_on else 0.2)

    return measured


def giving(*, link=lambda links, reply: links[0][reply], certain=1, necessary=0, names=("necessary", "unnecessary")):
    """Roles by link(links, number of the reply), `certain` from there on, `necessary` up to there."""

    def roles(links, agrees_without):
        of_chunks = []
        for reply, without in enumerate(agrees_without, 1):
            moved = link(np.asarray(links), reply) < certain
            role = names[0] if without is not None and without <= necessary else names[1]
            of_chunks.append(role if moved else "certain")
        return of_chunks

    return roles


def turned_round(links, agrees_without):
    links = np.asarray(links)
    return ["unnecessary" if link == 1 else "certain" for link in links[0][1:]]


def of_replies(links, agrees_without):
    row = np.asarray(links)[0]
    kinds = ["certain" if link == 1 else None for link in row]
    without = [None, *agrees_without]
    return [kind or ("necessary" if each == 0 else "unnecessary") for kind, each in zip(kinds, without, strict=True)]


def one_off(links, agrees_without):
    return lab.roles(np.array([[1.0, *np.asarray(links)[0][:-1]]]), agrees_without)


def following(
    *, stays=("certain", "necessary"), comes=("necessary",), best=max, avoid=None, by_place=False, update=True, put=None
):
    """A `next_context` with one thing wrong.

    stays, comes : roles of the chunks that stay, and of those for which one comes; best: max or min
    avoid        : what is not taken, of (context, seen); by_place: the place for the number; update: whether what is added is used
    put          : where the new ones go, of (kept, new)
    """

    def next_context(context, of_chunks, cosines, seen):
        used = set(avoid(context, seen) if avoid else seen)
        kept, new = [n for n, role in zip(context, of_chunks, strict=True) if role in stays], []
        for place, (number, role) in enumerate(zip(context, of_chunks, strict=True)):
            unused = [other for other in range(len(cosines)) if other not in used]
            if role in comes and unused:
                row = cosines[place if by_place else number]
                new.append(best(unused, key=lambda other, row=row: row[other]))
                used |= {new[-1]} if update else set()
        return put(kept, new) if put else kept + new

    return next_context


def backwards(context, of_chunks, cosines, seen):
    new = lab.next_context(context[::-1], of_chunks[::-1], cosines, seen)
    kept = [n for n in context if n in new]
    return kept + [n for n in new if n not in context]


def in_seen(context, of_chunks, cosines, seen):
    came = lab.next_context(context, of_chunks, cosines, seen)
    seen.update(came)
    return came


def in_context(context, of_chunks, cosines, seen):
    context[:] = lab.next_context(context, of_chunks, cosines, seen)
    return context


def struck_out(context, of_chunks, cosines, seen):
    cosines, before = np.asarray(cosines), np.array(cosines)
    cosines[:, sorted(seen)] = -np.inf
    return lab.next_context(context, of_chunks, before, seen)


def again_zero(context, of_chunks, cosines, seen):
    came = lab.next_context(context, of_chunks, cosines, seen)
    return came + [0] * (of_chunks.count("necessary") if len(seen) == len(cosines) else 0)


def skipping(context, of_chunks, cosines, seen):
    came = following(update=False)(context, of_chunks, cosines, seen)
    return list(dict.fromkeys(came))


def last_of_equals(numbers, key):
    return sorted(numbers, key=key)[-1]


MISTAKES = [
    ("edits", "the context as it is is missing", lambda chunks, words: lab.edits(chunks, words)[1:]),
    ("edits", "the context as it is comes last", lambda c, w: [*lab.edits(c, w)[1:], list(c)]),
    ("edits", "edits pile up", piling_up),
    ("edits", "one list was changed again and again", the_same_list),
    ("edits", "the last of the caller's chunks was changed in place", in_the_callers_list),
    ("edits", "it is the other way round", lambda c, w: [list(c), *lab.edits(w, c)[1:]]),
    ("edits", "the chunk was left out", left_out),
    ("edits", "the other words stand at the end", at_the_end),
    ("edits", "all chunks in other words at once", lambda c, w: [list(c), list(w)]),
    ("adjacency", "only one direction was looked at: add the transpose", linking(lambda e, t: e)),
    ("adjacency", "only the other direction was looked at", linking(lambda e, t: t)),
    ("adjacency", "one direction was enough", linking(np.maximum)),
    ("adjacency", "one direction was worth nothing", linking(np.minimum)),
    ("adjacency", "both directions were added and not halved", linking(lambda e, t: e + t, diagonal=2)),
    ("adjacency", "added and not halved, but for the diagonal", linking(lambda e, t: e + t)),
    ("adjacency", "no reply agrees with itself", linking(lambda e, t: (e + t) / 2, diagonal=0)),
    ("adjacency", "multiplied as matrices", linking(lambda e, t: e @ t, diagonal=None)),
    ("adjacency", "the diagonal was taken from the judge", linking(lambda e, t: (e + t) / 2, diagonal=None)),
    ("adjacency", "True + True is True to numpy", of_booleans),
    ("adjacency", "the result holds True and False", of_booleans_kept),
    ("adjacency", "its diagonal was filled in place", diagonal_in_place),
    ("adjacency", "it was changed in place", result_in_place),
    ("degree_entropy", "the logarithm is missing", surprise(lambda d, n: 1 - d / n)),
    ("degree_entropy", "minus the logarithm of the mean share", surprise(lambda d, n: -np.log(np.mean(d / n)))),
    ("degree_entropy", "the sum over the replies", surprise(nats, np.sum)),
    ("degree_entropy", "the sign", surprise(lambda d, n: np.log(d / n))),
    ("degree_entropy", "the logarithm has base 2", surprise(lambda d, n: np.log2(n / d))),
    ("degree_entropy", "only reply 0 was looked at", surprise(nats, lambda values: values[0])),
    ("degree_entropy", "the largest surprise", surprise(nats, np.max)),
    ("degree_entropy", "a half link was counted as a whole one", counted_links(0.5)),
    ("degree_entropy", "a half link was not counted", counted_links(1)),
    ("degree_entropy", "each reply itself was left out of its degree", surprise(lambda d, n: np.log(n / (d - 1)))),
    ("degree_entropy", "itself was left out of degree and number", surprise(lambda d, n: np.log((n - 1) / (d - 1)))),
    ("degree_entropy", "the degree was divided by k", surprise(lambda d, n: np.log((n - 1) / d))),
    ("degree_entropy", "not divided by the number of replies", surprise(lambda d, n: -np.log(d))),
    ("degree_entropy", "divided by the sum of all degrees", surprise(lambda d, n: np.log(d.sum() / d))),
    ("degree_entropy", "the entropy -sum p log p", of_shares),
    ("degree_entropy", "weighed by its degree", surprise(lambda d, n: d / n * np.log(n / d), np.sum)),
    ("degree_entropy", "it was scaled by log n", surprise(lambda d, n: np.log(n / d) / np.log(n))),
    ("moves_allowed", "k chunks give k + 1", moving(n=0, more=0)),
    ("moves_allowed", "the first m that is too many", one_too_many),
    ("moves_allowed", "in agreement with each other", moving(links=lambda m, n: graph(m, n, agree=True))),
    ("moves_allowed", "all others do not", moving(links=lambda m, n: graph(n - m, n))),
    ("moves_allowed", "the threshold was not used", lambda k, threshold=0.2: lab.moves_allowed(k)),
    ("moves_allowed", "whether a reply may move, not how many", whether),
    ("moves_allowed", "at most is enough", moving(fits=lambda value, threshold: value < threshold)),
    ("moves_allowed", "m = k is missing", moving(more=0)),
    ("moves_allowed", "all six moved", moving(more=2)),
    ("entropies", "replies were put in clusters", of_clusters),
    ("entropies", "texts were compared", of_texts),
    ("entropies", "the reply to the context as it is was left out", without_first),
    ("entropies", "row by row", of_rows),
    ("entropies", "in the order of their values", lambda questions: np.sort(lab.entropies(questions))),
    ("entropies", "ties are none", unrounded),
    ("entropies", "one number came", lambda questions: float(np.mean(lab.entropies(questions)))),
    ("auroc", "turned round", lambda values, right: 1 - lab.auroc(values, right)),
    ("auroc", "were counted and not divided", area(lambda gaps: np.sum((gaps > 0) + 0.5 * (gaps == 0)))),
    ("auroc", "divided by all pairs of questions", of_all_pairs),
    ("auroc", "which are places", not_of_numbers),
    ("auroc", "a correlation", correlated),
    ("auroc", "a tie was counted as lost", area(lambda gaps: np.mean(gaps > 0))),
    ("auroc", "a tie was counted as won", area(lambda gaps: np.mean(gaps >= 0))),
    ("auroc", "ties were left out of the pairs", area(lambda gaps: np.sum(gaps > 0) / np.sum(gaps != 0))),
    ("auroc", "ranks by place", by_place),
    ("split", "0.2 itself was called uncertain", sides(mean, is_certain=lambda value, threshold: value < threshold)),
    ("split", "the sides are exchanged", sides(mean, is_certain=lambda value, threshold: value > threshold)),
    ("split", "the share of wrong replies", sides(lambda own, right: 1 - float(np.mean(own)))),
    ("split", "numbers of right replies", sides(lambda own, right: float(np.sum(own)))),
    ("split", "divided by all questions", sides(lambda own, right: np.sum(own) / len(right))),
    ("split", "of the right replies the share on each side", sides(lambda own, right: np.sum(own) / np.sum(right))),
    ("split", "how large the sides are", sides(lambda own, right: len(own) / len(right))),
    ("split", "the threshold was not looked at", lambda values, right, threshold=0.2: lab.split(values, right)),
    ("split", "0 says that all are wrong", sides(mean, empty=0.0)),
    ("split", "the empty side is missing", only_what_occurs),
    ("measured", "right only if all six replies are", measuring(right=all)),
    ("measured", "right if any of the six replies is", measuring(right=any)),
    ("measured", "right by majority", measuring(right=lambda own: np.mean(own) > 0.5)),
    ("measured", "the last reply was looked at", measuring(right=lambda own: own[-1])),
    ("measured", "wrong was taken for right", measuring(right=lambda own: 1 - own[0])),
    ("measured", "is in `entails`", measuring(of=of_texts)),
    ("measured", "counts one half", measuring(area=area(lambda gaps: np.mean(gaps > 0)))),
    ("measured", "not handed on to split", measuring(hand_on=False)),
    ("roles", "are exchanged", giving(names=("unnecessary", "necessary"))),
    ("roles", "it is the others that are", turned_round),
    ("roles", "reply 0 belongs to no chunk", one_off),
    ("roles", "reply 0 has a role too", of_replies),
    ("roles", "all that is uncertain came out necessary", giving(necessary=1)),
    ("roles", "came out unnecessary", giving(necessary=-1)),
    ("roles", "had to agree with all others", giving(link=lambda links, reply: links[reply].min())),
    ("roles", "with the one before it", giving(link=lambda links, reply: links[reply - 1][reply])),
    ("roles", "a link of 0.5 was called certain", giving(certain=0.5)),
    ("roles", "0.5 was called necessary", giving(necessary=0.5)),
    ("next_context", "the unnecessary chunk is still there", following(stays=lab.ROLES)),
    ("next_context", "nothing came for the necessary chunk", following(comes=())),
    ("next_context", "always the chunk itself", following(avoid=lambda context, seen: ())),
    ("next_context", "the least like it came", following(best=min)),
    ("next_context", "the last of equally near ones", following(best=last_of_equals)),
    ("next_context", "It stays, and one more comes", following(stays=("certain",))),
    ("next_context", "for the certain one too", following(comes=("certain", "necessary"))),
    ("next_context", "for the certain one, and none", following(comes=("certain",))),
    ("next_context", "for the unnecessary one too", following(comes=("unnecessary", "necessary"))),
    ("next_context", "stands before the old ones", following(put=lambda kept, new: new + kept)),
    ("next_context", "the place in the context was taken", following(by_place=True)),
    ("next_context", "sorted; the chunks that stay", following(put=lambda kept, new: sorted(kept + new))),
    ("next_context", "chunk 4 was added twice", following(update=False)),
    ("next_context", "nothing for the second necessary chunk", skipping),
    ("next_context", "the later necessary chunk chose first", backwards),
    ("next_context", "had been removed and came back", following(avoid=lambda context, seen: context)),
    ("next_context", "the argmax of a row of -inf is 0", again_zero),
    ("next_context", "into the caller's `seen`", in_seen),
    ("next_context", "the caller's context was changed in place", in_context),
    ("next_context", "struck out in the caller's cosines", struck_out),
]
