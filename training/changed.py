"""Pairs of answers whose truth is known by how they were made: an accepted answer against itself with one part changed.

    changed(judged)   # judged: `data.load_judged`

Of a gold with one date another year, month or day is made, or the same date is spelt otherwise; of one with one number another number, or
another unit; of a name of two words or more another last one, taken from other questions. What is changed is held against the gold, and
against up to two answers that people found right and that say the unchanged part in their own words. A changed date that another accepted
answer allows is left out. A full date against its month and year, and against its year alone, are made too: nobody can know by
construction whether such a coarser answer is right, so these are counted and never learnt from.
"""

import random
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from rag_utils.data import Contrast, Judged
from rag_utils.engine.wording import MONTHS, dates, fit, words
from rag_utils.judge import question_key

PARTS = ("year", "month", "day")
KIND = dict.fromkeys((*PARTS, "spelling"), "date") | dict.fromkeys(("number", "unit"), "number") | {"name": "name"}
COARSER = ("month and year", "year alone")  # categories without a truth
PATTERN = {
    "year": re.compile(r"\b(1\d{3}|20\d\d)\b"),
    "month": re.compile(rf"\b({'|'.join(MONTHS)})\b", re.IGNORECASE),
    "day": re.compile(r"\b\d\d?(?=(st|nd|rd|th)?\b)"),
}
NUMBER = re.compile(r"(?<![\d.,])\d+(?![\d.,]*\d)")
NAME = re.compile(r"\b[A-Z][a-z]+")
PAIRED_UNITS = "mile kilometre,foot metre,feet metres,million billion,year month,day week,hour minute,pound kilogram,inch centimetre"
OTHER_UNIT = {
    unit + s: other + s for pair in PAIRED_UNITS.split(",") for unit, other in (pair.split(), pair.split()[::-1]) for s in ("", "s")
}
MOST = 2  # answers in people's own words that a changed one is held against
Change = tuple[str, str, Callable[[str], bool]]  # category, the changed answer, whether another answer says the unchanged part only


def changed(judged: Sequence[Judged]) -> list[Contrast]:
    """The pairs of all questions, the same at every call; `category` says what was changed, and " said" against people's words."""
    last_names = sorted({gold.split()[-1] for item in judged for gold in item.golds if is_name(gold)})
    return [pair for item in judged for pair in _pairs(item, last_names)]


def _pairs(item: Judged, last_names: Sequence[str]) -> Iterator[Contrast]:
    rng, number = random.Random(question_key(item.question)), 0
    right = sorted({answer.text for answer in item.answers if answer.verdict})
    taken = {words(gold) for gold in item.golds}

    def pair(left: str, other: str, category: str, truth: bool) -> Contrast:
        nonlocal number
        number += 1
        own = {"question": item.question, "left": left, "right": other, "equivalent": truth}
        return Contrast(id=f"{item.id}:{number}", category=category, split="train", **own)

    for gold in item.golds:
        for category, text, holds in _changes(gold, last_names, rng):
            if category == "spelling" or category in COARSER:
                yield pair(gold, text, category, True)
            elif words(text) not in taken and not _allowed(text, item.golds):
                yield pair(gold, text, category, False)
                for said in [answer for answer in right if holds(answer)][:MOST]:
                    yield pair(text, said, f"{category} said", False)


def _changes(gold: str, last_names: Sequence[str], rng: random.Random) -> list[Change]:
    if len(own := _dates(gold)) == 1:
        return _other_dates(gold, *own, rng)
    if len(NUMBER.findall(gold)) == 1:
        return _other_numbers(gold, rng)
    return _other_name(gold, last_names, rng) if is_name(gold) else []


