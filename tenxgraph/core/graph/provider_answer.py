"""What a server answered, as a message: one reader for whole answers and for streams."""

import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.calls import is_cut
from tenxgraph.core.graph.streamed_value import json_text
from tenxgraph.core.state import Message, TokenUsages

__all__ = ["as_plain", "finish_reason_of", "raise_error_of", "read_answer"]

# What servers say for the reasons of OpenAI.
_REASONS = {
    "MAX_TOKENS": "length",
    "max_tokens": "length",
    "model_length": "length",
    "SAFETY": "content_filter",
}
# The server has failed, whatever it has sent so far.
_FAILURES = frozenset({"error", "insufficient_system_resource"})
_LARGEST_COUNT = 2**53


def as_plain(value: Any) -> Any:
    """Return an object of the client as dicts, lists and scalars.

    The client makes objects without checking them, so a field may be missing or of any type.
    """
    if isinstance(value, BaseModel):
        fields = {name: value.__dict__.get(name) for name in value.model_fields_set}
        return as_plain({**fields, **(value.model_extra or {})})
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    return value


def finish_reason_of(choice: Mapping[str, Any]) -> str | None:
    """Return why the answer ended, in OpenAI's words where there is one; None if it has not."""
    reason = choice.get("finish_reason") or choice.get("finishReason")
    if not isinstance(reason, str) or reason == "null":
        return None
    return _REASONS.get(reason, reason)


def raise_error_of(said: Mapping[str, Any]) -> None:
    """Raise `GraphError` with the server's words if a chunk, choice or answer holds an error."""
    error = said.get("error")
    if error:
        raise GraphError(f"The model's server has failed: {words_of(error)}")


def words_of(error: Any) -> str:
    """Return what an error object says, with its code and the words of the server behind."""
    if not isinstance(error, Mapping):
        return str(error)
    metadata = error.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    told = [error.get("message") or "no reason was given"]
    told += [f"{name} {error[name]}" for name in ("code", "type") if error.get(name)]
    told += [f"{metadata[name]}" for name in ("provider_name", "raw") if metadata.get(name)]
    return "; ".join(map(str, told))


def read_answer(answer: Any, *, model: str) -> Message:
    """Return the message of an answer in OpenAI's format.

    Args:
        answer: the answer, as the client or the assembler of streams gives it.
        model: the name of the model that was asked.

    Raises:
        GraphError: there is no answer, the server says that it has failed, or the answer was cut
            before its first word.
    """
    plain = as_plain(answer)
    if not isinstance(plain, Mapping):
        raise GraphError(f"The model {model!r} gave no answer, but {str(plain)[:200]!r}.")
    raise_error_of(plain)
    choice = _first(plain.get("choices"))
    said = choice.get("message") if choice is not None else None
    if choice is None or not isinstance(said, Mapping):
        raise GraphError(f"The model {model!r} gave no answer.")
    raise_error_of(choice)
    reason = finish_reason_of(choice)
    usages = usages_of(plain.get("usage"))
    told = _cleaned(said)
    _check_end(told, reason, usages, model)
    name = plain.get("model")
    named = name if isinstance(name, str) and name else model
    more = {"usages": usages, "metadata": {"model": named, "finish_reason": reason}}
    return Message.from_openai(told).model_copy(update=more)


def usages_of(usage: Any) -> TokenUsages | None:
    """Return the token counts that can be read; None if there are none."""
    if not isinstance(usage, Mapping):
        return None
    counts = {
        "prompt_tokens": _count(usage.get("prompt_tokens")),
        "completion_tokens": _count(usage.get("completion_tokens")),
        "total_tokens": _count(usage.get("total_tokens")),
        "reasoning_tokens": _detail(usage, "completion_tokens_details", "reasoning_tokens"),
        "cached_tokens": _detail(usage, "prompt_tokens_details", "cached_tokens"),
    }
    known = {name: count for name, count in counts.items() if count is not None}
    if not known:
        return None
    total = known.get("prompt_tokens", 0) + known.get("completion_tokens", 0)
    return TokenUsages(**{"total_tokens": total, **known})


