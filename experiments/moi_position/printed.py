"""MoI as it is printed, 3N full orders and both factors, answered from; beside its reverse, which fits as well, and fits that are settled.

Fixed before the first call: the questions of chapter 7, 15 orders of 5 passages, one test a data set against the mean of the cyclic orders.
"""

import numpy as np

from experiments import asking, benchmarks
from experiments.moi_position.position_numbers import shown_of
from experiments.moi_position.rerankers import reversed_orders
from rag_utils import moi, prompts
from rag_utils.measures import moi as measure
from rag_utils.measures.moi import ALONE, CYCLIC, FULL, PRUNED

# name -> orders, how `moi.saliency` forms their scores, sign. "printed" is eqs. 3 and 4 to the letter, "again" with other starts
RAW, LOG, FORCED, ROUGH = {"prior": True, "form": "probability"}, {"prior": True}, "decreasing position", "pointwise prior"
FITS = {"printed": (FULL, RAW, "free"), "logarithm": (FULL, LOG, "free"), "falling": (FULL, LOG, FORCED)}
FITS |= {"pointwise": (FULL, LOG, ROUGH), "pruned": (PRUNED, {}, "free"), "pruned prior": (PRUNED, LOG, "free")}
CONVENTIONS = {"printed falling": (FULL, RAW, FORCED), "printed pointwise": (FULL, RAW, ROUGH), "printed again": (FULL, RAW, "free")}


def answers(*, mode, profile, prompt, dataset, questions, orders, max_new_tokens, few=None):
    """Rows of `measures.moi.answered` without the reply: of each of FITS, two of them "turned" too, "even" and "cyclic".

    dataset, questions : as in `orders_read`; orders: size, prefix, seed, conventions: are CONVENTIONS answered too, first: so many alone
    even: pruned orders, every coefficient 1 / prefix; identified: 1 if nothing else fits as well; of what is no fit 0
    """
    reader, template, size, prefix = asking.reader(profile, mode), prompts.load(prompt), orders["size"], orders["prefix"]
    asked, shown = shown_of(dataset, questions, orders, few or orders.get("first"))
    ids = [question.id for question in asked]
    sets = measure.propose(ids, size, {ALONE: 1, PRUNED: prefix, FULL: size}, drawn=3 * size, seed=orders["seed"])
    read = measure.saliencies(reader, asked, shown, sets, prompt=template)
    alone, ways, settled = measure.problems(read, ALONE), {CYCLIC: dict.fromkeys(ids, moi.cyclic_orders(size))}, {}
    for way, (of, form, sign) in (FITS | CONVENTIONS if orders["conventions"] else FITS).items():
        ways[way], rng = {}, orders["seed"] + way.endswith("again")
        for name, (each, scores) in measure.problems(read, of, **form).items():
            rough = alone[name][1] if sign == ROUGH else None
            fit = moi.fit(each, scores, size, sign=sign, pointwise=rough, starts=4, rng=rng)
            ways[way][name], settled[way, name] = [moi.rerank(fit.utility).tolist()], int(fit.identified)
    ways |= {f"{way} turned": reversed_orders(ways[way]) for way in ("printed", "logarithm")}
    ways["even"] = measure.ranked(measure.calibrated(read, PRUNED, {prefix: np.full(prefix, 1 / prefix)}, size=size))
    said = measure.answered(reader, asked, shown, ways, prompt=template, max_new_tokens=max_new_tokens).drop(columns="reply")
    said["identified"] = [settled.get(case, 0) for case in zip(said["condition"], said["id"], strict=True)]
    return said, asking.facts(reader=reader) | {"questions": len(ids)} | benchmarks.source(dataset)
