"""Answers by the place of the good passage, among three, five and six; fixed before any call: the questions of the printed form."""

import pandas as pd

from experiments import asking, benchmarks
from experiments.moi_position.position_numbers import shown_of
from rag_utils import prompts
from rag_utils.score.places import wandering


def places(*, mode, profile, prompt, dataset, questions, orders, max_new_tokens, few=None):
    """Rows of `score.places.wandering` without the reply, condition "cyclic SIZE"; settings as in `orders_read`, orders: sizes, seed."""
    reader, parts = asking.reader(profile, mode), []
    how = {"prompt": prompts.load(prompt), "max_new_tokens": max_new_tokens}
    for size in orders["sizes"]:
        asked, shown = shown_of(dataset, questions, {"size": size, "seed": orders["seed"]}, few)
        parts.append(wandering(reader, asked, shown, **how).drop(columns="reply").assign(condition=f"cyclic {size}"))
    return pd.concat(parts), asking.facts(reader=reader) | {"questions": len(asked)} | benchmarks.source(dataset)
