"""Does a reply that moves tell of a wrong one? The reader on the corpus and on benchmarks when a passage is put in other words.

Rows are one per question and condition; reply 0 is the one to the original context, and the one whose correctness counts. Experiments take
`prompts` (names, by their use) and `how`: every (n-th question of the corpus), k (passages), max_new_tokens, rephrase_tokens and seed.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, product

import numpy as np
import pandas as pd

from experiments import asking, benchmarks
from rag_utils import answers, data, dense, retrieve, similarity
from rag_utils.data import Question
from rag_utils.engine.tree import prefix_tree, size
from rag_utils.judge import THRESHOLD
from rag_utils.lm import Generation, LanguageModel
from rag_utils.measures import Case
from rag_utils.measures import dense as measure
from rag_utils.measures.dense import Entails, Supply, agreements, faithful, rephrase, replies_under_edits
from rag_utils.measures.erag import SCORES
from rag_utils.measures.seper import Drawn
from rag_utils.prompts import Prompt, prompt_text
from rag_utils.prompts import load as load_prompt
from rag_utils.stats import mean_interval, unpaired_difference

CHAPTER, COMPANION = "04_dense_thresholds", "companion"
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
    """Replies to the original contexts alone; the first is reply 0 of `replies_under_edits` at that temperature and seed."""
    return reader.generate([prompt_text(reader, prompt, supply.question, supply.texts()) for supply in supplies], **how)


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
    refused = {"edits": lambda _: (), "faithful": lambda _: unfaithful, "answer kept": lambda own: lost(own, other)}
    drawn = {}
    for (rule, of), (supply, (first, *edited)) in product(refused.items(), zip(supplies, said, strict=True)):
        bad = of(supply)
        kept = [first if text in bad else reply for text, reply in zip(supply.texts(), edited, strict=True)]
        drawn[Case(supply.question.id, rule)] = [first, *kept]
    return drawn


def rows(questions: Sequence[Question], drawn: Drawn, entails: Entails) -> pd.DataFrame:
    """What the replies to each question under each condition say; ValueError if there is one reply only."""
    agreed = agreements(entails, questions, drawn)
    golds, table = {question.id: list(question.answers) for question in questions}, []
    for (name, condition), replies in drawn.items():
        if len(replies) < 2:
            raise ValueError(f"wanted at least two replies per question and condition, got {len(replies)} for {name}")
        texts, agreement = [reply.text.strip() for reply in replies], agreed[name, condition]
        values = measure.measures(agreement, np.array([reply.log_likelihood for reply in replies]))
        row = {"id": name, "condition": condition} | {score: float(value(texts[0], golds[name])) for score, value in SCORES.items()}
        row |= {title: round(value, 9) for title, value in values.items()}  # rounding makes no order
        row["others_exact_match"] = float(np.mean([answers.exact_match(text, golds[name]) for text in texts[1:]]))
        row["moved"] = int((dense.adjacency(agreement >= THRESHOLD)[0] < 1).sum())  # that do not agree with reply 0 both ways
        row |= {"different": len({*texts}), "n": len(texts), "unparsable": int(not answers.normalize(texts[0]))}
        table.append(row)
    return pd.DataFrame(table)


def edit_rows(supplies: Sequence[Supply], said, other: Mapping[str, str], same, entails: Entails) -> pd.DataFrame:
    """Every rephrased passage of every context: what became of it, and whether the reply moved; arguments as in `filtered` and `rows`.

    returns : columns id, rank (1 ..), gold (needed by the question), answer (the passage holds an answer), kept (its other words do),
              faithful (0 .. 1), moved (the reply does not agree with the original one), before and after (exact match)
    """
    agreed, table = agreements(entails, [supply.question for supply in supplies], under("edits", supplies, said)), []
    for supply, replies, agreement in zip(supplies, said, agreed.values(), strict=True):
        golds, links = list(supply.question.answers), dense.adjacency(agreement >= THRESHOLD)[0]
        right = [float(answers.exact_match(reply.text.strip(), golds)) for reply in replies]
        for rank, passage in enumerate(supply.chunks, 1):
            row = {"id": supply.question.id, "rank": rank, "gold": int(passage in supply.question.gold)}
            row["answer"] = int(answers.contains_answer(passage.text, golds))
            row["kept"] = int(answers.contains_answer(other[passage.text], golds))
            row |= {"faithful": float(same[passage.text]), "moved": int(links[rank] < 1)}
            table.append(row | {"before": right[0], "after": right[rank]})
    return pd.DataFrame(table)


def overlap_entropy(replies: Sequence[Generation]) -> float:
    """DENSE, nats, of replies that nobody judges: the link of two is the share of words that they have in common, in order.

    source : DENSE, eq. 6 with ROUGE-L for w; not in the paper. For replies of whole sentences, for which a yes or no is too coarse
    """
    texts = [reply.text.strip() for reply in replies]
    links = np.array([[1.0 if a == b else similarity.rouge_l(a, [b]) for b in texts] for a in texts])
    return dense.degree_entropy((links + links.T) / 2)


def cost_rows(reader, supplies: Sequence[Supply], other, *, read: Prompt, rephrase: Prompt) -> pd.DataFrame:
    """What DENSE asks of a reader, counted and not run; its appendix L counts calls: k rephrasings, k + 1 replies, O(k^2) entailments."""
    table = []
    for supply in supplies:
        texts = [prompt_text(reader, read, supply.question, own) for own in measure.edits(supply.texts(), other)]
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
    returns : columns threshold, side ("certain", "uncertain" or "difference"), value, low, high, n, p_value (of a difference); no side of
              fewer than two questions
    source  : DENSE, section 5 (the threshold itself counts as certain), Fig. 5
    """
    parts, values = [], table[score].to_numpy(float)
    for threshold in thresholds:
        uncertain = (table["dense"] > threshold).to_numpy()
        both = {"certain": ~uncertain, "uncertain": uncertain}
        cells = {side: mean_interval(values[own], **how) for side, own in both.items() if own.sum() > 1}
        if len(cells) == 2:
            cells["difference"] = unpaired_difference(values, uncertain, **how)
        parts += [{"threshold": threshold, "side": side} | vars(cell) for side, cell in cells.items()]
    return pd.DataFrame(parts).reindex(columns=["threshold", "side", "value", "low", "high", "n", "p_value"])


