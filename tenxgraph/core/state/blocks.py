"""What a message is made of: text, media, data, tool calls and their results.

A block type of a newer version, or of a provider, that is not known here is kept as it came.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from tenxgraph.core.state.frozen import freeze
from tenxgraph.core.state.json_words import json_text
from tenxgraph.core.state.kept import ABSENT

__all__ = [
    "AudioBlock",
    "ContentBlock",
    "DataBlock",
    "DocumentBlock",
    "ErrorBlock",
    "ImageBlock",
    "ReasoningBlock",
    "TextBlock",
    "ToolCall",
    "ToolCallBlock",
    "ToolResultBlock",
    "UnknownBlock",
    "are_blocks",
]


_UNKNOWN = "unknown"


def _any_str(value: Any, handler: ValidatorFunctionWrapHandler) -> str:
    """Take a str with lone surrogates too: file names and tool output have them."""
    return value if type(value) is str else handler(value)


Text = Annotated[str, WrapValidator(_any_str)]
Frozen = Annotated[Any, AfterValidator(freeze)]
FrozenObject = Annotated[dict[str, Any], AfterValidator(freeze)]


class _Value(BaseModel):
    """A frozen model; whoever needs another value makes a copy with `model_copy(update=...)`."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", val_json_bytes="base64")

    def __deepcopy__(self, _memo: Any = None) -> "_Value":
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return an edited copy, checked like a new value."""
        if not update:
            return super().model_copy(deep=deep)
        return self.model_validate({**self.__dict__, **(self.model_extra or {}), **update})


class _Part(_Value):
    """A value that has a form in the provider's format.

    `raw` is no field: a value without it is stored and shown as if there were no such thing.
    """

    model_config = ConfigDict(extra="allow")
    if not TYPE_CHECKING:  # to a type checker it would be an argument of `__init__`
        __pydantic_extra__: dict[str, Frozen]

    @property
    def raw(self) -> Any:
        """What the provider or client sent and no field holds, or `None`.

        A key of the format that a field stands for is in it where the field does not give the very
        spelling. It is sent as long as the field has not been edited.
        """
        return (self.__pydantic_extra__ or {}).get("raw")


class ToolCall(_Part):
    """A model's wish to have a tool run."""

    id: Text = ""
    """The provider's id; providers repeat and omit it."""
    name: Text
    args: Annotated[dict[Text, Any], AfterValidator(freeze)] = Field(default_factory=dict)
    arguments: Text | None = None
    """The arguments as the model wrote them, where `args` does not say it to the letter: other
    spacing, or no valid JSON object at all (then `args` is empty); the input of a custom call."""

    @property
    def type(self) -> str:
        """The kind of call: `function`, `custom`, or what else a provider calls it."""
        kind = self.raw.get("type") if isinstance(self.raw, dict) else None
        return kind if isinstance(kind, str) and kind != ABSENT else "function"

    @classmethod
    def from_arguments(cls, *, id: str | None, name: str, arguments: str) -> "ToolCall":
        """Make a call from the JSON text a provider sends, even if it is no JSON."""
        try:
            args = json.loads(arguments)
            call = cls(id=id or "", name=name, args=args)
        except (ValueError, RecursionError):  # no JSON object, or one that is nested too deeply
            return cls(id=id or "", name=name, arguments=arguments)
        exact = call.arguments_text() == arguments
        return call if exact else call.model_copy(update={"arguments": arguments})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return an edited copy. New `args` replace the text that the model wrote."""
        if update and "args" in update and "arguments" not in update:
            update = {**update, "arguments": None}
        return super().model_copy(update=update, deep=deep)

    def arguments_text(self) -> str:
        """The arguments as JSON text, to the letter as they came."""
        if self.arguments is not None:
            return self.arguments
        return json_text(self.args, separators=(",", ":"))


class TextBlock(_Part):
    """Plain text."""

    type: Literal["text"] = "text"
    text: Text


class _Media(_Part):
    """Something with bytes: inline or behind a URL."""

    url: Text | None = None
    data: bytes | None = None
    media_type: Text | None = None


class ImageBlock(_Media):
    """An image; `detail` is the provider's resolution hint."""

    type: Literal["image"] = "image"
    detail: Text | None = None


