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
from pyspark.testing.objects import ExamplePoint, ExamplePointUDT
from tests.support.results import Writer

from headrace.errors import FormatCannotHold
from headrace.model.result import Disposition, ResultReport
from headrace.results.formats import arrow as arrow_format
from headrace.results.formats import csv as csv_format
from headrace.results.formats import json as json_format
from headrace.results.formats import parquet as parquet_format
from headrace.results.reader import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Case:
    """A value of a type: as SQL, and as the JSON that must come of it."""

    kind: type[types.DataType]
    sql: str
    token: Any
    type_sql: str
    parquet: str | None = None
    """The type as Spark reads it back from Parquet, where that is another."""


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
        "10 months 25 days 4 hours 54 minutes 7.5 seconds",
        "interval",
        parquet="struct<months:int,days:int,microseconds:bigint>",
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
        parquet="struct<srid:int,wkb:binary>",
    ),
    Case(
        types.GeographyType,
        f"ST_GeogFromWKB({_POINT})",
        {"srid": 4326, "wkb": _POINT_64},
        "geography(OGC:CRS84, SPHERICAL)",
        parquet="struct<srid:int,wkb:binary>",
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
    covered = {case.kind for case in CASES}
    # A field is no type of a value, though its class says so; user-defined types: below.
    assert _concrete() - covered == {types.StructField, types.UserDefinedType}


_NESTS = ("value", "absent", "listed", "held", "mapped", "deep")


def _columns(number: int, sql: str) -> str:
    """The value alone, missing, in every kind of nest, and a column of nulls only."""
    absent = f"IF(rand() < 2, NULL, {sql})"
    nests = [
        sql,
        absent,
        f"array({sql}, {absent})",
        f"named_struct('inner', {sql}, 'none', {absent})",
        f"map('k', {sql})",
        f"array(map('k', named_struct('deep', array({sql}))))",
    ]
    return ", ".join(f"{nest} AS {name}_{number}" for nest, name in zip(nests, _NESTS, strict=True))


def _expected(token: Any) -> list[Any]:
    return [
        token,
        None,
        [token, None],
        {"inner": token, "none": None},
        [["k", token]],
        [[["k", {"deep": [token]}]]],
    ]


# One row from the plan itself; one that a job fetches; three that executors write.
_SOURCES = {
    "plan": ("", 1),
    "job": ("FROM (SELECT count(*) AS n FROM range(3))", 1),
    "spread": ("FROM (SELECT explode(sequence(1, 3)) AS n)", 3),
}
_WAYS = [
    ("plan", Disposition.INLINE),
    ("job", Disposition.STORED),
    ("spread", Disposition.AUTO),
    ("spread", Disposition.STORED),
]


def _frame(spark: SparkSession, source: str, cases: list[Case]) -> DataFrame:
    """Six columns for each case, all cases in one query: each query costs seconds."""
    columns = ", ".join(_columns(number, case.sql) for number, case in enumerate(cases))
    return spark.sql(f"SELECT {columns} {_SOURCES[source][0]}")


Written = dict[tuple[str, Disposition], tuple[ResultReport, Rows]]


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    writer = Writer(tmp_path_factory.mktemp("results"))
    return {
        (source, disposition): writer.write(
            _frame(spark, source, CASES), disposition=disposition, inline_limit=10**6
        )
        for source, disposition in _WAYS
    }


@pytest.fixture(scope="module")
def documents(written: Written) -> dict[tuple[str, Disposition], Any]:
    return {
        way: json.loads(b"".join(json_format.write(rows, 0))) for way, (_, rows) in written.items()
    }


@pytest.fixture(scope="module")
def records(written: Written) -> list[list[str]]:
    text = b"".join(csv_format.write(written["spread", Disposition.STORED][1], None)).decode()
    return list(csv.reader(io.StringIO(text, newline="")))


def _of(number: int, values: list[Any]) -> list[Any]:
    """A case's own columns."""
    return values[number * len(_NESTS) : (number + 1) * len(_NESTS)]


_CASES = pytest.mark.parametrize(
    "number", range(len(CASES)), ids=[f"{case.kind.__name__}-{case.type_sql}" for case in CASES]
)


@pytest.mark.parametrize("way", _WAYS, ids=str)
def test_ways_lead_where_asked(way: tuple[str, Disposition], written: Written) -> None:
    source, asked = way
    report, _ = written[way]
    stored = asked is Disposition.STORED
    assert report.disposition is (Disposition.STORED if stored else Disposition.INLINE)
    assert report.row_count == _SOURCES[source][1]


@_CASES
@pytest.mark.parametrize("way", _WAYS, ids=str)
def test_value_survives_every_way(
    way: tuple[str, Disposition], number: int, documents: dict[Any, Any]
) -> None:
    case, document = CASES[number], documents[way]
    columns = _of(number, document["schema"])
    assert columns[0] == {"name": f"value_{number}", "type": case.type_sql}
    assert columns[2]["type"] == f"array<{case.type_sql}>"
    assert len(document["rows"]) == _SOURCES[way[0]][1]
    for row in document["rows"]:
        assert _of(number, row) == _expected(case.token)
        # Also 1 and 1.0, 0.0 and -0.0 are told apart.
        assert repr(_of(number, row)[0]) == repr(case.token)


def test_every_way_leaves_the_same_values(written: Written) -> None:
    tables = [pa.Table.from_batches(rows.batches()).slice(0, 1) for _, rows in written.values()]
    assert all(table.schema.equals(tables[0].schema) for table in tables)
    shown = [json.dumps(table.to_pylist(), default=repr) for table in _comparable(tables)]
    assert set(shown) == {shown[0]}


def _comparable(tables: list[pa.Table]) -> list[pa.Table]:
    """Without dates that Python has no value for."""
    kept = [
        f"_{number * len(_NESTS) + nest}"
        for number, case in enumerate(CASES)
        for nest in range(len(_NESTS))
        if str(case.token)[:1] not in {"+", "-"} and case.type_sql != "timestamp_ntz"
    ]
    return [table.select(kept) for table in tables]


@_CASES
def test_value_survives_in_csv(number: int, records: list[list[str]]) -> None:
    case = CASES[number]
    assert _of(number, records[0]) == [f"{nest}_{number}" for nest in _NESTS]
    for record in records[1:]:
        value, absent, *nested = _of(number, record)
        assert absent == ""
        assert [json.loads(text) for text in nested] == _expected(case.token)[2:]
        if isinstance(case.token, str) or case.token is None:
            assert value == (case.token or "")
        else:
            assert json.loads(value) == case.token


def test_values_survive_in_arrow(written: Written) -> None:
    _, rows = written["spread", Disposition.STORED]
    stream = pa.ipc.open_stream(b"".join(arrow_format.write(rows, None)))
    assert stream.schema.names == list(rows.schema.names)
    assert json.loads(stream.schema.metadata[b"spark.schema"]) == dict(rows.schema.spark)
    table = stream.read_all()
    table.validate(full=True)
    assert table.num_rows == 3
    stored = pa.Table.from_batches(rows.batches())
    for shown, kept in zip(table.columns, stored.columns, strict=True):
        assert shown.nbytes == kept.nbytes
        assert shown.null_count == kept.null_count


def test_values_survive_in_parquet(spark: SparkSession, written: Written, tmp_path: Path) -> None:
    _, rows = written["spread", Disposition.STORED]
    file = tmp_path / "one.parquet"
    file.write_bytes(b"".join(parquet_format.write(rows, None)))
    again = spark.read.parquet(str(file))
    _, read_back = Writer(tmp_path).write(again, inline_limit=10**6)
    documents = [json.loads(b"".join(json_format.write(each, 0))) for each in (rows, read_back)]
    for number, case in enumerate(CASES):
        value = _of(number, documents[1]["schema"])[0]
        assert value["type"] == case.parquet or case.type_sql
        if case.parquet is None or case.type_sql.startswith("geo"):
            for before, after in zip(*(document["rows"] for document in documents), strict=True):
                assert _of(number, after) == _of(number, before)
    number = next(n for n, case in enumerate(CASES) if case.kind is types.CalendarIntervalType)
    micros = str((4 * 3600 + 54 * 60) * 10**6 + 7_500_000)
    assert _of(number, documents[1]["rows"][0])[0] == {
        "months": 10,
        "days": 25,
        "microseconds": micros,
    }


def test_user_defined_type_is_held_as_what_it_is_stored_as(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = types.StructType().add("p", ExamplePointUDT())
    frame = spark.createDataFrame([(ExamplePoint(1.0, 2.5),), (None,)], schema)
    for disposition in Disposition:
        _, rows = Writer(tmp_path / disposition).write(frame, disposition=disposition)
        document = json.loads(b"".join(json_format.write(rows, 0)))
        assert document["schema"] == [{"name": "p", "type": "array<double>"}]
        assert document["rows"] == [[[1.0, 2.5]], [None]]


def test_type_that_cannot_be_encoded_is_named(spark: SparkSession, tmp_path: Path) -> None:
    schema = types.StructType().add("p", ExamplePointUDT())
    spark.createDataFrame([(ExamplePoint(1.0, 2.5),)], schema).createOrReplaceTempView("points")
    frame = spark.sql("SELECT 1 AS one, named_struct('a', p, 'A', p) AS twice FROM points")
    with pytest.raises(FormatCannotHold, match="'twice'"):
        Writer(tmp_path).write(frame)
