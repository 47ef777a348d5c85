"""Numbers that a chapter shows and does not compute anew: rows, with exactly the settings that they were measured with.

    rows = table("02_seper_validity", "nq", on_benchmark, mode=mode, profile=profile, dataset="nq", questions=200, seed=0)

An experiment is a function whose keyword arguments are its settings. `table` calls it and keeps the rows under these settings; with others
it refuses to show them. Rows are numbers per question id and short labels; a text cannot enter. What is committed lies in
`data/results/CHAPTER/NAME.csv`, and `NAME.json` beside it holds function, settings, facts and the checksums of both files. What a run
measures goes to the user's cache, under its settings, and becomes a tracked file by `rag-companion seal` only.
"""

import hashlib
import importlib
import inspect
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rag_utils import prompts
from rag_utils.base.cache import ROOT, cache_dir, make_dir
from rag_utils.base.names import check_name

FOLDER = ROOT / "data" / "results"
MODES = ("replay", "live", "fresh")
LABEL = re.compile(r"[\w.:|+-]+( [\w.:|+-]+){0,3}")  # an id or the name of a condition, not a sentence
KEY = ("id", "condition", "prompt", "samples", "run", "rank")  # no two rows are the same in all of these
NOT_MISSING = {"keep_default_na": False, "na_values": [""]}  # an id may be "NA"


class TableError(ValueError):
    """Rows are not there, damaged, or measured with other settings; the message says which, and what to do."""


@dataclass(frozen=True)
class Kept:
    """Rows and what they were measured with.

    function : "experiments.FOLDER.FILE:NAME"
    settings : its keyword arguments, as JSON
    facts    : what the function says of its run: fingerprints of models, checksums of data, counts
    """

    rows: pd.DataFrame
    function: str
    settings: dict
    facts: dict


def table(chapter: str, name: str, function: Callable, *, mode: str = "replay", **settings) -> pd.DataFrame:
    """The rows that `function(mode=mode, **settings)` returns, or returned when they were measured.

    function : of a file below `experiments`, by its own name. Takes `mode` and keyword settings that JSON can hold, returns rows or (rows,
               facts). Prompts are named by settings that are called "prompt" or "prompts" (a name, a list or a mapping of names) or end in
               "_prompt"; their texts count as part of the setting
    mode     : "replay" shows what is kept; "live" measures what is not kept with these settings, and keeps it in the user's cache; "fresh"
               measures, and keeps nothing
    returns  : rows; what they were measured with is in `.attrs["kept"]`
    raises   : TableError if there are no rows with these settings, naming each setting that differs, or if a file is damaged
    """
    check_name("mode", mode, MODES)
    wanted = Kept(pd.DataFrame(), named(function), written(settings), {})
    if mode == "fresh":
        return _shown(measured(wanted, mode=mode))
    try:
        return _shown(_stored(chapter, name, wanted))
    except TableError:
        if mode == "replay" or not _may_measure(chapter, name, wanted):
            raise
    kept = measured(wanted, mode=mode)
    save(_own(chapter, name, kept), kept)
    return _shown(load(_own(chapter, name, kept)))


def kept(chapter: str, name: str) -> Kept:
    """The committed rows of a chapter, checked against their checksums, whatever their settings.

    raises : TableError naming the file if it is missing or damaged
    """
    return load(_tracked(chapter, name))


def every(chapter: str | None = None) -> Iterator[tuple[str, str]]:
    """(chapter, name) of all committed tables, in alphabetical order."""
    for path in sorted(FOLDER.glob(f"{chapter or '*'}/*.json")):
        yield path.parent.name, path.stem


def measured(wanted: Kept, *, mode: str, **few) -> Kept:
    """Call the function that `wanted` names with its settings.

    few : further arguments, such as few=3 for a function that can measure its first questions only
    """
    module, _, name = wanted.function.partition(":")
    if not module.startswith("experiments."):
        raise TableError(f"{wanted.function} is no experiment; wanted a function of a file below experiments/")
    function = getattr(importlib.import_module(module), name)
    settings = {
        key: _each(value, lambda one: one.rpartition(" ")[0]) if _is_prompt(key) else value
        for key, value in wanted.settings.items()
    }
    result = function(mode=mode, **settings, **few)
    rows, facts = result if isinstance(result, tuple) else (result, {})
    return Kept(rows, wanted.function, wanted.settings, written(facts))


def takes_few(function: str) -> bool:
    """Whether the experiment can measure its first questions only."""
    module, _, name = function.partition(":")
    return "few" in inspect.signature(getattr(importlib.import_module(module), name)).parameters


def named(function: Callable) -> str:
    """How a function is written in provenance; only functions that can be found again by their name have one."""
    name = f"{function.__module__}:{function.__qualname__}"
    if not name.startswith("experiments.") or "<" in name:
        raise TableError(f"an experiment must be a function of a file below experiments/, got {name}")
    return name


def written(settings: dict) -> dict:
    """Settings as JSON holds them, each prompt as its name and the digest of its text.

    raises : TableError naming the setting that JSON cannot hold
    """
    result = {}
    for key, value in settings.items():
        if _is_prompt(key):
            value = _each(value, lambda one: f"{one} {prompts.load(one).digest}")
        try:
            result[key] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError):
            raise TableError(f"setting {key} must be what JSON can hold, got {type(value).__name__}") from None
    return result


