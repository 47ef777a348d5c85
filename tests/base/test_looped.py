"""The loop over cases tries all of them and names those that fail."""

import pytest
from looped import each


def test_every_case_that_fails_is_named(tmp_path):
    tried = []

    @each(("number", "wanted"), [(1, 1), (2, 3), (4, 4), (5, 6)])
    def looped(number, wanted, tmp_path):
        tried.append((number, tmp_path))
        assert number == wanted

    with pytest.raises(AssertionError, match=r"2 of 4 cases fail\n\(2, 3\): .*\n(.*\n)*\(5, 6\)"):
        looped(tmp_path=tmp_path)
    assert [number for number, _ in tried] == [1, 2, 4, 5]
    assert len({folder for _, folder in tried}) == 4 and all(folder.parent == tmp_path for _, folder in tried)


def test_a_case_does_not_see_what_another_patched(monkeypatch):
    @each("name", ["pytest", "each"])
    def looped(name, monkeypatch):
        assert {"pytest", "each"} <= set(globals())
        monkeypatch.delitem(globals(), name)

    looped(monkeypatch=monkeypatch)


def test_what_is_not_refused_fails_and_no_cases_are_no_success():
    @each("number", [-1, 1])
    def refused(number):
        with pytest.raises(ValueError):
            int(f"{number}" if number > 0 else "none")

    @each("number", [])
    def nothing(number):
        pass

    with pytest.raises(AssertionError, match="1 of 2 cases fail\n1: Failed: DID NOT RAISE"):
        refused()
    with pytest.raises(AssertionError, match="there is no case to try"):
        nothing()
