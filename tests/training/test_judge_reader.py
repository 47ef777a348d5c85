"""The script that trains the judging reader, on a tiny model: the loss by hand, both orders, going on from an adapter, and what it says."""

import gzip
import json
import math

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file
from scripts import script

from rag_utils.base.cache import ROOT
from rag_utils.data import Contrast, Judged, JudgedAnswer
from rag_utils.engine import profiles, weights

ROWS = [
    {"q": f"which of {n}", "a": f"word {n}", "b": f"word {n + n % 2}", "y": 1 - n % 2, "fold": n % 5, "kind": "made", "w": weight}
    for n, weight in enumerate([1.0] * 30 + [0.5] * 10)
]


@pytest.fixture
def made(tmp_path, monkeypatch):
    """The script with a tiny Llama for the reader, words of one byte, and the rows in a file."""
    profile = tiny.llama(tmp_path / "model", shape={"max_position_embeddings": 1024})
    module = script("judge_reader")
    monkeypatch.setattr(module.weights, "load", lambda *_, load=weights.load: load(profile))
    monkeypatch.setattr(module, "WORDS", ("Y", "N"))
    monkeypatch.setattr(module, "evaluation", lambda out: {"tried": out.name})
    file = tmp_path / "pairs.jsonl.gz"
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in ROWS)
    return module, profile, file


def run(module, file, tmp_path, name, *more):
    small = ["--pairs", str(file), "--epochs", "2", "--batch", "4", "--development", "8", "--save-every", "3", "--rank", "2"]
    module.main([*small, "--state", str(tmp_path / f"{name}-state"), "--out", str(tmp_path / name), *more])
    return tmp_path / name


def test_a_pair_is_asked_in_either_order_and_the_word_is_the_truth(made):
    module, profile, _ = made
    tokenizer = weights.load(profile).tokenizer
    (as_it_is, yes), (turned, _) = (module.example(ROWS[2], tokenizer, swapped=swapped) for swapped in (False, True))
    row = {"q": "who", "a": "first", "b": "second", "y": 0}
    text = tokenizer.decode(module.example(row, tokenizer, swapped=True)[0])
    assert tokenizer.decode(yes) == "Y" and as_it_is == turned  # here both answers are alike
    assert text.index("second") < text.index("first") and tokenizer.decode(module.example(row, tokenizer, swapped=True)[1]) == "N"


def test_the_loss_is_that_of_the_right_word_after_the_prompt(made):
    module, profile, _ = made
    loaded = weights.load(profile)
    batch = [module.example(row, loaded.tokenizer, swapped=False) for row in ROWS[:3]]
    model = module.adapter.adapted(loaded.model, rank=2, alpha=4, dropout=0.0)
    with torch.inference_mode():
        found = module.verdict_loss(model, batch)
        for (prompt, [word]), loss in zip(batch, found, strict=True):
            shares = torch.log_softmax(model(input_ids=torch.tensor([prompt])).logits[0], dim=-1)
            assert loss == pytest.approx(-shares[-1, word].item(), abs=1e-4)
            assert loss != pytest.approx(-shares[-2, word].item(), abs=1e-4)  # one place too early


def test_it_learns_and_goes_on_from_an_adapter_and_leaves_one_fold_out(made, tmp_path):
    module, _, file = made
    first = run(module, file, tmp_path, "first")
    facts = json.loads((first / "training.json").read_text())
    losses = [row["development_loss"] for row in facts["history"]]
    assert losses[-1] < losses[0] and facts["tried"] == "first" and facts["before"] is None
    assert facts["pairs"] + facts["development_pairs"] == sum(row["fold"] != module.WITHOUT for row in ROWS)
    second = run(module, file, tmp_path, "second", "--start", str(first), "--limit", "8", "--rate", "1e-9")
    later = json.loads((second / "training.json").read_text())
    assert later["pairs"] == 8 and later["before"]["steps"] == facts["steps"] > later["steps"]
    one, other = (load_file(folder / "adapter_model.safetensors") for folder in (first, second))
    assert all(torch.allclose(one[name], other[name], atol=1e-5) for name in one)
    assert any(tensor.abs().max() > 1e-3 for name, tensor in one.items() if "lora_B" in name)  # which begins as zeros
    module.main(["--evaluate", "--out", str(first)])
    assert json.loads((first / "training.json").read_text()) == facts


class Alike:
    """Finds two answers the same if they begin alike."""

    def equivalent(self, questions, left, right):
        return np.array([float(a[0] == b[0]) for a, b in zip(left, right, strict=True)])


def test_pairs_and_answers_are_counted_by_hand():
    module = script("judge_reader")
    told = [("date", "ab", "ac", True), ("date", "ab", "ad", False), ("name", "x", "y", False)]
    named = ("category", "left", "right", "equivalent")
    pairs = [Contrast(id="0", split="train", question="q", **dict(zip(named, each, strict=True))) for each in told]
    assert module.called(Alike(), pairs) == {"date": {"n": 2, "judge": 1}, "name": {"n": 1, "judge": 1}}
    answers = tuple(
        JudgedAnswer(system, text, verdict)
        for system, text, verdict in [("fid", "pear", True), ("gpt4", "plum", False), ("gpt35", "fig", True), ("chatgpt", "", None)]
    )
    item = Judged("1", "q", ("apple", "peach"), answers)
    assert module.on_answers(Alike(), [item]) == {"f1": 50.0, "accuracy": round(100 / 3, 2), "n": 3}


def test_the_shipped_adapter_is_small_and_says_what_it_is():
    folder = ROOT / "data" / "judge" / "reader"
    assert (folder / "adapter_model.safetensors").stat().st_size <= 5_000_000
    facts = json.loads((folder / "training.json").read_text())
    assert profiles.get("embedded-judge").adapter == str(folder)
    assert facts["base"] == weights.load(profiles.get("embedded-base")).fingerprint
    counts = facts["contrast_test"]["both"].values()
    right, n = (sum(row[name] for row in counts) for name in ("judge", "n"))
    assert n == 66 and right / n > 0.5 + 1.96 * math.sqrt(0.25 / n)  # well above chance
    both, words = facts["answers"]["both"], facts["answers"]["embedded"]
    assert both["n"] == words["n"] > 2000 and both["accuracy"] > words["accuracy"] and both["f1"] > words["f1"]
