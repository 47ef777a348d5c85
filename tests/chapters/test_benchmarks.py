"""What is measured on public benchmarks, on tiny files of their form: equal to asking each question on its own, whole or in part."""

import numpy as np
import pandas as pd
import pytest
import tiny
import tiny_benchmarks

from experiments import asking, benchmarks
from experiments.data_and_models.benchmark import conditions
from experiments.reader.gold import with_gold
from experiments.seper_validity import compared, evouna
from rag_utils import answers, data, lm, prompts, retrieve, similarity
from rag_utils.engine import weights
from rag_utils.prompts import prompt_text

PLAIN = ["closed_plain", "read_plain"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    profile = tiny.llama(tmp_path_factory.mktemp("llama"), shape={"max_position_embeddings": 4096})
    model = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    model.tokenizer.chat_template = "{{ messages[0]['content'] }}"
    return model


@pytest.fixture
def reader(model, tmp_path, monkeypatch):
    """A tiny reader under the name "tiny", and tiny benchmarks."""
    tiny_benchmarks.write(tmp_path, monkeypatch)
    monkeypatch.setattr(asking, "reader", lambda profile, mode, chapter=None: {("tiny", None): model}[profile, chapter])
    return model


def test_a_benchmark_is_its_first_questions_by_hash_and_what_they_may_be_shown(reader):
    for name in ("nq", "squad", "hotpotqa"):
        every = [one for one in data.load(name) if name != "nq" or data.held_out(one.text)]
        whole, part = benchmarks.load(name, 100), benchmarks.load(name, 2)
        assert [*whole.questions] == sorted(every, key=lambda one: data.question_id(one.text)) and len(every) > 2
        assert part.questions == whole.questions[:2]
        assert whole.facts["questions"] == len(every) and part.facts == whole.facts | {"questions": 2}
        assert whole.facts["source"] == f"invented/{name}@1"
        negatives = whole.negatives()
        for one in whole.questions:
            assert {gold.id for gold in one.gold} <= set(whole.passages)
            assert not any(answers.contains_answer(passage.text, one.answers) for passage in negatives[one.id])
    assert benchmarks.load("companion", 3).facts == {"questions": 3}
    with pytest.raises(ValueError, match="questions must be a whole number of at least 1; got 0"):
        benchmarks.load("squad", 0)


def test_conditions_are_each_question_asked_alone(reader):
    settings = {"profile": "tiny", "dataset": "hotpotqa", "questions": 3, "max_new_tokens": 4}
    forms = {"plain": PLAIN, "instruction": ["seper_closed.chat", "seper_read.chat"]}
    rows, facts = conditions(mode="fresh", prompts=forms, **settings)
    assert "reply" not in rows and facts["fingerprints"] == {"tiny-llama": reader.fingerprint}
    assert facts["questions"] == 3 and facts["without_hard_negative"] == 0
    assert rows.groupby(["prompt", "condition"]).size().to_dict() == {
        (label, condition): 3 for label in forms for condition in ("closed book", "gold", "hard negative")
    }
    data_set = benchmarks.load("hotpotqa", 3)
    negatives = data_set.negatives()
    for row in rows.itertuples():
        one = next(question for question in data_set.questions if question.id == row.id)
        shown = {"closed book": None, "gold": one.gold, "hard negative": negatives[one.id]}[row.condition]
        prompt = prompts.load(forms[row.prompt][row.condition != "closed book"])
        [[reply]] = reader.generate([prompt_text(reader, prompt, one, shown)], max_new_tokens=4)
        assert row.token_f1 == answers.token_f1(reply.text, one.answers) and row.tokens == len(reply.token_ids)
        assert row.log_likelihood == pytest.approx(reply.log_likelihood, abs=1e-4)
    part, _ = conditions(mode="fresh", prompts=forms, few=1, **settings)
    first = data_set.questions[0].id
    pd.testing.assert_frame_equal(part, rows[rows["id"] == first].reset_index(drop=True), atol=1e-4)


def test_with_gold_is_the_gold_condition(reader):
    settings = {"profile": "tiny", "dataset": "squad", "questions": 4, "max_new_tokens": 4}
    rows, facts = with_gold(mode="fresh", read_prompt="read_plain", **settings)
    both, _ = conditions(mode="fresh", prompts={"plain": PLAIN}, **settings)
    gold = both[both["condition"] == "gold"].drop(columns="prompt").reset_index(drop=True)
    pd.testing.assert_frame_equal(rows, gold, atol=1e-4)
    assert facts["questions"] == 4
    part, _ = with_gold(mode="fresh", read_prompt="read_plain", few=2, **settings)
    pd.testing.assert_frame_equal(part, rows[:2], atol=1e-4)


def test_what_contains_a_gold_is_held_against_what_people_said(reader):
    each, facts = benchmarks.evouna()
    assert facts["source"] == "invented/evouna_nq@1" and len(each) == 6 and len(benchmarks.evouna(few=2)[0]) == 2
    # the second system says the tree for the first question only, and people never accept it; the last says it five times of six
    second, last = (
        each[[f"match_{name}", f"verdict_{name}"]].sum().tolist() for name in (data.SYSTEMS[1], data.SYSTEMS[-1])
    )
    assert second == [1, 0] and last == [4, 6]
    assert each.isna().any(axis=1).sum() == 1  # one answer is missing
    counts, facts = benchmarks.confusion(dataset="evouna_tq")
    assert facts["source"] == "invented/evouna_tq@1"
    counts = counts.set_index("id")
    assert counts.loc["InstructGPT"].tolist() == [0, 1, 0, 5] and counts.loc["BingChat"].tolist() == [4, 0, 2, 0]
    assert counts.sum(axis=1).tolist() == [6, 6, 6, 5, 6]


def test_a_language_model_judges_each_answer_by_its_better_gold(reader):
    settings = {"questions": 4, "asker_profile": "tiny", "judge_prompt": "seper_judge.chat"}
    rows, facts = evouna.asked(mode="fresh", **settings)
    assert facts["fingerprints"] == {"tiny-llama": reader.fingerprint} and facts["source"] == "invented/evouna_nq@1"
    judged = sorted(data.load_judged("evouna_nq"), key=lambda one: data.question_id(one.question))[:4]
    assert rows["id"].tolist() == [one.id for one in judged]
    prompt, table = prompts.load("seper_judge.chat"), rows.set_index("id")
    for one in judged:
        given = {answer.system: answer.text for answer in one.answers if answer.text.strip()}
        for system in data.SYSTEMS:
            texts = [
                prompt_text(reader, prompt, question=one.question, reference=gold, answer=given.get(system, ""))
                for gold in one.golds
            ]
            wanted = max(compared.said_yes(reader, texts)) if system in given else np.nan
            assert table.loc[one.id, f"lm_{system}"] == pytest.approx(wanted, nan_ok=True)
    part, _ = evouna.asked(mode="fresh", few=2, **settings)
    pd.testing.assert_frame_equal(part[rows.columns], rows[:2])


def test_bertscores_are_those_of_each_answer_alone(reader):
    rows, facts = evouna.bertscores(mode="fresh", few=2)
    assert len(rows) == 2 and facts["encoder"] == "all-MiniLM-L6-v2"
    for one, row in zip(data.load_judged("evouna_nq"), rows.to_dict("records"), strict=False):
        for answer in one.answers:
            [alone] = similarity.bertscores([answer.text], [list(one.golds)], encoder=retrieve.token_encoder())
            assert row[f"bertscore_{answer.system}"] == pytest.approx(alone, abs=1e-4)
