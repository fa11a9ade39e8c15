"""The rows of a result, read chunk by chunk as Arrow, and as values of Python.

This is the only module of the client that imports PyArrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

try:
    import pyarrow as pa
except ImportError as missing:
    from headrace.client.dbapi_errors import InterfaceError

    raise InterfaceError(
        "Rows are read with PyArrow, which is not installed.",
        code="packages_missing",
        hint="pip install 'headrace[arrow]'",
    ) from missing

from headrace.client.dbapi_errors import DataError, OperationalError

Row = tuple[Any, ...]


class ArrowRows:
    """The rows of one result, each of which is returned once, as a tuple or as Arrow."""

    def __init__(
        self,
        read_chunk: Callable[[int], bytes],
        *,
        chunks: int,
        row_count: int,
        time_zone: str | None,
        statement_id: str,
    ) -> None:
        """Create the rows; the first chunk is read when it is needed.

        Args:
            read_chunk: Returns a chunk as an Arrow IPC stream.
            row_count: Number of rows of all chunks. Fewer rows are an error.
            time_zone: Time zone of the session, in which values of TIMESTAMP are returned.
        """
        self._read_chunk = read_chunk
        self._chunks = chunks
        self._row_count = row_count
        self._time_zone = None if time_zone is None else _arrow_zone(time_zone)
        self._statement_id = statement_id
        self._next_chunk = 0
        self._rows_read = 0
        self._schema: pa.Schema | None = None
        self._batches: list[pa.RecordBatch] = []
        """Batches of the chunk that was read last, in reverse; none of their rows is returned."""
        self._tuples: list[Row] = []
        """Tuples of the batch that `take` has begun."""
        self._batch: pa.RecordBatch | None = None
        self._position = 0
        """Number of the tuples that have been returned."""

    @property
    def schema(self) -> pa.Schema:
        """The columns with their types of Arrow. The first chunk is read for it."""
        if self._schema is None:
            self._load_chunk()
        return self._schema

    def take(self, limit: int) -> list[Row]:
        """Return up to `limit` of the next rows; an empty list at the end."""
        rows: list[Row] = []
        while len(rows) < limit:
            if self._position >= len(self._tuples):
                batch = self._next_batch()
                if batch is None:
                    break
                self._batch, self._tuples, self._position = batch, self._to_tuples(batch), 0
            end = self._position + limit - len(rows)
            part = self._tuples[self._position : end]
            rows += part
            self._position += len(part)
        return rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows as record batches with the schema `schema`."""
        if self._position < len(self._tuples):
            assert self._batch is not None
            rest = self._batch.slice(self._position)
            self._position = len(self._tuples)
            yield self._localize(rest)
        while (batch := self._next_batch()) is not None:
            yield self._localize(batch)

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of the remaining rows, which reads the next chunk when it is needed."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def _next_batch(self) -> pa.RecordBatch | None:
        while not self._batches:
            if self._next_chunk >= self._chunks:
                if self._rows_read != self._row_count:
                    raise OperationalError(
                        f"The result has {self._row_count} rows, and {self._rows_read} were read.",
                        code="result_incomplete",
                        statement_id=self._statement_id,
                    )
                return None
            self._load_chunk()
        batch = self._batches.pop()
        self._rows_read += batch.num_rows
        return batch

    def _load_chunk(self) -> None:
        content = self._read_chunk(self._next_chunk)
        with pa.ipc.open_stream(content) as stream:
            self._batches = [batch for batch in stream if batch.num_rows][::-1]
            schema = stream.schema
        if self._schema is None:
            fields = [field.with_type(self._local_type(field.type)) for field in schema]
            self._schema = pa.schema(fields, metadata=schema.metadata)
        self._next_chunk += 1

    def _local_type(self, kind: pa.DataType) -> pa.DataType:
        """Return a type of a column with the time zone of the session in place of UTC."""
        if self._time_zone is not None and pa.types.is_timestamp(kind) and kind.tz is not None:
            return pa.timestamp(kind.unit, self._time_zone)
        return kind

    def _localize(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the schema `schema`. No value is copied."""
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _to_tuples(self, batch: pa.RecordBatch) -> list[Row]:
        try:
            columns = [_to_values(column) for column in self._localize(batch).columns]
        except (ValueError, OverflowError) as error:
            raise DataError(
                f"Python cannot hold a value of the result: {error}.",
                code="value_range",
                sqlstate="22008",
                hint="read it with fetch_arrow_table(), or cast it to STRING",
                statement_id=self._statement_id,
            ) from error
        return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


def _arrow_zone(zone: str) -> str:
    """Return a time zone of Spark as Arrow writes it: `GMT+8` is `+08:00`."""
    match = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?", zone)
    if match is not None:
        return f"{match[1]}{int(match[2]):02}:{match[3] or '00'}"
    return "UTC" if zone == "Z" else zone


def _to_values(column: pa.Array) -> list[Any]:
    """Return the values of a column. Maps are dictionaries, unless their keys cannot be keys."""
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    except TypeError:
        values = column.to_pylist()
    return values


_ARROW_TYPES = {"string": pa.string(), "int": pa.int32(), "boolean": pa.bool_()}


def rows_of_values(
    types: Mapping[str, str], values: Sequence[Row]
) -> tuple[list[dict[str, str]], ArrowRows]:
    """Return the columns, as the API describes those of a result, and rows with these values."""
    arrays = [
        pa.array([row[index] for row in values], _ARROW_TYPES[kind])
        for index, kind in enumerate(types.values())
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(types))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    content = sink.getvalue().to_pybytes()
    rows = ArrowRows(
        lambda _chunk: content, chunks=1, row_count=len(values), time_zone=None, statement_id=""
    )
    return [{"name": name, "type": kind} for name, kind in types.items()], rows
