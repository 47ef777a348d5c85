"""Chapters: executed whole or not at all, the same bytes twice, and clear words for a wrong name."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import nbformat
import pytest
import tiny
from typer.testing import CliRunner

from rag_utils.page import chapters, cli

CELLS = """
import matplotlib.pyplot as plt
import sys
print("one")
print("two", file=sys.stderr)
print(number * 2)
_ = plt.figure(figsize=(1, 1)).subplots().plot([1, 2])
"""


def notebook(parameters: str, code: str) -> nbformat.NotebookNode:
    cells = [
        nbformat.v4.new_markdown_cell("# A chapter"),
        nbformat.v4.new_code_cell(parameters),
        nbformat.v4.new_code_cell(code),
    ]
    cells[1].metadata["tags"] = ["parameters"]
    for place, cell in enumerate(cells):
        cell.id = f"c{place}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book of two small chapters in a folder of its own."""
    for name in ("notebooks", "book", "runs", "data/recordings"):
        (tmp_path / name).mkdir(parents=True)
    nbformat.write(notebook('number = 1\nwords = "x"\nmode = "replay"', CELLS), tmp_path / "notebooks/01_good.ipynb")
    nbformat.write(notebook("number = 1", "1 / 0"), tmp_path / "notebooks/02_broken.ipynb")
    places = {
        "ROOT": "",
        "SOURCES": "notebooks",
        "BOOK": "book",
        "RUNS": "runs",
        "STAMPS": "stamps",
        "RECORDINGS": "data/recordings",
        "RESULTS": "data/results",
    }
    for name, place in places.items():
        monkeypatch.setattr(chapters, name, tmp_path / place)
    monkeypatch.setattr(chapters.weights, "embedded_is_ready", lambda: True)  # these chapters need no model
    return tmp_path


def test_the_embedded_reader_is_unpacked_once_before_the_first_chapter(monkeypatch):
    ready, said = [], []
    monkeypatch.setattr(chapters.weights, "embedded_is_ready", lambda: bool(ready))
    monkeypatch.setattr(chapters.weights, "embedded_directory", lambda: ready.append(1))
    chapters.prepare(say=said.append)
    chapters.prepare(say=said.append)
    assert ready == [1] and said == ["unpacking the embedded reader, once: half a minute"]


def command(*words):
    """What the command says, and its exit status, errors as the reader sees them."""
    result = CliRunner().invoke(cli.app, list(words))
    return result.exit_code, result.output if result.exception is None else str(result.exception)


def test_twice_gives_the_same_bytes_without_times_and_paths(book):
    first = chapters.run("01_good").read_bytes()
    assert chapters.run("01_good").read_bytes() == first
    text = first.decode()
    assert (
        "papermill" not in text
        and "execution" not in json.loads(text)["cells"][1]["metadata"]
        and str(book) not in text
    )
    code = [cell for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "code"][-1]
    assert [output.get("name", output.output_type) for output in code.outputs] == [
        "stdout",
        "stderr",
        "display_data",
    ] or [output.get("name", output.output_type) for output in code.outputs] == ["stderr", "stdout", "display_data"]


def test_parameters_go_to_runs_and_leave_the_book_alone(book):
    path = chapters.run("01_good", {"number": 21})
    [said] = [
        output.text for output in nbformat.read(path, as_version=4).cells[-1].outputs if output.get("name") == "stdout"
    ]
    assert path == book / "runs/01_good.ipynb" and said == "one\n42\n"
    assert not (book / "book/01_good.ipynb").exists()


def test_a_failing_cell_leaves_the_old_page(book):
    (book / "book/02_broken.ipynb").write_text("the old page")
    with pytest.raises(chapters.ChapterError, match="02_broken, cell 2: ZeroDivisionError: division by zero"):
        chapters.run("02_broken")
    assert (book / "book/02_broken.ipynb").read_text() == "the old page"
    assert [path.name for path in (book / "book").iterdir()] == ["02_broken.ipynb"] and not list(
        (book / "runs").iterdir()
    )


