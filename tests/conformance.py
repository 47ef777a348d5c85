"""The cases of data/conformance as tests read them, and the script that ships with them."""

import importlib.util
import json

import numpy as np

from rag_utils.base.cache import ROOT

FOLDER = ROOT / "data" / "conformance"
FILES = sorted(path.stem for path in FOLDER.glob("*.json"))


def _script():
    spec = importlib.util.spec_from_file_location("conformance_check", FOLDER / "check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = _script()


def cases(file: str, function: str | None = None) -> list[dict]:
    """The cases of a file, or those of one function."""
    return [case for case in check.cases(file) if function in (None, case["function"])]


def given(file: str, name: str) -> list:
    """The inputs of the case of that name, lists as arrays."""
    [inputs] = [case["inputs"] for case in cases(file) if case["name"] == name]
    return [np.array(value) if isinstance(value, list) else value for value in inputs.values()]


def expected(file: str, name: str):
    """What the case of that name expects."""
    [value] = [case["expected"] for case in cases(file) if case["name"] == name]
    return value


def beside(file: str) -> dict:
    """What a file holds beside its cases."""
    return json.loads((FOLDER / f"{file}.json").read_text(encoding="utf-8"))["beside"]
