"""The keys that a config may have, and what a wrong one was meant to be."""

import json
import logging
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

__all__ = ["CONFIG_KEYS", "VALUES_KEY", "check_keys", "check_mapping", "warn_of_unknown_keys"]

logger = logging.getLogger("tenxgraph.config")

VALUES_KEY = "values"
"""Where an application puts values of its own, for its nodes and tools."""

CONFIG_KEYS = frozenset(
    {
        "agent_id",
        "app_id",
        "authz",
        "lease_timeout",
        "message_id",
        "node_timeout",
        "on_pending",
        "recursion_limit",
        "run_id",
        "thread_id",
        "thread_meta",
        "thread_name",
        "tool_call_id",
        "tool_timeout",
        "user_id",
        VALUES_KEY,
    }
)

# What other libraries call a thread.
_ALIASES = {
    "chatid": "thread_id",
    "conversationid": "thread_id",
    "sessionid": "thread_id",
    "session": "thread_id",
}
_PLAIN = {key.replace("_", ""): key for key in CONFIG_KEYS}
# So that `tool_timout`, `thread` and `user` count as misspelt, and `timeout` and `run` do not.
_LIKENESS = 0.8


def check_mapping(config: object) -> None:
    """Refuse a config that is no dict, such as the bare id of a thread.

    Raises:
        ValueError: it is no dict. The message shows one.
    """
    if isinstance(config, Mapping):
        return
    thread_id = str(config)[:40] if isinstance(config, str | int) else "chat-1"
    example = json.dumps({"thread_id": thread_id, "user_id": "ada"}, ensure_ascii=False)
    raise ValueError(f"`config` must be a dict, not {type(config).__name__}: {example}.")


def check_keys(config: Mapping[str, Any]) -> None:
    """Refuse a key that is a known one misspelt.

    Taken for a key of the application's own, `userid` would leave the user unnamed, and `thread`
    the thread.

    Raises:
        ValueError: a key is misspelt, or no text. The message names the right key. Or the config
            is no dict.
    """
    check_mapping(config)
    for key in config:
        if key not in CONFIG_KEYS:
            _check_key(key)


def warn_of_unknown_keys(config: Mapping[str, Any]) -> None:
    """Log, once for each key, that the config has keys which belong into `values`."""
    for key in config:
        if key not in CONFIG_KEYS and not key.startswith("_"):
            _warn(key)


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise ValueError(f"The keys of a config are strings, not {key!r}.")
    meant = None if key.startswith("_") else _meant(key)
    if meant is not None:
        raise ValueError(
            f"The config has `{key}`, which is no known key. Is `{meant}` meant? A value of your "
            f'own for nodes and tools goes into "values": {{"values": {{{key!r}: ...}}}}.'
        )


@lru_cache(maxsize=1024)
def _meant(key: str) -> str | None:
    """Return the known key that a key resembles, or None."""
    plain = key.replace("_", "").replace("-", "").lower()
    if plain in _ALIASES:
        return _ALIASES[plain]
    close = get_close_matches(plain, _PLAIN, n=1, cutoff=_LIKENESS)
    return _PLAIN[close[0]] if close else None


@lru_cache(maxsize=1024)
def _warn(key: str) -> None:
    logger.warning(
        "The config has the key %r, which means nothing to tenxgraph. Nodes and tools get it; put "
        'it into config["values"], where no later version will take it for a setting.',
        key,
    )
