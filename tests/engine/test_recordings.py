"""Recordings survive kills, other writers, full disks and damage, or say what is wrong and where."""

import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from rag_utils.base.cache import CacheError
from rag_utils.engine import recordings
from rag_utils.engine.recordings import RecordingError, Recordings, call_key, read_sealed, seal
from rag_utils.engine.store import Store

REPLY = {"text": " Paris, réponse", "tokens": [7042], "log_likelihood": [-0.8]}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "TRACKED", tmp_path / "tracked")
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))


def pairs(count: int, start: int = 0) -> list[tuple[str, dict]]:
    return [(call_key(i=i), {**REPLY, "text": f"reply {i} of a model"}) for i in range(start, start + count)]


def store(path: Path, count: int) -> Path:
    """A closed store with so many replies."""
    one = Store(path, writable=True)
    one.add(pairs(count))
    one.close()
    return path


def sealed(chapter: str, count: int) -> Path:
    Recordings(writable=True).add(pairs(count))
    return seal(chapter, dict(pairs(count)))


def script(code: str, *words) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


# --- what is kept, and where -----------------------------------------------------------------------


def test_the_users_store_is_asked_first_and_then_the_chapters_or_all_tracked_files(tmp_path):
    sealed("a", 3), sealed("b", 5)
    (tmp_path / "cache/recordings/calls.sqlite").unlink()
    keys = [key for key, _ in pairs(5)]
    assert set(Recordings("a").get(keys)) == set(keys[:3])
    assert Recordings().get(keys) == Recordings("b").get(keys) == dict(pairs(5))
    assert Recordings("c").get(keys) == {} and not (tmp_path / "cache/recordings/calls.sqlite").exists()
    tracked = {path: path.read_bytes() for path in (tmp_path / "tracked").iterdir()}
    live = Recordings("a", writable=True)
    live.add([(keys[0], {"text": "newer"}), *pairs(1, 9)])
    assert Recordings("a").get(keys[:1]) == {keys[0]: {"text": "newer"}}
    assert {path: path.read_bytes() for path in (tmp_path / "tracked").iterdir()} == tracked


def test_a_reply_that_is_there_stays_and_every_open_reader_sees_new_ones_at_once():
    reader, one, other = Recordings(), Recordings(writable=True), Recordings("x", writable=True)
    one.add(pairs(2))
    other.add([(pairs(1)[0][0], {"text": "late"}), *pairs(1, 2)])
    assert reader.get(dict(pairs(3))) == one.get(dict(pairs(3))) == dict(pairs(3))
    one.close(), other.close()
    other.add(pairs(1, 3))  # closing is not an end
    assert set(reader.get(dict(pairs(4)))) == set(dict(pairs(4)))


