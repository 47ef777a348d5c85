"""Chapter 1: the reader closed book, with gold passages and with hard negatives on public benchmarks."""

from collections.abc import Mapping

import pandas as pd

from experiments import benchmarks
from experiments.asking import conditions
from rag_utils.lm import LanguageModel
from rag_utils.prompts import Prompt


def benchmark(
    reader: LanguageModel, name: str, n: int, *, forms: Mapping[str, tuple[Prompt, Prompt]], max_new_tokens: int = 24
) -> tuple[pd.DataFrame, dict]:
    """`conditions` on a public benchmark, for each named pair of prompts (closed book, reading): numbers per question only.

    forms   : as `prompts.FORMS`
    n       : questions; a benchmark with fewer is taken whole
    returns : (rows without replies, what they were measured with)

    Hard negatives are found by BM25: in the pool of all passages of NQ and SQuAD, among the question's own paragraphs for HotpotQA and
    MuSiQue.
    """
    data_set = benchmarks.load(name, n)
    questions, negatives = data_set.questions, data_set.negatives()
    tables = []
    for label, (closed, read) in forms.items():
        asked = conditions(reader, questions, negatives, closed=closed, read=read, max_new_tokens=max_new_tokens)
        tables.append(asked.drop(columns="reply").assign(prompt=label))
    facts = {
        "reader": reader.name,
        "fingerprint": reader.fingerprint,
        "prompts": {one.name: one.digest for pair in forms.values() for one in pair},
        "max_new_tokens": max_new_tokens,
        **data_set.facts,
        "without_hard_negative": sum(not found for found in negatives.values()),
        "selection": "order of the SHA-256 of the question" + ("; the held-out quarter" if name == "nq" else ""),
    }
    return pd.concat(tables, ignore_index=True), facts
