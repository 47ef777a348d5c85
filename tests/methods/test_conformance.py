"""data/conformance: this module passes its cases, plausible wrong formulas do not, and its script says so to anybody's module."""

import subprocess
import sys

import conformance
import numpy as np
import pytest
from looped import each

import rag_utils
from rag_utils import dense, ecorag, moi, seper, uncertainty

CASES = list(conformance.check.cases())


@each("case", CASES, ids=lambda case: f"{case['file']}: {case['name']}")
def test_every_case_passes(case):
    said, detail = conformance.check.outcome(rag_utils, case)
    assert said == "pass", detail


def test_files_say_what_they_are_and_are_small():
    readme = (conformance.FOLDER / "README.md").read_text(encoding="utf-8")
    for file in conformance.FILES:
        own = conformance.cases(file)
        assert len({case["name"] for case in own}) == len(own) > 0
        assert all(case["source"] and 0 < case["tolerance"] <= 1e-5 for case in own)
        assert (conformance.FOLDER / f"{file}.json").stat().st_size < 25_000
        [line] = [line for line in readme.splitlines() if line.startswith(f"| `{file}.json`")]
        assert all(f"`{case['function'].partition('.')[2]}`" in line for case in own)
    assert readme.count(".json` |") == len(conformance.FILES)


# file -> name of a function, and what somebody might take for it
WRONG = [
    ("semantic_entropy", "cluster", lambda entails, **_: [int(np.argmax(row)) for row in entails & entails.T]),
    ("semantic_entropy", "semantic_entropy", uncertainty.monte_carlo_semantic_entropy),
    ("semantic_entropy", "monte_carlo_semantic_entropy", uncertainty.semantic_entropy),
    ("semantic_entropy", "discrete_semantic_entropy", lambda clusters: np.log(len(set(clusters.tolist())))),
    (
        "uncertainty_graph",
        "degree_uncertainty",
        lambda affinity: len(affinity) * uncertainty.degree_uncertainty(affinity),
    ),
    ("uncertainty_graph", "eigenvalue_sum", lambda affinity: np.maximum(0, np.linalg.eigvalsh(affinity)).sum()),
    ("seper", "soft", lambda nats, kernel, **how: seper.soft(nats, kernel.max(axis=1, keepdims=True), **how)),
    ("seper", "hard", lambda nats, clusters, matches, **_: seper.hard(nats, clusters, matches, over_answers="max")),
    ("seper", "utility", lambda after, before: before - after),
    ("erag", "rank_metrics", lambda labels, metrics: {name: labels.mean() for name in metrics}),
    ("dense", "adjacency", lambda entails: (entails & entails.T).astype(float)),
    ("dense", "degree_entropy", lambda links: -np.log(links.mean())),
    ("dense", "chunk_roles", lambda links, without, *, half: dense.chunk_roles(links, without, half="necessary")),
    ("ecorag", "evidentiality", lambda closed, alone, beside: ecorag.evidentiality(False, alone, beside)),
    ("ecorag", "info_nce", lambda positive, negatives: ecorag.info_nce(positive, [positive, *negatives])),
    (
        "ecorag",
        "compress",
        lambda texts, scores, enough, **how: ecorag.compress(texts, scores, enough, **how | {"step": 1}),
    ),
    ("moi", "predict", lambda orders, position, utility: moi.predict(np.argsort(orders, axis=1), position, utility)),
    (
        "moi",
        "fit",
        lambda orders, scores, n: dict(identified=True, position=moi.fit(orders, scores, n).position, utility=0),
    ),
    ("moi", "rerank", lambda utility: np.argsort(utility)),
]


@each(("file", "name", "wrong"), WRONG, ids=lambda case: f"{case[0]}: {case[1]}")
def test_plausible_wrong_formulas_fail(file, name, wrong):
    module = type(sys)("wrong")
    setattr(module, name, wrong)
    said = [conformance.check.outcome(module, case)[0] for case in conformance.cases(file)]
    assert "FAIL" in said and said.count("absent") < len(said)


def run(tmp_path, *arguments):
    script = [sys.executable, conformance.FOLDER / "check.py", *arguments]
    return subprocess.run(script, cwd=tmp_path, capture_output=True, text=True)


def test_the_script_says_it_of_this_module(tmp_path):
    done = run(tmp_path, "rag_utils", "seper", "dense")
    own = len(conformance.cases("seper")) + len(conformance.cases("dense"))
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == f"{own} pass, 0 FAIL, 0 absent"
    assert "seper: soft: one answer" in done.stdout and "erag" not in done.stdout


def test_the_script_fails_for_a_module_that_is_wrong_in_one_place(tmp_path):
    """The best answer of each sample instead of the best of the answers; and a module with one right function alone."""
    (tmp_path / "mine.py").write_text(
        "import numpy as np\nfrom rag_utils.seper import sample_weights, utility\n"
        "def soft(nats, kernel, *, over_answers='mean', weighting='likelihood'):\n"
        "    best = kernel.max(axis=1) if over_answers == 'max' else kernel.mean(axis=1)\n"
        "    return sample_weights(nats, weighting=weighting) @ best\n"
    )
    done = run(tmp_path, "mine", "seper")
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert done.returncode == 1 and len(failed) == 3 and all("soft, best answer: t" in line for line in failed)
    (tmp_path / "right.py").write_text("def utility(after, before):\n    return after - before\n")
    done = run(tmp_path, "right")
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("2 pass, 0 FAIL, ")


@each(
    ("text", "message"), [("", "0 pass, 0 FAIL"), ("def utility(after, before):\n    raise KeyError(1)", "KeyError: 1")]
)
def test_the_script_fails_where_nothing_passes(text, message, tmp_path):
    (tmp_path / "other.py").write_text(text)
    done = run(tmp_path, "other", "seper")
    assert done.returncode == 1 and message in done.stdout


def test_differences_see_shapes_words_and_what_is_no_number():
    apart = conformance.check.difference
    assert apart([1.0, 2.5], [1.0, 2.0]) == 0.5 and apart({"a": 1}, {"a": 1.25}) == 0.25
    assert apart([1.0], [1.0, 1.0]) == apart([np.nan], [1.0]) == apart("weak", "strong") == np.inf
    assert apart(np.array(["a", "b"]), ["a", "b"]) == apart(np.True_, True) == 0
    assert apart(seper, {"__name__": "rag_utils.seper"}) == 0
    with pytest.raises(KeyError):
        apart({}, {"a": 1})
