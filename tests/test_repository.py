"""Rules that the repository keeps: environment, locks, notebooks, figures, paths, sizes."""

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rag_utils.base import sealed

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").rglob("[0-9]*.ipynb"))
PUBLISHED = sorted((ROOT / "book").rglob("[0-9]*.ipynb"))
MAX_CELL_LINES, MAX_FOLDED_LINES = 20, 80
FOLDED = {"hide-input", "hide-cell"}
MAX_BYTES = 5_000_000


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def source(cell: dict) -> str:
    return "".join(cell["source"])


def cells(path: Path, kind: str | None = None) -> list[tuple[int, dict]]:
    """Numbered cells of a notebook, from 0 as in the file."""
    found = enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"])
    return [(number, cell) for number, cell in found if kind in (None, cell["cell_type"])]


# ------------------------------------------------------------ environment and locks


def project_requirements() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["dependencies"] + [line for extra in project["optional-dependencies"].values() for line in extra]
    return {canonicalize_name((found := Requirement(line)).name): found for line in lines}


def locked(name: str) -> dict[str, tuple[str, int]]:
    """name -> (version, number of hashes) of a lock file."""
    entries = re.split(r"^(?=[A-Za-z0-9])", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {}
    for entry in filter(str.strip, entries):
        package, version = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", entry).groups()
        found[canonicalize_name(package)] = (version, entry.count("--hash=sha256:"))
    return found


STOOD_ON = [
    "jupyter",
    "jupyter-book",
    "papermill",
    "transformers",
    "torch",
    "datasets",
    "matplotlib",
    "seaborn",
    "pandas",
    "statsmodels",
    "pytest",
    "nbval",
]


def test_environment_file_says_what_pyproject_says():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    *conda, last = environment["dependencies"]
    assert conda == ["python=3.11", "pip", "llama-cpp-python>=0.3.7"]
    own = ["-e .", *model_wheels()]
    packages = [line for line in last["pip"] if line not in own]
    assert len(packages) + len(own) == len(last["pip"]), f"one of {own} is missing or twice"
    named = {canonicalize_name((found := Requirement(line)).name): found for line in packages}
    assert set(named) == set(STOOD_ON)
    project = project_requirements()
    assert {name: str(found.specifier) for name, found in named.items()} == {
        name: str(project[name].specifier) for name in STOOD_ON
    }


def test_lock_leaves_out_torch_and_what_comes_with_it():
    unwanted = re.compile(r"torch|triton|(nvidia|cuda)-.*")
    assert [name for name in locked("requirements.lock") if unwanted.fullmatch(name)] == []


def test_every_locked_package_has_a_hash():
    for name in ("requirements.lock", "requirements-models.lock"):
        packages = locked(name)
        assert packages and [package for package, (_, hashes) in packages.items() if not hashes] == [], name


def test_lock_satisfies_pyproject():
    """The extras' packages are locked too, so that their tests run."""
    packages = locked("requirements.lock")
    wanted = {name: found for name, found in project_requirements().items() if name != "torch"}
    assert sorted(set(wanted) - set(packages)) == [], "missing from requirements.lock: make lock"
    wrong = [str(found) for name, found in wanted.items() if not found.specifier.contains(packages[name][0])]
    assert wrong == [], "requirements.lock pins another version: make lock"


def model_wheels() -> list[str]:
    return [f"{name}=={version}" for name, (version, _) in locked("requirements-models.lock").items()]


def test_makefile_installs_what_is_locked_and_required():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"TORCH := {project_requirements()['torch']}\n" in makefile
    models = re.search(r"^MODELS := (.*)$", makefile, flags=re.MULTILINE)[1].split()
    assert sorted(models) == sorted(model_wheels())


# ------------------------------------------------------------ notebooks


def test_there_are_notebooks():
    assert NOTEBOOKS, "notebooks/ is empty"


def test_every_notebook_is_published_and_listed():
    names = [relative(path).removeprefix("book/") for path in PUBLISHED]
    assert names == [relative(path).removeprefix("notebooks/") for path in NOTEBOOKS]
    listed = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    assert [name for name in names if f"book/{name.removesuffix('.ipynb')}\n" not in listed] == []


def test_sources_have_no_outputs():
    kept = [
        f"{path.name}, cell {number}"
        for path in NOTEBOOKS
        for number, cell in cells(path, "code")
        if cell["outputs"] or cell["execution_count"] is not None
    ]
    assert kept == []


def test_published_notebooks_have_outputs():
    without = [path.name for path in PUBLISHED if not any(cell["outputs"] for _, cell in cells(path, "code"))]
    assert without == [], "not executed: make book"


def not_literal(statement: ast.stmt) -> bool:
    """Whether a statement is something other than `name = literal`."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value):
            pass
        case ast.AnnAssign(target=ast.Name(), value=ast.expr() as value):
            pass
        case _:
            return True
    try:
        ast.literal_eval(value)
    except ValueError:
        return True
    return False


def test_one_parameters_cell_with_literals_only():
    for path in NOTEBOOKS:
        tagged = [cell for _, cell in cells(path, "code") if "parameters" in cell["metadata"].get("tags", [])]
        assert len(tagged) == 1, f"{path.name}: exactly one cell is tagged `parameters`"
        body = ast.parse(source(tagged[0])).body
        assert body, path.name
        assert [ast.unparse(statement) for statement in body if not_literal(statement)] == [], path.name


def test_what_counts_as_a_literal():
    body = ast.parse("a = 1\nb: list = ['x', -2.5]\nc = {'k': (None, True)}\nd = a\ne = f()\nprint(1)\nf += 1\n").body
    assert [not_literal(statement) for statement in body] == [False, False, False, True, True, True, True]


def test_code_cells_are_short():
    most = {True: MAX_FOLDED_LINES, False: MAX_CELL_LINES}
    long = [
        f"{relative(path)}, cell {at}: {lines}" for path in NOTEBOOKS for at, cell in cells(path, "code")
        if (lines := len(source(cell).splitlines())) > most[is_folded(cell)]
    ]
    assert long == []


def is_folded(cell: dict) -> bool:
    return bool(FOLDED & {*cell["metadata"].get("tags", [])})


def test_prose_before_every_code_cell_that_is_not_folded():
    for path in NOTEBOOKS:
        kinds = ["folded" if is_folded(cell) else cell["cell_type"] for _, cell in cells(path)]
        pairs = enumerate(zip(["", *kinds], kinds, strict=False))
        bare = [number for number, (before, kind) in pairs if kind == "code" and before == "code"]
        assert bare == [], f"code cells of {path.name} without prose before them"


PATH = re.compile(
    r"\.\.?/.*|~/.*|/[\w.-]+(/.*)?|[A-Za-z]:[\\/].*"  # ../x  ~/x  /x/y  C:\x
    r"|(?!https?:)[\w.-]+(/[\w.-]+)*/[\w-]+(\.[\w-]+)*\.(csv|gz|ipynb|json|jsonl|md|npz|parquet|png|py|safetensors|txt|yml)"
)


def paths_in(code: str) -> list[str]:
    """String literals that are file paths."""
    constants = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    return [value for value in constants if isinstance(value, str) and (PATH.fullmatch(value) or "../" in value)]


def test_what_counts_as_a_path():
    paths = ["../data", "./x", "~/cache", "/usr/share", "data/results/a.csv", "x/../y"]
    others = ["/", "a/b", "and/or", "passages/question", "https://x.org/a.json", "n/a", "P@5", "tokens / s"]
    assert [value for value in paths + others if paths_in(repr(value))] == paths


def test_no_shell_and_no_paths_in_code():
    for path in NOTEBOOKS:
        for number, cell in cells(path, "code"):
            shell = re.findall(r"^\s*[!%].*", source(cell), flags=re.MULTILINE)
            assert shell == [], f"{path.name}, cell {number}: shell command or magic"
            assert paths_in(source(cell)) == [], f"{path.name}, cell {number}: a path; rag_utils knows the places"


# ------------------------------------------------------------ figures

NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:[.,]\d+)*")


def numbers(text: str) -> set[str]:
    """The numbers of a text as they are printed, without sign and thousands separators.

    >>> sorted(numbers("0.47 [0.31, 0.62], n = 1,190; -3 at P@5."))
    ['0.31', '0.47', '0.62', '1190', '3', '5']
    """
    found = (number.strip("-−").rstrip(".,") for number in NUMBER.findall(text))
    return {re.sub(r",(?=\d{3}(?!\d))", "", number) for number in found}


def output_text(output: dict) -> str:
    """What an output says in words and numbers, tables included."""
    data = output.get("data", {})
    html = re.sub(r"<style.*?</style>|<[^>]*>", " ", "".join(data.get("text/html", [])), flags=re.DOTALL)
    return " ".join(["".join(output.get("text", [])), "".join(data.get("text/plain", [])), html])


def has_figure(cell: dict) -> bool:
    return any("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def figure_findings(path: Path) -> list[str]:
    """What is wrong with the alternative text of a notebook's figures."""
    code = cells(path, "code")
    said = [source(cell) for _, cell in cells(path, "markdown")]
    said += [output_text(output) for _, cell in code for output in cell["outputs"]]
    known = numbers("\n".join(said))
    found = []
    for number, cell in code:
        if has_figure(cell):
            alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "").strip()
            if not alt:
                found.append(f"cell {number}: no alternative text in mystnb.image.alt")
            caption = cell["metadata"].get("mystnb", {}).get("figure", {}).get("caption", "")
            told = numbers(f"{alt} {caption}".replace("95 %", ""))
            found += [f"cell {number}: {value} is in no output" for value in sorted(told - known)]
    return found


