"""Reading a prefix tree with a model: each segment once, behind the keys and values of what comes before it.

Segments are read in batches bounded by a budget of tokens. One branch is finished before the next is begun, and keys and values are kept
only while something below still needs them: memory follows the budget, not the number of texts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rag_utils.engine.attention import causal, forward, side_by_side
from rag_utils.engine.past import Row
from rag_utils.engine.tree import Count, Node

PASS = 1024  # tokens of one pass, and logits: enough for full speed, and few enough that what a layer leaves is near when the next wants it
GPU_PASS = 8192  # on a GPU, which is idle while a product is being asked for
SLICE = 256  # positions whose distribution over the vocabulary is held at once
UNKNOWN = np.full((2, 1), np.nan)
Warp = Callable[[torch.Tensor], torch.Tensor]  # logits (n, vocabulary) -> the same with some changed or -inf


@dataclass
class Pending:
    """A segment to read: behind which keys and values, and the scores of the tokens on the way to it and of its first."""

    node: Node
    past: Row | None
    scores: list[np.ndarray]


def read(model, segments: Sequence[list[int]], pasts: Sequence[Row | None], keep: Sequence[int]) -> tuple[list, list]:
    """One pass over several segments, each behind the keys and values of what comes before it (None: nothing); nothing is padded.

    returns : logits of the last keep[i] places of each segment, (keep[i], vocabulary); keys and values of each text up to its end
    """
    lengths = [len(segment) for segment in segments]
    rows: list[Row] = [[] for _ in segments]

    def attend(layer: int, query, key, value, scaling: float) -> torch.Tensor:
        parts = zip(*(tensor.split(lengths, dim=2) for tensor in (query, key, value)), strict=True)
        texts = []
        for row, past, (q, k, v) in zip(rows, pasts, parts, strict=True):
            if past is not None:
                k, v = (torch.cat(pair, dim=2) for pair in zip(past[layer], (k, v), strict=True))
            row.append((k, v))
            texts.append((q[0], k[0], v[0]))
        on_cpu = query.device.type == "cpu"
        attended = [causal(*text, scaling) for text in texts] if on_cpu else side_by_side(texts, scaling)
        return torch.cat(attended, dim=1).transpose(0, 1)[None]

    starts = [0 if past is None else past[0][0].shape[2] for past in pasts]
    places = [torch.arange(start, start + n) for start, n in zip(starts, lengths, strict=True)]
    stops = torch.tensor(lengths).cumsum(0).tolist()
    wanted = [torch.arange(stop - n, stop) for stop, n in zip(stops, keep, strict=True)]
    ids = torch.tensor([token for segment in segments for token in segment])
    ids, place, wanted = (tensor.to(model.device) for tensor in (ids, torch.cat(places), torch.cat(wanted)))
    logits = forward(model, ids[None], place[None], attend, logits_to_keep=wanted)
    return list(logits[0].split(list(keep))), rows


def start(root: Node) -> list[Pending]:
    """What is read first: the root, or what is below an empty one."""
    return [Pending(node, None, [UNKNOWN]) for node in ([root] if root.tokens else root.children)]


def visit(model, waiting: list[Pending], batch_tokens: int, count: Count, wanted=None, warp: Warp | None = None):
    """Read the segments and all below them, one batch at a time.

    yields : (segments that end a text, their keys and values, logits of their last tokens)
    wanted : per node (by id) the first position whose token is to be scored, and then only the scores are kept; None scores nothing
    warp   : what becomes of all logits before tokens are scored by them
    """
    room = PASS if model.device.type == "cpu" else GPU_PASS
    limits = batch_tokens, room, room  # tokens of the texts that are held, tokens that are read, logits
    for chosen, keep in _portions(waiting, limits, wanted):
        logits, pasts = read(model, [each.node.tokens for each in chosen], [each.past for each in chosen], keep)
        count.computed += sum(len(pending.node.tokens) for pending in chosen)
        below = []
        for pending, past, rows in zip(chosen, pasts, logits, strict=True):
            firsts = [UNKNOWN] * len(pending.node.children)
            if wanted is not None:
                firsts = _score(pending, rows if warp is None else warp(rows), wanted)
            scored = zip(pending.node.children, firsts, strict=True)
            below += [Pending(child, past, [*pending.scores, first]) for child, first in scored]
        ended = [row for row, pending in enumerate(chosen) if pending.node.ends]
        if ended and wanted is not None:
            yield [chosen[row] for row in ended], None, None
        elif ended:
            last = torch.stack([logits[row][-1] for row in ended])
            yield [chosen[row] for row in ended], [pasts[row] for row in ended], last
        del logits, pasts, rows
        yield from visit(model, below, batch_tokens, count, wanted, warp)


def _portions(waiting: list[Pending], limits: tuple[int, int, int], wanted) -> Iterator[tuple[list, list[int]]]:
    """Segments to read in one pass, longest texts first, and of how many of their last places the logits are wanted."""
    chosen, keep, used = [], [], np.zeros(3)
    for pending in sorted(waiting, key=lambda pending: -pending.node.stop):
        node = pending.node
        scored = 1 if wanted is None else max(1, node.stop - max(node.start, wanted[id(node)] - 1))
        cost = np.array([node.stop, len(node.tokens), scored])
        if chosen and (used + cost > limits).any():
            yield chosen, keep
            chosen, keep, used = [], [], np.zeros(3)
        chosen.append(pending)
        keep.append(scored)
        used = used + cost
    if chosen:
        yield chosen, keep


def first_wanted(root: Node, contexts: Sequence[int]) -> dict[int, int]:
    """Per node the first position at which some text through it has a token to be scored."""
    firsts = {}
    for node in reversed(list(root.walk())):
        firsts[id(node)] = min([contexts[i] for i in node.ends] + [firsts[id(child)] for child in node.children])
    return firsts


def _score(pending: Pending, logits: torch.Tensor, wanted: dict[int, int]) -> list[np.ndarray]:
    """Note the scores of the segment's tokens behind the first, NaN without logits; return those of what may come first after it."""
    node, children = pending.node, pending.node.children
    known = token_scores(logits[:-1], node.tokens[len(node.tokens) - len(logits) + 1 :])
    pending.scores.append(np.pad(known, ((0, 0), (len(node.tokens) - len(logits), 0)), constant_values=np.nan))
    if all(wanted[id(child)] > node.stop for child in children):
        return [UNKNOWN] * len(children)
    heads = [child.tokens[0] for child in children]
    return np.split(token_scores(logits[-1:].expand(len(heads), -1), heads), len(heads), axis=1)


def token_scores(logits: torch.Tensor, tokens: Sequence[int]) -> np.ndarray:
    """(2, n): log-likelihood of each token and how far the likeliest token leads it; logits (n, vocabulary)."""
    tokens, parts = torch.tensor(tokens, dtype=torch.long, device=logits.device), []
    for rows, chosen in zip(logits.split(SLICE), tokens.split(SLICE), strict=True):
        log_probability = torch.log_softmax(rows.float(), dim=-1)
        likelihood = log_probability.gather(1, chosen[:, None])[:, 0]
        parts.append(torch.stack([likelihood, log_probability.max(dim=-1).values - likelihood]))
    return torch.cat(parts, dim=1).cpu().numpy().astype(np.float64)
