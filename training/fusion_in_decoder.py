"""Fusion-in-Decoder: the encoder reads every passage by itself, and the decoder attends to all of them at once.

    train(model, tokenizer, [(["question: ... context: ...", "question: ... context: ..."], "Paris"), ...], folder=...)
    [reply] = generate(model, tokenizer, [["question: ... context: ...", "question: ... context: ..."]], max_new_tokens=16)

Reading k passages so costs k times what one costs, not k * k times. A question's texts may stand in any order: the decoder attends to the
encoder's states without positions. How a text is worded is the caller's, and it is read in full, however long.

source : Izacard and Grave 2021, section 3; eRAG, section 3.1
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import state
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers.modeling_outputs import BaseModelOutput

from rag_utils.base import checks
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
    mask = [torch.ones(len(states), dtype=torch.long, device=model.device) for states in fused]
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
    checks.whole("max_new_tokens", max_new_tokens, least=1)
    checks.whole("micro_batch", micro_batch, least=1)
    replies = []
    for part in track(state.parts(inputs, micro_batch), what="replies", total=len(inputs)):
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


@dataclass(frozen=True)
class Recipe:
    """How the model is trained, by default as in the paper.

    warmup_share : of all steps, in which the learning rate rises to its full height. The paper names no decay after it, so there is none
    batch        : questions per step, in an order that the seed decides anew in every epoch
    source       : eRAG, section 3.1 (AdamW); weights decay without exception and gradients are not clipped, since nothing is said of it
    """

    epochs: int = 10
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    warmup_share: float = 0.05
    batch: int = 64
    seed: int = 0

    def __post_init__(self):
        checks.whole("epochs", self.epochs, least=1)
        checks.whole("batch", self.batch, least=1)
        checks.number("learning_rate", self.learning_rate, above=0)
        checks.number("weight_decay", self.weight_decay, low=0)
        checks.number("warmup_share", self.warmup_share, low=0, high=1)


def train(
    model,
    tokenizer,
    examples: Sequence[tuple[Texts, str]],
    recipe: Recipe | None = None,
    *,
    micro_batch: int = 4,
    folder: Path | None = None,
    save_every: int = 100,
    progress: Callable = track,
) -> list[float]:
    """Train the model in place, by default with the paper's recipe; the loss of each step, in nats per token of the answers.

    examples    : (texts, answer) per question; the paper takes the 50 best passages by BM25
    micro_batch : questions whose activations are held at once; it changes memory and time, not the loss
    folder      : where the run is kept every `save_every` steps and at its end. An interrupted run that is called again with the same model
                  and arguments goes on from there, and ends as if it had never stopped
    raises      : ValueError for bad arguments, a loss that is no number, or as `state.load`
    """
    recipe = recipe or Recipe()
    inputs, answers = [texts for texts, _ in examples], [answer for _, answer in examples]
    _check(model, inputs, answers)
    checks.whole("micro_batch", micro_batch, least=1)
    checks.whole("save_every", save_every, least=1)
    plan = state.steps(len(inputs), epochs=recipe.epochs, batch=recipe.batch, seed=recipe.seed)
    warm, losses = max(1, round(recipe.warmup_share * len(plan))), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    if folder is not None:
        path, run = Path(folder) / "state.safetensors", state.digest(recipe, inputs, answers, weights=_weights(model))
        losses = _resumed(model, state.load(path, run, optimizer))
    model.train()
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        for places in progress(plan[len(losses) :], what="training", total=sum(map(len, plan[len(losses) :]))):
            torch.manual_seed(random.Random(f"{recipe.seed}-{len(losses)}").getrandbits(63))  # dropout, alike after a stop
            optimizer.param_groups[0]["lr"] = recipe.learning_rate * min(1, (len(losses) + 1) / warm)
            optimizer.zero_grad()
            total = _step(model, tokenizer, [examples[place] for place in places], micro_batch)
            if not math.isfinite(total):
                raise ValueError(f"the loss of step {len(losses)} is {total}; want float32 or a lower learning rate")
            optimizer.step()
            losses.append(total)
            if folder is not None and (len(losses) % save_every == 0 or len(losses) == len(plan)):
                state.save(path, run, optimizer, {"model": _weights(model)}, losses)
    model.eval()
    return losses


def _step(model, tokenizer, examples: Sequence[tuple[Texts, str]], micro_batch: int) -> float:
    """Add the gradient of the mean loss over the tokens of all answers; the loss, nats."""
    lengths = [len(tokens) for tokens in _targets(tokenizer, [answer for _, answer in examples])]
    total = 0.0
    for part in state.parts(range(len(examples)), micro_batch):
        share = sum(lengths[place] for place in part) / sum(lengths)
        texts, answers = zip(*(examples[place] for place in part), strict=True)
        weighted = share * loss(model, tokenizer, texts, answers)
        weighted.backward()
        total += weighted.item()
    return total


def _weights(model) -> dict[str, torch.Tensor]:
    """Every weight once, also where two layers share it."""
    return {name: weight.detach().contiguous() for name, weight in model.named_parameters()}


def _resumed(model, kept) -> list[float]:
    """The losses so far, with the model's weights as they were then."""
    if kept is None:
        return []
    groups, losses = kept
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(groups["model"][name])
    return losses


def _targets(tokenizer, answers: Sequence[str]) -> list[list[int]]:
    """The tokens of each answer and the end token, which not every tokenizer adds itself."""
    end = tokenizer.eos_token_id
    return [ids if ids[-1] == end else [*ids, end] for ids in tokenizer(list(answers)).input_ids]


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
