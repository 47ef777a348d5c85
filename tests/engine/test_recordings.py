"""Recordings survive kills, full disks and damage, or say what is wrong."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rag_utils.base.cache import CacheError
from rag_utils.engine import recordings
from rag_utils.engine.recordings import RecordingError, Recordings

REPLY = {"text": " Paris", "tokens": [7042], "log_likelihood": [-0.8]}


def sealed(path: Path, count: int = 3) -> Path:
    one = Recordings(path, writable=True)
    one.add([(f"{i:032x}", {**REPLY, "text": f"reply {i}"}) for i in range(count)])
    one.close()
    return path


def test_what_was_recorded_is_read_again(tmp_path):
    path = sealed(tmp_path / "c.jsonl")
    again = Recordings(path)
    assert len(again) == 3 and again.get(f"{1:032x}")["text"] == "reply 1" and again.get("no") is None
    assert not (tmp_path / "c.jsonl.journal").exists()


def test_a_sealed_file_depends_on_its_content_only(tmp_path):
    one, other = Recordings(tmp_path / "a.jsonl", writable=True), Recordings(tmp_path / "b.jsonl", writable=True)
    pairs = [(recordings.call_key(i=i), {**REPLY, "text": f"réponse {i}"}) for i in range(20)]
    one.add(pairs)
    for pair in reversed(pairs):
        other.add([pair])
    one.close(), other.close()
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_a_reply_is_on_the_disk_before_add_returns(tmp_path):
    one = Recordings(tmp_path / "c.jsonl", writable=True)
    one.add([("k", REPLY)])
    assert Recordings(tmp_path / "c.jsonl").get("k") == REPLY  # through the journal, nothing sealed yet


def test_a_torn_last_line_is_dropped_and_the_rest_kept(tmp_path):
    path = tmp_path / "c.jsonl"
    one = Recordings(path, writable=True)
    one.add([("a", REPLY), ("b", REPLY)])
    one._lock.close()  # as a kill does
    journal = tmp_path / "c.jsonl.journal"
    journal.write_bytes(journal.read_bytes()[:-9])
    again = Recordings(path, writable=True)
    assert "a" in again and "b" not in again
    again.add([("b", REPLY)])
    again.close()
    assert len(Recordings(path)) == 2


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda b: b[: len(b) // 2], "promises 3 replies"),
        (lambda b: b.replace(b"reply 1", b"reply X"), "checksum"),
        (lambda b: b.split(b"\n", 1)[1], "header"),
        (lambda b: b"", "header"),
        (lambda b: b.replace(b'"format": 1', b'"format": 9'), "format 9"),
        (lambda b: b + b'{"key": "z"}\n', "4 whole lines"),
    ],
)
def test_a_damaged_file_is_named_and_not_recomputed(tmp_path, damage, words):
    path = sealed(tmp_path / "c.jsonl")
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    for writable in (False, True):
        with pytest.raises(RecordingError, match=words) as caught:
            Recordings(path, writable=writable)
        assert str(path) in str(caught.value) and "git checkout" in str(caught.value)
    assert path.read_bytes() == before


def test_a_damaged_journal_line_is_named(tmp_path):
    one = Recordings(tmp_path / "c.jsonl", writable=True)
    one.add([("a", REPLY), ("b", REPLY)])
    one._lock.close()
    journal = tmp_path / "c.jsonl.journal"
    journal.write_bytes(journal.read_bytes().replace(b'"key": "a"', b'"key": "c"'))
    with pytest.raises(RecordingError, match="line 1 of 2"):
        Recordings(tmp_path / "c.jsonl")


def test_a_second_writer_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "PATIENCE", 0.2)
    first = Recordings(tmp_path / "c.jsonl", writable=True)
    with pytest.raises(RecordingError, match="another run"):
        Recordings(tmp_path / "c.jsonl", writable=True)
    first.close()
    Recordings(tmp_path / "c.jsonl", writable=True).close()


def test_a_reader_cannot_record(tmp_path):
    with pytest.raises(RecordingError, match="writable"):
        Recordings(sealed(tmp_path / "c.jsonl")).add([("k", REPLY)])


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="not run: this system has no /dev/full to stand for a full disk"
)
def test_a_full_disk_is_said_and_loses_nothing(tmp_path):
    path = sealed(tmp_path / "c.jsonl")
    one = Recordings(path, writable=True)
    (tmp_path / "c.jsonl.journal").symlink_to("/dev/full")
    with pytest.raises(RecordingError, match=r"1 replies could not be recorded .* No space left"):
        one.add([("new", REPLY)])
    (tmp_path / "c.jsonl.journal").unlink()
    assert "new" not in one and len(Recordings(path)) == 3


def test_a_full_disk_while_sealing_keeps_the_old_file(tmp_path):
    path = sealed(tmp_path / "c.jsonl")
    one = Recordings(path, writable=True)
    one.add([("new", REPLY)])
    (tmp_path / "c.jsonl.partial").symlink_to("/dev/full")
    with pytest.raises(RecordingError, match="No space left"):
        one.seal()
    one._lock.close()
    (tmp_path / "c.jsonl.partial").unlink()
    again = Recordings(path)
    assert len(again) == 4 and json.loads(path.read_text().splitlines()[0])["replies"] == 3


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="cannot write to"):
        Recordings(tmp_path / "file" / "c.jsonl", writable=True)


WRITER = """
import sys
from rag_utils.engine.recordings import Recordings
path, said = sys.argv[1:]
one = Recordings(path, writable=True)
with open(said, "a") as log:
    for batch in range(len(one) // 7, 10**6):
        replies = [(f"{batch:05d}-{i}", {"text": "x" * (batch % 90), "tokens": [1], "log_likelihood": [-0.5]}) for i in range(7)]
        one.add(replies)
        log.write("".join(key + "\\n" for key, _ in replies)); log.flush()
        if batch % 40 == 39:
            one.seal()
"""


def test_nothing_recorded_is_lost_by_fifty_kills(tmp_path):
    """Whatever `add` had returned for is there after kill -9 at a random moment, fifty times on one file."""
    path, said = tmp_path / "c.jsonl", tmp_path / "said"
    moments = random.Random(0)
    for _ in range(50):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(said)], stderr=subprocess.PIPE)
        time.sleep(moments.uniform(0.02, 0.35))
        writer.send_signal(signal.SIGKILL)
        assert writer.stderr.read() == b"" and writer.wait() == -signal.SIGKILL
        promised = said.read_text().split("\n")[:-1] if said.exists() else []
        there = Recordings(path)
        assert all(key in there for key in promised), "a reply that was recorded is lost"
    assert len(promised) > 100
    Recordings(path, writable=True).close()
    assert not Path(f"{path}.journal").exists() and os.path.getsize(path) > 0
