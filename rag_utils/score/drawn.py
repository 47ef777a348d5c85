"""Elements of the report and its small pictures: text is always escaped, the same input gives the same bytes."""

import math
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree

import numpy as np

Element = ElementTree.Element
WIDTH, HEIGHT = 300, 118  # of a picture, in pixels: it is never shrunk, so its letters stay legible at 400
LEFT, RIGHT, BOTTOM = 8, 292, 96  # the frame that its data lie in
BARS = 20
POINTS = {  # family -> its mark, as in the book's figures, around (0, 0)
    "reply": "-5,-5 5,-5 5,5 -5,5",
    "seper": "0,-6.5 6.5,0 0,6.5 -6.5,0",
    "erag": "0,-6 6,5 -6,5",
    "dense": "0,-6.3 6,-1.9 3.7,5.1 -3.7,5.1 -6,-1.9",
    "ecorag": "6,0 4.2,4.2 0,6 -4.2,4.2 -6,0 -4.2,-4.2 0,-6 4.2,-4.2",
    "moi": "0,-7.5 1.9,-1.9 7.5,0 1.9,1.9 0,7.5 -1.9,1.9 -7.5,0 -1.9,-1.9",
}


def tag(name: str, *children, **attributes) -> Element:
    """An element with texts and elements in it; `class_` is class, `aria_label` is aria-label."""
    node = Element(name, {key.rstrip("_").replace("_", "-"): str(value) for key, value in attributes.items()})
    for child in children:
        if isinstance(child, Element):
            node.append(child)
        elif len(node):
            node[-1].tail = (node[-1].tail or "") + str(child)
        else:
            node.text = (node.text or "") + str(child)
    return node


def markup(nodes: Iterable[Element]) -> str:
    return "\n".join(ElementTree.tostring(node, encoding="unicode", method="html") for node in nodes)


def number(value: float, digits: int = 2, sign: bool = False) -> str:
    """A number as the report writes it: a true minus, commas between thousands, "–" where there is none.

    >>> number(-0.123), number(0.5, sign=True), number(1234.4, 0), number(float("nan")), number(-0.001, sign=True)
    ('−0.12', '+0.50', '1,234', '–', '0.00')
    """
    if not math.isfinite(value):
        return "–"
    text = f"{value:{'+' if sign else ''}z,.{digits}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else text.lstrip("+-")


def mark(family: str, x: float = 8, y: float = 8) -> Element:
    return tag("polygon", points=POINTS[family], transform=f"translate({x:g} {y:g})", class_=f"fill {family}")


def key(family: str) -> Element:
    """The mark alone, before a text."""
    return tag("svg", mark(family), class_="key", width=16, height=16, viewBox="0 0 16 16", aria_hidden="true")


def interval(value: float, low: float, high: float, axis: tuple[float, float], family: str) -> Element:
    """A mark and its interval on an axis that all rows share; a screen reader has the numbers beside it."""
    at = _scale(axis, 8, 172)
    parts = [_line(8, 10, 172, 10, "rule")]
    if axis[0] < 0 < axis[1]:
        parts.append(_line(at(0), 2, at(0), 18, "zero"))
    if math.isfinite(low) and math.isfinite(high):
        parts.append(_line(at(low), 10, at(high), 10, f"bar {family}"))
    if math.isfinite(value):
        parts.append(mark(family, at(value), 10))
    return tag("svg", *parts, class_="plot", width=180, height=20, viewBox="0 0 180 20", aria_hidden="true")


def ruler(axis: tuple[float, float], digits: int) -> Element:
    """The ends and the middle of the axis above the rows of `interval`."""
    at, places = _scale(axis, 8, 172), (axis[0], (axis[0] + axis[1]) / 2, axis[1])
    anchors = ("start", "middle", "end")
    texts = [_text(x, 12, number(place, digits), anchor) for x, place, anchor in zip((2, at(places[1]), 178), places, anchors, strict=True)]
    return tag("svg", *texts, class_="plot", width=180, height=16, viewBox="0 0 180 16", aria_hidden="true")


