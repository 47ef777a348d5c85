"""Two runs on the same questions: the paired difference of every number, how sure it is, and which questions it comes from."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from rag_utils import stats
from rag_utils.base import checks
from rag_utils.score.enough import smallest_effect
from rag_utils.score.scores import Scores, per_question

SAME = ("reader", "fingerprint", "asker_fingerprint", "judge", "top", "seed", "prompts", "samples", "max_new_tokens")


def compare(a: Scores, b: Scores) -> pd.DataFrame:
    """How much higher each number of a's summary is than b's, by the questions that both have a value for.

    returns : index name; columns a and b (means), value (of a - b), low, high (95 %), p_value, p_holm (adjusted for all rows), smallest
              (the mean difference that n such pairs would show four times in five, p < 0.05) and n. Fewer than two pairs: empty but
              for n. What one run only was measured by is left out. `.attrs["differs"]` names what is not the same for both: settings, and
              the answers of how many questions
    raises  : ValueError if the questions are not the same, or nothing was measured of both
    source  : `stats.paired_difference`; smallest: the power of the paired t test
    """
    left, right = both(a, b)
    rows = {name: _row(left[name], right[name]) for name in left}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("name")
    known = table["p_value"].notna()
    table.insert(6, "p_holm", np.nan)
    if known.any():
        table.loc[known, "p_holm"] = stats.holm(table.loc[known, "p_value"])
    answers = [each.questions.set_index("id")["answers"].fillna("") for each in (a, b)]
    others = int((answers[0] != answers[1][answers[0].index]).sum())
    table.attrs["differs"] = [name for name in SAME if a.settings.get(name) != b.settings.get(name)]
    table.attrs["differs"] += [f"answers of {others} questions"] if others else []
    return table


def changed(a: Scores, b: Scores, name: str, *, most: int = 10) -> pd.DataFrame:
    """The questions whose number of that name, as in the summary, differs most: columns a, b and difference, largest first."""
    left, right = both(a, b)
    checks.one_of("number", name, left)
    checks.whole("most", most, least=1)
    table = pd.DataFrame({"a": left[name], "b": right[name], "difference": left[name] - right[name]}).dropna()
    order = np.argsort(-table["difference"].abs().to_numpy(), kind="stable")
    return table.iloc[order[:most]]


def both(a: Scores, b: Scores) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`per_question` of both, the rows in the order of a and the columns that both have; raises as `compare`."""
    same_questions(asked(a), asked(b))
    left, right = per_question(a), per_question(b)
    names = [name for name in left if name in right]
    return left[names], right.loc[left.index, names]


def asked(scores: Scores) -> dict[str, str]:
    """The questions of a measured run, id -> question."""
    return dict(zip(scores.questions["id"], scores.questions["question"], strict=True))


def same_questions(a: Mapping[str, str], b: Mapping[str, str]) -> None:
    """ValueError if the questions of two runs, id -> question, are not the same."""
    only = [[name for name in own if name not in other] for own, other in ((a, b), (b, a))]
    if any(only):
        counts = f"{len(only[0])} of the first and {len(only[1])} of the second are not in the other one"
        first = next(name for names in only for name in names)
        raise ValueError(f"two runs must be on the same questions; {counts}, the first is {first!r}")
    if changed_texts := [name for name in a if a[name] != b[name]]:
        counts = f"{len(changed_texts)} of {len(a)} have the id of another question in the second run"
        raise ValueError(f"two runs must be on the same questions; {counts}, the first is {changed_texts[0]!r}")


def _row(left: pd.Series, right: pd.Series) -> dict:
    pairs = left.notna() & right.notna()
    left, right, n = left[pairs], right[pairs], int(pairs.sum())
    row = dict.fromkeys(("a", "b", "value", "low", "high", "p_value", "smallest"), np.nan) | {"n": n}
    if n < 2:
        return row
    gap = stats.paired_difference(left, right)
    row |= {"a": left.mean(), "b": right.mean(), "value": gap.value, "low": gap.low, "high": gap.high}
    return row | {"p_value": gap.p_value, "smallest": smallest_effect(left - right)}
