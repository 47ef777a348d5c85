"""Asking a reader many questions under several conditions: one row per question and condition, then intervals of those rows."""

from collections.abc import Mapping, Sequence

import pandas as pd

from experiments.asking import filled
from rag_utils import answers, data, retrieve, stats
from rag_utils.base.names import check_name
from rag_utils.corpora import manifest
from rag_utils.data import SYSTEMS, Judged, Passage, Question
from rag_utils.lm import LanguageModel
from rag_utils.prompts import Prompt

SYSTEM_TITLES = dict(
    zip(SYSTEMS, ("DPR-FiD", "InstructGPT", "ChatGPT", "GPT-4", "BingChat"), strict=True)
)  # as in SePer, Table 1
CLOSED, GOLD, NEGATIVE = "closed book", "gold", "hard negative"


def ask(
    reader: LanguageModel,
    questions: Sequence[Question],
    prompt: Prompt,
    *,
    passages: Mapping[str, Sequence[Passage]] | None = None,
    condition: str,
    max_new_tokens: int = 24,
) -> pd.DataFrame:
    """The reader's greedy answer to each question and what it is worth.

    passages : per question id the passages to show, best first; None asks without any. A question with no passage is left out and
               counted in the `attrs["left_out"]` of the result
    returns  : columns id, condition, reply, one per answer metric (0-1), log_likelihood (nats, sum over the reply), tokens, unparsable
               (1 if nothing is left of the reply after normalisation)
    """
    asked = [question for question in questions if passages is None or passages.get(question.id)]
    texts = [
        prompt_text(reader, prompt, question, None if passages is None else passages[question.id]) for question in asked
    ]
    replies = [samples[0] for samples in reader.generate(texts, max_new_tokens=max_new_tokens)] if texts else []
    rows = [
        {
            "id": question.id,
            "condition": condition,
            "reply": reply.text.strip(),
            **{name: metric(reply.text, question.answers) for name, metric in answers.METRICS.items()},
            "log_likelihood": reply.log_likelihood,
            "tokens": len(reply.token_ids),
            "unparsable": int(not answers.normalize(reply.text)),
        }
        for question, reply in zip(asked, replies, strict=True)
    ]
    table = pd.DataFrame(rows)
    table.attrs["left_out"] = len(questions) - len(asked)
    return table


def prompt_text(reader: LanguageModel, prompt: Prompt, question: Question, passages: Sequence[Passage] | None) -> str:
    """What the reader is shown: the prompt with this question and these passages, in its chat form if the prompt asks for that."""
    slots = {} if passages is None else {"documents": [passage.text for passage in passages]}
    return filled(reader, prompt, question=question.text, **slots)


def conditions(
    reader: LanguageModel,
    questions: Sequence[Question],
    negatives: Mapping[str, Sequence[Passage]],
    *,
    closed: Prompt,
    read: Prompt,
    max_new_tokens: int = 24,
) -> pd.DataFrame:
    """Every question closed book, with its gold passages, and with passages that look right and hold no answer."""
    gold = {question.id: question.gold for question in questions}
    length = {"max_new_tokens": max_new_tokens}
    tables = [
        ask(reader, questions, closed, condition=CLOSED, **length),
        ask(reader, questions, read, passages=gold, condition=GOLD, **length),
        ask(reader, questions, read, passages=negatives, condition=NEGATIVE, **length),
    ]
    table = pd.concat(tables, ignore_index=True)
    table.attrs["left_out"] = {one["condition"].iloc[0]: one.attrs["left_out"] for one in tables if len(one)}
    return table


