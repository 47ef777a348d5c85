"""Mine labels of evidence with the reader, and train the compressor and the evaluator on them.

    python training/evidence.py --mine      # asks the reader: some five minutes on two cores
    python training/evidence.py             # trains heads and the small evaluator on the labels that are there: seconds
    python training/evidence.py --mine --data nq --heads evidentiality --rate 3e-4 --temperature 0.05 --epochs 100    # of NQ
    python training/evidence.py --encoder embedded --keep last            # all weights of MiniLM: minutes; does not ship
    HF_HUB_OFFLINE=0 python training/evidence.py --encoder facebook/contriever --keep last
    HF_HUB_OFFLINE=0 python training/evidence.py --evaluator google/flan-t5-large

Labels come from the companion's questions of the split "train", without those to be answered yes or no (their answer is in no sentence),
and are kept as a table of chapter 6; those of the variant from the NQ questions by which the training of the reader measured its loss.

The encoder stays frozen; what is trained is a low-rank step on each side of its dot product, once per kind of label. With `--encoder` all
weights of an encoder on each side are trained instead, as in the paper. Recipe by default that of ECoRAG, appendix B.1: AdamW, rate 5e-5, 4
epochs, temperature 1, steps of 64 texts, 8 positive and 56 negative, of these 15 per cent weak evidence. The shipped heads, that of NQ too,
were trained with the settings in `data/compressor/training.json`. The epoch with the lowest loss on a fifth of the questions is kept,
unless `--keep last` says otherwise.

With `--evaluator` an encoder-decoder learns to say <EVI> of strong evidence and <NOT> of other sentences (section 3.2.1), which become two
tokens of it; by default with appendix B.1's batches of 40 at rate 1e-5 for 4 epochs. `compressors.asked_evaluator` asks it.

The state is saved every few epochs as safetensors; a run that was interrupted goes on where it was.
"""

import argparse
import json
import math
import random
from pathlib import Path

import dual_encoder
import fusion_in_decoder as fid
import numpy as np
import state
import torch
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression

from experiments.ecorag_ablations import compressors, tables
from experiments.table import table
from rag_utils import data, prompts, retrieve
from rag_utils.base.cache import ROOT, make_dir
from rag_utils.base.progress import track
from rag_utils.engine import weights
from rag_utils.engine.profiles import Profile
from rag_utils.measures import ecorag

LABELS = {"companion": "labels", "nq": "labels_nq"}
ASKED = {"profile": "embedded", "prompts": {"closed": "closed_plain", "read": "read_plain"}, "max_new_tokens": 16}
EVALUATOR_PROMPT = prompts.load("ecorag_evaluator")
VERDICTS = ("<EVI>", "<NOT>")  # of evidence that suffices, and of what does not; ECoRAG, section 3.2.1
NOT_IN_PLAN = ("mine", "questions", "heads", "save_every", "state", "out", "encoder", "evaluator")
NOT_IN_PLAN += ("evaluator_rate", "evaluator_batch")
LOWER = {"strong": ("weak", "distractor"), "weak": ("distractor",)}


