"""The tables of the findings on a few questions of the corpus, by a reader that finds what stands in its prompt."""

from types import SimpleNamespace

import pytest
from tiny_run import Finder
from tiny_samples import Shares

from experiments import asking, benchmarks
from experiments.seper_findings import lent, lists
from experiments.table import text_of
from rag_utils import retrieve
from rag_utils.score import lists as made

PROMPTS = {"closed": "closed_plain", "read": "read_plain"}
ON = {"mode": "fresh", "profile": "finder", "dataset": "companion", "questions": 6}


class Orderer(Finder):
    """Finds answers; asked for an order it names the third passage first."""

    def generate(self, prompts, **options):
        said = super().generate(prompts, **options)
        third = [[type(own[0])("[3]", (1,), own[0].token_log_likelihood)] for own in said]
        return [new if "Rank the passages" in prompt else own for prompt, own, new in zip(prompts, said, third, strict=True)]


@pytest.fixture(autouse=True)
def readers(monkeypatch):
    reader = Orderer([answer for question in benchmarks.load("companion", 6).questions for answer in question.answers])
    reader.profile = SimpleNamespace(name="finder")
    monkeypatch.setattr(asking, "reader", lambda profile, mode, chapter=None: reader)
    monkeypatch.setattr(asking, "judge", lambda profile, **how: Shares())
    monkeypatch.setattr(made, "load_judge", lambda profile, **how: Shares())
    return reader


def test_lists_are_cut_reranked_and_found_again():
    rows, facts = lists.lists(prompts=PROMPTS, ways=["BM25", "reranked", "again"], seed=0, **ON)
    names = ["BM25 1", "BM25 5", "BM25 10", "reranked 1", "reranked 5", "round 2", "round 3"]
    assert set(rows["condition"]) == set(names) and len(rows) == 6 * len(names) and facts["questions"] == 6
    held = rows.pivot(index="id", columns="condition", values="recall")
    assert (held["BM25 10"] >= held["BM25 5"]).all() and (held["BM25 5"] >= held["BM25 1"]).all()
    text_of("lists", rows)  # may be kept
    part, _ = lists.lists(prompts=PROMPTS, ways=["BM25 5"], seed=0, **ON, few=2)
    whole = rows[rows["condition"] == "BM25 5"].set_index("id")
    assert part["seper"].tolist() == pytest.approx(whole.loc[part["id"], "seper"].tolist())


def test_a_list_in_words_moves_what_is_named(readers):
    asked = {"order": "moi_listwise.chat"} | PROMPTS
    rows, facts = lists.in_words(prompts=asked, asker="finder", seed=0, **ON)
    assert set(rows["condition"]) == {"listwise 1", "listwise 5"} and (rows["moved"] == 3).all()  # 3-1-2-4-...
    plain, _ = lists.lists(prompts=PROMPTS, ways=["BM25 5"], seed=0, **ON)
    five = rows[rows["condition"] == "listwise 5"]
    assert five["recall"].tolist() == plain["recall"].tolist()  # the same five in another order
    assert facts["fingerprints"] == {"finder": readers.fingerprint}


def test_a_wrong_reply_is_traced_to_its_passage():
    rows, _ = lent.replies(prompts=PROMPTS, k=3, **ON)
    assert rows["condition"].tolist() == ["none", "1", "2", "3", "all"] * 6
    text_of("lent", rows)
    assert (rows.loc[rows["condition"] == "none", ["held", "gold", "said_before"]].to_numpy() == [0, 0, 1]).all()
    chosen = benchmarks.load("companion", 6)
    run = retrieve.bm25(chosen.questions, chosen.pool, k=3)
    for question in chosen.questions:
        own = rows[rows["id"] == question.id].set_index("condition")["gold"]
        names = retrieve.ranking(run[question.id])
        assert own[["1", "2", "3"]].tolist() == [int(name in {p.id for p in question.gold}) for name in names]
    lends = rows[(rows["held"] == 1) & (rows["condition"] != "all")]
    assert len(lends) and lends["right"].any()  # this reader says what it finds


@pytest.mark.parametrize(
    ("reply", "holds"), [("In 1829.", 1), ("1031", 1), ("0931", 0), ("2131", 0), ("1829a", 0), ("12 of 1999", 1), ("18291", 0)]
)
def test_what_is_a_year(reply, holds):
    assert bool(lent.YEAR.search(reply)) == bool(holds)
