"""How much a reader's reply moves when its passages are said in other words, beside the measures that look at samples.

One row per question and condition; reply 0 is the one to the original context, and the one whose correctness counts.

    said = replies_under_edits(reader, questions, shown, other, prompt=read)  # `rephrasing`
    table = judged(judge, questions, {"edits": said})
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from experiments.benchmarks import sample
from experiments.dense_thresholds.rephrasing import faithful, filtered, lost, rephrase, replies_under_edits, samples
from rag_utils import answers, data, dense, retrieve, seper, similarity, uncertainty
from rag_utils.corpora import manifest
from rag_utils.data import Passage, Question
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import Generation, LanguageModel
from rag_utils.measures import dense as dense_measure
from rag_utils.measures.seper import Drawn
from rag_utils.prompts import Prompt
from rag_utils.stats import mean_interval, statistic_interval

# questions, premises, hypotheses -> how far each premise entails its hypothesis, 0 .. 1
Entails = Callable[[Sequence[str], Sequence[str], Sequence[str]], np.ndarray]
Agreements = dict[tuple[str, str], np.ndarray]  # (question id, condition) -> (n, n), row = premise

SCORES = {**answers.METRICS, "rouge_l": similarity.rouge_l}  # of reply 0
# title, as in `plots.MARKS` -> column; which variant each is, says `measures`
MEASURES = {
    "DENSE": "dense",
    "semantic entropy": "semantic_entropy",
    "discrete semantic entropy": "discrete_semantic_entropy",
    "U_eigv": "u_eigv",
    "U_deg": "u_deg",
    "KLE heat": "kle_heat",
    "KLE Matern": "kle_matern",
}


# --- agreement -------------------------------------------------------------------------------------


def entailment(
    asker: LanguageModel, prompt: Prompt, questions: Sequence[str], premises: Sequence[str], hypotheses: Sequence[str]
) -> np.ndarray:
    """A language model as judge: how much likelier "entailment" is to it than the likelier of the other two words.

    prompt  : with the slots question, premise and hypothesis
    returns : (n,) nats, above 0 where "entailment" is what it would say of the three
    source  : DENSE, eq. 5 and appendix B.2. There the word that is generated counts; here their likelihoods are compared, so that every
              reply can be parsed and the distance to the decision is known
    """
    found = dense_measure.entailment(asker, prompt, questions, premises, hypotheses)
    return found[:, 0] - found[:, 1:].max(axis=1)


def agreements(entails: Entails, questions: Sequence[Question], said: Drawn) -> Agreements:
    """How far each reply entails each other one, question by question.

    entails : for example `judge.equivalent`; asked once about each distinct pair of different texts, both ways
    said    : (question id, condition) -> replies
    returns : (n, n) in [0, 1] for each key of said; equal texts entail each other
    """
    text_of = {question.id: question.text for question in questions}
    wanted: dict[tuple[str, str, str], None] = {}
    for (name, _), replies in said.items():
        texts = list(dict.fromkeys(reply.text.strip() for reply in replies))
        wanted |= {(text_of[name], a, b): None for a in texts for b in texts if a != b}
    judged = entails(*map(list, zip(*wanted, strict=True))) if wanted else []
    found = dict(zip(wanted, map(float, judged), strict=True))

    def matrix(question: str, texts: list[str]) -> np.ndarray:
        return np.array([[1.0 if a == b else found[question, a, b] for b in texts] for a in texts])

    return {key: matrix(text_of[key[0]], [reply.text.strip() for reply in replies]) for key, replies in said.items()}


# --- tables ----------------------------------------------------------------------------------------


def measures(agreement: np.ndarray, log_likelihood: np.ndarray) -> dict[str, float]:
    """Every measure of MEASURES on the same n replies.

    agreement      : (n, n) in [0, 1], row = premise
    log_likelihood : (n,) nats, sum over the tokens of each reply
    returns        : dense, by entailment yes or no (0, 0.5, 1), DENSE's eqs. 5 and 6; semantic_entropy, likelihood-weighted, and
                     discrete_semantic_entropy, over clusters that entail both ways (Farquhar et al. 2024); u_eigv and u_deg, on the
                     agreement as a number, mean of both ways (Lin et al. 2024); kle_heat, t = 0.1, on the graph of yes and no, and
                     kle_matern, kappa = nu = 3, on the agreement as a number (Nikitin et al. 2024, parameters of DENSE, Table 1)
    """
    entails = np.asarray(agreement) >= THRESHOLD
    links = dense.adjacency(entails)
    affinity = (np.asarray(agreement) + np.asarray(agreement).T) / 2
    np.fill_diagonal(affinity, 1.0)
    clusters = seper.cluster(entails | np.eye(len(entails), dtype=bool))
    return {
        "dense": dense.degree_entropy(links),
        "semantic_entropy": uncertainty.semantic_entropy(log_likelihood, clusters),
        "discrete_semantic_entropy": uncertainty.discrete_semantic_entropy(clusters),
        "u_eigv": uncertainty.eigenvalue_sum(affinity),
        "u_deg": uncertainty.degree_uncertainty(affinity),
        "kle_heat": uncertainty.kernel_language_entropy(links, kernel="heat", t=0.1),
        "kle_matern": uncertainty.kernel_language_entropy(affinity, kernel="matern", kappa=3.0, nu=3.0),
    }


def rows(questions: Sequence[Question], said: Drawn, agreed: Agreements) -> pd.DataFrame:
    """What the replies to each question under each condition say.

    agreed  : as `agreements` returns it for said
    returns : columns id, condition, the SCORES of reply 0, the measures rounded to nine decimals so that rounding makes no order,
              others_exact_match (mean over the other replies), moved (replies that do not agree with reply 0 both ways),
              different (distinct texts), n (replies), unparsable (1 if nothing is left of reply 0)
    raises  : ValueError if there is one reply only
    """
    by_id = {question.id: question for question in questions}
    table = []
    for (name, condition), replies in said.items():
        if len(replies) < 2:
            raise ValueError(f"wanted at least two replies per question and condition, got {len(replies)} for {name}")
        first, references = replies[0].text.strip(), list(by_id[name].answers)
        links = dense.adjacency(agreed[name, condition] >= THRESHOLD)
        found = measures(agreed[name, condition], np.array([reply.log_likelihood for reply in replies]))
        table.append(
            {"id": name, "condition": condition}
            | {score: float(value(first, references)) for score, value in SCORES.items()}
            | {measure: round(value, 9) for measure, value in found.items()}
            | {
                "others_exact_match": float(np.mean([_right(reply, references) for reply in replies[1:]])),
                "moved": int((links[0] < 1).sum()),
                "different": len({reply.text.strip() for reply in replies}),
                "n": len(replies),
                "unparsable": int(not answers.normalize(first)),
            }
        )
    return pd.DataFrame(table)


def judged(
    judge: Judge, questions: Sequence[Question], kinds: Mapping[str, Mapping[str, list[Generation]]]
) -> pd.DataFrame:
    """`rows` of several kinds of replies, by a judge of answers.

    kinds : condition -> question id -> replies
    """
    said = {(name, kind): replies for kind, some in kinds.items() for name, replies in some.items()}
    return rows(questions, said, agreements(judge.equivalent, questions, said))


def edits(
    questions: Sequence[Question],
    shown: Mapping[str, Sequence[Passage]],
    rephrased: Mapping[str, str],
    said: Mapping[str, list[Generation]],
    agreed: Agreements,
    faithfulness: Mapping[str, float],
) -> pd.DataFrame:
    """Every rephrased passage of every context: what became of it, and whether the reply moved.

    said         : as `replies_under_edits` returns it; agreed: of the same replies, under one condition
    faithfulness : text of a passage -> as `faithful` returns it
    returns      : columns id, rank (1 ..), gold (needed by the question), answer (the passage holds an answer), kept (its other words do),
                   faithful (0 .. 1), moved (the reply does not agree with the original one), before and after (exact match)
    """
    links = {name: dense.adjacency(matrix >= THRESHOLD)[0] for (name, _), matrix in agreed.items()}
    return pd.DataFrame(
        {
            "id": question.id,
            "rank": rank,
            "gold": int(passage in question.gold),
            "answer": int(answers.contains_answer(passage.text, question.answers)),
            "kept": int(answers.contains_answer(rephrased[passage.text], question.answers)),
            "faithful": float(faithfulness[passage.text]),
            "moved": int(links[question.id][rank] < 1),
            "before": _right(said[question.id][0], question.answers),
            "after": _right(said[question.id][rank], question.answers),
        }
        for question in questions
        for rank, passage in enumerate(shown[question.id], 1)
    )


def overlap_entropy(replies: Sequence[Generation]) -> float:
    """DENSE of replies that nobody judges: the link of two is the share of words that they have in common, in order.

    returns : float, nats, 0 (all the same) .. log n (no word in common)
    source  : DENSE, eq. 6 with ROUGE-L for w; not in the paper. For replies of whole sentences, for which a yes or no is too coarse
    """
    texts = [reply.text.strip() for reply in replies]
    links = np.array([[1.0 if a == b else similarity.rouge_l(a, [b]) for b in texts] for a in texts])
    return dense.degree_entropy((links + links.T) / 2)


def side_by_side(edited: pd.DataFrame, drawn: pd.DataFrame) -> pd.DataFrame:
    """DENSE from the replies under edits, every other measure from samples to the original context: one row per question.

    edited, drawn : as `rows` returns them, one condition each; whether a reply is right is taken from edited
    """
    others = [column for column in MEASURES.values() if column != "dense"]
    return edited.drop(columns=others).merge(drawn[["id", *others]], on="id", validate="one_to_one")


def sides(
    table: pd.DataFrame,
    thresholds: Sequence[float],
    *,
    score: str = "exact_match",
    column: str = "dense",
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Mean score of certain questions (at most the threshold) and of uncertain ones (above it), and the first minus the second.

    returns : columns threshold, side ("certain", "uncertain" or "difference"), value, low, high, n; a side of fewer than two questions is
              left out, and with it the difference
    source  : DENSE, section 5 (the threshold itself counts as certain), Fig. 5
    """
    found, how = [], {"resamples": resamples, "rng": seed}
    for threshold in thresholds:
        uncertain = (table[column] > threshold).to_numpy()
        values = table[score].to_numpy(float)
        parts = {"certain": values[~uncertain], "uncertain": values[uncertain]}
        cells = {side: mean_interval(some, **how) for side, some in parts.items() if len(some) > 1}
        if len(cells) == 2:
            cells["difference"] = statistic_interval(_certain_minus_uncertain, uncertain, values, **how)
        found += [{"threshold": threshold, "side": side} | vars(cell) for side, cell in cells.items()]
    return pd.DataFrame(found).drop(columns="undefined")


