"""Readers in several processes: the same in every bit, whoever dies, in whatever order; what cannot be computed is named."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tiny
import tiny_run
import tiny_workers
from hypothesis import given
from hypothesis import strategies as st
from scripts import script

from rag_utils import lm
from rag_utils.base.cache import ROOT
from rag_utils.engine.store import Store
from rag_utils.engine.tree import prefix_tree, size
from rag_utils.score import pool, readers, shards, spread, workers
from rag_utils.score.pool import WorkersError

PROMPTS = [f"Document {document}: {'word ' * 4}\n{who}?" for document in "abcdef" for who in ("who", "when", "where")]
HOW = {"n": 2, "temperature": 1.0, "max_new_tokens": 8}
TESTS = str(Path(tiny.__file__).parent)


# --- dealing ---------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=30), st.integers(1, 9))
def test_every_text_is_in_one_shard(texts, number):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "LEAST", 1)
        dealt = shards.deal(texts, [1] * len(texts), number)
    assert sorted(i for shard in dealt for i in shard) == list(range(len(texts))) and all(dealt)


def test_trees_stay_whole_and_the_largest_come_first(monkeypatch):
    monkeypatch.setattr(shards, "LEAST", 1)
    texts = [[tree] * 20 + [leaf] * (1 + tree % 3) for tree in range(40) for leaf in range(100, 105)]
    dealt = shards.deal(texts, [3] * len(texts), 2)
    where = {i: number for number, shard in enumerate(dealt) for i in shard}
    assert all(len({where[i] for i in range(5 * tree, 5 * tree + 5)}) == 1 for tree in range(40))
    assert sum(size(prefix_tree([texts[i] for i in shard])) for shard in dealt) == size(prefix_tree(texts))
    loads = [size(prefix_tree([texts[i] for i in shard])) + 3 * len(shard) for shard in dealt]
    assert 8 <= len(loads) <= 10 and loads == sorted(loads, reverse=True) and max(loads) < 1.6 * np.mean(loads)


def test_a_tree_that_is_much_too_big_is_torn_where_it_branches(monkeypatch):
    monkeypatch.setattr(shards, "LEAST", 1)
    texts = [[0] * 10 + [branch] * 30 + [leaf] for branch in range(1, 17) for leaf in range(100, 104)]
    dealt = shards.deal(texts, [0] * len(texts), 4)
    branches = [{texts[i][10] for i in shard} for shard in dealt]
    assert len(dealt) == 16 and all(len(branch) == 1 for branch in branches)  # ten tokens are read again, and no more


def test_few_tokens_are_one_shard_and_other_numbers_are_refused():
    assert shards.deal([[1], [2], [3]], [9, 9, 9], 8) == [[0, 1, 2]]
    for wrong in (0, -1, 1.5, "two"):
        with pytest.raises(ValueError, match="workers must be a whole number"):
            shards.deal([[1]], [1], wrong)


# --- what is refused -------------------------------------------------------------------------------


@pytest.fixture
def without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.llama(tmp_path_factory.mktemp("reader")).reader


def test_without_ray_there_is_one_sentence(without_ray, folder, monkeypatch):
    with pytest.raises(WorkersError, match=r"needs Ray, which cannot be imported.*pip install -e \.\[ray\]"):
        workers.load("nowhere", workers=2)  # said before anything is loaded
    monkeypatch.setenv(workers.WORKERS, "2")
    assert type(workers.load(folder, workers=1, mode="fresh")) is lm.LanguageModel
    assert type(workers.load(folder, mode="replay")) is lm.LanguageModel
    with pytest.raises(WorkersError):
        workers.load(folder)


def test_other_numbers_and_servers_are_refused(monkeypatch):
    for wrong in (0, -3, "2", True):
        with pytest.raises(ValueError, match="workers must be a whole number"):
            workers.load("embedded", workers=wrong)
    monkeypatch.setenv(workers.WORKERS, "two")
    with pytest.raises(ValueError, match="workers must be a whole number; got 'two'"):
        workers.load("embedded")
    with pytest.raises(ValueError, match="a server makes batches of what it is asked"):
        readers.load_reader("http://localhost:1", workers=2)


def test_ray_is_imported_for_more_than_one_worker_only(folder):
    code = f"""
import sys
from rag_utils.score import command, pool, readers, scores, spread, workers
from experiments import asking
for reader in readers.load_reader({folder!r}, mode="fresh", workers=1), asking.reader({folder!r}, "fresh"):
    reader.generate(["a"], max_new_tokens=1)
