"""Responses with Arrow rows that begin while the statement runs.

The rows are those of finished tasks, in order. The response has begun when the statement fails, is
retried or is cancelled: its last batch then says so, and the connection is cut, so that no client
takes the first rows for the whole result.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pyarrow as pa
from fastapi.responses import StreamingResponse

from headrace.control.policy import Caller
from headrace.control.statements.async_statements import AsyncStatements
from headrace.control.statements.service import may_be_read_early
from headrace.control.worker_pool import Reads
from headrace.errors import HeadraceError, ResultIncomplete
from headrace.frontends.http.auth import QUIET_SECONDS
from headrace.frontends.rest.result_responses import MEDIA_TYPES, ResultFormat, read_blocks
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.result import Disposition
from headrace.model.statement import Statement
from headrace.results.early_rows import EarlyRows
from headrace.results.formats import arrow

_HEADERS = {"X-Headrace-Early": "true", "X-Headrace-Truncated": "false"}


class EarlyRead:
    """One request for rows of a statement that may still run."""

    def __init__(
        self,
        statements: AsyncStatements,
        caller: Caller,
        statement: Statement,
        *,
        accepts_part: bool,
    ) -> None:
        """Create it; nothing is read.

        Args:
            accepts_part: Whether the response can begin before the statement ends.
        """
        self.statement = statement
        """The statement as it was read last."""
        self._statements = statements
        self._caller = caller
        self._reads: Reads = statements.select_reads(statement)
        self._is_early = accepts_part and may_be_read_early(statement)
        self._rows: EarlyRows | None = None

    async def begin(self, seconds: float) -> bool:
        """Wait for the first finished tasks or the end of the statement.

        Return whether there are finished tasks of a statement that runs.
        """
        if self.statement.state in STATEMENT.terminal or not (self._is_early or seconds):
            return False
        await self._statements.await_end(self._caller, self.statement)
        await self._wait(seconds)
        return not self._has_ended and self._rows is not None and self._rows.has_parts

    def respond(self) -> StreamingResponse:
        """Return the response, after `begin` has returned True."""
        media_type = MEDIA_TYPES[ResultFormat.ARROW]
        return StreamingResponse(self._write(), headers=_HEADERS, media_type=media_type)

    @property
    def _has_ended(self) -> bool:
        return self.statement.state in STATEMENT.terminal

    async def _write(self) -> AsyncIterator[bytes]:
        rows = self._rows
        assert rows is not None
        yield arrow.write_schema(rows.schema)
        try:
            while not self._has_ended:
                async for block in self._send(rows.batches()):
                    yield block
                if not await self._wait(QUIET_SECONDS):
                    yield arrow.write_empty_batch(rows.schema, {})
                self._check_end(rows)
            async for block in self._send(rows.remaining()):
                yield block
        except HeadraceError as error:
            yield arrow.write_empty_batch(rows.schema, self._describe_end(error))
            raise
        state, count = self.statement.state, rows.row_count
        end = {"headrace.state": state.value, "headrace.row_count": str(count)}
        yield arrow.write_empty_batch(rows.schema, end) + arrow.END_OF_STREAM

    async def _send(self, batches: Iterator[pa.RecordBatch]) -> AsyncIterator[bytes]:
        content = arrow.write_batches(batches)
        while blocks := await self._reads.run(read_blocks, content):
            for block in blocks:
                yield block

    async def _wait(self, seconds: float) -> bool:
        """Wait for more rows or the end of the statement; return whether there is one of them."""
        if self._statements.stopping:
            raise ResultIncomplete("The node stops. Read the result again, at another node.")
        return await self._statements.wait_for(self.statement, self._look, seconds) is not None

    async def _look(self) -> bool | None:
        """Return True if there are more rows to send, or if the statement has ended."""
        statement = self.statement = await self._statements.get(self._caller, self.statement.id)
        if self._has_ended or not self._is_early:
            return self._has_ended or None
        location = None
        if statement.state is not StatementState.WAITING:
            location = await self._statements.find_location(self._caller, statement)
        if self._rows is None or self._rows.location != location:
            if self._rows is not None and self._rows.has_read:
                raise ResultIncomplete(
                    "The driver of the statement was lost. The statement is retried, and its rows"
                    " may have another order. Read the result again."
                )
            self._rows = None if location is None else EarlyRows(location)
        if self._rows is not None and await self._reads.run(self._rows.find_parts):
            return True
        return None

    def _check_end(self, rows: EarlyRows) -> None:
        """Raise ResultIncomplete if the statement has ended without the rows that were read."""
        if not self._has_ended:
            return
        result = self.statement.result
        if self.statement.state is not StatementState.SUCCESS or result is None:
            failure = self.statement.failure
            reason = f": {failure.message}" if failure is not None else "."
            raise ResultIncomplete(f"The statement is {self.statement.state}{reason}")
        if result.disposition is not Disposition.STORED or result.location != rows.location:
            raise ResultIncomplete("The rows were written again. Read the result again.")

    def _describe_end(self, error: HeadraceError) -> dict[str, str]:
        failure = self.statement.failure if self._has_ended else None
        is_success = self.statement.state is StatementState.SUCCESS
        state = self.statement.state.value if self._has_ended and not is_success else "incomplete"
        return {
            "headrace.state": state,
            "headrace.code": error.code if failure is None else failure.code,
            "headrace.message": error.message,
        }
