"""Request bodies against the types of the providers' own SDKs.

The SDKs describe a request by TypedDicts and, at Google, by pydantic models. pydantic validates both, rejecting unknown
fields and converting nothing: a number in a string is not a number. Its errors are then reported in one line each,
without those of union members that were not meant.
"""

from __future__ import annotations

import collections.abc
import json
import os
import typing
import warnings
from functools import cache
from typing import Any

import typing_extensions
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

# Fields that identify the intended member of a union.
TAGS = ("type", "role")

# If a body has more errors than this, listing all of them does not help.
MOST_FINDINGS = 12


def judge_types(kind: Any, body: Any) -> list[str]:
    """Returns the errors of a body against the SDK's type."""
    validator = adapter(kind)
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        try:
            validator.validate_json(json.dumps(body), strict=True)
        except ValidationError as problem:
            return readable(problem.errors(include_url=False, include_input=False), body)[:MOST_FINDINGS]
    # At Google, a value outside an enumeration only causes a warning.
    return [f"body: {remark.message}" for remark in remarks]


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Returns the validator of a type. Every type that it mentions is closed first."""
    close(kind, set())
    with warnings.catch_warnings():
        # A few types are declared as open, which pydantic warns about and respects.
        warnings.simplefilter("ignore")
        return TypeAdapter(kind)


def close(kind: Any, seen: set[Any]) -> None:
    """Makes every TypedDict below a type reject unknown fields and check its lists immediately."""
    if typing_extensions.is_typeddict(kind):
        if kind in seen:
            return
        seen.add(kind)
        hints = typing_extensions.get_type_hints(kind, include_extras=True)
        for hint in hints.values():
            close(hint, seen)
        kind.__annotations__ = {name: listed(hint) for name, hint in hints.items()}
        kind.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
        return
    for part in typing_extensions.get_args(kind):
        close(part, seen)


def listed(kind: Any) -> Any:
    """Returns the type with lists for iterables: pydantic validates an iterable only while it is read."""
    origin, parts = typing_extensions.get_origin(kind), typing_extensions.get_args(kind)
    if origin in (None, typing.Literal) or not parts:
        return kind
    if origin is typing_extensions.Annotated:
        return typing_extensions.Annotated[(listed(parts[0]), *parts[1:])]
    parts = tuple(listed(part) for part in parts if not is_foreign(part))
    if origin in (collections.abc.Iterable, collections.abc.Sequence, list):
        return list[parts[0]]
    if origin is dict:
        return dict[parts]
    if origin is typing.Union:
        return typing.Union[parts]
    if origin in (typing_extensions.Required, typing_extensions.NotRequired):
        return origin[parts[0]]
    raise TypeError(f"the judge does not know the type {kind}")


def literals(kind: Any) -> set[str]:
    """Returns the strings that a type names."""
    if typing_extensions.get_origin(kind) is typing.Literal:
        return set(typing_extensions.get_args(kind))
    return {text for part in typing_extensions.get_args(kind) for text in literals(part)}


def is_foreign(kind: Any) -> bool:
    """Returns whether only the SDK accepts a type: an open file, a path, or an answer to be sent back unchanged."""
    origin, parts = typing_extensions.get_origin(kind), typing_extensions.get_args(kind)
    if origin is typing_extensions.Annotated:
        return is_foreign(parts[0])
    if origin is typing.Union:
        return all(is_foreign(part) for part in parts)
    return origin in (typing.IO, os.PathLike) or isinstance(kind, type) and issubclass(kind, BaseModel)


def readable(errors: list[dict[str, Any]], body: Any) -> list[str]:
    """Returns one line for each error of the intended union members."""
    return list(dict.fromkeys(told(errors, 0, body, "body")))


def told(errors: list[dict[str, Any]], depth: int, value: Any, path: str) -> list[str]:
    """Describes the errors below one path. `depth` is the number of steps of their locations that lead there."""
    lines: list[str] = []
    members: dict[Any, list[dict[str, Any]]] = {}
    for step, below in grouped(errors, depth).items():
        if step is None:
            lines += [f"{path}: {reason(error)}" for error in below]
        elif isinstance(value, list) and isinstance(step, int):
            lines += told(below, depth + 1, value[step], f"{path}[{step}]")
        elif isinstance(value, dict) and step in value:
            lines += told(below, depth + 1, value[step], f"{path}.{step}")
        elif below[0]["type"] == "missing" and len(below[0]["loc"]) == depth + 1:
            lines.append(f"{path}.{step}: required, and missing")
        else:
            # A step that is not in the body is pydantic's name for a union member.
            members[step] = below
    return lines + (union(members, depth, value, path) if members else [])


def union(members: dict[Any, list[dict[str, Any]]], depth: int, value: Any, path: str) -> list[str]:
    """Describes the errors of the union member that is closest to the value."""
    meant, strange = [], {}
    for below in members.values():
        tags = [error for error in below if is_tag(error, depth + 1)]
        strange.update({error["loc"][-1]: None for error in tags})
        if not tags and any(len(error["loc"]) > depth + 1 for error in below):
            meant.append(told(below, depth + 1, value, path))
    if meant:
        return min(meant, key=len)
    if strange:
        tag = next(iter(strange))
        return [f"{path}.{tag}: {value[tag]!r} is not a known value"]
    reasons = (reason(error) for below in members.values() for error in below)
    return [f"{path}: {', or '.join(dict.fromkeys(reasons))}"]


def grouped(errors: list[dict[str, Any]], depth: int) -> dict[Any, list[dict[str, Any]]]:
    """Groups errors by the next step of their locations; those of this path are under `None`."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for error in errors:
        step = error["loc"][depth] if len(error["loc"]) > depth else None
        groups.setdefault(step, []).append(error)
    return groups


def is_tag(error: dict[str, Any], depth: int) -> bool:
    """Returns whether an error means that another member of the union was intended."""
    location = error["loc"]
    return error["type"] == "literal_error" and len(location) == depth + 1 and location[-1] in TAGS


def reason(error: dict[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return "unknown field"
    return error["msg"][0].lower() + error["msg"][1:]
