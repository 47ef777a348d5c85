"""ECoRAG: labels, losses, compression; cases by hand, properties, recorded cases, wrong formulas that must fail."""

import math
from itertools import product

import conformance
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import each
from scipy.special import logsumexp

from rag_utils.ecorag import (
    LABELS,
    compress,
    compressor_loss,
    evidentiality,
    info_nce,
    label_statistics,
    mine,
    strong_loss,
    weak_loss,
)

repeatable = settings(deadline=None, derandomize=True, max_examples=60)
LOSSES = conformance.cases("ecorag", "ecorag.info_nce")
FLAGS = (True, False)
BY_HAND = {  # closed book, with the sentence, with a strong sentence and this one
    (False, True, True): "strong",
    (False, True, False): "strong",  # it breaks another strong sentence, and is strong all the same
    (False, True, None): "strong",
    (False, False, True): "weak",
    (False, False, False): "distractor",
    (False, False, None): "undefined",
    (True, True, True): "weak",  # right with and without: nothing to show
    (True, True, False): "distractor",
    (True, True, None): "undefined",
    (True, False, True): "weak",
    (True, False, False): "distractor",  # it talks the reader out of what it knows
    (True, False, None): "undefined",
}


# --- labels --------------------------------------------------------------------------------------


def test_every_input_has_its_label():
    assert set(BY_HAND) == set(product(FLAGS, FLAGS, (True, False, None)))
    assert {said: evidentiality(*said) for said in BY_HAND} == BY_HAND


def test_scores_of_0_and_1_will_do():
    for closed, alone, beside in product(FLAGS, repeat=3):
        expected = BY_HAND[closed, alone, beside]
        assert evidentiality(float(closed), int(alone), np.bool_(beside)) == expected
        assert evidentiality(np.float32(closed), np.int64(alone), float(beside)) == expected


def test_other_definitions_of_a_label_are_wrong():
    def no_closed_book(_, alone, beside):
        return "strong" if alone else {None: "undefined", True: "weak", False: "distractor"}[beside]

    def harm_first(closed, alone, beside):
        if beside is False:
            return "distractor"
        return "strong" if alone and not closed else {None: "undefined", True: "weak"}[beside]

    def never_undefined(closed, alone, beside):
        return "strong" if alone and not closed else "weak" if beside else "distractor"

    for wrong, misses in ((no_closed_book, 3), (harm_first, 1), (never_undefined, 3)):
        assert sum(wrong(*said) != label for said, label in BY_HAND.items()) == misses


@each("wrong", [np.nan, 0.5, 2, -1, "True", [True], np.array([True])])
def test_evidentiality_refuses(wrong):
    names = ("closed_book", "with_sentence", "strong_with_sentence")
    for place, name in enumerate(names):
        said = [True, True, True]
        said[place] = wrong
        with pytest.raises(ValueError, match=f"{name} must be True or False; got"):
            evidentiality(*said)


def test_only_the_last_may_be_none():
    with pytest.raises(ValueError, match="closed_book must be True or False; got None"):
        evidentiality(None, True, True)
    with pytest.raises(ValueError, match="with_sentence must be True or False; got None"):
        evidentiality(True, None, True)


# --- mining --------------------------------------------------------------------------------------


class Reader:
    """Three functions for `mine`, right where `right` says so, and a list of everything they were asked."""

    def __init__(self, right):
        self.right, self.calls = right, []

    def __call__(self, asked):
        self.calls.append(list(asked))
        return [self.right(one) for one in asked]


def mined(questions, sentences, closed, alone, beside):
    readers = [Reader(right) for right in (closed, alone, beside)]
    names = ("closed_book", "with_sentence", "strong_with_sentence")
    return mine(questions, sentences, **dict(zip(names, readers, strict=True))), [reader.calls for reader in readers]


