"""Chapters: executed whole or not at all, the same bytes twice, and clear words for a wrong name."""

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

from rag_utils.base import sealed
from rag_utils.corpora import manifest
from rag_utils.engine import recordings
from rag_utils.page import chapters
from rag_utils.score import building
from rag_utils.score import command as every_command  # which adds to those of `cli`

CELLS = """
import matplotlib.pyplot as plt
import sys
print("one")
print("two", file=sys.stderr)
print(number * 2)
_ = plt.figure(figsize=(1, 1)).subplots().plot([1, 2])
"""


PLACES = {"ROOT": "", "SOURCES": "notebooks", "BOOK": "book", "RUNS": "runs"}
PLACES |= {"STAMPS": "stamps", "RESULTS": "data/results"}


def notebook(parameters: str, code: str) -> nbformat.NotebookNode:
    texts = map(nbformat.v4.new_code_cell, (parameters, code))
    cells = [nbformat.v4.new_markdown_cell("# A chapter"), *texts]
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
    for name, place in PLACES.items():
        monkeypatch.setattr(chapters, name, tmp_path / place)
    monkeypatch.setattr(chapters.weights, "embedded_is_ready", lambda: True)  # these chapters need no model
    return tmp_path


def test_the_embedded_reader_is_unpacked_once_before_the_first_chapter(monkeypatch, capsys):
    ready = []
    monkeypatch.setattr(chapters.weights, "embedded_is_ready", lambda: bool(ready))
    monkeypatch.setattr(chapters.weights, "embedded_directory", lambda: ready.append(1))
    chapters.prepare()
    chapters.prepare()
    assert ready == [1] and capsys.readouterr().err == "unpacking the embedded reader, once: half a minute\n"


def command(*words):
    """What the command says, and its exit status, errors as the reader sees them."""
    result = CliRunner().invoke(every_command.app, list(words))
    return result.exit_code, result.output if result.exception is None else str(result.exception)


def test_twice_gives_the_same_bytes_without_times_and_paths(book):
    first = chapters.run("01_good").read_bytes()
    assert chapters.run("01_good").read_bytes() == first
    text = first.decode()
    assert "papermill" not in text and str(book) not in text
    cells = nbformat.reads(text, as_version=4).cells
    assert "execution" not in cells[1].metadata
    shown = [output.get("name", output.output_type) for output in cells[-1].outputs]
    assert shown == ["stdout", "stderr", "display_data"]


def test_parameters_go_to_runs_and_leave_the_book_alone(book):
    path = chapters.run("01_good", {"number": 21})
    said = nbformat.read(path, as_version=4).cells[-1].outputs[0].text
    assert path == book / "runs/01_good.ipynb" and said == "one\n42\n"
    assert not (book / "book/01_good.ipynb").exists()


def test_a_failing_cell_leaves_the_old_page(book):
    (book / "book/02_broken.ipynb").write_text("the old page")
    with pytest.raises(chapters.ChapterError, match="02_broken, cell 2: ZeroDivisionError: division by zero"):
        chapters.run("02_broken")
    assert (book / "book/02_broken.ipynb").read_text() == "the old page"
    assert [path.name for path in (book / "book").iterdir()] == ["02_broken.ipynb"]
    assert not list((book / "runs").iterdir())


def test_build_executes_a_chapter_once(book):
    (book / "notebooks/02_broken.ipynb").unlink()
    said = []
    building.build(say=said.append)
    building.build(say=said.append)
    assert said == ["01_good: executing", "01_good: nothing changed"]


def test_a_kernel_knows_the_profiles_of_the_folder_that_the_command_was_given_in(book, monkeypatch):
    monkeypatch.chdir(book)
    (book / "profiles.toml").write_text('[mine]\nreader = "a/b"')
    code = "from rag_utils.engine import profiles\nprint(profiles.get('mine').reader)"
    nbformat.write(notebook("number = 1", code), book / "notebooks/03_mine.ipynb")
    assert '"a/b\\n"' in chapters.run("03_mine").read_text()


