"""From records to what each measure says of every passage and question: one function per measure, each standing on `rag_utils.measures`.

What several measures ask alike is asked once, and the replies that can be asked for together are, so that the engine reads what their
prompts have in common once. What a measure cannot say is left out, with the reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
import pandas as pd

from rag_utils import dense, erag, moi, retrieve
from rag_utils.answers import exact_match
from rag_utils.data import Passage, Question
from rag_utils.ecorag import LABELS
from rag_utils.engine.profiles import Profile
from rag_utils.judge import THRESHOLD, Judge
from rag_utils.lm import Generation
from rag_utils.measures import CLOSED, Case
from rag_utils.measures import dense as asked_dense
from rag_utils.measures import ecorag as asked_ecorag
from rag_utils.measures import moi as asked_moi
from rag_utils.measures import seper as asked_seper
from rag_utils.prompts import Prompt, load, prompt_text
from rag_utils.score.records import Record

BELIEFS = {"seper": "seper_soft", "seper-hard": "seper_hard", "seper-shares": "soft_frequency"}  # column of `beliefs`
LIST = "list"  # the context of all passages; that of one is its place, "0", "1", ...
NO_ANSWERS = "no answers given"
Said = tuple[dict[tuple[str, str], dict], dict[str, dict]]  # columns by (question id, passage id), and by question id


@dataclass(frozen=True)
class Settings:
    """How readers are asked: what chapters 2 to 7 do, but by the quick judge. `closed`, `read`, `rephrase`: prompts by name or file.

    A reader that is no instruction follower of the book's own kind may need other prompts than the first two.
    """

    closed: str = "closed_plain"
    read: str = "read_plain"
    rephrase: str = "dense_rephrase.chat"
    asker: object = "embedded-base"  # says passages in other words: a profile, or what `lm.load` returns
    judge: str | Profile | Judge = "quick"  # that says whether two answers mean the same
    samples: int = 10
    max_new_tokens: int = 24
    rephrase_tokens: int = 128
    workers: int = 1  # processes in which readers that are given by name compute


class Once:
    """A reader that is asked everything once, whoever asks, and that counts what it was asked; else it is the reader that it holds."""

    def __init__(self, reader):
        self._reader, self._replies, self._scored = reader, {}, set()

    def __getattr__(self, name: str):
        return getattr(self._reader, name)

    def generate(self, prompts: Sequence[str], *, n=1, temperature=0.0, max_new_tokens=32, seed=0) -> list[list]:
        """As `LanguageModel.generate`, with its usual stop."""
        known = self._known(n, temperature, max_new_tokens, seed)
        if missing := [prompt for prompt in dict.fromkeys(prompts) if prompt not in known]:
            how = {"n": n, "temperature": temperature, "max_new_tokens": max_new_tokens, "seed": seed}
            known.update(zip(missing, self._reader.generate(missing, **how), strict=True))
        return [known[prompt] for prompt in prompts]

    def read(self, prompts: Sequence[str], *, n: int, max_new_tokens: int, seed: int) -> None:
        """Ask the samples at temperature 1 and the greedy reply together, for which each prompt is read once."""
        drawn, greedy = self._known(n, 1.0, max_new_tokens, seed), self._known(1, 0.0, max_new_tokens, 0)
        missing = [prompt for prompt in dict.fromkeys(prompts) if prompt not in drawn and prompt not in greedy]
        how = {"n": n, "temperature": 1.0, "max_new_tokens": max_new_tokens, "seed": seed}
        replies = self._reader.generate(missing, **how, greedy=True) if missing else []
        for prompt, own in zip(missing, replies, strict=True):
            drawn[prompt], greedy[prompt] = own[:-1], own[-1:]

    def _known(self, n: int, temperature: float, max_new_tokens: int, seed: int) -> dict[str, list]:
        return self._replies.setdefault((n, temperature, max_new_tokens, seed if temperature else None), {})

    def log_likelihood(self, contexts: Sequence[str], continuations: Sequence[str]) -> list[np.ndarray]:
        """As `LanguageModel.log_likelihood`."""
        self._scored |= set(zip(contexts, continuations, strict=True))
        return self._reader.log_likelihood(contexts, continuations)

    def counted(self) -> dict[str, int]:
        """What was asked: greedy replies, samples, texts whose likelihood was looked at, and the tokens of all prompts, read in full."""
        numbers = {"replies": 0, "samples": 0, "likelihoods": len(self._scored)}
        for (n, temperature, *_), known in self._replies.items():
            numbers["samples" if temperature else "replies"] += n * len(known)
        texts = [prompt for known in self._replies.values() for prompt in known]
        texts += [f"{context}{continuation}" for context, continuation in self._scored]
        return numbers | {"tokens": sum(map(cache(self.count_tokens), texts))}


@dataclass(frozen=True)
class Task:
    """Everything that a measure needs: the records and who is asked about them, and how."""

    records: Sequence[Record]
    reader: Once
    judge: Judge
    settings: Settings
    top: int = 10
    seed: int = 0
    words: Mapping[str, str] = field(default_factory=dict)  # text of a passage -> the same in other words; for DENSE
    encoder: Callable[[], retrieve.Encoder] = retrieve.encoder  # for ECoRAG

    @cached_property
    def questions(self) -> list[Question]:
        return [record.asked() for record in self.records]

    @cached_property
    def shown(self) -> dict[str, tuple[Passage, ...]]:
        return {record.id: record.shown(self.top) for record in self.records}

    @cached_property
    def prompts(self) -> dict[str, Prompt]:
        return {name: load(getattr(self.settings, name)) for name in ("closed", "read")}

    @cached_property
    def other(self) -> dict[str, str]:
        """`words` where the judge finds them faithful, else the text itself, as in chapter 5."""
        same = asked_dense.faithful(self.judge, list(self.words), list(self.words.values())) if self.words else ()
        return asked_dense.accepted(self.words, dict(zip(self.words, same, strict=True)))

    @property
    def answerable(self) -> list[Question]:
        """The questions whose answers are known."""
        return [question for question in self.questions if question.answers]

    @property
    def how(self) -> dict:
        """Prompts and length of a reply, as `measures.ecorag` takes them."""
        return self.prompts | {"max_new_tokens": self.settings.max_new_tokens}

    @property
    def drawing(self) -> dict:
        """How samples are drawn, as `measures.seper` takes it."""
        return {"n": self.settings.samples, "max_new_tokens": self.settings.max_new_tokens, "seed": self.seed}

    @cached_property
    def drawn(self) -> dict[Case, str]:
        """The prompts that are sampled: no passages, the list, and each passage alone, of the questions whose answers are known."""
        known = self.answerable
        contexts: dict = {CLOSED: None, LIST: {question.id: self.shown[question.id] for question in known}}
        for place in range(max((len(self.shown[question.id]) for question in known), default=0)):
            alone = {question.id: self.shown[question.id][place : place + 1] for question in known}
            contexts[str(place)] = {name: own for name, own in alone.items() if own}
        return asked_seper.prompts_of(self.reader, known, contexts, **self.prompts)

    def texts(self, question: Question) -> list[str]:
        return [passage.text for passage in self.shown[question.id]]

    def prompt(self, question: Question | str, texts: Sequence[str]) -> str:
        """What the reader is shown: the question after these texts, or alone."""
        return prompt_text(self.reader, self.prompts["read" if texts else "closed"], question, texts or None)

    def say(self, prompts: Sequence[str]) -> list[str]:
        """The reader's greedy replies."""
        replies = self.reader.generate(prompts, max_new_tokens=self.settings.max_new_tokens)
        return [reply.text.strip() for [reply] in replies]

    def answers(self, texts: Mapping[str, Sequence[str]], name: str) -> dict[str, dict]:
        """By question id the reply with these texts, as column `name`, and whether it is right, empty without answers."""
        asked = [question for question in self.questions if question.id in texts]
        replies = self.say([self.prompt(question, texts[question.id]) for question in asked])
        return {
            question.id: {
                name: reply,
                f"right_{name}": exact_match(reply, question.answers) if question.answers else None,
            }
            for question, reply in zip(asked, replies, strict=True)
        }


