"""Checks of input: what came, what was wanted. Every refusal is a ValueError that says both; nothing is corrected in silence."""

import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from numbers import Real

import numpy as np

INFINITE = float("inf")
ROUNDING = 1e-6


def number(name: str, value, *, low: float = -INFINITE, high: float = INFINITE, above: float | None = None) -> float:
    """One finite number from `low` to `high`, and greater than `above` where that is given."""
    try:
        finite = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value))
    except OverflowError:
        finite = False
    if not finite:
        raise ValueError(f"{name} must be one finite number; got {value!r:.60}")
    if above is not None and value <= above:
        raise ValueError(f"{name} must be above {above}; got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be {_range(low, high)}; got {value!r}")
    return float(value)


def ordered(value, low, high, *, of: str = "") -> tuple[float, float, float]:
    """An estimate with its interval, if these are numbers and low is not above high."""
    named = {"value": value, "low": low, "high": high}
    value, low, high = (number(f"{of}{name}", each) for name, each in named.items())
    if low > high:
        raise ValueError(f"wanted {of}low <= {of}high, got {low} and {high}")
    return value, low, high


def whole(name: str, value, *, least: float = -INFINITE, most: float = INFINITE) -> int:
    """One whole number from `least` to `most`; True and False are none."""
    try:
        result = operator.index(value if not isinstance(value, bool | np.bool_) else "")
    except TypeError:
        raise ValueError(f"{name} must be a whole number; got {value!r:.60}") from None
    if not least <= result <= most:
        raise ValueError(f"{name} must be a whole number {_range(least, most, 'of ')}; got {result}")
    return result


def flag(name: str, value) -> bool:
    """True or False, or a number that is 0 or 1."""
    if not isinstance(value, Real | np.bool_) or value not in (0, 1):
        raise ValueError(f"{name} must be True or False; got {value!r:.60}")
    return bool(value)


def numbers(name: str, values, *, dimensions=1, least=1, low=-INFINITE, high=INFINITE, finite=True) -> np.ndarray:
    """A float array of that shape, at least `least` entries from `low` to `high`; finite=False lets NaN and infinity pass."""
    array = as_array(name, values)
    if not array.ndim:
        raise ValueError(f"{name} must be a list of numbers; got {values!r:.60}")
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimension(s); got shape {array.shape}")
    if array.size < least:
        raise ValueError(f"{name} must hold at least {least} number(s); got shape {array.shape}")
    if array.size and array.dtype.kind not in "biuf":
        wrong = next((each for each in array.ravel().tolist() if not isinstance(each, Real)), array.dtype)
        raise ValueError(f"{name} must be numbers; got {wrong!r:.60}")
    array = array.astype(float)
    if finite and not (fine := np.isfinite(array)).all():
        raise ValueError(f"{name} must be finite; got {int((~fine).sum())} NaN or infinite of {array.size}")
    if (outside := (array < low) | (array > high)).any():
        raise ValueError(f"{name} must be {_range(low, high)}; got {array[outside][0]}")
    return array


def wholes(name: str, values, *, dimensions: int = 1, high: int = 2**53) -> np.ndarray:
    """Values as a filled int array of whole numbers, each from 0 to `high`."""
    array = numbers(name, values, dimensions=dimensions, low=0, high=high)
    if (kind := np.asarray(values).dtype).kind not in "iu":
        raise ValueError(f"{name} must be whole numbers; got {kind}")
    return array.astype(int)


def log_likelihoods(name: str, values) -> np.ndarray:
    """Values as a filled (n,) float array of nats, at most 0; what rounding carried above 0 is 0."""
    array = numbers(name, values, low=-1e200)  # so that their sums are numbers
    if array.max() > ROUNDING:
        raise ValueError(f"{name} must be at most 0; got {array.max()}: is the sign right?")
    return np.minimum(0.0, array)


def flags(name: str, values, *, dimensions: int = 1) -> np.ndarray:
    """Values as a filled bool array; they are True and False or 0 and 1."""
    return members(name, numbers(name, values, dimensions=dimensions, finite=False), (0, 1)).astype(bool)


def members(name: str, values: np.ndarray, allowed: Collection) -> np.ndarray:
    """Values, if each is one of those that are allowed."""
    if not (known := np.isin(values, allowed)).all():
        *first, last = allowed
        raise ValueError(f"{name} must be {', '.join(map(str, first))} or {last}; got {values[~known][0]}")
    return values


