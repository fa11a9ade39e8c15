"""Every type of PySpark, through every method of writing a result and every format."""

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
class TypeCase:
    """A value of a type as SQL, and the JSON value that it must become."""

    kind: type[types.DataType]
    sql: str
    json_value: Any
    type_sql: str
    parquet: str | None = None
    """The type that Spark reads back from Parquet, if it is another type."""


_LONG = "9223372036854775807"
_DIGITS = "12345678901234567890.123456789012345678"
_POINT = "X'0101000000000000000000F03F0000000000000040'"
_POINT_64 = "AQEAAAAAAAAAAADwPwAAAAAAAABA"

CASES = [
    TypeCase(types.NullType, "NULL", None, "void"),
    TypeCase(types.StringType, r"""'é "q" \\ \n, 𝄞'""", 'é "q" \\ \n, 𝄞', "string"),
    TypeCase(types.StringType, "''", "", "string"),
    TypeCase(types.StringType, "'Ä' COLLATE UNICODE_CI", "Ä", "string collate UNICODE_CI"),
    TypeCase(types.CharType, "CAST('ab' AS CHAR(4))", "ab  ", "char(4)"),
    TypeCase(types.VarcharType, "CAST('ab' AS VARCHAR(4))", "ab", "varchar(4)"),
    TypeCase(types.BinaryType, "X'00FF'", "AP8=", "binary"),
    TypeCase(types.BooleanType, "true", True, "boolean"),
    TypeCase(types.ByteType, "-128Y", -128, "tinyint"),
    TypeCase(types.ShortType, "-32768S", -32768, "smallint"),
    TypeCase(types.IntegerType, "2147483647", 2147483647, "int"),
    TypeCase(types.LongType, f"{_LONG}L", _LONG, "bigint"),
    TypeCase(types.FloatType, "0.1F", 0.1, "float"),
    TypeCase(types.FloatType, "CAST('-Infinity' AS FLOAT)", "-Infinity", "float"),
    TypeCase(types.DoubleType, "1D", 1.0, "double"),
    TypeCase(types.DoubleType, "-0D", -0.0, "double"),
    TypeCase(types.DoubleType, "1.7976931348623157E308D", 1.7976931348623157e308, "double"),
    TypeCase(types.DoubleType, "CAST('NaN' AS DOUBLE)", "NaN", "double"),
    TypeCase(types.DecimalType, f"CAST('{_DIGITS}' AS DECIMAL(38,18))", _DIGITS, "decimal(38,18)"),
    TypeCase(types.DecimalType, "CAST('-1E-9' AS DECIMAL(9,9))", "-0.000000001", "decimal(9,9)"),
    TypeCase(types.DateType, "DATE'2024-02-29'", "2024-02-29", "date"),
    TypeCase(types.DateType, "DATE'-0044-03-15'", "-0044-03-15", "date"),
    TypeCase(types.DateType, "DATE'+10000-01-01'", "+10000-01-01", "date"),
    TypeCase(types.TimeType, "TIME'23:59:59.999999'", "23:59:59.999999", "time(6)"),
    TypeCase(types.TimeType, "CAST('01:02:03' AS TIME(0))", "01:02:03.000000", "time(0)"),
    TypeCase(
        types.TimestampType,
        "TIMESTAMP'2024-02-29 12:34:56.000001 UTC'",
        "2024-02-29T12:34:56.000001Z",
        "timestamp",
    ),
    TypeCase(
        types.TimestampType,
        "TIMESTAMP'+10000-01-01 00:00:00 UTC'",
        "+10000-01-01T00:00:00.000000Z",
        "timestamp",
    ),
    TypeCase(
        types.TimestampNTZType,
        "TIMESTAMP_NTZ'0000-12-31 23:59:59.5'",
        "0000-12-31T23:59:59.500000",
        "timestamp_ntz",
    ),
    TypeCase(
        types.DayTimeIntervalType,
        "INTERVAL '-1 02:03:04.5' DAY TO SECOND",
        "INTERVAL '-1 02:03:04.5' DAY TO SECOND",
        "interval day to second",
    ),
    TypeCase(
        types.DayTimeIntervalType,
        "INTERVAL '26:03' HOUR TO MINUTE",
        "INTERVAL '26:03' HOUR TO MINUTE",
        "interval hour to minute",
    ),
    TypeCase(
        types.YearMonthIntervalType,
        "INTERVAL '-1-2' YEAR TO MONTH",
        "INTERVAL '-1-2' YEAR TO MONTH",
        "interval year to month",
    ),
    TypeCase(
        types.YearMonthIntervalType,
        "INTERVAL '178956970' YEAR",
        "INTERVAL '178956970' YEAR",
        "interval year",
    ),
    TypeCase(
        types.CalendarIntervalType,
        "make_interval(1, -2, 3, 4, 5, -6, 7.5)",
        "10 months 25 days 4 hours 54 minutes 7.5 seconds",
        "interval",
        parquet="struct<months:int,days:int,microseconds:bigint>",
    ),
    TypeCase(types.ArrayType, "array(1, NULL)", [1, None], "array<int>"),
    TypeCase(types.MapType, "map('k', 1.5D)", [["k", 1.5]], "map<string,double>"),
    TypeCase(types.StructType, "named_struct('a b', 1)", {"a b": 1}, "struct<`a b`:int>"),
    TypeCase(
        types.VariantType,
        """parse_json('{"b": [1, 2.50, null], "a": "x"}')""",
        {"a": "x", "b": [1, 2.5, None]},
        "variant",
    ),
    TypeCase(
        types.GeometryType,
        f"ST_GeomFromWKB({_POINT})",
        {"srid": 0, "wkb": _POINT_64},
        "geometry(SRID:0)",
        parquet="struct<srid:int,wkb:binary>",
    ),
    TypeCase(
        types.GeographyType,
        f"ST_GeogFromWKB({_POINT})",
        {"srid": 4326, "wkb": _POINT_64},
        "geography(OGC:CRS84, SPHERICAL)",
        parquet="struct<srid:int,wkb:binary>",
    ),
]


