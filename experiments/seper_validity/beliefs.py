"""What a reader's samples to a question say, by every measure that SePer is compared with: one row per question and context.

drawn = draw(reader, questions, {"closed book": None, "gold": shown}, closed=..., read=..., n=10)
table = rows(judge, questions, drawn)
gains = changes(table)
"""

import operator
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import softmax

from experiments.asking import CLOSED, GOLD, NEGATIVE
from experiments.benchmarks import sample
from rag_utils import answers, data, retrieve, seper, similarity, uncertainty
from rag_utils.base.names import check_name
from rag_utils.corpora import manifest
from rag_utils.data import Passage, Question
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import LanguageModel, word_log_likelihoods
from rag_utils.measures import seper as measured
from rag_utils.measures.seper import VARIANTS, Agreed, Drawn, Shown, agreements, beliefs, draw, meanings
from rag_utils.prompts import Prompt, prompt_text
from rag_utils.stats import PERMUTATIONS, Correlation, correlation, correlation_difference, holm

# title -> column, as in SePer, Table 2; `rows` fills all but the judging language model, which `asked_judge` asks
METHODS = {
    "Exact Match": "exact_match",
    "ROUGE-L": "rouge_l",
    "BLEU": "bleu",
    "BERTScore": "bertscore",
    "Perplexity": "perplexity",
    "Entropy": "entropy",
    "Semantic Entropy": "semantic_entropy",
    "LM as judge": "lm_judge",
    "SePer hard": "seper_hard",
    "SePer soft": "seper_soft",
}
STEP = "step"  # a context of one gold passage where more are needed is called "step 1", "step 2", ...
FALLS = ("perplexity", "entropy", "semantic_entropy")  # a useful passage lowers them

MEASURES = [*METHODS.values(), *VARIANTS.values()]


def contexts(
    questions: Sequence[Question], negatives: Mapping[str, Sequence[Passage]], **others: Mapping[str, Sequence[Passage]]
) -> Shown:
    """What each question is shown: nothing, all its gold passages, a hard negative, and, of more than one gold passage, each alone.

    negatives : per question id the passages that look right and hold no answer
    others    : further contexts by name
    returns   : contexts "closed book", "gold", "hard negative", the others, "step 1", "step 2", ...
    """
    steps = max(len(question.gold) for question in questions)
    alone = {
        f"{STEP} {i + 1}": {q.id: q.gold[i : i + 1] for q in questions if len(q.gold) > 1}
        for i in range(steps if steps > 1 else 0)
    }
    gold = {question.id: question.gold for question in questions}
    return {CLOSED: None, GOLD: gold, NEGATIVE: negatives, **others, **alone}


def rows(judge: Judge, questions: Sequence[Question], drawn: Drawn, *, agreed: Agreed | None = None) -> pd.DataFrame:
    """Each measure of METHODS (but LM as judge) and VARIANTS for each question and context, over the samples.

    judge   : says whether two answers mean the same; every distinct pair is judged once
    agreed  : what it says, as `agreements` returns it, if that is there already
    returns : columns id, condition, the measures, right (share of samples that the judge accepts), clusters (meanings among the samples),
              n (samples) and steps (gold passages of the question)
    source  : SePer, Table 2: similarity measures are means over the samples; entropy is the mean negative log-likelihood of a sample
    """
    agreed = agreements(judge, questions, drawn) if agreed is None else agreed
    believed = beliefs(judge, questions, drawn, agreed=agreed)
    return _others(questions, drawn, agreed).merge(believed, on=["id", "condition"])


