"""Two runs side by side: a case by hand, what is refused, what one run could have shown, and where the difference comes from."""

import pandas as pd
import pytest

from rag_utils import stats
from rag_utils.score import Scores, changed, compare
from rag_utils.score.scores import typed

BEFORE = {"answers": "x", "passages": 2, "before": "y", "with_list": "z", "right_before": 0, "tokens": 9}


def scored(seper, right, *, texts=None, **settings) -> Scores:
    """Scores by SePer of two passages each and whether the list was answered rightly; None where there is no value."""
    names = list(texts or [f"q{n}" for n in range(len(right))])
    passages = [
        {"question": name, "passage": f"p{rank}", "rank": rank, "seper": value, "seper_why": ""}
        for name, own in zip(names, seper, strict=True)
        for rank, value in enumerate(own, 1)
    ]
    questions = [
        BEFORE | {"id": name, "question": (texts or {}).get(name, name), "right_with_list": one, "seper_list": 0.5, "seper_why": ""}
        for name, one in zip(names, right, strict=True)
    ]  # fmt: skip
    facts = {"measures": ["seper"], "k": 2, "reader": "r", "top": 10, "seed": 0}
    return Scores(typed(passages), typed(questions), facts | settings)


A = scored([(0.2, 0.4), (0.5, 0.5), (0.0, 0.2), (0.9, 0.7)], [1, 1, 0, 1])
B = scored([(0.1, 0.1), (0.5, 0.3), (0.3, 0.3), (0.2, 0.2)], [1, 0, 0, 0])


def test_by_hand():
    table = compare(A, B)
    row = table.loc["SePer"]  # differences by question: 0.2, 0.1, -0.2, 0.6
    assert (row["a"], row["b"], row["n"]) == (pytest.approx(0.425), pytest.approx(0.25), 4)
    assert row["value"] == pytest.approx(0.175) == pytest.approx(row["a"] - row["b"])
    gap = stats.paired_difference([0.3, 0.5, 0.1, 0.8], [0.1, 0.4, 0.3, 0.2])
    assert row[["low", "high", "p_value"]].tolist() == pytest.approx([gap.low, gap.high, gap.p_value])
    assert row["p_value"] == pytest.approx(0.3672, abs=1e-4)  # t = 0.175 / 0.165 with three degrees of freedom
    assert table.loc["right with list", "value"] == 0.5 and table.attrs["differs"] == []
    assert list(table) == ["a", "b", "value", "low", "high", "p_value", "p_holm", "smallest", "n"]


def test_it_is_antisymmetric_and_of_itself_nothing():
    there, back, same = compare(A, B), compare(B, A), compare(A, A)
    assert there["value"].tolist() == pytest.approx((-back["value"]).tolist())
    assert there["p_value"].tolist() == back["p_value"].tolist()
    assert (same["value"] == 0).all() and (same["p_value"] == 1).all() and same["smallest"].isna().all()


def test_the_order_of_the_questions_plays_no_part():
    turned = Scores(
        B.passages.iloc[::-1].reset_index(drop=True), B.questions.iloc[::-1].reset_index(drop=True), B.settings
    )
    pd.testing.assert_frame_equal(compare(A, turned), compare(A, B))


def test_p_values_are_adjusted_for_all_rows():
    table = compare(A, B)
    assert table["p_holm"].tolist() == stats.holm(table["p_value"]).tolist()
    assert (table["p_holm"] >= table["p_value"]).all()


def test_only_pairs_that_both_have_count():
    left = scored([(0.2, 0.4), (None, None), (0.0, 0.2), (0.9, 0.7)], [1, None, 0, 1])
    assert compare(left, B).loc["SePer", ["n", "value"]].tolist() == [3, pytest.approx((0.2 - 0.2 + 0.6) / 3)]
    few = scored([(0.2, 0.4), *[(None, None)] * 3], [1, None, None, None])
    row = compare(few, B).loc["SePer"]
    assert row["n"] == 1 and row.drop("n").isna().all()


def test_other_questions_are_refused_by_name():
    other = scored([(0.2, 0.4)] * 3, [1, 1, 0], texts={"q0": "q0", "q1": "another text", "q9": "q9"})
    with pytest.raises(
        ValueError, match=r"2 of the first and 1 of the second are not in the other one, the first is 'q2'"
    ):
        compare(A, other)
    other = scored([(0.2, 0.4)] * 4, [1, 1, 0, 0], texts={"q0": "q0", "q1": "another text", "q2": "q2", "q3": "q3"})
    with pytest.raises(ValueError, match=r"1 of 4 have the id of another question in the second run, the first is 'q1'"):
        compare(A, other)


def test_what_was_not_alike_is_named():
    other = Scores(B.passages, B.questions, B.settings | {"reader": "s", "top": 5})
    assert compare(A, other).attrs["differs"] == ["reader", "top"]
    questions = A.questions.assign(answers=["another", *A.questions["answers"][1:]])
    assert compare(A, Scores(A.passages, questions, A.settings)).attrs["differs"] == ["answers of 1 questions"]


def test_measures_of_one_run_only_are_left_out():
    less = Scores(B.passages, B.questions, B.settings | {"measures": []})
    assert "SePer" not in compare(A, less).index and "right with list" in compare(A, less).index


def test_what_changed_most():
    table = changed(A, B, "SePer", most=2)
    assert table.index.tolist() == ["q3", "q0"] and table["difference"].tolist() == pytest.approx([0.6, 0.2])
    with pytest.raises(ValueError, match="unknown number 'SePr'; did you mean 'SePer'"):
        changed(A, B, "SePr")
