"""Train the adapter with which the embedded reader judges whether two answers mean the same.

    RAG_COMPANION_DATA=/where/the/benchmarks/are python training/judge_reader.py

Low-rank adaptation of SmolLM2-135M-Instruct on the pairs of `pairs.py`: answers of five systems that people judged, golds with one part
changed, the companion's contrast pairs of the split "train", and pairs that are built so that their truth is known and how many words they
share says nothing. The model is asked in words (`data/prompts/same_answer.txt`) and learns to go on with Yes or No; which answer comes
first is drawn anew in every epoch. One fold of the judged questions is left out, to test on. Five minutes on a GPU with 80 GB; a processor
reads some 250 tokens a second so. A run that was interrupted goes on where it was, and `--start` goes on from an adapter that is there, as
the one in `data/judge/reader` was made, in two runs, of which the second learnt at three times the rate:

    python training/judge_reader.py --start data/judge/reader --rate 1.5e-3 --epochs 3
    python training/judge_reader.py --evaluate    # of the adapter that is there: minutes
"""

import argparse
import gzip
import json
import random
from pathlib import Path

import adapter
import changed
import judge as embedded
import numpy as np
import pairs
import reader
import torch
from safetensors.torch import load_file

from rag_utils import data, lm, prompts
from rag_utils.base.cache import ROOT
from rag_utils.engine import profiles, weights
from rag_utils.engine.wording import words
from rag_utils.judge import THRESHOLD, WORDS, EmbeddedJudge, Judge, ReaderJudge, fold

OUT = ROOT / "data" / "judge" / "reader"
PROMPT = prompts.load("same_answer")
WITHOUT = 0  # the fold that is not trained on


def settings(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=Path, help="what `pairs.py` wrote; by default it is asked")
    parser.add_argument("--start", type=Path, help="folder of an adapter to go on from")
    parser.add_argument("--evaluate", action="store_true", help="only try the adapter in --out")
    parser.add_argument("--limit", type=int, default=None, help="train on that many pairs only")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=256, help="pairs per step")
    parser.add_argument("--rate", type=float, default=5e-4, help="highest learning rate")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--development", type=int, default=1024, help="pairs kept from training for the learning curve")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=100, help="steps")
    parser.add_argument("--state", type=Path, default=ROOT / "_build" / "judge_reader", help="where an interrupted run is kept")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(given)


def example(row: dict, tokenizer, *, swapped: bool) -> tuple[list[int], list[int]]:
    """Tokens of the question whether the two answers mean the same, and of the word that is right."""
    left, right = (row["b"], row["a"]) if swapped else (row["a"], row["b"])
    word = WORDS[0 if row["y"] else 1]
    return tokenizer(PROMPT.fill(question=row["q"], left=left, right=right))["input_ids"], tokenizer(word)["input_ids"]


def verdict_loss(model, batch) -> torch.Tensor:
    """(pairs,) nats of the right word, which is one token."""
    hidden = reader.hidden_states(model, batch)
    last = torch.tensor([len(prompt) - 1 for prompt, _ in batch], device=hidden.device)
    logits = model.get_base_model().lm_head(hidden[torch.arange(len(batch), device=hidden.device), last]).float()
    right = torch.tensor([word for _, [word] in batch], device=hidden.device)
    return torch.nn.functional.cross_entropy(logits, right, reduction="none")


def called(judge: Judge, tried: list) -> dict[str, dict[str, int]]:
    """Of each category how many pairs there are, and how many the judge calls as they are."""
    said = judge.equivalent(*([getattr(pair, side) for pair in tried] for side in ("question", "left", "right")))
    counts: dict[str, dict[str, int]] = {}
    for pair, probability in zip(tried, said, strict=True):
        row = counts.setdefault(pair.category, {"n": 0, "judge": 0})
        row["n"], row["judge"] = row["n"] + 1, row["judge"] + int((probability > THRESHOLD) == pair.equivalent)
    return counts


