"""A prompt put to a model: the text in the form that the prompt asks for, and which of a few words the model would say next."""

from collections.abc import Sequence

import numpy as np

from rag_utils.lm import LanguageModel
from rag_utils.prompts import Prompt

VERDICTS = ("entailment", "contradiction", "neutral")


def filled(model: LanguageModel, prompt: Prompt, **slots) -> str:
    """The prompt with its slots filled, as a message in the model's chat form if the prompt asks for that.

    slots  : as in `Prompt.fill`, documents among them
    raises : ValueError as `Prompt.fill` and `LanguageModel.chat` do
    """
    text = prompt.fill(**slots)
    return model.chat(text) if prompt.chat else text


def word_log_likelihoods(model: LanguageModel, texts: Sequence[str], words: Sequence[str]) -> np.ndarray:
    """How likely each of some words is as what follows each text.

    A verdict is read off these and not off a generated reply, so that every reply can be parsed and the distance to the decision is known.

    words   : continuations as they are tokenised, with their leading space where they have one
    returns : (texts, words) nats, each the sum over the word's tokens
    """
    said = model.log_likelihood([text for text in texts for _ in words], list(words) * len(texts))
    return np.array([tokens.sum() for tokens in said]).reshape(len(texts), len(words))


def entailment(
    model: LanguageModel, prompt: Prompt, questions: Sequence[str], premises: Sequence[str], hypotheses: Sequence[str]
) -> np.ndarray:
    """How likely the model finds each verdict on whether a premise entails a hypothesis.

    prompt  : with the slots question, premise and hypothesis, asks for one of VERDICTS
    returns : (n, 3) nats, in the order of VERDICTS
    source  : DENSE, eq. 5 and appendix B.2, where the word that is generated counts
    """
    triples = zip(questions, premises, hypotheses, strict=True)
    texts = [filled(model, prompt, question=q, premise=premise, hypothesis=other) for q, premise, other in triples]
    return word_log_likelihoods(model, texts, VERDICTS)
