"""MoI: orders, scores, and what the fit can and cannot know; cases by hand, properties, reference numbers, wrong formulas."""

from collections import Counter
from itertools import pairwise, permutations

import conformance
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import each
from scipy.optimize import minimize

from rag_utils.moi import (
    cyclic_orders,
    fit,
    jacobian_rank,
    predict,
    prefix_length,
    random_orders,
    rerank,
    saliency,
    solve_utility,
)

repeatable = settings(deadline=None, derandomize=True, max_examples=30)
BESIDE = conformance.beside("moi")
CYCLIC, CYCLIC_SCORES, _ = conformance.given("moi", "fit: cyclic orders do not settle it")
RANDOM, RANDOM_SCORES, _ = conformance.given("moi", "fit: full-length orders do not settle it")
_, POSITION, UTILITY = conformance.given("moi", "scores of random orders")


def problem(n, length, m, seed):
    """Random prefix-pruned orders with the scores of a random position and utility, without noise."""
    rng = np.random.default_rng(seed)
    orders = random_orders(n, m, prefix=length, rng=rng)
    position, utility = rng.dirichlet(np.ones(length)), rng.normal(size=n)
    return orders, position, utility, predict(orders, position, utility)


# --- orders --------------------------------------------------------------------------------------


def test_cyclic_orders_by_hand():
    assert cyclic_orders(5)[2].tolist() == [2, 3, 4, 0, 1]  # the paper's example, counted from 0
    assert cyclic_orders(5, prefix=3).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1]]
    assert cyclic_orders(1).tolist() == [[0]]
    assert cyclic_orders(3, prefix=1).tolist() == [[0], [1], [2]]


@repeatable
@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))))
def test_cyclic_orders_put_every_passage_once_in_every_place(sizes):
    n, length = sizes
    orders = cyclic_orders(n, prefix=length)
    assert orders.shape == (n, length) and orders.dtype.kind == "i"
    assert all(sorted(place) == list(range(n)) for place in orders.T.tolist())
    assert orders.tolist() == cyclic_orders(n)[:, :length].tolist()


def test_shifting_to_the_right_is_wrong():
    right = np.array([np.roll(np.arange(5), k) for k in range(5)])
    assert right[2].tolist() == [3, 4, 0, 1, 2] != cyclic_orders(5)[2].tolist()


@repeatable
@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))), st.integers(0, 99))
def test_random_orders_hold_different_passages_and_can_be_repeated(sizes, seed):
    n, length = sizes
    orders = random_orders(n, 12, prefix=length, rng=seed)
    assert orders.shape == (12, length) and orders.dtype.kind == "i"
    assert all(len(set(row)) == length and set(row) <= set(range(n)) for row in orders.tolist())
    assert orders.tolist() == random_orders(n, 12, prefix=length, rng=np.random.default_rng(seed)).tolist()
    assert orders.tolist() == random_orders(n, 12, rng=seed)[:, :length].tolist()


def test_random_orders_are_drawn_independently():
    """Each of the six orders of three passages comes about equally often, and as often after itself as after another."""
    orders = [tuple(row) for row in random_orders(3, 6000, rng=0).tolist()]
    counts = Counter(orders)
    assert set(counts) == set(permutations(range(3)))
    assert all(abs(count - 1000) < 150 for count in counts.values())  # 150 is five standard deviations
    repeats = sum(one == following for one, following in pairwise(orders))
    assert abs(repeats - 1000) < 150


