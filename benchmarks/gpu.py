"""The engine on a GPU: four tasks beside the usual way, and beside what the card could do. Adds to `gpu.json`, for chapter 10.

    python benchmarks/gpu.py [--profile embedded-base | --shape 8B] [--dtype float32]

A task is done in three blocks. Each is done by the engine, and a few of its texts right after it as they are usually asked, one prompt at a
time or the texts of a question as one padded batch. The ratio is of seconds a text. The share of the card is that of the operations of the
layers, two a parameter and token that was computed, in what a large product of the same precision reaches on the card just before.

With --shape the model has the size of a known one and random weights, since it needs no download: its replies mean nothing and never end
before their last token, and take what real ones would take at most.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import engine
import tasks
import torch
import transformers

from rag_utils import lm
from rag_utils.engine import profiles, weights

RESULTS = Path(__file__).with_suffix(".json")
BLOCKS = 3
SHAPES = {
    "8B": {
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 8192,
    },
    "135M": {
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
}


def shaped(shape: str, dtype: str, batch_tokens: int | None) -> lm.LanguageModel:
    """A Llama of that shape with random weights and the embedded reader's tokeniser."""
    profile = profiles.Profile(name=shape, reader=shape, dtype=dtype, batch_tokens=batch_tokens)
    parts = {"tokenizer": weights.load(profiles.get("embedded-base")).tokenizer}
    torch.manual_seed(0)
    torch.set_default_dtype(getattr(torch, dtype))
    with torch.device("cuda"):
        parts["model"] = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPES[shape])).eval()
    torch.set_default_dtype(torch.float32)
    parts["model"].generation_config.eos_token_id = None
    loaded = weights.Loaded(parts.__getitem__, f"random {shape}", f"random weights, {shape}", None)
    return lm.LanguageModel(loaded, profile, mode="fresh")


def product_rate(dtype: torch.dtype, n: int = 8192, times: int = 10) -> float:
    """Operations a second of a product of two large matrices, the median."""
    left, right = (torch.randn(n, n, dtype=dtype, device="cuda") for _ in range(2))
    seconds = [timed(lambda: left @ right) for _ in range(times + 3)][3:]
    return 2 * n**3 / statistics.median(seconds)


def timed(work: Callable) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def the_work(reader: lm.LanguageModel, size: int) -> list[tuple[tasks.Task, int, Callable]]:
    """Tasks, how many texts of a block are done the usual way, and how."""
    asked, pool, _ = tasks.questions(240)
    few = asked[: BLOCKS * size // 2]

    def one_by_one(texts: list[str], **options) -> None:
        for text in texts:
            tasks.generate(reader, [text], **options)

    def padded(groups) -> None:
        for group in groups:
            tasks.padded_log_likelihood(reader, group)

    ten = partial(one_by_one, do_sample=True, temperature=1.0, top_k=0, num_return_sequences=tasks.SAMPLES)
    return [
        (tasks.samples(reader, asked[: BLOCKS * size], BLOCKS), 2, ten),
        (tasks.document_labels(reader, few, pool, BLOCKS), 3, partial(one_by_one, do_sample=False)),
        (tasks.orders(reader, few, pool, BLOCKS), 3, padded),
        (tasks.edits(reader, asked[: BLOCKS * size], pool, BLOCKS), 4, padded),
    ]


def measured(reader: lm.LanguageModel, task: tasks.Task, n: int, usual: Callable, rate: float) -> dict:
    parameters = sum(p.numel() for name, p in reader.model.named_parameters() if "embed" not in name and "lm_head" not in name)
    scoring = not isinstance(task.blocks[0][0], str)
    ratios, speeds, shares = [], [], []
    torch.cuda.reset_peak_memory_stats()
    for number, block in enumerate([task.blocks[0][:2], *task.blocks]):  # the first time something is slow that later is not
        before = reader.count.computed
        seconds, texts = timed(lambda block=block: task.ours(block)), task.texts(block)
        computed = reader.count.computed - before
        each = seconds / (len(block) if scoring or task.usual_way.startswith("generate") else len(texts))
        few = block[:n] if scoring else list(dict.fromkeys(reader.tokenizer.decode(text) for text in texts[: 10 * n]))[:n]
        usual_each = timed(lambda few=few: usual(few)) / len(few)
        if number:
            ratios.append(usual_each / each)
            speeds.append(computed / seconds)
            shares.append(2 * parameters * computed / seconds / rate)
    row = {"task": task.name, "what": task.what, "blocks": len(task.blocks), "texts": sum(len(task.texts(b)) for b in task.blocks)}
    row |= {"ratio": engine.spread(ratios), "tokens_per_s": engine.spread(speeds), "share_of_product": engine.spread(shares)}
    return row | {"gigabytes": torch.cuda.max_memory_allocated() / 1e9}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="embedded-base", choices=profiles.PROFILES)
    parser.add_argument("--shape", choices=SHAPES, help="random weights of this shape in place of a profile's reader")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--size", type=int, default=80, help="questions of a block")
    parser.add_argument("--batch-tokens", type=int, help="tokens held at once; by default what free memory allows")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    rate = product_rate(getattr(torch, given.dtype))
    changes = {} if given.batch_tokens is None else {"batch_tokens": given.batch_tokens}
    profile = profiles.get(given.profile).model_copy(update=changes)
    begun = time.perf_counter()
    reader = shaped(given.shape, given.dtype, given.batch_tokens) if given.shape else lm.load(profile, mode="fresh", dtype=given.dtype)
    reader.tokenizer.pad_token = reader.tokenizer.pad_token or reader.tokenizer.eos_token  # which the usual way pads with
    reader.generate(["x"], max_new_tokens=1)
    result = {"reader": reader.name, "dtype": given.dtype, "card": torch.cuda.get_device_name(), "product_flop_per_s": rate}
    result |= {"load_s": time.perf_counter() - begun, "batch_tokens": reader.batch_tokens, "tasks": []}
    print(json.dumps(result), flush=True)
    for task, n, usual in the_work(reader, given.size):
        result["tasks"].append(measured(reader, task, n, usual, rate))
        print(json.dumps(result["tasks"][-1]), flush=True)
    known = json.loads(given.out.read_text()) if given.out.exists() else []
    others = [run for run in known if (run["reader"], run["dtype"]) != (result["reader"], result["dtype"])]
    given.out.write_text(json.dumps([*others, result], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
