"""What a streaming query reads and writes: bounded, and without credentials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.streams import make_desired

from headrace.driver.streams.lineage import list_stream_tables
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import SaveStream
from headrace.model.lineage import TableUse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

KAFKA = "CREATE SINK k TO kafka OPTIONS ('kafka.bootstrap.servers' = 'h:1'{})"
JDBC = (
    "CREATE SINK d TO jdbc OPTIONS ('url' = 'jdbc:postgresql://eve:password@db/x',"
    " 'dbtable' = 'public.t', 'password' = 'password')"
)


def find_written(rows: DataFrame, folder: Path, save: str, *definitions: str) -> TableUse | None:
    desired = make_desired(save, definitions, folder, {})
    command = parse(save).command
    assert isinstance(command, SaveStream)
    uses = list_stream_tables(rows, desired, command)
    return next((each for each in uses if each.is_written), None)


def test_the_names_of_many_columns_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    few = spark.range(1).selectExpr(*(f"id AS c{number}" for number in range(501)))
    found = find_written(few, tmp_path, "SAVE STREAM s TO json")
    assert found is not None
    assert (found.key, len(found.columns), found.columns_omitted) == (
        f"file:{tmp_path}/default",
        500,
        1,
    )
    long = spark.range(1).selectExpr(*(f"id AS {'c' * 100}{number}" for number in range(501)))
    found = find_written(long, tmp_path, "SAVE STREAM s TO json")
    assert found is not None
    assert (found.columns, found.columns_omitted) == ([], 501)


@pytest.mark.parametrize(
    ("save", "sink", "key"),
    [
        ("SAVE STREAM s TO TABLE Target", "", "spark_catalog.{}.target"),
        ("SAVE STREAM s TO noop", "", None),
        (
            "SAVE STREAM s TO k",
            KAFKA.format(", 'topic' = 't', 'kafka.sasl.jaas.config' = 'password'"),
            "kafka://h:1 t",
        ),
        (
            "SAVE STREAM s TO k",
            KAFKA.format(""),
            None,
        ),
        (
            "SAVE STREAM s TO d",
            JDBC,
            "jdbc:postgresql://db/x `public.t`",
        ),
    ],
    ids=["table", "noop", "kafka", "topic-of-rows", "jdbc"],
)
def test_a_sink_is_named_without_credentials(
    spark: SparkSession, tmp_path: Path, save: str, sink: str, key: str | None
) -> None:
    definitions = [sink] if sink else []
    found = find_written(spark.range(1), tmp_path, save, *definitions)
    assert (found and found.key) == (key and key.format(spark.catalog.currentDatabase()))
    assert "password" not in repr(found)
