"""Chunking: cases by hand, properties, wrong rules that must fail."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_utils import dense
from rag_utils.corpora.chunking import fixed_chunks, merge_sentences, split_sentences, unit_rows

repeatable = settings(deadline=None, derandomize=True, max_examples=60)


def words(text):
    return len(text.split())


def at(*degrees):
    """One embedding per angle; the cosine of two is that of the angle between them."""
    return np.column_stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


# --- merging sentences ---------------------------------------------------------------------------


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sentences": []}, r"sentences must be a list of at least one string; got \[\]"),
        ({"sentences": "ab"}, "sentences must be a list of at least one string; got 'ab'"),
        ({"sentences": ["a", 1]}, "sentences must be a list"),
        ({"sentences": ["a", "b", "c"]}, "one row per sentence; got 2 for 3 sentences"),
        ({"embeddings": [1.0, 2.0]}, r"embeddings must be \(n, d\) numbers; got shape \(2,\)"),
        ({"embeddings": [[1.0], [1.0, 2.0]]}, "ragged"),
        ({"embeddings": [["a"], ["b"]]}, "must be .* numbers"),
        ({"embeddings": np.zeros((2, 0))}, r"got shape \(2, 0\)"),
        ({"embeddings": [[1.0, 0.0], [np.nan, 0.0]]}, "finite"),
        ({"embeddings": [[1.0, 0.0], [np.inf, 0.0]]}, "finite"),
        ({"embeddings": [[1.0, 0.0], [0.0, 0.0]]}, "no row all zero"),
        ({"threshold": 60}, "threshold must be a cosine, a number from -1 to 1; got 60"),
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


def test_the_method_file_has_it_too():
    assert dense.merge_sentences is merge_sentences


# --- unit rows -----------------------------------------------------------------------------------


def test_unit_rows():
    assert np.allclose(unit_rows([[3, 4], [0, -2]]), [[0.6, 0.8], [0, -1]])
    assert unit_rows(np.array([[3.0, 4.0]], dtype=np.float16)).dtype == np.float64


# --- fixed size ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "size", "overlap", "expected"),
    [
        (["a"], 1, 0, [["a"]]),
        (["a", "b", "c"], 2, 0, [["a", "b"], ["c"]]),
        (["a", "b", "c"], 2, 1, [["a", "b"], ["b", "c"]]),
        (["a", "b", "c", "d"], 3, 2, [["a", "b", "c"], ["b", "c", "d"]]),
        (["aa", "b", "cc"], 3, 2, [["aa", "b"], ["b", "cc"]]),  # aa is too long to be repeated with b
        (["a", "b", "ccc"], 3, 2, [["a", "b"], ["ccc"]]),  # nothing fits before ccc
        (["aaaa", "b", "cccc"], 2, 1, [["aaaa"], ["b"], ["cccc"]]),  # longer than the size: by itself, uncut
        (["", "aaa"], 2, 0, [[""], ["aaa"]]),
        (["a", ""], 1, 0, [["a", ""]]),
    ],
)
def test_fixed_size_by_hand(pieces, size, overlap, expected):
    assert fixed_chunks(pieces, size=size, overlap=overlap, count_tokens=len) == expected


@repeatable
@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(1, 9), st.data())
def test_fixed_chunks_are_full_and_repeat_as_much_as_they_may(lengths, size, data):
    overlap = data.draw(st.integers(0, size - 1))
    pieces = [f"{i:x}" * length for i, length in enumerate(lengths)]
    found = fixed_chunks(pieces, size=size, overlap=overlap, count_tokens=len)
    spans = [(pieces.index(chunk[0]), pieces.index(chunk[-1]) + 1) for chunk in found]
    assert [pieces[first:last] for first, last in spans] == found
    assert spans[0][0] == 0 and spans[-1][1] == len(pieces)

    def total(first, last):
        return sum(lengths[first:last])

    assert all(last - first == 1 or total(first, last) <= size for first, last in spans)
    for (first, last), (start, _) in pairwise(spans):
        assert first < start <= last
        assert total(first, last + 1) > size  # full: the next piece did not fit
        assert total(start, last) <= overlap
        # one piece more would be too much overlap, or leave no room for the next
        assert total(start - 1, last) > overlap or total(start - 1, last + 1) > size
    if overlap == 0:
        assert [piece for chunk in found for piece in chunk] == pieces


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pieces": []}, "pieces must be a list of at least one string"),
        ({"pieces": "text"}, "pieces must be a list"),
        ({"size": 0}, "size must be a whole number of at least 1; got 0"),
        ({"size": 2.0}, "size must be a whole number"),
        ({"overlap": -1}, "overlap must be a whole number of at least 0; got -1"),
        ({"overlap": 3}, "overlap must be below size; got 3 and 3"),
        ({"count_tokens": lambda text: None}, "count_tokens must be a whole number of at least 0; got None"),
    ],
)
def test_fixed_size_refuses(change, message):
    arguments = {"pieces": ["a", "b"], "size": 3, "count_tokens": len, **change}
    with pytest.raises(ValueError, match=message):
        fixed_chunks(arguments.pop("pieces"), **arguments)


# --- sentences -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One.", ["One."]),
        ("no stop at all", ["no stop at all"]),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Line one.\nLine two,\n  still two.", ["Line one.", "Line two, still two."]),
        (
            'She said "no." He left (by train). 1901 was over.',
            ['She said "no."', "He left (by train).", "1901 was over."],
        ),
        ("It weighs 3.5 kg. It is old.", ["It weighs 3.5 kg.", "It is old."]),
        ("Mr. Hill and J. R. Poe met. They spoke.", ["Mr. Hill and J. R. Poe met.", "They spoke."]),
        ("The U.S. Navy came, i.e. Ships, cf. Table 2.", ["The U.S. Navy came, i.e. Ships, cf. Table 2."]),
        ("It ended... then began. Écija fell.", ["It ended... then began.", "Écija fell."]),
    ],
)
def test_sentences_by_hand(text, expected):
    assert split_sentences(text) == expected


def test_a_cut_after_every_full_stop_is_wrong():
    text = "Dr. Hill weighed 3.5 kg. He lived."
    assert split_sentences(text) == ["Dr. Hill weighed 3.5 kg.", "He lived."] != text.split(". ")


@repeatable
@given(st.text(alphabet="aA.!?\"') \n1", min_size=1).filter(lambda text: text.strip()))
def test_sentences_lose_nothing(text):
    found = split_sentences(text)
    assert " ".join(found) == " ".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in found)
    assert [part for sentence in found for part in split_sentences(sentence)] == found


@pytest.mark.parametrize("text", ["", " \n", None, ["a"]])
def test_sentences_refuse(text):
    with pytest.raises(ValueError, match="text must be a string that is not blank"):
        split_sentences(text)
