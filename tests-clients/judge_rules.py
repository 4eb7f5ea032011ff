"""What the judges of all formats share: names, texts, pictures, and the schemas of tools and answers."""

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

# Where schemas are inside a schema.
CHILD = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
CHILDREN = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED_CHILDREN = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")

# What may not stand at the top of a tool's schema.
TOP_REFUSED = ("anyOf", "oneOf", "allOf", "enum", "not")

# What a schema that is enforced to the letter may not use, at OpenAI.
STRICT_REFUSED = (
    "allOf", "oneOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "patternProperties",
)  # fmt: skip

# What an output schema may not use, at Anthropic.
ANTHROPIC_REFUSED = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems",
    "uniqueItems", "minProperties", "maxProperties", "patternProperties", "not", "if", "then", "else",
)  # fmt: skip

# What Gemini reads of a JSON Schema.
GEMINI_KNOWN = {
    "$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "const", "default", "examples",
    "enum", "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties",
    "additionalProperties", "required", "propertyOrdering", "nullable",
}  # fmt: skip


def name(value: str, place: str) -> list[str]:
    """A tool's name."""
    return [] if NAME.fullmatch(value) else [f"{place}: {value!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$"]


def identifier(value: str, place: str, longest: int | None = None) -> list[str]:
    """The id of a call."""
    if not value:
        return [f"{place}: empty"]
    return [f"{place}: longer than {longest}"] if longest and len(value) > longest else []


def unique(names: list[str], place: str) -> list[str]:
    """Names that may be there once."""
    return [f"{place}: more than one is called {one!r}" for one in sorted({n for n in names if names.count(n) > 1})]


def text(value: str, place: str) -> list[str]:
    """A text that must say something."""
    return [] if value.strip() else [f"{place}: the text is blank"]


def encoded(data: str, place: str) -> list[str]:
    """Bytes in base64."""
    try:
        is_there = bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return [f"{place}: not base64"]
    return [] if is_there else [f"{place}: no bytes"]


def data_url(url: str, place: str) -> list[str]:
    """A picture in a URL."""
    if not url.startswith("data:"):
        return []
    parts = DATA_URL.fullmatch(url)
    return encoded(parts[2], place) if parts else [f"{place}: not a data URL of a known kind of picture"]


def nodes(schema: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with its place."""
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
    """What every provider wants of a schema: that it is one, and that what it refers to is in it."""
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
            findings.append(f"{at}.$ref: {reference!r} leads nowhere")
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
    """The schema of a tool's arguments."""
    if findings := schema(value, place):
        return findings
    findings = [] if value.get("type") == "object" else [f"{place}.type: {value.get('type')!r}, not 'object'"]
    findings += [f"{place}.{key}: refused at the top of a tool's schema" for key in TOP_REFUSED if key in value]
    for at, node in nodes(value, place):
        if node.get("type") == "array" and "items" not in node and "prefixItems" not in node:
            findings.append(f"{at}.items: missing, and the type is array")
    return findings


def property_names(value: Any, place: str) -> list[str]:
    """The names of parameters, where the provider is particular about them."""
    return [
        f"{at}.properties: {called!r} does not match ^[a-zA-Z0-9_.-]{{1,64}}$"
        for at, node in nodes(value, place)
        for called in node.get("properties") or {}
        if not PROPERTY.fullmatch(called)
    ]


def closed(value: Any, place: str) -> list[str]:
    """Objects that must say that they are whole."""
    return [
        f"{at}.additionalProperties: must be false"
        for at, node in nodes(value, place)
        if is_object(node) and node.get("additionalProperties") is not False
    ]


def strict_schema(value: Any, place: str) -> list[str]:
    """A schema that OpenAI is to enforce to the letter."""
    findings = closed(value, place)
    if value.get("type") != "object":
        findings.append(f"{place}.type: {value.get('type')!r}, not 'object'")
    for at, node in nodes(value, place):
        missing = sorted(set(node.get("properties") or {}) - set(node.get("required") or []))
        findings += [f"{at}.required: {called!r} is not there, and strict wants all" for called in missing]
        findings += [f"{at}.{key}: not supported with strict" for key in STRICT_REFUSED if key in node]
    return findings


def keywords(value: Any, place: str, *, known: set[str] | None = None, refused: tuple[str, ...] = ()) -> list[str]:
    """Keywords that a provider does not take."""
    return [
        f"{at}.{key}: the provider does not take this keyword"
        for at, node in nodes(value, place)
        for key in node
        if key in refused or known is not None and key not in known
    ]


def is_object(node: dict[str, Any]) -> bool:
    kind = node.get("type")
    return kind == "object" or isinstance(kind, list) and "object" in kind or "properties" in node
