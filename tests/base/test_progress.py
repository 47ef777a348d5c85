"""Progress: one line on the terminal that the command was started from, lines in a log, and nothing in a page."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from rag_utils.base.progress import TERMINAL, track

BATCHES = [[1, 2], [3], [4, 5, 6]]


def run(monkeypatch, **environment):
    """What a pseudo terminal shows while the batches are worked through."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    for name in ("CI", "TQDM_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {TERMINAL: os.ttyname(theirs), **environment}.items():
        monkeypatch.setenv(name, value)
    assert list(track(BATCHES, what="reader, replies", total=6)) == BATCHES
    os.write(theirs, b"END")
    shown = b""
    while not shown.endswith(b"END"):
        shown += os.read(ours, 1000)
    os.close(ours), os.close(theirs)
    return shown.decode()


def test_one_line_that_disappears(monkeypatch, capsys):
    shown = run(monkeypatch)
    assert "reader, replies" in shown and "\n" not in shown
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("environment", [{"CI": "true"}, {"TQDM_DISABLE": "1"}])
def test_none_in_ci_or_in_a_page(monkeypatch, capsys, environment):
    assert run(monkeypatch, **environment) == "END"
    assert capsys.readouterr() == ("", "")


LOGGED = """
import time
from rag_utils.base import progress
progress.EVERY = 0.05
for batch in progress.track([[1], [2, 3], [4]], what="reader, replies", total=4):
    time.sleep(0.06)
"""


@pytest.mark.parametrize("where", ["standard error", "a file that the kernel is told of"])
def test_a_log_gets_plain_lines(tmp_path, where):
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "TQDM_DISABLE", TERMINAL)}
    (log := tmp_path / "log").write_text("begun before\n")
    if where != "standard error":
        environment[TERMINAL] = str(log)
    done = subprocess.run([sys.executable, "-c", LOGGED], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "" and (where == "standard error") == bool(done.stderr)
    first, *lines = (log.read_text() + done.stderr).splitlines()
    assert first == "begun before"  # a log is added to, not begun anew
    assert [line.split(",")[1] for line in lines] == [f" replies: {n} of 4" for n in (1, 3, 4)]
    assert lines[0] == "reader, replies: 1 of 4, 00:00 elapsed, about 00:00 left"


def test_where_standard_error_goes_can_be_opened_by_another_process(tmp_path):
    code = "from rag_utils.base.progress import terminal_name; open(terminal_name(), 'a').write('from elsewhere')"
    with open(tmp_path / "log", "w") as log:
        subprocess.run([sys.executable, "-c", code], stderr=log, check=True)
    assert (tmp_path / "log").read_text() == "from elsewhere"
