"""Preference distillation: the loss by hand, a student that learns a known preference, and a small random language model."""

import importlib.util
import itertools

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import entropy

from experiments import results
from experiments.moi_cheaper import preference
from rag_utils import moi
from rag_utils.base.cache import ROOT
from rag_utils.engine import weights

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
    before = preference.student_loss(preference.Student(12, 3), unseen).mean()
    assert preference.student_loss(student, unseen).mean() < 0.6 * before
    position = torch.softmax(student.place, 0).tolist()
    assert position[0] > position[1] > position[2]


def test_the_epoch_with_the_least_development_loss_is_kept(learnt):
    student, history = learnt
    least = min(row["development"] for row in history)
    assert preference.student_loss(student, taught(20, seed=2)).mean() == pytest.approx(least, abs=1e-5)


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


# --- a language model as the student ---------------------------------------------------------------

EXAMPLES = [preference.Example(("a b c", "b c a", "c a b"), f" q{i}?", (0.0, 3.0, -2.0 + i % 2)) for i in range(6)]


@pytest.fixture
def small(tmp_path):
    def load():
        loaded = weights.load(tiny.llama(tmp_path / "model"))
        return loaded.model, loaded.tokenizer

    return load


def test_the_score_of_an_order_is_the_log_likelihood_of_the_question(small):
    model, tokenizer = small()
    found = preference.order_scores(model, tokenizer, ["ab", "abcd"], " q?")
    for context, score in zip(["ab", "abcd"], found, strict=True):
        asked = tokenizer(" q?", add_special_tokens=False).input_ids
        ids = [*tokenizer(context).input_ids, *asked]
        said = torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), dim=-1)
        wanted = sum(said[len(ids) - len(asked) - 1 + i, token].item() for i, token in enumerate(asked))
        assert score.item() == pytest.approx(wanted, abs=1e-3)


def test_the_loss_falls_and_an_interrupted_run_ends_as_if_it_had_not_stopped(small, tmp_path):
    recipe = {"orders": 3, "epochs": 6, "batch": 3, "learning_rate": 1e-2, "save_every": 1}
    whole, losses = preference.train(*small(), EXAMPLES, **recipe, folder=tmp_path / "one")
    assert len(losses) == 12 and np.mean(losses[-4:]) < 0.7 * np.mean(losses[:4])

    def stop(plan, **_):
        yield from itertools.islice(plan, 5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        preference.train(*small(), EXAMPLES, **recipe, folder=tmp_path / "two", progress=stop)
    again, rest = preference.train(*small(), EXAMPLES, **recipe, folder=tmp_path / "two")
    assert rest == losses
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    with pytest.raises(ValueError, match="other settings or examples"):
        preference.train(*small(), EXAMPLES[:5], **recipe, folder=tmp_path / "two")


def test_the_papers_settings_are_the_defaults(small):
    model, losses = preference.train(*small(), EXAMPLES)
    config = model.peft_config["default"]
    assert (config.r, config.lora_alpha, config.lora_dropout) == (8, 32, 0.1)
    assert len(losses) == 5 * 2 and not model.training
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained and all("lora_" in name for name in trained)


@pytest.mark.parametrize("wrong", [{"orders": 1}, {"epochs": 0}, {"learning_rate": 0.0}, {"dropout": 1.0}])
def test_settings_out_of_range_are_refused(small, wrong):
    with pytest.raises(ValueError, match="wanted"):
        preference.train(*small(), EXAMPLES, **wrong)
    with pytest.raises(ValueError, match="got 2 for 1"):
        preference.Example(("a",), " q", (1.0, 2.0))


def test_the_script_reads_the_committed_scores_and_saves_an_adapter(small, tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("training_preference", ROOT / "training" / "preference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    asked = [question for question in module.data.load("companion") if question.split == "train"][:3]
    rows = [
        {"id": q.id, "condition": condition, "run": run, "order": order, "query": -10.0 - run}
        for q in asked
        for condition in ("train", "pruned 3")
        for run, order in enumerate(("0-1-2", "3-0-4", "2-4-1"))
    ]
    monkeypatch.setattr(results, "load", lambda *_: (pd.DataFrame(rows), {}))
    found = module.examples()
    assert len(found) == 3 and all(len(one.contexts) == 3 and one.scores == (-10.0, -11.0, -12.0) for one in found)
    assert all(context.count("Document:") == 3 for one in found for context in one.contexts)
    model = type("Loaded", (), dict(zip(("model", "tokenizer"), small(), strict=True)))
    monkeypatch.setattr(module.weights, "load", lambda profile: model)
    monkeypatch.setattr(module, "examples", lambda limit: EXAMPLES[:limit])
    given = ["--out", str(tmp_path / "adapter"), "--state", str(tmp_path / "state"), "--limit", "4", "--epochs", "2"]
    losses = module.main(module.settings(given))
    assert len(losses) == 2 and (tmp_path / "adapter" / "adapter_model.safetensors").exists()
