"""Built pairs about numbers: how many, how much, which in a row. The wrong number is near the right one, or looks like it."""

import random
from collections.abc import Iterator
from functools import partial

from built_words import Pairs, capital, cast, fill, filled, in_words, near, often_capital, ordinal, roman, told, with_suffix, wordings

SAID = wordings("numbers")
EXACT = {int(number): names for number, names in SAID["exact"].items()}  # "a dozen"
ROUND = (6, 12, 20, 24, 36, 40, 50, 100, 144)
TEENS_AND_TENS = (13, 14, 15, 16, 17, 18, 19, 30, 40, 50, 60, 70, 80, 90)
LARGE = (250, 300, 500, 750, 800, 1000, 1200, 1500, 1800, 2000, 2500, 3000, 3400, 4500, 6000, 7500, 12000, 15000, 40000)
SMALL = (0.5, 0.75, 1.2, 1.5, 2, 2.5, 3, 4, 7.5, 12, 0.3)
DEGREES = (0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 65, 70, 80, 85, 95, 100, 150, 200, 300)
DOLLARS = (0.5, 0.25, 1.5, 2, 5, 12, 20, 100, 250, 1500, 2500, 12000, 1.5e6, 2e6)


def either(rng: random.Random, number: int) -> str:
    """The number in digits or in words."""
    return rng.choice((str(number), in_words(number)))


def said(rng: random.Random, number: int) -> str:
    """The number in one of many ways: "36", "thirty-six", "three dozen", "four times nine", "one short of thirty-seven"."""
    ways = [str(number), in_words(number), f"{number:,}", in_words(number), *2 * EXACT.get(number, [])]
    if rng.random() < 0.35 and number > 5:
        ways = sums(number, rng.randint(1, 3))
    return rng.choice(ways)


def sums(number: int, by: int) -> list[str]:
    """The number by way of others: what is `by` more or less, half or twice as much, or goes into it."""
    less, more = in_words(number - by), in_words(number + by)
    few = in_words(by)
    ways = [f"{few} more than {less}", f"{few} fewer than {more}", f"{few} short of {more}"]
    ways += [f"{number - by} and {by} more", f"{number + by} less {by}"]
    if number % 2 == 0:
        ways += [f"twice {in_words(number // 2)}", f"half of {in_words(2 * number)}", f"{number // 2} times two"]
    factors = [factor for factor in (3, 4, 5, 6) if number % factor == 0 and number > factor]
    return ways + [f"{in_words(factor)} times {in_words(number // factor)}" for factor in factors]


# --- how many --------------------------------------------------------------------------------------------------------


def counts(rng: random.Random) -> Pairs:
    """How many there are: the same number in words, as a sum, in two parts or beside another number; or a near one said likewise."""
    question, noun, sentences = rng.choice(SAID["counts"])
    number = counted(rng)
    wrong = near(rng, number)
    slots = cast(rng)
    gold = rng.choice((str(number), in_words(number), f"{in_words(number)} {noun}", f"{number} {noun}"))
    style, sentence = rng.random(), rng.choice(sentences)

    def texts() -> Iterator[tuple[str, bool]]:
        for value, other in ((number, wrong), (wrong, number)):
            text = filled(rng, sentence, **slots)
            yield count_said(rng, text, noun, value, other, style=style), value == number

    yield from told(rng, fill(question, slots), gold, texts(), partial(often_capital, rng, share=0.8))
    numeral = roman(number) if number < 40 and rng.random() < 0.15 else in_words(number)
    yield None, gold, rng.choice((str(number), in_words(number), numeral)), True
    yield None, gold, rng.choice((str(wrong), in_words(wrong), f"{wrong} {noun}")), False


def counted(rng: random.Random) -> int:
    """A number from 2 to 400, mostly a small one, a round one or one that is easily mistaken."""
    ranges = ((2, 20), (2, 20), (13, 99), (30, 400))
    number = rng.choice([*(rng.randint(*each) for each in ranges), rng.randint(1, 9) * 10, rng.choice(ROUND)])
    return rng.choice(TEENS_AND_TENS) if number < 100 and rng.random() < 0.2 else number


