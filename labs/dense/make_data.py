"""Writes this lab's data from the calls that chapters 4 and 5 recorded; no reader runs, only the encoder.

usage: python labs/dense/make_data.py            a minute

salt.json   : q031 of the companion corpus with three, five and eight passages, each passage in other words too, and the replies
corpus.json : every question of the corpus with five passages: six replies, who agrees with whom, which other words may count
sizes.json  : the first questions with three, five and eight passages: who agrees with whom, and whether the first reply is right
refine.json : the questions that are uncertain with chunks of 128 tokens, q207 first, context by context of DENSE-RAG with semantic chunks
"""

import json
from pathlib import Path

import pandas as pd

from experiments import asking
from experiments.dense_rag import contexts
from experiments.dense_thresholds import tables
from rag_utils import answers, data, dense, judge, prompts, retrieve
from rag_utils.base import checks
from rag_utils.base.cache import ROOT
from rag_utils.measures import dense as measure
from rag_utils.score import chunking

DATA, RESULTS = Path(__file__).resolve().parent / "data", ROOT / "data" / "results"
THRESHOLDS, RAG = "04_dense_thresholds", "05_dense_rag"
READER, WRITER, MODE = "embedded", "embedded-base", "replay"
READ, CLOSED, REPHRASE, SUFFICIENT = "read_plain", "closed_plain", "dense_rephrase.chat", "dense_sufficient.chat"
SALT, BARGES, K, OTHER_K, FEW, SEED, THRESHOLD = "q031", "q207", 5, (3, 8), 60, 0, 0.2
TAU, MAX_TOKENS = 0.2, 128
DECIMALS = 6  # of a cosine; that no choice depends on the rest, make_snapshots holds


def main() -> None:
    questions, pool = data.load("companion"), data.passages("companion")
    write("refine", refinements(questions, pool), RAG)
    sets = {k: tables.nearest(questions, pool, k)[: len(questions) if k == K else FEW] for k in (K, *OTHER_K)}
    every = [supply for own in sets.values() for supply in own]
    texts, rewrite = [passage.text for passage in pool], prompts.load(REPHRASE)
    other = words(texts, rewrite, THRESHOLDS, 128)
    judges = asking.judge(READER, mode=MODE, chapter=THRESHOLDS)
    same = dict(zip(texts, measure.faithful(judges, texts, [other[text] for text in texts]), strict=True))
    how = {"prompt": prompts.load(READ), "max_new_tokens": 24, "seed": SEED}
    replies = iter(measure.replies_under_edits(asking.reader(READER, MODE, THRESHOLDS), every, other, **how))
    said = {k: [next(replies) for _ in own] for k, own in sets.items()}
    rows = {}
    for k, own in sets.items():
        agreed = measure.agreements(judges.equivalent, questions, tables.under("edits", own, said[k]))
        rows[k] = [
            row(*each, other, same)
            for each in zip(own, said[k], [agreed[s.question.id, "edits"] for s in own], strict=True)
        ]
    write("salt", [of_salt(sets[k], rows[k], other) for k in (K, *OTHER_K)])
    write("corpus", with_samples(rows[K]))
    sized = [
        {"id": r["id"], "k": k, "right": r["right"][0], "entails": r["entails"]} for k in rows for r in rows[k][:FEW]
    ]
    write("sizes", sized)


def write(name: str, questions: list[dict], chapter: str = THRESHOLDS) -> None:
    reader, forms = asking.reader(READER, MODE, chapter), [prompts.load(form) for form in (READ, REPHRASE)]
    head = {"reader": reader.fingerprint, "prompts": {form.name: form.digest for form in forms}, "licence": "CC0 1.0"}
    lines = ",\n".join(json.dumps(question, ensure_ascii=False, separators=(",", ":")) for question in questions)
    text = json.dumps({"made_with": head}, ensure_ascii=False)[:-1] + ', "questions": [\n' + lines + "\n]}\n"
    (DATA / f"{name}.json").write_text(text, encoding="utf-8")


def words(texts: list[str], rewrite, chapter: str, most: int) -> dict[str, str]:
    said = measure.rephrase(asking.reader(WRITER, MODE, chapter), texts, rewrite, max_new_tokens=most)
    return dict(zip(texts, said, strict=True))


def row(supply: measure.Supply, replies, agreement, other, same) -> dict:
    """One question with its replies, the one to the original context first, and of each passage whether its other words may count."""
    golds = list(supply.question.answers)
    gone = tables.lost(supply, other)
    return {
        "id": supply.question.id,
        "question": supply.question.text,
        "answers": golds,
        "replies": [reply.text.strip() for reply in replies],
        "right": [int(answers.exact_match(reply.text.strip(), golds)) for reply in replies],
        "entails": (agreement >= judge.THRESHOLD).astype(int).tolist(),
        "accepted": [int(same[text] >= judge.THRESHOLD) for text in supply.texts()],
        "kept": [int(text not in gone) for text in supply.texts()],
    }


