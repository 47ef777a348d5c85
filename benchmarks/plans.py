"""Planned against real: each run is planned, then made with an empty store. Writes `plans.json`, which the page "On a workstation" shows.

    OMP_NUM_THREADS=1 RAG_COMPANION_DATA=... python benchmarks/plans.py

Minutes are those of the processor (the calibration's and the kernel's), so that other work on the machine does not count.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rag_utils.base.cache import cache_dir
from rag_utils.page import chapters
from rag_utils.score import foreseen
from rag_utils.score.stand_in import JUDGING

MACHINE = "Processor minutes of one core, one thread, no GPU; other work went on beside."
RUNS = (
    ("01_data_and_models", "live", {"questions": 40, "benchmarks": ["nq"], "benchmark_questions": 20, "profile": "embedded-base"}),
    ("13_your_own_run", "fresh", {"questions": 40, "top": 1}),
    ("11_reader", "live", {"nq_questions": 40}),
)
CHILD = """
import json, resource, sys
from pathlib import Path
from rag_utils.page import chapters
chapters.run(sys.argv[1], json.loads(sys.argv[2]), output=Path(sys.argv[3]))
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"minutes": (used.ru_utime + used.ru_stime) / 60, "gigabytes": used.ru_maxrss * 1024 / 1e9}))
"""


def planned(chapter: str, mode: str, given: dict) -> dict:
    """What `rag-companion plan` says, in sums."""
    made = foreseen.plan(chapter, given, mode=mode, clock="process_time")
    asked = made.calls.drop(index=[name for name in made.calls.index if "judgements" in name])
    sums = {name: int(asked[name].sum()) for name in ("prompts", "replies", "tokens", "distinct", "said")}
    sums["judging"] = int(sum(asked["distinct"][name] for name in asked.index if JUDGING in name))
    facts = {"minutes": round(made.minutes, 2), "gigabytes": round(made.gigabytes, 2), "stopped": len(made.stopped)}
    return sums | facts | {"at_most": bool(made.calls["at_most"].any())}


def real(chapter: str, mode: str, given: dict) -> dict:
    """Minutes and memory of the kernel that executes the chapter."""
    with tempfile.TemporaryDirectory() as folder:
        words = [chapter, json.dumps(given | {"mode": mode}), str(Path(folder, "page.ipynb"))]
        done = subprocess.run([sys.executable, "-c", CHILD, *words], check=True, stdout=subprocess.PIPE, text=True)
    return {name: round(value, 2) for name, value in json.loads(done.stdout.splitlines()[-1]).items()}


def main() -> None:
    chapters.prepare()
    models, rows = cache_dir("models"), []
    for chapter, mode, given in RUNS:
        with tempfile.TemporaryDirectory() as folder:  # an empty store, with the converted weights
            Path(folder, "models").symlink_to(models)
            os.environ["RAG_COMPANION_CACHE"] = folder
            row = {"chapter": chapter, "mode": mode, "profile": given.get("profile", "embedded")}
            row["parameters"] = {name: value for name, value in given.items() if name != "profile"}
            rows.append(row | {"planned": planned(chapter, mode, given), "real": real(chapter, mode, given)})
            print(rows[-1])
    text = json.dumps({"machine": MACHINE, "runs": rows}, indent=1)
    Path(__file__).with_suffix(".json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
