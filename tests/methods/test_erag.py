"""eRAG: labels and ranking metrics; cases by hand, textbook definitions, properties, the public package, wrong formulas that must fail."""

import math
import re

import conformance
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import each

from rag_utils.answers import exact_match
from rag_utils.erag import annotate, rank_metrics

repeatable = settings(deadline=None, derandomize=True, max_examples=60)
PACKAGE = conformance.beside("erag")
WHOLE = ["AP", "RR", "nDCG", "P", "R", "Success"]

binary = st.lists(st.integers(0, 1), min_size=1, max_size=12)
some_relevant = binary.filter(any)
scores = st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=12)


# --- ranking metrics, labels 0 and 1 -------------------------------------------------------------


@each(
    ("labels", "expected"),
    [
        # the second and the fourth of five: AP = (1/2 + 2/4) / 2
        ([0, 1, 0, 1, 0], {"P@5": 0.4, "P@2": 0.5, "RR": 0.5, "AP": 0.5, "R@5": 1.0, "R@3": 0.5, "Success@1": 0.0}),
        # nDCG: (1/log2(3) + 1/log2(5)) / (1 + 1/log2(3))
        ([0, 1, 0, 1, 0], {"nDCG": (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3)), "nDCG@1": 0.0}),
        ([1, 0, 1], {"AP": (1 + 2 / 3) / 2, "RR": 1.0, "P": 2 / 3, "R": 1.0, "Success": 1.0, "R@1": 0.5, "AP@1": 0.5}),
        ([0, 0, 1], {"AP": 1 / 3, "RR": 1 / 3, "RR@2": 0.0, "nDCG": 0.5, "P@1": 0.0, "Success@3": 1.0}),
        ([1], dict.fromkeys(WHOLE, 1.0)),
        ([1.0, True, np.int8(1)], dict.fromkeys([*WHOLE, "P@3", "nDCG@2"], 1.0)),
    ],
)
def test_rank_metrics_by_hand(labels, expected):
    found = rank_metrics(labels, list(expected))
    assert found == pytest.approx(expected)
    assert list(found) == list(expected)
    assert all(type(value) is float for value in found.values())


def by_definition(labels, base, k):
    """A metric from its definition; R and the ideal of nDCG know the list's own relevant documents only."""
    total, k = sum(labels), len(labels) if k is None else k
    ranks = [rank for rank, label in enumerate(labels[:k], 1) if label]
    if not total:
        return 0.0
    if base == "nDCG":
        return sum(1 / math.log2(1 + r) for r in ranks) / sum(1 / math.log2(1 + r) for r in range(1, min(total, k) + 1))
    return {
        "AP": sum(sum(labels[:rank]) / rank for rank in ranks) / total,
        "RR": 1 / ranks[0] if ranks else 0.0,
        "P": len(ranks) / k,
        "R": len(ranks) / total,
        "Success": float(bool(ranks)),
    }[base]


@repeatable
@given(binary, st.one_of(st.none(), st.integers(1, 14)))
def test_rank_metrics_are_the_textbooks(labels, k):
    asked = {base if k is None else f"{base}@{k}": base for base in WHOLE}
    expected = {name: by_definition(labels, base, k) for name, base in asked.items()}
    assert rank_metrics(labels, list(asked)) == pytest.approx(expected, abs=1e-12)


def test_wrong_formulas_differ():
    labels = [0, 1, 0, 1, 1]
    found = rank_metrics(labels, ["AP", "nDCG", "R@5", "RR"])
    precision = np.cumsum(labels) / np.arange(1, 6)
    assert found["AP"] == pytest.approx((precision * labels).sum() / 3)
    assert abs(found["AP"] - (precision * labels).sum() / 5) > 0.1  # divided by k, not by the relevant documents
    assert abs(found["AP"] - precision.mean()) > 0.1
    first_discount = 1 / np.log2([2, 2, 3, 4, 5])  # log2 of the rank itself, with none before rank 3
    assert abs(found["nDCG"] - (first_discount * labels).sum() / first_discount[:3].sum()) > 0.05
    reciprocal = 1 / np.arange(1, 6)
    assert abs(found["nDCG"] - (reciprocal * labels).sum() / reciprocal[:3].sum()) > 0.05
    assert found["R@5"] != 3 / 5  # that is P@5
    assert found["RR"] != pytest.approx(np.mean([1 / 2, 1 / 4, 1 / 5]))


def test_the_base_of_the_logarithm_does_not_matter():
    """So a natural-log discount is no error: the ideal list has it too."""
    labels = np.array([0, 1, 0, 1, 1])
    natural = 1 / np.log(np.arange(2, 7))
    assert rank_metrics(labels, ["nDCG"])["nDCG"] == pytest.approx((natural * labels).sum() / natural[:3].sum())


