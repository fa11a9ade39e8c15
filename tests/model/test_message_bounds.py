"""Every number, text, list and object in a message of a driver has a bound."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, JsonValue, ValidationError

from headrace.frontends.driver_link import CALLS
from headrace.model.lifecycle import StatementState, TransactionState
from headrace.model.messages import Ended, Message, Transact
from headrace.model.statement import Parameter
from headrace.model.transaction import Staged

MESSAGES = sorted({call.message for call in CALLS.values()}, key=lambda message: message.__name__)
STATEMENT = "st_" + "0" * 32
TRANSACTION = "tx_" + "0" * 32
NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999")


BOUNDS = {
    "string": {"maxLength"},
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "array": {"maxItems"},
    "object": {"maxProperties"},
    "boolean": set[str](),
    "null": set[str](),
}
"""What the JSON schema of a bounded value contains, by the type of the value."""
BOUNDED_PATTERN = re.compile(r".*\{[0-9,]+\}\$")
"""Patterns of ids and codes, which end with a fixed number of characters."""


def list_unbounded(schema: dict[str, Any], path: str, schemas: dict[str, Any]) -> Iterator[str]:
    """Yield the places of a JSON schema at which a value of any size is valid."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        # The bounds of free JSON are those of the object that contains it, and of the message.
        if name != "JsonValue":
            yield from list_unbounded(schemas[name], f"{path}:{name}", schemas)
        return
    if not is_bounded(schema):
        yield f"{path}: {schema}"
    for name, part in list_parts(schema):
        yield from list_unbounded(part, f"{path}{name}", schemas)


def is_bounded(schema: dict[str, Any]) -> bool:
    """Return whether a value has a bound, apart from the values inside it."""
    if not {"anyOf", "oneOf", "enum", "const", "properties"}.isdisjoint(schema):
        return True
    if BOUNDED_PATTERN.fullmatch(schema.get("pattern", "")):
        return True
    return BOUNDS.get(schema.get("type", ""), {"type"}) <= schema.keys()


def list_parts(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the schemas of the values inside a value, with their paths."""
    parts = [(f".{name}", part) for name, part in schema.get("properties", {}).items()]
    for choices in ("anyOf", "oneOf"):
        parts += [("", choice) for choice in schema.get(choices, [])]
    parts += [("{}", part) for part in schema.get("patternProperties", {}).values()]
    for key, path in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            parts.append((path, schema[key]))
    return parts


@pytest.mark.finding("S8")
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_every_field_of_a_drivers_message_is_bounded(message: type[Message]) -> None:
    schema = message.model_json_schema()
    assert list(list_unbounded(schema, message.__name__, schema.get("$defs", {}))) == []


def test_the_walk_finds_fields_without_a_bound() -> None:
    class Part(BaseModel):
        texts: list[str]

    class Open(BaseModel):
        number: int
        parts: dict[str, Part]
        free: JsonValue

    schema = Open.model_json_schema()
    places = [place.split(": ")[0] for place in list_unbounded(schema, "Open", schema["$defs"])]
    assert places == [
        "Open.number",
        "Open.parts",
        "Open.parts{}:Part.texts",
        "Open.parts{}:Part.texts[]",
    ]


@pytest.mark.finding("S8")
def test_many_wrong_values_are_one_error() -> None:
    """Each error takes thousands of times the memory of its value."""
    report = {
        "statement_id": STATEMENT,
        "state": StatementState.FAILED,
        "snapshot": {"catalog": "c", "namespace": [1] * 50_000, "views": [1] * 50_000},
    }
    with pytest.raises(ValidationError) as caught:
        Ended.model_validate_json(json.dumps(report))
    assert caught.value.error_count() < 10


@pytest.mark.finding("S15")
@pytest.mark.parametrize("number", NO_NUMBERS)
def test_free_json_contains_no_number_that_json_lacks(number: str) -> None:
    part = f'{{"a": [1.5, {{"b": {number}}}]}}'
    result = f'"row_count":0,"byte_count":0,"truncated":false,"chunks":0,"spark_schema":{part}'
    staged = f'"kind":"k","catalog":"c","identity":"i","target":"t","record":{part}'
    success = f'"statement_id":"{STATEMENT}","state":"success"'
    messages: list[tuple[type[BaseModel], str]] = [
        (Ended, f'{{{success},"result":{{"disposition":"stored",{result}}}}}'),
        (Staged, f"{{{staged}}}"),
        (Parameter, f'{{"value": {part}}}'),
    ]
    for message, body in messages:
        with pytest.raises(ValidationError, match="which JSON cannot express"):
            message.model_validate_json(body)
        message.model_validate_json(body.replace(number, "1.5"))


@pytest.mark.finding("S8")
def test_only_a_table_with_all_its_rows_has_a_large_record() -> None:
    staged = Staged(
        kind="session",
        catalog="c",
        identity="i",
        target="t",
        record={"files": ["part-00000"] * 200_000},
    )
    committing = Transact(
        id=TRANSACTION, statement_id=STATEMENT, state=TransactionState.COMMITTING, staged=staged
    )
    assert committing.staged == staged
    with pytest.raises(ValidationError, match="larger than 1048576 bytes"):
        Transact(
            id=TRANSACTION, statement_id=STATEMENT, state=TransactionState.PREPARED, staged=staged
        )
