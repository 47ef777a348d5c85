"""From files to questions and passages.

Each row of a file is checked (`DataError` names file, row and field, and quotes nothing), brought to one form for all
data sets, and held in a `datasets.Dataset` with that form's types, in memory. `load` turns it into `Question` objects.
"""

import gzip
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from rag_utils.cache import ROOT
from rag_utils.manifest import DataError, locate
from rag_utils.names import check_name

if TYPE_CHECKING:
    import datasets

COMPANION = ROOT / "data" / "companion"
SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")  # of EVOUNA


@dataclass(frozen=True)
class Passage:
    """A piece of text that retrieval returns. `sentences` is empty where the source does not cut the text."""

    id: str
    title: str
    text: str
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """A question with its accepted answers and what its source says about passages; the same for every data set.

    gold           : the passages that the source marks as needed; for bridges and comparisons, all of them
    distractors    : the other passages that come with the question, in the source's order
    gold_sentences : per gold passage, the numbers of the sentences needed; empty where the source does not say
    split          : the source's split; `held_out` cuts the benchmarks, which have none
    type, kind     : of the companion's questions: single, bridge, comparison, yes_no; real, invented
    """

    id: str
    text: str
    answers: tuple[str, ...]
    dataset: str
    gold: tuple[Passage, ...] = ()
    distractors: tuple[Passage, ...] = ()
    split: str | None = None
    type: str | None = None
    kind: str | None = None
    gold_sentences: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class JudgedAnswer:
    """A system's answer and whether a person found it right. `verdict` is None where the file has no verdict."""

    system: str
    text: str
    verdict: bool | None


@dataclass(frozen=True)
class Judged:
    """A question of EVOUNA, its golds, and one answer per system, in the order of `SYSTEMS`."""

    id: str
    question: str
    golds: tuple[str, ...]
    answers: tuple[JudgedAnswer, ...]


def question_id(text: str) -> str:
    """Return the id of a question whose file gives none: the first 12 hex digits of the SHA-256 of its text.

    >>> question_id("who wrote hamlet")
    '87b473173b5e'
    """
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def passage_id(title: str, text: str) -> str:
    """Return the id of a passage whose file gives none: 12 hex digits, the same wherever the passage stands.

    >>> passage_id("Hamlet", "A play.") == passage_id("Hamlet", "A play. ")
    False
    """
    return hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:12]


def held_out(question_text: str) -> bool:
    """Say whether a question belongs to the fixed quarter that no model of this book is trained on.

    The last digit of the SHA-256 of the exact text decides, of which the question's id shows nothing.

    >>> [held_out(text) for text in ("who wrote hamlet", "who wrote siddhartha")]
    [False, True]
    """
    return hashlib.sha256(question_text.encode()).hexdigest()[-1] in "048c"


def load(name: str) -> list[Question]:
    """Return the questions of a data set, in the order of its file.

    name   : "companion", "nq", "squad", "hotpotqa" or "musique"
    raises : ValueError for an unknown name; DataError if a file is absent or a row is not of the form that is wanted

    Ids are the file's own; `nq` has none and gets `question_id`, with "-2" and so on after it where a text comes again
    (it does not in the file of the manifest).
    """
    check_name("data set", name, _QUESTIONS)
    return [
        Question(
            id=row["id"],
            text=row["text"],
            answers=tuple(row["answers"]),
            dataset=name,
            gold=tuple(map(_passage, row["gold"])),
            distractors=tuple(map(_passage, row["distractors"])),
            split=row["split"],
            type=row["type"],
            kind=row["kind"],
            gold_sentences=tuple(map(tuple, row["gold_sentences"])),
        )
        for row in table(name)
    ]


def load_judged(name: str = "evouna_nq") -> list[Judged]:
    """Return the questions whose answers people judged, without the rows that the file calls improper.

    raises : ValueError for an unknown name; DataError if the file is absent or a row is not of the form that is wanted

    Ids are `question_id`, so they are those of `load("nq")` where the two share a question; a text that comes again
    gets "-2". Golds are the file's `golden_answer` cut at "/", which also cuts golds that have one in them. An answer
    that is null in the file is an empty text.
    """
    check_name("judged data set", name, _JUDGED)
    return [
        Judged(
            id=row["id"],
            question=row["text"],
            golds=tuple(row["golds"]),
            answers=tuple(JudgedAnswer(**answer) for answer in row["answers"]),
        )
        for row in table(name)
    ]


