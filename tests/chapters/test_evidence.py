"""Labels beside the reader's own, rankings held against what is marked, and an evaluator's verdicts against the reader, by hand."""

import numpy as np
import pytest
from tiny_evidence import BRIDGE, CLOSED, KNOWN, OPEN, READ, STORM, Reader

from experiments.ecorag_ablations import tables
from rag_utils import data
from rag_utils.data import Passage, Question

PASSAGES = [BRIDGE, STORM]


def test_labels_of_a_question_and_of_one_that_is_known_by_heart():
    passages = {"q1": PASSAGES, "q2": PASSAGES[:1]}
    table = tables.labelled(Reader(), [OPEN, KNOWN], passages, closed=CLOSED, read=READ)
    assert table["label"].tolist() == ["strong", "weak", "distractor", "undefined", "undefined"]
    assert table["closed"].tolist() == [0, 0, 0, 1, 1]
    assert table["gold"].tolist() == [1, 0, 0, 0, 1]
    assert table["answer"].tolist() == [1, 0, 0, 1, 1]  # the title is part of a sentence
    assert table["whole"].tolist() == [0, 0, 0, 1, 1] and table["needed"].tolist() == [0] * 5
    assert table["rank"].tolist() == [1, 2, 3, 1, 2]


def test_leave_one_out_marks_the_passage_without_which_the_reader_is_wrong():
    other = Passage("p3", "Tea", "Tea is warm.", ("Tea is warm.",))
    table = tables.labelled(Reader(), [OPEN], {"q1": [PASSAGES[0], other]}, closed=CLOSED, read=READ)
    assert table["needed"].tolist() == [1, 1, 0] and table["whole"].tolist() == [1, 1, 1]
    alone = tables.labelled(Reader(), [OPEN], {"q1": PASSAGES[:1]}, closed=CLOSED, read=READ)
    assert alone["needed"].tolist() == [1, 1]  # without its only passage the question is asked closed book


def test_nothing_is_asked_twice_of_the_reader_in_one_call():
    reader = Reader()
    tables.labelled(reader, [OPEN, KNOWN], {"q1": PASSAGES, "q2": PASSAGES}, closed=CLOSED, read=READ)
    assert all(len(set(call)) == len(call) for call in reader.asked)
    assert [len(call) for call in reader.asked] == [
        2,
        3,
        2,
        2,
        2,
    ]  # closed, alone, beside, whole, without one (of the known question)


def test_retrieved_lists_are_full_even_where_few_passages_share_a_word():
    pool = [*PASSAGES, Passage("p3", "", "nothing at all")]
    found = tables.retrieved([OPEN], pool, k=3)["q1"]
    assert sorted(passage.id for passage in found) == ["p1", "p2", "p3"] and found[-1].id == "p3"
    assert len(tables.retrieved([OPEN], pool, k=2)["q1"]) == 2


def order(*best):
    """A score that puts these sentences first."""

    def score(questions, texts):
        return [np.array([len(best) - best.index(t) if t in best else 0.0 for t in own]) for own in texts]

    return score


def test_alignment_by_hand():
    scores = {"right": order("Bridge: It opened in 1894."), "second": order("Bridge: It is red.")}
    table = tables.alignment([OPEN], {"q1": PASSAGES}, scores).set_index("condition")
    assert table.loc["right", ["ndcg_1", "ndcg_10", "r20"]].tolist() == [1, 1, 1]
    assert table.loc["second", "ndcg_1"] == 0
    assert table.loc["second", "ndcg_10"] == pytest.approx(1 / np.log2(3))
    missed = tables.alignment([OPEN], {"q1": PASSAGES[1:]}, scores)
    assert missed[["ndcg_1", "ndcg_10", "r20"]].to_numpy().tolist() == [[0, 0, 0]] * 2  # not retrieved is missed
    whole = tables.alignment([OPEN], {"q1": PASSAGES}, {"storm": order("Storm: Opened in 1849, some say.")}, whole=True)
    assert whole["ndcg_10"].item() == pytest.approx(1 / np.log2(3))  # two passages, the wrong one first


def test_verdicts_of_an_evaluator_against_the_reader():
    found = tables.verdict_scores([1, 1, 1, 0], [1, 0, 0, 1])
    assert found == {"accuracy": 0.25, "precision": pytest.approx(1 / 3), "recall": 0.5, "F1": pytest.approx(0.4)}
    turned = tables.verdict_scores([1, 0, 0, 1], [1, 1, 1, 0])
    assert turned["precision"] == found["recall"] != found["precision"]  # the two sides are not the same
    assert np.isnan(tables.verdict_scores([0, 0], [1, 0])["precision"])
    with pytest.raises(ValueError, match="lengths must be equal; got 1 said, 2 well"):
        tables.verdict_scores([1], [1, 0])


def test_questions_of_nq_are_held_out_from_nothing_that_is_measured(monkeypatch):
    shared = Passage("shared", "", "one passage for two questions")
    questions = [Question(f"q{i}", f"who did {i}", ("x",), "nq", gold=(Passage(f"p{i}", "", "t"),)) for i in range(40)]
    measured = next(q for q in questions if data.held_out(q.text))
    near = Question("near", "who else", ("x",), "nq", gold=(shared,))
    assert not data.held_out(near.text)
    questions += [near, Question("far", measured.text, ("x",), "nq", gold=(shared,))]
    monkeypatch.setattr(data, "load", lambda name: questions)
    mined = tables.train_questions("nq")
    assert mined and not any(data.held_out(question.text) for question in mined)
    assert near not in mined  # its passage answers a held-out question


def test_questions_that_are_measured_are_none_of_those_that_are_trained_on():
    everything, trained = tables.unseen_questions(), tables.train_questions("companion")
    assert not {q.id for q in everything} & {q.id for q in trained}
    assert not any(q.type == "yes_no" for q in [*everything, *trained])
    few = tables.unseen_questions(7)
    assert [q.kind for q in few] == ["real"] * 3 + ["invented"] * 3 and set(few) < set(everything)
