"""The attention of one pass over several segments of text, each behind what comes before it, and the keys and values that it leaves."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from rag_utils.engine.attention import causal, together, whole

STRIDE = 8  # on a GPU places and keys are padded to a multiple of it, or the products take a slower way


@dataclass(frozen=True)
class Past:
    """Keys and values of one text: `held` (layers, 2, heads, room, size) has zeros behind the last of `length` tokens."""

    held: torch.Tensor
    length: int


@dataclass
class Reading:
    """What a pass reads.

    layers  : of the model
    lengths : of the segments
    pasts   : what comes before each; None: nothing
    keep    : whether something will be read behind it
    """

    layers: int
    lengths: Sequence[int]
    pasts: Sequence[Past | None]
    keep: Sequence[bool]

    def __post_init__(self):
        self.starts = [0 if past is None else past.length for past in self.pasts]
        self.stops = [start + n for start, n in zip(self.starts, self.lengths, strict=True)]


class InTurn(Reading):
    """One segment after the other, and every bit the same in any company: for a processor."""

    def __post_init__(self):
        super().__post_init__()
        self._rows: list[torch.Tensor | None] = [None] * len(self.lengths)

    def attend(self, layer: int, query, key, value, scaling: float) -> torch.Tensor:
        """(1, tokens, heads, size): what each token sees; query, key and value (1, heads or groups, tokens, size)."""
        parts = zip(*(tensor[0].split(self.lengths, dim=1) for tensor in (query, key, value)), strict=True)
        attended = [causal(q, *self._behind(i, layer, k, v), self.stops[i], scaling) for i, (q, k, v) in enumerate(parts)]
        return torch.cat(attended, dim=1).transpose(0, 1)[None]

    def left(self) -> list[Past | None]:
        """Keys and values of each text that is kept, up to the end of its segment."""
        return [None if row is None else Past(row, stop) for row, stop in zip(self._rows, self.stops, strict=True)]

    def _behind(self, i: int, layer: int, *new: torch.Tensor) -> torch.Tensor:
        """(2, heads, room, size): the layer's keys and values of text i, the new ones written behind those that were there."""
        past, start, stop = self.pasts[i], self.starts[i], self.stops[i]
        if self.keep[i] and self._rows[i] is None:
            self._rows[i] = _room(self.layers, new[0], stop)
            if past:
                self._rows[i][..., :start, :] = past.held[..., :start, :]
        room = self._rows[i][layer] if self.keep[i] else _room(1, new[0], stop)[0]
        if past and not self.keep[i]:
            room[:, :, :start] = past.held[layer, :, :, :start]
        for held, added in zip(room, new, strict=True):
            held[:, start:stop] = added
        return room


class SideBySide(Reading):
    """Many segments in one product, padded, and equal up to rounding: for a GPU, to which one segment is too small."""

    def attend(self, layer: int, query, key, value, scaling: float) -> torch.Tensor:
        """As `InTurn.attend`."""
        if not layer:
            self._new = key.new_empty((self.layers, 2, *key.shape[1:]))
            self._lay_out(key, query.shape[1] // key.shape[1])
        new = self._new[layer]
        new[0], new[1] = key[0], value[0]
        attended = []
        for past, places, bias in self._groups:
            texts, n = places.shape
            asked = query[0][:, places].transpose(0, 1).reshape(texts, key.shape[1], -1, query.shape[-1])
            seen = torch.cat([past[layer], new[:, :, places].transpose(1, 2)], dim=3)
            rows = scaled_dot_product_attention(asked, *seen, attn_mask=bias, scale=scaling)
            attended.append(rows.reshape(texts, -1, n, rows.shape[-1]).transpose(1, 2).flatten(0, 1))
        return torch.cat(attended)[self._order][None]

    def left(self) -> list[Past | None]:
        """As `InTurn.left`."""
        own = self._new.split(self.lengths, dim=-2)
        parts = [[new] if past is None else [past.held[..., : past.length, :], new] for past, new in zip(self.pasts, own, strict=True)]
        kept = zip(parts, self.stops, self.keep, strict=True)
        return [Past(torch.cat(part, dim=-2), stop) if keep else None for part, stop, keep in kept]

    def _lay_out(self, key: torch.Tensor, shared: int) -> None:
        """Groups of segments of like length: their padded pasts, where their tokens stand in the pass, and what each must not see."""
        firsts = torch.tensor([0, *self.lengths]).cumsum(0)
        ordered = sorted(range(len(self.lengths)), key=lambda i: (self.lengths[i], self.starts[i]), reverse=True)
        self._groups, order, placed = [], torch.empty(int(firsts[-1]), dtype=torch.long), 0
        for part in together([(self.lengths[i], self.stops[i]) for i in ordered]):
            group = ordered[part]
            n = whole(max(self.lengths[i] for i in group), STRIDE)
            before = whole(max(self.starts[i] for i in group), STRIDE)
            past = key.new_zeros((self.layers, 2, len(group), key.shape[1], before, key.shape[3]))
            for row, i in enumerate(group):
                if self.starts[i]:
                    past[:, :, row, :, : self.starts[i]] = self.pasts[i].held[..., : self.starts[i], :]
                order[firsts[i] : firsts[i + 1]] = torch.arange(self.lengths[i]) + placed + row * n
            placed += len(group) * n
            starts, lengths = (torch.tensor([each[i] for i in group])[:, None, None] for each in (self.starts, self.lengths))
            here = torch.arange(n)
            unseen = torch.cat(
                [(torch.arange(before) >= starts).expand(-1, n, -1), (here > here[:, None]) | (here >= lengths) & (here != here[:, None])],
                dim=2,
            )
            bias = key.new_zeros(unseen.shape).masked_fill_(unseen.to(key.device), -torch.inf).repeat(1, shared, 1)
            places = firsts[group][:, None] + here.clamp(max=lengths[:, 0] - 1)
            self._groups.append((past, places.to(key.device), bias[:, None]))
        self._order = order.to(key.device)


def _room(layers: int, like: torch.Tensor, length: int) -> torch.Tensor:
    """(layers, 2, heads, room, size), zero behind `length`, to be written before; like (heads, tokens, size)."""
    heads, _, size = like.shape
    room = like.new_empty((layers, 2, heads, whole(length), size))
    room[..., length:, :] = 0
    return room
