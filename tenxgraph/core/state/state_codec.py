"""How a state and its messages become text, and text becomes them again."""

from collections.abc import Sequence
from typing import Any, Generic

from pydantic import BaseModel, TypeAdapter, ValidationError

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state.agent_state import StateT
from tenxgraph.core.state.blocks import ContentBlock, UnknownBlock
from tenxgraph.core.state.codec import Codec, first_problem, to_text
from tenxgraph.core.state.message import Message, Stored
from tenxgraph.core.state.scalars import MARK

__all__ = ["StateCodec"]


_EMPTY_BY_DEFAULT = ("content", "tool_calls", "metadata")

# A tool call's arguments, and a tool's result, may be as deep as any other value.
_DEPTHS = {"content": -3, "tool_calls": -2}

_messages: TypeAdapter[list[Message]] = TypeAdapter(list[Message])
_block: TypeAdapter[Any] = TypeAdapter(ContentBlock)


class StateCodec(Codec, Generic[StateT]):
    """The codec of one state class."""

    def __init__(self, state_type: type[StateT]) -> None:
        super().__init__(state_type)
        self.state_type = state_type

    def message_text(self, message: Message, path: str = "message") -> str:
        """The message as JSON text; encoded once in a message's life.

        Raises:
            SerializationError: its metadata, or other free data, cannot be stored; or it is no
                `Message`, or more than one, whose own fields would be lost.
        """
        self.check_message(message, path)
        try:
            return message._encoded
        except AttributeError:
            empty = [name for name in _EMPTY_BY_DEFAULT if not message.__dict__[name]]
            fields = self.fields(message, path, skip=("timestamp", *empty), depths=_DEPTHS)
            kept = {name: value for name, value in fields.items() if value is not None}
            # Untagged, so that pydantic can read many messages at once without our decoder.
            kept["timestamp"] = message.timestamp.isoformat()
            text = to_text(kept, path)
            object.__setattr__(message, "_encoded", text)
            return text

    def check_message(self, message: object, path: str) -> None:
        """Raise `SerializationError` where something is no message, or more than one."""
        if type(message) is not Message:
            problem = (
                f"`{path}` is a {type(message).__qualname__}, and would come back as a Message. "
                "Pass a `Message`; what it does not hold belongs into its `metadata`."
            )
            raise SerializationError(problem, path=path)

    def messages(
        self, texts: Sequence[str], stored: Sequence[Stored] | None = None
    ) -> list[Message]:
        """Messages from their texts, each remembering its text and where it is stored."""
        made = self._decode_messages(texts)
        for message, text in zip(made, texts, strict=True):
            object.__setattr__(message, "_encoded", text)
        for message, place in zip(made, stored or (), strict=False):
            object.__setattr__(message, "_stored", place)
        return made

    def _decode_messages(self, texts: Sequence[str]) -> list[Message]:
        document = f"[{','.join(texts)}]"
        if f'"{MARK}"' not in document:
            try:
                return _messages.validate_json(document)
            except ValidationError:
                pass  # a lone surrogate, which only Python's own parser reads; or worse, told below
        try:
            return [self._decode_message(text) for text in texts]
        except ValidationError as error:
            raise SerializationError(f"A stored message cannot be read: {error}") from error

    def _decode_message(self, text: str) -> Message:
        fields = self.loads(text)
        try:
            return Message.model_validate(fields)
        except ValidationError:
            if not isinstance(fields, dict) or not isinstance(fields.get("content"), list):
                raise
            # A block that is damaged must not make the whole thread unreadable.
            content = [one if _is_block(one) else UnknownBlock.of(one) for one in fields["content"]]
            return Message.model_validate({**fields, "content": content})

    def state_fields(self, state: StateT) -> dict[str, Any]:
        """The state without its context, as JSON, checked against its class.

        Raises:
            SerializationError: a field holds what its class does not allow, or what cannot be
                stored.
        """
        self._check(state)
        return self.fields(state, "state", skip=("context",))

    def state(self, fields: dict[str, Any], context: list[Message]) -> StateT:
        """The state from its decoded fields and its messages.

        Raises:
            SerializationError: the fields do not fit the class as it is now; names the field.
        """
        try:
            return self.state_type.model_validate({**fields, "context": context}, by_name=True)
        except ValidationError as error:
            field, problem = first_problem(error)
            message = f"field `{field}` does not fit {self.state_type.__qualname__}: {problem}"
            raise SerializationError(message, path=f"state.{field}") from error

    def decode_fields(self, text: str) -> dict[str, Any]:
        """The fields of a state from its text."""
        fields = self.loads(text)
        if not isinstance(fields, dict):
            message = f"Stored state is a {type(fields).__name__}, not an object."
            raise SerializationError(message)
        return fields

    def _check(self, state: BaseModel) -> None:
        """Refuse what could be saved but never loaded: a list field set to None, say."""
        values = {**state.__dict__, **(state.__pydantic_extra__ or {}), "context": []}
        try:
            self.state_type.model_validate(values, by_name=True)
        except ValidationError as error:
            field, problem = first_problem(error)
            message = f"`state.{field}` cannot be saved: {problem}"
            raise SerializationError(message, path=f"state.{field}") from error


def _is_block(stored: Any) -> bool:
    try:
        _block.validate_python(stored)
    except ValidationError:
        return False
    return True
