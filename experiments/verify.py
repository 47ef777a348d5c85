"""Whether the committed numbers still follow from the code: some rows of each table are computed again and compared.

python -m experiments.verify [--recorded] [CHAPTER]     rag-companion verify
python -m experiments.verify --adopt CHAPTER TRACE      what `rag-companion seal` copies from the user's cache
"""

import json
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd

from experiments import table as tables
from experiments.table import Kept, TableError
from rag_utils.corpora.manifest import DataError
from rag_utils.engine.recordings import RecordingError
from rag_utils.engine.weights import WeightsError

FEW = 3  # questions of a table that needs the model
NEAR = 0.02, 1e-3  # absolute and relative, of a model that computes on another processor; logarithms in nats
LIVE = {"nats": 1e-4}  # column that an unrecorded model fills -> by how much the engine may differ from itself


def verified(chapter: str, name: str, *, recorded: bool = False) -> tuple[str, str]:
    """("verified" | "differs" | "not run", what was seen) of one committed table; `recorded` leaves out what needs the model.

    Of a function that can take its first questions only, FEW are measured, with the model if they are not recorded; any other is replayed.
    """
    try:
        kept = tables.kept(chapter, name)
        if not kept.function.startswith("experiments."):
            return "not run", f"{kept.function} made it, no experiment; its script has --check"
        few = {"few": FEW} if tables.takes_few(kept.function) else {}
        if few and recorded:
            return "not run", "needs the model"
        again = None
        with suppress(RecordingError):
            again = tables.measured(kept, mode="replay", **few)
        again = again or tables.measured(kept, mode="fresh" if few else "replay", **few)
    except (DataError, RecordingError, WeightsError) as error:  # what the numbers come from is not here
        return "not run", str(error)
    except (TableError, TypeError, ValueError, KeyError) as error:
        return "differs", f"{type(error).__name__}: {error}"
    if wrong := differences(again.rows, kept, few=bool(few)):
        return "differs", f"{len(wrong)} of {len(again.rows)} rows: {wrong[0]}"
    return "verified", f"{len(again.rows)} of {len(kept.rows)} rows"


def differences(computed: pd.DataFrame, kept: Kept, *, few: bool) -> list[str]:
    """A sentence for each row that is not the one that is kept, or that only one of both has.

    few : the rows are those of a few questions, computed by a model; otherwise all, equal in four digits and nearly the fifth. Of a fit
          that is not "identified" rounding decides which order it finds, and so the answer: of a quarter of the rows at most
    """
    if {*computed} != {*kept.rows}:  # their order is that of settings, which JSON sorts
        return [f"the columns are {list(computed)}, kept are {list(kept.rows)}"] * len(computed)
    key = [column for column in tables.KEY if column in computed]
    ours, theirs = (
        {" ".join(f"{row[column]}" for column in key): row for row in rows.to_dict("records")} for rows in (computed, kept.rows)
    )
    ids = set(computed["id"])
    wrong, moved = [f"{place} is not kept" for place in ours if place not in theirs], 0
    wrong += [f"{at} is not computed" for at, row in theirs.items() if at not in ours and (not few or row["id"] in ids)]
    for place, row in ours.items():
        other = theirs.get(place, row)
        unsettled = row.get("identified") == other.get("identified") == 0
        moved += (elsewhere := unsettled and row.get("order") != other.get("order"))
        free = {*row} if elsewhere else {"right", "opposite"} if unsettled else set()
        apart = [name for name in row if name not in free and not _same(row[name], other[name], few, name)]
        if apart:
            wrong.append(f"{place}: " + ", ".join(f"{name} is {row[name]}, kept is {other[name]}" for name in apart))
    return wrong + [f"{moved} of {len(ours)} orders are others"] * (4 * moved > len(ours))


def _same(value, other, few: bool, column: str = "") -> bool:
    if pd.isna(value) or pd.isna(other):
        return pd.isna(value) and pd.isna(other)
    if isinstance(value, str | bool) or isinstance(other, str | bool):
        return value == other
    digit = 10.0 ** (np.floor(np.log10(max(abs(other), 1e-300))) - 4)  # the fifth
    allowed = NEAR[0] + NEAR[1] * abs(other) if few else max(LIVE.get(column, 0), 1.5 * digit)
    return bool(value == other or abs(value - other) <= allowed)


def adopt(chapter: str, trace: Path) -> list[Path]:
    """Copy the tables that a page read from the user's cache, with the files they name; TableError if one may not be committed."""
    lines = map(json.loads, trace.read_text(encoding="utf-8").splitlines())
    paths = {Path(line["table"]) for line in lines if line.get("chapter") == chapter and "table" in line}
    adopted = []
    for path in sorted(path for path in paths if not path.is_relative_to(tables.FOLDER)):
        kept = tables.load(path)
        target = tables.FOLDER / chapter / f"{path.stem.rpartition('-')[0]}.json"
        for name in kept.facts.get("files", {}):
            target.with_name(name).write_bytes(path.with_name(name).read_bytes())
        tables.save(target, kept)
        adopted.append(target)
    return adopted


def main(words: list[str]) -> int:
    if words[:1] == ["--adopt"]:
        for path in adopt(words[1], Path(words[2])):
            print(path.relative_to(tables.FOLDER.parent.parent))
        return 0
    chapters = [word for word in words if not word.startswith("--")]
    differing = 0
    for chapter, name in tables.every(*chapters[:1]):
        outcome, said = verified(chapter, name, recorded="--recorded" in words)
        differing += outcome == "differs"
        print(f"{chapter}/{name}: {outcome}, {said}", flush=True)
    return 1 if differing else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (TableError, OSError) as error:
        sys.exit(f"rag-companion: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
