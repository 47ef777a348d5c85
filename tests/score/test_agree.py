"""How far measures agree: by hand, beside scipy, and where there is nothing to compare."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from rag_utils import score
from rag_utils.score.agree import between, first_choice, numbers, within

HOW = {"resamples": 100}
TWO = pd.DataFrame(  # ranks less their mean: a -1 0 1, -0.5 0.5; b 1 0 -1, -0.5 0.5
    {"question": ["p"] * 3 + ["q"] * 2, "a": [1.0, 2, 3, 70, 80], "b": [9.0, 5, 1, 0, 0.5]}
)


def drawn(questions=40, k=5, seed=0):
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.normal(size=questions) * 10, k)  # the same for a question's passages
    worth = rng.normal(size=questions * k)
    names = np.repeat([f"q{i}" for i in range(questions)], k)
    return pd.DataFrame({"question": names, "a": level + worth, "b": worth - level, "level": level})


def test_by_hand():
    assert within(TWO, "a", "b", **HOW).value == pytest.approx((-2 + 0.5) / 2.5)


def test_within_one_question_it_is_spearmans():
    one = drawn(questions=1, k=30).assign(question=["x"] * 15 + ["y"] * 15)
    one = one[one["question"] == "x"].assign(b=np.random.default_rng(1).normal(size=15))
    both = pd.concat([one, one.assign(question="copy")])
    expected = scipy_stats.spearmanr(one["a"], one["b"]).statistic
    assert within(both, "a", "b", **HOW).value == pytest.approx(expected)


def test_what_a_question_has_of_its_own_plays_no_part_within_and_all_between():
    rows = drawn()
    assert within(rows, "a", "b", **HOW).value == pytest.approx(1)  # the level is the question's
    assert between(rows, "a", "b", **HOW).value < -0.9
    given = between(rows.assign(kind=rows["level"] > 0), "a", "b", given="kind", **HOW)
    assert -0.95 < given.value < 0 and given.n == 40


def test_a_measure_that_tells_nothing_apart_counts_against_the_agreement():
    rows = drawn()
    blind = rows.assign(b=rows["b"].where(rows["question"] < "q2", 0.0))
    assert within(blind, "a", "b", **HOW).value < within(rows, "a", "b", **HOW).value - 0.1


def test_words_stand_for_numbers_and_what_is_not_said_is_left_out():
    rows = drawn().assign(ecorag=["strong", "weak", "distractor", "undefined", "weak"] * 40)
    assert numbers(rows)["ecorag"].head(4).tolist()[:3] == [2, 1, 0] and numbers(rows)["ecorag"].isna().sum() == 40
    assert numbers(numbers(rows)).equals(numbers(rows))
    assert within(rows, "a", "ecorag", **HOW).n == 160
    table = score.agreement(rows, ("a", "b", "ecorag"), **HOW)
    assert table[["a", "b"]].values.tolist() == [["a", "b"], ["a", "ecorag"], ["b", "ecorag"]]
    assert (table["p_holm"] >= table["p_value"]).all() and table["questions"].tolist() == [40, 40, 40]


def test_the_first_choice_draws_lots_for_ties():
    rows = TWO.assign(right=[0, 0, 1, 1, 0], tied=[1, 1, 0, 1, 0])
    assert first_choice(rows, "a", "right").to_dict() == {"p": 1, "q": 0}
    assert first_choice(rows, "tied", "right").to_dict() == {"p": 0, "q": 1}


@pytest.mark.parametrize(
    ("columns", "said"),
    [(("a",), "columns"), (("a", "seper"), "seper"), (("a", "a"), "columns"), (("a", "same"), "varies|constant|differ")],
)
def test_what_cannot_be_compared_is_said(columns, said):
    with pytest.raises(ValueError, match=said):
        score.agreement(drawn().assign(same=1.0), columns, **HOW)
