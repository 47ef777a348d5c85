"""What chapter 7 keeps as numbers, in small: no text, each question by itself, and the taught functions behind it."""

import json
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import tiny
import tiny_orders

from experiments import asking, benchmarks
from experiments.moi_position import position_numbers as numbers
from experiments.table import text_of
from rag_utils import lm, moi
from rag_utils.engine import weights

THREE = {"size": 3, "prefix": 2, "drawn": 6, "seed": 0}


@pytest.fixture
def reader(tmp_path, monkeypatch):
    profile = tiny.llama(tmp_path)
    reader = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    monkeypatch.setattr(asking, "reader", lambda profile, mode, chapter=None: reader)
    return reader


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """Three questions for the value of a key among five."""
    file = tmp_path / "keys.jsonl"
    records = [[f"k{i}", f"v{i}"] for i in range(5)]
    rows = [{"ordered_kv_records": records, "key": key, "value": value} for key, value in records[:3]]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(benchmarks.manifest, "locate", lambda name: file)
    how = {"mode": "fresh", "profile": "x", "prompt": "read_plain", "dataset": "kv_retrieval", "orders": THREE}
    return how | {"questions": 3, "max_new_tokens": 2}


def test_a_benchmark_gives_numbers_and_no_text(reader, keys):
    rows, facts = numbers.orders_read(**keys)
    assert facts["questions"] == 3 and facts["sha256"] == benchmarks.source("kv_retrieval")["sha256"]
    assert facts["fingerprints"] == {reader.profile.name: reader.fingerprint} and "reply" not in rows
    text_of("kv", rows)  # may be kept
    first = rows["id"].iloc[0]
    assert rows.groupby("id")["condition"].value_counts()[first]["pruned"] == 6
    gold = rows[rows["condition"] == "answer gold first"]
    assert gold["gold"].tolist() == [1.0] * 3 and gold["exact_match"].notna().all()
    assert not rows.duplicated(["id", "condition", "run"]).any()
    assert not rows.select_dtypes(exclude="number").stack().str.contains("value|Key").any()
    reversed_ones = rows[rows["condition"] == "answer retriever reversed"]
    assert reversed_ones["order"].tolist() == ["2-1-0"] * 3
    votes = rows[rows["condition"] == "answer self-consistency"]
    assert len(votes) == 3 and set(rows.loc[rows["condition"] == "answer cyclic", "run"]) == {0, 1, 2}


def test_the_first_questions_alone_give_the_same_rows(reader, keys):
    rows, _ = numbers.orders_read(**keys)
    part, facts = numbers.orders_read(**keys, few=1)
    assert facts["questions"] == 1
    whole = rows[rows["id"] == part["id"].iloc[0]].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, whole, atol=1e-4)
    without, _ = numbers.orders_read(**keys | {"max_new_tokens": None})
    assert set(without["condition"]) == {"alone", "pruned"}


def test_corpus_questions_are_half_real_half_invented_and_spread():
    chosen = numbers.chosen("bridge", 6)
    assert [question.kind for question in chosen] == ["real"] * 3 + ["invented"] * 3
    assert {question.split for question in chosen} <= {"test", "train"}
    assert all(question.split == "dev" for question in numbers.chosen("single", 4, ["dev"]))
    assert numbers.spread(range(10), 3) == [0, 3, 6] and numbers.spread(range(2), 3) == [0, 1]


