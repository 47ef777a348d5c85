"""Steps 1 to 3: a reply, its share of the belief, the soft belief."""

import adapters
import numpy as np
from check import expect


def test_reply_log_likelihood_by_hand():
    tokens = np.log([0.5, 0.9, 0.4])
    expect(
        adapters.reply_log_likelihood(tokens),
        np.log(0.18),
        asked="reply_log_likelihood(log of [0.5, 0.9, 0.4])",
        equation="eq. 7, p(r | q) is the product of the tokens' probabilities",
        mistakes={
            "the mean over the tokens, as in the authors' code. Eq. 7 is a product: sum the logarithms": tokens.mean(),
            "the logarithms were multiplied. A product of probabilities is a sum of logarithms": tokens.prod(),
            "a probability and not its logarithm: no exp here": 0.18,
            "the sign: a log-likelihood is at most 0, a loss would be its negative": -np.log(0.18),
            "the first token is missing; it has a probability too": tokens[1:].sum(),
            "the last token is missing": tokens[:-1].sum(),
            "only the last token was taken": tokens[-1],
            "the likeliest token was taken, not all of them": tokens.max(),
        },
    )
    with np.errstate(all="ignore"):
        came = adapters.reply_log_likelihood(np.full(400, -3.0))
    expect(
        came,
        -1200.0,
        asked="reply_log_likelihood(400 tokens of -3 nats)",
        equation="eq. 7 as a sum of logarithms",
        mistakes={"the probabilities were multiplied, which is 0 to a computer. Sum the logarithms": -np.inf},
    )


def test_sample_weights_by_hand():
    p = np.array([0.3, 0.2, 0.1])
    of_p = np.exp(p) / np.exp(p).sum()
    expect(
        adapters.sample_weights(np.log(p)),
        p / p.sum(),
        asked="sample_weights(log of [0.3, 0.2, 0.1])",
        equation="eq. 7 over its sum, w_i = p_i / (p_1 + ... + p_N)",
        mistakes={
            "every sample got 1/N: that is the share, which does not look at the likelihood": np.full(3, 1 / 3),
            "the softmax was taken over probabilities. Logarithms come in: one exp is enough": of_p,
            "the logarithms themselves were divided by their sum: take exp first": np.log(p) / np.log(p).sum(),
            "these are the likelihoods, not yet divided by their sum": p,
            "these are the logarithms of the weights": np.log(p / p.sum()),
            "divided by the largest likelihood and not by the sum": p / p.max(),
            "the least likely sample weighs most: the sign of the logarithms was turned": (1 / p) / (1 / p).sum(),
            "divided by N and not by the sum": p / 3,
            "all the weight went to the likeliest sample": [1.0, 0.0, 0.0],
            "divided by the Euclidean length and not by the sum": p / np.sqrt((p**2).sum()),
        },
    )


def test_sample_weights_of_long_replies():
    with np.errstate(all="ignore"):
        came = adapters.sample_weights(np.array([-1000.0, -1001.0]))
    expect(
        came,
        [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1))],
        asked="sample_weights([-1000, -1001])",
        equation="eq. 7 over its sum; only differences of logarithms matter",
        mistakes={
            "0/0: exp(-1000) is 0 to a computer. Subtract the largest log-likelihood before exp": [np.nan] * 2,
            "exp(-1000) is 0, and something was added to it. Subtract the largest before exp instead": [0.0] * 2,
            "exp(-1000) is 0, and both got the same. Subtract the largest before exp instead": [0.5] * 2,
        },
    )
    with np.errstate(all="ignore"):
        came = adapters.sample_weights(np.array([-1000.0, -1.0]))
    expect(
        came,
        [0.0, 1.0],
        asked="sample_weights([-1000, -1])",
        equation="eq. 7 over its sum; only differences of logarithms matter",
        mistakes={"inf/inf: the first or the least was subtracted. Subtract the largest before exp": [0.0, np.nan]},
    )
    with np.errstate(all="ignore"):
        came = adapters.sample_weights(np.array([-1.0, *[-1000.0] * 9]))
    expect(
        came,
        [1.0, *[0.0] * 9],
        asked="sample_weights([-1, -1000, nine times])",
        equation="eq. 7 over its sum; only differences of logarithms matter",
        mistakes={"inf/inf: the mean was subtracted. Subtract the largest before exp": [np.nan, *[0.0] * 9]},
    )


def test_soft_of_one_answer():
    weights, kernel = np.array([0.5, 0.3, 0.2]), np.array([[0.6], [0.9], [0.0]])
    expect(
        adapters.soft(np.log(weights / 2), kernel),
        0.57,
        asked="soft(log of [0.25, 0.15, 0.10], [[0.6], [0.9], [0.0]])",
        equation="eq. 9, the sum of w_i k(r_i, a) = 0.5 x 0.6 + 0.3 x 0.9 + 0.2 x 0.0",
        mistakes={
            "the plain mean of the kernel: every sample counted 1/N. Weigh by the likelihood": 0.5,
            "the kernel was cut at 0.5, as the hard score does. Soft counts a sample as far as it agrees": 0.8,
            "only the best sample counts (a max). Sum over the samples": 0.9,
            "only the likeliest sample counts. Sum over the samples": 0.6,
            "the likelihoods were not divided by their sum: use your sample_weights": 0.285,
            "the weighted sum was divided by N once more. The weights sum to 1 already": 0.19,
            "the kernel was weighed by logarithms: use your sample_weights": float(np.log(weights / 2) @ kernel[:, 0]),
        },
    )


def test_soft_of_two_answers():
    weights = np.array([0.5, 0.3, 0.2])
    kernel = np.array([[0.6, 0.9], [0.9, 0.2], [0.0, 1.0]])
    swapped = (weights @ kernel.reshape(2, 3).T).mean()
    expect(
        adapters.soft(np.log(weights), kernel),
        0.64,
        asked="soft(log of [0.5, 0.3, 0.2], [[0.6, 0.9], [0.9, 0.2], [0.0, 1.0]])",
        equation="eq. 10, the mean of the beliefs in the two answers, 0.57 and 0.71",
        mistakes={
            "the larger of the two beliefs (max for mean). That is the authors' code; eq. 10 is a mean over the answers": 0.71,
            "the beliefs in the answers were summed: divide by the number of answers A": 1.28,
            "only the first answer was looked at": 0.57,
            "the best answer was taken sample by sample, before weighing": 0.92,
            "the plain mean of the kernel, over both axes: every sample counted 1/N": 0.6,
            "samples and answers were mixed up by a reshape (the authors' code trips here too)": swapped,
        },
    )
