"""What the words of two answers to a question say about whether they mean the same, in numbers that the quick judge weighs."""

import math
import re
import unicodedata
from functools import lru_cache
from itertools import pairwise, repeat, takewhile

from rag_utils.base import checks

UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
CARDINAL = {word: value for value, word in enumerate(UNITS.split())}
CARDINAL |= {word: 10 * ten for ten, word in enumerate(TENS.split(), 2)}
IRREGULAR = dict(one="first", two="second", three="third", five="fifth", eight="eighth", nine="ninth", twelve="twelfth")
ORDINAL = {IRREGULAR.get(word, re.sub("y$", "ie", word) + "th"): value for word, value in CARDINAL.items()}
SCALE = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"]
SHORT_MONTHS = {month[:3]: month for month in MONTHS if month not in ("march", "may")} | {"sept": "september"}
MEASURES = {  # unit -> (base unit, factor, offset)
    **dict.fromkeys(("m", "metre", "meter"), ("metre", 1, 0)),
    **dict.fromkeys(("km", "kilometre", "kilometer"), ("metre", 1000, 0)),
    **dict.fromkeys(("cm", "centimetre", "centimeter"), ("metre", 0.01, 0)),
    **dict.fromkeys(("mm", "millimetre", "millimeter"), ("metre", 0.001, 0)),
    **dict.fromkeys(("kg", "kilogram", "kilo"), ("kilogram", 1, 0)),
    **dict.fromkeys(("g", "gram"), ("kilogram", 0.001, 0)),
    **dict.fromkeys(("t", "tonne"), ("kilogram", 1000, 0)),
    **dict.fromkeys(("c", "celsius", "centigrade"), ("celsius", 1, 0)),
    **dict.fromkeys(("f", "fahrenheit"), ("celsius", 5 / 9, -160 / 9)),
}
COUNTED = "metre kilogram celsius percent century decade year month week day hour minute second mile feet inch yard acre pound ounce dollar"
UNIT_WORDS = frozenset(COUNTED.split())  # what makes another number of the one before it
LETTERS = str.maketrans({"ı": "i", "ł": "l", "ø": "o", "ß": "ss", "æ": "ae", "œ": "oe", "’": "'", "‘": "'", "–": "-", "—": "-", "−": "-"})
ROMAN = re.compile(r"\b(?=[IVX]{2})(X{1,3}(IX|IV|V?I{0,3})|IX|IV|VI{0,3}|I{2,3})\b")
DATE = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-(\d\d)\b")
DATES = re.compile(  # in words of one spelling: "on 4 of july 1776", "july 4 1776", "july 1776", "1776"
    rf"\b(?:(?P<day>\d\d?) (?:of )?)?\b(?P<month>{'|'.join(MONTHS)})\b(?: (?P<later>\d\d?)\b)?(?: (?:of |in )?(?P<year>1\d{{3}}|20\d\d)\b)?"
    r"|\b(?P<alone>1\d{3}|20\d\d)\b(?! (?:metre|kilogram|celsius|percent))"
)
PLAIN_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?")  # more digits than a float holds are left as they are
Words = tuple[str, ...]
WORD = re.compile(r"(?:(?<!\S)-)?\d+(?:\.\d+)?s?|[^\W\d_]+")


def words(text: str) -> tuple[str, ...]:
    """The words of an answer in one spelling, none only if the text is blank; ValueError if it is not a string.

    Lower case, no accents, articles or punctuation; initials joined; numbers in digits, also ordinal, Roman and spelt out; months in full;
    lengths, weights and temperatures in one unit; words that were glued together parted, digits of footnotes dropped.

    >>> words("On July 4th, 1776"), words("Twenty-one"), words("J. K. Rowling's"), words("1.2 km")
    (('on', 'july', '4', '1776'), ('21',), ('jk', 'rowling'), ('1200', 'metre'))
    """
    return _words(checks.text("text", text))


@lru_cache(maxsize=1 << 16)
def _words(text: str) -> tuple[str, ...]:
    spelt = _measured(_numbered(WORD.findall(_plain(text))))
    return tuple(word for word in spelt if word not in ("a", "an", "the")) or tuple(text.casefold().split())


