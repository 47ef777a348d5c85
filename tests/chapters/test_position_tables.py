"""Tables of answers by order."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from experiments.moi_position import position_tables as tables
from rag_utils import stats


@pytest.fixture
def said():
    """Two questions, two ways and three cyclic orders; the vote is a row without an order."""
    rows = []
    for name, ways in {"q1": (1, 0, (1, 0, 0)), "q2": (1, 1, (1, 1, 0))}.items():
        rows += [(name, "MoI", 0, "0-1-2", 1.0, ways[0]), (name, "QG", 0, "2-1-0", 1 / 3, ways[1])]
        cyclic = zip(("0-1-2", "1-2-0", "2-0-1"), (1.0, 1 / 3, 1 / 2), ways[2], strict=True)
        rows += [(name, "cyclic", run, *one) for run, one in enumerate(cyclic)]
        rows.append((name, "self-consistency", 0, "votes", 0.0, 1))
    columns = ["id", "condition", "run", "order", "gold", "exact_match"]
    return pd.DataFrame(rows, columns=columns).astype({"exact_match": float})


def test_by_question_by_hand(said):
    wide = tables.by_question(said, "exact_match")
    assert list(wide.columns) == ["MoI", "QG", "average order", "self-consistency", "oracle"]
    assert wide.loc["q1"].tolist() == pytest.approx([1, 0, 1 / 3, 1, 1])
    assert wide["average order"].tolist() == pytest.approx([1 / 3, 2 / 3])


def test_a_vote_is_no_order_that_the_oracle_could_choose(said):
    said.loc[said["condition"] != "self-consistency", "exact_match"] = 0.0
    wide = tables.by_question(said, "exact_match")
    assert wide["self-consistency"].tolist() == [1, 1] and wide["oracle"].tolist() == [0, 0]


def test_compared_is_paired_and_adjusted(said):
    found = tables.compared(said, {"exact_match": "EM"}, resamples=200)
    assert found.index[-1] in ("QG", "average order") and set(found["n"]) == {2}
    wide = tables.by_question(said, "exact_match")
    gap = stats.paired_difference(wide["MoI"], wide["average order"], resamples=200, rng=0)
    assert found.loc["MoI", "difference"] == f"{gap:+.2f}"
    ways = ["MoI", "QG", "self-consistency"]  # neither the average nor the oracle is tested
    p = [stats.paired_difference(wide[way], wide["average order"], resamples=200, rng=0).p_value for way in ways]
    assert found.loc[ways, "Holm"].tolist() == [f"{value:.3f}" for value in stats.holm(p)]
    assert found.loc["oracle", "Holm"] == found.loc["average order", "Holm"] == "–"
    assert found.loc["MoI", "gold"] == "1.00" and found.loc["self-consistency", "gold"] == "–"


def test_by_place_counts_an_order_once(said):
    found = tables.by_place(said, ["q1", "q2"], "exact_match", resamples=200)
    assert found["n"].to_dict() == {1: 2, 2: 2, 3: 4}  # "0-1-2" is MoI's and a cyclic one; place 3: QG's and "1-2-0"
    assert found["value"].to_dict() == pytest.approx({1: 1, 2: 0, 3: (0 + 1 + 0 + 1) / 4})


def test_same_replies_by_hand():
    """Orders 0-1-2 and 0-2-1 share their first passage only; the vote and an order that comes twice count for nothing."""
    orders = ["0-1-2", "0-2-1", "1-2-0", "0-1-2", "votes"]
    replies = ["Rome", "The Rome.", "Bonn", "Rome", "Bonn"]
    ways = ["MoI", "QG", "QG", "cyclic", "self-consistency"]
    said = pd.DataFrame({"id": "q", "condition": ways, "order": orders, "reply": replies})
    found = tables.same_replies(said)
    assert list(found.columns) == ["nowhere", 1, 2, 3] and list(found.index) == [("q", 0), ("q", 1), ("q", 2)]
    assert (found["nowhere"] == 0).all()  # 0-1-2 and 1-2-0
    assert found.loc[("q", 0), 1] == 1 and found.loc[("q", 2), 2] == 0  # 0-2-1 and 1-2-0 agree in the middle
    assert found[[1, 2, 3]].notna().sum().sum() == 2
    with pytest.raises(ValueError, match=r"of one length, got lengths \[2, 3\]"):
        tables.same_replies(said.assign(order=["0-1-2", "0-2-1", "1-2", "0-1-2", "votes"]))


def test_a_reader_of_the_first_passage_is_seen_in_that_place_alone():
    """All orders of four passages, and a reply that names the first one."""
    labels = ["-".join(map(str, order)) for order in permutations(range(4))]
    said = pd.DataFrame({"id": "q", "condition": "MoI", "order": labels, "reply": [f"city {one[0]}" for one in labels]})
    found = tables.same_replies(said)
    assert (found == [0, 1, 0, 0, 0]).all(axis=None)


def test_without_the_passage_held_equal_a_place_would_be_seen_that_does_nothing():
    """The reply is right where passage 0 is in one of the first two places; orders that rankings made have it in the first more often."""
    labels = [f"0-{a}-{b}-{c}" for a, b, c in permutations((1, 2, 3))] + ["1-0-2-3", "2-0-3-1", "1-3-2-0", "2-1-3-0"]
    replies = ["right" if 0 in (int(one[0]), int(one[2])) else one for one in labels]
    said = pd.DataFrame({"id": "q", "condition": "MoI", "order": labels, "reply": replies})
    found = tables.same_replies(said)
    matched = found[[1, 2]].dropna()
    assert matched.loc[("q", 0)].tolist() == [1, 1]  # the passage counts for as much in the second place
    assert (found[1].mean() - found[2].mean()) > (matched[1] - matched[2]).mean()


def test_claims_stand_on_adjusted_p_values():
    rng = np.random.default_rng(0)
    strong = stats.paired_difference(rng.random(60) + 0.5, rng.random(60), rng=0)
    assert strong.p_value < 0.001
    noise = rng.normal(size=40)
    weak = stats.Difference(0.2, 0.01, 0.4, 40, 0.03)  # below 0.05 alone, not among three
    none = stats.paired_difference(noise, noise[::-1], rng=0)
    gaps = {"strong": strong, "weak": weak, "none": none, "untold": strong}
    table = tables.claims(gaps, {"strong": "above", "weak": "above", "none": "above", "untold": None}, unparsed=3)
    assert table["verdict"].tolist() == ["same direction", "undecided", "undecided", "–"]
    alone = tables.claims({"weak": weak}, {"weak": "above"})
    assert alone["verdict"].tolist() == ["same direction"]
    with pytest.raises(ValueError, match="same titles"):
        tables.claims(gaps, {"strong": "above"})
