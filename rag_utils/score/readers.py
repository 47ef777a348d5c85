"""From what a user names as reader to the reader: a profile, a folder of weights, or the address of a server."""

import os
import re
from pathlib import Path

from rag_utils import lm
from rag_utils.engine import profiles
from rag_utils.score.endpoint import Endpoint
from rag_utils.score.workers import load


def load_reader(
    name: str | Path, *, mode: str = "live", adapter: str | None = None, dtype: str | None = None, workers: int = 1
) -> lm.LanguageModel | Endpoint:
    """The reader of that name.

    name    : a profile's name, also one with a server; a folder with config.json and safetensors; http(s)://HOST:PORT of an
              OpenAI-compatible server, with #MODEL where it has several
    mode    : as in `lm.load`
    adapter : a folder with a LoRA adapter; dtype: "float32", "bfloat16" or "float16". A server has chosen both already
    workers : processes that compute, as in `workers.load`; of a server 1
    raises  : ValueError for a name that is none of these; WeightsError if the weights, or the server, cannot be had
    """
    name = str(name)
    if re.match(r"(localhost|[\w.-]+:\d+)(/|#|$)", name):
        raise ValueError(f"the address of a server begins with http:// or https://; got {name!r}")
    profile = None if "://" in name else profiles.get(name, dtype=dtype)
    if profile is not None and not profile.server:
        if adapter is not None:
            profile = profile.model_copy(update={"adapter": os.path.abspath(os.path.expanduser(adapter))})
        return load(profile, mode=mode, workers=workers)
    if adapter is not None or dtype is not None:
        raise ValueError("adapter and dtype are the server's choice; leave them out, and start it with those you want")
    if workers != 1:
        raise ValueError(f"a server makes batches of what it is asked, and shares them out itself; got {workers} workers, want 1")
    return Endpoint(name if profile is None else profile.server, mode=mode)
