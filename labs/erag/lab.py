"""Whose labels? eRAG, built by hand: a passage is worth what the reader makes of it alone.

Labels are 0 or 1 and stand in the order of the ranked list, best first. Ranks are counted from 1.
"""

import json
import re
import string
from pathlib import Path

import numpy as np

BM25, DENSE = "BM25", "dense"
PUNCTUATION, ARTICLES = str.maketrans("", "", string.punctuation), re.compile(r"\b(a|an|the)\b")


def load(name):
    """The questions of data/NAME.json, "salt" or "corpus"; the handout says what is in them."""
    path = Path("data") / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["questions"]


def normalize(text):
    """The text in lower case, without punctuation and the words a, an, the, single spaces between words. Given.

    >>> normalize("  The Beatles' 1st   album! ")
    'beatles 1st album'
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def recorded(question):
    """The reader of one question: a function from a list of passages, shown in this order, to its reply. Given.

    It knows each passage of the question's lists alone, and the first 2, 3, ... of each list.
    """

    def ask(documents):
        if isinstance(documents, str):
            raise ValueError(f"ask takes a list of passages, and got the text {documents!r}")
        if " ".join(documents) not in question["replies"]:
            raise ValueError(f"nothing is recorded for {list(documents)}: show one passage or the first of a list")
        return question["replies"][" ".join(documents)]

    return ask


# %% [markdown]
# ## Step 1. Is a reply right?
# Exact match: the reply is one of the accepted answers, whatever the case, the punctuation and the articles.


# %%
def label(reply, answers):
    """1.0 if the reply equals one of the answers, both normalized, else 0.0.

    reply   : str
    answers : list of str, any of which is right
    returns : float, 0.0 or 1.0
    source  : eq. 1, with exact match as the score
    """
    ### BEGIN SOLUTION
    return float(normalize(reply) in [normalize(answer) for answer in answers])
    ### END SOLUTION


# %% [markdown]
# ## Step 2. The label of a passage
# Show the reader that one passage, and nothing else.


# %%
def annotate(ask, documents, answers):
    """The label of each document: that of the reader's reply when it is shown this document alone.

    ask       : function, list of documents -> reply. Calls are dear: a document that stands twice in `documents` is asked about once
    documents : list of str, best first
    answers   : list of str
    returns   : list of float, one per document, in their order
    source    : eq. 1
    """
    ### BEGIN SOLUTION
    labels = {document: label(ask([document]), answers) for document in dict.fromkeys(documents)}
    return [labels[document] for document in documents]
    ### END SOLUTION


# %% [markdown]
# ## Step 3. How many of the first k, and where is the first one?


# %%
def precision(labels, k):
    """P@k: how many of the first k labels are 1, over k. A list that is shorter than k goes on with labels of 0.

    labels  : (n,) array, 0 or 1
    k       : int, 1 or more
    returns : float, 0 .. 1
    source  : P of section 2
    """
    ### BEGIN SOLUTION
    return float(np.sum(labels[:k]) / k)
    ### END SOLUTION


# %%
def reciprocal_rank(labels):
    """RR: 1 over the rank of the first label of 1; 0.0 if there is none.

    labels  : (n,) array, 0 or 1
    returns : float, 0 .. 1
    source  : MRR of section 2, for one list
    """
    ### BEGIN SOLUTION
    ranks = np.flatnonzero(labels) + 1
    return float(1 / ranks[0]) if len(ranks) else 0.0
    ### END SOLUTION


# %% [markdown]
# ## Step 4. Where are they all?


# %%
def average_precision(labels):
    """AP: the precision at the rank of each label of 1, averaged over these labels; 0.0 if there is none.

    labels  : (n,) array, 0 or 1
    returns : float, 0 .. 1
    source  : MAP of section 2, for one list
    """
    ### BEGIN SOLUTION
    ranks = np.flatnonzero(labels) + 1
    return float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else 0.0
    ### END SOLUTION


# %% [markdown]
# ## Step 5. Early is better


# %%
def ndcg(labels):
    """nDCG: the sum of label / log2(rank + 1), over the same sum if all labels of 1 came first; 0.0 if there is none.

    labels  : (n,) array, 0 or 1; it is as before afterwards
    returns : float, 0 .. 1
    source  : NDCG of section 2
    """
    ### BEGIN SOLUTION
    if not np.any(labels):
        return 0.0
    discounts = 1 / np.log2(np.arange(len(labels)) + 2)
    return float(np.dot(labels, discounts) / np.dot(sorted(labels, reverse=True), discounts))
    ### END SOLUTION


# %%
METRICS = ("P", "RR", "AP", "nDCG", "Success")


def measure(labels, k):
    """Each of METRICS of the first k labels: name -> value. Success is 1.0 if any of them is 1, else 0.0. Given.

    Rounded to nine decimals: what is equal on paper is equal here, in whatever order it was summed, and a tie for `kendall`.
    """
    first = np.array(labels[:k], dtype=float)
    values = precision(first, k), reciprocal_rank(first), average_precision(first), ndcg(first), float(first.max())
    return {name: round(float(value), 9) for name, value in zip(METRICS, values, strict=True)}


# %% [markdown]
# ## Step 6. Do two numbers order questions alike?
# Take two questions at a time.


# %%
def kendall(x, y):
    """Kendall's tau-b: (C - D) over the root of (C + D + Tx) (C + D + Ty).

    Of all pairs of questions C are ordered alike by x and y, D oppositely; Tx are tied in x only, Ty in y only.

    x, y    : (n,) numbers, neither the same everywhere
    returns : float, -1 .. 1
    source  : tau of Table 1, as tau-b
    """
    ### BEGIN SOLUTION
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    signs_x, signs_y = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    return float(np.sum(signs_x * signs_y) / np.sqrt(np.sum(signs_x != 0) * np.sum(signs_y != 0)))
    ### END SOLUTION


# %% [markdown]
# ## Step 7. The ceiling
# Whoever is given which value: ties stay ties.


# %%
def ceiling(x, y):
    """The largest tau-b that these values allow, whichever x is paired with whichever y.

    x, y    : (n,) numbers, neither the same everywhere; they are as before afterwards
    returns : float, 0 .. 1
    source  : tau of Table 1, as tau-b, of the best pairing
    """
    ### BEGIN SOLUTION
    return kendall(sorted(x), sorted(y))
    ### END SOLUTION


# %% [markdown]
# ## Step 8. Measured
# `load("corpus")`: 240 questions with two lists of ten passages each. Three ways to label, given; yours is the first.


# %%
def by_reader(question, documents):
    """eRAG's labels."""
    return annotate(recorded(question), documents, question["answers"])


