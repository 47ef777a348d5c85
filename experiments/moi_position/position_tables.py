"""Answers and first tokens by order, as the tables of chapter 7: places, equal replies, distances."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from experiments.orders import ORACLE, VOTES, by_way, compared
from rag_utils import answers, stats
from rag_utils.base import checks
from rag_utils.data import Question
from rag_utils.lm import LanguageModel, word_log_likelihoods
from rag_utils.measures.moi import Orders, Shown, parse
from rag_utils.prompts import Prompt

NOWHERE = "nowhere"


def with_gold(size: int, gold: Sequence[int], where: str) -> list[int]:
    """The retriever's order with the gold passages moved together to one end, or into the middle: "first", "middle" or "last".

    >>> with_gold(5, [3], "first"), with_gold(5, [0], "middle"), with_gold(5, [0, 3], "last")
    ([3, 0, 1, 2, 4], [1, 2, 0, 3, 4], [1, 2, 4, 0, 3])
    """
    checks.one_of("place", where, ("first", "middle", "last"))
    others = [place for place in range(size) if place not in set(gold)]
    before = {"first": 0, "middle": len(others) // 2, "last": len(others)}[where]
    return [*others[:before], *sorted(gold), *others[before:]]


def reversed_orders(orders: Orders) -> dict[str, list[list[int]]]:
    """The same orders from the last passage to the first."""
    return {name: [list(order)[::-1] for order in every] for name, every in orders.items()}


def best_first(said: pd.DataFrame, metrics: Mapping[str, str], **again) -> pd.DataFrame:
    """`orders.compared` of all ways, by the first metric and the best first, after the mean reciprocal rank of gold."""
    tables = {metric: by_way(said, metric) for metric in (*metrics, "gold")}
    first, gold = next(iter(metrics)), tables["gold"].mean()
    ways = tables[first].mean().sort_values(ascending=False, kind="stable").index
    ranks = {way: f"{gold[way]:.2f}" for way in ways if way not in (VOTES, ORACLE)}
    table = compared(tables, metrics, {"gold": ranks}, ways=list(ways), against=first, **again)
    return table.rename(columns={f"{metrics[first]} gain": "difference"})


def by_place(said: pd.DataFrame, ids: Sequence[str], metric: str, *, resamples: int, seed: int = 0) -> pd.DataFrame:
    """The mean of a metric by the place 1, 2, ... of the only gold passage of the questions `ids`, each order of a question counted once.

    returns : columns value, low, high, n (orders); the interval draws questions
    """
    placed = said[said["id"].isin(set(ids)) & (said["gold"] > 0)].drop_duplicates(["id", "order"])
    rows = {}
    for place, part in placed.groupby((1 / placed["gold"]).round().astype(int)):
        rows[place] = vars(stats.mean_interval(part[metric], groups=part["id"], resamples=resamples, rng=seed))
    return pd.DataFrame.from_dict(rows, orient="index").drop(columns="undefined").rename_axis("place of gold")


def same_replies(said: pd.DataFrame) -> pd.DataFrame:
    """How often two orders of a question get the same reply, by the one place in which they agree and the passage that they show there.

    said    : rows of `measures.moi.answered`, of orders of one length or ValueError; an order of a question counts once
    returns : rows (id, passage), columns 1, 2, ...: the share of same replies, in normalised form, among the pairs of orders that show this
              passage in that place and agree in no other; column "nowhere": among those that agree in none. NaN where there is no pair
    source  : ours, beside MoI, eq. 11: of replies nothing is left out, of first tokens those without a name are. The passage is held equal
              since rankings put the gold passage first, and orders may be alike for that

    >>> said = pd.DataFrame({"id": "q", "condition": "MoI", "order": ["0-1-2", "0-2-1", "2-0-1"], "reply": ["Rome", "rome.", "Bonn"]})
    >>> same_replies(said).loc[("q", 0)].to_dict()
    {'nowhere': 0.0, 1: 1.0, 2: nan, 3: nan}
    """
    each = said[said["condition"] != VOTES].drop_duplicates(["id", "order"])
    if len(lengths := {len(parse(order)) for order in each["order"]}) != 1:
        raise ValueError(f"orders must be of one length, got lengths {sorted(lengths)}")
    shares = {}
    for name, part in each.groupby("id", sort=False):
        orders, replies = np.array([parse(order) for order in part["order"]]), part["reply"].map(answers.normalize)
        one, other = np.triu_indices(len(orders), 1)
        agree, equal = orders[one] == orders[other], replies.to_numpy()[one] == replies.to_numpy()[other]
        once = agree.sum(axis=1) == 1
        for passage in range(orders.shape[1]):
            here = agree & once[:, None] & (orders[one] == passage)
            groups = {NOWHERE: ~agree.any(axis=1), **dict(enumerate(here.T, 1))}
            shares[name, passage] = {at: equal[rows].mean() if rows.any() else np.nan for at, rows in groups.items()}
    return pd.DataFrame.from_dict(shares, orient="index").rename_axis(["id", "passage"])


def first_tokens(
    reader: LanguageModel, questions: Sequence[Question], shown: Shown, orders: Orders, replies: dict, *, prompt: Prompt
) -> dict[str, np.ndarray]:
    """How likely each order makes the different first tokens of some replies, by question id.

    returns : per question id (orders, tokens + 1), rows of sum 1; the last column is what is left for all other tokens
    source  : MoI, appendix B and eq. 11, over the whole vocabulary; one column for the rest makes a distance at most smaller
    """
    tables = {}
    for question in questions:
        tokens = dict.fromkeys(reader.encode(" " + said, context=False)[0] for said in replies[question.id] if said)
        passages = [[shown[question.id][place].text for place in order] for order in orders[question.id]]
        texts = [prompt.fill(question=question.text, documents=documents) for documents in passages]
        known = np.exp(word_log_likelihoods(reader, texts, [reader.tokenizer.decode([token]) for token in tokens]))
        tables[question.id] = np.hstack([known, np.maximum(0, 1 - known.sum(axis=1, keepdims=True))])
    return tables


def distances(probabilities: Mapping[str, np.ndarray], orders: Orders) -> pd.DataFrame:
    """The L1 distance of the `first_tokens` of every two different orders of a question, and whether they begin with the same passage.

    returns : columns id, run (the pair), same_first, distance (0 .. 2, the unnamed tokens as one), at_most (0 .. 2) and known (share of
              probability in the named tokens). Over all tokens the distance is `distance` if each unnamed one changes in the same
              direction, `at_most` if none is likely under both orders, and between the two otherwise
    source  : MoI, eq. 11 and Fig. 7; the bounds are ours

    >>> table = distances({"q": np.array([[0.5, 0.5], [0.25, 0.75]])}, {"q": [[0, 1], [1, 0]]})
    >>> table["distance"].item(), table["at_most"].item()
    (0.5, 1.5)
    """
    rows = []
    for name, shares in probabilities.items():
        ranked = [list(order) for order in orders[name]]
        pairs = [(i, k) for i in range(len(ranked)) for k in range(i) if ranked[i] != ranked[k]]
        for run, (i, k) in enumerate(pairs):
            distance, rest = float(np.abs(shares[i] - shares[k]).sum()), shares[[i, k], -1]
            row = {"id": name, "run": run, "same_first": ranked[i][0] == ranked[k][0], "distance": distance}
            rows.append(row | {"at_most": distance + 2 * float(rest.min()), "known": float(1 - rest.sum() / 2)})
    return pd.DataFrame(rows)