# --- files -----------------------------------------------------------------------------------------


def save(path: Path, kept: Kept) -> None:
    """Write `path` (.json) and the rows beside it. A reader that comes between the two files is told that they do not belong together.

    raises : TableError if a column holds texts, an id is missing or rows repeat their key; nothing is written then
    """
    rows = kept.rows
    if "id" not in rows or rows.empty:
        raise TableError(f"rows of {path.stem} need a column 'id' and at least one row, got columns {list(rows)}")
    for column in rows:
        words = rows[column][~rows[column].map(lambda value: isinstance(value, bool | int | float) or value is None)]
        wrong = [value for value in words if not _is_plain(value)]
        if wrong:
            raise TableError(
                f"column {column!r} of {path.stem} holds {len(wrong)} texts; only ids, short labels and numbers are kept"
            )
    key = [name for name in KEY if name in rows]
    if rows.duplicated(key).any():
        raise TableError(f"rows of {path.stem} repeat {int(rows.duplicated(key).sum())} of their keys {key}")
    text = rows.to_csv(index=False, float_format="%.5g", lineterminator="\n")
    content = {"function": kept.function, "settings": kept.settings, "facts": kept.facts, "rows": len(rows)}
    content["sha256"] = _sha256(text)
    content["seal"] = _seal(content)
    make_dir(path.parent)
    _write(path.with_suffix(".csv"), text)
    _write(path, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def load(path: Path) -> Kept:
    """The rows beside `path` (.json), if both files are what was written.

    raises : TableError naming the file that is missing or damaged
    """
    where, rows_at = _relative(path), path.with_suffix(".csv")
    try:
        content, text = json.loads(path.read_bytes()), rows_at.read_bytes().decode()
    except FileNotFoundError as error:
        raise TableError(f"there is no {_relative(Path(error.filename))}") from None
    except OSError as error:
        raise TableError(f"{_relative(Path(error.filename))} cannot be read: {error.strerror}") from None
    except ValueError:
        raise TableError(f"{where} or its rows are damaged; restore both files with git checkout") from None
    if not isinstance(content, dict) or content.get("seal") != _seal(content):
        raise TableError(f"{where} is damaged: it is not what was written; restore it with git checkout")
    if content["sha256"] != _sha256(text):
        raise TableError(
            f"{_relative(rows_at)} is damaged: its checksum is not the one in {path.name}; restore both with git checkout"
        )
    rows = pd.read_csv(io.StringIO(text), dtype={"id": str}, **NOT_MISSING)
    return Kept(rows, content["function"], content["settings"], content["facts"])


def _stored(chapter: str, name: str, wanted: Kept) -> Kept:
    own = _own(chapter, name, wanted)
    if own.exists():
        return load(own)
    found = load(_tracked(chapter, name))
    apart = [
        f"{key} = {found.settings.get(key, 'nothing')!r}, not {wanted.settings.get(key, 'nothing')!r}"
        for key in sorted({*found.settings, *wanted.settings})
        if found.settings.get(key, _is_prompt) != wanted.settings.get(key, _is_prompt)
    ]
    if found.function != wanted.function:
        apart.insert(0, f"{found.function}, not {wanted.function}")
    if apart:
        raise TableError(f"the numbers of {name} were measured with {'; '.join(apart)}")
    return found


def _may_measure(chapter: str, name: str, wanted: Kept) -> bool:
    """A damaged file is mended, not measured over: only what is absent or was measured otherwise is measured."""
    own, tracked = _own(chapter, name, wanted), _tracked(chapter, name)
    if not own.exists() and tracked.exists():
        load(tracked)
    return not own.exists()


def _tracked(chapter: str, name: str) -> Path:
    for part in (chapter, name):
        if not re.fullmatch(r"\w[\w.-]*", part):
            raise TableError(f"a chapter and a table are named by letters, digits, '_', '-' and '.', got {part!r}")
    return FOLDER / chapter / f"{name}.json"


def _own(chapter: str, name: str, wanted: Kept) -> Path:
    digest = _sha256(json.dumps([wanted.function, wanted.settings], sort_keys=True))[:16]
    return cache_dir("results", chapter, f"{_tracked(chapter, name).stem}-{digest}.json")


def _shown(kept: Kept) -> pd.DataFrame:
    rows = kept.rows.copy()
    rows.attrs["kept"] = {"function": kept.function, "settings": kept.settings, "facts": kept.facts}
    return rows


def _is_prompt(key: str) -> bool:
    return key in ("prompt", "prompts") or key.endswith("_prompt")


def _each(value, change: Callable[[str], str]):
    """`change` applied to a name, or to each name of a list or mapping."""
    if isinstance(value, dict):
        return {key: _each(one, change) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_each(one, change) for one in value]
    return None if value is None else change(value)


def _is_plain(value) -> bool:
    """A number, nothing, or a short label; not a list, not a sentence."""
    if isinstance(value, str):
        return len(value) <= 64 and LABEL.fullmatch(value) is not None
    return pd.api.types.is_scalar(value)


def _relative(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _seal(content: dict) -> str:
    return _sha256(json.dumps({key: value for key, value in content.items() if key != "seal"}, sort_keys=True))[:32]


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise TableError(f"{_relative(path)} could not be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
