"""Classification of database errors: outages of the store, and all other errors."""

from __future__ import annotations

import sqlite3

from sqlalchemy import exc

from headrace.errors import StoreUnavailable

# SQLITE_ERROR is a mistake in the SQL. Every other operational error of SQLite (busy, full, I/O
# error, cannot open, corrupt, read-only) concerns the file or the disk.
_SQL_MISTAKE = sqlite3.SQLITE_ERROR

# https://www.postgresql.org/docs/current/errcodes-appendix.html: connection, a read-only server (a
# standby), a rollback that other transactions forced (a deadlock), resources, a lock timeout, an
# operator's intervention, a system error.
_POSTGRESQL_CLASSES = ("08", "25006", "40", "53", "55P03", "57", "58")

_LOST_CONNECTION = {"OperationalError", "InterfaceError"}


def to_outage(error: Exception) -> StoreUnavailable | None:
    """Return the StoreUnavailable for an error, or None if the error is not an outage."""
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailable("The store has no free connection: it is slow or overloaded.")
    if not isinstance(error, exc.DBAPIError):
        return None
    if error.connection_invalidated or _is_outage(error.orig):
        return StoreUnavailable(f"The store does not answer: {_first_line(error.orig)}")
    return None


def _is_outage(cause: BaseException | None) -> bool:
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        return (
            isinstance(cause, sqlite3.DatabaseError)
            and not isinstance(cause, sqlite3.IntegrityError | sqlite3.ProgrammingError)
            and code is not None
            and code != _SQL_MISTAKE
        )
    # psycopg reports a lost connection without a SQLSTATE.
    state = getattr(cause, "sqlstate", None)
    if state is None:
        # Some have a class of their own, such as ConnectionTimeout.
        return not _LOST_CONNECTION.isdisjoint(each.__name__ for each in type(cause).__mro__)
    return str(state).startswith(_POSTGRESQL_CLASSES)


def _first_line(cause: BaseException | None) -> str:
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(cause).__name__
