"""The two folders that files are found in: the repository and the user's cache."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class CacheError(RuntimeError):
    """A folder of the cache cannot be made or written to."""


def cache_dir(*parts: str) -> Path:
    """The path below the user's cache folder, RAG_COMPANION_CACHE or else `~/.cache/rag-companion`; nothing is created.

    raises : CacheError if the path starts with "~" and there is no home folder
    """
    root = os.environ.get("RAG_COMPANION_CACHE") or "~/.cache/rag-companion"
    try:
        return Path(root).expanduser().absolute().joinpath(*parts)
    except RuntimeError as error:
        raise CacheError(f"no home folder for {root}; set RAG_COMPANION_CACHE to a folder you can write to") from error


def make_dir(path: Path) -> Path:
    """`path`, made with its parents where they are missing, and writable; else CacheError names it and the reason."""
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
