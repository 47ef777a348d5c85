"""Three ways to judge what a list of five passages is worth: seconds of each, in one run, one question after the other.

Written to `benchmarks/verdicts.json`, for every question: a greedy reply and exact match; a greedy reply and a language model's verdict
for each accepted answer; ten samples with the list and ten without, whose meanings the quick judge compares (SePer). These are
the rows of SePer, Table 8, that can be run here. Every way begins with nothing read.
"""

import argparse
import json
from pathlib import Path

import torch
from engine import processor, timed

from rag_utils import answers, data, judge, lm, prompts, retrieve
from rag_utils.measures import CLOSED, seper

RESULTS = Path(__file__).with_name("verdicts.json")
K, SAMPLES, NEW_TOKENS = 5, 10, 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the result goes")
    given = parser.parse_args()
    reader, asker, trained = lm.load("embedded", mode="fresh"), lm.load("embedded-base", mode="fresh"), judge.load_judge("quick")
    closed, read, verdict = (prompts.load(name) for name in ("closed_plain", "read_plain", "seper_judge.chat"))
    asked, pool = data.load("companion")[: given.questions], data.passages("companion")
    run, texts = retrieve.bm25(asked, pool, k=K), {passage.id: passage for passage in pool}
    shown = {question.id: [texts[name] for name in retrieve.ranking(run[question.id])] for question in asked}

    def exact_match(question):
        prompt = read.fill(question=question.text, documents=[passage.text for passage in shown[question.id]])
        [[reply]] = reader.generate([prompt], max_new_tokens=NEW_TOKENS)
        answers.exact_match(reply.text, question.answers)
        return reply.text

    def language_model(question):
        said = exact_match(question) or "nothing"
        slots = [{"question": question.text, "reference": gold, "answer": said} for gold in question.answers]
        lm.word_log_likelihoods(asker, [asker.chat(verdict.fill(**each)) for each in slots], ("Yes", "No"))

    def belief(question):
        lists = {CLOSED: None, "list": {question.id: shown[question.id]}}
        asked_for = seper.prompts_of(reader, [question], lists, closed=closed, read=read)
        drawn = seper.draw(reader, asked_for, n=SAMPLES, max_new_tokens=NEW_TOKENS, seed=0)
        seper.beliefs(trained, [question], drawn, clustered=False)

    ways = {"exact match": exact_match, "a language model's verdict": language_model, "SePer": belief}
    for work in ways.values():  # memory that is touched for the first time is slow
        work(asked[0])
    rows = []
    for number, question in enumerate(asked):
        seconds = {way: timed("took", lambda _, do=do, q=question: do(q), None, reader.model)["took_s"] for way, do in ways.items()}
        rows.append({"question": number, "answers": len(question.answers)} | seconds)
        print(", ".join(f"{way} {value:.2f} s" for way, value in seconds.items()), flush=True)
    result = {"data": "companion", "questions": len(asked), "passages": K, "samples": SAMPLES, "reader": reader.name}
    result |= {"asker": asker.name, "processor": processor(), "threads": torch.get_num_threads(), "rows": rows}
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
