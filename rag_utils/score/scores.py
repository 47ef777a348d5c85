"""The scores of a run: what the measures say of each passage and each question, their means with intervals, and the files of both."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from rag_utils import stats
from rag_utils.base import checks
from rag_utils.base.cache import make_dir
from rag_utils.base.sealed import replace
from rag_utils.data import Passage
from rag_utils.judge import load_judge
from rag_utils.measures.moi import question_context
from rag_utils.page.report import package_versions
from rag_utils.prompts import load as load_prompt
from rag_utils.score import measured, report
from rag_utils.score.columns import ASKED, MEASURES, OF_PASSAGES, OF_QUESTIONS, PLACED, TEXTS, WHOLE, why
from rag_utils.score.measured import Settings
from rag_utils.score.records import Record, checked
from rag_utils.score.workers import load

DEFAULT = Settings()
FILES = ("passages.jsonl", "questions.jsonl", "summary.json", "settings.json", "erag.qrels", "report.html")


@dataclass(frozen=True)
class Scores:
    """What was measured.

    passages  : one row per question and passage: PLACED (rank from 1), and for each measure OF_PASSAGES and its reason
    questions : one row per question: ASKED, and for each measure OF_QUESTIONS and its reason; answers are joined by " | "
    settings  : measures, reader, top, k (length of the longest list), seed, prompts, versions, counts of calls and tokens
    """

    passages: pd.DataFrame
    questions: pd.DataFrame
    settings: Mapping

    def summary(self) -> pd.DataFrame:
        """The mean of each number over questions, of a question's passages first: index name; columns value, low, high, n (questions).

        With fewer than two questions there is no interval, with none no value: empty
        """
        rows = {}
        for name, values in per_question(self).items():
            values = values.dropna()
            rows[name] = {"value": values.mean(), "low": np.nan, "high": np.nan, "n": len(values)}
            if len(values) > 1:
                estimate = stats.mean_interval(values)
                rows[name] |= {"value": estimate.value, "low": estimate.low, "high": estimate.high}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("name")

    def save(self, folder: str | Path) -> Path:
        """Write FILES, each at once or not at all; the folder. TableError or CacheError if it cannot be written."""
        folder = make_dir(Path(folder))
        for name, table in (("passages.jsonl", self.passages), ("questions.jsonl", self.questions)):
            replace(folder / name, "".join(_as_json(row) + "\n" for row in _rows(table)))
        replace(folder / "summary.json", by_name(self.summary()))
        replace(folder / "settings.json", _as_json(self.settings, indent=1) + "\n")
        replace(folder / "erag.qrels", qrels(self))
        report.write(self, folder / "report.html")
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> "Scores":
        """What `save` wrote; ValueError naming the file that is missing or damaged."""
        folder = Path(folder)
        try:
            texts = [(folder / name).read_text(encoding="utf-8") for name in FILES[:2]]
            passages, questions = (typed([*map(json.loads, filter(None, text.split("\n")))]) for text in texts)
            settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
            missing = [*({*PLACED} - {*passages}), *({*ASKED} - {*questions}), *({"measures", "k"} - {*settings})]
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"{folder} must hold what `save` wrote; {error}") from error
        if missing:
            raise ValueError(f"{folder} must hold what `save` wrote; its files lack {', '.join(missing)}")
        return cls(passages, questions, settings)


def run(
    records: Iterable[Record],
    *,
    measures: Sequence[str] = ("seper", "erag"),
    reader="embedded",
    top: int = 10,
    seed: int = 0,
    mode: str = "live",
    settings: Settings = DEFAULT,
) -> Scores:
    """What the measures say of each record's first `top` passages, asked of this reader.

    records  : what `read` gives, or `Record.model_validate` of each dict
    measures : some of MEASURES
    reader   : a profile's name, a folder of weights, the address of a server, or what `readers.load_reader` or `lm.load` returns; your own
               has the methods of `lm.LanguageModel` that the measures call, its `name` and its `fingerprint`
    mode     : "live" keeps every reply in the user's store as it comes, so that a run that was stopped goes on where it was; "replay" takes
               them from there only; "fresh" does neither
    settings : prompts, lengths, who rephrases and judges, and the number of workers
    raises   : ValueError for other records or options than said, and for a measure that this reader cannot serve
    """
    records, measures = checked(records), chosen(measures)
    top, seed = checks.whole("top", top, least=1), checks.whole("seed", seed, least=0)
    model = measured.Once(loaded(reader, mode, settings.workers))
    refuse(model, measures, settings)
    words, facts = {}, {}
    if "dense" in measures:
        asker = measured.Once(_asker(settings.asker, mode, settings.workers))
        texts = [passage.text for record in records for passage in record.passages[:top]]
        words = measured.other_words(texts, asker, settings)
        facts = {"asker": asker.name, "asker_fingerprint": asker.fingerprint, "asker_asked": asker.counted()}
        del asker  # its weights, before the reader reads
    judge = load_judge(settings.judge, mode=mode)
    task = measured.Task(records, model, judge, settings, top, seed, words)
    passages, questions = measured.tables(task, measures)
    names = [settings.closed, settings.read, *([settings.rephrase] if words else [])]
    used = {prompt.name: prompt.digest for prompt in map(load_prompt, names)}
    facts = {"reader": model.name, "fingerprint": model.fingerprint, "asked": model.counted()} | facts
    facts |= {"measures": list(measures), "top": top, "k": max(map(len, task.shown.values())), "seed": seed}
    facts |= {"questions": len(records), "samples": settings.samples, "max_new_tokens": settings.max_new_tokens}
    named = type(judge).__name__ if judge is settings.judge else getattr(settings.judge, "name", settings.judge)
    facts |= {"judge": named, "prompts": used}
    facts |= {"versions": package_versions(["rag-companion", "torch", "transformers", "numpy", "scipy"])}
    columns = [[*PLACED], [*ASKED]]
    for own, of in zip(columns, (OF_PASSAGES, OF_QUESTIONS), strict=True):
        own += [name for measure in measures for name in (*of[measure], why(measure))]
    return Scores(typed(passages, columns[0]), typed(questions, columns[1]), facts)


def chosen(measures: Sequence[str]) -> list[str]:
    """The measures, each known and named once."""
    names = [checks.one_of("measure", name, MEASURES) for name in checks.texts("measures", measures)]
    return checks.distinct("measures", names)


def loaded(reader, mode: str, workers: int = 1):
    """The reader of that name, folder or address; any other object is one already."""
    if not isinstance(reader, str | Path):
        return reader
    from rag_utils.score.readers import load_reader

    return load_reader(str(reader), mode=mode, workers=workers)


def _asker(asker, mode: str, workers: int):
    """The profile's reader; what can be asked already stays what it is."""
    return asker if hasattr(asker, "generate") else load(asker, mode=mode, workers=workers)


