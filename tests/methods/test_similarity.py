"""ROUGE-L, BLEU and BERTScore: cases by hand, second implementations, the packages, wrong formulas that must fail."""

import math
from collections import Counter

import conformance
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import each

from rag_utils import retrieve
from rag_utils.similarity import bertscores, bleu, rouge_l

repeatable = settings(deadline=None, derandomize=True, max_examples=60)


def bertscore(prediction, answers, encoder=None):
    return float(bertscores([prediction], [answers], encoder=encoder or retrieve.token_encoder())[0])


VOCABULARY = ["red", "fox", "hen", "house", "noon"]
texts = st.lists(st.sampled_from(VOCABULARY), max_size=7).map(" ".join)
references = st.lists(texts, min_size=1, max_size=3)


def toy(texts):
    """One fixed direction per word, whatever its neighbours."""
    table = np.random.default_rng(3).normal(size=(len(VOCABULARY), 4)) + 0.6
    return [np.array([table[VOCABULARY.index(word)] for word in text.split()]) for text in texts]


def toy_score(prediction, answers):
    return bertscore(prediction, answers, encoder=toy)


METRICS = {"rouge_l": rouge_l, "bleu": bleu, "bertscore": toy_score}
each_metric = each("metric", METRICS.values(), ids=METRICS)


# --- all three -----------------------------------------------------------------------------------


@each_metric
@repeatable
@given(prediction=texts, answers=references)
def test_bounds_best_over_references_and_same_text(metric, prediction, answers):
    score = metric(prediction, answers)
    assert type(score) is float and 0 <= score <= 1
    assert score == max(metric(prediction, [answer]) for answer in answers)
    assert metric(prediction, tuple(answers[::-1])) == score
    assert metric(prediction, [prediction]) == pytest.approx(1 if prediction else 0)
    assert metric("", answers) == 0


@each_metric
@each(
    ("prediction", "answers", "message"),
    [
        (None, ["red"], r"predictions?(\[0\])? must be a string; got NoneType"),
        (float("nan"), ["red"], "got float"),
        ("red", "red", "references must be a list; got str"),
        ("red", None, "got NoneType"),
        ("red", [], "references must hold at least 1; got none"),
        ("red", ["red", 7], r"references\[1\] must be a string; got int"),
    ],
)
def test_bad_input_is_refused(metric, prediction, answers, message):
    with pytest.raises(ValueError, match=message):
        metric(prediction, answers)


# --- ROUGE-L -------------------------------------------------------------------------------------


@each(
    ("prediction", "answers", "expected"),
    [
        ("Paris", ["Paris."], 1),
        ("France Paris", ["Paris, France"], 1 / 2),  # the order counts: one word of two in sequence
        ("the red fox sings", ["red fox"], 2 * (2 / 4) * 1 / (2 / 4 + 1)),
        ("red hen fox", ["red fox"], 2 * (2 / 3) * 1 / (2 / 3 + 1)),  # gaps are allowed
        ("London", ["Paris"], 0),
        ("red fox", ["hen", "red", "red fox house"], 2 * 1 * (2 / 3) / (1 + 2 / 3)),
        ("école", ["cole"], 1),  # a letter with an accent is no letter to the package
        ("Москва", ["Москва"], 0),
    ],
)
def test_rouge_l_by_hand(prediction, answers, expected):
    assert rouge_l(prediction, answers) == pytest.approx(expected)


def common_subsequence(left, right):
    row = [0] * (len(right) + 1)
    for word in left:
        for j, (old, other) in enumerate(zip(row[:], right, strict=False), 1):
            row[j] = old + 1 if word == other else max(row[j], row[j - 1])
    return row[-1]


@repeatable
@given(texts, texts)
def test_rouge_l_equals_a_second_implementation(prediction, answer):
    left, right = prediction.split(), answer.split()
    common = common_subsequence(left, right)
    assert rouge_l(prediction, [answer]) == pytest.approx(2 * common / (len(left) + len(right)) if common else 0)


def test_counting_common_words_in_any_order_is_wrong():
    common = sum((Counter(["fox", "red"]) & Counter(["red", "fox"])).values())
    assert 2 * common / 4 == 1.0
    assert rouge_l("fox red", ["red fox"]) == 0.5


# --- BLEU ----------------------------------------------------------------------------------------


@each(
    ("prediction", "answers", "expected"),
    [
        ("Paris", ["Paris"], 1),
        ("paris", ["Paris"], 0),  # upper and lower case differ
        ("red fox", ["red fox"], 1),
        ("red", ["red fox"], math.exp(1 - 2)),  # precision 1, half as long
        ("red fox hen", ["red fox"], (2 / 3 * 1 / 2 * 1 / 2) ** (1 / 3)),  # no trigram of one: smoothed to 1/2
        ("red hen", ["red fox"], (1 / 2 * 1 / 2) ** (1 / 2)),  # no bigram of one: smoothed to 1/2
        (
            "red red red",
            ["red fox hen"],
            (1 / 3 * 1 / 4 * 1 / 4) ** (1 / 3),
        ),  # counts are clipped; then 1/(2 2), 1/(4 1)
    ],
)
def test_bleu_by_hand(prediction, answers, expected):
    assert bleu(prediction, answers) == pytest.approx(expected)


def second_bleu(prediction, answer):
    left, right = prediction.split(), answer.split()
    logarithms, smoothing = [], 1
    for n in range(1, min(4, len(left)) + 1):
        ours, theirs = (Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for words in (left, right))
        common, total = sum((ours & theirs).values()), sum(ours.values())
        if n == 1 and not common:
            return 0.0
        if not common:
            smoothing *= 2
        logarithms.append(math.log(common / total if common else 1 / (smoothing * total)))
    brevity = min(0.0, 1 - len(right) / len(left)) if left else 0.0
    return math.exp(np.mean(logarithms) + brevity) if left else 0.0


