"""The engine against the usual way, on the same work, in one run: `make bench`.

Each task is cut into blocks, and every block is done by both, one after the other, so that whatever else the machine does hits both.
Written to `benchmarks/engine.json`: seconds per block, their ratios, tokens computed against distinct tokens, peak memory, and the rate
of arithmetic while reading against that of a matrix product measured in the same run.

The texts are NQ questions with their gold passages if RAG_COMPANION_DATA has them, otherwise the questions of the companion corpus.
"""

import argparse
import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rag_utils import data, decode, lm, prompts, retrieve
from rag_utils.manifest import DataError
from rag_utils.tree import prefix_tree, size

RESULTS = Path(__file__).with_name("engine.json")
SAMPLES, NEW_TOKENS = 10, 24


@dataclass
class Task:
    """Work cut into blocks: what we do with a block, what is usually done, and the token lists that a block has to read."""

    name: str
    usual_way: str
    blocks: Sequence
    ours: Callable
    usual: Callable
    texts: Callable


class Memory:
    """Peak of the resident memory above what it was at the start, bytes."""

    def __enter__(self):
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
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def timed(work: Callable, block) -> tuple[float, int]:
    with Memory() as memory:
        start = time.perf_counter()
        work(block)
        seconds = time.perf_counter() - start
    return seconds, memory.above


def measure(task: Task, reader: lm.LanguageModel, say) -> dict:
    rows, reader.count = [], decode.Count()
    distinct = whole = 0
    for number, block in enumerate(task.blocks):
        seconds, memory = timed(task.ours, block)
        usual_seconds, usual_memory = timed(task.usual, block)
        texts = task.texts(block)
        distinct, whole = distinct + size(prefix_tree(texts)), whole + sum(map(len, texts))
        rows.append({"ours_s": seconds, "usual_s": usual_seconds, "ours_bytes": memory, "usual_bytes": usual_memory})
        say(f"{task.name}, block {number + 1} of {len(task.blocks)}: {seconds:.1f} s against {usual_seconds:.1f} s")
    return {
        "task": task.name,
        "usual_way": task.usual_way,
        "blocks": rows,
        "tokens_of_the_texts": whole,
        "distinct_tokens": distinct,
        "computed_tokens": reader.count.computed,
        "computed_over_distinct": reader.count.computed / reader.count.distinct,
    }


def questions(n: int) -> tuple[list[data.Question], list[data.Passage], str]:
    """n questions with gold, a pool, and the name of the data set."""
    try:
        found = sorted(data.load("nq"), key=lambda question: data.question_id(question.text))
        return found[:n], data.passages("nq"), "nq"
    except DataError:
        return data.load("companion")[:n], data.passages("companion"), "companion"


def samples(reader, asked, blocks: int) -> Task:
    read = prompts.load("read_examples")
    texts = [read.fill(question=q.text, documents=[p.text for p in q.gold]) for q in asked]

    def ours(block):
        reader.generate(block, n=SAMPLES, temperature=1.0, max_new_tokens=NEW_TOKENS)

    def usual(block):
        for text in block:
            generate(reader, [text], do_sample=True, temperature=1.0, top_k=0, num_return_sequences=SAMPLES)

    return Task(
        "ten samples of a prompt with its gold passage (SePer)",
        "generate(num_return_sequences=10), one prompt after the other",
        cut(texts, blocks), ours, usual, lambda block: [reader.encode(text) for text in block],
    )  # fmt: skip


def document_labels(reader, asked, pool, blocks: int, k: int = 10) -> Task:
    read = prompts.load("read_examples")
    run = retrieve.bm25(asked, pool, k=k)
    by_id = {passage.id: passage.text for passage in pool}
    texts = {q.text: [read.fill(question=q.text, documents=[by_id[i]]) for i in run[q.id]] for q in asked}

    def ours(block):
        reader.generate([text for name in block for text in texts[name]], max_new_tokens=NEW_TOKENS)

    def usual(block):
        import erag

        def generator(inputs):  # called once per rank with {question: [document]}
            return {question: generate(reader, [found[0]], do_sample=False)[0] for question, found in inputs.items()}

        def metric(generated, expected):
            return {question: float(generated[question] in expected[question]) for question in generated}

        erag.eval({name: texts[name] for name in block}, {name: [""] for name in block}, generator, metric, {"P_10"})

    return Task(
        "a reply to each of ten documents alone (eRAG)",
        "the package erag driving generate, one prompt after the other",
        cut(list(texts), blocks), ours, usual, lambda block: [reader.encode(t) for name in block for t in texts[name]],
    )  # fmt: skip


def orders(reader, asked, pool, blocks: int) -> Task:
    """Fifteen orders of five passages, the question scored after each (MoI)."""
    run = retrieve.bm25(asked, pool, k=5)
    by_id = {passage.id: passage.text for passage in pool}
    work = []
    for question in asked:
        passages = [f"Document: {by_id[i]}\n" for i in run[question.id]]
        every = list(itertools.permutations(passages))
        drawn = np.random.default_rng(0).choice(len(every), size=min(15, len(every)), replace=False)
        work.append([("".join(every[i]), f"Question: {question.text}") for i in drawn])
    return scoring(reader, "fifteen orders of five passages (MoI)", cut(work, blocks))


