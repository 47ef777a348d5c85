"""What the chapter keeps as tables: labels, rankings and answers on benchmarks or with weights that do not ship, beliefs.

A sample is {"dataset": "companion" or a benchmark, "questions": how many, None for all, "passages": how many of each}. Scores go by name
("encoder", those of HEADS, "KIND all weights"), and so do compressors (those of ADAPTIVE, "SCORE top 10", "first 5 documents", ...).
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pandas as pd

from experiments import asking, benchmarks
from experiments.ecorag_ablations import compressors, evidence
from rag_utils import data, judge, retrieve
from rag_utils.base import checks
from rag_utils.base.cache import ROOT
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel
from rag_utils.measures import CLOSED, ecorag, seper
from rag_utils.prompts import Prompt
from rag_utils.prompts import load as load_prompt

CHAPTER = "06_ecorag_ablations"
Rows = tuple[pd.DataFrame, dict]
FOLDERS = {
    "companion": ecorag.FOLDER,
    "last epoch": ecorag.FOLDER / "last_epoch",  # the head for evidentiality with no choice of the epoch
    "nq": ecorag.FOLDER / "nq",  # trained on NQ
    "whole": ROOT / "_build" / "compressor_whole",  # all weights of the encoder: 540 MB, measured, not shipped
}
HEADS = {kind: (kind, "companion") for kind in ecorag.HEADS}  # name -> kind and folder
HEADS |= {"last epoch": ("evidentiality", "last epoch"), "evidentiality from NQ": ("evidentiality", "nq")}
EVALUATORS = {"companion": "evidentiality", "nq": "evidentiality from NQ", "whole": "evidentiality all weights"}
ADAPTIVE = {  # name -> its score, and the folder of the evaluator that says when to stop
    "ECoRAG": ("evidentiality", "companion"),
    "ECoRAG from NQ": ("evidentiality from NQ", "nq"),
    "ECoRAG all weights": ("evidentiality all weights", "whole"),
    "answerability all weights": ("answerability all weights", "whole"),
}
LABELS = {
    "labels": {"dataset": "companion", "questions": 87, "passages": 5},
    "labels_nq": {"dataset": "nq", "questions": 128, "passages": 5},
}  # table -> sample


def named_scores() -> Callable[[str], ecorag.Score]:
    """From the name of a score to the score; what is embedded is remembered by all of them."""
    encode = retrieve.encoder()

    @cache
    def score(name: str) -> ecorag.Score:
        if name.endswith(" all weights"):
            return compressors.towers(FOLDERS["whole"] / name.removesuffix(" all weights"))
        if name == "encoder":
            return ecorag.dot_products(encode)
        kind, folder = HEADS[checks.one_of("score", name, ["encoder", *HEADS])]
        return ecorag.dot_products(encode, ecorag.load_head(kind, FOLDERS[folder]))

    return score


def compressor(name: str, score: Callable[[str], ecorag.Score], *, step: int, limit: int) -> ecorag.Compressor:
    """The compressor of that name, which needs no reader; `score` as `named_scores` returns it."""
    if name in ADAPTIVE:
        by, folder = ADAPTIVE[name]
        evaluator = ecorag.small_evaluator(score(EVALUATORS[folder]), ecorag.load_evaluator(FOLDERS[folder]))
        return ecorag.adaptive(score(by), evaluator, step=step, limit=limit)
    if name == "evidence all weights":  # no evaluator
        return compressors.extractive(score("evidentiality all weights"), keep=limit)
    if name == "gold sentences":
        return compressors.gold_sentences
    if best := re.fullmatch(r"(.+) top (\d+)", name):
        return compressors.extractive(score(best[1]), keep=int(best[2]))
    if first := re.fullmatch(r"(all|first) ?(\d*) documents?", name):
        return compressors.first_documents(None if first[1] == "all" else int(first[2] or 1))
    raise ValueError(f"unknown compressor {name!r}; see experiments/ecorag_ablations/tables.py")


def drawn(sample: Mapping, few: int | None = None) -> tuple[list[Question], dict[str, list[Passage]], dict]:
    """Questions of a sample, the first `few` of them, their passages, best first, and where they come from."""
    name, n = sample["dataset"], sample["questions"]
    unseen = name == "companion" and benchmarks.Benchmark(name, tuple(evidence.unseen_questions(n)))
    data_set = unseen or benchmarks.load(name, n)
    # of all questions: how rare a word is depends on them
    passages = evidence.retrieved(data_set.questions, data_set.pool, k=sample["passages"])
    return list(data_set.questions[:few]), passages, data_set.facts


def weights(folders: Sequence[str]) -> dict:
    """What is known of the heads and evaluators in these folders: the checksum of what ships, how the rest was trained."""
    facts = {
        name: hashlib.sha256(b"".join(path.read_bytes() for path in sorted(FOLDERS[name].glob("*.*")))).hexdigest()
        for name in dict.fromkeys(folders)
        if name != "whole"
    }
    if "whole" not in folders:
        return {"weights": facts}
    trained = json.loads((FOLDERS["whole"] / "training.json").read_text(encoding="utf-8"))
    return {"weights": facts, "training": trained, "evaluator": ecorag.load_evaluator(FOLDERS["whole"])}


def labels(*, mode, profile, sample, prompts, max_new_tokens, few=None) -> Rows:
    """`evidence.labelled` on the questions that compressors are trained on, each with its best passages."""
    questions = evidence.train_questions(sample["dataset"])[: sample["questions"]]
    passages = evidence.retrieved(questions, data.passages(sample["dataset"]), k=sample["passages"])
    reader = asking.reader(profile, mode)
    table = evidence.labelled(reader, questions[:few], passages, max_new_tokens=max_new_tokens, **_forms(prompts))
    return table, asking.facts(reader=reader)


def ranking(*, mode, sample, scores, few=None) -> Rows:
    """`evidence.alignment` by named scores, of whole passages on a benchmark. No reader is asked, so `mode` changes nothing."""
    (questions, passages, facts), score = drawn(sample, few), named_scores()
    by_name = {name: score(name) for name in scores}
    table = evidence.alignment(questions, passages, by_name, whole=sample["dataset"] != "companion")
    folders = ["whole" if name.endswith(" all weights") else HEADS[name][1] for name in scores if name != "encoder"]
    return table, facts | weights(folders)


def reading(*, mode, profile, sample, shown, prompts, sizes, max_new_tokens, few=None) -> Rows:
    """What the reader answers with what the compressors named by `shown` keep, "closed book" without any; `sizes`: {"step", "limit"}."""
    questions, passages, facts = drawn(sample, few)
    score, reader = named_scores(), asking.reader(profile, mode, CHAPTER if sample["dataset"] == "companion" else None)
    kept = {name: None if name == CLOSED else compressor(name, score, **sizes)(questions, passages) for name in shown}
    table = ecorag.answered(reader, questions, kept, max_new_tokens=max_new_tokens, **_forms(prompts))
    folders = [ADAPTIVE[name][1] for name in shown if name in ADAPTIVE]
    return table, facts | weights(folders) | asking.facts(reader=reader)


def beliefs(*, mode, profile, sample, shown, prompts, sizes, draws, few=None) -> Rows:
    """SePer of what named compressors keep, on the companion's questions.

    draws : {"questions": how many, half of each kind, "n": samples of each, "max_new_tokens": ..., "seed": ...}
    """
    questions, passages, facts = drawn(sample)
    score, reader = named_scores(), asking.reader(profile, mode, CHAPTER)
    kept = {name: compressor(name, score, **sizes)(questions, passages) for name in shown if name != "random"}
    if "random" in shown:
        budget = tokens(reader, kept["ECoRAG"])
        kept["random"] = compressors.at_random(budget, reader.count_tokens, seed=draws["seed"])(questions, passages)
    believed = evidence.unseen_questions(draws["questions"])[:few]
    asked = seper.prompts_of(reader, believed, {CLOSED: None} | {name: kept[name] for name in shown}, **_forms(prompts))
    how = {key: draws[key] for key in ("n", "max_new_tokens", "seed")}
    table = seper.beliefs(judge.load_judge(profile), believed, seper.draw(reader, asked, **how))
    return table, facts | {"questions": len(believed)} | weights(["companion"]) | asking.facts(reader=reader)


def tokens(reader: LanguageModel, kept: ecorag.Compressed) -> dict[str, int]:
    """By question id how many tokens its texts have."""
    return {name: sum(map(reader.count_tokens, texts)) for name, texts in kept.items()}


def _forms(names: Mapping[str, str]) -> dict[str, Prompt]:
    return {slot: load_prompt(name) for slot, name in names.items()}
