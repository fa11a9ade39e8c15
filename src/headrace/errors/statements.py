"""Failures of statements. The store keeps them as Failure records."""

from __future__ import annotations

from headrace.errors.base import EXIT_TIMEOUT, HeadraceError
from headrace.errors.refusals import InvalidRequest


class StatementFailed(HeadraceError):
    """The statement failed."""

    code = "statement_failed"


class StatementTooComplex(InvalidRequest):
    """The statement is nested too deeply for Spark's parser."""

    code = "statement_too_complex"
    condition = "FAILED_TO_PARSE_TOO_COMPLEX"
    sqlstate = "54001"


class StatementTimeout(StatementFailed):
    """The statement exceeded its timeout."""

    code = "statement_timeout"
    exit_code = EXIT_TIMEOUT


class DriverLost(StatementFailed):
    """The driver died while it ran the statement."""

    code = "driver_lost"


class SessionFailed(StatementFailed):
    """The session failed before the statement could run."""

    code = "session_failed"


class SessionClosed(StatementFailed):
    """The session was closed before the statement could run."""

    code = "session_closed"


class CurrentDatabaseUnavailable(StatementFailed):
    """The current database of the connection does not exist, or its catalog cannot be reached."""

    code = "current_database_unavailable"


class BatchFileUnreadable(StatementFailed):
    """The file of the batch cannot be read."""

    code = "batch_file_unreadable"


class TableAlreadyExists(StatementFailed):
    """The table already exists."""

    code = "table_already_exists"
    condition = "TABLE_OR_VIEW_ALREADY_EXISTS"
    sqlstate = "42P07"


class TableNotFound(StatementFailed):
    """The table to replace does not exist."""

    code = "table_not_found"
    condition = "TABLE_OR_VIEW_NOT_FOUND"
    sqlstate = "42P01"


class DatabaseNotFound(StatementFailed):
    """The database does not exist."""

    code = "database_not_found"
    condition = "SCHEMA_NOT_FOUND"
    sqlstate = "42704"


class LocationNotEmpty(StatementFailed):
    """The location of the table contains files."""

    code = "location_not_empty"
    condition = "LOCATION_ALREADY_EXISTS"
    sqlstate: str | None = "42710"


class InvalidTableName(StatementFailed):
    """The name is not a valid name for a table."""

    code = "invalid_table_name"
    condition = "INVALID_SCHEMA_OR_RELATION_NAME"
    sqlstate = "42602"


class SystemTableUnavailable(StatementFailed):
    """There is no such system table, or the statement cannot read it."""

    code = "system_table_unavailable"


class CatalogError(StatementFailed):
    """The catalog could not create the table."""

    code = "catalog_error"


class WriteTargetsUnknown(StatementFailed):
    """The catalog did not say which tables the statement writes to."""

    code = "write_targets_unknown"


class AtomicityRequired(StatementFailed):
    """The table cannot be created or changed atomically."""

    code = "atomicity_required"


class TimestampAmbiguous(StatementFailed):
    """A timestamp is in the second of two equal hours, and Spark would write a local time."""

    code = "timestamp_ambiguous"


class InvalidExpectation(StatementFailed):
    """The condition of an expectation is not valid."""

    code = "invalid_expectation"


class ExpectationFailed(StatementFailed):
    """Rows violate an expectation whose `on-violation` is `fail`."""

    code = "expectation_failed"


class ExpectationCountsWrong(StatementFailed):
    """The rows written and dropped are not the rows read, so that no expectation is proven."""

    code = "expectation_counts_wrong"


class ExpectationsUnknown(StatementFailed):
    """The rows are in the table, but what was counted for its expectations is not known."""

    code = "expectations_unknown"


class EndlessStream(StatementFailed):
    """The stream has no end, so its table would never appear."""

    code = "endless_stream"
    condition = "_LEGACY_ERROR_TEMP_3102"


class StreamStopped(StatementFailed):
    """The stream was stopped before its end, so its table was not created."""

    code = "stream_stopped"


class CommitInDoubt(StatementFailed):
    """The driver was lost while it was publishing a table."""

    code = "commit_in_doubt"


class ResultTooLarge(StatementFailed):
    """The result is too large for the requested disposition."""

    code = "result_too_large"


class InvalidResult(StatementFailed):
    """The driver reported or wrote a result that is not valid."""

    code = "invalid_result"
    status = 502


class ResultsWriteFailed(StatementFailed):
    """The result could not be written to the results location."""

    code = "results_write_failed"


class ResultIncomplete(HeadraceError):
    """The rows that were sent are not the whole result."""

    code = "result_incomplete"
