"""Teach a language model the reader's preferences among orders of passages (MoI, section 3.3.2), as a low-rank adapter.

    python training/preference.py --student workstation --out adapter

The teacher's scores of the companion's questions of the split "train" are committed with chapter 08; no teacher is run. Settings are by
default those of MoI, appendix A: rank 8, alpha 32, dropout 0.1, rate 1e-4, 4 questions a step, 5 epochs, weight decay 0.01. The state is
saved every few steps; a run that was interrupted goes on where it was. The adapter is saved as peft does and can be named in a profile.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import adapter
import state
import torch

from experiments.moi_cheaper.preference import preference_loss
from experiments.orders import companion_passages
from experiments.table import kept
from rag_utils import data, prompts
from rag_utils.base import checks
from rag_utils.base.cache import ROOT
from rag_utils.base.progress import track
from rag_utils.engine import profiles, weights
from rag_utils.measures.moi import parse, question_context

CHAPTER, SCORES, SIZE = "08_moi_cheaper", "teacher", 5
READ = prompts.load("read_plain")


@dataclass(frozen=True)
class Example:
    """What a teacher says of one question.

    contexts : the prompt of each order up to where the question begins
    question : text, with the space before it
    scores   : the teacher's score of each order, nats
    """

    contexts: tuple[str, ...]
    question: str
    scores: tuple[float, ...]

    def __post_init__(self):
        checks.listed("scores", self.scores, least=2)
        checks.same_length(scores=self.scores, contexts=self.contexts)


@dataclass(frozen=True)
class Recipe:
    """How the student is trained, by default as the paper does.

    orders        : of a question and step, drawn anew in every epoch, at most those that it has. The paper names no number
    batch         : questions per step
    learning_rate : of AdamW, which is ours, as is the adapter on all linear layers: neither is named
    source        : MoI, section 3.3.2 and appendix A; there in bfloat16, here in the model's own precision
    """

    orders: int = 8
    epochs: int = 5
    batch: int = 4
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    adapter: dict = field(default_factory=lambda: {"rank": 8, "alpha": 32, "dropout": 0.1})
    seed: int = 0

    def __post_init__(self):
        checks.whole("orders", self.orders, least=2)
        for name in ("epochs", "batch"):
            checks.whole(name, getattr(self, name), least=1)
        checks.number("learning_rate", self.learning_rate, above=0)
        checks.number("weight_decay", self.weight_decay, low=0)
        checks.number("dropout", self.adapter["dropout"], low=0, high=0.99)


def order_scores(model, tokenizer, contexts: Sequence[str], question: str) -> torch.Tensor:
    """The student's score of each order: log-likelihood of the question's tokens after its context, summed.

    returns : (orders,) nats, with gradient
    source  : MoI, eq. 3, without the factor of the passages
    """
    asked = tokenizer(question, add_special_tokens=False).input_ids
    texts = [[*tokenizer(context).input_ids, *asked] for context in contexts]
    longest = max(map(len, texts))
    ids = torch.zeros(len(texts), longest, dtype=torch.long, device=model.device)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(texts):
        ids[row, : len(tokens)], mask[row, : len(tokens)] = torch.tensor(tokens), 1
    logits = model(input_ids=ids, attention_mask=mask).logits
    scores = []
    for row, tokens in enumerate(texts):
        before = logits[row, len(tokens) - len(asked) - 1 : len(tokens) - 1].float()
        said = torch.log_softmax(before, dim=-1)
        scores.append(said[torch.arange(len(asked)), torch.tensor(asked, device=said.device)].sum())
    return torch.stack(scores)


def train(
    model,
    tokenizer,
    examples: Sequence[Example],
    recipe: Recipe | None = None,
    *,
    folder: Path | None = None,
    save_every: int = 20,
    progress: Callable = track,
):
    """Give the model a low-rank adapter and teach it the teacher's preferences.

    model   : causal language model of transformers with linear layers named as in Llama; its own weights stay as they are
    recipe  : by default the paper's
    folder  : where the run is kept every `save_every` steps and at its end. An interrupted run that is called again with the same model and
              arguments goes on from there, and ends as if it had never stopped
    returns : (model with adapter, loss of each step in nats)
    raises  : ValueError for bad arguments, or as `state.load`
    """
    recipe, examples = recipe or Recipe(), checks.listed("examples", examples)
    checks.whole("save_every", save_every, least=1)
    plan, losses = state.steps(len(examples), epochs=recipe.epochs, batch=recipe.batch, seed=recipe.seed), []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = adapter.adapted(model, **recipe.adapter)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    path, run = Path(folder or ".") / "state.safetensors", state.digest(recipe, examples)
    if folder is not None and (kept := state.load(path, run, optimizer)):
        adapter.set_weights(model, kept[0]["adapter"])
        losses = kept[1]
    model.train()
    with torch.random.fork_rng(devices=[]):
        for places in progress(plan[len(losses) :], what="training", total=sum(map(len, plan[len(losses) :]))):
            rng = random.Random(f"{recipe.seed}-{len(losses)}-orders")
            torch.manual_seed(rng.getrandbits(63))  # dropout, alike after a stop
            losses.append(_step(model, tokenizer, [examples[place] for place in places], recipe.orders, rng))
            optimizer.step()
            optimizer.zero_grad()
            if folder is not None and (len(losses) % save_every == 0 or len(losses) == len(plan)):
                state.save(path, run, optimizer, {"adapter": adapter.weights(model)}, losses)
    model.eval()
    return model, losses


def _step(model, tokenizer, examples: Sequence[Example], orders: int, rng: random.Random) -> float:
    """Add the gradient of the mean loss of some examples, each with orders of its own drawn; the loss, nats."""
    total = 0.0
    for example in examples:
        drawn = rng.sample(range(len(example.scores)), min(orders, len(example.scores)))
        said = order_scores(model, tokenizer, [example.contexts[place] for place in drawn], example.question)
        wanted = torch.tensor([example.scores[place] for place in drawn], device=said.device)
        loss = preference_loss(said, wanted) / len(examples)
        loss.backward()
        total += loss.item()
    return total


# --- the script ------------------------------------------------------------------------------------


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


def committed(limit: int | None = None) -> list[Example]:
    """The committed scores with the prompts they are of."""
    table = kept(CHAPTER, SCORES).rows.query("condition == 'train'")
    questions = {question.id: question for question in data.load("companion")}
    asked = [questions[name] for name in dict.fromkeys(table["id"])][:limit]
    shown, _ = companion_passages(asked, SIZE)
    examples = []
    for question in asked:
        part = table[table["id"] == question.id]
        orders = [[shown[question.id][place] for place in parse(order)] for order in part["order"]]
        contexts = tuple(question_context(READ, passages) for passages in orders)
        examples.append(Example(contexts, " " + question.text, tuple(part["query"])))
    return examples


def main(given: argparse.Namespace) -> list[float]:
    loaded = weights.load(profiles.get(given.student))
    recipe = Recipe(given.orders, given.epochs, given.batch, given.rate, seed=given.seed)
    model, losses = train(loaded.model, loaded.tokenizer, committed(given.limit), recipe, folder=given.state)
    model.save_pretrained(given.out)
    print(f"loss {losses[0]:.3f} at the first step, {losses[-1]:.3f} at the last of {len(losses)}")
    return losses


if __name__ == "__main__":
    main(settings())
