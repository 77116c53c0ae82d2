"""Messages in OpenAI's format, made at random, as providers and clients may send them."""

import base64
from typing import Any

from hypothesis import strategies as st

__all__ = ["answers", "conversations", "json_values", "messages", "results", "said"]

texts = st.text(st.characters(), max_size=12)
"""Any text, half a surrogate pair included: JSON can escape it."""

_leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | texts
    | st.sampled_from(["(absent)", "(list)", "(reasoning)", "$t", ""])
)
json_values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)

_OWN = ["error", "tool_call", "reasoning", "image", "audio", "document", "data", "tool_result"]
_extra_keys = st.sampled_from(
    ["cache_control", "raw", "type_", "media_type", "data", "url", "name", "$t", "index", "call"]
)


def _with_more(objects: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Add keys that nobody knows; those that are known stay."""
    more = st.dictionaries(_extra_keys | texts, json_values, max_size=2)
    return st.builds(lambda known, added: {**added, **known}, objects, more)


def _optional(**values: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=values)


_spellings = st.sampled_from(["plain", "url-safe", "no padding", "lines", "percent"])


def _base64(data: bytes, spelling: str) -> str:
    if spelling == "url-safe":
        return base64.urlsafe_b64encode(data).decode()
    if spelling == "lines":
        return base64.encodebytes(data).decode()
    text = base64.b64encode(data).decode()
    if spelling == "percent":
        return text.replace("=", "%3D").replace("+", "%2B")
    return text.rstrip("=") if spelling == "no padding" else text


_encoded = st.builds(_base64, st.binary(max_size=64), _spellings)
_media_types = st.sampled_from(["image/png", "text/plain;charset=utf-8", "", "application/pdf"])
urls = texts | st.builds(lambda kind, body: f"data:{kind};base64,{body}", _media_types, _encoded)

_text_parts = st.fixed_dictionaries({"type": st.just("text"), "text": texts})
_image_objects = st.fixed_dictionaries({"url": urls}, optional={"detail": st.none() | texts})
_image_parts = st.fixed_dictionaries(
    {"type": st.just("image_url"), "image_url": _with_more(_image_objects) | urls}
)
_sounds = st.fixed_dictionaries({"data": _encoded, "format": st.sampled_from(["wav", "mp3"])})
_audio_parts = st.fixed_dictionaries(
    {"type": st.just("input_audio"), "input_audio": _with_more(_sounds)}
)
_files = _optional(
    filename=st.none() | texts, file_id=st.none() | texts, file_data=st.none() | urls | _encoded
)
_file_parts = st.fixed_dictionaries({"type": st.just("file"), "file": _with_more(_files)})
_unknown_parts = st.fixed_dictionaries(
    {"type": st.sampled_from([*_OWN, "unknown", "thinking", "video_url", "refusal"]) | texts}
).filter(lambda part: part["type"] not in ("text", "image_url", "input_audio", "file"))
parts = (
    _with_more(_text_parts)
    | _with_more(_image_parts)
    | _with_more(_audio_parts)
    | _with_more(_file_parts)
    | _with_more(_unknown_parts)
)
"""Parts that are well-formed, or of a kind that nobody knows."""

malformed_parts = json_values | st.builds(
    lambda kind, inner: {"type": kind, kind: inner},
    st.sampled_from(["text", "image_url", "input_audio", "file"]),
    json_values,
)

_plain_keys = ["name", "annotations", "refusal", "audio", "function_call", "reasoning_details"]
_more_keys = st.dictionaries(
    st.sampled_from([*_plain_keys, "reasoning_content", "reasoning", "metadata", "raw"]) | texts,
    json_values | texts,
    max_size=3,
)

_functions = _optional(name=texts | st.none(), arguments=texts | st.none() | json_values)
_functions |= st.fixed_dictionaries(
    {"name": texts, "arguments": st.sampled_from(['{"a":1}', '{"a": 1}', "{}", "[1]", "{"])}
)
_customs = _optional(name=texts | st.none(), input=texts | st.none())
calls = _with_more(
    _optional(
        id=texts | st.none(), type=st.just("function") | st.none(), function=_with_more(_functions)
    )
    | st.fixed_dictionaries({"id": texts, "type": st.just("function"), "function": _functions})
    | st.fixed_dictionaries({"id": texts, "type": st.just("custom"), "custom": _customs})
    | st.fixed_dictionaries({"id": texts, "type": texts | st.just("mcp"), "mcp": json_values})
)

said = st.builds(
    lambda more, known: {**more, **known},
    _more_keys,
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "system", "developer"]),
            "content": texts | st.none() | st.lists(parts, max_size=3),
        }
    ),
)
"""What a client says."""

_odd_contents = json_values | st.lists(parts | malformed_parts, max_size=3)
answers = st.builds(
    lambda more, known: {**more, **known},
    _more_keys,
    st.fixed_dictionaries(
        {"role": st.just("assistant")},
        optional={
            "content": texts | st.none() | _odd_contents,
            "tool_calls": st.lists(calls, max_size=2) | json_values | st.lists(json_values | calls),
        },
    ),
)
"""What a model says."""

results = st.builds(
    lambda more, known: {**more, **known},
    _more_keys,
    st.fixed_dictionaries(
        {"role": st.just("tool")},
        optional={"tool_call_id": texts | st.none(), "content": texts | _odd_contents},
    ),
)
"""What a tool says."""

messages = said | answers | results
conversations = st.lists(messages, min_size=1, max_size=6)
