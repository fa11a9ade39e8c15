"""What Headrace writes, pandas, DuckDB and the loader read equally; and the reverse.

Every test draws tables of all types. A value is compared by the text that a load sends to Spark for
it: Spark's CAST makes the same value of equal texts.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import feather
from tests.support.memory_rows import MemoryRows, make_rows
from tests.support.typed_tables import (
    PLAIN_TYPES,
    TypedTable,
    TypeStrategy,
    nested_types,
    typed_tables,
)

from headrace.cli.load.encoding import encode_value
from headrace.cli.load.file_rows import Misfits
from headrace.cli.load.formats import LoadFile
from headrace.cli.output.formats import OutputFormat, make_writer
from headrace.cli.output.text import Number
from headrace.cli.output.writers import OutputColumn
from headrace.grammar.data_types import DataType, parse_data_type
from headrace.results.formats import arrow, csv, parquet
from headrace.results.formats import json as json_format
from headrace.results.json_encoding import NumberFormat

_property = settings(
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
_STRING = next(case for case in PLAIN_TYPES if case.kind == "string")
_JSON_OF: dict[str, Any] = {"parse_float": Number, "parse_int": Number}
Values = list[list[Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _rows(table: TypedTable) -> MemoryRows:
    cases, columns = table
    return make_rows({f"c{n}": case.kind for n, case in enumerate(cases)}, columns)


def _types(rows: MemoryRows) -> list[DataType]:
    return [parse_data_type(column.type.sql) for column in rows.schema.columns]


def _api_rows(rows: MemoryRows) -> Values:
    """Return the rows as the shell receives them."""
    content = b"".join(json_format.write(rows, None, numbers=NumberFormat.PLAIN))
    return list(json.loads(content, **_JSON_OF)["rows"])


_CANONICAL: dict[str, Callable[[Any], Any]] = {
    "boolean": str.lower,
    "date": lambda text: date.fromisoformat(text[:10]),
    "double": lambda text: repr(float(text)),
    "float": lambda text: repr(np.float32(text)),
    "decimal": Decimal,
    "time": time.fromisoformat,
    "timestamp": lambda text: datetime.fromisoformat(text).astimezone(UTC),
    "timestamp_ntz": datetime.fromisoformat,
}


def _canonical(value: Any, type_: DataType) -> Any:
    """Return what a load sends for a value; texts of equal numbers and times are made equal."""
    if value is None:
        return None
    children = type_.children
    if type_.name == "array":
        return [_canonical(item, children[0]) for item in value]
    if type_.name == "map":
        return {key: _canonical(item, children[1]) for key, item in value.items()}
    if type_.name == "struct":
        return [_canonical(value[f"f{n}"], child) for n, child in enumerate(children)]
    return _CANONICAL.get(type_.base, str)(value)


def _sent(values: Values, types: list[DataType], *, is_text: bool = False) -> Values:
    return [
        [
            _canonical(encode_value(value, type_, is_text=is_text), type_)
            for value, type_ in zip(row, types, strict=True)
        ]
        for row in values
    ]


def _expected(rows: MemoryRows) -> Values:
    return _sent(_api_rows(rows), _types(rows))


def _loaded(path: Path, types: list[DataType]) -> Values:
    """Return what a load of the file sends."""
    file, misfits = LoadFile(path), Misfits()
    values = [[row[f"c{n}"] for n in range(len(types))] for _, row in file.rows(misfits)]
    assert misfits.first == []
    return _sent(values, types, is_text=file.is_text)


def _shell_text(rows: MemoryRows, output_format: OutputFormat) -> str:
    columns = [OutputColumn(column.name, column.type.sql) for column in rows.schema.columns]
    out, values = io.StringIO(newline=""), _api_rows(rows)
    writer = make_writer(output_format, out, columns, values, colour=False)
    writer.begin(columns, values)
    writer.write_rows(values)
    writer.end()
    return out.getvalue()


Write = Callable[[MemoryRows], bytes]
WRITERS: dict[str, Write] = {
    "shell.csv": lambda rows: _shell_text(rows, OutputFormat.CSV).encode(),
    "shell.tsv": lambda rows: _shell_text(rows, OutputFormat.TSV).encode(),
    "shell.json": lambda rows: _shell_text(rows, OutputFormat.JSON).encode(),
    "shell.jsonl": lambda rows: _shell_text(rows, OutputFormat.JSONL).encode(),
    "api.csv": lambda rows: b"".join(csv.write(rows, None)),
    "api.parquet": lambda rows: b"".join(parquet.write(rows, None)),
    "api.arrow": lambda rows: b"".join(arrow.write_file(rows, None)),
    "api.arrows": lambda rows: b"".join(arrow.write(rows, None)),
}


@pytest.mark.parametrize("name", WRITERS)
@_property
@example(table=([_STRING], [["", None, " ", '"', "\\N"]]))
@given(table=typed_tables())
def test_a_load_reads_every_value_that_headrace_writes(
    folder: Path, name: str, table: TypedTable
) -> None:
    rows = _rows(table)
    file = folder / name
    file.write_bytes(WRITERS[name](rows))
    assert _loaded(file, _types(rows)) == _expected(rows)


# pandas and DuckDB read what Headrace writes.


def _texts(rows: MemoryRows) -> list[list[str | None]]:
    """Return the fields of our CSV before they are quoted."""
    return [[None if value is None else _text(value) for value in row] for row in _api_rows(rows)]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


SCALARS = st.sampled_from(PLAIN_TYPES)


@pytest.mark.parametrize("name", ["shell.csv", "api.csv"])
@_property
@given(table=typed_tables(SCALARS))
def test_duckdb_and_pandas_read_every_field_of_our_csv(
    folder: Path, duck: duckdb.DuckDBPyConnection, name: str, table: TypedTable
) -> None:
    rows = _rows(table)
    file = folder / f"read-{name}"
    file.write_bytes(WRITERS[name](rows))
    expected = _texts(rows)
    width = len(rows.schema.columns)

    columns = {f"c{n}": "VARCHAR" for n in range(width)}
    read = duck.execute(
        "SELECT * FROM read_csv($file, header = true, delim = ',', quote = '\"', escape = '\"', "
        f"allow_quoted_nulls = false, auto_detect = false, columns = {columns})",
        {"file": str(file)},
    ).fetchall()
    assert [list(row) for row in read] == expected

    frame = pd.read_csv(file, dtype=str, na_filter=False, skip_blank_lines=False)
    assert frame.to_numpy().tolist() == [[value or "" for value in row] for row in expected]


def _plain(value: Any) -> Any:
    """Return a value of Arrow in a form in which equal values are equal, NaN too."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


