"""From files to questions and passages.

Each row of a file is checked (`DataError` names file, row and field, and quotes nothing) and brought to one form for all
data sets, which a `datasets.Dataset` holds in memory; `load` turns that into `Question` objects.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from rag_utils.base import checks
from rag_utils.base.sealed import sha256
from rag_utils.corpora import companion
from rag_utils.corpora.manifest import DataError, locate
from rag_utils.corpora.rows import AnyText, Row, Some, Text, check, checked, fields, items, lines, once
from rag_utils.corpora.sentences import split_sentences

SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")  # of EVOUNA
JUDGED = ("evouna_nq", "evouna_tq")
_KEY_VALUES = fields(ordered_kv_records=Some[list[Text]], key=Text, value=Text)


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
    """A question with its accepted answers and what its source says about passages; the same for every data set."""

    id: str
    text: str
    answers: tuple[str, ...]
    dataset: str
    gold: tuple[Passage, ...] = ()  # marked as needed by the source; for bridges and comparisons, all of them
    distractors: tuple[Passage, ...] = ()  # the others that come with the question, in the source's order
    split: str | None = None  # the source's; `held_out` cuts the benchmarks, which have none
    type: str | None = None  # the companion's: single, bridge, comparison, yes_no, claim or long
    kind: str | None = None  # the companion's: real or invented
    gold_sentences: tuple[tuple[int, ...], ...] = ()  # per gold passage, those needed; empty where nobody says

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
    """Two answers to a question and whether they mean the same, however alike they look; for testing a judge."""

    id: str
    question: str
    left: str
    right: str
    equivalent: bool
    category: str  # what the pair turns on: number, date, yes_no, negation, entity or paraphrase
    split: str  # train or test; all pairs of a question are in one of them


def question_id(text: str) -> str:
    """The id of a question whose file gives none: the first 12 hex digits of the SHA-256 of its text.

    >>> question_id("who wrote hamlet")
    '87b473173b5e'
    """
    return sha256(checks.text("text", text))[:12]


def passage_id(title: str, text: str) -> str:
    """The id of a passage whose file gives none: 12 hex digits, the same wherever the passage stands.

    >>> passage_id("Hamlet", "A play.") == passage_id("Hamlet", "A play. ")
    False
    """
    return sha256(f"{checks.text('title', title)}\n{checks.text('text', text)}")[:12]


def held_out(question_text: str) -> bool:
    """Whether a question belongs to the fixed quarter that no model of this book is trained on.

    The last digit of the SHA-256 of the exact text decides, of which the question's id shows nothing.

    >>> [held_out(text) for text in ("who wrote hamlet", "who wrote siddhartha")]
    [False, True]
    """
    return sha256(checks.text("question_text", question_text))[-1] in "048c"


def load(name: str) -> list[Question]:
    """The questions of a data set, in the order of its file.

    name   : "companion", "companion_claims", "companion_long", "nq", "squad", "hotpotqa" or "musique". A claim is the text of
             a question whose one answer is "true" or "false". Ids are the file's own; `nq` has none and gets `question_id`,
             with "-2" and so on after it where a text comes again
    raises : ValueError for an unknown name; DataError if a file is absent or a row is not of the form that is wanted
    """
    checks.one_of("data set", name, _QUESTIONS)
    questions = []
    for row in table(name):
        row |= {field: tuple(map(_passage, row[field])) for field in ("gold", "distractors")}
        row |= {"answers": tuple(row["answers"]), "gold_sentences": tuple(map(tuple, row["gold_sentences"]))}
        questions.append(Question(**row, dataset=name))
    return questions


def load_judged(name: str = "evouna_nq") -> list[Judged]:
    """The questions whose answers people judged, without the rows that the file calls improper; raises as `load`.

    Ids are those of `load("nq")` where the two share a question. Golds are the file's `golden_answer` cut at "/", which
    also cuts golds that have one in them. An answer that is null in the file is an empty text.
    """
    checks.one_of("judged data set", name, JUDGED)
    said = ((row, tuple(JudgedAnswer(**answer) for answer in row["answers"])) for row in table(name))
    return [Judged(row["id"], row["text"], tuple(row["golds"]), answers) for row, answers in said]


def load_contrast() -> list[Contrast]:
    """The companion's pairs of answers for a judge, in the order of the file; raises as `load`."""
    return [Contrast(**row) for row in table("companion_contrast")]


def load_key_values(n: int, size: int, *, seed: int = 0) -> tuple[list[Question], dict[str, tuple[Passage, ...]]]:
    """Key-value retrieval (Liu et al. 2024): the value of a key among `size` keys, each a passage, the wanted one at a random place."""
    questions, shown = [], {}
    for number, (where, row) in enumerate(islice(lines(locate("kv_retrieval")), n)):
        item = check(_KEY_VALUES, row, where)
        records = [record for record in item.ordered_kv_records if record[0] != item.key][: size - 1]
        name = question_id(item.key)
        gold, *others = passages = [
            Passage(f"{name}-{i}", "", f"Key {key} has the value {value}.")
            for i, (key, value) in enumerate([(item.key, item.value), *records])
        ]
        asked = (f"which value has key {item.key}", (item.value,), "kv_retrieval", (gold,), tuple(others))
        questions.append(Question(name, *asked))
        shown[name] = tuple(passages[place] for place in np.random.default_rng([seed, number]).permutation(size))
    return questions, shown


