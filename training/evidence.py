"""Mine labels of evidence with the reader, and train the compressor and the evaluator on them.

    python training/evidence.py --mine      # asks the reader: some five minutes on two cores
    python training/evidence.py             # trains heads and the small evaluator on the labels that are there: seconds
    python training/evidence.py --mine --data nq --heads evidentiality    # the variant that is measured and does not ship
    python training/evidence.py --encoder embedded --keep last            # all weights of MiniLM: minutes; does not ship
    HF_HUB_OFFLINE=0 python training/evidence.py --encoder facebook/contriever --keep last
    HF_HUB_OFFLINE=0 python training/evidence.py --evaluator google/flan-t5-large

Labels come from the companion's questions of the split "train", without those to be answered yes or no (their answer is in no sentence),
and are committed as numbers; those of the variant from the NQ questions by which the training of the reader measured its loss.

The encoder stays frozen; what is trained is a low-rank step on each side of its dot product, once per kind of label. With `--encoder` all
weights of an encoder on each side are trained instead, as in the paper. Recipe by default that of ECoRAG, appendix B.1: AdamW, rate 5e-5, 4
epochs, temperature 1, steps of 64 texts, 8 positive and 56 negative, of these 15 per cent weak evidence. The shipped heads were trained
with the settings in `data/compressor/training.json`. The epoch with the lowest loss on a fifth of the questions is kept, unless `--keep
last` says otherwise.

With `--evaluator` an encoder-decoder learns to say <EVI> of strong evidence and <NOT> of other sentences (section 3.2.1), which become two
tokens of it; by default with appendix B.1's batches of 40 at rate 1e-5 for 4 epochs. `compressors.asked_evaluator` asks it.

The state is saved every few epochs as safetensors; a run that was interrupted goes on where it was.
"""

import argparse
import json
import math
import os
import random
from pathlib import Path

import fusion_in_decoder as fid
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sklearn.linear_model import LogisticRegression

from experiments import results
from experiments.ecorag_ablations import compressors, dual_encoder, evidence
from rag_utils import data, lm, prompts, retrieve
from rag_utils.base.cache import ROOT
from rag_utils.base.progress import track
from rag_utils.engine import weights
from rag_utils.engine.profiles import Profile

CHAPTER = "06_ecorag_ablations"
LABELS = {"companion": "labels", "nq": "labels_nq"}
FOLDERS = {"companion": compressors.FOLDER, "nq": compressors.NQ_FOLDER}
PASSAGES, NEW_TOKENS = 5, 16
CLOSED, READ = prompts.load("closed_plain"), prompts.load("read_plain")
EVALUATOR_PROMPT = prompts.load("ecorag_evaluator")
NOT_IN_PLAN = ("mine", "questions", "heads", "save_every", "state", "out", "encoder", "unit_length", "evaluator")
NOT_IN_PLAN += ("evaluator_rate", "evaluator_batch")
LOWER = {"strong": ("weak", "distractor"), "weak": ("distractor",)}


