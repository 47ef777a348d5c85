"""The papers' methods asked of a reader, one file per paper: questions and passages in, a table out. What they share is here."""

from collections.abc import Sequence
from typing import NamedTuple

from rag_utils.base import checks
from rag_utils.data import Question

# conditions: no passages, all that are needed, one that looks right and holds no answer
CLOSED, GOLD, NEGATIVE = "closed book", "gold", "hard negative"


class Case(NamedTuple):
    """One question under one condition; equal to the plain pair, so either finds the other in a mapping."""

    id: str
    condition: str


def by_id(questions: Sequence[Question]) -> dict[str, Question]:
    """The questions by their ids; ValueError if an id comes twice, for then one question would stand for both."""
    return dict(zip(checks.distinct("ids of questions", [asked.id for asked in questions]), questions, strict=True))
