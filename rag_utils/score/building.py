"""The book's chapters executed, as many side by side as there are cores and memory for; `rag-companion build`."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rag_utils.base import checks, sealed
from rag_utils.base.cache import make_dir
from rag_utils.page import chapters

EACH = 2.0  # gigabytes that a chapter takes while it replays: the kernel, two readers, the encoder
COMMAND = (sys.executable, "-c", "from rag_utils.score.command import main; main()", "run")
LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of a container, below /sys/fs/cgroup


def build(*, say=print, jobs: int | None = None) -> None:
    """Execute every chapter that stands on something that changed since it was last executed here.

    say    : what takes a line of progress
    jobs   : how many at once; by default as many as cores and memory allow (`at_once`)
    raises : ValueError naming each file of `data/results` that is damaged or belongs to no table, or for jobs below 1; nothing is
             executed then. ChapterError in the end, naming every chapter that failed; the others are done
    """
    if damaged := list(sealed.damage(chapters.RESULTS)):
        raise ValueError("; ".join(damaged))
    jobs = at_once() if jobs is None else checks.whole("jobs", jobs, least=1)
    changed = []
    for chapter in chapters.names():
        stamp = chapters.STAMPS / chapter
        if stamp.exists() and stamp.read_bytes() == _digest(chapter):
            say(f"{chapter}: nothing changed")
        else:
            changed.append(chapter)
    failed = {}
    for chapter, problem in _one_by_one(changed, say) if min(jobs, len(changed)) < 2 else _side_by_side(changed, say, jobs):
        if problem is None:
            stamp = chapters.STAMPS / chapter
            make_dir(stamp.parent)
            stamp.write_bytes(_digest(chapter))
        else:
            failed[chapter] = problem
            say(f"{chapter}: failed")
    if failed:
        raise chapters.ChapterError("\n".join([f"{len(failed)} of {len(changed)} chapters failed", *failed.values()]))


def at_once() -> int:
    """How many chapters this machine takes side by side: one a core, and one for every `EACH` gigabytes that are free; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(free_gigabytes() / EACH)))


def free_gigabytes(system: Path = Path("/")) -> float:
    """Gigabytes that a new process may take: what Linux says is available, within a container's limit; elsewhere half of the memory.

    system : the folder below which proc and sys are
    """
    try:
        said = (system / "proc/meminfo").read_text()
        free = 1024 * int(re.search(r"^MemAvailable:\s+(\d+) kB", said, flags=re.MULTILINE)[1])
    except (OSError, TypeError):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    for path in (system / "sys/fs/cgroup" / name for name in LIMITS):
        if path.exists() and (said := path.read_text().strip()).isdigit():
            free = min(free, int(said))
    return free / 1e9


def _one_by_one(changed: Sequence[str], say) -> Iterator[tuple[str, str | None]]:
    """Yield each chapter and what failed in it, None where nothing did."""
    for chapter in changed:
        say(f"{chapter}: executing")
        try:
            chapters.run(chapter)
        except chapters.ChapterError as error:
            yield chapter, str(error)
        else:
            yield chapter, None


def _side_by_side(changed: Sequence[str], say, jobs: int) -> Iterator[tuple[str, str | None]]:
    """As `_one_by_one`, each chapter in a process of its own; what it says is held back, so that no line is torn."""
    chapters.prepare()
    threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(max(1, (os.cpu_count() or 1) // jobs))}
    environment, running = os.environ | threads | {"TQDM_DISABLE": "1"}, set()

    def execute(chapter: str) -> subprocess.CompletedProcess:
        say(f"{chapter}: executing")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        # in a session of its own, so that Ctrl-C reaches it once, from here
        process = subprocess.Popen([*COMMAND, chapter], env=environment, start_new_session=True, **pipes)
        running.add(process)
        said, told = process.communicate()
        return subprocess.CompletedProcess([chapter], process.returncode, said, told)

    pool = ThreadPoolExecutor(jobs)
    try:
        began = [pool.submit(execute, chapter) for chapter in changed]
        for done in as_completed(began):
            result = done.result()
            [chapter], told = result.args, result.stderr.strip().removeprefix("rag-companion: ")
            if result.returncode == 0:
                say(f"{chapter}: done")
            yield chapter, None if result.returncode == 0 else told or f"{chapter}: ended with exit status {result.returncode}"
    finally:  # also after Ctrl-C
        pool.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.send_signal(signal.SIGINT)
        pool.shutdown(wait=True)


def _digest(chapter: str) -> bytes:
    """What the stamp of an executed chapter says: checksums of its inputs and of its page."""
    paths = [*sorted(chapters.inputs(chapter)), chapters.BOOK / f"{chapter}.ipynb"]
    parts = [f"{path.relative_to(chapters.ROOT)} {sealed.sha256(path.read_bytes())}" for path in paths if path.exists()]
    return "\n".join(parts).encode()
