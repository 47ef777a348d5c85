"""The loop that runs a model over a prefix tree: what texts have in common is read once, and all live replies grow together.

The texts form a tree of segments (`tree.py`). Segments are read in batches bounded by a budget of tokens, each behind the keys and
values of what comes before it; those are kept only while something below still needs them, because one branch is finished before the
next is begun. Texts that end wait until there are enough of them, then one token is drawn for all at each step, and a finished reply
leaves the batch. Encoder-decoders and models with a sliding window cannot share beginnings in this way: they read plain batches.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicLayer

from rag_utils.tree import Node, prefix_tree, size

Tokens = list[int]
ALLOWANCE = 0.03  # share of the distinct tokens that may be read twice so that steps are fewer and larger
SLICE = 256  # positions whose distribution over the vocabulary is held at once


@dataclass(frozen=True)
class Reply:
    """Tokens of one reply, the one that ended it included, and the log-likelihood of each under the raw distribution (nats)."""

    tokens: Tokens
    log_likelihood: list[float]


@dataclass
class Count:
    """Tokens that the model read or wrote. `distinct` is what no way of sharing beginnings could save."""

    computed: int = 0
    distinct: int = 0


def shares_prefixes(model) -> bool:
    """Whether this model reads a prefix tree; otherwise it reads plain batches."""
    config = model.config.get_text_config()
    sliding = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    plain = model._supports_attention_backend and not getattr(config, "attn_logit_softcapping", None)
    return plain and not model.config.is_encoder_decoder and not sliding and kinds == {"full_attention"}


@torch.inference_mode()
def sample(
    model,
    prompts: Sequence[Tokens],
    uniforms: Sequence[np.ndarray],
    *,
    temperature: float,
    finished: Callable[[Tokens], bool],
    batch_tokens: int,
    count: Count | None = None,
) -> Iterator[list[tuple[int, list[Reply]]]]:
    """Yield, batch by batch, (index of the prompt, its replies).

    prompts     : token ids, none empty
    uniforms    : per prompt (samples, steps) numbers in [0, 1), one for each token that may be drawn
    temperature : 0 takes the likeliest token; otherwise the inverse of the cumulative distribution of softmax(logits / temperature)
    finished    : whether a reply ends with its last token
    """
    count = Count() if count is None else count
    if shares_prefixes(model):
        count.distinct += size(prefix_tree(prompts))
        groups = _ended(model, prefix_tree(prompts, allowance=ALLOWANCE), batch_tokens, count)
    else:
        groups = _plain(model, prompts, [len(numbers) for numbers in uniforms], batch_tokens, count)
    live = _Live(model, uniforms, temperature, finished, count)
    for group in _portions(groups, uniforms, max(1, batch_tokens // 2)):
        while live.rows and (live.tokens > batch_tokens // 2 or not group.state.joins):
            yield from live.step()
        live.admit(group)
    while live.rows:
        yield from live.step()


@torch.inference_mode()
def score(
    model,
    contexts: Sequence[Tokens],
    continuations: Sequence[Tokens],
    *,
    batch_tokens: int,
    count: Count | None = None,
) -> Iterator[list[tuple[int, np.ndarray, np.ndarray]]]:
    """Yield, batch by batch, (index, log-likelihood of each continuation token, lead of the likeliest token over it), in nats.

    The lead is 0 where the continuation's token is the likeliest one.
    """
    count = Count() if count is None else count
    if not shares_prefixes(model):
        yield from _plain_scores(model, contexts, continuations, batch_tokens, count)
        return
    texts = [[*context, *continuation] for context, continuation in zip(contexts, continuations, strict=True)]
    root = prefix_tree(texts, allowance=ALLOWANCE)
    count.distinct += size(prefix_tree(texts))
    wanted = _first_wanted(root, [len(context) for context in contexts])
    for ended, _, _ in _visit(model, _start(root), batch_tokens, count, wanted):
        ways = [(pending.node, np.concatenate(pending.scores, axis=1)) for pending in ended]
        yield [(i, *way[:, len(contexts[i]) :]) for node, way in ways for i in node.ends]


def batches(
    lengths: Sequence[int], batch_tokens: int, *, widths: Sequence[int] | None = None, enough: int = 1024
) -> Iterator[list[int]]:
    """Group indices so that rows x longest stays within the budget; similar widths together, widest first; never an empty batch.

    lengths : tokens of each row, those before it included
    widths  : tokens that are read of each row, by default all; a batch of `enough` of them takes no row that is much narrower, since it
              would be padded

    >>> list(batches([5, 9, 4, 8], 18))
    [[1, 3], [0, 2]]
    """
    widths = lengths if widths is None else widths
    batch, longest = [], 0
    for i in sorted(range(len(lengths)), key=lambda i: (-widths[i], -lengths[i])):
        widest = widths[batch[0]] if batch else 0
        full = (len(batch) + 1) * max(longest, lengths[i]) > batch_tokens
        if batch and (full or (len(batch) * widest >= enough and widths[i] < 0.85 * widest)):
            yield batch
            batch, longest = [], 0
        batch.append(i)
        longest = max(longest, lengths[i])
    if batch:
        yield batch


# --- reading the tree ------------------------------------------------------------------------------------------------


@dataclass
class _Pending:
    """A segment to read: behind which keys and values, and the scores of the tokens on the way to it."""

    node: Node
    past: "_Past | None"
    scores: list[np.ndarray]
    first: np.ndarray  # (2, 1): log-likelihood and lead of its first token, known from the segment before


@dataclass
class _Group:
    """Texts that were read to their end: one row each of `state` and of `logits`, the distribution of their next token."""

    texts: list[int]
    lengths: list[int]
    state: object
    logits: torch.Tensor


UNKNOWN = np.full((2, 1), np.nan)


def _start(root: Node) -> list[_Pending]:
    nodes = [root] if root.tokens else root.children
    return [_Pending(node, None, [], UNKNOWN) for node in nodes]


def _visit(model, waiting: list[_Pending], batch_tokens: int, count: Count, wanted: dict[int, int] | None):
    """Read the segments and all below them, one batch at a time; yield (segments, their keys and values, logits of their last tokens).

    wanted : per node (by id) the first position whose token is to be scored; None scores nothing
    """
    nodes = [pending.node for pending in waiting]
    for batch in batches([node.stop for node in nodes], batch_tokens, widths=[len(node.tokens) for node in nodes]):
        chosen = [waiting[i] for i in batch]
        keep = 1 if wanted is None else max(_positions_wanted(pending.node, wanted) for pending in chosen)
        past, logits = _read(model, chosen, keep)
        count.computed += sum(len(pending.node.tokens) for pending in chosen)
        below = []
        for row, pending in enumerate(chosen):
            node = pending.node
            first = [UNKNOWN] * len(node.children)
            if wanted is not None:
                pending.scores.append(_segment_scores(node, pending.first, logits[row]))
                heads = [child.tokens[0] for child in node.children if wanted[id(child)] <= node.stop]
                if heads:
                    known = _token_scores(logits[row, -1:].expand(len(heads), -1), heads)
                    columns = iter(np.split(known, len(heads), axis=1))
                    first = [next(columns) if wanted[id(child)] <= node.stop else UNKNOWN for child in node.children]
            if node.children:
                row_past = past.row(row)
                below += [
                    _Pending(c, row_past, list(pending.scores), f) for c, f in zip(node.children, first, strict=True)
                ]
        ended = [row for row, pending in enumerate(chosen) if pending.node.ends]
        if ended:
            yield [chosen[row] for row in ended], past.take(ended), logits[ended, -1]
        del past, logits
        yield from _visit(model, below, batch_tokens, count, wanted)


def _read(model, chosen: list[_Pending], keep: int) -> tuple["_Past", torch.Tensor]:
    """One pass over a batch of segments: keys and values of their texts so far, logits of their last `keep` places."""
    ids, mask = _pad([pending.node.tokens for pending in chosen], "left", model.device)
    places = (mask.cumsum(dim=1) - 1).clamp(min=0)
    starts = torch.tensor([pending.node.start for pending in chosen], device=model.device)
    past = _Past.stack([pending.past for pending in chosen])
    if past is None:
        past = _Past(Cache(layer_class_to_replicate=_Room), mask)
    else:
        past.mask = torch.cat([past.mask, mask], dim=1)
    logits = model(
        input_ids=ids,
        attention_mask=past.mask,
        position_ids=places + starts[:, None],
        past_key_values=past.cache,
        use_cache=True,
        logits_to_keep=keep,
    ).logits
    return past, logits


def _first_wanted(root: Node, contexts: Sequence[int]) -> dict[int, int]:
    """Per node the first position at which some text through it has a token to be scored."""
    found = {}
    for node in reversed(list(root.walk())):
        found[id(node)] = min([contexts[i] for i in node.ends] + [found[id(child)] for child in node.children])
    return found


def _positions_wanted(node: Node, wanted: dict[int, int]) -> int:
    """How many of the segment's last places have logits that score a token, at least 1."""
    return max(1, node.stop - max(node.start, wanted[id(node)] - 1))


