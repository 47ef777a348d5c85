"""DENSE-RAG taken apart: rows, costs and rules, on made-up replies; a tiny reader end to end."""

import numpy as np
import pytest
import tiny
from test_refinement import HOW, invented

from experiments import results
from experiments.dense_rag import ablations, contexts, refinement
from rag_utils import lm
from rag_utils.data import Question
from rag_utils.engine import weights


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def test_cost_of_a_question(reader):
    some, tables, _ = invented(1, questions=1, k=2, replies=1)
    found = refinement.understood(some, tables)
    row = ablations.cost(reader, some, found, HOW).iloc[0]
    assert (row["k"], row["rounds"], row["rephrasings"], row["replies"], row["entailments"]) == (2, 1, 2, 3, 6)
    texts = [refinement.filled(reader, HOW, some[0].question.text, context) for context in found["q0"].read]
    assert row["tokens"] == sum(map(reader.count_tokens, texts)) and row["alone"] == reader.count_tokens(texts[0])
    assert row["alone"] < row["distinct"] < row["tokens"]


def test_rows():
    questions = [Question("q1", "who", ("Ann",), "companion"), Question("q2", "is it", ("yes",), "companion")]
    table = ablations.rows(questions, {"full": {"q1": "ann", "q2": ""}})
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


def test_half_of_the_first_contexts_are_enough():
    some, tables, _ = invented(4, questions=8)
    half = ablations.halves(tables, some)
    nats = [tables.enough[case.question.id, case.texts(case.first)] for case in some]
    assert sum(value > half for value in nats) <= 4 <= sum(value >= half for value in nats)


def test_everything_in_one_table(reader):
    some, tables, _ = invented(7, questions=8)
    questions = [case.question for case in some]
    cut = {way: some for way in (contexts.WHOLE, "fixed 64", contexts.SEMANTIC)}
    table, outcomes = ablations.tabulated(reader, questions, cut, tables, HOW)
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
    for row in refined.itertuples():
        outcome = outcomes[row.id, row.run, row.condition]
        assert (row.rounds, row.added) == (len(outcome.refinement.rounds), len(outcome.added))
        assert (row.ended, row.chunks) == (outcome.refinement.ended, len(outcome.refinement.context))
        assert row.condition != "only removing" or not outcome.added
        assert row.run in ("no limit", "printed") or row.chunks <= 3
    same = refined[refined["condition"] == "no self-evaluation"].set_index(["id", "run"])["exact_match"].unstack()
    assert (same["word"] == same["half"]).all()
    assert not table.duplicated(["id", "condition", "run"]).any()
    some_rules = ablations.tabulated(reader, questions, cut, tables, HOW, only=("half",))[0]
    assert set(some_rules["run"]) == {"none", "half"}


def test_one_set_from_end_to_end(monkeypatch, tmp_path):
    """Two questions of the corpus with a tiny reader: the tables hold together and may be kept."""

    class Different:
        def equivalent(self, questions, left, right):
            return np.array([float(question == "What is said?") for question in questions])

    def encode(texts):
        return np.array([[len(text), 1.0 + text.count("e")] for text in texts])

    profile = tiny.llama(tmp_path / "reader", shape={"max_position_embeddings": 8192})
    reader = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    settings = refinement.Settings(HOW.read, HOW.closed, HOW.rephrase, HOW.read, k=2, threshold=0.0, max_new_tokens=3)
    some = ablations.material("companion", 2, settings, count_tokens=lambda text: len(text.split()), encode=encode)
    assert {len(case.first) for held in some.cut.values() for case in held} == {2}
    other = {text: f"{text} again" for text in ablations.editable(some.cut)}
    found, facts = ablations.measured(
        reader, reader, Different(), some, other, settings, taus=(0.1,), numbers=(1, 2), few=1
    )
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    unsure = found["rows"].query("run == 'none' and uncertain == 1")["id"].unique()
    for part, table in found.items():
        if len(table):
            results.save("chapter", part, table, facts)
    assert set(found["rows"]["run"]) >= {"none", "none unfiltered"}
    assert facts["questions"] == 2 and facts["k"] == 2 and "sha256" not in facts
    assert set(found["cuts"]["condition"]) == {*some.ways, "neighbours"}
    assert found["cuts"].query("condition == 'semantic'")["faithful"].notna().any()
    swept = found["sweeps"]
    assert swept[swept["condition"] == "tau"]["id"].tolist() == list(unsure) != []
    assert sorted(swept[swept["condition"] == "plain"]["run"]) == [1, 2]
