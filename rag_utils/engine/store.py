"""The user's store of replies: one SQLite file that any number of models, threads and processes write to at once.

A batch is one transaction, and on the disk when `add` returns (WAL with synchronous=FULL: a batch takes seconds to compute, its fsync
milliseconds). Each row carries a checksum of key and reply. What is damaged, removed or replaced is said, never computed again in silence.
"""

import hashlib
import itertools
import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import Collection, Iterable
from contextlib import closing, contextmanager
from pathlib import Path

from rag_utils.base.cache import make_dir

FORMAT = 1  # of the table
TABLE = "CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID"
PATIENCE = 60.0  # seconds to wait for another process's transaction
AT_ONCE = 500  # keys of one look
DAMAGED = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", None}
CLOSED = {"SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH", "SQLITE_READONLY"}
_of_the_parent: list[sqlite3.Connection] = []  # a forked process must not close what its parent has open


class RecordingError(RuntimeError):
    """A recording is missing, damaged or no longer what the model says; the message names the file and what mends it."""


class Store:
    """Replies by key. `get` looks them up, `add` records a batch, `check` reads all of it.

    path     : the file; made by the first store that is writable
    writable : whether replies may be added
    earlier  : gives the replies that a new file begins with
    """

    def __init__(self, path: Path, *, writable: bool = False, earlier=dict):
        self.path, self.writable, self._earlier = Path(path), writable, earlier
        self._connection, self._process, self._parts = None, os.getpid(), {}
        self._journal = self.path.with_name(self.path.name + "-wal")
        self._locks = self.path.with_name(self.path.name + "-shm")  # without it two writers do not know of each other
        self._lock = threading.RLock()
        self.get([])

    def get(self, keys: Collection[str]) -> dict[str, dict]:
        """Those of the keys that are recorded, with their replies.

        raises : RecordingError if a reply or the file is damaged or cannot be read
        """
        keys, replies = list(keys), {}
        with self._open() as connection:
            for first in range(0, len(keys) if connection else 0, AT_ONCE):
                part = keys[first : first + AT_ONCE]
                places = ",".join("?" * len(part))
                rows = connection.execute(f"SELECT key, reply, checksum FROM replies WHERE key IN ({places})", part)
                replies.update(self._reply(*row) for row in rows)
        return replies

    def add(self, replies: Iterable[tuple[str, dict]]) -> None:
        """Record a batch of (key, reply); what is there already stays as it is.

        raises : RecordingError if it cannot be written; what was recorded before stays
        """
        rows = [_row(key, reply) for key, reply in replies]
        try:
            with self._open() as connection:
                self._still_there()
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    connection.executemany("INSERT OR IGNORE INTO replies VALUES (?, ?, ?)", rows)
                self._still_there()
        except RecordingError as error:
            raise RecordingError(f"{len(rows)} replies could not be recorded: {error}") from error

    def check(self) -> None:
        """Read the whole file and compare every checksum.

        raises : RecordingError naming what is damaged
        """
        with self._open() as connection:
            if connection is None:
                return
            [said] = connection.execute("PRAGMA quick_check(1)").fetchone()
            if said != b"ok":
                raise self._damaged(said.decode(errors="replace").replace("\n", " "))
            for row in connection.execute("SELECT key, reply, checksum FROM replies"):
                self._reply(*row)

    def close(self) -> None:
        """Let the file go; the next call opens it again.

        raises : RecordingError if it was removed or replaced while it was recorded to
        """
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()
                self._still_there(self.path)

    def __del__(self):  # Python frees a connection late, and its journal stays until then
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()

    @contextmanager
    def _open(self):
        """The connection, or None where there is no file; errors of SQLite are said as ours."""
        with self._lock:
            try:
                if self._process != os.getpid():
                    _of_the_parent.append(self._connection)
                    self._connection, self._process = None, os.getpid()
                if self._connection is None and self.writable and not self.path.exists():
                    self._make()
                if self._connection is None and self.path.exists():
                    self._connection = self._connected("mode=rw")
                yield self._connection
            except sqlite3.Error as error:
                raise self._said(error) from error
            except OSError as error:
                raise RecordingError(f"{self.path} cannot be opened for this: {error.strerror}.") from error

    def _make(self) -> None:
        """The file with its table, there as a whole or not at all."""
        if (journal := self._journal).exists() and not self.path.exists():
            raise RecordingError(
                f"{self.path} was removed, {journal.name} is left of it; put it back or delete that too."
            )
        handle, scratch = tempfile.mkstemp(prefix=f".{self.path.name}-", dir=make_dir(self.path.parent))
        os.close(handle)
        try:
            with closing(sqlite3.connect(scratch, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("BEGIN")
                connection.execute(TABLE)
                rows = itertools.starmap(_row, self._earlier().items())
                connection.executemany("INSERT INTO replies VALUES (?, ?, ?)", rows)
                connection.execute(f"PRAGMA user_version={FORMAT}")
                connection.execute("COMMIT")
            os.link(scratch, self.path)
        except FileExistsError:
            pass  # another process was faster
        finally:
            os.unlink(scratch)

    def _connected(self, how: str) -> sqlite3.Connection:
        where = f"{self.path.absolute().as_uri()}?{how}"
        connection = sqlite3.connect(where, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        connection.text_factory = bytes
        try:
            for setting in ("synchronous=FULL", "wal_autocheckpoint=1") if self.writable else ():
                connection.execute(f"PRAGMA {setting}")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != FORMAT:
                raise self._damaged(f"it has format {version}, this version reads format {FORMAT}")
            connection.execute("SELECT key FROM replies LIMIT 1").fetchone()
        except (sqlite3.Error, RecordingError) as error:
            connection.close()
            if not self.writable and _name(error) in CLOSED and how == "mode=rw" and not self._journal.exists():
                return self._connected("mode=ro&immutable=1")  # a folder that cannot be written to
            raise
        parts = (self.path, self._journal, self._locks)
        self._parts = {path: _identity(path) for path in parts} if self.writable else {}
        return connection

    def _still_there(self, *only: Path) -> None:
        """RecordingError unless the files are those that were opened, and the store itself no shorter."""
        for path, (which, size) in self._parts.items():
            now, length = _identity(path)
            if only and path not in only:
                continue
            if now != which or now is None:
                if path == self._locks and self._connection is not None:
                    self._connection.close()  # or later ones of this process would share its locks
                    self._connection = None
                raise RecordingError(
                    f"{path} was {'replaced' if now else 'removed'} while this run was recording to it, and what it had recorded may be "
                    "gone with it. Put the file back, or run the same command again, which records what is missing."
                )
            if path == self.path and length < size:
                raise self._damaged(f"it was cut from {size} to {length} bytes while this run was recording to it")
            self._parts[path] = which, length

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

    def _said(self, error: Exception) -> RecordingError:
        name = _name(error)
        if name in DAMAGED:
            return self._damaged(str(error))
        if name in CLOSED:
            return RecordingError(f"{self.path} cannot be opened for this: {error}; look at the rights of its folder.")
        if name == "SQLITE_BUSY":
            return RecordingError(f"{self.path} was in use by another process for {PATIENCE:.0f} s; try again.")
        return RecordingError(
            f"{self.path}: {error} ({name}); what was recorded before is kept. Make room and run the same command again."
        )


def _row(key: str, reply: dict) -> tuple[str, str, str]:
    text = json.dumps(reply, ensure_ascii=False)
    return key, text, checksum(key, text)


def checksum(key: str, text: str) -> str:
    """16 hex digits over a key and its reply."""
    return hashlib.sha256(f"{key} {text}".encode()).hexdigest()[:16]


def _name(error: Exception) -> str | None:
    """SQLite's name of the error, without what comes behind a second underscore."""
    name = getattr(error, "sqlite_errorname", None)
    return name and "_".join(name.split("_")[:2])


def _identity(path: Path) -> tuple[tuple[int, int] | None, int]:
    try:
        status = path.stat()
    except OSError:
        return None, 0
    return (status.st_dev, status.st_ino), status.st_size