def test_figures_say_what_they_show():
    assert {path.name: wrong for path in PUBLISHED if (wrong := figure_findings(path))} == {}


def test_wrong_alternative_text_is_found(tmp_path):
    def figure(**metadata):
        picture = {"output_type": "display_data", "data": {"image/png": "", "text/plain": ["<Figure size 640x480>"]}}
        return {"cell_type": "code", "source": [], "metadata": metadata, "outputs": [picture]}

    table = {"output_type": "execute_result", "data": {"text/html": "<td>0.47</td><td>240</td>"}}
    code = {"cell_type": "code", "source": ["x = 0.99"], "metadata": {}, "outputs": [table]}
    alts = ["0.47 of 240", "falls to 0.99"]
    content = [code, figure(), *(figure(mystnb={"image": {"alt": alt}}) for alt in alts)]
    path = tmp_path / "chapter.ipynb"
    path.write_text(json.dumps({"cells": content}))
    assert figure_findings(path) == ["cell 1: no alternative text in mystnb.image.alt", "cell 3: 0.99 is in no output"]


# ------------------------------------------------------------ every file of the tree


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """What is tracked, or would be with `git add --all`."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not run: this tree is not a git checkout")
    return [path for name in sorted(set(done.stdout.split("\0"))) if name and (path := ROOT / name).is_file()]


MACHINE_PATH = re.compile(r"(?<![\w./*}$-])/(?:root|work|(?:home|Users)/(?!someone/)[\w-]+|tmp/bash[_]jobs)/")


def test_what_counts_as_a_path_of_a_machine():
    slash = "/"
    own = [slash + name + slash + "x" for name in ("root", "home/ann", "Users/ann", "work")]
    assert all(MACHINE_PATH.search(f'open("{path}")') for path in own)
    assert not MACHINE_PATH.search(
        "book/root.html, https://example.org/home/page/, /home/<user>/x, /home/someone/x, /tmp/x"
    )


def test_no_path_of_a_machine(files):
    found = []
    for path in files:
        lines = path.read_bytes().decode("utf-8", errors="replace").splitlines()
        found += [f"{relative(path)}:{number}" for number, line in enumerate(lines, 1) if MACHINE_PATH.search(line)]
    assert found == []


def test_no_large_file(files):
    assert {relative(path): size for path in files if (size := path.stat().st_size) > MAX_BYTES} == {}


def test_the_committed_numbers_are_whole_and_each_file_belongs_to_a_table():
    assert list(sealed.damage(ROOT / "data" / "results")) == []
