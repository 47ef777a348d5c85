"""A passage in other words, one at a time, and what a reader then says: everything of DENSE that asks a language model to write.

    other = dict(zip(texts, rephrase(asker, texts, prompt), strict=True))
    said = replies_under_edits(reader, questions, shown, other, prompt=read)

Reply 0 is the one to the original context, and the one whose correctness counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rag_utils import answers, dense
from rag_utils.data import Passage, Question
from rag_utils.engine.tree import prefix_tree, size
from rag_utils.judge import Judge
from rag_utils.lm import Generation, LanguageModel
from rag_utils.prompts import Prompt, prompt_text

Replies = dict[str, list[Generation]]  # question id -> its replies


def rephrase(asker: LanguageModel, texts: Sequence[str], prompt: Prompt, *, max_new_tokens: int = 128) -> list[str]:
    """Each text in other words, greedily, up to the first line break.

    prompt  : with the slot text
    returns : one string per text; a reply that is empty gives the text itself, which is then an edit that changes nothing
    source  : DENSE, eq. 3. A small model leaves things out, and nothing here checks that: see `faithful`
    """
    asked = [prompt_text(asker, prompt, text=text) for text in texts]
    replies = asker.generate(asked, max_new_tokens=max_new_tokens)
    return [said[0].text.strip() or text for text, said in zip(texts, replies, strict=True)]


def faithful(
    judge: Judge, texts: Sequence[str], rephrased: Sequence[str], *, question: str = "What is said?"
) -> np.ndarray:
    """P(the text in other words still says the same), by a judge that was made for answers.

    question : what both texts are taken as answers to
    returns  : (n,) float, 0 .. 1
    source   : DENSE, appendix D and Table 6
    """
    return judge.equivalent([question] * len(texts), texts, rephrased)


def replies_under_edits(
    reader: LanguageModel,
    questions: Sequence[Question],
    shown: Mapping[str, Sequence[Passage]],
    rephrased: Mapping[str, str],
    *,
    prompt: Prompt,
    temperature: float = 0.0,
    max_new_tokens: int = 24,
    seed: int = 0,
) -> Replies:
    """The reply to the original context and, per passage, the reply when that passage alone is in other words.

    shown       : per question id the k passages of its context, best first
    rephrased   : text of a passage -> the same in other words
    temperature : 0 is greedy; else one sample from each context
    returns     : per question id k + 1 replies, the one to the original context first
    raises      : ValueError if a passage has no other words, or as `LanguageModel.generate`
    source      : DENSE, eq. 4, by `dense.single_edit_contexts`
    """
    how = {"temperature": temperature, "max_new_tokens": max_new_tokens, "seed": seed}
    asked = [(question, shown[question.id]) for question in questions]
    replies = _ask(reader, asked, rephrased, prompt, how)
    return dict(zip([question.id for question in questions], replies, strict=True))


def replies_by_size(
    reader: LanguageModel,
    questions: Mapping[int, Sequence[Question]],
    ranked: Mapping[str, Sequence[Passage]],
    rephrased: Mapping[str, str],
    *,
    prompt: Prompt,
    max_new_tokens: int = 24,
    seed: int = 0,
) -> dict[int, Replies]:
    """`replies_under_edits`, greedy, for several numbers of passages, in one call: a longer context goes on where a shorter one ends.

    questions : k -> the questions that are asked with their first k passages
    ranked    : per question id its passages, best first, at least as many as the largest k
    returns   : k -> per question id k + 1 replies
    raises    : ValueError if a question has fewer passages than k, or as `replies_under_edits`
    """
    few = sum(len(ranked[question.id]) < k for k, some in questions.items() for question in some)
    if few:
        raise ValueError(f"{few} questions have fewer passages than they are to be asked with")
    asked = [(question, ranked[question.id][:k]) for k, some in questions.items() for question in some]
    replies = iter(_ask(reader, asked, rephrased, prompt, {"max_new_tokens": max_new_tokens, "seed": seed}))
    return {k: {question.id: next(replies) for question in some} for k, some in questions.items()}


def samples(
    reader: LanguageModel,
    questions: Sequence[Question],
    shown: Mapping[str, Sequence[Passage]],
    *,
    prompt: Prompt,
    temperature: float,
    n: int = 10,
    max_new_tokens: int = 24,
    seed: int = 0,
) -> Replies:
    """n replies to the original context alone, per question id: what the other measures look at.

    The first of them is the reply 0 of `replies_under_edits` at the same temperature and seed.
    """
    asked = [prompt_text(reader, prompt, question, shown[question.id]) for question in questions]
    how = {"n": n, "temperature": temperature, "max_new_tokens": max_new_tokens, "seed": seed}
    return dict(zip([question.id for question in questions], reader.generate(asked, **how), strict=True))


def without_unfaithful(
    said: Mapping[str, list[Generation]], shown: Mapping[str, Sequence[Passage]], unfaithful: set[str]
) -> Replies:
    """The replies as if a passage that was rephrased badly had not been rephrased: the reply to the original context in its place.

    said, shown : as `replies_under_edits` returns and takes them, greedy
    unfaithful  : texts of passages whose other words do not count
    """
    return {
        name: [replies[0]]
        + [
            replies[0] if passage.text in unfaithful else reply
            for passage, reply in zip(shown[name], replies[1:], strict=True)
        ]
        for name, replies in said.items()
    }


def filtered(
    said: Mapping[str, list[Generation]],
    questions: Sequence[Question],
    shown: Mapping[str, Sequence[Passage]],
    rephrased: Mapping[str, str],
    unfaithful: set[str],
) -> dict[str, Replies]:
    """The same replies under three rules for which rephrasings count, each by `without_unfaithful`.

    returns : "edits" (all count, as in the paper), "faithful" (those that a judge accepts, unfaithful being the others) and "answer kept"
              (all but those in which an answer of the question stood and no longer does: only who knows the answer can leave these out)
    """
    kept: Replies = {}
    for question in questions:
        name = question.id
        kept |= without_unfaithful({name: said[name]}, shown, lost(question, shown[name], rephrased))
    return {"edits": dict(said), "faithful": without_unfaithful(said, shown, unfaithful), "answer kept": kept}


def lost(question: Question, passages: Sequence[Passage], rephrased: Mapping[str, str]) -> set[str]:
    """Texts of the passages that hold an answer of the question, and whose other words do not."""
    return {
        passage.text
        for passage in passages
        if answers.contains_answer(passage.text, question.answers)
        and not answers.contains_answer(rephrased[passage.text], question.answers)
    }


def cost(
    reader: LanguageModel,
    questions: Sequence[Question],
    shown: Mapping[str, Sequence[Passage]],
    rephrased: Mapping[str, str],
    *,
    prompt: Prompt,
    rephrase_prompt: Prompt,
) -> pd.DataFrame:
    """What DENSE asks of a model for each question, counted before anything is asked.

    shown, rephrased : as in `replies_under_edits`
    returns          : columns id, k, contexts (k + 1), tokens (of all contexts, each read in full), distinct (each common beginning read
                       once), alone (of the original context), rephrasing (tokens to have the k passages rephrased, reply included),
                       entailments (both ways between all replies)
    source           : DENSE, appendix L, which counts calls: k rephrasings, k + 1 replies, O(k^2) entailments
    """
    wording = {}
    for text in {passage.text for question in questions for passage in shown[question.id]}:
        asked = prompt_text(reader, rephrase_prompt, text=text)
        wording[text] = reader.count_tokens(asked) + reader.count_tokens(rephrased[text])
    table = []
    for question in questions:
        passages = shown[question.id]
        encoded = [reader.encode(text) for text in _contexts(reader, question, passages, rephrased, prompt)]
        n = len(encoded)
        row = {"id": question.id, "k": n - 1, "contexts": n, "tokens": sum(map(len, encoded))}
        row |= {"distinct": size(prefix_tree(encoded)), "alone": len(encoded[0])}
        row |= {"rephrasing": sum(wording[passage.text] for passage in passages), "entailments": n * (n - 1)}
        table.append(row)
    return pd.DataFrame(table)


def _ask(reader, asked, rephrased, prompt: Prompt, how: dict) -> list[list[Generation]]:
    """The replies to all contexts of each (question, passages), in one call."""
    missing = sum(passage.text not in rephrased for _, passages in asked for passage in passages)
    if missing:
        raise ValueError(f"{missing} passages that are shown have no other words; rephrase them first")
    texts = [_contexts(reader, question, passages, rephrased, prompt) for question, passages in asked]
    replies = iter(reader.generate([text for some in texts for text in some], **how))
    return [[next(replies)[0] for _ in some] for some in texts]


def _contexts(reader, question: Question, passages: Sequence[Passage], rephrased, prompt: Prompt) -> list[str]:
    """The prompt with the original passages, and one per passage with that passage in other words."""
    texts = [passage.text for passage in passages]
    contexts = dense.single_edit_contexts(texts, [rephrased[text] for text in texts])
    return [prompt_text(reader, prompt, question, _in_words(passages, some)) for some in contexts]


def _in_words(passages: Sequence[Passage], texts: Sequence[str]) -> list[Passage]:
    return [replace(passage, text=text, sentences=()) for passage, text in zip(passages, texts, strict=True)]
