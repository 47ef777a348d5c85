"""Evidence as people marked it and as the reader has it, and what the chapter keeps as tables: labels, rankings, answers, beliefs.

A sample is {"dataset": "companion" or a benchmark, "questions": how many, None for all, "passages": how many of each} and, where embeddings
find them and not BM25, "found": "dense". Scores go by name ("encoder", those of HEADS, "KIND all weights"), and so do compressors (those of
ADAPTIVE and BUDGETED, "SCORE top 10", "first 5 documents", ...).
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_fscore_support

from experiments import asking, benchmarks
from experiments.ecorag_ablations import compressors
from rag_utils import answers, data, retrieve
from rag_utils.base import checks
from rag_utils.base.cache import ROOT
from rag_utils.data import Question
from rag_utils.lm import LanguageModel
from rag_utils.measures import CLOSED, ecorag, seper
from rag_utils.measures.ecorag import Retrieved, Score, mine, ranked, right, sentences, titled
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
    "encoder adaptive": ("encoder", "companion"),
}
BUDGETED = {  # keep as many tokens as ECoRAG does
    "Selective-Context": compressors.informative_sentences,
    "LLMLingua": compressors.informative_words,
    "LongLLMLingua": compressors.likely_documents,
}
LABELS = {
    "labels": {"dataset": "companion", "questions": 87, "passages": 5},
    "labels_nq": {"dataset": "nq", "questions": 128, "passages": 5},
}  # table -> sample


def train_questions(source: str) -> list[Question]:
    """The questions to mine, in the order of the hash of their text: those of the companion to train on, none answered yes or no; those of
    NQ by which the reader's training measured its loss, none of the held-out quarter and none on a passage of it."""
    questions = sorted(data.load(source), key=lambda question: data.question_id(question.text))
    if source == "companion":
        return [question for question in questions if question.split == "train" and question.type != "yes_no"]
    unseen = {passage.id for question in questions if data.held_out(question.text) for passage in question.gold}
    usable = [q for q in questions if not data.held_out(q.text) and unseen.isdisjoint(p.id for p in q.gold)]
    facts = json.loads((ROOT / "data" / "reader" / "training.json").read_text(encoding="utf-8"))
    return usable[: facts["development_questions"]]


