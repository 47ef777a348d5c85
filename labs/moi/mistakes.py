"""Wrong solutions that students hand in: (function, words that a failing test must say, the function as they write it)."""

import lab
import numpy as np


def scored(form):
    """A saliency that is form(logarithm of the product)."""

    def saliency(query, passages=None):
        return form(np.asarray(query) + (0 if passages is None else np.asarray(passages)))

    return saliency


def shares(product):
    weights = np.exp(product - product.max())
    return weights / weights.sum()


def joined(join):
    """A saliency whose two factors are joined otherwise."""

    def saliency(query, passages=None):
        query = np.asarray(query)
        product = query if passages is None else join(query, np.asarray(passages))
        return product - product.mean()

    return saliency


def joined_lists(query, passages=None):
    product = query if passages is None else [*query, *passages]
    return np.asarray(product) - np.mean(product)


def in_place(query, passages=None):
    if passages is not None:
        query += np.asarray(passages)
    query -= query.mean()
    return query


def half_in_place(query, passages=None):
    if passages is not None:
        query += np.asarray(passages)
    return query - query.mean()


def passages_in_place(query, passages=None):
    if passages is None:
        return lab.saliency(query)
    passages += np.asarray(query)
    passages -= passages.mean()
    return passages


def passages_half_in_place(query, passages=None):
    if passages is not None:
        passages += np.asarray(query)
    return lab.saliency(query if passages is None else passages)


def by_column(orders, position, n):
    matrix = np.zeros((len(orders), n))
    matrix[:, np.asarray(orders)] = position
    return matrix


def first_only(orders, position, n):
    matrix = np.zeros((len(orders), n))
    for row, order in zip(matrix, orders, strict=True):
        row[order[0]] = position[0]
    return matrix


def all_but_first(orders, position, n):
    matrix = lab.design(orders, position, n)
    for row, order in zip(matrix, orders, strict=True):
        row[order[0]] = 0
    return matrix


def explained(orders, position, utility):
    return lab.design(orders, position, len(utility)) @ np.asarray(utility)


def erring(of_errors, *, position=lambda a: a):
    """An objective that is of_errors(errors)."""

    def objective(orders, scores, a, utility):
        return float(of_errors(explained(orders, position(np.asarray(a)), utility) - np.asarray(scores)))

    return objective


def squares(errors):
    return np.sum(errors**2)


def by_place(orders, scores, position, utility):
    return float(np.sum((np.asarray(utility)[: len(position)] @ np.asarray(position) - np.asarray(scores)) ** 2))


def means(orders, scores, position, n):
    shows = [np.any(np.asarray(orders) == passage, axis=1) for passage in range(n)]
    return np.array([np.mean(np.asarray(scores)[rows]) if rows.any() else 0.0 for rows in shows])


def of_design(form, *, position=lambda a: a):
    """Utilities that are form(design, scores)."""

    def best_utility(orders, scores, a, n):
        return form(lab.design(orders, position(np.asarray(a)), n), np.asarray(scores, dtype=float))

    return best_utility


def solve(matrix, scores):
    return np.linalg.lstsq(matrix, scores, rcond=None)[0]


def ridge(matrix, scores):
    return np.linalg.solve(matrix.T @ matrix + np.eye(matrix.shape[1]), matrix.T @ scores)


def weighted_means(matrix, scores):
    return matrix.T @ scores / np.maximum(matrix.sum(axis=0), 1e-12)


def alone(matrix, scores):
    return matrix.T @ scores / np.maximum((matrix**2).sum(axis=0), 1e-12)


def with_constant(matrix, scores):
    return solve(np.hstack([matrix, np.ones((len(matrix), 1))]), scores)[:-1]


def shown_only(orders, scores, position, n):
    return lab.best_utility(orders, scores, position, n)[np.unique(orders)]


def of_shown(form):
    """A position that is form(utility of the passage at each place, scores)."""

    def best_position(orders, scores, utility):
        return form(np.asarray(utility, dtype=float)[np.asarray(orders)], np.asarray(scores, dtype=float))

    return best_position


def divided(shown, scores):
    free = solve(shown, scores)
    return free / free.sum()


def shifted(shown, scores):
    free = solve(shown, scores)
    return free + (1 - free.sum()) / len(free)


def one_more_row(shown, scores):
    return solve(np.vstack([shown, np.ones(shown.shape[1])]), np.append(scores, 1.0))


def one_more_row_divided(shown, scores):
    free = one_more_row(shown, scores)
    return free / free.sum()