# --- public benchmarks -----------------------------------------------------------------------------


def benchmark(
    reader: LanguageModel,
    asker: LanguageModel,
    judge: Judge,
    name: str,
    n: int,
    *,
    k: int,
    rephrase_prompt: Prompt,
    prompt: Prompt,
    temperature: float = 1.0,
    draws: int = 10,
    max_new_tokens: int = 24,
    seed: int = 0,
) -> tuple[pd.DataFrame, dict]:
    """`rows` on a public benchmark, greedy under edits and sampled under the original context: numbers per question only.

    n       : questions; those for which fewer than k passages are found are left out and counted
    returns : (rows with the conditions of `rephrasing.filtered` (greedy) and "samples", and the columns unfaithful and lost, how many
              passages of the context were rephrased so that the judge does not accept it or that an answer is gone; what they were
              measured with)
    """
    questions = sample(name, min(n, len(data.load(name))))
    own = name in ("hotpotqa", "musique")
    pool = retrieve.own_passages if own else data.passages(name)
    passages = {p.id: p for p in ([p for q in questions for p in retrieve.own_passages(q)] if own else pool)}
    run = retrieve.dense(questions, pool, k=k)
    shown = {q.id: [passages[one] for one in retrieve.ranking(run[q.id])] for q in questions if len(run[q.id]) == k}
    asked = [question for question in questions if question.id in shown]
    texts = list(dict.fromkeys(passage.text for some in shown.values() for passage in some))
    longest = max(map(asker.count_tokens, texts))
    other = rephrase(asker, texts, rephrase_prompt, max_new_tokens=min(longest, 200))
    other = dict(zip(texts, other, strict=True))
    accepted = faithful(judge, texts, [other[text] for text in texts]) >= THRESHOLD
    unfaithful = {text for text, yes in zip(texts, accepted, strict=True) if not yes}
    how = {"prompt": prompt, "max_new_tokens": max_new_tokens, "seed": seed}
    edited = replies_under_edits(reader, asked, shown, other, **how)
    drawn = samples(reader, asked, shown, temperature=temperature, n=draws, **how)
    table = judged(judge, asked, filtered(edited, asked, shown, other, unfaithful) | {"samples": drawn})
    table["unfaithful"] = table["id"].map({key: sum(p.text in unfaithful for p in some) for key, some in shown.items()})
    table["lost"] = table["id"].map({q.id: len(lost(q, shown[q.id], other)) for q in asked})
    entry = manifest.entries()[name]
    facts = {"reader": reader.name, "fingerprint": reader.fingerprint, "asker": asker.fingerprint}
    facts |= {"dtype": reader.profile.dtype, "prompts": {one.name: one.digest for one in (prompt, rephrase_prompt)}}
    facts |= {"k": k, "temperature": temperature, "samples": draws, "max_new_tokens": max_new_tokens, "seed": seed}
    facts |= {"questions": len(asked), "left_out": len(questions) - len(asked), "passages": len(texts)}
    facts |= {"accepted": int(accepted.sum())}
    return table, facts | {"source": entry.source, "sha256": entry.sha256}


def _right(reply: Generation, references: Sequence[str]) -> float:
    return float(answers.exact_match(reply.text.strip(), list(references)))


def _certain_minus_uncertain(uncertain: np.ndarray, values: np.ndarray) -> float:
    return float(values[~uncertain].mean() - values[uncertain].mean())
