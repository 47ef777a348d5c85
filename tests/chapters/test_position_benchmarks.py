"""Orders of passages on a benchmark in small: numbers per question, and no text."""

import json

import pytest
import tiny

from experiments.moi_position import permutations, position_benchmarks
from rag_utils import lm
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.prompts import Prompt

READ = Prompt("read", "$documents\nQ: $question\nA:", chat=False)


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def test_a_benchmark_gives_numbers_and_no_text(reader, tmp_path, monkeypatch):
    file = tmp_path / "keys.jsonl"
    records = [[f"k{i}", f"v{i}"] for i in range(5)]
    rows = [{"ordered_kv_records": records, "key": key, "value": value} for key, value in records[:2]]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(position_benchmarks.manifest, "locate", lambda name: file)
    questions, shown = position_benchmarks.key_values(2, 3)
    for question, key in zip(questions, ("k0", "k1"), strict=True):
        texts = [passage.text for passage in shown[question.id]]
        assert len(set(texts)) == 3 and sum(f"Key {key} has" in text for text in texts) == 1
        assert texts[permutations.gold_places(question, shown)[0]] == f"Key {key} has the value {question.answers[0]}."
    how = {"size": 3, "prefix": 2, "orders": 6, "answer": True, "max_new_tokens": 2}
    table, facts = position_benchmarks.benchmark(reader, "kv_retrieval", 2, prompt=READ, **how)
    assert facts["questions"] == 2 and "reply" not in table
    assert table.groupby("id")["condition"].value_counts()[questions[0].id]["pruned"] == 6
    gold = table[table["condition"] == "answer gold first"]
    assert gold["gold"].tolist() == [1.0, 1.0] and gold["exact_match"].notna().all()
    assert not table.duplicated(["id", "condition", "run"]).any()
    words = table.select_dtypes(exclude="number").stack()
    assert not words.str.contains("value|Key").any()
    reversed_ones = table[table["condition"] == "answer retriever reversed"]
    assert reversed_ones["order"].tolist() == ["2-1-0", "2-1-0"]


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
    found = position_benchmarks.filled_up([ANNA, BERTA], [*OWN, *OTHERS], 4)
    assert [one.id for one in found["a"]] == ["g1", "d1", "x2", "g2"]  # x1 says Anna; the rest share no word, by id
    assert found["b"] == tuple(OTHERS)  # has four of its own
    assert position_benchmarks.filled_up([BERTA], OTHERS, 4) == {"b": tuple(OTHERS)}
    with pytest.raises(ValueError, match="fewer than k=4"):
        position_benchmarks.filled_up([ANNA], [*OWN, *OTHERS], 6)  # only three others hold no answer


def test_questions_with_more_paragraphs_are_left_out_and_the_run_is_bm25s(monkeypatch):
    monkeypatch.setattr(position_benchmarks.data, "load", lambda name: [ANNA, BERTA])
    monkeypatch.setattr(position_benchmarks.data, "passages", lambda name: [*OWN, *OTHERS])
    questions, shown = position_benchmarks.benchmark_passages("hotpotqa", 5, 3)
    assert [one.id for one in questions] == ["a"]
    assert [one.id for one in shown["a"]] == ["g1", "x2", "d1"]
    questions, shown = position_benchmarks.benchmark_passages("hotpotqa", 5, 4)
    assert [[one.id for one in shown[question.id]] for question in questions] == [
        ["g1", "x2", "d1", "g2"],
        ["g2", "x1", "x2", "x3"],
    ]
    assert permutations.gold_places(ANNA, shown) == [0]
