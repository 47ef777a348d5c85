"""A plan of a chapter: what its own code asks of a stand-in, counted; nothing is recorded, and what replies decide is an upper bound."""

import json
import math
import os
import subprocess
import sys

import nbformat
import pytest
import tiny
from bs4 import BeautifulSoup

from book import results
from rag_utils import judge, lm, retrieve
from rag_utils.engine import recordings
from rag_utils.engine.profiles import PROFILES, Profile
from rag_utils.page import chapters
from rag_utils.score import foreseen, stand_in

CHAPTER = """
from rag_utils import lm
from rag_utils.judge import load_judge
reader = lm.load(profile, mode=mode, chapter="03_planned")
greedy = reader.generate([f"question {i}?" for i in range(count)], max_new_tokens=4, stop=())
drawn = reader.generate(["one", "two"], n=3, temperature=1.0, max_new_tokens=4, stop=())
scored = reader.log_likelihood(["a", "a", "b"], [" x", " yy", " x"])
again = reader.generate([f"question {i}?" for i in range(count)], max_new_tokens=4, stop=())
"""
DECIDED = """
more = [reply.text for [reply] in greedy]
if len(set(more)) > 1:
    reader.generate(["only if replies differ"], max_new_tokens=9, stop=())
"""
JUDGED = """
load_judge("quick").equivalent(["q", "q"], ["left", "same"], ["right", "same"])
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A chapter that asks a small reader; a function that plans it, in this process."""
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setattr(chapters, "SOURCES", tmp_path / "notebooks")
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    monkeypatch.setattr(recordings, "TRACKED", tmp_path / "tracked")
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    for of, name in ((lm, "load"), (retrieve, "encoder"), (judge.EmbeddedJudge, "equivalent"),
                     (judge.NliJudge, "equivalent"), (judge.NliJudge, "entailment")):  # fmt: skip
        monkeypatch.setattr(of, name, getattr(of, name))  # so that they are put back
    folder = tiny.llama(tmp_path / "reader").reader

    def planned(*codes, mode="fresh"):
        parameters = nbformat.v4.new_code_cell(f'profile = "{folder}"\nmode = "replay"\ncount = 1')
        parameters.metadata["tags"] = ["parameters"]
        cells = [parameters, *map(nbformat.v4.new_code_cell, codes)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "notebooks/03_planned.ipynb")
        notes = stand_in.Notes(once=mode != "fresh", kept=mode == "live")
        seen = json.dumps(stand_in.observed("03_planned", {"count": 5}, notes))  # as it goes from process to process
        return foreseen.made(json.loads(seen), mode=mode)

    return planned


def test_a_plan_counts_what_the_chapter_asks_and_keeps_nothing(book, tmp_path):
    made = book(CHAPTER)
    calls = made.calls
    assert calls["prompts"].to_dict() == {"reader, replies, 4": 10, "reader, samples, 4": 2, "reader, likelihoods, 0": 3, "page": 0}
    assert calls["replies"].tolist() == [10, 6, 0, 0] and calls["said"].tolist() == [40, 24, 0, 0]
    reader = lm.load(str(tmp_path / "reader"))
    assert calls["tokens"].iloc[0] == 2 * sum(reader.count_tokens(f"question {i}?") for i in range(5))
    assert calls["distinct"].iloc[0] == 2 * (len("question ") + 5 * 2) + 2 * (reader.count_tokens("x") - 1)
    assert not calls["at_most"].any() and made.stopped == () and made.minutes > 0
    assert 0.05 < made.gigabytes < 50 and made.disk == 0 and made.card is None and 0 < made.weights < 0.01
    assert not (tmp_path / "cache" / "recordings").exists()


def test_a_live_run_pays_each_call_once_and_none_that_is_recorded(book, tmp_path):
    lm.load(str(tmp_path / "reader"), mode="live").generate(["question 0?", "question 1?"], max_new_tokens=4, stop=())
    was = (tmp_path / "cache/recordings/calls.sqlite").read_bytes()
    made = book(CHAPTER, mode="live")
    assert made.calls["replies"].tolist() == [3, 6, 0, 0] and made.calls["recorded"].tolist() == [2, 0, 0, 0]
    assert 0 < made.disk < 1e-4 and (tmp_path / "cache/recordings/calls.sqlite").read_bytes() == was
    empty = book(CHAPTER, mode="empty")  # each call once too, as if none were recorded
    assert empty.calls["replies"].tolist() == [5, 6, 0, 0] and empty.calls["recorded"].sum() == 0 and empty.disk > made.disk


def test_what_replies_decide_is_an_upper_bound_and_marked(book):
    made = book(CHAPTER, DECIDED)
    assert made.calls["at_most"].to_dict() == {
        "reader, replies, 4": False,
        "reader, samples, 4": False,
        "reader, likelihoods, 0": False,
        "reader, replies, 9": True,
        "page": False,
    }
    assert made.calls.loc["reader, replies, 9", "replies"] == 1
    assert "at most" in str(made) and "at most" not in str(book(CHAPTER))


