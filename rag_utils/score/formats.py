"""From files to records: our JSON lines, a TREC run with BEIR's files, ragas and Ragnarök records, told apart by content.

Everything that is wrong is said at once, by file, line and field, before anything is computed.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from rag_utils.corpora.rows import AnyText, Text
from rag_utils.data import passage_id, question_id
from rag_utils.score.records import Id, Record, RecordPassage

SHOWN = 20  # problems that a message names
LONGEST = 2**26  # bytes of a line
COLUMNS = "question Q0 passage rank score tag"
WANTED = (
    'wanted JSON lines {"id", "question", "answers", "passages"}, a TREC run of six columns, ragas records (user_input, '
    "retrieved_contexts) or Ragnarök records (query, candidates)"
)
Where = str  # file and line, as it is written in a message
Row = tuple[Where, dict]


class BadInput(ValueError):
    """What is wrong in the files of a run, all of it in `.problems`; the message names the first twenty. good : records without fault."""

    def __init__(self, problems: Sequence[str], *, good: int = 0):
        self.problems = list(problems)
        more = len(self.problems) - SHOWN
        rest = [f"... and {more} more"] if more > 0 else []
        skip = f", or leave it out with --skip-bad (skip_bad=True): {good} are right" if good else ""
        mend = f"; nothing was computed. Mend this{skip}"
        super().__init__("\n  ".join([f"{len(self.problems)} found wrong{mend}:", *self.problems[:SHOWN], *rest]))


class _Form(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)


class _Query(_Form):
    id: Id = Field(validation_alias=AliasChoices("_id", "id"))
    text: Text
    answers: list[Text] = Field([], validation_alias=AliasChoices("answers", "golden_answers"))


class _Document(_Form):
    id: Id = Field(validation_alias=AliasChoices("_id", "id"))
    title: AnyText = ""
    text: Text


class _Ragas(_Form):
    id: Id | None = None
    user_input: Text
    retrieved_contexts: list[Text] = Field(min_length=1)
    retrieved_context_ids: list[Id] | None = None
    reference: AnyText | None = None


class _Asked(_Form):
    qid: Id
    text: Text


class _Segment(_Form):
    title: AnyText = ""
    segment: Text


class _Candidate(_Form):
    docid: Id
    score: FiniteFloat
    doc: _Segment


class _Ragnarok(_Form):
    query: _Asked
    candidates: list[_Candidate] = Field(min_length=1)


def read(run, *, questions=None, passages=None, skip_bad: bool = False) -> list[Record]:
    """The records of a run, in the order of the file; a passage list is in its order there, that of a TREC or Ragnarök run by score.

    run       : path of JSON lines (or a JSON list) of records, ragas or Ragnarök records, or of a TREC run
    questions : path of BEIR's queries, with "answers" or "golden_answers" where known; a TREC run needs it, others take their answers of it
    passages  : path of BEIR's corpus, for a TREC run only. Equal scores stand as trec_eval has them, the larger passage id first
    skip_bad  : leave out what is wrong instead of refusing it; what could not be read at all is refused all the same
    raises    : BadInput, a ValueError
    """
    records, problems = gather(run, questions=questions, passages=passages)
    if problems and not (skip_bad and records):
        raise BadInput(problems, good=len(records))
    return records


def gather(run, *, questions=None, passages=None) -> tuple[list[Record], list[str]]:
    """What is right in the files, as records, and what is wrong, in words."""
    problems: list[str] = []
    texts = list(_lines(Path(run), problems))
    if not texts:
        return [], problems or [f"{run}: empty; {WANTED}"]
    if texts[0][1].lstrip()[0] in "{[":
        rows = list(_parsed(texts, Path(run), problems))
        form = next((_KINDS[kind] for _, row in rows for kind in _KINDS if kind in row), None)
        if form is None:
            named = f" its first line has {', '.join(list(rows[0][1])[:8]) or 'no field'};" if rows else ""
            return [], problems if not rows else [*problems, f"{run}: unknown format;{named} {WANTED}"]
        if passages is not None:
            return [], [*problems, f"{passages}: {run} holds its passages; leave this file out"]
        records = _records(rows, form, problems)
        return (records if questions is None else _answered(records, Path(questions), problems)), problems
    if questions is None and passages is None and not any(len(text.split()) == 6 for _, text in texts):
        return [], [*problems, f"{run}: unknown format; {WANTED}"]
    if questions is None or passages is None:
        mend = "give both, as BEIR's queries.jsonl and corpus.jsonl"
        return [], [*problems, f"{run}: a TREC run needs a file of questions and one of passages; {mend}"]
    return _trec(texts, Path(questions), Path(passages), problems), problems


def rows_of(form: type[BaseModel], path: Path, *, alone: Mapping[str, str]) -> tuple[list, list[str]]:
    """The rows of a JSON lines file in a form, and what is wrong; `alone` maps a field that holds one value to one that holds a list."""
    problems: list[str] = []
    rows = list(_parsed(_lines(path, problems), path, problems))
    for _, content in rows:
        content |= {listed: [content[name]] for name, listed in alone.items() if name in content}
    good = [row for row in (_as(form, row, problems) for row in rows) if row is not None]
    return good, problems if rows or problems else [f"{path}: empty; wanted JSON lines"]


# --- lines -----------------------------------------------------------------------------------------


def _lines(path: Path, problems: list[str]) -> Iterator[tuple[Where, str]]:
    """(file and line, text) of every line that is not blank; a byte order mark and either line end may be there."""
    try:
        with path.open("rb") as stream:
            for number in count(1):
                if not (raw := stream.readline(LONGEST + 1)):
                    return
                where = f"{path}, line {number}"
                if len(raw) > LONGEST:
                    problems.append(f"{where}: longer than {LONGEST // 2**20} MB; is it a JSON lines file?")
                    while raw and not raw.endswith(b"\n"):
                        raw = stream.readline(LONGEST)
                    continue
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    problems.append(f"{where}: not UTF-8 (byte {error.start + 1}); save the file as UTF-8")
                    continue
                if text.strip():
                    yield where, text
    except OSError as error:
        raise BadInput([f"{path}: cannot be read ({error.strerror}); wanted a file"]) from error


def _parsed(texts: Iterable[tuple[Where, str]], path: Path, problems: list[str]) -> Iterator[Row]:
    """(where, object) of JSON lines, or of the items of one JSON list, which begins in the first line."""
    texts = iter(texts)
    for number, (where, text) in enumerate(texts):
        if not number and text.lstrip().startswith("["):
            whole = _json(str(path), text + "".join(rest for _, rest in texts), problems)
            values = [(f"{path}, item {number}", value) for number, value in enumerate(whole or (), 1)]
        else:
            values = [(where, _json(where, text, problems))]
        for place, value in values:
            if isinstance(value, dict):
                yield place, value
            elif value is not None:
                problems.append(f"{place}: wanted an object with named fields, got {type(value).__name__}")


def _json(where: Where, text: str, problems: list[str]):
    """The value, or None where the text is no JSON; null is none either."""
    try:
        if (value := json.loads(text, parse_constant=_refused)) is not None:
            return value
        why = "wanted an object with named fields, got null"
    except json.JSONDecodeError as error:
        why = f"not JSON, or cut short ({error.msg.lower()}, column {error.colno})"
    except RecursionError:
        why = "not JSON that can be read: nested too deep"
    except ValueError as error:
        why = f"not JSON: {error}"
    problems.append(f"{where}: {why}")
    return None


def _refused(constant: str):
    raise ValueError(f"{constant} is no number of JSON")


def _as(form: type[BaseModel], row: Row, problems: list[str]):
    """The row in its form, or None, and then a problem for every field that is wrong."""
    where, content = row
    try:
        return form.model_validate(content)
    except ValidationError as error:
        for wrong in error.errors(include_url=False, include_context=False):
            field = ".".join(map(str, wrong["loc"]))
            got = "" if wrong["type"] == "missing" else f", got {type(wrong['input']).__name__}"
            problems.append(f"{where}, field {field}: {wrong['msg'].removeprefix('Value error, ').lower()}{got}")
    return None


# --- formats that hold everything ------------------------------------------------------------------


def _of_ragas(row: _Ragas) -> Record:
    ids = row.retrieved_context_ids or [passage_id("", text) for text in row.retrieved_contexts]
    if len(ids) != len(row.retrieved_contexts):
        raise ValueError(f"retrieved_context_ids: {len(ids)}, but {len(row.retrieved_contexts)} retrieved_contexts")
    passages = [RecordPassage(id=name, text=text) for name, text in zip(ids, row.retrieved_contexts, strict=True)]
    answers = [row.reference] if row.reference and row.reference.strip() else []
    name = row.id or question_id(row.user_input)
    return Record(id=name, question=row.user_input, answers=answers, passages=passages)


def _of_ragnarok(row: _Ragnarok) -> Record:
    ranked = sorted(row.candidates, key=lambda each: -each.score)
    passages = [RecordPassage(id=each.docid, title=each.doc.title, text=each.doc.segment) for each in ranked]
    return Record(id=row.query.qid, question=row.query.text, answers=[], passages=passages)


# a field that only this format has -> its form, and from there to a record
_KINDS: dict[str, tuple[type[BaseModel], Callable]] = {
    "user_input": (_Ragas, _of_ragas),
    "candidates": (_Ragnarok, _of_ragnarok),
    "question": (Record, lambda record: record),
    "passages": (Record, lambda record: record),
}


def _records(rows: Sequence[Row], kind: tuple, problems: list[str]) -> list[Record]:
    """The rows as records; an id that was there before is a problem, and so is a passage that comes twice."""
    (form, converted), seen = kind, {}
    for where, content in rows:
        if (row := _as(form, (where, content), problems)) is None:
            continue
        try:
            record = converted(row)
        except ValueError as error:
            problems.append(f"{where}, field {error}")
            continue
        twice = _twice([passage.id for passage in record.passages])
        problems += [f"{where}, field passages.{place}.id: the same as passages.{first}.id" for place, first in twice]
        if record.id in seen:
            problems.append(f"{where}, field id: the same as in {seen[record.id][0]}")
        else:
            seen[record.id] = where, None if twice else record
    return [record for _, record in seen.values() if record is not None]


def _twice(ids: Sequence[str]) -> list[tuple[int, int]]:
    """(place, first place) of each id that was there before."""
    firsts = {}
    return [(place, firsts[name]) for place, name in enumerate(ids) if firsts.setdefault(name, place) != place]


def _answered(records: list[Record], path: Path, problems: list[str]) -> list[Record]:
    """Records with the answers that a file of questions knows, where they have none of their own."""
    queries = _queries(path, problems)
    return [
        record.model_copy(update={"answers": queries[record.id].answers}) if not record.answers and record.id in queries else record
        for record in records
    ]


# --- a TREC run ------------------------------------------------------------------------------------


def _trec(texts: Sequence[tuple[Where, str]], questions: Path, passages: Path, problems: list[str]) -> list[Record]:
    lists: dict[str, dict[str, tuple[float, Where]]] = {}
    for where, text in texts:
        columns = text.split()
        if len(columns) != 6:
            problems.append(f"{where}: {len(columns)} columns, wanted six: {COLUMNS}")
            continue
        question, _, passage, _, score, _ = columns
        if not math.isfinite(number := _number(score)):
            problems.append(f"{where}, field score: wanted a finite number")
        elif passage in lists.setdefault(question, {}):
            problems.append(f"{where}, field passage: the same as in {lists[question][passage][1]}")
        else:
            lists[question][passage] = number, where
    queries = _queries(questions, problems)
    wanted = {passage for own in lists.values() for passage in own}
    documents = _by_id(_Document, passages, problems, wanted=wanted)
    records = []
    for question, own in lists.items():
        if question not in queries:
            first = next((where for _, where in own.values()), questions)
            problems.append(f"{first}, field question: {question!r:.60} is not in {questions}")
            continue
        ranked = sorted(sorted(own, reverse=True), key=lambda name: -own[name][0])
        missing = [name for name in ranked if name not in documents]
        problems += [f"{own[name][1]}, field passage: {name!r:.60} is not in {passages}" for name in missing]
        there = [documents[name] for name in ranked if name in documents]
        if there:
            shown = [RecordPassage(id=each.id, title=each.title, text=each.text) for each in there]
            asked = queries[question]
            records.append(Record(id=question, question=asked.text, answers=asked.answers, passages=shown))
    return records


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _queries(path: Path, problems: list[str]) -> dict[str, _Query]:
    return _by_id(_Query, path, problems)


def _by_id(form: type[_Form], path: Path, problems: list[str], *, wanted: set[str] | None = None) -> dict:
    """Rows of a file by their id, only those wanted, so that of a large corpus little is held; each id once."""
    rows, before = {}, len(problems)
    for where, content in _parsed(_lines(path, problems), path, problems):
        if wanted is not None and str(content.get("_id", content.get("id"))) not in wanted:
            continue
        if (row := _as(form, (where, content), problems)) is None:
            continue
        if row.id in rows:
            problems.append(f"{where}, field id: {row.id!r:.60} was there before")
        else:
            rows[row.id] = row
    if not rows and len(problems) == before:
        problems.append(f"{path}: nothing in it{'' if wanted is None else ' that the run names'}; wanted JSON lines")
    return rows
