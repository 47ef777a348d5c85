"""DENSE-RAG on many questions: the same as alone, batched; a case by hand, properties, wrong ways that must fail."""

import hashlib

import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.dense_rag import ablations, contexts, refinement
from rag_utils import dense, lm, prompts
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.prompts import Prompt

few = settings(deadline=None, derandomize=True, max_examples=15)
READ, CLOSED = Prompt("read", "$documents\n$question", chat=False), Prompt("closed", "$question", chat=False)
HOW = refinement.Settings(read=READ, closed=CLOSED, rephrase=Prompt("other", "$text", chat=False), sufficient=READ)


def number(*parts, below):
    """A repeatable number that depends on everything given."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest(), 16) % below


def invented(seed, *, questions=3, chunks=6, k=3, replies=3):
    """Cases with random embeddings and tables that answer at random, always the same, and count how often they are asked."""
    rng = np.random.default_rng(seed)
    pool = tuple(Passage(f"c{i}", "title", f"text {i}") for i in range(chunks))
    some = [
        contexts.Case(
            Question(f"q{i}", f"question {i}", ("1",), "companion"),
            pool,
            tuple(map(int, rng.permutation(chunks)[:k])),
            rng.normal(size=(chunks, 4)),
        )
        for i in range(questions)
    ]
    calls = []

    def asked(name, value):
        def ask(keys):
            calls.append((name, len(keys)))
            assert len(set(keys)) == len(keys)
            return [value(key) for key in keys]

        return refinement.Asked(ask)

    tables = refinement.Tables(
        other=asked("other", lambda text: f"{text} in other words"),
        replies=asked("replies", lambda key: f"reply {number(seed, key, below=replies)}"),
        same=asked("same", lambda key: number(seed, key, below=4) / 3),
        enough=asked("enough", lambda key: number(seed, key, below=9) - 6),
    )
    return some, tables, calls


def alone(case, tables, *, enough=0.0, **options):
    """`dense.refine` with functions that answer at once, written out again."""

    def ask(table, key):
        return table[key] if key in table else table.ask([key])[0]

    def reply(context):
        return ask(tables.replies, (case.question.id, tuple(context)))

    def agreement(a, b):
        ways = [a == b or ask(tables.same, (case.question.id, *pair)) >= 0.5 for pair in ((a, b), (b, a))]
        return sum(ways) / 2

    def texts(numbers):
        return [case.chunks[i].text for i in numbers]

    def agree(numbers):
        context = texts(numbers)
        said = [reply(context)]
        for place, text in enumerate(context):
            said.append(reply([*context[:place], f"{text} in other words", *context[place + 1 :]]))
        return np.array([[agreement(a, b) for b in said] for a in said])

    def without(numbers, places):
        context = texts(numbers)
        return [agreement(reply(context), reply(context[:i] + context[i + 1 :])) for i in places]

    def sufficient(numbers):
        return ask(tables.enough, (case.question.id, tuple(texts(numbers)))) > enough

    asks = {"agree": agree, "agree_without": without, "is_sufficient": None if enough is None else sufficient}
    return dense.refine(case.first, case.embeddings, **asks, **({"limit": len(case.first)} | options))


# --- together --------------------------------------------------------------------------------------


@few
@given(st.integers(0, 10_000))
def test_together_is_the_same_as_alone(seed):
    some, tables, _ = invented(seed)
    variants = {
        **ablations.VARIANTS,
        "and": {"stop_when": "and"},
        "no limit": {"limit": None},
        "guarded": {"fallback": "guarded", "half": "unnecessary"},
    }
    found = refinement.refined(some, variants, tables)
    assert len(found) == len(some) * len(variants)
    for case in some:
        for name, options in variants.items():
            if name == "refill at random":
                continue
            expected, outcome = alone(case, tables, **options), found[case.question.id, name]
            assert outcome.refinement == expected
            assert outcome.reply == tables.replies[case.question.id, case.texts(expected.context)]
            assert outcome.entropy == expected.rounds[0].entropy
            assert dense.degree_entropy(outcome.links[1]) == expected.rounds[expected.best].entropy


def test_questions_advance_together():
    """A loop over questions would ask for replies as often as all questions alone together."""

    def calls_of(chosen):
        some, tables, calls = invented(3, questions=8)
        refinement.refined(some[chosen], ablations.VARIANTS, tables)
        return [name for name, _ in calls].count("replies")

    one_by_one = [calls_of(slice(i, i + 1)) for i in range(8)]
    assert max(one_by_one) <= calls_of(slice(None)) < sum(one_by_one) / 3


def test_nothing_is_asked_twice_and_nothing_without_need():
    some, tables, calls = invented(5)
    refinement.understood(some, tables)
    assert "enough" not in [name for name, _ in calls]
    before = len(calls)
    assert refinement.replied(some, tables) == {
        case.question.id: tables.replies[case.question.id, case.texts(case.first)] for case in some
    }
    assert len(calls) == before


def test_jobs_that_wait_for_nothing_are_an_error():
    _, tables, _ = invented(0)
    elsewhere = refinement.Asked(lambda keys: keys)
    with pytest.raises(RuntimeError, match="no table was asked"):
        refinement.together({"a": lambda: elsewhere.of(["x"])}, tables)


def test_what_nobody_can_be_asked_for():
    question = Question("q", "what", ("1",), "companion")
    tables = refinement.ask_with([question], None, None, HOW, other={"a": "b"})
    assert tables.other.of(["a"]) == ["b"]
    with pytest.raises(ValueError, match="2 values are looked up and nobody is there"):
        refinement.together({"a": lambda: tables.other.of(["c", "d"])}, tables)


# --- a case by hand --------------------------------------------------------------------------------


def test_by_hand():
    """Rephrasing b moves the reply and leaving it out does not: it goes. With a both do, so its neighbour c comes; then nothing moves."""
    chunks = tuple(Passage(name, "t", name) for name in "abcd")
    question = Question("q", "what", ("yes",), "companion")
    case = contexts.Case(question, chunks, (0, 1), np.array([[1, 0], [0, 1], [0.9, 0.1], [-1, 0.0]]))
    said = {("a", "b"): "x", ("A", "b"): "y", ("a", "B"): "y", ("b",): "z", ("a",): "x", ("A",): "x"}
    said |= {("a", "c"): "w", ("A", "c"): "w", ("a", "C"): "w"}
    tables = refinement.Tables(
        other=refinement.Asked(lambda keys: [key.upper() for key in keys]),
        replies=refinement.Asked(lambda keys: [said[context] for _, context in keys]),
        same=refinement.Asked(lambda keys: [0.0] * len(keys)),
        enough=refinement.Asked(lambda keys: [-1.0 if context == ("a", "b") else 1.0 for _, context in keys]),
    )
    variants = {name: options for name, options in ablations.VARIANTS.items() if name != "refill at random"}
    found = refinement.refined([case], variants, tables)
    full = found["q", "full"]
    assert full.refinement.rounds[0].roles == ("necessary", "unnecessary")
    assert (full.refinement.context, full.reply, full.refinement.ended) == ((0, 2), "w", "stopped")
    assert set(full.read) == set(said) - {("A",)}
    assert {found["q", name].refinement.context for name in ("only removing", "refill on certain")} == {(0,)}
    assert full.entropy == pytest.approx((np.log(3) + 2 * np.log(3 / 2)) / 3)
    assert full.links[0].tolist() == [[1, 0, 0], [0, 1, 1], [0, 1, 1]] and full.links[1].min() == 1
    assert found["q", "no self-evaluation"].refinement.context == (0, 2)
    # the wrong way round, neighbours of the removed chunk, would bring d or nothing
    half = ablations.halves(tables, [case])
    assert half == -1.0
    stopped = refinement.refined([case], {"full": {"enough": -2.0}, "never": {"enough": None}}, tables)
    assert len(stopped["q", "full"].refinement.rounds) == 1 and len(stopped["q", "never"].refinement.rounds) == 2


def test_without_a_limit_a_context_grows():
    """With a limit a neighbour comes only in the place of a chunk that went."""
    some, tables, _ = invented(2, questions=30, chunks=12)
    found = refinement.refined(some, {"five": {"enough": None}, "any": {"enough": None, "limit": None}}, tables)
    longest = {
        name: max(
            len(step.context) for (_, other), one in found.items() if other == name for step in one.refinement.rounds
        )
        for name in ("five", "any")
    }
    assert longest["five"] == 3 < longest["any"]


# --- asking ----------------------------------------------------------------------------------------


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def test_asking_a_tiny_reader(reader):
    question = Question("q", "who", ("yes",), "companion")
    weigh = refinement.sufficiency(reader, [question], READ)
    tables = refinement.ask_with([question], reader, None, HOW, other={}, weigh=weigh)
    [long, none] = refinement.together({"a": lambda: tables.replies.of([("q", ("one", "two")), ("q", ())])}, tables)[
        "a"
    ]
    texts = ["Document: one\nDocument: two\nwho", "who"]
    assert [long, none] == [said[0].text.strip() for said in reader.generate(texts, max_new_tokens=24)]
    yes, no = reader.log_likelihood([texts[0]] * 2, ["Yes", "No"])
    assert refinement.together({"a": lambda: tables.enough.of([("q", ("one", "two"))])}, tables)["a"] == [
        yes.sum() - no.sum()
    ]


def test_only_accepted_words_count():
    assert refinement.accepted({"a": "A", "b": "bad"}, {"a": 0.5, "b": 0.4}) == {"a": "A", "b": "b"}
    assert refinement.accepted({"a": "A"}, {"a": 0.5}, least=0.6) == {"a": "a"}


def test_shipped_prompts_have_the_slots():
    slots = {"dense_rephrase.chat": {"text"}, "dense_sufficient.chat": {"documents", "question"}}
    assert all(set(prompts.load(name).slots) == wanted for name, wanted in slots.items())


def test_a_random_neighbour_is_another_one():
    some, tables, _ = invented(11, questions=30, chunks=12)
    variants = {
        "near": {"enough": None},
        "any": {"enough": None, "shuffled": True},
        "none": {"enough": None, "refill": "none"},
    }
    found = refinement.refined(some, variants, tables)
    pairs = [(found[case.question.id, "near"], found[case.question.id, "any"]) for case in some]
    assert all(near.refinement.rounds[0] == other.refinement.rounds[0] for near, other in pairs)
    assert any(near.refinement.rounds != other.refinement.rounds for near, other in pairs)
    assert all(not found[case.question.id, "none"].added for case in some)