class AudioBlock(_Media):
    """A sound, with its transcript if there is one."""

    type: Literal["audio"] = "audio"
    transcript: Text | None = None


class DocumentBlock(_Media):
    """A file: a PDF, a spreadsheet, a text."""

    type: Literal["document"] = "document"
    name: Text | None = None
    file_id: Text | None = None


class DataBlock(_Part):
    """Structured data, of any type that can be stored."""

    type: Literal["data"] = "data"
    data: Frozen = None


class ToolCallBlock(_Part):
    """A tool call at its place among other content."""

    type: Literal["tool_call"] = "tool_call"
    call: ToolCall


class ToolResultBlock(_Part):
    """What a tool returned, or why it failed."""

    type: Literal["tool_result"] = "tool_result"
    call_id: Text = ""
    name: Text | None = None
    output: Frozen = None
    is_error: bool = False


class ReasoningBlock(_Part):
    """What a model thought, where the provider tells; `signature` must be sent back unchanged."""

    type: Literal["reasoning"] = "reasoning"
    text: Text = ""
    signature: Text | None = None


class ErrorBlock(_Part):
    """Something that went wrong and belongs to the conversation."""

    type: Literal["error"] = "error"
    message: Text
    code: str | None = None


class UnknownBlock(_Part):
    """A block or part of a type that is not known here, kept whole.

    A part of another's format may be named like a block of this library, or have no name at all:
    it has the type `unknown`, and is in `raw`.
    """

    type: Text

    KNOWN: ClassVar[frozenset[str]]

    @classmethod
    def of(cls, part: Any) -> "UnknownBlock":
        """Keep a part as it came."""
        try:
            if isinstance(part, Mapping) and part["type"] != _UNKNOWN:
                return cls(**part)
        except (KeyError, TypeError, ValidationError):
            pass  # no type, or a key or type that pydantic does not take
        return cls(type=_UNKNOWN, raw=part)

    @model_validator(mode="before")
    @classmethod
    def _not_taken_for_another(cls, value: Any) -> Any:
        # Stored under its own type, it would be read as a block of ours, or not at all.
        return {"type": _UNKNOWN, "raw": value} if _kind(value) in cls.KNOWN else value

    @property
    def part(self) -> Any:
        """The part as it came."""
        extra = self.model_extra or {}
        if self.type == _UNKNOWN and set(extra) == {"raw"}:
            return extra["raw"]
        return {"type": self.type, **extra}


_KINDS: tuple[type[_Value], ...] = (
    TextBlock,
    ImageBlock,
    AudioBlock,
    DocumentBlock,
    DataBlock,
    ToolCallBlock,
    ToolResultBlock,
    ReasoningBlock,
    ErrorBlock,
)
UnknownBlock.KNOWN = frozenset(kind.model_fields["type"].default for kind in _KINDS)


def _kind(value: Any) -> str:
    name = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    if isinstance(value, UnknownBlock) or not isinstance(name, str):
        return _UNKNOWN
    return name if name in UnknownBlock.KNOWN else _UNKNOWN


ContentBlock = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[AudioBlock, Tag("audio")]
    | Annotated[DocumentBlock, Tag("document")]
    | Annotated[DataBlock, Tag("data")]
    | Annotated[ToolCallBlock, Tag("tool_call")]
    | Annotated[ToolResultBlock, Tag("tool_result")]
    | Annotated[ReasoningBlock, Tag("reasoning")]
    | Annotated[ErrorBlock, Tag("error")]
    | Annotated[UnknownBlock, Tag("unknown")],
    Discriminator(_kind),
]
"""Any block, told apart by its `type`."""


def are_blocks(value: Any) -> bool:
    """Return True for a list of blocks that has one at least."""
    kinds: tuple[type, ...] = (*_KINDS, UnknownBlock)
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(block, kinds) for block in value)
    )
