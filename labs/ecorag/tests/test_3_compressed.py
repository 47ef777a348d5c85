"""Steps 7 and 8: compression step by step, and what it keeps and costs on 127 questions. The numbers are the book's own."""

import json
from pathlib import Path

import adapters
from check import Wrong, expect

HERE = Path(__file__).resolve().parent
NUMBERS = json.loads((HERE / "snapshots.json").read_text(encoding="utf-8"))["measured"]
ADAPTIVE = "section 3.2.2 and appendix B.1"
PATIENCE = 50  # how often one evaluator lets itself be asked
ENDLESS = (
    f"compress: {ADAPTIVE}, stop when it is sufficient, at `limit`, or when no sentence is left\n"
    f"    came      a loop that asks the evaluator more than {PATIENCE} times\n"
    "    expected  an end\n"
    "    likely    what ends the loop is never reached: there can be fewer sentences than `limit`"
)


class Replies(list):
    """What a question's evaluator said. It breaks off a loop without an end, of which a test could say nothing."""

    asked = 0

    def __getitem__(self, place):
        self.asked += 1
        if self.asked > PATIENCE:
            raise Wrong(ENDLESS)
        return super().__getitem__(place)


def questions():
    rows = json.loads((HERE.parent / "data" / "reading.json").read_text(encoding="utf-8"))["questions"]
    return [row | {"sufficient": Replies(row["sufficient"])} for row in rows]


def from_on(enough, asked=None):
    """An evaluator for which so many sentences are sufficient; it writes down in `asked` what it is shown, and its patience ends."""
    asked = [] if asked is None else asked

    def is_sufficient(kept):
        asked.append("".join(map(str, kept)))
        if len(asked) > PATIENCE:
            raise Wrong(ENDLESS)
        return len(kept) >= enough

    return is_sufficient


def never(asked=None):
    return from_on(float("inf"), asked)


def test_compress_one_at_a_time():
    expect(
        adapters.compress(list("abcd"), [0.1, 0.7, 0.9, 0.0], from_on(2), 1),
        [2, 1],
        asked="compress(a, b, c, d with scores 0.1, 0.7, 0.9, 0.0; sufficient from two on; step=1)",
        equation=f"{ADAPTIVE}, best first until sufficient",
        mistakes={
            "sorted by their place; the best comes first": [1, 2],
            "the worst first: sort the scores downwards": [3, 0],
            "the sentences themselves; their places are asked for": ["c", "b"],
            "the scores were not looked at": [0, 1],
            "one too many: stop as soon as it is sufficient, keeping what was asked about": [2, 1, 0],
            "one too few: what made it sufficient is kept": [2],
            "all four are there: it never stopped, or step was not used": [2, 1, 0, 3],
        },
    )


def test_compress_by_steps():
    expect(
        adapters.compress(list("abcde"), [5, 4, 3, 2, 1], from_on(3), 2),
        [0, 1, 2, 3],
        asked="compress(a .. e, best first; sufficient from three on; step=2)",
        equation=f"{ADAPTIVE}, two at a time, asked after each addition",
        mistakes={
            "the evaluator was asked after each sentence, not after each step": [0, 1, 2],
            "a third step was added though four were sufficient": [0, 1, 2, 3, 4],
            "it stopped after one step, though two were not sufficient": [0, 1],
            "only the last step is there: the sentences before it are kept too": [2, 3],
        },
    )


def test_compress_up_to_the_limit():
    expect(
        adapters.compress(list("abcdef"), [6, 5, 4, 3, 2, 1], never(), 2, 3),
        [0, 1, 2],
        asked="compress(a .. f, best first; never sufficient; step=2, limit=3)",
        equation=f"{ADAPTIVE}, at most `limit` sentences, the last time fewer than `step`",
        mistakes={
            "the last step went beyond the limit: it is of sentences, not of steps begun": [0, 1, 2, 3],
            "the limit was not used, or taken as a number of steps": [0, 1, 2, 3, 4, 5],
            "a last step that is not whole was left out": [0, 1],
            "nothing was kept, as it never was sufficient; then the limit decides": [],
        },
    )


def test_compress_of_few_sentences():
    expect(
        adapters.compress(list("abc"), [0.2, 0.3, 0.1], never()),
        [1, 0, 2],
        asked="compress(a, b, c with scores 0.2, 0.3, 0.1; never sufficient; step=4)",
        equation=f"{ADAPTIVE}; where there are fewer than a step, all",
        mistakes={"nothing was kept: three sentences are no whole step, and are kept all the same": []},
    )


