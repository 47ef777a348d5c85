"""What lists are worth: as much as a run says of its list, whoever else is asked; and lists made of lists."""

import numpy as np
import pytest
import tiny_run
from tiny_run import Finder
from tiny_samples import Shares

from rag_utils.data import Passage
from rag_utils.score import lists as made
from rag_utils.score import run, scores
from rag_utils.score.lists import cut, found_again, reranked, worth


@pytest.fixture(autouse=True)
def judge(monkeypatch):
    for module in (scores, made):
        monkeypatch.setattr(module, "load_judge", lambda profile, **how: Shares())


def test_a_list_is_worth_what_a_run_of_it_says():
    records = tiny_run.records()
    rows = worth({"all": records, "two": cut(records, 2)}, reader=Finder(), mode="fresh")
    whole = run(records, measures=["seper"], reader=Finder(), mode="fresh").questions.set_index("id")
    for name, own in rows.groupby("list"):
        by_id = own.set_index("question")
        if name == "all":
            assert np.allclose(by_id["seper"], whole["seper_list"][by_id.index])
            assert by_id["right"].tolist() == whole["right_with_list"][by_id.index].tolist()
        assert by_id["right_before"].tolist() == whole["right_before"][by_id.index].tolist()
    assert len(rows) == 2 * len(records) and rows["seper"].between(-1, 1).all() and (rows["confidence"] < 0).all()
    longer = rows.pivot(index="question", columns="list", values="tokens")
    assert (longer["all"] > longer["two"]).all()


def test_the_likeliest_passage_comes_first():
    reader, records = Finder(), tiny_run.records()
    order = reranked(records, reader=reader)
    asked = list(reader.scored)
    likely = dict(zip(asked, reader.log_likelihood(*zip(*asked, strict=True)), strict=True))
    for before, after in zip(records, order, strict=True):
        assert {p.id for p in before.passages} == {p.id for p in after.passages}
        nats = {
            passage.id: next(value.sum() for (context, _), value in likely.items() if passage.text in context)
            for passage in after.passages
        }
        values = [nats[passage.id] for passage in after.passages]
        assert values == sorted(values, reverse=True)


def test_another_round_searches_with_the_reply():
    searched = {}

    def search(texts):
        searched.update(texts)
        return {name: [Passage("p", "", text)] for name, text in texts.items()}

    records, reader = tiny_run.records(), Finder()
    again = found_again(records, search, reader=reader)
    for record, new in zip(records, again, strict=True):
        assert searched[record.id].startswith(f"{record.question} ") and len(searched[record.id]) > len(record.question) + 1
        assert [passage.text for passage in new.passages] == [searched[record.id]] and new.answers == record.answers


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda records: {}, "lists"),
        (lambda records: {"closed book": records}, "closed book"),
        (lambda records: {"a": [records[0].model_copy(update={"answers": []})]}, "no answers"),
        (lambda records: {"a": records, "b": [records[0].model_copy(update={"question": "Who?"})]}, "different things"),
        (lambda records: {"a": cut(records, 0)}, "k must"),
    ],
)
def test_lists_that_cannot_be_compared_are_refused(change, said):
    with pytest.raises(ValueError, match=said):
        worth(change(tiny_run.records()), reader=Finder())


def test_a_reader_that_gives_no_likelihoods_is_refused_by_name():
    reader = Finder()
    reader.scores_replies = reader.scores_prompts = False
    with pytest.raises(ValueError, match="seper need log-likelihoods of replies"):
        worth({"all": tiny_run.records()}, reader=reader)
    with pytest.raises(ValueError, match="moi needs log-likelihoods of prompts"):
        reranked(tiny_run.records(), reader=reader)
