"""Invented questions in the files that the loaders of the public benchmarks read."""

import hashlib
import json
from pathlib import Path

from rag_utils.corpora import manifest


def multihop(folder: Path, monkeypatch, name: str, rows: list[dict]) -> None:
    """Let `data.load(name)` read these rows: name is "hotpotqa" or "musique", rows as in tests/doors/test_data.py."""
    content = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(content)
    known = {"path": f"{name}.jsonl", "sha256": hashlib.sha256(content.encode()).hexdigest(), "rows": len(rows)}
    known |= {"source": "invented/rows@1", "url": ["https://example.org/rows"], "licence": "CC0"}
    (folder / "manifest.json").write_text(json.dumps({name: known}))
    monkeypatch.setattr(manifest, "MANIFEST", folder / "manifest.json")
    monkeypatch.setenv("RAG_COMPANION_DATA", str(folder))


def paragraphs(*texts: tuple[str, str, bool]) -> list[dict]:
    """The paragraphs of a row from (title, text, whether it is needed)."""
    return [{"title": title, "text": text, "is_supporting": needed} for title, text, needed in texts]
