"""All documents read, against compressed and read: seconds of each part, in one run, one question after the other.

Written to `benchmarks/compression.json`, for every question: reading all documents; compressing them, that is embedding every
sentence, ranking and asking the evaluator; and reading what is kept. These are the columns of ECoRAG, Table 4.
"""

import argparse
import json
from pathlib import Path

import tasks
import torch
from engine import processor, timed

from experiments.ecorag_ablations import tables
from rag_utils import data, lm, prompts, retrieve
from rag_utils.engine.products import fast_products
from rag_utils.measures import ecorag

RESULTS = Path(__file__).with_name("compression.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the result goes")
    given = parser.parse_args()
    reader, read = lm.load("embedded", mode="fresh"), prompts.load("read_plain")
    asked = [question for question in data.load("companion") if question.split == "test"][: given.questions]
    documents = tables.retrieved(asked, data.passages("companion"), k=given.documents)
    model, head = retrieve.sentence_model(), ecorag.load_head("evidentiality")

    def encode(texts):
        """Not `retrieve.encoder`, which finds what was embedded once in the user's cache."""
        with fast_products(model):
            return model.encode(texts, normalize_embeddings=True, show_progress_bar=False)

    def compress(question):
        """With nothing remembered of other questions: their documents overlap."""
        score = ecorag.dot_products(encode, head)
        return ecorag.adaptive(score, ecorag.small_evaluator(score))([question], documents)

    def reply(question, texts):
        tasks.generate(reader, [read.fill(question=question.text, documents=texts)], do_sample=False)

    reply(asked[0], [ecorag.titled(passage) for passage in documents[asked[0].id]])  # first touches of memory are slow
    compress(asked[0])
    rows = []
    for number, question in enumerate(asked):
        texts, kept = [ecorag.titled(passage) for passage in documents[question.id]], {}
        ways = {
            "all documents": lambda _, question=question, texts=texts: reply(question, texts),
            "compression": lambda _, question=question, kept=kept: kept.update(compress(question)),
            "reading": lambda _, question=question, kept=kept: reply(question, kept[question.id]),
        }
        seconds = {way: timed("took", work, None, reader.model)["took_s"] for way, work in ways.items()}
        rows.append({"question": number, "texts": len(kept[question.id])} | seconds)
        print(", ".join(f"{way} {value:.2f} s" for way, value in seconds.items()), flush=True)
    result = {"data": "companion", "questions": len(asked), "documents": given.documents, "reader": reader.name}
    result |= {"processor": processor(), "threads": torch.get_num_threads(), "rows": rows}
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
