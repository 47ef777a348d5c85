"""The report of a run as one page: what the list does for the reader in words, with intervals, in pictures, question by question.

The page asks no host for anything and needs no server. What people or models wrote goes into it as text, never as markup: through
`drawn.tag`, which escapes, or as JSON that the page's script shows by textContent.
"""

import json
import math
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import chain
from pathlib import Path

import pandas as pd

from rag_utils import moi, stats
from rag_utils.base import checks
from rag_utils.base.sealed import replace
from rag_utils.score import drawn
from rag_utils.score.columns import OF_PASSAGES, OF_QUESTIONS, why
from rag_utils.score.drawn import Element, tag

TEMPLATE = Path(__file__).with_name("report.html")
TITLE = "What these passages do for the reader"
LEVEL = 0.05  # of p values, after Holm
DIGITS = 4  # of the numbers behind the table of questions
FEW = 10  # questions, whose spread a percentile bootstrap takes for too small
FAMILIES = {"right": "reply", "seper": "seper", "erag": "erag", "dense": "dense", "ecorag": "ecorag", "moi": "moi"}
FAMILIES |= {"tokens": "ecorag", "compressed": "ecorag", "reordered": "moi"}

# a measure's sentence, clause by clause; a clause is said if the summary has a value for each name in braces
SENTENCES = {
    "reply": (
        "With the list the reader is right in {right with list} of {n} questions",
        ", before in {right before}",
    ),
    "seper": (
        "A passage alone moves the belief in the right answer by {SePer} on average",
        ", the whole list by {SePer of the list}",
    ),
    "erag": (
        "Shown alone, {eRAG P@} of the passages let the reader answer right",
        "; {eRAG Success@} of the questions have such a passage",
    ),
    "dense": (
        "The reply is certain, the same however a passage is said, in {DENSE certain} of the questions",
        "; entropy {DENSE entropy} nats",
    ),
    "ecorag": (
        "Compression keeps {ECoRAG kept} of the sentences",
        ", {tokens compressed} of {tokens} tokens",
        ", and with them the reader is right in {right compressed}",
    ),
    "moi": (
        "Reordered by the passages' utility, the list makes the reader right in {right reordered}",
        "; the order is settled in {MoI identified} of the questions",
    ),
}
MEANINGS = {  # name of the summary, or its beginning -> what it says
    "right before": "exact match without passages",
    "right with list": "exact match with all passages",
    "right compressed": "exact match with the sentences kept",
    "right reordered": "exact match, best passage first",
    "SePer of the list": "belief with all passages less belief without",
    "SePer hard of the list": "the same in clusters of replies",
    "SePer shares of the list": "the same with each reply counted once",
    "SePer hard": "one passage, in clusters of replies",
    "SePer shares": "one passage, each reply counted once",
    "SePer": "belief with one passage less belief without",
    "eRAG P@": "passages that suffice alone",
    "eRAG RR": "1 / rank of the first of them",
    "eRAG nDCG@": "how early they come, discounted by rank",
    "eRAG AP": "how early they come, by precision",
    "eRAG Success@": "questions that have at least one",
    "DENSE certain": "questions whose replies agree",
    "DENSE entropy": "disagreement of replies, lower is better",
    "DENSE necessary": "passages that the reply needs",
    "DENSE unnecessary": "passages that it does without",
    "ECoRAG strong": "passages with a sentence that brings the answer",
    "ECoRAG distractor": "passages whose best sentence misleads",
    "ECoRAG kept": "sentences that compression keeps",
    "tokens compressed": "of the sentences kept",
    "tokens": "of the whole list",
    "MoI identified": "passages whose utility the fit settles",
}
OUTCOMES = {(0, 1): "helped", (1, 0): "hurt", (1, 1): "right both times", (0, 0): "wrong both times"}
WORDS = {
    "erag": ("wrong", "right"),
    "dense_certain": ("uncertain", "certain"),
    "moi_identified": ("not settled", "settled"),
}
WORDS |= dict.fromkeys(("right_before", "right_with_list", "right_compressed", "right_reordered"), ("wrong", "right"))
# column -> label, digits (None: text), signed; in this order, where the scores have it
SEPER = {"seper": "SePer", "seper_hard": "SePer hard", "seper_shares": "SePer shares"}
QUESTION_COLUMNS = {
    "id": ("id", None, False),
    "question": ("question", None, False),
    "outcome": ("what the list did", None, False),
    **{f"{name}_list": (f"{label} of the list", 2, True) for name, label in SEPER.items()},
    **{f"erag_{name}": (f"eRAG {name}", 2, False) for name in ("P@k", "RR", "nDCG@k", "AP", "Success@k")},
    "dense_entropy": ("DENSE entropy, nats", 2, False),
    "dense_certain": ("DENSE", None, False),
    "right_compressed": ("compressed", None, False),
    "right_reordered": ("reordered", None, False),
    "answers": ("answers", None, False),
    "passages": ("passages", 0, False),
    "before": ("reply before", None, False),
    "with_list": ("reply with the list", None, False),
    "compressed": ("reply with the compressed list", None, False),
    "reordered": ("reply with the reordered list", None, False),
    "right_before": ("right before", None, False),
    "right_with_list": ("right with the list", None, False),
    "tokens": ("tokens", 0, False),
    "tokens_compressed": ("tokens compressed", 0, False),
}
LISTED = (
    "id",
    "question",
    "outcome",
    "seper_list",
    "erag_P@k",
    "erag_RR",
    "dense_entropy",
    "right_compressed",
    "right_reordered",
)
PASSAGE_COLUMNS = {
    "rank": ("rank", 0, False),
    "passage": ("passage", None, False),
    "title": ("title", None, False),
    **{name: (label, 2, True) for name, label in SEPER.items()},
    "erag": ("eRAG", None, False),
    "reply": ("reply with it alone", None, False),
    "dense_role": ("DENSE", None, False),
    "ecorag": ("ECoRAG", None, False),
    "ecorag_kept": ("sentences kept", 0, False),
    "sentences": ("of", 0, False),
    "moi": ("MoI utility", 2, True),
    "moi_identified": ("MoI fit", None, False),
    "place": ("reordered", None, False),
    "text": ("text", None, False),
}
REASONS = {column: why(measure) for of in (OF_PASSAGES, OF_QUESTIONS) for measure, own in of.items() for column in own}
REASONS |= {"place": why("moi")}
NO_ANSWERS, NOT_MEASURED = "no answers given", "not measured"


