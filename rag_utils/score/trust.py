"""How far to trust the judge on one's own questions: its verdicts beside the user's labels."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, StrictBool
from scipy.spatial.distance import dice

from rag_utils import stats
from rag_utils.base import checks
from rag_utils.corpora.rows import AnyText, Text
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.score import kappa
from rag_utils.score.formats import BadInput, rows_of


class Labelled(BaseModel):
    """A response to a question and whether a person found it right; "answer" may stand for a list of one."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    question: Text
    answers: list[Text] = Field(min_length=1)
    response: AnyText
    right: StrictBool


def read_labels(path: str | Path, *, skip_bad: bool = False) -> list[Labelled]:
    """JSON lines {"question", "answers" or "answer", "response", "right": true or false}; BadInput, a ValueError, as `formats.read`."""
    labels, problems = rows_of(Labelled, Path(path), alone={"answer": "answers"})
    if problems and not (skip_bad and labels):
        raise BadInput(problems, good=len(labels))
    return labels


def judge_check(judge: Judge, labels: list[Labelled]) -> pd.DataFrame:
    """How well the judge's verdicts go with the labels: index name; columns value, low, high, n.

    returns : "right" (the share that the user calls right: what always saying so would reach), "said right" (the judge's share), accuracy,
              F1 (of right responses), kappa, and contrast (of pairs of a right and a wrong response to one question, how often the right
              one scores higher, ties half; n counts pairs, the interval draws questions). Empty where it is not defined: one label only
    """
    scores = response_scores(judge, labels)
    human, said = np.array([each.right for each in labels]), scores >= THRESHOLD
    groups = [each.question for each in labels]
    rows = {
        "right": _mean(human, groups),
        "said right": _mean(said, groups),
        "accuracy": _mean(human == said, groups),
        "F1": _tried(stats.statistic_interval, _f1, human, said, groups=groups),
        "kappa": _tried(lambda a, b: kappa.cohen(a, b).kappa, human, said),
        "contrast": _contrast(labels, scores),
    }  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("name")


def _f1(human: np.ndarray, said: np.ndarray) -> float:
    """F1 of the right responses, a hundred times as fast as sklearn's; NaN if none is right and none is said to be."""
    return 1 - dice(human, said) if (human | said).any() else np.nan


def response_scores(judge: Judge, labels: list[Labelled]) -> np.ndarray:
    """P(the response means the same as an answer), best over the answers, (n,) in [0, 1]."""
    asked = [(each.question, answer, each.response) for each in labels for answer in each.answers]
    said = checks.numbers("what the judge's equivalent returns", judge.equivalent(*map(list, zip(*asked, strict=True))), low=0, high=1)
    checks.same_length(opinions=said, pairs=asked)
    said = iter(said)
    return np.array([max(float(next(said)) for _ in each.answers) for each in labels])


def _contrast(labels: list[Labelled], scores: np.ndarray) -> dict:
    by_question: dict[str, tuple[list, list]] = {}
    for each, score in zip(labels, scores, strict=True):
        by_question.setdefault(each.question, ([], []))[each.right].append(score)
    pairs = [(name, good, bad) for name, (wrong, right) in by_question.items() for good, bad in product(right, wrong)]
    return _mean([(good > bad) + (good == bad) / 2 for _, good, bad in pairs], [name for name, _, _ in pairs])


def _mean(values, groups: list[str]) -> dict:
    return _tried(stats.mean_interval, np.asarray(values, float), groups=groups) | {"n": len(values)}


def _tried(statistic, *columns, **how) -> dict:
    """A number with its interval; empty where it is not defined, as of one question or of labels that are all the same."""
    try:
        estimate = statistic(*columns, **how)
    except ValueError:
        return {"value": np.nan, "low": np.nan, "high": np.nan, "n": len(columns[-1])}
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n}
