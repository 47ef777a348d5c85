"""The corpus of this book: articles, and what is asked about them, from files to rows in the form of `rag_utils.data`."""

from collections.abc import Iterator
from typing import Literal

from rag_utils.base.cache import ROOT
from rag_utils.corpora.manifest import DataError
from rag_utils.corpora.rows import Row, Some, Text, check, lines, once

COMPANION = ROOT / "data" / "companion"


class PassageRow(Row):
    id: Text
    sentences: Some[Text]


class ArticleRow(Row):
    id: Text
    title: Text
    kind: Literal["real", "invented"]
    split: Text
    passages: Some[PassageRow]


class GoldRow(Row):
    passage: Text
    sentences: Some[int]


class AskedRow(Row):
    id: Text
    kind: Literal["real", "invented"]
    split: Text
    gold: Some[GoldRow]
    distractors: list[Text]


class QuestionRow(AskedRow):
    question: Text
    answers: Some[Text]
    type: Literal["single", "bridge", "comparison", "yes_no"]

    def asked(self) -> dict:
        return {"text": self.question, "answers": self.answers, "type": self.type}


class ClaimRow(AskedRow):
    claim: Text
    label: Literal["supported", "refuted"]

    def asked(self) -> dict:
        return {"text": self.claim, "answers": ["true" if self.label == "supported" else "false"], "type": "claim"}


class LongRow(AskedRow):
    question: Text
    answer: Text

    def asked(self) -> dict:
        return {"text": self.question, "answers": [self.answer], "type": "long"}


class ContrastRow(Row):
    id: Text
    question: Text
    left: Text
    right: Text
    equivalent: bool
    category: Literal["number", "date", "yes_no", "negation", "entity", "paraphrase"]
    split: Literal["train", "test"]


FORMS = {
    "companion": ("questions.jsonl", QuestionRow),
    "companion_claims": ("claims.jsonl", ClaimRow),
    "companion_long": ("long.jsonl", LongRow),
}


def passages() -> dict[str, dict]:
    """Return id -> passage (id, title, text, sentences) of all passages of all articles, in the order of the file."""
    articles: set[str] = set()
    seen: set[str] = set()
    pool = {}
    for where, row in lines(COMPANION / "articles.jsonl"):
        article = check(ArticleRow, row, where)
        once([article.id], where, "id", articles)
        once((part.id for part in article.passages), where, "passages.id", seen)
        for part in article.passages:
            text = " ".join(part.sentences)
            pool[part.id] = {"id": part.id, "title": article.title, "text": text, "sentences": part.sentences}
    return pool


def asked(name: str) -> Iterator[dict]:
    """Yield the questions, claims or long questions, one of `FORMS`, with their passages."""
    pool = passages()

    def find(name: str, where: str, field: str) -> dict:
        if name not in pool:
            raise DataError(f"{where}, field {field}: no article has this passage")
        return pool[name]

    file, form = FORMS[name]
    seen: set[str] = set()
    for where, row in lines(COMPANION / file):
        item = check(form, row, where)
        once([item.id], where, "id", seen)
        once([*(part.passage for part in item.gold), *item.distractors], where, "gold and distractors")
        gold = [find(part.passage, where, f"gold.{i}.passage") for i, part in enumerate(item.gold)]
        for i, (part, passage) in enumerate(zip(item.gold, gold, strict=True)):
            if not all(0 <= number < len(passage["sentences"]) for number in part.sentences):
                last = len(passage["sentences"]) - 1
                raise DataError(f"{where}, field gold.{i}.sentences: wanted 0 to {last}, got another number")
        yield {
            **item.asked(),
            "gold": gold,
            "distractors": [find(name, where, f"distractors.{i}") for i, name in enumerate(item.distractors)],
            "id": item.id,
            "split": item.split,
            "kind": item.kind,
            "gold_sentences": [part.sentences for part in item.gold],
        }


def contrast() -> Iterator[dict]:
    """Yield the pairs of answers for a judge."""
    seen: set[str] = set()
    for where, row in lines(COMPANION / "contrast.jsonl"):
        item = check(ContrastRow, row, where)
        once([item.id], where, "id", seen)
        yield item.model_dump()
