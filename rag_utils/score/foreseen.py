"""What a chapter will cost: calls, tokens, minutes, memory and disk, foreseen by its own code with a stand-in for the reader."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass

import pandas as pd

from rag_utils.base import checks
from rag_utils.engine import profiles
from rag_utils.page import chapters

MODES = ("live", "fresh", "empty")
COUNTS = ("prompts", "replies", "tokens", "distinct", "said")
DIFFERS = 0.01  # of a count, by what the stand-in replies: above that replies decide what is asked
PAGE = "page"  # all that is no model's: retrieval, intervals, figures


class PlanError(chapters.ChapterError):
    """The process that executes a chapter with stand-ins ended without a plan; the message is its last line."""


@dataclass(frozen=True)
class Plan:
    """What a run of a chapter will ask and take here.

    calls     : one row per model and kind of call, and one for the rest of the page; columns prompts, replies, tokens (read in full),
                distinct (read once where prompts begin alike), said (tokens of replies), minutes, recorded (calls that cost nothing, since
                they are recorded already) and at_most (replies decide how many there will be; this is the larger of two stand-ins')
    gigabytes : memory of the process
    card      : gigabytes of the GPU, None without one
    disk      : gigabytes that the run adds to the recordings; 0 in mode "fresh"
    weights   : gigabytes of the weights, which must be on disk and fit the memory, or the GPU's
    stopped   : cells that ended early, for want of a benchmark's texts or since the stand-in's replies mean nothing, and what they said;
                what they would have asked later is not in the plan
    """

    calls: pd.DataFrame
    gigabytes: float
    card: float | None
    disk: float
    weights: float
    stopped: tuple[str, ...]

    @property
    def minutes(self) -> float:
        return float(self.calls["minutes"].sum())

    def __str__(self) -> str:
        shown = self.calls.assign(minutes=self.calls["minutes"].round(1))
        shown["at_most"] = ["at most" if flag else "" for flag in shown["at_most"]]
        card = "" if self.card is None else f", {self.card:.1f} GB of the GPU"
        about = "at most" if self.calls["at_most"].any() else "about"
        lines = [shown.to_string(), ""]
        lines += [f"{about} {self.minutes:.1f} minutes, {self.gigabytes:.1f} GB of memory{card}"]
        lines += [f"{self.disk * 1000:.1f} MB of recordings, {self.weights:.1f} GB of weights"]
        absent = [cell for cell in self.stopped if ": DataError: " in cell]
        after = [cell for cell in self.stopped if ": NameError: " in cell and absent]
        if absent:
            beside = f" (and {len(after)} more that stand on them)" if after else ""
            lines += [f"cells that want texts which are not here{beside}; what they ask is not counted:", *absent]
        if others := [cell for cell in self.stopped if cell not in absent + after]:
            lines += ["cells that words without meaning stopped; what they ask is not counted:", *others]
        return "\n".join(lines)


def plan(chapter: str, given: dict | None = None, *, mode: str = "live", clock: str = "perf_counter") -> Plan:
    """What a run of the chapter will ask and take; its models are loaded and tried for some seconds, and nothing is kept.

    given  : parameters that differ from the chapter's own, among them `profile`
    mode   : "live" counts what is not recorded yet, each call once; "fresh" everything; "empty" each call once, as "live" would with
             nothing recorded and no numbers kept
    clock  : "perf_counter", or "process_time": the seconds of the processor, where other work goes on at the same time
    raises : ValueError as `chapters.run` for an unknown chapter or parameter, or for a mode; PlanError if the models cannot be had
    """
    checks.one_of("mode of a plan", mode, MODES)
    given = chapters.checked(chapter, given or {})
    chapters.prepare()
    words = [chapter, json.dumps(given), mode, checks.one_of("clock", clock, ("perf_counter", "process_time"))]
    settings = {"MPLBACKEND": "Agg", "TQDM_DISABLE": "1", "PYTHONHASHSEED": "0"}
    settings |= {profiles.OWN: str(own)} if (own := profiles.own_file()).exists() else {}  # the process works in another folder
    command = [sys.executable, "-m", "experiments.planned", *words]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    if done.returncode:
        last = [f"the plan ended with exit status {done.returncode}", *done.stderr.strip().splitlines()][-1]
        raise PlanError(f"no plan of {chapter}: {re.sub(r'^rag_utils[.a-zA-Z_]+: ', '', last)}")
    return made(json.loads(done.stdout.splitlines()[-1]), mode=mode)


def made(seen: dict, *, mode: str) -> Plan:
    """The plan that follows from what `stand_in.observed` returned."""
    rows, size = {}, 0.0
    guessed = any(kind.get("guessed") for how in ("each", "alike") for kind in seen[how].values())
    for name in dict.fromkeys([*seen["each"], *seen["alike"]]):
        each, alike = (seen[how].get(name, {}) for how in ("each", "alike"))
        more = max((each, alike), key=lambda kind: kind.get("distinct", 0) + kind.get("said", 0))
        row = {count: round(more[count]) for count in COUNTS}
        row["minutes"] = (more["distinct"] * more["reading"] + more["said"] * more["saying"]) / 60
        pairs = [(each.get(count, 0), alike.get(count, 0)) for count in ("prompts", "replies")]
        judged = "judgements" in name  # of words that all differ, where a reader repeats itself
        row |= {"recorded": more["recorded"], "at_most": (judged and guessed) or any(abs(a - b) > DIFFERS * max(a, b) for a, b in pairs)}
        rows[name] = row
        size += more["size"] * (more["replies"] or (0 if judged else more["prompts"]))
    rows[PAGE] = dict.fromkeys(COUNTS, 0) | {"minutes": seen["page"] / 60, "recorded": 0, "at_most": False}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("model, kind, longest reply")
    disk = 0.0 if mode == "fresh" else size / 1e9
    return Plan(table, seen["gigabytes"], seen["card"], disk, seen["weights"], tuple(seen["stopped"]))
