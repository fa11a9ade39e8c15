"""Manifests as YAML."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.deploy.strategies import descriptions, manifests

from headrace.deploy.load import LoadedManifest, load_manifests
from headrace.deploy.manifest import JobManifest, ManifestMeta
from headrace.deploy.manifest_text import list_written, write_manifest
from headrace.deploy.problems import SourceText
from headrace.model.headrace_options import is_own_key

META = ManifestMeta.of_version(
    "35d3d720-760d-11ed-bfeb-02e547cf7baa", 1, datetime(2022, 12, 7, 8, 57, 42, 5, tzinfo=UTC)
)


def load(text: str, **variables: str) -> LoadedManifest:
    loaded = load_manifests([SourceText("m.yaml", text)], variables=variables)
    assert loaded.problems == ()
    return loaded.manifests[0]


def test_a_manifest_is_written_in_the_form_of_the_seed() -> None:
    item = load(
        """
target-table: "`kafka`.`some-topic`"
name: query-unique-name
sql: |
  SELECT a, -- the first
    b
  FROM t
spark-properties: {spark.b: true, spark.a: "${A}"}
description: "Some description."
metadata-columns: false
trigger: 5 seconds
meta: {query-id: x, query-version: 9, query-create-timestamp: '2020-01-01 00:00:00'}
""",
        A="secret",
    )

    assert write_manifest(item.written, META) == (
        """\
description: Some description.
meta:
  query-create-timestamp: '2022-12-07 08:57:42'
  query-id: 35d3d720-760d-11ed-bfeb-02e547cf7baa
  query-version: 1
metadata-columns: false
name: query-unique-name
spark-properties:
  spark.a: '${A}'
  spark.b: 'true'
sql: |
  SELECT a, -- the first
    b
  FROM t
target-table: '`kafka`.`some-topic`'
trigger: 5 seconds
"""
    )


def test_a_written_manifest_is_read_with_its_references_and_its_meta() -> None:
    text = "name: j\ntarget-table: t\nsql: SELECT ${A}, '$${B}'\nsession: ${S}\n"
    first = load(text, A="1", S="dedicated")
    again = load(write_manifest(first.written, META), A="1", S="dedicated")

    assert again.manifest == first.manifest
    assert again.written == first.written
    assert again.meta == META


def test_the_instant_of_a_version_is_written_in_utc() -> None:
    instant = datetime(2022, 12, 7, 10, 57, 42, tzinfo=timezone(timedelta(hours=2)))
    meta = ManifestMeta.of_version("x", 2, instant)

    assert meta.query_create_timestamp == "2022-12-07 08:57:42"
    assert meta.created_at == instant


@given(manifests())
def test_a_manifest_that_is_written_and_read_again_is_equal(manifest: JobManifest) -> None:
    again = load(write_manifest(list_written(manifest), META), A="x", a="y")

    assert again.manifest == manifest
    assert again.meta == META


@given(
    descriptions,
    st.dictionaries(descriptions.filter(lambda key: not is_own_key(key)), descriptions, max_size=2),
)
def test_every_text_is_written_so_that_it_is_read_again(
    text: str, properties: dict[str, str]
) -> None:
    manifest = JobManifest(
        name="j", sql="SELECT 1", target_table="t", description=text, spark_properties=properties
    )

    assert load(write_manifest(list_written(manifest))).manifest == manifest


@pytest.mark.parametrize(
    "text",
    [
        *("true", "null", "~", "5", "1e3", "0x1", "2022-12-07", "", " ", "- a", "a: b", "a #b"),
        *("#", "`x`", "*a", "&a", "!a", "%a", "@a", "'", '"', "\\", "---", "...", "<<", "a\n"),
        *("a\n\n", "\na", "\n", " a\nb", "a \nb", "a\n b\n", "a\r\nb", "\ta", "a\tb\nc", "\x85"),
        *(
            "\u2028",
            "\ufeff",
            "\ufeffa\nb",
            "\U0001f600",
            "\x7f",
            "a\nb \n",
            "a\n--- \n",
            "a\n...\n",
        ),
        *("=", "a\n#b\n", "x" * 5000, "a " * 3000, "é\nü\n", "[", "{", "a,b", "a\n  \n"),
    ],
)
def test_texts_that_look_like_yaml_are_read_again(text: str) -> None:
    manifest = JobManifest(
        name="j",
        sql="SELECT 1",
        target_table="t",
        description=text,
        spark_properties={"a": text, text: "b"},
    )

    assert load(write_manifest(list_written(manifest))).manifest == manifest


@pytest.mark.parametrize(
    "text", ["SELECT 1\n", "SELECT\n\ta\tb\n", "SELECT 1\nFROM t", "a\n\n  b\n", "é\n-- ü\n"]
)
def test_queries_of_several_lines_are_blocks(text: str) -> None:
    written = write_manifest({"sql": text})

    assert written.startswith("sql: |") == ("\n" in text)
    assert all(line in written for line in text.split("\n"))