def test_what_is_recorded_is_what_the_stand_in_replies(book, tmp_path):
    """Then nothing is left to guess, nor to bound: what replies decide is what it was."""
    live, how = lm.load(str(tmp_path / "reader"), mode="live"), {"max_new_tokens": 4, "stop": ()}
    greedy = [reply.text for [reply] in live.generate([f"question {i}?" for i in range(5)], **how)]
    some = book(CHAPTER, DECIDED, JUDGED, mode="empty").calls
    assert some.loc["EmbeddedJudge, judgements, 0", "at_most"]  # the samples are not known
    live.generate(["one", "two"], n=3, temperature=1.0, **how)
    live.generate(["only if replies differ"], max_new_tokens=9, stop=())
    live.close()
    every = book(CHAPTER, DECIDED, JUDGED, mode="empty").calls
    assert not every["at_most"].any() and every["recorded"].sum() == 0
    assert len(set(greedy)) > 1 and every.loc["reader, replies, 9", "replies"] == 1
    assert every["replies"].tolist()[:2] == [5, 6] and every["said"].tolist()[:2] == [20, 24]


def test_a_cell_that_words_without_meaning_stop_is_named_and_the_others_are_asked(book):
    made = book("1 / 0", CHAPTER)
    assert made.stopped == ("cell 2: ZeroDivisionError: division by zero",) and made.calls["replies"].iloc[0] == 10
    assert "cell 2: ZeroDivisionError" in str(made)


def test_cells_that_want_absent_texts_are_told_from_those_that_stand_on_them(book):
    absent = "from rag_utils.data import DataError\nraise DataError('data set nq is not here')"
    said = str(book(absent, "rows = pool", "1 / 0", CHAPTER))
    want, nothing = said.index("cells that want texts which are not here"), said.index("cells that words without meaning stopped")
    assert want < said.index("cell 2: DataError: data set nq is not here") < nothing < said.index("cell 4: ZeroDivisionError")
    assert "not here (and 1 more that stand on them);" in said and "cell 3" not in said
    assert "cell 2: NameError" in str(book("rows = pool"))


def test_the_judge_is_counted_and_embeds_nothing_that_is_kept(book, tmp_path):
    made = book(CHAPTER, JUDGED)
    row = made.calls.loc["EmbeddedJudge, judgements, 0"]
    assert row["prompts"] == 1 and row["at_most"] and row["minutes"] > 0
    assert not (tmp_path / "cache" / "embeddings.sqlite").exists()


def test_texts_that_somebody_said_are_judged_and_made_up_ones_compared():
    notes, questions = stand_in.Notes(), ["who wrote Hamlet"] * 3
    left = ["Shakespeare", "Marlowe", f"{stand_in.MARK} the"]
    right = ["It was William Shakespeare", "Shakespeare", f"the {stand_in.MARK}"]
    verdicts = stand_in.Opinions(notes).equivalent(judge.EmbeddedJudge(), questions, left, right)
    assert (verdicts > judge.THRESHOLD).tolist() == [True, False, True] and 0 < verdicts[1] < verdicts[0] < 1 == verdicts[2]
    assert notes.kinds["EmbeddedJudge, judgements, 0"].prompts == 3


def test_a_reader_that_judges_is_counted_apart(book, tmp_path, monkeypatch):
    small = Profile(name="small", reader=str(tmp_path / "reader"), judge="small")
    monkeypatch.setitem(PROFILES, "small", small)
    calls = book(CHAPTER, 'load_judge("small").equivalent(["q"], ["left"], ["right"])').calls
    assert calls.loc["reader, likelihoods, 0", "prompts"] == 3  # as without it
    assert calls.loc["reader that judges, likelihoods, 0", "prompts"] == 4  # two orders, two words


def test_minutes_follow_from_tokens_and_the_larger_stand_in_counts():
    kind = {"prompts": 10, "replies": 10, "tokens": 900, "distinct": 600, "said": 60.0, "recorded": 0}
    cost = {"reading": 0.1, "saying": 1.0, "length": 6, "variety": 1, "size": 100, "tried": math.inf}
    fewer = kind | {"prompts": 4, "replies": 4, "distinct": 200, "said": 24.0}
    seen = {"each": {"m, replies, 24": kind | cost}, "alike": {"m, replies, 24": fewer | cost}, "page": 30.0}
    seen |= {"stopped": [], "gigabytes": 2.0, "card": None, "weights": 0.5}
    for swapped in (seen, seen | {"each": seen["alike"], "alike": seen["each"]}):
        made = foreseen.made(swapped, mode="live")
        assert made.calls["minutes"].tolist() == [2.0, 0.5] and made.minutes == 2.5
        assert made.calls["at_most"].tolist() == [True, False] and made.disk == pytest.approx(1e-6)
    assert not foreseen.made(seen | {"alike": seen["each"]}, mode="fresh").calls["at_most"].any()


