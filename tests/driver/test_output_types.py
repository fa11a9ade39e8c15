"""Every type that PySpark knows, through every way that a result takes and every format."""

from __future__ import annotations

import csv
import inspect
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import types

from headrace.errors import FormatCannotHold
from headrace.model.result import Disposition
from headrace.results.formats import arrow as arrow_format
from headrace.results.formats import csv as csv_format
from headrace.results.formats import json as json_format
from headrace.results.formats import parquet as parquet_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from tests.driver.conftest import Writer

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Case:
    """A value of a type: as SQL, and as the JSON that must come of it."""

    kind: type[types.DataType]
    sql: str
    token: Any
    type_sql: str
    parquet: bool = True


_LONG = "9223372036854775807"
_DIGITS = "12345678901234567890.123456789012345678"
_POINT = "X'0101000000000000000000F03F0000000000000040'"
_POINT_64 = "AQEAAAAAAAAAAADwPwAAAAAAAABA"

CASES = [
    Case(types.NullType, "NULL", None, "void"),
    Case(types.StringType, r"""'é "q" \\ \n, 𝄞'""", 'é "q" \\ \n, 𝄞', "string"),
    Case(types.StringType, "''", "", "string"),
    Case(types.StringType, "'Ä' COLLATE UNICODE_CI", "Ä", "string collate UNICODE_CI"),
    Case(types.CharType, "CAST('ab' AS CHAR(4))", "ab  ", "char(4)"),
    Case(types.VarcharType, "CAST('ab' AS VARCHAR(4))", "ab", "varchar(4)"),
    Case(types.BinaryType, "X'00FF'", "AP8=", "binary"),
    Case(types.BooleanType, "true", True, "boolean"),
    Case(types.ByteType, "-128Y", -128, "tinyint"),
    Case(types.ShortType, "-32768S", -32768, "smallint"),
    Case(types.IntegerType, "2147483647", 2147483647, "int"),
    Case(types.LongType, f"{_LONG}L", _LONG, "bigint"),
    Case(types.FloatType, "0.1F", 0.1, "float"),
    Case(types.FloatType, "CAST('-Infinity' AS FLOAT)", "-Infinity", "float"),
    Case(types.DoubleType, "1D", 1.0, "double"),
    Case(types.DoubleType, "-0D", -0.0, "double"),
    Case(types.DoubleType, "1.7976931348623157E308D", 1.7976931348623157e308, "double"),
    Case(types.DoubleType, "CAST('NaN' AS DOUBLE)", "NaN", "double"),
    Case(types.DecimalType, f"CAST('{_DIGITS}' AS DECIMAL(38,18))", _DIGITS, "decimal(38,18)"),
    Case(types.DecimalType, "CAST('-1E-9' AS DECIMAL(9,9))", "-0.000000001", "decimal(9,9)"),
    Case(types.DateType, "DATE'2024-02-29'", "2024-02-29", "date"),
    Case(types.DateType, "DATE'-0044-03-15'", "-0044-03-15", "date"),
    Case(types.DateType, "DATE'+10000-01-01'", "+10000-01-01", "date"),
    Case(types.TimeType, "TIME'23:59:59.999999'", "23:59:59.999999", "time(6)"),
    Case(types.TimeType, "CAST('01:02:03' AS TIME(0))", "01:02:03.000000", "time(0)"),
    Case(
        types.TimestampType,
        "TIMESTAMP'2024-02-29 12:34:56.000001 UTC'",
        "2024-02-29T12:34:56.000001Z",
        "timestamp",
    ),
    Case(
        types.TimestampType,
        "TIMESTAMP'+10000-01-01 00:00:00 UTC'",
        "+10000-01-01T00:00:00.000000Z",
        "timestamp",
    ),
    Case(
        types.TimestampNTZType,
        "TIMESTAMP_NTZ'0000-12-31 23:59:59.5'",
        "0000-12-31T23:59:59.500000",
        "timestamp_ntz",
    ),
    Case(
        types.DayTimeIntervalType,
        "INTERVAL '-1 02:03:04.5' DAY TO SECOND",
        "INTERVAL '-1 02:03:04.5' DAY TO SECOND",
        "interval day to second",
    ),
    Case(
        types.DayTimeIntervalType,
        "INTERVAL '26:03' HOUR TO MINUTE",
        "INTERVAL '26:03' HOUR TO MINUTE",
        "interval hour to minute",
    ),
    Case(
        types.YearMonthIntervalType,
        "INTERVAL '-1-2' YEAR TO MONTH",
        "INTERVAL '-1-2' YEAR TO MONTH",
        "interval year to month",
    ),
    Case(
        types.YearMonthIntervalType,
        "INTERVAL '178956970' YEAR",
        "INTERVAL '178956970' YEAR",
        "interval year",
    ),
    Case(
        types.CalendarIntervalType,
        "make_interval(1, -2, 3, 4, 5, -6, 7.5)",
        "10 months 33 days 4 hours 54 minutes 7.5 seconds",
        "interval",
        parquet=False,
    ),
    Case(types.ArrayType, "array(1, NULL)", [1, None], "array<int>"),
    Case(types.MapType, "map('k', 1.5D)", [["k", 1.5]], "map<string,double>"),
    Case(types.StructType, "named_struct('a b', 1)", {"a b": 1}, "struct<`a b`:int>"),
    Case(
        types.VariantType,
        """parse_json('{"b": [1, 2.50, null], "a": "x"}')""",
        {"a": "x", "b": [1, 2.5, None]},
        "variant",
    ),
    Case(
        types.GeometryType,
        f"ST_GeomFromWKB({_POINT})",
        {"srid": 0, "wkb": _POINT_64},
        "geometry(SRID:0)",
    ),
    Case(
        types.GeographyType,
        f"ST_GeogFromWKB({_POINT})",
        {"srid": 4326, "wkb": _POINT_64},
        "geography(OGC:CRS84, SPHERICAL)",
    ),
]


