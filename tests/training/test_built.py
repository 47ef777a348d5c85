"""Built pairs: a pair that is marked the same really is, one that is not is not; labels are balanced and common words tell nothing."""

import doctest
import itertools
import random
import re
from collections import Counter, defaultdict
from datetime import date, timedelta

import built
import built_dates
import built_entities
import built_meanings
import built_numbers
import built_words
import numpy as np
import pytest
from looped import each

from rag_utils.engine import wording
from rag_utils.engine.wording import words

SEEDS = (1, 2, 3)
SHORT_MONTHS = [month[:3] for month in built_dates.MONTHS]


def drawn(generator, *, seed=0, calls=300, **options):
    """(question, left, right, same) of many calls, the question of the pair before where a pair names none."""
    rng, pairs = random.Random(seed), []
    for _ in range(calls):
        question = None
        for asked, left, right, same in generator(rng, **options):
            question = asked or question
            pairs.append((question, left, right, same))
    return pairs


def overlaps(pairs):
    """Mean share of common words (Jaccard) of the pairs that mean the same, and of those that do not."""
    shares = defaultdict(list)
    for *_, left, right, same in pairs:
        one_side, other = set(words(left)), set(words(right))
        shares[same].append(len(one_side & other) / len(one_side | other))
    return np.mean(shares[True]), np.mean(shares[False])


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_the_examples_in_the_docstrings():
    assert doctest.testmod(built_words) == (0, 4)


def test_numbers_in_words_are_those_in_digits():
    for number in (*range(1200), 2015, 7013, 20000, 41999):
        assert words(built_words.in_words(number)) == words(str(number))
    for number in range(1, 100):
        assert words(built_words.ordinal(number)) == words(built_words.with_suffix(number))
    digits = {numeral: built_words.roman(numeral) for numeral in (4, 9, 14, 40, 99, 400, 1949, 2015)}
    assert list(digits.values()) == ["IV", "IX", "XIV", "XL", "XCIX", "CD", "MCMXLIX", "MMXV"]


def test_a_near_number_is_another_one():
    rng = random.Random(0)
    near = {number: {built_words.near(rng, number) for _ in range(200)} for number in (2, 13, 40, 68)}
    assert near[2] == {3, 4, 12, 20} and {30, 31, 14} <= near[13] and {14, 4, 400} <= near[40] and 86 in near[68]
    assert all(number not in others and min(others) >= 2 for number, others in near.items())


PLUS, MINUS, TIMES = ((lambda a, b: a + b), (lambda a, b: b - a), (lambda a, b: a * b))
SUMS = {  # what stands between or before two numbers -> the number meant
    "more than": PLUS, "and more": PLUS, "fewer than": MINUS, "short of": MINUS, "less": lambda a, b: a - b, "times": TIMES,
}  # fmt: skip


def value(text):
    """The number that a sum in words means."""
    given = [int(word) if word.isdigit() else word for word in words(text)]
    numbers = [word for word in given if isinstance(word, int)]
    named = " ".join(word for word in given if isinstance(word, str))
    if named in ("twice", "half of"):
        return numbers[0] * 2 if named == "twice" else numbers[0] // 2
    return SUMS[named](*numbers)


def test_a_sum_is_the_number():
    assert built_numbers.sums(36, 2)[:3] == ["two more than thirty-four", "two fewer than thirty-eight", "two short of thirty-eight"]
    assert built_numbers.sums(36, 1)[-3:] == ["three times twelve", "four times nine", "six times six"]
    for number in (*range(6, 100), 144, 400):
        for by in (1, 2, 3):
            assert {value(text) for text in built_numbers.sums(number, by)} == {number}
    assert value("two more than thirty-eight") != 36  # the sum turned round


def test_a_name_for_a_number_is_not_that_of_another():
    names = [name for ways in built_numbers.EXACT.values() for name in ways]
    assert len(names) == len(set(names)) and built_numbers.EXACT[24] == ["two dozen"]