def _arrow_values(table: pa.Table) -> Any:
    return [_plain(column.to_pylist()) for column in table.columns]


_NO_INTERVALS = [case for case in PLAIN_TYPES if "interval" not in str(case.kind)]


@_property
@given(table=typed_tables(st.sampled_from(_NO_INTERVALS)))
def test_duckdb_and_pandas_read_every_value_of_our_parquet_and_arrow(
    folder: Path, duck: duckdb.DuckDBPyConnection, table: TypedTable
) -> None:
    rows = _rows(table)
    for name in ("api.parquet", "api.arrow"):
        (folder / f"read-{name}").write_bytes(WRITERS[name](rows))
    stream = pa.ipc.open_stream(WRITERS["api.arrows"](rows)).read_all()
    expected = _arrow_values(stream)

    path = str(folder / "read-api.parquet")
    assert _arrow_values(duck.read_parquet(path).to_arrow_table()) == expected
    from_arrow = duck.from_arrow(pa.ipc.open_file(folder / "read-api.arrow").read_all())
    assert _arrow_values(from_arrow.to_arrow_table()) == expected

    for frame in (
        pd.read_parquet(path, dtype_backend="pyarrow"),
        pd.read_feather(folder / "read-api.arrow", dtype_backend="pyarrow"),
    ):
        assert _arrow_values(pa.Table.from_pandas(frame, preserve_index=False)) == expected


