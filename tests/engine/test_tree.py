"""The prefix tree holds every text once, and what it saves is what the texts share."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rag_utils.engine.tree import prefix_tree, size

TEXTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=12)


def spelled(root):
    """(text, its tokens read off the tree) for every end."""
    found, stack = {}, [(root, [])]
    while stack:
        node, before = stack.pop()
        assert node.start == len(before)
        tokens = before + node.tokens
        found.update({i: tokens for i in node.ends})
        stack += [(child, tokens) for child in node.children]
    return found


def test_by_hand():
    root = prefix_tree([[1, 2, 3, 4], [1, 2, 3, 5], [1, 2], [1, 2, 6]])
    assert (root.tokens, root.ends, root.stop) == ([1, 2], [2], 2)
    assert sorted((child.tokens, child.ends) for child in root.children) == [([3], []), ([6], [3])]
    assert size(root) == 6  # of 13 tokens


@settings(deadline=None)
@given(texts=TEXTS, allowance=st.sampled_from([0.0, 0.05, 0.5]))
def test_every_text_is_there_and_ends_once(texts, allowance):
    assert spelled(prefix_tree(texts, allowance=allowance)) == dict(enumerate(texts))


@settings(deadline=None)
@given(texts=TEXTS, allowance=st.sampled_from([0.0, 0.05, 0.5]))
def test_the_size_is_the_number_of_distinct_beginnings(texts, allowance):
    distinct = len({tuple(text[:n]) for text in texts for n in range(1, len(text) + 1)})
    assert size(prefix_tree(texts)) == distinct
    assert distinct <= size(prefix_tree(texts, allowance=allowance)) <= distinct * (1 + allowance)


@settings(deadline=None)
@given(texts=TEXTS)
def test_children_begin_differently(texts):
    for node in prefix_tree(texts).walk():
        firsts = [child.tokens[0] for child in node.children]
        assert len(set(firsts)) == len(firsts)
        assert node.ends or len(node.children) != 1


def test_a_tree_that_joins_whatever_shares_one_token_would_be_too_small():
    """Sharing the longest common run anywhere, not only at the beginning, is another and wrong count."""
    texts = [[1, 2, 3], [2, 3]]
    assert size(prefix_tree(texts)) == 5 != len({token for text in texts for token in text})
