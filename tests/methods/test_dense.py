"""DENSE: contexts, agreement, roles, refinement; cases by hand, properties, reference numbers, wrong formulas that must fail."""

import math
from dataclasses import FrozenInstanceError
from itertools import pairwise

import conformance
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from looped import each
from scipy import linalg

from rag_utils.base import checks
from rag_utils.dense import (
    adjacency,
    chunk_roles,
    contexts_without_one,
    degree_entropy,
    merge_sentences,
    refine,
    single_edit_contexts,
)
from rag_utils.uncertainty import degree_uncertainty, discrete_semantic_entropy

repeatable = settings(deadline=None, derandomize=True, max_examples=60)
WITHOUT_DIAGONAL = conformance.beside("dense")["degree_entropy_without_the_diagonal"]
entailments = st.integers(1, 7).flatmap(lambda n: arrays.arrays(bool, (n, n)))
NAN = math.nan


def groups(*sizes):
    """Agreement of replies that agree fully within groups of these sizes and not at all across."""
    return linalg.block_diag(*(np.ones((size, size)) for size in sizes))


@st.composite
def affinities(draw):
    n = draw(st.integers(1, 6))
    upper = np.triu(draw(arrays.arrays(float, (n, n), elements=st.floats(0, 1))), 1)
    return upper + upper.T + np.eye(n)


def words(text):
    return len(text.split())


def at(*degrees):
    """One embedding per angle; the cosine of two is that of the angle between them."""
    return np.column_stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


# --- merging sentences ---------------------------------------------------------------------------


@each(
    ("angles", "options", "expected"),
    [
        ([0], {}, [["a"]]),
        ([0, 0, 0], {}, [["a", "b", "c"]]),
        ([0, 90, 180], {}, [["a"], ["b"], ["c"]]),
        ([0, 20, 90, 100], {}, [["a", "b"], ["c", "d"]]),
        ([0, 180], {"threshold": -1.0}, [["a", "b"]]),
        ([0, 180], {"threshold": -1.0, "strict": True}, [["a"], ["b"]]),
        ([0, 0], {"threshold": 1}, [["a", "b"]]),
        ([0, 0], {"threshold": 1, "strict": True}, [["a"], ["b"]]),
        ([0, 0, 0, 0, 0], {"max_tokens": 2}, [["a", "b"], ["c", "d"], ["e"]]),
        ([0, 0, 0], {"max_tokens": 1}, [["a"], ["b"], ["c"]]),
    ],
)
def test_merging_by_hand(angles, options, expected):
    sentences = list("abcde")[: len(angles)]
    assert merge_sentences(sentences, at(*angles), count_tokens=words, **options) == expected


def test_at_the_threshold_equation_7_joins_and_algorithm_2_cuts():
    embeddings = [[3.0, 4.0], [5.0, 0.0]]  # cosine 15 / 25
    assert merge_sentences(["a", "b"], embeddings, count_tokens=words) == [["a", "b"]]
    assert merge_sentences(["a", "b"], embeddings, count_tokens=words, strict=True) == [["a"], ["b"]]
    for strict in (True, False):  # beside the threshold they agree
        assert merge_sentences(["a", "b"], at(0, 53), count_tokens=words, strict=strict) == [["a", "b"]]
        assert merge_sentences(["a", "b"], at(0, 54), count_tokens=words, strict=strict) == [["a"], ["b"]]


def test_the_last_digit_of_a_cosine_decides_nothing():
    same = np.repeat(np.random.default_rng(0).normal(size=(1, 300, 7)), 2, axis=0)  # cosines of 1, give or take a digit
    for strict, chunks in ((False, 1), (True, 2)):
        found = [
            merge_sentences(["a", "b"], same[:, i], count_tokens=words, threshold=1.0, strict=strict)
            for i in range(300)
        ]
        assert {len(pair) for pair in found} == {chunks}


def test_only_neighbours_are_compared_and_a_length_says_nothing():
    drifting = at(0, 40, 80, 120)  # each 40 degrees from the one before, cosine 0.77; the last is far from the first
    assert merge_sentences(list("abcd"), drifting, count_tokens=words) == [["a", "b", "c", "d"]]
    first = drifting[0]
    assert (drifting @ first < 0.6).sum() == 2  # a rule that compares with the first sentence would cut
    far = at(0, 80) * [[10.0], [10.0]]
    assert far[0] @ far[1] > 0.6  # and so would join a product that is not divided by the lengths
    assert merge_sentences(["a", "b"], far, count_tokens=words) == [["a"], ["b"]]


