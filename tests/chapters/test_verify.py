"""Verifying: right numbers pass, a changed number with a right checksum is found, and so is a changed function."""

import inspect
import json
import sys
import types

import pandas as pd
import pytest

from experiments import table as tables
from experiments import verify
from experiments.table import Kept
from rag_utils.corpora.manifest import DataError
from rag_utils.engine import recordings
from rag_utils.engine.recordings import RecordingError


def recorded(*, mode, questions):
    """Six rows with a label, as from recordings."""
    rows = [{"id": f"q{n}", "condition": "gold", "value": n / 7, "tokens": n} for n in range(questions)]
    return pd.DataFrame(rows)


def asked(*, mode, questions, few=None):
    """The first questions only where that is wanted; computed by a model that rounds in its own way."""
    if mode != "fresh":
        raise RecordingError("nothing is recorded of a benchmark")
    return recorded(mode=mode, questions=few or questions).assign(value=lambda rows: rows["value"] + 1e-4)


def absent(*, mode, questions, few=None):
    raise DataError("data set 'nq' is not here")


@pytest.fixture(autouse=True)
def house(tmp_path, monkeypatch):
    module = types.ModuleType("experiments.tried")
    for function in (recorded, asked, absent):
        monkeypatch.setattr(function, "__module__", "experiments.tried")
        setattr(module, function.__name__, function)
    monkeypatch.setitem(sys.modules, "experiments.tried", module)
    monkeypatch.setattr(tables, "FOLDER", tmp_path / "results")
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    return module


def keep(rows, name="n", function="recorded", questions=6):
    tables.save(
        tables.FOLDER / "c" / f"{name}.json", Kept(rows, f"experiments.tried:{function}", {"questions": questions}, {})
    )


def test_a_table_that_no_experiment_made_is_not_run():
    made = Kept(recorded(mode="replay", questions=6), "benchmarks.packages:measured", {"questions": 6}, {})
    tables.save(tables.FOLDER / "c" / "n.json", made)
    assert verify.verified("c", "n") == (
        "not run",
        "benchmarks.packages:measured made it, no experiment; its script has --check",
    )


def test_rows_that_still_follow_are_verified(capsys):
    keep(recorded(mode="replay", questions=6))
    keep(recorded(mode="replay", questions=6), "live", "asked")
    keep(recorded(mode="replay", questions=6), "nq", "absent")
    assert verify.main(["c"]) == 0
    assert capsys.readouterr().out == (
        "c/live: verified, 3 of 6 rows\nc/n: verified, 6 of 6 rows\nc/nq: not run, data set 'nq' is not here\n"
    )
    assert verify.verified("c", "live", recorded=True) == ("not run", "needs the model")


def test_a_changed_number_with_a_right_checksum_is_found(capsys):
    rows = recorded(mode="replay", questions=6)
    for column, value, kept in (
        ("value", 0.14296, "0.14296"),
        ("tokens", 7, "7"),
        ("condition", "none", "q1 gold is not kept"),
    ):
        changed = rows.copy()
        changed.loc[1, column] = value
        keep(changed)
        assert verify.main(["c"]) == 1
        said = capsys.readouterr().out
        assert "c/n: differs, " in said and "q1" in said and (kept in said)
    for changed in (rows[:5], pd.concat([rows, rows[:1].assign(id="q9")]), rows.drop(columns="tokens")):
        keep(changed)
        assert verify.verified("c", "n")[0] == "differs"
    keep(rows.assign(value=rows["value"] + 0.03), "live", "asked")
    assert verify.verified("c", "live") == (
        "differs",
        "3 of 3 rows: q0 gold: value is 0.0001, kept is 0.03",
    )


def test_the_fifth_digit_may_be_rounded_otherwise_and_the_fourth_not():
    for ours, theirs, same in (
        (0.12345, 0.12346, True),
        (0.12345, 0.12348, False),
        (99.999, 100.0, True),
        (-3.1234, -3.1244, False),
        (0.0, 0.0, True),
        (0.0, 1e-4, False),
        (7, 8, False),
        (None, float("nan"), True),
        (None, 1.0, False),
        (True, False, False),
    ):
        assert verify._same(ours, theirs, few=False) is same, (ours, theirs)
    assert verify._same(-0.58247, -0.58245, few=False, column="nats")  # what an unrecorded model says
    assert not verify._same(-0.5826, -0.5824, few=False, column="nats")


