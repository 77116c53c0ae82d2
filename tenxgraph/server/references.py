"""References: `module:attribute`, and what is found there."""

import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenxgraph.core.graph import CompiledGraph
from tenxgraph.server.settings import ServerSettings, SettingsError
from tenxgraph.storage.checkpointer import BaseCheckpointer
from tenxgraph.storage.store import BaseStore

__all__ = ["load_graph", "lookup", "prepare_imports"]


def prepare_imports(settings: ServerSettings) -> None:
    """Set the environment, and let modules be found in the settings' folder.

    Raises:
        SettingsError: the `.env` file is not there.
        ImportError: it is to be read, and `python-dotenv` is not installed.
    """
    for name, value in _environment(settings).items():
        os.environ.setdefault(name, value)
    folder = str(settings.folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)


def lookup(reference: str, what: str) -> Any:
    """What `module:attribute` names.

    Args:
        reference: the name.
        what: what it is for, for errors.

    Raises:
        SettingsError: there is no such module or attribute. An error inside of a module is its own.
    """
    module_name, _, path = reference.partition(":")
    if not path:
        known = " (or 'jwt', in small letters)" if what == "auth" else ""
        message = f"`{what}` must be `module:attribute`{known}, not {reference!r}."
        raise SettingsError(message)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and misses another one
        message = f"`{what}`: there is no module {error.name!r} for {reference!r}."
        raise SettingsError(message) from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise SettingsError(f"`{what}`: {reference!r} has no {name!r}.") from error
    return found


def load_graph(settings: ServerSettings) -> CompiledGraph[Any]:
    """The compiled graph that the settings name, with their checkpointer and store.

    Raises:
        SettingsError: something named is not there, or is not what it should be.
    """
    parts: dict[str, Any] = {
        "checkpointer": _part(settings.checkpointer, "checkpointer", BaseCheckpointer),
        "store": _part(settings.store, "store", BaseStore),
    }
    named = {name: part for name, part in parts.items() if part is not None}
    graph = _made(lookup(settings.agent, "agent"), named)
    if not isinstance(graph, CompiledGraph):
        message = (
            f"`agent`: {settings.agent!r} is {type(graph).__name__}. It must be a compiled graph, "
            "something with a `compile` method, or a function that makes one of these."
        )
        raise SettingsError(message)
    for name, part in named.items():
        if getattr(graph, name) is not part:
            message = (
                f"`{name}`: {settings.agent!r} is compiled already, with another one. Leave "
                f"`{name}` out, or name an agent that is not compiled yet."
            )
            raise SettingsError(message)
    return graph


def _made(agent: Any, named: Mapping[str, Any]) -> Any:
    """The compiled graph that an agent is, or is made into."""
    if callable(agent) and not hasattr(agent, "compile"):
        wanted = inspect.signature(agent).parameters
        given = {name: part for name, part in named.items() if name in wanted}
        missing = [
            one.name
            for one in wanted.values()
            if one.default is one.empty
            and one.name not in given
            and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        ]
        if missing:
            names = ", ".join(map(repr, missing))
            raise SettingsError(f"`agent`: its function asks for {names}, which is not named here.")
        agent = agent(**given)
        if inspect.iscoroutine(agent):
            agent.close()
            raise SettingsError("`agent`: a function that makes an agent must not be async.")
    if isinstance(agent, CompiledGraph) or not hasattr(agent, "compile"):
        return agent
    return agent.compile(**named)


def _part(reference: str | None, what: str, kind: type) -> Any:
    if reference is None:
        return None
    part = lookup(reference, what)
    if callable(part) and not isinstance(part, kind):
        part = part()
    if not isinstance(part, kind):
        message = f"`{what}`: {reference!r} is {type(part).__name__}, and no {kind.__name__}."
        raise SettingsError(message)
    return part


def _environment(settings: ServerSettings) -> Mapping[str, str]:
    if not isinstance(settings.env, str):
        return settings.env or {}
    file = settings.folder / Path(settings.env)
    if not file.is_file():
        raise SettingsError(f"`env`: there is no file {str(file)!r}.")
    try:
        from dotenv import dotenv_values
    except ImportError as error:
        message = 'A `.env` file needs python-dotenv: pip install "tenxgraph[server]".'
        raise ImportError(message) from error
    return {name: value for name, value in dotenv_values(file).items() if value is not None}