@each(
    ("call", "message"),
    [
        (lambda: cyclic_orders(0), "n must be a whole number from 1 to 10000; got 0"),
        (lambda: cyclic_orders(2.5), r"n must be a whole number; got 2\.5"),
        (lambda: cyclic_orders(3, prefix=4), "prefix must be a whole number from 1 to 3; got 4"),
        (lambda: cyclic_orders(3, prefix=0), "prefix must be a whole number from 1 to 3; got 0"),
        (lambda: random_orders(3, 0, rng=0), "m must be a whole number from 1 to 33333333; got 0"),
        (lambda: random_orders(3, 4, prefix=9, rng=0), "prefix must be a whole number from 1 to 3; got 9"),
        (lambda: random_orders(3, 4, prefix="2", rng=0), "prefix must be a whole number; got '2'"),
        (lambda: random_orders(3, 4, rng=None), "got None, which could not be repeated"),
        (lambda: random_orders(3, 4, rng="seed"), "rng must be a seed or a numpy Generator; got 'seed'"),
    ],
)
def test_orders_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@each(
    ("scores", "options", "expected"),
    [
        (np.log([0.6, 0.3, 0.05, 0.05]), {"share": 0.9}, 2),  # exactly 0.9 counts
        (np.log([0.6, 0.3, 0.05, 0.05]), {"share": 0.91}, 3),
        (np.log([0.05, 0.6, 0.05, 0.3]), {"share": 0.9}, 2),  # the order they come in plays no part
        (np.log([0.97, 0.01, 0.01, 0.01]), {}, 2),
        (np.log([0.97, 0.01, 0.01, 0.01]), {"least": 1}, 1),
        ([7.0] * 5, {"share": 1.0}, 5),
        ([2.0, 0.0, 0.0], {"temperature": 0.05}, 2),
        ([2.0, 0.0, 0.0], {"temperature": 50.0}, 3),
        ([3.0], {"least": 1}, 1),
    ],
)
def test_prefix_length_by_hand(scores, options, expected):
    assert prefix_length(scores, **options) == expected


@each(
    ("scores", "options", "message"),
    [
        ([], {}, r"scores must hold at least 1 number\(s\); got shape \(0,\)"),
        ([1.0, np.nan], {}, "scores must be finite; got 1"),
        ([1.0], {}, "least must be a whole number from 1 to 1; got 2"),
        ([1.0, 2.0], {"least": 0}, "least must be a whole number from 1 to 2; got 0"),
        ([1.0, 2.0], {"share": 0}, "share must be above 0; got 0"),
        ([1.0, 2.0], {"share": 1.1}, "share must be"),
        ([1.0, 2.0], {"temperature": 0}, "temperature must be at least 1e-100; got 0"),
        ([1.0, 2.0], {"temperature": np.nan}, "temperature must be"),
    ],
)
def test_prefix_length_refuses(scores, options, message):
    with pytest.raises(ValueError, match=message):
        prefix_length(scores, **options)


# --- scores --------------------------------------------------------------------------------------


def test_saliency_by_hand():
    query, passages = np.log([0.2, 0.1, 0.4]), np.log([0.5, 0.5, 0.125])
    product = np.array([0.1, 0.05, 0.05])
    assert saliency(query, passages) == pytest.approx(np.log(product) - np.log(product).mean())
    assert saliency(query, passages, form="probability") == pytest.approx([0.5, 0.25, 0.25])
    assert saliency(query, passages, prior=False, form="probability") == pytest.approx(np.array([2, 1, 4]) / 7)
    assert saliency(query, prior=False).sum() == pytest.approx(0)


def test_a_product_of_probabilities_underflows():
    query, passages = np.array([-60.0, -58.0]), np.array([-900.0, -903.0])
    wrong = np.exp(query) * np.exp(passages)
    assert wrong.tolist() == [0.0, 0.0]
    assert saliency(query, passages) == pytest.approx([0.5, -0.5])
    assert saliency(query, passages, form="probability") == pytest.approx(1 / (1 + np.exp([-1.0, 1.0])))


@repeatable
@given(st.lists(st.floats(-900, 0), min_size=1, max_size=6).map(np.array), st.floats(-1000, 0))
def test_saliency_ignores_a_factor_that_all_orders_share(query, factor):
    passages = np.full(len(query), factor)
    for form in ("log", "probability"):
        without = saliency(query, prior=False, form=form)
        assert saliency(query, passages, form=form) == pytest.approx(without, abs=1e-9)
    logs = saliency(query, prior=False)
    shares = saliency(query, prior=False, form="probability")
    assert shares.sum() == pytest.approx(1) and logs.sum() == pytest.approx(0, abs=1e-9)
    assert shares == pytest.approx(np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum())


