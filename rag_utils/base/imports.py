"""Which files of the packages a piece of code stands on, read from its imports and never by running it."""

import ast
from importlib.util import resolve_name
from pathlib import Path

from rag_utils.base.cache import ROOT

PACKAGES = ("rag_utils", "experiments", "book")


def files(root: Path = ROOT) -> dict[str, Path]:
    """Dotted name -> path of every file of the packages."""
    paths = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def of(code: str, known: set[str] | dict, *, package: str = "") -> tuple[set[str], set[str]]:
    """(files of the packages, other top-level packages) that a piece of code imports, wherever in it.

    package : where the code lies, for relative imports

    >>> of("import torch.nn\\nfrom rag_utils import stats as s", {"rag_utils", "rag_utils.stats"})
    ({'rag_utils.stats'}, {'torch'})
    """
    own, other = set(), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            modules = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]
        else:
            continue
        ours = {module for module in modules if module.split(".")[0] in (*PACKAGES, "training", "benchmarks")}
        own |= ours
        other |= {module.split(".")[0] for module in {*modules} - ours}
    return own, other


def of_file(name: str, path: Path, known: set[str] | dict) -> tuple[set[str], set[str]]:
    """`of` a file of the packages, by its dotted name."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return of(path.read_text(encoding="utf-8"), known, package=package)


def reached(code: str, root: Path = ROOT) -> set[Path]:
    """Every file of the packages that a piece of code imports, also through other files, with the packages that these lie in."""
    known, seen = files(root), set()
    waiting, _ = of(code, known)
    while waiting:
        name = waiting.pop()
        if name in known and name not in seen:
            seen.add(name)
            waiting |= {name.rpartition(".")[0]} | of_file(name, known[name], known)[0]
    return {known[name] for name in seen}
