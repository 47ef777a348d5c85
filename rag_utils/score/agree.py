"""How far measures say the same of the same passages: rank correlations within questions, and between questions.

agreement(scores.passages, ("seper", "erag", "moi"))                   # one row per pair
within(scores.passages, "seper", "erag"), between(scores.passages, "seper", "erag")
first_choice(scores.passages, "moi", "erag").mean()                    # right answers from MoI's best passage alone

The words of DENSE and ECoRAG stand for the numbers of WORDS, which rise with what a passage is worth to the measure.
"""

from collections.abc import Sequence
from itertools import combinations

import pandas as pd
from pandas.api.types import is_numeric_dtype

from rag_utils import stats
from rag_utils.base import checks

WORDS = {
    "dense_role": {"necessary": 1, "unnecessary": 0, "certain": 0},
    "ecorag": {"strong": 2, "weak": 1, "distractor": 0},  # "undefined" is no value
}


def numbers(passages: pd.DataFrame) -> pd.DataFrame:
    """The rows with the columns of WORDS as numbers, NaN where the measure says nothing; any other column as it is."""
    said = [name for name in WORDS if name in passages and not is_numeric_dtype(passages[name])]
    return passages.assign(**{name: passages[name].map(WORDS[name]).astype(float) for name in said})


def within(passages: pd.DataFrame, a: str, b: str, **how) -> stats.Correlation:
    """Do two columns order the passages of a question alike? -1 .. 1, whatever the questions' difficulty.

    passages : columns question, a and b; rows without one of the two are left out, and questions with one row left
    how      : resamples and rng, as in `stats.correlation`
    returns  : Correlation; n counts rows. Ranks within each question, ties at their mean, less the question's mean rank, correlated over
               all rows: Spearman's within a question, pooled. A question in which only one of the two tells passages apart counts
               against it. Interval and p draw whole questions
    raises   : ValueError if a column is missing, or nowhere tells two passages of a question apart
    """
    both = _both(passages, a, b)
    both = both[both.groupby("question")["question"].transform("size") > 1]
    ranks = {name: _centred(both[name], both["question"]) for name in (a, b)}
    return stats.correlation(ranks[a], ranks[b], method="pearson", groups=both["question"], **how)


def between(passages: pd.DataFrame, a: str, b: str, *, given: str | None = None, **how) -> stats.Correlation:
    """Are questions whose passages have more of a, on average, those that have more of b? Spearman's, -1 .. 1, of the questions' means.

    given   : a column with one value per question; ranks are then less the mean rank of its value: how far a and b go together among
              questions that are alike in it
    returns : Correlation; n counts questions; else as `within`
    """
    columns = ["question", a, b, *([given] if given else [])]
    means = _both(passages, a, b)[columns].groupby("question", as_index=False).mean()
    if given is None:
        return stats.correlation(means[a], means[b], method="spearman", **how)
    ranks = {name: means[name].rank() for name in (a, b)}
    left = {name: each - each.groupby(means[given]).transform("mean") for name, each in ranks.items()}
    return stats.correlation(left[a], left[b], method="pearson", **how)


def agreement(passages: pd.DataFrame, columns: Sequence[str], **how) -> pd.DataFrame:
    """`within` for each pair of at least two columns, in the order given.

    returns : columns a, b, value, low, high, n (rows), questions (in which both tell passages apart), p_value, p_holm (for all
              pairs; not below 2 pairs / (1 + resamples))
    """
    columns, rows = checks.distinct("columns", checks.texts("columns", columns, least=2)), []
    for a, b in combinations(columns, 2):
        varied = _both(passages, a, b).groupby("question")[[a, b]].nunique().min(axis=1) > 1
        values = vars(within(passages, a, b, **how))
        rows.append({"a": a, "b": b} | values | {"questions": int(varied.sum())})
    table = pd.DataFrame(rows)
    return table.drop(columns="undefined").assign(p_holm=stats.holm(table["p_value"]))


def first_choice(passages: pd.DataFrame, by: str, of: str) -> pd.Series:
    """What a user gets who shows the reader only the passage that a measure puts first.

    returns : by question, the mean of `of` over the passages with the most of `by`: ties are drawn lots for. Questions without either are
              left out
    """
    both = _both(passages, by, of)
    best = both[both[by] == both.groupby("question")[by].transform("max")]
    return best.groupby("question", sort=False)[of].mean()


def _both(passages: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """The rows that have both columns, as numbers."""
    for name in ("question", a, b):
        checks.one_of("column", name, [*passages])
    return numbers(passages).dropna(subset=[a, b])


def _centred(values: pd.Series, groups: pd.Series) -> pd.Series:
    """Mid-rank of each value in its group, less the group's mean."""
    ranks = values.groupby(groups).rank()
    return ranks - ranks.groupby(groups).transform("mean")
