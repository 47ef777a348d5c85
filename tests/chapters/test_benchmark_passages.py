"""Questions that are shown a fixed number of passages: key-value pairs, paragraphs of their own, hard negatives."""

import json

import pytest

from experiments import benchmarks
from rag_utils import data
from rag_utils.data import Passage, Question
from rag_utils.measures import moi as measure


def test_the_value_of_a_key_is_in_one_passage(tmp_path, monkeypatch):
    file = tmp_path / "keys.jsonl"
    records = [[f"k{i}", f"v{i}"] for i in range(5)]
    rows = [{"ordered_kv_records": records, "key": key, "value": value} for key, value in records[:2]]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(data, "locate", lambda name: file)
    questions, shown = benchmarks.benchmark_passages("kv_retrieval", 2, 3)
    for question, key in zip(questions, ("k0", "k1"), strict=True):
        texts = [passage.text for passage in shown[question.id]]
        assert len(set(texts)) == 3 and sum(f"Key {key} has" in text for text in texts) == 1
        assert texts[measure.gold_places(question, shown)[0]] == f"Key {key} has the value {question.answers[0]}."
    again = data.load_key_values(1, 3)  # fewer questions: the first is shown the same
    assert again[1][questions[0].id] == shown[questions[0].id] and len(again[0]) == 1


def passage(name, text):
    return Passage(name, "", text)


def question(name, text, answer, *own):
    return Question(name, text, (answer,), "hotpotqa", gold=own[:1], distractors=own[1:])


OWN = passage("g1", "The red boat belongs to Anna."), passage("d1", "A boat needs paint.")
OTHERS = [
    passage("g2", "The mill of Berta grinds rye."),
    passage("x1", "A red boat sank, says Anna."),  # the best of the others, and it holds the answer
    passage("x2", "The red sail of a boat is old."),
    passage("x3", "Bread is baked in the morning."),
]
ANNA = question("a", "who owns the red boat", "Anna", *OWN)
BERTA = question("b", "who owns the mill that grinds rye", "Berta", *OTHERS)


def test_what_a_question_lacks_is_filled_up_with_the_best_that_hold_no_answer():
    shown = benchmarks.filled_up([ANNA, BERTA], [*OWN, *OTHERS], 4)
    assert [one.id for one in shown["a"]] == ["g1", "d1", "x2", "g2"]  # x1 says Anna; the rest share no word, by id
    assert shown["b"] == tuple(OTHERS)  # has four of its own
    assert benchmarks.filled_up([BERTA], OTHERS, 4) == {"b": tuple(OTHERS)}
    with pytest.raises(ValueError, match="fewer than k=4"):
        benchmarks.filled_up([ANNA], [*OWN, *OTHERS], 6)  # only three others hold no answer


def test_questions_with_more_paragraphs_are_left_out_and_the_run_is_bm25s(monkeypatch):
    monkeypatch.setattr(benchmarks.data, "load", lambda name: [ANNA, BERTA])
    monkeypatch.setattr(benchmarks.data, "passages", lambda name: [*OWN, *OTHERS])
    questions, shown = benchmarks.benchmark_passages("hotpotqa", 5, 3)
    assert [one.id for one in questions] == ["a"]
    assert [one.id for one in shown["a"]] == ["g1", "x2", "d1"]
    questions, shown = benchmarks.benchmark_passages("hotpotqa", 5, 4)
    assert {question.id: [one.id for one in shown[question.id]] for question in questions} == {
        "a": ["g1", "x2", "d1", "g2"], "b": ["g2", "x1", "x2", "x3"]
    }  # fmt: skip
    assert measure.gold_places(ANNA, shown) == [0]


def test_any_other_set_shows_the_gold_passage_among_hard_negatives(monkeypatch):
    monkeypatch.setattr(benchmarks.data, "load", lambda name: [ANNA])
    monkeypatch.setattr(benchmarks.data, "passages", lambda name: [*OWN, *OTHERS])
    _, shown = benchmarks.benchmark_passages("squad", 1, 3)
    assert {one.id for one in shown["a"]} == {"g1", "d1", "x2"}