def passages(name: str) -> list[Passage]:
    """Return the pool that a data set's questions retrieve from: every passage once, in the order of the file.

    The companion's pool is all passages of all articles; elsewhere it is the passages that come with the questions.

    raises : as `load`
    """
    check_name("data set", name, _QUESTIONS)
    if name == "companion":
        return list(_companion_passages().values())
    pool: dict[str, Passage] = {}
    for question in load(name):
        for passage in question.gold + question.distractors:
            if pool.setdefault(passage.id, passage) != passage:
                raise DataError(f"data set {name!r}: two passages have the id {passage.id}")
    return list(pool.values())


def table(name: str) -> "datasets.Dataset":
    """Return a data set as a `datasets.Dataset` in memory, one row per question, the same columns for every set.

    name   : as for `load` and `load_judged`
    raises : as `load`
    """
    from datasets import Dataset

    read = {**_QUESTIONS, **_JUDGED}[check_name("data set", name, {**_QUESTIONS, **_JUDGED})]
    features = _features(judged=name in _JUDGED)
    return Dataset.from_list([{column: row[column] for column in features} for row in read()], features=features)


def _features(*, judged: bool) -> "datasets.Features":
    from datasets import Features, List, Value

    text = Value("string")
    if judged:
        answer = {"system": text, "text": text, "verdict": Value("bool")}
        return Features({"id": text, "text": text, "golds": List(text), "answers": List(answer)})
    passage = {"id": text, "title": text, "text": text, "sentences": List(text)}
    return Features(
        {
            "id": text,
            "text": text,
            "answers": List(text),
            "gold": List(passage),
            "distractors": List(passage),
            "split": text,
            "type": text,
            "kind": text,
            "gold_sentences": List(List(Value("int64"))),
        }
    )


# --- the form of a row, per file -------------------------------------------------------------------------------------


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("should hold no half of a surrogate pair") from None
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("should not be blank")
    return text


AnyText = Annotated[str, AfterValidator(_encodable)]
Text = Annotated[AnyText, AfterValidator(_not_blank)]
T = TypeVar("T")
Some = Annotated[list[T], Field(min_length=1)]


class _Row(BaseModel):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)


class _NqContext(_Row):
    title: AnyText
    text: Text
    isgold: bool


class _NqRow(_Row):
    question: Text
    answers: Some[Text]
    ctxs: Some[_NqContext]


class _SquadAnswer(_Row):
    text: Text


class _SquadQuestion(_Row):
    id: Text
    question: Text
    answers: Some[_SquadAnswer]


class _SquadParagraph(_Row):
    context: Text
    qas: Some[_SquadQuestion]


class _SquadRow(_Row):
    title: Text
    paragraphs: Some[_SquadParagraph]


class _Paragraph(_Row):
    title: AnyText
    text: Text
    is_supporting: bool


class _MultihopRow(_Row):
    id: Text
    question: Text
    answers: Some[Text]
    paragraphs: Some[_Paragraph]


class _EvounaRow(_Row):
    improper: bool
    question: Text
    golden_answer: AnyText | None
    answer_fid: AnyText | None
    judge_fid: bool | None
    answer_gpt35: AnyText | None
    judge_gpt35: bool | None
    answer_chatgpt: AnyText | None
    judge_chatgpt: bool | None
    answer_gpt4: AnyText | None
    judge_gpt4: bool | None
    answer_newbing: AnyText | None
    judge_newbing: bool | None


class _CompanionPassage(_Row):
    id: Text
    sentences: Some[Text]


class _ArticleRow(_Row):
    id: Text
    title: Text
    kind: Literal["real", "invented"]
    split: Text
    passages: Some[_CompanionPassage]


