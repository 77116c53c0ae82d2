"""What other libraries call the things of this one, and what they are called here."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

__all__ = ["OtherNames", "explain_imports", "import_remedy", "refuse_other_keywords"]

_STATES = "`app.checkpointer.list_states(config)`, and `get_state(config, version)` for one of them"
_PUT_STATE = (
    '`app.checkpointer.put_state(config, state)`; or pass fields with the next input: {"state": '
    '{...}, "messages": [...]}'
)
_CONFIG = 'nothing to bind: pass the config to each call, `app.invoke("Hi", config)`'
_CHUNKS = (
    "`app.stream(input, config)`, whose chunks have a `type`: token, message, update, interrupt, "
    "error, end, custom"
)
_COMPILE = "`compile()` first: `app = graph.compile(checkpointer=...)`, then `app.invoke(...)`"
_GATHER = "`asyncio.gather(*[app.ainvoke(one, config) for ...])`, with a thread for each"
_STREAM_KEYWORD = f"left out: {_CHUNKS}"
_AT_COMPILE = "passed to `compile`"
_PROMPT = "`system_prompt`"
_ONE_NODE = "not there: a run is at one node at a time. Use `asyncio.gather` inside of a node"

ATTRIBUTES: dict[str, dict[str, str]] = {
    "CompiledGraph": {
        "update_state": _PUT_STATE,
        "bulk_update_state": _PUT_STATE,
        "get_state_history": _STATES,
        "get_graph": "`app.draw()`, which is Mermaid text",
        "draw_mermaid": "`app.draw()`, which is Mermaid text",
        "with_config": _CONFIG,
        "bind": _CONFIG,
        "stream_events": _CHUNKS,
        "stream_log": _CHUNKS,
        "batch": _GATHER,
        "get_subgraphs": "not there: a node that runs another graph calls its `ainvoke`",
        "compile": "done already: this is the compiled graph",
        "run": "`app.invoke(input, config)`",
    },
    "StateGraph": {
        "invoke": _COMPILE,
        "stream": _COMPILE,
        "set_finish_point": '`add_edge("name", END)`',
        "set_conditional_entry_point": "`set_entry_point` with a node that returns a `Command`",
        "add_sequence": "`add_node` and `add_edge` for each",
    },
    "ReactAgent": {"invoke": _COMPILE, "stream": _COMPILE, "run": _COMPILE},
    "BaseCheckpointer": {
        "list": "`list_states(config)`",
        "put": "`put_state(config, state)`",
        "put_writes": "not needed: a run writes its state itself after each node",
        "get": "`get_state(config)`",
        "get_tuple": "`get_state(config)`; its version is then in `config`",
        "delete_thread": "`clean_thread(config)`",
        "copy_thread": "`fork_thread(config, new_thread_id)`",
        "from_conn_string": "`create_checkpointer(dsn)`",
    },
}
"""By the name of a class: attributes that it does not have. Each may have an `a` before it."""

KEYWORDS: dict[str, dict[str, str]] = {
    "run": {
        "stream_mode": _STREAM_KEYWORD,
        "subgraphs": _STREAM_KEYWORD,
        "output_keys": "left out: the result has `messages`, `state`, `interrupts` and more",
        "interrupt_before": _AT_COMPILE,
        "interrupt_after": _AT_COMPILE,
        "checkpointer": _AT_COMPILE,
        "store": _AT_COMPILE,
        "durability": "left out: a run writes after each node",
        "checkpoint_during": "left out: a run writes after each node",
        "context": '`config["values"]`: {"thread_id": ..., "values": {...}}',
        "thread_id": 'in the config: `app.invoke("Hi", {"thread_id": "1"})`',
        "user_id": 'in the config: `app.invoke("Hi", {"thread_id": "1", "user_id": "ada"})`',
        "recursion_limit": 'in the config: {"thread_id": ..., "recursion_limit": 25}',
        "messages": 'the input: `app.invoke({"messages": [...]}, config)`',
        "resume": 'in the input: `app.invoke({"resume": answer}, config)`',
    },
    "Command": {
        "resume": 'in the input of a run: `app.invoke({"resume": answer}, config)`',
        "graph": "left out: a node that runs another graph calls its `ainvoke`",
    },
    "Agent": {
        "prompt": _PROMPT,
        "instructions": _PROMPT,
        "state_modifier": _PROMPT,
        "messages_modifier": _PROMPT,
        "system_message": _PROMPT,
        "state_schema": "`state`",
        "output_type": "`output_schema`",
        "checkpointer": "passed to `compile`: `agent.compile(checkpointer=...)`",
        "store": "passed to `compile`: `agent.compile(store=...)`",
        "pre_model_hook": "`context_window`",
        "interrupt_before": _AT_COMPILE,
        "interrupt_after": _AT_COMPILE,
    },
}
"""By what is called: keywords that it does not take."""

IMPORTS = {
    "MessagesState": "`AgentState`, from tenxgraph; its messages are `context`",
    "Send": _ONE_NODE,
    "add_messages": "there: `from tenxgraph.core.state import add_messages`",
    "create_react_agent": "`ReactAgent`, from tenxgraph",
    "create_agent": "`ReactAgent`, from tenxgraph",
    "InMemorySaver": "`InMemoryCheckpointer`, from tenxgraph.storage.checkpointer",
    "MemorySaver": "`InMemoryCheckpointer`, from tenxgraph.storage.checkpointer",
    "SqliteSaver": '`create_checkpointer("agents.db")`, from tenxgraph',
    "AsyncSqliteSaver": '`create_checkpointer("agents.db")`, from tenxgraph',
    "PostgresSaver": '`create_checkpointer("postgresql://...")`, from tenxgraph',
    "AsyncPostgresSaver": '`create_checkpointer("postgresql://...")`, from tenxgraph',
    "HumanMessage": "`Message.user(...)`, from tenxgraph",
    "AIMessage": "`Message.assistant(...)`, from tenxgraph",
    "SystemMessage": "`Message.system(...)`, from tenxgraph",
    "ToolMessage": "`Message.tool_message(...)`, from tenxgraph",
}
"""Names that are looked for in a module."""


class OtherNames:
    """A class whose objects explain the names that other libraries give their methods."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker would take every name for one that is there

        def __getattr__(self, name):
            """Raise `AttributeError`, with the name that the thing has here if it has one."""
            kind = type(self).__name__
            message = f"{kind!r} object has no attribute {name!r}"
            for base in type(self).__mro__:
                table = ATTRIBUTES.get(base.__name__, {})
                # `invoke` is there where `ainvoke` is, and nobody looks for `lear_state`.
                remedy = table.get(name) or table.get(name.removeprefix("a"))
                if remedy is not None:
                    message += f". Here it is {remedy}."
                    break
            raise AttributeError(message, name=name, obj=self)


def refuse_other_keywords(called: str, keywords: Iterable[str], *, known: str = "run") -> None:
    """Refuse keywords that the function does not take.

    Args:
        called: the name of the function, for the message.
        keywords: those that it does not know.
        known: the table that they are looked up in.

    Raises:
        TypeError: there is one; says what it is called here.
    """
    for name in keywords:
        message = f"{called}() got an unexpected keyword argument {name!r}"
        remedy = KEYWORDS[known].get(name)
        raise TypeError(message if remedy is None else f"{message}. Here it is {remedy}.")


def import_remedy(name: str, module: str) -> ImportError | None:
    """Return the error for a name that is called something else here, or None.

    An `AttributeError` would do for `module.name`, but `from module import name` hides its message.
    """
    if name not in IMPORTS:
        return None
    message = f"cannot import name {name!r} from {module!r}. Here it is {IMPORTS[name]}."
    return ImportError(message, name=module)


def explain_imports(module: str) -> None:
    """Make a module explain names that other libraries have.

    It is set from outside: a `__getattr__` in its text would tell a type checker that the module
    has every name.
    """

    def missing(name: str) -> Any:
        if error := import_remedy(name, module):
            raise error
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    sys.modules[module].__dict__["__getattr__"] = missing
