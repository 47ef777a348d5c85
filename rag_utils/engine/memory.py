"""Memory: how many tokens may be held at once, and what was let go of given back to the system, where the C library would keep it."""

import ctypes
import math
import os
from pathlib import Path

STATM = Path("/proc/self/statm")
GROWN = 2**27 // os.sysconf("SC_PAGESIZE")  # pages by which the process must have grown since the last time
HELD = 1.5  # keys and values in memory at once, in those of a full batch: joining texts copies them
ON_PROCESSOR = 192 << 20  # bytes of keys and values; more make nothing faster there
ON_CARD = 0.5  # share of a GPU's free memory; the rest is for what a pass computes


def bytes_a_token(model) -> int:
    """Bytes of a token's keys and values; 0 for a model whose configuration does not tell."""
    config = model.config.get_text_config()
    if not hasattr(config, "num_hidden_layers") or not hasattr(config, "num_attention_heads"):
        return 0
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * width * model.dtype.itemsize


def tokens_held(model) -> int:
    """How many tokens may be held at once where the profile does not say: a power of two, at least 256 and on a processor at most 8192."""
    import torch

    a_token, most = bytes_a_token(model) or ON_PROCESSOR / 8192, 8192.0
    if on_card := model.device.type == "cuda":
        free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        most = ON_CARD * free / HELD / a_token
    return 2 ** int(math.log2(max(256, most if on_card else min(most, ON_PROCESSOR / a_token))))


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
