"""Replies that grow behind texts that were read: the keys and values of both, and one step for all replies."""

from collections.abc import Sequence

import torch
from torch.nn.functional import pad

from rag_utils.engine.attention import ROWS, forward, product, weighted, whole
from rag_utils.engine.reading import Past


class Branches:
    """Replies that grow behind shared texts: the keys and values of a text stand once, those of its replies once each.

    `owner` is the text of each reply, `known` the tokens of each text, `lengths` those of each reply so far; behind the last come zeros, up
    to a multiple of `KEYS`. Attention sees both: the scores of a reply's next token are those under its text, computed for all replies to
    that text in one product, and those under the reply so far, under one softmax.
    """

    def __init__(self, texts: Sequence[Past], samples: Sequence[int]):
        device = texts[0].held.device
        self.texts = _side_by_side([text.held[:, :, None] for text in texts])  # (layers, 2, texts, heads, longest, size)
        self.known = torch.tensor([text.length for text in texts], device=device)
        self.owner = repeated(torch.arange(len(samples), device=device), samples)
        self.lengths = torch.zeros_like(self.owner)
        layers, _, _, heads, _, size = self.texts.shape
        self.replies = self.texts.new_zeros((layers, 2, len(self.owner), heads, 0, size))

    def tokens_with(self, other: "Branches") -> int:
        """Room for the texts of both, each as long as the longest, and for the replies as they will be after the next step."""
        longest, texts = max(each.texts.shape[4] for each in (self, other)), len(self.known) + len(other.known)
        return texts * longest + (len(self.owner) + len(other.owner)) * whole(int(self.lengths.max()) + 1)

    def join(self, other: "Branches") -> "Branches":
        """Both; `other` has not grown yet."""
        self.replies = pad(self.replies, (0, 0, 0, 0, 0, 0, 0, len(other.owner)))
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.owner = torch.cat([self.owner, other.owner + len(self.known)])
        self.known = torch.cat([self.known, other.known])
        self.texts = _side_by_side([self.texts, other.texts])
        return self

    def keep(self, rows: torch.Tensor) -> None:
        """Drop the other replies, and texts without a reply once they are half of all."""
        self.lengths, self.owner = self.lengths[rows], self.owner[rows]
        self.replies = self.replies[:, :, rows, :, : whole(int(self.lengths.max()))]
        texts, owner = self.owner.unique(return_inverse=True)
        if 2 * len(texts) <= len(self.known):
            self.texts, self.known, self.owner = self.texts[:, :, texts], self.known[texts], owner

    def step(self, model, tokens: torch.Tensor) -> torch.Tensor:
        """Add one token to each reply; the logits of the next."""
        self._rows = torch.arange(len(self.owner), device=self.owner.device)
        self._slot = self._rows - torch.searchsorted(self.owner, self.owner)  # replies to one text stand together
        self._slots = int(self._slot.max()) + 1
        self._alone = self._slots == 1 and len(self._rows) == len(self.known)
        self._room = whole(int(self.lengths.max()) + 1)
        known = self.known[self.owner]
        widths = (self.texts.shape[4], known), (self._room, self.lengths + 1)
        beyond = [torch.arange(width, device=known.device) >= length[:, None] for width, length in widths]
        self._hidden = torch.cat(beyond, dim=1)[:, None, None]
        if (more := self._room - self.replies.shape[4]) > 0:
            self.replies = pad(self.replies, (0, 0, 0, more))
        logits = forward(model, tokens[:, None], (known + self.lengths)[:, None], self._attend)
        self.lengths = self.lengths + 1
        return logits[:, -1]

    def _attend(self, layer: int, query, key, value, scaling: float) -> torch.Tensor:
        """(replies, 1, heads, size): attention of one token of each reply; query (replies, heads, 1, size)."""
        (text_keys, text_values), (keys, values) = self.texts[layer], self.replies[layer]
        for held, new in ((keys, key), (values, value)):
            held[self._rows, :, self.lengths] = new[:, :, 0]
        rows, heads, _, size = query.shape
        shared = heads // key.shape[1]  # heads that use the same keys
        query = (query * scaling).reshape(rows, -1, shared, size)
        scores = torch.cat([self._under_texts(product, query, text_keys.mT), product(query, keys.mT)], dim=-1)
        weights = torch.softmax(scores.masked_fill_(self._hidden, -torch.inf).float(), dim=-1).to(query.dtype)
        text, reply = weights.split([text_keys.shape[2], keys.shape[2]], dim=-1)
        attended = self._under_texts(weighted, text, text_values)
        attended += weighted(reply.flatten(0, 1), values.flatten(0, 1)).view_as(attended)
        return attended.reshape(rows, 1, heads, size)

    def _under_texts(self, product, left, right) -> torch.Tensor:
        """left (replies, groups, heads of a group, n) times its text's right (texts, groups, n, m)."""
        texts, (_, groups, shared, n) = len(right), left.shape
        if self._alone:
            return product(left.flatten(0, 1), right.flatten(0, 1)).unflatten(0, (texts, groups))
        used = self._slots * shared
        spread = left.new_zeros((texts, groups, whole(used, ROWS), n))
        spread[:, :, :used].unflatten(2, (self._slots, shared))[self.owner, :, self._slot] = left
        spread_out = product(spread.flatten(0, 1), right.flatten(0, 1)).view(texts, groups, -1, right.shape[-1])
        return spread_out[:, :, :used].unflatten(2, (self._slots, shared))[self.owner, :, self._slot]


def _side_by_side(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The texts of all parts (layers, 2, texts, heads, tokens, size), each as long as the longest, zeros behind."""
    texts, longest = sum(part.shape[2] for part in parts), whole(max(part.shape[4] for part in parts))
    layers, _, _, heads, _, size = parts[0].shape
    joined, first = parts[0].new_zeros((layers, 2, texts, heads, longest, size)), 0
    for part in parts:
        joined[:, :, first : (first := first + part.shape[2]), :, : part.shape[4]] = part
    return joined


def repeated(tensor: torch.Tensor, times: Sequence[int]) -> torch.Tensor:
    return torch.repeat_interleave(tensor, torch.tensor(times, device=tensor.device), dim=0)
