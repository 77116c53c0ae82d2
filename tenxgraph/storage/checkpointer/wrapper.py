"""CheckpointerWrapper: a checkpointer that passes everything on to another one."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from tenxgraph.core.state import Message
from tenxgraph.core.state.agent_state import StateT
from tenxgraph.storage.backend import Lease
from tenxgraph.storage.checkpointer.base import BaseCheckpointer, Config
from tenxgraph.storage.checkpointer.durable import DurableCheckpointer
from tenxgraph.storage.records import Page, StateSnapshot, ThreadInfo, ToolExecution

__all__ = ["CheckpointerWrapper"]


class CheckpointerWrapper(BaseCheckpointer[StateT]):
    """To be subclassed by what does something more, before or after.

    Args:
        durable: where threads are kept. It is closed with this object.
    """

    def __init__(self, durable: DurableCheckpointer[StateT]) -> None:
        self.durable = durable

    @property
    def enforce_user_isolation(self) -> bool:
        """Whether threads belong to the `user_id` of the config."""
        return self.durable.enforce_user_isolation

    async def asetup(self) -> None:
        await self.durable.asetup()

    @property
    def serves_one_process(self) -> bool:
        return self.durable.serves_one_process

    def bind_state_type(self, state_type: type[StateT]) -> None:
        self.durable.bind_state_type(state_type)

    async def aput_checkpoint(
        self,
        config: Config,
        state: StateT,
        messages: Sequence[Message] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> StateT:
        return await self.durable.aput_checkpoint(config, state, messages, metadata)

    async def aget_state(self, config: Config, version: int | None = None) -> StateT | None:
        return await self.durable.aget_state(config, version)

    async def aclear_state(self, config: Config) -> None:
        await self.durable.aclear_state(config)

    async def aput_messages(
        self,
        config: Config,
        messages: Sequence[Message],
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        await self.durable.aput_messages(config, messages, metadata)

    async def aget_message(self, config: Config, message_id: str) -> Message | None:
        return await self.durable.aget_message(config, message_id)

    async def aget_messages(self, config: Config, message_ids: Sequence[str]) -> list[Message]:
        return await self.durable.aget_messages(config, message_ids)

    async def alist_messages(
        self,
        config: Config,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        *,
        last: int | None = None,
        after: str | None = None,
    ) -> Page[Message]:
        return await self.durable.alist_messages(
            config, search, offset, limit, last=last, after=after
        )

    async def adelete_message(self, config: Config, message_id: str) -> bool:
        return await self.durable.adelete_message(config, message_id)

    async def aput_thread(self, config: Config, info: ThreadInfo) -> None:
        await self.durable.aput_thread(config, info)

    async def aget_thread(self, config: Config) -> ThreadInfo | None:
        return await self.durable.aget_thread(config)

    async def alist_threads(
        self,
        config: Config,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        *,
        filter: Mapping[str, str | int | float | bool | None] | None = None,
        cursor: str | None = None,
    ) -> Page[ThreadInfo]:
        return await self.durable.alist_threads(
            config, search, offset, limit, filter=filter, cursor=cursor
        )

    async def aclean_thread(self, config: Config) -> bool:
        return await self.durable.aclean_thread(config)

    async def alist_states(
        self, config: Config, limit: int | None = None, before: int | None = None
    ) -> list[StateSnapshot]:
        return await self.durable.alist_states(config, limit, before)

    async def afork_thread(
        self, config: Config, new_thread_id: str, version: int | None = None
    ) -> dict[str, Any]:
        return await self.durable.afork_thread(config, new_thread_id, version)

    async def aexport_thread(self, config: Config) -> AsyncGenerator[str, None]:
        async with aclosing(self.durable.aexport_thread(config)) as lines:
            async for line in lines:
                yield line

    async def aimport_thread(self, config: Config, lines: Iterable[str]) -> ThreadInfo:
        return await self.durable.aimport_thread(config, lines)

    async def arequest_stop(self, config: Config) -> bool:
        return await self.durable.arequest_stop(config)

    async def ais_stop_requested(self, config: Config) -> bool:
        return await self.durable.ais_stop_requested(config)

    async def aclear_stop_request(self, config: Config) -> None:
        await self.durable.aclear_stop_request(config)

    async def arenew_lease(self, config: Config, lease: Lease) -> bool:
        return await self.durable.arenew_lease(config, lease)

    async def aget_tool_result(
        self, config: Config, message_id: str, position: int
    ) -> ToolExecution | None:
        return await self.durable.aget_tool_result(config, message_id, position)

    async def alist_tool_results(
        self, config: Config, status: str | None = None
    ) -> list[ToolExecution]:
        return await self.durable.alist_tool_results(config, status)

    async def aput_tool_result(self, config: Config, execution: ToolExecution) -> None:
        await self.durable.aput_tool_result(config, execution)

    async def aclose(self) -> None:
        await self.durable.aclose()
