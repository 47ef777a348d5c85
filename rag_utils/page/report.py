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

import pandas as pd

from rag_utils.base import checks
from rag_utils.base.cache import ROOT

PUBLISHED = ROOT / "data" / "published"
TABLE_COLUMNS = ("metric", "value", "source", "note")  # and whatever names the row: evaluator, dataset, system, ...
ITEM_COLUMNS = ("item", "part", "caption", "status", "reason", "where")
STATUSES = ("measured here", "not run here")
VERDICTS = ("reproduced", "same direction", "undecided", "contradicted", "differs", "not testable here", "not run here")
COLUMNS = ("value [low, high]", "n", "unparsed", "published", "verdict", "why")

_CLOSE = 1e-9  # what floating point may do to a boundary
_LEVEL = 0.05  # of the p-value that goes with a 95 % interval
_WIDEST = 0.1  # half-width, on a scale of 0 to 1, that still counts as a measurement of a value
_NO_WIDTH = "an interval without width says nothing about the error"


def published(name: str) -> pd.DataFrame:
    """The numbers that a paper prints, one row per value, or the list of its tables and figures (`<paper>_items`).

    name    : file in data/published without ".csv", e.g. "seper_table1"
    returns : text columns as text ("" where empty), `value` as float in the unit of the paper
    raises  : ValueError for an unknown name or status (with near ones), missing columns, values not finite, rows without a source or twice
    """
    checks.one_of("published table", name, (path.stem for path in PUBLISHED.glob("*.csv")))
    file, wanted = f"{name}.csv", ITEM_COLUMNS if name.endswith("_items") else TABLE_COLUMNS
    table = pd.read_csv(PUBLISHED / file, dtype=str, keep_default_na=False)
    if table.empty or not {*wanted} <= {*table.columns}:
        raise ValueError(f"{file}: got {len(table)} rows with columns {list(table.columns)}, wanted {wanted}")
    if wanted is ITEM_COLUMNS:
        for status in table["status"]:
            checks.one_of(f"status in {file}", status, STATUSES)
        untold = (table["reason"] == "") | ((table["status"] == "measured here") == (table["where"] == ""))
        if len(untold := table["item"][untold]):
            raise ValueError(f"{file}: wanted a reason, and where it is if measured and only then, not so of {untold.iloc[0]!r}")
    else:
        table["value"] = pd.to_numeric(table["value"], errors="coerce").astype(float)
        if len(bad := table.index[~table["value"].map(math.isfinite) | (table["source"] == "")]):
            raise ValueError(f"{file}: wanted a finite value and a source, line {bad[0] + 2} lacks one")
    keys = table[["item", "part"]] if wanted is ITEM_COLUMNS else table.drop(columns=["value", "note"])
    if len(again := keys.index[keys.duplicated()]):
        raise ValueError(f"{file}: line {again[0] + 2} names the same cell as an earlier line")
    return table


@dataclass(frozen=True)
class Verdict:
    """A word from VERDICTS and the reason for it, which is never empty, as in `Verdict("not run here", "needs a 7B model")`."""

    verdict: str
    why: str

    def __post_init__(self):
        checks.one_of("verdict", self.verdict, VERDICTS)
        checks.filled("why", self.why)


