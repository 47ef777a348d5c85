"""Matrix products of linear layers on a processor, by oneDNN with weights that are laid out once.

torch leaves float32 products on a processor to MKL, which on some of them (AMD's) uses half of what they have: one layer of the embedded
reader ran at 190 GFLOP/s by MKL and at 430 by oneDNN on the same two cores. Both sum float32 products in float32, in another order.
"""

from contextlib import contextmanager
from functools import partial
from weakref import WeakKeyDictionary

import torch

_laid_out: WeakKeyDictionary = WeakKeyDictionary()  # linear layer -> (version of its weight, the weight as oneDNN wants it)


def possible(model) -> bool:
    """Whether this model's products can be had from oneDNN: float32 weights on a processor whose torch has it."""
    weight = next(model.parameters())
    found = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return found and weight.device.type == "cpu" and weight.dtype == torch.float32


@contextmanager
def fast_products(model):
    """Within this, the model's linear layers multiply by oneDNN, where that is possible; for inference only.

    The weights are laid out anew for it at the first use, and again if they were changed; this takes their size of memory once more.
    """
    layers = [m for m in model.modules() if type(m) is torch.nn.Linear] if possible(model) else []
    for layer in layers:
        layer.forward = partial(_product, layer.bias, _weight(layer))
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _weight(layer: torch.nn.Linear) -> torch.Tensor:
    state = layer.weight.data_ptr(), layer.weight._version
    if _laid_out.get(layer, (None,))[0] != state:
        _laid_out[layer] = state, torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
    return _laid_out[layer][1]


def _product(bias, weight, inputs: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
