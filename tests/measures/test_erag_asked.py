"""eRAG asked of a reader: the batched way is the taught one, question by question; what is evidence; metrics of the first k."""

from types import SimpleNamespace
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_utils import erag, lm
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.measures import erag as measure
from rag_utils.prompts import Prompt, prompt_text
from rag_utils.retrieve import ranking

READ = Prompt("read", "$documents\n$question", chat=False)
WORDS = ("alpha", "beta", "two", "no idea", "the alpha beta")
TEXTS = {"a": "one alpha", "b": "two beta", "c": "three gamma", "copy of a": "one alpha"}
PASSAGES = {name: Passage(name, "title", text) for name, text in TEXTS.items()}
QUESTIONS = [
    Question(id="q1", text="which letter", answers=("alpha",), dataset="companion", gold=(PASSAGES["a"],)),
    Question(id="q2", text="which number", answers=("two",), dataset="companion", gold=(PASSAGES["b"],)),
]
RUNS = {
    "BM25": {"q1": {"a": 2.0, "b": 1.0}, "q2": {"a": 1.0, "b": 2.0}},
    "dense": {"q1": {"c": 2.0, "a": 1.0}, "q2": {"c": 3.0, "b": 2.0}},
}
KEY = ["id", "condition", "rank"]


class Toy:
    """Replies with one of WORDS, chosen by the prompt, the temperature and the seed, and keeps what it was asked."""

    def __init__(self):
        self.calls = []

    def reply(self, prompt, temperature=0.0, seed=0):
        return f" {WORDS[crc32(f'{prompt}|{temperature}|{seed * bool(temperature)}'.encode()) % len(WORDS)]} "

    def generate(self, prompts, *, max_new_tokens, temperature=0.0, seed=0):
        self.calls.append(list(prompts))
        return [[SimpleNamespace(text=self.reply(prompt, temperature, seed))] for prompt in prompts]


@st.composite
def tasks(draw):
    """Questions of which some have one text, and lists of which some are empty or hold two passages of one text."""
    texts = draw(st.lists(st.sampled_from(("which letter", "which number")), min_size=1, max_size=4))
    answers = st.lists(st.sampled_from(("alpha", "two", "beta alpha")), min_size=1, max_size=2).map(tuple)
    questions = [
        Question(id=f"q{i}", text=text, answers=draw(answers), dataset="companion") for i, text in enumerate(texts)
    ]
    scores = st.dictionaries(st.sampled_from(sorted(TEXTS)), st.sampled_from((0.5, 1.0, 2.0)))
    runs = {name: {question.id: draw(scores) for question in questions} for name in ("BM25", "dense")}
    return questions, runs


@settings(max_examples=40, deadline=None)
@given(tasks(), st.randoms(use_true_random=False))
def test_the_batched_way_is_the_taught_one_question_by_question(task, random):
    questions, runs = task
    toy = Toy()
    table = measure.ask(toy, questions, runs, PASSAGES, prompt=READ, again=3)
    rows = []
    for name, run in runs.items():
        for question in questions:
            documents = ranking(run[question.id])
            texts = [TEXTS[document] for document in documents]

            def label(score, *sample, question=question, texts=texts):
                return erag.annotate(
                    [question.text],
                    [texts],
                    [question.answers],
                    generate=lambda prompts: [toy.reply(prompt, *sample).strip() for prompt in prompts],
                    score=measure.SCORES[score],
                    prompt=lambda *pair: f"Document: {pair[1]}\n{pair[0]}",
                )[0]

            for rank, document in enumerate(documents, 1):
                row = {"id": question.id, "condition": name, "rank": rank, "document": document}
                whole = toy.reply(prompt_text(toy, READ, question, texts[:rank])).strip()
                for score, value in measure.SCORES.items():
                    row[f"erag_{score}"] = label(score)[rank - 1]
                    row[f"again_{score}"] = label(score, 1.0, 3)[rank - 1]
                    row[f"whole_{score}"] = value(whole, question.answers)
                rows.append(row)
    assert len(table) == len(rows)
    if rows:
        pd.testing.assert_frame_equal(table[list(rows[0])], pd.DataFrame(rows))
        assert len(toy.calls) == 2 and all(len(set(call)) == len(call) for call in toy.calls)
        mixed = measure.ask(toy, random.sample(questions, len(questions)), runs, PASSAGES, prompt=READ, again=3)
        pd.testing.assert_frame_equal(
            mixed.sort_values(KEY, ignore_index=True), table.sort_values(KEY, ignore_index=True)
        )


