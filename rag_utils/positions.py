"""Orders of passages as the reader sees them: what each order says of the question, what the reader answers to it, and who ranks how.

Passages of a question are numbered 0 .. N - 1 in the retriever's order, and an order is written "2-0-1". The tables have one row per
question, condition (a set of orders, or the method that ranked) and run (0 .. in the set):

table = saliencies(reader, questions, shown, {"pruned": orders}, prompt=prompt)
ranked = rankings(table, size=5)
said = answered(reader, questions, shown, ranked, prompt=prompt)
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.stats import kendalltau

from rag_utils import answers, data, manifest, moi, retrieve, rows, similarity
from rag_utils.data import Passage, Question
from rag_utils.lm import LanguageModel
from rag_utils.measure import sample
from rag_utils.names import check_name
from rag_utils.prompts import Prompt
from rag_utils.rerankers import parse_listwise
from rag_utils.retrieve import Run, ranking

Shown = Mapping[str, Sequence[Passage]]  # question id -> its passages, in the retriever's order
Orders = Mapping[str, Sequence[Sequence[int]]]  # question id -> orders, which may be of different lengths
SETS = ALONE, PRUNED, FULL, CYCLIC, SHORT = "alone", "pruned", "full", "cyclic", "cyclic pruned"
SCORES = {**answers.METRICS, "rouge_l": similarity.rouge_l}  # name -> score(reply, references)


# --- orders ----------------------------------------------------------------------------------------


def label(order: Sequence[int]) -> str:
    """An order as text.

    >>> label([2, 0, 1])
    '2-0-1'
    """
    return "-".join(str(int(place)) for place in order)


def parse(text: str) -> list[int]:
    """The order that `label` wrote.

    raises : ValueError if the text is not such

    >>> parse("2-0-1")
    [2, 0, 1]
    """
    try:
        return [int(place) for place in text.split("-")]
    except (AttributeError, ValueError) as error:
        raise ValueError(f"wanted an order such as '2-0-1', got {text!r}") from error


def with_gold(size: int, gold: Sequence[int], where: str) -> list[int]:
    """The retriever's order with the gold passages moved together to one end, or into the middle.

    where : "first", "middle" or "last"

    >>> with_gold(5, [3], "first"), with_gold(5, [0], "middle"), with_gold(5, [0, 3], "last")
    ([3, 0, 1, 2, 4], [1, 2, 0, 3, 4], [1, 2, 4, 0, 3])
    """
    check_name("place", where, ("first", "middle", "last"))
    others = [place for place in range(size) if place not in set(gold)]
    before = {"first": 0, "middle": len(others) // 2, "last": len(others)}[where]
    return [*others[:before], *sorted(gold), *others[before:]]


def gold_places(question: Question, shown: Shown) -> list[int]:
    """Numbers of the question's gold passages among those shown."""
    wanted = {passage.id for passage in question.gold}
    return [number for number, passage in enumerate(shown[question.id]) if passage.id in wanted]


def reciprocal_rank(order: Sequence[int], gold: Sequence[int]) -> float:
    """One over the place of the first gold passage, 0 if the order has none.

    >>> reciprocal_rank([2, 0, 1], [0, 1])
    0.5
    """
    return next((1 / place for place, passage in enumerate(order, 1) if passage in set(gold)), 0.0)


def candidates(questions: Sequence[Question], run: Run, passages: Mapping[str, Passage], *, size: int) -> Shown:
    """The passages to show: the best of the run, every gold passage among them, in the order of the run, others by their ids.

    passages : by id
    raises   : ValueError if there are fewer than `size`
    source   : ours. A gold passage that the retriever missed takes the place of the worst other one; without it no order could help
    """
    found = {}
    for question in questions:
        gold = [passage.id for passage in question.gold]
        ranked = ranking(run[question.id])
        ranked += sorted(set(passages) - set(ranked))
        others = [name for name in ranked if name not in set(gold)][: size - len(gold)]
        kept = set(gold) | set(others)
        if len(kept) != size:
            raise ValueError(f"question {question.id} has {len(kept)} passages to show, wanted {size}")
        found[question.id] = tuple(passages[name] for name in ranked if name in kept)
    return found


