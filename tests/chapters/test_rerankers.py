"""Reading a listwise reply, and joining rankings: cases by hand, brute force, wrong formulas that must fail."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from experiments.moi_position import rerankers
from experiments.moi_position.rerankers import borda, kemeny, parse_listwise, reciprocal_rank_fusion
from rag_utils import lm, moi
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.measures import moi as measure
from rag_utils.prompts import Prompt

repeatable = settings(deadline=None, derandomize=True, max_examples=60)
JOINS = [kemeny, borda, reciprocal_rank_fusion]
rankings_of = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.permutations(range(n)), min_size=1, max_size=6).map(np.array)
)


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


# --- joining ---------------------------------------------------------------------------------------


def disagreements(order, rankings):
    """Pairs that a ranking orders otherwise than the given ones do, by counting them."""
    places = np.argsort(rankings, axis=1)
    ahead = [(p, q) for i, p in enumerate(order) for q in order[i + 1 :]]
    return sum(int(row[q] < row[p]) for row in places for p, q in ahead)


def test_kemeny_by_hand():
    assert kemeny([[2, 0, 1]]).tolist() == [2, 0, 1]
    # 0 beats 1 twice, 1 beats 2 twice, 2 beats 0 twice: a circle; every order that follows it disagrees four times
    circle = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    assert disagreements([0, 1, 2], circle) == disagreements([1, 2, 0], circle) == 4 < disagreements([0, 2, 1], circle)
    assert kemeny(circle).tolist() == [0, 1, 2]
    assert kemeny([[0, 1], [1, 0]]).tolist() == [0, 1]  # a tie falls to the retriever
    assert kemeny([[1, 0], [0, 1]]).tolist() == [0, 1]


def test_kemeny_is_neither_borda_nor_fusion():
    """Three rankings put 0 first, two put it last; pairs prefer 0, mean places prefer 1."""
    rankings = [[0, 1, 2, 3]] * 3 + [[1, 2, 3, 0]] * 2
    assert kemeny(rankings).tolist() == [0, 1, 2, 3]
    assert borda(rankings).tolist() == [1, 0, 2, 3]


@repeatable
@given(rankings_of)
def test_kemeny_is_the_first_of_the_best_of_all_rankings(rankings):
    everything = [list(order) for order in permutations(range(rankings.shape[1]))]  # in dictionary order
    counts = [disagreements(order, rankings) for order in everything]
    assert kemeny(rankings).tolist() == everything[int(np.argmin(counts))]


def test_kemeny_of_as_many_passages_as_it_takes():
    rng = np.random.default_rng(0)
    rankings = np.array([rng.permutation(8) for _ in range(7)])
    best = disagreements(kemeny(rankings).tolist(), rankings)
    others = [rng.permutation(8).tolist() for _ in range(300)] + rankings.tolist() + [borda(rankings).tolist()]
    assert best <= min(disagreements(order, rankings) for order in others)
    with pytest.raises(ValueError, match=r"passages to be searched must be .*at most 8; got 9"):
        kemeny([list(range(9))])


@repeatable
@given(rankings_of)
def test_borda_is_the_mean_rank(rankings):
    means = np.argsort(rankings, axis=1).mean(axis=0)
    order = borda(rankings).tolist()
    assert order == sorted(range(len(means)), key=lambda passage: (means[passage], passage))
    assert rankdata(means[order]).tolist() == sorted(rankdata(means).tolist())


def test_reciprocal_rank_fusion_by_hand():
    rankings = [[0, 1, 2], [1, 0, 2], [2, 0, 1]]
    # k = 0: 1 + 1/2 + 1/2 = 2, 1/2 + 1 + 1/3 = 1.83, 1/3 + 1/3 + 1 = 1.67
    assert reciprocal_rank_fusion(rankings, k=0).tolist() == [0, 1, 2]
    # first place once and last twice is worth more than second place three times only if k is small
    contested = [[0, 1, 2, 3, 4], [2, 1, 3, 4, 0], [3, 1, 4, 2, 0]]
    assert reciprocal_rank_fusion(contested, k=0).tolist()[:2] == [2, 3]
    assert reciprocal_rank_fusion(contested, k=60).tolist()[0] == 1


def test_ties_in_fusion_do_not_hang_on_the_order_of_the_rankings():
    """Passages with the same places tie; added one after the other in floating point, some would not."""
    sums = {sum(1 / place for place in order) for order in permutations(range(1, 6))}
    assert len(sums) > 1
    rng = np.random.default_rng(1)
    for _ in range(40):
        base = rng.permutation(5)
        rankings = np.array([np.roll(base, shift) for shift in rng.permutation(5)])  # everyone once in every place
        for k in (0, 60):
            assert reciprocal_rank_fusion(rankings, k=k).tolist() == [0, 1, 2, 3, 4]


@repeatable
@given(rankings_of, st.randoms(use_true_random=False))
def test_joining_follows_the_rankings(rankings, random):
    n = rankings.shape[1]
    names = np.array(random.sample(range(n), n))
    for join in JOINS:
        joined = join(rankings)
        assert joined.dtype.kind == "i" and sorted(joined.tolist()) == list(range(n))
        assert join(rankings[random.sample(range(len(rankings)), len(rankings))]).tolist() == joined.tolist()
        agreed = np.tile(names, (3, 1))
        assert join(agreed).tolist() == names.tolist()  # rankings that agree are followed
        best = set(rankings[:, 0])
        if len(best) == 1:
            assert joined[0] == best.pop()


def test_what_are_no_rankings_is_refused():
    wrong = ([], [0, 1], [[0.5, 1.0]], [[0, 1], [0, 0]], [[1, 2]], [[0, 1], [0]], [["a", "b"]])
    for join in JOINS:
        for rankings in wrong:
            with pytest.raises(ValueError, match=r"^rankings must .*; got"):
                join(rankings)
    for k in (-1, np.nan, np.inf, None):
        with pytest.raises(ValueError, match=r"^k must be"):
            reciprocal_rank_fusion([[0, 1]], k=k)


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
