"""OutputSchema: the form that an agent's last answer must have."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError

from tenxgraph.core.exceptions import GraphError, RefusalError
from tenxgraph.core.graph.strict_schema import LooseError, referenced, strict_form
from tenxgraph.core.state import Message
from tenxgraph.core.state.blocks import TextBlock

__all__ = ["OutputSchema"]

_WRAPPED = "answer"
_MOST_TOLD = 200


class OutputSchema:
    """A pydantic model, dataclass or other type, or a JSON schema as a dict.

    Servers take only objects. Where the form is none, such as a list or a choice of models, the
    model is asked for an object with the one key `answer`, and the answer is taken out of it.

    Raises:
        GraphError: it is neither, or has no JSON schema; names the field.
    """

    def __init__(self, schema: Any) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(schema, Mapping):
            self.json_schema = dict(schema)
            self.name = str(schema.get("title") or "answer")
        else:
            self._adapter, self.json_schema = _described(schema)
            self.name = getattr(schema, "__name__", "answer")
        for ref in _references(self.json_schema):
            try:
                referenced(self.json_schema, ref)
            except LookupError as error:
                message = f"`output_schema` has the reference {ref!r}, and nothing that it names."
                raise GraphError(message) from error
        self._sent, self._is_wrapped = _with_object_root(self.json_schema)

    @property
    def response_format(self) -> dict[str, Any]:
        """What the model is told, in OpenAI's terms.

        It is declared strict where OpenAI's strict form can say it.
        """
        told: dict[str, Any] = {"name": _identifier(self.name)}
        try:
            told |= {"schema": strict_form(self._sent), "strict": True}
        except LooseError:
            told |= {"schema": self._sent, "strict": False}
        return {"type": "json_schema", "json_schema": told}

    def read(self, answer: Message) -> Message:
        """Return the answer with JSON of this form as its text.

        Raises:
            RefusalError: the model refused to answer.
            GraphError: the answer is not of this form; says where.
        """
        refusal = answer.raw.get("refusal") if isinstance(answer.raw, Mapping) else None
        if isinstance(refusal, str) and refusal:
            raise RefusalError(f"The model refused to answer: {refusal}", refusal=refusal)
        text = answer.text()
        bare = self._unwrapped(text)
        self._check(text if bare is None else bare)
        if bare is None:
            return answer
        others = [block for block in answer.content if not isinstance(block, TextBlock)]
        return answer.model_copy(update={"content": (*others, TextBlock(text=bare))})

    def _unwrapped(self, text: str) -> str | None:
        """Return the text of what is inside the object that was asked for; None if it is none."""
        if not self._is_wrapped:
            return None
        try:
            said = json.loads(text)
        except ValueError:
            return None
        if not isinstance(said, dict) or set(said) != {_WRAPPED}:
            return None
        return json.dumps(said[_WRAPPED], ensure_ascii=False)

    def _check(self, text: str) -> None:
        try:
            if self._adapter is None:
                json.loads(text)
            else:
                self._adapter.validate_json(text)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, one['loc'])) or 'answer'}: {one['msg']}"
                for one in error.errors(include_url=False, include_context=False)
            )
            raise self._mistake(problems, text) from error
        except ValueError as error:
            raise self._mistake(f"it is no JSON: {error}", text) from error

    def _mistake(self, problems: str, text: str) -> GraphError:
        said = text[:_MOST_TOLD]
        return GraphError(f"The model's answer is no {self.name}: {problems}. It said: {said!r}")


def _described(schema: Any) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(schema)
        return adapter, adapter.json_schema()
    except (NameError, PydanticUserError) as error:
        field = _odd_field(schema)
        where = f"The field `{field}` of `output_schema`" if field else "`output_schema`"
        raise GraphError(f"{where} cannot be told to a model: {error}") from error


def _odd_field(schema: Any) -> str | None:
    """Return the name of the field that has no JSON schema; None if it cannot be told."""
    hints: dict[str, Any] = {}
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        hints = {name: field.annotation for name, field in schema.model_fields.items()}
    elif dataclasses.is_dataclass(schema):
        hints = {field.name: field.type for field in dataclasses.fields(schema)}
    for name, hint in hints.items():
        try:
            TypeAdapter(hint).json_schema()
        except (NameError, PydanticUserError):
            inner = _odd_field(hint)
            return f"{name}.{inner}" if inner else name
    return None


def _references(schema: Any) -> list[Any]:
    if isinstance(schema, list):
        return [ref for one in schema for ref in _references(one)]
    if not isinstance(schema, Mapping):
        return []
    own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
    inner = [one for key, one in schema.items() if key not in ("const", "enum", "examples")]
    return own + _references(inner)


def _with_object_root(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the schema with an object as its root, and whether it had to be wrapped in one."""
    root = dict(schema)
    seen: set[str] = set()
    # A recursive type is a reference at its root.
    while isinstance(root.get("$ref"), str) and root["$ref"] not in seen:
        seen.add(root["$ref"])
        beside = {key: value for key, value in root.items() if key != "$ref"}
        found = {k: v for k, v in referenced(schema, root["$ref"]).items() if k != "$defs"}
        root = {**found, **beside}
    if root.get("type") == "object":
        return root, False
    named: dict[str, Any] = {key: root.pop(key) for key in ("$defs", "definitions") if key in root}
    if any(ref == "#" for ref in _references(root)):
        named["$defs"] = {**named.get("$defs", {}), _WRAPPED: root}
        root = {"$ref": f"#/$defs/{_WRAPPED}"}
        named = _renamed(named)
    wrapper = {"type": "object", "properties": {_WRAPPED: root}, "required": [_WRAPPED]}
    return {**wrapper, "additionalProperties": False, **named}, True


def _renamed(schema: Any) -> Any:
    """Return the schema with references to the wrapped root where they were to the root."""
    if isinstance(schema, list):
        return [_renamed(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: f"#/$defs/{_WRAPPED}" if key == "$ref" and value == "#" else _renamed(value)
        for key, value in schema.items()
    }


def _identifier(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)[:64]