def value_verdict(estimate, published: float, *, scale: float, same_model: bool, same_data: bool, exact_within=None) -> Verdict:
    """Verdict on one printed value: "reproduced", "differs" or "undecided".

    estimate     : .value .low .high .n, always on a scale of 0 to 1 (-1 to 1 for correlations)
    scale        : what the paper prints for a full 1: 1, or 100 where it prints per cent
    same_model   : the published value was made with this very model (or none is involved); same_data: on these very questions and answers
    exact_within : None for a measurement; if it is recomputed from the same answers how far it may be off, in the paper's unit
    raises       : ValueError for anything out of range, and for `exact_within` with another model or other data

    "Reproduced" takes the same model and data, the printed value in the interval, ends included, and a half-width of at most 0.1; a printed
    value outside "differs" with any. All else is "undecided", also an interval without width: a bootstrap of equal values knows no error.
    """
    value, low, high, _ = _numbers(estimate, "estimate")
    target, other = checks.number("published", published) / _scale(scale), _other(same_model, same_data)
    if max(abs(value), abs(low), abs(high)) > 1 + _CLOSE:
        raise ValueError(f"estimate: wanted a scale of 0 to 1, got {interval_text(estimate, 3)}")
    if abs(target) > 1 + _CLOSE:
        raise ValueError(f"published: got {published} with scale {scale}, wanted at most {scale}; is the scale right?")
    if exact_within is not None:
        within, gap = checks.number("exact_within", exact_within, low=0), abs(scale * value - published)
        if other:
            raise ValueError("exact_within: only the same answers can be recomputed, got another model or other data")
        word = "reproduced" if gap <= within + _CLOSE else "differs"
        return Verdict(word, f"same answers, off by {gap:.2f} (allowed {within:g})")
    if high - low <= _CLOSE:
        return Verdict("undecided", _NO_WIDTH)
    if not low - _CLOSE <= target <= high + _CLOSE:
        return Verdict("differs", "; ".join(filter(None, ("printed value outside the interval", other))))
    if other:
        return Verdict("undecided", f"printed value inside the interval, but {other}")
    if (half := (high - low) / 2) > _WIDEST + _CLOSE:
        return Verdict("undecided", f"interval too wide: half-width {half:.3f}, wanted at most {_WIDEST}")
    return Verdict("reproduced", "same model and data, printed value inside the interval")


def claim_verdict(difference, *, direction: str, same_model: bool, same_data: bool) -> Verdict:
    """Verdict on a claim (an ordering, a sign) from a paired difference A - B.

    difference : .value .low .high .n, and .p_value (None if there is no test), for A - B on the same rows
    direction  : "+" if the paper says A is above B, "-" if below
    raises     : ValueError for anything out of range

    The sign is settled if the interval has a width and leaves out 0 (to touch it is to hold it) and the p-value, if any, is at most 0.05,
    else "undecided". The other sign is "contradicted", the claimed one "reproduced" with the same model and data, else "same direction".
    """
    checks.one_of("direction", direction, ("+", "-"))
    _, low, high, _ = _numbers(difference, "difference")
    other, p_value = _other(same_model, same_data), getattr(difference, "p_value", None)
    p_value = 0.0 if p_value is None else checks.number("p_value", p_value, low=0, high=1)
    shown = f"difference {interval_text(difference, 3)}"
    if high - low <= _CLOSE:
        return Verdict("undecided", f"{shown}: {_NO_WIDTH}")
    if low <= _CLOSE and high >= -_CLOSE:
        return Verdict("undecided", f"{shown}: the interval holds 0")
    if p_value > _LEVEL:
        return Verdict("undecided", f"{shown}: the interval leaves out 0 but p = {p_value:.3f}")
    if ("+" if low > 0 else "-") != direction:
        return Verdict("contradicted", "; ".join(filter(None, (f"{shown}: the other sign", other))))
    return Verdict("same direction" if other else "reproduced", f"{shown}; {other or 'same model and data'}")


def equivalence_verdict(estimate, margin: float) -> Verdict:
    """Verdict on a claim that something is 0, give or take `margin`, with another model or other data.

    returns : "same direction" if the interval lies within the margin, "contradicted" if outside, else "undecided", as where it has no width
    raises  : ValueError for anything out of range. An end on the margin is neither within nor outside

    >>> equivalence_verdict(pd.Series({"value": 0.0, "low": -0.02, "high": 0.01, "n": 489}, dtype=object), 0.03)
    Verdict(verdict='same direction', why='0.000 [-0.020, 0.010] against 0 ± 0.03')
    """
    (_, low, high, _), margin, shown = _numbers(estimate, "estimate"), checks.number("margin", margin, above=0), interval_text(estimate, 3)
    if high - low <= _CLOSE:
        return Verdict("undecided", f"{shown}: {_NO_WIDTH}")
    word = "same direction" if max(-low, high) < margin - _CLOSE else "contradicted" if max(low, -high) > margin + _CLOSE else "undecided"
    return Verdict(word, f"{shown} against 0 ± {margin:g}")


