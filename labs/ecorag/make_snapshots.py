"""Writes tests/snapshots.json: what the book's own functions say of this lab's data, and what they say with the usual mistakes.

usage: python labs/ecorag/make_snapshots.py
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np

from rag_utils import ecorag

LAB = Path(__file__).resolve().parent
DECIMALS = 6
ALONE = "the sentence"


def snapshots() -> dict:
    [salt] = questions("salt")
    numbers = {"lost": salt_lost(salt["contexts"]), "label_counts": counts(questions("labels"))}
    numbers |= {"compressor_loss": losses(), "measured": measurements(questions("reading"))}
    return json.loads(json.dumps(numbers), parse_float=lambda text: round(float(text), DECIMALS))


def questions(name: str) -> list[dict]:
    return json.loads((LAB / "data" / f"{name}.json").read_text(encoding="utf-8"))["questions"]


def salt_lost(contexts: list[dict]) -> dict[str, dict]:
    """Of q031: what each context costs, and the same with mistakes."""
    beliefs = {each["name"]: float(np.exp(np.sum(each["token_log_likelihood"]))) for each in contexts}
    means = {each["name"]: float(np.exp(np.mean(each["token_log_likelihood"]))) for each in contexts}
    nats = {each["name"]: float(np.sum(each["token_log_likelihood"])) for each in contexts}
    others = [name for name in beliefs if name != ALONE]
    return {
        "right": {name: beliefs[ALONE] - beliefs[name] for name in others},
        "beliefs": {name: beliefs[name] for name in others},
        "with alone": {name: beliefs[ALONE] - value for name, value in beliefs.items()},
        "shares": {name: 1 - beliefs[name] / beliefs[ALONE] for name in others},
        "ratios": {name: beliefs[name] / beliefs[ALONE] for name in others},
        "nats": {name: nats[ALONE] - nats[name] for name in others},
        "token means": {name: means[ALONE] - means[name] for name in others},
        "from one": {name: 1 - beliefs[name] for name in others},
    }


def counts(labelled: list[dict]) -> dict[str, dict]:
    """Labels of all sentences by `ecorag.evidentiality`, and how they come out with mistakes."""

    def counted(rows, *, closed=None, beside=lambda value: value, label=ecorag.evidentiality):
        found = Counter(
            label(question["closed"] if closed is None else closed, bool(alone), beside(with_strong))
            for question in rows
            for alone, with_strong in zip(question["alone"], question["beside"], strict=True)
        )
        return {label: found[label] for label in ecorag.LABELS}

    right = counted(labelled)
    taught = [question for question in labelled if any(question["alone"])]
    per_question = [set(name for name, n in counted([question]).items() if n) for question in labelled]
    return {
        "right": right,
        "shares": {name: n / sum(right.values()) for name, n in right.items()},
        "known left out": counted([question for question in labelled if not question["closed"]]),
        "only with strong": counted(taught),
        "as weak": counted(labelled, beside=lambda value: True if value is None else value),
        "as distractor": counted(labelled, beside=bool),
        "questions": {name: sum(name in own for own in per_question) for name in ecorag.LABELS},
        "last": counted(labelled[-1:]),
        "mean": {name: n / len(labelled) for name, n in right.items()},
    }


def losses() -> dict:
    """`ecorag.compressor_loss` of what tests/test_2_loss.py asks about, and the same with mistakes."""
    loss, nce = ecorag.compressor_loss, ecorag.info_nce
    labels = ["distractor", "strong", "distractor", "weak", "distractor"]
    one, d = ([0.1, 1.2, -0.2, 0.7, 0.4], labels), [0.1, -0.2, 0.4]
    one_of_each = {
        "right": loss(*one),
        "strong": ecorag.strong_loss(*one),
        "weak": ecorag.weak_loss(*one),
        "without weak": nce(1.2, d) + ecorag.weak_loss(*one),
        "both ways": ecorag.strong_loss(*one) + nce(0.7, [1.2, *d]),
    }
    labels = ["strong", "strong", "weak", "weak", "distractor", "undefined"]
    scores, lower = [1.0, 0.5, 0.4, -0.3, 0.2, 3.0], [0.4, -0.3, 0.2]
    strong, weak = [nce(1.0, lower), nce(0.5, lower)], [nce(0.4, [0.2]), nce(-0.3, [0.2])]
    strong_too = [nce(1.0, [0.5, *lower]), nce(0.5, [1.0, *lower])]
    weak_too = [nce(0.4, [-0.3, 0.2]), nce(-0.3, [0.4, 0.2])]
    pooled = np.log(np.exp([1.0, 0.5, *lower]).sum() / np.exp([1.0, 0.5]).sum())
    several = {
        "right": loss(scores, labels),
        "undefined too": loss(scores, [*labels[:-1], "distractor"]),
        "other strong too": np.mean(strong_too) + np.mean(weak),
        "same label too": np.mean(strong_too) + np.mean(weak_too),
        "first": strong[0] + weak[0],
        "pooled": pooled + np.mean(weak),
        "largest": max(strong) + max(weak),
    }
    as_weak = loss([1.0, 0.5, 0.2], ["strong", "distractor", "weak"])
    return {"one of each": one_of_each, "several": several, "undefined as weak": as_weak}


def measurements(rows: list[dict]) -> dict[str, dict]:
    """What `ecorag.compress` keeps and what the reader then answers, and the same with mistakes."""

    def averaged(*, limit=20, threshold=0.5, stop=None, kept=None, sure=None):
        right, tokens, ratio = [], [], []
        for question in rows:
            probability = question["sufficient"]

            def sufficient(own, probability=probability):
                value = probability[len(own) - 1]
                return stop(value) if stop else value >= threshold

            places = ecorag.compress(question["sentences"], question["scores"], sufficient, limit=limit)
            right.append(question["right"][str(len(places))])
            tokens.append(sum(question["tokens"][place] for place in (kept(question, places) if kept else places)))
            ratio.append(tokens[-1] / question["tokens_of_all"])
        return {"right": float(np.mean(right)), "tokens": float(np.mean(tokens)), "ratio": float(np.mean(ratio))}

    right, four, never = averaged(), averaged(limit=4), averaged(threshold=2)
    whole = np.mean([question["tokens_of_all"] for question in rows])
    sizes = [len(kept_of(question)) for question in rows]
    of_cut, of_all = (ratios(rows, total) for total in (lambda q: sum(q["tokens"]), lambda q: q["tokens_of_all"]))
    return {
        "right": right,
        "limit 8": averaged(limit=8),
        "four": four,
        "never": never,
        "upside down": averaged(stop=lambda value: value < 0.5),
        "first tokens": averaged(kept=lambda question, places: range(len(places))),
        "ratio of means": right | {"ratio": float(right["tokens"] / whole)},
        "of sentences": right | {"ratio": float(np.mean(of_cut))},
        "reciprocal": right | {"ratio": float(np.mean(1 / of_all))},
        "saved": right | {"ratio": 1 - right["ratio"]},
        "sums": {name: value * len(rows) for name, value in right.items()},
        "number right": right
        | {"right": sum(question["right"][str(n)] for question, n in zip(rows, sizes, strict=True))},
        "sentences": right | {"tokens": float(np.mean(sizes))},
        "right at the limit": right | {"right": never["right"]},
        "closed book": right | {"right": float(np.mean([question["right"]["closed book"] for question in rows]))},
        "all": right | {"right": float(np.mean([question["right"]["all"] for question in rows]))},
    }


def ratios(rows: list[dict], whole) -> np.ndarray:
    """Tokens kept over whole(question), per question."""
    kept = ((question, sum(question["tokens"][place] for place in kept_of(question))) for question in rows)
    return np.array([tokens / whole(question) for question, tokens in kept])


def kept_of(question: dict) -> list[int]:
    """The places that `ecorag.compress` keeps of a question, by its recorded evaluator."""
    probability = question["sufficient"]
    return ecorag.compress(question["sentences"], question["scores"], lambda own: probability[len(own) - 1] >= 0.5)


if __name__ == "__main__":
    (LAB / "tests" / "snapshots.json").write_text(json.dumps(snapshots(), indent=1) + "\n", encoding="utf-8")