def propose(
    ids: Sequence[str], size: int, wanted: Sequence[str], *, prefix: int, orders: int, seed: int = 0
) -> dict[str, Orders]:
    """Sets of orders of each question, by name.

    wanted : of "alone" (every passage by itself), "pruned" (random, the first `prefix` passages), "full" (random), "cyclic" and "cyclic
             pruned"
    orders : how many random ones
    source : MoI, sections 3.2 and 3.3.1. Each question has orders of its own, drawn from the seed and its place in `ids`
    """
    sets: dict[str, Orders] = {check_name("set of orders", one, SETS): {} for one in wanted}
    for number, name in enumerate(ids):
        made = {
            ALONE: moi.cyclic_orders(size, prefix=1),
            PRUNED: moi.random_orders(size, orders, prefix=prefix, rng=[seed, number]),
            FULL: moi.random_orders(size, orders, rng=[seed, number, 1]),
            CYCLIC: moi.cyclic_orders(size),
            SHORT: moi.cyclic_orders(size, prefix=prefix),
        }
        for one in sets:
            sets[one][name] = made[one]
    return sets


# --- what the reader makes of an order -------------------------------------------------------------


def saliencies(
    reader: LanguageModel,
    questions: Sequence[Question],
    shown: Shown,
    sets: Mapping[str, Orders],
    *,
    prompt: Prompt,
    prior: bool = True,
) -> pd.DataFrame:
    """How likely the reader finds the question after the passages of each order, and the passages themselves.

    sets    : by name; all are read in one call, in which orders that begin alike share the work
    prompt  : with the documents before the question; what comes before $question is the context
    prior   : whether to look at the passages too; then each has its log-likelihood given those before it
    returns : columns id, condition, run, order, query (nats, sum over the question's tokens), passages (nats, NaN without `prior`) and
              information (sum of p log p over the question's tokens, for LongLLMLingua)
    raises  : ValueError if the prompt asks in another form, or as `LanguageModel.log_likelihood`
    source  : MoI, eq. 3, both factors in logarithms
    """
    by_id = {question.id: question for question in questions}
    keys, asked, parts = [], {}, {}
    for condition, orders in sets.items():
        for name, some in orders.items():
            for run, order in enumerate(some):
                lines = [f"Document: {' '.join(shown[name][place].text.split())}\n" for place in order]
                context = question_context(prompt, [shown[name][place] for place in order])
                key = (context, " " + by_id[name].text)
                steps = [("".join(lines[:i]), line) for i, line in enumerate(lines)] if prior else []
                keys.append((name, condition, run, label(order), key, steps))
                asked[key] = None
                parts |= dict.fromkeys(steps)
    pairs = [*asked, *(pair for pair in parts if pair not in asked)]
    found = dict(zip(pairs, reader.log_likelihood(*map(list, zip(*pairs, strict=True))), strict=True))
    return pd.DataFrame(
        {
            "id": name,
            "condition": condition,
            "run": run,
            "order": order,
            "query": found[key].sum(),
            "passages": sum(found[step].sum() for step in steps) if prior else np.nan,
            "information": float(np.sum(np.exp(found[key]) * found[key])),
        }
        for name, condition, run, order, key, steps in keys
    )


def question_context(prompt: Prompt, passages: Sequence[Passage]) -> str:
    """The prompt up to where the question begins, without the space before it.

    raises : ValueError if the prompt is a chat message or does not have its documents before the question
    """
    before, found, _ = prompt.template.partition("$question")
    if prompt.chat or not found or "$documents" not in before:
        raise ValueError(f"prompt {prompt.name!r} must have $documents before $question and be no chat message")
    return Prompt(prompt.name, before, chat=False).fill(documents=[passage.text for passage in passages]).rstrip(" ")


def answered(
    reader: LanguageModel,
    questions: Sequence[Question],
    shown: Shown,
    sets: Mapping[str, Orders],
    *,
    prompt: Prompt,
    max_new_tokens: int = 24,
) -> pd.DataFrame:
    """The reader's greedy answer to each order, and what it is worth.

    returns : columns id, condition, run, order, gold (reciprocal rank of the first gold passage), reply, unparsable, and each of SCORES
    """
    by_id = {question.id: question for question in questions}
    keys = [
        (name, condition, run, label(order), _filled(prompt, by_id[name], [shown[name][i] for i in order]))
        for condition, orders in sets.items()
        for name, some in orders.items()
        for run, order in enumerate(some)
    ]
    texts = list(dict.fromkeys(text for *_, text in keys))
    replies = reader.generate(texts, max_new_tokens=max_new_tokens)
    said = {text: found[0].text.strip() for text, found in zip(texts, replies, strict=True)}
    return pd.DataFrame(
        {"id": name, "condition": condition, "run": run, "order": order}
        | {"gold": reciprocal_rank(parse(order), gold_places(by_id[name], shown))}
        | _judged(said[text], by_id[name])
        for name, condition, run, order, text in keys
    )


