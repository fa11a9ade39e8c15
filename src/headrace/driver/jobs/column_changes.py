"""Columns that a deployment takes away from tables, and the jobs, views and streams that need them.

Spark analyses the texts of a writer before and after the deployment: the difference of their
columns, applied to the columns of the catalog, is the change. Then it analyses each reader over an
empty temporary view that stands for the table and lacks the column. A reader that Spark refuses, or
whose rows lose the column too, needs the column. Nothing is run or written.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import DataType, StructField, StructType

from headrace.driver.ctas.view_switch import open_query, read_scope, set_scope
from headrace.driver.failures import describe_failure
from headrace.driver.spark_version.bridge import activate
from headrace.driver.spark_version.errors import is_lost_jvm
from headrace.driver.spark_version.plans import (
    Effect,
    WrittenColumns,
    analyse_statement,
    find_effect,
    find_relations,
)
from headrace.driver.streams.job_rows import open_job_rows, run_setup
from headrace.driver.streams.sources import open_source, register_streams
from headrace.driver.streams.spark_run import create_views
from headrace.driver.streams.supervised_query import RunFailed
from headrace.errors import HeadraceError
from headrace.grammar.clauses import qualified_name_to_sql
from headrace.grammar.materialized_views import CreateMaterializedView
from headrace.grammar.parse import parse
from headrace.grammar.quoting import quote_name
from headrace.grammar.stream_statements import CreateStreamAs, SaveStream
from headrace.model.failure import Failure
from headrace.model.job import METADATA_COLUMNS
from headrace.model.job_messages import (
    BrokenReader,
    CompareColumns,
    ComparedColumns,
    ReaderToAnalyse,
    TextsToAnalyse,
    WriterToCompare,
)
from headrace.model.materialized_view import NameScope
from headrace.model.run import RUN_PARAMETERS
from headrace.model.statement import Parameter
from headrace.model.stream_query import QuerySpec

_MAX_ANALYSES = 500
"""Largest number of analyses of one task."""
_MAX_COLUMNS = 20
"""Largest number of changed columns of one table that are followed."""
_PARAMETERS = [
    Parameter(name=name, value=None, type=type_) for name, type_ in RUN_PARAMETERS.items()
]
_MARKER = re.compile(rf":(?:{'|'.join(RUN_PARAMETERS)})\b")
_STALE = (
    "UNRESOLVED_COLUMN",
    "UNRESOLVED_FIELD",
    "UNRESOLVED_MAP_KEY",
    "FIELD_NOT_FOUND",
    "DATATYPE_MISMATCH",
    "INCOMPATIBLE_DATA_FOR_TABLE",
)
"""Beginnings of the conditions of errors that a changed column explains."""

TablePath = tuple[str, ...]
"""Catalog, namespace and name, in lower case."""


class _TextRefused(Exception):
    """Spark refuses a text."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class _TooManyAnalyses(Exception):
    """The task has made all its analyses."""


@dataclass(frozen=True, slots=True)
class _ColumnChange:
    name: str
    old_type: str
    new_type: str
    """"": the column is gone."""


@dataclass(frozen=True, slots=True)
class _TableChange:
    """Columns that a table loses or that change their types."""

    path: TablePath
    name: tuple[str, ...]
    """Name of the table as the text of the cause writes it."""
    cause: str
    columns: tuple[_ColumnChange, ...]

    @property
    def shown_name(self) -> str:
        return ".".join(self.name)


