"""The JSON Schema of a manifest, for editors and for checks before a deployment."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from headrace.deploy.flink import FLINK_KEY
from headrace.deploy.manifest import (
    MANIFEST_KEYS,
    META_KEY,
    SCRIPT_CLAUSE_KEYS,
    JobKind,
    JobManifest,
    ManifestMeta,
)
from headrace.model.expectation import MAX_EXPECTATIONS, OnViolation
from headrace.model.job import JOB_NAME_PATTERN, OnQueryChange
from headrace.model.run import CatchUp, Overlap, ResumeAt

_SCALAR: dict[str, Any] = {"type": ["string", "number", "boolean", "null"]}
_OUTPUT_MODE = (
    "^([Aa][Pp][Pp][Ee][Nn][Dd]|[Cc][Oo][Mm][Pp][Ll][Ee][Tt][Ee]|[Uu][Pp][Dd][Aa][Tt][Ee])$"
)
_REFERENCE = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"
_QUERY_DESCRIPTIONS = {
    JobKind.SQL: "A job with one query.",
    JobKind.CODE: "A job with Python code.",
    JobKind.SCRIPT: "A job with a script of statements on streams.",
}


def build_job_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a manifest file of one document."""
    generated = JobManifest.model_json_schema(by_alias=True)
    properties = {key: _describe(key, generated) for key in MANIFEST_KEYS}
    properties[META_KEY] = ManifestMeta.model_json_schema(by_alias=True)
    properties[FLINK_KEY] = {
        "title": "Flink properties",
        "description": "Properties of Flink, of a manifest of Flink's SQL runner. Restart"
        " strategies, the checkpoint interval and the parallelism are translated; the others are"
        " ignored.",
        "type": ["object", "null"],
        "additionalProperties": _SCALAR,
    }
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "Manifest of a Headrace job",
        "description": "One job: its query, its target, and how it runs. ${NAME} in a"
        " value stands for a variable.",
        "type": "object",
        "properties": properties,
        "required": ["name"],
        "additionalProperties": False,
        "oneOf": [_describe_kind(kind) for kind in JobKind],
    }


def _describe(key: str, generated: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one key, with the spellings that a file may have."""
    schema = dict(generated["properties"][key])
    reference = schema.pop("$ref", None)
    if reference is not None:
        schema = {**generated["$defs"][reference.rpartition("/")[2]], **schema}
    options = schema.pop("anyOf", None)
    if options is not None:
        # A key that can be absent can be null too.
        schema.pop("default", None)
        schema["type"] = ["string", "null"]
    # The pattern below lists the values, because a reference is allowed too.
    schema.pop("enum", None)
    schema["title"] = key.replace("-", " ").capitalize()
    schema["description"] = " ".join(schema["description"].split())
    return schema | _OVERRIDES.get(key, {})


_OVERRIDES: dict[str, dict[str, Any]] = {
    "name": {"pattern": f"{JOB_NAME_PATTERN}|{_REFERENCE}"},
    "description": {"type": ["string", "null"]},
    "spark-properties": {"type": ["object", "null"], "additionalProperties": _SCALAR},
    "output-mode": {"pattern": f"{_OUTPUT_MODE}|{_REFERENCE}"},
    "metadata-columns": {"type": ["boolean", "string", "null"], "pattern": _REFERENCE},
    "schedule": {"type": ["object", "string", "null"]},
    "retries": {"type": ["object", "null"]},
    "expect": {
        "type": ["array", "null"],
        "maxItems": MAX_EXPECTATIONS,
        "items": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "condition": {"type": "string"},
                "on-violation": {"pattern": f"^({'|'.join(OnViolation)})$|{_REFERENCE}"},
            },
            "required": ["name", "condition"],
            "additionalProperties": False,
        },
    },
    "overlap": {"pattern": f"^({'|'.join(Overlap)})$|{_REFERENCE}"},
    "catch-up": {"pattern": f"^({'|'.join(CatchUp)})$|{_REFERENCE}"},
    "resume-at": {"pattern": f"^({'|'.join(ResumeAt)})$|{_REFERENCE}"},
    "on-query-change": {
        "type": ["string", "null"],
        "pattern": f"^({'|'.join(OnQueryChange)})$|{_REFERENCE}",
    },
}
"""What a file may contain beyond the values of the model: any case, null, references."""


def _describe_kind(kind: JobKind) -> dict[str, Any]:
    """Return what a manifest with `sql`, `code` or `script` must and cannot have."""
    others = [other for other in JobKind if other is not kind]
    forbidden = [*others, *(SCRIPT_CLAUSE_KEYS if kind is JobKind.SCRIPT else ())]
    return {
        "title": str(kind),
        "description": _QUERY_DESCRIPTIONS[kind],
        # `target-table` may come from the template, so that only `name` and the query are required.
        "required": [str(kind)],
        "properties": {str(key): {"type": "null"} for key in forbidden}
        | {str(kind): {"type": "string"}},
    }
