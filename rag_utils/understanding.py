"""How much a reader's reply moves when its passages are said in other words, beside the measures that look at samples.

One row per question and condition; reply 0 is the one to the original context, and the one whose correctness counts.

    other = dict(zip(texts, rephrase(asker, texts, prompt), strict=True))
    said = {(name, "edits"): replies for name, replies in replies_under_edits(reader, questions, shown, other, prompt=read).items()}
    table = rows(questions, said, agreements(judge.equivalent, questions, said))
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rag_utils import answers, data, dense, manifest, retrieve, seper, similarity, uncertainty
from rag_utils.beliefs import Drawn
from rag_utils.data import Passage, Question
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import Generation, LanguageModel
from rag_utils.measure import prompt_text, sample
from rag_utils.names import check_name
from rag_utils.prompts import Prompt
from rag_utils.stats import Difference, Estimate, aurac, auroc, holm, mean_interval, statistic_interval
from rag_utils.tree import prefix_tree, size

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
AREAS = {"AUROC": auroc, "AURAC": aurac}
WORDS = ("entailment", "contradiction", "neutral")


# --- asking ----------------------------------------------------------------------------------------


def rephrase(asker: LanguageModel, texts: Sequence[str], prompt: Prompt, *, max_new_tokens: int = 128) -> list[str]:
    """Each text in other words, greedily, up to the first line break.

    prompt  : with the slot text
    returns : one string per text; a reply that is empty gives the text itself, which is then an edit that changes nothing
    source  : DENSE, eq. 3. A small model leaves things out, and nothing here checks that: see `faithful`
    """
    filled = [prompt.fill(text=text) for text in texts]
    asked = [asker.chat(text) if prompt.chat else text for text in filled]
    replies = asker.generate(asked, max_new_tokens=max_new_tokens)
    return [said[0].text.strip() or text for text, said in zip(texts, replies, strict=True)]


def replies_under_edits(
    reader: LanguageModel,
    questions: Sequence[Question],
    shown: Mapping[str, Sequence[Passage]],
    rephrased: Mapping[str, str],
    *,
    prompt: Prompt,
    temperature: float = 0.0,
    max_new_tokens: int = 24,
    seed: int = 0,
) -> dict[str, list[Generation]]:
    """The reply to the original context and, per passage, the reply when that passage alone is in other words.

    shown       : per question id the k passages of its context, best first
    rephrased   : text of a passage -> the same in other words
    temperature : 0 is greedy; else one sample from each context
    returns     : per question id k + 1 replies, the one to the original context first
    raises      : ValueError if a passage has no other words, or as `LanguageModel.generate`
    source      : DENSE, eq. 4, by `dense.single_edit_contexts`
    """
    missing = sum(passage.text not in rephrased for question in questions for passage in shown[question.id])
    if missing:
        raise ValueError(f"{missing} passages that are shown have no other words; rephrase them first")
    asked: dict[str, list[str]] = {}
    for question in questions:
        passages = shown[question.id]
        texts = [passage.text for passage in passages]
        contexts = dense.single_edit_contexts(texts, [rephrased[text] for text in texts])
        asked[question.id] = [
            prompt_text(reader, prompt, question, _in_words(passages, context)) for context in contexts
        ]
    flat = [text for some in asked.values() for text in some]
    replies = iter(reader.generate(flat, temperature=temperature, max_new_tokens=max_new_tokens, seed=seed))
    return {name: [next(replies)[0] for _ in some] for name, some in asked.items()}


def samples(
    reader: LanguageModel,
    questions: Sequence[Question],
    shown: Mapping[str, Sequence[Passage]],
    *,
    prompt: Prompt,
    temperature: float,
    n: int = 10,
    max_new_tokens: int = 24,
    seed: int = 0,
) -> dict[str, list[Generation]]:
    """n replies to the original context alone, per question id: what the other measures look at.

    The first of them is the reply 0 of `replies_under_edits` at the same temperature and seed.
    """
    asked = [prompt_text(reader, prompt, question, shown[question.id]) for question in questions]
    how = {"n": n, "temperature": temperature, "max_new_tokens": max_new_tokens, "seed": seed}
    return dict(zip([question.id for question in questions], reader.generate(asked, **how), strict=True))


def entailment(
    asker: LanguageModel, prompt: Prompt, questions: Sequence[str], premises: Sequence[str], hypotheses: Sequence[str]
) -> np.ndarray:
    """A language model as judge: how much likelier "entailment" is to it than the likelier of the other two words.

    prompt  : with the slots question, premise and hypothesis
    returns : (n,) nats, above 0 where "entailment" is what it would say of the three
    source  : DENSE, eq. 5 and appendix B.2. There the word that is generated counts; here their likelihoods are compared, so that every
              reply can be parsed and the distance to the decision is known
    """
    slots = zip(questions, premises, hypotheses, strict=True)
    filled = [prompt.fill(question=q, premise=premise, hypothesis=hypothesis) for q, premise, hypothesis in slots]
    asked = [asker.chat(text) if prompt.chat else text for text in filled]
    said = asker.log_likelihood([text for text in asked for _ in WORDS], list(WORDS) * len(asked))
    entails, *others = (np.array([tokens.sum() for tokens in said[place :: len(WORDS)]]) for place in range(len(WORDS)))
    return entails - np.max(others, axis=0)


# --- agreement -------------------------------------------------------------------------------------


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


def faithful(
    judge: Judge, texts: Sequence[str], rephrased: Sequence[str], *, question: str = "What is said?"
) -> np.ndarray:
    """P(the text in other words still says the same), by a judge that was made for answers.

    question : what both texts are taken as answers to
    returns  : (n,) float, 0 .. 1
    source   : DENSE, appendix D and Table 6
    """
    return judge.equivalent([question] * len(texts), texts, rephrased)


def without_unfaithful(
    said: Mapping[str, list[Generation]], shown: Mapping[str, Sequence[Passage]], unfaithful: set[str]
) -> dict[str, list[Generation]]:
    """The replies as if a passage that was rephrased badly had not been rephrased: the reply to the original context in its place.

    said, shown : as `replies_under_edits` returns and takes them, greedy
    unfaithful  : texts of passages whose other words do not count
    """
    return {
        name: [replies[0]]
        + [
            replies[0] if passage.text in unfaithful else reply
            for passage, reply in zip(shown[name], replies[1:], strict=True)
        ]
        for name, replies in said.items()
    }


# --- how well a measure ranks ----------------------------------------------------------------------


def area_difference(
    a: Sequence[float],
    b: Sequence[float],
    correct: Sequence[float],
    *,
    area: str = "AUROC",
    groups: Sequence[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Difference:
    """How much better uncertainty a tells right from wrong replies than b does, over the same rows.

    a, b, correct : (n,) as `stats.auroc` takes them
    area          : "AUROC" or "AURAC"
    groups        : (n,) names of parts that are ranked apart, such as data sets: the area is then the mean over parts, and each part is
                    resampled in itself
    returns       : Difference; p two-sided, by inverting the bootstrap interval
    raises        : ValueError as `stats.auroc`, and if a part holds right or wrong replies only
    source        : Efron and Tibshirani 1993, section 15.4. Resamples with right or with wrong replies only are left out
    """
    function = AREAS[check_name("area", area, AREAS)]
    a, b, correct = (np.asarray(values, dtype=float) for values in (a, b, correct))
    codes = np.zeros(len(a), int) if groups is None else pd.factorize(np.asarray(groups))[0]
    parts = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    if any(np.ptp(correct[some]) == 0 for some in parts):
        raise ValueError("correct must hold right and wrong replies in every part; one holds one kind only")
    rng, gaps, draws = np.random.default_rng(seed), [], []
    for some in parts:
        counts = _counts(len(some), resamples, rng)
        of_a, of_b = (area_draws(values[some], correct[some], counts, area=area) for values in (a, b))
        gaps.append(function(a[some], correct[some]) - function(b[some], correct[some]))
        draws.append(of_a - of_b)
    draws = np.mean(draws, axis=0)
    draws = draws[np.isfinite(draws)]
    low, high = np.quantile(draws, [0.025, 0.975])
    tail = min(np.sum(draws <= 0), np.sum(draws >= 0))
    p_value = min(1.0, 2 * (1 + int(tail)) / (1 + len(draws)))
    return Difference(float(np.mean(gaps)), float(low), float(high), len(a), p_value, undefined=resamples - len(draws))


def area_draws(uncertainty: np.ndarray, correct: np.ndarray, counts: np.ndarray, *, area: str = "AUROC") -> np.ndarray:
    """The area of many resamples at once, as `stats.auroc` and `stats.aurac` have it for one.

    uncertainty, correct : (n,)
    counts               : (resamples, n) whole numbers, how often each resample holds each row
    returns              : (resamples,); NaN where a resample has right or wrong replies only, for either area
    """
    order = np.argsort(uncertainty, kind="stable")
    value, right, counts = uncertainty[order], correct[order].astype(float), counts[:, order].astype(float)
    starts = np.flatnonzero(np.diff(value, prepend=np.nan) != 0)  # of equal values
    size, hit = (np.add.reduceat(part, starts, axis=1) for part in (counts, counts * right))
    n, hits = size.sum(axis=1), hit.sum(axis=1)
    before, hit_before = size.cumsum(axis=1) - size, hit.cumsum(axis=1) - hit
    with np.errstate(divide="ignore", invalid="ignore"):
        if area == "AUROC":  # pairs of a right reply and a more uncertain wrong one, ties one half
            found = ((size - hit) * (hit_before + hit / 2)).sum(axis=1) / (hits * (n - hits))
        else:  # accuracy on the first m, m = 1 .. n: within equal values it moves evenly, and the sum over 1/m is a harmonic number
            harmonic = np.concatenate([[0.0], (1 / np.arange(1, int(n.max()) + 1)).cumsum()])
            share = np.where(size > 0, hit / size, 0.0)
            between = harmonic[(before + size).astype(int)] - harmonic[before.astype(int)]
            found = ((hit_before - share * before) * between + share * size).sum(axis=1) / n
    return np.where((hits > 0) & (hits < n), found, np.nan)


def side_by_side(edited: pd.DataFrame, drawn: pd.DataFrame) -> pd.DataFrame:
    """DENSE from the replies under edits, every other measure from samples to the original context: one row per question.

    edited, drawn : as `rows` returns them, one condition each; whether a reply is right is taken from edited
    """
    others = [column for column in MEASURES.values() if column != "dense"]
    return edited.drop(columns=others).merge(drawn[["id", *others]], on="id", validate="one_to_one")


def areas(
    table: pd.DataFrame,
    *,
    score: str = "exact_match",
    measures: Mapping[str, str] = MEASURES,
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """AUROC and AURAC of each measure, with intervals: the cells of DENSE, Tables 1 and 8.

    table   : as `rows` or `side_by_side` return it, one row per question; score: a column of 0 and 1
    returns : index the titles of measures, columns AUROC and AURAC, cells stats.Estimate; None where every reply is right or none is
    """
    varies = table[score].nunique() > 1
    correct, n = table[score].to_numpy(float), len(table)
    counts = _counts(n, resamples, np.random.default_rng(seed))

    def cell(column: str, area: str) -> Estimate | None:
        if not varies:
            return None
        values = table[column].to_numpy(float)
        draws = area_draws(values, correct, counts, area=area)
        draws = draws[np.isfinite(draws)]
        low, high = np.quantile(draws, [0.025, 0.975])
        value = AREAS[area](values, correct)
        return Estimate(value, float(low), float(high), n, undefined=resamples - len(draws))

    cells = {title: {area: cell(column, area) for area in AREAS} for title, column in measures.items()}
    return pd.DataFrame(cells, dtype=object).T


def ahead(
    table: pd.DataFrame,
    *,
    score: str = "exact_match",
    groups: str | None = None,
    areas: Sequence[str] = tuple(AREAS),
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """DENSE minus each other measure, in AUROC and AURAC, on the same questions.

    table   : as `side_by_side` returns it, or several of them below one another with a column `groups` that names them
    returns : columns measure, area, value, low, high, n, p_value, p_holm (adjusted for all rows); no rows where every reply is right or
              none is
    """
    if table[score].nunique() < 2:
        return pd.DataFrame(columns=["measure", "area", "value", "low", "high", "n", "p_value", "p_holm"])
    how = {"groups": None if groups is None else table[groups], "resamples": resamples, "seed": seed}
    found = [
        {"measure": title, "area": area}
        | vars(area_difference(table["dense"], table[column], table[score], area=area, **how))
        for title, column in MEASURES.items()
        if column != "dense"
        for area in areas
    ]
    gaps = pd.DataFrame(found).drop(columns="undefined")
    return gaps.assign(p_holm=holm(gaps["p_value"]))


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


def cost(reader: LanguageModel, questions: Sequence[Question], shown, rephrased, *, prompt: Prompt) -> pd.DataFrame:
    """What DENSE asks of a model for each question, counted before anything is asked.

    shown, rephrased : as in `replies_under_edits`
    returns          : columns id, k, contexts (k + 1), tokens (of all contexts, each read in full), distinct (each common beginning read
                       once), alone (of the original context), entailments (both ways between all replies)
    source           : DENSE, appendix L, which counts calls: k rephrasings, k + 1 replies, O(k^2) entailments
    """
    table = []
    for question in questions:
        passages = shown[question.id]
        texts = [passage.text for passage in passages]
        contexts = dense.single_edit_contexts(texts, [rephrased[text] for text in texts])
        encoded = [reader.encode(prompt_text(reader, prompt, question, _in_words(passages, some))) for some in contexts]
        n = len(contexts)
        row = {"id": question.id, "k": n - 1, "contexts": n, "tokens": sum(map(len, encoded))}
        row |= {"distinct": size(prefix_tree(encoded)), "alone": len(encoded[0]), "entailments": n * (n - 1)}
        table.append(row)
    return pd.DataFrame(table)


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
    returns : (rows with the conditions "edits" (greedy), "samples", and "faithful" (the edits, `without_unfaithful`), and a column
              unfaithful, the number of such passages in the context; what they were measured with)
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
    unfaithful = {text for text, p in zip(texts, faithful(judge, texts, other), strict=True) if p < THRESHOLD}
    how = {"prompt": prompt, "max_new_tokens": max_new_tokens, "seed": seed}
    edited = replies_under_edits(reader, asked, shown, dict(zip(texts, other, strict=True)), **how)
    drawn = samples(reader, asked, shown, temperature=temperature, n=draws, **how)
    kinds = {"edits": edited, "samples": drawn, "faithful": without_unfaithful(edited, shown, unfaithful)}
    table = judged(judge, asked, kinds)
    table["unfaithful"] = table["id"].map({key: sum(p.text in unfaithful for p in some) for key, some in shown.items()})
    entry = manifest.entries()[name]
    facts = {"reader": reader.name, "fingerprint": reader.fingerprint, "asker": asker.fingerprint}
    facts |= {"dtype": reader.profile.dtype, "prompts": {one.name: one.digest for one in (prompt, rephrase_prompt)}}
    facts |= {"k": k, "temperature": temperature, "samples": draws, "max_new_tokens": max_new_tokens, "seed": seed}
    facts |= {"questions": len(asked), "left_out": len(questions) - len(asked), "passages": len(texts)}
    return table, facts | {"source": entry.source, "sha256": entry.sha256}


def _in_words(passages: Sequence[Passage], texts: Sequence[str]) -> list[Passage]:
    return [replace(passage, text=text, sentences=()) for passage, text in zip(passages, texts, strict=True)]


def _right(reply: Generation, references: Sequence[str]) -> float:
    return float(answers.exact_match(reply.text.strip(), list(references)))


def _certain_minus_uncertain(uncertain: np.ndarray, values: np.ndarray) -> float:
    return float(values[~uncertain].mean() - values[uncertain].mean())


def _counts(n: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """How often each of n rows is in each resample, (resamples, n)."""
    return np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(resamples)])