def test_the_limit_is_of_the_chunk_and_starts_anew_with_it():
    sentences = ["one two three", "four five", "six", "seven eight nine ten", "eleven"]
    found = merge_sentences(sentences, at(0, 0, 0, 0, 0), count_tokens=words, max_tokens=5)
    assert [sum(map(words, chunk)) for chunk in found] == [5, 5, 1]
    assert merge_sentences(sentences, at(0, 0, 0, 0, 0), count_tokens=words, max_tokens=3) == [
        ["one two three"],
        ["four five", "six"],
        ["seven eight nine ten"],  # longer than the limit: by itself, uncut
        ["eleven"],
    ]


def test_tokens_are_counted_once_per_sentence():
    seen = []
    merge_sentences(["a", "b", "c"], at(0, 0, 0), count_tokens=lambda text: seen.append(text) or 1)
    assert seen == ["a", "b", "c"]


@repeatable
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 359)), min_size=1, max_size=9),
    st.sampled_from([-1, -0.5, 0.0, 0.6, 0.9, 1.0]),
    st.integers(1, 12),
    st.booleans(),
    st.floats(1e-3, 1e3),
)
def test_merging_cuts_exactly_where_it_says(sentences, threshold, most, strict, factor):
    texts = [" ".join([f"w{i}"] * length) for i, (length, _) in enumerate(sentences)]
    embeddings = at(*(angle for _, angle in sentences))
    options = {"count_tokens": words, "threshold": threshold, "max_tokens": most, "strict": strict}
    found = merge_sentences(texts, embeddings, **options)
    assert [text for chunk in found for text in chunk] == texts and all(found)
    assert all(len(chunk) == 1 or sum(map(words, chunk)) <= most for chunk in found)
    place = 0
    for chunk, following in zip(found, [*found[1:], None], strict=True):
        place += len(chunk)
        if following is not None:
            apart = abs(sentences[place][1] - sentences[place - 1][1])
            cosine = np.cos(np.radians(apart))
            unlike = cosine <= threshold + 1e-9 if strict else cosine < threshold - 1e-9
            assert unlike or sum(map(words, [*chunk, following[0]])) > most
    assert merge_sentences(tuple(texts), embeddings * factor, **options) == found
    assert len(merge_sentences(texts, embeddings, **{**options, "threshold": -1, "strict": False})) <= len(found)


@each(
    ("change", "message"),
    [
        ({"sentences": []}, "sentences must hold at least 1; got none"),
        ({"sentences": "ab"}, r"sentences must be a list; got str; write \[sentences\] for a single one"),
        ({"sentences": ["a", 1]}, r"sentences\[1\] must be a string; got int"),
        ({"sentences": ["a", "b", "c"]}, "lengths must be equal; got 2 embeddings, 3 sentences"),
        ({"embeddings": [1.0, 2.0]}, r"embeddings must have 2 dimension\(s\); got shape \(2,\)"),
        ({"embeddings": [[1.0], [1.0, 2.0]]}, "ragged"),
        ({"embeddings": [["a"], ["b"]]}, "embeddings must be numbers; got 'a'"),
        ({"embeddings": np.zeros((2, 0))}, r"got shape \(2, 0\)"),
        ({"embeddings": [[1.0, 0.0], [np.nan, 0.0]]}, "finite"),
        ({"embeddings": [[1.0, 0.0], [np.inf, 0.0]]}, "finite"),
        (
            {"embeddings": [[1.0, 0.0], [0.0, 0.0]]},
            "embeddings must have rows with a direction; got one that is all zero or too",
        ),
        ({"threshold": 60}, "threshold must be from -1 to 1; got 60"),
        ({"threshold": np.nan}, "threshold must be"),
        ({"threshold": "0.6"}, "threshold must be"),
        ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1; got 0"),
        ({"max_tokens": 10.5}, "max_tokens must be"),
        ({"max_tokens": True}, "max_tokens must be"),
        ({"count_tokens": lambda text: -1}, "count_tokens must be a whole number of at least 0; got -1"),
        ({"count_tokens": lambda text: text}, "count_tokens must be a whole number"),
        ({"strict": "yes"}, "strict must be True or False; got 'yes'"),
    ],
)
def test_merging_refuses(change, message):
    arguments = {"sentences": ["a", "b"], "embeddings": [[1.0, 0.0], [0.0, 1.0]], "count_tokens": words, **change}
    with pytest.raises(ValueError, match=message):
        merge_sentences(arguments.pop("sentences"), arguments.pop("embeddings"), **arguments)


# --- unit rows -----------------------------------------------------------------------------------


def test_directions_have_length_1():
    assert np.allclose(checks.directions("rows", [[3, 4], [0, -2]]), [[0.6, 0.8], [0, -1]])
    assert checks.directions("rows", np.array([[3.0, 4.0]], dtype=np.float16)).dtype == np.float64


