"""What a chapter says about its numbers: published values, verdicts, comparison tables, provenance.

Everything shown here prints the same text on every run: no times, no paths, no ids, no order of a set.
Estimates and differences are those of `rag_utils.stats`; only their attributes `value`, `low`, `high`, `n`
(and `p_value` of a difference) are used.
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
    missing = [column for column in wanted if column not in table.columns]
    if missing or table.empty:
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
        bad = table.index[~value.map(math.isfinite) | (table["source"] == "")]
        if len(bad):
            raise ValueError(f"{path.name}: wanted a finite value and a source, line {bad[0] + 2} lacks one")
        table["value"] = value.astype(float)
        keys = table.drop(columns=["value", "note"])
    again = keys.index[keys.duplicated()]
    if len(again):
        raise ValueError(f"{path.name}: line {again[0] + 2} names the same cell as an earlier line")
    return table


@dataclass(frozen=True)
class Verdict:
    """A word from VERDICTS and the reason for it; for what was not run: `Verdict("not run here", "needs a 7B model")`.

    raises : ValueError for another word or an empty reason
    """

    verdict: str
    why: str

    def __post_init__(self):
        check_name("verdict", self.verdict, VERDICTS)
        if not isinstance(self.why, str) or not self.why.strip():
            raise ValueError(f"a verdict needs a reason, got {self.why!r}")


def value_verdict(
    estimate,
    published: float,
    *,
    scale: float,
    same_model: bool,
    same_data: bool,
    exact_within: float | None = None,
    max_half_width: float = 0.1,
) -> Verdict:
    """Verdict on one printed value: "reproduced", "differs" or "undecided".

    estimate       : .value .low .high .n, always on a scale of 0 to 1 (-1 to 1 for correlations)
    published      : the value as printed
    scale          : what the paper prints for a full 1: 1, or 100 where it prints per cent
    same_model     : the published value was made with this very model (or none is involved)
    same_data      : ... and on these very questions and answers
    exact_within   : None for a measurement. A number, in the paper's unit, says that the value is recomputed from
                     the same answers, so that nothing is sampled: the interval and its width then play no part
    max_half_width : widest half-width, on a scale of 0 to 1, that still counts as a measurement of a value
    raises         : ValueError for anything out of range, and for `exact_within` with another model or other data

    The rules, first that applies (p is published / scale):

    1. exact: "reproduced" if |scale * value - published| <= exact_within, else "differs".
    2. the interval has no width: "undecided"; a bootstrap of equal values knows nothing about its error.
    3. p < low or p > high: "differs", whatever the model and data; the reason names what is not the same.
    4. not the same model, or not the same data: "undecided"; agreement is not reproduction.
    5. (high - low) / 2 > max_half_width: "undecided"; too wide to tell.
    6. "reproduced". The ends belong to the interval, and a half-width of max_half_width is narrow enough.
    """
    value, low, high, _ = _numbers(estimate, "estimate")
    scale, same_model, same_data = _scale(scale), _flag("same_model", same_model), _flag("same_data", same_data)
    if max(abs(value), abs(low), abs(high)) > 1 + _CLOSE:
        raise ValueError(f"estimate: wanted a scale of 0 to 1, got {interval_text(estimate, 3)}")
    target = _finite("published", published) / scale
    if abs(target) > 1 + _CLOSE:
        raise ValueError(f"published: got {published} with scale {scale}, wanted at most {scale}; is the scale right?")
    limit = _positive("max_half_width", max_half_width)
    if exact_within is not None:
        within = _not_negative("exact_within", exact_within)
        if not (same_model and same_data):
            raise ValueError("exact_within: only the same answers can be recomputed, got another model or other data")
        gap = abs(scale * value - published)
        word = "reproduced" if gap <= within + _CLOSE else "differs"
        return Verdict(word, f"same answers, off by {gap:.2f} (allowed {within:g})")
    other = _other(same_model, same_data)
    if high - low <= _CLOSE:
        return Verdict("undecided", "an interval without width says nothing about the error")
    if not low - _CLOSE <= target <= high + _CLOSE:
        return Verdict("differs", "printed value outside the interval" + (f"; {other}" if other else ""))
    if other:
        return Verdict("undecided", f"printed value inside the interval, but {other}")
    if (high - low) / 2 > limit + _CLOSE:
        return Verdict("undecided", f"interval too wide: half-width {(high - low) / 2:.3f}, wanted at most {limit:g}")
    return Verdict("reproduced", "same model and data, printed value inside the interval")


def claim_verdict(
    difference,
    *,
    direction: str,
    same_model: bool,
    same_data: bool,
    published_difference: float | None = None,
    scale: float | None = None,
    exact_within: float | None = None,
    max_half_width: float = 0.1,
) -> Verdict:
    """Verdict on a claim (an ordering, a sign, a gap) from a paired difference A - B.

    difference           : .value .low .high .n, and .p_value (None if there is no test), for A - B on the same rows
    direction            : "+" if the paper says A is above B, "-" if below
    same_model, same_data: as in `value_verdict`
    published_difference : None where only the ordering or sign is claimed; the printed A - B, with its sign, where
                           the claim is a gap. `difference` is then on a scale of 0 to 1 and `scale` must be given
    scale                : 1 or 100, as in `value_verdict`
    exact_within         : None for a measurement; a number (in the paper's unit) for counts and recomputations in
                           which nothing is sampled: interval and p-value then play no part
    max_half_width       : widest half-width, on a scale of 0 to 1, with which a gap counts as measured
    raises               : ValueError for anything out of range, a scale without a gap or the reverse, and a gap whose
                           sign is not that of `direction`

    First the sign of the difference:

    1. exact: the sign of the value; 0 settles nothing.
    2. otherwise the sign is settled if the interval has a width and leaves out 0 (an interval that only touches 0
       does not) and the p-value, where there is one, is at most 0.05.

    Then the verdict:

    3. sign not settled: "undecided". The sign of the value alone is never enough.
    4. the other sign: "contradicted", for this model and data; the reason names what is not the same.
    5. the claimed sign, not the same model or not the same data: "same direction".
    6. the claimed sign, same model and data, no gap claimed: "reproduced".
    7. the same, with a gap: "reproduced" if the printed gap is in the interval (ends included) and the half-width is
       at most max_half_width (exact: if it is met within exact_within), else "same direction".
    """
    if direction not in ("+", "-"):
        raise ValueError(f"direction: got {direction!r}, wanted '+' or '-'")
    value, low, high, _ = _numbers(difference, "difference")
    same_model, same_data = _flag("same_model", same_model), _flag("same_data", same_data)
    limit = _positive("max_half_width", max_half_width)
    within = None if exact_within is None else _not_negative("exact_within", exact_within)
    gap = _gap(published_difference, scale, direction, (value, low, high))
    p_value = getattr(difference, "p_value", None)
    if p_value is not None and not 0 <= _finite("p_value", p_value) <= 1:
        raise ValueError(f"p_value: got {p_value}, wanted 0 to 1 or None")
    shown = f"difference {interval_text(difference, 3)}"
    other = _other(same_model, same_data)

    if within is not None:
        sign, shown = (0 if abs(value) <= _CLOSE else math.copysign(1, value)), f"exact difference {_fixed(value, 3)}"
        open_question = "a tie"
    elif high - low <= _CLOSE:
        sign, open_question = 0, "an interval without width says nothing about the error"
    elif low <= _CLOSE and high >= -_CLOSE:
        sign, open_question = 0, "the interval holds 0"
    elif p_value is not None and p_value > _LEVEL:
        sign, open_question = 0, f"the interval leaves out 0 but p = {p_value:.3f}"
    else:
        sign, open_question = (1 if low > 0 else -1), ""

    claimed = 1 if direction == "+" else -1
    if sign == 0:
        return Verdict("undecided", f"{shown}: {open_question}")
    if sign != claimed:
        return Verdict("contradicted", f"{shown}: the other sign" + (f"; {other}" if other else ""))
    if other:
        return Verdict("same direction", f"{shown}; {other}")
    if gap is None:
        return Verdict("reproduced", f"{shown}; same model and data")
    if within is not None:
        met, reason = abs(value - gap) * scale <= within + _CLOSE, f"printed gap not met within {within:g}"
    elif not low - _CLOSE <= gap <= high + _CLOSE:
        met, reason = False, "printed gap outside the interval"
    else:
        met, reason = (high - low) / 2 <= limit + _CLOSE, f"half-width above {limit:g}"
    if not met:
        return Verdict("same direction", f"{shown}: {reason}")
    return Verdict("reproduced", f"{shown}; same model and data, printed gap met")


def _gap(published_difference, scale, direction, ours) -> float | None:
    """The printed gap on a scale of 0 to 1, or None where no gap is claimed."""
    if (published_difference is None) != (scale is None):
        got = f"got {published_difference!r} and {scale!r}"
        raise ValueError(f"published_difference and scale: wanted both or neither, {got}")
    if published_difference is None:
        return None
    gap = _finite("published_difference", published_difference) / _scale(scale)
    if gap * (1 if direction == "+" else -1) <= 0:
        raise ValueError(f"published_difference: got {published_difference}, wanted the sign {direction!r}")
    if max(map(abs, (*ours, gap))) > 2 + _CLOSE:  # correlations differ by at most 2
        raise ValueError(
            f"wanted difference and gap on a scale of 0 to 1, got {ours[0]} and {gap}; is the scale right?"
        )
    return gap


def _other(same_model: bool, same_data: bool) -> str:
    named = ((same_model, "another model"), (same_data, "other data"))
    return " and ".join(text for same, text in named if not same)


def interval_text(estimate, digits: int = 2, *, scale: float = 1) -> str:
    """An estimate as text, "value [low, high]", times `scale`.

    raises : ValueError if `digits` is not 0 to 6 or `scale` not 1 or 100

    >>> from types import SimpleNamespace
    >>> interval_text(SimpleNamespace(value=0.5415, low=-0.0001, high=0.63, n=240), 3)
    '0.541 [0.000, 0.630]'
    """
    value, low, high, _ = _numbers(estimate, "estimate")
    if isinstance(digits, bool) or not isinstance(digits, Integral) or not 0 <= digits <= 6:
        raise ValueError(f"digits: got {digits!r}, wanted a whole number from 0 to 6")
    scale = _scale(scale)
    return f"{_fixed(scale * value, digits)} [{_fixed(scale * low, digits)}, {_fixed(scale * high, digits)}]"


def interval_table(table: pd.DataFrame, *, digits: int = 3) -> pd.DataFrame:
    """A table of estimates for display: `value`, `low`, `high` as one column of text, p values with four digits, the rest as it is.

    table  : columns value, low, high and any others; the columns group, kind, condition and prompt become the index
    raises : ValueError if one of the three is missing

    >>> print(interval_table(pd.DataFrame({"value": [0.5], "low": [0.4], "high": [0.6], "n": [60]})))
          value [low, high]   n
    0  0.500 [0.400, 0.600]  60
    """
    missing = {"value", "low", "high"} - set(table.columns)
    if missing:
        raise ValueError(f"interval_table: wanted columns value, low and high, missing {sorted(missing)}")
    names = [name for name in ("group", "kind", "condition", "prompt") if name in table.columns]
    shown = _Table(table.set_index(names) if names else table)
    text = [interval_text(row, digits) for row in shown.assign(n=shown.get("n", 1)).itertuples()]
    shown.insert(0, COLUMNS[0], text)
    for name in ("p_value", "p_holm"):
        if name in shown:
            shown[name] = [f"{value:.4f}" if value >= 0.0001 else "< 0.0001" for value in shown[name]]
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
    raises  : ValueError if there are no rows, a name occurs twice, more replies are unparsed than there are rows in the
              estimate, or a row without estimate has a verdict other than "not run here"
    """
    rows = list(rows)
    names = [row.what if isinstance(row, Comparison) else None for row in rows]
    if not rows or None in names or "" in names or len(set(names)) < len(names):
        raise ValueError(f"wanted at least one Comparison, each with its own name, got {names}")
    return _Table([_cells(row) for row in rows], index=pd.Index(names), columns=list(COLUMNS), dtype=str)


def _cells(row: Comparison) -> tuple[str, ...]:
    if not isinstance(row.verdict, Verdict) and not (row.verdict is None and row.published is None):
        raise ValueError(f"{row.what}: wanted a Verdict, got {row.verdict!r}")
    if (row.estimate is None) != (row.verdict is not None and row.verdict.verdict == "not run here"):
        raise ValueError(f"{row.what}: wanted an estimate, or the verdict 'not run here' and none")
    value, n = "–", "–"
    if row.estimate is not None:
        value, n = interval_text(row.estimate, row.digits, scale=row.scale), str(_numbers(row.estimate, row.what)[3])
    if row.unparsed is not None and (
        isinstance(row.unparsed, bool) or not isinstance(row.unparsed, Integral) or row.unparsed < 0
    ):
        raise ValueError(f"{row.what}: unparsed: got {row.unparsed!r}, wanted a count or None")
    unparsed = "–" if row.unparsed is None else str(row.unparsed)
    if row.published is None:
        printed = "not printed"
    elif isinstance(row.published, str) and row.published.strip():
        printed = row.published
    else:
        printed = _fixed(_finite(f"{row.what}: published", row.published), row.digits)
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
        body = "".join(
            f'<tr><th scope="row">{escape(what)}</th><td>{"<br>".join(map(escape, lines))}</td></tr>'
            for what, lines in self.rows
        )
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
    if not facts:
        raise ValueError("provenance: wanted at least one fact, got none")
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
        return repr(_finite(name, value))
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name}: wanted text, a number, a list or a mapping, got {type(value).__name__} {value!r}")
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
    names = [] if isinstance(names, str) else sorted(set(names))
    if not names:
        raise ValueError("package_versions: wanted a list of at least one name")
    versions = {}
    for name in names:
        try:
            versions[name] = metadata.version(name).split("+")[0]
        except metadata.PackageNotFoundError:
            raise ValueError(f"package_versions: got {name!r}, wanted an installed package") from None
    return versions


