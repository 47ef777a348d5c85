"""Attention whose result for one token is the same, bit for bit, whatever is computed beside it.

A sum of floats depends on its order, and libraries choose the order by the shape of what they are given: the same token in another batch
comes out some 1e-7 apart, and one sample in a hundred becomes another text. Here every sum has one order. The rows of a product are
padded to a multiple of four, for with few rows other kernels are used; keys to a multiple of 32, with zeros behind the last, which change
no sum; long sums over keys are made of parts that begin at fixed places. (Linear layers sum each row by itself: `products.py`.)
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch.nn.functional import pad
from transformers import AttentionInterface, AttentionMaskInterface

from rag_utils.engine.products import fast_products

OWN = "rag_companion"  # the name under which transformers finds our attention
ROWS = 4  # the rows of a product are padded to a multiple of it
KEYS = 32  # and the keys to a multiple of this
PART = 192  # keys whose values are summed in one product
PLACES = 128  # places of a text whose scores are held at once
SCORES = 1 << 22  # of each head, held at once on a GPU


def forward(model, ids: torch.Tensor, places: torch.Tensor, attend, **options) -> torch.Tensor:
    """The model's logits of tokens (rows, n) at these places; attend(layer, query, key, value, scaling) is its attention."""
    usual = model.config._attn_implementation
    model.config._attn_implementation = OWN
    try:
        with fast_products(model):
            return model(input_ids=ids, position_ids=places, use_cache=False, attend=attend, **options).logits
    finally:
        model.config._attn_implementation = usual


def _attend(module, query, key, value, attention_mask, scaling=None, attend=None, **_):
    return attend(module.layer_idx, query, key, value, scaling), None


AttentionInterface.register(OWN, _attend)
AttentionMaskInterface.register(OWN, lambda *_, **__: None)  # who attends knows the mask


def whole(length: int, multiple: int = KEYS) -> int:
    """The next multiple."""
    return -(-length // multiple) * multiple


def padded(tensor: torch.Tensor, multiple: int = KEYS) -> torch.Tensor:
    """(..., n, size) with zeros behind the last of n, up to a multiple."""
    more = whole(tensor.shape[-2], multiple) - tensor.shape[-2]
    return pad(tensor, (0, 0, 0, more)) if more else tensor


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left (..., m, k) times right (..., k, n), n a multiple of KEYS."""
    return (padded(left, ROWS) @ right)[..., : left.shape[-2], :]


def weighted(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """weights (batch, m, n) times values (batch, n, size), summed part by part; n a multiple of KEYS."""
    rows = padded(weights, ROWS)
    sums = rows[..., :PART] @ values[:, :PART]
    for first in range(PART, values.shape[1], PART):
        sums.baddbmm_(rows[..., first : first + PART], values[:, first : first + PART])
    return sums[:, : weights.shape[1]]


def causal(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int, scaling: float) -> torch.Tensor:
    """What the last n places of a text see of it: query (heads, n, size) -> (heads, n, size).

    keys, values : (groups, room, size), zero behind the text's length; room a multiple of KEYS
    """
    heads, n, size = query.shape
    groups, query = len(keys), query * scaling
    attended = []
    for first in range(0, n, PLACES):
        part = query[:, first : first + PLACES]
        places = part.shape[1]
        known = length - n + first  # keys that all of these places see
        width, rows = whole(known + places), heads // groups * places
        scores = padded(part.reshape(groups, rows, size), ROWS) @ keys[:, :width].mT
        scores[:, :rows, known:].unflatten(1, (-1, places)).masked_fill_(_later(places, width - known, keys.device), -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        attended.append(weighted(weights, values[:, :width])[:, :rows].reshape(heads, places, size))
    return torch.cat(attended, dim=1)


@lru_cache(maxsize=1024)
def _later(places: int, keys: int, device: torch.device) -> torch.Tensor:
    """Which of the last keys come after each place."""
    with torch.inference_mode(False):
        return torch.ones((places, keys), dtype=torch.bool, device=device).triu(1)


def together(sizes: Sequence[tuple[int, int]]) -> Iterator[slice]:
    """Which texts of (places, keys) are computed at once: padded to the longest they have at most SCORES scores, or it is a single one."""
    first, longest = 0, (0, 0)
    for place, size in enumerate(sizes):
        longest = tuple(map(max, longest, size))
        if place > first and (place + 1 - first) * math.prod(longest) > SCORES:
            yield slice(first, place)
            first, longest = place, size
    yield slice(first, len(sizes))
