"""Mine labels of evidence with the reader, and train the heads and the evaluator of the compressor on them.

    python training/evidence.py --mine      # asks the reader: some five minutes on two cores
    python training/evidence.py             # trains on the labels that are there: seconds
    python training/evidence.py --mine --data nq --heads evidentiality    # the variant that is measured and does not ship

Labels come from the companion's questions of the split "train", without those to be answered yes or no (their answer is in no sentence),
and are committed as numbers; those of the variant from the NQ questions by which the training of the reader measured its loss. The encoder
stays frozen; what is trained is a low-rank step on each side of its dot product, once per kind of label. Recipe by default that of ECoRAG,
appendix B.1: AdamW, rate 5e-5, 4 epochs, temperature 1, steps of 64 texts, 8 positive and 56 negative, of these 15 per cent weak evidence.
That recipe is for all weights of an encoder; the shipped heads were trained with the settings in `data/compressor/training.json`. The epoch
with the lowest loss on a fifth of the questions is kept, unless `--keep last` says otherwise.

The state is saved every few epochs as safetensors; a run that was interrupted goes on where it was.
"""

import argparse
import json
import math
import os
import random
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sklearn.linear_model import LogisticRegression

from rag_utils import compressors, data, evidence, lm, prompts, results, retrieve
from rag_utils.cache import ROOT
from rag_utils.progress import track

CHAPTER = "06_ecorag_ablations"
LABELS = {"companion": "labels", "nq": "labels_nq"}
FOLDERS = {"companion": compressors.FOLDER, "nq": compressors.NQ_FOLDER}
PASSAGES, NEW_TOKENS = 5, 16
CLOSED, READ = prompts.load("closed_plain"), prompts.load("read_plain")
LOWER = {"strong": ("weak", "distractor"), "weak": ("distractor",)}


def settings(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mine", action="store_true", help="ask the reader for the labels first")
    parser.add_argument("--data", choices=LABELS, default="companion")
    parser.add_argument("--questions", type=int, default=None, help="mine that many questions only")
    parser.add_argument("--heads", nargs="+", choices=compressors.HEADS, default=list(compressors.HEADS))
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--positives", type=int, default=8, help="positive texts per step, each of another question")
    parser.add_argument("--negatives", type=int, default=7, help="negative texts per positive, at most")
    parser.add_argument("--weak-share", type=float, default=0.15, help="of the negatives of a strong sentence")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--keep", choices=("best", "last"), default="best", help="the epoch with the lowest loss, or the last one"
    )
    parser.add_argument("--save-every", type=int, default=10, help="epochs")
    parser.add_argument("--state", type=Path, default=None, help="folder of the saved state, one per kind of label")
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args(arguments)
    chosen.state = chosen.state or ROOT / "_build" / "evidence" / chosen.data
    chosen.out = chosen.out or FOLDERS[chosen.data]
    return chosen


def train_questions(source: str, limit: int | None = None) -> list[data.Question]:
    """The questions to mine, in the order of the hash of their text: of NQ those that the reader was not trained on, none of the held-out
    quarter and none on a passage of it, as `training/reader.py` chose them."""
    found = sorted(data.load(source), key=lambda question: data.question_id(question.text))
    if source == "companion":
        return [q for q in found if q.split == "train" and q.type != "yes_no"][:limit]
    unseen = {passage.id for q in found if data.held_out(q.text) for passage in q.gold}
    usable = [q for q in found if not data.held_out(q.text) and not unseen & {passage.id for passage in q.gold}]
    facts = json.loads((ROOT / "data" / "reader" / "training.json").read_text(encoding="utf-8"))
    return usable[: facts["development_questions"]][:limit]


def mine(source: str, limit: int | None) -> None:
    """Ask the reader and commit the labels. Calls are recorded in the user's cache, so that a stopped run goes on."""
    questions = train_questions(source, limit)
    reader = lm.load("embedded", mode="live")
    passages = evidence.retrieved(questions, data.passages(source), k=PASSAGES)
    table = evidence.mined(reader, questions, passages, closed=CLOSED, read=READ, max_new_tokens=NEW_TOKENS)
    facts = {
        "reader": reader.name,
        "fingerprint": reader.fingerprint,
        "prompts": {one.name: one.digest for one in (CLOSED, READ)},
        "max_new_tokens": NEW_TOKENS,
        "questions": len(questions),
        "passages": PASSAGES,
        "retriever": "BM25",
        "tokens": {"distinct": reader.count.distinct, "computed": reader.count.computed},
    }
    results.save(CHAPTER, LABELS[source], table, facts)
    reader.close()


