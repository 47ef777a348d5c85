"""Cheaper orders, what they cost and rankings of invented scores; and what chapter 8 keeps as numbers, in small."""

import json

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from experiments import asking, benchmarks
from experiments.moi_cheaper import cheaper_numbers as numbers
from experiments.moi_cheaper import preference
from experiments.table import text_of
from rag_utils import lm, moi, retrieve
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.measures.moi import label, parse, problems, propose
from rag_utils.prompts import Prompt

PASSAGES = tuple(
    Passage(name, "t", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three"), ("d", "x"))
)
ASKED = [
    Question(id=f"q{i}", text="which?" + "?" * i, answers=("two",), dataset="x", gold=(PASSAGES[i],)) for i in (1, 2)
]
SHOWN = {question.id: PASSAGES for question in ASKED}
PROFILES = {"reader": "x", "agent": "y"}
READ = Prompt("read", "$documents\nQ: $question\nA:", chat=False)
few = settings(deadline=None, derandomize=True, max_examples=6)


def encode(texts):
    return np.array([np.roll(np.eye(8)[len(text) % 8], 1) for text in texts], dtype=np.float32)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A tiny reader, a corpus of two questions that is dev, train and test in one, and a student."""
    profile = tiny.llama(tmp_path)
    reader = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    monkeypatch.setattr(asking, "reader", lambda profile, mode, chapter=None: reader)
    run = {question.id: {"a": 5.0, "b": 1.0} for question in ASKED}
    monkeypatch.setattr(numbers, "corpus", lambda size: (dict.fromkeys(("train", "dev", "test"), ASKED), SHOWN, run))
    monkeypatch.setattr(retrieve, "encoder", lambda: encode)
    torch.manual_seed(0)
    file = tmp_path / "student.safetensors"
    facts = {"rank": 8, "epochs": 60, "size": 4, "seed": 0, "questions": 87}
    save_file(preference.Student(8, 2).state_dict(), file, metadata={"facts": json.dumps(facts)})
    monkeypatch.setattr(numbers, "WEIGHTS", file)
    return reader


# --- ways ------------------------------------------------------------------------------------------


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


def test_costs_by_hand(small):
    """One token a byte: two texts of 42 and 40 that share their first 25."""
    sets = {"two": {"q1": [[0, 1], [0, 2]]}, "same": {"q1": [[0, 1], [0, 1]]}}
    found = numbers.tokens_read(small, ASKED[:1], SHOWN, sets, prompt=READ).set_index("condition")
    texts = ["Document: one\nDocument: two two\nQ: which??", "Document: one\nDocument: three\nQ: which??"]
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


# --- what is kept ----------------------------------------------------------------------------------

HOW = {"prompt": "read_plain", "size": 4, "prefix": 2, "seed": 0}


def test_a_teachers_scores_are_of_dev_and_train_orders_each_from_its_own_seed(small):
    rows, _ = numbers.scored(mode="fresh", profile="x", sets=["pruned 2", "pruned 3", "train"], **HOW)
    assert rows.groupby("condition").size().to_dict() == {"pruned 2": 24, "pruned 3": 24, "train": 24}
    orders = {name: part["order"].map(parse).tolist() for name, part in rows.groupby("condition")}
    assert [order[:2] for order in orders["pruned 3"]] == orders["pruned 2"] != orders["train"]
    assert orders["pruned 2"][:12] == moi.random_orders(4, 12, prefix=2, rng=[2, 0]).tolist()
    assert orders["train"][12:] == moi.random_orders(4, 12, prefix=2, rng=[1, 1]).tolist()
    few, _ = numbers.scored(mode="fresh", profile="x", sets=["pruned 2"], **HOW, few=1)
    whole = rows[(rows["condition"] == "pruned 2") & (rows["id"] == "q1")].reset_index(drop=True)
    pd.testing.assert_frame_equal(few, whole, atol=1e-4)


@pytest.fixture
def places(monkeypatch):
    positions = {who: {2: np.array([0.6, 0.4]), 3: np.array([0.5, 0.3, 0.2])} for who in PROFILES}
    monkeypatch.setattr(numbers, "teaching", lambda **how: ({}, positions))


def test_rankings_are_of_the_reader_and_its_agent(small, places):
    how = {"mode": "replay", "profiles": PROFILES, "temperature": 2.0, **HOW}
    rows, _ = numbers.rankings(**how)
    ways = set(rows["condition"])
    assert {"3N random", "variable", "agent 3N pruned", "agent fixed calibrated", "agent QG"} <= ways
    assert not {"agent fixed", "agent 3N random", "agent variable"} & ways
    assert not rows.duplicated(["id", "condition"]).any() and set(rows["id"]) == {"q1", "q2"}
    prices, _ = numbers.costs(mode="replay", profile="x", temperature=2.0, **HOW)
    assert prices[prices["condition"] == "full"]["calls"].tolist() == [12, 12]
    _, lengths = numbers.test_orders(size=4, prefix=2, temperature=2.0, seed=0)
    assert set(lengths) == {"q1", "q2"} and set(lengths.values()) <= {2, 3}


def test_every_way_on_a_benchmark_gives_numbers_only(small, places, monkeypatch):
    monkeypatch.setattr(benchmarks, "benchmark_passages", lambda name, n, size, *, seed: (ASKED[:n], SHOWN))
    monkeypatch.setattr(numbers, "kept", lambda *_: pytest.fail("not asked for"))
    monkeypatch.setattr(numbers, "shipped_student", lambda: preference.load_student(numbers.WEIGHTS)[0])
    orders = {"size": 4, "prefix": 2, "seed": 0}
    how = {"mode": "fresh", "profiles": PROFILES, "prompt": "read_plain", "orders": orders, "max_new_tokens": 3}
    sample = {"dataset": "hotpotqa", "questions": 2, "ways": None}
    rows, facts = numbers.on_benchmark(**how, sample=sample)
    text_of("hotpotqa", rows)
    assert "reply" not in rows and facts["questions"] == 2 and facts["source"]
    asked = set(rows["condition"])
    assert {"3N random", "agent 3N pruned", "agent fixed", "student", "cosine", "retriever", "cyclic"} <= asked
    assert not {"variable", "variable calibrated"} & asked
    one = rows[rows["id"] == "q1"].set_index("condition")
    assert one.loc["agent fixed calibrated", "distinct"] == one.loc["fixed", "distinct"] > 0
    assert one.loc["agent QG", "order"] == one.loc["QG", "order"] and np.isnan(one.loc["student", "distinct"])
    assert all(sorted(parse(order)) == [0, 1, 2, 3] for order in rows["order"])
    few, _ = numbers.on_benchmark(**how, sample=sample, few=1)
    assert few["order"].tolist() == rows.loc[rows["id"] == "q1", "order"].tolist()
    only, _ = numbers.on_benchmark(**how, sample=sample | {"ways": ["agent 3N pruned", "student"]})
    expected = rows[rows["condition"].isin(["agent 3N pruned", "student", "cyclic"])]
    by = ["id", "condition", "run"]
    pd.testing.assert_frame_equal(*(each.sort_values(by).reset_index(drop=True) for each in (only, expected)), check_dtype=False)


def test_a_students_scores_are_those_of_the_weights_and_of_no_others(small, monkeypatch):
    how = {"size": 4, "rank": 8, "epochs": 60, "seed": 0}
    rows, facts = numbers.student(mode="replay", **how)
    student, _ = preference.load_student(numbers.WEIGHTS)
    question, vectors = preference.vectors(encode, ASKED, SHOWN)["q1"]
    mine = rows[(rows["id"] == "q1") & (rows["condition"] == "student")]
    assert mine["score"].tolist() == pytest.approx(student.scores(question, vectors).tolist())
    assert facts["questions"] == 87 and list(facts["files"]) == ["student.safetensors"]
    for name, value in {"size": 5, "rank": 4, "epochs": 59, "seed": 1}.items():
        with pytest.raises(
            ValueError, match=rf"trained with {name} = .*, not {value}; train it anew: python training/"
        ):
            numbers.student(mode="live", **how | {name: value})


def test_the_shipped_student_is_the_one_of_the_table():
    student = numbers.shipped_student()
    assert student.place.shape == (3,)
    facts = preference.load_student(numbers.WEIGHTS)[1]
    committed = numbers.kept(numbers.CHAPTER, "student").facts
    assert {name: committed[name] for name in facts} == facts


def test_marks_that_are_missing_are_no_verdicts():
    says = numbers.verdicts()
    marks = says[["judge_gpt4", "verdict_gpt4", "lexical_gpt4"]]
    assert (says["verdict_gpt4"].notna() == marks.notna().all(axis=1)).all()
    assert set(says["judged_gpt4"]) == {0, 1}
