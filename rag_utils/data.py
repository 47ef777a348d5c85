"""From files to questions and passages.

Each row of a file is checked (`DataError` names file, row and field, and quotes nothing), brought to one form for all
data sets, and held in a `datasets.Dataset` with that form's types, in memory. `load` turns it into `Question` objects.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pydantic import create_model

from rag_utils.base import checks
from rag_utils.base.names import check_name
from rag_utils.corpora import companion
from rag_utils.corpora.manifest import DataError, locate
from rag_utils.corpora.rows import AnyText, Row, Some, Text, check, items, lines, once
from rag_utils.corpora.sentences import split_sentences

if TYPE_CHECKING:
    import datasets

SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")  # of EVOUNA


@dataclass(frozen=True)
class Passage:
    """A piece of text that retrieval returns. `sentences` is empty where the source does not cut the text."""

    id: str
    title: str
    text: str
    sentences: tuple[str, ...] = ()

    def __post_init__(self):
        for name in ("id", "title", "text"):
            checks.text(name, getattr(self, name))
        checks.texts("sentences", self.sentences, least=0)

    def cut(self) -> list[str]:
        """Its sentences, found by punctuation where the source does not cut the text."""
        return list(self.sentences) or split_sentences(self.text)


@dataclass(frozen=True)
class Question:
    """A question with its accepted answers and what its source says about passages; the same for every data set.

    gold           : the passages that the source marks as needed; for bridges and comparisons, all of them
    distractors    : the other passages that come with the question, in the source's order
    gold_sentences : per gold passage, the numbers of the sentences needed; empty where the source does not say
    split          : the source's split; `held_out` cuts the benchmarks, which have none
    type           : the companion's: single, bridge, comparison, yes_no, claim or long
    kind           : the companion's: real or invented
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

    def __post_init__(self):
        for name in ("id", "text"):
            checks.text(name, getattr(self, name))
        checks.texts("answers", self.answers, least=0)
        for name in ("gold", "distractors"):
            checks.listed(name, getattr(self, name), least=0, of=Passage)


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


@dataclass(frozen=True)
class Contrast:
    """Two answers to a question and whether they mean the same, however alike they look; for testing a judge.

    category : what the pair turns on: number, date, yes_no, negation, entity or paraphrase
    split    : train or test; all pairs of a question are in one of them
    """

    id: str
    question: str
    left: str
    right: str
    equivalent: bool
    category: str
    split: str


def question_id(text: str) -> str:
    """Return the id of a question whose file gives none: the first 12 hex digits of the SHA-256 of its text.

    >>> question_id("who wrote hamlet")
    '87b473173b5e'
    """
    return hashlib.sha256(_encoded("text", text)).hexdigest()[:12]


def passage_id(title: str, text: str) -> str:
    """Return the id of a passage whose file gives none: 12 hex digits, the same wherever the passage stands.

    >>> passage_id("Hamlet", "A play.") == passage_id("Hamlet", "A play. ")
    False
    """
    return hashlib.sha256(_encoded("title", title) + b"\n" + _encoded("text", text)).hexdigest()[:12]


def held_out(question_text: str) -> bool:
    """Say whether a question belongs to the fixed quarter that no model of this book is trained on.

    The last digit of the SHA-256 of the exact text decides, of which the question's id shows nothing.

    >>> [held_out(text) for text in ("who wrote hamlet", "who wrote siddhartha")]
    [False, True]
    """
    return hashlib.sha256(_encoded("question_text", question_text)).hexdigest()[-1] in "048c"


def _encoded(name: str, text: str) -> bytes:
    return checks.text(name, text).encode()


def load(name: str) -> list[Question]:
    """Return the questions of a data set, in the order of its file.

    name   : "companion", "companion_claims", "companion_long", "nq", "squad", "hotpotqa" or "musique"
    raises : ValueError for an unknown name; DataError if a file is absent or a row is not of the form that is wanted

    A claim is the text of a question whose one answer is "true" or "false"; the one answer of a long question is its
    reference. Ids are the file's own; `nq` has none and gets `question_id`, with "-2" and so on after it where a text
    comes again (it does not in the file of the manifest).
    """
    check_name("data set", name, _QUESTIONS)
    questions = []
    for row in table(name):
        row |= {field: tuple(map(_passage, row[field])) for field in ("gold", "distractors")}
        row |= {"answers": tuple(row["answers"]), "gold_sentences": tuple(map(tuple, row["gold_sentences"]))}
        questions.append(Question(**row, dataset=name))
    return questions


def load_judged(name: str = "evouna_nq") -> list[Judged]:
    """Return the questions whose answers people judged, without the rows that the file calls improper.

    raises : ValueError for an unknown name; DataError if the file is absent or a row is not of the form that is wanted

    Ids are `question_id`, so they are those of `load("nq")` where the two share a question; a text that comes again
    gets "-2". Golds are the file's `golden_answer` cut at "/", which also cuts golds that have one in them. An answer
    that is null in the file is an empty text.
    """
    check_name("judged data set", name, _JUDGED)
    return [
        Judged(row["id"], row["text"], tuple(row["golds"]), tuple(JudgedAnswer(**answer) for answer in row["answers"]))
        for row in table(name)
    ]


def load_contrast() -> list[Contrast]:
    """Return the companion's pairs of answers for a judge, in the order of the file; raises DataError as `load`."""
    return [Contrast(**row) for row in table("companion_contrast")]


def passages(name: str) -> list[Passage]:
    """Return the pool that a data set's questions retrieve from: every passage once, in the order of the file.

    The companion's pool is all passages of all articles, the same for its questions, claims and long questions;
    elsewhere it is the passages that come with the questions.

    raises : as `load`
    """
    check_name("data set", name, _QUESTIONS)
    if name in companion.FORMS:
        return [_passage(row) for row in companion.passages().values()]
    pool: dict[str, Passage] = {}
    for question in load(name):
        for passage in question.gold + question.distractors:
            if pool.setdefault(passage.id, passage) != passage:
                raise DataError(f"data set {name!r}: two passages have the id {passage.id}")
    return list(pool.values())