# --- contexts ------------------------------------------------------------------------------------


@repeatable
@given(st.integers(1, 6))
def test_contexts_differ_in_one_chunk(k):
    chunks, rephrased = [f"c{i}" for i in range(k)], tuple(f"r{i}" for i in range(k))
    original, *edited = single_edit_contexts(chunks, rephrased)
    assert original == chunks and original is not chunks and len(edited) == k
    for i, (edit, without) in enumerate(zip(edited, contexts_without_one(chunks), strict=True)):
        assert [place for place in range(k) if edit[place] != chunks[place]] == [i] and edit[i] == rephrased[i]
        assert without == [chunk for chunk in chunks if chunk != f"c{i}"]


@each(
    ("chunks", "rephrased", "message"),
    [
        ([], [], "chunks must hold at least 1; got none"),
        ("ab", ["a", "b"], "chunks must be a list"),
        (["a", None], ["a", "b"], r"chunks\[1\] must be a string; got NoneType"),
        (["a"], "b", "rephrased must be a list"),
        (["a", "b"], ["a"], "lengths must be equal; got 1 rephrased, 2 chunks"),
    ],
)
def test_contexts_refuse(chunks, rephrased, message):
    with pytest.raises(ValueError, match=message):
        single_edit_contexts(chunks, rephrased)


def test_leaving_out_refuses_no_chunks():
    assert contexts_without_one(["only"]) == [[]]
    with pytest.raises(ValueError, match="chunks must hold at least 1; got none"):
        contexts_without_one([])


# --- reference numbers ---------------------------------------------------------------------------


@each(("name", "dropped"), WITHOUT_DIAGONAL.items())
def test_without_the_diagonal_it_is_wrong(name, dropped):
    [links] = conformance.given("dense", f"degree entropy: {name}")
    n = len(links)
    with np.errstate(divide="ignore"):
        wrong = -np.log((links.sum(axis=1) - 1) / n).mean()
    assert wrong == pytest.approx(float(dropped))
    assert wrong > degree_entropy(links) + 0.1
    np.fill_diagonal(links, 0)
    with pytest.raises(ValueError, match=r"ones on the diagonal; got 0\.0"):
        degree_entropy(links)


# --- adjacency -----------------------------------------------------------------------------------


def test_adjacency_by_hand():
    entails = [[0, 1, 1], [1, 0, 0], [0, 0, 1]]
    found = adjacency(entails)
    assert found.tolist() == [[1.0, 1.0, 0.5], [1.0, 1.0, 0.0], [0.5, 0.0, 1.0]]
    assert entails[0][0] == 0 and found.dtype == np.float64
    given_array = np.zeros((2, 2))
    assert adjacency(given_array).tolist() == [[1.0, 0.0], [0.0, 1.0]] and not given_array.any()
    assert adjacency([[False]]).tolist() == [[1.0]]


@repeatable
@given(entailments)
def test_adjacency_is_an_average_of_both_ways(entails):
    found, n = adjacency(entails), len(entails)
    for i in range(n):
        for j in range(n):
            assert found[i, j] == (1 if i == j else (int(entails[i, j]) + int(entails[j, i])) / 2)
    assert np.array_equal(adjacency(entails.T), found)
    assert np.array_equal(adjacency(entails | np.eye(n, dtype=bool)), found)


@each(
    ("entails", "message"),
    [
        ([], r"entails must have 2 dimension\(s\); got shape \(0,\)"),
        (np.zeros((0, 0)), r"got shape \(0, 0\)"),
        ([[True, False]], r"got shape \(1, 2\)"),
        ([True], r"got shape \(1,\)"),
        ([[True], [True, False]], "ragged"),
        ([["a"]], "must be numbers; got"),
        ([[1, 0.5], [0, 1]], r"entails must be 0 or 1; got 0\.5"),
        ([[1, 2], [0, 1]], r"entails must be 0 or 1; got 2\.0"),
        ([[1, NAN], [0, 1]], "entails must be 0 or 1; got nan"),
    ],
)
def test_adjacency_refuses(entails, message):
    with pytest.raises(ValueError, match=message):
        adjacency(entails)


# --- degree entropy ------------------------------------------------------------------------------


@each("n", [1, 2, 3, 6, 7, 20])
def test_the_ends(n):
    assert degree_entropy(np.ones((n, n))) == 0.0 and math.copysign(1, degree_entropy(np.ones((n, n)))) == 1
    assert degree_entropy(np.eye(n)) == pytest.approx(math.log(n), abs=1e-12)
    assert degree_entropy(np.eye(n)) <= math.log(n)