def _list_concrete_types() -> set[type[types.DataType]]:
    """Return the types of PySpark that have no subclasses."""
    classes = {
        item
        for item in vars(types).values()
        if inspect.isclass(item) and issubclass(item, types.DataType)
    }
    return {kind for kind in classes if not any(kind in other.__bases__ for other in classes)}


def test_every_type_has_a_case() -> None:
    tested = {case.kind for case in CASES}
    # StructField is a subclass of DataType but has no values. User-defined types are tested below.
    assert _list_concrete_types() - tested == {types.StructField, types.UserDefinedType}


_FORMS = ("value", "null", "array", "struct", "map", "nested", "empty")


def _columns(number: int, sql: str) -> str:
    """Return columns of the value alone, NULL, and the value in every kind of nested type.

    The last column has the type in arrays and maps without elements, in which Arrow for Java writes
    no offsets.
    """
    null = f"IF(rand() < 2, NULL, {sql})"
    no_arrays = f"filter(array(array({sql})), x -> false)"
    no_maps = f"map_filter(map('k', struct(map('k', array({sql})))), (k, v) -> false)"
    forms = [
        sql,
        null,
        f"array({sql}, {null})",
        f"named_struct('inner', {sql}, 'none', {null})",
        f"map('k', {sql})",
        f"array(map('k', named_struct('deep', array({sql}))))",
        f"named_struct('arrays', {no_arrays}, 'maps', {no_maps})",
    ]
    return ", ".join(f"{form} AS {name}_{number}" for form, name in zip(forms, _FORMS, strict=True))


def _expected(value: Any) -> list[Any]:
    return [
        value,
        None,
        [value, None],
        {"inner": value, "none": None},
        [["k", value]],
        [[["k", {"deep": [value]}]]],
        {"arrays": [], "maps": []},
    ]


# One row of the physical plan, one row collected by a job, and three rows written by executors.
_SOURCES = {
    "plan": ("", 1),
    "job": ("FROM (SELECT count(*) AS n FROM range(3))", 1),
    "executors": ("FROM (SELECT explode(sequence(1, 3)) AS n)", 3),
}
_METHODS = [
    ("plan", Disposition.INLINE),
    ("job", Disposition.STORED),
    ("executors", Disposition.AUTO),
    ("executors", Disposition.STORED),
]


def _frame(spark: SparkSession, source: str, cases: list[TypeCase]) -> DataFrame:
    """Return the columns of all cases. They share one query, because each query takes seconds."""
    columns = ", ".join(_columns(number, case.sql) for number, case in enumerate(cases))
    return spark.sql(f"SELECT {columns} {_SOURCES[source][0]}")


Results = dict[tuple[str, Disposition], tuple[ResultReport, Rows]]


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Results:
    writer = Writer(tmp_path_factory.mktemp("results"))
    return {
        (source, disposition): writer.write(
            _frame(spark, source, CASES), disposition=disposition, inline_limit=10**6
        )
        for source, disposition in _METHODS
    }


@pytest.fixture(scope="module")
def documents(results: Results) -> dict[tuple[str, Disposition], Any]:
    return {
        method: json.loads(b"".join(json_format.write(rows, 0)))
        for method, (_, rows) in results.items()
    }


@pytest.fixture(scope="module")
def records(results: Results) -> list[list[str]]:
    text = b"".join(csv_format.write(results["executors", Disposition.STORED][1], None)).decode()
    return list(csv.reader(io.StringIO(text, newline="")))


def _select(number: int, values: list[Any]) -> list[Any]:
    """Return the columns of one case."""
    return values[number * len(_FORMS) : (number + 1) * len(_FORMS)]


_CASES = pytest.mark.parametrize(
    "number", range(len(CASES)), ids=[f"{case.kind.__name__}-{case.type_sql}" for case in CASES]
)


@pytest.mark.parametrize("method", _METHODS, ids=str)
def test_each_method_has_the_requested_disposition(
    method: tuple[str, Disposition], results: Results
) -> None:
    source, requested = method
    report, _ = results[method]
    stored = requested is Disposition.STORED
    assert report.disposition is (Disposition.STORED if stored else Disposition.INLINE)
    assert report.row_count == _SOURCES[source][1]


