"""What a chapter would ask of its models, in a process of its own: `rag-companion plan` starts it and reads the JSON that it prints."""

import json
import os
import sys
import time
from contextlib import suppress

from experiments import table as tables
from rag_utils.page import chapters
from rag_utils.score import stand_in


def main(chapter: str, given: str, way: str, clock: str) -> None:
    """given : the chapter's parameters as JSON; way : the mode of `foreseen.plan`; clock : a name in `time`."""
    notes, table = stand_in.Notes(once=way != "fresh", kept=way == "live", clock=getattr(time, clock)), tables.table

    def kept_or_made(*names, mode="replay", **settings):
        if notes.kept:  # in mode "live" rows that are kept are shown
            with suppress(tables.TableError):
                return table(*names, mode="replay", **settings)
        return table(*names, mode=mode, **settings)

    tables.table = kept_or_made
    os.chdir(chapters.BOOK)
    print(json.dumps(stand_in.observed(chapter, json.loads(given), notes)))


if __name__ == "__main__":
    main(*sys.argv[1:])