def votes(table: pd.DataFrame, questions: Sequence[Question], condition: str = CYCLIC) -> pd.DataFrame:
    """Self-consistency: the reply that most orders of a set give, compared in normalised form, the earliest of equally frequent ones.

    table   : as `answered` returns it
    returns : rows of the same form, condition "self-consistency", order "votes" and gold 0, as there is no order
    source  : Wang et al. 2023, over orders as in MoI, appendix C, which takes 30 random ones
    """
    by_id = {question.id: question for question in questions}
    found = []
    for name, part in table[table["condition"] == condition].sort_values("run").groupby("id", sort=False):
        plain = part["reply"].map(answers.normalize)
        best = Counter(plain).most_common(1)[0][0]  # of equal counts the first met
        row = {"id": name, "condition": "self-consistency", "run": 0, "order": "votes", "gold": 0.0}
        found.append(row | _judged(part["reply"][plain == best].iloc[0], by_id[name]))
    return pd.DataFrame(found)


def sequential(
    reader: LanguageModel, questions: Sequence[Question], shown: Shown, *, prompt: Prompt
) -> dict[str, list[list[int]]]:
    """Bayes saliency +: the next passage is the one that, after those already chosen, makes question and passages together likeliest.

    returns : per question id one order in a list
    source  : MoI, eq. 2 and appendix C (Merth et al. 2024). Deviation: the second factor there is given all N passages, the one in question
              among them; here it is given those chosen before. Equally good ones in the retriever's order
    """
    chosen: dict[str, list[int]] = {question.id: [] for question in questions}
    size = max(len(shown[name]) for name in chosen)
    for _ in range(size - 1):
        tried = {
            name: [[*order, place] for place in range(len(shown[name])) if place not in order]
            for name, order in chosen.items()
        }
        table = saliencies(reader, questions, shown, {"next": tried}, prompt=prompt)
        table["score"] = table["query"] + table["passages"]
        for name, part in table.groupby("id", sort=False):
            chosen[name] = parse(part.sort_values("score", ascending=False, kind="stable")["order"].iloc[0])
    return {name: [[*order, *(p for p in range(size) if p not in order)]] for name, order in chosen.items()}


def listwise(
    asker: LanguageModel,
    questions: Sequence[Question],
    shown: Shown,
    orders: Orders,
    *,
    prompt: Prompt,
    max_new_tokens: int = 30,
) -> pd.DataFrame:
    """The rankings that a model writes when it is shown the passages with numbers, in each of the orders.

    prompt  : with the slots question and passages
    returns : columns id, run, order (the ranking, in the retriever's numbers) and missing, repeated, out_of_range (what had to be
              repaired in the reply)
    source  : RankGPT (Sun et al. 2023), in our words; several orders: permutation self-consistency (Tang et al. 2024)
    """
    by_id = {question.id: question for question in questions}
    keys, texts = [], []
    for name, some in orders.items():
        for run, order in enumerate(some):
            lines = [f"[{i}] {' '.join(shown[name][place].text.split())}" for i, place in enumerate(order, 1)]
            text = prompt.fill(question=by_id[name].text, passages="\n".join(lines))
            keys.append((name, run, list(order)))
            texts.append(asker.chat(text) if prompt.chat else text)
    found = []
    replies = asker.generate(texts, max_new_tokens=max_new_tokens)
    for (name, run, order), reply in zip(keys, replies, strict=True):
        read = parse_listwise(reply[0].text, len(order))
        row = {"id": name, "run": run, "order": label([order[place] for place in read.order])}
        repairs = {"missing": read.missing, "repeated": read.repeated, "out_of_range": read.out_of_range}
        found.append(row | repairs)
    return pd.DataFrame(found)