@repeatable
@given(binary, st.integers(1, 14))
def test_bounds_and_relations(labels, k):
    found = rank_metrics(labels, [*WHOLE, f"P@{k}", f"R@{k}", f"Success@{k}", f"R@{len(labels)}"])
    assert all(0 <= value <= 1 for value in found.values())
    assert found["R"] == found[f"R@{len(labels)}"] == found["Success"]
    assert found["P"] == pytest.approx(sum(labels) / len(labels), abs=1e-12)
    assert found[f"Success@{k}"] >= max(found[f"P@{k}"], found[f"R@{k}"])
    assert found["RR"] <= found["Success"]


def test_lists_of_equal_worth_tie_whatever_order_their_terms_are_summed_in():
    tied = [[1, 0, 0, 1, 1, 0], [1, 0, 0, 0, 1, 0]]  # (1 + 2/4 + 3/5) / 3 and (1 + 2/5) / 2, which floats tell apart
    assert [rank_metrics(labels, ["AP"]) for labels in tied] == [{"AP": 0.7}] * 2
    assert sum([1, 2 / 4, 3 / 5]) / 3 != sum([1, 2 / 5]) / 2


@repeatable
@given(some_relevant)
def test_ndcg_and_ap_are_one_exactly_for_sorted_lists(labels):
    found = rank_metrics(labels, ["nDCG", "AP"])
    is_sorted = labels == sorted(labels, reverse=True)
    assert (found["nDCG"] == pytest.approx(1, abs=1e-9)) == (found["AP"] == pytest.approx(1, abs=1e-9)) == is_sorted


@repeatable
@given(some_relevant, st.data())
def test_a_relevant_document_moved_up_raises_ap(labels, data):
    lower = data.draw(st.sampled_from([place for place, label in enumerate(labels) if label]))
    upper = data.draw(st.integers(0, lower))
    moved = [*labels[:upper], 1, *labels[upper:lower], *labels[lower + 1 :]]
    before, after = rank_metrics(labels, WHOLE), rank_metrics(moved, WHOLE)
    assert all(after[name] >= before[name] - 1e-12 for name in WHOLE)
    assert (after["AP"] > before["AP"] + 1e-9) == (moved != labels)
    assert after["P"] == before["P"]


@each("labels", [[0], [0.0, 0, 0], [False] * 12])
def test_without_a_relevant_document_all_is_zero(labels):
    names = [*WHOLE, "AP@3", "RR@3", "nDCG@3", "P@3", "R@3", "Success@3"]
    assert rank_metrics(labels, names) == dict.fromkeys(names, 0.0)


def test_more_than_nine_documents_keep_their_order():
    """Ids as texts would put the tenth before the second."""
    assert rank_metrics([0] * 9 + [1, 0, 0], ["RR"]) == {"RR": pytest.approx(0.1)}


# --- ranking metrics, labels between 0 and 1 -----------------------------------------------------


def test_scores_by_hand():
    labels = [0.25, 1.0, 0.0, 0.75]
    assert rank_metrics(labels, ["P@2", "P@4", "P", "P@8", "Success@1", "Success@2", "Success", "Success@9"]) == {
        "P@2": 0.625,
        "P@4": 0.5,
        "P": 0.5,
        "P@8": 0.25,  # missing documents count as 0
        "Success@1": 0.25,
        "Success@2": 1.0,
        "Success": 1.0,
        "Success@9": 1.0,
    }
    assert rank_metrics([0.5], ["P@2"])["P@2"] != 0.5  # the mean of those that are there


@repeatable
@given(scores, st.integers(1, 14))
def test_p_and_success_follow_one_rule_for_all_labels(labels, k):
    found = rank_metrics(labels, [f"P@{k}", f"Success@{k}"])
    assert found == pytest.approx({f"P@{k}": sum(labels[:k]) / k, f"Success@{k}": max(labels[:k])})
    assert 0 <= found[f"P@{k}"] <= found[f"Success@{k}"] <= 1


@each("name", ["AP", "AP@2", "RR", "nDCG", "nDCG@2", "R", "R@2"])
def test_other_metrics_refuse_scores(name):
    with pytest.raises(ValueError, match=r"needs labels that are 0 or 1, got 0.5; wanted P or Success"):
        rank_metrics([1, 0.5, 0], ["P", name])
    assert set(rank_metrics([1, 1, 0], ["P", name])) == {"P", name}


# --- the public package --------------------------------------------------------------------------


def parts(prompts):
    """(question, document) of each prompt of the default form."""
    return [re.fullmatch(r"Document: (.*)\nQuestion: (.*)\nAnswer:", prompt).group(2, 1) for prompt in prompts]


