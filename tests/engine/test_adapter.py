"""Adapters: merged exactly, or refused by name with the model left as it was."""

import json

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from rag_utils.engine import adapter, weights

LAYER = "model.layers.0.self_attn.q_proj"
CONFIG = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "bias": "none"}


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return tiny.llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    down, up = torch.randn(4, 32), torch.randn(32, 4)
    prefix = f"base_model.model.{LAYER}"
    save_file({f"{prefix}.lora_A.weight": down, f"{prefix}.lora_B.weight": up}, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_the_sum_is_that_of_peft_to_the_last_bit(folder, profile):
    from peft import PeftModel

    ours, base = weights.load(profile).model, weights.load(profile).model
    adapter.merge(ours, folder)
    theirs = PeftModel.from_pretrained(weights.load(profile).model, folder).merge_and_unload()
    assert torch.equal(ours.get_submodule(LAYER).weight, theirs.get_submodule(LAYER).weight)
    assert not torch.equal(ours.get_submodule(LAYER).weight, base.get_submodule(LAYER).weight)


SETTINGS = [
    ({"use_rslora": True}, "use_rslora"), ({"use_dora": True}, "use_dora"), ({"alpha_pattern": {"q_proj": 2}}, "alpha_pattern"),
    ({"rank_pattern": {"q_proj": 2}}, "rank_pattern"), ({"bias": "all"}, "bias"), ({"fan_in_fan_out": True}, "fan_in_fan_out"),
    ({"modules_to_save": ["lm_head"]}, "modules_to_save"), ({"lora_bias": True}, "lora_bias"),
    ({"init_lora_weights": "pissa"}, "init_lora_weights"), ({"a_later_invention": 3}, "a_later_invention"),
    ({"peft_type": "IA3"}, "peft_type must be 'LORA'; got 'IA3'"), ({"peft_type": None}, "peft_type"), ({"r": 0}, "r must be"),
    ({"r": 2}, r"must have shapes \[\(2, 32\), \(32, 2\)\]; got \[\(4, 32\), \(32, 4\)\]"), ({"r": "4"}, "r must be a whole number"),
    ({"r": True}, "r must be"), ({"lora_alpha": None}, "lora_alpha must be"), ({"lora_alpha": float("inf")}, "lora_alpha must be"),
]  # fmt: skip


def test_settings_that_are_not_supported_are_refused_by_name(folder, profile):
    loaded = weights.load(profile).model
    before = loaded.get_submodule(LAYER).weight.clone()
    for change, words in SETTINGS:
        (folder / "adapter_config.json").write_text(json.dumps(CONFIG | change))
        with pytest.raises(ValueError, match=words):
            adapter.merge(loaded, folder)
        with pytest.raises(weights.WeightsError, match=f"cannot be merged into this model: .*{words}"):
            weights.load(profile.model_copy(update={"adapter": str(folder)}))
    for text in ("[]", "{", "null"):
        (folder / "adapter_config.json").write_text(text)
        with pytest.raises(weights.WeightsError, match="cannot be merged"):
            weights.load(profile.model_copy(update={"adapter": str(folder)}))
    assert torch.equal(loaded.get_submodule(LAYER).weight, before)


def test_what_peft_writes_of_a_plain_adapter_is_accepted(folder, profile):
    from peft import LoraConfig

    written = LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj"], task_type="CAUSAL_LM", lora_dropout=0.1
    ).to_dict()
    (folder / "adapter_config.json").write_text(json.dumps(written, default=list))
    adapter.merge(weights.load(profile).model, folder)


def tensors_changed(tensors: dict, how: str) -> dict:
    down, up = sorted(tensors)
    if how == "nan":
        tensors[up][0, 0] = float("nan")
    elif how == "inf":
        tensors[down][1, 1] = float("-inf")
    elif how == "whole":
        tensors[up] = tensors[up].long()
    elif how == "broadcasts":
        tensors[up] = tensors[up][:1]
    elif how == "a row":
        tensors[down] = tensors[down][:, :1]
    elif how == "other layer":
        return {name.replace("layers.0", "layers.7"): tensor for name, tensor in tensors.items()}
    elif how == "not linear":
        return {name.replace("self_attn.q_proj", "input_layernorm"): tensor for name, tensor in tensors.items()}
    elif how == "one half":
        tensors.pop(up)
    elif how == "more":
        tensors["base_model.model.lm_head.weight"] = torch.ones(2, 2)
    return {} if how == "empty" else tensors


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("nan", f"{LAYER} must be finite"),
        ("inf", f"{LAYER} must be finite"),
        ("whole", "whole numbers"),
        ("broadcasts", r"must have shapes \[\(4, 32\), \(32, 4\)\]; got \[\(4, 32\), \(1, 4\)\]"),
        ("a row", "must have shapes"),
        ("other layer", r"layers\.7.* is not in this model"),
        ("not linear", "must be a linear layer; got LlamaRMSNorm"),
        ("one half", "must be pairs"),
        ("more", "must be pairs"),
        ("empty", "must be pairs .* got 0 tensors|must be pairs of lora_A and lora_B; got 0"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_and_nothing_is_merged(folder, profile, how, words):
    path = folder / "adapter_model.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in tensors_changed(load_file(path), how).items()}, path)
    model = weights.load(profile).model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=words):
        adapter.merge(model, folder)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_file_that_is_none_is_refused(folder, profile):
    for content in (b"", b"x" * 50):
        (folder / "adapter_model.safetensors").write_bytes(content)
        with pytest.raises(weights.WeightsError, match="cannot be merged into this model"):
            weights.load(profile.model_copy(update={"adapter": str(folder)}))