def _segment_scores(node: Node, first: np.ndarray, logits: torch.Tensor) -> np.ndarray:
    """(2, tokens): log-likelihood and lead of each token of the segment, NaN where its logits were not asked for."""
    scores = np.full((2, len(node.tokens)), np.nan)
    scores[:, :1] = first
    known = min(len(logits), len(node.tokens)) - 1  # the last place predicts what comes after the segment
    if known > 0:
        scores[:, -known:] = _token_scores(logits[-known - 1 : -1], node.tokens[-known:])
    return scores


def _token_scores(logits: torch.Tensor, tokens: Sequence[int]) -> np.ndarray:
    """(2, n): log-likelihood of each token and how far the likeliest token leads it; logits (n, vocabulary)."""
    tokens = torch.as_tensor(tokens, device=logits.device)
    parts = []
    for start in range(0, len(tokens), SLICE):
        log_probability = torch.log_softmax(logits[start : start + SLICE].float(), dim=-1)
        chosen = log_probability.gather(1, tokens[start : start + SLICE, None])[:, 0]
        parts.append(torch.stack([chosen, log_probability.max(dim=-1).values - chosen]))
    return torch.cat(parts, dim=1).cpu().numpy().astype(np.float64)


# --- replies ---------------------------------------------------------------------------------------------------------


