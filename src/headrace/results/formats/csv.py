"""CSV as in RFC 4180: UTF-8, lines that end in CRLF, and a header line.

NULL is an empty field, and an empty string is `""`. Nested values and variants are JSON text. Other
values have the same text as in JSON, without the quotes.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import FormatCannotHold
from headrace.results.json_encoding import NumberFormat, check_field_names, encode_column
from headrace.results.reader import Rows, Selection, select_batches
from headrace.results.schema import SparkType, TypeKind
from headrace.results.text_encoding import encode_text

_FORMULA = "^[=+\\-@\\t\\r]"
_NEEDS_QUOTES = '[",\\r\\n]|^$'
_JSON_KINDS = frozenset(
    {TypeKind.ARRAY, TypeKind.MAP, TypeKind.STRUCT, TypeKind.GEOMETRY, TypeKind.GEOGRAPHY}
)
_UNQUOTED_KINDS = frozenset(
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


def write(rows: Rows, selection: Selection, *, header: bool = True) -> Iterator[bytes]:
    """Write the selected rows, below a header line.

    Raises FormatCannotHold for rows without columns and for huge field names, and the errors of
    `Rows`.
    """
    batches = select_batches(rows, selection)
    return _write_lines(rows, batches, header=header)


def write_for_excel(rows: Rows, selection: Selection) -> Iterator[bytes]:
    """Write the selected rows for Excel: behind a mark for UTF-8, and with no text as a formula.

    Excel runs a text that begins as a formula does. An apostrophe before it shows the text; numbers
    stay as they are. Raises as `write` does.
    """
    lines = _write_lines(rows, select_batches(rows, selection), header=True, escapes_formulas=True)
    return chain([codecs.BOM_UTF8], lines)


def _write_lines(
    rows: Rows,
    batches: Iterator[pa.RecordBatch],
    *,
    header: bool,
    escapes_formulas: bool = False,
) -> Iterator[bytes]:
    types = [column.type for column in rows.schema.columns]
    if header and types:
        names = _quote(_escape(pa.array(rows.schema.names, pa.string()), escapes_formulas))
        yield ",".join(names.to_pylist()).encode() + b"\r\n"
    for batch in batches:
        if not batch.num_rows:
            continue
        if not types:
            raise FormatCannotHold("CSV cannot hold rows without columns. Read them as JSON.")
        check_field_names(batch, types)
        columns = [
            _encode_fields(array, spark_type, escapes_formulas=escapes_formulas)
            for array, spark_type in zip(batch.columns, types, strict=True)
        ]
        lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, ","), "", "\r\n")
        lists = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
        yield pc.binary_join(lists, "")[0].as_buffer().to_pybytes()


def show_column(array: pa.Array, spark_type: SparkType) -> pa.Array:
    """Return each value as the text of its field, without quotes; NULL stays null."""
    if spark_type.kind not in _JSON_KINDS:
        return encode_text(array, spark_type)
    return pc.if_else(
        array.is_valid(),
        encode_column(array, spark_type, numbers=NumberFormat.TEXT),
        pa.scalar(None, pa.string()),
    )


def _encode_fields(array: pa.Array, spark_type: SparkType, *, escapes_formulas: bool) -> pa.Array:
    text = show_column(array, spark_type)
    if spark_type.kind not in _UNQUOTED_KINDS:
        is_number = spark_type.kind is TypeKind.DECIMAL
        text = _quote(text if is_number else _escape(text, escapes_formulas))
    return pc.fill_null(text, "")


def _escape(text: pa.Array, is_wanted: bool) -> pa.Array:
    if not is_wanted:
        return text
    escaped = pc.binary_join_element_wise("'", text, "")
    return pc.if_else(pc.match_substring_regex(text, _FORMULA), escaped, text)


def _quote(text: pa.Array) -> pa.Array:
    """Return the fields, in quotes where RFC 4180 requires them or the string is empty."""
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
    return pc.if_else(pc.match_substring_regex(text, _NEEDS_QUOTES), quoted, text)
