"""The engine against the usual way, on the same work, in one run: `make bench`.

Each task is cut into blocks, and every block is done by both, one after the other, so that whatever else the machine does hits both.
Written to `benchmarks/engine.json`: seconds per block, their ratios, tokens computed against distinct tokens, peak memory; the rate of
arithmetic while reading against that of a matrix product; the same with the reader in bfloat16, and its error; cost against samples,
documents and questions; and what was asked for beside what was reached.

The texts are NQ questions with their gold passages if RAG_COMPANION_DATA has them, otherwise the questions of the companion corpus.
"""

import argparse
import ctypes
import gc
import itertools
import json
import resource
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tasks
import torch

from rag_utils import lm
from rag_utils.engine import decode, profiles
from rag_utils.engine.products import fast_products
from rag_utils.engine.tree import prefix_tree

RESULTS = Path(__file__).with_name("engine.json")
SAMPLES, DOCUMENTS, QUESTIONS = (1, 2, 5, 10, 20), (1, 2, 5, 10), (5, 10, 20)  # where the curves have points


class Memory:
    """Peak of the resident memory above what it was at the start, bytes."""

    def __enter__(self):
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # or what was freed before would be used again and not be seen
        self.start = self.peak = self._resident()
        self.running = True
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.running = False
        self.thread.join()

    @property
    def above(self) -> int:
        return self.peak - self.start

    def _watch(self):
        while self.running:
            self.peak = max(self.peak, self._resident())
            time.sleep(0.02)

    @staticmethod
    def _resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Passes:
    """Tokens that go through a model, padding included."""

    def __init__(self, model: torch.nn.Module):
        self.model, self.tokens = model, 0

    def __enter__(self):
        self.hook = self.model.register_forward_pre_hook(self._add, with_kwargs=True)
        return self

    def __exit__(self, *_):
        self.hook.remove()

    def _add(self, model, _, options):
        self.tokens += options["input_ids"].numel()


def timed(way: str, work: Callable, block, model: torch.nn.Module) -> dict:
    """Seconds, peak memory and tokens of one way to do a block."""
    with Memory() as memory, Passes(model) as passes:
        start = time.perf_counter()
        work(block)
        seconds = time.perf_counter() - start
    return {f"{way}_s": seconds, f"{way}_bytes": memory.above, f"{way}_tokens": passes.tokens}