@each("kind", ["binary", "continuous"])
def test_annotate_equals_the_public_package(kind):
    """With a score that looks the label up, the labels come back; one call instead of one per rank."""
    documents, calls = PACKAGE["documents"], []
    labels = {question: conformance.given("erag", f"{kind} labels, {question}")[0].tolist() for question in documents}
    wanted = {
        (question, document): label
        for question, own in documents.items()
        for document, label in zip(own, labels[question], strict=True)
    }

    def generate(prompts):
        pairs = parts(prompts)
        calls.append(pairs)
        return [f"{PACKAGE['references'][question][0]} {wanted[question, document]}" for question, document in pairs]

    def score(reply, reference):
        answer, label = reply.split()
        return float(label) * exact_match(answer, reference)

    found = annotate(
        list(documents), list(documents.values()), list(PACKAGE["references"].values()), generate=generate, score=score
    )
    assert found == list(labels.values())
    assert len(calls) == 1 and len(PACKAGE["calls"]) == 5
    assert len(calls[0]) == sum(map(len, PACKAGE["calls"])) == 10


def test_what_the_public_package_drops_is_seen_here():
    theirs = PACKAGE["empty_list"]
    assert list(theirs["per_question"]) == ["q1"] and theirs["mean"]["P_1"] == 1.0  # q2 is gone, and from the mean too
    options = {"generate": lambda prompts: ["A"] * len(prompts), "score": exact_match}
    labels = annotate(["q1", "q2"], [["d a"], []], [["A"], ["B"]], **options)
    assert labels == [[1.0], []]
    with pytest.raises(ValueError, match=r"labels must hold at least 1 number\(s\); got shape \(0,\)"):
        rank_metrics(labels[1], ["P@1"])


def test_what_stops_the_public_package_works_here():
    assert "KeyError" in PACKAGE["errors"]["continuous, P_5, lists shorter than 5"]
    assert rank_metrics([1, 0, 0.25], ["P@5"]) == {"P@5": pytest.approx(1.25 / 5)}
    assert "KeyError" in PACKAGE["errors"]["binary, P without cutoff"]
    assert rank_metrics([1, 0], ["P"]) == {"P": 0.5}
    assert rank_metrics([1, 0], ["AP"]) == {"AP": 1.0}  # though other lists hold labels between 0 and 1


# --- annotate ------------------------------------------------------------------------------------


def echo(prompts):
    """A reader whose reply is the last word of its document."""
    return [document.split()[-1] for _, document in parts(prompts)]


def test_annotate_by_hand():
    seen = []

    def generate(prompts):
        seen.append(parts(prompts))
        return echo(prompts)

    questions = ["sky?", "sea?", "sky?"]
    documents = [["it is blue", "it is grey", "it is blue"], [], ["it is grey", "it is red"]]
    references = [["blue"], ["green"], ["grey", "red"]]
    found = annotate(questions, documents, references, generate=generate, score=exact_match)
    assert found == [[1.0, 0.0, 1.0], [], [1.0, 1.0]]  # the same question with other references keeps its own labels
    assert seen == [[("sky?", "it is blue"), ("sky?", "it is grey"), ("sky?", "it is red")]]


def test_a_document_of_two_questions_is_read_for_each():
    asked = []

    def generate(prompts):
        asked.extend(prompts)
        return [prompt.split()[0] for prompt in prompts]

    def prompt(question, document):
        return f"{question} from {document}"

    options = {"generate": generate, "prompt": prompt, "score": lambda reply, x: float(reply == x)}
    assert annotate(["a", "b"], [["d"], ["d"]], ["a", "x"], **options) == [[1.0], [0.0]]
    assert asked == ["a from d", "b from d"]


def test_without_any_document_nothing_is_generated():
    def generate(prompts):
        raise AssertionError("not to be called")

    assert annotate(["a", "b"], [[], ()], ["x", "y"], generate=generate, score=exact_match) == [[], []]


words = st.sampled_from(["red", "green", "blue"])
tasks = st.lists(st.tuples(words, st.lists(words, max_size=4), words), min_size=1, max_size=5)


@repeatable
@given(tasks, st.randoms(use_true_random=False))
def test_order_of_questions_and_documents_does_not_matter(tasks, random):
    def label(some):
        questions, documents, references = map(list, zip(*some, strict=True))
        seen = []

        def generate(prompts):
            pairs = parts(prompts)
            seen.extend(pairs)
            return [f"{question} {document}" for question, document in pairs]

        found = annotate(questions, documents, references, generate=generate, score=lambda r, x: r.count(x) / 2)
        assert len(seen) == len(set(seen)) == len({(q, d) for q, own, _ in some for d in own})
        return found

    expected = [[((q == x) + (d == x)) / 2 for d in own] for q, own, x in tasks]
    assert label(tasks) == expected
    order = random.sample(range(len(tasks)), len(tasks))
    assert label([tasks[i] for i in order]) == [expected[i] for i in order]
    backwards = [(question, own[::-1], reference) for question, own, reference in tasks]
    assert label(backwards) == [labels[::-1] for labels in expected]