def _other(same_model: bool, same_data: bool) -> str:
    """What is not the same, in words, or ""."""
    same = checks.flag("same_model", same_model), checks.flag("same_data", same_data)
    return " and ".join(text for same, text in zip(same, ("another model", "other data"), strict=True) if not same)


def interval_text(estimate, digits: int = 2, *, scale: float = 1) -> str:
    """An estimate as text, "value [low, high]", times `scale`; ValueError if `digits` is not 0 to 6 or `scale` not 1 or 100.

    >>> from types import SimpleNamespace
    >>> interval_text(SimpleNamespace(value=0.5415, low=-0.0001, high=0.63, n=240), 3)
    '0.541 [0.000, 0.630]'
    """
    digits, scale = checks.whole("digits", digits, least=0, most=6), _scale(scale)
    value, low, high = (f"{scale * part:z.{digits}f}" for part in _numbers(estimate, "estimate")[:3])
    return f"{value} [{low}, {high}]"


def interval_table(table: pd.DataFrame, *, digits: int = 3) -> pd.DataFrame:
    """A table of estimates for display: `value`, `low`, `high` as one column of text, p values with four digits, the rest as it is.

    table  : columns value, low, high and any others; the columns group, kind, condition and prompt become the index
    raises : ValueError if one of the three is missing, and for a p value that is NaN or not from 0 to 1

    >>> print(interval_table(pd.DataFrame({"value": [0.5], "low": [0.4], "high": [0.6], "n": [60]})))
          value [low, high]   n
    0  0.500 [0.400, 0.600]  60
    """
    if missing := {"value", "low", "high"} - {*checks.kind("table", table, pd.DataFrame, "a data frame").columns}:
        raise ValueError(f"interval_table: wanted columns value, low and high, missing {sorted(missing)}")
    names = [name for name in ("group", "kind", "condition", "prompt") if name in table.columns]
    shown = _Table(table.set_index(names) if names else table)
    shown.insert(0, COLUMNS[0], [interval_text(row, digits) for row in table.assign(n=table.get("n", 1)).itertuples()])
    for name in shown.columns.intersection(["p_value", "p_holm"]):
        shown[name] = [f"{p:.4f}" if checks.number(name, p, low=0, high=1) >= 0.0001 else "< 0.0001" for p in shown[name]]
    return shown.drop(columns=["value", "low", "high"])


@dataclass(frozen=True)
class Comparison:
    """One row of a comparison table."""

    what: str  # was measured; unique in its table
    _: KW_ONLY
    estimate: object  # .value .low .high .n, or None where nothing was run
    unparsed: int | None  # replies that could not be parsed; None where no reply had to be
    published: str | float | None  # as text ("0.769 (7B, other data)") or as a number; None where none is printed
    verdict: Verdict | None  # None where nothing is printed that the estimate could be compared with
    digits: int = 2
    scale: float = 1  # 100 to show the estimate in per cent, like the paper


class _Table(pd.DataFrame):
    """A data frame that shows its text in full."""

    def _repr_html_(self):
        with pd.option_context("display.max_colwidth", None, "display.max_rows", None, "display.max_columns", None):
            return super()._repr_html_()

    def __repr__(self):
        return self.to_string(max_colwidth=None, line_width=None)


def comparison_table(rows: Iterable[Comparison]) -> pd.DataFrame:
    """The table that ends a measurement: one row per Comparison, columns COLUMNS, every cell text.

    raises : ValueError if there are no rows, a name occurs twice, or a row without estimate has a verdict other than "not run here"
    """
    rows = checks.listed("rows", rows, of=Comparison)
    names = checks.distinct("names of rows", checks.texts("names of rows", [row.what for row in rows], empty=False))
    return _Table([_cells(row) for row in rows], index=pd.Index(names), columns=list(COLUMNS), dtype=str)


