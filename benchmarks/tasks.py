"""What is timed: work that the chapters ask for, done our way and the way it is usually written.

Each task is cut into blocks, and its `texts` say which tokens a block is about, every text as often as it is asked.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import transformers

from rag_utils import data, judge, lm, prompts, retrieve
from rag_utils.corpora.manifest import DataError
from rag_utils.engine.tree import prefix_tree, size

SAMPLES, NEW_TOKENS = 10, 24


@dataclass
class Task:
    """Work cut into blocks: what we do with a block, what is usually done, and the token lists that a block has to read.

    what        : the work in words
    model       : whose passes are counted
    beginnings  : whether texts can share their beginnings; otherwise only equal texts are computed once
    least_ratio : the ratio of seconds, usual to ours, that was asked for
    least_share : the share that was asked for of the ratio that distinct tokens allow
    """

    name: str
    what: str
    usual_way: str
    blocks: Sequence
    ours: Callable
    usual: Callable
    texts: Callable
    model: torch.nn.Module
    beginnings: bool = True
    least_ratio: float | None = None
    least_share: float | None = None

    def distinct(self, texts: Sequence[list[int]]) -> int:
        """Tokens of these texts that no way of sharing could save."""
        return size(prefix_tree(texts)) if self.beginnings else sum(map(len, {tuple(text) for text in texts}))


def questions(n: int) -> tuple[list[data.Question], list[data.Passage], str]:
    """n questions with gold, a pool, and the name of the data set."""
    try:
        questions = sorted(data.load("nq"), key=lambda question: data.question_id(question.text))
        return questions[:n], data.passages("nq"), "nq"
    except DataError:
        return data.load("companion")[:n], data.passages("companion"), "companion"


def cut(items: Sequence, blocks: int) -> list[list]:
    """The items in `blocks` parts of nearly equal length, none of them empty."""
    bounds = np.linspace(0, len(items), min(blocks, len(items)) + 1).astype(int)
    return [list(items[first:last]) for first, last in itertools.pairwise(bounds)]


# ------------------------------------------------------------ replies


def samples(reader: lm.LanguageModel, asked, blocks: int, *, n: int = SAMPLES) -> Task:
    """n samples of each question with its gold passage."""
    texts = with_gold(asked)

    def ours(block):
        reader.generate(block, n=n, temperature=1.0, max_new_tokens=NEW_TOKENS)

    def usual(block):
        for text in block:
            generate(reader, [text], do_sample=True, temperature=1.0, top_k=0, num_return_sequences=n)

    return Task(
        "SePer: samples",
        "ten samples of a prompt with its gold passage",
        "generate(num_return_sequences=10), one prompt after the other",
        cut(texts, blocks),
        ours,
        usual,
        lambda block: [reader.encode(text) for text in block for _ in range(n)],
        reader.model,
        least_ratio=6.0,
    )


def document_labels(reader: lm.LanguageModel, asked, pool, blocks: int, *, k: int = 10) -> Task:
    """A reply to each of the k best documents of a question, one document at a time."""
    read = prompts.load("read_examples")
    run = retrieve.bm25(asked, pool, k=k)
    by_id = {passage.id: passage.text for passage in pool}
    texts = {q.text: [read.fill(question=q.text, documents=[by_id[i]]) for i in run[q.id]] for q in asked}

    def ours(block):
        reader.generate([text for name in block for text in texts[name]], max_new_tokens=NEW_TOKENS)

    def usual(block):
        import erag

        def generator(inputs):  # called once per rank with {question: [document]}
            return {asked: generate(reader, [prompts[0]], do_sample=False)[0] for asked, prompts in inputs.items()}

        def metric(generated, expected):
            return {question: float(generated[question] in expected[question]) for question in generated}

        erag.eval({name: texts[name] for name in block}, {name: [""] for name in block}, generator, metric, {"P_10"})

    return Task(
        "eRAG: documents",
        "a reply to each of ten documents of a question alone",
        "the package erag driving generate, one prompt after the other",
        cut(list(texts), blocks),
        ours,
        usual,
        lambda block: [reader.encode(text) for name in block for text in texts[name]],
        reader.model,
        least_ratio=4.0,
    )


def with_gold(asked) -> list[str]:
    """The prompt of each question with its gold passages."""
    read = prompts.load("read_examples")
    return [read.fill(question=q.text, documents=[p.text for p in q.gold]) for q in asked]


def generate(reader: lm.LanguageModel, texts: list[str], **options) -> list[str]:
    """transformers' own generate, up to the end of the line."""
    tokenizer = reader.tokenizer
    batch = tokenizer(texts, return_tensors="pt", padding=True, padding_side="left").to(reader.model.device)
    ids = reader.model.generate(
        **batch,
        **options,
        max_new_tokens=NEW_TOKENS,
        stop_strings=["\n"],
        tokenizer=tokenizer,
        pad_token_id=tokenizer.eos_token_id,
    )
    return tokenizer.batch_decode(ids[:, batch["input_ids"].shape[1] :])


# ------------------------------------------------------------ log-likelihoods


