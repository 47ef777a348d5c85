"""Keys and values: what a model remembers of the texts it has read, and of the replies that grow behind them."""

from collections.abc import Sequence
from contextlib import contextmanager

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicLayer

from rag_utils.products import fast_products

OWN = "rag_companion"  # the name under which transformers finds our attention


class Room(DynamicLayer):
    """Keys and values at the front of a buffer with room to grow, so that a step writes one token and copies nothing."""

    GROWTH = 32  # tokens
    _buffers = None

    def update(self, key_states, value_states, *args, **kwargs):
        held = self.get_seq_length()
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        need = held + key_states.shape[-2]
        fits = self._buffers is not None and self._buffers[0].shape[-2] >= need
        if held == 0 and not fits:
            self.keys, self.values = key_states, value_states  # the first read takes no room yet
            return self.keys, self.values
        if not fits:
            self._buffers = [self._grown(t, need + self.GROWTH) for t in (self.keys, self.values)]
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, held:need] = new
        self.keys, self.values = (buffer[:, :, :need] for buffer in self._buffers)
        return self.keys, self.values

    def reorder_cache(self, beam_idx):
        super().reorder_cache(beam_idx)
        self._buffers = None

    @staticmethod
    def _grown(tensor, length: int):
        grown = tensor.new_empty((*tensor.shape[:-2], length, tensor.shape[-1]))
        grown[:, :, : tensor.shape[-2]] = tensor
        return grown


Row = list[tuple[torch.Tensor, torch.Tensor]]  # keys and values of one text, per layer (1, heads, tokens, size)


class Past:
    """Keys and values of some texts, one row each, padded on the left where `mask` is 0."""

    joins = True  # texts of two of them may be continued together

    def __init__(self, layers: Row, mask: torch.Tensor):
        self.layers, self.mask = layers, mask

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Past":
        return cls.join([cls(row, row[0][0].new_ones((1, row[0][0].shape[2]), dtype=torch.long)) for row in rows])

    @classmethod
    def join(cls, pasts: "list[Past]") -> "Past":
        """All rows of the pasts, the shorter ones padded."""
        longest = max(past.mask.shape[1] for past in pasts)
        pads = [longest - past.mask.shape[1] for past in pasts]

        def padded(tensors, dimension):
            padding = [0, 0] * (tensors[0].ndim - 1 - dimension)
            return torch.cat([torch.nn.functional.pad(t, (*padding, n, 0)) for t, n in zip(tensors, pads, strict=True)])

        layers = [
            tuple(padded([past.layers[number][kind] for past in pasts], 2) for kind in (0, 1))
            for number in range(len(pasts[0].layers))
        ]
        return cls(layers, padded([past.mask for past in pasts], 1))

    def take(self, rows: list[int]) -> "Past":
        """These rows, in this order."""
        return Past([(k[rows], v[rows]) for k, v in self.layers], self.mask[rows])

    def branch(self, samples: Sequence[int]) -> "Branches":
        """So many replies to each row."""
        return Branches(self, samples)


