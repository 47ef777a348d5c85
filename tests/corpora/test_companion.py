"""The corpus keeps its promises: sizes, balance, answers in the gold sentences and in no distractor, no near duplicates."""

import json
import re
from collections import Counter
from itertools import combinations
from math import comb

import pandas as pd
from looped import each

from rag_utils import data
from rag_utils.answers import contains_answer, normalize
from rag_utils.corpora import companion

ARTICLES = [json.loads(line) for line in (companion.COMPANION / "articles.jsonl").read_text("utf-8").splitlines()]
PASSAGES = data.passages("companion")
QUESTIONS = data.load("companion")
CLAIMS = data.load("companion_claims")
LONG = data.load("companion_long")
CONTRAST = data.load_contrast()
ASKED = QUESTIONS + CLAIMS + LONG
SPLITS = ("train", "dev", "test")
KINDS = ("real", "invented")

each_asked = each("question", ASKED, ids=lambda question: question.id)
each_question = each("question", QUESTIONS, ids=lambda question: question.id)


def gold_text(question: data.Question) -> str:
    """The sentences that are marked as needed."""
    pairs = zip(question.gold, question.gold_sentences, strict=True)
    return " ".join(passage.sentences[number] for passage, numbers in pairs for number in numbers)


def article(question: data.Question) -> set[str]:
    """The ids of the articles that the gold passages are from."""
    return {passage.id.split("-")[0] for passage in question.gold}


def shingles(text: str, size: int) -> set[tuple[str, ...]]:
    words = normalize(text).split()
    return {tuple(words[i : i + size]) for i in range(max(1, len(words) - size + 1))}


# --- sizes and balance -----------------------------------------------------------------------------------------------


def test_sizes_and_ids():
    assert [row["id"] for row in ARTICLES] == [f"a{number:02}" for number in range(1, 41)]
    assert [p.id for p in PASSAGES] == [f"{row['id']}-p{number}" for row in ARTICLES for number in range(1, 7)]
    assert len({p.title for p in PASSAGES}) == 40
    assert data.passages("companion_claims") == data.passages("companion_long") == PASSAGES
    assert [q.id for q in QUESTIONS] == [f"q{number:03}" for number in range(1, 241)]
    assert [q.id for q in CLAIMS] == [f"c{number:02}" for number in range(1, 81)]
    assert [q.id for q in LONG] == [f"l{number:02}" for number in range(1, 41)]
    assert [pair.id for pair in CONTRAST] == [f"p{number:03}" for number in range(1, 133)]


def test_no_file_is_large():
    assert {
        path.name: size for path in companion.COMPANION.iterdir() if (size := path.stat().st_size) > 1_000_000
    } == {}


def test_every_split_is_half_real_and_half_invented():
    parts = {"train": 0.4, "dev": 0.2, "test": 0.4}
    articles = Counter((row["split"], row["kind"]) for row in ARTICLES)
    assert articles == {(split, kind): 20 * parts[split] for split in SPLITS for kind in KINDS}
    for rows, per_article in ((QUESTIONS, 6), (CLAIMS, 2), (LONG, 1)):
        found = Counter((row.split, row.kind) for row in rows)
        assert found == {place: per_article * count for place, count in articles.items()}


def test_every_split_has_every_type_and_yes_and_no():
    for split in SPLITS:
        types = Counter(question.type for question in QUESTIONS if question.split == split)
        assert set(types) == {"single", "bridge", "comparison", "yes_no"}
        yes_no = Counter(q.answers for q in QUESTIONS if q.split == split and q.type == "yes_no")
        assert set(yes_no) == {("yes",), ("no",)}
        assert max(yes_no.values()) <= 0.6 * sum(yes_no.values())
    assert Counter(q.answers for q in QUESTIONS if q.type == "yes_no") == {("yes",): 13, ("no",): 13}


def test_of_two_things_compared_either_is_as_often_the_answer():
    def first(question):
        text = normalize(question.text)
        places = [text.find(normalize(answer)) for answer in question.answers]
        return min(place for place in places if place >= 0) < text.find(" or ")

    assert Counter(first(q) for q in QUESTIONS if q.type == "comparison") == {True: 9, False: 9}


