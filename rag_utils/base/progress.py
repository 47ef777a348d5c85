"""Progress of long work: one line on a terminal or in an open notebook, a line every half minute in a log, nothing in a page or in CI."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from tqdm.auto import tqdm

TERMINAL = "RAG_COMPANION_TERMINAL"  # set by the command line: where a notebook's kernel writes
EVERY = 30.0  # seconds between two lines of a log


def track(batches: Iterable[Sequence], *, what: str, total: int) -> Iterator[Sequence]:
    """Yield the batches, showing how many of `total` items are done; on a terminal the line disappears at the end.

    It is off if TQDM_DISABLE or CI is set, so that no page ever holds it.
    """
    if os.environ.get("CI") or os.environ.get("TQDM_DISABLE", "0") not in ("", "0"):
        yield from batches
        return
    name = os.environ.get(TERMINAL)
    with open(name, "a") if name else nullcontext(sys.stderr) as stream:
        if not stream.isatty() and (name or "ipykernel" not in sys.modules):
            yield from _logged(batches, what, total, stream)
            return
        where = {"file": stream, "dynamic_ncols": True} if name else {}
        with tqdm(desc=what, total=total, unit="call", leave=False, disable=False, **where) as line:
            for batch in batches:
                yield batch
                line.update(len(batch))


def _logged(batches: Iterable[Sequence], what: str, total: int, stream) -> Iterator[Sequence]:
    began, said, done = time.monotonic(), 0.0, 0
    for batch in batches:
        yield batch
        done, passed = done + len(batch), time.monotonic() - began
        if passed - said >= EVERY and done:
            said = passed
            elapsed, rest = map(tqdm.format_interval, (passed, passed * (total - done) / done))
            print(f"{what}: {done} of {total}, {elapsed} elapsed, about {rest} left", file=stream, flush=True)


@contextmanager
def no_loading_bars() -> Iterator[None]:
    """Hide the bars that transformers draws while it loads weights; they would end up in a page."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def terminal_name() -> str | None:
    """Where standard error goes, as a path that another process can open: a terminal, a pipe, a log; None where there is no such path."""
    try:
        return os.ttyname(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        path = f"/proc/{os.getpid()}/fd/2"
        return path if os.access(path, os.W_OK) else None
