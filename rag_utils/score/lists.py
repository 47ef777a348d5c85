"""What whole lists are worth to a reader: how many passages, in which order, found by whom; and lists made of lists.

lists = {"5": cut(records, 5), "10": cut(records, 10), "reranked": cut(reranked(records, reader=reader), 5)}
worth(lists, reader=reader).groupby("list")["seper"].mean()
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas as pd

from rag_utils.answers import exact_match
from rag_utils.base import checks
from rag_utils.data import Passage
from rag_utils.judge import load_judge
from rag_utils.measures import CLOSED, moi
from rag_utils.measures import seper as asked
from rag_utils.prompts import load, prompt_text
from rag_utils.score.measured import Settings
from rag_utils.score.records import Record, checked
from rag_utils.score.scores import loaded, refuse


def worth(
    lists: Mapping[str, Sequence[Record]], *, reader="embedded", seed: int = 0, mode: str = "live", settings: Settings | None = None
) -> pd.DataFrame:
    """What each list adds to the belief in the answers, and whether the reader is right with it.

    lists   : name of a way to make lists -> records, each with answers and with all the passages that are shown. Lists that begin alike
              share the reading of their beginning
    others  : as in `scores.run`
    returns : one row per question and list, in the order of `lists`: question, list, before (belief without passages, 0 .. 1), seper (what
              the list adds, -1 .. 1: SePer's eq. 11), right_before and right (greedy, exact match), confidence (mean log-likelihood of a
              token of the greedy reply without passages, nats) and tokens (of the prompt with the list)
    raises  : ValueError for no lists, a name "closed book", records without answers, two records of an id that ask different things, and a
              reader that gives no likelihoods of replies
    """
    settings, names = settings or Settings(), checks.texts("names of lists", list(lists), empty=False)
    if CLOSED in names:
        raise ValueError(f"no list may be called {CLOSED!r}, which is the name of having none")
    known = {}
    for record in (record for name in names for record in checked(lists[name])):
        if not record.answers:
            raise ValueError(f"record {record.id!r} has no answers; what a list is worth is seen by them")
        if known.setdefault(record.id, record.asked()) != record.asked():
            raise ValueError(f"record {record.id!r} asks different things in different lists")
    questions, model = list(known.values()), loaded(reader, mode)
    refuse(model, ("seper",), settings)
    judge = load_judge(settings.judge, mode=mode)
    shown = {name: {record.id: record.shown(len(record.passages)) for record in lists[name]} for name in names}
    forms = {"closed": load(settings.closed), "read": load(settings.read)}
    prompts = asked.prompts_of(model, questions, {CLOSED: None, **shown}, **forms)
    drawn = asked.draw(model, prompts, n=settings.samples, max_new_tokens=settings.max_new_tokens, seed=seed, greedy=True)
    greedy = {case: replies.pop() for case, replies in drawn.items()}
    belief = asked.beliefs(judge, questions, drawn, clustered=False).set_index(["id", "condition"])["seper_soft"]
    right = {case: exact_match(reply.text, known[case.id].answers) for case, reply in greedy.items()}
    rows = []
    for name, of in shown.items():
        for question in of:
            before, case = (question, CLOSED), (question, name)
            row = {"question": question, "list": name, "before": belief[before], "seper": belief[case] - belief[before]}
            row |= {"right_before": right[before], "right": right[case], "tokens": model.count_tokens(prompts[case])}
            rows.append(row | {"confidence": float(greedy[before].token_log_likelihood.mean())})
    return pd.DataFrame(rows)


def cut(records: Iterable[Record], k: int) -> list[Record]:
    """The records with their first k passages; ValueError if k is not at least 1."""
    k = checks.whole("k", k, least=1)
    return [record.model_copy(update={"passages": record.passages[:k]}) for record in checked(records)]


def reranked(records: Sequence[Record], *, reader="embedded", mode: str = "live", settings: Settings | None = None) -> list[Record]:
    """The records, their passages ordered by how likely each alone makes the question; equal ones stay as they were.

    source : query generation, UPR (Sachan et al. 2022), the question put as the prompt `read` does. ValueError as `scores.run` for MoI
    """
    settings, model = settings or Settings(), loaded(reader, mode)
    refuse(model, ("moi",), settings)
    read = load(settings.read)
    shown = {record.id: record.shown(len(record.passages)) for record in checked(records)}
    alone = {"alone": {name: [[place] for place in range(len(own))] for name, own in shown.items()}}
    questions = [record.asked() for record in records]
    rows = moi.saliencies(model, questions, shown, alone, prompt=read, prior=False).sort_values("query", ascending=False, kind="stable")
    order = rows.groupby("id")["order"].agg(lambda own: [place for text in own for place in moi.parse(text)])
    return [record.model_copy(update={"passages": [record.passages[place] for place in order[record.id]]}) for record in records]


def found_again(
    records: Sequence[Record],
    search: Callable[[Mapping[str, str]], Mapping[str, Sequence[Passage]]],
    *,
    reader="embedded",
    mode: str = "live",
    settings: Settings | None = None,
) -> list[Record]:
    """The records with what is found by the question and the reader's reply to the list: one more round of ITER-RETGEN.

    search : texts by question id -> passages by question id, best first
    source : Shao et al. 2023, the reply in place of a chain of thought
    """
    settings, model = settings or Settings(), loaded(reader, mode)
    texts = [[passage.text for passage in record.passages] for record in checked(records)]
    prompts = [prompt_text(model, load(settings.read), record.question, own) for record, own in zip(records, texts, strict=True)]
    replies = model.generate(prompts, max_new_tokens=settings.max_new_tokens)
    asked_for = {record.id: f"{record.question} {reply.text.strip()}" for record, [reply] in zip(records, replies, strict=True)}
    shown = search(asked_for)
    return [Record.of(record.asked(), shown[record.id]) for record in records]
