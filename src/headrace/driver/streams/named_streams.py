"""The named streams of the session's owner, in the statements of Spark's own.

A driver does not know all streams of the owner: there can be thousands. When Spark does not find a
name, the driver asks a node whether it is the name of a stream, registers the stream as a temporary
view for the time of the statement, and runs the statement again. A statement that reads no stream
pays nothing, and a table or a temporary view with the name of a stream comes first: what Spark
accepts keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from headrace.driver.ctas.view_switch import read_scope
from headrace.driver.failures import (
    TEMPORARY_REFERENCE,
    InvalidStream,
    KnownFailure,
    describe_failure,
    find_missing_parts,
    refuse_permanent_view,
    split_name,
)
from headrace.driver.query_sessions import clone_session
from headrace.driver.spark_version.plans import (
    Use,
    copy_view,
    drop_temporary_views,
    find_script_relations,
    find_use,
)
from headrace.driver.streams.sources import register_streams
from headrace.errors import Position
from headrace.grammar.lexer import code_tokens
from headrace.grammar.quoting import quote_name
from headrace.model.headrace_options import CTAS_TRIGGER
from headrace.model.messages import FoundStreams

T = TypeVar("T")
FindStreams = Callable[[list[str]], FoundStreams]
"""Asks a node for the streams with these names."""

_ENDLESS = "Queries with streaming sources must be executed with writeStream.start()"
_SUBQUERY = "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY"
_NOT_FOUND = ("TABLE_OR_VIEW_NOT_FOUND", "42P01")
_NO_SQLSTATE = '"sqlState" is null'
"""How Spark's handler of errors in scripts fails at an error without SQLSTATE."""
_INSTEAD = (
    "Start a query that runs until you stop it: SAVE STREAM name TO console, or TO TABLE t. To read"
    f" the rows that are available now: SET {CTAS_TRIGGER.key} = available now, then CREATE TABLE t"
    " AS SELECT …"
)


class NeedsOwnSession(Exception):
    """A query reads a stream, and its session must not get the temporary view of it."""


class NamedStreams:
    """The streams that one statement reads, as temporary views of its session."""

    def __init__(
        self, session: SparkSession, find: FindStreams, *, may_register: bool = True
    ) -> None:
        """Register no stream yet.

        Args:
            may_register: Whether the session may get a temporary view. Otherwise a statement that
                reads a stream raises NeedsOwnSession.
        """
        self._session = session
        self._may_register = may_register
        self._find = find
        self._asked: set[str] = set()
        self._registered: dict[str, None] = {}
        self._positions: dict[str, Position | None] = {}
        """Where the statement names its streams."""

    def call(self, action: Callable[[], T], text: str | None = None) -> T:
        """Call an action, again for each name that turns out to be a stream. Return its result.

        Args:
            text: The statement, which must only read the stream; None: the action only reads.

        Raises what the action raises, InvalidStream for a stream that the statement cannot use, and
        NeedsOwnSession.
        """
        while True:
            try:
                return action()
            except AnalysisException as error:
                name = _find_missing_name(self._session, error)
                if name is not None and text is not None:
                    self._positions[name.casefold()] = _find_position(error, text)
                if name is None or not self._register([name], text):
                    raise self._explain(error) from error
            except Py4JJavaError as error:
                raise self._explain_script(error) from error

    def prepare_script(self, text: str) -> None:
        """Register the streams that a script reads. A script cannot run again from its start."""
        first = next(code_tokens(text), None)
        if first is None or first.word != "BEGIN":
            return
        try:
            names = self._list_unknown_relations(text)
        except PySparkException:
            # Spark reports the syntax error when it runs the script.
            return
        if names:
            self._register(names, None)

    def drop(self) -> None:
        """Drop the views of the streams: the next statement may find other definitions."""
        if self._registered:
            drop_temporary_views(self._session, self._registered)
            self._registered.clear()

    def _register(self, names: list[str], text: str | None) -> bool:
        """Register streams by name; return whether there is one that was not registered before."""
        new = [name for name in names if name.casefold() not in self._asked]
        self._asked.update(name.casefold() for name in new)
        if not new:
            return False
        found = self._find(new)
        if found.failure is not None:
            raise KnownFailure(found.failure)
        if not found.definitions:
            return False
        if not self._may_register:
            raise NeedsOwnSession
        if text is not None:
            _check_is_read(self._session, text, new[0], self._positions.get(new[0].casefold()))
        # The streams that a stream reads must hide no table of the statement.
        clone = clone_session(self._session)
        known = {view.casefold(): view for view in register_streams(clone, found.definitions)}
        for name in new:
            if name.casefold() in known:
                copy_view(clone, self._session, known[name.casefold()])
                self._registered[known[name.casefold()]] = None
        return True

    def _list_unknown_relations(self, text: str) -> list[str]:
        relations = find_script_relations(self._session, text)
        names = dict.fromkeys(parts[0] for *_, parts in relations if len(parts) == 1)
        exists = self._session.catalog.tableExists
        return [name for name in names if not exists(quote_name(name))]

    def _explain(self, error: AnalysisException) -> Exception:
        """Return a clearer error for a statement that a stream does not allow, or the error."""
        parameters = error.getMessageParameters() or {}
        parts = split_name(parameters.get("tempObjName"))
        if error.getCondition() != TEMPORARY_REFERENCE[0] or not parts:
            return error
        name = parts[-1]
        is_stream = any(name.casefold() == each.casefold() for each in self._registered)
        if not (is_stream or self._is_view_over_stream(parts)):
            return error
        position = self._positions.get(name.casefold())
        return refuse_permanent_view(name, is_stream=is_stream, position=position)

    def _explain_script(self, error: Py4JJavaError) -> Exception:
        """Return a clearer error for a script that Spark cannot report on, or the error."""
        if not self._registered or _NO_SQLSTATE not in str(error):
            unchanged: Exception = error
            return unchanged
        names = ", ".join(self._registered)
        return InvalidStream(
            "A statement of the script failed, and Spark cannot say which (the error has no"
            f" SQLSTATE). The script reads a stream: {names}. The rows of a stream have no end, so"
            f" that no statement can return or insert them. {_INSTEAD}"
        )

    def _is_view_over_stream(self, parts: list[str]) -> bool:
        try:
            return bool(self._session.table(".".join(map(quote_name, parts))).isStreaming)
        except AnalysisException:
            # The object is a function or a variable.
            return False