def unseen_questions(n: int | None = None) -> list[Question]:
    """The companion's questions that nothing was trained on, without those to be answered yes or no.

    n : then the first n // 2 about real things, and after them as many about invented ones
    """
    unseen = [q for q in data.load("companion") if q.split != "train" and q.type != "yes_no"]
    if n is None:
        return unseen
    return [q for kind in ("real", "invented") for q in [q for q in unseen if q.kind == kind][: n // 2]]


retrieved = partial(benchmarks.nearest, search=retrieve.bm25)


def labelled(reader: LanguageModel, questions: Sequence[Question], passages: Retrieved, **asking) -> pd.DataFrame:
    """The label of every sentence, and the labels that the paper holds it against.

    asking  : as in `measures.ecorag.mine`
    returns : its columns, and answer (the sentence contains one), gold (the source marks it), whole (right with all passages), needed (so,
              and wrong without this sentence's passage)
    source  : ECoRAG, section 5.1: answerability and leave-one-out. The latter is about whole passages there and here
    """
    table = mine(reader, questions, passages, **asking)
    rows = [(question, sentence) for question in questions for sentence in sentences(passages[question.id])]
    table["answer"] = [int(answers.contains_answer(sentence.text, question.answers)) for question, sentence in rows]
    gold = {(question.id, row.passage, row.place) for question in questions for row in compressors.marked(question)}
    table["gold"] = [int((question.id, sentence.passage, sentence.place) in gold) for question, sentence in rows]
    lists = {question.id: {passage.id: titled(passage) for passage in passages[question.id]} for question in questions}
    whole = dict(zip(lists, right(reader, [(q, [*lists[q.id].values()]) for q in questions], **asking), strict=True))
    left = [(question, name) for question in questions if whole[question.id] for name in lists[question.id]]
    others = [(q, [text for other, text in lists[q.id].items() if other != name]) for q, name in left]
    still = dict(zip(((q.id, name) for q, name in left), right(reader, others, **asking), strict=True))
    table["whole"] = [int(whole[question.id]) for question, _ in rows]
    table["needed"] = [int(not still.get((question.id, sentence.passage), True)) for question, sentence in rows]
    return table


def alignment(questions: Sequence[Question], passages: Retrieved, scores: Mapping[str, Score], *, whole: bool = False) -> pd.DataFrame:
    """How high each score puts what people marked: NDCG of the sentences, or of whole passages by their best sentence.

    whole   : rank passages, for a source that marks no sentences
    returns : columns id, condition (name of the score), ndcg_1, ndcg_10, r20 (an answer is in the 20 best sentences)
    source  : ECoRAG, Table 2, and R20 of Table 3. What was not retrieved counts as missed
    """
    rows = []
    for condition, score in scores.items():
        best, run, judged = ranked(questions, passages, score), {}, {}
        for question in questions:
            names = [row.passage if whole else f"{row.passage}:{row.place}" for row in best[question.id]]
            run[question.id] = {name: float(-place) for place, name in enumerate(dict.fromkeys(names))}
            gold = [f"{row.passage}:{row.place}" for row in compressors.marked(question)]
            judged[question.id] = dict.fromkeys([passage.id for passage in question.gold] if whole else gold, 1)
        ndcg_1, ndcg_10 = retrieve.evaluate(run, judged, ["nDCG@1", "nDCG@10"]).values()
        for question in questions:
            top = [sentence.text for sentence in best[question.id][:20]]
            r20 = float(any(answers.contains_answer(text, question.answers) for text in top))
            rows.append((question.id, condition, ndcg_1[question.id], ndcg_10[question.id], r20))
    return pd.DataFrame(rows, columns=["id", "condition", "ndcg_1", "ndcg_10", "r20"])


def verdict_scores(said: Sequence[bool], well: Sequence[bool]) -> dict[str, float]:
    """Accuracy, precision, recall and F1 of an evaluator against what the reader could do, as in Fig. 4; NaN where a share has no cases.

    said, well : whether the evaluator calls what is kept sufficient, and whether the reader answers rightly with it
    """
    said, well = checks.flags("said", said), checks.flags("well", well)
    checks.same_length(said=said, well=well)
    scores = precision_recall_fscore_support(well, said, average="binary", zero_division=np.nan)
    named = zip(("accuracy", "precision", "recall", "F1"), (np.mean(said == well), *scores[:3]), strict=True)
    return {name: float(score) for name, score in named}


def named_scores() -> Callable[[str], Score]:
    """From the name of a score to the score; what is embedded is remembered by all of them."""
    encode = retrieve.encoder()

    @cache
    def score(name: str) -> Score:
        if name.endswith(" all weights"):
            return compressors.towers(FOLDERS["whole"] / name.removesuffix(" all weights"))
        if name == "encoder":
            return ecorag.dot_products(encode)
        kind, folder = HEADS[checks.one_of("score", name, ["encoder", *HEADS])]
        return ecorag.dot_products(encode, ecorag.load_head(kind, FOLDERS[folder]))

    return score


def compressor(name: str, score: Callable[[str], Score], *, step: int, limit: int) -> ecorag.Compressor:
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


def drawn(sample: Mapping, few: int | None = None) -> tuple[list[Question], Retrieved, dict]:
    """Questions of a sample, the first `few` of them, their passages, best first, and where they come from."""
    name, n = sample["dataset"], sample["questions"]
    unseen = name == "companion" and benchmarks.Benchmark(name, tuple(unseen_questions(n)))
    data_set = unseen or benchmarks.load(name, n)
    search = benchmarks.nearest if sample.get("found") == "dense" else retrieved
    passages = search(data_set.questions, data_set.pool, k=sample["passages"])  # of all: how rare a word is depends on them
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
    """`labelled` on the questions that compressors are trained on, each with its best passages."""
    questions = train_questions(sample["dataset"])[: sample["questions"]]
    passages = retrieved(questions, data.passages(sample["dataset"]), k=sample["passages"])
    reader = asking.reader(profile, mode)
    table = labelled(reader, questions[:few], passages, max_new_tokens=max_new_tokens, **_forms(prompts))
    return table, asking.facts(reader=reader)


def ranking(*, mode, sample, scores, few=None) -> Rows:
    """`alignment` by named scores, of whole passages on a benchmark. No reader is asked, so `mode` changes nothing."""
    (questions, passages, facts), score = drawn(sample, few), named_scores()
    by_name = {name: score(name) for name in scores}
    table = alignment(questions, passages, by_name, whole=sample["dataset"] != "companion")
    folders = ["whole" if name.endswith(" all weights") else HEADS[name][1] for name in scores if name != "encoder"]
    return table, facts | weights(folders)


def compressed(reader: LanguageModel, shown: Sequence[str], questions, passages: Retrieved, *, sizes: Mapping, seed: int = 0) -> dict:
    """Name -> what that compressor keeps, None for "closed book"; BUDGETED and "random" have as many of the reader's tokens as ECoRAG."""
    free = {"random", *BUDGETED} & {*shown}
    score, own = named_scores(), {*shown, *["ECoRAG"] * bool(free)} - free - {CLOSED}
    kept = {name: compressor(name, score, **sizes)(questions, passages) for name in own}
    budget = tokens(reader, kept["ECoRAG"]) if free else {}
    rules = BUDGETED | {"random": lambda reader, budget: compressors.at_random(budget, reader.count_tokens, seed=seed)}
    kept |= {name: rules[name](reader, budget)(questions, passages) for name in free}
    return {name: kept.get(name) for name in shown}


def reading(*, mode, profile, sample, shown, prompts, sizes, max_new_tokens, few=None) -> Rows:
    """What the reader answers with what the compressors named by `shown` keep, "closed book" without any.

    sizes : {"step", "limit"}, and "by": the profile that compressors ask, if it is another than the reader's
    """
    questions, passages, facts = drawn(sample, few)
    by, sizes = sizes.get("by", profile), {name: sizes[name] for name in ("step", "limit")}
    reader, asked = (asking.reader(name, mode, CHAPTER if sample["dataset"] == "companion" else None) for name in (profile, by))
    kept = compressed(asked, shown, questions, passages, sizes=sizes)
    table = ecorag.answered(reader, questions, kept, max_new_tokens=max_new_tokens, **_forms(prompts))
    folders = [ADAPTIVE[name][1] for name in (*shown, *["ECoRAG"] * bool(BUDGETED.keys() & {*shown})) if name in ADAPTIVE]
    return table, facts | weights(folders) | asking.facts(reader=reader, asked=asked)


def evaluated(*, mode, profile, asker, sample, prompts, sizes, max_new_tokens, few=None) -> Rows:
    """Do evaluators call the best sentences enough, `step` and twice as many, and is the reader right with them? ECoRAG, Figs. 4 and 5.

    prompts : "closed" and "read" of the reader, "evidence" of `asker`, who is asked about `step` sentences only
    returns : columns id, condition ("small 4", "from NQ 4", "language model 4", ...), said and right, 0 or 1
    """
    questions, passages, facts = drawn(sample, few)
    reader, base, score, forms = asking.reader(profile, mode), asking.reader(asker, mode), named_scores(), _forms(prompts)
    says = {"language model": compressors.asked_evaluator(base, forms.pop("evidence"))}
    for name, folder in (("small", "companion"), ("from NQ", "nq")):
        says[name] = ecorag.small_evaluator(score(EVALUATORS[folder]), ecorag.load_evaluator(FOLDERS[folder]))
    rows, texts, step = [], [question.text for question in questions], sizes["step"]
    kept = {k: compressors.extractive(score("evidentiality"), keep=k)(questions, passages) for k in (step, 2 * step)}
    read = ecorag.answered(reader, questions, kept, max_new_tokens=max_new_tokens, **forms).groupby("condition")["exact_match"]
    for k, own in kept.items():
        for name, evaluator in says.items():
            if k == step or name != "language model":
                said, well = evaluator(texts, [*own.values()]) >= ecorag.THRESHOLD, read.get_group(k).to_numpy()
                rows.append(pd.DataFrame({"id": [*own], "condition": f"{name} {k}", "said": said.astype(int), "right": well.astype(int)}))
    return pd.concat(rows, ignore_index=True), facts | weights(["companion", "nq"]) | asking.facts(reader=reader, asker=base)


def beliefs(*, mode, profile, sample, shown, prompts, sizes, draws, few=None) -> Rows:
    """Soft SePer of what named compressors keep, on the companion's questions.

    draws : {"questions": how many, half of each kind, "n": samples of each, "max_new_tokens": ..., "seed": ...}
    """
    questions, passages, facts = drawn(sample)
    reader = asking.reader(profile, mode, CHAPTER)
    kept = compressed(reader, shown, questions, passages, sizes=sizes, seed=draws["seed"])
    believed = unseen_questions(draws["questions"])[:few]
    asked = seper.prompts_of(reader, believed, {CLOSED: None} | kept, **_forms(prompts))
    samples = seper.draw(reader, asked, **{key: value for key, value in draws.items() if key != "questions"})
    table = seper.beliefs(judge := asking.judge(profile, mode=mode, chapter=CHAPTER), believed, samples, clustered=False)
    return table, facts | {"questions": len(believed)} | weights(["companion"]) | asking.facts(reader=reader, judge=judge)


def tokens(reader: LanguageModel, kept: ecorag.Compressed) -> dict[str, int]:
    """By question id how many tokens its texts have."""
    return {name: sum(map(reader.count_tokens, texts)) for name, texts in kept.items()}


def _forms(names: Mapping[str, str]) -> dict[str, Prompt]:
    return {slot: load_prompt(name) for slot, name in names.items()}
