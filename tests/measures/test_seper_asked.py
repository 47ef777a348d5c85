"""SePer asked of a reader: by hand on two samples, equal to the taught functions called one by one, the same in any order."""

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_samples import Initials, Shares, said

from rag_utils import lm, prompts, seper
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import Generation
from rag_utils.measures import CLOSED, Case
from rag_utils.measures import seper as asked
from rag_utils.prompts import Prompt

CLOSED_PROMPT, READ_PROMPT = Prompt("c", "$question", chat=False), Prompt("r", "$documents\n$question", chat=False)
WORDS = ["ab", "abc", "cd", "d", "", "bcd"]


def question(name: str, *answers: str) -> Question:
    return Question(
        id=name, text=f"which {name}", answers=answers, dataset="toy", gold=(Passage(f"{name}p", "", "ab"),)
    )


def plainly(judge: Judge, one: Question, replies: list[Generation]) -> dict[str, float]:
    """SePer of one question's samples by the taught functions, every pair judged on its own."""

    def same(left, right):
        return judge.equivalent([one.text], [left], [right])[0]

    texts = [reply.text.strip() for reply in replies]
    entails = np.array([[same(*sorted((a, b))) >= THRESHOLD for b in texts] for a in texts])
    kernel = [[same(text, answer) for answer in one.answers] for text in texts]
    clusters = seper.cluster(entails)
    firsts = {k: texts[list(clusters).index(k)] for k in range(max(clusters) + 1)}
    matches = [[same(firsts[k], answer) >= THRESHOLD for answer in one.answers] for k in firsts]
    log_likelihood = [reply.log_likelihood for reply in replies]
    return {
        "seper_soft": seper.soft(log_likelihood, kernel),
        "seper_hard": seper.hard(log_likelihood, clusters, matches),
        "clusters": len(firsts),
    }


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_batched_way_equals_the_plain_one(seed):
    rng = np.random.default_rng(seed)
    questions = [question(f"q{i}", *rng.choice(WORDS, rng.integers(1, 4), replace=False)) for i in range(3)]
    drawn = {
        Case(one.id, condition): [said(f" {rng.choice(WORDS)}", *rng.uniform(0.1, 1, 2)) for _ in range(4)]
        for one in questions
        for condition in (CLOSED, "gold")
    }
    table = asked.beliefs(Shares(), questions, drawn).set_index(["id", "condition"])
    by_case = {case: plainly(Shares(), next(q for q in questions if q.id == case.id), drawn[case]) for case in drawn}
    for case, values in by_case.items():
        assert table.loc[case, list(values)].to_dict() == pytest.approx(values)
    gains = asked.changes(table.reset_index()).set_index("id")
    for one in questions:
        after, before = (by_case[one.id, condition]["seper_soft"] for condition in ("gold", CLOSED))
        assert gains.loc[one.id, "seper_soft"] == pytest.approx(seper.utility(after, before))
    turned = asked.beliefs(Shares(), questions[::-1], dict(reversed(drawn.items()))).set_index(["id", "condition"])
    pd.testing.assert_frame_equal(turned.loc[table.index], table)


def test_two_samples_by_hand():
    one = question("q", "alpha", "beta")
    [row] = asked.beliefs(Initials(), [one], {("q", CLOSED): [said(" alpha", 0.5, 0.6), said(" gamma", 0.1)]}).to_dict(
        "records"
    )
    # 0.3 and 0.1 weigh 3/4 and 1/4; the first means "alpha", the second neither answer
    assert row["seper_soft"] == pytest.approx(0.375) and row["soft_max"] == pytest.approx(0.75)
    assert row["seper_hard"] == pytest.approx(0.375) and row["hard_any"] == pytest.approx(0.75)
    assert row["soft_frequency"] == row["hard_frequency"] == pytest.approx(0.25)
    per_token = np.sqrt(0.3)  # geometric mean over two tokens
    assert row["soft_token_mean"] == pytest.approx(per_token / (per_token + 0.1) / 2)
    assert row["right"] == 0.5 and row["clusters"] == row["n"] == 2 and row["steps"] == 1