def test_as_printed_every_ranking_is_answered_and_the_cyclic_orders_say_how_likely_the_answer_is(reader, keys):
    printed = {**THREE, "drawn": 6, "full": 9}
    rows, _ = numbers.orders_read(**keys | {"orders": printed})
    text_of("kv", rows)
    first = rows[rows["id"] == rows["id"].iloc[0]]
    counts = first["condition"].value_counts()
    assert counts[["alone", "pruned", "full", "answer cyclic"]].tolist() == [3, 9, 9, 3]
    full, pruned = (first.loc[first["condition"] == name, "order"].tolist() for name in ("full", "pruned"))
    assert [order[:3] for order in full] == pruned  # they begin alike and share their work
    old, _ = numbers.orders_read(**keys)
    twelve = old[(old["id"] == first["id"].iloc[0]) & (old["condition"] == "pruned")]
    assert twelve["order"].tolist() == pruned[:6] and "probability" not in old
    ways = {name for name in rows["condition"] if name.startswith("answer ")}
    assert {"answer printed", "answer printed log mirrored", "answer pruned 6", "answer pruned 9"} < ways
    assert rows.loc[rows["condition"] == "answer cyclic", "probability"].between(0, 1).all()
    assert rows.loc[rows["condition"] != "answer cyclic", "probability"].isna().all()
    few, _ = numbers.orders_read(**keys | {"orders": printed}, few=1)
    pd.testing.assert_frame_equal(few, first.reset_index(drop=True), atol=1e-4, check_dtype=False)


def test_without_a_prefix_only_the_cyclic_orders_are_answered(reader, keys):
    rows, _ = numbers.orders_read(**keys | {"orders": {"size": 4, "seed": 0}})
    assert set(rows["condition"]) == {"answer cyclic", "answer self-consistency"} and len(rows) == 3 * 5
    asked, shown = benchmarks.key_values(3, 4)
    template, row = numbers.prompts.load("read_plain"), rows[rows["run"] == 2].iloc[0]
    passages = [shown[asked[0].id][place].text for place in (2, 3, 0, 1)]
    text = template.fill(question=asked[0].text, documents=passages)
    [nats] = reader.log_likelihood([text], [" " + asked[0].answers[0]])
    assert row["order"] == "2-3-0-1" and row["probability"] == pytest.approx(np.exp(nats.sum()), rel=1e-3)


def test_calls_about_the_corpus_are_the_chapters_and_those_about_a_benchmark_nobodys(reader, keys, monkeypatch):
    chapters = []
    monkeypatch.setattr(asking, "reader", lambda profile, mode, chapter=None: (chapters.append(chapter), reader)[1])
    orders = {"size": 2, "seed": 0}
    numbers.orders_read(**keys | {"orders": orders}, few=1)
    corpus = {"dataset": "companion", "questions": {"single": 2}, "max_new_tokens": 1}
    monkeypatch.setattr(numbers.measure, "answered", lambda *args, **how: pd.DataFrame({"condition": ["cyclic"]}))
    monkeypatch.setattr(numbers, "believed", lambda *args, **how: args[3].assign(reply="x"))
    monkeypatch.setattr(numbers.rerankers, "votes", lambda said, asked: said)
    numbers.orders_read(**keys | {"orders": orders} | corpus)
    assert chapters == [None, "07_moi_position"]


def test_one_by_one_ranks_every_question_of_the_corpus(reader, monkeypatch):
    def backwards(reader, questions, shown, *, prompt):
        return {one.id: [list(range(len(shown[one.id])))[::-1]] for one in questions}

    monkeypatch.setattr(numbers.rerankers, "sequential", backwards)
    counts = {"single": 2, "bridge": 0, "comparison": 2}
    how = {"mode": "fresh", "profile": "x", "prompt": "read_plain", "questions": counts, "size": 3}
    rows, facts = numbers.one_by_one(**how)
    wanted = numbers.chosen("single", 2) + numbers.chosen("comparison", 2)
    assert rows["id"].tolist() == [question.id for question in wanted] and set(rows["order"]) == {"2-1-0"}
    assert facts["fingerprints"] and numbers.one_by_one(**how, few=1)[0].equals(rows[:1])


def test_simulation():
    exact = numbers.without_noise(mode="replay", times=2, seed=0).groupby("condition")
    assert exact["identified"].mean().to_dict() == {
        "cyclic": 0, "cyclic pruned": 0, "pruned": 1, "pruned equal": 0, "pruned too few": 0, "random full": 0
    }  # fmt: skip
    assert exact[["right", "opposite"]].mean().loc["pruned"].tolist() == [1, 0]


# --- answers by order ------------------------------------------------------------------------------


@pytest.fixture
def said():
    return tiny_orders.said()


