"""Segments of many texts laid end to end in one row, so that nothing is padded; each attends to its own text only."""

from collections.abc import Sequence

import torch

from rag_utils.engine.attention import attention, causal, side_by_side
from rag_utils.engine.past import Row
from rag_utils.engine.products import fast_products


class Packed:
    """One pass of a model over several segments, each behind the keys and values of what comes before it (None: nothing).

    `rows` holds, after `run`, the keys and values of each text up to the end of its segment.
    """

    def __init__(self, segments: Sequence[list[int]], pasts: Sequence[Row | None]):
        self.segments, self.pasts = segments, pasts
        self.starts = [0 if past is None else past[0][0].shape[2] for past in pasts]
        self.rows: list[Row] = [[] for _ in segments]

    def run(self, model, keep: Sequence[int]) -> list[torch.Tensor]:
        """Logits of the last keep[i] places of each segment, (keep[i], vocabulary)."""
        lengths = [len(segment) for segment in self.segments]
        places = [torch.arange(start, start + n) for start, n in zip(self.starts, lengths, strict=True)]
        stops = torch.tensor(lengths).cumsum(0).tolist()
        wanted = torch.cat([torch.arange(stop - n, stop) for stop, n in zip(stops, keep, strict=True)])
        ids = torch.tensor([token for segment in self.segments for token in segment])
        with attention(model), fast_products(model):
            logits = model(
                input_ids=ids.to(model.device)[None],
                position_ids=torch.cat(places).to(model.device)[None],
                use_cache=False,
                logits_to_keep=wanted.to(model.device),
                attend=self._attend,
            ).logits[0]
        return list(logits.split(list(keep)))

    def _attend(self, layer: int, query, key, value, scaling: float) -> torch.Tensor:
        """(1, tokens, heads, size); query (1, heads, tokens, size), keys and values of as many heads or fewer."""
        lengths = [len(segment) for segment in self.segments]
        parts = zip(*(tensor.split(lengths, dim=2) for tensor in (query, key, value)), strict=True)
        texts = []
        for row, past, (q, k, v) in zip(self.rows, self.pasts, parts, strict=True):
            if past is not None:
                k, v = (torch.cat(pair, dim=2) for pair in zip(past[layer], (k, v), strict=True))
            row.append((k, v))
            texts.append((q[0], k[0], v[0]))
        on_cpu = query.device.type == "cpu"
        attended = [causal(*text, scaling) for text in texts] if on_cpu else side_by_side(texts, scaling)
        return torch.cat(attended, dim=1).transpose(0, 1)[None]
