"""Writes each lab twice, from one source: `student/` without the solutions, `instructor/` with them and with what only a teacher needs.

usage: python labs/build.py [FOLDER]             FOLDER is _build/labs unless told

A solution stands between `### BEGIN SOLUTION` and `### END SOLUTION` in a function of lab.py; the student finds an error there that names
function and equation. lab.py is cut into the cells of lab.ipynb at `# %%`. Needs nothing but Python.
"""

import ast
import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

LABS = Path(__file__).resolve().parent
FRAME = LABS / "frame"
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
FOR_ALL = ("handout.md", "adapters.py", "data", "tests")
FOR_TEACHERS = ("rubric.md", "mistakes.py")
CONFIG = LABS.parent / "_config.yml"  # which names the repository, or none
BUILT = ".built"  # the hash of the lab.py that was written, so that nobody's work is written over
ANSWERS = {  # what is graded by hand: id of its cell -> what stands in it, points
    "three-sentences": ("## The three sentences\n\nThe handout asks for them, *What to hand in*. Write them here.", 5),
    "open-question": ("## The open question\n\nIt stands at the end of the handout. Write your answer here.", 10),
}


def names() -> list[str]:
    """Every lab: a folder here with a lab.py."""
    return sorted(path.parent.name for path in LABS.glob("*/lab.py"))