def passages(name: str) -> list[Passage]:
    """The pool that a data set's questions retrieve from: every passage once, in the order of the file; raises as `load`.

    For the companion's sets all passages of all articles; elsewhere those that come with the questions.
    """
    checks.one_of("data set", name, _QUESTIONS)
    if name in companion.FORMS:
        return [_passage(row) for row in companion.passages().values()]
    pool: dict[str, Passage] = {}
    for question in load(name):
        for passage in question.gold + question.distractors:
            if pool.setdefault(passage.id, passage) != passage:
                raise DataError(f"data set {name!r}: two passages have the id {passage.id}")
    return list(pool.values())


def table(name: str):
    """A data set as a `datasets.Dataset` in memory, the same columns for every set that `load` reads; raises as `load`.

    name : as for `load` and `load_judged`, or "companion_contrast"
    """
    from datasets import Dataset, Features, List, Value

    others = {of: (lambda of=of: _numbered(_evouna(of))) for of in JUDGED} | {"companion_contrast": companion.contrast}
    readers = _QUESTIONS | others
    rows = list(readers[checks.one_of("data set", name, readers)]())
    if name not in _QUESTIONS:
        return Dataset.from_list(rows)
    text = Value("string")
    passage = {"id": text, "title": text, "text": text, "sentences": List(text)}
    lists = {"answers": text, "gold": passage, "distractors": passage, "gold_sentences": List(Value("int64"))}
    kinds = dict.fromkeys(rows[0], text) | {field: List(of) for field, of in lists.items()}
    return Dataset.from_list(rows, features=Features(kinds))  # said, for a column may hold nothing in one of the sets


_NQ = fields(question=Text, answers=Some[Text], ctxs=Some[fields(title=AnyText, text=Text, isgold=bool)])
_PARAGRAPH = fields(title=AnyText, text=Text, is_supporting=bool)
_MULTIHOP = fields(id=Text, question=Text, answers=Some[Text], paragraphs=Some[_PARAGRAPH])
_SQUAD_QUESTION = fields(id=Text, question=Text, answers=Some[fields(text=Text)])
_SQUAD = fields(title=Text, paragraphs=Some[fields(context=Text, qas=Some[_SQUAD_QUESTION])])
_SAID = {"answer": AnyText | None, "judge": bool | None}
_EVOUNA = fields(
    improper=bool,
    question=Text,
    golden_answer=AnyText | None,
    **{f"{field}_{system}": kind for system in SYSTEMS for field, kind in _SAID.items()},
)


def _numbered(rows: Iterable[dict]) -> Iterator[dict]:
    """Rows with the hash of their text as id, and "-2", "-3", ... after it where the text comes again."""
    seen: Counter[str] = Counter()
    for row in rows:
        key = question_id(row["text"])
        seen[key] += 1
        yield row | {"id": key if seen[key] == 1 else f"{key}-{seen[key]}"}


def _record(id: str | None, text: str, answers: list[str], gold: list[dict], distractors: list[dict]) -> dict:
    asked = {"id": id, "text": text, "answers": answers, "gold": gold, "distractors": distractors}
    return asked | {"split": None, "type": None, "kind": None, "gold_sentences": []}


def _hashed(title: str, text: str) -> dict:
    return {"id": passage_id(title, text), "title": title, "text": text, "sentences": []}


def _passage(row: dict) -> Passage:
    return Passage(row["id"], row["title"], row["text"], tuple(row["sentences"]))


def _marked(name: str, form: type[Row], field: str, mark: str) -> Iterator[dict]:
    """Questions that come with a list of passages, of which those with a mark are gold."""
    for where, item in checked(form, lines(locate(name))):
        parts = [(_hashed(part.title, part.text), getattr(part, mark)) for part in getattr(item, field)]
        once((passage["id"] for passage, _ in parts), where, field)
        gold, others = ([passage for passage, marked in parts if marked is wanted] for wanted in (True, False))
        if not gold:
            raise DataError(f"{where}, field {field}: no passage is marked as gold, wanted at least one")
        yield _record(getattr(item, "id", None), item.question, item.answers, gold, others)


def _squad() -> Iterator[dict]:
    """Titles lose the underscores that stand for their spaces."""
    seen: set[str] = set()
    for where, item in checked(_SQUAD, items(locate("squad"), "data")):
        for paragraph in item.paragraphs:
            gold = [_hashed(item.title.replace("_", " "), paragraph.context)]
            once((question.id for question in paragraph.qas), where, "paragraphs.qas.id", seen)
            for question in paragraph.qas:
                yield _record(question.id, question.question, [answer.text for answer in question.answers], gold, [])


def _evouna(name: str) -> Iterator[dict]:
    rows = items(locate(name))  # of improper ones nothing is used; in TQ some have the word "nan" as verdict
    proper = (row for row in rows if not (isinstance(row[1], dict) and row[1].get("improper") is True))
    for where, item in checked(_EVOUNA, proper):
        golds = [gold.strip() for gold in (item.golden_answer or "").split("/") if gold.strip()]
        if not golds:
            raise DataError(f"{where}, field golden_answer: no gold in it, wanted one or more, parted by /")
        said = [(name, getattr(item, f"answer_{name}"), getattr(item, f"judge_{name}")) for name in SYSTEMS]
        answers = [{"system": name, "text": text or "", "verdict": verdict} for name, text, verdict in said]
        yield {"id": None, "text": item.question, "golds": golds, "answers": answers}


_QUESTIONS = {
    **{name: partial(companion.asked, name) for name in companion.FORMS},
    "nq": lambda: _numbered(_marked("nq", _NQ, "ctxs", "isgold")),
    "squad": _squad,
    **{name: partial(_marked, name, _MULTIHOP, "paragraphs", "is_supporting") for name in ("hotpotqa", "musique")},
}
