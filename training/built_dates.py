"""Built pairs about time: dates, years, decades and centuries, feasts, months, days of the week, the time of day."""

import random
from collections.abc import Callable, Iterator
from functools import partial

from built_words import Pairs, asked, capital, cast, fill, filled, in_words, often_capital, ordinal, roman, ten, told, with_suffix, wordings

from rag_utils.engine import wording

SAID = wordings("dates")
MONTHS = [month.capitalize() for month in wording.MONTHS]
DAYS_IN = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
WEEK = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
FEASTS = {name: (month, day) for name, month, day in SAID["feasts"]}
TIMES = [(hour, minute) for hour in range(24) for minute in (0, 15, 30, 45)]
YEAR_STYLES = ("in", "year", "season", "by another", "after", "by another", "words", "roman")
Date = tuple[int, int, int]  # year, month from 0, day from 1


# --- dates -----------------------------------------------------------------------------------------------------------


def spellings(year: int, month: int, day: int) -> list[str]:
    """Nine spellings of a date; month from 0."""
    name = MONTHS[month]
    plain = [f"{day} {name} {year}", f"{name} {day}, {year}", f"{name} {with_suffix(day)}, {year}", f"{year}-{month + 1:02d}-{day:02d}"]
    spelt = [f"the {with_suffix(day)} of {name} {year}", f"the {ordinal(day)} of {name}, {year}"]
    short = [f"{day} {name[:3]} {year}", f"{name[:3]}. {day}, {year}"]
    return plain + spelt + short + [f"{day}.{month + 1}.{year}" if day > 12 else f"{day} {name}, {year}"]


def plain_spelling(rng: random.Random, date: Date) -> str:
    return rng.choice(spellings(*date)[:4])


def other_date(rng: random.Random, year: int, month: int, day: int) -> Date:
    """A date with another year (perhaps its last digits turned), another month or another day; rarely the same one."""
    part = rng.random()
    if part < 0.35:
        year += rng.choice((-10, -1, 1, 10, 100, -100))
        digits = str(year)
        if rng.random() < 0.3 and len(set(digits)) > 2:
            year = int(digits[:2] + digits[3] + digits[2])
    elif part < 0.65:
        month = rng.choice([other for other in range(12) if other != month])
        day = min(day, DAYS_IN[month])
    else:
        day = rng.choice([other for other in range(1, 29) if other != day])
    return year, month, day


def dates(rng: random.Random) -> Pairs:
    """When something happened: the same date spelt otherwise, counted from a day near it or beside another; or another, said likewise."""
    question, sentences = rng.choice(SAID["events"])
    slots = cast(rng)
    year, month = rng.randint(1650, 2015), rng.randrange(12)
    date = (year, month, rng.randint(1, DAYS_IN[month]))
    wrong = other_date(rng, *date)
    if wrong == date:
        return
    gold = plain_spelling(rng, date)
    sentence, style = rng.choice([*sentences, "{date}", "{date}"]), rng.random()

    def texts() -> Iterator[tuple[str, bool]]:
        for own, other in ((date, wrong), (wrong, date)):
            yield date_said(rng, sentence, slots, own, other, style=style), own == date

    yield from told(rng, fill(question, slots), gold, texts())


def date_said(rng: random.Random, sentence: str, slots: dict, own: Date, other: Date, *, style: float) -> str:
    """A sentence that says one date, by its style from a day near it, or beside another."""
    bare = sentence == "{date}"
    spelt, beside = rng.choice(spellings(*own)), rng.choice(spellings(*other))
    if style < 0.15 and 2 < own[2] < 28:
        near = from_near(rng, own)
        return near if bare else filled(rng, sentence, date=near, **slots)
    if 0.45 <= style < 0.6:
        return rng.choice(SAID["date_corrected"]).format(date=spelt, other=beside)
    text = filled(rng, sentence, date=spelt if bare else f"on {spelt}", **slots)
    if 0.15 <= style < 0.45:
        return f"{text.rstrip('.')}; {rng.choice(SAID['other_events']).format(date=f'on {beside}')}."
    return text


