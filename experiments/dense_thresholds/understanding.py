"""Does a reply that moves tell of a wrong one? DENSE of replies under edits, beside the measures that look at samples.

One row per question and condition; reply 0 is the one to the original context, and the one whose correctness counts.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd

from rag_utils import answers, dense, similarity
from rag_utils.data import Question
from rag_utils.engine.tree import prefix_tree, size
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import Generation, LanguageModel
from rag_utils.measures import Case
from rag_utils.measures import dense as asked
from rag_utils.measures.dense import Supply
from rag_utils.measures.seper import Drawn
from rag_utils.prompts import Prompt, prompt_text
from rag_utils.stats import mean_interval, statistic_interval

SCORES = {**answers.METRICS, "rouge_l": similarity.rouge_l}  # of reply 0
# title, as in `plots.MARKS` -> column; which variant each is, says `measures.dense.measures`
MEASURES = {
    "DENSE": "dense",
    "semantic entropy": "semantic_entropy",
    "discrete semantic entropy": "discrete_semantic_entropy",
    "U_eigv": "u_eigv",
    "U_deg": "u_deg",
    "KLE heat": "kle_heat",
    "KLE Matern": "kle_matern",
}


def samples(reader: LanguageModel, supplies: Sequence[Supply], *, prompt: Prompt, **how) -> list[list[Generation]]:
    """Replies to the original contexts alone, what the other measures look at; how: as in `LanguageModel.generate`.

    The first of them is the reply 0 of `replies_under_edits` at the same temperature and seed.
    """
    return reader.generate([prompt_text(reader, prompt, one.question, one.texts()) for one in supplies], **how)


def lost(supply: Supply, other: Mapping[str, str]) -> set[str]:
    """Texts of the passages that hold an answer of the question, and whose other words do not."""
    golds = list(supply.question.answers)
    holding = {text for text in supply.texts() if answers.contains_answer(text, golds)}
    return {text for text in holding if not answers.contains_answer(other[text], golds)}


def filtered(supplies: Sequence[Supply], said, other: Mapping[str, str], same: Mapping[str, float]) -> Drawn:
    """The same greedy replies under edits by three rules for which rephrasings count; in place of one that does not, reply 0.

    same    : text of a passage -> as `measures.dense.faithful` returns it
    returns : conditions "edits" (all count, as in the paper), "faithful" (those that the judge accepts) and "answer kept" (all but those in
              which an answer of the question stood and no longer does: only who knows the answer can leave these out)
    """
    unfaithful = {text for text, p in same.items() if p < THRESHOLD}
    refused = {"edits": lambda _: (), "faithful": lambda _: unfaithful, "answer kept": lambda one: lost(one, other)}
    drawn = {}
    for (rule, of), (supply, (first, *edited)) in product(refused.items(), zip(supplies, said, strict=True)):
        bad = of(supply)
        kept = [first if text in bad else reply for text, reply in zip(supply.texts(), edited, strict=True)]
        drawn[Case(supply.question.id, rule)] = [first, *kept]
    return drawn


def rows(questions: Sequence[Question], drawn: Drawn, agreed=None, *, by: Judge | None = None) -> pd.DataFrame:
    """What the replies to each question under each condition say; ValueError if there is one reply only.

    agreed : as `measures.dense.agreements` returns it; None: the judge `by` is asked
    """
    agreed = asked.agreements(by.equivalent, questions, drawn) if agreed is None else agreed
    golds, table = {question.id: list(question.answers) for question in questions}, []
    for (name, condition), replies in drawn.items():
        if len(replies) < 2:
            raise ValueError(f"wanted at least two replies per question and condition, got {len(replies)} for {name}")
        texts, agreement = [reply.text.strip() for reply in replies], agreed[name, condition]
        values = asked.measures(agreement, np.array([reply.log_likelihood for reply in replies]))
        row = {"id": name, "condition": condition}
        row |= {score: float(value(texts[0], golds[name])) for score, value in SCORES.items()}
        row |= {measure: round(value, 9) for measure, value in values.items()}  # rounding makes no order
        row["others_exact_match"] = float(np.mean([answers.exact_match(text, golds[name]) for text in texts[1:]]))
        row["moved"] = int(
            (dense.adjacency(agreement >= THRESHOLD)[0] < 1).sum()
        )  # that do not agree with reply 0 both ways
        row |= {"different": len({*texts}), "n": len(texts), "unparsable": int(not answers.normalize(texts[0]))}
        table.append(row)
    return pd.DataFrame(table)


def edit_rows(supplies: Sequence[Supply], other: Mapping[str, str], said, agreed, faithful) -> pd.DataFrame:
    """Every rephrased passage of every context: what became of it, and whether the reply moved.

    said, agreed : per supply the replies under edits, and how far each entails each other one
    faithful     : text of a passage -> as `measures.dense.faithful` returns it
    returns      : columns id, rank (1 ..), gold (needed by the question), answer (the passage holds an answer), kept (its other words do),
                   faithful (0 .. 1), moved (the reply does not agree with the original one), before and after (exact match)
    """
    table = []
    for supply, replies, agreement in zip(supplies, said, agreed, strict=True):
        golds, links = list(supply.question.answers), dense.adjacency(agreement >= THRESHOLD)[0]
        right = [float(answers.exact_match(reply.text.strip(), golds)) for reply in replies]
        for rank, passage in enumerate(supply.chunks, 1):
            row = {"id": supply.question.id, "rank": rank, "gold": int(passage in supply.question.gold)}
            row["answer"] = int(answers.contains_answer(passage.text, golds))
            row["kept"] = int(answers.contains_answer(other[passage.text], golds))
            row |= {"faithful": float(faithful[passage.text]), "moved": int(links[rank] < 1)}
            table.append(row | {"before": right[0], "after": right[rank]})
    return pd.DataFrame(table)


def overlap_entropy(replies: Sequence[Generation]) -> float:
    """DENSE, nats, of replies that nobody judges: the link of two is the share of words that they have in common, in order.

    source : DENSE, eq. 6 with ROUGE-L for w; not in the paper. For replies of whole sentences, for which a yes or no is too coarse
    """
    texts = [reply.text.strip() for reply in replies]
    links = np.array([[1.0 if a == b else similarity.rouge_l(a, [b]) for b in texts] for a in texts])
    return dense.degree_entropy((links + links.T) / 2)


def cost_rows(reader, supplies: Sequence[Supply], other, *, prompt: Prompt, rephrase: Prompt) -> pd.DataFrame:
    """What DENSE asks of a reader, question by question, counted and not run.

    source : DENSE, appendix L, which counts calls: k rephrasings, k + 1 replies, O(k^2) entailments
    """
    table = []
    for supply in supplies:
        texts = [prompt_text(reader, prompt, supply.question, own) for own in asked.edits(supply.texts(), other)]
        wording = [part for t in supply.texts() for part in (prompt_text(reader, rephrase, text=t), other[t])]
        encoded, n = [reader.encode(text) for text in texts], len(texts)
        row = {"id": supply.question.id, "k": n - 1, "contexts": n}
        row["tokens"] = sum(map(len, encoded))  # all contexts read in full
        row["distinct"] = size(prefix_tree(encoded))  # common beginnings read once
        row["alone"] = len(encoded[0])  # the original context
        row["rephrasing"] = sum(map(reader.count_tokens, wording))  # of the k passages, replies included
        table.append(row | {"entailments": n * (n - 1)})
    return pd.DataFrame(table)


def side_by_side(edited: pd.DataFrame, drawn: pd.DataFrame) -> pd.DataFrame:
    """`rows` of the replies under edits, with every measure but DENSE from the `rows` of samples to the original context."""
    others = [column for column in MEASURES.values() if column != "dense"]
    return edited.drop(columns=others).merge(drawn[["id", *others]], on="id", validate="one_to_one")


def sides(table: pd.DataFrame, thresholds: Sequence[float], *, score: str = "exact_match", **how) -> pd.DataFrame:
    """Mean score of certain questions (at most the threshold) and of uncertain ones (above it), and the first minus the second.

    how     : resamples and rng, as in `stats.mean_interval`
    returns : columns threshold, side ("certain", "uncertain" or "difference"), value, low, high, n; a side of fewer than two questions is
              left out, and with it the difference
    source  : DENSE, section 5 (the threshold itself counts as certain), Fig. 5
    """

    def certain_minus_uncertain(uncertain, values):
        return float(values[~uncertain].mean() - values[uncertain].mean())

    parts, values = [], table[score].to_numpy(float)
    for threshold in thresholds:
        uncertain = (table["dense"] > threshold).to_numpy()
        both = {"certain": values[~uncertain], "uncertain": values[uncertain]}
        cells = {side: mean_interval(own, **how) for side, own in both.items() if len(own) > 1}
        if len(cells) == 2:
            cells["difference"] = statistic_interval(certain_minus_uncertain, uncertain, values, **how)
        parts += [{"threshold": threshold, "side": side} | vars(cell) for side, cell in cells.items()]
    return pd.DataFrame(parts).drop(columns="undefined")
