"""Warped distributions: by hand, against the generation of transformers, and through a tiny reader."""

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from experiments.seper_validity.variants import log_likelihoods, warp
from rag_utils import lm
from rag_utils.engine import weights


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), temperature=st.floats(0.3, 2), top_k=st.integers(1, 12), top_p=st.floats(0.05, 0.99))
def test_as_the_generation_of_transformers(seed, temperature, top_k, top_p):
    logits = torch.tensor(np.random.default_rng(seed).normal(size=(4, 9)) * 3, dtype=torch.float32)
    wanted = TemperatureLogitsWarper(temperature)(None, logits)
    for one in (TopKLogitsWarper(min(top_k, 9)), TopPLogitsWarper(top_p)):
        wanted = one(None, wanted)
    found = warp(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    assert torch.equal(found.isinf(), wanted.isinf())
    assert torch.allclose(found.softmax(dim=-1), wanted.softmax(dim=-1))


def test_one_token_always_stays_and_equal_ones_stay_together():
    logits = torch.tensor([[1.0, 1.0, 0.0]])
    assert warp(logits, top_k=1).isfinite().tolist() == [[True, True, False]]
    assert warp(logits, top_p=0.01).isfinite().sum() == 1
    assert torch.equal(warp(logits), logits)


@pytest.mark.parametrize("how", [{"temperature": 0}, {"top_k": 0}, {"top_p": -0.1}, {"top_p": 1.1}])
def test_options_out_of_range_are_refused(how):
    with pytest.raises(ValueError, match=f"{next(iter(how))}.* has to be"):
        warp(torch.zeros(1, 3), **how)


@pytest.mark.parametrize("make", [tiny.llama, tiny.mistral])
def test_replies_under_other_distributions(tmp_path, make):
    """A prefix tree (llama) and plain batches (mistral)."""
    profile = make(tmp_path)
    reader = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    prompts = {("q1", "gold"): "which letter", ("q2", "gold"): "which number is it"}
    replies = dict(
        zip(prompts, reader.generate([*prompts.values()], n=4, temperature=1.0, max_new_tokens=5), strict=True)
    )
    raw = {case: np.array([reply.log_likelihood for reply in own]) for case, own in replies.items()}
    found = log_likelihoods(reader, prompts, replies)
    assert list(found) == list(prompts)
    for case, wanted in raw.items():
        assert found[case] == pytest.approx(wanted, abs=1e-3)
    cut, whole = (np.concatenate([*own.values()]) for own in (log_likelihoods(reader, prompts, replies, top_k=20), raw))
    assert np.isneginf(cut).any() and np.isfinite(cut).any()
    assert (cut[np.isfinite(cut)] > whole[np.isfinite(cut)]).all()  # what is cut is shared among the rest
    one = replies["q1", "gold"][0]
    logits = reader.model(torch.tensor([[*reader.encode("which letter"), *one.token_ids]])).logits[0]
    tokens = torch.tensor(one.token_ids)
    steps = torch.log_softmax(logits[-len(tokens) - 1 : -1] / 0.5, dim=-1)
    cooled = log_likelihoods(reader, prompts, replies, temperature=0.5)["q1", "gold"][0]
    assert cooled == pytest.approx(steps.gather(1, tokens[:, None]).sum().item(), abs=1e-3)