def repeated(
    judge: Judge, questions: Sequence[Question], drawn: Drawn, *, sizes: Sequence[int], times: int
) -> pd.DataFrame:
    """SePer as if the samples had been drawn again: `times` disjoint runs, of which the first few samples count.

    drawn   : at least times x max(sizes) samples each
    returns : columns id, condition, samples (their number), run (0 ..), seper_hard, seper_soft, right, steps
    raises  : ValueError if there are too few samples
    source  : SePer, Fig. 3 and Table 4. There every number of samples was drawn anew; here the smaller are part of the larger
    """
    by_id, longest = {question.id: question for question in questions}, max(sizes)
    fewest = min(map(len, drawn.values()))
    if fewest < times * longest:
        raise ValueError(f"{times} runs of {longest} need {times * longest} samples of each prompt, got {fewest}")
    apart = {
        (name, (condition, run)): replies[run * longest : (run + 1) * longest]
        for (name, condition), replies in drawn.items()
        for run in range(times)
    }
    table = []
    for (name, (condition, run)), (kernel, agree) in agreements(judge, questions, apart).items():
        whole = np.array([reply.log_likelihood for reply in apart[name, (condition, run)]])
        for size in sizes:
            part = slice(0, size)
            clusters, matches = meanings(kernel[part], agree[part, part])
            row = {"id": name, "condition": condition, "samples": size, "run": run}
            row["seper_hard"] = seper.hard(whole[part], clusters, matches)
            row["seper_soft"] = seper.soft(whole[part], kernel[part])
            row["right"] = float(np.mean(kernel[part].max(axis=1) >= THRESHOLD))
            table.append(row | {"steps": len(by_id[name].gold)})
    return pd.DataFrame(table)


def changes(table: pd.DataFrame, *, against: str = CLOSED, measures: Sequence[str] = tuple(MEASURES)) -> pd.DataFrame:
    """What each context adds to each measure, question by question; measures that a useful passage lowers count the other way round.

    table   : as `rows` returns it, possibly with more columns
    returns : columns id, condition and the measures; no rows for `against`
    raises  : ValueError if there is no such context, or a question was not asked under it
    source  : SePer, eq. 11, and the same difference for every other measure
    """
    there = {name: _change_of(name) for name in measures if name in table}
    return measured.changes(table, against=against, measures=there)


def _change_of(measure: str) -> Callable[[float, float], float]:
    if measure.startswith(("seper_", "soft_", "hard_")):
        return seper.utility
    return (lambda after, before: before - after) if measure in FALLS else operator.sub


def worth(change: pd.DataFrame, table: pd.DataFrame, *, already: float = 0.5) -> pd.DataFrame:
    """The rows of `changes` that the paper correlates, with the worth of what was shown.

    change  : as `changes` returns it for `table`
    already : questions of which the judge accepts at least this share of the closed-book samples are left out
    returns : the rows with a column worth: 1 for the passage of a question that needs one, 1/n for one of n, 0 for passages that are not
              gold; several gold passages together are left out
    source  : SePer, section 4.1.2. When a question counts as answered already is not said there
    """
    closed = table[table["condition"] == CLOSED].set_index("id")
    kept = change[change["id"].map(closed["right"]) < already].copy()
    steps = kept["id"].map(closed["steps"])
    alone = kept["condition"].str.startswith(STEP) | ((kept["condition"] == GOLD) & (steps == 1))
    kept["worth"] = np.where(alone, 1 / steps, 0.0)
    return kept[alone | (kept["condition"] != GOLD)].reset_index(drop=True)