def of_salt(supplies, rows: list[dict], other) -> dict:
    """The row of q031, with its passages as they are and in other words."""
    [(supply, own)] = [pair for pair in zip(supplies, rows, strict=True) if pair[1]["id"] == SALT]
    return own | {"passages": list(supply.texts()), "other_words": [other[text] for text in supply.texts()]}


def with_samples(rows: list[dict]) -> list[dict]:
    """The rows with the discrete semantic entropy of ten samples at temperature 1, null where chapter 4 did not draw any."""
    drawn = pd.read_csv(RESULTS / THRESHOLDS / "sampled_100.csv").query("condition == 'samples'").set_index("id")
    entropy = drawn["discrete_semantic_entropy"]
    return [own | {"sampled": float(entropy[own["id"]]) if own["id"] in entropy else None} for own in rows]


def refinements(questions, pool) -> list[dict]:
    """DENSE-RAG without self-evaluation, context by context."""
    kept = pd.read_csv(RESULTS / RAG / "companion_rows.csv")
    unsure = set(kept[(kept["condition"] == "no self-evaluation") & (kept["run"] == "no limit")]["id"])
    encode, writer = retrieve.remembering(retrieve.encoder()), asking.reader(WRITER, MODE, RAG)
    articles = contexts.documents_of(questions, pool)
    cutting = {"threshold": TAU, "max_tokens": MAX_TOKENS, "count_tokens": writer.count_tokens}
    chunks = chunking.semantic_chunks(articles, encode=encode, **cutting)
    asked = sorted((question for question in questions if question.id in unsure), key=lambda each: each.id != BARGES)
    return refined(asked, contexts.supplies(asked, chunks, k=K, encode=encode))


def refined(questions, supplies) -> list[dict]:
    judges, rewrite = asking.judge(READER, mode=MODE, chapter=RAG), prompts.load(REPHRASE)
    texts = list(dict.fromkeys(chunk.text for supply in supplies for chunk in supply.chunks))
    other = words(texts, rewrite, RAG, MAX_TOKENS)
    same = measure.faithful(judges, texts, [other[text] for text in texts])
    other = measure.accepted(other, dict(zip(texts, map(float, same), strict=True)))
    settings = measure.Settings(prompts.load(READ), prompts.load(CLOSED), prompts.load(SUFFICIENT))
    known = measure.ask_with(questions, asking.reader(READER, MODE, RAG), judges, settings, other=other)
    how = {"enough": None, "limit": None, "threshold": THRESHOLD}
    outcomes = measure.refined(supplies, {"refined": how}, known)
    lines = [refinement(supply, outcomes[supply.question.id, "refined"].refinement, known) for supply in supplies]
    lines[0]["chunks"] = list(supplies[0].texts(range(len(supplies[0].chunks))))  # the one that is looked at chunk by chunk
    lines[0]["other_words"] = [known.other[text] for text in lines[0]["chunks"]]
    return lines


def refinement(supply: measure.Supply, done: dense.Refinement, known: measure.Tables) -> dict:
    units, question = checks.directions("embeddings", supply.embeddings), supply.question
    went_on = bool(done.rounds[0].roles)
    return {
        "id": question.id,
        "question": question.text,
        "answers": list(question.answers),
        "cosines": (units @ units.T).round(DECIMALS).tolist() if went_on else None,
        "contexts": [tried(supply, step, known) for step in done.rounds],
        "ended": done.ended,
    }


def tried(supply: measure.Supply, step: dense.Round, known: measure.Tables) -> dict:
    """A context that was tried: the replies under edits, who agrees, and per chunk how far the reply agrees without it, if asked."""
    name, texts = supply.question.id, supply.texts(step.context)

    def entailed(left, right):
        return int(left == right or known.same[name, left, right] >= judge.THRESHOLD)

    replies = [known.replies[name, tuple(edit)] for edit in measure.edits(texts, known.other)]
    shorter = [
        None if role in ("certain", None) else known.replies[name, tuple(rest)]
        for role, rest in zip(step.roles or [None] * len(texts), dense.contexts_without_one(list(texts)), strict=True)
    ]
    agree = [None if r is None else (entailed(replies[0], r) + entailed(r, replies[0])) / 2 for r in shorter]
    return {
        "numbers": list(step.context),
        "replies": replies,
        "right": int(answers.exact_match(replies[0], list(supply.question.answers))),
        "entails": [[entailed(left, right) for right in replies] for left in replies],
        "agrees_without": agree if step.roles else None,
    }


if __name__ == "__main__":
    main()
