"""Where benchmark files are found, and every way in which that goes wrong."""

import hashlib
import json
import os
import socket
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from looped import each

from rag_utils.base import sealed
from rag_utils.base.cache import CacheError, cache_dir, make_dir
from rag_utils.corpora import manifest, prompts
from rag_utils.corpora.manifest import DataError

CONTENT = b'{"question": "which bird sings at noon"}\n'
PATH = "toy/rows.jsonl"
PROMPT = """# METADATA: {"qid": "a"}
Wikipedia Title: Salt
It is grey.

It comes from ponds.

Wikipedia Title: Bread
It is old.

Q: Which colour?
A: grey


# METADATA: {"qid": "b"}
Wikipedia Title: Bread
It is old.

Wikipedia Title: Wool
Wet: it smells.

Q: How old?
A: old"""


def entry(**changes) -> dict:
    return {
        "path": PATH,
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "rows": 1,
        "source": "owner/repository@0123:rows.jsonl",
        "url": ["https://example.org/rows"],
        "licence": "CC0",
    } | changes


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Give the module a manifest with one data set, `toy`, and an empty cache; return the function that writes it."""
    monkeypatch.setattr(manifest, "MANIFEST", tmp_path / "manifest.json")
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RAG_COMPANION_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")

    def write(**changes) -> Path:
        manifest.MANIFEST.write_text(json.dumps({"toy": entry(**changes)}))
        return cache_dir("data", PATH)

    write()
    return write


@pytest.fixture
def serve():
    """Serve bytes on loopback; `serve(content)` returns the address, `serve.asked` counts the requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer.asked += 1
            self.send_response(200 if answer.content is not None else 404)
            self.end_headers()
            self.wfile.write(answer.content or b"")

        def log_message(self, *args):
            pass

    def answer(content: bytes | None) -> str:
        answer.content = content
        return f"http://127.0.0.1:{server.server_port}/rows.jsonl"

    answer.asked = 0
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield answer
        server.shutdown()


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def message(function, *args, error=DataError) -> str:
    with pytest.raises(error) as caught:
        function(*args)
    return str(caught.value)


def as_nobody(function) -> str:
    """Run a function in a child that has no rights of root; return its result or error as text."""
    read, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            try:
                text = str(function())
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            os.write(send, text.encode())
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


@pytest.fixture
def locked():
    """A folder that others can enter and nobody but root can write to."""
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        folder = Path(outer) / "locked"
        folder.mkdir(mode=0o555)
        yield folder


# --- the manifest of the repository ----------------------------------------------------------------------------------


def test_the_repository_s_manifest_names_its_files_and_their_addresses_agree_with_their_sources():
    known = manifest.entries()
    assert list(known) == ["nq", "evouna_nq", "evouna_tq", "squad", "hotpotqa", "musique", "kv_retrieval"]
    for name, one in known.items():
        repository, _, rest = one.source.partition("@")
        commit, _, path = rest.partition(":")
        assert len(commit) == 40
        address = f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"
        if name in ("hotpotqa", "musique"):
            assert path == "prompts/" and len(one.url) == 4 and all(each.startswith(f"{address}{name}/") for each in one.url)
        else:
            assert one.url == [address]


@each(
    ("changes", "field"),
    [
        ({"sha256": "abc"}, "toy.sha256"),
        ({"path": "/etc/rows"}, "toy.path"),
        ({"path": "../rows"}, "toy.path"),
        ({"url": ["file:///etc/rows"]}, "toy.url.0"),
        ({"url": []}, "toy.url"),
        ({"rows": "1"}, "toy.rows"),
        ({"extra": 1}, "toy.extra"),
    ],
)
def test_an_entry_of_another_form_is_named(write, changes, field):
    write(**changes)
    assert f"manifest.json, field {field}: " in message(manifest.entries)


def test_a_missing_or_broken_manifest_is_named(write):
    manifest.MANIFEST.write_text('{"toy": ')
    assert "manifest.json, field (all): Invalid JSON" in message(manifest.entries)
    manifest.MANIFEST.unlink()
    assert "run from a clone" in message(manifest.entries)


# --- locate ----------------------------------------------------------------------------------------------------------