def eliminated(slope, target):
    """A position whose last coefficient is 1 minus the others, from slopes and a target of one's own."""

    def best_position(shown, scores):
        free = solve(slope(shown), target(shown, scores))
        return np.append(free, 1 - free.sum())

    return of_shown(best_position)


def rest(shown, scores):
    return scores - shown[:, -1]


def apart(shown):
    return shown[:, :-1] - shown[:, -1:]


def one_by_one(shown, scores):
    each = (shown * scores[:, None]).sum(axis=0) / (shown**2).sum(axis=0)
    return each / each.sum()


def cut(*given):
    position = np.clip(lab.best_position(*given), 0, 1)
    return position / position.sum()


def alternating(*, start=lambda a: a, more=0, last=True, keep=True, every=None):
    """An alternation with a mistake in it."""

    def fit(orders, scores, begin, n, rounds=50):
        position = np.array(start(np.asarray(begin, dtype=float)))
        utility = lab.best_utility(orders, scores, position, n)
        for _ in range((rounds if every is None else every) + more):
            utility = lab.best_utility(orders, scores, position, n)
            new = lab.best_position(orders, scores, utility)
            position = new if keep else position
        return position, lab.best_utility(orders, scores, position, n) if last else utility

    return fit


def start_changed(orders, scores, start, n, rounds=50):
    for _ in range(rounds):
        start[:] = lab.best_position(orders, scores, lab.best_utility(orders, scores, start, n))
    return start.copy(), lab.best_utility(orders, scores, start, n)


def at_least_once(orders, scores, start, n, rounds=50):
    return lab.fit(orders, scores, start, n, max(rounds, 1))


def stretching(position=None, utility=None):
    """A stretch with one side, or both, done otherwise: functions of the values, their mean and c."""

    def stretched(a, u, c):
        a, u = np.asarray(a, dtype=float), np.asarray(u, dtype=float)
        new_position, new_utility = lab.stretched(a, u, c)
        return (
            new_position if position is None else position(a, 1 / len(a), c),
            new_utility if utility is None else utility(u, u.mean(), c),
        )

    return stretched


def about_median(utility, _, c):
    return np.median(utility) + (utility - np.median(utility)) / c


def turned_by_place(a, u, c):
    if c < 0:
        return np.asarray(a)[::-1], np.asarray(u)[::-1]
    return lab.stretched(a, u, c)


def counting(form):
    """A freedom that is form(slopes of the position, design, places, passages)."""

    def freedom(orders, position, utility):
        shown = np.asarray(utility)[np.asarray(orders)]
        slopes = shown[:, :-1] - shown[:, -1:]
        return int(form(slopes, lab.design(orders, position, len(utility)), len(position), len(utility)))

    return freedom


def rank(*blocks):
    return np.linalg.matrix_rank(np.hstack(blocks))


def of_unknowns(taken):
    return lambda slopes, matrix, places, n: n + places - 1 - taken(slopes, matrix)


def counted(rows):
    """A freedom that counts rows(orders) in the place of a rank, and knows that full orders leave something open."""

    def freedom(orders, position, utility):
        n, places = len(utility), len(position)
        return max(int(places == n), n + places - 1 - len(rows(orders)))

    return freedom


def measuring(*, of=np.mean, over=np.mean, place=lambda order, gold: min(map(order.index, gold)), rank=lambda p: 1 / p):
    """A measurement with a mistake in it: of the orders of a question, over the questions, the place, what is made of it."""

    def measured(questions, orders_of):
        rows = []
        for question in questions:
            orders = [list(map(int, order)) for order in orders_of(question)]
            right = of([question["right"]["-".join(map(str, order))] for order in orders])
            rows.append((right, of([rank(1 + place(order, question["gold"])) for order in orders])))
        return dict(zip(("right", "rank"), over(rows, axis=0).tolist(), strict=True))

    return measured


def pooled(questions, orders_of):
    pairs = [(question, order) for question in questions for order in orders_of(question)]
    parts = [lab.measured([question], lambda _, order=order: [order]) for question, order in pairs]
    return {name: float(np.mean([part[name] for part in parts])) for name in ("right", "rank")}


def reciprocal_of_mean(questions, orders_of):
    places = measuring(rank=lambda p: p)
    ranks = [1 / places([question], orders_of)["rank"] for question in questions]
    return lab.measured(questions, orders_of) | {"rank": float(np.mean(ranks))}


