"""The rows of operations, a part per call. Clients keep no position of their own.

The store has the position of a client, so that another node continues: it is written before the
rows are sent. A node also keeps the next rows in memory; another node may have sent them meanwhile,
which the write then notices. A client that numbers its calls may send a call again when it gets no
answer, also to another node: it then gets the same rows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import InvalidRequest
from headrace.frontends.hiveserver2.handles import ClientOption, Handle
from headrace.frontends.hiveserver2.listings import MetadataCall, read_rows, schema_of
from headrace.frontends.hiveserver2.rows import write_arrow, write_columns, write_rows
from headrace.frontends.hiveserver2.wire import load_protocol
from headrace.model.connection import Cursor
from headrace.model.statement import Statement
from headrace.results.batches import count_rows_within
from headrace.results.layout import build_stored_schema
from headrace.results.reader import RowRange
from headrace.results.schema import Schema, SparkType, TypeKind, parse_schema

_MAX_BYTES = 8 * 1024 * 1024
"""Largest size of the rows of one answer: some clients refuse messages above 16 MB."""
_MAX_WHOLE_BYTES = 32 * 1024 * 1024
"""Largest size of a whole result in one answer."""
_MAX_ROWS = 100_000
"""Largest number of rows of one answer."""
_FIRST_WITH_COLUMNS = 5
"""Version of the protocol (0 is the first) from which on clients read columns."""
_MAX_OPEN = 64
"""Operations whose next rows are kept in memory."""
_UTC = "UTC"
_LINE = SparkType(TypeKind.STRING, "string")
_BEGIN = Cursor(0, 0, 0)


@dataclass
class _Reading:
    """The rows of an operation that follow what its client has been sent."""

    schema: Schema
    cursor: Cursor
    batches: Iterator[pa.RecordBatch]
    statement: Statement | None
    """The statement; None if the handle has none."""
    stored: Cursor | None = None
    """What the store has as the position of the client; None if it has none."""
    rest: pa.RecordBatch | None = None
    """Rows that have been read, and not sent."""

    def take(self, limit: int) -> pa.RecordBatch:
        """Return the next rows, of one batch; no rows at the end."""
        while self.rest is None or not self.rest.num_rows:
            self.rest = next(self.batches, None)
            if self.rest is None:
                return _empty(self.schema)
        wanted = self.rest.slice(0, limit)
        taken = wanted.slice(0, max(count_rows_within(wanted, _MAX_BYTES), 1))
        self.rest = self.rest.slice(taken.num_rows)
        return taken

    def take_all(self) -> pa.RecordBatch:
        """Return all rows that follow. Raise AnswerTooLarge if they are too large for an answer."""
        parts, size = list[pa.RecordBatch](), 0
        while (part := self.take(_MAX_ROWS)).num_rows:
            parts.append(part)
            size += part.nbytes
            if size > _MAX_WHOLE_BYTES:
                raise AnswerTooLarge(
                    f"The rows have more than {_MAX_WHOLE_BYTES} bytes. A client of the first"
                    " version of HiveServer2's protocol reads them in one answer.",
                    hint="Select fewer rows, or connect with another driver.",
                )
        whole = pa.Table.from_batches([*parts, part]).combine_chunks().to_batches()
        return whole[0] if whole else part


class AnswerTooLarge(InvalidRequest):
    """The rows are too large for the client's version of the protocol."""

    code = "answer_too_large"


def _empty(schema: Schema) -> pa.RecordBatch:
    stored = build_stored_schema(schema)
    return pa.record_batch([pa.array([], field.type) for field in stored], schema=stored)


def _all_rows(statement: Statement, position: int = 0) -> RowRange:
    """Return the range of the rows from a position on."""
    assert statement.result is not None
    return RowRange(position, max(1, statement.result.row_count))


def _write(handle: Handle) -> Callable[..., bytes]:
    """Return the function that writes rows as a client reads them."""
    if handle.version < _FIRST_WITH_COLUMNS:
        return write_rows
    return write_arrow if handle.options & ClientOption.ARROW else write_columns


def write_lines(lines: Sequence[str], version: int) -> bytes:
    """Return the lines of a log as a `TRowSet`."""
    batch = pa.record_batch([pa.array(lines, pa.string())], ["_0"])
    return _write(Handle("", version))(batch, [_LINE], start=0, zone=_UTC)


