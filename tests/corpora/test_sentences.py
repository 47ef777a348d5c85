"""Where sentences end: cases by hand, a property, a wrong rule that must fail."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import each

from rag_utils.corpora.sentences import split_sentences

repeatable = settings(deadline=None, derandomize=True, max_examples=60)


@each(
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


@each("text", ["", " \n", None, ["a"]])
def test_sentences_refuse(text):
    with pytest.raises(ValueError, match=r"text .*must be a .*string; got"):
        split_sentences(text)
