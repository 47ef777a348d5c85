"""Built pairs about who, where and what: other names of one thing, countries, people and their kin, places, one of two, lists."""

import random
from functools import partial

import built_words
from built_words import NAMES, Pairs, capital, cast, fill, filled, in_words, often_capital, ordinal, person, place, roman, surname, told

SAID = built_words.wordings("entities")
ALIASES = [  # kind, names, rivals; a name of eight words is put together here: as a whole it would count as a text of a benchmark
    (kind, [fill(name, SAID["parts_of_names"]) for name in names], rivals)
    for kind, entries in SAID["aliases"].items()
    for names, rivals in entries
]
Texts = list[tuple[str, bool]]


# --- names of things -------------------------------------------------------------------------------------------------


def aliases(rng: random.Random, entries: list = ALIASES) -> Pairs:
    """Another name of the same thing; or a name of one that is taken for it.

    entries : kind, the names of one thing, the names of others
    """
    kind, names, rivals = rng.choice(entries)
    question = filled(rng, rng.choice(SAID["alias_questions"][kind]))
    gold, right = rng.sample(names, 2)
    wrong, sentence = rng.choice(rivals), rng.choice(SAID["alias_said"])
    if rng.random() < 0.2:
        ways = SAID["alias_corrected"]
        texts = (rng.choice(ways).format(name=right, other=wrong), rng.choice(ways).format(name=wrong, other=gold))
    else:
        texts = (sentence.format(name=right), sentence.format(name=wrong))
    yield from told(rng, question, gold, zip(texts, (True, False), strict=True), str)


def countries(rng: random.Random) -> Pairs:
    """The country of a city, by any of its names; or a neighbour in the same sentence."""
    gold, names, cities, neighbours = rng.choice(SAID["countries"])
    city = rng.choice(cities)
    question = rng.choice(SAID["country_questions"]).format(city=city)
    wrong, sentence, style, right = rng.choice(neighbours), rng.choice(SAID["country_said"]), rng.random(), rng.choice(names)
    if 0.5 <= style < 0.8:
        sentence = rng.choice(SAID["country_corrected"])
    elif style >= 0.8:
        right = rng.choice([name for name in names if name != gold] or names)
    texts = [(sentence.format(name=right, other=wrong), True), (sentence.format(name=wrong, other=right), False)]
    yield from told(rng, question, gold, texts, str)


# --- people ----------------------------------------------------------------------------------------------------------


def people(rng: random.Random) -> Pairs:
    """A person by another spelling or by a relative; or somebody else of that name, or the relative."""
    question, slots = rng.choice(SAID["who"]), cast(rng)
    sex = rng.choice(("woman", "man"))
    first, last = rng.choice(NAMES[sex]), surname(rng)
    slots |= {"first": first, "last": last, "gold": f"{first} {last}", "sex": sex}
    if (kin := relative(rng, slots)) is None:
        return
    style = rng.random()
    if style < 0.5:
        right, wrong = (rng.choice(SAID[way]).format(**slots, **kin) for way in ("kin_right", "kin_wrong"))
        gold, texts = slots["gold"], [(right, True), (wrong, False)]
    else:
        gold, texts = (spelt if style < 0.75 else ruler if style < 0.9 else elder)(rng, slots)
    yield from told(rng, fill(question, slots), gold, texts, partial(often_capital, rng, share=0.7))


def relative(rng: random.Random, slots: dict) -> dict | None:
    """A relative, pupil or rival of a person: what either is to the other and is called; None if chance gave both one surname."""
    kin, sex, back_of_man, back_of_woman = rng.choice(SAID["kin"])
    family = kin not in ("pupil", "teacher", "assistant", "rival") and rng.random() < 0.75
    first = rng.choice([name for name in NAMES[sex] if name != slots["first"]])
    last = slots["last"] if family else surname(rng)
    if last == slots["last"] and not family:
        return None
    return {
        "kin": kin,
        "back": back_of_man if slots["sex"] == "man" else back_of_woman,
        "relative": f"{first} {last}",
        "called": slots["first"] if family else slots["gold"],
        "relative_called": first if family else f"{first} {last}",
        "their": "his" if slots["sex"] == "man" else "her",
        "relative_their": "his" if sex == "man" else "her",
    }


def spelt(rng: random.Random, slots: dict) -> tuple[str, Texts]:
    """A name with a title, with initials or in part; or one with another first or last name, spelt likewise."""
    first, last = slots["first"], slots["last"]
    other_first = rng.choice([name for name in NAMES["woman"] + NAMES["man"] if name[0] != first[0]])
    titles = ("Miss", "Mr") if slots["sex"] == "woman" else ("Mr", "Miss")
    more = {"other_first": other_first, "other_last": surname(rng), "middle": rng.choice("ABCDEFGHJKLMR")}
    more |= {"letter": first[0], "other_letter": other_first[0], "title": titles[0], "other_title": titles[1]}
    more["longer"] = f"{first} {surname(rng)}-{last}" if rng.random() < 0.2 else f"Professor {last}"
    right, wrong = (rng.choice(SAID[way]).format(**slots, **more) for way in ("spelt_right", "spelt_wrong"))
    return slots["gold"], [(right, True), (wrong, False)]


