"""The Redis keys of a thread. No two pairs of ids share one, and no id reaches another's."""

import re

__all__ = ["EVERYBODY", "checked_prefix", "companion_key", "entry_key"]

EVERYBODY = "*"
"""Stands in the place of the user where isolation is off: all users share one entry. No user's id
is written like this."""

# The separator, the escape, what a pattern or a hash tag is made of, and what no terminal shows.
_SPECIAL = re.compile(r"[:%*{}?\[\]\\\x00-\x1f\x7f]")
_HASH_TAG = re.compile(r"[^{}]*(?:\{[^{}]+\}[^{}]*)?")


def entry_key(thread_id: str, user_id: str | None, prefix: str = "") -> str:
    """`state_cache:{thread_id}:{user_id}`; `user_id` is `None` where isolation is off.

    Ordinary ids stand there as they are; what could be mistaken is percent-encoded.
    """
    user = EVERYBODY if user_id is None else _encoded(user_id)
    return f"{prefix}state_cache:{_encoded(thread_id)}:{user}"


def companion_key(key: str, name: str) -> str:
    """A key that belongs to an entry's, and that a Redis Cluster keeps in the same slot."""
    # An entry's key has braces only where the prefix has: then they name the slot for both.
    return f"{key}:{name}" if "{" in key else f"{{{key}}}:{name}"


def checked_prefix(prefix: object) -> str:
    """The prefix of all keys.

    Raises:
        ValueError: it is no string, or has braces that are not one hash tag of a Redis Cluster.
    """
    if not isinstance(prefix, str) or not _HASH_TAG.fullmatch(prefix):
        message = f"`cache_prefix` must be a string, with at most one `{{tag}}`, not {prefix!r}."
        raise ValueError(message)
    return prefix


def _encoded(part: str) -> str:
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", part)
