"""Connections and cursors for asyncio: those of `dbapi`, whose calls run in threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from headrace.client.dbapi import Connection, Cursor
from headrace.client.parameters import Parameters

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from headrace.client.arrow_rows import Row

P = ParamSpec("P")
T = TypeVar("T")


class AsyncConnection:
    """A connection for asyncio. Its statements run one after the other."""

    def __init__(self, connection: Connection) -> None:
        self.sync = connection
        """The connection, for calls that have no form for asyncio."""

    def cursor(self) -> AsyncCursor:
        """Return a new cursor."""
        return AsyncCursor(self.sync.cursor())

    async def execute(self, operation: str, parameters: Parameters | None = None) -> AsyncCursor:
        """Run a statement in a new cursor, and return the cursor."""
        return await self.cursor().execute(operation, parameters)

    async def close(self) -> None:
        """Close the connection. Its statements run on."""
        await asyncio.to_thread(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


class AsyncCursor:
    """A cursor for asyncio. One task uses it at a time; `cancel` may be called by any."""

    def __init__(self, cursor: Cursor) -> None:
        self.sync = cursor
        """The cursor, with its attributes `description`, `rowcount`, `statement_id` and others."""

    async def execute(
        self,
        operation: str,
        parameters: Parameters | None = None,
        *,
        conf: Mapping[str, str] | None = None,
        timeout: str | None = None,
    ) -> Self:
        """Run a statement, and wait for its end. If the task is cancelled, the statement is, too.

        Arguments and errors are those of `Cursor.execute`.
        """
        await self._run(self.sync.execute, operation, parameters, conf=conf, timeout=timeout)
        return self

    async def execute_async(
        self,
        operation: str,
        parameters: Parameters | None = None,
        *,
        conf: Mapping[str, str] | None = None,
        timeout: str | None = None,
    ) -> Self:
        """Submit a statement, and return the cursor. A fetch waits for the end of the statement."""
        await self._run(self.sync.execute_async, operation, parameters, conf=conf, timeout=timeout)
        return self

    async def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Self:
        """Run a statement once for each of the parameters."""
        await self._run(self.sync.executemany, operation, seq_of_parameters)
        return self

    async def attach(self, statement_id: str) -> Self:
        """Continue with a statement of any client, by its id."""
        await self._run(self.sync.attach, statement_id)
        return self

    async def fetchone(self) -> Row | None:
        """Return the next row; None at the end."""
        return await self._run(self.sync.fetchone)

    async def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return up to `size` rows; an empty list at the end."""
        return await self._run(self.sync.fetchmany, size)

    async def fetchall(self) -> list[Row]:
        """Return the remaining rows."""
        return await self._run(self.sync.fetchall)

    async def fetch_arrow_table(self) -> pa.Table:
        """Return the remaining rows as a table of Arrow."""
        return await self._run(self.sync.fetch_arrow_table)

    async def fetch_df(self) -> pd.DataFrame:
        """Return the remaining rows as a data frame of pandas."""
        return await self._run(self.sync.fetch_df)

    async def fetch_polars(self) -> pl.DataFrame:
        """Return the remaining rows as a data frame of polars."""
        return await self._run(self.sync.fetch_polars)

    async def get_query_state(self) -> str:
        """Return the present state, as `Cursor.get_query_state` does."""
        return await self._run(self.sync.get_query_state)

    async def cancel(self) -> None:
        """Cancel the statement if it has not ended."""
        await asyncio.to_thread(self.sync.cancel)

    async def close(self) -> None:
        """Close the cursor. A statement that it has started and that still runs is cancelled."""
        await asyncio.to_thread(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[Row]:
        while rows := await self.fetchmany(1000):
            for row in rows:
                yield row

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call in a thread. If the task is cancelled, cancel a statement of this cursor."""
        running = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.to_thread(self.sync.interrupt)
            # The thread ends with the statement, and its error is that of the cancel.
            await asyncio.wait([running])
            raise
