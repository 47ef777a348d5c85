"""Which sentences are evidence? ECoRAG, built by hand.

A question has n sentences. Labels are "strong", "weak", "distractor" and "undefined"; logarithms are natural, losses in nats.
"""

import json
from pathlib import Path

import numpy as np

ALONE = "the sentence"
LABELS = ("strong", "weak", "distractor", "undefined")


def load(name):
    """The questions of data/NAME.json, "salt", "labels" or "reading"; the handout says what is in them."""
    path = Path("data") / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["questions"]


# %% [markdown]
# ## Step 1. One sentence
# `load("salt")[0]["contexts"]`: what the reader was shown, and how likely it then found each token of the right answer.


# %%
def belief(token_log_likelihood):
    """The reader's belief in an answer: the product of the probabilities of its tokens.

    token_log_likelihood : (tokens,) nats, each at most 0
    returns              : float, 0 .. 1
    source               : the chain rule; what the book calls P(answer)
    """
    ### BEGIN SOLUTION
    return float(np.exp(np.sum(token_log_likelihood)))
    ### END SOLUTION


# %%
def lost(contexts):
    """What each context costs: the belief after the sentence ALONE minus the belief after the context.

    contexts : list of dicts with "name" and "token_log_likelihood" (tokens,); one of them is named ALONE
    returns  : dict, name -> float, -1 .. 1, below 0 if the context is better than the sentence; ALONE is left out
    source   : ours, a difference of two beliefs
    """
    ### BEGIN SOLUTION
    beliefs = {context["name"]: belief(context["token_log_likelihood"]) for context in contexts}
    best = beliefs.pop(ALONE)
    return {name: best - value for name, value in beliefs.items()}
    ### END SOLUTION


# %% [markdown]
# ## Step 2. What a sentence is to a reader
# Three answers say it: without any sentence, with this one, and with a strong one and this one.


# %%
def evidentiality(closed_book, with_sentence, strong_with_sentence):
    """The label of a sentence, from whether the reader's answers are right; None is an answer that nobody asked for.

    closed_book          : True or False, without any sentence
    with_sentence        : True, False or None, with this sentence alone; None makes nothing strong
    strong_with_sentence : True or False, with a strong sentence and this one; None if the question has no strong sentence
    returns              : "strong", "weak", "distractor" or "undefined"
    source               : section 3.1.1, conditions 1 and 2
    """
    ### BEGIN SOLUTION
    if with_sentence and not closed_book:
        return "strong"
    if strong_with_sentence is None:
        return "undefined"
    return "weak" if strong_with_sentence else "distractor"
    ### END SOLUTION


# %% [markdown]
# ## Step 3. What it says of 87 questions


# %%
def label_counts(questions):
    """How many sentences have each label, over all questions together.

    questions : list of dicts with "closed" (True or False), "alone" and "beside" (n,), one entry per sentence, None where not asked
    returns   : dict, each of LABELS -> int, also where it is 0
    source    : section 3.1.1, counted
    """
    ### BEGIN SOLUTION
    counts = dict.fromkeys(LABELS, 0)
    for question in questions:
        for alone, beside in zip(question["alone"], question["beside"], strict=True):
            counts[evidentiality(question["closed"], alone, beside)] += 1
    return counts
    ### END SOLUTION


# %% [markdown]
# ## Step 4. A loss that puts one above others


# %%
def info_nce(positive, negatives, temperature=1.0):
    """The surprise at picking the positive out of itself and the negatives, each with the weight exp(similarity / temperature).

    positive  : float, similarity of the question and the positive sentence; it may be as large as 1000, where np.exp gives inf
    negatives : (m,) float, list or array, similarities of the question and the negative sentences, m >= 1; as large
    returns   : float, nats, 0 and above
    source    : eqs. 2 and 3
    """
    ### BEGIN SOLUTION
    logits = np.array([positive, *negatives]) / temperature
    top = logits.max()
    return float(top + np.log(np.sum(np.exp(logits - top))) - logits[0])
    ### END SOLUTION


# %% [markdown]
# ## Step 5. Strong above weak above distractors


