"""Passages in other words: what a tiny reader is asked, in which order, and which rephrasings count."""

import numpy as np
import pytest
import tiny

from experiments.dense_thresholds import rephrasing
from rag_utils import dense, lm
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.lm import Generation
from rag_utils.prompts import Prompt

READ = Prompt("read", "$documents\n$question", chat=False)
SAY = Prompt("say", "again: $text", chat=False)
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


def test_each_context_differs_in_one_passage(reader):
    asked = []
    generate = reader.generate
    reader.generate = lambda prompts, **options: asked.extend(prompts) or generate(prompts, **options)
    try:
        found = rephrasing.replies_under_edits(reader, QUESTIONS, SHOWN, OTHER, prompt=READ, max_new_tokens=3)
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
        rephrasing.replies_under_edits(reader, QUESTIONS, SHOWN, {}, prompt=READ)


def test_the_first_sample_is_the_reply_to_the_original_context(reader):
    how = {"prompt": READ, "temperature": 0.7, "max_new_tokens": 4, "seed": 3}
    edited = rephrasing.replies_under_edits(reader, QUESTIONS, SHOWN, OTHER, **how)
    drawn = rephrasing.samples(reader, QUESTIONS, SHOWN, n=5, **how)
    for name in ("q1", "q2"):
        assert len(drawn[name]) == 5
        assert drawn[name][0].token_ids == edited[name][0].token_ids


def test_a_rephrasing_that_is_empty_changes_nothing(reader, monkeypatch):
    monkeypatch.setattr(
        reader, "generate", lambda prompts, **options: [said("") if "beta" in p else said("x") for p in prompts]
    )
    assert rephrasing.rephrase(reader, ["one alpha", "two beta"], SAY) == ["x", "two beta"]


def test_without_unfaithful_the_reply_is_the_original_one():
    replies = {"q1": said("alpha", "beta", "gamma")}
    found = rephrasing.without_unfaithful(replies, SHOWN, {A.text})
    assert [reply.text for reply in found["q1"]] == [" alpha", " alpha", " gamma"]
    same = rephrasing.without_unfaithful(replies, SHOWN, set())
    assert same == replies


def test_cost_counts_a_common_beginning_once(reader):
    found = rephrasing.cost(reader, QUESTIONS, SHOWN, OTHER, prompt=READ, rephrase_prompt=SAY).set_index("id")
    contexts = dense.single_edit_contexts(["one alpha", "two beta"], ["alpha is one", "beta is second"])
    texts = ["\n".join(f"Document: {text}" for text in some) + "\nwhich letter" for some in contexts]
    row = found.loc["q1"]
    assert row["tokens"] == sum(len(reader.encode(text)) for text in texts)
    assert row["alone"] == len(reader.encode(texts[0]))
    assert row["alone"] < row["distinct"] < row["tokens"]
    assert row[["k", "contexts", "entailments"]].tolist() == [2, 3, 6]
    spoken = [f"again: {text}" for text in OTHER] + list(OTHER.values())
    assert row["rephrasing"] == sum(len(reader.encode(text)) for text in spoken)


def test_all_sizes_are_asked_at_once_and_say_what_each_says_alone(reader):
    calls = []
    generate = reader.generate
    reader.generate = lambda prompts, **options: calls.append(len(prompts)) or generate(prompts, **options)
    how = {"prompt": READ, "max_new_tokens": 3}
    try:
        found = rephrasing.replies_by_size(reader, {1: QUESTIONS[:1], 2: QUESTIONS}, SHOWN, OTHER, **how)
    finally:
        reader.generate = generate
    assert calls == [2 + 3 + 3]
    for k, questions in {1: QUESTIONS[:1], 2: QUESTIONS}.items():
        context = {name: some[:k] for name, some in SHOWN.items()}
        alone = rephrasing.replies_under_edits(reader, questions, context, OTHER, **how)
        texts = {name: [reply.text for reply in some] for name, some in found[k].items()}
        assert texts == {name: [reply.text for reply in some] for name, some in alone.items()}
    with pytest.raises(ValueError, match="2 questions have fewer passages"):
        rephrasing.replies_by_size(reader, {3: QUESTIONS}, SHOWN, OTHER, **how)


def test_three_rules_for_which_rephrasings_count():
    replies = {"q1": said("alpha", "beta", "gamma"), "q2": said("two", "one", "none")}
    other = OTHER | {A.text: "one letter"}  # alpha is gone from A; two from B
    assert rephrasing.lost(QUESTIONS[0], SHOWN["q1"], other) == {A.text}  # B never held alpha
    found = rephrasing.filtered(replies, QUESTIONS, SHOWN, other, {B.text})
    texts = {
        rule: {name: [r.text.strip() for r in some] for name, some in kept.items()} for rule, kept in found.items()
    }
    assert texts["edits"] == {"q1": ["alpha", "beta", "gamma"], "q2": ["two", "one", "none"]}
    assert texts["faithful"] == {"q1": ["alpha", "beta", "alpha"], "q2": ["two", "two", "none"]}
    assert texts["answer kept"] == {"q1": ["alpha", "alpha", "gamma"], "q2": ["two", "two", "none"]}
