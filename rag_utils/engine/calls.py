"""The calls of one model: answered from what is recorded, computed where that is missing and allowed, recorded, and remembered."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product

from rag_utils.engine.recordings import RecordingError, Recordings, call_key, trace

MODES = ("replay", "live", "fresh")
Batches = Iterator[list[tuple[Hashable, dict]]]  # of (call, reply)


class Calls:
    """What one model is asked.

    mode    : "replay" answers from recordings, "live" computes what is missing and records it, "fresh" only computes
    chapter : whose calls these are: its tracked file is read, and they may be sealed into it. None reads all, and is never sealed
    """

    def __init__(self, fingerprint: str, *, mode: str, chapter: str | None = None):
        self.fingerprint, self.mode, self.chapter = fingerprint, mode, chapter
        self.answered: dict[str, tuple] = {}  # key -> prompt, what was scored after it or None, whether greedy, reply
        self._recordings = None if mode == "fresh" else Recordings(chapter, writable=mode == "live")

    def generated(self, prompts: Sequence[str], samples: Sequence[int | None], settings: dict, compute: Callable[..., Batches]) -> dict:
        """(prompt, sample) -> reply; sample None is the likeliest one."""
        calls = {call: self.reply_key(*call, settings) for call in product(prompts, samples)}
        return self._answers(calls, compute, lambda call: (call[0], None, call[1] is None or settings["temperature"] == 0))

    def scored(self, pairs: Sequence[tuple[str, str]], compute: Callable[..., Batches]) -> dict:
        """(context, continuation) -> reply."""
        key = {"model": self.fingerprint, "operation": "log_likelihood"}
        calls = {pair: call_key(context=pair[0], continuation=pair[1], **key) for pair in pairs}
        return self._answers(calls, compute, lambda call: (*call, False))

    def reply_key(self, prompt: str, sample: int | None, settings: dict) -> str:
        """The key of a reply; of the likeliest (sample None) that of a call at temperature 0."""
        likeliest = {"temperature": 0.0, "seed": None} if sample is None else {}
        return call_key(model=self.fingerprint, operation="generate", prompt=prompt, sample=sample or 0, **settings | likeliest)

    def close(self) -> None:
        """Let the recordings go; RecordingError if they were removed while they were written."""
        if self._recordings is not None:
            self._recordings.close()

    def _answers(self, calls: dict, compute, described) -> dict:
        replies = self._recordings.get(calls.values()) if self._recordings is not None else {}
        missing = [call for call, key in calls.items() if key not in replies]
        if missing and self.mode == "replay":
            where = f"chapter {self.chapter}" if self.chapter else "any chapter"
            command = f"`rag-companion run {self.chapter} --mode live`" if self.chapter else '`load(..., mode="live")`'
            raise RecordingError(f"{len(missing)} of {len(calls)} model calls are not recorded for {where}; {command} records them.")
        for batch in compute(missing) if missing else ():
            keyed = [(calls[call], reply) for call, reply in batch]
            replies.update(keyed)
            if self._recordings is not None:
                self._recordings.add(keyed)
        if self._recordings is not None:
            trace(self.chapter, self.fingerprint, set(calls.values()) - self.answered.keys())
        self.answered |= {key: (*described(call), replies[key]) for call, key in calls.items()}
        return {call: replies[key] for call, key in calls.items()}
