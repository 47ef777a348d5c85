"""Questions with chunks and random embeddings, and a reader and a judge that answer at random, always the same."""

import hashlib

import numpy as np

from rag_utils.data import Passage, Question
from rag_utils.measures import dense as asked
from rag_utils.prompts import Prompt

READ, CLOSED = Prompt("read", "$documents\n$question", chat=False), Prompt("closed", "$question", chat=False)
HOW = asked.Settings(read=READ, closed=CLOSED, sufficient=READ)


def number(*parts, below):
    """A repeatable number that depends on everything given."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest(), 16) % below


def supplies(seed, *, questions=3, chunks=6, k=3, replies=3):
    """Supplies with random embeddings and tables that answer at random, always the same, and count how often they are asked."""
    rng = np.random.default_rng(seed)
    pool = tuple(Passage(f"c{i}", "title", f"text {i}") for i in range(chunks))
    some = [
        asked.Supply(
            Question(f"q{i}", f"question {i}", ("1",), "companion"),
            pool,
            tuple(map(int, rng.permutation(chunks)[:k])),
            rng.normal(size=(chunks, 4)),
        )
        for i in range(questions)
    ]
    calls = []

    def noted(name, value):
        def ask(keys):
            calls.append((name, len(keys)))
            assert len(set(keys)) == len(keys)
            return [value(key) for key in keys]

        return asked.Asked(ask)

    tables = asked.Tables(
        other={chunk.text: f"{chunk.text} in other words" for chunk in pool},
        replies=noted("replies", lambda key: f"reply {number(seed, key, below=replies)}"),
        same=noted("same", lambda key: number(seed, key, below=4) / 3),
        enough=noted("enough", lambda key: number(seed, key, below=9) - 6),
    )
    return some, tables, calls
