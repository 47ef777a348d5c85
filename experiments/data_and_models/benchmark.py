"""Chapter 1: a reader closed book, with gold passages and with hard negatives on public benchmarks."""

import pandas as pd

from experiments import asking, benchmarks
from rag_utils.prompts import load


def conditions(*, mode, profile, dataset, questions, prompts, max_new_tokens, few=None) -> tuple[pd.DataFrame, dict]:
    """`asking.conditions` on the first questions of a data set, for each labelled pair of prompts: numbers per question only.

    prompts : label, the column "prompt" -> names of two prompts, closed book and reading
    """
    reader, data_set = asking.reader(profile, mode), benchmarks.load(dataset, questions)
    negatives, chosen, tables = data_set.negatives(), data_set.questions[:few], []
    for label, (closed, read) in prompts.items():
        pair = {"closed": load(closed), "read": load(read)}
        asked = asking.conditions(reader, chosen, negatives, **pair, max_new_tokens=max_new_tokens)
        tables.append(asked.drop(columns="reply").assign(prompt=label))
    without = sum(not negatives[question.id] for question in chosen)
    facts = asking.facts(reader=reader) | data_set.facts | {"without_hard_negative": without}
    return pd.concat(tables, ignore_index=True), facts
