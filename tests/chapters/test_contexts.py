"""What a question may be shown: recursive and semantic cutting, the nearest chunks; hand-worked cases."""

from functools import partial

import numpy as np
import pytest

from experiments.dense_rag import contexts
from rag_utils import retrieve
from rag_utils.data import Passage, Question
from rag_utils.measures.dense import Supply
from rag_utils.score import chunking

# --- cutting ---------------------------------------------------------------------------------------

TEXT = "One cat sat here. Two dogs ran away.\n\nThree birds sang a song. Four fish."
PARTS = [Passage(name, "T", text) for name, text in zip("ab", TEXT.split("\n\n"), strict=True)]
DOCUMENTS = {"T": PARTS}


def words(text):
    return len(text.split())


def test_documents_are_those_that_the_questions_own_passages_are_from():
    question = Question("q", "what", ("1",), "companion", gold=PARTS[:1])
    pool = [PARTS[1], Passage("c", "other", "x"), PARTS[0]]
    assert contexts.documents_of([question], pool) == {"T": [PARTS[1], PARTS[0]]}


def test_paragraphs_then_sentences_then_words():
    def cut(size, overlap=0):
        found = chunking.recursive_chunks(DOCUMENTS, size=size, overlap=overlap, count_tokens=words)
        return [chunk.text for chunk in found]

    assert cut(15) == [" ".join(TEXT.split())]
    assert cut(8) == TEXT.split("\n\n")
    assert cut(5) == ["One cat sat here.", "Two dogs ran away.", "Three birds sang a song.", "Four fish."]
    assert cut(3)[:2] == ["One cat sat", "here."]
    assert cut(7, 2)[-1] == "Three birds sang a song. Four fish."
    assert all(words(text) <= size for size in range(2, 16) for text in cut(size))


def test_semantic_chunks_join_what_is_alike_across_paragraphs():
    def encode(texts):
        return np.array(
            [[1.0, 0.0] if any(word in text for word in ("dogs", "birds", "fish")) else [0.0, 1.0] for text in texts]
        )

    how = {"max_tokens": 20, "count_tokens": words, "encode": encode}
    found = chunking.semantic_chunks(DOCUMENTS, threshold=0.5, **how)
    assert [chunk.text for chunk in found] == [
        "One cat sat here.",
        "Two dogs ran away. Three birds sang a song. Four fish.",
    ]
    assert [chunk.id for chunk in found] == ["d001c001", "d001c002"] and {chunk.title for chunk in found} == {"T"}
    every = chunking.semantic_chunks(DOCUMENTS, threshold=-1.0, **how)
    assert [chunk.text for chunk in every] == [" ".join(TEXT.split())]


def test_supplies_begin_with_the_nearest_of_their_own_chunks():
    def encode(texts):
        return np.array([[text.count("cat") + 0.1, text.count("dog") + 0.1] for text in texts])

    chunks = [Passage("c1", "A", "cat"), Passage("c2", "A", "dog"), Passage("c3", "B", "cat cat cat")]
    gold = Passage("p", "A", "cat dog")
    questions = [
        Question("q1", "cat", ("1",), "companion", gold=(gold,)),
        Question("q2", "dog", ("1",), "companion", gold=(gold,)),
    ]
    found = contexts.supplies(questions, chunks, k=2, encode=encode, reserve=2)
    assert [case.texts(case.first) for case in found] == [("cat", "cat cat cat"), ("dog", "cat")]
    assert [case.texts(range(len(case.chunks))) for case in found] == [("cat", "cat cat cat"), ("dog", "cat")]
    own = contexts.supplies(questions, partial(contexts.own_chunks, chunks), k=1, encode=encode)
    assert [case.texts(case.first) for case in own] == [("cat",), ("dog",)]
    assert [case.texts((0, 1)) for case in own] == [("cat", "dog"), ("dog", "cat")]
    assert own[1].embeddings.tolist() == encode(["A dog", "A cat"]).tolist()
    with pytest.raises(ValueError, match="reserve must be"):
        contexts.supplies(questions, chunks, k=3, encode=encode, reserve=2)


def test_each_text_is_embedded_once():
    seen = []

    def encode(texts):
        seen.extend(texts)
        return np.array([[len(text), 1.0] for text in texts])

    look_up = retrieve.remembering(encode)
    assert look_up(["a", "bb", "a"]).tolist() == [[1, 1], [2, 1], [1, 1]]
    assert look_up(["bb", "ccc"]).tolist() == [[2, 1], [3, 1]]
    assert seen == ["a", "bb", "ccc"]


def test_what_a_context_holds():
    questions = [Question("q1", "who", ("Ann",), "companion"), Question("q2", "is it", ("yes",), "companion")]
    chunks = (Passage("c1", "t", "Bob and Ann"), Passage("c2", "t", "yes"))
    found = contexts.holds([Supply(question, chunks, (0,), np.eye(2)) for question in questions])
    assert found["q1"] == 1.0 and np.isnan(found["q2"])