def test_many_keys_and_threads(tmp_path):
    one = Store(tmp_path / "s", writable=True)
    threads = [threading.Thread(target=lambda i=i: one.add(pairs(700, 700 * i))) for i in range(4)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert one.get(dict(pairs(2900))) == dict(pairs(2800))


def test_a_forked_process_opens_the_store_anew(tmp_path):
    one = Store(tmp_path / "s", writable=True)
    one.add(pairs(1))
    if not (child := os.fork()):
        one.add(pairs(1, 1))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    one.add(pairs(1, 2))
    assert one.get(dict(pairs(3))) == dict(pairs(3))


# --- sealing ---------------------------------------------------------------------------------------


def test_a_sealed_file_holds_these_calls_only_and_depends_on_nothing_else(tmp_path):
    Recordings(writable=True).add(pairs(20))
    keys = [key for key, _ in pairs(20)]
    first = seal("a", keys[:7]).read_bytes()
    assert seal("b", keys[6::-1]).read_bytes() == first
    assert set(read_sealed(tmp_path / "tracked/a.jsonl")) == set(keys[:7])
    assert seal("a", [*keys[:3], *keys[3:7], *keys[:3]]).read_bytes() == first
    assert len(read_sealed(seal("a", keys[:2]))) == 2  # abandoned calls drop out
    (tmp_path / "cache/recordings/calls.sqlite").unlink()
    with pytest.raises(
        RecordingError, match=r"5 of 7 calls of a are recorded nowhere .* `rag-companion run a --mode live"
    ):
        seal("a", keys[:7])
    assert len(read_sealed(tmp_path / "tracked/a.jsonl")) == 2
    body = first.split(b"\n", 1)[1]
    head = {"format": 1, "replies": 7, "sha256": hashlib.sha256(body).hexdigest()}
    assert first == json.dumps(head).encode() + b"\n" + body and body.splitlines() == sorted(body.splitlines())


def test_sealing_a_tracked_file_of_the_repository_again_changes_no_byte():
    path = min((recordings.ROOT / "data/recordings").glob("*.jsonl"), key=lambda path: path.stat().st_size)
    Recordings(writable=True).add(read_sealed(path).items())
    assert seal("again", read_sealed(path)).read_bytes() == path.read_bytes()


def test_a_trace_holds_what_a_chapter_asked(tmp_path, monkeypatch):
    recordings.trace("a", "f", ["no file is named"])
    monkeypatch.setenv(recordings.TRACE, str(tmp_path / "trace"))
    for chapter, fingerprint, keys in [("a", "f", ["1", "2"]), ("a", "g", ["3"]), ("b", "f", ["4"]), (None, "f", "5")]:
        recordings.trace(chapter, fingerprint, keys)
    assert recordings.traced(tmp_path / "trace", "a", fingerprints={"f"}) == {"1", "2"}
    assert recordings.traced(tmp_path / "trace", "a", fingerprints={"f", "g"}) == {"1", "2", "3"}
    assert recordings.traced(tmp_path / "nothing", "a", fingerprints={"f"}) == set()


READER = """
import sys
from pathlib import Path
from rag_utils.engine import recordings
recordings.TRACKED = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
opened, counts = 0, set()
while opened < 20 or not Path(sys.argv[2]).exists():
    recordings._read.clear()
    counts.add(len(recordings.Recordings("a").get([f"{i:032x}" for i in range(300)])))
    opened += 1
print(*counts)
"""


def test_readers_that_open_while_a_chapter_is_sealed_miss_nothing(tmp_path, monkeypatch):
    many = [(f"{i:032x}", REPLY) for i in range(300)]
    Recordings(writable=True).add(many)
    seal("a", dict(many))
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "nobody's"))  # the readers' own store is empty
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(tmp_path / "tracked"), str(tmp_path / "enough")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    assert [reader.stdout.readline() for reader in readers] == ["ready\n"] * 2
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    [(reader.stdin.write("\n"), reader.stdin.flush()) for reader in readers]
    for _ in range(120):
        seal("a", dict(many))
    (tmp_path / "enough").touch()
    assert [reader.stdout.read() for reader in readers] == ["300\n"] * 2


# --- kills and other writers -----------------------------------------------------------------------

WRITER = """
import sys
from rag_utils.engine.store import Store
path, said, mine = sys.argv[1:]
store = Store(path, writable=True)
with open(said, "a") as log:
    for batch in range(10**6):
        replies = [(f"{mine}-{batch:05d}-{i}", {"text": "x" * (batch % 90), "log_likelihood": [-0.5]}) for i in range(7)]
        store.add(replies)
        log.write("".join(key + "\\n" for key, _ in replies)); log.flush()
"""


@pytest.mark.parametrize("kills", [8, pytest.param(40, marks=pytest.mark.slow)])
def test_nothing_recorded_is_lost_by_kills(tmp_path, kills):
    """Whatever `add` had returned for is there after kill -9 at a random moment, again and again on one file."""
    path, said, moments = tmp_path / "calls.sqlite", tmp_path / "said", random.Random(0)
    for kill in range(kills):
        writer = script(WRITER, path, said, kill)
        until = time.monotonic() + 20
        while time.monotonic() < until and not (said.exists() and f"\n{kill}-" in "\n" + said.read_text()):
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.1))
        writer.send_signal(signal.SIGKILL)
        assert writer.stderr.read() == "" and writer.wait() == -signal.SIGKILL
        promised = said.read_text().split("\n")[:-1]
        assert any(key.startswith(f"{kill}-") for key in promised)
        there = Store(path)
        assert set(there.get(promised)) == set(promised), "a reply that was recorded is lost"
        there.check(), there.close()


def test_a_kill_while_the_file_is_made_leaves_none_or_a_whole_one(tmp_path):
    for moment in range(12):
        writer = script(WRITER, tmp_path / "s", tmp_path / "said", moment)
        while not list(tmp_path.glob(".s-*")) and not (tmp_path / "s").exists() and writer.poll() is None:
            time.sleep(0.0005)
        time.sleep(0.0004 * moment)
        writer.kill(), writer.wait(), writer.stdout.close(), writer.stderr.close()
        made = Store(tmp_path / "s")
        made.check(), made.close()
        for rest in tmp_path.glob("*s*"):
            rest.unlink()


FORTY_ONE = """
import sys, time
from rag_utils.engine.recordings import Recordings
mine, of = map(int, sys.argv[1:])
live = Recordings("c", writable=True)
for i in range(mine, 41, of):
    live.add([(f"{i:032x}", {"text": str(i)})])
    time.sleep(0.01)
"""


def test_writers_at_the_same_time_keep_all_of_what_they_record():
    running = [script(FORTY_ONE, mine, 5) for mine in range(5)]
    assert [writer.communicate()[1] for writer in running] == [""] * 5
    keys = [f"{i:032x}" for i in range(41)]
    assert Recordings().get(keys) == {key: {"text": str(i)} for i, key in enumerate(keys)}


