"""Writes this lab's data from recorded calls: the reader's reply to each retrieved passage alone, and to each beginning of each list.

usage: python labs/erag/make_data.py            computes with the reader what is not recorded: six calls, of Port Sennick

salt.json   : q031 of the companion corpus and the six passages of its article, in their order
corpus.json : the 240 questions of the companion corpus, with the ten passages that BM25 and MiniLM find, as chapter 3 asks them

The reader is that of chapter 3. "by_heart": right in at least five of ten samples without passages.
"""

import json
from pathlib import Path

import pandas as pd

from rag_utils import answers, data, lm, prompts
from rag_utils.base.cache import ROOT
from rag_utils.corpora import companion

DATA = Path(__file__).resolve().parent / "data"
LISTS = ROOT / "data" / "results" / "03_erag_kendall" / "lists.csv"
PROFILE, READ_PROMPT, TOKENS = "embedded", "read_plain", 24
KNOWN, BY_HEART = companion.COMPANION / "known.csv", 5  # of ten samples that are right without passages
SALT, ARTICLE = "q031", "article"


def main() -> None:
    questions, passages = data.load("companion"), {passage.id: passage for passage in data.passages("companion")}
    rows = pd.read_csv(LISTS).sort_values("rank")
    lists = {question.id: {} for question in questions}
    for (name, retriever), part in rows[rows["id"].isin(lists)].groupby(["id", "condition"], sort=False):
        lists[name][retriever] = part["document"].tolist()
    [salt] = [question for question in questions if question.id == SALT]
    article = [name for name, passage in passages.items() if passage.title == salt.gold[0].title]
    write("salt", [salt], {SALT: {ARTICLE: article}}, passages, texts=True)
    write("corpus", questions, lists, passages)


def write(name: str, questions: list[data.Question], lists: dict, passages: dict, *, texts: bool = False) -> None:
    """Ask, and write DATA/name.json: who was asked how, and a line per question; with the texts of its passages if they are few."""
    reader, form, heart = lm.load(PROFILE, mode="live"), prompts.load(READ_PROMPT), known()
    shown = {
        (question.id, part): prompts.prompt_text(reader, form, question, [passages[each].text for each in part])
        for question in questions
        for ranked in lists[question.id].values()
        for part in contexts(ranked)
    }
    distinct = list(dict.fromkeys(shown.values()))
    said = dict(zip(distinct, reader.generate(distinct, max_new_tokens=TOKENS), strict=True))
    lines = []
    for question in questions:
        names = list(dict.fromkeys(each for ranked in lists[question.id].values() for each in ranked))
        gold = {passage.id for passage in question.gold}
        line = {"id": question.id, "question": question.text, "answers": list(question.answers)}
        line |= {"kind": question.kind, "type": question.type}
        line |= {"by_heart": question.id in heart, "lists": lists[question.id]}
        line["needed"] = [each for each in names if each in gold]
        line["holds"] = [each for each in names if answers.contains_answer(passages[each].text, question.answers)]
        if texts:
            line["texts"] = {each: passages[each].text for each in names}
        replies = {part: said[shown[question.id, part]][0].text.strip() for own, part in shown if own == question.id}
        line["replies"] = {" ".join(part): reply for part, reply in replies.items()}
        lines.append(as_line(line))
    head = {"reader": reader.fingerprint, "profile": f"{PROFILE}, as chapter 3 of the book", "licence": "CC0 1.0"}
    head |= {"prompts": {form.name: form.digest}, "tokens": TOKENS, "temperature": 0}
    text = as_line({"made_with": head})[:-1] + ', "questions": [\n' + ",\n".join(lines) + "\n]}\n"
    (DATA / f"{name}.json").write_text(text, encoding="utf-8")


def known() -> set[str]:
    """The ids of the questions that the reader answers without passages."""
    rows = pd.read_csv(KNOWN).query("reader == 'embedded'")
    return set(rows.loc[rows["right_of_ten"] >= BY_HEART, "id"])


def contexts(ranked: list[str]) -> list[tuple[str, ...]]:
    """Each passage alone, and the list up to each rank."""
    return [(name,) for name in ranked] + [tuple(ranked[:depth]) for depth in range(2, len(ranked) + 1)]


def as_line(value: dict) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