@each(
    ("call", "message"),
    [
        (lambda: saliency([-1.0]), "passages must be a list of numbers; got None"),
        (lambda: saliency([-1.0], [-1.0, -2.0]), "lengths must be equal; got 1 query, 2 passages"),
        (lambda: saliency([0.5], prior=False), r"query must be at most 0; got 0\.5"),
        (lambda: saliency([-1.0], [2.0]), "passages must be at most 0"),
        (lambda: saliency([], prior=False), r"query must hold at least 1 number\(s\); got shape \(0,\)"),
        (lambda: saliency([-np.inf], prior=False), "query must be finite; got 1"),
        (lambda: saliency([[-1.0]], prior=False), r"got shape \(1, 1\)"),
        (lambda: saliency([-1.0], prior=False, form="logs"), "did you mean 'log'"),
    ],
)
def test_saliency_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_predict_is_the_reference_and_not_the_inverse_permutation():
    inverse = np.argsort(RANDOM, axis=1)  # the place of passage j instead of the passage at place j
    assert predict(inverse, POSITION, UTILITY) != pytest.approx(RANDOM_SCORES)


# --- the identity that leaves full-length orders open ----------------------------------------------


@each("case", BESIDE["equal_fits_of_all_orders"], ids=lambda case: f"c = {case['c']}")
def test_reference_pairs_fit_all_orders_alike(case):
    orders = list(permutations(range(5)))
    assert predict(orders, case["position"], case["utility"]) == pytest.approx(predict(orders, POSITION, UTILITY))
    assert np.array(case["position"]) == pytest.approx(0.2 + case["c"] * (POSITION - 0.2))
    assert rerank(case["utility"]).tolist() == case["ranking"]


@repeatable
@given(st.integers(2, 6), st.integers(0, 10**6), st.floats(0.1, 3), st.booleans())
def test_scale_and_sign_do_not_show_in_full_length_orders_but_in_shorter_ones(n, seed, size, turned):
    rng = np.random.default_rng(seed)
    position, utility = rng.dirichlet(np.ones(n)), rng.normal(size=n)
    c = -size if turned else size
    others = 1 / n + c * (position - 1 / n), utility.mean() + (utility - utility.mean()) / c
    orders = random_orders(n, 20, rng=rng)
    assert predict(orders, *others) == pytest.approx(predict(orders, position, utility))
    if turned:
        assert rerank(others[1]).tolist() == rerank(utility)[::-1].tolist()
    if abs(c - 1) > 0.01 and n > 2:  # shown in part, the same pair gives other scores
        shorter = [row[:-1] for row in permutations(range(n))]
        pair = [one[:-1] / one[:-1].sum() for one in (others[0], position)]
        shown = predict(shorter, pair[0], others[1]), predict(shorter, pair[1], utility)
        assert not np.allclose(*shown, atol=1e-9)


# --- fit: what is recovered ------------------------------------------------------------------------


@each(("n", "length", "m"), [(5, 3, 15), (5, 4, 15), (6, 4, 18), (10, 4, 30)])
def test_prefix_pruned_orders_recover_everything(n, length, m):
    for seed in range(8):
        orders, position, utility, scores = problem(n, length, m, seed)
        found = fit(orders, scores, n)
        assert found.identified and found.rank == n + length - 1 and found.rankings == 1
        assert rerank(found.utility).tolist() == rerank(utility).tolist()
        assert found.utility == pytest.approx(utility, abs=1e-6)
        assert found.position == pytest.approx(position, abs=1e-6)
        assert found.residual < 1e-8


@each("position", [[1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0], [0.0, 0.4, 0.6], [0.05, 0.9, 0.05], [0.2, 0.3, 0.5]])
def test_positions_at_the_limits_uniform_and_rising_are_recovered(position):
    for seed in range(5):
        orders, _, utility, _ = problem(5, 3, 25, seed)
        found = fit(orders, predict(orders, position, utility), 5)
        assert found.identified
        assert found.position == pytest.approx(position, abs=1e-6)
        assert found.utility == pytest.approx(utility, abs=1e-6)


@repeatable
@given(st.integers(0, 10**6), st.floats(-1000, 1000), st.floats(1e-3, 1e3), st.randoms(use_true_random=False))
def test_unit_and_names_of_the_scores_play_no_part(seed, constant, unit, random):
    orders, _, _, scores = problem(4, 2, 12, seed)
    before = fit(orders, scores, 4, starts=6)
    names = np.array(random.sample(range(4), 4))
    after = fit(names[orders], constant + unit * scores, 4, starts=6)
    assert after.identified == before.identified
    if before.identified:
        assert after.position == pytest.approx(before.position, abs=1e-6)
        assert after.utility[names] == pytest.approx(
            constant + unit * before.utility, abs=1e-6 * (unit + abs(constant))
        )