def _plain(text: str) -> str:
    """The text in plain lower case, with what would part one word in two, or glue two together, put right."""
    for pattern, replacement in (
        (r"(?<=[a-z])(?=[A-Z])", " "),  # "inNew York"
        (r"\bU\.?S\.?(A\.?)?(?!\w)|\b[Uu]nited [Ss]tates of [Aa]merica\b", "United States"),
        (r"\bU\.?K\.?(?!\w)", "United Kingdom"),
        (r"\b([A-Z][a-z]+ )I\b", r"\g<1>1"),  # "World War I"
    ):
        text = re.sub(pattern, replacement, text)
    text = ROMAN.sub(_arabic, text)
    text = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    text = re.sub(r"\s+", " ", text.lower().translate(LETTERS))
    text = DATE.sub(lambda date: f"{int(date[3])} {MONTHS[int(date[2]) - 1]} {date[1]}", text)
    for pattern, replacement in (
        (r"(?<=\d),(?=\d{3}(?!\d))", ""),  # 1,200
        (r"(?<=\d)(st|nd|rd|th(?!ou))", " "),  # 4th
        (r"(?<=[a-z]{3})\d{1,3}(?!\w)", " "),  # a footnote: "water12."
        (r"°|\bdegrees? (?=(c|f|celsius|centigrade|fahrenheit)\b)", " "),
        (r"&", " and "),
        (r"%", " percent "),
        (r"n't\b|(?<=\bcan)not\b", " not"),
        (r"'s\b|'", ""),
    ):
        text = re.sub(pattern, replacement, text)
    return re.sub(r"\b[a-z]\.( ?[a-z]\.)+", lambda initials: re.sub(r"[ .]", "", initials[0]) + " ", text)


def _arabic(roman: re.Match) -> str:
    values = [{"I": 1, "V": 5, "X": 10}[letter] for letter in roman[0]]
    return str(sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0], strict=True)))


def _numbered(given: list[str]) -> list[str]:
    """The words with numbers in digits and short months in full."""
    result: list[str] = []
    place, century = 0, 0.0  # the number, 15 to 20 and spelt out, that a year may begin with
    while place < len(given):
        word = given[place]
        number, place = _number_at(given, place)
        if number is None and PLAIN_NUMBER.fullmatch(word):
            result.append(_digits(float(word)))
        elif number is None:
            result.append(SHORT_MONTHS.get(word, word))
        elif century and 10 <= number <= 99:
            result[-1], number = _digits(100 * century + number), None
        else:
            result.append(_digits(number))
        century = number if number and 15 <= number <= 20 and word in CARDINAL else 0.0
    return result


def _number_at(given: list[str], start: int) -> tuple[float | None, int]:
    """The number in words that begins there and where it ends: "two hundred and five" is one number, "seven eight" are two."""
    total = current = 0.0
    place, before = start, ""  # kind of the word before: "unit", "ten" or "scale"
    while place < len(given):
        word, after = given[place], given[place + 1] if place + 1 < len(given) else ""
        value = CARDINAL.get(word, ORDINAL.get(word))
        if value is not None and (before in ("", "scale") or (before == "ten" and 0 < value < 10)):
            current, before = current + value, "ten" if value >= 20 else "unit"
        elif word in SCALE and before:
            if word == "hundred":
                current *= 100
            else:
                total, current = total + current * SCALE[word], 0.0
            before = "scale"
        elif place == start and after in SCALE and (word in ("a", "an") or PLAIN_NUMBER.fullmatch(word)):
            current, before = 1.0 if word in ("a", "an") else float(word), "unit"
        elif not (word == "and" and before == "scale" and after in CARDINAL):
            break
        place += 1
        if word in ORDINAL:
            break
    return (total + current, place) if place > start else (None, start + 1)


