"""Attention of the engine: that of torch in double precision, and for one token the same bits whatever is computed with it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from rag_utils.engine import attention
from rag_utils.engine.attention import KEYS, ROWS, padded, together, weighted, whole

SHAPES = [(9, 3, 64), (4, 2, 8), (4, 4, 16), (8, 1, 32)]  # heads, heads that have keys of their own, their size


def text(shape, length, seed=0):
    heads, groups, size = shape
    torch.manual_seed(seed)
    return (torch.randn(n, length, size) for n in (heads, groups, groups))


def causal(query, keys, values, scaling):
    return attention.causal(query, padded(keys), padded(values), keys.shape[1], scaling)


def visible(query, keys, values, scaling):
    """The usual attention, in double precision."""
    n, length = query.shape[1], keys.shape[1]
    shown = torch.ones((n, length), dtype=torch.bool).tril(length - n)
    query, keys, values = (t.double()[None] for t in (query, keys, values))
    return scaled_dot_product_attention(query, keys, values, attn_mask=shown, scale=scaling, enable_gqa=True)[0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("length", "n"), [(1, 1), (2, 1), (33, 33), (70, 3), (130, 129), (300, 200)])
def test_it_is_the_usual_attention(shape, length, n):
    query, keys, values = text(shape, length)
    found = causal(query[:, -n:], keys, values, 0.3)
    exact = visible(query[:, -n:], keys, values, 0.3)
    assert torch.allclose(found.double(), exact, atol=3e-5)
    if length > 1:  # a place that sees one key too many is noticed
        assert not torch.allclose(found[:, :-1], exact[:, 1:].float(), atol=1e-3) or n == 1


@settings(max_examples=60, deadline=None)
@given(shape=st.sampled_from(SHAPES), length=st.integers(1, 400), data=st.data())
def test_a_place_is_the_same_in_every_cut_of_the_text(shape, length, data):
    query, keys, values = text(shape, length)
    whole_text = causal(query, keys, values, shape[-1] ** -0.5)
    stop = data.draw(st.integers(1, length))
    first = data.draw(st.integers(0, stop - 1))
    part = causal(query[:, first:stop], keys[:, :stop], values[:, :stop], shape[-1] ** -0.5)
    assert torch.equal(part, whole_text[:, first:stop])


def test_texts_are_computed_together_while_their_padded_scores_fit(monkeypatch):
    monkeypatch.setattr(attention, "SCORES", 200)
    sizes = [
        (10, 10),
        (5, 20),
        (10, 10),
        (30, 30),
        (1, 1),
    ]  # two of 10 x 10; one of 5 x 20 with one of 10 x 10 is 2 x 10 x 20
    assert list(together(sizes)) == [slice(0, 1), slice(1, 2), slice(2, 3), slice(3, 4), slice(4, 5)]
    assert list(together([(10, 10)] * 5)) == [slice(0, 2), slice(2, 4), slice(4, 5)]


def test_sums_are_made_of_parts_and_zeros_behind_change_nothing():
    weights, values = torch.rand(2, 8, 256), torch.randn(2, 256, 16)
    weights[:, :, 150:] = 0
    long, short = weighted(weights, values), weighted(weights[:, :, :160], values[:, :160])
    assert torch.equal(long, short)
    assert torch.allclose(long, weights @ values, atol=1e-5)


def test_padding_is_zeros_at_the_end_and_none_where_none_is_needed():
    tensor = torch.ones(2, 5, 3)
    assert padded(tensor).shape == (2, KEYS, 3) and padded(tensor).sum() == tensor.sum()
    assert padded(tensor, ROWS)[:, 5:].sum() == 0 and padded(tensor, ROWS).shape[1] == 2 * ROWS
    assert [whole(n, 4) for n in (1, 4, 5)] == [4, 4, 8]
