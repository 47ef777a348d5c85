"""Numbers that a chapter shows and does not compute anew: rows, with exactly the settings that they were measured with.

    rows = table("NN_chapter", "nq", on_benchmark, mode=mode, profile=profile, dataset="nq", questions=200, seed=0)

An experiment is a function whose keyword arguments are its settings. `table` calls it and keeps the rows under these settings; with others
it refuses to show them. Rows are numbers per question id and short labels; a text cannot enter. What is committed lies in
`data/results/CHAPTER/NAME.csv`, and `NAME.json` beside it holds function, settings, facts and the checksums of both files. What a run
measures goes to the user's cache, under its settings, and becomes a tracked file by `rag-companion seal` only.

Of a committed table a text anywhere is a label (up to four words of letters, digits and . : | + -), a digest, or an address without a space
(owner/repository@commit:path). Facts that are read elsewhere: "fingerprints" {profile: fingerprint}, compared with the models that are
loaded; "files" {name: sha256}, further files in the same folder, such as weights.
"""

import importlib
import inspect
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path

import numpy as np
import pandas as pd

from rag_utils import prompts
from rag_utils.base import checks, sealed
from rag_utils.base.cache import ROOT, cache_dir
from rag_utils.base.sealed import TableError

FOLDER = ROOT / "data" / "results"
LABEL = re.compile(r"[\w.:|+-]+( [\w.:|+-]+){0,3}")  # an id or the name of a condition, not a sentence
ADDRESS = re.compile(r"[\w.-]+/[\w./@:=%+-]*")
MOST = 40  # distinct labels of a column that are words; with more they are replies, not conditions
KEY = ("id", "condition", "prompt", "samples", "run", "rank")  # no two rows are the same in all of these
TRACE = "RAG_COMPANION_TRACE"  # a file that tells `rag-companion seal` what a chapter reads
LOADED: dict[str, str] = {}  # profile -> fingerprint of each reader loaded in this process; rows of others are refused


class Unmeasured(TableError):
    """There are no rows with these settings: mode "live" measures them."""


@dataclass(frozen=True)
class Kept:
    """Rows and what they were measured with."""

    rows: pd.DataFrame
    function: str  # "experiments.FOLDER.FILE:NAME"
    settings: dict  # its keyword arguments, as JSON
    facts: dict = field(default_factory=dict)  # of its run: fingerprints of models, checksums of data, counts


def table(chapter: str, name: str, function: Callable, *, mode: str = "replay", **settings) -> pd.DataFrame:
    """The rows that `function(mode=mode, **settings)` returns, or returned when they were measured.

    function : of a file below `experiments`, by its own name. Takes `mode` and keyword settings that JSON can hold, returns rows or (rows,
               facts). Prompts are named by settings that are called "prompt" or "prompts" (a name, a list or a mapping of names) or end in
               "_prompt"; their texts count as part of the setting. It may take `few` (its first questions only)
    mode     : "replay" shows what is kept; "live" measures what is not, and keeps it in the user's cache; "fresh" measures, keeps nothing
    settings : all that the function takes, those with a default as well: what is not said is not kept
    returns  : rows, in every mode as they are kept, five digits of each number; what they were measured with is in `.attrs["kept"]`
    raises   : TableError if there are no rows with these settings, naming each setting that differs, or if a file is damaged
    """
    checks.one_of("mode", mode, ("replay", "live", "fresh"))
    called, takes, given = named(function), {*inspect.signature(function).parameters} - {"few"}, {*settings, "mode"}
    if takes != given:
        told = [", ".join(sorted(names)) or "none" for names in (takes, takes - given, given - takes)]
        raise TableError("{} takes the settings {}; not given: {}; not taken: {}".format(called, *told))
    wanted = Kept(pd.DataFrame(), called, written(settings))
    kept = measured(wanted, mode=mode) if mode == "fresh" else _stored(chapter, name, wanted, mode)
    kept.rows.attrs["kept"] = {"function": kept.function, "settings": kept.settings, "facts": kept.facts}
    return kept.rows


def kept(chapter: str, name: str) -> Kept:
    """The committed rows of a chapter, whatever their settings; TableError naming the file that is missing or damaged."""
    _trace(chapter, _tracked(chapter, name))
    return load(_tracked(chapter, name))


def every(chapter: str | None = None) -> Iterator[tuple[str, str]]:
    """(chapter, name) of all committed tables, in alphabetical order."""
    for path in sorted(FOLDER.glob("*/*.json" if chapter is None else f"{_part(chapter)}/*.json")):
        yield path.parent.name, path.stem