def test_every_position_is_on_the_simplex_and_the_result_repeatable():
    rng = np.random.default_rng(3)
    for n, length, m in ((3, 3, 4), (5, 2, 3), (4, 1, 9), (6, 6, 30), (1, 1, 2)):
        orders, scores = random_orders(n, m, prefix=length, rng=rng), rng.normal(size=m)
        found, again = (fit(orders, scores, n) for _ in range(2))
        assert found.position.min() >= 0 and found.position.max() <= 1 and found.position.sum() == pytest.approx(1)
        assert found.utility.shape == (n,) and found.position.shape == (length,)
        error = np.sqrt(np.mean((predict(orders, found.position, found.utility) - scores) ** 2))
        assert found.residual == pytest.approx(error)
        assert (found.utility == again.utility).all() and (found.position == again.position).all()


def test_equal_passages_tie_in_the_retrievers_order():
    orders, position, _, _ = problem(5, 3, 20, 4)
    found = fit(orders, predict(orders, position, [0.3, 0.7, 0.3, 0.7, 0.1]), 5)
    assert found.identified and rerank(found.utility).tolist() == [1, 3, 0, 2, 4]


def slsqp(orders, scores, n, seed):
    """The usual way: both unknowns at once, from one random start."""
    length, rng = orders.shape[1], np.random.default_rng(seed)
    result = minimize(
        lambda x: np.mean((x[length:][orders] @ x[:length] - scores) ** 2),
        np.concatenate([rng.dirichlet(np.ones(length)), rng.normal(size=n)]),
        method="SLSQP",
        bounds=[(0, 1)] * length + [(None, None)] * n,
        constraints={"type": "eq", "fun": lambda x: x[:length].sum() - 1},
        options={"maxiter": 400, "ftol": 1e-12},
    )
    return np.sqrt(result.fun)


@each("seed", range(6))
def test_noisy_scores_are_fitted_no_worse_than_by_slsqp_and_by_the_truth(seed):
    orders, _, utility, scores = problem(5, 3, 30, seed)
    noisy = scores + np.random.default_rng(seed + 100).normal(scale=0.1, size=30)
    found = fit(orders, noisy, 5)
    assert found.residual <= min(slsqp(orders, noisy, 5, start) for start in range(5)) + 1e-6
    assert found.residual <= np.sqrt(np.mean((scores - noisy) ** 2)) + 1e-12
    assert found.identified  # noise is not what the flag is about
    assert np.corrcoef(found.utility, utility)[0, 1] > 0.9


def test_questions_that_share_a_position_are_one_problem():
    """Three questions of five passages numbered through, too few orders for each alone."""
    rng = np.random.default_rng(0)
    position, utility = np.array([0.5, 0.3, 0.2]), rng.normal(size=15)
    orders = np.vstack([5 * question + random_orders(5, 7, prefix=3, rng=rng) for question in range(3)])
    scores = predict(orders, position, utility)
    found = fit(orders, scores, 15)
    assert found.identified and found.position == pytest.approx(position, abs=1e-6)
    assert found.utility == pytest.approx(utility, abs=1e-6)
    assert not fit(orders[:7], scores[:7], 5).identified


def test_sharing_a_position_leaves_full_length_orders_open():
    rng = np.random.default_rng(1)
    orders = np.vstack([4 * question + random_orders(4, 16, rng=rng) for question in range(3)])
    found = fit(orders, predict(orders, [0.4, 0.3, 0.2, 0.1], rng.normal(size=12)), 12)
    assert not found.identified and found.rank == 12 + 4 - 2  # one scale, and with it a sign


# --- fit: what is not identified -------------------------------------------------------------------


def on_the_curve(found):
    """Whether a solution for the full-length reference case is 1/N + c (a - 1/N) and v + (u - v) / c for one c, v the mean."""
    c = (found.position - 0.2) @ (POSITION - 0.2) / ((POSITION - 0.2) @ (POSITION - 0.2))
    middle = UTILITY.mean()
    return found.position == pytest.approx(0.2 + c * (POSITION - 0.2), abs=1e-6) and found.utility == pytest.approx(
        middle + (UTILITY - middle) / c, abs=1e-6 / abs(c)
    )


