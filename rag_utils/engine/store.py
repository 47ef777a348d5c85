"""The user's store of replies: one SQLite file that any number of models, threads and processes write to at once.

Every call opens the file anew and holds nothing afterwards. A batch is one transaction, and on the disk when `add` returns. Each row
carries a checksum of key and reply. What is damaged, removed or replaced is said, never computed again in silence.
"""

import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rag_utils.base.cache import make_dir

FORMAT = 1  # of the table
TABLE = "CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID"
ROWS = "SELECT key, reply, checksum FROM replies"
PATIENCE = 60.0  # seconds to wait for another process's transaction
DAMAGED = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", None}
CLOSED = {"SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH", "SQLITE_READONLY"}


class RecordingError(RuntimeError):
    """A recording is missing, damaged or no longer what the model says; the message names the file and what mends it."""


class Store:
    """Replies by key in the file `path`, which the first writable store makes."""

    def __init__(self, path: Path, *, writable: bool = False):
        self.path, self.writable = Path(path), writable
        self._known = None  # which file a writable store writes to, and its size when it was last seen
        with self._open():
            pass

    def get(self, keys: Collection[str]) -> dict[str, dict]:
        """Those of the keys that are recorded, with their replies; RecordingError if one or the file is damaged or cannot be read."""
        those = f"{ROWS} WHERE key IN (SELECT value FROM json_each(?))"
        with self._open() as connection:
            rows = connection.execute(those, [json.dumps(list(keys))]) if connection else ()
            return dict(self._reply(*row) for row in rows)

    def add(self, replies: Iterable[tuple[str, dict]]) -> None:
        """Record a batch of (key, reply); what is there stays as it is, also where RecordingError says that it cannot be written."""
        texts = [(key, json.dumps(reply, ensure_ascii=False)) for key, reply in replies]
        rows = [(key, text, checksum(key, text)) for key, text in texts]
        try:
            with self._open() as connection:
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    connection.executemany("INSERT OR IGNORE INTO replies VALUES (?, ?, ?)", rows)
        except RecordingError as error:
            raise RecordingError(f"{len(rows)} replies could not be recorded: {error}") from error

    def check(self) -> None:
        """Read the whole file and compare every checksum; RecordingError naming what is damaged."""
        with self._open() as connection:
            if connection is None:
                return
            [said] = connection.execute("PRAGMA quick_check(1)").fetchone()
            if said != b"ok":
                raise self._damaged(said.decode(errors="replace").replace("\n", " "))
            for row in connection.execute(ROWS):
                self._reply(*row)

    def close(self) -> None:
        """RecordingError if the file was removed or replaced while it was recorded to; the next call takes what is there then."""
        with self._open():
            pass
        self._known = None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection | None]:
        """A connection, or None where there is no file; errors of SQLite are said as ours."""
        try:
            if self.writable and self._known is None:
                self._make()
                self._known = _identity(self.path)
            self._still_there()
            if not self.path.exists():
                yield None
                return
            where = f"{self.path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(where, uri=True, timeout=PATIENCE, isolation_level=None)) as connection:
                connection.text_factory = bytes
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version != FORMAT:
                    raise self._damaged(f"it has format {version}, this version reads format {FORMAT}")
                yield connection
            self._still_there()
        except sqlite3.Error as error:
            raise self._said(error) from error
        except OSError as error:
            raise RecordingError(f"{self.path} cannot be opened for this: {error.strerror}.") from error

    def _make(self) -> None:
        """The file with its table, there as a whole or not at all, where there is none."""
        if self.path.exists():
            return
        journal = self.path.with_name(f"{self.path.name}-journal")
        if journal.exists():
            raise RecordingError(f"{self.path} was removed, {journal.name} is left of it; put it back or delete that too.")
        handle, scratch = tempfile.mkstemp(prefix=f".{self.path.name}-", dir=make_dir(self.path.parent))
        os.close(handle)
        try:
            with closing(sqlite3.connect(scratch)) as connection:
                connection.execute(TABLE)
                connection.execute(f"PRAGMA user_version={FORMAT}")
            os.link(scratch, self.path)
        except FileExistsError:
            pass  # another process was faster
        finally:
            os.unlink(scratch)

    def _still_there(self) -> None:
        """RecordingError unless the file that a writable store writes to is the one that it began with, and no shorter."""
        if self._known is None:
            return
        (which, size), (now, length) = self._known, _identity(self.path)
        if now != which:
            raise RecordingError(
                f"{self.path} was {'replaced' if now else 'removed'} while this run was recording to it, and what it had recorded may be "
                "gone with it. Put the file back, or run the same command again, which records what is missing."
            )
        if length < size:
            raise self._damaged(f"it was cut from {size} to {length} bytes while this run was recording to it")
        self._known = which, length

    def _reply(self, key, reply, written) -> tuple[str, dict]:
        try:
            name, text = key.decode(), reply.decode()
            if checksum(name, text).encode() == written:
                return name, json.loads(text)
        except (AttributeError, UnicodeDecodeError):
            name = repr(key)
        raise RecordingError(
            f"{self.path} is damaged: the checksum of reply {name} is wrong; take it out (`sqlite3 {self.path} "
            f"\"DELETE FROM replies WHERE key = '{name}'\"`) and run with --mode live, which records it anew."
        )

    def _damaged(self, what: str) -> RecordingError:
        return RecordingError(
            f"{self.path} is damaged: {what}; put a copy of it back, or delete it and what begins with its name, and run with --mode live, "
            "which records what is missing."
        )

    def _said(self, error: sqlite3.Error) -> RecordingError:
        name = getattr(error, "sqlite_errorname", None)
        name = name and "_".join(name.split("_")[:2])  # without what says more
        if name in DAMAGED:
            return self._damaged(str(error))
        if name in CLOSED:
            return RecordingError(f"{self.path} cannot be opened for this: {error}; look at the rights of its folder.")
        if name == "SQLITE_BUSY":
            return RecordingError(f"{self.path} was in use by another process for {PATIENCE:.0f} s; try again.")
        return RecordingError(f"{self.path}: {error} ({name}); what was recorded before is kept. Make room and run the same command again.")


def checksum(key: str, text: str) -> str:
    """16 hex digits over a key and its reply."""
    return hashlib.sha256(f"{key} {text}".encode()).hexdigest()[:16]


def _identity(path: Path) -> tuple[tuple[int, int] | None, int]:
    try:
        status = path.stat()
    except OSError:
        return None, 0
    return (status.st_dev, status.st_ino), status.st_size
