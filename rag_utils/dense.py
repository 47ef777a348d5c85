"""DENSE, degree-based uncertainty with semantically equivalent contexts: does the reader understand its context?

Say one chunk in other words and see whether the answer stays the same. k chunks give k + 1 contexts, the original and k with one
chunk rephrased, and so n = k + 1 replies; index 0 is that under the original. Who rephrases, answers and compares is not decided here.
"""

import math
from dataclasses import dataclass

import numpy as np

from rag_utils.base import checks
from rag_utils.uncertainty import checked_affinity

DECIMALS = 6  # of a cosine; what differs between processors decides nothing
ROUNDING = 1e-9  # cosines this near to the threshold count as equal to it
STEPS = (0, 0.5, 1)  # how far two replies can agree


def merge_sentences(sentences, embeddings, *, count_tokens, threshold=0.6, max_tokens=512, strict=False):
    """Cut one document wherever two neighbouring sentences are unlike each other or the chunk would grow too long.

    sentences    : list of n strings, in the order of the document
    embeddings   : (n, d) float, one row per sentence, of any length but 0
    count_tokens : sentence -> whole number of 0 and above; called once per sentence
    threshold    : least cosine of a sentence with the one before it to join its chunk, -1 .. 1
    max_tokens   : most tokens in a chunk, the sum of its sentences' counts. A sentence that is longer by itself is a chunk by itself, uncut
    strict       : whether a cosine equal to the threshold cuts (True, Algorithm 2) or joins (False, eq. 7)
    returns      : list of chunks, each a list of sentences; all sentences in their order
    raises       : ValueError if there are no sentences, embeddings do not fit, hold NaN or a row of zeros, or for other values than said
    source       : DENSE, eq. 7 and Algorithm 2. Only neighbours are compared: a chunk may drift far from its first sentence

    >>> sentences, embeddings = ["A cat.", "A kitten.", "A tax."], [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]   # cosines 0.8, 0.6
    >>> words = lambda sentence: len(sentence.split())
    >>> merge_sentences(sentences, embeddings, count_tokens=words)                # 0.6 is enough to join
    [['A cat.', 'A kitten.', 'A tax.']]
    >>> merge_sentences(sentences, embeddings, count_tokens=words, max_tokens=4)  # the third sentence would make it six words
    [['A cat.', 'A kitten.'], ['A tax.']]
    """
    threshold, strict = checks.number("threshold", threshold, low=-1, high=1), checks.flag("strict", strict)
    checks.whole("max_tokens", max_tokens, least=1)
    sentences, units = checks.texts("sentences", sentences), checks.directions("embeddings", embeddings)
    checks.function("count_tokens", count_tokens)
    lengths = [checks.whole("count_tokens", count_tokens(sentence), least=0) for sentence in sentences]
    checks.same_length(embeddings=units, sentences=sentences)
    cosines = (units[:-1] * units[1:]).sum(axis=1)
    alike = cosines > threshold + ROUNDING if strict else cosines >= threshold - ROUNDING

    chunks, tokens = [], 0
    for sentence, length, joins in zip(sentences, lengths, [False, *alike], strict=True):
        if not joins or tokens + length > max_tokens:
            chunks, tokens = [*chunks, []], 0
        chunks[-1].append(sentence)
        tokens += length
    return chunks


def single_edit_contexts(chunks, rephrased):
    """The original context and, per chunk, the context in which that chunk alone is in other words.

    chunks    : list of k strings
    rephrased : list of k strings, chunk by chunk. One that equals its chunk makes that chunk certain without testing it
    returns   : list of k + 1 lists of k strings, index 0 the original
    raises    : ValueError if there are no chunks, lengths differ or one is not a string
    source    : DENSE, eqs. 3 and 4. The text counts k + 2 replies, Algorithm 1 only k, for a (k + 1, k + 1) matrix; here k + 1 of all

    >>> single_edit_contexts(["a", "b"], ["A", "B"])
    [['a', 'b'], ['A', 'b'], ['a', 'B']]
    """
    chunks, rephrased = checks.texts("chunks", chunks), checks.texts("rephrased", rephrased)
    checks.same_length(rephrased=rephrased, chunks=chunks)
    return [chunks, *([*chunks[:i], text, *chunks[i + 1 :]] for i, text in enumerate(rephrased))]