def test_every_pair_is_judged_once_in_either_order():
    judge, one = Shares(), question("q", "ab")
    drawn = {("q", CLOSED): [said(" ab", 0.5)] * 4 + [said(" cd", 0.1)], ("q", "gold"): [said("cd", 0.3)]}
    asked.beliefs(judge, [one], drawn)
    assert sorted(pair[1:] for pair in judge.seen) == [("ab", "ab"), ("ab", "cd"), ("cd", "cd")]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_soft_seper_holds_no_sample_against_another(seed):
    rng, judge = np.random.default_rng(seed), Shares()
    one = question("q", *rng.choice(WORDS[:3], 2, replace=False))
    drawn = {
        Case("q", way): [said(f" {rng.choice(WORDS)}", rng.uniform(0.1, 1)) for _ in range(5)]
        for way in (CLOSED, "gold")
    }
    whole, soft = (asked.beliefs(judge, [one], drawn, clustered=clustered) for clustered in (True, False))
    assert set(whole) - set(soft) == {"seper_hard", "hard_any", "hard_frequency", "clusters"}
    pd.testing.assert_frame_equal(soft, whole[list(soft)])
    pd.testing.assert_frame_equal(asked.changes(soft), asked.changes(whole)[list(asked.changes(soft))])
    known = asked.agreements(judge, [one], drawn, clustered=False)
    pd.testing.assert_frame_equal(asked.beliefs(judge, [one], drawn, agreed=known), soft)
    judge.seen.clear()
    asked.beliefs(judge, [one], drawn, clustered=False)
    texts = {reply.text.strip() for own in drawn.values() for reply in own}
    assert {*judge.seen} == {(one.text, *sorted((text, answer))) for text in texts for answer in one.answers}
    assert len(judge.seen) == len({*judge.seen})


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    profile = tiny.llama(tmp_path_factory.mktemp("llama"))
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def test_a_reader_is_asked_where_there_is_something_to_show(reader):
    questions = [question("q", "ab"), question("other", "cd")]
    contexts = {CLOSED: None, "gold": {"q": questions[0].gold, "other": []}}
    texts = asked.prompts_of(reader, questions, contexts, closed=CLOSED_PROMPT, read=READ_PROMPT)
    assert texts == {
        ("q", CLOSED): "which q", ("other", CLOSED): "which other", ("q", "gold"): "Document: ab\nwhich q"
    }  # fmt: skip
    drawn = asked.draw(reader, texts, n=3, max_new_tokens=4, seed=7)
    assert {case: len(replies) for case, replies in drawn.items()} == {
        ("q", CLOSED): 3, ("other", CLOSED): 3, ("q", "gold"): 3
    }  # fmt: skip
    [alone] = reader.generate(["Document: ab\nwhich q"], n=3, temperature=1.0, max_new_tokens=4, seed=7)
    assert [reply.text for reply in drawn["q", "gold"]] == [reply.text for reply in alone]


def test_repeated_questions_and_passages_by_something_else_are_refused(reader):
    """Before, the second question took the place of the first, and under such a context nobody was asked."""
    questions = [question("q", "ab"), question("other", "cd")]
    how = {"closed": CLOSED_PROMPT, "read": READ_PROMPT}
    with pytest.raises(ValueError, match="ids of questions must each come once; got 'q' twice"):
        asked.prompts_of(reader, [*questions, question("q", "ef")], {CLOSED: None}, **how)
    by_text = {each.text: each.gold for each in questions}
    words = f"passages of context 'gold' must be by keys such as 'q'; got '{questions[0].text}' and others"
    with pytest.raises(ValueError, match=words):
        asked.prompts_of(reader, questions, {CLOSED: None, "gold": by_text}, **how)
    few = {CLOSED: None, "gold": {"q": questions[0].gold}, "step 1": {"elsewhere": questions[0].gold}, "none": {}}
    assert len(asked.prompts_of(reader, questions, few, **how)) == 3
    for name in ("stepwise", "step one", "1"):
        with pytest.raises(ValueError, match=f"passages of context '{name}' must be by keys such as 'q'"):
            asked.prompts_of(reader, questions, {name: {"elsewhere": questions[0].gold}}, **how)


