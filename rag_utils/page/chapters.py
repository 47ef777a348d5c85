"""Chapters: from a source notebook with parameters to an executed one.

`notebooks/NAME.ipynb` is executed by papermill into a scratch file and moved to its place only if every cell ran. Times, paths and
random ids are taken out, so that executing twice gives the same bytes. A chapter NN_name is an essay; its record, with all the rest, is
the chapter record/NN_name and shares its numbers and recordings.
"""

import ast
import logging
import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from unittest.mock import patch

import nbformat

from rag_utils.base import checks, imports, sealed
from rag_utils.base.cache import ROOT, make_dir
from rag_utils.base.progress import TERMINAL, terminal_name
from rag_utils.engine import profiles, recordings, weights
from rag_utils.page import parameters as parameters_of

SOURCES = ROOT / "notebooks"
BOOK = ROOT / "book"
RUNS = ROOT / "runs"
STAMPS = ROOT / "_build" / "stamps"
RESULTS = ROOT / "data" / "results"
UNCOMPUTED = ("Unmeasured", "RecordingError")  # what a cell stops with where mode "live" would go on


class ChapterError(RuntimeError):
    """A cell of a chapter failed; the message names the chapter and says what the cell said."""


def names() -> list[str]:
    """The chapters, in the order of the book, and then the records."""
    paths = [*SOURCES.glob("*.ipynb"), *SOURCES.glob("record/*.ipynb")]
    return sorted(path.relative_to(SOURCES).with_suffix("").as_posix() for path in paths)


def source(chapter: str) -> nbformat.NotebookNode:
    """The notebook that a chapter is executed from; ValueError for an unknown chapter or a file that is no notebook."""
    path = SOURCES / f"{checks.one_of('chapter', chapter, names())}.ipynb"
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # nbformat raises what its parsers raise
        raise ValueError(f"{sealed.relative(path)} is no notebook ({type(error).__name__}); restore it") from error
    return notebook


