"""The parts of a message's content in OpenAI's format, read into blocks and written from them."""

import base64
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError

from tenxgraph.core.state.blocks import (
    AudioBlock,
    DocumentBlock,
    ErrorBlock,
    ImageBlock,
    TextBlock,
    ToolResultBlock,
    UnknownBlock,
)
from tenxgraph.core.state.frozen import thaw
from tenxgraph.core.state.json_words import output_text, word_for
from tenxgraph.core.state.kept import difference, merge

__all__ = ["as_object", "is_media", "media_as_text", "read_part", "text_of", "write_parts"]

_URL_SAFE = str.maketrans("-_", "+/")
_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


def read_part(part: Any, where: str, *, strict: bool) -> Any:
    """Return the block that a part stands for, with what no field of it holds in `raw`.

    A malformed part is kept whole, as an `UnknownBlock`, unless `strict` is set.

    Raises:
        ValueError: `strict` is set, and the part is malformed; names the place and the problem.
    """
    part = as_object(part)
    try:
        return _understood(part, where)
    except ValidationError as error:  # nested too deeply
        problem = f"`{where}`: {error.errors(include_url=False)[0]['msg']}."
        raise ValueError(problem) from error
    except ValueError:
        if strict:
            raise
        return UnknownBlock.of(part)


def write_parts(blocks: Iterable[Any], omit: Collection[str] = ()) -> list[Any]:
    """Return the parts for blocks; a block that has no form there is left out."""
    parts: list[Any] = []
    for block in blocks:
        if isinstance(block, UnknownBlock):
            parts.append(thaw(block.part))
        elif (written := _from_fields(block)) is not None:
            parts.append(_with_kept(block, written, omit))
    return parts


def _with_kept(block: Any, written: dict[str, Any], omit: Collection[str]) -> dict[str, Any]:
    """Add what `raw` keeps; in place of a field only while the field holds what was read."""
    if not isinstance(block.raw, dict):
        return written
    added = merge(written, block.raw, replace=False)
    whole = merge(written, block.raw)
    replace = whole == added or read_part(whole, "part", strict=False) == block
    return merge(written, block.raw, omit=omit, replace=replace)


def is_media(block: Any) -> bool:
    """Return True if the block is an image, a sound or a file."""
    return isinstance(block, ImageBlock | AudioBlock | DocumentBlock)


def media_as_text(block: Any) -> TextBlock:
    """Return text that stands for an image, a sound or a file where only text can be sent."""
    name = getattr(block, "name", None)
    return TextBlock(text=f"[{block.type}: {name}]" if name else f"[{block.type}]")


def text_of(blocks: Iterable[Any]) -> str:
    """Return what blocks say in words; several are joined by line breaks."""
    texts = []
    for block in blocks:
        if isinstance(block, TextBlock):
            texts.append(block.text)
        elif isinstance(block, ToolResultBlock):
            texts.append(output_text(block.output))
        elif isinstance(block, ErrorBlock):
            texts.append(block.message)
    return "\n".join(texts)


def as_object(value: Any) -> Any:
    """Return an object of the client's as the dict that it was made of."""
    dump = getattr(value, "model_dump", None)
    return value if dump is None else dump(exclude_unset=True)


def _understood(part: Any, where: str) -> Any:
    if not isinstance(part, Mapping):
        raise ValueError(f"`{where}` must be an object, not {word_for(part)}.")
    reader = _READERS.get(_field(part, "type", str, where))
    if reader is None:
        return UnknownBlock.of(part)
    block = reader(part, where)
    raw = difference(part, _from_fields(block) or {})
    return block.model_copy(update={"raw": raw}) if raw else block


