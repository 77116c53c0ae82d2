"""Agent: a node that asks a model."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import uuid4

from tenxgraph._other_names import KEYWORDS, refuse_other_keywords
from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.chunks import Chunk
from tenxgraph.core.graph.context_window import ContextWindow, Trimmed, summary_text
from tenxgraph.core.graph.models import ChatModel, FunctionModel
from tenxgraph.core.graph.openai_model import OpenAIModel
from tenxgraph.core.graph.output import OutputSchema
from tenxgraph.core.graph.repair import sendable
from tenxgraph.core.graph.system_prompt import with_one_system_message
from tenxgraph.core.graph.tool_node import ToolNode
from tenxgraph.core.graph.tools import Tool
from tenxgraph.core.graph.update import as_messages
from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.store import BaseStore, MemoryConfig
from tenxgraph.storage.store.prompt import memory_prompt, preloaded_memories
from tenxgraph.storage.store.tools import memory_tools

__all__ = ["Agent"]


class Agent:
    """Sends the context to a model, and returns its answer.

    Args:
        model: the name of a model for OpenAI's client, and so of any server that speaks its
            protocol; or a function `(messages, tools)` that returns a message or a string, sync or
            async; or a `ChatModel`.
        tool_node: runs the tools that the model is told of.
        system_prompt: a string, or a list of strings, messages or OpenAI dicts. It is sent before
            the context as one system message, and not stored in it.
        memory: the long-term memory: adds its tools to `tool_node`, and what it says to the system
            prompt.
        output_schema: the form of the final answer: a pydantic model, a dataclass, or a JSON
            schema. The answer's text is JSON of that form, or the node fails.
        base_url: another server; by default the environment's `OPENAI_BASE_URL`, else OpenAI.
        api_key: the key; by default the environment's `OPENAI_API_KEY`.
        context_window: how much of a long context is sent; by default all of it.
        model_options: see `OpenAIModel`: `temperature`, `timeout`, `max_retries`, `stream`,
            `omit`, ...

    Attributes:
        tool_node: what runs the tools; `None` if there are none. Give it to the graph as a node.

    Raises:
        GraphError: the model is none, or an option has no model to go to.
        ImportError: the model is a name, and the package `openai` is not installed.
    """

    def __init__(
        self,
        model: str | Callable[..., Any] | ChatModel,
        tool_node: ToolNode | None = None,
        system_prompt: str | Iterable[Any] | None = None,
        memory: MemoryConfig | None = None,
        output_schema: Any = None,
        base_url: str | None = None,
        api_key: str | None = None,
        context_window: ContextWindow | None = None,
        **model_options: Any,
    ) -> None:
        others = [name for name in model_options if name in KEYWORDS["Agent"]]
        refuse_other_keywords("Agent", others, known="Agent")
        self._output = None if output_schema is None else OutputSchema(output_schema)
        connection = {"base_url": base_url, "api_key": api_key}
        options = {k: v for k, v in connection.items() if v is not None} | model_options
        self._model = _as_model(model, self._output, options)
        self._prompt = _as_prompt(system_prompt)
        self._memory = memory
        self._window = _as_window(context_window)
        self.tool_node = tool_node
        if memory is not None:
            self._add_memory(memory)

    async def __call__(
        self,
        state: AgentState,
        config: Mapping[str, Any],
        store: Any = None,
        emit: Callable[[Any], None] | None = None,
    ) -> Any:
        """Ask the model; as a node, or from a node of your own.

        Returns:
            The model's answer, a `Message`. Where a `ContextWindow` has made a new summary, a dict
            of state fields, with the answer in `messages`.

        Raises:
            GraphError: the answer has not the form of `output_schema`.
            RefusalError: the model refused to give one.
        """
        memories = await self._memory_texts(state, config, store)
        tools = [] if self.tool_node is None else self.tool_node.schemas

        def on_token(text: str) -> None:
            if emit is not None:
                emit(Chunk(type="token", text=text))

        trimmed = await self._trimmed(state)
        added = [*memories, summary_text(trimmed.summary)]
        sent = with_one_system_message(self._prompt, added, sendable(trimmed.context))
        answer = await self._model.answer(sent, tools, on_token)
        if self._output is not None and not answer.tool_calls:
            answer = self._output.read(answer)
        answer = _as_new(answer, state)
        return {"messages": answer, **trimmed.update} if trimmed.update else answer

    @property
    def stores(self) -> list[BaseStore]:
        """The long-term memories that it was given by configuration."""
        return [] if self._memory is None else self._memory.stores()

    async def aclose(self) -> None:
        """Close what the model has opened."""
        close = getattr(self._model, "aclose", None)
        if close is not None:
            await close()

    def _add_memory(self, memory: MemoryConfig) -> None:
        tools = memory_tools(memory)
        if tools and self.tool_node is None:
            self.tool_node = ToolNode()
        for one in tools:
            assert self.tool_node is not None
            user, agent = memory.user_memory, memory.agent_memory
            scope = user if one.__name__ == "user_memory_tool" else agent
            self.tool_node.add(Tool(one, store=memory.store_for(scope, None)))

    async def _trimmed(self, state: AgentState) -> Trimmed:
        if self._window is None:
            return Trimmed(state.context, state.context_summary, {})
        return await self._window.of(state)

    async def _memory_texts(
        self, state: AgentState, config: Mapping[str, Any], store: Any
    ) -> list[str]:
        """Return what the system message says of the memory."""
        if self._memory is None:
            return []
        question = next((one for one in reversed(state.context) if one.role == "user"), None)
        query = "" if question is None else question.text()
        return [
            memory_prompt(self._memory),
            await preloaded_memories(self._memory, config, query, store),
        ]


def _as_model(model: Any, output: OutputSchema | None, options: Mapping[str, Any]) -> ChatModel:
    if isinstance(model, str):
        response_format = None if output is None else output.response_format
        return OpenAIModel(model, response_format=response_format, **options)
    if options:
        known = ", ".join(map(repr, options))
        raise GraphError(f"Only a model that is named takes options, but there are {known}.")
    if isinstance(model, ChatModel):
        return model
    if callable(model):
        return FunctionModel(model)
    message = f"`model` must be a name, a function or a ChatModel, not {type(model).__name__}."
    raise GraphError(message)


def _as_window(window: Any) -> ContextWindow | None:
    if window is None or isinstance(window, ContextWindow):
        return window
    raise GraphError(
        f"`context_window` must be a ContextWindow, not {type(window).__name__}: "
        "`ContextWindow(max_messages=40)`."
    )


def _as_prompt(prompt: str | Iterable[Any] | None) -> list[Message]:
    if prompt is None or prompt == "":
        return []
    return as_messages(prompt, role="system")


def _as_new(answer: Message, state: AgentState) -> Message:
    """The answer under an id of its own: under one that is taken it would replace that message."""
    if any(answer.message_id == known.message_id for known in state.context):
        return answer.model_copy(update={"message_id": uuid4().hex})
    return answer
