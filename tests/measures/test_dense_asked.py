"""DENSE-RAG on many questions: the same as `dense.refine` alone, batched; a case by hand, properties, wrong ways that must fail."""

import invented
import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from invented import HOW, READ, number

from rag_utils import dense, lm, prompts
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.lm import Generation
from rag_utils.measures import dense as asked
from rag_utils.prompts import Prompt

few = settings(deadline=None, derandomize=True, max_examples=15)
VARIANTS = {
    "full": {},
    "only removing": {"refill": "none"},
    "no self-evaluation": {"enough": None},
    "refill on certain": {"refill": "certain"},
    "refill at random": {"shuffled": True},
}


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


class SameWords:
    """Two texts mean the same if they share a word; asked about equal ones, it complains."""

    def equivalent(self, questions, left, right):
        assert all(a != b for a, b in zip(left, right, strict=True)), "equal texts need no judge"
        return np.array([0.8 if set(a.split()) & set(b.split()) else 0.1 for a, b in zip(left, right, strict=True)])


# --- together --------------------------------------------------------------------------------------


@few
@given(st.integers(0, 10_000))
def test_together_is_the_same_as_alone(seed):
    some, tables, _ = invented.supplies(seed)
    variants = {
        **VARIANTS,
        "and": {"stop_when": "and"},
        "no limit": {"limit": None},
        "guarded": {"fallback": "guarded", "half": "unnecessary"},
    }
    found = asked.refined(some, variants, tables)
    assert len(found) == len(some) * len(variants)
    for case in some:
        for name, options in variants.items():
            if name == "refill at random":
                continue
            expected, outcome = alone(case, tables, **options), found[case.question.id, name]
            assert outcome.refinement == expected
            assert outcome.reply == tables.replies[case.question.id, case.texts(expected.context)]
            assert dense.degree_entropy(outcome.links[0]) == expected.rounds[0].entropy
            assert dense.degree_entropy(outcome.links[1]) == expected.rounds[expected.best].entropy


def test_questions_advance_together():
    """A loop over questions would ask for replies as often as all questions alone together."""

    def calls_of(chosen):
        some, tables, calls = invented.supplies(3, questions=8)
        asked.refined(some[chosen], VARIANTS, tables)
        return [name for name, _ in calls].count("replies")

    one_by_one = [calls_of(slice(i, i + 1)) for i in range(8)]
    assert max(one_by_one) <= calls_of(slice(None)) < sum(one_by_one) / 3


def test_nothing_is_asked_without_need():
    some, tables, calls = invented.supplies(5)
    asked.understood(some, tables)
    assert "enough" not in [name for name, _ in calls]
    before = len(calls)
    asked.understood(some, tables)
    assert len(calls) == before


def test_jobs_of_different_length_wait_for_nobody():
    """A job that knows what it needs goes on at once; each table is asked once in a round, for all jobs together."""
    calls = []
    table = asked.Asked(lambda keys: calls.append(keys) or [key * 10 for key in keys])

    def job(*steps):
        values = []
        for keys in steps:
            values += yield table, keys
        return values

    jobs = {"long": job([1], [2], [3]), "short": job([2]), "known": job([1], [1, 2]), "none": job(), "empty": job([])}
    results = asked.together(jobs)
    assert results == {"long": [10, 20, 30], "short": [20], "known": [10, 10, 20], "none": [], "empty": []}
    assert calls == [[1, 2], [3]] or calls == [[1, 2], [2], [3]]
    assert list(results)[:2] == ["none", "empty"]
    wrong = asked.Asked(lambda keys: keys[1:])
    with pytest.raises(ValueError, match="zip"):
        asked.together({"a": (keys for keys in [(wrong, [1, 2])])})


def test_what_nobody_can_be_asked_for():
    question = Question("q", "what", ("1",), "companion")
    supply = asked.Supply(question, (Passage("a", "t", "a"),), embeddings=np.ones((1, 2)))
    tables = asked.ask_with([question], None, SameWords(), HOW, other={"b": "B"})
    with pytest.raises(ValueError, match="1 contexts are to be weighed and nobody is there"):
        tables.enough.fill([("q", ("a",))])
    with pytest.raises(ValueError, match="1 passages that are shown have no other words"):
        asked.understood([supply], tables)


# --- a case by hand --------------------------------------------------------------------------------


