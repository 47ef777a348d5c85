"""The student that reads embeddings learns a preference that the cosine does not see; its weights say what they were made from."""

import json

import numpy as np
import pandas as pd
import pytest
import student as training
import torch

from experiments.moi_cheaper import preference
from experiments.table import Kept
from rag_utils import moi
from rag_utils.data import Passage, Question
from rag_utils.measures import moi as measure


def taught(n, *, seed, size=12):
    """Questions whose teacher likes what is along a direction that the cosine does not see."""
    rng, found = np.random.default_rng(seed), []
    turned = np.roll(np.eye(size), 1, axis=0)
    for _ in range(n):
        asked, passages = rng.normal(size=size), rng.normal(size=(5, size))
        asked, passages = asked / np.linalg.norm(asked), passages / np.linalg.norm(passages, axis=1, keepdims=True)
        orders = moi.random_orders(5, 15, prefix=3, rng=rng)
        utility = 12 * passages @ turned @ asked
        found.append(training.Preference(asked, passages, orders, moi.predict(orders, [0.6, 0.3, 0.1], utility)))
    return found


def loss_of(student, examples):
    """The mean loss over questions and all their orders."""
    losses = []
    for one in examples:
        said = student(
            *(torch.as_tensor(part, dtype=torch.float32) for part in (one.question, one.passages)),
            torch.as_tensor(one.orders),
        )
        losses.append(preference.preference_loss(said, torch.as_tensor(one.scores, dtype=torch.float32)).item())
    return np.mean(losses)


def loss(student, examples):
    return np.mean(
        [
            preference.preference_loss(
                student(
                    *(torch.tensor(np.float32(part)) for part in (one.question, one.passages)), torch.tensor(one.orders)
                ),
                torch.tensor(np.float32(one.scores)),
            ).item()
            for one in examples
        ]
    )


@pytest.fixture(scope="module")
def learnt():
    return training.train_student(taught(50, seed=1), taught(20, seed=2), epochs=20, learning_rate=1e-2)


def test_a_student_learns_what_the_teacher_prefers_and_where_it_looks(learnt):
    student, history = learnt
    assert history[-1]["train"] < history[5]["train"] < history[0]["train"]
    unseen = taught(20, seed=3)
    before = loss_of(preference.Student(12, 3), unseen)
    assert loss_of(student, unseen) < 0.6 * before
    position = torch.softmax(student.place, 0).tolist()
    assert position[0] > position[1] > position[2]


def test_the_epoch_with_the_least_development_loss_is_kept(learnt):
    student, history = learnt
    least = min(row["development"] for row in history)
    assert loss_of(student, taught(20, seed=2)) == pytest.approx(least, abs=1e-5)


def test_training_twice_gives_the_same_and_leaves_the_generator_alone():
    torch.manual_seed(5)
    wanted = torch.rand(1).item()
    torch.manual_seed(5)
    pair = [training.train_student(taught(8, seed=1), taught(4, seed=2), epochs=2)[0] for _ in range(2)]
    assert torch.rand(1).item() == wanted
    assert all(torch.equal(a, b) for a, b in zip(pair[0].parameters(), pair[1].parameters(), strict=True))


def test_orders_of_two_lengths_and_no_questions_are_refused():
    one = taught(1, seed=0)[0]
    other = training.Preference(one.question, one.passages, one.orders[:, :2], one.scores)
    with pytest.raises(ValueError, match=r"one length; got \[2, 3\]"):
        training.train_student([one], [other])
    with pytest.raises(ValueError, match="got 1 and 0"):
        training.train_student([one], [])


def test_the_script_writes_weights_that_say_what_they_were_made_from(tmp_path, monkeypatch):
    """Three questions of each split; the teacher's scores prefer the second passage."""
    passages = tuple(Passage(f"p{i}", "t", "x" * (i + 1)) for i in range(4))
    parts = {
        split: [
            Question(id=f"{split}{i}", text="y" * i, answers=("x",), dataset="d", gold=passages[:1]) for i in range(3)
        ]
        for split in ("train", "dev")
    }
    shown = {question.id: passages for questions in parts.values() for question in questions}
    rows = [
        {"id": q.id, "condition": condition, "run": run, "order": order, "query": -9.0 + 3 * order.startswith("1")}
        for condition, split in (("train", "train"), ("pruned 2", "dev"))
        for q in parts[split]
        for run, order in enumerate(("0-1", "1-2", "3-0"))
    ]
    settings = {"size": 4, "prefix": 2, "profile": "embedded"}
    teacher = Kept(pd.DataFrame(rows), "x", settings, {"fingerprints": {"embedded": "f1"}})
    monkeypatch.setattr(training, "kept", lambda chapter, name: teacher)
    monkeypatch.setattr(training.cheaper_numbers, "corpus", lambda size: (parts, shown, {}))
    monkeypatch.setattr(
        training.retrieve, "encoder", lambda: lambda texts: np.array([np.eye(8)[len(text)] for text in texts])
    )
    out = tmp_path / "student.safetensors"
    history = training.main(training.settings(["--rank", "2", "--epochs", "3", "--out", str(out)]))
    student, facts = preference.load_student(out)
    assert facts["history"] == json.loads(json.dumps(history)) and len(history) == 4
    assert {name: facts[name] for name in ("rank", "epochs", "seed", "size", "questions", "teacher")} == {
        "rank": 2, "epochs": 3, "seed": 0, "size": 4, "questions": 3, "teacher": "f1"
    }  # fmt: skip
    assert len(student.place) == 2 and not list(tmp_path.glob("*.partial"))
    wanted = measure.problems(teacher.rows, "train")["train0"]
    [first, *_] = training.preferences(
        teacher.rows, "train", {q.id: (np.ones(8), np.ones((4, 8))) for q in parts["train"]}
    )
    assert (first.orders == wanted[0]).all() and (first.scores == wanted[1]).all()
