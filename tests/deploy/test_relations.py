"""The order in which the streams and temporary views of a job are created."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.deploy.relations import order_relations, split_definitions

TABLE = "CREATE TABLE t (a INT)"
STREAM = "CREATE STREAM foo FROM rate"
BAR = "CREATE TEMPORARY VIEW bar AS SELECT * FROM foo"
BAZ = "CREATE OR REPLACE TEMP VIEW `Baz` AS SELECT * FROM BAR"
MORE = "CREATE STREAM more AS SELECT * FROM baz"
FLAT = "CREATE TEMPORARY VIEW flat AS SELECT * FROM t"


@given(st.permutations([TABLE, STREAM, BAR, BAZ, MORE, FLAT]))
def test_each_view_over_a_stream_follows_what_it_reads(statements: list[str]) -> None:
    ordered = order_relations(statements)

    assert ordered.streams == [STREAM, BAR, BAZ, MORE]
    assert ordered.setup == [text for text in statements if text in {TABLE, FLAT}]


@given(st.permutations([TABLE, STREAM, FLAT, "CREATE STREAM a AS SELECT * FROM b"]))
def test_without_a_view_over_a_stream_the_order_is_as_written(statements: list[str]) -> None:
    ordered = order_relations(statements)

    assert ordered.streams == [text for text in statements if "STREAM" in text]
    assert ordered.setup == [text for text in statements if "STREAM" not in text]


@pytest.mark.parametrize(
    "view",
    [
        "CREATE TEMP VIEW v AS SELECT * FROM `kafka` . orders",
        "create or replace /* x */ global temporary view v as table kafka.orders",
    ],
)
def test_a_view_can_read_a_stream_with_a_qualified_name(view: str) -> None:
    stream = "CREATE STREAM kafka.orders FROM rate"

    assert order_relations([view, stream]).streams == [stream, view]


def test_views_that_read_each_other_are_all_kept() -> None:
    views = [
        "CREATE TEMPORARY VIEW a AS SELECT * FROM b, foo",
        "CREATE TEMPORARY VIEW b AS SELECT * FROM a",
    ]

    assert sorted(order_relations([*views, STREAM]).streams) == sorted([*views, STREAM])


def test_a_deployment_creates_tables_and_a_run_prepares_its_session() -> None:
    table = "CREATE TABLE IF NOT EXISTS t (a INT)"
    permanent = "CREATE OR REPLACE VIEW v AS SELECT 'TEMPORARY' AS a"
    temporary = "-- of one session\nCREATE OR REPLACE GLOBAL TEMP VIEW w AS SELECT 1"
    use, setting = "USE sales", "SET spark.sql.ansi.enabled = true"
    split = split_definitions([use, table, permanent, temporary, setting])
    assert split.deployed == [use, table, permanent, setting]
    assert split.per_run == [use, temporary, setting]
    assert split.kept == [table, permanent]
