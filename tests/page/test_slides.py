"""The deck: every figure of every chapter with its words, the labs' questions, no other host; keys turn its pages."""

import json
import re
from pathlib import Path

import pytest
from browser import BROWSER
from scripts import script

slides = script("slides", folder="book")
DECK = slides.deck()


def test_every_figure_is_on_a_slide_with_what_is_to_be_seen():
    pictures = [picture for path in slides.chapters() for picture in slides.figures(json.loads(path.read_text("utf-8")))]
    assert len(pictures) > 30 and all(source.startswith("data:image/png;base64,iVBOR") and seen for source, seen in pictures)
    assert DECK.count("<img ") == len(pictures)
    outputs = sum(path.read_text("utf-8").count('"image/png":') for path in slides.chapters())
    assert outputs == len(pictures)


def test_every_chapter_and_every_lab_is_there():
    titles = [slides.title(json.loads(path.read_text("utf-8"))) for path in slides.chapters()]
    assert [name for name in titles if f"<h1>{slides.escape(name)}</h1>" not in DECK] == []
    labs = script("build", folder="labs").names()
    assert sorted(slides.LABS.values()) == labs
    assert all(len(words) > 60 and "?" in words for _, words in map(slides.question, labs))
    assert DECK.count("<h2>Lab: ") == len(labs)


def test_nothing_is_asked_of_a_host():
    addresses = re.findall(r"""(?: src=| href=|url\()["']?([a-z]*:?)""", DECK)
    assert set(addresses) == {"data:"} and "@import" not in DECK


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="not run: no Chromium on the path")
def test_keys_turn_the_pages(tmp_path):
    from playwright.sync_api import sync_playwright

    path = Path(tmp_path / "slides.html")
    path.write_text(DECK, encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(path.as_uri())
        shown = "() => [...document.querySelectorAll('section')].filter(s => s.getClientRects().length).length"
        assert page.evaluate(shown) == 1 and page.inner_text("h1") == "Measuring retrieval in RAG"
        page.keyboard.press("ArrowRight")
        assert page.url.endswith("#2") and page.evaluate(shown) == 1
        page.keyboard.press("End")
        assert page.url.endswith(f"#{DECK.count('<section')}")
        page.set_viewport_size({"width": 400, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        browser.close()
