"""Arrow IPC messages that a driver has written, read without trust.

Users' code runs in the driver. Arrow's reader checks the structure of a message, but not its
values: a wrong offset reads foreign memory. A compressed buffer can also expand without limit. A
batch is therefore read with the expected schema only, and its values are checked in full.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import pyarrow as pa

from headrace.errors import InvalidResult
from headrace.results.batches import replace_leaf_types

MAX_BATCH_BYTES = 1 << 30
"""Largest record batch that a node reads; one row can have this size."""
MAX_BATCH_ROWS = 1 << 26
"""Largest number of rows of a record batch. Columns without values need no bytes."""
_MAX_FOOTER_BYTES = 64 << 20
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


def read_stream(data: bytes, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the checked batches of an IPC stream. Raise InvalidResult."""
    with _convert_errors():
        messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
        _check_schema(messages.read_next_message(), schema)
    while True:
        with _convert_errors():
            try:
                message = messages.read_next_message()
            except StopIteration:
                return
        yield _read_batch(message, schema)


class BatchFile:
    """An IPC file with record batches of one schema."""

    def __init__(self, file: RandomAccessFile, schema: pa.Schema) -> None:
        """Read the footer and compare the schema. Raise InvalidResult, and errors of the file."""
        self._file = file
        self._schema = schema
        self._size = file.seek(0, 2)
        self._blocks = self._read_blocks()
        message = self._read_schema_message()
        with _convert_errors():
            _check_schema(pa.ipc.read_message(pa.py_buffer(message)), schema)

    def read_batch(self, position: int) -> pa.RecordBatch:
        """Return the checked batch at this position. Raise as the constructor does."""
        if position >= len(self._blocks):
            raise InvalidResult(f"The file has no record batch {position}.")
        block = self._blocks[position]
        size = block.metadata_bytes + block.body_bytes
        if min(block) < 0 or size > MAX_BATCH_BYTES or block.offset + size > self._size:
            raise InvalidResult(f"Record batch {position} is not within the file.")
        content = self._read(block.offset, size)
        with _convert_errors():
            message = pa.ipc.read_message(pa.py_buffer(content))
        return _read_batch(message, self._schema)

    def _read_schema_message(self) -> bytes:
        """Return the first message of the file, which follows the magic bytes."""
        start = self._read(_FILE_START, _MESSAGE_START.size)
        if len(start) < _MESSAGE_START.size:
            raise InvalidResult("The file is too short for Arrow IPC.")
        _continuation, length = _MESSAGE_START.unpack(start)
        if not 0 < length <= _MAX_FOOTER_BYTES:
            raise InvalidResult("The file has no schema.")
        return start + self._read(_FILE_START + _MESSAGE_START.size, length)

    def _read_blocks(self) -> list[Block]:
        if self._size < _FILE_START + _TRAILER.size:
            raise InvalidResult("The file is too short for Arrow IPC.")
        trailer = self._read(self._size - _TRAILER.size, _TRAILER.size)
        length, magic = _TRAILER.unpack(trailer)
        start = self._size - _TRAILER.size - length
        if magic != _MAGIC or not 0 < length <= _MAX_FOOTER_BYTES or start < _FILE_START:
            raise InvalidResult("The file is not Arrow IPC.")
        footer = _Table.root(self._read(start, length))
        return [Block(*fields) for fields in footer.structs(_FOOTER_BATCHES, _BLOCK)]

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        return bytes(self._file.read(size))


def _check_schema(message: pa.ipc.Message, expected: pa.Schema) -> None:
    if message.type != "schema":
        raise InvalidResult("The rows do not begin with a schema.")
    if not pa.ipc.read_schema(message).equals(expected):
        raise InvalidResult("The rows do not have the schema of the result.")


def _read_batch(message: pa.ipc.Message, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch of a message after all checks. Raise InvalidResult."""
    with _convert_errors():
        metadata = _Table.root(message.metadata.to_pybytes())
        if metadata.byte(_MESSAGE_HEADER_TYPE) != _RECORD_BATCH:
            raise InvalidResult("The rows contain a message that is not a record batch.")
        header = metadata.table(_MESSAGE_HEADER)
        if header is None or header.table(_BATCH_COMPRESSION) is not None:
            raise InvalidResult("A record batch is compressed.")
        # Spark's strings need not be valid UTF-8: check them as binary values.
        unchecked = pa.ipc.read_record_batch(message, pa.schema(map(_binary_field, schema)))
        if unchecked.num_rows > MAX_BATCH_ROWS:
            raise InvalidResult(f"A record batch has more than {MAX_BATCH_ROWS} rows.")
        unchecked.validate(full=True)
        return pa.ipc.read_record_batch(message, schema)


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

    def structs(self, number: int, form: struct.Struct) -> list[tuple[int, ...]]:
        """Return the vector of structs in a field."""
        position = self._find(number)
        if position is None:
            return []
        start = position + _unpack("<I", self.buffer, position)
        end = start + 4 + _unpack("<I", self.buffer, start) * form.size
        if end > len(self.buffer):
            raise InvalidResult("The footer of the file is not valid.")
        return list(form.iter_unpack(self.buffer[start + 4 : end]))

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
