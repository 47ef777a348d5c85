"""The corpus of this book: articles, and what is asked about them, from files to rows in the form of `rag_utils.data`."""

from collections.abc import Iterator
from typing import Literal

from rag_utils.base.cache import ROOT
from rag_utils.corpora.rows import DataError, Some, Text, checked, fields, lines, once

COMPANION = ROOT / "data" / "companion"

KIND = Literal["real", "invented"]
ARTICLE = fields(id=Text, title=Text, kind=KIND, split=Text, passages=Some[fields(id=Text, sentences=Some[Text])])
CATEGORY = Literal["number", "date", "yes_no", "negation", "entity", "paraphrase"]
CONTRAST = fields(id=Text, question=Text, left=Text, right=Text, equivalent=bool, category=CATEGORY, split=Literal["train", "test"])
GOLD = fields(passage=Text, sentences=Some[int])
ASKED = {"id": Text, "kind": KIND, "split": Text, "gold": Some[GOLD], "distractors": list[Text]}
TYPES = Literal["single", "bridge", "comparison", "yes_no"]
FORMS = {  # name -> file, form of its rows, (text, answers, type) of a row
    "companion": (
        "questions.jsonl",
        fields(**ASKED, question=Text, answers=Some[Text], type=TYPES),
        lambda item: (item.question, item.answers, item.type),
    ),
    "companion_claims": (
        "claims.jsonl",
        fields(**ASKED, claim=Text, label=Literal["supported", "refuted"]),
        lambda item: (item.claim, ["true" if item.label == "supported" else "false"], "claim"),
    ),
    "companion_long": ("long.jsonl", fields(**ASKED, question=Text, answer=Text), lambda item: (item.question, [item.answer], "long")),
}


def passages() -> dict[str, dict]:
    """Return id -> passage (id, title, text, sentences) of all passages of all articles, in the order of the file."""
    pool, seen = {}, set()
    for where, article in checked(ARTICLE, lines(COMPANION / "articles.jsonl")):
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

    file, form, asks = FORMS[name]
    for where, item in checked(form, lines(COMPANION / file)):
        once([*(part.passage for part in item.gold), *item.distractors], where, "gold and distractors")
        gold = [find(part.passage, where, f"gold.{i}.passage") for i, part in enumerate(item.gold)]
        for i, (part, passage) in enumerate(zip(item.gold, gold, strict=True)):
            last = len(passage["sentences"]) - 1
            if min(part.sentences) < 0 or max(part.sentences) > last:
                raise DataError(f"{where}, field gold.{i}.sentences: wanted 0 to {last}, got another number")
        text, answers, its_type = asks(item)
        others = [find(name, where, f"distractors.{i}") for i, name in enumerate(item.distractors)]
        row = {"id": item.id, "text": text, "answers": answers, "gold": gold, "distractors": others}
        sentences = [part.sentences for part in item.gold]
        yield row | {"split": item.split, "type": its_type, "kind": item.kind, "gold_sentences": sentences}


def contrast() -> Iterator[dict]:
    """Yield the pairs of answers for a judge."""
    for _, item in checked(CONTRAST, lines(COMPANION / "contrast.jsonl")):
        yield item.model_dump()
