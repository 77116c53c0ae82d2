"""The keyword options of checkpointers, checked by name."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["refuse_unknown_options"]


def refuse_unknown_options(
    wanted_by: type, options: Iterable[str], *takers: Callable[..., Any]
) -> None:
    """Raise `TypeError` for an option that none of `takers` has, naming those that they have."""
    known = {
        parameter.name
        for taker in takers
        for parameter in inspect.signature(taker).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    unknown = [name for name in options if name not in known]
    if unknown:
        message = (
            f"{wanted_by.__name__} has no option {', '.join(f'`{name}`' for name in unknown)}. "
            f"It has: {', '.join(sorted(known))}."
        )
        raise TypeError(message)
