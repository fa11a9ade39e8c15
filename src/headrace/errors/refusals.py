"""Errors of requests, and failures of the systems that Headrace depends on."""

from __future__ import annotations

from headrace.errors.base import (
    EXIT_CONFLICT,
    EXIT_CONNECTION,
    EXIT_DENIED,
    EXIT_USAGE,
    HeadraceError,
)

PARSE_SYNTAX_ERROR = "PARSE_SYNTAX_ERROR"
SYNTAX_SQLSTATE = "42601"

# The request is invalid.


class InvalidRequest(HeadraceError):
    """The request is not valid."""

    code = "invalid_request"
    status = 400
    exit_code = EXIT_USAGE


class TooManyRows(InvalidRequest):
    """The result has more rows than one response may hold."""

    code = "too_many_rows"


class AmbiguousId(InvalidRequest):
    """Several ids begin with the given characters."""

    code = "ambiguous_id"


class RowsDoNotFit(InvalidRequest):
    """Rows of a file do not fit the columns of the table. No row was loaded."""

    code = "rows_do_not_fit"


class UnknownParameter(InvalidRequest):
    """The call does not have this query parameter."""

    code = "unknown_parameter"


class InvalidSetting(InvalidRequest):
    """A setting is unknown or has a value that is not allowed."""

    code = "invalid_setting"


class TimeoutTooLong(InvalidRequest):
    """The statement asks for more time than its owner may have."""

    code = "timeout_too_long"


class EmptyStatement(InvalidRequest):
    """The statement contains no SQL."""

    code = "empty_statement"
    condition = "PARSE_EMPTY_STATEMENT"
    sqlstate = "42617"


class StatementTooLarge(InvalidRequest):
    """The statement is larger than 10 MiB, or one of Headrace's own larger than 1 MiB."""

    code = "statement_too_large"
    status = 413


class BodyTooLarge(InvalidRequest):
    """The body of the request is larger than 16 MiB."""

    code = "body_too_large"
    status = 413


class ReportTooLarge(InvalidRequest):
    """The report of a driver is larger than a node accepts."""

    code = "report_too_large"
    status = 413


class LinkVersionUnsupported(InvalidRequest):
    """The driver sends messages of a version that this node does not read."""

    code = "link_version_unsupported"


class UpgradeUnfinished(HeadraceError):
    """A node or a driver of an older version runs, which does not know what the request needs."""

    code = "upgrade_unfinished"
    status = 503
    exit_code = EXIT_CONFLICT


class InvalidText(InvalidRequest):
    """The text contains characters that no SQL text may contain."""

    code = "invalid_text"
    condition = PARSE_SYNTAX_ERROR
    sqlstate = SYNTAX_SQLSTATE


class MultipleStatements(InvalidRequest):
    """The request contains more than one statement."""

    code = "multiple_statements"
    condition = PARSE_SYNTAX_ERROR
    sqlstate = SYNTAX_SQLSTATE


class InvalidStatement(InvalidRequest):
    """A Headrace statement has a syntax error."""

    code = "invalid_statement"


class ResultLocationDenied(InvalidRequest):
    """A statement may not write its result to this location."""

    code = "result_location_denied"
    status = 403
    exit_code = EXIT_DENIED


class FormatCannotHold(InvalidRequest):
    """The format cannot represent a column of this result."""

    code = "format_cannot_hold"
    status = 406


class NotAcceptable(InvalidRequest):
    """The server cannot answer in any media type that the request accepts."""

    code = "not_acceptable"
    status = 406


# The caller is not authenticated.


class Unauthorized(HeadraceError):
    """The request needs valid credentials."""

    code = "unauthorized"
    status = 401
    exit_code = EXIT_DENIED


class SignInRefused(Unauthorized):
    """The issuer has not signed in the user, or its answer cannot be trusted."""

    code = "sign_in_refused"


class SignInExpired(Unauthorized):
    """The browser has not begun this sign-in, or too long ago."""

    code = "sign_in_expired"


# The caller is not permitted to make the request.


class NotPermitted(HeadraceError):
    """The caller does not have the role, or its token the scope, that the request needs."""

    code = "not_permitted"
    status = 403
    exit_code = EXIT_DENIED


