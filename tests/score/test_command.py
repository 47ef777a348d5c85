"""The command: what it prints and writes, what it refuses, a plan that comes true, and a run that was killed and goes on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
import tiny_run
from typer.testing import CliRunner

from rag_utils import lm
from rag_utils.engine.store import Store
from rag_utils.score import Scores, command, measured, read, run
from rag_utils.score.cli import app
from rag_utils.score.measured import Settings
from rag_utils.score.plan import Noted, calibrated, plan

SHAPE = {"max_position_embeddings": 4096}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random reader's weights."""
    return tiny.llama(tmp_path_factory.mktemp("reader"), shape=SHAPE).reader


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A run as a file, and a cache folder of its own."""
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tiny_run.lines(tmp_path / "run.jsonl", tiny_run.rows())


def invoke(*words):
    return CliRunner().invoke(app, ["score", *map(str, words)], catch_exceptions=False)


def test_a_run_is_scored_and_reported(here, folder):
    done = invoke(here, "--reader", folder, "--measures", "erag, seper-shares", "--top", 3)
    assert done.exit_code == 0 and "eRAG P@3" in done.stdout and "run_scores/report.html" in done.stdout
    made = Scores.load(here.with_name("run_scores"))
    reader = lm.load(folder, mode="replay")  # so nothing but what was asked for is asked
    direct = run(read(here), reader=reader, measures=["erag", "seper-shares"], top=3, mode="replay")
    pd.testing.assert_frame_equal(made.passages, direct.passages)
    pd.testing.assert_frame_equal(made.questions, direct.questions)
    assert (here.with_name("run_scores") / "report.html").read_text().count("<html") == 1


def test_two_runs_are_compared(here, folder, tmp_path):
    turned = [row | {"passages": row["passages"][::-1]} for row in tiny_run.rows()]
    other = tiny_run.lines(tmp_path / "other.jsonl", turned)
    how = ("--reader", folder, "--measures", "erag")
    done = invoke(here, *how, "--against", other, "--out", tmp_path / "out")
    assert done.exit_code == 0 and "run.jsonl minus other.jsonl" in done.stdout
    kept = json.loads((tmp_path / "out" / "against.json").read_text())
    assert kept["right with list"]["n"] == 5 and "p_value" in kept["eRAG AP"]
    again = invoke(here, *how, "--against", tmp_path / "out" / "against", "--out", tmp_path / "again")
    assert json.loads((tmp_path / "again" / "against.json").read_text()) == kept and again.exit_code == 0
    alone = invoke(here, *how, "--out", tmp_path / "out")
    assert "what was measured there before is replaced" in alone.stderr and "Only 5 questions" in alone.stderr
    assert not (tmp_path / "out" / "against.json").exists()


def test_other_questions_stop_it_before_a_reader_is_loaded(here, tmp_path):
    other = tiny_run.lines(tmp_path / "other.jsonl", tiny_run.rows()[:3])
    for planned in ((), ("--plan",)):
        with pytest.raises(ValueError, match="must be on the same questions; 2 of the first and 0 of the second"):
            invoke(here, "--reader", "nowhere", "--against", other, *planned)


def test_questions_without_answers_are_counted(here, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "_measure", lambda options, records: None)
    rows = [row | {"answers": []} if place < 2 else row for place, row in enumerate(tiny_run.rows())]
    assert "2 of 5 questions have no right answers" in invoke(tiny_run.lines(tmp_path / "few.jsonl", rows)).stderr
    assert "no right answers" not in invoke(tiny_run.lines(tmp_path / "all.jsonl", rows[2:])).stderr


def test_bad_lines_stop_it_before_a_reader_is_loaded(here, monkeypatch):
    with here.open("a") as stream:
        stream.write("nonsense\n")
    with pytest.raises(ValueError, match="line 6: not JSON"):
        invoke(here, "--reader", "nowhere")
    monkeypatch.setattr(command, "_measure", lambda options, records: None)
    done = invoke(here, "--skip-bad")
    assert "1 found wrong and left out, 5 questions stay" in done.stderr and "5 questions, 19 passages" in done.stderr


def test_what_is_no_option_is_refused(here, folder):
    for words, said in (
        (("--measures", "erog"), "unknown measure 'erog'; did you mean 'erag'"),
        (("--reader", "embeded"), "unknown profile 'embeded'"),
        (("--top", "0", "--reader", folder), "top must be"),
        (("--dtype", "int8"), "unknown dtype"),
    ):
        with pytest.raises(ValueError, match=said):
            invoke(here, *words)
    with pytest.raises(ValueError, match="wanted RUN"):
        invoke()


def test_the_judge_is_checked(here, tmp_path):
    rows = [
        {"question": "who wrote Hamlet", "answers": ["Shakespeare"], "response": said, "right": right}
        for said, right in (("Shakespeare", True), ("the shakespeare", True), ("Nobody at all, on 3 May 1999", False))
    ]
    labels = tiny_run.lines(tmp_path / "labels.jsonl", [*rows, rows[0] | {"question": "who wrote Macbeth"}])
    done = invoke("--judge-check", labels, "--out", tmp_path / "out")
    assert done.exit_code == 0 and "contrast" in done.stdout
    table = json.loads((tmp_path / "out" / "judge_check.json").read_text())
    assert table["right"]["value"] == 0.75 and table["contrast"]["n"] == 2


def test_the_other_commands_import_nothing_more():
    def imported(module):
        code = f"import sys, {module}; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return {name.split(".")[0] for name in done.stdout.split()}

    assert imported("rag_utils.score.command") <= imported("rag_utils.score.cli")


# --- a plan ----------------------------------------------------------------------------------------


def test_a_plan_counts_what_will_be_asked(here, folder):
    records, reader = read(here), lm.load(folder, mode="fresh")
    how = {"top": 10, "seed": 0, "settings": Settings()}
    planned = plan(records, reader, measures=["seper", "erag"], **how)
    other = lm.load(folder, mode="fresh")
    made = run(records, measures=["seper", "erag"], reader=other, mode="fresh")
    asked = made.settings["asked"]
    assert planned.calls["replies"].to_dict() == {"replies": asked["replies"], "samples": asked["samples"]}
    assert planned.calls["tokens"].sum() == asked["tokens"] and not planned.calls["at_most"].any()
    written = sum(other.count.distinct for _ in "1") - planned.calls["distinct"].sum()
    assert 0 < written <= (asked["replies"] + asked["samples"]) * 24  # what is read beside is the replies
    assert 0 < planned.minutes < 10 and 0.001 < planned.gigabytes < 50


def test_a_plan_of_everything_is_an_upper_bound_and_asks_the_reader_nothing(monkeypatch):
    monkeypatch.setattr("rag_utils.score.plan.calibrated", lambda reader, prompts, settings: (60.0, 0.0, 1.0))
    reader, records = tiny_run.Finder(), tiny_run.records()
    every = ["seper", "erag", "dense", "ecorag", "moi"]
    planned = plan(records, reader, measures=every, top=10, seed=0, settings=Settings()).calls
    assert reader.asked == [] and reader.scored == []
    monkeypatch.setattr("rag_utils.lm.load", lambda profile, **how: tiny_run.Talker())
    made = run(records, measures=every, reader=reader).settings
    assert planned.loc["replies", "prompts"] >= made["asked"]["replies"] > 0.5 * planned.loc["replies", "prompts"]
    assert planned.loc["samples", "replies"] == made["asked"]["samples"]
    assert planned.loc["likelihoods", "prompts"] == made["asked"]["likelihoods"]
    assert planned.loc["other words", "prompts"] == made["asker_asked"]["replies"]
    assert planned["at_most"].to_dict() == {
        "other words": True,
        "replies": True,
        "samples": False,
        "likelihoods": False,
    }
    assert planned.loc["samples", "minutes"] == planned.loc["samples", "distinct"]  # a minute a token


def test_a_calibration_says_seconds_and_lengths():
    reading, saying, length = calibrated(tiny_run.Finder(), ["a b c", "d e f"], Settings())
    assert reading > 0 and saying >= 0 and length == 1


def test_what_only_notes_says_something_else_to_every_prompt():
    noted = Noted(tiny_run.Finder())
    said = [reply.text for [reply] in noted.generate(["a", "b"]) + noted.generate(["c"])]
    assert len(set(said)) == 3 and noted.count_tokens("a b") == 2
    noted.log_likelihood(["x", "x"], [" y", " y"])
    assert noted.calls[-1] == ("likelihoods", 0, ["x y"])


def test_the_plan_is_printed_and_nothing_is_written(here, folder, tmp_path):
    done = invoke(here, "--reader", folder, "--plan")
    assert done.exit_code == 0 and "samples" in done.stdout and "minutes" in done.stdout
    assert not here.with_name("run_scores").exists() and not (tmp_path / "cache" / "recordings").exists()


# --- killed ----------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job ignores
from rag_utils.engine.store import Store
from rag_utils.engine.texts import Texts
from rag_utils.score import command

add, generate, batches, asked = Store.add, Texts.generate, [], []

def counted(self, replies):
    add(self, replies)
    batches.append(1)
    if len(batches) == {after}:
        os.kill(os.getpid(), signal.{how})

def noted(self, calls, settings):
    asked.append(len(calls))
    yield from generate(self, calls, settings)

Store.add, Texts.generate = counted, noted
sys.argv = ["rag-companion", "score", *{words}]
try:
    command.main()
finally:
    print("computed", sum(asked))
"""


