"""What a reader's samples to a question say, by every measure that SePer is compared with: one row per question and context.

drawn = draw(reader, questions, {"closed book": None, "gold": shown}, closed=..., read=..., n=10)
table = rows(judge, questions, drawn)
gains = changes(table)
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rag_utils import answers, seper, similarity, uncertainty
from rag_utils.data import Passage, Question
from rag_utils.judge import Judge
from rag_utils.lm import Generation, LanguageModel
from rag_utils.measure import CLOSED, prompt_text
from rag_utils.names import check_name
from rag_utils.prompts import Prompt

Drawn = dict[tuple[str, str], list[Generation]]  # (question id, context) -> samples

# title -> column, as in SePer, Table 2
METHODS = {
    "Exact Match": "exact_match",
    "ROUGE-L": "rouge_l",
    "BLEU": "bleu",
    "BERTScore": "bertscore",
    "Perplexity": "perplexity",
    "Entropy": "entropy",
    "Semantic Entropy": "semantic_entropy",
    "SePer hard": "seper_hard",
    "SePer soft": "seper_soft",
}
FALLS = ("perplexity", "entropy", "semantic_entropy")  # a useful passage lowers them

# what the paper leaves open or its code does otherwise -> column
VARIANTS = {
    "best answer instead of the mean": "soft_max",
    "share of samples as weight": "soft_frequency",
    "mean token log-likelihood as weight": "soft_token_mean",
    "hard, any answer": "hard_any",
    "hard, share of samples as weight": "hard_frequency",
}


def draw(
    reader: LanguageModel,
    questions: Sequence[Question],
    contexts: Mapping[str, Mapping[str, Sequence[Passage]] | None],
    *,
    closed: Prompt,
    read: Prompt,
    n: int = 10,
    max_new_tokens: int = 24,
    seed: int = 0,
) -> Drawn:
    """n samples at temperature 1 to each question under each context.

    contexts : per name the passages to show, by question id, best first; None asks without any. A question that has no passages under a
               context is not asked there
    raises   : as `LanguageModel.generate`
    """
    calls = {
        (question.id, name): prompt_text(
            reader, *((closed, question, None) if shown is None else (read, question, shown[question.id]))
        )
        for name, shown in contexts.items()
        for question in questions
        if shown is None or shown.get(question.id)
    }
    replies = reader.generate(list(calls.values()), n=n, temperature=1.0, max_new_tokens=max_new_tokens, seed=seed)
    return dict(zip(calls, replies, strict=True))


def rows(
    judge: Judge, questions: Sequence[Question], drawn: Drawn, *, samples: Sequence[int] | None = None
) -> pd.DataFrame:
    """Each measure of METHODS and VARIANTS for each question and context, over the samples (all, or those of these numbers).

    judge   : says whether two answers mean the same; every distinct pair is judged once
    returns : columns id, condition, the measures, right (share of samples that the judge accepts), clusters (meanings among the samples),
              n (samples)
    source  : SePer, Table 2: similarity measures are means over the samples; entropy is the mean negative log-likelihood of a sample
    """
    by_id = {question.id: question for question in questions}
    taken = {
        key: [replies[i] for i in (range(len(replies)) if samples is None else samples)]
        for key, replies in drawn.items()
    }
    same = _judged(judge, by_id, taken)
    alike = _alike(by_id, taken)
    table = []
    for (name, condition), replies in taken.items():
        question, texts = by_id[name], [reply.text.strip() for reply in replies]
        kernel = np.array(
            [[same[question.text, *_pair(text, answer)] for answer in question.answers] for text in texts]
        )
        clusters = seper.cluster([[same[question.text, *_pair(a, b)] >= 0.5 for b in texts] for a in texts])
        firsts = [np.flatnonzero(clusters == k)[0] for k in range(clusters.max() + 1)]
        matches = kernel[firsts] >= 0.5
        whole = np.array([reply.log_likelihood for reply in replies])
        per_token = np.array([reply.token_log_likelihood.mean() for reply in replies])
        table.append(
            {"id": name, "condition": condition}
            | {measure: float(np.mean([alike[question.id, text][measure] for text in texts])) for measure in _ALIKE}
            | {
                "perplexity": float(np.mean([uncertainty.perplexity(reply.token_log_likelihood) for reply in replies])),
                "entropy": uncertainty.predictive_entropy(whole),
                "semantic_entropy": uncertainty.semantic_entropy(whole, clusters),
                "seper_hard": seper.hard(whole, clusters, matches),
                "seper_soft": seper.soft(whole, kernel),
                "soft_max": seper.soft(whole, kernel, over_answers="max"),
                "soft_frequency": seper.soft(whole, kernel, weighting="frequency"),
                "soft_token_mean": seper.soft(per_token, kernel),
                "hard_any": seper.hard(whole, clusters, matches, over_answers="any"),
                "hard_frequency": seper.hard(whole, clusters, matches, weighting="frequency"),
                "right": float(np.mean(kernel.max(axis=1) >= 0.5)),
                "clusters": int(clusters.max() + 1),
                "n": len(texts),
            }
        )
    return pd.DataFrame(table)


def changes(table: pd.DataFrame, *, against: str = CLOSED) -> pd.DataFrame:
    """What each context adds to each measure, question by question; measures that a useful passage lowers count the other way round.

    table   : as `rows` returns it
    returns : columns id, condition and the measures; no rows for `against`
    raises  : ValueError if there is no such context, or a question was not asked under it
    source  : SePer, eq. 11, and the same difference for every other measure
    """
    check_name("condition", against, set(table["condition"]))
    measures = [name for name in (*METHODS.values(), *VARIANTS.values(), "lm_judge") if name in table]
    before = table[table["condition"] == against].set_index("id")[measures]
    after = table[table["condition"] != against]
    missing = sorted(set(after["id"]) - set(before.index))
    if missing:
        raise ValueError(f"{len(missing)} questions were not asked under {against!r}, the first is {missing[0]}")
    change = after[measures].to_numpy(float) - before.loc[after["id"], measures].to_numpy(float)
    change *= [-1 if name in FALLS else 1 for name in measures]
    return pd.concat(
        [after[["id", "condition"]].reset_index(drop=True), pd.DataFrame(change, columns=measures)], axis=1
    )


def asked_judge(
    reader: LanguageModel, questions: Sequence[Question], drawn: Drawn, prompt: Prompt
) -> dict[tuple[str, str], float]:
    """A language model as judge: its probability of "yes" against "no" when asked whether the likeliest sample is right.

    prompt  : with the slots question, reference and answer
    returns : per (question id, context), 0 .. 1
    source  : the LM-as-judge rows of SePer, Tables 1 and 2, which used other and larger judges
    """
    by_id = {question.id: question for question in questions}
    asked = {}
    for (name, condition), replies in drawn.items():
        best = max(replies, key=lambda reply: reply.log_likelihood).text.strip()
        slots = {"question": by_id[name].text, "reference": by_id[name].answers[0], "answer": best or "no answer"}
        asked[name, condition] = reader.chat(prompt.fill(**slots)) if prompt.chat else prompt.fill(**slots)
    texts = list(asked.values())
    said = reader.log_likelihood([text for text in texts for _ in range(2)], ["Yes", "No"] * len(texts))
    yes, no = (np.array([tokens.sum() for tokens in said[start::2]]) for start in (0, 1))
    return dict(zip(asked, (1 / (1 + np.exp(no - yes))).round(6).tolist(), strict=True))


_ALIKE = ("exact_match", "rouge_l", "bleu", "bertscore")


def _alike(by_id, taken) -> dict[tuple[str, str], dict[str, float]]:
    """The similarity of every distinct (question, text) to the question's answers."""
    pairs = list(dict.fromkeys((name, reply.text.strip()) for (name, _), replies in taken.items() for reply in replies))
    references = [list(by_id[name].answers) for name, _ in pairs]
    scores = similarity.bertscores([text for _, text in pairs], references) if pairs else []
    return {
        (name, text): {
            "exact_match": answers.exact_match(text, accepted),
            "rouge_l": similarity.rouge_l(text, accepted),
            "bleu": similarity.bleu(text, accepted),
            "bertscore": float(score),
        }
        for (name, text), accepted, score in zip(pairs, references, scores, strict=True)
    }


def _pair(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a <= b else (b, a)


def _judged(judge: Judge, by_id, taken) -> dict[tuple[str, str, str], float]:
    """P(the two mean the same) for every distinct pair that is needed: samples with answers, and with each other."""
    wanted: dict[tuple[str, str, str], None] = {}
    for (name, _), replies in taken.items():
        texts = list(dict.fromkeys(reply.text.strip() for reply in replies))
        question = by_id[name]
        for place, text in enumerate(texts):
            for other in (*question.answers, *texts[place:]):
                wanted[question.text, *_pair(text, other)] = None
    found = judge.equivalent(*map(list, zip(*wanted, strict=True)))
    return dict(zip(wanted, map(float, found), strict=True))
