"""What a run would cost: its calls, made of a stand-in that only notes them, their tokens, and minutes by a few seconds of the reader."""

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rag_utils.engine.memory import HELD, bytes_a_token
from rag_utils.engine.tree import prefix_tree, size
from rag_utils.judge import Judge
from rag_utils.lm import Generation
from rag_utils.measures.ecorag import sentences
from rag_utils.score import measured
from rag_utils.score.measured import Once, Settings, Task
from rag_utils.score.records import Record

TRIED = 1500  # tokens that the calibration reads
REPLIES, SAMPLES, LIKELIHOODS, WORDS = "replies", "samples", "likelihoods", "other words"
BESIDE = "replies beside samples"  # whose prompts are read with those of the samples


@dataclass(frozen=True)
class Plan:
    """calls: one row per kind, columns prompts, replies, tokens (read in full), distinct (read once), said (tokens of replies) and minutes.

    Tokens of prompts are counted; what depends on replies that nobody knows yet is an upper bound, and `at_most` says so.
    """

    calls: pd.DataFrame
    gigabytes: float

    @property
    def minutes(self) -> float:
        return float(self.calls["minutes"].sum())


class Noted:
    """A stand-in for the reader that notes what it is asked and says something else to every prompt."""

    def __init__(self, reader):
        self._reader, self.calls = reader, []

    def __getattr__(self, name: str):
        return getattr(self._reader, name)

    def generate(self, prompts, *, n=1, temperature=0.0, max_new_tokens=32, seed=0, greedy=False):
        self.calls += [(SAMPLES if temperature else REPLIES, n, list(prompts)), *[(BESIDE, 1, list(prompts))] * greedy]
        names = [f"zzqx{len(self.calls)}zz{number}" for number in range(len(prompts))]
        return [[Generation(name, (0,), np.array([-1.0]))] * (n + greedy) for name in names]

    def log_likelihood(self, contexts, continuations):
        pairs = dict.fromkeys(zip(contexts, continuations, strict=True))
        self.calls.append((LIKELIHOODS, 0, [f"{context}{continuation}" for context, continuation in pairs]))
        return [np.array([-1.0])] * len(contexts)


class SameWords(Judge):
    """Two texts mean the same if they have the same words, in whatever order."""

    def equivalent(self, questions, left, right):
        return np.array([float(sorted(a.split()) == sorted(b.split())) for a, b in zip(left, right, strict=True)])


def plan(records: Sequence[Record], reader, *, measures, top: int, seed: int, settings: Settings) -> Plan:
    """What `scores.run` would ask of this reader, and how long it would take here; the reader is tried for some seconds.

    reader : as `lm.load(..., mode="fresh")` returns it, so that nothing is read or kept
    """
    calls = noted_calls(records, Noted(reader), measures=measures, top=top, seed=seed, settings=settings)
    most = max((call for call in calls if call[0] in (REPLIES, SAMPLES)), key=lambda call: len(call[2]))
    reading, saying, length = calibrated(reader, most[2], settings)
    count, rows = _counter(reader), {}
    for kind, n, prompts in calls:
        tokens, distinct = count(prompts)
        if kind == BESIDE:
            kind, distinct = REPLIES, 0
        said = n * len(prompts) * length if kind != WORDS else tokens  # other words are about as long as their prompt
        row = rows.setdefault(kind, dict.fromkeys(("prompts", "replies", "tokens", "distinct", "said", "minutes"), 0))
        minutes = (distinct * reading + said * saying) / 60
        for name, value in zip(row, (len(prompts), n * len(prompts), tokens, distinct, round(said), minutes), strict=True):
            row[name] += value
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("kind")
    table["at_most"] = [kind in (WORDS, REPLIES) and bool({"dense", "ecorag", "moi"} & {*measures}) for kind in table.index]
    return Plan(table, memory(reader))


def noted_calls(records, noted: Noted, *, measures, top: int, seed: int, settings: Settings) -> list[tuple[str, int, list[str]]]:
    """(kind, replies to each, prompts) of every list of calls that `scores.run` makes, in order, as far as they can be known before."""
    said = _other_words(records, noted, measures, top, settings)
    return [*said, *_asked(records, noted, measures, top, seed, settings)]


def _other_words(records, noted: Noted, measures, top: int, settings: Settings) -> list[tuple]:
    """The calls that say passages in other words, none without DENSE."""
    if "dense" not in measures:
        return []
    measured.other_words([each.text for record in records for each in record.passages[:top]], noted, settings)
    [(_, n, prompts)] = noted.calls
    noted.calls = []
    return [(WORDS, n, prompts)]


def _asked(records, noted: Noted, measures, top: int, seed: int, settings: Settings) -> list[tuple]:
    """The calls of the measures: DENSE finds every passage uncertain, ECoRAG no question known and no compression enough."""
    texts = [each.text for record in records for each in record.passages[:top]] if "dense" in measures else []
    words = {text: " ".join(reversed(text.split())) for text in texts}  # as long, and nothing in common
    task = Task(records, Once(noted), SameWords(), settings, top, seed, words, encoder=lambda: _alike)
    measured.tables(task, [measure for measure in measures if measure != "moi"])
    if "ecorag" in measures:  # every sentence beside a strong one, which the stand-in never finds
        cut = {question: sentences(task.shown[question.id]) for question in task.answerable}
        task.say([task.prompt(q, [own[0].text, other.text]) for q, own in cut.items() for other in own[1:]])
    if "moi" in measures and (sets := measured.orders(task)):
        measured.likelihoods(task, sets)
        task.answers({name: [each.text for each in task.shown[name]][::-1] for name in sets}, "reordered")
    return noted.calls


def _alike(texts) -> np.ndarray:
    return np.full((len(texts), 384), 384**-0.5)


def calibrated(reader, prompts: Sequence[str], settings: Settings) -> tuple[float, float, float]:
    """Seconds per token that is read, seconds per token of a reply among many, and the mean length of a reply, of the first prompts."""
    count, chosen = _counter(reader), []
    for prompt in prompts:
        chosen.append(prompt)
        if count(chosen)[1] > TRIED:
            break
    tokens = count(chosen)[1]
    how = {"n": settings.samples, "temperature": 1.0}
    reader.generate(chosen[:1], max_new_tokens=1)  # what is only slow the first time
    began = time.perf_counter()
    reader.generate(chosen, max_new_tokens=1)
    read = time.perf_counter()
    replies = reader.generate(chosen, max_new_tokens=settings.max_new_tokens, **how)
    ended = time.perf_counter()
    said = sum(len(reply.token_ids) for own in replies for reply in own)
    reading, saying = read - began, max(0.0, (ended - read) - (read - began))
    return reading / tokens, saying / said, said / (settings.samples * len(chosen))


def _counter(reader):
    """Prompts -> their tokens, and those that are left where what they have in common is read once, as far as the reader tells."""
    if not hasattr(reader, "encode"):
        return lambda prompts: (total := sum(map(reader.count_tokens, prompts)), total)

    def count(prompts):
        encoded = [reader.encode(prompt) for prompt in prompts]
        return sum(map(len, encoded)), size(prefix_tree(encoded)) if encoded else 0

    return count


def memory(reader) -> float:
    """Gigabytes: the most so far, or, of a model in this process, what it takes now and a full batch of keys and values."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    if model := getattr(reader, "model", None):
        weights = sum(part.numel() * part.element_size() for part in model.parameters())
        most = max(most, 2 * weights + HELD * bytes_a_token(model) * reader.batch_tokens)
    return most / 1e9
