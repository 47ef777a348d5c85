"""Teach the student that reads embeddings the reader's preferences among orders of passages (chapter 08).

    python training/student.py --rank 8 --epochs 60

The teacher's scores of the companion's questions are committed with the chapter; no teacher is run. The weights hold what they were made
from, the losses of every epoch among it; `rag-companion seal 08_moi_cheaper` then keeps the student's scores.
"""

import argparse
import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from experiments.moi_cheaper import cheaper_numbers
from experiments.moi_cheaper.preference import Student, Vectors, preference_loss, vectors
from experiments.table import kept
from rag_utils import retrieve
from rag_utils.base.cache import make_dir
from rag_utils.measures.moi import problems

WEIGHT_DECAY = 0.01  # as printed; the paper's other numbers are `train_student`'s


@dataclass(frozen=True)
class Preference:
    """What a teacher says of one question, for a student that sees embeddings.

    question : (d,) float
    passages : (N, d) float
    orders   : (m, L) int
    scores   : (m,) float, the teacher's, nats
    """

    question: np.ndarray
    passages: np.ndarray
    orders: np.ndarray
    scores: np.ndarray


def preferences(table, condition: str, embedded: Vectors) -> list[Preference]:
    """What a teacher's scores under one name say: one `Preference` per question."""
    return [Preference(*embedded[name], orders, scores) for name, (orders, scores) in problems(table, condition).items()]


def train_student(
    examples: Sequence[Preference],
    development: Sequence[Preference],
    *,
    rank: int = 8,
    orders: int = 8,
    epochs: int = 60,
    batch: int = 4,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> tuple[Student, list[dict]]:
    """The student of the epoch with the least development loss, and the losses of every epoch, 0 being the beginning.

    orders  : drawn anew from each question's in every epoch, at most those that it has
    returns : (Student, rows with epoch, train and development: the mean loss over all orders, nats)
    raises  : ValueError if there is nothing to train on or to choose by, or orders differ in length
    source  : ours, with the paper's loss, batch and weight decay. Rate and epochs were set before any result was seen
    """
    if not examples or not development:
        raise ValueError(f"wanted questions to train on and to choose by; got {len(examples)} and {len(development)}")
    lengths = {taught.orders.shape[1] for taught in (*examples, *development)}
    if len(lengths) != 1:
        raise ValueError(f"orders must be of one length; got {sorted(lengths)}")
    tensors = {part: [_tensors(taught) for taught in own] for part, own in (("train", examples), ("dev", development))}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        student = Student(len(examples[0].question), lengths.pop(), rank=rank)
    optimizer = torch.optim.AdamW(student.parameters(), lr=learning_rate, weight_decay=WEIGHT_DECAY)
    history, best = [], {}
    for epoch in range(epochs + 1):
        rng = random.Random(f"{seed}-{epoch}")
        order = rng.sample(range(len(examples)), len(examples)) if epoch else []
        for start in range(0, len(order), batch):
            losses = []
            for question, passages, own_orders, wanted in (tensors["train"][i] for i in order[start : start + batch]):
                drawn = torch.tensor(rng.sample(range(len(wanted)), min(orders, len(wanted))))
                losses.append(preference_loss(student(question, passages, own_orders[drawn]), wanted[drawn]))
            optimizer.zero_grad()
            torch.stack(losses).mean().backward()
            optimizer.step()
        history.append({"epoch": epoch, "train": _mean(student, tensors["train"])})
        history[-1]["development"] = _mean(student, tensors["dev"])
        if history[-1]["development"] <= min(row["development"] for row in history):
            best = {name: tensor.detach().clone() for name, tensor in student.state_dict().items()}
    student.load_state_dict(best)
    return student, history


def save_student(student: Student, path: Path, facts: dict) -> None:
    """Weights as safetensors with what they were made from, at once or not at all."""
    make_dir(path.parent)
    partial = path.with_name(path.name + ".partial")
    tensors = {name: tensor.contiguous() for name, tensor in student.state_dict().items()}
    save_file(tensors, partial, metadata={"facts": json.dumps(facts, sort_keys=True)})
    os.replace(partial, path)


def settings(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, default=8, help="columns learned on each side")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=cheaper_numbers.WEIGHTS, help="file of the weights")
    return parser.parse_args(given)


def main(given: argparse.Namespace) -> list[dict]:
    teacher = kept(cheaper_numbers.CHAPTER, "teacher")
    size, prefix = teacher.settings["size"], teacher.settings["prefix"]
    parts, shown, _ = cheaper_numbers.corpus(size)
    embedded = vectors(retrieve.encoder(), parts["train"] + parts["dev"], shown)
    examples, development = (preferences(teacher.rows, name, embedded) for name in ("train", f"pruned {prefix}"))
    recipe = {"rank": given.rank, "epochs": given.epochs, "seed": given.seed}
    student, history = train_student(examples, development, **recipe)
    facts = recipe | {"size": size, "questions": len(examples), "encoder": "all-MiniLM-L6-v2", "history": history}
    save_student(student, given.out, facts | {"teacher": teacher.facts["fingerprints"][teacher.settings["profile"]]})
    print(
        f"development loss {history[0]['development']:.3f} at the beginning, "
        f"{min(row['development'] for row in history):.3f} at the best of {given.epochs} epochs"
    )
    return history


def _tensors(taught: Preference) -> tuple[torch.Tensor, ...]:
    parts = (taught.question, taught.passages, taught.scores)
    question, passages, scores = (torch.as_tensor(values, dtype=torch.float32) for values in parts)
    return question, passages, torch.as_tensor(np.asarray(taught.orders)), scores


def _mean(student: Student, examples) -> float:
    with torch.no_grad():
        losses = [preference_loss(student(q, p, orders), wanted) for q, p, orders, wanted in examples]
    return float(torch.stack(losses).mean())


if __name__ == "__main__":
    main(settings())