def measure(task: tasks.Task, reader: lm.LanguageModel, say) -> dict:
    rows, whole, distinct, before = [], 0, 0, reader.count.distinct
    for number, block in enumerate(task.blocks, 1):
        ours = timed("ours", task.ours, block, task.model)
        usual = timed("usual", task.usual, block, task.model)
        rows.append(ours | usual)
        texts = task.texts(block)
        whole, distinct = whole + sum(map(len, texts)), distinct + task.distinct(texts)
        say(f"{task.name}, block {number} of {len(task.blocks)}: {ours['ours_s']:.1f} s against {usual['usual_s']:.1f} s")
    computed = sum(row["ours_tokens"] for row in rows)
    return {
        "task": task.name,
        "what": task.what,
        "usual_way": task.usual_way,
        "blocks": rows,
        "ratio": spread([row["usual_s"] / row["ours_s"] for row in rows]),
        "tokens_of_the_texts": whole,
        "distinct_tokens": distinct,
        "allowed_ratio": whole / distinct,
        "computed_tokens": computed,
        "usual_tokens": sum(row["usual_tokens"] for row in rows),
        "computed_over_distinct": computed / max(distinct, reader.count.distinct - before),  # which counts the replies as well
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": float(np.median(values)), "min": float(min(values)), "max": float(max(values))}


# ------------------------------------------------------------ arithmetic and precision


def arithmetic(reader: lm.LanguageModel, asked, rounds: int, say) -> dict:
    """FLOP per second of reading against a matrix product of the model's own shapes, one after the other.

    The product is that of torch as it is, and again as the engine has it (`products.py`).
    """
    config, texts = reader.model.config, tasks.with_gold(asked)
    inputs = torch.randn(4096, config.hidden_size, dtype=reader.model.dtype)
    layer = torch.nn.Linear(config.hidden_size, config.intermediate_size, bias=False, dtype=reader.model.dtype)
    layer.requires_grad_(False)
    flop = 2 * len(inputs) * layer.weight.numel()
    rates: dict[str, list[float]] = {"matrix_product": [], "laid_out_product": [], "reading": []}
    tokens_per_s = []
    reader.log_likelihood(texts, [" x"] * len(texts))  # memory that is touched for the first time is slow
    for _ in range(rounds):
        rates["matrix_product"].append(flop / _typical_seconds(lambda: layer(inputs)))
        with fast_products(layer):
            rates["laid_out_product"].append(flop / _typical_seconds(lambda: layer(inputs)))
        with Passes(reader.model) as passes:
            seconds = _seconds(lambda: reader.log_likelihood(texts, [" x"] * len(texts)))
        rates["reading"].append(reading_flop(reader, texts, passes.tokens) / seconds)
        tokens_per_s.append(passes.tokens / seconds)
        shares = [rates["reading"][-1] / rates[name][-1] for name in ("matrix_product", "laid_out_product")]
        say("reading {:.0f} tokens/s, {:.2f} of a matrix product, {:.2f} of ours".format(tokens_per_s[-1], *shares))
    return {
        "dtype": reader.profile.dtype,
        **{f"{name}_flop_per_s": spread(values) for name, values in rates.items()},
        "reading_over_matrix_product": spread(np.divide(rates["reading"], rates["matrix_product"])),
        "reading_over_laid_out_product": spread(np.divide(rates["reading"], rates["laid_out_product"])),
        "tokens_per_s": spread(tokens_per_s),
    }


def reading_flop(reader: lm.LanguageModel, texts: list[str], tokens: int) -> float:
    """2 x non-embedding parameters x tokens, plus 4 x hidden size x layers for every token and every one that it attends to."""
    named = reader.model.named_parameters()
    parameters = sum(p.numel() for name, p in named if "embed" not in name and "lm_head" not in name)
    root = prefix_tree([reader.encode(text) for text in texts], allowance=decode.ALLOWANCE)
    attended = sum(sum(range(node.start + 1, node.stop + 1)) for node in root.walk())
    return 2 * parameters * tokens + 4 * reader.model.config.hidden_size * reader.model.config.num_hidden_layers * attended


def _seconds(work: Callable) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@torch.inference_mode()
def _typical_seconds(work: Callable, times: int = 15) -> float:
    return float(np.median([_seconds(work) for _ in range(times)]))


def in_both(work, twins, reader: lm.LanguageModel, inexact: lm.LanguageModel, say) -> tuple[list[dict], list[dict]]:
    """Every task in float32, and right after it in bfloat16 if it has a twin there."""
    twins = {task.name: task for task in twins}
    rows, rough = [], []
    for task in work:
        rows.append(measure(task, reader, say))
        if task.name in twins:
            row = measure(twins[task.name], inexact, lambda text: say(f"bfloat16: {text}"))
            blocks = zip(rows[-1]["blocks"], row["blocks"], strict=True)
            row["ratio_to_float32"] = spread([exact["usual_s"] / other["ours_s"] for exact, other in blocks])
            rough.append(row)
    return rows, rough


def error(reader: lm.LanguageModel, other: lm.LanguageModel, asked) -> dict:
    """How far the other precision is off, per token of the gold passages and in greedy replies."""
    passages = [" " + passage.text for question in asked for passage in question.gold]
    exact, rough = (np.concatenate(model.log_likelihood(["Document:"] * len(passages), passages)) for model in (reader, other))
    off = np.abs(rough - exact)
    texts = tasks.with_gold(asked)
    replies = [[r.text for [r] in model.generate(texts, max_new_tokens=tasks.NEW_TOKENS)] for model in (reader, other)]
    return {
        "tokens": len(off),
        "mean_absolute_nats": float(off.mean()),
        "percentile_99_nats": float(np.percentile(off, 99)),
        "maximum_nats": float(off.max()),
        "mean_nats": float((rough - exact).mean()),
        "replies": len(texts),
        "same_greedy_replies": float(np.mean([left == right for left, right in zip(*replies, strict=True)])),
    }


# ------------------------------------------------------------ cost against size


def curves(reader: lm.LanguageModel, asked, pool, say) -> list[dict]:
    """Both ways against samples, documents and questions: one question a block, except that the last curve has all in one."""

    def against(what: str, x: int, task: tasks.Task) -> dict:
        timed = measure(task, reader, lambda text: say(f"{what} {x}, {text.partition(', ')[2]}"))
        return {"against": what, "x": x, "blocks": timed["blocks"]}

    few = asked[:3]
    rows = [against("samples", n, tasks.samples(reader, few, len(few), n=n)) for n in SAMPLES]
    rows += [against("documents", k, tasks.document_labels(reader, few, pool, len(few), k=k)) for k in DOCUMENTS]
    return rows + against_questions(reader, asked, say)


def against_questions(reader: lm.LanguageModel, asked, say) -> list[dict]:
    """Ten samples of more and more questions. The usual way does one after the other, so that it is run once and read off on the way."""
    sizes = [n for n in QUESTIONS if n <= len(asked)] or [len(asked)]
    task = tasks.samples(reader, asked, 1)
    [texts], rows, usual = task.blocks, [], {"usual_s": 0.0, "usual_tokens": 0}
    for before, n in itertools.pairwise([0, *sizes]):
        ours = timed("ours", task.ours, texts[:n], task.model)
        more = timed("usual", task.usual, texts[before:n], task.model)
        usual = {name: usual[name] + more[name] for name in usual}
        rows.append({"against": "questions", "x": n, "blocks": [ours | usual]})
        say(f"questions {n}: {ours['ours_s']:.1f} s against {usual['usual_s']:.1f} s")
    return rows


# ------------------------------------------------------------ asked and reached


def asks(result: dict, work: Sequence[tasks.Task]) -> list[dict]:
    """What was asked for, what was measured and whether that is enough; in bfloat16 too, where it was measured."""
    inexact = {task["task"]: task for task in result["bfloat16"]["tasks"]}

    def rates(product: str) -> list[float]:
        return [part["arithmetic"][f"reading_over_{product}"]["median"] for part in (result, result["bfloat16"])]

    worst = max(row["computed_over_distinct"] for task, row in zip(work, result["tasks"], strict=True) if task.beginnings)
    usual, laid_out = rates("matrix_product"), rates("laid_out_product")
    rows = [
        ask("reading / matrix product, FLOP/s", 0.8, usual[0], bfloat16=usual[1]),
        ask("reading / the engine's own matrix product, FLOP/s", 0.8, laid_out[0], bfloat16=laid_out[1]),
        ask("computed / distinct tokens, the largest where prompts begin alike", 1.05, worst, at_most=True),
    ]
    for task, row in zip(work, result["tasks"], strict=True):
        median = row["ratio"]["median"]
        if task.least_share:
            rows.append(ask(f"{task.name}, ratio / allowed ratio", task.least_share, median / row["allowed_ratio"]))
        if task.least_ratio:
            other = task.name in inexact and inexact[task.name]["ratio_to_float32"]["median"]
            rows.append(ask(f"{task.name}, ratio", task.least_ratio, median, bfloat16=other or None))
    return rows


def ask(name: str, asked: float, measured: float, *, at_most: bool = False, bfloat16: float | None = None) -> dict:
    def reached(value):
        return value <= asked if at_most else value >= asked

    row = {"name": name, "asked": f"at {'most' if at_most else 'least'} {asked:g}"}
    row |= {"measured": measured, "reached": reached(measured)}
    return row if bfloat16 is None else row | {"bfloat16": bfloat16, "bfloat16_reached": reached(bfloat16)}


def processor() -> str:
    """The name of the processor, as Linux gives it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=60, help="of the samples; eRAG takes half, the others 1 or 3 a block")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--only", help="part of a task's name: measure nothing else, and write nothing without --out")
    parser.add_argument("--profile", default="embedded-base", choices=profiles.PROFILES)
    parser.add_argument("--out", type=Path, help="where the result goes; by default engine.json beside this file")
    given = parser.parse_args()
    result = measured(given, lambda text: print(text, flush=True))
    if given.out or not given.only:
        (given.out or RESULTS).write_text(json.dumps(result, indent=1) + "\n")
    for task in result["tasks"]:
        ratio = "{median:.1f}x [{min:.1f}, {max:.1f}]".format(**task["ratio"])
        print(f"{task['task']}: {ratio}; distinct tokens allow {task['allowed_ratio']:.1f}x for reading")
    for row in result.get("asked", []):
        missed = "" if row["reached"] else ": NOT REACHED"
        print(f"{row['name']}: {row['measured']:.2f}, asked {row['asked']}{missed}")


def measured(given: argparse.Namespace, say) -> dict:
    """All that goes into the file, or only the tasks that were asked for by name."""
    begun = time.perf_counter()
    reader, inexact = (lm.load(given.profile, mode="fresh", dtype=dtype) for dtype in ("float32", "bfloat16"))
    asked, pool, dataset = tasks.questions(given.questions)
    half, few = asked[: max(1, len(asked) // 2)], asked[: given.blocks]  # orders and edits read many texts a question

    def chosen(*work: tasks.Task) -> list[tasks.Task]:
        return [task for task in work if not given.only or given.only in task.name]

    def with_replies(model: lm.LanguageModel) -> list[tasks.Task]:
        return [tasks.samples(model, asked, given.blocks), tasks.document_labels(model, half, pool, given.blocks)]

    work = chosen(
        *with_replies(reader),
        tasks.orders(reader, few, pool, given.blocks),
        tasks.edits(reader, few, pool, given.blocks),
        tasks.entailment(lm.load("embedded", mode="fresh"), asked[: 3 * given.blocks], given.blocks),
    )
    rates = [arithmetic(model, asked, given.blocks, say) for model in (reader, inexact)]
    rows, rough = in_both(work, chosen(*with_replies(inexact)), reader, inexact, say)
    result = {
        "data": dataset,
        "questions": len(asked),
        "reader": reader.name,
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "batch_tokens": reader.batch_tokens,
        "arithmetic": rates[0],
        "tasks": rows,
        "bfloat16": {"arithmetic": rates[1], "tasks": rough},
    }
    if not given.only:
        result["bfloat16"]["error"] = error(reader, inexact, asked[:24])
        result["curves"] = curves(reader, asked, pool, say)
        result["asked"] = asks(result, work)
    return result | {"seconds": round(time.perf_counter() - begun)}


if __name__ == "__main__":
    main()
