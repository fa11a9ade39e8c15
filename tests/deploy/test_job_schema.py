"""The JSON Schema of manifests agrees with what is accepted."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from tests.deploy.strategies import manifests

from headrace.deploy.job_schema import build_job_schema
from headrace.deploy.load import load_manifests
from headrace.deploy.manifest import MANIFEST_KEYS, JobManifest
from headrace.deploy.manifest_text import list_written
from headrace.deploy.manifest_validation import to_plain
from headrace.deploy.problems import Findings, SourceText
from headrace.deploy.yaml_document import read_documents

SCHEMA = build_job_schema()
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
SQL = "name: j\ntarget-table: t\nsql: SELECT 1\n"
SCRIPT = "name: j\nscript: SAVE STREAM s TO noop\n"


def read(text: str) -> Any:
    return to_plain(read_documents("m.yaml", text, Findings())[0])


def test_the_schema_is_one_of_draft_2020_12_and_describes_every_key() -> None:
    assert SCHEMA["$schema"].endswith("draft/2020-12/schema")
    assert set(SCHEMA["properties"]) == {*MANIFEST_KEYS, "meta", "flinkProperties"}
    assert SCHEMA["additionalProperties"] is False
    for key, schema in SCHEMA["properties"].items():
        assert schema["description"], key
        assert schema["title"], key
        assert "\n" not in schema["description"]


VALID = [
    SQL,
    SCRIPT,
    SQL.replace("sql: SELECT 1", "code: x"),
    SQL + "spark-properties: {a: 1, b: true, c: x, d: null}\n",
    SQL + "output-mode: Append\ntrigger: 5 seconds\nsession: dedicated\n",
    SQL + "metadata-columns: false\non-query-change: keep-compatible\ndescription: x\n",
    SQL + "trigger: null\ncode: null\nmetadata-columns: null\n",
    SQL + "meta: {query-id: a, query-version: 1, query-create-timestamp: '2022-12-07 08:57:42'}",
    SQL + "flinkProperties: {parallelism.default: 4, pipeline.name: j}\n",
    SQL + "output-mode: ${X}\nmetadata-columns: ${Y}\non-query-change: ${Z}\n",
]
INVALID = [
    "target-table: t\nsql: SELECT 1\n",
    "name: j\ntarget-table: t\n",
    SQL + "code: x\n",
    SCRIPT + "sql: SELECT 1\n",
    SCRIPT + "target-table: t\n",
    SCRIPT + "trigger: once\n",
    SQL + "foo: 1\n",
    SQL + "target_table: t\n",
    SQL + "output-mode: foo\n",
    SQL + "on-query-change: foo\n",
    SQL + "metadata-columns: yes\n",
    SQL + "spark-properties: {a: [1]}\n",
    SQL + "trigger: 5\n",
    SQL.replace("name: j", "name: a/b"),
    SQL + "meta: {query-id: a, query-version: 0, query-create-timestamp: '2022-12-07 08:57:42'}",
]


@pytest.mark.parametrize("text", VALID)
def test_the_schema_accepts_what_is_accepted(text: str) -> None:
    variables = {"X": "update", "Y": "true", "Z": "refuse"}

    assert load_manifests([SourceText("m.yaml", text)], variables=variables).problems == ()
    VALIDATOR.validate(read(text))


@pytest.mark.parametrize("text", INVALID)
def test_the_schema_refuses_what_is_refused(text: str) -> None:
    assert load_manifests([SourceText("m.yaml", text)]).problems != ()
    assert not VALIDATOR.is_valid(read(text))


@given(manifests())
def test_the_schema_accepts_every_manifest(manifest: JobManifest) -> None:
    VALIDATOR.validate(list_written(manifest))
