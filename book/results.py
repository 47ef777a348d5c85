"""Directives that read the executed pages when the book is built, so that what they show is what the pages say.

{results}    every claim and every printed value that is held against a measurement, with its verdict, as one table to filter
{inventory}  every table and figure of the five papers, and what became of it
{status}     what each page was made with: its live check, how long it replays, the versions of what it stands on
{chapters}   what each chapter asks for from nothing: calls, tokens, minutes and memory, planned; for larger profiles estimated
{plans}      runs that were planned and then made: calls, minutes and memory, and plans of runs that were not made, marked so
"""

import csv
import json
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bs4 import BeautifulSoup
from docutils import nodes
from docutils.parsers.rst import Directive

from book.essay import breakable, table
from rag_utils.page.report import VERDICTS

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "_build" / "pictures"
WIDE = 850  # pixels of a figure whose type is too small on a phone unless it may be wider than the page
PAPERS = {
    "01": "SePer",
    "02": "SePer",
    "03": "eRAG",
    "04": "DENSE",
    "05": "DENSE",
    "06": "ECoRAG",
    "07": "MoI",
    "08": "MoI",
    "09": "all five",
    "10": "all five",
    "14": "SePer",
}
COLUMNS = ("paper", "claim or value", "printed", "here", "verdict, and why or what limits it", "where")
CARD = ("the paper's claim", "printed", "here", "verdict", "what limits it")
COMPARED = ("value [low, high]", "n", "published", "verdict", "why")
KINDS = ("claims of the essays", "values of the records")
LIBRARIES = ("torch", "transformers", "sentence-transformers", "numpy", "scipy", "pandas", "statsmodels", "ir-measures")
CHECKED = re.compile(
    r"\d+ of \d+ recorded calls computed again: \d+ tokens within 0\.02 nat each"
    r"(?:,\s+\d+ greedy repl(?:y|ies) reproduced)?\."
)
SCRIPT = """
const rows = [...document.querySelector("table.results").tBodies[0].rows], form = document.querySelector("form.results");
const kind = row => KINDS[Number(row.cells[5].querySelector("a").getAttribute("href").startsWith("record/"))];
const filter = () => {
  const [shown, paper, verdict, word] = ["rows", "paper", "verdict", "word"].map(name => form.elements[name].value);
  let left = 0;
  for (const row of rows) {
    row.hidden = (shown && kind(row) !== shown) || (paper && row.cells[0].textContent !== paper)
        || (verdict && row.cells[4].firstChild.textContent !== verdict) || !row.textContent.toLowerCase().includes(word.toLowerCase());
    left += !row.hidden; }
  form.querySelector("output").textContent = left + " of " + rows.length + " rows"; };
for (const link of document.querySelectorAll("table.tally a")) link.addEventListener("click", () => {
  form.elements.rows.value = KINDS[0];
  for (const name of ["paper", "verdict"]) form.elements[name].value = link.dataset[name]; filter(); });
form.elements.rows.value = KINDS[0];
form.addEventListener("input", filter); form.addEventListener("submit", event => event.preventDefault()); filter();
"""


def pages() -> Iterator[tuple[str, dict]]:
    """(name below book/, notebook) of every executed page, essays first."""
    for path in [*sorted((ROOT / "book").glob("[0-9]*.ipynb")), *sorted((ROOT / "book/record").glob("[0-9]*.ipynb"))]:
        yield path.relative_to(ROOT / "book").with_suffix("").as_posix(), json.loads(path.read_text(encoding="utf-8"))


