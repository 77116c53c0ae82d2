"""OpenAI's chat format, in and out. What it says and `Message` does not is kept in `raw`."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tenxgraph.core.state.blocks import (
    AudioBlock,
    DocumentBlock,
    ErrorBlock,
    ImageBlock,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
    UnknownBlock,
)

if TYPE_CHECKING:
    from tenxgraph.core.state.message import Message

__all__ = ["read", "text_of", "write"]

_ROLES = {"developer": "system"}
_OWN_KEYS = frozenset({"role", "content", "tool_calls", "tool_call_id"})
# Keys of `raw` that a request may carry; others came with an answer and would be refused.
_SENT_KEYS = ("name", "audio", "refusal", "function_call")


def read(message: Mapping[str, Any] | Any) -> dict[str, Any]:
    """The fields of a `Message` that an OpenAI message stands for."""
    if not isinstance(message, Mapping):
        message = message.model_dump(exclude_none=True)
    role = str(message.get("role"))
    raw = {key: value for key, value in message.items() if key not in _OWN_KEYS}
    if role in _ROLES:
        raw["role"] = role
    tool_call_id = message.get("tool_call_id")
    fields: dict[str, Any] = {"role": _ROLES.get(role, role)}
    if role == "tool":
        name = raw.pop("name", None)
        fields["content"] = (_read_tool_result(message.get("content"), tool_call_id, name),)
        fields["tool_call_id"] = tool_call_id or ""
    else:
        fields["content"] = tuple(_read_content(message.get("content")))
    if message.get("tool_calls"):
        fields["tool_calls"] = tuple(map(_read_tool_call, message["tool_calls"]))
    if raw:
        fields["raw"] = raw
    return fields


def write(message: "Message") -> dict[str, Any]:
    """An OpenAI message that says the same."""
    raw = message.raw if isinstance(message.raw, dict) else {}
    written: dict[str, Any] = {"role": raw.get("role", message.role)}
    if message.role == "tool":
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        if results and results[0].name is not None:
            written["name"] = results[0].name
        written["tool_call_id"] = message.tool_call_id or ""
        written["content"] = message.text()
        return written
    written["content"] = _write_content(message.content)
    if message.tool_calls:
        written["tool_calls"] = [_write_tool_call(call) for call in message.tool_calls]
    written.update({key: raw[key] for key in _SENT_KEYS if raw.get(key) is not None})
    return written


def text_of(blocks: Iterable[Any]) -> str:
    """What blocks say in words; several are joined by line breaks."""
    texts = []
    for block in blocks:
        if isinstance(block, TextBlock):
            texts.append(block.text)
        elif isinstance(block, ToolResultBlock):
            texts.append(_output_text(block.output))
        elif isinstance(block, ErrorBlock):
            texts.append(block.message)
    return "\n".join(texts)


def _output_text(output: Any) -> str:
    if isinstance(output, str):
        return output
    try:
        return json.dumps(output, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(output)


def _read_tool_result(content: Any, call_id: str | None, name: str | None) -> ToolResultBlock:
    return ToolResultBlock(
        call_id=call_id or "",
        name=name,
        output=text_of(_read_content(content)) if isinstance(content, list) else content or "",
    )


def _read_content(content: Any) -> Iterable[Any]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextBlock(text=content),)
    return [_read_part(part) for part in content]


def _read_part(part: Mapping[str, Any]) -> Any:
    reader = _PART_READERS.get(str(part.get("type")))
    return UnknownBlock(**part) if reader is None else reader(part)


def _read_image(part: Mapping[str, Any]) -> ImageBlock:
    image = part["image_url"]
    return ImageBlock(**_read_url(image["url"]), detail=image.get("detail"))


def _read_audio(part: Mapping[str, Any]) -> AudioBlock:
    audio = part["input_audio"]
    return AudioBlock(data=base64.b64decode(audio["data"]), media_type=f"audio/{audio['format']}")


def _read_file(part: Mapping[str, Any]) -> DocumentBlock:
    file = part["file"]
    data = _read_url(file["file_data"]) if "file_data" in file else {}
    return DocumentBlock(**data, name=file.get("filename"), file_id=file.get("file_id"))


def _read_url(url: str) -> dict[str, Any]:
    head, comma, body = url.partition(";base64,")
    if comma and head.startswith("data:"):
        return {"media_type": head.removeprefix("data:"), "data": base64.b64decode(body)}
    return {"url": url}


_PART_READERS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "text": lambda part: TextBlock(text=part["text"]),
    "image_url": _read_image,
    "input_audio": _read_audio,
    "file": _read_file,
}


def _write_content(blocks: tuple[Any, ...]) -> str | list[dict[str, Any]] | None:
    sent = [block for block in blocks if not isinstance(block, ToolCallBlock)]
    if not sent:
        return None
    if len(sent) == 1 and isinstance(sent[0], TextBlock):
        return sent[0].text
    return [part for block in sent if (part := _write_part(block)) is not None]


def _write_part(block: Any) -> dict[str, Any] | None:
    if isinstance(block, UnknownBlock):
        return {"type": block.type, **(block.model_extra or {})}
    writer = _PART_WRITERS.get(type(block))
    if writer is not None:
        return writer(block)
    text = text_of((block,))
    return {"type": "text", "text": text} if text else None


def _write_image(block: ImageBlock) -> dict[str, Any]:
    image: dict[str, Any] = {"url": _write_url(block)}
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
    file: dict[str, Any] = {}
    if block.name is not None:
        file["filename"] = block.name
    if block.file_id is not None:
        file["file_id"] = block.file_id
    if block.data is not None:
        file["file_data"] = _write_url(block)
    return {"type": "file", "file": file}


def _write_url(block: ImageBlock | DocumentBlock) -> str:
    if block.data is None:
        return block.url or ""
    media_type = block.media_type or "application/octet-stream"
    return f"data:{media_type};base64,{base64.b64encode(block.data).decode()}"


_PART_WRITERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    TextBlock: lambda block: {"type": "text", "text": block.text},
    ImageBlock: _write_image,
    AudioBlock: _write_audio,
    DocumentBlock: _write_file,
}


def _read_tool_call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function") or {}
    return ToolCall.from_arguments(
        id=call.get("id"),
        name=function.get("name") or "",
        arguments=function.get("arguments") or "",
    )


def _write_tool_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments_text()},
    }
