"""Many texts in, replies or scores out: what the texts have in common is read once, and all live replies grow together.

Prompts form a prefix tree (`tree.py`), read segment by segment (`segments.py`). Texts that end join the replies that grow (`past.py`): one
token is drawn for all at each step, and finished replies leave. Models that cannot share read plain batches (`plain.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rag_utils.engine.attention import whole
from rag_utils.engine.past import Branches, repeated
from rag_utils.engine.plain import state_of
from rag_utils.engine.segments import SLICE, Warp, start, token_scores, visit, what_is_wanted
from rag_utils.engine.tree import Count, batches, prefix_tree, size

Tokens = list[int]
ALLOWANCE = 0.03  # share of the distinct tokens that may be read twice so that steps are fewer and larger


@dataclass(frozen=True)
class Reply:
    """Tokens of one reply, the one that ended it included, and the log-likelihood of each under the raw distribution (nats)."""

    tokens: Tokens
    log_likelihood: list[float]


def shares_prefixes(model) -> bool:
    """Whether this model reads a prefix tree; otherwise it reads plain batches."""
    config = model.config.get_text_config()
    sliding = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    plain = model._supports_attention_backend and not getattr(config, "attn_logit_softcapping", None)
    return plain and not model.config.is_encoder_decoder and not sliding and kinds == {"full_attention"}


@torch.inference_mode()
def sample(
    model, prompts: Sequence[Tokens], uniforms, *, temperature: float, finished: Callable, batch_tokens: int, count=None
) -> Iterator[list[tuple[int, list[Reply]]]]:
    """Yield, batch by batch, (index of the prompt, its replies).

    prompts     : token ids, none empty
    uniforms    : per prompt (samples, steps) numbers in [0, 1), one for each token that may be drawn; NaN takes the likeliest token
    temperature : of the tokens drawn, by the inverse of the cumulative distribution of softmax(logits / temperature)
    finished    : tokens of a reply -> whether it ends with the last
    count       : a `Count` that is added to
    """
    count = count or Count()
    groups = _shared if shares_prefixes(model) else _plain
    live = _Live(model, uniforms, temperature, finished, count)
    for texts, state, logits in groups(model, prompts, uniforms, batch_tokens, count):
        while live.rows and (not isinstance(state, Branches) or live.state.tokens_with(state) > batch_tokens):
            yield from live.step()
        live.admit(texts, state, logits)
    while live.rows:
        yield from live.step()


@torch.inference_mode()
def score(
    model, contexts: Sequence[Tokens], continuations: Sequence[Tokens], *, batch_tokens: int, count=None, warp=None
) -> Iterator[list[tuple[int, np.ndarray, np.ndarray]]]:
    """Yield, batch by batch, (index, log-likelihood of each continuation token, lead of the likeliest token over it), in nats.

    warp : a `Warp`: the distribution is the softmax of warp(logits); None: the model's own
    """
    count = count or Count()
    if not shares_prefixes(model):
        yield from _plain_scores(model, contexts, continuations, batch_tokens, count, warp)
        return
    texts = [[*context, *continuation[:-1]] for context, continuation in zip(contexts, continuations, strict=True)]  # the last is not read
    root = prefix_tree(texts, allowance=ALLOWANCE)
    count.distinct += size(prefix_tree(texts))
    wanted = what_is_wanted(root, [*map(len, contexts)], [continuation[-1] if continuation else 0 for continuation in continuations])
    for ended, finals, _ in visit(model, start(root), batch_tokens, count, wanted, warp):
        ends = [(i, end.scores, last) for end, own in zip(ended, finals, strict=True) for i, last in zip(end.node.ends, own, strict=True)]
        cuts = {i: slice(len(contexts[i]), len(contexts[i]) + len(continuations[i])) for i, _, _ in ends}
        yield [(i, *np.concatenate([*way, last], axis=1)[:, cuts[i]]) for i, way, last in ends]


def _shared(model, prompts, uniforms, batch_tokens: int, count: Count) -> Iterator[tuple]:
    """Yield (prompts, their state, logits of their next tokens) in groups that fit into half of the budget with their replies."""
    count.distinct += size(prefix_tree(prompts))
    root = prefix_tree(prompts, allowance=ALLOWANCE)
    for ended, pasts, logits in visit(model, start(root), batch_tokens, count):
        ends = [(i, row) for row, pending in enumerate(ended) for i in pending.node.ends]
        lengths = [len(prompts[i]) + len(uniforms[i]) * whole(uniforms[i].shape[1]) for i, _ in ends]
        for part in batches(lengths, batch_tokens // 2, enough=batch_tokens // 2):
            texts, rows = map(list, zip(*(ends[k] for k in part), strict=True))
            yield texts, Branches([pasts[row] for row in rows], [len(uniforms[i]) for i in texts]), logits[rows]


def _plain(model, prompts, uniforms, batch_tokens: int, count: Count) -> Iterator[tuple]:
    """As `_shared`, but every prompt is read in full, in padded batches."""
    asked = zip(prompts, uniforms, strict=True)
    lengths = [len(numbers) * (len(prompt) + numbers.shape[1]) for prompt, numbers in asked]
    for texts in batches(lengths, batch_tokens // 2):
        state, logits = state_of(model).read(model, [prompts[i] for i in texts])
        state.keep(repeated(torch.arange(len(texts), device=model.device), [len(uniforms[i]) for i in texts]))
        tokens = sum(len(prompts[i]) for i in texts)
        count.computed, count.distinct = count.computed + tokens, count.distinct + tokens
        yield texts, state, logits


class _Live:
    """The replies that are growing. New texts may join between two steps; a finished row stays until an eighth of the rows is finished,
    since taking it out copies the keys and values of the others."""

    def __init__(self, model, uniforms, temperature: float, finished, count: Count):
        self.model, self.uniforms, self.count = model, uniforms, count
        self.temperature, self.finished = temperature, finished
        self.rows: list[tuple | None] = []  # text, reply, numbers to come; None once it is finished
        self.replies: dict[int, list[Reply]] = {}
        self.open: dict[int, int] = {}  # text -> samples that still grow
        self.state = self.logits = None

    def admit(self, texts: list[int], state, logits: torch.Tensor) -> None:
        samples = [len(self.uniforms[i]) for i in texts]
        logits = repeated(logits, samples)
        self.state = self.state.join(state) if self.rows else state
        self.logits = torch.cat([self.logits, logits]) if self.rows else logits
        for text, n in zip(texts, samples, strict=True):
            self.replies[text], self.open[text] = [Reply([], []) for _ in range(n)], n
            self.rows += [(text, *row) for row in zip(self.replies[text], map(iter, self.uniforms[text]), strict=True)]

    def step(self) -> Iterator[list[tuple[int, list[Reply]]]]:
        """Draw one token for every row; yield the texts whose last reply ended with it."""
        tokens, chosen = self._draw()
        complete = []
        for place, (row, token, value) in enumerate(zip(self.rows, tokens.tolist(), chosen, strict=True)):
            if row is None:
                continue
            text, reply, _ = row
            reply.tokens.append(token)
            reply.log_likelihood.append(value)
            if self.finished(reply.tokens) or len(reply.tokens) == self.uniforms[text].shape[1]:
                self.rows[place] = None
                self.open[text] -= 1
                if not self.open[text]:
                    complete.append((text, self.replies.pop(text)))
        self._go_on(tokens)
        if complete:
            yield complete

    def _draw(self) -> tuple[torch.Tensor, list[float]]:
        """A token for every row and its log-likelihood; the distributions of `SLICE` rows are held at once."""
        numbers = [np.nan if row is None else next(row[2]) for row in self.rows]
        numbers = torch.tensor(numbers, dtype=torch.float64, device=self.logits.device)
        tokens, chosen = [], []
        for logits, uniforms in zip(self.logits.split(SLICE), numbers.split(SLICE), strict=True):
            log_probability = torch.log_softmax(logits.float(), dim=-1)
            token = log_probability.argmax(dim=-1)
            if not (greedy := uniforms.isnan()).all():
                token = torch.where(greedy, token, _sampled(logits.float() / self.temperature, uniforms))
            tokens.append(token)
            chosen.append(log_probability.gather(1, tokens[-1][:, None])[:, 0])
        return torch.cat(tokens), torch.cat(chosen).tolist()

    def _go_on(self, tokens: torch.Tensor) -> None:
        """Take finished rows out, if they are enough or all, and read the tokens of those that stay."""
        stay = [place for place, row in enumerate(self.rows) if row]
        if not stay:
            self.rows, self.state, self.logits = [], None, None
            return
        if len(self.rows) - len(stay) >= max(1, len(self.rows) // 8):
            kept = torch.tensor(stay, device=tokens.device)
            self.state.keep(kept)
            self.rows, tokens = [self.rows[place] for place in stay], tokens[kept]
        self.logits = self.state.step(self.model, tokens)
        self.count.computed += len(self.rows)
        self.count.distinct += len(stay)


def _sampled(logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The token of each row at which its cumulative distribution passes the row's number."""
    cumulative = torch.softmax(logits, dim=-1).double().cumsum(dim=-1)
    threshold = uniforms[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, threshold, right=True)[:, 0].clamp(max=cumulative.shape[-1] - 1)


def _plain_scores(model, contexts, continuations, batch_tokens: int, count: Count, warp: Warp | None):
    lengths = [len(context) + len(continuation) for context, continuation in zip(contexts, continuations, strict=True)]
    kind = state_of(model)
    for batch in batches(lengths, batch_tokens):
        rows = kind.score(model, [contexts[i] for i in batch], [continuations[i] for i in batch])
        tokens = sum(lengths[i] for i in batch)
        count.computed, count.distinct = count.computed + tokens, count.distinct + tokens
        yield [(i, *token_scores(row, range(len(row)), continuations[i], warp)) for i, row in zip(batch, rows, strict=True)]
