"""The language model as the book uses it: texts in, replies and log-likelihoods out, every call recorded.

    reader = load("embedded")
    [[reply]] = reader.generate(["Question: What is the capital of France?\\nAnswer:"])

Mode "replay" answers from the recordings and never runs the model; "live" runs it for what is missing and records that; "fresh"
neither reads nor writes recordings. On one processor a fresh result equals a recorded one in every bit; another processor rounds in its
own way (of 526 calls no text differed, the largest difference of a log-likelihood was 5e-5 nat).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag_utils.base import checks
from rag_utils.engine import live_check, profiles, weights
from rag_utils.engine.calls import MODES, Calls
from rag_utils.engine.live_check import LiveCheck
from rag_utils.engine.texts import Texts

__all__ = ["Generation", "LanguageModel", "LiveCheck", "load", "word_log_likelihoods"]
LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True)
class Generation:
    """One reply; ValueError if there is no likelihood, or one that is no logarithm of one."""

    text: str  # up to the stop string, which is not part of it; leading space kept
    token_ids: tuple[int, ...]  # of `text`; if the reply was empty, the one token that ended it
    token_log_likelihood: np.ndarray  # (tokens,) nats under the model's raw distribution, whatever the temperature

    def __post_init__(self):
        checks.log_likelihoods("token_log_likelihood", self.token_log_likelihood)

    @property
    def log_likelihood(self) -> float:
        """Sum over the tokens, nats: the logarithm of SePer's eq. 7."""
        return float(self.token_log_likelihood.sum())

    @classmethod
    def of(cls, reply: dict) -> "Generation":
        """A reply as the recordings hold it."""
        return cls(reply["text"], tuple(reply["tokens"]), np.array(reply["log_likelihood"]))


def load(
    profile: str | profiles.Profile = "embedded",
    *,
    mode: str = "replay",
    chapter: str | None = None,
    revision: str | None = None,
    dtype: str | None = None,
) -> "LanguageModel":
    """The reader of a profile, or in a folder of weights, ready to answer. Two of the same weights in a thread share one model.

    mode     : what "live" computes goes to the user's store, never to a tracked file
    chapter  : whose calls these are: `rag-companion seal` may put them into its tracked recordings. Calls that see the text of a
               benchmark are made without one and never leave the user's store
    revision : of a hub model; the one that was loaded is in `.revision`
    dtype    : "float32", "bfloat16" or "float16" instead of the profile's; another model to the recordings (`make bench` compares)
    raises   : ValueError for an unknown name or folder; WeightsError if the weights cannot be had; RecordingError for a damaged recording
    """
    checks.one_of("mode", mode, MODES)
    profile = profiles.get(profile, revision=revision, dtype=dtype)
    return LanguageModel(weights.shared(profile), profile, mode=mode, chapter=chapter)