def test_mining_by_hand():
    """q1 is known by heart; q2 has two strong sentences; q3 has none."""
    labels, calls = mined(
        ["q1", "q2", "q3"],
        [["a", "b"], ["c", "d", "e", "f"], ["g"]],
        {"q1": True, "q2": False, "q3": False}.get,
        lambda asked: asked in {("q2", "d"), ("q2", "f")},
        {("q2", "d", "c"): True, ("q2", "d", "e"): False}.get,
    )
    assert labels == [["undefined"] * 2, ["weak", "strong", "distractor", "strong"], ["undefined"]]
    assert calls == [
        [["q1", "q2", "q3"]],
        [[("q2", "c"), ("q2", "d"), ("q2", "e"), ("q2", "f"), ("q3", "g")]],  # q1 is not asked again
        [[("q2", "d", "c"), ("q2", "d", "e")]],  # beside the first strong sentence, and not the strong ones
    ]


def test_what_is_not_needed_is_not_asked():
    labels, calls = mined(["q"], [["a", "b"]], lambda _: True, None, None)
    assert labels == [["undefined", "undefined"]] and calls == [[["q"]], [], []]
    labels, calls = mined(["q"], [["a", "b"]], lambda _: False, lambda _: False, None)
    assert labels == [["undefined", "undefined"]] and calls[2] == []
    labels, calls = mined(["q"], [["a", "b"]], lambda _: False, lambda _: True, None)
    assert labels == [["strong", "strong"]] and calls[2] == []


