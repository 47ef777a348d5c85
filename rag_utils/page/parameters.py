"""Parameters of a chapter: what they may be, as `notebooks/parameters.toml` says it."""

import math
from pathlib import Path

from rag_utils import answers, data, prompts
from rag_utils.base import checks
from rag_utils.engine import profiles
from rag_utils.engine.calls import MODES


def checked(chapter: str, given: dict, default: dict, may: dict[str, dict]) -> dict[str, object]:
    """`given`, if the chapter has parameters of these names and types, and may take these values; raises ValueError."""
    values = {}
    for name, value in given.items():
        usual = default[checks.one_of(f"parameter of {chapter}", name, default)]
        if isinstance(usual, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if usual is not None and type(value) is not type(usual):
            raise ValueError(f"parameter {name} of {chapter} must be of type {type(usual).__name__} as {usual!r} is, got {value!r}")
        values[name] = _allowed(f"parameter {name} of {chapter}", name, value, may.get(name, {}))
    every = default | values
    for name, other in {name: limits["below"] for name, limits in may.items() if "below" in limits}.items():
        if {name, other} & set(given) and every[name] >= every[other]:
            raise ValueError(f"parameter {name} of {chapter} must be below {other}, got {every[name]!r}")
    return values


def said(may: dict) -> str:
    """What a parameter may be, in words.

    >>> said({"from": 20, "to": 240})
    '20 to 240'
    """
    if "from" in may:
        return f"{may['from']} to {may['to']}" + (f", below {may['below']}" if "below" in may else "")
    of = may.get("of", "")
    return of if isinstance(of, str) else ", ".join(of)


def _allowed(what: str, name: str, value, may: dict):
    """The value, if it and what is in it may be there."""
    least, most = may.get("least", 1), may.get("most", math.inf)
    if isinstance(value, list | dict) and not least <= len(value) <= most:
        wanted = f"{least} to {most}" if "most" in may else f"at least {least}"
        raise ValueError(f"{what} must hold {wanted}, got {value!r}")
    if isinstance(value, list):
        if any(value.count(part) > 1 for part in value):
            raise ValueError(f"{what} must hold each value once, got {value!r}")
        return [_allowed(what, name, part, may) for part in value]
    if isinstance(value, dict):
        parts = {checks.one_of(what, key, may): part for key, part in value.items()}
        return {key: _allowed(f"{what}, {key},", name, part, may[key]) for key, part in parts.items()}
    if "from" not in may:
        return _allowed_name(what, name, value, may) if isinstance(value, str) else value
    low, high = may["from"], may["to"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{what} must be from {low} to {high}, got {value!r}")
    if isinstance(value, float) and isinstance(low, int):
        raise ValueError(f"{what} must be a whole number from {low} to {high}, got {value!r}")
    return value


def _allowed_name(what: str, name: str, value: str, may: dict) -> str:
    try:
        if name.endswith("profile") or may.get("of") == "profiles":
            return profiles.get(value).name
        if name.endswith("prompt"):
            prompts.load(value)
            return str(Path(value).absolute()) if value.endswith(prompts.EXTENSION) else value
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
    known = MODES if name == "mode" else may.get("of")
    if known == "questions":
        known = [question.id for question in data.load("companion")]
    return checks.one_of(what, value, answers.METRICS if known == "metrics" else known) if known else value
