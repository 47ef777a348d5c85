"""What a chapter says about its numbers: published values, verdicts, comparison tables, provenance.

Everything shown here prints the same text on every run: no times, no paths, no ids, no order of a set.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from html import escape
from importlib import metadata
from numbers import Integral, Real
from pathlib import Path

import pandas as pd

from rag_utils.base import checks
from rag_utils.base.cache import ROOT
from rag_utils.base.names import check_name

PUBLISHED = ROOT / "data" / "published"
TABLE_COLUMNS = ("metric", "value", "source", "note")  # and whatever names the row: evaluator, dataset, system, ...
ITEM_COLUMNS = ("item", "part", "caption", "status", "reason")
STATUSES = ("measured here", "later chapter", "not run here")
VERDICTS = ("reproduced", "same direction", "undecided", "contradicted", "differs", "not run here")
COLUMNS = ("value [low, high]", "n", "unparsed", "published", "verdict", "why")

_CLOSE = 1e-9  # what floating point may do to a boundary
_LEVEL = 0.05  # of the p-value that goes with a 95 % interval
_WIDEST = 0.1  # half-width, on a scale of 0 to 1, that still counts as a measurement of a value
_NO_WIDTH = "an interval without width says nothing about the error"


def published(name: str) -> pd.DataFrame:
    """The numbers that a paper prints, one row per value, or the list of its tables and figures (`<paper>_items`).

    name    : file in data/published without ".csv", e.g. "seper_table1"
    returns : text columns as text ("" where empty), `value` as float in the unit of the paper
    raises  : ValueError for an unknown name (with near names), missing columns, values that are not finite, rows
              without a source, rows that occur twice, a status that is unknown
    """
    check_name("published table", name, (path.stem for path in PUBLISHED.glob("*.csv")))
    return _read_published(PUBLISHED / f"{name}.csv")


def _read_published(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    wanted = ITEM_COLUMNS if path.stem.endswith("_items") else TABLE_COLUMNS
    if table.empty or not {*wanted} <= {*table.columns}:
        raise ValueError(f"{path.name}: got {len(table)} rows with columns {list(table.columns)}, wanted {wanted}")
    if wanted is ITEM_COLUMNS:
        for status in table["status"]:
            check_name(f"status in {path.name}", status, STATUSES)
        unexplained = table["item"][(table["status"] != "measured here") & (table["reason"] == "")]
        if len(unexplained):
            raise ValueError(f"{path.name}: wanted a reason for what is not measured, none for {unexplained.iloc[0]!r}")
        keys = table[["item", "part"]]
    else:
        value = pd.to_numeric(table["value"], errors="coerce")
        if len(bad := table.index[~value.map(math.isfinite) | (table["source"] == "")]):
            raise ValueError(f"{path.name}: wanted a finite value and a source, line {bad[0] + 2} lacks one")
        table["value"] = value.astype(float)
        keys = table.drop(columns=["value", "note"])
    if len(again := keys.index[keys.duplicated()]):
        raise ValueError(f"{path.name}: line {again[0] + 2} names the same cell as an earlier line")
    return table


@dataclass(frozen=True)
class Verdict:
    """A word from VERDICTS and the reason for it, which is never empty, as in `Verdict("not run here", "needs a 7B model")`."""

    verdict: str
    why: str

    def __post_init__(self):
        check_name("verdict", self.verdict, VERDICTS)
        _filled("why", self.why)


def value_verdict(
    estimate, published: float, *, scale: float, same_model: bool, same_data: bool, exact_within: float | None = None
) -> Verdict:
    """Verdict on one printed value: "reproduced", "differs" or "undecided".

    estimate       : .value .low .high .n, always on a scale of 0 to 1 (-1 to 1 for correlations)
    published      : the value as printed
    scale          : what the paper prints for a full 1: 1, or 100 where it prints per cent
    same_model     : the published value was made with this very model (or none is involved)
    same_data      : ... and on these very questions and answers
    exact_within   : None for a measurement. A number, in the paper's unit, says that the value is recomputed from
                     the same answers, so that nothing is sampled: the interval and its width then play no part
    raises         : ValueError for anything out of range, and for `exact_within` with another model or other data

    The rules, first that applies (p is published / scale):

    1. exact: "reproduced" if |scale * value - published| <= exact_within, else "differs".
    2. the interval has no width: "undecided"; a bootstrap of equal values knows nothing about its error.
    3. p < low or p > high: "differs", whatever the model and data; the reason names what is not the same.
    4. not the same model, or not the same data: "undecided"; agreement is not reproduction.
    5. (high - low) / 2 > 0.1: "undecided"; too wide to tell.
    6. "reproduced". The ends belong to the interval, and a half-width of 0.1 is narrow enough.
    """
    value, low, high, _ = _numbers(estimate, "estimate")
    scale, other = _scale(scale), _other(same_model, same_data)
    if max(abs(value), abs(low), abs(high)) > 1 + _CLOSE:
        raise ValueError(f"estimate: wanted a scale of 0 to 1, got {interval_text(estimate, 3)}")
    target = checks.number("published", published) / scale
    if abs(target) > 1 + _CLOSE:
        raise ValueError(f"published: got {published} with scale {scale}, wanted at most {scale}; is the scale right?")
    if exact_within is not None:
        within = checks.number("exact_within", exact_within, low=0)
        if other:
            raise ValueError("exact_within: only the same answers can be recomputed, got another model or other data")
        gap = abs(scale * value - published)
        word = "reproduced" if gap <= within + _CLOSE else "differs"
        return Verdict(word, f"same answers, off by {gap:.2f} (allowed {within:g})")
    if high - low <= _CLOSE:
        return Verdict("undecided", _NO_WIDTH)
    if not low - _CLOSE <= target <= high + _CLOSE:
        return Verdict("differs", "printed value outside the interval" + (f"; {other}" if other else ""))
    if other:
        return Verdict("undecided", f"printed value inside the interval, but {other}")
    if (high - low) / 2 > _WIDEST + _CLOSE:
        return Verdict("undecided", f"interval too wide: half-width {(high - low) / 2:.3f}, wanted at most {_WIDEST}")
    return Verdict("reproduced", "same model and data, printed value inside the interval")


def claim_verdict(difference, *, direction: str, same_model: bool, same_data: bool) -> Verdict:
    """Verdict on a claim (an ordering, a sign) from a paired difference A - B.

    difference           : .value .low .high .n, and .p_value (None if there is no test), for A - B on the same rows
    direction            : "+" if the paper says A is above B, "-" if below
    same_model, same_data: as in `value_verdict`
    raises               : ValueError for anything out of range

    The rules, first that applies. The sign is settled if the interval has a width and leaves out 0 (an interval that
    only touches 0 does not) and the p-value, where there is one, is at most 0.05.

    1. sign not settled: "undecided". The sign of the value alone is never enough.
    2. the other sign: "contradicted", for this model and data; the reason names what is not the same.
    3. the claimed sign, not the same model or not the same data: "same direction".
    4. the claimed sign, same model and data: "reproduced".
    """
    check_name("direction", direction, ("+", "-"))
    _, low, high, _ = _numbers(difference, "difference")
    other = _other(same_model, same_data)
    p_value = getattr(difference, "p_value", None)
    p_value = 0.0 if p_value is None else checks.number("p_value", p_value, low=0, high=1)
    shown = f"difference {interval_text(difference, 3)}"
    if open_question := _open_question(low, high, p_value):
        return Verdict("undecided", f"{shown}: {open_question}")
    if ("+" if low > 0 else "-") != direction:
        return Verdict("contradicted", f"{shown}: the other sign" + (f"; {other}" if other else ""))
    if other:
        return Verdict("same direction", f"{shown}; {other}")
    return Verdict("reproduced", f"{shown}; same model and data")


def _open_question(low: float, high: float, p_value: float) -> str:
    """What keeps the sign of a difference open, or ""."""
    if high - low <= _CLOSE:
        return _NO_WIDTH
    if low <= _CLOSE and high >= -_CLOSE:
        return "the interval holds 0"
    return f"the interval leaves out 0 but p = {p_value:.3f}" if p_value > _LEVEL else ""


def _other(same_model: bool, same_data: bool) -> str:
    """What is not the same, in words, or ""."""
    same = checks.flag("same_model", same_model), checks.flag("same_data", same_data)
    return " and ".join(text for same, text in zip(same, ("another model", "other data"), strict=True) if not same)


def interval_text(estimate, digits: int = 2, *, scale: float = 1) -> str:
    """An estimate as text, "value [low, high]", times `scale`.

    raises : ValueError if `digits` is not 0 to 6 or `scale` not 1 or 100

    >>> from types import SimpleNamespace
    >>> interval_text(SimpleNamespace(value=0.5415, low=-0.0001, high=0.63, n=240), 3)
    '0.541 [0.000, 0.630]'
    """
    value, low, high, _ = _numbers(estimate, "estimate")
    digits = checks.whole("digits", digits, least=0, most=6)
    scale = _scale(scale)
    return f"{_fixed(scale * value, digits)} [{_fixed(scale * low, digits)}, {_fixed(scale * high, digits)}]"


def interval_table(table: pd.DataFrame, *, digits: int = 3) -> pd.DataFrame:
    """A table of estimates for display: `value`, `low`, `high` as one column of text, p values with four digits, the rest as it is.

    table  : columns value, low, high and any others; the columns group, kind, condition and prompt become the index
    raises : ValueError if one of the three is missing, and for a p value that is NaN or not from 0 to 1

    >>> print(interval_table(pd.DataFrame({"value": [0.5], "low": [0.4], "high": [0.6], "n": [60]})))
          value [low, high]   n
    0  0.500 [0.400, 0.600]  60
    """
    missing = {"value", "low", "high"} - set(checks.kind("table", table, pd.DataFrame, "a data frame").columns)
    if missing:
        raise ValueError(f"interval_table: wanted columns value, low and high, missing {sorted(missing)}")
    names = [name for name in ("group", "kind", "condition", "prompt") if name in table.columns]
    shown = _Table(table.set_index(names) if names else table)
    text = [interval_text(row, digits) for row in shown.assign(n=shown.get("n", 1)).itertuples()]
    shown.insert(0, COLUMNS[0], text)
    for name in ("p_value", "p_holm"):
        if name in shown:
            p_values = [checks.number(name, value, low=0, high=1) for value in shown[name]]
            shown[name] = [f"{value:.4f}" if value >= 0.0001 else "< 0.0001" for value in p_values]
    return shown.drop(columns=["value", "low", "high"])


@dataclass(frozen=True)
class Comparison:
    """One row of a comparison table.

    what      : what was measured, unique in its table
    estimate  : .value .low .high .n, or None where nothing was run
    unparsed  : replies that could not be parsed, or None where no reply had to be
    published : the printed value as text ("0.769 (7B, other data)"), as a number, or None where none is printed
    verdict   : a Verdict, or None where nothing is printed that the estimate could be compared with
    digits    : digits after the point
    scale     : 100 to show the estimate in per cent, like the paper
    """

    what: str
    _: KW_ONLY
    estimate: object
    unparsed: int | None
    published: str | float | None
    verdict: Verdict | None
    digits: int = 2
    scale: float = 1


class _Table(pd.DataFrame):
    """A data frame that shows its text in full."""

    def _repr_html_(self):
        with pd.option_context("display.max_colwidth", None, "display.max_rows", None, "display.max_columns", None):
            return super()._repr_html_()

    def __repr__(self):
        return self.to_string(max_colwidth=None, line_width=None)


def comparison_table(rows: Iterable[Comparison]) -> pd.DataFrame:
    """The table that ends a measurement: one row per Comparison, columns COLUMNS, every cell text.

    returns : data frame with `what` as its index; shown in full, without cut texts
    raises  : ValueError if there are no rows, a name occurs twice, or a row without estimate has a verdict other than
              "not run here"
    """
    rows = checks.listed("rows", rows, of=Comparison)
    names = checks.distinct("names of rows", checks.texts("names of rows", [row.what for row in rows], empty=False))
    return _Table([_cells(row) for row in rows], index=pd.Index(names), columns=list(COLUMNS), dtype=str)


def _cells(row: Comparison) -> tuple[str, ...]:
    if not isinstance(row.verdict, Verdict) and not (row.verdict is None and row.published is None):
        raise ValueError(f"{row.what}: wanted a Verdict, got {row.verdict!r}")
    if (row.estimate is None) != (row.verdict is not None and row.verdict.verdict == "not run here"):
        raise ValueError(f"{row.what}: wanted an estimate, or the verdict 'not run here' and none")
    value, n = "–", "–"
    if row.estimate is not None:
        value, n = interval_text(row.estimate, row.digits, scale=row.scale), str(_numbers(row.estimate, row.what)[3])
    unparsed = "–" if row.unparsed is None else str(checks.whole(f"{row.what}: unparsed", row.unparsed, least=0))
    printed = "not printed" if row.published is None else row.published
    if not isinstance(printed, str) or not printed.strip():
        printed = _fixed(checks.number(f"{row.what}: published", printed), row.digits)
    verdict, why = (row.verdict.verdict, row.verdict.why) if row.verdict else ("–", "–")
    return value, n, unparsed, printed, verdict, why


@dataclass(frozen=True)
class Provenance:
    """What a chapter's numbers depend on: pairs of a name and its lines. Made by `provenance`."""

    rows: tuple[tuple[str, tuple[str, ...]], ...]

    def __repr__(self):
        width = max(len(what) for what, _ in self.rows)
        return "\n".join(f"{what:<{width}}  {'; '.join(lines)}" for what, lines in self.rows)

    def _repr_html_(self):
        shown = [(escape(what), "<br>".join(map(escape, lines))) for what, lines in self.rows]
        body = "".join(f'<tr><th scope="row">{what}</th><td>{lines}</td></tr>' for what, lines in shown)
        head = '<tr><th scope="col">what</th><th scope="col">value</th></tr>'
        return f'<table class="provenance"><thead>{head}</thead><tbody>{body}</tbody></table>'