def test_degree_entropy_by_hand():
    assert degree_entropy(groups(5, 1)) == pytest.approx((5 * math.log(6 / 5) + math.log(6)) / 6)
    assert degree_entropy([[1, 0.5], [0.5, 1]]) == pytest.approx(math.log(4 / 3))
    chain = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    assert degree_entropy(chain) == pytest.approx(2 / 3 * math.log(1.5))
    assert isinstance(degree_entropy(chain), float)


def test_shares_of_the_degrees_and_bits_are_wrong():
    for links in (groups(4), groups(3, 1), np.array([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])):
        degree, n = links.sum(axis=1), len(links)
        right = -sum(math.log(d / n) for d in degree) / n
        assert degree_entropy(links) == pytest.approx(right)
        shares = degree / degree.sum()
        assert abs(-(shares * np.log(shares)).sum() - right) > 0.2  # log n even where all agree
        assert abs(-np.log(shares).mean() - right) > 0.2
        assert abs(-(degree / n * np.log(degree / n)).sum() - right) > 0.2 or right == 0  # weighted by degree
        if right > 0:
            assert -np.log2(degree / n).mean() > right * 1.4


@repeatable
@given(affinities(), st.randoms(use_true_random=False))
def test_bounds_order_and_jensen(links, random):
    n, entropy = len(links), degree_entropy(links)
    order = random.sample(range(n), n)
    assert 0 <= entropy <= math.log(n)
    assert degree_entropy(links[np.ix_(order, order)]) == pytest.approx(entropy, abs=1e-12)
    # the mean of -log is at least -log of the mean, and the mean of D / n is 1 - U_deg
    assert entropy >= -math.log(1 - degree_uncertainty(links)) - 1e-12
    more = np.maximum(links, 0.5)
    assert degree_entropy(more) <= entropy + 1e-12


@repeatable
@given(entailments, st.randoms(use_true_random=False))
def test_the_order_of_the_replies_changes_no_digit(entails, random):
    links = adjacency(entails)
    order = random.sample(range(len(links)), len(links))
    assert degree_entropy(links[np.ix_(order, order)]) == degree_entropy(links)


@repeatable
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.floats(0, 1), st.integers(1, 6))
def test_jensen_is_an_equality_for_equal_degrees_and_groups_give_the_discrete_entropy(sizes, share, n):
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    assert degree_entropy(groups(*sizes)) == pytest.approx(discrete_semantic_entropy(clusters), abs=1e-12)
    even = np.full((n, n), share)
    np.fill_diagonal(even, 1)
    assert degree_entropy(even) == pytest.approx(-math.log(1 - degree_uncertainty(even)), abs=1e-12)


def test_one_outlier_crosses_the_threshold_at_some_k_only():
    one_outlier = {k: degree_entropy(groups(k, 1)) for k in (3, 5, 8, 20)}
    assert one_outlier[3] > one_outlier[5] > one_outlier[8] > 0.2 > one_outlier[20]


bad_agreement = each(
    ("links", "message"),
    [
        ([], r"adjacency must have 2 dimension\(s\); got shape \(0,\)"),
        ([[1.0, 0.5]], r"got shape \(1, 2\)"),
        ([[1.0], [0.5, 1.0]], "ragged"),
        ([[None]], "must be numbers; got"),
        ([[1.0, NAN], [NAN, 1.0]], r"finite; got 2 NaN"),
        ([[1.0, 1.5], [1.5, 1.0]], r"adjacency must be from 0 to 1; got 1\.5"),
        ([[1.0, -0.5], [-0.5, 1.0]], r"adjacency must be from 0 to 1; got -0\.5"),
        ([[1.0, 0.5], [1.0, 1.0]], r"symmetric; got values that differ by up to 0\.5"),
        ([[1.0, 0.5], [0.5, 0.5]], r"ones on the diagonal; got 0\.5"),
    ],
)


@bad_agreement
def test_bad_agreement_is_refused(links, message):
    with pytest.raises(ValueError, match=message):
        degree_entropy(links)
    with pytest.raises(ValueError, match=message):
        chunk_roles(links, [1.0])


# --- roles ---------------------------------------------------------------------------------------


def first_row(*links):
    """Agreement of reply 0 with the others; the others agree among themselves."""
    matrix = np.ones((len(links) + 1, len(links) + 1))
    matrix[0, 1:] = matrix[1:, 0] = links
    return matrix