def _ended(model, root: Node, batch_tokens: int, count: Count) -> Iterator[_Group]:
    for chosen, past, logits in _visit(model, _start(root), batch_tokens, count, None):
        rows = [row for row, pending in enumerate(chosen) for _ in pending.node.ends]
        texts = [i for pending in chosen for i in pending.node.ends]
        if len(rows) > len(chosen):
            past, logits = past.take(rows), logits[rows]
        yield _Group(texts, [chosen[row].node.stop for row in rows], past, logits)


def _portions(groups: Iterator[_Group], uniforms: Sequence[np.ndarray], batch_tokens: int) -> Iterator[_Group]:
    """The same groups, cut where their replies would not fit into the budget."""
    for group in groups:
        lengths = [n + uniforms[i].size for i, n in zip(group.texts, group.lengths, strict=True)]
        parts = list(batches(lengths, batch_tokens, enough=batch_tokens))
        for part in parts:
            texts, sizes = [group.texts[k] for k in part], [group.lengths[k] for k in part]
            whole = len(parts) == 1
            yield group if whole else _Group(texts, sizes, group.state.take(part), group.logits[part])


class _Live:
    """The replies that are growing. New texts may join between two steps; a finished row stays until an eighth of the rows is finished,
    since taking it out copies the keys and values of the others."""

    def __init__(self, model, uniforms, temperature: float, finished, count: Count):
        self.model, self.uniforms, self.temperature, self.finished, self.count = (
            model,
            uniforms,
            temperature,
            finished,
            count,
        )
        self.rows: list[tuple[int, int]] = []  # (text, sample) of each row of the state
        self.alive: list[bool] = []
        self.replies: dict[int, list[Reply]] = {}
        self.open: dict[int, int] = {}  # text -> samples that still grow
        self.state = self.logits = None

    @property
    def tokens(self) -> int:
        """Room that the rows take, in tokens."""
        return self.state.tokens if self.rows else 0

    def admit(self, group: _Group) -> None:
        samples = [len(self.uniforms[i]) for i in group.texts]
        state, logits = group.state.branch(samples), _repeated(group.logits, samples)
        self.state = self.state.join(state) if self.rows else state
        self.logits = torch.cat([self.logits, logits]) if self.rows else logits
        for i, n in zip(group.texts, samples, strict=True):
            self.rows += [(i, sample) for sample in range(n)]
            self.replies[i], self.open[i] = [Reply([], []) for _ in range(n)], n
        self.alive += [True] * sum(samples)

    def step(self) -> Iterator[list[tuple[int, list[Reply]]]]:
        """Draw one token for every row; yield the texts whose last reply ended with it."""
        log_probability = torch.log_softmax(self.logits.float(), dim=-1)
        tokens = self._choose(log_probability)
        chosen = log_probability.gather(1, tokens[:, None])[:, 0].tolist()
        complete = []
        for place, token in enumerate(tokens.tolist()):
            if not self.alive[place]:
                continue
            text, sample = self.rows[place]
            reply = self.replies[text][sample]
            reply.tokens.append(token)
            reply.log_likelihood.append(chosen[place])
            if self.finished(reply.tokens) or len(reply.tokens) == self.uniforms[text].shape[1]:
                self.alive[place] = False
                self.open[text] -= 1
                if not self.open[text]:
                    complete.append((text, self.replies.pop(text)))
        tokens = self._drop(tokens)
        if self.rows:
            self.logits = self.state.step(self.model, tokens)
            self.count.computed += len(self.rows)
            self.count.distinct += sum(self.alive)
        if complete:
            yield complete

    def _choose(self, log_probability: torch.Tensor) -> torch.Tensor:
        if self.temperature == 0:
            return log_probability.argmax(dim=-1)
        numbers = [
            self.uniforms[text][sample, len(self.replies[text][sample].tokens)] if self.alive[place] else 0.0
            for place, (text, sample) in enumerate(self.rows)
        ]
        cumulative = torch.softmax(self.logits.float() / self.temperature, dim=-1).double().cumsum(dim=-1)
        threshold = torch.tensor(numbers, dtype=torch.float64, device=cumulative.device)[:, None] * cumulative[:, -1:]
        return torch.searchsorted(cumulative, threshold, right=True)[:, 0].clamp(max=cumulative.shape[-1] - 1)

    def _drop(self, tokens: torch.Tensor) -> torch.Tensor:
        """Take finished rows out, if they are enough or all; the tokens of the rows that stay."""
        stay = [place for place, alive in enumerate(self.alive) if alive]
        if not stay:
            self.rows, self.alive, self.state, self.logits = [], [], None, None
        elif len(self.rows) - len(stay) >= max(1, len(self.rows) // 8):
            rows = torch.tensor(stay, device=tokens.device)
            self.state.keep(rows)
            self.rows, self.alive = [self.rows[place] for place in stay], [True] * len(stay)
            return tokens[rows]
        return tokens


# --- keys and values -------------------------------------------------------------------------------------------------


class _Room(DynamicLayer):
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


class _Past:
    """Keys and values of some rows of text, padded on the left or between segments where `mask` is 0."""

    joins = True  # texts of two of them may be continued together

    def __init__(self, cache: Cache, mask: torch.Tensor):
        self.cache, self.mask = cache, mask

    @classmethod
    def of(cls, layers: list[tuple[torch.Tensor, torch.Tensor]], mask: torch.Tensor) -> "_Past":
        cache = Cache(layer_class_to_replicate=_Room)
        for number, (keys, values) in enumerate(layers):
            cache.update(keys, values, number)
        return cls(cache, mask)

    @classmethod
    def stack(cls, pasts: "list[_Past | None]") -> "_Past | None":
        """One row each of the pasts, which have one row each."""
        if pasts[0] is None:
            return None
        if all(past is pasts[0] for past in pasts):
            rows = len(pasts)
            layers = [(k.expand(rows, -1, -1, -1), v.expand(rows, -1, -1, -1)) for k, v in pasts[0].layers]
            return cls.of(layers, pasts[0].mask.expand(rows, -1))
        return cls.join(pasts)

    @classmethod
    def join(cls, pasts: "list[_Past]") -> "_Past":
        """All rows of the pasts, the shorter ones padded on the left."""
        longest = max(past.mask.shape[1] for past in pasts)
        pads = [longest - past.mask.shape[1] for past in pasts]

        def padded(tensors, dimension):
            padding = [0, 0] * (tensors[0].ndim - 1 - dimension)
            return torch.cat([torch.nn.functional.pad(t, (*padding, n, 0)) for t, n in zip(tensors, pads, strict=True)])

        layers = [
            tuple(padded([past.layers[number][kind] for past in pasts], 2) for kind in (0, 1))
            for number in range(len(pasts[0].layers))
        ]
        return cls.of(layers, padded([past.mask for past in pasts], 1))

    @property
    def layers(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(layer.keys, layer.values) for layer in self.cache.layers]

    def row(self, number: int) -> "_Past":
        """One row without its padding."""
        held = self.mask[number].bool()
        layers = [(k[number : number + 1, :, held], v[number : number + 1, :, held]) for k, v in self.layers]
        return _Past.of(layers, self.mask[number : number + 1, held])

    def take(self, rows: list[int]) -> "_Past":
        """These rows, in this order; all of them in order cost nothing."""
        if list(rows) == list(range(len(self.mask))):
            return self
        return _Past.of([(k[rows], v[rows]) for k, v in self.layers], self.mask[rows])

    def branch(self, samples: Sequence[int]) -> "_Branches":
        """So many replies to each row."""
        return _Branches(self, samples)


class _Branches:
    """Replies that grow behind shared texts: the keys and values of a text stand once, those of its replies once each.

    `owner` is the text of each reply. Attention sees both: the scores of a reply's next token are those under its text, computed for all
    replies to that text in one product, and those under the reply so far, under one softmax.
    """

    joins = True
    NAME = "shared_prefix"

    def __init__(self, past: _Past, samples: Sequence[int]):
        self.past = past
        self.owner = _repeated(torch.arange(len(samples), device=past.mask.device), samples)
        self.cache = Cache(layer_class_to_replicate=_Room)
        self.mask = past.mask.new_zeros((len(self.owner), 0))

    @property
    def tokens(self) -> int:
        return self.past.mask.numel() + self.mask.numel()

    def join(self, other: "_Branches") -> "_Branches":
        """Both; `other` has not grown yet."""
        new, width = len(other.owner), self.mask.shape[1]
        if width:
            layers = [(layer.keys, layer.values) for layer in self.cache.layers]
            self.cache = Cache(layer_class_to_replicate=_Room)
            for number, pair in enumerate(layers):
                self.cache.update(*(torch.cat([t, t.new_zeros((new, *t.shape[1:]))]) for t in pair), number)
        self.mask = torch.cat([self.mask, self.mask.new_zeros((new, width))])
        self.owner = torch.cat([self.owner, other.owner + len(self.past.mask)])
        self.past = _Past.join([self.past, other.past])
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
        usual = model.config._attn_implementation
        model.config._attn_implementation = self.NAME
        try:
            return model(
                input_ids=tokens[:, None],
                position_ids=places[:, None],
                past_key_values=self.cache,
                use_cache=True,
                branches=self,
            ).logits[:, -1]
        finally:
            model.config._attn_implementation = usual

    def attend(self, layer: int, query, key, value, scaling: float) -> torch.Tensor:
        """(replies, 1, heads, size): attention of one token of each reply; query (replies, heads, 1, size)."""
        texts = self.past.cache.layers[layer]
        rows, heads, _, width = query.shape
        query = query.reshape(rows, key.shape[1], heads // key.shape[1], width)
        scores = torch.cat([self._under_texts(query, texts.keys.mT), query @ key.mT], dim=-1) * scaling
        weights = torch.softmax(scores.masked_fill(self.hidden, -torch.inf).float(), dim=-1).to(query.dtype)
        under_text, under_reply = weights.split([texts.keys.shape[2], key.shape[2]], dim=-1)
        return (self._under_texts(under_text, texts.values) + under_reply @ value).reshape(rows, 1, heads, width)

    def _under_texts(self, left, right) -> torch.Tensor:
        """left (replies, groups, heads of a group, n) times its text's right (texts, groups, n, m)."""
        spread = left.new_zeros((right.shape[0], left.shape[1], self.slots, *left.shape[2:]))
        spread[self.owner, :, self.slot] = left
        found = spread.flatten(2, 3) @ right
        return found.unflatten(2, spread.shape[2:4])[self.owner, :, self.slot]


def _attend(module, query, key, value, attention_mask, scaling=None, branches=None, **_):
    return branches.attend(module.layer_idx, query, key, value, scaling), None


AttentionInterface.register(_Branches.NAME, _attend)
AttentionMaskInterface.register(_Branches.NAME, lambda *_, **__: None)  # the mask is part of `_Branches`


def _repeated(tensor: torch.Tensor, times: Sequence[int]) -> torch.Tensor:
    return torch.repeat_interleave(tensor, torch.tensor(times, device=tensor.device), dim=0)


# --- models that cannot share beginnings -----------------------------------------------------------------------------


def _plain(model, prompts, samples, batch_tokens: int, count: Count) -> Iterator[_Group]:
    """Every prompt read in full, in padded batches; nothing is shared between two prompts."""
    lengths = [len(prompt) * n for prompt, n in zip(prompts, samples, strict=True)]
    for batch in batches(lengths, batch_tokens):
        state, logits = (_EncoderDecoder if model.config.is_encoder_decoder else _Sliding).read(
            model, [prompts[i] for i in batch]
        )
        tokens = sum(len(prompts[i]) for i in batch)
        count.computed, count.distinct = count.computed + tokens, count.distinct + tokens
        yield _Group(batch, [len(prompts[i]) for i in batch], state, logits)


def _plain_scores(model, contexts, continuations, batch_tokens: int, count: Count):
    lengths = [len(context) + len(continuation) for context, continuation in zip(contexts, continuations, strict=True)]
    kind = _EncoderDecoder if model.config.is_encoder_decoder else _Sliding
    for batch in batches(lengths, batch_tokens):
        rows = kind.score(model, [contexts[i] for i in batch], [continuations[i] for i in batch])
        tokens = sum(lengths[i] for i in batch)
        count.computed, count.distinct = count.computed + tokens, count.distinct + tokens
        yield [(i, *_token_scores(row, continuations[i])) for i, row in zip(batch, rows, strict=True)]


class _Sliding:
    """A decoder whose cache only the model itself can make."""

    joins = False

    def __init__(self, cache, mask):
        self.cache, self.mask = cache, mask

    @classmethod
    def read(cls, model, prompts):
        ids, mask = _pad(prompts, "left", model.device)
        places = (mask.cumsum(dim=1) - 1).clamp(min=0)
        out = model(input_ids=ids, attention_mask=mask, position_ids=places, use_cache=True, logits_to_keep=1)
        return cls(out.past_key_values, mask), out.logits[:, -1]

    @property
    def tokens(self) -> int:
        return self.mask.numel()

    def take(self, rows: list[int]) -> "_Sliding":
        return _copied(self, rows)

    def branch(self, samples: Sequence[int]) -> "_Sliding":
        self.keep(_repeated(torch.arange(len(samples), device=self.mask.device), samples))
        return self

    def keep(self, rows: torch.Tensor) -> None:
        self.cache.reorder_cache(rows)
        self.mask = self.mask[rows]

    def step(self, model, tokens: torch.Tensor) -> torch.Tensor:
        self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], dim=1)
        return model(
            input_ids=tokens[:, None],
            attention_mask=self.mask,
            position_ids=self.mask.sum(dim=1, keepdim=True) - 1,
            past_key_values=self.cache,
            use_cache=True,
        ).logits[:, -1]

    @staticmethod
    def score(model, contexts, continuations):
        ids, mask = _pad([[*a, *b] for a, b in zip(contexts, continuations, strict=True)], "left", model.device)
        places = (mask.cumsum(dim=1) - 1).clamp(min=0)
        last = max(map(len, continuations)) + 1
        logits = model(
            input_ids=ids, attention_mask=mask, position_ids=places, use_cache=False, logits_to_keep=last
        ).logits
        return [row[-len(tokens) - 1 : -1] for row, tokens in zip(logits, continuations, strict=True)]