def test_full_length_orders_are_not_identified():
    found = fit(RANDOM, RANDOM_SCORES, 5)
    assert not found.identified and found.rank == 8 and found.residual < 1e-8
    assert on_the_curve(found)
    assert found.rankings > 1  # the reverse is among the solutions
    for seed in range(20):
        orders, _, _, scores = problem(5, 5, 40, seed)
        assert not fit(orders, scores, 5, starts=4).identified
    everything = np.array(list(permutations(range(4))))
    assert not fit(everything, predict(everything, [0.1, 0.2, 0.3, 0.4], [3.0, 1.0, 2.0, 5.0]), 4).identified


def test_reference_solutions_differ_in_sign_only_by_where_they_start():
    for case in BESIDE["solutions_by_start"]:
        c = (case["position"][0] - 0.2) / (POSITION[0] - 0.2)
        if case["loss"] < 1e-10:
            expected = [1, 2, 4, 0, 3] if c > 0 else [3, 0, 4, 2, 1]
            assert case["ranking"] == expected == rerank(case["utility"]).tolist()


@each(("n", "length"), [(3, 2), (5, 2), (5, 3), (5, 4), (5, 5), (6, 4), (10, 4), (10, 10)])
def test_cyclic_orders_are_not_identified(n, length):
    for seed in range(3):
        _, position, utility, _ = problem(n, length, 1, seed)
        orders = cyclic_orders(n, prefix=length)
        scores = predict(orders, position, utility)
        for copies in (1, 3):  # the same orders again say nothing new
            found = fit(np.tile(orders, (copies, 1)), np.tile(scores, copies), n, starts=6)
            assert not found.identified and found.rank <= n and found.residual < 1e-6


def test_any_invertible_circulant_fits_cyclic_scores():
    rankings = set()
    for case in conformance.cases("moi", "moi.solve_utility"):
        utility = solve_utility(*case["inputs"].values())
        assert predict(CYCLIC, case["inputs"]["position"], utility) == pytest.approx(CYCLIC_SCORES)
        rankings.add(tuple(rerank(utility)))
    assert len(rankings) == 3


@each("m", [1, 2, 4, 6, 7])
def test_too_few_orders_are_not_identified(m):
    for seed in range(5):
        orders, _, _, scores = problem(5, 3, m, seed)
        assert not fit(orders, scores, 5, starts=6).identified  # 7 unknowns, and one order to spare


def test_a_passage_in_no_order_is_not_identified_and_gets_the_mean_score():
    orders, _, _, scores = problem(5, 3, 40, 2)
    found = fit(orders, scores, 6)
    assert not found.identified and found.utility[5] == pytest.approx(scores.mean())


@each("length", [2, 3, 4, 5])
def test_equal_utilities_are_not_identified(length):
    for seed, value in enumerate((0.37, -950.1234, 0.0)):
        orders, position, _, _ = problem(5, length, 40, seed)
        found = fit(orders, predict(orders, position, np.full(5, value)), 5, starts=6)
        assert not found.identified and found.residual < 1e-9 * (1 + abs(value))
        assert found.utility == pytest.approx(np.full(5, value))
        assert rerank(found.utility).tolist() == [0, 1, 2, 3, 4]


def test_a_uniform_position_says_nothing_in_full_length_orders():
    orders = random_orders(5, 40, rng=0)
    found = fit(orders, predict(orders, np.full(5, 0.2), UTILITY), 5)
    assert not found.identified and found.utility == pytest.approx(np.full(5, 0.4))


def test_one_passage_at_a_time_is_identified():
    """With L = 1 there is one coefficient, 1, and each score is a utility."""
    found = fit(cyclic_orders(4, prefix=1), [0.1, 0.4, 0.2, 0.3], 4)
    assert found.identified and found.position.tolist() == [1.0]
    assert found.utility == pytest.approx([0.1, 0.4, 0.2, 0.3])


# --- the sign --------------------------------------------------------------------------------------


