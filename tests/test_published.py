"""The numbers typed from the papers, checked against themselves and against counts."""

import json
import math
from types import SimpleNamespace

import pandas as pd
import pytest

from rag_utils import report

COUNTS = report.ROOT / "data" / "results" / "01_data_and_models" / "evouna_tq_counts.csv"
PAIR = ["evaluator", "dataset", "system"]
SWAPPED = ("Lexical Match", "TriviaQA", "DPR-FiD")
SUSPECTS = {("BERTScore", "TriviaQA", "GPT-4"), ("Human", "TriviaQA", "GPT-4")}
TOO_MANY_NEGATIVES = ("Human", "Natural Questions", "ChatGPT")
SLACK = 0.17
# answers of each system that the benchmark's annotators judge right and wrong
JUDGED = {
    ("Natural Questions", "DPR-FiD"): (2082, 938),
    ("Natural Questions", "InstructGPT"): (1978, 1042),
    ("Natural Questions", "ChatGPT"): (2204, 816),
    ("Natural Questions", "GPT-4"): (2381, 639),
    ("Natural Questions", "BingChat"): (2413, 606),
    ("TriviaQA", "DPR-FiD"): (1580, 358),
    ("TriviaQA", "InstructGPT"): (1520, 418),
    ("TriviaQA", "ChatGPT"): (1636, 302),
    ("TriviaQA", "GPT-4"): (1748, 190),
    ("TriviaQA", "BingChat"): (1737, 201),
}


@pytest.fixture(scope="module")
def table():
    return report.published("seper_table1")


@pytest.fixture(scope="module")
def pairs(table):
    return table.pivot(index=PAIR, columns="metric", values="value")


@pytest.fixture(scope="module")
def counts():
    return pd.read_csv(COUNTS, index_col="system")


def f1(c):
    return 100 * 2 * c.tp / (2 * c.tp + c.fp + c.fn)


def accuracy(c):
    return 100 * (c.tp + c.tn) / (c.tp + c.tn + c.fp + c.fn)


def test_seper_table1_is_complete(table):
    assert len(table) == 140
    assert (table.groupby("evaluator").size() == 20).all()
    assert (table.groupby(["dataset", "system", "metric"]).size() == 7).all()
    assert table.groupby("group", sort=False)["evaluator"].unique().map(list).to_dict() == {
        "Matching-based": ["Lexical Match", "BERTScore", "Entail (SePer)"],
        "LLM-as-a-Judge": ["Auto-J", "Prometheus"],
        "Human-level": ["GPT-4", "Human"],
    }
    assert table["value"].between(50, 100).all()
    assert (table["value"] == table["value"].round(1)).all()
    assert (table["source"] == "SePer, Table 1, " + table["group"] + ", " + table["evaluator"]).all()


def test_row_sums_are_those_of_the_papers_rows(table):
    # added up from the printed rows apart from the CSV, against slips in later edits
    sums = table.groupby("evaluator")["value"].sum().round(1)
    assert sums.to_dict() == {
        "Auto-J": 1417.5,
        "BERTScore": 1587.3,
        "Entail (SePer)": 1880.8,
        "GPT-4": 1910.9,
        "Human": 1963.3,
        "Lexical Match": 1789.8,
        "Prometheus": 1718.4,
    }


def test_three_rows_word_for_word(pairs):
    for cell, printed in {
        ("Lexical Match", "Natural Questions", "DPR-FiD"): (92.0, 89.7),
        ("Entail (SePer)", "Natural Questions", "BingChat"): (91.4, 87.0),
        ("Human", "TriviaQA", "BingChat"): (99.9, 99.8),
        ("Auto-J", "Natural Questions", "DPR-FiD"): (57.8, 54.2),
        SWAPPED: (91.8, 94.7),
    }.items():
        assert (pairs.loc[cell, "F1"], pairs.loc[cell, "accuracy"]) == printed


def test_accuracy_exceeds_f1_only_in_the_noted_cells(table, pairs):
    odd = set(pairs.index[pairs["F1"] < pairs["accuracy"]])
    assert odd == {SWAPPED} | SUSPECTS
    noted = set(table.loc[table["note"] != "", PAIR].itertuples(index=False, name=None))
    assert noted == odd | {TOO_MANY_NEGATIVES}


def fits(f1, accuracy, right, wrong):
    """Is there a table of counts with these margins that rounds to the printed pair?

    Both printed values may be off by `SLACK`: rounding is 0.05, and the recomputed Lexical Match values lie up to 0.16
    from the printed ones.
    """
    n = right + wrong
    for tp in range(right + 1):
        least = max(0, math.ceil((accuracy - SLACK) / 100 * n - tp))
        for tn in range(least, min(wrong, math.floor((accuracy + SLACK) / 100 * n - tp)) + 1):
            if abs(200 * tp / (2 * tp + n - tp - tn) - f1) <= SLACK:
                return True
    return False