def _concrete() -> set[type[types.DataType]]:
    """PySpark's own types: those that no other is a special case of, as the module has them."""
    found = {
        item
        for item in vars(types).values()
        if inspect.isclass(item) and issubclass(item, types.DataType)
    }
    return {kind for kind in found if not any(kind in other.__bases__ for other in found)}


def test_every_type_has_a_case() -> None:
    covered = {case.kind for case in CASES} | {types.UserDefinedType}
    assert _concrete() - covered == set()


# The last column makes rows and partitions; it keeps the optimizer from folding all into one row.
_LOCAL = ""
_JOB = "FROM (SELECT count(*) AS n FROM range(3))"
_SPREAD = "FROM (SELECT explode(sequence(1, 3)) AS n)"


def _frame(spark: SparkSession, sql: str, source: str) -> DataFrame:
    """The value alone, missing, in every kind of nest, and in a column of nulls only."""
    missing = f"nullif(1, 1) IS NULL AND typeof({sql}) = ''"
    absent = f"IF({missing}, {sql}, NULL)"
    return spark.sql(
        f"SELECT {sql} AS value, {absent} AS absent, array({sql}, {absent}) AS listed,"
        f" named_struct('inner', {sql}, 'none', {absent}) AS held, map('k', {sql}) AS mapped,"
        f" array(map('k', named_struct('deep', array({sql})))) AS deep {source}"
    )


def _row(token: Any) -> list[Any]:
    return [
        token,
        None,
        [token, None],
        {"inner": token, "none": None},
        [["k", token]],
        [[["k", {"deep": [token]}]]],
    ]


_WAYS = [
    (_LOCAL, Disposition.AUTO, 1),
    (_LOCAL, Disposition.STORED, 1),
    (_JOB, Disposition.INLINE, 1),
    (_SPREAD, Disposition.AUTO, 3),
    (_SPREAD, Disposition.STORED, 3),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind.__name__}-{case.sql}")
def test_type_survives(case: Case, spark: SparkSession, writer: Writer) -> None:
    batches = []
    for source, disposition, count in _WAYS:
        report, rows = writer.write(_frame(spark, case.sql, source), disposition=disposition)
        document = json.loads(b"".join(json_format.write(rows, 0)))
        assert document["schema"][0] == {"name": "value", "type": case.type_sql}
        assert document["rows"] == [_row(case.token)] * count, (source, disposition)
        assert repr(document["rows"][0][0]) == repr(case.token)
        assert report.row_count == count
        batches.append(pa.Table.from_batches(rows.batches()).slice(0, 1))
    assert all(batch.equals(batches[0]) for batch in batches)
    frame = _frame(spark, case.sql, _SPREAD)
    _, rows = writer.write(frame)
    _check_csv(rows, case)
    _check_arrow(rows, case)
    _check_parquet(rows, case, frame, spark, writer.root)


def _check_csv(rows: Any, case: Case) -> None:
    text = b"".join(csv_format.write(rows, None)).decode()
    records = list(csv.reader(io.StringIO(text, newline="")))
    assert records[0] == ["value", "absent", "listed", "held", "mapped", "deep"]
    for record in records[1:]:
        assert json.loads(record[2]) == [case.token, None]
        value = record[0]
        if case.token is None:
            assert value == ""
        elif isinstance(case.token, str):
            assert value == case.token
        else:
            assert json.loads(value) == case.token
        assert record[1] == ""


def _check_arrow(rows: Any, case: Case) -> None:
    stream = pa.ipc.open_stream(b"".join(arrow_format.write(rows, None)))
    assert stream.schema.names == ["value", "absent", "listed", "held", "mapped", "deep"]
    assert json.loads(stream.schema.metadata[b"spark.schema"]) == dict(rows.schema.spark)
    table = stream.read_all()
    assert table.num_rows == 3
    table.validate(full=True)
    assert table["absent"].null_count == 3


def _check_parquet(
    rows: Any, case: Case, frame: DataFrame, spark: SparkSession, root: Path
) -> None:
    if not case.parquet:
        with pytest.raises(FormatCannotHold, match="'value'"):
            parquet_format.write(rows, None)
        return
    file = root / "one.parquet"
    file.write_bytes(b"".join(parquet_format.write(rows, None)))
    again = spark.read.parquet(str(file))
    assert again.schema.simpleString() == frame.schema.simpleString()
    assert _texts(again) == _texts(frame)


def _texts(frame: DataFrame) -> list[Any]:
    """The rows in Spark's own words."""
    return frame.selectExpr(*[f"CAST({name} AS STRING)" for name in frame.columns]).collect()
