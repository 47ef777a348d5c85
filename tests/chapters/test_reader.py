"""The embedded weights on real prompts: the engine says what plain transformers says, whatever shares a batch."""

import random

import numpy as np
import pandas as pd
import pytest
import torch
from scripts import script as training_script

from rag_utils import data, lm, prompts
from rag_utils.corpora.companion import COMPANION
from rag_utils.engine import decode

NEW_TOKENS = 12


@pytest.fixture(scope="module")
def reader():
    return lm.load("embedded-base", mode="fresh")


@pytest.fixture(scope="module")
def texts():
    """Prompts of very different lengths that share beginnings: one to three passages, before and after the question."""
    read, first = prompts.load("read_examples"), prompts.load("read_question_first")
    asked = data.load("companion")[::48]
    shown = [[p.text for p in (q.gold + q.distractors)[: 1 + i % 3]] for i, q in enumerate(asked)]
    return [
        form.fill(question=q.text, documents=d) for form in (read, first) for q, d in zip(asked, shown, strict=True)
    ]


@torch.inference_mode()
def plain_logits(reader, prompt: list[int], reply: list[int]) -> torch.Tensor:
    """(len(reply), vocabulary): one unpadded pass without a cache."""
    logits = reader.model(torch.tensor([[*prompt, *reply]]), use_cache=False).logits[0]
    return logits[len(prompt) - 1 : -1]


def test_log_likelihoods_are_within_a_ten_thousandth_of_a_nat(reader, texts):
    texts = texts[::2]
    replies = [f" {word} and some more words" for word in ("Paris", "384,400 kilometres", "nobody")] * len(texts)
    found = reader.log_likelihood(texts, replies[: len(texts)])
    for text, reply, ours in zip(texts, replies, found, strict=False):
        tokens = reader.encode(reply, context=False)
        log_probability = plain_logits(reader, reader.encode(text), tokens).log_softmax(dim=-1)
        plain = log_probability.gather(1, torch.tensor(tokens)[:, None])[:, 0].numpy()
        assert np.abs(ours - plain).max() < 1e-4


def test_greedy_replies_are_the_likeliest_tokens_wherever_the_lead_is_clear(reader, texts):
    texts, clear = texts[1::2], 0
    for text, [reply] in zip(texts, reader.generate(texts, max_new_tokens=NEW_TOKENS), strict=True):
        two = plain_logits(reader, reader.encode(text), list(reply.token_ids)).log_softmax(dim=-1).topk(2)
        for lead, best, token in zip(
            two.values[:, 0] - two.values[:, 1], two.indices[:, 0], reply.token_ids, strict=True
        ):
            if lead > 0.001:
                clear += 1
                assert token == best
    assert clear > 2 * len(texts)


def test_samples_do_not_depend_on_order_company_or_budget(reader, texts):
    """But for float noise: a number drawn so near the boundary between two of 49,152 tokens may choose the neighbour, rarely."""
    encoded = [reader.encode(text) for text in texts]
    numbers = [np.random.default_rng(i).random((4, NEW_TOKENS)) for i in range(len(texts))]
    end = reader.encode("\n", context=False)[0]

    def drawn(order, budget):
        batches = decode.sample(
            reader.model,
            [encoded[i] for i in order],
            [numbers[i] for i in order],
            temperature=1.0,
            finished=lambda tokens: tokens[-1] == end,
            batch_tokens=budget,
        )
        return {order[i]: [reply.tokens for reply in replies] for batch in batches for i, replies in batch}

    whole = drawn(list(range(len(texts))), 16_384)
    shuffled = random.Random(0).sample(range(len(texts)), len(texts))
    other = drawn(shuffled, 1500)
    same = [one == two for i in range(len(texts)) for one, two in zip(whole[i], other[i], strict=True)]
    assert np.mean(same) >= 0.95, f"{len(same) - sum(same)} of {len(same)} samples differ"


def test_what_is_known_by_heart_is_what_the_file_says(reader):
    """Twelve of its rows again; a sample may differ by float noise on another processor, so one of ten may."""
    known = pd.read_csv(COMPANION / "known.csv").query("reader == 'embedded-base'").set_index("id")["right_of_ten"]
    asked = data.load("companion")[60:150:8]
    found = training_script("known").right_of_ten(reader, asked, prompts.load("closed_examples"))
    assert [abs(right - known[q.id]) <= 1 for q, right in zip(asked, found, strict=True)] == [True] * len(asked)
    assert max(found) >= 5 > min(found)