def agreement(
    kept: pd.DataFrame,
    methods: Mapping[str, str] = METHODS,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> dict[str, Correlation]:
    """Pearson's correlation of each measure's change with the worth of what was shown, questions drawn whole.

    kept         : as `worth` returns it
    methods      : title -> column
    permutations : for the p value; 1 saves that work, the interval stays as it is, and every p is 1
    returns      : by title; a measure that never changes has no correlation and is left out
    source       : SePer, Table 2
    """
    options = {"method": "pearson", "groups": kept["id"], "permutations": permutations, "rng": seed}
    return {
        title: correlation(kept[column], kept["worth"], **options) for title, column in _changing(kept, methods).items()
    }


def gaps(
    kept: pd.DataFrame,
    best: str = "SePer soft",
    methods: Mapping[str, str] = METHODS,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """How much better one measure goes with the worth than each of the others does, on the same rows.

    kept, methods : as in `agreement`
    best          : title of the measure that the others are held against
    returns       : index method; columns value, low, high, n, p_value and p_holm (adjusted for the rows of this table)
    """
    check_name("method", best, methods)
    others = {title: column for title, column in _changing(kept, methods).items() if title != best}
    options = {"method": "pearson", "groups": kept["id"], "resamples": resamples, "rng": seed}
    found = {
        title: correlation_difference(kept[methods[best]], kept[column], kept["worth"], **options)
        for title, column in others.items()
    }
    table = pd.DataFrame([vars(row) for row in found.values()], index=pd.Index(found, name="method"))
    return table.drop(columns="undefined").assign(p_holm=holm(table["p_value"]))


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
        asked[name, condition] = prompt_text(reader, prompt, **slots)
    return dict(zip(asked, said_yes(reader, list(asked.values())).tolist(), strict=True))


def said_yes(reader: LanguageModel, texts: Sequence[str]) -> np.ndarray:
    """The probability of "Yes" against "No" as what follows each text, (texts,)."""
    return softmax(word_log_likelihoods(reader, texts, ("Yes", "No")), axis=1)[:, 0].round(6)


def benchmark(
    reader: LanguageModel,
    judge: Judge,
    name: str,
    n: int,
    *,
    asker: LanguageModel,
    question_of_judge: Prompt,
    samples: int = 10,
    **how,
) -> tuple[pd.DataFrame, dict]:
    """`rows` with a column lm_judge on a public benchmark: numbers per question only.

    n                        : questions; a benchmark with fewer is taken whole
    asker, question_of_judge : the language model that judges, as in `asked_judge`
    how                      : closed, read, max_new_tokens and seed, as in `draw`
    returns                  : (rows, what they were measured with)

    Hard negatives as in `measure.benchmark`.
    """
    questions, drawn, facts = drawn_on(reader, name, n, samples, how)
    table = rows(judge, questions, drawn)
    asked = asked_judge(asker, questions, drawn, question_of_judge)
    table["lm_judge"] = [asked[row.id, row.condition] for row in table.itertuples()]
    facts["prompts"][question_of_judge.name] = question_of_judge.digest
    return table, facts | {"asker": asker.fingerprint}


def repeated_benchmark(
    reader: LanguageModel, judge: Judge, name: str, n: int, *, sizes: Sequence[int], times: int, **how
) -> tuple[pd.DataFrame, dict]:
    """`repeated` on a public benchmark; arguments as there and in `benchmark`."""
    questions, drawn, facts = drawn_on(reader, name, n, times * max(sizes), how)
    return repeated(judge, questions, drawn, sizes=sizes, times=times), facts


def evouna_bertscores() -> tuple[pd.DataFrame, dict]:
    """BERTScore, with MiniLM's token embeddings, of every answer in EVOUNA-NQ against its golds, and where that file comes from.

    returns : (column id and, for each system, bertscore_SYSTEM; provenance)
    source  : the BERTScore row of SePer, Table 1, which used a larger encoder
    """
    judged = data.load_judged("evouna_nq")
    answered = [(question, answer) for question in judged for answer in question.answers]
    table: dict[str, dict] = {question.id: {"id": question.id} for question in judged}
    for start in range(0, len(answered), 500):  # the embeddings of all tokens of all answers would take 4 GB
        some = answered[start : start + 500]
        said, golds = [answer.text for _, answer in some], [list(question.golds) for question, _ in some]
        scores = similarity.bertscores(said, golds, encoder=retrieve.token_encoder())
        for (question, answer), score in zip(some, scores, strict=True):
            table[question.id][f"bertscore_{answer.system}"] = round(float(score), 4)
    entry = manifest.entries()["evouna_nq"]
    return pd.DataFrame(table.values()), {"source": entry.source, "sha256": entry.sha256, "encoder": "all-MiniLM-L6-v2"}


def evouna_asked(asker: LanguageModel, n: int, *, prompt: Prompt) -> tuple[pd.DataFrame, dict]:
    """A language model as judge of the answers to n questions of EVOUNA-NQ, best over the golds, and what it was asked with.

    n       : questions, in the order of the hash of their text
    prompt  : with the slots question, reference and answer
    returns : (column id and, for each system, lm_SYSTEM, 0 .. 1; provenance)
    source  : the rows of trained and untrained judges in SePer, Table 1, which are other and larger models
    """
    judged = sorted(data.load_judged("evouna_nq"), key=lambda question: data.question_id(question.question))[:n]
    asked = {
        (question.id, answer.system, place): prompt_text(
            asker, prompt, question=question.question, reference=gold, answer=answer.text
        )
        for question in judged
        for answer in question.answers
        if answer.text.strip()
        for place, gold in enumerate(question.golds)
    }
    table: dict[str, dict] = {question.id: {"id": question.id} for question in judged}
    for (name, system, _), value in zip(asked, said_yes(asker, list(asked.values())).tolist(), strict=True):
        table[name][f"lm_{system}"] = max(value, table[name].get(f"lm_{system}", 0.0))
    entry = manifest.entries()["evouna_nq"]
    facts = {"asker": asker.fingerprint, "prompts": {prompt.name: prompt.digest}, "questions": len(judged)}
    return pd.DataFrame(table.values()), facts | {"source": entry.source, "sha256": entry.sha256}


def facts_of(reader: LanguageModel, questions: Sequence[Question], samples: int, how: Mapping) -> dict:
    """What samples were drawn with: the reader, the prompts and everything else in `how`, the arguments of `draw`."""
    prompts = {one.name: one.digest for one in how.values() if isinstance(one, Prompt)}
    numbers = {key: value for key, value in how.items() if not isinstance(value, Prompt)}
    facts = {"reader": reader.name, "fingerprint": reader.fingerprint, "prompts": prompts}
    return facts | {"samples": samples, "questions": len(questions)} | numbers


def asked_on(name: str, n: int) -> tuple[list[Question], Shown]:
    """The first questions of a benchmark and what each of them is shown; hard negatives as in `measure.benchmark`."""
    questions = sample(name, min(n, len(data.load(name))))
    pool = retrieve.own_distractors if name in ("hotpotqa", "musique") else data.passages(name)
    return questions, contexts(questions, retrieve.hard_negatives(questions, pool, short="keep"))


def drawn_on(
    reader: LanguageModel, name: str, n: int, samples: int, how: Mapping
) -> tuple[list[Question], Drawn, dict]:
    """The first questions of a benchmark, samples to each of them under every context, and what they were drawn with."""
    questions, shown = asked_on(name, n)
    entry = manifest.entries()[name]
    facts = facts_of(reader, questions, samples, how) | {"asked_for": n}
    facts |= {"source": entry.source, "sha256": entry.sha256}
    return questions, draw(reader, questions, shown, n=samples, **how), facts


def _changing(kept: pd.DataFrame, methods: Mapping[str, str]) -> dict[str, str]:
    return {
        title: column for title, column in methods.items() if column in kept and np.ptp(kept[column].to_numpy()) > 0
    }


def _others(questions: Sequence[Question], drawn: Drawn, agreed: Agreed) -> pd.DataFrame:
    """What the samples of each case are worth by other measures than SePer."""
    alike, table = _alike({question.id: question for question in questions}, drawn), []
    for (name, condition), replies in drawn.items():
        each = [alike[name, reply.text.strip()] for reply in replies]
        whole = np.array([reply.log_likelihood for reply in replies])
        clusters, _ = meanings(*agreed[name, condition])
        table.append(
            {"id": name, "condition": condition}
            | {measure: float(np.mean([values[measure] for values in each])) for measure in each[0]}
            | {
                "perplexity": float(np.mean([uncertainty.perplexity(reply.token_log_likelihood) for reply in replies])),
                "entropy": uncertainty.predictive_entropy(whole),
                "semantic_entropy": uncertainty.semantic_entropy(whole, clusters),
            }
        )
    return pd.DataFrame(table)


def _alike(by_id, drawn) -> dict[tuple[str, str], dict[str, float]]:
    """The similarity of every distinct (question, text) to the question's answers."""
    pairs = list(dict.fromkeys((name, reply.text.strip()) for (name, _), replies in drawn.items() for reply in replies))
    references = [list(by_id[name].answers) for name, _ in pairs]
    encoder = retrieve.token_encoder()
    scores = similarity.bertscores([text for _, text in pairs], references, encoder=encoder) if pairs else []
    return {
        (name, text): {
            "exact_match": answers.exact_match(text, accepted),
            "rouge_l": similarity.rouge_l(text, accepted),
            "bleu": similarity.bleu(text, accepted),
            "bertscore": float(score),
        }
        for (name, text), accepted, score in zip(pairs, references, scores, strict=True)
    }
