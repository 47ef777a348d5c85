"""Orders of the passages of a question: which are proposed, how they are written, where the gold passages stand in them.

Passages of a question are numbered 0 .. N - 1 in the retriever's order, and an order is written "2-0-1".
"""

from collections.abc import Mapping, Sequence

from scipy.stats import kendalltau

from rag_utils import moi
from rag_utils.base.names import check_name
from rag_utils.data import Passage, Question
from rag_utils.retrieve import Run, ranking

Shown = Mapping[str, Sequence[Passage]]  # question id -> its passages, in the retriever's order
Orders = Mapping[str, Sequence[Sequence[int]]]  # question id -> orders, which may be of different lengths
SETS = ALONE, PRUNED, FULL, CYCLIC, SHORT = "alone", "pruned", "full", "cyclic", "cyclic pruned"


def label(order: Sequence[int]) -> str:
    """An order as text.

    >>> label([2, 0, 1])
    '2-0-1'
    """
    return "-".join(str(int(place)) for place in order)


def parse(text: str) -> list[int]:
    """The order that `label` wrote.

    raises : ValueError if the text is not such

    >>> parse("2-0-1")
    [2, 0, 1]
    """
    try:
        return [int(place) for place in text.split("-")]
    except (AttributeError, ValueError) as error:
        raise ValueError(f"wanted an order such as '2-0-1', got {text!r}") from error


def with_gold(size: int, gold: Sequence[int], where: str) -> list[int]:
    """The retriever's order with the gold passages moved together to one end, or into the middle.

    where : "first", "middle" or "last"

    >>> with_gold(5, [3], "first"), with_gold(5, [0], "middle"), with_gold(5, [0, 3], "last")
    ([3, 0, 1, 2, 4], [1, 2, 0, 3, 4], [1, 2, 4, 0, 3])
    """
    check_name("place", where, ("first", "middle", "last"))
    others = [place for place in range(size) if place not in set(gold)]
    before = {"first": 0, "middle": len(others) // 2, "last": len(others)}[where]
    return [*others[:before], *sorted(gold), *others[before:]]


def gold_places(question: Question, shown: Shown) -> list[int]:
    """Numbers of the question's gold passages among those shown."""
    wanted = {passage.id for passage in question.gold}
    return [number for number, passage in enumerate(shown[question.id]) if passage.id in wanted]


def reciprocal_rank(order: Sequence[int], gold: Sequence[int]) -> float:
    """One over the place of the first gold passage, 0 if the order has none.

    >>> reciprocal_rank([2, 0, 1], [0, 1])
    0.5
    """
    return next((1 / place for place, passage in enumerate(order, 1) if passage in set(gold)), 0.0)


def candidates(questions: Sequence[Question], run: Run, passages: Mapping[str, Passage], *, size: int) -> Shown:
    """The passages to show: the best of the run, every gold passage among them, in the order of the run, others by their ids.

    passages : by id
    raises   : ValueError if there are fewer than `size`
    source   : ours. A gold passage that the retriever missed takes the place of the worst other one; without it no order could help
    """
    found = {}
    for question in questions:
        gold = [passage.id for passage in question.gold]
        ranked = ranking(run[question.id])
        ranked += sorted(set(passages) - set(ranked))
        others = [name for name in ranked if name not in set(gold)][: size - len(gold)]
        kept = set(gold) | set(others)
        if len(kept) != size:
            raise ValueError(f"question {question.id} has {len(kept)} passages to show, wanted {size}")
        found[question.id] = tuple(passages[name] for name in ranked if name in kept)
    return found


def propose(
    ids: Sequence[str], size: int, wanted: Sequence[str], *, prefix: int, orders: int, seed: int = 0
) -> dict[str, Orders]:
    """Sets of orders of each question, by name.

    wanted : of "alone" (every passage by itself), "pruned" (random, the first `prefix` passages), "full" (random), "cyclic" and "cyclic
             pruned"
    orders : how many random ones
    source : MoI, sections 3.2 and 3.3.1. Each question has orders of its own, drawn from the seed and its place in `ids`
    """
    sets: dict[str, Orders] = {check_name("set of orders", one, SETS): {} for one in wanted}
    for number, name in enumerate(ids):
        made = {
            ALONE: moi.cyclic_orders(size, prefix=1),
            PRUNED: moi.random_orders(size, orders, prefix=prefix, rng=[seed, number]),
            FULL: moi.random_orders(size, orders, rng=[seed, number, 1]),
            CYCLIC: moi.cyclic_orders(size),
            SHORT: moi.cyclic_orders(size, prefix=prefix),
        }
        for one in sets:
            sets[one][name] = made[one]
    return sets


def reversed_orders(orders: Orders) -> dict[str, list[list[int]]]:
    """The same orders from the last passage to the first."""
    return {name: [list(order)[::-1] for order in some] for name, some in orders.items()}


def agreement(one: Sequence[int], other: Sequence[int]) -> float:
    """Kendall's tau of two rankings of the same passages: 1 if equal, -1 if one is the other from the last to the first.

    >>> agreement([0, 1, 2], [2, 1, 0]), round(agreement([0, 1, 2], [0, 2, 1]), 2)
    (-1.0, 0.33)
    """
    places = [[order.index(passage) for passage in range(len(order))] for order in (list(one), list(other))]
    return float(kendalltau(*places).statistic)
