"""The pairs of answers that the embedded reader learns to judge from.

    RAG_COMPANION_DATA=/where/the/benchmarks/are python training/pairs.py --out pairs.jsonl.gz

Each row has a question `q`, two answers `a` and `b`, `y` whether they mean the same (1 or 0), the `fold` of the question, where the row
comes from (`kind`) and what it counts (`w`). Answers of five systems that people judged, against their golds; golds with one part changed
(`changed.py`); the companion's contrast pairs of the split "train"; and pairs that are built: from wordings and invented names
(`built.py`), from golds of real questions, from accepted answers of the companion. Of built pairs as many mean the same as do not at each
share of common words, so that the share says nothing. One that is much like a contrast pair of the split "test" is left out.

No text of a benchmark is in the repository, so the pairs are not either: they are made when they are needed, the same at every call.
"""

import argparse
import gzip
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import built
import changed
from built_dates import DAYS_IN, other_date, spellings
from built_entities import ALIASES, SAID
from built_numbers import said
from built_words import capital, in_words, near
from judge import settled

from rag_utils import data
from rag_utils.engine.wording import LITTLE_WORDS, MONTHS, dates, fit, words
from rag_utils.judge import fold, question_key

BUILT = 46_000
SEED = 7
MOST_GOLDS = 4  # that a wrong answer is held against
CONTRAST, CROSSED, SPELLING = 3.0, 2.0, 2.0  # what a pair counts
CHANGED = {"date": 0.6, "number": 1.0, "name": 0.3}
REAL = 0.7  # built from a real question or the companion's answers
LONGEST = 8  # words of a gold that is built from
LIKE = 0.6  # share of common words from which on a pair is much like another
DATE_SAID = ("{}", "It was on {}.", "on {}", "That was {}.")