print("ray" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"


class Stuck:
    """A Ray that does not start."""

    @staticmethod
    def is_initialized():
        return False

    @staticmethod
    def init(**how):
        assert how["_node_ip_address"] == "127.0.0.1" and not how["include_dashboard"]
        raise Exception("The current node timed out during startup.")


def test_a_ray_that_does_not_start_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", Stuck)
    with pytest.raises(WorkersError, match=r"Ray did not start here: The current node timed out during startup; run the same"):
        pool.started(2)


# --- two workers -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([TESTS, *filter(None, [os.environ.get("PYTHONPATH")])]))
        yield pool.started(2)
        ray.shutdown()


@pytest.fixture(scope="module")
def expected(folder):
    """What one process says, by the bit."""
    return said(lm.load(folder, mode="fresh"))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "LEAST", 1)
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def make(ray, folder, cache):
    """Loads the reader with two workers of a kind, which end with the test."""
    made = []

    def load(worker=tiny_workers.Noting, **how):
        made.append(workers.load(folder, workers=2, **how))
        made[-1]._pool.worker = worker
        return made[-1]

    yield load
    for reader in made:
        reader.close()


def said(reader, prompts=PROMPTS, **more):
    return [
        [(reply.text, reply.token_ids, reply.token_log_likelihood.tolist()) for reply in replies]
        for replies in reader.generate(prompts, **HOW, **more)
    ]


def rows(cache):
    with Store(cache / "recordings" / "calls.sqlite")._open() as connection:
        return sorted(connection.execute("SELECT * FROM replies"))


def once():
    """The calls that workers computed, each at most once."""
    calls = Counter(line.partition(" ")[2] for line in tiny_workers.computed())
    assert set(calls.values()) <= {1}, calls
    return set(calls)


@pytest.mark.slow
def test_two_workers_say_and_record_what_one_process_does(make, expected, folder, cache, tmp_path, monkeypatch):
    pairs = [prompt[:-5] for prompt in PROMPTS], [prompt[-5:] for prompt in PROMPTS]
    reader = make()
    assert said(reader) == expected
    assert len({line.split()[0] for line in tiny_workers.computed()}) == 2 and len(once()) == 2 * len(PROMPTS)
    assert reader.count.computed >= reader.count.distinct > 0
    scored = reader.log_likelihood(*pairs)
    assert "tokens" in str(reader.live_check(5))
    recorded = rows(cache)
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "other"))
    alone = lm.load(folder, mode="live")
    assert said(alone) == expected
    assert [values.tolist() for values in alone.log_likelihood(*pairs)] == [values.tolist() for values in scored]
    assert rows(tmp_path / "other") == recorded


@pytest.mark.slow
def test_what_is_recorded_starts_no_worker_and_fresh_records_nothing(make, expected, folder, cache):
    fresh = make(pool.Worker, mode="fresh")
    assert said(fresh) == expected and not cache.joinpath("recordings").exists()
    said(lm.load(folder, mode="live"), PROMPTS[:-1])
    reader = make()
    assert said(reader, PROMPTS[:-1]) == expected[:-1] and reader._pool.actors == []
    assert said(reader) == expected and len(once()) == 2
    assert said(reader, greedy=True) == said(lm.load(folder, mode="fresh"), greedy=True)
    assert [replies[:-1] for replies in said(reader, greedy=True)] == expected
    assert fresh._pool.actors == []  # one reader at a time has its workers


@pytest.mark.slow
@pytest.mark.parametrize("order", [reversed, lambda dealt: dealt[1::2] + dealt[::2]])
def test_the_order_of_shards_does_not_matter(make, expected, monkeypatch, order):
    monkeypatch.setattr(spread, "deal", lambda *given: list(order(shards.deal(*given))))
    assert said(make()) == expected and len(once()) == 2 * len(PROMPTS)


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing_and_repeats_nothing(make, expected, cache):
    reader = make(tiny_workers.Dying)
    assert said(reader) == expected and cache.joinpath("died").exists()
    assert len(once()) == 2 * len(PROMPTS) == len(rows(cache)) and len(reader._pool.actors) == 2


