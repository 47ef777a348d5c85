"""A chapter's cells run in this process with one parameter changed, until the page is another one or a cell stops.

    python tests/replayed.py 03_erag_kendall                 every parameter of a chapter, each with another value
    python tests/replayed.py 03_erag_kendall k=5 seed=1      these values

Cells before the first that mentions a parameter cannot depend on it: they run once, and the process forks there.
"""

import ast
import io
import json
import os
import re
import sys
import traceback
from dataclasses import dataclass

import pandas as pd

from rag_utils.page import chapters
from rag_utils.page import parameters as parameters_of

ALONE = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1", "MPLBACKEND": "agg"}
SAME = {r"0x[0-9a-fA-F]{6,}": "ADDR", r"T_[0-9a-f]{5,}": "STYLER", r"/tmp/ipykernel_\d+/\d+\.py": "IPYKERNEL"}
SENTENCES = ("Unmeasured", "TableError", "RecordingError")  # a ValueError is one where our own code raises it


@dataclass(frozen=True)
class Outcome:
    """What a changed parameter did: "changed", "refused", "crashed" or "ignored", in which cell, and what was said."""

    kind: str
    cell: int | None = None
    said: str = ""


class Page:
    """The code cells of a chapter with what the published page shows below each."""

    def __init__(self, chapter: str):
        self.chapter = chapter
        self.cells = [cell.source for cell in chapters.source(chapter).cells if cell.cell_type == "code"]
        page = json.loads((chapters.BOOK / f"{chapter}.ipynb").read_text(encoding="utf-8"))
        shown = [cell["outputs"] for cell in page["cells"] if cell["cell_type"] == "code"]
        self.shown = [[_published(output) for output in outputs] for outputs in shown]
        self.names = [
            {node.id for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.Name)} for cell in self.cells
        ]
        self.first = next(n for n, cell in enumerate(self.cells) if set(chapters.parameters(chapter)) <= self.names[n])

    def mentions(self, parameter: str) -> int | None:
        """The first cell after that of the parameters in which its name stands."""
        return next((n for n in range(self.first + 1, len(self.cells)) if parameter in self.names[n]), None)


def outcomes(chapter: str, changes: list[tuple[str, object]]) -> dict[tuple[str, str], Outcome]:
    """(parameter, value as it is written) -> what it did. Also under ("", ""): whether the cells as they are show the page as it is."""
    os.environ.update(ALONE)  # a forked process has none of the threads of its parent
    pd.reset_option("display")  # as a new kernel has it, whatever another page set in this process
    page, results, waiting = Page(chapter), {}, list(changes)
    for name, value in list(waiting):
        if page.mentions(name) is None:
            results[name, repr(value)] = Outcome("ignored", said="no cell mentions it")
            waiting.remove((name, value))
    shell, last = _shell(), max((page.mentions(name) for name, _ in waiting), default=-1)
    os.chdir(chapters.BOOK)
    for number in range(last + 1):
        for name, value in [change for change in waiting if page.mentions(change[0]) == number]:
            results[name, repr(value)] = _forked(lambda n=number, k=name, v=value: _go_on(shell, page, n, {k: v}))
        outcome = _go_on(shell, page, number, {}, only=True)
        if outcome is not None:
            return results | {("", ""): outcome}
    return results


def others(chapter: str) -> list[tuple[str, object]]:
    """For each parameter but `mode` another value that it may have."""
    may = chapters.ranges(chapter)
    default = chapters.parameters(chapter)
    changes = [(name, another(name, value, may.get(name, {}))) for name, value in default.items() if name != "mode"]
    return [(name, value) for name, value in changes if value is not None and value != default[name]]


def another(name: str, value, may: dict):
    """A value that a parameter may have and has not; None if there is none."""
    if isinstance(value, bool):
        return not value
    if name == "seed":
        return value + 1
    if isinstance(value, int | float):
        return (may["from"] if may["from"] != value else may["to"]) if may else None
    if isinstance(value, list):
        if may.get("of") == "questions":
            return [*value[:-1], "q001"]
        return value[:-1] if len(value) > may.get("least", 1) else None
    if isinstance(value, dict):
        key = next(iter(value))
        return value | {key: another(key, value[key], may[key])}
    if name.endswith("profile") or may.get("of") == "profiles":
        return next(one for one in ("embedded-base", "embedded") if one != value)
    if name.endswith("prompt"):
        return _another_prompt(value)
    names = sorted(parameters_of.answers.METRICS) if may.get("of") == "metrics" else may.get("of", ())
    return next((one for one in names if one != value), None)


def _another_prompt(name: str) -> str | None:
    slots = set(parameters_of.prompts.load(name).slots)
    every = [parameters_of.prompts.load(one) for one in parameters_of.prompts.names()]
    return next((one.name for one in every if set(one.slots) == slots and one.name != name), None)


