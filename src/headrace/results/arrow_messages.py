"""Arrow IPC messages that a driver has written, read without trust.

Users' code runs in the driver. Arrow's reader checks the structure of a message, but not its
values: a wrong offset reads foreign memory. A few bytes can also describe a huge batch: by
compression, by buffers that overlap, or by values that need no bytes. A batch is therefore read
with the expected schema only, its values are checked in full, and their number is bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import pyarrow as pa

from headrace.errors import InvalidResult
from headrace.results.batches import (
    MAX_VALUES,
    complete_offsets,
    count_values,
    replace_leaf_types,
)
from headrace.results.layout import build_stored_schema, has_incomplete_struct
from headrace.results.schema import Schema

MAX_BATCH_BYTES = 1 << 30
"""Largest record batch that a node reads; one row can have this size."""
_MAX_SCHEMA_BYTES = 8 << 20
"""Largest size of the schema in a message or a footer."""
_MAGIC = b"ARROW1"
_FILE_START = 8
_TRAILER = struct.Struct(f"<i{len(_MAGIC)}s")
_MESSAGE_START = struct.Struct("<ii")
_BLOCK = struct.Struct("<qi4xq")
# Field numbers of the tables in Arrow's Message.fbs and File.fbs.
_MESSAGE_HEADER_TYPE, _MESSAGE_HEADER = 1, 2
_BATCH_COMPRESSION = 3
_FOOTER_BATCHES = 3
_RECORD_BATCH = 3
"""The record batch in the union `MessageHeader`."""


class Block(NamedTuple):
    """Position of a record batch in an IPC file."""

    offset: int
    metadata_bytes: int
    body_bytes: int


class RandomAccessFile(Protocol):
    """A file that can be read at any position."""

    def seek(self, position: int, whence: int = 0, /) -> int: ...
    def read(self, size: int, /) -> bytes: ...


class StoredBatches:
    """Reads messages with the batches of one result."""

    def __init__(self, schema: Schema) -> None:
        """Build the expected schema. Raise FormatCannotHold if results cannot hold a type."""
        self._types = [column.type for column in schema.columns]
        self._schema = build_stored_schema(schema)
        # Spark's strings need not be valid UTF-8: they are checked as binary values.
        self._unchecked_schema = pa.schema(map(_binary_field, self._schema))

    def check_schema(self, message: pa.ipc.Message) -> None:
        """Raise InvalidResult unless the message is the expected schema."""
        if message.type != "schema":
            raise InvalidResult("The rows do not begin with a schema.")
        if not pa.ipc.read_schema(message).equals(self._schema):
            raise InvalidResult("The rows do not have the schema of the result.")

    def read(self, message: pa.ipc.Message) -> pa.RecordBatch:
        """Return the batch of a message after all checks. Raise InvalidResult."""
        with _convert_errors():
            _check_batch_header(message)
            unchecked = pa.ipc.read_record_batch(message, self._unchecked_schema)
            unchecked.validate(full=True)
            unchecked = complete_offsets(unchecked)
            _check_size(unchecked, 0 if message.body is None else message.body.size)
            if any(map(has_incomplete_struct, unchecked.columns, self._types)):
                raise InvalidResult("A value of a type such as interval or variant has a null.")
            return complete_offsets(pa.ipc.read_record_batch(message, self._schema))


def read_stream(
    data: bytes | bytearray, schema: Schema, *, has_real_names: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the checked batches of an IPC stream. Raise InvalidResult.

    Args:
        has_real_names: Whether a node has written the stream, with the names for clients.
    """
    batches = StoredBatches(schema)
    with _convert_errors():
        messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
        first = messages.read_next_message()
        if not has_real_names:
            batches.check_schema(first)
    while True:
        with _convert_errors():
            try:
                message = messages.read_next_message()
            except StopIteration:
                return
        yield batches.read(message)


