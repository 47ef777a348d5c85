"""Compressors on a tiny reader and an encoder made here: what is kept, in which order, and within which budget."""

import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_evidence import GIVEN, PASSAGES, SENTENCES, encode

from experiments.ecorag_ablations import compressors
from rag_utils import lm
from rag_utils.data import Question
from rag_utils.engine import weights
from rag_utils.measures.ecorag import dot_products
from rag_utils.prompts import Prompt


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def words(text):
    return len(text.split())


def test_the_best_sentences_come_first_and_ties_keep_the_order_of_the_passages():
    score = dot_products(encode)
    order = np.argsort(-score(["aa when"], [SENTENCES])[0], kind="stable")
    assert compressors.extractive(score, keep=3)(*GIVEN) == {"q": [SENTENCES[i] for i in order[:3]]}

    def equal(questions, texts):
        return [np.zeros(len(own)) for own in texts]

    assert compressors.extractive(equal)(*GIVEN) == {"q": SENTENCES}


def test_what_is_retrieved_is_reranked_and_the_rest_stays_behind_it():
    seen = []

    def first(questions, texts):
        return [np.array([{"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.1}[text] for text in own]) for own in texts]

    def second(questions, texts):
        seen.append((questions, texts))
        return [np.array([{"a": -3.0, "b": -1.0, "c": -2.0, "d": -0.5}[text] for text in own]) for own in texts]

    found = compressors.reranked(first, second, pool=3)(["q", "r"], [["d", "c", "b", "a"], ["b", "a"]])
    # of a, b, c, retrieved in this order, b is best and a worst; d would be better than all of them but was not retrieved
    assert [own.tolist() for own in found] == [[0, 2, 3, 1], [1, 0]]
    assert seen == [(["q", "r"], [["a", "b", "c"], ["a", "b"]])]
    everything = compressors.reranked(first, second, pool=9)(["q"], [["d", "c", "b", "a"]])
    assert everything[0].tolist() == [3, 1, 2, 0]
    equal = compressors.reranked(first, lambda questions, texts: [np.zeros(3)], pool=3)(["q"], [["d", "c", "b", "a"]])
    assert equal[0].tolist() == [0, 1, 2, 3]  # the retriever decides
    for pool in (0, 1.5, True):
        with pytest.raises(ValueError, match="pool must be"):
            compressors.reranked(first, second, pool=pool)


@pytest.mark.parametrize(("keep", "kept"), [(1, [2]), (2, [2, 0]), (4, [2, 0, 1, 3]), (9, [2, 0, 1, 3])])
def test_the_best_of_two_reranked_sentences_are_kept_and_all_where_there_are_fewer(keep, kept):
    first = {text: value for text, value in zip(SENTENCES, (5, 1, 4, 0), strict=True)}
    second = {SENTENCES[0]: -2.0, SENTENCES[2]: -1.0}  # of no other sentence is the second score asked

    def scored(by_text):
        return lambda questions, texts: [np.array([float(by_text[text]) for text in own]) for own in texts]

    score = compressors.reranked(scored(first), scored(second), pool=2)
    assert compressors.extractive(score, keep=keep)(*GIVEN) == {"q": [SENTENCES[place] for place in kept]}


def test_the_likelihood_of_the_question_is_its_mean_after_each_text_alone(reader):
    score = compressors.question_likelihood(reader)
    found = score(["aa when", "ccc d"], [SENTENCES[:2], SENTENCES[2:]])
    pairs = [(SENTENCES[0], "aa when"), (SENTENCES[1], "aa when"), (SENTENCES[2], "ccc d"), (SENTENCES[3], "ccc d")]
    said = reader.log_likelihood(
        [f"Document: {text}\nQuestion:" for text, _ in pairs], [f" {asked}" for _, asked in pairs]
    )
    assert np.concatenate(found) == pytest.approx([tokens.mean() for tokens in said], abs=1e-6)
    assert [own.shape for own in found] == [(2,), (2,)]
    more = compressors.question_likelihood(reader, appended=" b c")(["aa when"], [SENTENCES[:1]])
    [longer] = reader.log_likelihood([f"Document: {SENTENCES[0]}\nQuestion:"], [" aa when b c"])
    assert more[0] == pytest.approx([longer.mean()], abs=1e-6) and more[0][0] != found[0][0]


def test_a_language_model_as_evaluator_weighs_its_two_verdicts(reader):
    prompt = Prompt("evidence", "$question\n$documents\nScore:", chat=False)
    asked = compressors.asked_evaluator(reader, prompt, verdicts=("a", "b"))
    [found] = asked(["aa when"], [SENTENCES[:2]])
    text = "aa when\nDocument: Tower: aaa b.\nDocument: Tower: ccc d.\nScore:"
    yes, no = (tokens.sum() for tokens in reader.log_likelihood([text, text], ["a", "b"]))
    assert found == pytest.approx(np.exp(yes) / (np.exp(yes) + np.exp(no)), abs=1e-6)


def test_an_encoder_decoder_as_evaluator_takes_the_papers_two_tokens(tmp_path):
    profile = tiny.t5(tmp_path)
    model = lm.LanguageModel(weights.load(profile), profile, mode="fresh")
    prompt = Prompt("evidence", "$question $documents", chat=False)
    asked = compressors.asked_evaluator(model, prompt, verdicts=("<EVI>", "<NOT>"))
    one, other = asked(["aa when"] * 2, [SENTENCES[:1], SENTENCES[2:]])
    assert min(one, other) >= 0 and max(one, other) <= 1 and one != other


def test_the_last_documents_are_shortened_until_all_fit():
    whole = ["Tower: aaa b. ccc d.", "bbb 7 a. eee."]  # 5 and 4 words, of their first sentences 3 and 3
    for room, kept in ((9, whole), (8, [whole[0], "bbb 7 a."]), (6, ["Tower: aaa b.", "bbb 7 a."])):
        assert compressors.shortened_documents(room, words)(*GIVEN) == {"q": kept}
    with pytest.raises(ValueError, match="have 6 tokens, more than 5"):
        compressors.shortened_documents(5, words)(*GIVEN)


@settings(max_examples=40, deadline=None)
@given(st.integers(6, 12))
def test_shortened_documents_fit_and_none_is_cut_that_could_stay(room):
    kept = compressors.shortened_documents(room, words)(*GIVEN)["q"]
    whole = compressors.first_documents()(*GIVEN)["q"]
    assert sum(map(words, kept)) <= room and len(kept) == len(whole)
    if kept != whole:
        first = next(i for i, (text, full) in enumerate(zip(kept, whole, strict=True)) if text != full)
        assert sum(map(words, [*whole[: first + 1], *kept[first + 1 :]])) > room


def test_documents_and_gold_sentences():
    assert compressors.first_documents(1)(*GIVEN) == {"q": ["Tower: aaa b. ccc d."]}
    assert compressors.first_documents()(*GIVEN) == {"q": ["Tower: aaa b. ccc d.", "bbb 7 a. eee."]}
    assert compressors.gold_sentences(*GIVEN) == {"q": ["Tower: ccc d."]}
    unmarked = Question("q", "aa", ("b",), "nq", gold=PASSAGES[1:])
    assert compressors.gold_sentences([unmarked], {}) == {"q": ["bbb 7 a.", "eee."]}
    for wrong in (0, True, 1.5):
        with pytest.raises(ValueError, match="k must be"):
            compressors.first_documents(wrong)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(0, 40))
def test_what_is_filled_fits_the_budget_or_is_one_text(lengths, budget):
    texts = [" ".join(["w"] * length) for length in lengths]
    kept = compressors.fill(texts, budget, words)
    assert kept == texts[: len(kept)] and len(kept) >= 1
    assert sum(map(words, kept)) <= budget or len(kept) == 1
    if len(kept) < len(texts):
        assert sum(map(words, [*kept, texts[len(kept)]])) > budget


def test_a_random_choice_is_seeded_and_within_the_budget():
    def kept(seed):
        return compressors.at_random({"q": 6}, words, seed=seed)(*GIVEN)["q"]

    assert kept(1) == kept(1) and {text for seed in range(20) for text in kept(seed)} == set(SENTENCES)
    assert all(sum(map(words, kept(seed))) <= 6 for seed in range(20))


def test_information_of_words_is_that_of_their_tokens(reader):
    [found] = compressors.word_information(reader, PASSAGES[:1]).values()
    [tokens] = reader.log_likelihood([""], ["aaa b. ccc d."])
    assert [length for _, length in found] == [3, 3, 4, 3]  # bytes, the space before a word is its own
    assert sum(total for total, _ in found) == pytest.approx(-tokens.sum())
    assert found[0][0] == pytest.approx(-tokens[:3].sum())


def test_pruning_keeps_what_is_least_expected_in_the_order_of_the_text(reader, monkeypatch):
    table = {"p1": [(9.0, 1), (1.0, 1), (8.0, 2), (6.0, 1)], "p2": [(2.0, 1), (1.0, 1), (0.5, 1), (7.0, 1)]}
    monkeypatch.setattr(compressors, "word_information", lambda reader, passages: table)
    kept = compressors.informative_words(reader, {"q": 3})(*GIVEN)["q"]
    assert kept == ["Tower: aaa d.", "eee."]  # 9, 7 and 6 a token; ccc has 8 of two tokens, so 4
    monkeypatch.setattr(reader, "count_tokens", words)
    sentences = compressors.informative_sentences(reader, {"q": 4})(*GIVEN)["q"]
    assert sentences == [
        "Tower: aaa b.",
        "eee.",
    ]  # means 5, 14 / 3, 3.5 / 3 and 7: eee., then the first, in the text's order


def test_documents_are_ranked_by_how_probable_they_make_the_question(reader, monkeypatch):
    asked = {}

    def log_likelihood(contexts, continuations):
        asked["contexts"], asked["continuations"] = contexts, continuations
        return [np.array([-4.0, -4.0]), np.array([-1.0, -3.0])]

    monkeypatch.setattr(reader, "log_likelihood", log_likelihood)
    kept = compressors.likely_documents(reader, {"q": 99})(*GIVEN)["q"]
    assert kept == ["bbb 7 a. eee.", "Tower: aaa b. ccc d."]  # the second is likelier, so it comes first
    assert asked["contexts"][0] == "Document: Tower: aaa b. ccc d.\nQuestion:"
    assert all(text.startswith(" aa when We can get") for text in asked["continuations"])
    assert compressors.likely_documents(reader, {"q": 1})(*GIVEN)["q"] == kept[:1]
