"""Measured numbers per question: what is committed of a run on a public benchmark.

`data/results/CHAPTER/DATASET.csv` holds one row per question and condition, ids and numbers only; `DATASET.json` beside it says what
they were measured with. No text of a benchmark, and no reply to one, can enter: a column of words is refused.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from rag_utils.base.cache import ROOT, make_dir

FOLDER = ROOT / "data" / "results"
KEY = ("id", "condition", "prompt", "samples", "run", "rank")  # no two rows are the same in all of these
LABEL = re.compile(r"[\w.:-]+( [\w.:-]+){0,2}")  # an id or the name of a condition, not a sentence


def load(chapter: str, dataset: str) -> tuple[pd.DataFrame, dict]:
    """The committed rows and their provenance.

    raises : ValueError naming the file and the command that makes it, if there is none or it is damaged
    """
    table, facts = _paths(chapter, dataset)
    try:
        return pd.read_csv(table, dtype={"id": str}), json.loads(facts.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(
            f"no numbers of {dataset} for {chapter} ({table.relative_to(ROOT)}); `make live CHAPTER={chapter}` measures them, with "
            "RAG_COMPANION_DATA set to the benchmarks"
        ) from error
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{table.relative_to(ROOT)} or its provenance is damaged ({type(error).__name__}); restore it"
        ) from error


def save(chapter: str, dataset: str, rows: pd.DataFrame, provenance: dict) -> None:
    """Write rows and provenance, each at once or not at all.

    rows   : a column `id`, unique with those of KEY that there are; every other column numbers or short labels
    raises : ValueError if a column holds anything else
    """
    if "id" not in rows or rows.empty:
        raise ValueError(
            f"rows of {dataset} need a column 'id' and at least one row, got columns {list(rows)}, {len(rows)} rows"
        )
    for name in rows.columns:
        words = rows[name][rows[name].map(lambda value: isinstance(value, str))]
        wrong = [value for value in words if not LABEL.fullmatch(value) or len(value) > 64]
        if wrong:
            raise ValueError(
                f"column {name!r} of {dataset} holds {len(wrong)} texts; only ids, short labels and numbers are kept"
            )
    key = [name for name in KEY if name in rows]
    if rows.duplicated(key).any():
        raise ValueError(f"rows of {dataset} repeat {int(rows.duplicated(key).sum())} of their keys {key}")
    table, facts = _paths(chapter, dataset)
    make_dir(table.parent)
    _write(table, rows.to_csv(index=False, float_format="%.5g", lineterminator="\n"))
    _write(facts, json.dumps(provenance, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def measured(
    chapter: str,
    dataset: str,
    measure: Callable[[], tuple[pd.DataFrame, dict]],
    *,
    mode: str,
    settings: Mapping[str, object] | None = None,
) -> tuple[pd.DataFrame, dict]:
    """The committed rows in mode "replay"; otherwise measured anew and, in mode "live", committed.

    measure  : called without arguments where it is needed, returns (rows, provenance)
    settings : what the rows must have been measured with, as far as it goes
    raises   : ValueError as `load`, and if committed rows were measured with another setting
    """
    if mode != "replay":
        rows, provenance = measure()
        if mode == "fresh":
            return rows, provenance
        save(chapter, dataset, rows, provenance)
    rows, provenance = load(chapter, dataset)
    for name, wanted in (settings or {}).items():
        if provenance.get(name) != wanted:
            raise ValueError(
                f"the numbers of {dataset} for {chapter} were measured with {name} = {provenance.get(name)!r}, not {wanted!r}; run "
                "the chapter with --mode live to measure them anew"
            )
    return rows, provenance


def _paths(chapter: str, dataset: str) -> tuple[Path, Path]:
    return FOLDER / chapter / f"{dataset}.csv", FOLDER / chapter / f"{dataset}.json"


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ValueError(f"{path.name} could not be written: {error.strerror}") from error
