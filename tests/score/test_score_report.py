"""The report: what stands in it, that nothing is markup which a person or a model wrote, and how it works in a browser."""

import json
import re

import numpy as np
import pytest
import tiny_scores
from browser import BROWSER

from rag_utils import stats
from rag_utils.score import drawn, report
from rag_utils.score.paired import changed, compare
from rag_utils.score.scores import Scores

EVIL = '</script><script>window.struck = 1</script><img src="http://example.com/x" onerror="window.struck = 1">'
CONTRAST = 4.5  # WCAG 2.2, level AA, body text


def data_of(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def compared(questions=12) -> dict:
    a, b = tiny_scores.scores(questions), tiny_scores.scores(questions, seed=1, shift=0.2)
    changes = {name: changed(a, b, name, most=3) for name in ("SePer of the list", "tokens")}
    return {"scores": a, "against": compare(a, b), "other": "other.jsonl", "changes": changes}


# --- what stands in it -----------------------------------------------------------------------------


def test_a_small_run_says_that_its_intervals_are_too_narrow():
    assert "Only 10 questions: 95 % intervals from so few are too narrow" in report.page(tiny_scores.scores(10))
    assert "too narrow" not in report.page(tiny_scores.scores(11))
    rng = np.random.default_rng(0)
    for n, said in ((2, 0.50), (5, 0.86), (10, 0.91)):
        drawn_means = [stats.mean_interval(rng.normal(size=n), resamples=400, rng=0) for _ in range(400)]
        assert np.mean([each.low <= 0 <= each.high for each in drawn_means]) == pytest.approx(said, abs=0.06)


def test_the_first_view_says_the_means_in_words():
    scores = tiny_scores.scores(30)
    text, row = report.page(scores), scores.summary().loc["right with list"]
    story = re.sub(r"<[^>]+>", "", re.search(r'<ul class="story">(.*?)</ul>', text, re.DOTALL)[1])
    assert f"right in {row['value']:.2f} [{row['low']:.2f}, {row['high']:.2f}] of {row['n']:.0f} questions" in story
    right = scores.questions[["right_before", "right_with_list"]].dropna()
    helped = int((right["right_with_list"] > right["right_before"]).sum())
    assert f"the list helped {helped} and hurt" in story


def test_every_number_of_the_summary_has_a_row_and_what_it_means():
    scores = tiny_scores.scores()
    text = report.page(scores)
    table = re.search(r'<table class="estimates">(.*?)</table>', text, re.DOTALL)[1]
    rows = re.findall(r"<span>([^<]+)<small>([^<]*)</small>", table)
    assert sorted(name for name, _ in rows) == sorted(scores.summary().index) and all(meaning for _, meaning in rows)


def test_the_table_holds_what_was_measured_and_why_something_was_not():
    scores = tiny_scores.scores()
    data = data_of(report.page(scores))
    names = [column["name"] for column in data["questions"]["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in data["questions"]["rows"]]
    assert [row["id"] for row in rows] == list(scores.questions["id"])
    assert [row["tokens"] for row in rows] == list(scores.questions["tokens"])
    unknown, unsettled = rows[2], rows[3]
    for column in ("answers", "outcome", "seper_list", "erag_RR", "right_compressed"):
        assert data["reasons"][unknown[column][0]] == "no answers given"
    assert data["reasons"][unsettled["right_reordered"][0]] == "the orders settle no fit"
    own = [column["name"] for column in data["passages"]["columns"]]
    first = dict(zip(own, data["passages"]["rows"][0][0], strict=True))
    assert first["text"] == scores.passages["text"][0] and first["passage"] == "a01-p1"
    assert "<td>no answers given</td>" in report.page(scores)


def test_the_place_after_reordering_and_how_far_that_is():
    scores = tiny_scores.scores(1, 3)
    scores.passages["moi"] = [0.1, 0.5, -0.2]
    data = data_of(report.page(scores))
    place = [column["name"] for column in data["passages"]["columns"]].index("place")
    assert [row[place] for row in data["passages"]["rows"][0]] == ["2, down 1", "1, up 1", "3"]


def test_only_what_was_measured_is_shown():
    text = report.page(tiny_scores.scores(measures=("erag",)))
    assert "eRAG" in text and "DENSE" not in text.split('id="questions"')[0] and "MoI" not in text
    assert "Compression keeps" not in text and "A passage alone moves" not in text


def test_without_answers_the_page_says_that_it_cannot_say():
    scores = tiny_scores.scores(4, measures=("dense",))
    scores.questions[["right_before", "right_with_list"]] = np.nan
    assert "Nobody said which answers are right" in report.page(scores)


def test_a_comparison_says_what_is_clear_and_which_questions_changed():
    told = compared(40)
    text = report.page(told["scores"], **{name: told[name] for name in ("against", "other", "changes")})
    clear = told["against"][told["against"]["p_holm"] < 0.05]
    assert len(clear) and "Against other.jsonl" in text
    assert f"clearly lower in {', '.join(clear[clear['value'] < 0].index)}" in text
    first = told["changes"]["SePer of the list"].index[0]
    folded = re.search(r"<summary>Questions that changed most in SePer of the list</summary>.*?</details>", text, re.DOTALL)
    assert f'<th scope="row">{first}</th>' in folded[0]
    assert "not clearly different in anything" in report.page(
        told["scores"], against=compare(told["scores"], told["scores"]), other="itself"
    )


def test_the_same_scores_give_the_same_bytes(tmp_path):
    one, two = (report.write(tiny_scores.scores(), tmp_path / name) for name in ("a.html", "b.html"))
    assert one.read_bytes() == two.read_bytes()
    saved = Scores.load(tiny_scores.scores().save(tmp_path / "out"))
    assert (tmp_path / "out" / "report.html").read_text() == report.page(saved)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"title": " "}, "title must hold at least one word"),
        ({"other": "b"}, "go together"),
        ({"against": compared()["against"]}, "go together"),
    ],
)
def test_what_is_no_report_is_refused(told, words):
    with pytest.raises(ValueError, match=words):
        report.page(tiny_scores.scores(), **told)