def by_string(question, documents):
    """1.0 where an answer's string stands in the passage."""
    return [float(document in question["holds"]) for document in documents]


def by_people(question, documents):
    """1.0 where those who wrote the corpus marked the passage as needed."""
    return [float(document in question["needed"]) for document in documents]


# %%
def taus(questions, retriever, k, labels_of=by_reader):
    """Kendall's tau, over questions, between each metric of the first k labels and whether the reader is right with the first k passages.

    questions : list of dicts, as `load` returns them
    retriever : BM25 or DENSE, a key of question["lists"]
    k         : int, 1 .. 10
    labels_of : function of a question and a list of documents, returns their labels
    returns   : dict, each of METRICS -> tau
    source    : Table 1
    """
    ### BEGIN SOLUTION
    right, values = [], []
    for question in questions:
        documents = question["lists"][retriever][:k]
        right.append(label(recorded(question)(documents), question["answers"]))
        values.append(measure(labels_of(question, documents), k))
    return {name: kendall([value[name] for value in values], right) for name in METRICS}
    ### END SOLUTION


# %% [markdown]
# ## Step 9. Somebody else's labels
# A control: each question is given the labels of another one that looks like it. What of tau is left?


# %%
def among_equals(groups, rng):
    """For each question the place of the one whose labels it is given: within each group, a random order of its members.

    Every place is given away once. A question may be given its own labels, as in any random order.

    groups  : list of n keys, such as numbers, texts or tuples; questions with equal keys are a group
    rng     : np.random.Generator, where all chance comes from
    returns : (n,) int array, places 0 .. n - 1
    source  : the control of the book, shuffled among equals
    """
    ### BEGIN SOLUTION
    members, chosen = {}, np.empty(len(groups), dtype=int)
    for place, group in enumerate(groups):
        members.setdefault(group, []).append(place)
    for places in members.values():
        chosen[places] = rng.permutation(places)
    return chosen
    ### END SOLUTION


# %%
def anybody(question):
    """One group of all questions."""
    return "all"


def as_hard(question):
    """How many needed passages BM25's list holds, and whether the reader knows the answer by heart."""
    return sum(by_people(question, question["lists"][BM25])), question["by_heart"]


