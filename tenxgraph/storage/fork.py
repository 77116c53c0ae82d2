"""A fork: a thread that begins where another one was."""

from collections.abc import Iterable

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.state import Message
from tenxgraph.storage.backend import Backend, ToolRow
from tenxgraph.storage.scope import Scope

__all__ = ["refuse_existing", "tools_of"]


async def refuse_existing(backend: Backend, scope: Scope) -> None:
    """Raise `StorageError` (code `thread_exists`) if there is such a thread."""
    if await backend.head(scope) is not None:
        message = f"There is a thread {scope.thread_id!r} already. Choose another `thread_id`."
        raise StorageError(message, code="thread_exists", thread_id=scope.thread_id)


def tools_of(context: Iterable[Message], tools: Iterable[ToolRow]) -> list[ToolRow]:
    """What a fork has to know of the tool calls in its context, so that none is carried out again.

    What is `scheduled` the thread itself has promised, and will do.
    """
    kept = {message.message_id for message in context}
    return [
        row
        for row in tools
        if row.execution.message_id in kept and row.execution.status != "scheduled"
    ]
