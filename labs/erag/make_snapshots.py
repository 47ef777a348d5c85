"""Writes tests/snapshots.json: what the book's own functions say of this lab's data, and what they say with the usual mistakes.

usage: python labs/erag/make_snapshots.py
"""

import json
from functools import cache
from pathlib import Path

from rag_utils import answers, erag, stats

LAB = Path(__file__).resolve().parent
DECIMALS = 6
BM25, DENSE = "BM25", "dense"


def snapshots() -> dict:
    [salt], corpus = questions("salt"), questions("corpus")
    numbers = {"annotate": {"salt": by_reader(salt, salt["lists"]["article"])}, "taus": corpus_taus(corpus)}
    return json.loads(json.dumps(numbers), parse_float=lambda text: round(float(text), DECIMALS))


def questions(name: str) -> list[dict]:
    return json.loads((LAB / "data" / f"{name}.json").read_text(encoding="utf-8"))["questions"]


def by_reader(question: dict, documents: list[str]) -> list[float]:
    """eRAG's labels, by `erag.annotate`; a document's name is its prompt, since that is what replies are kept under."""
    how = {"generate": lambda names: [question["replies"][name] for name in names], "score": answers.exact_match}
    asked = [question["question"]], [documents], [question["answers"]]
    return erag.annotate(*asked, prompt=lambda _, document: document, **how)[0]


def by_string(question: dict, documents: list[str]) -> list[float]:
    return [float(name in question["holds"]) for name in documents]


def from_the_first(question: dict, documents: list[str]) -> list[float]:
    """Labels with a mistake: each document shown with all before it."""
    return [right(question, documents[: rank + 1]) for rank in range(len(documents))]


def right(question: dict, documents: list[str]) -> float:
    return answers.exact_match(question["replies"][" ".join(documents)], question["answers"])


@cache
def measured(labels: tuple[float, ...], k: int) -> dict[str, float]:
    names = {"P": f"P@{k}", "RR": "RR", "AP": "AP", "nDCG": "nDCG", "Success": f"Success@{k}"}
    values = erag.rank_metrics(list(labels), list(names.values()))
    return {name: round(values[full], 9) for name, full in names.items()}  # ties as on paper


def taus(corpus, retriever=BM25, k=5, *, labelled=None, shown=None, labels_of=by_reader, method="kendall"):
    """Metric -> correlation with the reader. With a mistake: `labelled` documents measured in place of k, or `shown` of them to the reader.

    shown : a slice of the list
    """
    depth, how = labelled or k, {"method": method, "resamples": 40}
    lists = [question["lists"][retriever] for question in corpus]
    values = [
        measured(tuple(labels_of(*each)), depth) for each in zip(corpus, [own[:depth] for own in lists], strict=True)
    ]
    rights = [right(question, own[shown or slice(k)]) for question, own in zip(corpus, lists, strict=True)]
    return {name: stats.correlation([value[name] for value in values], rights, **how).value for name in values[0]}


def corpus_taus(corpus: list[dict]) -> dict[str, dict]:
    return {
        "five": taus(corpus),
        "ten labels": taus(corpus, labelled=10),
        "reader of ten": taus(corpus, shown=slice(10)),
        "reader of one": taus(corpus, shown=slice(1)),
        "reader of the last": taus(corpus, shown=slice(4, 5)),
        "dense": taus(corpus, DENSE),
        "from the first": taus(corpus, labels_of=from_the_first),
        "by string": taus(corpus, labels_of=by_string),
        "pearson": taus(corpus, method="pearson"),
        "spearman": taus(corpus, method="spearman"),
        "ten": taus(corpus, k=10),
        "string, ten": taus(corpus, k=10, labels_of=by_string),
        "dense, ten": taus(corpus, DENSE, k=10),
    }


if __name__ == "__main__":
    (LAB / "tests" / "snapshots.json").write_text(json.dumps(snapshots(), indent=1) + "\n", encoding="utf-8")
