"""DENSE: does the reader understand its context? Say one chunk in other words and see whether the answer stays the same.

k chunks give k + 1 contexts, the original and k with one chunk rephrased, and so n = k + 1 replies; index 0 is the reply under the
original context. `degree_entropy` says how little the replies agree, `chunk_roles` which chunks that comes from, `refine` exchanges
chunks until the replies agree. The cutting into chunks is in `chunking`. Who rephrases, answers and compares is not decided here.
"""

import math
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from rag_utils.base.names import check_name
from rag_utils.corpora.chunking import merge_sentences as merge_sentences  # part of the method, to be found here too
from rag_utils.corpora.chunking import unit_rows
from rag_utils.uncertainty import checked_affinity

DECIMALS = 6  # of a cosine; what differs between processors decides nothing


# --- contexts --------------------------------------------------------------------------------------


def single_edit_contexts(chunks, rephrased):
    """The original context and, per chunk, the context in which that chunk alone is in other words.

    chunks    : list of k strings
    rephrased : list of k strings, chunk by chunk. One that equals its chunk makes that chunk certain without testing it
    returns   : list of k + 1 lists of k strings, index 0 the original
    raises    : ValueError if there are no chunks, lengths differ or one is not a string
    source    : DENSE, eqs. 3 and 4. The text counts k + 1 contexts but k + 2 replies, Algorithm 1 collects only k, without the original
                one, for a (k + 1, k + 1) matrix; here k + 1 of everything

    >>> single_edit_contexts(["a", "b"], ["A", "B"])
    [['a', 'b'], ['A', 'b'], ['a', 'B']]
    """
    _check_texts("chunks", chunks)
    _check_texts("rephrased", rephrased)
    if len(chunks) != len(rephrased):
        raise ValueError(f"rephrased must have one text per chunk; got {len(rephrased)} for {len(chunks)} chunks")
    edited = [[*chunks[:i], text, *chunks[i + 1 :]] for i, text in enumerate(rephrased)]
    return [list(chunks), *edited]


def contexts_without_one(chunks):
    """Per chunk, the context that lacks it; of one chunk nothing is left, which asks for a prompt without documents.

    chunks  : list of k strings
    returns : list of k lists of k - 1 strings
    raises  : ValueError if there are no chunks or one is not a string
    source  : DENSE, eq. 9

    >>> contexts_without_one(["a", "b", "c"])
    [['b', 'c'], ['a', 'c'], ['a', 'b']]
    """
    _check_texts("chunks", chunks)
    return [[*chunks[:i], *chunks[i + 1 :]] for i in range(len(chunks))]


# --- agreement -------------------------------------------------------------------------------------