def side_by_side(book, monkeypatch, *, jobs):
    """Build with processes that work in the small book; the lines that were said, and what was raised in the end or None."""
    code = COMMAND.format(places={name: str(getattr(chapters, name)) for name in PLACES}, words=["run"])
    code = code.replace("['run']", "['run', *sys.argv[1:]]")
    monkeypatch.setattr(building, "COMMAND", (sys.executable, "-c", code))
    said = []
    try:
        building.build(say=said.append, jobs=jobs)
    except chapters.ChapterError as error:
        return said, str(error)
    return said, None


def test_chapters_are_built_side_by_side_with_the_same_bytes_and_none_is_lost_to_another(book, monkeypatch):
    for name in ("03_third", "04_fourth"):
        nbformat.write(notebook('number = 3\nmode = "replay"', CELLS), book / f"notebooks/{name}.ipynb")
    others = ["01_good", "03_third", "04_fourth"]
    said, problem = side_by_side(book, monkeypatch, jobs=2)
    assert problem == "1 of 4 chapters failed\n02_broken, cell 2: ZeroDivisionError: division by zero"
    assert sorted(said) == sorted(
        [*(f"{name}: {what}" for name in others for what in ("executing", "done")), "02_broken: executing", "02_broken: failed"]
    )
    at_once = {name: (book / f"book/{name}.ipynb").read_bytes() for name in others}
    assert sorted(path.name for path in (book / "stamps").iterdir()) == others
    for name in others:
        (book / f"stamps/{name}").unlink()
    said, problem = side_by_side(book, monkeypatch, jobs=1)
    assert "02_broken, cell 2" in problem and "01_good: executing" in said
    assert {name: (book / f"book/{name}.ipynb").read_bytes() for name in others} == at_once
    assert list((book / "runs").iterdir()) == []


