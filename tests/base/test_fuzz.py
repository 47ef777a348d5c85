"""Wrong kinds of input to every public function: a right result or a ValueError, no other exception, no RuntimeWarning, no NaN.

RAG_COMPANION_FUZZ=400 tries 400 inputs per function instead of a few.
"""

import math
import os
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from looped import each

from rag_utils import (
    answers,
    data,
    dense,
    ecorag,
    erag,
    judge,
    moi,
    retrieve,
    seper,
    similarity,
    stats,
    uncertainty,
)
from rag_utils.base import checks
from rag_utils.corpora.sentences import split_sentences
from rag_utils.engine import wording
from rag_utils.page import plots, report
from rag_utils.score import kappa

EXAMPLES = int(os.environ.get("RAG_COMPANION_FUZZ", "8"))
NAN, INF = math.nan, math.inf
PASSAGES = [data.Passage("p1", "A", "red fox"), data.Passage("p2", "B", "blue whale")]
QUESTIONS = [data.Question("q", "where is the fox", ("here",), "toy", gold=(PASSAGES[0],), distractors=(PASSAGES[1],))]
EYE = np.eye(3)
LABELS = ["strong", "weak", "distractor"]
ESTIMATE = SimpleNamespace(value=0.5, low=0.4, high=0.6, n=60, p_value=0.01)
SEVEN = [0.1, 0.4, 0.2, 0.9, 0.3, 0.8, 0.7]
RIGHT = [1, 1, 0, 0, 1, 0, 1]
FEW = {"resamples": 80}
SCORE = {"prediction": "red", "answers": ["red"]}
LIKELY = {"log_likelihood": [-1.0, -2.0], "clusters": [0, 1]}
ROUNDS = {
    "agree": lambda context: np.eye(len(context) + 1),
    "agree_without": lambda context, places: [0.0] * len(places),
}
READER = {"closed_book": lambda asked: [False] * len(asked), "with_sentence": lambda asked: [True] * len(asked)}
VERDICT = {"same_model": True, "same_data": True}
FRAME = pd.DataFrame({"value": [0.5], "low": [0.4], "high": [0.6], "n": [60], "p_value": [0.5]})


def embed(texts):
    return np.ones((len(texts), 2))


