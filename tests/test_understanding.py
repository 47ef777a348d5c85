"""Replies under edits: what a tiny reader is asked, and what measures, sides and areas say of invented replies."""

import math

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_utils import dense, lm, stats, understanding, weights
from rag_utils.data import Passage, Question
from rag_utils.lm import Generation
from rag_utils.prompts import Prompt

READ = Prompt("read", "$documents\n$question", chat=False)
SAY = Prompt("say", "again: $text", chat=False)
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


def test_each_context_differs_in_one_passage(reader):
    asked = []
    generate = reader.generate
    reader.generate = lambda prompts, **options: asked.extend(prompts) or generate(prompts, **options)
    try:
        found = understanding.replies_under_edits(reader, QUESTIONS, SHOWN, OTHER, prompt=READ, max_new_tokens=3)
    finally:
        reader.generate = generate
    assert asked == [
        "Document: one alpha\nDocument: two beta\nwhich letter",
        "Document: alpha is one\nDocument: two beta\nwhich letter",
        "Document: one alpha\nDocument: beta is second\nwhich letter",
        "Document: two beta\nDocument: one alpha\nwhich number",
        "Document: beta is second\nDocument: one alpha\nwhich number",
        "Document: two beta\nDocument: alpha is one\nwhich number",
    ]
    assert {name: len(some) for name, some in found.items()} == {"q1": 3, "q2": 3}
    with pytest.raises(ValueError, match="4 passages that are shown have no other words"):
        understanding.replies_under_edits(reader, QUESTIONS, SHOWN, {}, prompt=READ)


def test_the_first_sample_is_the_reply_to_the_original_context(reader):
    how = {"prompt": READ, "temperature": 0.7, "max_new_tokens": 4, "seed": 3}
    edited = understanding.replies_under_edits(reader, QUESTIONS, SHOWN, OTHER, **how)
    drawn = understanding.samples(reader, QUESTIONS, SHOWN, n=5, **how)
    for name in ("q1", "q2"):
        assert len(drawn[name]) == 5
        assert drawn[name][0].token_ids == edited[name][0].token_ids


def test_a_rephrasing_that_is_empty_changes_nothing(reader, monkeypatch):
    monkeypatch.setattr(
        reader, "generate", lambda prompts, **options: [said("") if "beta" in p else said("x") for p in prompts]
    )
    assert understanding.rephrase(reader, ["one alpha", "two beta"], SAY) == ["x", "two beta"]


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


def test_without_unfaithful_the_reply_is_the_original_one():
    replies = {"q1": said("alpha", "beta", "gamma")}
    found = understanding.without_unfaithful(replies, SHOWN, {A.text})
    assert [reply.text for reply in found["q1"]] == [" alpha", " alpha", " gamma"]
    same = understanding.without_unfaithful(replies, SHOWN, set())
    assert same == replies


def ranked(n=60, seed=0):
    rng = np.random.default_rng(seed)
    correct = rng.integers(0, 2, n).astype(float)
    table = pd.DataFrame({"id": [f"q{i}" for i in range(n)], "exact_match": correct})
    for number, column in enumerate(understanding.MEASURES.values()):
        table[column] = rng.normal(size=n) * number - correct
    return table


def test_areas_are_those_of_stats_and_dense_leads_where_it_knows():
    table = ranked()
    cells = understanding.areas(table, resamples=60)
    assert cells.loc["DENSE", "AUROC"].value == 1  # dense has no noise
    assert cells.loc["U_deg", "AURAC"].value == stats.aurac(table["u_deg"], table["exact_match"])
    gaps = understanding.ahead(table, resamples=200).set_index(["measure", "area"])
    assert len(gaps) == 12 and (gaps["p_holm"] >= gaps["p_value"]).all()
    assert gaps.loc[("KLE Matern", "AUROC"), "value"] == pytest.approx(
        1 - stats.auroc(table["kle_matern"], table["exact_match"])
    )
    assert gaps.loc[("KLE Matern", "AUROC"), "low"] > 0
    right = table.assign(exact_match=1.0)
    assert understanding.areas(right, resamples=60).isna().all(axis=None)
    assert understanding.ahead(right, resamples=60).empty


def test_a_difference_between_parts_is_the_mean_of_their_differences():
    one, two = ranked(seed=1), ranked(30, seed=2)
    both = pd.concat([one.assign(part="one"), two.assign(part="two")])
    values = [
        stats.auroc(part["u_eigv"], part["exact_match"]) - stats.auroc(part["u_deg"], part["exact_match"])
        for part in (one, two)
    ]
    columns = both["u_eigv"], both["u_deg"], both["exact_match"]
    found = understanding.area_difference(*columns, groups=both["part"], resamples=60)
    assert found.value == pytest.approx(np.mean(values)) and found.n == 90
    pooled = understanding.area_difference(*columns, resamples=60)
    assert pooled.value != pytest.approx(np.mean(values))
    same = understanding.area_difference(both["u_deg"], both["u_deg"], both["exact_match"], resamples=60)
    assert (same.value, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    with pytest.raises(ValueError, match="one kind only"):
        understanding.area_difference([1, 2], [2, 1], [1, 1], area="AURAC")
    with pytest.raises(ValueError, match="unknown area"):
        understanding.area_difference([1, 2], [2, 1], [1, 0], area="AUPRC")


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


def test_cost_counts_a_common_beginning_once(reader):
    found = understanding.cost(reader, QUESTIONS, SHOWN, OTHER, prompt=READ).set_index("id")
    contexts = dense.single_edit_contexts(["one alpha", "two beta"], ["alpha is one", "beta is second"])
    texts = ["\n".join(f"Document: {text}" for text in some) + "\nwhich letter" for some in contexts]
    row = found.loc["q1"]
    assert row["tokens"] == sum(len(reader.encode(text)) for text in texts)
    assert row["alone"] == len(reader.encode(texts[0]))
    assert row["alone"] < row["distinct"] < row["tokens"]
    assert row[["k", "contexts", "entailments"]].tolist() == [2, 3, 6]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_the_area_of_a_resample_is_that_of_the_rows_it_holds(seed):
    rng = np.random.default_rng(seed)
    uncertainty, correct = rng.integers(0, 4, 9) / 7, rng.integers(0, 2, 9).astype(float)
    counts = rng.multinomial(9, np.full(9, 1 / 9), size=5)
    for area, function in understanding.AREAS.items():
        found = understanding.area_draws(uncertainty, correct, counts, area=area)
        for value, count in zip(found, counts, strict=True):
            rows = np.repeat(np.arange(9), count)
            if np.ptp(correct[rows]) == 0:
                assert np.isnan(value)
            else:
                assert value == pytest.approx(function(uncertainty[rows], correct[rows]))