def test_every_article_has_its_questions_claims_and_long_answer():
    for row in ARTICLES:
        assert any(row["id"] in article(question) for question in QUESTIONS)
        claims = [claim for claim in CLAIMS if row["id"] in article(claim)]
        assert {claim.answers for claim in claims} == {("true",), ("false",)}
        assert any(row["id"] in article(question) for question in LONG)


def test_the_data_card_counts_right():
    card = (companion.COMPANION / "README.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in card.splitlines() if line.startswith("|")]
    said = {name: [int(cell) for cell in cells] for name, *cells in rows if name in (*SPLITS, "all")}
    counted = {}
    for split in SPLITS:
        questions = Counter(question.type for question in QUESTIONS if question.split == split)
        counted[split] = [
            sum(row["split"] == split for row in ARTICLES),
            questions.total(),
            *(questions[kind] for kind in ("single", "bridge", "comparison", "yes_no")),
            sum(claim.split == split for claim in CLAIMS),
            sum(question.split == split for question in LONG),
            sum(pair.split == split for pair in CONTRAST),
        ]
    counted["all"] = [sum(column) for column in zip(*counted.values(), strict=True)]
    assert said == counted


# --- passages --------------------------------------------------------------------------------------------------------


@each("passage", PASSAGES, ids=lambda passage: passage.id)
def test_passages_have_their_length(passage):
    assert 35 <= len(passage.text.split()) <= 70
    assert 2 <= len(passage.sentences) <= 4
    assert passage.text == " ".join(passage.sentences)
    assert all(re.fullmatch(r"\S.*[.?!]", sentence) and "  " not in sentence for sentence in passage.sentences)


# --- questions, claims, long answers ---------------------------------------------------------------------------------


@each_asked
def test_passages_are_of_the_split_and_the_kind(question):
    where = {row["id"]: (row["split"], row["kind"]) for row in ARTICLES}
    assert {where[name] for name in article(question)} == {(question.split, question.kind)}
    assert {where[passage.id.split("-")[0]][0] for passage in question.distractors} <= {question.split}
    assert 2 <= len(question.distractors) <= 4
    assert all(list(numbers) == sorted(set(numbers)) for numbers in question.gold_sentences)


@each_question
def test_the_answer_is_in_the_gold_sentences_and_in_no_distractor(question):
    assert len(question.gold) in {"single": (1,), "yes_no": (1, 2)}.get(question.type, (2,))
    if question.type != "yes_no":
        assert contains_answer(gold_text(question), [question.answers[0]])
        for passage in question.distractors:
            assert not contains_answer(passage.text, question.answers), f"answer in {passage.id}"
    assert all(len(answer.split()) <= 6 for answer in question.answers)
    assert len(set(question.answers)) == len(question.answers)


@each_question
def test_a_question_does_not_give_its_answer_away(question):
    if question.type in ("single", "bridge"):
        assert not contains_answer(question.text, question.answers)


IN_LONGER_WORDS = {"q036", "q055"}  # "49" is in 1849, "pear" in Shakespeare: the card says so


@each_question
def test_an_answer_is_not_found_inside_longer_words(question):
    """Lexical match goes by characters: an answer such as "Au" would be in every other passage."""
    answers = [normalize(answer) for answer in question.answers]
    found = []
    for passage in PASSAGES:
        text = normalize(passage.text)
        inside = [answer for answer in answers if answer in text]
        if inside and not any(f" {answer} " in f" {text} " for answer in inside):
            found.append(passage.id)
    assert question.type == "yes_no" or (len(found) > 3) == (question.id in IN_LONGER_WORDS), found


@each("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_is_one_sentence(claim):
    assert re.fullmatch(r"[A-Z][^?!]*\.", claim.text) and not re.search(r"[a-z]{3}\. ", claim.text)
    assert len(claim.gold) in (1, 2)


def test_claims_do_not_give_their_label_away():
    """Neither by length, nor by one or two passages, nor by a word or a pair of words, nor by the order of the pair."""
    labels = {("true",): [], ("false",): []}
    for claim in CLAIMS:
        labels[claim.answers].append(claim)
    true, false = labels.values()
    lengths = [sum(len(claim.text.split()) for claim in claims) / len(claims) for claims in (true, false)]
    assert abs(lengths[0] - lengths[1]) < 1
    assert abs(sum(len(claim.gold) for claim in true) - sum(len(claim.gold) for claim in false)) <= 3
    counts = [Counter(part for c in claims for n in (1, 2) for part in shingles(c.text, n)) for claims in (true, false)]
    for part in set(counts[0]) | set(counts[1]):
        most, both = max(count[part] for count in counts), sum(count[part] for count in counts)
        by_chance = 2 * sum(comb(both, k) for k in range(most, both + 1)) / 2**both
        assert by_chance > 0.05, f"{' '.join(part)}: {counts[0][part]} supported, {counts[1][part]} refuted"
    first = Counter(claim.answers for claim in CLAIMS[::2])
    assert min(first.values()) >= 15


@each("question", LONG, ids=lambda question: question.id)
def test_a_long_answer_is_short_enough_and_in_its_own_words(question):
    (answer,) = question.answers
    assert question.text.startswith(("How ", "Why "))
    assert 25 <= len(answer.split()) <= 60
    assert 2 <= len(re.findall(r"[.?!](?= |$)", answer)) <= 3
    assert not shingles(answer, 8) & shingles(gold_text(question), 8)


# --- pairs for a judge -----------------------------------------------------------------------------------------------


def test_contrast_has_both_labels_in_every_category_and_split():
    found = Counter((pair.category, pair.split, pair.equivalent) for pair in CONTRAST)
    categories = {"number", "date", "yes_no", "negation", "entity", "paraphrase"}
    assert set(found) == {(c, s, e) for c in categories for s in ("train", "test") for e in (True, False)}
    assert set(found.values()) == {5, 6}


def test_contrast_pairs_of_a_question_are_in_one_split_and_differ():
    splits = {}
    for pair in CONTRAST:
        splits.setdefault(normalize(pair.question), set()).add(pair.split)
        assert normalize(pair.left) != normalize(pair.right)
    assert all(len(found) == 1 for found in splits.values())
    assert len({(pair.question, pair.left, pair.right) for pair in CONTRAST}) == len(CONTRAST)
    assert not set(splits) & {normalize(question.text) for question in ASKED}


def test_contrast_is_not_solved_by_lexical_match():
    right = [contains_answer(pair.right, [pair.left]) == pair.equivalent for pair in CONTRAST]
    assert 0.4 < sum(right) / len(right) < 0.6


# --- near duplicates -------------------------------------------------------------------------------------------------


@each(
    ("texts", "size"),
    [
        ([p.text for p in PASSAGES] + [q.answers[0] for q in LONG], 5),
        ([sentence for p in PASSAGES for sentence in p.sentences], 3),
        ([q.text for q in ASKED], 3),
    ],
    ids=["passages and long answers", "sentences", "questions and claims"],
)
def test_no_near_duplicates(texts, size):
    sets = [shingles(text, size) for text in texts]
    for a, b in combinations(sets, 2):
        assert len(a & b) < 0.3 * len(a | b)


def test_sixty_questions_are_known_by_heart_and_none_that_is_invented():
    """By either reader, right in five or more of ten samples; yes/no and comparison questions can be guessed and do not count here."""
    known = pd.read_csv(companion.COMPANION / "known.csv")
    assert set(known["id"]) == {q.id for q in QUESTIONS} and not known.duplicated(["id", "reader"]).any()
    assert known["right_of_ten"].between(0, 10).all() and set(known["reader"]) == {"embedded", "embedded-base"}
    often = set(known["id"][known["right_of_ten"] >= 5])
    asked = [q for q in QUESTIONS if q.id in often and q.type in ("single", "bridge")]
    assert len(asked) >= 60
    assert [q.id for q in asked if q.kind == "invented"] == []