def contexts_without_one(chunks):
    """Per chunk, the context that lacks it; of one chunk nothing is left, which asks for a prompt without documents.

    chunks  : list of k strings
    returns : list of k lists of k - 1 strings; raises as `single_edit_contexts`
    source  : DENSE, eq. 9

    >>> contexts_without_one(["a", "b", "c"])
    [['b', 'c'], ['a', 'c'], ['a', 'b']]
    """
    chunks = checks.texts("chunks", chunks)
    return [[*chunks[:i], *chunks[i + 1 :]] for i in range(len(chunks))]


def adjacency(entails):
    """How far two replies agree: 1 if each entails the other, 0.5 if only one does, 0 if neither.

    entails : (n, n) bool, row = premise, column = hypothesis; neutral and contradiction are both False
    returns : (n, n) float, symmetric; the diagonal is 1, whether entails has True or False there
    raises  : ValueError if not square, empty or not True and False
    source  : DENSE, eq. 5. The diagonal as in eq. 16: a model may deny that a reply agrees with itself; degree 0 makes eq. 6 infinite

    >>> adjacency([[True, True, False], [False, True, True], [False, True, True]])
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 1. ],
           [0. , 1. , 1. ]])
    """
    entails = checks.square("entails", checks.flags("entails", entails, dimensions=2))
    agreement = (entails + entails.T) / 2
    np.fill_diagonal(agreement, 1.0)
    return agreement


def degree_entropy(adjacency):
    """Mean surprise of a reply's agreement with all, itself included: 0 if all agree, log n if none do.

    adjacency : (n, n) symmetric, in [0, 1], ones on the diagonal
    returns   : float, nats, 0 .. log n. The most it can be grows with n, so one threshold means another thing at another k
    raises    : ValueError if not square, not symmetric, outside [0, 1] or without ones on the diagonal
    source    : DENSE, eq. 6, with degree D_i = sum of row i. If agreement is all or nothing and transitive, it is the discrete semantic
                entropy; by Jensen it is at least -log(1 - U_deg), with equality if all degrees are the same

    >>> round(degree_entropy(np.kron(np.eye(2), np.ones((2, 2)))), 4)
    0.6931
    """
    degree = checked_affinity(adjacency, name="adjacency").sum(axis=1)
    n = len(degree)
    # fsum: the order of the replies does not change the last digit
    return min(math.log(n), max(0.0, math.fsum(np.log(n / degree)) / n))


def chunk_roles(adjacency, agrees_without, *, half="necessary"):
    """What each chunk does to the reply: "certain", or uncertain and then "necessary" or "unnecessary".

    A chunk is certain if the reply stays the same when it is rephrased. Otherwise it is necessary if the reply changes when it is left
    out, else unnecessary.

    adjacency      : (n, n), as `adjacency` returns it; n - 1 chunks
    agrees_without : (n - 1,) 0, 0.5 or 1: how far reply 0 agrees with the reply when chunk i is left out; those of certain chunks are
                     not looked at and may be NaN
    half           : what 0.5 makes of an uncertain chunk, "necessary" or "unnecessary"
    returns        : list of n - 1 str
    raises         : ValueError as `degree_entropy`; if there is no chunk, lengths differ, an agreement is none of these, or unknown names
    source         : DENSE, eqs. 8 to 10. By eq. 10 (necessary has agreement 0) 0.5 is unnecessary, by Algorithm 3, lines 25 to 28
                     (unnecessary has agreement 1) it is necessary

    >>> links = adjacency([[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0], [0, 1, 0, 1]])   # reply 3 agrees with reply 0 one way
    >>> chunk_roles(links, [np.nan, 1.0, 0.5])
    ['certain', 'unnecessary', 'necessary']
    >>> chunk_roles(links, [np.nan, 1.0, 0.5], half="unnecessary")
    ['certain', 'unnecessary', 'unnecessary']
    """
    checks.one_of("half", half, ("necessary", "unnecessary"))
    links = checked_affinity(adjacency, name="adjacency")[0, 1:]
    if not links.size:
        raise ValueError("adjacency must cover at least one chunk, so two replies; got one reply")
    without = checks.numbers("agrees_without", agrees_without, finite=False)
    checks.same_length(agrees_without=without, chunks=links)
    checks.members("adjacency, first row,", links, STEPS)
    certain = links == 1
    checks.members("agrees_without, where the chunk is uncertain,", without[~certain], STEPS)
    changes = without < 1 if half == "necessary" else without == 0
    return np.where(certain, "certain", np.where(changes, "necessary", "unnecessary")).tolist()