# A load reads what pandas and DuckDB write.


def _client_table(rows: MemoryRows) -> pa.Table:
    return (
        pa.ipc.open_stream(b"".join(arrow.write(rows, None))).read_all().replace_schema_metadata()
    )


def _duckdb_copy(options: str) -> Callable[[duckdb.DuckDBPyConnection, pa.Table, Path], None]:
    def write(duck: duckdb.DuckDBPyConnection, table: pa.Table, file: Path) -> None:
        duck.from_arrow(table).to_view("written", replace=True)
        duck.execute(f"COPY written TO '{file}' ({options})")

    return write


def _pandas_write(
    write: Callable[[pd.DataFrame, Path], Any],
) -> Callable[[duckdb.DuckDBPyConnection, pa.Table, Path], None]:
    return lambda _, table, file: write(table.to_pandas(types_mapper=pd.ArrowDtype), file)


def _kinds(*left_out: str) -> list[TypeStrategy]:
    return [case for case in PLAIN_TYPES if not any(word in str(case.kind) for word in left_out)]


_TEXT_TYPES = st.sampled_from(_kinds("binary", "interval"))
_JSON_TYPES = st.sampled_from(_kinds("binary", "interval", "float", "double"))
_ARROW_TYPES = st.sampled_from(_kinds("interval year"))
_NESTED_TYPES = nested_types(_kinds("interval year"))
FOREIGN_WRITERS: dict[str, tuple[Any, Any]] = {
    "duckdb.csv": (_duckdb_copy("FORMAT csv, HEADER"), _TEXT_TYPES),
    "duckdb.csv.gz": (_duckdb_copy("FORMAT csv, HEADER, COMPRESSION gzip"), _TEXT_TYPES),
    "duckdb.json": (_duckdb_copy("FORMAT json"), _JSON_TYPES),
    "duckdb.parquet": (_duckdb_copy("FORMAT parquet"), st.sampled_from(_kinds("interval"))),
    "pandas.csv": (_pandas_write(lambda frame, file: frame.to_csv(file, index=False)), _TEXT_TYPES),
    "pandas.jsonl": (
        _pandas_write(
            lambda frame, file: frame.to_json(
                file, orient="records", lines=True, date_format="iso", date_unit="us"
            )
        ),
        st.sampled_from(_kinds("binary", "interval", "float", "double", "decimal", "time")),
    ),
    "pandas.parquet": (_pandas_write(lambda frame, file: frame.to_parquet(file)), _ARROW_TYPES),
    "pandas.arrow": (_pandas_write(lambda frame, file: frame.to_feather(file)), _ARROW_TYPES),
    "pyarrow.parquet": (lambda _, table, file: pq.write_table(table, file), _NESTED_TYPES),
    "pyarrow.arrow": (
        lambda _, table, file: feather.write_feather(table, str(file)),
        _NESTED_TYPES,
    ),
}


@pytest.mark.parametrize("name", FOREIGN_WRITERS)
@_property
@given(data=st.data())
def test_a_load_reads_every_value_that_pandas_and_duckdb_write(
    folder: Path, duck: duckdb.DuckDBPyConnection, name: str, data: st.DataObject
) -> None:
    write, types = FOREIGN_WRITERS[name]
    rows = _rows(data.draw(typed_tables(types)))
    file = folder / name
    write(duck, _client_table(rows), file)
    expected, loaded = _expected(rows), _loaded(file, _types(rows))
    if name == "pandas.csv":  # pandas writes no difference between NULL and an empty string
        expected, loaded = (
            [[None if value == "" else value for value in row] for row in values]
            for values in (expected, loaded)
        )
    assert loaded == expected