class Fetches:
    """What the clients of one node read. Its methods run in threads that read results."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._readings: OrderedDict[tuple[Caller, Handle], _Reading] = OrderedDict()
        self._lock = threading.Lock()

    def forget(self, caller: Caller, handle: Handle) -> None:
        """Free what is kept in memory for an operation."""
        with self._lock:
            self._readings.pop((caller, handle), None)

    def expect(self, caller: Caller, handle: Handle, statement: Statement, data: bytes) -> None:
        """Keep the rows of an inline result whose client has them not yet."""
        assert statement.result is not None
        schema = parse_schema(statement.result.spark_schema)
        batches = self._open_inline(caller, statement, data)
        self._keep(caller, handle, _Reading(schema, _BEGIN, batches, statement))

    def find(self, caller: Caller, handle: Handle) -> Statement | None:
        """Return the statement whose rows this caller reads at this node; None: not known."""
        reading = self._readings.get((caller, handle))
        return None if reading is None else reading.statement

    def read(
        self, caller: Caller, handle: Handle, statement: Statement | None, request: Any, number: int
    ) -> tuple[bool, bytes]:
        """Return whether there were rows, and the next rows as a `TRowSet`.

        Args:
            statement: The statement of the handle; None if it has none.
            number: Number of the client's call; 0: it does not number its calls.

        Raises InvalidRequest for an orientation other than FETCH_NEXT and FETCH_FIRST, and the
        errors of `Statements.open_result`.
        """
        orientation = load_protocol().TFetchOrientation
        if request.orientation not in {orientation.FETCH_NEXT, orientation.FETCH_FIRST}:
            raise InvalidRequest("Only FETCH_NEXT and FETCH_FIRST are supported.")
        from_first = request.orientation == orientation.FETCH_FIRST
        # A client of the first version (ADBC's for Spark) asks for the first rows again and again,
        # as long as there are more.
        takes_all = from_first and handle.version == 0
        limit = min(request.maxRows, _MAX_ROWS) if request.maxRows > 0 else _MAX_ROWS
        with self._lock:
            known = self._readings.pop((caller, handle), None)
        while True:
            reading = self._seek(caller, handle, statement, known, number, from_first=from_first)
            start = reading.cursor.end
            rows = reading.take_all() if takes_all else reading.take(limit)
            reading.cursor = Cursor(start, start + rows.num_rows, number)
            if statement is None or self._confirm(caller, statement, reading):
                break
            # Another node has sent rows of this result.
            known = None
        self._keep(caller, handle, reading)
        result = None if statement is None else statement.result
        zone = (None if result is None else result.time_zone) or _UTC
        types = [column.type for column in reading.schema.columns]
        return rows.num_rows > 0 and not takes_all, _write(handle)(
            rows, types, start=start, zone=zone
        )

    def _seek(
        self,
        caller: Caller,
        handle: Handle,
        statement: Statement | None,
        known: _Reading | None,
        number: int,
        *,
        from_first: bool,
    ) -> _Reading:
        """Return what follows the position of a client, which `known` or the store has."""
        if known is None:
            stored = None if statement is None else self._node.cursors.find(caller, statement)
            cursor = stored or _BEGIN
        else:
            stored, cursor = known.stored, known.cursor
        is_repeated = number > 0 and number == cursor.sequence
        if known is not None and not is_repeated and not from_first:
            return known
        position = cursor.start if is_repeated else cursor.end
        reading = self._open(caller, handle, statement, 0 if from_first else position)
        reading.stored = stored
        return reading

    def _confirm(self, caller: Caller, statement: Statement, reading: _Reading) -> bool:
        """Store the position after rows were taken; return whether it was where the store says."""
        cursor, cursors = reading.cursor, self._node.cursors
        if cursor.start == cursor.end:
            # Nothing to store at the end: a client that asks again gets no rows again.
            return cursors.find(caller, statement) == reading.stored
        if not cursors.save(caller, statement, cursor, previous=reading.stored):
            return False
        reading.stored = cursor
        return True

    def _keep(self, caller: Caller, handle: Handle, reading: _Reading) -> None:
        with self._lock:
            self._readings[caller, handle] = reading
            while len(self._readings) > _MAX_OPEN:
                self._readings.popitem(last=False)

    def _open_inline(
        self, caller: Caller, statement: Statement, data: bytes
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an inline result. It counts as read when the first one is wanted."""
        selection = _all_rows(statement)
        rows = self._node.statements.open_result(caller, statement, selection=selection, data=data)
        yield from rows.select(selection)

    def _open(
        self, caller: Caller, handle: Handle, statement: Statement | None, position: int
    ) -> _Reading:
        cursor = Cursor(position, position, 0)
        statements = self._node.statements
        if handle.listing:
            listing = MetadataCall(handle.listing)
            found = None if statement is None else statements.open_result(caller, statement)
            text = "" if statement is None else statement.spec.text
            rows = read_rows(listing, found, text, handle.types)
            return _Reading(schema_of(listing), cursor, iter([rows.slice(position)]), statement)
        assert statement is not None
        selection = _all_rows(statement, position)
        stored = statements.open_result(caller, statement, selection=selection)
        return _Reading(stored.schema, cursor, stored.select(selection), statement)
