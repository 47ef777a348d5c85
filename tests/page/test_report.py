"""Verdicts at their boundaries, and tables that print the same text every time."""

import datetime
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looped import each

from rag_utils import stats
from rag_utils.page import report
from rag_utils.page.report import (
    Comparison,
    Verdict,
    claim_verdict,
    comparison_table,
    equivalence_verdict,
    interval_text,
    value_verdict,
)


def estimate(value, low, high, n=100, **more):
    return SimpleNamespace(value=value, low=low, high=high, n=n, **more)


def of_value(value, low, high, published, *, scale=1, same_model=True, same_data=True, **options):
    ours = estimate(value, low, high)
    return value_verdict(ours, published, scale=scale, same_model=same_model, same_data=same_data, **options).verdict


def of_claim(value, low, high, direction="+", *, p_value=None, same_model=True, same_data=True, **options):
    ours = estimate(value, low, high, p_value=p_value)
    return claim_verdict(ours, direction=direction, same_model=same_model, same_data=same_data, **options).verdict


# --- values, worked by hand


@each(
    ("published", "expected"),
    [
        (0.50, "reproduced"),
        (0.45, "reproduced"),  # the ends belong to the interval
        (0.55, "reproduced"),
        (0.4499, "differs"),
        (0.5501, "differs"),
    ],
)
def test_value_inside_or_outside(published, expected):
    assert of_value(0.5, 0.45, 0.55, published) == expected


def test_value_half_width_counts_to_the_limit_and_no_further():
    assert of_value(0.5, 0.4, 0.6, 0.5) == "reproduced"  # 0.1 exactly
    assert of_value(0.5, 0.4, 0.601, 0.5) == "undecided"
    assert of_value(0.55, 0.5, 0.7, 0.69) == "reproduced"  # lopsided: half of the whole width
    assert of_value(0.5, 0.2, 0.6, 0.9) == "differs"  # a wide interval can still exclude


@each(("model", "data"), [(False, True), (True, False), (False, False)])
def test_agreement_with_another_model_or_other_data_is_not_reproduction(model, data):
    assert of_value(0.5, 0.45, 0.55, 0.5, same_model=model, same_data=data) == "undecided"
    verdict = value_verdict(estimate(0.5, 0.45, 0.55), 0.9, scale=1, same_model=model, same_data=data)
    assert verdict.verdict == "differs"
    assert ("another model" in verdict.why) == (not model)
    assert ("other data" in verdict.why) == (not data)


def test_value_scale_is_said_not_guessed():
    assert of_value(0.92, 0.91, 0.93, 92.0, scale=100) == "reproduced"
    assert of_value(0.92, 0.91, 0.93, 0.92, scale=100) == "differs"  # 0.92 per cent
    with pytest.raises(ValueError, match="is the scale right"):
        of_value(0.92, 0.91, 0.93, 92.0, scale=1)
    with pytest.raises(ValueError, match="scale of 0 to 1"):
        of_value(92.0, 91.0, 93.0, 92.0, scale=100)
    with pytest.raises(ValueError, match="scale must be 1 or 100; got 10"):
        of_value(0.92, 0.91, 0.93, 0.92, scale=10)
    with pytest.raises(TypeError):
        value_verdict(estimate(0.9, 0.8, 1.0), 0.9, same_model=True, same_data=True)


def test_exact_recomputation_ignores_the_interval():
    wide = {"scale": 100, "exact_within": 0.1}
    assert of_value(0.9471, 0.2, 1.0, 94.7, **wide) == "reproduced"
    assert of_value(0.9471, 0.2, 1.0, 94.8, **wide) == "reproduced"  # 0.09
    assert of_value(0.9471, 0.2, 1.0, 94.6, **wide) == "differs"  # 0.11
    assert of_value(0.5, 0.5, 0.5, 0.5, exact_within=0) == "reproduced"
    with pytest.raises(ValueError, match="only the same answers"):
        of_value(0.5, 0.4, 0.6, 0.5, same_model=False, exact_within=0.1)
    with pytest.raises(ValueError, match="only the same answers"):
        of_value(0.5, 0.4, 0.6, 0.5, same_data=False, exact_within=0.1)


