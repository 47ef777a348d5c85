"""Does an implementation give the values of the cases in this folder? Standard library and numpy only.

python check.py your_module              # all cases
python check.py your_module seper erag   # those of seper.json and erag.json

A function is looked up by its name in your module, then in its submodule of the case's room: `soft` or `seper.soft`. What your module does
not have is counted and not held against it. Exit status 1 if a case fails or there was none to try.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent


def cases(*names: str) -> Iterator[dict]:
    """The cases of these files, or of all, each with its file, source and tolerance."""
    for name in names or sorted(path.stem for path in FOLDER.glob("*.json")):
        content = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        shared = {"file": name, "source": content["source"], "tolerance": content["tolerance"], "options": {}}
        yield from (shared | case for case in content["cases"])


def function_of(module, dotted: str):
    """The function of that name in the module or in its submodule; None if it has none."""
    room, name = dotted.split(".")
    if hasattr(module, name):
        return getattr(module, name)
    if hasattr(module, "__path__") and find_spec(f"{module.__name__}.{room}"):
        return getattr(import_module(f"{module.__name__}.{room}"), name, None)
    return getattr(getattr(module, room, None), name, None)


def argument(value):
    """What a case's JSON stands for: numbers are arrays, null among them is NaN, and two forms of an object are functions."""
    if isinstance(value, dict) and set(value) == {"at least"}:
        return lambda kept: len(kept) >= value["at least"]
    if isinstance(value, dict) and set(value) == {"look up"}:
        return lambda texts: [np.array(value["look up"][text]) for text in texts]
    if not isinstance(value, list) or any(isinstance(part, str) for part in np.ravel(np.array(value, dtype=object))):
        return value
    return np.array([np.nan if part is None else part for part in value])


def difference(got, expected) -> float:
    """The largest difference of two values, infinite where they have another shape or another word."""
    if isinstance(expected, Mapping):
        parts = got if isinstance(got, Mapping) else {name: getattr(got, name) for name in expected}
        return max(difference(parts[name], value) for name, value in expected.items())
    if isinstance(expected, str | bool) or (isinstance(expected, list) and isinstance(expected[0], str)):
        return 0.0 if (got.tolist() if hasattr(got, "tolist") else got) == expected else np.inf
    got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    apart = np.abs(got - expected).max() if got.shape == expected.shape else np.inf
    return float(apart) if np.isfinite(apart) else np.inf


def outcome(module, case: dict) -> tuple[str, str]:
    """("pass" | "FAIL" | "absent", the largest difference or what went wrong)."""
    function = function_of(module, case["function"])
    if function is None:
        return "absent", case["function"]
    try:
        options = {name: argument(value) for name, value in case["options"].items()}
        apart = difference(function(*map(argument, case["inputs"].values()), **options), case["expected"])
    except Exception as error:  # whatever the implementation raises
        return "FAIL", f"{type(error).__name__}: {error}"
    return ("pass" if apart <= case["tolerance"] else "FAIL"), f"{apart:.1e}"


def main(name: str, *files: str) -> int:
    """Print every case and the counts; the exit status."""
    sys.path.insert(0, "")
    module, counts = import_module(name), dict.fromkeys(("pass", "FAIL", "absent"), 0)
    for case in cases(*files):
        said, detail = outcome(module, case)
        counts[said] += 1
        print(f"{said:6}  {case['file']}: {case['name']}  {detail}")
    print(", ".join(f"{count} {said}" for said, count in counts.items()))
    return int(counts["FAIL"] > 0 or not counts["pass"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
