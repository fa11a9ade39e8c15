"""The service for the names in the catalogs of a session, as Spark lists them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from headrace.control.policy import Caller
from headrace.control.statements.async_statements import AsyncStatements
from headrace.control.statements.service import Statements
from headrace.grammar.catalog_queries import CatalogName, Lookup, names_in, query_for
from headrace.model.lifecycle import StatementState
from headrace.model.statement import Statement, StatementSpec


@dataclass(frozen=True, slots=True)
class Listing:
    """The statement that lists names, and the names."""

    statement: Statement
    """As it was when the time of the request was over."""
    names: list[CatalogName] | None
    """The names; None if the statement has not succeeded."""


class CatalogListing:
    """Names of catalogs, databases, tables, columns and functions."""

    def __init__(self, statements: Statements, async_statements: AsyncStatements) -> None:
        self._statements = statements
        self._async_statements = async_statements

    def list_names(
        self, caller: Caller, lookup: Lookup, *, session: str | None, seconds: float
    ) -> Listing:
        """Return the names of a lookup. The calling thread waits.

        Args:
            session: Session whose catalogs are listed; None: the pool session of the caller.
            seconds: Longest time to wait for Spark.

        Raises the errors of `Statements.submit` and `Statements.open_result`.
        """
        spec = StatementSpec(text=query_for(lookup))
        statement = self._statements.submit_and_wait(caller, spec, seconds=seconds, session=session)
        return self._read(caller, lookup, statement)

    async def list_names_async(
        self, caller: Caller, lookup: Lookup, *, session: str | None, seconds: float
    ) -> Listing:
        """Do what `list_names` does, without a thread that waits."""

        def respond(statement: Statement, _rows: bytes | None) -> Statement:
            return statement

        spec = StatementSpec(text=query_for(lookup))
        submit = partial(self._async_statements.submit_and_wait, caller, spec, respond)
        statement = await submit(seconds=seconds, session=session)
        reads = self._async_statements.select_reads(statement)
        return await reads.run(self._read, caller, lookup, statement)

    def _read(self, caller: Caller, lookup: Lookup, statement: Statement) -> Listing:
        if statement.state is not StatementState.SUCCESS:
            return Listing(statement, None)
        rows = self._statements.open_result(caller, statement)
        values = [list(row.values()) for batch in rows.batches() for row in batch.to_pylist()]
        return Listing(statement, names_in(lookup.kind, values))
