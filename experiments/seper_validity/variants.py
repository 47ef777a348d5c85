"""What SePer comes to with the authors' array and clusters, with weights from a warped distribution, or where agreement has a direction."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import softmax

from experiments.seper_validity import warping
from rag_utils import seper
from rag_utils.data import Question
from rag_utils.lm import LanguageModel
from rag_utils.measures import dense as dense_measure
from rag_utils.measures.seper import Agreed, Drawn, meanings
from rag_utils.prompts import Prompt

CODE = {
    "best answer, array as the code reads it": "soft_mixed",
    "hard, the latest cluster takes over": "hard_latest",
}  # title -> column of `by_code`


def by_code(drawn: Drawn, agreed: Agreed) -> pd.DataFrame:
    """SePer with two things that the authors' code does otherwise than the paper says.

    returns : columns id, condition; soft_mixed (the largest belief, where the agreements, which stand answer by answer, are read as if they
              stood sample by sample: with one answer nothing changes), hard_latest (a later first member takes over samples) and
              intransitive (1 where the order of clustering can matter, as `intransitive` has it)
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
    """Whether two samples that mean the same as a third do not mean the same as each other: only then does the order of clustering matter.

    alike : (N, N) bool, symmetric

    >>> intransitive(np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool))
    True
    """
    return bool(((alike[:, :, None] & alike[None, :, :]).any(axis=1) & ~alike).any())


def warped(reader: LanguageModel, asked: Mapping, drawn: Drawn, agreed: Agreed, warps: Mapping) -> pd.DataFrame:
    """SePer over the same samples with their likelihoods under warped distributions of the same reader.

    asked, agreed : prompts and agreements of the cases, as `measures.seper` has them
    warps         : name -> temperature, top_k and top_p, as in `warping.warp`
    returns       : columns id, condition and, for each warp, soft_NAME and hard_NAME, possible_NAME (share of samples that it can draw) and
                    change_NAME (mean over these of their log-likelihood minus the raw one, nats); empty where it can draw none
    source        : the authors' code weighs by the scores that the generation of transformers hands out, which are warped. There the
                    samples are drawn from the warped distribution too; here they are the ones drawn from the raw one
    """
    table, prompts = pd.DataFrame([*drawn], columns=["id", "condition"]), [asked[case] for case in drawn]
    for name, how in warps.items():
        values = warping.log_likelihoods(reader, prompts, [*drawn.values()], **how)
        rows = [_under(each, drawn[case], *agreed[case]) for case, each in zip(drawn, values, strict=True)]
        table = table.join(pd.DataFrame(rows).add_suffix(f"_{name}"))
    return table


def _under(values: np.ndarray, replies, kernel: np.ndarray, alike: np.ndarray) -> dict[str, float]:
    possible = np.isfinite(values)
    if not possible.any():
        return {"soft": np.nan, "hard": np.nan, "possible": 0.0, "change": np.nan}
    raised = values - np.array([reply.log_likelihood for reply in replies])
    scores = {"soft": seper.soft(values, kernel), "hard": seper.hard(values, *meanings(kernel, alike))}
    return scores | {"possible": float(possible.mean()), "change": float(raised[possible].mean())}


def directed(
    asker: LanguageModel, questions: Sequence[Question], drawn: Drawn, agreed: Agreed, prompt: Prompt
) -> pd.DataFrame:
    """SePer with a language model as judge of what follows from what; every distinct pair is asked once, each way.

    agreed  : makes the clusters, in every column
    prompt  : with the slots question, premise and hypothesis, asks for one of `VERDICTS`
    returns : columns id, condition; soft_forward (does the answer follow from the sample?), soft_backward (the sample from the answer?) and
              soft_larger, the larger of both ways, with P("entailment") among the three words as kernel; hard_forward (clusters whose
              first member entails the answer: likeliest word "entailment") and hard_consistent ("contradiction" the likeliest word
              neither way); soft_judge, by `agreed`. All against the first of the accepted answers only
    source  : SePer, Algorithm 1, has E(r, a); the authors' code the larger of both ways, and for the hard score no contradiction
    """
    by_id = {question.id: (question.text, question.answers[0]) for question in questions}
    said = {case: [reply.text.strip() or "no answer" for reply in replies] for case, replies in drawn.items()}
    pairs = dict.fromkeys((*by_id[name], text) for (name, _), texts in said.items() for text in texts)
    asked = [each for text, answer, reply in pairs for each in ((text, reply, answer), (text, answer, reply))]
    shares = softmax(dense_measure.entailment(asker, prompt, *zip(*asked, strict=True)), axis=1)
    judged = dict(zip(asked, shares, strict=True))
    table = []
    for case, texts in said.items():
        (text, answer), (kernel, alike) = by_id[case[0]], agreed[case]
        whole = np.array([reply.log_likelihood for reply in drawn[case]])
        forward = np.array([judged[text, reply, answer] for reply in texts])
        backward = np.array([judged[text, answer, reply] for reply in texts])
        ways = {"forward": forward[:, 0], "backward": backward[:, 0]}
        ways |= {"larger": np.maximum(*ways.values()), "judge": kernel[:, 0]}
        opposed = (forward.argmax(axis=1) == 1) | (backward.argmax(axis=1) == 1)
        right = {"forward": forward.argmax(axis=1) == 0, "consistent": ~opposed}
        table.append(
            {"id": case[0], "condition": case[1]}
            | {f"soft_{way}": seper.soft(whole, values[:, None]) for way, values in ways.items()}
            | {f"hard_{way}": seper.hard(whole, *meanings(each[:, None], alike)) for way, each in right.items()}
        )
    return pd.DataFrame(table)
