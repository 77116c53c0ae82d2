"""OpenAI's chat format: one reader and one writer, for history, answers and streams alike.

What is understood is a field. What is not is kept in `raw` of the message, block or call that it
came with, and written back in its place.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from tenxgraph.core.state.blocks import TextBlock, ToolCall, ToolCallBlock, ToolResultBlock
from tenxgraph.core.state.json_words import word_for
from tenxgraph.core.state.kept import difference, merge
from tenxgraph.core.state.openai_parts import (
    as_object,
    is_media,
    media_as_text,
    read_part,
    text_of,
    write_parts,
)

if TYPE_CHECKING:
    from tenxgraph.core.state.message import Message

__all__ = ["came_in_parts", "read", "text_of", "with_usual_spelling", "write"]

_ROLES = {"developer": "system"}
# What these say was paid for, or done: a part that is malformed is kept, and not refused.
_TOLERATED = ("assistant", "tool")
_OWN_KEYS = {"role", "content", "tool_calls", "tool_call_id"}
_REASONING_KEYS = ("reasoning_content", "reasoning")
# Values in `raw` under keys whose text is always a field's, so that nothing else can be meant.
_LIST = "(list)"
_REASONING = "(reasoning)"


def read(message: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """Return the fields of a `Message` that a message in OpenAI's format stands for.

    Args:
        message: a dict, or the client's own object.
        strict: refuse malformed parts instead of keeping them; by default for all but assistants
            and tools.

    Raises:
        ValueError: it is no message, or has a malformed part; names the place and the problem.
    """
    message = as_object(message)
    if not isinstance(message, Mapping):
        raise ValueError(f"A message must be an object with a `role`, not {word_for(message)}.")
    named = str(message.get("role"))
    role = _ROLES.get(named, named)
    if strict is None:
        strict = role not in _TOLERATED
    fields: dict[str, Any] = {"role": role, "reasoning": _reasoning(message)}
    written: dict[str, Any] = {"role": role}
    if role == "tool":
        call_id, name = (_text_or_none(message.get(key)) for key in ("tool_call_id", "name"))
        fields["tool_call_id"] = written["tool_call_id"] = call_id or ""
    else:
        call_id = name = None
    content = message.get("content")
    fields["content"] = _read_content(content, role, strict, call_id, name)
    if name is not None and not isinstance(content, list | tuple):
        written["name"] = name
    if role == "assistant":
        calls = _listed(message.get("tool_calls"))
        understood = [one for one in map(as_object, calls) if isinstance(one, Mapping)]
        fields["tool_calls"] = tuple(map(_read_call, understood))
        if understood:
            written["tool_calls"] = calls if len(understood) == len(calls) else understood
    fields["raw"] = _kept(message, written, fields)
    return fields


def _kept(
    message: Mapping[str, Any], written: dict[str, Any], fields: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return what the message says and no field holds."""
    content, blocks, role = message.get("content"), fields["content"], fields["role"]
    in_parts = isinstance(content, list | tuple)
    written["content"] = content if in_parts else _write_content(blocks, role)
    raw = difference(message, written)
    if in_parts and not isinstance(_write_content(blocks, role), list):
        raw["content"] = _LIST
    if raw and fields["reasoning"] is not None:
        for key in _REASONING_KEYS:
            if raw.get(key) == fields["reasoning"]:
                raw[key] = _REASONING
    return raw or None


def _reasoning(message: Mapping[str, Any]) -> str | None:
    texts = [value for key in _REASONING_KEYS if isinstance(value := message.get(key), str)]
    # A text that equals our mark is told from it only by being what the field holds.
    return _REASONING if _REASONING in texts else next(filter(None, texts), None)


def _read_content(
    content: Any, role: str, strict: bool, call_id: str | None, name: str | None
) -> tuple[Any, ...]:
    if isinstance(content, list | tuple):
        return tuple(
            read_part(part, f"content[{place}]", strict=strict)
            for place, part in enumerate(content)
        )
    if role == "tool":
        output = "" if content is None else content
        return (ToolResultBlock(call_id=call_id or "", name=name, output=output),)
    if isinstance(content, str):
        return (TextBlock(text=content),)
    if content is not None and strict:
        raise ValueError(f"`content` must be text or a list of parts, not {word_for(content)}.")
    return ()


