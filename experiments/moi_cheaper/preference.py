"""Preference distillation: a cheap student learns which orders of the passages a teacher prefers.

The scores that both give to some random orders of a question become distributions by a softmax; what is minimised is how far the student's
is from the teacher's (`preference_loss`). The paper's student is a language model with a low-rank adapter, `training/preference.py`.
`Student` reads no text but the frozen embeddings of question and passages, and is taught by `training/student.py`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from rag_utils.data import Question
from rag_utils.measures.moi import Shown
from rag_utils.retrieve import Encoder, remembering

SCALE = 10.0  # by which cosines are multiplied at the beginning, to be of the size of nats
Vectors = Mapping[str, tuple[np.ndarray, np.ndarray]]  # question id -> embeddings: question (d,), passages (N, d)


def preference_loss(student, teacher) -> torch.Tensor:
    """KL divergence of the student's distribution over orders from the teacher's, mean over the questions: a scalar, nats, with gradient.

    student, teacher : (orders,) or (questions, orders) scores; what is added to all scores of a question plays no part
    raises           : ValueError if shapes differ, there are fewer than 2 orders or a score is not finite
    source           : MoI, section 3.3.2 and Fig. 5, which do not say over which of the two; here the teacher, as in Hinton et al. 2015.
                       A temperature, which the paper does not name, would divide both scores
    """
    student, teacher = (torch.as_tensor(values) for values in (student, teacher))
    if student.shape != teacher.shape or student.ndim not in (1, 2) or student.shape[-1] < 2:
        got = f"{tuple(student.shape)} and {tuple(teacher.shape)}"
        raise ValueError(f"student and teacher must be scores of the same 2 or more orders; got {got}")
    if not (torch.isfinite(student).all() and torch.isfinite(teacher).all()):
        raise ValueError("scores must be finite; got NaN or infinity")
    wanted, said = torch.log_softmax(teacher.to(student.dtype), dim=-1), torch.log_softmax(student, dim=-1)
    return (wanted.exp() * (wanted - said)).sum(dim=-1).mean()


class Student(torch.nn.Module):
    """A worth of each passage, at first SCALE times its cosine, and a position for orders of one length, at first all places alike.

    The worth is a bilinear form of the embeddings, with `rank` columns learned on each side; the position is one for all questions.
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
            return self.utility(torch.tensor(np.float32(question)), torch.tensor(np.float32(passages))).numpy()


def load_student(path: Path, sha256: str | None = None) -> tuple[Student, dict]:
    """The student and what it was made from; ValueError if the file is absent, damaged or not the one with that checksum."""
    try:
        if sha256 is not None and hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise ValueError("another checksum")
        with safe_open(path, "pt") as file:
            facts = json.loads(file.metadata()["facts"])
        tensors = load_file(path)
        student = Student(len(tensors["question_down"]), len(tensors["place"]), rank=len(tensors["question_up"]))
        student.load_state_dict(tensors)
    except (OSError, SafetensorError, KeyError, TypeError, RuntimeError, ValueError) as error:
        what = "absent, damaged or not the one that the table student was made with"
        raise ValueError(f"{path.name} is {what}") from error
    return student.eval(), facts


def vectors(encode: Encoder, questions: Sequence[Question], shown: Shown) -> Vectors:
    """The embeddings of questions and passages; every distinct text is embedded once."""
    texts = [text for q in questions for text in (q.text, *(passage.text for passage in shown[q.id]))]
    at = dict(zip(texts, remembering(encode)(texts), strict=True))
    return {q.id: (at[q.text], np.array([at[passage.text] for passage in shown[q.id]])) for q in questions}


def passage_scores(embedded: Vectors, student: Student) -> pd.DataFrame:
    """What the encoder's own cosine and a student make of each passage: columns id, condition ("cosine", "student"), rank, score."""
    return pd.DataFrame(
        {"id": name, "condition": who, "rank": place, "score": float(score)}
        for name, (asked, passages) in embedded.items()
        for who, scores in (("cosine", passages @ asked), ("student", student.scores(asked, passages)))
        for place, score in enumerate(scores)
    )
