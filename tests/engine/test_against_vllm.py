"""The comparison with vLLM: processes that are told what to do line by line, with any model in the place of both."""

import sys
from argparse import Namespace

import pytest
import scripts

bench = scripts.script("against_vllm", "benchmarks")
FAKE = """
import json, sys
print("a line of some library")
print("{}", flush=True)
for line in sys.stdin:
    print(json.dumps({"seconds": len(line.strip()), "peak_bytes": 1}), flush=True)
"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    path = tmp_path / "bin" / "worker.py"
    path.parent.mkdir()
    path.write_text(FAKE)
    monkeypatch.setattr(bench, "__file__", str(path))
    return path


def test_both_do_each_task_in_turn_and_loading_is_timed(worker, tmp_path):
    (python := worker.with_name("python")).symlink_to(sys.executable)
    given = Namespace(python=python, passes=2)
    rows = bench.compared(tmp_path, "float32", given)
    asked = [(row["pass"], row["task"], row["way"]) for row in rows if row["task"] != "load"]
    assert asked == [
        (n, task, way) for n in (0, 1) for task in ("samples", "documents", "orders") for way in ("ours", "vllm")
    ]
    assert [row["seconds"] for row in rows[:6]] == [7, 7, 9, 9, 6, 6] and {row["dtype"] for row in rows} == {"float32"}
    assert [row["way"] for row in rows[-2:]] == ["ours", "vllm"] and all(row["seconds"] > 0 for row in rows[-2:])


def test_a_process_that_ends_is_told(worker, tmp_path):
    worker.write_text("raise SystemExit(3)")
    with pytest.raises(SystemExit, match="the process ended with 3 before it answered"):
        bench.Way([sys.executable, str(worker)], tmp_path, "float32", {})
