"""The papers' methods asked of a reader, one file per paper: questions and passages in, a table out. What they share is here."""

from typing import NamedTuple

# conditions: no passages, all that are needed, one that looks right and holds no answer
CLOSED, GOLD, NEGATIVE = "closed book", "gold", "hard negative"


class Case(NamedTuple):
    """One question under one condition; equal to the plain pair, so either finds the other in a mapping."""

    id: str
    condition: str
