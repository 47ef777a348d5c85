"""Rows (.csv) and what they were measured with (.json) as one unit: a changed byte in either is found and named."""

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from rag_utils.base.cache import ROOT, CacheError, cache_dir, make_dir

TRIES, PAUSE = 10, 0.02  # a reader that comes between the two files of a writer looks again
SETTLED = 2.0  # seconds after which a change must show in a file's time


class TableError(ValueError):
    """Rows are not there, damaged, or measured with other settings; the message says which, and what to do."""


def write(path: Path, text: str, content: dict) -> None:
    """Write the rows, then `path` (.json), each at once or not at all; TableError names what could not be written."""
    content = {**content, "sha256": sha256(text)}
    make_dir(path.parent)
    replace(path.with_suffix(".csv"), text)
    replace(path, _as_json({**content, "seal": _seal(content)}))


def read(path: Path) -> tuple[str, dict]:
    """(rows, content) of `path` (.json), if both files and each that facts["files"] names are what was written.

    raises : TableError naming the file that is missing or damaged
    """
    for _ in range(TRIES):
        try:
            return _read(path)
        except _Apart:
            time.sleep(PAUSE)
    return _read(path)


def damage(folder: Path) -> Iterator[str]:
    """A sentence for each file below a folder of tables that is damaged, or that no table knows."""
    known = set()
    for path in sorted(folder.rglob("*.json")):
        known |= {path, path.with_suffix(".csv")}
        try:
            _, content = _read(path)
            known |= {path.with_name(name) for name in content["facts"].get("files", {})}
        except ValueError as error:
            yield str(error)
    for path in sorted(folder.rglob("*")):
        if path not in known and not path.is_dir():
            yield f"{relative(path)} belongs to no table; delete it, or restore what names it with git checkout"


def relative(path: Path) -> Path:
    """The path as it is written in messages: from the repository's root where it lies there."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def sha256(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def replace(path: Path, text: str) -> None:
    """Write a text file at once or not at all; TableError if it cannot be written."""
    partial = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        with open(partial, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())  # on the disk before the old one goes
        os.replace(partial, path)
    except OSError as error:
        raise TableError(f"{relative(path)} could not be written: {error.strerror}") from error
    finally:
        if partial.exists():
            partial.unlink()


def digests(paths: Iterable[Path]) -> dict[Path, str]:
    """The SHA-256 of each file, 64 hex digits; a file of the same size, time and inode as once before is not read again."""
    memory = cache_dir("digests.json")
    try:
        known = dict(json.loads(memory.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        known = {}
    result, news = {}, {}
    for path in paths:
        status = path.stat()
        state = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        name = str(path.resolve())
        if known.get(name, [])[:-1] == state:
            result[path] = known[name][-1]
            continue
        with path.open("rb") as stream:
            result[path] = hashlib.file_digest(stream, "sha256").hexdigest()
        if time.time() - max(status.st_mtime, status.st_ctime) > SETTLED:
            news[name] = [*state, result[path]]
    if news:
        kept = {name: row for name, row in (known | news).items() if Path(name).exists()}
        with suppress(CacheError, TableError):  # a folder without rights: the files are read again the next time
            make_dir(memory.parent)
            replace(memory, json.dumps(kept, indent=1))
    return result


class _Apart(TableError):
    """The two files do not belong together: damage, or a writer at work."""


def _read(path: Path) -> tuple[str, dict]:
    mend = "restore it with git checkout" if path.is_relative_to(ROOT) else "delete it and measure again"
    table = path.with_suffix(".csv")
    raw, rows = _bytes(path), _bytes(table)
    try:
        content = json.loads(raw)
        if content["seal"] != _seal(content) or _as_json(content).encode() != raw:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise TableError(f"{relative(path)} is damaged: it is not what was written; {mend}") from None
    for name, digest in {table.name: content["sha256"], **content["facts"].get("files", {})}.items():
        if sha256(rows if name == table.name else _bytes(path.with_name(name))) != digest:
            raise _Apart(f"{relative(path.with_name(name))} is damaged: {path.name} has another checksum; {mend}")
    return rows.decode(), content


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"there is no {relative(path)}") from None
    except OSError as error:
        raise TableError(f"{relative(path)} cannot be read: {error.strerror}") from None


def _seal(content: dict) -> str:
    return sha256(json.dumps({key: value for key, value in content.items() if key != "seal"}, sort_keys=True))[:32]


def _as_json(content: dict) -> str:
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