def build(name: str, folder: Path) -> None:
    """Write FOLDER/student/NAME and FOLDER/instructor/NAME anew; ValueError if a lab.py there was changed since it was written."""
    source = (LABS / name / "lab.py").read_text(encoding="utf-8")
    points = points_of(LABS / name)
    versions = {"student": (blank(source), FOR_ALL), "instructor": (source, FOR_ALL + FOR_TEACHERS)}
    for version, (code, parts) in versions.items():
        target = folder / version / name
        remove(target)
        shutil.copytree(FRAME, target, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(LABS / "requirements.txt", target)
        for part in parts:
            path = LABS / name / part
            if path.is_dir():
                shutil.copytree(path, target / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, target)
        title, _, rest = (target / "handout.md").read_text(encoding="utf-8").partition("\n")
        (target / "handout.md").write_text(f"{title}\n{elsewhere(name)}{rest}", encoding="utf-8")
        (target / "lab.py").write_text(code, encoding="utf-8")
        text = json.dumps(notebook(code, points), ensure_ascii=False, indent=1)
        (target / "lab.ipynb").write_text(text + "\n", encoding="utf-8")
        (target / BUILT).write_text(digest(target) + "\n", encoding="utf-8")


def elsewhere(name: str) -> str:
    """Where to open a lab without installing anything: a paragraph, "" while `_config.yml` names no repository."""
    form = r"""^repository:\n  url: ["']?([^"'\s]*)["']?\n  branch: (\S+)$"""
    said = re.search(form, CONFIG.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if not said:
        raise ValueError(
            f'{CONFIG.name} names no repository: want `repository:`, under it `url:` (may be ""), then `branch:`'
        )
    address, branch = said.groups()
    if not address:
        return ""
    page = f"_build/labs/student/{name}"
    repository = "/".join(address.strip("/").split("/")[-2:])
    binder = f"https://mybinder.org/v2/gh/{repository}/{branch}?urlpath=lab/tree/{page}/lab.ipynb"
    return (
        f"\nOpen it on [Binder]({binder}), or upload `lab.ipynb` to Colab and run this in a cell before all others:\n\n"
        f"```\n!git clone --depth 1 {address} companion && python companion/labs/build.py\n%cd companion/{page}\n```\n"
    )


def remove(target: Path) -> None:
    if (target / "lab.py").exists():
        known = (target / BUILT).read_text(encoding="utf-8").strip() if (target / BUILT).exists() else ""
        if digest(target) != known:
            raise ValueError(f"{target / 'lab.py'} was changed after it was written: move that folder elsewhere first")
    shutil.rmtree(target, ignore_errors=True)


def digest(target: Path) -> str:
    return hashlib.sha256((target / "lab.py").read_bytes() + (target / "lab.ipynb").read_bytes()).hexdigest()


def solutions(source: str) -> dict[str, tuple[int, int, str]]:
    """Function -> (line of BEGIN, line of END, what its docstring has as `source`), lines from 0; ValueError if marks do not pair up."""
    lines, regions = source.splitlines(), {}
    body = ast.parse(source).body
    ends = [node.lineno - 1 for node in body[1:]] + [len(lines)]  # a comment that ends a function is not in its node
    for node, end in zip(body, ends, strict=True):
        if isinstance(node, ast.FunctionDef):
            inside = [n for n in range(node.lineno, end) if lines[n].strip() in (BEGIN, END)]
            if inside:
                stated = re.search(r"^\s*source\s*:\s*(.+)$", ast.get_docstring(node) or "", flags=re.MULTILINE)
                if [lines[n].strip() for n in inside] != [BEGIN, END] or not stated:
                    wanted = f"one {BEGIN!r}, then one {END!r}, and `source :` in its docstring"
                    raise ValueError(f"{node.name} must have {wanted}")
                regions[node.name] = (*inside, stated[1])
    marks = sum(line.strip() in (BEGIN, END) for line in lines)
    if not regions or marks != 2 * len(regions):
        raise ValueError(f"{marks} marks for {len(regions)} solutions; each stands alone on its line, in a function")
    return regions


def blank(source: str) -> str:
    """lab.py as the student gets it."""
    lines = source.splitlines()
    for name, (begin, end, stated) in reversed(solutions(source).items()):
        indent = " " * (len(lines[begin]) - len(lines[begin].lstrip()))
        lines[begin : end + 1] = [f'{indent}raise NotImplementedError("not written yet: {name}, {stated}")']
    return "\n".join(lines) + "\n"


def points_of(lab: Path) -> dict[str, int]:
    """Function -> how many tests it has: those called test_FUNCTION or test_FUNCTION_and_more, the longest name that fits."""
    functions = list(solutions((lab / "lab.py").read_text(encoding="utf-8")))
    points = dict.fromkeys(functions, 0)
    for path in sorted((lab / "tests").glob("test_*.py")):
        for test in re.findall(r"^def test_(\w+)\(\)", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            fitting = [name for name in functions if f"{test}_".startswith(f"{name}_")]
            if not fitting:
                raise ValueError(f"test_{test} is of no function of lab.py: begin its name with test_FUNCTION")
            points[max(fitting, key=len)] += 1
    return points


def notebook(code: str, points: dict[str, int]) -> dict:
    """lab.py as a notebook: after each cell with something to write one that runs its tests; at the end what is graded by hand.

    The metadata are nbgrader's.
    """
    cells = []
    for part in re.split(r"^# %%", code, flags=re.MULTILINE):
        kind, _, text = part.partition("\n") if cells else ("", "", part)
        if kind.strip() == "[markdown]":
            cells.append(cell(cells, re.sub(r"^# ?", "", text.strip(), flags=re.MULTILINE), markdown=True))
        elif text.strip():
            written = [name for name in points if re.search(rf"^def {name}\(", text, flags=re.MULTILINE)]
            graded = {"grade_id": written[0], "grade": False, "solution": True, "locked": False} if written else None
            cells.append(cell(cells, text.strip(), graded=graded))
            for name in written:
                graded = {"grade_id": f"test-{name}", "grade": True, "solution": False, "locked": True}
                tested = f'import check\n\ncheck.cell("{name}", globals())'
                cells.append(cell(cells, tested, graded=graded | {"points": points[name]}))
    for name, (text, most) in ANSWERS.items():
        graded = {"grade_id": name, "grade": True, "solution": True, "locked": False, "points": most}
        cells.append(cell(cells, text, markdown=True, graded=graded))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def cell(before: list, text: str, *, markdown: bool = False, graded: dict | None = None) -> dict:
    metadata = {"nbgrader": {"schema_version": 3, "task": False} | graded} if graded else {}
    parts = {"id": f"cell-{len(before):02}", "metadata": metadata, "source": text.splitlines(keepends=True)}
    if markdown:
        return {"cell_type": "markdown", **parts}
    return {"cell_type": "code", **parts, "execution_count": None, "outputs": []}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else LABS.parent / "_build" / "labs")
    for name in names():
        try:
            build(name, folder)
        except ValueError as error:
            sys.exit(f"{name}: {error}")
        print(folder / "student" / name)


if __name__ == "__main__":
    main()
