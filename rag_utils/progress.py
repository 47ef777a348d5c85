"""One progress line on long work: on a terminal or in an open notebook, never in the published page or in CI."""

import os
import sys
from collections.abc import Iterable, Iterator

from tqdm.auto import tqdm

TERMINAL = (
    "RAG_COMPANION_TERMINAL"  # set by the command line, so that a notebook's kernel can write where the reader looks
)


def track(items: Iterable, *, what: str, total: int | None = None, unit: str = "batch") -> Iterator:
    """Yield `items`, showing one line that says how far the work is and disappears at the end.

    The line is off if TQDM_DISABLE or CI is set, so that neither a page nor a log ever holds it.
    """
    terminal = os.environ.get(TERMINAL)
    disabled = bool(os.environ.get("CI")) or os.environ.get("TQDM_DISABLE", "0") not in ("", "0")
    if not terminal or disabled:
        yield from tqdm(items, desc=what, total=total, unit=unit, leave=False, disable=disabled)
        return
    with open(terminal, "w") as stream:
        yield from tqdm(items, desc=what, total=total, unit=unit, leave=False, file=stream, dynamic_ncols=True)


def terminal_name() -> str | None:
    """The terminal that standard error is shown on, or None where there is none (a pipe, a log, CI)."""
    try:
        return os.ttyname(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return None