def other_words(texts: Sequence[str], asker, settings: Settings) -> dict[str, str]:
    """Each distinct text in other words, as chapters 4 and 5 ask for them."""
    distinct = list(dict.fromkeys(texts))
    said = asked_dense.rephrase(asker, distinct, load(settings.rephrase), max_new_tokens=settings.rephrase_tokens)
    return dict(zip(distinct, said, strict=True))


def first_prompts(task: Task, measures: Sequence[str]) -> list[str]:
    """The greedy prompts that are known before any reply is: they begin alike, so they are asked for in one call."""
    prompts = []
    for question in task.questions:
        texts = task.texts(question)
        contexts = [[], texts, *([text] for text in texts if "erag" in measures)]
        contexts += asked_dense.edits(tuple(texts), task.other) if "dense" in measures else []
        prompts += [task.prompt(question, context) for context in contexts]
    return prompts


def tables(task: Task, measures: Sequence[str]) -> tuple[list[dict], list[dict]]:
    """Rows of passages and of questions, in the order of the records, as `Scores` has them."""
    first = dict.fromkeys(first_prompts(task, measures))
    if BELIEFS.keys() & {*measures}:
        task.reader.read([prompt for prompt in task.drawn.values() if prompt in first], **task.drawing)
    task.say(list(first))
    parts = [plain(task)]
    if beliefs := [measure for measure in measures if measure in BELIEFS]:
        parts.append(seper(task, beliefs))
    parts += [_OTHERS[measure](task) for measure in measures if measure in _OTHERS]
    passages, questions = [], []
    for question in task.questions:
        row = {"id": question.id, "question": question.text, "answers": " | ".join(question.answers)}
        row["passages"] = len(task.shown[question.id])
        questions.append(row | _merged(by_question.get(question.id, {}) for _, by_question in parts))
        for rank, passage in enumerate(task.shown[question.id], 1):
            row, key = {"question": question.id, "passage": passage.id, "rank": rank}, (question.id, passage.id)
            row |= {"title": passage.title, "text": passage.text}
            passages.append(row | _merged(by_passage.get(key, {}) for by_passage, _ in parts))
    return passages, questions


