"""What ECoRAG is held against: other rules for what of the retrieved passages the reader is shown, and other scores and evaluators."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate, chain, groupby, islice, takewhile
from pathlib import Path

import numpy as np
from scipy.special import softmax

from rag_utils.base import checks
from rag_utils.data import Passage, Question
from rag_utils.engine.weights import WeightsError
from rag_utils.lm import LanguageModel, word_log_likelihoods
from rag_utils.measures import ecorag
from rag_utils.measures.ecorag import Compressed, Compressor, Evaluator, Retrieved, Score, Sentence, sentences, titled
from rag_utils.prompts import Prompt, prompt_text
from rag_utils.retrieve import DECIMALS


def question_likelihood(reader: LanguageModel, *, appended: str = "") -> Score:
    """How likely the reader finds the question, and what is `appended` to it, after each text alone: mean nats per token.

    source : query generation, UPR (Sachan et al. 2022). Deviation: text and question are put as this reader is asked, with no instruction
    """

    def score(questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[np.ndarray]:
        pairs = [(text, asked) for asked, own in zip(questions, texts, strict=True) for text in own]
        contexts = [f"Document: {text}\nQuestion:" for text, _ in pairs]
        said = reader.log_likelihood(contexts, [f" {asked}{appended}" for _, asked in pairs])
        means = iter([round(float(tokens.mean()), DECIMALS) for tokens in said])
        return [np.array([next(means) for _ in own]) for own in texts]

    return score


def towers(folder: Path) -> Score:
    """Dot products of embeddings by the two encoders of training/dual_encoder.py (ECoRAG, 3.1.2); WeightsError if the folder lacks them."""
    from sentence_transformers import SentenceTransformer

    encode = {}
    for side in ("question", "sentence"):
        if not (folder / side / "modules.json").is_file():
            what = f"there is no encoder in {folder / side}"
            raise WeightsError(f"{what}; training/evidence.py --encoder embedded makes it")
        local = {"local_files_only": True, "trust_remote_code": False}
        model = SentenceTransformer(str(folder / side), device="cpu", **local)
        encode[side] = partial(model.encode, show_progress_bar=False)
    return ecorag.dot_products(encode["sentence"], asked=encode["question"])


def reranked(first: Score, second: Score, *, pool: int) -> Score:
    """Retrieve, then rerank: the `pool` best texts by one score in the order of a second, before the rest in the order of the first.

    second  : is asked about these texts only; where it finds two equal, the first decides
    returns : a function; its numbers are places counted from the end, n - 1 for the best of n texts: the scores have no common unit
    raises  : ValueError if pool is not a whole number of at least 1
    """
    checks.whole("pool", pool, least=1)

    def score(questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[np.ndarray]:
        orders = [np.argsort(-values, kind="stable") for values in first(questions, texts)]
        best = [[own[place] for place in order[:pool]] for own, order in zip(texts, orders, strict=True)]
        scores = []
        for order, values in zip(orders, second(questions, best), strict=True):
            best_first = [*order[:pool][np.argsort(-values, kind="stable")], *order[pool:]]
            scores.append(np.argsort(best_first[::-1]).astype(float))
        return scores

    return score


def asked_evaluator(
    reader: LanguageModel, prompt: Prompt, *, verdicts: Sequence[str] = (" [Evidential]", " [Non-Evidential]")
) -> Evaluator:
    """A language model as evaluator: the probability of the first verdict against the second. For Flan-T5, a profile that names it.

    prompt : with the slots question and documents
    source : ECoRAG, section 5.2 and Fig. 7, with our words; there the model's reply is read, here its probabilities
    """

    def probability(questions: Sequence[str], kept: Sequence[Sequence[str]]) -> np.ndarray:
        texts = [prompt_text(reader, prompt, *pair) for pair in zip(questions, kept, strict=True)]
        return softmax(word_log_likelihoods(reader, texts, verdicts), axis=1)[:, 0].round(DECIMALS)

    return probability


def first_documents(k: int | None = None) -> Compressor:
    """The first k passages whole, all of them without k."""
    if k is not None:
        checks.whole("k", k, least=1)
    return lambda questions, passages: {q.id: [titled(passage) for passage in passages[q.id][:k]] for q in questions}


def shortened_documents(room: int, count_tokens: Callable[[str], int]) -> Compressor:
    """All passages, the last by their first sentence alone, as few as it takes to fit into `room` tokens; ValueError if none do."""
    count = cache(count_tokens)

    def shortened(question: Question, passages: Sequence[Passage]) -> list[str]:
        whole = [titled(passage) for passage in passages]
        short = [titled(passage, passage.cut()[0]) for passage in passages]
        for n in range(len(passages), -1, -1):
            texts = [*whole[:n], *short[n:]]
            if (size := sum(map(count, texts))) <= room:
                return texts
        raise ValueError(f"the first sentences of question {question.id!r} have {size} tokens, more than {room}")

    return lambda questions, passages: {q.id: shortened(q, passages[q.id]) for q in questions}


def extractive(score: Score, *, keep: int = ecorag.LIMIT) -> Compressor:
    """The best `keep` sentences by a score, all where there are fewer: RECOMP's extractive compressor, or a reranker of sentences."""
    return lambda questions, passages: {
        name: [sentence.text for sentence in own[:keep]] for name, own in ecorag.ranked(questions, passages, score).items()
    }


def gold_sentences(questions: Sequence[Question], passages: Retrieved) -> Compressed:
    """The oracle: the sentences that the source marks as needed, all of the gold passages where it marks none, found or not."""
    return {question.id: [sentence.text for sentence in marked(question)] for question in questions}


