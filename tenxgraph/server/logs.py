"""Logs: how `tenxgraph serve` writes its log, as text or as JSON, with the ids of the request."""

import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal

from tenxgraph.server.request_context import current_ids

__all__ = ["JsonFormatter", "TextFormatter", "log_config"]

# Fields that a record of the access log has besides its message.
_EXTRA = ("method", "path", "status", "duration_ms")


class TextFormatter(logging.Formatter):
    """Formats a record as a line: time, level, logger, ids of the request, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the traceback below it if there is one."""
        ids = "".join(f" {name}={value}" for name, value in _ids(record).items())
        head = f"{_time(record)} {record.levelname} {record.name}{ids}: "
        # A line break in a message must not look like the next record.
        message = record.getMessage().replace("\n", "\n    ")
        trace = _trace(self, record)
        return f"{head}{message}\n{trace}" if trace else head + message


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_ids(record),
            **{name: record.__dict__[name] for name in _EXTRA if name in record.__dict__},
        }
        trace = _trace(self, record)
        if trace:
            fields["exception"] = trace
        return json.dumps(fields, default=str)


def log_config(
    level: str, form: Literal["text", "json"], *, access_log: bool = True
) -> dict[str, Any]:
    """Return the configuration for `logging.config.dictConfig`: everything to stderr.

    Args:
        level: the lowest level that is written, such as `info`.
        form: how a record is written.
        access_log: write a record for each request.
    """
    formatter = JsonFormatter if form == "json" else TextFormatter
    level = level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        # Named by path: with several workers, the configuration is sent to other processes.
        "formatters": {"default": {"()": f"{formatter.__module__}.{formatter.__name__}"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "default"}},
        "root": {"level": level, "handlers": ["stderr"]},
        "loggers": {
            "tenxgraph.access": {"level": level if access_log else "CRITICAL"},
            # It logs the whole address of each request that a model's client makes.
            "httpx": {"level": "DEBUG" if level == "DEBUG" else "WARNING"},
        },
    }


def _ids(record: logging.LogRecord) -> dict[str, str]:
    # A record that names its ids itself is about another request than the current one.
    names = ("thread_id", "run_id")
    own = {name: str(record.__dict__[name]) for name in names if name in record.__dict__}
    return {**current_ids(), **own}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)
