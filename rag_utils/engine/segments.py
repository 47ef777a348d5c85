"""Reading a prefix tree with a model: each segment once, behind the keys and values of what comes before it.

Segments are read in batches bounded by a budget of tokens. One branch is finished before the next is begun, and keys and values are kept
only while something below still needs them: memory follows the budget, not the number of texts.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rag_utils.engine.attention import forward
from rag_utils.engine.reading import InTurn, Past, SideBySide
from rag_utils.engine.tree import Count, Node

PASS = 1024  # tokens of one pass, and logits: enough for full speed, and few enough that what a layer leaves is near when the next wants it
GPU_PASS = 32768  # on a GPU, which is idle while a product is being asked for
GPU_LOGITS = 8192  # of a pass there
SLICE = 256  # positions whose distribution over the vocabulary is held at once
UNKNOWN = np.full((2, 1), np.nan)
Warp = Callable[[torch.Tensor], torch.Tensor]  # logits (n, vocabulary) -> the same with some changed or -inf


@dataclass
class Pending:
    """A segment to read: behind which keys and values, and the scores of the tokens on the way to it and of its first."""

    node: Node
    past: Past | None
    scores: list[np.ndarray]


def read(model, segments: Sequence[list[int]], pasts: Sequence[Past | None], last: Sequence[int], keep: Sequence[bool]) -> tuple:
    """One pass over several segments, each behind the keys and values of what comes before it (None: nothing).

    returns : logits of the last last[i] places of each segment, one after the other (sum of last, vocabulary); keys and values of each
              text up to its end, None where keep[i] is not
    """
    lengths = [len(segment) for segment in segments]
    how = InTurn if model.device.type == "cpu" else SideBySide
    reading = how(model.config.get_text_config().num_hidden_layers, lengths, pasts, keep)
    places = [torch.arange(start, stop) for start, stop in zip(reading.starts, reading.stops, strict=True)]
    stops = torch.tensor(lengths).cumsum(0).tolist()
    wanted = [torch.arange(stop - n, stop) for stop, n in zip(stops, last, strict=True)]
    ids = torch.tensor([token for segment in segments for token in segment])
    ids, place, wanted = (tensor.to(model.device) for tensor in (ids, torch.cat(places), torch.cat(wanted)))
    logits = forward(model, ids[None], place[None], reading.attend, logits_to_keep=wanted)
    return logits[0], reading.left()


def start(root: Node) -> list[Pending]:
    """What is read first: the root, or what is below an empty one."""
    return [Pending(node, None, [UNKNOWN]) for node in ([root] if root.tokens else root.children)]


def visit(model, waiting: list[Pending], batch_tokens: int, count: Count, wanted=None, warp: Warp | None = None):
    """Read the segments and all below them, one batch at a time.

    yields : (segments that end a text, their keys and values, logits of their last tokens)
    wanted : what to score, as `what_is_wanted` tells it; then yields (segments, scores of what follows each text that ends there, None)
    warp   : what becomes of all logits before tokens are scored by them
    """
    most = (PASS, PASS) if model.device.type == "cpu" else (min(batch_tokens, GPU_PASS), min(batch_tokens, GPU_LOGITS))
    limits = batch_tokens, *most  # tokens of the texts that are held, tokens that are read, logits
    for chosen, last in _portions(waiting, limits, wanted):
        segments, behind = [each.node.tokens for each in chosen], [each.past for each in chosen]
        keep = [bool(each.node.children or (each.node.ends and wanted is None)) for each in chosen]
        logits, pasts = read(model, segments, behind, last, keep)
        count.computed += sum(map(len, segments))
        firsts = [[UNKNOWN] * len(each.node.children) for each in chosen] if wanted is None else _score(chosen, last, logits, wanted, warp)
        below = [
            Pending(child, past, [*pending.scores, first])
            for pending, past, own in zip(chosen, pasts, firsts, strict=True)
            for child, first in zip(pending.node.children, own, strict=False)
        ]
        ended = [row for row, pending in enumerate(chosen) if pending.node.ends]
        if ended and wanted is not None:
            yield [chosen[row] for row in ended], [firsts[row][len(chosen[row].node.children) :] for row in ended], None
        elif ended:
            yield [chosen[row] for row in ended], [pasts[row] for row in ended], logits[ended]
        del logits, pasts, behind
        yield from visit(model, below, batch_tokens, count, wanted, warp)


def _portions(waiting: list[Pending], limits: tuple[int, ...], wanted) -> Iterator[tuple[list, list[int]]]:
    """Segments to read in one pass, longest texts first, and of how many of their last places the logits are wanted."""
    chosen, last, used = [], [], np.zeros(3)
    for pending in sorted(waiting, key=lambda pending: -pending.node.stop):
        node = pending.node
        scored = 1 if wanted is None else max(1, node.stop - max(node.start, wanted[id(node)][0] - 1))
        cost = np.array([node.stop, len(node.tokens), scored])
        if chosen and (used + cost > limits).any():
            yield chosen, last
            chosen, last, used = [], [], np.zeros(3)
        chosen.append(pending)
        last.append(scored)
        used = used + cost
    if chosen:
        yield chosen, last


def what_is_wanted(root: Node, contexts: Sequence[int], finals: Sequence[int]) -> dict[int, tuple[int, list[int]]]:
    """Per node (by id) the first position to be scored, and the tokens that may follow: the first of its children, finals of its texts."""
    wanted = {}
    for node in reversed(list(root.walk())):
        first = min([contexts[i] for i in node.ends] + [wanted[id(child)][0] for child in node.children])
        wanted[id(node)] = first, [*(child.tokens[0] for child in node.children), *(finals[i] for i in node.ends)]
    return wanted


def _score(chosen: list[Pending], last: list[int], logits: torch.Tensor, wanted: dict[int, tuple], warp: Warp | None) -> list[list]:
    """Note the scores of each segment's tokens behind the first, NaN without logits; return those of what may come after each."""
    rows, tokens, own, stop = [], [], [], 0
    for pending, n in zip(chosen, last, strict=True):
        node, first, stop = pending.node, stop, stop + n
        own.append((n - 1, len(follow := wanted[id(node)][1])))
        rows += [*range(first, stop - 1), *[stop - 1] * len(follow)]
        tokens += node.tokens[len(node.tokens) - n + 1 :] + follow
    values, firsts, at = token_scores(logits, rows, tokens, warp), [], 0
    for pending, (known, follow) in zip(chosen, own, strict=True):
        before = len(pending.node.tokens) - 1 - known
        pending.scores.append(np.pad(values[:, at : at + known], ((0, 0), (before, 0)), constant_values=np.nan))
        at += known + follow
        firsts.append(np.split(values[:, at - follow : at], follow, axis=1))
    return firsts


def token_scores(logits: torch.Tensor, rows: Sequence[int], tokens: Sequence[int], warp: Warp | None = None) -> np.ndarray:
    """(2, n): log-likelihood of each token in its row of the logits, rows ascending, and how far the likeliest token leads it."""
    firsts = range(0, len(logits), SLICE)
    bounds = np.searchsorted(rows, [*firsts, len(logits)]).tolist()
    rows, tokens = (torch.tensor(each, dtype=torch.long, device=logits.device) for each in (rows, tokens))
    parts = [logits.new_empty((2, 0), dtype=torch.float32)]
    for first, here in zip(firsts, itertools.starmap(slice, itertools.pairwise(bounds)), strict=True):
        if here.start < here.stop:
            part, row = logits[first : first + SLICE], rows[here] - first
            log_probability = torch.log_softmax((warp(part) if warp else part).float(), dim=-1)
            likelihood = log_probability[row, tokens[here]]
            parts.append(torch.stack([likelihood, log_probability.max(dim=-1).values[row] - likelihood]))
    return torch.cat(parts, dim=1).cpu().numpy().astype(np.float64)
