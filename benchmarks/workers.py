"""How far workers carry: one run's calls dealt to 2 to 256 devices, in tokens, and what two processes gain on this machine.

    python benchmarks/workers.py

Writes `workers.json`, from which the page "Where the numbers come from" has its table, made without Ray and without computing anything:
per number of devices

* tokens: of the device that has most; those of all replies are counted at their longest
* skew: that over the mean of all devices; calls that wait for each other's replies are dealt one list after the other
* again: share of the tokens that is read twice or more because a tree was torn or its neighbours went elsewhere
* faster: tokens of one device over those of the one that has most

how many transactions a second the store takes here from one and from two processes, each on the disk before the next, and the seconds that
`rag-companion score` takes for the run's first questions with one and with two workers, everything included, into an empty store.
"""

import heapq
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter

from rag_utils import data, lm, retrieve
from rag_utils.base.cache import cache_dir
from rag_utils.engine.store import Store
from rag_utils.engine.tree import prefix_tree, size
from rag_utils.score import Record
from rag_utils.score.measured import Settings
from rag_utils.score.plan import WORDS, Noted, noted_calls
from rag_utils.score.shards import deal

RESULTS = Path(__file__).with_suffix(".json")
DEVICES = (2, 8, 64, 256)
MEASURES = ("seper", "erag")
TOP = 10
ADDS, ROWS = 150, 10  # transactions of a process, and replies of each
TIMED = 24  # questions that are measured with one and with two workers

Asked = list[tuple[list[list[int]], list[int]]]  # per list of calls: tokens of each text, tokens that are said after it


def calls_of(records: Sequence[Record], reader, measures: Sequence[str] = MEASURES) -> Asked:
    """What `scores.run` would ask of this reader, each text once."""
    settings, asked = Settings(), []
    for kind, n, prompts in noted_calls(records, Noted(reader), measures=measures, top=TOP, seed=0, settings=settings):
        steps = settings.rephrase_tokens if kind == WORDS else settings.max_new_tokens
        texts = [reader.encode(prompt) for prompt in dict.fromkeys(prompts)]
        asked.append((texts, [n * steps] * len(texts)))
    return [each for each in asked if each[0]]


def shared(asked: Asked, devices: int) -> dict[str, float]:
    """tokens, skew and again of these calls on so many devices, each taking the next shard when it is done with one."""
    most = total = least = 0
    for texts, said in asked:
        loads = [0] * devices
        for shard in deal(texts, said, devices):
            tokens = size(prefix_tree([texts[i] for i in shard])) + sum(said[i] for i in shard)
            heapq.heapreplace(loads, loads[0] + tokens)
        most, total, least = most + max(loads), total + sum(loads), least + size(prefix_tree(texts)) + sum(said)
    return {"tokens": most, "skew": most / (total / devices), "again": total / least - 1}


def rate(processes: int) -> float:
    """Transactions a second that the store takes from so many processes at once, on this machine's temporary folder."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(processes) as others:
        Store(Path(folder, "calls.sqlite"), writable=True)
        list(others.map(_add, [folder] * processes, range(processes), [1] * processes))  # the processes are there
        began = perf_counter()
        list(others.map(_add, [folder] * processes, range(1, processes + 1), [ADDS] * processes))
        return processes * ADDS / (perf_counter() - began)


def _add(folder: str, process: int, times: int) -> None:
    store = Store(Path(folder, "calls.sqlite"), writable=True)
    for number in range(times):
        reply = {"text": " 1829", "tokens": [1, 2, 3], "log_likelihood": [-0.1, -0.2, -0.3]}
        store.add([(f"{process}-{times}-{number}-{row}", reply) for row in range(ROWS)])


def seconds(records: Sequence[Record], workers: int) -> float:
    """How long `rag-companion score` takes, from its start to its report, with so many workers of one thread each."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "models").symlink_to(cache_dir("models"))
        run = Path(folder, "run.jsonl")
        run.write_text("".join(record.model_dump_json() + "\n" for record in records), encoding="utf-8")
        given = ["score", str(run), "--workers", str(workers), "--measures", ",".join(MEASURES), "--out", str(Path(folder, "scores"))]
        alone = os.environ | {"RAG_COMPANION_CACHE": folder, "OMP_NUM_THREADS": "1"}
        began = perf_counter()
        subprocess.run([str(Path(sys.executable).with_name("rag-companion")), *given], env=alone, check=True, stdout=subprocess.DEVNULL)
        return perf_counter() - began


def book_run() -> list[Record]:
    """Every question of the companion corpus with what BM25 retrieves for it."""
    asked, pool = data.load("companion"), data.passages("companion")
    run, texts = retrieve.bm25(asked, pool, k=TOP), {passage.id: passage for passage in pool}
    rows = []
    for question in asked:
        passages = [{"id": name, "title": texts[name].title, "text": texts[name].text} for name in retrieve.ranking(run[question.id])]
        row = {"id": question.id, "question": question.text, "answers": [*question.answers], "passages": passages}
        rows.append(Record(**row))
    return rows


def main() -> None:
    asked = calls_of(book_run(), lm.load("embedded", mode="replay"))
    prompts, alone, rows = sum(len(texts) for texts, _ in asked), shared(asked, 1)["tokens"], []
    for devices in DEVICES:
        row = shared(asked, devices)
        row |= {"skew": round(row["skew"], 3), "again": round(row["again"], 3), "faster": round(alone / row["tokens"], 1)}
        rows.append({"devices": devices} | row)
        print(rows[-1], flush=True)
    transactions = {processes: round(rate(processes)) for processes in (1, 2)}
    took = {workers: round(seconds(book_run()[:TIMED], workers)) for workers in (1, 2)}
    text = {"prompts": prompts, "tokens": alone, "transactions": transactions, "rows": rows, "seconds": took, "questions": TIMED}
    RESULTS.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