@repeatable
@given(
    st.lists(st.tuples(st.sampled_from("pqr"), st.lists(st.sampled_from("abcd"), min_size=1)), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
)
def test_mining_asks_each_call_once_and_labels_by_the_rule(rows, seed):
    rng, drawn = np.random.default_rng(seed), {}

    def right(asked):
        return drawn.setdefault(asked, bool(rng.integers(2)))

    questions, sentences = [row[0] for row in rows], [row[1] for row in rows]
    labels, calls = mined(questions, sentences, right, right, right)
    assert [len(row) for row in labels] == [len(row) for row in sentences]
    for asked in calls:
        assert len(asked) <= 1 and all(len(set(batch)) == len(batch) > 0 for batch in asked)
    for question, own, found in zip(questions, sentences, labels, strict=True):
        alone = {sentence: drawn.get((question, sentence)) for sentence in own}
        first = next((sentence for sentence in own if alone[sentence]), None)
        for sentence, label in zip(own, found, strict=True):
            if drawn[question]:
                assert label == "undefined" and alone[sentence] is None  # known by heart: not asked
            else:
                beside = None if first is None else drawn.get((question, first, sentence))
                assert label == evidentiality(False, alone[sentence], beside)
        assert ("undefined" in found) == ("strong" not in found)


@each(
    ("questions", "sentences", "message"),
    [
        ([], [], "questions must hold at least 1; got none"),
        ("q", [["a"]], "questions must be a list; got str"),
        (["q"], [], "sentences must hold at least 1; got none"),
        (["q"], [["a"], ["b"]], "lengths must be equal; got 2 sentences, 1 questions"),
        (["q"], ["ab"], "the sentences of a question must be a list; got str"),
        (["q"], [[]], "the sentences of a question must hold at least 1; got none"),
        (["q"], None, "sentences must be a list; got NoneType"),
    ],
)
def test_mine_refuses(questions, sentences, message):
    with pytest.raises(ValueError, match=message):
        mined(questions, sentences, lambda _: False, lambda _: False, lambda _: False)


def test_mine_refuses_replies_that_are_no_verdicts():
    def call(closed=(False,), alone=(True, False), beside=(True,)):
        said = (lambda asked, replies=replies: replies for replies in (closed, alone, beside))
        names = ("closed_book", "with_sentence", "strong_with_sentence")
        return mine(["q"], [["a", "b"]], **dict(zip(names, said, strict=True)))

    assert call() == [["strong", "weak"]]
    assert call(alone=np.array([0.0, 1.0]), beside=np.array([False])) == [["distractor", "strong"]]
    with pytest.raises(ValueError, match="lengths must be equal; got 2 replies, 1 asked"):
        call(closed=(False, True))
    with pytest.raises(ValueError, match="a reply of with_sentence must be True or False; got nan"):
        call(alone=(True, np.nan))
    with pytest.raises(ValueError, match=r"a reply of strong_with_sentence must be True or False; got 0\.7"):
        call(beside=(0.7,))


def test_statistics_by_hand():
    found = label_statistics([["strong", "weak", "distractor", "weak"], ["undefined"] * 3, ["strong"]])
    assert LABELS == ("strong", "weak", "distractor", "undefined")
    assert found.counts.tolist() == [[1, 2, 1, 0], [0, 0, 0, 3], [1, 0, 0, 0]]
    assert found.total == {"strong": 2, "weak": 2, "distractor": 1, "undefined": 3}
    assert (found.questions, found.with_strong) == (3, 2)
    assert label_statistics([["strong", "strong"], ["undefined"]]).with_strong == 1


@repeatable
@given(st.lists(st.lists(st.sampled_from(LABELS), min_size=1), min_size=1, max_size=5))
def test_statistics_add_up(labels):
    found = label_statistics(labels)
    assert found.counts.shape == (len(labels), 4) and found.counts.sum(axis=1).tolist() == list(map(len, labels))
    assert sum(found.total.values()) == sum(map(len, labels))
    assert found.with_strong == sum("strong" in own for own in labels) <= found.questions == len(labels)


@each(
    ("labels", "message"),
    [
        ([], "s must hold at least 1"),
        ([["weak"], []], "s must hold at least 1"),
        (["weak"], "labels must be a list; got str"),
        ([["week"]], "unknown label 'week'; did you mean 'weak'"),
        ([[None]], "unknown label None"),
    ],
)
def test_statistics_refuse(labels, message):
    with pytest.raises(ValueError, match=message):
        label_statistics(labels)


# --- losses --------------------------------------------------------------------------------------

similarity = st.floats(-50, 50)
similarities = st.lists(similarity, min_size=1, max_size=6)
temperature = st.floats(0.05, 20)


@each(
    ("positive", "negatives", "options", "expected"),
    [
        (0.0, [0.0], {}, math.log(2)),
        (math.log(3), [0.0], {}, math.log(4 / 3)),  # 3 of 3 + 1
        (math.log(2), [math.log(5), 0.0, 0.0], {}, math.log(9 / 2)),
        (math.log(3), [0.0], {"temperature": 0.5}, math.log(10 / 9)),  # 9 of 9 + 1
        (1, (1, 1, 1), {"temperature": 3}, math.log(4)),
    ],
)
def test_info_nce_by_hand(positive, negatives, options, expected):
    found = info_nce(positive, negatives, **options)
    assert type(found) is float and found == pytest.approx(expected, abs=1e-15)
    assert info_nce(np.float64(positive), np.array(negatives), **options) == found


@each("case", LOSSES, ids=lambda case: case["name"])
def test_losses_are_the_recorded_ones(case):
    (positive, negatives), expected = case["inputs"].values(), case["expected"]
    if "weak" in case["name"]:
        labels = ["weak", *["distractor"] * 3, "strong"]
        assert weak_loss([positive, *negatives, 1.2], labels) == pytest.approx(expected, rel=1e-12)
    else:
        labels = ["strong", *["distractor"] * 3, "weak"]
        assert strong_loss([positive, *negatives], labels) == pytest.approx(expected, rel=1e-12)


@repeatable
@given(similarity, similarities, temperature)
def test_info_nce_is_minus_the_logarithm_of_a_softmax(positive, negatives, temperature):
    found = info_nce(positive, negatives, temperature=temperature)
    every = np.array([positive, *negatives]) / temperature
    assert found == pytest.approx(logsumexp(every) - every[0], abs=1e-9) and found >= 0


@repeatable
@given(similarity, similarities, st.floats(-1e6, 1e6), temperature)
def test_a_constant_added_to_all_changes_nothing(positive, negatives, constant, temperature):
    moved = info_nce(positive + constant, [one + constant for one in negatives], temperature=temperature)
    assert moved == pytest.approx(info_nce(positive, negatives, temperature=temperature), abs=1e-6)


@repeatable
@given(similarity, st.integers(1, 40), temperature)
def test_equal_similarities_cost_the_logarithm_of_their_number(value, m, temperature):
    assert info_nce(value, [value] * m, temperature=temperature) == pytest.approx(math.log(1 + m), abs=1e-12)


@repeatable
@given(similarity, similarities, st.floats(0, 50), temperature, st.randoms(use_true_random=False))
def test_info_nce_falls_with_the_positive_and_rises_with_a_negative(positive, negatives, more, temperature, random):
    def loss(positive, negatives):
        return info_nce(positive, negatives, temperature=temperature)

    here = loss(positive, negatives)
    assert loss(positive + more, negatives) <= here + 1e-12
    assert loss(positive, [one + more for one in negatives]) >= here - 1e-12
    assert loss(positive, [*negatives, positive]) >= here - 1e-12
    assert loss(positive, random.sample(negatives, len(negatives))) == pytest.approx(here, abs=1e-9)
    assert info_nce(positive * 3, [one * 3 for one in negatives], temperature=temperature * 3) == pytest.approx(here)


def test_strictly_where_floats_can_tell():
    losses = [info_nce(positive, [0.0, 1.0]) for positive in np.linspace(-5, 30, 50)]
    assert (np.diff(losses) < 0).all() and losses[-1] > 0


@each(
    ("positive", "negatives", "expected"),
    [
        (1e4, [1e4], math.log(2)),  # exp(10000) overflows
        (-1e4, [-1e4], math.log(2)),  # exp(-10000) is 0, so the share would be 0 / 0
        (0.0, [1e300], 1e300),
        (1e308, [-1e308], 0.0),
        (0.0, [-40.0], math.exp(-40)),  # 1 + exp(-40) is 1, so the logarithm of a share would be 0
        (2**53, [2**53 + 2], 2 + math.log1p(math.exp(-2))),
    ],
)
def test_large_similarities(positive, negatives, expected):
    assert info_nce(positive, negatives) == pytest.approx(expected, rel=1e-12)


def test_a_loss_beyond_floats_is_refused():
    with pytest.raises(ValueError, match=r"must not lie so far apart; at temperature 1\.0 the loss is inf"):
        info_nce(-1e308, [1e308, 0.0])
    with pytest.raises(ValueError, match="must not lie so far apart"):
        info_nce(0.0, [1.0], temperature=1e-320)


def test_wrong_contrastive_losses():
    positive, negatives, t = 2.0, np.array([0.5, 1.0]), 0.5
    right = info_nce(positive, negatives, temperature=t)
    weights, own = np.exp(negatives / t), np.exp(positive / t)
    assert right == pytest.approx(-np.log(own / (own + weights.sum())))
    without_the_positive_below = -np.log(own / weights.sum())
    assert without_the_positive_below < 0
    temperature_outside = info_nce(positive, negatives) / t
    averaged_negatives = -np.log(own / (own + weights.mean()))
    in_bits = right / np.log(2)
    margins = np.mean([info_nce(positive, [one], temperature=t) for one in negatives])
    for wrong in (without_the_positive_below, temperature_outside, averaged_negatives, in_bits, margins):
        assert abs(wrong - right) > 0.05


@each(
    ("positive", "negatives", "options", "message"),
    [
        (np.nan, [0.0], {}, "positive must be one finite number; got nan"),
        (np.inf, [0.0], {}, "positive must be one finite number; got inf"),
        ([0.5], [0.0], {}, "positive must be one finite number; got"),
        (None, [0.0], {}, "got None"),
        ("0.5", [0.0], {}, "positive must be one finite number"),
        (0.5, [0.0, np.nan], {}, "negatives must be finite; got 1 NaN or infinite"),
        (0.5, [-np.inf, np.inf], {}, "got 2 NaN or infinite"),
        (0.5, 0.1, {}, r"negatives must be a list of numbers; got 0\.1"),
        (0.5, [[0.1, 0.2]], {}, r"got shape \(1, 2\)"),
        (0.5, [[0.1], [0.2, 0.3]], {}, "negatives must be rows of equal length; got a ragged list"),
        (0.5, ["0.1"], {}, "negatives must be numbers; got '0.1'"),
        (0.5, [None], {}, "negatives must be numbers; got None"),
        (0.5, [0.1], {"temperature": 0}, "temperature must be above 0; got 0"),
        (0.5, [0.1], {"temperature": -1.0}, r"temperature must be above 0; got -1\.0"),
        (0.5, [0.1], {"temperature": np.nan}, "temperature must be one finite number; got nan"),
        (0.5, [0.1], {"temperature": np.inf}, "temperature must be one finite number; got inf"),
        (0.5, [], {}, r"negatives must hold at least 1 number\(s\); got shape \(0,\)"),
    ],
)
def test_info_nce_refuses(positive, negatives, options, message):
    with pytest.raises(ValueError, match=message):
        info_nce(positive, negatives, **options)


SCORES = [2.0, 1.5, 1.0, 0.5, 0.0, 9.0]
SIX = ["strong", "strong", "weak", "weak", "distractor", "undefined"]


def test_losses_of_a_question_by_hand():
    """Two strong against two weak and one distractor; two weak against one distractor; the undefined one nowhere."""
    e = np.exp
    strong = np.mean([-np.log(e(s) / (e(s) + e(1.0) + e(0.5) + e(0.0))) for s in (2.0, 1.5)])
    weak = np.mean([-np.log(e(s) / (e(s) + e(0.0))) for s in (1.0, 0.5)])
    assert strong_loss(SCORES, SIX) == pytest.approx(strong)
    assert weak_loss(SCORES, SIX) == pytest.approx(weak)
    assert compressor_loss(SCORES, SIX) == pytest.approx(strong + weak)
    assert compressor_loss(SCORES, SIX, temperature=0.1) != pytest.approx(strong + weak)


def test_wrong_choices_of_negatives():
    only_distractors = np.mean([info_nce(s, [0.0]) for s in (2.0, 1.5)])
    each_other_too = np.mean([info_nce(2.0, [1.5, 1.0, 0.5, 0.0]), info_nce(1.5, [2.0, 1.0, 0.5, 0.0])])
    undefined_too = np.mean([info_nce(s, [1.0, 0.5, 0.0, 9.0]) for s in (2.0, 1.5)])
    for wrong in (only_distractors, each_other_too, undefined_too):
        assert abs(wrong - strong_loss(SCORES, SIX)) > 0.1
    strong_as_negative = np.mean([info_nce(s, [0.0, 2.0, 1.5]) for s in (1.0, 0.5)])
    assert abs(strong_as_negative - weak_loss(SCORES, SIX)) > 0.1


@each(
    ("labels", "strong", "weak"),
    [
        (["undefined", "undefined"], None, None),  # no strong evidence: the question teaches nothing
        (["distractor", "distractor"], None, None),
        (["strong", "strong"], None, None),  # nothing to be told apart from
        (["strong", "weak"], math.log(2), None),
        (["weak", "distractor"], None, math.log(2)),
    ],
)
def test_a_loss_without_positives_or_negatives_is_none(labels, strong, weak):
    """0 would look like a compressor that has learnt it; the sum is that of the parts there are."""
    scores, parts = [0.3, 0.3], [part for part in (strong, weak) if part is not None]
    for loss, expected in ((strong_loss, strong), (weak_loss, weak), (compressor_loss, sum(parts) if parts else None)):
        if expected is None:
            with pytest.raises(ValueError, match=r"labels must hold (strong|weak) and one of .*; got (1|2) "):
                loss(scores, labels)
        else:
            assert loss(scores, labels) == pytest.approx(expected)


@repeatable
@given(
    st.lists(st.tuples(st.floats(-5, 5), st.sampled_from(LABELS)), min_size=1, max_size=8),
    st.floats(-10, 10),
    st.floats(0.1, 10),
    st.randoms(use_true_random=False),
)
def test_losses_ignore_order_and_constants_and_reward_the_right_order(rows, constant, temperature, random):
    rows += [(0.5, "strong"), (0.25, "weak"), (0.0, "distractor")]
    scores, labels = zip(*rows, strict=True)
    shuffled = zip(*random.sample(rows, len(rows)), strict=True)
    for loss in (strong_loss, weak_loss, compressor_loss):
        here = loss(scores, labels, temperature=temperature)
        assert type(here) is float and here >= 0
        assert loss([score + constant for score in scores], labels, temperature=temperature) == pytest.approx(here)
    again = list(shuffled)
    assert compressor_loss(*again, temperature=temperature) == pytest.approx(here)
    rank = {"strong": 100.0, "weak": 50.0, "distractor": 0.0, "undefined": 7.0}
    assert compressor_loss([rank[label] for label in labels], labels) < 1e-20  # eq. 1 holds by far


@each("loss", [strong_loss, weak_loss, compressor_loss])
@each(
    ("scores", "labels", "options", "message"),
    [
        ([], [], {}, "(scores|labels) must hold at least 1"),
        ([0.1], ["strong", "weak"], {}, "lengths must be equal; got 1 scores, 2 labels"),
        ([0.1, np.nan], ["strong", "weak"], {}, "scores must be finite; got 1"),
        ([[0.1]], ["strong"], {}, r"got shape \(1, 1\)"),
        ([0.1], ["Strong"], {}, "unknown label 'Strong'; did you mean 'strong'"),
        ([0.1], "weak", {}, "labels must be a list; got str"),
        (
            [0.1, 0.2, 0.3],
            ["strong", "weak", "distractor"],
            {"temperature": 0.0},
            r"temperature must be above 0; got 0\.0",
        ),
    ],
)
def test_losses_refuse(loss, scores, labels, options, message):
    with pytest.raises(ValueError, match=message):
        loss(scores, labels, **options)


# --- compress ------------------------------------------------------------------------------------


class Evaluator:
    """Sufficient from `needed` sentences on; keeps what it was asked."""

    def __init__(self, needed):
        self.needed, self.asked = needed, []

    def __call__(self, kept):
        self.asked.append(kept)
        return len(kept) >= self.needed


SENTENCES = [f"sentence {i}" for i in range(10)]
FALLING = np.arange(10, 0, -1)


@each(
    ("needed", "options", "kept", "asked"),
    [
        (1, {}, 4, [4]),  # four at a time, as in the appendix
        (5, {}, 8, [4, 8]),
        (99, {}, 10, [4, 8, 10]),  # all of them; the last step is smaller
        (99, {"limit": 8}, 8, [4, 8]),
        (99, {"limit": 6}, 6, [4, 6]),  # never above the limit
        (1, {"limit": 3}, 3, [3]),
        (1, {"step": 1}, 1, [1]),  # one at a time, as in section 3.2
        (3, {"step": 1}, 3, [1, 2, 3]),
        (99, {"step": 1, "limit": 2}, 2, [1, 2]),
        (1, {"step": 50}, 10, [10]),
        (99, {"step": np.int64(5), "limit": np.int64(20)}, 10, [5, 10]),
    ],
)
def test_compress_by_hand(needed, options, kept, asked):
    evaluator = Evaluator(needed)
    assert compress(SENTENCES, FALLING, evaluator, **options) == list(range(kept))
    assert evaluator.asked == [SENTENCES[:count] for count in asked]


def test_best_score_first_and_ties_in_order():
    scores = [0.1, 0.9, 0.5, 0.9, 0.5]
    evaluator = Evaluator(99)
    assert compress(list("abcde"), scores, evaluator, step=2) == [1, 3, 2, 4, 0]
    assert evaluator.asked == [["b", "d"], ["b", "d", "c", "e"], ["b", "d", "c", "e", "a"]]
    wrong = np.argsort(scores)[::-1].tolist()  # turns ties round
    assert wrong != [1, 3, 2, 4, 0] and sorted(scores, reverse=True) == [scores[i] for i in wrong]
    assert compress(list("abc"), np.array([0, 2, 1], dtype=np.uint8), Evaluator(99)) == [1, 2, 0]


def test_wrong_ways_to_compress():
    """In document order; judging only what was added; a fixed number."""
    scores, needed = [0.2, 0.9, 0.4, 0.8], {"b", "c"}
    ours = compress(list("abcd"), scores, lambda kept: needed <= set(kept), step=1)
    assert ours == [1, 3, 2]
    assert sorted(ours) != ours
    only_the_new = [place for place in (1, 3, 2, 0) if needed <= set("abcd"[place])]
    assert only_the_new == []  # no sentence alone is enough, so this would never stop
    assert compress(list("abcd"), scores, Evaluator(0), step=2) == [1, 3] != ours


@repeatable
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=30),
    st.integers(1, 8),
    st.integers(1, 25),
    st.integers(0, 40),
)
def test_compress_keeps_a_sorted_prefix_and_asks_as_often_as_needed(scores, step, limit, needed):
    sentences = [f"{i}" for i in range(len(scores))]
    evaluator = Evaluator(needed)
    kept = compress(sentences, [score / 7 for score in scores], evaluator, step=step, limit=limit)
    assert all(type(place) is int for place in kept)
    everything = sorted(range(len(scores)), key=lambda place: -scores[place])  # Python's sort is stable
    assert kept == everything[: len(kept)]
    most = min(limit, len(scores))
    assert 1 <= len(kept) <= most
    enough = max(1, math.ceil(needed / step)) * step  # the first multiple of the step that suffices
    assert len(kept) == min(enough, most)
    assert len(evaluator.asked) == math.ceil(len(kept) / step)
    assert evaluator.asked[-1] == [sentences[place] for place in kept]
    for before, after in zip(evaluator.asked, evaluator.asked[1:], strict=False):
        assert after[: len(before)] == before and len(before) < needed  # no question after a yes


