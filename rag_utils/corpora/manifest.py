"""Where the files of the public benchmarks are, and whether they are the right ones.

`data/manifest.json` names, per data set, the file, its SHA-256, its source and licence. A file is looked for in the
folder that RAG_COMPANION_DATA names, then in the user's cache. Nothing is downloaded unless `fetch` is called.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from rag_utils.base import checks
from rag_utils.base.cache import ROOT, CacheError, cache_dir, make_dir
from rag_utils.base.sealed import digests
from rag_utils.corpora import prompts
from rag_utils.corpora.rows import DataError, Form, document, unreadable

MANIFEST = ROOT / "data" / "manifest.json"
TIMEOUT = 30.0  # seconds without an answer after which a download is given up


def _stays_inside(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError("should be a path inside the data folder")
    return path


class Entry(Form):
    """One file of the manifest."""

    path: Annotated[str, AfterValidator(_stays_inside)]  # below the data folder, with "/"
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    rows: int = Field(gt=0)  # questions, or records where there are none, before any is left out
    source: str = Field(min_length=1)  # owner/repository@commit:path
    url: list[Annotated[str, Field(pattern=r"^https?://")]] = Field(min_length=1)  # of the file, or of prompts that hold its rows
    licence: str = Field(min_length=1)


def entries() -> dict[str, Entry]:
    """The manifest: data set name -> entry; DataError if it is missing or an entry is not of that form."""
    mend = "run from a clone of the repository (pip install -e .), with this file as git has it"
    return document(MANIFEST, dict[str, Entry], mend=mend)


def locate(name: str) -> Path:
    """The path of a data set's file, checked against its SHA-256 once per process unless the file changes.

    raises : ValueError for an unknown name; DataError if RAG_COMPANION_DATA is not a folder, or if the file is absent,
             unreadable or differs, also where the other place has a good one
    """
    entry = _entry(name)
    if path := _found(_places(entry)):
        return _checked(name, path, entry)
    where = f"or set RAG_COMPANION_DATA to a folder that holds {entry.path}"
    raise DataError(f"data set {name!r} is not here; run: rag-companion data fetch {name}, {where}")


def status() -> list[tuple[str, Entry, Path | None, bool | None]]:
    """Name, entry, path and the checksum's verdict of each data set, both None where it is absent; DataError as `locate`."""
    places = [(name, entry, _found(_places(entry))) for name, entry in entries().items()]
    return [(name, entry, path, path and _digest(path) == entry.sha256) for name, entry, path in places]


def fetch(name: str) -> Path:
    """Download a data set's file into the cache, unless a right one is here already, and return its path.

    raises : ValueError for an unknown name; DataError if there is no answer, not enough room, a cache that
             cannot be written to, or a wrong checksum
    """
    entry = _entry(name)
    *given, target = _places(entry)
    if path := _found(given):
        return _checked(name, path, entry)
    if _found([target]) and _digest(target) == entry.sha256:
        return target
    try:
        make_dir(target.parent)
        _download(name, entry, target)
    except CacheError as error:
        raise DataError(f"data set {name!r}: {error}") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        mend = "make room there or set RAG_COMPANION_CACHE to a folder you can write to"
        raise DataError(f"data set {name!r}: cannot write {target}: {reason}; {mend}") from error
    return target


def _download(name: str, entry: Entry, target: Path) -> None:
    """To a file beside the target, which becomes the target once it is whole."""
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            given = [_chunks(name, address) for address in entry.url]
            texts = [b"".join(chunks).decode(errors="replace") for chunks in given[1:] and given]
            file.writelines([prompts.rows(texts).encode()] if texts else given[0])
        if (got := _digest(partial)) != entry.sha256:
            apart = f"what came from {entry.url[0]} has SHA-256 {got[:12]}, wanted {entry.sha256[:12]}"
            mend = "the download was cut short or the source has changed, run it again"
            raise DataError(f"data set {name!r}: {apart}; {mend}")
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _chunks(name: str, url: str) -> Iterator[bytes]:
    import httpx

    try:
        with httpx.stream("GET", url, timeout=TIMEOUT, follow_redirects=True) as response:
            yield from response.raise_for_status().iter_bytes()
    except httpx.HTTPError as error:
        mend = "go online and run it again, or set RAG_COMPANION_DATA to a folder that has the file"
        raise DataError(f"data set {name!r}: no download from {url}: {error}; {mend}") from error


def _entry(name: str) -> Entry:
    return (known := entries())[checks.one_of("data set", name, known)]


def _places(entry: Entry) -> list[Path]:
    """Where a file may be, first choice first; the last place is the cache."""
    places = [cache_dir("data", entry.path)]
    if given := os.environ.get("RAG_COMPANION_DATA"):
        folder = Path(os.path.abspath(os.path.expanduser(given)))
        if not os.path.isdir(folder):
            raise DataError(f"RAG_COMPANION_DATA is {given}, which is not a folder; unset it or name a folder")
        places.insert(0, folder / entry.path)
    return places


def _found(places: list[Path]) -> Path | None:
    return next((path for path in places if os.path.isfile(path)), None)


def _checked(name: str, path: Path, entry: Entry) -> Path:
    got = _digest(path)
    if got == entry.sha256:
        return path
    apart = f"{path} has SHA-256 {got[:12]}, wanted {entry.sha256[:12]}"
    raise DataError(f"data set {name!r}: {apart}; it is damaged or another version, remove it and run: rag-companion data fetch {name}")


def _digest(path: Path) -> str:
    try:
        return digests([path])[path]
    except OSError as error:
        raise unreadable(path, error) from error
