"""What chapter 7 keeps as numbers, in small: no text, each question by itself, and the taught functions behind it."""

import json
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import tiny
import tiny_orders
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import asking, benchmarks
from experiments.moi_position import position_numbers as numbers
from experiments.moi_position import printed
from experiments.table import text_of
from rag_utils import data, lm, moi
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.measures import moi as measure
from rag_utils.prompts import Prompt

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
    monkeypatch.setattr(data, "locate", lambda name: file)
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


def test_fits_are_those_of_each_table_with_and_without_the_passages(monkeypatch, reader):
    rng, utility = np.random.default_rng(0), {"q1": [0.1, 0.9, 0.4], "q2": [0.7, 0.2, 0.3]}
    sets = measure.propose(list(utility), 3, {"pruned": 2}, drawn=9)["pruned"]
    table = pd.DataFrame(
        {"id": name, "condition": "pruned", "order": measure.label(order), "passages": -30 - rng.random()}
        | {"query": float(moi.predict([order], [0.7, 0.3], utility[name])[0]) - 9}
        for name, orders in sets.items()
        for order in orders
    )
    asked = []
    monkeypatch.setattr(numbers, "rows_of", lambda entry, **how: (asked.append((entry["title"], how)), table)[1])
    entries = [{"title": "NQ", "orders": THREE}, {"title": "NQ N 10", "orders": THREE}]
    how = {"mode": "replay", "profile": "x", "prompt": "read_plain"}
    rows, _ = numbers.fits(**how, entries=entries, starts=4, seed=0)
    assert [title for title, _ in asked] == ["NQ", "NQ N 10"] and all(given == how for _, given in asked)
    assert rows.groupby(["condition", "run"]).size().to_dict() == {(title, run): 2 for title in ("NQ", "NQ N 10") for run in (0, 1)}
    plain = measure.fitted(table, "pruned", size=3, starts=4)
    assert rows[(rows["condition"] == "NQ") & (rows["run"] == 0)][list(plain)].reset_index(drop=True).equals(plain)
    assert (rows.loc[rows["run"] == 0, "residual"] < 1e-6).all() and (rows.loc[rows["run"] == 1, "residual"] > 0.01).all()


def test_one_by_one_ranks_every_question_of_the_corpus(reader, monkeypatch):
    def backwards(reader, questions, shown, *, prompt):
        return {one.id: [list(range(len(shown[one.id])))[::-1]] for one in questions}

    monkeypatch.setattr(numbers, "sequential", backwards)
    counts = {"single": 2, "bridge": 0, "comparison": 2}
    how = {"mode": "fresh", "profile": "x", "prompt": "read_plain", "questions": counts, "size": 3}
    rows, facts = numbers.one_by_one(**how)
    wanted = numbers.chosen("single", 2) + numbers.chosen("comparison", 2)
    assert rows["id"].tolist() == [question.id for question in wanted] and set(rows["order"]) == {"2-1-0"}
    assert facts["fingerprints"] and numbers.one_by_one(**how, few=1)[0].equals(rows[:1])


def test_simulations():
    exact = numbers.without_noise(mode="replay", times=2, seed=0).groupby("condition")
    assert exact["identified"].mean().to_dict() == {
        "cyclic": 0, "cyclic pruned": 0, "pruned": 1, "pruned equal": 0, "pruned too few": 0, "random full": 0
    }  # fmt: skip
    assert exact[["right", "opposite"]].mean().loc["pruned"].tolist() == [1, 0]
    noisy = numbers.with_noise(mode="replay", noises=[0.05], times=2, seed=0)
    assert noisy.groupby("rising")["run"].unique().map(list).to_dict() == {0: [0], 1: [1]}
    way = noisy.groupby("condition")["tau"].mean()
    assert way["pruned"] > 0.7 and way["calibrated"] > 0.7


def test_problems_with_noise_do_not_hang_on_how_often_a_fit_begins_anew(monkeypatch):
    """A fit that draws more starts than another processor's must leave all other numbers as they are."""
    how = {"mode": "replay", "noises": [0.5], "times": 2, "seed": 0}
    before = numbers.with_noise(**how)
    fit = moi.fit

    def drawing(*args, rng, **options):
        if isinstance(rng, np.random.Generator):
            rng.normal(size=7)
        return fit(*args, rng=rng, **options)

    monkeypatch.setattr(numbers.moi, "fit", drawing)
    assert numbers.with_noise(**how).equals(before)


# --- answers and first tokens by order -------------------------------------------------------------


few = settings(deadline=None, derandomize=True, max_examples=30)


@pytest.fixture
def said():
    return tiny_orders.said()


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


