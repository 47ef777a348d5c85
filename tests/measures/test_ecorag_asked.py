"""ECoRAG asked of a reader: labels as the taught function finds them, what is kept, whether it suffices, and what is answered with it."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from tiny_evidence import BRIDGE, CLOSED, KNOWN, OPEN, PASSAGES, READ, SENTENCES, STORM, Reader, encode

from rag_utils import answers, ecorag
from rag_utils.data import Passage, Question
from rag_utils.measures import ecorag as measure
from rag_utils.measures.ecorag import FEATURES

HOW = {"closed": CLOSED, "read": READ}

# --- labels --------------------------------------------------------------------------------------


def test_labels_of_a_question_and_of_one_that_is_known_by_heart():
    table = measure.mine(Reader(), [OPEN, KNOWN], {"q1": [BRIDGE, STORM], "q2": [BRIDGE]}, **HOW)
    assert table.to_numpy().tolist() == [
        ["q1", 1, "p1", 0, 0, "strong"],
        ["q1", 2, "p1", 1, 0, "weak"],
        ["q1", 3, "p2", 0, 0, "distractor"],
        ["q2", 1, "p1", 0, 1, "undefined"],
        ["q2", 2, "p1", 1, 1, "undefined"],
    ]
    assert list(table) == ["id", "rank", "passage", "place", "closed", "label"]
    with pytest.raises(ValueError, match="must each come once; got 'q1' twice"):
        measure.mine(Reader(), [OPEN, OPEN], {"q1": [BRIDGE]}, **HOW)
    with pytest.raises(ValueError, match="passages must hold at least 1"):
        measure.mine(Reader(), [OPEN], {"q1": []}, **HOW)
    for refusing in (
        lambda passages: measure.mine(Reader(), [OPEN], passages, **HOW),
        lambda passages: measure.ranked([OPEN], passages, measure.dot_products(encode)),
    ):
        with pytest.raises(ValueError, match="passages must be by keys such as 'q1'; got 'when did it open'"):
            refusing({OPEN.text: [BRIDGE]})
    with pytest.raises(ValueError, match="must each come once; got 'q1' twice"):
        measure.ranked([OPEN, OPEN], {"q1": [BRIDGE]}, measure.dot_products(encode))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_all_questions_at_once_get_the_labels_that_each_gets_from_the_taught_function_alone(data):
    words = st.sampled_from(["x", "y", "z", "w"])
    lists = data.draw(st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=4))
    wanted_words = data.draw(st.lists(st.sets(words, max_size=2), min_size=len(lists), max_size=len(lists)))
    breaks = data.draw(words)
    questions = [Question(f"q{i}", f"question {i}", ("yes",), "companion") for i in range(len(lists))]
    passages = {q.id: [Passage("p", "", " ".join(own), tuple(own))] for q, own in zip(questions, lists, strict=True)}

    def well(place, texts):
        return wanted_words[place] <= set(texts) and breaks not in texts

    def reply(prompt):
        shown = [line.removeprefix("Document: ") for line in prompt.splitlines() if line.startswith("Document: ")]
        return "yes" if well(int(prompt.rsplit(" ", 1)[1]), shown) else "no"

    reader = Reader(reply)
    table = measure.mine(reader, questions, passages, **HOW)
    for place, (question, own) in enumerate(zip(questions, lists, strict=True)):
        [alone] = ecorag.mine(
            [question.id],
            [own],
            closed_book=lambda asked, place=place: [well(place, []) for _ in asked],
            with_sentence=lambda asked, place=place: [well(place, [text]) for _, text in asked],
            strong_with_sentence=lambda asked, place=place: [well(place, list(texts)) for _, *texts in asked],
        )
        assert table[table["id"] == question.id]["label"].tolist() == alone
    assert all(len(set(call)) == len(call) for call in reader.asked) and len(reader.asked) <= 3
    turned = measure.mine(Reader(reply), questions[::-1], passages, **HOW)
    key = ["id", "rank"]
    assert turned.sort_values(key).to_numpy().tolist() == table.sort_values(key).to_numpy().tolist()


# --- scores --------------------------------------------------------------------------------------


def test_sentences_stand_after_the_title_of_their_passage():
    found = measure.sentences(PASSAGES)
    assert [sentence.text for sentence in found] == SENTENCES
    assert [(one.passage, one.place) for one in found] == [("p1", 0), ("p1", 1), ("p2", 0), ("p2", 1)]
    uncut = measure.sentences([Passage("p", "T", "One is here. Two is not.")])
    assert [sentence.text for sentence in uncut] == ["T: One is here.", "T: Two is not."]
    with pytest.raises(ValueError, match="passages must hold at least 1"):
        measure.sentences([])


def test_similarity_is_the_dot_product_and_each_text_is_embedded_once():
    seen = []

    def counted(texts):
        seen.extend(texts)
        return encode(texts)

    score = measure.dot_products(counted)
    [found] = score(["aa when"], [SENTENCES])
    assert found == pytest.approx(encode(SENTENCES) @ encode(["aa when"])[0], abs=1e-6)
    score(["aa when"], [SENTENCES[:2]])
    assert len(seen) == len(set(seen)) == 5


def head_of(steps):
    return dict(zip(measure.PARTS, [matrix for step in steps for matrix in step], strict=True))


def test_a_head_moves_both_sides_by_its_low_rank_step():
    rng = np.random.default_rng(0)
    steps = [(rng.normal(size=(8, 2)), rng.normal(size=(2, 8))) for _ in range(2)]
    [found] = measure.dot_products(encode, head_of(steps))(["aa when"], [SENTENCES])
    whole = [np.eye(8) + down @ up for down, up in steps]
    wanted = (encode(SENTENCES) @ whole[1]) @ (encode(["aa when"])[0] @ whole[0])
    assert found == pytest.approx(wanted, abs=1e-6)
    plain = measure.dot_products(encode)(["aa when"], [SENTENCES])[0]
    assert not np.allclose(found, plain, atol=1e-3)  # a head that is left out is noticed
    nothing = head_of([(down, 0 * up) for down, up in steps])
    assert measure.dot_products(encode, nothing)(["aa when"], [SENTENCES])[0] == pytest.approx(plain, abs=1e-6)


def test_questions_may_have_an_encoder_of_their_own():
    def reversed_letters(texts):
        return encode(texts)[:, ::-1]

    [found] = measure.dot_products(encode, asked=reversed_letters)(["aa when"], [SENTENCES])
    assert found == pytest.approx(encode(SENTENCES) @ reversed_letters(["aa when"])[0], abs=1e-6)
    assert not np.allclose(found, measure.dot_products(encode)(["aa when"], [SENTENCES])[0], atol=1e-3)


# --- what is kept --------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=9), min_size=1, max_size=3), st.data())
def test_what_is_kept_is_what_the_taught_function_keeps_of_each_question_alone(lists, data):
    step, limit, enough = (data.draw(st.integers(1, 9)) for _ in range(3))
    questions = [Question(f"q{i}", f"question {i}", ("x",), "companion") for i in range(len(lists))]
    passages, values = {}, {}
    for question, own in zip(questions, lists, strict=True):
        texts = tuple(f"{question.id} {i}" for i in range(len(own)))
        values |= dict(zip(texts, map(float, own), strict=True))
        passages[question.id] = [Passage("p", "", " ".join(texts), texts)]

    def score(asked, texts):
        return [np.array([values[text] for text in own]) for own in texts]

    def evaluator(asked, texts):
        assert len(asked) == 1 and all(text.startswith(f"q{asked[0][-1]} ") for text in texts[0])
        return np.array([0.5 if len(own) >= enough else 0.49 for own in texts])

    kept = measure.adaptive(score, evaluator, step=step, limit=limit)(questions, passages)
    for question, own in zip(questions, lists, strict=True):
        texts = passages[question.id][0].sentences
        places = ecorag.compress(texts, own, lambda some: len(some) >= enough, step=step, limit=limit)
        assert kept[question.id] == [texts[place] for place in places]
    turned = measure.adaptive(score, evaluator, step=step, limit=limit)(questions[::-1], passages)
    assert turned == kept
    strict = measure.adaptive(score, evaluator, step=step, limit=limit, threshold=0.51)(questions, passages)
    for name, [passage] in passages.items():  # never sufficient
        assert len(strict[name]) == min(limit, len(passage.sentences))


def test_features_by_hand():
    score = measure.dot_products(encode)
    [row] = measure.features(["when did the bridge open"], [["the bridge", "open in 1894"]], score)
    best = max(score(["when did the bridge open"], [["the bridge", "open in 1894"]])[0])
    assert row.tolist() == pytest.approx([best, 0.5, 1, 1], abs=1e-6)  # bridge and open count, each text has one
    [row] = measure.features(["who opened it in 1894"], [["it was 1894"]], score)
    assert row[2:].tolist() == [0, 0]
    [row] = measure.features(["how many in 1894"], [["in 1894"]], score)
    assert row[2:].tolist() == [1, 0]  # the question's own number is no answer
    with pytest.raises(ValueError, match="texts kept for a question must hold at least 1"):
        measure.features(["who"], [[]], score)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(alphabet="abc 19", min_size=1), min_size=2, max_size=5), st.text(alphabet="abc 19", min_size=1))
def test_no_feature_falls_when_a_text_is_added(texts, question):
    score = measure.dot_products(encode)
    fewer, more = (measure.features([f"when {question}"], [own], score)[0] for own in (texts[:-1], texts))
    assert (more >= fewer - 1e-9).all()


def test_the_small_evaluator_is_a_logistic_regression():
    score = measure.dot_products(encode)
    coefficients = {"intercept": -1.0, "coefficients": dict(zip(FEATURES, (2.0, 1.0, 0.5, -0.5), strict=True))}
    [found] = measure.small_evaluator(score, coefficients)(["aa when"], [SENTENCES[:1]])
    [row] = measure.features(["aa when"], [SENTENCES[:1]], score)
    logit = -1 + 2 * row[0] + row[1] + 0.5 * row[2] - 0.5 * row[3]
    assert found == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-6)


def test_a_saved_head_and_evaluator_are_loaded_and_what_is_damaged_is_named(tmp_path):
    rng = np.random.default_rng(0)
    tensors = {
        f"{side}.{part}": rng.normal(size=(8, 2) if part == "down" else (2, 8)).astype(np.float16)
        for side in ("question", "sentence")
        for part in ("down", "up")
    }
    save_file(tensors, tmp_path / "evidentiality.safetensors")
    head = measure.load_head("evidentiality", tmp_path)
    assert np.array_equal(head["sentence.up"], tensors["sentence.up"].astype(np.float32))
    with pytest.raises(ValueError, match="unknown head"):
        measure.load_head("evidence", tmp_path)
    with pytest.raises(ValueError, match=r"answerability\.safetensors is absent"):
        measure.load_head("answerability", tmp_path)
    (tmp_path / "evidentiality.safetensors").write_bytes(b"short")
    with pytest.raises(ValueError, match="absent or damaged"):
        measure.load_head("evidentiality", tmp_path)
    for part, wrong in {
        "question.up": np.full((2, 8), np.nan),
        "sentence.down": np.ones((8, 3)),
        "sentence.up": np.ones((2, 1)),  # which would be added to every number of an embedding
        "question.down": np.ones(8),
    }.items():
        save_file(tensors | {part: wrong.astype(np.float16)}, tmp_path / "evidentiality.safetensors")
        with pytest.raises(ValueError, match=r"evidentiality\.safetensors is absent or damaged"):
            measure.load_head("evidentiality", tmp_path)
    with pytest.raises(ValueError, match=r"evaluator\.json is absent"):
        measure.load_evaluator(tmp_path)
    for coefficients in ({}, dict.fromkeys(FEATURES, np.nan)):
        (tmp_path / "evaluator.json").write_text(json.dumps({"intercept": 1, "coefficients": coefficients}))
        with pytest.raises(ValueError, match="absent or damaged"):
            measure.load_evaluator(tmp_path)


def test_what_ships_is_small_and_fits():
    files = [path for path in measure.FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 5_000_000
    for name in measure.HEADS:
        head = measure.load_head(name)
        assert head["question.down"].shape == (384, 16) and head["sentence.up"].shape == (16, 384)
    assert set(measure.load_evaluator()["coefficients"]) == set(FEATURES)
    facts = json.loads((measure.FOLDER / "training.json").read_text())
    assert set(facts["heads"]) == set(measure.HEADS) and facts["labels"]["fingerprint"]
    last = json.loads((measure.FOLDER / "last_epoch" / "training.json").read_text())
    assert last["labels"] == facts["labels"] and last["settings"]["epochs"] == facts["settings"]["epochs"]
    both = (one["heads"]["evidentiality"]["history"] for one in (last, facts))
    for row, same in zip(*both, strict=True):  # one training, two epochs kept
        assert row == pytest.approx(same, rel=1e-3)
    assert last["heads"]["evidentiality"]["kept"]["epoch"] == facts["settings"]["epochs"]
    for own in facts["heads"].values():  # the kept epoch is the best of those that were written down, or better
        assert own["kept"]["development"] <= min(row["development"] for row in own["history"])


# --- what is answered ----------------------------------------------------------------------------


def test_reading_counts_tokens_and_asks_everything_in_one_call():
    reader = Reader()
    kept = {"closed book": None, "both": {"q1": ["a 1894", "b c"], "q2": ["x"]}}
    table = measure.answered(reader, [OPEN, KNOWN], kept, **HOW)
    assert len(reader.asked) == 1 and len(reader.asked[0]) == 4
    assert table[["id", "condition", "exact_match", "tokens", "texts"]].values.tolist() == [
        ["q1", "closed book", 0.0, 0, 0],
        ["q2", "closed book", 1.0, 0, 0],
        ["q1", "both", 1.0, 4, 2],
        ["q2", "both", 1.0, 1, 1],
    ]
    with pytest.raises(ValueError, match="none kept nothing for question 'q1'"):
        measure.answered(reader, [OPEN], {"none": {"q1": []}}, **HOW)


def test_an_answer_is_worth_what_the_metrics_say_and_an_empty_one_is_counted():
    said = {"one": "The red bridge.", "two": "a red boat", "three": " ... "}
    questions = [Question(text, text, ("red bridge",), "companion") for text in said]
    table = measure.answered(Reader(lambda prompt: said[prompt.split("Q: ")[1]]), questions, {"closed": None}, **HOW)
    assert table["exact_match"].tolist() == [1, 0, 0] and table["token_f1"].tolist() == [1, 0.5, 0]
    assert table["unparsable"].tolist() == [0, 0, 1]
    assert table["token_f1"][1] == answers.token_f1("red boat", ["red bridge"])


def test_each_condition_and_question_has_the_row_that_it_has_alone():
    kept = {"a": {"q1": ["1894"], "q2": ["x y"]}, "closed": None, "b": {"q1": ["1894", "1849"], "q2": ["z"]}}
    whole = measure.answered(Reader(), [OPEN, KNOWN], kept, **HOW)
    alone = [measure.answered(Reader(), [one], {name: kept[name]}, **HOW) for name in kept for one in (OPEN, KNOWN)]
    pd.testing.assert_frame_equal(whole, pd.concat(alone, ignore_index=True))
