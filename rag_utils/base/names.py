"""Names that a reader can mistype: chapters, parameters, profiles, metrics, data sets."""

from collections.abc import Iterable
from difflib import get_close_matches


def check_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return `name` if it is known; otherwise raise an error that lists the nearest known names.

    kind   : what is being named, as it should read in the message ("profile", "metric", ...)
    raises : ValueError naming `kind`, what was got, the near names and all that is known

    >>> check_name("fruit", "aple", ["apple", "pear"])
    Traceback (most recent call last):
        ...
    ValueError: unknown fruit 'aple'; did you mean 'apple'? Known: 'apple', 'pear'
    """
    known = sorted(known)
    if name in known:
        return name
    near = get_close_matches(str(name), known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ValueError(f"unknown {kind} {name!r}; {hint}Known: {', '.join(map(repr, known)) or 'none'}")
