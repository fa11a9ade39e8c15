"""Rows of Parquet files, and of Arrow IPC files and streams.

PyArrow is imported when such a file is read: other commands must start without it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.cli.load.file_rows import FileSource, Misfits, Numbered, refuse_duplicates
from headrace.cli.output.text import Number
from headrace.errors import InvalidRequest
from headrace.grammar.data_types import DataType
from headrace.model.instants import (
    format_date,
    format_day_time,
    format_instant,
    format_time,
    format_year_month,
)

_BATCH_ROWS = 10_000
_FILE_MAGIC = b"ARROW1"
_SPARK_IN_ARROW = b"spark.schema"
_SPARK_IN_PARQUET = b"org.apache.spark.sql.parquet.row.metadata"
_WHOLE_TYPES = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"} | {
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
}
_PLAIN_TYPES = _WHOLE_TYPES | {"bool": "boolean", "null": "string", "double": "double"}
_PLAIN_TYPES |= {"halffloat": "float", "float": "float"}
_MAX_PRECISION = 38
_MICROS = 1_000_000


def read_parquet(source: FileSource, misfits: Misfits) -> Iterator[Numbered]:  # noqa: ARG001
    """Yield the rows of a Parquet file. Raises InvalidRequest if it cannot be read."""
    with _reading(source) as pa:
        import pyarrow.parquet as pq  # noqa: PLC0415

        file = pq.ParquetFile(_open(source, pa))
        schema = file.schema_arrow
        yield from _read_batches(source, pa, schema, file.iter_batches(batch_size=_BATCH_ROWS))


def read_arrow(source: FileSource, misfits: Misfits) -> Iterator[Numbered]:  # noqa: ARG001
    """Yield the rows of an IPC file or stream. Raises InvalidRequest if it cannot be read."""
    with _reading(source) as pa:
        schema, batches = _open_ipc(source, pa)
        yield from _read_batches(source, pa, schema, batches)


def parquet_types(source: FileSource) -> dict[str, DataType]:
    """Return the types of the columns of a Parquet file.

    Raises InvalidRequest if the file cannot be read, or a column has a type that Spark lacks.
    """
    with _reading(source) as pa:
        import pyarrow.parquet as pq  # noqa: PLC0415

        return _types(source, pa, pq.ParquetFile(_open(source, pa)).schema_arrow)


def arrow_types(source: FileSource) -> dict[str, DataType]:
    """Return the types of the columns of an IPC file or stream; see `parquet_types`."""
    with _reading(source) as pa:
        return _types(source, pa, _open_ipc(source, pa)[0])


@contextmanager
def _reading(source: FileSource) -> Iterator[Any]:
    """Yield the module PyArrow, and turn its errors into InvalidRequest."""
    try:
        import pyarrow as pa  # noqa: PLC0415
    except ImportError:
        raise InvalidRequest(
            f"{source.path} cannot be read, because PyArrow is not installed.",
            hint="install it beside Headrace (pip install pyarrow), or load CSV or JSON",
        ) from None
    try:
        yield pa
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InvalidRequest(f"{source.path} cannot be read: {reason}.") from error


def _open(source: FileSource, pa: Any) -> Any:
    """Open a file for random access. Raises OSError."""
    if source.path.suffix.lower() == ".gz":
        with source.open() as stream:
            return pa.BufferReader(stream.read())
    with source.open():  # raises the errors of Python, whose texts are short
        return (
            pa.memory_map(str(source.path)) if source.path.stat().st_size else pa.BufferReader(b"")
        )


def _open_ipc(source: FileSource, pa: Any) -> tuple[Any, Iterator[Any]]:
    """Return the schema and the batches. Both forms have either end of the name."""
    with source.open() as stream:
        is_file = stream.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    if is_file:
        file = pa.ipc.open_file(_open(source, pa))
        return file.schema, (file.get_batch(index) for index in range(file.num_record_batches))
    stream = pa.ipc.open_stream(_open(source, pa))
    return stream.schema, iter(stream)


def _read_batches(
    source: FileSource, pa: Any, schema: Any, batches: Iterator[Any]
) -> Iterator[Numbered]:
    refuse_duplicates(source, 1, schema.names)
    types = list(_types(source, pa, schema).values())
    line = 0
    for batch in batches:
        columns = [
            _read_column(source, pa, name, array, type_)
            for name, array, type_ in zip(schema.names, batch.columns, types, strict=True)
        ]
        for values in zip(*columns, strict=True):
            line += 1
            yield line, dict(zip(schema.names, values, strict=True))


def _read_column(source: FileSource, pa: Any, name: str, array: Any, type_: DataType) -> list[Any]:
    try:
        return _values(pa, array, type_)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidRequest(
            f"{source.path}: column {name!r} cannot be loaded: {error}.",
            hint="Spark keeps microseconds: round the times to them"
            if pa.types.is_temporal(array.type)
            else None,
        ) from error


# Types.


def _types(source: FileSource, pa: Any, schema: Any) -> dict[str, DataType]:
    """Return the Spark type of each column. Raises InvalidRequest."""
    spark = _spark_fields(schema)
    types = {}
    for index, field in enumerate(schema):
        try:
            types[field.name] = _spark_type(pa, field.type, spark[index] if spark else None)
        except NotImplementedError as error:
            raise InvalidRequest(
                f"{source.path}: column {field.name!r} has the type {error}, which cannot be "
                "loaded.",
                hint="write the file as JSON, or the column as text",
            ) from None
    return types


def _spark_fields(schema: Any) -> list[Any] | None:
    """Return the types in Spark's JSON that a file of Headrace or Spark has in its metadata."""
    metadata = schema.metadata or {}
    text = metadata.get(_SPARK_IN_ARROW) or metadata.get(_SPARK_IN_PARQUET)
    try:
        fields = [field["type"] for field in json.loads(text)["fields"]] if text else []
    except (ValueError, TypeError, KeyError):
        return None
    return fields if len(fields) == len(schema.names) else None


