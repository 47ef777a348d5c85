"""Writes this lab's data from what chapters 7 and 8 recorded: scores of orders, and whether the reader's replies were right. No model runs.

usage: python labs/moi/make_data.py

salt.json    : q031 of the companion corpus, its five passages, fifteen pruned orders and how likely each makes the question
corpus.json  : the questions of chapter 7 with the scores of their orders, the position of the book's fit, and right or wrong by order
cheaper.json : the questions of chapter 8 with the rankings of the paper's orders and of pruned ones, and right or wrong by order
"""

import json
from pathlib import Path

import pandas as pd

from experiments.moi_cheaper import cheaper_numbers
from experiments.moi_position import position_numbers, rerankers
from experiments.orders import companion_passages
from rag_utils import data, lm, moi, prompts
from rag_utils.base.cache import ROOT
from rag_utils.measures import moi as measure

LAB = Path(__file__).resolve().parent
DATA, RESULTS = LAB / "data", ROOT / "data" / "results"
POSITION, CHEAPER = "07_moi_position", "08_moi_cheaper"
READ_PROMPT, SALT, SIZE, PREFIX, SEED, TOKENS = "read_plain", "q031", 5, 3, 0, 24
QUESTIONS = {"single": 36, "bridge": 32, "comparison": 12}
ORDERS, IN_FULL = 12, 12  # pruned orders of a question; questions that were read in full orders too
FROM_CHEAPER = {"3N random": "3N full orders", "N cyclic": "N cyclic orders", "3N pruned": "3N pruned orders"}
# P(1829) with the right passage at place 1 to 6 of all six, rounded. Of these calls only the first is recorded, by the ECoRAG lab.
BY_PLACE = (0.26, 0.06, 0.009, 0.009, 0.001, 0.70)
PLACES = ("first", "middle", "last")
DECIMALS = 3


def main() -> None:
    write("salt", [salt()])
    write("corpus", corpus())
    write("cheaper", cheaper())


def write(name: str, questions: list[dict]) -> None:
    reader, form = lm.load("embedded"), prompts.load(READ_PROMPT)
    head = {"reader": reader.fingerprint, "prompts": {form.name: form.digest}, "licence": "CC0 1.0"}
    lines = ",\n".join(json.dumps(question, ensure_ascii=False) for question in questions)
    text = json.dumps({"made_with": head}, ensure_ascii=False)[:-1] + ', "questions": [\n' + lines + "\n]}\n"
    (DATA / f"{name}.json").write_text(text, encoding="utf-8")


def salt() -> dict:
    """The running question: chapter 8 read fifteen pruned orders of it to teach its student."""
    [question] = [question for question in data.load("companion") if question.id == SALT]
    shown, _ = companion_passages([question], SIZE)
    rows = pd.read_csv(RESULTS / CHEAPER / "teacher.csv")
    rows = rows[(rows["id"] == SALT) & (rows["condition"] == "train")]
    return {
        "id": SALT,
        "question": question.text,
        "answers": list(question.answers),
        "passages": [passage.id for passage in shown[SALT]],
        "texts": [passage.text for passage in shown[SALT]],
        "gold": measure.gold_places(question, shown),
        **scores(rows, ["query"]),
        "by_place": list(BY_PLACE),
    }


