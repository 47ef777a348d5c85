"""Numbers of a chapter: kept with exactly their settings, refused with any other, never a text, and no changed digit unseen."""

import json
import multiprocessing
import sys
import types

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import table as tables
from experiments.table import Kept, TableError
from rag_utils.base import sealed

ROWS = pd.DataFrame(
    {"id": ["0012", "NA"], "condition": ["closed book", "gold"], "exact_match": [0.0, 1.0], "tokens": [3, 1]}
)
CALLS = []


def counted(*, mode, questions, seed, few=None):
    """Squares of the first whole numbers, and how often it was called."""
    CALLS.append((mode, questions, seed, few))
    rows = [{"id": f"q{number}", "value": number**2 / 3} for number in range(few or questions)]
    return pd.DataFrame(rows), {"fingerprints": {"tiny": "f-1"}, "asked": questions}


def asked(*, mode, read_prompt, prompts, share=0.5):
    return pd.DataFrame({"id": ["a"], "value": [len(read_prompt) + len(prompts)]})


@pytest.fixture(autouse=True)
def house(tmp_path, monkeypatch):
    """A folder of tables, a cache, and experiments that can be found by their names."""
    module = types.ModuleType("experiments.tried")
    for function in (counted, asked):
        monkeypatch.setattr(function, "__module__", "experiments.tried")
        setattr(module, function.__name__, function)
    monkeypatch.setitem(sys.modules, "experiments.tried", module)
    monkeypatch.setattr(tables, "FOLDER", tmp_path / "results")
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tables, "LOADED", {})
    CALLS.clear()
    return module


def show(mode="replay", *, chapter="c", name="n", **changes):
    return tables.table(chapter, name, counted, mode=mode, **{"questions": 4, "seed": 0, **changes})


def keep(rows=ROWS, *, name="n", settings=None, facts=None):
    path = tables.FOLDER / "c" / f"{name}.json"
    tables.save(path, Kept(rows, "experiments.tried:counted", settings or {"questions": 4, "seed": 0}, facts or {}))
    return path


# --- settings ------------------------------------------------------------------------------------


def test_what_was_measured_is_shown_and_not_measured_again():
    with pytest.raises(TableError, match="the numbers of n are not kept; mode live measures them"):
        show()
    fresh = show("fresh")
    assert not list(tables.cache_dir().rglob("*.json"))
    live, replayed = show("live"), show("replay")
    assert CALLS == [("fresh", 4, 0, None), ("live", 4, 0, None)]
    pd.testing.assert_frame_equal(live, fresh)
    pd.testing.assert_frame_equal(live, replayed)
    assert live["value"].tolist() == [0.0, 0.33333, 1.3333, 3.0]
    assert live.attrs["kept"] == {
        "function": "experiments.tried:counted",
        "settings": {"questions": 4, "seed": 0},
        "facts": {"fingerprints": {"tiny": "f-1"}, "asked": 4},
    }
    assert not tables.FOLDER.exists(), "a run of a user leaves the tracked files alone"


def test_other_settings_are_refused_by_name_and_each_measurement_keeps_its_own_rows():
    keep(pd.DataFrame({"id": ["q0"], "value": [7.0]}))
    assert show()["value"].tolist() == [7.0] and show("live")["value"].tolist() == [7.0]
    with pytest.raises(TableError, match=r"measured with questions = 4, not 3; seed = 0, not 1; mode live measures"):
        show(questions=3, seed=1)
    assert len(show("live", questions=3)) == 3 and len(show("live", questions=2)) == 2
    assert [len(show(questions=n)) for n in (2, 3)] == [2, 3] and len(CALLS) == 2
    assert show()["value"].tolist() == [7.0], "what is committed comes first"


def test_true_is_not_one_and_four_is_not_four_point_nought():
    keep()
    for value in (True, 4.0, "4", None):
        with pytest.raises(TableError, match="questions = 4, not"):
            show(questions=value)