MISTAKES = [
    ("saliency", "the mean was not subtracted", scored(lambda product: product)),
    ("saliency", "no exp here", scored(np.exp)),
    ("saliency", "probabilities that sum to 1", scored(shares)),
    ("saliency", "the log of the sum was subtracted", scored(lambda product: np.log(shares(product)))),
    ("saliency", "the largest was subtracted", scored(lambda product: product - product.max())),
    ("saliency", "divided by the mean", scored(lambda product: product / product.mean())),
    ("saliency", "divided by the spread too", scored(lambda product: (product - product.mean()) / product.std())),
    ("saliency", "a likelier question is a better order", scored(lambda product: product.mean() - product)),
    ("saliency", "two lists joined by +", joined_lists),
    ("saliency", "the second factor was left out", lambda query, passages=None: lab.saliency(query)),
    ("saliency", "the logarithms were multiplied", joined(lambda query, passages: query * passages)),
    ("saliency", "the second factor was divided by", joined(lambda query, passages: query - passages)),
    ("saliency", "query was changed in place (+= or -=", in_place),
    ("saliency", "the passages were added to it", half_in_place),
    ("saliency", "passages was changed in place (+= or -=", passages_in_place),
    ("saliency", "the query was added to it", passages_half_in_place),
    ("design", "a 1 where a passage is shown", lambda *given: (lab.design(*given) > 0).astype(float)),
    ("design", "the first place of an order has the first", lambda o, a, n: lab.design(o, np.asarray(a)[::-1], n)),
    ("design", "make a row per order", lambda *given: lab.design(*given).T),
    ("design", "a column per place came", lambda o, a, n: np.tile(a, (len(o), 1))),
    ("design", "the passages were counted from 1", lambda *given: np.roll(lab.design(*given), -1, axis=1)),
    ("design", "row i gets order i alone", by_column),
    ("design", "only the first place was filled in", first_only),
    ("design", "or was written over", all_but_first),
    ("objective", "the mean of the squared errors", erring(lambda errors: np.mean(errors**2))),
    ("objective", "the square root was taken", erring(lambda errors: np.sqrt(np.sum(errors**2)))),
    ("objective", "the root of the mean", erring(lambda errors: np.sqrt(np.mean(errors**2)))),
    ("objective", "signs dropped", erring(lambda errors: np.abs(errors).sum())),
    ("objective", "so that they cancel", erring(np.sum)),
    ("objective", "summed before squaring", erring(lambda errors: errors.sum() ** 2)),
    ("objective", "utilities were taken by place", by_place),
    ("objective", "first place has the first", erring(squares, position=lambda a: a[::-1])),
    ("objective", "every place counted alike", erring(squares, position=lambda a: 0 * a + 1 / len(a))),
    ("objective", "the largest squared error alone", erring(lambda errors: np.max(errors**2))),
    ("best_utility", "the mean score of the orders", means),
    ("best_utility", "is half the way", of_design(lambda matrix, scores: matrix.T @ scores)),
    ("best_utility", "hand the position to your design", of_design(solve, position=lambda a: 0 * a + 1 / len(a))),
    ("best_utility", "hand on the position as it is", of_design(solve, position=lambda a: a[::-1])),
    ("best_utility", "the mean of the scores was subtracted", of_design(lambda m, s: solve(m, s - s.mean()))),
    ("best_utility", "divided by their sum", of_design(lambda m, s: solve(m, s) / (solve(m, s).sum() or 1.0))),
    ("best_utility", "as many as passages", of_design(lambda m, s: solve(m[: m.shape[1]], s[: m.shape[1]]))),
    ("best_utility", "added to the diagonal", of_design(ridge)),
    ("best_utility", "solve for all passages at once", of_design(weighted_means)),
    ("best_utility", "fitted on its own", of_design(alone)),
    ("best_utility", "a constant was fitted", of_design(with_constant)),
    ("best_utility", "passage 2 is missing", shown_only),
    ("best_position", "the constraint is missing", of_shown(solve)),
    ("best_position", "then divided by the sum: another minimum", of_shown(divided)),
    ("best_position", "then shifted to sum to 1", of_shown(shifted)),
    ("best_position", "the sum was one more equation", of_shown(one_more_row)),
    ("best_position", "that, divided by its sum", of_shown(one_more_row_divided)),
    ("best_position", "the last coefficient is missing", lambda *given: lab.best_position(*given)[:-1]),
    ("best_position", "turned round", lambda *given: lab.best_position(*given)[::-1]),
    ("best_position", "s - u of the last passage", eliminated(apart, lambda shown, scores: scores)),
    ("best_position", "not u of the first alone", eliminated(lambda shown: shown[:, :-1], rest)),
    ("best_position", "these utilities prefer another", of_shown(lambda v, s: np.full(v.shape[1], 1 / v.shape[1]))),
    ("best_position", "the neighbour was subtracted", eliminated(lambda shown: shown[:, :-1] - shown[:, 1:], rest)),
    ("best_position", "found one by one", of_shown(one_by_one)),
    ("best_position", "cut off at 0 and 1", cut),
    ("fit", "those of the position before", alternating(last=False)),
    ("fit", "the start came back", alternating(every=0)),
    ("fit", "swapped: return the position first", lambda *given: alternating()(*given)[::-1]),
    ("fit", "two rounds were made", alternating(more=1)),
    ("fit", "begin at `start`", alternating(start=lambda a: 0 * a + 1 / len(a))),
    ("fit", "`start` was turned round", alternating(start=lambda a: a[::-1])),
    ("fit", "`rounds` was not used", alternating(every=50)),
    ("fit", "one round only", alternating(every=1)),
    ("fit", "the position stayed at equal places", alternating(keep=False)),
    ("fit", "start was changed in place", start_changed),
    ("fit", "one round was made, none is asked for", at_least_once),
    ("stretched", "stretched by c too", stretching(utility=lambda u, v, c: v + (u - v) * c)),
    ("stretched", "left as they are", stretching(utility=lambda u, v, c: u)),
    ("stretched", "the position was left as it is", stretching(position=lambda a, level, c: a)),
    ("stretched", "so that it does not sum to 1", stretching(position=lambda a, level, c: c * a)),
    ("stretched", "as distances from their means", lambda a, u, c: (c * np.asarray(a), np.asarray(u) / c)),
    ("stretched", "divide their distance from the mean", stretching(utility=lambda u, v, c: u / c)),
    ("stretched", "c and 1 / c are swapped", lambda a, u, c: lab.stretched(a, u, 1 / c)),
    ("stretched", "the utilities lack their mean", stretching(utility=lambda u, v, c: (u - v) / c)),
    ("stretched", "the position lacks its mean", stretching(position=lambda a, level, c: c * (a - level))),
    ("stretched", "the median of the utilities", stretching(utility=about_median)),
    ("stretched", "the sign of c was lost", lambda a, u, c: lab.stretched(a, u, abs(c))),
    ("stretched", "not of places", turned_by_place),
    ("freedom", "this is the rank", counting(lambda slopes, matrix, places, n: rank(slopes, matrix))),
    ("freedom", "one unknown and one way", counting(lambda slopes, m, places, n: n + places - rank(slopes, m))),
    ("freedom", "the orders were counted", counting(lambda slopes, m, places, n: len(m) - rank(slopes, m))),
    ("freedom", "only the design and the utilities", counting(lambda slopes, matrix, places, n: n - rank(matrix))),
    ("freedom", "the rank of the design alone was subtracted", counting(of_unknowns(lambda slopes, m: rank(m)))),
    ("freedom", "position's slopes alone", counting(of_unknowns(lambda slopes, m: rank(slopes)))),
    ("freedom", "of which only two differ: take the rank", counted(list)),
    ("freedom", "1, as for other positions", counted(lambda orders: np.unique(orders, axis=0))),
    ("rerank", "the lowest comes first", lambda utility: np.argsort(utility, kind="stable")),
    ("rerank", "the place of each passage", lambda utility: np.argsort(lab.rerank(utility))),
    ("rerank", "equal ones come out last first", lambda utility: np.argsort(utility, kind="stable")[::-1]),
    ("rerank", "utilities came, sorted", lambda utility: np.sort(utility)[::-1]),
    ("rerank", "passages begin at 0, not at 1", lambda utility: lab.rerank(utility) + 1),
    ("rerank", "only the best passage", lambda utility: int(np.argmax(utility))),
    ("measured", "all orders were pooled", pooled),
    ("measured", "the best order of each question", measuring(of=np.max)),
    ("measured", "only the first order of each question", measuring(of=lambda values: values[0])),
    ("measured", "only the last order of each question", measuring(of=lambda values: values[-1])),
    ("measured", "sums over the questions", measuring(over=np.sum)),
    ("measured", "the last gold passage", measuring(place=lambda order, gold: max(map(order.index, gold)))),
    ("measured", "that `gold` names first", measuring(place=lambda order, gold: order.index(gold[0]))),
    ("measured", "the place itself", measuring(rank=lambda place: place)),
    ("measured", "the first place counts as 2", measuring(rank=lambda place: 1 / (place + 1))),
    ("measured", "1 over the mean place", reciprocal_of_mean),
    ("measured", "order[gold] is a passage", measuring(place=lambda order, gold: min(order[p] for p in gold))),
]
