"""What SePer comes to with the authors' array and clusters, with weights from a warped distribution, or where agreement has a direction."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pandas as pd
import torch
from scipy.special import softmax
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from rag_utils import seper
from rag_utils.data import Question
from rag_utils.engine import decode
from rag_utils.lm import Generation, LanguageModel
from rag_utils.measures import Case
from rag_utils.measures.dense import entailment
from rag_utils.measures.seper import Agreed, Drawn, meanings
from rag_utils.prompts import Prompt

CODE = {"best answer, array as the code reads it": "soft_mixed", "hard, the latest cluster takes over": "hard_latest"}


def by_code(drawn: Drawn, agreed: Agreed) -> pd.DataFrame:
    """SePer with two things that the authors' code does otherwise than the paper says.

    returns : columns id, condition; soft_mixed (the largest belief, where the agreements, which stand answer by answer, are read as if they
              stood sample by sample: with one answer nothing changes), hard_latest (a later first member takes over samples) and
              intransitive (0 or 1)
    """
    table = []
    for case, replies in drawn.items():
        kernel, alike = agreed[case]
        whole = np.array([reply.log_likelihood for reply in replies])
        mixed = seper.soft(whole, kernel.T.reshape(kernel.shape), over_answers="max")
        latest = seper.hard(whole, *meanings(kernel, alike, join="latest"))
        table.append((*case, mixed, latest, int(intransitive(alike))))
    return pd.DataFrame(table, columns=["id", "condition", "soft_mixed", "hard_latest", "intransitive"])


def intransitive(alike: np.ndarray) -> bool:
    """Whether two samples that mean the same as a third do not mean the same as each other: only then the order of clustering matters."""
    return bool(((alike[:, :, None] & alike[None, :, :]).any(axis=1) & ~alike).any())


def warped(reader: LanguageModel, asked: Mapping, drawn: Drawn, agreed: Agreed, warps: Mapping) -> pd.DataFrame:
    """SePer over the same samples with their likelihoods under warped distributions of the same reader.

    asked, warps : prompts of the cases, and name -> temperature, top_k and top_p, as in `warp`
    returns      : columns id, condition and, for each warp, soft_NAME and hard_NAME, possible_NAME (share of samples that it can draw) and
                   change_NAME (mean over these of their log-likelihood minus the raw one, nats); empty where it can draw none
    source       : the authors' code weighs by the scores that the generation of transformers hands out, which are warped. There the
                   samples are drawn from the warped distribution too; here they are the ones drawn from the raw one
    """
    table = pd.DataFrame([*drawn], columns=["id", "condition"])
    for name, how in warps.items():
        values = log_likelihoods(reader, asked, drawn, **how)
        rows = [_under(values[case], replies, *agreed[case]) for case, replies in drawn.items()]
        table = table.join(pd.DataFrame(rows).add_suffix(f"_{name}"))
    return table


def _under(values: np.ndarray, replies: Sequence[Generation], kernel: np.ndarray, alike: np.ndarray) -> dict:
    possible = np.isfinite(values)
    if not possible.any():
        return {"soft": np.nan, "hard": np.nan, "possible": 0.0, "change": np.nan}
    raised = values - np.array([reply.log_likelihood for reply in replies])
    scores = {"soft": seper.soft(values, kernel), "hard": seper.hard(values, *meanings(kernel, alike))}
    return scores | {"possible": float(possible.mean()), "change": float(raised[possible].mean())}


def warp(
    logits: torch.Tensor, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> torch.Tensor:
    """Logits, (n, vocabulary), divided by the temperature, -inf for all but the top_k likeliest tokens, and of those all but the likeliest
    that hold top_p. Tokens as likely as the last of the top_k are kept too, and so is the token with which the sum reaches top_p.

    raises : ValueError for an option out of its range
    source : the generation of transformers, in its order; Holtzman et al. 2020 for top_p
    """
    steps = LogitsProcessorList([TemperatureLogitsWarper(float(temperature))])
    steps += [TopKLogitsWarper(top_k)] if top_k is not None else []
    steps += [TopPLogitsWarper(top_p)] if top_p is not None else []
    return steps(None, logits.float())


@torch.inference_mode()
def log_likelihoods(reader: LanguageModel, asked: Mapping, drawn: Drawn, **how) -> dict[Case, np.ndarray]:
    """Log-likelihood of every reply, nats, under the warped distribution (`how` as in `warp`), by the model itself: nothing is recorded.

    returns : per case (replies,), sums over the tokens; -inf for a reply with a token that the warped distribution excludes
    """
    warp(torch.zeros(1, 2), **how)
    keys = {case: [(asked[case], reply.token_ids) for reply in replies] for case, replies in drawn.items()}
    calls, value = list(dict.fromkeys(chain(*keys.values()))), {}
    contexts, continuations = [reader.encode(prompt) for prompt, _ in calls], [list(tokens) for _, tokens in calls]
    options = {"batch_tokens": reader.profile.batch_tokens, "count": reader.count, "warp": partial(warp, **how)}
    for batch in decode.score(reader.model, contexts, continuations, **options):
        value |= {calls[i]: scores.sum() for i, scores, _ in batch}
    return {case: np.array([value[key] for key in own], dtype=float) for case, own in keys.items()}


def directed(
    asker: LanguageModel, questions: Sequence[Question], drawn: Drawn, agreed: Agreed, prompt: Prompt
) -> pd.DataFrame:
    """SePer with a language model as judge of what follows from what; every distinct pair is asked once, each way.

    agreed  : makes the clusters, in every column; prompt: as in `measures.dense.entailment`
    returns : columns id, condition; soft_forward (does the answer follow from the sample?), soft_backward (the sample from the answer?) and
              soft_larger, the larger of both ways, with P("entailment") among the three words as kernel; hard_forward (clusters whose
              first member entails the answer: likeliest word "entailment") and hard_consistent ("contradiction" the likeliest word
              neither way); soft_judge, by `agreed`. All against the first of the accepted answers only
    source  : SePer, Algorithm 1, has E(r, a); the authors' code the larger of both ways, and for the hard score no contradiction
    """
    by_id, asked, table = {question.id: question for question in questions}, {}, []
    for case, replies in drawn.items():
        question, answer = by_id[case[0]].text, by_id[case[0]].answers[0]
        said = [reply.text.strip() or "no answer" for reply in replies]
        asked[case] = [((question, reply, answer), (question, answer, reply)) for reply in said]
    distinct = list(dict.fromkeys(chain(*chain(*asked.values()))))
    shares = softmax(entailment(asker, prompt, *zip(*distinct, strict=True)), axis=1)
    share = dict(zip(distinct, shares, strict=True))
    for case, pairs in asked.items():
        kernel, alike = agreed[case]
        both = np.array([[share[way] for way in pair] for pair in pairs])  # samples, ways, verdicts
        verdicts = both.argmax(axis=2)
        kernels = {"forward": both[:, 0, 0], "backward": both[:, 1, 0], "larger": both[:, :, 0].max(axis=1)}
        right = {"forward": verdicts[:, 0] == 0, "consistent": (verdicts != 1).all(axis=1)}
        whole = np.array([reply.log_likelihood for reply in drawn[case]])
        table.append(
            {"id": case[0], "condition": case[1]}
            | {f"soft_{way}": seper.soft(whole, each[:, None]) for way, each in kernels.items()}
            | {"soft_judge": seper.soft(whole, kernel[:, :1])}
            | {f"hard_{way}": seper.hard(whole, *meanings(each[:, None], alike)) for way, each in right.items()}
        )
    return pd.DataFrame(table)