def test_a_smaller_limit_cuts_the_same_list():
    scores = np.sin(np.arange(30))
    longest = compress([""] * 30, scores, lambda kept: False)
    assert len(longest) == 20
    assert compress([""] * 30, scores, lambda kept: False, limit=7) == longest[:7]


def test_the_evaluators_list_is_its_own():
    def greedy(kept):
        kept.clear()
        return False

    assert compress(list("abc"), [3, 2, 1], greedy, step=1) == [0, 1, 2]


@each(
    ("sentences", "scores", "options", "message"),
    [
        ([], [], {}, "sentences must hold at least 1; got none"),
        ("ab", [1, 2], {}, "sentences must be a list; got str"),
        (["a", "b"], [1], {}, "lengths must be equal; got 1 scores, 2 sentences"),
        (["a", "b"], [1, np.nan], {}, "scores must be finite; got 1"),
        (["a", "b"], [1, -np.inf], {}, "scores must be finite; got 1"),
        (["a", "b"], [[1], [2]], {}, r"got shape \(2, 1\)"),
        (["a", "b"], ["1", "2"], {}, "scores must be numbers; got '1'"),
        (["a"], [1], {"step": 0}, "step must be a whole number of at least 1; got 0"),
        (["a"], [1], {"step": 1.0}, "step must be a whole number"),
        (["a"], [1], {"limit": 0}, "limit must be a whole number of at least 1; got 0"),
        (["a"], [1], {"limit": -5}, "got -5"),
        (["a"], [1], {"limit": True}, "got True"),
        (["a"], [1], {"limit": None}, "got None"),
    ],
)
def test_compress_refuses(sentences, scores, options, message):
    with pytest.raises(ValueError, match=message):
        compress(sentences, scores, lambda kept: True, **options)


@each("reply", [0.7, np.nan, None, "yes", [True]])
def test_compress_refuses_an_evaluator_that_does_not_decide(reply):
    with pytest.raises(ValueError, match="the evaluator's reply must be True or False; got"):
        compress(["a"], [1.0], lambda kept: reply)