def first_tokens(
    reader: LanguageModel,
    questions: Sequence[Question],
    shown: Shown,
    orders: Orders,
    replies: Mapping[str, Sequence[str]],
    *,
    prompt: Prompt,
) -> dict[str, np.ndarray]:
    """How likely each order makes the first tokens of some replies.

    replies : per question id; each different first token is looked at once
    returns : per question id (orders, tokens + 1), rows of sum 1; the last column is what is left for all other tokens
    source  : MoI, appendix B and eq. 11. There all tokens of the vocabulary; one column for the rest makes a distance at most smaller
    """
    by_id = {question.id: question for question in questions}
    tokens = {
        name: list(dict.fromkeys(reader.encode(" " + reply, context=False)[0] for reply in said if reply))
        for name, said in replies.items()
    }
    keys = [
        (_filled(prompt, by_id[name], [shown[name][i] for i in order]), reader.tokenizer.decode([token]))
        for name, some in orders.items()
        for order in some
        for token in tokens[name]
    ]
    found = iter([values[0] for values in reader.log_likelihood(*map(list, zip(*keys, strict=True)))])
    tables = {}
    for name, some in orders.items():
        known = np.exp([[next(found) for _ in tokens[name]] for _ in some])
        tables[name] = np.hstack([known, np.maximum(0, 1 - known.sum(axis=1, keepdims=True))])
    return tables


def distances(probabilities: Mapping[str, np.ndarray], orders: Orders) -> pd.DataFrame:
    """The L1 distance of every two different orders of a question, and whether they begin with the same passage.

    returns : columns id, run (the pair), same_first (bool), distance (0 .. 2) and known (share of probability in the named tokens)
    source  : MoI, eq. 11 and Fig. 7

    >>> distances({"q": np.array([[0.5, 0.5], [0.25, 0.75]])}, {"q": [[0, 1], [1, 0]]})["distance"].item()
    0.5
    """
    found = []
    for name, table in probabilities.items():
        some = [list(order) for order in orders[name]]
        pairs = [(i, k) for i in range(len(some)) for k in range(i) if some[i] != some[k]]
        for run, (i, k) in enumerate(pairs):
            row = {"id": name, "run": run, "same_first": some[i][0] == some[k][0]}
            row["distance"] = float(np.abs(table[i] - table[k]).sum())
            found.append(row | {"known": float(1 - (table[i, -1] + table[k, -1]) / 2)})
    return pd.DataFrame(found)


# --- from saliencies to rankings -------------------------------------------------------------------