class _Gold(_Row):
    passage: Text
    sentences: Some[int]


class _CompanionRow(_Row):
    id: Text
    question: Text
    answers: Some[Text]
    type: Literal["single", "bridge", "comparison", "yes_no"]
    kind: Literal["real", "invented"]
    split: Text
    gold: Some[_Gold]
    distractors: list[Text]


R = TypeVar("R", bound=_Row)


def _check(form: type[R], row: object, where: str) -> R:
    if not isinstance(row, dict):
        raise DataError(f"{where}: wanted an object with named fields, got {type(row).__name__}")
    try:
        return form.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        raise DataError(f"{where}, field {field}: missing")
    wanted = first["msg"].removeprefix("Value error, ")
    raise DataError(f"{where}, field {field}: {wanted}, got {type(first['input']).__name__}")


# --- files -----------------------------------------------------------------------------------------------------------


def _lines(path: Path) -> Iterator[tuple[str, object]]:
    """Yield (file and row, parsed line) for the lines of a JSON lines file, gzipped or not, without the blank ones."""
    row = 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            for row, line in enumerate(file, 1):
                if line.strip():
                    where = f"{path}, row {row}"
                    yield where, _parse(line, where)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path}: not a whole gzip file, it breaks off or is damaged after row {row}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8 after row {row}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or type(error).__name__}") from error
    if not row:
        raise DataError(f"{path}: empty, wanted one row per line")


def _items(path: Path, key: str | None = None) -> Iterator[tuple[str, object]]:
    """Yield (file and row, item) for the items of a JSON list, or of the list under `key` of a JSON object."""
    try:
        content = _parse(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or type(error).__name__}") from error
    if key is not None:
        content = content.get(key) if isinstance(content, dict) else None
    if not isinstance(content, list) or not content:
        place = "" if key is None else f", field {key}"
        raise DataError(f"{path}{place}: wanted a list with one item per row, got {type(content).__name__} or no item")
    for row, item in enumerate(content, 1):
        yield f"{path}, row {row}", item


def _parse(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError):
        place = "numbers too long or nesting too deep"
    raise DataError(f"{where}: not JSON, or cut short ({place})")


def _once(ids: Iterable[str], where: str, field: str, seen: set[str] | None = None) -> None:
    seen = set() if seen is None else seen
    for value in ids:
        if value in seen:
            raise DataError(f"{where}, field {field}: the same was there before, wanted each once")
        seen.add(value)


def _number(rows: Iterable[dict]) -> Iterator[dict]:
    """Give rows without an id the hash of their text, and "-2", "-3", ... after it where the text comes again."""
    seen: Counter[str] = Counter()
    for row in rows:
        key = question_id(row["text"])
        seen[key] += 1
        yield {"id": key if seen[key] == 1 else f"{key}-{seen[key]}", **row}


def _record(text: str, answers: list[str], gold: list[dict], distractors: list[dict], **rest) -> dict:
    empty = {"split": None, "type": None, "kind": None, "gold_sentences": []}
    return {"text": text, "answers": answers, "gold": gold, "distractors": distractors, **empty, **rest}


def _hashed(title: str, text: str) -> dict:
    return {"id": passage_id(title, text), "title": title, "text": text, "sentences": []}


def _passage(row: dict) -> Passage:
    return Passage(row["id"], row["title"], row["text"], tuple(row["sentences"]))


# --- one reader per data set -----------------------------------------------------------------------------------------


def _read_nq() -> Iterator[dict]:
    def rows() -> Iterator[dict]:
        for where, row in _lines(locate("nq")):
            item = _check(_NqRow, row, where)
            found = [(_hashed(context.title, context.text), context.isgold) for context in item.ctxs]
            yield _record(item.question, item.answers, *_split(found, where, "ctxs"))

    return _number(rows())


def _read_squad() -> Iterator[dict]:
    """Titles lose the underscores that stand for their spaces."""
    seen: set[str] = set()
    for where, row in _items(locate("squad"), "data"):
        item = _check(_SquadRow, row, where)
        for paragraph in item.paragraphs:
            gold = [_hashed(item.title.replace("_", " "), paragraph.context)]
            for question in paragraph.qas:
                _once([question.id], where, "paragraphs.qas.id", seen)
                answers = [answer.text for answer in question.answers]
                yield _record(question.question, answers, gold, [], id=question.id)


