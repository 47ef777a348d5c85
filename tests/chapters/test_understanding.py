"""Replies under edits: what a tiny reader is asked, and what measures, sides and areas say of invented replies."""

import math

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.dense_thresholds import understanding
from rag_utils import lm, similarity
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.lm import Generation
from rag_utils.prompts import Prompt

ENTAILS = Prompt("entails", "$question $premise > $hypothesis ", chat=False)
A, B = Passage("a", "title", "one alpha"), Passage("b", "title", "two beta")
QUESTIONS = [
    Question(id="q1", text="which letter", answers=("alpha",), dataset="companion", gold=(A,)),
    Question(id="q2", text="which number", answers=("two",), dataset="companion", gold=(B,)),
]
SHOWN = {"q1": [A, B], "q2": [B, A]}
OTHER = {A.text: "alpha is one", B.text: "beta is second"}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    profile = tiny.llama(tmp_path_factory.mktemp("reader"))
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def said(*texts, surprise=1.0):
    return [Generation(f" {text}", (1, 2), np.array([-surprise, -surprise / 2])) for text in texts]


class SameWords:
    def equivalent(self, questions, left, right):
        assert all(a != b for a, b in zip(left, right, strict=True)), "equal texts need no judge"
        return np.array([0.8 if set(a.split()) & set(b.split()) else 0.1 for a, b in zip(left, right, strict=True)])


def test_entailment_is_the_first_word_against_the_likelier_other(reader):
    found = understanding.entailment(reader, ENTAILS, ["q", "q"], ["a", "b"], ["b", "a"])
    yes, no, neutral = (
        tokens.sum() for tokens in reader.log_likelihood(["q a > b "] * 3, ["entailment", "contradiction", "neutral"])
    )
    assert found[0] == pytest.approx(yes - max(no, neutral))
    assert found.shape == (2,)


def test_measures_by_hand():
    table = understanding.judged(
        SameWords(), QUESTIONS[:1], {"edits": {"q1": said("alpha", "the alpha", "beta", "alpha")}}
    )
    row = table.iloc[0]
    # three replies agree, one does not: degrees 3, 3, 1, 3 of 4
    assert row["dense"] == pytest.approx((3 * math.log(4 / 3) + math.log(4)) / 4)
    assert row["discrete_semantic_entropy"] == pytest.approx(0.75 * math.log(4 / 3) + 0.25 * math.log(4))
    assert row["semantic_entropy"] == pytest.approx(row["discrete_semantic_entropy"])  # equal likelihoods
    # agreements as numbers: the three are linked by 0.8, 1 and 0.8, the lonely one by 0.1
    assert row["u_deg"] == pytest.approx(1 - (4 + 2 * (0.8 + 1 + 0.8) + 6 * 0.1) / 16)
    assert row[["exact_match", "others_exact_match", "moved", "different", "n"]].tolist() == [1, 2 / 3, 1, 3, 4]
    with pytest.raises(ValueError, match="at least two replies"):
        understanding.judged(SameWords(), QUESTIONS[:1], {"edits": {"q1": said("alpha")}})


def test_dense_is_not_the_entropy_of_clusters_where_agreement_is_not_transitive():
    agreement = np.array([[1, 0.9, 0.1], [0.9, 1, 0.9], [0.1, 0.9, 1]])
    found = understanding.measures(agreement, np.array([-1.0, -1.0, -1.0]))
    assert found["dense"] == pytest.approx(2 * math.log(3 / 2) / 3)
    assert found["discrete_semantic_entropy"] > found["dense"] + 0.3


def test_one_way_entailment_is_half_a_link_and_no_cluster():
    found = understanding.measures(np.array([[1, 0.9], [0.2, 1]]), np.array([-1.0, -1.0]))
    assert found["dense"] == pytest.approx(math.log(2 / 1.5))
    assert found["discrete_semantic_entropy"] == pytest.approx(math.log(2))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["alpha", "beta", "gamma"]), min_size=2, max_size=6), st.randoms())
def test_the_order_of_the_replies_changes_no_measure(texts, random):
    shuffled = list(texts)
    random.shuffle(shuffled)
    one, other = (
        understanding.judged(SameWords(), QUESTIONS[:1], {"x": {"q1": said(*some)}}).iloc[0]
        for some in (texts, shuffled)
    )
    for column in understanding.MEASURES.values():
        assert one[column] == pytest.approx(other[column], abs=1e-8)
    assert one["dense"] == pytest.approx(one["discrete_semantic_entropy"], abs=1e-8)  # transitive agreement


def test_edits_say_what_became_of_each_passage():
    replies = {"q1": said("alpha", "beta", "alpha"), "q2": said("one", "two", "one")}
    agreed = understanding.agreements(
        SameWords().equivalent, QUESTIONS, {(name, "edits"): some for name, some in replies.items()}
    )
    table = understanding.edits(QUESTIONS, SHOWN, OTHER, replies, agreed, {A.text: 0.9, B.text: 0.2})
    assert table[["id", "rank"]].values.tolist() == [["q1", 1], ["q1", 2], ["q2", 1], ["q2", 2]]
    assert table["gold"].tolist() == [1, 0, 1, 0]
    assert table["answer"].tolist() == [1, 0, 1, 0]
    assert table["kept"].tolist() == [1, 0, 0, 0]  # "second" is not "two"
    assert table["moved"].tolist() == [1, 0, 1, 0]
    assert table["before"].tolist() == [1, 1, 0, 0] and table["after"].tolist() == [0, 1, 1, 0]
    assert table["faithful"].tolist() == [0.9, 0.2, 0.2, 0.9]


def ranked(n=60, seed=0):
    rng = np.random.default_rng(seed)
    correct = rng.integers(0, 2, n).astype(float)
    table = pd.DataFrame({"id": [f"q{i}" for i in range(n)], "exact_match": correct})
    for number, column in enumerate(understanding.MEASURES.values()):
        table[column] = rng.normal(size=n) * number - correct
    return table


def test_the_threshold_itself_is_certain():
    table = pd.DataFrame({"dense": [0.0, 0.2, 0.2, 0.5, 0.9], "exact_match": [1.0, 1, 0, 0, 1]})
    found = understanding.sides(table, [0.2, 0.5, 0.9], resamples=60).set_index(["threshold", "side"])
    assert found.loc[(0.2, "certain"), "n"] == 3 and found.loc[(0.2, "uncertain"), "n"] == 2
    assert found.loc[(0.2, "difference"), "value"] == pytest.approx(2 / 3 - 1 / 2)
    assert list(found.loc[0.5].index) == ["certain"]  # one uncertain question has no interval
    assert found.loc[(0.9, "certain"), "value"] == 0.6


def test_side_by_side_takes_dense_from_one_and_the_rest_from_the_other():
    edited, drawn = ranked(seed=1), ranked(seed=2)
    found = understanding.side_by_side(edited, drawn.sample(frac=1, random_state=0))
    assert found["dense"].tolist() == edited["dense"].tolist()
    assert found["exact_match"].tolist() == edited["exact_match"].tolist()
    assert found["u_eigv"].tolist() == drawn["u_eigv"].tolist()


def test_overlap_entropy_needs_no_judge_and_no_decision():
    one, two = "the moon pulls the sea", "the moon raises tides"
    share = similarity.rouge_l(one, [two])
    assert 0 < share < 1
    assert understanding.overlap_entropy(said(one, two)) == pytest.approx(math.log(2 / (1 + share)))
    assert understanding.overlap_entropy(said(one, one, one)) == 0
    assert understanding.overlap_entropy(said("alpha", "beta", "")) == pytest.approx(math.log(3))
