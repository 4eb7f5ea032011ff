"""Rules shared by all formats: names, texts, images, and the schemas of tools and outputs."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
DATA_URL = re.compile(r"data:image/(png|jpeg|gif|webp);base64,(.*)", re.DOTALL)

# Keywords that contain schemas.
CHILD = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
CHILDREN = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED_CHILDREN = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")

# Keywords that are not allowed at the top level of a tool schema.
TOP_REFUSED = ("anyOf", "oneOf", "allOf", "enum", "not")

# Keywords that a strict schema must not use, at OpenAI.
STRICT_REFUSED = (
    "allOf", "oneOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "patternProperties",
)  # fmt: skip

# Keywords that an output schema must not use, at Anthropic.
ANTHROPIC_REFUSED = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems",
    "uniqueItems", "minProperties", "maxProperties", "patternProperties", "not", "if", "then", "else",
)  # fmt: skip

# JSON Schema keywords that Gemini supports.
GEMINI_KNOWN = {
    "$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "const", "default", "examples",
    "enum", "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties",
    "additionalProperties", "required", "propertyOrdering", "nullable",
}  # fmt: skip


def name(value: str, place: str) -> list[str]:
    """A tool's name."""
    return [] if NAME.fullmatch(value) else [f"{place}: {value!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$"]


def identifier(value: str, place: str, longest: int | None = None) -> list[str]:
    """Checks the id of a call."""
    if not value:
        return [f"{place}: empty"]
    return [f"{place}: longer than {longest}"] if longest and len(value) > longest else []


def unique(names: list[str], place: str) -> list[str]:
    """Checks that names are unique."""
    return [f"{place}: more than one is named {one!r}" for one in sorted({n for n in names if names.count(n) > 1})]


def text(value: str, place: str) -> list[str]:
    """Checks that a text is not blank."""
    return [] if value.strip() else [f"{place}: the text is blank"]


def encoded(data: str, place: str) -> list[str]:
    """Checks that data is base64."""
    try:
        is_there = bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return [f"{place}: not base64"]
    return [] if is_there else [f"{place}: no bytes"]


def data_url(url: str, place: str) -> list[str]:
    """Checks an image in a URL."""
    if not url.startswith("data:"):
        return []
    parts = DATA_URL.fullmatch(url)
    return encoded(parts[2], place) if parts else [f"{place}: not a data URL of a known image type"]


def nodes(schema: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Returns every schema inside a schema, with its path."""
    if not isinstance(schema, dict):
        return
    yield place, schema
    for key in CHILD:
        yield from nodes(schema.get(key), f"{place}.{key}")
    for key in CHILDREN:
        for at, child in enumerate(schema.get(key) or []):
            yield from nodes(child, f"{place}.{key}[{at}]")
    for key in NAMED_CHILDREN:
        for called, child in (schema.get(key) or {}).items():
            yield from nodes(child, f"{place}.{key}.{called}")


def schema(value: Any, place: str) -> list[str]:
    """Checks what every provider requires: that the schema is valid, and that its references resolve."""
    if not isinstance(value, dict):
        return [f"{place}: not a schema"]
    try:
        Draft202012Validator.check_schema(value)
    except SchemaError as problem:
        where = "".join(f".{step}" for step in problem.absolute_path)
        return [f"{place}{where}: not JSON Schema 2020-12: {problem.message[:120]}"]
    findings = []
    for at, node in nodes(value, place):
        reference = node.get("$ref")
        if reference is not None and not resolves(reference, value):
            findings.append(f"{at}.$ref: {reference!r} does not resolve")
    return findings


def resolves(reference: str, root: dict[str, Any]) -> bool:
    if not reference.startswith("#"):
        return False
    value: Any = root
    for step in reference.lstrip("#").lstrip("/").split("/") if reference != "#" else []:
        step = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True


def tool_schema(value: Any, place: str) -> list[str]:
    """Checks the schema of a tool's arguments."""
    if findings := schema(value, place):
        return findings
    findings = [] if value.get("type") == "object" else [f"{place}.type: {value.get('type')!r}, not 'object'"]
    findings += [f"{place}.{key}: rejected at the top of a tool schema" for key in TOP_REFUSED if key in value]
    for at, node in nodes(value, place):
        if node.get("type") == "array" and "items" not in node and "prefixItems" not in node:
            findings.append(f"{at}.items: missing, and the type is array")
    return findings


def property_names(value: Any, place: str) -> list[str]:
    """Checks the names of parameters, where the provider restricts them."""
    return [
        f"{at}.properties: {called!r} does not match ^[a-zA-Z0-9_.-]{{1,64}}$"
        for at, node in nodes(value, place)
        for called in node.get("properties") or {}
        if not PROPERTY.fullmatch(called)
    ]


def closed(value: Any, place: str) -> list[str]:
    """Checks that objects reject additional properties."""
    return [
        f"{at}.additionalProperties: must be false"
        for at, node in nodes(value, place)
        if is_object(node) and node.get("additionalProperties") is not False
    ]


def strict_schema(value: Any, place: str) -> list[str]:
    """Checks a strict OpenAI schema."""
    findings = closed(value, place)
    if value.get("type") != "object":
        findings.append(f"{place}.type: {value.get('type')!r}, not 'object'")
    for at, node in nodes(value, place):
        missing = sorted(set(node.get("properties") or {}) - set(node.get("required") or []))
        findings += [f"{at}.required: {called!r} is missing, and strict requires all" for called in missing]
        findings += [f"{at}.{key}: not supported with strict" for key in STRICT_REFUSED if key in node]
    return findings


def keywords(value: Any, place: str, *, known: set[str] | None = None, refused: tuple[str, ...] = ()) -> list[str]:
    """Checks for keywords that a provider does not support."""
    return [
        f"{at}.{key}: the provider does not support this keyword"
        for at, node in nodes(value, place)
        for key in node
        if key in refused or known is not None and key not in known
    ]


def is_object(node: dict[str, Any]) -> bool:
    kind = node.get("type")
    return kind == "object" or isinstance(kind, list) and "object" in kind or "properties" in node