CALLS = [
    (answers.normalize, {"text": "The Beatles"}),
    (answers.exact_match, SCORE),
    (answers.token_f1, SCORE),
    (answers.contains_answer, {"text": "red", "answers": ["red"]}),
    (seper.cluster, {"entails": [[True, False], [False, True]], "join": "earliest"}),
    (seper.sample_weights, {"log_likelihood": [-1.0, -2.0], "weighting": "likelihood"}),
    (seper.cluster_weights, {**LIKELY, "weighting": "frequency"}),
    (seper.soft, {"log_likelihood": [-1.0, -2.0], "kernel": [[0.5], [1.0]], "over_answers": "max"}),
    (seper.hard, {**LIKELY, "matches": [[True], [False]], "over_answers": "any"}),
    (seper.utility, {"after": 0.5, "before": 0.25}),
    (erag.rank_metrics, {"labels": [0, 1, 0], "metrics": ["P@5", "AP", "nDCG@2"]}),
    (erag.name_and_cutoff, {"name": "P@5"}),
    (
        erag.annotate,
        {
            "questions": ["q"],
            "documents": [["a", "b"]],
            "references": [["a"]],
            "generate": lambda prompts: ["a"] * len(prompts),
            "score": answers.exact_match,
            "prompt": erag.question_after_document,
        },
    ),
    (
        dense.merge_sentences,
        {
            "sentences": ["a", "b"],
            "embeddings": [[1, 0], [0, 1]],
            "count_tokens": len,
            "threshold": 0.6,
            "max_tokens": 9,
            "strict": True,
        },
    ),
    (dense.single_edit_contexts, {"chunks": ["a"], "rephrased": ["b"]}),
    (dense.contexts_without_one, {"chunks": ["a", "b"]}),
    (dense.adjacency, {"entails": [[True, False], [False, True]]}),
    (dense.degree_entropy, {"adjacency": EYE}),
    (dense.chunk_roles, {"adjacency": EYE, "agrees_without": [0, 1], "half": "necessary"}),
    (dense.refine, {"initial": [0, 1], "embeddings": EYE, "is_sufficient": lambda context: False, **ROUNDS}),
    (dense.refine, {"initial": [0], "embeddings": EYE, "threshold": 0.1, "limit": 2, "refill": "certain", **ROUNDS}),
    (uncertainty.predictive_entropy, {"log_likelihood": [-1.0]}),
    (uncertainty.perplexity, {"token_log_likelihood": [-1.0]}),
    (uncertainty.semantic_entropy, LIKELY),
    (uncertainty.monte_carlo_semantic_entropy, LIKELY),
    (uncertainty.discrete_semantic_entropy, {"clusters": [0, 1]}),
    (uncertainty.eigenvalue_sum, {"affinity": EYE}),
    (uncertainty.degree_uncertainty, {"affinity": EYE}),
    (uncertainty.kernel_language_entropy, {"weights": EYE, "kernel": "heat", "t": 0.3, "scaled": True}),
    (uncertainty.kernel_language_entropy, {"weights": 1 - EYE, "kernel": "matern", "kappa": 1.0, "nu": 2.0}),
    (uncertainty.checked_affinity, {"matrix": EYE}),
    (ecorag.evidentiality, {"closed_book": False, "with_sentence": True, "strong_with_sentence": None}),
    (
        ecorag.mine,
        {
            "questions": ["q"],
            "sentences": [["a", "b"]],
            **READER,
            "strong_with_sentence": lambda asked: [True] * len(asked),
        },
    ),
    (ecorag.label_statistics, {"labels": [LABELS]}),
    (ecorag.info_nce, {"positive": 0.5, "negatives": [0.1, 0.2], "temperature": 1.0}),
    (ecorag.strong_loss, {"scores": [0.3, 0.2, 0.1], "labels": LABELS, "temperature": 0.5}),
    (ecorag.weak_loss, {"scores": [0.3, 0.2, 0.1], "labels": LABELS}),
    (ecorag.compressor_loss, {"scores": [0.3, 0.2, 0.1], "labels": LABELS, "temperature": 2}),
    (
        ecorag.compress,
        {"sentences": ["a", "b"], "scores": [1, 2], "is_sufficient": lambda kept: True, "step": 1, "limit": 2},
    ),
    (moi.cyclic_orders, {"n": 4, "prefix": 2}),
    (moi.random_orders, {"n": 4, "m": 3, "prefix": 2, "rng": 0}),
    (moi.prefix_length, {"scores": [2.0, 1.0], "share": 0.9, "temperature": 1.0, "least": 1}),
    (moi.saliency, {"query": [-1.0, -2.0], "passages": [-3.0, -4.0], "prior": True, "form": "log"}),
    (moi.predict, {"orders": [[0, 1], [1, 0]], "position": [0.6, 0.4], "utility": [1.0, 2.0]}),
    (moi.fit, {"orders": [[0, 1], [1, 2], [2, 0]], "scores": [1.0, 2.0, 3.0], "n": 3, "starts": 2, "rng": 0}),
    (
        moi.solve_utility,
        {"orders": [[0, 1], [1, 2], [2, 0]], "scores": [1.0, 2.0, 3.0], "n": 3, "position": [0.75, 0.25]},
    ),
    (moi.rerank, {"utility": [0.1, 0.2]}),
    (moi.jacobian_rank, {"orders": [[0, 1], [1, 0]], "position": [0.6, 0.4], "utility": [1.0, 2.0]}),
    (stats.Estimate, {"value": 0.5, "low": 0.4, "high": 0.6, "n": 5, "undefined": 0}),
    (stats.Difference, {"value": 0.5, "low": 0.4, "high": 0.6, "n": 5, "p_value": 0.5}),
    (stats.mean_interval, {"values": SEVEN, "groups": list("aabbccd"), "rng": 0, **FEW}),
    (stats.proportion_interval, {"successes": 2, "n": 5}),
    (stats.paired_difference, {"a": SEVEN, "b": RIGHT}),
    (stats.unpaired_difference, {"values": SEVEN, "second": RIGHT, **FEW}),
    (stats.holm, {"p_values": [0.1, 0.2]}),
    (stats.correlation, {"x": SEVEN, "y": SEVEN[::-1], "method": "pearson", "groups": None, **FEW}),
    (
        stats.correlation,
        {"x": SEVEN, "y": RIGHT, "method": "kendall", "groups": list("aabbccd"), **FEW},
    ),
    (stats.largest_kendall, {"x": SEVEN, "y": RIGHT}),
    (stats.correlation_difference, {"a": SEVEN, "b": SEVEN[::-1], "target": RIGHT, "method": "spearman", **FEW}),
    (stats.auroc, {"uncertainty": SEVEN, "correct": RIGHT}),
    (stats.aurac, {"uncertainty": SEVEN, "correct": RIGHT}),
    (similarity.rouge_l, {"prediction": "red", "references": ["red"]}),
    (similarity.bleu, {"prediction": "red", "references": ["red"]}),
    (
        similarity.bertscores,
        {"predictions": ["a"], "references": [["b"]], "encoder": lambda texts: [np.ones((1, 2))] * len(texts)},
    ),
    (kappa.cohen, {"a": RIGHT, "b": RIGHT[::-1], "resamples": 80, "seed": 0}),
    (kappa.fleiss, {"ratings": [[1, 1], [0, 1], [0, 0]] * 3, "resamples": 80}),
    (kappa.kappa_at, {"prevalence": 0.5, "sensitivity": 0.9, "specificity": 0.9}),
    (data.question_id, {"text": "who"}),
    (data.passage_id, {"title": "A", "text": "who"}),
    (data.held_out, {"question_text": "who"}),
    (data.Passage, {"id": "p", "title": "A", "text": "red", "sentences": ("red",)}),
    (data.Question, {"id": "q", "text": "who", "answers": ("red",), "dataset": "toy", "gold": (), "distractors": ()}),
    (retrieve.own_passages, {"question": QUESTIONS[0]}),
    (retrieve.bm25, {"questions": QUESTIONS, "pool": PASSAGES, "k": 1}),
    (retrieve.dense, {"questions": QUESTIONS, "pool": PASSAGES, "k": 1, "encoder": embed}),
    (retrieve.hard_negatives, {"questions": QUESTIONS, "pool": PASSAGES, "k": 1, "short": "keep"}),
    (retrieve.qrels, {"questions": QUESTIONS}),
    (retrieve.ranking, {"scores": {"p": 1.0}}),
    (retrieve.evaluate, {"run": {"q": {"p": 1.0}}, "qrels": {"q": {"p": 1}}, "metrics": ["P@1", "AP"]}),
    (retrieve.remembering, {"encode": embed}),
    (wording.words, {"text": "twenty-one"}),
    (wording.compare, {"question": "who", "left": "red", "right": "the red one"}),
    (judge.question_key, {"question": "who"}),
    (judge.fold, {"question": "who"}),
    (split_sentences, {"text": "One. Two."}),
    (partial(checks.one_of, "fruit", known=["pear"]), {"value": "pear"}),
    (checks.generator, {"rng": 0}),
    (report.Verdict, {"verdict": "reproduced", "why": "so"}),
    (
        report.value_verdict,
        {"estimate": ESTIMATE, "published": 0.5, "exact_within": None, "scale": 1, **VERDICT},
    ),
    (report.claim_verdict, {"difference": ESTIMATE, "direction": "+", **VERDICT}),
    (report.interval_text, {"estimate": ESTIMATE, "digits": 3, "scale": 100}),
    (report.interval_table, {"table": FRAME, "digits": 3}),
    (report.comparison_table, {"rows": []}),
    (report.provenance, {"model": "a", "seed": 0}),
    (report.package_versions, {"names": ["numpy"]}),
    (report.published, {"name": "seper_table1"}),
    (plots.axis_label, {"quantity": "F1", "unit": "0-1", "better": "higher"}),
    (plots.mark, {"name": "gold"}),
]

