"""What a message is made of: text, media, data, tool calls and their results.

A block type of a newer version, or of a provider, that is not known here is kept as it came.
"""

import json
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from tenxgraph.core.state.frozen import freeze

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
]


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


class ToolCall(_Value):
    """A model's wish to have a tool run."""

    id: str = ""
    """The provider's id; providers repeat and omit it."""
    name: str
    args: FrozenObject = Field(default_factory=dict)
    arguments: str | None = None
    """The arguments as the model wrote them, where `args` does not say it to the letter: other
    spacing, or no valid JSON object at all (then `args` is empty)."""

    @classmethod
    def from_arguments(cls, *, id: str | None, name: str, arguments: str) -> "ToolCall":
        """Make a call from the JSON text a provider sends, even if it is no JSON."""
        try:
            args = json.loads(arguments)
        except ValueError:
            args = None
        if not isinstance(args, dict):
            return cls(id=id or "", name=name, arguments=arguments)
        call = cls(id=id or "", name=name, args=args)
        exact = call.arguments_text() == arguments
        return call if exact else call.model_copy(update={"arguments": arguments})

    def arguments_text(self) -> str:
        """The arguments as JSON text, to the letter as they came."""
        if self.arguments is not None:
            return self.arguments
        return json.dumps(self.args, ensure_ascii=False, separators=(",", ":"))


class TextBlock(_Value):
    """Plain text."""

    type: Literal["text"] = "text"
    text: Text


class _Media(_Value):
    """Something with bytes: inline or behind a URL."""

    url: str | None = None
    data: bytes | None = None
    media_type: str | None = None


class ImageBlock(_Media):
    """An image; `detail` is the provider's resolution hint."""

    type: Literal["image"] = "image"
    detail: str | None = None


class AudioBlock(_Media):
    """A sound, with its transcript if there is one."""

    type: Literal["audio"] = "audio"
    transcript: Text | None = None


class DocumentBlock(_Media):
    """A file: a PDF, a spreadsheet, a text."""

    type: Literal["document"] = "document"
    name: str | None = None
    file_id: str | None = None


class DataBlock(_Value):
    """Structured data, of any type that can be stored."""

    type: Literal["data"] = "data"
    data: Frozen = None


class ToolCallBlock(_Value):
    """A tool call at its place among other content."""

    type: Literal["tool_call"] = "tool_call"
    call: ToolCall


class ToolResultBlock(_Value):
    """What a tool returned, or why it failed."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str = ""
    name: str | None = None
    output: Frozen = None
    is_error: bool = False


class ReasoningBlock(_Value):
    """What a model thought, where the provider tells; `signature` must be sent back unchanged."""

    type: Literal["reasoning"] = "reasoning"
    text: Text = ""
    signature: str | None = None


class ErrorBlock(_Value):
    """Something that went wrong and belongs to the conversation."""

    type: Literal["error"] = "error"
    message: Text
    code: str | None = None


class UnknownBlock(_Value):
    """A block of a type that is not known here, kept whole."""

    model_config = ConfigDict(frozen=True, extra="allow")
    type: str

    KNOWN: ClassVar[frozenset[str]]

    def model_post_init(self, _context: Any) -> None:
        """Freeze what the unknown type brought along."""
        extra = self.__pydantic_extra__ or {}
        for name, value in extra.items():
            extra[name] = freeze(value)


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
    return name if name in UnknownBlock.KNOWN and not isinstance(value, UnknownBlock) else "unknown"


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
