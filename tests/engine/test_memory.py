"""How many tokens memory holds; and it goes back to the system when a process has grown, and only then."""

import torch
from transformers import PretrainedConfig

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


class Shaped:
    """A model of which only the shape is asked."""

    dtype = torch.float32

    def __init__(self, device="cpu", **config):
        self.device, self.config = torch.device(device), PretrainedConfig(**config)


SHAPE = {"num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 576}


def test_what_a_token_takes_and_how_many_are_held(monkeypatch):
    model = Shaped(**SHAPE)
    assert memory.bytes_a_token(model) == 2 * 30 * 3 * 64 * 4
    assert memory.tokens_held(model) == 4096  # 192 MiB / 46,080 = 4,369
    assert memory.tokens_held(Shaped(**SHAPE | {"num_hidden_layers": 3})) == 8192  # more is not faster
    assert memory.bytes_a_token(Shaped()) == 0 and memory.tokens_held(Shaped()) == 8192
    free = 24 << 30
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 2 * free))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 3 << 30)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 2 << 30)
    held = memory.tokens_held(Shaped("cuda", **SHAPE))
    most = 0.5 * (25 << 30) / 1.5 / memory.bytes_a_token(model)
    assert held == 131_072 and most / 2 < held <= most
    free = 0
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 2 << 30)
    assert memory.tokens_held(Shaped("cuda", **SHAPE)) == 256