def _spark_type(pa: Any, type_: Any, spark: Any) -> DataType:
    """Return the Spark type of an Arrow type.

    Args:
        spark: The type in Spark's JSON, which distinguishes intervals of months from integers.

    Raises:
        NotImplementedError: Spark has no such type, or no function that makes its values.
    """
    if isinstance(spark, dict) and spark.get("type") == "udt":
        spark = spark.get("sqlType")
    if spark == "variant" or (isinstance(spark, str) and spark.startswith(("geo", "interval"))):
        if not spark.startswith("interval "):
            raise NotImplementedError(spark)
        return DataType(spark)
    is_plain = not isinstance(spark, dict)
    if pa.types.is_dictionary(type_):
        return _spark_type(pa, type_.value_type, spark)
    if _is_list(pa, type_):
        item = None if is_plain else spark.get("elementType")
        return DataType("array", (_spark_type(pa, type_.value_type, item),))
    if pa.types.is_map(type_):
        key, value = (None, None) if is_plain else (spark.get("keyType"), spark.get("valueType"))
        children = (_spark_type(pa, type_.key_type, key), _spark_type(pa, type_.item_type, value))
        return DataType("map", children)
    if pa.types.is_struct(type_):
        return _spark_struct(pa, type_, {} if is_plain else spark)
    return DataType(_plain_type(pa, type_))


def _spark_struct(pa: Any, type_: Any, spark: dict[str, Any]) -> DataType:
    fields = [type_.field(index) for index in range(type_.num_fields)]
    known = spark.get("fields") or []
    kinds = [item["type"] for item in known] if len(known) == len(fields) else [None] * len(fields)
    children = [
        _spark_type(pa, field.type, kind) for field, kind in zip(fields, kinds, strict=True)
    ]
    return DataType("struct", tuple(children), tuple(field.name for field in fields))


def _is_list(pa: Any, type_: Any) -> bool:
    kinds = pa.types
    tests = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)
    return any(is_kind(type_) for is_kind in tests)


def _plain_type(pa: Any, type_: Any) -> str:
    """Return the name of the Spark type of an Arrow type that is not nested."""
    if name := _PLAIN_TYPES.get(str(type_)):
        return name
    kinds = pa.types
    tests: list[tuple[Callable[[Any], bool], str]] = [
        (kinds.is_string, "string"),
        (kinds.is_large_string, "string"),
        (kinds.is_string_view, "string"),
        (kinds.is_binary, "binary"),
        (kinds.is_large_binary, "binary"),
        (kinds.is_binary_view, "binary"),
        (kinds.is_fixed_size_binary, "binary"),
        (kinds.is_date, "date"),
        (kinds.is_time, "time(6)"),
        (kinds.is_duration, "interval day to second"),
        (_is_text_extension, "string"),
    ]
    for is_kind, name in tests:
        if is_kind(type_):
            return name
    if kinds.is_timestamp(type_):
        return "timestamp_ntz" if type_.tz is None else "timestamp"
    if kinds.is_decimal(type_) and 0 <= type_.scale <= type_.precision <= _MAX_PRECISION:
        return f"decimal({type_.precision},{type_.scale})"
    raise NotImplementedError(str(type_))


