"""Read-only dict and list, so that a message can be shared and is encoded once in its life."""

from typing import Any, NoReturn

from tenxgraph.core.state.nesting import on_fresh_stack

__all__ = ["FrozenDict", "FrozenList", "freeze", "thaw"]


def _refuse(self: Any, *_args: Any, **_kwargs: Any) -> NoReturn:
    message = (
        "Messages are immutable. Make an edited copy with `message.model_copy(update={...})`, "
        "and build the new value from a plain copy (`dict(value)`, `list(value)`)."
    )
    raise TypeError(message)


class FrozenDict(dict[str, Any]):
    """A dict that compares and reads like any other, and refuses every change."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)

    def __copy__(self) -> "FrozenDict":
        return self


class FrozenList(list[Any]):
    """A list that compares and reads like any other, and refuses every change."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = remove = pop = clear = sort = reverse = _refuse

    def __reduce__(self) -> tuple[type, tuple[list[Any]]]:
        return FrozenList, (list(self),)

    def __copy__(self) -> "FrozenList":
        return self


def freeze(value: Any) -> Any:
    """Copy plain dicts and lists, at every depth, into their read-only forms.

    Raises:
        ValueError: the value contains itself, or is nested too deeply.
    """
    try:
        return on_fresh_stack(_freeze, value)
    except RecursionError:
        raise ValueError("it is nested too deeply, or contains itself") from None


def _freeze(value: Any) -> Any:
    if type(value) is dict:
        return FrozenDict((key, _freeze(item)) for key, item in value.items())
    if type(value) is list:
        return FrozenList(_freeze(item) for item in value)
    return value


def thaw(value: Any) -> Any:
    """Copy read-only dicts and lists, at every depth, into plain ones."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    return value
