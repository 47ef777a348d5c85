"""What the tables of a run hold: the columns of each measure, and which of them are text or whole numbers."""

MEASURES = ("seper", "seper-hard", "seper-shares", "erag", "dense", "ecorag", "moi")
# columns of each measure, those of a passage and those of a question; every measure also has a column of reasons, as `why` names it
OF_PASSAGES = {
    "seper": ("seper",),
    "seper-hard": ("seper_hard",),
    "seper-shares": ("seper_shares",),
    "erag": ("erag", "reply"),
    "dense": ("dense_role",),
    "ecorag": ("ecorag", "ecorag_kept", "sentences"),
    "moi": ("moi", "moi_identified"),
}
OF_QUESTIONS = {
    "seper": ("seper_list",),
    "seper-hard": ("seper_hard_list",),
    "seper-shares": ("seper_shares_list",),
    "erag": ("erag_P@k", "erag_RR", "erag_nDCG@k", "erag_AP", "erag_Success@k"),
    "dense": ("dense_entropy", "dense_certain"),
    "ecorag": ("compressed", "right_compressed", "tokens_compressed"),
    "moi": ("reordered", "right_reordered"),
}
ASKED = ("id", "question", "answers", "passages", "before", "with_list", "right_before", "right_with_list", "tokens")
PLACED = ("question", "passage", "rank", "title", "text")
TEXTS = {"id", "question", "passage", "title", "text", "answers", "before", "with_list", "reply", "dense_role", "ecorag"}
TEXTS |= {"compressed", "reordered"}
WHOLE = {"rank", "passages", "tokens"}


def why(measure: str) -> str:
    """The column that says why a measure has no value: empty where it has one.

    >>> why("seper-hard")
    'seper_hard_why'
    """
    return f"{measure.replace('-', '_')}_why"
