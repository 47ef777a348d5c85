"""Reading a listwise reply, and ranking as the paper prints it: cases by hand, an independent solver, wrong formulas that must fail."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from experiments.moi_position import rerankers
from experiments.moi_position.rerankers import parse_listwise, printed_fit, printed_ways
from rag_utils import lm, moi
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.measures import moi as measure
from rag_utils.prompts import Prompt

repeatable = settings(deadline=None, derandomize=True, max_examples=60)


# --- replies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "n", "order", "missing", "repeated", "out_of_range"),
    [
        ("[2] > [3] > [1]", 3, (1, 2, 0), 0, 0, 0),
        ("[2]>[1]", 2, (1, 0), 0, 0, 0),
        ("2 > 3 > 1", 3, (1, 2, 0), 0, 0, 0),
        ("[2, 3, 1]", 3, (1, 2, 0), 0, 0, 0),
        ("Passage 2, then passage 1.", 2, (1, 0), 0, 0, 0),
        ("The 3 passages in order: [3] > [1] > [2]", 3, (2, 0, 1), 0, 0, 0),
        ("[ 03 ] > [01] > [2]", 3, (2, 0, 1), 0, 0, 0),
        ("", 3, (0, 1, 2), 3, 0, 0),
        ("I cannot rank them.", 2, (0, 1), 2, 0, 0),
        ("[3]", 4, (2, 0, 1, 3), 3, 0, 0),
        ("[4] > [2]", 4, (3, 1, 0, 2), 2, 0, 0),
        ("[2] > [2] > [1] > [2]", 2, (1, 0), 0, 2, 0),
        ("[0] > [2] > [1]", 2, (1, 0), 0, 0, 1),
        ("[3] > [7] > [3]", 4, (2, 0, 1, 3), 3, 1, 1),
        ("[10] > [1]", 10, (9, 0, 1, 2, 3, 4, 5, 6, 7, 8), 8, 0, 0),
        (f"[{'9' * 6000}] > [1]", 2, (0, 1), 1, 0, 1),
    ],
)
def test_replies_by_hand(reply, n, order, missing, repeated, out_of_range):
    repairs = {"missing": missing, "repeated": repeated, "out_of_range": out_of_range}
    assert parse_listwise(reply, n) == (list(order), repairs)


@repeatable
@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n + 2), max_size=15))))
def test_every_reply_is_completed_to_a_permutation(drawn):
    n, numbers = drawn
    order, repairs = parse_listwise(" > ".join(f"[{number}]" for number in numbers), n)
    assert sorted(order) == list(range(n))
    named = [number - 1 for number in numbers if 1 <= number <= n]
    first = sorted(set(named), key=named.index)
    assert order[: len(first)] == first  # the reply's order first
    assert order[len(first) :] == sorted(set(range(n)) - set(named))  # then the retriever's
    assert len(numbers) + repairs["missing"] - repairs["repeated"] - repairs["out_of_range"] == n
    assert (sum(repairs.values()) == 0) == (sorted(numbers) == list(range(1, n + 1)))


@given(st.text(max_size=40))
@repeatable
def test_any_text_gives_a_ranking(text):
    assert sorted(parse_listwise(text, 4)[0]) == [0, 1, 2, 3]


def test_counting_every_digit_is_wrong():
    """With every digit of the reply read, "the 3 passages" would put passage 3 first."""
    reply = "The 3 passages in order: [2] > [1] > [3]"
    digits = [int(one) - 1 for one in reply if one.isdigit()]
    assert list(dict.fromkeys(digits)) == [2, 1, 0]
    assert parse_listwise(reply, 3)[0] == [1, 0, 2]


def test_counting_from_zero_is_wrong():
    assert parse_listwise("[1] > [2]", 2)[0] == [0, 1]
    assert parse_listwise("[1] > [0]", 2)[1]["out_of_range"] == 1


def test_replies_that_are_none_are_refused():
    for reply, n, named in ((None, 3, "reply"), (b"[1]", 3, "reply"), ("[1]", 0, "n"), ("[1]", 1.5, "n")):
        with pytest.raises(ValueError, match=rf"^{named} must be .*; got"):
            parse_listwise(reply, n)


# --- as the paper prints it ------------------------------------------------------------------------


def problem(seed: int):
    """Fifteen full orders of five passages, their scores without noise, and the true utility and position."""
    rng = np.random.default_rng(seed)
    orders, utility, position = moi.random_orders(5, 15, rng=rng), rng.normal(size=5), rng.dirichlet(np.full(5, 3.0))
    return orders, moi.predict(orders, position, utility), utility, position


def left(orders, scores, utility, position):
    return float(np.sqrt(np.mean((moi.predict(orders, position, utility) - scores) ** 2)) / np.std(scores))


def test_one_start_finds_the_ranking_or_its_reverse_and_the_jitter_decides():
    taus, turned = [], []
    for seed in range(12):
        orders, scores, utility, _ = problem(seed)
        (plain, a), (other, b) = (printed_fit(orders, scores, 5, jitter=j, rng=seed) for j in (1e-3, -1e-3))
        assert a.sum() == pytest.approx(1) == b.sum() and min(a.min(), b.min()) >= -1e-9
        if left(orders, scores, plain, a) < 1e-4 and left(orders, scores, other, b) < 1e-4:
            taus.append(round(kendalltau(plain, utility).statistic, 6))
            turned.append(kendalltau(plain, other).statistic)
    assert len(taus) >= 8 and set(taus) == {1, -1}  # no residual, and right or exactly wrong
    assert sum(tau < -0.999 for tau in turned) >= len(turned) - 1  # the same start with the other sign


def test_a_uniform_start_is_where_the_solver_stays():
    orders, scores, *_ = problem(3)
    utility, position = printed_fit(orders, scores, 5, jitter=0)
    assert position == pytest.approx([0.2] * 5) and np.ptp(utility) < 1e-9
    assert left(orders, scores, utility, position) == pytest.approx(1)  # nothing is explained


def test_the_mirror_image_fits_as_well_and_ranks_backwards():
    orders, scores, *_ = problem(0)
    utility, position = printed_fit(orders, scores, 5, rng=0)
    stretch = 0.2 / (position.max() - 0.2)  # as far as the mirrored position stays at 0 or above
    mirrored = 0.2 - stretch * (position - 0.2), utility.mean() - (utility - utility.mean()) / stretch
    assert mirrored[0].min() >= 0 and moi.predict(orders, *mirrored) == pytest.approx(
        moi.predict(orders, position, utility)
    )
    assert moi.rerank(mirrored[1]).tolist() == moi.rerank(utility)[::-1].tolist()


def test_one_start_agrees_with_the_best_of_many_where_it_reaches_the_least_residual():
    """Scores with noise: the same programme, by variable projection from many starts."""
    reached = 0
    for seed in range(6):
        orders, scores, *_ = problem(seed)
        scores = scores + np.random.default_rng(seed).normal(scale=0.1 * scores.std(), size=15)
        utility, position = printed_fit(orders, scores, 5, rng=seed)
        best = moi.fit(orders, scores, 5, starts=8)
        mine = left(orders, scores, utility, position) * scores.std()
        assert mine >= best.residual - 1e-6
        if mine <= best.residual + 1e-5:
            reached += 1
            assert abs(kendalltau(utility, best.utility).statistic) > 0.99
    assert reached >= 3


def saliency_rows(*, passages: float = 0.0):
    """One question of five passages: alone, 15 full orders, 15 pruned ones, from a true utility and a falling position."""
    sets = measure.propose(["q1"], 5, {"alone": 1, "pruned": 3, "full": 5}, drawn=15)
    utility, rng = np.array([0.1, 0.9, 0.4, 0.3, 0.2]), np.random.default_rng(0)
    rows = []
    for name, orders in sets.items():
        for run, order in enumerate(orders["q1"]):
            a = np.linspace(3, 1, len(order)) / np.linspace(3, 1, len(order)).sum()
            query = -9 + float(moi.predict([order], a, utility)[0])
            row = {"id": "q1", "condition": name, "run": run, "order": measure.label(order), "query": query}
            rows.append(row | {"passages": -30 + passages * rng.normal(), "information": -1.0})
    return pd.DataFrame(rows)


def test_ways_as_printed_and_their_mirror_images():
    rows = saliency_rows()
    ways = printed_ways(rows, size=5, drawn=12)
    assert list(ways) == [
        "printed", "printed mirrored", "printed log", "printed log mirrored", "printed falling a", "pruned 12",
        "pruned 15", "level a", "retriever",
    ]  # fmt: skip
    right = [1, 2, 3, 4, 0]
    assert ways["pruned 12"]["q1"] == ways["pruned 15"]["q1"] == [right] and ways["retriever"]["q1"] == [
        [0, 1, 2, 3, 4]
    ]
    for way in ("printed", "printed log"):
        assert ways[f"{way} mirrored"]["q1"] == [ways[way]["q1"][0][::-1]]
    assert right in (ways["printed log"]["q1"][0], ways["printed log mirrored"]["q1"][0])
    part = rows[(rows["condition"] == "pruned") & (rows["run"] < 12)]  # all places alike: which passages are shown
    scores = part["query"] - part["query"].mean()
    level = [scores[part["order"].str.contains(str(passage))].mean() for passage in range(5)]
    assert ways["level a"]["q1"] == [np.argsort(np.negative(level)).tolist()] != [right]


def test_the_printed_ways_look_at_the_passages_factor_and_the_pruned_ones_do_not():
    plain, moved = (printed_ways(saliency_rows(passages=size), size=5, drawn=12) for size in (0, 5))
    assert plain["pruned 12"] == moved["pruned 12"] and plain["level a"] == moved["level a"]
    assert plain["printed log"] != moved["printed log"] and plain["printed falling a"] != moved["printed falling a"]


# --- gold moved, orders turned ---------------------------------------------------------------------


@repeatable
@given(st.sets(st.integers(0, 5), min_size=1, max_size=3), st.sampled_from(["first", "middle", "last"]))
def test_gold_moves_together_and_the_others_keep_their_order(gold, where):
    order = rerankers.with_gold(6, sorted(gold), where)
    assert sorted(order) == list(range(6))
    assert [place for place in order if place not in gold] == sorted(set(range(6)) - gold)
    first = order.index(min(gold))
    assert order[first : first + len(gold)] == sorted(gold)
    assert (first == 0) == (where == "first")


def test_reversed_orders():
    assert rerankers.reversed_orders({"q": [[2, 0, 1]]}) == {"q": [[1, 0, 2]]}


# --- asked of a reader -----------------------------------------------------------------------------

READ = Prompt("read", "$documents\nQ: $question\nA:", chat=False)
PASSAGES = tuple(Passage(name, "t", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three")))
QUESTION = Question(id="q1", text="which?", answers=("two",), dataset="companion", gold=(PASSAGES[1],))
SHOWN = {"q1": PASSAGES}


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def test_sequential_choice_is_the_greedy_one(reader):
    [order] = rerankers.sequential(reader, [QUESTION], SHOWN, prompt=READ)["q1"]
    every = {"set": {"q1": [list(some) for k in (1, 2) for some in permutations(range(3), k)]}}
    table = measure.saliencies(reader, [QUESTION], SHOWN, every, prompt=READ).set_index("order")
    score = table["query"] + table["passages"]
    assert order[0] == int(score[["0", "1", "2"]].idxmax())
    rest = [f"{order[0]}-{place}" for place in range(3) if place != order[0]]
    assert measure.label(order[:2]) == score[rest].idxmax() and sorted(order) == [0, 1, 2]


def test_listwise_ranks_in_the_retrievers_numbers(reader, monkeypatch):
    asked = []

    def generate(prompts, **options):
        asked.extend(prompts)
        return [[lm.Generation("[2] > [3]", (1,), np.array([-1.0]))] for _ in prompts]

    monkeypatch.setattr(reader, "generate", generate)
    prompt = Prompt("rank", "$question\n$passages", chat=False)
    table = rerankers.listwise(reader, [QUESTION], SHOWN, {"q1": [[0, 1, 2], [2, 0, 1]]}, prompt=prompt)
    assert asked[1] == "which?\n[1] three\n[2] one\n[3] two two"
    assert table["order"].tolist() == ["1-2-0", "0-1-2"]
    assert table["missing"].tolist() == [1, 1] and not table["repeated"].any()


def test_votes_count_replies_in_normalised_form_and_the_first_of_equals_wins():
    rows = [{"id": "q1", "condition": "cyclic", "run": run} for run in (2, 0, 1)]
    said = pd.DataFrame(rows).assign(reply=["two.", "No", "The Two"])
    [vote] = rerankers.votes(said, [QUESTION]).to_dict("records")
    assert vote["reply"] == "The Two" and vote["exact_match"] == 1.0 and vote["order"] == "votes"
    tied = rerankers.votes(said.assign(reply=["two", "one", "three"]), [QUESTION])
    assert tied["reply"].tolist() == ["one"]  # run 0


def test_rankings_from_saliencies():
    """Utilities 0.1 .. 2.2 in disorder; the passages' own probability is against them."""
    utility, rng = np.array([0.4, 2.2, 0.1, 1.5, 0.9]), np.random.default_rng(0)
    rows = []
    sets = measure.propose(["q"], 5, {"alone": 1, "pruned": 3}, drawn=15)
    for condition, orders in sets.items():
        for run, order in enumerate(orders["q"]):
            a = [1.0] if len(order) == 1 else [0.5, 0.3, 0.2]
            row = {"id": "q", "condition": condition, "run": run, "order": measure.label(order)}
            score = float(moi.predict([order], a, utility)[0]) - 20
            rows.append(row | {"query": score, "passages": -20 * utility[order[0]], "information": rng.normal() - 1})
    table = pd.DataFrame(rows)
    ways = rerankers.from_saliencies(table, size=5)
    best = moi.rerank(utility).tolist()
    assert ways["QG"]["q"] == ways["MoI"]["q"] == [best] and ways["Bayes saliency"]["q"] == [best[::-1]]
    assert ways["retriever"]["q"] == [[0, 1, 2, 3, 4]] and sorted(ways["random"]["q"][0]) == [0, 1, 2, 3, 4]
    information = table.loc[table["condition"] == "alone", "information"].to_numpy()
    assert ways["LongLLMLingua"]["q"] == [moi.rerank(information).tolist()]
    fits = {"MoI": measure.fitted(table, "pruned", size=5, starts=4)}
    given = rerankers.from_saliencies(table, size=5, fits=fits)
    assert given["MoI"] == ways["MoI"] and "MoI, prior" not in given and "MoI, prior" in ways
