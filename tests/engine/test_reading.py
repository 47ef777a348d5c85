"""Segments that are read behind others: what a pass sees and leaves is that of the whole text, one by one and side by side."""

import pytest
import torch

from rag_utils.engine import attention
from rag_utils.engine.reading import InTurn, SideBySide

LAYERS, SCALING = 2, 0.3
LENGTHS, CUTS = (1, 70, 33, 130, 70), (0, 67, 0, 30, 1)  # of the texts, and what of each was read before


def texts(shape, layer):
    """Query, keys and values of each whole text in a layer, (heads or groups, length, size)."""
    heads, groups, size = shape
    torch.manual_seed(layer)
    return [tuple(torch.randn(n, length, size) for n in (heads, groups, groups)) for length in LENGTHS]


def read(how, shape, pasts, first, last, keep):
    """What the places first to last of each text see in every layer, and what is left."""
    reading = how(LAYERS, [b - a for a, b in zip(first, last, strict=True)], pasts, keep)
    seen = []
    for layer in range(LAYERS):
        cut = [[t[:, a:b] for t in text] for text, a, b in zip(texts(shape, layer), first, last, strict=True)]
        seen.append(reading.attend(layer, *(torch.cat(parts, dim=1)[None] for parts in zip(*cut, strict=True)), SCALING))
    return torch.stack(seen), reading.left()


@pytest.mark.parametrize("shape", [(9, 3, 64), (4, 2, 8), (4, 4, 16)])
@pytest.mark.parametrize("scores", [1, 20_000, 1 << 22])
def test_what_is_read_in_two_passes_is_what_is_read_in_one(shape, scores, monkeypatch):
    monkeypatch.setattr(attention, "SCORES", scores)
    zeros, some = [0] * len(LENGTHS), [i for i, cut in enumerate(CUTS) if cut]
    whole, kept = read(InTurn, shape, [None] * len(LENGTHS), zeros, LENGTHS, [True] * len(LENGTHS))
    exact = torch.cat([part[:, :, cut:] for part, cut in zip(whole.split(LENGTHS, dim=2), CUTS, strict=True)], dim=2)
    for how in (InTurn, SideBySide):
        _, before = read(how, shape, [None] * len(LENGTHS), zeros, [cut or 1 for cut in CUTS], [True] * len(LENGTHS))
        pasts = [before[i] if i in some else None for i in range(len(LENGTHS))]
        found, left = read(how, shape, pasts, CUTS, LENGTHS, [i != 2 for i in range(len(LENGTHS))])
        assert torch.equal(found, exact) if how is InTurn else torch.allclose(found, exact, atol=3e-5)
        assert left[2] is None and [past.length for past in left if past] == [n for i, n in enumerate(LENGTHS) if i != 2]
        for one, other in zip(left, kept, strict=True):
            assert one is None or torch.equal(one.held[..., : one.length, :], other.held[..., : other.length, :])
    with pytest.raises(AssertionError):  # one place further on another thing is seen
        torch.testing.assert_close(found[:, :, 1:], exact[:, :, :-1], atol=1e-3, rtol=0)


def test_behind_the_last_token_of_what_is_left_come_zeros():
    _, left = read(InTurn, (4, 2, 8), [None] * len(LENGTHS), [0] * len(LENGTHS), LENGTHS, [True] * len(LENGTHS))
    assert all(past.held.shape[3] % attention.KEYS == 0 and not past.held[..., past.length :, :].any() for past in left)
