"""Every lab: its solutions pass, its blanks and twenty wrong solutions and more fail in words, its numbers are those of the book."""

import json
import os
import re
import subprocess
import sys

import nbformat
import pytest
from scripts import script

from rag_utils.base.cache import ROOT

LABS = ROOT / "labs"
build = script("build", folder="labs")
MOST_MEMORY = 1.5e9  # bytes
NUMERALS = {"twenty-one": 21, "twenty-seven": 27, "thirty-two": 32, "thirty-eight": 38}
ALONE = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}
# The lab's tests, then the most memory that the process had. What wait4 tells counts the process that began it as well.
PEAK = """
import re, resource, sys, pytest
code = pytest.main([])
held = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()) if sys.platform == "linux" else None
print(1024 * int(held[1]) if held else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
sys.exit(code)
"""
# Every wrong solution in the place of the right one, and one that returns nothing: what the tests say then.
DRIVER = """
import json, adapters, check, mistakes
rows = []
for name, phrase, wrong in [(None, "", None), *mistakes.MISTAKES]:
    said = {}
    for what, function in {"wrong": wrong, "nothing": lambda *given: None}.items():
        if name:
            right = getattr(adapters, name)
            setattr(adapters, name, function)
        said[what] = [words for words in check.run(name).values() if words]
        if name:
            setattr(adapters, name, right)
    rows.append([name, phrase, said["wrong"], said["nothing"]])
print(json.dumps(rows))
"""
# A test that computes what a solution gives is a solution to read. Every other function in the files of the tests is called as the
# tests call the solutions; those that ever return the same, but for a 0, are printed, and before them which solutions were called at all.
BESIDE = """
import copy, importlib, inspect, json, pathlib, adapters, check
calls = []
def noted(name, function):
    def call(*given):
        before = copy.deepcopy(given)
        came = function(*given)
        calls.append((name, before, copy.deepcopy(came)))
        return came
    return call
for name, function in inspect.getmembers(adapters, inspect.isfunction):
    setattr(adapters, name, noted(name, function))
check.run()
found = set()
for path in pathlib.Path("tests").glob("test_*.py"):
    for own, function in inspect.getmembers(importlib.import_module(path.stem), inspect.isroutine):
        if not own.startswith("test_") and function.__module__ == path.stem:
            for name, given, came in calls:
                try:
                    if not check.same(came, 0) and check.same(function(*copy.deepcopy(given)), came):
                        found.add((path.name, own, name))
                except Exception:
                    pass  # it takes something else
print(json.dumps([sorted({name for name, _, _ in calls}), sorted(found)]))
"""
# The code cells of a notebook in one namespace; what a notebook would show in red is printed.
CELLS = """
import json, sys
space = {"__name__": "__main__"}
for number, cell in enumerate(json.load(open("lab.ipynb", encoding="utf-8"))["cells"]):
    if cell["cell_type"] == "code":
        try:
            exec("".join(cell["source"]), space)
        except Exception as error:
            print(*getattr(error, "_render_traceback_", lambda: [f"STACK {error!r}"])(), sep=chr(10))
"""


@pytest.fixture(scope="module", params=build.names())
def lab(request, tmp_path_factory):
    """A lab, both versions of it built in a folder of their own."""
    folder = tmp_path_factory.mktemp("labs")
    build.build(request.param, folder)
    versions = {version: folder / version / request.param for version in ("student", "instructor")}
    return versions | {"name": request.param}


def python(folder, *arguments):
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=ALONE, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_there_are_labs():
    assert "seper" in build.names()


def test_solutions_pass_in_little_memory(lab):
    code, said = python(lab["instructor"], "-c", PEAK)
    assert code == 0, said
    assert 2e7 < int(said.split()[-1]) <= MOST_MEMORY


def test_blanks_fail_in_a_line_each_and_without_a_stack(lab):
    code, said = python(lab["student"], "-m", "pytest")
    points = build.points_of(LABS / lab["name"])
    stated = build.solutions((LABS / lab["name"] / "lab.py").read_text(encoding="utf-8"))
    lines = re.findall(r"^test_\w+: (not written yet: .*)$", said, flags=re.MULTILINE)
    assert code == 1 and f"0 of {sum(points.values())} tests pass." in said
    assert "Traceback" not in said and "Error" not in said and len(said.splitlines()) <= sum(points.values()) + 8
    wanted = [f"not written yet: {name}, {stated[name][2]}" for name in points for _ in range(points[name])]
    assert sorted(lines) == sorted(wanted) and all(points.values())


def test_the_minutes_of_the_handout_are_ninety_and_name_every_function(lab):
    text = (lab["student"] / "handout.md").read_text(encoding="utf-8")
    assert sum(map(int, re.findall(r"^#+ .*\((\d+) minutes?\)$", text, flags=re.MULTILINE))) == 90
    assert [name for name in build.points_of(LABS / lab["name"]) if f"`{name}`" not in text] == []
    assert "<details>" in text and "open question" in text and "hand in" in text


