"""Parameters of statements, as Spark binds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.ctas import fetch_frame_rows

from headrace.driver.spark_version.parameters import run_statement
from headrace.model.messages import Assignment
from headrace.model.result import ResultRequest
from headrace.model.statement import Parameter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, text: str, *parameters: Parameter) -> DataFrame:
    return run_statement(
        spark,
        Assignment(
            statement_id="st_1",
            text=text,
            parameters=list(parameters),
            conf={},
            result_request=ResultRequest(),
            is_query=True,
            attempt=1,
        ),
    )


@pytest.mark.finding("B17")
@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("DECIMAL(10,2)", "5", "decimal(10,2)"),
        ("DECIMAL(38,18)", None, "decimal(38,18)"),
        ("ARRAY<DECIMAL(10,2)>", ["1"], "array<decimal(10,2)>"),
        ("ARRAY<SMALLINT>", [], "array<smallint>"),
        ("MAP<STRING, DECIMAL(4,1)>", None, "map<string,decimal(4,1)>"),
        ("TINYINT", 5, "tinyint"),
        ("FLOAT", 1.5, "float"),
        ("TIMESTAMP_NTZ", "2026-01-01 00:00:00", "timestamp_ntz"),
        ("INTERVAL DAY TO SECOND", "1 02:03:04", "interval day to second"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_a_parameter_has_the_requested_type(
    spark: SparkSession, type_name: str, value: Any, expected: str, named: bool
) -> None:
    parameter = Parameter(name="x" if named else None, value=value, type=type_name)
    frame = run(spark, f"SELECT {':x' if named else '?'} AS x", parameter)
    assert frame.schema["x"].dataType.simpleString() == expected


def test_bytes_come_in_base64(spark: SparkSession) -> None:
    parameter = Parameter(value={"base64": "AP8n"}, type="BINARY")
    assert fetch_frame_rows(run(spark, "SELECT ? AS x", parameter)) == [(b"\x00\xff'",)]


def test_typed_and_untyped_parameters_keep_their_order(spark: SparkSession) -> None:
    kinds = ("DATE", None, "DECIMAL(4,1)", "STRING")
    values = ("2026-01-02", 7, "1.5", "a")
    parameters = [
        Parameter(value=value, type=kind) for value, kind in zip(values, kinds, strict=True)
    ]
    frame = run(spark, "SELECT concat_ws('|', ?, ?, ?, ?) AS x", *parameters)
    assert fetch_frame_rows(frame) == [("2026-01-02|7|1.5|a",)]


def test_many_positional_parameters_keep_their_order(spark: SparkSession) -> None:
    numbers = [Parameter(value=number) for number in range(40)]
    text = f"SELECT array({', '.join('?' * 40)}) AS x"
    assert fetch_frame_rows(run(spark, text, *numbers)) == [(list(range(40)),)]