@each(
    ("links", "without", "half", "expected"),
    [
        ([1], [NAN], "necessary", ["certain"]),
        ([1], [0], "necessary", ["certain"]),  # what happens without it is not looked at
        ([0, 0], [0, 1], "necessary", ["necessary", "unnecessary"]),
        ([0, 0], [0, 1], "unnecessary", ["necessary", "unnecessary"]),
        ([0.5, 0.5], [0, 1], "necessary", ["necessary", "unnecessary"]),  # one way is not certain
        ([0, 0.5, 1], [0.5, 0.5, 0.5], "necessary", ["necessary", "necessary", "certain"]),
        ([0, 0.5, 1], [0.5, 0.5, 7.0], "unnecessary", ["unnecessary", "unnecessary", "certain"]),
        ([0, 1], [False, True], "necessary", ["necessary", "certain"]),
    ],
)
def test_roles_by_hand(links, without, half, expected):
    assert chunk_roles(first_row(*links), without, half=half) == expected


def test_half_defaults_to_algorithm_3():
    assert chunk_roles(first_row(0), [0.5]) == ["necessary"]


@repeatable
@given(entailments.filter(lambda entails: len(entails) > 1), st.data())
def test_roles_follow_their_rule(entails, data):
    links, k = adjacency(entails), len(entails) - 1
    without = data.draw(st.lists(st.sampled_from([0, 0.5, 1]), min_size=k, max_size=k))
    by_half = {half: chunk_roles(links, without, half=half) for half in ("necessary", "unnecessary")}
    for i in range(k):
        both_ways = entails[0, i + 1] and entails[i + 1, 0]
        for half, roles in by_half.items():
            if both_ways:
                assert roles[i] == "certain"
            else:
                assert roles[i] == {0: "necessary", 0.5: half, 1: "unnecessary"}[without[i]]
    ignored = [NAN if role == "certain" else value for role, value in zip(by_half["necessary"], without, strict=True)]
    assert chunk_roles(links, ignored) == by_half["necessary"]
    changed = links.copy()  # how the other replies agree among themselves plays no part
    changed[1:, 1:] = np.eye(k)
    assert chunk_roles(changed, without) == by_half["necessary"]


@each(
    ("links", "without", "options", "message"),
    [
        ([[1.0]], [], {}, "at least one chunk, so two replies; got one reply"),
        (first_row(0, 1), [1], {}, "lengths must be equal; got 1 agrees_without, 2 chunks"),
        (first_row(0, 1), [1, 1, 1], {}, "lengths must be equal; got 3 agrees_without, 2 chunks"),
        (first_row(0), [[1]], {}, r"got shape \(1, 1\)"),
        (first_row(0), ["1"], {}, "agrees_without must be numbers; got '1'"),
        (first_row(0, 1), [NAN, 1], {}, "agrees_without, where the chunk is uncertain, must be 0, 0.5 or 1; got nan"),
        (first_row(0), [0.7], {}, r"got 0\.7"),
        (first_row(0), [2], {}, "got 2"),
        (first_row(0.9), [1], {}, r"adjacency, first row, must be 0, 0\.5 or 1; got 0\.9"),
        (first_row(0), [1], {"half": "certain"}, "unknown half 'certain'"),
        (first_row(0), [1], {"half": "necesary"}, "did you mean 'necessary'"),
    ],
)
def test_roles_refuse(links, without, options, message):
    with pytest.raises(ValueError, match=message):
        chunk_roles(links, without, **options)


# --- refinement ----------------------------------------------------------------------------------

ROUND_THE_CIRCLE = np.column_stack([np.cos(np.arange(6) / 4), np.sin(np.arange(6) / 4)])  # neighbours are the nearest


class Reader:
    """A reader whose reply depends on each chunk as its role says, and that keeps count of what it was asked."""

    def __init__(self, roles, *, sufficient=(), one_way=()):
        self.roles, self.enough, self.one_way = roles, [set(context) for context in sufficient], set(one_way)
        self.contexts, self.left_out = [], []

    def agree(self, context):
        self.contexts.append(context)
        links = np.ones((len(context) + 1, len(context) + 1))
        for place, chunk in enumerate(context, 1):
            if self.roles[chunk] != "certain":
                links[place], links[:, place] = 0, 0
                links[place, place] = 1
        return links

    def agree_without(self, context, places):
        self.left_out += [(tuple(context), place) for place in places]
        kinds = {"necessary": 0.0, "unnecessary": 1.0}
        return [0.5 if context[i] in self.one_way else kinds[self.roles[context[i]]] for i in places]

    def is_sufficient(self, context):
        return any(found <= set(context) for found in self.enough)

    def refine(self, initial, embeddings=ROUND_THE_CIRCLE, *, evaluate=True, **options):
        asks = {"is_sufficient": self.is_sufficient} if evaluate else {}
        return refine(initial, embeddings, agree=self.agree, agree_without=self.agree_without, **asks, **options)