def test_compress_with_equal_scores():
    expect(
        adapters.compress(list("abcd"), [0.5, 0.9, 0.5, 0.5], never(), 1, 3),
        [1, 0, 2],
        asked="compress(a, b, c, d with scores 0.5, 0.9, 0.5, 0.5; never sufficient; step=1, limit=3)",
        equation=f"{ADAPTIVE}; of two equal scores the earlier sentence goes first",
        mistakes={
            "equal scores come out last first: an ascending order was reversed. Sort -scores, kind='stable'": [1, 3, 2],
            "ties: the later of two equal sentences went first": [1, 2, 3],
        },
    )
    expect(
        adapters.compress(list("abcdefghijklmnopqrst"), [0.5, 0.9] * 10, never(), 1, 20),
        [*range(1, 20, 2), *range(0, 20, 2)],
        asked="compress(twenty sentences with scores 0.5, 0.9, 0.5, 0.9, ...; never sufficient; step=1)",
        equation=f"{ADAPTIVE}; of two equal scores the earlier sentence goes first, which kind='stable' holds",
    )


def test_compress_asks_about_all_that_is_kept():
    asked = []
    came = adapters.compress(list("abc"), [0.2, 0.3, 0.1], never(asked), 1)
    expect(
        None if came is None else asked,
        ["b", "ba", "bac"],
        asked="what the evaluator is shown by compress(a, b, c with scores 0.2, 0.3, 0.1; step=1)",
        equation=f"{ADAPTIVE}, all sentences kept so far, best first, after each addition",
        mistakes={
            "only the new sentence was shown to the evaluator": ["b", "a", "c"],
            "places were shown to the evaluator, not sentences": ["1", "10", "102"],
            "the evaluator was not asked after the last addition": ["b", "ba"],
            "the evaluator was asked about nothing first": ["", "b", "ba", "bac"],
            "the evaluator was asked before each addition, not after it": ["", "b", "ba"],
            "the evaluator saw the sentences in the order of the passages, not best first": ["b", "ab", "abc"],
        },
    )


def test_token_ratio_by_hand():
    expect(
        adapters.token_ratio([40, 10, 30, 25], [3, 0], 120),
        65 / 120,
        asked="token_ratio(tokens [40, 10, 30, 25], kept [3, 0], whole=120)",
        equation="Table 8, tokens kept over tokens of all documents, (25 + 40) / 120",
        mistakes={
            "sentences were counted, not tokens": 0.5,
            "upside down: how many times smaller. Table 8 prints the share that is left": 120 / 65,
            "the share that was saved. Table 8 prints the share that is left": 55 / 120,
            "divided by the tokens of the sentences, not by `whole`": 65 / 105,
            "the first two sentences were counted: `kept` says which": 50 / 120,
            "the mean of the tokens kept, not their sum": 65 / 240,
        },
    )


def test_measured_on_the_corpus():
    expect(
        adapters.measured(questions()),
        NUMBERS["right"],
        asked='measured(load("reading"))',
        equation="Tables 1 and 8, means over 127 questions",
        mistakes={
            "every question kept twenty sentences: is the evaluator asked?": NUMBERS["never"],
            "every question kept four sentences: is the evaluator's reply looked at?": NUMBERS["four"],
            "the evaluator's reply was turned round: stop when it is sufficient": NUMBERS["upside down"],
            "the tokens of the first sentences were counted, not of those kept": NUMBERS["first tokens"],
            "the mean tokens over the mean of all: take each question's ratio first, as Table 8": NUMBERS[
                "ratio of means"
            ],
            "the ratio is of the sentences' tokens; `tokens_of_all` is below the line": NUMBERS["of sentences"],
            "the ratio is upside down": NUMBERS["reciprocal"],
            "the ratio is the share saved": NUMBERS["saved"],
            "sums over the questions; means are asked for": NUMBERS["sums"],
            "the number of right answers; their share is asked for": NUMBERS["number right"],
            "the sentences were counted; `tokens` says how long each is": NUMBERS["sentences"],
            "the reader with `limit` sentences was looked up, not with those kept": NUMBERS["right at the limit"],
            "a tuple or list; a dict is asked for": [*NUMBERS["right"].values()],
            "the reader without any sentence was looked up; the number of sentences kept says where": NUMBERS[
                "closed book"
            ],
            "the reader with all passages was looked up; the number of sentences kept says where": NUMBERS["all"],
        },
        within=1e-4,
    )


def test_measured_with_a_limit():
    expect(
        adapters.measured(questions(), 8),
        NUMBERS["limit 8"],
        asked='measured(load("reading"), limit=8)',
        equation="Tables 1 and 8; the limit goes to `compress`",
        mistakes={"the limit was not handed on to compress": NUMBERS["right"]},
        within=1e-4,
    )


def test_measured_with_a_threshold():
    expect(
        adapters.measured(questions(), 20, 2),
        NUMBERS["never"],
        asked='measured(load("reading"), threshold=2), which no evaluator reaches',
        equation="Tables 1 and 8; the threshold goes to `evaluator`",
        mistakes={"the threshold was not handed on to the evaluator": NUMBERS["right"]},
        within=1e-4,
    )
