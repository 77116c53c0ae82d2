"""A JSON schema in OpenAI's strict form, which a model cannot depart from.

It is a part of JSON schema: objects have exactly the properties that are named, alternatives are
`anyOf`, and a `$ref` stands alone. Some schemas have no such form.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["LooseError", "referenced", "strict_form"]

_KEPT = frozenset(
    {
        "$defs",
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "multipleOf",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
    }
)
# They say what an answer may be, and the strict form has no words for them.
_WITHOUT_A_FORM = frozenset(
    {
        "$dynamicRef",
        "additionalItems",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "not",
        "patternProperties",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
# The model is told of these in the description, and the answer is checked against the type.
_TOLD = ("minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties")
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)
_TYPES: dict[type, str] = {
    bool: "boolean",
    float: "number",
    int: "integer",
    str: "string",
    type(None): "null",
}


class LooseError(Exception):
    """The schema has no strict form; says where and why."""


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the strict form of a schema whose root is an object.

    Raises:
        LooseError: it has none.
    """
    made = _Strict(schema).of(schema, "answer", ())
    if "anyOf" in made:
        raise LooseError("the root has alternatives")
    return made


def referenced(root: Mapping[str, Any], ref: Any) -> Any:
    """Return the schema that a `$ref` names inside its root; `LookupError` if it names none."""
    found: Any = root
    if not isinstance(ref, str) or not ref.startswith("#"):
        raise LookupError(ref)
    for name in ref[1:].split("/")[1:]:
        found = found[name.replace("~1", "/").replace("~0", "~")]
    if not isinstance(found, Mapping):
        raise LookupError(ref)
    return found


class _Strict:
    """Makes strict forms of the parts of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def of(self, schema: Any, where: str, inside: tuple[str, ...]) -> dict[str, Any]:
        """Return the strict form of a part.

        Args:
            schema: the part.
            where: its place, for errors.
            inside: the references whose schemas have been put in place of them around it.
        """
        if not isinstance(schema, Mapping):
            raise LooseError(f"{where} may be anything")
        schema = _merged(schema, where)
        if without := sorted(_WITHOUT_A_FORM & schema.keys()):
            raise LooseError(f"{where} has `{without[0]}`")
        if "$ref" in schema:
            return self._reference(schema, where, inside)
        made = {key: value for key, value in schema.items() if key in _KEPT}
        _tell(made, schema)
        _type(made, where)
        for key in ("$defs", "properties"):
            if isinstance(made.get(key), Mapping):
                made[key] = {
                    name: self.of(one, f"{where}.{name}", inside) for name, one in made[key].items()
                }
        if "anyOf" in made:
            made["anyOf"] = [self.of(one, where, inside) for one in made["anyOf"]]
        if "array" in _types(made):
            made["items"] = self.of(made.get("items"), f"{where}[]", inside)
        if "object" in _types(made):
            self._object(made, where)
        return made

    def _object(self, made: dict[str, Any], where: str) -> None:
        if not made.get("properties") or made.get("additionalProperties"):
            raise LooseError(f"{where} may have any properties")
        made |= {"additionalProperties": False, "required": list(made["properties"])}

    def _reference(
        self, schema: Mapping[str, Any], where: str, inside: tuple[str, ...]
    ) -> dict[str, Any]:
        ref = schema["$ref"]
        told = {key: schema[key] for key in ("description", "title") if key in schema}
        beside = {
            key: value
            for key, value in schema.items()
            if key in _KEPT or key in _TOLD
            if key not in ("$ref", "$defs", "description", "title")
        }
        if ref != "#" and not ref.startswith("#/$defs/"):
            raise LooseError(f"{where} has the reference {ref!r}")
        if not told and not beside:
            return {"$ref": ref}
        # A reference stands alone: what stands beside it needs the schema itself in its place. In
        # itself a schema has no end, so that there the description is left out.
        if ref in inside:
            if beside:
                raise LooseError(f"{where} has `{min(beside)}` beside a `$ref`")
            return {"$ref": ref}
        found = {key: v for key, v in referenced(self._root, ref).items() if key != "$defs"}
        return self.of({**found, **told, **beside}, where, (*inside, ref))


def _merged(schema: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the schema with `anyOf` for `oneOf`, and without an `allOf` of one."""
    made = dict(schema)
    if "oneOf" in made:
        if "anyOf" in made:
            raise LooseError(f"{where} has `oneOf` beside `anyOf`")
        made["anyOf"] = made.pop("oneOf")
    if "allOf" in made:
        parts = made.pop("allOf")
        if len(parts) != 1 or not isinstance(parts[0], Mapping) or parts[0].keys() & made.keys():
            raise LooseError(f"{where} has `allOf`")
        made |= parts[0]
    return made


def _tell(made: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Move what has no form into the description."""
    told = {key: schema[key] for key in _TOLD if key in schema}
    if "format" in made and made["format"] not in _FORMATS:
        told["format"] = made.pop("format")
    # Groups that look around have no form, and pydantic writes some for decimal numbers.
    if "(?" in str(made.get("pattern", "")):
        told["pattern"] = made.pop("pattern")
    if told:
        words = ", ".join(f"{key}: {value}" for key, value in told.items())
        made["description"] = f"{made.get('description', '')} ({words})".strip()


def _type(made: dict[str, Any], where: str) -> None:
    """Add the type that the strict form asks for."""
    if "type" in made or "anyOf" in made:
        return
    values = made.get("enum", [made["const"]] if "const" in made else [])
    types = sorted({_TYPES.get(type(value), "") for value in values})
    if not types or "" in types:
        raise LooseError(f"{where} may be anything")
    made["type"] = types if len(types) > 1 else types[0]


def _types(made: Mapping[str, Any]) -> list[str]:
    types = made.get("type", [])
    return [types] if isinstance(types, str) else list(types)
