"""What chapter 8 keeps as numbers, in small: every way on questions of its own, the student's weights, how kappa varies."""

import json

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from safetensors.torch import save_file

from experiments import asking, benchmarks
from experiments.moi_cheaper import cheaper_numbers as numbers
from experiments.moi_cheaper import preference
from experiments.table import text_of
from rag_utils import lm, moi, retrieve
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.measures.moi import parse

PASSAGES = tuple(
    Passage(name, "t", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three"), ("d", "x"))
)
ASKED = [
    Question(id=f"q{i}", text="which?" + "?" * i, answers=("two",), dataset="x", gold=(PASSAGES[i],)) for i in (1, 2)
]
SHOWN = {question.id: PASSAGES for question in ASKED}
PROFILES = {"reader": "x", "agent": "y"}


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


def test_every_way_on_hotpotqa_gives_numbers_only(small, places, monkeypatch):
    monkeypatch.setattr(benchmarks, "benchmark_passages", lambda name, n, size, *, seed: (ASKED[:n], SHOWN))
    monkeypatch.setattr(numbers, "kept", lambda *_: pytest.fail("not asked for"))
    monkeypatch.setattr(numbers, "shipped_student", lambda: preference.load_student(numbers.WEIGHTS)[0])
    orders = {"size": 4, "prefix": 2, "seed": 0}
    how = {"mode": "fresh", "profiles": PROFILES, "prompt": "read_plain", "orders": orders, "max_new_tokens": 3}
    rows, facts = numbers.hotpotqa(**how, questions=2)
    text_of("hotpotqa", rows)
    assert "reply" not in rows and facts["questions"] == 2 and facts["source"]
    asked = set(rows["condition"])
    assert {"3N random", "agent 3N pruned", "agent fixed", "student", "cosine", "retriever", "cyclic"} <= asked
    assert not {"variable", "variable calibrated"} & asked
    one = rows[rows["id"] == "q1"].set_index("condition")
    assert one.loc["agent fixed calibrated", "distinct"] == one.loc["fixed", "distinct"] > 0
    assert one.loc["agent QG", "order"] == one.loc["QG", "order"] and np.isnan(one.loc["student", "distinct"])
    assert all(sorted(parse(order)) == [0, 1, 2, 3] for order in rows["order"])
    few, _ = numbers.hotpotqa(**how, questions=2, few=1)
    assert few["order"].tolist() == rows.loc[rows["id"] == "q1", "order"].tolist()


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


def test_coverage_of_kappa_is_of_all_answers_and_of_easy_ones():
    says = numbers.verdicts()
    marks = says[["judge_gpt4", "verdict_gpt4", "lexical_gpt4"]]
    assert (says["verdict_gpt4"].notna() == marks.notna().all(axis=1)).all()
    assert set(says["judged_gpt4"]) == {0, 1}
    committed = numbers.kept(numbers.CHAPTER, "kappa_coverage").rows
    assert committed.groupby("condition").size().to_dict() == {"all": 200, "easy": 200}
