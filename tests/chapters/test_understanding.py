"""Replies under edits: what measures, sides and rules say of invented replies; the experiments on tiny files and a tiny reader."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import asking, table
from experiments.dense_thresholds import tables
from rag_utils import data, dense, lm, prompts, retrieve, similarity
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.lm import Generation
from rag_utils.measures.dense import Supply
from rag_utils.prompts import Prompt

READ, SAY = Prompt("read", "$documents\n$question", chat=False), Prompt("say", "again: $text", chat=False)
A, B = Passage("a", "title", "one alpha"), Passage("b", "title", "two beta")
QUESTIONS = [
    Question(id="q1", text="which letter", answers=("alpha",), dataset="companion", gold=(A,)),
    Question(id="q2", text="which number", answers=("two",), dataset="companion", gold=(B,)),
]
SUPPLIES = [Supply(QUESTIONS[0], (A, B)), Supply(QUESTIONS[1], (B, A))]
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


def test_measures_by_hand():
    drawn = {("q1", "edits"): said("alpha", "the alpha", "beta", "alpha")}
    row = tables.rows(QUESTIONS[:1], drawn, SameWords().equivalent).iloc[0]
    # three replies agree, one does not: degrees 3, 3, 1, 3 of 4
    assert row["dense"] == pytest.approx((3 * math.log(4 / 3) + math.log(4)) / 4)
    assert row["discrete_semantic_entropy"] == pytest.approx(0.75 * math.log(4 / 3) + 0.25 * math.log(4))
    assert row["semantic_entropy"] == pytest.approx(row["discrete_semantic_entropy"])  # equal likelihoods
    # agreements as numbers: the three are linked by 0.8, 1 and 0.8, the lonely one by 0.1
    assert row["u_deg"] == pytest.approx(1 - (4 + 2 * (0.8 + 1 + 0.8) + 6 * 0.1) / 16)
    assert row[["exact_match", "others_exact_match", "moved", "different", "n"]].tolist() == [1, 2 / 3, 1, 3, 4]
    with pytest.raises(ValueError, match="at least two replies"):
        tables.rows(QUESTIONS[:1], {("q1", "edits"): said("alpha")}, SameWords().equivalent)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["alpha", "beta", "gamma"]), min_size=2, max_size=6), st.randoms())
def test_the_order_of_the_replies_changes_no_measure(texts, random):
    shuffled = list(texts)
    random.shuffle(shuffled)
    one, other = (
        tables.rows(QUESTIONS[:1], {("q1", "x"): said(*order)}, SameWords().equivalent).iloc[0]
        for order in (texts, shuffled)
    )
    for column in tables.MEASURES.values():
        assert one[column] == pytest.approx(other[column], abs=1e-8)
    assert one["dense"] == pytest.approx(one["discrete_semantic_entropy"], abs=1e-8)  # transitive agreement


def test_edits_say_what_became_of_each_passage():
    replies = [said("alpha", "beta", "alpha"), said("one", "two", "one")]
    table = tables.edit_rows(SUPPLIES, replies, OTHER, {A.text: 0.9, B.text: 0.2}, SameWords().equivalent)
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
    for number, column in enumerate(tables.MEASURES.values()):
        table[column] = rng.normal(size=n) * number - correct
    return table


def test_the_threshold_itself_is_certain():
    table = pd.DataFrame({"dense": [0.0, 0.2, 0.2, 0.5, 0.9], "exact_match": [1.0, 1, 0, 0, 1]})
    found = tables.sides(table, [0.2, 0.5, 0.9], resamples=60).set_index(["threshold", "side"])
    assert found.loc[(0.2, "certain"), "n"] == 3 and found.loc[(0.2, "uncertain"), "n"] == 2
    assert found.loc[(0.2, "difference"), "value"] == pytest.approx(2 / 3 - 1 / 2)
    assert list(found.loc[0.5].index) == ["certain"]  # one uncertain question has no interval
    assert found.loc[(0.9, "certain"), "value"] == 0.6


def test_a_side_that_is_all_wrong_leaves_the_difference_its_width():
    table = pd.DataFrame({"dense": [0.0] * 130 + [1.0] * 17, "exact_match": [1.0] * 75 + [0.0] * 72})
    found = tables.sides(table, [0.2], resamples=400).set_index("side")
    sure, unsure, apart = (found.loc[side] for side in ("certain", "uncertain", "difference"))
    assert (unsure["value"], unsure["low"]) == (0, 0) and unsure["high"] == pytest.approx(0.195, abs=1e-3)
    assert apart["low"] == pytest.approx(apart["value"] - math.hypot(sure["value"] - sure["low"], unsure["high"]))
    assert apart["high"] == pytest.approx(sure["high"])
    assert 0 < apart["p_value"] < 1e-4


def test_side_by_side_takes_dense_from_one_and_the_rest_from_the_other():
    edited, drawn = ranked(seed=1), ranked(seed=2)
    found = tables.side_by_side(edited, drawn.sample(frac=1, random_state=0))
    assert found["dense"].tolist() == edited["dense"].tolist()
    assert found["exact_match"].tolist() == edited["exact_match"].tolist()
    assert found["u_eigv"].tolist() == drawn["u_eigv"].tolist()


def test_overlap_entropy_needs_no_judge_and_no_decision():
    one, two = "the moon pulls the sea", "the moon raises tides"
    share = similarity.rouge_l(one, [two])
    assert 0 < share < 1
    assert tables.overlap_entropy(said(one, two)) == pytest.approx(math.log(2 / (1 + share)))
    assert tables.overlap_entropy(said(one, one, one)) == 0
    assert tables.overlap_entropy(said("alpha", "beta", "")) == pytest.approx(math.log(3))


def test_three_rules_for_which_rephrasings_count():
    replies = [said("alpha", "beta", "gamma"), said("two", "one", "none")]
    other = OTHER | {A.text: "one letter"}  # alpha is gone from A; two from B
    assert tables.lost(SUPPLIES[0], other) == {A.text}  # B never held alpha
    found = tables.filtered(SUPPLIES, replies, other, {A.text: 0.5, B.text: 0.4})
    texts = {case: [reply.text.strip() for reply in kept] for case, kept in found.items()}
    assert texts == {
        ("q1", "edits"): ["alpha", "beta", "gamma"],
        ("q2", "edits"): ["two", "one", "none"],
        ("q1", "faithful"): ["alpha", "beta", "alpha"],
        ("q2", "faithful"): ["two", "two", "none"],
        ("q1", "answer kept"): ["alpha", "alpha", "gamma"],
        ("q2", "answer kept"): ["two", "two", "none"],
    }


# --- with a tiny reader ----------------------------------------------------------------------------


def test_the_first_sample_is_the_reply_to_the_original_context(reader):
    how = {"prompt": READ, "temperature": 0.7, "max_new_tokens": 4, "seed": 3}
    edited = tables.replies_under_edits(reader, SUPPLIES, OTHER, **how)
    drawn = tables.samples(reader, SUPPLIES, n=5, **how)
    for one, other in zip(drawn, edited, strict=True):
        assert len(one) == 5 and one[0].token_ids == other[0].token_ids


def test_cost_counts_a_common_beginning_once(reader):
    found = tables.cost_rows(reader, SUPPLIES, OTHER, read=READ, rephrase=SAY).set_index("id")
    contexts = dense.single_edit_contexts(["one alpha", "two beta"], ["alpha is one", "beta is second"])
    texts = ["\n".join(f"Document: {text}" for text in own) + "\nwhich letter" for own in contexts]
    row = found.loc["q1"]
    assert row["tokens"] == sum(len(reader.encode(text)) for text in texts)
    assert row["alone"] == len(reader.encode(texts[0])) < row["distinct"] < row["tokens"]
    assert row[["k", "contexts", "entailments"]].tolist() == [2, 3, 6]
    spoken = [f"again: {text}" for text in OTHER] + list(OTHER.values())
    assert row["rephrasing"] == sum(len(reader.encode(text)) for text in spoken)


WHO = {"mode": "fresh", "profile": "tiny", "weaker": "tiny", "prompts": {"read": "read", "rephrase": "rephrase"}}
HOW = {"k": 2, "max_new_tokens": 3, "rephrase_tokens": 4, "seed": 0}


@pytest.fixture
def models(reader, monkeypatch, tmp_path):
    """The tiny reader in all roles, a judge without a model, embeddings that are counts of letters, prompts of one line."""
    for name, template in {"read": "$documents\n$question", "rephrase": "$text"}.items():
        (tmp_path / f"{name}.txt").write_text(template)
    monkeypatch.setattr(prompts, "FOLDER", tmp_path)
    monkeypatch.setattr(asking, "reader", lambda *which: reader)
    monkeypatch.setattr(asking, "judge", lambda profile, **how: SameWords())
    monkeypatch.setattr(
        retrieve, "encoder", lambda: lambda texts: np.array([[len(t), 1.0 + t.count("e")] for t in texts])
    )
    monkeypatch.setattr(data, "load", lambda name: QUESTIONS)
    monkeypatch.setattr(data, "passages", lambda name: [A, B, Passage("c", "title", "three gamma epsilon")])
    return reader


def same_rows(whole, part, key=("id", "condition")):
    """Every row of the part is a row of the whole."""
    whole, part = whole.set_index(list(key)), part.set_index(list(key))
    assert 0 < len(part) < len(whole)
    pd.testing.assert_frame_equal(whole.loc[part.index], part, check_dtype=False)


def test_experiments_on_the_corpus(models, tmp_path):
    """Each may be kept; where the model is asked anew, the first questions by themselves are what they are among all."""
    setup = WHO | {"how": HOW | {"every": 1}}
    more = {"other_k": [1, 2, 3], "other_k_questions": 1}
    whole, facts = tables.companion(**setup, **more)
    assert whole["condition"].value_counts().to_dict() == {
        "edits": 2,
        "faithful": 2,
        "answer kept": 2,
        "k 1": 1,
        "k 3": 1,
    }
    assert whole.set_index(["condition", "id"])["n"].loc[[("edits", "q1"), ("k 1", "q1"), ("k 3", "q1")]].tolist() == [
        3,
        2,
        4,
    ]
    assert facts == {"fingerprints": {models.profile.name: models.fingerprint}, "questions": 2}
    edited, _ = tables.edits(**setup)
    assert edited[["id", "rank"]].values.tolist() == [["q1", 1], ["q1", 2], ["q2", 1], ["q2", 2]]
    drawn = {"sampled_questions": 2, "temperature": 0.5, "samples": 3, "edits": True}
    sampled, _ = tables.sampled(**setup, drawn=drawn)
    assert sampled.groupby("condition")["n"].unique().map(list).to_dict() == {"edits": [3], "samples": [3]}
    same_rows(sampled, tables.sampled(**setup, drawn=drawn, few=1)[0])
    cost, _ = tables.cost(**setup, sizes=[1, 2])
    assert cost["k"].tolist() == [1, 1, 2, 2]
    for name, rows in (("companion", whole), ("edits", edited), ("sampled", sampled), ("cost", cost)):
        table.save(tmp_path / f"{name}.json", table.Kept(rows, "x", {}, {}))
    every_second, _ = tables.companion(**WHO, how=HOW | {"every": 2}, **more)
    assert set(every_second["id"]) == {"q1"}


def test_experiment_on_a_benchmark(reader, models, monkeypatch):
    """Rows of its first questions, what was accepted, lost and left out; other words are no longer than the longest passage shown."""
    distractors = tuple(Passage(f"d{i}", "title", f"{word} alpha words") for i, word in enumerate(("some", "other")))
    questions = [
        Question(
            id=f"m{i}", text=f"which {i}", answers=("alpha",), dataset="musique", gold=(A,), distractors=distractors[:n]
        )
        for i, n in enumerate((2, 1, 0))
    ]
    monkeypatch.setattr(data, "load", lambda name: questions)
    asked = WHO | {"how": HOW | {"rephrase_tokens": 200, "samples": 2, "temperature": 1.0}, "dataset": "musique"}
    longest = []
    rephrase = tables.rephrase
    monkeypatch.setattr(tables, "rephrase", lambda *of, **how: longest.append(how) or rephrase(*of, **how))
    rows, facts = tables.on_benchmark(**asked, questions=3)
    shown = [text for one in tables.nearest(questions, retrieve.own_passages, 2) for text in one.texts()]
    assert longest == [{"max_new_tokens": max(map(reader.count_tokens, shown))}]
    assert set(rows["condition"]) == {"edits", "faithful", "answer kept", "samples"} and rows["id"].nunique() == 2
    assert (facts["questions"], facts["left_out"]) == (2, 1) and facts["passages"] >= 2
    assert rows["unfaithful"].max() <= 2 and json.dumps(facts)
    same_rows(rows, tables.on_benchmark(**asked, questions=3, few=1)[0])
    assert longest[1] == longest[0]
