"""The named streams of the session's owner, in the statements of Spark's own.

A driver does not know all streams of the owner: there can be thousands. When Spark does not find a
name, the driver asks a node whether it is the name of a stream, registers the stream as a temporary
view for the time of the statement, and runs the statement again. A statement that reads no stream
pays nothing, and a table or a temporary view with the name of a stream comes first: what Spark
accepts keeps its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from headrace.driver.ctas.detect import plan_parts
from headrace.driver.ctas.view_query import read_scope
from headrace.driver.failures import KnownFailure
from headrace.driver.py4j_bridge import Py4JBridge, plan_class_name
from headrace.driver.state.tracker import clone_session
from headrace.driver.streams.invalid_stream import InvalidStream
from headrace.driver.streams.qualified_names import find_relations
from headrace.driver.streams.sources import register_streams
from headrace.grammar.lexer import code_tokens
from headrace.grammar.quoting import quote_name, unquote_name
from headrace.model.messages import FoundStreams
from headrace.model.session_options import CTAS_TRIGGER

T = TypeVar("T")
FindStreams = Callable[[list[str]], FoundStreams]
"""Asks a node for the streams with these names."""

_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_TEMPORARY_REFERENCE = "INVALID_TEMP_OBJ_REFERENCE"
_PART = re.compile(r"`(?:[^`]|``)+`")
_ENDLESS = "Queries with streaming sources must be executed with writeStream.start()"
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_DATASET = "org.apache.spark.sql.classic.Dataset"
_ROW_CHANGES = {"InsertIntoStatement", "UpdateTable", "DeleteFromTable", "MergeIntoTable"}
_READERS = {
    *("CreateViewCommand", "CreateView", "CreateTableAsSelect", "ReplaceTableAsSelect"),
    *("ExplainCommand", "DescribeRelation", "DescribeColumn", "DescribeQueryCommand"),
    *("ShowColumns", "CacheTableAsSelect", "UnresolvedExecuteImmediate", "CreateVariable"),
    *("PlanWithUnresolvedIdentifier", "SetVariable", "InsertIntoDir", "CompoundBody"),
}
"""Commands that read relations and change none. All other commands change the object they name."""


class NamedStreams:
    """The streams that one statement reads, as temporary views of its session."""

    def __init__(self, session: SparkSession, find: FindStreams) -> None:
        self._session = session
        self._find = find
        self._asked: set[str] = set()
        self._registered: dict[str, None] = {}

    def call(self, action: Callable[[], T], text: str | None = None) -> T:
        """Call an action, again for each name that turns out to be a stream. Return its result.

        Args:
            text: The statement, which must only read the stream; None: the action only reads.

        Raises what the action raises, and InvalidStream for a stream that the statement cannot use.
        """
        while True:
            try:
                return action()
            except AnalysisException as error:
                name = _find_missing_name(self._session, error)
                if name is None or not self._register([name], text):
                    raise self._explain(error) from error

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
            catalog = Py4JBridge(self._session).state.catalog()
            for name in self._registered:
                catalog.dropTempView(name)
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
        if text is not None:
            _check_is_read(self._session, text, new[0])
        # The streams that a stream reads must hide no table of the statement.
        clone = clone_session(self._session)
        known = {view.casefold(): view for view in register_streams(clone, found.definitions)}
        for name in new:
            if name.casefold() in known:
                _copy_view(clone, self._session, known[name.casefold()])
                self._registered[known[name.casefold()]] = None
        return True

    def _list_unknown_relations(self, text: str) -> list[str]:
        jvm = Py4JBridge(self._session)
        plan = jvm.state.sqlParser().parsePlan(text)
        names: dict[str, None] = {}
        for part in plan_parts(plan):
            if plan_class_name(part) == "CompoundBody":
                continue
            relations = find_relations(jvm, part)
            names |= dict.fromkeys(parts[0] for *_, parts in relations if len(parts) == 1)
        exists = self._session.catalog.tableExists
        return [name for name in names if not exists(quote_name(name))]

    def _explain(self, error: AnalysisException) -> Exception:
        """Return a clearer error for a statement that a stream does not allow, or the error."""
        if not self._registered or error.getCondition() != _TEMPORARY_REFERENCE:
            return error
        stream = next(iter(self._registered))
        return InvalidStream(
            f"A permanent view or function cannot read {stream}, because it is a stream: only you"
            " can use it. Create a temporary view instead (CREATE TEMPORARY VIEW … AS …), or"
            " another stream (CREATE STREAM … AS …)."
        )


def _find_missing_name(session: SparkSession, error: AnalysisException) -> str | None:
    """Return the name that Spark has not found in the current namespace; None for another error."""
    if error.getCondition() != _NOT_FOUND:
        return None
    written = str((error.getMessageParameters() or {}).get("relationName", ""))
    parts = [unquote_name(part) for part in _PART.findall(written)]
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
    if not isinstance(error, AnalysisException) or _ENDLESS not in str(error):
        return error
    return InvalidStream(
        "The statement reads a stream, whose rows have no end, so that it can neither return nor"
        " insert them. Start a query that runs until you stop it: SAVE STREAM name TO console, or"
        " TO TABLE t. To read the rows that are available now: SET"
        f" {CTAS_TRIGGER.key} = available now, then CREATE TABLE t AS SELECT …"
    )


def _check_is_read(session: SparkSession, text: str, name: str) -> None:
    """Raise InvalidStream if a statement changes, and does not read, the object with a name."""
    jvm = Py4JBridge(session)
    plan = jvm.state.sqlParser().parsePlan(text)
    kind = plan_class_name(plan)
    if kind in _ROW_CHANGES:
        is_read = not _names_target(jvm, plan, kind, name)
    else:
        is_read = kind in _READERS or not _is_command(jvm, plan)
    if not is_read:
        raise InvalidStream(
            f"{name} is a stream, and the statement needs a table or view. Change a stream with"
            f" CREATE OR REPLACE STREAM {quote_name(name)}, remove it with DROP STREAM"
            f" {quote_name(name)}, and read it with SAVE STREAM {quote_name(name)}."
        )
    if kind == "CreateViewCommand" and _created_name(plan).casefold() == name.casefold():
        raise InvalidStream(
            f"The view {name} would have the name of the stream that it reads. Choose another name."
        )


def _is_command(jvm: Py4JBridge, plan: Any) -> bool:
    return bool(jvm.type("java.lang.Class").forName(_COMMAND).isInstance(plan))


def _names_target(jvm: Py4JBridge, plan: Any, kind: str, name: str) -> bool:
    target = plan.targetTable() if kind == "MergeIntoTable" else plan.table()
    while plan_class_name(target) == "SubqueryAlias":
        target = target.child()
    if plan_class_name(target) != "UnresolvedRelation":
        return False
    parts = [str(part) for part in jvm.list_of(target.multipartIdentifier())]
    return [part.casefold() for part in parts] == [name.casefold()]


def _created_name(plan: Any) -> str:
    return str(plan.name().table())


def _copy_view(source: SparkSession, target: SparkSession, name: str) -> None:
    """Show the view of a session in another session, with the same rows."""
    jvm = Py4JBridge(target)
    plan = source.table(quote_name(name))._jdf.queryExecution().analyzed()  # noqa: SLF001 - not in PySpark's API
    jvm.singleton(_DATASET).ofRows(jvm.session, plan).createOrReplaceTempView(quote_name(name))