def _measured(given: list[str]) -> list[str]:
    """The words with lengths, weights and temperatures in metres, kilograms and degrees Celsius."""
    result: list[str] = []
    for word in given:
        unit = MEASURES.get(word) or MEASURES.get(word.removesuffix("s"))
        if unit and result and PLAIN_NUMBER.fullmatch(result[-1]):
            result[-1] = _digits(round(float(result[-1]) * unit[1] + unit[2], 6))
            word = unit[0]
        result.append(word)
    return result


def _is_number(word: str) -> bool:
    return word.removeprefix("-")[:1].isdecimal()


def _digits(number: float) -> str:
    return str(int(number)) if number.is_integer() else f"{number:.10g}"


EARLY = 12  # words
LITTLE = (
    "a an the of in on at to for from by with and or is was are were be been it its he she they them his her their this that these those "
    "as also there about into which who what when where how did does do has have had s than then"
)
LITTLE_WORDS = frozenset(LITTLE.split())
NEGATIONS = {"not", "no", "never", "none", "nobody", "neither", "nor", "without", "nothing"}
YES = re.compile(r"\W*(yes|yeah|indeed|correct|true|certainly|of course|absolutely)\b", re.IGNORECASE)
NO = re.compile(r"\W*(no|nope|not|incorrect|false|never)\b", re.IGNORECASE)
PLURAL = re.compile(r"(?<=..)(?:ies|(ch|sh|ss|x)es)$")
CERTAIN = re.compile(r"\b(no|without|not a) (doubt|question|trouble|difficulty)\b", re.IGNORECASE)
DENIAL = re.compile(r"n't\b|\b(not|no|never|none|nobody|neither|nor|cannot|without|myth|false|untrue)\b", re.IGNORECASE)
REFUSAL = re.compile(
    r"do(n't| not) (know|have)|no (information|answer|definitive|specific|record|evidence|results)|unable to|as an ai|unclear|unknown|"
    r"not (sure|clear|specified|mentioned|available|possible|known|enough|able)|could(n't| not) find|sorry|more context|insufficient|"
    r"can(not|'t) (find|determine|provide|answer)|provide more",
    re.IGNORECASE,
)
_refusal, _capitals = map(lru_cache(maxsize=1 << 16), (REFUSAL.search, re.compile(r"\b[A-Z]{2,5}\b").findall))
_stems = lru_cache(maxsize=1 << 16)(lambda given: tuple(map(_stem, given)))
_grams = lru_cache(maxsize=1 << 16)(lambda word: frozenset(f"^{word}$"[i : i + 3] for i in range(len(word))))