@dataclass(frozen=True, slots=True)
class _Overlay:
    """A temporary view that stands for a table."""

    path: TablePath
    view: str
    schema: StructType
    is_streaming: bool

    def register(self, session: SparkSession) -> None:
        frame = session.createDataFrame([], self.schema)
        if self.is_streaming:
            columns = (
                F.lit(None).cast(column.dataType).alias(column.name)
                for column in self.schema.fields
            )
            frame = session.readStream.format("rate").load().select(*columns)
        frame.createOrReplaceTempView(quote_name(self.view))

    def show_in(self, session: SparkSession, text: str) -> str:
        """Return a text that reads the view wherever it names the table with its qualifier.

        The text keeps its length, so that the positions of errors stay those of the user's text.
        """
        scope = read_scope(session)
        for start, stop, name in reversed(find_relations(session, _without_markers(text))):
            if len(name) > 1 and resolve_name(session, name, scope) == self.path:
                width = stop + 1 - start
                text = f"{text[:start]}{quote_name(self.view).ljust(width)}{text[stop + 1 :]}"
        return text


@dataclass(frozen=True, slots=True)
class _Output:
    """The columns that a text gives a table or view."""

    path: TablePath
    name: tuple[str, ...]
    columns: Mapping[str, tuple[str, str]]
    """Name and type by the name in lower case."""
    is_declared: bool
    """Whether the statement declares the table or view, and does not only write to it."""


@dataclass(slots=True)
class _OpenReader:
    """A reader, analysed over the tables of the catalog as they are."""

    index: int
    given: ReaderToAnalyse
    relations: set[TablePath] = field(default_factory=set)
    outputs: list[_Output] = field(default_factory=list)


def compare_columns(
    task: CompareColumns, clone_session: Callable[[], SparkSession]
) -> ComparedColumns:
    """Return the readers that need a column which the writers of a task take away."""
    comparison = _Comparison(task, clone_session)
    try:
        comparison.run()
    except _TooManyAnalyses:
        comparison.notes.append(
            f"the columns were compared by {_MAX_ANALYSES} analyses, and some readers are left out"
        )
    return ComparedColumns(broken=comparison.broken[:1000], notes=comparison.notes[:1000])


