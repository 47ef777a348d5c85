"""What is a passage worth apart from its place? MoI, built by hand.

A question has N passages, numbered from 0 in the retriever's order. An order shows the first L places of a prompt, one passage in each.
M orders have M scores, natural logarithms.
"""

import json
from pathlib import Path

import numpy as np

PLACES = ("first", "middle", "last")


def load(name):
    """The questions of data/NAME.json, "salt", "corpus" or "cheaper"; the handout says what is in them."""
    path = Path("data") / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["questions"]


# %% [markdown]
# ## Step 1. The score of an order
# How likely the reader finds the question after the passages in this order.


# %%
def saliency(query, passages=None):
    """The score of each order of one question: the logarithm of a product of two probabilities, minus its mean over the orders.

    query    : (M,) nats, log P(question | passages in this order)
    passages : (M,) nats, log P(passages in this order); None leaves this factor out
    returns  : (M,) nats, mean 0; what comes in is as before afterwards
    source   : eq. 3, in logarithms
    """
    ### BEGIN SOLUTION
    product = np.array(query, dtype=float)
    if passages is not None:
        product = product + np.asarray(passages, dtype=float)
    return product - product.mean()
    ### END SOLUTION


# %% [markdown]
# ## Step 2. Which passage counts how much in which order


# %%
def design(orders, position, n):
    """The matrix that makes scores of utilities: row i says what each passage counts in order i.

    orders   : (M, L) int, passages 0 .. n - 1 from the first place on, none twice in a row
    position : (L,) float, what each place counts
    n        : int, passages, L or more
    returns  : (M, n) float; 0 for a passage that the order does not show
    source   : eq. 4, as a matrix
    """
    ### BEGIN SOLUTION
    matrix = np.zeros((len(orders), n))
    for row, order in zip(matrix, orders, strict=True):
        row[np.asarray(order)] = position
    return matrix
    ### END SOLUTION


# %% [markdown]
# ## Step 3. What is to be made small


# %%
def objective(orders, scores, position, utility):
    """How badly utilities and position explain the scores: the sum of the squared errors over the orders.

    orders, scores : (M, L) int and (M,) float
    position       : (L,) float
    utility        : (N,) float, of passage 0, 1, ...
    returns        : float, 0 and above
    source         : section 3.1, the programme
    """
    ### BEGIN SOLUTION
    explained = design(orders, position, len(utility)) @ np.asarray(utility)
    return float(np.sum((explained - np.asarray(scores)) ** 2))
    ### END SOLUTION


# %% [markdown]
# ## Step 4. The best utilities for a position


# %%
def best_utility(orders, scores, position, n):
    """The utilities with the least `objective` for this position; of several such, those with the least sum of squares.

    So a passage that no order shows gets 0, which is the mean of the scores if they come from `saliency`.

    orders, scores, position, n : as above
    returns                     : (n,) float
    source                      : section 3.1, for a given position
    """
    ### BEGIN SOLUTION
    return np.linalg.lstsq(design(orders, position, n), np.asarray(scores, dtype=float), rcond=None)[0]
    ### END SOLUTION


# %% [markdown]
# ## Step 5. The best position for utilities


# %%
def best_position(orders, scores, utility):
    """The position with the least `objective` among those that sum to 1, for these utilities. A coefficient may come out below 0.

    orders, scores, utility : as above, L at least 2
    returns                 : (L,) float, sum 1
    source                  : section 3.1, for given utilities; the bounds 0 and 1 are left out
    """
    ### BEGIN SOLUTION
    shown = np.asarray(utility, dtype=float)[np.asarray(orders)]
    apart = shown[:, :-1] - shown[:, -1:]
    free = np.linalg.lstsq(apart, np.asarray(scores) - shown[:, -1], rcond=None)[0]
    return np.append(free, 1 - free.sum())
    ### END SOLUTION


# %% [markdown]
# ## Step 6. Both at once


# %%
def fit(orders, scores, start, n, rounds=50):
    """Position and utilities from one start: in each round the best utilities for the position, then the best position for those.

    At the end the utilities are found once more, for the position that is returned; without a round that is the start.

    start   : (L,) float, the position to begin with; it is as before afterwards
    rounds  : int, 0 or more
    returns : position (L,) and utility (n,)
    source  : section 3.1, by alternating least squares
    """
    ### BEGIN SOLUTION
    position = np.array(start, dtype=float)
    for _ in range(rounds):
        position = best_position(orders, scores, best_utility(orders, scores, position, n))
    return position, best_utility(orders, scores, position, n)
    ### END SOLUTION


