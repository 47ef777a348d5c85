"""What is a passage worth? SePer, built by hand.

N samples of one reader's replies, A accepted answers, K clusters of samples that mean the same. Log-likelihoods are natural logarithms.
"""

import json
from collections import Counter
from math import comb
from pathlib import Path

import numpy as np

CLOSED, GOLD = "closed book", "gold"


def load(name):
    """The questions of data/NAME.json, "salt" or "corpus"; the handout says what is in them."""
    path = Path("data") / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["questions"]


# %% [markdown]
# ## Step 1. How likely is a reply?
# A reply is a row of tokens. The reader gave each of them a probability, given what stood before it.


# %%
def reply_log_likelihood(token_log_likelihood):
    """The log-likelihood of a whole reply.

    token_log_likelihood : (tokens,) nats, each at most 0
    returns              : float, nats, at most 0
    source               : eq. 7
    """
    ### BEGIN SOLUTION
    return float(np.sum(token_log_likelihood))
    ### END SOLUTION


# %% [markdown]
# ## Step 2. What share of the belief does a sample get?
# Its likelihood divided by the likelihoods of all N samples together.


# %%
def sample_weights(log_likelihood):
    """The share of the belief that each sample gets: its likelihood over the sum of all N likelihoods.

    log_likelihood : (N,) nats; may be as low as -1000, where np.exp gives 0
    returns        : (N,) float, 0 .. 1, sum 1
    source         : eq. 7, divided by its sum over the samples
    """
    ### BEGIN SOLUTION
    log_likelihood = np.asarray(log_likelihood, dtype=float)
    weights = np.exp(log_likelihood - log_likelihood.max())
    return weights / weights.sum()
    ### END SOLUTION


# %% [markdown]
# ## Step 3. The soft belief
# Each sample counts as far as it agrees with the answer.


# %%
def soft(log_likelihood, kernel):
    """The belief in the answer, each sample counted as far as it agrees with it; the mean over the answers if there are several.

    log_likelihood : (N,) nats
    kernel         : (N, A) in [0, 1], how well sample i agrees with answer a
    returns        : float, 0 .. 1
    source         : eqs. 9 and 10, SePer_S of Algorithm 1
    """
    ### BEGIN SOLUTION
    return float(np.mean(sample_weights(log_likelihood) @ np.asarray(kernel, dtype=float)))
    ### END SOLUTION


# %% [markdown]
# ## Step 4. Samples that mean the same
# Entailment has a direction. Two samples mean the same if each entails the other.


# %%
def cluster(entails):
    """The cluster of each sample: the earliest one whose first member it entails and is entailed by, else a new one.

    Samples are taken in their order, and nobody is moved later.

    entails : (N, N) bool, row = premise, column = hypothesis; never mind the diagonal
    returns : (N,) int, ids 0, 1, 2, ... in the order in which the clusters begin
    source  : Definition 2 and eq. 4
    """
    ### BEGIN SOLUTION
    entails = np.asarray(entails, dtype=bool)
    first_members, ids = [], []
    for sample in range(len(entails)):
        for number, first in enumerate(first_members):
            if entails[sample, first] and entails[first, sample]:
                ids.append(number)
                break
        else:
            ids.append(len(first_members))
            first_members.append(sample)
    return np.array(ids)
    ### END SOLUTION


# %% [markdown]
# ## Step 5. The hard belief
# A cluster weighs what its members weigh together, and counts as a whole or not at all.


# %%
def hard(log_likelihood, clusters, matches):
    """The belief in the answer: the weight of the clusters that mean the same as it; the mean over the answers if there are several.

    log_likelihood : (N,) nats
    clusters       : (N,) int, as `cluster` returns them
    matches        : (K, A) bool, whether cluster k means answer a
    returns        : float, 0 .. 1
    source         : eqs. 6, 8 and 10, SePer_H of Algorithm 1
    """
    ### BEGIN SOLUTION
    return soft(log_likelihood, np.asarray(matches, dtype=float)[np.asarray(clusters)])
    ### END SOLUTION


# %% [markdown]
# ## Step 6. What the passage is worth


# %%
def utility(after, before):
    """Delta-SePer: the belief that the passage adds, below 0 if it misleads.

    after, before : belief with the passage and without, 0 .. 1
    returns       : float, -1 .. 1
    source        : eq. 11
    """
    ### BEGIN SOLUTION
    return after - before
    ### END SOLUTION


# %% [markdown]
# ## Step 7. Port Sennick, measured
# `load("salt")[0]["contexts"]`: the question without a passage, with each of the six passages, and with all six.