def test_no_question_is_refused():
    scores = tiny_scores.scores()
    empty = Scores(scores.passages.iloc[:0], scores.questions.iloc[:0], scores.settings)
    with pytest.raises(ValueError, match="wants at least one question with a passage"):
        report.page(empty)


def test_a_picture_of_one_value_has_one_number_below_it():
    text = drawn.markup([drawn.histogram(np.full(5, 100.0), "ecorag", digits=0, what="tokens")])
    assert text.count(">100<") == 1 and "lowest 100" in text


# --- in a browser ----------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(BROWSER is None, reason="not run: no Chromium on the path")


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


def opened(browser, path, *, width=1280, scheme="light"):
    """The page and a list of what it asked for elsewhere or complained about."""
    page, wrong = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme), []
    page.on("console", lambda message: message.type == "error" and wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(error.message))
    page.on("request", lambda request: request.url != path.as_uri() and wrong.append(request.url))
    page.goto(path.as_uri())
    return page, wrong


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A report in which every text tries to be markup."""
    told = compared(60)
    scores = told.pop("scores")
    for table, names in ((scores.questions, ("question", "before", "answers")), (scores.passages, ("text", "title", "reply"))):
        for name in names:
            table[name] = EVIL
    scores.settings["reader"] = EVIL
    path = tmp_path_factory.mktemp("report") / "report.html"
    return report.write(scores, path, **told | {"other": EVIL, "title": EVIL})


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_it_asks_nobody_runs_nothing_and_fits(browser, evil, width, scheme):
    page, wrong = opened(browser, evil, width=width, scheme=scheme)
    page.click("#table tbody th button >> nth=0")
    for summary in page.query_selector_all("summary"):
        summary.click()
    assert page.inner_text(".detail").count("<script>") >= 5 and page.inner_text("h1") == EVIL
    assert page.evaluate("window.struck") is None and wrong == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 251)"
    assert light == (scheme == "light")
    page.close()


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(browser, evil, scheme):
    page, _ = opened(browser, evil, scheme=scheme)
    page.click("#table tbody th button >> nth=0")
    low = page.evaluate(CONTRASTS, CONTRAST)
    assert low == []
    page.close()


CONTRASTS = """least => {
  const parts = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = colour => parts(colour).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, place) => sum + v * [.2126, .7152, .0722][place], 0);
  const behind = node => { for (; node; node = node.parentElement) { const colour = getComputedStyle(node).backgroundColor;
    if (!colour.endsWith(", 0)")) return colour; } return "rgb(255, 255, 255)"; };
  const low = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length) continue;
    const style = getComputedStyle(node), ink = node.ownerSVGElement ? style.fill : style.color;
    const pair = [light(ink), light(behind(node))].sort((a, b) => b - a), ratio = (pair[0] + .05) / (pair[1] + .05);
    if (ratio < least) low.push([node.tagName, node.textContent.slice(0, 30), ratio]);
  }
  return low;
}"""


@needs_browser
@pytest.mark.slow
def test_it_sorts_searches_filters_and_turns_pages_by_keyboard(browser, tmp_path):
    scores = tiny_scores.scores(120)
    page, wrong = opened(browser, report.write(scores, tmp_path / "report.html"))

    def ids():
        return page.eval_on_selector_all("#table > tbody > tr > th", "nodes => nodes.map(node => node.textContent)")

    assert ids() == list(scores.questions["id"][:50]) and page.inner_text("#page") == "1 to 50 of 120"
    page.focus("#on")
    page.keyboard.press("Enter")
    assert ids() == list(scores.questions["id"][50:100])
    page.focus("#table thead th:has-text('DENSE entropy') button")
    page.keyboard.press("Enter")
    down = scores.questions.sort_values("dense_entropy", ascending=False, kind="stable")["id"]
    assert ids() == list(down[:50])
    assert page.get_attribute("#table thead th:has-text('DENSE entropy')", "aria-sort") == "descending"
    page.keyboard.press("Enter")
    assert ids()[0] == down.iloc[-1]
    page.keyboard.press("Enter")
    assert ids() == list(scores.questions["id"][:50])
    page.fill("#search", "passage 4 of <b>7</b>")
    assert ids() == ["q007"] and page.inner_text("#count") == "1 of 120 questions"
    page.fill("#search", "")
    page.select_option("#outcome", "hurt")
    pairs = scores.questions[["right_before", "right_with_list"]]
    assert ids() == list(scores.questions["id"][(pairs["right_before"] == 1) & (pairs["right_with_list"] == 0)])
    page.focus("#table tbody th button >> nth=0")
    page.keyboard.press("Enter")
    assert page.get_attribute("#table tbody th button >> nth=0", "aria-expanded") == "true"
    assert "Passages, as retrieved" in page.inner_text(".detail") and wrong == []
    page.close()


@needs_browser
@pytest.mark.slow
def test_a_thousand_questions_are_there_at_once(browser, tmp_path):
    """The browser builds the rows of one page of the table, however many there are: no timing, a count."""
    page, wrong = opened(browser, report.write(tiny_scores.scores(1000), tmp_path / "report.html"))
    assert page.inner_text("#count") == "1,000 questions" and wrong == []
    assert page.eval_on_selector_all("#table > tbody > tr", "nodes => nodes.length") == 50
    page.close()
