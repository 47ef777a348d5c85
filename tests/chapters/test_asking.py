"""Asking under conditions: the right texts are asked, the right rows come back, and the pairs are paired."""

from types import SimpleNamespace

import pandas as pd
import pytest
import tiny

from experiments import asking, benchmarks
from rag_utils import data, lm, prompts
from rag_utils.engine import weights
from rag_utils.prompts import prompt_text

CLOSED = prompts.Prompt("closed", "Q: $question A:", chat=False)
READ = prompts.Prompt("read", "$documents Q: $question A:", chat=False)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    profile = tiny.llama(tmp_path_factory.mktemp("llama"), batch_tokens=2000)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def passage(name):
    return data.Passage(name, "", f"text of {name}")


QUESTIONS = [
    data.Question(id=f"q{i}", text=f"what is {i}", answers=("x",), dataset="tiny", gold=(passage(f"g{i}"),))
    for i in range(4)
]


def test_the_reader_is_asked_what_the_condition_says(reader):
    assert prompt_text(reader, CLOSED, QUESTIONS[1], None) == "Q: what is 1 A:"
    shown = prompt_text(reader, READ, QUESTIONS[1], [passage("a"), passage("b")])
    assert shown == "Document: text of a\nDocument: text of b Q: what is 1 A:"


def test_one_row_per_question_and_condition_but_where_there_is_nothing_to_show(reader):
    negatives = {question.id: (passage("n"),) for question in QUESTIONS[:3]} | {"q3": ()}
    table = asking.conditions(reader, QUESTIONS, negatives, closed=CLOSED, read=READ, max_new_tokens=3)
    assert table.groupby("condition", sort=False).size().to_dict() == {"closed book": 4, "gold": 4, "hard negative": 3}
    assert set(table.loc[table["condition"] == "hard negative", "id"]) == {"q0", "q1", "q2"}
    [[reply]] = reader.generate(["Document: text of g2 Q: what is 2 A:"], max_new_tokens=3)
    row = table.query("id == 'q2' and condition == 'gold'").iloc[0]
    assert row["reply"] == reply.text.strip() and row["log_likelihood"] == pytest.approx(reply.log_likelihood, abs=1e-4)


def test_repeated_questions_and_passages_by_something_else_are_refused(reader):
    """Before, such passages left every question out, and the table was empty."""
    how = {"condition": "gold", "max_new_tokens": 2}
    with pytest.raises(ValueError, match="passages must be by keys such as 'q0'; got 'what is 0' and others, 4 are"):
        asking.ask(reader, QUESTIONS, READ, passages={each.text: each.gold for each in QUESTIONS}, **how)
    with pytest.raises(ValueError, match="ids of questions must each come once; got 'q0' twice"):
        asking.ask(reader, [*QUESTIONS, QUESTIONS[0]], CLOSED, **how)


def rows(**columns):
    return pd.DataFrame({"unparsable": 0, "condition": "closed book", **columns})


def test_differences_are_paired_by_question_not_by_place():
    closed = rows(id=["a", "b", "c", "d"], exact_match=[0.0, 1.0, 0.0, 1.0])
    gold = rows(id=["d", "c", "b", "a"], exact_match=[1.0, 1.0, 1.0, 0.0], condition="gold")
    found = asking.differences(pd.concat([closed, gold]), "exact_match")
    assert found.loc["gold", "value"] == 0.25 and found.loc["gold", "n"] == 4
    shuffled = pd.concat([closed, gold.sample(frac=1, random_state=1)])
    pd.testing.assert_frame_equal(asking.differences(shuffled, "exact_match"), found)


def test_a_question_without_a_hard_negative_leaves_the_pair():
    closed = rows(id=["a", "b", "c"], exact_match=[0.0, 1.0, 0.0])
    negative = rows(id=["a", "b"], exact_match=[1.0, 1.0], condition="hard negative")
    assert asking.differences(pd.concat([closed, negative]), "exact_match").loc["hard negative", "n"] == 2


def test_holm_adjusts_for_all_rows_of_the_table():
    table = pd.concat(
        [rows(id=list("abcdefgh"), exact_match=[float(i < k) for i in range(8)], condition=name)
         for name, k in (("closed book", 0), ("gold", 8), ("hard negative", 7))]
    )  # fmt: skip
    found = asking.differences(table, "exact_match")
    assert found["p_holm"].tolist() == pytest.approx([2 * found["p_value"].min(), found["p_value"].max()])


def test_intervals_and_unknown_metric():
    table = rows(id=["a", "b", "c"], exact_match=[0.0, 1.0, 1.0])
    [row] = asking.intervals(table, "exact_match").to_dict("records")
    assert row["n"] == 3 and row["value"] == pytest.approx(2 / 3) and row["low"] < row["value"] < row["high"]
    with pytest.raises(ValueError, match="did you mean 'exact_match'"):
        asking.intervals(table, "exactmatch")


def test_lexical_match_is_one_row_a_question():
    one = data.Judged(
        "a", "q", ("Rome",), (data.JudgedAnswer("fid", "in Rome.", True), data.JudgedAnswer("gpt4", "Paris", None))
    )
    table = benchmarks.lexical_match([one])
    assert table.loc[0, ["match_fid", "verdict_fid", "match_gpt4"]].tolist() == [1, 1, 0] and pd.isna(
        table.loc[0, "verdict_gpt4"]
    )


def test_the_ending_names_reader_prompts_and_what_the_tables_were_measured_with():
    reader = SimpleNamespace(name="tiny", fingerprint="tiny-1", profile=SimpleNamespace(name="embedded"))
    rows = pd.DataFrame({"id": ["a"]})
    rows.attrs["kept"] = {"facts": asking.facts(reader=reader, nobody=None)}
    measured = asking.measured_with({"nq": rows}, "embedded")
    assert measured == {"nq": "tiny-1"}
    with pytest.raises(ValueError, match="unknown profile behind nq 'other'"):
        asking.measured_with({"nq": rows}, "other")
    boxes = {
        mode: asking.ending(
            reader, before={"by": measured, "also": {}}, used=[READ], packages=["pandas"], mode=mode, seed=3
        )
        for mode in ("replay", "live", "fresh")
    }
    assert list(boxes["replay"]) == ["reader", "fingerprint", "by", "prompts", "seed", "mode", "libraries"]
    shown = str(boxes["replay"])
    assert "nq: tiny-1" in shown and f"read: {READ.digest}" in shown and "pandas: " in shown
    assert boxes["live"] == boxes["replay"] != boxes["fresh"]