def histogram(values: np.ndarray, family: str, *, axis=None, digits: int = 2, what: str) -> Element:
    """Counts in equal steps, the median as a dashed line.

    values : (n,) finite, n >= 1
    axis   : ends of the scale; where it is None, those of the values
    """
    low, high = axis or (float(values.min()), float(values.max()))
    if is_one := low == high:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(np.clip(values, low, high), bins=BARS, range=(low, high))
    at, top = _scale((low, high), LEFT, RIGHT), counts.max()
    median, quarter, three = (float(np.quantile(values, share)) for share in (0.5, 0.25, 0.75))
    parts = []
    for count, start, stop in zip(counts, edges, edges[1:], strict=False):
        height = 70 * count / top
        box = {"x": f"{at(start) + 0.75:.1f}", "width": f"{at(stop) - at(start) - 1.5:.1f}"}
        box |= {"y": f"{BOTTOM - height:.1f}", "height": f"{height:.1f}"}
        parts.append(tag("rect", **box, class_=f"fill {family}"))
    parts += [_line(LEFT, BOTTOM, RIGHT, BOTTOM, "rule"), _line(at(median), 16, at(median), BOTTOM, "dashed")]
    anchor = "start" if at(median) < 60 else "end" if at(median) > 240 else "middle"
    parts.append(_text(at(median), 11, f"median {number(median, digits)}", anchor))
    middle = (low + high) / 2
    ends = ((LEFT, low, "start"), (at(middle), middle, "middle"), (RIGHT, high, "end"))
    for x, place, where in ends[1:2] if is_one else ends:
        parts.append(_text(x, 112, number(place, digits), where))
    told = [number(part, digits) for part in (values.min(), quarter, median, three, values.max())]
    label = f"{what}: lowest {told[0]}, quarter {told[1]}, median {told[2]}, three quarters {told[3]}, highest {told[4]}"
    return _picture(parts, HEIGHT, label)


def bars(counts: Mapping[str, int], family: str, *, what: str) -> Element:
    """A bar for each word with its count and share."""
    total, top, parts = sum(counts.values()), max(counts.values()), []
    for row, (word, count) in enumerate(counts.items()):
        y, length = 28 * row, 100 * count / top
        bar = tag("rect", x=112, y=y + 6, width=f"{length:.1f}", height=16, class_=f"fill {family}")
        parts += [_text(104, y + 18, word, "end"), bar]
        parts.append(_text(117 + length, y + 18, f"{count:,} ({count / total:.0%})"))
    told = ", ".join(f"{word} {count}" for word, count in counts.items())
    return _picture(parts, max(HEIGHT, 28 * len(counts)), f"{what}: {told}")


def by_rank(rows: Mapping[int, tuple[float, float, float]], family: str, *, what: str, digits: int = 2) -> Element:
    """The mean at each rank with its interval: rank -> value, low, high, all finite."""
    low, high = min(0.0, *(row[1] for row in rows.values())), max(0.0, *(row[2] for row in rows.values()))
    left, lowest, highest = 44, min(rows), max(rows)
    at, up = _scale((lowest - 0.5, highest + 0.5), left, RIGHT), _scale((low, high), BOTTOM - 8, 10)
    parts = [_line(left, up(0), RIGHT, up(0), "rule")]
    for place in sorted({low, 0.0, high}):
        if place == 0 or abs(up(place) - up(0)) > 12:
            parts.append(_text(left - 6, up(place) + 4, number(place, digits), "end"))
    step = math.ceil((highest - lowest + 1) / 10)
    for rank, (value, below, above) in rows.items():
        parts += [_line(at(rank), up(below), at(rank), up(above), f"bar {family}"), mark(family, at(rank), up(value))]
        if (rank - lowest) % step == 0:
            parts.append(_text(at(rank), 112, rank, "middle"))
    told = ", ".join(f"rank {rank} {number(row[0], digits)}" for rank, row in rows.items())
    return _picture(parts, HEIGHT, f"{what}: {told}")


def _picture(parts: list[Element], height: int, label: str) -> Element:
    box = f"0 0 {WIDTH} {height}"
    return tag("svg", *parts, class_="plot", width=WIDTH, height=height, viewBox=box, role="img", aria_label=label)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Element:
    ends = {name: f"{value:.1f}" for name, value in (("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2))}
    return tag("line", **ends, class_=kind)


def _text(x: float, y: float, content, anchor: str = "start") -> Element:
    return tag("text", content, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _scale(axis: tuple[float, float], start: float, stop: float):
    """From a number to its place; what lies outside the axis is drawn at its end."""
    low, high = axis
    return lambda value: start + (stop - start) * (min(max(value, low), high) - low) / (high - low or 1)
