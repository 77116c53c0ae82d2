"""Fields: kinds of values that a client may send, refused before anything is done with them."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

__all__ = ["Id", "MessageId", "Object", "Text", "ThreadId"]


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _unicode(value: Any) -> Any:
    """Refuse what cannot be written as UTF-8, such as half a surrogate pair."""
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


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


def _not_dots(value: str) -> str:
    # Clients resolve these two in a URL before they send it: nobody could read or delete it.
    if value in (".", ".."):
        raise ValueError("must not be `.` or `..`")
    return value


def _no_slash(value: str) -> str:
    if "/" in value or value in (".", ".."):
        raise ValueError("must not contain a `/`, and not be `.` or `..`")
    return value


Text = Annotated[str, AfterValidator(_unicode)]
Object = Annotated[dict[str, Any], AfterValidator(_unicode)]
Id = Annotated[
    str,
    BeforeValidator(_as_text),
    Field(min_length=1, max_length=255, pattern=r"^[^\x00]*$"),
    AfterValidator(_unicode),
    AfterValidator(_not_blank),
]
MessageId = Annotated[Id, AfterValidator(_not_dots)]
"""The id of a message: text of 1 to 255 characters, not `.` or `..`."""
ThreadId = Annotated[Id, AfterValidator(_no_slash)]
"""The id of a thread: text of 1 to 255 characters without `/`; a number is its text."""
