"""Prompts have their slots, documents before the question, and can be replaced from a file."""

import pytest
from looped import each

from rag_utils import prompts
from rag_utils.data import Passage


@each("name", prompts.names())
def test_every_shipped_prompt_fills_and_leaves_no_slot(name):
    prompt = prompts.load(name)
    values = {slot: f"<{slot}>" for slot in prompt.slots if slot != "documents"}
    documents = {"documents": ["first text", "second text"]} if "documents" in prompt.slots else {}
    text = prompt.fill(**values, **documents)
    assert "$" not in text and all(value in text for value in values.values())
    if documents:
        assert text.index("first text") < text.index("second text")
    assert prompt.chat == name.endswith(".chat")


def test_documents_come_before_the_question_so_that_growing_lists_share_their_beginning():
    prompt = prompts.load("read_examples")
    one = prompt.fill(question="who?", documents=["the best passage"])
    two = prompt.fill(question="who?", documents=["the best passage", "the next"])
    assert two.startswith(one[: one.index("Question: who?")])
    swapped = prompts.load("read_question_first")  # the order that cannot be shared
    one, two = (swapped.fill(question=question, documents=["the best passage"]) for question in ("who?", "when?"))
    assert not two.startswith(one[: one.index("the best passage")])


def test_a_prompt_from_a_file_replaces_a_shipped_one(tmp_path):
    path = tmp_path / "mine.chat.txt"
    path.write_text("Costs $$5. $question\n")
    mine = prompts.load(path)
    assert mine.name == "mine.chat" and mine.chat and mine.fill(question="Why?") == "Costs $5. Why?"
    path.write_text("Costs $$6. $question\n")
    assert prompts.load(str(path)).digest != mine.digest


@each(
    ("text", "words"), [("no slot", "has no slot"), ("$question and a stray $ sign", "stray"), (None, "cannot be read")]
)
def test_a_bad_prompt_file_says_what_is_wrong(tmp_path, text, words):
    path = tmp_path / "bad.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=words):
        prompts.load(path)


def test_unknown_names_and_wrong_slots():
    with pytest.raises(ValueError, match="did you mean 'read_examples'"):
        prompts.load("read_example")
    read = prompts.load("read_examples")
    with pytest.raises(ValueError, match=r"slots \['documents', 'question'\], got values for \['question'\]"):
        read.fill(question="who?")
    with pytest.raises(ValueError, match="list of at least one string"):
        read.fill(question="who?", documents=[])
    with pytest.raises(ValueError, match="list of at least one string"):
        read.fill(question="who?", documents="one passage")


@each(
    ("documents", "message"),
    [
        ("one passage", r"documents must be a list; got str; write \[documents\] for a single one"),
        (Passage("p", "A title", "one passage"), "documents must be a list; got Passage"),
        ({"p": "one passage"}, "documents must be a list; got dict"),
    ],
)
def test_documents_are_a_list_and_not_taken_letter_by_letter(documents, message):
    read = prompts.load("read_plain")
    with pytest.raises(ValueError, match=message):
        prompts.prompt_text(None, read, "who?", documents)
    assert prompts.prompt_text(None, read, "who?", [Passage("p", "A title", "red")]).startswith("Document: red\n")


@each(("slots", "message"), [
    ({"question": None}, "slot 'question' must be a string; got NoneType"),
    ({"question": ["who?"]}, "slot 'question' must be a string; got list"),
    ({"documents": [None]}, r"documents\[0\] must be a string; got NoneType"),
    ({"documents": [{"text": "red"}]}, r"documents\[0\] must be a string; got dict"),
])  # fmt: skip
def test_a_slot_takes_text_only(slots, message):
    read = prompts.load("read_plain")
    assert read.fill(**{"question": "who?", "documents": ["red"]}).startswith("Document: red")
    with pytest.raises(ValueError, match=message):
        read.fill(**{"question": "who?", "documents": ["red"]} | slots)


def test_a_name_is_no_prompt():
    with pytest.raises(ValueError, match=r"prompt must be a Prompt, such as prompts\.load gives; got str"):
        prompts.prompt_text(None, "closed_plain", "who?")
