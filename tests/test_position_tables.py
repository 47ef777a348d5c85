"""Tables of answers by order."""

import numpy as np
import pandas as pd
import pytest

from rag_utils import position_tables as tables
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
