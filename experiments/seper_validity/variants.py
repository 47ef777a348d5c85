"""What SePer comes to with the authors' array and clusters, with weights from a warped distribution, or by other judges."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pandas as pd

from experiments.seper_validity.compared import said_yes
from rag_utils import retrieve, seper
from rag_utils.answers import contains_answer
from rag_utils.data import Question
from rag_utils.judge import THRESHOLD
from rag_utils.lm import Generation, LanguageModel
from rag_utils.measures import Case
from rag_utils.measures.seper import Agreed, Drawn, meanings
from rag_utils.prompts import Prompt, prompt_text

CODE = {"best answer, array as the code reads it": "soft_mixed", "hard, the latest cluster takes over": "hard_latest"}


def by_code(drawn: Drawn, agreed: Agreed) -> pd.DataFrame:
    """SePer with two things that the authors' code does otherwise than the paper says.

    returns : columns id, condition; soft_mixed (the largest belief, where the agreements, which stand answer by answer, are read as if they
              stood sample by sample: with one answer nothing changes), hard_latest (a later first member takes over samples), intransitive
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


def warp(logits, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None):
    """Logits, a tensor (n, vocabulary), divided by the temperature, -inf for all but the top_k likeliest tokens, and of those all but the
    likeliest that hold top_p. Tokens as likely as the last of the top_k are kept too, and so is the token with which the sum reaches top_p.

    raises : ValueError for an option out of its range
    source : the generation of transformers, in its order; Holtzman et al. 2020 for top_p
    """
    from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper  # takes seconds

    steps = LogitsProcessorList([TemperatureLogitsWarper(float(temperature))])
    steps += [TopKLogitsWarper(top_k)] if top_k is not None else []
    steps += [TopPLogitsWarper(top_p)] if top_p is not None else []
    return steps(None, logits.float())


def log_likelihoods(reader: LanguageModel, asked: Mapping, drawn: Drawn, **how) -> dict[Case, np.ndarray]:
    """Log-likelihood of every reply, nats, under the warped distribution (`how` as in `warp`), by the model itself: nothing is recorded.

    returns : per case (replies,), sums over the tokens; -inf for a reply with a token that the warped distribution excludes
    """
    import torch

    from rag_utils.engine import decode

    warp(torch.zeros(1, 2), **how)
    keys = {case: [(asked[case], reply.token_ids) for reply in replies] for case, replies in drawn.items()}
    calls, value = list(dict.fromkeys(chain(*keys.values()))), {}
    contexts, continuations = [reader.encode(prompt) for prompt, _ in calls], [list(tokens) for _, tokens in calls]
    options = {"batch_tokens": reader.batch_tokens, "count": reader.count, "warp": partial(warp, **how)}
    for batch in decode.score(reader.model, contexts, continuations, **options):
        value |= {calls[i]: scores.sum() for i, scores, _ in batch}
    return {case: np.array([value[key] for key in own], dtype=float) for case, own in keys.items()}


def by_judge(asker: LanguageModel, questions: Sequence[Question], drawn: Drawn, agreed: Agreed, prompt: Prompt) -> pd.DataFrame:
    """SePer by other judges of whether a sample means the answer, and with two sentences of the paper taken at their word.

    agreed  : makes the clusters, and is the judge of soft_judge, soft_literal and hard_every; prompt: as in `compared.asked_judge`
    returns : columns id, condition; against the first accepted answer soft_judge, soft_containing (the sample contains it), soft_cosine (of
              MiniLM's embeddings, 0 if negative) and soft_lm (the asker's probability of "yes"); against all of them soft_literal (raw
              likelihoods, summed over distinct texts) and hard_every (a cluster counts if each member means the answer)
    source  : SePer, eq. 9 and Algorithm 1; its appendix B.4 compares judges
    """
    by_id, table = {question.id: question for question in questions}, []
    said = {case: [(case[0], reply.text.strip() or "no answer") for reply in own] for case, own in drawn.items()}
    pairs = [(by_id[name], text, by_id[name].answers[0]) for name, text in dict.fromkeys(chain(*said.values()))]
    asked = [prompt_text(asker, prompt, about, reference=answer, answer=text) for about, text, answer in pairs]
    _, texts, answers = zip(*pairs, strict=True)
    cosines = (retrieve.encoder()([*texts]) * retrieve.encoder()([*answers])).sum(axis=1)
    verdicts = {"containing": [contains_answer(text, [answer]) for _, text, answer in pairs]}
    verdicts |= {"cosine": cosines.clip(0, 1), "lm": said_yes(asker, asked)}
    of = {name: {(about.id, text): value for (about, text, _), value in zip(pairs, v, strict=True)} for name, v in verdicts.items()}
    for case, own in drawn.items():
        (kernel, alike), whole = agreed[case], np.array([reply.log_likelihood for reply in own])
        clusters, _ = meanings(kernel, alike)
        every = [(kernel[clusters == cluster] >= THRESHOLD).all(axis=0) for cluster in range(clusters.max() + 1)]
        _, once = np.unique([text for _, text in said[case]], return_index=True)
        row = {"id": case[0], "condition": case[1], "soft_judge": seper.soft(whole, kernel[:, :1])}
        row |= {f"soft_{name}": seper.soft(whole, [[verdict[p]] for p in said[case]]) for name, verdict in of.items()}
        row["soft_literal"] = min(1.0, float((np.exp(whole[once]) @ kernel[once]).mean()))
        table.append(row | {"hard_every": seper.hard(whole, clusters, np.array(every))})
    return pd.DataFrame(table)
