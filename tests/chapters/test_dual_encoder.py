"""A dual encoder on tiny random weights: its vectors by hand, its scores in a compressor, and what is saved of it."""

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.ecorag_ablations import dual_encoder
from rag_utils import retrieve
from rag_utils.engine import weights

TEXTS = ["the bridge opened in 1894", "red", "nobody knows it, and nobody asks"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def model(folder):
    return dual_encoder.load(folder, unit_length=False)


def by_hand(model, text):
    """Mean over the tokens of one text, read by itself."""
    ids = torch.tensor([model.tokenizer(text).input_ids])
    with torch.no_grad():
        return model.sentence(input_ids=ids).last_hidden_state[0]


def test_a_vector_is_the_mean_over_the_tokens_and_padding_is_none(model):
    with torch.no_grad():
        found = model.embed("sentence", TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        states = by_hand(model, text)
        assert torch.allclose(vector, states.mean(dim=0), atol=1e-5)
        assert not torch.allclose(vector, states[0], atol=1e-2)  # the first token alone is something else


def test_unit_length_keeps_the_direction_only(folder, model):
    cut = dual_encoder.load(folder, unit_length=True)
    with torch.no_grad():
        long, short = model.embed("question", TEXTS), cut.embed("question", TEXTS)
    assert torch.allclose(short.norm(dim=1), torch.ones(3), atol=1e-5)
    assert torch.allclose(long / long.norm(dim=1, keepdim=True), short, atol=1e-5)
    assert (long.norm(dim=1) - 1).abs().min() > 0.1


def test_a_long_text_is_cut_where_the_encoder_ends(folder, model):
    short = dual_encoder.DualEncoder(model.question, model.sentence, model.tokenizer, unit_length=False, max_tokens=5)
    with torch.no_grad():
        assert torch.allclose(short.embed("sentence", ["abcdefgh"]), model.embed("sentence", ["abcde"]), atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text("abc ", min_size=1, max_size=30), min_size=1, max_size=6, unique=True))
def test_texts_come_back_in_their_order_however_they_are_read(model, texts):
    encode = dual_encoder.encoder(model, "sentence")
    assert encode(texts) == pytest.approx(np.concatenate([encode([text]) for text in texts]), abs=1e-4)


def test_its_scores_in_a_compressor_are_its_dot_products(model):
    score = dual_encoder.similarity(model)
    with torch.no_grad():
        wanted = model("when did it open", TEXTS).numpy()
        hand = model.embed("sentence", TEXTS) @ model.embed("question", ["when did it open"])[0]
    assert score(["when did it open"], [TEXTS])[0] == pytest.approx(wanted, abs=1e-4)
    assert wanted == pytest.approx(hand.numpy(), abs=1e-4)


def test_what_is_saved_is_loaded_with_both_towers(model, folder, tmp_path):
    changed = dual_encoder.load(folder, unit_length=True)
    with torch.no_grad():
        changed.question.embeddings.word_embeddings.weight.mul_(0.5)
        before = changed("when did it open", TEXTS)
    dual_encoder.save(changed, tmp_path)
    again = dual_encoder.load(tmp_path)
    with torch.no_grad():
        assert again.unit_length and torch.equal(again("when did it open", TEXTS), before)
    assert sorted(path.name for path in tmp_path.rglob("*.safetensors")) == ["model.safetensors"] * 2
    assert not dual_encoder.load(tmp_path, unit_length=False).unit_length


def test_the_embedded_encoder_is_the_one_that_retrieves():
    try:
        wanted = retrieve.encoder()(TEXTS)
    except retrieve.EncoderError as error:
        pytest.skip(str(error))
    model = dual_encoder.load("embedded")
    for side in dual_encoder.SIDES:
        assert dual_encoder.encoder(model, side)(TEXTS) == pytest.approx(wanted, abs=1e-5)


def test_errors_name_what_came(model, folder, tmp_path):
    with pytest.raises(ValueError, match="unknown side"):
        model.embed("passage", TEXTS)
    with pytest.raises(ValueError, match="unknown side"):
        dual_encoder.encoder(model, "passage")
    for wrong in ([], "one text"):
        with pytest.raises(ValueError, match="at least one string"):
            model.embed("sentence", wrong)
    with pytest.raises(ValueError, match="unit_length must be True or False"):
        dual_encoder.load(folder)
    with pytest.raises(weights.WeightsError, match="neither here nor to be had"):
        dual_encoder.load(tmp_path / "nothing", unit_length=True)
