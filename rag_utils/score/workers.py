"""One reader in several processes: each worker holds the model on a device of its own and takes one shard of calls after the other.

    reader = load("embedded", workers=2)  # answers as `lm.load("embedded", mode="live")` does, on a processor in every bit

What is recorded is read in this process; only what is missing goes to the workers. A worker records what it computes, batch by batch, in
the user's store, so that a shard may be given out twice: what is recorded is not computed again. Everything stays on this machine.
"""

import os
from pathlib import Path

from rag_utils import lm
from rag_utils.base import checks
from rag_utils.engine import profiles, weights
from rag_utils.score.pool import Pool, WorkersError, ray_here

__all__ = ["Workers", "WorkersError", "load"]
WORKERS = "RAG_COMPANION_WORKERS"  # how many, where nobody else says it: `rag-companion run --workers` sets it for a chapter's kernel


def load(
    profile: str | Path | profiles.Profile, *, workers: int | None = None, mode: str = "live", chapter: str | None = None
) -> lm.LanguageModel:
    """The reader of a profile, as `lm.load`, which computes in so many processes.

    workers : 1 is this process, without Ray; on GPUs at most as many as there are. None takes what RAG_COMPANION_WORKERS says, else 1
    mode    : as in `lm.load`; "replay" computes nothing, whatever the number
    raises  : as `lm.load`; ValueError for another number; WorkersError without Ray. What is asked of the reader raises that too: at once if
              a worker cannot load it, and when the rest is recorded if there are calls that cannot be computed
    """
    if workers is None:
        said = os.environ.get(WORKERS) or "1"
        workers = int(said) if said.isdecimal() else said
    workers = checks.whole("workers", workers, least=1)
    if workers == 1 or mode == "replay":
        return lm.load(profile, mode=mode, chapter=chapter)
    ray_here()  # before weights are loaded
    checks.one_of("mode", mode, lm.MODES)
    profile = profiles.get(profile)
    return Workers(weights.load(profile), profile, mode=mode, chapter=chapter, workers=workers)


class Workers(lm.LanguageModel):
    """A reader whose calls are computed by workers. Its own model, on the processor, cuts texts and does the live check."""

    def __init__(self, loaded: weights.Loaded, profile: profiles.Profile, *, mode: str, chapter: str | None, workers: int):
        from rag_utils.score.spread import Spread  # torch takes seconds to import

        on_gpus = loaded.model.device.type == "cuda"
        if on_gpus:
            _enough_gpus(workers)
            loaded.model.to("cpu")
        super().__init__(loaded, profile, mode=mode, chapter=chapter)
        asked = {"profile": profile, "fingerprint": self.fingerprint, "mode": mode, "chapter": chapter}
        self._pool = Pool(workers, asked, on_gpus)
        self._texts = Spread(self._texts, self._pool)

    def close(self) -> None:
        """Let workers and recordings go; RecordingError as `LanguageModel.close`."""
        self._pool.stop()
        super().close()


def _enough_gpus(workers: int) -> None:
    import torch

    if workers > (there := torch.cuda.device_count()):
        raise ValueError(f"workers must be at most {there}, one for each GPU that is here; got {workers}")