def together(questions):
    """The pruned orders and scores of several questions as one problem: the passages of the second are numbered 5 .. 9. Given.

    returns : orders, scores, number of passages, as `fit` takes them. It finds one position for all
    """
    orders = [np.array(question["pruned"]["orders"]) + 5 * number for number, question in enumerate(questions)]
    scores = [saliency(question["pruned"]["query"]) for question in questions]
    return np.concatenate(orders), np.concatenate(scores), 5 * len(questions)


# %% [markdown]
# ## Step 7. Another fit, as good


# %%
def stretched(position, utility, c):
    """A position stretched by c about its mean, and the utilities that make up for it, stretched by 1 / c about theirs.

    position : (L,) float, sum 1
    utility  : (N,) float
    c        : float, not 0
    returns  : position (L,) and utility (N,); what comes in is as before afterwards
    source   : from eq. 4, where every order shows all passages, L = N
    """
    ### BEGIN SOLUTION
    position, utility = np.asarray(position, dtype=float), np.asarray(utility, dtype=float)
    return 1 / len(position) + c * (position - 1 / len(position)), utility.mean() + (utility - utility.mean()) / c
    ### END SOLUTION


# %% [markdown]
# ## Step 8. What the orders leave open


# %%
def freedom(orders, position, utility):
    """In how many independent ways position and utilities can move a little, the position keeping its sum, with no score moving.

    orders, position, utility : as above
    returns                   : int, N + L - 1 minus the rank of the slopes of the scores; 0 if nothing is left open nearby
    source                    : eq. 4, differentiated
    """
    ### BEGIN SOLUTION
    shown = np.asarray(utility, dtype=float)[np.asarray(orders)]
    slopes = np.hstack([shown[:, :-1] - shown[:, -1:], design(orders, position, len(utility))])
    return int(slopes.shape[1] - np.linalg.matrix_rank(slopes))
    ### END SOLUTION


# %% [markdown]
# ## Step 9. The ranking, and what it is good for


# %%
def rerank(utility):
    """The passages from the highest utility to the lowest; of equal ones the one that the retriever has earlier goes first.

    utility : (N,) float
    returns : (N,) int, passages 0 .. N - 1
    source  : section 3.1
    """
    ### BEGIN SOLUTION
    return np.argsort(-np.asarray(utility, dtype=float), kind="stable")
    ### END SOLUTION


# %%
def measured(questions, orders_of):
    """What the reader makes of orders, first the mean over the orders of each question, then over the questions.

    questions : list of dicts with "gold" (passages that are needed) and "right" (order such as "1-0-2" -> 1 if the reply was right, 0)
    orders_of : function of a question, returns its orders, each a list of passages
    returns   : dict, "right" (share) and "rank" (1 / place of the first gold passage, places counted from 1), both 0 .. 1
    source    : Tables 1 and 7
    """
    ### BEGIN SOLUTION
    rows = []
    for question in questions:
        orders = orders_of(question)
        right = np.mean([question["right"]["-".join(map(str, order))] for order in orders])
        rank = np.mean([1 / (1 + min(order.index(passage) for passage in question["gold"])) for order in orders])
        rows.append((right, rank))
    return dict(zip(("right", "rank"), np.mean(rows, axis=0).tolist(), strict=True))
    ### END SOLUTION


# %% [markdown]
# ## What you measured
# Given: it calls what you have written.


