"""SePer with warped weights and by other judges: by hand, with stand-ins for the models."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.seper_validity import variants
from rag_utils import seper
from rag_utils.data import Question
from rag_utils.lm import Generation
from rag_utils.prompts import Prompt

QUESTION = Question(id="q", text="who", answers=("Ann Lee", "Lee"), dataset="companion")
KEY, OTHER = ("q", "gold"), ("q", "closed book")


def said(text: str, probability: float) -> Generation:
    return Generation(f" {text}", (1,), np.log([probability]))


DRAWN = {KEY: [said("Ann", 0.4), said("Bob", 0.2)], OTHER: [said("Bob", 0.2), said("Cy", 0.2)]}
AGREED = {
    KEY: (np.array([[0.9, 0.9], [0.0, 0.0]]), np.eye(2, dtype=bool)),
    OTHER: (np.zeros((2, 2)), np.eye(2, dtype=bool)),
}


def test_what_the_code_makes_of_two_answers_and_of_contested_samples():
    replies = [
        Generation(f" {name}", (1,), np.array([value])) for name, value in (("a", -0.2), ("b", -0.4), ("c", -1.0))
    ]
    kernel = np.array([[0.9464991, 0.0063775], [0.8668133, 0.0158762], [0.0063775, 0.9668523]])  # the authors' case
    agree = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)  # the third means the same as either
    [row] = variants.by_code({KEY: replies}, {KEY: (kernel, agree)}).to_dict("records")
    assert row["soft_mixed"] == pytest.approx(0.57603, abs=1e-5)  # the largest belief is 0.73148
    assert row["hard_latest"] == pytest.approx(0.5)  # shares 0.441, 0.361, 0.198; both clusters match the first answer
    kernel[1, 0] = 0.0
    [row] = variants.by_code({KEY: replies}, {KEY: (kernel, agree)}).to_dict("records")
    assert row["hard_latest"] == pytest.approx(
        0.4409 / 2, abs=1e-4
    )  # not (0.4409 + 0.1981) / 2: the third was taken over
    assert row["intransitive"] == 1
    agree[0, 2] = agree[2, 0] = False  # now the second and the third mean the same, and the first nothing of either
    [row] = variants.by_code({KEY: replies}, {KEY: (kernel, agree)}).to_dict("records")
    assert row["intransitive"] == 0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(1, 7), share=st.floats(0, 1))
def test_only_where_agreement_is_not_transitive_does_the_order_matter(seed, n, share):
    rng = np.random.default_rng(seed)
    agree = rng.random((n, n)) < share
    agree = agree | agree.T | np.eye(n, dtype=bool)
    loose = any(
        agree[i, j] and agree[j, k] and not agree[i, k] for i, j, k in itertools.product(range(n), repeat=3)
    )  # by definition
    assert variants.intransitive(agree) == loose
    order = rng.permutation(n)
    if not loose:  # the same samples are together, whatever the order and the rule
        one, other = seper.cluster(agree), seper.cluster(agree[np.ix_(order, order)], join="latest")[np.argsort(order)]
        assert np.array_equal(one[:, None] == one, other[:, None] == other)


def test_warped_weights_by_hand(monkeypatch):
    values = {
        "cut": {KEY: np.log([0.5, 0.5]), OTHER: np.full(2, -np.inf)},
        "one": {KEY: np.array([-np.inf, 0.0]), OTHER: np.log([0.1, 0.1])},
    }
    monkeypatch.setattr(variants, "log_likelihoods", lambda reader, asked, drawn, name: values[name])
    table = variants.warped(
        None, {KEY: "p", OTHER: "o"}, DRAWN, AGREED, {"cut": {"name": "cut"}, "one": {"name": "one"}}
    )
    gold, closed = table.set_index("condition").loc[["gold", "closed book"]].to_dict("records")
    assert gold["soft_cut"] == pytest.approx(0.45) and gold["hard_cut"] == pytest.approx(0.5)  # raw: 0.6 and 2/3
    assert gold["change_cut"] == pytest.approx(np.log([0.5 / 0.4, 0.5 / 0.2]).mean())
    assert gold["soft_one"] == gold["hard_one"] == 0 and gold["possible_one"] == 0.5
    assert gold["change_one"] == pytest.approx(np.log(5))  # of the sample that stays only
    assert (
        closed["possible_cut"] == 0 and np.isnan([closed["soft_cut"], closed["hard_cut"], closed["change_cut"]]).all()
    )


class Asker:
    """Says "Yes" of Bob with 0.3, of others with 0.8, half as often as it may: it may say other words too."""

    def __init__(self):
        self.asked = []

    def log_likelihood(self, contexts, continuations):
        self.asked += contexts
        shares = [0.3 if "Bob" in context else 0.8 for context in contexts]
        return [
            np.log([0.5 * (share if "Yes" in word else 1 - share)])
            for share, word in zip(shares, continuations, strict=True)
        ]


def test_other_judges_by_hand():
    asker, prompt = Asker(), Prompt("p", "$question $reference>$answer", chat=False)
    table = variants.by_judge(asker, [QUESTION], DRAWN, AGREED, prompt)
    texts = {reply.text.strip() for replies in DRAWN.values() for reply in replies}
    assert len(asker.asked) == 2 * len(texts)  # every distinct reply once, two words
    gold = table.set_index("condition").loc["gold"]
    # Ann weighs 2/3, Bob 1/3; the first answer is Ann Lee
    assert gold["soft_judge"] == pytest.approx(0.6)
    assert gold["soft_lm"] == pytest.approx((2 * 0.8 + 0.3) / 3, abs=1e-5)
    assert gold["soft_containing"] == 0  # "Ann" does not contain "Ann Lee"
    assert 0 < gold["soft_cosine"] < 1


def test_to_the_letter_by_hand():
    """Two equal replies count once, with their own likelihood; a cluster counts only if each member means the answer."""
    drawn = {KEY: [said("a", 0.5), said("a", 0.5), said("b", 0.2)]}
    kernel, alike = np.array([[0.9, 0.0], [0.9, 0.0], [0.1, 1.0]]), np.ones((3, 3), dtype=bool)
    prompt = Prompt("p", "$question $reference>$answer", chat=False)
    row = variants.by_judge(Asker(), [QUESTION], drawn, {KEY: (kernel, alike)}, prompt).iloc[0]
    assert row["soft_literal"] == pytest.approx((0.5 * 0.9 + 0.2 * 0.1 + 0.2 * 1.0) / 2)
    assert row["hard_every"] == 0 and seper.hard(np.log([0.5, 0.5, 0.2]), [0, 0, 0], kernel[:1] >= 0.5) == 0.5


def test_a_blank_reply_is_asked_about_as_no_answer():
    asker = Asker()
    agreed = {KEY: (np.zeros((1, 2)), np.eye(1, dtype=bool))}
    prompt = Prompt("p", "$question $reference>$answer", chat=False)
    variants.by_judge(asker, [QUESTION], {KEY: [said("", 0.5)]}, agreed, prompt)
    assert set(asker.asked) == {"who Ann Lee>no answer"}
