"""What a test of this lab says: what was asked, what came, what was expected, of which equation, and which mistake gives just that."""

import importlib
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

import numpy as np

HERE = Path(__file__).resolve().parent
GIVEN = {HERE / "check.py", HERE / "conftest.py", HERE / "adapters.py"}  # where the student's work does not stand


class Wrong(AssertionError):
    """A test that says in words what is wrong; a notebook shows the words alone."""

    def _render_traceback_(self):
        return str(self).splitlines()


def expect(got, wanted, *, asked, equation, mistakes=None, within=1e-6):
    """Nothing if `got` is `wanted`, number by number; else Wrong, in words for the person who wrote the function.

    asked    : the call, as one would write it
    equation : of the paper, or where else it stands
    mistakes : sentence -> what comes out with that mistake. The first whose value came is named
    within   : how far a number may be off
    raises   : ValueError if the value of a mistake is that of another or what is wanted, for then its sentence would be a guess
    """
    mistakes = mistakes or {}
    values = [*mistakes.values(), wanted]
    for place, value in enumerate(values):
        if any(same(value, other, within) for other in values[place + 1 :]):
            raise ValueError(f"{asked}: {[*mistakes, 'wanted'][place]!r} cannot be told from what comes after it")
    if same(got, wanted, within):
        return
    likely = [sentence for sentence, value in mistakes.items() if same(got, value, within)]
    came, expected = shown(got), shown(wanted)
    if came == expected:  # apart by less than four decimals show
        came, expected = f"{got}", f"{wanted}"
    words = [f"{asked}: {equation}", f"    came      {came}", f"    expected  {expected}"]
    if got is None:
        likely = ["nothing was returned: is there a `return`?"]
    elif not likely and form(got) != form(wanted):
        likely = [f"the shape: {form(got)} came, {form(wanted)} is asked for"]
    raise Wrong("\n".join(words + [f"    likely    {sentence}" for sentence in likely[:1]]))


def form(value):
    """What kind of thing a value is, in words: "one value", "(3, 2)", "a dict"."""
    if isinstance(value, dict):
        return "a dict"
    try:
        return str(np.shape(value) or "one value")
    except ValueError:
        return "a list of parts of different lengths"


def same(left, right, within=1e-6):
    """Whether two values are equal: numbers within `within`, NaN equal to NaN, mappings key by key, anything else as it compares."""
    if isinstance(left, dict) or isinstance(right, dict):
        both = isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys()
        return both and all(same(left[key], right[key], within) for key in left)
    if isinstance(left, str) and isinstance(right, str):  # numpy's strings are strings
        return left == right
    if isinstance(left, str) or isinstance(right, str) or left is None or right is None:
        return type(left) is type(right) and left == right
    try:
        left, right = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
    except (TypeError, ValueError):
        if not all(isinstance(side, list | tuple | np.ndarray) for side in (left, right)):
            return type(left) is type(right) and bool(left == right)
        return len(left) == len(right) and all(same(a, b, within) for a, b in zip(left, right, strict=True))
    return left.shape == right.shape and bool(np.allclose(left, right, rtol=0, atol=within, equal_nan=True))


def shown(value):
    """A value in one line: numbers with four decimals."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {shown(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
        parts = [shown(part) for part in value]
        return "[" + ", ".join(parts if len(parts) <= 12 else [*parts[:10], "...", parts[-1]]) + "]"
    if isinstance(value, float | np.floating):
        return f"{value:z.4f}"
    return str(value) if isinstance(value, np.generic) else repr(value)


def say(error):
    """An error in words, of one line unless a test has said more; never a stack."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_students(frame.filename)]
    if isinstance(error, NotImplementedError):
        return str(error) or f"not written yet: {own[-1].name if own else 'a function'}"
    if isinstance(error, AssertionError):
        return str(error)
    said = " ".join(str(error).split())
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or 'lab.py').name} cannot be read: {what}"
    if not own:
        return f"stopped with {what}"
    name, line = Path(own[-1].filename).name, f"line {own[-1].lineno}: {own[-1].line}"
    return f"{name if own[-1].name == '<module>' else own[-1].name} stopped with {what}\n    in {name}, {line}"


def _is_students(filename):
    path = Path(filename)
    given = path in GIVEN or path.parent == HERE / "tests" or "importlib" in filename
    return not given and not {"site-packages", "dist-packages"} & set(path.parts)


def run(function=None):
    """Test -> what it says, None where it passes; all tests, or those of one function: test_FUNCTION and test_FUNCTION_and_more."""
    for folder in (str(HERE), str(HERE / "tests")):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    said, adapters = {}, importlib.import_module("adapters")
    functions = [name for name in vars(adapters) if callable(getattr(adapters, name))]
    for path in sorted((HERE / "tests").glob("test_*.py")):
        for name, test in vars(importlib.import_module(path.stem)).items():
            fitting = [each for each in functions if f"{name}_".startswith(f"test_{each}_")]
            if name.startswith("test_") and (function is None or function == max(fitting, key=len, default=None)):
                try:
                    test()
                    said[name] = None
                except Exception as error:
                    said[name] = say(error)
    return said


def cell(function, namespace):
    """In a notebook: run the tests of a function that stands in it, raise Wrong if one fails, else say how many pass."""
    __tracebackhide__ = True
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    importlib.import_module("adapters").lab = SimpleNamespace(**namespace)
    said = run(function)
    wrong = [f"{name}\n{words}" for name, words in said.items() if words]
    if wrong:
        raise Wrong("\n\n".join(wrong))
    print(f"{function}: {len(said)} of {len(said)} tests pass")