def compare(question: str, left: str, right: str) -> dict[str, float]:
    """What the words of two answers say about whether they mean the same; equal if the answers change places.

    Where one answer has an abbreviation in capitals of words of the other, these count as that one word. One answer is the shorter: fewer
    words, or where they have as many the first in the alphabet. A word is matched by the most similar word of the other answer
    (`likeness`); content words are those that are neither little words nor in the question, if there are any.

    contained       : 1 if the shorter is a run of words of the longer (spaces aside) and not negated in one of them
    recall          : 0..1, mean over the shorter's content words of how well the longer matches them; precision the other way round
    last_word       : 0..1, the same of the shorter's last content word (a surname, a head noun)
    early           : 0..1, recall within the first 12 content words of the longer
    numbers_missing : 0..1, share of the shorter's numbers, dates and those of the question aside, that the longer has not, or has with
                      another unit
    numbers_differ  : 1 if one is missing and the longer has another that the shorter has not
    dates_agree     : 1 if the longer has all dates of the shorter (year, month and day, or what is said of them)
    dates_coarser   : 1 if it has them all, but one of them with fewer or more of these parts: "July 2017" and "4 July 2017"
    dates_differ    : 1 if it has dates, but for one of the shorter none that shares a part with it and has no other year, month or day
    rival_name      : 1 if part of the shorter is missing in the longer, where a capitalised word stands beside the part that is there
    negation        : 1 if only one of the two holds a negation
    negated         : 1 if a shared content word stands only after a negation in one of them, and not in the other
    polarity        : if the shorter is yes or no: 1 or -1 if the longer says so or the opposite, 0.5 or -0.5 if it only sounds so, and
                      all others but the length are 0
    refusal         : 1 if only one of the two says that it does not know
    log_length      : logarithm of 1 + the number of words of the longer
    raises          : ValueError if an answer is blank or not a string
    source          : this book's own; EVOUNA's answers showed which ones matter
    """
    (_, short, shorter), (_, long, longer) = sorted((len(own := words(text)), own, text) for text in (left, right))
    if not short:
        raise ValueError("left and right must hold at least one word; got a blank text")
    short, long = _abbreviated(short, longer), _abbreviated(long, shorter)
    asked, stems, others = frozenset(_stems(words(question))), _stems(short), _stems(long)
    content, other_content = _content(stems, asked), _content(others, asked)
    negated = _denied(short, asked).isdisjoint(other_content) != _denied(long, asked).isdisjoint(content)
    values = {
        "contained": float(_contained(short, long, stems, others) and not negated),
        "recall": _matched(content, others),
        "precision": _matched(other_content, stems),
        "last_word": _matched(content[-1:], others),
        "early": _matched(content, other_content[:EARLY]),
        **_figures(short, long, asked),
        "rival_name": float(_rival_name(stems, others, longer, asked)),
        "negation": float(bool(NEGATIONS.intersection(short) - asked) != bool(NEGATIONS.intersection(long) - asked)),
        "negated": float(negated),
        "polarity": 0.0,
        "refusal": float(bool(_refusal(shorter)) != bool(_refusal(longer))),
        "log_length": math.log1p(len(long)),
    }
    if short in (("yes",), ("no",)):  # what else the longer says has no word for word counterpart
        said = {"polarity": polarity(shorter) * polarity(longer), "log_length": values["log_length"]}
        return dict.fromkeys(values, 0.0) | said
    return values


@lru_cache(maxsize=1 << 16)
def likeness(left: str, right: str) -> float:
    """How alike two words are: 1 for the same, 0 below a half, and for numbers that are not equal.

    The larger of two shares: of equal letters at the start, if there are at least four; of runs of three letters in common (Dice).

    >>> likeness("colour", "color") > 0.5, likeness("12", "120"), likeness("red", "blue")
    (True, 0.0, 0.0)
    """
    if left == right:
        return 1.0
    if _is_number(left) or _is_number(right) or min(len(left), len(right)) < 3:
        return 0.0
    grams, others = _grams(left), _grams(right)
    share = 2 * len(grams & others) / (len(grams) + len(others))
    if left[:4] == right[:4]:
        start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
        share = max(share, start / max(len(left), len(right)))
    return share if share >= 0.5 else 0.0


def polarity(text: str) -> float:
    """Whether a text says yes (1) or no (-1), or only sounds like it (0.5, -0.5): its first word decides, then whether it denies anything.

    >>> [polarity(text) for text in ("Yes, it is.", "It does.", "It does not.", "No.")]
    [1.0, 0.5, -0.5, -1.0]
    """
    if YES.match(text):
        return 1.0
    if CERTAIN.search(text):
        return 0.5
    if NO.match(text):
        return -1.0
    return -0.5 if DENIAL.search(text) else 0.5


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    """The word without the ending of a plural."""
    stem = PLURAL.sub(lambda ending: ending[1] or "y", word)
    plain = stem == word and len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return stem[:-1] if plain and not _is_number(word) else stem


@lru_cache(maxsize=1 << 16)
def _content(stems: Words, asked: frozenset[str]) -> Words:
    """Stems that are new; if there are none, those that are not little words; if there are none, all."""
    large = tuple(stem for stem in stems if stem not in LITTLE_WORDS and (len(stem) > 1 or _is_number(stem)))
    return tuple(stem for stem in large if stem not in asked) or large or stems


def _abbreviated(given: Words, other: str) -> Words:
    """The words, with those that an abbreviation in the other text stands for as one: "federal bureau of investigation" as "fbi"."""
    result = list(given)
    for short in sorted({*_capitals(other.replace(".", ""))}):
        for start in range(len(result)):
            end, letters = start, ""
            while end < len(result) and len(letters) < len(short):
                letters += "" if letters and result[end] in LITTLE_WORDS else result[end][0]
                end += 1
            if letters == short.lower() and end - start > 1:
                result[start:end] = [letters]
    return tuple(result)