def as_many_labels(question):
    """How many labels of 1 BM25's list has."""
    return sum(by_reader(question, question["lists"][BM25]))


def as_right(question):
    """Whether the reader is right with BM25's ten passages."""
    return label(recorded(question)(question["lists"][BM25]), question["answers"])


def control(questions, same, draws=20, seed=0):
    """`taus` of BM25's ten passages with the labels of others, the mean over the draws. Given.

    same : function of a question, such as `as_hard` or your own; labels go from one to another for which it says the same
    """
    labels = [by_reader(question, question["lists"][BM25]) for question in questions]
    groups, rng, drawn = [same(question) for question in questions], np.random.default_rng(seed), []
    for _ in range(draws):
        chosen = among_equals(groups, rng)
        lent = {question["id"]: labels[place] for question, place in zip(questions, chosen, strict=True)}
        drawn.append(taus(questions, BM25, 10, lambda question, documents, lent=lent: lent[question["id"]]))
    return {name: float(np.mean([values[name] for values in drawn])) for name in METRICS}


# %% [markdown]
# ## What you measured
# Given: it calls what you have written.


# %%
def report():
    """Print Port Sennick, tau and its ceiling, the controls, two lists for one question, and where the labels of 1 lie."""
    [salt], corpus = load("salt"), load("corpus")
    article, ask = salt["lists"]["article"], recorded(salt)
    print("passage   alone         label  with all above it")
    for rank, (document, value) in enumerate(zip(article, by_reader(salt, article), strict=True), 1):
        print(f"{document:<10}{ask([document]):<14}{value:<7.0f}{ask(article[:rank])}")
    head("Port Sennick")
    row("all six passages", measure(by_reader(salt, article), len(article)))
    head("tau with the reader, BM25")
    for k, who in ((1, by_reader), (2, by_reader), (5, by_reader), (10, by_reader), (10, by_string), (10, by_people)):
        row(f"{who.__name__}, k = {k}", taus(corpus, BM25, k, who))
    values = [measure(by_reader(question, question["lists"][BM25]), 10) for question in corpus]
    right = [as_right(question) for question in corpus]
    row("by_reader, k = 10, at most", {name: ceiling([value[name] for value in values], right) for name in METRICS})
    head("by_reader, k = 10, others' labels")
    for same in (anybody, as_hard, as_many_labels, as_right):
        row(same.__name__, control(corpus, same))
    print("\none question, two lists of ten: dense minus BM25")
    for metric in ("P", "nDCG"):
        reader, labels = np.transpose([gap(question, metric) for question in corpus])
        agrees = np.sign(reader * labels)[reader != 0]
        counts = f"{np.sum(agrees > 0)} with the reader, {np.sum(agrees < 0)} against, {np.sum(agrees == 0)} tied"
        print(f"the reader {np.mean(reader):+.3f}, {metric} of its labels {np.mean(labels):+.3f}: {counts}")
    print("\nshare of labels of 1")
    for name, values in sorted(where(corpus).items()):
        print(f"{name:<30}{np.mean(values):.2f}  ({sum(values):.0f} of {len(values)})")


def head(title):
    print(f"\n{title:<34}" + "".join(f"{name:>9}" for name in METRICS))


def row(title, values):
    print(f"{title:<34}" + "".join(f"{values[name]:9.2f}" for name in METRICS))


def gap(question, metric):
    """The dense list minus that of BM25: by the reader with all ten passages, and by a metric of its labels. Given."""
    right, value = {}, {}
    for retriever in (BM25, DENSE):
        documents = question["lists"][retriever]
        right[retriever] = label(recorded(question)(documents), question["answers"])
        value[retriever] = measure(by_reader(question, documents), 10)[metric]
    return float(right[DENSE]) - float(right[BM25]), value[DENSE] - value[BM25]


def where(questions):
    """The labels of each kind of question and of passage, each passage of a question once. Given."""
    kinds = {}
    for question in questions:
        documents = list(dict.fromkeys(question["lists"][BM25] + question["lists"][DENSE]))
        for document, value in zip(documents, by_reader(question, documents), strict=True):
            answer = "answer, not needed" if document in question["holds"] else "neither"
            holds = "needed" if document in question["needed"] else answer
            kinds.setdefault(f"{question['kind']}, {holds}", []).append(value)
    return kinds
