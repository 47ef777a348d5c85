"""Tables of answers and first tokens by order."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import tiny
import tiny_orders
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.moi_position import position_numbers as tables
from experiments.moi_position import rerankers
from rag_utils import lm
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.prompts import Prompt

few = settings(deadline=None, derandomize=True, max_examples=30)


@few
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


@pytest.fixture
def said():
    return tiny_orders.said()


def test_by_place_counts_an_order_once(said):
    found = tables.by_place(said, "exact_match", resamples=200)
    assert found["n"].to_dict() == {1: 2, 2: 2, 3: 4}  # "0-1-2" is MoI's and a cyclic one; place 3: QG's and "1-2-0"
    assert found["value"].to_dict() == pytest.approx({1: 1, 2: 0, 3: (0 + 1 + 0 + 1) / 4})


def test_same_replies_by_hand():
    """Orders 0-1-2 and 0-2-1 share their first passage only; the vote and an order that comes twice count for nothing."""
    orders = ["0-1-2", "0-2-1", "1-2-0", "0-1-2", "votes"]
    replies = ["Rome", "The Rome.", "Bonn", "Rome", "Bonn"]
    ways = ["MoI", "QG", "QG", "cyclic", "self-consistency"]
    said = pd.DataFrame({"id": "q", "condition": ways, "order": orders, "reply": replies})
    found = tables.same_replies(said)
    assert list(found.columns) == ["nowhere", 1, 2, 3] and list(found.index) == [("q", 0), ("q", 1), ("q", 2)]
    assert (found["nowhere"] == 0).all()  # 0-1-2 and 1-2-0
    assert found.loc[("q", 0), 1] == 1 and found.loc[("q", 2), 2] == 0  # 0-2-1 and 1-2-0 agree in the middle
    assert found[[1, 2, 3]].notna().sum().sum() == 2
    with pytest.raises(ValueError, match=r"of one length, got lengths \[2, 3\]"):
        tables.same_replies(said.assign(order=["0-1-2", "0-2-1", "1-2", "0-1-2", "votes"]))


def test_a_reader_of_the_first_passage_is_seen_in_that_place_alone():
    """All orders of four passages, and a reply that names the first one."""
    labels = ["-".join(map(str, order)) for order in permutations(range(4))]
    said = pd.DataFrame({"id": "q", "condition": "MoI", "order": labels, "reply": [f"city {one[0]}" for one in labels]})
    found = tables.same_replies(said)
    assert (found == [0, 1, 0, 0, 0]).all(axis=None)


def test_without_the_passage_held_equal_a_place_would_be_seen_that_does_nothing():
    """The reply is right where passage 0 is in one of the first two places; orders that rankings made have it in the first more often."""
    labels = [f"0-{a}-{b}-{c}" for a, b, c in permutations((1, 2, 3))] + ["1-0-2-3", "2-0-3-1", "1-3-2-0", "2-1-3-0"]
    replies = ["right" if 0 in (int(one[0]), int(one[2])) else one for one in labels]
    said = pd.DataFrame({"id": "q", "condition": "MoI", "order": labels, "reply": replies})
    found = tables.same_replies(said)
    matched = found[[1, 2]].dropna()
    assert matched.loc[("q", 0)].tolist() == [1, 1]  # the passage counts for as much in the second place
    assert (found[1].mean() - found[2].mean()) > (matched[1] - matched[2]).mean()


def test_distances_by_hand():
    orders = {"q": [[0, 1, 2], [0, 2, 1], [1, 0, 2], [0, 1, 2]]}
    shares = {"q": np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8], [0.5, 0.3, 0.2]])}
    table = tables.distances(shares, orders)
    assert len(table) == 5  # the first order and the last are one
    same = table[table["same_first"]]
    assert same["distance"].tolist() == pytest.approx([0.2, 0.2])
    other = table[~table["same_first"]]
    assert other["distance"].tolist() == pytest.approx([1.2, 1.2, 1.2])
    assert same["at_most"].tolist() == pytest.approx([0.6, 0.6])  # unnamed 0.2 and 0.2: as much again may differ
    assert other["at_most"].tolist() == pytest.approx([1.6, 1.6, 1.6])


@few
@given(st.integers(3, 8), st.integers(1, 7), st.integers(0, 10**6))
def test_the_distance_over_all_tokens_lies_between_the_bounds(tokens, named, seed):
    """Whatever the unnamed tokens do; and taking their two rests for the truth alone would be wrong."""
    named = min(named, tokens - 1)
    rows = np.random.default_rng(seed).dirichlet(np.full(tokens, 0.4), size=2)
    truth = np.abs(rows[0] - rows[1]).sum()
    lumped = np.hstack([rows[:, :named], rows[:, named:].sum(axis=1, keepdims=True)])
    found = tables.distances({"q": lumped}, {"q": [[0, 1], [1, 0]]}).iloc[0]
    assert found["distance"] - 1e-9 <= truth <= found["at_most"] + 1e-9
    assert 0 <= found["distance"] <= found["at_most"] <= 2 + 1e-9
    if tokens - named == 1:
        assert found["distance"] == pytest.approx(truth)  # one token without a name is known too


def test_first_tokens_and_their_distances(tmp_path):
    profile = tiny.llama(tmp_path)
    reader = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    prompt = Prompt("read", "$documents\nQ: $question\nA:", chat=False)
    passages = tuple(Passage(name, "t", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three")))
    questions = [Question(id=name, text="which?", answers=("two",), dataset="x", gold=passages[:1]) for name in "pq"]
    orders = {name: [[0, 1, 2], [0, 2, 1], [1, 0, 2]] for name in "pq"}
    replies, shown = {"p": ["two", "three", ""], "q": ["two"]}, dict.fromkeys("pq", passages)
    both = tables.first_tokens(reader, questions, shown, orders, replies, prompt=prompt)
    assert both["p"].shape == (3, 2)  # both begin with a space, one byte
    assert both["p"].sum(axis=1) == pytest.approx(np.ones(3))
    text = prompt.fill(question="which?", documents=["one", "three", "two two"])
    [[nats]] = reader.log_likelihood([text], [" "])
    assert both["p"][1, 0] == pytest.approx(np.exp(nats), rel=1e-4) and both["q"] == pytest.approx(both["p"], abs=1e-5)
    table = tables.distances({"p": both["p"]}, orders)
    assert table["same_first"].tolist() == [True, False, False]
    assert table["distance"].between(0, 2).all()
    assert table["distance"][0] == pytest.approx(2 * abs(both["p"][1, 0] - both["p"][0, 0]))
