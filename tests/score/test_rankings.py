"""Lists ordered in words, rankings joined, and where a reply stands: cases by hand, brute force, wrong formulas that must fail."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import tiny_run
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from tiny_run import Finder

from rag_utils import lm
from rag_utils.data import Passage, Question
from rag_utils.prompts import Prompt
from rag_utils.score import in_words, listwise, misled
from rag_utils.score.in_words import parse
from rag_utils.score.joined import borda, kemeny, reciprocal_rank_fusion

repeatable = settings(deadline=None, derandomize=True, max_examples=60)
JOINS = [kemeny, borda, reciprocal_rank_fusion]
rankings_of = st.integers(1, 5).flatmap(lambda n: st.lists(st.permutations(range(n)), min_size=1, max_size=6).map(np.array))
PASSAGES = tuple(Passage(name, "t", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three")))
QUESTION = Question(id="q1", text="which?", answers=("two",), dataset="companion", gold=(PASSAGES[1],))


class Says(Finder):
    """Replies by what stands in the prompt: the first pair that fits."""

    def __init__(self, *pairs):
        super().__init__()
        self.pairs = pairs

    def generate(self, prompts, **options):
        self.asked.append((options, list(prompts)))
        said = [next((reply for held, reply in self.pairs if held in prompt), "") for prompt in prompts]
        return [[lm.Generation(reply, (1,), np.array([-1.0]))] for reply in said]

    def chat(self, message):
        return message


# --- whole lists -----------------------------------------------------------------------------------


def test_a_list_is_put_in_the_order_that_is_written():
    records, reader = tiny_run.records(), Says(("Rank the passages", "[3] > [1]"))
    new = listwise(records, reader=reader)
    for before, after in zip(records, new, strict=True):
        ids = [passage.id for passage in before.passages]
        assert [passage.id for passage in after.passages] == [ids[2], ids[0], ids[1], *ids[3:]]
        assert after.answers == before.answers
    [(options, prompts)] = reader.asked
    assert options["max_new_tokens"] == 24 and len(prompts) == len(records)  # six a passage of four
    assert listwise(records, reader=Says()) == records  # nothing that can be read: as it was
    with pytest.raises(ValueError, match="records"):
        listwise([], reader=Says())


def test_where_a_reply_stands():
    """Knows nothing; takes what the first passage that it is shown says."""
    records = [record.model_copy(update={"passages": record.passages[:2]}) for record in tiny_run.records()[:1]]
    [record] = records
    first, second = (" ".join(passage.text.split()[:3]) for passage in record.passages)
    reader = Says((first, f"The {first}."), (second, record.answers[0]), (record.question, "no idea"))
    rows = misled.lent(records, reader=reader).set_index("shown")
    ids = [passage.id for passage in record.passages]
    assert rows.index.tolist() == [misled.NOTHING, *ids, misled.ALL]
    assert rows["reply"].tolist() == ["no idea", f"The {first}.", record.answers[0], f"The {first}."]
    assert rows["right"].tolist() == [0, 0, 1, 0] and rows["said_before"].tolist() == [1, 0, 0, 0]
    assert rows["source"][ids[0]] == rows["source"][misled.ALL] == ids[0] and pd.isna(rows["source"][misled.NOTHING])
    silent = misled.lent(records, reader=Says())
    assert silent["source"].isna().all() and silent["said_before"].all()  # an empty reply stands nowhere
    nobody = misled.lent([record.model_copy(update={"answers": []})], reader=reader)
    assert nobody["right"].isna().all()


def test_listwise_ranks_in_the_retrievers_numbers(monkeypatch):
    asked = []

    def generate(prompts, **options):
        asked.extend(prompts)
        return [[lm.Generation("[2] > [3]", (1,), np.array([-1.0]))] for _ in prompts]

    reader = Finder()
    monkeypatch.setattr(reader, "generate", generate)
    prompt = Prompt("rank", "$question\n$passages", chat=False)
    table = in_words.written(reader, [QUESTION], {"q1": PASSAGES}, {"q1": [[0, 1, 2], [2, 0, 1]]}, prompt=prompt)
    assert asked[1] == "which?\n[1] three\n[2] one\n[3] two two"
    assert table["order"].tolist() == ["1-2-0", "0-1-2"]
    assert table["missing"].tolist() == [1, 1] and not table["repeated"].any()


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
    assert parse(reply, n) == (list(order), repairs)


@repeatable
@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n + 2), max_size=15))))
def test_every_reply_is_completed_to_a_permutation(drawn):
    n, numbers = drawn
    order, repairs = parse(" > ".join(f"[{number}]" for number in numbers), n)
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
    assert sorted(parse(text, 4)[0]) == [0, 1, 2, 3]


def test_counting_every_digit_is_wrong():
    """With every digit of the reply read, "the 3 passages" would put passage 3 first."""
    reply = "The 3 passages in order: [2] > [1] > [3]"
    digits = [int(one) - 1 for one in reply if one.isdigit()]
    assert list(dict.fromkeys(digits)) == [2, 1, 0]
    assert parse(reply, 3)[0] == [1, 0, 2]


def test_counting_from_zero_is_wrong():
    assert parse("[1] > [2]", 2)[0] == [0, 1]
    assert parse("[1] > [0]", 2)[1]["out_of_range"] == 1


def test_replies_that_are_none_are_refused():
    for reply, n, named in ((None, 3, "reply"), (b"[1]", 3, "reply"), ("[1]", 0, "n"), ("[1]", 1.5, "n")):
        with pytest.raises(ValueError, match=rf"^{named} must be .*; got"):
            parse(reply, n)


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
