"""SHA-256 of large files, computed once: the result is kept in the cache folder beside what the file was when it was read."""

import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from rag_utils.base.cache import cache_dir

SETTLED = 2.0  # seconds after which a change must show in a file's time


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
        partial = memory.with_name(f".{memory.name}.{os.getpid()}")
        kept = {name: row for name, row in (known | news).items() if Path(name).exists()}
        try:
            memory.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(kept, indent=1))
            os.replace(partial, memory)
        except OSError:  # a folder that cannot be written to: the files are read again the next time
            partial.unlink(missing_ok=True)
    return result
