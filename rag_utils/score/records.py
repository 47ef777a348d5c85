"""A question with its accepted answers and what was retrieved for it, best first: what all formats are brought to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from rag_utils.base import checks
from rag_utils.corpora.rows import AnyText, Text
from rag_utils.data import Passage, Question


def _as_text(value):
    """A whole number as an id's digits; anything else as it came."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Id = Annotated[Text, BeforeValidator(_as_text)]


class RecordPassage(BaseModel):
    """A retrieved passage. The reader is shown its text; only ECoRAG's sentences have the title before them, as in chapter 6."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    id: Id
    title: AnyText = ""
    text: Text


class Record(BaseModel):
    """A question, the answers that count as right (none where nobody knows them), and its passages, best first.

    raises : pydantic's ValidationError, a ValueError, for other fields than said; answers as one string, blank texts, no passages
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    id: Id
    question: Text
    answers: list[Text] = Field(validation_alias=AliasChoices("answers", "golden_answers"))
    passages: list[RecordPassage] = Field(min_length=1)

    @classmethod
    def of(cls, question: Question, passages: Sequence[Passage]) -> "Record":
        """The record of a question of one of the book's data sets, shown these passages."""
        shown = [{"id": each.id, "title": each.title, "text": each.text} for each in passages]
        return cls(id=question.id, question=question.text, answers=list(question.answers), passages=shown)

    def asked(self) -> Question:
        """The question as the measures take it."""
        return Question(self.id, self.question, tuple(self.answers), "own")

    def shown(self, top: int) -> tuple[Passage, ...]:
        """Its first `top` passages as the measures take them."""
        return tuple(Passage(each.id, each.title, each.text) for each in self.passages[:top])


def checked(records: Iterable[Record]) -> list[Record]:
    """At least one record, each with an id of its own, and so are the passages of a record; ValueError naming what is not."""
    records = list(records)
    if any(isinstance(record, Mapping) for record in records):
        form = "{'id', 'question', 'answers': [...], 'passages': [{'id', 'text'}, ...]}"
        raise ValueError(f"records must hold Record only; got a mapping; score.Record.model_validate makes a record of {form}")
    records = checks.listed("records", records, of=Record)
    checks.distinct("ids of records", [record.id for record in records])
    for record in records:
        checks.distinct(f"passages of record {record.id!r}", [passage.id for passage in record.passages])
    return records
