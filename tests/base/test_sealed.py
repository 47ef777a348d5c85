"""Checksums of files, remembered."""

import hashlib
import os

from rag_utils.base import sealed


def test_a_file_is_hashed_once_and_again_when_anything_about_it_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sealed, "SETTLED", -1.0)
    (path := tmp_path / "file").write_bytes(b"one")
    read, digest = [], hashlib.file_digest
    monkeypatch.setattr(sealed.hashlib, "file_digest", lambda *given: read.append(1) or digest(*given))

    def of_file():
        return sealed.digests([path])[path]

    assert of_file() == of_file() == hashlib.sha256(b"one").hexdigest() and len(read) == 1
    before = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # same size, time and inode
    assert of_file() == hashlib.sha256(b"two").hexdigest()
    (tmp_path / "cache/digests.json").write_text("[")
    assert of_file() == hashlib.sha256(b"two").hexdigest()


def test_a_file_that_was_just_written_is_hashed_again(tmp_path, monkeypatch):
    """Two changes within one tick of the clock would look like none."""
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    (path := tmp_path / "file").write_bytes(b"one")
    sealed.digests([path])
    assert not (tmp_path / "cache/digests.json").exists()
