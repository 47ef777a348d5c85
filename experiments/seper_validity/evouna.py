"""Answers of EVOUNA-NQ, which people have judged, by two other judges: the embeddings of their tokens, and a language model."""

import pandas as pd

from experiments import asking, benchmarks
from experiments.seper_validity.compared import said_yes
from rag_utils import data, retrieve, similarity
from rag_utils.prompts import load, prompt_text

DATASET = "evouna_nq"


def bertscores(*, mode, few=None) -> tuple[pd.DataFrame, dict]:
    """BERTScore, with MiniLM's token embeddings, of every answer against its golds: column id and, for each system, bertscore_SYSTEM.

    source : the BERTScore row of SePer, Table 1, which used a larger encoder. No reader is asked, so `mode` changes nothing
    """
    judged = data.load_judged(DATASET)[:few]
    answered = [(question, answer) for question in judged for answer in question.answers]
    table: dict[str, dict] = {question.id: {"id": question.id} for question in judged}
    for start in range(0, len(answered), 500):  # the embeddings of all tokens of all answers would take 4 GB
        part = answered[start : start + 500]
        said, golds = [answer.text for _, answer in part], [list(question.golds) for question, _ in part]
        scores = similarity.bertscores(said, golds, encoder=retrieve.token_encoder())
        for (question, answer), score in zip(part, scores, strict=True):
            table[question.id][f"bertscore_{answer.system}"] = round(float(score), 4)
    return pd.DataFrame(table.values()), benchmarks.source(DATASET) | {"encoder": "all-MiniLM-L6-v2"}


def asked(*, mode, questions, asker_profile, judge_prompt, few=None) -> tuple[pd.DataFrame, dict]:
    """A language model's probability of "yes, right", best over the golds: column id and, for each system, lm_SYSTEM.

    questions    : how many, in the order of the hash of their text
    judge_prompt : with the slots question, reference and answer; a blank answer is not asked about
    source       : the rows of trained and untrained judges in SePer, Table 1, which are other and larger models
    """
    asker, prompt = asking.reader(asker_profile, mode), load(judge_prompt)
    judged = sorted(data.load_judged(DATASET), key=lambda one: data.question_id(one.question))[:questions][:few]
    pairs = [(question, answer) for question in judged for answer in question.answers if answer.text.strip()]
    asked_of = [(question, answer, gold) for question, answer in pairs for gold in question.golds]
    texts = [
        prompt_text(asker, prompt, question=question.question, reference=gold, answer=answer.text)
        for question, answer, gold in asked_of
    ]
    table: dict[str, dict] = {question.id: {"id": question.id} for question in judged}
    for (question, answer, _), value in zip(asked_of, said_yes(asker, texts).tolist(), strict=True):
        row, column = table[question.id], f"lm_{answer.system}"
        row[column] = max(value, row.get(column, 0.0))
    return pd.DataFrame(table.values()), asking.facts(asker=asker) | benchmarks.source(DATASET)