def test_by_place_by_hand(said):
    """Of q1 and q2 passage 0 is gold: the cyclic orders 0-1-2, 1-2-0 and 2-0-1 show it in places 1, 3 and 2."""
    found = numbers.by_place(said, "exact_match")
    assert list(found) == [1, 2, 3] and found.index.tolist() == ["q1", "q2"]
    assert found.loc["q1"].tolist() == [1, 0, 0] and found.loc["q2"].tolist() == [1, 0, 1]
    mixed = numbers.by_place(said.sample(frac=1, random_state=1), "exact_match")
    assert mixed.loc[found.index].equals(found)


def test_every_gold_passage_is_in_every_place_once():
    """Passages 1 and 3 of four are gold, the reply is right where 3 is last; the first gold passage alone would say otherwise."""
    orders = moi.cyclic_orders(4).tolist()
    gold = [max(1 / (order.index(passage) + 1) for passage in (1, 3)) for order in orders]
    right = [float(order[-1] == 3) for order in orders]
    rows = {"id": "q", "condition": "cyclic", "run": range(4), "gold": gold, "exact_match": right}
    found = numbers.by_place(pd.DataFrame(rows), "exact_match").loc["q"]
    assert found.to_dict() == {1: 0, 2: 0.5, 3: 0, 4: 0.5}  # then passage 1 stands in place 2
    by_first = pd.DataFrame(rows).groupby("gold")["exact_match"].mean()
    assert by_first[1 / 2] == 0.5 and 1 / 4 not in by_first  # the first gold passage is never last


def test_same_replies_by_hand():
    """Orders 0-1-2 and 0-2-1 share their first passage only; the vote and an order that comes twice count for nothing."""
    orders = ["0-1-2", "0-2-1", "1-2-0", "0-1-2", "votes"]
    replies = ["Rome", "The Rome.", "Bonn", "Rome", "Bonn"]
    ways = ["MoI", "QG", "QG", "cyclic", "self-consistency"]
    said = pd.DataFrame({"id": "q", "condition": ways, "order": orders, "reply": replies})
    found = numbers.same_replies(said)
    assert list(found.columns) == ["nowhere", 1, 2, 3] and list(found.index) == [("q", 0), ("q", 1), ("q", 2)]
    assert (found["nowhere"] == 0).all()  # 0-1-2 and 1-2-0
    assert found.loc[("q", 0), 1] == 1 and found.loc[("q", 2), 2] == 0  # 0-2-1 and 1-2-0 agree in the middle
    assert found[[1, 2, 3]].notna().sum().sum() == 2
    with pytest.raises(ValueError, match=r"of one length, got lengths \[2, 3\]"):
        numbers.same_replies(said.assign(order=["0-1-2", "0-2-1", "1-2", "0-1-2", "votes"]))


def test_a_reader_of_the_first_passage_is_seen_in_that_place_alone():
    """All orders of four passages, and a reply that names the first one."""
    labels = ["-".join(map(str, order)) for order in permutations(range(4))]
    said = pd.DataFrame({"id": "q", "condition": "MoI", "order": labels, "reply": [f"city {one[0]}" for one in labels]})
    found = numbers.same_replies(said)
    assert (found == [0, 1, 0, 0, 0]).all(axis=None)


def test_without_the_passage_held_equal_a_place_would_be_seen_that_does_nothing():
    """The reply is right where passage 0 is in one of the first two places; orders that rankings made have it in the first more often."""
    labels = [f"0-{a}-{b}-{c}" for a, b, c in permutations((1, 2, 3))] + ["1-0-2-3", "2-0-3-1", "1-3-2-0", "2-1-3-0"]
    replies = ["right" if 0 in (int(one[0]), int(one[2])) else one for one in labels]
    said = pd.DataFrame({"id": "q", "condition": "MoI", "order": labels, "reply": replies})
    found = numbers.same_replies(said)
    matched = found[[1, 2]].dropna()
    assert matched.loc[("q", 0)].tolist() == [1, 1]  # the passage counts for as much in the second place
    assert (found[1].mean() - found[2].mean()) > (matched[1] - matched[2]).mean()