def parameters(chapter: str) -> dict[str, object]:
    """The chapter's parameters with their defaults: the literals of its cell tagged `parameters`.

    raises : ValueError if there is not one such cell, or if it holds more than lines such as name = literal
    """
    cells = [cell for cell in source(chapter).cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise ValueError(f"{chapter} has {len(cells)} cells tagged `parameters`, want one")
    try:
        return {line.targets[0].id: ast.literal_eval(line.value) for line in ast.parse(cells[0].source).body}
    except (AttributeError, ValueError, SyntaxError) as error:
        wanted = "may hold only lines such as name = literal"
        raise ValueError(f"the parameters cell of {chapter} {wanted}: {error}") from error


def ranges(chapter: str) -> dict[str, dict]:
    """What the chapter's parameters may be, from `parameters.toml`, which says its own form; {} where nothing is said."""
    path, own = SOURCES / "parameters.toml", parameters(chapter)
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise ValueError(f"{sealed.relative(path)} cannot be read: {error}") from error
    return {name: may for name, may in said.get(chapter.removeprefix("record/"), {}).items() if name in own}


def checked(chapter: str, given: dict[str, object]) -> dict[str, object]:
    """`given`, if the chapter has parameters of these names and types, and may take these values; raises ValueError."""
    return parameters_of.checked(chapter, given, parameters(chapter), ranges(chapter))


def run(chapter: str, given: dict[str, object] | None = None, *, output: Path | None = None) -> Path:
    """Execute a chapter and return where the executed notebook is.

    given  : parameters that differ from the chapter's own
    output : by default `book/` without parameters, `runs/` with them
    raises : ValueError for an unknown chapter or parameter, ChapterError if a cell fails; then `output` is as it was before
    """
    given = checked(chapter, given or {})
    prepare()
    output = output or (RUNS if given else BOOK) / f"{chapter}.ipynb"
    make_dir(output.parent)
    with tempfile.TemporaryDirectory(prefix=f".{output.stem}-", dir=make_dir(RUNS)) as folder:
        scratch = Path(folder, output.name)
        _execute(chapter, given, scratch)
        notebook = _cleaned(nbformat.read(scratch, as_version=4))
        if changed := ", ".join(f"`{name} = {value!r}`" for name, value in given.items() if name != "mode"):
            said = f"> **A run with {changed}.** Numbers and figures are of this run; the sentences were written for the published page."
            notebook.cells.insert(1, nbformat.v4.new_markdown_cell(said, id="own-run"))
        scratch.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        os.replace(scratch, output)
    return output


def prepare() -> None:
    """Unpack the embedded reader, if that was not done yet, so that no chapter has to wait for it."""
    if not weights.embedded_is_ready():
        print("unpacking the embedded reader, once: half a minute", file=sys.stderr)
        weights.embedded_directory()


def verify(*words: str) -> int:
    """`experiments.verify` in a process of its own, for this package imports no experiment; its exit status."""
    command, environment = [sys.executable, "-m", "experiments.verify", *words], os.environ | {"TQDM_DISABLE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def seal(chapter: str, *, say=print) -> None:
    """Make tracked files of what a chapter reads: its tables in `data/results`, its calls in `data/recordings`.

    The page, and that of its record, is made from recordings with its own parameters first, and tells what it read; then its tables are
    computed again where they are made from recordings, which tells what that reads. Nothing else writes to these two folders.

    raises : ChapterError if the page cannot be made or a table cannot be copied or computed again
    """
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.jsonl")
        with patch.dict(os.environ, {recordings.TRACE: str(trace)}):
            for page in (chapter, f"record/{chapter}"):
                if page in names() or page == chapter:
                    run(page)
            if verify("--adopt", chapter, str(trace)) or verify("--recorded", chapter):
                wrong = "a table cannot be copied, or its function returns another"
                raise ChapterError(f"{chapter} is not sealed: {wrong}")
        if keys := recordings.traced(trace, chapter):
            say(f"{sealed.relative(recordings.seal(chapter, keys))}: {len(keys)} calls")
        else:
            say(f"{chapter} makes no calls of its own: no recording")


def _execute(chapter: str, given: dict, scratch: Path) -> None:
    import papermill

    settings = {"PYTHONHASHSEED": "0", "JUPYTER_PLATFORM_DIRS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    settings |= {TERMINAL: terminal} if (terminal := terminal_name()) else {"TQDM_DISABLE": "1"}
    settings |= {profiles.OWN: str(own)} if (own := profiles.own_file()).exists() else {}  # a kernel works in another folder
    for name in ("papermill", "asyncio"):  # they log what is raised, and the end of a kernel that Ctrl-C stopped
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with patch.dict(os.environ, settings):
            quiet = {"progress_bar": False, "log_output": False, "extra_arguments": ["--log-level=CRITICAL"]}  # of the kernel, after Ctrl-C
            quiet["coalesce_streams"] = True  # where a stream is cut depends on the machine's speed
            names_of = str(SOURCES / f"{chapter}.ipynb"), str(scratch)
            papermill.execute_notebook(*names_of, given, kernel_name="python3", cwd=str(BOOK), **quiet)
    except papermill.PapermillExecutionError as error:
        said = f"{chapter}, cell {error.exec_count}: {error.ename}: {error.evalue.partition('; `rag-companion run')[0]}"
        if words := [f"{name}={value}" for name, value in given.items() if name != "mode"]:
            said = f"{said.removesuffix('.')}. Given: {', '.join(words)}"
        if error.ename in UNCOMPUTED and given.get("mode", "replay") == "replay":
            command = ["rag-companion", "run", chapter, "--mode", "live", *(part for word in words for part in ("-p", word))]
            said = f"{said.removesuffix('.')}. To compute it: {shlex.join(command)}"
        raise ChapterError(said) from error


def _cleaned(notebook):
    """The notebook without what differs between two equal runs."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.id = f"injected-{number}"
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
    return notebook


def inputs(chapter: str) -> set[Path]:
    """The files that a chapter's page is made from: its notebook, what that imports, its data.

    Of other chapters' numbers and recordings, of the papers' tables and of the timings in `benchmarks/` only those that its code mentions.
    """
    cells = "\n".join(cell.source for cell in source(chapter).cells if cell.cell_type == "code")
    modules = imports.reached(cells, ROOT)
    own = [path.read_text(encoding="utf-8") for path in modules if path.is_relative_to(ROOT / "experiments")]
    code, name = "\n".join([cells, *own]), chapter.removeprefix("record/")
    data = {path for path in (ROOT / "data").rglob("*") if path.is_file() and not path.name.startswith(".")}
    for path in sorted(data):
        parts = path.relative_to(ROOT / "data").parts
        whose = {"results": f'"{path.parent.name}"', "recordings": f'"{path.stem}"', "published": f'"{path.stem.split("_")[0]}_'}
        whose["conformance"] = path.name  # which no page reads
        if parts[0] in whose and whose[parts[0]] != f'"{name}"' and whose[parts[0]] not in code:
            data.discard(path)
    timings = {path for path in (ROOT / "benchmarks").glob("*.json") if path.name in code}
    style = {*(ROOT / "rag_utils").rglob("*.mplstyle"), *(ROOT / "book").glob("moving/*.html")}
    return {SOURCES / f"{chapter}.ipynb", *modules, *data, *timings, *style, *ROOT.glob("requirements*.lock")}
