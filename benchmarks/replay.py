"""How long each page replays on this machine, one after the other. Writes `replay.json`, which the page "Status" shows.

python benchmarks/replay.py
"""

import json
import os
import tempfile
from pathlib import Path
from time import perf_counter

from rag_utils.page import chapters


def main() -> None:
    chapters.prepare()
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in chapters.names():
            begin = perf_counter()
            chapters.run(name, output=Path(folder, "page.ipynb"))
            seconds[name] = round(perf_counter() - begin)
            print(f"{name}: {seconds[name]} s")
    machine = f"Times on {os.cpu_count()} processor cores, from recordings."
    text = json.dumps({"machine": machine, "seconds": seconds}, indent=1)
    Path(__file__).with_suffix(".json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