def from_near(rng: random.Random, date: Date) -> str:
    """A date in the middle of a month by way of one a day or two away."""
    year, month, day = date
    step, name = rng.choice(((-1, "the day after"), (1, "the day before"), (2, "two days before")))
    return f"{name} {plain_spelling(rng, (year, month, day + step))}"


# --- years -----------------------------------------------------------------------------------------------------------


def years(rng: random.Random) -> Pairs:
    """In which year: the same one in words, in Roman numerals, counted from another; or one near it or like it, said likewise."""
    question, sentences = rng.choice(SAID["events"])
    slots = cast(rng)
    year = rng.randint(1620, 2015)
    wrong = other_year(rng, year)
    gold = rng.choice((str(year), f"in {year}", f"the year {year}"))
    sentence, style = rng.choice([*sentences, "{date}"]), rng.choice(YEAR_STYLES)
    season = rng.choice(SAID["seasons"])

    def texts() -> Iterator[tuple[str, bool]]:
        for own, other in ((year, wrong), (wrong, year)):
            date = year_said(rng, own, season)[style]
            text = filled(rng, sentence, date=date, **slots)
            if rng.random() < 0.3:
                text = f"{text.rstrip('.')}; {rng.choice(SAID['other_events']).format(date=f'in {other}')}."
            elif rng.random() < 0.15:
                text = rng.choice(SAID["year_corrected"]).format(date=date, Date=capital(date), other=other)
            yield text, own == year

    yield from told(rng, fill(question, slots), gold, texts(), partial(often_capital, rng, share=0.8))


def other_year(rng: random.Random, year: int) -> int:
    """A year with two digits exchanged, or one, ten or a hundred years away."""
    digits = str(year)
    options = [int(digits[:2] + digits[3] + digits[2]), int(digits[0] + digits[2] + digits[1] + digits[3])]
    options += [year + 1, year - 1, year + 10, year - 10, year + 100, year - 100]
    return rng.choice([option for option in options if option != year and 1000 < option < 2030])