@each("seed", range(5))
def test_a_decreasing_position_settles_the_ranking_but_not_the_values(seed):
    rng = np.random.default_rng(seed)
    position, utility = np.sort(rng.dirichlet(np.ones(5)))[::-1], rng.normal(size=5)
    orders = random_orders(5, 20, rng=rng)
    found = fit(orders, predict(orders, position, utility), 5, sign="decreasing position")
    assert (np.diff(found.position) <= 1e-9).all() and found.residual < 1e-7
    assert found.rankings == 1 and rerank(found.utility).tolist() == rerank(utility).tolist()
    assert not found.identified


def test_where_positions_rise_the_decreasing_convention_turns_the_ranking_round():
    orders = random_orders(5, 40, rng=0)
    scores = predict(orders, [0.15, 0.17, 0.2, 0.23, 0.25], UTILITY)
    found = fit(orders, scores, 5, sign="decreasing position")
    assert found.residual < 1e-7 and rerank(found.utility).tolist() == rerank(UTILITY)[::-1].tolist()
    shorter = random_orders(5, 40, prefix=3, rng=0)
    rising = predict(shorter, [0.2, 0.3, 0.5], UTILITY)
    assert fit(shorter, rising, 5, sign="decreasing position").residual > 0.01
    assert fit(shorter, rising, 5).position == pytest.approx([0.2, 0.3, 0.5], abs=1e-6)


@each("turn", [1, -1])
def test_a_pointwise_prior_takes_the_sign_that_agrees_with_it(turn):
    found = fit(RANDOM, RANDOM_SCORES, 5, sign="pointwise prior", pointwise=turn * UTILITY)
    assert rerank(found.utility).tolist() == rerank(turn * UTILITY).tolist()
    assert not found.identified


def test_the_sign_plays_no_part_where_the_fit_is_identified():
    orders, _, utility, _ = problem(5, 3, 20, 0)
    scores = predict(orders, [0.5, 0.3, 0.2], utility)
    for options in ({}, {"sign": "decreasing position"}, {"sign": "pointwise prior", "pointwise": -utility}):
        found = fit(orders, scores, 5, **options)
        assert found.identified and found.utility == pytest.approx(utility, abs=1e-6)


# --- rank ------------------------------------------------------------------------------------------


@each("case", BESIDE["ranks_of_full_length_orders"], ids=lambda case: f"N = {case['N']}")
def test_ranks_of_full_length_orders_are_the_reference(case):
    n = case["N"]
    rng = np.random.default_rng(n)
    position, utility, orders = rng.dirichlet(np.ones(n)), rng.normal(size=n), random_orders(n, 10 * n, rng=rng)
    assert case["free_params"] == 2 * n - 1
    assert jacobian_rank(cyclic_orders(n), position, utility) == case["rank_cyclic_N"]
    assert jacobian_rank(orders, position, utility) == case["rank_random_3N"]
    assert jacobian_rank(orders, np.full(n, 1 / n), utility) == case["rank_random_3N_at_uniform_a"]
    assert jacobian_rank(orders, position, np.full(n, 0.3)) == case["rank_random_3N_at_equal_u"]


@each("case", BESIDE["ranks_of_shorter_orders"], ids=lambda case: f"N = {case['N']}, L = {case['L']}")
def test_ranks_of_shorter_orders_are_the_reference(case):
    n, length = case["N"], case["L"]
    rng = np.random.default_rng(n + length)
    position, utility = rng.dirichlet(np.ones(length)), rng.normal(size=n)
    assert case["free"] == n + length - 1
    assert jacobian_rank(cyclic_orders(n, prefix=length), position, utility) == case["cyclic"]
    orders = random_orders(n, 10 * n, prefix=length, rng=rng)
    assert jacobian_rank(orders, position, utility) == case["random10N"]


def test_rank_is_that_of_the_scores_moved_by_hand():
    """The same Jacobian by differences, on the directions that keep the sum of the position."""
    for seed, (n, length) in enumerate([(4, 2), (5, 5), (6, 3)]):
        orders, position, utility, _ = problem(n, length, 20, seed)
        turns = np.eye(length)[:-1] - np.eye(length)[-1]
        moves = [(turn, np.zeros(n)) for turn in turns] + [(np.zeros(length), one) for one in np.eye(n)]
        step, middle = 1e-3, predict(orders, position, utility)
        columns = [(predict(orders, position + step * by, utility + step * add) - middle) / step for by, add in moves]
        assert jacobian_rank(orders, position, utility) == np.linalg.matrix_rank(np.array(columns), tol=1e-6)