def test_beliefs_refuse_questions_that_share_an_id_or_have_no_answers():
    """Before, the answers of the second stood for both."""
    drawn = {Case("q", CLOSED): [said(" ab", 0.5)]}
    with pytest.raises(ValueError, match="ids of questions must each come once; got 'q' twice"):
        asked.beliefs(Shares(), [question("q", "ab"), question("q", "ef")], drawn)
    with pytest.raises(ValueError, match="answers of question 'q' must hold at least 1; got none"):
        asked.beliefs(Shares(), [question("q")], drawn)


def test_delta_is_the_change_of_beliefs_step_by_step(reader):
    judge, texts, answers = Shares(), ["ab cd", "d"], ["an", "in the"]
    one = Question("asked", "which one", tuple(answers), "toy")
    shown = {CLOSED: None, "shown": {"asked": [Passage(str(i), "", text) for i, text in enumerate(texts)]}}
    how = {"closed": prompts.load("closed_plain"), "read": prompts.load("read_plain")}
    drawn = asked.draw(reader, asked.prompts_of(reader, [one], shown, **how), n=4, seed=2)
    before, after = (plainly(judge, one, drawn["asked", condition])["seper_soft"] for condition in (CLOSED, "shown"))
    delta = asked.delta(reader, judge, one.text, texts, answers, n=4, seed=2)
    assert delta == pytest.approx(after - before) and abs(delta) > 1e-6


class Repeating:
    """Says the first word of its documents, and nothing right without any."""

    def generate(self, prompts, *, n, **_):
        words = [prompt.removeprefix("Document: ").split()[0] for prompt in prompts]
        return [[said(f" {word}", 0.5)] * n for word in words]


def test_delta_by_hand_and_what_it_refuses():
    """Without documents it says "Question:", which shares no first letter with the answers."""
    given = Repeating(), Initials(), "which river?"
    assert asked.delta(*given, ["Vane runs there."], ["Vane"]) == pytest.approx(1.0)
    assert asked.delta(*given, ["Vane runs there."], ["Vane", "Sova"]) == pytest.approx(0.5)
    assert asked.delta(*given, ["Lakes only."], ["Vane"]) == pytest.approx(0.0)
    assert asked.delta(*given, ["Vane runs there."], ["Quay"]) == pytest.approx(-1.0)
    for passages, answers, message in (
        ("Vane runs there.", ["Vane"], "passages must be a list; got str"),
        (["Vane runs there."], "Vane", "answers must be a list; got str"),
        ([], ["Vane"], "passages must hold at least 1"),
        (["Vane runs there."], [], "answers must hold at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            asked.delta(*given, passages, answers)


def test_changes_are_utilities_and_refuse_what_cannot_be_compared():
    table = pd.DataFrame(
        {"id": ["a", "a", "b", "b"], "condition": [CLOSED, "gold"] * 2, "seper_soft": [0.2, 0.9, 0.5, np.nan]}
    )
    gains = asked.changes(table, measures={"seper_soft": seper.utility})
    assert gains["condition"].tolist() == ["gold", "gold"] and gains["seper_soft"].iloc[0] == pytest.approx(0.7)
    assert np.isnan(gains["seper_soft"].iloc[1])
    halved = asked.changes(table, measures={"seper_soft": lambda after, before: (before - after) / 2})
    assert halved["seper_soft"].iloc[0] == pytest.approx(-0.35)
    only = {"measures": {"seper_soft": seper.utility}}
    for bad, message in (
        (table[1:], "1 questions were not asked under 'closed book', the first is a"),
        (pd.concat([table, table[:1]]), "1 questions were asked under 'closed book' more than once"),
        (table.assign(seper_soft=1.5), "after must be from 0 to 1"),
        (table[table["condition"] == "gold"], "condition"),
    ):
        with pytest.raises(ValueError, match=message):
            asked.changes(bad, **only)
    with pytest.raises(ValueError, match="columns of beliefs must hold at least 1; got none"):
        asked.changes(table.drop(columns="seper_soft"))