def table(name: str) -> "datasets.Dataset":
    """Return a data set as a `datasets.Dataset` in memory, the same columns for every set that `load` reads.

    name   : as for `load` and `load_judged`, or "companion_contrast"
    raises : as `load`
    """
    from datasets import Dataset

    readers = {**_QUESTIONS, **_JUDGED, **_CONTRAST}
    read = readers[check_name("data set", name, readers)]
    features = _features(name)
    return Dataset.from_list([{column: row[column] for column in features} for row in read()], features=features)


def _features(name: str) -> "datasets.Features":
    from datasets import Features, List, Value

    text = Value("string")
    if name in _CONTRAST:
        pair = {"id": text, "question": text, "left": text, "right": text}
        return Features({**pair, "equivalent": Value("bool"), "category": text, "split": text})
    if name in _JUDGED:
        answer = {"system": text, "text": text, "verdict": Value("bool")}
        return Features({"id": text, "text": text, "golds": List(text), "answers": List(answer)})
    passage = {"id": text, "title": text, "text": text, "sentences": List(text)}
    plain = dict.fromkeys(("id", "text", "split", "type", "kind"), text)
    lists = {"answers": text, "gold": passage, "distractors": passage, "gold_sentences": List(Value("int64"))}
    return Features(plain | {name: List(of) for name, of in lists.items()})


class _NqContext(Row):
    title: AnyText
    text: Text
    isgold: bool


class _NqRow(Row):
    question: Text
    answers: Some[Text]
    ctxs: Some[_NqContext]


class _SquadAnswer(Row):
    text: Text


class _SquadQuestion(Row):
    id: Text
    question: Text
    answers: Some[_SquadAnswer]


class _SquadParagraph(Row):
    context: Text
    qas: Some[_SquadQuestion]


class _SquadRow(Row):
    title: Text
    paragraphs: Some[_SquadParagraph]


class _Paragraph(Row):
    title: AnyText
    text: Text
    is_supporting: bool


class _MultihopRow(Row):
    id: Text
    question: Text
    answers: Some[Text]
    paragraphs: Some[_Paragraph]


_SAID = {"answer": AnyText | None, "judge": bool | None}
_EVOUNA = {"improper": bool, "question": Text, "golden_answer": AnyText | None}
_EVOUNA |= {f"{field}_{system}": form for system in SYSTEMS for field, form in _SAID.items()}
_EvounaRow = create_model("_EvounaRow", __base__=Row, **{field: (form, ...) for field, form in _EVOUNA.items()})


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


def _read_nq() -> Iterator[dict]:
    def rows() -> Iterator[dict]:
        for where, row in lines(locate("nq")):
            item = check(_NqRow, row, where)
            contexts = [(_hashed(context.title, context.text), context.isgold) for context in item.ctxs]
            yield _record(item.question, item.answers, *_split(contexts, where, "ctxs"))

    return _number(rows())


def _read_squad() -> Iterator[dict]:
    """Titles lose the underscores that stand for their spaces."""
    seen: set[str] = set()
    for where, row in items(locate("squad"), "data"):
        item = check(_SquadRow, row, where)
        for paragraph in item.paragraphs:
            gold = [_hashed(item.title.replace("_", " "), paragraph.context)]
            for question in paragraph.qas:
                once([question.id], where, "paragraphs.qas.id", seen)
                answers = [answer.text for answer in question.answers]
                yield _record(question.question, answers, gold, [], id=question.id)


def _read_multihop(name: str) -> Iterator[dict]:
    seen: set[str] = set()
    for where, row in lines(locate(name)):
        item = check(_MultihopRow, row, where)
        once([item.id], where, "id", seen)
        paragraphs = [(_hashed(part.title, part.text), part.is_supporting) for part in item.paragraphs]
        yield _record(item.question, item.answers, *_split(paragraphs, where, "paragraphs"), id=item.id)


def _split(passages: list[tuple[dict, bool]], where: str, field: str) -> tuple[list[dict], list[dict]]:
    """Part a question's passages into gold and others."""
    once((passage["id"] for passage, _ in passages), where, field)
    gold, others = [[passage for passage, is_gold in passages if is_gold is wanted] for wanted in (True, False)]
    if not gold:
        raise DataError(f"{where}, field {field}: no passage is marked as gold, wanted at least one")
    return gold, others


def _read_evouna() -> Iterator[dict]:
    def rows() -> Iterator[dict]:
        for where, row in items(locate("evouna_nq")):
            item = check(_EvounaRow, row, where)
            if item.improper:
                continue
            golds = [gold.strip() for gold in (item.golden_answer or "").split("/") if gold.strip()]
            if not golds:
                raise DataError(f"{where}, field golden_answer: no gold in it, wanted one or more, parted by /")
            said = item.model_dump()
            answers = [
                {"system": name, "text": said[f"answer_{name}"] or "", "verdict": said[f"judge_{name}"]}
                for name in SYSTEMS
            ]
            yield {"text": item.question, "golds": golds, "answers": answers}

    return _number(rows())


_QUESTIONS = {
    **{name: partial(companion.asked, name) for name in companion.FORMS},
    "nq": _read_nq,
    "squad": _read_squad,
    "hotpotqa": lambda: _read_multihop("hotpotqa"),
    "musique": lambda: _read_multihop("musique"),
}
_JUDGED = {"evouna_nq": _read_evouna}
_CONTRAST = {"companion_contrast": companion.contrast}