_PATH = re.compile(r"""(?:^|[\s'"=(\[,;:])(?:/[\w.-]|~\w*[/\\]|[A-Za-z]:[/\\]|\\\\)|file:/""")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}|\b\d{1,2}:\d{2}:\d{2}\b|\b\d{1,2}:\d{2}\s?(?:UTC|[ap]m\b)", re.IGNORECASE)


def provenance(**facts) -> Provenance:
    """The box that closes a chapter: model, fingerprint, prompts, checksums, seed, mode, library versions.

    facts   : in the order in which they are shown; `prompt_hashes` is shown as "prompt hashes". A value is text, a
              number, a bool, a list of those, or a mapping of names to those (shown in alphabetical order)
    returns : shown as a table, the same on every machine
    raises  : ValueError for no facts, an empty value, a set, another type, and for what differs between runs: an
              absolute path, a date or time

    >>> provenance(model="SmolLM2-135M-Instruct", seed=0, prompts={"read": "1f3a", "closed": "90bc"})
    model    SmolLM2-135M-Instruct
    seed     0
    prompts  closed: 90bc; read: 1f3a
    """
    checks.listed("facts", list(facts))
    return Provenance(tuple((name.replace("_", " "), _lines(name, value)) for name, value in facts.items()))


def _lines(name: str, value) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        lines = tuple(f"{_scalar(name, key)}: {_scalar(name, value[key])}" for key in sorted(value, key=str))
    elif isinstance(value, (list, tuple)):
        lines = tuple(_scalar(name, item) for item in value)
    else:
        lines = (_scalar(name, value),)
    if not lines:
        raise ValueError(f"{name}: wanted a value, got an empty {type(value).__name__}")
    return lines


