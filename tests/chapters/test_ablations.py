"""DENSE-RAG taken apart: rows, costs and rules, on made-up replies; a tiny reader end to end."""

from functools import partial
from types import SimpleNamespace

import invented
import numpy as np
import pandas as pd
import pytest
import tiny
from invented import HOW

from experiments import asking, table
from experiments.dense_rag import ablations, contexts
from rag_utils import lm, prompts, retrieve
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.measures import dense as asked
from rag_utils.score import chunking


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def test_cost_of_a_question(reader):
    some, tables, _ = invented.supplies(1, questions=1, k=2, replies=1)
    found = asked.understood(some, tables)
    row = ablations.cost(SimpleNamespace(reader=reader, settings=HOW), some[0], found["q0"])
    assert (row["k"], row["rounds"], row["rephrasings"], row["replies"], row["entailments"]) == (2, 1, 2, 3, 6)
    texts = [HOW.shown(reader, some[0].question.text, context) for context in found["q0"].read]
    assert row["tokens"] == sum(map(reader.count_tokens, texts)) and row["alone"] == reader.count_tokens(texts[0])
    assert row["alone"] < row["distinct"] < row["tokens"]


def test_rows():
    questions = [Question("q1", "who", ("Ann",), "companion"), Question("q2", "is it", ("yes",), "companion")]
    said = {"q1": "ann", "q2": ""}
    replies = asked.Asked(lambda keys: [said[name] for name, _ in keys])
    table = ablations.rows([asked.Supply(question, ()) for question in questions], replies, "full")
    assert table["id"].tolist() == ["q1", "q2"] and set(table["condition"]) == {"full"}
    assert table["exact_match"].tolist() == [1.0, 0.0] and table["unparsable"].tolist() == [0, 1]


def test_rules_differ_as_they_say():
    found = ablations.rules(-1.5, threshold=0.3)
    assert found["half"]["full"] == {"threshold": 0.3, "enough": -1.5} and found["word"]["full"] == {"threshold": 0.3}
    assert found["half"]["no self-evaluation"] == {"threshold": 0.3, "enough": None}
    assert found["and"]["refill on certain"].items() >= {"stop_when": "and", "refill": "certain"}.items()
    printed = {"limit": None, "stop_when": "and", "fallback": "guarded"}
    assert found["printed"]["full"] == found["half"]["full"] | printed
    assert set(found["no limit"]) == {"no self-evaluation", "refill at random", "full"}
    assert found["no limit"]["refill at random"] == found["no limit"]["full"] | {"shuffled": True}
    doubling = ablations.rules(-1.5, threshold=0.3, doubling=True)
    more = doubling["no limit"].pop("refill on certain")
    assert doubling == found and more == found["no limit"]["full"] | {"refill": "certain"}


def test_what_a_table_says_of_the_first_contexts():
    some, tables, calls = invented.supplies(4, questions=8)
    nats = ablations.of_first(tables.enough, some)
    assert nats == {one.question.id: tables.enough[one.question.id, one.texts()] for one in some}
    assert calls == [("enough", 8)]
    assert set(ablations.of_first(tables.replies, some)) == set(nats)


def test_everything_in_one_table(reader):
    some, tables, _ = invented.supplies(7, questions=8)
    cut = {way: some for way in (contexts.WHOLE, "fixed 64", contexts.SEMANTIC)}
    material = SimpleNamespace(
        reader=reader, settings=HOW, cut=cut, how={"threshold": 0.2}, dataset="companion", few=None
    )
    table = ablations.tabulated(material, tables)
    first = table[table["run"] == "none"].set_index(["condition", "id"])
    whole = first.loc[contexts.WHOLE]
    unsure = set(whole.index[whole["uncertain"] == 1])
    assert (whole["uncertain"] == (whole["dense"] > 0.2)).all() and unsure
    assert set(first.loc[contexts.SEMANTIC]["nats"].dropna().index) == unsure
    refined = table[table["run"] != "none"]
    assert set(refined["id"]) == unsure
    assert set(zip(refined["run"], refined["condition"], strict=True)) == {
        (rule, variant) for rule, variants in ablations.rules(0.0).items() for variant in variants
    }
    half = first.loc[contexts.SEMANTIC]["nats"].median()  # more than it is enough: a decision that needs no label
    outcomes = {
        rule: asked.refined([one for one in some if one.question.id in unsure], variants, tables)
        for rule, variants in ablations.rules(half).items()
    }
    for row in refined.itertuples():
        way = outcomes[row.run][row.id, row.condition].refinement
        assert (row.rounds, row.ended, row.chunks) == (len(way.rounds), way.ended, len(way.context))
        assert row.added == len({*way.context} - {*way.rounds[0].context})
        assert (row.dense, row.after) == (way.rounds[0].entropy, way.rounds[way.best].entropy)
        assert row.condition != "only removing" or not row.added
        assert row.run in ("no limit", "printed") or row.chunks <= 3
    same = refined[refined["condition"] == "no self-evaluation"].set_index(["id", "run"])["exact_match"].unstack()
    assert (same["word"] == same["half"]).all()
    assert not table.duplicated(["id", "condition", "run"]).any()
    some_rules = ablations.tabulated(material, tables, only=("half",))
    assert set(some_rules["run"]) == {"none", "half"}