def test_a_file_is_found_in_the_cache_and_a_given_folder_comes_first(write, tmp_path, monkeypatch):
    in_cache = put(write())
    assert manifest.locate("toy") == in_cache
    monkeypatch.setenv("RAG_COMPANION_DATA", str(tmp_path / "given"))
    (tmp_path / "given").mkdir()
    assert manifest.locate("toy") == in_cache
    assert manifest.locate("toy") != put(tmp_path / "given" / "other")
    given = put(tmp_path / "given" / PATH)
    assert manifest.locate("toy") == given


def test_an_absent_file_says_what_to_do(write):
    text = message(manifest.locate, "toy")
    assert f"run: rag-companion data fetch toy, or set RAG_COMPANION_DATA to a folder that holds {PATH}" in text


def test_a_damaged_file_is_an_error_also_where_the_cache_has_a_good_one(write, tmp_path, monkeypatch):
    put(write())
    bad = put(tmp_path / "given" / PATH, CONTENT[:-5])
    monkeypatch.setenv("RAG_COMPANION_DATA", str(tmp_path / "given"))
    for function in (manifest.locate, manifest.fetch):
        text = message(function, "toy")
        assert str(bad) in text
        assert hashlib.sha256(CONTENT).hexdigest()[:12] in text
        assert hashlib.sha256(CONTENT[:-5]).hexdigest()[:12] in text
        assert "noon" not in text


def test_a_given_folder_that_is_none_is_an_error(write, tmp_path, monkeypatch):
    put(write())
    monkeypatch.setenv("RAG_COMPANION_DATA", str(tmp_path / "nothing"))
    for call in (lambda: manifest.locate("toy"), manifest.status):
        assert "which is not a folder" in message(call)


def test_an_unknown_name_gets_the_near_ones(write):
    for function in (manifest.locate, manifest.fetch):
        assert message(function, "toys", error=ValueError).startswith("unknown data set 'toys'; did you mean 'toy'?")


def test_a_checksum_is_computed_once_and_again_when_the_file_changes(write, monkeypatch):
    path = put(write())
    monkeypatch.setattr(sealed, "SETTLED", -1.0)
    read, digest = [], sealed.hashlib.file_digest
    monkeypatch.setattr(sealed.hashlib, "file_digest", lambda *given: read.append(1) or digest(*given))
    for _ in range(3):
        manifest.locate("toy")
    assert len(read) == 1
    put(path, CONTENT + b"\n")
    assert "wanted" in message(manifest.locate, "toy")


def test_status_tells_absent_right_and_wrong(write):
    path, known = write(), manifest.entries()["toy"]
    assert manifest.status() == [("toy", known, None, None)]
    for content, right in ((CONTENT, True), (b"other", False)):
        put(path, content)
        assert manifest.status() == [("toy", known, path, right)]


# --- fetch -----------------------------------------------------------------------------------------------------------


def test_fetch_downloads_once_and_leaves_nothing_beside_the_file(write, serve):
    path = write(url=[serve(CONTENT)])
    assert manifest.fetch("toy") == path
    assert path.read_bytes() == CONTENT
    assert manifest.fetch("toy") == manifest.locate("toy") == path
    assert serve.asked == 1
    assert list(path.parent.iterdir()) == [path]


def test_fetch_replaces_a_damaged_file_of_the_cache(write, serve):
    path = put(write(url=[serve(CONTENT)]), b"half")
    assert manifest.fetch("toy").read_bytes() == CONTENT == path.read_bytes()


def test_a_download_with_a_wrong_checksum_is_not_kept(write, serve):
    path = write(url=[serve(CONTENT[:10])])
    assert "wanted" in message(manifest.fetch, "toy")
    assert list(path.parent.iterdir()) == []


def test_rows_are_taken_from_prompts_where_there_are_several_addresses(write, serve):
    rows = prompts.rows([PROMPT, PROMPT])
    path = write(url=[serve(PROMPT.encode())] * 2, sha256=hashlib.sha256(rows.encode()).hexdigest())
    assert manifest.fetch("toy") == manifest.locate("toy") == path
    assert path.read_text() == rows and serve.asked == 2
    path.unlink()
    write(url=[serve(b"\xff no prompt")] * 2, sha256=hashlib.sha256(rows.encode()).hexdigest())
    assert "wanted" in message(manifest.fetch, "toy")
    assert list(path.parent.iterdir()) == []


