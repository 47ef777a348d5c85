"""The progress line: on the terminal that the command was started from, and nowhere else."""

import fcntl
import os
import pty
import struct
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