def test_a_full_rank_alone_is_wrong():
    """As many orders as unknowns, each solution alone in its neighbourhood, and yet there are two, with different rankings."""
    orders, scores = [[0, 1], [1, 2], [2, 0], [0, 2]], [-3.0, -3.0, 4.0, 0.0]
    pairs = [([0.75, 0.25], [-2.0, -6.0, 6.0]), ([0.25, 0.75], [6.0, -6.0, -2.0])]
    for position, utility in pairs:
        assert predict(orders, position, utility) == pytest.approx(scores)
        assert jacobian_rank(orders, position, utility) == 4 == 3 + 2 - 1
    found = fit(orders, scores, 3)
    assert found.rank == 4 and not found.identified and found.rankings == 2
    assert any(found.position == pytest.approx(position) for position, _ in pairs)
    one_more = [*orders, [2, 1]]
    found = fit(one_more, predict(one_more, *pairs[0]), 3)
    assert found.identified and found.utility == pytest.approx(pairs[0][1])


def test_the_mean_score_of_a_passage_is_wrong():
    """What a passage's orders score on average depends on the company it happened to keep."""
    orders = random_orders(5, 15, prefix=3, rng=0)
    scores = predict(orders, [0.2, 0.3, 0.5], UTILITY)
    means = [scores[(orders == passage).any(axis=1)].mean() for passage in range(5)]
    first = [scores[orders[:, 0] == passage].mean() for passage in range(5)]
    assert rerank(fit(orders, scores, 5).utility).tolist() == rerank(UTILITY).tolist()
    assert rerank(UTILITY).tolist() not in (rerank(means).tolist(), rerank(first).tolist())


# --- calibrated position ---------------------------------------------------------------------------


@each(("n", "length"), [(5, 3), (5, 5), (10, 4)])
def test_a_known_position_and_cyclic_orders_give_the_utilities(n, length):
    rng = np.random.default_rng(n + length)
    position, utility = rng.dirichlet(np.ones(length)), rng.normal(size=n)
    orders = cyclic_orders(n, prefix=length)
    assert solve_utility(orders, predict(orders, position, utility), n, position) == pytest.approx(utility)
    reversed_position = solve_utility(orders, predict(orders, position, utility), n, position[::-1])
    assert reversed_position != pytest.approx(utility, abs=0.01)  # a position that is not right gives others


def test_more_orders_than_utilities_are_solved_by_least_squares():
    orders, position, _, scores = problem(5, 3, 12, 0)
    noisy = scores + np.random.default_rng(0).normal(scale=0.1, size=12)
    weights = np.zeros((12, 5))
    for row, order in enumerate(orders):
        weights[row, order] = position
    expected = np.linalg.solve(weights.T @ weights, weights.T @ noisy)
    assert solve_utility(orders, noisy, 5, position) == pytest.approx(expected)


@each(
    ("orders", "position", "message"),
    [
        (
            cyclic_orders(4, prefix=2),
            [0.5, 0.5],
            "must settle 4 utilities; they settle 3",
        ),  # every second sign drops out
        (cyclic_orders(5), [0.2] * 5, "they settle 1"),
        (cyclic_orders(5)[:4], [0.5, 0.2, 0.1, 0.1, 0.1], "must settle 5 utilities; they settle 4"),
        (cyclic_orders(5, prefix=2), [0.5, 0.6], r"sum to 1; got least 0\.5 and sum 1\.1"),
        (cyclic_orders(5, prefix=2), [1.5, -0.5], r"at least 0 .* got least -0\.5"),
        (cyclic_orders(5, prefix=2), [0.5, 0.3, 0.2], "lengths must be equal; got 3 position, 2 places"),
        (cyclic_orders(5, prefix=2), [0.5, np.nan], "position must be finite"),
    ],
)
def test_solve_utility_refuses(orders, position, message):
    n = 5 if len(position) != 2 or orders.max() == 4 else 4
    with pytest.raises(ValueError, match=message):
        solve_utility(orders, np.arange(len(orders)), n, position)