# --- damage ----------------------------------------------------------------------------------------


def flipped(data: bytes, count: int, seed: int) -> list[bytes]:
    """Copies with one bit flipped, at places drawn from the whole."""
    draw, copies = random.Random(seed), []
    for place in draw.sample(range(8 * len(data)), count):
        copy = bytearray(data)
        copy[place // 8] ^= 1 << place % 8
        copies.append(bytes(copy))
    return copies


def test_every_flipped_bit_of_a_sealed_file_is_reported(tmp_path):
    path = sealed("a", 40)
    whole, reported = path.read_bytes(), 0
    for damaged in flipped(whole, 400, seed=0):
        path.write_bytes(damaged)
        try:
            Recordings("a")
        except RecordingError as error:
            reported += str(path) in str(error)
    assert reported == 400


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda b: b[: len(b) // 2], "promises 3 replies"),
        (lambda b: b.replace(b"reply 1", b"reply X"), "checksum"),
        (lambda b: b.split(b"\n", 1)[1], "header"),
        (lambda b: b"", "header"),
        (lambda b: b.replace(b'"format": 1', b'"format": 9'), "format 9"),
        (lambda b: b + b'{"key": "z"}\n', "4 are there"),
    ],
)
def test_a_damaged_sealed_file_is_named_with_its_remedy(damage, words):
    path = sealed("a", 3)
    path.write_bytes(damage(path.read_bytes()))
    for writable in (False, True):
        with pytest.raises(RecordingError, match=words) as caught:
            Recordings("a", writable=writable)
        assert str(path) in str(caught.value) and "git checkout" in str(caught.value)


def after_damage(path: Path, wanted: dict) -> str:
    """What a look for all replies gives: the replies, or the error. A miss without an error is a silent loss."""
    try:
        one = Store(path)
        replies = one.get(wanted)
        if len(replies) < len(wanted):
            one.check()
        one.close()
    except RecordingError as error:
        assert str(path) in str(error), error
        return "reported"
    return "whole" if replies == wanted else "LOST"