def write(message: "Message", *, omit: Collection[str] = ()) -> dict[str, Any]:
    """Return the message in OpenAI's format, without the kept keys that are named in `omit`."""
    if not isinstance(message.raw, dict):
        return _from_fields(message, {}, omit)
    raw = message.raw
    written = _from_fields(message, raw, omit)
    kept = {key: value for key, value in raw.items() if not _is_mark(key, value)}
    own = _OWN_KEYS | written.keys()
    if kept.keys() & own:
        # What was kept in place of a field counts only while the field holds what was read.
        fields = read(merge(_from_fields(message, raw), kept), strict=False)
        if fields != {name: getattr(message, name) for name in fields}:
            kept = {key: value for key, value in kept.items() if key not in own}
    return merge(written, kept, omit=omit)


def came_in_parts(message: "Message") -> bool:
    """Return True if the content came as a list of parts that the fields alone would not make."""
    return isinstance(message.raw, dict) and message.raw.get("content") == _LIST


def with_usual_spelling(call: ToolCall) -> ToolCall:
    """Return the call without what is kept in place of its fields, and without nulls."""
    if not isinstance(call.raw, dict):
        return call
    written = _call_from_fields(call, call.type)
    added = difference(merge(written, call.raw, replace=False), written)
    typed = {} if call.type == "function" else {"type": call.type}
    raw = typed | {key: value for key, value in added.items() if value is not None}
    return call if raw == call.raw else call.model_copy(update={"raw": raw or None})


def _is_mark(key: str, value: Any) -> bool:
    return (key == "content" and value == _LIST) or (key in _REASONING_KEYS and value == _REASONING)


def _from_fields(
    message: "Message", raw: Mapping[str, Any], omit: Collection[str] = ()
) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role}
    in_parts = raw.get("content") == _LIST
    written["content"] = _write_content(message.content, message.role, in_parts, omit)
    if message.role == "tool":
        written["tool_call_id"] = message.tool_call_id or ""
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        if results and results[0].name is not None:
            written["name"] = results[0].name
    elif message.tool_calls:
        written["tool_calls"] = [_write_call(call, omit) for call in message.tool_calls]
    if message.reasoning is not None:
        keys = (key for key in _REASONING_KEYS if raw.get(key) == _REASONING)
        written.update({key: message.reasoning for key in keys if key not in omit})
    return written


def _write_content(
    blocks: tuple[Any, ...], role: str, in_parts: bool = False, omit: Collection[str] = ()
) -> str | list[dict[str, Any]] | None:
    if role == "tool" and not in_parts:
        return text_of(media_as_text(block) if is_media(block) else block for block in blocks)
    sent = [block for block in blocks if not isinstance(block, ToolCallBlock)]
    if not in_parts and not sent:
        return None
    if not in_parts and len(sent) == 1 and isinstance(sent[0], TextBlock) and not sent[0].raw:
        return sent[0].text
    return write_parts(sent, omit)


def _listed(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else ()


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _read_call(call: Mapping[str, Any]) -> ToolCall:
    kind = _text_or_none(call.get("type"))
    holder = call.get("custom" if kind == "custom" else "function")
    said = holder if isinstance(holder, Mapping) else {}
    call_id, name = _text_or_none(call.get("id")) or "", _text_or_none(said.get("name")) or ""
    arguments = said.get("input" if kind == "custom" else "arguments")
    if kind == "custom":
        made = ToolCall(id=call_id, name=name, arguments=_text_or_none(arguments) or "")
    elif isinstance(arguments, Mapping):
        made = ToolCall(id=call_id, name=name, args=dict(arguments))
    else:
        text = _text_or_none(arguments) or ""
        made = ToolCall.from_arguments(id=call_id, name=name, arguments=text)
    made_kind = "function" if kind is None else kind
    typed = {} if made_kind == "function" else {"type": kind}
    raw = {**difference(call, _call_from_fields(made, made_kind)), **typed}
    return made.model_copy(update={"raw": raw}) if raw else made


def _write_call(call: ToolCall, omit: Collection[str] = ()) -> dict[str, Any]:
    written = _call_from_fields(call, call.type)
    if not isinstance(call.raw, dict):
        return written
    added = merge(written, call.raw, replace=False)
    whole = merge(written, call.raw)
    replace = whole == added or _read_call(whole) == call
    return merge(written, call.raw, omit=omit, replace=replace)


def _call_from_fields(call: ToolCall, kind: str) -> dict[str, Any]:
    written: dict[str, Any] = {"id": call.id, "type": kind}
    if kind == "custom":
        written["custom"] = {"name": call.name, "input": call.arguments_text()}
    elif kind == "function" or call.name:
        written["function"] = {"name": call.name, "arguments": call.arguments_text()}
    return written