def _field(holder: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = holder.get(key)
    if isinstance(value, kind):
        return value
    wanted = "text" if kind is str else "an object"
    found = f"must be {wanted}, not {word_for(value)}" if key in holder else "is missing"
    raise ValueError(f"`{where}.{key}` {found}.")


def _optional(holder: Mapping[str, Any], key: str, where: str) -> str | None:
    return None if holder.get(key) is None else _field(holder, key, str, where)


def _read_text(part: Mapping[str, Any], where: str) -> TextBlock:
    return TextBlock(text=_field(part, "text", str, where))


def _read_image(part: Mapping[str, Any], where: str) -> ImageBlock:
    if isinstance(part.get("image_url"), str):  # as Mistral takes it, too
        return ImageBlock(**_read_url(part["image_url"], f"{where}.image_url"))
    image, where = _field(part, "image_url", Mapping, where), f"{where}.image_url"
    url = _read_url(_field(image, "url", str, where), f"{where}.url")
    return ImageBlock(**url, detail=_optional(image, "detail", where))


def _read_audio(part: Mapping[str, Any], where: str) -> AudioBlock:
    audio, where = _field(part, "input_audio", Mapping, where), f"{where}.input_audio"
    data = _decoded(_field(audio, "data", str, where), f"{where}.data")
    return AudioBlock(data=data, media_type=f"audio/{_field(audio, 'format', str, where)}")


def _read_file(part: Mapping[str, Any], where: str) -> DocumentBlock:
    file, where = _field(part, "file", Mapping, where), f"{where}.file"
    data = _optional(file, "file_data", where)
    return DocumentBlock(
        **({} if data is None else _read_url(data, f"{where}.file_data")),
        name=_optional(file, "filename", where),
        file_id=_optional(file, "file_id", where),
    )


def _read_url(url: str, where: str) -> dict[str, Any]:
    head, comma, body = url.partition(";base64,")
    if comma and head.startswith("data:"):
        return {"media_type": head.removeprefix("data:"), "data": _decoded(body, where)}
    return {"url": url}


def _decoded(text: str, where: str) -> bytes:
    """Decode base64 of either alphabet, with or without line breaks and padding."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        plain = "".join(unquote(text).split()).rstrip("=").translate(_URL_SAFE)
    wrong = _NO_BASE64.search(plain)
    if wrong is not None:
        raise ValueError(f"`{where}` must be base64, in which there is no {wrong[0]!r}.")
    if len(plain) % 4 == 1:
        raise ValueError(f"`{where}` must be base64, and is cut short.")
    return base64.b64decode(plain + "=" * (-len(plain) % 4))


_READERS: dict[str, Callable[[Mapping[str, Any], str], Any]] = {
    "text": _read_text,
    "image_url": _read_image,
    "input_audio": _read_audio,
    "file": _read_file,
}


def _from_fields(block: Any) -> dict[str, Any] | None:
    writer = _WRITERS.get(type(block))
    if writer is not None:
        return writer(block)
    text = text_of((block,))
    return {"type": "text", "text": text} if text else None


def _write_image(block: ImageBlock) -> dict[str, Any]:
    image: dict[str, Any] = {"url": _write_url(block) or ""}
    if block.detail is not None:
        image["detail"] = block.detail
    return {"type": "image_url", "image_url": image}


def _write_audio(block: AudioBlock) -> dict[str, Any]:
    audio = {
        "data": base64.b64encode(block.data or b"").decode(),
        "format": (block.media_type or "audio/wav").removeprefix("audio/"),
    }
    return {"type": "input_audio", "input_audio": audio}


def _write_file(block: DocumentBlock) -> dict[str, Any]:
    file = {"filename": block.name, "file_id": block.file_id, "file_data": _write_url(block)}
    said = {key: value for key, value in file.items() if value is not None}
    return {"type": "file", "file": said}


def _write_url(block: ImageBlock | DocumentBlock) -> str | None:
    if block.data is None:
        return block.url
    media_type = "application/octet-stream" if block.media_type is None else block.media_type
    return f"data:{media_type};base64,{base64.b64encode(block.data).decode()}"


_WRITERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    TextBlock: lambda block: {"type": "text", "text": block.text},
    ImageBlock: _write_image,
    AudioBlock: _write_audio,
    DocumentBlock: _write_file,
}