NUMBERS = [NAN, INF, -INF, -1, 0, 1, 2, 0.5, True, 10**20, -(10**400), 10**400, 1e308, -1e308, 1e160, 5e-324, 1j]
OTHERS = [
    None,
    "",
    " ",
    "a",
    "1",
    "\ud800",
    "a\0b",
    b"a",
    object(),
    type,
    {},
    set(),
    {"q": 1},
    {"q": {"p": NAN}},
    iter("ab"),
]
ARRAYS = [np.float32(1e38), np.bool_(True), np.array(3), np.zeros((2, 0)), np.ones((2, 2, 2)), np.eye(2) * NAN, FRAME]
FUNCTIONS = [lambda *given, **named: None, lambda *given, **named: "a", lambda *given, **named: [NAN] * 3]
single = st.sampled_from([*NUMBERS, *OTHERS, *ARRAYS, *FUNCTIONS])
ragged = st.sampled_from([[[1], [1, 2]], [[0.5, NAN], [NAN, 0.5]], [["a"], "b"], [[]], [{}]])
wrong = single | ragged | st.lists(single, max_size=4) | st.lists(st.lists(single, max_size=3), max_size=3)


def not_a_number(result):
    if isinstance(result, float):
        return math.isnan(result)
    return isinstance(result, np.ndarray) and result.dtype.kind == "f" and bool(np.isnan(result).any())


def odd(function, arguments):
    """What came of it that is neither a result nor a ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            result = function(**arguments)
        except ValueError as error:
            return None if str(error) else "a ValueError without a word"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "NaN" if not_a_number(result) else None


def test_the_calls_are_right_as_they_stand():
    failed = []
    for function, arguments in CALLS:
        if arguments.get("rows") != []:
            try:
                function(**arguments)
            except ValueError as error:
                failed.append(f"{function}: {error}")
    assert failed == []


@each(("function", "arguments"), CALLS, ids=lambda case: str(case[0]))
def test_wrong_kinds_of_input_are_refused_with_a_value_error(function, arguments):
    @settings(
        derandomize=True, deadline=None, max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.dictionaries(st.sampled_from(sorted(arguments)), wrong, min_size=1, max_size=2))
    def tried(change):
        found = odd(function, arguments | change)
        assert found is None, f"{change!r:.300} -> {found}"

    tried()
