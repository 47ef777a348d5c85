"""One's own retrieval run: read it, ask a reader the five measures about it, compare it with another one, look at the report.

records = read("run.jsonl")                            # or a TREC run with queries and a corpus, ragas or Ragnarök records
scores = run(records, measures=("seper", "erag"))
scores.summary(), scores.passages, scores.questions    # data frames
scores.save("out")                                     # tables, labels for trec_eval, report.html
compare(scores, run(read("other.jsonl")))
agreement(scores.passages, ("seper", "erag", "moi"))
"""

from importlib import import_module

WHERE = {"Record": "records", "RecordPassage": "records", "read": "formats", "BadInput": "formats", "Scores": "scores"}
WHERE |= dict.fromkeys(("worth", "cut", "reranked", "found_again"), "lists")
WHERE |= {"listwise": "in_words", "lent": "misled", "against_chance": "chance", "wandering": "places", "questions_needed": "enough"}
WHERE |= {"run": "scores", "Settings": "measured", "agreement": "agree", "compare": "paired", "changed": "paired", "judge_check": "trust"}
__all__ = sorted(WHERE)


def __getattr__(name: str):
    """The public names, imported when they are used: the command's other parts need none of what they stand on."""
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{WHERE[name]}"), name)
