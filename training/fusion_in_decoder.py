"""Fusion-in-Decoder: the encoder reads every passage by itself, and the decoder attends to all of them at once.

    train(model, tokenizer, [(["question: ... context: ...", "question: ... context: ..."], "Paris"), ...], folder=...)
    [reply] = generate(model, tokenizer, [["question: ... context: ...", "question: ... context: ..."]], max_new_tokens=16)

Reading k passages so costs k times what one costs, not k * k times. A question's texts may stand in any order: the decoder attends to the
encoder's states without positions. How a text is worded is the caller's, and it is read in full, however long.

source : Izacard and Grave 2021, section 3; eRAG, section 3.1
"""

import hashlib
import json
import math
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save, save_file
from torch.nn.utils.rnn import pad_sequence
from transformers.modeling_outputs import BaseModelOutput

from rag_utils.base.cache import make_dir
from rag_utils.base.progress import track

Texts = Sequence[str]  # one per passage of a question, each with the question in it
IGNORED = -100  # stands where an answer has no token; transformers leaves it out of the loss


def encode(model, tokenizer, inputs: Sequence[Texts]) -> tuple[torch.Tensor, torch.Tensor]:
    """What the decoder attends to: the states of a question's texts, one text after the other, without padding between them.

    inputs  : per question at least one text; questions may have different numbers of them
    returns : (questions, tokens, size) states; (questions, tokens) mask, 0 where a question has fewer tokens than the longest
    raises  : ValueError if the model is no encoder-decoder or a question has no text
    source  : Izacard and Grave 2021, section 3
    """
    _check(model, inputs)
    batch = tokenizer([text for texts in inputs for text in texts], padding=True, return_tensors="pt").to(model.device)
    states = model.get_encoder()(input_ids=batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state
    counts = [len(texts) for texts in inputs]
    pairs = zip(states.split(counts), batch.attention_mask.bool().split(counts), strict=True)
    fused = [passages[there] for passages, there in pairs]
    mask = [torch.ones(len(one), dtype=torch.long, device=model.device) for one in fused]
    return pad_sequence(fused, batch_first=True), pad_sequence(mask, batch_first=True)


@torch.inference_mode()
def generate(model, tokenizer, inputs: Sequence[Texts], *, max_new_tokens: int, micro_batch: int = 4) -> list[str]:
    """The greedy reply to each question, without special tokens.

    model       : in evaluation mode, as `weights.load` and `train` leave it
    inputs      : per question at least one text
    micro_batch : questions that are read at once
    raises      : ValueError for bad arguments
    """
    _check(model, inputs)
    _check_whole(max_new_tokens=max_new_tokens, micro_batch=micro_batch)
    replies = []
    for part in track(_parts(inputs, micro_batch), what="replies", total=len(inputs)):
        states, mask = encode(model, tokenizer, part)
        read = {"encoder_outputs": BaseModelOutput(states), "attention_mask": mask}
        tokens = model.generate(**read, do_sample=False, num_beams=1, max_new_tokens=max_new_tokens)
        replies += tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return replies


def loss(model, tokenizer, inputs: Sequence[Texts], answers: Sequence[str]) -> torch.Tensor:
    """Mean over all tokens of all answers, end tokens included, of minus the log-likelihood given the question's texts.

    inputs  : per question at least one text
    answers : one per question
    returns : scalar, nats, >= 0, with its gradient
    raises  : ValueError for bad arguments
    """
    _check(model, inputs, answers)
    states, mask = encode(model, tokenizer, inputs)
    targets = [torch.tensor(tokens, device=model.device) for tokens in _targets(tokenizer, answers)]
    labels = pad_sequence(targets, batch_first=True, padding_value=IGNORED)
    return model(encoder_outputs=BaseModelOutput(states), attention_mask=mask, labels=labels).loss


def train(
    model,
    tokenizer,
    examples: Sequence[tuple[Texts, str]],
    *,
    epochs: int = 10,
    learning_rate: float = 5e-5,
    weight_decay: float = 0.01,
    warmup_share: float = 0.05,
    batch: int = 64,
    micro_batch: int = 4,
    seed: int = 0,
    folder: Path | str | None = None,
    save_every: int = 100,
    progress: Callable = track,
) -> list[float]:
    """Train the model in place, by default with the paper's recipe; the loss of each step, in nats per token of the answers.

    examples     : (texts, answer) per question; the paper takes the 50 best passages by BM25
    warmup_share : of all steps, in which the learning rate rises to its full height. The paper names no decay after it, so there is none
    batch        : questions per step, in an order that the seed decides anew in every epoch
    micro_batch  : questions whose activations are held at once; it changes memory and time, not the loss
    folder       : where the run is kept every `save_every` steps and at its end. An interrupted run that is called again with the same
                   model and arguments goes on from there, and ends as if it had never stopped
    raises       : ValueError for bad arguments, a loss that is no number, or a folder with a damaged or another run
    source       : eRAG, section 3.1 (AdamW); weights decay without exception and gradients are not clipped, since nothing is said of it
    """
    inputs, answers = [texts for texts, _ in examples], [answer for _, answer in examples]
    _check(model, inputs, answers)
    _check_whole(epochs=epochs, batch=batch, micro_batch=micro_batch, save_every=save_every)
    if not (learning_rate > 0 and weight_decay >= 0 and 0 <= warmup_share <= 1):
        got = f"got learning_rate {learning_rate}, weight_decay {weight_decay}, warmup_share {warmup_share}"
        raise ValueError(f"{got}; want them > 0, >= 0 and in [0, 1]")
    lengths = [len(tokens) for tokens in _targets(tokenizer, answers)]
    orders = [random.Random(f"{seed}-{epoch}").sample(range(len(inputs)), len(inputs)) for epoch in range(epochs)]
    plan = [step for order in orders for step in _parts(order, batch)]
    warm = max(1, round(warmup_share * len(plan)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=weight_decay)
    losses: list[float] = []
    if folder is not None:
        path = make_dir(Path(folder)) / "state.safetensors"
        settings = [epochs, learning_rate, weight_decay, warmup_share, batch, seed]
        facts = json.dumps([settings, inputs, answers], default=list)
        run = hashlib.sha256(facts.encode() + save(_weights(model))).hexdigest()
        losses = _resume(path, run, model, optimizer)

    model.train()
    remaining = plan[len(losses) :]
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        for chosen in progress(remaining, what="training", total=sum(map(len, remaining))):
            torch.manual_seed(random.Random(f"{seed}-{len(losses)}").getrandbits(63))  # dropout, alike after a stop
            optimizer.param_groups[0]["lr"] = learning_rate * min(1, (len(losses) + 1) / warm)
            optimizer.zero_grad()
            total = 0.0
            for part in _parts(chosen, micro_batch):
                share = sum(lengths[i] for i in part) / sum(lengths[i] for i in chosen)
                weighted = share * loss(model, tokenizer, [inputs[i] for i in part], [answers[i] for i in part])
                weighted.backward()
                total += weighted.item()
            if not math.isfinite(total):
                raise ValueError(f"the loss of step {len(losses)} is {total}; want float32 or a lower learning rate")
            optimizer.step()
            losses.append(total)
            if folder is not None and (len(losses) % save_every == 0 or len(losses) == len(plan)):
                _save(path, run, model, optimizer, losses)
    model.eval()
    return losses


def _weights(model) -> dict[str, torch.Tensor]:
    """Every weight once, also where two layers share it."""
    return {f"model.{name}": weight.detach().contiguous() for name, weight in model.named_parameters()}


def _save(path: Path, run: str, model, optimizer, losses: list[float]) -> None:
    """Everything that the next step depends on, at once or not at all."""
    tensors = _weights(model)
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in state.items()}
    save_file(tensors, path.with_suffix(".new"), metadata={"run": run, "losses": json.dumps(losses)})
    os.replace(path.with_suffix(".new"), path)


def _resume(path: Path, run: str, model, optimizer) -> list[float]:
    """Set model and optimiser to what `path` holds, if it is there; the losses up to then."""
    if not path.exists():
        return []
    try:
        with safe_open(path, "pt") as file:
            facts, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.offset_keys()}
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged: {error}; delete it and the run begins again") from error
    if (facts or {}).get("run") != run:
        raise ValueError(f"{path} belongs to a run with another model, examples or settings; want a folder of its own")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(tensors[f"model.{name}"])
    state: dict[int, dict] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".")
            state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    return json.loads(facts["losses"])


def _targets(tokenizer, answers: Sequence[str]) -> list[list[int]]:
    """The tokens of each answer and the end token, which not every tokenizer adds itself."""
    end = tokenizer.eos_token_id
    return [ids if ids[-1] == end else [*ids, end] for ids in tokenizer(list(answers)).input_ids]


def _parts(items: Sequence, size: int) -> list[Sequence]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _check(model, inputs: Sequence[Texts], answers: Sequence[str] | None = None) -> None:
    if not model.config.is_encoder_decoder:
        raise ValueError(f"Fusion-in-Decoder wants an encoder-decoder such as T5, got {type(model).__name__}")
    if not inputs:
        raise ValueError("got no question; want at least one list of texts")
    if answers is not None and len(answers) != len(inputs):
        raise ValueError(f"got {len(inputs)} questions and {len(answers)} answers; want as many of each")
    for place, texts in enumerate(inputs):
        if isinstance(texts, str) or not texts:
            raise ValueError(f"question {place} has no passages; want a list of at least one text")
        for text in [*texts, *(answers or [])[place : place + 1]]:
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"a passage or the answer of question {place} is empty or no text")


def _check_whole(**values: int) -> None:
    for name, value in values.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")
