"""Samples to measures: by hand on two samples, and through a tiny reader."""

import numpy as np
import pandas as pd
import pytest
import tiny
from tiny_samples import Initials, said

from experiments.seper_validity import compared
from rag_utils import lm
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.measures import CLOSED, seper
from rag_utils.prompts import Prompt

QUESTION = Question(id="q", text="which letter", answers=("alpha", "beta"), dataset="companion")


def test_two_samples_by_hand():
    drawn = {("q", CLOSED): [said(" alpha", 0.5, 0.6), said(" gamma", 0.1)]}
    [row] = compared.rows(Initials(), [QUESTION], drawn).to_dict("records")
    # 0.3 and 0.1 weigh 3/4 and 1/4; the first means "alpha", the second neither answer
    assert row["seper_soft"] == pytest.approx(0.375)
    per_token = np.sqrt(0.3)  # geometric mean over two tokens
    assert row["entropy"] == pytest.approx(-(np.log(0.3) + np.log(0.1)) / 2)
    assert row["perplexity"] == pytest.approx((1 / per_token + 10) / 2)
    assert row["semantic_entropy"] == pytest.approx(-0.75 * np.log(0.75) - 0.25 * np.log(0.25))
    assert row["exact_match"] == row["right"] == 0.5 and row["clusters"] == row["n"] == 2


def test_repeated_runs_are_disjoint_and_equal_rows_of_their_samples():
    replies = [said(" alpha", 0.5), said(" gamma", 0.1), said(" gamma", 0.1), said(" beta", 0.2)]
    found = seper.repeated(Initials(), [QUESTION], {("q", CLOSED): replies}, sizes=[1, 2], times=2)
    assert found[["samples", "run"]].to_numpy().tolist() == [[1, 0], [2, 0], [1, 1], [2, 1]]
    for row, part in zip(found.itertuples(), (replies[:1], replies[:2], replies[2:3], replies[2:]), strict=True):
        alone = compared.rows(Initials(), [QUESTION], {("q", CLOSED): part})
        assert (row.seper_soft, row.seper_hard) == (alone["seper_soft"].item(), alone["seper_hard"].item())
        assert row.right == alone["right"].item()
    with pytest.raises(ValueError, match="3 runs of 2 need 6 samples of each prompt, got 4"):
        seper.repeated(Initials(), [QUESTION], {("q", CLOSED): replies}, sizes=[2], times=3)


def test_what_is_shown_and_what_it_is_worth():
    first, second, wrong = (Passage(name, "", name) for name in ("p1", "p2", "n"))
    one = Question(id="one", text="which letter", answers=("alpha",), dataset="companion", gold=(first,))
    two = Question(id="two", text="which letters", answers=("alpha",), dataset="companion", gold=(first, second))
    known = Question(id="known", text="what letter", answers=("alpha",), dataset="companion", gold=(first,))
    asked = [one, two, known]
    shown = seper.contexts(asked, {q.id: (wrong,) for q in asked}, unrelated={"one": (second,)})
    assert list(shown) == [CLOSED, "gold", "hard negative", "unrelated", "step 1", "step 2"]
    assert shown["step 1"] == {"two": (first,)} and shown["step 2"] == {"two": (second,)}
    assert "step 1" not in seper.contexts([one], {})
    drawn = {
        (question.id, name): [said(" alpha" if question is known or name == "gold" else " gamma", 0.5)]
        for name, passages in shown.items()
        for question in asked
        if passages is None or question.id in passages
    }
    table = compared.rows(Initials(), asked, drawn)
    found = compared.worth(compared.changes(table), table).set_index(["id", "condition"])
    assert found["worth"].to_dict() == {
        ("one", "gold"): 1.0,
        ("one", "hard negative"): 0.0,
        ("two", "hard negative"): 0.0,
        ("one", "unrelated"): 0.0,
        ("two", "step 1"): 0.5,
        ("two", "step 2"): 0.5,
    }  # "known" is answered already; both passages together have no printed worth
    assert found.loc[("one", "gold"), "seper_soft"] == 1.0
    assert len(compared.worth(compared.changes(table), table, already=1.1)) == 8
    with pytest.raises(ValueError, match=r"already = 0\.0 leaves no question"):
        compared.worth(compared.changes(table), table, already=0.0)


def test_changes_are_after_minus_before_and_uncertainty_counts_the_other_way_round():
    drawn = {("q", CLOSED): [said(" gamma", 0.1)], ("q", "gold"): [said(" alpha", 0.5)]}
    [change] = compared.changes(compared.rows(Initials(), [QUESTION], drawn)).to_dict("records")
    assert change["condition"] == "gold" and change["soft_max"] == 1.0 and change["seper_soft"] == 0.5
    assert change["entropy"] == pytest.approx(np.log(10) - np.log(2)) and change["perplexity"] == pytest.approx(8)
    with pytest.raises(ValueError, match="closed book"):
        compared.changes(compared.rows(Initials(), [QUESTION], drawn), against="closed bok")


def test_a_question_without_passages_is_not_asked_and_the_language_model_judges_the_likeliest(tmp_path):
    profile = tiny.llama(tmp_path)
    reader = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    closed = Prompt("closed", "$question", chat=False)
    read = Prompt("read", "$documents\n$question", chat=False)
    contexts = {CLOSED: None, "gold": {"q": [Passage("p", "", "alpha")], "other": []}}
    other = Question(id="other", text="which number", answers=("one",), dataset="companion")
    prompts = seper.prompts_of(reader, [QUESTION, other], contexts, closed=closed, read=read)
    drawn = seper.draw(reader, prompts, n=3, max_new_tokens=4)
    assert set(drawn) == {("q", CLOSED), ("other", CLOSED), ("q", "gold")} and {len(r) for r in drawn.values()} == {3}
    prompt = Prompt("j", "$question $reference $answer", chat=False)
    judged = dict(zip(drawn, compared.asked_judge(reader, [QUESTION, other], drawn, prompt), strict=True))
    assert all(0 <= p <= 1 for p in judged.values())
    best = max(drawn["q", "gold"], key=lambda reply: reply.log_likelihood).text.strip() or "no answer"
    yes, no = reader.log_likelihood([f"which letter alpha {best}"] * 2, ["Yes", "No"])
    assert judged["q", "gold"] == pytest.approx(1 / (1 + np.exp(no.sum() - yes.sum())), abs=1e-5)


def test_correlations_with_the_worth_and_gaps_between_measures():
    rng = np.random.default_rng(0)
    worth = np.tile([1.0, 0.0], 40)
    kept = pd.DataFrame({"id": np.repeat(np.arange(40), 2).astype(str), "worth": worth, "bleu": 0.0})
    kept["seper_soft"] = worth + rng.normal(size=80) / 4
    kept["entropy"] = worth + rng.normal(size=80) * 2
    found = compared.correlations(kept)
    assert list(found) == ["Entropy", "SePer soft"]  # BLEU never changes
    assert found["SePer soft"].value == pytest.approx(np.corrcoef(kept["seper_soft"], worth)[0, 1])
    assert found["SePer soft"].low > 0 and found["SePer soft"].p_value < 0.01
    gaps = compared.gaps(kept)
    difference = found["SePer soft"].value - found["Entropy"].value
    assert list(gaps.index) == ["Entropy"] and gaps["value"].item() == pytest.approx(difference)
    assert gaps["low"].item() > 0 and gaps["p_holm"].item() == gaps["p_value"].item() < 0.01
    with pytest.raises(ValueError, match="SePer sofd"):
        compared.gaps(kept, "SePer sofd")
