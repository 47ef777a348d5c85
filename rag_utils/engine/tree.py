"""Many texts that begin alike, as a tree of what is common: each segment of tokens is then computed once.

    "the cat sat"   "the cat ran"   "the dog"        the ─┬─ cat ─┬─ sat
                                                          │       └─ ran
                                                          └─ dog

Ten documents under one instruction, fifteen orders of the same passages: what is the same stands once. No model here, only lists of ints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile


@dataclass
class Count:
    """Tokens that the model read or wrote. `distinct` is what no way of sharing beginnings could save."""

    computed: int = 0
    distinct: int = 0


@dataclass
class Node:
    """A run of tokens, what continues it, and which texts end with its last token."""

    start: int  # tokens before it on the way from the root
    tokens: list[int]  # empty only at a root that is common to texts with nothing in common
    children: list["Node"] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # indices of texts

    @property
    def stop(self) -> int:
        """Tokens up to and with this node."""
        return self.start + len(self.tokens)

    def walk(self):
        """This node and all below, parents first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


def prefix_tree(texts: Sequence[Sequence[int]], *, allowance: float = 0.0) -> Node:
    """The root of the tree of the texts' common beginnings; ValueError if there are no texts or one is empty.

    texts     : token ids; equal texts end at the same node
    allowance : share of the distinct tokens that may be computed twice to have fewer and larger steps: short segments that save least
                are pushed down into their continuations

    >>> root = prefix_tree([[1, 2, 3], [1, 2, 4], [1, 5]])
    >>> root.tokens, [node.tokens for node in root.children], size(root)
    ([1], [[2], [5]], 5)
    """
    if not texts or not all(map(len, texts)):
        lengths = [len(text) for text in texts][:5]
        raise ValueError(f"prefix_tree wants at least one text and no empty one, got lengths {lengths}")
    order = sorted(range(len(texts)), key=lambda i: list(texts[i]))
    stack = [(root := _branch(texts, order, 0), order)]
    while stack:
        node, members = stack.pop()
        node.ends = [i for i in members if len(texts[i]) == node.stop]
        longer = [i for i in members if len(texts[i]) > node.stop]
        groups = [list(group) for _, group in groupby(longer, key=lambda i: texts[i][node.stop])]
        node.children = [_branch(texts, group, node.stop) for group in groups]
        stack += zip(node.children, groups, strict=True)
    _push_down(root, int(allowance * size(root)))
    return root


def size(root: Node) -> int:
    """Tokens that are computed: those of all segments."""
    return sum(len(node.tokens) for node in root.walk())


def batches(lengths: Sequence[int], batch_tokens: int, *, enough: int = 1024) -> Iterator[list[int]]:
    """Group indices so that rows x longest stays within the budget; similar lengths together, longest first; never an empty batch.

    enough : a batch of so many tokens takes no row that is much shorter, since it would be padded

    >>> list(batches([5, 9, 4, 8], 18))
    [[1, 3], [0, 2]]
    """
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        full = (len(batch) + 1) * longest > batch_tokens
        if batch and (full or (len(batch) * longest >= enough and lengths[i] < 0.85 * longest)):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _branch(texts, members: list[int], start: int) -> Node:
    """The node of what the members, sorted, have in common from `start` on."""
    pairs = zip(texts[members[0]][start:], texts[members[-1]][start:], strict=False)
    return Node(start, [token for token, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)])


def _push_down(root: Node, spare: int) -> None:
    """Dissolve inner nodes into their children, cheapest first, while the repeated tokens stay within `spare`."""
    parents = {id(child): node for node in root.walk() for child in node.children}
    inner = [node for node in root.walk() if node.children and not node.ends and node is not root]
    for node in sorted(inner, key=lambda node: len(node.tokens) * (len(node.children) - 1)):
        cost = len(node.tokens) * (len(node.children) - 1)
        if cost > spare:
            break
        spare -= cost
        parent = parents[id(node)]
        place = next(i for i, child in enumerate(parent.children) if child is node)
        for child in node.children:
            child.start, child.tokens = node.start, node.tokens + child.tokens
            parents[id(child)] = parent
        parent.children[place : place + 1] = node.children
