"""Ways of ordering beside each other: means by question, gains that are paired and adjusted, claims with their verdicts."""

import numpy as np
import pandas as pd
import pytest
import tiny_orders
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from experiments import orders
from rag_utils import moi, stats
from rag_utils.score import against_chance

few = settings(deadline=None, derandomize=True, max_examples=30)


@pytest.fixture
def said():
    return tiny_orders.said()


def test_by_way_by_hand(said):
    wide = orders.by_way(said, "exact_match")
    assert list(wide.columns) == ["MoI", "QG", "average order", "self-consistency", "oracle"]
    assert wide.loc["q1"].tolist() == pytest.approx([1, 0, 1 / 3, 1, 1])
    assert wide["average order"].tolist() == pytest.approx([1 / 3, 2 / 3])
    mixed = orders.by_way(said.sample(frac=1, random_state=1), "exact_match")
    assert mixed.loc[wide.index, wide.columns].equals(wide)  # whatever the order of the rows


def test_a_vote_is_no_order_that_the_oracle_could_choose(said):
    said.loc[said["condition"] != "self-consistency", "exact_match"] = 0.0
    wide = orders.by_way(said, "exact_match")
    assert wide["self-consistency"].tolist() == [1, 1] and wide["oracle"].tolist() == [0, 0]


def test_gains_are_paired_and_adjusted_in_the_order_given(said):
    ways = ["average order", "QG", "absent", "MoI", "oracle"]
    metrics, first = {"gold": "rank of gold", "exact_match": "EM"}, {"k tokens": {"QG": "0.50", "absent": "9"}}
    table = orders.compared(said, metrics, first, ways=ways, resamples=200)
    assert list(table.index) == ["average order", "QG", "MoI", "oracle"] and set(table["n"]) == {2}
    assert list(table) == ["k tokens", "rank of gold", "EM", "EM gain", "Holm", "n"]
    gaps = {way: orders.gap(said, way) for way in ("QG", "MoI")}
    assert table.loc["MoI", "EM gain"] == f"{gaps['MoI']:+.2f}" and table.loc["average order", "EM gain"] == "–"
    adjusted = stats.holm([gap.p_value for gap in gaps.values()])
    assert table.loc[["QG", "MoI"], "Holm"].tolist() == [f"{value:.3f}" for value in adjusted]
    assert table.loc["oracle", "Holm"] == table.loc["average order", "Holm"] == "–"  # neither is tested
    assert table["k tokens"].tolist() == ["–", "0.50", "–", "–"]


def test_a_gap_to_the_average_order_lets_differences_be_skewed(said):
    cyclic = said[said["condition"] == "cyclic"].pivot(index="id", columns="run", values="exact_match")
    gap = orders.gap(said.sample(frac=1, random_state=1), "MoI")
    assert vars(gap) == vars(against_chance([1.0, 1.0], cyclic)) and gap.value == pytest.approx(0.5)
    assert gap.p_value == 0.5  # of two questions that differ
    wide = orders.by_way(said, "gold")
    assert orders.gap(said, "MoI", "QG", "gold") == stats.paired_difference(wide["MoI"], wide["QG"])


def test_the_best_way_comes_first_after_its_rank_of_gold(said):
    table = orders.best_first(said, {"exact_match": "EM"}, resamples=200)
    assert list(table) == ["gold", "EM", "difference", "Holm", "n"]
    means = orders.by_way(said, "exact_match").mean()
    assert [means[way] for way in table.index] == sorted(means, reverse=True)
    assert table.loc["MoI", "gold"] == "1.00" and table.loc["self-consistency", "gold"] == "–"
    assert table.loc["oracle", "Holm"] == "–" != table.loc["self-consistency", "Holm"]


def test_claims_stand_on_adjusted_p_values():
    rng = np.random.default_rng(0)
    strong = stats.paired_difference(rng.random(60) + 0.5, rng.random(60))
    assert strong.p_value < 0.001
    noise = rng.normal(size=40)
    weak = stats.Difference(0.2, 0.01, 0.4, 40, 0.03)  # below 0.05 alone, not among three
    none = stats.paired_difference(noise, noise[::-1])
    gaps = {"untold": strong, "strong": strong, "weak": weak, "none": none}
    printed = {"strong": "above", "weak": "above", "none": "above", "untold": None}
    table = orders.claims(gaps, printed, unparsed=3)
    assert table["verdict"].tolist() == ["–", "same direction", "undecided", "undecided"]
    assert orders.claims({"weak": weak}, {"weak": "above"})["verdict"].tolist() == ["same direction"]
    assert orders.claims({"weak": weak}, {"weak": None})["verdict"].tolist() == ["–"]
    with pytest.raises(ValueError, match="same titles"):
        orders.claims(gaps, {"strong": "above"})


