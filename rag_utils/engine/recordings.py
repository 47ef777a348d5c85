"""Recorded model calls: what a model replied, found again by the hash of what it was asked.

One file per chapter. A sealed file (`NAME.jsonl`) has a first line with the count and the SHA-256 of what follows, is sorted by key and
is only ever replaced as a whole. New replies go to a journal beside it (`NAME.jsonl.journal`), one line each with its own checksum,
flushed to the disk batch by batch: a crash or a kill loses at most the batch in flight. Sealing merges the journal into the file.

A prompt is never stored, only the hash of the call.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from rag_utils.base.cache import make_dir

FORMAT = 1
PATIENCE = 10.0  # seconds to wait for another writer to end; a killed run's kernel takes a moment


class RecordingError(RuntimeError):
    """A recording is missing, damaged or no longer what the model says; the message names the file and the command that mends it."""


def call_key(**call) -> str:
    """The key of a call: 32 hex digits of the SHA-256 of everything that determines its reply.

    >>> call_key(model="m", prompt="a") == call_key(prompt="a", model="m") != call_key(model="m", prompt="b")
    True
    """
    text = json.dumps(call, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Recordings:
    """The recorded calls of one file. `get` looks a reply up, `add` records a batch of them, `seal` makes the file whole.

    path     : the sealed file; it and its journal need not exist
    writable : take the file for writing: the journal of an interrupted run is merged first, and a second writer is refused
    raises   : RecordingError if a file is damaged, or another run is recording to it
    """

    def __init__(self, path: Path, *, writable: bool = False):
        self.path = Path(path)
        self.journal = self.path.with_name(self.path.name + ".journal")
        self._lock = self._stream = None
        self._replies = _read_sealed(self.path)
        if writable:
            make_dir(self.path.parent)
            self._lock = self._take_lock()
        pending, torn = _read_journal(self.journal)
        self._replies.update(pending)
        if writable and (pending or torn):
            self.seal()

    def __len__(self) -> int:
        return len(self._replies)

    def __contains__(self, key: str) -> bool:
        return key in self._replies

    def get(self, key: str) -> dict | None:
        """The reply recorded under `key`, or None."""
        return self._replies.get(key)

    def add(self, replies: Iterable[tuple[str, dict]]) -> None:
        """Record a batch of (key, reply); it is on the disk when this returns.

        raises : RecordingError if it cannot be written (the disk is full, say); what was recorded before stays
        """
        if self._lock is None:
            raise RecordingError(f"{self.path} was opened for reading; open it with writable=True to record.")
        replies = [(key, reply) for key, reply in replies if key not in self._replies]
        if not replies:
            return
        block = "".join(_journal_line(key, reply) for key, reply in replies).encode()
        try:
            if self._stream is None:
                self._stream = open(self.journal, "ab", buffering=0)
            end = self._stream.tell()
            try:
                _write_all(self._stream, block)
                os.fsync(self._stream.fileno())
            except OSError:
                self._cut_journal(end)
                raise
        except OSError as error:
            raise RecordingError(
                f"{len(replies)} replies could not be recorded in {self.journal}: {error.strerror}; what was recorded before is "
                "kept. Make room and run the same command again."
            ) from error
        self._replies.update(replies)

    def seal(self) -> None:
        """Merge the journal into the sealed file, which is replaced at once or not at all."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        body = "".join(
            json.dumps({"key": key, **self._replies[key]}, ensure_ascii=False) + "\n" for key in sorted(self._replies)
        )
        head = {"format": FORMAT, "replies": len(self._replies), "sha256": hashlib.sha256(body.encode()).hexdigest()}
        partial = self.path.with_name(self.path.name + ".partial")
        try:
            with open(partial, "w", encoding="utf-8") as stream:
                stream.write(json.dumps(head) + "\n" + body)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, self.path)
            self.journal.unlink(missing_ok=True)
        except OSError as error:
            raise RecordingError(
                f"{self.path} could not be written: {error.strerror}; the replies stay in {self.journal.name}. "
                "Make room and run the same command again."
            ) from error

    def close(self) -> None:
        """Seal what is in the journal and let other runs write."""
        if self._lock is None:
            return
        if self.journal.exists():
            self.seal()
        self._lock.close()
        self._lock = None

    def _take_lock(self):
        try:
            stream = open(self.path.with_name(self.path.name + ".lock"), "w")
        except OSError as error:
            raise RecordingError(
                f"{self.path.parent} cannot be written to: {error.strerror}; recording needs that."
            ) from error
        until = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return stream
            except OSError:
                if time.monotonic() > until:
                    stream.close()
                    raise RecordingError(
                        f"another run is recording to {self.path}; wait for it to end or stop it."
                    ) from None
                time.sleep(0.1)

    def _cut_journal(self, end: int) -> None:
        """Take back a half-written batch; if the disk refuses even that, the next reader drops the torn line."""
        try:
            os.ftruncate(self._stream.fileno(), end)
        except OSError:
            pass
        self._stream.close()
        self._stream = None


def _write_all(stream, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[stream.write(view) :]


def _journal_line(key: str, reply: dict) -> str:
    text = json.dumps({"key": key, **reply}, ensure_ascii=False)
    return f"{_checksum(text)} {text}\n"


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _read_sealed(path: Path) -> dict[str, dict]:
    if not path.exists():
        return {}
    restore = (
        f"restore it (`git checkout -- {path.name}` in its folder), or delete it and record again with `make live`."
    )
    try:
        head, _, body = path.read_bytes().partition(b"\n")
        promised = json.loads(head)
        expected, digest = promised["replies"], promised["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordingError(f"{path} is damaged: its first line is not a header of recordings; {restore}") from error
    if promised.get("format") != FORMAT:
        raise RecordingError(
            f"{path} has format {promised.get('format')}, this version reads format {FORMAT}; {restore}"
        )
    lines = body.count(b"\n")
    if lines != expected:
        raise RecordingError(
            f"{path} is damaged: its header promises {expected} replies, {lines} whole lines are there; {restore}"
        )
    if hashlib.sha256(body).hexdigest() != digest:
        raise RecordingError(f"{path} is damaged: the checksum of its {lines} replies is wrong; {restore}")
    return {reply.pop("key"): reply for reply in map(json.loads, body.splitlines())}


def _read_journal(path: Path) -> tuple[dict[str, dict], bool]:
    """The journal's replies, and whether its last line was torn by an interruption (that line is dropped)."""
    if not path.exists():
        return {}, False
    *lines, tail = path.read_bytes().split(b"\n")
    replies = {}
    for number, line in enumerate(lines, start=1):
        checksum, _, text = line.decode("utf-8", errors="replace").partition(" ")
        if _checksum(text) != checksum:
            raise RecordingError(
                f"{path}, line {number} of {len(lines)}, is damaged: its checksum is wrong; delete that line and run "
                "`make live` again, which records that reply anew and keeps the others."
            )
        reply = json.loads(text)
        replies[reply.pop("key")] = reply
    return replies, bool(tail)