@each("kind", ["length", "weight"])
def test_a_quantity_is_one_in_all_its_units_and_a_wrong_one_in_none(kind):
    rng = random.Random(0)
    for _ in range(300):
        right, wrong = built_numbers.in_units(rng, kind)
        assert len({words(text) for text in right}) == 1
        assert not {words(text) for text in right} & {words(text) for text in wrong}
        figures = [{text.split()[0] for text in ways} for ways in (right, wrong)]
        assert figures[0] & figures[1]  # the right figure stands in a wrong answer, with another unit


def test_temperatures_and_amounts_by_hand():
    rng = random.Random(0)
    warm = {tuple(right): wrong for right, wrong in (built_numbers.temperature(rng) for _ in range(300))}
    right = ("20 °C", "20 degrees Celsius", "68 °F", "68 degrees Fahrenheit")
    assert warm[right] == ["20 °F", "20 degrees Fahrenheit", "68 °C", "68 degrees Celsius", "30 °C", "86 °F"]
    assert built_numbers.dollars(2500) == ["2,500 dollars", "$2,500", "2.5 thousand dollars"]
    assert built_numbers.dollars(0.25) == ["0.25 dollars", "$0.25", "25 cents"]


def test_parts_of_a_count_add_up_to_it():
    rng = random.Random(0)
    for number in (2, 12, 99):
        for _ in range(20):
            text = re.sub("the (first sort|second)", "a sort", built_numbers.in_two_parts(rng, "bells", number))
            parts = [int(word) for word in words(text) if word.isdigit()]
            assert len(parts) == 2 and sum(parts) == number


# --- dates -----------------------------------------------------------------------------------------------------------


def parsed(text):
    """The date in one of the nine spellings, read with regular expressions."""
    text = text.lower()
    if numeric := re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text):
        return date(*map(int, numeric.groups()))
    if numeric := re.fullmatch(r"(\d\d?)\.(\d\d?)\.(\d{4})", text):
        return date(*map(int, numeric.groups()[::-1]))
    month = next(number for number, name in enumerate(SHORT_MONTHS, 1) if name.lower() in text.split("of ")[-1])
    day, year = [int(word) for word in words(text) if word.isdigit()]
    return date(year, month, day)


def test_all_spellings_of_a_date_are_one_date():
    for given in (date(1776, 7, 4), date(1812, 3, 31), date(2004, 2, 13), date(1999, 9, 21)):
        spellings = built_dates.spellings(given.year, given.month - 1, given.day)
        assert len(set(spellings)) == 9 and {parsed(text) for text in spellings} == {given}
    assert "4.7.1776" not in built_dates.spellings(1776, 6, 4)  # the fourth of July or the seventh of April


def test_a_day_counted_from_another_is_the_day():
    rng, steps = random.Random(0), {"the day after ": 1, "the day before ": -1, "two days before ": -2}
    for day in range(3, 28):
        text = built_dates.from_near(rng, (1913, 4, day))
        name = next(name for name in steps if text.startswith(name))
        assert parsed(text.removeprefix(name)) + timedelta(days=steps[name]) == date(1913, 5, day)


def test_another_date_has_one_part_changed():
    rng = random.Random(0)
    for _ in range(500):
        given = (rng.randint(1650, 2015), month := rng.randrange(12), rng.randint(1, built_dates.DAYS_IN[month]))
        year, month, day = other = built_dates.other_date(rng, *given)
        assert 1 <= day <= built_dates.DAYS_IN[month] and 1400 < year < 2200
        changed = [mine != theirs for mine, theirs in zip(given, other, strict=True)]
        assert sum(changed) <= 1 or (changed[1] and day == built_dates.DAYS_IN[month])


def test_a_year_is_said_in_words_and_counted_from_another():
    rng, shift = random.Random(0), {"after": 1, "before": -1, "later than": 1}
    lengths = {"decade": 10, "century": 100, "the year": 1, "one year": 1, "ten years": 10}
    lengths |= {f"{built_words.in_words(number)} years": number for number in range(2, 6)}
    wanted = {1900: "in nineteen hundred", 1905: "in nineteen hundred and five", 1620: "in sixteen twenty"}
    for year, text in 20 * list(wanted.items()):
        said = built_dates.year_said(rng, year, "May")
        assert said["words"] == text and said["season"] == f"in May {year}"
        span, way, other = re.fullmatch(r"(?:in |a )?(.+) (after|before|later than) (\d+)", said["by another"]).groups()
        assert int(other) + shift[way] * lengths[span] == year


