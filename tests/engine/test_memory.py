"""Memory goes back to the system when a process has grown, and only then."""

from rag_utils.engine import memory
from rag_utils.engine.memory import GROWN, Freed


class Library:
    """A C library that notes what it is asked."""

    def __init__(self):
        self.asked = []

    def malloc_trim(self, left):
        self.asked.append(left)


def test_it_is_given_back_when_the_process_has_grown(monkeypatch):
    library, pages = Library(), [GROWN + 1]
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(memory, "_resident", lambda: pages[0])
    freed = Freed()
    freed.give_back()
    assert library.asked == [0]
    for pages[0] in (GROWN + 1, 2 * GROWN, 2 * GROWN + 1):
        freed.give_back()
    assert library.asked == [0]
    pages[0] = 2 * GROWN + 2
    freed.give_back()
    assert library.asked == [0, 0]


def test_where_there_is_no_such_function_nothing_happens(monkeypatch, tmp_path):
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    Freed().give_back()
    monkeypatch.setattr(memory, "STATM", tmp_path / "statm")
    Freed().give_back()


def test_what_is_in_memory_is_seen_to_grow():
    before = memory._resident()
    held = bytearray(64 * 2**20)
    held[::4096] = b"x" * len(held[::4096])
    assert memory._resident() - before > 10_000
