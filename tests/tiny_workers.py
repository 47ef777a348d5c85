"""Workers that note what they compute, die, or stumble; each runs in a process of its own."""

import os
import signal
import time

from rag_utils.base.cache import cache_dir
from rag_utils.score.pool import Worker

POISON = "poison"


def computed() -> list[str]:
    """What all workers computed and recorded, a line each: worker and call."""
    path = cache_dir("computed")
    return path.read_text().splitlines() if path.exists() else []


class Noting(Worker):
    """Notes each call once it is recorded."""

    def __init__(self, *given):
        super().__init__(*given)
        self._add, self._calls = self.reader._calls._recordings.add, {}
        self.reader._calls._recordings.add = self.add
        self.reader._texts.generate = self.noted(self.reader._texts.generate)

    def noted(self, compute):
        def generate(calls, settings):
            self.looked(calls)
            for batch in compute(calls, settings):
                self._batch = [call for call, _ in batch]
                yield batch

        return generate

    def looked(self, calls):
        pass

    def add(self, replies):
        self._add(replies)
        with cache_dir("computed").open("a") as stream:
            stream.writelines(f"{os.getpid()} {call!r}\n" for call in self._batch)
        self.recorded()

    def recorded(self):
        pass


class Dying(Noting):
    """The first that has recorded something dies."""

    def recorded(self):
        try:
            cache_dir("died").touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


class Slow(Noting):
    def recorded(self):
        time.sleep(0.1)


class Poisoned(Noting):
    """Cannot compute what has POISON in it."""

    def looked(self, calls):
        if any(POISON in prompt for prompt, _ in calls):
            raise ArithmeticError("the logits are no numbers")


class Deadly(Noting):
    """Dies of it."""

    def looked(self, calls):
        if any(POISON in prompt for prompt, _ in calls):
            os.kill(os.getpid(), signal.SIGKILL)