def refuse(reader, measures: Sequence[str], settings: Settings) -> None:
    """ValueError naming the measures that need what the reader or the prompts do not give."""
    if "moi" in measures:
        if not getattr(reader, "scores_prompts", True):
            raise ValueError(f"moi needs log-likelihoods of prompts, which {reader.name} does not give; leave it out")
        question_context(load_prompt(settings.read), [Passage("p", "", "text")])
    if not getattr(reader, "scores_replies", True) and (needs := {"seper", "seper-hard"} & set(measures)):
        instead = 'take "seper-shares", which counts replies'
        raise ValueError(f"{', '.join(sorted(needs))} need log-likelihoods of replies; {reader.name} gives none; {instead}")


def per_question(scores: Scores) -> pd.DataFrame:
    """What the summary is the mean of: index question id, one column per name of the summary; a question's passages by their mean."""
    questions = scores.questions.set_index("id")
    by_question = scores.passages.groupby("question", sort=False)
    columns = {"right before": "right_before", "right with list": "right_with_list", "tokens": "tokens"}
    k, table = scores.settings["k"], {}
    for measure in scores.settings["measures"]:
        if measure.startswith("seper"):
            title = measure.replace("seper", "SePer").replace("-", " ")
            table[title] = by_question[measure.replace("-", "_")].mean()
            columns |= {f"{title} of the list": f"{measure.replace('-', '_')}_list"}
        elif measure == "erag":
            columns |= {f"eRAG {name[5:].replace('@k', f'@{k}')}": name for name in OF_QUESTIONS["erag"]}
        elif measure == "dense":
            columns |= {"DENSE entropy": "dense_entropy", "DENSE certain": "dense_certain"}
            table |= _shares(scores.passages, "dense_role", "DENSE", ("necessary", "unnecessary"))
        elif measure == "ecorag":
            columns |= {"right compressed": "right_compressed", "tokens compressed": "tokens_compressed"}
            table |= _shares(scores.passages, "ecorag", "ECoRAG", ("strong", "distractor"))
            kept, cut = by_question["ecorag_kept"].sum(min_count=1), by_question["sentences"].sum(min_count=1)
            table["ECoRAG kept"] = kept / cut
        elif measure == "moi":
            columns |= {"right reordered": "right_reordered"}
            table["MoI identified"] = by_question["moi_identified"].mean()
    return pd.DataFrame(table | {name: questions[column] for name, column in columns.items()}, index=questions.index)


def _shares(passages: pd.DataFrame, column: str, title: str, words) -> dict[str, pd.Series]:
    """Per word the share of a question's passages that have it, of those that have any."""
    has = passages[passages[column].notna()]
    return {f"{title} {word}": (has[column] == word).groupby(has["question"], sort=False).mean() for word in words}


def qrels(scores: Scores) -> str:
    """eRAG's labels as trec_eval reads them, "question 0 passage label"; white space in an id is written %20."""
    rows = scores.passages if "erag" in scores.passages else scores.passages.head(0).assign(erag=[])
    rows = rows[rows["erag"].notna()]
    lines = zip(rows["question"], rows["passage"], rows["erag"], strict=True)
    return "".join(f"{'%20'.join(q.split())} 0 {'%20'.join(p.split())} {int(label)}\n" for q, p, label in lines)


def typed(rows: list[dict], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Rows as a frame whose columns have the same type whatever is missing: text, whole numbers, or floats."""
    table = pd.DataFrame(rows, columns=columns)
    kinds = {name: "str" if name in TEXTS or name.endswith("_why") else float for name in table}
    return table.astype(kinds | {name: int for name in WHOLE if name in table and table[name].notna().all()})


def by_name(table: pd.DataFrame) -> str:
    """A table with an index of names as JSON: name -> its row."""
    return _as_json({row.pop("name"): row for row in _rows(table.reset_index())}, indent=1) + "\n"


def _rows(table: pd.DataFrame) -> list[dict]:
    return [{name: None if pd.isna(value) else value for name, value in row.items()} for row in table.to_dict("records")]


def _as_json(content, **how) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, **how)
