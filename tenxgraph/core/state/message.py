"""Message: a role and its blocks. Immutable: an edit is a copy under the same `message_id`."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple
from uuid import UUID, uuid4

from pydantic import AwareDatetime, BeforeValidator, Field

from tenxgraph.core.state import openai_format
from tenxgraph.core.state.blocks import (
    ContentBlock,
    Frozen,
    FrozenObject,
    Text,
    TextBlock,
    ToolCall,
    ToolResultBlock,
    _Value,
    are_blocks,
)

__all__ = ["Message", "Role", "TokenUsages"]

Role = Literal["user", "assistant", "system", "tool"]


class TokenUsages(_Value):
    """What one model call consumed, in tokens."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: "TokenUsages") -> "TokenUsages":
        return TokenUsages(
            **{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields}
        )


class Stored(NamedTuple):
    """Where a message is kept: the life of its thread, and its number there."""

    generation: UUID
    seq: int


def new_message_id() -> str:
    """A fresh id: 32 hexadecimal digits."""
    return uuid4().hex


def _as_blocks(content: Any) -> Any:
    """Return a text as the one block that it stands for."""
    return (TextBlock(text=content),) if isinstance(content, str) else content


class Message(_Value):
    """One message of a conversation.

    A text as `content` stands for one text block.
    """

    # Not fields: a copy starts without them, and they take no part in equality.
    __slots__ = ("_encoded", "_stored")

    if TYPE_CHECKING:
        # As plain annotations they would be arguments of `__init__` to a type checker.
        _encoded: ClassVar[str]
        _stored: ClassVar[Stored]

        # The fields alone would say that `content` may not be a text.
        def __init__(  # noqa: PLR0913 - one for each field
            self,
            *,
            role: Role,
            content: str | Iterable[ContentBlock] = (),
            message_id: str = ...,
            tool_calls: Iterable[ToolCall] = (),
            tool_call_id: str | None = None,
            reasoning: str | None = None,
            timestamp: datetime = ...,
            metadata: Mapping[str, Any] = ...,
            usages: TokenUsages | Mapping[str, int] | None = None,
            raw: Any = None,
        ) -> None: ...

    else:
        # Not `__init__`: pydantic would then call it for every message that is read.
        def __new__(cls, *args, **_fields):
            """Refuse a bare text, which does not say whose it is."""
            if args:
                raise TypeError(
                    "A message has a role. Write `Message.user(...)`, `Message.system(...)`, "
                    '`Message.assistant(...)` or `Message(role="user", content=...)`.'
                )
            return super().__new__(cls)

    # A constraint of the field, not a validator of the model: pydantic would run that for every
    # message of a list that is assigned to a state.
    message_id: str = Field(
        default_factory=new_message_id, min_length=1, max_length=255, pattern=r"^[^\x00]*$"
    )
    role: Role
    content: Annotated[tuple[ContentBlock, ...], BeforeValidator(_as_blocks)] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: Text | None = None
    reasoning: Text | None = None
    timestamp: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    metadata: FrozenObject = Field(default_factory=dict)
    usages: TokenUsages | None = None
    raw: Frozen = None
    """What the provider or client sent and no other field holds, by key. It is sent back. A key of
    the format is in it where the fields do not give the very spelling: the role `developer`, a
    `content` that is absent, and `(reasoning)` where the field `reasoning` holds the text."""

    @classmethod
    def text_message(
        cls, content: str, role: Role = "user", message_id: str | None = None
    ) -> "Message":
        """Make a message of plain text, by default the user's."""
        return cls(**_identity(message_id), role=role, content=(TextBlock(text=content),))

    @classmethod
    def user(cls, text: str, *, message_id: str | None = None) -> "Message":
        """Make a user's message of plain text."""
        return cls.text_message(text, "user", message_id)

    @classmethod
    def system(cls, text: str, *, message_id: str | None = None) -> "Message":
        """Make a system message of plain text."""
        return cls.text_message(text, "system", message_id)

    @classmethod
    def assistant(
        cls,
        text: str | None = None,
        tool_calls: Iterable[ToolCall] = (),
        *,
        message_id: str | None = None,
        usages: TokenUsages | None = None,
    ) -> "Message":
        """Make a model's answer: a text, tool calls, or both."""
        return cls(
            **_identity(message_id),
            role="assistant",
            content=() if text is None else (TextBlock(text=text),),
            tool_calls=tuple(tool_calls),
            usages=usages,
        )

    @classmethod
    def tool_message(
        cls,
        content: Any,
        tool_call_id: str = "",
        *,
        name: str | None = None,
        is_error: bool = False,
        message_id: str | None = None,
    ) -> "Message":
        """Make the answer to a tool call; `content` is the tool's result, or blocks."""
        fields: dict[str, Any] = {"role": "tool", "tool_call_id": tool_call_id}
        if are_blocks(content):
            raw = None if name is None else {"name": name}
            return cls(**_identity(message_id), **fields, content=tuple(content), raw=raw)
        result = ToolResultBlock(call_id=tool_call_id, name=name, output=content, is_error=is_error)
        return cls(**_identity(message_id), **fields, content=(result,))

    @classmethod
    def from_openai(
        cls, message: Mapping[str, Any] | Any, *, message_id: str | None = None
    ) -> "Message":
        """Make a message from OpenAI's chat format: a dict, or the client's own object.

        What is not understood is kept, and `to_openai` gives it back. Malformed parts are kept in
        what assistants and tools say, and refused in all else.

        Raises:
            ValueError: the role is none of OpenAI's, or a part is malformed; names the part.
        """
        return cls(**_identity(message_id), **openai_format.read(message))

    def to_openai(self, *, omit: Collection[str] = ()) -> dict[str, Any]:
        """Return the message in OpenAI's chat format.

        Args:
            omit: keys to leave out of what no field holds, for servers that refuse them: of the
                message, and of its parts and calls.
        """
        return openai_format.write(self, omit=omit)

    def text(self) -> str:
        """All that the message says in words: its texts, and the results of tools as text."""
        return openai_format.text_of(self.content)


def _identity(message_id: str | None) -> dict[str, Any]:
    return {} if message_id is None else {"message_id": message_id}
