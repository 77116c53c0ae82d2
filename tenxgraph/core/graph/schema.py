"""A function's signature as the JSON schema that a model reads, and as what checks its answers."""

import inspect
import types
import typing
from collections.abc import Callable, Container, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from tenxgraph.core.exceptions import GraphError, ToolError
from tenxgraph.core.graph.docstring import Docstring
from tenxgraph.core.graph.injected import globals_of

__all__ = ["Parameters"]

_NAMELESS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _WithoutTitles(GenerateJsonSchema):
    """A title is a parameter's name once more, and costs tokens."""

    def field_title_should_be_set(self, _schema: Any) -> bool:
        return False

    def emit_warning(self, _kind: Any, _detail: str) -> None:
        """A default that JSON cannot say is left out of the schema, and used all the same."""


class Parameters:
    """What a model may pass to a function: all its parameters but the injected ones.

    Args:
        name: what the function is called.
        function: the function, or an object that can be called.
        injected: names of parameters that the model must not know of.

    Raises:
        GraphError: a parameter cannot be passed by name, or its type not be told in JSON.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], injected: Container[str] = ()
    ) -> None:
        self._tool = name
        signature = _signature(name, function)
        parameters = signature.parameters.values()
        self._refuse_star(parameters)
        self._takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
        visible = {
            one.name: one
            for one in parameters
            if one.kind not in _NAMELESS and one.name not in injected
        }
        self._refuse_nameless(visible.values())
        self._names = {f"p{number}": name for number, name in enumerate(visible)}
        """By the names of fields: a parameter's own may mean something else to pydantic."""
        self._optional = {one.name for one in visible.values() if one.default is not one.empty}
        self.unannotated = [one.name for one in visible.values() if one.annotation is one.empty]
        """Parameters whose type the model is not told."""
        self._model = self._make_model(function, visible)
        self.json_schema = self._make_schema()

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """What the model passed, as the types that the function declares.

        Raises:
            ToolError: it does not fit; says where, in words for the model.
        """
        try:
            made = self._validated(args)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}"
                for one in error.errors(include_url=False, include_context=False)
            )
            message = f"The arguments of {self._tool} do not fit: {problems}."
            raise ToolError(message) from error
        # What was not given is left to the function's own defaults.
        given = {
            name: getattr(made, field)
            for field, name in self._names.items()
            if field in made.model_fields_set
        }
        return given | (made.model_extra or {})

    def _validated(self, args: Mapping[str, Any]) -> BaseModel:
        try:
            return self._model.model_validate(dict(args))
        except ValidationError as error:
            # Many models say null for what they leave out.
            wrong = {one["loc"][0] for one in error.errors(include_url=False) if one["loc"]}
            nulls = {name for name in wrong & self._optional if args.get(str(name), 0) is None}
            if not nulls:
                raise
        return self._model.model_validate({k: v for k, v in args.items() if k not in nulls})

    def _refuse_star(self, parameters: typing.Iterable[inspect.Parameter]) -> None:
        """Refuse `*args`: no model could ever pass them, and nobody would notice."""
        for one in parameters:
            if one.kind is one.VAR_POSITIONAL:
                raise GraphError(
                    f"Tool {self._tool!r} takes `*{one.name}`; a model passes arguments by name. "
                    f"Take a list instead (`{one.name}: list[str]`). A decorator that wraps the "
                    "function needs `@functools.wraps`."
                )

    def _refuse_nameless(self, parameters: typing.Iterable[inspect.Parameter]) -> None:
        for one in parameters:
            if one.kind is one.POSITIONAL_ONLY:
                raise GraphError(
                    f"Tool {self._tool!r} takes {one.name!r} by position only; a model passes "
                    "arguments by name."
                )

    def _make_model(
        self, function: Callable[..., Any], visible: Mapping[str, inspect.Parameter]
    ) -> type[BaseModel]:
        described = Docstring.of(function).parameters
        hints = _hints(self._tool, function, visible)
        fields: dict[str, Any] = {}
        for field, name in self._names.items():
            default = visible[name].default
            required = default is inspect.Parameter.empty
            fields[field] = (
                hints[name],
                Field(
                    default=... if required else default,
                    alias=name,
                    description=described.get(name),
                ),
            )
        extra: Any = "allow" if self._takes_any else "forbid"
        config = ConfigDict(extra=extra, arbitrary_types_allowed=False, protected_namespaces=())
        try:
            return create_model(self._tool, __config__=config, **fields)
        except (PydanticUserError, NameError, TypeError) as error:
            raise GraphError(self._explained(error)) from error

    def _make_schema(self) -> dict[str, Any]:
        try:
            schema = self._model.model_json_schema(schema_generator=_WithoutTitles)
        except PydanticUserError as error:
            raise GraphError(self._explained(error)) from error
        schema.pop("title", None)
        schema.setdefault("properties", {})
        return schema

    def _explained(self, error: Exception) -> str:
        return (
            f"The signature of tool {self._tool!r} cannot be told to a model: {error} Use types "
            "that JSON can hold, or let the tool ask for an injected parameter."
        )


def _signature(name: str, function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise GraphError(f"Tool {name!r} has no signature to look at.") from error


def _hints(
    tool: str, function: Callable[..., Any], visible: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    """The declared types of the visible parameters alone: those of others may not be there."""
    annotations = {
        name: Any if one.annotation is one.empty else one.annotation
        for name, one in visible.items()
    }
    bare = types.SimpleNamespace(__annotations__=annotations)
    try:
        return typing.get_type_hints(bare, globalns=globals_of(function), include_extras=True)
    except NameError as error:
        message = f"The types of tool {tool!r} cannot be looked up: {error}."
        raise GraphError(message) from error