def _first(choices: Any) -> Mapping[str, Any] | None:
    choices = [choices] if isinstance(choices, Mapping) else choices
    found = (
        [one for one in choices if isinstance(one, Mapping)] if isinstance(choices, list) else []
    )
    return next((one for one in found if one.get("index") == 0), found[0] if found else None)


def _check_end(
    said: Mapping[str, Any], reason: str | None, usages: TokenUsages | None, model: str
) -> None:
    if reason in _FAILURES:
        raise GraphError(f"The model {model!r} failed while it answered (`{reason}`).")
    if _says_anything(said) or (reason is not None and not is_cut(reason)):
        return
    if reason == "content_filter":
        message = f"The answer of {model!r} was withheld by the content filter of its server."
        raise GraphError(message)
    if reason != "length":
        why = f"`{reason}`" if reason else "without a reason"
        raise GraphError(f"The answer of {model!r} ended before its first word ({why}).")
    spent = f" after {usages.completion_tokens} tokens" if usages else ""
    raise GraphError(
        f"The answer of {model!r} was cut{spent}, before its first word. Raise `max_tokens`, or "
        "lower the effort of reasoning."
    )


def _says_anything(said: Mapping[str, Any]) -> bool:
    content = said.get("content")
    empty = {"type": "text", "text": ""}
    words = [part for part in content if part != empty] if isinstance(content, list) else content
    return bool(words) or any(said.get(key) for key in ("tool_calls", "refusal", "audio"))


def _cleaned(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message without what says nothing, and with its calls in the form of today."""
    message = {key: value for key, value in said.items() if value not in (None, [], {})}
    message["role"] = "assistant"
    message["content"] = message.get("content") or None
    _move_refusal(message)
    if message.get("refusal") == "":
        del message["refusal"]
    calls = _calls(message.pop("tool_calls", None))
    # Only `tools` are offered, never the `functions` of old: a call is a call of a tool.
    if not calls and isinstance(message.get("function_call"), Mapping):
        calls = _calls([{"function": message.pop("function_call")}])
    return message | ({"tool_calls": calls} if calls else {})


def _move_refusal(message: dict[str, Any]) -> None:
    """Take a refusal that came as a part of the content for the refusal of the message."""
    content = message["content"]
    parts = content if isinstance(content, list) else []
    refusals = [one for one in parts if isinstance(one, Mapping) and one.get("type") == "refusal"]
    if refusals and not message.get("refusal"):
        message["refusal"] = "".join(str(one.get("refusal") or "") for one in refusals)
        message["content"] = [one for one in parts if one not in refusals] or None


def _calls(calls: Any) -> list[dict[str, Any]]:
    calls = [calls] if isinstance(calls, Mapping) else calls
    found = calls if isinstance(calls, list) else []
    return [_call(one) for one in found if isinstance(one, Mapping) and _says_something(one)]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    made = {key: value for key, value in call.items() if key != "index" and value is not None}
    made["id"] = str(made.get("id", ""))
    made.setdefault("type", "function")
    function = made.get("function")
    if isinstance(function, Mapping):
        name, arguments = function.get("name"), json_text(function.get("arguments"))
        named = "" if name is None else str(name)
        made["function"] = {**function, "name": named, "arguments": arguments}
    return made


def _says_something(call: Mapping[str, Any]) -> bool:
    function = call.get("function")
    if not isinstance(function, Mapping):
        return any(value for key, value in call.items() if key not in ("index", "type", "function"))
    return bool(call.get("id") or function.get("name") or function.get("arguments"))


def _detail(usage: Mapping[str, Any], details: str, name: str) -> int | None:
    found = usage.get(details)
    return _count(found.get(name)) if isinstance(found, Mapping) else None


def _count(value: Any) -> int | None:
    """Return a count of tokens, or None if the value is none: servers send text and fractions."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if math.isfinite(number) and 0 <= number <= _LARGEST_COUNT else None
