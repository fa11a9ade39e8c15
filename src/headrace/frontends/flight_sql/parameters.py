"""Parameters of prepared statements: rows of Arrow, as typed values of Spark SQL."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from headrace.errors import InvalidRequest
from headrace.grammar.lexer import Token, TokenKind
from headrace.model.statement import Parameter


class Markers:
    """The places of parameters in a text: `?`, or `:name`, in order."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        """Find them. A colon behind a name or a bracket is a path into a variant."""
        self.count = sum(token.word == "?" for token in tokens)
        """Number of `?`."""
        self.names: list[str] = []
        """Names of the others, each once."""
        for number, token in enumerate(tokens[:-1]):
            following = tokens[number + 1]
            before = tokens[number - 1] if number else None
            touches = before is not None and before.end == token.start
            is_path = before is not None and touches and _ends_value(before)
            is_marker = token.word == ":" and following.kind is TokenKind.WORD and not is_path
            name = text[following.start : following.end]
            if is_marker and following.start == token.end and name not in self.names:
                self.names.append(name)

    @property
    def nulls(self) -> list[Parameter]:
        """NULL for each marker."""
        named = [Parameter(name=name) for name in self.names]
        return named or [Parameter() for _ in range(self.count)]

    @property
    def schema(self) -> pa.Schema:
        """A column for each marker. Spark does not say its type: it converts texts."""
        names = self.names or [f"parameter_{number + 1}" for number in range(self.count)]
        return pa.schema([pa.field(name, pa.string()) for name in names])

    def bind(self, row: Sequence[Parameter]) -> list[Parameter]:
        """Return the values of a row, as the text takes them. Raise InvalidRequest."""
        expected = len(self.names) or self.count
        if len(row) != expected:
            raise InvalidRequest(
                f"The statement has {expected} parameters, and {len(row)} values were bound."
            )
        if not self.names:
            return [each.model_copy(update={"name": None}) for each in row]
        if {each.name for each in row} == set(self.names):
            return list(row)
        # Clients without names number their values.
        return [
            each.model_copy(update={"name": name})
            for each, name in zip(row, self.names, strict=True)
        ]


def _ends_value(token: Token) -> bool:
    return token.kind in {TokenKind.WORD, TokenKind.QUOTED} or token.word in {":", ")", "]"}


def read_rows(table: pa.Table) -> list[list[Parameter]]:
    """Return the parameters of each row, with the names of the columns.

    Raises InvalidRequest if Spark has no type like that of a column.
    """
    columns = [
        _read_column(name, column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _read_column(name: str, column: pa.ChunkedArray) -> list[Parameter]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _has_nanoseconds(column.type):
        column = column.cast(_in_microseconds(column.type), safe=False)
    kind, encode = _encoding(column.type, name)
    return [
        Parameter(name=name, value=None if value is None else encode(value), type=kind)
        for value in column.to_pylist()
    ]


def _has_nanoseconds(type_: pa.DataType) -> bool:
    is_fine = pa.types.is_timestamp(type_) or pa.types.is_duration(type_)
    return bool((is_fine or pa.types.is_time64(type_)) and type_.unit == "ns")


def _in_microseconds(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", tz=type_.tz)
    return pa.duration("us") if pa.types.is_duration(type_) else pa.time64("us")


def _encoding(type_: pa.DataType, name: str) -> tuple[str | None, Callable[[Any], Any]]:
    """Return the type of Spark for a type of Arrow, and how a value is written in JSON."""
    if pa.types.is_null(type_):
        return None, _as_it_is
    if type_ in _PLAIN_TYPES:
        return _PLAIN_TYPES[type_]
    for is_kind, kind, encode in _ENCODINGS:
        if is_kind(type_):
            return kind(type_), encode
    is_list = pa.types.is_list(type_) or pa.types.is_large_list(type_)
    if is_list and not pa.types.is_nested(type_.value_type):
        element, encode = _encoding(type_.value_type, name)
        if element != "BINARY":
            return f"ARRAY<{element or 'STRING'}>", lambda values: [
                None if value is None else encode(value) for value in values
            ]
    raise InvalidRequest(
        f"Parameter {name[:100]!r} has the type {str(type_)[:100]}, which no parameter can have."
    )


_MAX_DIGITS = 38


def _as_it_is(value: Any) -> Any:
    return value


def _write_float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _write_bytes(value: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(value).decode()}


def _write_interval(value: timedelta) -> str:
    micros = value // timedelta(microseconds=1)
    seconds, rest = divmod(abs(micros), 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    sign = "-" if micros < 0 else ""
    return f"{sign}{days} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}"


def _is_text(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)
    )


def _is_bytes(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(type_)
        or types.is_large_binary(type_)
        or types.is_fixed_size_binary(type_)
        or types.is_binary_view(type_)
    )


def _is_decimal(type_: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(type_)) and type_.precision <= _MAX_DIGITS


_PLAIN_TYPES: dict[pa.DataType, tuple[str, Callable[[Any], Any]]] = {
    pa.bool_(): ("BOOLEAN", _as_it_is),
    pa.int8(): ("TINYINT", _as_it_is),
    pa.int16(): ("SMALLINT", _as_it_is),
    pa.int32(): ("INT", _as_it_is),
    pa.int64(): ("BIGINT", _as_it_is),
    pa.uint8(): ("SMALLINT", _as_it_is),
    pa.uint16(): ("INT", _as_it_is),
    pa.uint32(): ("BIGINT", _as_it_is),
    pa.uint64(): ("DECIMAL(20,0)", str),
    pa.float16(): ("FLOAT", _write_float),
    pa.float32(): ("FLOAT", _write_float),
    pa.float64(): ("DOUBLE", _write_float),
    pa.date32(): ("DATE", str),
    pa.date64(): ("DATE", str),
}
_ENCODINGS: list[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], str], Callable[[Any], Any]]
] = [
    (_is_text, lambda _type: "STRING", _as_it_is),
    (_is_bytes, lambda _type: "BINARY", _write_bytes),
    (pa.types.is_time, lambda _type: "TIME(6)", lambda value: value.isoformat()),
    (pa.types.is_duration, lambda _type: "INTERVAL DAY TO SECOND", _write_interval),
    (
        pa.types.is_timestamp,
        lambda type_: "TIMESTAMP_NTZ" if type_.tz is None else "TIMESTAMP",
        lambda value: value.isoformat(" "),
    ),
    (
        _is_decimal,
        lambda type_: f"DECIMAL({type_.precision},{max(type_.scale, 0)})",
        lambda value: f"{value:f}",
    ),
]
