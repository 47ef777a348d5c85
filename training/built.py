"""Pairs of answers that are built so that their truth is known and the words they share say nothing of it.

    build(46000)   # every kind in its share

A generator draws a question, an accepted answer, one that means the same and one that does not. The two are said in sentences of one
kind, and the wrong one often holds the right name or number too, in the place of what it is not; so only what is said tells them apart.
Names are invented, but for the `aliases` and `countries` of `wordings/`, which are facts.
"""

import random
from functools import partial

import built_dates as dates
import built_entities as entities
import built_meanings as meanings
import built_numbers as numbers

KINDS = {  # kind -> generator, share
    "number/count": (numbers.counts, 14),
    "number/measure": (numbers.measures, 9),
    "number/rank": (numbers.ranks, 2),
    "date/full": (dates.dates, 4),
    "date/year": (dates.years, 5),
    "date/span": (dates.spans, 4),
    "date/calendar": (dates.calendar, 4),
    "yes_no": (meanings.yes_no, 11),
    "negation/adjective": (meanings.adjectives, 7),
    "negation/compared": (meanings.comparisons, 4),
    "negation/group": (meanings.groups, 10),
    "paraphrase/cause": (meanings.causes, 7),
    "entity/alias": (entities.aliases, 7),
    "entity/country": (entities.countries, 2),
    "entity/people": (entities.people, 7),
    "entity/place": (entities.places, 2),
    "paraphrase/selected": (entities.one_of_two, 6),
    "entity/list": (entities.lists, 2),
}
TRIES = 3  # calls of a generator per pair of all kinds, at most: small pools run dry


def build(total: int, *, seed: int = 7, aliases: list = entities.ALIASES) -> list[tuple[str, str, str, str, bool]]:
    """About so many pairs, each once: kind, question, an answer, another, whether they mean the same.

    aliases : the entries that "entity/alias" draws from
    """
    whole, pairs, seen = sum(share for _, share in KINDS.values()), [], set()
    for kind, (generator, share) in KINDS.items():
        if kind == "entity/alias":
            generator = partial(generator, entries=aliases)
        rng, made = random.Random(f"{seed}/{kind}"), 0
        for _ in range(TRIES * total):
            if made >= total * share / whole:
                break
            question = None
            for asked, left, right, same in generator(rng):
                question, left, right = asked or question, left.strip(), right.strip()
                key = (question.lower(), *sorted((left.lower(), right.lower())))
                if left.lower() != right.lower() and key not in seen:
                    seen.add(key)
                    pairs.append((kind, question, left, right, same))
                    made += 1
    return pairs
