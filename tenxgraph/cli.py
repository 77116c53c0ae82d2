"""The command `tenxgraph`: serve a graph, set its database up, check its settings, migrate."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenxgraph import __version__
from tenxgraph.core.exceptions import (
    SchemaVersionError,
    TenxGraphError,
    TransientStorageError,
)
from tenxgraph.db_command import add_db_command, run_db_command

if TYPE_CHECKING:
    from tenxgraph.core.graph import CompiledGraph
    from tenxgraph.server import ServerSettings

__all__ = ["main"]

_FILE_NAME = "10xgraph.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say, and return the exit code: 2 if something in them is wrong."""
    told = _parser().parse_args(arguments)
    if told.command == "db":  # without the server, which is an extra
        return run_db_command(told)
    try:
        from tenxgraph.server import SettingsError
    except ImportError as error:
        return _refused(error)
    try:
        command = {"serve": _serve, "setup": _setup, "check": _check}[told.command]
        return command(_settings(told), told)
    except (SettingsError, TenxGraphError) as error:
        return _refused(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tenxgraph", description=__doc__)
    parser.add_argument("--version", action="version", version=f"tenxgraph {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, said in (
        ("serve", "serve a graph over HTTP"),
        ("setup", "create the tables, or migrate them, and make the store ready"),
        ("check", "load everything that the settings name, and serve nothing"),
    ):
        command = commands.add_parser(
            name,
            help=said,
            description=said,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        command.add_argument(
            "agent", nargs="?", help="`module:attribute` of a graph, instead of a file"
        )
        command.add_argument("--config", help=f"{_FILE_NAME}, if not this")
        if name == "serve":
            command.add_argument("--host", default="127.0.0.1", help="where to listen")
            command.add_argument("--port", type=_from(0, 65535), default=8000, help="where, too")
            workers = "processes that serve"
            command.add_argument("--workers", type=_from(1, 1000), default=1, help=workers)
            grace = "seconds that requests have to end in when the server is told to"
            command.add_argument("--grace", type=_from(0, 3600), default=15, help=grace)
            _add_log_options(command)
    add_db_command(commands)
    return parser


def _add_log_options(command: argparse.ArgumentParser) -> None:
    levels = ["debug", "info", "warning", "error"]
    command.add_argument("--log-level", choices=levels, default="info", help="what is logged")
    command.add_argument(
        "--log-format", choices=["text", "json"], default="text", help="how it is written"
    )
    command.add_argument(
        "--access-log",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="log each request, without its query string",
    )


def _settings(told: argparse.Namespace) -> "ServerSettings":
    from tenxgraph.server import ServerSettings, SettingsError

    if told.agent is None:
        return ServerSettings.read(told.config or _FILE_NAME)
    if told.config is not None:
        raise SettingsError("Name an agent, or a file with --config, and not both.")
    return ServerSettings.of({"agent": told.agent}, named="arguments")


def _serve(settings: "ServerSettings", told: argparse.Namespace) -> int:
    import uvicorn

    from tenxgraph.server import SettingsError, load_app
    from tenxgraph.server.app import CONFIG_VARIABLE
    from tenxgraph.server.logs import log_config

    if told.workers > 1 and told.agent is not None:
        raise SettingsError(f"Several workers need a {_FILE_NAME}: each of them reads it.")
    # Before any worker is started: one that cannot load it would be started again for ever.
    app = load_app(settings)
    _refuse_unready(app.state.deployment.graph, told.workers)
    options = {
        "host": told.host,
        "port": told.port,
        "timeout_graceful_shutdown": told.grace,
        "log_config": log_config(told.log_level, told.log_format, access_log=told.access_log),
        # The application writes its own, which has no query strings.
        "access_log": False,
    }
    if told.workers == 1:
        uvicorn.run(app, **options)
        return 0
    os.environ[CONFIG_VARIABLE] = str(Path(told.config or _FILE_NAME).resolve())
    uvicorn.run("tenxgraph.server:load_app", factory=True, workers=told.workers, **options)
    return 0


def _refuse_unready(graph: "CompiledGraph[Any]", workers: int) -> None:
    """Say at the start what would be wrong with every request."""
    from tenxgraph.server import SettingsError

    for part in (graph.checkpointer, graph.store):
        if workers > 1 and getattr(part, "serves_one_process", False):
            raise SettingsError(
                f"{workers} workers cannot share a {type(part).__name__} that serves one process: "
                "each would have threads or memories of its own. Use a database server."
            )
    try:
        graph.checkpointer.list_threads({"user_id": "tenxgraph-start"}, limit=1)
    except SchemaVersionError as error:
        raise SettingsError(f"{error} With these settings: `tenxgraph setup`.") from error
    except TransientStorageError as error:
        _say(f"The database is away, and requests are answered with 503 until it is back: {error}")
    finally:
        # What lives in this process alone would be gone.
        if not graph.checkpointer.serves_one_process:
            graph.checkpointer.close()


def _setup(settings: "ServerSettings", _told: argparse.Namespace) -> int:
    from tenxgraph.server.references import load_graph, prepare_imports

    prepare_imports(settings)
    graph = load_graph(settings)
    try:
        graph.checkpointer.setup()
        if hasattr(graph.store, "setup"):
            graph.store.setup()
    finally:
        graph.close()
    _say(f"{type(graph.checkpointer).__name__} is set up.")
    if graph.store is not None:
        _say(f"{type(graph.store).__name__} is set up.")
    return 0


def _check(settings: "ServerSettings", _told: argparse.Namespace) -> int:
    from tenxgraph.server.app import load_app

    deployment = load_app(settings).state.deployment
    graph = deployment.graph
    _say(f"agent: {settings.agent}")
    _say(f"checkpointer: {_name(graph.checkpointer)}")
    _say(f"store: {'none' if graph.store is None else _name(graph.store)}")
    _say(f"auth: {settings.auth or 'none: everybody is anonymous'}")
    _say(f"authorization: {settings.authorization}")
    graph.close()
    return 0


def _name(part: Any) -> str:
    alone = getattr(part, "serves_one_process", False)
    return type(part).__name__ + (", for one process" if alone else "")


def _from(least: int, most: int) -> Callable[[str], int]:
    """A number within bounds, for the parser."""

    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be from {least} to {most}")
        return value

    return number


def _refused(error: Exception) -> int:
    print(f"tenxgraph: {error}", file=sys.stderr)  # noqa: T201 - a command speaks
    return 2


def _say(line: str) -> None:
    print(line)  # noqa: T201 - a command speaks
