"""SePer asked of a reader and a judge: samples to each question under each context, what they mean, what the context adds to the belief.

shown = {"closed book": None, "retrieved": {question.id: passages, ...}}
drawn = draw(reader, prompts_of(reader, questions, shown, closed=..., read=...), n=10)
gains = changes(beliefs(judge, questions, drawn))
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from rag_utils import seper
from rag_utils.base import checks
from rag_utils.data import Passage, Question
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import Generation, LanguageModel
from rag_utils.measures import CLOSED, GOLD, NEGATIVE, Case, by_id
from rag_utils.prompts import Prompt, load, prompt_text

Passages = Mapping[str, Sequence[Passage]]  # by question id, best first
Shown = Mapping[str, Passages | None]  # context -> passages; None is closed book
Drawn = dict[Case, list[Generation]]  # the samples
Agreed = dict[Case, tuple[np.ndarray, np.ndarray]]  # as `agreements` returns it

# what the paper leaves open or its code does otherwise -> column
VARIANTS = {
    "best answer instead of the mean": "soft_max",
    "share of samples as weight": "soft_frequency",
    "mean token log-likelihood as weight": "soft_token_mean",
    "hard, any answer": "hard_any",
    "hard, share of samples as weight": "hard_frequency",
}
STEP = "step "  # a context of one gold passage where more are needed is called "step 1", "step 2", ...
# columns of `beliefs` that are a belief in the answer, 0 .. 1
UTILITIES = dict.fromkeys(("seper_hard", "seper_soft", *VARIANTS.values()), seper.utility)


def contexts(questions: Sequence[Question], negatives: Passages, **others: Passages) -> Shown:
    """What each question is shown: nothing, all its gold passages, a hard negative, and, of more than one gold passage, each alone.

    negatives : passages that look right and hold no answer; others : further contexts by name
    returns   : contexts "closed book", "gold", "hard negative", the others, "step 1", "step 2", ...
    """
    gold = {question.id: question.gold for question in questions}
    several = {name: own for name, own in gold.items() if len(own) > 1}
    steps = range(max(map(len, several.values()), default=0))
    alone = {f"{STEP}{i + 1}": {name: own[i : i + 1] for name, own in several.items()} for i in steps}
    return {CLOSED: None, GOLD: gold, NEGATIVE: negatives, **others, **alone}


def prompts_of(reader: LanguageModel, questions: Sequence[Question], contexts: Shown, *, closed: Prompt, read: Prompt) -> dict[Case, str]:
    """What the reader is asked about each question under each context, by `closed` without one; nothing where it has no passages.

    raises : ValueError if an id comes twice, or passages are by something else than ids of questions
    """
    ids = by_id(questions)
    for name, shown in contexts.items():
        if shown is not None and name.rstrip("0123456789") != STEP:  # a step is there for few questions
            checks.keyed(f"passages of context {name!r}", shown, ids, every=False)
    return {
        Case(question.id, name): prompt_text(reader, read if shown else closed, question, shown and shown[question.id])
        for name, shown in contexts.items()
        for question in questions
        if shown is None or shown.get(question.id)
    }


def draw(reader: LanguageModel, prompts: Mapping[Case, str], *, n: int = 10, max_new_tokens: int = 24, **how) -> Drawn:
    """n samples at temperature 1 to each prompt, as `prompts_of` has them; seed, greedy and raises as in `LanguageModel.generate`."""
    replies = reader.generate(list(prompts.values()), n=n, temperature=1.0, max_new_tokens=max_new_tokens, **how)
    return dict(zip(prompts, replies, strict=True))


def agreements(judge: Judge, questions: Sequence[Question], drawn: Drawn, *, clustered: bool = True) -> Agreed:
    """Per case: the samples against the answers, (N, A) in [0, 1], and which mean the same, (N, N) bool; each pair is judged once.

    clustered : whether samples are held against each other, 45 pairs of ten samples beside ten with an answer; else the second is (N, 0)
    """
    known, pairs = by_id(questions), {}
    for case, replies in drawn.items():
        question, texts = known[case[0]], [reply.text.strip() for reply in replies]
        others = [*checks.listed(f"answers of question {question.id!r}", question.answers), *texts * clustered]
        pairs[case] = [[(question.text, *sorted((text, other))) for other in others] for text in texts]
    distinct = dict.fromkeys(pair for rows in pairs.values() for row in rows for pair in row)
    judged = judge.equivalent(*map(list, zip(*distinct, strict=True))) if distinct else []
    same, agreed = dict(zip(distinct, map(float, judged), strict=True)), {}
    for case, rows in pairs.items():
        values = np.array([[same[pair] for pair in row] for row in rows])
        kernel, alike = np.split(values, [len(known[case[0]].answers)], axis=1)
        agreed[case] = (kernel, alike >= THRESHOLD)
    return agreed


def meanings(kernel: np.ndarray, alike: np.ndarray, *, join: str = "earliest") -> tuple[np.ndarray, np.ndarray]:
    """Clusters of samples, (N,) int, joined as `seper.cluster` has it, and which answers each matches by its first member, (K, A) bool."""
    clusters = seper.cluster(alike, join=join)
    _, firsts = np.unique(clusters, return_index=True)
    return clusters, kernel[firsts] >= THRESHOLD


def beliefs(
    judge: Judge, questions: Sequence[Question], drawn: Drawn, *, agreed: Agreed | None = None, clustered: bool = True
) -> pd.DataFrame:
    """SePer, hard and soft, and its VARIANTS, for each case: SePer, eqs. 6 to 10.

    agreed  : what the judge says, as `agreements` returns it, if that is there already; it tells then whether they are clustered
    returns : columns id, condition, those of UTILITIES, right (share of samples that the judge accepts), clusters (meanings among the
              samples), n (samples) and steps (gold passages of the question); unless `clustered`, no clusters and nothing hard
    """
    steps, table = {question.id: len(question.gold) for question in questions}, []
    agreed = agreements(judge, questions, drawn, clustered=clustered) if agreed is None else agreed
    for (name, condition), replies in drawn.items():
        kernel, alike = agreed[name, condition]
        whole = np.array([reply.log_likelihood for reply in replies])
        per_token = np.array([reply.token_log_likelihood.mean() for reply in replies])
        row = {"id": name, "condition": condition, "n": len(replies), "steps": steps[name]}
        row |= {"seper_soft": seper.soft(whole, kernel), "soft_max": seper.soft(whole, kernel, over_answers="max")}
        row["soft_frequency"] = seper.soft(whole, kernel, weighting="frequency")
        row |= {"soft_token_mean": seper.soft(per_token, kernel), "right": float(np.mean(kernel.max(axis=1) >= THRESHOLD))}
        if alike.size:
            clusters, matches = meanings(kernel, alike)
            hard = partial(seper.hard, whole, clusters, matches)
            row |= {"seper_hard": hard(), "hard_any": hard(over_answers="any"), "hard_frequency": hard(weighting="frequency")}
            row["clusters"] = int(clusters.max() + 1)
        table.append(row)
    return pd.DataFrame(table).filter(["id", "condition", *UTILITIES, "right", "clusters", "n", "steps"])


def delta(reader, judge: Judge, question: str, passages, answers, *, n: int = 10, seed: int = 0) -> float:
    """Delta-SePer, soft, for one question: how much belief in its answers the passages, shown together, add, -1 .. 1.

    passages, answers : lists of at least one text; ValueError for others
    """
    asked = [Question("asked", question, tuple(checks.texts("answers", answers)), dataset="")]
    shown = {CLOSED: None, "shown": {"asked": checks.texts("passages", passages)}}
    prompts = prompts_of(reader, asked, shown, closed=load("closed_plain"), read=load("read_plain"))
    table = beliefs(judge, asked, draw(reader, prompts, n=n, seed=seed), clustered=False)
    return float(changes(table)["seper_soft"].iloc[0])


def repeated(judge: Judge, questions: Sequence[Question], drawn: Drawn, *, sizes: Sequence[int], times: int) -> pd.DataFrame:
    """SePer as if the samples had been drawn again: `times` disjoint runs, of which the first few samples count.

    returns : columns id, condition, samples (their number), run (0 ..), seper_hard, seper_soft, right, steps
    raises  : ValueError if there are fewer than times x max(sizes) samples of a prompt
    source  : SePer, Fig. 3 and Table 4. There every number of samples was drawn anew; here the smaller are part of the larger
    """
    longest, fewest, tables = max(sizes), min(map(len, drawn.values())), []
    if fewest < times * longest:
        raise ValueError(f"{times} runs of {longest} need {times * longest} samples of each prompt, got {fewest}")
    for run in range(times):
        apart = {case: replies[run * longest : (run + 1) * longest] for case, replies in drawn.items()}
        agreed = agreements(judge, questions, apart)
        for size in sizes:
            part = {case: replies[:size] for case, replies in apart.items()}
            of_part = {case: (kernel[:size], alike[:size, :size]) for case, (kernel, alike) in agreed.items()}
            tables.append(beliefs(judge, questions, part, agreed=of_part).assign(samples=size, run=run))
    columns = ["id", "condition", "samples", "run", "seper_hard", "seper_soft", "right", "steps"]
    return pd.concat(tables, ignore_index=True)[columns]


def changes(table: pd.DataFrame, *, against: str = CLOSED, measures: Mapping | None = None) -> pd.DataFrame:
    """Delta-SePer, eq. 11: what each context adds to the belief in the answer, question by question.

    table    : as `beliefs` returns it, possibly with more columns
    measures : column -> its change, a function of the value under a context and the one under `against`; None: UTILITIES, if there
    returns  : columns id, condition and the measures, empty where one of the two values is; no rows for `against`
    raises   : ValueError for no such context, no column of beliefs, a question not asked under it or twice, a belief outside 0 .. 1
    """
    checks.one_of("condition", against, set(table["condition"]))
    measures = measures or dict(checks.listed("columns of beliefs", [each for each in UTILITIES.items() if each[0] in table]))
    before = table[table["condition"] == against].set_index("id")[list(measures)]
    after = table[table["condition"] != against]
    if missing := sorted(set(after["id"]) - set(before.index)):
        raise ValueError(f"{len(missing)} questions were not asked under {against!r}, the first is {missing[0]}")
    if not before.index.is_unique:
        raise ValueError(f"{before.index.duplicated().sum()} questions were asked under {against!r} more than once")
    result = after[["id", "condition"]].reset_index(drop=True)
    for name, change in measures.items():
        pairs = zip(after[name].astype(float), before.loc[after["id"], name].astype(float), strict=True)
        result[name] = [np.nan if np.isnan(pair).any() else change(*pair) for pair in pairs]
    return result
