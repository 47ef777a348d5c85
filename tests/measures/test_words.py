"""Putting a prompt to a model, and reading a verdict off the likelihood of a few words."""

import numpy as np
import pytest
import tiny
from scipy.special import softmax

from rag_utils import lm, prompts
from rag_utils.engine import weights
from rag_utils.lm import word_log_likelihoods
from rag_utils.measures.dense import VERDICTS, entailment
from rag_utils.prompts import prompt_text


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    profile = tiny.llama(tmp_path_factory.mktemp("llama"), batch_tokens=400)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


class Told:
    """A model that finds a word as likely as it is told."""

    def __init__(self, nats):
        self.nats = nats

    def chat(self, message):
        return f"<user>{message}</user>"

    def log_likelihood(self, contexts, continuations):
        return [np.array(self.nats[context, word]) for context, word in zip(contexts, continuations, strict=True)]


def test_a_message_is_put_into_the_chat_form_and_a_text_is_not():
    said = {form: prompts.Prompt("mine", "Is $text so?", chat=form) for form in (False, True)}
    assert prompt_text(Told({}), said[False], text="it") == "Is it so?"
    assert prompt_text(Told({}), said[True], text="it") == "<user>Is it so?</user>"
    with pytest.raises(ValueError, match="slots"):
        prompt_text(Told({}), said[True], question="it")


def test_a_word_counts_with_all_its_tokens():
    nats = {("a", "Yes"): [-1.0, -2.0], ("a", "No"): [-0.5], ("b", "Yes"): [-0.1], ("b", "No"): [-4.0, -0.5]}
    found = word_log_likelihoods(Told(nats), ["a", "b"], ("Yes", "No"))
    assert found.tolist() == [[-3.0, -0.5], [-0.1, -4.5]]  # the mean over tokens would put -1.5 first


def test_words_are_as_likely_as_one_by_one(reader):
    texts, words = ["the quick", "a dog"], (" yes", " no", " perhaps not")
    found = word_log_likelihoods(reader, texts, words)
    one_by_one = [[reader.log_likelihood([text], [word])[0].sum() for word in words] for text in texts]
    assert found == pytest.approx(np.array(one_by_one), abs=1e-4)
    assert softmax(found, axis=1).sum(axis=1) == pytest.approx([1.0, 1.0])


def test_the_verdict_has_a_direction(reader):
    prompt = prompts.Prompt("mine", "$question: $premise so $hypothesis?", chat=False)
    one, other = entailment(reader, prompt, ["q", "q"], ["red", "blue"], ["blue", "red"])
    texts = ["q: red so blue?", "q: blue so red?"]
    assert np.array([one, other]) == pytest.approx(word_log_likelihoods(reader, texts, VERDICTS))
    assert np.abs(one - other).max() > 0.01
