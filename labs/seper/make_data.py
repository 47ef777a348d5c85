"""Writes this lab's data from recorded calls: ten replies per context, their log-likelihoods, and what the judge says of them.

usage: python labs/seper/make_data.py            computes with reader and judge what is not recorded (five minutes)

salt.json   : q031 of the companion corpus, asked without a passage, with each of the six passages of its article, and with all six
corpus.json : QUESTIONS questions of one gold passage, asked without a passage, with it, and with a hard negative, as chapter 2 asks them
"""

import json
from pathlib import Path

from rag_utils import data, judge, lm, prompts, retrieve
from rag_utils.measures import CLOSED, GOLD, NEGATIVE
from rag_utils.measures import seper as measure

DATA = Path(__file__).resolve().parent / "data"
SALT, ALL = "q031", "all six"
QUESTIONS, SAMPLES, SEED = 60, 10, 0
CLOSED_PROMPT, READ_PROMPT = "closed_plain", "read_plain"
DECIMALS = 4


def main() -> None:
    everything, pool = data.load("companion"), data.passages("companion")
    salt = next(question for question in everything if question.id == SALT)
    article = [passage for passage in pool if passage.title == salt.gold[0].title]
    shown = {CLOSED: None} | {passage.id: {SALT: (passage,)} for passage in article} | {ALL: {SALT: tuple(article)}}
    write("salt", [salt], shown)
    single = [question for question in everything if question.type == "single" and question.id != SALT]
    chosen = single[:: len(single) // QUESTIONS][:QUESTIONS]
    negatives = retrieve.hard_negatives(everything, pool)
    gold = {question.id: question.gold for question in chosen}
    shown = {CLOSED: None, GOLD: gold, NEGATIVE: {question.id: negatives[question.id] for question in chosen}}
    write("corpus", chosen, shown)


def write(name: str, questions: list[data.Question], shown: measure.Shown) -> None:
    """Ask, judge, and write DATA/name.json: who was asked how, and one entry per question with one per context."""
    reader, forms = lm.load("embedded", mode="live"), [prompts.load(form) for form in (CLOSED_PROMPT, READ_PROMPT)]
    asked = measure.prompts_of(reader, questions, shown, closed=forms[0], read=forms[1])
    drawn = measure.draw(reader, asked, n=SAMPLES, seed=SEED)
    agreed = measure.agreements(judge.load_judge("embedded"), questions, drawn)
    rows = []
    for question in questions:
        texts = {"id": question.id, "question": question.text, "answers": list(question.answers)}
        contexts = [as_line(context(question, each, shown, drawn, agreed)) for each in shown]
        rows.append(as_line(texts)[:-1] + ', "contexts": [\n  ' + ",\n  ".join(contexts) + "\n]}")
    head = {"reader": reader.fingerprint, "prompts": {form.name: form.digest for form in forms}}
    head |= {"samples": SAMPLES, "temperature": 1.0, "seed": SEED, "licence": "CC0 1.0"}
    text = as_line({"made_with": head})[:-1] + ', "questions": [\n' + ",\n".join(rows) + "\n]}\n"
    (DATA / f"{name}.json").write_text(text, encoding="utf-8")


def as_line(value: dict) -> str:
    return json.dumps(value, ensure_ascii=False)


def context(question, name, shown, drawn, agreed) -> dict:
    """One context: the passages, whether they are gold (1, 0; null where none or several are shown), and what became of ten replies."""
    passages = shown[name][question.id] if shown[name] else ()
    kernel, same = agreed[question.id, name]
    replies = drawn[question.id, name]
    return {
        "name": name,
        "passages": [passage.text for passage in passages],
        "gold": int(passages[0] in question.gold) if len(passages) == 1 else None,
        "replies": [reply.text.strip() for reply in replies],
        "token_log_likelihood": [numbers(reply.token_log_likelihood) for reply in replies],
        "kernel": [numbers(row) for row in kernel],
        "same": [numbers(row.astype(int)) for row in same],
    }


def numbers(values) -> list:
    return [round(value, DECIMALS) for value in values.tolist()]


if __name__ == "__main__":
    main()
