"""Samples to measures: by hand on two samples, and through a tiny reader."""

import numpy as np
import pytest
import tiny

from rag_utils import beliefs, lm, weights
from rag_utils.data import Passage, Question
from rag_utils.judge import Judge
from rag_utils.lm import Generation
from rag_utils.measure import CLOSED
from rag_utils.prompts import Prompt


class Letters(Judge):
    """Two answers mean the same if they begin alike; counts what it is asked."""

    asked = 0

    def equivalent(self, questions, left, right):
        Letters.asked += len(left)
        return np.array([float(a[:1].lower() == b[:1].lower()) for a, b in zip(left, right, strict=True)])


QUESTION = Question(id="q", text="which letter", answers=("alpha", "beta"), dataset="companion")


def said(text: str, *token_probabilities: float) -> Generation:
    return Generation(text, tuple(range(len(token_probabilities))), np.log(token_probabilities))


def test_two_samples_by_hand():
    drawn = {("q", CLOSED): [said(" alpha", 0.5, 0.6), said(" gamma", 0.1)]}
    [row] = beliefs.rows(Letters(), [QUESTION], drawn).to_dict("records")
    # 0.3 and 0.1 weigh 3/4 and 1/4; the first means "alpha", the second neither answer
    assert row["seper_soft"] == pytest.approx(0.375) and row["soft_max"] == pytest.approx(0.75)
    assert row["seper_hard"] == pytest.approx(0.375) and row["hard_any"] == pytest.approx(0.75)
    assert row["soft_frequency"] == pytest.approx(0.25)
    per_token = np.sqrt(0.3)  # geometric mean over two tokens
    assert row["soft_token_mean"] == pytest.approx(per_token / (per_token + 0.1) / 2)
    assert row["entropy"] == pytest.approx(-(np.log(0.3) + np.log(0.1)) / 2)
    assert row["perplexity"] == pytest.approx((1 / per_token + 10) / 2)
    assert row["semantic_entropy"] == pytest.approx(-0.75 * np.log(0.75) - 0.25 * np.log(0.25))
    assert row["exact_match"] == row["right"] == 0.5 and row["clusters"] == row["n"] == 2


def test_every_pair_is_judged_once_and_chosen_samples_count_alone():
    drawn = {("q", CLOSED): [said(" alpha", 0.5)] * 4 + [said(" gamma", 0.1)]}
    Letters.asked = 0
    whole = beliefs.rows(Letters(), [QUESTION], drawn)
    assert Letters.asked == 5  # alpha with alpha, beta and gamma; gamma with beta and gamma
    first = beliefs.rows(Letters(), [QUESTION], drawn, samples=[0, 1])
    assert whole["right"].item() == 0.8 and first["right"].item() == 1.0 and first["n"].item() == 2


def test_changes_are_after_minus_before_and_uncertainty_counts_the_other_way_round():
    drawn = {("q", CLOSED): [said(" gamma", 0.1)], ("q", "gold"): [said(" alpha", 0.5)]}
    [change] = beliefs.changes(beliefs.rows(Letters(), [QUESTION], drawn)).to_dict("records")
    assert change["condition"] == "gold" and change["soft_max"] == 1.0 and change["seper_soft"] == 0.5
    assert change["entropy"] == pytest.approx(np.log(10) - np.log(2)) and change["perplexity"] == pytest.approx(8)
    with pytest.raises(ValueError, match="closed book"):
        beliefs.changes(beliefs.rows(Letters(), [QUESTION], drawn), against="closed bok")


def test_a_question_without_passages_is_not_asked_and_the_language_model_judges_the_likeliest(tmp_path):
    profile = tiny.llama(tmp_path)
    reader = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    closed = Prompt("closed", "$question", chat=False)
    read = Prompt("read", "$documents\n$question", chat=False)
    contexts = {CLOSED: None, "gold": {"q": [Passage("p", "", "alpha")], "other": []}}
    other = Question(id="other", text="which number", answers=("one",), dataset="companion")
    drawn = beliefs.draw(reader, [QUESTION, other], contexts, closed=closed, read=read, n=3, max_new_tokens=4)
    assert set(drawn) == {("q", CLOSED), ("other", CLOSED), ("q", "gold")} and {len(r) for r in drawn.values()} == {3}
    judged = beliefs.asked_judge(
        reader, [QUESTION, other], drawn, Prompt("j", "$question $reference $answer", chat=False)
    )
    assert set(judged) == set(drawn) and all(0 <= p <= 1 for p in judged.values())
    best = max(drawn["q", "gold"], key=lambda reply: reply.log_likelihood).text.strip()
    yes, no = reader.log_likelihood([f"which letter alpha {best}"] * 2, ["Yes", "No"])
    assert judged["q", "gold"] == pytest.approx(1 / (1 + np.exp(no.sum() - yes.sum())), abs=1e-5)
