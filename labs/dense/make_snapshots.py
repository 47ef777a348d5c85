"""Writes tests/snapshots.json: what the book's own functions say of this lab's data, and what they say with the usual mistakes.

usage: python labs/dense/make_snapshots.py
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from rag_utils import dense, seper, stats, uncertainty
from rag_utils.base.cache import ROOT

LAB = Path(__file__).resolve().parent
BOOK = ROOT / "data" / "results" / "04_dense_thresholds" / "companion.csv"
DECIMALS, THRESHOLD = 6, 0.2
AT_ODDS = "q150"  # its replies agree, and not transitively
WHALERS = "q213"  # of the survivors of the Winterthrush


def snapshots() -> dict:
    corpus = questions("corpus")
    as_in_the_book(corpus)
    numbers = {"salt": [entropy(row) for row in questions("salt")], "at odds": at_odds(corpus)}
    numbers |= {"dense": [entropy(row) for row in corpus], "different": len({round(entropy(row), 9) for row in corpus})}
    numbers |= {"auroc": areas(corpus), "measured": measurements(corpus), "refined": refinements(questions("refine"))}
    return json.loads(json.dumps(numbers), parse_float=lambda text: round(float(text), DECIMALS))


def questions(name: str) -> list[dict]:
    return json.loads((LAB / "data" / f"{name}.json").read_text(encoding="utf-8"))["questions"]


def links(row: dict) -> np.ndarray:
    return dense.adjacency(np.array(row["entails"], dtype=bool))


def entropy(row: dict) -> float:
    return dense.degree_entropy(links(row))


def as_in_the_book(corpus: list[dict]) -> None:
    """ValueError unless DENSE and the first replies are those of chapter 4."""
    kept = pd.read_csv(BOOK).query("condition == 'edits'").set_index("id").loc[[row["id"] for row in corpus]]
    same = np.allclose([entropy(row) for row in corpus], kept["dense"], rtol=5e-5, atol=1e-5)  # five digits are kept
    if not same or [row["right"][0] for row in corpus] != kept["exact_match"].tolist() or len(corpus) != len(kept):
        raise ValueError("data/corpus.json does not hold what chapter 4 measured")


def by_texts(row: dict) -> float:
    return dense.degree_entropy(np.array([[float(a == b) for a in row["replies"]] for b in row["replies"]]))


def at_odds(corpus: list[dict]) -> dict[str, float]:
    """Of a question whose agreement is not transitive: DENSE, and what comes of clusters, of texts, and without reply 0."""
    [row] = [row for row in corpus if row["id"] == AT_ODDS]
    entails = np.array(row["entails"], dtype=bool)
    return {
        "right": entropy(row),
        "clusters": uncertainty.discrete_semantic_entropy(seper.cluster(entails)),
        "texts": by_texts(row),
        "without reply 0": dense.degree_entropy(dense.adjacency(entails[1:, 1:])),
    }


def areas(corpus: list[dict]) -> dict[str, float]:
    values, right = (
        np.array([entropy(row) for row in corpus]),
        np.array([row["right"][0] for row in corpus], dtype=bool),
    )
    gaps = values[~right][:, None] - values[right][None, :]
    return {
        "right": stats.auroc(values, right),
        "ties won": float(np.mean(gaps >= 0)),
        "ties lost": float(np.mean(gaps > 0)),
        "ties left out": float(np.sum(gaps > 0) / np.sum(gaps != 0)),
        "by place": stats.auroc(np.argsort(np.argsort(values, kind="stable")), right),
        "turned": 1 - stats.auroc(values, right),
    }


def measurements(corpus: list[dict]) -> dict[str, dict[str, float]]:
    values = np.array([entropy(row) for row in corpus])

    def row(right, of=values, threshold=THRESHOLD):
        right, certain = np.array(right, dtype=float), np.asarray(of) <= threshold
        sides = {"certain": float(right[certain].mean()), "uncertain": float(right[~certain].mean())}
        return {"AUROC": stats.auroc(of, right)} | sides

    own = [question["right"] for question in corpus]
    right = [replies[0] for replies in own]
    return {
        "right": row(right),
        "half": row(right, threshold=0.5),
        "all": row([all(replies) for replies in own]),
        "any": row([any(replies) for replies in own]),
        "most": row([np.mean(replies) > 0.5 for replies in own]),
        "last": row([replies[-1] for replies in own]),
        "texts": row(right, of=[by_texts(question) for question in corpus]),
        "wrong": row([1 - value for value in right]),
    }


def refinements(rows: list[dict]) -> dict:
    """The roles of every chunk of every context by `dense.refine`, and how many steps some mistakes would take as it does."""
    of_chunks = {row["id"]: [list(step.roles) for step in refined(row) if step.roles] for row in rows}
    ways = {"right": {}, "back": {"context": True}, "places": {"by_place": True}}
    counts = {name: sum(followed(row, of_chunks[row["id"]], **how) for row in rows) for name, how in ways.items()}
    letters = {name: ["".join(role[0] for role in own) for own in every] for name, every in of_chunks.items() if every}
    [whalers] = [row for row in rows if row["id"] == WHALERS]
    first = links(whalers["contexts"][0]).tolist()
    return {"roles": letters, "followed": counts, "links": {WHALERS: first}}


def refined(row: dict) -> tuple[dense.Round, ...]:
    """`dense.refine` on what is recorded of a question; ValueError if it takes other steps than chapter 5."""
    said = {tuple(context["numbers"]): context for context in row["contexts"]}
    [initial, *_] = said
    values, vectors = np.linalg.eigh(np.eye(20) if row["cosines"] is None else np.array(row["cosines"]))

    def agree(numbers):
        return dense.adjacency(np.array(said[tuple(numbers)]["entails"], dtype=bool))

    def agree_without(numbers, places):
        return [said[tuple(numbers)]["agrees_without"][place] for place in places]

    embeddings = vectors * np.sqrt(np.maximum(0, values))
    done = dense.refine(initial, embeddings, agree=agree, agree_without=agree_without, threshold=THRESHOLD)
    if [step.context for step in done.rounds] != list(said) or done.ended != row["ended"]:
        raise ValueError(f"{row['id']}: the recorded contexts are not those of dense.refine")
    return done.rounds


def followed(row: dict, of_chunks, *, context=False, by_place=False) -> int:
    """Of a question, how many of its steps come out as recorded.

    context  : whether only the chunks of the present context are left out, not all that were used
    by_place : whether a chunk's place in the context is taken for its number
    """
    contexts, count, used = [step["numbers"] for step in row["contexts"]], 0, set()
    for numbers, following, own in zip(contexts, contexts[1:], of_chunks, strict=False):
        used = set(numbers) if context else used | set(numbers)
        kept, out = [n for n, r in zip(numbers, own, strict=True) if r != "unnecessary"], set(used)
        for place, (number, role) in enumerate(zip(numbers, own, strict=True)):
            unused = [other for other in range(len(row["cosines"])) if other not in out]
            if role == "necessary" and unused:
                line = row["cosines"][place if by_place else number]
                kept.append(max(unused, key=lambda other, line=line: line[other]))
                out.add(kept[-1])
        count += kept == following
    return count


if __name__ == "__main__":
    (LAB / "tests" / "snapshots.json").write_text(json.dumps(snapshots(), indent=1) + "\n", encoding="utf-8")
