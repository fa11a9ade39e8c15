"""Statements by id: those of a transaction, and those that many requests read together.

Requests that arrive during a read share the next one. A query costs more than its rows: the work of
SQLAlchemy, a change of the thread, a round trip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from anyio import to_thread

from headrace.control.policy import HIDDEN_TEXT, Action, Caller, check, may
from headrace.errors import StatementNotFound
from headrace.model.ids import looks_like_id
from headrace.model.statement import Statement
from headrace.store.database import Tx
from headrace.store.statements import statements

_SHOWN = 200
"""Largest number of characters of an id in a message."""


def get_statement(tx: Tx, statement_id: str) -> Statement:
    """Return a statement of any owner. Raise StatementNotFound if it does not exist."""
    # Text without the form of an id may be such that PostgreSQL refuses it.
    statement = statements.get(tx, statement_id) if looks_like_id(statement_id) else None
    if statement is None:
        raise _not_found(statement_id)
    return statement


def get_permitted(
    tx: Tx, caller: Caller, statement_id: str, action: Action = Action.READ
) -> Statement:
    """Return a statement on which the caller may act. Raises as `check_permitted`."""
    return check_permitted(caller, get_statement(tx, statement_id), statement_id, action)


def check_permitted(
    caller: Caller, statement: Statement | None, statement_id: str, action: Action = Action.READ
) -> Statement:
    """Return the statement with this id, without its SQL if the caller may not read that.

    Raises:
        StatementNotFound: There is none, or the caller may not read it.
        NotPermitted: The caller may read the statement, and do no more.
    """
    return hide_content(caller, check(caller, action, statement, _not_found(statement_id)))


def hide_content(caller: Caller, statement: Statement) -> Statement:
    """Return a statement as a caller may see it: with or without its SQL."""
    if may(caller, Action.READ_CONTENT, statement):
        return statement
    return replace(statement, spec=replace(statement.spec, text=HIDDEN_TEXT, parameters=[]))


def _not_found(statement_id: str) -> StatementNotFound:
    return StatementNotFound(f"Statement {statement_id[:_SHOWN]!r} does not exist.")


_MAX_IDS = 32
"""Largest number of records in one read. The text of a statement may have 10 MiB, but few have."""
_MAX_READS = 2
"""Largest number of reads at once. A third one would make the batches smaller."""

T = TypeVar("T")


class BatchedReads(Generic[T]):
    """The reads of one kind of record. All methods run on the event loop."""

    def __init__(self, read_all: Callable[[Sequence[str]], Mapping[str, T]]) -> None:
        """Create it without any read.

        Args:
            read_all: Returns the records with these ids that exist, by id.
        """
        self._read_all = read_all
        self._waiting: dict[str, asyncio.Future[T | None]] = {}
        self._reads: set[asyncio.Task[None]] = set()

    async def get(self, record_id: str) -> T | None:
        """Return a record as it is after this call, or None if it does not exist.

        Raises:
            StoreUnavailable: If the store does not answer.
        """
        future = self._waiting.get(record_id)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            self._waiting[record_id] = future
            if len(self._reads) < _MAX_READS:
                self._start_read()
        # The end of one request does not end the read of others.
        return await asyncio.shield(future)

    def _start_read(self) -> None:
        self._reads.add(asyncio.create_task(self._read_waiting()))

    async def _read_waiting(self) -> None:
        try:
            while self._waiting:
                await self._read_batch()
        finally:
            # Not in a callback of the task: answered requests run before it, and may read again.
            self._reads = {read for read in self._reads if read is not asyncio.current_task()}

    async def _read_batch(self) -> None:
        ids = list(self._waiting)[:_MAX_IDS]
        futures = {each: self._waiting.pop(each) for each in ids}
        try:
            found = await to_thread.run_sync(self._read_all, ids)
        except Exception as error:  # noqa: BLE001 - each request reports it
            for future in futures.values():
                future.set_exception(error)
        else:
            for record_id, future in futures.items():
                future.set_result(found.get(record_id))