def settings(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mine", action="store_true", help="ask the reader for the labels first")
    parser.add_argument("--data", choices=LABELS, default="companion")
    parser.add_argument("--questions", type=int, default=None, help="mine that many questions only")
    parser.add_argument("--heads", nargs="+", choices=compressors.HEADS, default=list(compressors.HEADS))
    parser.add_argument(
        "--encoder", default=None, help='train all its weights: "embedded", a folder, or a name on the hub'
    )
    parser.add_argument("--unit-length", action=argparse.BooleanOptionalAction, default=None, help="of its vectors")
    parser.add_argument("--evaluator", default=None, help="encoder-decoder to train, of a model hub or a folder")
    parser.add_argument("--evaluator-rate", type=float, default=1e-5)
    parser.add_argument("--evaluator-batch", type=int, default=40)
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
    parser.add_argument("--save-every", type=int, default=None, help="epochs; 10, with --encoder 1")
    parser.add_argument("--state", type=Path, default=None, help="folder of the saved state, one per kind of label")
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args(arguments)
    chosen.state = chosen.state or ROOT / "_build" / "evidence" / chosen.data
    chosen.save_every = chosen.save_every or (1 if chosen.encoder else 10)
    whole = compressors.WHOLE_FOLDER if chosen.encoder or chosen.evaluator else None
    chosen.out = chosen.out or whole or FOLDERS[chosen.data]
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


def question_loss(score, labels: list[str], temperature: float, draw=None) -> torch.Tensor:
    """ECoRAG's eq. 4 for one question, as `ecorag.compressor_loss`; with `draw`, one drawn positive and its negatives in each part.

    score : places of texts -> their similarities; asked once, and only of those that the loss needs
    """
    parts = []
    for higher, lower in LOWER.items():
        positives = [i for i, label in enumerate(labels) if label == higher]
        negatives = [i for i, label in enumerate(labels) if label in lower]
        if positives:
            parts.append([(place, negatives) for place in positives] if draw is None else [draw(higher)])
    places = sorted({i for part in parts for place, others in part for i in (place, *others)})
    scaled, at = score(places) / temperature, {place: row for row, place in enumerate(places)}
    total = scaled.new_zeros(())
    for part in parts:
        rows = [[at[i] for i in (place, *others)] for place, others in part]
        total = total + torch.stack([torch.logsumexp(scaled[row], 0) - scaled[row[0]] for row in rows]).mean()
    return total


def frozen(found: dict, encode: retrieve.Encoder) -> dict:
    """The examples with embeddings instead of texts, for `Heads`."""
    return {
        name: (torch.tensor(encode([asked])[0]), torch.tensor(encode(texts)), labels)
        for name, (asked, texts, labels) in found.items()
    }


def train(kind: str, found: dict, model: torch.nn.Module, chosen: argparse.Namespace, plan: str) -> tuple[dict, dict]:
    """The weights of the epoch that is kept, and how it went.

    found : per question what the model takes, (question, texts), and the labels of the texts
    plan  : of `key`
    """
    kept = {part: [name for name in found if development(name) is part] for part in (False, True)}
    if not kept[False] or not kept[True]:
        raise ValueError(f"{kind}: {len(found)} questions are too few to train on and to choose by")
    optimizer = torch.optim.AdamW(model.parameters(), lr=chosen.rate)

    def loss_of(name: str, draw=None) -> torch.Tensor:
        question, texts, labels = found[name]

        def score(places: list[int]) -> torch.Tensor:
            return model(question, texts[places] if isinstance(texts, torch.Tensor) else [texts[i] for i in places])

        return question_loss(score, labels, chosen.temperature, draw)

    def losses_on(part: dict) -> dict:
        model.eval()
        with torch.no_grad():
            means = {title: torch.stack([loss_of(name) for name in names]).mean() for title, names in part.items()}
        return {title: round(mean.item(), 5) for title, mean in means.items()}

    parts = {"train": kept[False], "development": kept[True]}
    folder = chosen.state / (f"{kind} all weights" if chosen.encoder else kind)
    resumed = resume(model, optimizer, folder, plan)
    history, best = resumed or ([{"epoch": 0} | losses_on(parts)], copied(model))
    for [epoch] in track(([i] for i in range(len(history), chosen.epochs + 1)), what=kind, total=chosen.epochs):
        rng = random.Random(f"{chosen.seed}-{epoch}")
        order = rng.sample(kept[False], len(kept[False]))
        torch.manual_seed(random.Random(f"{chosen.seed}-{epoch}-dropout").getrandbits(63))  # alike after a stop
        model.train()
        for start in range(0, len(order), chosen.positives):
            losses = []
            for name in order[start : start + chosen.positives]:

                def draw(higher: str, labels: list[str] = found[name][2], rng=rng) -> tuple[int, list[int]]:
                    return drawn(labels, higher, chosen, rng)

                losses.append(loss_of(name, draw))
            torch.stack(losses).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        history.append({"epoch": epoch} | losses_on(parts))
        if not math.isfinite(history[-1]["train"]):
            raise ValueError(f"{kind}: the loss after epoch {epoch} is {history[-1]['train']}; want a lower rate")
        if history[-1]["development"] < min(row["development"] for row in history[:-1]):
            best = copied(model)
        if epoch % chosen.save_every == 0 or epoch == chosen.epochs:
            save(model, optimizer, history, best, folder, plan)
    kept_epoch = min(history, key=lambda row: row["development"])
    if chosen.keep == "last":
        best, kept_epoch = model.state_dict(), history[-1]
    return best, {
        "questions": len(kept[False]),
        "development_questions": len(kept[True]),
        "kept": kept_epoch,
        "history": history[:: max(1, len(history) // 20)],
    }


def copied(model: torch.nn.Module) -> dict:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def key(kind: str, found: dict, chosen: argparse.Namespace) -> str:
    """What a saved state must have been made with: another one is not gone on with."""
    plan = {n: v for n, v in vars(chosen).items() if n not in (*NOT_IN_PLAN, "keep", "epochs")}
    parts = [kind, found, plan] + ([chosen.encoder, chosen.unit_length] if chosen.encoder else [])
    return data.question_id(json.dumps(parts, sort_keys=True))


def save(model, optimizer, history: list, best: dict, folder: Path, plan: str) -> None:
    """Everything that the next epoch depends on, at once or not at all."""
    tensors = {f"model.{name}": tensor.contiguous() for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor.contiguous() for name, tensor in best.items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value).clone() for name, value in state.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "state.new", metadata={"history": json.dumps(history), "plan": plan})
    os.replace(folder / "state.new", folder / "state.safetensors")


def resume(model, optimizer, folder: Path, plan: str) -> tuple[list, dict] | None:
    """The history and the best weights so far, with model and optimiser as they were; None where nothing of this plan was kept."""
    path = folder / "state.safetensors"
    if not path.exists():
        return None
    with safe_open(path, "pt") as file:
        facts = file.metadata()
    if facts["plan"] != plan:
        return None
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


def judged(found: dict, score: compressors.Score) -> list[tuple[str, str, bool]]:
    """What an evaluator learns from: question, text, and whether it is strong evidence.

    source : ECoRAG, section 3.2.1 and appendix B.1: one to three, <NOT> the others with the compressor's highest scores
    """
    rows = []
    for question, texts, labels in found.values():
        order = np.argsort(-score([question], [texts])[0], kind="stable")
        strong = [texts[i] for i in order if labels[i] == "strong"]
        others = [texts[i] for i in order if labels[i] in ("weak", "distractor")][: 3 * len(strong)]
        rows += [(question, text, True) for text in strong] + [(question, text, False) for text in others]
    return rows


def fit_evaluator(rows: list[tuple[str, str, bool]], score: compressors.Score) -> tuple[dict, dict]:
    """The logistic regression of `small_evaluator` on what `judged` gives."""
    asked, texts, right = zip(*rows, strict=True)
    rows = compressors.features(asked, [[text] for text in texts], score)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread == 0] = 1.0
    model = LogisticRegression(C=1.0, max_iter=5000).fit((rows - mean) / spread, right)
    values = model.coef_[0] / spread
    fitted = {
        "intercept": round(float(model.intercept_[0] - values @ mean), 6),
        "coefficients": {name: round(float(one), 6) for name, one in zip(compressors.FEATURES, values, strict=True)},
    }
    return fitted, {"evidence": int(np.sum(right)), "not": int(len(right) - np.sum(right))}


def save_evaluator(rows: list[tuple[str, str, bool]], score: compressors.Score, folder: Path) -> dict:
    """Write what `fit_evaluator` finds; the numbers of examples."""
    fitted, counts = fit_evaluator(rows, score)
    (folder / "evaluator.json").write_text(json.dumps(fitted, indent=1) + "\n", encoding="utf-8")
    return counts


def train_evaluator(rows: list[tuple[str, str, bool]], chosen: argparse.Namespace, **options) -> list[float]:
    """Teach an encoder-decoder to say <EVI> or <NOT> and save it as transformers does; the loss of each step, nats per token.

    rows    : of `judged`
    options : of `fid.train`, which with one text per question is plain training
    source  : ECoRAG, eq. 5 and appendix B.1. The end token after the verdict is learned too
    """
    loaded = weights.load(Profile(name="evaluator", reader=chosen.evaluator, task="seq2seq"))
    model, tokenizer = loaded.model, loaded.tokenizer
    torch.manual_seed(chosen.seed)  # the rows of new tokens are drawn
    tokenizer.add_tokens(list(compressors.VERDICTS), special_tokens=True)
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:  # T5 has spare rows
        model.resize_token_embeddings(len(tokenizer))
    evidence_token, other = compressors.VERDICTS
    examples = [
        ([EVALUATOR_PROMPT.fill(question=question, documents=[text])], evidence_token if strong else other)
        for question, text, strong in rows
    ]
    recipe = {"epochs": chosen.epochs, "batch": chosen.evaluator_batch, "learning_rate": chosen.evaluator_rate}
    recipe |= {"warmup_share": 0.0, "seed": chosen.seed, "folder": chosen.state / "evaluator"}
    losses = fid.train(model, tokenizer, examples, **recipe | options)
    model.save_pretrained(chosen.out / "evaluator")
    tokenizer.save_pretrained(chosen.out / "evaluator")
    return losses


def train_encoders(found_of, chosen: argparse.Namespace) -> dict:
    """All weights of both towers, once per kind of label, and a small evaluator on the first; how it went."""
    reports = {}
    for kind in dict.fromkeys(["evidentiality", *chosen.heads]):  # the evaluator needs the first
        torch.manual_seed(chosen.seed)
        found, model = found_of(kind), dual_encoder.load(chosen.encoder, unit_length=chosen.unit_length)
        best, reports[kind] = train(kind, found, model, chosen, key(kind, found, chosen))
        model.load_state_dict(best)
        dual_encoder.save(model, chosen.out / kind)
    score = dual_encoder.similarity(dual_encoder.load(chosen.out / "evidentiality"))
    return {"heads": reports, "evaluator": save_evaluator(judged(found_of("evidentiality"), score), score, chosen.out)}


def train_heads(found_of, encode: retrieve.Encoder, chosen: argparse.Namespace) -> dict:
    """The heads on the frozen encoder and the small evaluator; how it went."""
    reports = {}
    for kind in dict.fromkeys(["evidentiality", *chosen.heads]):  # the evaluator needs the first
        found = found_of(kind)
        vectors = frozen(found, encode)
        torch.manual_seed(chosen.seed)
        model = Heads(len(next(iter(vectors.values()))[0]), chosen.rank)
        best, reports[kind] = train(kind, vectors, model, chosen, key(kind, found, chosen))
        half = {name.replace("_", "."): tensor.to(torch.float16).contiguous() for name, tensor in best.items()}
        save_file(half, chosen.out / f"{kind}.safetensors")
    score = compressors.similarity(encode, compressors.load_head("evidentiality", chosen.out))
    return {"heads": reports, "evaluator": save_evaluator(judged(found_of("evidentiality"), score), score, chosen.out)}


def main(arguments: list[str] | None = None, *, encode: retrieve.Encoder | None = None) -> None:
    chosen = settings(arguments)
    if chosen.mine:
        mine(chosen.data, chosen.questions)
    table, mined_with = results.load(CHAPTER, LABELS[chosen.data])
    questions = [question for question in train_questions(chosen.data) if question.id in set(table["id"])]
    encode = encode or retrieve.encoder()
    chosen.out.mkdir(parents=True, exist_ok=True)

    def found_of(kind: str) -> dict:
        return examples(table, questions, kind, chosen.data)

    if chosen.evaluator:
        head = compressors.load_head("evidentiality", FOLDERS[chosen.data])
        rows = judged(found_of("evidentiality"), compressors.similarity(encode, head))
        losses = train_evaluator(rows, chosen)
        print(f"loss {losses[0]:.2f} at the first step, {losses[-1]:.2f} at the last of {len(losses)}")
        return
    if chosen.encoder:
        provenance = {"encoder": f"{chosen.encoder}, all weights"} | train_encoders(found_of, chosen)
    else:
        provenance = {"encoder": "all-MiniLM-L6-v2, frozen"} | train_heads(found_of, encode, chosen)
    plan = {name: value for name, value in vars(chosen).items() if name not in NOT_IN_PLAN}
    provenance |= {"labels": mined_with, "settings": plan}
    (chosen.out / "training.json").write_text(json.dumps(provenance, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
