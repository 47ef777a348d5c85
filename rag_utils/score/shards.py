"""How calls are dealt to workers: texts that begin alike stay together, so that what they share is read once by one of them.

    Document: A ─┬─ who? ─┐ first shard
                 └─ when? ┘
    Document: B ─── where?  second shard
"""

from collections.abc import Iterator, Sequence

from rag_utils.base import checks
from rag_utils.engine.tree import Node, prefix_tree

PER_WORKER = 4  # shards for each: who is slow, or began late, takes fewer of them
TORN = 2  # shards that a tree must fill before it is torn
LEAST = 1024  # tokens of a shard: fewer are read no faster


def deal(texts: Sequence[Sequence[int]], said: Sequence[int], workers: int) -> list[list[int]]:
    """Shards, each a list of indices of texts, the one with most tokens first; every text is in one.

    A tree of common beginnings stays whole unless it fills TORN shards by itself; then its branches do, and so on. Shards are filled in
    the order of the tree, so that neighbours, which share most, come together.

    texts   : token ids, none empty
    said    : tokens that will be written after each
    workers : how many there are; ValueError unless it is a whole number of at least 1

    >>> deal([[1] * 900 + [2], [1] * 900 + [3], [5] * 990], [200, 200, 200], 1)
    [[0, 1], [2]]
    """
    workers = checks.whole("workers", workers, least=1)
    checks.same_length(texts=texts, said=said)
    root = prefix_tree(texts)
    loads = _loads(root, said)
    share = max(LEAST, loads[id(root)] / (workers * PER_WORKER))
    shards, filled = [], []
    for node, indices, load in _pieces(root, loads, said, TORN * share):
        if not filled or filled[-1] + load > share:
            shards.append([])
            filled.append(node.start)  # what is above a branch is read again in every shard
        shards[-1] += indices
        filled[-1] += load
    order = sorted(range(len(shards)), key=lambda i: -filled[i])
    return [shards[i] for i in order]


def _loads(root: Node, said: Sequence[int]) -> dict[int, int]:
    """By node (its id) the tokens that are read from it on, each once, and those that are written there."""
    loads: dict[int, int] = {}
    for node in reversed(list(root.walk())):  # children first
        below = sum(loads[id(child)] for child in node.children)
        loads[id(node)] = len(node.tokens) + sum(said[i] for i in node.ends) + below
    return loads


def _pieces(root: Node, loads: dict[int, int], said: Sequence[int], most: float) -> Iterator[tuple[Node, list[int], int]]:
    """Trees of at most so many tokens, as (node, its texts, tokens), in order; what cannot be torn is larger."""
    stack = [root]
    while stack:
        node = stack.pop()
        if loads[id(node)] <= most or not node.children:
            yield node, [i for each in node.walk() for i in each.ends], loads[id(node)]
            continue
        if node.ends:
            yield node, node.ends, len(node.tokens) + sum(said[i] for i in node.ends)
        stack += reversed(node.children)
