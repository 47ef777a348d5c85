"""From a file to checked rows: JSON lines or a JSON list, each row of the form that a pydantic model says.

Errors are `DataError`; they name file, row and field, and quote nothing.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

T = TypeVar("T")


class DataError(ValueError):
    """A data file is absent, damaged or not of the form that is wanted."""


def _encodable(text: str) -> str:
    if re.search(r"[\ud800-\udfff]", text):
        raise ValueError("should hold no half of a surrogate pair")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("should not be blank")
    return text


AnyText = Annotated[str, AfterValidator(_encodable)]
Text = Annotated[AnyText, AfterValidator(_not_blank)]
Some = Annotated[list[T], Field(min_length=1)]


class Row(BaseModel):
    """A row of somebody's file; fields that it does not name may be there."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)


class Form(BaseModel):
    """What this repository writes: these fields and no other."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


def fields(**kinds) -> type[Row]:
    """A form of rows, as in fields(id=Text, answers=Some[Text])."""
    return create_model("Fields", __base__=Row, **{name: (kind, ...) for name, kind in kinds.items()})


def checked(form: type[Row], rows: Iterable[tuple[str, object]]) -> Iterator[tuple[str, Row]]:
    """Yield (file and row, row in its form) of what `lines` or `items` yield; an `id` may come once.

    raises : DataError for a row that is not of that form, naming the first field that is not
    """
    seen: set[str] = set()
    for where, content in rows:
        item = check(form, content, where)
        if "id" in form.model_fields:
            once([item.id], where, "id", seen)
        yield where, item


def check(form: type[Row], row: object, where: str) -> Row:
    """Return the row in its form. `where` names file and row; DataError as `checked`."""
    if not isinstance(row, dict):
        raise DataError(f"{where}: wanted an object with named fields, got {type(row).__name__}")
    try:
        return form.model_validate(row)
    except ValidationError as error:
        field, wanted, got = _first(error)
    raise DataError(f"{where}, field {field}: {wanted}" + ("" if wanted == "missing" else f", got {got}"))


def document(path: Path, form: object, *, mend: str, error: type[ValueError] = DataError):
    """The content of a JSON file in that form; what is wrong is an `error` that names file and field and ends in `mend`."""
    try:
        return TypeAdapter(form).validate_json(path.read_bytes())
    except OSError as unread:
        raise error(f"cannot read {path}: {unread.strerror}; {mend}") from unread
    except ValidationError as unfit:
        field, wanted, _ = _first(unfit)
    raise error(f"{path}, field {field}: {wanted}; {mend}")


def _first(error: ValidationError) -> tuple[str, str, str]:
    """Field, what is wanted and the type of what came, of the first thing that a form refuses."""
    first = error.errors(include_url=False, include_context=False)[0]
    wanted = "missing" if first["type"] == "missing" else first["msg"].removeprefix("Value error, ")
    return ".".join(map(str, first["loc"])) or "(all)", wanted, type(first["input"]).__name__


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
        raise unreadable(path, error) from error
    if not row:
        raise DataError(f"{path}: empty, wanted one row per line")


def items(path: Path, key: str | None = None) -> Iterator[tuple[str, object]]:
    """Yield (file and row, item) for the items of a JSON list, or of the list under `key` of a JSON object."""
    try:
        content = _parse(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8") from None
    except OSError as error:
        raise unreadable(path, error) from error
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


def unreadable(path: Path, error: OSError) -> DataError:
    """What a file that cannot be read is said to be."""
    return DataError(f"cannot read {path}: {error.strerror or type(error).__name__}")


def once(ids: Iterable[str], where: str, field: str, seen: set[str] | None = None) -> None:
    """Raise DataError if an id comes twice, or is in `seen`, to which all are added."""
    seen = set() if seen is None else seen
    for value in ids:
        if value in seen:
            raise DataError(f"{where}, field {field}: the same was there before, wanted each once")
        seen.add(value)
