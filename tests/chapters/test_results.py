"""Numbers per question: written whole, read back equal, and never a text."""

import pandas as pd
import pytest

from experiments import results

ROWS = pd.DataFrame(
    {"id": ["0012", "b"], "condition": ["closed book", "gold"], "exact_match": [0.0, 1.0], "tokens": [3, 1]}
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(results, "ROOT", tmp_path)


def test_what_was_saved_is_loaded(tmp_path):
    results.save("c", "nq", ROWS, {"seed": 0})
    rows, facts = results.load("c", "nq")
    pd.testing.assert_frame_equal(rows, ROWS, check_dtype=False)
    assert facts == {"seed": 0}
    first = (tmp_path / "c" / "nq.csv").read_bytes()
    results.save("c", "nq", ROWS, {"seed": 0})
    assert (tmp_path / "c" / "nq.csv").read_bytes() == first
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reply": ["a reply of four words", "b"]}, "holds 1 texts"),
        ({"condition": ["gold, perhaps", "gold"]}, "holds 1 texts"),
        ({"id": ["b", "b"], "condition": ["gold", "gold"]}, "repeat 1 of their keys"),
    ],
)
def test_a_text_or_a_repeated_row_is_refused_and_nothing_is_written(tmp_path, change, words):
    with pytest.raises(ValueError, match=words):
        results.save("c", "nq", ROWS.assign(**change), {})
    assert not (tmp_path / "c").exists()


def test_rows_without_an_id_are_refused():
    with pytest.raises(ValueError, match="need a column 'id'"):
        results.save("c", "nq", ROWS.drop(columns="id"), {})


def test_missing_numbers_name_the_command():
    with pytest.raises(ValueError, match="make live CHAPTER=c"):
        results.load("c", "nq")


def test_damaged_provenance_is_named(tmp_path):
    results.save("c", "nq", ROWS, {})
    (tmp_path / "c" / "nq.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        results.load("c", "nq")


def test_modes(tmp_path):
    calls = []

    def measure():
        calls.append(1)
        return ROWS, {"n": 2}

    results.measured("c", "nq", measure, mode="fresh")
    assert calls == [1] and not (tmp_path / "c").exists()
    results.measured("c", "nq", measure, mode="live")
    results.measured("c", "nq", measure, mode="replay")
    assert calls == [1, 1] and (tmp_path / "c" / "nq.csv").exists()


def test_numbers_of_another_setting_are_refused():
    results.save("c", "nq", ROWS, {"samples": 10, "seed": 0})
    assert results.measured("c", "nq", list, mode="replay", settings={"samples": 10})[1]["seed"] == 0
    with pytest.raises(ValueError, match="measured with samples = 10, not 5; run the chapter with --mode live"):
        results.measured("c", "nq", list, mode="replay", settings={"seed": 0, "samples": 5})
    with pytest.raises(ValueError, match="questions = None, not 20"):
        results.measured("c", "nq", list, mode="replay", settings={"questions": 20})


def test_a_folder_in_the_way_is_said(tmp_path):
    results.save("c", "nq", ROWS, {})
    (tmp_path / "c" / "nq.csv").unlink()
    (tmp_path / "c" / "nq.csv").mkdir()
    with pytest.raises(ValueError, match="could not be written"):
        results.save("c", "nq", ROWS, {})