class Branches:
    """Replies that grow behind shared texts: the keys and values of a text stand once, those of its replies once each.

    `owner` is the text of each reply. Attention sees both: the scores of a reply's next token are those under its text, computed for all
    replies to that text in one product, and those under the reply so far, under one softmax.
    """

    def __init__(self, past: Past, samples: Sequence[int]):
        self.past = past
        self.owner = repeated(torch.arange(len(samples), device=past.mask.device), samples)
        self.cache = Cache(layer_class_to_replicate=Room)
        self.mask = past.mask.new_zeros((len(self.owner), 0))

    @property
    def tokens(self) -> int:
        return self.past.mask.numel() + self.mask.numel()

    def join(self, other: "Branches") -> "Branches":
        """Both; `other` has not grown yet."""
        new, width = len(other.owner), self.mask.shape[1]
        if width:
            layers = [(layer.keys, layer.values) for layer in self.cache.layers]
            self.cache = Cache(layer_class_to_replicate=Room)
            for number, pair in enumerate(layers):
                self.cache.update(*(torch.cat([t, t.new_zeros((new, *t.shape[1:]))]) for t in pair), number)
        self.mask = torch.cat([self.mask, self.mask.new_zeros((new, width))])
        self.owner = torch.cat([self.owner, other.owner + len(self.past.mask)])
        self.past = Past.join([self.past, other.past])
        return self

    def keep(self, rows: torch.Tensor) -> None:
        """Drop the other replies, and texts without a reply once they are half of all."""
        if self.mask.shape[1]:
            self.cache.reorder_cache(rows)
        self.mask, self.owner = self.mask[rows], self.owner[rows]
        texts, owner = self.owner.unique(return_inverse=True)
        if 2 * len(texts) <= len(self.past.mask):
            self.past, self.owner = self.past.take(texts.tolist()), owner

    def step(self, model, tokens: torch.Tensor) -> torch.Tensor:
        """Add one token to each reply; the logits of the next."""
        self.mask = torch.cat([self.mask, torch.ones_like(self.owner)[:, None]], dim=1)
        first = torch.searchsorted(self.owner, self.owner)  # replies to one text stand together
        self.slot = torch.arange(len(self.owner), device=self.owner.device) - first
        self.slots = int(self.slot.max()) + 1
        self.hidden = torch.cat([self.past.mask[self.owner], self.mask], dim=1)[:, None, None] == 0
        places = self.past.mask.sum(dim=1)[self.owner] + self.mask.sum(dim=1) - 1
        with attention(model), fast_products(model):
            return model(
                input_ids=tokens[:, None],
                position_ids=places[:, None],
                past_key_values=self.cache,
                use_cache=True,
                attend=self.attend,
            ).logits[:, -1]

    def attend(self, layer: int, query, key, value, scaling: float) -> torch.Tensor:
        """(replies, 1, heads, size): attention of one token of each reply; query (replies, heads, 1, size)."""
        text_keys, text_values = self.past.layers[layer]
        rows, heads, _, width = query.shape
        query = query.reshape(rows, key.shape[1], heads // key.shape[1], width)
        scores = torch.cat([self._under_texts(query, text_keys.mT), query @ key.mT], dim=-1) * scaling
        weights = torch.softmax(scores.masked_fill(self.hidden, -torch.inf).float(), dim=-1).to(query.dtype)
        under_text, under_reply = weights.split([text_keys.shape[2], key.shape[2]], dim=-1)
        return (self._under_texts(under_text, text_values) + under_reply @ value).reshape(rows, 1, heads, width)

    def _under_texts(self, left, right) -> torch.Tensor:
        """left (replies, groups, heads of a group, n) times its text's right (texts, groups, n, m)."""
        spread = left.new_zeros((right.shape[0], left.shape[1], self.slots, *left.shape[2:]))
        spread[self.owner, :, self.slot] = left
        found = spread.flatten(2, 3) @ right
        return found.unflatten(2, spread.shape[2:4])[self.owner, :, self.slot]


@contextmanager
def attention(model):
    """Let the `attend` that the model is called with compute its attention: attend(layer, query, key, value, scaling)."""
    usual = model.config._attn_implementation
    model.config._attn_implementation = OWN
    try:
        yield
    finally:
        model.config._attn_implementation = usual


def _attend(module, query, key, value, attention_mask, scaling=None, attend=None, **_):
    return attend(module.layer_idx, query, key, value, scaling), None


AttentionInterface.register(OWN, _attend)
AttentionMaskInterface.register(OWN, lambda *_, **__: None)  # who attends knows the mask


def repeated(tensor: torch.Tensor, times: Sequence[int]) -> torch.Tensor:
    return torch.repeat_interleave(tensor, torch.tensor(times, device=tensor.device), dim=0)


def pad(rows: Sequence[list[int]], side: str, device) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, longest) token ids and mask; padded places hold token 0 and are masked."""
    longest = max(map(len, rows))
    ids = torch.zeros((len(rows), longest), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(rows):
        place = slice(longest - len(tokens), None) if side == "left" else slice(0, len(tokens))
        ids[row, place] = torch.tensor(tokens)
        mask[row, place] = 1
    return ids.to(device), mask.to(device)