def test_what_is_said_of_a_decade_or_a_century_lies_in_it():
    rng = random.Random(0)
    for _ in range(50):
        for first, last, ways in ((1920, 1929, built_dates.decade(rng, 1920)), (1501, 1600, built_dates.century(rng, 16))):
            years = [int(year) for text in ways for year in re.findall(r"\b\d{4}\b", text) if "hundred years before" not in text]
            assert years and all(first <= year <= last for year in years)
    assert "in the twenties of the twentieth century" in built_dates.decade(rng, 1920)
    assert "in the hundred years before 1601" in built_dates.century(rng, 16)


CALENDAR = {
    "times": {time: built_dates.clock(*time) for time in built_dates.TIMES},
    "days": {(month, day): built_dates.day_said(month, day) for month in range(12) for day in range(1, built_dates.DAYS_IN[month] + 1)},
    "months": {month: built_dates.month_said(month) for month in range(12)},
    "weekdays": {day: built_dates.weekday_said(day) for day in range(7)},
}


def said_of_two(named):
    """The ways of saying that two of the things share."""
    counts = Counter(way for ways in named.values() for way in set(ways))
    return [way for way, times in counts.items() if times > 1]


@each("kind", list(CALENDAR))
def test_no_way_of_saying_a_time_says_another(kind):
    assert said_of_two(CALENDAR[kind]) == []
    careless = {name: [re.sub(" (am|pm)$| in the .*", "", way) for way in ways] for name, ways in CALENDAR["times"].items()}
    assert said_of_two(careless)  # without the part of the day


def test_the_calendar_by_hand():
    assert built_dates.clock(15, 45) == ["15:45", "3:45 pm", "a quarter to four in the afternoon"]
    wanted = {"24 December", "Christmas Eve", "the day before Christmas Day", "the day after 23 December", "a week before 31 December"}
    assert wanted <= set(CALENDAR["days"][11, 24])
    assert "the day before 1 March" in CALENDAR["days"][1, 28] and "the day after 31 December" in CALENDAR["days"][0, 1]
    assert CALENDAR["months"][0][-1] == "between December and February"
    assert "the day before Monday" in CALENDAR["weekdays"][6] and "two days after Saturday" in CALENDAR["weekdays"][0]


def test_full_dates_in_pairs_are_the_golds_or_not():
    """Read by the judge's own words, where a text has one date, and counts from no other."""
    plain = 0
    for _, gold, text, same in drawn(built_dates.dates):
        own, said = (wording.dates(words(each)) for each in (gold, text))
        if len(said) == 1 and all(next(iter(said))) and not re.search("[Tt]he day (after|before)|days before", text):
            plain += 1
            assert (own == said) == same
    assert plain > 150


# --- meanings --------------------------------------------------------------------------------------------------------


def test_yes_and_no_are_said_in_every_style():
    rng, given = random.Random(0), ("It is so.", "It is not so.")
    assert built_meanings.verdict_said(rng, *given, says_yes=True, style=0.0) == "It is so."
    with_word = {built_meanings.verdict_said(rng, *given, says_yes=True, style=0.5) for _ in range(30)}
    assert "Yes, it is so." in with_word and all(text.startswith("Yes") for text in with_word)
    assert built_meanings.verdict_said(rng, *given, says_yes=False, style=0.6) in built_meanings.YES_NO["no"]
    against = {built_meanings.verdict_said(rng, *given, says_yes=True, style=0.8) for _ in range(30)}
    assert "It is said that it is not so; that is wrong: it is so." in against
    assert all(text.endswith("it is so.") for text in against)


