"""The command `rag-companion`: run chapters, look after the data sets; `score.command` adds the rest."""

import ast
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rag_utils.base.cache import CacheError
from rag_utils.corpora import manifest
from rag_utils.engine.calls import MODES
from rag_utils.engine.recordings import RecordingError
from rag_utils.engine.weights import WeightsError
from rag_utils.page import chapters

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False)
data = typer.Typer(no_args_is_help=True, help="The public benchmarks: where they are, and how to get them.")
app.add_typer(data, name="data")

Mode = StrEnum("Mode", MODES)


@app.command()
def run(
    chapter: Annotated[str, typer.Argument(help="A chapter, such as 01_data_and_models.")],
    parameter: Annotated[list[str], typer.Option("-p", "--parameter", help="NAME=VALUE; may be repeated.")] = (),
    mode: Annotated[Mode, typer.Option(help="live records what is missing, fresh ignores recordings.")] = Mode.replay,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where the executed notebook goes, a .ipynb file.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that compute, each with the model; more than 1 by Ray.")] = 1,
) -> None:
    """Execute one chapter. Without parameters the page in the book is renewed; with them the result replaces the last one in runs/."""
    chapters.checked(chapter, given := dict(map(assignment, parameter)))
    if output is not None and output.suffix != ".ipynb":
        raise ValueError(f"--output names the executed notebook, a file that ends in .ipynb; got {str(output)!r}")
    if workers > 1 and mode is Mode.replay:
        raise ValueError(f"a replay computes nothing that {workers} workers could share; add --mode live, or leave --workers out")
    os.environ["RAG_COMPANION_WORKERS"] = str(workers)  # for the kernel, see `score.workers`
    if mode is not Mode.replay:
        typer.echo(f"{chapter}: executing, mode {mode.value}", err=True)
        result = chapters.run(chapter, {**given, "mode": mode.value}, output=output)
    if mode is Mode.replay or (mode is Mode.live and not given and output is None):  # the page is always made from recordings
        result = chapters.run(chapter, given, output=output)
    typer.echo(output or result.relative_to(chapters.ROOT))


@app.command()
def seal(chapter: Annotated[str, typer.Argument(help="A chapter that was run live with its own parameters.")]) -> None:
    """Make tracked files of what a chapter reads: its numbers in data/results, its calls in data/recordings."""
    chapters.seal(chapter, say=typer.echo)


@app.command()
def verify(chapter: Annotated[str | None, typer.Argument(help="A chapter; all of them without.")] = None) -> None:
    """Compute some rows of every committed table again and compare; needs RAG_COMPANION_DATA for those of benchmarks."""
    if chapter is not None:
        chapters.parameters(chapter)
    raise typer.Exit(chapters.verify(*filter(None, [chapter])))


@data.command()
def status() -> None:
    """Where each data set is, whether it is the right file, and its licence."""
    for name, entry, path, is_right in manifest.status():
        state = "absent" if path is None else "ok" if is_right else "wrong checksum"
        typer.echo(f"{name:12} {state:15} {entry.rows:5} rows  {entry.licence}  {path or f'wanted: {entry.path} in RAG_COMPANION_DATA'}")


@data.command()
def fetch(names: Annotated[list[str], typer.Argument(help="Data sets of `rag-companion data status`.")]) -> None:
    """Download data sets into the cache and check each."""
    for name in names:
        typer.echo(manifest.fetch(name))


def assignment(text: str) -> tuple[str, object]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ValueError(f"a parameter is written NAME=VALUE, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def main() -> None:
    """Run the command; an error that the reader can mend is one sentence, not a traceback, and so is Ctrl-C."""
    try:
        app()
    except SystemExit as end:
        if end.code == 130:  # after Ctrl-C
            print("\nrag-companion: stopped; what was computed so far is kept", file=sys.stderr)
        raise
    except (ValueError, CacheError, RecordingError, WeightsError, chapters.ChapterError) as error:
        sys.exit(f"rag-companion: {error}")
