"""Preference distillation: the loss by hand, a student that learns a known preference, what the cheap student keeps."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import entropy

from experiments.moi_cheaper import preference
from rag_utils import moi

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
@given(scores, st.randoms(use_true_random=False), st.floats(-5, 5), st.floats(0.5, 4))
def test_the_loss_is_scipys_divergence_and_ignores_a_constant(teacher, random, constant, temperature):
    student = [value + random.uniform(-2, 2) for value in teacher]
    tensors = [torch.tensor(values, dtype=torch.float64) for values in (student, teacher)]
    found = preference.preference_loss(*tensors, temperature=temperature).item()
    wanted = entropy(softmax(np.array(teacher) / temperature), softmax(np.array(student) / temperature))
    assert found == pytest.approx(wanted, abs=1e-9) and found >= -1e-12
    moved = preference.preference_loss(tensors[0] + constant, tensors[1], temperature=temperature).item()
    assert moved == pytest.approx(found, abs=1e-9)


def test_several_questions_are_averaged_and_only_the_student_is_moved():
    student = torch.tensor([[0.0, 0.0], [0.0, np.log(3)]], requires_grad=True)
    teacher = torch.tensor([[0.0, np.log(3)], [0.0, np.log(3)]], requires_grad=True)
    loss = preference.preference_loss(student, teacher.detach())
    loss.backward()
    assert loss.item() == pytest.approx(0.1308 / 2, abs=1e-4)
    assert student.grad[0].tolist() == pytest.approx([0.125, -0.125]) and student.grad[1].abs().max() < 1e-6


@pytest.mark.parametrize(
    ("student", "teacher", "options", "words"),
    [
        ([1.0, 2.0], [1.0], {}, "scores of the same"),
        ([1.0], [1.0], {}, "2 or more orders"),
        ([1.0, float("nan")], [1.0, 2.0], {}, "finite"),
        ([1.0, 2.0], [1.0, 2.0], {"temperature": 0}, "temperature"),
    ],
)
def test_what_are_no_scores_is_refused(student, teacher, options, words):
    with pytest.raises(ValueError, match=words):
        preference.preference_loss(torch.tensor(student), torch.tensor(teacher), **options)


# --- embeddings as the student ---------------------------------------------------------------------


def taught(n, *, seed, size=12):
    """Questions whose teacher likes what is along a direction that the cosine does not see."""
    rng, found = np.random.default_rng(seed), []
    turned = np.roll(np.eye(size), 1, axis=0)
    for _ in range(n):
        asked, passages = rng.normal(size=size), rng.normal(size=(5, size))
        asked, passages = asked / np.linalg.norm(asked), passages / np.linalg.norm(passages, axis=1, keepdims=True)
        orders = moi.random_orders(5, 15, prefix=3, rng=rng)
        utility = 12 * passages @ turned @ asked
        found.append(preference.Preference(asked, passages, orders, moi.predict(orders, [0.6, 0.3, 0.1], utility)))
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


def test_a_new_student_is_the_cosine():
    one = taught(1, seed=0)[0]
    student = preference.Student(12, 3)
    cosine = one.passages @ one.question
    assert student.scores(one.question, one.passages) == pytest.approx(preference.SCALE * cosine, abs=1e-4)
    position = torch.softmax(student.place, 0)
    assert position.tolist() == pytest.approx([1 / 3] * 3)


@pytest.fixture(scope="module")
def learnt():
    return preference.train_student(taught(50, seed=1), taught(20, seed=2), epochs=20, learning_rate=1e-2)


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
    pair = [preference.train_student(taught(8, seed=1), taught(4, seed=2), epochs=2)[0] for _ in range(2)]
    assert torch.rand(1).item() == wanted
    assert all(torch.equal(a, b) for a, b in zip(pair[0].parameters(), pair[1].parameters(), strict=True))


def test_a_student_is_read_back_and_a_damaged_one_is_named(learnt, tmp_path):
    path = tmp_path / "student.safetensors"
    preference.save_student(learnt[0], path, {"rank": 8})
    student, facts = preference.load_student(path)
    one = taught(1, seed=4)[0]
    assert facts == {"rank": 8} and not list(tmp_path.glob("*.partial"))
    assert (student.scores(one.question, one.passages) == learnt[0].scores(one.question, one.passages)).all()
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"student\.safetensors is absent or damaged"):
        preference.load_student(path)


def test_orders_of_two_lengths_and_no_questions_are_refused():
    one = taught(1, seed=0)[0]
    other = preference.Preference(one.question, one.passages, one.orders[:, :2], one.scores)
    with pytest.raises(ValueError, match=r"one length; got \[2, 3\]"):
        preference.train_student([one], [other])
    with pytest.raises(ValueError, match="got 1 and 0"):
        preference.train_student([one], [])
