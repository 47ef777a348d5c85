"""A deck for the blackboard's other half: every chapter's figures, each with what is to be seen on it, in one file that asks no host.

usage: python book/slides.py [FOLDER]            FOLDER is _build/slides unless told; writes slides.html

Arrow keys turn the pages, without a script they stand below each other, and printing gives a PDF of one slide a page. The pictures are
those of the executed chapters, so run `make book` first if you changed one.
"""

import json
import re
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LABS = {"02": "seper", "03": "erag", "05": "dense", "06": "ecorag", "08": "moi"}  # after which chapter a lab comes
STYLE = """
@page { size: 1280px 720px; margin: 0 }
* { box-sizing: border-box }
body { margin: 0; background: #dcdcd8; color: #1c2024; font: 26px/1.4 system-ui, "Segoe UI", "DejaVu Sans", sans-serif }
section { width: min(100vw, 1280px); min-height: min(100vh, 720px); margin: 0 auto 1px; padding: 44px 56px; background: #fff;
  display: flex; flex-direction: column; gap: 18px; break-after: page; overflow-wrap: anywhere }
h1 { font-size: 46px; line-height: 1.2; margin: auto 0 0 } h2 { font-size: 24px; margin: 0; color: #575e66; font-weight: 600 }
p { margin: 0; max-width: 60em } .title p { margin: 0 0 auto; color: #575e66 }
img { max-width: 100%; max-height: 470px; object-fit: contain; margin: auto } .seen { font-size: 21px }
.one section { display: none }
.one section.on { display: flex; min-height: 100vh; width: 100vw; padding-inline: max(4vw, calc(50vw - 584px)) }
@media print { body { background: #fff } .one section { display: flex !important; width: 1280px; min-height: 719px } }
@media (max-width: 700px) { body { font-size: 18px } h1 { font-size: 30px } section { padding: 24px 18px } .seen { font-size: 16px } }
"""
SCRIPT = """
const slides = [...document.querySelectorAll("section")];
const turn = to => { const n = Math.max(0, Math.min(slides.length - 1, to));
  slides.forEach((slide, i) => slide.classList.toggle("on", i === n)); history.replaceState(null, "", "#" + (n + 1)); at = n; };
let at = 0; document.body.className = "one"; turn((parseInt(location.hash.slice(1)) || 1) - 1);
addEventListener("hashchange", () => turn((parseInt(location.hash.slice(1)) || 1) - 1));
const keys = {ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1};
addEventListener("keydown", event => { if (event.key in keys) { event.preventDefault(); turn(at + keys[event.key]); }
  else if (event.key === "Home") turn(0); else if (event.key === "End") turn(slides.length - 1); });
"""


def chapters() -> list[Path]:
    return sorted((ROOT / "book").glob("[0-9]*.ipynb"))


def figures(notebook: dict) -> list[tuple[str, str]]:
    """(source of the image, what is to be seen) of each picture among the outputs, in their order."""
    pairs = []
    for cell in notebook["cells"]:
        shown = cell["metadata"].get("mystnb", {})
        said = shown.get("figure", {}).get("caption") or shown.get("image", {}).get("alt", "")
        for output in cell.get("outputs", []):
            if png := output.get("data", {}).get("image/png"):
                pairs.append((f"data:image/png;base64,{''.join(png).replace(chr(10), '')}", said))
    return pairs


def title(notebook: dict) -> str:
    return re.search(r"^# (.+)$", "".join(notebook["cells"][0]["source"]), flags=re.MULTILINE)[1]


def question(lab: str) -> tuple[str, str]:
    """The title of a lab's handout, and its open question."""
    text = (ROOT / "labs" / lab / "handout.md").read_text(encoding="utf-8")
    asked = re.search(r"^## The open question.*?\n\n(.+?)\s*(?:\n\n|\Z)", text, flags=re.MULTILINE | re.DOTALL)[1]
    return text.splitlines()[0].removeprefix("# "), " ".join(re.sub(r"\*\*|`", "", asked).split())


def deck() -> str:
    slides = [_title("Measuring retrieval in RAG", "Five papers, taken apart with a small reader")]
    for path in chapters():
        notebook = json.loads(path.read_text(encoding="utf-8"))
        name = title(notebook)
        slides.append(_title(name, f"book/{path.name}"))
        for source, seen in figures(notebook):
            picture = f'<img src="{source}" alt="{escape(seen)}">'
            slides.append(f'<section><h2>{escape(name)}</h2>{picture}<p class="seen">{escape(seen)}</p></section>')
        if lab := LABS.get(path.name[:2]):
            asked, words = question(lab)
            slides.append(f"<section><h2>Lab: {escape(asked)}</h2><p>{escape(words)}</p></section>")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Slides</title><style>{STYLE}</style>'
    body = "\n".join(slides)
    return f'<!doctype html><html lang="en"><head>{head}</head><body>\n{body}\n<script>{SCRIPT}</script></body></html>\n'


def _title(name: str, below: str) -> str:
    return f'<section class="title"><h1>{escape(name)}</h1><p>{escape(below)}</p></section>'


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "_build" / "slides")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "slides.html").write_text(deck(), encoding="utf-8")
    print(folder / "slides.html")


if __name__ == "__main__":
    main()