def _find_missing_name(session: SparkSession, error: AnalysisException) -> str | None:
    """Return the name that Spark has not found in the current namespace; None for another error."""
    parts = find_missing_parts(error)
    if len(parts) > 1:
        # Commands name a table with its catalog.
        scope = read_scope(session)
        if parts[:-1] != [scope.catalog, *scope.namespace]:
            return None
    return parts[-1] if parts else None


def explain_endless_rows(error: Exception) -> Exception:
    """Return what to write instead of a statement that returns or inserts the rows of a stream.

    Return any other error as it is.
    """
    if not isinstance(error, AnalysisException):
        return error
    if error.getCondition() == _SUBQUERY:
        message = f"A subquery cannot read a stream, because its rows have no end. {_INSTEAD}"
        return _refuse(message, (_SUBQUERY, str(error.getSqlState())))
    if _ENDLESS not in str(error):
        return error
    return InvalidStream(
        "The statement reads a stream, whose rows have no end, so that it can neither return nor"
        f" insert them. {_INSTEAD}"
    ).with_condition(error.getCondition(), error.getSqlState())


def _refuse(
    message: str, condition: tuple[str, str], position: Position | None = None
) -> InvalidStream:
    """Return an error with the condition and the SQLSTATE of Spark's error."""
    return InvalidStream(message, position=position).with_condition(*condition)


def _find_position(error: AnalysisException, text: str) -> Position | None:
    """Return where the text has the name that Spark has not found."""
    failure = describe_failure(error, text)
    if failure.line is None or failure.column is None:
        return None
    return Position(failure.line, failure.column)


def _check_is_read(session: SparkSession, text: str, name: str, position: Position | None) -> None:
    """Raise InvalidStream unless a statement reads a stream, and does not change it.

    Args:
        position: Where the text has the name of the stream.
    """
    use = find_use(session, text, name)
    if use is Use.IN_FUNCTION:
        raise _refuse(
            f"A function cannot read {name}, because it is a stream, whose rows have no end. Read"
            " it in a temporary view (CREATE TEMPORARY VIEW … AS SELECT …) or in another stream"
            " (CREATE STREAM … AS SELECT …).",
            _NOT_FOUND,
            position,
        )
    if use is Use.TARGET:
        raise _refuse(
            f"{name} is a stream, and the statement needs a table or view. Change a stream with"
            f" CREATE OR REPLACE STREAM {quote_name(name)}, remove it with DROP STREAM"
            f" {quote_name(name)}, and read it with SAVE STREAM {quote_name(name)}.",
            _NOT_FOUND,
            position,
        )
    if use is Use.IN_OWN_VIEW:
        raise InvalidStream(
            f"The view {name} would have the name of the stream that it reads. Choose another name."
        )