def measured(wanted: Kept, *, mode: str, **few) -> Kept:
    """What the function that `wanted` names makes of its settings and of further arguments, the rows as they are kept.

    raises : TableError if there is no such experiment, if a prompt's text is not the one that the settings name, or as `text_of`
    """
    settings = _with_prompts(wanted.settings, lambda prompt: prompt.rpartition(" ")[0])
    now = written(settings)
    if changed := sorted(key for key in settings if now[key] != wanted.settings[key]):
        raise TableError(f"the text of {', '.join(changed)} is no longer the one of {wanted.settings[changed[0]]}")
    result = _experiment(wanted.function)(mode=mode, **settings, **few)
    rows, facts = result if isinstance(result, tuple) else (result, {})
    return Kept(parsed(text_of(wanted.function, rows)), wanted.function, wanted.settings, _plain("fact", facts))


def takes_few(function: str) -> bool:
    """Whether the experiment can measure its first questions only."""
    return "few" in inspect.signature(_experiment(function)).parameters


def named(function: Callable) -> str:
    """How a function is written in provenance; only functions that can be found again by their name have one."""
    name = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', function)}"
    if not re.fullmatch(r"experiments\.[\w.]+:\w+", name) or _experiment(name) is not function:
        raise TableError(f"an experiment must be a function of a file below experiments/, got {name}")
    return name


def written(settings: dict) -> dict:
    """Settings as JSON holds them, each prompt as its name and the digest of its text; TableError naming one that it cannot hold so."""
    return _with_prompts(_plain("setting", settings), lambda prompt: f"{prompt} {prompts.load(prompt).digest}")


def save(path: Path, kept: Kept) -> None:
    """Write `path` (.json) and the rows beside it. A reader that comes between the two files looks again.

    raises : TableError, nothing written, if a column holds texts, an id is missing, rows repeat their key or, below data/results, a setting
             or a fact is a text
    """
    rows = text_of(path.stem, kept.rows)
    content = {"function": kept.function, "settings": kept.settings, "facts": kept.facts, "rows": len(kept.rows)}
    if path.is_relative_to(FOLDER):
        for text in re.findall(r'"([^"]*)"', json.dumps([kept.settings, kept.facts], ensure_ascii=False)):
            if _kind(text) != "label" and not (len(text) <= 200 and ADDRESS.fullmatch(text)):
                raise TableError(f"settings and facts of {path.stem} hold a text of {len(text)} letters, not a label")
    sealed.write(path, rows, content)


def load(path: Path) -> Kept:
    """The rows beside `path` (.json), if both files are what was written; TableError naming the one that is missing or damaged."""
    text, content = sealed.read(path)
    return Kept(parsed(text), content["function"], content["settings"], content["facts"])


def text_of(name: str, rows: pd.DataFrame) -> str:
    """Rows as they are kept, if they may be; TableError as `save`."""
    if not isinstance(rows, pd.DataFrame) or "id" not in rows or rows.empty or rows["id"].isna().any():
        got = f"columns {list(rows)}, {len(rows)} rows" if isinstance(rows, pd.DataFrame) else type(rows).__name__
        raise TableError(f"rows of {name} need a column 'id', filled, and at least one row, got {got}")
    for column in rows:
        kinds = {_kind(value) for value in rows[column]} - {None}
        words = {value for value in rows[column] if isinstance(value, str)}
        many = [value for value in words if " " in value or not re.search(r"\d", value)]
        wrong = "text" in kinds or (column == "id" and any(" " in value for value in words))
        if wrong or _kind(column) != "label" or (column != "id" and len(many) > MOST):
            raise TableError(f"column {column!r:.40} of {name} holds texts; only ids, short labels and numbers are kept")
        if column != "id" and len(kinds) > 1:
            raise TableError(f"column {column!r} of {name} mixes {' and '.join(sorted(kinds))}")
    key = [column for column in KEY if column in rows]
    if rows.duplicated(key).any() or rows.columns.duplicated().any():
        raise TableError(f"rows of {name} repeat {int(rows.duplicated(key).sum())} of their keys {key}, or a column")
    return rows.apply(_whole).to_csv(index=False, float_format="%.5g", lineterminator="\n")


def parsed(text: str) -> pd.DataFrame:
    """Rows from their text. An id is a string, also "NA" and "0012"; only an empty field is a missing value."""
    return pd.read_csv(io.StringIO(text), dtype={"id": str}, keep_default_na=False, na_values=[""])