@pytest.mark.slow
def test_a_worker_that_ray_kills_is_replaced(make, expected, ray):
    reader, replies = make(tiny_workers.Slow), []
    thread = threading.Thread(target=lambda: replies.extend(said(reader)))
    thread.start()
    while not tiny_workers.computed():
        time.sleep(0.02)
    ray.kill(reader._pool.actors[0])
    thread.join()
    assert replies == expected and len(once()) == 2 * len(PROMPTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("worker", "why"),
    [(tiny_workers.Poisoned, "ArithmeticError: the logits are no numbers"), (tiny_workers.Deadly, "ActorDiedError")],
)
def test_a_call_that_cannot_be_computed_is_named_and_the_rest_is_kept(make, expected, cache, worker, why):
    bad = f"Document b: {tiny_workers.POISON}\nwho?"
    reader = make(worker)
    with pytest.raises(WorkersError, match=r"1 of 19 calls could not be computed, the others are kept: '.*poison") as raised:
        said(reader, [*PROMPTS[:7], bad, *PROMPTS[7:]])
    assert why in str(raised.value) and len(rows(cache)) == 2 * len(PROMPTS)
    asked = once()
    assert said(reader) == expected and once() == asked


@pytest.mark.slow
def test_a_worker_without_its_reader_is_said(make, folder):
    reader = make()
    reader._pool.asked["fingerprint"] = "another"
    with pytest.raises(WorkersError, match=r"a worker could not load the reader: .*weights of .* changed"):
        said(reader)
    assert reader._pool.actors == []


DRIVER = """
import sys
sys.path.insert(0, {tests!r})
import test_workers, tiny_workers
from rag_utils.score import shards, workers
shards.LEAST = 1
reader = workers.load({folder!r}, workers=2)
reader._pool.worker = tiny_workers.Slow
print(test_workers.said(reader))
"""


def gone(pids):
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.slow
def test_a_driver_that_was_killed_goes_on_where_it_was(ray, folder, cache, expected):
    code = DRIVER.format(tests=os.path.join(TESTS, "score"), folder=folder)
    environment = os.environ | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    first = subprocess.Popen([sys.executable, "-c", code], env=environment)
    while len(tiny_workers.computed()) < 6:
        assert first.poll() is None
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    until = time.monotonic() + 60
    while not gone({line.split()[0] for line in tiny_workers.computed()}):
        assert time.monotonic() < until, "workers outlive their driver"
        time.sleep(0.1)
    before = len(once())
    assert 6 <= before < 2 * len(PROMPTS)
    again = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert eval(again.stdout) == expected and len(once()) == 2 * len(PROMPTS)


# --- how far it carries ----------------------------------------------------------------------------


def test_the_simulation_counts_what_each_device_has():
    simulated = script("workers", "benchmarks")
    asked = [([[1] * 1400 + [2], [1] * 1400 + [3], [5] * 1401], [10, 10, 10]), ([[7] * 50], [0])]
    assert simulated.shared(asked, 1) == {"tokens": 2883, "skew": 1.0, "again": 0.0}
    two = simulated.shared(asked, 2)
    assert two["tokens"] == 1422 + 50 and two["again"] == 0 and two["skew"] == pytest.approx(2 * 1472 / 2883)
    records, reader = tiny_run.records(), tiny_run.Finder()
    reader.encode = lambda text: [1 + number for number in text.encode()]
    calls = simulated.calls_of(records, reader)
    plain = simulated.calls_of(records, reader, ("erag",))
    assert reader.asked == [] and sum(len(texts) for texts, _ in calls) > sum(len(texts) for texts, _ in plain) > 20


def test_the_page_has_the_numbers_of_the_simulation():
    page = (ROOT / "book" / "numbers.md").read_text(encoding="utf-8")
    kept = json.loads((ROOT / "benchmarks" / "workers.json").read_text(encoding="utf-8"))
    for row in kept["rows"]:
        skew = row["devices"] * row["tokens"] / kept["tokens"] / (1 + row["again"])
        above, again = (f"{share:{how}%}".replace("%", " %") for share, how in ((skew - 1, ".0"), (row["again"], ".1")))
        assert f"| {row['devices']} | {row['tokens']:,} | {above} | {again} | {row['faster']:.1f} |" in page
    assert f"{kept['prompts']:,} prompts" in page and f"{kept['tokens']:,} tokens" in page
    slowest = min(kept["transactions"].values())
    assert f"{slowest} transactions a second" in page
    assert f"{round(slowest * kept['tokens'] / kept['prompts'], -2):,.0f} tokens a second" in page
    took = kept["seconds"]
    assert f"took {took['1']} seconds" in page and f"{took['2']} seconds with two" in page
    assert f"{took['1'] / took['2']:.2f} times as fast" in page and f"first {kept['questions']} questions" in page.replace("\n", " ")
