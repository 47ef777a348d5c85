"""A small random language model that learns a teacher's orders: its scores by hand, a loss that falls, a stop that changes nothing."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import preference
import pytest
import tiny
import torch
from preference import Example, Recipe

from experiments.table import Kept
from rag_utils.engine import weights

EXAMPLES = [Example(("a b c", "b c a", "c a b"), f" q{i}?", (0.0, 3.0, -2.0 + i % 2)) for i in range(6)]
FAST = Recipe(orders=3, epochs=6, batch=3, learning_rate=1e-2)


@pytest.fixture
def small(tmp_path):
    def load():
        loaded = weights.load(tiny.llama(tmp_path / "model"))
        return loaded.model, loaded.tokenizer

    return load


def test_the_score_of_an_order_is_the_log_likelihood_of_the_question(small):
    model, tokenizer = small()
    scores = preference.order_scores(model, tokenizer, ["ab", "abcd"], " q?")
    for context, score in zip(["ab", "abcd"], scores, strict=True):
        asked = tokenizer(" q?", add_special_tokens=False).input_ids
        ids = [*tokenizer(context).input_ids, *asked]
        said = torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), dim=-1)
        wanted = sum(said[len(ids) - len(asked) - 1 + i, token].item() for i, token in enumerate(asked))
        assert score.item() == pytest.approx(wanted, abs=1e-3)


def test_the_loss_falls_and_an_interrupted_run_ends_as_if_it_had_not_stopped(small, tmp_path):
    whole, losses = preference.train(*small(), EXAMPLES, FAST, save_every=1, folder=tmp_path / "one")
    assert len(losses) == 12 and np.mean(losses[-4:]) < 0.7 * np.mean(losses[:4])

    def stop(plan, **_):
        yield from itertools.islice(plan, 5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        preference.train(*small(), EXAMPLES, FAST, save_every=1, folder=tmp_path / "two", progress=stop)
    again, rest = preference.train(*small(), EXAMPLES, FAST, save_every=1, folder=tmp_path / "two")
    assert rest == losses
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    for examples, recipe in ((EXAMPLES[:5], FAST), (EXAMPLES, dataclasses.replace(FAST, seed=1))):
        with pytest.raises(ValueError, match="another model, examples or settings"):
            preference.train(*small(), examples, recipe, save_every=1, folder=tmp_path / "two")


def test_the_papers_settings_are_the_defaults(small):
    model, losses = preference.train(*small(), EXAMPLES)
    config = model.peft_config["default"]
    assert (config.r, config.lora_alpha, config.lora_dropout) == (8, 32, 0.1)
    assert len(losses) == 5 * 2 and not model.training
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained and all("lora_" in name for name in trained)


def test_settings_out_of_range_are_refused_by_name(small):
    for wrong in ({"orders": 1}, {"epochs": 0}, {"batch": 1.5}, {"learning_rate": 0.0}, {"weight_decay": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Recipe(**wrong)
    with pytest.raises(ValueError, match="dropout"):
        Recipe(adapter={"rank": 8, "alpha": 32, "dropout": 1.0})
    with pytest.raises(ValueError, match="got 2 scores, 1 contexts"):
        Example(("a",), " q", (1.0, 2.0))
    with pytest.raises(ValueError, match="examples must hold at least 1"):
        preference.train(*small(), [])


def test_the_script_reads_the_committed_scores_and_saves_an_adapter(small, tmp_path, monkeypatch):
    asked = [question for question in preference.data.load("companion") if question.split == "train"][:3]
    rows = [
        {"id": q.id, "condition": condition, "run": run, "order": order, "query": -10.0 - run}
        for q in asked
        for condition in ("train", "pruned 3")
        for run, order in enumerate(("0-1-2", "3-0-4", "2-4-1"))
    ]
    monkeypatch.setattr(preference, "kept", lambda *_: Kept(pd.DataFrame(rows), "x", {}, {}))
    found = preference.committed()
    assert len(found) == 3 and all(len(one.contexts) == 3 and one.scores == (-10.0, -11.0, -12.0) for one in found)
    assert all(context.count("Document:") == 3 for one in found for context in one.contexts)
    model = type("Loaded", (), dict(zip(("model", "tokenizer"), small(), strict=True)))
    monkeypatch.setattr(preference.weights, "load", lambda profile: model)
    monkeypatch.setattr(preference, "committed", lambda limit: EXAMPLES[:limit])
    given = ["--out", str(tmp_path / "adapter"), "--state", str(tmp_path / "state"), "--limit", "4", "--epochs", "2"]
    losses = preference.main(preference.settings(given))
    assert len(losses) == 2 and (tmp_path / "adapter" / "adapter_model.safetensors").exists()
