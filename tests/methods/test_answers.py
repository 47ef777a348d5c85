"""Answer matching: cases by hand, properties, a second implementation, and wrong formulas that must differ."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import each

from rag_utils.answers import METRICS, contains_answer, exact_match, normalize, token_f1

repeatable = settings(deadline=None, derandomize=True, max_examples=100)
words = st.lists(
    st.sampled_from(["a", "the", "An", "A+", "*", "Paris", "paris,", "U.S.", "rock'n'roll", "1st", "...", "é"]),
    max_size=7,
)
texts = st.one_of(words.map(" ".join), st.text(max_size=12))
references = st.lists(texts, min_size=1, max_size=3)


def second_normalize(text):
    """Character by character and word by word, without a regular expression."""
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(word for word in kept.split() if word not in {"a", "an", "the"})


@each(
    ("text", "expected"),
    [
        ("The Beatles", "beatles"),
        ("  two \t words\n", "two words"),
        ("U.S.", "us"),
        ("rock-'n'-roll", "rocknroll"),
        ("Theatre and anthem", "theatre and anthem"),
        ("A+", ""),
        ("*", ""),
        ("the an a", ""),
        ("", ""),
        ("“curly” – dash", "“curly” – dash"),
        ("ÉCOLE", "école"),
    ],
)
def test_normalize_by_hand(text, expected):
    assert normalize(text) == expected


@repeatable
@given(words.map(" ".join))
def test_normalize_equals_a_second_implementation_and_is_idempotent_on_words(text):
    assert normalize(text) == second_normalize(text)
    assert normalize(normalize(text)) == normalize(text)


@each(
    ("prediction", "answers", "expected"),
    [
        ("the Paris.", ["Paris"], 1.0),
        ("Paris, France", ["Paris"], 0.0),
        ("Paris", ["London", "PARIS!"], 1.0),
        ("", ["Paris"], 0.0),
        ("A+", ["A+"], 1.0),
        (" a+ ", ("A+",), 1.0),
        ("", ["A+"], 0.0),
        ("the", ["A+"], 0.0),
        ("*", ["A+"], 0.0),
        ("", [""], 1.0),
    ],
)
def test_exact_match_by_hand(prediction, answers, expected):
    assert exact_match(prediction, answers) == expected


@each(
    ("prediction", "answers", "expected"),
    [
        ("Paris", ["Paris"], 1.0),
        ("in Paris France", ["Paris"], 2 * (1 / 3) * 1 / (1 / 3 + 1)),
        ("London", ["Paris"], 0.0),
        ("France Paris", ["Paris, France"], 1.0),
        ("London", ["Paris", "London Bridge"], 2 / 3),
        ("York York York", ["New York"], 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)),
        ("New York New York", ["New York"], 2 * (1 / 2) * 1 / (1 / 2 + 1)),
        ("", ["Paris"], 0.0),
        ("Paris", ["*"], 0.0),
        ("A+", ["A+"], 1.0),
        ("the", ["A+"], 0.0),
    ],
)
def test_token_f1_by_hand(prediction, answers, expected):
    assert token_f1(prediction, answers) == pytest.approx(expected)


def test_f1_of_word_sets_is_wrong():
    prediction, answer = {"york"}, {"new", "york"}
    sets = 2 * len(prediction & answer) / (len(prediction) + len(answer))
    assert token_f1("York York York", ["New York"]) == pytest.approx(0.4) != pytest.approx(sets)


@each(
    ("text", "answers", "expected"),
    [
        ("It was Paris.", ["Paris"], 1.0),
        ("the capital, Paris", ["London", "paris"], 1.0),
        ("It was london", ["Paris"], 0.0),
        ("in the U.S. army", ["US Army"], 1.0),
        ("a party", ["art"], 1.0),
        ("Her grade was A+.", ["A+"], 0.0),
        ("*", ["*"], 0.0),
        ("", [""], 0.0),
        ("", ["Paris"], 0.0),
        ("A+ means best", ["A+", "best"], 1.0),
    ],
)
def test_contains_answer_by_hand(text, answers, expected):
    assert contains_answer(text, answers) == expected


def test_a_substring_of_raw_text_is_wrong():
    text, answer = "sung by Beatles, in 1965", "The Beatles"
    assert answer not in text
    assert contains_answer(text, [answer]) == 1.0
    text, answer = "graded A+ twice", "A+"
    assert answer in text and normalize(answer) in normalize(text)
    assert contains_answer(text, [answer]) == 0.0


@repeatable
@given(texts, references)
def test_bounds_and_order_of_the_metrics(prediction, answers):
    match, f1, contains = (metric(prediction, answers) for metric in METRICS.values())
    assert match in (0.0, 1.0) and contains in (0.0, 1.0) and 0.0 <= f1 <= 1.0
    assert f1 >= match
    for metric in METRICS.values():
        assert metric(prediction, answers) == metric(prediction, tuple(reversed(answers)))
        assert metric(prediction, answers) == max(metric(prediction, [answer]) for answer in answers)


@repeatable
@given(texts, texts)
def test_symmetric_and_reflexive_cases(left, right):
    assert exact_match(left, [right]) == exact_match(right, [left])
    assert token_f1(left, [right]) == token_f1(right, [left])
    assert exact_match(left, [left]) == token_f1(left, [left]) == 1.0
    assert contains_answer(left, [left]) == float(bool(normalize(left)))
    if exact_match(left, [right]) and normalize(left):
        assert contains_answer(left, [right]) == 1.0


@each("metric", METRICS.values())
@each(
    ("prediction", "answers", "message"),
    [
        (None, ["Paris"], "must be a string; got NoneType"),
        (["Paris"], ["Paris"], "must be a string; got list"),
        (float("nan"), ["Paris"], "must be a string; got float"),
        ("Paris", "Paris", r"answers must be a list; got str; write \[answers\] for a single one"),
        ("Paris", [], "answers must hold at least 1; got none"),
        ("Paris", (), "answers must hold at least 1; got none"),
        ("Paris", None, "answers must be a list; got NoneType"),
        ("Paris", {"Paris"}, "answers must be a list; got set"),
        ("Paris", ["Paris", 7], r"answers\[1\] must be a string; got int"),
        ("Paris", [["Paris"]], r"answers\[0\] must be a string; got list"),
    ],
)
def test_bad_input_raises(metric, prediction, answers, message):
    with pytest.raises(ValueError, match=message):
        metric(prediction, answers)


@each("text", [None, 3, b"Paris", ["Paris"]])
def test_normalize_refuses_what_is_no_string(text):
    with pytest.raises(ValueError, match="text must be a string"):
        normalize(text)
