"""Writes tests/snapshots.json: what the book's own functions say of this lab's data, and what they say with the usual mistakes.

usage: python labs/seper/make_snapshots.py
"""

import json
from pathlib import Path

import numpy as np
from scipy.stats import binom, rankdata

from rag_utils import seper
from rag_utils.measures import CLOSED, GOLD

LAB = Path(__file__).resolve().parent
DECIMALS = 6


def snapshots() -> dict:
    [salt], corpus = questions("salt"), questions("corpus")
    k = np.arange(101)
    beliefs = [seper.soft(np.log([0.7] * n + [0.3] * (100 - n)), [[1.0]] * n + [[0.0]] * (100 - n)) for n in k]
    numbers = {"worths": salt_worths(salt["contexts"]), "agreement": agreements(corpus)}
    numbers |= {"expected_belief": {"100": float(binom.pmf(k, 100, 0.7) @ beliefs)}}
    return json.loads(json.dumps(numbers), parse_float=lambda text: round(float(text), DECIMALS))


def questions(name: str) -> list[dict]:
    return json.loads((LAB / "data" / f"{name}.json").read_text(encoding="utf-8"))["questions"]


def belief(context: dict, *, weighting: str = "likelihood", of_tokens=np.sum) -> float:
    log_likelihood = [of_tokens(tokens) for tokens in context["token_log_likelihood"]]
    return seper.soft(log_likelihood, context["kernel"], weighting=weighting)


def worths(contexts: list[dict], **how) -> dict[str, float]:
    beliefs = {context["name"]: belief(context, **how) for context in contexts}
    before = beliefs.pop(CLOSED)
    return {name: seper.utility(after, before) for name, after in beliefs.items()}


def salt_worths(contexts: list[dict]) -> dict[str, dict]:
    beliefs = {context["name"]: belief(context) for context in contexts}
    pairs = zip([*beliefs.values()][1:], beliefs.values(), strict=False)
    return {
        "soft": worths(contexts),
        "after": {name: value for name, value in beliefs.items() if name != CLOSED},
        "with closed": {CLOSED: 0.0} | worths(contexts),
        "before lost": beliefs | {CLOSED: 0.0},
        "token means": worths(contexts, of_tokens=np.mean),
        "shares": worths(contexts, weighting="frequency"),
        "step by step": dict(zip([*beliefs][1:], [after - before for after, before in pairs], strict=True)),
    }


def agreements(corpus: list[dict]) -> dict[str, float]:
    known = [is_known(question["contexts"]) for question in corpus]
    kept = [question["contexts"] for question, drop in zip(corpus, known, strict=True) if not drop]
    dropped = [question["contexts"] for question, drop in zip(corpus, known, strict=True) if drop]
    changes, marks = pooled([worths(contexts) for contexts in kept])
    after = [{each["name"]: belief(each) for each in contexts if each["name"] != CLOSED} for contexts in kept]
    alone = [np.corrcoef(*pooled([worths(contexts)]))[0, 1] for contexts in kept]
    return {
        "soft": pearson(changes, marks),
        "known kept": pearson(*pooled([worths(question["contexts"]) for question in corpus])),
        "only known": pearson(*pooled([worths(contexts) for contexts in dropped])),
        "after": pearson(*pooled(after)),
        "ranks": pearson(rankdata(changes), rankdata(marks)),
        "covariance": float(np.cov(changes, marks)[0, 1]),
        "shares": pearson(*pooled([worths(contexts, weighting="frequency") for contexts in kept])),
        "token means": pearson(*pooled([worths(contexts, of_tokens=np.mean) for contexts in kept])),
        "mean of questions": float(np.mean(alone)),
    }


def is_known(contexts: list[dict]) -> bool:
    [closed] = [context for context in contexts if context["name"] == CLOSED]
    return bool(np.mean(np.max(closed["kernel"], axis=1) >= 0.5) >= 0.5)


def pooled(values: list[dict[str, float]]) -> tuple[list[float], list[float]]:
    pairs = [(value, float(name == GOLD)) for each in values for name, value in each.items()]
    return tuple(map(list, zip(*pairs, strict=True)))


def pearson(x, y) -> float:
    return float(np.corrcoef(x, y)[0, 1])


if __name__ == "__main__":
    (LAB / "tests" / "snapshots.json").write_text(json.dumps(snapshots(), indent=1) + "\n", encoding="utf-8")