def settings(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--built", type=int, default=BUILT, help="pairs with invented names, before balancing")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, required=True, help="a .jsonl.gz file")
    return parser.parse_args(given)


def rows(*, total: int = BUILT, seed: int = SEED) -> list[dict]:
    """All rows in random order, from the benchmarks."""
    return gathered(data.load_judged(), data.load_contrast(), data.load("companion"), total=total, seed=seed)


def gathered(
    judged: Sequence[data.Judged], contrast: Sequence[data.Contrast], companion: Sequence[data.Question], *, total: int, seed: int
) -> list[dict]:
    """All rows in random order; `total` pairs with invented names are built, before balancing."""
    test = [pair for pair in contrast if pair.split == "test"]
    pairs = built.build(total, seed=seed, aliases=unknown_aliases(test))
    made = [row(question, left, right, same, f"built/{kind}", 1.0) for kind, question, left, right, same in pairs]
    rng, avoid = random.Random(seed), {question_key(pair.question) for pair in test}
    made += from_judged(judged, avoid, rng) + from_companion(companion, avoid, rng)
    made = [each for each in made if words(each["a"]) != words(each["b"])]
    everything = answers(judged) + contrasts(contrast) + changed_golds(judged) + balanced(unlike(made, test), random.Random(seed))
    random.Random(seed).shuffle(everything)
    return everything


def row(question: str, left: str, right: str, same: bool, kind: str, weight: float) -> dict:
    own = {"q": question, "a": left, "b": right, "y": int(same)}
    return own | {"fold": fold(question), "kind": kind, "w": round(weight, 3)}


def overlap(left: str, right: str) -> float:
    """Token F1 of two answers, in [0, 1]."""
    one_side, other_side = Counter(words(left)), Counter(words(right))
    return 2 * (one_side & other_side).total() / (one_side.total() + other_side.total())


# --- what people judged or wrote -------------------------------------------------------------------------------------


def answers(judged: Sequence[data.Judged]) -> list[dict]:
    """Each answer that is not settled by its words: a right one with the gold it shares most with, a wrong one with up to four."""
    made = []
    for item in judged:
        for answer in item.answers:
            if answer.verdict is not None and settled(answer.text, item.golds) is None:
                golds = sorted(item.golds, key=lambda gold: -overlap(gold, answer.text))
                golds = golds[: 1 if answer.verdict else MOST_GOLDS]
                made += [row(item.question, gold, answer.text, answer.verdict, "evouna", len(golds) ** -0.5) for gold in golds]
    return made


def contrasts(contrast: Sequence[data.Contrast]) -> list[dict]:
    """The contrast pairs of the split "train", and what follows of two with the same first answer of which one means the same at least."""
    train = [pair for pair in contrast if pair.split == "train"]
    made = [row(pair.question, pair.left, pair.right, pair.equivalent, "contrast", CONTRAST) for pair in train]
    for pair, other in combinations(train, 2):
        if (pair.question, pair.left) == (other.question, other.left) and (pair.equivalent or other.equivalent):
            same = pair.equivalent and other.equivalent
            made.append(row(pair.question, pair.right, other.right, same, "contrast_cross", CROSSED))
    return made


def changed_golds(judged: Sequence[data.Judged]) -> list[dict]:
    """Golds with one part changed, against themselves and people's words, but for coarser dates, of which nobody knows the truth."""
    made = []
    for pair in changed.changed(judged):
        kind = changed.KIND.get(pair.category.removesuffix(" said"))
        if kind and not settled(pair.left, (pair.right,)):
            weight = SPELLING if pair.category == "spelling" else CHANGED[kind]
            made.append(row(pair.question, pair.left, pair.right, pair.equivalent, f"changed/{kind}", weight))
    return made


# --- built from real questions ---------------------------------------------------------------------------------------


def from_judged(judged: Sequence[data.Judged], avoid: set[str], rng: random.Random) -> list[dict]:
    """A gold of each question beside a wrong answer in one sentence; a date or number that is the gold, said otherwise.

    avoid : keys of questions from which nothing is built
    """
    golds = {gold for item in judged for gold in item.golds}
    names = sorted(gold for gold in golds if changed.is_name(gold))
    plain = sorted(gold for gold in golds if re.fullmatch(r"[A-Z][\w' ]{3,30}", gold) and not changed.is_name(gold))
    made = []
    for item in judged:
        gold = rng.choice(item.golds)
        if len(gold.split()) <= LONGEST and question_key(item.question) not in avoid:
            if wrong := wrong_answer(item, gold, names, plain, rng):
                made += one_of_two(item.question, gold, wrong, "built/real selected", rng)
            made += gold_dates(item, gold, rng) + gold_numbers(item, gold, rng)
    return made


def wrong_answer(item: data.Judged, gold: str, names: list[str], plain: list[str], rng: random.Random) -> str | None:
    """A wrong answer that shares little with the golds, of the system with short ones; else, sometimes, another question's gold."""
    said = [answer.text for answer in item.answers if answer.verdict is False and answer.system == "fid"]
    for text in said:
        if 0 < len(text.split()) <= LONGEST and all(overlap(text, each) < 0.4 for each in item.golds):
            return text
    pool = names if changed.is_name(gold) else plain if gold in plain else []
    if not pool or rng.random() >= 0.6 or (pool is plain and len(item.golds) > 1):
        return None
    return foreign(gold, pool, rng)


def foreign(gold: str, pool: list[str], rng: random.Random) -> str | None:
    """A text of the pool without a word of the gold, but for little ones; None if there is none."""
    shared = set(words(gold)) - LITTLE_WORDS
    if all(shared & set(words(text)) for text in pool):
        return None
    while shared & set(words(text := rng.choice(pool))):
        pass
    return text


def one_of_two(question: str, gold: str, wrong: str, kind: str, rng: random.Random) -> list[dict]:
    """Both answers in a sentence that says which it is; and the same sentence with the two exchanged."""
    sentence = rng.choice(SAID["one_of_two"]["generic"])
    both = ((gold, wrong, True), (wrong, gold, False))
    return [row(question, gold, capital(sentence.format(right=own, wrong=other)), same, kind, REAL) for own, other, same in both]


def gold_dates(item: data.Judged, gold: str, rng: random.Random) -> list[dict]:
    """A gold that is a full date in two other spellings; and another date, which no gold allows, in the same."""
    own = dates(words(gold))
    if len(own) != 1 or not all(date := next(iter(own))) or len(gold.split()) > 5:
        return []
    right = (int(date[0]), MONTHS.index(date[1]), int(date[2]))
    wrong = other_date(rng, *right)
    other = (str(wrong[0]), MONTHS[wrong[1]], str(wrong[2]))
    allowed = any(fit(other, known) for each in item.golds for known in dates(words(each)))
    if right[2] > DAYS_IN[right[1]] or wrong == right or allowed:
        return []
    made, spelling = [], rng.randrange(8)
    for _ in range(2):
        spelling = (spelling + rng.randint(1, 4)) % 8
        sentence = rng.choice(DATE_SAID)
        for date in (right, wrong):
            text = capital(sentence.format(spellings(*date)[spelling]))
            made.append(row(item.question, gold, text, date == right, "built/real date", REAL))
    return made


def gold_numbers(item: data.Judged, gold: str, rng: random.Random) -> list[dict]:
    """The one gold, if it is a number below a thousand, in words and other ways; and a near number in the same."""
    if not re.fullmatch(r"\d{1,3}", gold.strip()) or int(gold) < 2 or len(item.golds) > 1:
        return []
    numbers = (int(gold), near(rng, int(gold)))
    spelt = [in_words(number) for number in numbers]
    ways = (spelt, [f"There are {text}." for text in spelt], [said(rng, number) for number in numbers])
    return [row(item.question, gold, text, text is way[0], "built/real number", REAL) for way in ways for text in way]


def from_companion(questions: Sequence[data.Question], avoid: set[str], rng: random.Random) -> list[dict]:
    """Two accepted answers of a question; one against the answer of another question with the same first word, alone or beside it."""
    kind, made, alike = "built/companion", [], defaultdict(list)
    for question in questions:
        alike[words(question.text)[:1]].append(question)
    for question in questions:
        if question_key(question.text) in avoid or question.answers[0] in ("yes", "no"):
            continue
        text, given = question.text, question.answers
        made += [row(text, left, right, True, kind, REAL) for left, right in combinations(given, 2) if words(left) != words(right)]
        shared = said_in(given) - LITTLE_WORDS
        if others := [other for other in alike[words(text)[:1]] if not said_in(other.answers) & shared]:
            for answer in given[:2]:
                made += one_of_two(text, answer, rng.choice(others).answers[0], kind, rng)
                made.append(row(text, answer, rng.choice(rng.choice(others).answers), False, kind, REAL))
    return made


def said_in(texts: Sequence[str]) -> set[str]:
    return {word for text in texts for word in words(text)}


# --- balance, and distance from the test -----------------------------------------------------------------------------


def balanced(rows: Sequence[dict], rng: random.Random) -> list[dict]:
    """About as many rows that mean the same as do not: in each kind, at each fifth of overlap, with and without one answer in the other."""

    def place(row: dict) -> tuple:
        left, right = (" ".join(words(row[side])) for side in "ab")
        return row["kind"], int(5 * overlap(row["a"], row["b"]) - 1e-9), left in right or right in left

    kept = [row for _, both in sorted(by_label(rows, place).items()) for row in trimmed(both, lambda least: int(1.15 * least + 3), rng)]
    kinds = by_label(kept, lambda row: row["kind"]).values()
    return [row for both in kinds for row in trimmed(both, lambda least: int(1.03 * max(1, least)), rng)]


def by_label(rows: Sequence[dict], key: Callable[[dict], object]) -> dict:
    """Key -> the rows that do not mean the same, and those that do."""
    groups = defaultdict(lambda: ([], []))
    for each in rows:
        groups[key(each)][each["y"]].append(each)
    return groups


def trimmed(both: tuple[list, list], most: Callable[[int], int], rng: random.Random) -> Iterator[dict]:
    """Both lists, each drawn down to at most as many as `most` says of the length of the shorter one."""
    limit = most(min(map(len, both)))
    for side in both:
        yield from side if len(side) <= limit else rng.sample(side, limit)


def padded(text: str) -> str:
    """The words of a text with a space before and after each, so that whole words are made in it."""
    return f" {' '.join(words(text))} "


def unknown_aliases(test: Sequence[data.Contrast], aliases: list = ALIASES) -> list:
    """The entries of the alias table of which no test pair has a name in either answer."""
    sides = [(padded(pair.left), padded(pair.right)) for pair in test]

    def tested(names: Sequence[str]) -> bool:
        own = [padded(name) for name in names]
        return any(all(any(name in side for name in own) for side in both) for both in sides)

    return [entry for entry in aliases if not tested(entry[1])]


def unlike(rows: Sequence[dict], test: Sequence[data.Contrast]) -> list[dict]:
    """The rows that are much like no test pair: another question, other names in the two answers, few common words."""
    keys = {question_key(pair.question) for pair in test}
    sides = [(padded(pair.left), padded(pair.right)) for pair in test]
    bags = [bag(pair.question, pair.left, pair.right) for pair in test]

    def like(row: dict) -> bool:
        own, left, right = bag(row["q"], row["a"], row["b"]), padded(row["a"]), padded(row["b"])
        telling = len(left + right) > 12 and not re.search(r"\d|yes|\bno\b", left + right)
        named = any((left in one_side and right in other) or (right in one_side and left in other) for one_side, other in sides)
        near = any(len(own & other) > LIKE * len(own | other) for other in bags)
        return question_key(row["q"]) in keys or (telling and named) or near

    return [row for row in rows if not like(row)]


def bag(*texts: str) -> set[str]:
    return said_in(texts) - LITTLE_WORDS


def main(given: list[str] | None = None) -> None:
    chosen = settings(given)
    everything = rows(total=chosen.built, seed=chosen.seed)
    lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) + "\n" for each in everything]
    chosen.out.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    same = Counter(each["kind"] for each in everything if each["y"])
    for kind, count in sorted(Counter(each["kind"] for each in everything).items()):
        print(f"{kind:26}{count:6} pairs, {same[kind]:5} the same")


if __name__ == "__main__":
    main()
