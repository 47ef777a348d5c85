"""The loop that runs a model: many prompts to sampled replies, many texts to log-likelihoods.

Prompts of similar length share a batch, a batch is bounded by a budget of tokens, a prompt is read once for all its samples, and a
finished reply leaves the batch. Works for decoder-only models and for encoder-decoders; on CPU and GPU.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

Tokens = list[int]


@dataclass(frozen=True)
class Reply:
    """Tokens of one reply, the one that ended it included, and the log-likelihood of each under the raw distribution (nats)."""

    tokens: Tokens
    log_likelihood: list[float]


@torch.inference_mode()
def sample(
    model,
    prompts: Sequence[Tokens],
    uniforms: Sequence[np.ndarray],
    *,
    temperature: float,
    finished: Callable[[Tokens], bool],
    batch_tokens: int,
) -> Iterator[list[tuple[int, list[Reply]]]]:
    """Yield, batch by batch, (index of the prompt, its replies).

    prompts     : token ids, none empty
    uniforms    : per prompt (samples, steps) numbers in [0, 1), one for each token that may be drawn
    temperature : 0 takes the likeliest token; otherwise the inverse of the cumulative distribution of softmax(logits / temperature)
    finished    : whether a reply ends with its last token
    """
    lengths = [len(prompt) + uniforms[i].shape[1] for i, prompt in enumerate(prompts)]
    weights = [len(uniforms[i]) for i in range(len(prompts))]
    for batch in batches(lengths, weights, batch_tokens):
        reader = _reader(model)
        logits = reader.read([prompts[i] for i in batch], [weights[i] for i in batch])
        numbers = np.concatenate([uniforms[i] for i in batch])
        replies = _draw(reader, logits, numbers, temperature, finished)
        bounds = np.cumsum([0, *(weights[i] for i in batch)])
        yield [(i, replies[bounds[row] : bounds[row + 1]]) for row, i in enumerate(batch)]


@torch.inference_mode()
def score(
    model, contexts: Sequence[Tokens], continuations: Sequence[Tokens], *, batch_tokens: int
) -> Iterator[list[tuple[int, np.ndarray, np.ndarray]]]:
    """Yield, batch by batch, (index, log-likelihood of each continuation token, lead of the likeliest token over it), in nats.

    The lead is 0 where the continuation's token is the likeliest one.
    """
    lengths = [len(context) + len(continuation) for context, continuation in zip(contexts, continuations, strict=True)]
    for batch in batches(lengths, [1] * len(lengths), batch_tokens):
        logits = _reader(model).score([contexts[i] for i in batch], [continuations[i] for i in batch])
        rows = []
        for i, row in zip(batch, logits, strict=True):
            log_probability = torch.log_softmax(row.float(), dim=-1)
            tokens = torch.tensor(continuations[i], device=row.device)
            chosen = log_probability.gather(1, tokens[:, None])[:, 0]
            lead = log_probability.max(dim=-1).values - chosen
            rows.append((i, chosen.cpu().numpy().astype(np.float64), lead.cpu().numpy().astype(np.float64)))
        yield rows


def batches(lengths: Sequence[int], weights: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Group indices so that rows x longest stays within the budget; similar lengths together, longest first; never an empty batch.

    lengths : tokens of each row; weights : rows that each index needs

    >>> list(batches([5, 9, 4, 8], [1, 1, 1, 1], 18))
    [[1, 3], [0, 2]]
    """
    batch, rows, longest = [], 0, 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (rows + weights[i]) * longest > batch_tokens:
            yield batch
            batch, rows = [], 0
        if not batch:
            longest = lengths[i]
        batch.append(i)
        rows += weights[i]
    if batch:
        yield batch


