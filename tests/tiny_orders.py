"""What a reader said of a few orders, for the tests of the tables of chapters 7 and 8."""

import pandas as pd


def said() -> pd.DataFrame:
    """Two questions, two ways and three cyclic orders; the vote is a row without an order."""
    rows = []
    for name, ways in {"q1": (1, 0, (1, 0, 0)), "q2": (1, 1, (1, 1, 0))}.items():
        rows += [(name, "MoI", 0, "0-1-2", 1.0, ways[0]), (name, "QG", 0, "2-1-0", 1 / 3, ways[1])]
        cyclic = zip(("0-1-2", "1-2-0", "2-0-1"), (1.0, 1 / 3, 1 / 2), ways[2], strict=True)
        rows += [(name, "cyclic", run, *one) for run, one in enumerate(cyclic)]
        rows.append((name, "self-consistency", 0, "votes", 0.0, 1))
    columns = ["id", "condition", "run", "order", "gold", "exact_match"]
    return pd.DataFrame(rows, columns=columns).astype({"exact_match": float})