class _EncoderDecoder:
    """The encoder reads the prompt; the decoder starts from the model's own start token."""

    joins = False

    def __init__(self, states, mask):
        self.states, self.mask, self.cache = states, mask, None

    @classmethod
    def read(cls, model, prompts):
        ids, mask = _pad(prompts, "right", model.device)
        state = cls(model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state, mask)
        start = torch.full((len(prompts),), model.config.decoder_start_token_id, device=ids.device)
        return state, state.step(model, start)

    @property
    def tokens(self) -> int:
        return self.mask.numel()

    def take(self, rows: list[int]) -> "_EncoderDecoder":
        return _copied(self, rows)

    def branch(self, samples: Sequence[int]) -> "_EncoderDecoder":
        self.keep(_repeated(torch.arange(len(samples), device=self.mask.device), samples))
        return self

    def keep(self, rows: torch.Tensor) -> None:
        self.cache.reorder_cache(rows)
        self.states, self.mask = self.states[rows], self.mask[rows]

    def step(self, model, tokens: torch.Tensor) -> torch.Tensor:
        out = model(
            encoder_outputs=(self.states,),
            attention_mask=self.mask,
            decoder_input_ids=tokens[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        self.cache = out.past_key_values
        return out.logits[:, -1]

    @staticmethod
    def score(model, contexts, continuations):
        ids, mask = _pad(contexts, "right", model.device)
        start = model.config.decoder_start_token_id
        decoder_ids, _ = _pad([[start, *tokens[:-1]] for tokens in continuations], "right", model.device)
        logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids, use_cache=False).logits
        return [row[: len(tokens)] for row, tokens in zip(logits, continuations, strict=True)]


def _copied(state, rows: list[int]):
    """These rows of a state, the state itself left as it is."""
    part = copy.deepcopy(state)
    part.keep(torch.tensor(rows, device=state.mask.device))
    return part


def _pad(rows: Sequence[Tokens], side: str, device) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, longest) token ids and mask; padded places hold token 0 and are masked."""
    longest = max(map(len, rows))
    ids = torch.zeros((len(rows), longest), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(rows):
        place = slice(longest - len(tokens), None) if side == "left" else slice(0, len(tokens))
        ids[row, place] = torch.tensor(tokens)
        mask[row, place] = 1
    return ids.to(device), mask.to(device)
