"""What built pairs are made of: wordings from `wordings/`, invented names to fill them with, numbers in words."""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rag_utils.engine.wording import ORDINAL, TENS, UNITS

Pair = tuple[str | None, str, str, bool]  # question, or None for that of the pair before; an answer; another; whether they mean the same
Pairs = Iterator[Pair]
ORDINALS = {value: word for word, value in ORDINAL.items()}
ROMAN = dict(M=1000, CM=900, D=500, CD=400, C=100, XC=90, L=50, XL=40, X=10, IX=9, V=5, IV=4, I=1)


def wordings(name: str) -> dict:
    """The word lists and sentences of `wordings/<name>.json`; `{place}` and the like in them are filled by `fill`."""
    return json.loads((Path(__file__).parent / "wordings" / f"{name}.json").read_text(encoding="utf-8"))


NAMES = wordings("names")


# --- names -----------------------------------------------------------------------------------------------------------


def surname(rng: random.Random) -> str:
    return rng.choice(NAMES["start"]) + rng.choice(NAMES["surname_end"])


def place(rng: random.Random) -> str:
    return rng.choice(NAMES["start"]) + rng.choice(NAMES["place_end"])


def person(rng: random.Random, sex: str | None = None) -> str:
    sex = sex or rng.choice(("woman", "man"))
    return f"{rng.choice(NAMES[sex])} {surname(rng)}"


def cast(rng: random.Random, **given: str) -> dict[str, str]:
    """A name for every slot that a sentence may have, those given before those drawn.

    All are drawn whether they are used or not: a change to one sentence changes nothing in the pairs that come after it.
    """
    drawn = {slot: place(rng) for slot in ("place", "place2", "place3")}
    drawn |= {slot: person(rng) for slot in ("person", "person2")}
    drawn |= {sex: person(rng, sex) for sex in ("man", "woman")}
    drawn |= {slot: surname(rng) for slot in ("surname", "surname2")}
    return drawn | given


def fill(text: str, slots: dict) -> str:
    """The sentence with its slots filled, those that have no value left as they are."""
    for slot, value in slots.items():
        text = text.replace(f"{{{slot}}}", str(value))
    return text


def filled(rng: random.Random, text: str, **given: object) -> str:
    """The sentence with its slots filled with what is given, or with names that are drawn."""
    return fill(text, cast(rng, **given))


# --- sentences -------------------------------------------------------------------------------------------------------


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def asked(rng: random.Random, question: str) -> str:
    """The question as it is, or without its mark, or without capitals either."""
    if rng.random() < 0.4:
        question = question.rstrip("?")
        return question.lower() if rng.random() < 0.8 else question
    return question


def often_capital(rng: random.Random, text: str, *, share: float) -> str:
    """The sentence, in that share of cases with a capital letter."""
    return capital(text) if rng.random() < share else text


def told(rng: random.Random, question: str, gold: str, texts: Iterable[tuple[str, bool]], finish: Callable = capital) -> Pairs:
    """Each text against the one gold that it does or does not agree with; texts may be a generator that draws from the same `rng`.

    finish : text -> text, the last touch
    """
    for number, (text, same) in enumerate(texts):
        yield None if number else asked(rng, question), gold, finish(text), same


# --- numbers ---------------------------------------------------------------------------------------------------------


def in_words(number: int) -> str:
    """A number below a million in words.

    >>> in_words(0), in_words(45), in_words(320), in_words(7013)
    ('zero', 'forty-five', 'three hundred and twenty', 'seven thousand and thirteen')
    """
    if number < 20:
        return UNITS.split()[number]
    if number < 100:
        return ten(number) + (f"-{in_words(number % 10)}" if number % 10 else "")
    scale, name = (100, "hundred") if number < 1000 else (1000, "thousand")
    rest = number % scale
    small = "and " if rest < 100 else ""
    return f"{in_words(number // scale)} {name}" + (f" {small}{in_words(rest)}" if rest else "")


def ten(number: int) -> str:
    """The word for the tens of a number from 20 to 99."""
    return TENS.split()[number // 10 - 2]


def ordinal(number: int) -> str:
    """An ordinal below a hundred in words.

    >>> ordinal(12), ordinal(40), ordinal(43)
    ('twelfth', 'fortieth', 'forty-third')
    """
    return ORDINALS[number] if number in ORDINALS else f"{ten(number)}-{ORDINALS[number % 10]}"


def with_suffix(number: int) -> str:
    """An ordinal in digits.

    >>> with_suffix(1), with_suffix(12), with_suffix(103)
    ('1st', '12th', '103rd')
    """
    suffixes = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}th" if 10 <= number % 100 <= 20 else f"{number}{suffixes.get(number % 10, 'th')}"


def roman(number: int) -> str:
    """A number in Roman numerals.

    >>> roman(1949)
    'MCMXLIX'
    """
    text = ""
    for sign, value in ROMAN.items():
        text += sign * (number // value)
        number %= value
    return text


def near(rng: random.Random, number: int) -> int:
    """Another number from two on that is close to this one, or is easily mistaken for it: doubled, a digit turned, "-teen" for "-ty"."""
    options = {number + 1, number - 1, number + 10, number * 10, number + 2, number - 2, 2 * number}
    if 13 <= number <= 19:
        options.add((number - 10) * 10)
    if number % 10 == 0 and 30 <= number <= 90:
        options.add(number // 10 + 10)
    digits = str(number)
    if len(digits) > 1:
        options |= {int(digits[::-1]), int(digits[1] + digits[0] + digits[2:]), int(digits[:-1])}
    return rng.choice(sorted(option for option in options - {number} if option >= 2))