# %%
def worths(contexts, measure=soft):
    """What each context of one question is worth: its belief against that of the context named CLOSED.

    contexts : list of dicts with "name", "token_log_likelihood" (N lists of nats) and "kernel" (N, A); CLOSED is among them
    measure  : function of (N,) log-likelihoods and the kernel, such as `soft`
    returns  : dict, name -> delta-SePer, without CLOSED
    source   : eq. 11 with eqs. 7, 9 and 10
    """
    ### BEGIN SOLUTION
    beliefs = {}
    for context in contexts:
        log_likelihood = [reply_log_likelihood(tokens) for tokens in context["token_log_likelihood"]]
        beliefs[context["name"]] = measure(log_likelihood, context["kernel"])
    before = beliefs.pop(CLOSED)
    return {name: utility(after, before) for name, after in beliefs.items()}
    ### END SOLUTION


def shares(log_likelihood, kernel):
    """As `soft`, every sample with the weight 1/N: for comparison, given.

    returns : float, 0 .. 1
    """
    return float(np.mean(kernel))


# %% [markdown]
# ## Step 8. Counted twice
# A likely reply is drawn often, and each time it weighs much. What is expected then?


# %%
def expected_belief(p, n):
    """The expectation of the soft belief, for a reader with two replies: the right one, of probability p, and a wrong one, of 1 - p.

    Of n samples k are right, with the probability comb(n, k) p^k (1 - p)^(n - k). For each k the belief is what `soft` gives, with
    log p and log(1 - p) as log-likelihoods. The expectation is over k = 0 .. n.

    p       : float, above 0 and below 1
    n       : int, 1 or more
    returns : float, 0 .. 1
    source  : eq. 9, as an expectation
    """
    ### BEGIN SOLUTION
    total = 0.0
    for k in range(n + 1):
        log_likelihood = [np.log(p)] * k + [np.log(1 - p)] * (n - k)
        kernel = [[1.0]] * k + [[0.0]] * (n - k)
        total += comb(n, k) * p**k * (1 - p) ** (n - k) * soft(log_likelihood, kernel)
    return total
    ### END SOLUTION


# %% [markdown]
# ## Step 9. Does it agree with people?
# `load("corpus")`: sixty questions, each asked without a passage, with the passage that is marked as the right one (GOLD), and with
# one that looks right and holds no answer.


# %%
def known(contexts):
    """Whether at least half of the N samples without a passage are right: their kernel is 0.5 or more with some answer. Given."""
    closed = next(context for context in contexts if context["name"] == CLOSED)
    return np.mean(np.max(closed["kernel"], axis=1) >= 0.5) >= 0.5


def agreement(questions, measure=soft):
    """Pearson's correlation of delta-SePer with 1 for the gold passage and 0 for the other, over all passages of all questions together.

    Questions that are known without a passage (`known`) are left out first.

    questions : list of dicts with "contexts", as `load` returns them
    measure   : as in `worths`
    returns   : float, -1 .. 1
    source    : section 4.1.2
    """
    ### BEGIN SOLUTION
    values, marked = [], []
    for question in questions:
        if not known(question["contexts"]):
            for name, value in worths(question["contexts"], measure).items():
                values.append(value)
                marked.append(float(name == GOLD))
    return float(np.corrcoef(values, marked)[0, 1])
    ### END SOLUTION


# %% [markdown]
# ## What you measured
# Given: it calls what you have written.


# %%
def report():
    """Print the belief in the answer, soft, hard and by shares, of Port Sennick and of two questions more; then the rest."""
    corpus = load("corpus")
    contexts = {context["name"]: context for context in load("salt")[0]["contexts"]}
    contexts |= {question["id"]: question["contexts"][0] for question in corpus if question["id"] in ("q071", "q081")}
    print(f"{'context':<13}{'soft':>7}{'hard':>7}{'shares':>8}  ten replies")
    for name, context in contexts.items():
        log_likelihood = np.array([reply_log_likelihood(np.array(own)) for own in context["token_log_likelihood"]])
        clusters = np.asarray(cluster(np.array(context["same"], dtype=bool)))
        _, firsts = np.unique(clusters, return_index=True)
        kernel = np.array(context["kernel"])
        beliefs = soft(log_likelihood, kernel), hard(log_likelihood, clusters, kernel[firsts] >= 0.5)
        said = ", ".join(f"{text[:24]} x {times}" for text, times in Counter(context["replies"]).most_common(4))
        print(f"{name:<13}{beliefs[0]:7.3f}{beliefs[1]:7.3f}{shares(log_likelihood, kernel):8.3f}  {said}")
    print("\nexpected soft belief at p = 0.7, with 1, 2, 10 and 100 samples:")
    print("  ".join(f"{expected_belief(0.7, n):.3f}" for n in (1, 2, 10, 100)))
    print(f"\nagreement on the corpus: soft {agreement(corpus):.3f}, shares {agreement(corpus, shares):.3f}")
