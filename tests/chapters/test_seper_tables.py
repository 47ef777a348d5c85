"""The tables of chapter 2 on tiny files: each is what its parts say of the same samples, whole or in part."""

import pandas as pd
import pytest
import tiny
import tiny_benchmarks
from tiny_samples import Shares

from experiments import asking, benchmarks
from experiments.seper_validity import compared, tables, variants
from rag_utils import lm, prompts
from rag_utils.engine import weights
from rag_utils.measures import CLOSED, seper

CLOSED_NAME, READ_NAME = "closed_plain", "read_plain"
HOW = {"samples": 4, "max_new_tokens": 3, "seed": 5}
SETTINGS = {
    "mode": "fresh",
    "profiles": {"reader": "tiny", "judge": "letters", "asker": "tiny"},
    "prompts": {"closed": CLOSED_NAME, "read": READ_NAME, "judge": "seper_judge.chat"},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    profile = tiny.llama(tmp_path_factory.mktemp("llama"), shape={"max_position_embeddings": 2048})
    model = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    model.tokenizer.chat_template = "{{ messages[0]['content'] }}"
    return model


@pytest.fixture
def chapters(model, tmp_path, monkeypatch):
    """Whose recordings the readers were loaded for; a tiny reader, judge and benchmarks."""
    tiny_benchmarks.write(tmp_path, monkeypatch)
    asked = []
    monkeypatch.setattr(asking, "reader", lambda profile, mode, chapter=None: asked.append(chapter) or model)
    monkeypatch.setattr(asking, "judge", lambda profile, **how: {"letters": Shares()}[profile])
    return asked


@pytest.fixture
def by_hand(chapters, model):
    """Questions, contexts and samples of HotpotQA's two first, by the parts that the tables are made of."""
    data_set = benchmarks.load("hotpotqa", 2)
    shown = seper.contexts(data_set.questions, data_set.negatives())
    read = {"closed": prompts.load(CLOSED_NAME), "read": prompts.load(READ_NAME)}
    asked = seper.prompts_of(model, data_set.questions, shown, **read)
    drawn = seper.draw(model, asked, n=4, max_new_tokens=3, seed=5)
    return data_set.questions, shown, drawn, seper.agreements(Shares(), data_set.questions, drawn)


ON = {"dataset": "hotpotqa", "questions": 2}
CLOSE = {"atol": 1e-4, "rtol": 1e-4}


def test_every_measure_of_the_samples(by_hand, chapters, model):
    questions, shown, drawn, agreed = by_hand
    assert list(shown) == [CLOSED, "gold", "hard negative", "step 1", "step 2"]
    rows, facts = tables.measured(how=HOW, **ON, **SETTINGS)
    plain = compared.rows(Shares(), questions, drawn, agreed=agreed)
    pd.testing.assert_frame_equal(rows.drop(columns="lm_judge"), plain, **CLOSE)
    said = compared.asked_judge(model, questions, drawn, prompts.load("seper_judge.chat"))
    assert rows["lm_judge"].to_numpy() == pytest.approx(said)
    assert facts["questions"] == 2 and facts["source"] == "invented/hotpotqa@1" and set(chapters) == {None}
    part, _ = tables.measured(how=HOW, few=1, **ON, **SETTINGS)
    first = rows[rows["id"] == questions[0].id].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, first, **CLOSE)


def test_runs_are_beliefs_of_disjoint_samples(by_hand, model):
    questions, shown, _, _ = by_hand
    how = {"sizes": [1, 2], "times": 2, "max_new_tokens": 3, "seed": 5}
    rows, _ = tables.runs(how=how, **ON, **SETTINGS)
    read = {"closed": prompts.load(CLOSED_NAME), "read": prompts.load(READ_NAME)}
    drawn = seper.draw(model, seper.prompts_of(model, questions, shown, **read), n=4, max_new_tokens=3, seed=5)
    assert len(rows) == 10 * 2 * 2
    for (size, run), part in rows.groupby(["samples", "run"]):
        own = {case: replies[2 * run : 2 * run + size] for case, replies in drawn.items()}
        beliefs = seper.beliefs(Shares(), questions, own)
        both = part.merge(beliefs, on=["id", "condition"])
        assert len(both) == 10 and both["seper_soft_x"].to_numpy() == pytest.approx(both["seper_soft_y"].to_numpy())
        assert both["right_x"].tolist() == both["right_y"].tolist()


def test_variants_of_the_same_samples(by_hand, model):
    questions, _, drawn, agreed = by_hand
    how = HOW | {"warps": {"none": {"temperature": 1.0}, "sharp": {"temperature": 0.1}}}
    pd.testing.assert_frame_equal(
        tables.by_code(how=HOW, among=None, **ON, **SETTINGS)[0], variants.by_code(drawn, agreed), **CLOSE
    )
    warped, _ = tables.warped(how=how, among=None, **ON, **SETTINGS)
    plain = seper.beliefs(Shares(), questions, drawn)
    assert warped["soft_none"].to_numpy() == pytest.approx(plain["seper_soft"].to_numpy(), abs=1e-4)
    assert warped["change_none"].abs().max() < 1e-4 and (warped["possible_sharp"] == 1).all()
    assert (warped["change_sharp"].abs() > 0.1).any()
    judged, facts = tables.judged(how=HOW, **ON, **SETTINGS)
    wanted = variants.by_judge(model, questions, drawn, agreed, prompts.load(SETTINGS["prompts"]["judge"]))
    pd.testing.assert_frame_equal(judged, wanted, **CLOSE)
    assert facts["fingerprints"] == {"tiny-llama": model.fingerprint}


def test_the_corpus_is_spread_evenly_and_its_calls_belong_to_the_chapter(chapters, model):
    whom = "fresh", "companion", 3, SETTINGS["profiles"], SETTINGS["prompts"]
    from_twelve, *_ = tables._sampled(*whom, HOW, among=12)
    first, *_ = tables._sampled(*whom, HOW | {"only": [CLOSED]})
    corpus = tables.data.load("companion")
    assert from_twelve.questions == [corpus[0], corpus[4], corpus[8]] and first.questions == corpus[:3]
    assert "unrelated" not in {condition for _, condition in from_twelve.drawn}
    assert [case for case in from_twelve.drawn if case.condition == "gold"]
    assert {condition for _, condition in first.drawn} == {CLOSED} and set(chapters) == {"02_seper_validity"}
    settings = {name: SETTINGS[name] for name in ("mode", "profiles", "prompts")}
    rows, _ = tables.again(questions=3, how=HOW, **settings)
    plain = compared.rows(Shares(), corpus[:3], first.drawn).assign(condition="asked again")
    pd.testing.assert_frame_equal(rows, plain, **CLOSE)


def test_unrelated_passages_are_of_other_articles_and_the_same_for_a_part():
    questions = tables.data.load("companion")[:8]
    shown = tables.corpus_contexts(questions, seed=3)
    for one in questions:
        [passage] = shown["unrelated"][one.id]
        assert passage.title not in {near.title for near in (*one.gold, *one.distractors)}
    part = tables.corpus_contexts(questions[:3], seed=3)["unrelated"]
    assert part == {one.id: shown["unrelated"][one.id] for one in questions[:3]}
    assert tables.corpus_contexts(questions, seed=4)["unrelated"] != shown["unrelated"]