def settings(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mine", action="store_true", help="ask the reader for the labels first")
    parser.add_argument("--data", choices=LABELS, default="companion")
    parser.add_argument("--questions", type=int, default=None, help="mine that many questions only")
    parser.add_argument("--heads", nargs="+", choices=ecorag.HEADS, default=list(ecorag.HEADS))
    parser.add_argument("--encoder", default=None, help='train all its weights: "embedded", a folder, or a name on the hub')
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
    parser.add_argument("--keep", choices=("best", "last"), default="best", help="the epoch with the lowest loss, or the last one")
    parser.add_argument("--save-every", type=int, default=None, help="epochs; 10, with --encoder 1")
    parser.add_argument("--state", type=Path, default=None, help="folder of the saved state, one per kind of label")
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args(arguments)
    chosen.state = chosen.state or ROOT / "_build" / "evidence" / chosen.data
    chosen.save_every = chosen.save_every or (1 if chosen.encoder else 10)
    chosen.out = chosen.out or tables.FOLDERS["whole" if chosen.encoder or chosen.evaluator else chosen.data]
    return chosen


def labels(chosen: argparse.Namespace):
    """The labels, kept or mined now, as `tables.labels` returns them. A run that was stopped goes on: its calls are recorded."""
    sample = tables.LABELS[LABELS[chosen.data]]
    sample = sample | {"questions": chosen.questions or sample["questions"]}
    mode = "live" if chosen.mine else "replay"
    return table(tables.CHAPTER, LABELS[chosen.data], tables.labels, mode=mode, sample=sample, **ASKED)


def examples(rows, questions: list[data.Question], kind: str, source: str = "companion") -> dict[str, tuple[str, list[str], list[str]]]:
    """Per question its text, texts and labels (strong, weak or distractor); only questions with a positive and a negative one.

    kind : one of ecorag.HEADS; texts are sentences, but whole passages for leave-one-out
    """
    pool = {passage.id: passage for passage in data.passages(source)}
    labelled = {}
    for question in questions:
        own = rows[rows["id"] == question.id]
        if kind == "leave-one-out":
            own = own.drop_duplicates("passage")
            own = own[own["whole"] == 1]
            texts = [ecorag.titled(pool[name]) for name in own["passage"]]
        else:
            texts = [ecorag.titled(pool[name], pool[name].cut()[place]) for name, place in zip(own["passage"], own["place"], strict=True)]
        column = {"answerability": "answer", "leave-one-out": "needed"}.get(kind)
        holds = None if column is None else own[column]
        labels = list(own["label"]) if holds is None else ["strong" if each else "distractor" for each in holds]
        if "strong" in labels and {"weak", "distractor"} & set(labels):
            labelled[question.id] = (question.text, texts, labels)
    return labelled


def development(name: str) -> bool:
    """Whether a question is in the fifth that the epoch is chosen by: the hash of its id decides."""
    return int(data.question_id(name), 16) % 5 == 0


class Heads(torch.nn.Module):
    """`measures.ecorag.Head` while it is trained; the upper matrices begin at zero, so that training begins at the encoder."""

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
    chosen_weak = rng.sample(weak, wanted)
    return place, chosen_weak + rng.sample(hard, min(len(hard), chosen.negatives - len(chosen_weak)))


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


def frozen(labelled: dict, encode: retrieve.Encoder) -> dict:
    """The examples with embeddings instead of texts, for `Heads`."""
    return {
        name: (torch.tensor(encode([asked])[0]), torch.tensor(encode(texts)), labels) for name, (asked, texts, labels) in labelled.items()
    }


def parts_of(labelled: dict, kind: str) -> dict[str, list[str]]:
    """The ids to learn from and those to choose the epoch by; ValueError if one of them is empty."""
    parts = {"train": [], "development": []}
    for name in labelled:
        parts["development" if development(name) else "train"].append(name)
    if not all(parts.values()):
        raise ValueError(f"{kind}: {len(labelled)} questions are too few to train on and to choose by")
    return parts


def loss_of(model: torch.nn.Module, example: tuple, temperature: float, draw=None) -> torch.Tensor:
    """`question_loss` of an example (question, texts, labels) under the model; texts may be rows of a tensor."""
    question, texts, labels = example

    def score(places: list[int]) -> torch.Tensor:
        return model(question, texts[places] if isinstance(texts, torch.Tensor) else [texts[i] for i in places])

    return question_loss(score, labels, temperature, draw)


def losses_on(model: torch.nn.Module, labelled: dict, parts: dict, temperature: float) -> dict[str, float]:
    """The mean loss of each part, nats."""
    model.eval()
    with torch.no_grad():
        return {
            title: round(torch.stack([loss_of(model, labelled[name], temperature) for name in names]).mean().item(), 5)
            for title, names in parts.items()
        }


def train_epoch(model: torch.nn.Module, optimizer, labelled: dict, names: list[str], chosen, epoch: int) -> None:
    """Once through the questions in an order that seed and epoch decide; dropout is alike after a stop."""
    rng = random.Random(f"{chosen.seed}-{epoch}")
    order = rng.sample(names, len(names))
    torch.manual_seed(random.Random(f"{chosen.seed}-{epoch}-dropout").getrandbits(63))
    model.train()
    for part in state.parts(order, chosen.positives):
        losses = []
        for name in part:

            def draw(higher: str, labels: list[str] = labelled[name][2]) -> tuple[int, list[int]]:
                return drawn(labels, higher, chosen, rng)

            losses.append(loss_of(model, labelled[name], chosen.temperature, draw))
        torch.stack(losses).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def train(kind: str, labelled: dict, model: torch.nn.Module, chosen: argparse.Namespace, run: str) -> tuple[dict, dict]:
    """The weights of the epoch that is kept, and how it went.

    labelled : per question what the model takes, (question, texts), and the labels of the texts
    run   : of `key`
    """
    parts = parts_of(labelled, kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=chosen.rate)
    path = chosen.state / (f"{kind} all weights" if chosen.encoder else kind) / "state.safetensors"
    if saved := state.load(path, run, optimizer):
        groups, history = saved
        model.load_state_dict(groups["model"])
        best = groups["best"]
    else:
        history, best = [{"epoch": 0} | losses_on(model, labelled, parts, chosen.temperature)], copied(model)
    for [epoch] in track(([i] for i in range(len(history), chosen.epochs + 1)), what=kind, total=chosen.epochs):
        train_epoch(model, optimizer, labelled, parts["train"], chosen, epoch)
        history.append({"epoch": epoch} | losses_on(model, labelled, parts, chosen.temperature))
        if not math.isfinite(history[-1]["train"]):
            raise ValueError(f"{kind}: the loss after epoch {epoch} is {history[-1]['train']}; want a lower rate")
        if history[-1]["development"] < min(row["development"] for row in history[:-1]):
            best = copied(model)
        if epoch % chosen.save_every == 0 or epoch == chosen.epochs:
            state.save(path, run, optimizer, {"model": model.state_dict(), "best": best}, history)
    kept = min(history, key=lambda row: row["development"])
    if chosen.keep == "last":
        best, kept = model.state_dict(), history[-1]
    return best, {
        "questions": len(parts["train"]),
        "development_questions": len(parts["development"]),
        "kept": kept,
        "history": history[:: max(1, len(history) // 20)],
    }


def copied(model: torch.nn.Module) -> dict:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def key(kind: str, labelled: dict, chosen: argparse.Namespace) -> str:
    """What a saved state must have been made with. More epochs go on with it, and which epoch is kept in the end is decided then."""
    plan = {name: value for name, value in vars(chosen).items() if name not in (*NOT_IN_PLAN, "keep", "epochs")}
    return state.digest(kind, labelled, plan, chosen.encoder)


def judged(labelled: dict, score: ecorag.Score) -> list[tuple[str, str, bool]]:
    """What an evaluator learns from: question, text, and whether it is strong evidence.

    source : ECoRAG, section 3.2.1 and appendix B.1: one to three, <NOT> the others with the compressor's highest scores
    """
    rows = []
    for question, texts, labels in labelled.values():
        order = np.argsort(-score([question], [texts])[0], kind="stable")
        strong = [texts[i] for i in order if labels[i] == "strong"]
        others = [texts[i] for i in order if labels[i] in ("weak", "distractor")][: 3 * len(strong)]
        rows += [(question, text, True) for text in strong] + [(question, text, False) for text in others]
    return rows


def fit_evaluator(rows: list[tuple[str, str, bool]], score: ecorag.Score) -> tuple[dict, dict]:
    """The logistic regression of `small_evaluator` on what `judged` gives."""
    asked, texts, right = zip(*rows, strict=True)
    rows = ecorag.features(asked, [[text] for text in texts], score)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread == 0] = 1.0
    model = LogisticRegression(C=1.0, max_iter=5000).fit((rows - mean) / spread, right)
    values = model.coef_[0] / spread
    fitted = {
        "intercept": round(float(model.intercept_[0] - values @ mean), 6),
        "coefficients": {name: round(float(value), 6) for name, value in zip(ecorag.FEATURES, values, strict=True)},
    }
    return fitted, {"evidence": int(np.sum(right)), "not": int(len(right) - np.sum(right))}


def save_evaluator(rows: list[tuple[str, str, bool]], score: ecorag.Score, folder: Path) -> dict:
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
    tokenizer.add_tokens(list(VERDICTS), special_tokens=True)
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:  # T5 has spare rows
        model.resize_token_embeddings(len(tokenizer))
    evidence_token, other = VERDICTS
    examples = [
        ([EVALUATOR_PROMPT.fill(question=question, documents=[text])], evidence_token if strong else other)
        for question, text, strong in rows
    ]
    recipe = fid.Recipe(
        epochs=chosen.epochs,
        learning_rate=chosen.evaluator_rate,
        warmup_share=0.0,
        batch=chosen.evaluator_batch,
        seed=chosen.seed,
    )
    losses = fid.train(model, tokenizer, examples, recipe, folder=chosen.state / "evaluator", **options)
    model.save_pretrained(chosen.out / "evaluator")
    tokenizer.save_pretrained(chosen.out / "evaluator")
    return losses


def train_kinds(labelled_of, chosen: argparse.Namespace, encode: retrieve.Encoder) -> dict:
    """Heads on the frozen encoder, or all weights of both towers, once per kind of label, and the small evaluator; how it went."""
    reports = {}
    for kind in dict.fromkeys(["evidentiality", *chosen.heads]):  # the evaluator needs the first
        labelled = labelled_of(kind)
        examples = labelled if chosen.encoder else frozen(labelled, encode)
        torch.manual_seed(chosen.seed)
        model = dual_encoder.load(chosen.encoder) if chosen.encoder else Heads(len(next(iter(examples.values()))[0]), chosen.rank)
        best, reports[kind] = train(kind, examples, model, chosen, key(kind, labelled, chosen))
        if chosen.encoder:
            model.load_state_dict(best)
            dual_encoder.save(model, chosen.out / kind)
        else:
            half = {name.replace("_", "."): tensor.to(torch.float16).contiguous() for name, tensor in best.items()}
            save_file(half, chosen.out / f"{kind}.safetensors")
    score = trained_score(chosen, encode)
    evaluator = save_evaluator(judged(labelled_of("evidentiality"), score), score, chosen.out)
    return {"heads": reports, "evaluator": evaluator}


def trained_score(chosen: argparse.Namespace, encode: retrieve.Encoder) -> ecorag.Score:
    """The score that evidentiality was trained for."""
    if chosen.encoder:
        return compressors.towers(chosen.out / "evidentiality")
    return ecorag.dot_products(encode, ecorag.load_head("evidentiality", chosen.out))


def main(arguments: list[str] | None = None, *, encode: retrieve.Encoder | None = None) -> None:
    chosen = settings(arguments)
    rows = labels(chosen)
    questions = [question for question in tables.train_questions(chosen.data) if question.id in set(rows["id"])]
    encode = encode or retrieve.encoder()
    make_dir(chosen.out)

    def labelled_of(kind: str) -> dict:
        return examples(rows, questions, kind, chosen.data)

    if chosen.evaluator:
        head = ecorag.load_head("evidentiality", tables.FOLDERS[chosen.data])
        losses = train_evaluator(judged(labelled_of("evidentiality"), ecorag.dot_products(encode, head)), chosen)
        print(f"loss {losses[0]:.2f} at the first step, {losses[-1]:.2f} at the last of {len(losses)}")
        return
    provenance = {"encoder": f"{chosen.encoder} all weights" if chosen.encoder else "all-MiniLM-L6-v2 frozen"}
    provenance |= train_kinds(labelled_of, chosen, encode)
    kept = rows.attrs["kept"]
    plan = {name: value for name, value in vars(chosen).items() if name not in NOT_IN_PLAN}
    provenance |= {"labels": {"fingerprint": kept["facts"]["fingerprints"]["embedded"], **kept["settings"]}}
    text = json.dumps(provenance | {"settings": plan}, indent=1)
    (chosen.out / "training.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