def marked(question: Question) -> list[Sentence]:
    """The sentences that the source marks as needed; all of the gold passages where it marks none."""
    places = question.gold_sentences or [range(len(passage.cut())) for passage in question.gold]
    return [
        Sentence(titled(passage, passage.cut()[place]), passage.id, place)
        for passage, own in zip(question.gold, places, strict=True)
        for place in own
    ]


def at_random(budget: Mapping[str, int], count_tokens: Callable[[str], int], *, seed: int = 0) -> Compressor:
    """Sentences in a random order, as many as the budget (tokens by question id) holds, one at least."""

    def compress(questions: Sequence[Question], passages: Retrieved) -> Compressed:
        rng, kept = np.random.default_rng(seed), {}
        for question in questions:
            texts = [sentence.text for sentence in sentences(passages[question.id])]
            kept[question.id] = fill(rng.permutation(texts).tolist(), budget[question.id], count_tokens)
        return kept

    return compress


def likely_documents(reader: LanguageModel, budget: Mapping[str, int]) -> Compressor:
    """LongLLMLingua's documents: those under which the question is most probable, best first, as many as the budget holds.

    source : LongLLMLingua (Jiang et al. 2024), eq. 3: the mean log-likelihood of the question's tokens given the document, of a sentence
             appended to it too, and the document order of section 4.2. Its tokens are not pruned here
    """
    score = question_likelihood(reader, appended=" We can get the answer to this question in the given documents.")

    def compress(questions: Sequence[Question], passages: Retrieved) -> Compressed:
        lists, kept = [[titled(passage) for passage in passages[question.id]] for question in questions], {}
        likely = score([question.text for question in questions], lists)
        for question, own, values in zip(questions, lists, likely, strict=True):
            order = (own[place] for place in np.argsort(-values, kind="stable"))
            kept[question.id] = fill(order, budget[question.id], reader.count_tokens)
        return kept

    return compress


def informative_sentences(reader: LanguageModel, budget: Mapping[str, int]) -> Compressor:
    """Selective-Context: the sentences whose tokens the reader expects least, in the order of the text; it does not see the question.

    source : Selective-Context (Li et al. 2023), with sentences as units and the mean over their tokens; a unit there is a phrase
    """

    def compress(questions: Sequence[Question], passages: Retrieved) -> Compressed:
        said, kept = word_information(reader, chain(*(passages[question.id] for question in questions))), {}
        for question in questions:
            mean_of = []  # sentences, nats of a token
            for passage in passages[question.id]:
                words = iter(said[passage.id])
                for sentence in passage.cut():
                    nats, tokens = zip(*islice(words, len(sentence.split())), strict=True)
                    mean_of.append((titled(passage, sentence), sum(nats) / sum(tokens)))
            order = [text for text, _ in sorted(mean_of, key=lambda pair: -pair[1])]
            chosen = fill(order, budget[question.id], reader.count_tokens)
            kept[question.id] = [text for text, _ in mean_of if text in chosen]
        return kept

    return compress


def informative_words(reader: LanguageModel, budget: Mapping[str, int]) -> Compressor:
    """LLMLingua's pruning: of all passages the words that the reader expects least, in the order of the text.

    source : LLMLingua (Jiang et al. 2023), section 4.2: tokens of a conditional perplexity above a threshold are kept. Here words, not
             tokens, whole passages read at once and not in segments, one threshold for all passages of a question so that the budget is
             met, titles kept only where words of their passage are, and no coarse step before
    """

    def compress(questions: Sequence[Question], passages: Retrieved) -> Compressed:
        said, kept = word_information(reader, chain(*(passages[question.id] for question in questions))), {}
        for question in questions:
            own = passages[question.id]
            words = [(i, word) for i, passage in enumerate(own) for word in passage.text.split()]
            nats, tokens = np.array([each for passage in own for each in said[passage.id]]).T
            order = np.argsort(-nats / tokens, kind="stable")
            most = max(1, int((np.cumsum(tokens[order]) <= budget[question.id]).sum()))
            chosen = groupby((words[place] for place in sorted(order[:most])), key=lambda word: word[0])
            kept[question.id] = [titled(own[i], " ".join(text for _, text in texts)) for i, texts in chosen]
        return kept

    return compress


def fill(texts: Iterable[str], budget: int, count_tokens: Callable[[str], int]) -> list[str]:
    """The texts from the first on that fit into so many tokens; the first in any case."""
    texts = list(texts)
    spent = zip(texts, accumulate(map(count_tokens, texts)), strict=True)
    return [text for text, total in takewhile(lambda pair: pair[1] <= budget, spent)] or texts[:1]


def word_information(reader: LanguageModel, passages: Iterable[Passage]) -> dict[str, list[tuple[float, int]]]:
    """Per passage and word how little the reader expected it: nats, and number, of its tokens; ValueError if tokens cross spaces."""
    texts = {passage.id: passage.text.split() for passage in passages}
    said = reader.log_likelihood([""] * len(texts), [" ".join(words) for words in texts.values()])

    @cache
    def length(word: str) -> int:
        return len(reader.encode(word, context=False))

    information = {}
    for (name, words), tokens in zip(texts.items(), said, strict=True):
        lengths = [length(f" {word}" if place else word) for place, word in enumerate(words)]
        if sum(lengths) != len(tokens):
            raise ValueError(f"passage {name!r}: its words have {sum(lengths)} tokens, its text {len(tokens)}")
        totals = -np.add.reduceat(tokens, np.cumsum([0, *lengths[:-1]]))
        information[name] = list(zip(totals.tolist(), lengths, strict=True))
    return information
