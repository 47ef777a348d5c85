"""No text of a benchmark is in the repository: no run of eight words of any of its strings, in any file.

Needs the benchmarks (RAG_COMPANION_DATA). What is found is reported by file and line, never quoted.
"""

import gzip
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RUN = 8
WORD = re.compile(r"[^\W_]+")
SYNTHETIC = ("kv_retrieval",)  # random UUIDs: nobody's text
IN_JSON = (".json", ".jsonl", ".ipynb")


def read_text(path: Path) -> str | None:
    """The text of a file, unpacked if it is gzipped; None if it is binary."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return None if b"\0" in data else data.decode("utf-8", errors="replace")


def parse(text: str) -> list:
    """The JSON values of a file: one document, or one a line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def strings(value) -> Iterator[str]:
    """Every string anywhere in a JSON value, keys included; a list of strings is one text (a notebook's cell)."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from strings(part)
    elif isinstance(value, list):
        if len(value) > 1 and all(isinstance(part, str) for part in value):
            yield "".join(value)
            yield " ".join(value)
        else:
            for part in value:
                yield from strings(part)


def runs(words: list[str]) -> Iterator[int]:
    """The hash of every run of RUN words, in order."""
    return map(hash, zip(*(words[i:] for i in range(RUN)), strict=False))


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def benchmark_runs(folder: Path) -> set[int]:
    """Hashes of all runs of all texts under the folder."""
    found = set()
    for path in sorted(folder.rglob("*")):
        inner = Path(path.stem) if path.suffix == ".gz" else path
        if inner.suffix in IN_JSON and not set(path.relative_to(folder).parts) & set(SYNTHETIC):
            for text in strings(parse(read_text(path))):
                found.update(runs(words(text)))
    return found


def tracked_files(repository: Path) -> list[Path]:
    """What is tracked, or would be with `git add --all`."""
    command = ["git", "-C", str(repository), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split("\0")
    return [path for name in sorted(set(names)) if name and (path := repository / name).is_file()]


def find_runs(text: str, benchmark: set[int]) -> list[int]:
    """Line numbers at which a run of the benchmark starts."""
    if benchmark.isdisjoint(runs(words(text))):
        return []
    places = list(WORD.finditer(text.lower()))
    hits = [place for place, run in enumerate(runs([match[0] for match in places])) if run in benchmark]
    return sorted({text.count("\n", 0, places[hit].start()) + 1 for hit in hits})


def line_of(part: str, raw: str) -> int:
    """Where a string of a JSON file stands in it; 1 if it cannot be told."""
    start = part.splitlines()[0][:60] if part.strip() else part
    for ascii_only in (True, False):
        place = raw.find(json.dumps(start, ensure_ascii=ascii_only)[1:-1])
        if place >= 0:
            return raw.count("\n", 0, place) + 1
    return 1


def findings(repository: Path, benchmark: set[int]) -> list[str]:
    """`file:line` of every run of the benchmark in the repository."""
    found = set()
    for path in tracked_files(repository):
        raw = read_text(path)
        if raw is None:
            continue
        name = path.relative_to(repository).as_posix()
        found.update((name, line) for line in find_runs(raw, benchmark))
        if name.removesuffix(".gz").endswith(IN_JSON):
            try:
                parts = set(strings(parse(raw)))
            except json.JSONDecodeError:  # read as plain text above
                continue
            found.update((name, line_of(part, raw)) for part in parts if find_runs(part, benchmark))
    return [f"{name}:{line}" for name, line in sorted(found)]


@pytest.mark.skipif("RAG_COMPANION_DATA" not in os.environ, reason="not run: RAG_COMPANION_DATA names no benchmarks")
def test_no_text_of_a_benchmark_is_in_the_repository():
    benchmark = benchmark_runs(Path(os.environ["RAG_COMPANION_DATA"]))
    assert len(benchmark) > 1000, "RAG_COMPANION_DATA holds hardly any text: wrong folder?"
    found = findings(ROOT, benchmark)
    if found:
        pytest.fail(f"{len(found)} places with {RUN} words of a benchmark: {', '.join(found[:20])}", pytrace=False)


# ---------------------------------------- the search itself, on a benchmark made here

PASSAGE = 'Zwölf graue Reiher standen am Ufer – and the ferryman\'s "last" lantern went out before the bridge was seen.'
TAKEN = 'the ferryman\'s "last" lantern went out before the'  # nine words, quoted characters that JSON escapes


@pytest.fixture
def small(tmp_path):
    """A benchmark of one gzipped line and an empty repository."""
    data, repository = tmp_path / "data", tmp_path / "repository"
    data.mkdir()
    repository.mkdir()
    row = {"id": 1, "contexts": [{"title": "x", "text": PASSAGE}]}
    (data / "rows.jsonl.gz").write_bytes(gzip.compress((json.dumps(row) + "\n").encode()))
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    return repository, benchmark_runs(data)


def cell(source) -> str:
    return json.dumps({"cells": [{"cell_type": "markdown", "metadata": {}, "source": source}]}, indent=1)


def test_planted_text_is_found(small):
    repository, benchmark = small
    for name, content, line in (
        ("page.md", f"first line\n\nquoted: {TAKEN.upper()}\n", 3),
        ("page.md", "a\n" + TAKEN.replace("lantern ", "lantern\n> ") + "\n", 2),
        ("table.csv", "id,text\n7,{}\n".format(TAKEN.replace('"', "")), 2),
        ("chapter.ipynb", cell(["He said:\n", *(f"{word}\n" for word in TAKEN.split())]), 7),
        ("chapter.ipynb", cell("zwölf graue Reiher standen am Ufer – and the"), 6),
        ("rows.jsonl", json.dumps({"a": 1}) + "\n" + json.dumps({"deep": [{"reply": TAKEN}]}) + "\n", 2),
    ):
        (repository / name).write_text(content, encoding="utf-8")
        assert findings(repository, benchmark) == [f"{name}:{line}"]
        (repository / name).unlink()


def test_planted_text_is_found_when_tracked_and_when_packed(small):
    repository, benchmark = small
    (repository / "page.md").write_text(TAKEN, encoding="utf-8")
    subprocess.run(["git", "-C", str(repository), "add", "page.md"], check=True)
    (repository / "more.txt.gz").write_bytes(gzip.compress(TAKEN.encode()))
    assert findings(repository, benchmark) == ["more.txt.gz:1", "page.md:1"]


def test_seven_words_other_words_and_ignored_files_are_not_findings(small):
    repository, benchmark = small
    (repository / ".gitignore").write_text("ignored.md\n")
    (repository / "ignored.md").write_text(TAKEN, encoding="utf-8")
    (repository / "page.md").write_text("s last lantern went out before the end", encoding="utf-8")
    (repository / "picture.png").write_bytes(b"\0" + TAKEN.encode())
    assert findings(repository, benchmark) == []
