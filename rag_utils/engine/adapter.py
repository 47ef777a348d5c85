"""A LoRA adapter, as peft saves it, merged into the weights of the layers that it was trained for.

By hand and not by peft, whose import takes longer than that of torch and transformers together: the sum is one line, and bit for bit the
same. What the line does not compute is refused by name.
"""

import json
from pathlib import Path

from rag_utils.base.checks import number, whole

IGNORED = {  # settings of training and of the file, which change nothing in the sum; any other must be as if it were not there
    "base_model_name_or_path", "ensure_weight_tying", "exclude_modules", "inference_mode", "layers_pattern", "layers_to_transform",
    "lora_alpha", "lora_dropout", "megatron_core", "peft_type", "peft_version", "qalora_group_size", "r", "revision", "target_modules",
    "task_type",
}  # fmt: skip
PLAIN = {"bias": ("none",), "init_lora_weights": (True, False, "gaussian")}


def merge(model, folder: Path) -> None:
    """Add the adapter in `folder` to the model's weights: W + (alpha / rank) B A.

    raises : ValueError, OSError or SafetensorError, with the weights as they were, if it is not there, damaged or does not fit
    source : Hu et al., LoRA, eq. 3
    """
    from safetensors.torch import load_file

    rank, scale = _settings(json.loads((folder / "adapter_config.json").read_text(encoding="utf-8")))
    tensors = load_file(folder / "adapter_model.safetensors")
    names = [name.removesuffix(".lora_A.weight") for name in tensors if name.endswith(".lora_A.weight")]
    if not names or {f"{name}.lora_{part}.weight" for name in names for part in "AB"} != set(tensors):
        raise ValueError(f"tensors must be pairs of lora_A and lora_B; got {len(tensors)}, of them {len(names)} lora_A")
    sums = []
    for name in names:
        down, up = (tensors[f"{name}.lora_{part}.weight"] for part in "AB")
        sums.append((_weight(model, name.removeprefix("base_model.model."), rank, down, up), up.float(), down.float()))
    for weight, up, down in sums:  # nothing is changed before all of them fit
        weight.data += (scale * (up @ down)).to(weight)


def _settings(config: dict) -> tuple[int, float]:
    """(rank, scale) of a plain LoRA."""
    kind = config.get("peft_type") if isinstance(config, dict) else config
    if kind != "LORA":
        raise ValueError(f"peft_type must be 'LORA'; got {kind!r:.60}")
    for name, value in config.items():
        if name not in IGNORED and value and value not in PLAIN.get(name, ()):
            raise ValueError(f"{name} must be unset, it is not supported; got {value!r:.60}")
    rank = whole("r", config.get("r"), least=1)
    return rank, number("lora_alpha", config.get("lora_alpha")) / rank


def _weight(model, name: str, rank: int, down, up):
    """The weight that up @ down belongs to, if they fit it exactly."""
    import torch

    try:
        layer = model.get_submodule(name)
    except AttributeError as error:
        raise ValueError(f"its layer {name} is not in this model") from error
    if type(layer) is not torch.nn.Linear:
        raise ValueError(f"{name} must be a linear layer; got {type(layer).__name__}")
    shapes, wanted = [tuple(down.shape), tuple(up.shape)], [(rank, layer.in_features), (layer.out_features, rank)]
    if shapes != wanted:
        raise ValueError(f"lora_A and lora_B of {name} must have shapes {wanted}; got {shapes}")
    if not all(part.is_floating_point() and part.isfinite().all() for part in (down, up)):
        raise ValueError(f"lora_A and lora_B of {name} must be finite; got NaN, infinite or whole numbers")
    return layer.weight