def corpus() -> list[dict]:
    """The questions of chapter 7, whose calls are asked for as its page does."""
    parts = [position_numbers.chosen(kind, n) for kind, n in QUESTIONS.items()]
    asked, in_full = [question for part in parts for question in part], position_numbers.spread(parts[0], IN_FULL)
    shown, _ = companion_passages(asked, SIZE)
    ids = [question.id for question in asked]
    lengths = {"alone": 1, "pruned": PREFIX, "cyclic": SIZE, "cyclic pruned": PREFIX}
    sets = measure.propose(ids, SIZE, lengths, drawn=ORDERS, seed=SEED)
    seeds = {question.id: [SEED, number, 1] for number, question in enumerate(in_full)}
    more = {"full": {name: moi.random_orders(SIZE, 3 * SIZE, rng=rng) for name, rng in seeds.items()}}
    reader, form = lm.load("embedded", chapter=POSITION), prompts.load(READ_PROMPT)
    table = measure.saliencies(reader, asked, shown, sets, prompt=form)
    full = measure.saliencies(reader, in_full, shown, more, prompt=form, prior=False)
    fits = pd.read_csv(RESULTS / POSITION / "fits.csv")
    fits = fits[(fits["condition"] == "companion") & (fits["run"] == 0)].set_index("id")
    gold = {question.id: measure.gold_places(question, shown) for question in asked}
    placed = {place: {name: [rerankers.with_gold(SIZE, gold[name], place)] for name in ids} for place in PLACES}
    ways = {"MoI": measure.ranked(fits.reset_index()), "cyclic": sets["cyclic"], **placed}
    ways |= {"reversed": rerankers.reversed_orders(ways["MoI"])}
    alone = table[table["condition"] == "alone"].groupby("id")["query"].agg(list)
    ways |= {"alone": {name: [moi.rerank(alone[name]).tolist()] for name in ids}}
    right = right_of(reader, asked, shown, ways)
    rows = []
    for question in asked:
        own, name = table[table["id"] == question.id], question.id
        row = {"id": name, "question": question.text, "type": question.type, "gold": gold[name]}
        row |= {"pruned": scores(own[own["condition"] == "pruned"], ["query", "passages"])}
        row |= {each: scores(own[own["condition"] == each], ["query"]) for each in ("cyclic", "cyclic pruned")}
        if name in seeds:
            row["full"] = scores(full[full["id"] == name], ["query"])
        row["alone"] = [round(value, DECIMALS) for value in alone[name]]
        row["position"] = fits.loc[name, ["a1", "a2", "a3"]].tolist()
        row["placed"] = {place: list(map(int, placed[place][name][0])) for place in PLACES}
        rows.append(row | {"right": right[name]})
    return rows


def cheaper() -> list[dict]:
    """The test questions of chapter 8: the rankings that it kept, and the five cyclic orders."""
    parts, shown, _ = cheaper_numbers.corpus(SIZE)
    asked = parts["test"]
    ranked = pd.read_csv(RESULTS / CHEAPER / "rankings.csv")
    ways = {way: measure.ranked(ranked[ranked["condition"] == way]) for way in FROM_CHEAPER}
    ways["average order"] = {question.id: moi.cyclic_orders(SIZE).tolist() for question in asked}
    right = right_of(lm.load("embedded", chapter=CHEAPER), asked, shown, ways)
    rows = []
    for question in asked:
        orders = {FROM_CHEAPER.get(way, way): own[question.id] for way, own in ways.items()}
        row = {"id": question.id, "gold": measure.gold_places(question, shown), "orders": orders}
        rows.append(row | {"right": right[question.id]})
    return rows


def right_of(reader, asked, shown, ways) -> dict[str, dict[str, int]]:
    """Per question each order that it was asked with and whether the reply was right."""
    said = measure.answered(reader, asked, shown, ways, prompt=prompts.load(READ_PROMPT), max_new_tokens=TOKENS)
    said = said.drop_duplicates(["id", "order"])
    return {
        name: dict(zip(part["order"], part["exact_match"].astype(int).tolist(), strict=True))
        for name, part in said.groupby("id", sort=False)
    }


def scores(rows: pd.DataFrame, factors: list[str]) -> dict[str, list]:
    """Orders and their scores, as lists."""
    numbers = {factor: [round(value, DECIMALS) for value in rows[factor].tolist()] for factor in factors}
    return {"orders": [measure.parse(order) for order in rows["order"]], **numbers}


if __name__ == "__main__":
    main()
