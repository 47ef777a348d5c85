"""Built pairs about what is said: yes or no in other words, opposites, comparisons, one meaning in several wordings, causes."""

import random
from collections.abc import Iterator
from functools import partial

from built_words import Pairs, asked, capital, cast, fill, filled, person, told, wordings

SAID = wordings("meanings")
YES_NO = wordings("yes_no")


# --- sentences -------------------------------------------------------------------------------------------------------


def small(text: str, *more: str) -> str:
    """The sentence as it goes on after another: its first letter small where it begins with a word of `openings`, or one of these more."""
    return text[0].lower() + text[1:] if text.split()[0] in (*SAID["openings"], *more) else text


def clause(text: str) -> str:
    """The sentence in the middle of another: small at the start, without its full stop."""
    return text[0].lower() + text[1:].rstrip(".")


def dressed(rng: random.Random, text: str) -> str:
    """The sentence with words before or after it that say nothing, or without its full stop, or in most cases as it is."""
    part, long = rng.random(), len(text.split()) > 3
    if part < 0.1 and long and text.endswith("."):
        return f"{text[:-1]}{rng.choice(SAID['tails'])}."
    if part < 0.25 and long:
        return rng.choice(SAID["heads"]) + small(text, "On", "None")
    return text.rstrip(".") if part < 0.33 else text


def both(sentence: str, own: str, other: str) -> str:
    """A sentence that holds two clauses, which start with a capital letter where the sentence wants it."""
    return sentence.format(own=own, Own=capital(own), other=other, Other=capital(other))


# --- yes or no -------------------------------------------------------------------------------------------------------


def yes_no(rng: random.Random) -> Pairs:
    """Yes or no: a statement that says so without the word, with it, or against what is believed; or one that says the opposite."""
    if rng.random() < 0.25:
        question, yes, no = rng.choice(YES_NO["facts"])
        slots = {}
    else:
        question, yes, no = rng.choice(YES_NO["questions"])
        slots = cast(rng, person=person(rng, "man"))
    truth = rng.random() < 0.5
    gold = rng.choice(("yes", "Yes") if truth else ("no", "No"))
    style = rng.random()

    def texts() -> Iterator[tuple[str, bool]]:
        for same in (True, False):
            says_yes = truth == same
            statement, contrary = (rng.choice(ways) for ways in ((yes, no) if says_yes else (no, yes)))
            statement, contrary = (filled(rng, text, **slots) for text in (statement, contrary))
            yield verdict_said(rng, statement, contrary, says_yes=says_yes, style=style), same

    yield from told(rng, fill(question, slots), gold, texts(), partial(dressed, rng))
    first = rng.choice(yes)
    like, unlike = rng.choice([text for text in yes if text != first]), rng.choice(no)
    for other in (like, unlike):
        yield None, filled(rng, first, **slots), filled(rng, other, **slots), other is like


def verdict_said(rng: random.Random, statement: str, contrary: str, *, says_yes: bool, style: float) -> str:
    """A statement that says yes or no, by its style alone, after the word, in general terms or against the contrary."""
    word, general = ("Yes", "yes") if says_yes else ("No", "no")
    own = small(statement, "Each", "People")
    if style < 0.4:
        return statement
    if style < 0.55:
        return f"{word}, {own}" if rng.random() < 0.6 else f"{word}{rng.choice(YES_NO['softened'])}."
    if style < 0.7:
        return rng.choice(YES_NO[general])
    if style < 0.85:
        believed = small(contrary, "Each", "People").rstrip(".")
        return rng.choice(YES_NO["believed"]).format(contrary=believed, statement=own)
    return f"{rng.choice(YES_NO[general]).rstrip('.')}: {own}"


# --- opposites and comparisons ---------------------------------------------------------------------------------------


def positive(rng: random.Random, adjective: str) -> str:
    return rng.choice(SAID["positive"]).format(adjective=adjective)


def negative(rng: random.Random, adjective: str) -> str:
    return rng.choice(SAID["negative"]).format(adjective=adjective)


def adjectives(rng: random.Random) -> Pairs:
    """What something is like: the same by its opposite denied; or the opposite by the thing itself denied, in a like sentence."""
    own, other, things = rng.choice(SAID["adjectives"])
    if rng.random() < 0.5:
        own, other = other, own
    question = filled(rng, rng.choice(SAID["adjective_questions"]), thing=rng.choice(things))
    denied = rng.random() < 0.3
    gold = negative(rng, other) if denied else positive(rng, own)
    yield from told(rng, question, gold, adjectives_said(rng, own, other, denied=denied), partial(dressed, rng))


