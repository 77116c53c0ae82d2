"""Optional dependencies: imported where they are used, or an error that says how to get them."""

import importlib
from types import ModuleType

__all__ = ["require"]


def require(module: str, *, extra: str, wanted_by: str) -> ModuleType:
    """Import `module`, or raise `ImportError` naming the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = (
            f"{wanted_by} needs the package `{module.partition('.')[0]}`, which is not installed. "
            f'Run: pip install "tenxgraph[{extra}]"'
        )
        raise ImportError(message, name=module) from error
