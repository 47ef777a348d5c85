"""The training of compressors on labels made here: the paper's loss and draws, a stop that changes nothing, all weights, an evaluator."""

import itertools
import json
import random

import dual_encoder
import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from safetensors.numpy import load_file
from scripts import script as loaded

from experiments.ecorag_ablations import compressors, tables
from rag_utils import data, ecorag, lm
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.engine.profiles import Profile
from rag_utils.measures import ecorag as measure


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The training script on thirty questions whose evidence shares a letter pattern with them that the encoder sees weakly."""
    module = loaded("evidence")
    questions, rows, pool = [], [], []
    for i in range(30):
        own = [
            Passage(f"p{i}-{j}", "", f"text {i} {j}", (f"text {i} {j} first", f"text {i} {j} second")) for j in range(3)
        ]
        pool += own
        questions.append(Question(f"q{i}", f"question {i}", ("x",), "companion", split="train", type="single"))
        for j, passage in enumerate(own):
            for place in range(2):
                label = "strong" if j == place == 0 else "weak" if j == 0 else "distractor"
                row = {"id": f"q{i}", "rank": 2 * j + place + 1, "passage": passage.id, "place": place, "closed": 0}
                row |= {"label": label, "answer": int(place == 0), "gold": 0, "whole": 1, "needed": int(j == 0)}
                rows.append(row)
    monkeypatch.setattr(data, "load", lambda name: questions)
    monkeypatch.setattr(data, "passages", lambda name: pool)
    labels = pd.DataFrame(rows)
    labels.attrs["kept"] = {"settings": {}, "facts": {"fingerprints": {"embedded": "f"}}}
    monkeypatch.setattr(module, "labels", lambda chosen: labels)
    return module


def encode(texts):
    """Eight numbers by chance, but strong sentences have a little more of the first."""
    rows = []
    for text in texts:
        rng = np.random.default_rng(abs(hash_of(text)))
        rows.append(rng.normal(size=8) + (text.endswith("0 first") and " 0 first" in text) * np.eye(8)[0] * 3)
    rows = np.array(rows, dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def hash_of(text):
    return int(data.question_id(text), 16)


def run(module, tmp_path, name, monkeypatch, *, stop_after=None):
    def track(batches, **_):
        yield from itertools.islice(batches, stop_after)
        if stop_after is not None:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "track", track)
    places = ["--state", str(tmp_path / f"{name}-state"), "--out", str(tmp_path / name)]
    module.main(
        ["--rate", "0.02", "--epochs", "8", "--temperature", "0.2", "--rank", "2", "--save-every", "4", *places],
        encode=encode,
    )
    return tmp_path / name


def test_the_loss_that_is_trained_is_that_of_the_paper(script):
    labels, scores = ["strong", "weak", "distractor", "strong", "undefined", "weak"], [0.3, 0.1, -0.4, 1.2, 5.0, 0.9]
    for temperature in (1.0, 0.2):
        similarities = torch.tensor(scores, dtype=torch.float64)
        ours = script.question_loss(similarities.__getitem__, labels, temperature).item()
        assert ours == pytest.approx(ecorag.compressor_loss(scores, labels, temperature=temperature))
    no_weak = script.question_loss(
        torch.tensor(scores).__getitem__, ["strong", "distractor", "distractor", *["undefined"] * 3], 1.0
    )
    assert no_weak.item() == pytest.approx(ecorag.info_nce(0.3, [0.1, -0.4]))


def test_a_drawn_loss_asks_for_what_was_drawn_only(script):
    labels, seen = ["strong", "weak", "distractor", "strong", "undefined", "distractor"], []

    def score(places):
        seen.append(places)
        return torch.tensor([0.3, 0.1, -0.4, 1.2, 5.0, 0.9])[places]

    drawn = {"strong": (3, [1, 5]), "weak": (1, [5])}
    found = script.question_loss(score, labels, 1.0, drawn.__getitem__).item()
    assert seen == [[1, 3, 5]]
    assert found == pytest.approx(ecorag.info_nce(1.2, [0.1, 0.9]) + ecorag.info_nce(0.1, [0.9]))


def test_negatives_are_drawn_by_the_shares_of_the_recipe(script):
    chosen, rng = script.settings([]), random.Random(0)
    assert (chosen.rate, chosen.epochs, chosen.temperature) == (5e-5, 4, 1.0)  # appendix B.1
    assert chosen.positives * (1 + chosen.negatives) == 64 and chosen.weak_share == 0.15
    labels = ["strong", *["weak"] * 5, *["distractor"] * 20]
    for _ in range(20):
        place, others = script.drawn(labels, "strong", chosen, rng)
        assert place == 0 and len(set(others)) == 7
        assert sum(labels[i] == "weak" for i in others) == 1
        place, others = script.drawn(labels, "weak", chosen, rng)
        assert labels[place] == "weak" and {labels[i] for i in others} == {"distractor"}
    few = ["strong", *["weak"] * 5, "distractor"]
    assert len(script.drawn(few, "strong", chosen, rng)[1]) == 6  # what is there, if there are not enough


def test_training_lowers_the_loss_and_a_stopped_run_ends_the_same(script, tmp_path, monkeypatch):
    whole = run(script, tmp_path, "whole", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run(script, tmp_path, "parts", monkeypatch, stop_after=5)
    parts = run(script, tmp_path, "parts", monkeypatch)
    for name in (*(f"{kind}.safetensors" for kind in measure.HEADS), "evaluator.json"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()
    facts = json.loads((whole / "training.json").read_text())["heads"]["evidentiality"]
    assert facts["history"][-1]["train"] < facts["history"][0]["train"]
    assert facts["kept"]["development"] <= facts["history"][0]["development"]


def test_what_each_kind_of_label_trains_on(script):
    table, questions = script.labels(None), data.load("companion")
    found = {kind: script.examples(table, questions, kind) for kind in measure.HEADS}
    assert found["evidentiality"]["q0"][2] == ["strong", "weak", *["distractor"] * 4]
    assert found["answerability"]["q0"][2] == ["strong", "distractor"] * 3
    _, texts, labels = found["leave-one-out"]["q0"]
    assert texts == ["text 0 0", "text 0 1", "text 0 2"] and labels == ["strong", "distractor", "distractor"]
    table.loc[table["id"] == "q1", ["label", "answer"]] = ["undefined", 0]
    assert "q1" not in script.examples(table, questions, "evidentiality")  # nothing to learn from


def test_one_evidence_to_three_others_and_these_with_the_best_scores(script):
    score = measure.dot_products(encode)
    found = {"q": ("question 0", [f"text 0 {i} second" for i in range(8)], ["strong", *["distractor"] * 7])}
    rows = script.judged(found, score)
    assert [strong for _, _, strong in rows] == [True, False, False, False]
    values = dict(zip(found["q"][1], score(["question 0"], [found["q"][1]])[0], strict=True))
    shown = [text for _, text, _ in rows]
    assert all(values[text] <= values[shown[3]] for text in found["q"][1][1:] if text not in shown)
    assert script.fit_evaluator(rows, score)[1] == {"evidence": 1, "not": 3}


# --- all weights ---------------------------------------------------------------------------------


@pytest.fixture
def whole(script, tmp_path, monkeypatch):
    """Train all weights of a tiny encoder on the labels of the fixture `script`; the folder of what came out."""
    name = tiny.bert(tmp_path / "bert")

    def trained(out, *more, stop_after=None):
        def track(batches, **_):
            yield from itertools.islice(batches, stop_after)
            if stop_after is not None:
                raise KeyboardInterrupt

        monkeypatch.setattr(script, "track", track)
        places = ["--state", str(tmp_path / f"{out}-state"), "--out", str(tmp_path / out)]
        recipe = ["--heads", "evidentiality", "--rate", "3e-3", "--epochs", "4", "--keep", "last"]
        script.main(["--encoder", name, *recipe, *places, *more], encode=encode)
        return tmp_path / out

    return trained


def test_all_weights_learn_and_a_stopped_run_ends_the_same(whole):
    with pytest.raises(KeyboardInterrupt):
        whole("parts", stop_after=2)
    one, other = whole("one") / "evidentiality", whole("parts") / "evidentiality"
    for side in dual_encoder.SIDES:
        ours, theirs = (load_file(folder / side / "model.safetensors") for folder in (one, other))
        assert ours and all(np.array_equal(ours[name], theirs[name]) for name in ours)
    facts = json.loads((one.parent / "training.json").read_text())
    history = facts["heads"]["evidentiality"]["history"]
    assert [row["epoch"] for row in history] == [0, 1, 2, 3, 4] and facts["encoder"].endswith("all weights")
    assert history[-1]["train"] < 0.95 * history[0]["train"]
    towers = [load_file(one / side / "model.safetensors") for side in dual_encoder.SIDES]
    assert not np.array_equal(*(tower["embeddings.word_embeddings.weight"] for tower in towers))  # each its own


def test_what_all_weights_learned_is_a_score_of_the_compressor(script, whole):
    score = compressors.towers(whole("out") / "evidentiality")
    found = script.examples(script.labels(None), data.load("companion"), "evidentiality")
    strong = [
        np.argmax(score([asked], [texts])[0]) == labels.index("strong") for asked, texts, labels in found.values()
    ]
    assert np.mean(strong) > 0.5  # by chance 1 in 6


def test_a_finished_run_is_not_trained_again_and_another_seed_is_another_run(whole):
    def weights_of(*more):
        folder = whole("out", "--epochs", "1", *more) / "evidentiality"
        return (folder / "question" / "model.safetensors").read_bytes()

    first = weights_of()
    assert weights_of() == first  # from the saved state, nothing left to do
    with pytest.raises(ValueError, match="another model, examples or settings"):
        weights_of("--seed", "1")


def test_the_recipes_are_those_of_the_appendix(script):
    chosen = script.settings(["--encoder", "facebook/contriever"])
    assert (chosen.rate, chosen.epochs, chosen.temperature, chosen.positives, chosen.weak_share) == (
        5e-5,
        4,
        1,
        8,
        0.15,
    )
    assert chosen.save_every == 1 and chosen.out == tables.FOLDERS["whole"]
    chosen = script.settings(["--evaluator", "google/flan-t5-large"])
    assert (chosen.evaluator_rate, chosen.evaluator_batch, chosen.epochs) == (1e-5, 40, 4)
    assert chosen.out == tables.FOLDERS["whole"]


def test_a_rate_at_which_the_loss_is_lost_stops_the_run(whole):
    with pytest.raises(ValueError, match="want a lower rate"):
        whole("out", "--rate", "1e30")


ROWS = [(f"what is {i}", f"it is {i}", i % 3 == 0) for i in range(18)]


@pytest.fixture
def evaluator(script, tmp_path):
    """Train a tiny T5 to say what these rows want; the losses and the folder of what came out."""
    name = tiny.t5(tmp_path / "t5").reader

    def trained(out, rows=ROWS, **options):
        places = ["--state", str(tmp_path / f"{out}-state"), "--out", str(tmp_path / out)]
        recipe = ["--epochs", "4", "--evaluator-rate", "1e-2", "--evaluator-batch", "6"]
        chosen = script.settings(["--evaluator", name, *recipe, *places])
        return script.train_evaluator(rows, chosen, **options), tmp_path / out / "evaluator"

    return trained


def test_the_evaluator_learns_its_two_tokens_and_is_asked_like_any_other(evaluator, script):
    asked, kept = [question for question, _, _ in ROWS], [[text] for _, text, _ in ROWS]
    found = {}
    for strong in (True, False):
        losses, folder = evaluator(str(strong), [(question, text, strong) for question, text, _ in ROWS])
        assert losses[-1] < 0.5 * losses[0]
        profile = Profile(name="evaluator", reader=str(folder), task="seq2seq")
        model = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
        ids = [model.encode(verdict, context=False) for verdict in script.VERDICTS]
        assert [len(own) for own in ids] == [1, 1]  # a token each
        judged = compressors.asked_evaluator(model, script.EVALUATOR_PROMPT, verdicts=script.VERDICTS)
        found[strong] = judged(asked, kept)
        text = script.EVALUATOR_PROMPT.fill(question=asked[0], documents=kept[0])
        with torch.no_grad():
            start = torch.tensor([[model.model.config.decoder_start_token_id]])
            logits = model.model(input_ids=torch.tensor([model.encode(text)]), decoder_input_ids=start).logits[0, 0]
        wanted = torch.softmax(logits[[own[0] for own in ids]], 0)[0].item()
        assert found[strong][0] == pytest.approx(wanted, abs=1e-4)
    assert found[True].min() > 0.6 and found[False].max() < 0.4


def test_a_stopped_evaluator_ends_the_same(evaluator):
    def stopped(batches, **_):
        yield from itertools.islice(batches, 5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluator("parts", save_every=2, progress=stopped)
    (losses, one), (again, other) = evaluator("one"), evaluator("parts")
    assert losses == again
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (one, other))
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_a_model_that_is_no_encoder_decoder_is_no_evaluator(script, tmp_path):
    chosen = script.settings(["--evaluator", tiny.bert(tmp_path / "bert"), "--out", str(tmp_path)])
    with pytest.raises(weights.WeightsError, match="cannot be read"):
        script.train_evaluator(ROWS, chosen)
