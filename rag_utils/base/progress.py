"""One progress line on long work: on a terminal or in an open notebook, never in the published page or in CI."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from tqdm.auto import tqdm

TERMINAL = (
    "RAG_COMPANION_TERMINAL"  # set by the command line, so that a notebook's kernel can write where the reader looks
)


def track(batches: Iterable[Sequence], *, what: str, total: int) -> Iterator[Sequence]:
    """Yield the batches, showing on one line how many of `total` items are done; the line disappears at the end.

    It is off if TQDM_DISABLE or CI is set, so that neither a page nor a log ever holds it.
    """
    disabled = bool(os.environ.get("CI")) or os.environ.get("TQDM_DISABLE", "0") not in ("", "0")
    terminal = None if disabled else os.environ.get(TERMINAL)
    options = {"desc": what, "total": total, "unit": "call", "leave": False, "disable": disabled}
    stream = open(terminal, "w") if terminal else None
    try:
        with tqdm(**options, **({"file": stream, "dynamic_ncols": True} if stream else {})) as line:
            for batch in batches:
                yield batch
                line.update(len(batch))
    finally:
        if stream:
            stream.close()


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
    """The terminal that standard error is shown on, or None where there is none (a pipe, a log, CI)."""
    try:
        return os.ttyname(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return None
