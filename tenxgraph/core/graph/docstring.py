"""What a function's docstring says: of the function, and of each parameter."""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Docstring"]

_ARGS = re.compile(r"^(?:Args|Arguments|Parameters):\s*$")
_SECTION = re.compile(r"^[A-Z][A-Za-z ]*:\s*$")
_PARAMETER = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_REST = re.compile(r"^:(?:param|parameter|arg)\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)$")


class Docstring(NamedTuple):
    """A docstring taken apart: Google's style, or reStructuredText's `:param name:`."""

    description: str
    """What comes before the parameters, without other sections."""
    parameters: dict[str, str]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "Docstring":
        """Read a function's docstring; an object's is that of its `__call__`, or of its class."""
        text = _doc(function)
        described: list[str] = []
        parameters: dict[str, str] = {}
        section = ""
        current: str | None = None
        for line in text.splitlines():
            stripped = line.strip()
            if field := _REST.match(stripped):
                section, current = "args", field[1]
                parameters[current] = field[2]
            elif not line.startswith(" ") and _SECTION.match(line):
                section, current = ("args" if _ARGS.match(line) else "other"), None
            elif section == "args":
                current = _take_parameter(line, parameters, current)
            elif not section:
                described.append(line)
        return cls("\n".join(described).strip(), parameters)


def _take_parameter(line: str, parameters: dict[str, str], current: str | None) -> str | None:
    """Note what a line says of a parameter; return the one that the next line may go on with."""
    stripped = line.strip()
    if not stripped or stripped.startswith(":"):
        return None
    depth = len(line) - len(line.lstrip())
    started = _PARAMETER.match(stripped)
    if started and (current is None or depth <= 4):
        parameters[started[1]] = started[2]
        return started[1]
    if current is not None:
        parameters[current] = f"{parameters[current]} {stripped}".strip()
    return current


def _doc(function: Callable[..., Any]) -> str:
    inner = function
    while hasattr(inner, "func"):  # a partial
        inner = inner.func
    if inspect.isroutine(inner):
        return inspect.getdoc(inner) or ""
    called = inspect.getdoc(type(inner).__call__)
    generic = inspect.getdoc(type.__call__)
    return (called if called != generic else None) or inspect.getdoc(type(inner)) or ""