def test_more_calls_of_a_kind_are_tried_again_until_a_batch_is_full():
    kind = stand_in.Kind()
    assert kind.is_to_be_tried(3)
    kind.tried = 100
    assert not kind.is_to_be_tried(199) and kind.is_to_be_tried(200)
    kind.tried = math.inf
    assert not kind.is_to_be_tried(10**9)


def test_a_chapter_without_a_reader_is_planned_by_the_command():
    command = [sys.executable, "-c", "from rag_utils.score.command import main; main()", "plan", "12_errata", "--mode", "fresh"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "page" in done.stdout and "GB of memory" in done.stdout and "stopped" not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["11_reader", "--profile", "laptop"], "no plan of 11_reader: profile 'laptop' needs Qwen/Qwen2.5-1.5B-Instruct"),
        (["11_reader", "--profile", "lptop"], "parameter profile of 11_reader: unknown profile 'lptop'; did you mean 'laptop'"),
        (["11_reader", "--mode", "replay"], "unknown mode of a plan 'replay'"),
    ],
)
def test_what_cannot_be_planned_is_said_in_a_sentence(words, said, tmp_path):
    command = [sys.executable, "-c", "from rag_utils.score.command import main; main()", "plan", *words]
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=offline)
    assert done.returncode == 1 and f"rag-companion: {said}" in done.stderr and "Traceback" not in done.stderr


def test_ones_own_profiles_are_known_to_a_plan(tmp_path, monkeypatch):
    """They lie in the folder where the command is given, and the chapter is planned in another one."""
    (tmp_path / "profiles.toml").write_text(f'[mine]\nreader = "{tiny.llama(tmp_path / "reader").reader}"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    told = str(foreseen.plan("11_reader", {"profile": "mine"}))
    assert "unknown profile" not in told


def test_the_page_shows_every_run_and_marks_what_was_not_measured(tmp_path, monkeypatch):
    planned = {"prompts": 1234, "distinct": 5678, "minutes": 2.34, "gigabytes": 1.96, "at_most": True}
    run = {"chapter": "01_x", "profile": "mine", "mode": "live", "parameters": {"questions": 40}, "planned": planned}
    measured = run | {"real": {"minutes": 1.96, "gigabytes": 2.04}, "planned": planned | {"at_most": False}}
    (tmp_path / "benchmarks").mkdir()
    stored = {"machine": "One core.", "runs": [run | {"real": None}, measured]}
    (tmp_path / "benchmarks/plans.json").write_text(json.dumps(stored))
    monkeypatch.setattr(results, "ROOT", tmp_path)
    html = results.plans_html()
    rows = [[cell.get_text() for cell in row.find_all("td")] for row in BeautifulSoup(html, "html.parser").tbody.find_all("tr")]
    first = ["01_x", "mine", "live; questions = 40", "1,234", "5,678"]
    assert rows == [
        [*first, "at most 2.3", "not run", "2.0", "not run"],
        [*first, "2.3", "2.0", "2.0", "2.0"],
    ]
    assert "<p>One core.</p>" in html and '<td data-label="minutes, measured">not run</td>' in html


def test_the_page_shows_what_each_chapter_takes_by_profile(tmp_path, monkeypatch):
    row = {"chapter": "01_x", "prompts": 1234, "distinct": 900_000, "said": 100_000, "minutes": 18.2, "gigabytes": 4.12}
    larger = {"name": "laptop", "gigabytes": 3.08, "minutes_a_million": 17.0}
    (tmp_path / "benchmarks").mkdir()
    rows = [row | {"at_most": False, "judging": 0}, row | {"chapter": "02_x", "at_most": True, "judging": 400_000}]
    stored = {"machine": "One core.", "profiles": [larger], "chapters": rows}
    (tmp_path / "benchmarks/chapters.json").write_text(json.dumps(stored))
    monkeypatch.setattr(results, "ROOT", tmp_path)
    shown = BeautifulSoup(results.chapters_html(), "html.parser")
    assert [cell.get_text() for cell in shown.find_all("th")][4:] == ["tokens said", "embedded (planned)", "laptop (estimated)"]
    cells = [[cell.get_text() for cell in each.find_all("td")] for each in shown.tbody.find_all("tr")]
    assert cells[0] == ["01_x", "1,234", "900,000", "0", "100,000", "18 min, 4.1 GB", "17 min, 3 GB"]
    assert cells[1][0] == "02_x, at most" and cells[1][5:] == ["18 min, 4.1 GB", "10 min, 3 GB"]  # without what the embedded reader judges


def test_what_was_planned_and_measured_is_told_as_it_is_kept():
    stored = json.loads((chapters.ROOT / "benchmarks/plans.json").read_text())
    assert sum(run["real"] is not None for run in stored["runs"]) >= 3
    for run in stored["runs"]:
        assert run["chapter"] in chapters.names() and set(run["parameters"]) <= set(chapters.parameters(run["chapter"]))
