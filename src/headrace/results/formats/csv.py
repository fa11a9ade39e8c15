"""CSV after RFC 4180, with a header line: UTF-8, CRLF.

NULL is an empty field, an empty string is `""`. Nested values and variants are JSON text; the other
types read as in JSON, without its quotes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import FormatCannotHold
from headrace.results.formats.select import select_batches
from headrace.results.json_encoding import NumberFormat, encode_column
from headrace.results.reader import Rows
from headrace.results.schema import SparkType, TypeKind
from headrace.results.text_encoding import encode_text

MEDIA_TYPE = "text/csv"

_TO_QUOTE = '[",\\r\\n]|^$'
_NESTED = frozenset(
    {TypeKind.ARRAY, TypeKind.MAP, TypeKind.STRUCT, TypeKind.GEOMETRY, TypeKind.GEOGRAPHY}
)
_SAFE = frozenset(
    {
        TypeKind.BOOLEAN,
        TypeKind.BYTE,
        TypeKind.SHORT,
        TypeKind.INTEGER,
        TypeKind.LONG,
        TypeKind.FLOAT,
        TypeKind.DOUBLE,
    }
)


def write(rows: Rows, chunk: int | None, *, header: bool = True) -> Iterator[bytes]:
    """The lines of one chunk, or of the whole result; every chunk has its own header.

    Raises FormatCannotHold for rows without columns, and as `Rows` does.
    """
    batches = select_batches(rows, chunk)
    return _lines(rows, batches, header=header)


def _lines(rows: Rows, batches: Iterator[pa.RecordBatch], *, header: bool) -> Iterator[bytes]:
    kinds = [column.type for column in rows.schema.columns]
    if header and kinds:
        names = _quoted(pa.array(rows.schema.names, pa.string())).to_pylist()
        yield ",".join(names).encode() + b"\r\n"
    for batch in batches:
        if not batch.num_rows:
            continue
        if not kinds:
            raise FormatCannotHold("CSV cannot hold rows that have no columns: read them as JSON")
        columns = [_field(array, kind) for array, kind in zip(batch.columns, kinds, strict=True)]
        lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, ","), "", "\r\n")
        lists = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
        yield pc.binary_join(lists, "")[0].as_buffer().to_pybytes()


def _field(array: pa.Array, kind: SparkType) -> pa.Array:
    if kind.kind in _NESTED:
        text = pc.if_else(
            array.is_valid(),
            encode_column(array, kind, numbers=NumberFormat.TEXT),
            pa.scalar(None, pa.string()),
        )
    else:
        text = encode_text(array, kind)
    return pc.fill_null(text if kind.kind in _SAFE else _quoted(text), "")


def _quoted(text: pa.Array) -> pa.Array:
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
    return pc.if_else(pc.match_substring_regex(text, _TO_QUOTE), quoted, text)