class Setup:
    """A data set, of a benchmark the first n questions, who is asked about it and how."""

    def __init__(self, mode, profile, weaker, prompts, how, dataset=COMPANION, n=None):
        corpus = dataset == COMPANION
        self.how, self.prompts = how, {name: load_prompt(prompt) for name, prompt in prompts.items()}
        chapter = CHAPTER if corpus else None
        self.reader, self.rephraser = asking.reader(profile, mode, chapter), asking.reader(weaker, mode, chapter)
        self.judge = asking.judge(profile, mode=mode, chapter=chapter)
        self.questions = data.load(dataset)[:: how["every"]] if corpus else benchmarks.load(dataset, n).questions
        self.pool = benchmarks.Benchmark(dataset, ()).pool
        self.asked = {"prompt": self.prompts["read"], "max_new_tokens": how["max_new_tokens"], "seed": how["seed"]}
        self.facts = asking.facts(reader=self.reader, rephraser=self.rephraser, judge=self.judge)
        self.facts |= {"questions": len(self.questions), **benchmarks.source(dataset)}

    def supplies(self, k: int | None = None) -> list[Supply]:
        return nearest(self.questions, self.pool, k or self.how["k"])

    def words(self, supplies: Iterable[Supply], *, most: int | None = None) -> dict[str, str]:
        """Text of a passage -> the same in other words, at most so many tokens."""
        texts, most = list(dict.fromkeys(text for supply in supplies for text in supply.texts())), most or self.how["rephrase_tokens"]
        return dict(zip(texts, rephrase(self.rephraser, texts, self.prompts["rephrase"], max_new_tokens=most), strict=True))

    def alike(self, other: Mapping[str, str]) -> dict[str, float]:
        """Text of a passage -> how surely the judge takes its other words to say the same."""
        return dict(zip(other, map(float, faithful(self.judge, list(other), list(other.values()))), strict=True))

    def edited(self, supplies: Sequence[Supply], other: dict[str, str]) -> list[list[Generation]]:
        return replies_under_edits(self.reader, supplies, other, **self.asked)


def nearest(questions: Sequence[Question], pool: retrieve.Pool, k: int) -> list[Supply]:
    """Questions with the k passages whose embeddings are nearest to them; those for which fewer are found are left out."""
    near = benchmarks.nearest(questions, pool, k)
    return [Supply(question, near[question.id]) for question in questions if len(near[question.id]) == k]


def under(condition: str, supplies: Sequence[Supply], said: Sequence[list[Generation]]) -> Drawn:
    """Replies by question and condition."""
    return {Case(supply.question.id, condition): replies for supply, replies in zip(supplies, said, strict=True)}


def rephrasings(*, mode, profile, weaker, prompts, rephrase_tokens):
    """How surely the judge takes each passage and its other words to say the same, and, as a control, a passage and the one before."""
    rephraser, judge = asking.reader(weaker, mode, CHAPTER), asking.judge(profile, mode=mode, chapter=CHAPTER)
    names, texts = map(list, zip(*[(passage.id, passage.text) for passage in data.passages(COMPANION)], strict=True))
    other = rephrase(rephraser, texts, load_prompt(prompts["rephrase"]), max_new_tokens=rephrase_tokens)
    same, control = faithful(judge, texts, other), faithful(judge, texts, list(np.roll(texts, 1)))
    return pd.DataFrame({"id": names, "faithful": same, "control": control}), asking.facts(rephraser=rephraser, judge=judge)


def companion(*, mode, profile, weaker, prompts, how, other_k, other_k_questions):
    """`rows` of replies under edits, greedy: conditions as in `filtered`, and "k 3" for the first questions with three passages."""
    setup = Setup(mode, profile, weaker, prompts, how)
    supplies = setup.supplies()
    by_k = {k: setup.supplies(k)[:other_k_questions] for k in other_k if k != how["k"]}
    other = setup.words(chain(supplies, *by_k.values()))
    drawn = filtered(supplies, setup.edited(supplies, other), other, setup.alike(other))
    for k, part in by_k.items():
        drawn |= under(f"k {k}", part, setup.edited(part, other))
    return rows(setup.questions, drawn, setup.judge.equivalent), setup.facts