class BatchFile:
    """An IPC file with record batches of one schema."""

    def __init__(self, file: RandomAccessFile, schema: Schema, batch_count: int) -> None:
        """Read the footer and compare the schema. Raise InvalidResult, and errors of the file.

        Args:
            batch_count: Number of first batches that can be read. A limit of the result may have
                cut off the batches beyond them.
        """
        self._file = file
        self._batches = StoredBatches(schema)
        self._size = file.seek(0, 2)
        self._blocks = self._read_blocks(batch_count)
        message = self._read_schema_message()
        with _convert_errors():
            self._batches.check_schema(pa.ipc.read_message(pa.py_buffer(message)))

    def read_batch(self, position: int) -> pa.RecordBatch:
        """Return the checked batch at this position. Raise as the constructor does."""
        if (position + 1) * _BLOCK.size > len(self._blocks):
            raise InvalidResult(f"The file has no record batch {position}.")
        block = Block(*_BLOCK.unpack_from(self._blocks, position * _BLOCK.size))
        size = block.metadata_bytes + block.body_bytes
        if min(block) < 0 or size > MAX_BATCH_BYTES or block.offset + size > self._size:
            raise InvalidResult(f"Record batch {position} is not within the file.")
        content = self._read(block.offset, size)
        with _convert_errors():
            message = pa.ipc.read_message(pa.py_buffer(content))
        return self._batches.read(message)

    def _read_schema_message(self) -> bytes:
        """Return the first message of the file, which follows the magic bytes."""
        start = self._read(_FILE_START, _MESSAGE_START.size)
        if len(start) < _MESSAGE_START.size:
            raise InvalidResult("The file is too short for Arrow IPC.")
        _continuation, length = _MESSAGE_START.unpack(start)
        if not 0 < length <= _MAX_SCHEMA_BYTES:
            raise InvalidResult("The file has no schema.")
        return start + self._read(_FILE_START + _MESSAGE_START.size, length)

    def _read_blocks(self, batch_count: int) -> bytes:
        """Return the first blocks of the footer, which has 24 bytes for each."""
        if self._size < _FILE_START + _TRAILER.size:
            raise InvalidResult("The file is too short for Arrow IPC.")
        trailer = self._read(self._size - _TRAILER.size, _TRAILER.size)
        length, magic = _TRAILER.unpack(trailer)
        start = self._size - _TRAILER.size - length
        limit = _MAX_SCHEMA_BYTES + batch_count * _BLOCK.size
        if magic != _MAGIC or not 0 < length <= limit or start < _FILE_START:
            raise InvalidResult("The file is not Arrow IPC.")
        footer = _Table.root(self._read(start, length))
        return footer.structs(_FOOTER_BATCHES, _BLOCK.size, batch_count)

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        return bytes(self._file.read(size))


def _check_batch_header(message: pa.ipc.Message) -> None:
    """Raise InvalidResult unless the message is a record batch that is not compressed."""
    metadata = _Table.root(message.metadata.to_pybytes())
    if metadata.byte(_MESSAGE_HEADER_TYPE) != _RECORD_BATCH:
        raise InvalidResult("The rows contain a message that is not a record batch.")
    header = metadata.table(_MESSAGE_HEADER)
    if header is None or header.table(_BATCH_COMPRESSION) is not None:
        raise InvalidResult("A record batch is compressed.")


def _check_size(batch: pa.RecordBatch, body_bytes: int) -> None:
    """Raise InvalidResult if a valid batch is much larger than the message from which it is."""
    if batch.nbytes > body_bytes:
        raise InvalidResult("Buffers of a record batch overlap.")
    if count_values(batch) > max(MAX_VALUES, body_bytes):
        raise InvalidResult(f"A record batch has more than {MAX_VALUES} values without bytes.")


def _binary_field(field: pa.Field) -> pa.Field:
    """Return a field of the same layout in which every string is binary."""
    return field.with_type(replace_leaf_types(field.type, _binary_leaf))


def _binary_leaf(type_: pa.DataType) -> pa.DataType:
    return pa.binary() if pa.types.is_string(type_) else type_


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Raise InvalidResult for every error of Arrow: the block reads no file."""
    try:
        yield
    except InvalidResult:
        raise
    except Exception as error:
        reason = str(error)[:200] or type(error).__name__
        raise InvalidResult(f"The rows are not valid Arrow IPC: {reason}") from error


class _Table(NamedTuple):
    """A table of a FlatBuffer, in which every access is checked."""

    buffer: bytes
    position: int

    @classmethod
    def root(cls, buffer: bytes) -> _Table:
        return cls(buffer, _unpack("<I", buffer, 0))

    def byte(self, number: int) -> int:
        position = self._find(number)
        return 0 if position is None else _unpack("<B", self.buffer, position)

    def table(self, number: int) -> _Table | None:
        position = self._find(number)
        if position is None:
            return None
        return _Table(self.buffer, position + _unpack("<I", self.buffer, position))

    def structs(self, number: int, size: int, count: int) -> bytes:
        """Return the first structs of the vector in a field: at most `count` of this size."""
        position = self._find(number)
        if position is None:
            return b""
        start = position + _unpack("<I", self.buffer, position)
        end = start + 4 + min(count, _unpack("<I", self.buffer, start)) * size
        if end > len(self.buffer):
            raise InvalidResult("The footer of the file is not valid.")
        return self.buffer[start + 4 : end]

    def _find(self, number: int) -> int | None:
        """Return the position of a field; None if the table does not have it."""
        vtable = self.position - _unpack("<i", self.buffer, self.position)
        entry = 4 + 2 * number
        if entry + 2 > _unpack("<H", self.buffer, vtable):
            return None
        offset = _unpack("<H", self.buffer, vtable + entry)
        return self.position + offset if offset else None


def _unpack(form: str, buffer: bytes, position: int) -> int:
    if not 0 <= position <= len(buffer) - struct.calcsize(form):
        raise InvalidResult("The metadata of the rows are not valid.")
    value: int = struct.unpack_from(form, buffer, position)[0]
    return value