def problems(
    table: pd.DataFrame, *conditions: str, prior: bool = False, form: str = "log"
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Orders and scores of each question, from the rows of some conditions: what `moi.fit` takes.

    table : as `saliencies` returns it
    prior : whether the factor of the passages counts; form: as in `moi.saliency`
    """
    for condition in conditions:
        check_name("condition", condition, table["condition"].unique())
    found = {}
    for name, part in table[table["condition"].isin(conditions)].groupby("id", sort=False):
        orders = np.array([parse(order) for order in part["order"]])
        found[name] = (orders, moi.saliency(part["query"], part["passages"] if prior else None, prior=prior, form=form))
    return found


def fitted(
    table: pd.DataFrame,
    *conditions: str,
    size: int,
    prior: bool = False,
    form: str = "log",
    sign: str = "free",
    starts: int = 8,
    seed: int = 0,
) -> pd.DataFrame:
    """`moi.fit` to each question: one row each.

    sign    : "pointwise prior" takes the log-likelihood of the question after each passage alone, from the rows "alone"
    returns : columns id, order (the ranking), a1, a2, ... (position coefficients), residual, identified (0 or 1), jacobian (its rank)
              and rankings (how many different ones fitted equally well)
    """
    alone = {name: scores for name, (_, scores) in problems(table, ALONE).items()}
    found = []
    for name, (orders, scores) in problems(table, *conditions, prior=prior, form=form).items():
        pointwise = alone[name] if sign == "pointwise prior" else None
        fit = moi.fit(orders, scores, size, sign=sign, pointwise=pointwise, starts=starts, rng=seed)
        row = {"id": name, "order": label(moi.rerank(fit.utility))}
        row |= {f"a{place}": float(value) for place, value in enumerate(fit.position, 1)}
        row |= {"residual": fit.residual, "identified": int(fit.identified), "jacobian": fit.rank}
        found.append(row | {"rankings": fit.rankings})
    return pd.DataFrame(found)


def pooled_position(
    problems: Sequence[tuple[np.ndarray, np.ndarray]], size: int, *, starts: int = 4, seed: int = 0
) -> tuple[np.ndarray, float]:
    """One position for all questions, each with utilities of its own: (position, root mean square of what is left).

    problems : per question orders (m, L) and scores (m,)
    source   : ours; `moi.fit` with passages numbered through finds the same, slower
    """
    length = problems[0][0].shape[1]

    def left(position: np.ndarray) -> np.ndarray:
        return np.append(_left(problems, size, position), position.sum() - 1)

    begins = [np.full(length, 1 / length), *np.random.default_rng(seed).dirichlet(np.ones(length), starts - 1)]
    ends = [least_squares(left, begin, bounds=(0, np.inf)).x for begin in begins]
    best = min((end / end.sum() for end in ends), key=lambda end: left_over(problems, size, end))
    return best, left_over(problems, size, best)


def left_over(problems: Sequence[tuple[np.ndarray, np.ndarray]], size: int, position: np.ndarray) -> float:
    """Root mean square of the scores that this position leaves unexplained, each question with its best utilities."""
    return float(np.sqrt(np.mean(_left(problems, size, position) ** 2)))


def calibrated(
    table: pd.DataFrame, position: np.ndarray, *, size: int, condition: str = SHORT, prior: bool = False
) -> dict[str, list[list[int]]]:
    """The ranking by the utilities that a known position gives to the cyclic orders of each question; one order in a list."""
    return {
        name: [moi.rerank(moi.solve_utility(orders, scores, size, position)).tolist()]
        for name, (orders, scores) in problems(table, condition, prior=prior).items()
    }


def rankings(table: pd.DataFrame, *, size: int, seed: int = 0) -> dict[str, dict[str, list[list[int]]]]:
    """Who ranks how, from the saliencies: each method's order of each question, in a list.

    table   : as `saliencies` returns it, with `prior`, conditions "alone" and "pruned"
    returns : "retriever"; pointwise "QG" (question given the passage), "Bayes saliency" (times the passage's own probability) and
              "LongLLMLingua"; "MoI" (the fit to random prefixes, without the prior) and "MoI, prior"
    source  : MoI, eq. 1, section 3.1 and appendix C
    """
    alone = table[table["condition"] == ALONE]
    found: dict[str, dict] = {name: {} for name in ("retriever", "QG", "Bayes saliency", "LongLLMLingua")}
    for name, part in alone.groupby("id", sort=False):
        query, passages = part["query"].to_numpy(), part["passages"].to_numpy()
        information = part["information"].to_numpy()
        found["retriever"][name] = [list(range(size))]
        for method, scores in {"QG": query, "Bayes saliency": query + passages, "LongLLMLingua": information}.items():
            found[method][name] = [moi.rerank(scores).tolist()]
    for method, prior in {"MoI": False, "MoI, prior": True}.items():
        fits = fitted(table, PRUNED, size=size, prior=prior, starts=4, seed=seed)
        found[method] = {row.id: [parse(row.order)] for row in fits.itertuples()}
    return found


def reversed_orders(orders: Orders) -> dict[str, list[list[int]]]:
    """The same orders from the last passage to the first."""
    return {name: [list(order)[::-1] for order in some] for name, some in orders.items()}


# --- data sets -------------------------------------------------------------------------------------


class _KeyValues(rows.Row):
    ordered_kv_records: rows.Some[list[rows.Text]]
    key: rows.Text
    value: rows.Text


def key_values(n: int, size: int, *, seed: int = 0) -> tuple[list[Question], Shown]:
    """Questions for the value of a key among `size` keys, the wanted one at a random place.

    source : the key-value retrieval of Liu et al. 2024; each record becomes a passage of its own
    """
    questions, shown = [], {}
    for number, (where, row) in enumerate(rows.lines(manifest.locate("kv_retrieval"))):
        if number == n:
            break
        item = rows.check(_KeyValues, row, where)
        rng = np.random.default_rng([seed, number])
        records = [record for record in item.ordered_kv_records if record[0] != item.key][: size - 1]
        name = data.question_id(item.key)
        gold, *others = [
            Passage(f"{name}-{i}", "", f"Key {key} has the value {value}.")
            for i, (key, value) in enumerate([(item.key, item.value), *records])
        ]
        text = f"which value has key {item.key}"
        questions.append(Question(name, text, (item.value,), "kv_retrieval", (gold,), tuple(others)))
        shown[name] = tuple(np.array([gold, *others], dtype=object)[rng.permutation(size)])
    return questions, shown


def benchmark_passages(name: str, n: int, size: int, *, seed: int = 0) -> tuple[list[Question], Shown]:
    """The first questions of a benchmark and what they are shown: their own paragraphs for HotpotQA, gold and hard negatives for NQ.

    returns : questions with `size` passages each in BM25's order; HotpotQA's with another number of paragraphs are left out
    """
    if name == "kv_retrieval":
        return key_values(n, size, seed=seed)
    if name == "hotpotqa":
        every = sample(name, len(data.load(name)))
        questions = [q for q in every if len(q.gold) + len(q.distractors) == size][:n]
        pool = retrieve.own_passages
    else:
        questions = sample(name, n)
        negatives = retrieve.hard_negatives(questions, data.passages(name), k=size - 1)
        own = {q.id: (*q.gold[:1], *negatives[q.id]) for q in questions}

        def pool(question: Question) -> Sequence[Passage]:
            return own[question.id]

    run = retrieve.bm25(questions, pool, k=size)
    shown = {}
    for question in questions:
        by_id = {passage.id: passage for passage in pool(question)}
        ranked = ranking(run[question.id])
        rest = sorted(set(by_id) - set(ranked))
        shown[question.id] = tuple(by_id[one] for one in [*ranked, *rest])
    return questions, shown


def benchmark(
    reader: LanguageModel,
    name: str,
    n: int,
    *,
    prompt: Prompt,
    size: int = 5,
    prefix: int = 3,
    orders: int = 12,
    answer: bool = False,
    max_new_tokens: int = 24,
    seed: int = 0,
) -> tuple[pd.DataFrame, dict]:
    """Saliencies on a public benchmark and, with `answer`, the answers to each method's order: numbers per question only.

    returns : (rows as of `saliencies` and of `answered`, the latter with condition "answer METHOD" and without the reply; what they were
              measured with). The answers to cyclic orders stand for the average order
    """
    questions, shown = benchmark_passages(name, n, size, seed=seed)
    ids = [question.id for question in questions]
    sets = propose(ids, size, (ALONE, PRUNED), prefix=prefix, orders=orders, seed=seed)
    table = saliencies(reader, questions, shown, sets, prompt=prompt)
    gold = {question.id: gold_places(question, shown) for question in questions}
    if answer:
        ranked = rankings(table, size=size, seed=seed)
        ranked["MoI, reversed"] = reversed_orders(ranked["MoI"])
        for where in ("first", "middle", "last"):
            ranked[f"gold {where}"] = {one: [with_gold(size, places, where)] for one, places in gold.items()}
        ranked[CYCLIC] = {one: moi.cyclic_orders(size).tolist() for one in gold}
        said = answered(reader, questions, shown, ranked, prompt=prompt, max_new_tokens=max_new_tokens)
        said = pd.concat([said, votes(said, questions)], ignore_index=True).drop(columns="reply")
        said["condition"] = "answer " + said["condition"].str.replace(",", "")
        table = pd.concat([table, said], ignore_index=True)
    entry = manifest.entries()[name]
    facts = {"reader": reader.name, "fingerprint": reader.fingerprint, "prompts": {prompt.name: prompt.digest}}
    facts |= {"size": size, "prefix": prefix, "orders": orders, "seed": seed, "questions": len(questions)}
    return table, facts | {"source": entry.source, "sha256": entry.sha256}


# --- simulation ------------------------------------------------------------------------------------


def tried(
    kind: str, *, size: int = 5, prefix: int = 3, times: int = 12, starts: int = 4, seed: int = 0
) -> pd.DataFrame:
    """Problems without noise and with known truth: does a fit find the ranking, and does it say whether it could?

    kind    : "random full" (3 N orders), "cyclic", "cyclic pruned", "pruned" (3 N), "pruned, too few" (N), "pruned, equal"
    returns : columns id, condition (the kind), identified, right and opposite (0 or 1: the ranking is the true one, is its reverse)
    """
    kinds = ("random full", "cyclic", "cyclic pruned", "pruned", "pruned, too few", "pruned, equal")
    check_name("kind", kind, kinds)
    found = []
    for number in range(times):
        rng = np.random.default_rng([seed, number])
        utility = np.ones(size) if kind == "pruned, equal" else rng.normal(size=size)
        short = None if kind in ("random full", "cyclic") else prefix
        if kind.startswith("cyclic"):
            orders = moi.cyclic_orders(size, prefix=short)
        else:
            orders = moi.random_orders(size, size if "few" in kind else 3 * size, prefix=short, rng=rng)
        position = rng.dirichlet(np.full(orders.shape[1], 3.0))
        fit = moi.fit(orders, moi.predict(orders, position, utility), size, starts=starts, rng=rng)
        tau = _tau(fit.utility, utility)
        row = {"id": f"p{number}", "condition": kind.replace(",", ""), "identified": int(fit.identified)}
        found.append(row | {"right": int(tau > 0.999), "opposite": int(tau < -0.999)})
    return pd.DataFrame(found)


def recovered(
    noise: float, *, rising: bool, size: int = 5, prefix: int = 3, dev: int = 14, times: int = 12, seed: int = 0
) -> pd.DataFrame:
    """Problems with noise and known truth: Kendall's tau of each way's utilities with the true ones.

    noise   : standard deviation of the error of a score, in standard deviations of the scores without it
    rising  : whether the position coefficients rise toward the question or fall
    returns : columns id, condition (the way) and tau; 12 orders, but for "calibrated" N pruned cyclic ones and a position from `dev` other
              problems with 12 pruned random orders each
    """
    rng = np.random.default_rng([seed, int(rising), int(1000 * noise)])
    slope = np.linspace(1, 3, size) if rising else np.linspace(3, 1, size)
    long, short = slope / slope.sum(), np.interp(np.linspace(0, size - 1, prefix), np.arange(size), slope)
    short = short / short.sum()

    def observed(orders, position):
        utility = rng.normal(size=size)
        scores = moi.predict(orders, position, utility)
        return utility, scores + rng.normal(scale=noise * scores.std(), size=len(scores))

    others = []
    for _ in range(dev):
        orders = moi.random_orders(size, 12, prefix=prefix, rng=rng)
        others.append((orders, observed(orders, short)[1]))
    position, _ = pooled_position(others, size, seed=seed)
    found = []
    for number in range(times):
        full, pruned = moi.random_orders(size, 12, rng=rng), moi.random_orders(size, 12, prefix=prefix, rng=rng)
        cyclic = moi.cyclic_orders(size, prefix=prefix)
        utility, scores = observed(full, long)
        alone = utility + rng.normal(scale=1.0, size=size)
        tau = {
            "full, free": moi.fit(full, scores, size, starts=2, rng=rng).utility,
            "full, decreasing": moi.fit(full, scores, size, sign="decreasing position", starts=2, rng=rng).utility,
            "full, pointwise": moi.fit(
                full, scores, size, sign="pointwise prior", pointwise=alone, starts=2, rng=rng
            ).utility,
        }
        tau = {way: _tau(guess, utility) for way, guess in tau.items()}
        utility, scores = observed(pruned, short)
        tau["pruned"] = _tau(moi.fit(pruned, scores, size, starts=4, rng=rng).utility, utility)
        utility, scores = observed(cyclic, short)
        tau["calibrated"] = _tau(moi.solve_utility(cyclic, scores, size, position), utility)
        found += [{"id": f"p{number}", "condition": way.replace(",", ""), "tau": value} for way, value in tau.items()]
    return pd.DataFrame(found)


def _left(problems, size: int, position: np.ndarray) -> np.ndarray:
    """Model minus score of every order, each question with its best utilities."""
    parts = []
    for orders, scores in problems:
        weights = np.einsum("l,mln->mn", position, np.eye(size)[orders])
        parts.append(weights @ (np.linalg.pinv(weights, rcond=1e-7) @ scores) - scores)
    return np.concatenate(parts)


def _tau(guess: np.ndarray, truth: np.ndarray) -> float:
    """Kendall's tau, 0 where one of them is constant."""
    constant = np.ptp(guess) < 1e-9 or np.ptp(truth) < 1e-9
    return 0.0 if constant else float(kendalltau(guess, truth).statistic)


def _filled(prompt: Prompt, question: Question, passages: Sequence[Passage]) -> str:
    return prompt.fill(question=question.text, documents=[passage.text for passage in passages])


def _judged(reply: str, question: Question) -> dict:
    """A reply, whether nothing is left of it, and its scores."""
    scores = {name: float(score(reply, list(question.answers))) for name, score in SCORES.items()}
    return {"reply": reply, "unparsable": int(not answers.normalize(reply))} | scores