def test_a_paragraph_is_supporting_if_every_prompt_has_its_title():
    """By hand: question a is shown salt and bread, then rope and salt; b, which one prompt lacks, keeps what the others share."""
    second = PROMPT.replace("Bread\nIt is old.\n\nQ: Which", "Rope\nIt is long.\n\nQ: Which")
    third = PROMPT.partition("\n\n\n")[0]
    one, two = map(json.loads, prompts.rows([PROMPT, second, third]).splitlines())
    assert one == {
        "id": "a",
        "question": "Which colour?",
        "answers": ["grey"],
        "paragraphs": [
            {"title": "Salt", "text": "It is grey.\n\nIt comes from ponds.", "is_supporting": True},
            {"title": "Bread", "text": "It is old.", "is_supporting": False},
        ],
    }
    assert (two["question"], two["answers"]) == ("How old?", ["old"])
    assert [(each["title"], each["is_supporting"]) for each in two["paragraphs"]] == [("Bread", True), ("Wool", True)]


def test_no_network_and_no_such_page_are_named(write, serve):
    write(url=[serve(None)])
    assert "no download" in (text := message(manifest.fetch, "toy")) and "Not Found" in text
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    write(url=[f"http://127.0.0.1:{port}/rows.jsonl"])
    assert "Connection refused" in message(manifest.fetch, "toy")


def test_a_server_that_does_not_answer_is_given_up(write, monkeypatch):
    monkeypatch.setattr(manifest, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        write(url=[f"http://127.0.0.1:{silent.getsockname()[1]}/rows.jsonl"])
        assert "timed out" in message(manifest.fetch, "toy")


def test_a_full_disk_is_named_and_nothing_is_left(write, serve):
    path = write(url=[serve(CONTENT)])
    path.parent.mkdir(parents=True)
    path.with_name(f"{path.name}.{os.getpid()}.partial").symlink_to("/dev/full")
    text = message(manifest.fetch, "toy")
    assert str(path) in text and "No space left on device" in text and "RAG_COMPANION_CACHE" in text
    assert list(path.parent.iterdir()) == []


def test_a_cache_that_cannot_be_written_to_is_named(write, serve, locked, monkeypatch):
    write(url=[serve(CONTENT)])
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(locked))
    known = manifest.entries()  # the child cannot read tmp_path
    monkeypatch.setattr(manifest, "entries", lambda: known)
    text = as_nobody(lambda: manifest.fetch("toy"))
    assert text.startswith("DataError: data set 'toy': cannot write to ")
    assert str(locked) in text and "Permission denied" in text and "RAG_COMPANION_CACHE" in text
    assert serve.asked == 0


# --- the cache -------------------------------------------------------------------------------------------------------


def test_the_cache_is_where_the_reader_says_and_is_not_made_by_asking(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "mine"))
    assert cache_dir("data", "x") == tmp_path / "mine" / "data" / "x"
    assert not (tmp_path / "mine").exists()
    monkeypatch.setenv("HOME", str(tmp_path))
    for unset in ("", None):
        monkeypatch.setenv("RAG_COMPANION_CACHE", unset) if unset == "" else monkeypatch.delenv("RAG_COMPANION_CACHE")
        assert cache_dir() == tmp_path / ".cache" / "rag-companion"


def test_a_home_that_is_nowhere_is_named(monkeypatch):
    monkeypatch.setenv("RAG_COMPANION_CACHE", "~no-such-user-here/cache")
    assert "set RAG_COMPANION_CACHE" in message(cache_dir, error=CacheError)


def test_make_dir_makes_parents_and_names_what_stands_in_the_way(tmp_path, locked):
    assert make_dir(tmp_path / "a" / "b").is_dir()
    assert make_dir(tmp_path / "a" / "b").is_dir()
    put(tmp_path / "file")
    assert "Not a directory" in message(make_dir, tmp_path / "file" / "below", error=CacheError)
    assert "File exists" in message(make_dir, tmp_path / "file", error=CacheError)
    assert "not writable" in as_nobody(lambda: make_dir(locked))
    assert "Permission denied" in as_nobody(lambda: make_dir(locked / "below"))
