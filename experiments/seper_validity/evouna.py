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
    pairs, scores = [(answer.text, row.golds) for row in judged for answer in row.answers], []
    for start in range(0, len(pairs), 500):  # the embeddings of all tokens of all answers would take 4 GB
        texts, golds = zip(*pairs[start : start + 500], strict=True)
        scores += similarity.bertscores(texts, golds, encoder=retrieve.token_encoder()).tolist()
    score = iter(round(each, 4) for each in scores)
    rows = [{"id": row.id} | {f"bertscore_{answer.system}": next(score) for answer in row.answers} for row in judged]
    return pd.DataFrame(rows), benchmarks.source(DATASET) | {"encoder": "all-MiniLM-L6-v2"}


def asked(*, mode, questions, asker_profile, judge_prompt, few=None) -> tuple[pd.DataFrame, dict]:
    """A language model's probability of "yes, right", best over the golds: column id and, for each system, lm_SYSTEM.

    questions    : how many, in the order of the hash of their text
    judge_prompt : with the slots question, reference and answer; a blank answer is not asked about
    source       : the rows of trained and untrained judges in SePer, Table 1, which are other and larger models
    """
    asker, prompt = asking.reader(asker_profile, mode), load(judge_prompt)
    judged = sorted(data.load_judged(DATASET), key=lambda row: data.question_id(row.question))[:questions][:few]
    said, texts = [(row, answer) for row in judged for answer in row.answers if answer.text.strip()], []
    for row, answer in said:
        given = {"answer": answer.text}
        texts += [prompt_text(asker, prompt, row.question, reference=gold, **given) for gold in row.golds]
    rows, yes = {row.id: {"id": row.id} for row in judged}, iter(said_yes(asker, texts).tolist())
    for row, answer in said:
        rows[row.id][f"lm_{answer.system}"] = max(next(yes) for _ in row.golds)
    return pd.DataFrame([*rows.values()]), asking.facts(asker=asker) | benchmarks.source(DATASET)