def _numbers(estimate, kind: str) -> tuple[float, float, float, int]:
    """value, low, high, n of an estimate or difference, checked."""
    missing = [field for field in ("value", "low", "high", "n") if not hasattr(estimate, field)]
    if missing:
        raise ValueError(f"{kind}: wanted value, low, high and n, got {type(estimate).__name__} without {missing}")
    value, low, high = (_finite(f"{kind}.{field}", getattr(estimate, field)) for field in ("value", "low", "high"))
    if low > high:
        raise ValueError(f"{kind}: wanted low <= high, got {low} and {high}")
    if isinstance(estimate.n, bool) or not isinstance(estimate.n, Integral) or estimate.n < 1:
        raise ValueError(f"{kind}.n: got {estimate.n!r}, wanted a whole number of at least 1")
    return value, low, high, int(estimate.n)


def _finite(name: str, value) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name}: got {value!r}, wanted a finite number")
    return float(value)


def _positive(name: str, value) -> float:
    if _finite(name, value) <= 0:
        raise ValueError(f"{name}: got {value!r}, wanted a number above 0")
    return float(value)


def _not_negative(name: str, value) -> float:
    if _finite(name, value) < 0:
        raise ValueError(f"{name}: got {value!r}, wanted 0 or more")
    return float(value)


def _scale(scale) -> float:
    if isinstance(scale, bool) or scale not in (1, 100):
        raise ValueError(f"scale: got {scale!r}, wanted 1 or 100")
    return scale


def _flag(name: str, value) -> bool:
    if type(value).__name__ not in ("bool", "bool_"):
        raise ValueError(f"{name}: got {value!r}, wanted True or False")
    return bool(value)


def _fixed(value: float, digits: int) -> str:
    """A number with fixed digits and no negative zero."""
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text