def _cells(row: Comparison) -> tuple[str, ...]:
    what, estimate, verdict, printed = row.what, row.estimate, row.verdict, row.published
    if not isinstance(verdict, Verdict) and not (verdict is None and printed is None):
        raise ValueError(f"{what}: wanted a Verdict, got {verdict!r}")
    if (estimate is None) != (verdict is not None and verdict.verdict == "not run here"):
        raise ValueError(f"{what}: wanted an estimate, or the verdict 'not run here' and none")
    value, n = ("–", "–") if estimate is None else (interval_text(estimate, row.digits, scale=row.scale), str(_numbers(estimate, what)[3]))
    unparsed = "–" if row.unparsed is None else str(checks.whole(f"{what}: unparsed", row.unparsed, least=0))
    if printed is None:
        printed = "not printed"
    elif not isinstance(printed, str) or not printed.strip():
        printed = f"{checks.number(f'{what}: published', printed):z.{row.digits}f}"
    return value, n, unparsed, printed, *((verdict.verdict, verdict.why) if verdict else ("–", "–"))


class Provenance(dict):
    """What a chapter's numbers depend on: name -> lines. Made by `provenance`."""

    def __repr__(self):
        width = max(map(len, self))
        return "\n".join(f"{what:<{width}}  {'; '.join(lines)}" for what, lines in self.items())

    def _repr_html_(self):
        rows = (f'<tr><th scope="row">{escape(what)}</th><td>{"<br>".join(map(escape, lines))}</td></tr>' for what, lines in self.items())
        head = '<thead><tr><th scope="col">what</th><th scope="col">value</th></tr></thead>'
        return f'<table class="provenance">{head}<tbody>{"".join(rows)}</tbody></table>'


_PATH = re.compile(r"""(?:^|[\s'"=(\[,;:])(?:/[\w.-]|~\w*[/\\]|[A-Za-z]:[/\\]|\\\\)|file:/""")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}|\b\d{1,2}:\d{2}:\d{2}\b|\b\d{1,2}:\d{2}\s?(?:UTC|[ap]m\b)", re.IGNORECASE)


def provenance(**facts) -> Provenance:
    """The box that closes a chapter: model, fingerprint, prompts, checksums, seed, mode, library versions.

    facts  : shown in their order, `prompt_hashes` as "prompt hashes"; text, a number, a bool, a list of those, a mapping to those (sorted)
    raises : ValueError for no facts, an empty value, a set, another type, and what differs between runs: an absolute path, a date or time

    >>> provenance(model="SmolLM2-135M-Instruct", seed=0, prompts={"read": "1f3a", "closed": "90bc"})
    model    SmolLM2-135M-Instruct
    seed     0
    prompts  closed: 90bc; read: 1f3a
    """
    checks.listed("facts", list(facts))
    return Provenance({name.replace("_", " "): _lines(name, value) for name, value in facts.items()})


def _lines(name: str, value) -> list[str]:
    if isinstance(value, Mapping | list | tuple) and not value:
        raise ValueError(f"{name}: wanted a value, got an empty {type(value).__name__}")
    if isinstance(value, Mapping):
        return [f"{_scalar(name, key)}: {_scalar(name, value[key])}" for key in sorted(value, key=str)]
    return [_scalar(name, item) for item in (value if isinstance(value, list | tuple) else [value])]


def _scalar(name: str, value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return repr(checks.number(name, value))
    checks.filled(name, value)
    machine, clock = "a path of one machine; wanted a name or a checksum", "a date or time; wanted what every run repeats"
    if looks := machine if _PATH.search(value) else clock if _TIME.search(value) else "":
        raise ValueError(f"{name}: got {value!r}, which looks like {looks}")
    return " ".join(value.split())


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of installed packages, sorted by name, without the local part, which names a machine's build ("2.13.0+cpu" is 2.13.0).

    raises : ValueError for a single text, no names, or a package that is not installed
    """
    names = sorted(set(checks.texts("names", names, empty=False)))
    try:
        return {name: metadata.version(name).split("+")[0] for name in names}
    except metadata.PackageNotFoundError as error:
        raise ValueError(f"package_versions: got {error.name!r}, wanted an installed package") from None


def _numbers(estimate, kind: str) -> tuple[float, float, float, int]:
    """value, low, high, n of an estimate or difference, checked."""
    numbers = checks.ordered(*(getattr(estimate, part, None) for part in ("value", "low", "high")), of=f"{kind}.")
    return *numbers, checks.whole(f"{kind}.n", getattr(estimate, "n", None), least=1)


def _scale(scale) -> float:
    if checks.number("scale", scale) not in (1, 100):
        raise ValueError(f"scale must be 1 or 100; got {scale!r}")
    return scale