def test_build_executes_what_changed_and_nothing_else(book):
    (book / "notebooks/02_broken.ipynb").unlink()
    said = []
    chapters.build(say=said.append)
    chapters.build(say=said.append)
    assert said == ["01_good: executing", "01_good: nothing changed"]
    (book / "data/recordings/01_good.jsonl").write_text("")
    chapters.build(say=said.append)
    (book / "book/01_good.ipynb").write_text("{}")
    chapters.build(say=said.append)
    assert said[2:] == ["01_good: executing"] * 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "01_god"], "unknown chapter '01_god'; did you mean '01_good'"),
        (["run", "01_good", "-p", "numbr=2"], "unknown parameter of 01_good 'numbr'; did you mean 'number'"),
        (["run", "01_good", "-p", "number"], "written NAME=VALUE, got 'number'"),
        (["run", "01_good", "-p", "number=many"], "must be of type int as 1 is, got 'many'"),
        (["data", "fetch", "nqq"], "did you mean 'nq'"),
    ],
)
def test_the_command_says_what_is_wrong(book, words, said):
    status, output = command(*words)
    assert status != 0 and said in output


def test_the_command_lists(book):
    assert command("list") == (
        0,
        "01_good\n  -p number=1\n  -p words='x'\n  -p mode='replay'\n02_broken\n  -p number=1\n",
    )
    status, output = command("profiles")
    assert status == 0 and [line.split()[0] for line in output.splitlines()] == [
        "embedded",
        "embedded-first",
        "embedded-base",
        "laptop",
        "workstation",
        "paper",
    ]
    status, output = command("data", "status")
    assert status == 0 and "musique" in output


def test_an_error_is_one_sentence_and_not_a_traceback():
    found = subprocess.run([sys.executable, "-m", "rag_utils.page.cli", "run", "99"], capture_output=True, text=True)
    assert (
        found.returncode == 1
        and found.stderr.startswith("rag-companion: unknown chapter")
        and "Traceback" not in found.stderr
    )


def test_a_parameters_cell_may_hold_only_literals(book):
    nbformat.write(notebook("number = 1 + 1", "1"), book / "notebooks/03.ipynb")
    with pytest.raises(ValueError, match="only lines such as name = literal"):
        chapters.parameters("03")


LIVE = """
import os
from rag_utils import lm
from rag_utils.engine import profiles
os.environ["RAG_COMPANION_CACHE"] = "{cache}"
reader = lm.load(profiles.Profile(name="tiny", reader="{model}", batch_tokens=60), mode=mode, chapter="03_live")
groups = reader.generate([f"prompt {{i}}" for i in range(400)], n=2, temperature=1.0, max_new_tokens=4)
print(sum(len(group) for group in groups), "replies")
"""
RUN = """
from pathlib import Path
from rag_utils.page import chapters
for name, place in {places!r}.items():
    setattr(chapters, name, Path(place))
print(chapters.run("03_live", {{"mode": "live"}}))
"""


def test_a_killed_live_run_loses_nothing_and_leaves_no_half_notebook(book):
    """kill -9 at random moments of a real live run, then again; KILLS sets how often (3, since each takes seconds)."""
    model = tiny.llama(book / "model")
    nbformat.write(
        notebook('mode = "replay"', LIVE.format(cache=book / "cache", model=model.reader)),
        book / "notebooks/03_live.ipynb",
    )
    names = ("ROOT", "SOURCES", "BOOK", "RUNS", "STAMPS", "RECORDINGS", "RESULTS")
    code = RUN.format(places={name: str(getattr(chapters, name)) for name in names})
    path, moments, before = book / "cache/recordings/calls.sqlite", random.Random(0), set()
    for _ in range(int(os.environ.get("KILLS", "3"))):
        process = subprocess.Popen(
            [sys.executable, "-c", code], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + moments.uniform(4, 14)
        while time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for child in _kernels(book):
            os.kill(child, signal.SIGKILL)
        there = _recorded(path)
        assert before <= there, f"{len(before - there)} recorded replies were lost"
        before = there
        assert not list((book / "book").glob("*.ipynb"))
        for run in (book / "runs").glob("[!.]*.ipynb"):
            nbformat.validate(nbformat.read(run, as_version=4))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "800 replies" in (book / "runs/03_live.ipynb").read_text()
    assert len(_recorded(path)) == 800 and before <= _recorded(path)
    assert not list((book / "data/recordings").iterdir())  # a live run writes no tracked file


def _recorded(path: Path) -> set[str]:
    if not path.exists():
        return set()
    with closing(sqlite3.connect(path)) as connection:
        return {key for (key,) in connection.execute("SELECT key FROM replies")}


def _kernels(folder: Path) -> list[int]:
    """Processes that work in `folder`: the kernels of a killed run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(entry / "cwd")).is_relative_to(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