@dataclass(frozen=True)
class Round:
    """One context that was tried. `roles` is empty where the loop stopped before it asked for them."""

    context: tuple[int, ...]
    entropy: float
    sufficient: bool | None
    roles: tuple[str, ...]


@dataclass(frozen=True)
class Refinement:
    """All contexts that were tried, which of them to use, and why the loop ended."""

    rounds: tuple[Round, ...]
    best: int
    ended: str  # "stopped": the last context met the condition; "unchanged": nothing to remove or add; "empty": all removed, none added

    @property
    def context(self) -> tuple[int, ...]:
        """The chunks to answer from."""
        return self.rounds[self.best].context


@dataclass(frozen=True)
class Rules:
    """How a refinement goes, where the paper says one thing here and another there.

    half      : what 0.5 makes of an uncertain chunk, as in `chunk_roles`
    stop_when : stop if the entropy is below the threshold "or" the context is sufficient; "and" (Algorithm 3, line 13): only if both
    threshold : nats, 0 and above
    strict    : whether an entropy equal to the threshold is too high (True) or low enough (False, section 5)
    refill    : the role of the chunks whose nearest neighbour is added, "necessary" or "certain"; "none": only remove (both Table 5)
    fallback  : the context used where none met the condition, the first of equal ones: the "lowest" entropy; "guarded" (lines 8 to 12):
                the same, but after a sufficient context only a sufficient one replaces it: with "or" the loop stops at such a one
    limit     : most chunks in a context, as many as the first has and above (appendix J: five); None (line 39): no limit
    source    : DENSE, section 5.2 unless another place is named
    """

    half: str = "necessary"
    stop_when: str = "or"
    threshold: float = 0.2
    strict: bool = True
    refill: str = "necessary"
    fallback: str = "lowest"
    limit: int | None = None

    def __post_init__(self):
        checks.one_of("half", self.half, ("necessary", "unnecessary"))
        checks.one_of("stop_when", self.stop_when, ("or", "and"))
        checks.one_of("refill", self.refill, ("necessary", "certain", "none"))
        checks.one_of("fallback", self.fallback, ("lowest", "guarded"))
        checks.number("threshold", self.threshold, low=0)
        checks.flag("strict", self.strict)
        if self.limit is not None:
            checks.whole("limit", self.limit, least=1)

    def met(self, entropy, sufficient):
        """Whether the loop stops at a context with this entropy; sufficient is None where nobody was asked."""
        certain = entropy < self.threshold if self.strict else entropy <= self.threshold
        if sufficient is None:
            return certain
        return certain and sufficient if self.stop_when == "and" else certain or sufficient


def refine(initial, embeddings, *, agree, agree_without, is_sufficient=None, **rules):
    """Remove unnecessary chunks and add neighbours of the necessary ones until the replies agree or the reader finds it enough.

    Chunks are numbered as the rows of embeddings; a context is a list of such numbers. No chunk enters twice, so there are at most
    2 m - k + 1 rounds, whatever the three functions answer.

    initial       : the k numbers of the first context, best first
    embeddings    : (m, d), all chunks that may be used; of equally close ones the first is taken
    agree         : context -> (n, n) adjacency of its replies, n = chunks + 1, as `adjacency` returns it
    agree_without : (context, places of its uncertain chunks) -> per place the agreement of reply 0 with the reply without that chunk
    is_sufficient : context -> True if the reader finds it enough to answer; None: nobody asks, and the entropy alone decides
    rules         : as in `Rules`
    returns       : Refinement
    raises        : ValueError for other values than said, also of the functions; TypeError for a rule that `Rules` does not have
    source        : DENSE, section 5.2 and Algorithm 3. Deviations: line 15 empties the visited set, after which the chunk nearest to a
                    necessary one is that chunk itself, so that nothing is ever added and the loop need not end; here it is never emptied.
                    Line 4 ends the loop before the last context was tried, and never if nothing changes; line 13 looks at the best
                    context so far, here the one just tried stops the loop and is used

    >>> def agree(context):           # rephrasing chunk 1 changes the reply
    ...     links = np.ones((len(context) + 1, len(context) + 1))
    ...     if 1 in context:
    ...         place = context.index(1) + 1
    ...         links[place] = links[:, place] = np.arange(len(links)) == place
    ...     return links
    >>> refined = refine([0, 1], np.eye(3), agree=agree, agree_without=lambda context, places: [1.0] * len(places))
    >>> refined.context, refined.ended, refined.rounds[0].roles
    ((0,), 'stopped', ('certain', 'unnecessary'))
    """
    asks = {"agree": agree, "agree_without": agree_without, "is_sufficient": is_sufficient}
    for name, function in asks.items():
        if function is not None or name != "is_sufficient":
            checks.function(name, function)
    steps, answer = refining(initial, embeddings, evaluated=is_sufficient is not None, **rules), None
    while True:
        try:
            function, *about = steps.send(answer)
        except StopIteration as end:
            return end.value
        answer = asks[function](*about)


