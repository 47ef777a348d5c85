"""Invented questions in the files that the loaders of the public benchmarks read, enough of each to measure on."""

import gzip
import hashlib
import json
from pathlib import Path

from rag_utils import data
from rag_utils.corpora import manifest

WORDS = ["ash", "birch", "cedar", "elm", "fir", "hazel"]


def _nq() -> bytes:
    rows = []
    for n, word in enumerate([word + mark for mark in ("", "es", "wood", "leaf") for word in WORDS]):
        passage = {"title": "Trees", "text": f"The {word} stands in row {n} of the park.", "isgold": True}
        rows.append({"question": f"which tree stands in row {n}", "answers": [f"the {word}", word], "ctxs": [passage]})
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())


def _squad() -> bytes:
    paragraphs = [
        {
            "context": f"Under the {word} lives animal number {n}.",
            "qas": [
                {"id": f"s{n}", "question": f"Where lives animal {n}?", "answers": [{"text": word, "answer_start": 10}]}
            ],
        }
        for n, word in enumerate(WORDS)
    ]
    return json.dumps({"version": "1.1", "data": [{"title": "Animals", "paragraphs": paragraphs}]}).encode()


def _multihop() -> bytes:
    rows = []
    for n, word in enumerate(WORDS[:4]):
        paragraphs = [
            {"title": f"Keeper {n}", "text": f"Keeper {n} loves the {word}.", "is_supporting": True},
            {"title": word, "text": f"The {word} grows in Town {n}.", "is_supporting": True},
            {"title": "Rain", "text": f"It rains on {WORDS[n + 1]} and keeper alike.", "is_supporting": False},
            {"title": "Snow", "text": f"It snows in the tree of keeper {n + 1}.", "is_supporting": False},
        ]
        asked = {"question": f"Where grows the tree of keeper {n}?", "answers": [f"Town {n}"]}
        rows.append({"id": f"m{n}", **asked, "paragraphs": paragraphs})
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _evouna() -> bytes:
    rows = []
    for n, word in enumerate(WORDS):
        row = {"question": f"which tree is number {n}", "golden_answer": f"{word}/the {word} tree", "improper": False}
        for place, system in enumerate(data.SYSTEMS):
            row |= {f"answer_{system}": word if place > n else "no tree", f"judge_{system}": place != 1}
        rows.append(row)
    rows[0] |= {"answer_gpt4": None, "judge_gpt4": None}
    return json.dumps(rows).encode()


FILES = {
    "nq": ("nq.jsonl.gz", _nq),
    "squad": ("squad.json", _squad),
    "hotpotqa": ("hotpotqa.jsonl", _multihop),
    "evouna_nq": ("evouna.json", _evouna),
    "evouna_tq": ("evouna_tq.json", _evouna),
}


def write(folder: Path, monkeypatch) -> None:
    """Let `data.load` and `data.load_judged` read these files for the rest of a test."""
    known = {}
    for name, (path, content) in FILES.items():
        (folder / path).write_bytes(written := content())
        known[name] = {"path": path, "sha256": hashlib.sha256(written).hexdigest()}
        known[name] |= {"rows": 1, "source": f"invented/{name}@1", "url": ["https://example.org/rows"], "licence": "CC0"}
    (folder / "manifest.json").write_text(json.dumps(known))
    monkeypatch.setattr(manifest, "MANIFEST", folder / "manifest.json")
    monkeypatch.setenv("RAG_COMPANION_DATA", str(folder))
