"""Recorded model calls: what a model replied, found again by the hash of what it was asked.

Two stores hold them. The user's (`store.py`, in the cache folder) takes what live runs compute. The tracked files of the repository, one a
chapter, hold calls on our own corpus only and are written by `seal` alone: a first line with count and SHA-256 of what follows, sorted
by key, replaced as a whole. A prompt is never stored, only the hash of the call.
"""

import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from rag_utils.base import sealed
from rag_utils.base.cache import ROOT, cache_dir, make_dir
from rag_utils.engine import weights
from rag_utils.engine.store import RecordingError, Store

FORMAT = 1
TRACKED = ROOT / "data" / "recordings"
TRACE = "RAG_COMPANION_TRACE"  # names a file that every model opened for a chapter adds its answered calls to
_read: dict[Path, tuple] = {}  # path -> (what the file was when it was read, its replies)


def call_key(**call) -> str:
    """The key of a call: 32 hex digits of the SHA-256 of everything that determines its reply.

    >>> call_key(model="m", prompt="a") == call_key(prompt="a", model="m") != call_key(model="m", prompt="b")
    True
    """
    text = json.dumps(call, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return sealed.sha256(text)[:32]


class Recordings(Store):
    """Both stores as one: the user's is asked first, then the chapter's tracked file, or all; `add` writes to the user's only.

    raises : RecordingError if a file is damaged or cannot be read
    """

    def __init__(self, chapter: str | None = None, *, writable: bool = False):
        super().__init__(cache_dir("recordings", "calls.sqlite"), writable=writable)
        paths = [TRACKED / f"{chapter}.jsonl"] if chapter else sorted(TRACKED.glob("*.jsonl"))
        self._tracked = [read_sealed(path) for path in paths]
        self._checked = False

    def get(self, keys: Iterable[str]) -> dict[str, dict]:
        """As `Store.get`; RecordingError also if one is missing and the user's store is damaged, for then it may have been there."""
        keys = set(keys)
        replies = super().get(keys)
        for tracked in self._tracked:
            replies |= {key: tracked[key] for key in keys - replies.keys() if key in tracked}
        if len(replies) < len(keys) and not self._checked:
            self.check()
            self._checked = True
        return replies


def seal(chapter: str, keys: Collection[str]) -> Path:
    """Write the chapter's tracked file: the replies to these calls from both stores and nothing else, all at once or not at all.

    keys   : the calls that the chapter's page makes and those that its tables in data/results are verified by, as `traced` gives them. A
             replayed page reads the tables and does not make them, so trace both a replay and a verification
    raises : RecordingError if a reply is nowhere recorded, a store is damaged, or the file cannot be written
    """
    wanted = sorted({*keys})
    replies = Recordings(chapter).get(wanted)
    if missing := [key for key in wanted if key not in replies]:
        raise RecordingError(
            f"{len(missing)} of {len(wanted)} calls of {chapter} are recorded nowhere (the first is {missing[0]}); "
            f"`rag-companion run {chapter} --mode live` records them."
        )
    body = "".join(json.dumps({"key": key, **replies[key]}, ensure_ascii=False) + "\n" for key in wanted)
    head = {"format": FORMAT, "replies": len(wanted), "sha256": sealed.sha256(body)}
    path = TRACKED / f"{chapter}.jsonl"
    make_dir(TRACKED)
    try:
        sealed.replace(path, json.dumps(head) + "\n" + body)
    except sealed.TableError as error:
        raise RecordingError(f"{error}; it is as it was.") from error
    return path


def trace(chapter: str | None, fingerprint: str, keys: Collection[str]) -> None:
    """Note answered calls of a chapter in the file that RAG_COMPANION_TRACE names, if it names one."""
    path = os.environ.get(TRACE)
    if not (path and chapter and keys):
        return
    line = json.dumps({"chapter": chapter, "fingerprint": fingerprint, "keys": sorted(keys)}) + "\n"
    with open(path, "ab", buffering=0) as stream:
        stream.write(line.encode())


def traced(path: Path, chapter: str, *, fingerprints: Collection[str] | None = None) -> set[str]:
    """The keys of a chapter's calls that may be sealed, from a file that RAG_COMPANION_TRACE named.

    fingerprints : of the models whose calls count; by default those of the profiles with the embedded reader, in their own precision.
                   Calls of a model that was opened without a chapter, as for a benchmark, are never among them
    """
    fingerprints = weights.embedded_fingerprints() if fingerprints is None else fingerprints
    lines = map(json.loads, Path(path).read_text(encoding="utf-8").splitlines()) if Path(path).exists() else ()
    keys = (line["keys"] for line in lines if line["chapter"] == chapter and line["fingerprint"] in fingerprints)
    return set().union(*keys)


def read_sealed(path: Path) -> dict[str, dict]:
    """The replies of a sealed file by key, none if there is none, read once while it stays the same; RecordingError if it is damaged."""
    restore = f"restore it (`git checkout -- {path.name}` in its folder), or delete it and run with --mode live and `rag-companion seal`."
    try:
        with open(path, "rb") as stream:
            status = os.fstat(stream.fileno())
            state = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
            if path in _read and _read[path][0] == state:
                return _read[path][1]
            head, _, body = stream.read().partition(b"\n")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        promised = json.loads(head)
        expected, digest, version = promised["replies"], promised["sha256"], promised.get("format")
    except (ValueError, KeyError, TypeError) as error:
        raise RecordingError(f"{path} is damaged: its first line is not a header of recordings; {restore}") from error
    lines = body.count(b"\n")
    if version != FORMAT:
        raise RecordingError(f"{path} has format {version}, this version reads format {FORMAT}; {restore}")
    if lines != expected:
        raise RecordingError(f"{path} is damaged: its header promises {expected} replies, {lines} are there; {restore}")
    if sealed.sha256(body) != digest:
        raise RecordingError(f"{path} is damaged: the checksum of its {lines} replies is wrong; {restore}")
    _read[path] = state, {reply.pop("key"): reply for reply in map(json.loads, body.splitlines())}
    return _read[path][1]