def test_one_call_asks_each_document_alone_and_each_beginning_of_the_list():
    toy = Toy()
    table = measure.ask(toy, QUESTIONS, RUNS, PASSAGES, prompt=READ, again=0)
    assert table[[*KEY, "document"]].values.tolist() == [
        ["q1", "BM25", 1, "a"],
        ["q1", "BM25", 2, "b"],
        ["q2", "BM25", 1, "b"],
        ["q2", "BM25", 2, "a"],
        ["q1", "dense", 1, "c"],
        ["q1", "dense", 2, "a"],
        ["q2", "dense", 1, "c"],
        ["q2", "dense", 2, "b"],
    ]
    assert table["answer"].tolist() == table["provenance"].tolist() == [1, 0, 1, 0, 0, 1, 0, 1]
    greedy, sampled = toy.calls
    assert len(greedy) == 6 + 4 and sampled == greedy[:6]  # 6 distinct pairs, and the 4 beginnings that are longer
    assert greedy[9] == "Document: three gamma\nDocument: two beta\nwhich number"
    assert not [column for column in measure.ask(toy, QUESTIONS, RUNS, PASSAGES, prompt=READ) if "again" in column]
    with pytest.raises(ValueError, match="ids of questions must each come once; got 'q1' twice"):
        measure.ask(toy, [QUESTIONS[0]] * 2, RUNS, PASSAGES, prompt=READ)
    by_title = {f"title of {name}": passage for name, passage in PASSAGES.items()}
    with pytest.raises(ValueError, match="passages must be by keys such as 'a'; got 'title of a'"):
        measure.ask(toy, QUESTIONS, RUNS, by_title, prompt=READ)
    with pytest.raises(ValueError, match="the run of BM25 must be by keys such as 'q2'; got 'q1'"):
        measure.ask(toy, QUESTIONS, {"BM25": {"q1": RUNS["BM25"]["q1"]}}, PASSAGES, prompt=READ)


def test_a_title_is_no_evidence_since_it_is_not_shown():
    toy, titled = Toy(), Passage("t", "The alpha", "a letter of the Greeks")
    table = measure.ask(toy, QUESTIONS[:1], {"BM25": {"q1": {"t": 1.0}}}, {"t": titled}, prompt=READ)
    assert table["answer"].tolist() == [0.0]
    assert not [text for call in toy.calls for text in call if "alpha" in text]


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def test_relevance_is_yes_against_no(reader):
    table = measure.ask(reader, QUESTIONS, RUNS, PASSAGES, prompt=READ, max_new_tokens=3)
    label = measure.relevance(reader, table, QUESTIONS, PASSAGES, READ)
    assert label.shape == (8,)
    for row, value in zip(table.itertuples(), label, strict=True):
        question = {q.id: q.text for q in QUESTIONS}[row.id]
        yes, no = reader.log_likelihood([f"Document: {TEXTS[row.document]}\n{question}"] * 2, ["Yes", "No"])
        assert value == float(yes.sum() > no.sum())


@st.composite
def labelled(draw):
    """A table of one retriever with lists of one to four labels, binary or not."""
    label = draw(st.sampled_from((st.sampled_from((0.0, 1.0)), st.sampled_from((0.0, 0.25, 1.0)))))
    lists = draw(st.lists(st.lists(label, min_size=1, max_size=4), min_size=1, max_size=5))
    return pd.DataFrame(
        {"id": f"q{i}", "condition": "BM25", "rank": rank, "answer": value}
        for i, labels in enumerate(lists)
        for rank, value in enumerate(labels, 1)
    )


@given(labelled(), st.integers(1, 4), st.integers(0, 9))
def test_metrics_of_the_first_k_are_those_of_each_list(table, k, seed):
    if k > table["rank"].max():
        with pytest.raises(ValueError, match=f"k = {k}, but the longest list holds"):
            measure.per_question(table, "answer", k=k)
        return
    measured = measure.per_question(table.sample(frac=1, random_state=seed), "answer", k=k).set_index("id")
    binary = table.loc[table["rank"] <= k, "answer"].isin((0, 1)).all()
    assert set(measured) == {"condition", *(erag.METRICS if binary else erag.OF_SCORES)}
    for name, labels in table.groupby("id")["answer"]:
        metrics = {
            metric: f"{metric}@{k}" if erag.METRICS[metric] else metric for metric in measured if metric != "condition"
        }
        values = erag.rank_metrics(labels.tolist()[:k], list(metrics.values()))
        assert measured.loc[name, list(metrics)].tolist() == pytest.approx([values[full] for full in metrics.values()])


def test_metrics_and_the_end_by_hand():
    rows = [("q0", [0, 1, 0, 1], [0, 0, 1, 1]), ("q1", [1, 0], [1, 0])]
    table = pd.DataFrame(
        {"id": name, "condition": "BM25", "rank": rank, "answer": label, "whole_exact_match": whole}
        for name, labels, wholes in rows
        for rank, (label, whole) in enumerate(zip(labels, wholes, strict=True), 1)
    )
    four = measure.per_question(table, "answer", k=4).set_index("id")
    assert four.loc["q0", ["AP", "RR", "P", "R", "Success"]].tolist() == [0.5, 0.5, 0.5, 1.0, 1.0]
    assert four.loc["q1", "P"] == 0.25  # a shorter list goes on with labels of 0
    assert measure.end_to_end(table, "exact_match", k=3).to_dict() == {("q0", "BM25"): 1, ("q1", "BM25"): 0}
    assert measure.end_to_end(table, "exact_match", k=1).tolist() == [0, 1]
    with pytest.raises(ValueError, match="unknown column 'anser'"):
        measure.per_question(table, "anser", k=1)
    with pytest.raises(ValueError, match="unknown score 'exactmatch'"):
        measure.end_to_end(table, "exactmatch", k=1)
    assert np.isclose(four.loc["q0", "nDCG"], (1 / np.log2(3) + 1 / np.log2(5)) / (1 + 1 / np.log2(3)))


def test_lists_come_in_the_order_of_the_table_on_every_processor():
    """Equal ranks are in no order of their own; a sort that is not stable puts them in one that depends on the processor."""
    names = [f"q{i:03}" for i in range(300)]
    table = pd.DataFrame({"id": name, "condition": "BM25", "rank": rank, "answer": 1} for name in names for rank in (1, 2))
    assert measure.per_question(table, "answer", k=2)["id"].tolist() == names