class _Comparison:
    def __init__(self, task: CompareColumns, clone_session: Callable[[], SparkSession]) -> None:
        self._task = task
        self._clone_session = clone_session
        self._left = _MAX_ANALYSES
        self._followed = set[tuple[TablePath, str]]()
        self.broken = list[BrokenReader]()
        self.notes = list[str]()

    def run(self) -> None:
        readers = [
            reader
            for index, given in enumerate(self._task.readers)
            for reader in [self._open_reader(index, given)]
            if reader is not None
        ]
        changes = deque(
            change for writer in self._task.writers for change in self._compare_writer(writer)
        )
        while changes:
            change = changes.popleft()
            for reader in readers:
                if change.path in reader.relations:
                    changes += self._follow(reader, change)

    def _open_reader(self, index: int, given: ReaderToAnalyse) -> _OpenReader | None:
        """Return a reader that Spark accepts as it is; None for another one, which is reported."""
        reader = _OpenReader(index, given)
        try:
            for texts in given.texts:
                reader.outputs += self._analyse(texts)
                reader.relations |= self._find_tables(texts)
        except _TextRefused as refused:
            failure = refused.failure
            if (failure.condition or "").startswith(_STALE):
                self.broken.append(
                    BrokenReader(
                        reader=index,
                        message=failure.message,
                        line=failure.line,
                        offset=failure.column,
                    )
                )
            else:
                self.notes.append(f"{given.kind} {given.name} was not analysed: {failure.message}")
            return None
        return reader

    def _compare_writer(self, writer: WriterToCompare) -> Iterator[_TableChange]:
        """Yield what a writer takes away from tables of the catalog."""
        try:
            before = [output for texts in writer.before for output in self._analyse(texts)]
            after = [output for texts in writer.after for output in self._analyse(texts)]
        except _TextRefused:
            # The check of the job, or its own analysis as a reader, says why.
            return
        for new in _merge(after):
            old = next((each for each in _merge(before) if _writes_alike(each, new)), None)
            if old is None:
                continue
            schema = self._find_table(new.name)
            if schema is None:
                continue
            present = {each.name.casefold(): each for each in schema.fields}
            yield from self._note_change(
                _TableChange(new.path, new.name, writer.name, tuple(_diff(present, old, new)))
            )

    def _note_change(self, change: _TableChange) -> Iterator[_TableChange]:
        """Yield the part of a change that was not followed before."""
        new = tuple(
            column
            for column in change.columns
            if (change.path, column.name.casefold()) not in self._followed
        )
        self._followed |= {(change.path, column.name.casefold()) for column in new}
        if len(new) > _MAX_COLUMNS:
            self.notes.append(
                f"{len(new)} columns of {change.shown_name} change, and the first {_MAX_COLUMNS}"
                " were followed"
            )
        if new:
            yield replace(change, columns=new[:_MAX_COLUMNS])

    def _follow(self, reader: _OpenReader, change: _TableChange) -> Iterator[_TableChange]:
        """Report the columns of a change that a reader needs. Yield what its own rows lose."""
        overlay = self._find_overlay(reader, change)
        if overlay is None:
            return
        for column in change.columns:
            failure, outputs = self._try_without(reader, overlay, column)
            lost = [
                output
                for before, output in zip(reader.outputs, outputs, strict=False)
                if column.name.casefold() in before.columns.keys() - output.columns.keys()
            ]
            if failure is None and not lost:
                continue
            self.broken.append(
                BrokenReader(
                    reader=reader.index,
                    cause=change.cause,
                    table=change.shown_name,
                    column=column.name,
                    old_type=column.old_type,
                    new_type=column.new_type,
                    line=None if failure is None else failure.line,
                    offset=None if failure is None else failure.column,
                )
            )
            for output in lost:
                if output.path:
                    yield from self._note_change(
                        _TableChange(output.path, output.name, reader.given.name, (column,))
                    )

    def _find_overlay(self, reader: _OpenReader, change: _TableChange) -> _Overlay | None:
        """Return what stands for a table without a change of what Spark says about a reader."""
        schema = self._find_table(change.name)
        if schema is None:
            return None
        for is_streaming in (False, True):
            overlay = _Overlay(change.path, change.path[-1], schema, is_streaming)
            try:
                outputs = [
                    out for texts in reader.given.texts for out in self._analyse(texts, overlay)
                ]
            except _TextRefused:
                continue
            if [each.columns for each in outputs] == [each.columns for each in reader.outputs]:
                return overlay
        self.notes.append(
            f"{reader.given.kind} {reader.given.name} reads {change.shown_name}, whose columns"
            f" {change.cause} changes, and could not be analysed with the changed columns"
        )
        return None

    def _try_without(
        self, reader: _OpenReader, overlay: _Overlay, column: _ColumnChange
    ) -> tuple[Failure | None, list[_Output]]:
        remaining = [
            each for each in overlay.schema.fields if each.name.casefold() != column.name.casefold()
        ]
        without = replace(overlay, schema=StructType(remaining))
        try:
            outputs = [out for texts in reader.given.texts for out in self._analyse(texts, without)]
        except _TextRefused as refused:
            return refused.failure, []
        return None, outputs

    def _find_table(self, name: Sequence[str]) -> StructType | None:
        """Return the columns of a table or view of the catalog, or None if there is none."""
        try:
            return self._open_session(TextsToAnalyse()).table(qualified_name_to_sql(name)).schema
        except PySparkException:
            return None

    def _open_session(self, texts: TextsToAnalyse) -> SparkSession:
        if self._left <= 0:
            raise _TooManyAnalyses
        self._left -= 1
        session = self._clone_session()
        activate(session)
        for key, value in texts.conf.items():
            session.conf.set(key, value)
        if texts.scope is not None:
            set_scope(session, texts.scope)
        return session

    def _analyse(self, texts: TextsToAnalyse, overlay: _Overlay | None = None) -> list[_Output]:
        """Return what texts give tables and views. Raise _TextRefused if Spark refuses them."""
        try:
            session = self._open_session(texts)
            if overlay is not None:
                overlay.register(session)
            if texts.query is None:
                return list(_analyse_statements(session, texts, overlay))
            frame = _open_query(session, texts.query, overlay)
        except (RunFailed, HeadraceError, PySparkException, Py4JError) as error:
            raise _refuse(error, "" if texts.query is None else texts.query.text) from error
        return [_describe_output(session, texts.target, frame)]

    def _find_tables(self, texts: TextsToAnalyse) -> set[TablePath]:
        session = self._open_session(texts)
        scope, found = read_scope(session), set[TablePath]()
        for text in _list_texts(texts):
            try:
                names = [name for *_, name in find_relations(session, _without_markers(text))]
            except PySparkException:
                # The statement is none of Spark's own.
                continue
            found |= {resolve_name(session, name, scope) for name in names}
        command = None if texts.query is None else parse(texts.query.text).command
        if isinstance(command, SaveStream):
            found.add(resolve_name(session, command.source, scope))
        return found


