"""Matrix products of linear layers on a processor, by oneDNN with weights that are laid out once.

torch leaves float32 products on a processor to MKL, which on AMD's uses half of what they have, and lays out bfloat16 weights anew for
every product, which takes longer than the product of a few rows. oneDNN sums a row's products one after the other, whatever stands beside
it. Long rows of float32 are cut into parts whose sums are added, which keeps the rounding error near MKL's. `make bench` times both.
"""

import os
from contextlib import contextmanager
from functools import partial
from weakref import WeakKeyDictionary

import torch

LONGEST, SLICE = 768, 256  # products of float32 that are summed one after the other; rows of a wide block at a time
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")  # of 1,024 shapes, some 0.3 MB each; hardly two passes share one
_laid_out: WeakKeyDictionary = WeakKeyDictionary()  # linear layer -> (version of its weight, its parts for oneDNN)


def possible(model) -> bool:
    """Whether this model's products can be had from oneDNN: on a processor, in a precision that torch has there for it."""
    weight, known = next(model.parameters()), torch.ops.mkldnn
    there = torch.backends.mkldnn.enabled and hasattr(known, "_linear_pointwise") and weight.device.type == "cpu"
    return there and (weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and known._is_mkldnn_bf16_supported()))


@contextmanager
def fast_products(model):
    """Within this, the model's linear layers multiply by oneDNN, where that is possible; for inference only.

    The weights are laid out for it at the first use, and again if they were changed: their size of memory once more.
    """
    modules = list(model.modules()) if possible(model) else []
    changed = {m: partial(_product, m.bias, _parts(m)) for m in modules if type(m) is torch.nn.Linear}
    changed |= {m: partial(_in_slices, m.forward) for m in modules if type(m).__name__.endswith("MLP")}
    for module, forward in changed.items():
        module.forward = forward
    try:
        yield
    finally:
        for module in changed:
            del module.forward


def _in_slices(forward, inputs: torch.Tensor) -> torch.Tensor:
    """What the block makes of each row: of `SLICE` at a time, whose wider rows in between stay near the processor."""
    return torch.cat([forward(part) for part in inputs.split(SLICE, dim=-2)], dim=-2)


def _parts(layer: torch.nn.Linear) -> list[torch.Tensor]:
    state = layer.weight.data_ptr(), layer.weight._version
    if _laid_out.get(layer, (None,))[0] != state:
        n = -(-layer.in_features // LONGEST) if layer.weight.dtype == torch.float32 else 1  # the others are rounded at every sum
        columns = layer.weight.detach().tensor_split(n, dim=1)
        _laid_out[layer] = state, [torch.ops.mkldnn._reorder_linear_weight(part) for part in columns]
    return _laid_out[layer][1]


def _product(bias, parts: list[torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    multiply = torch.ops.mkldnn._linear_pointwise
    if inputs.numel() == inputs.shape[-1]:  # a row of bfloat16 by itself is summed in another order
        return _product(bias, parts, torch.stack([inputs, inputs]))[0]
    first, *others = inputs.tensor_split(len(parts), dim=-1)
    result = multiply(first, parts[0], bias, "none", [], "")
    for columns, part in zip(others, parts[1:], strict=True):
        result = multiply.binary(columns, result, part, None, "add")
    return result
