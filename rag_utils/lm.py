"""The language model as the book uses it: texts in, replies and log-likelihoods out, every call recorded.

    reader = load("embedded")
    [[reply]] = reader.generate(["Question: What is the capital of France?\\nAnswer:"])

Mode "replay" answers from the recordings and never runs the model; "live" runs it for what is missing and records that; "fresh"
neither reads nor writes recordings.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rag_utils.base.cache import ROOT, cache_dir
from rag_utils.base.names import check_name
from rag_utils.base.progress import track
from rag_utils.engine import decode, profiles, weights
from rag_utils.engine.recordings import RecordingError, Recordings, call_key

MODES = ("replay", "live", "fresh")
RECORDINGS = ROOT / "data" / "recordings"
DIGITS = 5  # of a log-likelihood, in a recording and in every mode, so that live and replayed results are equal


@dataclass(frozen=True)
class Generation:
    """One reply.

    text                 : up to the stop string, which is not part of it; leading space kept
    token_ids            : the tokens of `text`; if the reply was empty, the one token that ended it
    token_log_likelihood : (tokens,) nats under the model's raw distribution, whatever the temperature
    """

    text: str
    token_ids: tuple[int, ...]
    token_log_likelihood: np.ndarray

    @property
    def log_likelihood(self) -> float:
        """Sum over the tokens, nats: the logarithm of SePer's eq. 7."""
        return float(self.token_log_likelihood.sum())


@dataclass(frozen=True)
class LiveCheck:
    """What a live check compared. It prints as one sentence, which is the same on every machine that passes."""

    calls: int
    recorded: int
    tokens: int
    greedy: int

    def __str__(self) -> str:
        return (
            f"{self.calls} of {self.recorded} recorded calls computed again: {self.tokens} tokens within 0.02 nat each,\n"
            f"{self.greedy} greedy replies reproduced."
        )


def load(
    profile: str | profiles.Profile = "embedded",
    *,
    mode: str = "replay",
    chapter: str | None = None,
    revision: str | None = None,
    dtype: str | None = None,
) -> "LanguageModel":
    """The profile's reader, ready to answer.

    mode     : "replay", "live" or "fresh"
    chapter  : the chapter whose tracked recordings grow in mode "live". Without it new replies go to the user's cache, which is
               where every call belongs that saw the text of a benchmark
    revision : of a hub model; the one that was loaded is in `.revision`
    dtype    : "float32", "bfloat16" or "float16" instead of the profile's; another model to the recordings. bfloat16 reads about one
               and a half times as fast on a processor that has it; of 2,819 tokens of NQ passages it moved the log-likelihood by 0.035 nat
               on average, 1 of 100 by more than 0.17, one by 0.54 (`make bench`, benchmarks/engine.json)
    raises   : ValueError for an unknown profile or mode; WeightsError if the weights cannot be had; RecordingError if a recording is
               damaged
    """
    check_name("mode", mode, MODES)
    profile = profiles.get(profile, revision=revision, dtype=dtype)
    return LanguageModel(weights.load(profile), profile, mode=mode, chapter=chapter)


