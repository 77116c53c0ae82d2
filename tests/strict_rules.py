"""The rules of OpenAI's strict mode for schemas, apart from the code that follows them.

Source: OpenAI, Structured model outputs, "Supported schemas", and its refusals in practice:
`$ref cannot have keywords` and `'oneOf' is not permitted` (akitaonrails/ai-memory #30).
"""

from collections.abc import Mapping
from typing import Any

KEYWORDS = {
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum",
    "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems",
    "minimum", "multipleOf", "pattern", "properties", "required", "title", "type",
}  # fmt: skip
FORMATS = {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}


def broken_strict_rules(schema: Mapping[str, Any]) -> list[str]:
    """What OpenAI would refuse in a schema that is declared strict; empty if nothing."""
    broken = _broken(schema, "root", schema)
    if schema.get("type") != "object":
        broken.append("the root is no object")
    if "anyOf" in schema:
        broken.append("the root has anyOf")
    return broken


def _broken(schema: Any, where: str, root: Mapping[str, Any]) -> list[str]:
    if not isinstance(schema, Mapping):
        return [f"{where} is no schema"]
    broken = [f"{where} has {key}" for key in schema if key not in KEYWORDS]
    if "$ref" in schema:
        if len(schema) > 1:
            broken.append(f"{where}: $ref cannot have keywords")
        name = schema["$ref"].removeprefix("#/$defs/")
        if schema["$ref"] != "#" and name not in root.get("$defs", {}):
            broken.append(f"{where}: {schema['$ref']} names nothing")
        return broken
    if "type" not in schema and "anyOf" not in schema:
        broken.append(f"{where} has no type")
    if schema.get("format", "date") not in FORMATS or "(?" in schema.get("pattern", ""):
        broken.append(f"{where} has a format or pattern that is not supported")
    return broken + _broken_object(schema, where) + _broken_inside(schema, where, root)


def _broken_object(schema: Mapping[str, Any], where: str) -> list[str]:
    broken = []
    if "object" in schema.get("type", []):
        if schema.get("additionalProperties") is not False:
            broken.append(f"{where} has additionalProperties")
        if not schema.get("properties") or schema.get("required") != list(schema["properties"]):
            broken.append(f"{where} does not require all properties")
    return broken


def _broken_inside(schema: Mapping[str, Any], where: str, root: Mapping[str, Any]) -> list[str]:
    broken: list[str] = []
    if "array" in schema.get("type", []):
        broken += _broken(schema.get("items"), f"{where}[]", root)
    for key in ("properties", "$defs"):
        for name, one in schema.get(key, {}).items():
            broken += _broken(one, f"{where}.{name}", root)
    for one in schema.get("anyOf", []):
        broken += _broken(one, f"{where}|", root)
    return broken