def orders(reader: lm.LanguageModel, asked, pool, blocks: int) -> Task:
    """Fifteen orders of five passages, the question scored after each."""
    run = retrieve.bm25(asked, pool, k=5)
    by_id = {passage.id: passage.text for passage in pool}
    work = []
    for question in asked:
        passages = [f"Document: {by_id[i]}\n" for i in run[question.id]]
        every = list(itertools.permutations(passages))
        drawn = np.random.default_rng(0).choice(len(every), size=min(15, len(every)), replace=False)
        work.append([("".join(every[i]), f"Question: {question.text}") for i in drawn])
    return scoring(reader, "MoI: orders", "the question after fifteen orders of five passages", cut(work, blocks))


def edits(reader: lm.LanguageModel, asked, pool, blocks: int) -> Task:
    """A context of five chunks and the five that differ from it in one, the same reply scored under each."""
    run = retrieve.bm25(asked, pool, k=10)
    by_id = {passage.id: passage.text for passage in pool}
    work = []
    for question in asked:
        texts = [f"Document: {by_id[i]}\n" for i in run[question.id]]
        chunks, spare = texts[:5], texts[5:]
        contexts = [chunks] + [[*chunks[:i], spare[i % len(spare)], *chunks[i + 1 :]] for i in range(len(chunks))]
        work.append([("".join(context) + f"Question: {question.text}\nAnswer:", " unknown") for context in contexts])
    return scoring(reader, "DENSE: edits", "one given reply scored under six contexts that differ in one chunk", cut(work, blocks))


def scoring(reader: lm.LanguageModel, name: str, what: str, blocks) -> Task:
    def pairs(block):
        return [pair for group in block for pair in group]

    def ours(block):
        reader.log_likelihood(*map(list, zip(*pairs(block), strict=True)))

    def usual(block):
        for group in block:
            padded_log_likelihood(reader, group)

    return Task(
        name,
        what,
        "the texts of a question as one padded batch",
        blocks,
        ours,
        usual,
        lambda block: [reader.encode(context) + reader.encode(text, context=False) for context, text in pairs(block)],
        reader.model,
        least_share=0.9,
    )


@torch.inference_mode()
def padded_log_likelihood(reader: lm.LanguageModel, group) -> torch.Tensor:
    """What is usually written: tokenise with padding, one forward pass, log-softmax of all, pick."""
    tokenizer, model = reader.tokenizer, reader.model
    batch = tokenizer([context + text for context, text in group], return_tensors="pt", padding=True)
    logits = model(**batch.to(model.device)).logits
    log_probability = torch.log_softmax(logits[:, :-1], dim=-1)
    return log_probability.gather(2, batch["input_ids"][:, 1:, None])[..., 0]


# ------------------------------------------------------------ entailment


def entailment(reader: lm.LanguageModel, asked, blocks: int) -> Task:
    """Every ordered pair of ten samples of a question, judged: what clustering by meaning asks for.

    reader : who replies; the more often it says the same, the fewer pairs are different
    """
    judged = random_judge(reader.tokenizer)
    replies = reader.generate(with_gold(asked), n=SAMPLES, temperature=1.0, max_new_tokens=NEW_TOKENS)
    work = [
        [(question.text, left.text, right.text) for left, right in itertools.permutations(ten, 2)]
        for question, ten in zip(asked, replies, strict=True)
    ]

    def triples(block):
        return [triple for group in block for triple in group]

    def ours(block):
        judged.entailment(*map(list, zip(*triples(block), strict=True)))

    def usual(block):
        for triple in triples(block):
            one_pair(judged, *triple)

    return Task(
        "SePer: entailment",
        "every ordered pair of ten samples judged",
        "one pair at a time",
        cut(work, blocks),
        ours,
        usual,
        lambda block: [pair_tokens(judged, *triple).input_ids[0].tolist() for triple in triples(block)],
        judged.model,
        beginnings=False,
        least_ratio=10,
    )


def random_judge(tokenizer) -> judge.NliJudge:
    """An entailment model of the size of DeBERTa-v2 base with random weights, since none is at hand without a hub.

    What it says means nothing; what it costs is what a trained one would cost.
    """
    torch.manual_seed(0)
    config = transformers.DebertaV2Config(
        vocab_size=len(tokenizer),
        hidden_size=768,
        intermediate_size=3072,
        num_hidden_layers=12,
        num_attention_heads=12,
        type_vocab_size=0,
        relative_attention=True,
        position_buckets=256,
        pos_att_type=["p2c", "c2p"],
        share_att_key=True,
        norm_rel_ebd="layer_norm",
        position_biased_input=False,
        id2label=dict(enumerate(judge.LABELS)),
        pad_token_id=tokenizer.pad_token_id,
    )
    return judge.NliJudge(transformers.DebertaV2ForSequenceClassification(config).eval(), tokenizer)


def pair_tokens(judged: judge.NliJudge, question: str, premise: str, hypothesis: str):
    return judged.tokenizer(f"{question} {premise}", f"{question} {hypothesis}", return_tensors="pt")


@torch.inference_mode()
def one_pair(judged: judge.NliJudge, *triple: str) -> torch.Tensor:
    """What is usually written: tokenise one pair, one forward pass, softmax."""
    return torch.softmax(judged.model(**pair_tokens(judged, *triple).to(judged.model.device)).logits[0], dim=-1)