def examples(
    table, questions: list[data.Question], kind: str, source: str = "companion"
) -> dict[str, tuple[str, list[str], list[str]]]:
    """Per question its text, texts and labels (strong, weak or distractor); only questions with a positive and a negative one.

    kind : one of compressors.HEADS; texts are sentences, but whole passages for leave-one-out
    """
    pool = {passage.id: passage for passage in data.passages(source)}
    found = {}
    for question in questions:
        own = table[table["id"] == question.id]
        if kind == "leave-one-out":
            own = own.drop_duplicates("passage")
            own = own[own["whole"] == 1]
            texts = [compressors.shown(pool[name]) for name in own["passage"]]
        else:
            texts = [
                compressors.shown(pool[name], compressors.cut(pool[name])[place])
                for name, place in zip(own["passage"], own["place"], strict=True)
            ]
        column = {"answerability": "answer", "leave-one-out": "needed"}.get(kind)
        labels = list(own["label"]) if column is None else ["strong" if one else "distractor" for one in own[column]]
        if "strong" in labels and {"weak", "distractor"} & set(labels):
            found[question.id] = (question.text, texts, labels)
    return found


def development(name: str) -> bool:
    """Whether a question is in the fifth that the epoch is chosen by: the hash of its id decides."""
    return int(data.question_id(name), 16) % 5 == 0


