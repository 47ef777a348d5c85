"""The corpus keeps its promises: answers in the gold sentences, none in the distractors, lengths, splits, no near duplicates."""

from itertools import combinations

import pytest

from rag_utils import data
from rag_utils.answers import contains_answer, normalize

QUESTIONS = data.load("companion")
PASSAGES = data.passages("companion")
ONES = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)


def test_size_and_balance():
    assert len(PASSAGES) == 60 and len({p.title for p in PASSAGES}) == 10
    assert len(QUESTIONS) == 60
    assert sum(question.kind == "real" for question in QUESTIONS) == 30
    yes_no = [question.answers for question in QUESTIONS if question.type == "yes_no"]
    assert sorted(yes_no) == [("no",)] * 4 + [("yes",)] * 4
    assert {question.type for question in QUESTIONS} == {"single", "bridge", "comparison", "yes_no"}
    assert {question.split for question in QUESTIONS} == {"train", "dev", "test"}


@pytest.mark.parametrize("passage", PASSAGES, ids=lambda passage: passage.id)
def test_passages_have_their_length(passage):
    assert 35 <= len(passage.text.split()) <= 70
    assert passage.text == " ".join(passage.sentences)


@ONES
def test_the_answer_is_in_the_gold_sentences_and_in_no_distractor(question):
    assert question.gold and 2 <= len(question.distractors) <= 4
    sentences = [
        passage.sentences[i]
        for passage, wanted in zip(question.gold, question.gold_sentences, strict=True)
        for i in wanted
    ]
    assert not {p.id for p in question.gold} & {p.id for p in question.distractors}
    if question.type != "yes_no":
        assert contains_answer(" ".join(sentences), [question.answers[0]])
        for passage in question.distractors:
            assert not contains_answer(passage.text, list(question.answers)), f"{question.id}: answer in {passage.id}"
    if question.type in ("bridge", "comparison"):
        assert len(question.gold) == 2


@ONES
def test_a_question_does_not_give_its_answer_away(question):
    if question.type in ("single", "bridge"):
        assert not contains_answer(question.text, list(question.answers))


def test_a_question_stays_within_its_split():
    split = {}
    for question in QUESTIONS:
        for passage in question.gold + question.distractors:
            split.setdefault(passage.id, set()).add(question.split)
    assert all(len(found) == 1 for found in split.values())


def shingles(text: str, size: int) -> set[tuple[str, ...]]:
    words = normalize(text).split()
    return {tuple(words[i : i + size]) for i in range(max(1, len(words) - size + 1))}


@pytest.mark.parametrize(("texts", "size"), [([p.text for p in PASSAGES], 5), ([q.text for q in QUESTIONS], 3)])
def test_no_near_duplicates(texts, size):
    sets = [shingles(text, size) for text in texts]
    for a, b in combinations(sets, 2):
        assert len(a & b) / len(a | b) < 0.3
