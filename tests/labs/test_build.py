"""How a lab is written from its source, and the words that its tests say."""

import re

import numpy as np
import pytest
from scripts import script

build = script("build", folder="labs")
check = script("check", folder="labs/frame")

SOURCE = '''"""A lab."""


# %%
def half(x):
    """x halved.

    source : eq. 1
    """
    two = 2
    ### BEGIN SOLUTION
    return x / two
    ### END SOLUTION


# %%
def given(x):
    return x
'''


def test_a_solution_is_replaced_and_nothing_else():
    before, after = SOURCE.split("    ### BEGIN SOLUTION\n    return x / two\n    ### END SOLUTION\n")
    assert build.blank(SOURCE) == before + '    raise NotImplementedError("not written yet: half, eq. 1")\n' + after


@pytest.mark.parametrize(
    "wrong",
    [
        SOURCE.replace("    ### END SOLUTION\n", ""),
        SOURCE.replace("    ### BEGIN SOLUTION\n", ""),
        SOURCE.replace("source :", "from :"),
        SOURCE.replace("    return x\n", "    return x\n    ### BEGIN SOLUTION\n"),
        SOURCE.replace("### BEGIN SOLUTION", "").replace("### END SOLUTION", ""),
        SOURCE + "### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n",
    ],
)
def test_marks_that_do_not_pair_up_are_refused(wrong):
    with pytest.raises(ValueError, match=r"SOLUTION|solutions"):
        build.blank(wrong)


def test_a_lab_that_somebody_worked_in_is_not_written_over(tmp_path):
    build.build("seper", tmp_path)
    build.build("seper", tmp_path)
    path = tmp_path / "student" / "seper" / "lab.py"
    path.write_text(path.read_text(encoding="utf-8") + "\n# mine\n", encoding="utf-8")
    with pytest.raises(ValueError, match="was changed after it was written: move"):
        build.build("seper", tmp_path)
    assert path.read_text(encoding="utf-8").endswith("# mine\n")


def said(got, wanted=0.5, **mistakes):
    with pytest.raises(check.Wrong) as caught:
        check.expect(got, wanted, asked="half(1)", equation="eq. 1", mistakes=mistakes)
    return str(caught.value)


def test_what_came_what_was_expected_and_which_mistake():
    assert said(2.0, doubled=2.0, squared=1.0) == (
        "half(1): eq. 1\n    came      2.0000\n    expected  0.5000\n    likely    doubled"
    )
    assert "likely" not in said(3.0, doubled=2.0)
    assert "nothing was returned" in said(None) and "the shape: (2,) came, one value" in said(np.zeros(2))
    assert "came      nan" in said(np.nan)


def test_what_is_right_says_nothing():
    for got, wanted in ((np.array([0, 1]), [0, 1]), ({"a": 1}, {"a": 1.0}), (["x"], ["x"]), (True, True)):
        assert check.expect(got, wanted, asked="f()", equation="eq. 1") is None


def test_a_mistake_that_cannot_be_told_is_refused():
    with pytest.raises(ValueError, match="cannot be told"):
        said(1.0, nothing=0.5)
    with pytest.raises(ValueError, match="cannot be told"):
        said(1.0, one=2.0, other=2.0)


def test_what_is_equal():
    assert check.same([1, 2], np.array([1.0, 2.0])) and not check.same([1, 2], [1, 2, 3]) and not check.same([2], 2)
    assert check.same(["a", "b"], ("a", "b")) and not check.same(["a"], ["b"]) and not check.same(["a"], [2])
    assert not check.same({"a": 1}, {"a": 1, "b": 2}) and not check.same("1", 1) and not check.same(None, 0)
    assert check.same([[1], [2, 3]], ([1.0], [2, 3])) and not check.same([[1], [2, 3]], [[1], [2, 4]])
    assert check.same({1, 2}, {2, 1}) and not check.same({1, 2}, [1, 2])


def test_a_ragged_list_and_a_dict_are_told_as_what_they_are():
    ragged = ([[1], [2, 3]], [1, 2], "a list of parts of different lengths came, (2,)")
    for got, wanted, said in (ragged, (3, {"a": 3}, "one value came, a dict")):
        with pytest.raises(check.Wrong, match=re.escape(said)):
            check.expect(got, wanted, asked="f(x)", equation="eq. 1")


def test_an_accident_is_told_in_two_lines():
    try:
        exec(compile("def half(x):\n    return x[5]\n\nhalf([1])", "lab.py", "exec"))
    except IndexError as error:
        words = check.say(error)
    assert words.startswith("half stopped with IndexError: list index out of range\n    in lab.py, line 2")
