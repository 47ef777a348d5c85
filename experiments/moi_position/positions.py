"""Orders of passages put to a model: how likely each makes the question, what is answered to it, which ranking it writes.

The tables have one row per question, condition (a set of orders, or the method that ranked) and run (0 .. in the set):

table = saliencies(reader, questions, shown, {"pruned": orders}, prompt=prompt)
ranked = rankings(table, size=5)                                                  # experiments.moi_position.position_fits
said = answered(reader, questions, shown, ranked, prompt=prompt)
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from experiments.moi_position.permutations import CYCLIC, Orders, Shown, gold_places, label, parse, reciprocal_rank
from experiments.moi_position.rerankers import parse_listwise
from rag_utils import answers, similarity
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel
from rag_utils.prompts import Prompt, prompt_text

SCORES = {**answers.METRICS, "rouge_l": similarity.rouge_l}  # name -> score(reply, references)


def saliencies(
    reader: LanguageModel,
    questions: Sequence[Question],
    shown: Shown,
    sets: Mapping[str, Orders],
    *,
    prompt: Prompt,
    prior: bool = True,
) -> pd.DataFrame:
    """How likely the reader finds the question after the passages of each order, and the passages themselves.

    sets    : by name; all are read in one call, in which orders that begin alike share the work
    prompt  : with the documents before the question; what comes before $question is the context
    prior   : whether to look at the passages too; then each has its log-likelihood given those before it
    returns : columns id, condition, run, order, query (nats, sum over the question's tokens), passages (nats, NaN without `prior`) and
              information (sum of p log p over the question's tokens, for LongLLMLingua)
    raises  : ValueError if the prompt asks in another form, or as `LanguageModel.log_likelihood`
    source  : MoI, eq. 3, both factors in logarithms
    """
    by_id = {question.id: question for question in questions}
    keys, asked, parts = [], {}, {}
    for condition, orders in sets.items():
        for name, some in orders.items():
            for run, order in enumerate(some):
                lines = [f"Document: {' '.join(shown[name][place].text.split())}\n" for place in order]
                context = question_context(prompt, [shown[name][place] for place in order])
                key = (context, " " + by_id[name].text)
                steps = [("".join(lines[:i]), line) for i, line in enumerate(lines)] if prior else []
                keys.append((name, condition, run, label(order), key, steps))
                asked[key] = None
                parts |= dict.fromkeys(steps)
    pairs = [*asked, *(pair for pair in parts if pair not in asked)]
    found = dict(zip(pairs, reader.log_likelihood(*map(list, zip(*pairs, strict=True))), strict=True))
    return pd.DataFrame(
        {
            "id": name,
            "condition": condition,
            "run": run,
            "order": order,
            "query": found[key].sum(),
            "passages": sum(found[step].sum() for step in steps) if prior else np.nan,
            "information": float(np.sum(np.exp(found[key]) * found[key])),
        }
        for name, condition, run, order, key, steps in keys
    )


def question_context(prompt: Prompt, passages: Sequence[Passage]) -> str:
    """The prompt up to where the question begins, without the space before it.

    raises : ValueError if the prompt is a chat message or does not have its documents before the question
    """
    before, found, _ = prompt.template.partition("$question")
    if prompt.chat or not found or "$documents" not in before:
        raise ValueError(f"prompt {prompt.name!r} must have $documents before $question and be no chat message")
    return Prompt(prompt.name, before, chat=False).fill(documents=[passage.text for passage in passages]).rstrip(" ")


def answered(
    reader: LanguageModel,
    questions: Sequence[Question],
    shown: Shown,
    sets: Mapping[str, Orders],
    *,
    prompt: Prompt,
    max_new_tokens: int = 24,
) -> pd.DataFrame:
    """The reader's greedy answer to each order, and what it is worth.

    returns : columns id, condition, run, order, gold (reciprocal rank of the first gold passage), reply, unparsable, and each of SCORES
    """
    by_id = {question.id: question for question in questions}
    keys = [
        (name, condition, run, label(order), _filled(prompt, by_id[name], [shown[name][i] for i in order]))
        for condition, orders in sets.items()
        for name, some in orders.items()
        for run, order in enumerate(some)
    ]
    texts = list(dict.fromkeys(text for *_, text in keys))
    replies = reader.generate(texts, max_new_tokens=max_new_tokens)
    said = {text: found[0].text.strip() for text, found in zip(texts, replies, strict=True)}
    return pd.DataFrame(
        {"id": name, "condition": condition, "run": run, "order": order}
        | {"gold": reciprocal_rank(parse(order), gold_places(by_id[name], shown))}
        | _judged(said[text], by_id[name])
        for name, condition, run, order, text in keys
    )


def votes(table: pd.DataFrame, questions: Sequence[Question], condition: str = CYCLIC) -> pd.DataFrame:
    """Self-consistency: the reply that most orders of a set give, compared in normalised form, the earliest of equally frequent ones.

    table   : as `answered` returns it
    returns : rows of the same form, condition "self-consistency", order "votes" and gold 0, as there is no order
    source  : Wang et al. 2023, over orders as in MoI, appendix C, which takes 30 random ones
    """
    by_id = {question.id: question for question in questions}
    found = []
    for name, part in table[table["condition"] == condition].sort_values("run").groupby("id", sort=False):
        plain = part["reply"].map(answers.normalize)
        best = Counter(plain).most_common(1)[0][0]  # of equal counts the first met
        row = {"id": name, "condition": "self-consistency", "run": 0, "order": "votes", "gold": 0.0}
        found.append(row | _judged(part["reply"][plain == best].iloc[0], by_id[name]))
    return pd.DataFrame(found)


def sequential(
    reader: LanguageModel, questions: Sequence[Question], shown: Shown, *, prompt: Prompt
) -> dict[str, list[list[int]]]:
    """Bayes saliency +: the next passage is the one that, after those already chosen, makes question and passages together likeliest.

    returns : per question id one order in a list
    source  : MoI, eq. 2 and appendix C (Merth et al. 2024). Deviation: the second factor there is given all N passages, the one in question
              among them; here it is given those chosen before. Equally good ones in the retriever's order
    """
    chosen: dict[str, list[int]] = {question.id: [] for question in questions}
    size = max(len(shown[name]) for name in chosen)
    for _ in range(size - 1):
        tried = {
            name: [[*order, place] for place in range(len(shown[name])) if place not in order]
            for name, order in chosen.items()
        }
        table = saliencies(reader, questions, shown, {"next": tried}, prompt=prompt)
        table["score"] = table["query"] + table["passages"]
        for name, part in table.groupby("id", sort=False):
            chosen[name] = parse(part.sort_values("score", ascending=False, kind="stable")["order"].iloc[0])
    return {name: [[*order, *(p for p in range(size) if p not in order)]] for name, order in chosen.items()}


def listwise(
    asker: LanguageModel,
    questions: Sequence[Question],
    shown: Shown,
    orders: Orders,
    *,
    prompt: Prompt,
    max_new_tokens: int = 30,
) -> pd.DataFrame:
    """The rankings that a model writes when it is shown the passages with numbers, in each of the orders.

    prompt  : with the slots question and passages
    returns : columns id, run, order (the ranking, in the retriever's numbers) and missing, repeated, out_of_range (what had to be
              repaired in the reply)
    source  : RankGPT (Sun et al. 2023), in our words; several orders: permutation self-consistency (Tang et al. 2024)
    """
    by_id = {question.id: question for question in questions}
    keys, texts = [], []
    for name, some in orders.items():
        for run, order in enumerate(some):
            lines = [f"[{i}] {' '.join(shown[name][place].text.split())}" for i, place in enumerate(order, 1)]
            keys.append((name, run, list(order)))
            texts.append(prompt_text(asker, prompt, by_id[name], passages="\n".join(lines)))
    found = []
    replies = asker.generate(texts, max_new_tokens=max_new_tokens)
    for (name, run, order), reply in zip(keys, replies, strict=True):
        read = parse_listwise(reply[0].text, len(order))
        row = {"id": name, "run": run, "order": label([order[place] for place in read.order])}
        repairs = {"missing": read.missing, "repeated": read.repeated, "out_of_range": read.out_of_range}
        found.append(row | repairs)
    return pd.DataFrame(found)


def first_tokens(
    reader: LanguageModel,
    questions: Sequence[Question],
    shown: Shown,
    orders: Orders,
    replies: Mapping[str, Sequence[str]],
    *,
    prompt: Prompt,
) -> dict[str, np.ndarray]:
    """How likely each order makes the first tokens of some replies.

    replies : per question id; each different first token is looked at once
    returns : per question id (orders, tokens + 1), rows of sum 1; the last column is what is left for all other tokens
    source  : MoI, appendix B and eq. 11. There all tokens of the vocabulary; one column for the rest makes a distance at most smaller
    """
    by_id = {question.id: question for question in questions}
    tokens = {
        name: list(dict.fromkeys(reader.encode(" " + reply, context=False)[0] for reply in said if reply))
        for name, said in replies.items()
    }
    keys = [
        (_filled(prompt, by_id[name], [shown[name][i] for i in order]), reader.tokenizer.decode([token]))
        for name, some in orders.items()
        for order in some
        for token in tokens[name]
    ]
    found = iter([values[0] for values in reader.log_likelihood(*map(list, zip(*keys, strict=True)))])
    tables = {}
    for name, some in orders.items():
        known = np.exp([[next(found) for _ in tokens[name]] for _ in some])
        tables[name] = np.hstack([known, np.maximum(0, 1 - known.sum(axis=1, keepdims=True))])
    return tables


def _filled(prompt: Prompt, question: Question, passages: Sequence[Passage]) -> str:
    return prompt.fill(question=question.text, documents=[passage.text for passage in passages])


def _judged(reply: str, question: Question) -> dict:
    """A reply, whether nothing is left of it, and its scores."""
    scores = {name: float(score(reply, list(question.answers))) for name, score in SCORES.items()}
    return {"reply": reply, "unparsable": int(not answers.normalize(reply))} | scores