def write(scores, path: str | Path, **told) -> Path:
    """Write the report of `scores`, as `scores.run` returns them, as one HTML file, at once or not at all; the path.

    told   : against, other, changes and title, as in `page`
    raises : as `page`; CacheError if the file cannot be written
    """
    path = Path(path)
    replace(path, page(scores, **told))
    return path


def page(
    scores,
    *,
    against: pd.DataFrame | None = None,
    other: str | None = None,
    changes: Mapping[str, pd.DataFrame] | None = None,
    title: str | None = None,
) -> str:
    """The report as text, the same for the same scores.

    against : what `compare` says of this run and another one; then `other` is that run's name
    changes : beside it, per name of the summary what `changed` says: the questions that differ most
    title   : the heading; TITLE if none is given
    raises  : ValueError for scores without questions, `against` without `other` or the other way round, an empty title
    """
    title = TITLE if title is None else checks.filled("title", title)
    if scores.questions.empty or scores.passages.empty:
        raise ValueError("a report wants at least one question with a passage; got none")
    if (against is None) != (other is None):
        raise ValueError("`against` (what `compare` returns) and `other` (the other run's name) go together; got one of them")
    questions, passages = _with_outcome(scores.questions), _with_places(scores.passages)
    summary, k = scores.summary(), scores.settings["k"]
    data = _data(questions, passages, k)
    parts = {
        "title": drawn.markup([tag("title", title)]),
        "heading": drawn.markup([tag("h1", title), tag("p", _counts(scores), class_="muted"), *_few(scores)]),
        "story": drawn.markup(_story(summary, questions)),
        "summary": drawn.markup([_summary_table(summary, k)]),
        "link": drawn.markup([tag("a", "Comparison", href="#against")] if other else []),
        "against": drawn.markup(_against(against, other) + _changes(changes or {}, questions)),
        "plots": drawn.markup(_plots(questions, passages, k)),
        "missing": drawn.markup(_missing(data)),
        "settings": drawn.markup([tag("dl", *_settings(scores.settings), class_="settings")]),
        "data": json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    parts |= {kind: _digest(re.search(f"<{kind}>(.*?)</{kind}>", template, re.DOTALL)[1]) for kind in ("style", "script")}
    return re.sub(r"<!--(\w+)-->|\{(style|script)\}", lambda slot: parts[slot[1] or slot[2]], template)


def _digest(text: str) -> str:
    """What a Content-Security-Policy allows this very text by."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def family(name: str) -> str:
    """The measure that a name of the summary or a column belongs to, which its mark and colour tell."""
    words = re.split(r"[ _@]", name.lower())
    last = FAMILIES.get(words[-1]) if words[0] in ("right", "tokens") else None
    return last or FAMILIES.get(words[0], "reply")


# --- the first view


def _counts(scores) -> str:
    reader = scores.settings.get("reader", "")
    reader = reader.get("name", "") if isinstance(reader, Mapping) else reader
    parts = [f"{len(scores.questions):,} questions", f"{len(scores.passages):,} passages"]
    return " · ".join([*parts, *([f"reader {reader}"] if reader else []), ", ".join(scores.settings["measures"])])


def few(questions: int) -> str:
    """What to keep in mind of intervals from so few questions; "" of more."""
    hold = "of two they hold the mean of normal values in 50 of 100 cases, of five in 86, of ten in 91"
    return f"Only {questions} questions: 95 % intervals from so few are too narrow; {hold}." if questions <= FEW else ""


def _few(scores) -> list[Element]:
    return [tag("p", said, class_="warning")] if (said := few(len(scores.questions))) else []


def _story(summary: pd.DataFrame, questions: pd.DataFrame) -> list[Element]:
    """A sentence for each measure that has a value."""
    lines = []
    for of, clauses in SENTENCES.items():
        said = [parts for parts in (_clause(clause, summary) for clause in clauses) if parts]
        if of == "reply" and said:
            counts = questions["outcome"].value_counts()
            moved = f": the list helped {counts.get('helped', 0)} and hurt {counts.get('hurt', 0)}"
            said += [[moved]] if counts.size else []
        if said and _clause(clauses[0], summary):
            lines.append(tag("li", drawn.key(of), tag("span", *[part for parts in said for part in parts], ".")))
    if not lines or questions["right_with_list"].isna().all():
        sentence = "Nobody said which answers are right, so the page cannot say whether the list helps."
        lines.insert(0, tag("li", drawn.key("reply"), tag("span", sentence)))
    return lines


def _clause(clause: str, summary: pd.DataFrame) -> list:
    """Texts and elements of a clause; empty if the summary lacks one of its values."""
    parts, first = [], None
    for text, name in re.findall(r"([^{]*)(?:\{([^}]+)\})?", clause):
        parts.append(text)
        if name == "n":
            parts.append(f"{int(first['n']):,}")
        elif name:
            row = next((summary.loc[row] for row in summary.index if row == name or ("@" in name and row.startswith(name))), None)
            if row is None or not math.isfinite(row["value"]):
                return []
            first = row if first is None else first
            parts += _estimate(row, **_form(name))
    return parts


def _form(name: str) -> dict:
    return {"digits": 0 if name.startswith("tokens") else 2, "sign": name.startswith("SePer")}


def _estimate(row: Mapping, **form) -> list:
    """`0.58 [0.50, 0.66]`, the number strong."""
    ends = f" [{drawn.number(row['low'], **form)}, {drawn.number(row['high'], **form)}]"
    known = math.isfinite(row["low"])
    return [tag("strong", drawn.number(row["value"], **form)), tag("span", ends if known else "", class_="ends")]


def _axes(summary: pd.DataFrame, k: int) -> dict[str, tuple]:
    """What rows of the summary are measured in: title -> (whether a name belongs, ends of the axis)."""
    most = [summary.loc[name, "high"] for name in summary.index if name.startswith("tokens")]
    top = max([number for number in most if math.isfinite(number)], default=1.0)
    round_up = 10 ** max(0, math.floor(math.log10(max(top, 1))))
    return {
        "Change of belief, −1 to 1": (lambda name: name.startswith("SePer"), (-1.0, 1.0)),
        f"Entropy in nats, 0 to log {k + 1}": (lambda name: "entropy" in name, (0.0, math.log(k + 1))),
        "Tokens": (lambda name: name.startswith("tokens"), (0.0, float(round_up * math.ceil(top / round_up)))),
    }


def _summary_table(summary: pd.DataFrame, k: int) -> Element:
    """A row per name with its interval in numbers and drawn; rows of one unit stand together, on one axis."""
    axes, groups = _axes(summary, k), {"Share, 0 to 1": []}
    groups |= {title: [] for title in axes}
    for name in sorted(summary.index, key=lambda name: list(SENTENCES).index(family(name))):
        title = next((title for title, (belongs, _) in axes.items() if belongs(name)), "Share, 0 to 1")
        groups[title].append(name)
    bodies = []
    for title, names in groups.items():
        if names:
            axis = axes[title][1] if title in axes else (0.0, 1.0)
            rule = drawn.ruler(axis, 0 if title == "Tokens" else 1)
            head = [
                tag("th", title, scope="rowgroup"),
                tag("td", tag("div", tag("span"), rule, class_="pair")),
                tag("td"),
            ]
            bodies.append(tag("tbody", tag("tr", *head, class_="group"), *[_summary_row(name, summary.loc[name], axis)
                                                                          for name in names]))  # fmt: skip
    heads = [tag("th", text, scope="col") for text in ("measure", "mean [95 % interval]", "questions")]
    return tag("table", tag("thead", tag("tr", *heads)), *bodies, class_="estimates")


def _summary_row(name: str, row: Mapping, axis: tuple[float, float]) -> Element:
    meaning = next((text for start, text in MEANINGS.items() if name == start or ("@" in start and name.startswith(start))), "")
    picture = drawn.interval(row["value"], row["low"], row["high"], axis, family(name))
    label = tag("th", drawn.key(family(name)), tag("span", name, tag("small", meaning)), scope="row")
    both = tag("div", tag("span", *_estimate(row, **_form(name))), picture, class_="pair")
    return tag("tr", label, tag("td", both), tag("td", f"{int(row['n']):,}", class_="n"))


def _against(against: pd.DataFrame | None, other: str | None) -> list[Element]:
    """What differs from the other run, in a sentence and a table; nothing without one."""
    if against is None:
        return []
    clear = against[against["p_holm"] < LEVEL]
    sides = {"higher": clear[clear["value"] > 0], "lower": clear[clear["value"] < 0]}
    said = [f"clearly {side} in {', '.join(rows.index)}" for side, rows in sides.items() if len(rows)]
    sentence = f"Compared with {other}, this run is {' and '.join(said) or 'not clearly different in anything'}."
    rest = "Clear means p below 0.05 after Holm's adjustment for all rows; what is not clear may still differ by less than the smallest."
    notes = [tag("p", sentence, class_="lead"), tag("p", rest, class_="muted")]
    if differs := against.attrs.get("differs"):
        notes.append(tag("p", f"The two runs were not measured alike: {', '.join(differs)}.", class_="warning"))
    heads = ("measure", "this run", "other run", "difference [95 % interval]", "p", "p, Holm", "smallest that would show", "questions")
    rows = [_difference(name, row) for name, row in against.iterrows()]
    table = tag("table", tag("thead", tag("tr", *[tag("th", text, scope="col") for text in heads])), tag("tbody", *rows))
    return [tag("h2", f"Against {other}", id="against"), *notes, _scrolling(table, "Differences from the other run")]


def _changes(changes: Mapping[str, pd.DataFrame], questions: pd.DataFrame) -> list[Element]:
    """Per number the questions that differ most from the other run, each folded."""
    texts, parts = questions.set_index("id")["question"], []
    heads = [tag("th", text, scope="col") for text in ("id", "question", "this run", "other run", "difference")]
    for name, table in changes.items():
        form, rows = _form(name), []
        for question, row in table[table["difference"] != 0].iterrows():
            cells = [tag("td", texts[question], class_="words", dir="auto")]
            cells += [tag("td", drawn.number(row[side], **form), class_="n") for side in ("a", "b")]
            cells.append(tag("td", drawn.number(row["difference"], form["digits"], sign=True), class_="n"))
            rows.append(tag("tr", tag("th", question, scope="row"), *cells))
        if rows:
            shown = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows))
            title = tag("summary", f"Questions that changed most in {name}")
            parts.append(tag("details", title, _scrolling(shown, f"Questions that changed most in {name}")))
    return parts


def _difference(name: str, row: Mapping) -> Element:
    form = _form(name)
    cells = [drawn.number(row[side], **form) for side in ("a", "b")]
    cells += [tag("span", *_estimate(row, digits=form["digits"], sign=True))]
    cells += [drawn.number(row[p], 3) for p in ("p_value", "p_holm")]
    cells += [drawn.number(row["smallest"], form["digits"]), f"{int(row['n']):,}"]
    label = tag("th", tag("span", drawn.key(family(name)), name, class_="line"), scope="row")
    return tag("tr", label, *[tag("td", cell, class_="n") for cell in cells])


def _scrolling(table: Element, label: str) -> Element:
    """A table that scrolls sideways in its own box, which the keyboard reaches."""
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


# --- pictures


def _plots(questions: pd.DataFrame, passages: pd.DataFrame, k: int) -> list[Element]:
    """A figure for each thing measured: of questions, of passages, and of passages by their rank."""
    figures = [_words(questions["outcome"], "What the list did", "reply", OUTCOMES.values(), "questions")]
    figures += [_spread(questions, f"{name}_list", f"{label} of the list", "questions", axis=(-1.0, 1.0))
                for name, label in SEPER.items()]  # fmt: skip
    figures += [_spread(passages, name, f"{label}, one passage", "passages", axis=(-1.0, 1.0)) for name, label in SEPER.items()]
    figures.append(_ranks(passages, "seper", "SePer by rank"))
    figures += [_spread(questions, "erag_P@k", f"eRAG P@{k}", "questions", axis=(0.0, 1.0))]
    figures.append(_ranks(passages, "erag", "eRAG by rank: share that suffices alone"))
    figures.append(_spread(questions, "dense_entropy", "DENSE entropy, nats", "questions", axis=(0.0, math.log(k + 1))))
    roles = ("certain", "necessary", "unnecessary")
    figures.append(_words(passages.get("dense_role"), "DENSE role", "dense", roles, "passages"))
    kinds = ("strong", "weak", "distractor", "undefined")
    figures.append(_words(passages.get("ecorag"), "ECoRAG, best sentence", "ecorag", kinds, "passages"))
    figures.append(_spread(questions, "tokens_compressed", "Tokens after compression", "questions", digits=0))
    figures.append(_spread(passages, "moi", "MoI utility", "passages"))
    figures.append(_ranks(passages, "moi", "MoI utility by rank"))
    return [figure for figure in figures if figure is not None]


def _figure(title: str, of: str, picture: Element, caption: str) -> Element:
    return tag("figure", tag("figcaption", tag("span", drawn.key(of), tag("b", title)), tag("small", caption)), picture)


def _told(column: pd.Series, unit: str) -> str:
    missing = int(column.isna().sum())
    return f"{column.notna().sum():,} {unit}" + (f", {missing:,} missing" if missing else "")


def _spread(table: pd.DataFrame, name: str, title: str, unit: str, **options) -> Element | None:
    if name not in table or table[name].isna().all():
        return None
    values = table[name].dropna().to_numpy(dtype=float)
    return _figure(title, family(name), drawn.histogram(values, family(name), what=title, **options), _told(table[name], unit))


def _words(column: pd.Series | None, title: str, of: str, words: Iterable[str], unit: str) -> Element | None:
    if column is None or column.isna().all():
        return None
    counts = column.value_counts()
    return _figure(title, of, drawn.bars({word: int(counts.get(word, 0)) for word in words}, of, what=title), _told(column, unit))


def _ranks(passages: pd.DataFrame, name: str, title: str) -> Element | None:
    """Means with intervals at the ranks that at least two questions have."""
    if name not in passages:
        return None
    rows = {}
    for rank, values in passages.dropna(subset=[name]).groupby("rank")[name]:
        if len(values) > 1:
            estimate = stats.mean_interval(values)
            rows[int(rank)] = (estimate.value, estimate.low, estimate.high)
    if len(rows) < 2:
        return None
    return _figure(title, family(name), drawn.by_rank(rows, family(name), what=title), "mean and 95 % interval")


# --- question by question


def _with_outcome(questions: pd.DataFrame) -> pd.DataFrame:
    pairs = zip(questions["right_before"], questions["right_with_list"], strict=True)
    return questions.assign(outcome=[OUTCOMES.get(pair) for pair in pairs], answers=questions["answers"].where(questions["answers"] != ""))


def _with_places(passages: pd.DataFrame) -> pd.DataFrame:
    """Where a passage stands after reordering by utility, and how far it moved: "1, up 2"."""
    if "moi" not in passages:
        return passages
    places = pd.Series(index=passages.index, dtype=object)
    for _, rows in passages.groupby("question", sort=False):
        if rows["moi"].notna().all():
            for place, row in enumerate(moi.rerank(rows["moi"].to_numpy()), start=1):
                moved = int(row) + 1 - place
                places[rows.index[row]] = f"{place}" + (f", {'up' if moved > 0 else 'down'} {abs(moved)}" if moved else "")
    return passages.assign(place=places)


def _data(questions: pd.DataFrame, passages: pd.DataFrame, k: int) -> dict:
    """What the table of questions shows: columns, rows, and the reasons of missing values, which a cell names as [number]."""
    reasons = {}
    lacks = {column: NO_ANSWERS for column in ("answers", "outcome", "right_before", "right_with_list")}
    of_questions = _columns(questions, QUESTION_COLUMNS, k)
    rows = _cells(questions, of_questions, reasons, lacks)
    of_passages = _columns(passages, PASSAGE_COLUMNS, k)
    below = dict.fromkeys(questions["id"], ())
    for name, row in zip(passages["question"], _cells(passages, of_passages, reasons, {}), strict=True):
        below[name] = [*below[name], row]
    return {
        "questions": {"columns": of_questions, "rows": rows},
        "passages": {"columns": of_passages, "rows": list(below.values())},
        "outcomes": list(OUTCOMES.values()),
        "reasons": list(reasons),
    }


def _columns(table: pd.DataFrame, known: Mapping[str, tuple], k: int) -> list[dict]:
    return [
        {"name": name, "label": label.replace("@k", f"@{k}"), "digits": digits, "sign": sign, "listed": name in LISTED}
        for name, (label, digits, sign) in known.items()
        if name in table
    ]


def _cells(table: pd.DataFrame, columns: list[dict], reasons: dict[str, int], lacks: Mapping[str, str]) -> list[list]:
    """Rows of numbers and texts; where there is none, [the number of its reason]."""
    cells = []
    for column in columns:
        name, empty = column["name"], [lacks.get(column["name"], NOT_MEASURED)] * len(table)
        given = table[REASONS[name]] if REASONS.get(name) in table else empty
        given = [instead if pd.isna(own) or not own else own for own, instead in zip(given, empty, strict=True)]
        cells.append([
            [reasons.setdefault(reason, len(reasons))] if pd.isna(value) else _cell(value, name, column["digits"], reason)
            for value, reason in zip(table[name], given, strict=True)
        ])  # fmt: skip
    return [list(row) for row in zip(*cells, strict=True)]


def _cell(value, name: str, digits: int | None, reason: str):
    if value == "undefined":
        return f"{value}: {reason}"
    if name in WORDS:
        return WORDS[name][int(value)]
    return str(value) if digits is None else round(float(value), DIGITS) if digits else int(value)


def _missing(data: dict) -> list[Element]:
    """How often a value is missing, and why."""
    counts = Counter()
    for of, rows in (("questions", data["questions"]["rows"]), ("passages", chain.from_iterable(data["passages"]["rows"]))):
        labels = [column["label"] for column in data[of]["columns"]]
        counts.update(
            (of, label, data["reasons"][cell[0]]) for row in rows for label, cell in zip(labels, row, strict=True) if isinstance(cell, list)
        )
    if not counts:
        return [tag("p", "Nothing is missing.")]
    heads = [tag("th", text, scope="col") for text in ("value", "of", "missing", "why")]
    rows = [tag("tr", tag("th", label, scope="row"), tag("td", of), tag("td", f"{count:,}", class_="n"), tag("td", reason))
            for (of, label, reason), count in counts.items()]  # fmt: skip
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows))
    return [_scrolling(table, "Missing values by their reason")]


def _settings(settings: Mapping, before: str = "") -> list[Element]:
    """Names and values, those of a group with the group's name before them."""
    rows = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            rows += _settings(value, f"{before}{name}, ")
        else:
            value = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            rows.append(tag("div", tag("dt", f"{before}{name}"), tag("dd", "–" if value is None else value)))
    return rows