def contexts(found):
    return [tried.context for tried in found.rounds]


def test_refinement_by_hand():
    # of 0, 1, 2 the first holds part of the answer, the second misleads, the third is harmless; the rest of the answer is in 3
    reader = Reader(["necessary", "unnecessary", "certain", "certain", "certain", "certain"], sufficient=[{0, 3}])
    found = reader.refine([0, 1, 2])
    # 1 goes, and of 3, 4, 5 the nearest to 0 comes: 3
    assert contexts(found) == [(0, 1, 2), (0, 2, 3)]
    first, second = found.rounds
    assert first.roles == ("necessary", "unnecessary", "certain") and second.roles == ()
    assert first.entropy == pytest.approx((2 * math.log(4) + 2 * math.log(2)) / 4)
    assert second.entropy == pytest.approx((math.log(4) + 3 * math.log(4 / 3)) / 4)
    assert (first.sufficient, second.sufficient) == (False, True)
    assert (found.best, found.ended, found.context) == (1, "stopped", (0, 2, 3))
    assert reader.left_out == [((0, 1, 2), 0), ((0, 1, 2), 1)]  # certain chunks and the last context are not tried


def test_what_stops_it():
    roles = ["certain", "certain", "unnecessary", "certain", "certain", "certain"]
    assert contexts(Reader(roles).refine([0, 1])) == [(0, 1)]  # low entropy is enough
    assert contexts(Reader(roles, sufficient=[{0, 2}]).refine([0, 2])) == [(0, 2)]  # so is sufficiency
    both = Reader(roles, sufficient=[{0}]).refine([0, 2], stop_when="and")
    assert contexts(both) == [(0, 2), (0,)] and both.ended == "stopped"
    neither = Reader(roles).refine([0, 2], stop_when="and")
    assert contexts(neither) == [(0, 2), (0,)] and neither.ended == "unchanged"


@each("stop_when", ["or", "and"])
def test_nobody_evaluates(stop_when):
    reader = Reader(["certain", "certain", "unnecessary"])
    found = reader.refine([0, 2], np.eye(3), evaluate=False, stop_when=stop_when)
    assert contexts(found) == [(0, 2), (0,)] and found.ended == "stopped"
    assert [tried.sufficient for tried in found.rounds] == [None, None]


def test_at_the_threshold():
    at = degree_entropy(groups(1, 1))
    for strict, rounds in ((True, 2), (False, 1)):
        found = Reader(["necessary", "certain"]).refine([0], np.ones((2, 1)), threshold=at, strict=strict)
        assert len(found.rounds) == rounds
    assert len(Reader(["certain"]).refine([0], [[1.0]], threshold=0).rounds) == 1  # strict, but nothing to change
    assert Reader(["certain"]).refine([0], [[1.0]], threshold=0).ended == "unchanged"
    assert Reader(["certain"]).refine([0], [[1.0]], threshold=0, strict=False).ended == "stopped"


def test_half_decides_whether_a_chunk_stays():
    def run(half):
        reader = Reader(["necessary", "certain", "certain"], one_way=[0])
        return contexts(reader.refine([0, 1], np.eye(3), half=half))

    assert run("necessary") == [(0, 1), (0, 1, 2)]
    assert run("unnecessary") == [(0, 1), (1,)]


def test_what_is_refilled():
    def run(refill):
        reader = Reader(["necessary", "certain", "unnecessary", "certain", "certain", "certain"])
        return contexts(reader.refine([1, 0, 2], refill=refill, threshold=0.01))

    assert run("none") == [(1, 0, 2), (1, 0)]
    assert run("necessary") == [(1, 0, 2), (1, 0, 3), (1, 0, 3, 4), (1, 0, 3, 4, 5)]
    # next to 1 comes 3; then next to 1 and to 3 come 4 and 5, each once
    assert run("certain") == [(1, 0, 2), (1, 0, 3), (1, 0, 3, 4, 5)]


def test_the_limit_holds_and_lets_go():
    reader = Reader(["necessary"] * 6)
    assert contexts(reader.refine([0, 1])) == [(0, 1), (0, 1, 2, 3), (0, 1, 2, 3, 4, 5)]
    assert contexts(reader.refine([0, 1], limit=3)) == [(0, 1), (0, 1, 2)]
    assert contexts(reader.refine([0, 1], limit=2)) == [(0, 1)]
    swapped = Reader(["necessary", "unnecessary", "unnecessary", "certain", "certain", "certain"])
    assert contexts(swapped.refine([0, 1], limit=2, threshold=0.1)) == [(0, 1), (0, 2), (0, 3)]


