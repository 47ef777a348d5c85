"""Workers by Ray, each with a reader of its own: shards of calls in, answers out, whoever is first; who dies is replaced.

A shard over which workers died is given out again, then halved, and one whose computation raises is halved at once, until the call that is
to blame stands alone: it is named when everything else is computed.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rag_utils import lm
from rag_utils.base.cache import cache_dir
from rag_utils.engine.recordings import RecordingError
from rag_utils.engine.weights import WeightsError

OBJECTS = 100 * 2**20  # bytes that Ray sets aside for what passes between processes: texts and numbers
DEATHS = 2  # of workers over a shard, after which it is halved
IN_A_ROW = 20  # deaths with nothing computed in between: then it is no call that is to blame
NAMED, SHOWN = 3, 50  # calls of an error, and characters of each end


class WorkersError(WeightsError):
    """Workers cannot be had, or could not compute some calls; the message says which, and what came."""


class Worker:
    """A reader in a process of its own, in the driver's mode: what is recorded is read, what is computed is recorded before it is sent."""

    def __init__(self, asked: dict, threads: int, environment: dict):
        """asked: profile, mode and chapter as `lm.load` takes them, and the fingerprint that the weights must have."""
        os.environ.update(environment)
        import torch

        torch.set_num_threads(threads)
        self.reader = lm.load(asked["profile"], mode=asked["mode"], chapter=asked["chapter"])
        if self.reader.fingerprint != asked["fingerprint"]:
            raise WorkersError(f"the weights of {self.reader.name} changed while they were loaded; run the same command again")

    def ready(self) -> None:
        """Nothing, once the reader is there."""

    def answer(self, operation: str, calls: Sequence, how: dict) -> tuple[list, tuple[int, int]]:
        """Of each call what the recordings hold, of each prompt a list of n of them; and the tokens read, all and distinct ones."""
        count = self.reader.count
        before = count.computed, count.distinct
        if operation == "generate":
            said = self.reader.generate(calls, **how)
            answers = [[_kept(reply) for reply in replies] for replies in said]
        else:
            said = self.reader.log_likelihood(*map(list, zip(*calls, strict=True)))
            answers = [{"log_likelihood": values.tolist()} for values in said]
        return answers, (count.computed - before[0], count.distinct - before[1])


def _kept(reply: lm.Generation) -> dict:
    """A reply as the recordings hold it."""
    return {"text": reply.text, "tokens": list(reply.token_ids), "log_likelihood": reply.token_log_likelihood.tolist()}


@dataclass
class Shard:
    """Calls that are given out together, and how many workers died over them."""

    calls: list
    deaths: int = 0

    def halves(self) -> list["Shard"]:
        """Two shards, which one more death halves again."""
        middle = len(self.calls) // 2
        return [Shard(calls, DEATHS - 1) for calls in (self.calls[:middle], self.calls[middle:])]