def _read_multihop(name: str) -> Iterator[dict]:
    seen: set[str] = set()
    for where, row in _lines(locate(name)):
        item = _check(_MultihopRow, row, where)
        _once([item.id], where, "id", seen)
        found = [(_hashed(paragraph.title, paragraph.text), paragraph.is_supporting) for paragraph in item.paragraphs]
        yield _record(item.question, item.answers, *_split(found, where, "paragraphs"), id=item.id)


def _split(found: list[tuple[dict, bool]], where: str, field: str) -> tuple[list[dict], list[dict]]:
    """Part a question's passages into gold and others."""
    _once((passage["id"] for passage, _ in found), where, field)
    gold, others = [[passage for passage, is_gold in found if is_gold is wanted] for wanted in (True, False)]
    if not gold:
        raise DataError(f"{where}, field {field}: no passage is marked as gold, wanted at least one")
    return gold, others


def _read_evouna() -> Iterator[dict]:
    def rows() -> Iterator[dict]:
        for where, row in _items(locate("evouna_nq")):
            item = _check(_EvounaRow, row, where)
            if item.improper:
                continue
            golds = [gold.strip() for gold in (item.golden_answer or "").split("/") if gold.strip()]
            if not golds:
                raise DataError(f"{where}, field golden_answer: no gold in it, wanted one or more, parted by /")
            answers = [
                {
                    "system": system,
                    "text": getattr(item, f"answer_{system}") or "",
                    "verdict": getattr(item, f"judge_{system}"),
                }
                for system in SYSTEMS
            ]
            yield {"text": item.question, "golds": golds, "answers": answers}

    return _number(rows())


def _companion_passages() -> dict[str, Passage]:
    articles: set[str] = set()
    seen: set[str] = set()
    pool = {}
    for where, row in _lines(COMPANION / "articles.jsonl"):
        article = _check(_ArticleRow, row, where)
        _once([article.id], where, "id", articles)
        _once((part.id for part in article.passages), where, "passages.id", seen)
        for part in article.passages:
            pool[part.id] = Passage(part.id, article.title, " ".join(part.sentences), tuple(part.sentences))
    return pool


def _read_companion() -> Iterator[dict]:
    pool = _companion_passages()

    def find(name: str, where: str, field: str) -> dict:
        if name not in pool:
            raise DataError(f"{where}, field {field}: no article has this passage")
        passage = pool[name]
        return {"id": name, "title": passage.title, "text": passage.text, "sentences": list(passage.sentences)}

    seen: set[str] = set()
    for where, row in _lines(COMPANION / "questions.jsonl"):
        item = _check(_CompanionRow, row, where)
        _once([item.id], where, "id", seen)
        _once([*(part.passage for part in item.gold), *item.distractors], where, "gold and distractors")
        gold = [find(part.passage, where, f"gold.{i}.passage") for i, part in enumerate(item.gold)]
        for i, (part, passage) in enumerate(zip(item.gold, gold, strict=True)):
            if not all(0 <= number < len(passage["sentences"]) for number in part.sentences):
                last = len(passage["sentences"]) - 1
                raise DataError(f"{where}, field gold.{i}.sentences: wanted 0 to {last}, got another number")
        yield _record(
            item.question,
            item.answers,
            gold,
            [find(name, where, f"distractors.{i}") for i, name in enumerate(item.distractors)],
            id=item.id,
            split=item.split,
            type=item.type,
            kind=item.kind,
            gold_sentences=[part.sentences for part in item.gold],
        )


_QUESTIONS = {
    "companion": _read_companion,
    "nq": _read_nq,
    "squad": _read_squad,
    "hotpotqa": lambda: _read_multihop("hotpotqa"),
    "musique": lambda: _read_multihop("musique"),
}
_JUDGED = {"evouna_nq": _read_evouna}