def test_an_interval_without_width_is_no_evidence():
    assert of_value(0.5, 0.5, 0.5, 0.5) == "undecided"
    assert of_value(1.0, 1.0, 1.0, 0.95) == "undecided"
    assert of_claim(0.1, 0.1, 0.1) == "undecided"


def test_point_difference_rule_would_be_wrong():
    """A plausible wrong rule: "within 0.1 of the printed value is reproduced, everything else differs"."""

    def wrong(value, low, high, published):
        return "reproduced" if abs(value - published) <= 0.1 else "differs"

    cases = [(0.5, 0.49, 0.51, 0.58), (0.5, 0.2, 0.8, 0.75), (0.5, 0.1, 0.9, 0.5)]
    assert [wrong(*case) for case in cases] == ["reproduced", "differs", "reproduced"]
    assert [of_value(*case) for case in cases] == ["differs", "undecided", "undecided"]


# --- claims, worked by hand


@each(
    ("low", "high", "expected"),
    [
        (0.01, 0.2, "reproduced"),
        (0.0, 0.2, "undecided"),  # touching zero is holding it
        (1e-15, 0.2, "undecided"),  # zero, but for rounding
        (-0.01, 0.2, "undecided"),
        (-0.2, 0.0, "undecided"),
        (-0.2, -0.01, "contradicted"),
    ],
)
def test_claim_sign(low, high, expected):
    assert of_claim((low + high) / 2, low, high) == expected


@each(("model", "data"), [(False, True), (True, False), (False, False)])
def test_claim_with_another_model_or_other_data(model, data):
    options = {"same_model": model, "same_data": data}
    assert of_claim(0.12, 0.05, 0.19, **options) == "same direction"
    assert of_claim(0.12, -0.05, 0.19, **options) == "undecided"
    assert of_claim(-0.12, -0.19, -0.05, **options) == "contradicted"


def test_claim_needs_its_test_too():
    assert of_claim(0.12, 0.05, 0.19, p_value=0.05) == "reproduced"
    assert of_claim(0.12, 0.05, 0.19, p_value=0.0501) == "undecided"
    assert of_claim(-0.12, -0.19, -0.05, p_value=0.2) == "undecided"
    with pytest.raises(ValueError, match="p_value"):
        of_claim(0.12, 0.05, 0.19, p_value=1.2)


def test_sign_of_the_value_alone_would_be_wrong():
    """A plausible wrong rule: the sign of the mean is the direction."""
    wrong = "same direction" if 0.02 > 0 else "contradicted"
    assert of_claim(0.02, -0.1, 0.14, same_model=False) == "undecided" != wrong


@each(
    ("options", "message"),
    [
        ({"direction": "up"}, r"unknown direction 'up'; Known: '\+', '-'"),
        ({"same_model": "yes"}, "True or False"),
        ({"p_value": -1}, "p_value must be from 0 to 1"),
    ],
)
def test_claim_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        of_claim(0.1, 0.05, 0.15, **{"direction": "+", **options})


# --- claims that nothing changes, worked by hand


@each(
    ("low", "high", "expected"),
    [
        (-0.02, 0.01, "same direction"),
        (0.01, 0.02, "same direction"),  # not 0, and yet within
        (-0.02, 0.04, "undecided"),
        (-0.04, 0.04, "undecided"),  # wider than the margin on both sides
        (-0.02, 0.03, "undecided"),  # an end on the margin is not within
        (0.03, 0.04, "undecided"),  # nor outside
        (-0.04, -0.03, "undecided"),
        (0.031, 0.04, "contradicted"),
        (-0.04, -0.031, "contradicted"),
        (0.01, 0.01, "undecided"),  # no width
    ],
)
def test_equivalence_has_three_outcomes(low, high, expected):
    verdict = equivalence_verdict(estimate((low + high) / 2, low, high), 0.03)
    assert verdict.verdict == expected
    assert ("without width" if low == high else "0 ± 0.03") in verdict.why


