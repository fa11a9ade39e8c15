"""The reference page of the HTTP API, from its OpenAPI document."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import reference_introductions as introductions
from pydantic import BaseModel
from reference_text import NONE, attribute_docs, class_definitions, code, sentence, table

from headrace.frontends.access import OPERATIONS
from headrace.frontends.openapi import COMMON_ERRORS
from headrace.frontends.rest.schemas import MAX_INTEGER
from headrace.text.durations import DURATION_FORMAT, LONGEST_DURATION, format_duration

Json = dict[str, Any]


def http_page(document: Json) -> str:
    """Return the page of all calls and bodies of an OpenAPI document."""
    schemas = document["components"]["schemas"]
    tags: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            section = _call_section(f"{method.upper()} {path}", call)
            tags.setdefault(call.get("tags", ["other"])[0], []).append(section)
    sections = [f"## {tag}\n" + "\n\n".join(calls) for tag, calls in tags.items()]
    bodies = "\n\n".join(
        _schema_section(name, schemas[name]) for name in sorted(schemas) if name != _ANY
    )
    return "\n\n".join([introductions.HTTP.strip(), *sections, f"## Bodies\n{bodies}"])


def _call_section(title: str, call: Json) -> str:
    text = " ".join(call.get("description", "").split())
    operation = call["operationId"]
    callers = f"Operation {code(operation)}, for {OPERATIONS[operation]}."
    parts = [f"### {title}\n{text}\n\n{callers}"]
    parameters = [
        [
            code(one["name"]),
            one["in"],
            _json_type(one["schema"]),
            _json_default(one["schema"], required=one.get("required", False)),
            one.get("description", ""),
        ]
        for one in call.get("parameters", ())
    ]
    if parameters:
        parts.append(table(["parameter", "in", "type", "default", "meaning"], parameters))
    lines = []
    if "requestBody" in call:
        lines.append(f"- Body: {_contents(call['requestBody'])}")
    failures = []
    for status, response in sorted(call["responses"].items()):
        if status < "400":
            lines.append(f"- {status}: {_contents(response)}")
        elif int(status) not in COMMON_ERRORS:
            failures.append(f"{status} {response['description']}")
    if failures:
        lines.append(f"- Errors: {', '.join(failures)}")
    return "\n\n".join([*parts, "\n".join(lines)])


def _contents(described: Json) -> str:
    contents = described.get("content", {})
    found = [
        f"{_json_type(content['schema'])} ({media})" if content.get("schema") else media
        for media, content in contents.items()
    ]
    return ", ".join(found) or "no body"


def _schema_section(name: str, schema: Json) -> str:
    if "enum" in schema:
        return f"### {name}\nOne of {', '.join(code(value) for value in schema['enum'])}."
    text = sentence(schema.get("description"))
    return "\n".join([f"### {name}", *([text, ""] if text else []), fields_table(name, schema)])


def fields_table(name: str, schema: Json) -> str:
    """Return the table of the fields of a body."""
    docs = _model_docs(name) | _documented_fields().get(name, {})
    required = set(schema.get("required", ()))
    rows = [
        [
            code(key),
            _json_type(field),
            _json_default(field, required=key in required),
            field.get("description") or docs.get(key, ""),
        ]
        for key, field in schema.get("properties", {}).items()
    ]
    return table(["field", "type", "default", "meaning"], rows)


@cache
def _documented_fields() -> dict[str, dict[str, str]]:
    """Return the docstrings of the fields of each model, by their names in JSON."""
    return {
        model.__name__: {
            str(field.serialization_alias or field.alias or name): docs[name]
            for name, field in model.model_fields.items()
            if name in (docs := attribute_docs(model))
        }
        for model in _models(BaseModel)
        if model.__module__.startswith("headrace")
    }


def _model_docs(body: str) -> dict[str, str]:
    """Return the docs of the fields in `headrace.model`, for a body that repeats these fields."""
    entity = re.sub(r"(Body|Request)$", "", body).lower()
    module = "headrace.model." + {"error": "failure"}.get(entity, entity)
    if module not in sys.modules:
        return {}
    names = {"source": "from", "target": "to"} if entity == "event" else {}
    docs: dict[str, str] = {}
    for cls in class_definitions(module):
        docs |= attribute_docs(getattr(sys.modules[module], cls))
    return {names.get(name, name): text for name, text in docs.items()}


def _models(cls: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in cls.__subclasses__():
        yield child
        yield from _models(child)


_ANY = "JsonValue"
_UNBOUNDED = MAX_INTEGER
"""The limit of all integers, which the introduction of the page states."""
_LONGEST = format_duration(LONGEST_DURATION)


def _json_type(schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "any JSON value" if name == _ANY else f"[{name}](#{name.lower()})"
    if "anyOf" in schema or "oneOf" in schema:
        kinds = [_json_type(kind) for kind in schema.get("anyOf") or schema["oneOf"]]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema or "const" in schema:
        return ", ".join(code(value) for value in schema.get("enum") or [schema["const"]])
    if schema.get("type") == "array":
        return f"list of {_json_type(schema.get('items', {}))}"
    if schema.get("format") == DURATION_FORMAT:
        longest = schema["x-maximum"]
        return "duration" if longest == _LONGEST else f"duration up to {longest}"
    kind = schema.get("type", "any JSON value")
    limits = {"minimum": "from", "maximum": "to", "minLength": "at least", "maxLength": "at most"}
    found = [
        f"{word} {int(schema[name])}"
        for name, word in limits.items()
        if name in schema and schema[name] < _UNBOUNDED
    ]
    length = " characters" if found and kind == "string" else ""
    return " ".join([kind, *found]) + length


def _json_default(schema: Json, *, required: bool) -> str:
    if required:
        return "required"
    default = schema.get("default")
    if default in (None, [], {}):
        return NONE
    return code(str(default).lower() if isinstance(default, bool) else default)