def test_jobs_follow_cores_and_memory(tmp_path, monkeypatch):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   7812500 kB\n")
    assert building.free_gigabytes(tmp_path) == 8.0
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    for limit, expected in {"max": 8.0, "3000000000": 3.0, "9000000000": 8.0}.items():
        (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{limit}\n")
        assert building.free_gigabytes(tmp_path) == expected
    assert building.free_gigabytes(tmp_path / "not Linux") > 0
    cores = len(os.sched_getaffinity(0))
    for free, expected in {0.5: 1, 2 * building.EACH + 0.1: min(2, cores), 1e6: cores}.items():
        monkeypatch.setattr(building, "free_gigabytes", lambda free=free: free)
        assert building.at_once() == expected
    with pytest.raises(ValueError, match="jobs must be a whole number of at least 1; got 0"):
        building.build(jobs=0)


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
    listed = "embedded embedded-base embedded-judge laptop workstation paper"
    assert status == 0 and " ".join(line.split()[0] for line in output.splitlines()) == listed
    status, output = command("data", "status")
    assert status == 0 and "multihop/musique.jsonl" in output  # where it is, or where it is looked for


def test_the_command_fetches_several_data_sets_one_after_the_other(monkeypatch):
    monkeypatch.setattr(manifest, "fetch", lambda name: f"got {name}")
    assert command("data", "fetch", "nq", "squad") == (0, "got nq\ngot squad\n")


def test_an_error_is_one_sentence_and_not_a_traceback():
    for words, status, said in ((["99"], 1, "rag-companion: unknown chapter"), ([], 2, "Missing argument")):
        asked = [sys.executable, "-c", "from rag_utils.score.cli import main; main()", "run", *words]
        done = subprocess.run(asked, capture_output=True, text=True)
        assert done.returncode == status and said in done.stderr and "Traceback" not in done.stderr


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
groups = reader.generate([f"prompt {{i}}" for i in range(120)], n=2, temperature=1.0, max_new_tokens=4)
print(sum(len(group) for group in groups), "replies")
"""
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job begins without
from pathlib import Path
from rag_utils.page import chapters
from rag_utils.score import cli
import rag_utils.score.command
for name, place in {places!r}.items():
    setattr(chapters, name, Path(place))
chapters.weights.embedded_is_ready = lambda: True
sys.argv = ["rag-companion", *{words!r}]
cli.main()
"""


def in_a_process(*words):
    """The start of a process that runs the command in the small book."""
    code = COMMAND.format(places={name: str(getattr(chapters, name)) for name in PLACES}, words=words)
    return [sys.executable, "-c", code]


@pytest.mark.slow
def test_a_killed_live_run_loses_nothing_and_leaves_no_half_notebook(book):
    """kill -9 while a real live run records, then again; KILLS sets how often (once, since each takes seconds)."""
    model = tiny.llama(book / "model")
    source = LIVE.format(cache=book / "cache", model=model.reader)
    nbformat.write(notebook('mode = "replay"\nown = "tiny"', source), book / "notebooks/03_live.ipynb")
    run = in_a_process("run", "03_live", "--mode", "live", "-p", "own=mine")  # with a parameter it goes to runs/
    path, moments, before = book / "cache/recordings/calls.sqlite", random.Random(0), set()
    for _ in range(int(os.environ.get("KILLS", "1"))):
        process = subprocess.Popen(run, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wanted = len(before) + moments.randrange(1, 120)
        while len(_recorded(path)) < wanted and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for child in _kernels(book):
            os.kill(child, signal.SIGKILL)
        there = _recorded(path)
        assert before <= there, f"{len(before - there)} recorded replies were lost"
        before = there
        assert not list((book / "book").glob("*.ipynb"))
        for path_of_run in (book / "runs").glob("[!.]*.ipynb"):
            nbformat.validate(nbformat.read(path_of_run, as_version=4))
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "240 replies" in (book / "runs/03_live.ipynb").read_text()
    assert len(_recorded(path)) == 240 and before <= _recorded(path)
    assert not list((book / "data/recordings").iterdir())  # a live run writes no tracked file


def _recorded(path: Path) -> set[str]:
    if not path.exists():
        return set()
    with closing(sqlite3.connect(path)) as connection:
        made = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'replies'").fetchone()
        return {key for (key,) in connection.execute("SELECT key FROM replies")} if made else set()


WAITING = """
from pathlib import Path
import time
Path("begun").touch()
time.sleep(300)
"""


@pytest.mark.parametrize("words", [["run", "04_waiting"], ["run", "04_waiting", "--mode", "live"], ["build"]])
def test_ctrl_c_ends_in_one_line_and_leaves_nothing(book, words):
    """A real SIGINT, to the command alone or, as a terminal sends it, to all of its processes."""
    nbformat.write(notebook('number = 1\nmode = "replay"', WAITING), book / "notebooks/04_waiting.ipynb")
    for name in ("01_good", "02_broken"):
        (book / f"notebooks/{name}.ipynb").unlink()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(in_a_process(*words), start_new_session=True, **pipes)
    until = time.monotonic() + 60
    while not (book / "book/begun").exists() and time.monotonic() < until and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT) if words == ["build"] else process.send_signal(signal.SIGINT)
    said, told = process.communicate(timeout=60)
    assert process.returncode == 130
    told = told.removeprefix("04_waiting: executing, mode live\n")
    assert told == "\nrag-companion: stopped; what was computed so far is kept\n"
    assert said == ("04_waiting: executing\n" if words == ["build"] else "")
    assert list((book / "runs").iterdir()) == [] and _kernels(book) == []
    assert [path.name for path in (book / "book").iterdir()] == ["begun"] and not (book / "stamps").exists()


def test_a_result_goes_where_it_is_wanted_and_the_last_one_stays(book, tmp_path):
    command("run", "01_good", "-p", "number=4")
    kept = (book / "runs/01_good.ipynb").read_bytes()
    wanted = tmp_path / "mine" / "five.ipynb"
    assert command("run", "01_good", "-p", "number=5", "--output", str(wanted)) == (0, f"{wanted}\n")
    said = [cell.source for cell in nbformat.read(wanted, as_version=4).cells if cell.cell_type == "markdown"]
    assert said[1].startswith("> **A run with `number = 5`.**") and "A run with" not in (chapters.run("01_good")).read_text()
    assert wanted.exists() and (book / "runs/01_good.ipynb").read_bytes() == kept
    assert "ends in .ipynb; got 'five.html'" in command("run", "01_good", "--output", "five.html")[1]
    page = (book / "book/01_good.ipynb").read_bytes() if (book / "book/01_good.ipynb").exists() else None
    assert command("run", "01_good", "--mode", "live", "--output", str(wanted))[0] == 0
    cells = nbformat.read(wanted, as_version=4).cells
    (injected,) = [cell.source for cell in cells if "injected-parameters" in cell.metadata.get("tags", [])]
    assert 'mode = "live"' in injected  # executed once, there
    assert page == ((book / "book/01_good.ipynb").read_bytes() if (book / "book/01_good.ipynb").exists() else None)


def test_no_kernel_speaks_of_its_transport(book):
    done = subprocess.run(in_a_process("run", "01_good"), capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "book/01_good.ipynb\n", "")


# --- what a chapter stands on ---------------------------------------------------------------------


@pytest.fixture
def rebuilt(book, monkeypatch):
    """Two chapters in a small copy of the house, built; a function that changes a file and says which are built again."""
    files = {
        "rag_utils/__init__.py": "",
        "rag_utils/stats.py": "from rag_utils import base\n",
        "rag_utils/base.py": "",
        "rag_utils/lonely.py": "",
        "experiments/__init__.py": "",
        "experiments/table.py": "",
        "experiments/first/__init__.py": "",
        "experiments/first/rows.py": "from experiments import table\nfrom rag_utils.stats import base\n",
        "experiments/second/__init__.py": "",
        "experiments/second/rows.py": "from experiments import table\n",
        "data/companion/questions.jsonl": "{}",
        "data/published/erag_table1.csv": "a",
        "data/published/seper_table1.csv": "a",
        "data/recordings/01_first.jsonl": "{}",
        "data/recordings/02_second.jsonl": "{}",
        "benchmarks/engine.json": "{}",
        "requirements.lock": "",
    }
    for name, content in files.items():
        (book / name).parent.mkdir(parents=True, exist_ok=True)
        (book / name).write_text(content)
    for name in ("01_good", "02_broken"):
        (book / f"notebooks/{name}.ipynb").unlink()
    first = notebook("number = 1", 'from experiments.first import rows\nreport = "erag_table1"')
    second = notebook("number = 1", 'import experiments.second.rows as rows\nname = "engine.json"\nother = "01_first"')
    nbformat.write(first, book / "notebooks/01_first.ipynb")
    nbformat.write(second, book / "notebooks/02_second.ipynb")
    monkeypatch.setattr(chapters, "run", lambda name: (book / f"book/{name}.ipynb").write_text("{}"))

    def build():
        said = []
        building.build(say=said.append, jobs=1)
        return [line.partition(":")[0] for line in said if line.endswith("executing")]

    def change(name):
        path = book / name
        path.write_text(path.read_text() + "\n")
        return build()

    assert build() == ["01_first", "02_second"] and build() == []
    return change


def test_a_chapter_is_built_again_when_what_it_stands_on_changed_and_not_otherwise(rebuilt, book):
    first, second = "01_first", "02_second"
    for name, expected in {
        "experiments/first/rows.py": [first],
        "experiments/second/rows.py": [second],
        "experiments/second/__init__.py": [second],
        "experiments/table.py": [first, second],
        "rag_utils/stats.py": [first],
        "rag_utils/base.py": [first],
        "rag_utils/__init__.py": [first],
        "rag_utils/lonely.py": [],
        "data/companion/questions.jsonl": [first, second],
        "data/published/erag_table1.csv": [first],
        "data/published/seper_table1.csv": [],
        "data/recordings/01_first.jsonl": [first, second],  # the second mentions the first
        "data/recordings/02_second.jsonl": [second],
        "benchmarks/engine.json": [second],
        "requirements.lock": [first, second],
        "notebooks/01_first.ipynb": [first],
        "book/02_second.ipynb": [second],
    }.items():
        assert rebuilt(name) == expected, name
    (book / "stamps/01_first").write_bytes(b"\xff")
    (book / "rag_utils/new.py").write_text("")
    assert rebuilt("rag_utils/new.py") == [first], "a damaged stamp says nothing"


OTHERS = {"14_seper_findings": {"06_ecorag_ablations", "09_five_lenses"}}  # its experiments compress as chapter 6, order as 9


def test_the_chapters_stand_on_what_they_use():
    root = chapters.ROOT
    paths = {name: {path.relative_to(root).as_posix() for path in chapters.inputs(name)} for name in chapters.names()}
    for name, files in paths.items():
        assert f"notebooks/{name}.ipynb" in files, name
        if "\n    mode = " in (root / f"notebooks/{name}.ipynb").read_text():
            assert {"data/companion/questions.jsonl", "rag_utils/lm.py"} <= files, name
        others = {file.split("/")[2] for file in files if file.startswith("data/results/")}
        asked_for = (root / f"notebooks/{name}.ipynb").read_text().replace('\\"', '"')
        others -= OTHERS.get(name.removeprefix("record/"), set())
        others -= {name.removeprefix("record/"), *(other for other in others if f'"{other}"' in asked_for)}
        assert others == set(), f"{name} stands on the numbers of {others}"
        assert not [file for file in files if file.startswith("data/conformance/")], "no page reads these"
    reading = [name for name, files in paths.items() if "rag_utils/stats.py" in files]
    assert len(reading) >= 8
    folders = {path.parent.name for path in (root / "experiments").glob("*/__init__.py")}
    used = {
        name: {folder for folder in folders if f"experiments/{folder}/__init__.py" in paths[name]} for name in paths
    }
    assert set().union(*used.values()) == folders


def test_a_damaged_notebook_is_said(book):
    for content in ("", "{", "[]", '{"cells": 3}', "\0"):
        (book / "notebooks/01_good.ipynb").write_text(content)
        with pytest.raises(ValueError, match=r"01_good\.ipynb is no notebook"):
            chapters.run("01_good")
    assert not list((book / "runs").iterdir())


# --- the numbers ------------------------------------------------------------------------------------


def test_a_changed_digit_stops_the_build_and_is_named(book, monkeypatch):
    """Nothing is executed then."""
    monkeypatch.setattr(chapters, "run", lambda name: pytest.fail("a chapter was executed"))
    folder = book / "data/results/01_good"
    (folder / "deep").mkdir(parents=True)
    (folder / "student.safetensors").write_bytes(bytes(range(256)))
    files = {"student.safetensors": sealed.sha256(bytes(range(256)))}
    for name in ("student", "deep/nq"):
        content = {"function": "f", "settings": {"seed": 10}, "facts": {"files": files} if name == "student" else {}}
        sealed.write(folder / f"{name}.json", "id,value\nq1,0.25\n", content)
    assert list(sealed.damage(book / "data/results")) == []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for place in [place for place, byte in enumerate(content) if 0x30 <= byte <= 0x38]:
            path.write_bytes(content[:place] + bytes([content[place] + 1]) + content[place + 1 :])
            with pytest.raises(ValueError, match=rf"^\S*{path.name} is damaged"):
                building.build(say=lambda text: None)
        path.write_bytes(content)
    (book / "data/results/more.csv").write_text("id,value\na,1\n")
    with pytest.raises(ValueError, match=r"more\.csv belongs to no table"):
        building.build(say=lambda text: None)


# --- sealing ----------------------------------------------------------------------------------------

TRACED = """
from rag_utils.engine import recordings
recordings.trace("03_sealed", "embedded", ["asked"])
recordings.trace("03_sealed", "another model", ["of another model"])
recordings.trace(None, "embedded", ["seen in a benchmark"])
"""


def test_only_sealing_makes_a_tracked_file_and_of_nothing_but_the_chapters_own_calls(book, monkeypatch):
    """What the page asks and what its tables are verified by; nothing is sealed where a table is not verified."""
    nbformat.write(notebook('mode = "replay"', TRACED), book / "notebooks/03_sealed.ipynb")
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(book / "cache"))
    monkeypatch.setattr(recordings, "TRACKED", book / "data/recordings")
    monkeypatch.setattr(recordings.weights, "embedded_fingerprints", lambda: {"embedded"})
    keys = ["asked", "verified", "of another model", "seen in a benchmark", "of an earlier run"]
    recordings.Recordings(writable=True).add([(key, {"text": key}) for key in keys])
    words, outcomes = [], [0, 1, 0, 0]

    def verify(*given):
        words.append(given[0])
        recordings.trace("03_sealed", "embedded", ["verified"])
        return outcomes.pop(0)

    monkeypatch.setattr(chapters, "verify", verify)
    with pytest.raises(chapters.ChapterError, match="03_sealed is not sealed"):
        chapters.seal("03_sealed", say=lambda text: None)
    assert list((book / "data/recordings").iterdir()) == []
    said = []
    chapters.seal("03_sealed", say=said.append)
    path = book / "data/recordings/03_sealed.jsonl"
    assert set(recordings.read_sealed(path)) == {"asked", "verified"} and words == ["--adopt", "--recorded"] * 2
    assert said[0].endswith("03_sealed.jsonl: 2 calls") and recordings.TRACE not in os.environ