def count_said(rng: random.Random, text: str, noun: str, value: int, other: int, *, style: float) -> str:
    """A text that says the value, by its style alone, in two parts, or beside the other number."""
    if style < 0.35:
        return fill(text, {"number": said(rng, value)})
    if style < 0.5:
        return in_two_parts(rng, noun, value)
    if style >= 0.9:
        slots = {"number": value, "word": in_words(value), "other": other, "other_word": in_words(other)}
        return rng.choice(SAID["corrected"]).format(**slots)
    body = fill(text, {"number": either(rng, value)}).rstrip(".")
    if style < 0.7:
        part = other if other < value else max(1, value // 3)
        return f"{body}, {rng.choice(SAID['of_which']).format(other=either(rng, part))}."
    return f"{body}{filled(rng, rng.choice(SAID['beside']), other=either(rng, other))}."


def in_two_parts(rng: random.Random, noun: str, value: int) -> str:
    """The value as a sum of two, each of its own sort."""
    first = rng.randint(1, value - 1)
    second = value - first
    here, there = rng.choice(SAID["parts"])
    ways = [f"{in_words(first)} {here} and {in_words(second)} {there}", f"There are {first} {here} and {second} {there}."]
    ways += [f"{first} {here}, {second} {there}", f"{in_words(first)} {noun} {here}, and another {in_words(second)} {there}"]
    return rng.choice(ways)


# --- how much --------------------------------------------------------------------------------------------------------


def measures(rng: random.Random) -> Pairs:
    """A quantity: the same one in another unit or as a share; or the same figure in another unit, or ten times as much."""
    question, kind, sentences = rng.choice(SAID["measures"])
    slots = cast(rng)
    right, wrong = quantity(rng, kind)
    gold = rng.choice(right)
    sentence = rng.choice([*sentences, "{number}"])
    about = rng.choice(("", "", "", "some ", "about ", "roughly ")) if kind in SAID["units"] else ""
    both = ((rng.choice([way for way in right if way != gold]), True), (rng.choice(wrong), False))

    def texts() -> Iterator[tuple[str, bool]]:
        for way, same in both:
            text = capital(filled(rng, sentence, number=about + way, **slots))
            if rng.random() < 0.12:
                other = rng.choice(wrong) if same else gold
                text = rng.choice(SAID["measure_corrected"]).format(said=way, other=other)
            yield text, same

    yield from told(rng, fill(question, slots), gold, texts(), str)


def quantity(rng: random.Random, kind: str) -> tuple[list[str], list[str]]:
    """Ways of saying one quantity of the kind, and ways of saying another."""
    if kind == "temp":
        return temperature(rng)
    if kind == "money":
        return money(rng)
    if kind in SAID["units"]:
        return in_units(rng, kind)
    return tuple(rng.sample(SAID["shares"] if kind == "share" else rng.choice((SAID["days"], SAID["minutes"])), 2))


def temperature(rng: random.Random) -> tuple[list[str], list[str]]:
    celsius = rng.choice(DEGREES)
    fahrenheit, warmer = (figure(degrees * 9 / 5 + 32) for degrees in (celsius, celsius + 10))
    right = [f"{celsius} °C", f"{celsius} degrees Celsius", f"{fahrenheit} °F", f"{fahrenheit} degrees Fahrenheit"]
    wrong = [f"{celsius} °F", f"{celsius} degrees Fahrenheit", f"{fahrenheit} °C", f"{fahrenheit} degrees Celsius"]
    return right, [*wrong, f"{celsius + 10} °C", f"{warmer} °F"]


def money(rng: random.Random) -> tuple[list[str], list[str]]:
    amount = rng.choice(DOLLARS)
    other = rng.choice((10 * amount, amount / 10, amount * 2))
    return dollars(amount), [*dollars(other), f"{figure(amount)} pounds"]


def dollars(amount: float) -> list[str]:
    ways = [f"{figure(amount)} dollars", f"${figure(amount)}"]
    if amount < 3:
        ways.append(f"{figure(100 * amount)} cents")
    if amount >= 1e6:
        ways.append(f"{figure(amount / 1e6)} million dollars")
    elif amount >= 1000:
        ways.append(f"{figure(amount / 1000)} thousand dollars")
    return ways


def in_units(rng: random.Random, kind: str) -> tuple[list[str], list[str]]:
    """A length, weight or volume in its units; as wrong ones another amount, and the same figures with the units exchanged."""
    units, *small = SAID["units"][kind]
    if small and rng.random() < 0.3:
        units, amount = small[0], rng.choice(SMALL)
    else:
        amount = rng.choice(LARGE)
    right = [in_unit(rng, amount / factor, unit) for unit, factor in units]
    thousandfold = amount / 1000 if amount > 999 else amount * 1000
    other = rng.choice((amount * 10, amount / 10, amount * 100, amount * 2, thousandfold))
    wrong = [in_unit(rng, other / factor, unit) for unit, factor in units]
    exchanged = zip(units, units[::-1], strict=True)
    return right, wrong + [in_unit(rng, amount / factor, unit) for (_, factor), (unit, own) in exchanged if factor != own]


def in_unit(rng: random.Random, amount: float, unit: str) -> str:
    spelt = amount == int(amount) and 0 < amount < 100 and rng.random() < 0.4
    return f"{in_words(int(amount)) if spelt else figure(amount)} {unit}"


def figure(amount: float) -> str:
    """The amount to three decimals, without those that are zero: "1,200" or "0.75"."""
    amount = round(amount, 3)
    return f"{int(amount):,}" if amount == int(amount) else f"{amount:g}"


# --- which in a row --------------------------------------------------------------------------------------------------


def ranks(rng: random.Random) -> Pairs:
    """A place in a row: the same one in words, digits or by its neighbour; or a near one said likewise."""
    question, sentences = rng.choice(SAID["ranks"])
    question = filled(rng, question)
    number = rng.randint(2, 24)
    wrong = near(rng, number) if number > 2 else 3
    wrong = wrong if wrong < 60 else number + 1
    gold = rng.choice((ordinal(number), with_suffix(number), f"the {ordinal(number)}"))
    sentence, by_neighbour = rng.choice(sentences), rng.random() < 0.35

    def texts() -> Iterator[tuple[str, bool]]:
        for value, other in ((number, wrong), (wrong, number)):
            name = rng.choice((with_suffix(value), ordinal(value)))
            if by_neighbour:
                step = rng.choice((-1, 1))
                text = f"the one {'after' if step < 0 else 'before'} the {ordinal(value + step)}"
            else:
                text = sentence.format(ordinal=name, number=rng.choice((str(value), roman(value))))
                text += rng.choice(SAID["rank_beside"]).format(other=ordinal(other)) if rng.random() < 0.3 else ""
            yield text, value == number

    yield from told(rng, question, gold, texts())
