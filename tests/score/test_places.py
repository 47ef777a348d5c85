"""The good passage in every place: the turns and their answers by hand, and the means by place."""

import numpy as np
import pytest
import tiny_orders
from tiny_run import Finder

from rag_utils import lm
from rag_utils.data import Passage, Question
from rag_utils.prompts import Prompt
from rag_utils.score import wandering
from rag_utils.score.places import by_place

GOOD, *OTHERS = (Passage(name, "t", text) for name, text in (("g", "salt"), ("a", "one"), ("b", "two")))
SHOWN = dict.fromkeys(("q1", "q2"), (OTHERS[0], GOOD, OTHERS[1]))
PROMPT = Prompt("plain", "$documents\n$question", chat=False)


def asked(*gold):
    return [Question(id=name, text="which?", answers=("salt", "NaCl"), dataset="companion", gold=gold) for name in SHOWN]


class First(Finder):
    """Says the text of the first passage; finds an answer as likely as its place is early, a question by the place of "salt"."""

    def generate(self, prompts, **options):
        words = [prompt.split()[1] for prompt in prompts]
        return [[lm.Generation(f" {word}", (1,), np.array([-1.0]))] for word in words]

    def log_likelihood(self, contexts, continuations):
        self.scored += continuations
        places = [context.split().index("salt") for context in contexts]
        both = zip(places, continuations, strict=True)
        return [-np.array([place, 0.5]) if "?" in word else np.log([1 / place, 0.5]) for place, word in both]


def test_the_good_passage_stands_in_every_place_once():
    reader = First()
    every = wandering(reader, asked(GOOD), SHOWN, prompt=PROMPT)
    rows = every[every["id"] == "q2"].set_index("order")
    assert rows["gold"].to_dict() == {"0-1-2": 1 / 2, "1-2-0": 1, "2-0-1": 1 / 3}
    assert rows["exact_match"].to_dict() == {"0-1-2": 0, "1-2-0": 1, "2-0-1": 0}
    # the word "salt" is the second, fourth or sixth of the prompt, its index 1, 3 or 5, and the end of it has probability 1/2
    assert rows["probability"].to_dict() == pytest.approx({"0-1-2": 1 / 6, "1-2-0": 1 / 2, "2-0-1": 1 / 10})
    # the question is asked for after the passages alone: minus 1, 3 or 5, and a second token of -0.5
    assert rows["query"].to_dict() == pytest.approx({"0-1-2": -3.5, "1-2-0": -1.5, "2-0-1": -5.5})
    assert reader.scored == [" salt"] * 6 + [" which?"] * 6  # in one call
    means = by_place(every, "probability", resamples=50)
    assert means["value"].tolist() == pytest.approx([1 / 2, 1 / 6, 1 / 10])


def test_two_good_passages_have_no_place():
    with pytest.raises(ValueError, match=r"exactly one gold passage.*none of 2"):
        wandering(First(), asked(GOOD, OTHERS[0]), SHOWN, prompt=PROMPT)


def test_by_place_counts_an_order_once():
    said = tiny_orders.said()
    found = by_place(said, "exact_match", resamples=200)
    assert found["n"].to_dict() == {1: 2, 2: 2, 3: 4}  # "0-1-2" is MoI's and a cyclic one; place 3: QG's and "1-2-0"
    assert found["value"].to_dict() == pytest.approx({1: 1, 2: 0, 3: (0 + 1 + 0 + 1) / 4})
    with pytest.raises(ValueError, match="metric"):
        by_place(said, "probability")