@each("margin", [0, -0.1, float("nan"), None])
def test_equivalence_needs_a_margin(margin):
    with pytest.raises(ValueError, match="margin must be"):
        equivalence_verdict(estimate(0, -0.01, 0.01), margin)


@each(
    "bad",
    [
        estimate(float("nan"), 0, 1),
        estimate(0.5, 0.6, 0.4),
        estimate(0.5, 0.4, float("inf")),
        estimate(0.5, 0.4, 0.6, n=0),
        estimate(0.5, 0.4, 0.6, n=2.5),
        estimate("0.5", 0.4, 0.6),
        0.5,
    ],
)
def test_bad_estimates_are_refused(bad):
    with pytest.raises(ValueError):
        value_verdict(bad, 0.5, scale=1, same_model=True, same_data=True)
    with pytest.raises(ValueError):
        claim_verdict(bad, direction="+", same_model=True, same_data=True)
    with pytest.raises(ValueError):
        equivalence_verdict(bad, 0.1)
    with pytest.raises(ValueError):
        interval_text(bad)


numbers = st.floats(-1, 1).map(lambda x: round(x, 3))


@given(st.lists(numbers, min_size=3, max_size=3), st.booleans(), st.booleans(), st.none() | st.floats(0, 1))
def test_the_other_direction_mirrors_the_verdict(parts, same_model, same_data, p_value):
    low, value, high = sorted(parts)
    options = {"p_value": p_value, "same_model": same_model, "same_data": same_data}
    verdict, against = (of_claim(value, low, high, direction, **options) for direction in ("+", "-"))
    assert verdict == of_claim(-value, -high, -low, "-", **options)
    holds = ("reproduced", "same direction")
    assert (verdict == "undecided") == (against == "undecided")
    assert (verdict in holds) == (against == "contradicted")
    assert (against in holds) == (verdict == "contradicted")


@given(st.lists(numbers, min_size=3, max_size=3), numbers, st.booleans(), st.booleans())
def test_value_verdict_keeps_its_promises(parts, published, same_model, same_data):
    low, value, high = sorted(parts)
    verdict = of_value(value, low, high, published, same_model=same_model, same_data=same_data)
    if verdict == "reproduced":
        assert same_model and same_data and low - 1e-8 <= published <= high + 1e-8 and high - low <= 0.2 + 1e-8
    if verdict == "differs":
        assert not low <= published <= high


def test_with_the_results_of_stats():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.6, 0.1, 200), rng.normal(0.5, 0.1, 200)
    difference = stats.paired_difference(a, b)
    assert claim_verdict(difference, direction="+", same_model=False, same_data=True).verdict == "same direction"
    mean = stats.mean_interval(a)
    assert value_verdict(mean, 60.0, scale=100, same_model=np.bool_(True), same_data=True).verdict == "reproduced"


def test_verdict_words_are_fixed():
    assert Verdict("not run here", "needs a 7B model").verdict == "not run here"
    with pytest.raises(ValueError, match="did you mean 'reproduced'"):
        Verdict("reproducd", "x")
    with pytest.raises(ValueError, match="why must hold at least one word; got ' '"):
        Verdict("reproduced", " ")
    with pytest.raises(AttributeError):
        Verdict("reproduced", "x").verdict = "differs"


# --- tables


def test_interval_text():
    assert interval_text(estimate(0.54, 0.44, 0.63)) == "0.54 [0.44, 0.63]"
    assert interval_text(estimate(-0.0001, -0.004, 0.001)) == "0.00 [0.00, 0.00]"  # no negative zero
    assert interval_text(estimate(0.9199, 0.91, 0.93), 1, scale=100) == "92.0 [91.0, 93.0]"
    assert interval_text(estimate(-0.5, -0.9, 0.1), 0) == "0 [-1, 0]"
    for digits in (-1, 7, 1.5, True):
        with pytest.raises(ValueError, match="digits"):
            interval_text(estimate(0.5, 0.4, 0.6), digits)