def _scalar(name: str, value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return repr(checks.number(name, value))
    _filled(name, value)
    if _PATH.search(value):
        raise ValueError(f"{name}: got {value!r}, which looks like a path of one machine; wanted a name or a checksum")
    if _TIME.search(value):
        raise ValueError(f"{name}: got {value!r}, which looks like a date or time; wanted what every run repeats")
    return " ".join(value.split())


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of installed packages, in alphabetical order.

    names   : names on the package index
    returns : name -> version without its local part ("2.13.0+cpu" is 2.13.0), which names a machine's build
    raises  : ValueError for a single text, no names, or a package that is not installed

    >>> list(package_versions(["pandas", "numpy"]))
    ['numpy', 'pandas']
    """
    versions = {}
    for name in sorted(set(checks.texts("names", names, empty=False))):
        try:
            versions[name] = metadata.version(name).split("+")[0]
        except (metadata.PackageNotFoundError, ValueError):
            raise ValueError(f"package_versions: got {name!r}, wanted an installed package") from None
    return versions


def _numbers(estimate, kind: str) -> tuple[float, float, float, int]:
    """value, low, high, n of an estimate or difference, checked."""
    fields = ("value", "low", "high")
    value, low, high = (checks.number(f"{kind}.{field}", getattr(estimate, field, None)) for field in fields)
    if low > high:
        raise ValueError(f"{kind}: wanted low <= high, got {low} and {high}")
    return value, low, high, checks.whole(f"{kind}.n", getattr(estimate, "n", None), least=1)


def _filled(name: str, value) -> str:
    if not checks.text(name, value).strip():
        raise ValueError(f"{name} must hold at least one word; got {value!r}")
    return value


def _scale(scale) -> float:
    if checks.number("scale", scale) not in (1, 100):
        raise ValueError(f"scale must be 1 or 100; got {scale!r}")
    return scale


def _fixed(value: float, digits: int) -> str:
    """A number with fixed digits and no negative zero."""
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text
