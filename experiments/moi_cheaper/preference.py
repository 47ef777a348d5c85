"""Preference distillation: a cheap student learns which orders of the passages a teacher prefers.

The teacher's scores of some random orders of a question, and the student's scores of the same orders, are each turned into a distribution
by a softmax; what is minimised is how far the student's is from the teacher's (`preference_loss`). Two students:

* a language model of any size with a low-rank adapter, the paper's: `training/preference.py`;
* `Student`, which reads no text but the frozen embeddings of question and passages: an order scores sum_j a_j u_pi[j], with u a bilinear
  form of the embeddings that begins as their cosine, and one position a for all questions (`train_student`).
"""

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from rag_utils.base.cache import make_dir

SCALE = 10.0  # by which cosines are multiplied at the beginning, to be of the size of nats


def preference_loss(student, teacher, *, temperature: float = 1.0) -> torch.Tensor:
    """KL divergence of the student's distribution over orders from the teacher's, mean over the questions.

    student, teacher : (orders,) or (questions, orders) scores; what is added to all scores of a question plays no part
    temperature      : above 0; both scores are divided by it. The paper names none
    returns          : scalar, nats, 0 (the same preferences) and above, with the student's gradient
    raises           : ValueError if shapes differ, there are fewer than 2 orders, a score is not finite or temperature is out of range
    source           : MoI, section 3.3.2 and Fig. 5. Which of the two the expectation is over is not said; here it is the teacher, as in
                       Hinton et al. 2015

    >>> teacher = torch.log(torch.tensor([1 / 4, 3 / 4]))
    >>> round(preference_loss(torch.tensor([5.0, 5.0]), teacher).item(), 4)   # 1/4 log 1/2 + 3/4 log 3/2
    0.1308
    """
    student, teacher = (torch.as_tensor(values) for values in (student, teacher))
    if student.shape != teacher.shape or student.ndim not in (1, 2) or student.shape[-1] < 2:
        raise ValueError(
            f"student and teacher must be scores of the same 2 or more orders; got {tuple(student.shape)} and "
            f"{tuple(teacher.shape)}"
        )
    if not (torch.isfinite(student).all() and torch.isfinite(teacher).all()):
        raise ValueError("scores must be finite; got NaN or infinity")
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be a finite number above 0; got {temperature}")
    wanted = torch.log_softmax(teacher.to(student.dtype) / temperature, dim=-1)
    found = torch.log_softmax(student / temperature, dim=-1)
    return (wanted.exp() * (wanted - found)).sum(dim=-1).mean()


# --- embeddings as the student ---------------------------------------------------------------------


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


class Student(torch.nn.Module):
    """A worth of each passage from frozen embeddings, and a position for orders of one length.

    At the beginning the worth is SCALE times the cosine and all places are alike. `rank` columns on each side are learned.
    """

    def __init__(self, size: int, length: int, *, rank: int = 8):
        super().__init__()
        for side in ("question", "passage"):
            self.register_parameter(f"{side}_down", torch.nn.Parameter(torch.randn(size, rank) / size**0.5))
            self.register_parameter(f"{side}_up", torch.nn.Parameter(torch.zeros(rank, size)))
        self.log_scale = torch.nn.Parameter(torch.tensor(SCALE).log())
        self.place = torch.nn.Parameter(torch.zeros(length))

    def utility(self, question: torch.Tensor, passages: torch.Tensor) -> torch.Tensor:
        """(N,) worth of the passages, nats up to a constant."""
        asked = question + question @ self.question_down @ self.question_up
        shown = passages + passages @ self.passage_down @ self.passage_up
        return self.log_scale.exp() * (shown @ asked)

    def forward(self, question: torch.Tensor, passages: torch.Tensor, orders: torch.Tensor) -> torch.Tensor:
        """(m,) scores of the orders: sum_j a_j u_pi[j], MoI's eq. 4."""
        return self.utility(question, passages)[orders] @ torch.softmax(self.place, 0)

    def scores(self, question: np.ndarray, passages: np.ndarray) -> np.ndarray:
        """`utility` of arrays."""
        with torch.no_grad():
            return self.utility(
                *(torch.as_tensor(values, dtype=torch.float32) for values in (question, passages))
            ).numpy()


def train_student(
    examples: Sequence[Preference],
    development: Sequence[Preference],
    *,
    rank: int = 8,
    orders: int = 8,
    epochs: int = 60,
    batch: int = 4,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.01,
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
    lengths = {one.orders.shape[1] for one in (*examples, *development)}
    if len(lengths) != 1:
        raise ValueError(f"orders must be of one length; got {sorted(lengths)}")
    tensors = {part: [_tensors(one) for one in some] for part, some in (("train", examples), ("dev", development))}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        student = Student(len(examples[0].question), lengths.pop(), rank=rank)
    optimizer = torch.optim.AdamW(student.parameters(), lr=learning_rate, weight_decay=weight_decay)
    history, best = [], {}
    for epoch in range(epochs + 1):
        rng = random.Random(f"{seed}-{epoch}")
        order = rng.sample(range(len(examples)), len(examples)) if epoch else []
        for start in range(0, len(order), batch):
            losses = []
            for question, passages, some, wanted in (tensors["train"][i] for i in order[start : start + batch]):
                drawn = torch.tensor(rng.sample(range(len(wanted)), min(orders, len(wanted))))
                losses.append(preference_loss(student(question, passages, some[drawn]), wanted[drawn]))
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


def load_student(path: Path) -> tuple[Student, dict]:
    """The student and what it was made from.

    raises : ValueError if the file is absent or damaged
    """
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = json.loads(file.metadata()["facts"])
        size, rank = tensors["question_down"].shape
        student = Student(size, len(tensors["place"]), rank=rank)
        student.load_state_dict(tensors)
    except (OSError, SafetensorError, KeyError, TypeError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"{path.name} is absent or damaged ({type(error).__name__}); record the chapter again"
        ) from error
    return student.eval(), facts


def _tensors(one: Preference) -> tuple[torch.Tensor, ...]:
    numbers = [torch.as_tensor(values, dtype=torch.float32) for values in (one.question, one.passages, one.scores)]
    return numbers[0], numbers[1], torch.as_tensor(np.asarray(one.orders)), numbers[2]


def _mean(student: Student, examples) -> float:
    with torch.no_grad():
        losses = [preference_loss(student(q, p, orders), wanted) for q, p, orders, wanted in examples]
    return float(torch.stack(losses).mean())
