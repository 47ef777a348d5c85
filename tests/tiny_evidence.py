"""Passages of two sentences each, an encoder that counts letters, and a reader that says what a function says of its prompt."""

from types import SimpleNamespace

import numpy as np

from rag_utils.data import Passage, Question
from rag_utils.prompts import Prompt

CLOSED, READ = Prompt("closed", "Q: $question", chat=False), Prompt("read", "$documents\nQ: $question", chat=False)
LETTERS = "abcdefgh"
PASSAGES = [
    Passage("p1", "Tower", "aaa b. ccc d.", ("aaa b.", "ccc d.")),
    Passage("p2", "", "bbb 7 a. eee.", ("bbb 7 a.", "eee.")),
]
QUESTION = Question("q", "aa when", ("b",), "companion", gold=PASSAGES[:1], gold_sentences=((1,),))
GIVEN = ([QUESTION], {"q": PASSAGES})
SENTENCES = ["Tower: aaa b.", "Tower: ccc d.", "bbb 7 a.", "eee."]

BRIDGE = Passage("p1", "Bridge", "It opened in 1894. It is red.", ("It opened in 1894.", "It is red."))
STORM = Passage("p2", "Storm", "Opened in 1849, some say.", ("Opened in 1849, some say.",))
OPEN = Question("q1", "when did it open", ("1894",), "companion", gold=(BRIDGE,), gold_sentences=((0,),))
KNOWN = Question("q2", "what is red", ("the bridge",), "companion", gold=(BRIDGE,), gold_sentences=((1,),))


def encode(texts):
    """How often each letter occurs, as rows of length 1."""
    rows = np.array([[1e-3 + text.lower().count(letter) for letter in LETTERS] for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def bridge(prompt):
    """Says 1894 if it sees it and is not told 1849 as well; knows what is red."""
    if "red" in prompt.split("Q: ")[1]:
        return " the bridge"
    return " 1894" if "1894" in prompt and "1849" not in prompt else " unknown"


class Reader:
    """Says what `reply` says of a prompt, and keeps what it was asked, call by call."""

    def __init__(self, reply=bridge):
        self.reply, self.asked = reply, []

    def generate(self, prompts, *, max_new_tokens):
        self.asked.append(list(prompts))
        return [[SimpleNamespace(text=self.reply(prompt))] for prompt in prompts]

    def count_tokens(self, text):
        return len(text.split())