def _go_on(shell, page: Page, number: int, changes: dict, *, only: bool = False) -> Outcome | None:
    """Run cells from `number` on until one shows something else than the page, or stops."""
    shell.user_ns.update(changes)
    for place in range(number, number + 1 if only else len(page.cells)):
        shown, error = _run(shell, page.cells[place])
        if error is not None:
            kind = "refused" if _is_sentence(error) else "crashed"
            return Outcome(kind, place, f"{type(error).__name__}: {error}")
        if place != page.first and not _same(shown, page.shown[place]):
            return Outcome("changed", place, _difference(shown, page.shown[place]))
    return None if only else Outcome("ignored", said="the page is the same to its end")


def _is_sentence(error: BaseException) -> bool:
    """Whether a cell stopped with words of ours for a person, and not with an accident."""
    if type(error).__name__ in SENTENCES:
        return True
    frame = traceback.extract_tb(error.__traceback__)[-1].filename
    return isinstance(error, ValueError) and any(f"/{one}/" in frame for one in ("rag_utils", "experiments"))


def _run(shell, code: str) -> tuple[list, BaseException | None]:
    """What a cell shows, in the form of `_published`, and what it stopped with."""
    import matplotlib.pyplot as plt
    from IPython.core.displayhook import CapturingDisplayHook
    from IPython.core.pylabtools import print_figure
    from IPython.utils.capture import capture_output

    results = []
    shell.display_trap.hook = CapturingDisplayHook(shell, results)
    with capture_output() as captured:
        result = shell.run_cell(code, store_history=False)
    shown = [("text", captured.stdout)] if captured.stdout else []
    shown += [_data(output.data) for output in captured.outputs] + [_data(output["data"]) for output in results]
    for figure in map(plt.figure, plt.get_fignums()):
        figure.canvas.draw()  # as a kernel does; its layout settles at the second drawing only
        shown.append(("figure", print_figure(figure, bbox_inches="tight")))
    plt.close("all")
    return shown, result.error_before_exec or result.error_in_exec


def _published(output: dict):
    if output["output_type"] == "stream":
        return ("text" if output["name"] == "stdout" else "stderr", "".join(output["text"]))
    if "image/png" in output.get("data", {}):
        import base64

        return ("figure", base64.b64decode(output["data"]["image/png"]))
    return _data({kind: "".join(part) for kind, part in output["data"].items() if kind.startswith("text/")})


def _data(data: dict):
    if "image/png" in data:
        return ("figure", data["image/png"])
    return ("html", data["text/html"]) if "text/html" in data else ("text", data.get("text/plain", "") + "\n")


def _same(ours: list, theirs: list) -> bool:
    ours, theirs = _merged(ours), _merged(theirs)
    return [kind for kind, _ in ours] == [kind for kind, _ in theirs] and all(
        _same_figure(one, other) if kind == "figure" else one == other
        for (kind, one), (_, other) in zip(ours, theirs, strict=True)
    )


def _merged(shown: list) -> list:
    """Texts first and as one, names that differ from run to run replaced; then tables, then figures."""
    text = "".join(part.rstrip("\n") + "\n" for kind, part in shown if kind == "text")
    parts = [("text", text)] if text else []
    for wanted in ("html", "figure"):
        parts += [(kind, part) for kind, part in shown if kind == wanted]
    for pattern, word in SAME.items():
        parts = [(kind, re.sub(pattern, word, part) if kind != "figure" else part) for kind, part in parts]
    return parts


def _same_figure(one: bytes, other: bytes) -> bool:
    import numpy as np
    from matplotlib.image import imread

    ours, theirs = (imread(io.BytesIO(part)) for part in (one, other))
    return ours.shape == theirs.shape and float(np.abs(ours - theirs).mean()) < 1 / 1000


def _difference(ours: list, theirs: list) -> str:
    """The first line that is another one."""
    texts = ["\n".join(part for kind, part in _merged(one) if kind != "figure") for one in (ours, theirs)]
    lines = [re.sub(r"<[^>]*>", " ", text).split("\n") for text in texts]
    return next(
        (f"{a.strip()[:90]!r}, not {b.strip()[:90]!r}" for a, b in zip(*lines, strict=False) if a != b),
        "a figure or length",
    )


def _shell():
    import torch
    from IPython.core.interactiveshell import InteractiveShell

    torch.set_num_threads(1)
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.showtraceback = lambda *args, **kwargs: None
    return shell


def _forked(function) -> Outcome:
    """What `function` returns in a copy of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            outcome = function()
        except BaseException as error:
            outcome = Outcome("crashed", said=f"{type(error).__name__}: {error}")
        with os.fdopen(writing, "w", encoding="utf-8") as stream:
            json.dump([outcome.kind, outcome.cell, outcome.said], stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return Outcome(*json.loads(said)) if said else Outcome("crashed", said="the process ended without a word")


def main() -> None:
    chapter, *words = sys.argv[1:]
    given = [(name, ast.literal_eval(value)) for name, _, value in (word.partition("=") for word in words)]
    import time

    start, bad = time.time(), 0
    for (name, value), outcome in outcomes(chapter, given or others(chapter)).items():
        bad += outcome.kind not in ("changed", "refused") or not name
        print(f"{outcome.kind:8} {name}={value} cell {outcome.cell}: {outcome.said[:300]}")
    print(f"{time.time() - start:.0f} s")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
