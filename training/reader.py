"""Train the adapter that makes the embedded reader answer from a passage.

    RAG_COMPANION_DATA=/where/the/benchmarks/are python training/reader.py

Low-rank adaptation (LoRA, rank 8, every linear layer) of SmolLM2-135M-Instruct on Natural Questions with their gold passages. Every
question of the fixed quarter that `data.held_out` names stays unseen, and so does every passage that is gold for one of them. In half of
the examples one to three hard negatives stand beside the gold passage, so that the reader learns to look; half of the questions get a
capital letter and a question mark. The loss is on the answer alone. Weights and activations are bfloat16, the adapter and its optimiser
float32.

The state is saved every few steps as safetensors; a run that was interrupted goes on where it was.
"""

import argparse
import json
import random
from math import cos, pi
from pathlib import Path

import adapter
import state
import torch
from safetensors.torch import save_file

from rag_utils import data, prompts, retrieve
from rag_utils.answers import normalize
from rag_utils.base.cache import ROOT, make_dir
from rag_utils.base.progress import track
from rag_utils.engine import profiles, weights

OUT = ROOT / "data" / "reader"
PROMPT = prompts.load("read_plain")
MULTIPLE = 32  # lengths are padded to one, so that few shapes occur and their memory is used again
PART = 4  # examples whose activations are held at once on a processor
NOT_IN_RUN = ("state", "out", "save_every")  # settings that change nothing of what is trained


def settings(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16, help="examples per step")
    parser.add_argument("--rate", type=float, default=6e-4, help="highest learning rate")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--development", type=int, default=128, help="questions kept from training for the learning curve")
    parser.add_argument("--two-passages", type=float, default=0.5, help="share of examples with a hard negative")
    parser.add_argument("--negatives", type=int, default=3, help="hard negatives beside the gold passage, at most")
    parser.add_argument("--dropout", type=float, default=0.1, help="of the adapter's inputs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=None, help="train on that many questions only")
    parser.add_argument("--save-every", type=int, default=20, help="steps")
    parser.add_argument("--state", type=Path, default=ROOT / "_build" / "reader", help="where an interrupted run is kept")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(given)


def questions(development: int, limit: int | None) -> tuple[list, list]:
    """Training and development questions in the order of their hash: never a held-out question, nor one on its passage."""
    everything = sorted(data.load("nq"), key=lambda question: data.question_id(question.text))
    unseen = {passage.id for question in everything if data.held_out(question.text) for passage in question.gold}
    usable = [
        question for question in everything if not data.held_out(question.text) and not unseen & {passage.id for passage in question.gold}
    ]
    return usable[development:][:limit], usable[:development]


def target(question: data.Question) -> str:
    """The accepted answer that stands in the gold passage, if one does: the first of them in the passage's own spelling."""
    text = question.gold[0].text
    for answer in question.answers:
        start = text.lower().find(answer.lower())
        if start >= 0 and normalize(answer):
            return text[start : start + len(answer)]
    return question.answers[0]


def example(question, negatives, tokenizer, *, two_passages: float, rng: random.Random) -> tuple[list[int], list[int]]:
    """Tokens of the prompt and of the answer, with chance deciding what stands beside the gold passage and how the question is spelled."""
    shown = [question.gold[0].text]
    if negatives and rng.random() < two_passages:
        for negative in negatives[: rng.randint(1, len(negatives)) if len(negatives) > 1 else 1]:
            shown.insert(rng.randrange(len(shown) + 1), negative.text)
    text = question.text
    if rng.random() < 0.5:
        text = text[:1].upper() + text[1:].rstrip("?") + "?"
    prompt = PROMPT.fill(question=text, documents=shown)
    return tokenizer(prompt)["input_ids"], tokenizer(f" {target(question)}\n")["input_ids"]


def answer_loss(model, batch) -> torch.Tensor:
    """(examples,) the mean over the answer's tokens, in nats; logits only where they are needed."""
    hidden, losses = hidden_states(model, batch), []
    for row, (prompt, answer) in enumerate(batch):
        logits = model.get_base_model().lm_head(hidden[row, len(prompt) - 1 : len(prompt) + len(answer) - 1]).float()
        losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor(answer, device=logits.device)))
    return torch.stack(losses)


def hidden_states(model, batch) -> torch.Tensor:
    """(examples, longest, size): the last layer's states of prompts with their answers but for the last token, padded behind."""
    longest = max(len(prompt) + len(answer) for prompt, answer in batch) - 1
    longest = -(-longest // MULTIPLE) * MULTIPLE
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, (prompt, answer) in enumerate(batch):
        tokens = (prompt + answer)[:-1]
        ids[row, : len(tokens)], mask[row, : len(tokens)] = torch.tensor(tokens), 1
    return model.get_base_model().model(input_ids=ids.to(model.device), attention_mask=mask.to(model.device)).last_hidden_state


class Dropout(torch.nn.Module):
    """`torch.nn.Dropout` to the nearest 1/256, from one random byte a number: a processor draws them one by one otherwise."""

    def __init__(self, share: float):
        super().__init__()
        self.cut = round(256 * share)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return x
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device).random_(-(2**63), None)
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.cut
        return x * (kept * (256 / (256 - self.cut))).to(x.dtype)


