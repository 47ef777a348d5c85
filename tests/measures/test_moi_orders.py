"""MoI asked of a reader: orders, how likely each makes the question, answers, and fits of invented and of known scores."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_utils import lm, moi
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.measures import moi as measure
from rag_utils.prompts import Prompt

READ = Prompt("read", "$documents\nQ: $question\nA:", chat=False)
PASSAGES = [Passage(name, "title", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three"))]
QUESTION = Question(id="q1", text="which?", answers=("two",), dataset="companion", gold=(PASSAGES[1],))
OTHER = Question(id="q2", text="who?", answers=("one",), dataset="companion", gold=(PASSAGES[0], PASSAGES[2]))
SHOWN = {"q1": tuple(PASSAGES), "q2": tuple(PASSAGES[::-1])}
FIVE = {"alone": 1, "pruned": 3, "full": 5, "cyclic": 5, "cyclic pruned": 3}
few = settings(deadline=None, derandomize=True, max_examples=30)


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


# --- passages and orders ---------------------------------------------------------------------------


@few
@given(st.permutations(range(6)))
def test_a_label_is_read_back(order):
    assert measure.parse(measure.label(order)) == order
    assert measure.ranked(pd.DataFrame({"id": ["q"], "order": [measure.label(order)]})) == {"q": [order]}


def test_what_is_no_order_is_refused():
    for text in ("votes", "1-", "-1", "1--2", "", "1.5", None, 3):
        with pytest.raises(ValueError, match="wanted an order such as '2-0-1', got"):
            measure.parse(text)


def test_gold_that_the_retriever_missed_is_shown_last():
    by_id = {passage.id: passage for passage in PASSAGES}
    shown = measure.candidates([QUESTION], {"q1": {"a": 3.0, "c": 2.0}}, by_id, size=2)
    assert [p.id for p in shown["q1"]] == ["a", "b"]
    shown = measure.candidates([QUESTION], {"q1": {"b": 3.0, "a": 2.0, "c": 1.0}}, by_id, size=2)
    assert [p.id for p in shown["q1"]] == ["b", "a"] and measure.gold_places(QUESTION, shown) == [0]
    with pytest.raises(ValueError, match="has 3 passages to show, wanted 4"):
        measure.candidates([QUESTION], {"q1": {"a": 3.0}}, by_id, size=4)


def test_proposed_orders_depend_on_seed_and_place_only_and_random_sets_begin_alike():
    first = measure.propose(["q1", "q2"], 5, FIVE, drawn=4)
    again = measure.propose(["q1"], 5, {"pruned": 3}, drawn=4)
    assert np.array_equal(first["pruned"]["q1"], again["pruned"]["q1"])
    assert {name: orders["q2"].shape for name, orders in first.items()} == {
        "alone": (5, 1), "pruned": (4, 3), "full": (4, 5), "cyclic": (5, 5), "cyclic pruned": (5, 3)
    }  # fmt: skip
    assert np.array_equal(first["full"]["q2"][:, :3], first["pruned"]["q2"])
    assert not np.array_equal(first["full"]["q1"], first["full"]["q2"])
    assert not np.array_equal(
        first["full"]["q1"], measure.propose(["q1"], 5, {"full": 5}, drawn=4, seed=1)["full"]["q1"]
    )
    cut = measure.propose(["q1", "q2"], 5, {"cyclic variable": {"q1": 2, "q2": 4}})["cyclic variable"]
    assert np.array_equal(cut["q1"], moi.cyclic_orders(5, prefix=2)) and cut["q2"].shape == (5, 4)
    with pytest.raises(ValueError, match="unknown set of orders 'prund'"):
        measure.propose(["q1"], 5, {"prund": 3}, drawn=4)


# --- the reader ------------------------------------------------------------------------------------


def test_both_factors_are_those_of_the_text(reader):
    table = measure.saliencies(reader, [QUESTION], SHOWN, {"set": {"q1": [[2, 0], [0, 2]]}}, prompt=READ)
    text = ("Document: three\n", "Document: one\n")
    [asked] = reader.log_likelihood(["".join(text) + "Q:"], [" which?"])
    first, second = reader.log_likelihood(["", text[0]], list(text))
    assert table["order"].tolist() == ["2-0", "0-2"]
    assert table["query"][0] == pytest.approx(asked.sum())
    assert table["passages"][0] == pytest.approx(first.sum() + second.sum())
    assert table["information"][0] == pytest.approx((np.exp(asked) * asked).sum())
    alone = reader.log_likelihood(["", ""], list(text))
    assert table["passages"][0] != pytest.approx(sum(map(np.sum, alone)))  # each alone is another quantity
    without = measure.saliencies(reader, [QUESTION], SHOWN, {"set": {"q1": [[2, 0]]}}, prompt=READ, prior=False)
    assert without["passages"].isna().all() and without["query"][0] == pytest.approx(table["query"][0])


def test_all_orders_at_once_are_what_each_is_by_itself(reader):
    """Two questions, sets with orders in common, in one call; and order by order, question by question."""
    rng, asked = np.random.default_rng(0), {"q1": QUESTION, "q2": OTHER}
    sets = {
        name: {one: [rng.permutation(3)[:length].tolist() for _ in range(2)] for one in asked}
        for name, length in (("pruned", 2), ("full", 3), ("alone", 1))
    }
    table = measure.saliencies(reader, [QUESTION, OTHER], SHOWN, sets, prompt=READ)
    said = measure.answered(reader, [QUESTION, OTHER], SHOWN, sets, prompt=READ, max_new_tokens=3)
    assert len(table) == len(said) == 12
    keys = ["id", "condition", "run", "order"]
    assert table[keys].equals(said[keys])
    for (_, row), (_, reply) in zip(table.iterrows(), said.iterrows(), strict=True):
        mine = {"x": {row["id"]: [measure.parse(row["order"])]}}
        [plain] = measure.saliencies(reader, [asked[row["id"]]], SHOWN, mine, prompt=READ).to_dict("records")
        for name in ("query", "passages", "information"):
            assert row[name] == pytest.approx(plain[name], abs=1e-4)
        how = {"prompt": READ, "max_new_tokens": 3}
        [alone] = measure.answered(reader, [asked[row["id"]]], SHOWN, mine, **how).to_dict("records")
        assert reply["reply"] == alone["reply"] and reply["gold"] == alone["gold"]


def test_a_prompt_with_the_question_first_and_a_message_are_refused():
    for prompt in (
        Prompt("x", "$question\n$documents\n", chat=False), Prompt("x", "$documents $question", chat=True)
    ):  # fmt: skip
        with pytest.raises(ValueError, match="documents before"):
            measure.question_context(prompt, PASSAGES)


def test_answers_by_order(reader):
    sets = {"cyclic": {"q1": [[0, 1, 2], [1, 2, 0], [2, 0, 1]]}, "two gold": {"q2": [[1, 0, 2], [1]]}}
    table = measure.answered(reader, [QUESTION, OTHER], SHOWN, sets, prompt=READ, max_new_tokens=3)
    prompt = READ.fill(question="which?", documents=["two two", "three", "one"])
    assert table["reply"][1] == reader.generate([prompt], max_new_tokens=3)[0][0].text.strip()
    assert table["gold"].tolist() == [1 / 2, 1.0, 1 / 3, 1 / 2, 0.0]
    judged = measure.judged("The two!", QUESTION)
    assert (judged["exact_match"], judged["unparsable"], judged["reply"]) == (1.0, 0, "The two!")
    assert measure.judged("the", QUESTION)["unparsable"] == 1


# --- what the scores say ---------------------------------------------------------------------------


def invented(position, utilities, sets, noise=0.0, seed=0):
    """A table of saliencies that follow the model, with a constant of each question."""
    rng, rows = np.random.default_rng(seed), []
    for condition, orders in sets.items():
        for name, every in orders.items():
            a = position[: len(every[0])] / np.sum(position[: len(every[0])])
            scores = moi.predict(every, a, utilities[name]) - 50 + noise * rng.normal(size=len(every))
            for run, (order, score) in enumerate(zip(every, scores, strict=True)):
                row = {"id": name, "condition": condition, "run": run, "order": measure.label(order)}
                rows.append(row | {"query": score, "passages": -300.0 + run, "information": score / 10})
    return pd.DataFrame(rows)


def made(position, noise=0.0, questions=3):
    utilities = {f"q{i}": np.random.default_rng(i).normal(size=5) for i in range(questions)}
    return invented(
        np.array(position), utilities, measure.propose(list(utilities), 5, FIVE, drawn=15), noise
    ), utilities


def pruned(table):
    return list(measure.problems(table, "pruned").values())


def test_fits_are_moi_fit_question_by_question():
    table, utilities = made([0.5, 0.3, 0.2, 0.4, 0.1])
    fits = measure.fitted(table, "pruned", size=5, starts=4, seed=3)
    assert fits["order"].tolist() == [measure.label(moi.rerank(utility)) for utility in utilities.values()]
    for name, row in fits.set_index("id").iterrows():
        part = table[(table["id"] == name) & (table["condition"] == "pruned")]
        orders = np.array([measure.parse(order) for order in part["order"]])
        fit = moi.fit(orders, moi.saliency(part["query"], prior=False), 5, starts=4, rng=3)
        assert row[["a1", "a2", "a3"]].tolist() == fit.position.tolist() and row["residual"] == fit.residual
        assert (row["identified"], row["jacobian"], row["rankings"]) == (fit.identified, fit.rank, fit.rankings)
    signed = measure.fitted(table, "full", size=5, sign="pointwise prior", starts=24)
    assert signed["order"].tolist() == fits["order"].tolist()  # the scores alone know the sign
    with pytest.raises(ValueError, match="unknown condition 'prund'"):
        measure.fitted(table, "prund", size=5)


def test_problems_have_both_factors_where_asked():
    table, _ = made([0.5, 0.3, 0.2, 0.4, 0.1], questions=1)
    part = table[table["condition"] == "pruned"]
    [(orders, scores)] = measure.problems(table, "pruned", prior=True).values()
    assert scores == pytest.approx(moi.saliency(part["query"], part["passages"]))
    [(_, shares)] = measure.problems(table, "pruned", form="probability").values()
    assert shares.sum() == pytest.approx(1) and orders.shape == (15, 3)


def test_pooled_position_is_that_of_the_fit_with_passages_numbered_through():
    asked = pruned(made([0.2, 0.3, 0.5, 0.1, 0.1], noise=0.1)[0])
    position, left = measure.pooled_position(asked, 5)
    orders = np.vstack([orders + 5 * i for i, (orders, _) in enumerate(asked)])
    whole = moi.fit(orders, np.concatenate([scores for _, scores in asked]), 15, starts=2)
    assert position == pytest.approx(whole.position, abs=1e-3)
    assert left == pytest.approx(whole.residual, abs=1e-4)
    assert position != pytest.approx(np.full(3, 1 / 3), abs=0.05)
    assert measure.pooled_position(asked[::-1], 5)[0] == pytest.approx(position, abs=1e-6)


def test_calibrated_position_reads_cyclic_orders_and_leaves_the_retriever_where_it_settles_nothing():
    table, utilities = made([0.5, 0.3, 0.2, 0.4, 0.1])
    position, left = measure.pooled_position(pruned(table), 5)
    assert left < 1e-6 and position == pytest.approx([0.5, 0.3, 0.2], abs=1e-4)
    known = measure.calibrated(table, "cyclic pruned", {3: position}, size=5)
    assert known["order"].tolist() == [measure.label(moi.rerank(u)) for u in utilities.values()]
    assert known["identified"].tolist() == [1, 1, 1]
    wrong = measure.calibrated(table, "cyclic pruned", {3: np.array([0.1, 0.2, 0.7])}, size=5)
    assert wrong["order"].tolist() != known["order"].tolist()
    even = measure.calibrated(table, "cyclic", {5: np.full(5, 0.2)}, size=5)
    assert even["identified"].tolist() == [0, 0, 0] and set(even["order"]) == {"0-1-2-3-4"}


def test_pooling_full_orders_leaves_scale_and_sign_open():
    """All c of 1/N + c (a - 1/N) leave nothing, so that no pooling can tell them apart; pruned orders can."""
    utility, rng = np.array([0.1, 0.9, 0.4, 0.3, 0.2]), np.random.default_rng(0)
    a, full, short = np.array([0.3, 0.25, 0.2, 0.15, 0.1]), [], []
    for _ in range(3):
        orders = moi.random_orders(5, 15, rng=rng)
        full.append((orders, moi.predict(orders, a, utility)))
        orders = moi.random_orders(5, 15, prefix=3, rng=rng)
        short.append((orders, moi.predict(orders, [0.5, 0.3, 0.2], utility)))
    for c in (-1.0, 0.5, 1.0):
        assert measure.left_over(full, 5, 0.2 + c * (a - 0.2)) == pytest.approx(0, abs=1e-9)
    assert measure.left_over(short, 5, np.array([0.5, 0.3, 0.2])) == pytest.approx(0, abs=1e-9)
    assert measure.left_over(short, 5, 1 / 3 - (np.array([0.5, 0.3, 0.2]) - 1 / 3)) > 0.01


def test_problems_of_several_shapes_or_none_are_not_pooled():
    table, _ = made([0.5, 0.3, 0.2, 0.4, 0.1], questions=2)
    with pytest.raises(ValueError, match="of one shape, got 2 shapes"):
        measure.pooled_position(pruned(table) + list(measure.problems(table, "cyclic").values()), 5)
    with pytest.raises(ValueError, match="problems must hold at least 1"):
        measure.pooled_position([], 5)


def test_orders_of_other_questions_and_repeated_ids_are_refused(reader):
    orders = {"pruned": {"q1": [[0, 1]]}}
    for function in (measure.saliencies, measure.answered):
        with pytest.raises(ValueError, match="questions of pruned must be by keys such as 'q1'; got 'q2'"):
            function(reader, [OTHER], SHOWN, orders, prompt=READ)
        with pytest.raises(ValueError, match="shown must be by keys such as 'q1'; got 'which"):
            function(reader, [QUESTION], {QUESTION.text: SHOWN["q1"]}, orders, prompt=READ)
        with pytest.raises(ValueError, match="ids of questions must each come once; got 'q1' twice"):
            function(reader, [QUESTION, replace(QUESTION, text="another?")], SHOWN, orders, prompt=READ)
    pd.testing.assert_frame_equal(
        measure.answered(reader, [QUESTION, QUESTION], SHOWN, orders, prompt=READ),
        measure.answered(reader, [QUESTION], SHOWN, orders, prompt=READ),
    )
