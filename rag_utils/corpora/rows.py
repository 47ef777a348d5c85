"""From a file to checked rows: JSON lines or a JSON list, each row of the form that a pydantic model says.

Errors are `DataError`; they name file, row and field, and quote nothing.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from rag_utils.corpora.manifest import DataError


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("should hold no half of a surrogate pair") from None
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("should not be blank")
    return text


AnyText = Annotated[str, AfterValidator(_encodable)]
Text = Annotated[AnyText, AfterValidator(_not_blank)]
T = TypeVar("T")
Some = Annotated[list[T], Field(min_length=1)]


class Row(BaseModel):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)


R = TypeVar("R", bound=Row)


def check(form: type[R], row: object, where: str) -> R:
    """Return the row in its form. `where` names file and row.

    raises : DataError if it is not of that form, naming the first field that is not
    """
    if not isinstance(row, dict):
        raise DataError(f"{where}: wanted an object with named fields, got {type(row).__name__}")
    try:
        return form.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        raise DataError(f"{where}, field {field}: missing")
    wanted = first["msg"].removeprefix("Value error, ")
    raise DataError(f"{where}, field {field}: {wanted}, got {type(first['input']).__name__}")


def lines(path: Path) -> Iterator[tuple[str, object]]:
    """Yield (file and row, parsed line) for the lines of a JSON lines file, gzipped or not, without the blank ones."""
    row = 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            for row, line in enumerate(file, 1):
                if line.strip():
                    where = f"{path}, row {row}"
                    yield where, _parse(line, where)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path}: not a whole gzip file, it breaks off or is damaged after row {row}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8 after row {row}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or type(error).__name__}") from error
    if not row:
        raise DataError(f"{path}: empty, wanted one row per line")


def items(path: Path, key: str | None = None) -> Iterator[tuple[str, object]]:
    """Yield (file and row, item) for the items of a JSON list, or of the list under `key` of a JSON object."""
    try:
        content = _parse(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or type(error).__name__}") from error
    if key is not None:
        content = content.get(key) if isinstance(content, dict) else None
    if not isinstance(content, list) or not content:
        place = "" if key is None else f", field {key}"
        raise DataError(f"{path}{place}: wanted a list with one item per row, got {type(content).__name__} or no item")
    for row, item in enumerate(content, 1):
        yield f"{path}, row {row}", item


def _parse(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError):
        place = "numbers too long or nesting too deep"
    raise DataError(f"{where}: not JSON, or cut short ({place})")


def once(ids: Iterable[str], where: str, field: str, seen: set[str] | None = None) -> None:
    """Raise DataError if an id comes twice, or is in `seen`, to which all are added."""
    seen = set() if seen is None else seen
    for value in ids:
        if value in seen:
            raise DataError(f"{where}, field {field}: the same was there before, wanted each once")
        seen.add(value)