# --- what stops for want of numbers -----------------------------------------------------------------


def test_a_stopped_cell_names_the_parameters_and_the_command(book):
    code = """
class RecordingError(RuntimeError): pass
if mode == "replay": raise RecordingError("3 of 4 model calls are not recorded; `rag-companion run 03 --mode live` records them.")
raise KeyError("of our own")
"""
    nbformat.write(notebook('number = 1\nwords = "x"\nmode = "replay"', code), book / "notebooks/03.ipynb")
    said = "RecordingError: 3 of 4 model calls are not recorded"
    live = "To compute it: rag-companion run 03 --mode live"
    assert command("run", "03") == (1, f"03, cell 2: {said}. {live}")
    given = ["-p", "number=2", "-p", "words=it's"]
    shell = """-p number=2 -p 'words=it'"'"'s'"""
    with_them = f"03, cell 3: {said}. Given: number=2, words=it's. {live} {shell}"  # the second cell is theirs
    assert command("run", "03", *given) == (1, with_them)
    fresh = "03, cell 3: KeyError: 'of our own'. Given: number=2, words=it's"
    assert command("run", "03", "--mode", "fresh", *given) == (1, fresh)


@pytest.mark.slow
def test_a_run_with_another_profile_leaves_no_tracked_file_changed(book):
    """Live, with a model of a user's own: what it computes goes to the cache, its page to runs/."""
    model = tiny.llama(book / "model").reader
    source = LIVE.format(model=model, cache=book / "cache").replace('name="tiny"', "name=own").replace("120", "40")
    nbformat.write(notebook('mode = "replay"\nown = "tiny"', source), book / "notebooks/03_live.ipynb")
    before = {path: path.read_bytes() for path in tracked(book)}
    status, output = command("run", "03_live", "--mode", "live", "-p", "own=mine")
    assert (status, output) == (0, "03_live: executing, mode live\nruns/03_live.ipynb\n")
    assert {path: path.read_bytes() for path in tracked(book)} == before
    assert "80 replies" in (book / "runs/03_live.ipynb").read_text()


def tracked(folder: Path) -> list[Path]:
    return [path for place in ("notebooks", "book", "data") for path in (folder / place).rglob("*") if path.is_file()]


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
