"""What servers of OpenAI's protocol answer to an embeddings request, and how it is read."""

import array
import base64
import binascii
import sys
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from openai import APIStatusError

__all__ = [
    "EncodingFormat",
    "NotBase64Error",
    "checked_encoding_format",
    "refuses_base64",
    "vectors_of",
]

EncodingFormat = Literal["base64", "float"]

_BYTES_OF_FLOAT = 4
_REFUSALS = (400, 415, 422, 500, 501)
_WORDS = ("encoding_format", "base64", "float")
_REMEDY = 'Pass `encoding_format="float"` to OpenAIEmbedding.'


class NotBase64Error(ValueError):
    """A vector came as text that is not base64 of 32-bit floats."""


def checked_encoding_format(encoding_format: object) -> EncodingFormat | None:
    """Return the format of this name; raise `ValueError` if there is none."""
    if encoding_format is None:
        return None
    if encoding_format == "base64":
        return "base64"
    if encoding_format == "float":
        return "float"
    raise ValueError(
        f'`encoding_format` must be "base64", "float" or None, not {encoding_format!r}.'
    )


def refuses_base64(error: "APIStatusError") -> bool:
    """Return True if the server does not know the format, and not something else of the request."""
    told = f"{error} {error.body}".lower()
    return error.status_code in _REFUSALS and any(word in told for word in _WORDS)


def vectors_of(reply: Any) -> list[list[float]]:
    """Return the vectors of a reply, in the order of the texts.

    Raises:
        NotBase64Error: a vector is text, but not base64.
        AttributeError, TypeError, ValueError: the reply is no reply to an embeddings request.
    """
    return [_vector(item.embedding) for item in _in_order(list(reply.data))]


def _in_order(items: list[Any]) -> list[Any]:
    """Return the items by their indices, or as they came if the indices do not order them all.

    Many servers leave `index` out of a batch, or send the same one for all of it. They answer in
    the order of the request.
    """
    positions = [_position(getattr(item, "index", None)) for item in items]
    if sorted(position for position in positions if position is not None) != [*range(len(items))]:
        return items
    by_position = dict(zip(positions, items, strict=True))
    return [by_position[position] for position in range(len(items))]


def _position(index: object) -> int | None:
    if isinstance(index, bool):
        return None
    if isinstance(index, int):
        return index
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return int(index) if isinstance(index, str) and index.isdecimal() else None


def _vector(embedding: Any) -> list[float]:
    if isinstance(embedding, str):
        return _unpacked(embedding)
    return [float(number) for number in embedding]


def _unpacked(text: str) -> list[float]:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotBase64Error(f"A vector is text that is not base64. {_REMEDY}") from error
    if not data or len(data) % _BYTES_OF_FLOAT:
        raise NotBase64Error(f"A vector is base64, but not of 32-bit numbers. {_REMEDY}")
    numbers = array.array("f", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