def edits(reader, asked, pool, blocks: int) -> Task:
    """A context of five chunks and the five that differ from it in one, the same reply scored under each (DENSE)."""
    run = retrieve.bm25(asked, pool, k=10)
    by_id = {passage.id: passage.text for passage in pool}
    work = []
    for question in asked:
        found = [f"Document: {by_id[i]}\n" for i in run[question.id]]
        chunks, spare = found[:5], found[5:]
        contexts = [chunks] + [[*chunks[:i], spare[i % len(spare)], *chunks[i + 1 :]] for i in range(len(chunks))]
        work.append([("".join(context) + f"Question: {question.text}\nAnswer:", " unknown") for context in contexts])
    return scoring(reader, "six contexts that differ in one chunk (DENSE)", cut(work, blocks))


def scoring(reader, name: str, blocks) -> Task:
    def pairs(block):
        return [pair for group in block for pair in group]

    def ours(block):
        reader.log_likelihood(*map(list, zip(*pairs(block), strict=True)))

    def usual(block):
        for group in block:
            padded_log_likelihood(reader, group)

    def texts(block):
        return [reader.encode(context) + reader.encode(text) for context, text in pairs(block)]

    return Task(name, "the texts of a question as one padded batch", blocks, ours, usual, texts)


@torch.inference_mode()
def padded_log_likelihood(reader, group) -> list[torch.Tensor]:
    """What is usually written: tokenise with padding, one forward pass, log-softmax of all, pick."""
    tokenizer, model = reader.tokenizer, reader.model
    batch = tokenizer([context + text for context, text in group], return_tensors="pt", padding=True)
    logits = model(**batch.to(model.device)).logits
    log_probability = torch.log_softmax(logits[:, :-1], dim=-1)
    return log_probability.gather(2, batch["input_ids"][:, 1:, None])[..., 0]


def generate(reader, texts: list[str], **options) -> list[str]:
    """transformers' own generate, up to the end of the line."""
    tokenizer = reader.tokenizer
    batch = tokenizer(texts, return_tensors="pt").to(reader.model.device)
    found = reader.model.generate(
        **batch,
        **options,
        max_new_tokens=NEW_TOKENS,
        stop_strings=["\n"],
        tokenizer=tokenizer,
        pad_token_id=tokenizer.eos_token_id,
    )
    return tokenizer.batch_decode(found[:, batch["input_ids"].shape[1] :])


def cut(items: Sequence, blocks: int) -> list[list]:
    return (
        [list(part) for part in np.array_split(np.array(items, dtype=object), blocks)] if blocks > 1 else [list(items)]
    )


def arithmetic(reader, asked) -> dict:
    """FLOP per second of reading against a matrix product of the model's own shapes."""
    hidden = reader.model.config.hidden_size
    inner = reader.model.config.intermediate_size
    left, right = torch.randn(4096, hidden), torch.randn(inner, hidden)
    product = best(lambda: torch.nn.functional.linear(left, right), 2 * left.shape[0] * hidden * inner)
    read = prompts.load("read_examples")
    texts = [read.fill(question=q.text, documents=[p.text for p in q.gold]) for q in asked]
    reader.count = decode.Count()
    start = time.perf_counter()
    reader.log_likelihood(texts, [" x"] * len(texts))
    seconds = time.perf_counter() - start
    parameters = sum(
        p.numel() for name, p in reader.model.named_parameters() if "embed" not in name and "lm_head" not in name
    )
    tokens, length = reader.count.computed, np.mean([reader.count_tokens(text) for text in texts])
    layers = reader.model.config.num_hidden_layers
    flops = 2 * parameters * tokens + 4 * layers * hidden * tokens * length / 2
    return {
        "matrix_product_flop_per_s": product,
        "reading_flop_per_s": flops / seconds,
        "reading_over_matrix_product": flops / seconds / product,
        "tokens_per_s": tokens / seconds,
    }


def best(work: Callable, flops: float, times: int = 15) -> float:
    work()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return flops / float(np.median(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--questions", type=int, default=60, help="of the first task; the second takes half, the others one a block"
    )
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--only", help="part of a task's name")
    given = parser.parse_args()
    reader = lm.load("embedded", mode="fresh")
    asked, pool, dataset = questions(given.questions)
    half, few = (
        asked[: given.questions // 2],
        asked[: given.blocks],
    )  # the last two tasks read 15 and 6 long texts a question
    tasks = [
        samples(reader, asked, given.blocks),
        document_labels(reader, half, pool, given.blocks),
        orders(reader, few, pool, given.blocks),
        edits(reader, few, pool, given.blocks),
    ]
    tasks = [task for task in tasks if not given.only or given.only in task.name]
    found = {
        "data": dataset,
        "questions": len(asked),
        "reader": reader.name,
        "threads": torch.get_num_threads(),
        "dtype": reader.profile.dtype,
        "batch_tokens": reader.profile.batch_tokens,
        "arithmetic": arithmetic(reader, asked[:20]),
        "tasks": [measure(task, reader, lambda text: print(text, flush=True)) for task in tasks],
    }
    if not given.only:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    for task in found["tasks"]:
        ratios = [block["usual_s"] / block["ours_s"] for block in task["blocks"]]
        print(f"{task['task']}: {np.median(ratios):.1f}x [{min(ratios):.1f}, {max(ratios):.1f}]; distinct tokens allow "
              f"{task['tokens_of_the_texts'] / task['distinct_tokens']:.1f}x for reading")  # fmt: skip
    print(json.dumps(found["arithmetic"]))


if __name__ == "__main__":
    main()
