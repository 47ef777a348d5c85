"""What the same replies would have been worth to a warped distribution: a temperature, and all but the likeliest tokens cut away."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from rag_utils.engine import decode
from rag_utils.lm import Generation, LanguageModel


def warp(
    logits: torch.Tensor, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> torch.Tensor:
    """Logits divided by the temperature, -inf for all but the top_k likeliest tokens, and of those all but the likeliest that hold top_p.

    logits  : (n, vocabulary)
    top_k   : a token that is as likely as the last one kept is kept too
    top_p   : the token with which the sum reaches it is kept, so one token always is
    raises  : ValueError for an option out of its range
    source  : the generation of transformers, in its order; Holtzman et al. 2020 for top_p

    >>> warp(torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log(), top_k=3, top_p=0.8).softmax(dim=-1)   # of 0.526, 0.316 and 0.158 two
    tensor([[0.6250, 0.3750, 0.0000, 0.0000]])
    """
    steps = [TemperatureLogitsWarper(float(temperature))]
    steps += [TopKLogitsWarper(top_k)] if top_k is not None else []
    steps += [TopPLogitsWarper(top_p)] if top_p is not None else []
    for step in steps:
        logits = step(None, logits.float())
    return logits


@torch.inference_mode()
def log_likelihoods(
    reader: LanguageModel, prompts: Sequence[str], replies: Sequence[Sequence[Generation]], **how
) -> list[np.ndarray]:
    """Log-likelihood of every reply under the warped distribution, by the model itself: nothing is recorded.

    replies : per prompt; how : as in `warp`
    returns : per prompt (replies,) nats, sums over the tokens; -inf for a reply with a token that the warped distribution excludes
    """
    if len(prompts) != len(replies):
        raise ValueError(f"wanted one list of replies per prompt, got {len(replies)} for {len(prompts)} prompts")
    warp(torch.zeros(1, 2), **how)
    wanted = dict.fromkeys((p, reply.token_ids) for p, own in zip(prompts, replies, strict=True) for reply in own)
    contexts, continuations = [reader.encode(prompt) for prompt, _ in wanted], [list(tokens) for _, tokens in wanted]
    options = {"batch_tokens": reader.profile.batch_tokens, "count": reader.count, "warp": partial(warp, **how)}
    value = {}
    for batch in decode.score(reader.model, contexts, continuations, **options):
        value |= {i: scores.sum() for i, scores, _ in batch}
    place = {call: i for i, call in enumerate(wanted)}
    return [
        np.array([value[place[prompt, reply.token_ids]] for reply in own], dtype=float)
        for prompt, own in zip(prompts, replies, strict=True)
    ]
