"""Answers by the place of the good passage, among three, five and six; fixed before any call: the questions of the printed form."""

from dataclasses import replace

from experiments import asking, benchmarks
from experiments.moi_position.position_numbers import shown_of
from rag_utils import prompts
from rag_utils.score.places import wandering


def places(*, mode, profile, prompt, dataset, questions, orders, max_new_tokens, few=None):
    """Rows of `score.places.wandering` without the reply, condition "cyclic SIZE"; settings as in `orders_read`, orders: sizes, seed."""
    reader, every, lists = asking.reader(profile, mode), [], {}
    for size in orders["sizes"]:  # asked together: contexts of several sizes begin alike
        asked, shown = shown_of(dataset, questions, {"size": size, "seed": orders["seed"]}, few)
        every += [replace(each, id=f"cyclic {size} {each.id}") for each in asked]
        lists |= {f"cyclic {size} {each.id}": shown[each.id] for each in asked}
    rows = wandering(reader, every, lists, prompt=prompts.load(prompt), max_new_tokens=max_new_tokens).drop(columns="reply")
    rows["condition"], rows["id"] = zip(*rows["id"].str.rsplit(" ", n=1), strict=True)
    return rows, asking.facts(reader=reader) | {"questions": len(asked)} | benchmarks.source(dataset)