def year_said(rng: random.Random, year: int, season: str) -> dict[str, str]:
    """A year in every style; the draws are the same whichever is used."""
    years = rng.randint(1, 5)
    span = f"{in_words(years)} year{'s' * (years > 1)}"
    others = [f"{span} after {year - years}", f"{span} before {year + years}"]
    others += [f"in the year before {year + 1}", f"in the year after {year - 1}", f"a decade after {year - 10}"]
    others += [f"a century before {year + 100}", f"ten years later than {year - 10}"]
    century, rest = in_words(year // 100), year % 100
    return {
        "in": f"in {year}",
        "year": f"in the year {year}",
        "season": f"in {season} {year}" if season in MONTHS else f"in the {season} of {year}",
        "by another": rng.choice(others),
        "after": f"in {year}, {in_words(years)} years after {rng.choice(SAID['before'])} of {year - years}",
        "words": f"in {century} {'hundred' * (rest < 10)}{' and ' * (0 < rest < 10)}{in_words(rest) if rest else ''}",
        "roman": f"in {roman(year)}",
    }


# --- decades and centuries -------------------------------------------------------------------------------------------


def spans(rng: random.Random) -> Pairs:
    """In which decade or century: the same one in words or by years inside it; or the one before or after it, said likewise."""
    question = filled(rng, rng.choice(SAID["decades"]))
    if rng.random() < 0.5:
        ways, span = decade, 10 * rng.randint(165, 201)
        wrong = rng.choice((span + 10, span - 10, span + 100, span - 100))
        gold = rng.choice((f"the {span}s", f"{span}s", f"in the {span}s"))
        number = rng.randrange(len(decade(rng, 1820)))
    else:
        question = filled(rng, rng.choice(SAID["centuries"]))
        ways, span = century, rng.randint(6, 20)
        wrong = rng.choice((span + 1, span - 1))
        gold = rng.choice((f"the {ordinal(span)} century", f"{with_suffix(span)} century", f"in the {with_suffix(span)} century"))
        number = rng.randrange(12)

    def texts() -> Iterator[tuple[str, bool]]:
        for own, other in ((span, wrong), (wrong, span)):
            yield span_said(rng, ways, number, own, other), own == span

    yield from told(rng, question, gold, texts())


def span_said(rng: random.Random, ways: Callable, number: int, own: int, other: int) -> str:
    """A sentence that says one span in the way of that number, sometimes that it is not the other."""
    own_ways = ways(rng, own)
    date = own_ways[number % len(own_ways)]
    last = "It goes back to a time {date}." if date.startswith("between") else "All agree that it was {date}."
    text = rng.choice([*SAID["span_said"], last]).format(date=date)
    if rng.random() < 0.2:
        other_ways = ways(rng, other)
        text = f"{text.rstrip('.')}, not {other_ways[number % len(other_ways)]}."
    return text


def decade(rng: random.Random, first: int) -> list[str]:
    """Ways of saying the decade that starts in that year, or a time inside it."""
    ways = [f"between {first} and {first + 9}", f"in {first + rng.randint(1, 8)}", f"at some time from {first} to {first + 9}"]
    ways += [f"in the middle of the {first}s", f"in the late {first}s", f"early in the {first}s"]
    ways += [f"in {rng.choice(MONTHS)} {first + rng.randint(1, 8)}", f"not before {first} and not after {first + 9}"]
    ways += [f"in the ten years that began with {first}"]
    if first % 100 > 10:
        tens = ten(first % 100)[:-1] + "ies"
        ways += [f"in the {tens} of the {ordinal(first // 100 + 1)} century", f"in the {in_words(first // 100)} {tens}"]
    return ways


def century(rng: random.Random, number: int) -> list[str]:
    """Ways of saying the century of that number, or a time inside it."""
    start = 100 * (number - 1)
    ways = [f"in the {start}s", f"in {start + rng.randint(1, 99)}", f"between {start + 1} and {start + 100}"]
    ways += [f"in the {with_suffix(number)} century", f"in the {ordinal(number)} century", f"around {start + rng.randint(20, 80)}"]
    ways += [f"late in the {start}s", f"about the middle of the {start}s", f"in the hundred years before {start + 101}"]
    ways += [f"some time after {start + rng.randint(10, 40)} and before {start + rng.randint(60, 90)}"]
    return [*ways, f"in {rng.choice(MONTHS)} {start + rng.randint(5, 95)}", f"in the {roman(number)}th century"]


# --- the calendar and the clock --------------------------------------------------------------------------------------


def calendar(rng: random.Random) -> Pairs:
    """A time of day, a day of the year, a month or a day of the week: the same one by another name or by its neighbour; or another one."""
    part = rng.random()
    kind = "times" if part < 0.3 else "days" if part < 0.6 else "months" if part < 0.8 else "weekdays"
    if (drawn := CALENDAR[kind](rng)) is None:
        return
    question, gold, right, wrong = drawn
    sentence = rng.choice(SAID[kind][1])

    def now(text: str, date: str, other: str = "") -> str:
        return capital(text.format(date=date, other=other))

    yield asked(rng, question), gold, now(sentence, rng.choice([way for way in right if way != gold])), True
    yield None, gold, now(sentence, rng.choice([way for way in wrong if way != gold])), False
    yield None, gold, now(rng.choice(SAID["not_but"]), rng.choice(right), rng.choice(wrong)), True
    yield None, gold, now(rng.choice(SAID["not_but"]), rng.choice(wrong), gold), False


Drawn = tuple[str, str, list[str], list[str]]  # question, gold, ways of saying it, ways of saying another


def calendar_question(rng: random.Random, kind: str) -> str:
    return filled(rng, rng.choice(SAID[kind][0]))


def times(rng: random.Random) -> Drawn:
    """A time of day against one twelve hours, an hour or some quarters away."""
    question = calendar_question(rng, "times")
    hour, minute = rng.choice(TIMES)
    quarters = rng.choice([other for other in (0, 15, 30, 45) if other != minute])
    wrong = rng.choice((((hour + 12) % 24, minute), ((hour + 1) % 24, minute), (hour, quarters)))
    right = clock(hour, minute)
    return question, rng.choice(right), right, clock(*wrong)


def clock(hour: int, minute: int) -> list[str]:
    """Ways of saying a time that is a whole number of quarters."""
    if (hour, minute) == (12, 0):
        return ["noon", "12:00", "midday", "at twelve in the daytime"]
    if (hour, minute) == (0, 0):
        return ["midnight", "00:00", "twelve at night"]
    half, following = (hour - 1) % 12 + 1, hour % 12 + 1
    part = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    name, coming = in_words(half), in_words(following)
    spoken = {
        0: [f"{name} o'clock {part}", f"{half} {'a.m.' if hour < 12 else 'p.m.'}"],
        15: [f"a quarter past {name} {part}"],
        30: [f"half past {name} {part}", f"half an hour after {name} {part}"],
        45: [f"a quarter to {coming} {part}"],
    }
    return [f"{hour:02d}:{minute:02d}", f"{half}:{minute:02d} {'am' if hour < 12 else 'pm'}", *spoken[minute]]


def days(rng: random.Random) -> Drawn | None:
    """A feast by its date or its neighbours against another day; None if chance has drawn the same one."""
    name = rng.choice(list(FEASTS))
    month, day = FEASTS[name]
    question = calendar_question(rng, "days")
    later = ((month + rng.randint(1, 11)) % 12, min(day, 28))
    wrong = rng.choice(((month, day % 27 + 1), later, rng.choice(list(FEASTS.values()))))
    if wrong == (month, day):
        return None
    right = day_said(month, day)
    return question, rng.choice([*right[:3], name]), right, day_said(*wrong)


def day_said(month: int, day: int) -> list[str]:
    """Ways of saying a day of the year, month from 0: its date, its feast, the days and feasts around it."""
    name, last = MONTHS[month], DAYS_IN[month]
    ways = [f"{day} {name}", f"{name} {with_suffix(day)}", f"the {ordinal(day)} of {name}", *2 * feasts_on(month, day)]
    if day == last:
        ways += [f"the last day of {name}", f"the day before 1 {MONTHS[(month + 1) % 12]}"]
    if day == 1:
        ways += [f"the first day of {name}", f"the day after {DAYS_IN[month - 1]} {MONTHS[month - 1]}"]
    else:
        ways += [f"the day after {day - 1} {name}"]
    if day + 7 <= last:
        ways += [f"a week before {day + 7} {name}"]
    ways += [f"the day before {feast}" for feast in feasts_on(month, day + 1)]
    return ways + [f"the day after {feast}" for feast in feasts_on(month, day - 1)]


def feasts_on(month: int, day: int) -> list[str]:
    return [name for name, date in FEASTS.items() if date == (month, day)]


def months(rng: random.Random) -> Drawn:
    """A month by its number or its neighbours against one that is one, two or six away."""
    question = calendar_question(rng, "months")
    month = rng.randrange(12)
    other = (month + rng.choice((1, 2, 11, 10, 6))) % 12
    return question, MONTHS[month], month_said(month), month_said(other)


def month_said(month: int) -> list[str]:
    before, name, after = (MONTHS[(month + step) % 12] for step in (-1, 0, 1))
    around = [f"the month after {before}", f"the month before {after}", f"between {before} and {after}"]
    return [name, f"in {name}", f"the {ordinal(month + 1)} month of the year", *around]


def weekdays(rng: random.Random) -> Drawn:
    """A day of the week by its place or its neighbours against one that is one or two away."""
    question = calendar_question(rng, "weekdays")
    day = rng.randrange(7)
    other = (day + rng.choice((1, 2, 5, 6))) % 7
    return question, WEEK[day], weekday_said(day), weekday_said(other)


def weekday_said(day: int) -> list[str]:
    special = {0: ["the first working day of the week"], 2: ["the middle of the working week"], 6: ["the last day of the week"]}
    around = [f"the day after {WEEK[day - 1]}", f"the day before {WEEK[(day + 1) % 7]}", f"two days after {WEEK[day - 2]}"]
    return [WEEK[day], f"on {WEEK[day]}s", *around, *special.get(day, [])]


CALENDAR = {"times": times, "days": days, "months": months, "weekdays": weekdays}
