"""Chapters: from a source notebook with parameters to an executed one.

`notebooks/NAME.ipynb` is executed by papermill into a scratch file and moved to its place only if every cell ran. Times, paths and
random ids are taken out, so that executing twice gives the same bytes.
"""

import ast
import hashlib
import json
import os
import tempfile
from pathlib import Path

import nbformat

from rag_utils.base.cache import ROOT, make_dir
from rag_utils.base.names import check_name
from rag_utils.base.progress import TERMINAL, terminal_name
from rag_utils.engine import weights
from rag_utils.engine.recordings import Recordings

SOURCES = ROOT / "notebooks"
BOOK = ROOT / "book"
RUNS = ROOT / "runs"
STAMPS = ROOT / "_build" / "stamps"
RECORDINGS = ROOT / "data" / "recordings"
INPUTS = (
    "rag_utils/**/*.py",
    "rag_utils/**/*.mplstyle",
    "experiments/**/*.py",
    "data/**/*.json*",
    "data/**/*.csv",
    "data/**/*.txt",
    "data/**/*.safetensors",
    "benchmarks/*.json",
    "requirements*.lock",
)


class ChapterError(RuntimeError):
    """A cell of a chapter failed; the message names the chapter and says what the cell said."""


def names() -> list[str]:
    """The chapters, in the order of the book."""
    return sorted(path.stem for path in SOURCES.glob("*.ipynb"))


def parameters(chapter: str) -> dict[str, object]:
    """The chapter's parameters with their defaults: the literals of its cell tagged `parameters`.

    raises : ValueError for an unknown chapter, or a parameters cell that holds more than literals
    """
    notebook = nbformat.read(SOURCES / f"{check_name('chapter', chapter, names())}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise ValueError(f"{chapter} has {len(cells)} cells tagged `parameters`, want one")
    try:
        return {line.targets[0].id: ast.literal_eval(line.value) for line in ast.parse(cells[0].source).body}
    except (AttributeError, ValueError) as error:
        raise ValueError(
            f"the parameters cell of {chapter} may hold only lines such as name = literal: {error}"
        ) from error


def checked(chapter: str, given: dict[str, object]) -> dict[str, object]:
    """`given`, if the chapter has parameters of these names and types.

    raises : ValueError with the near names, or naming the type that was wanted
    """
    defaults = parameters(chapter)
    values = {}
    for name, value in given.items():
        default = defaults[check_name(f"parameter of {chapter}", name, defaults)]
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if default is not None and type(value) is not type(default):
            raise ValueError(
                f"parameter {name} of {chapter} must be of type {type(default).__name__} as {default!r} is, got {value!r}"
            )
        values[name] = value
    return values


def run(chapter: str, given: dict[str, object] | None = None, *, output: Path | None = None) -> Path:
    """Execute a chapter and return where the executed notebook is.

    given  : parameters that differ from the chapter's own
    output : by default `book/` without parameters, `runs/` with them
    raises : ValueError for an unknown chapter or parameter, ChapterError if a cell fails; then `output` is as it was before
    """
    given = checked(chapter, given or {})
    output = output or (RUNS if given else BOOK) / f"{chapter}.ipynb"
    make_dir(output.parent)
    handle, scratch = tempfile.mkstemp(suffix=".ipynb", prefix=f".{chapter}-", dir=make_dir(RUNS))
    os.close(handle)
    try:
        _execute(chapter, given, Path(scratch))
        notebook = _cleaned(nbformat.read(scratch, as_version=4))
        Path(scratch).write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        os.replace(scratch, output)
    finally:
        Path(scratch).unlink(missing_ok=True)
    if given.get("mode") == "live":
        seal(chapter)
    return output


def build(*, say=print) -> None:
    """Execute every chapter whose source, inputs or executed notebook changed since it was last executed here."""
    prepare(say=say)
    for chapter in names():
        stamp = STAMPS / f"{chapter}.json"
        if stamp.exists() and json.loads(stamp.read_text()) == _digest(chapter):
            say(f"{chapter}: nothing changed")
            continue
        say(f"{chapter}: executing")
        run(chapter)
        make_dir(stamp.parent)
        stamp.write_text(json.dumps(_digest(chapter)))


def prepare(*, say=print) -> None:
    """Unpack the embedded reader, if that was not done yet, so that no chapter has to wait for it."""
    if not weights.embedded_is_ready():
        say("unpacking the embedded reader, once: half a minute")
        weights.embedded_directory()


def seal(chapter: str) -> None:
    """Merge what a live run recorded into the chapter's tracked file."""
    Recordings(RECORDINGS / f"{chapter}.jsonl", writable=True).close()


def _execute(chapter: str, given: dict, scratch: Path) -> None:
    import papermill

    terminal = terminal_name()
    settings = {"PYTHONHASHSEED": "0", "JUPYTER_PLATFORM_DIRS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    settings |= {TERMINAL: terminal} if terminal else {"TQDM_DISABLE": "1"}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        papermill.execute_notebook(
            str(SOURCES / f"{chapter}.ipynb"),
            str(scratch),
            parameters=given,
            kernel_name="python3",
            cwd=str(BOOK),
            progress_bar=False,
            log_output=False,
        )
    except papermill.PapermillExecutionError as error:
        raise ChapterError(f"{chapter}, cell {error.exec_count}: {error.ename}: {error.evalue}") from error
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def _cleaned(notebook):
    """The notebook without what differs between two equal runs."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = cell.id if "injected-parameters" not in cell.metadata.get("tags", []) else f"injected-{number}"
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    return notebook


def _joined(outputs: list) -> list:
    """Consecutive pieces of one stream as one: where a stream is cut depends on the machine's speed."""
    joined = []
    for output in outputs:
        last = joined[-1] if joined else None
        if (
            last is not None
            and output.output_type == "stream"
            and last.output_type == "stream"
            and last.name == output.name
        ):
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _digest(chapter: str) -> dict[str, str]:
    inputs = sorted({SOURCES / f"{chapter}.ipynb", *(path for pattern in INPUTS for path in ROOT.glob(pattern))})
    digest = hashlib.sha256()
    for path in inputs:
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    executed = BOOK / f"{chapter}.ipynb"
    return {
        "inputs": digest.hexdigest(),
        "executed": hashlib.sha256(executed.read_bytes()).hexdigest() if executed.exists() else "",
    }