def start(words, *, after=0, how="SIGKILL"):
    code = KILLED.format(after=after, how=how, words=[*map(str, words)])
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "TQDM_DISABLE": "1"}
    )


def recorded(tmp_path: Path) -> set:
    store = Store(tmp_path / "cache" / "recordings" / "calls.sqlite")
    with store._open() as connection:
        return {key for (key,) in connection.execute("SELECT key FROM replies")}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_a_run_that_was_stopped_goes_on_and_asks_nothing_twice(here, folder, tmp_path, how):
    words = [here, "--reader", folder, "--measures", "seper-shares,erag", "--out", tmp_path / "out"]
    stopped = start(words, after=3, how=how)
    assert stopped.returncode == (-signal.SIGKILL if how == "SIGKILL" else 130), stopped.stderr
    before = recorded(tmp_path)
    assert before and not (tmp_path / "out").exists()
    again = start(words)
    assert again.returncode == 0, again.stderr
    after = recorded(tmp_path)
    computed = int(again.stdout.split()[-1])
    assert before < after and computed == len(after) - len(before)
    whole = run(read(here), reader=lm.load(folder, mode="fresh"), measures=["seper-shares", "erag"], mode="fresh")
    pd.testing.assert_frame_equal(Scores.load(tmp_path / "out").passages, whole.passages)
    assert how == "SIGINT" or start(words).stdout.split()[-1] == "0"


@pytest.mark.slow
def test_the_books_own_reader(here, tmp_path, monkeypatch):
    """Two questions of the corpus: what a passage with the answer is worth, what one without is."""
    monkeypatch.delenv("RAG_COMPANION_CACHE")  # the converted weights lie there
    monkeypatch.setattr("rag_utils.engine.recordings.cache_dir", lambda *parts: tmp_path.joinpath("cache", *parts))
    made = run(read(here)[:2], top=2)
    assert made.settings["reader"] == "SmolLM2-135M-Instruct with adapter"
    best = made.passages.groupby("question")["seper"].max()
    assert (best > 0.5).all() and made.passages.loc[made.passages["seper"].idxmax(), "erag"] == 1
    assert set(recorded(tmp_path)) and np.isfinite(made.summary()["value"]).all()
    assert measured.Settings().samples == 10
