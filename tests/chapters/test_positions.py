"""Orders of passages: what is asked of a tiny reader."""

from itertools import permutations as every_order

import numpy as np
import pytest
import tiny

from experiments.moi_position import permutations, position_fits, positions
from rag_utils import lm
from rag_utils.data import Passage, Question
from rag_utils.engine import weights
from rag_utils.prompts import Prompt

READ = Prompt("read", "$documents\nQ: $question\nA:", chat=False)
PASSAGES = [Passage(name, "title", text) for name, text in (("a", "one"), ("b", "two two"), ("c", "three"))]
QUESTION = Question(id="q1", text="which?", answers=("two",), dataset="companion", gold=(PASSAGES[1],))
SHOWN = {"q1": tuple(PASSAGES)}


@pytest.fixture
def reader(tmp_path):
    profile = tiny.llama(tmp_path)
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


def test_both_factors_are_those_of_the_text(reader):
    table = positions.saliencies(reader, [QUESTION], SHOWN, {"set": {"q1": [[2, 0], [0, 2]]}}, prompt=READ)
    text = ("Document: three\n", "Document: one\n")
    [asked] = reader.log_likelihood(["".join(text) + "Q:"], [" which?"])
    first, second = reader.log_likelihood(["", text[0]], list(text))
    assert table["order"].tolist() == ["2-0", "0-2"]
    assert table["query"][0] == pytest.approx(asked.sum())
    assert table["passages"][0] == pytest.approx(first.sum() + second.sum())
    assert table["information"][0] == pytest.approx((np.exp(asked) * asked).sum())
    alone = reader.log_likelihood(["", ""], list(text))
    assert table["passages"][0] != pytest.approx(sum(map(np.sum, alone)))  # each alone is another quantity
    without = positions.saliencies(reader, [QUESTION], SHOWN, {"set": {"q1": [[2, 0]]}}, prompt=READ, prior=False)
    assert without["passages"].isna().all() and without["query"][0] == table["query"][0]


def test_a_prompt_with_the_question_first_is_refused():
    with pytest.raises(ValueError, match="documents before"):
        positions.question_context(Prompt("x", "$question\n$documents\n", chat=False), PASSAGES)


def test_answers_by_order_and_votes(reader):
    sets = {"cyclic": {"q1": [[0, 1, 2], [1, 2, 0], [2, 0, 1]]}}
    table = positions.answered(reader, [QUESTION], SHOWN, sets, prompt=READ, max_new_tokens=3)
    prompt = READ.fill(question="which?", documents=["two two", "three", "one"])
    assert table["reply"][1] == reader.generate([prompt], max_new_tokens=3)[0][0].text.strip()
    assert table["gold"].tolist() == [1 / 2, 1.0, 1 / 3]
    table["reply"] = ["No", "Two", "two."]
    [vote] = positions.votes(table, [QUESTION]).to_dict("records")
    assert vote["reply"] == "Two" and vote["exact_match"] == 1.0
    table["reply"] = ["one", "two", "three"]  # a tie: the first
    assert positions.votes(table, [QUESTION])["exact_match"].tolist() == [0.0]


def test_sequential_choice_is_the_greedy_one(reader):
    [order] = positions.sequential(reader, [QUESTION], SHOWN, prompt=READ)["q1"]
    every = {"set": {"q1": [list(some) for k in (1, 2) for some in every_order(range(3), k)]}}
    table = positions.saliencies(reader, [QUESTION], SHOWN, every, prompt=READ).set_index("order")
    score = table["query"] + table["passages"]
    assert order[0] == int(score[["0", "1", "2"]].idxmax())
    rest = [f"{order[0]}-{place}" for place in range(3) if place != order[0]]
    assert permutations.label(order[:2]) == score[rest].idxmax() and sorted(order) == [0, 1, 2]


def test_listwise_ranks_in_the_retrievers_numbers(reader, monkeypatch):
    asked = []

    def generate(prompts, **options):
        asked.extend(prompts)
        return [[lm.Generation("[2] > [3]", (1,), np.array([-1.0]))] for _ in prompts]

    monkeypatch.setattr(reader, "generate", generate)
    prompt = Prompt("rank", "$question\n$passages", chat=False)
    orders = {"q1": [[0, 1, 2], [2, 0, 1]]}
    table = positions.listwise(reader, [QUESTION], SHOWN, orders, prompt=prompt)
    assert asked[1] == "which?\n[1] three\n[2] one\n[3] two two"
    assert table["order"].tolist() == ["1-2-0", "0-1-2"]
    assert table["missing"].tolist() == [1, 1] and not table["repeated"].any()


def test_first_tokens_and_their_distances(reader):
    orders = {"q1": [[0, 1, 2], [0, 2, 1], [1, 0, 2]]}
    found = positions.first_tokens(reader, [QUESTION], SHOWN, orders, {"q1": ["two", "three"]}, prompt=READ)["q1"]
    assert found.shape == (3, 2)  # both begin with a space, one byte
    assert found.sum(axis=1) == pytest.approx(np.ones(3))
    table = position_fits.distances({"q1": found}, orders)
    assert table["same_first"].tolist() == [True, False, False]
    assert table["distance"].between(0, 2).all()
    assert table["distance"][0] == pytest.approx(2 * abs(found[1, 0] - found[0, 0]))