def _merged(parts) -> dict:
    return {name: value for part in parts for name, value in part.items()}


# --- one function per measure ----------------------------------------------------------------------


def plain(task: Task) -> Said:
    """The replies without passages and with all of them, and how many tokens these have."""
    count = cache(task.reader.count_tokens)
    before = task.answers({question.id: [] for question in task.questions}, "before")
    after = task.answers({question.id: task.texts(question) for question in task.questions}, "with_list")
    tokens = {question.id: {"tokens": sum(map(count, task.texts(question)))} for question in task.questions}
    return {}, {name: before[name] | after[name] | tokens[name] for name in before}


def seper(task: Task, measures: Sequence[str]) -> Said:
    """What each passage alone, and the list, adds to the belief in the answers: chapter 2, SePer's eq. 11."""
    names = {measure.replace("-", "_"): BELIEFS[measure] for measure in measures}
    by_passage = {key: {f"{name}_why": NO_ANSWERS for name in names} for key in _keys(task)}
    by_question = {question.id: {f"{name}_why": NO_ANSWERS for name in names} for question in task.questions}
    if known := task.answerable:
        drawn = asked_seper.draw(task.reader, task.drawn, **task.drawing)
        if not getattr(task.reader, "scores_replies", True):  # the share of samples looks at no likelihood
            drawn = {case: [Generation(reply.text, (), np.zeros(1)) for reply in own] for case, own in drawn.items()}
        table = asked_seper.beliefs(task.judge, known, drawn, clustered="seper_hard" in names)
        for row in asked_seper.changes(table).to_dict("records"):
            reasons = {f"{name}_why": "" for name in names}
            if row["condition"] == LIST:
                by_question[row["id"]] = {f"{name}_list": row[column] for name, column in names.items()} | reasons
            else:
                passage = task.shown[row["id"]][int(row["condition"])]
                by_passage[row["id"], passage.id] = {name: row[column] for name, column in names.items()} | reasons
    return by_passage, by_question


def list_metrics(k: int) -> dict[str, str]:
    """Column -> name of the metric of lists that go to rank k."""
    return {f"erag_{name}": name.replace("@k", f"@{k}") for name in ("P@k", "RR", "nDCG@k", "AP", "Success@k")}


