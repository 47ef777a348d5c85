"""Calls in words: what the model reads of them as tokens, and what is kept of the tokens that it replies."""

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from rag_utils.base.progress import track
from rag_utils.engine.memory import Freed, tokens_held
from rag_utils.engine.tree import Count
from rag_utils.engine.weights import Loaded

DIGITS = 5  # of a log-likelihood, in a recording and in every mode, so that live and replayed results are equal


class Texts:
    """A model that is asked in words. `count` counts the tokens that it read or wrote; batch_tokens as in a profile."""

    def __init__(self, loaded: Loaded, *, batch_tokens: int | None = None):
        self.loaded, self.name, self._batch_tokens = loaded, loaded.name, batch_tokens
        self.count, self._freed = Count(), Freed()

    model = property(lambda self: self.loaded.model)
    tokenizer = property(lambda self: self.loaded.tokenizer)

    @property
    def batch_tokens(self) -> int:
        """How many tokens may be held at once now."""
        return self._batch_tokens or tokens_held(self.model)

    def encode(self, text: str, *, context: bool = True) -> list[int]:
        """The tokens of `text`, as the beginning of a prompt or, with context=False, as what follows one."""
        begun = self.tokenizer.bos_token and text.startswith(self.tokenizer.bos_token)
        special = not begun if context else self.loaded.task == "seq2seq"  # which is asked to say the end token too
        return self.tokenizer(text, add_special_tokens=special).input_ids

    def context(self, text: str) -> list[int]:
        """The tokens of what comes before a continuation; an empty text is the token that a text begins with."""
        begins = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, 0
        return self.encode(text) or [next(token for token in begins if token is not None)]

    def generate(self, calls: Sequence[tuple[str, int | None]], settings: dict) -> Iterator[list[tuple]]:
        """Compute replies to (prompt, sample), batch by batch; sample None is the likeliest reply, as are all at temperature 0."""
        from rag_utils.engine import decode  # torch takes seconds to import

        samples: dict[str, list[int | None]] = {}
        for prompt, sample in calls:
            samples.setdefault(prompt, []).append(sample)
        prompts, stop, steps = list(samples), settings["stop"], settings["max_new_tokens"]
        encoded = [self.encode(prompt) for prompt in prompts]
        self._check_window(encoded, steps)
        uniforms = [
            np.stack([_uniforms(tokens, settings["seed"], sample, steps) for sample in samples[prompt]])
            for prompt, tokens in zip(prompts, encoded, strict=True)
        ]
        ends = self.model.generation_config.eos_token_id
        ends = {self.tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}

        def compute(chosen: list[int], budget: int):
            options = {"finished": _ending(stop, ends, self._decode), "temperature": settings["temperature"], "batch_tokens": budget}
            return decode.sample(self.model, [encoded[i] for i in chosen], [uniforms[i] for i in chosen], **options, count=self.count)

        for batch in track(self._within_memory(compute, len(prompts)), what=f"{self.name}, replies", total=len(prompts)):
            self._freed.give_back()
            yield [
                ((prompts[i], sample), self._kept(reply, stop, ends))
                for i, replies in batch
                for sample, reply in zip(samples[prompts[i]], replies, strict=True)
            ]

    def score(self, calls: Sequence[tuple[str, str]]) -> Iterator[list[tuple]]:
        """Compute the log-likelihoods of (context, continuation), batch by batch."""
        from rag_utils.engine import decode  # torch takes seconds to import

        contexts = [self.context(context) for context, _ in calls]
        continuations = [self.encode(continuation, context=False) for _, continuation in calls]
        self._check_window([[*a, *b] for a, b in zip(contexts, continuations, strict=True)], 0)

        def compute(chosen: list[int], budget: int):
            pairs = [contexts[i] for i in chosen], [continuations[i] for i in chosen]
            return decode.score(self.model, *pairs, batch_tokens=budget, count=self.count)

        for batch in track(self._within_memory(compute, len(calls)), what=f"{self.name}, log-likelihoods", total=len(calls)):
            self._freed.give_back()
            yield [(calls[i], {"log_likelihood": _rounded(values)}) for i, values, _ in batch]

    def _within_memory(self, compute: Callable, n: int) -> Iterator[list[tuple]]:
        """The batches of compute(which of n, budget); where a GPU's memory runs out, what is left with half the budget."""
        from torch import OutOfMemoryError, cuda

        left, budget = list(range(n)), self.batch_tokens
        while left:
            done = set()
            try:
                for batch in compute(left, budget):
                    batch = [(left[i], *rest) for i, *rest in batch]
                    done.update(i for i, *_ in batch)
                    yield batch
            except OutOfMemoryError:
                if budget < 2:
                    raise
            left, budget = [i for i in left if i not in done], budget // 2
            if left:
                cuda.empty_cache()
                warnings.warn(f"{self.name}: the GPU's memory ran out; {len(left)} calls go on with batch_tokens={budget}", stacklevel=2)

    def _kept(self, reply, stop, ends) -> dict:
        """What is kept of a reply: the text before the stop string and the tokens that it is made of."""
        tokens = reply.tokens[:-1] if stop and reply.tokens[-1] in ends else reply.tokens
        text = self._decode(tokens)
        if (cut := _first_stop(text, stop)) is not None:
            text = text[:cut]
            tokens = tokens[: next(m for m in range(len(tokens) + 1) if self._decode(tokens[:m]).startswith(text))]
        length = len(tokens) or 1
        return {"text": text, "tokens": reply.tokens[:length], "log_likelihood": _rounded(reply.log_likelihood[:length])}

    def _decode(self, tokens) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _check_window(self, encoded, extra: int) -> None:
        window = getattr(self.model.config, "max_position_embeddings", None)
        longest = max(map(len, encoded)) + extra
        if not all(encoded):
            raise ValueError("a prompt must have at least one token; got one without: want at least one character")
        if window and longest > window and not self.model.config.is_encoder_decoder:
            raise ValueError(
                f"the longest call needs {longest} tokens (prompt {longest - extra}, reply {extra}), {self.name} holds {window}; "
                "give fewer or shorter documents, or a smaller max_new_tokens"
            )


def _ending(stop: Sequence[str], ends: set[int], decode: Callable) -> Callable:
    """Whether a reply ends with its last token: an end token, or one with which a stop string is there; without stop strings never.

    A reply is only looked at where that token has the last letter of a stop string, if all of these are letters that no token cuts.
    """
    letters = {text[-1] for text in stop}
    plain = all(letter.isascii() and letter != " " for letter in letters)
    may = cache(lambda token: not plain or not letters.isdisjoint(decode([token])))
    return lambda tokens: bool(stop) and (tokens[-1] in ends or (may(tokens[-1]) and _first_stop(decode(tokens), stop) is not None))


def _uniforms(tokens: list[int], seed: int | None, index: int | None, steps: int) -> np.ndarray:
    """The numbers in [0, 1) that draw one sample: a counter-based generator keyed by the prompt's tokens, the seed and the index."""
    if seed is None or index is None:
        return np.full(steps, np.nan)
    digest = hashlib.sha256(np.array([seed, *tokens], dtype="<u8").tobytes()).digest()
    key = np.frombuffer(digest[:16], dtype="<u8")
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, index])).random(steps)


def _first_stop(text: str, stop: Sequence[str]) -> int | None:
    return min((place for s in stop if (place := text.find(s)) >= 0), default=None)


def _rounded(values) -> list[float]:
    return [round(float(value), DIGITS) for value in values]
