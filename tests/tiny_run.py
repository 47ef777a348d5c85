"""A retrieval run of five questions of the corpus, a reader that finds answers in its prompt, and somebody who says passages otherwise."""

import hashlib
import json
from pathlib import Path

import numpy as np

from rag_utils import data, retrieve
from rag_utils.lm import Generation
from rag_utils.score import Record

IDS = ("q013", "q022", "q031", "q043", "q058")


def questions() -> list[data.Question]:
    return [question for question in data.load("companion") if question.id in IDS]


def retrieved(k: int = 4) -> retrieve.Run:
    return retrieve.bm25(questions(), data.passages("companion"), k=k)


def rows(k: int = 4) -> list[dict]:
    """The run as records, of which the last has one passage fewer."""
    by_id, run, every = {each.id: each for each in data.passages("companion")}, retrieved(k), []
    for question in questions():
        names = retrieve.ranking(run[question.id])[: k - (question.id == IDS[-1])]
        shown = [{"id": name, "title": by_id[name].title, "text": by_id[name].text} for name in names]
        every.append({"id": question.id, "question": question.text, "answers": [*question.answers], "passages": shown})
    return every


def records(k: int = 4) -> list[Record]:
    return [Record(**row) for row in rows(k)]


def lines(path: Path, every) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in every))
    return path


def number(*parts, below: int) -> int:
    """A repeatable number that depends on everything given."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest(), 16) % below


class Finder:
    """Says an answer that stands in its prompt, mostly; keeps what it was asked, call by call."""

    name, fingerprint = "finder", "finder-1"

    def __init__(self, answers=None):
        self.answers = answers or [answer for question in questions() for answer in question.answers]
        self.asked, self.scored = [], []

    def generate(self, prompts, *, n=1, temperature=0.0, max_new_tokens=32, seed=0, greedy=False):
        self.asked += [(n, temperature, list(prompts)), *[(1, 0.0, list(prompts))] * greedy]
        draws = [(i, seed) if temperature else (0, None) for i in range(n)] + [(0, None)] * greedy
        return [[self._reply(prompt, *draw) for draw in draws] for prompt in prompts]

    def log_likelihood(self, contexts, continuations):
        self.scored += zip(contexts, continuations, strict=True)
        return [
            -np.array([1 + number(word, context, below=100) / 100 for word in continuation.split()])
            for context, continuation in zip(contexts, continuations, strict=True)
        ]

    def chat(self, message: str) -> str:
        return f"<user>{message}<assistant>"

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def _reply(self, prompt: str, sample: int, seed) -> Generation:
        before, _, question = prompt.rpartition("Question: ")
        there = [answer for answer in self.answers if answer.lower() in before.lower()]
        guess = ["nobody knows", "the river", "twelve"][number(question, sample, seed, below=3)]
        said = there[0] if there and number(prompt, sample, seed, below=5) else guess
        nats = -np.array([0.1 + number(prompt, sample, seed, "nats", below=100) / 50])
        return Generation(f" {said}", (1,), nats)


class Talker(Finder):
    """Says a text with its words in another order; one in five it leaves as it is."""

    name, fingerprint = "talker", "talker-1"

    def _reply(self, prompt: str, sample: int, seed) -> Generation:
        text = prompt.rpartition("Text: ")[2].removesuffix("<assistant>")
        words = text.split()
        said = text if not number(text, below=5) else " ".join([*words[3:], *words[:3]])
        return Generation(said, (1,), np.array([-1.0]))
