"""The one system message that a model is sent: many chat templates refuse a second one."""

import itertools
from collections.abc import Sequence
from typing import Any

from tenxgraph.core.state import Message

__all__ = ["with_one_system_message"]

_BETWEEN = "\n\n"


def with_one_system_message(
    prompt: Sequence[Message], added: Sequence[str], context: Sequence[Message]
) -> list[Message]:
    """Return the conversation with its system messages joined into a first one.

    Texts are joined by a blank line. If one message has parts, the joined one has the parts of all,
    so that marks such as `cache_control` stay where they are. Messages of other roles in the prompt
    follow. Later system messages of the context stay in their place, which is part of what they
    say.

    Args:
        prompt: the agent's own messages.
        added: texts for the system message, such as memories.
        context: the stored messages. System messages that it begins with are joined as well.
    """
    leading = list(itertools.takewhile(lambda one: one.role == "system", context))
    own = [one for one in prompt if one.role == "system"]
    texts = [Message.text_message(text, role="system") for text in added if text]
    examples = [one for one in prompt if one.role != "system"]
    return [*_joined([*own, *texts, *leading]), *examples, *context[len(leading) :]]


def _joined(messages: list[Message]) -> list[Message]:
    if len(messages) < 2:
        return messages
    written = [message.to_openai() for message in messages]
    contents = [one["content"] for one in written if one.get("content")]
    joined: dict[str, Any] = {}
    for one in reversed(written):
        joined |= one  # the first one's name counts
    # Of the two names for the role only servers that know it are sent the newer.
    is_developer = any(one["role"] == "developer" for one in written)
    joined["role"] = "developer" if is_developer else "system"
    if all(isinstance(content, str) for content in contents):
        joined["content"] = _BETWEEN.join(contents)
    else:
        joined["content"] = [part for content in contents for part in _parts(content)]
    return [Message.from_openai(joined)]


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