def test_by_hand():
    """Rephrasing b moves the reply and leaving it out does not: it goes. With a both do, so its neighbour c comes; then nothing moves."""
    chunks = tuple(Passage(name, "t", name) for name in "abcd")
    question = Question("q", "what", ("yes",), "companion")
    case = asked.Supply(question, chunks, (0, 1), np.array([[1, 0], [0, 1], [0.9, 0.1], [-1, 0.0]]))
    said = {("a", "b"): "x", ("A", "b"): "y", ("a", "B"): "y", ("b",): "z", ("a",): "x", ("A",): "x"}
    said |= {("a", "c"): "w", ("A", "c"): "w", ("a", "C"): "w"}
    tables = asked.Tables(
        other={name: name.upper() for name in "abcd"},
        replies=asked.Asked(lambda keys: [said[context] for _, context in keys]),
        same=asked.Asked(lambda keys: [0.0] * len(keys)),
        enough=asked.Asked(lambda keys: [-1.0 if context == ("a", "b") else 1.0 for _, context in keys]),
    )
    variants = {name: options for name, options in VARIANTS.items() if name != "refill at random"}
    found = asked.refined([case], variants, tables)
    full = found["q", "full"]
    assert full.refinement.rounds[0].roles == ("necessary", "unnecessary")
    assert (full.refinement.context, full.reply, full.refinement.ended) == ((0, 2), "w", "stopped")
    assert set(full.read) == set(said) - {("A",)}
    assert {found["q", name].refinement.context for name in ("only removing", "refill on certain")} == {(0,)}
    assert full.refinement.rounds[0].entropy == pytest.approx((np.log(3) + 2 * np.log(3 / 2)) / 3)
    assert full.links[0].tolist() == [[1, 0, 0], [0, 1, 1], [0, 1, 1]] and full.links[1].min() == 1
    assert found["q", "no self-evaluation"].refinement.context == (0, 2)
    # the wrong way round, neighbours of the removed chunk, would bring d or nothing
    stopped = asked.refined([case], {"full": {"enough": -2.0}, "never": {"enough": None}}, tables)
    assert len(stopped["q", "full"].refinement.rounds) == 1 and len(stopped["q", "never"].refinement.rounds) == 2


def test_without_a_limit_a_context_grows():
    """With a limit a neighbour comes only in the place of a chunk that went."""
    some, tables, _ = invented.supplies(2, questions=30, chunks=12)
    found = asked.refined(some, {"five": {"enough": None}, "any": {"enough": None, "limit": None}}, tables)
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
    tables = asked.ask_with([question], reader, SameWords(), HOW, other={}, asker=reader)
    tables.replies.fill([("q", ("one", "two")), ("q", ())])
    texts = ["Document: one\nDocument: two\nwho", "who"]
    assert list(tables.replies.values()) == [said[0].text.strip() for said in reader.generate(texts, max_new_tokens=24)]
    yes, no = reader.log_likelihood([texts[0]] * 2, ["Yes", "No"])
    tables.enough.fill([("q", ("one", "two"))])
    assert tables.enough["q", ("one", "two")] == pytest.approx(yes.sum() - no.sum())


def test_only_accepted_words_count():
    assert asked.accepted({"a": "A", "b": "bad"}, {"a": 0.5, "b": 0.4}) == {"a": "A", "b": "b"}


def test_shipped_prompts_have_the_slots():
    slots = {"dense_rephrase.chat": {"text"}, "dense_sufficient.chat": {"documents", "question"}}
    assert all(set(prompts.load(name).slots) == wanted for name, wanted in slots.items())


def test_a_random_neighbour_is_another_one():
    some, tables, _ = invented.supplies(11, questions=30, chunks=12)
    variants = {
        "near": {"enough": None},
        "any": {"enough": None, "shuffled": True},
        "none": {"enough": None, "refill": "none"},
    }
    found = asked.refined(some, variants, tables)
    pairs = [(found[case.question.id, "near"], found[case.question.id, "any"]) for case in some]
    assert all(near.refinement.rounds[0] == other.refinement.rounds[0] for near, other in pairs)
    assert any(near.refinement.rounds != other.refinement.rounds for near, other in pairs)
    never = [found[case.question.id, "none"].refinement for case in some]
    assert all({*one.context} <= {*one.rounds[0].context} for one in never)


# --- replies under edits ---------------------------------------------------------------------------

SAY = Prompt("say", "again: $text", chat=False)
A, B = Passage("a", "title", "one alpha"), Passage("b", "title", "two beta")
QUESTIONS = [
    Question(id="q1", text="which letter", answers=("alpha",), dataset="companion", gold=(A,)),
    Question(id="q2", text="which number", answers=("two",), dataset="companion", gold=(B,)),
]
SUPPLIES = [asked.Supply(QUESTIONS[0], (A, B)), asked.Supply(QUESTIONS[1], (B, A))]
OTHER = {A.text: "alpha is one", B.text: "beta is second"}