class LanguageModel:
    """A reader with its recordings. `.model` and `.tokenizer` are those of transformers; `.fingerprint` identifies the weights."""

    def __init__(
        self, loaded: weights.Loaded, profile: profiles.Profile, *, mode: str = "replay", chapter: str | None = None
    ):
        self.model, self.tokenizer = loaded.model, loaded.tokenizer
        self.name, self.revision, self.fingerprint = loaded.name, loaded.revision, loaded.fingerprint
        self.profile, self.mode, self.chapter = profile, mode, chapter
        self.count = decode.Count()
        self._answered: dict[str, tuple] = {}  # key -> (operation, prompt, temperature or continuation, reply)
        self._own, self._others = self._open_recordings()

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        max_new_tokens: int = 32,
        stop: Sequence[str] = ("\n",),
        seed: int = 0,
    ) -> list[list[Generation]]:
        """n replies to each prompt.

        temperature : 0 is greedy, and the n replies are then the same one; otherwise tokens are drawn from softmax(logits / temperature)
                      with no other truncation
        stop        : a reply ends before the first of these strings, or at the model's end token; with stop=() neither counts and
                      exactly max_new_tokens are generated
        seed        : a sample depends on its prompt, the seed and its index only, not on what else is asked
        returns     : list over prompts of lists of n Generation
        raises      : ValueError for bad arguments or a prompt longer than the model's window; RecordingError in mode "replay" if a call
                      is not recorded
        """
        prompts, stop = _texts("prompts", prompts), tuple(_texts("stop", stop, empty_list=True, empty=False))
        _whole("n", n, 1), _whole("max_new_tokens", max_new_tokens, 1), _whole("seed", seed, 0)
        if not (np.isfinite(temperature) and temperature >= 0):
            raise ValueError(f"temperature must be a finite number >= 0, got {temperature}")
        drawn = n if temperature > 0 else 1
        settings = {"temperature": float(temperature), "max_new_tokens": max_new_tokens, "stop": list(stop)}
        settings["seed"] = seed if temperature > 0 else None
        keys = {
            (prompt, index): self._key("generate", prompt=prompt, sample=index, **settings)
            for prompt in prompts
            for index in range(drawn)
        }
        missing = {}
        for (prompt, index), key in keys.items():
            if self._recorded(key) is None:
                missing.setdefault(prompt, []).append(index)
        fresh = self._compute(missing, keys, self._generate_missing, settings) if missing else {}
        replies = {call: fresh.get(key) or self._recorded(key) for call, key in keys.items()}
        for (prompt, index), reply in replies.items():
            self._answered[keys[prompt, index]] = ("generate", prompt, float(temperature), reply)
        return [[_generation(replies[prompt, i % drawn]) for i in range(n)] for prompt in prompts]

    def log_likelihood(self, contexts: Sequence[str], continuations: Sequence[str]) -> list[np.ndarray]:
        """Log-likelihood of each token of each continuation given its context.

        Context and continuation are tokenised apart, so a continuation normally begins with its space. An empty context stands for the
        model's begin-of-text token.

        returns : one (tokens,) array per pair, nats, each <= 0
        raises  : ValueError for bad arguments; RecordingError as for `generate`
        """
        contexts, continuations = _texts("contexts", contexts), _texts("continuations", continuations, empty=False)
        if len(contexts) != len(continuations):
            raise ValueError(
                f"got {len(contexts)} contexts and {len(continuations)} continuations; want as many of each"
            )
        pairs = list(zip(contexts, continuations, strict=True))
        keys = {pair: self._key("log_likelihood", context=pair[0], continuation=pair[1]) for pair in pairs}
        missing = {pair: [0] for pair, key in keys.items() if self._recorded(key) is None}
        fresh = self._compute(missing, keys, self._score_missing, {}) if missing else {}
        replies = {pair: fresh.get(key) or self._recorded(key) for pair, key in keys.items()}
        for pair, reply in replies.items():
            self._answered[keys[pair]] = ("log_likelihood", *pair, reply)
        return [np.array(replies[pair]["log_likelihood"]) for pair in pairs]

    def chat(self, message: str) -> str:
        """The prompt that asks `message` of an instruction-following model: its chat template up to where the reply begins.

        raises : ValueError if the model has no chat template
        """
        if not self.tokenizer.chat_template:
            raise ValueError(f"{self.name} has no chat template; use a prompt without chat for it")
        return self.tokenizer.apply_chat_template(
            [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
        )

    def encode(self, text: str, *, context: bool = True) -> list[int]:
        """The tokens of `text`, as the beginning of a prompt or, with context=False, as what follows one."""
        special = context and not (self.tokenizer.bos_token and text.startswith(self.tokenizer.bos_token))
        if not context and self.model.config.is_encoder_decoder:
            special = True  # the end token is part of what an encoder-decoder is asked to say
        return self.tokenizer(text, add_special_tokens=special).input_ids

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` as a prompt."""
        return len(self.encode(text))

    def live_check(self, k: int = 8, *, seed: int = 0) -> LiveCheck:
        """Compute k of the calls answered so far again, with the model, and compare with what was answered.

        Recorded replies are scored token by token under the recorded text: within 0.02 nat per token. A greedy reply must be the
        likeliest at every token where the two best differ by more than 0.01 nat.

        raises : RecordingError if a call is not reproduced, ValueError if nothing was called yet
        """
        _whole("k", k, 1)
        calls = sorted(self._answered)
        if not calls:
            raise ValueError("no call was answered yet, so there is nothing to check")
        chosen = np.random.default_rng(seed).choice(len(calls), size=min(k, len(calls)), replace=False)
        chosen = [calls[i] for i in sorted(chosen)]
        contexts, replies, recorded, greedy = [], [], [], []
        for key in chosen:
            operation, prompt, other, reply = self._answered[key]
            tokens = self.encode(other, context=False) if operation == "log_likelihood" else list(reply["tokens"])
            contexts.append(self.encode(prompt) or [self._begin()])
            replies.append(tokens)
            recorded.append(np.array(reply["log_likelihood"]))
            greedy.append(operation == "generate" and other == 0)
        for batch in decode.score(self.model, contexts, replies, batch_tokens=self.profile.batch_tokens):
            for i, log_likelihood, lead in batch:
                off = np.abs(log_likelihood - recorded[i]).max() if len(log_likelihood) == len(recorded[i]) else np.inf
                if off > 0.02 or (greedy[i] and lead.max() > 0.01):
                    raise RecordingError(
                        f"live check: recorded call {chosen[i]} is no longer what {self.name} says (largest difference {off:.4f} nat "
                        f"per token, allowed 0.02; a greedy token lies {lead.max():.4f} nat behind, allowed 0.01). Delete "
                        f"{RECORDINGS.name}/{self.chapter}.jsonl and record it again with `make live`, if the change is meant."
                    )
        return LiveCheck(len(chosen), len(calls), sum(map(len, replies)), sum(greedy))

    def close(self) -> None:
        """Seal what was recorded. Also done by the next run, if this one is interrupted."""
        if self._own is not None:
            self._own.close()

    # What is below turns calls into token lists and back.

    def _open_recordings(self) -> tuple[Recordings | None, list[Recordings]]:
        if self.mode == "fresh":
            return None, []
        if self.mode == "live":
            if self.chapter:
                return Recordings(RECORDINGS / f"{self.chapter}.jsonl", writable=True), []
            tracked = [Recordings(path) for path in _recording_files(None)]
            return Recordings(cache_dir("recordings") / "calls.jsonl", writable=True), tracked
        return None, [Recordings(path) for path in _recording_files(self.chapter)]

    def _recorded(self, key: str) -> dict | None:
        for recordings in (self._own, *self._others):
            if recordings is not None and (reply := recordings.get(key)) is not None:
                return reply
        return None

    def _key(self, operation: str, **call) -> str:
        return call_key(model=self.fingerprint, operation=operation, **call)

    def _compute(self, missing, keys, compute, settings) -> dict[str, dict]:
        count = sum(map(len, missing.values()))
        if self.mode == "replay":
            where = f"chapter {self.chapter}" if self.chapter else "any chapter"
            command = f"`make live CHAPTER={self.chapter}`" if self.chapter else '`load(..., mode="live")`'
            raise RecordingError(
                f"{count} of {len(keys)} model calls are not recorded for {where}; {command} records them."
            )
        fresh = {}
        for batch in compute(missing, keys, settings):
            fresh.update(batch)
            if self._own is not None:
                self._own.add(batch)
        return fresh

    def _generate_missing(self, missing, keys, settings):
        prompts = list(missing)
        encoded = [self.encode(prompt) for prompt in prompts]
        self._check_window(encoded, settings["max_new_tokens"])
        steps, stop = settings["max_new_tokens"], settings["stop"]
        uniforms = [
            np.stack([_uniforms(tokens, settings["seed"], index, steps) for index in missing[prompt]])
            for prompt, tokens in zip(prompts, encoded, strict=True)
        ]
        ends = self._end_tokens()

        def finished(tokens):
            return bool(stop) and (tokens[-1] in ends or _first_stop(self._decode(tokens), stop) is not None)

        batches = decode.sample(
            self.model,
            encoded,
            uniforms,
            temperature=settings["temperature"],
            finished=finished,
            batch_tokens=self.profile.batch_tokens,
            count=self.count,
        )
        for batch in track(batches, what=f"{self.name}, replies", total=len(prompts)):
            yield [
                (keys[prompts[i], index], self._trim(reply, stop, ends))
                for i, replies in batch
                for index, reply in zip(missing[prompts[i]], replies, strict=True)
            ]

    def _score_missing(self, missing, keys, settings):
        pairs = list(missing)
        contexts = [self.encode(context) or [self._begin()] for context, _ in pairs]
        continuations = [self.encode(continuation, context=False) for _, continuation in pairs]
        self._check_window([[*a, *b] for a, b in zip(contexts, continuations, strict=True)], 0)
        batches = decode.score(
            self.model, contexts, continuations, batch_tokens=self.profile.batch_tokens, count=self.count
        )
        for batch in track(batches, what=f"{self.name}, log-likelihoods", total=len(pairs)):
            yield [(keys[pairs[i]], {"log_likelihood": _rounded(values)}) for i, values, _ in batch]

    def _trim(self, reply: decode.Reply, stop, ends) -> dict:
        """What is kept of a reply: the text before the stop string and the tokens that it is made of."""
        tokens = reply.tokens[:-1] if stop and reply.tokens[-1] in ends else reply.tokens
        text = self._decode(tokens)
        cut = _first_stop(text, stop)
        if cut is not None:
            text = text[:cut]
            tokens = tokens[: next(m for m in range(len(tokens) + 1) if self._decode(tokens[:m]).startswith(text))]
        length = len(tokens) or 1
        return {
            "text": text,
            "tokens": reply.tokens[:length],
            "log_likelihood": _rounded(reply.log_likelihood[:length]),
        }

    def _decode(self, tokens) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _begin(self) -> int:
        return next(t for t in (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, 0) if t is not None)

    def _end_tokens(self) -> set[int]:
        ends = self.model.generation_config.eos_token_id
        return {self.tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}

    def _check_window(self, encoded, extra: int) -> None:
        window = getattr(self.model.config, "max_position_embeddings", None)
        longest = max(map(len, encoded)) + extra
        if not all(encoded):
            raise ValueError("a prompt has no tokens; want at least one character")
        if window and longest > window and not self.model.config.is_encoder_decoder:
            raise ValueError(
                f"the longest call needs {longest} tokens (prompt {longest - extra}, reply {extra}), {self.name} holds {window}; "
                "give fewer or shorter documents, or a smaller max_new_tokens"
            )


def word_log_likelihoods(model: LanguageModel, texts: Sequence[str], words: Sequence[str]) -> np.ndarray:
    """How likely each of some words is as what follows each text.

    A verdict is read off these and not off a generated reply, so that every reply can be parsed and the distance to the decision is known.

    words   : continuations as they are tokenised, with their leading space where they have one
    returns : (texts, words) nats, each the sum over the word's tokens
    """
    scores = model.log_likelihood([text for text in texts for _ in words], list(words) * len(texts))
    return np.array([tokens.sum() for tokens in scores]).reshape(len(texts), len(words))


def _recording_files(chapter: str | None) -> list[Path]:
    if chapter:
        return [RECORDINGS / f"{chapter}.jsonl"]
    names = {
        path.name.removesuffix(".journal")
        for path in RECORDINGS.glob("*.jsonl*")
        if path.suffix in (".jsonl", ".journal")
    }
    return [RECORDINGS / name for name in sorted(names)]


def _generation(reply: dict) -> Generation:
    return Generation(reply["text"], tuple(reply["tokens"]), np.array(reply["log_likelihood"]))


def _uniforms(tokens: list[int], seed: int | None, index: int, steps: int) -> np.ndarray:
    """The numbers in [0, 1) that draw one sample: a counter-based generator keyed by the prompt's tokens, the seed and the index."""
    if seed is None:
        return np.zeros(steps)
    digest = hashlib.sha256(np.array([seed, *tokens], dtype="<u8").tobytes()).digest()
    key = np.frombuffer(digest[:16], dtype="<u8")
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, index])).random(steps)


def _first_stop(text: str, stop: Sequence[str]) -> int | None:
    places = [place for place in (text.find(s) for s in stop) if place >= 0]
    return min(places) if places else None


def _rounded(values) -> list[float]:
    return [round(float(value), DIGITS) for value in values]


def _texts(name: str, texts, *, empty: bool = True, empty_list: bool = False) -> list[str]:
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise ValueError(f"{name} must be a list of strings, got {type(texts).__name__}")
    for place, text in enumerate(texts):
        if not isinstance(text, str) or not (text or empty):
            raise ValueError(f"{name}[{place}] must be a {'' if empty else 'non-empty '}string, got {text!r}")
    if not texts and not empty_list:
        raise ValueError(f"{name} is empty; want at least one string")
    return list(texts)


def _whole(name: str, value, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