def ruler(rng: random.Random, slots: dict) -> tuple[str, Texts]:
    """A king, a pope or an emperor by the number in words; or one of that name with another number."""
    number = rng.randint(1, 6)
    gold = rng.choice(SAID["rulers"]).format(number=roman(number), first=slots["first"], place2=slots["place2"])
    step = rng.choice((1, 2))
    they, texts = "he" if slots["sex"] == "man" else "she", []
    for value, same in ((number, True), (number + step if number < 3 else number - step, False)):
        name = {"number": roman(value), "ordinal": ordinal(value), "Ordinal": capital(ordinal(value))}
        texts.append((rng.choice(SAID["ruler_said"]).format(first=slots["first"], they=they, **name), same))
    return gold, texts


def elder(rng: random.Random, slots: dict) -> tuple[str, Texts]:
    """The elder of two people of one name; or the younger."""
    ways = (rng.choice(SAID[way]).format(name=slots["gold"]) for way in ("elder", "elder_said", "younger_said"))
    gold, right, wrong = ways
    return gold, [(right, True), (wrong, False)]


# --- places ----------------------------------------------------------------------------------------------------------


def places(rng: random.Random) -> Pairs:
    """Inside a place; or beside it, in a sentence with the same names."""
    question, slots = rng.choice(SAID["where"]), cast(rng)
    gold, other = place(rng), place(rng)
    if gold == other:
        return
    number = rng.randrange(len(SAID["inside"]))
    slots |= {"name": gold, "other": other, "miles": in_words(rng.randint(2, 30))}
    texts = [(SAID[way][number].format(**slots), way == "inside") for way in ("inside", "outside")]
    yield from told(rng, fill(question, slots), gold, texts)


# --- one of two, and several -----------------------------------------------------------------------------------------


def one_of_two(rng: random.Random) -> Pairs:
    """Two names in a sentence that says which of them it is; or the same sentence with the names exchanged."""
    kind = rng.choice(("who", "where", "where", "what", "generic"))
    sentence = rng.choice(SAID["one_of_two"][kind])
    question, right, wrong = two_names(rng, kind)
    if right == wrong:
        return
    own = {"right": right, "wrong": wrong, "place": place(rng)}
    turned = own | {"right": wrong, "wrong": right}
    yield from told(rng, question, right, [(sentence.format(**own), True), (sentence.format(**turned), False)])
    if rng.random() < 0.3:
        again = rng.choice(SAID["one_of_two"][kind])
        yield None, sentence.format(**own), again.format(**own), True
        yield None, sentence.format(**own), again.format(**turned), False


def two_names(rng: random.Random, kind: str) -> tuple[str, str, str]:
    """A question that asks for a person, a place or a thing, and two that could answer it."""
    if kind == "what":
        wares = rng.choice(SAID["wares"])
        return filled(rng, rng.choice(SAID["what"])), *rng.sample(wares, 2)
    people_asked = kind == "who" or (kind == "generic" and rng.random() < 0.5)
    questions, draw = (SAID["who"], person) if people_asked else (SAID["where"], place)
    return filled(rng, rng.choice(questions)), draw(rng), draw(rng)


def lists(rng: random.Random) -> Pairs:
    """Two or three things in another order; or with one of them exchanged or left out."""
    question, pool = rng.choice(SAID["lists"])
    question, size = filled(rng, question), rng.choice((2, 2, 3))
    if isinstance(pool, str):
        draw = {"persons": person, "places": place}[pool]
        pool = sorted({draw(rng) for _ in range(6)})
    *own, extra = rng.sample(pool, size + 1)
    gold = joined(rng, own)
    mixed = own[:]
    rng.shuffle(mixed)
    right = ways_of_listing(rng, mixed)
    first, *rest = mixed
    right.append(f"{first}, together with {joined(rng, rest)}" if size > 2 else f"{first} together with {rest[0]}")
    right = rng.choice([*right, f"{joined(rng, mixed)}, but not {extra}"])
    *kept, lost = mixed
    exchanged = [*kept, extra]
    wrong = [*ways_of_listing(rng, exchanged), f"{first}, together with {joined(rng, exchanged[1:])}"]
    wrong += [f"{joined(rng, kept) if size > 2 else first} alone, without {lost}", f"{joined(rng, exchanged)}, but not {lost}"]
    yield from told(rng, question, gold, [(right, True), (rng.choice(wrong), False)])


def joined(rng: random.Random, names: list[str]) -> str:
    return rng.choice((", ".join(names[:-1]) + " and " + names[-1], ", ".join(names), " and ".join(names)))


def ways_of_listing(rng: random.Random, names: list[str]) -> list[str]:
    return [joined(rng, names), f"both {names[0]} and {names[1]}" if len(names) == 2 else joined(rng, names)]
