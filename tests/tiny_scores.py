"""Scores of an invented run, with every measure and every reason for a missing value: what the report is tested on."""

import numpy as np
import pandas as pd

from rag_utils.score.scores import MEASURES, Scores

NAMES = ("Vane", "Ostrel", "Port Sennick", "Halmar", "the Brenn tower", "Lake Orre")


def scores(questions: int = 12, passages: int = 4, *, seed: int = 0, measures=MEASURES, shift: float = 0.0) -> Scores:
    """Question 3 has no answers, question 4 nothing that MoI settles, question 5 an answer that the reader knows."""
    rng = np.random.default_rng(seed)
    asked, shown = [], []
    for number in range(1, questions + 1):
        own = [_passage(rng, number, rank, shift) for rank in range(1, passages + 1)]
        asked.append(_question(rng, number, own))
        shown += own
    frames = [_chosen(pd.DataFrame(rows), measures) for rows in (shown, asked)]
    settings = {"measures": list(measures), "reader": "embedded", "fingerprint": "9f2c", "top": 10, "k": passages, "seed": 0}
    settings |= {"prompts": {"closed": "1a2b", "read": "3c4d"}, "calls": {"replies": 120, "tokens": 48210}}
    return Scores(*frames, settings)


def _passage(rng, number: int, rank: int, shift: float) -> dict:
    known = number % 7 != 3
    label = float(rng.random() < 0.5 / rank + shift)
    belief = float(np.clip(rng.normal(0.5 * label + shift, 0.2), -1, 1)) if known else None
    row = {"question": f"q{number:03}", "passage": f"a{number:02}-p{rank}", "rank": rank}
    row |= {"title": NAMES[number % len(NAMES)], "text": f"Passage {rank} of <b>{number}</b> & more."}
    for name in ("seper", "seper_hard", "seper_shares"):
        row |= {name: belief, f"{name}_why": "" if known else "no answers given"}
    row |= {"erag": label if known else None, "reply": str(rng.choice(NAMES)) if known else None}
    row |= {"erag_why": "" if known else "no answers given"}
    row |= {"dense_role": str(rng.choice(["certain", "necessary", "unnecessary"])), "dense_why": ""}
    kind = str(rng.choice(["strong", "weak", "distractor"])) if number % 7 != 5 else "undefined"
    reason = "no answers given" if not known else "right without passages" if kind == "undefined" else ""
    row |= {"ecorag": kind if known else None, "ecorag_kept": float(rng.integers(0, 3)), "sentences": 4.0}
    settled = number % 7 != 4
    row |= {"ecorag_why": reason, "moi": float(rng.normal()) if settled else None, "moi_identified": float(settled)}
    return row | {"moi_why": "" if settled else "the orders settle no fit"}


def _question(rng, number: int, own: list[dict]) -> dict:
    known, settled = number % 7 != 3, number % 7 != 4
    place = NAMES[number % len(NAMES)]
    row = {"id": f"q{number:03}", "question": f"Which river runs past {place}, and what do the people there call it?"}
    row |= {"answers": f"Vane | the Vane by {place}" if known else "", "passages": len(own)}
    right = rng.random(4) < (0.25, 0.6, 0.5, 0.65)
    told = ("before", "with_list", "compressed", "reordered")
    for name, is_right in zip(told, right, strict=True):
        row |= {name: "Vane" if is_right else str(rng.choice(NAMES[1:])), f"right_{name}": float(is_right) if known else None}
    if not settled:
        row |= {"reordered": None, "right_reordered": None}
    why = "" if known else "no answers given"
    for name in ("seper", "seper_hard", "seper_shares"):
        values = [each[name] for each in own]
        row |= {f"{name}_list": float(np.clip(np.mean(values) + 0.3, -1, 1)) if known else None, f"{name}_why": why}
    labels = [each["erag"] for each in own]
    for name in ("P@k", "RR", "nDCG@k", "AP", "Success@k"):
        row |= {f"erag_{name}": float(np.mean(labels)) if known else None}
    entropy = float(rng.random())
    row |= {"erag_why": why, "dense_entropy": entropy, "dense_certain": float(entropy < 0.4), "dense_why": ""}
    row |= {"tokens": 60 * len(own) + number % 50, "tokens_compressed": float(20 * len(own)), "ecorag_why": why}
    return row | {"moi_why": "" if settled else "the orders settle no fit"}


def _chosen(table: pd.DataFrame, measures) -> pd.DataFrame:
    """Without the columns of measures that were not asked for."""
    owners = {"compressed": "ecorag", "tokens_compressed": "ecorag", "sentences": "ecorag", "reordered": "moi", "reply": "erag"}
    owners |= {"right_compressed": "ecorag", "right_reordered": "moi"}
    kept = []
    for name in table:
        stem = name.removesuffix("_why").removesuffix("_list")
        owner = owners.get(name) or (stem.replace("_", "-") if stem in ("seper_hard", "seper_shares") else stem.split("_")[0])
        if owner in measures or owner not in MEASURES:
            kept.append(name)
    return table[kept]
