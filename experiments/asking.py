"""A reader asked many questions under several conditions, one row per question and condition; intervals and differences of such rows."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import pandas as pd

from experiments.table import LOADED
from rag_utils import answers, stats
from rag_utils.base import checks
from rag_utils.data import Question
from rag_utils.judge import Judge, load_judge
from rag_utils.lm import LanguageModel
from rag_utils.measures import CLOSED, GOLD, NEGATIVE
from rag_utils.page import report
from rag_utils.prompts import Prompt, prompt_text
from rag_utils.score import workers

judge = cache(load_judge)  # each once a process; what it asks a reader is recorded as that of `reader` is


@cache
def reader(profile: str, mode: str, chapter: str | None = None) -> LanguageModel:
    """The profile's reader, loaded once per process, as `score.workers.load`; no chapter for calls that see the text of a benchmark."""
    model = workers.load(profile, mode=mode, chapter=chapter)
    LOADED[model.profile.name] = model.fingerprint
    return model


def facts(**models: LanguageModel | Judge) -> dict:
    """What a table says of the readers that made it: {"fingerprints": {profile: fingerprint}}, a judge's too; nothing of what has none."""
    readers = [getattr(model, "reader", model) for model in models.values()]
    return {"fingerprints": {each.profile.name: each.fingerprint for each in readers if hasattr(each, "fingerprint")}}


def measured_with(tables: Mapping[str, pd.DataFrame], profile: str | Mapping[str, str]) -> dict[str, str]:
    """The fingerprint of the model behind each table that `experiments.table.table` returned, by the table's name.

    profile : one for all tables, or by the table's name; ValueError naming the first table for which its model was not asked
    """
    profiles = dict.fromkeys(tables, profile) if isinstance(profile, str) else profile
    prints = {name: rows.attrs["kept"]["facts"]["fingerprints"] for name, rows in tables.items()}
    return {name: each[checks.one_of(f"profile behind {name}", profiles[name], each)] for name, each in prints.items()}


def ending(
    reader: LanguageModel, *, before: Mapping, used: Iterable[Prompt], packages: Sequence[str], mode: str, **after
) -> report.Provenance:
    """The box that closes a chapter, the same after a live run as after a replay.

    before, after : what else the page depends on, shown before and after the prompts; before them an empty mapping is left out
    packages      : shown with their versions, besides torch and transformers
    """
    return report.provenance(
        reader=reader.name,
        fingerprint=reader.fingerprint,
        **{name: value for name, value in before.items() if value != {}},
        prompts={prompt.name: prompt.digest for prompt in used},
        **after,
        mode="replay" if mode == "live" else mode,
        libraries=report.package_versions(["torch", "transformers", *packages]),
    )


def ask(reader: LanguageModel, questions: Sequence[Question], prompt: Prompt, *, condition: str, passages=None, **length) -> pd.DataFrame:
    """The reader's greedy answer to each question and what it is worth; length: max_new_tokens.

    passages : per question id the passages to show, best first; a question with none is left out. None asks without any
    returns  : columns id, condition, reply, one per answer metric (0-1), log_likelihood (nats, sum over the reply), tokens, unparsable
               (1 if nothing is left of the reply after normalisation)
    raises   : ValueError if an id comes twice, or passages are by something else than ids of questions
    """
    ids = checks.distinct("ids of questions", [question.id for question in questions])
    if passages is not None:
        checks.keyed("passages", passages, ids, every=False)
    asked = [question for question in questions if passages is None or passages.get(question.id)]
    texts = [prompt_text(reader, prompt, question, passages and passages[question.id]) for question in asked]
    replies = reader.generate(texts, **length) if texts else []
    return pd.DataFrame(
        {"id": question.id, "condition": condition, "reply": reply.text.strip()}
        | {name: metric(reply.text, question.answers) for name, metric in answers.METRICS.items()}
        | {"log_likelihood": reply.log_likelihood, "tokens": len(reply.token_ids)}
        | {"unparsable": int(not answers.normalize(reply.text))}
        for question, [reply] in zip(asked, replies, strict=True)
    )


def conditions(
    reader: LanguageModel, questions: Sequence[Question], negatives: Mapping, *, closed: Prompt, read: Prompt, **length
) -> pd.DataFrame:
    """Every question closed book, with its gold passages, and with passages that look right and hold no answer; as `ask`."""
    gold = {question.id: question.gold for question in questions}
    asked = [(CLOSED, closed, None), (GOLD, read, gold), (NEGATIVE, read, negatives)]
    tables = [ask(reader, questions, how, passages=shown, condition=name, **length) for name, how, shown in asked]
    return pd.concat(tables, ignore_index=True)


def intervals(table: pd.DataFrame, metric: str, *, by: Sequence[str] = ("condition",), seed: int = 0) -> pd.DataFrame:
    """Mean and bootstrap interval over questions of one metric, for each group of rows in the order in which it first appears.

    returns : the columns of `by`, then value, low, high, n, unparsed; ValueError for an unknown metric or a group of fewer than 2 questions
    """
    checks.one_of("metric", metric, answers.METRICS)
    rows = []
    for names, part in table.groupby(list(by), sort=False):
        estimate = vars(stats.mean_interval(part[metric], groups=part["id"], rng=seed))
        rows.append(dict(zip(by, names, strict=True)) | estimate | {"unparsed": int(part["unparsable"].sum())})
    return pd.DataFrame(rows).drop(columns="undefined")


def p_text(p_value: float) -> str:
    """With three digits."""
    return f"{p_value:.3f}" if p_value >= 0.0005 else "< 0.001"


def differences(table: pd.DataFrame, metric: str, *, against: str = CLOSED, column: str = "condition") -> pd.DataFrame:
    """How much each condition adds to the one it is held against, question by question; ValueError for an unknown metric or condition.

    returns : index condition; columns value, low, high, n, p_value and p_holm (adjusted for the rows of this table)
    """
    checks.one_of("metric", metric, answers.METRICS)
    wide = table.pivot(index="id", columns=column, values=metric)[list(dict.fromkeys(table[column]))]
    checks.one_of(column, against, wide.columns)
    rows = {}
    for name in wide.columns.drop(against):
        both = wide[[name, against]].dropna()
        rows[name] = stats.paired_difference(both[name], both[against])
    result = pd.DataFrame([vars(row) for row in rows.values()], index=pd.Index(rows, name=column))
    return result.drop(columns="undefined").assign(p_holm=stats.holm(result["p_value"], of=rows.values()))
