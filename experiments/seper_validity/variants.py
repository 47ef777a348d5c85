"""What SePer comes to with the authors' array and clusters, with weights from a warped distribution, or where agreement has a direction.

`by_code` needs the samples and the judge only, `warped` the reader itself too, `directed` a language model that judges.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import softmax

from experiments.seper_validity import warping
from experiments.seper_validity.beliefs import asked_on, drawn_on
from rag_utils import seper
from rag_utils.data import Question
from rag_utils.judge import Judge
from rag_utils.lm import LanguageModel
from rag_utils.measures import dense as dense_measure
from rag_utils.measures.seper import Agreed, Drawn, agreements, meanings, prompts_of
from rag_utils.prompts import Prompt

CODE = {
    "best answer, array as the code reads it": "soft_mixed",
    "hard, the latest cluster takes over": "hard_latest",
}  # title -> column of `by_code`


def by_code(drawn: Drawn, agreed: Agreed) -> pd.DataFrame:
    """SePer with two things that the authors' code does otherwise than the paper says.

    agreed  : as `beliefs.agreements` returns it for drawn
    returns : columns id, condition; soft_mixed (the largest belief, where the agreements, which stand answer by answer, are read as if they
              stood sample by sample: with one answer nothing changes), hard_latest (a later first member takes over samples) and
              intransitive (1 where the order of clustering can matter, as `intransitive` has it)
    """
    table = []
    for (name, condition), replies in drawn.items():
        kernel, agree = agreed[name, condition]
        whole = np.array([reply.log_likelihood for reply in replies])
        mixed = seper.soft(whole, kernel.T.reshape(kernel.shape), over_answers="max")
        latest = seper.hard(whole, *meanings(kernel, agree, join="latest"))
        loose = int(intransitive(agree))
        table.append(
            {"id": name, "condition": condition, "soft_mixed": mixed, "hard_latest": latest, "intransitive": loose}
        )
    return pd.DataFrame(table)


def intransitive(agree: np.ndarray) -> bool:
    """Whether two samples that mean the same as a third do not mean the same as each other.

    Only then do the clusters depend on the order in which samples are looked at.

    agree : (N, N) bool, which samples mean the same, symmetric

    >>> intransitive(np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool))
    True
    """
    return bool(((agree[:, :, None] & agree[None, :, :]).any(axis=1) & ~agree).any())


def by_code_on(
    reader: LanguageModel, judge: Judge, name: str, n: int, *, samples: int = 10, **how
) -> tuple[pd.DataFrame, dict]:
    """`by_code` on a public benchmark: numbers per question only; arguments as in `beliefs.benchmark`."""
    questions, drawn, facts = drawn_on(reader, name, n, samples, how)
    return by_code(drawn, agreements(judge, questions, drawn)), facts


def warped(
    reader: LanguageModel,
    asked: Mapping[tuple[str, str], str],
    drawn: Drawn,
    agreed: Agreed,
    warps: Mapping[str, Mapping[str, float]],
) -> pd.DataFrame:
    """SePer over the same samples with their likelihoods under warped distributions of the same reader.

    asked   : (question id, context) -> prompt, as `beliefs.prompts_of` returns it
    agreed  : as `beliefs.agreements` returns it for drawn
    warps   : name -> temperature, top_k and top_p, as in `warping.warp`
    returns : columns id, condition and, for each warp, soft_NAME and hard_NAME, possible_NAME (share of samples that it can draw) and
              change_NAME (mean over these of their log-likelihood minus the raw one, nats). Where it can draw none, the scores and the
              change are empty
    source  : the authors' code weighs by the scores that the generation of transformers hands out, which are warped. There the samples
              are drawn from the warped distribution too; here they are the ones drawn from the raw one
    """
    keys = list(drawn)
    table = pd.DataFrame(keys, columns=["id", "condition"])
    for name, how in warps.items():
        found = warping.log_likelihoods(reader, [asked[key] for key in keys], [drawn[key] for key in keys], **how)
        rows = [_under(values, drawn[key], *agreed[key]) for key, values in zip(keys, found, strict=True)]
        table = table.join(pd.DataFrame(rows).add_suffix(f"_{name}"))
    return table


def warped_on(
    reader: LanguageModel,
    judge: Judge,
    name: str,
    n: int,
    warps: Mapping[str, Mapping[str, float]],
    *,
    samples: int = 10,
    **how,
) -> tuple[pd.DataFrame, dict]:
    """`warped` on a public benchmark: numbers per question only; arguments as there and in `beliefs.benchmark`."""
    questions, drawn, facts = drawn_on(reader, name, n, samples, how)
    asked = prompts_of(reader, *asked_on(name, n), closed=how["closed"], read=how["read"])
    return warped(reader, asked, drawn, agreements(judge, questions, drawn), warps), facts | {"warps": dict(warps)}


def _under(values: np.ndarray, replies, kernel: np.ndarray, agree: np.ndarray) -> dict[str, float]:
    possible = np.isfinite(values)
    if not possible.any():
        return {"soft": np.nan, "hard": np.nan, "possible": 0.0, "change": np.nan}
    raw = np.array([reply.log_likelihood for reply in replies])
    return {
        "soft": seper.soft(values, kernel),
        "hard": seper.hard(values, *meanings(kernel, agree)),
        "possible": float(possible.mean()),
        "change": float((values - raw)[possible].mean()),
    }


def directed(
    asker: LanguageModel, questions: Sequence[Question], drawn: Drawn, agreed: Agreed, prompt: Prompt
) -> pd.DataFrame:
    """SePer with a language model as judge of what follows from what; every distinct pair is asked once, each way.

    agreed  : as `beliefs.agreements` returns it for drawn; clusters are made by it, in every column
    prompt  : with the slots question, premise and hypothesis, asks for one of `VERDICTS`
    returns : columns id, condition; soft_forward (does the answer follow from the sample?), soft_backward (the sample from the answer?) and
              soft_larger, the larger of both ways, with P("entailment") among the three words as kernel; hard_forward (clusters whose
              first member entails the answer: likeliest word "entailment") and hard_consistent ("contradiction" the likeliest word
              neither way); soft_judge, by `agreed`. All against the first of the accepted answers only
    source  : SePer, Algorithm 1, has E(r, a); the authors' code the larger of both ways, and for the hard score no contradiction
    """
    by_id = {question.id: question for question in questions}
    wanted: dict[tuple[str, str, str], None] = {}
    for (name, _), replies in drawn.items():
        text, answer = by_id[name].text, by_id[name].answers[0]
        for reply in replies:
            said = reply.text.strip() or "no answer"
            wanted |= {(text, said, answer): None, (text, answer, said): None}
    shares = softmax(dense_measure.entailment(asker, prompt, *zip(*wanted, strict=True)), axis=1)
    judged = dict(zip(wanted, shares, strict=True))
    table = []
    for (name, condition), replies in drawn.items():
        text, answer = by_id[name].text, by_id[name].answers[0]
        said = [reply.text.strip() or "no answer" for reply in replies]
        forward = np.array([judged[text, one, answer] for one in said])
        backward = np.array([judged[text, answer, one] for one in said])
        whole = np.array([reply.log_likelihood for reply in replies])
        kernel, agree = agreed[name, condition]
        clusters = meanings(kernel, agree)[0]
        firsts = [np.flatnonzero(clusters == k)[0] for k in range(clusters.max() + 1)]
        ways = {"forward": forward[:, 0], "backward": backward[:, 0]}
        ways |= {"larger": np.maximum(*ways.values()), "judge": kernel[:, 0]}
        opposed = (forward.argmax(axis=1) == 1) | (backward.argmax(axis=1) == 1)
        matches = {"forward": forward.argmax(axis=1) == 0, "consistent": ~opposed}
        table.append(
            {"id": name, "condition": condition}
            | {f"soft_{way}": seper.soft(whole, values[:, None]) for way, values in ways.items()}
            | {f"hard_{way}": seper.hard(whole, clusters, found[firsts][:, None]) for way, found in matches.items()}
        )
    return pd.DataFrame(table)