def test_exact_match_makes_binary_labels_for_every_metric():
    labels = annotate(["q"], [["it is red", "it is blue"]], [["blue"]], generate=echo, score=exact_match)
    assert rank_metrics(labels[0], ["AP", "P@2"]) == {"AP": 0.5, "P@2": 0.5}


# --- errors --------------------------------------------------------------------------------------


@each(
    ("labels", "metrics", "message"),
    [
        ([], ["AP"], r"labels must hold at least 1 number\(s\); got shape \(0,\)"),
        (1, ["AP"], "labels must be a list of numbers; got 1"),
        ([[1, 0]], ["AP"], r"got shape \(1, 2\)"),
        ([[1], [1, 0]], ["AP"], "ragged"),
        (["1", "0"], ["AP"], "must be numbers"),
        ([1, None], ["AP"], "must be numbers"),
        ([1, 1.5], ["AP"], "from 0 to 1; got 1.5"),
        ([1, -0.1], ["P"], "from 0 to 1; got -0.1"),
        ([1, 2], ["AP"], "from 0 to 1; got 2"),
        ([1, math.nan], ["P"], "labels must be finite; got 1 NaN or infinite of"),
        ([1, math.inf], ["P"], "labels must be finite; got 1 NaN or infinite of 2"),
        ([1, 0], [], "metrics must hold at least 1; got none"),
        ([1, 0], "AP", "metrics must be a list; got str; write"),
        ([1, 0], ["nDGC@10"], "unknown metric 'nDGC'; did you mean 'nDCG'"),
        ([1, 0], ["map"], "unknown metric 'map'"),
        ([1, 0.5], ["hit"], "unknown metric 'hit'"),
        ([1, 0], [7], r"metrics\[0\] must be a string; got int"),
        ([1, 0], ["P@0"], "wanted P@k"),
        ([0, 0], ["P@0"], "wanted P@k"),
        ([1, 0.5], ["P@"], "wanted P@k"),
        ([1, 0], ["AP@-1"], "wanted AP@k"),
        ([1, 0], ["RR@x"], "wanted RR@k"),
        ([1, 0], ["nDCG@1.5"], "wanted nDCG@k"),
    ],
)
def test_rank_metrics_refuses(labels, metrics, message):
    with pytest.raises(ValueError, match=message):
        rank_metrics(labels, metrics)


@each(
    ("wrong", "message"),
    [
        ({"questions": []}, "questions must hold at least 1; got none"),
        ({"questions": "q"}, "questions must be a list; got str; write"),
        ({"documents": [["d"], ["e"]]}, "lengths must be equal; got 1 questions, 2 documents, 1 references"),
        ({"documents": ["d"]}, r"documents\[0\] must be a list; got str"),
        ({"documents": [[1]]}, r"documents\[0\]\[0\] must be a string; got int"),
        ({"questions": [None]}, r"questions\[0\] must be a string; got NoneType"),
        ({"references": []}, "references must hold at least 1; got none"),
        ({"references": "A"}, r"references must be a list; got str"),
        ({"generate": lambda prompts: []}, "lengths must be equal; got 0 replies, 1 prompts"),
        ({"generate": lambda prompts: ["a", "b"]}, "lengths must be equal; got 2 replies, 1 prompts"),
        ({"generate": lambda prompts: "a"}, r"what generate returns must be a list; got str"),
        ({"generate": lambda prompts: None}, "what generate returns must be a list; got NoneType"),
        ({"prompt": lambda question, document: None}, r"what prompt returns\[0\] must be a string; got NoneType"),
        ({"score": lambda reply, reference: 1.01}, "from 0 to 1; got 1.01"),
        ({"score": lambda reply, reference: -1}, "from 0 to 1; got -1"),
        ({"score": lambda reply, reference: math.nan}, "labels must be finite; got 1 NaN or infinite of"),
        ({"score": lambda reply, reference: None}, "labels must be numbers; got None"),
        ({"score": lambda reply, reference: "1"}, "labels must be numbers; got '1'"),
    ],
)
def test_annotate_refuses(wrong, message):
    right = {
        "questions": ["q"],
        "documents": [["d"]],
        "references": [["A"]],
        "generate": lambda prompts: ["A"] * len(prompts),
        "score": exact_match,
    }
    assert annotate(**right) == [[1.0]]
    with pytest.raises(ValueError, match=message):
        annotate(**right | wrong)