def resolve_name(session: SparkSession, name: Sequence[str], scope: NameScope) -> TablePath:
    """Return the catalog, the namespace and the name to which a name of a text refers."""
    first = name[0]
    is_catalog = first == "spark_catalog" or (
        session.conf.get(f"spark.sql.catalog.{first}", None) is not None
    )
    if len(name) == 1:
        full: tuple[str, ...] = (scope.catalog, *scope.namespace, first)
    else:
        full = tuple(name) if is_catalog else (scope.catalog, *name)
    return tuple(part.casefold() for part in full)


def _without_markers(text: str) -> str:
    """Return a text of the same length with NULL instead of the parameters of runs.

    Spark's parser refuses markers in the query of a CREATE VIEW.
    """
    return _MARKER.sub(lambda marker: "NULL".ljust(len(marker[0])), text)


def _list_texts(texts: TextsToAnalyse) -> Iterable[str]:
    yield from texts.setup
    yield from texts.statements
    spec = texts.query
    if spec is None:
        return
    yield from (view.query for view in spec.views)
    for definition in spec.definitions:
        command = parse(definition).command
        yield command.query if isinstance(command, CreateStreamAs) else definition
    command = parse(spec.text).command
    if isinstance(command, CreateMaterializedView):
        yield command.query
    if spec.rows is not None:
        yield from spec.rows.setup
        yield spec.rows.sql or ""


def _refuse(error: Exception, text: str) -> _TextRefused:
    """Return the failure of a text. Raise the error if the JVM is lost."""
    if is_lost_jvm(error):
        raise error
    if isinstance(error, RunFailed):
        return _TextRefused(error.failure)
    return _TextRefused(describe_failure(error, text))


def _analyse_statements(
    session: SparkSession, texts: TextsToAnalyse, overlay: _Overlay | None
) -> Iterator[_Output]:
    """Yield what statements give tables and views. Raise _TextRefused if Spark refuses one.

    Tables and views that the setup declares exist already: the refusal of a later statement, which
    has a position in the text of the author, comes first.
    """
    earlier: _TextRefused | None = None
    for number, written in enumerate([*texts.setup, *texts.statements]):
        text, is_setup = written, number < len(texts.setup)
        try:
            if overlay is not None:
                text = overlay.show_in(session, written)
            output = _run_or_analyse(session, text)
        except (PySparkException, Py4JError) as error:
            refused = _refuse(error, "" if is_setup else text)
            if not is_setup or find_effect(session, _without_markers(written)) is Effect.SESSION:
                raise refused from error
            earlier = earlier or refused
            continue
        if output is not None:
            yield _name_output(session, output, texts.target)
    if earlier is not None:
        raise earlier


