"""Checks of input: what came, what was wanted. Every refusal is a ValueError that says both; nothing is corrected in silence."""

import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from numbers import Real

import numpy as np


def number(name: str, value, *, low: float = -np.inf, high: float = np.inf, above: float | None = None) -> float:
    """One finite number from `low` to `high`, and greater than `above` where that is given.

    >>> number("temperature", 0, above=0)
    Traceback (most recent call last):
        ...
    ValueError: temperature must be above 0; got 0
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not _is_finite(value):
        raise ValueError(f"{name} must be one finite number; got {value!r:.60}")
    if above is not None and value <= above:
        raise ValueError(f"{name} must be above {above}; got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be {_range(low, high)}; got {value!r}")
    return float(value)


def whole(name: str, value, *, least: int | None = None, most: int | None = None) -> int:
    """One whole number from `least` to `most`; True and False are none."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        result = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number; got {value!r:.60}") from None
    low, high = -np.inf if least is None else least, np.inf if most is None else most
    if not low <= result <= high:
        raise ValueError(f"{name} must be a whole number {_range(low, high, 'of ')}; got {result}")
    return result


def flag(name: str, value) -> bool:
    """True or False, or a number that is 0 or 1."""
    if not isinstance(value, Real | np.bool_) or value not in (0, 1):
        raise ValueError(f"{name} must be True or False; got {value!r:.60}")
    return bool(value)


def numbers(
    name: str, values, *, dimensions: int = 1, least: int = 1, low: float = -np.inf, high: float = np.inf, finite=True
) -> np.ndarray:
    """Values as a float array with that many dimensions and at least `least` entries, each from `low` to `high`.

    finite : False lets NaN and infinite values pass

    >>> numbers("scores", [0.5, 2], high=1)
    Traceback (most recent call last):
        ...
    ValueError: scores must be at most 1; got 2.0
    """
    array = _array(name, values)
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimension(s); got shape {array.shape}")
    if array.size < least:
        raise ValueError(f"{name} must hold at least {least} number(s); got shape {array.shape}")
    if array.size and array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be numbers; got {array.dtype}")
    array = array.astype(float)
    if finite and not (fine := np.isfinite(array)).all():
        raise ValueError(f"{name} must be finite; got {int((~fine).sum())} NaN or infinite of {array.size}")
    outside = (array < low) | (array > high)
    if outside.any():
        raise ValueError(f"{name} must be {_range(low, high)}; got {array[outside][0]}")
    return array


def log_likelihoods(name: str, values, *, rounding: float = 1e-6) -> np.ndarray:
    """Values as a filled (n,) float array of nats, at most 0; what rounding carried above 0 is 0."""
    array = numbers(name, values)
    if array.max() > rounding:
        raise ValueError(f"{name} must be at most 0; got {array.max()}: is the sign right?")
    return np.minimum(0.0, array)


def flags(name: str, values, *, dimensions: int = 1, least: int = 1) -> np.ndarray:
    """Values as a bool array; they are True and False or 0 and 1."""
    array = numbers(name, values, dimensions=dimensions, least=least, finite=False)
    if not (known := np.isin(array, (0, 1))).all():
        raise ValueError(f"{name} must be True and False; got {array[~known][0]}")
    return array.astype(bool)


def members(name: str, values: np.ndarray, allowed: Collection) -> np.ndarray:
    """Values, if each is one of those that are allowed."""
    if not (known := np.isin(values, allowed)).all():
        *first, last = allowed
        raise ValueError(f"{name} must be {', '.join(map(str, first))} or {last}; got {values[~known][0]}")
    return values


def square(name: str, matrix, *, low: float = -np.inf, high: float = np.inf) -> np.ndarray:
    """A filled (n, n) float matrix, all finite, each number from `low` to `high`."""
    array = numbers(name, matrix, dimensions=2, low=low, high=high)
    if array.shape[0] != array.shape[1]:
        raise ValueError(f"{name} must be an (n, n) matrix; got shape {array.shape}")
    return array


def symmetric(name: str, matrix, *, rounding: float = 1e-6, low: float = -np.inf, high: float = np.inf) -> np.ndarray:
    """A filled (n, n) float matrix that equals its mirror image."""
    array = square(name, matrix, low=low, high=high)
    if (apart := np.abs(array - array.T).max()) > rounding:
        raise ValueError(f"{name} must be symmetric; got values that differ by up to {apart} from their mirror image")
    return array


def listed(name: str, values, *, least: int = 1, of: type | None = None) -> list:
    """Values as a list with at least `least` entries, all of type `of`; a string, a set or a mapping is none.

    >>> listed("answers", "Paris")
    Traceback (most recent call last):
        ...
    ValueError: answers must be a list; got str; write [answers] for a single one
    """
    if isinstance(values, str | bytes | set | frozenset | Mapping) or not isinstance(values, Iterable):
        hint = f"; write [{name}] for a single one" if isinstance(values, str) else ""
        raise ValueError(f"{name} must be a list; got {type(values).__name__}{hint}")
    try:
        values = list(values)
    except TypeError:  # an array without dimensions
        raise ValueError(f"{name} must be a list; got one {type(values).__name__} that holds no list") from None
    if len(values) < least:
        raise ValueError(f"{name} must hold at least {least}; got {len(values) or 'none'}")
    if of is not None and (other := [value for value in values if not isinstance(value, of)]):
        raise ValueError(f"{name} must hold {of.__name__} only; got {type(other[0]).__name__}")
    return values


def text(name: str, value, *, empty: bool = True) -> str:
    """A string; with empty=False something must be in it."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string; got {type(value).__name__}")
    if not value and not empty:
        raise ValueError(f"{name} must be a non-empty string; got {value!r}")
    return value


def texts(name: str, values, *, least: int = 1, empty: bool = True) -> list[str]:
    """Values as a list of strings; a bare string is none."""
    return [text(f"{name}[{i}]", value, empty=empty) for i, value in enumerate(listed(name, values, least=least))]


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


def mapping(name: str, value) -> Mapping:
    """A mapping, such as a dict."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping; got {type(value).__name__}")
    return value


def function(name: str, value) -> Callable:
    """Something that can be called."""
    if not callable(value):
        raise ValueError(f"{name} must be a function; got {type(value).__name__}")
    return value


def generator(rng) -> np.random.Generator:
    """A numpy Generator from a seed or from one; None could not be repeated and is refused."""
    if rng is None:
        raise ValueError("rng must be a seed or a numpy Generator; got None, which could not be repeated")
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise ValueError(f"rng must be a seed or a numpy Generator; got {rng!r:.60}") from error


def _array(name: str, values) -> np.ndarray:
    try:
        return np.asarray(values)
    except OverflowError:
        raise ValueError(f"{name} must be numbers that a float can hold; got one that is too large") from None
    except ValueError as error:
        raise ValueError(f"{name} must be rows of equal length; got a ragged list") from error
    except TypeError as error:
        raise ValueError(f"{name} must be numbers; got {type(values).__name__}") from error


def _is_finite(value) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:
        return False


def _range(low: float, high: float, before: str = "") -> str:
    if high == np.inf:
        return f"{before}at least {low}"
    return f"{before}at most {high}" if low == -np.inf else f"from {low} to {high}"