def _other_dates(gold: str, date: tuple[str, ...], rng: random.Random) -> list[Change]:
    changes = []
    for place, part in enumerate(PARTS):
        hits = list(PATTERN[part].finditer(gold))
        if date[place] and len(hits) == 1:
            text = gold[: hits[0].start()] + _other(part, hits[0][0], rng) + gold[hits[0].end() :]
            changes += [(part, text, partial(_says_part, place, date, other)) for other in _dates(text) - {date}]
    if all(date):
        year, month, day = date
        spelt = f"{month.capitalize()} {day}, {year}" if gold.strip()[0].isdigit() else f"It was on {day} {month.capitalize()} {year}."
        texts = (spelt, f"{month.capitalize()} {year}", year)
        changes += [(name, text, _never) for name, text in zip(("spelling", *COARSER), texts, strict=True)]
    return changes


def _other(part: str, given: str, rng: random.Random) -> str:
    """Another year, month or day than the given one."""
    if part == "year":
        return str(int(given) + rng.choice([-10, -2, -1, 1, 2, 10]))
    if part == "month":
        return rng.choice([month for month in MONTHS if month != given.lower()]).capitalize()
    return str(rng.choice([day for day in range(1, 29) if day != int(given)]))


def _other_numbers(gold: str, rng: random.Random) -> list[Change]:
    hit = NUMBER.search(gold)
    value = int(hit[0])
    new = rng.choice(sorted({value + 1, value - 1, 10 * value, value + 10, 2 * value} - {value, 0, -1}))
    changes = [("number", gold[: hit.start()] + str(new) + gold[hit.end() :], _says(gold, str(new)))]
    for unit in [word for word in re.findall(r"[a-z]+", gold) if word in OTHER_UNIT][:1]:
        changes.append(("unit", re.sub(rf"\b{unit}\b", OTHER_UNIT[unit], gold), _says(gold, OTHER_UNIT[unit])))
    return [change for change in changes if words(change[1]) != words(gold)]


def _other_name(gold: str, last_names: Sequence[str], rng: random.Random) -> list[Change]:
    *first, last = gold.split()
    new = rng.choice(last_names)
    return [("name", " ".join([*first, new]), _says(gold, new))] if new.lower() != last.lower() else []


def is_name(gold: str) -> bool:
    return len(NAME.findall(gold)) >= 2 and not re.search(r"\d", gold) and NAME.fullmatch(gold.split()[-1]) is not None


def _says(gold: str, new: str) -> Callable[[str], bool]:
    """Whether an answer has all words of the gold and not the new one."""
    return lambda said: set(words(gold)) <= set(words(said)) and not set(words(new)) & set(words(said))


def _says_part(place: int, date: tuple[str, ...], other: tuple[str, ...], said: str) -> bool:
    """Whether an answer has that part of the one date and not of the other."""
    parts = {each[place] for each in _dates(said)}
    return date[place] in parts and other[place] not in parts


def _never(said: str) -> bool:
    return False


def _dates(text: str) -> set[tuple[str, ...]]:
    return dates(words(text))


def _allowed(text: str, golds: Sequence[str]) -> bool:
    """Whether the dates of a changed answer fit those of an accepted one."""
    return any(fit(date, other) for date in _dates(text) for gold in golds for other in _dates(gold))


def by_precision(judged: Sequence[Judged]) -> dict[str, dict[str, int]]:
    """How people judged answers with dates to questions whose golds are dates: the same date as a gold, one that is coarser or finer
    (fewer or more of year, month and day, none other), or another; in each case how many there are and how many they found right.
    """
    counts = {name: {"n": 0, "right": 0} for name in ("same", "finer", "coarser", "other")}
    for item in judged:
        wanted = [date for gold in item.golds for date in _dates(gold)]
        for answer in item.answers:
            said = _dates(answer.text) if answer.text.strip() else ()
            if wanted and said and answer.verdict is not None:
                row = counts[_precision(wanted, said)]
                row["n"] += 1
                row["right"] += int(answer.verdict)
    return counts


def _precision(wanted: Sequence[tuple[str, ...]], said: Collection[tuple[str, ...]]) -> str:
    if set(wanted) & set(said):
        return "same"
    more = [sum(map(bool, other)) - sum(map(bool, date)) for date in wanted for other in said if fit(date, other)]
    return "other" if not more else "coarser" if max(more) < 0 else "finer"
