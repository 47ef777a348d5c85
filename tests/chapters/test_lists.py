"""Ranked lists: what is asked of a tiny reader, and metrics and correlations of invented labels."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import tiny
from scipy.stats import kendalltau

from experiments.erag_kendall import lists
from rag_utils import lm
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.prompts import Prompt
from rag_utils.stats import largest_kendall

READ = Prompt("read", "$documents\n$question", chat=False)
PASSAGES = {
    name: Passage(name, "title", text) for name, text in (("a", "one alpha"), ("b", "two beta"), ("c", "three gamma"))
}
QUESTIONS = [
    Question(id="q1", text="which letter", answers=("alpha",), dataset="companion", gold=(PASSAGES["a"],)),
    Question(id="q2", text="which number", answers=("two",), dataset="companion", gold=(PASSAGES["b"],)),
]
RUNS = {
    "BM25": {"q1": {"a": 2.0, "b": 1.0}, "q2": {"a": 1.0, "b": 2.0}},
    "dense": {"q1": {"c": 2.0, "a": 1.0}, "q2": {"c": 3.0, "b": 2.0}},
}


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def test_each_document_alone_and_each_beginning_of_the_list(reader):
    asked = []
    generate = reader.generate

    def counted(prompts, **options):
        asked.extend(prompts)
        return generate(prompts, **options)

    reader.generate = counted
    table = lists.ask(reader, QUESTIONS, RUNS, PASSAGES, prompt=READ, max_new_tokens=3)
    assert table[["id", "condition", "rank", "document"]].values.tolist() == [
        ["q1", "BM25", 1, "a"],
        ["q1", "BM25", 2, "b"],
        ["q2", "BM25", 1, "b"],
        ["q2", "BM25", 2, "a"],
        ["q1", "dense", 1, "c"],
        ["q1", "dense", 2, "a"],
        ["q2", "dense", 1, "c"],
        ["q2", "dense", 2, "b"],
    ]
    assert table["answer"].tolist() == table["provenance"].tolist() == [1, 0, 1, 0, 0, 1, 0, 1]
    first = table[table["rank"] == 1]
    for score in lists.SCORES:  # one document is a list of one document
        assert first[f"erag_{score}"].tolist() == first[f"whole_{score}"].tolist()
    # greedily 6 distinct pairs and the 4 beginnings that are longer, in one call; then the pairs once more as samples
    assert len(asked) == 6 + 4 + 6
    assert asked[9] == "Document: three gamma\nDocument: two beta\nwhich number"
    assert asked[10:] == asked[:6]
    again = lists.ask(reader, QUESTIONS[::-1], RUNS, PASSAGES, prompt=READ, max_new_tokens=3)
    key = ["id", "condition", "rank"]
    pd.testing.assert_frame_equal(again.sort_values(key, ignore_index=True), table.sort_values(key, ignore_index=True))


def test_kept_lists_are_the_lists_again(monkeypatch):
    monkeypatch.setattr(lists, "retrieved", lambda questions, pool, k: RUNS)
    rows, facts = lists.retrieved_rows(QUESTIONS, list(PASSAGES.values()), k=2)
    assert rows.values.tolist()[:2] == [["q1", "BM25", 1, "a"], ["q1", "BM25", 2, "b"]]
    assert (facts["k"], facts["questions"], facts["passages"]) == (2, 2, 3)
    again = lists.runs_of(rows, QUESTIONS, k=2)
    for retriever, run in RUNS.items():
        for name, scores in run.items():
            assert lists.ranking(again[retriever][name]) == lists.ranking(scores)
    assert lists.runs_of(rows, QUESTIONS[:1], k=1) == {"BM25": {"q1": {"a": 1.0}}, "dense": {"q1": {"c": 1.0}}}
    assert lists.runs_of(rows[rows["id"] == "q1"], QUESTIONS, k=2)["BM25"]["q2"] == {}
    with pytest.raises(ValueError, match="k = 3, but the longest list holds 2 documents"):
        lists.runs_of(rows, QUESTIONS, k=3)
    changed = [*list(PASSAGES.values())[:2], Passage("c", "title", "three delta")]
    assert lists.digest_of(changed) != facts["pool"]


def test_relevance_is_yes_against_no(reader):
    table = lists.ask(reader, QUESTIONS, RUNS, PASSAGES, prompt=READ, max_new_tokens=3)
    found = lists.relevance(reader, table, QUESTIONS, PASSAGES, READ)
    assert found.shape == (8,) and set(found) <= {0.0, 1.0}
    yes, no = reader.log_likelihood(["Document: one alpha\nwhich letter"] * 2, ["Yes", "No"])
    assert found[0] == float(yes.sum() > no.sum())


def invented(labels, whole, column="answer"):
    """A table of one retriever with these labels, (questions, ranks), and reader's scores."""
    rows = [
        {"id": f"q{i:03}", "condition": "BM25", "rank": rank, column: float(label), "whole_exact_match": float(score)}
        for i, (some, scores) in enumerate(zip(labels, whole, strict=True))
        for rank, (label, score) in enumerate(zip(some, scores, strict=True), 1)
    ]
    return pd.DataFrame(rows)