def test_every_pair_but_the_noted_ones_fits_the_labels(pairs):
    unfit = {cell for cell, pair in pairs.iterrows() if not fits(pair["F1"], pair["accuracy"], *JUDGED[cell[1:]])}
    assert unfit == {SWAPPED, TOO_MANY_NEGATIVES} | SUSPECTS


def test_what_would_fit_instead():
    assert fits(94.7, 91.8, *JUDGED[SWAPPED[1:]])
    assert fits(90.5, 83.5, *JUDGED["TriviaQA", "GPT-4"])
    assert fits(99.9, 99.8, *JUDGED["TriviaQA", "GPT-4"])
    assert not fits(99.8, 99.2, *JUDGED["TriviaQA", "GPT-4"])  # that one is not a mere swap


def test_counts_add_up_to_the_labels(counts):
    assert list(counts.columns) == ["tp", "fp", "fn", "tn"]
    for system, c in counts.iterrows():
        assert (c.tp + c.fn, c.fp + c.tn) == JUDGED["TriviaQA", system]
        assert c.sum() == 1938
    facts = json.loads(COUNTS.with_suffix(".json").read_text(encoding="utf-8"))
    assert set(facts["systems"]) == set(counts.index)
    assert "EVOUNA/TQ.json" in facts["source"]


def test_printed_values_are_those_of_the_counts_after_one_swap(counts, pairs):
    for system, c in counts.iterrows():
        printed = pairs.loc["Lexical Match", "TriviaQA", system]
        pair = (printed["F1"], printed["accuracy"])
        if system == "DPR-FiD":
            assert pair != pytest.approx((f1(c), accuracy(c)), abs=0.1)
            pair = pair[::-1]
        assert pair == pytest.approx((f1(c), accuracy(c)), abs=0.1)


def test_the_swapped_cell_in_verdicts(counts, pairs):
    c, printed = counts.loc["DPR-FiD"], pairs.loc[SWAPPED]
    ours = estimate(f1(c) / 100, int(c.sum()))
    options = {"scale": 100, "same_model": True, "same_data": True, "exact_within": 0.1}
    assert report.value_verdict(ours, printed["F1"], **options).verdict == "differs"
    assert report.value_verdict(ours, printed["accuracy"], **options).verdict == "reproduced"


def estimate(value, n):
    return SimpleNamespace(value=value, low=value - 0.01, high=value + 0.01, n=n)


def test_seper_items_cover_every_table_and_figure():
    items = report.published("seper_items")
    assert list(dict.fromkeys(items["item"])) == [f"Table {i}" for i in range(1, 14)] + [
        f"Fig. {i}" for i in range(1, 8)
    ]
    here = items[items["status"] == "measured here"]
    assert here[["item", "part"]].values.tolist() == [["Table 1", "Lexical Match, Natural Questions"]]
    assert (items["caption"] != "").all()
    assert items["caption"].str.split().map(len).max() <= 15  # our own few words


def test_every_published_file_can_be_read_and_is_listed():
    readme = (report.PUBLISHED / "README.md").read_text(encoding="utf-8")
    for path in report.PUBLISHED.glob("*.csv"):
        report.published(path.stem)
        assert f"`{path.name}`" in readme


def test_unknown_table_names_the_near_ones():
    with pytest.raises(ValueError, match=r"unknown published table 'seper_tabel1'; did you mean 'seper_table1'"):
        report.published("seper_tabel1")
    with pytest.raises(ValueError, match="unknown published table"):
        report.published("../README")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "metric,value,source\nF1,1.0,T\n", "wanted .*note"),
        ("x.csv", "metric,value,source,note\n", "got 0 rows"),
        ("x.csv", "metric,value,source,note\nF1,n/a,T,\n", "line 2"),
        ("x.csv", "metric,value,source,note\nF1,1.0,T,\nacc,inf,T,\n", "line 3"),
        ("x.csv", "metric,value,source,note\nF1,1.0,,\n", "line 2"),
        ("x.csv", "metric,value,source,note\nF1,1.0,T,\nF1,2.0,T,\n", "line 3 names the same cell"),
        ("x_items.csv", "item,part,caption,status,reason\nFig. 1,,c,someday,r\n", "unknown status"),
        ("x_items.csv", "item,part,caption,status,reason\nFig. 1,,c,not run here,\n", "reason .* 'Fig. 1'"),
        (
            "x_items.csv",
            "item,part,caption,status,reason\nFig. 1,,c,measured here,\nFig. 1,,d,measured here,\n",
            "line 3",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        report._read_published(tmp_path / name)
