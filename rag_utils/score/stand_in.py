"""What a chapter would ask: its cells executed with a stand-in for reader and judge, which notes the calls and answers without meaning.

`experiments.planned` starts this in a process of its own, for it changes `lm.load` and the judges; `foreseen.py` makes the plan of
what it prints. Nothing that a stand-in says is recorded or kept: the chapter is executed in mode "fresh".
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from rag_utils import judge, lm, retrieve
from rag_utils.engine import weights
from rag_utils.engine.calls import Calls
from rag_utils.engine.memory import HELD, bytes_a_token
from rag_utils.engine.recordings import Recordings, call_key
from rag_utils.engine.tree import prefix_tree, size
from rag_utils.page import chapters

REPLIES, SAMPLES, LIKELIHOODS, JUDGED = "replies", "samples", "likelihoods", "judgements"
FIRST = 512  # tokens that are read first, to see how fast the reader is
SECONDS = 10.0  # that reading what is tried may take, at the speed of the first; a full batch, if that is less
PAIRS = 64  # of answers that the judge is tried with
JUDGING = " that judges"  # a reader that says whether two answers mean the same
MARK = "zzqx"  # begins every reply of the stand-in
LINE = 64  # bytes of a recording beside its text and numbers


@dataclass
class Kind:
    """Calls of one kind to one model: how many, and what a call costs and says by those that were tried."""

    prompts: int = 0
    replies: int = 0
    tokens: int = 0  # read in full
    distinct: int = 0  # read once where prompts begin alike
    said: float = 0  # tokens of replies
    guessed: int = 0  # replies that nobody knows, and that the stand-in made up
    recorded: int = 0  # calls that are recorded already, and not counted
    reading: float = 0  # seconds a token that is read; for the judge a pair
    saying: float = 0  # seconds a token that is said
    length: float = 1  # tokens of a reply
    variety: float = 1  # different replies among the samples of a prompt, as a share
    size: float = 0  # bytes of a recorded reply
    tried: float = 0  # tokens of the calls that were tried; infinite if more would not be tried

    def is_to_be_tried(self, tokens: int) -> bool:
        """Whether calls of so many tokens tell more: replies that are grown together cost less each."""
        return tokens >= 2 * self.tried


@dataclass
class Notes:
    """All that is noted.

    alike    : whether every prompt is answered alike, or each in its own way
    once     : whether a call counts once, as in mode "live"
    kept     : whether what is recorded or kept costs nothing, as it does there
    kinds    : by "MODEL, KIND, LONGEST"
    stopped  : cells that the stand-in's replies ended, with what was raised
    aside    : seconds that calibrations took
    clock    : what tells the seconds; `time.process_time` where other work goes on at the same time, without a GPU and with one thread
    """

    alike: bool = False
    once: bool = False
    kept: bool = False
    kinds: dict[str, Kind] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    aside: float = 0
    clock: Callable[[], float] = time.perf_counter
    seen: set[str] = field(default_factory=set)

    def again(self) -> None:
        """Begin to count anew, what was tried stays known; from now on every prompt is answered alike."""
        self.alike, self.seen, self.stopped = True, set(), []
        for kind in self.kinds.values():
            kind.prompts = kind.replies = kind.tokens = kind.distinct = kind.guessed = kind.recorded = 0
            kind.said = 0.0

    def kind(self, *names) -> Kind:
        return self.kinds.setdefault(", ".join(map(str, names)), Kind())

    @contextmanager
    def calibrating(self) -> Iterator[None]:
        began = self.clock()
        yield
        self.aside += self.clock() - began


class Words:
    """Takes the place of a model's `Texts`: notes what is asked, tries some calls of each kind, and replies with what is recorded or, where
    nothing is, with words of no meaning."""

    def __init__(self, texts, calls: Calls, notes: Notes, name: str):
        self._texts, self._calls, self._notes, self._name = texts, calls, notes, name
        self._recordings = Recordings(calls.chapter)

    def __getattr__(self, name: str):
        return getattr(self._texts, name)

    def generate(self, calls: Sequence[tuple[str, int | None]], settings: dict) -> Iterator[list[tuple]]:
        """As `Texts.generate`."""
        steps, drawn = settings["max_new_tokens"], SAMPLES if settings["temperature"] else REPLIES
        kind = self._notes.kind(self._name, drawn, steps)
        keys = {call: self._calls.reply_key(*call, settings) for call in calls}
        known = self._recordings.get(keys.values())
        new = self._new(kind, keys, known)
        prompts = list(dict.fromkeys(prompt for prompt, _ in new))
        encoded = [self._texts.encode(prompt) for prompt in prompts]
        if new and kind.is_to_be_tried(sum(map(len, encoded))):  # what is recorded is not computed, here as in a run
            self._try_replies(kind, prompts, max(sample or 0 for _, sample in new) + 1, settings)
        self._count(kind, encoded)
        kind.replies += len(new)
        kind.said += sum(len(known[keys[call]]["tokens"]) if keys[call] in known else kind.length for call in new)
        kind.guessed += sum(keys[call] not in known for call in new)
        like = {(prompt, sample): sample and int(sample * kind.variety) for prompt, sample in calls}
        keyed = [(call, self._calls.reply_key(call[0], sample, settings)) for call, sample in like.items()]
        yield [(call, known.get(keys[call]) or self._reply(kind, key, settings)) for call, key in keyed]

    def score(self, calls: Sequence[tuple[str, str]]) -> Iterator[list[tuple]]:
        """As `Texts.score`."""
        kind = self._notes.kind(self._name, LIKELIHOODS, 0)
        keys = {(a, b): self._key(operation="log_likelihood", context=a, continuation=b) for a, b in calls}
        known = self._recordings.get(keys.values())
        new = self._new(kind, keys, known)
        encoded = [self._joined(*pair) for pair in new]
        if new and kind.is_to_be_tried(sum(map(len, encoded))):
            self._try_scores(kind, new)
        self._count(kind, encoded)
        lengths = [len(self._texts.encode(continuation, context=False)) for _, continuation in calls]
        yield [
            (pair, known.get(keys[pair]) or {"log_likelihood": self._likelihoods(keys[pair], n)})
            for pair, n in zip(calls, lengths, strict=True)
        ]

    def _key(self, **call) -> str:
        return call_key(model=self._calls.fingerprint, **call)

    def _new(self, kind: Kind, keys: dict, known: dict) -> list:
        """The calls that would be computed."""
        if not self._notes.once:
            return list(keys)
        new = {call: key for call, key in keys.items() if key not in self._notes.seen}
        recorded = {call for call, key in new.items() if key in known} if self._notes.kept else {}
        kind.recorded += len(recorded)
        self._notes.seen |= {*keys.values()}
        return [call for call in new if call not in recorded]

    @staticmethod
    def _count(kind: Kind, encoded: list[list[int]]) -> None:
        kind.prompts += len(encoded)
        kind.tokens += sum(map(len, encoded))
        kind.distinct += size(prefix_tree(encoded)) if encoded else 0

    def _joined(self, context: str, continuation: str) -> list[int]:
        return [*self._texts.context(context), *self._texts.encode(continuation, context=False)[:-1]]  # the last is scored and not read

    def _reply(self, kind: Kind, key: str, settings: dict) -> dict:
        length = min(settings["max_new_tokens"], max(1, round(kind.length)))
        name = MARK if self._notes.alike else f"{MARK}{key[:6]}"
        text = f" {name}{' the' * max(0, length - 5)}"
        return {"text": text, "tokens": [0] * length, "log_likelihood": self._likelihoods(key, length)}

    def _likelihoods(self, key: str, length: int) -> list[float]:
        value = -1.0 if self._notes.alike else -0.05 - int(hashlib.sha256(key.encode()).hexdigest()[:4], 16) / 2**15
        return [value] * length

    # --- calibration -------------------------------------------------------------------------------

    def _try_replies(self, kind: Kind, prompts: Sequence[str], each: int, settings: dict) -> None:
        """Seconds a token read and a token said, and how long and how different replies are, of the first prompts."""

        def asked(chosen: list[str], **changes) -> list[tuple]:
            pairs = [(prompt, sample) for prompt in chosen for sample in range(each if not changes else 1)]
            return [reply for batch in self._texts.generate(pairs, settings | changes) for reply in batch]

        with self._notes.calibrating():
            chosen, reading, tokens = self._read(kind, prompts, self._texts.encode, lambda part: asked(part, max_new_tokens=1))
            began = self._notes.clock()
            replies = asked(chosen)
            seconds = self._notes.clock() - began
        said = sum(len(reply["tokens"]) for _, reply in replies)
        kind.reading, kind.saying = reading / tokens, max(0.0, seconds - reading) / said
        kind.length = said / len(replies)
        kind.variety = len({(prompt, reply["text"]) for (prompt, _), reply in replies}) / len(replies)
        kind.size = LINE + float(np.mean([len(json.dumps(reply)) for _, reply in replies]))

    def _try_scores(self, kind: Kind, pairs: list[tuple[str, str]]) -> None:
        with self._notes.calibrating():
            chosen, seconds, tokens = self._read(
                kind, pairs, lambda pair: self._joined(*pair), lambda part: list(self._texts.score(part))
            )
        kind.reading = seconds / tokens
        kind.size = LINE + 8 * float(np.mean([len(self._texts.encode(b, context=False)) for _, b in chosen]))

    def _read(self, kind: Kind, calls: Sequence, encode: Callable, ask: Callable) -> tuple[list, float, int]:
        """As many of the first calls as fill a batch, or take `SECONDS`; the seconds they took, and their tokens that are read once."""
        encoded = [encode(call) for call in calls[: self._texts.batch_tokens]]
        sizes = np.cumsum([len(tokens) for tokens in encoded])
        most, seconds, count = FIRST, 0.0, 0
        for _ in range(2):  # the first time something is slow that later is not
            count = min(len(encoded), int(np.searchsorted(sizes, most)) + 1)
            began = self._notes.clock()
            ask(list(calls[:count]))
            seconds = self._notes.clock() - began
            most = min(self._texts.batch_tokens, max(FIRST, int(SECONDS * sizes[count - 1] / seconds)))
        kind.tried = math.inf if sizes[count - 1] >= most else int(sizes[-1])
        return list(calls[:count]), seconds, size(prefix_tree(encoded[:count]))


class Opinions:
    """Take the place of the judges' methods: two texts mean the same if they have the same words, but of texts that somebody said the quick
    judge tells; pairs are counted and some are tried."""

    def __init__(self, notes: Notes):
        self._notes = notes
        self._equivalent = {kind: kind.equivalent for kind in (judge.EmbeddedJudge, judge.NliJudge)}
        self._entailment = judge.NliJudge.entailment

    def equivalent(self, own: judge.Judge, questions, left, right) -> np.ndarray:
        """As `Judge.equivalent`."""
        triples = list(zip(questions, left, right, strict=True))
        pairs, said = {(q, *sorted(pair)) for q, *pair in triples if pair[0] != pair[1]}, []
        if isinstance(own, judge.EmbeddedJudge):  # as it is, but that it keeps no embedding of these words
            embed, how = retrieve.sentence_model().encode, {"normalize_embeddings": True, "show_progress_bar": False}
            own = judge.EmbeddedJudge(own.coefficients, encode=lambda texts: embed(list(texts), **how))
            said = [row for row, (_, a, b) in enumerate(triples) if MARK not in a and MARK not in b]
        self._note(own, pairs, self._equivalent[type(own)])
        verdicts = np.array([float(sorted(a.split()) == sorted(b.split())) for _, a, b in triples])
        if said:
            with self._notes.calibrating():
                verdicts[said] = self._equivalent[type(own)](own, *map(list, zip(*(triples[row] for row in said), strict=True)))
        return verdicts

    def entailment(self, own: judge.Judge, questions, premises, hypotheses) -> np.ndarray:
        """As `NliJudge.entailment`."""
        self._note(own, {*zip(questions, premises, hypotheses, strict=True)}, self._entailment)
        same = np.array([float(a == b) for a, b in zip(premises, hypotheses, strict=True)])
        return np.column_stack([np.zeros(len(same)), 1 - same, same])

    def _note(self, own: judge.Judge, pairs: set[tuple], ask: Callable) -> None:
        kind = self._notes.kind(type(own).__name__, JUDGED, 0)
        if pairs and kind.is_to_be_tried(len(pairs)):
            with self._notes.calibrating():
                began, chosen = self._notes.clock(), sorted(pairs)[:PAIRS]
                ask(own, *map(list, zip(*chosen, strict=True)))
                kind.reading = (self._notes.clock() - began) / len(chosen)
                kind.tried = math.inf if len(chosen) == PAIRS else len(chosen)
        kind.prompts += len(pairs)
        kind.tokens += len(pairs)
        kind.distinct += len(pairs)


def put_in_place(notes: Notes) -> list:
    """From now on `lm.load` gives stand-ins, judges count, the encoder embeds no word of theirs. Returns the list that `_sizes` go to."""
    load, encoder, sizes = lm.load, retrieve.encoder, []

    def reader(profile="embedded", *, mode="fresh", **how):
        model = load(profile, mode="fresh", **how)
        judges = model.profile.judge == model.profile.name  # another adapter, which is counted apart
        model._texts = Words(model._texts, model._calls, notes, f"{model.name}{JUDGING}" if judges else model.name)
        model.live_check = lambda k=8, *, seed=0: lm.LiveCheck(k, k, k, k)
        sizes.append(_sizes(model))  # not the model, which would stay in memory as it does not in a run
        return model

    def encode(profile="embedded"):
        real = encoder(profile)

        def vectors(texts):
            known = [text for text in texts if MARK not in text]
            rows = iter(real(known)) if known else iter(())
            width = real([]).shape[1]
            return np.array([_direction(text, width) if MARK in text else next(rows) for text in texts], np.float32).reshape(-1, width)

        return vectors

    opinions = Opinions(notes)
    for kind in (judge.EmbeddedJudge, judge.NliJudge):
        kind.equivalent = lambda own, *texts, **named: opinions.equivalent(own, *texts, **named)
    judge.NliJudge.entailment = lambda own, *texts, **named: opinions.entailment(own, *texts, **named)
    lm.load, retrieve.encoder = reader, encode
    return sizes


def _direction(text: str, width: int) -> np.ndarray:
    drawn = np.random.default_rng(int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)).normal(size=width)
    return drawn / np.linalg.norm(drawn)


def execute(chapter: str, given: dict, notes: Notes) -> None:
    """Execute the code cells of a chapter in mode "fresh"; what a cell prints goes nowhere, and a cell that raises is noted and left.

    raises : WeightsError if a model cannot be had
    """
    parameters = chapters.parameters(chapter) | given
    parameters |= {"mode": "fresh"} if "mode" in parameters else {}
    names = {"__name__": "__main__", "display": lambda *shown: None}
    cells = [cell for cell in chapters.source(chapter).cells if cell.cell_type == "code"]
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        for number, cell in enumerate(cells, 1):
            try:
                exec(compile(cell.source, f"{chapter}, cell {number}", "exec"), names)
            except weights.WeightsError:
                raise
            except Exception as error:
                notes.stopped.append(f"cell {number}: {type(error).__name__}: {str(error)[:200]}")
            if "parameters" in cell.metadata.get("tags", []):
                names |= parameters


def observed(chapter: str, given: dict, notes: Notes) -> dict:
    """Execute a chapter with stand-ins and return what `foreseen.plan` reads, as JSON holds it.

    chapter, given : as for `chapters.run`
    returns        : each and alike (`Kind` by name, when every prompt is answered in its own way, and when all are alike), stopped,
                     page (seconds that are neither the model's nor a calibration's), gigabytes, card (those of a GPU or None), weights
                     (gigabytes of weights)
    """
    began = notes.clock()
    sizes = put_in_place(notes)
    execute(chapter, given, notes)
    page = notes.clock() - began - notes.aside
    each = {name: asdict(kind) for name, kind in notes.kinds.items()}
    stopped, memory = list(notes.stopped), _memory(sizes)
    notes.again()
    execute(chapter, given, notes)
    alike = {name: asdict(kind) for name, kind in notes.kinds.items()}
    return {"each": each, "alike": alike, "stopped": stopped, "page": page, **memory}


def _sizes(reader: lm.LanguageModel) -> tuple[str, float, float]:
    """The reader's fingerprint, and gigabytes of its weights and of the keys and values of a full batch."""
    batch = HELD * bytes_a_token(reader.model) * reader.batch_tokens / 1e9
    weights = sum(part.numel() * part.element_size() for part in reader.model.parameters()) / 1e9
    return reader.fingerprint, weights, batch


def _memory(sizes: list[tuple[str, float, float]]) -> dict:
    """What was held at most while some calls were tried, and what is held now with a full batch, whichever is more."""
    import torch

    from rag_utils.score.before import most_memory, on_the_card

    batch = max((held for _, _, held in sizes), default=0.0)
    card = on_the_card()
    if card is not None:
        card = max(card, torch.cuda.memory_allocated() / 1e9 + batch)
    now = _resident() + (batch if card is None else 0)
    return {"gigabytes": max(most_memory(), now), "card": card, "weights": sum({name: held for name, held, _ in sizes}.values())}


def _resident() -> float:
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e9 if statm.exists() else 0.0
