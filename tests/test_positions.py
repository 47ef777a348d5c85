"""Orders of passages: what is asked of a tiny reader, and fits and rankings of invented saliencies."""

import json
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_utils import lm, moi, positions, weights
from rag_utils.data import Passage, Question
from rag_utils.prompts import Prompt

READ = Prompt("read", "$documents\nQ: $question\nA:", chat=False)
PASSAGES = [Passage(name, "title", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three"))]
QUESTION = Question(id="q1", text="which?", answers=("two",), dataset="companion", gold=(PASSAGES[1],))
SHOWN = {"q1": tuple(PASSAGES)}
few = settings(deadline=None, derandomize=True, max_examples=30)


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


# --- orders ----------------------------------------------------------------------------------------


@few
@given(st.permutations(range(6)))
def test_a_label_is_read_back(order):
    assert positions.parse(positions.label(order)) == order


@few
@given(st.sets(st.integers(0, 5), min_size=1, max_size=3), st.sampled_from(["first", "middle", "last"]))
def test_gold_moves_together_and_the_others_keep_their_order(gold, where):
    order = positions.with_gold(6, sorted(gold), where)
    assert sorted(order) == list(range(6))
    assert [place for place in order if place not in gold] == sorted(set(range(6)) - gold)
    first = order.index(min(gold))
    assert order[first : first + len(gold)] == sorted(gold)
    assert (first == 0) == (where == "first")


def test_gold_that_the_retriever_missed_is_shown_last():
    by_id = {passage.id: passage for passage in PASSAGES}
    run = {"q1": {"a": 3.0, "c": 2.0}}
    assert [p.id for p in positions.candidates([QUESTION], run, by_id, size=2)["q1"]] == ["a", "b"]
    found = positions.candidates([QUESTION], {"q1": {"b": 3.0, "a": 2.0, "c": 1.0}}, by_id, size=2)
    assert [p.id for p in found["q1"]] == ["b", "a"] and positions.gold_places(QUESTION, found) == [0]
    with pytest.raises(ValueError, match="has 3 passages to show, wanted 4"):
        positions.candidates([QUESTION], run, by_id, size=4)


def test_proposed_orders_depend_on_the_seed_only():
    first = positions.propose(["q1", "q2"], 5, positions.SETS, prefix=3, orders=4)
    again = positions.propose(["q1"], 5, [positions.PRUNED], prefix=3, orders=4)
    assert np.array_equal(first["pruned"]["q1"], again["pruned"]["q1"])
    assert {name: some["q2"].shape for name, some in first.items()} == {
        "alone": (5, 1),
        "pruned": (4, 3),
        "full": (4, 5),
        "cyclic": (5, 5),
        "cyclic pruned": (5, 3),
    }
    with pytest.raises(ValueError, match="unknown set of orders"):
        positions.propose(["q1"], 5, ["prund"], prefix=3, orders=4)


# --- reading ---------------------------------------------------------------------------------------


def test_both_factors_are_those_of_the_text(reader):
    table = positions.saliencies(reader, [QUESTION], SHOWN, {"set": {"q1": [[2, 0], [0, 2]]}}, prompt=READ)
    text = ("Document: three\n", "Document: one\n")
    [asked] = reader.log_likelihood(["".join(text) + "Q:"], [" which?"])
    first, second = reader.log_likelihood(["", text[0]], list(text))
    assert table["order"].tolist() == ["2-0", "0-2"]
    assert table["query"][0] == pytest.approx(asked.sum())
    assert table["passages"][0] == pytest.approx(first.sum() + second.sum())
    assert table["information"][0] == pytest.approx((np.exp(asked) * asked).sum())
    alone = reader.log_likelihood(["", ""], list(text))
    assert table["passages"][0] != pytest.approx(sum(map(np.sum, alone)))  # each alone is another quantity
    without = positions.saliencies(reader, [QUESTION], SHOWN, {"set": {"q1": [[2, 0]]}}, prompt=READ, prior=False)
    assert without["passages"].isna().all() and without["query"][0] == table["query"][0]


def test_a_prompt_with_the_question_first_is_refused():
    with pytest.raises(ValueError, match="documents before"):
        positions.question_context(Prompt("x", "$question\n$documents\n", chat=False), PASSAGES)


def test_answers_by_order_and_votes(reader):
    sets = {"cyclic": {"q1": [[0, 1, 2], [1, 2, 0], [2, 0, 1]]}}
    table = positions.answered(reader, [QUESTION], SHOWN, sets, prompt=READ, max_new_tokens=3)
    prompt = READ.fill(question="which?", documents=["two two", "three", "one"])
    assert table["reply"][1] == reader.generate([prompt], max_new_tokens=3)[0][0].text.strip()
    assert table["gold"].tolist() == [1 / 2, 1.0, 1 / 3]
    table["reply"] = ["No", "Two", "two."]
    [vote] = positions.votes(table, [QUESTION]).to_dict("records")
    assert vote["reply"] == "Two" and vote["exact_match"] == 1.0
    table["reply"] = ["one", "two", "three"]  # a tie: the first
    assert positions.votes(table, [QUESTION])["exact_match"].tolist() == [0.0]


def test_sequential_choice_is_the_greedy_one(reader):
    [order] = positions.sequential(reader, [QUESTION], SHOWN, prompt=READ)["q1"]
    every = {"set": {"q1": [list(some) for k in (1, 2) for some in permutations(range(3), k)]}}
    table = positions.saliencies(reader, [QUESTION], SHOWN, every, prompt=READ).set_index("order")
    score = table["query"] + table["passages"]
    assert order[0] == int(score[["0", "1", "2"]].idxmax())
    rest = [f"{order[0]}-{place}" for place in range(3) if place != order[0]]
    assert positions.label(order[:2]) == score[rest].idxmax() and sorted(order) == [0, 1, 2]


def test_listwise_ranks_in_the_retrievers_numbers(reader, monkeypatch):
    asked = []

    def generate(prompts, **options):
        asked.extend(prompts)
        return [[lm.Generation("[2] > [3]", (1,), np.array([-1.0]))] for _ in prompts]

    monkeypatch.setattr(reader, "generate", generate)
    prompt = Prompt("rank", "$question\n$passages", chat=False)
    orders = {"q1": [[0, 1, 2], [2, 0, 1]]}
    table = positions.listwise(reader, [QUESTION], SHOWN, orders, prompt=prompt)
    assert asked[1] == "which?\n[1] three\n[2] one\n[3] two two"
    assert table["order"].tolist() == ["1-2-0", "0-1-2"]
    assert table["missing"].tolist() == [1, 1] and not table["repeated"].any()


def test_first_tokens_and_their_distances(reader):
    orders = {"q1": [[0, 1, 2], [0, 2, 1], [1, 0, 2]]}
    found = positions.first_tokens(reader, [QUESTION], SHOWN, orders, {"q1": ["two", "three"]}, prompt=READ)["q1"]
    assert found.shape == (3, 2)  # both begin with a space, one byte
    assert found.sum(axis=1) == pytest.approx(np.ones(3))
    table = positions.distances({"q1": found}, orders)
    assert table["same_first"].tolist() == [True, False, False]
    assert table["distance"].between(0, 2).all()
    assert table["distance"][0] == pytest.approx(2 * abs(found[1, 0] - found[0, 0]))


def test_a_benchmark_gives_numbers_and_no_text(reader, tmp_path, monkeypatch):
    file = tmp_path / "keys.jsonl"
    records = [[f"k{i}", f"v{i}"] for i in range(5)]
    rows = [{"ordered_kv_records": records, "key": key, "value": value} for key, value in records[:2]]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(positions.manifest, "locate", lambda name: file)
    questions, shown = positions.key_values(2, 3)
    for question, key in zip(questions, ("k0", "k1"), strict=True):
        texts = [passage.text for passage in shown[question.id]]
        assert len(set(texts)) == 3 and sum(f"Key {key} has" in text for text in texts) == 1
        assert texts[positions.gold_places(question, shown)[0]] == f"Key {key} has the value {question.answers[0]}."
    how = {"size": 3, "prefix": 2, "orders": 6, "answer": True, "max_new_tokens": 2}
    table, facts = positions.benchmark(reader, "kv_retrieval", 2, prompt=READ, **how)
    assert facts["questions"] == 2 and "reply" not in table
    assert table.groupby("id")["condition"].value_counts()[questions[0].id]["pruned"] == 6
    gold = table[table["condition"] == "answer gold first"]
    assert gold["gold"].tolist() == [1.0, 1.0] and gold["exact_match"].notna().all()
    assert not table.duplicated(["id", "condition", "run"]).any()
    words = table.select_dtypes(exclude="number").stack()
    assert not words.str.contains("value|Key").any()


# --- fits ------------------------------------------------------------------------------------------


def invented(position, utilities, sets, noise=0.0, seed=0):
    """A table of saliencies that follow the model, with a constant of each question."""
    rng, found = np.random.default_rng(seed), []
    for condition, orders in sets.items():
        for name, some in orders.items():
            weights_ = position[: len(some[0])] / np.sum(position[: len(some[0])])
            scores = moi.predict(some, weights_, utilities[name]) - 50 + noise * rng.normal(size=len(some))
            for run, (order, score) in enumerate(zip(some, scores, strict=True)):
                row = {"id": name, "condition": condition, "run": run, "order": positions.label(order)}
                found.append(row | {"query": score, "passages": -300.0 + run, "information": score / 10})
    return pd.DataFrame(found)


def made(position, noise=0.0, questions=3):
    utilities = {f"q{i}": np.random.default_rng(i).normal(size=5) for i in range(questions)}
    sets = positions.propose(list(utilities), 5, positions.SETS, prefix=3, orders=15)
    return invented(np.array(position), utilities, sets, noise), utilities


def test_pruned_orders_give_ranking_and_position_back():
    table, utilities = made([0.5, 0.3, 0.2, 0.4, 0.1])
    fits = positions.fitted(table, "pruned", size=5, starts=4)
    assert fits["identified"].tolist() == [1, 1, 1]
    assert fits[["a1", "a2", "a3"]].to_numpy() == pytest.approx(np.tile([0.5, 0.3, 0.2], (3, 1)), abs=1e-3)
    assert fits["order"].tolist() == [positions.label(moi.rerank(u)) for u in utilities.values()]
    found = positions.rankings(table, size=5)
    assert [positions.label(order) for [order] in found["MoI"].values()] == fits["order"].tolist()
    for name, [order] in found["QG"].items():  # alone, without noise, the utilities themselves
        assert order == moi.rerank(utilities[name]).tolist()
    # the invented prior of "alone" grows with the passage's number by more than the utilities differ
    assert found["retriever"]["q0"] == [[0, 1, 2, 3, 4]] and found["MoI, prior"] != found["MoI"]
    assert positions.reversed_orders(found["QG"])["q0"] == [found["QG"]["q0"][0][::-1]]


def test_pooled_position_is_that_of_the_fit_with_passages_numbered_through():
    table, _ = made([0.2, 0.3, 0.5, 0.1, 0.1], noise=0.1)
    asked = list(positions.problems(table, "pruned").values())
    position, left = positions.pooled_position(asked, 5)
    orders = np.vstack([orders + 5 * i for i, (orders, _) in enumerate(asked)])
    whole = moi.fit(orders, np.concatenate([scores for _, scores in asked]), 15, starts=2)
    assert position == pytest.approx(whole.position, abs=1e-3)
    assert left == pytest.approx(whole.residual, abs=1e-4)
    assert position != pytest.approx(np.full(3, 1 / 3), abs=0.05)


def test_calibrated_position_reads_cyclic_orders():
    table, utilities = made([0.5, 0.3, 0.2, 0.4, 0.1])
    position, left = positions.pooled_position(list(positions.problems(table, "pruned").values()), 5)
    assert left < 1e-6
    found = positions.calibrated(table, position, size=5)
    assert {name: order for name, [order] in found.items()} == {
        name: moi.rerank(u).tolist() for name, u in utilities.items()
    }
    wrong = positions.calibrated(table, np.array([0.1, 0.2, 0.7]), size=5)  # a position that is not the reader's
    assert wrong != found


def test_pooling_full_orders_leaves_scale_and_sign_open():
    """All c of 1/N + c (a - 1/N) leave nothing, so that no pooling can tell them apart; pruned orders can."""
    utility, rng = np.array([0.1, 0.9, 0.4, 0.3, 0.2]), np.random.default_rng(0)
    a, full, pruned = np.array([0.3, 0.25, 0.2, 0.15, 0.1]), [], []
    for _ in range(3):
        orders = moi.random_orders(5, 15, rng=rng)
        full.append((orders, moi.predict(orders, a, utility)))
        orders = moi.random_orders(5, 15, prefix=3, rng=rng)
        pruned.append((orders, moi.predict(orders, [0.5, 0.3, 0.2], utility)))
    for c in (-1.0, 0.5, 1.0):
        other = 0.2 + c * (a - 0.2)
        assert positions.left_over(full, 5, other) == pytest.approx(0, abs=1e-9)
    assert positions.left_over(pruned, 5, np.array([0.5, 0.3, 0.2])) == pytest.approx(0, abs=1e-9)
    assert positions.left_over(pruned, 5, 1 / 3 - (np.array([0.5, 0.3, 0.2]) - 1 / 3)) > 0.01


def test_simulations():
    pruned = positions.tried("pruned", times=3)
    assert pruned[["identified", "right", "opposite"]].mean().tolist() == [1, 1, 0]
    for kind in ("cyclic", "cyclic pruned", "pruned, too few", "pruned, equal"):
        assert not positions.tried(kind, times=2)["identified"].any(), kind
    way = positions.recovered(0.05, rising=True, times=2, dev=6).groupby("condition")["tau"].mean()
    assert way["pruned"] > 0.7 and way["calibrated"] > 0.7