def _stored(chapter: str, name: str, wanted: Kept, mode: str) -> Kept:
    """What is committed, if it was measured with these settings; otherwise what the user measured with them, now in mode "live"."""
    tracked, own, apart = _tracked(chapter, name), _own(chapter, name, wanted), []
    for path in (tracked, own):
        if path.exists() or (path == tracked and path.with_suffix(".csv").exists()):
            kept = load(path)
            if not (differences := list(_differences(kept, wanted))):
                _trace(chapter, path)
                return kept
            apart = apart or differences
    if mode == "live":
        save(own, measured(wanted, mode=mode))
        return _stored(chapter, name, wanted, "replay")
    was = f"were measured with {'; '.join(apart)}" if apart else "are not kept"
    raise Unmeasured(f"the numbers of {name} {was}; mode live measures them as they are wanted here")


def _differences(kept: Kept, wanted: Kept) -> Iterator[str]:
    if kept.function != wanted.function:
        yield f"{kept.function}, not {wanted.function}"
    was, now = ({key: json.dumps(each, sort_keys=True) for key, each in of.settings.items()} for of in (kept, wanted))
    for key in sorted(was | now):
        if was.get(key) != now.get(key):
            yield f"{key} = {was.get(key, 'nothing')}, not {now.get(key, 'nothing')}"
    for profile, fingerprint in sorted(kept.facts.get("fingerprints", {}).items()):
        if LOADED.get(profile, fingerprint) != fingerprint:
            yield f"another model as {profile}: {fingerprint}, loaded is {LOADED[profile]}"


def _experiment(name: str) -> Callable:
    module, _, function = name.partition(":")
    if not module.startswith("experiments."):
        raise TableError(f"{name} is no experiment; wanted a function of a file below experiments/")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError):
        raise TableError(f"there is no experiment {name}") from None


def _part(name: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]*", name):
        raise TableError(f"a chapter and a table are named by letters, digits, '_', '-' and '.', got {name!r:.60}")
    return name


def _tracked(chapter: str, name: str) -> Path:
    return FOLDER / _part(chapter) / f"{_part(name)}.json"


def _own(chapter: str, name: str, wanted: Kept) -> Path:
    digest = sealed.sha256(json.dumps([wanted.function, wanted.settings], sort_keys=True))[:16]
    return cache_dir("results", _part(chapter), f"{_part(name)}-{digest}.json")


def _trace(chapter: str, path: Path) -> None:
    if os.environ.get(TRACE):
        line = json.dumps({"chapter": chapter, "table": str(path), "fingerprint": "", "keys": []}) + "\n"
        with open(os.environ[TRACE], "ab", buffering=0) as stream:
            stream.write(line.encode())


def _with_prompts(settings: dict, change: Callable[[str], str]) -> dict:
    """The settings, each name of a prompt changed."""
    named = {key for key in settings if key in ("prompt", "prompts") or key.endswith("_prompt")}
    return {key: _mapped(value, change) if key in named else value for key, value in settings.items()}


def _plain(kind: str, values: dict) -> dict:
    """Values as JSON holds them."""
    result = {}
    for key, value in values.items():
        try:
            result[key] = json.loads(json.dumps(_mapped(value, lambda leaf: leaf), allow_nan=False))
        except (TypeError, ValueError):
            raise TableError(f"{kind} {key} must be what JSON can hold, got {value!r:.60}") from None
    return result


def _mapped(value, change: Callable):
    """The value as JSON has it, each leaf but None changed; TypeError for a key that is no string: JSON would write 1 as "1"."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError
        return {key: _mapped(part, change) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(part, change) for part in value]
    return None if value is None else change(value)


def _kind(value) -> str | None:
    """ "flag", "number", "label" or, for all else, "text"; None where a value is missing."""
    if isinstance(value, str):
        return "label" if len(value) <= 64 and LABEL.fullmatch(value) else "text"
    if isinstance(value, bool | np.bool_):
        return "flag"
    if value is None or value is pd.NA or (isinstance(value, Real) and np.isnan(float(value))):
        return None
    return "number" if isinstance(value, Real) else "text"


def _whole(column: pd.Series) -> pd.Series:
    """Counts that became floats because some are missing, as counts: all their digits are kept."""
    if column.dtype.kind == "f" and (column.isna() | ((column % 1 == 0) & (column.abs() < 1e15))).all():
        return column.astype("Int64")
    return column