# %%
def compressor_loss(scores, labels, temperature=1.0):
    """What the compressor makes small: the strong loss plus the weak loss of one question.

    Strong loss: the mean over the strong sentences of `info_nce` against all that are weak or distractors. Weak loss: the mean over the
    weak ones against all distractors. A part without positives or without negatives adds nothing. Undefined sentences count nowhere.

    scores  : (n,) float, similarities of the question and its sentences
    labels  : n of LABELS
    returns : float, nats, 0 and above
    source  : eq. 4 with eqs. 2 and 3
    """
    ### BEGIN SOLUTION
    scores, labels = np.asarray(scores, dtype=float), np.asarray(labels)
    total = 0.0
    for positive, lower in (("strong", ("weak", "distractor")), ("weak", ("distractor",))):
        negatives = scores[np.isin(labels, lower)]
        losses = [info_nce(score, negatives, temperature) for score in scores[labels == positive]]
        if losses and len(negatives):
            total += np.mean(losses)
    return float(total)
    ### END SOLUTION


# %% [markdown]
# ## Step 6. Which way to push
# The slope by algebra, and by numbers: each keeps the other honest.


# %%
def numerical_gradient(function, x, h=1e-5):
    """The slope of a function at x by central differences: (f(x + h) - f(x - h)) / 2h, one coordinate at a time.

    function : of a (k,) array, returns a float
    x        : (k,) float array, never a list; it is as before afterwards
    returns  : (k,) float
    source   : the definition of a derivative
    """
    ### BEGIN SOLUTION
    moves = h * np.eye(len(x))
    return np.array([(function(x + move) - function(x - move)) / (2 * h) for move in moves])
    ### END SOLUTION


# %%
def gradient(positive, negatives, temperature=1.0):
    """The slope of `info_nce` in each similarity, by algebra; the arguments are those of `info_nce`.

    returns : (1 + m,) float, one array, that of the positive first
    source  : eqs. 2 and 3, differentiated
    """
    ### BEGIN SOLUTION
    logits = np.array([positive, *negatives]) / temperature
    weights = np.exp(logits - logits.max())
    slope = weights / weights.sum()
    slope[0] -= 1
    return slope / temperature
    ### END SOLUTION


# %% [markdown]
# ## Step 7. As many as it takes


# %%
def compress(sentences, scores, is_sufficient, step=4, limit=20):
    """Which sentences to keep: the best `step`, then `step` more at a time, until they are sufficient or `limit` is reached.

    sentences     : n of them
    scores        : (n,) float, the higher the better; of two equal ones the earlier sentence goes first
    is_sufficient : function of the list of sentences kept so far, best first; returns True or False. Asked after each addition
    step, limit   : how many are added at a time, the last time fewer if need be, and how many are kept at most; n may be below `limit`
    returns       : list of int, places in `sentences`, best first
    source        : section 3.2.2 and appendix B.1
    """
    ### BEGIN SOLUTION
    order = np.argsort(-np.asarray(scores, dtype=float), kind="stable").tolist()[:limit]
    kept = []
    while len(kept) < len(order):
        kept = order[: len(kept) + step]
        if is_sufficient([sentences[place] for place in kept]):
            break
    return kept
    ### END SOLUTION


# %% [markdown]
# ## Step 8. What compression keeps and what it costs
# `load("reading")`: 127 questions, twenty passages each, with the scores of a trained compressor and the replies of its evaluator.


# %%
def token_ratio(tokens, kept, whole):
    """The tokens that are kept, as a share of those of all documents.

    tokens  : (n,) int, of each sentence
    kept    : places of the sentences that are kept
    whole   : int, tokens of all documents
    returns : float, above 0
    source  : Table 8
    """
    ### BEGIN SOLUTION
    return sum(tokens[place] for place in kept) / whole
    ### END SOLUTION


def evaluator(question, threshold=0.5):
    """The recorded evaluator of a question, a function as `compress` wants it: are the best 1, 2, ... sentences sufficient? Given."""
    return lambda kept: question["sufficient"][len(kept) - 1] >= threshold