def test_another_function_is_refused(house):
    keep()
    house.other = lambda *, mode, questions, seed: ROWS
    house.other.__module__, house.other.__qualname__ = "experiments.tried", "other"
    with pytest.raises(TableError, match=r"measured with experiments\.tried:counted, not experiments\.tried:other"):
        tables.table("c", "n", house.other, questions=4, seed=0)


def test_every_setting_is_said():
    with pytest.raises(TableError, match="not given: seed; not taken: none"):
        tables.table("c", "n", counted, questions=4)
    with pytest.raises(TableError, match="not given: share; not taken: sead"):
        tables.table("c", "n", asked, read_prompt="read_plain", prompts=["read_plain"], sead=1)
    for value in (np.float64("nan"), {1: 2}, [{1: 2}], {3}, np.arange(3), object()):
        with pytest.raises(TableError, match="setting seed must be what JSON can hold"):
            show(seed=value)
    assert CALLS == []


def test_only_experiments_that_are_found_again_by_name():
    class Case:
        def inner(self):
            pass

    for function in (len, lambda: 0, Case().inner, keep, "experiments.tried:counted", np.mean):
        with pytest.raises(TableError, match="must be a function of a file below experiments/"):
            tables.table("c", "n", function)
    for name in ("os:getcwd", "experiments.tried:nothing", "experiments.nowhere:f", "experiments.table"):
        with pytest.raises(TableError, match=r"is no experiment|there is no experiment"):
            tables.measured(Kept(ROWS, name, {}, {}), mode="fresh")


