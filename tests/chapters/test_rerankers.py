"""Who ranks the passages how: cases by hand, brute force, and what a small model is asked."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.moi_position import rerankers
from rag_utils import lm, moi
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.measures import moi as measure
from rag_utils.prompts import Prompt
from rag_utils.score import one_by_one

repeatable = settings(deadline=None, derandomize=True, max_examples=60)


# --- gold moved, orders turned ---------------------------------------------------------------------


@repeatable
@given(st.sets(st.integers(0, 5), min_size=1, max_size=3), st.sampled_from(["first", "middle", "last"]))
def test_gold_moves_together_and_the_others_keep_their_order(gold, where):
    order = rerankers.with_gold(6, sorted(gold), where)
    assert sorted(order) == list(range(6))
    assert [place for place in order if place not in gold] == sorted(set(range(6)) - gold)
    first = order.index(min(gold))
    assert order[first : first + len(gold)] == sorted(gold)
    assert (first == 0) == (where == "first")


def test_reversed_orders():
    assert rerankers.reversed_orders({"q": [[2, 0, 1]]}) == {"q": [[1, 0, 2]]}


# --- asked of a reader -----------------------------------------------------------------------------

READ = Prompt("read", "$documents\nQ: $question\nA:", chat=False)
PASSAGES = tuple(Passage(name, "t", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three")))
QUESTION = Question(id="q1", text="which?", answers=("two",), dataset="companion", gold=(PASSAGES[1],))
SHOWN = {"q1": PASSAGES}


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def test_sequential_choice_is_the_greedy_one(reader):
    [order] = one_by_one.sequential(reader, [QUESTION], SHOWN, prompt=READ)["q1"]
    every = {"set": {"q1": [list(some) for k in (1, 2) for some in permutations(range(3), k)]}}
    table = measure.saliencies(reader, [QUESTION], SHOWN, every, prompt=READ).set_index("order")
    score = table["query"] + table["passages"]
    assert order[0] == int(score[["0", "1", "2"]].idxmax())
    rest = [f"{order[0]}-{place}" for place in range(3) if place != order[0]]
    assert measure.label(order[:2]) == score[rest].idxmax() and sorted(order) == [0, 1, 2]


def test_votes_count_replies_in_normalised_form_and_the_first_of_equals_wins():
    rows = [{"id": "q1", "condition": "cyclic", "run": run} for run in (2, 0, 1)]
    said = pd.DataFrame(rows).assign(reply=["two.", "No", "The Two"])
    [vote] = rerankers.votes(said, [QUESTION]).to_dict("records")
    assert vote["reply"] == "The Two" and vote["exact_match"] == 1.0 and vote["order"] == "votes"
    tied = rerankers.votes(said.assign(reply=["two", "one", "three"]), [QUESTION])
    assert tied["reply"].tolist() == ["one"]  # run 0


def test_rankings_from_saliencies():
    """Utilities 0.1 .. 2.2 in disorder; the passages' own probability is against them."""
    utility, rng = np.array([0.4, 2.2, 0.1, 1.5, 0.9]), np.random.default_rng(0)
    rows = []
    sets = measure.propose(["q"], 5, {"alone": 1, "pruned": 3}, drawn=15)
    for condition, orders in sets.items():
        for run, order in enumerate(orders["q"]):
            a = [1.0] if len(order) == 1 else [0.5, 0.3, 0.2]
            row = {"id": "q", "condition": condition, "run": run, "order": measure.label(order)}
            score = float(moi.predict([order], a, utility)[0]) - 20
            rows.append(row | {"query": score, "passages": -20 * utility[order[0]], "information": rng.normal() - 1})
    table = pd.DataFrame(rows)
    ways = rerankers.from_saliencies(table, size=5)
    best = moi.rerank(utility).tolist()
    assert ways["QG"]["q"] == ways["MoI"]["q"] == [best] and ways["Bayes saliency"]["q"] == [best[::-1]]
    assert ways["retriever"]["q"] == [[0, 1, 2, 3, 4]] and sorted(ways["random"]["q"][0]) == [0, 1, 2, 3, 4]
    information = table.loc[table["condition"] == "alone", "information"].to_numpy()
    assert ways["LongLLMLingua"]["q"] == [moi.rerank(information).tolist()]
    fits = {"MoI": measure.fitted(table, "pruned", size=5, starts=4)}
    given = rerankers.from_saliencies(table, size=5, fits=fits)
    assert given["MoI"] == ways["MoI"] and "MoI, prior" not in given and "MoI, prior" in ways
