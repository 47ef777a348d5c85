"""Writes this lab's data: labels and answers that chapter 6 recorded, and some twenty calls about the salt of Port Sennick.

usage: python labs/ecorag/make_data.py           computes with the reader what is not recorded (half a minute)

salt.json    : q031 of the companion corpus; how probable the answer is after several parts of its article, and the article's sentences
labels.json  : the questions whose sentences chapter 6 labelled, with the answers behind the labels, from data/results
reading.json : the questions that chapter 6 compressed, with the scores of their sentences, the evaluator's replies and the reader's
"""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from rag_utils import data, lm, prompts, retrieve
from rag_utils.base.cache import ROOT
from rag_utils.measures import CLOSED
from rag_utils.measures import ecorag as measure

DATA = Path(__file__).resolve().parent / "data"
CHAPTER, SALT, ANSWER = "06_ecorag_ablations", "q031", " 1829"
LABELS = ROOT / "data" / "results" / CHAPTER / "labels.csv"
PASSAGES, MAX_NEW_TOKENS = 20, 16
COUNTS = range(
    measure.STEP, measure.LIMIT + 1, measure.STEP
)  # of the best sentences, those with which answers are recorded
CLOSED_PROMPT, READ_PROMPT = "closed_plain", "read_plain"
DECIMALS = 4


def main() -> None:
    everything, pool = data.load("companion"), data.passages("companion")
    score = measure.dot_products(retrieve.encoder(), measure.load_head("evidentiality"))
    of_salt = [question for question in everything if question.id == SALT]
    article = [passage for passage in pool if passage.title == of_salt[0].gold[0].title]
    write("salt", [salt(of_salt[0], article, score)])
    write("labels", labels(everything, pool))
    unseen = [question for question in everything if question.split != "train" and question.type != "yes_no"]
    write("reading", reading(unseen, pool, score))


def write(name: str, questions: list[dict]) -> None:
    reader, forms = lm.load("embedded"), [prompts.load(form) for form in (CLOSED_PROMPT, READ_PROMPT)]
    head = {"reader": reader.fingerprint, "prompts": {form.name: form.digest for form in forms}, "licence": "CC0 1.0"}
    lines = ",\n".join(json.dumps(question, ensure_ascii=False) for question in questions)
    text = json.dumps({"made_with": head}, ensure_ascii=False)[:-1] + ', "questions": [\n' + lines + "\n]}\n"
    (DATA / f"{name}.json").write_text(text, encoding="utf-8")


def salt(question: data.Question, article: list[data.Passage], score: measure.Score) -> dict:
    """The running question: its article's sentences as `compressible` has them, and contexts, each with the tokens of the answer.

    Here, as in the other labs about it, the reader sees no titles.
    """
    [gold], [[place]] = question.gold, question.gold_sentences
    cut = gold.cut()
    kept = compressible([question], {SALT: article}, score)[SALT]
    kept["texts"] = [text for passage in article for text in passage.cut()]
    best = [kept["texts"][at] for at in np.argsort(-np.array(kept["scores"]), kind="stable")]
    contexts = {
        "the sentence": [cut[place]],
        "its passage": [gold.text],
        "its passage without it": [" ".join(text for at, text in enumerate(cut) if at != place)],
        "the other five": [passage.text for passage in article if passage != gold],
        "all six": [passage.text for passage in article],
        **{f"best {n}": best[:n] for n in COUNTS if n < len(best)},
    }
    form = prompts.load(READ_PROMPT)
    asked = [form.fill(question=question.text, documents=texts) for texts in contexts.values()]
    nats = lm.load("embedded", mode="live").log_likelihood(asked, [ANSWER] * len(asked))
    rows = [
        {"name": name, "texts": texts, "token_log_likelihood": numbers(tokens)}
        for (name, texts), tokens in zip(contexts.items(), nats, strict=True)
    ]
    return kept | {"answers": list(question.answers), "contexts": rows}


def labels(everything: list[data.Question], pool: list[data.Passage]) -> list[dict]:
    """Per question the three answers behind every label of chapter 6; null where the reader was not asked.

    A label says what the answers were: `ecorag.mine` asks with a sentence only where the reader is wrong without, and beside a strong
    sentence only where there is one.
    """
    by_id, cut = {question.id: question for question in everything}, {passage.id: passage.cut() for passage in pool}
    rows = []
    for name, part in pd.read_csv(LABELS).groupby("id", sort=False):
        closed, given = bool(part["closed"].iloc[0]), part["label"].tolist()
        some_strong = "strong" in given
        rows.append(
            {
                "id": name,
                "question": by_id[name].text,
                "about": by_id[name].kind,
                "closed": closed,
                "sentences": [cut[row.passage][row.place] for row in part.itertuples()],
                "gold": part["gold"].tolist(),
                "alone": [None if closed else label == "strong" for label in given],
                "beside": [label != "distractor" if some_strong else None for label in given],
            }
        )
    return rows


def reading(questions: list[data.Question], pool: list[data.Passage], score: measure.Score) -> list[dict]:
    """Per question its best passages' sentences, and whether the reader is right without any, with the best 4, 8, ..., and with all."""
    run, by_id = retrieve.bm25(questions, pool, k=PASSAGES), {passage.id: passage for passage in pool}
    found = {q.id: [*dict.fromkeys([*retrieve.ranking(run[q.id]), *by_id])][:PASSAGES] for q in questions}
    passages = {name: [by_id[each] for each in names] for name, names in found.items()}
    rows = compressible(questions, passages, score)
    best = {name: [each.text for each in own] for name, own in measure.ranked(questions, passages, score).items()}
    kept = {CLOSED: None, "all": {name: [measure.titled(each) for each in own] for name, own in passages.items()}}
    kept |= {str(n): {name: texts[:n] for name, texts in best.items()} for n in COUNTS}
    forms = {"closed": prompts.load(CLOSED_PROMPT), "read": prompts.load(READ_PROMPT)}
    reader = lm.load("embedded", chapter=CHAPTER)
    said = measure.answered(reader, questions, kept, max_new_tokens=MAX_NEW_TOKENS, **forms)
    right = said.pivot(index="id", columns="condition", values="exact_match").astype(bool)
    tokens = said[said["condition"] == "all"].set_index("id")["tokens"]
    for name, row in rows.items():
        row |= {"right": {each: bool(right.loc[name, each]) for each in kept}, "tokens_of_all": int(tokens[name])}
        del row["texts"]
    return list(rows.values())


def compressible(questions, passages, score: measure.Score) -> dict[str, dict]:
    """Per question its sentences with names, texts, scores and tokens, and P(sufficient) of the best 1, 2, ... of them."""
    evaluator, count = measure.small_evaluator(score), lm.load("embedded").count_tokens
    rows = {}
    for question in questions:
        cut = measure.sentences(passages[question.id])
        texts = [sentence.text for sentence in cut]
        [scores] = score([question.text], [texts])
        best = [texts[at] for at in np.argsort(-scores, kind="stable")][: measure.LIMIT]
        shown = [best[:n] for n in range(1, len(best) + 1)]
        rows[question.id] = {
            "id": question.id,
            "question": question.text,
            "sentences": [f"{sentence.passage}:{sentence.place}" for sentence in cut],
            "texts": texts,
            "scores": [round(value, 6) for value in scores.tolist()],
            "tokens": [*map(count, texts)],
            "sufficient": numbers(evaluator([question.text] * len(shown), shown)),
        }
    return rows


def numbers(values) -> list:
    return [*map(partial(round, ndigits=DECIMALS), np.asarray(values).tolist())]


if __name__ == "__main__":
    main()