class Heads(torch.nn.Module):
    """`compressors.Head` while it is trained; the upper matrices begin at zero, so that training begins at the encoder."""

    def __init__(self, size: int, rank: int):
        super().__init__()
        for side in ("question", "sentence"):
            self.register_parameter(f"{side}_down", torch.nn.Parameter(torch.randn(size, rank) / math.sqrt(size)))
            self.register_parameter(f"{side}_up", torch.nn.Parameter(torch.zeros(rank, size)))

    def forward(self, question: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        moved = question + question @ self.question_down @ self.question_up
        return (texts + texts @ self.sentence_down @ self.sentence_up) @ moved


def drawn(labels: list[str], higher: str, chosen: argparse.Namespace, rng: random.Random) -> tuple[int, list[int]]:
    """The place of one text with the label `higher` and those of its negatives, weak ones by their share where both kinds are left."""
    place = rng.choice([i for i, label in enumerate(labels) if label == higher])
    kinds = {name: [i for i, label in enumerate(labels) if label == name] for name in LOWER[higher]}
    weak, hard = kinds.get("weak", []), kinds["distractor"]
    wanted = min(len(weak), max(round(chosen.weak_share * chosen.negatives), chosen.negatives - len(hard)))
    some = rng.sample(weak, wanted)
    return place, some + rng.sample(hard, min(len(hard), chosen.negatives - len(some)))


def question_loss(scores: torch.Tensor, labels: list[str], temperature: float, pick=None) -> torch.Tensor:
    """ECoRAG's eq. 4 for one question, as `ecorag.compressor_loss`; with `pick`, one drawn positive and its negatives in each part."""
    total = scores.new_zeros(())
    for higher, lower in LOWER.items():
        positives = [i for i, label in enumerate(labels) if label == higher]
        negatives = [i for i, label in enumerate(labels) if label in lower]
        if not positives:
            continue
        scaled = scores / temperature
        pairs = [(place, negatives) for place in positives] if pick is None else [pick(higher)]
        parts = [torch.logsumexp(scaled[[place, *others]], 0) - scaled[place] for place, others in pairs]
        total = total + torch.stack(parts).mean()
    return total


def train(kind: str, found: dict, encode: retrieve.Encoder, chosen: argparse.Namespace) -> tuple[dict, dict]:
    """The weights of the epoch that is kept, and how it went."""
    vectors = {
        name: (torch.tensor(encode([asked])[0]), torch.tensor(encode(texts)), labels)
        for name, (asked, texts, labels) in found.items()
    }
    kept = {part: [name for name in found if development(name) is part] for part in (False, True)}
    if not kept[False] or not kept[True]:
        raise ValueError(f"{kind}: {len(found)} questions are too few to train on and to choose by")
    torch.manual_seed(chosen.seed)
    model = Heads(len(next(iter(vectors.values()))[0]), chosen.rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=chosen.rate)

    def loss_on(names: list[str]) -> float:
        with torch.no_grad():
            parts = [question_loss(model(q, t), labels, chosen.temperature) for q, t, labels in map(vectors.get, names)]
        return round(torch.stack(parts).mean().item(), 5)

    history = [{"epoch": 0, "train": loss_on(kept[False]), "development": loss_on(kept[True])}]
    best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    plan = key(kind, found, chosen)
    history, best = resume(model, optimizer, history, best, chosen.state / kind, plan)
    for [epoch] in track(([i] for i in range(len(history), chosen.epochs + 1)), what=kind, total=chosen.epochs):
        rng = random.Random(f"{chosen.seed}-{epoch}")
        order = rng.sample(kept[False], len(kept[False]))
        for start in range(0, len(order), chosen.positives):
            losses = []
            for question, texts, labels in map(vectors.get, order[start : start + chosen.positives]):

                def pick(higher: str, labels: list[str] = labels, rng: random.Random = rng) -> tuple[int, list[int]]:
                    return drawn(labels, higher, chosen, rng)

                losses.append(question_loss(model(question, texts), labels, chosen.temperature, pick))
            torch.stack(losses).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        history.append({"epoch": epoch, "train": loss_on(kept[False]), "development": loss_on(kept[True])})
        if history[-1]["development"] < min(row["development"] for row in history[:-1]):
            best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        if epoch % chosen.save_every == 0 or epoch == chosen.epochs:
            save(model, optimizer, history, best, chosen.state / kind, plan)
    kept_epoch = min(history, key=lambda row: row["development"])
    if chosen.keep == "last":
        best, kept_epoch = model.state_dict(), history[-1]
    return best, {
        "questions": len(kept[False]),
        "development_questions": len(kept[True]),
        "kept": kept_epoch,
        "history": history[:: max(1, len(history) // 20)],
    }


def key(kind: str, found: dict, chosen: argparse.Namespace) -> str:
    """What a saved state must have been made with: another one is not gone on with."""
    plan = {
        name: value
        for name, value in vars(chosen).items()
        if name not in ("mine", "questions", "heads", "keep", "epochs", "save_every", "state", "out")
    }
    return data.question_id(json.dumps([kind, found, plan], sort_keys=True))


def save(model, optimizer, history: list, best: dict, folder: Path, plan: str) -> None:
    """Everything that the next epoch depends on, at once or not at all."""
    tensors = {f"model.{name}": tensor.contiguous() for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor.contiguous() for name, tensor in best.items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value).clone() for name, value in state.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "state.new", metadata={"history": json.dumps(history), "plan": plan})
    os.replace(folder / "state.new", folder / "state.safetensors")


def resume(model, optimizer, history: list, best: dict, folder: Path, plan: str) -> tuple[list, dict]:
    path = folder / "state.safetensors"
    if not path.exists():
        return history, best
    with safe_open(path, "pt") as file:
        facts = file.metadata()
    if facts["plan"] != plan:
        return history, best
    tensors = load_file(path)
    state: dict[int, dict] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, entry = name.split(".")
            state.setdefault(int(index), {})[entry] = tensor
    model.load_state_dict({name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")})
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    best = {name.removeprefix("best."): tensor for name, tensor in tensors.items() if name.startswith("best.")}
    return json.loads(facts["history"]), best


def fit_evaluator(found: dict, score: compressors.Score) -> tuple[dict, dict]:
    """The logistic regression of `small_evaluator`: strong sentences are <EVI>, others <NOT>.

    source : ECoRAG, section 3.2.1 and appendix B.1: one to three, <NOT> the others with the compressor's highest scores
    """
    asked, kept, right = [], [], []
    for question, texts, labels in found.values():
        order = np.argsort(-score([question], [texts])[0], kind="stable")
        strong = [texts[i] for i in order if labels[i] == "strong"]
        others = [texts[i] for i in order if labels[i] in ("weak", "distractor")][: 3 * len(strong)]
        asked += [question] * (len(strong) + len(others))
        kept += [[text] for text in strong + others]
        right += [True] * len(strong) + [False] * len(others)
    rows = compressors.features(asked, kept, score)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread == 0] = 1.0
    model = LogisticRegression(C=1.0, max_iter=5000).fit((rows - mean) / spread, right)
    values = model.coef_[0] / spread
    fitted = {
        "intercept": round(float(model.intercept_[0] - values @ mean), 6),
        "coefficients": {name: round(float(one), 6) for name, one in zip(compressors.FEATURES, values, strict=True)},
    }
    return fitted, {"evidence": int(np.sum(right)), "not": int(len(right) - np.sum(right))}


def main(arguments: list[str] | None = None, *, encode: retrieve.Encoder | None = None) -> None:
    chosen = settings(arguments)
    if chosen.mine:
        mine(chosen.data, chosen.questions)
    table, mined_with = results.load(CHAPTER, LABELS[chosen.data])
    questions = [question for question in train_questions(chosen.data) if question.id in set(table["id"])]
    encode = encode or retrieve.encoder()
    chosen.out.mkdir(parents=True, exist_ok=True)
    reports = {}
    for kind in dict.fromkeys(["evidentiality", *chosen.heads]):  # the evaluator needs the first
        found = examples(table, questions, kind, chosen.data)
        best, reports[kind] = train(kind, found, encode, chosen)
        half = {name.replace("_", "."): tensor.to(torch.float16).contiguous() for name, tensor in best.items()}
        save_file(half, chosen.out / f"{kind}.safetensors")
    head = compressors.load_head("evidentiality", chosen.out)
    found = examples(table, questions, "evidentiality", chosen.data)
    fitted, counts = fit_evaluator(found, compressors.similarity(encode, head))
    (chosen.out / "evaluator.json").write_text(json.dumps(fitted, indent=1) + "\n", encoding="utf-8")
    plan = {
        name: value
        for name, value in vars(chosen).items()
        if name not in ("mine", "questions", "heads", "save_every", "state", "out")
    }
    provenance = {
        "encoder": "all-MiniLM-L6-v2, frozen",
        "labels": mined_with,
        "settings": plan,
        "heads": reports,
        "evaluator": counts,
    }
    (chosen.out / "training.json").write_text(json.dumps(provenance, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
