"""Scripts on their way to Redis: by their hash, and in full where Redis does not know them."""

from typing import Any, NamedTuple

from tenxgraph._optional import require
from tenxgraph.storage.cache.scripts import PUT_DONE, Script

__all__ = ["Call", "Put", "run", "run_put"]

_ARRIVAL_SECONDS = 30


class Call(NamedTuple):
    """A script, with what it is to be run on."""

    script: Script
    keys: list[str]
    arguments: list[str | int | bytes]


class Put(NamedTuple):
    """A value, the key under which it arrives, and the script that checks it in."""

    arrival: str
    value: bytes
    guard: Call
    extension: Call | None = None
    """Makes it of the value that is there, if it is the one that is thought to be there."""


async def run_put(client: Any, put: Put) -> Any:
    """Send what is new, or else the value, and have it checked in."""
    if put.extension is not None and await run(client, put.extension) == PUT_DONE:
        return PUT_DONE
    return await _run_whole(client, put)


async def _run_whole(client: Any, put: Put) -> Any:
    """Send the value and have it checked in: one round trip, whatever its size."""
    if hasattr(client, "nodes_manager"):  # a cluster's pipelines know no scripts
        await client.set(put.arrival, put.value, ex=_ARRIVAL_SECONDS)
        return await run(client, put.guard)
    call = put.guard
    pipeline = client.pipeline(transaction=False)
    pipeline.set(put.arrival, put.value, ex=_ARRIVAL_SECONDS)
    pipeline.evalsha(call.script.sha, len(call.keys), *call.keys, *call.arguments)
    sent, answer = await pipeline.execute(raise_on_error=False)
    if _is_unknown_script(answer):
        answer = await client.eval(call.script.text, len(call.keys), *call.keys, *call.arguments)
    for outcome in (sent, answer):
        if isinstance(outcome, Exception):
            raise outcome
    return answer


async def run(client: Any, call: Call) -> Any:
    """What the script answers."""
    arguments = (len(call.keys), *call.keys, *call.arguments)
    try:
        return await client.evalsha(call.script.sha, *arguments)
    except Exception as error:
        if not _is_unknown_script(error):
            raise
    return await client.eval(call.script.text, *arguments)


def _is_unknown_script(answer: object) -> bool:
    exceptions = require("redis.exceptions", extra="postgres", wanted_by="The Redis cache")
    return isinstance(answer, exceptions.NoScriptError)