def test_tau_by_hand():
    assert orders.tau([0, 1, 2, 3], [0, 1, 2, 3]) == 1
    # of the pairs of 2-0-1 against 0-1-2 only 0 before 1 agrees: (1 - 2) / 3
    assert orders.tau([2, 0, 1], [0, 1, 2]) == pytest.approx(-1 / 3)
    one, other = [1, 2, 3, 0], [1, 0, 2, 3]  # disagree on 0 before 2 and 0 before 3 only
    assert orders.tau(one, other) == pytest.approx((4 - 2) / 6)
    assert kendalltau(one, other).statistic == pytest.approx((2 - 4) / 6)  # the lists read as numbers


@few
@given(st.permutations(range(5)), st.permutations(range(5)))
def test_tau_has_no_direction_and_turns_with_a_ranking(one, other):
    tau = orders.tau(one, other)
    assert orders.tau(other, one) == pytest.approx(tau) and orders.tau(one[::-1], other) == pytest.approx(-tau)


def test_the_corpus_shows_gold_among_bm25s_best():
    question = next(one for one in orders.data.load("companion") if len(one.gold) == 2)
    shown, run = orders.companion_passages([question], 4)
    assert {one.id for one in question.gold} <= {one.id for one in shown[question.id]} and len(shown[question.id]) == 4
    scores = [run[question.id].get(one.id, 0.0) for one in shown[question.id]]
    assert orders.lengths(shown, run, temperature=2.0) == {question.id: moi.prefix_length(scores, temperature=2.0)}


def test_the_share_of_a_gain_by_hand():
    """Gains of 0.6 and 0.3 over the base keep a half; the mean of the questions' own ratios would be another number."""
    base, whole, part = np.zeros(8), np.array([1.0, 0.8, 0.4, 0.2] * 2), np.array([0.2, 0.2, 0.4, 0.4] * 2)
    gain, share = orders.retained(part, whole, base, resamples=200, rng=0)
    assert share.value == pytest.approx(0.5) != pytest.approx(np.mean(part / whole))
    assert gain.value == pytest.approx(0.6) and share.low <= 0.5 <= share.high


def test_without_a_gain_there_is_nothing_to_keep():
    for part, whole, base in (([1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]), ([0, 0], [0, 0], [1, 1])):
        assert orders.retained(*np.array([part, whole, base]))[1] is None


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    rows = [
        {"id": f"q{i}", "condition": way, "exact_match": float(rng.random() < share), "gold": float(rng.random())}
        for i in range(20)
        for way, share in (("cyclic", 0.3), ("cyclic", 0.3), ("dear", 0.9), ("cheap", 0.6))
    ]
    return {metric: orders.by_way(pd.DataFrame(rows), metric) for metric in ("gold", "exact_match")}


METRICS = {"gold": "gold", "exact_match": "EM"}


def test_differences_are_paired_and_adjusted_together(tables):
    pairs = [("dear", "cheap"), ("dear", "absent"), ("cheap", "average order")]
    found = orders.differences(tables, METRICS, pairs)
    assert list(found.index) == [("dear", "cheap"), ("cheap", "average order")]
    assert list(found) == ["gold", "Holm, gold", "EM", "Holm, EM"]
    gaps = [
        stats.paired_difference(tables[metric][a], tables[metric][b])
        for a, b in found.index
        for metric in METRICS
    ]
    adjusted = [f"{p:.3f}" for p in stats.holm([gap.p_value for gap in gaps])]
    assert found[["Holm, gold", "Holm, EM"]].to_numpy().ravel().tolist() == adjusted
    assert found.loc[("dear", "cheap"), "EM"] == f"{gaps[1]:+.2f}"


def test_shares_leave_out_ways_that_are_absent(tables):
    kept = orders.shares(tables, METRICS, [("half", "cheap", "dear"), ("none", "absent", "dear")], rng=0)
    assert list(kept.index) == ["half"] and kept.loc["half", "kept, EM"] != "undefined"
    _, share = orders.retained(*(tables["exact_match"][way] for way in ("cheap", "dear", "average order")), rng=0)
    assert kept.loc["half", "kept, EM"] == f"{share}" and kept.loc["half", "kept, gold"] == "undefined"
