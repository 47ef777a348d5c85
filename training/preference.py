"""Teach a language model the reader's preferences among orders of passages (MoI, section 3.3.2), as a low-rank adapter.

    python training/preference.py --student workstation --out adapter

The teacher's scores of the companion's questions of the split "train" are committed with chapter 08; no teacher is run. Settings are by
default those of MoI, appendix A: rank 8, alpha 32, dropout 0.1, rate 1e-4, 4 questions a step, 5 epochs, weight decay 0.01. The state is
saved every few steps; a run that was interrupted goes on where it was. The adapter is saved as peft does and can be named in a profile.
"""

import argparse
from pathlib import Path

from experiments import results
from experiments.moi_cheaper import preference
from experiments.moi_position import permutations, positions
from rag_utils import data, prompts, retrieve
from rag_utils.base.cache import ROOT
from rag_utils.engine import profiles, weights

CHAPTER, SCORES, SIZE = "08_moi_cheaper", "teacher", 5
READ = prompts.load("read_plain")


def settings(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--student", default="embedded-base", help="profile of the model to teach")
    parser.add_argument("--orders", type=int, default=8, help="per question and step")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--limit", type=int, default=None, help="train on that many questions only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, default=ROOT / "_build" / "preference", help="where a run is kept")
    parser.add_argument("--out", type=Path, required=True, help="folder of the adapter")
    return parser.parse_args(given)


def examples(limit: int | None = None) -> list[preference.Example]:
    """The committed scores with the prompts they are of."""
    table = results.load(CHAPTER, SCORES)[0].query("condition == 'train'")
    pool = data.passages("companion")
    questions = {question.id: question for question in data.load("companion")}
    asked = [questions[name] for name in dict.fromkeys(table["id"])][:limit]
    run = retrieve.bm25(asked, pool, k=30)
    shown = permutations.candidates(asked, run, {passage.id: passage for passage in pool}, size=SIZE)
    found = []
    for question in asked:
        part = table[table["id"] == question.id]
        orders = [[shown[question.id][place] for place in permutations.parse(order)] for order in part["order"]]
        contexts = tuple(positions.question_context(READ, passages) for passages in orders)
        found.append(preference.Example(contexts, " " + question.text, tuple(part["query"])))
    return found


def main(given: argparse.Namespace) -> list[float]:
    loaded = weights.load(profiles.get(given.student))
    recipe = {"orders": given.orders, "epochs": given.epochs, "batch": given.batch, "learning_rate": given.rate}
    model, losses = preference.train(
        loaded.model, loaded.tokenizer, examples(given.limit), **recipe, seed=given.seed, folder=given.state
    )
    model.save_pretrained(given.out)
    print(f"loss {losses[0]:.3f} at the first step, {losses[-1]:.3f} at the last of {len(losses)}")
    return losses


if __name__ == "__main__":
    main(settings())