LONG = "difference 0.120 [0.050, 0.190]; another model and other data, which pandas would cut after fifty letters"
ROWS = [
    Comparison(
        "soft",
        estimate=estimate(0.54, 0.44, 0.63, n=240),
        unparsed=2,
        published="0.769 (7B, other data)",
        verdict=Verdict("same direction", LONG),
    ),
    Comparison(
        "lexical match",
        estimate=estimate(0.9199, 0.91, 0.93, n=3020),
        unparsed=None,
        published=92.0,
        verdict=Verdict("reproduced", "exact"),
        digits=1,
        scale=100,
    ),
    Comparison("70B", estimate=None, unparsed=None, published=0.5, verdict=Verdict("not run here", "too large")),
    Comparison("own corpus", estimate=estimate(0.5, 0.4, 0.6), unparsed=0, published=None, verdict=None),
]


def test_comparison_table_is_ready_for_display():
    table = comparison_table(ROWS)
    assert tuple(table.columns) == report.COLUMNS
    assert report.COLUMNS == ("value [low, high]", "n", "unparsed", "published", "verdict", "why")
    assert list(table.index) == ["soft", "lexical match", "70B", "own corpus"]
    assert table.values.tolist() == [
        ["0.54 [0.44, 0.63]", "240", "2", "0.769 (7B, other data)", "same direction", LONG],
        ["92.0 [91.0, 93.0]", "3020", "–", "92.0", "reproduced", "exact"],
        ["–", "–", "–", "0.50", "not run here", "too large"],
        ["0.50 [0.40, 0.60]", "100", "0", "not printed", "–", "–"],
    ]


def test_comparison_table_shows_everything_and_the_same_each_time():
    one, two = comparison_table(ROWS), comparison_table(ROWS)
    assert isinstance(one, pd.DataFrame)
    for text in (repr(one), one._repr_html_()):
        assert LONG in text and "..." not in text
    assert repr(one) == repr(two)
    assert one._repr_html_() == two._repr_html_()
    assert 'id="' not in one._repr_html_()
    many = [
        Comparison(f"{i}", estimate=estimate(0.5, 0.4, 0.6), unparsed=0, published=None, verdict=None)
        for i in range(90)
    ]
    assert "..." not in comparison_table(many)._repr_html_()


@each(
    ("options", "message"),
    [
        ({"verdict": "reproduced"}, "wanted a Verdict"),
        ({"verdict": None}, "wanted a Verdict"),  # something is printed, so something must be said
        ({"estimate": None}, "wanted an estimate"),
        ({"verdict": Verdict("not run here", "x")}, "wanted an estimate"),
        ({"unparsed": -1}, "unparsed"),
        ({"unparsed": 1.5}, "unparsed"),
        ({"published": float("nan")}, "published"),
        ({"published": " "}, "published"),
        ({"scale": 3}, "scale"),
    ],
)
def test_comparison_refuses(options, message):
    row = {
        "estimate": estimate(0.5, 0.4, 0.6),
        "unparsed": 0,
        "published": 0.5,
        "verdict": Verdict("reproduced", "x"),
        **options,
    }
    with pytest.raises(ValueError, match=message):
        comparison_table([Comparison("row", **row)])


def test_comparison_table_refuses_no_rows_and_equal_names():
    for rows, message in (
        ([], "rows must hold at least 1; got none"),
        ([ROWS[0], ROWS[0]], "names of rows must each come once; got 'soft' twice"),
        ([{"what": "soft"}], "rows must hold Comparison only; got dict"),
    ):
        with pytest.raises(ValueError, match=message):
            comparison_table(rows)


# --- provenance


