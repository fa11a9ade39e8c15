"""What a caller asks and is refused, and parts that Headrace stands on and that fail it."""

from __future__ import annotations

from headrace.errors.base import (
    EXIT_CONFLICT,
    EXIT_CONNECTION,
    EXIT_DENIED,
    EXIT_USAGE,
    HeadraceError,
)

# What the caller sent is wrong.


class InvalidRequest(HeadraceError):
    """The request is not valid."""

    code = "invalid_request"
    status = 400
    exit_code = EXIT_USAGE


class InvalidSetting(InvalidRequest):
    """A setting is unknown or has a value that is not allowed."""

    code = "invalid_setting"


class EmptyStatement(InvalidRequest):
    """The statement holds no SQL."""

    code = "empty_statement"


class StatementTooLarge(InvalidRequest):
    """The statement is larger than 1 MiB."""

    code = "statement_too_large"
    status = 413


class InvalidText(InvalidRequest):
    """The text holds bytes that no SQL text may hold."""

    code = "invalid_text"


class MultipleStatements(InvalidRequest):
    """One submit takes one statement."""

    code = "multiple_statements"


class InvalidStatement(InvalidRequest):
    """A statement of Headrace's own is not written as it has to be."""

    code = "invalid_statement"


class ReservedStatement(InvalidRequest):
    """A statement of Headrace's own that this version does not run."""

    code = "reserved_statement"


class FormatCannotHold(InvalidRequest):
    """The format cannot hold a column of this result."""

    code = "format_cannot_hold"
    status = 406


class NotAcceptable(InvalidRequest):
    """The answer cannot be given in any form that the request accepts."""

    code = "not_acceptable"
    status = 406


# The caller may not.


class Unauthorized(HeadraceError):
    """A valid token is needed."""

    code = "unauthorized"
    status = 401
    exit_code = EXIT_DENIED


# What the caller names is not there.


class NotFound(HeadraceError):
    """There is no such thing."""

    code = "not_found"
    status = 404
    exit_code = EXIT_USAGE


class SessionNotFound(NotFound):
    """There is no such session."""

    code = "session_not_found"


class StatementNotFound(NotFound):
    """There is no such statement."""

    code = "statement_not_found"


class TransactionNotFound(NotFound):
    """There is no such transaction."""

    code = "transaction_not_found"


class ChunkNotFound(NotFound):
    """The result has no such chunk."""

    code = "chunk_not_found"


class ResultGone(NotFound):
    """The result is no longer kept."""

    code = "result_gone"
    status = 410


# What the caller asks does not fit the state of things.


class Conflict(HeadraceError):
    """The request does not fit the present state."""

    code = "conflict"
    status = 409
    exit_code = EXIT_CONFLICT


class ResultNotReady(Conflict):
    """The statement has no result yet."""

    code = "result_not_ready"


class NoResult(Conflict):
    """The statement ended without a result."""

    code = "no_result"


class AlreadyEnded(Conflict):
    """The statement has ended already."""

    code = "already_ended"


class NotCancellable(Conflict):
    """The statement cannot be cancelled."""

    code = "not_cancellable"


class Committing(Conflict):
    """The statement is publishing its table and cannot be cancelled any more."""

    code = "committing"


class TableBusy(Conflict):
    """Another statement is just creating the table, or one in the same place."""

    code = "table_busy"


class SessionEnded(Conflict):
    """The session has ended and takes no more statements."""

    code = "session_ended"


class SessionNameExists(Conflict):
    """A live session has this name already."""

    code = "name_taken"


class IdempotencyConflict(Conflict):
    """This Idempotency-Key was used with another request."""

    code = "idempotency_conflict"


class LeaseLost(Conflict):
    """The lease was taken over: whoever held it must stop."""

    code = "lease_lost"


# Parts that Headrace stands on.


class StoreUnavailable(HeadraceError):
    """The store does not answer."""

    code = "store_unavailable"
    status = 503
    exit_code = EXIT_CONNECTION


class StoreInUse(HeadraceError):
    """Another node has this SQLite store open."""

    code = "store_in_use"
    status = 503
    exit_code = EXIT_USAGE


class SchemaTooNew(HeadraceError):
    """The store was migrated by a newer Headrace."""

    code = "schema_too_new"
    status = 503
    exit_code = EXIT_USAGE


class ResultsUnavailable(HeadraceError):
    """The results location cannot be read or written."""

    code = "results_unavailable"
    status = 503


class LaunchFailed(HeadraceError):
    """The driver could not be started."""

    code = "launch_failed"


class BackendUnreachable(HeadraceError):
    """The backend that drivers run on does not answer."""

    code = "backend_unreachable"
    status = 503


class JavaMissing(LaunchFailed):
    """Spark needs Java 17 or 21, and none was found."""

    code = "java_missing"
    exit_code = EXIT_USAGE


class NodeUnreachable(HeadraceError):
    """No node answers."""

    code = "node_unreachable"
    status = 503
    exit_code = EXIT_CONNECTION
