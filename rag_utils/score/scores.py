"""The scores of a run: what the measures say of each passage and each question, their means with intervals, and the files of both."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from rag_utils import stats
from rag_utils.base.cache import make_dir
from rag_utils.base.sealed import replace

MEASURES = ("seper", "seper-hard", "seper-shares", "erag", "dense", "ecorag", "moi")
# columns of each measure, those of a passage and those of a question; every measure also has a column of reasons, as `why` names it
OF_PASSAGES = {
    "seper": ("seper",),
    "seper-hard": ("seper_hard",),
    "seper-shares": ("seper_shares",),
    "erag": ("erag", "reply"),
    "dense": ("dense_role",),
    "ecorag": ("ecorag", "ecorag_kept", "sentences"),
    "moi": ("moi", "moi_identified"),
}
OF_QUESTIONS = {
    "seper": ("seper_list",),
    "seper-hard": ("seper_hard_list",),
    "seper-shares": ("seper_shares_list",),
    "erag": ("erag_P@k", "erag_RR", "erag_nDCG@k", "erag_AP", "erag_Success@k"),
    "dense": ("dense_entropy", "dense_certain"),
    "ecorag": ("compressed", "right_compressed", "tokens_compressed"),
    "moi": ("reordered", "right_reordered"),
}
ASKED = ("id", "question", "answers", "passages", "before", "with_list", "right_before", "right_with_list", "tokens")
PLACED = ("question", "passage", "rank")
TEXTS = {"id", "question", "passage", "answers", "before", "with_list", "reply", "dense_role", "ecorag"}
TEXTS |= {"compressed", "reordered"}
WHOLE = {"rank", "passages", "tokens"}
FILES = ("passages.jsonl", "questions.jsonl", "summary.json", "settings.json", "erag.qrels", "report.html")


def why(measure: str) -> str:
    """The column that says why a measure has no value: empty where it has one.

    >>> why("seper-hard")
    'seper_hard_why'
    """
    return f"{measure.replace('-', '_')}_why"


@dataclass(frozen=True)
class Scores:
    """What was measured.

    passages  : one row per question and passage: question, passage, rank (1 ..), and for each measure OF_PASSAGES and its reason
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
        from rag_utils.score import report

        folder = make_dir(Path(folder))
        for name, table in (("passages.jsonl", self.passages), ("questions.jsonl", self.questions)):
            replace(folder / name, "".join(_as_json(row) + "\n" for row in _rows(table)))
        summary = {row.pop("name"): row for row in _rows(self.summary().reset_index())}
        replace(folder / "summary.json", _as_json(summary, indent=1) + "\n")
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
        else:
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


def typed(rows: list[dict]) -> pd.DataFrame:
    """Rows as a frame whose columns have the same type whatever is missing: text, whole numbers, or floats."""
    table = pd.DataFrame(rows)
    kinds = {name: "str" if name in TEXTS or name.endswith("_why") else float for name in table}
    return table.astype(kinds | {name: int for name in WHOLE if name in table and table[name].notna().all()})


def _rows(table: pd.DataFrame) -> list[dict]:
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()} for row in table.to_dict("records")
    ]


def _as_json(content, **how) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, **how)
