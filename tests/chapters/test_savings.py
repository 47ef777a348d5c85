"""Cheaper orders: which are proposed, what they cost, and rankings of invented scores."""

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.moi_cheaper import cheaper_numbers as numbers
from rag_utils import lm, moi
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.measures.moi import label, problems, propose
from rag_utils.prompts import Prompt

READ = Prompt("read", "$documents\nQ: $question\nA:", chat=False)
PASSAGES = tuple(
    Passage(name, "t", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three"), ("d", "x"))
)
QUESTION = Question(id="q1", text="which?", answers=("two",), dataset="companion", gold=(PASSAGES[1],))
SHOWN = {"q1": PASSAGES}
few = settings(deadline=None, derandomize=True, max_examples=6)


def scored(sets, utility, position, *, seed=0):
    """Rows as of `saliencies`, with scores that the model makes of known truth, plus a constant."""
    rows = []
    for condition, orders in sets.items():
        for name, some in orders.items():
            for run, order in enumerate(some):
                a = np.asarray(position[: len(order)]) / sum(position[: len(order)])
                score = float(moi.predict([order], a, utility)[0]) - 20
                row = {"id": name, "condition": condition, "run": run, "order": label(order)}
                rows.append(row | {"query": score, "passages": np.nan, "information": 0.0})
    return pd.DataFrame(rows)


def test_pruned_orders_are_beginnings_of_the_full_ones():
    sets = numbers.proposed(["q1", "q2"], 5, prefix=3, lengths={"q1": 2, "q2": 4}, seed=1)
    assert sets["full"]["q1"].shape == (15, 5) and not np.array_equal(sets["full"]["q1"], sets["full"]["q2"])
    assert np.array_equal(sets["pruned"]["q2"], sets["full"]["q2"][:, :3])
    assert sets["cyclic variable"]["q1"].shape == (5, 2) and sets["cyclic variable"]["q2"].shape == (5, 4)
    again = numbers.proposed(["q1", "q2"], 5, prefix=3, lengths={"q1": 2, "q2": 4}, seed=1)
    assert all(np.array_equal(sets[name]["q1"], again[name]["q1"]) for name in sets)


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def test_costs_by_hand(reader):
    """One token a byte: two texts of 41 and 39 that share their first 25."""
    sets = {"two": {"q1": [[0, 1], [0, 2]]}, "same": {"q1": [[0, 1], [0, 1]]}}
    found = numbers.tokens_read(reader, [QUESTION], SHOWN, sets, prompt=READ).set_index("condition")
    texts = ["Document: one\nDocument: two two\nQ: which?", "Document: one\nDocument: three\nQ: which?"]
    lengths, shared = [len(text) for text in texts], len("Document: one\nDocument: t")
    assert found.loc["two", "tokens"] == sum(lengths) and found.loc["two", "calls"] == 2
    assert found.loc["two", "distinct"] == sum(lengths) - shared
    assert found.loc["same", "tokens"] == 2 * lengths[0] and found.loc["same", "distinct"] == lengths[0]


@few
@given(st.integers(0, 2**31))
def test_known_utilities_are_ranked_by_every_way_that_settles_them(seed):
    rng = np.random.default_rng(seed)
    utility, position = rng.permutation([0.1, 0.4, 0.9, 1.5, 2.2]), [0.4, 0.3, 0.2, 0.06, 0.04]
    sets = numbers.proposed(["q"], 5, prefix=3, lengths={"q": 2}, seed=seed)
    table = scored(sets, utility, position)
    short = {n: np.array(position[:n]) / sum(position[:n]) for n in (2, 3)}
    found = numbers.each_way(table, short, size=5).set_index("condition")
    truth = label(moi.rerank(utility))
    for way in ("fixed calibrated", "variable calibrated", "QG"):
        assert found.loc[way, "order"] == truth and found.loc[way, "identified"] == 1
    if found.loc["3N pruned", "identified"]:
        assert found.loc["3N pruned", "order"] == truth
    assert (found.loc[list(numbers.WAYS)[:4], "identified"] == 0).all()  # those of the paper


def test_a_wrong_position_ranks_wrongly_and_one_that_settles_nothing_leaves_the_retriever():
    utility, position = np.array([0.0, 1.0, 0.2, 0.5]), [0.7, 0.3]
    sets = numbers.proposed(["q"], 4, prefix=2, lengths={"q": 2})
    table = scored({name: sets[name] for name in ("cyclic pruned", "alone")}, utility, position)
    names = {"right": [0.7, 0.3], "turned": [0.3, 0.7], "even": [0.5, 0.5]}
    found = {
        name: numbers.each_way(table, {2: np.array(a)}, size=4).set_index("condition") for name, a in names.items()
    }
    truth = label(moi.rerank(utility))
    assert found["right"].loc["fixed calibrated", "order"] == truth != found["turned"].loc["fixed calibrated", "order"]
    assert found["even"].loc["fixed calibrated", ["order", "identified"]].tolist() == ["0-1-2-3", 0]


def test_a_position_is_found_from_other_questions():
    sets = propose([f"d{i}" for i in range(6)], 5, {"pruned 2": 2, "pruned 3": 3}, drawn=15, seed=3)
    rng, tables = np.random.default_rng(0), []
    for name in sets["pruned 2"]:
        mine = {one: {name: orders[name]} for one, orders in sets.items()}
        tables.append(scored(mine, rng.normal(size=5), [0.5, 0.3, 0.2]))
    found = numbers.calibration(pd.concat(tables), [2, 3], size=5)
    assert found[3] == pytest.approx([0.5, 0.3, 0.2], abs=1e-4) and found[2] == pytest.approx([0.625, 0.375], abs=1e-4)
    with pytest.raises(ValueError, match=r"lengths must be .*at most 4; got 5"):
        numbers.calibration(pd.concat(tables), [5], size=5)


def test_alone_is_ranked_by_its_scores():
    table = scored(propose(["q"], 4, {"alone": 1}), [0.3, 0.1, 0.9, 0.3], [1.0])
    [(orders, scores)] = problems(table, "alone").values()
    [row] = numbers.each_way(table, {}, size=4).to_dict("records")
    assert row["order"] == label(moi.rerank(scores[np.argsort(orders[:, 0])])) == "2-0-3-1"  # a tie: the retriever
    assert (row["condition"], row["identified"]) == ("QG", 1)


def test_scores_are_ranked_with_ties_in_the_retrievers_order():
    rows = [{"id": "q", "condition": "cosine", "rank": r, "score": s} for r, s in ((2, 0.5), (0, 0.5), (1, 0.9))]
    found = numbers.by_score(pd.DataFrame(rows))
    assert found["order"].item() == "1-0-2"


def test_the_set_behind_a_way():
    assert numbers.set_of("agent fixed calibrated") == "cyclic pruned" == numbers.set_of("fixed")
    assert numbers.set_of("student") is None