def test_the_student_gets_no_solution(lab):
    code = (lab["student"] / "lab.py").read_text(encoding="utf-8") + (lab["student"] / "lab.ipynb").read_text("utf-8")
    assert "SOLUTION" not in code
    names = {path.name for path in lab["student"].iterdir()}
    assert names >= {"handout.md", "lab.py", "lab.ipynb", "adapters.py", "tests", "requirements.txt", "Makefile"}
    assert not names & {"rubric.md", "mistakes.py", "make_snapshots.py", "make_data.py"}
    code, said = python(lab["instructor"], "-W", "ignore", "-c", BESIDE)
    assert code == 0, said
    called, found = json.loads(said.splitlines()[-1])
    assert called == sorted(build.points_of(LABS / lab["name"])) and found == []


def test_wrong_solutions_are_caught_in_words_that_name_the_mistake(lab):
    code, said = python(lab["instructor"], "-c", DRIVER)
    assert code == 0, said
    [right, *rows] = json.loads(said.splitlines()[-1])
    assert right[2] == []
    assert len(rows) >= 20 and len({phrase for _, phrase, _, _ in rows}) == len(rows)
    missed = [(name, phrase, words) for name, phrase, words, _ in rows if not any(phrase in each for each in words)]
    guessed = [(name, phrase) for name, phrase, _, words in rows if any(phrase in each for each in words)]
    assert missed == [] and guessed == []  # a message that lists every mistake names none
    assert all("stopped with" not in each for _, _, words, _ in rows for each in words)


def test_snapshots_are_what_the_book_computes(lab):
    made = script("make_snapshots", folder=f"labs/{lab['name']}").snapshots()
    kept = json.loads((LABS / lab["name"] / "tests" / "snapshots.json").read_text(encoding="utf-8"))
    assert kept == made, f"python labs/{lab['name']}/make_snapshots.py"


def test_notebooks_say_what_the_tests_say(lab):
    points = build.points_of(LABS / lab["name"])
    for version in ("student", "instructor"):
        pages = nbformat.read(lab[version] / "lab.ipynb", as_version=4)
        nbformat.validate(pages)
        graded = [cell.metadata.nbgrader for cell in pages.cells if "nbgrader" in cell.metadata]
        assert len({each.grade_id for each in graded}) == len(graded) == 2 * len(points) + 2
        code, said = python(lab[version], "-c", CELLS)
        assert code == 0 and "STACK" not in said
        passing = [f"{name}: {n} of {n} tests pass" for name, n in points.items()]
        assert [line for line in passing if line in said] == (passing if version == "instructor" else [])
        assert ("not written yet" in said) == (version == "student")


def test_points_of_a_notebook_are_those_of_the_rubric(lab):
    rubric, handout = ((lab["instructor"] / name).read_text("utf-8") for name in ("rubric.md", "handout.md"))
    [tests] = re.findall(r"^([A-Z][a-z-]+) tests, a point each\.", rubric, re.M)
    [sentences] = re.findall(r" The three sentences, (\d+):", rubric)
    [question] = re.findall(r"^### The open question, (\d+) points$", rubric, re.M)
    assert f"{tests} lines say *not written yet*" in handout and f"all {tests.lower()} tests passing" in handout
    for version in ("student", "instructor"):
        cells = nbformat.read(lab[version] / "lab.ipynb", as_version=4).cells
        graded = [cell.metadata.nbgrader for cell in cells if cell.metadata.get("nbgrader", {}).get("grade")]
        points = {each.grade_id: each.points for each in graded}
        assert (points["three-sentences"], points["open-question"]) == (int(sentences), int(question))
        assert sum(points.values()) == NUMERALS[tests.lower()] + int(sentences) + int(question)


def test_labs_need_little_and_what_they_need_is_locked():
    entries = re.split(r"^(?=[A-Za-z0-9])", (ROOT / "requirements.lock").read_text("utf-8"), flags=re.MULTILINE)
    _, *own = re.split(r"^(?=[A-Za-z0-9])", (LABS / "requirements.txt").read_text("utf-8"), flags=re.MULTILINE)
    own = [entry.replace(' ; sys_platform == "win32"', "", 1) for entry in own]  # the lock has no markers
    assert own and [entry for entry in own if entry not in entries] == []
    assert not {"torch", "transformers"} & {entry.split("==")[0] for entry in own}


def test_a_lab_imports_nothing_else(lab):
    may = {"numpy", "pytest", "adapters", "check", "lab", *sys.stdlib_module_names}
    code = "\n".join(path.read_text("utf-8") for path in lab["instructor"].rglob("*.py"))
    assert set(re.findall(r"^\s*(?:import|from) (\w+)", code, flags=re.MULTILINE)) <= may
