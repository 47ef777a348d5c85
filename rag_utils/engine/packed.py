"""Segments of many texts laid end to end in one row, so that nothing is padded; each attends to its own text only."""

from collections.abc import Sequence

import torch

from rag_utils.engine.attention import causal, forward, side_by_side
from rag_utils.engine.past import Row


def read(
    model, segments: Sequence[list[int]], pasts: Sequence[Row | None], keep: Sequence[int]
) -> tuple[list[torch.Tensor], list[Row]]:
    """One pass over several segments, each behind the keys and values of what comes before it (None: nothing).

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
