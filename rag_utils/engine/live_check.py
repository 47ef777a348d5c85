"""The live check: a few answered calls computed again by the model, and compared with what was answered."""

from dataclasses import dataclass

import numpy as np

from rag_utils.base.checks import whole
from rag_utils.engine.calls import Calls
from rag_utils.engine.recordings import RecordingError

NEAR = 0.02  # nats per token
TIED = 0.01  # nats between the two best tokens, below which either may be the greedy one


@dataclass(frozen=True)
class LiveCheck:
    """What a live check compared. It prints as one sentence, which is the same on every machine that passes."""

    calls: int
    recorded: int
    tokens: int
    greedy: int

    def __str__(self) -> str:
        replies = f",\n{self.greedy} greedy replies reproduced" if self.greedy else ""
        return f"{self.calls} of {self.recorded} recorded calls computed again: {self.tokens} tokens within {NEAR} nat each{replies}."


def live_check(texts, calls: Calls, k: int, *, seed: int) -> LiveCheck:
    """Compute k of the answered calls again, chosen by the seed; see `LanguageModel.live_check`. `texts` are the model's `Texts`."""
    from rag_utils.engine import decode  # torch and transformers take seconds to import

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
    with decode.torch.backends.mkldnn.flags(enabled=texts.model.dtype != decode.torch.float32, allow_tf32=None):  # spares a second layout
        batches = list(decode.score(texts.model, [*map(texts.context, prompts)], replies, batch_tokens=texts.batch_tokens))
    for batch in batches:
        for i, log_likelihood, lead in batch:
            recorded = np.array(answers[i]["log_likelihood"])
            off = np.abs(log_likelihood - recorded).max() if len(log_likelihood) == len(recorded) else np.inf
            if off > NEAR or (greedy[i] and lead.max() > TIED):
                raise RecordingError(
                    f"live check: recorded call {chosen[i]} is no longer what {texts.name} says (largest difference {off:.4f} nat per "
                    f"token, allowed {NEAR}; a greedy token lies {lead.max():.4f} nat behind, allowed {TIED}). If the change is meant, "
                    f"{renew}"
                )
    return LiveCheck(len(chosen), len(keys), sum(map(len, replies)), sum(greedy))