def directions(name: str, rows, *, dtype=float) -> np.ndarray:
    """Rows of numbers as an (n, d) array of that type with rows of length 1; one that is all zero, or too long to be measured, has none."""
    array = numbers(name, rows, dimensions=2)
    with np.errstate(over="ignore", under="ignore"):
        array = array.astype(dtype)
        lengths = np.linalg.norm(array, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise ValueError(f"{name} must have rows with a direction; got one that is all zero or too long")
    return array / lengths


def square(name: str, matrix, *, mirrored: bool = False, **limits) -> np.ndarray:
    """A filled (n, n) float matrix within the limits of `numbers`, that equals its mirror image if it is to be mirrored."""
    array = numbers(name, matrix, dimensions=2, **limits)
    if array.shape[0] != array.shape[1]:
        raise ValueError(f"{name} must be an (n, n) matrix; got shape {array.shape}")
    if mirrored and (apart := np.abs(array - array.T).max()) > ROUNDING:
        raise ValueError(f"{name} must be symmetric; got values that differ by up to {apart} from their mirror image")
    return array


def listed(name: str, values, *, least: int = 1, of: type | None = None) -> list:
    """Values as a list with at least `least` entries, all of type `of`; a string, a set or a mapping is none."""
    if isinstance(values, str | bytes | set | frozenset | Mapping) or not isinstance(values, Iterable):
        hint = f"; write [{name}] for a single one" if isinstance(values, str) and name.isidentifier() else ""
        raise ValueError(f"{name} must be a list; got {type(values).__name__}{hint}")
    values = [] if isinstance(values, np.ndarray) and not values.ndim else list(values)
    if len(values) < least:
        raise ValueError(f"{name} must hold at least {least}; got {len(values) or 'none'}")
    if of is not None and (other := [value for value in values if not isinstance(value, of)]):
        raise ValueError(f"{name} must hold {of.__name__} only; got {type(other[0]).__name__}")
    return values


def text(name: str, value, *, empty: bool = True) -> str:
    """A string; with empty=False something must be in it."""
    if not kind(name, value, str, "a string") and not empty:
        raise ValueError(f"{name} must be a non-empty string; got {value!r}")
    return value


def filled(name: str, value) -> str:
    """A text with something in it."""
    if not text(name, value).strip():
        raise ValueError(f"{name} must hold at least one word; got {value!r}")
    return value


def texts(name: str, values, *, least: int = 1, empty: bool = True) -> list[str]:
    """Values as a list of strings; a bare string is none."""
    values = listed(name, values, least=least)
    return [text(f"{name}[{place}]", value, empty=empty) for place, value in enumerate(values)]


def same_length(**named: Collection) -> int:
    """The one length of all that is given."""
    lengths = {name: len(values) for name, values in named.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"lengths must be equal; got {', '.join(f'{n} {name}' for name, n in lengths.items())}")
    return next(iter(lengths.values()))


def distinct(name: str, values: Iterable) -> list:
    """Values as a list in which none comes twice."""
    values, seen = list(values), set()
    for value in values:
        if not isinstance(value, Hashable):
            raise ValueError(f"{name} must be numbers or strings; got {type(value).__name__}")
        if value in seen:
            raise ValueError(f"{name} must each come once; got {value!r:.60} twice")
        seen.add(value)
    return values


def keyed(name: str, values: Mapping, keys: Collection, *, every: bool = True) -> Mapping:
    """A mapping that has each of these keys, or with every=False one of them where it has any; others may be there too."""
    missing = [key for key in keys if key not in values]
    if missing and (every or (values and len(missing) == len(keys))):
        came = f"{next(iter(values), 'none')!r:.60} and others, {len(missing)} are missing"
        raise ValueError(f"{name} must be by keys such as {missing[0]!r:.60}; got {came}")
    return values


def kind(name: str, value, wanted: type, called: str):
    """A value of that type: a mapping, a question, ..."""
    if not isinstance(value, wanted):
        raise ValueError(f"{name} must be {called}; got {type(value).__name__}")
    return value


def one_of(kind: str, value: str, known: Iterable[str]) -> str:
    """A known name of a chapter, a metric, a data set; what is refused comes with the nearest known names.

    >>> one_of("fruit", "aple", ["apple", "pear"])
    Traceback (most recent call last):
        ...
    ValueError: unknown fruit 'aple'; did you mean 'apple'? Known: 'apple', 'pear'
    """
    known = sorted(known)
    if value in known:
        return value
    near = get_close_matches(str(value), known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ValueError(f"unknown {kind} {value!r}; {hint}Known: {', '.join(map(repr, known)) or 'none'}")


def function(name: str, value) -> Callable:
    """Something that can be called."""
    return kind(name, value, Callable, "a function")


def generator(rng) -> np.random.Generator:
    """A numpy Generator from a seed or from one; None could not be repeated and is refused."""
    with suppress(TypeError, ValueError):
        if rng is not None:
            return np.random.default_rng(rng)
    hint = ", which could not be repeated" if rng is None else ""
    raise ValueError(f"rng must be a seed or a numpy Generator; got {rng!r:.60}{hint}")


def as_array(name: str, values) -> np.ndarray:
    """Values as numpy holds them, if it can."""
    try:
        return np.asarray(values)
    except OverflowError:
        raise ValueError(f"{name} must be numbers that a float can hold; got one that is too large") from None
    except ValueError as error:
        raise ValueError(f"{name} must be rows of equal length; got a ragged list") from error
    except TypeError as error:
        raise ValueError(f"{name} must be numbers; got {type(values).__name__}") from error


def _range(low: float, high: float, before: str = "") -> str:
    if high == INFINITE:
        return f"{before}at least {low}"
    return f"{before}at most {high}" if low == -INFINITE else f"from {low} to {high}"
