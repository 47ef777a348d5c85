"""Matrix products of linear layers on a processor, by oneDNN with weights that are laid out once.

torch leaves float32 products on a processor to MKL, which on some of them (AMD's) uses half of what they have. oneDNN sums a row's products
one after the other, so that a row's result does not depend on the others. Long rows are cut into parts whose sums are added, which keeps
the rounding error near MKL's. `make bench` times both.
"""

import os
from contextlib import contextmanager
from functools import partial
from weakref import WeakKeyDictionary, WeakSet

import torch

LONGEST = 768  # products that are summed one after the other
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")  # of 1,024 shapes, some 0.3 MB each; hardly two passes share one
_laid_out: WeakKeyDictionary = WeakKeyDictionary()  # linear layer -> (version of its weight, its parts for oneDNN)
_plain: WeakSet = WeakSet()  # models whose products stay torch's own


def possible(model) -> bool:
    """Whether this model's products can be had from oneDNN: float32 weights on a processor whose torch has it."""
    weight = next(model.parameters())
    there = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return there and weight.device.type == "cpu" and weight.dtype == torch.float32


@contextmanager
def fast_products(model):
    """Within this, the model's linear layers multiply by oneDNN, where that is possible; for inference only.

    The weights are laid out for it at the first use, and again if they were changed: their size of memory once more.
    """
    layers = [m for m in model.modules() if type(m) is torch.nn.Linear] if model not in _plain and possible(model) else []
    for layer in layers:
        layer.forward = partial(_product, layer.bias, _parts(layer))
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


@contextmanager
def plain_products(model):
    """Within this, they stay torch's own: a few tokens are not worth the memory of weights laid out once more."""
    _plain.add(model)
    try:
        yield
    finally:
        _plain.discard(model)


def _parts(layer: torch.nn.Linear) -> list[torch.Tensor]:
    state = layer.weight.data_ptr(), layer.weight._version
    if _laid_out.get(layer, (None,))[0] != state:
        columns = layer.weight.detach().tensor_split(-(-layer.in_features // LONGEST), dim=1)
        parts = [torch.ops.mkldnn._reorder_linear_weight(part) for part in columns]
        _laid_out[layer] = state, parts
    return _laid_out[layer][1]


def _product(bias, parts: list[torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    multiply = torch.ops.mkldnn._linear_pointwise
    first, *others = inputs.tensor_split(len(parts), dim=-1)
    result = multiply(first, parts[0], bias, "none", [], "")
    for columns, part in zip(others, parts[1:], strict=True):
        result = multiply.binary(columns, result, part, None, "add")
    return result
