"""The tables of chapter 6 on a corpus and a reader made here: what names mean, that settings decide, that few questions are the first."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from experiments import asking, benchmarks, table
from experiments.ecorag_ablations import compressors, tables
from rag_utils import data, retrieve
from rag_utils.data import Passage, Question
from rag_utils.engine.weights import WeightsError
from rag_utils.lm import Generation
from rag_utils.measures import ecorag

TITLES = ["Bridge", "Tower", "Harbour", "Mill", "Canal", "School"]
PROMPTS = {"closed": "closed_plain", "read": "read_plain"}
SIZES = {"step": 1, "limit": 3}


def questions(dataset, **more):
    made = []
    for i, title in enumerate(TITLES):
        texts = (f"The {title.lower()} opened in {1890 + i}.", f"It is {i} metres high.", "Nobody lives there.")
        gold = Passage(f"{title}-p1", title, " ".join(texts), texts)
        kind = {"kind": "real" if i % 2 else "invented", "type": "single", "split": "test"} | more
        answers, asked = (str(1890 + i),), f"when did the {title.lower()} open"
        made.append(Question(f"q{i}", asked, answers, dataset, gold=(gold,), gold_sentences=((0,),), **kind))
    return made


class Reader:
    """Says the first year that it sees, greedily and in every sample; knows nothing by heart."""

    fingerprint, name = "tiny-1", "tiny"
    profile = SimpleNamespace(name="tiny")

    def __init__(self):
        self.prompts = []

    def generate(self, prompts, *, n=1, **_):
        self.prompts += prompts
        return [[self.reply(prompt)] * n for prompt in prompts]

    def reply(self, prompt):
        years = [word.strip(".") for word in prompt.split() if word.strip(".").isdigit() and len(word.strip(".")) == 4]
        return Generation(years[0] if years else "unknown", (1, 2), np.array([-0.5, -0.25]))

    def count_tokens(self, text):
        return len(text.split())


def letters(texts):
    rows = np.array([[1e-3 + text.lower().count(letter) for letter in "abcdefghijklmnop"] for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def reader(monkeypatch):
    asked, head = Reader(), dict(zip(ecorag.PARTS, [np.zeros((16, 1)), np.zeros((1, 16))] * 2, strict=True))
    fitted = {"intercept": -99.0, "coefficients": dict.fromkeys(ecorag.FEATURES, 1.0)}
    monkeypatch.setattr(asking, "reader", lambda profile, mode, chapter=None: asked)
    monkeypatch.setattr(data, "load", lambda name: questions(name))
    monkeypatch.setattr(data, "passages", lambda name: [question.gold[0] for question in questions(name)])
    monkeypatch.setattr(benchmarks, "source", lambda name: {"source": "a/b", "sha256": "0" * 64})
    monkeypatch.setattr(benchmarks.data, "held_out", lambda text: True)
    monkeypatch.setattr(retrieve, "encoder", lambda: letters)
    monkeypatch.setattr(ecorag, "load_head", lambda kind, folder: head)
    monkeypatch.setattr(ecorag, "load_evaluator", lambda folder=None: fitted)
    alike = SimpleNamespace(
        equivalent=lambda asked, left, right: np.array([float(a == b) for a, b in zip(left, right, strict=True)])
    )
    monkeypatch.setattr(asking, "judge", lambda profile, **how: alike)
    return asked


def reading(dataset="nq", **changes):
    shown = ["closed book", "gold sentences", "ECoRAG", "first 2 documents", "encoder top 2", "all documents"]
    how = {"sample": {"dataset": dataset, "questions": 4, "passages": 3}, "shown": shown, "prompts": PROMPTS}
    return tables.reading(**{"mode": "fresh", "profile": "tiny", "sizes": SIZES, "max_new_tokens": 4} | how | changes)


def test_answers_on_a_benchmark_are_rows_of_ids_and_numbers_that_a_table_takes(reader):
    rows, facts = reading()
    text = table.text_of("nq", rows)
    assert "bridge" not in text.lower() and "opened" not in text
    assert facts["fingerprints"] == {"tiny": "tiny-1"} and facts["questions"] == 4 and facts["sha256"] == "0" * 64
    by = rows.set_index(["condition", "id"])
    assert (by.loc["closed book"][["exact_match", "tokens", "texts"]] == 0).all(axis=None)
    assert (by.loc["gold sentences"]["exact_match"] == 1).all() and (by.loc["gold sentences"]["tokens"] == 6).all()
    assert (by.loc["encoder top 2"]["texts"] == 2).all() and (by.loc["first 2 documents"]["texts"] == 2).all()
    assert (by.loc["all documents"]["texts"] == 3).all() and (by.loc["ECoRAG"]["texts"] == SIZES["limit"]).all()


def test_the_first_questions_alone_have_the_rows_that_they_have_among_all(reader):
    for name in ("nq", "hotpotqa", "companion"):
        whole, few = reading(name)[0], reading(name, few=2)[0]
        part = whole[whole["id"].isin(set(few["id"]))].reset_index(drop=True)
        assert few["id"].nunique() == 2
        pd.testing.assert_frame_equal(few, part)
        how = {"sample": {"dataset": name, "questions": 4, "passages": 3}, "scores": ["encoder", "last epoch"]}
        whole, few = (tables.ranking(mode="fresh", few=k, **how)[0] for k in (None, 2))
        part = whole[whole["id"].isin(set(few["id"]))].reset_index(drop=True)
        pd.testing.assert_frame_equal(few, part)


def test_every_setting_of_the_answers_changes_them_or_what_is_asked(reader):
    rows, _ = reading()
    for changes in (
        {"sample": {"dataset": "nq", "questions": 3, "passages": 3}},
        {"sample": {"dataset": "nq", "questions": 4, "passages": 1}},
        {"shown": ["closed book", "encoder top 1"]},
        {"sizes": {"step": 1, "limit": 1}},
    ):
        assert not reading(**changes)[0].equals(rows), changes
    before = set(reader.prompts)
    reading(prompts={"closed": "closed_examples", "read": "read_examples"})
    assert set(reader.prompts) - before


def test_labels_are_those_of_the_questions_to_train_on(reader, monkeypatch):
    monkeypatch.setattr(data, "load", lambda name: questions(name, split="train"))
    sample = {"dataset": "companion", "questions": 3, "passages": 2}
    how = {"mode": "fresh", "profile": "tiny", "sample": sample, "prompts": PROMPTS, "max_new_tokens": 4}
    rows, facts = tables.labels(**how)
    ids = [question.id for question in tables.train_questions("companion")][:3]
    assert list(dict.fromkeys(rows["id"])) == ids and facts == {"fingerprints": {"tiny": "tiny-1"}}
    strong = rows[rows["gold"] == 1]
    assert len(strong) == 3 and (strong["label"] == "strong").all() and (strong["answer"] == 1).all()
    few = tables.labels(**how, few=1)[0]
    pd.testing.assert_frame_equal(few, rows[rows["id"] == ids[0]].reset_index(drop=True))


def test_beliefs_move_with_what_is_kept_and_a_random_choice_is_that_of_all_questions(reader):
    sample = {"dataset": "companion", "questions": 6, "passages": 3}
    how = {"mode": "fresh", "profile": "tiny", "sample": sample, "shown": ["gold sentences", "ECoRAG", "random"]}
    how |= {"prompts": PROMPTS, "sizes": SIZES, "draws": {"questions": 4, "n": 3, "max_new_tokens": 4, "seed": 0}}
    rows, facts = tables.beliefs(**how)
    by = rows.set_index(["condition", "id"])["seper_soft"]
    assert (by["gold sentences"] == 1).all() and (by["closed book"] == 0).all() and facts["questions"] == 4
    believed = {question.id for question in tables.unseen_questions(4)}
    assert set(rows["id"]) == believed
    few = tables.beliefs(**how, few=1)[0]
    part = rows[rows["id"] == few["id"][0]].reset_index(drop=True)
    pd.testing.assert_frame_equal(few, part)


def test_names_of_compressors_and_scores_mean_what_they_say(reader, monkeypatch, tmp_path):
    score = tables.named_scores()
    asked, passages, _ = tables.drawn({"dataset": "nq", "questions": 3, "passages": 3})
    for name, same in {
        "encoder top 2": compressors.extractive(ecorag.dot_products(letters), keep=2),
        "first document": compressors.first_documents(1),
        "first 2 documents": compressors.first_documents(2),
        "all documents": compressors.first_documents(),
        "gold sentences": compressors.gold_sentences,
    }.items():
        assert tables.compressor(name, score, **SIZES)(asked, passages) == same(asked, passages), name
    assert score("encoder") is score("encoder")
    for wrong in ("best documents", "top 4", "encoder top"):
        with pytest.raises(ValueError, match="unknown compressor"):
            tables.compressor(wrong, score, **SIZES)
    with pytest.raises(ValueError, match="unknown score"):
        tables.compressor("nothing top 3", score, **SIZES)
    monkeypatch.setitem(tables.FOLDERS, "whole", tmp_path)
    with pytest.raises(WeightsError, match="there is no encoder in"):
        score("evidentiality all weights")


def test_the_weights_behind_each_committed_table_are_those_that_ship():
    for chapter, name in table.every(tables.CHAPTER):
        facts = table.kept(chapter, name).facts
        ship = [folder for folder in facts.get("weights", {})]
        assert tables.weights(ship)["weights"] == facts.get("weights", {}), name
        assert ("training" in facts) == ("whole" in name)
