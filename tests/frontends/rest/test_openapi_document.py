"""The OpenAPI document describes everything, and has examples that are valid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.webhook_receiver import SECRET

pytestmark = pytest.mark.finding("U11")

Json = dict[str, Any]

BINARY = {
    "application/vnd.apache.arrow.file",
    "application/vnd.apache.arrow.stream",
    "application/vnd.apache.parquet",
}


@pytest.fixture(scope="module")
def document(node: InProcessNode) -> Json:
    answer: Json = node.http.get("/api/v1/openapi.json").json()
    return answer


def operations(document: Json) -> Iterator[Json]:
    for methods in document["paths"].values():
        yield from methods.values()


def contents(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Yield each body of a request, and of a response without an error."""
    for operation in operations(document):
        name = operation["operationId"]
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            yield f"{name} request", media_type, content
        for status, response in operation["responses"].items():
            for media_type, content in response.get("content", {}).items():
                if status < "300":
                    yield f"{name} {status}", media_type, content


def examples_of(document: Json, content: Json) -> list[Any]:
    if "example" in content:
        return [content["example"]]
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    examples: list[Any] = document["components"]["schemas"].get(name, {}).get("examples", [])
    return examples


def has_text(described: Json) -> bool:
    return len(described.get("description", "").strip()) > 3


def test_every_operation_parameter_and_response_is_described(document: Json) -> None:
    missing = []
    for operation in operations(document):
        name = operation["operationId"]
        missing += [name] if not has_text(operation) else []
        assert 3 < len(operation["summary"]) < 100
        assert "\n" not in operation["summary"]
        for parameter in operation.get("parameters", ()):
            missing += [f"{name} {parameter['name']}"] if not has_text(parameter) else []
        for status, response in operation["responses"].items():
            is_described = has_text(response) and response["description"] != "Successful Response"
            missing += [] if is_described else [f"{name} {status}"]
    assert missing == []
    tags = {tag["name"] for tag in document["tags"] if has_text(tag)}
    assert {tag for operation in operations(document) for tag in operation["tags"]} == tags


def test_every_schema_and_field_is_described(document: Json) -> None:
    schemas = document["components"]["schemas"]
    missing = [name for name, schema in schemas.items() if not has_text(schema)]
    missing += [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, described in schema.get("properties", {}).items()
        if not has_text(described)
    ]
    assert missing == []
    assert sum(len(schema.get("properties", {})) for schema in schemas.values()) > 300


def test_every_body_has_an_example(document: Json) -> None:
    missing = [
        f"{name} {media_type}"
        for name, media_type, content in contents(document)
        if media_type not in BINARY and not examples_of(document, content)
    ]
    assert missing == []


def test_every_example_is_valid(document: Json) -> None:
    problems = []
    for name, schema in document["components"]["schemas"].items():
        # Unknown fields would hide a field that has another name now.
        strict = {**document, "$ref": f"#/components/schemas/{name}"}
        validator = Draft202012Validator(strict)
        for example in schema.get("examples", ()):
            problems += [f"{name}: {error.message}" for error in validator.iter_errors(example)]
            problems += [f"{name}.{field}" for field in unknown_fields(document, schema, example)]
    assert problems == []


def unknown_fields(document: Json, schema: Json, value: Any) -> Iterator[str]:
    """Yield the fields of an example, and of the objects in it, that its schema does not have."""
    for choice in (schema, *schema.get("anyOf", ())):
        name = choice.get("$ref", "").rpartition("/")[2]
        resolved = document["components"]["schemas"].get(name, choice)
        if isinstance(value, list):
            for item in value:
                yield from unknown_fields(document, resolved.get("items", {}), item)
        elif isinstance(value, dict) and "properties" in resolved:
            yield from value.keys() - resolved["properties"].keys()
            for field in value.keys() & resolved["properties"].keys():
                yield from unknown_fields(document, resolved["properties"][field], value[field])


def test_only_public_paths_need_no_token(document: Json) -> None:
    public = {
        path
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if "security" not in operation
    }
    assert public == {"/health", "/ready", "/api/v1/sign-in"}