def edits(*, mode, profile, weaker, prompts, how):
    """`edit_rows` of the corpus."""
    setup = Setup(mode, profile, weaker, prompts, how)
    supplies = setup.supplies()
    other = setup.words(supplies)
    said = setup.edited(supplies, other)
    return edit_rows(supplies, said, other, setup.alike(other), setup.judge.equivalent), setup.facts


def pairs(*, mode, profile):
    """How surely the judge takes the two answers of each pair of the corpus to mean the same; no reader is asked."""
    contrast = data.load_contrast()
    asked, left, right = zip(*[(pair.question, pair.left, pair.right) for pair in contrast], strict=True)
    judge = asking.judge(profile, mode=mode, chapter=CHAPTER)
    return pd.DataFrame({"id": [pair.id for pair in contrast], "embedded": judge.equivalent(asked, left, right)}), asking.facts(judge=judge)


def sampled(*, mode, profile, weaker, prompts, how, drawn, few=None):
    """`rows` of replies at a temperature; not recorded.

    drawn : "dataset", else the corpus, its first sampled_questions, temperature, samples to the original context, edits: true asks them
    """
    setup = Setup(mode, profile, weaker, prompts, how, drawn.get("dataset", COMPANION), drawn["sampled_questions"])
    supplies, cases = setup.supplies()[:few][: drawn["sampled_questions"]], {}
    reader, options = asking.reader(profile, mode), setup.asked | {"temperature": drawn["temperature"]}
    if drawn["edits"]:
        other = setup.words(supplies)
        cases |= under("edits", supplies, replies_under_edits(reader, supplies, other, **options))
    cases |= under("samples", supplies, samples(reader, supplies, n=drawn["samples"], **options))
    return rows(setup.questions, cases, setup.judge.equivalent), setup.facts | {"questions": len(supplies)}


def long_answers(*, mode, profile, weaker, prompts, how, few=None):
    """`rows` for the corpus's questions with long answers, told by the weaker model, not recorded; words per reply, `overlap_entropy`."""
    setup, asker = Setup(mode, profile, weaker, prompts, how), asking.reader(weaker, "fresh")
    supplies = nearest(data.load("companion_long"), setup.pool, how["k"])[:few]
    other = setup.words(supplies)
    said = replies_under_edits(asker, supplies, other, **setup.asked)
    table = rows([supply.question for supply in supplies], under("edits", supplies, said), setup.judge.equivalent)
    table["words"] = [np.mean([len(reply.text.split()) for reply in replies]) for replies in said]
    table["by_words"] = [overlap_entropy(replies) for replies in said]
    return table, asking.facts(reader=asker, judge=setup.judge)


def cost(*, mode, profile, weaker, prompts, how, sizes):
    """`cost_rows` of the corpus for several numbers of passages, "k 1" and so on."""
    setup = Setup(mode, profile, weaker, prompts, how)
    by_k = {k: setup.supplies(k) for k in sizes}
    other = setup.words(chain(*by_k.values()))
    tables = {k: cost_rows(setup.reader, part, other, **setup.prompts) for k, part in by_k.items()}
    return pd.concat(table.assign(condition=f"k {k}") for k, table in tables.items()), setup.facts


def on_benchmark(*, mode, profile, weaker, prompts, how, dataset, questions, few=None):
    """`rows` on a public benchmark, greedy under edits as in `filtered`, and sampled under the original context ("samples").

    how     : also temperature and samples, of the latter
    returns : (rows, with the columns unfaithful and lost, how many passages of the context were rephrased so that the judge does not
              accept it or that an answer is gone; facts, with the passages that were rephrased, and those that were accepted)
    """
    setup = Setup(mode, profile, weaker, prompts, how, dataset, questions)
    every = setup.supplies()
    supplies = every[:few]
    longest = max(setup.rephraser.count_tokens(text) for supply in every for text in supply.texts())
    other = setup.words(supplies, most=min(how["rephrase_tokens"], longest))
    same = setup.alike(other)
    drawn = filtered(supplies, setup.edited(supplies, other), other, same)
    options = setup.asked | {"n": how["samples"], "temperature": how["temperature"]}
    drawn |= under("samples", supplies, samples(setup.reader, supplies, **options))
    table = rows(setup.questions, drawn, setup.judge.equivalent)
    unfaithful = {text for text, p in same.items() if p < THRESHOLD}
    refused = {supply.question.id: sum(text in unfaithful for text in supply.texts()) for supply in supplies}
    gone = {supply.question.id: len(lost(supply, other)) for supply in supplies}
    table["unfaithful"], table["lost"] = table["id"].map(refused), table["id"].map(gone)
    counts = {"questions": len(supplies), "left_out": len(setup.questions) - len(every), "passages": len(other)}
    return table, setup.facts | counts | {"accepted": len(other) - len(unfaithful)}
