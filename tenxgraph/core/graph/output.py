"""OutputSchema: the form that an agent's last answer must have."""

from collections.abc import Mapping
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from tenxgraph.core.exceptions import GraphError

__all__ = ["OutputSchema"]


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


def _strict(schema: Any) -> Any:
    """The schema in OpenAI's strict form, which models cannot depart from; `None` if it has none.

    In that form an object has exactly the properties that are named, and all of them.
    """
    if isinstance(schema, list):
        items = [_strict(one) for one in schema]
        return None if any(one is None for one in items) else items
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("type") == "object":
        if not schema.get("properties") or schema.get("additionalProperties"):
            return None
        schema = {**schema, "additionalProperties": False, "required": list(schema["properties"])}
    strict = {}
    for name, value in schema.items():
        if name in ("default", "title", "const", "enum", "required"):
            made = None if name == "default" else value
        elif name in ("properties", "$defs"):
            made = {key: _strict(one) for key, one in value.items()}
            made = None if any(one is None for one in made.values()) else made
        else:
            made = _strict(value)
        if made is None and name != "default":
            return None
        if name != "default":
            strict[name] = made
    return strict
