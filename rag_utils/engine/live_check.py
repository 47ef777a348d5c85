"""The live check: a few answered calls computed again by the model, and compared with what was answered."""

from dataclasses import dataclass

import numpy as np

from rag_utils.base.checks import whole
from rag_utils.engine.calls import Calls
from rag_utils.engine.recordings import RecordingError

NEAR, TIED = 0.02, 0.01  # nats per token; nats between the two best tokens, below which either may be the greedy one
OF_16_BITS = 0.25  # in place of both in a precision of 16 bits: two steps of bfloat16 between 16 and 32, where logits lie


@dataclass(frozen=True)
class LiveCheck:
    """What a live check compared. It prints as one sentence, which is the same on every machine that passes."""

    calls: int
    recorded: int
    tokens: int
    greedy: int
    near: float = NEAR

    def __str__(self) -> str:
        replies = f",\n{self.greedy} greedy {'reply' if self.greedy == 1 else 'replies'} reproduced" if self.greedy else ""
        return f"{self.calls} of {self.recorded} recorded calls computed again: {self.tokens} tokens within {self.near} nat each{replies}."


def live_check(texts, calls: Calls, k: int, *, seed: int) -> LiveCheck:
    """Compute k of the answered calls again, chosen by the seed; see `LanguageModel.live_check`. `texts` are the model's `Texts`."""
    import torch  # it and transformers take seconds to import

    from rag_utils.engine import decode

    whole("k", k, least=1), whole("seed", seed, least=0)
    keys = sorted(calls.answered)
    if not keys:
        raise ValueError("no call was answered yet, so there is nothing to check; got 0 calls, want at least 1")
    chosen = [keys[i] for i in sorted(np.random.default_rng(seed).choice(len(keys), size=min(k, len(keys)), replace=False))]
    prompts, scored, greedy, answers = zip(*(calls.answered[key] for key in chosen), strict=True)
    replies = [
        list(answer["tokens"]) if text is None else texts.encode(text, context=False) for text, answer in zip(scored, answers, strict=True)
    ]
    tracked = f"data/recordings/{calls.chapter}.jsonl and " if calls.chapter else ""
    run = f"then `rag-companion run {calls.chapter} --mode live` and `rag-companion seal {calls.chapter}`."
    renew = f"delete {tracked}recordings/calls.sqlite in the cache folder, {run if tracked else 'and run again with --mode live.'}"
    near, tied = (NEAR, TIED) if (exact := texts.model.dtype == torch.float32) else (OF_16_BITS, OF_16_BITS)
    with torch.backends.mkldnn.flags(enabled=not exact, allow_tf32=None):  # spares a second layout of the weights
        batches = decode.score(texts.model, [*map(texts.context, prompts)], replies, batch_tokens=texts.batch_tokens)
        checked = [each for batch in batches for each in batch]
    for i, log_likelihood, lead in checked:
        recorded = np.array(answers[i]["log_likelihood"])
        off = np.abs(log_likelihood - recorded).max() if len(log_likelihood) == len(recorded) else np.inf
        if off > near or (greedy[i] and lead.max() > tied):
            raise RecordingError(
                f"live check: recorded call {chosen[i]} is no longer what {texts.name} says (largest difference {off:.4f} nat per token, "
                f"allowed {near}; a greedy token lies {lead.max():.4f} nat behind, allowed {tied}). If the change is meant, {renew}"
            )
    return LiveCheck(len(chosen), len(keys), sum(map(len, replies)), sum(greedy), near)
