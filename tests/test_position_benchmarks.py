"""Orders of passages on a benchmark in small: numbers per question, and no text."""

import json

import pytest
import tiny

from rag_utils import lm, permutations, position_benchmarks, weights
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
