"""Where must the good passage stand? It wanders through every place of the context, the others turning with it.

    D G D D   the passages of a question, G its good one; the four turns are asked, and each turn says
    G D D D   whether the reply is right, and how likely the answer is
    D D D G
    D D G D
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rag_utils import moi, stats
from rag_utils.base import checks
from rag_utils.data import Question
from rag_utils.lm import LanguageModel
from rag_utils.measures import moi as measure
from rag_utils.prompts import Prompt


def wandering(
    reader: LanguageModel, questions: Sequence[Question], shown: measure.Shown, *, prompt: Prompt, max_new_tokens: int = 24
) -> pd.DataFrame:
    """The reader's reply and how likely answer and question are with the good passage in each place of the context.

    shown   : question id -> the N passages it is asked with; questions of which not exactly one is a gold passage are left out
    returns : rows as of `measures.moi.answered`, condition "cyclic", N for each question; probability, 0 to 1: that of the first gold
              answer, as it is written, right after the prompt; and query, nats: the log-likelihood of the question after the passages, as
              of `measures.moi.saliencies`
    raises  : ValueError if no question is left
    source  : ours, beside MoI, Fig. 6, whose places are worth what they do for the question's likelihood
    """
    single = [each for each in questions if len(measure.gold_places(each, shown)) == 1]
    if not single:
        raise ValueError(f"wanted questions with exactly one gold passage among those shown, got none of {len(questions)}")
    turns = {each.id: moi.cyclic_orders(len(shown[each.id])) for each in single}
    rows = measure.answered(reader, single, shown, {measure.CYCLIC: turns}, prompt=prompt, max_new_tokens=max_new_tokens)
    of, answer, question = {each.id: each for each in single}, [], []
    for name, order in zip(rows["id"], rows["order"], strict=True):
        each, passages = of[name], [shown[name][number] for number in measure.parse(order)]
        answer.append((prompt.fill(question=each.text, documents=[p.text for p in passages]), f" {each.answers[0]}"))
        question.append((measure.question_context(prompt, passages), f" {each.text}"))
    both = map(list, zip(*answer, *question, strict=True))  # in one call, since they begin alike
    nats = [float(each.sum()) for each in reader.log_likelihood(*both)]
    return rows.assign(probability=np.exp(nats[: len(rows)]), query=nats[len(rows) :])


def by_place(said: pd.DataFrame, metric: str, **again) -> pd.DataFrame:
    """The mean of a metric by the place 1, 2, ... of the first gold passage, each order of a question counted once.

    said    : rows of `measures.moi.answered` or of `wandering`
    again   : as `stats.mean_interval`
    returns : columns value, low, high, n (orders); the interval draws questions
    """
    checks.one_of("metric", metric, said.columns)
    placed = said[said["gold"] > 0].drop_duplicates(["id", "order"])
    parts = placed.groupby((1 / placed["gold"]).round().astype(int))
    means = {place: vars(stats.mean_interval(part[metric], groups=part["id"], **again)) for place, part in parts}
    return pd.DataFrame.from_dict(means, orient="index").drop(columns="undefined").rename_axis("place of gold")
