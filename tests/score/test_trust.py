"""The judge beside a user's labels: by hand, with ties and one label only, and files that are wrong."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_samples import Initials, Shares

from rag_utils import stats
from rag_utils.measures.dense import faithful
from rag_utils.score import BadInput, judge_check, kappa
from rag_utils.score.trust import Labelled, read_labels, response_scores


def labelled(*rows) -> list[Labelled]:
    return [Labelled(question=q, answers=a, response=r, right=bool(right)) for q, a, r, right in rows]


LABELS = labelled(
    ("q1", ["ash", "elm"], "elm tree", 1),
    ("q1", ["ash", "elm"], "fir", 0),
    ("q2", ["oak"], "the oak", 1),  # begins otherwise: the judge is wrong
    ("q2", ["oak"], "old", 0),  # begins alike: wrong again
    ("q3", ["yew"], "yew", 1),
    ("q3", ["yew"], "pine", 0),
)


def test_by_hand():
    table = judge_check(Initials(), LABELS)
    assert response_scores(Initials(), LABELS).tolist() == [1, 0, 0, 1, 1, 0]
    assert table["value"][["right", "said right", "accuracy"]].tolist() == pytest.approx([1 / 2, 1 / 2, 4 / 6])
    assert table.loc["F1", "value"] == pytest.approx(2 * 2 / (3 + 3))
    assert table.loc["kappa", "value"] == pytest.approx((4 / 6 - 1 / 2) / (1 / 2))
    assert table.loc["contrast", ["value", "n"]].tolist() == [
        pytest.approx(2 / 3),
        3,
    ]  # of q1, q2, q3: right, wrong, right
    human, said = [1, 0, 1, 0, 1, 0], [1, 0, 0, 1, 1, 0]
    theirs = kappa.cohen(human, said).kappa
    assert table.loc["kappa"].tolist() == [theirs.value, theirs.low, theirs.high, 6]
    groups = ["q1", "q1", "q2", "q2", "q3", "q3"]
    accuracy = stats.mean_interval(np.equal(human, said).astype(float), groups=groups)
    assert table.loc["accuracy"].tolist() == [accuracy.value, accuracy.low, accuracy.high, 6]


def test_pairs_are_within_a_question_and_ties_count_half():
    labels = labelled(
        ("q1", ["ab"], "ab", 1), ("q1", ["ab"], "ba", 0), ("q2", ["ab"], "xy", 1), ("q2", ["ab"], "ab", 0)
    )
    assert judge_check(Shares(), labels).loc["contrast", ["value", "n"]].tolist() == [0.25, 2]  # a tie, and one lost


@pytest.mark.parametrize(("said", "message"), [
    (np.full(8, np.nan), "what the judge's equivalent returns must be finite"),
    (np.full(8, 2.0), "what the judge's equivalent returns must be from 0 to 1"),
    ([1.0] * 6, "lengths must be equal; got 6 opinions, 8 pairs"),
])  # fmt: skip
def test_a_judge_that_gives_no_probabilities_is_refused(said, message):
    class Odd(Initials):
        def equivalent(self, questions, left, right):
            return said[: len(left)]

    with pytest.raises(ValueError, match=message):
        judge_check(Odd(), LABELS)
    with pytest.raises(ValueError, match="what the judge's equivalent returns must be finite"):
        faithful(SimpleNamespace(equivalent=lambda *asked: np.array([np.nan])), ["a text"], ["another"])


def test_one_label_only_says_little():
    table = judge_check(Initials(), labelled(("q1", ["a"], "a", 1), ("q2", ["b"], "b", 1)))
    assert table.loc["accuracy", "value"] == 1 and table.loc["right", "high"] == 1
    assert np.isnan(table.loc["kappa", "value"]) and np.isnan(table.loc["contrast", "value"])
    assert table["n"].tolist() == [2, 2, 2, 2, 2, 0]
    one = judge_check(Initials(), labelled(("q1", ["a"], "b", 0)))  # no interval of one, and no F1 where nothing is right
    assert np.isnan(one.loc["F1", "value"]) and one["n"].tolist() == [1, 1, 1, 1, 1, 0]


def test_files_are_read_and_what_is_wrong_is_named(tmp_path):
    path = tmp_path / "labels.jsonl"
    good = {"question": "q", "answers": ["a"], "response": "b", "right": False}
    other = {"question": "q", "answer": "a", "response": "b", "right": False}
    path.write_text(json.dumps(good) + "\n" + json.dumps(other))
    assert read_labels(path) == labelled(("q", ["a"], "b", 0), ("q", ["a"], "b", 0))
    path.write_text("\n".join(map(json.dumps, [good, good | {"right": 1}, good | {"answers": "a"}, {"question": "q"}])))
    with pytest.raises(BadInput, match=r"line 2, field right: .* boolean") as caught:
        read_labels(path)
    assert len(caught.value.problems) == 5 and "line 3, field answers" in str(caught.value)
    assert len(read_labels(path, skip_bad=True)) == 1
    path.write_text("")
    with pytest.raises(BadInput, match="empty"):
        read_labels(path, skip_bad=True)
