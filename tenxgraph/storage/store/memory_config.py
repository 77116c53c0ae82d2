"""How an agent uses its long-term memory."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from tenxgraph.storage.store.base import BaseStore
from tenxgraph.storage.store.memory_scope import checked_scope_id
from tenxgraph.storage.store.query import MAX_LIMIT

__all__ = ["AgentMemoryConfig", "MemoryConfig", "RetrievalMode", "UserMemoryConfig"]

RetrievalMode = Literal["postload", "preload", "no_retrieval"]


class _ScopeConfig(BaseModel):
    """What the user's and the agent's memory have in common.

    Attributes:
        store: where this memory is kept, if not where `MemoryConfig` says.
        memory_type: the type of what is remembered; if you set it, searches are limited to it.
        category: the label of what is remembered; if you set it, searches are limited to it.
        limit: how many results a search returns, if not what `MemoryConfig` says.
        score_threshold: the lowest score to return, if not what `MemoryConfig` says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    store: BaseStore | None = None
    memory_type: str = "episodic"
    category: str = "general"
    limit: int | None = Field(default=None, ge=1, le=MAX_LIMIT)
    score_threshold: float | None = Field(default=None, ge=0, le=1)

    @field_validator("user_id", "agent_id", "app_id", mode="before", check_fields=False)
    @classmethod
    def _check_id(cls, value: Any, info: ValidationInfo) -> str | None:
        # Blank text would read like an id that was left out, and so mean a wider scope.
        return None if value is None else checked_scope_id(value, str(info.field_name))

    @property
    def searched_type(self) -> str | None:
        """The type to search in; all types unless one was set."""
        return self.memory_type if "memory_type" in self.model_fields_set else None

    @property
    def searched_category(self) -> str | None:
        """The label to search in; all labels unless one was set."""
        return self.category if "category" in self.model_fields_set else None


class UserMemoryConfig(_ScopeConfig):
    """What an agent remembers of each user: searched and written by `user_memory_tool`.

    Attributes:
        enabled: whether the agent gets the tool.
        user_id: whose memory it is; by default the `user_id` of the run's config.
    """

    enabled: bool = True
    user_id: str | None = None


class AgentMemoryConfig(_ScopeConfig):
    """What all users of an agent share: searched, never written, by `agent_memory_tool`.

    Attributes:
        enabled: whether the agent gets the tool.
        agent_id: the memories of this agent, in all its instances.
        app_id: the memories of this application.
    """

    enabled: bool = False
    agent_id: str | None = None
    app_id: str | None = None


class MemoryConfig(BaseModel):
    """How an agent uses its long-term memory.

    Attributes:
        store: where memories are kept; by default what `compile(store=)` got.
        retrieval_mode: `"postload"`: the model searches by itself, with tools. `"preload"`: what
            fits the user's message is put into the system prompt before the model is asked.
            `"no_retrieval"`: neither.
        limit: how many memories a search returns.
        score_threshold: the lowest score to return, 0 to 1.
        inject_system_prompt: whether the system prompt tells the model about its memory.
        user_memory: what is remembered of each user.
        agent_memory: what all users share.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    store: BaseStore | None = None
    retrieval_mode: RetrievalMode = "postload"
    limit: int = Field(default=5, ge=1, le=MAX_LIMIT)
    score_threshold: float = Field(default=0.0, ge=0, le=1)
    inject_system_prompt: bool = True
    user_memory: UserMemoryConfig = Field(default_factory=UserMemoryConfig)
    agent_memory: AgentMemoryConfig = Field(default_factory=AgentMemoryConfig)

    def store_for(
        self, scope: UserMemoryConfig | AgentMemoryConfig, compiled: BaseStore | None
    ) -> BaseStore | None:
        """Where a scope's memories are: its own store, this one's, or the graph's."""
        named = (scope.store, self.store)
        return next((store for store in named if store is not None), compiled)

    def stores(self) -> list[BaseStore]:
        """Every store that is named here."""
        named = (self.store, self.user_memory.store, self.agent_memory.store)
        return [store for store in named if store is not None]

    def limit_for(self, scope: UserMemoryConfig | AgentMemoryConfig) -> int:
        """How many results a scope's search returns."""
        return self.limit if scope.limit is None else scope.limit

    def threshold_for(self, scope: UserMemoryConfig | AgentMemoryConfig) -> float:
        """The lowest score that a scope's search returns."""
        return self.score_threshold if scope.score_threshold is None else scope.score_threshold