def test_the_first_of_equally_close_chunks_comes_and_the_length_of_an_embedding_says_nothing():
    embeddings = [[1.0, 0.0], [9.0, 9.0], [2.0, 1.0], [4.0, 2.0]]  # cosines with 0: 0.71, 0.89, 0.89; products: 9, 2, 4
    found = Reader(["necessary"] * 4).refine([0], embeddings)
    assert contexts(found)[1] == (0, 2)


def test_each_chunk_brings_its_own_neighbour():
    roles = ["certain", "certain", "certain", "certain", "certain", "necessary"]
    assert contexts(Reader(roles).refine([0, 5]))[1] == (0, 5, 4)


def test_only_uncertain_chunks_are_left_out():
    def never(context, places):
        raise AssertionError("asked for certain chunks")

    found = refine([0, 1], np.eye(2), agree=lambda context: np.ones((3, 3)), agree_without=never, threshold=0)
    assert found.rounds[0].roles == ("certain", "certain")


def test_nothing_may_be_left():
    reader = Reader(["unnecessary", "unnecessary", "certain"])
    found = reader.refine([0, 1], np.eye(3))
    assert (contexts(found), found.ended, found.context) == ([(0, 1)], "empty", (0, 1))


def tried(*sizes, sufficient=(), **options):
    """A run through contexts of one chunk, two, ...; per context the groups of its replies, and which contexts are sufficient."""
    return refine(
        [0],
        np.eye(len(sizes)),
        agree=lambda context: groups(*sizes[len(context) - 1]),
        agree_without=lambda context, places: [0.0] * len(places),
        is_sufficient=lambda context: len(context) - 1 in sufficient,
        **options,
    )


@each(
    ("sizes", "sufficient", "lowest", "guarded"),
    [
        (([1, 1], [1, 2], [1, 3]), (), 2, 2),  # 0.69, 0.64, 0.56
        (([1, 1], [1, 2], [1, 3]), (2,), 2, 2),
        (([1, 1], [1, 2], [1, 3]), (1,), 2, 1),
        (([1, 1], [1, 2], [1, 3]), (0,), 2, 0),
        (([1, 1], [1, 2], [1, 3]), (0, 2), 2, 2),
        (
            ([1, 1], [1, 1, 1], [1, 1, 2]),
            (2,),
            0,
            0,
        ),  # 0.69, 1.10, 1.04: guarded, but the sufficient one comes too late
        (([1, 1], [1, 1, 1], [2, 2]), (), 0, 0),  # the first of equal ones
    ],
)
def test_what_is_used_where_nothing_stopped_it(sizes, sufficient, lowest, guarded):
    for fallback, best in (("lowest", lowest), ("guarded", guarded)):
        found = tried(*sizes, sufficient=sufficient, stop_when="and", fallback=fallback)
        assert contexts(found) == [(0,), (0, 1), (0, 1, 2)] and found.ended == "unchanged"
        assert found.best == best and found.context == contexts(found)[best]


def test_the_context_that_stops_it_is_used():
    found = tried([1, 1], [1, 1, 1], [1, 3], sufficient=(1,))
    assert (found.best, found.ended) == (1, "stopped")
    assert found.rounds[0].entropy < found.rounds[1].entropy
    with pytest.raises(FrozenInstanceError):
        found.best = 0


def test_the_loop_as_printed_adds_nothing_and_does_not_end():
    reader = Reader(["necessary", "unnecessary", "certain", "certain", "certain", "certain"])
    found = reader.refine([0, 1], threshold=0.0)
    assert found.ended == "unchanged" and found.rounds[-1].context == (0, 2, 3, 4, 5)

    context, visited = [0, 1], set()
    cosines = ROUND_THE_CIRCLE @ ROUND_THE_CIRCLE.T
    seen = []
    while visited != set(range(6)) and len(seen) < 100:
        seen.append(tuple(context))
        visited = set()  # line 15, inside the loop
        roles = chunk_roles(reader.agree(context), [float(reader.roles[chunk] == "unnecessary") for chunk in context])
        context, before = [c for c, role in zip(context, roles, strict=True) if role != "unnecessary"], context
        for chunk in [c for c, role in zip(before, roles, strict=True) if role == "necessary"]:
            unseen = [other for other in range(6) if other not in visited]
            nearest = unseen[int(cosines[chunk, unseen].argmax())]
            visited.add(nearest)
            context = list(dict.fromkeys([*context, nearest]))
    assert len(seen) == 100 and set(seen[1:]) == {(0,)}


