"""What each chapter asks for from nothing: calls, tokens, minutes, memory. Writes `chapters.json`, shown on the page "On a workstation".

    OMP_NUM_THREADS=1 RAG_COMPANION_DATA=... python benchmarks/chapters.py [CHAPTER ...]

With `embedded` a chapter is planned: its own code is executed with a stand-in that counts what is asked and tries some of it here. Larger
models are not here. For them minutes are arithmetic, two operations a parameter and token at a share of what a card can do, over the
tokens that were counted with the embedded reader's tokeniser, without those that its judge reads; memory is that of the weights. Chapters
that are named are planned again.
"""

import json
import sys
from pathlib import Path

from plans import planned

from rag_utils.page import chapters
from rag_utils.score import foreseen

WITHOUT = ("10_costs", "12_errata")  # they ask no reader
SHARE = 0.15  # of a card's rate of products; a model of 8B reached 0.09 in replies and 0.35 in scoring (gpu.json)
CARDS = (  # profile, parameters, bytes each, operations a second of the card that is assumed
    ("laptop", 1.54e9, 2, 20e12),
    ("workstation", 8.03e9, 2, 165e12),
)
MACHINE = (
    "Planned: processor minutes of one core, one thread, with nothing recorded and each call once, with the parameters of the notebooks; "
    "other work went on beside. Estimated, not run: {} at 15 % of 20 and of 165 TFLOP/s, what cards of 6 and of 24 GB can do in sixteen "
    "bits; memory of the weights alone."
)


def main() -> None:
    chapters.prepare()
    path = Path(__file__).with_suffix(".json")
    known = {row["chapter"]: row for row in json.loads(path.read_text())["chapters"]} if path.exists() else {}
    names = [name for name in chapters.names() if not name.startswith("record/") and name not in WITHOUT]
    profiles = [
        {"name": profile, "gigabytes": size * width / 1e9, "minutes_a_million": 2e6 * size / (SHARE * rate) / 60}
        for profile, size, width, rate in CARDS
    ]
    machine = MACHINE.format(" and ".join(profile for profile, *_ in CARDS))
    for name in sys.argv[1:] or [name for name in names if name not in known]:
        try:
            known[name] = {"chapter": name, **planned(name, "empty", {})}
        except foreseen.PlanError as error:  # something has to be trained first
            print(error, flush=True)
            continue
        print(known[name], flush=True)
        rows = [known[name] for name in names if name in known]
        path.write_text(json.dumps({"machine": machine, "profiles": profiles, "chapters": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
