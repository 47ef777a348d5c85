"""The built pages in a browser: no other host, mathematics, search, folded solutions, dark mode, narrow screens."""

import functools
import http.server
import threading
from pathlib import Path

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from browser import BROWSER

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
BUILD = "`make test` or `.venv/bin/jupyter-book build . -W -n --keep-going`"
HOST = "127.0.0.1"
KNOWN_MESSAGES = ("Identifier 'THEBE_JS_URL' has already been declared",)  # every page of this theme
SEARCH_WORD, SEARCH_PAGE = "recordings", "book/numbers"
NARROW, WIDE = {"width": 400, "height": 800}, {"width": 1280, "height": 900}
CONTRAST = 4.5  # WCAG 2.2, level AA, body text


def pages_of(entry) -> list[str]:
    """Every page of a table of contents, in order."""
    if isinstance(entry, list):
        return [page for part in entry for page in pages_of(part)]
    own = [entry[key] for key in ("root", "file") if key in entry]
    return own + [page for key in ("parts", "chapters", "sections") for page in pages_of(entry.get(key, []))]


PAGES = pages_of(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
pytestmark = pytest.mark.skipif(
    BROWSER is None,
    reason="not run: no Chromium on the path and none of playwright's own (`playwright install chromium` fetches one)",
)
each_page = pytest.mark.parametrize("name", PAGES)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def site():
    """The address of the built pages, served on loopback."""
    missing = [name for name in PAGES if not (SITE / f"{name}.html").is_file()]
    if missing:
        pytest.fail(f"pages that are not built: {', '.join(missing)}; {BUILD} builds them", pytrace=False)
    handler = functools.partial(QuietHandler, directory=SITE)
    with http.server.ThreadingHTTPServer((HOST, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{HOST}:{server.server_port}"
        server.shutdown()


class Visit:
    """One page, loaded once; later tests of the same page find it open."""

    def __init__(self, context, site: str, name: str):
        self.elsewhere, self.messages = [], []
        self.page = context.new_page()
        self.page.on("console", lambda message: message.type == "error" and self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(error.message))
        self.page.on("response", self._note_failure)
        self.page.route(lambda url: not url.startswith((site + "/", "data:", "blob:")), self._refuse)
        self.page.goto(f"{site}/{name}", wait_until="load")
        self.page.evaluate("() => window.MathJax?.startup?.promise")
        self.page.wait_for_load_state("networkidle")

    def _note_failure(self, reply):
        if reply.status >= 400:
            self.messages.append(f"{reply.status} {reply.url}")

    def _refuse(self, route):
        self.elsewhere.append(route.request.url)
        route.abort()


@pytest.fixture(scope="module")
def visit(site):
    """A function from the name of a page to its visit, all in one browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=BROWSER, args=arguments)
        context = browser.new_context(viewport=WIDE, color_scheme="light", reduced_motion="reduce")
        context.set_default_timeout(10_000)
        yield functools.cache(lambda name: Visit(context, site, f"{name}.html"))
        browser.close()


@pytest.fixture
def page(visit, name):
    """The page of that name, in front: a page behind another one waits with its animations."""
    visit(name).page.bring_to_front()
    return visit(name).page


@each_page
def test_asks_no_other_host(visit, name):
    assert visit(name).elsewhere == []


@each_page
def test_console_is_silent(visit, name):
    assert [text for text in visit(name).messages if not any(known in text for known in KNOWN_MESSAGES)] == []


MATHEMATICS = """() => {
    const article = document.querySelector("article.bd-article");
    const text = article.cloneNode(true);
    text.querySelectorAll("pre, code, script, style, mjx-container").forEach(node => node.remove());
    return {
        unrendered: [...article.querySelectorAll(".math")].filter(node => !node.querySelector("mjx-container")).length,
        errors: [...article.querySelectorAll("mjx-merror, [data-mjx-error]")].map(node => node.textContent),
        raw: text.textContent.match(/\\$\\$|\\\\\\(|\\\\\\[|\\\\begin\\{/g) || [],
    };
}"""


@each_page
def test_mathematics_is_rendered(page):
    assert page.evaluate(MATHEMATICS) == {"unrendered": 0, "errors": [], "raw": []}


def test_first_page_shows_an_equation(visit):
    assert visit(PAGES[0]).page.locator("article .math mjx-container[display=true]").count() >= 1


@each_page
def test_images_have_alternative_text(page):
    without = "nodes => nodes.filter(node => !node.alt.trim()).map(node => node.outerHTML.slice(0, 200))"
    assert page.eval_on_selector_all("img", without) == []


@each_page
def test_solutions_unfold(page):
    """Every exercise has a folded solution, and a click opens it."""
    solutions = page.locator("article .solution")
    assert solutions.count() == page.locator("article .exercise").count(), "exercises and solutions do not pair up"
    for solution in solutions.all():
        content = solution.locator("section").first
        assert not content.is_visible(), "a solution is open before anybody asked (`:class: dropdown` is missing)"
        solution.locator("button.toggle-button").first.click()  # the title itself is a link to the exercise
        content.wait_for(state="visible")


THEME = "document.documentElement.dataset.theme"
COLOURS = """() => {
    const parse = colour => {
        const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
        return {rgb: [r, g, b], a};
    };
    const background = node => {
        for (; node; node = node.parentElement) {
            const {rgb, a} = parse(getComputedStyle(node).backgroundColor);
            if (a === 1) return rgb;
        }
        return [255, 255, 255];
    };
    const article = document.querySelector("article.bd-article");
    const texts = [...article.querySelectorAll("p, li, td, h1, h2, code")].filter(node => node.checkVisibility());
    return {
        texts: texts.map(node => ({
            what: node.textContent.slice(0, 40),
            colour: parse(getComputedStyle(node).color).rgb,
            background: background(node),
        })),
        pictures: [...article.querySelectorAll("img:not(.photo)")].map(node => getComputedStyle(node))
            .map(style => ({ground: parse(style.backgroundColor).a, filter: style.filter})),
    };
}"""


def luminance(rgb) -> float:
    """Relative luminance of an sRGB colour, as WCAG defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)]
    return float(sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True)))


def contrast(one, other) -> float:
    """1 (same luminance) to 21 (black on white)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def unreadable(colours: dict) -> list:
    return [text for text in colours["texts"] if contrast(text["colour"], text["background"]) < CONTRAST]


def test_contrast_of_known_colours():
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)
    assert contrast([119, 119, 119], [255, 255, 255]) == pytest.approx(4.48, abs=0.01)


@each_page
def test_dark_mode(page):
    """The switch works, text is readable on both sides of it; figures stand on the page itself and turn dark ink into light."""
    assert page.evaluate(THEME) == "light"
    assert unreadable(page.evaluate(COLOURS)) == []
    switch = page.locator("button.theme-switch-button:visible").first
    for _ in range(3):  # the switch goes through light, dark and automatic
        switch.click()
        if page.evaluate(THEME) == "dark":
            break
    assert page.evaluate(THEME) == "dark"
    colours = page.evaluate(COLOURS)
    assert unreadable(colours) == []
    assert [one for one in colours["pictures"] if one["ground"] or not one["filter"].startswith("invert(1)")] == []
    page.evaluate("() => localStorage.clear()")  # the next page begins in the light


THEMES = ("region", "empty-table-header")  # moderate and minor: the theme's sidebar; pandas' heads of tables with an index
STILL = "*, *::before, *::after {transition: none !important}"  # else colours are read half way from light to dark


@each_page
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_serious_is_found_by_axe(page, theme):
    """axe-core's rules: no finding that it calls critical or serious, and of the lesser ones only those that are not ours."""
    before = page.evaluate(THEME)
    page.add_style_tag(content=STILL)
    page.evaluate(f"() => {{ {THEME} = '{theme}' }}")
    found = Axe().run(page).response["violations"]
    page.evaluate(f"() => {{ {THEME} = '{before}' }}")
    said = [(one["impact"], one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]
    assert [one for one in said if one[1] not in THEMES] == []


@each_page
def test_links_of_cards_and_results_lead_somewhere(page, name):
    links = page.eval_on_selector_all("table.claims a", "nodes => nodes.map(node => node.getAttribute('href'))")
    for link in sorted(set(links)):
        path, _, anchor = link.partition("#")
        target = (SITE / f"{name}.html").parent / path if path else SITE / f"{name}.html"
        assert target.is_file(), link
        assert not anchor or f'id="{anchor}"' in target.read_text(encoding="utf-8"), link


@pytest.mark.parametrize("name", ["book/results"])
def test_a_number_of_the_tally_shows_so_many_claims(page, name):
    shown = "rows => rows.filter(row => !row.hidden).length"
    try:
        for link in page.locator("table.tally a").all():
            link.click()
            assert page.eval_on_selector_all("table.results tbody tr", shown) == int(link.text_content())
        page.select_option("form.results select[name=rows]", "")
        page.select_option("form.results select[name=verdict]", "")
        assert page.eval_on_selector_all("table.results tbody tr", shown) > 200
    finally:
        page.reload()


PRINTED = """() => ({
    solutions: [...document.querySelectorAll("article .solution, article details.hide > *")].filter(node => node.checkVisibility()).length,
    cut: [...document.querySelectorAll("article pre")].filter(node => getComputedStyle(node).whiteSpace !== "pre-wrap").length,
})"""


@each_page
def test_print_has_no_solutions_and_no_cut_code(page):
    page.emulate_media(media="print")
    try:
        assert page.evaluate(PRINTED) == {"solutions": 0, "cut": 0}
    finally:
        page.emulate_media(media="screen")


OVERFLOW = """() => {
    const scrolls = node => {
        for (; node && node.tagName !== "BODY"; node = node.parentElement)
            if (["auto", "scroll"].includes(getComputedStyle(node).overflowX)) return true;
        return false;
    };
    const root = document.documentElement;
    return {
        page: Math.max(root.scrollWidth, document.body.scrollWidth) - root.clientWidth,
        cut_off: [...document.querySelectorAll("article :is(table, img, pre, p, mjx-container, svg)")]
            .filter(node => node.checkVisibility() && node.getBoundingClientRect().right > root.clientWidth + 1)
            .filter(node => !scrolls(node)).map(node => node.outerHTML.slice(0, 120)),
    };
}"""


@each_page
def test_narrow_screen(page):
    """At 400 pixels nothing is wider than the page unless it scrolls in its own box."""
    page.set_viewport_size(NARROW)
    try:
        for _ in range(20):  # the sidebars slide out of the way
            found = page.evaluate(OVERFLOW)
            if found["page"] == 0:
                break
            page.wait_for_timeout(100)
        assert found == {"page": 0, "cut_off": []}
    finally:
        page.set_viewport_size(WIDE)


BESIDE = """() => {
    const room = document.querySelector("article .page-content, article section").getBoundingClientRect().right;
    return [...document.querySelectorAll("article table.claims")].map(table => table.getBoundingClientRect().right - room)
        .filter(beyond => beyond > 1);
}"""


@each_page
def test_a_table_of_words_stays_in_its_column(page):
    assert page.evaluate(BESIDE) == []


def test_search_finds_a_known_word(visit):
    found = visit("search").page
    found.goto(f"{found.url}?q={SEARCH_WORD}")
    hit = found.locator(f"#search-results a[href*='{SEARCH_PAGE}']").first
    hit.wait_for(state="visible")
    assert visit("search").elsewhere == []