def outputs(page: dict, kind: str) -> list[str]:
    """The outputs of a page of one kind, "text/html" or "stream"."""
    every = [output for cell in page["cells"] for output in cell.get("outputs", [])]
    return [
        "".join(output.get("text") or output["data"][kind]) for output in every if kind in (output["output_type"], *output.get("data", {}))
    ]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A claim of a card, or a row of a comparison table, that is held against what a paper prints."""

    paper: str
    what: str
    of: str  # what the values of its table are, as its cell says under "compared"; of a claim nothing
    printed: str
    here: str  # value, interval and n
    verdict: str
    why: str
    where: str  # address, of a row of a record with the section
    title: str  # of the page, or of that section


def compared() -> list[Row]:
    """The claims of the cards, essays first, and the rows of the comparison tables that have a printed value."""
    return [row for name, page in pages() for row in _of_page(name, page)]


def _of_page(name: str, page: dict) -> Iterator[Row]:
    in_record = name.startswith("record/")
    titles = [line for cell in page["cells"] if cell["cell_type"] == "markdown" for line in "".join(cell["source"]).splitlines()]
    title = next((line.lstrip("# ") for line in titles if line.startswith("# ")), name)
    for cell in page["cells"]:
        if cell["cell_type"] == "markdown" and in_record:
            title = next((line.lstrip("# ") for line in reversed("".join(cell["source"]).splitlines()) if line.startswith("#")), title)
        for html in outputs({"cells": [cell]}, "text/html"):
            for said in _rows(html):
                claimed = {*CARD} <= {*said}
                if not claimed and said["published"] == "not printed":
                    continue
                what, paper = said[CARD[0] if claimed else ""], PAPERS[Path(name).name[:2]]
                first, _, rest = what.partition(": ")
                yield Row(
                    paper=first if first in PAPERS.values() else paper,
                    what=rest if first in PAPERS.values() else what,
                    of="" if claimed else cell["metadata"]["compared"],
                    printed=said["printed" if claimed else "published"],
                    here=said["here"] if claimed else f"{said[COMPARED[0]]}, n = {said['n']}",
                    verdict=said["verdict"],
                    why=said[CARD[-1] if claimed else "why"],
                    where=f"{name}.html" + (f"#{nodes.make_id(title)}" if in_record else ""),
                    title=title,
                )


def _rows(html: str) -> Iterator[dict[str, str]]:
    """The rows of a table that is a card or a comparison, column -> text; of any other table none."""
    shown = BeautifulSoup(html, "html.parser").table
    head = [cell.get_text(strip=True) for cell in shown.thead.find_all("th")] if shown and shown.thead else []
    for row in shown.tbody.find_all("tr") if {*CARD} <= {*head} or {*COMPARED} <= {*head} else ():
        yield dict(zip(head, (part.get_text(" ", strip=True) for part in row.find_all(["td", "th"])), strict=False))


def results_html() -> str:
    rows = compared()
    verdicts = [word for word in VERDICTS if any(row.verdict == word for row in rows)]
    options = {"rows": KINDS, "paper": list(dict.fromkeys(row.paper for row in rows)), "verdict": verdicts}
    form = "".join(f'<label>{name} <select name="{name}">{chosen(every)}</select></label> ' for name, every in options.items())
    form = f'<form class="results" id="rows">{form}<label>with the words <input name="word" type="search"></label> <output></output></form>'
    body = []
    for row in rows:
        what = escape(row.what) + (f"<br><small>{escape(row.of)}</small>" if row.of else "")
        here = escape(row.here).replace(" ", "&nbsp;").replace(",&nbsp;n", ", n")  # breaks before n only
        verdict = f"<b>{row.verdict}</b><br><small>{escape(row.why)}</small>"
        body.append([row.paper, what, escape(row.printed), here, verdict, f'<a href="{row.where}">{escape(row.title)}</a>'])
    script = f"const KINDS = {json.dumps(KINDS)};{SCRIPT}"
    return f"{_tally(rows, verdicts)}{form}{table(COLUMNS, body, 'results claims')}<script>{{{script}}}</script>"


def _tally(rows: list[Row], verdicts: list[str]) -> str:
    """How many claims of the essays have which verdict, by paper; a number leads to its rows."""
    claims = Counter((row.paper, row.verdict) for row in rows if not row.where.startswith("record/"))
    papers, body = list(dict.fromkeys(paper for paper, _ in claims)), []
    for title, of in [*((paper, [paper]) for paper in papers), ("all", papers)]:
        named = title if title in papers else ""
        counts = {word: sum(claims[paper, word] for paper in of) for word in verdicts}
        links = [f'<a href="#rows" data-paper="{named}" data-verdict="{word}">{n}</a>' if n else "–" for word, n in counts.items()]
        body.append([title, *links])
    return table(("paper", *verdicts), body, "tally claims")


def chosen(names: Iterable[str]) -> str:
    """The options of a list to choose from, all of them first."""
    return '<option value="">all</option>' + "".join(f"<option>{escape(name)}</option>" for name in names)


def inventory_html() -> str:
    titles, rows = {paper.lower(): paper for paper in PAPERS.values()}, []
    for path in sorted((ROOT / "data/published").glob("*_items.csv")):
        paper = titles[path.stem.removesuffix("_items")]
        with path.open(encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                page, _, anchor = row["where"].partition("#")
                status = f'<a href="{page}.html#{anchor}">{row["status"]}</a>' if page else escape(row["status"])
                rows.append([*map(escape, (paper, row["item"], row["part"] or row["caption"])), status, breakable(row["reason"])])
    return table(("paper", "item", "what", "status", "how, or why not"), rows)


def status_html() -> str:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    lock += (ROOT / "Makefile").read_text(encoding="utf-8").replace(":= ", "\n")
    pins = {name: re.search(rf"^{name}==([\w.]+)", lock, flags=re.MULTILINE) for name in LIBRARIES}
    times, rows = stored("replay", seconds={}), []
    for name, page in pages():
        checks = [" ".join(line.split()) for text in outputs(page, "stream") for line in CHECKED.findall(text)]
        seconds = f"{times['seconds'][name]:.0f} s" if name in times["seconds"] else "–"
        rows.append([f'<a href="{name}.html">{name}</a>', seconds, escape(" ".join(checks)) or "–"])
    made = ", ".join(f"{name} {pin[1]}" for name, pin in pins.items() if pin)
    return f"<p>Python 3.11, {made}. {escape(times['machine'])}</p>" + table(("page", "replay", "live check"), rows)


def plans_html() -> str:
    plans, rows = stored("plans", runs=[]), []
    for run in plans["runs"]:
        planned, real = run["planned"], run["real"]
        given = ", ".join(f"{name} = {value}" for name, value in run["parameters"].items())
        bound = "at most " if planned["at_most"] else ""
        cells = [run["chapter"], run["profile"], f"{run['mode']}; {given}" if given else run["mode"]]
        cells += [f"{planned['prompts']:,}", f"{planned['distinct']:,}", f"{bound}{planned['minutes']:.1f}"]
        cells += [f"{real['minutes']:.1f}" if real else "not run", f"{planned['gigabytes']:.1f}"]
        cells += [f"{real['gigabytes']:.1f}" if real else "not run"]
        rows.append(map(breakable, cells))
    head = ("chapter", "profile", "how", "prompts", "tokens read", "minutes, estimated", "minutes, measured")
    return f"<p>{escape(plans['machine'])}</p>" + table((*head, "GB, estimated", "GB, measured"), rows)


def chapters_html() -> str:
    """What each chapter asks for from nothing, and by profile how long that takes and what memory the weights need."""
    plans, rows = stored("chapters", chapters=[], profiles=[]), []
    for row in plans["chapters"]:
        cells = [f"{row['chapter']}{', at most' if row['at_most'] else ''}"]
        cells += [f"{row[name]:,}" for name in ("prompts", "distinct", "judging", "said")]
        cells += [f"{row['minutes']:.0f} min, {row['gigabytes']:.1f} GB"]
        work = (row["distinct"] - row["judging"] + row["said"]) / 1e6
        cells += [f"{max(1, round(each['minutes_a_million'] * work))} min, {each['gigabytes']:.0f} GB" for each in plans["profiles"]]
        rows.append(map(breakable, cells))
    named = [f"{each['name']} (estimated)" for each in plans["profiles"]]
    head = ("chapter", "prompts", "tokens read", "of these to judge", "tokens said", "embedded (planned)", *named)
    return f"<p>{escape(plans['machine'])}</p>" + table(head, rows)


def stored(name: str, **empty) -> dict:
    """What a benchmark wrote; nothing, in the same form, if it has not been run."""
    path = ROOT / f"benchmarks/{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"machine": "", **empty}


def figure_of(page: dict, name: str) -> tuple[bytes, str]:
    """The picture and the alternative text of the cell that names its figure so; KeyError if there is none."""
    for cell in page["cells"]:
        shown = cell["metadata"].get("mystnb", {})
        if shown.get("figure", {}).get("name") == name:
            [png] = [each["data"]["image/png"] for each in cell["outputs"] if "image/png" in each.get("data", {})]
            return b64decode("".join(png)), shown["image"]["alt"]
    raise KeyError(name)


class Picture(Directive):
    required_arguments, has_content = 2, True

    def run(self):
        notebook, name = self.arguments
        png, alt = figure_of(dict(pages())[notebook], name)
        PICTURES.mkdir(parents=True, exist_ok=True)
        PICTURES.joinpath(f"{name}.png").write_bytes(png)
        wide = ["wide"] if int.from_bytes(png[16:20], "big") > WIDE else []
        image = nodes.image(uri=f"/{PICTURES.relative_to(ROOT).as_posix()}/{name}.png", alt=alt, classes=wide)
        figure = nodes.figure("", image)
        words, problems = self.state.inline_text(" ".join(self.content), self.lineno)
        figure += nodes.caption("", "", *words)
        return [figure, *problems]


SHOWN = {
    "results": results_html,
    "inventory": inventory_html,
    "status": status_html,
    "plans": plans_html,
    "chapters": chapters_html,
}


class Shown(Directive):
    def run(self):
        return [nodes.raw("", SHOWN[self.name](), format="html")]


def read_again(app, env, names):
    """What they show changes with other files than their own."""
    names.extend({"book/intro", "book/results", "book/status", "book/workstation"} & env.found_docs - {*names})


def setup(app):
    for name in SHOWN:
        app.add_directive(name, Shown)
    app.add_directive("picture", Picture)
    app.connect("env-before-read-docs", read_again)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