@repeatable
@given(st.integers(1, 6), st.data(), st.integers(0, 999))
def test_it_ends_whatever_the_functions_answer(m, data, seed):
    random = np.random.default_rng(seed)
    k = data.draw(st.integers(1, m))
    options = {
        "half": data.draw(st.sampled_from(["necessary", "unnecessary"])),
        "refill": data.draw(st.sampled_from(["necessary", "certain", "none"])),
        "fallback": data.draw(st.sampled_from(["lowest", "guarded"])),
        "limit": data.draw(st.none() | st.integers(k, m)),
        "stop_when": "and",
        "threshold": data.draw(st.sampled_from([0.0, 0.2, 2.0])),
    }

    def agree(context):
        n = len(context) + 1
        context.clear()  # nor does it matter what they do to what they are given
        return adjacency(random.random((n, n)) < 0.6)

    found = refine(
        random.permutation(m)[:k].tolist(),
        random.normal(size=(m, 3)),
        agree=agree,
        agree_without=lambda context, places: random.choice([0, 0.5, 1], size=len(places)),
        is_sufficient=lambda context: random.random() < 0.2,
        **options,
    )
    assert 1 <= len(found.rounds) <= 2 * m - k + 1
    gone = set()
    for before, after in pairwise(found.rounds):
        gone |= set(before.context) - set(after.context)
        assert len(set(after.context)) == len(after.context) <= (options["limit"] or m)
        assert not gone & set(after.context)
        stays = [c for c, role in zip(before.context, before.roles, strict=True) if role != "unnecessary"]
        assert list(after.context[: len(stays)]) == stays
    last = found.rounds[-1]
    if found.ended == "stopped":
        assert found.best == len(found.rounds) - 1 and last.sufficient and last.entropy < options["threshold"]
    else:
        assert len(last.roles) == len(last.context)
        if options["fallback"] == "lowest":
            assert found.rounds[found.best].entropy == min(one.entropy for one in found.rounds)
    assert found.ended != "empty" or set(last.roles) == {"unnecessary"}


@each(
    ("change", "message"),
    [
        ({"initial": []}, "initial must hold at least 1; got none"),
        ({"initial": "0"}, "initial must be a list"),
        ({"initial": [0.0]}, "initial must be a whole number; got"),
        ({"initial": [True]}, "initial must be a whole number; got"),
        ({"initial": [0, 0]}, "initial must each come once; got 0 twice"),
        ({"initial": [3]}, "initial must be a whole number from 0 to 2; got"),
        ({"initial": [-1]}, "initial must be a whole number from 0 to 2; got"),
        (
            {"embeddings": [[1.0], [0.0], [1.0]]},
            "embeddings must have rows with a direction; got one that is all zero or too",
        ),
        ({"half": "both"}, "unknown half 'both'"),
        ({"stop_when": "xor"}, "unknown stop_when 'xor'"),
        ({"refill": None}, "unknown refill None"),
        ({"fallback": "last"}, "unknown fallback 'last'"),
        ({"threshold": -0.1}, r"threshold must be at least 0; got -0\.1"),
        ({"threshold": NAN}, "threshold must be"),
        ({"threshold": "0.2"}, "threshold must be"),
        ({"strict": 2}, "strict must be True or False; got 2"),
        ({"limit": 1}, "limit must be a whole number of at least 2; got 1"),
        ({"limit": 3.0}, r"limit must be a whole number; got 3\.0"),
        ({"agree": lambda context: np.eye(2)}, r"one row per reply, 3; got shape \(2, 2\)"),
        ({"agree": lambda context: [[1.0], [1.0, 2.0]]}, "ragged"),
        ({"agree": lambda context: first_row(0.9, 0)}, r"adjacency, first row, must be 0, 0\.5 or 1; got 0\.9"),
        ({"agree_without": lambda context, places: [0.0]}, "lengths must be equal; got 1 numbers, 2 uncertain_chunks"),
        ({"agree_without": lambda context, places: [0.7] * len(places)}, r"got 0\.7"),
        ({"agree_without": lambda context, places: [NAN] * len(places)}, "agree_without returns must be finite; got 2"),
        (
            {"agree_without": lambda context, places: None},
            "what agree_without returns must be a list of numbers; got None",
        ),
        ({"is_sufficient": lambda context: "yes"}, "what is_sufficient returns must be True or False; got 'yes'"),
    ],
)
def test_refinement_refuses(change, message):
    arguments = {
        "initial": [0, 1],
        "embeddings": np.eye(3),
        "agree": lambda context: np.eye(len(context) + 1),
        "agree_without": lambda context, places: [0.0] * len(places),
        **change,
    }
    with pytest.raises(ValueError, match=message):
        refine(arguments.pop("initial"), arguments.pop("embeddings"), **arguments)