def test_every_example_of_a_request_is_accepted(
    start_node: StartNode, document: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The secret of the example of a webhook.
    monkeypatch.setenv("SECRET_on-call", SECRET)
    node = start_node(secrets={"provider": "environment", "allowed": {"on-call": ["*"]}})
    refused = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            for example in examples_of(document, content.get("application/json", {})):
                # The driver of this node runs nothing: do not wait for it.
                body = {key: text for key, text in example.items() if key != "wait_timeout"}
                response = node.http.request(method.upper(), re.sub(r"{\w+}", "x", path), json=body)
                # The object of some paths does not exist.
                if response.status_code not in {200, 201, 202, 404}:
                    refused.append(f"{operation['operationId']}: {response.text}")
    assert refused == []


def parts_of(described: Any) -> Iterator[Json]:
    """Yield all objects in a part of the document."""
    if isinstance(described, dict):
        yield described
    for part in described.values() if isinstance(described, dict) else described:
        if isinstance(part, dict | list):
            yield from parts_of(part)


def fields_of_requests(document: Json) -> dict[str, Json]:
    """Return the schemas of all fields and parameters of requests, by name."""
    schemas = document["components"]["schemas"]
    fields: dict[str, Json] = {}
    waiting = []
    for operation in operations(document):
        name = operation["operationId"]
        for parameter in operation.get("parameters", ()):
            fields[f"{name} {parameter['name']}"] = parameter["schema"]
        body = operation.get("requestBody", {}).get("content", {})
        waiting += [part["$ref"] for part in parts_of(body) if "$ref" in part]
    while waiting:
        name = waiting.pop().rpartition("/")[2]
        for field, schema in schemas[name].get("properties", {}).items():
            if f"{name}.{field}" not in fields:
                fields[f"{name}.{field}"] = schema
                waiting += [part["$ref"] for part in parts_of(schema) if "$ref" in part]
    return fields


def choices_of(schema: Json) -> list[Json]:
    return [schema, *schema.get("anyOf", ())]


def test_every_integer_and_duration_of_a_request_states_its_limits(document: Json) -> None:
    kinds, missing = [], []
    for name, schema in fields_of_requests(document).items():
        for choice in choices_of(schema):
            if choice.get("type") == "integer":
                kinds.append("integer")
                limits = {"minimum", "maximum", "format"}
                assert choice.get("maximum", 0) < 2**53
            elif choice.get("format") == "headrace-duration" or "timeout" in name.lower():
                if choice.get("type") != "string" or "enum" in choice:
                    continue
                kinds.append("duration")
                limits = {"x-minimum", "x-maximum", "pattern", "format"}
            else:
                continue
            if not limits <= choice.keys():
                missing.append(name)
    assert missing == []
    assert (kinds.count("integer") >= 12, kinds.count("duration") >= 7) == (True, True)


def test_every_integer_has_a_size_and_every_instant_a_format(document: Json) -> None:
    for part in parts_of(document):
        # An example may have a field of the name `type`.
        if part.get("type") == "integer" and "name" not in part:
            assert part["format"] in {"int32", "int64"}, part
            assert all(isinstance(part.get(each, 0), int) for each in ("minimum", "maximum")), part
    session = document["components"]["schemas"]["SessionBody"]["properties"]
    assert session["created_at"]["format"] == "date-time"


def values_around(field: str, choice: Json) -> tuple[list[Any], list[Any]]:
    """Return values at the limits of a schema, and values beyond them."""
    if choice.get("type") == "integer":
        least, most = choice["minimum"], choice["maximum"]
        accepted = [least, float(least), most, float(most)]
        return accepted, [least - 1, most + 1, least + 0.5, float(2**60), str(least)]
    if choice.get("format") != "headrace-duration":
        return [], []
    refused = ["36526d", "10", 10, "-1s"]
    if field == "wait_timeout":
        # A node would wait as long as the longest value says.
        assert choice["x-maximum"] == "1m"
        return [choice["x-minimum"]], [*refused, "60001ms", "1.01m", "61s"]
    return [choice["x-minimum"], choice["x-maximum"], "1.5h"], refused


@pytest.mark.parametrize(
    ("model", "path", "required"),
    [
        ("StatementRequest", "/api/v1/statements", {"statement": "SELECT 1"}),
        ("SessionRequest", "/api/v1/sessions", {}),
        ("RollbackRequestBody", "/api/v1/jobs/x/rollback", {}),
    ],
)
def test_the_node_accepts_exactly_the_integers_and_durations_that_the_document_states(
    start_node: StartNode, document: Json, model: str, path: str, required: Json
) -> None:
    """Each limit is accepted, also as a float without a fraction. What exceeds it is refused."""
    node = start_node()
    fields = document["components"]["schemas"][model]["properties"]
    choices = [(name, choice) for name in fields for choice in choices_of(fields[name])]
    for field, choice in choices:
        accepted, refused = values_around(field, choice)
        for value in accepted + refused:
            response = node.http.post(path, json={**required, field: value})
            if value in accepted:
                assert response.status_code in {201, 404}, (field, value, response.text)
            else:
                assert response.status_code == 400, (field, value, response.text)
                assert field in response.json()["detail"]