def batches(examples: list, size: int, rng: random.Random) -> list[list]:
    """Batches of about equal length, in random order: little padding, no drift from short to long."""
    order = sorted(range(len(examples)), key=lambda i: (len(examples[i][0]) // 64, rng.random()))
    cut = [[examples[i] for i in part] for part in state.parts(order, size)]
    rng.shuffle(cut)
    return cut


def planned(examples_of, chosen: argparse.Namespace) -> list[list]:
    """Every batch of every epoch, decided by the seed before the first step.

    examples_of : generator of random numbers -> the examples of an epoch
    """
    plan = []
    for epoch in range(chosen.epochs):
        rng = random.Random(f"{chosen.seed}-{epoch}")
        plan += batches(examples_of(rng), chosen.batch, rng)
    return plan


def rate(step: int, steps: int) -> float:
    """Share of the highest learning rate: it rises for a twentieth of the steps and falls as a cosine."""
    return min((step + 1) / max(1, steps // 20), 0.5 * (1 + cos(pi * step / steps)) + 0.01)


def development_loss(model, probe: list, loss) -> float:
    model.eval()
    with torch.no_grad():
        losses = [loss(model, part) for part in batches(probe, 32, random.Random(0))]
    model.train()
    return round(torch.cat(losses).mean().item(), 4)


def train(model, plan: list[list], probe: list, chosen: argparse.Namespace, loss=answer_loss) -> list[dict]:
    """Train the adapter in place; how it went: the loss of each step and, four times an epoch, the loss on `probe`.

    loss : (model, some of the examples) -> (examples,)
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=chosen.rate, weight_decay=0.0)
    path, history = chosen.state / "state.safetensors", []
    run = state.digest({name: value for name, value in vars(chosen).items() if name not in NOT_IN_RUN}, plan, probe)
    if kept := state.load(path, run, optimizer):
        adapter.set_weights(model, kept[0]["adapter"])
        history = kept[1]
    first = sum("loss" in row for row in history)
    model.train()
    for [step] in track(([i] for i in range(first, len(plan))), what="training", total=len(plan) - first):
        if step % max(1, len(plan) // (4 * chosen.epochs)) == 0:
            history.append({"step": step, "development_loss": development_loss(model, probe, loss)})
        torch.manual_seed(1_000_003 * chosen.seed + step)  # dropout, the same after an interruption
        optimizer.param_groups[0]["lr"] = chosen.rate * rate(step, len(plan))
        total = 0.0
        for part in state.parts(plan[step], PART if model.device.type == "cpu" else len(plan[step])):
            with torch.autocast(model.device.type, torch.bfloat16):
                weighted = loss(model, part).sum() / len(plan[step])
            weighted.backward()
            total += weighted.item()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        history.append({"step": step, "loss": round(total, 4), "tokens": sum(len(p) + len(a) for p, a in plan[step])})
        if (step + 1) % chosen.save_every == 0:
            state.save(path, run, optimizer, {"adapter": adapter.weights(model)}, history)
    history.append({"step": len(plan), "development_loss": development_loss(model, probe, loss)})
    return history


def write(model, facts: dict, out: Path) -> None:
    """The adapter as peft reads it, in float16, and what it was made from."""
    tensors = {name: tensor.to(torch.float16).contiguous() for name, tensor in adapter.weights(model).items()}
    save_file(tensors, make_dir(out) / "adapter_model.safetensors", metadata={"format": "pt"})
    kept = {"r", "lora_alpha", "task_type", "peft_type", "bias", "lora_dropout"}
    config = {key: value for key, value in model.peft_config["default"].to_dict().items() if key in kept}
    config["target_modules"] = adapter.LINEAR
    text = json.dumps(config, indent=1, sort_keys=True, default=str)
    (out / "adapter_config.json").write_text(text + "\n", encoding="utf-8")
    (out / "training.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def main(given: list[str] | None = None) -> None:
    chosen = settings(given)
    torch.manual_seed(chosen.seed)
    asked, development = questions(chosen.development, chosen.limit)
    negatives = retrieve.hard_negatives(asked, data.passages("nq"), k=chosen.negatives, short="keep")
    loaded = weights.load(profiles.get("embedded-base"))
    model = adapter.adapted(loaded.model.to(torch.bfloat16), rank=chosen.rank, alpha=2 * chosen.rank, dropout=chosen.dropout)
    for module in model.modules():
        if chosen.dropout and hasattr(module, "lora_dropout"):
            module.lora_dropout["default"] = Dropout(chosen.dropout)

    def examples_of(rng: random.Random) -> list:
        how = {"two_passages": chosen.two_passages, "rng": rng}
        return [example(question, negatives[question.id], loaded.tokenizer, **how) for question in asked]

    alone = {"two_passages": 0, "rng": random.Random(chosen.seed)}
    probe = [example(question, None, loaded.tokenizer, **alone) for question in development]
    plan = planned(examples_of, chosen)
    history = train(model, plan, probe, chosen)
    facts = {
        "base": loaded.fingerprint,
        "data": "Natural Questions with gold passages, without the held-out quarter and its passages",
        "questions": len(asked),
        "development_questions": len(development),
        "settings": {key: value for key, value in vars(chosen).items() if key not in ("state", "out")},
        "steps": len(plan),
        "tokens": sum(row.get("tokens", 0) for row in history),
        "precision": "bfloat16, adapter float32, saved as float16",
        "history": history,
    }
    write(model, facts, chosen.out)


if __name__ == "__main__":
    main()