class ClientCertificateMissing(HeadraceError):
    """The node requires a certificate of the client."""

    code = "client_certificate_missing"
    status = 403
    exit_code = EXIT_DENIED


class ForeignOrigin(HeadraceError):
    """A web page of another site made the request."""

    code = "foreign_origin"
    status = 403
    exit_code = EXIT_DENIED


class SettingDenied(HeadraceError):
    """The operator of the node does not permit submitters to set this key."""

    code = "setting_denied"
    status = 403
    exit_code = EXIT_DENIED


class InvalidSecretReference(InvalidRequest):
    """A reference to a secret is malformed."""

    code = "invalid_secret_reference"


class SecretMisplaced(InvalidRequest):
    """A reference to a secret stands in a place where no secret can be used."""

    code = "secret_misplaced"


class SecretNotFound(InvalidRequest):
    """The node has no secret with this name."""

    code = "secret_not_found"


class SecretDenied(HeadraceError):
    """The administrator does not permit the owner to use this secret."""

    code = "secret_denied"
    status = 403
    exit_code = EXIT_DENIED


class InvalidSecret(InvalidRequest):
    """The value of a secret cannot be used."""

    code = "invalid_secret"


class UnknownHost(HeadraceError):
    """The request names a host that the node does not serve."""

    code = "unknown_host"
    status = 421
    exit_code = EXIT_USAGE


# The requested object does not exist.


class NotFound(HeadraceError):
    """The object does not exist."""

    code = "not_found"
    status = 404
    exit_code = EXIT_USAGE


class SessionNotFound(NotFound):
    """The session does not exist."""

    code = "session_not_found"


class ConnectionNotFound(NotFound):
    """The connection does not exist, or is closed."""

    code = "connection_not_found"


class DraftNotFound(NotFound):
    """The draft does not exist, or belongs to another user."""

    code = "draft_not_found"


class UserNotFound(NotFound):
    """The user does not exist."""

    code = "user_not_found"


class TokenNotFound(NotFound):
    """The token does not exist."""

    code = "token_not_found"


class WebhookNotFound(NotFound):
    """The webhook does not exist."""

    code = "webhook_not_found"


class StatementNotFound(NotFound):
    """The statement does not exist."""

    code = "statement_not_found"


class ExecutionNotFound(NotFound):
    """No plan and no stages of the statement are kept."""

    code = "execution_not_found"


class LineageNotFound(NotFound):
    """No statement that the caller may read has read or written the table."""

    code = "lineage_not_found"


class TransactionNotFound(NotFound):
    """The transaction does not exist."""

    code = "transaction_not_found"


class ChunkNotFound(NotFound):
    """The result has no chunk with this number."""

    code = "chunk_not_found"


class ResultGone(NotFound):
    """The rows of the result have been deleted."""

    code = "result_gone"
    status = 410


# The request conflicts with the current state.


class Conflict(HeadraceError):
    """The request conflicts with the current state."""

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
    """The statement has already ended."""

    code = "already_ended"


class NotCancellable(Conflict):
    """The statement cannot be cancelled."""

    code = "not_cancellable"


class Committing(Conflict):
    """The statement is publishing its table and can no longer be cancelled."""

    code = "committing"


class TableBusy(Conflict):
    """Another statement is publishing a table with this name, or at this location."""

    code = "table_busy"


class SessionEnded(Conflict):
    """The session has ended and accepts no more statements."""

    code = "session_ended"


class AmbiguousName(Conflict):
    """Several owners have an object with this name."""

    code = "ambiguous_name"


class TokenNameExists(Conflict):
    """The owner already has a token with this name."""

    code = "token_name_exists"


class WebhookNameExists(Conflict):
    """The owner already has a webhook with this name."""

    code = "webhook_name_exists"


class SessionNameExists(Conflict):
    """A live session already has this name."""

    code = "session_name_exists"


class IdempotencyConflict(Conflict):
    """The Idempotency-Key was used for a different request."""

    code = "idempotency_conflict"


class LeaseLost(Conflict):
    """A takeover has superseded the lease; its holder must stop."""

    code = "lease_lost"


# The caller asks for too much.