def test_of_an_unsettled_fit_the_order_is_free_and_its_answer_with_it_and_nothing_else():
    kept = pd.DataFrame({"id": list("abcd"), "order": "0-1-2", "gold": 1.0, "exact_match": 1, "identified": 0})
    stored, reversed_one = Kept(kept, "experiments.tried:recorded", {}, {}), {"order": "2-1-0", "gold": 0.5, "exact_match": 0}
    for changes, wrong in (
        ([reversed_one], 0),
        ([{"exact_match": 0}], 1),  # the same order has the same answer
        ([reversed_one | {"identified": 1}], 1),
        ([reversed_one, reversed_one], 1),  # of half of the fits: that is no rounding
    ):
        computed = pd.DataFrame([row | change for row, change in zip(kept.to_dict("records"), [*changes, {}, {}, {}], strict=False)])
        assert len(verify.differences(computed, stored, few=True)) == wrong, changes


def test_a_changed_function_is_found(house):
    keep(recorded(mode="replay", questions=6))
    house.recorded = lambda *, mode, questions: recorded(mode=mode, questions=questions).assign(tokens=0)
    assert verify.verified("c", "n")[0] == "differs"
    house.recorded = lambda *, mode, documents: pd.DataFrame()
    assert verify.verified("c", "n")[0] == "differs"
    del house.recorded
    assert verify.verified("c", "n") == ("differs", "TableError: there is no experiment experiments.tried:recorded")


def test_what_a_page_read_from_the_cache_becomes_tracked(tmp_path, monkeypatch):
    trace = tmp_path / "trace"
    monkeypatch.setenv("RAG_COMPANION_TRACE", str(trace))
    settings = {"questions": 4}
    recorded_rows = tables.table("c", "n", recorded, mode="live", **settings)
    tables.table("d", "n", recorded, mode="live", **settings)
    assert not tables.FOLDER.exists()
    adopted = verify.adopt("c", trace)
    assert adopted == [tables.FOLDER / "c" / "n.json"]
    pd.testing.assert_frame_equal(tables.kept("c", "n").rows, recorded_rows, check_like=True)
    assert verify.adopt("c", trace) == adopted and verify.main(["c"]) == 0
    own = next(tables.cache_dir("results", "c").glob("*.json"))
    tables.save(own, Kept(tables.load(own).rows, "f", {"note": "the ferryman's last lantern went out"}, {}))
    with pytest.raises(tables.TableError, match="hold a text"):
        verify.adopt("c", trace)
    assert json.loads(trace.read_text().splitlines()[0])["chapter"] == "c"


# --- the committed tables --------------------------------------------------------------------------


def test_every_committed_table_carries_all_settings_of_an_experiment_that_is_there(monkeypatch):
    monkeypatch.undo()
    wrong, every = [], [tables.kept(*names) for names in tables.every()]
    for kept in every:
        if kept.function.startswith("experiments."):
            function = tables._experiment(kept.function)
            takes = set(inspect.signature(function).parameters) - {"mode", "few"}
            if takes != set(kept.settings) or tables.named(function) != kept.function:
                wrong.append(f"{kept.function}: {sorted(takes ^ set(kept.settings))}")
    assert wrong == [] and len(every) > 90


@pytest.mark.slow
def test_what_is_recorded_of_a_committed_table_still_follows(tmp_path, monkeypatch):
    """One that is computed in seconds; `rag-companion verify` computes the others as well, some minutes."""
    monkeypatch.undo()
    monkeypatch.setattr(recordings, "cache_dir", tmp_path.joinpath)  # what is tracked, and nobody's own store
    assert verify.verified("04_dense_thresholds", "pairs") == ("verified", "132 of 132 rows")


def test_what_cannot_be_computed_here_does_not_differ(monkeypatch, capsys):
    """Else no chapter with such a table could be sealed."""
    monkeypatch.undo()
    assert verify.main(["--recorded", "01_data_and_models"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) >= 5 and all(": not run, " in line for line in said)