def adjacency(entails):
    """How far two replies agree: 1 if each entails the other, 0.5 if only one does, 0 if neither.

    entails : (n, n) bool, row = premise, column = hypothesis; neutral and contradiction are both False
    returns : (n, n) float, symmetric; the diagonal is 1 whatever entails says there
    raises  : ValueError if not square, empty or not True and False
    source  : DENSE, eq. 5. The diagonal: a model asked about a reply and itself may say no, and a reply that agrees with none, not even
              itself, would have degree 0 and make eq. 6 infinite; eq. 16 counts it as 1

    >>> adjacency([[True, True, False], [False, True, True], [False, True, True]])
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 1. ],
           [0. , 1. , 1. ]])
    """
    entails = _square("entails", entails)
    if not np.isin(entails, (0, 1)).all():
        raise ValueError(f"entails must be True and False; got {entails[~np.isin(entails, (0, 1))][0]}")
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
    raises         : ValueError as `degree_entropy`; if there is no chunk, lengths differ, an agreement with reply 0 or an entry of an
                     uncertain chunk is not 0, 0.5 or 1, or the name is unknown
    source         : DENSE, eqs. 8 to 10. Eq. 10 calls necessary what has agreement 0, so 0.5 is unnecessary; Algorithm 3, lines 25 to 28,
                     calls unnecessary what has agreement 1, so 0.5 is necessary

    >>> links = adjacency([[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0], [0, 1, 0, 1]])   # reply 3 agrees with reply 0 one way
    >>> chunk_roles(links, [np.nan, 1.0, 0.5])
    ['certain', 'unnecessary', 'necessary']
    >>> chunk_roles(links, [np.nan, 1.0, 0.5], half="unnecessary")
    ['certain', 'unnecessary', 'unnecessary']
    """
    check_name("half", half, ("necessary", "unnecessary"))
    links = checked_affinity(adjacency, name="adjacency")[0, 1:]
    if not links.size:
        raise ValueError("adjacency must cover at least one chunk, so two replies; got one reply")
    without = np.asarray(agrees_without)
    if without.shape != links.shape or without.dtype.kind not in "biuf":
        raise ValueError(
            f"agrees_without must be one number per chunk, {len(links)} of them; got shape {without.shape} of {without.dtype}"
        )
    _check_steps("adjacency, first row,", links)
    certain = links == 1
    _check_steps("agrees_without, where the chunk is uncertain,", without[~certain])
    changes = without < 1 if half == "necessary" else without == 0
    return np.where(certain, "certain", np.where(changes, "necessary", "unnecessary")).tolist()


# --- refinement ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """One context that was tried. `roles` is empty where the loop stopped before it asked for them."""

    context: tuple[int, ...]
    entropy: float
    sufficient: bool | None
    roles: tuple[str, ...]


@dataclass(frozen=True)
class Refinement:
    """All contexts that were tried, which of them to use, and why the loop ended.

    ended : "stopped" (the last context met the condition), "unchanged" (nothing left to remove or to add), "empty" (every chunk was
            removed and none added)
    """

    rounds: tuple[Round, ...]
    best: int
    ended: str

    @property
    def context(self) -> tuple[int, ...]:
        """The chunks to answer from."""
        return self.rounds[self.best].context


def refine(
    initial,
    embeddings,
    *,
    agree,
    agree_without,
    is_sufficient=None,
    half="necessary",
    stop_when="or",
    threshold=0.2,
    strict=True,
    refill="necessary",
    fallback="lowest",
    limit=None,
):
    """Remove unnecessary chunks and add neighbours of the necessary ones until the replies agree or the reader finds it enough.

    Chunks are numbered as the rows of embeddings; a context is a list of such numbers. No chunk enters twice, so there are at most
    2 m - k + 1 rounds, whatever the three functions answer.

    initial       : the k numbers of the first context, best first
    embeddings    : (m, d), all chunks that may be used; of equally close ones the first is taken
    agree         : context -> (n, n) adjacency of its replies, n = chunks + 1, as `adjacency` returns it
    agree_without : (context, places of its uncertain chunks) -> per place the agreement of reply 0 with the reply without that chunk
    is_sufficient : context -> True if the reader finds it enough to answer; None: nobody asks, and the entropy alone decides
    half          : as in `chunk_roles`
    stop_when     : stop if the entropy is below the threshold "or" the context is sufficient, or only if both ("and")
    threshold     : nats, 0 and above
    strict        : whether an entropy equal to the threshold is too high (True) or low enough (False)
    refill        : the role of the chunks whose nearest neighbour is added, "necessary" or "certain"; "none": only remove
    fallback      : the context used where none met the condition: the "lowest" entropy, or "guarded": also the lowest, but after a
                    sufficient context only a sufficient one replaces it. The first of equal ones
    limit         : most chunks in a context, k and above; None: no limit
    returns       : Refinement
    raises        : ValueError for such values that are not as said, a name that is unknown, or a function that returns something else
    source        : DENSE, section 5.2 and Algorithm 3. stop_when: 5.2 says "or", line 13 "and". strict: 5.2 and line 13 say below, but
                    section 5 counts a question as certain at the threshold. fallback: 5.2 says lowest, lines 8 to 12 are guarded. limit:
                    line 39 adds without end, appendix J compares at five. Table 5: refill "none" and "certain", is_sufficient None.
                    Deviations: line 15 empties the visited set, after which the chunk nearest to a necessary one is that chunk itself,
                    so that nothing is ever added and the loop need not end; here it is never emptied. Line 4 ends the loop before the
                    last context was tried, and never if nothing changes; line 13 looks at the best context so far, here the one just
                    tried stops the loop and is used

    >>> def agree(context):           # rephrasing chunk 1 changes the reply
    ...     links = np.ones((len(context) + 1, len(context) + 1))
    ...     if 1 in context:
    ...         place = context.index(1) + 1
    ...         links[place] = links[:, place] = np.arange(len(links)) == place
    ...     return links
    >>> found = refine([0, 1], np.eye(3), agree=agree, agree_without=lambda context, places: [1.0] * len(places))
    >>> found.context, found.ended, found.rounds[0].roles
    ((0,), 'stopped', ('certain', 'unnecessary'))
    """
    check_name("half", half, ("necessary", "unnecessary"))
    check_name("stop_when", stop_when, ("or", "and"))
    check_name("refill", refill, ("necessary", "certain", "none"))
    check_name("fallback", fallback, ("lowest", "guarded"))
    if not isinstance(threshold, Real) or not math.isfinite(threshold) or threshold < 0:
        raise ValueError(f"threshold must be a finite number of nats, 0 and above; got {threshold!r}")
    if not isinstance(strict, bool):
        raise ValueError(f"strict must be True or False; got {strict!r}")
    units = unit_rows(embeddings)
    context = _context(initial, len(units))
    if limit is not None and (not _is_whole(limit) or limit < len(context)):
        raise ValueError(
            f"limit must be None or a whole number of at least {len(context)}, the first chunks; got {limit!r}"
        )

    rounds, visited = [], set(context)
    while True:
        links = agree(list(context))
        entropy = degree_entropy(links)
        if np.shape(links) != (len(context) + 1, len(context) + 1):
            raise ValueError(f"agree must return one row per reply, {len(context) + 1}; got shape {np.shape(links)}")
        certain = entropy < threshold if strict else entropy <= threshold
        sufficient = None if is_sufficient is None else _answer(is_sufficient(list(context)))
        conditions = [certain] if sufficient is None else [certain, sufficient]
        met = all(conditions) if stop_when == "and" else any(conditions)
        if met:
            rounds.append(Round(context, entropy, sufficient, ()))
            return Refinement(tuple(rounds), len(rounds) - 1, "stopped")
        roles = _roles(context, links, agree_without, half)
        rounds.append(Round(context, entropy, sufficient, roles))
        following = _next_context(context, roles, units, visited, refill, limit)
        if not following or following == context:
            return Refinement(tuple(rounds), _best(rounds, fallback), "unchanged" if following else "empty")
        context, visited = following, visited | set(following)


def _roles(context, links, agree_without, half):
    """Roles of the chunks of a context; only the uncertain ones are tried without."""
    uncertain = [place for place in range(len(context)) if links[0][place + 1] != 1]
    agreements = np.full(len(context), np.nan)
    if uncertain:
        found = np.asarray(agree_without(list(context), list(uncertain)))
        if found.shape != (len(uncertain),) or found.dtype.kind not in "biuf":
            raise ValueError(
                f"agree_without must return {len(uncertain)} numbers, one per place; got shape {found.shape}"
            )
        agreements[uncertain] = found
    return tuple(chunk_roles(links, agreements, half=half))


def _next_context(context, roles, units, visited, refill, limit):
    """DENSE, Algorithm 3, lines 29 to 39: the context without unnecessary chunks and with neighbours of those to be refilled."""
    kept = [chunk for chunk, role in zip(context, roles, strict=True) if role != "unnecessary"]
    for chunk in [chunk for chunk, role in zip(context, roles, strict=True) if role == refill]:
        unseen = [other for other in range(len(units)) if other not in visited and other not in kept]
        if not unseen or len(kept) == limit:
            break
        cosines = np.round(units[unseen] @ units[chunk], DECIMALS)
        kept.append(unseen[int(cosines.argmax())])
    return tuple(kept)


def _best(rounds, fallback):
    """Index of the round to fall back to: DENSE, section 5.2, or Algorithm 3, lines 8 to 12."""
    best = 0
    for number, tried in enumerate(rounds):
        held_back = fallback == "guarded" and rounds[best].sufficient and not tried.sufficient
        if tried.entropy < rounds[best].entropy and not held_back:
            best = number
    return best


# --- checks ----------------------------------------------------------------------------------------


def _square(name, matrix):
    """A filled (n, n) float matrix."""
    try:
        matrix = np.asarray(matrix)
    except ValueError as error:
        raise ValueError(f"{name} must be rows of equal length; got a ragged list") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or matrix.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an (n, n) matrix of numbers; got shape {matrix.shape} of {matrix.dtype}")
    return matrix.astype(float)


def _check_steps(name, values):
    if not (known := np.isin(values, (0, 0.5, 1))).all():
        raise ValueError(f"{name} must be 0, 0.5 or 1; got {values[~known][0]}")


def _check_texts(name, texts):
    if not isinstance(texts, list | tuple) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{name} must be a list of at least one string; got {texts!r:.40}")


def _is_whole(number):
    return isinstance(number, Integral) and not isinstance(number, bool)


def _context(initial, chunks):
    """The first context as a tuple of different chunk numbers."""
    if not isinstance(initial, list | tuple) or not initial or not all(map(_is_whole, initial)):
        raise ValueError(f"initial must be a list of at least one whole number; got {initial!r:.40}")
    if min(initial) < 0 or max(initial) >= chunks or len(set(initial)) < len(initial):
        raise ValueError(f"initial must hold different numbers from 0 to {chunks - 1}; got {initial!r:.40}")
    return tuple(map(int, initial))


def _answer(sufficient):
    if not isinstance(sufficient, bool | np.bool_):
        raise ValueError(f"is_sufficient must return True or False; got {sufficient!r}")
    return bool(sufficient)
