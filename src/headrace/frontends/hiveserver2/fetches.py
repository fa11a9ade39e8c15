"""The rows of operations, a part per call. The position of a client is kept on the server."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import InvalidRequest
from headrace.frontends.hiveserver2.handles import Handle
from headrace.frontends.hiveserver2.listings import Listing, read_rows, schema_of
from headrace.frontends.hiveserver2.rows import write_columns, write_rows
from headrace.frontends.hiveserver2.wire import load_protocol
from headrace.model.statement import Statement
from headrace.results.batches import count_rows_within
from headrace.results.layout import build_stored_schema
from headrace.results.reader import RowRange
from headrace.results.schema import Schema, parse_schema

_MAX_BYTES = 8 * 1024 * 1024
"""Largest size of the rows of one answer: some clients refuse messages above 16 MB."""
_MAX_ROWS = 100_000
"""Largest number of rows of one answer."""
_FIRST_WITH_COLUMNS = 5
"""Version of the protocol (0 is the first) from which on clients read columns."""
_MAX_OPEN = 64
"""Operations whose next rows are kept in memory."""
_UTC = "UTC"


@dataclass
class _OpenRows:
    """The rows of an operation from a position on."""

    schema: Schema
    position: int
    batches: Iterator[pa.RecordBatch]
    rest: pa.RecordBatch | None = None
    """Rows that have been read, and not sent."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, limit: int) -> pa.RecordBatch | None:
        """Return the next rows, of one batch; None at the end."""
        while self.rest is None or not self.rest.num_rows:
            self.rest = next(self.batches, None)
            if self.rest is None:
                return None
        wanted = self.rest.slice(0, limit)
        taken = wanted.slice(0, max(count_rows_within(wanted, _MAX_BYTES), 1))
        self.rest = self.rest.slice(taken.num_rows)
        self.position += taken.num_rows
        return taken


class Fetches:
    """The positions of the clients of one node, and the rows that follow."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._open: OrderedDict[str, _OpenRows] = OrderedDict()
        self._positions: dict[str, int] = {}
        self._lock = threading.Lock()

    def forget(self, statement_id: str) -> None:
        """Free what is kept in memory for an operation."""
        with self._lock:
            self._open.pop(statement_id, None)

    def read(
        self, caller: Caller, handle: Handle, statement: Statement | None, request: Any
    ) -> tuple[bool, bytes]:
        """Return whether rows follow, and the next rows as a `TRowSet`.

        Args:
            statement: The statement of the handle; None if it has none.

        Raises InvalidRequest for an orientation other than FETCH_NEXT and FETCH_FIRST, and the
        errors of `Statements.open_result`.
        """
        orientation = load_protocol().TFetchOrientation
        if request.orientation not in {orientation.FETCH_NEXT, orientation.FETCH_FIRST}:
            raise InvalidRequest("Only FETCH_NEXT and FETCH_FIRST are supported.")
        if request.orientation == orientation.FETCH_FIRST:
            self.forget(handle.id)
            self._positions[handle.id] = 0
        rows = self._open_rows(caller, handle, statement)
        limit = min(request.maxRows, _MAX_ROWS) if request.maxRows > 0 else _MAX_ROWS
        result = None if statement is None else statement.result
        zone = (None if result is None else result.time_zone) or _UTC
        types = [column.type for column in rows.schema.columns]
        write = write_columns if handle.version >= _FIRST_WITH_COLUMNS else write_rows
        with rows.lock:
            start = rows.position
            batch = rows.take(limit)
            self._positions[handle.id] = rows.position
        if batch is None:
            stored = build_stored_schema(rows.schema)
            return False, write(_empty(stored), types, start=start, zone=zone)
        return True, write(batch, types, start=start, zone=zone)

    def read_log(self, _handle: Handle) -> bytes:
        """Return the next lines of the log of an operation: none."""
        return write_columns(
            pa.record_batch([pa.array([], pa.string())], ["_0"]),
            [_LINE],
            start=0,
            zone=_UTC,
        )

    def _open_rows(self, caller: Caller, handle: Handle, statement: Statement | None) -> _OpenRows:
        position = self._positions.get(handle.id, 0)
        with self._lock:
            known = self._open.get(handle.id)
            if known is not None:
                self._open.move_to_end(handle.id)
                return known
        selection, found = None, None
        if statement is not None:
            assert statement.result is not None
            selection = RowRange(position, max(1, statement.result.row_count))
            found = self._node.statements.open_result(
                caller, statement, selection=None if handle.listing else selection
            )
        if handle.listing:
            listing = Listing(handle.listing)
            text = "" if statement is None else statement.spec.text
            rows = read_rows(listing, found, text, handle.types).slice(position)
            opened = _OpenRows(schema_of(listing), position, iter([rows]))
        else:
            assert found is not None
            assert selection is not None
            opened = _OpenRows(found.schema, position, found.select(selection))
        if handle.has_statement:
            with self._lock:
                self._open[handle.id] = opened
                while len(self._open) > _MAX_OPEN:
                    self._open.popitem(last=False)
        return opened


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)


_LINE = (
    parse_schema(
        {
            "type": "struct",
            "fields": [{"name": "l", "type": "string", "nullable": True, "metadata": {}}],
        }
    )
    .columns[0]
    .type
)