class QueueFull(HeadraceError):
    """Too many statements wait."""

    code = "queue_full"
    status = 429
    exit_code = EXIT_CONFLICT


class TooManySessions(HeadraceError):
    """The user, or all users together, have too many live sessions."""

    code = "too_many_sessions"
    status = 429
    exit_code = EXIT_CONFLICT


class TooManyConnections(HeadraceError):
    """The user has too many open connections."""

    code = "too_many_connections"
    status = 429
    exit_code = EXIT_CONFLICT


class TooManySubmits(HeadraceError):
    """The owner has submitted too many statements in the last minute."""

    code = "too_many_submits"
    status = 429
    exit_code = EXIT_CONFLICT


class ResultsFull(HeadraceError):
    """The stored results of the owner take all the space that the owner may use."""

    code = "results_full"
    status = 429
    exit_code = EXIT_CONFLICT


class TooManyTransactions(HeadraceError):
    """A driver has begun too many table transactions for one statement."""

    code = "too_many_transactions"
    status = 429
    exit_code = EXIT_CONFLICT


class TooManyFailures(HeadraceError):
    """Too many sign-ins with this name, or from this address, have failed."""

    code = "too_many_failures"
    status = 429
    exit_code = EXIT_DENIED


class TooManyCalls(HeadraceError):
    """The driver of a session has too many calls in flight."""

    code = "too_many_calls"
    status = 503
    exit_code = EXIT_CONFLICT


# Systems that Headrace depends on.


class StoreUnavailable(HeadraceError):
    """The store does not answer."""

    code = "store_unavailable"
    status = 503
    exit_code = EXIT_CONNECTION


class SignInUnavailable(HeadraceError):
    """The system that knows the users does not answer."""

    code = "sign_in_unavailable"
    status = 503
    exit_code = EXIT_CONNECTION


class NodeNotFound(NotFound):
    """The node does not exist."""

    code = "node_not_found"


class NodeStateConflict(Conflict):
    """The state of the node does not allow the action."""

    code = "node_state_conflict"


class NodeNotReady(HeadraceError):
    """The background work of the node makes no progress."""

    code = "node_not_ready"
    status = 503
    exit_code = EXIT_CONNECTION


class StoreInUse(HeadraceError):
    """Another node has this SQLite store open."""

    code = "store_in_use"
    status = 503
    exit_code = EXIT_USAGE


class SchemaTooNew(HeadraceError):
    """A newer version of Headrace has migrated the store."""

    code = "schema_too_new"
    status = 503
    exit_code = EXIT_USAGE


class ResultsUnavailable(HeadraceError):
    """Results cannot be read or written."""

    code = "results_unavailable"
    status = 503


class SecretUnavailable(HeadraceError):
    """The provider of the secrets does not answer, or the node has none."""

    code = "secret_unavailable"
    status = 503


class LaunchFailed(HeadraceError):
    """The driver could not be started."""

    code = "launch_failed"


class BackendUnreachable(HeadraceError):
    """The backend that runs the drivers does not answer."""

    code = "backend_unreachable"
    status = 503


class DriverOnOtherHost(BackendUnreachable):
    """The driver is a process of another host, and this node cannot check or end it."""

    code = "driver_on_other_host"


class JavaMissing(LaunchFailed):
    """Spark needs Java 17 or 21, and neither was found."""

    code = "java_missing"
    exit_code = EXIT_USAGE


class PackagesMissing(LaunchFailed):
    """Packages that an extra of Headrace installs are missing."""

    code = "packages_missing"
    exit_code = EXIT_USAGE


class NodeUnreachable(HeadraceError):
    """No node answers."""

    code = "node_unreachable"
    status = 503
    exit_code = EXIT_CONNECTION


class TlsFailed(NodeUnreachable):
    """Client and node cannot agree on TLS, or the certificate of the node is not valid."""

    code = "tls_failed"


class UnsharedLocation(InvalidSetting):
    """A setting names a place that only one host of the cluster can reach."""

    code = "unshared_location"


class CatalogMismatch(InvalidSetting):
    """The nodes of one store would use different catalogs."""

    code = "catalog_mismatch"


class InvalidLocation(InvalidRequest):
    """The location is not valid."""

    code = "invalid_location"