def test_distances_by_hand():
    orders = {"q": [[0, 1, 2], [0, 2, 1], [1, 0, 2], [0, 1, 2]]}
    shares = {"q": np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8], [0.5, 0.3, 0.2]])}
    table = numbers.distances(shares, orders)
    assert len(table) == 5  # the first order and the last are one
    same = table[table["same_first"]]
    assert same["distance"].tolist() == pytest.approx([0.2, 0.2])
    other = table[~table["same_first"]]
    assert other["distance"].tolist() == pytest.approx([1.2, 1.2, 1.2])
    assert same["at_most"].tolist() == pytest.approx([0.6, 0.6])  # unnamed 0.2 and 0.2: as much again may differ
    assert other["at_most"].tolist() == pytest.approx([1.6, 1.6, 1.6])


@few
@given(st.integers(3, 8), st.integers(1, 7), st.integers(0, 10**6))
def test_the_distance_over_all_tokens_lies_between_the_bounds(tokens, named, seed):
    """Whatever the unnamed tokens do; and taking their two rests for the truth alone would be wrong."""
    named = min(named, tokens - 1)
    rows = np.random.default_rng(seed).dirichlet(np.full(tokens, 0.4), size=2)
    truth = np.abs(rows[0] - rows[1]).sum()
    lumped = np.hstack([rows[:, :named], rows[:, named:].sum(axis=1, keepdims=True)])
    found = numbers.distances({"q": lumped}, {"q": [[0, 1], [1, 0]]}).iloc[0]
    assert found["distance"] - 1e-9 <= truth <= found["at_most"] + 1e-9
    assert 0 <= found["distance"] <= found["at_most"] <= 2 + 1e-9
    if tokens - named == 1:
        assert found["distance"] == pytest.approx(truth)  # one token without a name is known too


def test_first_tokens_and_their_distances(reader):
    prompt = Prompt("read", "$documents\nQ: $question\nA:", chat=False)
    passages = tuple(Passage(name, "t", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three")))
    questions = [Question(id=name, text="which?", answers=("two",), dataset="x", gold=passages[:1]) for name in "pq"]
    orders = {name: [[0, 1, 2], [0, 2, 1], [1, 0, 2]] for name in "pq"}
    replies, shown = {"p": ["two", "three", ""], "q": ["two"]}, dict.fromkeys("pq", passages)
    both = numbers.first_tokens(reader, questions, shown, orders, replies, prompt=prompt)
    assert both["p"].shape == (3, 2)  # both begin with a space, one byte
    assert both["p"].sum(axis=1) == pytest.approx(np.ones(3))
    text = prompt.fill(question="which?", documents=["one", "three", "two two"])
    [[nats]] = reader.log_likelihood([text], [" "])
    assert both["p"][1, 0] == pytest.approx(np.exp(nats), rel=1e-4) and both["q"] == pytest.approx(both["p"], abs=1e-5)
    table = numbers.distances({"p": both["p"]}, orders)
    assert table["same_first"].tolist() == [True, False, False]
    assert table["distance"].between(0, 2).all()
    assert table["distance"][0] == pytest.approx(2 * abs(both["p"][1, 0] - both["p"][0, 0]))


def test_as_printed_is_answered_beside_its_reverse_and_the_settled_fits(reader, keys):
    how = keys | {"dataset": "kv_retrieval", "orders": {"size": 3, "prefix": 2, "seed": 0, "conventions": False}}
    rows, facts = printed.answers(**how)
    ways = {*printed.FITS, "printed turned", "logarithm turned", "even", "cyclic"}
    assert set(rows["condition"]) == ways and facts["questions"] == 3
    text_of("printed", rows)
    by_way = rows[rows["condition"] != "cyclic"].pivot(index="id", columns="condition", values="order")
    assert by_way["printed turned"].tolist() == [order[::-1] for order in by_way["printed"]]
    assert by_way["logarithm turned"].tolist() == [order[::-1] for order in by_way["logarithm"]]
    settled = rows.groupby("condition")["identified"].sum()
    full = [way for way, (of, _, _) in printed.FITS.items() if of == "full"]
    assert not settled[full].any()  # full orders never settle it
    more, _ = printed.answers(**how | {"orders": how["orders"] | {"conventions": True}})
    of = more["condition"].isin(printed.CONVENTIONS)
    assert set(more["condition"][of]) == {*printed.CONVENTIONS} and not more["identified"][of].any()
    pd.testing.assert_frame_equal(more[~of].reset_index(drop=True), rows, atol=1e-4)
    part, _ = printed.answers(**how, few=1)
    whole = rows[rows["id"] == part["id"].iloc[0]].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, whole, atol=1e-4)
    first, _ = printed.answers(**how | {"orders": how["orders"] | {"first": 1}})
    pd.testing.assert_frame_equal(first, whole, atol=1e-4)
