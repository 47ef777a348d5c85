"""What the same replies would have been worth to a warped distribution: a temperature, and all but the likeliest tokens cut away.

Libraries that generate text hand out the scores of the distribution they drew from, which is often not the model's own.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from rag_utils.engine import decode
from rag_utils.lm import Generation, LanguageModel


def warp(
    logits: torch.Tensor, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> torch.Tensor:
    """Logits divided by the temperature, -inf for all tokens but the top_k likeliest, and of those all but the likeliest that together
    hold top_p.

    logits  : (n, vocabulary)
    top_k   : at least 1; a token that is as likely as the last one kept is kept too
    top_p   : above 0, at most 1; the token with which the sum reaches it is kept, so one token always is
    returns : (n, vocabulary)
    raises  : ValueError for an option out of its range
    source  : the order and the ties of the generation of transformers; Holtzman et al. 2020 for top_p

    >>> warp(torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log(), top_k=3, top_p=0.8).softmax(dim=-1)   # of 0.526, 0.316 and 0.158 two
    tensor([[0.6250, 0.3750, 0.0000, 0.0000]])
    """
    if not temperature > 0 or (top_k is not None and top_k < 1) or (top_p is not None and not 0 < top_p <= 1):
        raise ValueError(
            f"wanted a temperature above 0, top_k of at least 1 and top_p above 0 and at most 1; got {temperature}, {top_k} and {top_p}"
        )
    logits = logits.float() / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p is not None and top_p < 1:
        ordered, places = logits.sort(dim=-1, descending=True, stable=True)
        before = ordered.softmax(dim=-1).cumsum(dim=-1) - ordered.softmax(dim=-1)
        cut = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, places, before >= top_p)
        logits = logits.masked_fill(cut, -torch.inf)
    return logits


@torch.inference_mode()
def log_likelihoods(
    reader: LanguageModel, prompts: Sequence[str], replies: Sequence[Sequence[Generation]], **how
) -> list[np.ndarray]:
    """Log-likelihood of every reply under the warped distribution, by the model itself: nothing is recorded.

    replies : per prompt
    how     : temperature, top_k and top_p, as in `warp`
    returns : per prompt (replies,) nats, sums over the tokens; -inf for a reply with a token that the warped distribution excludes
    raises  : ValueError as `warp`; if there are not as many prompts as lists of replies
    """
    if len(prompts) != len(replies):
        raise ValueError(f"wanted one list of replies per prompt, got {len(replies)} for {len(prompts)} prompts")
    warp(torch.zeros(1, 2), **how)
    wanted = dict.fromkeys((p, reply.token_ids) for p, some in zip(prompts, replies, strict=True) for reply in some)
    contexts, continuations = [reader.encode(prompt) for prompt, _ in wanted], [list(tokens) for _, tokens in wanted]
    options = {"batch_tokens": reader.profile.batch_tokens, "count": reader.count, "warp": partial(warp, **how)}
    found = np.empty(len(contexts))
    for batch in decode.score(reader.model, contexts, continuations, **options):
        for i, scores, _ in batch:
            found[i] = scores.sum()
    value = dict(zip(wanted, found, strict=True))
    return [
        np.array([value[prompt, reply.token_ids] for reply in some])
        for prompt, some in zip(prompts, replies, strict=True)
    ]