def test_the_text_of_a_prompt_is_part_of_its_setting(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("$question first")
    how = {"read_prompt": str(mine), "prompts": {"plain": ["closed_plain", "read_plain"], "none": None}, "share": 0.5}
    rows = tables.table("c", "p", asked, mode="live", **how)
    settings = rows.attrs["kept"]["settings"]
    digest = tables.prompts.load("closed_plain").digest
    assert settings["prompts"]["plain"][0] == f"closed_plain {digest}" and settings["prompts"]["none"] is None
    kept = Kept(rows, "experiments.tried:asked", settings, {})
    assert tables.measured(kept, mode="fresh").rows["value"].item() == len(str(mine)) + 2, "called with names only"
    mine.write_text("$question second")
    with pytest.raises(TableError, match="of p are not kept"):
        tables.table("c", "p", asked, **how)
    with pytest.raises(TableError, match="the text of read_prompt is no longer"):
        tables.measured(kept, mode="fresh")


def test_rows_of_another_model_under_the_same_profile_are_refused(monkeypatch):
    keep(facts={"fingerprints": {"tiny": "f-0", "other": "g"}})
    show()
    monkeypatch.setitem(tables.LOADED, "tiny", "f-1")
    with pytest.raises(TableError, match="another model as tiny: f-0, loaded is f-1"):
        show()
    assert show("live")["value"].tolist()[:1] == [0.0] and len(CALLS) == 1
    assert len(show()) == 4


def test_few_is_no_setting():
    assert tables.takes_few("experiments.tried:counted") and not tables.takes_few("experiments.tried:asked")
    kept = Kept(ROWS, "experiments.tried:counted", {"questions": 4, "seed": 0}, {})
    assert len(tables.measured(kept, mode="fresh", few=2).rows) == 2


def test_names_stay_in_their_folder():
    for chapter, name in (
        ("../..", "n"),
        ("c", "../n"),
        ("c/d", "n"),
        ("", "n"),
        (".", "n"),
        ("c", None),
        ("c\0", "n"),
    ):
        for mode in ("replay", "live"):
            with pytest.raises(TableError, match="named by letters"):
                show(mode, chapter=chapter, name=name)
    with pytest.raises(TableError, match="named by letters"):
        list(tables.every("*"))
    with pytest.raises(ValueError, match="unknown mode 'love'; did you mean 'live'"):
        show("love")


# --- rows ----------------------------------------------------------------------------------------


def test_rows_come_back_as_they_were():
    rows = pd.DataFrame(
        {
            "id": ["NA", "null", "0012", "nan", "1e5"],
            "condition": ["NA", "k 3", "None", "gold", "x.y:z"],
            "value": [1.5, None, np.inf, -0.25, np.nan],
            "right": [True, False, True, True, False],
        }
    )
    path = keep(rows)
    pd.testing.assert_frame_equal(tables.load(path).rows, rows, check_dtype=False)
    first = [file.read_bytes() for file in sorted(path.parent.iterdir())]
    keep(tables.load(path).rows)
    assert [file.read_bytes() for file in sorted(path.parent.iterdir())] == first and len(first) == 2


kinds = (st.booleans(), st.one_of(st.integers(-99999, 99999), st.floats(allow_nan=False, width=16)))
columns = st.one_of(*(st.lists(st.one_of(st.none(), kind), min_size=1, max_size=8) for kind in kinds))


@given(columns, st.text("abcNAn0189.:-", min_size=1, max_size=9))
def test_any_numbers_come_back_to_five_digits(values, name):
    rows = pd.DataFrame({"id": [f"{name}{place}" for place in range(len(values))], "value": values})
    back = tables.parsed(tables.text_of("n", rows))
    assert back["id"].tolist() == rows["id"].tolist()
    for value, other in zip(rows["value"], back["value"], strict=True):
        assert (pd.isna(value) and pd.isna(other)) or float(other) == pytest.approx(float(value), rel=6e-5)


REPLIES = [f"answer {chr(97 + a)}{chr(97 + b)}" for a in range(9) for b in range(9)]


def test_no_text_enters_and_nothing_is_written_then():
    many = pd.DataFrame({"id": [f"q{n}" for n in range(81)]})
    for rows in (
        ROWS.assign(reply=["a reply of five words", "b"]),
        ROWS.assign(condition=["gold, perhaps", "gold"]),
        ROWS.assign(tokens=[["a reply of five words"], ["b"]]),
        ROWS.assign(tokens=[{"reply": "of words"}, 1]),
        ROWS.assign(tokens=[b"bytes", 1]),
        ROWS.assign(tokens=[("a", "b"), 1]),
        ROWS.assign(tokens=[pd.Timestamp(0), 1]),
        ROWS.assign(id=["an id of words", "b"]),
        ROWS.rename(columns={"tokens": "what was said to the question of the day"}),
        ROWS.rename(columns={"tokens": 7}),
        many.assign(reply=REPLIES),
        many.assign(reply=[reply.replace(" ", "-") for reply in REPLIES]),
    ):
        with pytest.raises(TableError, match="holds texts; only ids, short labels and numbers are kept"):
            keep(rows)
    assert not tables.FOLDER.exists()
    keep(many.assign(document=[f"d{n}" for n in range(81)], order=[f"{n}-1-2" for n in range(81)]))


def test_rows_need_an_id_each_its_own():
    for rows, words in (
        (ROWS.drop(columns="id"), "need a column 'id'"),
        (ROWS.assign(id=["a", None]), "need a column 'id', filled"),
        (ROWS.head(0), "at least one row"),
        (None, "got NoneType"),
        (ROWS.assign(tokens=[True, 2]), "'tokens' of n mixes flag and number"),
        (ROWS.assign(tokens=["a", 2]), "'tokens' of n mixes label and number"),
        (ROWS.assign(id="b", condition="gold"), "repeat 1 of their keys"),
        (pd.concat([ROWS, ROWS["tokens"]], axis=1), "or a column"),
    ):
        with pytest.raises(TableError, match=words):
            keep(rows)


def test_settings_and_facts_of_a_committed_table_hold_no_sentence(tmp_path):
    fine = {
        "source": "owner/lost-in@29b8a6d042ce29abccee3db1a73171a107d7e6af:qa_data/nq.jsonl.gz",
        "sha256": "6a7f" * 16,
        "prompts": {"read_plain": "b23fe617b100"},
        "reader": "SmolLM2-135M-Instruct with adapter",
        "history": [{"epoch": 0, "loss": 0.25}],
    }
    keep(facts=fine)
    said = "the ferryman's last lantern went out"
    for worse in ({"note": said}, {said: 1}, {"a": [{"b": said}]}, {"path": "/somewhere/x"}, {"a": "x/" + said}):
        with pytest.raises(TableError, match=r"settings and facts of n hold a text of \d+ letters"):
            keep(facts=worse)
        with pytest.raises(TableError, match=r"settings and facts of n hold a text of \d+ letters"):
            keep(settings=worse)
        tables.save(tmp_path / "own.json", Kept(ROWS, "f", worse, {}))
    assert tables.kept("c", "n").facts == fine


# --- damage --------------------------------------------------------------------------------------


def test_every_changed_byte_is_found_and_its_file_named(tmp_path):
    path = keep(facts={"files": {"weights.bin": sealed.sha256(b"0123")}})
    weights = path.with_name("weights.bin")
    weights.write_bytes(b"0123")
    assert list(sealed.damage(tables.FOLDER)) == [] and len(show()) == 2
    for file in (path, path.with_suffix(".csv"), weights):
        whole = file.read_bytes()
        for place in range(0, len(whole), 7):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            [said] = set(sealed.damage(tables.FOLDER)) - {f"{weights} belongs to no table; {MEND}"}
            assert said.startswith(f"{file} is damaged")
        with pytest.raises(TableError, match=f"{file.name} is damaged"):
            show("live")
        for torn in (whole[:-1], b"", whole + b"\n"):
            file.write_bytes(torn)
            with pytest.raises(TableError, match=file.name):
                tables.kept("c", "n")
        file.unlink()
        with pytest.raises(TableError, match=f"there is no .*{file.name}"):
            show("live")
        file.mkdir()
        with pytest.raises(TableError, match=rf"{file.name} cannot be read: Is a directory"):
            tables.kept("c", "n")
        file.rmdir()
        file.write_bytes(whole)
    assert CALLS == [], "what is damaged is mended, not measured over"
    assert len(show()) == 2


MEND = "delete it, or restore what names it with git checkout"


def test_a_file_that_no_table_knows_is_named():
    path = keep()
    for name in ("more.csv", "more.txt", "n.json.12.partial"):
        path.with_name(name).write_text("1\n")
        assert list(sealed.damage(tables.FOLDER)) == [f"{path.with_name(name)} belongs to no table; {MEND}"]
        path.with_name(name).unlink()
    path.with_name("more.json").write_text('{"function": "f"}')
    [said] = sealed.damage(tables.FOLDER)
    assert "there is no" in said and "more.csv" in said


def test_a_folder_in_the_way_is_said():
    path = keep()
    path.with_suffix(".csv").unlink()
    path.with_suffix(".csv").mkdir()
    with pytest.raises(TableError, match=r"n\.csv could not be written: Is a directory"):
        keep()
    assert not list(path.parent.glob("*.partial"))


def write_in_turns(folder, stop):
    number = 0
    while not stop.is_set():
        number += 1
        rows = pd.DataFrame({"id": ["a", "b"], "value": [number, number]})
        tables.save(folder / "n.json", Kept(rows, "f", {"number": number}, {}))


def test_rows_and_provenance_of_two_writers_are_never_mixed(tmp_path):
    spawn = multiprocessing.get_context("fork")
    stop = spawn.Event()
    writers = [spawn.Process(target=write_in_turns, args=(tmp_path, stop)) for _ in range(2)]
    tables.save(tmp_path / "n.json", Kept(pd.DataFrame({"id": ["a"], "value": [0]}), "f", {"number": 0}, {}))
    for writer in writers:
        writer.start()
    read = told = 0
    try:
        for _ in range(60):
            try:
                kept = tables.load(tmp_path / "n.json")
            except TableError:
                told += 1
            else:
                assert set(kept.rows["value"]) == {kept.settings["number"]}
                read += 1
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert read > told


def test_what_a_chapter_reads_is_traced(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_COMPANION_TRACE", str(tmp_path / "trace"))
    keep(name="m")
    show("live"), tables.kept("c", "m")
    said = [json.loads(line)["table"] for line in (tmp_path / "trace").read_text().splitlines()]
    assert [line.rpartition("/")[2][:2] for line in said] == ["n-", "m."]