@repeatable
@given(texts, texts)
def test_bleu_equals_a_second_implementation(prediction, answer):
    assert bleu(prediction, [answer]) == pytest.approx(second_bleu(prediction, answer), abs=1e-9)


def test_full_order_and_pooled_references_are_other_numbers():
    from sacrebleu import sentence_bleu

    assert sentence_bleu("Paris", ["Paris"], use_effective_order=False).score < 100
    assert bleu("Paris", ["Paris"]) == 1
    pooled = sentence_bleu("red fox hen house", ["red fox noon", "noon hen house"]).score / 100
    assert bleu("red fox hen house", ["red fox noon", "noon hen house"]) < pooled


# --- BERTScore -----------------------------------------------------------------------------------


def test_a_negative_precision_or_recall_counts_as_0_unlike_in_the_package():
    negative = conformance.beside("bertscore")["package_where_negative"]
    assert all(min(case["precision"], case["recall"]) < 0 != case["F1"] for case in negative)
    expected = [case["expected"] for case in conformance.cases("bertscore") if "negative" in case["name"]]
    assert expected == [[0.0]] * len(negative) == [[0.0]] * 2


def test_bertscore_by_hand():
    """Cosines red-red 1, fox-hen 0.8, all others 0: precision (1 + 0.8) / 2, recall (1 + 0.8 + 0) / 3."""
    table = {"red": [2, 0, 0, 0], "fox": [0, 5, 0, 0], "hen": [0, 0.8, 0.6, 0], "noon": [0, 0, 0, 1]}

    def encode(texts):
        return [np.array([table[word] for word in text.split()]) for text in texts]

    precision, recall = 0.9, 0.6
    expected = 2 * precision * recall / (precision + recall)
    assert bertscore("red fox", ["red hen noon"], encoder=encode) == pytest.approx(expected)
    assert bertscore("noon", ["red"], encoder=encode) == 0
    one_to_one = (1 + 0.8 + 0) / 3  # wrong: each token used once, padded to the longer text
    dots = 2 * 1.5 * 1.0 / 2.5  # wrong: embeddings not brought to length 1
    assert abs(expected - one_to_one) > 0.05 and abs(expected - dots) > 0.05


@repeatable
@given(st.lists(st.tuples(texts, references), max_size=5))
def test_a_batch_is_its_members_and_encodes_each_text_once(pairs):
    seen = []

    def counting(texts):
        seen.extend(texts)
        return toy(texts)

    predictions, answers = [one for one, _ in pairs], [many for _, many in pairs]
    scores = bertscores(predictions, answers, encoder=counting)
    assert scores.shape == (len(pairs),)
    assert scores.tolist() == [toy_score(prediction, many) for prediction, many in pairs]
    assert len(seen) == len(set(seen))


def test_bertscore_is_symmetric_and_knows_no_order():
    assert toy_score("red fox hen", ["noon"]) == pytest.approx(toy_score("noon", ["red fox hen"]))
    assert toy_score("red fox", ["fox red"]) == pytest.approx(1)


@each(
    ("predictions", "answers", "encoder", "message"),
    [
        ("red", [["red"]], toy, "predictions must be a list; got str"),
        (["red"], "red", toy, "references must be a list; got str"),
        (["red", "fox"], [["red"]], toy, "lengths must be equal; got 2 predictions, 1 references"),
        (["red"], ["red"], toy, "references must be a list; got str"),
        (["red"], [["red"]], None, "encoder must be a function; got NoneType"),
        (["red"], [["fox"]], lambda texts: [np.ones((1, 2))], "lengths must be equal; got 1 embeddings, 2 texts"),
        (
            ["red"],
            [["fox"]],
            lambda texts: [np.ones(2)] * 2,
            r"embeddings must have 2 dimension\(s\); got shape \(2,\)",
        ),
        (["red"], [["fox"]], lambda texts: [np.zeros((1, 2))] * 2, "one that is all zero"),
        (["red"], [["fox"]], lambda texts: [np.full((1, 2), np.nan)] * 2, "finite"),
        (["red"], [["fox"]], lambda texts: [np.ones((1, 2)), np.ones((1, 3))], r"of one length; got \[2, 3\]"),
    ],
)
def test_bertscores_refuses(predictions, answers, encoder, message):
    with pytest.raises(ValueError, match=message):
        bertscores(predictions, answers, encoder=encoder)


def test_the_encoder_reads_tokens_in_context_without_start_and_end():
    encode = retrieve.token_encoder()
    assert encode is retrieve.token_encoder()
    one, three, nothing, long = encode(["Paris", "Paris in France", "", "word " * 400])
    assert one.shape == (1, 384) and three.shape == (3, 384) and nothing.shape == (0, 384) and long.shape == (254, 384)
    assert np.abs(one[0] - three[0]).max() > 0.1  # the neighbours of a word change it
    [sentence] = retrieve.encoder()(["Paris in France"])  # the mean over tokens, start and end among them
    mean = three.mean(axis=0)
    assert 0.9 < mean @ sentence / np.linalg.norm(mean) < 0.9999


def test_bertscore_sees_meaning_where_words_differ():
    close = bertscore("The physician cured her", ["A doctor healed the woman"])
    far = bertscore("The physician cured her", ["A train left the station"])
    assert rouge_l("The physician cured her", ["A doctor healed the woman"]) < 0.3
    assert close > far + 0.1
    assert bertscore("Paris", ["Paris"]) == pytest.approx(1) and bertscore("", ["Paris"]) == 0