# %%
def measured(questions, limit=20, threshold=0.5):
    """Compress each question four sentences at a time, by its `evaluator` with this threshold, and look up how the reader then answers.

    questions : list of dicts with "sentences", "scores", "tokens" (n,), "tokens_of_all", "right" (sentences kept, as text -> bool)
    limit     : 4, 8, 12, 16 or 20
    returns   : dict, means over the questions: "right" (share), "tokens" (kept), "ratio" (of `token_ratio`)
    source    : Tables 1 and 8
    """
    ### BEGIN SOLUTION
    rows = []
    for question in questions:
        sufficient = evaluator(question, threshold)
        kept = compress(question["sentences"], question["scores"], sufficient, limit=limit)
        tokens = sum(question["tokens"][place] for place in kept)
        ratio = token_ratio(question["tokens"], kept, question["tokens_of_all"])
        rows.append((question["right"][str(len(kept))], tokens, ratio))
    return dict(zip(("right", "tokens", "ratio"), np.mean(rows, axis=0).tolist(), strict=True))
    ### END SOLUTION


# %% [markdown]
# ## What you measured
# Given: it calls what you have written.


# %%
def report():
    """Print Port Sennick, sentence by sentence; the labels of 87 questions, by what the reader knew; and what compression costs."""
    salt, questions, reading = load("salt")[0], load("labels"), load("reading")
    losses = {ALONE: 0.0} | lost(salt["contexts"])
    print(f"{'shown':<24}{'P(1829)':>9}{'lost':>8}")
    for context in salt["contexts"]:
        print(f"{context['name']:<24}{belief(context['token_log_likelihood']):9.3f}{losses[context['name']]:8.3f}")
    kept = compress(salt["texts"], salt["scores"], evaluator(salt))
    print(
        f"\nkept of its {len(salt['texts'])} sentences: {len(kept)}, the best first; P(sufficient) {salt['sufficient'][0]:.2f} each time"
    )
    for place in kept[:4]:
        print(f"  {salt['scores'][place]:.2f}  {salt['texts'][place][:100]}")
    groups = {"right without help": [question for question in questions if question["closed"]]}
    for about in ("real", "invented"):
        groups[f"wrong, {about}"] = [each for each in questions if not each["closed"] and each["about"] == about]
    print(
        f"\n{'reader without help':<22}{'questions':>10}{'with strong':>12}"
        + "".join(f"{label:>11}" for label in LABELS)
    )
    for title, group in groups.items():
        strong = sum(label_counts([question])["strong"] > 0 for question in group)
        counts = "".join(f"{count:11}" for count in label_counts(group).values())
        print(f"{title:<22}{len(group):10}{strong:12}{counts}")
    similar = np.array([1.2, 0.7, 0.1, -0.2, 0.4])
    numerical = numerical_gradient(lambda x: info_nce(x[0], x[1:]), similar)
    apart = np.subtract(gradient(similar[0], similar[1:]), numerical)
    print(f"\nlargest difference of the two gradients: {np.abs(apart).max():.0e}")
    print(f"\n{'of twenty passages':<24}{'right':>7}{'of those known':>16}{'tokens':>8}{'ratio':>7}")
    known = [question for question in reading if question["right"]["closed book"]]
    for title, tokens, ratio in (("nothing", 0, 0), ("all", np.mean([each["tokens_of_all"] for each in reading]), 1)):
        name = "closed book" if title == "nothing" else title
        right, kept_right = (np.mean([question["right"][name] for question in part]) for part in (reading, known))
        print(f"{title:<24}{right:7.3f}{kept_right:16.3f}{tokens:8.0f}{ratio:7.3f}")
    for title, how in [(f"best {n}", {"limit": n, "threshold": 2}) for n in range(4, 24, 4)] + [("ECoRAG", {})]:
        row, of_known = measured(reading, **how), measured(known, **how)
        print(f"{title:<24}{row['right']:7.3f}{of_known['right']:16.3f}{row['tokens']:8.0f}{row['ratio']:7.3f}")
    sizes = [len(compress(each["sentences"], each["scores"], evaluator(each))) for each in reading]
    print("\nECoRAG keeps " + ", ".join(f"{n} sentences of {sizes.count(n)} questions" for n in sorted(set(sizes))))
