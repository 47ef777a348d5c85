"""Memory that a model let go of: given back to the system, where the C library would keep it."""

import ctypes
import os
from pathlib import Path

STATM = Path("/proc/self/statm")
GROWN = 2**27 // os.sysconf("SC_PAGESIZE")  # pages by which the process must have grown since the last time


class Freed:
    """What lies between pieces in use: of tensors of a thousand sizes glibc kept more than those that were held needed."""

    pages = 0

    def give_back(self) -> None:
        """Give it back if the process has grown; nothing where the C library has no such function."""
        trim = STATM.exists() and getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim and _resident() > self.pages + GROWN:
            trim(0)
            self.pages = _resident()


def _resident() -> int:
    return int(STATM.read_text().split()[1])
