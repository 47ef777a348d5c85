"""Samples with the probabilities of their tokens, and judges that look at letters."""

import numpy as np

from rag_utils.judge import Judge
from rag_utils.lm import Generation


def said(text: str, *token_probabilities: float) -> Generation:
    return Generation(text, tuple(range(len(token_probabilities))), np.log(token_probabilities))


class Initials(Judge):
    """Two answers mean the same if they begin alike."""

    def equivalent(self, questions, left, right):
        return np.array([float(a[:1].lower() == b[:1].lower()) for a, b in zip(left, right, strict=True)])


class Shares(Judge):
    """Two answers mean the same as far as they share letters; notes what it is asked."""

    def __init__(self):
        self.seen = []

    def equivalent(self, questions, left, right):
        self.seen += zip(questions, left, right, strict=True)
        return np.array([len({*a} & {*b}) / max(1, len({*a} | {*b})) for a, b in zip(left, right, strict=True)])
