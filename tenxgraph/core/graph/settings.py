"""Settings: what a run's config says, checked, with defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tenxgraph.storage.config_keys import (
    VALUES_KEY,
    check_keys,
    check_mapping,
    warn_of_unknown_keys,
)
from tenxgraph.storage.scope import RUN_KEY

__all__ = ["Settings"]

ANONYMOUS = "anonymous"
_ON_PENDING = ("error", "cancel")
_LARGEST = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one run is to go.

    The caller's dict is left as it is. Keys that begin with `_` belong to the library, and are
    not taken from a caller: only a run's first read and its own writes say which version it is at.
    """

    config: dict[str, Any]
    """The run's own copy, with `thread_id` and `user_id` filled in."""
    run_id: str | None
    recursion_limit: int
    node_timeout: float
    tool_timeout: float
    lease_timeout: float
    """Seconds after which this run's process is taken for dead if it says nothing more, by those
    who cannot see whether it lives."""
    on_pending: str

    @classmethod
    def of(cls, config: Mapping[str, Any] | None) -> "Settings":
        """Read a config.

        Raises:
            ValueError: a limit or timeout is no positive number, `on_pending` is unknown, an id
                is None, or a key is a known one misspelt.
        """
        if config is not None:
            check_mapping(config)
        if "configurable" in (config or {}):
            message = (
                "The config has `configurable`. Here its keys stand at the top: "
                '{"thread_id": ..., "user_id": ...}.'
            )
            raise ValueError(message)
        check_keys(config or {})
        own = {key: value for key, value in (config or {}).items() if not key.startswith("_")}
        warn_of_unknown_keys(own)
        _check_values(own)
        around = (config or {}).get(RUN_KEY)
        if around is not None and own.get("run_id") == around:
            # A node has passed its config on. By the id of the run around it, each call of this
            # graph would look like a repetition of the first.
            del own["run_id"]
        _check_present(own)
        own.setdefault("thread_id", uuid4().hex)
        own.setdefault("user_id", ANONYMOUS)
        policy = own.get("authz")
        if isinstance(policy, Mapping) and policy.get("user_id") is not None:
            own["user_id"] = policy["user_id"]  # whose thread it is, his are the memories
        on_pending = own.get("on_pending", "error")
        if on_pending not in _ON_PENDING:
            raise ValueError(f"`on_pending` must be one of {_ON_PENDING}, not {on_pending!r}.")
        run_id = own.get("run_id")
        return cls(
            config=own,
            run_id=None if run_id is None else str(run_id),
            recursion_limit=int(_positive(own, "recursion_limit", 25, at_least=1)),
            node_timeout=_positive(own, "node_timeout", 900.0),
            tool_timeout=_positive(own, "tool_timeout", 300.0),
            lease_timeout=_positive(own, "lease_timeout", 30.0),
            on_pending=on_pending,
        )


def _check_present(config: Mapping[str, Any]) -> None:
    """Refuse an id that is there and None, as of a user whom nobody has looked up.

    Taken for one that is left out, it would give all such users the threads of one.
    """
    for name in ("thread_id", "user_id"):
        if name in config and config[name] is None:
            raise ValueError(f"`{name}` is None. Pass an id, or leave the key out.")


def _check_values(config: Mapping[str, Any]) -> None:
    if not isinstance(config.get(VALUES_KEY, {}), Mapping):
        raise ValueError('`values` must be a dict: {"values": {"locale": "de"}}.')


def _positive(
    config: Mapping[str, Any], name: str, default: float, at_least: float = 0.001
) -> float:
    value = config.get(name, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not at_least <= value <= _LARGEST:
        raise ValueError(f"`{name}` must be a number from {at_least} to {_LARGEST}, not {value!r}.")
    number: float = value
    return number