def sample(name: str, n: int) -> list[Question]:
    """The first n questions of a benchmark in the order of the hash of their text, of NQ only the held-out quarter.

    raises : ValueError if the benchmark has fewer
    """
    found = [question for question in data.load(name) if name != "nq" or data.held_out(question.text)]
    if not 1 <= n <= len(found):
        raise ValueError(f"{name} has {len(found)} questions to measure on, asked for {n}")
    return sorted(found, key=lambda question: data.question_id(question.text))[:n]


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
    questions = sample(name, min(n, len(data.load(name))))
    own = name in ("hotpotqa", "musique")
    pool = retrieve.own_distractors if own else data.passages(name)
    negatives = retrieve.hard_negatives(questions, pool, short="keep")
    tables = []
    for label, (closed, read) in forms.items():
        asked = conditions(reader, questions, negatives, closed=closed, read=read, max_new_tokens=max_new_tokens)
        tables.append(asked.drop(columns="reply").assign(prompt=label))
    entry = manifest.entries()[name]
    facts = {
        "reader": reader.name,
        "fingerprint": reader.fingerprint,
        "prompts": {one.name: one.digest for pair in forms.values() for one in pair},
        "max_new_tokens": max_new_tokens,
        "source": entry.source,
        "sha256": entry.sha256,
        "questions": len(questions),
        "without_hard_negative": sum(not found for found in negatives.values()),
        "selection": "order of the SHA-256 of the question" + ("; the held-out quarter" if name == "nq" else ""),
    }
    return pd.concat(tables, ignore_index=True), facts


def intervals(table: pd.DataFrame, metric: str, *, by: Sequence[str] = ("condition",), seed: int = 0) -> pd.DataFrame:
    """Mean and bootstrap interval over questions of one metric, for each group of rows in the order in which it first appears.

    returns : the columns of `by`, then value, low, high, n, unparsed
    raises  : ValueError for an unknown metric or a group with fewer than two questions
    """
    _known(metric)
    rows = []
    for names, part in table.groupby(list(by), sort=False):
        estimate = stats.mean_interval(part[metric], groups=part["id"], rng=seed)
        numbers = {name: getattr(estimate, name) for name in ("value", "low", "high", "n")}
        rows.append(dict(zip(by, names, strict=True)) | numbers | {"unparsed": int(part["unparsable"].sum())})
    return pd.DataFrame(rows)


def differences(
    table: pd.DataFrame, metric: str, *, against: str = CLOSED, column: str = "condition", seed: int = 0
) -> pd.DataFrame:
    """How much each condition adds to the one it is held against, question by question.

    returns : index condition; columns value, low, high, n, p_value and p_holm (adjusted for the rows of this table)
    raises  : ValueError for an unknown metric or condition
    """
    _known(metric)
    wide = table.pivot(index="id", columns=column, values=metric)[list(dict.fromkeys(table[column]))]
    check_name(column, against, wide.columns)
    rows = {}
    for name in wide.columns.drop(against):
        both = wide[[name, against]].dropna()
        rows[name] = stats.paired_difference(both[name], both[against], rng=seed)
    found = pd.DataFrame(
        {name: [getattr(row, name) for row in rows.values()] for name in ("value", "low", "high", "n", "p_value")},
        index=pd.Index(rows, name=column),
    )
    return found.assign(p_holm=stats.holm(found["p_value"]))


def evouna() -> tuple[pd.DataFrame, dict]:
    """`lexical_match` on EVOUNA-NQ, and where that file comes from."""
    entry = manifest.entries()["evouna_nq"]
    return lexical_match(data.load_judged("evouna_nq")), {"source": entry.source, "sha256": entry.sha256}


def lexical_match(judged: Sequence[Judged]) -> pd.DataFrame:
    """For every judged answer whether it contains a gold, and whether a person found it right.

    returns : column id, and for each system match_SYSTEM and verdict_SYSTEM (0 or 1; empty where there is no verdict)
    source  : the "Lexical Match" row of SePer, Table 1
    """
    rows = []
    for question in judged:
        row = {"id": question.id}
        for answer in question.answers:
            row[f"match_{answer.system}"] = int(answers.contains_answer(answer.text, list(question.golds)))
            row[f"verdict_{answer.system}"] = None if answer.verdict is None else int(answer.verdict)
        rows.append(row)
    return pd.DataFrame(rows, columns=["id", *(f"{kind}_{name}" for name in SYSTEMS for kind in ("match", "verdict"))])


def _known(metric: str) -> str:
    return check_name("metric", metric, answers.METRICS)