@pytest.mark.parametrize("flips", [300, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_flipped_bit_of_the_store_is_reported_or_changes_nothing(tmp_path, flips):
    wanted = dict(pairs(200))
    whole = store(tmp_path / "whole", 200).read_bytes()
    outcomes = []
    header = [*flipped(whole[:200], flips // 3, seed=1)]
    for number, damaged in enumerate([*flipped(whole, flips, seed=0), *(head + whole[200:] for head in header)]):
        (path := tmp_path / f"{number}.sqlite").write_bytes(damaged)
        outcomes.append(after_damage(path, wanted))
        [rest.unlink() for rest in tmp_path.glob(f"{number}.sqlite*")]
    assert "LOST" not in outcomes and outcomes.count("reported") > 0.5 * flips


def test_a_truncated_store_is_reported(tmp_path):
    wanted, whole = dict(pairs(200)), store(tmp_path / "whole", 200).read_bytes()
    for cut in (0, 1, 50, 100, 4096, 5000, len(whole) // 2, len(whole) - 4096, len(whole) - 1):
        (path := tmp_path / f"{cut}.sqlite").write_bytes(whole[:cut])
        assert after_damage(path, wanted) == "reported", cut


def test_a_changed_row_is_named_and_stops_live_and_replay_alike(tmp_path):
    live = Recordings(writable=True)
    live.add(pairs(3))
    path, [key, other, _] = live.path, [key for key, _ in pairs(3)]
    with sqlite3.connect(path) as changed:
        changed.execute("UPDATE replies SET reply = replace(reply, '-0.8', '-0.7') WHERE key = ?", [key])
    for writable in (True, False):
        with pytest.raises(RecordingError, match=f"checksum of reply {key} is wrong; take it out"):
            Recordings(writable=writable).get([key])
    assert other in Recordings().get([other])
    with pytest.raises(RecordingError, match=f"reply {key}"):
        live.get(["a reply that is nowhere"])  # what is missing may be what is damaged
    with sqlite3.connect(path) as changed:
        changed.execute("UPDATE replies SET key = ? WHERE key = ?", ["0" * 32, key])
    with pytest.raises(RecordingError, match="reply 0000"):
        Recordings(writable=True).get([key])


def test_another_format_is_said(tmp_path):
    with sqlite3.connect(store(tmp_path / "s", 1)) as changed:
        changed.execute("PRAGMA user_version=9")
    with pytest.raises(RecordingError, match="format 9, this version reads format 1"):
        Store(tmp_path / "s")


@pytest.mark.parametrize("gone", ["file", "folder", "replaced", "truncated"])
def test_what_is_removed_or_replaced_during_a_run_is_said_at_the_next_call(tmp_path, gone):
    folder = tmp_path / "cache/recordings"
    path = folder / "calls.sqlite"
    calls = {"add": lambda live: live.add(pairs(1, 1)), "close": Recordings.close}
    for name in calls:
        live = Recordings(writable=True)
        live.add(pairs(1))
        if gone == "folder":
            shutil.rmtree(folder)
        elif gone == "replaced":
            os.replace(store(tmp_path / "another", 2), path)
        elif gone == "truncated":
            os.truncate(path, 4096)
        else:
            path.unlink()
        words = "was cut from" if gone == "truncated" else "was replaced" if gone == "replaced" else "was removed"
        with pytest.raises(RecordingError, match=rf"calls\.sqlite.* {words}"):
            calls[name](live)
        shutil.rmtree(folder, ignore_errors=True)


def test_nothing_lies_beside_the_file_between_two_calls_that_could_be_removed(tmp_path):
    first, second = Store(tmp_path / "s", writable=True), Store(tmp_path / "s", writable=True)
    first.add(pairs(2)), second.add(pairs(2, 2)), first.get(dict(pairs(4)))
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_what_a_removed_file_left_is_not_taken_for_a_new_one(tmp_path):
    store(tmp_path / "s", 1).unlink()
    (tmp_path / "s-journal").write_bytes(b"of a transaction that was cut short")
    with pytest.raises(RecordingError, match="s was removed, s-journal is left of it"):
        Store(tmp_path / "s", writable=True)


# --- full disks and folders that cannot be used ----------------------------------------------------

LIMITED = """
import resource, sys
from rag_utils.engine.recordings import Recordings, RecordingError, seal
live, done = Recordings(writable=True), 0
live.add([("first", {"text": "kept"})])
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    for done in range(1000):
        live.add([(f"{done}", {"text": str(done) * 5000})])
except RecordingError as error:
    print(done, error)
"""


def test_a_full_disk_is_said_and_loses_nothing():
    said, error = script(LIMITED).communicate()
    done = int(said.split()[0])
    assert "1 replies could not be recorded: " in said and "Make room" in said and done > 3, error
    again = Recordings(writable=True)
    assert len(again.get(["first", *map(str, range(done))])) == done + 1
    again.check(), again.add([(str(done), REPLY)])


def test_a_full_disk_while_sealing_keeps_the_old_file(tmp_path):
    path, before = sealed("a", 3), sealed("a", 3).read_bytes()
    Recordings(writable=True).add(pairs(9))
    partial = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    partial.symlink_to("/dev/full")
    with pytest.raises(RecordingError, match="could not be written: No space left"):
        seal("a", dict(pairs(9)))
    assert path.read_bytes() == before and not partial.is_symlink()


UNPRIVILEGED = """
import os, sys
sys.path[:0] = sys.argv[2:]
from rag_utils.base.cache import CacheError
from rag_utils.engine.recordings import Recordings, RecordingError, read_sealed
from pathlib import Path
if os.getuid() == 0:
    os.setuid(65534)
try:
    print(eval(sys.argv[1]))
except (RecordingError, CacheError) as error:
    print(error)
"""


def unprivileged(code: str) -> str:
    """What the code gives to somebody who may not do everything."""
    done = subprocess.run([sys.executable, "-c", UNPRIVILEGED, code], capture_output=True, text=True)
    return done.stdout or done.stderr


@pytest.fixture
def open_to_all(monkeypatch):
    """A folder that others may enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr(recordings, "TRACKED", Path(folder) / "tracked")
        monkeypatch.setenv("RAG_COMPANION_CACHE", str(Path(folder) / "cache"))
        yield Path(folder)


def test_folders_and_files_without_rights(open_to_all):
    path, keys = sealed("a", 3), list(dict(pairs(3)))
    database = open_to_all / "cache/recordings/calls.sqlite"
    database.parent.chmod(0o555), database.chmod(0o444)
    assert unprivileged(f"len(Recordings('none').get({keys}))") == "3\n"  # reading needs no right to write
    assert "cannot be opened" in unprivileged("Recordings(writable=True).add([('k', {})])")
    database.chmod(0o000), path.chmod(0o000)
    said = unprivileged("Recordings('none').get(['k'])"), unprivileged(f"read_sealed(Path({str(path)!r}))")
    assert all("cannot be" in words and "damaged" not in words for words in said), said
    open_to_all.chmod(0o700)
    assert "calls.sqlite cannot be opened for this: Permission denied" in unprivileged("Recordings('none')")
    open_to_all.chmod(0o755), database.unlink()
    assert "cannot write to" in unprivileged("Recordings(writable=True)")


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="cannot write to"):
        Store(tmp_path / "file" / "s", writable=True)