def _matched(wanted: Words, there: Words) -> float:
    best = (1.0 if stem in there else max(map(likeness, repeat(stem), there), default=0.0) for stem in wanted)
    return sum(best) / len(wanted)


def _contained(short: Words, long: Words, stems: Words, others: Words) -> bool:
    run = any(others[start : start + len(stems)] == stems for start in range(len(others) - len(stems) + 1))
    return run or (len("".join(short)) > 3 and "".join(short) in "".join(long))


@lru_cache(maxsize=1 << 16)
def dates(given: Words) -> frozenset[tuple[str, str, str]]:
    """The dates in words of one spelling: year, month and day of each, "" for what it does not say.

    >>> sorted(dates(words("from May 3 to the 4th of July, 1776")))
    [('', 'may', '3'), ('1776', 'july', '4')]
    """
    parts = [(date["year"] or date["alone"], date["month"], date["day"] or date["later"]) for date in DATES.finditer(" ".join(given))]
    return frozenset(tuple(part or "" for part in date) for date in parts if date[0] or date[2] or date[1] not in ("march", "may"))


@lru_cache(maxsize=1 << 16)
def _numbers(given: Words, asked: frozenset[str]) -> set[tuple[str, str]]:
    """The numbers outside of dates that the question does not hold, each with its unit, "" if none is named."""
    pairs = pairwise((*DATES.sub(" ", " ".join(given)).split(), ""))
    return {(word, _stem(after) if _stem(after) in UNIT_WORDS else "") for word, after in pairs if _is_number(word) and word not in asked}


def _figures(short: Words, long: Words, asked: frozenset[str]) -> dict[str, float]:
    """How the numbers and the dates of the shorter answer are found in the longer one."""
    wanted, there = _numbers(short, asked), _numbers(long, asked)
    own, others = dates(short), dates(long)
    missing = {number for number in wanted if not any(fit(number, other) for other in there)}
    rest = any(not any(fit(number, other) for other in wanted) for number in there)
    kept = all(any(fit(date, other) for other in others) for date in own)
    return {
        "numbers_missing": len(missing) / len(wanted) if wanted else 0.0,
        "numbers_differ": float(bool(missing) and rest),
        "dates_agree": float(bool(own) and own <= others),
        "dates_coarser": float(bool(others) and kept and not own <= others),
        "dates_differ": float(bool(others) and not kept),
    }


def fit(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether two dates, or two numbers with their units, have a part that both name, and none in which they differ."""
    both = [a == b for a, b in zip(left, right, strict=True) if a and b]
    return bool(both) and all(both)


def _rival_name(stems: Words, others: Words, longer: str, asked: frozenset[str]) -> bool:
    """Whether a name that the longer answer shares in part goes on otherwise there: "Ann Lee" against "It was Ann Roe"."""
    wanted = _content(stems, frozenset())
    missing = [stem for stem in wanted if _matched((stem,), others) == 0]
    if not missing or len(missing) == len(wanted):
        return False
    names = {_stem(word) for name in re.findall(r"\b(?:[A-Z][\w.]*\s*)+", longer) for word in words(name)}
    beside = {b for pair in pairwise(others) for a, b in (pair, pair[::-1]) if a in wanted}
    return bool(beside & names - set(stems) - asked - LITTLE_WORDS)


@lru_cache(maxsize=1 << 16)
def _denied(given: Words, asked: frozenset[str]) -> set[str]:
    """The stems that stand only after a negation: at most three words before them, and after any "but"."""
    plain, denied = {*NEGATIONS}, set()
    for i, word in enumerate(given):
        near = takewhile(lambda before: before != "but", reversed(given[max(0, i - 3) : i]))
        (denied if NEGATIONS.intersection(near) - asked else plain).add(_stem(word))
    return denied - plain


COMPARED = tuple(compare("", "one", "another"))  # the names of what is compared
