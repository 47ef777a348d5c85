"""The house: which room may import which, over every file that is found; and what a move breaks without a word."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rag_utils.base import imports
from rag_utils.base.cache import ROOT
from rag_utils.engine import weights
from rag_utils.page import chapters, plots

METHODS = {"answers", "seper", "erag", "dense", "uncertainty", "ecorag", "moi", "stats", "similarity", "kappa"}
DOORS = {"lm", "judge", "data", "retrieve", "prompts"}
MODEL_LIBRARIES = {"torch", "transformers", "sentence_transformers", "peft", "safetensors", "gguf"}

# room -> rooms that its files may import from, besides their own. "methods" and "doors" are the files at the top of rag_utils
MAY = {
    "base": set(),
    "methods": {"base"},
    "corpora": {"base"},
    "engine": {"base"},
    "doors": {"base", "methods", "corpora", "engine"},
    "measures": {"base", "methods", "doors", "engine"},
    "page": {"base", "methods", "engine", "corpora", "doors"},
    "score": {"base", "methods", "doors", "engine", "corpora", "measures", "page"},
    "experiments": {"base", "methods", "doors", "engine", "corpora", "measures", "page", "score"},
    "book": {"base", "engine", "page"},
}


def room(name: str) -> str:
    parts = name.split(".")
    if parts[0] in ("experiments", "book"):
        return parts[0]
    if len(parts) < 2:
        return "map"
    if parts[1] in METHODS | DOORS:
        return "methods" if parts[1] in METHODS else "doors"
    return parts[1]


KNOWN = imports.files()
IMPORTS = {name: imports.of_file(name, path, KNOWN) for name, path in KNOWN.items()}


def test_imports_are_read_in_every_form(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        "import torch.nn, rag_utils.lm\nfrom rag_utils import data, stats as s\nfrom rag_utils.base.cache import ROOT\n"
        "from . import erag\nfrom .answers import normalize\ndef f():\n    from transformers import AutoModel\n"
    )
    own = {"lm", "data", "stats", "base.cache", "erag", "answers"}
    assert imports.of_file("rag_utils.x", path, KNOWN) == (
        {f"rag_utils.{one}" for one in own},
        {"torch", "transformers"},
    )


def test_every_room_is_known():
    assert sorted({room(name) for name in KNOWN} - set(MAY) - {"map"}) == []
    top = [path.name for path in (ROOT / "rag_utils").glob("*.py")]
    assert len(top) <= 16, top


def test_the_map_and_the_readme_lead_to_every_room():
    """Each file at the top and each room in both; the map in 20 lines, with the first line of a file saying what it is."""
    path = ROOT / "rag_utils" / "__init__.py"
    texts = {"map": path.read_text(encoding="utf-8"), "README": (ROOT / "README.md").read_text(encoding="utf-8")}
    assert len(texts["map"].splitlines()) <= 20
    rooms = {f"{folder.name}/" for folder in (ROOT / "rag_utils").iterdir() if any(folder.glob("*.py"))}
    names = rooms | {path.stem for path in (ROOT / "rag_utils").glob("*.py")} - {"__init__"}
    missing = [
        f"{name}: {where}" for where, text in texts.items() for name in names if not re.search(rf"\b{name}", text)
    ]
    beside = ("experiments", "training", "benchmarks", "tests")
    missing += [f"{where}/: README" for where in beside if f"`{where}/`" not in texts["README"]]
    assert sorted(missing) == []


def test_the_first_line_of_every_file_says_what_it_is():
    code = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in KNOWN.items()}
    assert [name for name, tree in code.items() if tree.body and not (ast.get_docstring(tree) or "").strip()] == []


def test_every_import_is_of_a_file_that_is_there():
    wrong = [f"{name}: {one}" for name, (own, _) in IMPORTS.items() for one in own if one not in KNOWN]
    assert wrong == []


def test_rooms_import_one_way():
    wrong = [
        f"{name} imports {one}"
        for name, (own, _) in IMPORTS.items()
        if room(name) != "map"
        for one in own
        if one in KNOWN and room(one) not in MAY[room(name)] | {room(name), "map"}
    ]
    assert wrong == []


def test_no_chapter_imports_another():
    def folder(name):
        parts = name.split(".")
        return parts[1] if parts[0] == "experiments" and len(parts) > 2 else None

    wrong = [
        f"{name} imports {one}"
        for name, (own, _) in IMPORTS.items()
        for one in own
        if folder(one) and folder(one) != folder(name)
    ]
    assert wrong == []


def test_no_circle():
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            path.append(name)
            for one in sorted(IMPORTS[name][0] & set(KNOWN)):
                visit(one)
            done.add(path.pop())

    for name in KNOWN:
        visit(name)


def test_methods_import_no_model_library():
    """Neither themselves nor through another file."""
    wrong = [name for name in KNOWN if room(name) == "methods"
             for one in reached(name) if IMPORTS[one][1] & MODEL_LIBRARIES]  # fmt: skip
    assert wrong == []


def reached(name: str) -> set[str]:
    found, waiting = set(), {name}
    while waiting:
        found |= (own := {waiting.pop()})
        waiting |= {one for each in own for one in IMPORTS[each][0] & set(KNOWN)} - found
    return found


@pytest.mark.parametrize(("package", "most"), [("rag_utils", 8500), ("experiments", 3500)])
def test_the_house_does_not_grow(package, most):
    """What is written twice goes before something is added; one's own retrieval run, `score`, is not counted."""
    lines = sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for name, path in KNOWN.items()
        if name.startswith(package) and ".score" not in name
    )
    assert lines <= most, f"{package} has {lines} lines, at most {most}: take out what is written twice, then raise the most"


def scripts():
    return KNOWN | {
        f"{path.parent.name}.{path.stem}": path
        for of in ("training", "benchmarks")
        for path in (ROOT / of).glob("*.py")
    }


def test_functions_are_short_and_take_few_arguments():
    wrong = []
    for name, path in scripts().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = node.end_lineno - node.lineno + 1
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                given = [one for one in given if one.arg not in ("self", "cls")]
                if lines > 60 or len(given) > 8:
                    wrong.append(f"{name}.{node.name}: {lines} lines, {len(given)} parameters")
    assert wrong == []


def test_variables_are_nouns():
    named = {
        f"{name}: {word}"
        for name, path in scripts().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name | ast.arg)
        and (word := getattr(node, "id", None) or node.arg) in ("found", "some", "one")
    }
    assert sorted(named) == [], "a variable is named for what it holds: a noun, not `found`, `some` or `one`"


# --- what a move breaks without a word -------------------------------------------------------------


def test_the_root_is_the_repository():
    assert (ROOT / "pyproject.toml").is_file() and Path(__file__).is_relative_to(ROOT)


def test_the_style_lies_where_plots_looks_and_is_packaged():
    assert plots.STYLE.is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folder = ".".join(plots.STYLE.parent.relative_to(ROOT).parts)
    assert any(plots.STYLE.match(one) for one in project["tool"]["setuptools"]["package-data"][folder])


def test_the_process_apart_finds_the_conversion(tmp_path):
    with pytest.raises(weights.WeightsError, match="the embedded reader could not be written"):
        weights._convert_apart(tmp_path / "no" / "x.gguf", tmp_path / "target")


def test_both_packages_are_installed_from_everywhere(tmp_path):
    code = "import experiments.table, rag_utils.score.cli, rag_utils.engine.decode"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_the_command_is_there(tmp_path):
    command = Path(sys.executable).with_name("rag-companion")
    done = subprocess.run([command, "list"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert all(chapter in done.stdout for chapter in chapters.names())