def adjectives_said(rng: random.Random, own: str, other: str, *, denied: bool) -> list[tuple[str, bool]]:
    """Sentences that mean the one adjective, marked true, or the other.

    denied : whether the gold denies the other adjective, so that an answer does best to affirm the one
    """
    if rng.random() < 0.45:
        say, right, wrong = (positive, own, other) if denied else (negative, other, own)
        return [(say(rng, right), True), (say(rng, wrong), False)]
    if rng.random() < 0.5:
        ways = SAID["one_not_other"]
    elif rng.random() < 0.5:
        affirmed = [(positive(rng, own), True), (positive(rng, other), False)]
        return [*affirmed, (f"It was not {own}.", False), (f"It was not {other}.", True)]
    else:
        ways = SAID["denied"]
    right = rng.choice(ways).format(adjective=own, other=other)
    return [(right, True), (rng.choice(ways).format(adjective=other, other=own), False)]


def comparisons(rng: random.Random) -> Pairs:
    """Which of two is more so: the same comparison turned round; or the opposite one, or that they are alike."""
    adjective, more, things = rng.choice(SAID["compared"])
    first, second = rng.sample(things, 2)
    said = SAID["comparisons"]
    slots = {"adjective": adjective, "more": more, "first": first, "second": second}
    turned = slots | {"first": second, "second": first}
    question = rng.choice(said["questions"]).format(**slots)
    ahead, behind = ([text.format(**own) for text in said["ahead"]] for own in (slots, turned))
    level = [text.format(**slots) for text in said["level"]]
    short = [[first], [second], ["neither"]]
    if question.startswith("how"):
        short = [[text.format(**slots) for text in ways] for ways in said["how"]]
    outcomes = [[*ways, *brief] for ways, brief in zip((ahead, behind, level), short, strict=True)]
    outcomes = outcomes if rng.random() < 0.4 else outcomes[:2]
    rng.shuffle(outcomes)
    gold, like = rng.sample(outcomes[0], 2)
    yield asked(rng, question), gold, like, True
    yield None, gold, rng.choice(outcomes[1]), False
    if rng.random() < 0.3:
        no_less, no_more = ([text.format(**slots) for text in said[way]] for way in ("no_less", "no_more"))
        contraries = ((rng.choice(behind[:3]), no_less[0]), (rng.choice(ahead[:3]), no_more[0]))
        yield None, *rng.choice(contraries), False
        yield None, *rng.choice((no_less, no_more)), True


# --- wordings and causes ---------------------------------------------------------------------------------------------


def groups(rng: random.Random) -> Pairs:
    """What happened, how or to whom: the same in another wording; or one of the other outcomes, in a wording of its own."""
    question, meanings = rng.choice(SAID["groups"])
    slots = cast(rng, person=person(rng, "man"))
    own, others = ([filled(rng, text, **slots) for text in ways] for ways in rng.sample(meanings, 2))
    gold, right = rng.sample(own, 2)
    wrong = rng.choice(others)
    names = (slots["surname"], slots["person"].split()[0], slots["place"])

    def inner(text: str) -> str:
        return text.rstrip(".") if text.split()[0] in names else clause(text)

    if rng.random() < 0.2:
        sentence = rng.choice(SAID["rumours"])
        right, wrong = (both(sentence, inner(text), inner(other)) for text, other in ((right, wrong), (wrong, right)))
    yield from told(rng, fill(question, slots), gold, ((right, True), (wrong, False)), partial(dressed, rng))


def causes(rng: random.Random) -> Pairs:
    """Why it happened: the same cause told at length, alone or beside one that it was not; or the other way round."""
    question, pool = rng.choice(SAID["causes"])
    slots = cast(rng, person=person(rng, "man"))
    (gold, *longer), (other, *other_longer) = ([filled(rng, text, **slots) for text in ways] for ways in rng.sample(pool, 2))
    style, right, wrong = rng.random(), rng.choice(longer), rng.choice(other_longer)
    if style < 0.35:
        texts = (right, wrong)
    elif style < 0.75:
        texts = one_and_not_the_other(rng, "not_the_cause", right, wrong)
    else:
        texts = one_and_not_the_other(rng, "short_causes", gold, other)
        gold = right if rng.random() < 0.5 else gold
    yield from told(rng, fill(question, slots), gold, zip(texts, (True, False), strict=True), partial(dressed, rng))


def one_and_not_the_other(rng: random.Random, kind: str, right: str, wrong: str) -> tuple[str, str]:
    """One sentence of the kind with both causes in it, for the right one and for the wrong one."""
    sentence, right, wrong = rng.choice(SAID[kind]), clause(right), clause(wrong)
    return both(sentence, right, wrong), both(sentence, wrong, right)