@_CASES
@pytest.mark.parametrize("method", _METHODS, ids=str)
def test_a_value_survives_every_method(
    method: tuple[str, Disposition], number: int, documents: dict[Any, Any]
) -> None:
    case, document = CASES[number], documents[method]
    columns = _select(number, document["schema"])
    assert columns[0] == {"name": f"value_{number}", "type": case.type_sql}
    assert columns[2]["type"] == f"array<{case.type_sql}>"
    assert len(document["rows"]) == _SOURCES[method[0]][1]
    for row in document["rows"]:
        assert _select(number, row) == _expected(case.json_value)
        # repr distinguishes 1 from 1.0 and 0.0 from -0.0.
        assert repr(_select(number, row)[0]) == repr(case.json_value)


def test_every_method_writes_the_same_arrow_values(results: Results) -> None:
    tables = [pa.Table.from_batches(rows.batches()).slice(0, 1) for _, rows in results.values()]
    assert all(table.schema.equals(tables[0].schema) for table in tables)
    texts = [json.dumps(table.to_pylist(), default=repr) for table in _select_comparable(tables)]
    assert set(texts) == {texts[0]}


def _select_comparable(tables: list[pa.Table]) -> list[pa.Table]:
    """Return the tables without dates that Python cannot represent."""
    columns = [
        f"_{number * len(_FORMS) + form}"
        for number, case in enumerate(CASES)
        for form in range(len(_FORMS))
        if str(case.json_value)[:1] not in {"+", "-"} and case.type_sql != "timestamp_ntz"
    ]
    return [table.select(columns) for table in tables]


@_CASES
def test_a_value_survives_in_csv(number: int, records: list[list[str]]) -> None:
    case = CASES[number]
    assert _select(number, records[0]) == [f"{form}_{number}" for form in _FORMS]
    for record in records[1:]:
        value, null, *nested = _select(number, record)
        assert null == ""
        assert [json.loads(text) for text in nested] == _expected(case.json_value)[2:]
        if isinstance(case.json_value, str) or case.json_value is None:
            assert value == (case.json_value or "")
        else:
            assert json.loads(value) == case.json_value


def test_values_survive_in_arrow(results: Results) -> None:
    _, rows = results["executors", Disposition.STORED]
    stream = pa.ipc.open_stream(b"".join(arrow_format.write(rows, None)))
    assert stream.schema.names == list(rows.schema.names)
    assert json.loads(stream.schema.metadata[b"spark.schema"]) == dict(rows.schema.spark)
    table = stream.read_all()
    table.validate(full=True)
    assert table.num_rows == 3
    stored = pa.Table.from_batches(rows.batches())
    for column, original in zip(table.columns, stored.columns, strict=True):
        assert column.nbytes == original.nbytes
        assert column.null_count == original.null_count


def test_values_survive_in_parquet(spark: SparkSession, results: Results, tmp_path: Path) -> None:
    _, rows = results["executors", Disposition.STORED]
    file = tmp_path / "one.parquet"
    file.write_bytes(b"".join(parquet_format.write(rows, None)))
    frame = spark.read.parquet(str(file))
    _, read_back = Writer(tmp_path).write(frame, inline_limit=10**6)
    documents = [json.loads(b"".join(json_format.write(each, 0))) for each in (rows, read_back)]
    for number, case in enumerate(CASES):
        value = _select(number, documents[1]["schema"])[0]
        assert value["type"] == (case.parquet or case.type_sql)
        if case.parquet is None or case.type_sql.startswith("geo"):
            for before, after in zip(*(document["rows"] for document in documents), strict=True):
                assert _select(number, after) == _select(number, before)
    number = next(n for n, case in enumerate(CASES) if case.kind is types.CalendarIntervalType)
    micros = str((4 * 3600 + 54 * 60) * 10**6 + 7_500_000)
    assert _select(number, documents[1]["rows"][0])[0] == {
        "months": 10,
        "days": 25,
        "microseconds": micros,
    }


def test_a_user_defined_type_becomes_its_sql_type(spark: SparkSession, tmp_path: Path) -> None:
    schema = types.StructType().add("p", ExamplePointUDT())
    frame = spark.createDataFrame([(ExamplePoint(1.0, 2.5),), (None,)], schema)
    for disposition in Disposition:
        _, rows = Writer(tmp_path / disposition).write(frame, disposition=disposition)
        document = json.loads(b"".join(json_format.write(rows, 0)))
        assert document["schema"] == [{"name": "p", "type": "array<double>"}]
        assert document["rows"] == [[[1.0, 2.5]], [None]]


def test_a_type_that_cannot_be_converted_is_an_error_that_names_the_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = types.StructType().add("p", ExamplePointUDT())
    spark.createDataFrame([(ExamplePoint(1.0, 2.5),)], schema).createOrReplaceTempView("points")
    frame = spark.sql("SELECT 1 AS n, named_struct('a', p, 'A', p) AS twice FROM points")
    with pytest.raises(FormatCannotHold, match="'twice'"):
        Writer(tmp_path).write(frame)
    spark.catalog.dropTempView("points")
