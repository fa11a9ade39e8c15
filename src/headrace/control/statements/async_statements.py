"""Statements for front ends on an event loop: no call blocks the loop, or waits in a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from anyio import to_thread

from headrace.control.long_polls import (
    AwaitedEnds,
    LongPoll,
    LongPolls,
    Rereads,
    Subscribe,
    WakeUps,
)
from headrace.control.policy import Caller
from headrace.control.statements.lookup import BatchedReads, check_permitted
from headrace.control.statements.service import RepeatableRequest, Statements
from headrace.control.worker_pool import Reads, ResultReads
from headrace.errors import AlreadyEnded, HeadraceError
from headrace.model.ids import looks_like_id, new_id
from headrace.model.lifecycle import STATEMENT
from headrace.model.statement import Statement, StatementSpec
from headrace.store.database import Database
from headrace.store.statements import statements

_CANCEL_SECONDS = 30.0
"""Longest time that a request waits for the end of a statement that it cancels."""

T = TypeVar("T")

Respond = Callable[[Statement, bytes | None], T]
"""Makes the response to a submit, in a thread, from the statement and the rows of a small result.

The rows are None if they were not read.
"""


class AsyncStatements:
    """Statements of all callers, served by one node. Call its methods on the event loop."""

    def __init__(
        self,
        database: Database,
        statements: Statements,
        *,
        wake_ups: WakeUps,
        awaited_ends: AwaitedEnds,
        long_polls: LongPolls,
    ) -> None:
        self._database = database
        self._statements = statements
        self._wake_ups = wake_ups
        self._awaited_ends = awaited_ends
        self._long_polls = long_polls
        self._batched_reads = BatchedReads(self._read_all)
        self._short_reads = BatchedReads(partial(self._read_all, cut_text=True))
        self._result_reads = ResultReads()

    async def get(self, caller: Caller, statement_id: str, *, cut_text: bool = False) -> Statement:
        """Return a statement of the caller. Raise StatementNotFound if there is none.

        Requests that arrive at the same time share a read of the store.

        Args:
            cut_text: Whether the text of the statement may be cut, for a request that is repeated.
        """
        reads = self._short_reads if cut_text else self._batched_reads
        # Text without the form of an id may be such that PostgreSQL refuses it.
        statement = await reads.get(statement_id) if looks_like_id(statement_id) else None
        return check_permitted(caller, statement, statement_id)

    async def submit_and_wait(
        self,
        caller: Caller,
        spec: StatementSpec,
        respond: Respond[T],
        *,
        seconds: float,
        rows_bytes: int = 0,
        cancels: bool = False,
        owner: str | None = None,
        session: str | None = None,
        connection: str | None = None,
        repeatable: RepeatableRequest | None = None,
    ) -> T:
        """Submit as `Statements.submit` does; respond when the statement has ended.

        When the time is over, respond with the statement as it is. The thread that stores the end
        of the statement also makes the response, if the end is reported at this node.

        Args:
            seconds: Longest time to wait.
            rows_bytes: Size of an inline result up to which `respond` gets its rows.
            cancels: Whether the statement is cancelled if it has not ended in time.
        """
        statement_id = new_id("st")

        def respond_if_ended(statement_id: str) -> T | None:
            # Read and respond in one thread call: a second call would cost as much as its work.
            statement, data = self._statements.get_with_rows(
                caller, statement_id, max_bytes=rows_bytes
            )
            return None if statement.state in STATEMENT.live else respond(statement, data)

        submit = partial(
            self._statements.submit,
            caller,
            spec,
            owner=owner,
            session=session,
            connection=connection,
            repeatable=repeatable,
            statement_id=statement_id,
            awaited=True,
        )
        statement, response = await self._submit_and_wait(
            statement_id, submit, respond_if_ended, seconds
        )
        if statement.id != statement_id:
            # The key was used before: wait for the first statement instead.
            await self._wait(caller, statement, seconds)
            response = await to_thread.run_sync(respond_if_ended, statement.id)
        if response is not None:
            return response
        if cancels:
            latest = await self._cancel_and_wait(caller, statement.id)
        else:
            latest = await to_thread.run_sync(self._statements.get, caller, statement.id)
        return await to_thread.run_sync(respond, latest, None)

    async def wait(
        self, caller: Caller, statement_id: str, seconds: float, *, cut_text: bool = False
    ) -> Statement:
        """Wait until a statement has ended, at most `seconds`; return its latest state.

        Raise StatementNotFound if the caller has no such statement.

        Args:
            cut_text: As for `get`.
        """
        statement = await self.get(caller, statement_id, cut_text=cut_text)
        return await self._wait(caller, statement, seconds, cut_text=cut_text)

    async def wait_for(
        self, statement: Statement, check: Callable[[], Awaitable[T | None]], seconds: float
    ) -> T | None:
        """Call `check` now, regularly, and at the end of a statement, until it returns a value.

        Return None after `seconds`, or when the node stops. For the end, call `await_end` first.
        """
        return await self._long_polls.wait(self._on_end(statement.id), check, seconds=seconds)

    @property
    def stopping(self) -> bool:
        """Whether the node stops, so that no request waits any more."""
        return self._long_polls.stopping

    async def await_end(self, caller: Caller, statement: Statement) -> None:
        """Do what `Statements.await_end` does."""
        await to_thread.run_sync(self._statements.await_end, caller, statement)

    async def find_location(self, caller: Caller, statement: Statement) -> str | None:
        """Do what `Statements.find_location` does."""
        return await to_thread.run_sync(self._statements.find_location, caller, statement)

    def select_reads(self, statement: Statement) -> Reads:
        """Return the threads that read the rows of a statement."""
        return self._result_reads.select(statement)

    async def _submit_and_wait(
        self,
        statement_id: str,
        submit: Callable[[], Statement],
        respond_if_ended: Callable[[str], T | None],
        seconds: float,
    ) -> tuple[Statement, T | None]:
        """Submit; return the statement, and the response if the statement with this id ends."""
        prepared: list[T] = []

        def prepare() -> None:
            # After an error, the wake-up for the end leads to another attempt.
            with contextlib.suppress(HeadraceError):
                response = respond_if_ended(statement_id)
                if response is not None:
                    prepared.append(response)

        # Subscribe before the submit, so that an end between the two is not missed.
        with (
            self._awaited_ends.register(statement_id, prepare),
            self._long_polls.subscribed(self._on_end(statement_id)) as poll,
        ):

            async def check() -> T | None:
                if not prepared and await self._may_have_ended(poll, statement_id):
                    return await to_thread.run_sync(respond_if_ended, statement_id)
                return prepared[0] if prepared else None

            statement = await to_thread.run_sync(submit)
            if statement.id != statement_id:
                return statement, None
            return statement, await poll.wait(check, seconds=seconds, rereads=Rereads.RARE)

    def _read_all(
        self, statement_ids: Sequence[str], *, cut_text: bool = False
    ) -> dict[str, Statement]:
        """Return statements of all owners. Each request checks its own one."""
        with self._database.read() as tx:
            return statements.get_all(tx, statement_ids, cut_text=cut_text)

    async def _wait(
        self, caller: Caller, statement: Statement, seconds: float, *, cut_text: bool = False
    ) -> Statement:
        if seconds <= 0 or statement.state in STATEMENT.terminal:
            return statement
        latest = statement

        async def check() -> Statement | None:
            nonlocal latest
            latest = await self.get(caller, statement.id, cut_text=cut_text)
            return latest if latest.state in STATEMENT.terminal else None

        await self.await_end(caller, statement)
        subscribe = self._on_end(statement.id)
        await self._long_polls.wait(subscribe, check, seconds=seconds, rereads=Rereads.RARE)
        return latest

    async def _cancel_and_wait(self, caller: Caller, statement_id: str) -> Statement:
        try:
            statement = await to_thread.run_sync(self._statements.cancel, caller, statement_id)
        except AlreadyEnded:
            return await to_thread.run_sync(self._statements.get, caller, statement_id)
        return await self._wait(caller, statement, _CANCEL_SECONDS)

    async def _may_have_ended(self, poll: LongPoll, statement_id: str) -> bool:
        """Return whether a request must read a statement with its rows.

        Requests that arrive at the same time share this read.
        """
        if poll.was_woken:
            return True
        statement = await self._short_reads.get(statement_id)
        return statement is None or statement.state in STATEMENT.terminal

    def _on_end(self, statement_id: str) -> Subscribe:
        return partial(self._wake_ups.on_statement_end, statement_id)
