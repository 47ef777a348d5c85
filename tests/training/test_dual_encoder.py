"""A dual encoder on tiny random weights: its vectors by hand, and its saved towers as a score of the compressor."""

import dual_encoder
import numpy as np
import pytest
import tiny
import torch

from experiments.ecorag_ablations import compressors
from rag_utils import retrieve
from rag_utils.engine import weights

TEXTS = ["the bridge opened in 1894", "red", "nobody knows it, and nobody asks"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def model(folder):
    return dual_encoder.load(folder)


def test_a_vector_is_the_mean_over_the_tokens_and_padding_is_none(model):
    with torch.no_grad():
        vectors = dual_encoder.embedded(model.sentence, TEXTS)
        for text, vector in zip(TEXTS, vectors, strict=True):
            ids = torch.tensor([model.sentence.tokenizer(text).input_ids])
            states = model.sentence[0].auto_model(input_ids=ids).last_hidden_state[0]
            assert torch.allclose(vector, states.mean(dim=0), atol=1e-5)
            assert not torch.allclose(vector, states[0], atol=1e-2)  # the first token alone is something else
        assert (vectors.norm(dim=1) - 1).abs().min() > 0.1  # it keeps its length


def test_a_long_text_is_cut_where_the_encoder_ends(folder):
    short = dual_encoder.load(folder)
    assert short.sentence.max_seq_length <= dual_encoder.MAX_TOKENS
    short.sentence.max_seq_length = 5
    with torch.no_grad():
        cut, whole = (
            dual_encoder.embedded(short.sentence, ["abcdefgh"]),
            dual_encoder.embedded(short.sentence, ["abcde"]),
        )
    assert torch.allclose(cut, whole, atol=1e-5)


def test_both_towers_learn_and_each_by_itself(folder):
    model = dual_encoder.load(folder)
    model("when did it open", TEXTS).sum().backward()
    towers = [dict(tower.named_parameters()) for tower in (model.question, model.sentence)]
    name = next(each for each in towers[0] if each.endswith("word_embeddings.weight"))
    one, other = (tower[name].grad for tower in towers)
    assert one is not None and other is not None and not torch.equal(one, other)


def test_what_is_saved_is_a_score_of_the_compressor(folder, tmp_path):
    model = dual_encoder.load(folder)
    with torch.no_grad():
        next(iter(model.question.parameters())).mul_(0.5)
        wanted = model("when did it open", TEXTS).numpy()
    dual_encoder.save(model, tmp_path)
    score = compressors.towers(tmp_path)
    assert score(["when did it open"], [TEXTS])[0] == pytest.approx(wanted, abs=1e-4)
    alone = np.concatenate([score(["when did it open"], [[text]])[0] for text in TEXTS])
    assert alone == pytest.approx(wanted, abs=1e-4)  # however they are read
    assert sorted(path.name for path in tmp_path.rglob("*.safetensors")) == ["model.safetensors"] * 2
    with pytest.raises(weights.WeightsError, match=r"there is no encoder in .*question; training/evidence\.py"):
        compressors.towers(tmp_path / "nothing")


def test_the_embedded_encoder_is_the_one_that_retrieves():
    wanted = retrieve.encoder()(TEXTS)
    model = dual_encoder.load("embedded")
    with torch.no_grad():
        for tower in (model.question, model.sentence):
            assert dual_encoder.embedded(tower, TEXTS).numpy() == pytest.approx(wanted, abs=1e-5)
    assert model.question is not retrieve.sentence_model()  # which training would change


def test_an_encoder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(weights.WeightsError, match="neither here nor to be had"):
        dual_encoder.load(tmp_path / "nothing")
