"""Chapter 11: what a reader answers with the gold passages in front of it."""

import pandas as pd

from experiments import asking, benchmarks
from rag_utils.prompts import load


def with_gold(*, mode, profile, dataset, questions, read_prompt, max_new_tokens, few=None) -> tuple[pd.DataFrame, dict]:
    """Greedy replies to the first questions of a data set, as `asking.ask` counts them: numbers per question only."""
    reader, data_set = asking.reader(profile, mode), benchmarks.load(dataset, questions)
    gold = {question.id: question.gold for question in data_set.questions}
    how = {"passages": gold, "condition": asking.GOLD, "max_new_tokens": max_new_tokens}
    asked = asking.ask(reader, data_set.questions[:few], load(read_prompt), **how)
    return asked.drop(columns="reply"), asking.facts(reader=reader) | data_set.facts
