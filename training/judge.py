"""Fit the embedded judge to the verdicts of people on the answers of five systems.

    RAG_COMPANION_DATA=/where/the/benchmarks/are python training/judge.py

EVOUNA's part on Natural Questions has five answers per question with a verdict each, and one or more golds. An answer counts as
right if it means the same as one of the golds, so it is its best gold that the regression must get right: the fit starts from the gold
that shares most words with the answer, and takes the gold that it finds most probable from then on, until the choice no longer changes.
Answers that the judge settles without the regression (same words as a gold; blank) are left out of the fit; the first kind gives `same`,
the share of them that people found right. Two kinds of pairs are added with weights of their own: the companion's contrast pairs of the
split "train", and golds with one part changed (`changed.py`), for among the answers of five systems few have another day or unit, and a
fit to these alone lets such an answer pass.

Five-fold cross-validation by question: every probability in `data/judge/evouna_nq.csv` comes from a fit that has not seen the question.

What the changed golds are good for says the same fit without them; of it only the measurements are kept:

    python training/judge.py --changed-weight 0 --out /tmp/without --facts data/judge/without_changed.json
"""

import argparse
import csv
import json
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import changed
import numpy as np
from sklearn.linear_model import LogisticRegression

from rag_utils import data, retrieve
from rag_utils.answers import contains_answer
from rag_utils.base.cache import ROOT
from rag_utils.corpora import manifest
from rag_utils.engine.wording import words
from rag_utils.judge import (
    DECIMALS,
    FEATURES,
    FOLDS,
    THRESHOLD,
    Coefficients,
    EmbeddedJudge,
    design,
    fold,
    question_key,
)

OUT = ROOT / "data" / "judge"
SOURCE = "evouna_nq"
ROUNDS = 20  # of choosing the best gold, at most
BINS = 10