class LanguageModel:
    """A reader with its recordings. `.model` and `.tokenizer` are those of transformers; `.fingerprint` identifies what computes."""

    def __init__(self, loaded: weights.Loaded, profile: profiles.Profile, *, mode: str = "replay", chapter: str | None = None):
        self._loaded = loaded
        self.name, self.revision, self.fingerprint = loaded.name, loaded.revision, loaded.fingerprint
        self.profile, self.mode, self.chapter = profile, mode, chapter
        self._texts = Texts(loaded, batch_tokens=profile.batch_tokens)
        self._calls = Calls(self.fingerprint, mode=mode, chapter=chapter)

    model = property(lambda self: self._loaded.model)
    tokenizer = property(lambda self: self._loaded.tokenizer)
    count = property(lambda self: self._texts.count)
    batch_tokens = property(lambda self: self._texts.batch_tokens)

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
    ) -> list[list[Generation]]:
        """n replies to each prompt.

        temperature : 0 is greedy, the n replies are then the same one; else tokens are drawn from softmax(logits / temperature), not cut
        stop        : a reply ends before the first of these strings, or at the model's end token; with stop=() neither counts and
                      exactly max_new_tokens are generated
        seed        : a sample depends on its prompt, the seed and its index only, not on what else is asked
        greedy      : one more to each, the last: what temperature 0 says. The prompt is read once for all of them
        raises      : ValueError for bad arguments or a prompt longer than the model's window; RecordingError in mode "replay" if a call
                      is not recorded
        """
        prompts, stop = checks.texts("prompts", prompts), checks.texts("stop", stop, least=0, empty=False)
        n, steps = checks.whole("n", n, least=1), checks.whole("max_new_tokens", max_new_tokens, least=1)
        temperature = checks.number("temperature", temperature, low=0)
        seed = checks.whole("seed", seed, least=0, most=LARGEST_SEED)
        settings = {"temperature": temperature, "max_new_tokens": steps, "stop": stop, "seed": seed if temperature else None}
        drawn = [*range(n), *[None] * greedy] if temperature else [0] * (n + greedy)
        replies = self._calls.generated(prompts, drawn, settings, lambda calls: self._texts.generate(calls, settings))
        return [[Generation.of(replies[prompt, sample]) for sample in drawn] for prompt in prompts]

    def log_likelihood(self, contexts: Sequence[str], continuations: Sequence[str]) -> list[np.ndarray]:
        """Log-likelihood of each token of each continuation given its context.

        Context and continuation are tokenised apart, so a continuation normally begins with its space. An empty context stands for the
        model's begin-of-text token.

        returns : one (tokens,) array per pair, nats, each <= 0
        raises  : as `generate`
        """
        contexts = checks.texts("contexts", contexts)
        continuations = checks.texts("continuations", continuations, empty=False)
        checks.same_length(contexts=contexts, continuations=continuations)
        pairs = list(zip(contexts, continuations, strict=True))
        replies = self._calls.scored(pairs, self._texts.score)
        return [np.array(replies[pair]["log_likelihood"]) for pair in pairs]

    def chat(self, message: str) -> str:
        """The prompt that asks `message` of a model: its chat template up to where the reply begins; ValueError if it has none."""
        message = checks.text("message", message)
        if not self.tokenizer.chat_template:
            raise ValueError(f"{self.name} has no chat template; use a prompt without chat for it")
        said = [{"role": "user", "content": message}]
        return self.tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)

    def encode(self, text: str, *, context: bool = True) -> list[int]:
        """The tokens of `text`, as the beginning of a prompt or, with context=False, as what follows one."""
        return self._texts.encode(checks.text("text", text), context=context)

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` as a prompt."""
        return len(self.encode(text))

    def live_check(self, k: int = 8, *, seed: int = 0) -> LiveCheck:
        """Compute k of the calls answered so far again, with the model; RecordingError if one is not reproduced.

        A token's log-likelihood under the recorded text may be 0.02 nat off; a greedy reply must be the likeliest at every token where
        the two best differ by more than 0.01 nat. In a precision of 16 bits both are 0.25 nat.
        """
        return live_check.live_check(self._texts, self._calls, k, seed=seed)

    def close(self) -> None:
        """Let the recordings go; nothing is lost without it. RecordingError if they were removed while they were written."""
        self._calls.close()


def word_log_likelihoods(model: LanguageModel, texts: Sequence[str], words: Sequence[str]) -> np.ndarray:
    """How likely each word is as what follows each text, (texts, words) nats, summed over the word's tokens.

    A verdict is read off these and not off a generated reply, so that every reply can be parsed and the distance to the decision is known.

    words : continuations as they are tokenised, with their leading space where they have one
    """
    texts, words = checks.texts("texts", texts), checks.texts("words", words, empty=False)
    tokens = model.log_likelihood([text for text in texts for _ in words], words * len(texts))
    return np.array([each.sum() for each in tokens]).reshape(len(texts), len(words))
