"""An OpenAI-compatible server as a reader: what `lm.LanguageModel` does, asked over HTTP at an address that the user gave.

    reader = Endpoint("http://localhost:8000")             # or http://localhost:8000/v1#NAME where it serves several models
    [[reply]] = reader.generate(["Question: What is the capital of France?\\nAnswer:"])

Before log-likelihoods of prompts are used, the server is asked about texts that it wrote itself (`scores_prompts`): servers leave them out,
or give them wrong by one place. Where it has /tokenize, as vLLM does, texts are cut by it and sent as token ids, so that context and
continuation are tokenised apart as everywhere in the book; elsewhere they are sent as text, and the tokens that come back must end with
the continuation. A server's log-likelihoods differ in the last digits with what else it computes. Recordings are by what /models says of a
model: another precision, or other weights under the same name, are not noticed; mode "fresh" looks at no recording.
"""

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from queue import Empty, SimpleQueue
from urllib.parse import urlsplit

import httpx
import numpy as np

from rag_utils.base import checks
from rag_utils.base.progress import track
from rag_utils.engine.calls import MODES, Calls
from rag_utils.engine.recordings import call_key
from rag_utils.engine.weights import WeightsError
from rag_utils.lm import LARGEST_SEED, Generation

KEYS = ("RAG_COMPANION_API_KEY", "OPENAI_API_KEY")  # of the environment; the first that is set is sent
TIMEOUT = 120.0  # seconds that one answer may take
TRIES, TRIES_LATE = 6, 2  # attempts, and those of a request that took too long
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # seconds; the pause doubles, unless the server says how long to wait
AGAIN = {408, 409, 425, 429, 500, 502, 503, 504, 529}
AT_ONCE = 8  # requests; a server makes batches of them
DIGITS = 5  # of a log-likelihood, as everywhere in the recordings
LARGEST = 2**28  # bytes of an answer
CHAT = "<|asked in chat|>"  # a prompt that begins so is sent as a message
FACTS = ("id", "root", "parent", "owned_by", "meta")  # of /models, what is the model's and stays from start to start
# what a server does to the distribution unless told: by who owns the model, as /v1/models says it
PLAIN = {
    "vllm": {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    "sglang": {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    "llamacpp": {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0},
}
KNOWN = (
    "Question: What is the capital of France?\nAnswer:",
    "A list of three animals that live in the sea:",
    "It was a cold morning when the old man",
)
STEPS = 12  # tokens that the server writes after each of them
NEAR = 0.25  # nats per token between what a server says of its own reply and of the same text as a prompt: room for 16-bit arithmetic


class EndpointError(WeightsError):
    """A server answers what cannot be right, or not at all; the message says which, and what came."""


class Unanswered(EndpointError):
    """Nobody answers at the address, or nobody without a key."""


class Refused(EndpointError):
    """A server does not have, or does not do, what it is asked for."""


@dataclass(frozen=True)
class TextOnly:
    """A reply without usable log-likelihoods: looking at them is a ValueError that says why there are none."""

    text: str
    why: str
    token_ids: tuple[int, ...] = ()

    @property
    def token_log_likelihood(self) -> np.ndarray:
        raise ValueError(self.why)

    log_likelihood = token_log_likelihood


class Recorded(Calls):
    """Calls, and also how many tokens a text has."""

    def counted(self, texts: Sequence[str], compute: Callable) -> dict:
        calls = {text: call_key(model=self.fingerprint, operation="count", text=text) for text in texts}
        return self._answers(calls, compute, lambda text: (text, None, False))


class Endpoint:
    """A model behind an address, with its recordings. `.name` is the model's, `.fingerprint` what the server says of it, wherever it is."""

    revision = None

    def __init__(self, address: str, *, mode: str = "live", timeout: float = TIMEOUT, pause: float = FIRST_PAUSE):
        """Ask the server which model it has.

        address : http(s)://host[:port][/path][#model]; without a path /v1, the model only where several are served
        mode    : as in `lm.load`; also "replay" asks what the server has, since recordings are by model
        timeout : seconds that one answer may take
        pause   : seconds before a request is repeated for the first time
        raises  : ValueError for an address that is none; EndpointError if nobody answers there, or has no such model
        """
        self.mode, self.timeout, self.pause = checks.one_of("mode", mode, MODES), timeout, pause
        self.address, self._wanted = _address(address)
        self.requests, self.reasons = 0, {}
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._has_logprobs = True  # until it shows otherwise
        self._client = httpx.Client(timeout=timeout, limits=httpx.Limits(max_connections=AT_ONCE))
        self._facts = self._model()
        self.name = self._facts["id"].rstrip("/")
        if self.name.startswith("/"):  # vLLM's, of a folder there
            self.name = self.name.rpartition("/")[2]
        said = json.dumps(self._facts, sort_keys=True)
        self.fingerprint = f"server-{hashlib.sha256(said.encode()).hexdigest()[:16]}"
        self._calls = Recorded(self.fingerprint, mode=mode)
        self._sizes: dict[str, int] = {}  # tokens of the prompts that were asked
        self._cut_texts: dict[tuple[str, bool], list[int]] = {}

    def __repr__(self) -> str:
        return f"Endpoint({self.address!r}, model={self.name!r}, mode={self.mode!r})"

    # --- what measures ask -------------------------------------------------------------------------

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        max_new_tokens: int = 32,
        stop: Sequence[str] = ("\n",),
        seed: int = 0,
        greedy: bool = False,
    ) -> list[list[Generation | TextOnly]]:
        """n replies to each prompt, as `LanguageModel.generate`.

        stop    : one to four strings
        seed    : sent along, different for every prompt and sample; whether it is heeded is the server's affair
        returns : Generation, without token ids; TextOnly where the server gives no log-likelihoods, or the temperature is neither 0 nor 1:
                  they may then be those of the distribution that was drawn from
        """
        prompts, stop = checks.texts("prompts", prompts), checks.texts("stop", stop, empty=False)
        n, steps = checks.whole("n", n, least=1), checks.whole("max_new_tokens", max_new_tokens, least=1)
        temperature = checks.number("temperature", temperature, low=0)
        seed = checks.whole("seed", seed, least=0, most=LARGEST_SEED)
        if len(stop) > 4:
            raise ValueError(f"stop must hold at most 4, which is what servers take; got {len(stop)}")
        settings = {"temperature": temperature, "max_new_tokens": steps, "stop": stop}
        settings["seed"] = seed if temperature else None
        drawn = [*range(n), *[None] * greedy] if temperature else [0] * (n + greedy)
        replies = self._calls.generated(prompts, drawn, settings, lambda calls: self._replies(calls, settings))
        self._sizes |= {prompt: reply["size"] for (prompt, _), reply in replies.items() if reply.get("size")}
        why = f"temperature {temperature} is neither 0 nor 1, and then a server's log-likelihoods may be of another distribution"
        if temperature in (0, 1):
            why = f"{self.name} gave no log-likelihoods of its replies; weigh them by their share instead"

        def reply(kept: dict) -> Generation | TextOnly:
            return TextOnly(kept["text"], why) if kept["log_likelihood"] is None else Generation.of(kept)

        return [[reply(replies[prompt, sample]) for sample in drawn] for prompt in prompts]

    def log_likelihood(self, contexts: Sequence[str], continuations: Sequence[str]) -> list[np.ndarray]:
        """As `LanguageModel.log_likelihood`; ValueError also if `scores_prompts` is False, saying why, and after a chat message."""
        contexts = checks.texts("contexts", contexts)
        continuations = checks.texts("continuations", continuations, empty=False)
        checks.same_length(contexts=contexts, continuations=continuations)
        if any(context.startswith(CHAT) for context in contexts):
            raise ValueError(f"{self.name} is asked in chat, where servers give no log-likelihoods of a given text")
        if not self.scores_prompts:
            raise ValueError(f"{self.name} gives no log-likelihoods of prompts: {self.reasons['prompts']}")
        pairs = list(zip(contexts, continuations, strict=True))
        replies = self._calls.scored(pairs, self._scores)
        self._sizes |= {f"{a}{b}": replies[a, b]["size"] for a, b in pairs}
        return [np.array(replies[pair]["log_likelihood"]) for pair in pairs]

    def chat(self, message: str) -> str:
        """A prompt that `generate` sends as a user's message to /chat/completions; ValueError if the server answers none."""
        message = checks.text("message", message)
        if not self._answers_chat:
            raise ValueError(f"{self.name} is not asked in chat: {self.reasons['chat']}; use a prompt without chat for it")
        return CHAT + message

    def encode(self, text: str, *, context: bool = True) -> list[int]:
        """As `LanguageModel.encode`, by the server's tokenizer; EndpointError where it does not say how it cuts a text."""
        if not self._cuts:
            raise EndpointError(f"{self.name} does not say how it cuts a text into tokens: {self.reasons['tokens']}")
        return self._cut(checks.text("text", text), context)

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` as a prompt: as the server told when it was asked that prompt, else asked for once."""
        text = checks.text("text", text)
        if text and text not in self._sizes:
            self._sizes[text] = self._calls.counted([text], self._counts)[text]["size"]
        return self._sizes.get(text, 0)

    def close(self) -> None:
        """Let the recordings and the connections go; RecordingError as `LanguageModel.close`."""
        self._client.close()
        self._calls.close()

    # --- what the server can do --------------------------------------------------------------------

    @cached_property
    def scores_replies(self) -> bool:
        """Whether it gives log-likelihoods of what it writes; tried once. True in mode "replay", where only what is recorded counts."""
        return self._tried("replies", lambda: [self._written(text) for text in KNOWN])

    @cached_property
    def scores_prompts(self) -> bool:
        """Whether it gives right log-likelihoods of prompts, tried once on `KNOWN`; `.reasons["prompts"]` says what is wrong with them.

        Of texts that it wrote itself, greedily: as many and the same as when it wrote them; the same for a part of the text; others after
        another context. True in mode "replay"
        """
        return self._tried("prompts", self._try_prompts)

    @cached_property
    def _answers_chat(self) -> bool:
        return self._tried("chat", lambda: self._one(f"{CHAT}Say yes.", 1, {"max_tokens": 1, "temperature": 0.0}))

    @cached_property
    def _cuts(self) -> bool:
        return self._tried("tokens", lambda: self._cut("a", True), asked=True)

    def _tried(self, what: str, attempt: Callable, *, asked: bool = False) -> bool:
        if self.mode == "replay" and not asked:
            return True
        try:
            attempt()
        except Unanswered:
            raise
        except EndpointError as error:
            self.reasons[what] = str(error)
        return what not in self.reasons

    def _written(self, text: str) -> dict:
        [reply] = self._one(text, 1, {"max_tokens": STEPS, "temperature": 0.0})
        if reply["log_likelihood"] is None:
            raise EndpointError("it gives its replies without any")
        if not any(reply["log_likelihood"]):
            raise EndpointError("those of its greedy replies are all 0, as if nothing else could have been said")
        return reply

    def _try_prompts(self) -> None:
        own = {text: self._written(text) for text in KNOWN}
        scored = {text: self._score((text, reply["text"])) for text, reply in own.items() if reply["text"]}
        pairs = [(reply["log_likelihood"], own[text]["log_likelihood"]) for text, reply in scored.items()]
        # a text may be cut otherwise than it was written
        pairs = [(values, said) for values, said in pairs if len(values) == len(said)]
        if not pairs:
            raise EndpointError("of the texts that it wrote none comes back as a prompt with as many tokens")
        if (off := max(_apart(*pair) for pair in pairs)) > NEAR:
            raise EndpointError(f"a text that it wrote has others as a prompt, off by up to {off:.2f} nat per token")
        context, values = next((text, reply["log_likelihood"]) for text, reply in scored.items())
        longer = self._score((context, own[context]["text"] + " and so on"))["log_likelihood"]
        if _apart(longer, values[:-1]) > NEAR:
            raise EndpointError("those of a text change when more follows it")
        elsewhere = self._score((KNOWN[KNOWN[0] == context], own[context]["text"]))["log_likelihood"]
        if len(elsewhere) == len(values) and _apart(elsewhere, values) < 1e-3:
            raise EndpointError("they are the same after another context")

    # --- requests ----------------------------------------------------------------------------------

    def _replies(self, calls: Sequence[tuple[str, int | None]], settings: dict) -> Iterator[list[tuple]]:
        samples: dict[str, list[int | None]] = {}
        for prompt, sample in calls:
            samples.setdefault(prompt, []).append(sample)
        asked = {"max_tokens": settings["max_new_tokens"]} | {name: settings[name] for name in ("temperature", "stop")}

        def ask(prompt: str) -> Iterator[list[tuple]]:
            if None in samples[prompt]:
                yield [((prompt, None), reply) for reply in self._one(prompt, 1, asked | {"temperature": 0.0})]
            wanted = [sample for sample in samples[prompt] if sample is not None]
            while wanted:
                seed = {"seed": _seed(prompt, settings["seed"], wanted[0])} if settings["temperature"] else {}
                replies = self._one(prompt, len(wanted), asked | seed)
                yield [((prompt, sample), reply) for sample, reply in zip(wanted, replies, strict=False)]
                wanted = wanted[len(replies) :]

        yield from track(self._together(list(samples), ask), what=f"{self.name}, replies", total=len(calls))

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> Iterator[list[tuple]]:
        batches = self._together(pairs, lambda pair: [[(pair, self._score(pair))]])
        yield from track(batches, what=f"{self.name}, log-likelihoods", total=len(pairs))

    def _counts(self, texts: Sequence[str]) -> Iterator[list[tuple]]:
        yield from self._together(texts, lambda text: [[(text, {"size": self._size(text)})]])

    def _together(self, tasks: Sequence, work: Callable) -> Iterator[list[tuple]]:
        """The batches of all tasks as they come, several at work at once; all that came are yielded before an error is raised.

        The threads are daemons, so that Ctrl-C need not wait for a server that does not answer
        """
        waiting, results = SimpleQueue(), SimpleQueue()
        for task in tasks:
            waiting.put(task)
        stopped = self._stopped

        def go_on():
            while not stopped.is_set():
                try:
                    for batch in work(waiting.get_nowait()):
                        results.put((batch, None))
                except Empty:
                    break
                except Exception as error:
                    stopped.set()
                    results.put((None, error))
            results.put(None)

        running, errors = min(AT_ONCE, len(tasks)), []
        for _ in range(running):
            threading.Thread(target=go_on, daemon=True).start()
        try:
            while running:
                if (result := results.get()) is None:
                    running -= 1
                elif result[1] is None:
                    yield result[0]
                else:
                    errors.append(result[1])
        finally:
            stopped.set()
            self._stopped = threading.Event()
        if errors:
            raise errors[0]

    def _one(self, prompt: str, n: int, settings: dict) -> list[dict]:
        """At most n replies to one prompt, as they are recorded; fewer where the server ignores n."""
        told = settings | {"model": self._facts["id"], "top_p": 1.0} | PLAIN.get(str(self._facts.get("owned_by")), {})
        told |= {"n": n} if n > 1 else {}
        if in_chat := prompt.startswith(CHAT):
            told["messages"] = [{"role": "user", "content": prompt.removeprefix(CHAT)}]
        else:
            told["prompt"] = prompt
        path, with_them = "/chat/completions" if in_chat else "/completions", {"logprobs": True if in_chat else 1}
        try:
            answer = self._ask(path, told | (with_them if self._has_logprobs else {}))
        except Refused:
            if not self._has_logprobs:
                raise
            answer = self._ask(path, told)
            self._has_logprobs = False  # that was it
        size = _usage(answer, "prompt_tokens")
        return [_reply(choice, settings) | {"tokens": [], "size": size} for choice in _choices(answer)[:n]]

    def _score(self, pair: tuple[str, str]) -> dict:
        """Log-likelihood of each token of a continuation, and the tokens of both together."""
        context, continuation = pair
        told = {"model": self._facts["id"], "max_tokens": 1, "temperature": 0.0, "logprobs": 1, "echo": True}
        if self._cuts:
            before, after = self._cut(context, True), self._cut(continuation, False)
            if not before:
                raise EndpointError(f"{self.name} begins no text with a token of its own, so a context must not be empty")
            choice, *_ = _choices(self._ask("/completions", told | {"prompt": [*before, *after]}))
            size, (_, values) = len(before) + len(after), _logprobs(choice)
            if len(values) not in (size, size + 1):
                raise EndpointError(f"{size} tokens of a prompt came back as {len(values)}")
            return {"log_likelihood": _nats(values[len(before) : size]), "size": size}
        choice, *_ = _choices(answer := self._ask("/completions", told | {"prompt": context + continuation}))
        tokens, values = _logprobs(choice)
        for end in (len(tokens) - 1, len(tokens)):  # with the token that had to be written, or without
            begin, text = end, ""
            while begin and len(text) < len(continuation):
                begin -= 1
                text = tokens[begin] + text
            while begin and not tokens[begin - 1] and values[begin - 1] is not None:
                begin -= 1  # parts of a letter, written as nothing up to the last of them
            if text == continuation:
                return {"log_likelihood": _nats(values[begin:end]), "size": _usage(answer, "prompt_tokens") or end}
        raise EndpointError(
            f"the tokens of a prompt must come back, and the last of them join to its continuation {continuation[:30]!r}; got {tokens[-4:]}"
        )

    def _cut(self, text: str, context: bool) -> list[int]:
        if (text, context) not in self._cut_texts:
            asked = {"model": self._facts["id"], "prompt": text, "add_special_tokens": context}
            tokens = self._ask(f"{self.address.removesuffix('/v1')}/tokenize", asked).get("tokens")
            if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
                raise EndpointError(f"/tokenize must answer with numbers of tokens; got {tokens!r:.60}")
            self._cut_texts[text, context] = tokens
        return self._cut_texts[text, context]

    def _size(self, text: str) -> int:
        if self._cuts:
            return len(self._cut(text, True))
        answer = self._ask("/completions", {"model": self._facts["id"], "prompt": text, "max_tokens": 1, "temperature": 0.0})
        if (size := _usage(answer, "prompt_tokens")) is None:
            raise EndpointError(f"{self.name} does not say how many tokens a prompt has")
        return size

    def _model(self) -> dict:
        """What the server says of the model that is wanted, or of its only one."""
        naming = f"name one, as in {self.address}#NAME"
        try:
            models = {str(entry["id"]): entry for entry in self._ask("/models", None)["data"]}
        except Refused as error:
            if self._wanted:
                return {"id": self._wanted}
            raise EndpointError(f"{error}; without a list of models {naming}") from None
        except (TypeError, KeyError):
            raise EndpointError(f"{self.address}/models holds no list of models; is the address right?") from None
        if not self._wanted and len(models) != 1:
            listed = ", ".join(sorted(models)[:5]) or "none"
            raise EndpointError(f"{self.address} has {len(models)} models; {naming}; they are: {listed}")
        entry = models[checks.one_of(f"model at {self.address}", self._wanted or next(iter(models)), models)]
        return {name: entry[name] for name in FACTS if name in entry} | {"id": str(entry["id"])}

    def _ask(self, path: str, content: dict | None) -> dict:
        """The server's answer as an object; asked again while that may help. Unanswered, Refused or EndpointError if there is none."""
        url, stopped = path if "://" in path else self.address + path, self._stopped
        for number in range(TRIES):
            try:
                status, answer, wait = self._send(url, content)
            except httpx.HTTPError as error:
                kind, said, wait = Unanswered, f"{type(error).__name__}, {str(error) or 'no more is known'}", None
                tries = TRIES_LATE if isinstance(error, httpx.TimeoutException) else TRIES
                said += "; is the server running, and is this its address?" if isinstance(error, httpx.ConnectError) else ""
            else:
                tries = TRIES
                if status < 300:
                    return _object(url, answer)
                kind, said = EndpointError, f"status {status}, {_message(answer)}"
                if status in (401, 403):
                    raise Unanswered(f"{url} wants another key ({_hidden(said)}); set {KEYS[0]} in the environment")
                if status not in AGAIN:
                    raise Refused(f"{url} answered {_hidden(said)}")
            pause = self.pause * 2**number if wait is None else wait
            if number >= tries - 1 or stopped.wait(min(LONGEST_PAUSE, pause)):
                break
        raise kind(f"{url} gave no answer in {number + 1} attempts; the last: {_hidden(said)}")

    def _send(self, url: str, content: dict | None) -> tuple[int, bytes, float | None]:
        """Status, body, and how many seconds the server asks to wait."""
        headers = {"Authorization": f"Bearer {keys[0]}"} if (keys := _keys()) else {}
        until, parts, size = time.monotonic() + self.timeout, [], 0
        with self._client.stream("GET" if content is None else "POST", url, json=content, headers=headers) as response:
            for part in response.iter_bytes():
                parts.append(part)
                size += len(part)
                if time.monotonic() > until:
                    raise httpx.ReadTimeout(f"an answer was not complete after {self.timeout:g} s")
                if size > LARGEST:
                    raise EndpointError(f"{url} answered with more than {LARGEST} bytes")
            wait = response.headers.get("retry-after", "")
        answer = b"".join(parts)
        with self._lock:
            self.requests += 1
        return response.status_code, answer, float(wait) if wait.isdecimal() else None


def _address(address: str) -> tuple[str, str]:
    """(address of the interface, name of the model or nothing)."""
    try:
        parts = urlsplit(checks.text("address", address).strip())
        host, _ = parts.hostname, parts.port
        httpx.URL(address)
    except (ValueError, httpx.InvalidURL) as error:
        raise ValueError(f"the address of a server cannot be read: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"the address of a server must be http://HOST:PORT or https://HOST; got {address!r:.80}")
    if "@" in parts.netloc or parts.query:
        raise ValueError(f"the address of a server must hold no password or query; a key is taken from {KEYS[0]} in the environment")
    path = parts.path.rstrip("/").removesuffix("/completions").removesuffix("/chat") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}", parts.fragment


def _object(url: str, answer: bytes) -> dict:
    try:
        content = json.loads(answer)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise EndpointError(f"{url} answered what is no JSON object: {_hidden(repr(answer[:60]))}; is this the right address?")
    return content


def _message(answer: bytes) -> str:
    """What a server says of an error, shortened."""
    try:
        error = json.loads(answer)
        error = error.get("error", error.get("message", error.get("detail", error)))
        said = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError, RecursionError):
        said = answer.decode(errors="replace")
    return " ".join(str(said).split())[:200] or "nothing more"


def _hidden(text: str) -> str:
    """The text without the key, should a server have repeated it."""
    for key in _keys():
        text = text.replace(key, "***")
    return text


def _keys() -> list[str]:
    """The keys that the environment holds, the one that is sent first."""
    keys = {name: key for name in KEYS if (key := os.environ.get(name, "").strip())}
    if wrong := [name for name, key in keys.items() if not key.isascii() or not key.isprintable()]:
        raise ValueError(f"{wrong[0]} must be a key of ASCII letters; it holds others")
    return list(keys.values())


def _choices(answer: dict) -> list[dict]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        raise EndpointError(f"a server must answer with choices; got {_hidden(repr(answer)):.80}")
    return choices


def _usage(answer: dict, name: str) -> int | None:
    usage = answer.get("usage")
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and value > 0 else None


def _logprobs(choice: dict) -> tuple[list[str], list]:
    """The tokens of a choice and their log-likelihoods, in either form; Refused where there are none."""
    held = choice.get("logprobs")
    if isinstance(held, dict) and isinstance(held.get("content"), list):  # of a chat
        rows = [row if isinstance(row, dict) else {} for row in held["content"]]
        held = {"tokens": [row.get("token") for row in rows], "token_logprobs": [row.get("logprob") for row in rows]}
    tokens, values = (held.get(name) if isinstance(held, dict) else None for name in ("tokens", "token_logprobs"))
    if not isinstance(tokens, list) or not isinstance(values, list) or not values:
        raise Refused("it gives no log-likelihoods")
    if len(tokens) != len(values) or not all(isinstance(token, str) for token in tokens):
        raise EndpointError(f"a server must give as many log-likelihoods as tokens; got {len(values)} and {len(tokens)}")
    return tokens, values


def _nats(values: Sequence) -> list[float]:
    """Values as log-likelihoods, if they are such and not none."""
    wrong = [value for value in values if type(value) not in (int, float) or not -1e200 < value <= checks.ROUNDING]
    if wrong or not values:
        came = repr(wrong[0])[:40] if wrong else "none"
        raise EndpointError(f"a server must give log-likelihoods that are finite and at most 0; got {came}")
    return [round(min(0.0, float(value)), DIGITS) for value in values]


def _apart(values: Sequence[float], others: Sequence[float]) -> float:
    """The largest difference between two lists, as far as both go."""
    return max((abs(a - b) for a, b in zip(values, others, strict=False)), default=0.0)


def _reply(choice: dict, settings: dict) -> dict:
    """What is kept of a choice: the text before the stop, and the log-likelihoods of its tokens, of an empty one that of its end.

    They are not kept at a temperature at which they may be of another distribution than the model's own
    """
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if not isinstance(text, str):
        raise EndpointError(f"a server must answer with text; got {text!r:.40}")
    text = text[: min((place for stop in settings.get("stop", ()) if (place := text.find(stop)) >= 0), default=None)]
    try:
        tokens, values = _logprobs(choice)
    except Refused:
        return {"text": text, "log_likelihood": None}
    if len(values) > settings["max_tokens"]:
        raise EndpointError(f"a server was asked for {settings['max_tokens']} tokens and answered with {len(values)}")
    whole = len(tokens) - (choice.get("finish_reason") == "stop")  # where they do not join to the text: all but the one that ended it
    length = next((m for m in range(len(tokens) + 1) if "".join(tokens[:m]).startswith(text)), whole)
    values = _nats(values[: length or 1])
    return {"text": text, "log_likelihood": values if settings["temperature"] in (0, 1) else None}


def _seed(prompt: str, seed: int, sample: int) -> int:
    """A seed of 31 bits for one request, another one for each prompt and sample."""
    return int.from_bytes(hashlib.sha256(f"{seed} {sample} {prompt}".encode()).digest()[:4], "big") >> 1
