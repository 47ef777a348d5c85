"""DENSE asked of a reader: passages in other words, the replies to them, and how far these agree."""

from collections.abc import Sequence

import numpy as np

from rag_utils.lm import LanguageModel, word_log_likelihoods
from rag_utils.prompts import Prompt, prompt_text

VERDICTS = ("entailment", "contradiction", "neutral")


def entailment(
    model: LanguageModel, prompt: Prompt, questions: Sequence[str], premises: Sequence[str], hypotheses: Sequence[str]
) -> np.ndarray:
    """How likely the model finds each verdict on whether a premise entails a hypothesis.

    prompt  : with the slots question, premise and hypothesis, asks for one of VERDICTS
    returns : (n, 3) nats, in the order of VERDICTS
    source  : DENSE, eq. 5 and appendix B.2, where the word that is generated counts
    """
    triples = zip(questions, premises, hypotheses, strict=True)
    texts = [prompt_text(model, prompt, question, premise=one, hypothesis=other) for question, one, other in triples]
    return word_log_likelihoods(model, texts, VERDICTS)