def _run_or_analyse(session: SparkSession, text: str) -> WrittenColumns | None:
    """Return the columns of a statement.

    Run it, and return None, if it only defines something for the statements after it.
    """
    without_markers = _without_markers(text)
    if find_effect(session, without_markers) is Effect.SESSION:
        session.sql(without_markers)
        return None
    return analyse_statement(session, text, _PARAMETERS)


def _open_query(session: SparkSession, spec: QuerySpec, overlay: _Overlay | None) -> DataFrame:
    """Return the rows of a streaming query. Raises what Spark raises."""
    if overlay is not None:
        spec = _show_in_query(session, spec, overlay)
    command = parse(spec.text).command
    if isinstance(command, CreateMaterializedView):
        register_streams(session, spec.definitions)
        return open_query(session, spec.text, command)
    assert isinstance(command, SaveStream)
    if spec.rows is not None:
        run_setup(session, spec.rows.setup, spec.definitions, persists=False)
        return open_job_rows(session, spec, spec.rows, command)
    streams = register_streams(session, spec.definitions)
    create_views(session, spec.views)
    return open_source(session, command, streams)


def _show_in_query(session: SparkSession, spec: QuerySpec, overlay: _Overlay) -> QuerySpec:
    """Return a query that reads the view of an overlay instead of its table."""
    definitions, command = list[str](), parse(spec.text).command
    for definition in spec.definitions:
        stream = parse(definition).command
        if isinstance(stream, CreateStreamAs):
            shown = replace(stream, query=overlay.show_in(session, stream.query))
            definitions.append(shown.to_sql())
        else:
            definitions.append(definition)
    text, rows = spec.text, spec.rows
    if isinstance(command, CreateMaterializedView):
        begin = text.rindex(command.query)
        text = text[:begin] + overlay.show_in(session, command.query)
    elif isinstance(command, SaveStream):
        scope = read_scope(session)
        if resolve_name(session, command.source, scope) == overlay.path:
            text = replace(command, source=(overlay.view,), query_name=command.name).to_sql()
    if rows is not None:
        setup = [overlay.show_in(session, each) for each in rows.setup]
        sql = None if rows.sql is None else overlay.show_in(session, rows.sql)
        rows = rows.model_copy(update={"setup": setup, "sql": sql})
    return spec.model_copy(update={"text": text, "definitions": definitions, "rows": rows})


def _describe_output(session: SparkSession, target: Sequence[str], frame: DataFrame) -> _Output:
    columns = {
        each.name.casefold(): (each.name, each.dataType.simpleString())
        for each in frame.schema.fields
        if each.name not in METADATA_COLUMNS
    }
    return _name_output(session, WrittenColumns((), columns), target)


def _name_output(session: SparkSession, written: WrittenColumns, target: Sequence[str]) -> _Output:
    name = written.name or tuple(target)
    path = resolve_name(session, name, read_scope(session)) if name else ()
    return _Output(path, name, written.columns, is_declared=bool(written.name))


def _writes_alike(first: _Output, second: _Output) -> bool:
    return (first.path, first.is_declared) == (second.path, second.is_declared)


def _merge(outputs: Iterable[_Output]) -> list[_Output]:
    """Return what the texts of a job together give each table or view."""
    merged: dict[tuple[TablePath, bool], _Output] = {}
    for output in outputs:
        if output.path:
            first = merged.get((output.path, output.is_declared), output)
            columns = {**first.columns, **output.columns}
            merged[output.path, output.is_declared] = replace(output, columns=columns)
    return list(merged.values())


def _diff(
    present: Mapping[str, StructField], old: _Output, new: _Output
) -> Iterator[_ColumnChange]:
    """Yield the columns of a table that a writer gave, and does not give as the table has them."""
    for key, column in present.items():
        if key not in old.columns:
            continue
        before, after = old.columns[key][1], new.columns.get(key, ("", ""))[1]
        type_: DataType = column.dataType
        if after not in {before, type_.simpleString()}:
            yield _ColumnChange(column.name, type_.simpleString(), after)
