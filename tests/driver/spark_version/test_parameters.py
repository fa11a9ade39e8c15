"""Parameters of statements, as Spark binds them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import ParseException, PySparkException
from tests.support.ctas import fetch_frame_rows
from tests.support.jvm_calls import counted_calls

from headrace.driver.spark_version.parameters import run_statement
from headrace.errors import TimestampAmbiguous
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


@pytest.mark.parametrize(
    ("value", "type_name", "expected"),
    [
        ([1, None, 2**40], None, "array<bigint>"),
        ([True, None], None, "array<boolean>"),
        ([1, 2.5, 1e300], None, "array<double>"),
        (["it's \\ %", "é\U0001f600", "", "null", None], None, "array<string>"),
        ([], None, "array<void>"),
        ([None], None, "array<void>"),
        ([[1], [], None, [None, 2]], None, "array<array<bigint>>"),
        ([[[]], []], None, "array<array<array<void>>>"),
        ([1, 2], "ARRAY<INT>", "array<int>"),
        ([[], [7]], "ARRAY<ARRAY<SMALLINT>>", "array<array<smallint>>"),
    ],
    ids=str,
)
@pytest.mark.parametrize("named", [True, False])
def test_an_array_needs_no_type(
    spark: SparkSession, value: list[Any], type_name: str | None, expected: str, named: bool
) -> None:
    parameter = Parameter(name="x" if named else None, value=value, type=type_name)
    frame = run(spark, f"SELECT {':x' if named else '?'} AS x", parameter)
    assert frame.schema["x"].dataType.simpleString() == expected
    assert fetch_frame_rows(frame) == [(value,)]


def test_values_of_an_array_are_cast_to_its_type(spark: SparkSession) -> None:
    values = {
        "ARRAY<DECIMAL(38,18)>": ["12345678901234567890.123456789012345678", None],
        "ARRAY<DATE>": ["2026-01-02"],
        "ARRAY<TIMESTAMP_NTZ>": ["2026-01-02 03:04:05.000006"],
        "ARRAY<INTERVAL DAY TO SECOND>": ["1 02:03:04.5"],
        "ARRAY<DOUBLE>": ["NaN", "-Infinity", 1.5],
    }
    parameters = [Parameter(value=value, type=kind) for kind, value in values.items()]
    texts = [f"CAST(? AS {kind.replace(kind[6:-1], 'STRING')})" for kind in values]
    [row] = fetch_frame_rows(run(spark, f"SELECT {', '.join(texts)}", *parameters))
    assert row[0] == ["12345678901234567890.123456789012345678", None]
    assert row[1:3] == (["2026-01-02"], ["2026-01-02 03:04:05.000006"])
    assert row[3:] == (["INTERVAL '1 02:03:04.5' DAY TO SECOND"], ["NaN", "-Infinity", "1.5"])


def test_an_array_without_values_is_of_any_type(spark: SparkSession) -> None:
    texts = (
        "coalesce(nullif(?, array()), array(1)) AS x, array_contains(concat(?, array('a')), 'a')"
    )
    frame = run(spark, f"SELECT {texts} AS y", Parameter(value=[]), Parameter(value=[None]))
    assert fetch_frame_rows(frame) == [([1], True)]


def test_a_long_array_is_bound_in_one_call(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = list(range(50_000))
    with counted_calls(monkeypatch) as commands:
        frame = run(spark, "SELECT aggregate(?, 0L, (a, b) -> a + b) AS x", Parameter(value=values))
    assert fetch_frame_rows(frame) == [(sum(values),)]
    assert len(commands) < 100


def test_a_number_that_the_type_of_an_array_cannot_hold_is_an_error(spark: SparkSession) -> None:
    parameter = Parameter(value=[300], type="ARRAY<TINYINT>")
    with pytest.raises(PySparkException, match="CAST"):
        fetch_frame_rows(run(spark, "SELECT ? AS x", parameter))


SECOND_HOUR = "2013-11-03T06:30:00+00:00"
"""Half past one in New York, after the clocks went back from two to one."""


@pytest.fixture
def new_york(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    return session


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("hour", [5, 6, 7])
def test_a_timestamp_in_the_hour_of_a_clock_change_is_exact(
    new_york: SparkSession, hour: int, named: bool
) -> None:
    at = datetime(2013, 11, 3, hour, 30, tzinfo=UTC)
    parameter = Parameter(name="at" if named else None, value=at.isoformat(), type="TIMESTAMP")
    frame = run(new_york, f"SELECT unix_timestamp({':at' if named else '?'})", parameter)
    assert fetch_frame_rows(frame) == [(at.timestamp(),)]


@pytest.mark.parametrize("type_name", ["TIMESTAMP", "timestamp_ltz"])
def test_a_timestamp_that_spark_would_write_as_another_one_is_refused(
    new_york: SparkSession, type_name: str
) -> None:
    at = Parameter(name="at", value=SECOND_HOUR, type=type_name)
    with pytest.raises(TimestampAmbiguous, match="clocks of America/New_York repeat"):
        run(new_york, "BEGIN SELECT :at; END", at)


def test_only_a_text_that_names_the_timestamp_is_refused(new_york: SparkSession) -> None:
    at = Parameter(name="at", value=SECOND_HOUR, type="TIMESTAMP")
    named = run(new_york, "SELECT at + 1 AS at FROM VALUES (1) AS t (at) -- :at", at)
    assert fetch_frame_rows(named) == [(2,)]
    assert fetch_frame_rows(run(new_york, "BEGIN SELECT 3 AS at; END", at)) == [(3,)]
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        run(new_york, "SELECT FROM WHERE :at )", at)


def test_values_that_the_text_does_not_name_need_no_call_of_the_jvm(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    unused = [Parameter(name=f"y{n}", value="2026-01-01", type="TIMESTAMP") for n in range(9)]
    used = Parameter(name="x", value=1)

    def count(parameters: list[Parameter]) -> int:
        with counted_calls(monkeypatch) as commands:
            run(spark, "SELECT :x AS x", *parameters)
        return len(commands)

    count([used])
    assert count([used, *unused]) == count([used])
