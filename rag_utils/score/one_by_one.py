"""Lists in the order that is best at every step: the next passage is chosen after those that stand before it."""

from collections.abc import Sequence

from rag_utils.data import Question
from rag_utils.measures import moi as measure
from rag_utils.measures.moi import Orders, Shown
from rag_utils.prompts import Prompt


def sequential(reader, questions: Sequence[Question], shown: Shown, *, prompt: Prompt) -> Orders:
    """Bayes saliency +: the next passage is the one that, after those already chosen, makes question and passages together likeliest.

    source : MoI, eq. 2 and appendix C (Merth et al. 2024), where the second factor is given all N passages; here those chosen before
    """
    size = len(shown[questions[0].id])
    chosen: dict[str, list[int]] = {question.id: [] for question in questions}
    for _ in range(size - 1):
        tried = {name: [[*order, p] for p in range(size) if p not in order] for name, order in chosen.items()}
        table = measure.saliencies(reader, questions, shown, {"next": tried}, prompt=prompt)
        best = (table["query"] + table["passages"]).groupby(table["id"], sort=False).idxmax()
        chosen = {name: measure.parse(table["order"][row]) for name, row in best.items()}
    return {name: [[*order, *(p for p in range(size) if p not in order)]] for name, order in chosen.items()}
