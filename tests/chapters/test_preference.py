"""Preference distillation: the loss by hand, the student that reads embeddings, and its file."""

import hashlib
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from scipy.special import softmax
from scipy.stats import entropy

from experiments.moi_cheaper import preference
from rag_utils.data import Passage, Question

few = settings(deadline=None, derandomize=True, max_examples=40)
scores = st.lists(st.floats(-30, 30), min_size=2, max_size=6)


# --- the loss --------------------------------------------------------------------------------------


def test_two_orders_by_hand():
    """The teacher likes them 1 to 3, the student alike: 1/4 log 1/2 + 3/4 log 3/2. Turned round it would be 1/2 log 2 + 1/2 log 2/3."""
    teacher = torch.log(torch.tensor([1.0, 3.0]))
    found = preference.preference_loss(torch.zeros(2), teacher).item()
    assert found == pytest.approx(0.25 * np.log(0.5) + 0.75 * np.log(1.5), abs=1e-6)
    assert found != pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3), abs=1e-3)


@few
@given(scores, st.randoms(use_true_random=False), st.floats(-5, 5))
def test_the_loss_is_scipys_divergence_and_ignores_a_constant(teacher, random, constant):
    student = [value + random.uniform(-2, 2) for value in teacher]
    tensors = [torch.tensor(values, dtype=torch.float64) for values in (student, teacher)]
    found = preference.preference_loss(*tensors).item()
    assert found == pytest.approx(entropy(softmax(teacher), softmax(student)), abs=1e-9) and found >= -1e-12
    assert preference.preference_loss(tensors[0] + constant, tensors[1]).item() == pytest.approx(found, abs=1e-9)


def test_several_questions_are_averaged_and_only_the_student_is_moved():
    student = torch.tensor([[0.0, 0.0], [0.0, np.log(3)]], requires_grad=True)
    teacher = torch.tensor([[0.0, np.log(3)], [0.0, np.log(3)]], requires_grad=True)
    loss = preference.preference_loss(student, teacher.detach())
    loss.backward()
    assert loss.item() == pytest.approx(0.1308 / 2, abs=1e-4)
    assert student.grad[0].tolist() == pytest.approx([0.125, -0.125]) and student.grad[1].abs().max() < 1e-6


@pytest.mark.parametrize(
    ("student", "teacher", "words"),
    [
        ([1.0, 2.0], [1.0], "scores of the same"),
        ([1.0], [1.0], "2 or more orders"),
        ([1.0, float("nan")], [1.0, 2.0], "finite"),
    ],
)
def test_what_are_no_scores_is_refused(student, teacher, words):
    with pytest.raises(ValueError, match=words):
        preference.preference_loss(torch.tensor(student), torch.tensor(teacher))


# --- embeddings as the student ---------------------------------------------------------------------


def test_a_new_student_is_the_cosine():
    rng, student = np.random.default_rng(0), preference.Student(12, 3)
    asked, passages = rng.normal(size=12), rng.normal(size=(5, 12))
    cosine = passages @ asked
    assert student.scores(asked, passages) == pytest.approx(preference.SCALE * cosine, abs=1e-4)
    position = torch.softmax(student.place, 0)
    assert position.tolist() == pytest.approx([1 / 3] * 3)


def encode(texts):
    return np.array([np.roll(np.eye(8)[len(text) % 8], 1) for text in texts], dtype=np.float32)


def test_every_text_is_embedded_once_and_scored_by_cosine_and_student():
    passages = tuple(Passage(name, "t", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "one")))
    asked = [Question(id=name, text="three", answers=("x",), dataset="d", gold=passages[:1]) for name in "pq"]
    seen = []
    embedded = preference.vectors(
        lambda texts: (seen.extend(texts), encode(texts))[1], asked, dict.fromkeys("pq", passages)
    )
    assert sorted(seen) == ["one", "three", "two two"] and embedded["p"][1].shape == (3, 8)
    student = preference.Student(8, 2)
    rows = preference.passage_scores(embedded, student).set_index(["id", "condition", "rank"])["score"]
    question, vectors = embedded["q"]
    assert rows["q", "cosine"].tolist() == pytest.approx((vectors @ question).tolist())
    assert rows["q", "student"].tolist() == pytest.approx(student.scores(question, vectors).tolist())


def test_a_student_is_read_back_and_another_or_a_damaged_one_is_refused(tmp_path):
    path, student = tmp_path / "student.safetensors", preference.Student(12, 3, rank=2)
    save_file(student.state_dict(), path, metadata={"facts": json.dumps({"rank": 2})})
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    again, facts = preference.load_student(path, sha256)
    assert facts == {"rank": 2}
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in student.state_dict().items())
    save_file(preference.Student(12, 3, rank=2).state_dict(), path, metadata={"facts": json.dumps({"rank": 2})})
    preference.load_student(path)
    with pytest.raises(ValueError, match=r"student\.safetensors is absent, damaged or not the one"):
        preference.load_student(path, sha256)  # sound, and another one
    path.write_bytes(path.read_bytes()[:50])
    for there in (path, tmp_path / "absent.safetensors"):
        with pytest.raises(ValueError, match="is absent, damaged or not the one"):
            preference.load_student(there)
