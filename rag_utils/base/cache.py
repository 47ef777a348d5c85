"""The two folders that files are found in: the repository and the user's cache."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class CacheError(RuntimeError):
    """A folder of the cache cannot be made or written to."""


def cache_dir(*parts: str) -> Path:
    """Return the user's cache folder, or a path below it; nothing is created.

    The folder is RAG_COMPANION_CACHE where that is set, else `.cache/rag-companion` in the home folder, on every system.

    parts  : path components below the cache folder
    raises : CacheError if the path starts with "~" and there is no home folder
    """
    root = os.environ.get("RAG_COMPANION_CACHE") or "~/.cache/rag-companion"
    try:
        return Path(root).expanduser().absolute().joinpath(*parts)
    except RuntimeError as error:
        raise CacheError(f"no home folder for {root}; set RAG_COMPANION_CACHE to a folder you can write to") from error


def make_dir(path: Path) -> Path:
    """Make `path` and its parents where they are missing, and return it: afterwards it can be written to.

    raises : CacheError naming the path and the reason
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or type(error).__name__
    else:
        if os.access(path, os.W_OK | os.X_OK):
            return path
        reason = "not writable"
    own = path.absolute().is_relative_to(cache_dir())
    hint = "; set RAG_COMPANION_CACHE to a folder you can write to" if own else ""
    raise CacheError(f"cannot write to {path}: {reason}{hint}")
