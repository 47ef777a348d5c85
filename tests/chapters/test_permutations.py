"""Orders of passages: how they are written, proposed and compared."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from experiments.moi_position import permutations
from rag_utils.data import Passage, Question

PASSAGES = [Passage(name, "title", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three"))]
QUESTION = Question(id="q1", text="which?", answers=("two",), dataset="companion", gold=(PASSAGES[1],))
few = settings(deadline=None, derandomize=True, max_examples=30)


@few
@given(st.permutations(range(6)))
def test_a_label_is_read_back(order):
    assert permutations.parse(permutations.label(order)) == order


@few
@given(st.sets(st.integers(0, 5), min_size=1, max_size=3), st.sampled_from(["first", "middle", "last"]))
def test_gold_moves_together_and_the_others_keep_their_order(gold, where):
    order = permutations.with_gold(6, sorted(gold), where)
    assert sorted(order) == list(range(6))
    assert [place for place in order if place not in gold] == sorted(set(range(6)) - gold)
    first = order.index(min(gold))
    assert order[first : first + len(gold)] == sorted(gold)
    assert (first == 0) == (where == "first")


def test_gold_that_the_retriever_missed_is_shown_last():
    by_id = {passage.id: passage for passage in PASSAGES}
    run = {"q1": {"a": 3.0, "c": 2.0}}
    assert [p.id for p in permutations.candidates([QUESTION], run, by_id, size=2)["q1"]] == ["a", "b"]
    found = permutations.candidates([QUESTION], {"q1": {"b": 3.0, "a": 2.0, "c": 1.0}}, by_id, size=2)
    assert [p.id for p in found["q1"]] == ["b", "a"] and permutations.gold_places(QUESTION, found) == [0]
    with pytest.raises(ValueError, match="has 3 passages to show, wanted 4"):
        permutations.candidates([QUESTION], run, by_id, size=4)


def test_proposed_orders_depend_on_the_seed_only():
    first = permutations.propose(["q1", "q2"], 5, permutations.SETS, prefix=3, orders=4)
    again = permutations.propose(["q1"], 5, [permutations.PRUNED], prefix=3, orders=4)
    assert np.array_equal(first["pruned"]["q1"], again["pruned"]["q1"])
    assert {name: some["q2"].shape for name, some in first.items()} == {
        "alone": (5, 1),
        "pruned": (4, 3),
        "full": (4, 5),
        "cyclic": (5, 5),
        "cyclic pruned": (5, 3),
    }
    with pytest.raises(ValueError, match="unknown set of orders"):
        permutations.propose(["q1"], 5, ["prund"], prefix=3, orders=4)


def test_agreement_by_hand():
    assert permutations.agreement([0, 1, 2, 3], [0, 1, 2, 3]) == 1
    # of the pairs of 2-0-1 against 0-1-2 only 0 before 1 agrees: (1 - 2) / 3
    assert permutations.agreement([2, 0, 1], [0, 1, 2]) == pytest.approx(-1 / 3)


@few
@given(st.permutations(range(5)), st.permutations(range(5)))
def test_agreement_has_no_direction_and_turns_with_a_ranking(one, other):
    tau = permutations.agreement(one, other)
    assert permutations.agreement(other, one) == pytest.approx(tau)
    assert permutations.agreement(one[::-1], other) == pytest.approx(-tau)


def test_agreement_is_of_places_and_not_of_the_lists_read_as_numbers():
    one, other = [1, 2, 3, 0], [1, 0, 2, 3]  # disagree on 0 before 2 and 0 before 3 only
    assert permutations.agreement(one, other) == pytest.approx((4 - 2) / 6)
    assert kendalltau(one, other).statistic == pytest.approx((2 - 4) / 6)


def test_reversed_orders():
    assert permutations.reversed_orders({"q": [[2, 0, 1]]}) == {"q": [[1, 0, 2]]}
