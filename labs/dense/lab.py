"""Does the reader understand what it was given? DENSE and a step of DENSE-RAG, built by hand.

k chunks in a context, n = k + 1 replies: reply 0 to the context as it is, reply i to the one whose i-th chunk is in other words.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np

ROLES = ("certain", "necessary", "unnecessary")


def load(name):
    """The questions of data/NAME.json, "salt", "corpus", "sizes" or "refine"; the handout says what is in them."""
    path = Path("data") / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["questions"]


# %% [markdown]
# ## Step 1. One passage in other words
# The context as it is, and k more: in each of them one chunk is said otherwise, and all others are as they were.


# %%
def edits(chunks, other_words):
    """The context as it is, then per chunk the context in which that chunk alone is in other words.

    chunks      : list of k texts
    other_words : list of k texts, the same chunks said otherwise
    returns     : list of k + 1 lists of k texts, the context as it is first
    source      : eqs. 3 and 4
    """
    ### BEGIN SOLUTION
    contexts = [list(chunks)]
    for place, words in enumerate(other_words):
        context = list(chunks)
        context[place] = words
        contexts.append(context)
    return contexts
    ### END SOLUTION


# %% [markdown]
# ## Step 2. Who agrees with whom?
# The replies are the nodes of a graph. Entailment has a direction; a link has none.


# %%
def adjacency(entails):
    """How far two replies agree: 1 if each entails the other, 0.5 if only one does, 0 if neither; a reply agrees with itself.

    entails : (n, n) of True and False or of 1 and 0, row = premise, column = hypothesis; never mind the diagonal. It stays as it is
    returns : (n, n) float, symmetric, ones on the diagonal
    source  : eq. 5
    """
    ### BEGIN SOLUTION
    entails = np.asarray(entails, dtype=float)
    links = (entails + entails.T) / 2
    np.fill_diagonal(links, 1.0)
    return links
    ### END SOLUTION


# %% [markdown]
# ## Step 3. One number
# A reply's degree is what its links add up to. How surprised is it, on average, by agreement?


# %%
def degree_entropy(links):
    """DENSE: the mean over the replies of minus the logarithm of the share of replies that agree with it, itself included.

    links   : (n, n) float, as `adjacency` returns it
    returns : float, nats, 0 (all agree) .. log n (none do)
    source  : eq. 6
    """
    ### BEGIN SOLUTION
    degree = np.sum(links, axis=1)
    return float(np.mean(np.log(len(degree) / degree)))
    ### END SOLUTION


# %% [markdown]
# ## Step 4. What does a threshold let through?
# A question is certain if DENSE is at most 0.2, says the paper. With k chunks, how many replies may move?


# %%
def moves_allowed(k, threshold=0.2):
    """The largest m for which DENSE is at most the threshold, if m of the k + 1 replies have moved.

    A reply that has moved agrees with no other one, also with none that has moved. All others agree with each other.

    k         : int, chunks in the context, 1 or more
    threshold : float, nats, 0 or more
    returns   : int, 0 .. k
    source    : eq. 6 and section 5, certain is DENSE <= 0.2
    """
    ### BEGIN SOLUTION
    allowed = 0
    for m in range(k + 1):
        links = np.eye(k + 1)
        links[m:, m:] = 1.0
        if degree_entropy(links) <= threshold:
            allowed = m
    return allowed
    ### END SOLUTION


# %% [markdown]
# ## Step 5. Port Sennick
# `load("salt")`: the question about the salt with five, three and eight passages.


# %%
def entropies(questions):
    """DENSE of each question, rounded to nine decimals: what is equal on paper must be equal here, or a tie is none.

    questions : list of dicts with "entails" (n, n), 1 where reply i entails reply j
    returns   : (questions,) float, nats
    source    : eqs. 5 and 6
    """
    ### BEGIN SOLUTION
    return np.round([degree_entropy(adjacency(question["entails"])) for question in questions], 9)
    ### END SOLUTION


# %% [markdown]
# ## Step 6. Does it tell wrong replies from right ones?


# %%
def auroc(uncertainty, right):
    """The chance that a wrong reply is more uncertain than a right one, over all pairs of a wrong and a right one; a tie counts one half.

    uncertainty : (q,) float, one per question
    right       : (q,) of True and False or of 1 and 0; both occur
    returns     : float, 0 .. 1; 0.5 if uncertainty says nothing
    source      : Table 1
    """
    ### BEGIN SOLUTION
    uncertainty, right = np.asarray(uncertainty, dtype=float), np.asarray(right, dtype=bool)
    gaps = uncertainty[~right][:, None] - uncertainty[right][None, :]
    return float(np.mean((gaps > 0) + 0.5 * (gaps == 0)))
    ### END SOLUTION


# %% [markdown]
# ## Step 7. The corpus
# `load("corpus")`: 240 questions with five passages each.


# %%
def split(uncertainty, right, threshold=0.2):
    """The share of right replies among the certain questions, those with an uncertainty of at most the threshold, and among the others.

    uncertainty : (q,) float, one per question
    right       : (q,) of True and False or of 1 and 0
    returns     : dict, "certain" and "uncertain" -> float, 0 .. 1; NaN where there is no such question
    source      : section 5 and Fig. 4
    """
    ### BEGIN SOLUTION
    certain, right = np.asarray(uncertainty) <= threshold, np.asarray(right, dtype=float)
    sides = {"certain": right[certain], "uncertain": right[~certain]}
    return {side: float(own.mean()) if len(own) else np.nan for side, own in sides.items()}
    ### END SOLUTION


# %%
def measured(questions, threshold=0.2):
    """How well DENSE knows whether the reply to the context as it is, reply 0, is right.

    questions : list of dicts with "entails" (n, n) and "right" (n,), 1 or 0 for each reply
    returns   : dict, "AUROC", "certain" and "uncertain" -> float, 0 .. 1
    source    : Table 1 and Fig. 4
    """
    ### BEGIN SOLUTION
    uncertainty, right = entropies(questions), [question["right"][0] for question in questions]
    return {"AUROC": auroc(uncertainty, right)} | split(uncertainty, right, threshold)
    ### END SOLUTION


def counted(question, rule):
    """The question as if only some rephrasings counted: where one does not, reply 0 stands in the place of the reply to it. Given.

    rule : "accepted", those that the judge takes to say the same; "kept", those that hold an answer if the passage does
    """
    places = [0, *(number if use else 0 for number, use in enumerate(question[rule], 1))]
    entails = np.array(question["entails"])[np.ix_(places, places)]
    return question | {"entails": entails.tolist(), "right": [question["right"][place] for place in places]}


# %% [markdown]
# ## Step 8. Which chunk is it?
# DENSE-RAG leaves out each chunk whose other words move the reply, and asks again.


# %%
def roles(links, agrees_without):
    """What each chunk does to the reply.

    "certain": the reply with this chunk in other words fully agrees with reply 0 (link 1). Where it does not, the chunk is left out:
    "necessary" if the reply then does not agree with reply 0 at all (0), else "unnecessary".

    links          : (k + 1, k + 1) float, as `adjacency` returns it
    agrees_without : (k,) how far reply 0 agrees with the reply without that chunk, 1, 0.5 or 0; None for certain chunks
    returns        : list of k of ROLES
    source         : eqs. 8 to 10
    """
    ### BEGIN SOLUTION
    of_chunks = []
    for link, without in zip(np.asarray(links)[0][1:], agrees_without, strict=True):
        if link == 1:
            of_chunks.append("certain")
        else:
            of_chunks.append("necessary" if without == 0 else "unnecessary")
    return of_chunks
    ### END SOLUTION


# %% [markdown]
# ## Step 9. One goes, one comes
# What is unnecessary goes. For each necessary chunk the nearest new one comes.


# %%
def next_context(context, of_chunks, cosines, seen):
    """The context without its unnecessary chunks, and after them, for each necessary chunk in turn, the unused chunk nearest to it.

    Unused is a chunk that is not in `seen` and has not just been added. If none is left, none comes. Nothing that comes in is changed.

    context   : list of int, numbers of its chunks
    of_chunks : list of ROLES, one per chunk of the context
    cosines   : (m, m) float, likeness of all m chunks that may be used; of equally near ones the first number is taken
    seen      : set of int, numbers of all chunks that have been in a context so far, those of this one included
    returns   : list of int
    source    : section 5.2, pruning and refilling
    """
    ### BEGIN SOLUTION
    cosines, used = np.asarray(cosines), set(seen)
    following = [chunk for chunk, role in zip(context, of_chunks, strict=True) if role != "unnecessary"]
    for chunk, role in zip(context, of_chunks, strict=True):
        unused = [other for other in range(len(cosines)) if other not in used]
        if role == "necessary" and unused:
            nearest = max(unused, key=lambda other, row=cosines[chunk]: row[other])
            following.append(nearest)
            used.add(nearest)
    return following
    ### END SOLUTION


def steps(question, threshold=0.2):
    """The contexts through which DENSE-RAG goes, until DENSE is below the threshold or nothing is left to exchange. Given.

    question : as `load("refine")` has it; what the reader said to a context that chapter 5 did not ask about is not known: ValueError
    returns  : list of (numbers, DENSE, roles or None, recorded dict of that context)
    """
    recorded = {tuple(context["numbers"]): context for context in question["contexts"]}
    numbers, seen, gone = list(question["contexts"][0]["numbers"]), set(), []
    while True:
        if tuple(numbers) not in recorded:
            raise ValueError(f"{question['id']}: the reader was never shown {numbers}; is next_context right?")
        said, seen = recorded[tuple(numbers)], seen | set(numbers)
        links = adjacency(np.array(said["entails"]))
        entropy = degree_entropy(links)
        if entropy < threshold or said["agrees_without"] is None:
            return [*gone, (numbers, entropy, None, said)]
        of_chunks = roles(links, said["agrees_without"])
        gone.append((numbers, entropy, of_chunks, said))
        if said is question["contexts"][-1]:
            return gone
        numbers = next_context(numbers, of_chunks, question["cosines"], set(seen))


def final(gone):
    """The step whose context is used: the last one if its roles were not asked for, else the first with the lowest DENSE. Given."""
    return gone[-1] if gone[-1][2] is None else min(gone, key=lambda step: round(step[1], 9))


# %% [markdown]
# ## What you measured
# Given: it calls what you have written.


# %%
def report():
    """Print Port Sennick, what thresholds let through, the corpus, ten samples beside it, and what became of uncertain questions."""
    report_salt(load("salt"))
    report_thresholds(load("sizes"))
    corpus = load("corpus")
    report_corpus(corpus)
    report_samples([question for question in corpus if question["sampled"] is not None])
    report_refinement(*load("refine"))


def as_array(questions):
    return np.asarray(entropies(questions), dtype=float) + 0.0  # no -0


def report_salt(rows):
    print("Port Sennick (the answer is 1829)")
    for row in rows:
        said = ", ".join(f"{reply} x {times}" for reply, times in Counter(row["replies"]).most_common())
        values = [as_array([each])[0] for each in (row, counted(row, "accepted"))]
        print(f"  k = {len(row['passages'])}: {said:<22}DENSE {values[0]:.3f}, of accepted other words {values[1]:.3f}")


def report_thresholds(rows):
    print(f"\n{'k':>3}{'may move: 0.2':>15}{'0.5':>5}{'questions above 0.2':>21}{'above 0.5':>11}{'right':>7}")
    for k in (3, 5, 8, 18, 19):
        allowed = f"{k:3}{moves_allowed(k):15}{moves_allowed(k, 0.5):5}"
        part = [row for row in rows if row["k"] == k]
        values = as_array(part)
        shares = (np.mean(values > 0.2), np.mean(values > 0.5), np.mean([row["right"] for row in part])) if part else ()
        print(allowed + "".join(f"{share:{width}.3f}" for share, width in zip(shares, (21, 11, 7), strict=False)))


def report_corpus(corpus):
    print(f"\n{'which other words count':<34}{'uncertain':>10}{'AUROC':>8}{'right: certain':>16}{'uncertain':>11}")
    rules = {"all": None, "that the judge accepts": "accepted", "that keep an answer there was": "kept"}
    for title, rule in rules.items():
        questions = corpus if rule is None else [counted(question, rule) for question in corpus]
        row, uncertain = measured(questions), np.sum(as_array(questions) > 0.2)
        print(f"{title:<34}{uncertain:10}{row['AUROC']:8.3f}{row['certain']:16.3f}{row['uncertain']:11.3f}")


def report_samples(questions):
    """The discrete semantic entropy of ten samples beside DENSE, in predicting whether reply 0 is right; samples differ above log 2."""
    edited, sampled = as_array(questions), np.array([question["sampled"] for question in questions])
    right = np.array([question["right"][0] for question in questions])
    print(
        f"\n{len(questions)} questions, AUROC: DENSE {auroc(edited, right):.3f}, ten samples {auroc(sampled, right):.3f}"
    )
    moves, differ = edited > 0.2, sampled > np.log(2)
    for title, part in {
        "no reply moves, samples agree": ~moves & ~differ,
        "no reply moves, samples differ": ~moves & differ,
        "a reply moves, samples agree": moves & ~differ,
        "a reply moves, samples differ": moves & differ,
    }.items():
        print(f"  {title:<34}{part.sum():4} questions, {right[part].sum():3} right")
    for title, part in {
        "both sure, and wrong, (lost) if an answer that stood in the passage is not in its other words:": ~moves
        & ~differ
        & (right == 0),
        "only DENSE unsure:": moves & ~differ,
    }.items():
        print(f"  {title}")
        for place in np.flatnonzero(part):
            question = questions[place]
            told = Counter(
                reply if use else f"{reply} (lost)"
                for reply, use in zip(question["replies"], [1, *question["kept"]], strict=True)
            )
            said = ", ".join(f"{reply} x {times}" for reply, times in told.items())
            print(f"    {question['id']} {'right' if question['right'][0] else 'wrong'}: {said}")


def report_refinement(*questions):
    print("\nFour barges, chunk by chunk")
    for numbers, entropy, of_chunks, said in steps(questions[0]):
        print(f"  {[*map(int, numbers)]}: DENSE {entropy + 0.0:.3f}, replies {', '.join(said['replies'])}")
        print(f"    {', '.join(of_chunks or ['?'])}")
    used = final(steps(questions[0]))
    print(f"  used: {[*map(int, used[0])]}, reply {used[3]['replies'][0]}")
    ways = [steps(question) for question in questions]
    agree = sum(final(way)[1] < 0.2 for way in ways)
    before, after = (
        sum(step["right"] for step in own) for own in ([w[0][3] for w in ways], [final(w)[3] for w in ways])
    )
    print(f"\n{len(ways)} uncertain questions: {agree} agree in the end, right before {before}, after {after}")
