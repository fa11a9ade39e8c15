"""The differences of two versions of a job."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.deploy.changes import (
    diff_definitions,
    diff_manifests,
    list_changed_keys,
    mask_written,
)
from headrace.deploy.definitions import NeededDefinitions
from headrace.deploy.manifest import JobManifest
from headrace.grammar.masking import MASK

NONE = NeededDefinitions()


def build(**changes: Any) -> JobManifest:
    values: dict[str, Any] = {"name": "j", "target_table": "k", "sql": "SELECT 1"}
    return JobManifest(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"on_query_change": "refuse"}, []),
        ({"sql": "SELECT  1 -- x"}, []),
        ({"sql": "SELECT 2"}, ["sql"]),
        ({"sql": None, "code": "x"}, ["sql", "code"]),
        ({"target_table": "t", "output_mode": "update"}, ["target-table", "output-mode"]),
        ({"description": "x", "trigger": "once"}, ["description", "trigger"]),
        ({"spark_properties": {"a": "1", "b": "2"}}, ["spark-properties.a", "spark-properties.b"]),
        ({"session": "x", "metadata_columns": False}, ["session", "metadata-columns"]),
    ],
)
def test_changed_keys_are_named(changes: dict[str, Any], expected: list[str]) -> None:
    assert list_changed_keys(build(), NONE, build(**changes), NONE) == expected


@pytest.mark.parametrize(
    "needed",
    [
        NeededDefinitions(streams=("CREATE STREAM s FROM rate",)),
        NeededDefinitions(setup=("CREATE TABLE t (a INT)",)),
        NeededDefinitions(setup=("SET a = 1",)),
    ],
)
def test_changed_definitions_are_named_once(needed: NeededDefinitions) -> None:
    assert list_changed_keys(build(), NONE, build(), needed) == ["definitions"]


def test_a_changed_trigger_of_a_script_is_a_change_of_the_script() -> None:
    old, new = (
        JobManifest(name="j", script=f"SAVE STREAM s TO noop{clause}")
        for clause in ("", " TRIGGER ONCE")
    )

    assert list_changed_keys(old, NONE, new, NONE) == ["script"]


def test_the_diff_of_two_manifests_shows_their_lines() -> None:
    diff = diff_manifests(
        {"name": "j", "sql": "SELECT 1\nFROM t\n"},
        {"name": "j", "sql": "SELECT 2\nFROM t\n", "trigger": "once"},
        name="j",
    )

    assert diff == (
        "--- j (deployed)\n+++ j (new)\n@@ -1,4 +1,5 @@\n name: j\n sql: |\n-  SELECT 1\n"
        "+  SELECT 2\n   FROM t\n+trigger: once\n"
    )
    assert diff_manifests({"name": "j"}, {"name": "j"}, name="j") == ""


def test_no_diff_shows_a_secret() -> None:
    secret = "hunter2"  # the text that must not occur
    script = f"SAVE STREAM s TO jdbc\nOPTIONS ('password' = '{secret}', 'user' = 'me')"
    old = {"spark-properties": {"x.secret": "old"}, "script": script}
    new = {
        "spark-properties": {
            "x.secret": secret,
            "url": f"jdbc:x?password={secret}&a=1",
            "y.token": "${TOKEN}",
        },
        "script": script.replace("'me'", "'you'"),
    }

    diff = diff_manifests(old, new, name="j")
    assert secret not in diff
    assert "'user' = 'you'" in diff
    assert "${TOKEN}" in diff
    masked = mask_written(new)["spark-properties"]
    assert isinstance(masked, dict)
    assert masked["x.secret"] == MASK


def test_the_diff_of_definitions_shows_no_secret() -> None:
    old = NeededDefinitions(setup=("CREATE TABLE t (a INT)",))
    new = NeededDefinitions(
        streams=("CREATE STREAM s FROM kafka OPTIONS ('kafka.ssl.key.password' = 'hunter2')",),
        setup=("CREATE TABLE t (a INT) OPTIONS (password 'hunter2')",),
    )

    diff = diff_definitions(old, new)
    assert "hunter2" not in diff
    assert "-CREATE TABLE t (a INT);" in diff
    assert "+CREATE STREAM s FROM kafka" in diff


def test_a_diff_shows_which_secret_is_used() -> None:
    key = "spark.hadoop.fs.s3a.secret.key"
    old, new = ({"spark-properties": {key: value}} for value in ("typed", "${secret:lake}"))

    diff = diff_manifests(old, new, name="j")
    assert "typed" not in diff
    assert f"-  {key}: '{MASK}'" in diff or f"-  {key}: {MASK}" in diff
    assert "${secret:lake}" in diff