def said(*texts):
    return [Generation(f" {text}", (1, 2), np.array([-1.0, -0.5])) for text in texts]


def test_each_context_differs_in_one_passage(reader):
    prompts_seen = []
    generate = reader.generate
    reader.generate = lambda prompts, **options: prompts_seen.extend(prompts) or generate(prompts, **options)
    shorter = asked.Supply(QUESTIONS[0], (A, B), first=(0,))
    found = asked.replies_under_edits(reader, [*SUPPLIES, shorter], OTHER, prompt=READ, max_new_tokens=3)
    assert prompts_seen == [
        "Document: one alpha\nDocument: two beta\nwhich letter",
        "Document: alpha is one\nDocument: two beta\nwhich letter",
        "Document: one alpha\nDocument: beta is second\nwhich letter",
        "Document: two beta\nDocument: one alpha\nwhich number",
        "Document: beta is second\nDocument: one alpha\nwhich number",
        "Document: two beta\nDocument: alpha is one\nwhich number",
        "Document: one alpha\nwhich letter",
        "Document: alpha is one\nwhich letter",
    ]
    assert [len(replies) for replies in found] == [3, 3, 2]
    alone = asked.replies_under_edits(reader, [shorter], OTHER, prompt=READ, max_new_tokens=3)
    assert [reply.text for reply in alone[0]] == [reply.text for reply in found[2]]
    with pytest.raises(ValueError, match="2 passages that are shown have no other words"):
        asked.replies_under_edits(reader, SUPPLIES, {}, prompt=READ)


def test_a_rephrasing_that_is_empty_changes_nothing(reader, monkeypatch):
    monkeypatch.setattr(
        reader, "generate", lambda prompts, **options: [said("") if "beta" in p else said("x") for p in prompts]
    )
    assert asked.rephrase(reader, ["one alpha", "two beta"], SAY) == ["x", "two beta"]


# --- agreement -------------------------------------------------------------------------------------


@few
@given(st.lists(st.lists(st.sampled_from(["a b", "b", "c", "a", ""]), min_size=1, max_size=4), min_size=1, max_size=4))
def test_agreements_are_those_of_each_pair_by_itself(texts):
    """In one call, each distinct pair of different texts once, both ways; a judge with a direction is asked in that direction."""
    questions = [Question(f"q{i}", f"what {i}", ("1",), "companion") for i in range(len(texts))]
    drawn = {(question.id, "x"): said(*own) for question, own in zip(questions, texts, strict=True)}
    calls = []

    def entails(names, premises, hypotheses):
        calls.append(list(zip(names, premises, hypotheses, strict=True)))
        return [number(*pair, below=10) / 10 for pair in calls[-1]]

    agreed = asked.agreements(entails, questions, drawn)
    for question, own in zip(questions, texts, strict=True):
        expected = [[1.0 if a == b else number(question.text, a, b, below=10) / 10 for b in own] for a in own]
        assert agreed[question.id, "x"].tolist() == expected
    assert list(agreed) == list(drawn) and len(calls) <= 1
    for pairs in calls:
        assert all(a != b for _, a, b in pairs) and len({*pairs}) == len(pairs)


def test_questions_that_share_an_id_are_refused():
    """Before, the second took the place of the first."""
    twice = [Question("q", text, ("1",), "toy") for text in ("what", "who")]
    for ask in (
        lambda: asked.agreements(None, twice, {}),
        lambda: asked.ask_with(twice, None, SameWords(), None, other={}),
        lambda: asked.refined([asked.Supply(question, ()) for question in twice], {}, None),
    ):
        with pytest.raises(ValueError, match="ids of questions must each come once; got 'q' twice"):
            ask()


def test_dense_is_not_the_entropy_of_clusters_where_agreement_is_not_transitive():
    agreement = np.array([[1, 0.9, 0.1], [0.9, 1, 0.9], [0.1, 0.9, 1]])
    found = asked.measures(agreement, np.array([-1.0, -1.0, -1.0]))
    assert found["dense"] == pytest.approx(2 * np.log(3 / 2) / 3)
    assert found["discrete_semantic_entropy"] > found["dense"] + 0.3


def test_one_way_entailment_is_half_a_link_and_no_cluster():
    found = asked.measures(np.array([[1, 0.9], [0.2, 1]]), np.array([-1.0, -1.0]))
    assert found["dense"] == pytest.approx(np.log(2 / 1.5))
    assert found["discrete_semantic_entropy"] == pytest.approx(np.log(2))