def test_what_cutting_makes_in_numbers():
    def encode(texts):
        return np.array([[1.0, 0.0] if "dogs" in text else [3.0, 4.0] for text in texts])

    documents = {
        "T": [
            Passage("a", "T", "One cat sat here. Two dogs ran away."),
            Passage("b", "T", "Three birds sang. Four fish."),
        ]
    }
    writer = SimpleNamespace(count_tokens=lambda text: len(text.split()))
    how = {"threshold": 0.9, "max_tokens": 9, "count_tokens": writer.count_tokens, "encode": encode}
    chunks = chunking.semantic_chunks(documents, **how)
    material = SimpleNamespace(
        writer=writer, encode=encode, documents=documents, ways={"semantic": chunks}, faithful={chunks[0].text: 0.25}
    )
    table = ablations.cut_rows(material)
    rows = table[table["condition"] == "semantic"]
    assert rows["tokens"].tolist() == [4, 4, 5] and rows["faithful"].tolist()[0] == 0.25
    assert rows["faithful"].isna().tolist() == [False, True, True]
    pairs = table[table["condition"] == "neighbours"]
    assert pairs["id"].tolist() == ["d001s001", "d001s002", "d001s003"]
    assert pairs["cosine"].tolist() == pytest.approx([0.6, 0.6, 1.0])


class Different:
    """No reply means the same as another; what is put in other words does, but where these are long."""

    def equivalent(self, questions, left, right):
        told = [question == "What is said?" and len(text) < 250 for question, text in zip(questions, left, strict=True)]
        return np.array(told, float)


@pytest.fixture
def models(monkeypatch, tmp_path):
    """A tiny reader in all roles, a judge without a model, embeddings that are counts of letters; prompts of one line."""
    profile = tiny.llama(tmp_path / "reader", shape={"max_position_embeddings": 8192})
    model = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    for name, template in {"read": "$documents\n$question", "closed": "$question", "rephrase": "$text"}.items():
        (tmp_path / f"{name}.txt").write_text(template)
    monkeypatch.setattr(prompts, "FOLDER", tmp_path)
    monkeypatch.setattr(asking, "reader", lambda *which: model)
    monkeypatch.setattr(asking, "judge", lambda profile, **how: Different())
    monkeypatch.setattr(
        retrieve, "encoder", lambda profile: lambda texts: np.array([[len(t), 1.0 + t.count("e")] for t in texts])
    )
    monkeypatch.setattr(asked, "rephrase", lambda asker, texts, prompt, **how: [f"{text} again" for text in texts])
    monkeypatch.setattr(contexts, "supplies", partial(contexts.supplies, reserve=4))
    return model


SET = {
    "mode": "fresh",
    "profile": "tiny",
    "weaker": "tiny",
    "dataset": "companion",
    "questions": 2,
    "prompts": {"read": "read", "closed": "closed", "rephrase": "rephrase", "sufficient": "read"},
    "how": {"k": 2, "threshold": 0.0, "tau": 0.2, "max_tokens": 128, "max_new_tokens": 3},
}


def test_one_set_from_end_to_end(models, tmp_path):
    """Two questions of the corpus with a tiny reader: the tables hold together and may be kept, and a part is a part of the whole."""
    found, facts = ablations.refinements(**SET)
    cut, _ = ablations.chunks(**SET)
    swept, _ = ablations.sweeps(**SET, swept={"taus": [0.1], "numbers": [1, 2], "few": 1})
    for name, rows in (("rows", found), ("cuts", cut), ("sweeps", swept)):
        table.save(tmp_path / f"{name}.json", table.Kept(rows, "x", {}, facts))
    unsure = found.query("run == 'none' and uncertain == 1")["id"].unique()
    assert set(found["run"]) >= {"none", "none unfiltered"}
    assert facts["questions"] == 2 and facts["fingerprints"] == {models.profile.name: models.fingerprint}
    assert set(cut["condition"]) == {contexts.WHOLE, "fixed 64", "fixed 32", contexts.SEMANTIC, "neighbours"}
    assert cut.query("condition == 'semantic'")["faithful"].notna().any()
    assert swept[swept["condition"] == "tau"]["id"].tolist() == list(unsure) != []
    assert sorted(swept[swept["condition"] == "plain"]["run"]) == [1, 2]
    first, _ = ablations.live_refinements(**SET, few=1)  # what `rag-companion verify` stands on
    first_cut, _ = ablations.live_chunks(**SET, few=1)
    assert set(first["id"]) == {"q001"} and len(first) == (found["id"] == "q001").sum()
    for whole, part, key in ((found, first, ["id", "condition", "run"]), (cut, first_cut, ["id", "condition"])):
        whole, part = whole.set_index(key), part.set_index(key)
        pd.testing.assert_frame_equal(whole.loc[part.index, part.columns], part, check_dtype=False)
