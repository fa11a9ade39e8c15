"""Hypothesis strategies for forged messages, drawn from the models of the link.

A new call or a new field of a message is attacked without a change here.
"""

from __future__ import annotations

import base64
import builtins
import types
import typing
from collections.abc import Iterable
from enum import Enum
from typing import Any, get_args, get_origin

import pyarrow as pa
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.support.made_results import inline_result, spark_schema

Json = Any
COLUMNS = [("n", "long"), ("s", "string")]
_REPORT = inline_result(COLUMNS, [[1, "a"], [2, "bc"]])
assert _REPORT.data is not None
_OFFSETS = b"".join(number.to_bytes(4, "little") for number in (0, 1, 3))
_FAR_OFFSETS = b"".join(number.to_bytes(4, "little") for number in (0, 1, 2**30))


def _write_stream(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    write_options = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(sink, batch.schema, options=write_options) as stream:
        stream.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


_ZEROS = pa.record_batch([pa.array([0] * 100_000), pa.array(["0" * 50] * 100_000)], ["_0", "_1"])
ROWS = [
    _REPORT.data,
    _REPORT.data.replace(_OFFSETS, _FAR_OFFSETS),
    _REPORT.data[:-40],
    _REPORT.data + _REPORT.data,
    _write_stream(_ZEROS, compression="zstd"),
    _write_stream(pa.record_batch([pa.array([1])], ["_0"])),
    b"",
    b"\xff" * 4096,
]
SCHEMAS: list[Json] = [
    spark_schema(COLUMNS),
    spark_schema([("n", "decimal(10,2)"), ("s", "string")]),
    spark_schema([("n", f"decimal({'9' * 5000},0)")]),
    {"type": "struct", "fields": [{"name": 1, "type": 2, "nullable": 3}]},
    {"type": "struct", "fields": [None]},
    {},
]
NUMBERS = [0, 1, 2, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**400, 1.5, 1e308]


def _nest(depth: int) -> Json:
    value: Json = 0
    for _ in range(depth):
        value = [value]
    return value


class Forger:
    """Draws messages whose texts name rows of others, paths, URLs and worse."""

    def __init__(self, ids: Iterable[str], texts: Iterable[str]) -> None:
        """Create a forger.

        Args:
            ids: Ids of existing rows.
            texts: Paths, URLs and names that must not be touched.
        """
        forged = [*texts, "..", "../../x", "", "\0", "a\0b", "\u2028", "x" * 70_000, "1" * 5000]
        self._texts = st.sampled_from([*ids, *forged])
        self._ids = st.sampled_from(sorted(ids))
        self._numbers = st.sampled_from(NUMBERS)
        self._anything = st.one_of(
            st.none(),
            st.booleans(),
            self._numbers,
            self._texts,
            st.sampled_from([[], {}, _nest(50), _nest(500), SCHEMAS[0]]),
        )

        numbers = st.one_of(st.integers(0, 3), self._numbers)
        self._by_type: dict[type, st.SearchStrategy[Json]] = {
            type(None): st.none(),
            bool: st.booleans(),
            bytes: st.sampled_from([base64.b64encode(rows).decode() for rows in ROWS]),
            int: numbers,
            float: numbers,
            str: self._texts,
        }

    def message(self, model: type[BaseModel]) -> st.SearchStrategy[dict[str, Json]]:
        """Return a strategy for the JSON of a message, with some fields wrong or missing."""
        required = {
            name: self._field(name, field.annotation)
            for name, field in model.model_fields.items()
            if field.is_required()
        }
        optional = {
            name: self._field(name, field.annotation)
            for name, field in model.model_fields.items()
            if not field.is_required()
        }
        return st.fixed_dictionaries(required, optional=optional)

    def _field(self, name: str, annotation: Any) -> st.SearchStrategy[Json]:
        """Return values of the field's type nine times of ten, and anything otherwise."""
        if name == "spark_schema":
            return st.sampled_from(SCHEMAS)
        expected = self._value(annotation, is_id=name.endswith("id") or name == "committed")
        return st.integers(0, 9).flatmap(lambda draw: expected if draw else self._anything)

    def _value(self, annotation: Any, *, is_id: bool = False) -> st.SearchStrategy[Json]:
        """Return values of a type."""
        arguments = get_args(annotation)
        match get_origin(annotation):
            case typing.Annotated:
                values = self._value(arguments[0], is_id=is_id)
            case typing.Union | types.UnionType:
                values = st.one_of([self._value(argument, is_id=is_id) for argument in arguments])
            case builtins.list:
                values = st.lists(self._value(arguments[0], is_id=True), max_size=3)
            case builtins.dict:
                keys = st.one_of(self._ids, self._texts)
                values = st.dictionaries(keys, self._value(arguments[1]), max_size=3)
            case None if isinstance(annotation, type):
                values = self._instance(annotation, is_id=is_id)
            case _:
                values = self._anything
        return values

    def _instance(self, kind: type, *, is_id: bool) -> st.SearchStrategy[Json]:
        if issubclass(kind, BaseModel):
            return self.message(kind)
        if issubclass(kind, Enum):
            return st.sampled_from([member.value for member in kind])
        if kind is str and is_id:
            return st.one_of(self._ids, self._texts)
        return self._by_type.get(kind, self._anything)
