"""Fields: kinds of values that a client may send, refused before anything is done with them."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

__all__ = ["Id", "Object", "Text", "ThreadId", "shallow"]

_DEEPEST = 50


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _unicode(value: Any) -> Any:
    """What can be written as UTF-8, everywhere in it; half a surrogate pair cannot."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("is not valid Unicode") from None
    elif isinstance(value, dict):
        for key, item in value.items():
            _unicode(key), _unicode(item)
    elif isinstance(value, list):
        for item in value:
            _unicode(item)
    return value


def shallow(value: Any, depth: int = 0) -> Any:
    """What is not nested deeper than anything that reads or writes it could follow."""
    if depth > _DEEPEST:
        raise ValueError(f"is nested more than {_DEEPEST} deep")
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        shallow(item, depth + 1)
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


Text = Annotated[str, AfterValidator(_unicode)]
Object = Annotated[dict[str, Any], AfterValidator(shallow), AfterValidator(_unicode)]
Id = Annotated[
    str,
    BeforeValidator(_as_text),
    Field(min_length=1, max_length=255, pattern=r"^[^\x00]*$"),
    AfterValidator(_unicode),
    AfterValidator(_not_blank),
]


def _one_part_of_a_path(value: str) -> str:
    if "/" in value or value in (".", ".."):
        raise ValueError("must not contain a `/`, and not be `.` or `..`")
    return value


ThreadId = Annotated[Id, AfterValidator(_one_part_of_a_path)]
"""The id of a thread: text of 1 to 255 characters without `/`; a number is its text."""
