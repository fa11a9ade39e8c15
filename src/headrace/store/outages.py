"""Which errors of a database mean that the store is not there, told by class and code."""

from __future__ import annotations

import sqlite3

from sqlalchemy import exc

from headrace.errors import StoreUnavailable

# A fault in the SQL itself. Everything else that SQLite calls operational (busy, full, I/O error,
# cannot open, corrupt, read-only) is the file's or the disk's.
_SQLITE_OWN_FAULT = sqlite3.SQLITE_ERROR

# https://www.postgresql.org/docs/current/errcodes-appendix.html: connection, a read-only server (a
# standby), rollback forced by others (a deadlock), resources, a lock not had in time, operator's
# intervention, system error.
_POSTGRESQL_CLASSES = ("08", "25006", "40", "53", "55P03", "57", "58")


def as_outage(error: Exception) -> StoreUnavailable | None:
    """The StoreUnavailable that this error stands for, or None when it is something else."""
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
            and code != _SQLITE_OWN_FAULT
        )
    # psycopg's errors: a lost connection has no SQLSTATE.
    state = getattr(cause, "sqlstate", None)
    if state is None:
        return type(cause).__name__ in {"OperationalError", "InterfaceError"}
    return str(state).startswith(_POSTGRESQL_CLASSES)


def _first_line(cause: BaseException | None) -> str:
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(cause).__name__