def _draw(reader, logits, numbers: np.ndarray, temperature: float, finished) -> list[Reply]:
    """One token a step for all rows; `numbers` (rows, steps)."""
    replies = [Reply([], []) for _ in numbers]
    live = list(range(len(numbers)))
    for step in range(numbers.shape[1]):
        log_probability = torch.log_softmax(logits.float(), dim=-1)
        if temperature == 0:
            tokens = log_probability.argmax(dim=-1)
        else:
            cumulative = torch.softmax(logits.float() / temperature, dim=-1).double().cumsum(dim=-1)
            threshold = torch.as_tensor(numbers[live, step], device=logits.device)[:, None] * cumulative[:, -1:]
            tokens = torch.searchsorted(cumulative, threshold, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
        chosen = log_probability.gather(1, tokens[:, None])[:, 0].tolist()
        stay = []
        for place, (row, token) in enumerate(zip(live, tokens.tolist(), strict=True)):
            replies[row].tokens.append(token)
            replies[row].log_likelihood.append(chosen[place])
            if not finished(replies[row].tokens):
                stay.append(place)
        if not stay or step + 1 == numbers.shape[1]:
            break
        if len(stay) < len(live):
            live = [live[place] for place in stay]
            keep = torch.tensor(stay, device=logits.device)
            reader.keep(keep)
            tokens = tokens[keep]
        logits = reader.step(tokens)
    return replies


def _reader(model):
    return _EncoderDecoder(model) if model.config.is_encoder_decoder else _DecoderOnly(model)


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


class _DecoderOnly:
    """Prompts padded on the left, so that the last place of every row is its last token."""

    def __init__(self, model):
        self.model = model

    def read(self, prompts, samples):
        ids, mask = _pad(prompts, "left", self.model.device)
        out = self.model(
            input_ids=ids, attention_mask=mask, position_ids=_positions(mask), use_cache=True, logits_to_keep=1
        )
        rows = torch.repeat_interleave(torch.arange(len(prompts)), torch.tensor(samples)).to(ids.device)
        self.cache, self.mask = out.past_key_values, mask[rows]
        self.cache.reorder_cache(rows)
        return out.logits[rows, -1]

    def step(self, tokens):
        self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], dim=1)
        out = self.model(
            input_ids=tokens[:, None],
            attention_mask=self.mask,
            position_ids=_positions(self.mask)[:, -1:],
            past_key_values=self.cache,
            use_cache=True,
        )
        return out.logits[:, -1]

    def keep(self, rows):
        self.cache.reorder_cache(rows)
        self.mask = self.mask[rows]

    def score(self, contexts, continuations):
        ids, mask = _pad([[*a, *b] for a, b in zip(contexts, continuations, strict=True)], "left", self.model.device)
        last = max(map(len, continuations)) + 1
        logits = self.model(
            input_ids=ids, attention_mask=mask, position_ids=_positions(mask), use_cache=False, logits_to_keep=last
        ).logits
        return [row[-len(tokens) - 1 : -1] for row, tokens in zip(logits, continuations, strict=True)]


class _EncoderDecoder:
    """The encoder reads the prompt; the decoder starts from the model's own start token."""

    def __init__(self, model):
        self.model = model

    def read(self, prompts, samples):
        ids, mask = _pad(prompts, "right", self.model.device)
        states = self.model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        rows = torch.repeat_interleave(torch.arange(len(prompts)), torch.tensor(samples)).to(ids.device)
        self.states, self.mask, self.cache = states[rows], mask[rows], None
        return self.step(torch.full((len(rows),), self.model.config.decoder_start_token_id, device=ids.device))

    def step(self, tokens):
        out = self.model(
            encoder_outputs=(self.states,),
            attention_mask=self.mask,
            decoder_input_ids=tokens[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        self.cache = out.past_key_values
        return out.logits[:, -1]

    def keep(self, rows):
        self.cache.reorder_cache(rows)
        self.states, self.mask = self.states[rows], self.mask[rows]

    def score(self, contexts, continuations):
        ids, mask = _pad(contexts, "right", self.model.device)
        start = self.model.config.decoder_start_token_id
        decoder_ids, _ = _pad([[start, *tokens[:-1]] for tokens in continuations], "right", self.model.device)
        logits = self.model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids, use_cache=False).logits
        return [row[: len(tokens)] for row, tokens in zip(logits, continuations, strict=True)]


def _positions(mask):
    return (mask.cumsum(dim=1) - 1).clamp(min=0)
