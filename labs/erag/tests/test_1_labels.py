"""Steps 1 and 2: whether a reply is right, and the label of a passage."""

import json
from pathlib import Path

import adapters
from check import expect

HERE = Path(__file__).resolve().parent
NUMBERS = json.loads((HERE / "snapshots.json").read_text(encoding="utf-8"))
EXACT = "eq. 1, with exact match: equal to one of the answers, both normalized"
ALONE = "eq. 1, the reply to {d}, for every d of the list"
REPLIES = {"a": "1829", "b": "1729", "c": "in 1829", "d": "1829."}


def labels(*cases):
    """The labels of several cases, None as soon as nothing is returned."""
    said = [adapters.label(*case) for case in cases]
    return None if any(value is None for value in said) else said


def test_label_of_spelling():
    expect(
        labels(("The harbour.", ["harbour"]), ("harbour", ["The harbour."]), ("mole", ["harbour"])),
        [1.0, 1.0, 0.0],
        asked='label("The harbour.", ["harbour"]), label("harbour", ["The harbour."]), label("mole", ["harbour"])',
        equation=EXACT,
        mistakes={
            "the texts were compared as they stand: `normalize` both first": [0.0, 0.0, 0.0],
            "only the reply was normalized. An answer may have an article or capitals too": [1.0, 0.0, 0.0],
            "only the answers were normalized. A reply may have an article or a full stop": [0.0, 1.0, 0.0],
            "1 for all: is the comparison used?": [1.0, 1.0, 1.0],
            "turned round: 1 is for a right reply": [0.0, 0.0, 1.0],
        },
    )


def test_label_of_longer_replies():
    expect(
        labels(("until 1829, says the book", ["1829"]), ("18", ["1829"]), ("harbour old", ["old harbour"])),
        [0.0, 0.0, 0.0],
        asked='label of "until 1829, says the book" and "18" with ["1829"], of "harbour old" with ["old harbour"]',
        equation=EXACT + ". Exact match wants the whole text",
        mistakes={
            "the answer was looked for inside the reply; exact match wants them equal": [1.0, 0.0, 0.0],
            "the reply was looked for inside the answer: in a text, `in` finds any part of it": [0.0, 1.0, 0.0],
            "reply inside answer or answer inside reply; exact match wants them equal": [1.0, 1.0, 0.0],
            "the words were compared as sets; their order counts": [0.0, 0.0, 1.0],
            "a word in common was enough; exact match wants them equal": [1.0, 0.0, 1.0],
        },
    )


def test_label_of_several_answers():
    expect(
        labels(("twenty", ["20", "twenty"]), ("20", ["20", "twenty"]), ("12", ["20", "twenty"])),
        [1.0, 1.0, 0.0],
        asked='label of "twenty", "20" and "12", with the answers ["20", "twenty"]',
        equation=EXACT,
        mistakes={
            "only the first answer was looked at": [0.0, 1.0, 0.0],
            "only the last answer was looked at": [1.0, 0.0, 0.0],
            "the share of the answers that are met (mean for max): any of them will do": [0.5, 0.5, 0.0],
            "every answer had to be met (all for any): any of them will do": [0.0, 0.0, 0.0],
        },
    )


def reader(documents):
    """Answers from the first document that it is shown."""
    return REPLIES[documents[0]]


def watched(documents):
    """What the reader is shown, call by call, a list in brackets; None if `annotate` returned nothing."""
    shown = []

    def ask(documents):
        shown.append(documents if isinstance(documents, str) else f"[{', '.join(documents)}]")
        return reader(documents)

    return None if adapters.annotate(ask, documents, ["1829"]) is None else shown


def test_annotate_by_hand():
    expect(
        adapters.annotate(reader, ["b", "a", "d", "c", "a"], ["1829"]),
        [0.0, 1.0, 1.0, 0.0, 1.0],
        asked='annotate(ask, ["b", "a", "d", "c", "a"], ["1829"]), replies 1729, 1829, "1829.", "in 1829", 1829',
        equation=ALONE,
        mistakes={
            "the whole list was shown, or its beginning; a label is of this document alone": [0.0] * 5,
            "a label per distinct document: a document that comes twice has its label twice": [0.0, 1.0, 1.0, 0.0],
            "replies were compared as they stand: use your `label`": [0.0, 1.0, 0.0, 0.0, 1.0],
            "the labels were sorted; they stand in the order of the documents": [1.0, 1.0, 1.0, 0.0, 0.0],
            "the second time a document was taken for wrong": [0.0, 1.0, 1.0, 0.0, 0.0],
            "these are the replies: the label is whether each is right": ["1729", "1829", "1829.", "in 1829", "1829"],
            "one number for the list. Each document has a label": 1.0,
            "the mean for the list. Each document has a label": 0.6,
            "a dict; the labels are wanted in the order of the documents": {"b": 0.0, "a": 1.0, "d": 1.0, "c": 0.0},
        },
    )


def test_annotate_shows_one_document_at_a_time():
    expect(
        watched(["b", "a", "d"]),
        ["[b]", "[a]", "[d]"],
        asked='what annotate(ask, ["b", "a", "d"], answers) shows the reader',
        equation=ALONE,
        mistakes={
            "each time all documents up to this one were shown": ["[b]", "[b, a]", "[b, a, d]"],
            "each time the whole list was shown": ["[b, a, d]"] * 3,
            "the whole list was shown once": ["[b, a, d]"],
            "the text itself was handed over: `ask` takes a list, here of one": ["b", "a", "d"],
            "each time all but this document were shown; that is another method": ["[a, d]", "[b, d]", "[b, a]"],
            "a document was asked about twice": ["[b]", "[b]", "[a]", "[a]", "[d]", "[d]"],
        },
    )


def test_annotate_asks_once():
    expect(
        watched(["b", "a", "b", "b"]),
        ["[b]", "[a]"],
        asked='what annotate(ask, ["b", "a", "b", "b"], answers) shows the reader',
        equation=ALONE + ", the docstring: a document that stands twice is asked about once",
        mistakes={
            "asked anew each time it comes: keep the label of a document, in a dict say": ["[b]", "[a]", "[b]", "[b]"],
            "only neighbours were compared: a document may come again later": ["[b]", "[a]", "[b]"],
            "sorted, or a set: ask in the order of the list": ["[a]", "[b]"],
        },
    )


def test_annotate_of_the_salt():
    [salt] = json.loads((HERE.parent / "data" / "salt.json").read_text(encoding="utf-8"))["questions"]
    article, said = salt["lists"]["article"], salt["replies"]
    expect(
        adapters.annotate(lambda shown: said.get(" ".join(shown), "not recorded"), article, salt["answers"]),
        NUMBERS["annotate"]["salt"],
        asked="annotate(recorded(salt), the six passages of Port Sennick, its answers)",
        equation=ALONE,
        mistakes={"no passage is right: does one of them alone give 1829?": [0.0] * 6},
    )
