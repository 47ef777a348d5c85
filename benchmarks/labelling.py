"""A list judged whole against its documents judged one by one: seconds and peak memory, in one run, by the usual way.

Written to `benchmarks/labelling.json`: for every number of documents and every question, what each way took.

* whole list: one prompt with all documents
* per query: the documents of a question as one padded batch of prompts
* per document: one prompt after the other

These are the three configurations of eRAG, Table 2. The texts are those of `engine.py`.
"""

import argparse
import json
from functools import partial
from pathlib import Path

import tasks
import torch
from engine import processor, timed

from rag_utils import lm, prompts, retrieve

RESULTS = Path(__file__).with_name("labelling.json")
DOCUMENTS = (1, 2, 5, 10, 20)


def ways(reader: lm.LanguageModel, question: str, documents: list[str]) -> dict:
    """Name -> what is to be done for one question and its documents."""
    read = prompts.load("read_plain")
    whole = read.fill(question=question, documents=documents)
    alone = [read.fill(question=question, documents=[document]) for document in documents]
    reply = partial(tasks.generate, reader, do_sample=False)
    return {
        "whole list": lambda: reply([whole]),
        "per query": lambda: reply(alone),
        "per document": lambda: [reply([text]) for text in alone],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the result goes")
    given = parser.parse_args()
    reader = lm.load("embedded", mode="fresh")
    asked, pool, dataset = tasks.questions(given.questions)
    run = retrieve.bm25(asked, pool, k=max(DOCUMENTS))
    text = {passage.id: passage.text for passage in pool}
    documents = [[text[i] for i in retrieve.ranking(run[question.id])] for question in asked]
    ways(reader, asked[0].text, documents[0])["whole list"]()  # memory that is touched for the first time is slow
    rows = []
    for number, (question, retrieved) in enumerate(zip(asked, documents, strict=True)):
        for k in DOCUMENTS:
            for way, work in ways(reader, question.text, retrieved[:k]).items():
                cost = timed("took", lambda _, work=work: work(), None, reader.model)
                rows.append({"question": number, "k": k, "way": way} | cost)
            last = ", ".join(f"{row['way']} {row['took_s']:.1f} s {row['took_bytes'] / 2**20:.0f} MB" for row in rows[-3:])
            print(f"k = {k}: {last}", flush=True)
    result = {"data": dataset, "questions": len(asked), "reader": reader.name, "processor": processor()}
    result |= {"threads": torch.get_num_threads(), "rows": rows}
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