def eragged(task: Task) -> Said:
    """The label of each passage, whether the reply with it alone is right, and the list by these labels: chapter 3, eRAG's eq. 1."""
    known, by_passage, by_question = task.answerable, {}, {}
    metrics = list_metrics(max(map(len, task.shown.values())))
    how = {"generate": task.say, "score": exact_match, "prompt": lambda asked, text: task.prompt(asked, [text])}
    parts = ([question.text for question in known], [*map(task.texts, known)], [list(q.answers) for q in known])
    labels = dict(zip([question.id for question in known], erag.annotate(*parts, **how) if known else [], strict=True))
    for question in task.questions:
        own, why = labels.get(question.id), {"erag_why": "" if question.answers else NO_ANSWERS}
        replies = task.say([task.prompt(question, [text]) for text in task.texts(question)])
        for place, (passage, reply) in enumerate(zip(task.shown[question.id], replies, strict=True)):
            by_passage[question.id, passage.id] = {"erag": own and own[place], "reply": reply} | why
        values = erag.rank_metrics(own, list(metrics.values())) if own else {}
        by_question[question.id] = {column: values.get(name) for column, name in metrics.items()} | why
    return by_passage, by_question


def densed(task: Task) -> Said:
    """DENSE's entropy of each context and the role of its passages: chapters 4 and 5, DENSE's eqs. 6 and 8 to 10.

    A passage that has no faithful other words stands for itself; nothing was tried then, so it has no role.
    """
    refused = {text for text, words in task.other.items() if words == text}
    supplies = [asked_dense.Supply(question, task.shown[question.id]) for question in task.questions]
    how = {"prompt": task.prompts["read"], "max_new_tokens": task.settings.max_new_tokens}
    said = asked_dense.replies_under_edits(task.reader, supplies, task.other, **how)
    drawn = {Case(supply.question.id, "edits"): own for supply, own in zip(supplies, said, strict=True)}
    agreed = asked_dense.agreements(task.judge.equivalent, task.questions, drawn)
    links = {case.id: dense.adjacency(agreed[case] >= THRESHOLD) for case in drawn}
    without = _without(task, {case.id: own[0] for case, own in drawn.items()}, links)
    by_passage, by_question = {}, {}
    for question in task.questions:
        shown, own = task.shown[question.id], links[question.id]
        roles = dense.chunk_roles(own, [without.get((question.id, place), np.nan) for place in range(len(shown))])
        for passage, role in zip(shown, roles, strict=True):
            why = "no other words that say the same" if passage.text in refused else ""
            by_passage[question.id, passage.id] = {"dense_role": None if why else role, "dense_why": why}
        if all(passage.text in refused for passage in shown):
            by_question[question.id] = {"dense_why": "no passage has other words that say the same"}
            continue
        entropy = dense.degree_entropy(own)
        certain = dense.Rules().met(entropy, None)
        by_question[question.id] = {"dense_entropy": entropy, "dense_certain": float(certain), "dense_why": ""}
    return by_passage, by_question


def _without(task: Task, first: Mapping, links: Mapping[str, np.ndarray]) -> dict[tuple[str, int], float]:
    """(question id, place of an uncertain passage) -> how far the reply without it agrees with the first one: 0, 0.5 or 1."""
    asked = {}
    for question in task.questions:
        shorter = dense.contexts_without_one(task.texts(question))
        for place in np.flatnonzero(links[question.id][0, 1:] != 1).tolist():
            asked[Case(question.id, str(place))] = task.prompt(question, shorter[place])
    replies = task.reader.generate(list(asked.values()), max_new_tokens=task.settings.max_new_tokens) if asked else []
    both = {case: [first[case.id], reply] for case, [reply] in zip(asked, replies, strict=True)}
    agreed = asked_dense.agreements(task.judge.equivalent, task.questions, both)
    return {(name, int(place)): dense.adjacency(own >= THRESHOLD)[0, 1] for (name, place), own in agreed.items()}


