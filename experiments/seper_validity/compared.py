"""SePer beside the measures it is compared with, one row per question and context: `correlations(worth(changes(table), table))`."""

import operator
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import pandas as pd
from scipy.special import softmax

from rag_utils import answers, retrieve, seper, similarity, uncertainty
from rag_utils.base import checks
from rag_utils.data import Question
from rag_utils.judge import Judge
from rag_utils.lm import LanguageModel, word_log_likelihoods
from rag_utils.measures import CLOSED, GOLD
from rag_utils.measures import seper as measure
from rag_utils.measures.seper import STEP, VARIANTS, Agreed, Drawn
from rag_utils.prompts import Prompt, prompt_text
from rag_utils.stats import Correlation, correlation, correlation_difference, holm

# title -> column, as in SePer, Table 2; `rows` fills all but the judging language model, which `asked_judge` asks
METHODS = {"Exact Match": "exact_match", "ROUGE-L": "rouge_l", "BLEU": "bleu", "BERTScore": "bertscore"}
METHODS |= {"Perplexity": "perplexity", "Entropy": "entropy", "Semantic Entropy": "semantic_entropy"}
METHODS |= {"LM as judge": "lm_judge", "SePer hard": "seper_hard", "SePer soft": "seper_soft"}
SIMILARITIES = (answers.exact_match, similarity.rouge_l, similarity.bleu)
BELIEVED = ("seper_", "soft_", "hard_")  # how the names of columns that hold a SePer begin
FALLS = ("perplexity", "entropy", "semantic_entropy")  # a useful passage lowers them
MEASURES = [*METHODS.values(), *VARIANTS.values()]


def rows(judge: Judge, questions: Sequence[Question], drawn: Drawn, *, agreed: Agreed | None = None) -> pd.DataFrame:
    """Each measure of METHODS (but LM as judge) and VARIANTS for each case, in the order of `drawn`; the other columns of `beliefs` too.

    agreed : what the judge says, as `agreements` returns it, if that is there already
    source : SePer, Table 2: similarity measures are means over the samples; entropy is the mean negative log-likelihood of a sample
    """
    agreed = measure.agreements(judge, questions, drawn) if agreed is None else agreed
    accepted, table = {question.id: question.answers for question in questions}, []
    pairs = {case: [(reply.text.strip(), accepted[case[0]]) for reply in own] for case, own in drawn.items()}
    distinct = list(dict.fromkeys(chain(*pairs.values())))
    alike = {score.__name__: [score(*pair) for pair in distinct] for score in SIMILARITIES}
    alike["bertscore"] = similarity.bertscores(*zip(*distinct, strict=True), encoder=retrieve.token_encoder())
    alike = {name: dict(zip(distinct, values, strict=True)) for name, values in alike.items()}
    for case, replies in drawn.items():
        row = {"id": case[0], "condition": case[1]}
        row |= {name: float(np.mean([score[pair] for pair in pairs[case]])) for name, score in alike.items()}
        whole = np.array([reply.log_likelihood for reply in replies])
        row["perplexity"] = float(np.mean([uncertainty.perplexity(reply.token_log_likelihood) for reply in replies]))
        row["entropy"] = uncertainty.predictive_entropy(whole)
        row["semantic_entropy"] = uncertainty.semantic_entropy(whole, measure.meanings(*agreed[case])[0])
        table.append(row)
    return pd.DataFrame(table).merge(measure.beliefs(judge, questions, drawn, agreed=agreed), on=["id", "condition"])


def changes(table: pd.DataFrame, *, against: str = CLOSED, measures: Sequence[str] = tuple(MEASURES)) -> pd.DataFrame:
    """`measures.seper.changes`, and the same difference for every other measure; what a useful passage lowers counts the other way."""
    flipped = table.assign(**{name: -table[name] for name in FALLS if name in table})
    ways = {name: seper.utility if name.startswith(BELIEVED) else operator.sub for name in measures if name in table}
    return measure.changes(flipped, against=against, measures=ways)


def worth(change: pd.DataFrame, table: pd.DataFrame, *, already: float = 0.5) -> pd.DataFrame:
    """The rows of `changes` that the paper correlates, with the worth of what was shown.

    already : questions of which the judge accepts at least this share of the closed-book samples are left out
    returns : the rows with a column worth: 1/n for one of the n gold passages of a question, 0 for others; several together are left out
    source  : SePer, section 4.1.2. When a question counts as answered already is not said there
    """
    closed = table[table["condition"] == CLOSED].set_index("id")
    kept = change[change["id"].map(closed["right"]) < already].copy()
    if kept.empty:
        raise ValueError(f"already = {already} leaves no question: each has at least that share right closed book")
    steps = kept["id"].map(closed["steps"])
    alone = kept["condition"].str.startswith(STEP) | ((kept["condition"] == GOLD) & (steps == 1))
    kept["worth"] = np.where(alone, 1 / steps, 0.0)
    return kept[alone | (kept["condition"] != GOLD)].reset_index(drop=True)


def correlations(kept: pd.DataFrame, methods: Mapping[str, str] = METHODS, *, seed: int = 0) -> dict[str, Correlation]:
    """Pearson's correlation of each measure's change with the worth of what was shown, by title; questions are drawn whole.

    kept : as `worth` returns it; a measure that never changes has no correlation and is left out
    """
    options = {"method": "pearson", "groups": kept["id"], "rng": seed}
    changing = _changing(kept, methods)
    return {title: correlation(kept[column], kept["worth"], **options) for title, column in changing.items()}


def gaps(kept: pd.DataFrame, best: str = "SePer soft", methods: Mapping[str, str] = METHODS, *, seed: int = 0) -> pd.DataFrame:
    """How much better one measure goes with the worth than each of the others does, on the same rows.

    best    : title of the measure that the others are held against
    returns : index method; columns value, low, high, n, p_value and p_holm (adjusted for the rows of this table)
    """
    checks.one_of("method", best, methods)
    options = {"method": "pearson", "groups": kept["id"], "resamples": 2000, "rng": seed}
    differences = {
        title: correlation_difference(kept[methods[best]], kept[column], kept["worth"], **options)
        for title, column in _changing(kept, methods).items()
        if title != best
    }
    table = pd.DataFrame(map(vars, differences.values()), pd.Index(differences, name="method")).drop(columns="undefined")
    return table.assign(p_holm=holm(table["p_value"], of=differences.values()))


def _changing(kept: pd.DataFrame, methods: Mapping[str, str]) -> dict[str, str]:
    return {title: name for title, name in methods.items() if name in kept and np.ptp(kept[name].to_numpy()) > 0}


def asked_judge(reader: LanguageModel, questions: Sequence[Question], drawn: Drawn, prompt: Prompt) -> np.ndarray:
    """A language model's probability of "yes" when asked whether a case's likeliest sample is right, (cases,) in the order of `drawn`.

    prompt : with the slots question, reference and answer
    source : the LM-as-judge rows of SePer, Tables 1 and 2, which used other and larger judges
    """
    by_id, texts = {question.id: question for question in questions}, []
    for (name, _), replies in drawn.items():
        best = max(replies, key=lambda reply: reply.log_likelihood).text.strip() or "no answer"
        texts.append(prompt_text(reader, prompt, by_id[name], reference=by_id[name].answers[0], answer=best))
    return said_yes(reader, texts)


def said_yes(reader: LanguageModel, texts: Sequence[str]) -> np.ndarray:
    """The probability of "Yes" against "No" as what follows each text, (texts,)."""
    return softmax(word_log_likelihoods(reader, texts, ("Yes", "No")), axis=1)[:, 0].round(6)
