"""Train T5 to read documents, fused in its decoder or side by side in its prompt, and see how well eRAG's labels go with it.

    HF_HUB_OFFLINE=0 RAG_COMPANION_DATA=/where/the/benchmarks/are python training/fid.py --model google-t5/t5-small --how fid
    HF_HUB_OFFLINE=0 RAG_COMPANION_DATA=/where/the/benchmarks/are python training/fid.py --model google-t5/t5-small --how prompt

This is Fig. 3 of eRAG on Natural Questions, with the paper's recipe (`fid.train`): trained on the questions that are not held out, measured
on those that are. It needs weights of a trained T5, from a model hub or a folder, and a GPU for the paper's fifty documents; the book was
made without either. An interrupted run goes on where it was.
"""

import argparse
from pathlib import Path

import fusion_in_decoder as fid
import numpy as np

from rag_utils import answers, data, erag, retrieve, stats
from rag_utils.base.cache import ROOT
from rag_utils.engine import weights
from rag_utils.engine.profiles import Profile


def settings(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="encoder-decoder, of a model hub or a folder with safetensors")
    parser.add_argument("--how", choices=("fid", "prompt"), default="fid")
    parser.add_argument("--documents", type=int, default=50, help="by BM25, per question")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--limit", type=int, default=None, help="train and measure on that many questions each")
    parser.add_argument("--max-new-tokens", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, default=ROOT / "_build" / "fid", help="where an interrupted run is kept")
    return parser.parse_args(given)


def texts(question: str, documents: list[str], how: str) -> list[str]:
    """What the encoder reads of a question: a text per document, or one text with all of them. Of one document both are the same."""
    parts = documents if how == "fid" else [" ".join(documents)]
    return [f"question: {question} context: {part}" for part in parts]


def lists(questions: list[data.Question], k: int) -> list[list[str]]:
    """The texts of the k best passages of each question, best first."""
    pool = data.passages("nq")
    run, text = retrieve.bm25(questions, pool, k=k), {passage.id: passage.text for passage in pool}
    return [[text[i] for i in retrieve.ranking(run[question.id])] for question in questions]


def main(given: argparse.Namespace) -> stats.Correlation:
    asked = sorted(data.load("nq"), key=lambda question: data.question_id(question.text))
    seen = [question for question in asked if not data.held_out(question.text)][: given.limit]
    unseen = [question for question in asked if data.held_out(question.text)][: given.limit]
    loaded = weights.load(Profile(name="fid", reader=given.model, task="seq2seq"))
    model, tokenizer = loaded.model, loaded.tokenizer
    examples = [
        (texts(question.text, documents, given.how), question.answers[0])
        for question, documents in zip(seen, lists(seen, given.documents), strict=True)
    ]
    recipe = fid.Recipe(epochs=given.epochs, batch=given.batch, seed=given.seed)
    losses = fid.train(model, tokenizer, examples, recipe, folder=given.state / given.how)
    print(f"loss {losses[0]:.2f} at the first step, {losses[-1]:.2f} at the last of {len(losses)}")

    def scores(inputs: list[list[str]], questions: list[data.Question]) -> list[float]:
        replies = fid.generate(model, tokenizer, inputs, max_new_tokens=given.max_new_tokens)
        return [answers.exact_match(r, list(q.answers)) for r, q in zip(replies, questions, strict=True)]

    documents = lists(unseen, given.documents)
    whole = scores([texts(q.text, own, given.how) for q, own in zip(unseen, documents, strict=True)], unseen)
    pairs = [(q, text) for q, own in zip(unseen, documents, strict=True) for text in own]
    alone = scores([texts(q.text, [text], given.how) for q, text in pairs], [q for q, _ in pairs])
    labels = np.split(np.array(alone), np.cumsum([len(own) for own in documents])[:-1])
    precision = [erag.rank_metrics(row.tolist(), [f"P@{len(row)}"])[f"P@{len(row)}"] for row in labels]
    tau = stats.correlation(precision, whole, method="kendall", rng=given.seed)
    print(f"{given.how}: exact match {np.mean(whole):.3f}, tau of precision under eRAG's labels {tau}, n = {tau.n}")
    return tau


if __name__ == "__main__":
    main(settings())