def test_provenance_box():
    box = report.provenance(
        model="SmolLM2-135M-Instruct <Q4_1>",
        prompt_hashes={"read": "1f3a", "closed": "90bc"},
        data=["owner/name@90007d39:EVOUNA/NQ.json", "https://example.org/a"],
        seed=0,
        share=0.5,
        live=False,
    )
    assert repr(box).splitlines() == [
        "model          SmolLM2-135M-Instruct <Q4_1>",
        "prompt hashes  closed: 90bc; read: 1f3a",
        "data           owner/name@90007d39:EVOUNA/NQ.json; https://example.org/a",
        "seed           0",
        "share          0.5",
        "live           no",
    ]
    html = box._repr_html_()
    assert html.count("<tr>") == 7 and html.count("<th ") == 8 and html.count("<td>") == 6
    assert "&lt;Q4_1&gt;" in html and "<Q4_1>" not in html
    assert "closed: 90bc<br>read: 1f3a" in html


@each(
    "value",
    [
        "/home/someone/models",
        "model at /opt/weights",
        "path:/opt/weights",
        "~/models",
        "~someone/models",
        "C:\\models",
        "d:/models",
        "\\\\server\\share",
        "file:///models",
        "2026-01-31",
        "2026-01-31T10:00:00Z",
        "took 00:12:31",
        "10:30 UTC",
    ],
)
@each("wrap", [lambda v: v, lambda v: [v], lambda v: {"a": v}, lambda v: {v: 1}])
def test_provenance_refuses_paths_and_times(value, wrap):
    with pytest.raises(ValueError, match="looks like a"):
        report.provenance(model="x", where=wrap(value))


@each(
    "value",
    ["", " ", None, {"a", "b"}, [], {}, datetime.date(2026, 1, 31), report.PUBLISHED, float("nan"), object(), [["a"]]],
)
def test_provenance_refuses_other_values(value):
    with pytest.raises(ValueError, match=r"fact( must|: wanted)"):
        report.provenance(fact=value)


def test_provenance_needs_facts():
    with pytest.raises(ValueError, match="facts must hold at least 1"):
        report.provenance()


def test_provenance_lets_ordinary_facts_pass():
    for value in (
        "wangcunxiang/QA-Eval",
        "n / m",
        "0.5",
        "5:95",
        "about ~0.5 nat",
        "sha256:0f1e",
        "and/or",
        7,
        np.int64(7),
        0.25,
    ):
        assert "fact" in repr(report.provenance(fact=value))


def test_package_versions():
    versions = report.package_versions(["pandas", "numpy", "pandas"])
    assert versions == {"numpy": np.__version__, "pandas": pd.__version__}
    assert list(versions) == ["numpy", "pandas"]
    assert "+" not in "".join(report.package_versions(["torch"]).values())
    for names, message in ((["no-such-package"], "installed"), ("numpy", "list"), ([], "at least 1")):
        with pytest.raises(ValueError, match=message):
            report.package_versions(names)


def test_every_verdict_can_come_out():
    words = {"not run here", "not testable here"}  # the latter by `score.enough`
    for low, model in product((-0.2, -0.05, 0.05), (True, False)):
        words.add(of_claim(low + 0.05, low, low + 0.1, same_model=model))
        words.add(of_value(low + 0.05, low, low + 0.1, 0.0, same_model=model))
    assert words == set(report.VERDICTS)


def test_p_values_that_are_none_are_refused():
    """NaN and -3 were shown as "< 0.0001", 7 as 7.0000."""
    table = pd.DataFrame({"value": [0.5], "low": [0.4], "high": [0.6], "n": [60]})
    assert report.interval_table(table.assign(p_value=0.00001))["p_value"].tolist() == ["< 0.0001"]
    assert report.interval_table(table.assign(p_holm=1))["p_holm"].tolist() == ["1.0000"]
    for name in ("p_value", "p_holm"):
        for wrong in (np.nan, -3, 7, None, "0.5"):
            with pytest.raises(ValueError, match=f"{name} must be"):
                report.interval_table(table.assign(**{name: [wrong]}))
