"""Lists that are kept, and the annotations of a benchmark in small."""

import pytest
import tiny
import tiny_data

from experiments import asking
from experiments.erag_kendall import annotations
from experiments.table import Kept, named, text_of, written
from rag_utils import data, lm, retrieve
from rag_utils.data import Passage
from rag_utils.engine import weights
from rag_utils.retrieve import ranking

RED, BOAT = ("Oslo", "A red sky.", True), ("Boat", "Boat, boat: Oslo.", False)
YARD, HOUSE = ("Yard", "The boat yard.", True), ("House", "The boat house in Oslo.", False)
ROWS = [
    {"id": "m1", "question": "Which red boat?", "answers": ["Oslo"], "paragraphs": tiny_data.paragraphs(RED, BOAT)},
    {"id": "m2", "question": "Which boat yard?", "answers": ["Oslo"], "paragraphs": tiny_data.paragraphs(YARD, HOUSE)},
    {"id": "m3", "question": "Whose boat house?", "answers": ["yes"], "paragraphs": tiny_data.paragraphs(YARD, HOUSE)},
]
HOW = {"profiles": {"reader": "one", "judge": "other"}, "prompts": {"reader": "read_plain", "judge": "read_plain"}}
HOW |= {"dataset": "musique", "questions": 3, "k": 2, "max_new_tokens": 3}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Three questions as the benchmark "musique", two readers, and BM25 in place of the embeddings."""
    tiny_data.multihop(tmp_path, monkeypatch, "musique", ROWS)
    models = {}
    for seed, name in enumerate(("one", "other")):
        profile = tiny.llama(tmp_path / name, seed=seed, shape={"max_position_embeddings": 1024})
        models[name] = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    monkeypatch.setattr(asking, "reader", lambda profile, mode: models[profile])
    monkeypatch.setattr(retrieve, "dense", retrieve.bm25)


def test_a_benchmark_gives_numbers_and_ids_of_passages(small):
    rows, facts = annotations.on_benchmark(mode="fresh", **HOW)
    assert set(rows["id"]) == {"m1", "m2", "m3"} and set(rows["condition"]) == {"BM25", "dense"}
    assert rows["rank"].max() == 2 and set(rows["relevance"]) <= {0.0, 1.0}
    assert not [column for column in rows if column.startswith("again")]
    text_of("musique", rows)  # refuses texts
    text = {passage.id: passage.text for q in data.load("musique") for passage in retrieve.own_passages(q)}
    for row in rows[rows["id"] != "m3"].itertuples():
        assert row.answer == ("Oslo" in text[row.document])  # one title is "Oslo", and it is not shown
    assert rows["answer"].sum() == 2 * 2 and rows["provenance"].sum() == 2 * 3
    assert facts["questions"] == 3 and set(facts["fingerprints"]) == {"tiny-llama"}
    assert Kept(rows, named(annotations.on_benchmark), written(HOW), facts).settings["k"] == 2


def test_the_first_questions_have_the_rows_that_they_have_among_all(small):
    rows, _ = annotations.on_benchmark(mode="fresh", **HOW)
    few, _ = annotations.on_benchmark(mode="fresh", **HOW, few=1)
    assert set(few["id"]) == {"m1"}
    assert few.equals(rows[rows["id"] == "m1"].reset_index(drop=True))
    # among all "red" is rarer than "boat"; a search of the paragraphs of m1 alone would find the boat first
    text = {passage.id: passage.text for passage in retrieve.own_passages(data.load("musique")[0])}
    assert [text[name] for name in few.query("condition == 'BM25'")["document"]] == [RED[1], BOAT[1]]


def test_kept_lists_are_the_lists_again(monkeypatch):
    pool = [Passage(name, "title", text) for name, text in (("a", "one"), ("b", "two"), ("c", "three"))]
    questions = [data.Question(id=name, text="which", answers=("x",), dataset="d") for name in ("q1", "q2")]
    runs = {
        "BM25": {"q1": {"a": 2.0, "b": 1.0}, "q2": {"a": 1.0, "b": 2.0}},
        "dense": {"q1": {"c": 2.0, "a": 1.0}, "q2": {"c": 3.0, "b": 2.0}},
    }
    monkeypatch.setattr(annotations, "retrieved", lambda questions, pool, k: runs)
    monkeypatch.setattr(annotations.data, "passages", lambda name: pool)
    monkeypatch.setattr(annotations.data, "load", lambda name: questions)
    how = {"mode": "replay", "datasets": ["d"], "passages": "d", "k": 2}
    rows, facts = annotations.retrieved_rows(**how, digest=annotations.digest_of(pool))
    assert rows.values.tolist()[:2] == [["q1", "BM25", 1, "a"], ["q1", "BM25", 2, "b"]]
    assert (facts["questions"], facts["passages"]) == (2, 3)
    again = annotations.runs_of(rows, questions, k=2)
    for retriever, run in runs.items():
        for name, scores in run.items():
            assert ranking(again[retriever][name]) == ranking(scores)
    assert annotations.runs_of(rows, questions[:1], k=1) == {"BM25": {"q1": {"a": 1.0}}, "dense": {"q1": {"c": 1.0}}}
    assert annotations.runs_of(rows[rows["id"] == "q1"], questions, k=2)["BM25"]["q2"] == {}
    with pytest.raises(ValueError, match="k = 3, but the longest list holds 2 documents"):
        annotations.runs_of(rows, questions, k=3)
    changed = annotations.digest_of([*pool[:2], Passage("c", "title", "four")])
    with pytest.raises(ValueError, match=f"must be those with the digest {changed}; got"):
        annotations.retrieved_rows(**how, digest=changed)
