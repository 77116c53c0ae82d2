"""ServerSettings: what `10xgraph.json` says."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, StringConstraints, ValidationError

__all__ = [
    "FILE_NAME",
    "MOST_BYTES",
    "RequestLimits",
    "RunLimits",
    "ServerSettings",
    "SettingsError",
]

FILE_NAME = "10xgraph.json"
MOST_BYTES = 4 * 2**20
_MOST_SECONDS = 10.0**9

Reference = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]
"""`module:attribute`."""

Seconds = Annotated[float, Field(ge=0.001, le=_MOST_SECONDS)]


class SettingsError(ValueError):
    """The settings say something that is not known, or name something that is not there."""


class RunLimits(BaseModel):
    """Limits of runs. A client may ask for less of the first three, and never for more.

    Attributes:
        recursion_limit: steps of a run.
        node_timeout: seconds of one node.
        tool_timeout: seconds of one tool call.
        lease_timeout: seconds after which a silent process is taken for dead.
        max_runs: runs at the same time in one process; one more is answered with 429.
        max_runs_per_user: the same for one user.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    recursion_limit: int = Field(default=25, ge=1, le=10**9)
    node_timeout: Seconds = 900.0
    tool_timeout: Seconds = 300.0
    lease_timeout: Seconds = 30.0
    max_runs: int = Field(default=500, ge=1)
    max_runs_per_user: int = Field(default=100, ge=1)

    def of_one_run(self) -> dict[str, float]:
        """Return the limits that a single run gets in its config."""
        return self.model_dump(exclude={"max_runs", "max_runs_per_user"})


class RequestLimits(BaseModel):
    """Size limits of a request body, checked before any message is built.

    Attributes:
        max_messages: messages in `messages`.
        max_parts: content parts of all these messages together.
        max_values: JSON values in the body: texts, numbers, lists, objects.
        max_depth: levels of nested lists and objects.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_messages: int = Field(default=1000, ge=1)
    max_parts: int = Field(default=2000, ge=1)
    max_values: int = Field(default=100_000, ge=100)
    max_depth: int = Field(default=50, ge=5, le=100)


class ServerSettings(BaseModel):
    """What is served, for whom.

    Attributes:
        agent: `module:attribute` of a compiled graph, of something with a `compile` method such as
            a `ReactAgent`, or of a function that makes one of these; the function may ask for
            `checkpointer` and `store` by name.
        checkpointer: `module:attribute` of the checkpointer that the agent is compiled with.
        store: `module:attribute` of the long-term memory that the agent is compiled with.
        env: environment variables, or the path of a `.env` file; set before a module is imported.
            What the environment has already is left as it is.
        auth: who calls: `null` (everybody is `"anonymous"`), `"jwt"`, or `module:attribute` of an
            `AuthBackend`.
        authorization: what a caller may do: `"ownership"` (each has threads of their own),
            `"allow_all"` (threads are shared), or `module:attribute` of an `Authorization`.
        limits: what runs may take.
        request_limits: how many messages, parts and values a request may have.
        cors: origins of web pages that may call the server.
        allowed_hosts: names that requests may have in their `Host` header, such as
            `chat.example.com` or `*.example.com`; `*` allows all. By default, a connection to a
            loopback address must name this machine (`localhost` or a loopback address), and other
            connections may name any host.
        max_body_bytes: how large a request may be.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent: Reference
    checkpointer: Reference | None = None
    store: Reference | None = None
    env: str | dict[str, str] | None = None
    auth: str | None = None
    authorization: str = "ownership"
    limits: RunLimits = RunLimits()
    request_limits: RequestLimits = RequestLimits()
    cors: tuple[str, ...] = ()
    allowed_hosts: tuple[Annotated[str, Field(min_length=1)], ...] | None = None
    max_body_bytes: int = Field(default=MOST_BYTES, ge=1024)
    _folder: Path = PrivateAttr(default_factory=Path.cwd)

    @property
    def folder(self) -> Path:
        """Where modules are looked for, and where relative paths begin: the file's folder."""
        return self._folder

    @classmethod
    def read(cls, path: str | os.PathLike[str] = FILE_NAME) -> Self:
        """Read a file.

        Raises:
            SettingsError: it is not there, is no JSON, or says something that is not known.
        """
        file = Path(path)
        try:
            told = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            message = f"{file}: {error.strerror}. Say which file: --config PATH."
            raise SettingsError(message) from error
        except ValueError as error:
            raise SettingsError(f"{file} is no JSON: {error}.") from error
        if not isinstance(told, dict):
            raise SettingsError(
                f'{file} must hold a JSON object, such as {{"agent": "app:graph"}}.'
            )
        settings = cls.of(told, named=str(file))
        settings._folder = file.resolve().parent
        return settings

    @classmethod
    def of(cls, told: dict[str, Any], *, named: str) -> Self:
        """Check what was told.

        Raises:
            SettingsError: something in it is not known, or not what it should be; names it.
        """
        try:
            return cls.model_validate(told)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
                for one in error.errors(include_url=False)
            )
            raise SettingsError(f"{named}: {problems}.") from error
