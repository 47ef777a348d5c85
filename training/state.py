"""The state of a training run on disk: all that its next step depends on, written at once or not at all, as safetensors.

    plan = state.steps(len(examples), epochs=5, batch=4, seed=0)
    run = state.digest(recipe, examples)
    kept = state.load(path, run, optimizer)                      # None at the beginning
    state.save(path, run, optimizer, {"model": weights}, losses)

The loops of this folder are plain ones and not `transformers.Trainer`: a run that was stopped has to end in the same bits as one that was
not, with orders and dropout drawn by seed and step, and a state that holds no pickle. `Trainer` keeps its optimiser and its random numbers
as pickles, and of the loops nothing but some ten lines would have become shorter.
"""

import hashlib
import json
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as as_bytes
from safetensors.torch import save_file

from rag_utils.base.cache import make_dir

Tensors = Mapping[str, torch.Tensor]


def digest(*facts, weights: Tensors | None = None) -> str:
    """What a run is made with, as one word: whatever JSON can hold, dataclasses and paths too, and the weights that it begins with."""
    text = json.dumps(facts, sort_keys=True, default=lambda value: str(value) if isinstance(value, Path) else vars(value))
    return hashlib.sha256(text.encode() + (as_bytes(dict(weights)) if weights else b"")).hexdigest()


def steps(count: int, *, epochs: int, batch: int, seed: int) -> list[list[int]]:
    """The places of the examples of every step, of `count`: each once an epoch, in an order that the seed decides before the first."""
    plan = []
    for epoch in range(epochs):
        order = random.Random(f"{seed}-{epoch}").sample(range(count), count)
        plan += parts(order, batch)
    return plan


def parts(items: Sequence, size: int) -> list[Sequence]:
    """Consecutive items together, `size` at a time; the last part may have fewer."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def save(path: Path, run: str, optimizer, groups: Mapping[str, Tensors], history: list) -> None:
    """Write the optimiser, each group of tensors under its name, and the history.

    run : of `digest`; `load` wants the same
    """
    tensors = {f"{group}.{name}": tensor.detach().contiguous() for group, own in groups.items() for name, tensor in own.items()}
    for index, entries in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value).clone() for name, value in entries.items()}
    partial = make_dir(path.parent) / f"{path.name}.partial"
    save_file(tensors, partial, metadata={"run": run, "history": json.dumps(history)})
    os.replace(partial, path)


def load(path: Path, run: str, optimizer) -> tuple[dict[str, dict[str, torch.Tensor]], list] | None:
    """(groups, history) as they were saved, with the optimiser set to what it was; None where nothing was saved yet.

    raises : ValueError if the file is damaged, or of a run that was made with something else
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.offset_keys()}
            facts = file.metadata()
        saved, history = facts["run"], json.loads(facts["history"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({type(error).__name__}); delete it and the run begins again") from error
    if saved != run:
        raise ValueError(f"{path} belongs to a run with another model, examples or settings; delete it or give a folder of its own")
    groups: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        group, _, rest = name.partition(".")
        groups.setdefault(group, {})[rest] = tensor
    entries: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in groups.pop("optimizer", {}).items():
        index, _, entry = name.partition(".")
        entries.setdefault(int(index), {})[entry] = tensor
    optimizer.load_state_dict(optimizer.state_dict() | {"state": entries})
    return groups, history