def settings(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strength", type=float, default=10.0, help="of the penalty on squared standardised coefficients")
    parser.add_argument("--contrast-weight", type=float, default=5.0, help="answers that one contrast pair counts as")
    parser.add_argument("--changed-weight", type=float, default=100.0, help="answers that the changed dates, numbers or names count as")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--facts", type=Path, help="a file for the measurements alone, beside `out`")
    return parser.parse_args(arguments)


@dataclass(frozen=True)
class Table:
    """Pairs of answers, one a row, and the judged answers that they belong to.

    features : (rows, features)
    answer   : (rows,) which judged answer; an answer has one row per gold that the regression is needed for
    right    : (answers,) the verdict of people
    fold     : (answers,) of the question
    weight   : (answers,)
    """

    features: np.ndarray
    answer: np.ndarray
    right: np.ndarray
    fold: np.ndarray
    weight: np.ndarray


def settled(answer: str, golds: tuple[str, ...]) -> str | None:
    """ "same" if the answer has the words of a gold, "blank" if it has none, None if it takes the regression."""
    if not answer.strip():
        return "blank"
    return "same" if any(words(answer) == words(gold) for gold in golds) else None


def table(judged: list[data.Judged], added: list[tuple[data.Contrast, float]], *, encode: retrieve.Encoder) -> Table:
    """Every pair of a judged answer and a gold that the regression decides on, and the added pairs with their weights."""
    pairs, right, folds, weights = [], [], [], []
    for item in judged:
        for answer in item.answers:
            if answer.verdict is not None and settled(answer.text, item.golds) is None:
                pairs += [(len(right), item.question, gold, answer.text) for gold in item.golds]
                right.append(answer.verdict)
                folds.append(fold(item.question))
                weights.append(1.0)
    for pair, weight in added:
        pairs.append((len(right), pair.question, pair.left, pair.right))
        right.append(pair.equivalent)
        folds.append(fold(pair.question))
        weights.append(weight)
    answer, questions, left, right_text = zip(*pairs, strict=True)
    features = design(questions, left, right_text, encode=encode)
    return Table(features, np.array(answer), np.array(right), np.array(folds), np.array(weights))


def weighted(pairs: list[data.Contrast], weight: float) -> list[tuple[data.Contrast, float]]:
    """Changed golds and what each counts: those of a kind (`changed.KIND`) together as `weight` answers, coarser dates nothing."""
    kinds = [changed.KIND.get(pair.category.removesuffix(" said")) for pair in pairs]
    counts = Counter(kinds)
    return [(pair, weight / counts[kind]) for pair, kind in zip(pairs, kinds, strict=True) if kind]


def best_rows(score: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """The row with the highest score of each answer, the first where several have it; answers in order."""
    order = np.lexsort((-score, answer))
    return order[np.unique(answer[order], return_index=True)[1]]


def fit(table: Table, keep: np.ndarray, *, strength: float) -> tuple[float, np.ndarray]:
    """Intercept and coefficients of a logistic regression on the answers to keep, each with its best gold.

    keep     : (answers,) bool
    strength : of the penalty, strength / 2 times the squared coefficients of standardised features

    The best golds are chosen again after each fit, until none changes, at most ROUNDS times.
    """
    score = table.features[:, FEATURES.index("recall")] + table.features[:, FEATURES.index("contained")]
    chosen = best_rows(score, table.answer)
    for _ in range(ROUNDS):
        rows = chosen[keep]
        mean, spread = table.features[rows].mean(axis=0), table.features[rows].std(axis=0)
        spread[spread == 0] = 1.0
        model = LogisticRegression(C=1 / strength, max_iter=5000, tol=1e-8)
        model.fit((table.features[rows] - mean) / spread, table.right[keep], sample_weight=table.weight[keep])
        coefficients = model.coef_[0] / spread
        intercept = float(model.intercept_[0] - coefficients @ mean)
        before, chosen = chosen, best_rows(intercept + table.features @ coefficients, table.answer)
        if np.array_equal(before[keep], chosen[keep]):
            break
    return intercept, coefficients


def share_right(judged: list[data.Judged], without: int | None) -> float:
    """The share of the answers with the words of a gold that people found right, one right and one wrong added to the count.

    without : a fold whose questions are left out
    """
    verdicts = [
        answer.verdict
        for item in judged
        if fold(item.question) != without
        for answer in item.answers
        if answer.verdict is not None and settled(answer.text, item.golds) == "same"
    ]
    return (sum(verdicts) + 1) / (len(verdicts) + 2)


def coefficients(judged: list[data.Judged], added: list[data.Contrast], table: Table, *, strength: float, provenance: dict) -> Coefficients:
    """The fit on everything and the five that leave out a fold each."""
    fits = []
    for without in (None, *range(FOLDS)):
        intercept, values = fit(table, table.fold != without if without is not None else table.fold >= 0, strength=strength)
        fits.append(
            {
                "intercept": round(intercept, 6),
                "coefficients": tuple(round(float(value), 6) for value in values),
                "same": round(share_right(judged, without), 6),
            }
        )
    used = {question_key(item.question) for item in (*judged, *added)}
    spread = table.features.std(axis=0)
    return Coefficients.model_validate(
        {
            "features": FEATURES,
            "scale": tuple(round(float(value), 6) if value else 1.0 for value in spread),
            "everything": fits[0],
            "folds": tuple(fits[1:]),
            "questions": frozenset(used),
            "provenance": provenance,
        }
    )


def judge_all(judged: list[data.Judged], fitted: Coefficients, encode: retrieve.Encoder) -> list[dict]:
    """One row per question: id, fold, and per system the judge's probability, lexical match, MiniLM's cosine and the verdict.

    The last four are None where people gave no verdict. Lexical match and cosine are the best over the golds.
    """
    judge = EmbeddedJudge(fitted, encode=encode)
    flat = [(item, answer) for item in judged for answer in item.answers]
    pairs = [(item.question, answer.text, gold) for item, answer in flat for gold in item.golds]
    by_gold = iter(judge.equivalent(*map(list, zip(*pairs, strict=True))))
    probability = [max(islice(by_gold, len(item.golds))) for item, _ in flat]
    rows: dict[str, dict] = {}
    for (item, answer), value in zip(flat, probability, strict=True):
        row = rows.setdefault(item.id, {"id": item.id, "fold": fold(item.question)})
        blank = answer.verdict is None
        nearest = float(np.max(encode(list(item.golds)) @ encode([answer.text])[0])) if answer.text.strip() else 0.0
        row[f"judge_{answer.system}"] = None if blank else f"{value:.{DECIMALS}f}"
        row[f"lexical_{answer.system}"] = None if blank else int(contains_answer(answer.text, item.golds))
        row[f"cosine_{answer.system}"] = None if blank else f"{nearest:.{DECIMALS}f}"
        row[f"verdict_{answer.system}"] = None if blank else int(answer.verdict)
    return list(rows.values())


def scores(said: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """F1 of "right" (0 where nobody says it) and accuracy, in percent."""
    either = said.sum() + right.sum()
    return {
        "f1": round(float(200 * np.sum(said & right) / either), 2) if either else 0.0,
        "accuracy": round(float(100 * np.mean(said == right)), 2),
    }


def reliability(probability: np.ndarray, right: np.ndarray) -> dict:
    """Whether probabilities can be taken at their word: ten bins of equal width, mean distance in them, Brier score, log loss (nats)."""
    place = np.minimum((probability * BINS).astype(int), BINS - 1)
    bins = [
        {
            "n": int(here.sum()),
            "said": round(float(probability[here].mean()), 4),
            "right": round(float(right[here].mean()), 4),
        }
        for here in (place == number for number in range(BINS))
        if here.any()
    ]
    likely = np.clip(np.where(right, probability, 1 - probability), 1e-4, 1)
    return {
        "bins": bins,
        "calibration_error": round(sum(part["n"] * abs(part["said"] - part["right"]) for part in bins) / len(right), 4),
        "brier": round(float(np.mean((probability - right) ** 2)), 4),
        "log_loss": round(float(-np.mean(np.log(likely))), 4),
    }


def cosine_thresholds(rows: list[dict]) -> list[float]:
    """Per fold, the threshold on MiniLM's cosine with which most answers of the other folds are judged as people did."""
    thresholds = []
    for without in range(FOLDS):
        pairs = [
            (float(row[f"cosine_{system}"]), row[f"verdict_{system}"])
            for row in rows
            for system in data.SYSTEMS
            if row["fold"] != without and row[f"verdict_{system}"] is not None
        ]
        cosine, right = np.array(pairs).T
        candidates = np.arange(1, 100) / 100
        thresholds.append(float(candidates[np.argmax([np.mean((cosine > least) == right) for least in candidates])]))
    return thresholds


def measured(rows: list[dict]) -> dict:
    """Scores per system of the judge, lexical match and MiniLM's cosine, with their means; the judge's reliability over all answers."""
    result: dict[str, dict] = {"judge": {}, "lexical": {}, "cosine": {}}
    thresholds = cosine_thresholds(rows)
    everything = []
    for system in data.SYSTEMS:
        judged = [row for row in rows if row[f"verdict_{system}"] is not None]
        right = np.array([row[f"verdict_{system}"] for row in judged], dtype=bool)
        probability = np.array([float(row[f"judge_{system}"]) for row in judged])
        lexical = np.array([row[f"lexical_{system}"] for row in judged], dtype=bool)
        result["judge"][system] = scores(probability > THRESHOLD, right)
        result["lexical"][system] = scores(lexical, right)
        cosine = np.array([float(row[f"cosine_{system}"]) > thresholds[row["fold"]] for row in judged])
        result["cosine"][system] = scores(cosine, right)
        everything.append((probability, right))
    for by_system in result.values():
        by_system["mean"] = {
            name: round(float(np.mean([by_system[system][name] for system in data.SYSTEMS])), 2) for name in ("f1", "accuracy")
        }
    return result | {
        "cosine_thresholds": thresholds,
        "reliability": reliability(*map(np.concatenate, zip(*everything, strict=True))),
    }


def on_contrast(pairs: list[data.Contrast], fitted: Coefficients, encode: retrieve.Encoder) -> dict[str, dict[str, int]]:
    """How many pairs of each category the judge and lexical match call as they are, and how many there are."""
    judge = EmbeddedJudge(fitted, encode=encode)
    said = judge.equivalent(*([getattr(pair, side) for pair in pairs] for side in ("question", "left", "right")))
    counts: dict[str, dict[str, int]] = {}
    for pair, probability in zip(pairs, said, strict=True):
        row = counts.setdefault(pair.category, {"n": 0, "judge": 0, "lexical": 0})
        row["n"] += 1
        row["judge"] += int((probability > THRESHOLD) == pair.equivalent)
        row["lexical"] += int(bool(contains_answer(pair.right, [pair.left])) == pair.equivalent)
    return counts


def write(fitted: Coefficients, rows: list[dict], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    content = fitted.model_dump(mode="json")
    content["questions"] = sorted(content["questions"])
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items()]
    (out / "embedded.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    with (out / f"{SOURCE}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(arguments: list[str] | None = None, *, encode: retrieve.Encoder | None = None) -> None:
    chosen = settings(arguments)
    encode = retrieve.remembering(encode or retrieve.encoder())
    judged = data.load_judged(SOURCE)
    written, made = data.load_contrast(), changed.changed(judged)
    contrast, parts = ([pair for pair in own if not settled(pair.left, (pair.right,))] for own in (written, made))
    contrast = [(pair, chosen.contrast_weight) for pair in contrast if pair.split == "train"]
    parts = weighted(parts, chosen.changed_weight)
    pairs = table(judged, contrast + parts, encode=encode)
    fitted = coefficients(judged, [pair for pair, _ in contrast], pairs, strength=chosen.strength, provenance={})
    rows = judge_all(judged, fitted, encode)
    entry = manifest.entries()[SOURCE]
    provenance = {
        "data": {"name": SOURCE, "source": entry.source, "sha256": entry.sha256, "licence": entry.licence},
        "questions": len(judged),
        "answers": sum(answer.verdict is not None for item in judged for answer in item.answers),
        "answers_in_the_regression": len(pairs.right) - len(contrast) - len(parts),
        "contrast_pairs": len(contrast),
        "changed_pairs": len(parts),
        "encoder": "all-MiniLM-L6-v2",
        "settings": {name: value for name, value in vars(chosen).items() if name not in ("out", "facts")},
        "randomness": "the changed parts, drawn by the hash of the question; folds by the same hash, a convex problem",
        "out_of_fold": measured(rows),
        "contrast_test": on_contrast([pair for pair in written if pair.split == "test"], fitted, encode),
        "changed_out_of_fold": on_contrast(made, fitted, encode),
        "dates_by_precision": changed.by_precision(judged),
    }
    write(fitted.model_copy(update={"provenance": provenance}), rows, chosen.out)
    if chosen.facts:
        chosen.facts.write_text(json.dumps(provenance, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