@dataclass
class Pool:
    """So many workers with a reader. They are started by the first shard, and end with `stop` or with this process.

    asked   : of a `Worker`
    on_gpus : whether each has a GPU of its own; otherwise they share this process's threads
    worker  : what is started
    """

    workers: int
    asked: dict
    on_gpus: bool = False
    worker: type = Worker
    actors: list = field(default_factory=list)

    def answers(self, operation: str, work: Sequence[list], how: dict) -> Iterator[tuple[list, tuple[int, int]]]:
        """([(call, answer)], counts) shard by shard, as `Worker.answer`.

        raises : WorkersError if a worker cannot load the reader, if workers die whatever they compute, and at the end, when all the
                 others are answered, naming the calls that could not be; RecordingError as soon as a worker cannot record
        """
        ray = ray_here()
        if not self.actors:
            self._start(self.workers)
        waiting, running, idle = deque(map(Shard, work)), {}, list(self.actors)
        failed, in_a_row = {}, 0
        try:
            while waiting or running:
                while waiting and idle:
                    shard, actor = waiting.popleft(), idle.pop()
                    running[actor.answer.remote(operation, shard.calls, how)] = shard, actor
                [done], _ = ray.wait(list(running))
                shard, actor = running.pop(done)
                try:
                    answers, counted = ray.get(done)
                except ray.exceptions.RayTaskError as error:  # what the computation raised
                    cause, shard.deaths = error.cause, DEATHS
                    if isinstance(cause, RecordingError):
                        raise cause from error
                except ray.exceptions.RayError as error:
                    cause, shard.deaths, in_a_row = error, shard.deaths + 1, in_a_row + 1
                    if in_a_row > IN_A_ROW:
                        raise WorkersError(f"{in_a_row} workers died one after the other: {_last_line(error)}") from error
                    actor = self._replace(actor)
                else:
                    cause, in_a_row = None, 0
                    yield list(zip(shard.calls, answers, strict=True)), counted
                idle.append(actor)
                if cause is not None and shard.deaths < DEATHS:
                    waiting.appendleft(shard)
                elif cause is not None and len(shard.calls) > 1:
                    waiting.extendleft(reversed(shard.halves()))
                elif cause is not None:
                    failed[shard.calls[0]] = cause
        finally:
            if running:  # nobody waits for what they still compute
                self.stop()
        if failed:
            raise WorkersError(_said(failed, sum(map(len, work))))

    def stop(self) -> None:
        """End the workers; the next shard starts others."""
        while self.actors:
            ray_here().kill(self.actors.pop())

    def _replace(self, actor):
        self.actors.remove(actor)
        ray_here().kill(actor)  # it may only have been out of reach
        self._start(1)
        return self.actors[-1]

    def _start(self, number: int) -> None:
        import torch

        ray = started(self.workers)
        threads = max(1, torch.get_num_threads() // (1 if self.on_gpus else self.workers))
        own = {"RAG_COMPANION_CACHE": str(cache_dir()), "TQDM_DISABLE": "1"}
        # with num_cpus=1 the processes that Ray needs besides would have to wait for a worker to end, and it for them
        kind = ray.remote(num_cpus=0, num_gpus=int(self.on_gpus))(self.worker)
        actors = [kind.remote(self.asked, threads, own) for _ in range(number)]
        self.actors += actors
        try:
            ray.get([actor.ready.remote() for actor in actors])
        except ray.exceptions.RayError as error:
            self.stop()
            raise WorkersError(f"a worker could not load the reader: {_last_line(error)}") from error


def ray_here():
    """The module ray, which nothing else imports; WorkersError without it."""
    try:
        import ray
    except ImportError as error:
        raise WorkersError(
            f"more than one worker needs Ray, which cannot be imported here ({error}); run `pip install -e .[ray]`, or take one worker"
        ) from error
    return ray


def started(workers: int):
    """Ray, running on this machine alone unless somebody started it otherwise: no dashboard, no usage report, no other host."""
    ray = ray_here()
    if ray.is_initialized():
        return ray
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    how = {"address": "local", "_node_ip_address": "127.0.0.1", "num_cpus": workers, "object_store_memory": OBJECTS}
    how |= {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(**how)
    except Exception as error:  # Ray gives up after half a minute, with no exception of its own
        said = _last_line(error).rstrip(".")
        raise WorkersError(f"Ray did not start here: {said}; run the same command again when the machine has less to do") from error
    return ray


def _last_line(error: Exception) -> str:
    return ([line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[-1]


def _said(failed: dict, total: int) -> str:
    """Which calls could not be computed, and why: a sentence."""
    named = [f"{_short(call)} ({type(cause).__name__}: {_last_line(cause)})" for call, cause in [*failed.items()][:NAMED]]
    more = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
    return f"{len(failed)} of {total} calls could not be computed, the others are kept: {'; '.join(named)}{more}"


def _short(call: str | tuple[str, str]) -> str:
    text = "".join(call)
    return repr(text if len(text) <= 2 * SHOWN else f"{text[:SHOWN]} ... {text[-SHOWN:]}")