# --- ranking and input -----------------------------------------------------------------------------


def test_rerank_is_stable():
    assert rerank([0.1, 0.3, 0.1, 0.3]).tolist() == [1, 3, 0, 2]
    assert rerank([1, 1, 1]).tolist() == [0, 1, 2]
    assert rerank([-2.0]).tolist() == [0]
    many = np.tile([0.0, 1.0], 50)
    assert rerank(many).tolist() == [*range(1, 100, 2), *range(0, 100, 2)]
    assert np.argsort(many)[::-1].tolist() != rerank(many).tolist()  # turned round, equal ones come last first


@each("utility", [[], [[1.0]], [np.nan], [np.inf], ["a"], [[1.0], [1.0, 2.0]]])
def test_rerank_refuses(utility):
    with pytest.raises(ValueError, match="utility must "):
        rerank(utility)


@each(
    ("orders", "scores", "n", "message"),
    [
        ([[0, 1]], [1.0, 2.0], 2, "lengths must be equal; got 1 orders, 2 scores"),
        ([[0, 2]], [1.0], 2, r"orders must be from 0 to 1; got 2\.0"),
        ([[0, -1]], [1.0], 2, r"orders must be from 0 to 1; got -1\.0"),
        ([[0, 1], [1, 1]], [1.0, 2.0], 2, r"must not hold a passage twice; got \[1, 1\]"),
        ([[0.0, 1.0]], [1.0], 2, "orders must be whole numbers; got float64"),
        ([0, 1], [1.0, 2.0], 2, r"got shape \(2,\)"),
        ([], [], 2, r"got shape \(0,\)"),
        ([[], []], [1.0, 2.0], 2, r"got shape \(2, 0\)"),
        ([[0, 1], [0]], [1.0, 2.0], 2, "orders must be rows of equal length"),
        ([[0, 1]], [np.nan], 2, "scores must be finite; got 1"),
        ([[0, 1]], [[1.0]], 2, r"scores must have 1 dimension\(s\); got shape \(1, 1\)"),
        ([[0, 1]], ["1"], 2, "scores must be numbers; got '1'"),
        ([[0, 1]], [1.0], 0, "n must be a whole number from 1 to 10000; got 0"),
        ([[0, 1]], [1.0], 2.0, r"n must be a whole number; got 2\.0"),
    ],
)
def test_fit_and_solve_refuse(orders, scores, n, message):
    for call in (lambda: fit(orders, scores, n), lambda: solve_utility(orders, scores, n, [0.5, 0.5])):
        with pytest.raises(ValueError, match=message):
            call()


@each(
    ("options", "message"),
    [
        ({"sign": "decreasing"}, "did you mean 'decreasing position'"),
        ({"sign": "pointwise prior"}, "pointwise must be given .* got None"),
        ({"pointwise": [1.0, 2.0]}, "and for it only; got scores with 'free'"),
        ({"sign": "pointwise prior", "pointwise": [1.0]}, "lengths must be equal; got 1 pointwise, 2 passages"),
        ({"sign": "pointwise prior", "pointwise": [1.0, np.nan]}, "pointwise must be finite"),
        ({"starts": 0}, "starts must be a whole number from 1 to 10000; got 0"),
        ({"rng": None}, "could not be repeated"),
    ],
)
def test_fit_refuses_options(options, message):
    with pytest.raises(ValueError, match=message):
        fit([[0, 1], [1, 0]], [1.0, 2.0], 2, **options)


@each("call", [predict, jacobian_rank])
@each(
    ("orders", "position", "utility", "message"),
    [
        ([[0, 2]], [0.5, 0.5], [1.0, 2.0], r"orders must be from 0 to 1; got 2\.0"),
        ([[0, 1]], [1.0], [1.0, 2.0], "lengths must be equal; got 1 position, 2 places"),
        ([[0, 1]], [0.5, 0.5], [1.0, np.inf], "utility must be finite"),
        ([[0, 1]], [], [1.0, 2.0], r"position must hold at least 1 number\(s\); got shape \(0,\)"),
    ],
)
def test_predict_and_rank_refuse(call, orders, position, utility, message):
    with pytest.raises(ValueError, match=message):
        call(orders, position, utility)