def _is_text_extension(type_: Any) -> bool:
    return getattr(type_, "extension_name", "") in {"arrow.uuid", "arrow.json"}


# Values.


def _values(pa: Any, array: Any, type_: DataType) -> list[Any]:
    """Return the values of an array in the form of the API's JSON.

    Raises ArrowInvalid if a time has more than microseconds.
    """
    if not len(array):
        # A list without values may lack its offsets (see `headrace.results.batches`).
        return []
    if pa.types.is_dictionary(array.type):
        return _values(pa, array.dictionary_decode(), type_)
    if type_.name in {"array", "map"}:
        return _list_values(pa, array, type_)
    if type_.name == "struct":
        return _struct_values(pa, array, type_)
    convert, plain = _converter(pa, array, type_)
    return [None if value is None else convert(value) for value in plain.to_pylist()]


def _list_values(pa: Any, array: Any, type_: DataType) -> list[Any]:
    """Return the values of a list or map array. A slice refers to a part of its items only."""
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    offsets = array.offsets.to_pylist()
    start, size = offsets[0], offsets[-1] - offsets[0]
    if type_.name == "map":
        key, value = type_.children
        keys = _values(pa, array.keys.slice(start, size), key)
        items: list[Any] = list(
            map(list, zip(keys, _values(pa, array.items.slice(start, size), value), strict=True))
        )
    else:
        items = _values(pa, array.values.slice(start, size), type_.children[0])
    bounds = zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False)
    return [items[at - start : end - start] if is_valid else None for at, end, is_valid in bounds]


def _struct_values(pa: Any, array: Any, type_: DataType) -> list[Any]:
    columns = [
        _values(pa, part, kind) for part, kind in zip(array.flatten(), type_.children, strict=True)
    ]
    rows = zip(*columns, strict=True) if columns else ((),) * len(array)
    return [
        [list(pair) for pair in zip(type_.fields, row, strict=True)] if is_valid else None
        for row, is_valid in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


def _converter(pa: Any, array: Any, type_: DataType) -> tuple[Callable[[Any], Any], Any]:
    """Return the conversion of a value, and the array whose Python values it takes."""
    if type_.name.startswith("interval"):
        return _interval_converter(pa, array, type_)
    if pa.types.is_temporal(array.type):
        return _time_converter(pa, array)
    if pa.types.is_floating(array.type):
        return _float_text, array
    return _CONVERTERS.get(type_.base, str), array


def _time_converter(pa: Any, array: Any) -> tuple[Callable[[Any], Any], Any]:
    type_ = array.type
    if pa.types.is_date(type_):
        return format_date, array.cast(pa.date32()).cast(pa.int32())
    if pa.types.is_time(type_):
        return format_time, array.cast(pa.time64("us")).cast(pa.int64())
    mark = "" if type_.tz is None else "Z"
    micros = array.cast(pa.timestamp("us", type_.tz)).cast(pa.int64())
    return (lambda value: format_instant(value, _MICROS) + mark), micros


def _decimal_text(value: Any) -> Number:
    # The integers of uint64 are decimals in Spark.
    return Number(value if isinstance(value, int) else format(value, "f"))


def _float_text(value: float) -> Number:
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return Number(names.get(repr(value), repr(value)))


def _interval_converter(pa: Any, array: Any, type_: DataType) -> tuple[Callable[[Any], Any], Any]:
    if "year" in type_.name or "month" in type_.name:
        return (lambda months: format_year_month(months, type_.name)), array.cast(pa.int32())
    if pa.types.is_duration(array.type):
        array = array.cast(pa.duration("us"))
    return (lambda micros: format_day_time(micros, type_.name)), array.cast(pa.int64())


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Number),
    "boolean": bool,
    "decimal": _decimal_text,
    "binary": lambda value: base64.b64encode(value).decode(),
}