def refining(initial, embeddings, *, evaluated=True, **rules):
    """`refine` as a generator, so that many questions can advance together: what it asks is yielded, and the answer is sent to it.

    evaluated : whether anybody is asked if a context is enough
    yields    : (name of a function of `refine`, its arguments ...)
    returns   : Refinement
    raises    : as `refine`, at the first next() and not at the call

    >>> steps = refining([0, 1], np.eye(3), evaluated=False)
    >>> next(steps), steps.send(np.eye(3))
    (('agree', [0, 1]), ('agree_without', [0, 1], [0, 1]))
    """
    rules, units = Rules(**rules), checks.directions("embeddings", embeddings)
    context = tuple(checks.distinct("initial", checks.listed("initial", initial)))
    context = tuple(checks.whole("initial", number, least=0, most=len(units) - 1) for number in context)
    if rules.limit is not None:
        checks.whole("limit", rules.limit, least=len(context))
    rounds, visited = [], set(context)
    while True:
        links = checked_affinity((yield "agree", list(context)), name="adjacency")
        if len(links) != len(context) + 1:
            raise ValueError(f"agree must return one row per reply, {len(context) + 1}; got shape {links.shape}")
        entropy, sufficient = degree_entropy(links), None
        if evaluated:
            sufficient = checks.flag("what is_sufficient returns", (yield "is_sufficient", list(context)))
        if rules.met(entropy, sufficient):
            rounds.append(Round(context, entropy, sufficient, ()))
            return Refinement(tuple(rounds), len(rounds) - 1, "stopped")
        roles = yield from _roles(context, links, rules.half)
        rounds.append(Round(context, entropy, sufficient, roles))
        following = _next_context(context, roles, units, visited, rules)
        if not following or following == context:
            return Refinement(tuple(rounds), _best(rounds, rules.fallback), "unchanged" if following else "empty")
        context, visited = following, visited | set(following)


def _roles(context, links, half):
    """Roles of the chunks of a context; only the uncertain ones are tried without. A part of `refining`."""
    uncertain = np.flatnonzero(links[0, 1:] != 1).tolist()
    agreements = np.full(len(context), np.nan)
    if uncertain:
        without = checks.numbers("what agree_without returns", (yield "agree_without", list(context), uncertain.copy()))
        checks.same_length(numbers=without, uncertain_chunks=uncertain)
        agreements[uncertain] = without
    return tuple(chunk_roles(links, agreements, half=half))


def _next_context(context, roles, units, visited, rules):
    """DENSE, Algorithm 3, lines 29 to 39: the context without unnecessary chunks and with neighbours of those to be refilled."""
    role_of = dict(zip(context, roles, strict=True))
    kept = [chunk for chunk in context if role_of[chunk] != "unnecessary"]
    for chunk in [chunk for chunk in context if role_of[chunk] == rules.refill]:
        unseen = [other for other in range(len(units)) if other not in visited and other not in kept]
        if not unseen or len(kept) == rules.limit:
            break
        cosines = np.round(units[unseen] @ units[chunk], DECIMALS)
        kept.append(unseen[int(cosines.argmax())])
    return tuple(kept)


def _best(rounds, fallback):
    """Index of the round to fall back to: DENSE, section 5.2, or Algorithm 3, lines 8 to 12."""
    best = 0
    for place, tried in enumerate(rounds):
        held_back = fallback == "guarded" and rounds[best].sufficient and not tried.sufficient
        if tried.entropy < rounds[best].entropy and not held_back:
            best = place
    return best