def affirms(text, adjective):
    """Whether a text says of something that it is so; by hand for the sentences of `positive` and `negative`."""
    return re.search(r"\b(not|n't|anything but|no means|far from|never|Nobody|wrong)\b|n't ", text) is None and adjective in text


def test_an_adjective_is_affirmed_or_denied():
    rng = random.Random(0)
    assert all(affirms(built_meanings.positive(rng, "safe"), "safe") for _ in range(100))
    assert not any(affirms(built_meanings.negative(rng, "safe"), "safe") for _ in range(100))
    for denied in (True, False):
        for _ in range(200):
            for text, same in built_meanings.adjectives_said(rng, "quick", "slow", denied=denied):
                if ("quick" in text) != ("slow" in text) and not re.search("mistake|but", text.replace("anything but", "not")):
                    assert (affirms(text, "quick") or ("slow" in text and not affirms(text, "slow"))) == same
    assert built_meanings.SAID["one_not_other"][0].format(adjective="quick", other="slow") == "not slow but quick"


def ahead(text, first, second):
    """Which of two things is more so, by hand for the sentences that name both and do not say that they are alike."""
    turned = re.search(r"\b(less|not)\b", text) is not None
    start = text.removeprefix("Of the two, ").startswith(first)
    return (first if start else second) if not turned else (second if start else first)


def test_a_comparison_turned_round_is_the_same():
    slots = {"adjective": "old", "more": "older", "first": "the mill", "second": "the barn"}
    sentences = [text.format(**slots) for text in built_meanings.SAID["comparisons"]["ahead"]]
    assert {ahead(text, "the mill", "the barn") for text in sentences} == {"the mill"}
    assert "the barn is not as old as the mill" in sentences
    said = built_meanings.SAID["comparisons"]["ahead"]
    leads = {}
    for adjective, more, things in built_meanings.SAID["compared"]:
        for first, second in itertools.permutations(things, 2):
            slots = {"adjective": adjective, "more": more, "first": first, "second": second}
            leads |= {text.format(**slots): first for text in said}
    pairs = [pair for pair in drawn(built_meanings.comparisons) if {pair[1], pair[2]} <= set(leads)]
    assert len(pairs) > 100 and all((leads[left] == leads[right]) == same for _, left, right, same in pairs)


def test_two_clauses_in_one_sentence_change_places():
    sentence = "{Other}, but no: {own}."
    assert built_meanings.both(sentence, "it rained", "it snowed") == "It snowed, but no: it rained."
    assert built_meanings.clause("The pumps broke.") == "the pumps broke"


def test_words_around_a_sentence_leave_it_whole():
    rng = random.Random(0)
    for _ in range(200):
        assert "stands where it stood" in built_meanings.dressed(rng, "It stands where it stood.")
    assert built_meanings.small("It is.") == "it is." and built_meanings.small("Anna is.") == "Anna is."


# --- entities --------------------------------------------------------------------------------------------------------


def test_no_rival_is_another_name_of_the_thing():
    names = [(set(map(words, names)), set(map(words, rivals))) for _, names, rivals in built_entities.ALIASES]
    names += [(set(map(words, names)), set(map(words, others))) for _, names, _, others in built_entities.SAID["countries"]]
    assert len(names) > 300 and all(len(own) > 1 for own, _ in names[: len(built_entities.ALIASES)])
    assert [own for own, rivals in names if own & rivals] == []


def test_aliases_are_drawn_from_the_entries_given():
    entries = [("thing", ["a lift", "an elevator"], ["a staircase"])]
    for _, gold, text, same in drawn(built_entities.aliases, calls=50, entries=entries):
        other = "an elevator" if gold == "a lift" else "a lift"
        assert gold in ("a lift", "an elevator") and (other in text if same else "a staircase" in text)