def on_answers(judge: Judge, judged: list) -> dict[str, float]:
    """F1 and accuracy over the answers of all systems, each held against its golds, and how many answers that are."""
    flat = [(item, answer) for item in judged for answer in item.answers if answer.verdict is not None]
    asked = [(number, item.question, answer.text, gold) for number, (item, answer) in enumerate(flat) for gold in item.golds]
    numbers, *sides = zip(*asked, strict=True)
    best = np.zeros(len(flat))
    np.maximum.at(best, list(numbers), judge.equivalent(*map(list, sides)))
    return embedded.scores(best > THRESHOLD, np.array([answer.verdict for _, answer in flat])) | {"n": len(flat)}


class Undecided(Judge):
    """Leaves it to the reader: the same words mean the same, and of all else it knows nothing."""

    def equivalent(self, questions, left, right):
        said = zip(left, right, strict=True)
        return np.array([float(words(a) == words(b)) or (0.5 if a.strip() and b.strip() else 0.0) for a, b in said])


def evaluation(out: Path) -> dict:
    """What the adapter in that folder, the embedded judge, and both together say of pairs on which neither was trained."""
    profile = profiles.get("embedded-judge").model_copy(update={"adapter": str(out)})
    asked, judged = lm.load(profile, mode="live"), data.load_judged(embedded.SOURCE)
    judges = {"both": ReaderJudge(asked), "reader": ReaderJudge(asked, Undecided()), "embedded": EmbeddedJudge()}
    left_out = [item for item in judged if fold(item.question) == WITHOUT]
    contrast = [pair for pair in data.load_contrast() if pair.split == "test"]
    made = [pair for pair in changed.changed(judged) if fold(pair.question) == WITHOUT]
    return {
        "contrast_test": {name: called(each, contrast) for name, each in judges.items()},
        "answers": {name: on_answers(each, left_out) for name, each in judges.items()},
        "changed": {name: called(each, made) for name, each in judges.items()},
    }


def main(given: list[str] | None = None) -> None:
    chosen = settings(given)
    if not chosen.evaluate:
        train(chosen)
    facts = json.loads((chosen.out / "training.json").read_text()) | evaluation(chosen.out)
    (chosen.out / "training.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def train(chosen: argparse.Namespace) -> None:
    """Write the adapter, and what it was made from: `--start` keeps what is told of that adapter as "before"."""
    torch.manual_seed(chosen.seed)
    rows = [json.loads(line) for line in gzip.open(chosen.pairs, "rt", encoding="utf-8")] if chosen.pairs else pairs.rows()
    rows = [row for row in rows if row["fold"] != WITHOUT]
    random.Random(chosen.seed).shuffle(rows)
    probe, rows = rows[: chosen.development], rows[chosen.development :][: chosen.limit]
    loaded = weights.load(profiles.get("embedded-base"))
    model = adapter.adapted(loaded.model.to(torch.bfloat16), rank=chosen.rank, alpha=2 * chosen.rank, dropout=0.0)
    if chosen.start:
        adapter.set_weights(model, load_file(chosen.start / "adapter_model.safetensors"))

    def examples_of(rng: random.Random) -> list:
        """What counts less than one is left out as often."""
        return [example(row, loaded.tokenizer, swapped=rng.random() < 0.5) for row in rows if rng.random() < row["w"]]

    plan = reader.planned(examples_of, chosen)
    probed = [example(row, loaded.tokenizer, swapped=False) for row in probe]
    history = reader.train(model, plan, probed, chosen, loss=verdict_loss)
    facts = {
        "base": loaded.fingerprint,
        "data": "EVOUNA's answers on Natural Questions, without one fold of five, with changed golds, contrast pairs and built pairs",
        "pairs": len(rows),
        "development_pairs": len(probe),
        "without_fold": WITHOUT,
        "prompt": PROMPT.digest,
        "before": json.loads((chosen.start / "training.json").read_text()) if chosen.start else None,
        "settings": {key: value for key, value in vars(chosen).items() if key not in (*reader.NOT_IN_RUN, "pairs", "start", "evaluate")},
        "steps": len(plan),
        "tokens": sum(row.get("tokens", 0) for row in history),
        "precision": "bfloat16, adapter float32, saved as float16",
        "history": [row for row in history if "development_loss" in row],
    }
    reader.write(model, facts, chosen.out)


if __name__ == "__main__":
    main()