def test_metrics_of_the_first_k_by_hand():
    table = invented([[0, 1, 0, 1], [1, 0, 0, 0]], [[0, 0, 1, 1], [1, 1, 0, 0]])
    four = lists.per_question(table, "answer", k=4).set_index("id")
    assert four.loc["q000", ["AP", "RR", "P", "R", "Success"]].tolist() == [0.5, 0.5, 0.5, 1.0, 1.0]
    one = lists.per_question(table.sample(frac=1, random_state=1), "answer", k=1).set_index("id")
    assert one["P"].to_dict() == {"q000": 0.0, "q001": 1.0}
    assert lists.end_to_end(table, "exact_match", k=3).tolist() == [1.0, 0.0]
    graded = invented([[0.25, 0.75]], [[0, 0]])
    assert lists.per_question(graded, "answer", k=2).iloc[0].to_dict() == {
        "id": "q000",
        "condition": "BM25",
        "P": 0.5,
        "Success": 0.75,
    }
    with pytest.raises(ValueError, match="k = 5, but the longest list holds 4 documents"):
        lists.per_question(table, "answer", k=5)
    short = table[(table["id"] != "q001") | (table["rank"] <= 2)]  # one list ends after two documents
    by_id = lists.per_question(short, "answer", k=4).set_index("id")
    assert by_id["P"].to_dict() == {"q000": table.query("id == 'q000'")["answer"].mean(), "q001": 0.25}
    last = lists.end_to_end(short, "exact_match", k=4)
    assert last["q001", "BM25"] == lists.end_to_end(table, "exact_match", k=2)["q001", "BM25"]
    with pytest.raises(ValueError, match="unknown column 'anser'"):
        lists.per_question(table, "anser", k=1)


def test_labels_that_decide_the_score_correlate_and_others_do_not():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, size=(80, 3))
    whole = np.repeat(labels.max(axis=1, keepdims=True), 3, axis=1)
    table = invented(labels, whole, "erag_exact_match")
    table["answer"], table["provenance"] = rng.integers(0, 2, size=(2, 240))
    table["relevance"] = 1.0
    found = lists.pairs(table, "exact_match", k=3)
    grid = lists.grid(found, resamples=40)
    assert grid.loc[("eRAG", "Success"), "BM25"].value == pytest.approx(1)
    assert abs(grid.loc[("containing the answer", "Success"), "BM25"].value) < 0.4
    assert grid.loc[("relevance by the LM", "P"), "BM25"] is None  # every document is relevant
    gaps = lists.ahead(found, resamples=200).set_index(["metric", "annotation"])
    assert set(gaps.index.get_level_values("annotation")) == {"containing the answer", "provenance"}
    assert (gaps.loc["Success", "low"] > 0).all() and (gaps["p_holm"] >= gaps["p_value"]).all()


def test_labels_that_are_not_binary_have_precision_and_success_only():
    rng = np.random.default_rng(1)
    labels = rng.random((30, 2))
    table = invented(labels, labels.cumsum(axis=1) / 3, "erag_exact_match").assign(
        answer=1.0, provenance=0.0, relevance=0.0
    )
    grid = lists.grid(lists.pairs(table, "exact_match", k=2), resamples=40)["BM25"]
    assert grid["eRAG", "P"].value == pytest.approx(1)
    assert list(grid["eRAG"].index) == ["P", "Success"]
    with pytest.raises(ValueError, match="unknown score 'exactmatch'"):
        lists.labels_of("exactmatch")


def test_the_ceiling_of_ties_is_the_best_order():
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 3, 7), rng.integers(0, 2, 7)
    x[:2], y[:2] = (0, 2), (0, 1)
    best = max(kendalltau(x, order).statistic for order in set(permutations(y)))
    assert largest_kendall(x, y) == pytest.approx(best)
    with pytest.raises(ValueError, match="constant"):
        largest_kendall([1, 1, 1], [1, 2, 3])
