"""OutputSchema: the form that an agent's last answer must have."""

from collections.abc import Mapping
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from tenxgraph.core.exceptions import GraphError

__all__ = ["OutputSchema"]

# Keywords whose values are no schemas.
_VALUES = frozenset({"const", "description", "enum", "examples", "required", "title"})


class OutputSchema:
    """A pydantic model, dataclass or other type, or a JSON schema as a dict.

    Raises:
        GraphError: it is neither.
    """

    def __init__(self, schema: Any) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(schema, Mapping):
            self.json_schema = dict(schema)
            self.name = str(schema.get("title") or "answer")
            return
        try:
            self._adapter = TypeAdapter(schema)
            self.json_schema = self._adapter.json_schema()
        except PydanticUserError as error:
            raise GraphError(f"`output_schema` cannot be told to a model: {error}") from error
        self.name = getattr(schema, "__name__", "answer")

    @property
    def response_format(self) -> dict[str, Any]:
        """What the model is told, in OpenAI's terms."""
        strict = _strict(self.json_schema)
        told = {"name": _identifier(self.name), "schema": strict or self.json_schema}
        return {"type": "json_schema", "json_schema": {**told, "strict": strict is not None}}

    def check(self, text: str) -> None:
        """Refuse an answer that is not of this form.

        Raises:
            GraphError: it is not; says where.
        """
        if self._adapter is None:
            return
        try:
            self._adapter.validate_json(text)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, one['loc'])) or 'answer'}: {one['msg']}"
                for one in error.errors(include_url=False, include_context=False)
            )
            message = f"The model's answer is no {self.name}: {problems}. It said: {text[:200]!r}"
            raise GraphError(message) from error


def _identifier(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)[:64]


class _LooseError(Exception):
    """The schema has no strict form."""


def _strict(schema: Mapping[str, Any]) -> Any:
    """The schema in OpenAI's strict form, which models cannot depart from; `None` if it has none.

    In that form an object has exactly the properties that are named, and all of them.
    """
    try:
        return _tightened(schema)
    except _LooseError:
        return None


def _tightened(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_tightened(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {name: _part(name, value) for name, value in schema.items() if name != "default"}
    if schema.get("type") == "object":
        if not schema.get("properties") or schema.get("additionalProperties"):
            raise _LooseError
        made |= {"additionalProperties": False, "required": list(schema["properties"])}
    return made


def _part(keyword: str, value: Any) -> Any:
    if keyword in _VALUES:
        return value
    if keyword in ("properties", "$defs"):
        return {name: _tightened(one) for name, one in value.items()}
    return _tightened(value)