# %%
def report():
    """Print Port Sennick; fits from two starts; what the two factors of a score are; and what rankings are good for."""
    corpus = load("corpus")
    _report_salt(load("salt")[0])
    _report_starts([question for question in corpus if "full" in question])
    position, _ = fit(*together(corpus)[:2], np.full(3, 1 / 3), 5 * len(corpus), rounds=10)
    print(f"\none position for {len(corpus)} questions, pruned orders: " + ", ".join(f"{a:.3f}" for a in position))
    spreads = [np.median([np.ptp(each["pruned"][name]) for each in corpus]) for name in ("query", "passages")]
    print(f"median spread over the orders: question {spreads[0]:.0f} nats, passages {spreads[1]:.0f}")
    ways = {
        "by utility": by_utility,
        "the same reversed": lambda question: [by_utility(question)[0][::-1]],
        "each passage alone": lambda question: [list(rerank(question["alone"]))],
        "average order": lambda question: question["cyclic"]["orders"],
    }
    ways |= {f"gold {place}": lambda question, place=place: [question["placed"][place]] for place in PLACES}
    _report_ways(corpus, ways)
    cheaper = load("cheaper")
    ways = {way: lambda question, way=way: question["orders"][way] for way in cheaper[0]["orders"]}
    _report_ways(cheaper, ways)


def by_utility(question):
    """The ranking by utility, in a list, for the position where the book's search ended for this question. Given."""
    pruned = question["pruned"]
    return [list(rerank(best_utility(pruned["orders"], saliency(pruned["query"]), question["position"], 5)))]


def starts(length):
    """A position that falls, and its mirror image, which rises as much. Given."""
    falling = np.arange(length, 0, -1) / np.arange(length + 1).sum()
    return falling, 2 / length - falling


def _report_salt(question):
    orders, scores = question["orders"], np.asarray(saliency(question["query"]))
    position, utility = fit(orders, scores, np.full(3, 1 / 3), 5)
    error = objective(orders, scores, position, utility)
    [gold], ranking = question["gold"], rerank(utility)
    print("passages          " + "".join(f"{name:>9}" for name in question["passages"]))
    print("utility (nats)    " + "".join(f"{value:9.1f}" for value in utility))
    print("ranking           " + "".join(f"{number:9}" for number in ranking))
    print("position          " + "".join(f"{value:9.3f}" for value in position))
    print(f"explained {1 - error / np.sum(scores**2):.3f}, left open: {freedom(orders, position, utility)}")
    for place in (0, 1, 2, None):
        those = [order.index(gold) if gold in order else None for order in orders]
        nats = [value for value, there in zip(question["query"], those, strict=True) if there == place]
        title = "nowhere" if place is None else f"place {place + 1}"
        print(f"  log P(question), right passage at {title}: {np.mean(nats):6.1f} ({len(nats)} orders)")
    beliefs = ", ".join(f"{value:g}" for value in question["by_place"])
    print(f"  P(1829), right passage at place 1 to {len(question['by_place'])} of all six: {beliefs}")


def _report_starts(questions):
    print(f"\n{len(questions)} questions, from a falling and from a rising start")
    print(f"{'orders':<16}{'a question':>11}{'left open':>10}{'same ranking':>13}{'reversed':>9}{'undecided':>10}")
    for name in ("full", "cyclic", "cyclic pruned", "pruned"):
        rows = []
        for question in questions:
            orders, scores = question[name]["orders"], np.asarray(saliency(question[name]["query"]))
            fits = [fit(orders, scores, start, 5) for start in starts(len(orders[0]))]
            errors = [objective(orders, scores, *each) for each in fits]
            falling, rising = (list(rerank(utility)) for _, utility in fits)
            undecided = falling != rising and abs(errors[0] - errors[1]) <= 0.01 * max(errors) + 1e-9
            rows.append((len(orders), freedom(orders, *fits[0]), falling == rising, falling == rising[::-1], undecided))
        calls, left, same, turned, undecided = np.array(rows, dtype=int).T
        print(f"{name:<16}{calls[0]:11}{left.max():10}{same.sum():13}{turned.sum():9}{undecided.sum():10}")
    for title, start in zip(("falling", "rising"), starts(5), strict=True):
        full = [question["full"] for question in questions]
        fits = [fit(each["orders"], saliency(each["query"]), start, 5)[0] for each in full]
        print(
            f"mean position, full orders, {title + ' start:':<15}" + "".join(f"{a:7.3f}" for a in np.mean(fits, axis=0))
        )


def _report_ways(questions, ways):
    print(f"\n{f'{len(questions)} questions, ordered':<28}{'rank of gold':>13}{'right':>8}")
    for title, orders_of in ways.items():
        row = measured(questions, orders_of)
        print(f"{title:<28}{row['rank']:13.3f}{row['right']:8.3f}")
