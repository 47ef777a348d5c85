"""Where a reply stands in what was shown: whether a passage lends a wrong answer to a reader that it misleads.

rows = lent(records, reader=reader)
rows[(rows["right"] == 0) & (rows["said_before"] == 0)].groupby("shown")["source"].count()
"""

from collections.abc import Iterable

import pandas as pd

from rag_utils.answers import contains_answer, exact_match, normalize
from rag_utils.prompts import load, prompt_text
from rag_utils.score.measured import Settings
from rag_utils.score.records import Record, checked
from rag_utils.score.scores import loaded

NOTHING, ALL = "no passage", "all passages"


def lent(records: Iterable[Record], *, reader="embedded", mode: str = "live", settings: Settings | None = None) -> pd.DataFrame:
    """The greedy reply to each question without passages, with each alone, and with all; and the first passage that holds its words.

    returns : one row per question and what is shown (NOTHING, a passage's id, ALL): question, shown, reply, right (exact match, 0 or 1;
              NaN without answers), source (id of the first passage shown whose normalised text contains the normalised reply, or missing)
              and said_before (1 if the reply without passages is the same, else 0)
    raises  : ValueError for no records, or as the records' own checks
    """
    records, settings, model = checked(records), settings or Settings(), loaded(reader, mode)
    closed, read, cases = load(settings.closed), load(settings.read), {}
    for record in records:
        cases[record.id, NOTHING] = (record, [])
        cases |= {(record.id, passage.id): (record, [passage]) for passage in record.passages}
        cases[record.id, ALL] = (record, record.passages)
    prompts = [
        prompt_text(model, read, record.question, [passage.text for passage in own]) if own else prompt_text(model, closed, record.question)
        for record, own in cases.values()
    ]
    replies = model.generate(prompts, max_new_tokens=settings.max_new_tokens)
    said = {case: reply.text.strip() for case, [reply] in zip(cases, replies, strict=True)}
    rows = []
    for (name, shown), (record, own) in cases.items():
        reply = said[name, shown]
        held = [passage.id for passage in own if normalize(reply) and contains_answer(passage.text, [reply])]
        row = {"question": name, "shown": shown, "reply": reply, "source": held[0] if held else None}
        row["right"] = float(exact_match(reply, record.answers)) if record.answers else float("nan")
        rows.append(row | {"said_before": int(normalize(reply) == normalize(said[name, NOTHING]))})
    return pd.DataFrame(rows)[["question", "shown", "reply", "right", "source", "said_before"]]