def compressed(task: Task) -> Said:
    """What the best sentence of each passage is to the reader, and what compression keeps: chapter 6, ECoRAG's sections 3.1.1 and 3.2."""
    score = asked_ecorag.dot_products(task.encoder(), asked_ecorag.load_head("evidentiality"))
    kept = asked_ecorag.adaptive(score, asked_ecorag.small_evaluator(score))(task.questions, task.shown)
    order = asked_ecorag.ranked(task.questions, task.shown, score)
    known, count = task.answerable, cache(task.reader.count_tokens)
    mined = asked_ecorag.mine(task.reader, known, task.shown, **task.how) if known else pd.DataFrame()
    labels = {(row.id, row.passage, row.place): (row.label, row.closed) for row in mined.itertuples()}
    replies, by_passage, by_question = task.answers(kept, "compressed"), {}, {}
    for question in task.questions:
        stays = [sentence.passage for sentence in order[question.id][: len(kept[question.id])]]
        why = {"ecorag_why": "" if question.answers else NO_ANSWERS}
        for passage in task.shown[question.id]:
            size = len(passage.cut())
            row = {"ecorag": None, "ecorag_kept": stays.count(passage.id), "sentences": size}
            if question.answers:
                own, closed = zip(*(labels[question.id, passage.id, place] for place in range(size)), strict=True)
                row["ecorag"] = min(own, key=LABELS.index)
                if row["ecorag"] == "undefined":
                    why = {"ecorag_why": "right without passages" if closed[0] else "no strong sentence"}
            by_passage[question.id, passage.id] = row | why
        tokens = {"tokens_compressed": sum(map(count, kept[question.id]))}
        by_question[question.id] = replies[question.id] | tokens | why
    return by_passage, by_question


def orders(task: Task) -> dict[str, np.ndarray]:
    """By question id the random orders, of half of the passages each, that settle a fit: chapter 7's; none for one passage."""
    by_size, drawn = {}, {}
    for name, shown in task.shown.items():
        by_size.setdefault(len(shown), []).append(name)
    for size in sorted(set(by_size) - {1}):
        lengths, times = {asked_moi.PRUNED: (size + 1) // 2}, max(12, 2 * size)
        sets = asked_moi.propose(by_size[size], size, lengths, drawn=times, seed=task.seed)
        drawn |= sets[asked_moi.PRUNED]
    return drawn


def likelihoods(task: Task, sets: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """How likely each of these orders makes its question, as `measures.moi.saliencies` returns it."""
    asked = [question for question in task.questions if question.id in sets]
    given = {"prompt": task.prompts["read"], "prior": False}
    return asked_moi.saliencies(task.reader, asked, task.shown, {asked_moi.PRUNED: sets}, **given)


def mixed(task: Task) -> Said:
    """What each passage is worth apart from its place, and the reply to the passages in that order: chapter 7, MoI's eq. 4.

    Where the orders settle no fit there is no utility, for others would explain the scores as well.
    """
    sets = orders(task)
    by_passage = {key: {"moi_why": "one passage"} for key in _keys(task)}
    by_question = {question.id: {"moi_why": "one passage"} for question in task.questions}
    if not sets:
        return by_passage, by_question
    table = likelihoods(task, sets)
    fits = {
        name: moi.fit(own, scores, len(task.shown[name]), starts=8, rng=task.seed)
        for name, (own, scores) in asked_moi.problems(table, asked_moi.PRUNED).items()
    }
    best = {name: moi.rerank(fit.utility) for name, fit in fits.items() if fit.identified}
    texts = {name: [task.shown[name][place].text for place in order] for name, order in best.items()}
    replies = task.answers(texts, "reordered")
    for name, fit in fits.items():
        why = "" if fit.identified else "the orders settle no fit"
        by_question[name] = replies.get(name, {}) | {"moi_why": why}
        for passage, utility in zip(task.shown[name], fit.utility.tolist(), strict=True):
            row = {"moi": utility if fit.identified else None, "moi_identified": float(fit.identified), "moi_why": why}
            by_passage[name, passage.id] = row
    return by_passage, by_question


def _keys(task: Task) -> list[tuple[str, str]]:
    return [(name, passage.id) for name, shown in task.shown.items() for passage in shown]


_OTHERS = {"erag": eragged, "dense": densed, "ecorag": compressed, "moi": mixed}
