"""Models that cannot share beginnings: encoder-decoders, and decoders whose layers look back only so far.

Every text is read in full, in padded batches, and the model makes its own cache.
"""

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence


def state_of(model):
    """The class that holds what such a model has read."""
    return EncoderDecoder if model.config.is_encoder_decoder else Sliding


class Sliding:
    """A decoder whose cache only the model itself can make."""

    def __init__(self, cache, mask):
        self.cache, self.mask = cache, mask

    @classmethod
    def read(cls, model, prompts):
        out, mask = _read_left(model, prompts, 1, use_cache=True)
        return cls(out.past_key_values, mask), out.logits[:, -1]

    def keep(self, rows: torch.Tensor) -> None:
        self.cache.reorder_cache(rows)
        self.mask = self.mask[rows]

    def step(self, model, tokens: torch.Tensor) -> torch.Tensor:
        self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], dim=1)
        places = self.mask.sum(dim=1, keepdim=True) - 1
        read = {"input_ids": tokens[:, None], "attention_mask": self.mask, "position_ids": places}
        return model(**read, past_key_values=self.cache, use_cache=True).logits[:, -1]

    @staticmethod
    def score(model, contexts, continuations):
        texts = [[*a, *b] for a, b in zip(contexts, continuations, strict=True)]
        out, _ = _read_left(model, texts, max(map(len, continuations)) + 1, use_cache=False)
        return [row[-len(tokens) - 1 : -1] for row, tokens in zip(out.logits, continuations, strict=True)]


class EncoderDecoder:
    """The encoder reads the prompt; the decoder starts from the model's own start token."""

    def __init__(self, states, mask):
        self.states, self.mask, self.cache = states, mask, None

    @classmethod
    def read(cls, model, prompts):
        ids, mask = _padded(prompts, "right", model.device)
        state = cls(model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state, mask)
        start = torch.full((len(prompts),), model.config.decoder_start_token_id, device=ids.device)
        return state, state.step(model, start)

    def keep(self, rows: torch.Tensor) -> None:
        self.cache.reorder_cache(rows)
        self.states, self.mask = self.states[rows], self.mask[rows]

    def step(self, model, tokens: torch.Tensor) -> torch.Tensor:
        read = {"encoder_outputs": (self.states,), "attention_mask": self.mask}
        out = model(**read, decoder_input_ids=tokens[:, None], past_key_values=self.cache, use_cache=True)
        self.cache = out.past_key_values
        return out.logits[:, -1]

    @staticmethod
    def score(model, contexts, continuations):
        ids, mask = _padded(contexts, "right", model.device)
        start = model.config.decoder_start_token_id
        decoder_ids, _ = _padded([[start, *tokens[:-1]] for tokens in continuations], "right", model.device)
        logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids, use_cache=False).logits
        return [row[: len(tokens)] for row, tokens in zip(logits, continuations, strict=True)]


def _read_left(model, texts, last: int, **options):
    """What the model makes of texts padded on the left, with logits of the last places, and their mask."""
    ids, mask = _padded(texts, "left", model.device)
    places = (mask.cumsum(dim=1) - 1).clamp(min=0)
    return model(input_ids=ids, attention_mask=mask, position_ids=places, logits_to_keep=last, **options), mask


def _padded(rows: Sequence[list[int]], side: str, device) -> list[torch.Tensor]:
    """(rows, longest) token ids and mask; padded places hold token 0 and are masked."""
    tensors = [torch.tensor(row) for row in rows], [torch.ones(len(row), dtype=torch.long) for row in rows]
    return [pad_sequence(each, batch_first=True, padding_side=side).to(device) for each in tensors]