def test_what_a_relative_is_and_what_one_is_to_the_relative():
    rng, kin = random.Random(0), {row[0]: dict(zip(("sex", "man", "woman"), row[1:], strict=True)) for row in built_entities.SAID["kin"]}
    for name, row in kin.items():
        for sex in ("man", "woman"):
            if row[sex] in kin and kin[row[sex]]["sex"] == sex:
                assert kin[row[sex]][row["sex"]] == name  # a son's father has him as a son
    slots = {"first": "Alma", "last": "Berg", "gold": "Alma Berg", "sex": "woman"}
    relatives = [relative for _ in range(200) if (relative := built_entities.relative(rng, slots))]
    assert {relative["back"] for relative in relatives if relative["kin"] == "son"} == {"mother"}
    family = [relative for relative in relatives if relative["called"] == "Alma"]
    assert family and all(relative["relative"].endswith(" Berg") for relative in family)
    assert all(relative["kin"] != "pupil" for relative in family)


def test_a_sentence_inside_has_its_like_outside():
    inside, outside = (built_entities.SAID[way] for way in ("inside", "outside"))
    named = [[sorted(re.findall(r"\{\w+\}", text)) for text in ways] for ways in (inside, outside)]
    assert named[0] == named[1]


def test_one_of_two_is_the_same_sentence_with_the_names_exchanged():
    rng = random.Random(0)
    for _ in range(200):
        (_, gold, right, yes), (_, again, wrong, no), *_ = built_entities.one_of_two(rng)
        assert yes and not no and gold == again
        assert all(gold.lower() in text.lower() for text in (right, wrong))
        assert right != wrong and Counter(words(right)) == Counter(words(wrong))


def test_a_list_in_another_order_is_the_same():
    for _, gold, text, same in drawn(built_entities.lists, calls=200):
        own, named = (re.split(", | and ", each) for each in (gold, re.split(", but not| alone", text)[0]))
        kept = [name for name in own if re.search(rf"\b{name}\b", " ".join(named), re.IGNORECASE)]
        assert (kept == own) == same


# --- all kinds -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built_pairs():
    return {seed: built.build(4000, seed=seed) for seed in SEEDS}


def test_the_seed_decides_the_pairs(built_pairs):
    assert built.build(4000, seed=1) == built_pairs[1] and built_pairs[1] != built_pairs[2]
    state = random.getstate()
    built.build(100, seed=5)
    assert random.getstate() == state


def test_every_kind_has_its_share_and_as_many_of_either_label(built_pairs):
    whole = sum(share for _, share in built.KINDS.values())
    for pairs in built_pairs.values():
        for kind, (_, share) in built.KINDS.items():
            labels = [same for own, *_, same in pairs if own == kind]
            assert 0 <= len(labels) - 4000 * share / whole < 5
            assert abs(np.mean(labels) - 0.5) < 0.05


def test_no_pair_is_empty_unfilled_or_there_twice(built_pairs):
    for pairs in built_pairs.values():
        for _, question, left, right, _ in pairs:
            assert words(question) and words(left) and words(right) and left.lower() != right.lower()
            assert not re.search(r"[{}]", question + left + right)
        keys = [(question.lower(), frozenset((left.lower(), right.lower()))) for _, question, left, right, _ in pairs]
        assert len(keys) == len(set(keys))


@each("kind", list(built.KINDS))
def test_no_two_answers_mean_the_same_and_not(kind):
    labels = defaultdict(set)
    for question, left, right, same in drawn(built.KINDS[kind][0]):
        labels[question.lower(), frozenset((left.lower(), right.lower()))].add(same)
    assert [key for key, both in labels.items() if len(both) > 1] == []


def test_common_words_say_nothing_of_the_label(built_pairs):
    """Over all kinds; and a list of wrong answers without the right name, as one would write it first, is found out."""
    for pairs in built_pairs.values():
        same, different = overlaps(pairs)
        assert abs(same - different) < 0.1

    def careless(rng):
        gold, other = built_words.person(rng), built_words.person(rng)
        yield "Who?", gold, f"It was {gold}.", True
        yield None, gold, f"It was {other}.", False

    same, different = overlaps(drawn(careless))
    assert same - different > 0.3
    same, different = overlaps(drawn(built_entities.one_of_two))
    assert abs(same - different) < 0.02
