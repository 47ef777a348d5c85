"""Lists in the order that a model writes when it is shown all passages with numbers: RankGPT."""

import re
from collections.abc import Sequence

import pandas as pd

from rag_utils.base import checks
from rag_utils.data import Question
from rag_utils.measures.moi import Orders, Shown, label
from rag_utils.measures.moi import parse as places_of
from rag_utils.prompts import Prompt, load, prompt_text
from rag_utils.score.records import Record, checked
from rag_utils.score.scores import loaded


def listwise(records: Sequence[Record], *, reader="embedded-base", mode: str = "live", prompt: str = "moi_listwise.chat") -> list[Record]:
    """The records, their passages in the order that the reader writes: it reads the question and the list, and names the best first.

    reader : one that follows instructions; prompt : with the slots question and passages, a name or a file. What is not named comes last
    source : RankGPT (Sun et al. 2023), one pass over the list, in our words
    """
    model, records = loaded(reader, mode), checked(records)
    asked, shown = [record.asked() for record in records], {record.id: record.shown(len(record.passages)) for record in records}
    as_they_are = {record.id: [list(range(len(record.passages)))] for record in records}
    rows = written(model, asked, shown, as_they_are, prompt=load(prompt))
    order = rows.set_index("id")["order"].map(places_of)
    return [record.model_copy(update={"passages": [record.passages[place] for place in order[record.id]]}) for record in records]


def written(asker, questions: Sequence[Question], shown: Shown, orders: Orders, *, prompt: Prompt) -> pd.DataFrame:
    """The rankings that a model writes when it is shown the passages with numbers, in each of the orders.

    prompt  : with the slots question and passages
    returns : columns id, run, order (in the retriever's numbers) and the repairs of `parse`
    source  : RankGPT (Sun et al. 2023), in our words; several orders: permutation self-consistency (Tang et al. 2024)
    """
    texts, rows = [], []
    asked = [(question, run, order) for question in questions for run, order in enumerate(orders[question.id])]
    for question, _, order in asked:
        lines = [f"[{i}] {' '.join(shown[question.id][place].text.split())}" for i, place in enumerate(order, 1)]
        texts.append(prompt_text(asker, prompt, question, passages="\n".join(lines)))
    replies = asker.generate(texts, max_new_tokens=6 * max(len(order) for _, _, order in asked))  # "[10] > " has six at most
    for (question, run, order), [said] in zip(asked, replies, strict=True):
        places, repairs = parse(said.text, len(order))
        rows.append({"id": question.id, "run": run, "order": label(order[p] for p in places)} | repairs)
    return pd.DataFrame(rows)


def parse(reply: str, n: int) -> tuple[list[int], dict[str, int]]:
    """The ranking in a reply such as "[2] > [3] > [1]" of n passages, numbered from 1, and what had to be repaired in it.

    returns : every passage once, best first; how many are "missing" (put last), "repeated" (the first counts), "out_of_range" (left out)
    source  : RankGPT (Sun et al. 2023). Deviation: of a reply with a number in square brackets only such numbers count; there every digit
    """
    reply, n = checks.text("reply", reply), checks.whole("n", n, least=1)
    digits = re.findall(r"\[\s*([0-9]+)\s*\]", reply) or re.findall(r"[0-9]+", reply)
    numbers = [int(text) if len(text) < 10 else 0 for text in digits]  # 0 names no passage
    valid = [number - 1 for number in numbers if 1 <= number <= n]
    named = list(dict.fromkeys(valid))
    rest = [passage for passage in range(n) if passage not in named]
    repairs = {"missing": len(rest), "repeated": len(valid) - len(named), "out_of_range": len(numbers) - len(valid)}
    return named + rest, repairs
