"""The README's Python runs as it stands, block after block, and gives what its comments say."""

import ast
import re

import numpy as np
import pytest

from rag_utils.base.cache import ROOT

BLOCKS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)
SAID = re.compile(r"#\s*(\[.*\]|-?\d+\.\d+)")


def run(block: str, names: dict) -> list[tuple[object, object]]:
    """Execute a block; of each expression with a comment that begins with a number or a list, what it gives and what that says."""
    lines, pairs = block.splitlines(), []
    for node in ast.parse(block).body:
        comment = SAID.search(lines[node.end_lineno - 1][node.end_col_offset :])
        if isinstance(node, ast.Expr):
            value = eval(compile(ast.Expression(node.value), "README.md", "eval"), names)
            assert comment, f"nothing says what this gives: {lines[node.lineno - 1]}"
            pairs.append((value, ast.literal_eval(comment[1])))
        else:
            exec(compile(ast.Module([node], []), "README.md", "exec"), names)
    return pairs


def test_a_wrong_comment_is_seen():
    [(value, said)] = run("x = 2\nx / 4  # 0.4: wrong\n", {})
    assert value == 0.5 and said == 0.4
    with pytest.raises(AssertionError, match="nothing says"):
        run("1 + 1\n", {})


def test_scoring_needs_no_model():
    [block] = [block for block in BLOCKS if block.startswith("from rag_utils import answers\n")]
    assert run(block, {}) == [(1.0, 1.0), (1.0, 1.0), (0.0, 0.0)]


@pytest.mark.slow
def test_every_block_gives_what_it_says(monkeypatch):
    monkeypatch.chdir(ROOT)  # where a reader of the README is
    names, pairs = {}, []
    for block in BLOCKS:
        pairs += run(block.replace('mode="live"', 'mode="fresh"'), names)  # computed, and not kept
    assert len(pairs) == 14
    for value, said in pairs:
        assert np.allclose(value, said, rtol=0, atol=0.006), f"README says {said}, got {value}"
